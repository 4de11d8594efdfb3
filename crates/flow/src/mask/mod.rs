//! Masks of what a segmentation model finds: in panoramas, in the views of a split, in photographs; and of what rides
//! along with the camera, which is found in panoramas without any model.
//!
//! ```text
//! options   what is asked of all of it       input     what IN is
//! plan      how many frames at once, within memory
//! reading   frames of files and films        queue     who does which frame, and when it is ready
//! frame     what the model finds in one      sighting  finds as directions         photo  one photograph
//! turns     how the camera turned            finish    the frames around it, growth, what else is removed
//! keep_box  a box in space                   paint     between the sphere and the pixels of pictures
//! headings  which way the walk goes
//! folder    workers                          files, manifest  what is written, going on where it stopped
//! ```
//! A worker has one frame in its hands and runs the model on one thread, so the bytes do not depend on the number of
//! workers. `masks.jsonl` remembers finished frames by name, length, time of change and a hash of the settings, in which
//! the model's own is; where frames before and behind have a say in a frame, they are in its hash, too.

mod files;
mod finish;
mod folder;
mod frame;
mod headings;
mod input;
mod keep_box;
mod manifest;
mod options;
mod paint;
mod photo;
mod plan;
mod queue;
mod reading;
mod report;
mod sighting;
mod stages;
mod turns;

use std::time::Duration;

use gausset_compute::level;
use gausset_core::Pose;
use gausset_core::se3::Mat3;
use gausset_io::atomic::Overwrite;
use gausset_io::reading::Reading;
use gausset_pano::convert::fingerprint;
use gausset_pano::export::FramePose;
use gausset_segment::{Segmenter, Watch};

use crate::panos::known;
use crate::panos::source::Source;
use crate::panos::still::StillMasks;
use crate::{Failure, Host, profiling};
use input::Input;
pub use input::InputKind;
pub use keep_box::KeepBox;
pub use options::{CutoutFormat, MaskOptions, Modes, Reach};
use plan::Bounds;
pub use report::{Masked, MaskedFind};

/// Makes masks; with `is_dry_run` opens pictures and model, and writes nothing.
///
/// # Errors
/// Pictures, a model or options that cannot be used, files of somebody else, a file that cannot be written.
pub fn mask(options: &MaskOptions, is_dry_run: bool, host: &mut Host<'_>) -> Result<Masked, Failure> {
    options.check()?;
    let input = Input::open(options, host)?;
    let named = [&options.model, &options.model_toml, &options.poses].into_iter().flatten();
    let _reading = Reading::of(named.chain(input.frames().iter().flat_map(|frame| &frame.files)));
    let others = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let Some(folder) = options.profile.as_ref().filter(|_| !is_dry_run) else {
        return of_input(options, &input, others, is_dry_run, host);
    };
    profiling::take_beside(folder, &options.output)?;
    profiling::start();
    let done = of_input(options, &input, others, false, host);
    let (profile, trace) = profiling::stop_recording(&[
        ("folder", options.output.display().to_string()),
        ("frames", input.frames().len().to_string()),
    ]);
    let done = done?;
    profiling::save(&profile, &trace, folder)?;
    Ok(done)
}

/// Masks of the panoramas of a source that was looked at before; `others` is what happens to those that were made with
/// other options.
///
/// # Errors
/// As [`mask()`].
pub fn mask_source(
    options: &MaskOptions,
    source: Source,
    others: Overwrite,
    host: &mut Host<'_>,
) -> Result<Masked, Failure> {
    options.check()?;
    of_input(options, &Input::Panoramas(Box::new(source)), others, false, host)
}

