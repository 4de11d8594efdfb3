//! Who runs networks: the built-in engine, or ONNX Runtime where it is asked for. Behind [`Network`] they are alike: one
//! run of one picture on one thread, tensors of floats in and out. Nothing else knows which engine it is.

#[cfg(feature = "onnxruntime")]
mod library;
#[cfg(feature = "onnxruntime")]
mod onnxruntime;
mod rten;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;

use gausset_io::atomic::plain_reason;
use gausset_io::guard;
use gausset_io::units::one_line;

#[cfg(feature = "onnxruntime")]
pub use library::{LIBRARY_VARIABLE, LibraryChoice, PYTHON_VARIABLE};

use crate::proto::{Facts, MAX_OPERATORS};
use crate::segmenter::Memory;

/// Stack of the threads on which engines load and order a network, bytes. rten 0.27 descends a level for each operator in
/// a row, of 175 to 350 bytes: 6,000 of them fit into 2 MiB, 12,000 do not.
pub(crate) const STACK_BYTES: usize = MAX_OPERATORS * 1600;

/// A tensor of floats; whole numbers and truth values are floats too.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Sides, slowest first.
    pub shape: Vec<usize>,
    /// Values.
    pub data: Vec<f32>,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its sides, as far as they are fixed; empty where nothing is said.
    pub shape: Vec<Option<usize>>,
}

/// What runs models.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Engine {
    /// The one that is built in.
    #[default]
    Rten,
    /// A library of the machine.
    #[cfg(feature = "onnxruntime")]
    OnnxRuntime(Runtime),
}

/// ONNX Runtime, loaded.
#[cfg(feature = "onnxruntime")]
#[derive(Clone, Copy, Debug)]
pub struct Runtime(&'static onnxruntime::Loaded);

impl Engine {
    /// ONNX Runtime; its library is loaded once, for as long as the program lives.
    ///
    /// # Errors
    /// There is no library, none that can be loaded, or one that is too old; another one was loaded before.
    #[cfg(feature = "onnxruntime")]
    pub fn onnx_runtime(
        choice: &LibraryChoice,
        stop: &std::sync::atomic::AtomicBool,
    ) -> Result<Self, crate::ModelError> {
        let path = library::find(choice, stop)?;
        onnxruntime::load(&path).map(|loaded| Self::OnnxRuntime(Runtime(loaded)))
    }

    /// Its name and version: part of everything that decides the bytes of masks.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rten => rten::NAME,
            #[cfg(feature = "onnxruntime")]
            Self::OnnxRuntime(Runtime(loaded)) => &loaded.name,
        }
    }

    /// Makes a network of a file.
    pub(crate) fn load(&self, bundle: Bundle) -> Result<Arc<dyn Network>, Refusal> {
        if let Self::Rten = self {
            rten::check(&bundle)?;
        }
        let load = || -> Result<Arc<dyn Network>, String> {
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
            let thread = thread().spawn_scoped(scope, || guard::run(load));
            let thread = thread.map_err(|e| bad(format!("no thread: {}", plain_reason(&e))))?;
            thread.join().map_err(|_| bad("its thread broke down".to_owned()))
        })?;
        match loaded {
            Ok(loaded) => loaded.map_err(|what| bad(one_line(&what))),
            Err(breakdown) => Err(bad(format!("the engine broke down ({breakdown})"))),
        }
    }

    /// What weights of so many bytes take: rten shares the file; ONNX Runtime keeps it, and in each session the weights
    /// and their packed form.
    pub(crate) fn weights(&self, bytes: u64) -> Memory {
        match self {
            Self::Rten => Memory { shared: bytes, each: 0 },
            #[cfg(feature = "onnxruntime")]
            Self::OnnxRuntime(_) => Memory { shared: bytes, each: 2 * bytes },
        }
    }
}

/// A thread for a model, with a stack that fits the longest.
pub(crate) fn thread() -> Builder {
    Builder::new().name("model".to_owned()).stack_size(STACK_BYTES)
}

/// A model file and those beside it.
pub(crate) struct Bundle {
    pub facts: Facts,
    pub data: Vec<u8>,
    /// By the names in the model.
    pub beside: Vec<(String, Vec<u8>)>,
}

/// Why an engine does not take a file.
pub(crate) enum Refusal {
    File(String),
    /// Operators that it lacks, by their names.
    Operators(Vec<String>),
}

/// A network in an engine.
pub(crate) trait Network: Debug + Send + Sync {
    fn inputs(&self) -> Vec<Port>;
    fn outputs(&self) -> Vec<Port>;
    /// Runs it on one thread, with tensors for inputs by their numbers; `None` for an output that holds no numbers that
    /// masks are made of. An error is what the engine says.
    fn run(
        &self,
        inputs: Vec<(usize, Tensor)>,
        outputs: &[usize],
        halt: &Halt,
    ) -> Result<Vec<Option<Tensor>>, String>;
}

/// How a run is ended from another thread, where an engine can.
#[derive(Default)]
pub(crate) struct Halt(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl Halt {
    /// Whether the run was told to end.
    pub(crate) fn now(&self) -> bool {
        self.0.get().map(|end| end()).is_some()
    }

    #[cfg(feature = "onnxruntime")]
    fn by(&self, end: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(end));
    }
}

/// What each run needs one of, kept between runs.
#[derive(Debug)]
struct Idle<T>(Mutex<Vec<T>>);

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> Idle<T> {
    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give(&self, one: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }
}
