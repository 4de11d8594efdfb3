//! ONNX Runtime, from a library installed on this machine.
//!
//! A session is never used by two threads at once (the C++ library guarantees that this is safe, but `ort` does not
//! rely on it), so each concurrent run has its own session with a copy of the weights; sessions are kept for later
//! runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gausset_io::catch_panic;
use gausset_io::text::one_line;
use ort::LoadDynamicError;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::{DynValue, Outlet, TensorElementType, ValueType};

use super::{IdlePool, ModelFiles, Network, NetworkError, Tensor, TensorPort, Terminator};
use crate::ModelError;

/// Oldest supported version, which introduced external files from memory.
const MIN_VERSION: &str = "1.18";

/// The library in memory.
#[derive(Debug)]
pub(crate) struct LoadedLibrary {
    path: PathBuf,
    environment: Environment,
    /// `ONNX Runtime`, its version, and the commit from its build info.
    pub(super) name: String,
}

/// Loads the library, or returns it if it is loaded already.
pub(super) fn load(path: &Path) -> Result<&'static LoadedLibrary, ModelError> {
    static LOADED: Mutex<Option<&'static LoadedLibrary>> = Mutex::new(None);
    let mut slot = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let bad = |what: String| ModelError::Engine(format!("{}: ONNX Runtime: {what}", path.display()));
    match *slot {
        Some(loaded) if loaded.path == path => return Ok(loaded),
        Some(loaded) => {
            return Err(bad(format!("another one is in use already ({})", loaded.path.display())));
        }
        None => {}
    }
    let opened = catch_panic::catch(|| {
        let builder = ort::init_from(path).map_err(|e| refusal(&e))?;
        // Official builds for Windows send telemetry unless it is disabled. Panics are returned as errors.
        let built = builder
            .with_name("gausset")
            .with_telemetry(false)
            .with_logger(Arc::new(|_, _, _, _, _| {}))
            .build();
        let environment = built.map_err(|e| format!("cannot be used: {}", one_line(&e.to_string())))?;
        environment.set_log_level(LogLevel::Fatal);
        let name = name(path, ort::info());
        Ok(LoadedLibrary { path: path.to_owned(), environment, name })
    });
    let opened = opened.unwrap_or_else(|breakdown| Err(format!("panicked ({breakdown})")));
    let loaded: &'static LoadedLibrary = Box::leak(Box::new(opened.map_err(bad)?));
    *slot = Some(loaded);
    Ok(loaded)
}

fn refusal(error: &LoadDynamicError) -> String {
    match error {
        LoadDynamicError::Dlopen { error, .. } => {
            format!("cannot be loaded: {}", one_line(&error.to_string()))
        }
        LoadDynamicError::MissingApi { .. } => "is another library (it has no OrtGetApiBase)".to_owned(),
        LoadDynamicError::BadVersion { version_str, .. } => format!(
            "version {} is too old (expected {MIN_VERSION} or later); pip install --upgrade onnxruntime",
            one_line(version_str)
        ),
        LoadDynamicError::InvalidVersionString => "reports no version".to_owned(),
    }
}

/// The version is part of the file name, `libonnxruntime.so.1.32.0`; the commit is in the build info: `ORT Build Info:
/// git-branch=rel-1.19.0, git-commit-id=26250ae, build type=Release, …`.
fn name(path: &Path, info: &str) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let real = real.file_name().unwrap_or_default().to_string_lossy();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let version: Vec<&str> = real.split('.').filter(digits).collect();
    let commit = info.split(", ").find_map(|fact| fact.strip_prefix("git-commit-id="));
    let mut name = "ONNX Runtime".to_owned();
    if !version.is_empty() {
        name += &format!(" {}", version.join("."));
    }
    if let Some(commit) = commit {
        name += &format!(" ({})", one_line(commit));
    }
    name
}

/// A network in ONNX Runtime.
#[derive(Debug)]
pub(super) struct OnnxRuntime {
    environment: &'static Environment,
    data: Vec<u8>,
    beside: Vec<(String, Arc<[u8]>)>,
    inputs: Vec<(TensorPort, TensorElementType)>,
    outputs: Vec<TensorPort>,
    sessions: IdlePool<Session>,
}

impl OnnxRuntime {
    pub(super) fn load(loaded: &'static LoadedLibrary, bundle: ModelFiles) -> Result<Self, NetworkError> {
        let mut network = Self {
            environment: &loaded.environment,
            data: bundle.data,
            beside: bundle.external.into_iter().map(|(name, weights)| (name, weights.into())).collect(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            sessions: IdlePool::default(),
        };
        let session = network.session()?;
        network.inputs = session.inputs().iter().map(|outlet| (port(outlet), element(outlet))).collect();
        network.outputs = session.outputs().iter().map(port).collect();
        network.sessions.put(session);
        Ok(network)
    }

    /// Creates a session whose runs use one thread.
    fn session(&self) -> Result<Session, NetworkError> {
        let builder = Session::builder(self.environment).map_err(NetworkError::engine)?;
        let builder = builder.with_intra_threads(1).map_err(NetworkError::engine)?;
        let builder = builder.with_inter_threads(1).map_err(NetworkError::engine)?;
        let mut builder = builder.with_deterministic_compute(true).map_err(NetworkError::engine)?;
        for (name, weights) in &self.beside {
            builder = builder
                .with_external_initializer_file_in_memory(name, Arc::clone(weights))
                .map_err(NetworkError::engine)?;
        }
        builder.commit_from_memory(&self.data).map_err(NetworkError::engine)
    }
}

impl Network for OnnxRuntime {
    fn inputs(&self) -> Vec<TensorPort> {
        self.inputs.iter().map(|(port, _)| port.clone()).collect()
    }

