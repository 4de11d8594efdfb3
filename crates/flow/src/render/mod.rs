//! Pictures of splats, from cameras of a dataset, an orbit or a path.

mod output;

use std::path::PathBuf;
use std::sync::Arc;

use gausset_core::Camera;
use gausset_core::camera::CameraError;
use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::se3::Mat3;
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::{self, Dataset, OpenOptions};
use gausset_io::reading::Reading;
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit::{self, PictureShape};
use gausset_train::{RunWarning, Split};

pub use self::output::DepthFormat;

use self::output::Output;
use crate::device::DeviceOptions;
use crate::saved_run::{DataPlace, OtherData, SavedRun, file_options, load_splats, scene_splats, turn_of};
use crate::training::warn_of;
use crate::{Event, Failure, Host, Part};

/// Which cameras.
#[derive(Clone, Debug)]
pub enum CameraChoice {
    /// Those of the dataset that are held out.
    Test,
    /// Those of the dataset that are trained on.
    Train,
    /// All of the dataset, by name.
    All,
    /// So many on a circle around what the dataset's cameras look at, or around the splats of a file.
    Orbit(usize, PictureShape),
    /// Those of a file: a Nerfstudio camera path or transforms.json; the size is for one that does not tell.
    Path(PathBuf, Option<[u32; 2]>),
}

/// Which pictures of which splats, and where to.
#[derive(Clone, Debug)]
pub struct PictureOptions {
    /// Folder of a run, or a splat file.
    pub input: PathBuf,
    /// Which cameras.
    pub cameras: CameraChoice,
    /// Panoramas of the whole sphere are drawn from the places of the cameras, so many px wide and half as high, their
    /// middle where the camera looks.
    pub panorama: Option<u32>,
    /// Where the dataset is; `None` = where the run found it.
    pub data: Option<PathBuf>,
    /// Folder for the pictures; `None` = RUN/render, or the file's name without .ply.
    pub output: Option<PathBuf>,
    /// Depths are written as well.
    pub depth: Option<DepthFormat>,
    /// Alphas are written as well, as 8-bit PNG.
    pub alpha: bool,
    /// Colour behind the splats, in place of a sky; `None` = as trained.
    pub background: Option<[f32; 3]>,
    /// Splats closer to a camera than this are not drawn, in scene units; `None` = as trained.
    pub near_plane: Option<f64>,
    /// Pictures may be replaced.
    pub force: bool,
    /// The dataset may be another than the run's.
    pub accept_changed_data: bool,
    /// Pictures may have names that lead out of the picture folder.
    pub allow_outside: bool,
    /// What computes.
    pub device: DeviceOptions,
    /// Threads; 0 = all processors.
    pub threads: u32,
}

impl PictureOptions {
    /// The held-out views of a run, or what is asked for of a file; everything else as it is by default.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            cameras: CameraChoice::Test,
            panorama: None,
            data: None,
            output: None,
            depth: None,
            alpha: false,
            background: None,
            near_plane: None,
            force: false,
            accept_changed_data: false,
            allow_outside: false,
            device: DeviceOptions::default(),
            threads: 0,
        }
    }
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// How many.
    pub count: usize,
    /// Where they are.
    pub folder: PathBuf,
}

/// Renders pictures into a folder.
///
/// # Errors
/// No splats or cameras there, files of others in the way; the job was asked to stop.
pub fn render(options: &PictureOptions, host: &mut Host<'_>) -> Result<Pictures, Failure> {
    let path = if let CameraChoice::Path(path, _) = &options.cameras { Some(path) } else { None };
    let _reading =
        Reading::of([Some(&options.input).filter(|input| input.is_file()), path].into_iter().flatten());
    let mut engine = options.device.engine_for(options.threads as usize, host)?;
    // Reading needs no lock: what is in a run folder is whole, also while a training goes on.
    let is_written_to = options.output.is_none() && SavedRun::is_one(&options.input);
    let _lock = if is_written_to { Some(SavedRun::read(&options.input)?.share()?) } else { None };
    let run = SavedRun::of(&options.input)?.or_else(|| run_of(options));
    let (mut cameras, mut how, scene_splats, _of_dataset) = match &run {
        Some(run) => of_run(run, options, &mut *engine, host)?,
        None => of_file(options, &mut *engine, host)?,
    };
    how.near_plane = options.near_plane.unwrap_or(how.near_plane);
    if let Some(colour) = options.background {
        how.background = colour;
        // It would not be seen behind a sky.
        how.only_first = scene_splats;
    }
    if let Some(width) = options.panorama {
        let panorama = Camera::panorama(width, width / 2)
            .map_err(|error| Failure::usage(format!("⟨panorama⟩: {error}")))?;
        cameras.iter_mut().for_each(|named| named.camera = panorama);
    }
    if cameras.is_empty() {
        let line = format!("{}: cameras: there are none to render from", options.input.display());
        return Err(Failure::new("cameras", line));
    }
    let folder = options.output.clone().unwrap_or_else(|| {
        if options.input.is_dir() { options.input.join("render") } else { options.input.with_extension("") }
    });
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let output = Output { folder: &folder, depth: options.depth, alpha: options.alpha, overwrite };
    output.make_folder(&cameras)?;
    // Depths and alphas are those of the scene.
    let surfaces = RenderOptions { only_first: scene_splats, ..how };
    let is_asked_for_surfaces = options.depth.is_some() || options.alpha;
    let outputs = if is_asked_for_surfaces { Outputs::All } else { Outputs::Color };
    let (mut tiles, mut cut_views) = (0, 0);
    host.report(Event::Begun { part: Part::Pictures, done: 0, total: cameras.len() as u64 });
    for (done, view) in (1..).zip(&cameras) {
        if host.is_stopping() {
            host.report(Event::Ended);
            return Err(Failure::stopped());
        }
        let mut rendering = engine.render(&view.camera, &view.pose, &how, outputs)?;
        if is_asked_for_surfaces && surfaces != how {
            let color = std::mem::take(&mut rendering.color);
            rendering = Rendering { color, ..engine.render(&view.camera, &view.pose, &surfaces, outputs)? };
        }
        tiles += rendering.cut_tiles;
        cut_views += u64::from(rendering.cut_tiles > 0);
        output.save(&view.name, &rendering)?;
        host.report(Event::Done { done, views_per_s: None });
    }
    host.report(Event::Ended);
    if tiles > 0 {
        let (limit, views) = (how.max_splats_per_tile, cameras.len() as u64);
        let warning = RunWarning::CutPictures { limit, tiles, cut_views, views };
        host.warn("the tile lists", warning.to_string());
    }
    Ok(Pictures { count: cameras.len(), folder })
}

