//! Reads glTF files: the container, its JSON, and the splats of each primitive.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{Read, SeekFrom};

use gausset_core::Splats;
use gausset_core::splats_transform::Similarity;

use super::buffers::{ByteRange, open_buffer};
use super::columns::Columns;
use super::json::GltfRoot;
use super::{BINARY_CHUNK, CHUNK_HEAD_BYTES, EXTENSION, HEADER_BYTES, JSON_CHUNK, MAGIC, VERSION};
use crate::splat::format::FileStart;
use crate::splat::metadata;
use crate::splat::source::SourceFile;
use crate::splat::usable::splat_bytes;
use crate::splat::{Format, Initial, ReadReport, SplatError, SplatFile};
use crate::text::quote;

/// Longest JSON, bytes.
const MAX_JSON_BYTES: u64 = 64 << 20;
/// Fewest bytes of a splat with all attributes.
const MIN_SPLAT_BYTES: u64 = 32;
/// How many meshes may share the same data.
const MAX_REUSE: u64 = 16;

/// Detects GLB by its magic number, JSON by its keys.
pub(in crate::splat) fn sniff(start: &FileStart) -> bool {
    start.bytes.starts_with(MAGIC)
        || start.is_json()
            && start.contains("\"asset\"")
            && (start.contains("\"accessors\"") || start.contains("\"bufferViews\""))
}

