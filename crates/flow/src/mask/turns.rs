//! Rotation of the camera between the frames of a video.

use std::path::Path;

use gausset_core::se3::{self, IDENTITY3, Mat3};
use gausset_io::input;
use gausset_pano::motion::{Grey, Optics, Scout};
use gausset_pano::selection::{FILE, Line};

use super::input::Input;

/// Size limit of `frames.jsonl`.
const MAX_BYTES: u64 = 1 << 30;

/// Rotation from the previous frame to each frame, if the frame selection recorded it.
pub(super) fn known(input: &Input) -> Vec<Option<Mat3>> {
    let names: Vec<&str> = input.frames().iter().map(|frame| frame.stem.as_str()).collect();
    match input {
        Input::Panoramas(source) => match &source.selection {
            Some(selection) => along(&selection.lines, &names),
            None => vec![None; names.len()],
        },
        Input::Views(folder, ..) => along(&lines(folder), &names),
        Input::Photographs(_) => vec![None; names.len()],
    }
}

fn lines(folder: &Path) -> Vec<Line> {
    let text = input::read_to_string(&folder.join(FILE), MAX_BYTES).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Rotations from each selected frame to the next, composed over the frames between.
fn along(lines: &[Line], names: &[&str]) -> Vec<Option<Mat3>> {
    let mut turns = vec![None; names.len()];
    let mut since: Option<Mat3> = None;
    let mut last: Option<usize> = None;
    for line in lines {
        let turn = line.rotation.map(|degrees| se3::so3_exp(degrees.map(f64::to_radians)));
        since = since.zip(turn).map(|(since, turn)| se3::mul(&turn, &since));
        let Some(name) = line.name.as_deref().filter(|_| line.kept) else { continue };
        let Some(at) = names.iter().position(|known| *known == name) else { continue };
        if at.checked_sub(1) == last && last.is_some() {
            turns[at] = since;
        }
        (since, last) = (Some(IDENTITY3), Some(at));
    }
    turns
}

/// Estimates the rotation between two panoramas from their content.
pub(super) fn between(before: &Grey, after: &Grey) -> Option<Mat3> {
    if [before.width, before.height] != [after.width, after.height] {
        return None;
    }
    let mut scout = Scout::new(Optics::sphere(before.width, before.height));
    scout.look(&mut before.clone());
    scout.look(&mut after.clone());
    let degrees = scout.finish().get(1)?.rotation?;
    Some(se3::so3_exp(degrees.map(f64::to_radians)))
}
