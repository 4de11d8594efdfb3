//! Attributes of splats in a glTF: columns of numbers, read in blocks of rows.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use gausset_core::splats_transform::Similarity;
use gausset_core::{Splats, sh};

use super::buffers::Buffer;
use super::json::{Accessor, BufferView, GltfRoot, Primitive};
use super::{EXTENSION, sh_name};
use crate::splat::axes::HalfTurn;
use crate::splat::source::SourceFile;
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

/// Splats of one primitive.
pub(super) struct Columns {
    /// The columns, and the offset of each in a decoded row.
    columns: Vec<(Column, usize)>,
    /// Drafts: `COLOR_0`, the colour and opacity of splats without columns of their own for them.
    colour: Option<Column>,
    /// Drafts: factor on the positions.
    position_scale: f32,
    pub(super) count: u64,
    pub(super) degree: u8,
    transform: Similarity,
}

/// Prefixes of attribute names: that of the extension, and that of its drafts.
const PREFIXES: [&str; 2] = ["KHR_gaussian_splatting:", "_"];
/// Offsets in a decoded row.
const MEAN: usize = 0;
const LOG_SCALE: usize = 3;
const QUATERNION: usize = 6;
const LOGIT: usize = 10;
const SH: usize = 11;

/// The attributes of a primitive.
struct Attributes<'a, 'b> {
    source: &'a SourceFile<'b>,
    root: &'a GltfRoot,
    buffers: &'a [Buffer],
    primitive: &'a Primitive,
}

impl Attributes<'_, '_> {
    /// Index of the accessor of an attribute with one of the prefixes.
    fn find(&self, name: &str) -> Option<usize> {
        PREFIXES.iter().find_map(|prefix| self.primitive.attributes.get(&format!("{prefix}{name}")).copied())
    }

    /// The column of an attribute with one of the prefixes.
    fn own(&self, name: &str, shape: &str, parts: usize) -> Result<Column, SplatError> {
        self.column(&format!("{EXTENSION}:{name}"), self.find(name), shape, parts)
    }

    /// The column of an accessor; `name` is for messages.
    fn column(
        &self,
        name: &str,
        accessor: Option<usize>,
        shape: &str,
        parts: usize,
    ) -> Result<Column, SplatError> {
        let place = format!("attribute {name}");
        let Some(accessor) = accessor.and_then(|index| self.root.accessors.get(index)) else {
            return Err(self.source.damaged_error(place, "missing", "an accessor", "none"));
        };
        let problem = |[expected, found]: [String; 2]| {
            self.source.damaged_error(&*place, "an accessor that cannot be read", expected, found)
        };
        Column::from_accessor(accessor, &self.root.buffer_views, self.buffers, shape, parts).map_err(problem)
    }

    /// `COLOR_0`, if it stands for the SH of degree 0.
    fn colour(&self) -> Result<Option<Column>, SplatError> {
        let index = self.primitive.attributes.get("COLOR_0").copied();
        let Some(accessor) = index.and_then(|index| self.root.accessors.get(index)) else { return Ok(None) };
        if self.find(&sh_name(0)).is_some() {
            return Ok(None);
        }
        let (shape, parts) = if accessor.shape == "VEC3" { ("VEC3", 3) } else { ("VEC4", 4) };
        self.column("COLOR_0", index, shape, parts).map(Some)
    }

    /// SH degree above 0 for which there are attributes.
    fn degree(&self) -> u8 {
        let has = |coefficient: usize| self.find(&sh_name(coefficient)).is_some();
        (1..=sh::MAX_DEGREE)
            .take_while(|&degree| (sh::coefficients(degree - 1)..sh::coefficients(degree)).any(has))
            .last()
            .unwrap_or(0)
    }
}

impl Columns {
    pub(super) fn from_primitive(
        source: &SourceFile<'_>,
        root: &GltfRoot,
        buffers: &[Buffer],
        primitive: &Primitive,
        transform: Similarity,
    ) -> Result<Self, SplatError> {
        let attributes = Attributes { source, root, buffers, primitive };
        let position =
            attributes.column("POSITION", primitive.attributes.get("POSITION").copied(), "VEC3", 3)?;
        let count = position.count;
        let mut columns = vec![
            (position, MEAN),
            (attributes.own("ROTATION", "VEC4", 4)?, QUATERNION),
            (attributes.own("SCALE", "VEC3", 3)?, LOG_SCALE),
        ];
        let colour = attributes.colour()?;
        if attributes.find("OPACITY").is_some() || colour.is_none() {
            columns.push((attributes.own("OPACITY", "SCALAR", 1)?, LOGIT));
        }
        let degree = attributes.degree();
        for coefficient in usize::from(colour.is_some())..sh::coefficients(degree) {
            columns.push((attributes.own(&sh_name(coefficient), "VEC3", 3)?, SH + 3 * coefficient));
        }
        let mut all = columns.iter().map(|(column, _)| column).chain(&colour);
        if let Some(other) = all.find(|column| column.count != count) {
            let found = other.count.to_string();
            return Err(source.damaged_error(
                "attributes",
                "columns of different lengths",
                count.to_string(),
                found,
            ));
        }
        let scale = primitive.splat_extension().and_then(|draft| draft.get("quantizedPositionScale"));
        let position_scale = scale.and_then(|scale| scale.as_f64()).unwrap_or(1.0) as f32;
        Ok(Self { columns, colour, position_scale, count, degree, transform })
    }

