//! Reads glTF files in blocks of rows, column by column.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{BufReader, Cursor, Read, SeekFrom};

use gausset_core::splats_transform::Similarity;
use gausset_core::{Splats, sh};

use super::json::{Accessor, BufferView, Primitive, Root};
use super::{
    BINARY_CHUNK, CHUNK_HEAD_BYTES, EXTENSION, HEADER_BYTES, JSON_CHUNK, MAGIC, VERSION, sh_attribute,
};
use crate::input;
use crate::splat::format::Start;
use crate::splat::frame::HalfTurn;
use crate::splat::source::{Source, Stream};
use crate::splat::usable::{Collector, row_values};
use crate::splat::values;
use crate::splat::{Document, Format, Initial, ReadReport, SplatError};
use crate::units::quote;

/// Longest JSON.
const MAX_JSON_BYTES: u64 = 64 << 20;
/// Rows read at once.
const BLOCK_ROWS: u64 = 1 << 14;
/// Fewest bytes of a splat with all its attributes.
const MIN_SPLAT_BYTES: u64 = 32;
/// How often data may be used again by other meshes.
const MAX_REUSE: u64 = 16;

/// GLB by its magic number, JSON by the names that stand in it.
pub(in crate::splat) fn sniff(start: &Start) -> bool {
    start.bytes.starts_with(MAGIC)
        || start.is_json()
            && start.names("\"asset\"")
            && (start.names("\"accessors\"") || start.names("\"bufferViews\""))
}

/// Bytes that buffers come from.
enum Buffer {
    /// A part of the file itself: begin and length.
    Inside(u64, u64),
    /// Another file, or bytes that stood in the JSON.
    Other(Box<dyn Stream>, u64),
}

/// Begin and length of a part of the file.
type Part = (u64, u64);

/// Numbers of one attribute.
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

/// Splats of one primitive: where its attributes are, in the order of [`ATTRIBUTES`] and then SH.
struct Columns {
    geometry: Vec<Column>,
    sh: Vec<Column>,
    count: u64,
    degree: u8,
    transform: Similarity,
}

/// Attributes besides SH, with the components that they may have: [`Component::F32`] always.
const ATTRIBUTES: [(&str, &str, usize); 4] = [
    ("POSITION", "VEC3", 3),
    ("KHR_gaussian_splatting:ROTATION", "VEC4", 4),
    ("KHR_gaussian_splatting:SCALE", "VEC3", 3),
    ("KHR_gaussian_splatting:OPACITY", "SCALAR", 1),
];

