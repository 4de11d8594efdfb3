//! Options of the mask job.

use std::path::PathBuf;

use gausset_compute::SimdLevel;
use gausset_pano::layout::Layout;
use gausset_segment::{ClassSelection, Segmenter};
use gausset_train::MemoryLimit;

use super::keep_box::KeepBox;
use crate::Failure;
use crate::mask_engine::MaskEngine;
use crate::panos::FrameOptions;
use crate::panos::static_foreground::{MAX_DILATION, StaticMasks, StillChoice};

/// Kind of the input images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// Full-sphere images, or parts of an equirectangular panorama.
    Panoramas,
    /// Ordinary photographs.
    Photographs,
    /// Views of panoramas, created by a split.
    Views,
}

impl InputKind {
    /// Noun for one frame.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Panoramas => "panorama",
            Self::Photographs => "photograph",
            Self::Views => "frame",
        }
    }
}

/// Largest value of `temporal`.
const MAX_TEMPORAL: u32 = 5;
/// Part of the settings hash; incremented when the same input gives other bytes.
const BYTES_VERSION: u32 = 1;

/// Distance by which a mask is dilated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dilation {
    /// Degrees on the sphere; in photographs converted by their focal length.
    Degrees(f64),
    /// Pixels of a photograph.
    Pixels(f64),
}

/// Kinds of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputModes {
    /// Masks, 0 = remove.
    #[default]
    Masks,
    /// Cut-outs: images with alpha.
    Cutouts,
    /// Masks and cut-outs.
    Both,
}

/// Lossless file format of cut-outs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutoutFormat {
    /// PNG, which every program reads.
    #[default]
    Png,
    /// WebP: smaller, slower to write.
    Webp,
}

/// Options of [`super::mask()`].
#[derive(Clone, Debug)]
pub struct MaskOptions {
    /// A panorama or photograph, a folder of either, or the folder of a split.
    pub input: PathBuf,
    /// Output folder of the masks.
    pub output: PathBuf,
    /// Segmentation model (ONNX); `None` = only masks that need no model.
    pub model: Option<PathBuf>,
    /// Description of the model (TOML); `None` = the file next to the model, or derived from its outputs.
    pub model_toml: Option<PathBuf>,
    /// Inference engine of the model.
    pub engine: MaskEngine,
    /// Classes to detect.
    pub wanted: ClassSelection,
    /// Frame selection, for panoramas and videos.
    pub frames: FrameOptions,
    /// Kind of the images; `None` = recognised by their size and metadata.
    pub kind: Option<InputKind>,
    /// Masks what does not move relative to the camera in all panoramas: operator, tripod.
    pub still_patch: bool,
    /// Masks its shadow as well.
    pub shadow: bool,
    /// Masks everything within this angle of the nadir in degrees, in panoramas.
    pub crop_bottom: f64,
    /// Keeps only a box in space.
    pub keep_box: Option<KeepBox>,
    /// Poses of the frames in any supported format, for the box and the walking direction; `None` = those in the folder
    /// of a split.
    pub poses: Option<PathBuf>,
    /// Number of consecutive frames in which a missed detection is filled in, and of neighbours on each side among
    /// which a weak detection must be confirmed. `None` = 1 for videos and splits of them, 0 otherwise.
    pub temporal: Option<u32>,
    /// Layout of the views in the first pass over a panorama.
    pub layout: Layout,
    /// 1 = the views of the layout only. 2 = also a view around each detection.
    pub passes: u32,
    /// Dilation of the masks.
    pub dilate: Dilation,
    /// Fills holes up to this fraction of the surrounding region.
    pub holes: f64,
    /// Drops detections smaller than this, in square degrees.
    pub smallest: f64,
    /// Snaps mask edges to image edges within this many degrees; 0 = off.
    pub edges: f64,
    /// Width of the soft edges of cut-outs in degrees.
    pub feather: f64,
    /// Kinds of output.
    pub modes: OutputModes,
    /// File format of cut-outs.
    pub cutouts: CutoutFormat,
    /// Writes a white mask for a frame without detections.
    pub empty_masks: bool,
    /// Timeout of the model per image in seconds.
    pub model_timeout: u64,
    /// Folder for a profile: `profile.json`, `profile.csv`, `trace.json`.
    pub profile: Option<PathBuf>,
    /// Redo finished frames, and write into folders that Gausset did not create.
    pub force: bool,
    /// Memory limit; auto = a quarter of the machine's memory, at most 2 GiB.
    pub max_memory: MemoryLimit,
    /// Threads; 0 = all CPU threads. As many frames are processed concurrently, fewer if memory is short.
    pub threads: u32,
    /// SIMD level for resampling; the inference engine chooses its own.
    pub simd: SimdLevel,
}

