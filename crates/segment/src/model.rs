//! A model file, opened within limits, and its runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use gausset_io::atomic::plain_reason;
use gausset_io::units::one_line;
use gausset_io::{guard, input};
use rten::{Dimension, ModelOptions, RunOptions, ThreadPool, Value, op_registry};
use rten_tensor::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use crate::error::ModelError;
use crate::proto;

/// Name and version of the engine: part of everything that decides the bytes of masks.
pub const ENGINE: &str = "rten 0.27";
/// Longest model file and longest file beside it, bytes: what one Protocol Buffers message can hold.
const MAX_BYTES: u64 = 2 << 30;
/// Versions of the standard operators that the engine was made for.
const OPSETS: std::ops::RangeInclusive<u64> = 7..=24;
/// Most files beside a model.
const MAX_FILES: usize = 64;
/// How long a run goes on before the flag to stop is looked at.
const GLANCE: Duration = Duration::from_millis(20);

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
    inner: Arc<rten::Model>,
    /// Its inputs.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
    /// Hash (XXH3, 64 bits) of the model file and the files beside it.
    pub hash: String,
    /// Numbers in its weights.
    pub parameters: usize,
}

/// A thread to run models on. One run of one picture at a time.
#[derive(Clone, Debug)]
pub struct Runner(Arc<ThreadPool>);

impl Default for Runner {
    fn default() -> Self {
        Self(Arc::new(ThreadPool::with_num_threads(1)))
    }
}

