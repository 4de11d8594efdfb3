//! HTML page for browsers (`crates/page`): a compressed PLY and the script that renders it.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{self, Cursor, Read, Write};

use flate2::read::ZlibDecoder;
use gausset_page::scene::{self, Scene};

use super::format::Start;
use super::source::Source;
use super::{Document, Format, Initial, SaveOptions, Saved, SplatError, compressed_ply};

/// Whether the file is a page that Gausset wrote.
pub(super) fn sniff(start: &Start) -> bool {
    scene::is_one(&start.bytes)
}

/// Reads the splats of a page.
pub(super) fn read(source: &mut Source<'_>) -> Result<Initial, SplatError> {
    let memory = source.memory;
    let mut page = memory.room(source.bytes)?;
    let read = (&mut *source.stream).take(source.bytes).read_to_end(&mut page);
    read.map_err(|error| source.io(error))?;
    // Packed data is shorter than its text.
    let packed_bytes = page.len() as u64;
    memory.draw(packed_bytes)?;
    let none = || {
        let (expected, found) = ("a compressed PLY", "none that is whole");
        source.damaged("script splats", "no splats in the page", expected, found)
    };
    let packed = scene::packed(&page).ok_or_else(none)?;
    memory.give_back(source.bytes);
    drop(page);
    // Unpacked twice, because the length is not stored: once to count it, once to keep it.
    let ply = || ZlibDecoder::new(&packed[..]);
    let most = source.options.limits.memory_bytes.saturating_add(1);
    let bytes = io::copy(&mut ply().take(most), &mut io::sink()).map_err(|_| none())?;
    let mut content = memory.room(bytes)?;
    ply().read_to_end(&mut content).map_err(|_| none())?;
    memory.give_back(packed_bytes);
    drop(packed);
    let (path, options, stream) = (source.path, source.options, &mut Cursor::new(content));
    match compressed_ply::read(&mut Source { stream, bytes, path, folder: None, options, memory })? {
        Initial::Splats(document) => Ok(Initial::Splats(Document { format: Format::Html, ..document })),
        points @ Initial::Points(_) => Ok(points),
    }
}

/// Writes a document.
pub(super) fn write(writer: &mut dyn Write, document: &Document, options: &SaveOptions) -> io::Result<Saved> {
    let mut ply = Vec::new();
    let saved = compressed_ply::write(&mut ply, document, options)?;
    let unnamed = || Scene { title: "Splats".to_owned(), ..Scene::default() };
    let scene = document.page.as_deref().cloned().unwrap_or_else(unnamed);
    let bytes = scene::write(writer, &scene, &ply)?;
    Ok(Saved { format: Format::Html, bytes, ..saved })
}