/// Cameras, options, how many splats are the scene where a sky follows them, and what is read of a dataset.
type Prepared = (Vec<NamedCamera>, RenderOptions, Option<u32>, Arc<Reading>);

/// The run whose result is to be seen from its cameras: the dataset is that of the run, and poses may be refined.
fn run_of(options: &PictureOptions) -> Option<SavedRun> {
    let is_of_dataset =
        matches!(options.cameras, CameraChoice::Test | CameraChoice::Train | CameraChoice::All);
    if is_of_dataset || options.data.is_some() { SavedRun::of_splats(&options.input) } else { None }
}

/// Splats, cameras and options of a run.
fn of_run(
    run: &SavedRun,
    options: &PictureOptions,
    engine: &mut dyn Engine,
    host: &mut Host<'_>,
) -> Result<Prepared, Failure> {
    let file = run.load_splats(engine, host)?;
    let turn = run.splats_from_dataset();
    let cameras = match &options.cameras {
        CameraChoice::Path(path, size) => cameras::read_path(path, *size, &turn)?,
        choice => {
            let place = DataPlace {
                path: options.data.as_deref(),
                other: OtherData::accepted(options.accept_changed_data),
                allow_outside: options.allow_outside,
            };
            of_dataset(choice, &*run.open_dataset(place, host)?, &turn)?
        }
    };
    // The run holds its dataset.
    Ok((cameras, run.render_options(), scene_splats(&file), Arc::default()))
}

/// Splats, cameras and options of a splat file.
fn of_file(
    options: &PictureOptions,
    engine: &mut dyn Engine,
    host: &mut Host<'_>,
) -> Result<Prepared, Failure> {
    let file = load_splats(&options.input, engine, host)?;
    let mut reading = Arc::default();
    let cameras = match (&options.cameras, &options.data) {
        (CameraChoice::Path(path, size), _) => {
            let moved = file.saved_from_dataset.unwrap_or_default();
            cameras::read_path(path, *size, &moved.rotation)?
        }
        (choice, Some(data)) => {
            let open = OpenOptions { allow_outside: options.allow_outside, ..OpenOptions::default() };
            let dataset = dataset::open(data, &open)?;
            warn_of(&dataset, host);
            reading = Arc::clone(&dataset.reading);
            of_dataset(choice, &dataset, &turn_of(&file, &options.input, host)?)?
        }
        (CameraChoice::Orbit(frames, shape), None) => {
            orbit::around_splats(&file.scene(), *frames, file.vertical_axis, shape).map_err(bad_shape)?
        }
        (CameraChoice::Test | CameraChoice::Train | CameraChoice::All, None) => {
            let path = options.input.display();
            return Err(Failure::usage(format!(
                "{path}: cameras: a splat file has none (expected ⟨orbit⟩, ⟨path = FILE⟩ or ⟨data = DIR⟩, or the folder of a run)"
            )));
        }
    };
    Ok((cameras, file_options(&file), scene_splats(&file), reading))
}

/// A side that follows from the other one may be too long.
fn bad_shape(error: CameraError) -> Failure {
    Failure::usage(format!("⟨width⟩, ⟨height⟩, ⟨fov⟩: {error}"))
}

/// The cameras that were asked for, of a dataset.
fn of_dataset(choice: &CameraChoice, dataset: &Dataset, turn: &Mat3) -> Result<Vec<NamedCamera>, Failure> {
    let split = |split| cameras::of_dataset(dataset, split, turn);
    Ok(match choice {
        CameraChoice::Orbit(frames, shape) => {
            return orbit::around_dataset(dataset, *frames, turn, shape).map_err(bad_shape);
        }
        CameraChoice::Train => split(Split::Train),
        CameraChoice::All => {
            let mut all = split(Split::Train);
            all.extend(split(Split::Test));
            all.sort_by(|a, b| a.name.cmp(&b.name));
            all
        }
        // A path was read before it came to this.
        CameraChoice::Test | CameraChoice::Path(..) => split(Split::Test),
    })
}
