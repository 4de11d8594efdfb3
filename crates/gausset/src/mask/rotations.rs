//! Rotation of the camera between the frames of a video.

use std::path::Path;

use gausset_core::se3::{self, IDENTITY3, Mat3};
use gausset_io::input;
use gausset_pano::motion::{GreyImage, MotionEstimator, SmallProjection};
use gausset_pano::selection::{FRAMES_FILE, FrameRecord};

use super::input::MaskInput;

/// Size limit of `frames.jsonl`.
const MAX_BYTES: u64 = 1 << 30;

/// Rotation from the previous frame to each frame, if the frame selection recorded it.
pub(super) fn recorded_rotations(input: &MaskInput) -> Vec<Option<Mat3>> {
    let names: Vec<&str> = input.frames().iter().map(|frame| frame.stem.as_str()).collect();
    match input {
        MaskInput::Panoramas(source) => match &source.selection {
            Some(selection) => between_selected(&selection.lines, &names),
            None => vec![None; names.len()],
        },
        MaskInput::Views(folder, ..) => between_selected(&lines(folder), &names),
        MaskInput::Photographs(..) => vec![None; names.len()],
    }
}

fn lines(folder: &Path) -> Vec<FrameRecord> {
    let text = input::read_to_string(&folder.join(FRAMES_FILE), MAX_BYTES).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Rotations from each selected frame to the next, composed over the frames between.
fn between_selected(lines: &[FrameRecord], names: &[&str]) -> Vec<Option<Mat3>> {
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
pub(super) fn estimate_rotation(before: &GreyImage, after: &GreyImage) -> Option<Mat3> {
    if [before.width, before.height] != [after.width, after.height] {
        return None;
    }
    let mut scout = MotionEstimator::new(SmallProjection::sphere(before.width, before.height));
    scout.add_frame(&mut before.clone());
    scout.add_frame(&mut after.clone());
    let degrees = scout.finish().get(1)?.rotation?;
    Some(se3::so3_exp(degrees.map(f64::to_radians)))
}
