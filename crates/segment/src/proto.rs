//! Requirements of an ONNX file: versions, operators, external files. They are read from its Protocol Buffers without
//! an engine, so that missing operators can be reported before the engine is started.
//!
//! Field numbers: `onnx.proto` of ONNX 1.19 (github.com/onnx/onnx). Wire: protobuf.dev/programming-guides/encoding.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::collections::BTreeSet;

/// Largest nesting of graphs and of types. Engines recurse once per level; rten without a limit.
const MAX_DEPTH: u32 = 16;
/// Largest number of operators outside of inner graphs. Segmentation networks have a few hundred to a few thousand; the
/// largest that exporters unroll have about 10,000. Engines recurse once per operator on the longest path, which cannot
/// be longer than this; their stack is sized for it ([`crate::engine::STACK_BYTES`]).
pub(crate) const MAX_OPERATORS: usize = 20_000;
/// Largest total number of operators in inner graphs (the bodies of `If` and `Loop`); real models have a few hundred.
/// rten 0.27 sorts a body when it first runs it, on its own thread with Rust's default stack of 2 MiB.
const MAX_INNER_OPERATORS: usize = 2000;

/// Properties of an ONNX file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnnxInfo {
    /// Version of the standard operator set; 0 = not declared.
    pub opset: u64,
    /// Names of its operators, with their domain if it is not the standard one.
    pub operators: BTreeSet<String>,
    /// Names of its outputs, in order.
    pub outputs: Vec<String>,
    /// Names of the external files with weights.
    pub external_files: BTreeSet<String>,
    /// Number of operators outside and inside of inner graphs.
    pub operator_counts: [usize; 2],
}

/// Why bytes are not an ONNX model that engines may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The first bytes are not those of an ONNX model.
    #[error("is not an ONNX model (expected a file that ends with .onnx, as exporters write it)")]
    NotAModel,
    /// It is truncated, or a length in it is wrong.
    #[error("is cut or damaged; copy or export it again")]
    Damaged,
    /// It has no graph.
    #[error("holds no graph (expected a network)")]
    Empty,
    /// Graphs or types are nested too deep.
    #[error("has graphs or types inside one another (expected at most {MAX_DEPTH} deep, found more)")]
    NestedTooDeep,
    /// More operators than the engines' stack allows.
    #[error("has too many operators (expected at most {MAX_OPERATORS}, found {0})")]
    TooManyOperators(usize),
    /// More operators in inner graphs than the engines' stack allows.
    #[error(
        "has too many operators in the bodies of If and Loop (expected at most {MAX_INNER_OPERATORS}, found {0})"
    )]
    TooManyInnerOperators(usize),
}

impl From<WireError> for OnnxError {
    fn from(WireError: WireError) -> Self {
        Self::Damaged
    }
}

/// Reads the properties of an ONNX file.
///
/// # Errors
/// The bytes are not an ONNX model, or it has more operators or deeper graphs or types than engines can process.
pub fn scan(data: &[u8]) -> Result<OnnxInfo, OnnxError> {
    // ModelProto: ir_version = 1 comes first in every file that exporters write.
    if data.first() != Some(&0x08) {
        return Err(OnnxError::NotAModel);
    }
    let mut facts = OnnxInfo::default();
    let mut has_graph = false;
    for field in Fields(data) {
        match field? {
            (7, Value::Bytes(graph)) => {
                has_graph = true;
                scan_graph(graph, &mut facts, 0)?;
            }
            (25, Value::Bytes(function)) => scan_function(function, &mut facts)?,
            (8, Value::Bytes(import)) => {
                let (domain, version) = opset(import)?;
                if domain.is_empty() || domain == "ai.onnx" {
                    facts.opset = version;
                }
            }
            _ => {}
        }
    }
    let [outer, inner] = facts.operator_counts;
    match () {
        () if !has_graph => Err(OnnxError::Empty),
        () if outer > MAX_OPERATORS => Err(OnnxError::TooManyOperators(outer)),
        () if inner > MAX_INNER_OPERATORS => Err(OnnxError::TooManyInnerOperators(inner)),
        () => Ok(facts),
    }
}

/// OperatorSetIdProto: domain = 1, version = 2.
fn opset(data: &[u8]) -> Result<(String, u64), WireError> {
    let (mut domain, mut version) = (String::new(), 0);
    for field in Fields(data) {
        match field? {
            (1, Value::Bytes(name)) => domain = text(name),
            (2, Value::Number(number)) => version = number,
            _ => {}
        }
    }
    Ok((domain, version))
}

