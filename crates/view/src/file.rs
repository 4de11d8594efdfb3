//! Renders a splat file or a finished run for the viewer, on the thread that calls [`FileView::serve`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gausset_core::Region;
use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_flow::convert::Edits;
use gausset_flow::device::DeviceOptions;
use gausset_flow::saved_run::{
    DataPlace, OtherData, SavedRun, file_options, load_splats, scene_splats, turn_of,
};
use gausset_flow::training::warn_of;
use gausset_flow::{Failure, Host};
use gausset_io::dataset::{self, Dataset, Loader, LoaderOptions, OpenOptions};
use gausset_io::input;
use gausset_io::metrics_log::read_metrics;
use gausset_io::run_folder::{EVALUATION_REPORT, eval_folder, metrics_path};
use gausset_io::splat::{self, Document, LoadOptions};
use serde_json::Value;

use crate::draw::{Look, answer};
use crate::hub::Hub;
use crate::protocol::Filter;
use crate::scene::{Photos, Scene};
use crate::snapshot;
use crate::thumbs::Thumbs;

/// Interval at which the stop flag is checked.
const NAP: Duration = Duration::from_millis(100);
/// Interval at which the file is checked for new splats.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Capacity of the photograph cache, bytes; raised to the size of the largest photograph.
const PHOTO_BYTES: usize = 64 << 20;
/// Largest evaluation report that is read, bytes.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// Input and rendering options of the viewer.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// A run folder or a splat file.
    pub input: PathBuf,
    /// Folder of the dataset. `None` = the dataset of the run; none for a splat file.
    pub data: Option<PathBuf>,
    /// Device that renders.
    pub device: DeviceOptions,
    /// Number of threads; 0 = all CPUs.
    pub threads: u32,
}

/// Splats on a device, for viewing.
pub struct FileView {
    engine: Box<dyn Engine>,
    splats: PathBuf,
    stamp: Option<Stamp>,
    looked: Instant,
    /// Number of times that splats were loaded.
    loads: u64,
    run: Option<SavedRun>,
    scene: Scene,
    /// Which splats are shown.
    filter: Filter,
    photos: Option<Photos>,
    options: RenderOptions,
    /// Number of splats of the scene, if a sky follows them.
    scene_splats: Option<u32>,
}

/// Modification time and length of a file: changes when the file is written.
type Stamp = (SystemTime, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.modified().ok()?, facts.len()))
}

impl FileView {
    /// Loads the splats to a device. A dataset that cannot be opened causes a warning; the splats are shown without it.
    ///
    /// # Errors
    /// The splats cannot be read, or the device is not available.
    pub fn open(options: &FileOptions, host: &mut Host<'_>) -> Result<Self, Failure> {
        let mut engine = options.device.engine_for(options.threads as usize, host)?;
        // The result file of a run folder is treated as the run, with its cameras and photographs.
        let run = SavedRun::of(&options.input)?.or_else(|| SavedRun::of_splats(&options.input));
        let splats = match &run {
            Some(run) => run.splats()?,
            None => options.input.clone(),
        };
        let stamp = stamp(&splats);
        let file = load_splats(&splats, &mut *engine, host)?;
        let title = title(&options.input);
        let place = DataPlace { path: options.data.as_deref(), other: OtherData::Warn, allow_outside: false };
        let mut of_dataset = None;
        if let Some(run) = &run {
            match run.open_dataset(place, host) {
                Ok(dataset) => {
                    let turn = run.splats_from_dataset();
                    of_dataset = Some(Scene::of_dataset(title.clone(), loader(dataset), &turn));
                }
                Err(failure) => {
                    host.warn("the dataset", format!("{failure}; there are no photographs to compare with"));
                }
            }
        } else if let Some(data) = &options.data {
            let dataset = Arc::new(dataset::open(data, &OpenOptions::default())?);
            warn_of(&dataset, host);
            let turn = turn_of(&file, &options.input, host)?;
            of_dataset = Some(Scene::of_dataset(title.clone(), loader(dataset), &turn));
        }
        let (mut scene, photos) = match of_dataset {
            Some((scene, photos)) if !scene.cameras.is_empty() => (scene, Some(photos)),
            _ => (Scene::of_splats(title, &file.scene(), file.vertical_axis), None),
        };
        if let Some(run) = &run {
            add_scores(&mut scene, &run.folder);
        }
        let (how, mut scene) = rendered(run.as_ref(), &file, scene);
        let filter = Filter::default();
        scene.filter = Some(filter);
        let scene_splats = scene_splats(&file);
        let looked = Instant::now();
        Ok(Self {
            engine,
            splats,
            stamp,
            looked,
            loads: 1,
            run,
            scene,
            filter,
            photos,
            options: how,
            scene_splats,
        })
    }

    /// Thumbnails of the photographs, if there are some.
    #[must_use]
    pub fn thumbs(&self) -> Option<Arc<Thumbs>> {
        self.photos.as_ref().map(Photos::thumbs)
    }

