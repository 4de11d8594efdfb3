//! Renders splats from the cameras of a dataset, an orbit or a camera path.

mod output;

use std::path::PathBuf;
use std::sync::Arc;

use gausset_core::Camera;
use gausset_core::camera::CameraError;
use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::{self, Dataset};
use gausset_io::input_files::InputFiles;
use gausset_io::splat::SpzAxes;
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit::{self, ImageShape};
use gausset_train::{RunWarning, Split};

pub use self::output::DepthFormat;

use self::output::ViewWriter;
use crate::device::DeviceOptions;
use crate::saved_run::{
    ChangedData, DataLocation, SavedRun, check_near_plane, file_render_options, load_splats, open_beside,
    scene_splat_count, splats_from_dataset_of,
};
use crate::training::warn_about_dataset;
use crate::{CountedItem, Event, Failure, Host};

/// Cameras to render from.
#[derive(Clone, Debug)]
pub enum CameraChoice {
    /// Held-out views of the dataset.
    Test,
    /// Training views of the dataset.
    Train,
    /// All views of the dataset, sorted by name.
    All,
    /// This many on a circle around the scene that the dataset's cameras view, or around the splats of a file.
    Orbit(usize, ImageShape),
    /// Cameras of a file: a Nerfstudio camera path or transforms.json. The size applies if the file has none.
    Path(PathBuf, Option<[u32; 2]>),
}

/// Options of [`render()`].
#[derive(Clone, Debug)]
pub struct RenderJobOptions {
    /// Run folder or splat file.
    pub input: PathBuf,
    /// Cameras to render from.
    pub cameras: CameraChoice,
    /// Renders panoramas of this width (px) and half the height at the camera positions; their centre is the viewing
    /// direction of the camera.
    pub panorama: Option<u32>,
    /// Axes of an SPZ file that does not specify them.
    pub spz_frame: Option<SpzAxes>,
    /// Path of the dataset; `None` = where the run found it.
    pub data: Option<PathBuf>,
    /// Folder of its photographs; `None` = where the run found them, or the dataset's own.
    pub images: Option<PathBuf>,
    /// Output folder; `None` = RUN/render, or the name of the file without its extension.
    pub output: Option<PathBuf>,
    /// Also writes depths in this format.
    pub depth: Option<DepthFormat>,
    /// Also writes alphas, as 8-bit PNG.
    pub alpha: bool,
    /// Background colour, which replaces a sky; `None` = as trained.
    pub background: Option<[f32; 3]>,
    /// Distance in scene units below which splats are not rendered; `None` = as trained.
    pub near_plane: Option<f64>,
    /// Replace existing renders.
    pub force: bool,
    /// Accept a dataset that differs from the run's.
    pub accept_changed_data: bool,
    /// Accept image names that lead out of the image folder.
    pub allow_outside: bool,
    /// Device for rendering.
    pub device: DeviceOptions,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
}

impl RenderJobOptions {
    /// Renders the held-out views, with defaults for everything else.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            cameras: CameraChoice::Test,
            panorama: None,
            spz_frame: None,
            data: None,
            images: None,
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

/// Result of [`render()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renders {
    /// Number of renders.
    pub count: usize,
    /// Folder of the renders.
    pub folder: PathBuf,
}

/// Renders views into a folder.
///
/// # Errors
/// No splats or no cameras, existing files in the folder that Gausset did not create, or the job was asked to stop.
pub fn render(options: &RenderJobOptions, host: &mut Host<'_>) -> Result<Renders, Failure> {
    check_near_plane(options.near_plane)?;
    let path = if let CameraChoice::Path(path, _) = &options.cameras { Some(path) } else { None };
    let _reading =
        InputFiles::new([Some(&options.input).filter(|input| input.is_file()), path].into_iter().flatten());
    let mut engine = options.device.engine_for(options.threads as usize, host)?;
    let of_folder = SavedRun::from_input(&options.input)?;
    // Reading needs no lock: files in a run folder are always complete, even during training.
    let is_written_to = of_folder.as_ref().filter(|_| options.output.is_none());
    let _lock = is_written_to.map(SavedRun::lock_shared).transpose()?;
    let place = of_folder.as_ref().map_or_else(|| options.input.clone(), |run| run.folder.clone());
    let run = of_folder.or_else(|| run_of(options));
    let (mut cameras, mut how, scene_splats, _of_dataset) = match &run {
        Some(run) => from_run(run, options, &mut *engine, host)?,
        None => from_file(options, &mut *engine, host)?,
    };
    how.near_plane = options.near_plane.unwrap_or(how.near_plane);
    if let Some(colour) = options.background {
        how.background = colour;
        // A sky would hide the background.
        how.splat_limit = scene_splats;
    }
    if let Some(width) = options.panorama {
        let panorama = Camera::panorama(width, width / 2)
            .map_err(|error| Failure::usage(format!("⟨panorama⟩: {error}")))?;
        cameras.iter_mut().for_each(|named| named.camera = panorama);
    }
    if cameras.is_empty() {
        let line = format!("{}: cameras: none to render from", options.input.display());
        return Err(Failure::new("cameras", line));
    }
    let folder = options
        .output
        .clone()
        .unwrap_or_else(|| if place.is_dir() { place.join("render") } else { place.with_extension("") });
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let output = ViewWriter { folder: &folder, depth: options.depth, alpha: options.alpha, overwrite };
    output.make_folder(&cameras)?;
    // Depth and alpha describe the scene without the sky.
    let surfaces = RenderOptions { splat_limit: scene_splats, ..how };
    let is_asked_for_surfaces = options.depth.is_some() || options.alpha;
    let outputs = if is_asked_for_surfaces { Outputs::All } else { Outputs::Color };
    let (mut tiles, mut cut_views) = (0, 0);
    host.report(Event::Begun { item: CountedItem::Pictures, done: 0, total: cameras.len() as u64 });
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
        tiles += rendering.capped_tiles;
        cut_views += u64::from(rendering.capped_tiles > 0);
        output.save(&view.name, &rendering)?;
        host.report(Event::Done { done, views_per_s: None });
    }
    host.report(Event::Ended);
    if tiles > 0 {
        let (limit, views) = (how.max_splats_per_tile, cameras.len() as u64);
        let warning = RunWarning::TruncatedRenders { limit, tiles, cut_views, views };
        host.warn("the tile lists", warning.to_string());
    }
    Ok(Renders { count: cameras.len(), folder })
}

