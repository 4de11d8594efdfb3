//! `gausset render`: pictures of splats, from cameras of a dataset, an orbit or a path.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_core::camera::CameraError;
use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::{Camera, RgbImage8};
use gausset_flow::Failure;
use gausset_flow::saved_run::{DataPlace, NOT_TURNED, OtherData, SavedRun, load_splats, scene_splats};
use gausset_io::atomic::{
    Disk, FileSystem, Overwrite, WriteOptions, plain_reason, refuse_existing, write_atomic_with,
};
use gausset_io::dataset::{self, Dataset, OpenOptions};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::npy::npy;
use gausset_io::owned;
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit::{self, PictureShape};
use gausset_train::{Background, RunWarning, Split};

use super::view_args::ViewArgs;
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::interrupt::{Interrupt, Signal};
use crate::listener::tell;
use crate::numbers::counted;
use crate::progress::Reporter;

const AFTER_HELP: &str = "\
Examples:
  gausset render run/ -o views/                    the held-out views
  gausset render run/ --orbit 120 -o frames/       once around; then, for example:
  ffmpeg -framerate 30 -i frames/orbit_%04d.png -pix_fmt yuv420p orbit.mp4
  gausset render scene.ply --orbit --width 800 --fov 40
  gausset render scene.ply --path camera_path.json -o frames/
  gausset render run/ --depth png --alpha          views, depths and alphas
Depth PNGs have 16 bits; the text chunk `depth-scale` says how many scene units one level is, 0 = nothing there.
Depths as .npy are f32 scene units, NaN = nothing there.";

/// Alpha below which there is no depth: nothing worth speaking of was hit.
const FAINTEST_ALPHA: f32 = 0.01;

/// Arguments of `render`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RenderArgs {
    /// Folder of a run, or a splat file.
    #[arg(value_name = "RUN|PLY")]
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
    /// Cameras of a file: a Nerfstudio camera path or transforms.json.
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
    /// Replace pictures that exist, and accept a dataset that is not the run's.
    #[arg(long)]
    force: bool,
    /// Take pictures whose names lead out of the picture folder (by `..` or as absolute paths).
    #[arg(long)]
    allow_outside: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// How depths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DepthFormat {
    Png,
    Npy,
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
    /// What was said about the pictures of an orbit.
    fn shape(&self) -> PictureShape {
        let [width, height] = self.size.map_or([self.width, self.height], |size| size.map(Some));
        PictureShape { width, height, vertical_fov: self.fov }
    }

    /// How many pictures an orbit has, if one was asked for.
    fn orbit_frames(&self) -> Option<usize> {
        self.orbit.map(|orbit| self.frames.unwrap_or(orbit) as usize)
    }
}

/// Runs the command.
pub(crate) fn run(args: &RenderArgs, console: &Console) -> Result<Status, Ending> {
    if args.size.is_some() && args.orbit.is_none() && args.path.is_none() {
        let what =
            "--size: has no effect on the cameras of a dataset; leave it out, or give --orbit or --path";
        return Err(Failure::usage(what).into());
    }
    let mut engine = args.compute.engine().map_err(Failure::from)?;
    // Reading needs no lock: what stands in a run folder is whole, also while a training goes on.
    let is_written_to = args.output.is_none() && SavedRun::is_one(&args.input);
    let _lock = if is_written_to { Some(SavedRun::read(&args.input)?.share()?) } else { None };
    let (cameras, mut options, scene_splats) = if args.input.is_dir() {
        of_run(args, &mut *engine, console)?
    } else {
        of_file(args, &mut *engine, console)?
    };
    args.view.apply(&mut options);
    if let Some(Background::Colour(colour)) = args.background {
        options.background = colour;
        // It would not be seen behind a sky.
        options.only_first = scene_splats;
    }
    // Depths and alphas are those of the scene.
    let surfaces = RenderOptions { only_first: scene_splats, ..options };
    let is_asked_for_surfaces = args.depth.is_some() || args.alpha;
    if cameras.is_empty() {
        return Err(Failure::new(
            "cameras",
            format!("{}: cameras: there are none to render from", args.input.display()),
        )
        .into());
    }
    let folder = args.output.clone().unwrap_or_else(|| {
        if args.input.is_dir() { args.input.join("render") } else { args.input.with_extension("") }
    });
    let interrupt = Interrupt::watch();
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let output = Output { folder: &folder, depth: args.depth, alpha: args.alpha, overwrite };
    output.make_folder(&cameras)?;
    let mut reporter = Reporter::start(console, "picture", 0, cameras.len() as u64);
    let outputs = if is_asked_for_surfaces { Outputs::All } else { Outputs::Color };
    let (mut tiles, mut cut_views) = (0, 0);
    for (done, view) in (1..).zip(&cameras) {
        if interrupt.signal().is_some() {
            reporter.finish();
            return Ok(Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt)));
        }
        let mut rendering =
            engine.render(&view.camera, &view.pose, &options, outputs).map_err(Failure::from)?;
        if is_asked_for_surfaces && surfaces != options {
            let color = std::mem::take(&mut rendering.color);
            let scene = engine.render(&view.camera, &view.pose, &surfaces, outputs).map_err(Failure::from)?;
            rendering = Rendering { color, ..scene };
        }
        tiles += rendering.cut_tiles;
        cut_views += u64::from(rendering.cut_tiles > 0);
        output.save(&view.name, &rendering)?;
        reporter.at(done, String::new);
    }
    reporter.finish();
    if tiles > 0 {
        let (limit, views) = (options.max_splats_per_tile, cameras.len() as u64);
        let warning = RunWarning::CutPictures { limit, tiles, cut_views, views };
        console.warn("the tile lists", warning.to_string());
    }
    console.result(&format!("{} in {}", counted(cameras.len() as u64, "picture"), folder.display()))?;
    Ok(Status::Done)
}