/// Reads a file.
pub(in crate::splat) fn read(source: &mut Source<'_>) -> Result<Initial, SplatError> {
    let (json, binary) = container(source)?;
    let mut parser = serde_json::Deserializer::from_slice(&json);
    let root: Root = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let place = format!("JSON {}", quote(&error.path().to_string()));
        source.damaged(place, "not the JSON of a glTF", "glTF 2.0", quote(&error.inner().to_string()))
    })?;
    drop(json);
    if let Some(name) = root.extensions_required.iter().find(|name| *name != EXTENSION) {
        return Err(source.damaged(
            "extensionsRequired",
            "an extension that is not read",
            EXTENSION,
            quote(name),
        ));
    }
    let mut buffers = Vec::new();
    for (index, buffer) in root.buffers.iter().enumerate() {
        buffers.push(open_buffer(source, index, buffer, binary)?);
    }
    let total: u64 = buffers.iter().fold(0, |sum, buffer| match buffer {
        Buffer::Inside(_, bytes) | Buffer::Other(_, bytes) => sum.saturating_add(*bytes),
    });

    let mut parts = Vec::new();
    let mut count = 0u64;
    let mut notes = Vec::new();
    let placed = root.placed().map_err(|[place, expected, found]| {
        source.damaged(place, "the scene cannot be laid out", expected, found)
    })?;
    for place in placed {
        let Some(mesh) = root.meshes.get(place.mesh) else {
            let expected = format!("a number below {}", root.meshes.len());
            return Err(source.damaged("nodes", "there is no such mesh", expected, place.mesh.to_string()));
        };
        for primitive in &mesh.primitives {
            let Some(extension) = primitive.extensions.get(EXTENSION) else { continue };
            check_extension(source, extension, &mut notes)?;
            let columns = Columns::of(source, &root, &buffers, primitive, place.transform)?;
            count = count.saturating_add(columns.count);
            if count.saturating_mul(MIN_SPLAT_BYTES) > total.saturating_mul(MAX_REUSE) {
                let expected = format!("at most {} in {total} bytes", total * MAX_REUSE / MIN_SPLAT_BYTES);
                return Err(source.damaged(
                    "meshes",
                    "more splats than the buffers can hold",
                    expected,
                    count.to_string(),
                ));
            }
            parts.push(columns);
        }
    }
    let Some(degree) = parts.iter().map(|part| part.degree).max() else {
        let found = "no primitive with it";
        return Err(source.damaged(
            "meshes",
            "a glTF without splats",
            format!("the extension {EXTENSION}"),
            found,
        ));
    };
    source.options.limits.check(count, row_values(degree), source.path)?;
    let mut splats = Splats::with_capacity(degree, 0);
    let mut report = ReadReport::default();
    for part in parts {
        let document = part.read(source, &mut buffers)?;
        let mut part = document.splats.with_sh_degree(degree);
        if splats.is_empty() {
            splats = part;
        } else {
            splats.means.append(&mut part.means);
            splats.log_scales.append(&mut part.log_scales);
            splats.quats.append(&mut part.quats);
            splats.opacity_logits.append(&mut part.opacity_logits);
            splats.sh.append(&mut part.sh);
        }
        report.add(document.report);
    }
    report.notes.extend(notes);
    Ok(Initial::Splats(Document {
        format: Format::Gltf,
        version: Some(if binary.is_some() { "2.0, binary".to_owned() } else { "2.0".to_owned() }),
        frame: Some("y up, turned by half a turn about z".to_owned()),
        report,
        ..Document::new(splats)
    }))
}

/// The JSON of a file, and begin and length of its binary chunk where it is a GLB.
fn container(source: &mut Source<'_>) -> Result<(Vec<u8>, Option<Part>), SplatError> {
    let mut magic = [0; 4];
    if source.bytes >= HEADER_BYTES {
        source.exact(&mut magic)?;
    }
    if magic != *MAGIC {
        source.stream.seek(SeekFrom::Start(0)).map_err(|error| source.io(error))?;
        return Ok((json_bytes(source, source.bytes)?, None));
    }
    let word = |source: &mut Source<'_>| -> Result<u32, SplatError> {
        let mut bytes = [0; 4];
        source.exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let (version, length) = (word(source)?, u64::from(word(source)?));
    if version != VERSION {
        return Err(source.damaged("header", "unknown version of a GLB", "2", version.to_string()));
    }
    if length != source.bytes {
        let (expected, found) = (format!("{length} bytes"), format!("{} bytes", source.bytes));
        return Err(source.damaged("header", "not as long as the header says", expected, found));
    }
    let (mut json, mut at) = (None, HEADER_BYTES);
    let mut binary = (0, 0);
    while at + CHUNK_HEAD_BYTES <= length {
        source.stream.seek(SeekFrom::Start(at)).map_err(|error| source.io(error))?;
        let (bytes, kind) = (u64::from(word(source)?), word(source)?);
        at += CHUNK_HEAD_BYTES;
        if bytes > length - at {
            let (expected, found) = (format!("{bytes} bytes"), format!("{} bytes", length - at));
            return Err(source.damaged("chunk", "cut off", expected, found));
        }
        match (kind, &json) {
            (JSON_CHUNK, None) => json = Some(json_bytes(source, bytes)?),
            (BINARY_CHUNK, Some(_)) if binary == (0, 0) => binary = (at, bytes),
            _ => {}
        }
        // Chunks begin at multiples of four.
        at += bytes.next_multiple_of(4);
    }
    match json {
        Some(json) => Ok((json, Some(binary))),
        None => Err(source.damaged("chunks", "a GLB without JSON", "a chunk JSON first", "none")),
    }
}