/// Reads a file.
pub(in crate::splat) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let (json, binary) = read_container(source)?;
    source.memory.reserve_json(&json)?;
    let mut parser = serde_json::Deserializer::from_slice(&json);
    let root: GltfRoot = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let place = format!("JSON {}", quote(&error.path().to_string()));
        source.damaged_error(place, "not the JSON of a glTF", "glTF 2.0", quote(&error.inner().to_string()))
    })?;
    source.memory.release(json.len() as u64);
    drop(json);
    if let Some(name) = root.extensions_required.iter().find(|name| *name != EXTENSION) {
        return Err(source.damaged_error(
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
    let total = buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.bytes()));

    let mut parts = Vec::new();
    let mut count = 0u64;
    let mut notes = Vec::new();
    let placed = root.placed_meshes().map_err(|[place, expected, found]| {
        source.damaged_error(place, "the scene cannot be laid out", expected, found)
    })?;
    for place in placed {
        let Some(mesh) = root.meshes.get(place.mesh) else {
            let expected = format!("a number below {}", root.meshes.len());
            return Err(source.damaged_error(
                "nodes",
                "there is no such mesh",
                expected,
                place.mesh.to_string(),
            ));
        };
        for primitive in &mesh.primitives {
            let Some(extension) = primitive.extensions.get(EXTENSION) else { continue };
            check_extension(source, extension, &mut notes)?;
            let columns = Columns::from_primitive(source, &root, &buffers, primitive, place.transform)?;
            count = count.saturating_add(columns.count);
            if count.saturating_mul(MIN_SPLAT_BYTES) > total.saturating_mul(MAX_REUSE) {
                let expected = format!("at most {} in {total} bytes", total * MAX_REUSE / MIN_SPLAT_BYTES);
                return Err(source.damaged_error(
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
        return Err(source.damaged_error(
            "meshes",
            "a glTF without splats",
            format!("the extension {EXTENSION}"),
            found,
        ));
    };
    let is_one = parts.len() == 1;
    let mut splats = Splats::default();
    if !is_one {
        source.memory.reserve_rows(count, splat_bytes(count, degree))?;
        splats = Splats::with_capacity(degree, count as usize);
    }
    let mut report = ReadReport::default();
    let is_where_it_was = is_one && parts.iter().all(|part| part.transform == Similarity::IDENTITY);
    for part in parts {
        let document = part.read(degree, source, &mut buffers)?;
        let (bytes, mut part) = (splat_bytes(part.count, degree), document.splats);
        if is_one {
            splats = part;
        } else {
            splats.means.append(&mut part.means);
            splats.log_scales.append(&mut part.log_scales);
            splats.quats.append(&mut part.quats);
            splats.opacity_logits.append(&mut part.opacity_logits);
            splats.sh.append(&mut part.sh);
            source.memory.release(bytes);
        }
        report.add(document.report);
    }
    report.notes.extend(notes);
    let document = SplatFile {
        format: Format::Gltf,
        version: Some(if binary.is_some() { "2.0, binary".to_owned() } else { "2.0".to_owned() }),
        frame: Some("y up, turned by half a turn about z".to_owned()),
        report,
        ..SplatFile::new(splats)
    };
    // Metadata is valid only for splats that were not transformed since.
    let said = metadata::json_lines(&root.asset.extras).filter(|_| is_where_it_was);
    Ok(Initial::Splats(metadata::apply_metadata(document, said)))
}

/// Reads the JSON of a file, and offset and length of the binary chunk of a GLB.
fn read_container(source: &mut SourceFile<'_>) -> Result<(Vec<u8>, Option<ByteRange>), SplatError> {
    let mut magic = [0; 4];
    if source.bytes >= HEADER_BYTES {
        source.read_exact(&mut magic)?;
    }
    if magic != *MAGIC {
        source.stream.seek(SeekFrom::Start(0)).map_err(|error| source.io(error))?;
        return Ok((read_json(source, source.bytes)?, None));
    }
    let word = |source: &mut SourceFile<'_>| -> Result<u32, SplatError> {
        let mut bytes = [0; 4];
        source.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let (version, length) = (word(source)?, u64::from(word(source)?));
    if version != VERSION {
        return Err(source.damaged_error("header", "unknown version of a GLB", "2", version.to_string()));
    }
    if length != source.bytes {
        let (expected, found) = (format!("{length} bytes"), format!("{} bytes", source.bytes));
        return Err(source.damaged_error("header", "not as long as the header says", expected, found));
    }
    let (mut json, mut at) = (None, HEADER_BYTES);
    let mut binary = (0, 0);
    while at + CHUNK_HEAD_BYTES <= length {
        source.stream.seek(SeekFrom::Start(at)).map_err(|error| source.io(error))?;
        let (bytes, kind) = (u64::from(word(source)?), word(source)?);
        at += CHUNK_HEAD_BYTES;
        if bytes > length - at {
            let (expected, found) = (format!("{bytes} bytes"), format!("{} bytes", length - at));
            return Err(source.damaged_error("chunk", "cut off", expected, found));
        }
        match (kind, &json) {
            (JSON_CHUNK, None) => json = Some(read_json(source, bytes)?),
            (BINARY_CHUNK, Some(_)) if binary == (0, 0) => binary = (at, bytes),
            _ => {}
        }
        // Chunks start at multiples of four.
        at += bytes.next_multiple_of(4);
    }
    match json {
        Some(json) => Ok((json, Some(binary))),
        None => Err(source.damaged_error("chunks", "a GLB without JSON", "a chunk JSON first", "none")),
    }
}

fn read_json(source: &mut SourceFile<'_>, bytes: u64) -> Result<Vec<u8>, SplatError> {
    if bytes > MAX_JSON_BYTES {
        return Err(source.damaged_error("JSON", "too long", "at most 64 MiB", format!("{bytes} bytes")));
    }
    let mut json = source.memory.vec_with_capacity(bytes)?;
    let read = (&mut *source.stream).take(bytes).read_to_end(&mut json);
    read.map_err(|error| source.io(error))?;
    Ok(json)
}

/// Checks the properties of the extension of a primitive.
fn check_extension(
    source: &SourceFile<'_>,
    extension: &serde_json::Value,
    notes: &mut Vec<String>,
) -> Result<(), SplatError> {
    if let Some((name, _)) =
        extension.get("extensions").and_then(|e| e.as_object()).and_then(|e| e.iter().next())
    {
        let what = "an extension that is not read";
        return Err(source.damaged_error(EXTENSION, what, "splats that are not compressed", quote(name)));
    }
    match extension.get("kernel").and_then(|kernel| kernel.as_str()) {
        Some("ellipse") | None => {}
        Some(kernel) => {
            return Err(source.damaged_error("kernel", "a shape that is not read", "ellipse", quote(kernel)));
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
