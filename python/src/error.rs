//! Failures of the library as exceptions of `gausset._errors`.

use gausset::io::catch_panic::catch;
use gausset::{Failure, FailureKind};
use pyo3::prelude::*;

/// The module that defines the exceptions.
const ERRORS: &str = "gausset._errors";

/// Code of a value that a call of Python cannot take.
const ARGUMENT: &str = "argument";

/// Code of a panic: a bug of Gausset.
const INTERNAL: &str = "internal";

/// The exception of a failure.
pub(crate) fn exception(py: Python<'_>, failure: impl Into<Failure>) -> PyErr {
    let failure = failure.into();
    let class = match (failure.code, failure.kind()) {
        (ARGUMENT, _) | (_, FailureKind::Options) => "ArgumentError",
        (INTERNAL | "loss", _) | (_, FailureKind::Stopped) => "GaussetError",
        (_, FailureKind::Memory) => "MemoryLimitError",
        (_, FailureKind::Device) => "DeviceError",
        // Files that are missing, damaged, in the way or not written.
        _ => "FileError",
    };
    let error = py.import(ERRORS).and_then(|errors| {
        errors.getattr(class)?.call1((settings_to_keywords(&failure.message), failure.code))
    });
    error.map_or_else(|error| error, PyErr::from_value)
}

/// The failure of an argument that has a wrong value.
pub(crate) fn argument(message: impl ToString) -> Failure {
    Failure::new(ARGUMENT, message)
}

/// Issues a warning of one line at the caller of the package.
pub(crate) fn warn(py: Python<'_>, line: &str) -> PyResult<()> {
    let category = py.import(ERRORS)?.getattr("GaussetWarning")?;
    // The frames of the package are 1; the caller's is 2.
    py.import("warnings")?.call_method1("warn", (settings_to_keywords(line), category, 2))?;
    Ok(())
}

/// The result of work, or a failure with code `internal` if it panicked.
pub(crate) fn unwind<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch(work).unwrap_or_else(|panic| Err(Failure::new(INTERNAL, format!("bug in Gausset: {panic}"))))
}

/// Does work without the interpreter, so that other threads of Python run meanwhile.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    py.detach(|| unwind(work)).map_err(|failure| exception(py, failure))
}

/// Replaces each setting in angle brackets by its keyword: `⟨max-memory⟩` by `max_memory`, `⟨strategy = mcmc⟩` by
/// `strategy='mcmc'`.
fn settings_to_keywords(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('⟨') {
        out.push_str(before);
        let setting = after.split_once('⟩').and_then(|(setting, end)| Some((keyword(setting)?, end)));
        rest = match setting {
            Some((keyword, end)) => {
                out.push_str(&keyword);
                end
            }
            // A bracket of a file name, for example.
            None => {
                out.push('⟨');
                after
            }
        };
    }
    out + rest
}

/// A key or an assignment as a keyword argument; `None` if the text is neither.
fn keyword(setting: &str) -> Option<String> {
    let (key, value) = match setting.split_once(" = ") {
        Some((key, value)) => (key, Some(value)),
        None => (setting, None),
    };
    let is_key = key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let key = is_key.then(|| key.replace('-', "_"))?;
    Some(match value {
        None => key,
        Some("true") => format!("{key}=True"),
        Some("false") => format!("{key}=False"),
        Some(value) if value.contains(' ') || value.parse::<f64>().is_ok() => format!("{key}={value}"),
        Some(value) => format!("{key}='{value}'"),
    })
}