    fn outputs(&self) -> Vec<TensorPort> {
        self.outputs.clone()
    }

    fn run(
        &self,
        inputs: Vec<(usize, Tensor)>,
        outputs: &[usize],
        halt: &Terminator,
    ) -> Result<Vec<Option<Tensor>>, NetworkError> {
        let mut given: Vec<(&str, SessionInputValue<'_>)> = Vec::new();
        for (at, tensor) in inputs {
            let (port, kind) = self.inputs.get(at).ok_or(NetworkError::NoSuchPort)?;
            given.push((&port.name, value(tensor, *kind).map_err(NetworkError::engine)?.into()));
        }
        let name =
            |&at: &usize| self.outputs.get(at).map(|port| port.name.as_str()).ok_or(NetworkError::NoSuchPort);
        let names = outputs.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        let mut session = self.sessions.take().map_or_else(|| self.session(), Ok)?;
        // All outputs are requested, because a session runs the whole graph for any of them.
        let options = Arc::new(RunOptions::new().map_err(NetworkError::engine)?);
        let end = Arc::clone(&options);
        halt.set(move || {
            let _ = end.terminate();
        });
        let tensors = {
            let values = session.run_with_options(given, &options).map_err(NetworkError::engine)?;
            names.iter().map(|name| values.get(*name).and_then(floats)).collect()
        };
        self.sessions.put(session);
        Ok(tensors)
    }
}

fn port(outlet: &Outlet) -> TensorPort {
    let sides = match outlet.dtype() {
        ValueType::Tensor { shape, .. } => shape.iter().map(|&side| usize::try_from(side).ok()).collect(),
        _ => Vec::new(),
    };
    TensorPort { name: outlet.name().to_owned(), shape: sides }
}

fn element(outlet: &Outlet) -> TensorElementType {
    match outlet.dtype() {
        ValueType::Tensor { ty, .. } => *ty,
        _ => TensorElementType::Undefined,
    }
}

/// Converts a tensor to the element type of an input.
fn value(tensor: Tensor, kind: TensorElementType) -> ort::Result<DynValue> {
    let Tensor { shape, data } = tensor;
    macro_rules! of {
        ($kind:ty) => {{
            let whole: Vec<$kind> = data.into_iter().map(|v| v as $kind).collect();
            ort::value::Tensor::from_array((shape, whole)).map(ort::value::Value::into_dyn)
        }};
    }
    match kind {
        TensorElementType::Int32 => of!(i32),
        TensorElementType::Int64 => of!(i64),
        TensorElementType::Uint8 => of!(u8),
        TensorElementType::Float64 => of!(f64),
        _ => ort::value::Tensor::from_array((shape, data)).map(ort::value::Value::into_dyn),
    }
}

fn floats(value: &DynValue) -> Option<Tensor> {
    let ValueType::Tensor { ty, .. } = value.dtype() else { return None };
    macro_rules! of {
        ($kind:ty, $float:expr) => {{
            let (shape, data) = value.try_extract_tensor::<$kind>().ok()?;
            let shape = shape.iter().map(|&side| usize::try_from(side).ok()).collect::<Option<_>>()?;
            Tensor { shape, data: data.iter().map($float).collect() }
        }};
    }
    Some(match ty {
        TensorElementType::Float32 => of!(f32, |v| *v),
        TensorElementType::Float64 => of!(f64, |v| *v as f32),
        TensorElementType::Int64 => of!(i64, |v| *v as f32),
        TensorElementType::Int32 => of!(i32, |v| *v as f32),
        TensorElementType::Int8 => of!(i8, |v| f32::from(*v)),
        TensorElementType::Uint8 => of!(u8, |v| f32::from(*v)),
        TensorElementType::Bool => of!(bool, |v| f32::from(u8::from(*v))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_file_and_the_commit_that_of_the_build() {
        let info = "ORT Build Info: git-branch=rel-1.19.0, git-commit-id=26250ae, build type=Release";
        let of = |path: &str| name(Path::new(path), info);
        assert_eq!(of("/a/libonnxruntime.so.1.19.0"), "ONNX Runtime 1.19.0 (26250ae)");
        assert_eq!(of("/a/libonnxruntime.1.19.2.dylib"), "ONNX Runtime 1.19.2 (26250ae)");
        assert_eq!(of("/a/onnxruntime.dll"), "ONNX Runtime (26250ae)");
        assert_eq!(name(Path::new("/a/onnxruntime.dll"), "something else"), "ONNX Runtime");
    }
}
