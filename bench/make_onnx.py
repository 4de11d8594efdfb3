"""Small networks without trained weights, and what ONNX Runtime answers to them: testdata/onnx.

    pip install onnx onnxruntime numpy
    python bench/make_onnx.py testdata/onnx
    python bench/make_onnx.py --large vit_s.onnx          # 90 MB, to measure speed; nothing of it is kept
    python bench/make_onnx.py --heads heads.onnx          # outputs alone, to measure all but the engine

Each net takes `x` [1, 3, 32, 32]; the test (crates/segment/tests/answers.rs) makes the same input: value k is
(7919 k mod 1000) / 1000. NAME.answers holds all outputs after each other, f32, little-endian. Outputs of the built-in
engine must be within 1e-5 of the largest value.
"""

import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SIDE = 32
rng = np.random.default_rng(24)


class Net:
    def __init__(self):
        self.nodes, self.weights, self.count = [], [], 0

    def constant(self, value):
        value = np.asarray(value)
        if value.dtype == np.float64:
            value = value.astype(np.float32)
        self.count += 1
        name = f"w{self.count}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def random(self, *shape, scale=None):
        scale = scale or 1.0 / np.sqrt(np.prod(shape[1:]) or 1)
        return self.constant(rng.normal(0, scale, shape))

    def add(self, operator, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"v{self.count}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def save(self, path, outputs):
        nodes = self.nodes + [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
        graph = helper.make_graph(nodes, path.stem, [x], info, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)
        count = 3 * SIDE * SIDE
        given = ((np.arange(count) * 7919 % 1000) / 1000).astype(np.float32).reshape(1, 3, SIDE, SIDE)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        answers = session.run(list(outputs), {"x": given})
        path.with_suffix(".answers").write_bytes(b"".join(a.astype("<f4").tobytes() for a in answers))
        print(path.name, path.stat().st_size, {n: a.shape for n, a in zip(outputs, answers)})


def convolutions(path):
    """Inverted residuals with squeeze and excitation, dilated convolutions, upsampling: a small LR-ASPP."""
    net = Net()
    conv = lambda x, i, o, k, **more: net.add(
        "Conv", x, net.random(o, i // more.get("group", 1), k, k), net.random(o), kernel_shape=[k, k], **more
    )
    x = net.add("HardSwish", conv("x", 3, 8, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    wide = net.add("Relu", conv(x, 8, 16, 1))
    deep = net.add("HardSwish", conv(wide, 16, 16, 5, group=16, pads=[2, 2, 2, 2]))
    squeeze = net.add("HardSigmoid", conv(net.add("GlobalAveragePool", deep), 16, 16, 1))
    deep = net.add("Mul", deep, squeeze)
    x = net.add("Add", x, conv(deep, 16, 8, 1))
    x = net.add("BatchNormalization", x, *[net.random(8) for _ in range(3)], net.constant(rng.uniform(0.5, 1, 8)))
    low = net.add("Relu", conv(x, 8, 8, 3, strides=[2, 2], dilations=[2, 2], pads=[2, 2, 2, 2]))
    up = net.add("ConvTranspose", low, net.random(8, 8, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
    logits = conv(net.add("Concat", up, x, axis=1), 16, 4, 1)
    sizes = net.constant(np.array([1, 4, 24, 24], np.int64))
    full = net.add("Resize", logits, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    net.save(path, {"masks": full, "softmax": net.add("Softmax", full, axis=1)})


def attention(path):
    """Two blocks of a vision transformer, queries with boxes, classes and masks: a small RF-DETR-Seg."""
    net = Net()
    d, n, q, c = 12, 64, 5, 3
    patches = net.add("Conv", "x", net.random(d, 3, 4, 4), net.random(d), kernel_shape=[4, 4], strides=[4, 4])
    tokens = net.add("Reshape", patches, net.constant(np.array([1, d, n], np.int64)))
    tokens = net.add("Add", net.add("Transpose", tokens, perm=[0, 2, 1]), net.random(n, d))

    def norm(x):
        return net.add("LayerNormalization", x, net.constant(np.ones(d)), net.random(d, scale=0.1), axis=-1)

    def attend(query, to):
        a, b, v = (net.add("MatMul", x, net.random(d, d)) for x in (query, to, to))
        scores = net.add("MatMul", a, net.add("Transpose", b, perm=[0, 2, 1]))
        shares = net.add("Softmax", net.add("Div", scores, net.constant(np.float32(3.5))), axis=-1)
        return net.add("MatMul", shares, v)

    def gelu(x):
        half = net.add("Erf", net.add("Div", x, net.constant(np.float32(np.sqrt(2)))))
        return net.add("Mul", net.add("Mul", x, net.add("Add", half, net.constant(np.float32(1)))), net.constant(np.float32(0.5)))

    for _ in range(2):
        tokens = net.add("Add", tokens, attend(norm(tokens), norm(tokens)))
        inner = gelu(net.add("MatMul", norm(tokens), net.random(d, 2 * d)))
        tokens = net.add("Add", tokens, net.add("MatMul", inner, net.random(2 * d, d)))
    queries = net.add("Expand", net.random(1, q, d), net.constant(np.array([1, q, d], np.int64)))
    queries = net.add("Add", queries, attend(queries, tokens))
    dets = net.add("Sigmoid", net.add("MatMul", queries, net.random(d, 4)))
    labels = net.add("MatMul", queries, net.random(d, c))
    masks = net.add("Einsum", queries, tokens, equation="bqd,bnd->bqn")
    masks = net.add("Reshape", masks, net.constant(np.array([1, q, 8, 8], np.int64)))
    # Deformable attention samples the patches at boxes.
    grid = net.add("Slice", dets, *[net.constant(np.array([v], np.int64)) for v in (0, 2, 2)])
    grid = net.add("Reshape", grid, net.constant(np.array([1, 1, q, 2], np.int64)))
    sampled = net.add("GridSample", patches, grid, mode="bilinear", padding_mode="zeros", align_corners=0)
    net.save(path, {"dets": dets, "labels": labels, "masks": masks, "sampled": sampled})


def sorting(path):
    """What heads of detectors do: the best of many, gathered and scattered."""
    net = Net()
    values = net.add("Conv", "x", net.random(6, 3, 4, 4), net.random(6), kernel_shape=[4, 4], strides=[4, 4])
    rows = net.add("Transpose", net.add("Reshape", values, net.constant(np.array([1, 6, 64], np.int64))), perm=[0, 2, 1])
    four, rest = net.add("Split", rows, net.constant(np.array([4, 2], np.int64)), outputs=2, axis=-1)
    scores = net.add("ReduceMax", net.add("Sigmoid", rest), axes=[2], keepdims=0)
    best, places = net.add("TopK", scores, net.constant(np.array([12], np.int64)), outputs=2, axis=1)
    index = net.add("Expand", net.add("Unsqueeze", places, net.constant(np.array([2], np.int64))), net.constant(np.array([1, 12, 4], np.int64)))
    boxes = net.add("GatherElements", net.add("Sigmoid", four), index, axis=1)
    place = net.add("Gather", places, net.constant(np.array(0, np.int64)), axis=0)
    spread = net.add("ScatterND", net.constant(np.zeros((64,), np.float32)), net.add("Unsqueeze", place, net.constant(np.array([1], np.int64))), net.add("Cast", place, to=TensorProto.FLOAT))
    net.save(path, {"boxes": boxes, "scores": best, "spread": spread})


def vit_small(path, side=312, patch=12, d=384, heads=6, depth=12, queries=100):
    """A ViT-S with queries on top, 18.7 GMAC and more, to measure speed: about as RF-DETR-Seg Nano, without its windows."""
    net, n, grid = Net(), (side // patch) ** 2, side // patch
    ints = lambda *values: net.constant(np.array(values, np.int64))
    x = net.add("Conv", "image", net.random(d, 3, patch, patch), net.random(d), kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = net.add("Transpose", net.add("Reshape", x, ints(1, d, n)), perm=[0, 2, 1])
    dense = lambda x, i, o: net.add("Add", net.add("MatMul", x, net.random(i, o, scale=i**-0.5)), net.random(o, scale=0.02))
    norm = lambda x: net.add("LayerNormalization", x, net.constant(np.ones(d)), net.constant(np.zeros(d)), axis=-1)
    split = lambda x, perm: net.add("Transpose", net.add("Reshape", x, ints(1, n, heads, d // heads)), perm=perm)
    for _ in range(depth):
        h = norm(x)
        q, k, v = (split(dense(h, d, d), perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = net.add("Mul", net.add("MatMul", q, k), net.constant(np.float32((d // heads) ** -0.5)))
        mixed = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = net.add("Add", x, dense(net.add("Reshape", mixed, ints(1, n, d)), d, d))
        h = dense(norm(x), d, 4 * d)
        gate = net.add("Add", net.add("Erf", net.add("Div", h, net.constant(np.float32(2**0.5)))), net.constant(np.float32(1)))
        x = net.add("Add", x, dense(net.add("Mul", h, gate), 4 * d, d))
    # Queries are the first tokens; their masks are products with the tokens of a finer grid.
    q = net.add("Slice", norm(x), ints(0), ints(queries), ints(1))
    fine = net.add("Reshape", net.add("Transpose", x, perm=[0, 2, 1]), ints(1, d, grid, grid))
    fine = net.add("Resize", fine, "", "", ints(1, d, side // 4, side // 4), mode="linear")
    masks = net.add("Einsum", q, fine, equation="bqd,bdhw->bqhw")
    named = {"dets": net.add("Sigmoid", dense(q, d, 4)), "labels": dense(q, d, 91), "masks": masks}
    nodes = net.nodes + [helper.make_node("Identity", [value], [name]) for name, value in named.items()]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in named]
    graph = helper.make_graph(nodes, "vit_small", [image], info, net.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {"image": rng.uniform(-1, 1, (1, 3, side, side)).astype(np.float32)}
    seconds = []
    for _ in range(5):
        before = time.process_time()
        session.run(None, given)
        seconds.append(time.process_time() - before)
    print(path.name, path.stat().st_size, f"ONNX Runtime, one thread: {min(seconds):.3f} CPU s a picture")


def heads(path, side=312, queries=100):
    """The outputs of RF-DETR-Seg Nano without a network: three persons in every view, to measure all but the engine."""
    net, s = Net(), side // 4
    labels = np.full((1, queries, 91), -6.0)
    labels[0, :3, 1] = 3.0
    y, x = np.mgrid[0:s, 0:s]
    discs = [(s / 4, s / 2, s / 6), (s / 2, s / 2, s / 8), (3 * s / 4, s / 3, s / 10)]
    masks = np.full((1, queries, s, s), -6.0)
    for k, (cx, cy, r) in enumerate(discs):
        masks[0, k] = 2 * (r - np.hypot(x - cx, y - cy))
    boxes = rng.uniform(0, 1, (1, queries, 4))
    # A share of the picture is in them, or an engine would fold everything.
    grey = net.add("Mul", net.add("ReduceMean", "image", keepdims=0), net.constant(np.float32(1e-6)))
    named = {n: net.add("Add", net.constant(v), grey) for n, v in {"dets": boxes, "labels": labels, "masks": masks}.items()}
    nodes = net.nodes + [helper.make_node("Identity", [value], [name]) for name, value in named.items()]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in named]
    graph = helper.make_graph(nodes, "heads", [image], info, net.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


if __name__ == "__main__":
    if sys.argv[1] == "--heads":
        heads(pathlib.Path(sys.argv[2]))
        sys.exit()
    if sys.argv[1] == "--large":
        vit_small(pathlib.Path(sys.argv[2]))
        sys.exit()
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (convolutions, attention, sorting):
        make(folder / f"{make.__name__}.onnx")
