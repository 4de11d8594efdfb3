//! Renders the views of a split and compares them with the photographs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::{Disk, Overwrite, plain_reason};
use gausset_io::dataset::{self, Dataset, Loader, LoaderOptions, OpenOptions};
use gausset_io::input_files::InputFiles;
use gausset_io::run_folder::{EVALUATION_MARKER, eval_folder, evaluation_is_gausset_owned};
use gausset_io::splat::{self, SpzAxes};
use gausset_io::{input, ownership};
use gausset_train::{
    EvalError, EvalOptions, EvalOutput, EvalReport, Exposures, LearntGains, Lpips, MetricSet, Split,
    SsimDefinition, evaluate as evaluate_views,
};

use crate::device::DeviceOptions;
use crate::saved_run::{
    ChangedData, DataLocation, SavedRun, check_near_plane, file_render_options, load_splats, open_beside,
    scene_splat_count, splats_from_dataset_of,
};
use crate::training::warn_about_dataset;
use crate::{Failure, Host};

/// Memory for the photographs in bytes when a splat file is evaluated.
const IMAGE_CACHE_BYTES: usize = 512 << 20;

/// Options of [`evaluate()`].
#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// Run folder or splat file.
    pub run: PathBuf,
    /// Path of the dataset; `None` = where the run found it. Required for a splat file.
    pub data: Option<PathBuf>,
    /// Folder of its photographs; `None` = where the run found them, or the dataset's own.
    pub images: Option<PathBuf>,
    /// Axes of an SPZ file that does not specify them.
    pub spz_frame: Option<SpzAxes>,
    /// Split to evaluate.
    pub split: Split,
    /// Definition of SSIM.
    pub ssim: SsimDefinition,
    /// Longest side of the images in px, for a splat file; `None` = 1600, 0 = as stored. A run has its own.
    pub max_resolution: Option<u32>,
    /// Compare at 1/N of the size: blocks of N x N pixels are averaged.
    pub reduction: u32,
    /// File with LPIPS weights; `None` = LPIPS is not measured.
    pub lpips: Option<PathBuf>,
    /// Folder for the comparison images (photograph | render | error); `None` = RUN/eval, or RUN/eval/train.
    pub output: Option<PathBuf>,
    /// Distance in scene units below which splats are not rendered; `None` = as trained.
    pub near_plane: Option<f64>,
    /// Replace files in the folder that Gausset did not create.
    pub force: bool,
    /// Accept a dataset that differs from the run's.
    pub accept_changed_data: bool,
    /// Accept image names that lead out of the image folder.
    pub allow_outside: bool,
    /// Do not fail if images are missing.
    pub allow_missing: bool,
    /// Device for rendering.
    pub device: DeviceOptions,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
}

impl EvaluateOptions {
    /// Evaluates the held-out views of a run, with defaults for everything else.
    #[must_use]
    pub fn new(run: impl Into<PathBuf>) -> Self {
        Self {
            run: run.into(),
            data: None,
            images: None,
            spz_frame: None,
            split: Split::Test,
            ssim: SsimDefinition::default(),
            max_resolution: None,
            reduction: 1,
            lpips: None,
            output: None,
            near_plane: None,
            force: false,
            accept_changed_data: false,
            allow_outside: false,
            allow_missing: false,
            device: DeviceOptions::default(),
            threads: 0,
        }
    }

    fn data_place(&self) -> DataLocation<'_> {
        DataLocation {
            path: self.data.as_deref(),
            images: self.images.as_deref(),
            if_changed: ChangedData::accepted(self.accept_changed_data),
            allow_outside: self.allow_outside,
        }
    }
}

/// Result of [`evaluate()`].
#[derive(Debug)]
#[non_exhaustive]
pub struct EvaluateResult {
    /// Scores of all views, and their means.
    pub report: EvalReport,
    /// Folder of the comparison images.
    pub folder: PathBuf,
    /// Images that were skipped because they are missing or unreadable.
    pub skipped: usize,
    /// Whether missing images are allowed, by these options or by the run.
    pub allow_missing: bool,
}

