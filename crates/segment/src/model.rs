//! Opens a model file within limits, and runs it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use gausset_io::atomic::plain_reason;
use gausset_io::text::one_line;
use gausset_io::{catch_panic, input};
use xxhash_rust::xxh3::Xxh3;

use crate::engine::{self, InferenceEngine, ModelFiles, Network, Refusal, Tensor, TensorPort, Terminator};
use crate::error::ModelError;
use crate::proto;

/// Largest size of a model file and of each external file, bytes: the limit of a Protocol Buffers message.
const MAX_BYTES: u64 = 2 << 30;
/// Largest number of external files.
const MAX_EXTERNAL_FILES: usize = 64;
/// Interval at which the stop flag is checked during a run.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for a run to end after its stop flag was set.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Stop flag and time limit of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits<'a> {
    /// Ends the run when it is set.
    pub stop: &'a AtomicBool,
    /// Time limit of a run.
    pub limit: Duration,
}

/// A model in memory.
#[derive(Clone, Debug)]
pub struct OnnxModel {
    path: PathBuf,
    network: Arc<dyn Network>,
    engine: InferenceEngine,
    /// Its inputs, as the engine reports them.
    pub inputs: Vec<TensorPort>,
    /// Its outputs, as the engine reports them.
    pub outputs: Vec<TensorPort>,
    /// Hash (XXH3, 64 bits) of the model file and its external files.
    pub hash: String,
    /// Total size of these files, bytes: approximately that of the weights.
    pub bytes: u64,
}

impl OnnxModel {
    /// Opens a model file.
    ///
    /// # Errors
    /// A file cannot be read, is not an ONNX model or is too large; the engine does not support its operators or their
    /// version; an external file is missing, outside the model's folder or too short.
    pub fn open(path: &Path, engine: &InferenceEngine) -> Result<Self, ModelError> {
        let bad = |what: String| ModelError::File { path: path.to_owned(), problem: what };
        let data = input::read(path, MAX_BYTES).map_err(|e| bad(plain_reason(&e)))?;
        let facts = proto::scan(&data).map_err(|e| bad(e.to_string()))?;
        let mut hash = Xxh3::new();
        hash.update(&data);
        let mut bytes = data.len() as u64;
        let mut beside = Vec::new();
        if facts.external_files.len() > MAX_EXTERNAL_FILES {
            return Err(bad(format!(
                "names {} files beside it (expected at most {MAX_EXTERNAL_FILES})",
                facts.external_files.len()
            )));
        }
        for name in &facts.external_files {
            let folder = path.parent().unwrap_or(Path::new(""));
            let file = input::resolve_inside(folder, name)
                .map_err(|e| bad(format!("names the file {}, which {e}", one_line(name))))?;
            let weights = input::read(&file, MAX_BYTES).map_err(|e| {
                let what = format!("names the file {}: {}", one_line(name), plain_reason(&e));
                bad(format!("{what}; keep the files of a model together"))
            })?;
            hash.update(&weights);
            bytes += weights.len() as u64;
            beside.push((name.clone(), weights));
        }
        let network =
            engine.load(ModelFiles { facts, data, external: beside }).map_err(|refusal| match refusal {
                Refusal::File(what) => bad(what),
                Refusal::Operators(names) => {
                    let mut some = names.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
                    if names.len() > 5 {
                        some += &format!(" and {} more", names.len() - 5);
                    }
                    ModelError::Operators { path: path.to_owned(), names: one_line(&some) }
                }
            })?;
        let hash = format!("{:016x}", hash.digest());
        let (inputs, outputs) = (network.inputs(), network.outputs());
        Ok(Self { path: path.to_owned(), network, engine: engine.clone(), inputs, outputs, hash, bytes })
    }

    /// Path of the model file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The engine that runs it.
    #[must_use]
    pub const fn engine(&self) -> &InferenceEngine {
        &self.engine
    }

    /// Runs the model on named inputs; returns the named outputs in this order.
    ///
    /// The run executes on another thread. If it is abandoned, it is requested to end; if the engine cannot end it, it
    /// runs until the program ends.
    ///
    /// # Errors
    /// The run fails, returns values that are not finite or exceeds the time limit; or the stop flag is set.
    pub fn run(
        &self,
        inputs: Vec<(&str, Tensor)>,
        outputs: &[&str],
        watch: RunLimits<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let bad = |what: String| ModelError::Run { path: self.path.clone(), problem: what };
        let number = |ports: &[TensorPort], name: &str| {
            let at = ports.iter().position(|port| port.name == name);
            at.ok_or_else(|| bad(format!("has no `{name}`")))
        };
        let given = inputs.into_iter().map(|(name, tensor)| Ok((number(&self.inputs, name)?, tensor)));
        let given = given.collect::<Result<Vec<_>, ModelError>>()?;
        let wanted = outputs.iter().map(|name| number(&self.outputs, name));
        let wanted = wanted.collect::<Result<Vec<_>, ModelError>>()?;
        let (send, receive) = mpsc::sync_channel(1);
        let (network, halt) = (Arc::clone(&self.network), Arc::new(Terminator::default()));
        let end = Arc::clone(&halt);
        let work = move || {
            let _ = send.send(catch_panic::catch(|| network.run(given, &wanted, &end)));
        };
        engine::model_thread()
            .spawn(work)
            .map_err(|e| bad(format!("a run failed: no thread: {}", plain_reason(&e))))?;
        let ran = self.wait(&receive, watch).inspect_err(|_| {
            if halt.end_run() {
                let _ = receive.recv_timeout(END_TIMEOUT);
            }
        })?;
        let values = match ran {
            Ok(Ok(values)) => values,
            Ok(Err(error)) => return Err(bad(format!("a run failed: {}", one_line(&error.to_string())))),
            Err(breakdown) => return Err(bad(format!("a run failed: the engine panicked ({breakdown})"))),
        };
        let tensors = values.into_iter().zip(outputs).map(|(tensor, name)| {
            let tensor = tensor.ok_or_else(|| {
                bad(format!("output `{name}` is not a tensor of a number type that masks can use"))
            })?;
            if tensor.data.iter().all(|v| v.is_finite()) {
                Ok(tensor)
            } else {
                Err(bad(format!("output `{name}` has values that are not finite; export the model again")))
            }
        });
        tensors.collect()
    }

    /// Waits for the result of a run, within the limits of `watch`.
    fn wait<T>(&self, receive: &Receiver<T>, watch: RunLimits<'_>) -> Result<T, ModelError> {
        let bad = |what: String| ModelError::Run { path: self.path.clone(), problem: what };
        let begun = Instant::now();
        loop {
            match receive.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok(sent) => return Ok(sent),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(bad("a run failed: its thread ended".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if watch.stop.load(Ordering::Relaxed) => {
                    return Err(ModelError::Stopped);
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > watch.limit => {
                    let seconds = watch.limit.as_secs();
                    return Err(bad(format!(
                        "an image took longer than {seconds} s; raise ⟨model-timeout⟩, or take a smaller model"
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
