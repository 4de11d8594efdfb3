//! Creates masks: of what a segmentation model detects in panoramas, views of a split or photographs; and of the static
//! foreground of panoramas, which needs no model.
//!
//! ```text
//! options   options of the job                input     the opened input, its frames plan      number of concurrent
//! frames, within memory reading   frames of files and videos        queue     order of frames, and when one can be
//! finished frame     detection in one frame            direction  detections as directions   photo  one photograph
//! rotations  rotation of the camera            finish    temporal consistency, dilation, other removed regions keep_box
//! a box in space                    resample  resampling between sphere and images headings  walking direction folder
//! workers                           files, manifest  output, resuming
//! ```
//! A worker processes one frame at a time and runs the model on one thread, so the output does not depend on the number
//! of workers. `masks.jsonl` records finished frames by name, size, modification time and a hash of the settings, which
//! includes that of the model. If neighbouring frames are used, they are part of the hash, too.

mod concurrency;
mod direction;
mod files;
mod finish;
mod folder;
mod frame;
mod frame_reader;
mod headings;
mod input;
mod keep_box;
mod manifest;
mod options;
mod photo;
mod queue;
mod report;
mod resample;
mod rotations;
mod stages;

use std::time::Duration;

use gausset_compute::dispatch_level;
use gausset_core::Pose;
use gausset_core::se3::Mat3;
use gausset_io::atomic::Overwrite;
use gausset_io::input_files::InputFiles;
use gausset_pano::convert::fingerprint;
use gausset_pano::export::FramePose;
use gausset_segment::{RunLimits, Segmenter};

use crate::panos::prior_knowledge;
use crate::panos::source::Footage;
use crate::panos::static_foreground::StaticMasks;
use crate::{Failure, Host, profiling};
use concurrency::Concurrency;
use input::MaskInput;
pub use keep_box::KeepBox;
pub use options::{CutoutFormat, Dilation, InputKind, MaskOptions, OutputModes};
pub use report::{DetectionRecord, MaskResult};

/// Creates masks; with `is_dry_run` opens the input and the model without writing anything.
///
/// # Errors
/// Unusable images, model or options, files that Gausset did not create, or a file that cannot be written.
pub fn mask(options: &MaskOptions, is_dry_run: bool, host: &mut Host<'_>) -> Result<MaskResult, Failure> {
    options.check()?;
    let input = MaskInput::open(options, host)?;
    let named = [&options.model, &options.model_toml, &options.poses].into_iter().flatten();
    let _reading = InputFiles::new(named.chain(input.frames().iter().flat_map(|frame| &frame.files)));
    let others = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let Some(folder) = options.profile.as_ref().filter(|_| !is_dry_run) else {
        return mask_input(options, &input, others, is_dry_run, host);
    };
    profiling::claim_folder_outside(folder, &options.output)?;
    let _recording = profiling::start();
    let done = mask_input(options, &input, others, false, host);
    let (profile, trace) = profiling::stop_recording(&[
        ("folder", options.output.display().to_string()),
        ("frames", input.frames().len().to_string()),
    ]);
    let done = done?;
    profiling::save(&profile, &trace, folder)?;
    Ok(done)
}

/// Creates masks for the panoramas of a source that has been opened; `others` says what to do with masks made with
/// other options.
///
/// # Errors
/// As [`mask()`].
pub fn mask_source(
    options: &MaskOptions,
    source: Footage,
    others: Overwrite,
    host: &mut Host<'_>,
) -> Result<MaskResult, Failure> {
    options.check()?;
    mask_input(options, &MaskInput::Panoramas(Box::new(source)), others, false, host)
}

fn mask_input(
    options: &MaskOptions,
    input: &MaskInput,
    others: Overwrite,
    is_dry_run: bool,
    host: &mut Host<'_>,
) -> Result<MaskResult, Failure> {
    let kind = input.kind();
    if let (Dilation::Pixels(_), InputKind::Panoramas | InputKind::Views) = (options.dilate, kind) {
        return Err(Failure::usage(
            "⟨dilate⟩: pixels apply to photographs only; use degrees for panoramas and their views",
        ));
    }
    options.check_kind(kind)?;
    let watch = RunLimits { stop: host.stop(), limit: Duration::from_secs(options.model_timeout) };
    let segmenter = match &options.model {
        Some(model) => {
            let engine = options.engine.open(host.stop())?;
            Some(Segmenter::open(model, options.model_toml.as_deref(), &options.wanted, &engine, watch)?)
        }
        None => None,
    };
    let level = dispatch_level(options.simd)
        .ok_or_else(|| Failure::new("device", "⟨simd⟩: not supported by this CPU"))?;
    let poses = poses_of(input, options, host)?;
    let reach = match (options.temporal, &segmenter) {
        (_, None) => 0,
        (Some(frames), Some(_)) => frames as usize,
        (None, Some(_)) => usize::from(input.is_video()),
    };
    let bounds = concurrency::bounds(options, input, segmenter.as_ref(), reach)?;
    let still = match input {
        MaskInput::Panoramas(source) if options.has_static_masks() && !is_dry_run => {
            let headings = headings_of(source, &poses);
            Some(StaticMasks::detect(source, options.static_options(), &headings, host)?)
        }
        _ => None,
    };
    if let Some(why) = still.as_ref().and_then(|still| still.not_found.as_ref()) {
        host.warn("the still patch", why);
    }
    let settings =
        options.settings(segmenter.as_ref(), still.as_ref(), (kind, &input.settings_text()), reach);
    // Hash of the options alone: without the detected static foreground, which depends on the frames.
    let asked = options.settings(segmenter.as_ref(), None, (kind, &input.settings_text()), reach);
    let asked = fingerprint(&format!("{asked} {:?}", options.static_options()));
    let turns =
        if reach > 0 { rotations::recorded_rotations(input) } else { vec![None; input.frames().len()] };
    let (segmenter, still) = (segmenter.as_ref(), still.as_ref());
    let job = MaskJob {
        options,
        input,
        segmenter,
        still,
        settings,
        options_hash: asked,
        bounds,
        level,
        neighbours: reach,
        rotations: turns,
        poses,
    };
    let mut done = MaskResult::new(&job);
    if is_dry_run {
        done.is_dry_run = true;
        return Ok(done);
    }
    folder::mask_folder(&job, others, &mut done, host)?;
    Ok(done)
}

