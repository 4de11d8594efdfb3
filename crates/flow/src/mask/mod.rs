//! Masks of what a segmentation model finds: in panoramas, in the views of a split, in photographs; and of what rides
//! along with the camera, which is found in panoramas without any model.
//!
//! ```text
//! input   what IN is            frame   one frame: passes over views, the sphere, what becomes of finds
//! photo   one photograph        folder  files, the manifest, going on where it was interrupted
//! ```
//! A worker has one frame in its hands and runs the model on one thread, so the bytes do not depend on the number of
//! workers. `masks.jsonl` remembers finished frames by name, length, time of change and a hash of the settings, in which
//! the model's own is.

mod folder;
mod frame;
mod input;
mod photo;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use gausset_compute::{VectorLevel, level};
use gausset_pano::convert::fingerprint;
use gausset_pano::layout::Layout;
use gausset_segment::{Segmenter, Wanted, Watch};

use crate::panos::source::Source;
use crate::panos::still::{StillChoice, StillMasks};
use crate::{Failure, Host};
use input::Input;
pub use input::InputKind;
pub use report::{Masked, MaskedFind, StageSeconds};

/// Changes when the same input would give other bytes.
const BYTES_VERSION: u32 = 1;

/// How far a mask grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// Degrees on the sphere; in photographs by their focal length.
    Degrees(f64),
    /// Pixels of a photograph.
    Pixels(f64),
}

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modes {
    /// Masks, 0 = remove.
    #[default]
    Masks,
    /// Pictures with alpha.
    Cutouts,
    /// Both.
    Both,
}

/// Pictures, a model, and where the masks go.
#[derive(Clone, Debug)]
pub struct MaskOptions {
    /// A panorama or photograph, a folder of either, or the folder of a split.
    pub input: PathBuf,
    /// Folder for the masks.
    pub output: PathBuf,
    /// The model (ONNX); `None` = what is found without one.
    pub model: Option<PathBuf>,
    /// Its description (TOML); `None` = beside it, or what its outputs tell.
    pub model_toml: Option<PathBuf>,
    /// What is looked for.
    pub wanted: Wanted,
    /// What the pictures are; `None` = by their shape.
    pub kind: Option<InputKind>,
    /// Mask what stays at its place in all panoramas while the rest passes by: the operator, the tripod.
    pub still_patch: bool,
    /// And its shadow.
    pub shadow: bool,
    /// Mask everything within so many degrees of straight down, in panoramas.
    pub crop_bottom: f64,
    /// The views of the first pass over a panorama.
    pub layout: Layout,
    /// 1: those views alone. 2: a view around each find too.
    pub passes: u32,
    /// How far masks grow.
    pub dilate: Reach,
    /// Holes of at most this share of what is around them are filled.
    pub holes: f64,
    /// Finds smaller than so many square degrees are dropped.
    pub smallest: f64,
    /// Edges follow those of the picture within so many degrees; 0 = they stay as found.
    pub edges: f64,
    /// Cut-outs get soft edges so many degrees wide.
    pub feather: f64,
    /// What is written.
    pub modes: Modes,
    /// Write a white mask for a frame in which nothing was found.
    pub empty_masks: bool,
    /// Longest run of the model on one picture, seconds.
    pub model_timeout: u64,
    /// Redo finished frames, and write among files of somebody else.
    pub force: bool,
    /// Threads; 0 = all processors.
    pub threads: u32,
    /// Vector instructions with which pictures are cut; the engine chooses its own.
    pub simd: VectorLevel,
}

impl MaskOptions {
    /// Pictures and a folder for their masks, of which nothing is to be found yet; everything else as it is by default.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            output: output.into(),
            model: None,
            model_toml: None,
            wanted: Wanted::default(),
            kind: None,
            still_patch: false,
            shadow: false,
            crop_bottom: 0.0,
            layout: Layout::Ring8Caps,
            passes: 2,
            dilate: Reach::Degrees(0.6),
            holes: 0.1,
            smallest: 0.25,
            edges: 0.5,
            feather: 0.0,
            modes: Modes::default(),
            empty_masks: false,
            model_timeout: 120,
            force: false,
            threads: 0,
            simd: VectorLevel::Auto,
        }
    }

    /// Values out of range, and such as do not go together.
    fn check(&self) -> Result<(), Failure> {
        let within = |key: &str, value: f64, most: f64| {
            if (0.0..=most).contains(&value) {
                return Ok(());
            }
            Err(Failure::usage(format!("⟨{key}⟩: expected 0 to {most}, found {value}")))
        };
        match self.dilate {
            Reach::Degrees(degrees) => within("dilate", degrees, 45.0)?,
            Reach::Pixels(pixels) => within("dilate", pixels, 1000.0)?,
        }
        within("holes", self.holes, 1.0)?;
        within("smallest", self.smallest, 40_000.0)?;
        within("edges", self.edges, 5.0)?;
        within("feather", self.feather, 45.0)?;
        within("confidence", f64::from(self.wanted.confidence), 1.0)?;
        if self.model.is_none() && !self.still_patch && !self.shadow && self.crop_bottom == 0.0 {
            return Err(Failure::usage(
                "nothing is to be removed (expected ⟨model⟩, ⟨still-patch⟩ or ⟨crop-bottom⟩)",
            ));
        }
        self.still().check()?;
        if self.feather > 0.0 && self.modes == Modes::Masks {
            return Err(Failure::usage(
                "⟨feather⟩: has no effect with ⟨modes = masks⟩; leave it out, or take ⟨modes = cutouts⟩",
            ));
        }
        Ok(())
    }

    /// What is found without a model.
    fn still(&self) -> StillChoice {
        let dilate = match self.dilate {
            Reach::Degrees(degrees) => degrees,
            Reach::Pixels(_) => 0.0,
        };
        let Self { still_patch, shadow, crop_bottom, .. } = *self;
        StillChoice { still_patch, shadow, crop_bottom, dilate }
    }

    fn wants_still(&self) -> bool {
        self.still_patch || self.crop_bottom > 0.0
    }

    /// What decides the bytes of a frame.
    fn settings(&self, segmenter: Option<&Segmenter>, still: Option<&StillMasks>, input: &Input) -> String {
        let Self { layout, passes, dilate, holes, smallest, edges, feather, modes, empty_masks, .. } = self;
        fingerprint(&format!(
            "{BYTES_VERSION} {} {} {:?} {layout:?} {passes} {dilate:?} {holes} {smallest} {edges} {feather} {modes:?} {empty_masks}",
            segmenter.map_or_else(String::new, Segmenter::settings),
            still.map_or_else(String::new, |still| format!("{:?} {}", self.still(), shape_of(still))),
            input.kind(),
        ))
    }
}

