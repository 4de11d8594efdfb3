//! A model file, opened within limits, and its runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use gausset_io::atomic::plain_reason;
use gausset_io::units::one_line;
use gausset_io::{guard, input};
use xxhash_rust::xxh3::Xxh3;

use crate::engine::{self, Bundle, Engine, Halt, Network, Port, Refusal, Tensor};
use crate::error::ModelError;
use crate::proto;

/// Longest model file and longest file beside it, bytes: what one Protocol Buffers message can hold.
const MAX_BYTES: u64 = 2 << 30;
/// Most files beside a model.
const MAX_FILES: usize = 64;
/// How long a run goes on before the flag to stop is looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a run that was told to end may take to do so.
const FAREWELL: Duration = Duration::from_secs(1);

/// Who waits for a run, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    /// Ends the wait when it is set.
    pub stop: &'a AtomicBool,
    /// Longest run.
    pub limit: Duration,
}

/// A model in memory.
#[derive(Clone, Debug)]
pub struct Model {
    path: PathBuf,
    network: Arc<dyn Network>,
    engine: Engine,
    /// Its inputs.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
    /// Hash (XXH3, 64 bits) of the model file and the files beside it.
    pub hash: String,
    /// Bytes of these files: its weights, and little else.
    pub bytes: u64,
}

impl Model {
    /// Opens a model file.
    ///
    /// # Errors
    /// A file that cannot be read, is no ONNX model or too large; operators or a version of them that the engine does
    /// not have; a file beside it that is missing, outside its folder or too short.
    pub fn open(path: &Path, engine: &Engine) -> Result<Self, ModelError> {
        let bad = |what: String| ModelError::File { path: path.to_owned(), what };
        let data = input::read(path, MAX_BYTES).map_err(|e| bad(plain_reason(&e)))?;
        let facts = proto::scan(&data).map_err(|e| bad(e.to_string()))?;
        let mut hash = Xxh3::new();
        hash.update(&data);
        let mut bytes = data.len() as u64;
        let mut beside = Vec::new();
        if facts.external.len() > MAX_FILES {
            return Err(bad(format!(
                "names {} files beside it (expected at most {MAX_FILES})",
                facts.external.len()
            )));
        }
        for name in &facts.external {
            let folder = path.parent().unwrap_or(Path::new(""));
            let file = input::inside(folder, name)
                .map_err(|e| bad(format!("names the file {}, which {e}", one_line(name))))?;
            let weights = input::read(&file, MAX_BYTES).map_err(|e| {
                let what = format!("names the file {}: {}", one_line(name), plain_reason(&e));
                bad(format!("{what}; keep the files of a model together"))
            })?;
            hash.update(&weights);
            bytes += weights.len() as u64;
            beside.push((name.clone(), weights));
        }
        let network = engine.load(Bundle { facts, data, beside }).map_err(|refusal| match refusal {
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

    /// The file that it came from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What runs it.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs it on inputs by their names; returns the named outputs in this order.
    ///
    /// The run goes on beside the thread that waits for it. One that is given up is told to end; where the engine cannot,
    /// it ends with the program.
    ///
    /// # Errors
    /// The run fails, gives values that are not finite or takes longer than the limit; it was asked to stop.
    pub fn run(
        &self,
        inputs: Vec<(&str, Tensor)>,
        outputs: &[&str],
        watch: Watch<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let bad = |what: String| ModelError::Run { path: self.path.clone(), what };
        let number = |ports: &[Port], name: &str| {
            let at = ports.iter().position(|port| port.name == name);
            at.ok_or_else(|| bad(format!("has no `{name}`")))
        };
        let given = inputs.into_iter().map(|(name, tensor)| Ok((number(&self.inputs, name)?, tensor)));
        let given = given.collect::<Result<Vec<_>, ModelError>>()?;
        let wanted = outputs.iter().map(|name| number(&self.outputs, name));
        let wanted = wanted.collect::<Result<Vec<_>, ModelError>>()?;
        let (send, receive) = mpsc::sync_channel(1);
        let (network, halt) = (Arc::clone(&self.network), Arc::new(Halt::default()));
        let end = Arc::clone(&halt);
        let work = move || {
            let _ = send.send(guard::run(|| network.run(given, &wanted, &end)));
        };
        engine::thread()
            .spawn(work)
            .map_err(|e| bad(format!("a run failed: no thread: {}", plain_reason(&e))))?;
        let ran = self.wait(&receive, watch).inspect_err(|_| {
            if halt.now() {
                let _ = receive.recv_timeout(FAREWELL);
            }
        })?;
        let values = match ran {
            Ok(Ok(values)) => values,
            Ok(Err(what)) => return Err(bad(format!("a run failed: {}", one_line(&what)))),
            Err(breakdown) => return Err(bad(format!("a run failed: the engine broke down ({breakdown})"))),
        };
        let tensors = values.into_iter().zip(outputs).map(|(tensor, name)| {
            let tensor = tensor.ok_or_else(|| {
                bad(format!("output `{name}` is no tensor of numbers that masks are made of"))
            })?;
            if tensor.data.iter().all(|v| v.is_finite()) {
                Ok(tensor)
            } else {
                Err(bad(format!("output `{name}` has values that are not finite; export the model again")))
            }
        });
        tensors.collect()
    }

    /// What a run sends, as long as it is waited for.
    fn wait<T>(&self, receive: &Receiver<T>, watch: Watch<'_>) -> Result<T, ModelError> {
        let bad = |what: String| ModelError::Run { path: self.path.clone(), what };
        let begun = Instant::now();
        loop {
            match receive.recv_timeout(GLANCE) {
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
                        "a picture took longer than {seconds} s; raise ⟨model-timeout⟩, or take a smaller model"
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
