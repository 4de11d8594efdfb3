//! Selects and reads the dual-fisheye frames for a calibration, with their poses.
//!
//! Without poses, frames are evenly spaced. With poses, corners are tracked between neighbouring frames, so runs of
//! neighbours are selected, evenly spaced.

use std::path::Path;
use std::time::Duration;

use gausset_compute::dispatch_level;
use gausset_compute::fearless_simd::Level;
use gausset_core::Pose;
use gausset_jpeg::Decoder;
use gausset_pano::calibrate::{MIN_POSES, check_poses, circle_cells};
use gausset_pano::export::FramePose;
use gausset_pano::frames::{SourceFrame, source_frame_from_files};
use gausset_pano::load::{self, ImageLimits};
use gausset_pano::plane::Frame;
use gausset_pano::selection::{FRAMES_FILE, Selection};
use gausset_pano::sphere_video::open_two_circles;
use gausset_pano::video::{FrameSelection, Video, VideoError};

use super::calibrate_options::CalibrateOptions;
use super::prior_knowledge;
use super::source::{frame_of_lens_file, is_image_extension, list_and_warn, pair_lens_files, size_of_first};
use crate::aligner::TOOL_TIMEOUT;
use crate::footage_options::LensWords;
use crate::frame_selection::check_start;
use crate::{Failure, Host};

/// Number of frames in a run of neighbours.
const RUN_LENGTH: usize = 4;

/// Source of the frames.
pub(super) enum CalibrationFrames {
    Pictures(Vec<SourceFrame>),
    Video(Box<Video>),
}

impl CalibrationFrames {
    /// Selects the frames. Also returns the pose of each, or an empty list without poses.
    pub(super) fn open(
        options: &CalibrateOptions,
        host: &mut Host<'_>,
    ) -> Result<(Self, Vec<Option<Pose>>), Failure> {
        let input = options.input.as_path();
        let most = options.max_frames.max(1) as usize;
        if options.poses.is_some() && most < MIN_POSES {
            return Err(Failure::usage(format!(
                "⟨max-frames⟩: expected at least {MIN_POSES} with ⟨poses⟩, found {most}"
            )));
        }
        let is_of_film = options.start != 0.0 || options.end.is_some();
        let one = input.is_file() && input.extension().is_some_and(is_image_extension);
        // A missing path is reported by `list_and_warn` as a missing folder.
        let is_folder = !input.is_file();
        if (one || is_folder) && is_of_film {
            return Err(Failure::usage("⟨start⟩, ⟨end⟩: apply to videos only (found images)"));
        }
        if !(one || is_folder) {
            return match &options.poses {
                Some(path) => Self::from_selection(options, path, host),
                None => Ok((Self::from_video(options, host)?, Vec::new())),
            };
        }
        let all = if one { vec![image_frame(input)] } else { list_and_warn(input, host)? };
        let all = joined(input, all, options.pair.as_ref())?;
        let Some(path) = &options.poses else {
            let count = all.len().min(most);
            let spread = (0..count).map(|k| all[k * all.len() / count].clone()).collect();
            return Ok((Self::Pictures(spread), Vec::new()));
        };
        let names: Vec<String> = all.iter().map(|frame| frame.stem.clone()).collect();
        let (picks, poses) = frames_with_poses(&names, path, options, host)?;
        Ok((Self::Pictures(picks.into_iter().map(|pick| all[pick].clone()).collect()), poses))
    }

    /// Selects evenly spaced frames of a video.
    fn from_video(options: &CalibrateOptions, host: &Host<'_>) -> Result<Self, Failure> {
        check_start(options.start)?;
        let most = options.max_frames.max(1) as usize;
        let open = |fps: f64| {
            let (start, end) = (options.start, options.end);
            let choice = FrameSelection { fps: Some(fps), start, end, sharpest_of: 1 };
            open(&options.input, choice, host).map_err(|e| Failure::new("video", e))
        };
        // At one frame per second, the number of frames is the duration.
        let seconds = open(1.0)?.frames.saturating_sub(1).max(1);
        Ok(Self::Video(Box::new(open(most as f64 / seconds as f64)?.limited_to(most))))
    }

