//! `gausset pano convert`: converts images and videos between panoramas and cube maps (crosses, strips, faces).

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::aligner::TOOL_TIMEOUT;
use gausset::panos::convert::{self as pano_convert, PanoConvertResult, TargetProjection};
use gausset::panos::{ColourOptions, FrameOptions, PanoConvertOptions, is_image_extension};
use gausset::{Failure, Host};
use gausset_pano::cube::{CubeLayout, Face, StripOrder};
use gausset_pano::cutter::Format;
use gausset_train::MemoryLimit;

use super::track::TrackFileArgs;
use crate::EarlyExit;
use crate::commands::frame_jobs::{FrameJobArgs, run_frame_job};
use crate::console::Console;
use crate::device::MachineArgs;
use crate::exit::Status;
use crate::footage::{FootageArgs, parse_value};

const AFTER_HELP: &str = "\
Examples:
  gausset pano convert pano.jpg cross.jpg --to cross
  gausset pano convert cross.png pano.png --to equirect
  gausset pano convert walk/ faces/ --to faces --format png     walk_01_right.png, walk_01_left.png ...
  gausset pano convert strip.jpg pano.jpg --to equirect --from strip --from-faces lfrbud
  gausset pano convert tour.mp4 frames/ --to equirect           the frames that `pano split` uses
Finished images of a folder are kept: the same command resumes an interrupted conversion.";

/// Arguments of `pano convert`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConvertArgs {
    /// Panorama, cross, strip or video, or folder of panoramas, crosses, strips, six faces each, or GoPro MAX stream
    /// pairs.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Output image (.jpg or .png); for a folder, a video or six faces, the output folder.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Output projection: equirect|cross|strip|faces.
    #[arg(
        long, value_name = "SHAPE", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["equirect", "cross", "strip", "faces"])
    )]
    to: String,
    /// Columns and rows of faces: cross 4x3|3x4, strip 6x1|1x6|3x2|2x3 [default: 4x3, 6x1].
    #[arg(
        long, value_name = "CxR", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["4x3", "3x4", "6x1", "1x6", "3x2", "2x3"])
            .map(|name| CubeLayout::from_name(&name).unwrap_or(CubeLayout::Cross4x3))
    )]
    grid: Option<CubeLayout>,
    /// Strip: order of its faces, row by row; r, l, u, d, f, b = right, left, up, down, front, back [default: rludfb].
    #[arg(long, value_name = "ORDER", value_parser = parse_value::<[Face; 6]>)]
    faces: Option<[Face; 6]>,
    /// Strip: clockwise quarter turns of each face [default: 000000].
    #[arg(long, value_name = "TURNS", value_parser = parse_value::<[u8; 6]>)]
    turns: Option<[u8; 6]>,
    /// Side of a face or width of a panorama, px [default: the resolution of the source].
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u32).range(16..=32_768))]
    size: Option<u32>,
    /// Image format: jpg|png [default: by extension of OUT, jpg in a folder].
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, value_parser = PossibleValuesParser::new(["jpg", "png"]))]
    format: Option<String>,
    /// JPEG quality [default: 95].
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: Option<u8>,
    #[command(flatten)]
    choice: FootageArgs<FrameOptions>,
    #[command(flatten)]
    track: TrackFileArgs,
    #[command(flatten)]
    colours: FootageArgs<ColourOptions>,
    /// Maximum time without output of ffmpeg, seconds.
    #[arg(long, value_name = "S", default_value_t = TOOL_TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    tool_timeout: u64,
    /// Memory limit (4GiB, 512MiB or bytes); auto = a quarter of the machine's memory, at most 2GiB.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = str::parse::<MemoryLimit>, help_heading = "Machine")]
    max_memory: MemoryLimit,
    #[command(flatten)]
    pub(super) making: FrameJobArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

