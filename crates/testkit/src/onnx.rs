//! ONNX files without trained weights, written byte by byte: small networks with known results.
//!
//! Field numbers: `onnx.proto` of ONNX 1.19. ModelProto: ir_version 1, graph 7, opset_import 8. GraphProto: node 1, name 2,
//! initializer 5, input 11, output 12. NodeProto: input 1, output 2, op_type 4, attribute 5, domain 7. TensorProto: dims 1,
//! data_type 2, name 8, raw_data 9, external_data 13, data_location 14.

/// Version of the standard operators that networks are written for.
const OPSET: u64 = 17;

/// Values of a constant.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// 32-bit floats.
    Floats(&'a [f32]),
    /// 64-bit integers.
    Integers(&'a [i64]),
    /// In a file with this name next to the model.
    External(&'a str),
}

/// TensorProto.DataType of 32-bit floats and of 64-bit integers.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

impl Weights<'_> {
    fn kind(self) -> u64 {
        if matches!(self, Self::Integers(_)) { INT64 } else { FLOAT }
    }
}

/// An attribute of a node.
#[derive(Clone, Copy, Debug)]
pub enum Attribute<'a> {
    /// An integer.
    Integer(&'a str, i64),
    /// A list of integers.
    Integers(&'a str, &'a [i64]),
    /// A string.
    Text(&'a str, &'a str),
    /// A graph, such as the bodies of `If` and `Loop`.
    Graph(&'a str, &'a TestNetwork),
}

/// A network with one input, built node by node.
#[derive(Clone, Debug, Default)]
pub struct TestNetwork {
    graph: Vec<u8>,
    opset: u64,
}

impl TestNetwork {
    /// A network with an input of floats; a side of -1 is not fixed.
    #[must_use]
    pub fn new(input: &str, shape: &[i64]) -> Self {
        let mut graph = Vec::new();
        bytes(&mut graph, 2, b"net");
        bytes(&mut graph, 11, &value_info(input, FLOAT, shape));
        Self { graph, opset: OPSET }
    }

    /// Adds an input of floats.
    pub fn input(&mut self, name: &str, shape: &[i64]) {
        bytes(&mut self.graph, 11, &value_info(name, FLOAT, shape));
    }

    /// Sets another version of the operators.
    #[must_use]
    pub fn with_opset(self, opset: u64) -> Self {
        Self { opset, ..self }
    }

    /// Adds a constant.
    pub fn weights(&mut self, name: &str, shape: &[i64], weights: Weights<'_>) {
        let mut tensor = Vec::new();
        for &side in shape {
            number(&mut tensor, 1, side as u64);
        }
        number(&mut tensor, 2, weights.kind());
        bytes(&mut tensor, 8, name.as_bytes());
        match weights {
            Weights::Floats(values) => {
                let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                bytes(&mut tensor, 9, &raw);
            }
            Weights::Integers(values) => {
                let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                bytes(&mut tensor, 9, &raw);
            }
            Weights::External(file) => {
                let length = (4 * shape.iter().product::<i64>()).to_string();
                for (key, value) in [("location", file), ("offset", "0"), ("length", length.as_str())] {
                    let mut entry = Vec::new();
                    bytes(&mut entry, 1, key.as_bytes());
                    bytes(&mut entry, 2, value.as_bytes());
                    bytes(&mut tensor, 13, &entry);
                }
                number(&mut tensor, 14, 1);
            }
        }
        bytes(&mut self.graph, 5, &tensor);
    }

    /// Adds a standard operator.
    pub fn node(&mut self, operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[Attribute<'_>]) {
        let mut node = node_of(operator, inputs, outputs);
        for attribute in attributes {
            bytes(&mut node, 5, &attribute_of(attribute));
        }
        bytes(&mut self.graph, 1, &node);
    }

    /// Adds a custom operator.
    pub fn custom_node(&mut self, domain: &str, operator: &str, inputs: &[&str], outputs: &[&str]) {
        let mut node = node_of(operator, inputs, outputs);
        bytes(&mut node, 7, domain.as_bytes());
        bytes(&mut self.graph, 1, &node);
    }

    /// Makes a value an output, without a declared shape.
    pub fn output(&mut self, name: &str) {
        self.output_of(name, FLOAT);
    }

    fn output_of(&mut self, name: &str, kind: u64) {
        bytes(&mut self.graph, 12, &value_info(name, kind, &[]));
    }

    /// Makes a value an output whose type is a sequence nested `depth` times.
    pub fn nested_output(&mut self, name: &str, depth: usize) {
        let mut kind = Vec::new();
        for _ in 0..depth {
            let mut sequence = Vec::new();
            bytes(&mut sequence, 1, &kind);
            kind.clear();
            bytes(&mut kind, 4, &sequence);
        }
        let mut info = Vec::new();
        bytes(&mut info, 1, name.as_bytes());
        bytes(&mut info, 2, &kind);
        bytes(&mut self.graph, 12, &info);
    }

    /// Adds a chain of `count` operators from one value to another.
    pub fn operator_chain(&mut self, operator: &str, from: &str, to: &str, count: usize) {
        let value = |k| {
            if k == 0 {
                from.to_owned()
            } else if k == count {
                to.to_owned()
            } else {
                format!("{to}{k}")
            }
        };
        (0..count).for_each(|k| self.node(operator, &[&value(k)], &[&value(k + 1)], &[]));
    }

    /// Makes a constant an output, independent of the input.
    pub fn constant_output(&mut self, name: &str, shape: &[i64], weights: Weights<'_>) {
        let inner = format!("{name}_value");
        self.weights(&inner, shape, weights);
        self.node("Identity", &[&inner], &[name], &[]);
        self.output_of(name, weights.kind());
    }

    /// The content of the file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let (mut model, mut import) = (Vec::new(), Vec::new());
        number(&mut import, 2, self.opset);
        number(&mut model, 1, 8);
        bytes(&mut model, 8, &import);
        bytes(&mut model, 7, &self.graph);
        model
    }

    /// A network that segments red: a 1x1 convolution of the colours (0..1) and a sigmoid, as `mask` [1, 1, h, w].
    #[must_use]
    pub fn red_segmenter(side: i64) -> Self {
        let mut net = Self::new("image", &[1, 3, side, side]);
        // 0 if red is 0.5 above the mean of the others, ±10 at a quarter more or less.
        net.weights("w", &[1, 3, 1, 1], Weights::Floats(&[40.0, -20.0, -20.0]));
        net.weights("b", &[1], Weights::Floats(&[-20.0]));
        let attributes = [
            Attribute::Integers("kernel_shape", &[1, 1]),
            Attribute::Integers("strides", &[1, 1]),
            Attribute::Integers("pads", &[0, 0, 0, 0]),
            Attribute::Integers("dilations", &[1, 1]),
        ];
        net.node("Conv", &["image", "w", "b"], &["logit"], &attributes);
        net.node("Sigmoid", &["logit"], &["mask"], &[]);
        net.output("mask");
        net
    }
}

fn node_of(operator: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let mut node = Vec::new();
    inputs.iter().for_each(|name| bytes(&mut node, 1, name.as_bytes()));
    outputs.iter().for_each(|name| bytes(&mut node, 2, name.as_bytes()));
    bytes(&mut node, 4, operator.as_bytes());
    node
}

/// AttributeProto: name 1, i 3, s 4, g 6, ints 8, type 20 (INT 2, STRING 3, GRAPH 5, INTS 7).
fn attribute_of(attribute: &Attribute<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut named = |name: &str, kind: u64| {
        bytes(&mut out, 1, name.as_bytes());
        number(&mut out, 20, kind);
    };
    match *attribute {
        Attribute::Integer(name, value) => {
            named(name, 2);
            number(&mut out, 3, value as u64);
        }
        Attribute::Integers(name, values) => {
            named(name, 7);
            values.iter().for_each(|&value| number(&mut out, 8, value as u64));
        }
        Attribute::Text(name, value) => {
            named(name, 3);
            bytes(&mut out, 4, value.as_bytes());
        }
        Attribute::Graph(name, net) => {
            named(name, 5);
            bytes(&mut out, 6, &net.graph);
        }
    }
    out
}

/// ValueInfoProto: name 1, type 2 { tensor_type 1 { elem_type 1, shape 2 { dim 1 { dim_value 1 | dim_param 2 } } } }.
fn value_info(name: &str, elements: u64, shape: &[i64]) -> Vec<u8> {
    let mut dims = Vec::new();
    for &side in shape {
        let mut dim = Vec::new();
        if side < 0 {
            bytes(&mut dim, 2, b"any");
        } else {
            number(&mut dim, 1, side as u64);
        }
        bytes(&mut dims, 1, &dim);
    }
    let (mut tensor, mut kind, mut info) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut tensor, 1, elements);
    if !shape.is_empty() {
        bytes(&mut tensor, 2, &dims);
    }
    bytes(&mut kind, 1, &tensor);
    bytes(&mut info, 1, name.as_bytes());
    bytes(&mut info, 2, &kind);
    info
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}
