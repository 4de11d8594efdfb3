//! Metadata that files contain in addition to the splats: up direction, transform since training, place on the earth, near
//! plane, which splats are a sky, rendering mode.
//!
//! A PLY stores it in comments. GLB (`asset.extras.gausset`), SOG (`asset.gausset` of `meta.json` or `lod-meta.json`) and SPZ 4 (an
//! extension) store the same lines where other readers ignore them. They refer to the axes of a PLY.

use super::SplatFile;
use super::ply::{CommentMetadata, comments};

/// Largest number of lines that are read.
const MAX_LINES: usize = 16;

/// Metadata lines of a document; empty if there is nothing to store.
pub(super) fn metadata_lines(document: &SplatFile) -> Vec<String> {
    let text = comments(document, document.splats.len() as u64);
    let lines = text.lines().filter_map(|line| line.strip_prefix("comment "));
    // Drop the generator, which is stored elsewhere, and the default render mode.
    lines
        .filter(|l| !l.starts_with("Generated") && *l != "SplatRenderMode: default")
        .map(str::to_owned)
        .collect()
}

/// Applies metadata lines to a document.
pub(super) fn apply_metadata<'a>(document: SplatFile, lines: impl IntoIterator<Item = &'a str>) -> SplatFile {
    let mut said = CommentMetadata::default();
    lines.into_iter().take(MAX_LINES).for_each(|line| said.read(line));
    // Dropped splats may have belonged to the sky, so its count is invalid then.
    let is_whole = document.report.dropped_total() == 0;
    let sky = if is_whole { said.sky_of(document.splats.len() as u64) as usize } else { 0 };
    SplatFile {
        antialiased: document.antialiased || said.antialiased,
        flat: document.flat || said.flat,
        vertical_axis: document.vertical_axis.or(said.vertical_axis),
        saved_from_dataset: document.saved_from_dataset.or(said.saved_from_dataset),
        georeference: document.georeference.or(said.georeference),
        offset: document.offset.or(said.offset),
        near_plane: document.near_plane.or(said.near_plane),
        sky,
        ..document
    }
}

/// Lines under the key `gausset` of an object that may have third-party keys.
pub(super) fn json_lines(object: &serde_json::Value) -> impl Iterator<Item = &str> {
    object
        .get("gausset")
        .and_then(|lines| lines.as_array())
        .into_iter()
        .flatten()
        .filter_map(|line| line.as_str())
}
