//! `gausset pano split`: cuts panoramas into perspective views.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::panos::split as pano_split;
use gausset::panos::{
    ColourOptions, FrameMaskOptions, FrameOptions, LensViewOptions, Levelling, SplitOptions, ViewOptions,
};
use gausset::{Failure, aligner::TOOL_TIMEOUT};
use gausset_pano::cutter::Format;
use gausset_pano::split::{Naming, Numbering, OnError, Skipped, StageTimes};
use gausset_train::MemoryLimit;
use serde::Serialize;

use super::track::TrackFileArgs;
use crate::commands::training::{exit_status, interrupted_status};
use crate::console::Console;
use crate::device::MachineArgs;
use crate::events::run_job;
use crate::exit::Status;
use crate::footage::FootageArgs;
use crate::interrupt::Interrupt;
use crate::{EarlyExit, describe};

const AFTER_HELP: &str = "\
Examples:
  gausset pano split walk/ -o work/
  gausset pano split walk/ -o work/ --layout cube6 --size 1024 --crop-bottom 35
  gausset pano split walk/ -o work/ --dry-run          estimate views, disk space and time
Finished frames are kept: the same command resumes an interrupted split.";

/// Arguments of `pano split`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SplitArgs {
    /// Folder of panoramas or cube maps (JPEG, PNG, TIFF) or of GoPro MAX stream pairs, or a video (read with ffmpeg).
    #[arg(value_name = "INPUT")]
    pub(crate) input: PathBuf,
    /// Output folder for the views.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) views: FootageArgs<ViewOptions>,
    #[command(flatten)]
    pub(crate) lenses: FootageArgs<LensViewOptions>,
    #[command(flatten)]
    pub(crate) choice: FootageArgs<FrameOptions>,
    #[command(flatten)]
    pub(crate) track: TrackFileArgs,
    #[command(flatten)]
    pub(crate) colours: FootageArgs<ColourOptions>,
    #[command(flatten)]
    pub(crate) masking: FootageArgs<FrameMaskOptions>,
    /// Level panoramas by the pitch and roll in their GPano metadata: auto|gpano|off.
    #[arg(
        long, value_name = "HOW", default_value = "auto", hide_possible_values = true, help_heading = "Views",
        value_parser = PossibleValuesParser::new(Levelling::ALL.map(Levelling::name)).map(|name| {
            Levelling::ALL.into_iter().find(|level| level.name() == name).unwrap_or_default()
        })
    )]
    pub(crate) level: Levelling,
    /// Image format of the views: jpg|png.
    #[arg(
        long, value_name = "FORMAT", default_value = "jpg", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["jpg", "png"])
    )]
    pub(crate) format: String,
    /// JPEG quality [default: 95].
    #[arg(long, value_name = "Q", help_heading = "Files", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) quality: Option<u8>,
    /// File names: rig (viewNN/FRAME.jpg, a COLMAP rig) or flat (frame_NNNNN_cam_NN.jpg) [default: rig].
    #[arg(
        long, value_name = "NAMING", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["rig", "flat"])
            .map(|w| if w == "flat" { Naming::Flat } else { Naming::Rig })
    )]
    pub(crate) naming: Option<Naming>,
    /// Numbering of flat names: order (from 0) or source (last number in the frame's file name) [default: order].
    #[arg(
        long, value_name = "NUMBERS", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["order", "source"])
            .map(|w| if w == "source" { Numbering::Source } else { Numbering::Order })
    )]
    pub(crate) numbering: Option<Numbering>,
    /// Action on an unusable frame: skip|stop.
    #[arg(
        long, value_name = "HOW", default_value = "skip", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["skip", "stop"])
            .map(|w| if w == "stop" { OnError::Stop } else { OnError::Skip })
    )]
    pub(crate) on_error: OnError,
    /// Redo finished frames and frames cut with other options, and write to a folder not created by Gausset.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'], help_heading = "Files")]
    pub(crate) force: bool,
    /// Maximum time without output of an external program (ffmpeg, mask command), seconds.
    #[arg(long, value_name = "S", default_value_t = TOOL_TIMEOUT, help_heading = "Files", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) tool_timeout: u64,
    /// Maximum size of a panorama, WIDTHxHEIGHT in px.
    #[arg(long, value_name = "WxH", default_value = "16384x8192", value_parser = parse_size, help_heading = "Files")]
    pub(crate) max_side: [u32; 2],
    /// Maximum file size of a frame, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256, help_heading = "Files")]
    pub(crate) max_file: u64,
    /// Memory limit (4GiB, 512MiB or bytes); auto = a quarter of the machine's memory, at most 2GiB.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = str::parse::<MemoryLimit>, help_heading = "Machine")]
    pub(crate) max_memory: MemoryLimit,
    /// Output folder for profile.json, profile.csv and trace.json.
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run", help_heading = "Machine")]
    pub(crate) profile: Option<PathBuf>,
    /// Print an estimate of views, disk space and time; write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
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
        let implied = if self.numbering.is_some() { Naming::Flat } else { Naming::Rig };
        let naming = self.naming.unwrap_or(implied);
        if self.numbering.is_some() && naming != Naming::Flat {
            return Err(Failure::usage(
                "--numbering: has no effect with --naming rig; leave it out, or take --naming flat",
            ));
        }
        Ok(SplitOptions {
            input: self.input.clone(),
            output: self.output.clone(),
            views: ViewOptions { lenses: self.lenses.0.lenses, ..self.views.0.clone() },
            frames: FrameOptions { track: self.track.options(), ..self.choice.0.clone() },
            masking: self.masking.0.clone(),
            level: self.level,
            format,
            naming,
            numbering: self.numbering.unwrap_or_default(),
            colours: self.colours.0.clone(),
            on_error: self.on_error,
            force: self.force,
            tool_timeout: self.tool_timeout,
            max_side: self.max_side,
            max_file: self.max_file,
            max_memory: self.max_memory,
            profile: self.profile.clone(),
            threads: self.machine.threads,
            simd: self.machine.simd,
        })
    }
}

fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some([w.parse().ok()?, h.parse().ok()?]));
    sides
        .filter(|[w, h]: &[u32; 2]| (16..=32_768).contains(w) && (16..=32_768).contains(h))
        .ok_or_else(|| format!("expected WIDTHxHEIGHT of 16..32768 px, found `{text}`"))
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct SplitResult {
    schema: u32,
    kind: &'static str,
    frames: usize,
    views: usize,
    skipped: Vec<Skipped>,
    /// Time per stage.
    times: StageTimes,
    /// The stage that limits the throughput.
    limit: &'static str,
}

/// Runs the command.
pub(crate) fn run(args: &SplitArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let options = args.options()?;
    if args.dry_run {
        return match run_job(&interrupt, console, |host| pano_split::forecast(&options, host)) {
            Ok(forecast) => {
                console.json_or_text(&forecast, || describe::split_forecast(&forecast))?;
                Ok(Status::Done)
            }
            Err(failure) => exit_status(failure, &interrupt),
        };
    }
    let report = match run_job(&interrupt, console, |host| pano_split::split(&options, host)) {
        Ok(report) => report,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    let result = SplitResult {
        schema: 1,
        kind: "split",
        frames: report.frames,
        views: report.views,
        skipped: report.skipped.clone(),
        limit: report.times.bottleneck(),
        times: report.times.clone(),
    };
    let is_verbose = console.is_verbose() || options.profile.is_some();
    console.json_or_summary(&result, || describe::split(&report, &args.output, is_verbose))?;
    if report.is_cancelled {
        return Ok(interrupted_status(&interrupt));
    }
    Ok(Status::done(!report.skipped.is_empty()))
}
