//! Removes floating splats from a finished run: those in space that its cameras and points show to be empty.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::engine::Engine;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, check_free};
use gausset_io::dataset::Dataset;
use gausset_io::splat::{self, SaveOptions};
use gausset_train::free_space::FreeSpaceViews;
use gausset_train::{
    EvalError, EvalOptions, EvalReport, LearntGains, MemoryPlan, MetricSet, Split, SsimDefinition, evaluate,
    floaters,
};
use serde::Serialize;

use crate::device::DeviceOptions;
use crate::saved_run::{ChangedData, DataLocation, SavedRun};
use crate::{Failure, Host, convert};

/// Options of [`clean_run()`].
#[derive(Clone, Debug)]
pub struct CleanOptions {
    /// Folder of a finished run.
    pub run: PathBuf,
    /// Splat file to write, in the format of its name.
    pub output: PathBuf,
    /// Path of the dataset; `None` = where the run found it.
    pub data: Option<PathBuf>,
    /// Folder of its photographs; `None` = where the run found them, or the dataset's own.
    pub images: Option<PathBuf>,
    /// Replace an existing output file.
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

/// Result of [`clean_run()`]; its JSON form is a stable contract.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CleanResult {
    /// Splats before cleaning.
    pub splats: usize,
    /// Number of splats removed.
    pub removed: usize,
    /// Scores of the held-out views before cleaning.
    pub before: EvalReport,
    /// Scores of the held-out views after cleaning.
    pub after: EvalReport,
    /// Size of the output file in bytes.
    #[serde(skip)]
    pub bytes: u64,
    /// Whether images were skipped that the run did not allow to be missing.
    #[serde(skip)]
    pub has_skipped: bool,
}

/// Removes the floating splats of a run, writes the others, and evaluates both on the held-out views.
///
/// # Errors
/// An unknown output format, no finished run, another dataset, a dataset without points, or the job was asked to stop.
pub fn clean_run(options: &CleanOptions, host: &mut Host<'_>) -> Result<CleanResult, Failure> {
    let output = &options.output;
    let format = convert::format_of(output, "")?;
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let run = SavedRun::read(&options.run)?;
    check_free(&Disk, output, overwrite)?;
    let mut engine = options.device.engine_for(options.threads as usize, host)?;
    let file = run.load_splats(&mut *engine, host)?;
    let place = DataLocation {
        path: options.data.as_deref(),
        images: options.images.as_deref(),
        if_changed: ChangedData::accepted(options.accept_changed_data),
        allow_outside: options.allow_outside,
    };
    let dataset = run.open_dataset(place, host)?;
    // The rule has distances of its own, which are those of the coordinates of training.
    let mut normalised = (*dataset).clone();
    normalised.normalise(run.recorded.record.normalisation);
    let space = free_space(&run, &normalised, host.stop())?;
    let exposures = LearntGains::read(&run.folder)?.map(|gains| gains.exposures(&dataset));
    let loader = run.loader(&dataset);
    let turn = run.splats_from_dataset();
    let score = |engine: &mut dyn Engine, scene: usize| {
        let options = EvalOptions {
            split: Split::Test,
            max_views: None,
            render: run.render_options(),
            scene_splats: (file.sky > 0).then_some(scene as u32),
            exposures: exposures.clone(),
            splats_from_dataset: turn,
            reduction: 1,
            ssim: SsimDefinition::default(),
            measures: MetricSet::All,
            lpips: None,
        };
        match evaluate(engine, &loader, options, None, host.stop()) {
            Err(EvalError::Stopped) => Err(Failure::stopped()),
            scored => Ok(scored?),
        }
    };

    let before = score(&mut *engine, file.scene_len())?;
    let seed = run.recorded.config.recipe.seed;
    let saved_from_normalised = run.recorded.record.saved_from_normalised();
    let stays = floaters::splats_to_keep(&mut *engine, &file.scene(), &saved_from_normalised, &space, seed)?;
    let scene: Vec<usize> = (0..file.scene_len()).filter(|&i| stays[i]).collect();
    let kept: Vec<usize> = scene.iter().copied().chain(file.scene_len()..file.splats.len()).collect();
    let splats = file.splats.select(&kept);
    let removed = file.splats.len() - splats.len();
    engine.load_splats(splats.clone(), Vec::new())?;
    let after = score(&mut *engine, scene.len())?;

    let write = WriteOptions { label: "splats", overwrite, ..WriteOptions::default() };
    let save = SaveOptions { format: Some(format), ..SaveOptions::default() };
    let mut cleaned = file.with_splats(splats, file.sky);
    if convert::is_sky_dropped(format, &cleaned) {
        let line =
            format!("{}: written without the sky, which programs that read it would show", output.display());
        host.warn("the splats", line);
        cleaned = file.with_splats(cleaned.scene().into_owned(), 0);
    }
    let saved = splat::save(&Disk, output, &cleaned, &save, &write)?;
    for line in saved.losses().into_iter().chain(saved.coarse_positions()) {
        host.warn("the splats", format!("{}: {line}", output.display()));
    }
    let bytes = saved.bytes;
    let has_skipped = !before.skipped.is_empty() || dataset.has_skipped();
    let has_skipped = has_skipped && !run.recorded.config.data.allow_missing;
    Ok(CleanResult { splats: file.splats.len(), removed, before, after, bytes, has_skipped })
}

/// The empty space that the points and cameras of a dataset imply.
fn free_space(run: &SavedRun, dataset: &Dataset, stop: &AtomicBool) -> Result<FreeSpaceViews, Failure> {
    let memory = MemoryPlan::tracks_budget(run.recorded.config.max_memory_bytes());
    let space = FreeSpaceViews::new(dataset, dataset.read_tracks(memory)?, stop);
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::stopped());
    }
    space.ok_or_else(|| {
        let line = format!(
            "{}: points: none are shared by neighbouring cameras (expected the points of a reconstruction, which show \
             what is empty)",
            dataset.root.display()
        );
        Failure::new("dataset", line)
    })
}