fn json_bytes(source: &mut Source<'_>, bytes: u64) -> Result<Vec<u8>, SplatError> {
    if bytes > MAX_JSON_BYTES {
        return Err(source.damaged("JSON", "too long", "at most 64 MiB", format!("{bytes} bytes")));
    }
    let mut json = Vec::new();
    let read = (&mut *source.stream).take(bytes).read_to_end(&mut json);
    read.map_err(|error| source.io(error))?;
    Ok(json)
}

fn open_buffer(
    source: &Source<'_>,
    index: usize,
    buffer: &super::json::Buffer,
    binary: Option<Part>,
) -> Result<Buffer, SplatError> {
    let place = format!("buffers[{index}]");
    let (opened, bytes) = match (&buffer.uri, binary) {
        (None, Some((begin, bytes))) if index == 0 => (Buffer::Inside(begin, bytes), bytes),
        (None, _) => {
            return Err(source.damaged(place, "a buffer without content", "a chunk BIN or a uri", "neither"));
        }
        (Some(uri), _) if uri.starts_with("data:") => {
            let content = uri.split_once(";base64,").and_then(|(_, text)| base64(text.as_bytes()));
            let Some(content) = content else {
                return Err(source.damaged(place, "data that cannot be read", "base64", quote(uri)));
            };
            let bytes = content.len() as u64;
            (Buffer::Other(Box::new(Cursor::new(content)), bytes), bytes)
        }
        (Some(uri), _) => {
            let outside =
                || source.damaged(&*place, "a buffer outside", "a file beside this one", quote(uri));
            let name = percent_decoded(uri).ok_or_else(outside)?;
            let folder =
                source.folder.filter(|_| !name.contains(':') && !name.contains('\\')).ok_or_else(outside)?;
            let path = input::inside(folder, &name).map_err(|_| outside())?;
            let io_error = |error| SplatError::Io { path: path.clone(), action: "open", source: error };
            let file = input::open(&path, input::STREAMED).map_err(io_error)?;
            let bytes = file.metadata().map_err(io_error)?.len();
            (Buffer::Other(Box::new(BufReader::with_capacity(1 << 18, file)), bytes), bytes)
        }
    };
    if buffer.byte_length > bytes {
        let (expected, found) = (format!("{} bytes", buffer.byte_length), format!("{bytes} bytes"));
        return Err(source.damaged(place, "shorter than the JSON says", expected, found));
    }
    Ok(opened)
}

