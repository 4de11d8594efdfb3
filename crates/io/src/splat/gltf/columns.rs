//! Attributes of splats in a glTF: columns of numbers, read in blocks of rows.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::SeekFrom;

use gausset_core::sh;
use gausset_core::splats_transform::Similarity;

use super::buffers::Buffer;
use super::json::{Accessor, BufferView, GltfRoot, Primitive};
use super::sh_attribute;
use crate::splat::axes::HalfTurn;
use crate::splat::source::{SeekableRead, SourceFile};
use crate::splat::usable::{SplatCollector, row_values};
use crate::splat::values;
use crate::splat::{Format, SplatError, SplatFile};
use crate::text::quote;

/// Rows per read.
const BLOCK_ROWS: u64 = 1 << 14;
/// Largest distance between rows of a column, bytes.
const MAX_STRIDE: u64 = 255;

/// Values of one attribute.
struct Column {
    buffer: usize,
    begin: u64,
    stride: u64,
    element: usize,
    component: Component,
    count: u64,
}

#[derive(Clone, Copy)]
enum Component {
    F32,
    I8(bool),
    U8(bool),
    I16(bool),
    U16(bool),
}

/// Splats of one primitive: its columns in the order of [`ATTRIBUTES`], then SH.
pub(super) struct Columns {
    geometry: Vec<Column>,
    sh: Vec<Column>,
    pub(super) count: u64,
    pub(super) degree: u8,
    pub(super) transform: Similarity,
}

/// Attributes except SH, with their shape and number of components.
const ATTRIBUTES: [(&str, &str, usize); 4] = [
    ("POSITION", "VEC3", 3),
    ("KHR_gaussian_splatting:ROTATION", "VEC4", 4),
    ("KHR_gaussian_splatting:SCALE", "VEC3", 3),
    ("KHR_gaussian_splatting:OPACITY", "SCALAR", 1),
];

impl Columns {
    pub(super) fn from_primitive(
        source: &SourceFile<'_>,
        root: &GltfRoot,
        buffers: &[Buffer],
        primitive: &Primitive,
        transform: Similarity,
    ) -> Result<Self, SplatError> {
        let column = |name: &str, shape: &str, parts: usize| -> Result<Column, SplatError> {
            let place = format!("attribute {name}");
            let accessor = primitive.attributes.get(name).and_then(|&index| root.accessors.get(index));
            let Some(accessor) = accessor else {
                return Err(source.damaged_error(place, "missing", "an accessor", "none"));
            };
            let problem = |[what, expected, found]: [String; 3]| {
                let _ = &what;
                source.damaged_error(&*place, "an accessor that cannot be read", expected, found)
            };
            Column::from_accessor(accessor, &root.buffer_views, buffers, shape, parts).map_err(problem)
        };
        let geometry: Vec<Column> = ATTRIBUTES
            .iter()
            .map(|(name, shape, parts)| column(name, shape, *parts))
            .collect::<Result<_, _>>()?;
        let has = |coefficient: usize| primitive.attributes.contains_key(&sh_attribute(coefficient));
        let degree = (1..=sh::MAX_DEGREE)
            .take_while(|&degree| (sh::coefficients(degree - 1)..sh::coefficients(degree)).any(has))
            .last()
            .unwrap_or(0);
        let sh: Vec<Column> = (0..sh::coefficients(degree))
            .map(|coefficient| column(&sh_attribute(coefficient), "VEC3", 3))
            .collect::<Result<_, _>>()?;
        let count = geometry.first().map_or(0, |column| column.count);
        if let Some(other) = geometry.iter().chain(&sh).find(|column| column.count != count) {
            let found = other.count.to_string();
            return Err(source.damaged_error(
                "attributes",
                "columns of different lengths",
                count.to_string(),
                found,
            ));
        }
        Ok(Self { geometry, sh, count, degree, transform })
    }

    /// Reads the splats with an SH degree that may be higher than stored, and converts them to the axes of training.
    pub(super) fn read(
        &self,
        sh_degree: u8,
        source: &mut SourceFile<'_>,
        buffers: &mut [Buffer],
    ) -> Result<SplatFile, SplatError> {
        let values = row_values(sh_degree);
        let mut splats = SplatCollector::new(sh_degree, self.count, source.memory)?;
        let block = self.count.min(BLOCK_ROWS);
        let mut rows: Vec<f32> = source.memory.vec_with_capacity(block * values as u64)?;
        let mut bytes = source.memory.vec_with_capacity(block * MAX_STRIDE)?;
        let mut row = 0;
        while row < self.count {
            let count = (self.count - row).min(BLOCK_ROWS);
            rows.clear();
            rows.resize(count as usize * values, 0.0);
            // Offsets in a row: mean, quaternion, log scale, logit, SH.
            let places = [0, 6, 3, 10].into_iter().chain((11..).step_by(3));
            for (column, place) in self.geometry.iter().chain(&self.sh).zip(places) {
                column.read(source, buffers, row, count, &mut bytes)?;
                let elements = bytes.chunks(column.stride as usize);
                for (out, element) in rows.chunks_exact_mut(values).zip(elements) {
                    let out = out.get_mut(place..).unwrap_or_default();
                    let numbers = element.chunks_exact(column.component.bytes()).take(column.element);
                    out.iter_mut().zip(numbers).for_each(|(out, bytes)| *out = column.component.value(bytes));
                }
            }
            for row in rows.chunks_exact_mut(values) {
                if let [_, _, _, sx, sy, sz, qx, qy, qz, qw, logit, ..] = row {
                    for scale in [sx, sy, sz] {
                        *scale = libm::log(f64::from(*scale)) as f32;
                    }
                    // The file has xyzw.
                    let quat = [*qw, *qx, *qy, *qz];
                    [*qx, *qy, *qz, *qw] = quat;
                    *logit = values::logit(f64::from(*logit));
                }
                splats.push(row);
            }
            row += count;
        }
        source.memory.release(block * (4 * values as u64 + MAX_STRIDE));
        let mut document = splats.into_document(Format::Gltf);
        if self.transform != Similarity::IDENTITY {
            self.transform.apply_to_splats(&mut document.splats);
        }
        // A second rotation by 180 degrees completes that of the writer. Negating the quaternion does not change the
        // rotation but makes the round trip exact.
        HalfTurn::apply(&mut document.splats);
        for quat in &mut document.splats.quats {
            *quat = quat.map(|v| -v);
        }
        Ok(document)
    }
}

