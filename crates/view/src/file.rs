//! Renders a splat file or a finished run for the viewer, on the thread that calls [`FileRenderer::serve`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gausset::device::DeviceOptions;
use gausset::saved_run::{
    DataLocation, SavedRun, file_render_options, load_splats, open_beside, scene_splat_count,
    splats_from_dataset_of,
};
use gausset::training::warn_about_dataset;
use gausset::{Failure, Host};
use gausset_compute::Pool;
use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_io::dataset::{self, Dataset, Loader, LoaderOptions};
use gausset_io::input;
use gausset_io::metrics_log::read_metrics;
use gausset_io::run_folder::{EVALUATION_REPORT, eval_folder, metrics_path};
use gausset_io::splat::{self, LoadOptions, SplatFile, SpzAxes};
use gausset_train::DepthMaps;
use serde_json::Value;

use crate::hub::Hub;
use crate::protocol::SplatFilter;
use crate::render::{ConfidenceSource, RenderSettings, render_job};
use crate::scene::{Photos, SceneDescription};
use crate::thumbs::Thumbnails;
use crate::{model, save, snapshot};

/// Interval at which the stop flag is checked.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the file is checked for new splats.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);
/// Capacity of the photograph cache, bytes; raised to the size of the largest photograph.
const PHOTO_CACHE_BYTES: usize = 64 << 20;
/// Largest evaluation report that is read, bytes.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// Input and rendering options of the viewer.
#[derive(Clone, Debug)]
pub struct FileViewOptions {
    /// A run folder, a splat file, or a COLMAP model (also in `sparse/0` of a folder).
    pub input: PathBuf,
    /// Axes of an SPZ file that does not specify them.
    pub spz_frame: Option<SpzAxes>,
    /// Folder of the dataset. `None` = the dataset of the run; none for a splat file.
    pub data: Option<PathBuf>,
    /// Folder of its photographs. `None` = where the run found them, or the dataset's own.
    pub images: Option<PathBuf>,
    /// Device that renders.
    pub device: DeviceOptions,
    /// Number of threads; 0 = all CPUs.
    pub threads: u32,
}

/// Splats on a device, for viewing.
pub struct FileRenderer {
    engine: Box<dyn Engine>,
    splats: PathBuf,
    load: LoadOptions,
    stamp: Option<FileStamp>,
    checked_at: Instant,
    /// Number of times that splats were loaded.
    loads: u64,
    run: Option<SavedRun>,
    /// Whether it shows a COLMAP model, which is read once.
    is_model: bool,
    scene: SceneDescription,
    /// Which splats are shown.
    filter: SplatFilter,
    photos: Option<Photos>,
    options: RenderOptions,
    /// Number of splats of the scene, if a sky follows them.
    scene_splats: Option<u32>,
    /// Depth maps of the training views, if their dataset is at hand, and the threads that use them.
    depth_maps: Option<(DepthMaps, Pool)>,
}

/// Modification time and length of a file: changes when the file is written.
type FileStamp = (SystemTime, u64);

fn stamp(path: &Path) -> Option<FileStamp> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.modified().ok()?, facts.len()))
}

