//! A page for browsers (`crates/page`): a compressed PLY, and what draws it.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{self, Cursor, Read, Write};

use gausset_page::scene::{self, Scene};

use super::format::Start;
use super::source::Source;
use super::{Document, Format, Initial, SaveOptions, Saved, SplatError, compressed_ply};

/// A page of ours.
pub(super) fn sniff(start: &Start) -> bool {
    scene::is_one(&start.bytes)
}

/// Reads the splats out of a page.
pub(super) fn read(source: &mut Source<'_>) -> Result<Initial, SplatError> {
    let limit = source.options.limits.memory_bytes;
    if source.bytes > limit {
        let (path, needed) = (source.path.to_owned(), source.bytes);
        return Err(SplatError::Memory { path, count: 0, needed, limit });
    }
    let mut page = Vec::new();
    let read = (&mut *source.stream).take(limit).read_to_end(&mut page);
    read.map_err(|error| source.io(error))?;
    let Some(ply) = scene::read(&page, limit) else {
        let (expected, found) = ("a compressed PLY", "none that is whole");
        return Err(source.damaged("script splats", "no splats in the page", expected, found));
    };
    drop(page);
    let (bytes, stream) = (ply.len() as u64, &mut Cursor::new(ply));
    let (path, options) = (source.path, source.options);
    match compressed_ply::read(&mut Source { stream, bytes, path, folder: None, options })? {
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
