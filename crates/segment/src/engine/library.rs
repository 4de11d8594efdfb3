//! Finds the library of ONNX Runtime: only at places that the user configured, never in the working folder.
//!
//! Order: `--onnx-library`, `ORT_DYLIB_PATH`, the `onnxruntime` package of a Python: `--python`, `GAUSSET_PYTHON`,
//! `python3` and `python` in PATH.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_io::text::one_line;
use gausset_process::{OutputStream, Program, find_program as in_path};

use crate::ModelError;

/// Environment variable that names the library; other programs use the same.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";
/// Environment variable that names a Python.
pub const PYTHON_VARIABLE: &str = "GAUSSET_PYTHON";
/// Time limit for asking Python.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Python code that prints where the package is, without executing any of it.
const FIND_PACKAGE: &str = "import importlib.util as u\ns = u.find_spec('onnxruntime')\n\
                   print('onnxruntime=' + (s.submodule_search_locations[0] if s else ''))";

/// Where to look for the library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryChoice {
    /// Path of the library.
    pub library: Option<PathBuf>,
    /// A Python that has the package.
    pub python: Option<PathBuf>,
}

impl LibraryChoice {
    /// The absolute path of the library.
    ///
    /// # Errors
    /// There is none, or `stop` is set.
    pub fn find(&self, stop: &AtomicBool) -> Result<PathBuf, ModelError> {
        if let Some(path) = &self.library {
            return named(path, "⟨onnx-library⟩");
        }
        if let Some(path) =
            std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
        {
            if path.is_relative() {
                let what =
                    format!("{}: ONNX Runtime: expected a whole path in {LIBRARY_VARIABLE}", path.display());
                return Err(ModelError::Engine(what));
            }
            return named(&path, LIBRARY_VARIABLE);
        }
        let variable = || std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
        if let Some(python) = self.python.clone().or_else(variable) {
            return from_python(&python, stop);
        }
        let mut tried = None;
        for python in ["python3", "python"].iter().filter_map(|name| in_path(name)) {
            match from_python(&python, stop) {
                Err(error) if error != ModelError::Stopped => tried = tried.or(Some(error)),
                found => return found,
            }
        }
        let tried = tried.map_or_else(String::new, |error| format!(" ({error})"));
        Err(ModelError::Engine(format!(
            "ONNX Runtime: not found (expected ⟨onnx-library⟩, {LIBRARY_VARIABLE}, or a Python with the package onnxruntime); install it with: pip install onnxruntime{tried}"
        )))
    }
}

fn named(path: &Path, by: &str) -> Result<PathBuf, ModelError> {
    let bad = |what: &str| ModelError::Engine(format!("{}: ONNX Runtime: {what}", path.display()));
    let whole = std::path::absolute(path).map_err(|_| bad("is no path"))?;
    if whole.is_file() { Ok(whole) } else { Err(bad(&format!("no such file (named by {by})"))) }
}

/// The library in the `onnxruntime` package of a Python.
fn from_python(python: &Path, stop: &AtomicBool) -> Result<PathBuf, ModelError> {
    let shown = python.display();
    let mut folder = None;
    let mut on_line = |stream, line: &str| {
        if let (OutputStream::Out, Some(found)) = (stream, line.strip_prefix("onnxruntime=")) {
            folder = Some(PathBuf::from(found.trim_end()));
        }
    };
    let ran = Program::new(python).arg("-c").arg(FIND_PACKAGE).silence_limit(TIMEOUT).run(stop, &mut on_line);
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(ModelError::Stopped);
    }
    let folder = match (folder, ran) {
        (Some(folder), _) => folder,
        (None, Err(error)) => return Err(ModelError::Engine(one_line(&error.to_string()))),
        (None, Ok(_)) => {
            return Err(ModelError::Engine(format!("{shown}: does not report where onnxruntime is")));
        }
    };
    if folder.is_relative() {
        return Err(ModelError::Engine(format!(
            "{shown}: onnxruntime: not installed; install it with: {shown} -m pip install onnxruntime"
        )));
    }
    let capi = folder.join("capi");
    let entries = std::fs::read_dir(&capi).into_iter().flatten().flatten();
    let mut libraries: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_library(path)).collect();
    libraries.sort();
    libraries.pop().ok_or_else(|| {
        ModelError::Engine(format!(
            "{}: ONNX Runtime: no library found (expected libonnxruntime.so or the like); {shown} -m pip install --upgrade onnxruntime",
            capi.display()
        ))
    })
}

/// Whether the file name is that of the library on Linux, macOS or Windows.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_unix = name.starts_with("libonnxruntime.") && (name.contains(".so") || name.ends_with(".dylib"));
    (is_unix || name == "onnxruntime.dll") && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names_and_what_is_beside_them_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let is = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, b"").unwrap();
            is_library(&path)
        };
        for name in [
            "libonnxruntime.so",
            "libonnxruntime.so.1.32.0",
            "libonnxruntime.1.32.0.dylib",
            "onnxruntime.dll",
        ] {
            assert!(is(name), "{name}");
        }
        for name in [
            "libonnxruntime_providers_shared.so",
            "onnxruntime_pybind11_state.so",
            "onnxruntime_providers_shared.dll",
        ] {
            assert!(!is(name), "{name}");
        }
        assert!(!is_library(&folder.path().join("absent/libonnxruntime.so")));
    }
}