impl MaskOptions {
    /// Input and output folder, without anything to mask yet and with defaults for everything else.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            output: output.into(),
            model: None,
            model_toml: None,
            engine: MaskEngine::default(),
            wanted: ClassSelection::default(),
            frames: FrameOptions::default(),
            kind: None,
            still_patch: false,
            shadow: false,
            crop_bottom: 0.0,
            keep_box: None,
            poses: None,
            temporal: None,
            layout: Layout::Ring8Caps,
            passes: 2,
            dilate: Dilation::Degrees(0.6),
            holes: 0.1,
            smallest: 0.25,
            edges: 0.5,
            feather: 0.0,
            modes: OutputModes::default(),
            cutouts: CutoutFormat::default(),
            empty_masks: false,
            model_timeout: 120,
            profile: None,
            force: false,
            max_memory: MemoryLimit::Auto,
            threads: 0,
            simd: SimdLevel::Auto,
        }
    }

    /// Refuses values out of range and options that exclude each other.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let within = |key: &str, value: f64, most: f64| {
            if (0.0..=most).contains(&value) {
                return Ok(());
            }
            Err(Failure::usage(format!("⟨{key}⟩: expected 0 to {most}, found {value}")))
        };
        match self.dilate {
            Dilation::Degrees(degrees) => within("dilate", degrees, MAX_DILATION)?,
            Dilation::Pixels(pixels) => within("dilate", pixels, 1000.0)?,
        }
        within("holes", self.holes, 1.0)?;
        within("smallest", self.smallest, 40_000.0)?;
        within("edges", self.edges, 5.0)?;
        within("feather", self.feather, 45.0)?;
        within("confidence", f64::from(self.wanted.confidence), 1.0)?;
        self.static_options().check()?;
        if self.model.is_none() && !self.has_static_masks() && !self.shadow && self.keep_box.is_none() {
            return Err(Failure::usage(
                "nothing to remove (expected ⟨model⟩, ⟨still-patch⟩, ⟨crop-bottom⟩ or ⟨keep-box⟩)",
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
        if let Some(frames) = self.temporal.filter(|frames| *frames > MAX_TEMPORAL) {
            return Err(Failure::usage(format!(
                "⟨temporal⟩: expected 0 to {MAX_TEMPORAL} frames, found {frames}"
            )));
        }
        if self.cutouts != CutoutFormat::Png && self.modes == OutputModes::Masks {
            return Err(Failure::usage(
                "⟨cutout-format⟩: has no effect with ⟨modes = masks⟩; leave it out, or take ⟨modes = cutouts⟩",
            ));
        }
        self.engine.check(self.model.is_some())?;
        if self.model.is_none() {
            self.check_without_model()?;
        }
        if self.feather > 0.0 && self.modes == OutputModes::Masks {
            return Err(Failure::usage(
                "⟨feather⟩: has no effect with ⟨modes = masks⟩; leave it out, or take ⟨modes = cutouts⟩",
            ));
        }
        Ok(())
    }

    /// Refuses options that have no effect without a model.
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
            ("holes", self.holes != plain.holes),
            ("smallest", self.smallest != plain.smallest),
            ("edges", self.edges != plain.edges),
        ];
        match of_model.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(Failure::usage(format!(
                "⟨{key}⟩: has no effect without ⟨model⟩; leave it out, or name one"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses options that have no effect on this kind of input.
    pub(super) fn check_kind(&self, kind: InputKind) -> Result<(), Failure> {
        let plain = Self::new(&self.input, &self.output);
        let (panoramas, both) = ("panoramas", "panoramas and their views");
        let given = [
            ("still-patch", panoramas, self.still_patch),
            ("crop-bottom", panoramas, self.crop_bottom > 0.0),
            ("mask-views", panoramas, self.layout != plain.layout),
            ("passes", panoramas, self.passes != plain.passes),
            ("edges", panoramas, self.edges != plain.edges && self.edges > 0.0),
            ("keep-box", both, self.keep_box.is_some()),
            ("temporal", both, self.temporal.unwrap_or(0) > 0),
            ("holes", both, self.holes != plain.holes),
            ("smallest", both, self.smallest != plain.smallest),
            ("feather", both, self.feather > 0.0),
        ];
        let has_no_effect = |are_for: &str| match kind {
            InputKind::Panoramas => false,
            InputKind::Views => are_for == panoramas,
            InputKind::Photographs => true,
        };
        match given.into_iter().find(|(_, are_for, is_given)| *is_given && has_no_effect(are_for)) {
            Some((key, are_for, _)) => {
                Err(Failure::usage(format!("⟨{key}⟩: applies to {are_for} only (found {}s)", kind.noun())))
            }
            None => Ok(()),
        }
    }

    /// Options of the masks that need no model.
    pub(super) fn static_options(&self) -> StillChoice {
        let dilate = match self.dilate {
            Dilation::Degrees(degrees) => degrees,
            Dilation::Pixels(_) => 0.0,
        };
        let Self { still_patch, shadow, crop_bottom, .. } = *self;
        StillChoice { still_patch, shadow, crop_bottom, dilate }
    }

    pub(super) fn has_static_masks(&self) -> bool {
        self.still_patch || self.crop_bottom > 0.0
    }

    /// Settings that the output of all frames depends on, as text for a hash; they include those of the input.
    pub(super) fn settings(
        &self,
        segmenter: Option<&Segmenter>,
        still: Option<&StaticMasks>,
        (kind, input_settings): (InputKind, &str),
        reach: usize,
    ) -> String {
        let Self { layout, passes, dilate, holes, smallest, edges, feather, modes, empty_masks, .. } = self;
        let corners = self.keep_box.as_ref().map(|keep_box| keep_box.corners);
        format!(
            "{BYTES_VERSION} {} {} {:?} {layout:?} {passes} {dilate:?} {holes} {smallest} {edges} {feather} {modes:?} {:?} {empty_masks} {corners:?} {reach} {}",
            segmenter.map_or_else(String::new, Segmenter::settings),
            still.map_or_else(String::new, |still| format!(
                "{:?} {}",
                self.static_options(),
                still.settings_text()
            )),
            kind,
            self.cutouts,
            input_settings,
        )
    }
}
