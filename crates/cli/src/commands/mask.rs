//! `gausset mask`: masks from the detections of a segmentation model, and of static foreground.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::mask::{self, CutoutFormat, Dilation, InputKind, KeepBox, MaskOptions, MaskResult, OutputModes};
use gausset::mask_engine::{EngineKind, MaskEngine};
use gausset::panos::FrameOptions;
use gausset::{Failure, Host};
use gausset_pano::layout::Layout;
use gausset_train::MemoryLimit;

use crate::EarlyExit;
use crate::commands::frame_jobs::{FrameJobArgs, run_frame_job};
use crate::commands::pano::track::TrackFileArgs;
use crate::commands::pano::views::layout_parser;
use crate::console::Console;
use crate::describe;
use crate::device::MachineArgs;
use crate::exit::Status;
use crate::footage::FootageArgs;
use crate::lines::Lines;
use crate::value_parsers::{parse_box, parse_fraction};

const AFTER_HELP: &str = "\
Examples:
  gausset mask walk/ -o masks/ --model rf-detr-seg-nano.onnx
  gausset mask walk/ -o masks/ --still-patch               operator and tripod, without a model
  gausset pano split walk/ -o work/ --masks masks/         cut views with these masks
  gausset mask tour.mp4 -o masks/ --model m.onnx           frames that `pano split tour.mp4` uses
  gausset mask work/ -o work_masks/ --model m.onnx         views of a split
  gausset mask work/ -o boxed/ --keep-box -1,-1,-1,1,1,1   mask everything outside a box
  gausset mask photos/ -o photos_masks/ --model m.onnx --remove person,vehicle --dilate 7px
Models are not included and have their own licences; docs/reference/masks.md lists suitable ones.
Black pixels are removed. Finished frames are kept: the same command resumes an interrupted job.";

