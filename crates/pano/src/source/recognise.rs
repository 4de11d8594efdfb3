//! Recognises sources of several parts: a cross by its empty cells, six faces and two streams by their names.

use std::path::PathBuf;

use gausset_jpeg::plane::{Frame, Plane};

use crate::source::frames::{SourceFrame, source_frame_from_files};
pub use crate::source::lens_names::{pair_lens_files, probable_lens_words};
pub use crate::source::two_circles::is_two_circles_file;
use crate::sphere::cube::{Face, Faces};

/// Largest luma range of a uniform area after compression.
const UNIFORM_RANGE: u8 = 24;
/// Width of the edge of a cell that is ignored, because compression blurs across it, px.
const IGNORED_EDGE: usize = 16;

/// Whether all empty cells of a cross have one brightness, unlike a photograph.
#[must_use]
pub fn has_uniform_empty_cells(faces: &Faces, picture: &Frame) -> bool {
    let Some(luma) = picture.planes.first() else {
        return false;
    };
    let empty = faces.cells.iter().enumerate().filter(|(_, cell)| cell.is_none());
    let [low, high] = empty.fold([u8::MAX, u8::MIN], |[low, high], (place, _)| {
        let [darkest, brightest] = luma_range(faces, place, luma);
        [low.min(darkest), high.max(brightest)]
    });
    low > high || high - low <= UNIFORM_RANGE
}

/// Whether a video frame is a cross: its empty cells are uniform, and at least five of its faces are not (one may be
/// the sky). `None` if too few faces have content, as in the first frames of a video.
#[must_use]
pub fn is_cross_frame(faces: &Faces, picture: &Frame) -> Option<bool> {
    let luma = picture.planes.first()?;
    if !has_uniform_empty_cells(faces, picture) {
        return Some(false);
    }
    let shows = |place: usize| {
        let [low, high] = luma_range(faces, place, luma);
        high.saturating_sub(low) > UNIFORM_RANGE
    };
    let full = (0..faces.cells.len()).filter(|&place| faces.cells[place].is_some() && shows(place)).count();
    (full >= 5).then_some(true)
}

/// Darkest and brightest pixel of a cell, without its edge.
fn luma_range(faces: &Faces, place: usize, luma: &Plane) -> [u8; 2] {
    let (side, columns) = (faces.side as usize, faces.columns as usize);
    let (left, top) = (place % columns * side, place / columns * side);
    let (mut low, mut high) = (u8::MAX, u8::MIN);
    for y in (IGNORED_EDGE..side.saturating_sub(IGNORED_EDGE)).step_by(4) {
        let row = &luma.row((top + y) as i32)[left..left + side];
        for &value in row.iter().take(side.saturating_sub(IGNORED_EDGE)).skip(IGNORED_EDGE).step_by(4) {
            (low, high) = (low.min(value), high.max(value));
        }
    }
    [low, high]
}

/// The face at the end of a file stem, and the part before it.
fn split_face_suffix(stem: &str) -> Option<(&str, Face)> {
    let cut = stem.rfind(['_', '-', '.', ' ']).map_or(0, |at| at + 1);
    let word = stem[cut..].to_ascii_lowercase();
    let face = Face::ALL.into_iter().find(|face| face.file_words().contains(&word.as_str()))?;
    Some((stem[..cut].trim_end_matches(['_', '-', '.', ' ']), face))
}

/// Groups images of single faces into frames of six; `None` if an image is not a face. An incomplete set is returned as
/// the error: its name and the missing face.
#[must_use]
pub fn group_faces(frames: &[SourceFrame]) -> Option<Result<Vec<SourceFrame>, (String, &'static str)>> {
    let mut sets: Vec<(&str, [Option<PathBuf>; 6])> = Vec::new();
    for frame in frames {
        let (name, face) = split_face_suffix(&frame.stem)?;
        let file = frame.files.first()?.clone();
        match sets.iter_mut().find(|(known, _)| *known == name) {
            Some((_, files)) if files[face as usize].is_some() => return None,
            Some((_, files)) => files[face as usize] = Some(file),
            None => {
                let mut files: [Option<PathBuf>; 6] = Default::default();
                files[face as usize] = Some(file);
                sets.push((name, files));
            }
        }
    }
    if sets.is_empty() {
        return None;
    }
    let whole = sets.into_iter().map(|(name, files)| {
        if let Some(missing) = Face::ALL.into_iter().find(|face| files[*face as usize].is_none()) {
            return Err((name.to_owned(), missing.name()));
        }
        let name = if name.is_empty() { "cube" } else { name };
        Ok(source_frame_from_files(name, files.into_iter().flatten().collect()))
    });
    Some(whole.collect())
}