impl FileRenderer {
    /// Loads the splats to a device. A dataset that cannot be opened causes a warning; the splats are shown without it.
    ///
    /// # Errors
    /// The splats cannot be read, or the device is not available.
    pub fn open(options: &FileViewOptions, host: &mut Host<'_>) -> Result<Self, Failure> {
        let mut engine = options.device.engine_for(options.threads as usize, host)?;
        // The result file of a run folder is treated as the run, with its cameras and photographs.
        let model = model::find(&options.input, options.images.as_deref(), options.data.is_none())?;
        let run = match model {
            Some(_) => None,
            None => {
                SavedRun::from_input(&options.input)?.or_else(|| SavedRun::from_splat_file(&options.input))
            }
        };
        if run.is_none() && model.as_ref().is_none_or(|model| model.dataset.is_none()) {
            DataLocation::check_without_run(options.data.as_deref(), options.images.as_deref())?;
        }
        let splats = match (&run, &model) {
            (Some(run), _) => run.trained_splats()?,
            (None, Some(model)) => model.source.clone(),
            (None, None) => splat::file_at(&options.input),
        };
        let stamp = stamp(&splats);
        let file = match &model {
            Some(model) => {
                let file = model::splats(model);
                let (points, images) = (model.points.len(), model.images);
                let (shown, cameras) = (file.splats.len(), model.cameras.len());
                let mut warn = |line| host.warn("the model", format!("{}: {line}", model.source.display()));
                if shown < points {
                    warn(format!("{shown} of {points} points are shown"));
                }
                if cameras < images {
                    warn(format!("{cameras} of {images} images have a camera and a pose that can be shown"));
                }
                engine.load_splats(file.splats.clone(), Vec::new())?;
                file
            }
            None => load_splats(&splats, options.spz_frame, &mut *engine, host)?,
        };
        let title = title(&options.input);
        let place = DataLocation::for_viewing(options.data.as_deref(), options.images.as_deref());
        let (mut of_dataset, mut cameras) = (None, None);
        if let Some(run) = &run {
            match run.open_dataset(place, host) {
                Ok(dataset) => {
                    let turn = run.splats_from_dataset();
                    cameras = Some((Arc::clone(&dataset), turn));
                    of_dataset = Some(SceneDescription::from_dataset(title.clone(), loader(dataset), &turn));
                }
                Err(failure) => {
                    host.warn("the dataset", format!("{failure}; there are no photographs to compare with"));
                }
            }
        } else if let Some(data) = &options.data {
            let open = open_beside(&file, options.images.as_deref(), false);
            let dataset = Arc::new(dataset::open(data, &open)?);
            warn_about_dataset(&dataset, host);
            let turn = splats_from_dataset_of(&file, &options.input, host);
            cameras = Some((Arc::clone(&dataset), turn));
            of_dataset = Some(SceneDescription::from_dataset(title.clone(), loader(dataset), &turn));
        } else if let Some(model) = &model
            && let Some(dataset) = model.dataset.clone()
        {
            warn_about_dataset(&dataset, host);
            let turn = Similarity::IDENTITY;
            let (scene, photos) = SceneDescription::from_dataset(title.clone(), loader(dataset), &turn);
            of_dataset = Some((scene.seen_from_outside(&model::outline(model)), photos));
        }
        let (mut scene, photos) = match of_dataset {
            Some((scene, photos)) if !scene.cameras.is_empty() => (scene, Some(photos)),
            _ => match &model {
                Some(model) => {
                    (SceneDescription::from_cameras(title, &file.scene(), model.cameras.clone()), None)
                }
                None => (SceneDescription::from_splats(title, &file.scene(), file.vertical_axis), None),
            },
        };
        if let Some(run) = &run {
            add_scores(&mut scene, &run.folder);
        }
        let (how, mut scene) = with_render_options(run.as_ref(), &file, scene);
        let filter = SplatFilter::default();
        scene.filter = model.is_none().then_some(filter);
        let scene_splats = scene_splat_count(&file);
        let surfaces = RenderOptions { splat_limit: scene_splats, ..how };
        let depth_maps =
            cameras.filter(|(dataset, _)| !dataset.split.train.is_empty()).map(|(dataset, turn)| {
                (DepthMaps::new(dataset, turn, &surfaces), Pool::new(engine.describe().threads.max(1)))
            });
        scene.confidence = depth_maps.is_some();
        let looked = Instant::now();
        Ok(Self {
            engine,
            splats,
            load: LoadOptions { spz_frame: options.spz_frame, ..LoadOptions::default() },
            stamp,
            checked_at: looked,
            loads: 1,
            run,
            is_model: model.is_some(),
            scene,
            filter,
            photos,
            options: how,
            scene_splats,
            depth_maps,
        })
    }

