//! Features and matches of an interrupted alignment: used again by the same job.
//!
//! The folder of a recipe's database holds `input.json`: the tool and its version, the settings that features and matches
//! depend on, and the list of images with their sizes and times. COLMAP itself continues in a database: it extracts the
//! features of images that have none, and matches pairs that were not matched.

use std::io::Write;
use std::path::Path;
use std::time::UNIX_EPOCH;

use gausset_io::atomic::{Disk, FileSystem, Overwrite, write_atomic};
use gausset_io::{input, ownership};
use serde_json::{Value, json};

use crate::align::{AlignError, AlignJob, DATABASE, WORK_FOLDER_KIND, attempt_of_recipe};
use crate::attempt::Matcher;
use crate::ladder::Recipe;
use crate::tool::AlignmentTool;

/// File that identifies the input of a database.
const INPUT: &str = "input.json";
/// Largest such file, bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Prepares the folder of a recipe: empty, or with the database of the same input.
pub(crate) fn prepare(
    job: &AlignJob,
    tool: &AlignmentTool,
    recipe: Recipe,
    folder: &Path,
) -> Result<(), AlignError> {
    let key = input_key(job, tool, recipe, folder);
    let path = folder.join(INPUT);
    let is_same = job.imported_matches.is_none()
        && input::read(&path, MAX_BYTES)
            .ok()
            .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
            .is_some_and(|known| known == key);
    if is_same {
        return Ok(());
    }
    ownership::remove(folder, WORK_FOLDER_KIND)?;
    ownership::claim_folder(&Disk, folder, WORK_FOLDER_KIND, Overwrite::Refuse)?;
    write_atomic(&Disk, &path, |file| writeln!(file, "{key:#}"))?;
    Ok(())
}

/// Whether a work folder has a database.
pub(crate) fn has_database(work_folder: &Path) -> bool {
    let names = Disk.list(work_folder).unwrap_or_default();
    names.iter().any(|name| work_folder.join(name).join(DATABASE).is_file())
}

/// Everything that features and matches depend on.
fn input_key(job: &AlignJob, tool: &AlignmentTool, recipe: Recipe, folder: &Path) -> Value {
    let attempt = attempt_of_recipe(job, recipe, folder);
    let about = size_and_time;
    let image = |name: &String| {
        let mask = job.masks.get(name).map(|path| (about(path).0, job.invert_masks));
        (name.clone(), about(&job.image_folder.join(name)), mask)
    };
    let images: Vec<_> = job.frames.iter().flat_map(|frame| &frame.images).map(image).collect();
    json!({
        "tool": tool.describe(),
        "images": images,
        "rig": attempt.rig_config.as_deref().and_then(|path| input::read_to_string(path, MAX_BYTES).ok()),
        "camera-model": attempt.camera_model,
        "camera-params": attempt.camera_params,
        "camera-mode": attempt.camera_mode,
        "max-features": attempt.max_features,
        "max-image-size": attempt.max_image_size,
        "affine-shape": attempt.affine_shape,
        "matcher": attempt.matcher,
        "overlap": attempt.overlap,
        // COLMAP maps all matches of a database, also those of another list.
        "pairs": (attempt.matcher == Matcher::Listed).then(|| job.pairs.describe()),
        "seed": attempt.seed,
    })
}

/// Size of a file and time of its last change.
pub(crate) fn size_and_time(path: &Path) -> (Option<u64>, Option<String>) {
    let about = std::fs::metadata(path).ok();
    let modified = about.as_ref().and_then(|about| about.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    (about.map(|about| about.len()), modified.map(|time| time.as_nanos().to_string()))
}