/// Cameras, options, and how many splats are the scene where a sky follows them.
type Prepared = (Vec<NamedCamera>, RenderOptions, Option<u32>);

/// Splats, cameras and options of a run.
fn of_run(args: &RenderArgs, engine: &mut dyn Engine, console: &Console) -> Result<Prepared, Failure> {
    let run = SavedRun::read(&args.input)?;
    let file = tell(console, |host| run.load_splats(engine, host))?;
    let turn = run.splats_from_dataset();
    let cameras = match &args.path {
        Some(path) => cameras::read_path(path, args.size, &turn)?,
        None => {
            let place = DataPlace {
                path: args.data.as_deref(),
                other: OtherData::forced(args.force),
                allow_outside: args.allow_outside,
            };
            let dataset = tell(console, |host| run.open_dataset(place, host))?;
            of_dataset(args, &dataset, &turn)?
        }
    };
    Ok((cameras, run.render_options(), scene_splats(&file)))
}

/// Splats, cameras and options of a splat file.
fn of_file(args: &RenderArgs, engine: &mut dyn Engine, console: &Console) -> Result<Prepared, Failure> {
    let file = tell(console, |host| load_splats(&args.input, engine, host))?;
    let cameras = match (&args.path, &args.data) {
        (Some(path), _) => cameras::read_path(path, args.size, &NOT_TURNED)?,
        (None, Some(data)) => {
            let dataset = dataset::open(
                data,
                &OpenOptions { allow_outside: args.allow_outside, ..OpenOptions::default() },
            )?;
            for line in dataset.report() {
                console.warn("the dataset", line);
            }
            of_dataset(args, &dataset, &NOT_TURNED)?
        }
        (None, None) => match args.orbit_frames() {
            Some(frames) => orbit::around_splats(&file.scene(), frames, file.vertical_axis, &args.shape())
                .map_err(bad_shape)?,
            None => {
                let path = args.input.display();
                return Err(Failure::usage(format!(
                    "{path}: cameras: a splat file has none (expected --orbit, --path FILE or --data DIR, or the folder of a run)"
                )));
            }
        },
    };
    let sh_degree = file.splats.sh_degree;
    let options = RenderOptions { sh_degree, antialiased: file.antialiased, ..RenderOptions::default() };
    Ok((cameras, options, scene_splats(&file)))
}

/// A side that follows from the other one may be too long.
fn bad_shape(error: CameraError) -> Failure {
    Failure::usage(format!("--width, --height, --fov: {error}"))
}

/// The cameras that were asked for, of a dataset.
fn of_dataset(
    args: &RenderArgs,
    dataset: &Dataset,
    turn: &gausset_core::se3::Mat3,
) -> Result<Vec<NamedCamera>, Failure> {
    if let Some(frames) = args.orbit_frames() {
        return orbit::around_dataset(dataset, frames, turn, &args.shape()).map_err(bad_shape);
    }
    let split = |split| cameras::of_dataset(dataset, split, turn);
    Ok(match args.split.as_deref() {
        Some("train") => split(Split::Train),
        Some("all") => {
            let mut all = split(Split::Train);
            all.extend(split(Split::Test));
            all.sort_by(|a, b| a.name.cmp(&b.name));
            all
        }
        _ => split(Split::Test),
    })
}

/// Where pictures go, and which.
struct Output<'a> {
    folder: &'a Path,
    depth: Option<DepthFormat>,
    alpha: bool,
    overwrite: Overwrite,
}

