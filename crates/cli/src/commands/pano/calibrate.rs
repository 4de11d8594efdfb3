//! `gausset pano calibrate`: calibrates a dual-fisheye camera and writes a lens file.

use std::path::PathBuf;

use clap::Args;
use gausset::footage_options::LensWords;
use gausset::panos::calibrate::{self as pano_calibrate, CalibrationReport};
use gausset::panos::{CalibrateOptions, CircleRadius};
use gausset::{Failure, Host};

use crate::EarlyExit;
use crate::commands::frame_jobs::{FrameJobArgs, run_frame_job};
use crate::console::Console;
use crate::device::MachineArgs;
use crate::exit::Status;
use crate::lines::Lines;
use crate::value_parsers::parse_positive;

const AFTER_HELP: &str = "\
Examples:
  gausset pano calibrate turned/ -o lens.json    6 to 12 frames of a camera rotated in place
  gausset pano calibrate tour.insv -o lens.json
  gausset pano calibrate tour.insv -o lens2.json --lens lens.json --poses work/    moving camera
  gausset pano split tour.insv -o work/ --lens lens.json
For rotation in place the scene should be distant. docs/reference/pano.md describes the lens file.";

/// Arguments of `pano calibrate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CalibrateArgs {
    /// Dual-fisheye frames: a folder (JPEG, INSP, PNG, TIFF), an image, or a video (read with ffmpeg).
    #[arg(value_name = "FRAMES")]
    input: PathBuf,
    /// Output lens file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Initial lens file [default: equidistant lenses back to back].
    #[arg(long, value_name = "FILE")]
    lens: Option<PathBuf>,
    /// Words in which the file names of both lenses differ [default: GPFR GPBK, GF GB, _front _back, _0 _1].
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_hyphen_values = true)]
    pair: Option<Vec<String>>,
    /// Radius of the image circles, in px, or in percent (such as 94%) of half the side of a lens' part of the frame
    /// [default: detected].
    #[arg(long, value_name = "RADIUS", value_parser = parse_radius)]
    circle_radius: Option<CircleRadius>,
    /// Poses of the frames of a moving camera, to calibrate each lens completely; any format of `gausset pano compare`,
    /// for a video the aligned folder of its split.
    #[arg(long, value_name = "FILE")]
    poses: Option<PathBuf>,
    /// Maximum number of frames, spaced evenly; with --poses in groups of four neighbours.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    max_frames: u32,
    /// Video: start time in seconds.
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    start: f64,
    /// Video: end time in seconds.
    #[arg(long, value_name = "S", value_parser = parse_positive)]
    end: Option<f64>,
    #[command(flatten)]
    pub(super) making: FrameJobArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

impl CalibrateArgs {
    fn options(&self) -> Result<CalibrateOptions, Failure> {
        let pair = self.pair.as_ref().map(|words| LensWords::parse(&words.join(" "))).transpose();
        Ok(CalibrateOptions {
            pair: pair.map_err(|what| Failure::usage(format!("--pair: {what}")))?,
            input: self.input.clone(),
            output: self.output.clone(),
            lens: self.lens.clone(),
            circle_radius: self.circle_radius,
            poses: self.poses.clone(),
            max_frames: self.max_frames,
            start: self.start,
            end: self.end,
            force: self.making.force,
            threads: self.machine.threads,
            simd: self.machine.simd,
        })
    }
}

/// Parses a radius: `94%` or px.
fn parse_radius(text: &str) -> Result<CircleRadius, String> {
    let number = |text: &str, most: f64| text.parse::<f64>().ok().filter(|v| *v >= 1.0 && *v <= most);
    let radius = match text.strip_suffix('%') {
        Some(percent) => number(percent, 200.0).map(CircleRadius::Percent),
        None => number(text, 16_384.0).map(CircleRadius::Pixels),
    };
    radius.ok_or_else(|| format!("expected px, or 1% to 200%, found `{text}`"))
}

/// Runs the command.
pub(crate) fn run(args: &CalibrateArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = args.options()?;
    let job = |host: &mut Host<'_>| pano_calibrate::calibrate(&options, args.making.dry_run, host);
    run_frame_job(console, job, |done| format_result(done, args))
}

/// Formats the result as text.
fn format_result(done: &CalibrationReport, args: &CalibrateArgs) -> Lines {
    let ([width, height], output) = (done.size, args.output.display());
    if done.is_dry_run {
        return format!("{output}: would use {} frames of {width}x{height} px", done.frames).into();
    }
    let mut lines = Lines::default();
    for (lens, circle) in done.circles.iter().enumerate() {
        let angle = done.half_angles.get(lens).copied().unwrap_or_default();
        lines += match circle {
            Some(circle) => format!(
                "lens {lens}: circle at {:.2}, {:.2} (± {:.2} px), radius {:.2} ± {:.2} px, half angle {angle:.2} degrees",
                circle.centre[0], circle.centre[1], circle.centre_doubt, circle.radius, circle.radius_doubt
            ),
            None => format!("lens {lens}: circle as given, half angle {angle:.2} degrees"),
        };
    }
    let [ring, across] = done.tracks;
    let how = match &done.poses {
        Some(posed) => format!("{} with poses", posed.frames),
        None => format!("{} with known rotation", done.turned),
    };
    lines += format!(
        "{ring} tracks across both lenses, {across} across frames ({how}); residual {:.2} px, centres ± {:.2} px, angles ± {:.4} degrees, rotation ± {:.4} degrees",
        done.spread, done.centre_doubt, done.angle_doubt, done.rotation_doubt
    );
    if let Some(posed) = &done.poses {
        let [x, y, z] = posed.second;
        lines += format!(
            "poses refined by {:.3} degrees and {:.1} % of a step; position of the second lens {x:.4}, {y:.4}, {z:.4} ± {:.4} relative to the first (unit of the poses)",
            posed.moved_degrees,
            100.0 * posed.moved,
            posed.second_doubt
        );
    }
    if let Some([r, g, b]) = done.stops {
        lines += format!("gain of the second lens: {r:+.2}, {g:+.2}, {b:+.2} stops (red, green, blue)");
    }
    lines += format!("{output}: written from {} frames of {width}x{height} px", done.frames);
    lines
}
