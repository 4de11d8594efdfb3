//! `gausset pano split`: panoramas to perspective views.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_flow::panos::split as pano_split;
use gausset_flow::panos::{FrameChoice, SplitOptions, ViewChoice};
use gausset_flow::{Failure, tool::SILENCE};
use gausset_pano::cutter::Format;
use gausset_pano::split::{Naming, Numbering, OnError, Skipped, StageTimes};
use gausset_train::MemoryLimit;
use serde::Serialize;

use super::colour::ColourArgs;
use super::frames::SelectArgs;
use super::removal::RemovalArgs;
use super::shape::ShapeArgs;
use super::track::TrackFileArgs;
use super::views::{LensesArgs, ViewArgs};
use crate::commands::training::{ending, interrupted};
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::listener::attend;
use crate::{Ending, describe};

const AFTER_HELP: &str = "\
Examples:
  gausset pano split walk/ -o work/
  gausset pano split walk/ -o work/ --layout cube6 --size 1024 --crop-bottom 35
  gausset pano split walk/ -o work/ --dry-run          frames, views, disk, time; writes nothing
Finished frames are kept: the same command goes on after an interruption.";

/// Arguments of `pano split`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SplitArgs {
    /// A folder of panoramas or cubes (JPEG, PNG, TIFF), of GoPro MAX stream pairs, or a video of these (through ffmpeg).
    #[arg(value_name = "INPUT")]
    pub(crate) input: PathBuf,
    /// Folder for the views.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) views: ViewArgs,
    #[command(flatten)]
    pub(crate) lenses: LensesArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    #[command(flatten)]
    pub(crate) track: TrackFileArgs,
    #[command(flatten)]
    pub(crate) colours: ColourArgs,
    /// Mask everything within so many degrees of straight down: tripod, operator.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, help_heading = "Views")]
    pub(crate) crop_bottom: f64,
    /// Folder with a mask per frame (0 = remove) [default: INPUT/masks].
    #[arg(long, value_name = "DIR", help_heading = "Views")]
    pub(crate) masks: Option<PathBuf>,
    /// A program that writes a mask per frame, with its arguments; {frame} and {mask} stand for the picture and for the
    /// PNG to write (0 = remove).
    #[arg(long, value_name = "COMMAND", conflicts_with = "masks", help_heading = "Views")]
    pub(crate) mask_command: Option<String>,
    #[command(flatten, next_help_heading = "Views")]
    pub(crate) removal: RemovalArgs,
    /// Turn panoramas level: gpano = by the pitch and roll that their metadata say.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["gpano"]), help_heading = "Views")]
    pub(crate) level: Option<String>,
    /// Kind of the views: jpg|png.
    #[arg(
        long, value_name = "FORMAT", default_value = "jpg", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["jpg", "png"])
    )]
    pub(crate) format: String,
    /// JPEG quality [default: 95].
    #[arg(long, value_name = "Q", help_heading = "Files", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) quality: Option<u8>,
    /// Names: rig (viewNN/FRAME.jpg, a rig for COLMAP) or flat (frame_NNNNN_cam_NN.jpg).
    #[arg(
        long, value_name = "NAMING", default_value = "rig", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["rig", "flat"])
            .map(|w| if w == "flat" { Naming::Flat } else { Naming::Rig })
    )]
    pub(crate) naming: Naming,
    /// Numbers of flat names: order (from 0) or source (the last number in the name of the frame) [default: order].
    #[arg(
        long, value_name = "NUMBERS", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["order", "source"])
            .map(|w| if w == "source" { Numbering::Source } else { Numbering::Order })
    )]
    pub(crate) numbering: Option<Numbering>,
    /// What to do with a frame that cannot be used: skip|stop.
    #[arg(
        long, value_name = "HOW", default_value = "skip", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["skip", "stop"])
            .map(|w| if w == "stop" { OnError::Stop } else { OnError::Skip })
    )]
    pub(crate) on_error: OnError,
    /// Redo frames that are finished or were cut with other options, and write among files of somebody else.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'], help_heading = "Files")]
    pub(crate) force: bool,
    /// Seconds for which an outside program (ffmpeg, mask command) may say nothing.
    #[arg(long, value_name = "S", default_value_t = SILENCE, help_heading = "Files", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) tool_timeout: u64,
    /// Largest panorama, as WIDTHxHEIGHT px.
    #[arg(long, value_name = "WxH", default_value = "16384x8192", value_parser = parse_size, help_heading = "Files")]
    pub(crate) max_side: [u32; 2],
    /// Longest file of a frame, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256, help_heading = "Files")]
    pub(crate) max_file: u64,
    /// Memory to stay within: 4GiB, 512MiB, bytes; auto = a quarter of the machine's, at most 2GiB.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = str::parse::<MemoryLimit>, help_heading = "Machine")]
    pub(crate) max_memory: MemoryLimit,
    /// Write profile.json, profile.csv and trace.json of the split into a folder.
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run", help_heading = "Machine")]
    pub(crate) profile: Option<PathBuf>,
    /// Say what would be done; write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