    /// The scene description for pages.
    #[must_use]
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The lines of the run's `metrics.jsonl`, for charts.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let log = self.run.as_ref().map(|run| read_metrics(&metrics_path(&run.folder)));
        log.and_then(Result::ok).map(|(lines, _)| lines).unwrap_or_default()
    }

    /// Renders requests of pages until the job is stopped, and reloads the splats when the file changes.
    pub fn serve(&mut self, hub: &Arc<Hub>, host: &mut Host<'_>) {
        while !host.is_stopping() {
            if let Some(job) = hub.take(self.loads) {
                let look = Look {
                    photos: self.photos.as_ref(),
                    device_from_saved: Similarity::IDENTITY,
                    options: self.options,
                    scene_splats: self.scene_splats,
                    step: 0,
                };
                answer(hub, job, &mut *self.engine, &look);
            } else {
                hub.wait(self.loads, NAP);
            }
            let is_antialiased = self.options.antialiased;
            snapshot::give(hub, self.loads, &mut *self.engine, Similarity::IDENTITY, is_antialiased);
            if let Some(filter) = hub.take_filter() {
                self.show_only(filter, hub, host);
            }
            if self.looked.elapsed() >= LOOK_EVERY {
                self.looked = Instant::now();
                self.take_up(hub, host);
            }
        }
    }

    /// Reloads the splats if the file has changed. If they cannot be read, warns once and keeps the old ones.
    fn take_up(&mut self, hub: &Arc<Hub>, host: &mut Host<'_>) {
        let now = stamp(&self.splats);
        if now.is_none() || now == self.stamp {
            return;
        }
        self.stamp = now;
        match self.load(self.filter, host) {
            Ok(_) => {
                if let Some(run) = &self.run {
                    add_scores(&mut self.scene, &run.folder);
                }
                hub.set_history(&self.log());
                hub.replace_scene(self.scene.clone());
            }
            Err(failure) => {
                host.warn("the splats", format!("{failure}; the previous splats are still shown"))
            }
        }
    }

    /// Shows the splats that pass a filter; keeps the current ones if none passes.
    fn show_only(&mut self, filter: Filter, hub: &Hub, host: &mut Host<'_>) {
        match self.load(filter, host) {
            Ok(true) => {
                self.filter = filter;
                self.scene.filter = Some(filter);
                hub.replace_scene(self.scene.clone());
            }
            Ok(false) => hub.complain("the filters leave no splats; the previous splats are still shown"),
            Err(failure) => hub.complain(&format!("{failure}; the previous splats are still shown")),
        }
    }

    /// Loads the splats that pass a filter to the device. Returns `false` and changes nothing if none passes.
    fn load(&mut self, filter: Filter, host: &mut Host<'_>) -> Result<bool, Failure> {
        let ball = filter.sphere.map(|[x, y, z, radius]| Region::Ball { centre: [x, y, z], radius });
        let within_box =
            filter.within_box.map(|[a, b, c, d, e, f]| Region::Box { min: [a, b, c], max: [d, e, f] });
        let edits = Edits {
            drop_far: filter.drop_far,
            min_opacity: filter.min_opacity,
            within: within_box.into_iter().chain(ball).collect(),
            ..Edits::default()
        };
        let mut file = splat::load(&self.splats, &LoadOptions::default())?;
        if self.filter == filter {
            // Warn once per file, not whenever another filter is applied.
            file.report.lines(&self.splats).into_iter().for_each(|line| host.warn("the splats", line));
        }
        edits.filter(&mut file);
        if let Some(most) = filter.max_size {
            let largest = file.splats.log_scales.iter().map(|s| f64::from(s[0].max(s[1]).max(s[2])));
            let stays: Vec<bool> = largest.map(|log_scale| log_scale <= most.ln()).collect();
            file.retain(&stays);
        }
        if let Some(factor) = filter.shrink {
            let change = factor.ln() as f32;
            file.splats.log_scales.iter_mut().flatten().for_each(|log_scale| *log_scale += change);
        }
        if file.splats.is_empty() {
            return Ok(false);
        }
        self.engine.load_splats(file.splats.clone(), Vec::new())?;
        self.scene_splats = scene_splats(&file);
        (self.options, self.scene) = rendered(self.run.as_ref(), &file, self.scene.clone());
        self.loads += 1;
        Ok(true)
    }
}

/// A loader that reads photographs on demand and caches a few.
fn loader(dataset: Arc<Dataset>) -> Arc<Loader> {
    Arc::new(Loader::new(dataset, LoaderOptions { budget_bytes: PHOTO_BYTES, threads: 0 }))
}

/// Render options of a file, and the scene with these options.
fn rendered(run: Option<&SavedRun>, file: &Document, scene: Scene) -> (RenderOptions, Scene) {
    let options = run.map_or_else(|| file_options(file), SavedRun::render_options);
    (options, scene.rendered(&options, file.splats.len()))
}

/// Title of an input. A run is shown with its parent folder, since many runs are called `run`.
fn title(input: &Path) -> String {
    let whole = std::path::absolute(input).unwrap_or_else(|_| input.to_owned());
    let parts: Vec<_> = whole.iter().map(|part| part.display().to_string()).collect();
    let shown = if input.is_dir() { 2 } else { 1 };
    parts[parts.len().saturating_sub(shown)..].join("/")
}

/// Adds the PSNRs of the last evaluation to the cameras.
fn add_scores(scene: &mut Scene, run: &Path) {
    let Ok(bytes) = input::read(&eval_folder(run).join(EVALUATION_REPORT), MAX_REPORT_BYTES) else { return };
    let Ok(report) = serde_json::from_slice::<Value>(&bytes) else { return };
    for record in report["per_image"].as_array().into_iter().flatten() {
        let camera =
            scene.cameras.iter_mut().find(|camera| Some(camera.name.as_str()) == record["name"].as_str());
        if let Some(camera) = camera {
            camera.psnr = record["psnr"].as_f64();
        }
    }
}
