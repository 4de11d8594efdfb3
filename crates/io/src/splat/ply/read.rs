//! Reads the body of a PLY file, row by row, into splats or points.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use super::columns::{Kind, RowLayout, RowValue};
use super::header::{Element, Encoding, PlyHeader, Scalar, Shape};
use super::input::PlyReader;
use crate::splat::memory::MemoryAccount;
use crate::splat::source::SourceFile;
use crate::splat::usable::{SplatCollector, SplatFilter, row_values};
use crate::splat::{Format, Initial, PointCloud, SplatError, SplatFile};
use crate::text::quote;

/// Bytes of a point in memory.
const POSITION_BYTES: u64 = 24;
const COLOUR_BYTES: u64 = 12;
/// Bytes of rows per read.
const CHUNK_BYTES: usize = 1 << 20;

/// Reads a PLY file.
pub(in crate::splat) fn read_ply(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let (path, memory) = (source.path, source.memory);
    let mut input = PlyReader::new(source.stream, source.bytes, path);
    let header = PlyHeader::read(&mut input)?;
    let is_vertex = |element: &Element| element.name == "vertex";
    let at = header.elements.iter().position(is_vertex).unwrap_or(header.elements.len());
    let (before, rest) = header.elements.split_at(at);
    let Some((vertex, behind)) = rest.split_first() else {
        let found = header.elements.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(SplatError::Properties {
            path: path.to_owned(),
            expected: "an element of this name".to_owned(),
            found: quote(&found),
        });
    };
    let layout = RowLayout::from_element(vertex, path)?;
    for element in before {
        skip_element(&mut input, element, header.encoding)?;
    }
    check_row_count(&input, vertex, header.encoding)?;

    let mut result = match layout.kind {
        Kind::Points { colours } => {
            Initial::Points(read_points(&mut input, &header, vertex, &layout, colours, memory)?)
        }
        Kind::Splats { stored_degree, degree, flat } => {
            let (mut document, sky) = read_splats(&mut input, &header, vertex, &layout, degree, memory)?;
            document.set_stored_degree(stored_degree);
            Initial::Splats(SplatFile {
                antialiased: header.comments.antialiased,
                flat: flat || header.comments.flat,
                vertical_axis: header.comments.vertical_axis,
                saved_from_dataset: header.comments.saved_from_dataset,
                georeference: header.comments.georeference,
                offset: header.comments.offset,
                near_plane: header.comments.near_plane,
                sky,
                ..document
            })
        }
    };
    // Brush's animations.
    let frames = behind.iter().filter(|element| element.name.starts_with("delta_vertex")).count();
    if let Initial::Splats(file) = &mut result
        && frames > 0
    {
        file.report.notes.push(format!(
            "animation: only its first frame was read (expected no delta_vertex, found {frames} of them)"
        ));
    }
    if behind.is_empty() && header.encoding != Encoding::Ascii && input.remaining > 0 {
        let report = match &mut result {
            Initial::Splats(file) => &mut file.report,
            Initial::Points(points) => &mut points.report,
        };
        report.notes.push(format!(
            "end of file: data after the last vertex was ignored (expected none, found {} bytes)",
            input.remaining
        ));
    }
    Ok(result)
}

/// The usable splats, and how many at their end are a sky.
fn read_splats(
    input: &mut PlyReader<'_>,
    header: &PlyHeader,
    vertex: &Element,
    layout: &RowLayout,
    degree: u8,
    memory: &MemoryAccount<'_>,
) -> Result<(SplatFile, usize), SplatError> {
    let scene_rows = vertex.count - header.comments.sky_of(vertex.count);
    let (mut row_number, mut sky) = (0, 0);
    let mut splats = SplatCollector::new(degree, vertex.count, memory)?;
    debug_assert_eq!(layout.sources.len(), row_values(degree));
    for_each_row(input, header.encoding, vertex, layout, |row| {
        sky += usize::from(splats.push(row) && row_number >= scene_rows);
        row_number += 1;
    })?;
    Ok((splats.into_document(Format::Ply), sky))
}