/// GraphProto: node = 1, initializer = 5, input = 11, output = 12, value_info = 13.
fn scan_graph(data: &[u8], facts: &mut OnnxInfo, depth: u32) -> Result<(), OnnxError> {
    if depth > MAX_DEPTH {
        return Err(OnnxError::NestedTooDeep);
    }
    for field in Fields(data) {
        match field? {
            (1, Value::Bytes(node)) => scan_node(node, facts, depth)?,
            (5, Value::Bytes(tensor)) => scan_tensor(tensor, facts)?,
            (of @ 11..=13, Value::Bytes(info)) => {
                let name = scan_value(info)?;
                if of == 12 && depth == 0 {
                    facts.outputs.push(name);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// FunctionProto: node = 7.
fn scan_function(data: &[u8], facts: &mut OnnxInfo) -> Result<(), OnnxError> {
    for field in Fields(data) {
        if let (7, Value::Bytes(node)) = field? {
            scan_node(node, facts, 0)?;
        }
    }
    Ok(())
}

/// The name of a value. ValueInfoProto: name = 1, type = 2.
fn scan_value(data: &[u8]) -> Result<String, OnnxError> {
    let mut name = String::new();
    for field in Fields(data) {
        match field? {
            (1, Value::Bytes(of)) => name = text(of),
            (2, Value::Bytes(kind)) => scan_type(kind, 0)?,
            _ => {}
        }
    }
    Ok(name)
}

/// TypeProto: sequence_type = 4 and optional_type = 9, whose elem_type = 1; map_type = 5, whose value_type = 2.
fn scan_type(data: &[u8], depth: u32) -> Result<(), OnnxError> {
    if depth > MAX_DEPTH {
        return Err(OnnxError::NestedTooDeep);
    }
    for field in Fields(data) {
        let (of @ (4 | 5 | 9), Value::Bytes(inner)) = field? else { continue };
        for field in Fields(inner) {
            match field? {
                (1, Value::Bytes(kind)) if of != 5 => scan_type(kind, depth + 1)?,
                (2, Value::Bytes(kind)) if of == 5 => scan_type(kind, depth + 1)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// NodeProto: op_type = 4, attribute = 5, domain = 7. AttributeProto: t = 5, g = 6, tensors = 10, graphs = 11.
fn scan_node(data: &[u8], facts: &mut OnnxInfo, depth: u32) -> Result<(), OnnxError> {
    let [outer, inner] = &mut facts.operator_counts;
    *if depth == 0 { outer } else { inner } += 1;
    let (mut name, mut domain) = (String::new(), String::new());
    for field in Fields(data) {
        match field? {
            (4, Value::Bytes(of)) => name = text(of),
            (7, Value::Bytes(of)) => domain = text(of),
            (5, Value::Bytes(attribute)) => {
                for field in Fields(attribute) {
                    match field? {
                        (5 | 10, Value::Bytes(tensor)) => scan_tensor(tensor, facts)?,
                        (6 | 11, Value::Bytes(graph)) => scan_graph(graph, facts, depth + 1)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let is_standard = domain.is_empty() || domain == "ai.onnx";
    facts.operators.insert(if is_standard { name } else { format!("{domain}.{name}") });
    Ok(())
}

/// TensorProto: external_data = 13, of StringStringEntryProto: key = 1, value = 2.
fn scan_tensor(data: &[u8], facts: &mut OnnxInfo) -> Result<(), WireError> {
    for field in Fields(data) {
        let (13, Value::Bytes(entry)) = field? else { continue };
        let (mut key, mut value) = (String::new(), String::new());
        for field in Fields(entry) {
            match field? {
                (1, Value::Bytes(of)) => key = text(of),
                (2, Value::Bytes(of)) => value = text(of),
                _ => {}
            }
        }
        if key == "location" {
            facts.external_files.insert(value);
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes violate the wire format.
#[derive(Debug)]
struct WireError;

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed-width number, which is skipped.
    Fixed,
}

/// Fields of a message, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(WireError)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| WireError)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), WireError> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(WireError),
        };
        Ok((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test knows its bytes")]
mod tests {
    use gausset_testkit::onnx::{TestNetwork, Weights};

    use super::*;

    #[test]
    fn operators_versions_and_files_beside_are_found() {
        let mut net = TestNetwork::new("x", &[1, 3, 8, 8]);
        net.weights("w", &[1], Weights::External("w.data"));
        net.node("Mul", &["x", "w"], &["y"], &[]);
        net.custom_node("com.example", "Odd", &["y"], &["z"]);
        net.output("z");
        let facts = scan(&net.bytes()).unwrap();
        assert_eq!((facts.opset, facts.outputs.as_slice()), (17, ["z".to_owned()].as_slice()));
        let names: Vec<&str> = facts.operators.iter().map(String::as_str).collect();
        assert_eq!(names, ["Mul", "com.example.Odd"]);
        assert_eq!(facts.external_files.iter().collect::<Vec<_>>(), ["w.data"]);
    }

    #[test]
    fn bytes_of_other_kinds_are_told_apart() {
        assert_eq!(scan(b""), Err(OnnxError::NotAModel));
        assert_eq!(scan(b"\x89PNG\r\n"), Err(OnnxError::NotAModel));
        assert_eq!(scan(&[8, 8]), Err(OnnxError::Empty));
        let mut net = TestNetwork::new("x", &[1]);
        net.node("Relu", &["x"], &["y"], &[]);
        net.output("y");
        let whole = net.bytes();
        assert_eq!(scan(&whole[..whole.len() - 30]), Err(OnnxError::Damaged));
        for cut in 0..whole.len() {
            // Truncation at any position is handled.
            let _ = scan(&whole[..cut]);
        }
    }
}
