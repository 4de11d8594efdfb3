//! Inference engines: the built-in one, or ONNX Runtime if selected. [`Network`] hides the difference: one run of one
//! image on one thread, with float tensors in and out.

#[cfg(feature = "onnxruntime")]
mod library;
#[cfg(feature = "onnxruntime")]
mod onnxruntime;
mod rten;

use std::fmt::{Debug, Display};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;

use gausset_io::atomic::plain_reason;
use gausset_io::catch_panic;
use gausset_io::text::one_line;

#[cfg(feature = "onnxruntime")]
pub use library::{LIBRARY_VARIABLE, LibraryChoice, PYTHON_VARIABLE};

use crate::proto::{MAX_OPERATORS, OnnxInfo};
use crate::segmenter::ModelMemory;

/// Stack size of the threads on which engines load and sort a network, bytes. rten 0.27 recurses once per operator in a
/// chain, with 175 to 350 bytes each: 6,000 of them fit into 2 MiB, 12,000 do not.
pub(crate) const STACK_BYTES: usize = MAX_OPERATORS * 1600;

/// A float tensor; integers and booleans are converted to floats.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Values, the last dimension fastest.
    pub data: Vec<f32>,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPort {
    /// Its name in the model file.
    pub name: String,
    /// Its dimensions where they are fixed; empty if not declared.
    pub shape: Vec<Option<usize>>,
}

/// An inference engine.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum InferenceEngine {
    /// The built-in engine.
    #[default]
    Rten,
    /// ONNX Runtime, a library installed on this machine.
    #[cfg(feature = "onnxruntime")]
    OnnxRuntime(Runtime),
}

/// The loaded ONNX Runtime.
#[cfg(feature = "onnxruntime")]
#[derive(Clone, Copy, Debug)]
pub struct Runtime(&'static onnxruntime::LoadedLibrary);

impl InferenceEngine {
    /// Loads ONNX Runtime; the library is loaded once and stays loaded until the program ends.
    ///
    /// # Errors
    /// The library is not found, cannot be loaded or is too old; or another one was loaded before.
    #[cfg(feature = "onnxruntime")]
    pub fn onnx_runtime(
        choice: &LibraryChoice,
        stop: &std::sync::atomic::AtomicBool,
    ) -> Result<Self, crate::ModelError> {
        let path = choice.find(stop)?;
        onnxruntime::load(&path).map(|loaded| Self::OnnxRuntime(Runtime(loaded)))
    }

    /// Name and version; part of everything that determines the bytes of masks.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rten => rten::NAME,
            #[cfg(feature = "onnxruntime")]
            Self::OnnxRuntime(Runtime(loaded)) => &loaded.name,
        }
    }

    /// Loads a file as a network.
    pub(crate) fn load(&self, bundle: ModelFiles) -> Result<Arc<dyn Network>, Refusal> {
        if matches!(self, Self::Rten) {
            rten::check(&bundle)?;
        }
        let load = || -> Result<Arc<dyn Network>, NetworkError> {
            Ok(match self {
                Self::Rten => Arc::new(rten::Rten::load(bundle)?),
                #[cfg(feature = "onnxruntime")]
                Self::OnnxRuntime(Runtime(loaded)) => {
                    Arc::new(onnxruntime::OnnxRuntime::load(loaded, bundle)?)
                }
            })
        };
        let bad = |what: String| Refusal::File(format!("cannot be used: {what}"));
        let loaded = std::thread::scope(|scope| {
            let thread = model_thread().spawn_scoped(scope, || catch_panic::catch(load));
            let thread = thread.map_err(|e| bad(format!("no thread: {}", plain_reason(&e))))?;
            thread.join().map_err(|_| bad("its thread panicked".to_owned()))
        })?;
        match loaded {
            Ok(loaded) => loaded.map_err(|error| bad(one_line(&error.to_string()))),
            Err(breakdown) => Err(bad(format!("the engine panicked ({breakdown})"))),
        }
    }

    /// Memory of weights of this size: rten shares the file; ONNX Runtime keeps it, and each session holds the weights
    /// and their packed form.
    pub(crate) fn weight_memory(&self, bytes: u64) -> ModelMemory {
        match self {
            Self::Rten => ModelMemory { shared: bytes, per_run: 0 },
            #[cfg(feature = "onnxruntime")]
            Self::OnnxRuntime(_) => ModelMemory { shared: bytes, per_run: 2 * bytes },
        }
    }
}

/// A thread for a model, with a stack that is large enough for every accepted model.
pub(crate) fn model_thread() -> Builder {
    Builder::new().name("model".to_owned()).stack_size(STACK_BYTES)
}

/// A model file and its external files.
pub(crate) struct ModelFiles {
    pub facts: OnnxInfo,
    pub data: Vec<u8>,
    /// By their names in the model.
    pub external: Vec<(String, Vec<u8>)>,
}

/// Why an engine refuses a file.
pub(crate) enum Refusal {
    File(String),
    /// Names of operators that it does not support.
    Operators(Vec<String>),
}

/// Why an engine cannot load or run a network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    /// An index beyond the inputs or outputs.
    #[error("has no such input or output")]
    NoSuchPort,
    /// The engine's message. Its error is not kept, since it may hold memory of a library.
    #[error("{0}")]
    Engine(String),
}

impl NetworkError {
    fn engine(error: impl Display) -> Self {
        Self::Engine(error.to_string())
    }
}

/// A network loaded by an engine.
pub(crate) trait Network: Debug + Send + Sync {
    fn inputs(&self) -> Vec<TensorPort>;
    fn outputs(&self) -> Vec<TensorPort>;
    /// Runs it on one thread, with tensors for inputs by index; `None` for an output whose type masks cannot use.
    fn run(
        &self,
        inputs: Vec<(usize, Tensor)>,
        outputs: &[usize],
        halt: &Terminator,
    ) -> Result<Vec<Option<Tensor>>, NetworkError>;
}

/// Ends a run from another thread, if the engine supports it.
#[derive(Default)]
pub(crate) struct Terminator(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl Terminator {
    /// Ends the run. Returns whether the engine supports it.
    pub(crate) fn end_run(&self) -> bool {
        self.0.get().map(|end| end()).is_some()
    }

    #[cfg(feature = "onnxruntime")]
    fn set(&self, end: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(end));
    }
}

/// Reusable objects, of which each run needs one.
#[derive(Debug)]
struct IdlePool<T>(Mutex<Vec<T>>);

impl<T> Default for IdlePool<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> IdlePool<T> {
    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, one: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }
}