/// Arguments of `mask`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MaskArgs {
    /// Panorama, photograph, video, folder of images, or folder of a split.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Output folder: a mask NAME.jpg.png for each image NAME.jpg with a detection.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Segmentation model (.onnx).
    #[arg(long, alias = "mask-model", value_name = "FILE")]
    model: Option<PathBuf>,
    /// Mask static foreground: what keeps its position in all panoramas of a moving camera (operator, tripod).
    #[arg(long)]
    still_patch: bool,
    /// Also mask the shadow of static foreground.
    #[arg(long, requires = "still_patch")]
    shadow: bool,
    /// Mask everything within this angle of the nadir, degrees.
    #[arg(long, value_name = "DEG", default_value_t = 0.0)]
    crop_bottom: f64,
    /// Mask everything outside a box in world coordinates: minimum corner, maximum corner.
    #[arg(long, value_name = "X,Y,Z,X,Y,Z", value_parser = parse_box, allow_hyphen_values = true)]
    keep_box: Option<[[f64; 3]; 2]>,
    /// Poses of the frames, in any format of `pano compare`, for --keep-box (world coordinates) and --still-patch
    /// (direction of travel) [default: the poses of the split].
    #[arg(long, value_name = "FILE")]
    poses: Option<PathBuf>,
    /// Description of the model's inputs and outputs [default: the .toml next to it, or detected from its outputs].
    #[arg(long, value_name = "FILE", requires = "model")]
    model_toml: Option<PathBuf>,
    #[command(flatten)]
    engine: FootageArgs<MaskEngine>,
    /// Python with the package onnxruntime [default: $GAUSSET_PYTHON, then python3 in PATH].
    #[arg(long, value_name = "PYTHON")]
    python: Option<PathBuf>,
    /// Groups (person, animal, vehicle, carried, sky) and classes to mask [default: person,carried].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    remove: Option<Vec<String>>,
    /// Groups and classes of --remove that are not masked.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    keep: Vec<String>,
    /// Minimum confidence of a detection, 0 to 1.
    #[arg(long, value_name = "P", default_value_t = 0.5, value_parser = parse_fraction)]
    confidence: f64,
    /// Type of the images: panoramas|photographs [default: by aspect ratio].
    #[arg(
        long = "as", value_name = "KIND", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["panoramas", "photographs"]).map(|name| match name.as_str() {
            "panoramas" => InputKind::Panoramas,
            _ => InputKind::Photographs,
        })
    )]
    kind: Option<InputKind>,
    /// Number of consecutive frames across which missed detections are filled in and weak ones need confirmation; 0 =
    /// independent frames [default: 1 for videos and their splits, 0 for images].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=5))]
    temporal: Option<u32>,
    /// Layout of the views in the first pass over a panorama.
    #[arg(
        long, value_name = "LAYOUT", default_value = "ring8-caps", hide_possible_values = true,
        value_parser = layout_parser()
    )]
    mask_views: Layout,
    /// Passes over a panorama; 2 = run the model again around each detection.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    passes: u32,
    /// Mask dilation in degrees, for photographs also in pixels (7px).
    #[arg(long, value_name = "REACH", default_value = "0.6", value_parser = parse_dilation)]
    dilate: Dilation,
    /// Panoramas: fill holes up to this fraction of the surrounding detection.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    holes: f64,
    /// Panoramas: minimum size of a detection, square degrees.
    #[arg(long, value_name = "SQDEG", default_value_t = 0.25)]
    smallest: f64,
    /// Panoramas: distance within which mask edges snap to image edges, degrees; 0 = off.
    #[arg(long, value_name = "DEG", default_value_t = 0.5)]
    edges: f64,
    /// Output: masks|cutouts|both; cut-outs, with alpha, are in DIR/cutouts [default: masks].
    #[arg(
        long, value_name = "MODES", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["masks", "cutouts", "both"]).map(|name| match name.as_str() {
            "masks" => OutputModes::Masks,
            "cutouts" => OutputModes::Cutouts,
            _ => OutputModes::Both,
        })
    )]
    modes: Option<OutputModes>,
    /// Lossless format of cut-outs: png|webp.
    #[arg(
        long, value_name = "FORMAT", default_value = "png", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["png", "webp"])
            .map(|name| if name == "webp" { CutoutFormat::Webp } else { CutoutFormat::Png })
    )]
    cutout_format: CutoutFormat,
    /// Width of the soft edges of cut-outs, degrees.
    #[arg(long, value_name = "DEG", default_value_t = 0.0)]
    feather: f64,
    /// Write a white mask for images without detections, for programs that need a mask per image.
    #[arg(long)]
    empty_masks: bool,
    /// Time limit of the model per image, seconds.
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    model_timeout: u64,
    /// Memory limit (4GiB, 512MiB or bytes); auto = a quarter of the machine's memory, at most 2GiB.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = str::parse::<MemoryLimit>)]
    max_memory: MemoryLimit,
    /// Print how the model was recognised and which classes are masked.
    #[arg(long)]
    explain: bool,
    /// Output folder for profile.json, profile.csv and trace.json.
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    choice: FootageArgs<FrameOptions>,
    #[command(flatten)]
    track: TrackFileArgs,
    #[command(flatten)]
    pub(super) making: FrameJobArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Parses a dilation: `0.6` degrees or `7px`.
fn parse_dilation(text: &str) -> Result<Dilation, String> {
    let reach = match text.strip_suffix("px") {
        Some(pixels) => pixels.parse().map(Dilation::Pixels),
        None => text.parse().map(Dilation::Degrees),
    };
    let is_plain = |reach: &Dilation| matches!(reach, Dilation::Degrees(v) | Dilation::Pixels(v) if v.is_finite() && *v >= 0.0);
    let reach = reach.ok().filter(is_plain);
    reach.ok_or_else(|| format!("expected degrees (0.6) or px (7px), found `{text}`"))
}