/// Name of the counterpart that is missing of a GoPro MAX stream image; `None` if all are paired.
#[must_use]
pub fn find_missing_stream(frames: &[SourceFrame]) -> Option<String> {
    frames.iter().find_map(|frame| {
        let (name, other) = match frame.stem.strip_suffix("_track0") {
            Some(name) => (name, "track5"),
            None => (frame.stem.strip_suffix("_track5")?, "track0"),
        };
        let wanted = format!("{name}_{other}");
        (!frames.iter().any(|frame| frame.stem == wanted)).then_some(wanted)
    })
}

/// Pairs the images `NAME_track0` and `NAME_track5` of GoPro MAX streams into frames; `None` if other images are among
/// them or a counterpart is missing.
#[must_use]
pub fn pair_streams(frames: &[SourceFrame]) -> Option<Vec<SourceFrame>> {
    let mut pairs = Vec::new();
    for first in frames {
        if let Some(name) = first.stem.strip_suffix("_track0") {
            let other = format!("{name}_track5");
            let second = frames.iter().find(|f| f.stem == other)?;
            pairs.push(source_frame_from_files(name, [first.files.clone(), second.files.clone()].concat()));
        } else if !first.stem.ends_with("_track5") {
            return None;
        }
    }
    (!pairs.is_empty()).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_joined_by_the_names_of_faces() {
        let frame = |stem: &str| source_frame_from_files(stem, vec![PathBuf::from(format!("{stem}.jpg"))]);
        let names = ["a_right", "a_left", "a_up", "a_down", "a_front", "a_back"];
        let all: Vec<SourceFrame> = names.iter().map(|n| frame(n)).collect();
        let joined = group_faces(&all).unwrap().unwrap();
        assert_eq!((joined.len(), joined[0].stem.as_str()), (1, "a"));
        assert_eq!(joined[0].files[2], PathBuf::from("a_up.jpg"));
        assert_eq!(group_faces(&all[..5]).unwrap(), Err(("a".to_owned(), "back")));
        let plain: Vec<SourceFrame> = ["nz", "px", "ny", "py", "pz", "nx"].iter().map(|n| frame(n)).collect();
        assert_eq!(group_faces(&plain).unwrap().unwrap()[0].files[5], PathBuf::from("nz.jpg"));
        assert!(group_faces(&[frame("walk_01")]).is_none());
    }

    #[test]
    fn a_frame_is_a_cross_by_its_corners_and_its_faces() {
        use crate::sphere::cube::{CubeLayout, StripOrder};
        let faces = Faces::new(CubeLayout::Cross4x3, StripOrder::default(), 64);
        let frame = |value: &dyn Fn(usize, usize) -> u8| {
            let mut luma = Plane::default();
            luma.reshape(256, 192, [0, 192]);
            for y in 0..192 {
                luma.row_mut(y as i32).iter_mut().enumerate().for_each(|(x, v)| *v = value(x, y));
            }
            Frame { planes: vec![luma], ..Frame::default() }
        };
        let busy = |x: usize, y: usize| (x * 3 + y * 5) as u8;
        let is_face = |x: usize, y: usize| x / 64 == 1 || y / 64 == 1;
        let of = |value: &dyn Fn(usize, usize) -> u8| is_cross_frame(&faces, &frame(value));
        assert_eq!(of(&|x, y| if is_face(x, y) { busy(x, y) } else { 16 }), Some(true));
        // Below a uniform sky.
        assert_eq!(of(&|x, y| if is_face(x, y) && y >= 64 { busy(x, y) } else { 235 }), Some(true));
        assert_eq!(of(&busy), Some(false));
        // A black frame, and a title across the middle of one.
        assert_eq!(of(&|_, _| 16), None);
        assert_eq!(of(&|x, y| if y / 64 == 1 { busy(x, y) } else { 16 }), None);
    }
}