    /// Thumbnails of the photographs, if there are some.
    #[must_use]
    pub fn thumbs(&self) -> Option<Arc<Thumbnails>> {
        self.photos.as_ref().map(Photos::thumbs)
    }

    /// The scene description for pages.
    #[must_use]
    pub fn scene(&self) -> &SceneDescription {
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
        if !self.is_model {
            hub.set_file(&self.splats, self.load);
        }
        while !host.is_stopping() {
            if let Some(job) = hub.take_job(self.loads) {
                let confidence = self.depth_maps.as_mut().map(|(maps, pool)| ConfidenceSource {
                    maps,
                    pool,
                    stop: host.stop(),
                });
                let look = RenderSettings {
                    photos: self.photos.as_ref(),
                    device_from_saved: Similarity::IDENTITY,
                    options: self.options,
                    scene_splats: self.scene_splats,
                    step: 0,
                    confidence,
                };
                render_job(hub, job, &mut *self.engine, look);
            } else {
                hub.wait(self.loads, STOP_CHECK_INTERVAL);
            }
            let is_antialiased = self.options.antialiased;
            snapshot::pack_if_due(hub, self.loads, &mut *self.engine, Similarity::IDENTITY, is_antialiased);
            if let Some(filter) = hub.take_filter() {
                self.apply_filter(filter, hub, host);
            }
            if self.checked_at.elapsed() >= RELOAD_INTERVAL {
                self.checked_at = Instant::now();
                self.reload(hub, host);
            }
        }
    }

    /// Reloads the splats if the file has changed. If that fails, warns once, also on the pages, and keeps the old ones.
    fn reload(&mut self, hub: &Arc<Hub>, host: &mut Host<'_>) {
        let now = stamp(&self.splats);
        if self.is_model || now.is_none() || now == self.stamp {
            return;
        }
        self.stamp = now;
        match self.load(self.filter, host) {
            Ok(()) => {
                if let Some(run) = &self.run {
                    add_scores(&mut self.scene, &run.folder);
                }
                hub.set_history(&self.log());
                hub.replace_scene(self.scene.clone());
            }
            Err(failure) => {
                let line = format!("{failure}; the previous splats are still shown");
                hub.send_line(&line);
                host.warn("the splats", line);
            }
        }
    }

    /// Shows the splats that pass a filter; keeps the current ones if that fails.
    fn apply_filter(&mut self, filter: SplatFilter, hub: &Hub, host: &mut Host<'_>) {
        match self.load(filter, host) {
            Ok(()) => {
                self.filter = filter;
                self.scene.filter = Some(filter);
                hub.replace_scene(self.scene.clone());
            }
            Err(failure) => hub.send_line(&format!("{failure}; the previous splats are still shown")),
        }
    }

    /// Loads the splats that pass a filter to the device. If none passes, that is an error, and nothing changes.
    fn load(&mut self, filter: SplatFilter, host: &mut Host<'_>) -> Result<(), Failure> {
        let mut file = splat::load(&self.splats, &self.load)?;
        if self.filter == filter {
            // Warn once per file, not whenever another filter is applied.
            file.report.lines(&self.splats).into_iter().for_each(|line| host.warn("the splats", line));
        }
        save::apply_filter(&mut file, &filter);
        if file.splats.is_empty() {
            let what = if filter == SplatFilter::default() { "the file has" } else { "the filters leave" };
            return Err(Failure::new("splats", format!("{what} no splats")));
        }
        self.engine.load_splats(file.splats.clone(), Vec::new())?;
        self.scene_splats = scene_splat_count(&file);
        if let Some((maps, _)) = &mut self.depth_maps {
            maps.clear();
        }
        (self.options, self.scene) = with_render_options(self.run.as_ref(), &file, self.scene.clone());
        self.loads += 1;
        Ok(())
    }
}

