//! What is asked of masks.

use std::path::PathBuf;

use gausset_compute::VectorLevel;
use gausset_pano::layout::Layout;
use gausset_segment::{Segmenter, Wanted};
use gausset_train::MemoryLimit;

use super::input::{Input, InputKind};
use super::keep_box::KeepBox;
use crate::Failure;
use crate::mask_engine::MaskEngine;
use crate::panos::FrameChoice;
use crate::panos::still::{StillChoice, StillMasks};

/// Most frames that may miss a find in a row.
const MOST_FRAMES: u32 = 5;
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

/// How pictures with alpha are written, without losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutoutFormat {
    /// PNG.
    #[default]
    Png,
    /// WebP: smaller, slower to write.
    Webp,
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
    /// What runs it.
    pub engine: MaskEngine,
    /// What is looked for.
    pub wanted: Wanted,
    /// Which frames, of panoramas and videos.
    pub frames: FrameChoice,
    /// What the pictures are; `None` = by their shape.
    pub kind: Option<InputKind>,
    /// Mask what stays at its place in all panoramas while the rest passes by: the operator, the tripod.
    pub still_patch: bool,
    /// And its shadow.
    pub shadow: bool,
    /// Mask everything within so many degrees of straight down, in panoramas.
    pub crop_bottom: f64,
    /// Keep only what lies in a box in space: the corner with the least coordinates and the one with the largest.
    pub keep_box: Option<KeepBox>,
    /// Poses of the frames in any form that is known, for the box and for the direction of the walk; `None` = those in the
    /// folder of a split.
    pub poses: Option<PathBuf>,
    /// Frames in a row that may miss a find that those around them have, and before and behind which a weak find needs
    /// another one; `None` = 1 for films and splits of them, 0 for others.
    pub temporal: Option<u32>,
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
    /// How cut-outs are written.
    pub cutouts: CutoutFormat,
    /// Write a white mask for a frame in which nothing was found.
    pub empty_masks: bool,
    /// Longest run of the model on one picture, seconds.
    pub model_timeout: u64,
    /// Folder for a profile: `profile.json`, `profile.csv`, `trace.json`.
    pub profile: Option<PathBuf>,
    /// Redo finished frames, and write among files of somebody else.
    pub force: bool,
    /// Memory to stay within; auto = a quarter of the machine's, at most 2 GiB.
    pub max_memory: MemoryLimit,
    /// Threads; 0 = all processors. As many frames are under way at once, or fewer where memory asks for it.
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
            engine: MaskEngine::default(),
            wanted: Wanted::default(),
            frames: FrameChoice::default(),
            kind: None,
            still_patch: false,
            shadow: false,
            crop_bottom: 0.0,
            keep_box: None,
            poses: None,
            temporal: None,
            layout: Layout::Ring8Caps,
            passes: 2,
            dilate: Reach::Degrees(0.6),
            holes: 0.1,
            smallest: 0.25,
            edges: 0.5,
            feather: 0.0,
            modes: Modes::default(),
            cutouts: CutoutFormat::default(),
            empty_masks: false,
            model_timeout: 120,
            profile: None,
            force: false,
            max_memory: MemoryLimit::Auto,
            threads: 0,
            simd: VectorLevel::Auto,
        }
    }

    /// Values out of range, and such as do not go together.
    pub(super) fn check(&self) -> Result<(), Failure> {
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
        self.still().check()?;
        if self.model.is_none() && !self.wants_still() && !self.shadow && self.keep_box.is_none() {
            return Err(Failure::usage(
                "nothing is to be removed (expected ⟨model⟩, ⟨still-patch⟩, ⟨crop-bottom⟩ or ⟨keep-box⟩)",
            ));
        }
        if let Some(keep_box) = &self.keep_box {
            keep_box.check()?;
        }
        if self.poses.is_some() && self.keep_box.is_none() && !self.still_patch {
            return Err(Failure::usage(
                "⟨poses⟩: has no effect without ⟨keep-box⟩ or ⟨still-patch⟩; leave it out, or take one of them",
            ));
        }
        if let Some(frames) = self.temporal.filter(|frames| *frames > MOST_FRAMES) {
            return Err(Failure::usage(format!(
                "⟨temporal⟩: expected 0 to {MOST_FRAMES} frames, found {frames}"
            )));
        }
        if self.cutouts != CutoutFormat::Png && self.modes == Modes::Masks {
            return Err(Failure::usage(
                "⟨cutout-format⟩: has no effect with ⟨modes = masks⟩; leave it out, or take ⟨modes = cutouts⟩",
            ));
        }
        self.engine.check(self.model.is_some())?;
        if self.model.is_none() {
            self.check_without_model()?;
        }
        if self.feather > 0.0 && self.modes == Modes::Masks {
            return Err(Failure::usage(
                "⟨feather⟩: has no effect with ⟨modes = masks⟩; leave it out, or take ⟨modes = cutouts⟩",
            ));
        }
        Ok(())
    }

    /// What only a model looks at is a mistake without one.
    fn check_without_model(&self) -> Result<(), Failure> {
        let plain = Self::new(&self.input, &self.output);
        let of_model = [
            ("remove", self.wanted.remove != plain.wanted.remove),
            ("keep", self.wanted.keep != plain.wanted.keep),
            ("confidence", self.wanted.confidence != plain.wanted.confidence),
            ("temporal", self.temporal.unwrap_or(0) > 0),
            ("mask-views", self.layout != plain.layout),
            ("passes", self.passes != plain.passes),
            ("model-timeout", self.model_timeout != plain.model_timeout),
        ];
        match of_model.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(Failure::usage(format!(
                "⟨{key}⟩: has no effect without ⟨model⟩; leave it out, or name one"
            ))),
            None => Ok(()),
        }
    }

    /// What is found without a model.
    pub(super) fn still(&self) -> StillChoice {
        let dilate = match self.dilate {
            Reach::Degrees(degrees) => degrees,
            Reach::Pixels(_) => 0.0,
        };
        let Self { still_patch, shadow, crop_bottom, .. } = *self;
        StillChoice { still_patch, shadow, crop_bottom, dilate }
    }

    pub(super) fn wants_still(&self) -> bool {
        self.still_patch || self.crop_bottom > 0.0
    }

    /// What decides the bytes of all frames.
    pub(super) fn settings(
        &self,
        segmenter: Option<&Segmenter>,
        still: Option<&StillMasks>,
        input: &Input,
        reach: usize,
    ) -> String {
        let Self { layout, passes, dilate, holes, smallest, edges, feather, modes, empty_masks, .. } = self;
        let corners = self.keep_box.as_ref().map(|keep_box| keep_box.corners);
        format!(
            "{BYTES_VERSION} {} {} {:?} {layout:?} {passes} {dilate:?} {holes} {smallest} {edges} {feather} {modes:?} {:?} {empty_masks} {corners:?} {reach} {}",
            segmenter.map_or_else(String::new, Segmenter::settings),
            still.map_or_else(String::new, |still| format!("{:?} {}", self.still(), still.text())),
            input.kind(),
            self.cutouts,
            input.text(),
        )
    }
}
