//! *Save as*: the splats that pages show, as a file. The page names a format by one word; everything else is that of the
//! viewer.

use std::path::Path;

use gausset::Failure;
use gausset::convert::SplatEdits;
use gausset_core::Region;
use gausset_io::splat::{self, Format, LoadOptions, SaveOptions, SplatFile};

use crate::protocol::SplatFilter;
use crate::scene::SceneDescription;

/// The formats that a page can ask for, by the ending of the file.
const FORMATS: [(&str, Format); 4] =
    [("html", Format::Html), ("spz", Format::Spz), ("sog", Format::Sog), ("ply", Format::Ply)];

/// The format of a word in `/api/save/WORD`.
pub(crate) fn format_from_word(word: &str) -> Option<Format> {
    FORMATS.iter().find(|(ending, _)| *ending == word).map(|&(_, format)| format)
}

/// Removes the splats that a filter hides, and scales the others if it says so.
pub(crate) fn apply_filter(file: &mut SplatFile, filter: &SplatFilter) {
    let ball = filter.sphere.map(|[x, y, z, radius]| Region::Ball { centre: [x, y, z], radius });
    let within_box =
        filter.within_box.map(|[a, b, c, d, e, f]| Region::Box { min: [a, b, c], max: [d, e, f] });
    let edits = SplatEdits {
        drop_far: filter.drop_far,
        min_opacity: filter.min_opacity,
        within: within_box.into_iter().chain(ball).collect(),
        ..SplatEdits::default()
    };
    edits.filter(file);
    if let Some(most) = filter.max_size {
        let largest = file.splats.log_scales.iter().map(|s| f64::from(s[0].max(s[1]).max(s[2])));
        let stays: Vec<bool> = largest.map(|log_scale| log_scale <= most.ln()).collect();
        file.retain(&stays);
    }
    if let Some(factor) = filter.shrink {
        let change = factor.ln() as f32;
        file.splats.log_scales.iter_mut().flatten().for_each(|log_scale| *log_scale += change);
    }
}

/// The splats of a file that this scene shows, in another format. The memory for reading is limited as everywhere.
///
/// # Errors
/// The file cannot be read, or the format cannot hold it.
pub(crate) fn file_of_shown(
    path: &Path,
    options: &LoadOptions,
    scene: &SceneDescription,
    format: Format,
) -> Result<Vec<u8>, Failure> {
    let mut file = splat::load(path, options)?;
    apply_filter(&mut file, &scene.filter.unwrap_or_default());
    if format == Format::Html {
        let sky = file.splats.len() - file.scene_len();
        file.page = Some(Box::new(scene.to_page(sky)));
    }
    let mut bytes = Vec::new();
    splat::write(&mut bytes, &file, format, &SaveOptions::default())
        .map_err(|error| Failure::new("write", format!("{}: {error}", format.row().title)))?;
    Ok(bytes)
}
