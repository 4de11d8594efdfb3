//! The pictures of a split of a run, rendered and compared with the truth.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::se3::Mat3;
use gausset_io::atomic::{Disk, Overwrite, plain_reason};
use gausset_io::dataset::{self, Dataset, Loader, LoaderOptions, OpenOptions};
use gausset_io::reading::Reading;
use gausset_io::run_folder::{EVALUATION, eval_folder, evaluation_is_ours};
use gausset_io::{input, owned};
use gausset_train::{
    EvalError, EvalOptions, EvalReport, Exposures, LearntGains, Lpips, Measures, PictureFolder, Split,
    SsimDefinition, evaluate as evaluate_views,
};

use crate::device::DeviceOptions;
use crate::saved_run::{DataPlace, OtherData, SavedRun, file_options, load_splats, scene_splats, turn_of};
use crate::training::warn_of;
use crate::{Failure, Host};

/// Bytes that the pictures may take that a splat file is compared with.
const PICTURE_BYTES: usize = 512 << 20;

/// Which pictures of which run, and how they are compared.
#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// Folder of the run, or a splat file.
    pub run: PathBuf,
    /// Where the dataset is now; `None` = where the run found it. A splat file needs one.
    pub data: Option<PathBuf>,
    /// Which pictures.
    pub split: Split,
    /// Which SSIM.
    pub ssim: SsimDefinition,
    /// They are compared at 1/N of the size, blocks of N x N pixels averaged.
    pub reduction: u32,
    /// LPIPS is measured with the weights in this file.
    pub lpips: Option<PathBuf>,
    /// Folder for the pictures truth | render | error; `None` = RUN/eval, or RUN/eval/train.
    pub output: Option<PathBuf>,
    /// Splats closer to a camera than this are not drawn, in scene units; `None` = as trained.
    pub near_plane: Option<f64>,
    /// Files of others in the folder may be replaced.
    pub force: bool,
    /// The dataset may be another than the run's.
    pub accept_changed_data: bool,
    /// Pictures may have names that lead out of the picture folder.
    pub allow_outside: bool,
    /// Pictures may be missing.
    pub allow_missing: bool,
    /// What computes.
    pub device: DeviceOptions,
    /// Threads; 0 = all processors.
    pub threads: u32,
}

