//! `gausset render`: renders splats from the cameras of a dataset, an orbit or a camera path.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::Failure;
use gausset::render::{CameraChoice, DepthFormat, RenderJobOptions, render};
use gausset_core::Camera;
use gausset_io::text::shell_quote;
use gausset_train::Background;
use gausset_train::orbit::ImageShape;

use serde::Serialize;

use super::near_plane::NearPlaneArgs;
use super::recognised::failure_of_other_file;
use super::spz_frame::SpzFrameArgs;
use super::training::exit_status;
use crate::EarlyExit;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset render run/ -o views/                    render the held-out views
  gausset render run/ --orbit 120 -o frames/       render an orbit; then make a video of it:
  ffmpeg -framerate 30 -i frames/orbit_%04d.png -pix_fmt yuv420p orbit.mp4
  gausset render scene.ply --orbit --width 800 --fov 40
  gausset render scene.ply --path camera_path.json -o frames/
  gausset render run/ --split all --panorama 2048 -o sphere/
  gausset render run/ --depth png --alpha          colour, depth and alpha images
Depth PNGs have 16 bits; the text chunk `depth-scale` gives the scene units per level, 0 = no depth.
Depth arrays (.npy) are f32 scene units, NaN = no depth.";

/// Arguments of `render`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RenderArgs {
    /// Run folder or splat file.
    #[arg(value_name = "RUN|FILE")]
    input: PathBuf,
    /// Cameras of the dataset: test, train or all [default: test].
    #[arg(
        long, value_name = "SPLIT", hide_possible_values = true,
        conflicts_with_all = ["orbit", "path", "frames", "width", "height", "fov"],
        value_parser = PossibleValuesParser::new(["test", "train", "all"])
    )]
    split: Option<String>,
    /// N cameras on a circle around the point that the dataset's cameras look at, or around the splats of a file
    /// [default N: 120].
    #[arg(
        long, value_name = "N", conflicts_with = "path", num_args = 0..=1, default_missing_value = "120",
        value_parser = frame_count_parser()
    )]
    orbit: Option<u32>,
    /// Number of cameras of the orbit; overrides N of --orbit.
    #[arg(long, value_name = "N", requires = "orbit", value_parser = frame_count_parser())]
    frames: Option<u32>,
    /// Camera file: a Nerfstudio camera path, cameras.json of a run, or transforms.json.
    #[arg(
        long, alias = "cameras", value_name = "FILE",
        conflicts_with_all = ["data", "images", "allow_outside", "frames", "width", "height", "fov"]
    )]
    path: Option<PathBuf>,
    /// Image size for an orbit, or for a path without one: WIDTHxHEIGHT in px.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["width", "height", "split"])]
    size: Option<[u32; 2]>,
    /// Image width for an orbit, px [default: as in the dataset, or 1280].
    #[arg(long, value_name = "PX", requires = "orbit", value_parser = side_parser())]
    width: Option<u32>,
    /// Image height for an orbit, px; if only one side is given, the aspect ratio is kept [default: as in the dataset,
    /// or 720].
    #[arg(long, value_name = "PX", requires = "orbit", value_parser = side_parser())]
    height: Option<u32>,
    /// Vertical field of view for an orbit, degrees [default: as in the dataset, or 50].
    #[arg(long, value_name = "DEGREES", requires = "orbit", value_parser = parse_fov)]
    fov: Option<f64>,
    /// Render equirectangular panoramas of this width (px) from the camera positions, centred on the viewing direction.
    #[arg(
        long, value_name = "WIDTH", conflicts_with_all = ["size", "width", "height", "fov"],
        value_parser = clap::value_parser!(u32).range(2..=16_384)
    )]
    panorama: Option<u32>,
    /// Path of the dataset [default: the path recorded by the run].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the photographs [default: the path recorded by the run, or that of --data].
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Output folder [default: RUN/render, or the file name without .ply].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Also write depth maps: png or npy.
    #[arg(
        long, value_name = "FORMAT", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["png", "npy"]).map(|word| if word == "npy" { DepthFormat::Npy } else { DepthFormat::Png })
    )]
    depth: Option<DepthFormat>,
    /// Also write alpha as 8-bit PNG.
    #[arg(long)]
    alpha: bool,
    /// Background colour, replaces a sky: black|white|R,G,B in 0..1 [default: as trained].
    #[arg(long, value_name = "COLOUR", value_parser = parse_background)]
    background: Option<Background>,
    #[command(flatten)]
    spz: SpzFrameArgs,
    #[command(flatten)]
    view: NearPlaneArgs,
    /// Replace existing images.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Accept a dataset that differs from the one of the run.
    #[arg(long)]
    accept_changed_data: bool,
    /// Allow image names that point outside the image folder (by `..` or absolute paths).
    #[arg(long)]
    allow_outside: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// `render --json`: a stable contract.