fn of_input(
    options: &MaskOptions,
    input: &Input,
    others: Overwrite,
    is_dry_run: bool,
    host: &mut Host<'_>,
) -> Result<Masked, Failure> {
    let kind = input.kind();
    if let (Reach::Pixels(_), InputKind::Panoramas | InputKind::Views) = (options.dilate, kind) {
        return Err(Failure::usage(
            "⟨dilate⟩: px are for photographs; say degrees for panoramas and their views",
        ));
    }
    let refused = |what: &str, are_for: &str| {
        Err(Failure::usage(format!("{what}: are for {are_for} (found {}s)", kind.noun())))
    };
    if kind != InputKind::Panoramas && options.wants_still() {
        return refused("⟨still-patch⟩, ⟨crop-bottom⟩", "panoramas");
    }
    if kind == InputKind::Photographs && (options.keep_box.is_some() || options.temporal.unwrap_or(0) > 0) {
        return refused("⟨keep-box⟩, ⟨temporal⟩", "panoramas and their views");
    }
    let watch = Watch { stop: host.stop(), limit: Duration::from_secs(options.model_timeout) };
    let segmenter = match &options.model {
        Some(model) => {
            let engine = options.engine.open(host)?;
            Some(Segmenter::open(model, options.model_toml.as_deref(), &options.wanted, &engine, watch)?)
        }
        None => None,
    };
    let level = level(options.simd)
        .ok_or_else(|| Failure::new("device", "⟨simd⟩: this processor does not have it"))?;
    let poses = poses_of(input, options, host)?;
    let reach = match (options.temporal, &segmenter) {
        (_, None) => 0,
        (Some(frames), Some(_)) => frames as usize,
        (None, Some(_)) => usize::from(input.is_film()),
    };
    let bounds = plan::bounds(options, input, segmenter.as_ref(), reach)?;
    let still = match input {
        Input::Panoramas(source) if options.wants_still() && !is_dry_run => {
            let headings = headings_of(source, &poses);
            Some(StillMasks::find(source, options.still(), &headings, host)?)
        }
        _ => None,
    };
    if let Some(why) = still.as_ref().and_then(|still| still.nothing.as_ref()) {
        host.warn("the still patch", why);
    }
    let settings = options.settings(segmenter.as_ref(), still.as_ref(), input, reach);
    // Without what was found to stand still, which depends on the frames.
    let asked = options.settings(segmenter.as_ref(), None, input, reach);
    let asked = fingerprint(&format!("{asked} {:?}", options.still()));
    let turns = if reach > 0 { turns::known(input) } else { vec![None; input.frames().len()] };
    let (segmenter, still) = (segmenter.as_ref(), still.as_ref());
    let job = Job { options, input, segmenter, still, settings, asked, bounds, level, reach, turns, poses };
    let mut done = Masked::new(&job);
    if is_dry_run {
        done.is_dry_run = true;
        return Ok(done);
    }
    folder::all(&job, others, &mut done, host)?;
    Ok(done)
}

/// Poses of the frames where something needs them: a box, and what stays in the direction of the walk.
fn poses_of(input: &Input, options: &MaskOptions, host: &mut Host<'_>) -> Result<Vec<Option<Pose>>, Failure> {
    let frames = input.frames();
    let poses = match (input, &options.poses) {
        (Input::Views(folder, description, _), poses) if options.keep_box.is_some() => {
            known::poses_of_frames(description, poses.as_ref().unwrap_or(folder), host)?
        }
        (_, None) if options.keep_box.is_some() => {
            return Err(Failure::usage("⟨keep-box⟩: needs ⟨poses⟩, in whose world the box is"));
        }
        (_, None) => return Ok(vec![None; frames.len()]),
        (_, Some(path)) => {
            let names = frames.iter().map(|frame| frame.stem.clone()).collect::<Vec<_>>();
            known::poses_of_names(&names, path, host)?
        }
    };
    Ok(poses.frames.iter().map(FramePose::pose).collect())
}

/// Which way the walk goes, in the axes of each panorama.
fn headings_of(source: &Source, poses: &[Option<Pose>]) -> Vec<Option<f64>> {
    if poses.iter().any(Option::is_some) {
        return headings::of_poses(poses);
    }
    let names: Vec<&str> = source.frames.iter().map(|frame| frame.stem.as_str()).collect();
    source.selection.as_ref().map_or_else(Vec::new, |chosen| headings::of_film(&chosen.lines, &names))
}

/// Everything that was decided before the first frame.
struct Job<'a> {
    options: &'a MaskOptions,
    input: &'a Input,
    segmenter: Option<&'a Segmenter>,
    /// What is found without a model.
    still: Option<&'a StillMasks>,
    settings: String,
    /// A hash of the options.
    asked: String,
    /// What is under way at once.
    bounds: Bounds,
    level: gausset_compute::fearless_simd::Level,
    /// Frames before and behind that have a say in a frame.
    reach: usize,
    /// Takes directions of the frame before to each frame, where the choice of the frames tells it.
    turns: Vec<Option<Mat3>>,
    /// `pano_from_world` of the frames, where a box is kept.
    poses: Vec<Option<Pose>>,
}

impl Job<'_> {
    /// Whether pictures are written, not only masks.
    fn wants_pictures(&self) -> bool {
        self.options.modes != Modes::Masks
    }

    /// Whether a frame has to be compared with one beside it to tell how the camera turned.
    fn compares(&self, index: usize) -> bool {
        let is_unknown = |index: usize| self.turns.get(index).is_some_and(Option::is_none);
        self.reach > 0 && ((index > 0 && is_unknown(index)) || is_unknown(index + 1))
    }

    /// A hash of what decides the bytes of a frame.
    fn settings_of(&self, index: usize) -> String {
        let frames = self.input.frames();
        let mut text = self.settings.clone();
        if let Some(pose) = self.poses[index].as_ref().filter(|_| self.options.keep_box.is_some()) {
            text += &format!(" {pose:?}");
        }
        if self.reach > 0 {
            let around = index.saturating_sub(self.reach)..(index + self.reach + 1).min(frames.len());
            for near in around {
                let frame = &frames[near];
                text += &format!(" {} {} {} {:?}", frame.stem, frame.bytes, frame.modified, self.turns[near]);
            }
        }
        fingerprint(&text)
    }

    /// The name of a class of the model.
    fn class(&self, number: usize) -> String {
        self.segmenter.map_or_else(String::new, |segmenter| segmenter.class(number).to_owned())
    }
}
