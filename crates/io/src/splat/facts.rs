//! What files say of a scene beside the numbers of its splats: what is up, how it was turned since it was trained, which
//! splats are a sky, how it is drawn.
//!
//! A PLY says it in comments. GLB (`asset.extras.gausset`), SOG (`asset.gausset` of `meta.json`) and SPZ 4 (an extension)
//! keep the same lines in places that other readers pass over. They speak of the axes of a PLY.

use super::Document;
use super::ply::{Comments, comments};

/// Most lines that are looked at.
const MOST_LINES: usize = 16;

/// The lines of a document, none where there is nothing to tell.
pub(super) fn lines(document: &Document) -> Vec<String> {
    let text = comments(document);
    let lines = text.lines().filter_map(|line| line.strip_prefix("comment "));
    // Who wrote it, and that it is drawn as usual, is said elsewhere or goes without saying.
    lines
        .filter(|l| !l.starts_with("Generated") && *l != "SplatRenderMode: default")
        .map(str::to_owned)
        .collect()
}

/// The document with what lines say of it.
pub(super) fn obey<'a>(document: Document, lines: impl IntoIterator<Item = &'a str>) -> Document {
    let mut said = Comments::default();
    lines.into_iter().take(MOST_LINES).for_each(|line| said.read(line));
    // Splats that were left out may have been of the sky.
    let is_whole = document.report.dropped_total() == 0;
    let sky = usize::try_from(said.sky).ok().filter(|sky| is_whole && *sky <= document.splats.len());
    Document {
        antialiased: document.antialiased || said.antialiased,
        flat: document.flat || said.flat,
        vertical_axis: document.vertical_axis.or(said.vertical_axis),
        saved_from_dataset: document.saved_from_dataset.or(said.saved_from_dataset),
        sky: sky.unwrap_or(document.sky),
        ..document
    }
}

/// The lines under the key `gausset` of an object of other people's keys.
pub(super) fn in_json(object: &serde_json::Value) -> impl Iterator<Item = &str> {
    object
        .get("gausset")
        .and_then(|lines| lines.as_array())
        .into_iter()
        .flatten()
        .filter_map(|line| line.as_str())
}