    /// Selects frames of a video that a split has selected before; its record tells which frames the poses belong to.
    fn from_selection(
        options: &CalibrateOptions,
        path: &Path,
        host: &mut Host<'_>,
    ) -> Result<(Self, Vec<Option<Pose>>), Failure> {
        if options.start != 0.0 || options.end.is_some() {
            return Err(Failure::usage(
                "⟨start⟩, ⟨end⟩: have no effect with ⟨poses⟩ of a video, whose frames are already selected; leave them out",
            ));
        }
        let file = path.join(FRAMES_FILE);
        let input = options.input.display();
        let Some(Selection { header, lines }) = Selection::read(&file) else {
            return Err(Failure::new(
                "poses",
                format!(
                    "{}: the poses do not identify frames of {input} (expected the folder that `gausset pano split` created from the video, with {FRAMES_FILE})",
                    path.display()
                ),
            ));
        };
        let choice =
            FrameSelection { fps: None, start: header.film.start, end: header.film.end, sharpest_of: 1 };
        let video = open(&options.input, choice, host).map_err(|e| Failure::new("video", e))?;
        let found = source_frame_from_files("film", vec![video.path.clone()]).bytes;
        if found != header.film.bytes {
            return Err(Failure::new(
                "poses",
                format!(
                    "{}: belongs to {} of {} bytes (found {input} of {found} bytes); give the video of these poses",
                    file.display(),
                    header.film.video,
                    header.film.bytes
                ),
            ));
        }
        let kept = lines.iter().filter(|line| line.kept);
        let (numbers, names): (Vec<usize>, Vec<String>) =
            kept.filter_map(|line| Some((line.frame, line.name.clone()?))).unzip();
        let (picks, poses) = frames_with_poses(&names, path, options, host)?;
        let picks: Vec<usize> = picks.into_iter().map(|pick| numbers[pick]).collect();
        Ok((Self::Video(Box::new(video.with_selected(&picks))), poses))
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Pictures(frames) => frames.len(),
            Self::Video(video) => video.frames,
        }
    }

    /// Width and height in pixels; for images, of the first one.
    pub(super) fn size(&self) -> Result<[u32; 2], Failure> {
        match self {
            Self::Video(video) => Ok(video.size),
            Self::Pictures(frames) => {
                let none = || Failure::new("frames", "frames: none found");
                let files = &frames.first().ok_or_else(none)?.files;
                let file = files.first().ok_or_else(none)?;
                let opened = load::load(file, &ImageLimits::default(), Vec::new());
                let [width, height] = opened.map_err(|e| Failure::new("frames", e))?.upright_size();
                Ok([width * files.len() as u32, height])
            }
        }
    }

    /// Decodes the frames one after the other and passes each to `take`.
    pub(super) fn for_each(
        &self,
        options: &CalibrateOptions,
        host: &mut Host<'_>,
        take: &mut dyn FnMut(&Frame, &mut Host<'_>),
    ) -> Result<(), Failure> {
        let level = dispatch_level(options.simd)
            .ok_or_else(|| Failure::new("device", "⟨simd⟩: not supported by this CPU"))?;
        let mut frame = Frame::default();
        match self {
            Self::Pictures(frames) => {
                let [width, height] = self.size()?;
                let mut decoder = Decoder::default();
                for source in frames {
                    let size = [width / source.files.len() as u32, height];
                    let mut parts = Vec::new();
                    for file in &source.files {
                        if host.is_stopping() {
                            return Err(Failure::stopped());
                        }
                        parts.push(decode(file, size, &frames[0], level, &mut decoder)?);
                    }
                    let joined = frame.join(&parts);
                    joined.ok_or_else(|| differ(source))?;
                    take(&frame, host);
                }
            }
            Self::Video(video) => {
                let bad = |e| Failure::new("video", e);
                let stop = host.stop();
                let mut reader = video.start(stop).map_err(bad)?;
                let all = [[-1, i32::MAX / 2]; 3];
                for index in 0..video.frames {
                    if !reader.read_frame(video, index, &all, level, &mut frame).map_err(bad)? {
                        break;
                    }
                    take(&frame, host);
                }
            }
        }
        Ok(())
    }
}

/// Joins the files of two lenses: images that are not already two circles, named as pairs.
fn joined(
    input: &Path,
    all: Vec<SourceFrame>,
    words: Option<&LensWords>,
) -> Result<Vec<SourceFrame>, Failure> {
    let is_whole = size_of_first(&all).is_none_or(|size| circle_cells(size).is_some());
    if is_whole {
        return Ok(all);
    }
    if input.is_file() {
        return Ok(frame_of_lens_file(input, words).map_or(all, |pair| vec![pair]));
    }
    pair_lens_files(input, &all, words)
}