impl Model {
    /// Opens a model file.
    ///
    /// # Errors
    /// A file that cannot be read, is no ONNX model or too large; operators or a version of them that the engine does
    /// not have; a file beside it that is missing, outside its folder or too short.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let bad = |what: String| ModelError::File { path: path.to_owned(), what };
        let data = input::read(path, MAX_BYTES).map_err(|e| bad(plain_reason(&e)))?;
        let facts = proto::scan(&data).map_err(|e| bad(e.to_string()))?;
        if !OPSETS.contains(&facts.opset) && facts.opset != 0 {
            let (first, last) = (OPSETS.start(), OPSETS.end());
            return Err(bad(format!(
                "is written for operators of version {} (expected {first} to {last}); export it with opset_version=17",
                facts.opset
            )));
        }
        let unknown: Vec<&str> =
            facts.operators.iter().map(String::as_str).filter(|name| !OPERATORS.contains(name)).collect();
        if !unknown.is_empty() {
            let mut names = unknown.iter().take(5).copied().collect::<Vec<_>>().join(", ");
            if unknown.len() > 5 {
                names += &format!(" and {} more", unknown.len() - 5);
            }
            return Err(ModelError::Operators { path: path.to_owned(), names: one_line(&names) });
        }
        let mut hash = Xxh3::new();
        hash.update(&data);
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
            beside.push((name.as_str(), weights));
        }
        let runner = Runner::default();
        let load = || {
            let mut options = ModelOptions::with_ops(registry());
            for (name, weights) in beside {
                options.external_data(name, weights);
            }
            options.load(data)
        };
        let loaded = runner.0.run(|| guard::run(load));
        let inner = match loaded {
            Ok(Ok(model)) => model,
            Ok(Err(e)) => return Err(bad(format!("cannot be used: {}", one_line(&e.to_string())))),
            Err(breakdown) => {
                return Err(bad(format!("cannot be used: the engine broke down ({breakdown})")));
            }
        };
        let inputs = ports(&inner, inner.input_ids(), None);
        // The engine forgets the names of outputs that never change.
        let outputs = ports(&inner, inner.output_ids(), Some(&facts.outputs));
        let hash = format!("{:016x}", hash.digest());
        let parameters = inner.total_params();
        Ok(Self { path: path.to_owned(), inner: Arc::new(inner), inputs, outputs, hash, parameters })
    }

    /// The file that it came from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs it on one input; returns the named outputs in this order.
    ///
    /// The run goes on beside the thread that waits for it, on the runner's: one that is given up ends with the program.
    ///
    /// # Errors
    /// The run fails, gives values that are not finite or takes longer than the limit; it was asked to stop.
    pub fn run(
        &self,
        runner: &Runner,
        (input, tensor): (&str, Tensor),
        outputs: &[&str],
        watch: Watch<'_>,
    ) -> Result<Vec<Tensor>, ModelError> {
        let bad = |what: String| ModelError::Run { path: self.path.clone(), what };
        let failed = |e: &dyn std::fmt::Display| bad(format!("a run failed: {}", one_line(&e.to_string())));
        let id = |ports: &[Port], ids: &[rten::NodeId], name: &str| {
            let at = ports.iter().position(|port| port.name == name);
            at.and_then(|at| ids.get(at).copied()).ok_or_else(|| bad(format!("has no `{name}`")))
        };
        let input = id(&self.inputs, self.inner.input_ids(), input)?;
        let of = |name: &&str| id(&self.outputs, self.inner.output_ids(), name);
        let ids = outputs.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let value = Value::from_shape(&tensor.shape, tensor.data).map_err(|e| failed(&e))?;
        let (send, receive) = mpsc::sync_channel(1);
        let (model, pool) = (Arc::clone(&self.inner), Arc::clone(&runner.0));
        let work = move || {
            let ran = pool.run(|| {
                let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&pool)));
                guard::run(|| model.run(vec![(input, value.into())], &ids, Some(options)))
            });
            let _ = send.send(ran.map(|ran| ran.map_err(|e| e.to_string())));
        };
        std::thread::Builder::new()
            .name("model".to_owned())
            .spawn(work)
            .map_err(|e| bad(format!("a run failed: no thread: {}", plain_reason(&e))))?;
        let begun = Instant::now();
        let values = loop {
            match receive.recv_timeout(GLANCE) {
                Ok(Ok(Ok(values))) => break values,
                Ok(Ok(Err(what))) => return Err(failed(&what)),
                Ok(Err(breakdown)) => {
                    return Err(bad(format!("a run failed: the engine broke down ({breakdown})")));
                }
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
        };
        let tensors = values.into_iter().zip(outputs).map(|(value, name)| {
            let tensor = floats(value).ok_or_else(|| {
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
}

/// Names and sides of inputs or outputs, with other `names` than the engine's if some are given.
fn ports(model: &rten::Model, ids: &[rten::NodeId], names: Option<&[String]>) -> Vec<Port> {
    let port = |(index, id): (usize, &rten::NodeId)| {
        let info = model.node_info(*id);
        let sides = info.as_ref().and_then(rten::NodeInfo::shape).unwrap_or_default();
        let shape = sides.into_iter().map(|side| match side {
            Dimension::Fixed(side) => Some(side),
            Dimension::Symbolic(_) => None,
        });
        let own = || info.as_ref().and_then(rten::NodeInfo::name).unwrap_or_default().to_owned();
        let name = names.and_then(|names| names.get(index).cloned()).unwrap_or_else(own);
        Port { name, shape: shape.collect() }
    };
    ids.iter().enumerate().map(port).collect()
}

fn floats(value: Value) -> Option<Tensor> {
    macro_rules! of {
        ($tensor:expr) => {{
            let tensor = $tensor;
            Tensor { shape: tensor.shape().to_vec(), data: tensor.iter().map(|&v| v as f32).collect() }
        }};
    }
    Some(match value {
        Value::FloatTensor(tensor) => Tensor { shape: tensor.shape().to_vec(), data: tensor.to_vec() },
        Value::Int32Tensor(tensor) => of!(tensor),
        Value::Int8Tensor(tensor) => of!(tensor),
        Value::UInt8Tensor(tensor) => of!(tensor),
        _ => return None,
    })
}

/// The operators that segmentation models need, and a registry of them; what is not named is not linked. Not among them:
/// NonMaxSuppression, whose overlap in rten 0.27 is the intersection over the box around both, not over their union.
macro_rules! operators {
    ($($name:ident),+ $(,)?) => {
        const OPERATORS: &[&str] = &["Constant", $(stringify!($name)),+];

        fn registry() -> rten::OpRegistry {
            op_registry!($($name),+)
        }
    };
}

operators!(
    Abs,
    Add,
    And,
    ArgMax,
    ArgMin,
    AveragePool,
    BatchNormalization,
    Cast,
    CastLike,
    Ceil,
    Clip,
    Concat,
    ConstantOfShape,
    Conv,
    ConvInteger,
    ConvTranspose,
    Cos,
    CumSum,
    DepthToSpace,
    DequantizeLinear,
    Div,
    DynamicQuantizeLinear,
    Einsum,
    Elu,
    Equal,
    Erf,
    Exp,
    Expand,
    EyeLike,
    Flatten,
    Floor,
    Gather,
    GatherElements,
    GatherND,
    Gelu,
    Gemm,
    GlobalAveragePool,
    Greater,
    GreaterOrEqual,
    GridSample,
    HardSigmoid,
    HardSwish,
    Identity,
    If,
    InstanceNormalization,
    IsInf,
    IsNaN,
    LayerNormalization,
    LeakyRelu,
    Less,
    LessOrEqual,
    Log,
    LogSoftmax,
    Loop,
    MatMul,
    MatMulInteger,
    Max,
    MaxPool,
    Mean,
    Min,
    Mod,
    Mul,
    Neg,
    NonZero,
    Not,
    OneHot,
    Or,
    PRelu,
    Pad,
    Pow,
    QuantizeLinear,
    Range,
    Reciprocal,
    ReduceL2,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Relu,
    Reshape,
    Resize,
    Round,
    ScatterElements,
    ScatterND,
    Shape,
    Sigmoid,
    Sign,
    Sin,
    Size,
    Slice,
    Softmax,
    Softplus,
    Split,
    Sqrt,
    Squeeze,
    Sub,
    Sum,
    Tanh,
    Tile,
    TopK,
    Transpose,
    Trilu,
    Unsqueeze,
    Upsample,
    Where,
    Xor,
);
