//! The pictures of a split of a run, rendered and compared with the truth.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::engine::RenderOptions;
use gausset_io::atomic::{Disk, Overwrite, plain_reason};
use gausset_io::run_folder::{EVALUATION, eval_folder, evaluation_is_ours};
use gausset_io::{input, owned};
use gausset_train::{
    EvalError, EvalOptions, EvalReport, LearntGains, Lpips, Measures, PictureFolder, Split, SsimDefinition,
    evaluate as evaluate_views,
};

use crate::device::DeviceOptions;
use crate::saved_run::{DataPlace, OtherData, SavedRun, scene_splats};
use crate::{Failure, Host};

/// Which pictures of which run, and how they are compared.
#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// Folder of the run.
    pub run: PathBuf,
    /// Where the dataset is now; `None` = where the run found it.
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
    /// Files of others in the folder may be replaced, and the dataset may be another than the run's.
    pub force: bool,
    /// Pictures may have names that lead out of the picture folder.
    pub allow_outside: bool,
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
            allow_outside: false,
            device: DeviceOptions::default(),
            threads: 0,
        }
    }

    /// How the views are rendered.
    fn render(&self, run: &SavedRun) -> RenderOptions {
        let options = run.render_options();
        RenderOptions { near_plane: self.near_plane.unwrap_or(options.near_plane), ..options }
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Evaluated {
    /// The scores.
    pub report: EvalReport,
    /// Where the pictures are.
    pub folder: PathBuf,
    /// Whether pictures had to be left out.
    pub has_skipped: bool,
}

/// Renders the pictures of a split and compares them with the truth.
///
/// # Errors
/// No finished run, another dataset, files of somebody else in the way; the job was asked to stop.
pub fn evaluate(options: &EvaluateOptions, host: &mut Host<'_>) -> Result<Evaluated, Failure> {
    let run = SavedRun::read(&options.run)?;
    // Reading needs no lock: what is in a run folder is whole, also while a training goes on.
    let _lock = if options.output.is_none() { Some(run.share()?) } else { None };
    let lpips = options.lpips.as_deref().map(read_lpips).transpose()?;
    let mut engine = options.device.engine(options.threads as usize)?;
    let scene_splats = scene_splats(&run.load_splats(&mut *engine, host)?);
    let place = DataPlace {
        path: options.data.as_deref(),
        other: OtherData::forced(options.force),
        allow_outside: options.allow_outside,
    };
    let dataset = run.open_dataset(place, host)?;
    let (folder, overwrite) = place_of(options)?;
    let exposures = LearntGains::read(&run.folder)?.map(|gains| gains.of_pictures(&dataset));
    let eval_options = EvalOptions {
        exposures,
        split: options.split,
        most: None,
        render: options.render(&run),
        scene_splats,
        splats_from_dataset: run.splats_from_dataset(),
        reduction: options.reduction,
        ssim: options.ssim,
        measures: Measures::All,
        lpips: lpips.map(Arc::new),
    };
    let loader = run.loader(&dataset);
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
    let has_skipped = !report.skipped.is_empty() || dataset.has_skipped();
    Ok(Evaluated { report, folder, has_skipped })
}

/// Reads the weights of LPIPS.
fn read_lpips(path: &Path) -> Result<Lpips, Failure> {
    let refused = |reason: String| Failure::new("read", format!("{}: LPIPS: {reason}", path.display()));
    let bytes = input::read(path, Lpips::MAX_FILE_BYTES).map_err(|error| refused(plain_reason(&error)))?;
    Lpips::from_bytes(&bytes).map_err(|error| refused(error.to_string()))
}

/// Where the pictures go, and whether files of others may be replaced there.
fn place_of(options: &EvaluateOptions) -> Result<(PathBuf, Overwrite), Failure> {
    let forced = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    if let Some(folder) = &options.output {
        return Ok((folder.clone(), forced));
    }
    let mut folder = eval_folder(&options.run);
    if options.split == Split::Train {
        // Made before what is in it, so that it is known to be ours.
        owned::take(&Disk, &folder, EVALUATION, std::iter::empty::<&Path>(), forced)?;
        folder = folder.join("train");
    }
    // What version 0.1 put into a run folder has no marker, and is ours all the same.
    let is_ours = evaluation_is_ours(&Disk, &folder);
    Ok((folder, if is_ours { Overwrite::Replace } else { forced }))
}