/// Decodes an image of this size; `first` is the frame that has it.
fn decode(
    file: &Path,
    size: [u32; 2],
    first: &SourceFrame,
    level: Level,
    decoder: &mut Decoder,
) -> Result<Frame, Failure> {
    let bad = |e| Failure::new("frames", e);
    let mut opened = load::load(file, &ImageLimits::default(), Vec::new()).map_err(bad)?;
    let [w, h] = opened.upright_size();
    if [w, h] != size {
        let (file, [ew, eh]) = (file.display(), size);
        let first = first.files.first().map(|file| file.display().to_string()).unwrap_or_default();
        return Err(Failure::new(
            "lens",
            format!("{file}: picture: {w}x{h} px (expected {ew}x{eh}, as {first} has)"),
        ));
    }
    let mut frame = Frame::default();
    opened.decode(level, decoder, &[[0, i32::MAX / 2]; 3], &mut frame).map_err(bad)?;
    Ok(frame)
}

/// Error for two lenses whose images have different channels.
fn differ(frame: &SourceFrame) -> Failure {
    Failure::new(
        "frames",
        format!("{}: frame: its images differ in channels (expected two of one kind)", frame.stem),
    )
}

fn open(input: &Path, choice: FrameSelection, host: &Host<'_>) -> Result<Video, VideoError> {
    let ImageLimits { width, height, .. } = ImageLimits::default();
    open_two_circles(input, choice, [width, height], Duration::from_secs(TOOL_TIMEOUT), host.stop())
}

/// An image as a frame of the same name.
fn image_frame(path: &Path) -> SourceFrame {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    source_frame_from_files(&stem.unwrap_or_default(), vec![path.to_owned()])
}

/// Selects frames with poses; returns their indices in order, and their poses.
fn frames_with_poses(
    names: &[String],
    path: &Path,
    options: &CalibrateOptions,
    host: &mut Host<'_>,
) -> Result<(Vec<usize>, Vec<Option<Pose>>), Failure> {
    let poses: Vec<Option<Pose>> =
        prior_knowledge::poses_of_names(names, path, host)?.frames.iter().map(FramePose::pose).collect();
    let with: Vec<usize> = (0..names.len()).filter(|&frame| poses[frame].is_some()).collect();
    let without: Vec<&str> =
        names.iter().zip(&poses).filter(|(_, pose)| pose.is_none()).map(|(name, _)| name.as_str()).collect();
    if let Some(first) = without.first() {
        let (count, all) = (without.len(), names.len());
        host.warn(
            "poses",
            format!(
                "{}: names: {count} of {all} frames have no pose, {first} first; they are ignored",
                path.display()
            ),
        );
    }
    let picks: Vec<usize> =
        runs(with.len(), options.max_frames as usize).into_iter().map(|pick| with[pick]).collect();
    let poses: Vec<Option<Pose>> = picks.iter().map(|&pick| poses[pick]).collect();
    check_poses(&poses).map_err(|error| {
        Failure::new("poses", format!("{}, {}: {error}", options.input.display(), path.display()))
    })?;
    Ok((picks, poses))
}

/// Indices of at most `most` of `all` frames, as evenly spaced runs of neighbours.
fn runs(all: usize, most: usize) -> Vec<usize> {
    if all <= most {
        return (0..all).collect();
    }
    let count = (most / RUN_LENGTH).max(1);
    let starts = (0..=count).map(|k| k * most / count);
    let starts: Vec<usize> = starts.collect();
    // The skipped frames form the gaps between the runs.
    let gap = |k: usize| if count == 1 { (all - most) / 2 } else { k * (all - most) / (count - 1) };
    (0..count).flat_map(|k| (starts[k]..starts[k + 1]).map(move |at| at + gap(k))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_with_poses_come_in_runs_of_neighbours_from_end_to_end() {
        assert_eq!(runs(5, 8), [0, 1, 2, 3, 4]);
        assert_eq!(runs(20, 8), [0, 1, 2, 3, 16, 17, 18, 19]);
        assert_eq!(runs(20, 3), [8, 9, 10]);
        for (all, most) in [(9, 8), (100, 64), (64, 13), (30, 4), (7, 6)] {
            let found = runs(all, most);
            assert_eq!(found.len(), most);
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]) && found[most - 1] < all, "{found:?}");
        }
    }
}