impl ConvertArgs {
    fn options(&self) -> Result<PanoConvertOptions, Failure> {
        Ok(PanoConvertOptions {
            input: self.input.clone(),
            output: self.output.clone(),
            to: self.target()?,
            size: self.size,
            format: self.image_format()?,
            colours: self.colours.0.clone(),
            frames: FrameOptions { track: self.track.options(), ..self.choice.0.clone() },
            force: self.making.force,
            tool_timeout: self.tool_timeout,
            max_memory: self.max_memory,
            threads: self.machine.threads,
            simd: self.machine.simd,
        })
    }

    fn target(&self) -> Result<TargetProjection, Failure> {
        let to = self.to.as_str();
        let idle = |option: &str, instead: &str| {
            Err(Failure::usage(format!(
                "--{option}: has no effect with --to {to}; leave it out, or take --to {instead}"
            )))
        };
        if to != "strip" && self.faces.is_some() {
            return idle("faces", "strip");
        }
        if to != "strip" && self.turns.is_some() {
            return idle("turns", "strip");
        }
        let plain = StripOrder::default();
        let order =
            StripOrder { faces: self.faces.unwrap_or(plain.faces), turns: self.turns.unwrap_or(plain.turns) };
        match (to, self.grid) {
            ("cross", None) => Ok(TargetProjection::Net(CubeLayout::Cross4x3, plain)),
            ("strip", None) => Ok(TargetProjection::Net(CubeLayout::Strip6x1, order)),
            ("cross", Some(net)) if net.is_cross() => Ok(TargetProjection::Net(net, plain)),
            ("strip", Some(net)) if !net.is_cross() => Ok(TargetProjection::Net(net, order)),
            ("cross" | "strip", Some(net)) => {
                let expected = if to == "cross" { "4x3 or 3x4" } else { "6x1, 1x6, 3x2 or 2x3" };
                Err(Failure::usage(format!("--grid: a {to} is {expected}, found {}", net.name())))
            }
            (_, Some(_)) => idle("grid", "cross or strip"),
            ("faces", None) => Ok(TargetProjection::Faces),
            (_, None) => Ok(TargetProjection::Equirect),
        }
    }

    fn image_format(&self) -> Result<Format, Failure> {
        let is_folder = self.to == "faces" || self.output.is_dir();
        let extension = self.output.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let named = match extension.as_deref() {
            _ if is_folder => None,
            Some("jpg" | "jpeg") => Some("jpg"),
            Some("png") => Some("png"),
            _ if self.input.is_dir()
                || self.input.extension().is_some_and(|kind| !is_image_extension(kind)) =>
            {
                None
            }
            _ => {
                let output = self.output.display();
                return Err(Failure::usage(format!("{output}: expected a name that ends with .jpg or .png")));
            }
        };
        let wanted = self.format.as_deref();
        if let (Some(named), Some(wanted)) = (named, wanted)
            && named != wanted
        {
            let output = self.output.display();
            return Err(Failure::usage(format!(
                "--format: is {wanted}, but the name is {output}; leave it out"
            )));
        }
        match (wanted.or(named).unwrap_or("jpg"), self.quality) {
            ("png", None) => Ok(Format::Png),
            ("png", Some(_)) => {
                Err(Failure::usage("--quality: has no effect on PNG; leave it out, or write .jpg"))
            }
            (_, quality) => Ok(Format::Jpeg(quality.unwrap_or(95))),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = args.options()?;
    let job = |host: &mut Host<'_>| pano_convert::convert(&options, args.making.dry_run, host);
    run_frame_job(console, job, |done| format_result(done, args))
}

/// Formats the result as text.
fn format_result(done: &PanoConvertResult, args: &ConvertArgs) -> String {
    let [width, height] = done.size;
    let pictures = if done.files == 1 { "image" } else { "images" };
    let verb = if done.is_dry_run { "would be written" } else { "written" };
    let kept =
        if done.resumed > 0 { format!(", {} from an earlier run", done.resumed) } else { String::new() };
    format!("{}: {} {pictures} of {width}x{height} px {verb}{kept}", args.output.display(), done.files)
}