#[derive(Debug, Serialize)]
struct RenderResult<'a> {
    kind: &'static str,
    pictures: usize,
    folder: &'a Path,
}

/// Parses a size such as `640x480`.
pub(crate) fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let sides: Option<Vec<u32>> = text.split('x').map(|side| side.parse().ok()).collect();
    match sides.as_deref() {
        Some(&[width @ 1..=32_768, height @ 1..=32_768]) => Ok([width, height]),
        _ => Err(format!("expected WIDTHxHEIGHT in px such as 640x480, found `{text}`")),
    }
}

/// Parses a background colour. A sky is refused, because it is part of the splats.
fn parse_background(text: &str) -> Result<Background, String> {
    match text.parse() {
        Ok(Background::Sky) => Err("expected black|white|R,G,B in 0..1, found `sky`".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// A parser for the side of an image, px.
fn side_parser() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(Camera::MAX_SIDE))
}

/// A parser for the number of cameras of an orbit.
fn frame_count_parser() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100_000)
}

/// Parses a vertical field of view for a perspective camera, degrees.
fn parse_fov(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|degrees| (1.0..=170.0).contains(degrees));
    found.ok_or_else(|| format!("expected 1..170 degrees, found `{text}`"))
}

impl RenderArgs {
    /// The cameras that the arguments select.
    fn cameras(&self) -> CameraChoice {
        if let Some(path) = &self.path {
            return CameraChoice::Path(path.clone(), self.size);
        }
        if let Some(orbit) = self.orbit {
            let [width, height] = self.size.map_or([self.width, self.height], |size| size.map(Some));
            let shape = ImageShape { width, height, vertical_fov: self.fov };
            return CameraChoice::Orbit(self.frames.unwrap_or(orbit) as usize, shape);
        }
        match self.split.as_deref() {
            Some("train") => CameraChoice::Train,
            Some("all") => CameraChoice::All,
            _ => CameraChoice::Test,
        }
    }

    fn options(&self) -> RenderJobOptions {
        RenderJobOptions {
            input: self.input.clone(),
            cameras: self.cameras(),
            panorama: self.panorama,
            spz_frame: self.spz.axes(),
            data: self.data.clone(),
            images: self.images.clone(),
            output: self.output.clone(),
            depth: self.depth,
            alpha: self.alpha,
            background: match self.background {
                Some(Background::Colour(colour)) => Some(colour),
                _ => None,
            },
            near_plane: self.view.near_plane,
            force: self.force,
            accept_changed_data: self.accept_changed_data,
            allow_outside: self.allow_outside,
            device: self.compute.device.options(),
            threads: self.compute.threads,
        }
    }
}

/// Whether a path has the ending of a video or of moving images.
fn is_video_name(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    ["mp4", "mov", "webm", "gif", "mkv"].iter().any(|video| ending.eq_ignore_ascii_case(video))
}

/// Runs the command.
pub(crate) fn run(args: &RenderArgs, console: &Console) -> Result<Status, EarlyExit> {
    if args.size.is_some() && args.orbit.is_none() && args.path.is_none() {
        let what =
            "--size: has no effect on the cameras of a dataset; leave it out, or give --orbit or --path";
        return Err(Failure::usage(what).into());
    }
    if let Some(output) = args.output.as_deref().filter(|output| !output.is_dir() && is_video_name(output)) {
        let line = format!(
            "-o {}: is a video (expected a folder, such as -o frames/); then: \
             ffmpeg -framerate 30 -i frames/orbit_%04d.png -pix_fmt yuv420p {}",
            output.display(),
            shell_quote(output)
        );
        return Err(Failure::usage(line).into());
    }
    let interrupt = Interrupt::watch();
    match run_job(&interrupt, console, |host| render(&args.options(), host)) {
        Ok(pictures) => {
            let count = counted(pictures.count as u64, "image");
            let folder = pictures.folder.as_path();
            let object = RenderResult { kind: "render", pictures: pictures.count, folder };
            console.json_or_summary(&object, || format!("{count} in {}", folder.display()))?;
            Ok(Status::Done)
        }
        Err(failure) => exit_status(failure_of_other_file(failure, &args.input), &interrupt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_two_positive_numbers() {
        assert_eq!(parse_size("640x480"), Ok([640, 480]));
        for bad in ["640", "640x", "0x480", "640x480x3", "1e3x2", "99999x1"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
