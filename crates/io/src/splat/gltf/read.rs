//! Reads glTF files: the container, its JSON, and the splats of each primitive.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::fmt::Write;
use std::io::{Read, SeekFrom};

use super::buffers::{ByteRange, open_buffer};
use super::json::{GltfRoot, is_splat_extension};
use super::parts::Parts;
use super::spz::is_spz_extension;
use super::{BINARY_CHUNK, CHUNK_HEAD_BYTES, EXTENSION, HEADER_BYTES, JSON_CHUNK, MAGIC, VERSION};
use crate::splat::format::FileStart;
use crate::splat::metadata;
use crate::splat::source::SourceFile;
use crate::splat::{Initial, SplatError, SplatFile};
use crate::text::quote;

/// Longest JSON, bytes.
const MAX_JSON_BYTES: u64 = 64 << 20;

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
    let is_read =
        |name: &String| is_splat_extension(name) || is_spz_extension(name) || name == "KHR_mesh_quantization";
    if let Some(name) = root.extensions_required.iter().find(|name| !is_read(name)) {
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
    let placed = root.placed_meshes().map_err(|[place, expected, found]| {
        source.damaged_error(place, "the scene cannot be laid out", expected, found)
    })?;
    let parts = Parts::find(&placed, source, &root, &mut buffers)?;
    let is_unmoved = parts.is_unmoved;
    let document = parts.read(source, &mut buffers)?;
    let mut frame = "y up, turned by half a turn about z".to_owned();
    if let Some(axes) = &document.frame {
        let _ = write!(frame, "; SPZ in it: {}", axes.split(',').next().unwrap_or_default());
    }
    let document = SplatFile {
        version: Some(if binary.is_some() { "2.0, binary".to_owned() } else { "2.0".to_owned() }),
        frame: Some(frame),
        ..document
    };
    // Metadata is valid only for splats that were not transformed since.
    let said = metadata::json_lines(&root.asset.extras).filter(|_| is_unmoved);
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
