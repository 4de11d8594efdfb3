//! `gausset pano calibrate`: a lens file from frames of two fisheye lenses.

use std::path::PathBuf;

use clap::Args;
use gausset_flow::Host;
use gausset_flow::panos::calibrate::{self as pano_calibrate, Calibrated};
use gausset_flow::panos::{CalibrateOptions, CircleRadius};

use super::split::parse_positive;
use crate::Ending;
use crate::commands::making::{MakingArgs, make};
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::lines::Lines;

const AFTER_HELP: &str = "\
Examples:
  gausset pano calibrate turned/ -o lens.json          6 to 12 frames, turned on the spot, of a far scene
  gausset pano calibrate tour.insv -o lens.json
  gausset pano calibrate tour.insv -o lens2.json --lens lens.json --poses work/    a camera that walked, after align
  gausset pano split tour.insv -o work/ --lens lens.json
See docs/pano.md for what is in the file.";

/// Arguments of `pano calibrate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CalibrateArgs {
    /// Frames of two fisheye circles: a folder (JPEG, INSP, PNG, TIFF), a picture, or a video (through ffmpeg).
    #[arg(value_name = "FRAMES")]
    input: PathBuf,
    /// The lens file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A lens file to start from [default: equidistant lenses back to back].
    #[arg(long, value_name = "FILE")]
    lens: Option<PathBuf>,
    /// Radius of the circles: px, or 94% of half the side of a lens' part of the frame [default: from the pictures].
    #[arg(long, value_name = "RADIUS", value_parser = parse_radius)]
    circle_radius: Option<CircleRadius>,
    /// Poses of the frames, in any form of `gausset pano compare`: of a camera that moved, they tell the whole of each lens.
    /// Of a video, the folder of its split, aligned.
    #[arg(long, value_name = "FILE")]
    poses: Option<PathBuf>,
    /// Frames that are looked at, spread evenly; with --poses in runs of four neighbours.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    max_frames: u32,
    /// Video: first second.
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    start: f64,
    /// Video: last second.
    #[arg(long, value_name = "S", value_parser = parse_positive)]
    end: Option<f64>,
    #[command(flatten)]
    pub(super) making: MakingArgs,
    #[command(flatten)]
    compute: ComputeArgs,
}

impl CalibrateArgs {
    fn options(&self) -> CalibrateOptions {
        CalibrateOptions {
            input: self.input.clone(),
            output: self.output.clone(),
            lens: self.lens.clone(),
            circle_radius: self.circle_radius,
            poses: self.poses.clone(),
            max_frames: self.max_frames,
            start: self.start,
            end: self.end,
            force: self.making.force,
            threads: self.compute.threads,
            simd: self.compute.device.level(),
        }
    }
}

/// `94%` or px.
fn parse_radius(text: &str) -> Result<CircleRadius, String> {
    let number = |text: &str, most: f64| text.parse::<f64>().ok().filter(|v| *v >= 1.0 && *v <= most);
    let radius = match text.strip_suffix('%') {
        Some(percent) => number(percent, 200.0).map(CircleRadius::Percent),
        None => number(text, 16_384.0).map(CircleRadius::Pixels),
    };
    radius.ok_or_else(|| format!("expected px, or 1% to 200%, found `{text}`"))
}

/// Runs the command.
pub(crate) fn run(args: &CalibrateArgs, console: &Console) -> Result<Status, Ending> {
    let options = args.options();
    let job = |host: &mut Host<'_>| pano_calibrate::calibrate(&options, args.making.dry_run, host);
    make(console, job, |done| text(done, args))
}

/// What was found, for people.
fn text(done: &Calibrated, args: &CalibrateArgs) -> Lines {
    let ([width, height], output) = (done.size, args.output.display());
    if done.is_dry_run {
        return format!("{output}: would be made of {} frames of {width}x{height} px", done.frames).into();
    }
    let mut lines = Lines::default();
    for (lens, circle) in done.circles.iter().enumerate() {
        let angle = done.half_angles.get(lens).copied().unwrap_or_default();
        lines += match circle {
            Some(circle) => format!(
                "lens {lens}: circle at {:.2}, {:.2} (± {:.2} px), radius {:.2} ± {:.2} px, {angle:.2} degrees at its rim",
                circle.centre[0], circle.centre[1], circle.centre_doubt, circle.radius, circle.radius_doubt
            ),
            None => format!("lens {lens}: circle as given, {angle:.2} degrees at its rim"),
        };
    }
    let [ring, across] = done.tracks;
    let how = match &done.poses {
        Some(posed) => format!("{} with poses", posed.frames),
        None => format!("{} turned", done.turned),
    };
    lines += format!(
        "{ring} places seen by both lenses, {across} from frame to frame ({how}); {:.2} px apart, centres ± {:.2} px, angles ± {:.4} degrees, rotation ± {:.4} degrees",
        done.spread, done.centre_doubt, done.angle_doubt, done.rotation_doubt
    );
    if let Some(posed) = &done.poses {
        let [x, y, z] = posed.second;
        lines += format!(
            "the poses gave way by {:.3} degrees and {:.1} % of a step; second lens at {x:.4}, {y:.4}, {z:.4} ± {:.4} from the first (unit of the poses)",
            posed.moved_degrees,
            100.0 * posed.moved,
            posed.second_doubt
        );
    }
    if let Some([r, g, b]) = done.stops {
        lines += format!("gain of the second lens: {r:+.2}, {g:+.2}, {b:+.2} stops (red, green, blue)");
    }
    lines += format!("{output}: of {} frames of {width}x{height} px", done.frames);
    lines
}