impl MaskArgs {
    fn options(&self) -> MaskOptions {
        let mut options = MaskOptions::new(&self.input, &self.output);
        options.model.clone_from(&self.model);
        options.model_toml.clone_from(&self.model_toml);
        options.wanted.remove.clone_from(&self.remove);
        options.wanted.keep.clone_from(&self.keep);
        options.wanted.confidence = self.confidence as f32;
        // Options of cut-outs imply cut-outs in addition to the masks.
        let has_cutout_options = self.feather > 0.0 || self.cutout_format != CutoutFormat::Png;
        let implied_modes = if has_cutout_options { OutputModes::Both } else { OutputModes::Masks };
        MaskOptions {
            frames: FrameOptions { track: self.track.options(), ..self.choice.0.clone() },
            kind: self.kind,
            keep_box: self.keep_box.map(|corners| KeepBox { corners }),
            poses: self.poses.clone(),
            temporal: self.temporal,
            still_patch: self.still_patch,
            shadow: self.shadow,
            crop_bottom: self.crop_bottom,
            layout: self.mask_views,
            passes: self.passes,
            dilate: self.dilate,
            holes: self.holes,
            smallest: self.smallest,
            edges: self.edges,
            feather: self.feather,
            modes: self.modes.unwrap_or(implied_modes),
            cutouts: self.cutout_format,
            empty_masks: self.empty_masks,
            model_timeout: self.model_timeout,
            profile: self.profile.clone(),
            engine: MaskEngine { python: self.python.clone(), ..self.engine.0.clone() },
            max_memory: self.max_memory,
            force: self.making.force,
            threads: self.machine.threads,
            simd: self.machine.simd,
            ..options
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &MaskArgs, console: &Console) -> Result<Status, EarlyExit> {
    if args.python.is_some() && args.engine.0.kind == EngineKind::Rten {
        let what = "--python: has no effect with --mask-engine rten; leave it out, or take --mask-engine onnxruntime";
        return Err(Failure::usage(what).into());
    }
    if args.explain && args.model.is_none() {
        return Err(
            Failure::usage("--explain: has no effect without --model; leave it out, or name one").into()
        );
    }
    let options = args.options();
    let job = |host: &mut Host<'_>| mask::mask(&options, args.making.dry_run, host);
    run_frame_job(console, job, |done| format_result(done, args))
}

/// Formats the result as text.
fn format_result(done: &MaskResult, args: &MaskArgs) -> Lines {
    let mut lines = Lines::default();
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    if args.explain && args.model.is_some() {
        let [w, h] = done.input;
        lines += format!("model: {}; input {w}x{h} px; by {}", done.explanation, done.engine);
        lines += format!("classes: {}", done.looked_for.join(", "));
    }
    let output = args.output.display();
    if done.is_dry_run {
        lines += format!("{output}: masks of {} would be written", plural(done.frames, done.of));
        return lines;
    }
    let classes: Vec<String> = done.classes.iter().map(|(class, count)| format!("{count} {class}")).collect();
    let kept =
        if done.resumed > 0 { format!(", {} from an earlier run", done.resumed) } else { String::new() };
    let found = match (&args.model, classes.as_slice()) {
        (None, _) => String::new(),
        (Some(_), []) => format!("; detections in {}", done.with_finds),
        (Some(_), classes) => format!("; detections in {}: {}", done.with_finds, classes.join(", ")),
    };
    lines += format!("{output}: {}{kept}{found}", plural(done.frames, done.of));
    if done.temporal > 0 && args.model.is_some() {
        lines += format!("temporal filter: {} filled in, {} dropped", done.filled, done.dropped);
    }
    if let Some(share) = done.still_share {
        lines += format!("static foreground: {:.2} % of the sphere", 100.0 * share);
    }
    if let Some(worst) = &done.worst {
        let percent = |share: f64| 100.0 * share;
        let of = if done.of == "photograph" { "image" } else { "sphere" };
        lines += format!(
            "removed: {:.2} % of the {of} on average, {:.2} % at most ({worst})",
            percent(done.removed_mean),
            percent(done.removed_worst)
        );
    }
    if done.frames == done.resumed {
        return lines;
    }
    lines + format!("limited by: {}", done.limit) + "" + describe::stage_table(&done.times)
}