impl Output<'_> {
    /// Where a file of a picture goes; names may have folders in them.
    fn path(&self, name: &Path, ending: &str) -> PathBuf {
        self.folder.join(below(name, ending))
    }

    /// Refuses names that are taken or lead out of the folder, before anything is rendered; then makes the folders.
    fn make_folder(&self, cameras: &[NamedCamera]) -> Result<(), Failure> {
        for view in cameras {
            for ending in self.endings() {
                owned::stays_inside(self.folder, &below(&view.name, ending))?;
                refuse_existing(&Disk, &self.path(&view.name, ending), self.overwrite)?;
            }
        }
        for view in cameras {
            if let Some(parent) = self.path(&view.name, ".png").parent() {
                Disk.create_folder(parent).map_err(|error| {
                    let reason = plain_reason(&error);
                    Failure::new("write", format!("{}: folder: {reason}", parent.display()))
                })?;
            }
        }
        Ok(())
    }

    /// Endings of the files that each picture has.
    fn endings(&self) -> impl Iterator<Item = &'static str> {
        let alpha = self.alpha.then_some("_alpha.png");
        let depth = self.depth.map(|format| match format {
            DepthFormat::Png => "_depth.png",
            DepthFormat::Npy => "_depth.npy",
        });
        [Some(".png"), alpha, depth].into_iter().flatten()
    }

    fn save(&self, name: &Path, rendering: &Rendering) -> Result<(), Failure> {
        let (width, height) = (rendering.width, rendering.height);
        let colour = RgbImage8::from_f32(width, height, &rendering.color);
        let write_png = |ending: &str, pixels: PngPixels<'_>, texts: &[(&str, &str)]| {
            let path = self.path(name, ending);
            let bytes = png(width, height, pixels, texts)
                .map_err(|error| Failure::new("write", format!("{}: png: {error}", path.display())))?;
            self.write(&path, &bytes)
        };
        write_png(".png", PngPixels::Rgb8(&colour.data), &[])?;
        if self.alpha {
            let alpha: Vec<u8> =
                rendering.alpha.iter().map(|&alpha| gausset_core::image::quantise(alpha)).collect();
            write_png("_alpha.png", PngPixels::Grey8(&alpha), &[])?;
        }
        match self.depth {
            Some(DepthFormat::Png) => {
                let (levels, scale) = depth_levels(rendering);
                write_png("_depth.png", PngPixels::Grey16(&levels), &[("depth-scale", &scale.to_string())])?;
            }
            Some(DepthFormat::Npy) => {
                let depths: Vec<f32> = depths(rendering).map(|depth| depth.unwrap_or(f32::NAN)).collect();
                self.write(&self.path(name, "_depth.npy"), &npy(width, height, &depths))?;
            }
            None => {}
        }
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let options = WriteOptions { label: "picture", overwrite: self.overwrite, ..WriteOptions::default() };
        let fs: &dyn FileSystem = &Disk;
        write_atomic_with(fs, path, &options, |file| file.write_all(bytes))?;
        Ok(())
    }
}

/// A name with an ending; dots in the name stay.
fn below(name: &Path, ending: &str) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// The expected depth of each pixel in scene units, where something was hit.
fn depths(rendering: &Rendering) -> impl Iterator<Item = Option<f32>> + '_ {
    let pixels = rendering.depth.iter().zip(&rendering.alpha);
    pixels.map(|(&depth, &alpha)| (alpha >= FAINTEST_ALPHA).then(|| depth / alpha))
}

/// Depths as 16-bit levels, 0 = nothing there, and scene units per level.
fn depth_levels(rendering: &Rendering) -> (Vec<u16>, f32) {
    let largest = depths(rendering).flatten().fold(0.0f32, f32::max);
    let scale = if largest > 0.0 { largest / f32::from(u16::MAX) } else { 1.0 };
    let level = |depth: f32| (depth / scale).round().clamp(1.0, f32::from(u16::MAX)) as u16;
    (depths(rendering).map(|depth| depth.map_or(0, level)).collect(), scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_levels_use_the_whole_range_and_keep_zero_for_nothing() {
        let rendering = Rendering {
            width: 3,
            height: 1,
            alpha: vec![0.5, 1.0, 0.0],
            depth: vec![1.0, 8.0, 0.0],
            ..Rendering::default()
        };
        let (levels, scale) = depth_levels(&rendering);
        assert_eq!(levels, [16_384, 65_535, 0]);
        assert!((scale * 65_535.0 - 8.0).abs() < 1e-5);
    }

    #[test]
    fn sizes_are_two_positive_numbers() {
        assert_eq!(parse_size("640x480"), Ok([640, 480]));
        for bad in ["640", "640x", "0x480", "640x480x3", "1e3x2", "99999x1"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
