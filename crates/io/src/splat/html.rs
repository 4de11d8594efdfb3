//! HTML page for browsers (`crates/page`): a compressed PLY and the script that renders it.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{self, Cursor, Read, Write};

use flate2::read::ZlibDecoder;
use gausset_page::scene::{self, ScenePage};

use super::format::FileStart;
use super::source::SourceFile;
use super::{Format, Initial, SaveOptions, SaveReport, SplatError, SplatFile, compressed_ply};

/// Whether the file is a page that Gausset wrote.
pub(super) fn sniff(start: &FileStart) -> bool {
    scene::is_scene_page(&start.bytes)
}

/// Reads the splats of a page.
pub(super) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let memory = source.memory;
    let mut page = memory.vec_with_capacity(source.bytes)?;
    let read = (&mut *source.stream).take(source.bytes).read_to_end(&mut page);
    read.map_err(|error| source.io(error))?;
    // Packed data is shorter than its text.
    let packed_bytes = page.len() as u64;
    memory.reserve(packed_bytes)?;
    let none = || {
        let (expected, found) = ("a compressed PLY", "none that is whole");
        source.damaged_error("script splats", "no splats in the page", expected, found)
    };
    let packed = scene::packed_ply(&page).ok_or_else(none)?;
    memory.release(source.bytes);
    drop(page);
    // Unpacked twice, because the length is not stored: once to count it, once to keep it.
    let ply = || ZlibDecoder::new(&packed[..]);
    let most = source.options.limits.memory_bytes.saturating_add(1);
    let bytes = io::copy(&mut ply().take(most), &mut io::sink()).map_err(|_| none())?;
    let mut content = memory.vec_with_capacity(bytes)?;
    ply().read_to_end(&mut content).map_err(|_| none())?;
    memory.release(packed_bytes);
    drop(packed);
    let (path, options, stream) = (source.path, source.options, &mut Cursor::new(content));
    match compressed_ply::read(&mut SourceFile { stream, bytes, path, folder: None, options, memory })? {
        Initial::Splats(document) => Ok(Initial::Splats(SplatFile { format: Format::Html, ..document })),
        points @ Initial::Points(_) => Ok(points),
    }
}

/// Writes a document.
pub(super) fn write(
    writer: &mut dyn Write,
    document: &SplatFile,
    options: &SaveOptions,
) -> io::Result<SaveReport> {
    let mut ply = Vec::new();
    let saved = compressed_ply::write(&mut ply, document, options)?;
    let unnamed = || ScenePage { title: "Splats".to_owned(), ..ScenePage::default() };
    let described = document.page.as_deref().cloned().unwrap_or_else(unnamed);
    // Edits may have removed splats since it was described.
    let scene = ScenePage { sky: document.sky, ..described };
    let bytes = scene::write(writer, &scene, &ply)?;
    Ok(SaveReport { format: Format::Html, bytes, ..saved })
}
