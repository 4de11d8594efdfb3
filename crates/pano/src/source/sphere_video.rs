//! 360° videos: how the streams and frames of a video show the sphere.
//!
//! A GoPro MAX `.360` file has two streams, which are stacked to one frame. Two fisheye circles (`.insv` and other
//! files) may be in one stream, in two streams, or in two files `NAME_00_…` and `NAME_10_…`. Both are tested with
//! streams made by ffmpeg, not with files of a real camera. Crosses and strips of a cube are decoded as stored and
//! folded afterwards.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::fearless_simd::Level;
use gausset_jpeg::plane::{Frame, FrameShape};

use crate::source::decoded::DecodedFrame;
use crate::source::lens_names::LensName;
use crate::source::metadata::Metadata;
use crate::source::recognise::is_cross_frame;
use crate::source::two_circles::{SMALL_HEIGHT, shows_two_circles};
use crate::source::video::{
    FrameArrangement, FrameSelection, Video, VideoError, VideoProblem, check_size, is_dual_fisheye_file,
};
use crate::source::vignetting;
use crate::sphere::cube::{Cube, CubeLayout, Faces, StripOrder};
use crate::sphere::eac::Eac;
use crate::sphere::fisheye::DualFisheye;
use crate::sphere::projection::{Equirect, Projection, is_panorama_size};

/// Maximum number of frames that are examined for a cross: two seconds of dark frames or titles can be skipped.
const MAX_EXAMINED_FRAMES: usize = 60;

/// Mean brightness up to which a frame is too dark to be examined for circles, grey levels.
const DARK_MEAN: u64 = 16;

/// A 360° video.
#[derive(Clone, Debug, PartialEq)]
pub struct SphereVideo {
    /// The video file or files.
    pub video: Video,
    /// Layout of the two stacked streams of a GoPro MAX, if it is one.
    pub eac: Option<Eac>,
    /// Lenses of two fisheye circles, if the frames show them.
    pub fisheye: Option<DualFisheye>,
    /// Cube of a cross or strip, if the frames show one.
    pub cube: Option<Cube>,
    is_stereo: bool,
}