/// Makes masks; with `is_dry_run` opens pictures and model, and writes nothing.
///
/// # Errors
/// Pictures, a model or options that cannot be used, files of somebody else, a file that cannot be written.
pub fn mask(options: &MaskOptions, is_dry_run: bool, host: &mut Host<'_>) -> Result<Masked, Failure> {
    options.check()?;
    let input = Input::open(&options.input, options.kind, host)?;
    of_input(options, &input, is_dry_run, host)
}

fn of_input(
    options: &MaskOptions,
    input: &Input,
    is_dry_run: bool,
    host: &mut Host<'_>,
) -> Result<Masked, Failure> {
    if let (Reach::Pixels(_), InputKind::Panoramas | InputKind::Views) = (options.dilate, input.kind()) {
        return Err(Failure::usage(
            "⟨dilate⟩: px are for photographs; say degrees for panoramas and their views",
        ));
    }
    if input.kind() != InputKind::Panoramas && (options.wants_still() || options.model.is_none()) {
        return Err(Failure::usage(format!(
            "⟨still-patch⟩, ⟨crop-bottom⟩: are for panoramas (found {}s)",
            input.kind().noun()
        )));
    }
    let watch = Watch { stop: host.stop(), limit: Duration::from_secs(options.model_timeout) };
    let open =
        |model: &PathBuf| Segmenter::open(model, options.model_toml.as_deref(), &options.wanted, watch);
    let segmenter = options.model.as_ref().map(open).transpose()?;
    let level = level(options.simd)
        .ok_or_else(|| Failure::new("device", "⟨simd⟩: this processor does not have it"))?;
    let still = match input {
        Input::Panoramas(source) if options.wants_still() && !is_dry_run => {
            Some(StillMasks::find(source, options.still(), &[], host)?)
        }
        _ => None,
    };
    if let Some(why) = still.as_ref().and_then(|still| still.nothing.as_ref()) {
        host.warn("the still patch", why);
    }
    let settings = options.settings(segmenter.as_ref(), still.as_ref(), input);
    let job = Job { options, input, segmenter: segmenter.as_ref(), still: still.as_ref(), settings, level };
    let mut done = Masked::new(&job);
    if is_dry_run {
        done.is_dry_run = true;
        return Ok(done);
    }
    folder::all(&job, &mut done, host)?;
    Ok(done)
}

/// Masks of the panoramas of a source that was looked at before.
///
/// # Errors
/// As [`mask()`].
pub fn mask_source(options: &MaskOptions, source: Source, host: &mut Host<'_>) -> Result<Masked, Failure> {
    options.check()?;
    let input = Input::of_source(&options.input, source)?;
    of_input(options, &input, false, host)
}

/// The form of what is still: it is found in all frames together, so that one more frame may change it.
fn shape_of(still: &StillMasks) -> String {
    let mask = still.mask(0, 720, 360);
    fingerprint(&mask.data.iter().map(|keep| char::from(b'0' + keep / 26)).collect::<String>())
}

/// Everything that was decided before the first frame.
struct Job<'a> {
    options: &'a MaskOptions,
    input: &'a Input,
    segmenter: Option<&'a Segmenter>,
    /// What is found without a model.
    still: Option<&'a StillMasks>,
    settings: String,
    level: gausset_compute::fearless_simd::Level,
}

impl Job<'_> {
    /// The name of a class of the model.
    fn class(&self, number: usize) -> String {
        self.segmenter.map_or_else(String::new, |segmenter| segmenter.class(number).to_owned())
    }
}