/// What the extension of a primitive says about its splats.
fn check_extension(
    source: &Source<'_>,
    extension: &serde_json::Value,
    notes: &mut Vec<String>,
) -> Result<(), SplatError> {
    if let Some((name, _)) =
        extension.get("extensions").and_then(|e| e.as_object()).and_then(|e| e.iter().next())
    {
        let what = "an extension that is not read";
        return Err(source.damaged(EXTENSION, what, "splats that are not compressed", quote(name)));
    }
    match extension.get("kernel").and_then(|kernel| kernel.as_str()) {
        Some("ellipse") | None => {}
        Some(kernel) => {
            return Err(source.damaged("kernel", "a shape that is not read", "ellipse", quote(kernel)));
        }
    }
    let space = extension.get("colorSpace").and_then(|space| space.as_str()).unwrap_or_default();
    if space.starts_with("lin_") {
        let note =
            "colorSpace: shown as they are (expected srgb_rec709_display, found linear colours)".to_owned();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(())
}

impl Columns {
    fn of(
        source: &Source<'_>,
        root: &Root,
        buffers: &[Buffer],
        primitive: &Primitive,
        transform: Similarity,
    ) -> Result<Self, SplatError> {
        let column = |name: &str, shape: &str, parts: usize| -> Result<Column, SplatError> {
            let place = format!("attribute {name}");
            let accessor = primitive.attributes.get(name).and_then(|&index| root.accessors.get(index));
            let Some(accessor) = accessor else {
                return Err(source.damaged(place, "missing", "an accessor", "none"));
            };
            let problem = |[what, expected, found]: [String; 3]| {
                let _ = &what;
                source.damaged(&*place, "an accessor that cannot be read", expected, found)
            };
            Column::of(accessor, &root.buffer_views, buffers, shape, parts).map_err(problem)
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
            return Err(source.damaged(
                "attributes",
                "columns of different lengths",
                count.to_string(),
                found,
            ));
        }
        Ok(Self { geometry, sh, count, degree, transform })
    }

    /// Reads the splats, and brings them to the axes of training.
    fn read(&self, source: &mut Source<'_>, buffers: &mut [Buffer]) -> Result<Document, SplatError> {
        let values = row_values(self.degree);
        let mut splats = Collector::new(self.degree, self.count);
        let mut rows: Vec<f32> = Vec::new();
        let mut bytes = Vec::new();
        let mut row = 0;
        while row < self.count {
            let count = (self.count - row).min(BLOCK_ROWS);
            rows.clear();
            rows.resize(count as usize * values, 0.0);
            // Places in a row: mean, quaternion, log scale, logit, SH.
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
                    // xyzw in the file.
                    let quat = [*qw, *qx, *qy, *qz];
                    [*qx, *qy, *qz, *qw] = quat;
                    *logit = values::logit(f64::from(*logit));
                }
                splats.push(row);
            }
            row += count;
        }
        let mut document = splats.into_document(Format::Gltf);
        if self.transform != Similarity::IDENTITY {
            self.transform.apply_to_splats(&mut document.splats);
        }
        // Half a turn on completes the one with which such files are written; the sign of a quaternion means nothing,
        // but this one makes the way there and back exact.
        HalfTurn::apply(&mut document.splats);
        for quat in &mut document.splats.quats {
            *quat = quat.map(|v| -v);
        }
        Ok(document)
    }
}

impl Column {
    /// The column of an accessor; an error is what is wrong, what should be there and is.
    fn of(
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
        let Some(component) = Component::of(accessor) else {
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
        if !(element..=255).contains(&stride) {
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

    /// Reads the bytes of some rows.
    fn read(
        &self,
        source: &mut Source<'_>,
        buffers: &mut [Buffer],
        row: u64,
        rows: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), SplatError> {
        let length = (rows - 1) * self.stride + (self.component.bytes() * self.element) as u64;
        bytes.resize(length as usize, 0);
        let at = self.begin + row * self.stride;
        let read = |stream: &mut dyn Stream, at: u64, bytes: &mut [u8]| {
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
    fn of(accessor: &Accessor) -> Option<Self> {
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

    /// A number of the file.
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

/// Bytes that were written as base64 (RFC 4648), with or without padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii_end();
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let mut bytes = Vec::new();
    let (mut word, mut bits) = (0u32, 0);
    for byte in text.get(..end)? {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    Some(bytes)
}

/// A name in which `%20` and its kind stand for bytes.
fn percent_decoded(uri: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = uri.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_and_percents_are_decoded() {
        assert_eq!(base64(b"Z2F1c3M="), Some(b"gauss".to_vec()));
        assert_eq!(base64(b"Z2F1c3NldA"), Some(b"gausset".to_vec()));
        assert_eq!((base64(b""), base64(b"a?")), (Some(vec![]), None));
        assert_eq!(percent_decoded("a%20b.bin").as_deref(), Some("a b.bin"));
        assert_eq!((percent_decoded("a%2"), percent_decoded("a%zz")), (None, None));
    }
}