/// Poses of the frames, if needed by the keep box or for the walking direction.
fn poses_of(
    input: &MaskInput,
    options: &MaskOptions,
    host: &mut Host<'_>,
) -> Result<Vec<Option<Pose>>, Failure> {
    let frames = input.frames();
    let poses = match (input, &options.poses) {
        (MaskInput::Views(folder, description, _), poses) if options.keep_box.is_some() => {
            prior_knowledge::poses_of_frames(description, poses.as_ref().unwrap_or(folder), host)?
        }
        (_, None) if options.keep_box.is_some() => {
            return Err(Failure::usage("⟨keep-box⟩: needs ⟨poses⟩ in the coordinates of the box"));
        }
        (_, None) => return Ok(vec![None; frames.len()]),
        (_, Some(path)) => {
            let names = frames.iter().map(|frame| frame.stem.clone()).collect::<Vec<_>>();
            prior_knowledge::poses_of_names(&names, path, host)?
        }
    };
    Ok(poses.frames.iter().map(FramePose::pose).collect())
}

/// Walking direction in the axes of each panorama, in degrees of yaw.
fn headings_of(source: &Footage, poses: &[Option<Pose>]) -> Vec<Option<f64>> {
    if poses.iter().any(Option::is_some) {
        return headings::from_poses(poses);
    }
    let names: Vec<&str> = source.frames.iter().map(|frame| frame.stem.as_str()).collect();
    source.selection.as_ref().map_or_else(Vec::new, |chosen| headings::from_selection(&chosen.lines, &names))
}

/// Everything decided before the first frame.
struct MaskJob<'a> {
    options: &'a MaskOptions,
    input: &'a MaskInput,
    segmenter: Option<&'a Segmenter>,
    /// Masks that need no model.
    still: Option<&'a StaticMasks>,
    settings: String,
    /// Hash of the options.
    options_hash: String,
    /// Limits on concurrent frames.
    bounds: Concurrency,
    level: gausset_compute::fearless_simd::Level,
    /// Number of neighbouring frames on each side used for temporal consistency.
    neighbours: usize,
    /// Camera rotation from the previous frame to each frame, if the frame selection recorded it.
    rotations: Vec<Option<Mat3>>,
    /// `pano_from_world` of the frames, if a keep box is given.
    poses: Vec<Option<Pose>>,
}

impl MaskJob<'_> {
    /// Whether images are needed for cut-outs.
    fn needs_rgb(&self) -> bool {
        self.options.modes != OutputModes::Masks
    }

    /// Whether a frame is compared with a neighbour to estimate the camera rotation.
    fn needs_comparison(&self, index: usize) -> bool {
        let is_unknown = |index: usize| self.rotations.get(index).is_some_and(Option::is_none);
        self.neighbours > 0 && ((index > 0 && is_unknown(index)) || is_unknown(index + 1))
    }

    /// Hash of everything that the output of a frame depends on.
    fn settings_of(&self, index: usize) -> String {
        let frames = self.input.frames();
        let mut text = self.settings.clone();
        if let Some(pose) = self.poses[index].as_ref().filter(|_| self.options.keep_box.is_some()) {
            text += &format!(" {pose:?}");
        }
        if self.neighbours > 0 {
            let around =
                index.saturating_sub(self.neighbours)..(index + self.neighbours + 1).min(frames.len());
            for near in around {
                let frame = &frames[near];
                text +=
                    &format!(" {} {} {} {:?}", frame.stem, frame.bytes, frame.modified, self.rotations[near]);
            }
        }
        fingerprint(&text)
    }

    /// Name of a class of the model.
    fn class(&self, number: usize) -> String {
        self.segmenter.map_or_else(String::new, |segmenter| segmenter.class(number).to_owned())
    }
}