impl Column {
    /// The column of an accessor. The error holds the problem, the expected and the found content.
    fn from_accessor(
        accessor: &Accessor,
        views: &[BufferView],
        buffers: &[Buffer],
        shape: &str,
        parts: usize,
    ) -> Result<Self, [String; 3]> {
        let bad = |expected: &str, found: String| Err([String::new(), expected.to_owned(), found]);
        if accessor.sparse.is_some() {
            return bad("no sparse values", "sparse".to_owned());
        }
        if accessor.shape != shape {
            return bad(shape, quote(&accessor.shape));
        }
        let Some(component) = Component::from_accessor(accessor) else {
            return bad("32-bit floats, or 8 or 16 bits", accessor.component_type.to_string());
        };
        let Some(view) = accessor.buffer_view.and_then(|index| views.get(index)) else {
            return bad("a buffer view", "none".to_owned());
        };
        let length = match buffers.get(view.buffer) {
            Some(Buffer::Inside(_, bytes) | Buffer::Other(_, bytes)) => *bytes,
            None => return bad("a buffer", "none".to_owned()),
        };
        let element = (component.bytes() * parts) as u64;
        let stride = view.byte_stride.unwrap_or(element);
        if !(element..=MAX_STRIDE).contains(&stride) {
            return bad("rows that do not overlap, of at most 252 bytes", format!("{stride} bytes"));
        }
        let end_of_view = view.byte_offset.checked_add(view.byte_length).filter(|end| *end <= length);
        let Some(end_of_view) = end_of_view else {
            return bad("a view inside its buffer", format!("{} bytes", view.byte_length));
        };
        let begin = view.byte_offset.checked_add(accessor.byte_offset);
        let rows =
            accessor.count.saturating_sub(1).checked_mul(stride).and_then(|rows| rows.checked_add(element));
        let end = begin.zip(rows).and_then(|(begin, rows)| begin.checked_add(rows));
        match (begin, end) {
            (Some(begin), Some(end)) if end <= end_of_view && accessor.count > 0 => Ok(Self {
                buffer: view.buffer,
                begin,
                stride,
                element: parts,
                component,
                count: accessor.count,
            }),
            _ => bad("1 to as many values as its view holds", accessor.count.to_string()),
        }
    }

    /// Reads the bytes of a range of rows.
    fn read(
        &self,
        source: &mut SourceFile<'_>,
        buffers: &mut [Buffer],
        row: u64,
        rows: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), SplatError> {
        let length = (rows - 1) * self.stride + (self.component.bytes() * self.element) as u64;
        bytes.resize(length as usize, 0);
        let at = self.begin + row * self.stride;
        let read = |stream: &mut dyn SeekableRead, at: u64, bytes: &mut [u8]| {
            stream.seek(SeekFrom::Start(at)).and_then(|_| stream.read_exact(bytes))
        };
        let result = match buffers.get_mut(self.buffer) {
            Some(Buffer::Inside(begin, _)) => read(source.stream, *begin + at, bytes),
            Some(Buffer::Other(stream, _)) => read(&mut **stream, at, bytes),
            None => Ok(()),
        };
        result.map_err(|error| source.io(error))
    }
}

impl Component {
    fn from_accessor(accessor: &Accessor) -> Option<Self> {
        let normalised = accessor.normalized;
        Some(match accessor.component_type {
            5120 => Self::I8(normalised),
            5121 => Self::U8(normalised),
            5122 => Self::I16(normalised),
            5123 => Self::U16(normalised),
            5126 => Self::F32,
            _ => return None,
        })
    }

    const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::I8(_) | Self::U8(_) => 1,
            Self::I16(_) | Self::U16(_) => 2,
        }
    }

    /// Decodes one value.
    fn value(self, bytes: &[u8]) -> f32 {
        let two = bytes.first_chunk().copied().unwrap_or_default();
        let one = bytes.first().copied().unwrap_or_default();
        let (value, most) = match self {
            Self::F32 => return bytes.first_chunk().map_or(f32::NAN, |b| f32::from_le_bytes(*b)),
            Self::I8(normalised) => (f32::from(one.cast_signed()), normalised.then_some(127.0)),
            Self::U8(normalised) => (f32::from(one), normalised.then_some(255.0)),
            Self::I16(normalised) => (f32::from(i16::from_le_bytes(two)), normalised.then_some(32_767.0)),
            Self::U16(normalised) => (f32::from(u16::from_le_bytes(two)), normalised.then_some(65_535.0)),
        };
        most.map_or(value, |most| (value / most).max(-1.0))
    }
}