    /// Whether scales are logarithms, as in a draft of the extension (splat-transform until June 2026): a scale is not negative.
    fn has_log_scales(
        &self,
        source: &mut SourceFile<'_>,
        buffers: &mut [Buffer],
    ) -> Result<bool, SplatError> {
        let Some((column, _)) = self.columns.iter().find(|(_, place)| *place == LOG_SCALE) else {
            return Ok(false);
        };
        let mut bytes = source.memory.vec_with_capacity(self.count.min(BLOCK_ROWS) * MAX_STRIDE)?;
        let (mut row, mut found) = (0, false);
        while row < self.count && !found {
            let count = (self.count - row).min(BLOCK_ROWS);
            column.read(source, buffers, row, count, &mut bytes)?;
            found = bytes
                .chunks(column.stride as usize)
                .flat_map(|row| column.numbers(row))
                .any(|scale| scale < 0.0);
            row += count;
        }
        source.memory.release(self.count.min(BLOCK_ROWS) * MAX_STRIDE);
        Ok(found)
    }

    /// Reads the splats with an SH degree that may be higher than stored, and converts them to the axes of training.
    pub(super) fn read(
        &self,
        sh_degree: u8,
        source: &mut SourceFile<'_>,
        buffers: &mut [Buffer],
    ) -> Result<SplatFile, SplatError> {
        let values = row_values(sh_degree);
        let are_logs = self.has_log_scales(source, buffers)?;
        let mut splats = SplatCollector::new(sh_degree, self.count, source.memory)?;
        let block = self.count.min(BLOCK_ROWS);
        let mut rows: Vec<f32> = source.memory.vec_with_capacity(block * values as u64)?;
        let mut bytes = source.memory.vec_with_capacity(block * MAX_STRIDE)?;
        let mut row = 0;
        while row < self.count {
            let count = (self.count - row).min(BLOCK_ROWS);
            rows.clear();
            rows.resize(count as usize * values, 0.0);
            if let Some(colour) = &self.colour {
                colour.read(source, buffers, row, count, &mut bytes)?;
                let elements = bytes.chunks(colour.stride as usize);
                rows.chunks_exact_mut(values).zip(elements).for_each(|(row, element)| {
                    let mut numbers = colour.numbers(element);
                    let rgb = [(); 3].map(|()| numbers.next().map_or(f32::NAN, sh::dc_from_colour));
                    let opacity = numbers.next().unwrap_or(1.0);
                    let out = row.iter_mut().skip(LOGIT);
                    out.zip([opacity].into_iter().chain(rgb)).for_each(|(out, value)| *out = value);
                });
            }
            for (column, place) in &self.columns {
                column.read(source, buffers, row, count, &mut bytes)?;
                let elements = bytes.chunks(column.stride as usize);
                for (out, element) in rows.chunks_exact_mut(values).zip(elements) {
                    let out = out.get_mut(*place..).unwrap_or_default();
                    out.iter_mut().zip(column.numbers(element)).for_each(|(out, value)| *out = value);
                }
            }
            for row in rows.chunks_exact_mut(values) {
                if let [x, y, z, sx, sy, sz, qx, qy, qz, qw, logit, ..] = row {
                    [x, y, z].into_iter().for_each(|v| *v *= self.position_scale);
                    for scale in [sx, sy, sz].into_iter().filter(|_| !are_logs) {
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
        if are_logs {
            document
                .report
                .notes
                .push("SCALE: read as logarithms, as in a draft (found negative values)".to_owned());
        }
        to_training_axes(&mut document.splats, &self.transform);
        Ok(document)
    }
}

/// Places splats of a mesh in the scene, and converts them to the axes of training.
pub(super) fn to_training_axes(splats: &mut Splats, transform: &Similarity) {
    if *transform != Similarity::IDENTITY {
        transform.apply_to_splats(splats);
    }
    // A second rotation by 180 degrees completes that of the writer. Negating the quaternion does not change the
    // rotation but makes the round trip exact.
    HalfTurn::apply(splats);
    for quat in &mut splats.quats {
        *quat = quat.map(|v| -v);
    }
}

impl Column {
    /// The column of an accessor. The error holds the expected and the found content.
    fn from_accessor(
        accessor: &Accessor,
        views: &[BufferView],
        buffers: &[Buffer],
        shape: &str,
        parts: usize,
    ) -> Result<Self, [String; 2]> {
        let bad = |expected: &str, found: String| Err([expected.to_owned(), found]);
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

    /// The numbers of a row.
    fn numbers(&self, row: &[u8]) -> impl Iterator<Item = f32> {
        row.chunks_exact(self.component.bytes()).take(self.element).map(|bytes| self.component.value(bytes))
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
        match buffers.get_mut(self.buffer) {
            Some(buffer) => buffer.read(source, at, bytes),
            None => Ok(()),
        }
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