/// Cameras, render options, the number of scene splats if a sky follows them, and the files in use of a dataset.
type RenderInput = (Vec<NamedCamera>, RenderOptions, Option<u32>, Arc<InputFiles>);

/// The run of a result file, if its dataset's cameras are needed: the run knows its dataset and the refined poses.
fn run_of(options: &RenderJobOptions) -> Option<SavedRun> {
    let is_of_dataset =
        matches!(options.cameras, CameraChoice::Test | CameraChoice::Train | CameraChoice::All);
    if is_of_dataset || options.data.is_some() { SavedRun::from_splat_file(&options.input) } else { None }
}

/// Loads splats, cameras and options of a run.
fn from_run(
    run: &SavedRun,
    options: &RenderJobOptions,
    engine: &mut dyn Engine,
    host: &mut Host<'_>,
) -> Result<RenderInput, Failure> {
    let file = load_splats(&run.trained_splats()?, options.spz_frame, engine, host)?;
    let turn = run.splats_from_dataset();
    let cameras = match &options.cameras {
        CameraChoice::Path(path, size) => cameras::read_path(path, *size, &turn, run.offset())?,
        choice => {
            let place = DataLocation {
                path: options.data.as_deref(),
                images: options.images.as_deref(),
                if_changed: ChangedData::accepted(options.accept_changed_data),
                allow_outside: options.allow_outside,
            };
            dataset_cameras(choice, &*run.open_dataset(place, host)?, &turn, file.vertical_axis)?
        }
    };
    // `run` already marks its dataset as in use.
    Ok((cameras, run.render_options(), scene_splat_count(&file), Arc::default()))
}

/// Loads splats, cameras and options of a splat file.
fn from_file(
    options: &RenderJobOptions,
    engine: &mut dyn Engine,
    host: &mut Host<'_>,
) -> Result<RenderInput, Failure> {
    DataLocation::check_without_run(options.data.as_deref(), options.images.as_deref())?;
    let file = load_splats(&options.input, options.spz_frame, engine, host)?;
    let mut reading = Arc::default();
    let cameras = match (&options.cameras, &options.data) {
        (CameraChoice::Path(path, size), _) => {
            let moved = file.saved_from_dataset.unwrap_or_default();
            cameras::read_path(path, *size, &moved, file.offset)?
        }
        (choice, Some(data)) => {
            let open = open_beside(&file, options.images.as_deref(), options.allow_outside);
            let dataset = dataset::open(data, &open)?;
            warn_about_dataset(&dataset, host);
            reading = Arc::clone(&dataset.reading);
            let turn = splats_from_dataset_of(&file, &options.input, host);
            dataset_cameras(choice, &dataset, &turn, file.vertical_axis)?
        }
        (CameraChoice::Orbit(frames, shape), None) => {
            orbit::orbit_splats(&file.scene(), *frames, file.vertical_axis, shape).map_err(shape_failure)?
        }
        (CameraChoice::Test | CameraChoice::Train | CameraChoice::All, None) => {
            let path = options.input.display();
            return Err(Failure::usage(format!(
                "{path}: cameras: a splat file has none (expected ⟨orbit⟩, ⟨path = FILE⟩ or ⟨data = DIR⟩, or a run folder)"
            )));
        }
    };
    Ok((cameras, file_render_options(&file), scene_splat_count(&file), reading))
}

/// The size that follows from an aspect ratio and field of view may be invalid.
fn shape_failure(error: CameraError) -> Failure {
    Failure::usage(format!("⟨width⟩, ⟨height⟩, ⟨fov⟩: {error}"))
}

/// The selected cameras of a dataset.
fn dataset_cameras(
    choice: &CameraChoice,
    dataset: &Dataset,
    turn: &Similarity,
    up: Option<[f32; 3]>,
) -> Result<Vec<NamedCamera>, Failure> {
    let split = |split| cameras::dataset_cameras(dataset, split, turn);
    Ok(match choice {
        CameraChoice::Orbit(frames, shape) => {
            let cameras = orbit::orbit_dataset(dataset, *frames, turn, up, shape).map_err(shape_failure)?;
            if shape.vertical_fov.is_some() && cameras.iter().any(|named| !named.camera.is_pinhole()) {
                return Err(Failure::usage(
                    "⟨fov⟩: has no effect on cameras of panoramas; leave it out, or train on their views",
                ));
            }
            cameras
        }
        CameraChoice::Train => split(Split::Train),
        CameraChoice::All => {
            let mut all = split(Split::Train);
            all.extend(split(Split::Test));
            all.sort_by(|a, b| a.name.cmp(&b.name));
            all
        }
        // Paths are read by the callers.
        CameraChoice::Test | CameraChoice::Path(..) => split(Split::Test),
    })
}