/// Which frames.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChoiceArgs {
    /// Every n-th frame.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) every: u32,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Video: frames per second, by time.
    #[arg(long, value_name = "FPS", help_heading = "Frames", value_parser = parse_positive)]
    pub(crate) fps: Option<f64>,
    /// Video: first second.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Frames")]
    pub(crate) start: f64,
    /// Video: last second.
    #[arg(long, value_name = "S", help_heading = "Frames", value_parser = parse_positive)]
    pub(crate) end: Option<f64>,
    /// Video: of so many neighbouring frames, the sharpest.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) sharpest_of: u32,
    /// Two eyes, one above the other; the upper one is taken (tb).
    #[arg(long, value_name = "HOW", help_heading = "Frames", value_parser = PossibleValuesParser::new(["tb"]))]
    pub(crate) stereo: Option<String>,
    /// Frames of two fisheye circles, described by a lens file (docs/pano.md).
    #[arg(long, value_name = "FILE", help_heading = "Frames")]
    pub(crate) lens: Option<PathBuf>,
    /// At most so many frames: of a video spread by parallax, of a folder evenly.
    #[arg(long, value_name = "N", help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_frames: Option<u32>,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

impl ChoiceArgs {
    pub(crate) fn options(&self) -> FrameChoice {
        FrameChoice {
            every: self.every,
            select: self.select.options(),
            fps: self.fps,
            start: self.start,
            end: self.end,
            sharpest_of: self.sharpest_of,
            is_stereo: self.stereo.is_some(),
            lens: self.lens.clone(),
            max_frames: self.max_frames,
            shape: self.shape.options(),
            track: None,
        }
    }
}

impl SplitArgs {
    fn options(&self) -> Result<SplitOptions, Failure> {
        let format = match (self.format.as_str(), self.quality) {
            ("png", None) => Format::Png,
            ("png", Some(_)) => {
                return Err(Failure::usage(
                    "--quality: has no effect on PNG; leave it out, or take --format jpg",
                ));
            }
            (_, quality) => Format::Jpeg(quality.unwrap_or(95)),
        };
        if self.numbering.is_some() && self.naming != Naming::Flat {
            return Err(Failure::usage(
                "--numbering: has no effect with --naming rig; leave it out, or take --naming flat",
            ));
        }
        Ok(SplitOptions {
            input: self.input.clone(),
            output: self.output.clone(),
            views: ViewChoice { lenses: self.lenses.lenses, ..self.views.options() },
            frames: FrameChoice { track: self.track.options(), ..self.choice.options() },
            crop_bottom: self.crop_bottom,
            masks: self.masks.clone(),
            mask_command: self.mask_command.clone(),
            removal: self.removal.choice(),
            level_gpano: self.level.is_some(),
            format,
            naming: self.naming,
            numbering: self.numbering.unwrap_or_default(),
            colours: self.colours.options(),
            on_error: self.on_error,
            force: self.force,
            tool_timeout: self.tool_timeout,
            max_side: self.max_side,
            max_file: self.max_file,
            max_memory: self.max_memory,
            profile: self.profile.clone(),
            threads: self.compute.threads,
            simd: self.compute.device.level(),
        })
    }
}

pub(crate) fn parse_positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0 && *v <= 1e6);
    value.ok_or_else(|| format!("expected a number above 0, at most 1000000, found `{text}`"))
}

fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some([w.parse().ok()?, h.parse().ok()?]));
    sides
        .filter(|[w, h]: &[u32; 2]| (16..=32_768).contains(w) && (16..=32_768).contains(h))
        .ok_or_else(|| format!("expected WIDTHxHEIGHT of 16..32768 px, found `{text}`"))
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct Split {
    schema: u32,
    kind: &'static str,
    frames: usize,
    views: usize,
    skipped: Vec<Skipped>,
    /// Where the time went.
    times: StageTimes,
    /// The stage that limits.
    limit: &'static str,
}

/// Runs the command.
pub(crate) fn run(args: &SplitArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let options = args.options()?;
    if args.dry_run {
        return match attend(&interrupt, console, |host| pano_split::forecast(&options, host)) {
            Ok(forecast) => {
                console.object_or(&forecast, || describe::split_forecast(&forecast))?;
                Ok(Status::Done)
            }
            Err(failure) => ending(failure, &interrupt),
        };
    }
    let report = attend(&interrupt, console, |host| pano_split::split(&options, host))?;
    let result = Split {
        schema: 1,
        kind: "split",
        frames: report.frames,
        views: report.views,
        skipped: report.skipped.clone(),
        limit: report.times.limit(),
        times: report.times.clone(),
    };
    console.object_or(&result, || describe::split(&report, &args.output))?;
    if report.is_cancelled {
        return Ok(interrupted(&interrupt));
    }
    Ok(Status::done(!report.skipped.is_empty()))
}
