//! `gausset render`: pictures of splats, from cameras of a dataset, an orbit or a path.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_core::Camera;
use gausset_flow::Failure;
use gausset_flow::render::{CameraChoice, DepthFormat, PictureOptions, render};
use gausset_train::Background;
use gausset_train::orbit::PictureShape;

use serde::Serialize;

use super::training::ending;
use super::view_args::ViewArgs;
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::listener::attend;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset render run/ -o views/                    the held-out views
  gausset render run/ --orbit 120 -o frames/       once around; then, for example:
  ffmpeg -framerate 30 -i frames/orbit_%04d.png -pix_fmt yuv420p orbit.mp4
  gausset render scene.ply --orbit --width 800 --fov 40
  gausset render scene.ply --path camera_path.json -o frames/
  gausset render run/ --split all --panorama 2048 -o sphere/
  gausset render run/ --depth png --alpha          views, depths and alphas
Depth PNGs have 16 bits; the text chunk `depth-scale` says how many scene units one level is, 0 = nothing there.
Depths as .npy are f32 scene units, NaN = nothing there.";

/// Arguments of `render`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RenderArgs {
    /// Folder of a run, or a splat file.
    #[arg(value_name = "RUN|FILE")]
    input: PathBuf,
    /// The cameras of the dataset: test, train or all [default: test].
    #[arg(
        long, value_name = "SPLIT", hide_possible_values = true, conflicts_with_all = ["orbit", "path"],
        value_parser = PossibleValuesParser::new(["test", "train", "all"])
    )]
    split: Option<String>,
    /// N cameras on a circle around what the dataset's cameras look at, or around the splats of a file [default N: 120].
    #[arg(
        long, value_name = "N", conflicts_with = "path", num_args = 0..=1, default_missing_value = "120",
        value_parser = frame_count()
    )]
    orbit: Option<u32>,
    /// Cameras of an orbit: another way to say N.
    #[arg(long, value_name = "N", requires = "orbit", value_parser = frame_count())]
    frames: Option<u32>,
    /// Cameras of a file: a Nerfstudio camera path, cameras.json of a run, or transforms.json.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "allow_outside"])]
    path: Option<PathBuf>,
    /// Size of the pictures of an orbit, or of a path that does not tell: WIDTHxHEIGHT in px.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["width", "height", "split"])]
    size: Option<[u32; 2]>,
    /// Width of the pictures of an orbit in px [default: the dataset's, or 1280].
    #[arg(long, value_name = "PX", requires = "orbit", value_parser = side())]
    width: Option<u32>,
    /// Their height in px; one of the two keeps the proportions [default: the dataset's, or 720].
    #[arg(long, value_name = "PX", requires = "orbit", value_parser = side())]
    height: Option<u32>,
    /// Their vertical field of view in degrees [default: the dataset's, or 50].
    #[arg(long, value_name = "DEGREES", requires = "orbit", value_parser = parse_fov)]
    fov: Option<f64>,
    /// Draw panoramas of the whole sphere from the places of the cameras: so many px wide, half as high, their middle where
    /// the camera looks.
    #[arg(
        long, value_name = "WIDTH", conflicts_with_all = ["size", "width", "height", "fov"],
        value_parser = clap::value_parser!(u32).range(2..=16_384)
    )]
    panorama: Option<u32>,
    /// Where the dataset is [default: where the run found it].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder for the pictures [default: RUN/render, or the file's name without .ply].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write depths as well: png or npy.
    #[arg(
        long, value_name = "FORMAT", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["png", "npy"]).map(|word| if word == "npy" { DepthFormat::Npy } else { DepthFormat::Png })
    )]
    depth: Option<DepthFormat>,
    /// Write alphas as well, as 8-bit PNG.
    #[arg(long)]
    alpha: bool,
    /// Colour behind the splats, in place of a sky: black|white|R,G,B in 0..1 [default: as trained].
    #[arg(long, value_name = "COLOUR", value_parser = parse_background)]
    background: Option<Background>,
    #[command(flatten)]
    view: ViewArgs,
    /// Replace pictures that exist.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Take a dataset that is not the run's, or that changed since.
    #[arg(long)]
    accept_changed_data: bool,
    /// Take pictures whose names lead out of the picture folder (by `..` or as absolute paths).
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
struct Rendered<'a> {
    kind: &'static str,
    pictures: usize,
    folder: &'a Path,
}

/// `640x480`.
pub(crate) fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let sides: Option<Vec<u32>> = text.split('x').map(|side| side.parse().ok()).collect();
    match sides.as_deref() {
        Some(&[width @ 1..=32_768, height @ 1..=32_768]) => Ok([width, height]),
        _ => Err(format!("expected WIDTHxHEIGHT in px such as 640x480, found `{text}`")),
    }
}

/// A colour; a sky is in the splats or nowhere.
fn parse_background(text: &str) -> Result<Background, String> {
    match text.parse() {
        Ok(Background::Sky) => Err("expected black|white|R,G,B in 0..1, found `sky`".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// A side of a picture.
fn side() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(Camera::MAX_SIDE))
}

/// A number of pictures.
fn frame_count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100_000)
}

/// A field of view that a flat picture can have.
fn parse_fov(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|degrees| (1.0..=170.0).contains(degrees));
    found.ok_or_else(|| format!("expected 1..170 degrees, found `{text}`"))
}

impl RenderArgs {
    /// Which cameras were asked for.
    fn cameras(&self) -> CameraChoice {
        if let Some(path) = &self.path {
            return CameraChoice::Path(path.clone(), self.size);
        }
        if let Some(orbit) = self.orbit {
            let [width, height] = self.size.map_or([self.width, self.height], |size| size.map(Some));
            let shape = PictureShape { width, height, vertical_fov: self.fov };
            return CameraChoice::Orbit(self.frames.unwrap_or(orbit) as usize, shape);
        }
        match self.split.as_deref() {
            Some("train") => CameraChoice::Train,
            Some("all") => CameraChoice::All,
            _ => CameraChoice::Test,
        }
    }

    fn options(&self) -> PictureOptions {
        PictureOptions {
            input: self.input.clone(),
            cameras: self.cameras(),
            panorama: self.panorama,
            data: self.data.clone(),
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

/// Runs the command.
pub(crate) fn run(args: &RenderArgs, console: &Console) -> Result<Status, Ending> {
    if args.size.is_some() && args.orbit.is_none() && args.path.is_none() {
        let what =
            "--size: has no effect on the cameras of a dataset; leave it out, or give --orbit or --path";
        return Err(Failure::usage(what).into());
    }
    let interrupt = Interrupt::watch();
    match attend(&interrupt, console, |host| render(&args.options(), host)) {
        Ok(pictures) => {
            let count = counted(pictures.count as u64, "picture");
            let folder = pictures.folder.as_path();
            let object = Rendered { kind: "render", pictures: pictures.count, folder };
            console.object_or(&object, || format!("{count} in {}", folder.display()))?;
            Ok(Status::Done)
        }
        Err(failure) => ending(failure, &interrupt),
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