/// A loader that reads photographs on demand and caches a few.
fn loader(dataset: Arc<Dataset>) -> Arc<Loader> {
    Arc::new(Loader::new(dataset, LoaderOptions { budget_bytes: PHOTO_CACHE_BYTES, threads: 0 }))
}

/// Render options of a file, and the scene with these options.
fn with_render_options(
    run: Option<&SavedRun>,
    file: &SplatFile,
    scene: SceneDescription,
) -> (RenderOptions, SceneDescription) {
    let options = run.map_or_else(|| file_render_options(file), SavedRun::render_options);
    let sky = file.splats.len() - file.scene_len();
    (options, scene.with_render_options(&options, file.splats.len(), sky))
}

/// Title of an input. A run is shown with its parent folder, since many runs are called `run`.
fn title(input: &Path) -> String {
    let whole = std::path::absolute(input).unwrap_or_else(|_| input.to_owned());
    let parts: Vec<_> = whole.iter().map(|part| part.display().to_string()).collect();
    let shown = if input.is_dir() { 2 } else { 1 };
    parts[parts.len().saturating_sub(shown)..].join("/")
}

/// Adds the PSNRs of the last evaluation to the cameras.
fn add_scores(scene: &mut SceneDescription, run: &Path) {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use gausset::broadcast::Received;
    use gausset_core::Splats;
    use gausset_io::splat::{Format, SaveOptions};

    use super::*;

    /// A file with a splat of this opacity at each x.
    fn ply(opacity: f32, places: &[f32]) -> Vec<u8> {
        let mut splats = Splats::with_capacity(0, places.len());
        for &x in places {
            splats.push(
                [x, 0.0, 3.0],
                [-2.0; 3],
                [1.0, 0.0, 0.0, 0.0],
                (opacity / (1.0 - opacity)).ln(),
                &[0.5; 3],
            );
        }
        let mut bytes = Vec::new();
        splat::write(&mut bytes, &SplatFile::new(splats), Format::Ply, &SaveOptions::default()).unwrap();
        bytes
    }

    #[test]
    fn pages_are_told_why_new_splats_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.ply");
        std::fs::write(&path, ply(0.9, &[0.0, 1.0])).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut ignore = |_| {};
        let mut host = Host::new(&stop, &mut ignore);
        let options = FileViewOptions {
            input: path.clone(),
            spz_frame: None,
            data: None,
            images: None,
            device: DeviceOptions::default(),
            threads: 1,
        };
        let mut shown = FileRenderer::open(&options, &mut host).unwrap();
        let hub = Hub::new(shown.scene().clone());
        let page = hub.attach().unwrap();
        let filter = SplatFilter { min_opacity: Some(0.5), ..SplatFilter::default() };
        shown.apply_filter(filter, &hub, &mut host);
        let mut told = |bytes: &[u8]| {
            while matches!(page.events.try_recv(), Received::Event(_)) {}
            std::fs::write(&path, bytes).unwrap();
            shown.reload(&hub, &mut host);
            let Received::Event(line) = page.events.try_recv() else { panic!("nothing is told") };
            (line.as_str().to_owned(), shown.scene().splats)
        };
        let kept = "the previous splats are still shown";
        let (line, splats) = told(&ply(0.9, &[0.0, 1.0, 2.0])[..200]);
        assert!(line.starts_with("{\"t\":\"error\",\"line\":") && line.contains(kept), "{line}");
        assert_eq!(splats, 2);
        let (line, splats) = told(&ply(0.1, &[0.0, 1.0, 2.0, 3.0]));
        assert!(line.contains(&format!("the filters leave no splats; {kept}")), "{line}");
        assert_eq!(splats, 2);
        let (line, splats) = told(&ply(0.9, &[0.0, 1.0, 2.0]));
        assert!(line.starts_with("{\"t\":\"scene\"") && splats == 3, "{line}");
    }
}
