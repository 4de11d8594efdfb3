//! The built-in engine: rten.

use std::path::Path;
use std::sync::Arc;

use gausset_io::text::one_line;
use rten::{
    DataType, Dimension, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueType,
    op_registry,
};
use rten_tensor::prelude::*;

use super::{IdlePool, ModelFiles, Network, NetworkError, Refusal, Tensor, TensorPort, Terminator};

/// Its name and version.
pub(super) const NAME: &str = "rten 0.27";
/// Supported versions of the standard operator set.
const OPSETS: std::ops::RangeInclusive<u64> = 7..=24;

/// A network in rten.
#[derive(Debug)]
pub(super) struct Rten {
    model: rten::Model,
    /// Thread pools with one thread, one for each concurrent run.
    pools: IdlePool<Arc<ThreadPool>>,
    /// Names of the outputs. The engine does not keep those of constant outputs.
    outputs: Vec<String>,
}

/// Checks whether rten can run a file.
pub(super) fn check(bundle: &ModelFiles) -> Result<(), Refusal> {
    let facts = &bundle.facts;
    if !OPSETS.contains(&facts.opset) && facts.opset != 0 {
        let (first, last) = (OPSETS.start(), OPSETS.end());
        return Err(Refusal::File(format!(
            "is written for operators of version {} (expected {first} to {last}); export it with opset_version=17",
            facts.opset
        )));
    }
    // rten only reads external files with these names, to avoid reading files that are not weights.
    let is_taken = |name: &&String| {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        !name.contains('/') && ["data", "onnx_data"].iter().any(|known| ending.starts_with(known))
    };
    if let Some(name) = facts.external_files.iter().find(|name| !is_taken(name)) {
        return Err(Refusal::File(format!(
            "names the file {} (expected NAME.data or NAME.onnx_data beside it); take ⟨mask-engine = onnxruntime⟩, or export it again",
            one_line(name)
        )));
    }
    let unknown = facts.operators.iter().filter(|name| !OPERATORS.contains(&name.as_str()));
    let unknown: Vec<String> = unknown.cloned().collect();
    if unknown.is_empty() { Ok(()) } else { Err(Refusal::Operators(unknown)) }
}

impl Rten {
    pub(super) fn load(bundle: ModelFiles) -> Result<Self, NetworkError> {
        let ModelFiles { facts, data, external: beside } = bundle;
        let mut options = ModelOptions::with_ops(registry());
        for (name, weights) in beside {
            options.external_data(&name, weights);
        }
        let model = options.load(data).map_err(NetworkError::engine)?;
        Ok(Self { model, pools: IdlePool::default(), outputs: facts.outputs })
    }

    fn value(&self, id: NodeId, tensor: Tensor) -> Result<Value, NetworkError> {
        let Tensor { shape, data } = tensor;
        let kind = self.model.node_info(id).and_then(|info| info.dtype());
        if kind == Some(ValueType::Tensor(DataType::Int32)) {
            let whole: Vec<i32> = data.iter().map(|v| *v as i32).collect();
            return Value::from_shape(&shape, whole).map_err(NetworkError::engine);
        }
        Value::from_shape(&shape, data).map_err(NetworkError::engine)
    }
}

/// A pool with one thread.
fn pool() -> Arc<ThreadPool> {
    Arc::new(ThreadPool::with_num_threads(1))
}

impl Network for Rten {
    fn inputs(&self) -> Vec<TensorPort> {
        ports(&self.model, self.model.input_ids(), None)
    }

    fn outputs(&self) -> Vec<TensorPort> {
        ports(&self.model, self.model.output_ids(), Some(&self.outputs))
    }

    fn run(
        &self,
        inputs: Vec<(usize, Tensor)>,
        outputs: &[usize],
        _halt: &Terminator,
    ) -> Result<Vec<Option<Tensor>>, NetworkError> {
        let of = |ids: &[NodeId], at: usize| ids.get(at).copied().ok_or(NetworkError::NoSuchPort);
        let mut given: Vec<(NodeId, ValueOrView<'_>)> = Vec::new();
        for (at, tensor) in inputs {
            let id = of(self.model.input_ids(), at)?;
            given.push((id, self.value(id, tensor)?.into()));
        }
        let ids = outputs.iter().map(|&at| of(self.model.output_ids(), at)).collect::<Result<Vec<_>, _>>()?;
        let pool = self.pools.take().unwrap_or_else(pool);
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&pool)));
        // Sorting runs on this thread, and computation on the pool's.
        let values = self.model.run(given, &ids, Some(options)).map_err(NetworkError::engine);
        self.pools.put(pool);
        let values = values?;
        Ok(values.into_iter().map(floats).collect())
    }
}

/// Names and shapes of inputs or outputs; `names` override those of the engine.
fn ports(model: &rten::Model, ids: &[NodeId], names: Option<&[String]>) -> Vec<TensorPort> {
    let port = |(index, id): (usize, &NodeId)| {
        let info = model.node_info(*id);
        let sides = info.as_ref().and_then(rten::NodeInfo::shape).unwrap_or_default();
        let shape = sides.into_iter().map(|side| match side {
            Dimension::Fixed(side) => Some(side),
            Dimension::Symbolic(_) => None,
        });
        let own = || info.as_ref().and_then(rten::NodeInfo::name).unwrap_or_default().to_owned();
        let name = names.and_then(|names| names.get(index).cloned()).unwrap_or_else(own);
        TensorPort { name, shape: shape.collect() }
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

/// The operators that segmentation models need, and a registry of them; other operators are not linked.
/// NonMaxSuppression is excluded: in rten 0.27 its overlap is the intersection over the bounding box of both boxes, not
/// over their union.
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