/// Renders the views of a split, compares them with the photographs and writes comparison images.
///
/// # Errors
/// No finished run, another dataset, files in the output folder that Gausset did not create, or the job was asked to
/// stop.
pub fn evaluate(options: &EvaluateOptions, host: &mut Host<'_>) -> Result<EvaluateResult, Failure> {
    check_near_plane(options.near_plane)?;
    let splats = Some(&options.run).filter(|run| run.is_file());
    let _reading = InputFiles::new([splats, options.lpips.as_ref()].into_iter().flatten());
    // The result file inside a run folder is evaluated with the dataset, gains and poses of that run.
    let run = match options.run.is_file() {
        true => SavedRun::from_splat_file(&options.run),
        false if splat::recognise(&options.run).is_some() => None,
        false => Some(SavedRun::read(&options.run)?),
    };
    // Reading needs no lock: files in a run folder are always complete, even during training.
    let is_written_to = run.as_ref().filter(|_| options.output.is_none());
    let _lock = is_written_to.map(SavedRun::lock_shared).transpose()?;
    let lpips = options.lpips.as_deref().map(read_lpips).transpose()?;
    if run.is_some() && options.max_resolution.is_some() {
        let line = format!(
            "{}: is evaluated at the size it was trained at (without ⟨max-resolution⟩)",
            options.run.display()
        );
        return Err(Failure::usage(line));
    }
    let mut engine = options.device.engine_for(options.threads as usize, host)?;
    let seen = match &run {
        Some(run) => EvaluationInput::from_run(run, options, &mut *engine, host)?,
        None => EvaluationInput::from_file(options, &mut *engine, host)?,
    };
    let (folder, overwrite) = output_folder(options, run.as_ref())?;
    let EvaluationInput { dataset, loader, exposures, render, scene_splats, splats_from_dataset } = seen;
    let eval_options = EvalOptions {
        exposures,
        split: options.split,
        max_views: None,
        render: RenderOptions { near_plane: options.near_plane.unwrap_or(render.near_plane), ..render },
        scene_splats,
        splats_from_dataset,
        reduction: options.reduction,
        ssim: options.ssim,
        measures: MetricSet::All,
        lpips: lpips.map(Arc::new),
    };
    let pictures = EvalOutput { fs: Arc::new(Disk), folder: folder.clone(), overwrite };
    let limit = eval_options.render.max_splats_per_tile;
    let report = match evaluate_views(&mut *engine, &loader, eval_options, Some(pictures), host.stop()) {
        Err(EvalError::Stopped) => return Err(Failure::stopped()),
        evaluated => evaluated?,
    };
    for view in &report.skipped {
        host.warn("pictures", format!("{}: skipped: {}", view.name, view.reason));
    }
    if let Some(warning) = report.truncation_warning(limit) {
        host.warn("the tile lists", warning.to_string());
    }
    if report.images == 0 {
        let (root, split) = (dataset.root.display(), options.split);
        host.warn("the dataset", format!("{root}: split {split}: contains no images"));
    }
    let left_out = report.skipped.len() + dataset.skipped.len();
    let of_run = run.is_some_and(|run| run.recorded.config.data.allow_missing);
    Ok(EvaluateResult { report, folder, skipped: left_out, allow_missing: options.allow_missing || of_run })
}

/// Splats loaded on a device, and the views to compare them with.
struct EvaluationInput {
    dataset: Arc<Dataset>,
    loader: Loader,
    exposures: Option<Exposures>,
    render: RenderOptions,
    scene_splats: Option<u32>,
    splats_from_dataset: Similarity,
}

impl EvaluationInput {
    fn from_run(
        run: &SavedRun,
        options: &EvaluateOptions,
        engine: &mut dyn Engine,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        let scene_splats =
            scene_splat_count(&load_splats(&run.trained_splats()?, options.spz_frame, engine, host)?);
        let dataset = run.open_dataset(options.data_place(), host)?;
        Ok(Self {
            loader: run.loader(&dataset),
            exposures: LearntGains::read(&run.folder)?.map(|gains| gains.exposures(&dataset)),
            render: run.render_options(),
            splats_from_dataset: run.splats_from_dataset(),
            dataset,
            scene_splats,
        })
    }

    /// Sets up a splat file without its run: exposure gains and background are unknown.
    fn from_file(
        options: &EvaluateOptions,
        engine: &mut dyn Engine,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        let path = &options.run;
        let Some(data) = &options.data else {
            let line = format!(
                "{}: dataset: not given (expected ⟨data = DIR⟩ with images to compare the splats with, or a run folder)",
                path.display()
            );
            return Err(Failure::usage(line));
        };
        let file = load_splats(path, options.spz_frame, engine, host)?;
        let beside = open_beside(&file, options.images.as_deref(), options.allow_outside);
        let max_resolution = options.max_resolution.unwrap_or(beside.max_resolution);
        let open = OpenOptions { max_resolution, ..beside };
        let dataset = Arc::new(dataset::open(data, &open)?);
        warn_about_dataset(&dataset, host);
        Ok(Self {
            loader: Loader::new(
                Arc::clone(&dataset),
                LoaderOptions { budget_bytes: IMAGE_CACHE_BYTES, threads: 1 },
            ),
            exposures: None,
            render: file_render_options(&file),
            scene_splats: scene_splat_count(&file),
            splats_from_dataset: splats_from_dataset_of(&file, path, host),
            dataset,
        })
    }
}

/// Reads the LPIPS weights.
fn read_lpips(path: &Path) -> Result<Lpips, Failure> {
    let refused = |reason: String| Failure::new("read", format!("{}: LPIPS: {reason}", path.display()));
    let bytes = input::read(path, Lpips::MAX_FILE_BYTES).map_err(|error| refused(plain_reason(&error)))?;
    Lpips::from_bytes(&bytes).map_err(|error| refused(error.to_string()))
}

/// The default output folder: `scene-eval` for `scene.ply`.
fn default_folder(file: &Path) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push("-eval");
    file.with_file_name(name)
}

/// Output folder, and whether files in it may be replaced.
fn output_folder(options: &EvaluateOptions, run: Option<&SavedRun>) -> Result<(PathBuf, Overwrite), Failure> {
    let forced = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    if let Some(folder) = &options.output {
        return Ok((folder.clone(), forced));
    }
    let mut folder = run.map_or_else(|| default_folder(&options.run), |run| eval_folder(&run.folder));
    if options.split == Split::Train {
        // Claim the parent folder first, so that it carries the ownership marker.
        ownership::claim_for_files(&Disk, &folder, EVALUATION_MARKER, std::iter::empty::<&Path>(), forced)?;
        folder = folder.join("train");
    }
    let is_ours = evaluation_is_gausset_owned(&Disk, &folder);
    Ok((folder, if is_ours { Overwrite::Replace } else { forced }))
}