impl EvaluateOptions {
    /// The held-out pictures of a run; everything else as it is by default.
    #[must_use]
    pub fn new(run: impl Into<PathBuf>) -> Self {
        Self {
            run: run.into(),
            data: None,
            split: Split::Test,
            ssim: SsimDefinition::default(),
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

    fn place(&self) -> DataPlace<'_> {
        DataPlace {
            path: self.data.as_deref(),
            other: OtherData::accepted(self.accept_changed_data),
            allow_outside: self.allow_outside,
        }
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Evaluated {
    /// The scores.
    pub report: EvalReport,
    /// Where the pictures are.
    pub folder: PathBuf,
    /// Pictures that had to be left out, because they cannot be read or are missing.
    pub left_out: usize,
    /// Whether that is as it is to be.
    pub allow_missing: bool,
}

/// Renders the pictures of a split and compares them with the truth.
///
/// # Errors
/// No finished run, another dataset, files of somebody else in the way; the job was asked to stop.
pub fn evaluate(options: &EvaluateOptions, host: &mut Host<'_>) -> Result<Evaluated, Failure> {
    let splats = Some(&options.run).filter(|run| run.is_file());
    let _reading = Reading::of([splats, options.lpips.as_ref()].into_iter().flatten());
    // The result of a run in its folder is that of the run, with its dataset, gains and poses.
    let run = match options.run.is_file() {
        true => SavedRun::of_splats(&options.run),
        false => Some(SavedRun::read(&options.run)?),
    };
    // Reading needs no lock: what is in a run folder is whole, also while a training goes on.
    let is_written_to = run.as_ref().filter(|_| options.output.is_none());
    let _lock = is_written_to.map(SavedRun::share).transpose()?;
    let lpips = options.lpips.as_deref().map(read_lpips).transpose()?;
    let mut engine = options.device.engine_for(options.threads as usize, host)?;
    let seen = match &run {
        Some(run) => Seen::of_run(run, options, &mut *engine, host)?,
        None => Seen::of_file(options, &mut *engine, host)?,
    };
    let (folder, overwrite) = place_of(options, run.as_ref())?;
    let Seen { dataset, loader, exposures, render, scene_splats, splats_from_dataset } = seen;
    let eval_options = EvalOptions {
        exposures,
        split: options.split,
        most: None,
        render: RenderOptions { near_plane: options.near_plane.unwrap_or(render.near_plane), ..render },
        scene_splats,
        splats_from_dataset,
        reduction: options.reduction,
        ssim: options.ssim,
        measures: Measures::All,
        lpips: lpips.map(Arc::new),
    };
    let pictures = PictureFolder { fs: Arc::new(Disk), folder: folder.clone(), overwrite };
    let limit = eval_options.render.max_splats_per_tile;
    let report = match evaluate_views(&mut *engine, &loader, eval_options, Some(pictures), host.stop()) {
        Err(EvalError::Stopped) => return Err(Failure::stopped()),
        evaluated => evaluated?,
    };
    for view in &report.skipped {
        host.warn("pictures", format!("{}: skipped: {}", view.name, view.reason));
    }
    if let Some(warning) = report.cut_lists(limit) {
        host.warn("the tile lists", warning.to_string());
    }
    if report.images == 0 {
        let (root, split) = (dataset.root.display(), options.split);
        host.warn("the dataset", format!("{root}: split {split}: holds no picture"));
    }
    let left_out = report.skipped.len() + dataset.skipped.len();
    let of_run = run.is_some_and(|run| run.recorded.config.data.allow_missing);
    Ok(Evaluated { report, folder, left_out, allow_missing: options.allow_missing || of_run })
}

/// Splats on a device, and the pictures that they are compared with.
struct Seen {
    dataset: Arc<Dataset>,
    loader: Loader,
    exposures: Option<Exposures>,
    render: RenderOptions,
    scene_splats: Option<u32>,
    splats_from_dataset: Mat3,
}

impl Seen {
    fn of_run(
        run: &SavedRun,
        options: &EvaluateOptions,
        engine: &mut dyn Engine,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        let scene_splats = scene_splats(&run.load_splats(engine, host)?);
        let dataset = run.open_dataset(options.place(), host)?;
        Ok(Self {
            loader: run.loader(&dataset),
            exposures: LearntGains::read(&run.folder)?.map(|gains| gains.of_pictures(&dataset)),
            render: run.render_options(),
            splats_from_dataset: run.splats_from_dataset(),
            dataset,
            scene_splats,
        })
    }

    /// Nobody knows with which gains a file was trained, and in front of which background.
    fn of_file(
        options: &EvaluateOptions,
        engine: &mut dyn Engine,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        let path = &options.run;
        let Some(data) = &options.data else {
            let line = format!(
                "{}: dataset: not given (expected ⟨data = DIR⟩, whose pictures the splats are compared with; or the folder of a run)",
                path.display()
            );
            return Err(Failure::usage(line));
        };
        let file = load_splats(path, engine, host)?;
        let open = OpenOptions { allow_outside: options.allow_outside, ..OpenOptions::default() };
        let dataset = Arc::new(dataset::open(data, &open)?);
        warn_of(&dataset, host);
        Ok(Self {
            loader: Loader::new(
                Arc::clone(&dataset),
                LoaderOptions { budget_bytes: PICTURE_BYTES, threads: 1 },
            ),
            exposures: None,
            render: file_options(&file),
            scene_splats: scene_splats(&file),
            splats_from_dataset: turn_of(&file, path, host)?,
            dataset,
        })
    }
}

/// Reads the weights of LPIPS.
fn read_lpips(path: &Path) -> Result<Lpips, Failure> {
    let refused = |reason: String| Failure::new("read", format!("{}: LPIPS: {reason}", path.display()));
    let bytes = input::read(path, Lpips::MAX_FILE_BYTES).map_err(|error| refused(plain_reason(&error)))?;
    Lpips::from_bytes(&bytes).map_err(|error| refused(error.to_string()))
}

/// `scene-eval` for `scene.ply`.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push("-eval");
    file.with_file_name(name)
}

/// Where the pictures go, and whether files of others may be replaced there.
fn place_of(options: &EvaluateOptions, run: Option<&SavedRun>) -> Result<(PathBuf, Overwrite), Failure> {
    let forced = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    if let Some(folder) = &options.output {
        return Ok((folder.clone(), forced));
    }
    let mut folder = run.map_or_else(|| beside(&options.run), |run| eval_folder(&run.folder));
    if options.split == Split::Train {
        // Made before what is in it, so that it is known to be ours.
        owned::take(&Disk, &folder, EVALUATION, std::iter::empty::<&Path>(), forced)?;
        folder = folder.join("train");
    }
    let is_ours = evaluation_is_ours(&Disk, &folder);
    Ok((folder, if is_ours { Overwrite::Replace } else { forced }))
}