fn read_points(
    input: &mut PlyReader<'_>,
    header: &PlyHeader,
    vertex: &Element,
    layout: &RowLayout,
    has_colours: bool,
    memory: &MemoryAccount<'_>,
) -> Result<PointCloud, SplatError> {
    let mut usable = SplatFilter::default();
    let point_bytes = if has_colours { POSITION_BYTES + COLOUR_BYTES } else { POSITION_BYTES };
    memory.reserve_rows(vertex.count, vertex.count.saturating_mul(point_bytes))?;
    let room = usize::try_from(vertex.count).unwrap_or_default();
    let mut positions = Vec::with_capacity(room);
    let mut colours = Vec::with_capacity(if has_colours { room } else { 0 });
    for_each_row(input, header.encoding, vertex, layout, |row: &mut [f64]| {
        let Some((&mut position, colour)) = row.split_first_chunk_mut() else { return };
        if usable.accepts_point(position) {
            positions.push(position);
            // An invalid colour does not drop the point.
            let colour = <[f64; 3]>::try_from(&*colour).map(|c| c.map(|v| v as f32));
            colours.extend(colour.map(|c| c.map(|v| if v.is_finite() { v.clamp(0.0, 1.0) } else { 0.5 })));
        }
    })?;
    Ok(PointCloud { positions, colours: has_colours.then_some(colours), report: usable.into_report() })
}

/// Fails if the vertex element has more rows than the rest of the file can hold.
fn check_row_count(input: &PlyReader<'_>, vertex: &Element, encoding: Encoding) -> Result<(), SplatError> {
    let row_bytes = match encoding {
        // A digit and a separator per value.
        Encoding::Ascii => 2 * vertex.properties.len() as u64,
        Encoding::LittleEndian | Encoding::BigEndian => vertex.min_row_bytes(),
    };
    // The last separator may be missing.
    let available = input.remaining.saturating_add(u64::from(encoding == Encoding::Ascii));
    let promised = vertex.count.checked_mul(row_bytes);
    if promised.is_some_and(|bytes| bytes <= available) {
        return Ok(());
    }
    let at_least = if encoding == Encoding::Ascii { "at least " } else { "" };
    let expected = format!("{} rows of {at_least}{row_bytes} bytes", vertex.count);
    let found = format!("{} bytes, {} rows", input.remaining, available / row_bytes.max(1));
    Err(input.cut_off("element vertex".to_owned(), expected, found))
}

/// Decodes every row of the vertex element and passes it to `visit` in the order of the layout.
fn for_each_row<T: RowValue>(
    input: &mut PlyReader<'_>,
    encoding: Encoding,
    vertex: &Element,
    layout: &RowLayout,
    mut visit: impl FnMut(&mut [T]),
) -> Result<(), SplatError> {
    let mut decoded = vec![T::from(0.0); layout.sources.len()];
    if encoding == Encoding::Ascii {
        let mut values = vec![0.0f64; vertex.properties.len()];
        let mut word = Vec::new();
        for row in 0..vertex.count {
            for (value, property) in values.iter_mut().zip(&vertex.properties) {
                if let Shape::One(scalar) = property.shape {
                    *value = read_word(input, &mut word, scalar, &property.name, row)?;
                }
            }
            for (out, source) in decoded.iter_mut().zip(&layout.sources) {
                *out = source.value(|column| values.get(column.index).copied().unwrap_or_default());
            }
            visit(&mut decoded);
        }
        return Ok(());
    }

    let row_bytes = vertex.min_row_bytes() as usize;
    let rows_per_chunk = (CHUNK_BYTES / row_bytes).max(1) as u64;
    let plain = if encoding == Encoding::LittleEndian { layout.plain_offsets() } else { None };
    let mut chunk = Vec::new();
    let mut rows_left = vertex.count;
    while rows_left > 0 {
        let rows = rows_left.min(rows_per_chunk);
        chunk.resize(rows as usize * row_bytes, 0);
        input.read_exact(&mut chunk)?;
        for row in chunk.chunks_exact(row_bytes) {
            let from = |offset: usize| row.get(offset..).unwrap_or_default();
            if let Some(plain) = &plain {
                for (out, &offset) in decoded.iter_mut().zip(plain) {
                    *out = from(offset).first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes)).into();
                }
            } else {
                for (out, source) in decoded.iter_mut().zip(&layout.sources) {
                    *out = source.value(|column| number(from(column.offset), column.scalar, encoding));
                }
            }
            visit(&mut decoded);
        }
        rows_left -= rows;
    }
    Ok(())
}