impl SphereVideo {
    /// Opens a video of panoramas. `is_stereo`: the frames hold the left and right eye one above the other; the upper
    /// one is used.
    ///
    /// # Errors
    /// As [`Video::open`], or the frames are not panoramas.
    pub fn open(
        path: &Path,
        choice: FrameSelection,
        is_stereo: bool,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, VideoError> {
        Self::open_checked(path, choice, is_stereo, limits, silence, stop, is_panorama_size)
    }

    /// Opens a video of panoramas or of cubes, without checking the aspect ratio; for a cube, call [`Self::with_cube`]
    /// next.
    ///
    /// # Errors
    /// As [`Video::open`].
    pub fn open_any_shape(
        path: &Path,
        choice: FrameSelection,
        is_stereo: bool,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, VideoError> {
        Self::open_checked(path, choice, is_stereo, limits, silence, stop, |_| true)
    }

    fn open_checked(
        path: &Path,
        choice: FrameSelection,
        is_stereo: bool,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
        is_one: impl Fn([u32; 2]) -> bool,
    ) -> Result<Self, VideoError> {
        let video = Video::open_with(path, None, choice, limits, silence, stop, |streams| {
            if is_dual_fisheye_file(path) {
                return Err(VideoProblem::TwoCircles);
            }
            let arrangement = match eac_of(streams) {
                Some(_) => FrameArrangement::Stacked,
                None if is_stereo => FrameArrangement::UpperHalf,
                None => FrameArrangement::Whole,
            };
            let size = arrangement.frame_size(streams[0]);
            check_size(size, limits)?;
            if arrangement != FrameArrangement::Stacked && !is_one(size) {
                return Err(VideoProblem::NotPanorama(size));
            }
            Ok(arrangement)
        })?;
        let [width, height] = video.size;
        let eac = (video.arrangement == FrameArrangement::Stacked)
            .then(|| Eac::from_stream_size(width, height / 2))
            .flatten();
        Ok(Self { video, eac, fisheye: None, cube: None, is_stereo })
    }

    /// Declares that the frames show a cube with the layout `net`, which must fit their size.
    #[must_use]
    pub fn with_cube(self, net: CubeLayout, order: StripOrder) -> Self {
        let side = self.video.size[0] / net.grid()[0];
        Self { cube: Some(Cube { faces: Faces::new(net, order, side) }), ..self }
    }

    /// Whether frames of the size of `net` show a cross, by the first frame from which it can be decided.
    ///
    /// # Errors
    /// ffmpeg fails.
    pub fn shows_cross(&self, net: CubeLayout, level: Level, stop: &AtomicBool) -> Result<bool, VideoError> {
        let faces = Faces::new(net, StripOrder::default(), self.video.size[0] / net.grid()[0]);
        let mut reader = self.video.start(stop)?;
        let (mut frame, all) = (Frame::default(), [[0, i32::MAX / 2]; 3]);
        for index in 0..self.video.frames.min(MAX_EXAMINED_FRAMES) {
            if !reader.read_frame(&self.video, index, &all, level, &mut frame)? {
                break;
            }
            if let Some(is_cross) = is_cross_frame(&faces, &frame) {
                return Ok(is_cross);
            }
        }
        Ok(false)
    }

    /// Whether frames of 2:1 show two unstitched fisheye circles, by the first frame that is not dark.
    ///
    /// # Errors
    /// ffmpeg fails.
    pub fn shows_two_circles(&self, stop: &AtomicBool) -> Result<bool, VideoError> {
        let grey = first_bright_frame(&self.video, [2 * SMALL_HEIGHT, SMALL_HEIGHT], stop)?;
        Ok(grey.is_some_and(|grey| shows_two_circles(&grey, 2 * SMALL_HEIGHT)))
    }

    /// Opens a video of two fisheye circles, described by `lenses`: both in one stream, in two streams, or in two files
    /// whose names differ by `_00_` and `_10_`. `path` may be either of them.
    ///
    /// # Errors
    /// As [`Video::open`], or the frames do not match the lens file, or one lens is missing.
    pub fn open_fisheye(
        path: &Path,
        lenses: &DualFisheye,
        choice: FrameSelection,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, VideoError> {
        let files = LensFiles::from_path(path);
        let canvas = lenses.canvas();
        let second = files.second.as_deref();
        let video = Video::open_with(&files.first, second, choice, limits, silence, stop, |streams| {
            let arrangement = arrangement_of(streams, canvas).ok_or_else(|| {
                let is_half = streams.len() == 1 && half_sizes(canvas).contains(&streams[0]);
                if is_half {
                    VideoProblem::MissingLens { other: files.missing.clone() }
                } else {
                    VideoProblem::LensSizeMismatch { found: streams.to_vec(), expected: canvas }
                }
            })?;
            check_size(canvas, limits)?;
            Ok(arrangement)
        })?;
        Ok(Self { video, eac: None, fisheye: Some(lenses.clone()), cube: None, is_stereo: false })
    }

    /// Keeps at most `most` frames, spread evenly.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        Self { video: self.video.limited_to(most), ..self }
    }

    /// Keeps only the given frames ([`Video::with_selected`]).
    #[must_use]
    pub fn picked(self, picks: &[usize]) -> Self {
        Self { video: self.video.with_selected(picks), ..self }
    }

    /// Projection of the frames.
    #[must_use]
    pub fn projection(&self) -> Projection {
        let [width, height] = self.video.size;
        if let Some(fisheye) = &self.fisheye {
            return Projection::Fisheye(fisheye.clone());
        }
        match (&self.cube, self.eac) {
            (Some(cube), _) => Projection::Cube(cube.clone()),
            (None, Some(eac)) => Projection::Eac(eac),
            (None, None) => Projection::Equirect(Equirect::whole(width, height)),
        }
    }

    /// Shape of the frames as they are sampled: cubes are folded.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        let stored = self.video.shape();
        self.cube.as_ref().map_or_else(|| stored.clone(), |cube| cube.folded_shape(&stored))
    }

    /// Converts a completely decoded frame for sampling: cubes are folded, and the known fall-off of lenses is divided
    /// out.
    #[must_use]
    pub fn to_moment(&self, mut frame: Frame) -> DecodedFrame {
        if let Some(cube) = &self.cube {
            let mut folded = Frame::default();
            cube.fold(&frame, &mut folded);
            frame = folded;
        }
        let projection = self.projection();
        vignetting::correct(&projection, &mut frame);
        DecodedFrame { frame, projection, metadata: Metadata::default(), bits: 8 }
    }

    /// Which frames are taken: for a hash of the settings.
    #[must_use]
    pub fn selection(&self) -> String {
        let Self { video, is_stereo, .. } = self;
        let FrameSelection { fps, start, end, sharpest_of } = &video.choice;
        let choice = format!("fps: {fps:?}, start: {start:?}, end: {end:?}, sharpest_of: {sharpest_of}");
        let (frames, periods) = (video.frames, video.periods);
        let mut text =
            format!("Choice {{ footage: Panorama, {choice}, is_stereo: {is_stereo} }} {frames} of {periods}");
        if let Some(lenses) = &self.fisheye {
            text += &format!(" {lenses:?}");
        }
        if let Some(cube) = &self.cube {
            text += &format!(" {}", cube.faces.to_text());
        }
        if video.is_tone_mapped() {
            text += " tone-mapped";
        }
        if let Some(picks) = video.selected() {
            text += &format!(" {picks:?}");
        }
        text
    }
}

/// The first frame that is not dark, grey and reduced to this size; `None` if the first frames are.
pub(super) fn first_bright_frame(
    video: &Video,
    size: [usize; 2],
    stop: &AtomicBool,
) -> Result<Option<Vec<u8>>, VideoError> {
    let mut reader = video.start_reduced(size.map(|side| side as u32), true, stop)?;
    let mut grey = Vec::new();
    for _ in 0..MAX_EXAMINED_FRAMES {
        if !reader.read_image(video, &mut grey)? {
            break;
        }
        let sum: u64 = grey.iter().map(|&value| u64::from(value)).sum();
        if sum > DARK_MEAN * grey.len() as u64 {
            return Ok(Some(grey));
        }
    }
    Ok(None)
}

/// Layout of a GoPro MAX file, by the sizes of its streams.
fn eac_of(streams: &[[u32; 2]]) -> Option<Eac> {
    let [first, second, ..] = streams else { return None };
    Eac::from_stream_size(first[0], first[1]).filter(|_| first == second)
}

/// Opens a video of two fisheye circles without a lens file: both in one stream, side by side or one above the other,
/// or in two streams or files, which are placed side by side.
///
/// # Errors
/// As [`Video::open`], or the frames cannot be two circles, or one lens is missing.
pub fn open_two_circles(
    path: &Path,
    choice: FrameSelection,
    limits: [u32; 2],
    silence: Duration,
    stop: &AtomicBool,
) -> Result<Video, VideoError> {
    let files = LensFiles::from_path(path);
    let second = files.second.as_deref();
    Video::open_with(&files.first, second, choice, limits, silence, stop, |streams| {
        let first = streams[0];
        let arrangement = if crate::source::calibrate::circle_cells(first).is_some() {
            FrameArrangement::Whole
        } else if streams.get(1) == Some(&first) {
            FrameArrangement::SideBySide
        } else if streams.len() == 1 && (files.missing.is_some() || is_dual_fisheye_file(path)) {
            return Err(VideoProblem::MissingLens { other: files.missing.clone() });
        } else {
            return Err(VideoProblem::NotTwoCircles(first));
        };
        check_size(arrangement.frame_size(first), limits)?;
        Ok(arrangement)
    })
}

/// Files of a video of two lenses.
struct LensFiles {
    first: PathBuf,
    /// Second file of a pair.
    second: Option<PathBuf>,
    /// Name of the missing file of a pair.
    missing: Option<String>,
}

impl LensFiles {
    fn from_path(path: &Path) -> Self {
        let alone = Self { first: path.to_owned(), second: None, missing: None };
        let Some([first, second]) = file_pair(path) else { return alone };
        if first.is_file() && second.is_file() {
            return Self { first, second: Some(second), missing: None };
        }
        let missing = if first.is_file() { second } else { first };
        let missing = missing.file_name().map(|name| name.to_string_lossy().into_owned());
        Self { missing, ..alone }
    }
}

/// Sizes of one lens' half of a canvas: circles side by side, and one above the other.
fn half_sizes([width, height]: [u32; 2]) -> [[u32; 2]; 2] {
    [[width / 2, height], [width, height / 2]]
}

/// Arrangement of streams of these sizes to a canvas of two circles.
fn arrangement_of(streams: &[[u32; 2]], canvas: [u32; 2]) -> Option<FrameArrangement> {
    let first = *streams.first()?;
    if first == canvas {
        return Some(FrameArrangement::Whole);
    }
    let two = [FrameArrangement::SideBySide, FrameArrangement::Stacked];
    let is_pair = streams.get(1) == Some(&first);
    two.into_iter().find(|two| is_pair && two.frame_size(first) == canvas)
}

/// Both files of a pair, `…_00_…` or the one of the front lens first, from the name of either.
fn file_pair(path: &Path) -> Option<[PathBuf; 2]> {
    let name = path.file_name()?.to_str()?;
    if let Some(LensName { lens, other, .. }) = LensName::of_video(path.file_stem()?.to_str()?) {
        let extension = path.extension()?.to_str()?;
        let mut pair = [path.to_owned(), path.with_file_name(format!("{other}.{extension}"))];
        if lens == 1 {
            pair.reverse();
        }
        return Some(pair);
    }
    // The last match counts, because dates precede it.
    let at = name.rfind("_00_").max(name.rfind("_10_"))?;
    Some(["_00_", "_10_"].map(|lens| {
        let (before, after) = (&name[..at], &name[at + lens.len()..]);
        path.with_file_name(format!("{before}{lens}{after}"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_streams_of_a_known_size_are_a_gopro_max() {
        let eac = Eac::from_stream_size(2272, 736);
        assert_eq!(eac_of(&[[2272, 736], [2272, 736]]), eac);
        assert_eq!(eac_of(&[[2272, 736]]), None);
        assert_eq!(eac_of(&[[2272, 736], [4096, 1344]]), None);
    }

    #[test]
    fn circles_are_in_one_stream_or_in_two() {
        let canvas = [400, 200];
        assert_eq!(arrangement_of(&[[400, 200]], canvas), Some(FrameArrangement::Whole));
        assert_eq!(arrangement_of(&[[200, 200], [200, 200]], canvas), Some(FrameArrangement::SideBySide));
        assert_eq!(arrangement_of(&[[200, 200], [200, 200]], [200, 400]), Some(FrameArrangement::Stacked));
        assert_eq!(arrangement_of(&[[200, 200]], canvas), None);
        assert_eq!(arrangement_of(&[[200, 200], [200, 100]], canvas), None);
    }

    #[test]
    fn files_of_a_pair_are_known_by_their_names() {
        let pair = ["d/VID_10_10_00_001.insv", "d/VID_10_10_10_001.insv"].map(PathBuf::from);
        assert_eq!(file_pair(&pair[0]), Some(pair.clone()));
        assert_eq!(file_pair(&pair[1]), Some(pair));
        assert_eq!(file_pair(Path::new("walk.insv")), None);
        let pair = ["d/GPFR0001.MP4", "d/GPBK0001.MP4"].map(PathBuf::from);
        assert_eq!((file_pair(&pair[0]), file_pair(&pair[1])), (Some(pair.clone()), Some(pair)));
        let pair = ["Walk_Front.mp4", "Walk_Back.mp4"].map(PathBuf::from);
        assert_eq!(file_pair(&pair[0]), Some(pair));
        assert_eq!(file_pair(Path::new("walk_0.mp4")), None);
    }
}