/// Skips an element before the vertices.
pub(in crate::splat) fn skip_element(
    input: &mut PlyReader<'_>,
    element: &Element,
    encoding: Encoding,
) -> Result<(), SplatError> {
    if element.properties.is_empty() {
        return Ok(());
    }
    if encoding == Encoding::Ascii {
        let mut word = Vec::new();
        for row in 0..element.count {
            for property in &element.properties {
                let (Shape::One(scalar) | Shape::List { count: scalar, .. }) = property.shape;
                let value = read_word(input, &mut word, scalar, &property.name, row)?;
                if let Shape::List { item, .. } = property.shape {
                    for _ in 0..list_length(input, value, &element.name, row)? {
                        read_word(input, &mut word, item, &property.name, row)?;
                    }
                }
            }
        }
        return Ok(());
    }
    let promised = element.count.checked_mul(element.min_row_bytes());
    let Some(promised) = promised.filter(|&bytes| bytes <= input.remaining) else {
        let expected = format!("{} rows of at least {} bytes", element.count, element.min_row_bytes());
        return Err(input.cut_off(
            format!("element {}", quote(&element.name)),
            expected,
            format!("{} bytes", input.remaining),
        ));
    };
    if !element.has_lists() {
        return input.skip(promised);
    }
    let mut bytes = Vec::new();
    for row in 0..element.count {
        for property in &element.properties {
            let (Shape::One(scalar) | Shape::List { count: scalar, .. }) = property.shape;
            bytes.resize(scalar.bytes(), 0);
            input.read_exact(&mut bytes)?;
            if let Shape::List { item, .. } = property.shape {
                let length = list_length(input, number(&bytes, scalar, encoding), &element.name, row)?;
                // No overflow: the length is at most the number of remaining bytes.
                let bytes = length.saturating_mul(item.bytes() as u64);
                if bytes > input.remaining {
                    let place = format!("element {} row {row}", quote(&element.name));
                    let (expected, found) = (format!("{bytes} bytes"), format!("{} bytes", input.remaining));
                    return Err(input.cut_off(place, expected, found));
                }
                input.skip(bytes)?;
            }
        }
    }
    Ok(())
}

/// Validates the length of a list against the rest of the file.
fn list_length(input: &PlyReader<'_>, value: f64, element: &str, row: u64) -> Result<u64, SplatError> {
    if value >= 0.0 && value <= input.remaining as f64 && value == value.trunc() {
        return Ok(value as u64);
    }
    let expected = format!("a list of at most {} values", input.remaining);
    Err(input.cut_off(format!("element {} row {row}", quote(element)), expected, value.to_string()))
}

/// Reads the next number of an ASCII body.
fn read_word(
    input: &mut PlyReader<'_>,
    word: &mut Vec<u8>,
    scalar: Scalar,
    property: &str,
    row: u64,
) -> Result<f64, SplatError> {
    if !input.word(word)? {
        let place = format!("row {row} property {}", quote(property));
        return Err(input.cut_off(place, "a number".to_owned(), "the end of the file".to_owned()));
    }
    let text = std::str::from_utf8(word).unwrap_or_default();
    let value = match scalar {
        // Parsed at its own precision, because rounding twice could change the last bit.
        Scalar::F32 => text.parse::<f32>().map(f64::from).ok(),
        _ => text.parse::<f64>().ok(),
    };
    value.ok_or_else(|| SplatError::Value {
        path: input.path.to_owned(),
        place: format!("line {} property {}", input.line, quote(property)),
        expected: format!("a {} such as 0.25", scalar.name()),
        found: word.iter().take(40).map(|b| b.escape_ascii().to_string()).collect(),
    })
}

/// Decodes the binary number at the start of `bytes`.
fn number(bytes: &[u8], scalar: Scalar, encoding: Encoding) -> f64 {
    let bytes = bytes.iter().take(scalar.bytes());
    let add = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
    let bits = if encoding == Encoding::BigEndian { bytes.fold(0, add) } else { bytes.rev().fold(0, add) };
    match scalar {
        Scalar::I8 => f64::from(bits as i8),
        Scalar::U8 => f64::from(bits as u8),
        Scalar::I16 => f64::from(bits as i16),
        Scalar::U16 => f64::from(bits as u16),
        Scalar::I32 => f64::from(bits as i32),
        Scalar::U32 => f64::from(bits as u32),
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        Scalar::F64 => f64::from_bits(bits),
    }
}
