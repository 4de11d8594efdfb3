//! A run without the splats that hang in space which cameras and points show to be empty, and what that changes.

use std::path::PathBuf;

use gausset_core::engine::Engine;
use gausset_io::atomic::{Disk, Overwrite, WriteOptions, refuse_existing};
use gausset_io::dataset::Dataset;
use gausset_io::splat::{self, SaveOptions};
use gausset_train::free_space::FreeViews;
use gausset_train::{
    EvalError, EvalOptions, EvalReport, LearntGains, Measures, MemoryPlan, Split, SsimDefinition, clean,
    evaluate,
};
use serde::Serialize;

use crate::device::DeviceOptions;
use crate::saved_run::{DataPlace, OtherData, SavedRun};
use crate::{Failure, Host, convert};

/// Which run, and where the cleaned splats go.
#[derive(Clone, Debug)]
pub struct CleanOptions {
    /// Folder of a finished run.
    pub run: PathBuf,
    /// Splat file to write, in the format of its name.
    pub output: PathBuf,
    /// Where the dataset is now; `None` = where the run found it.
    pub data: Option<PathBuf>,
    /// The file may be replaced.
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

/// What was done: a stable contract.
#[derive(Debug, Serialize)]
pub struct Cleaned {
    /// Splats of the run.
    pub splats: usize,
    /// Those that were removed.
    pub removed: usize,
    /// Scores of the held-out pictures with all splats.
    pub before: EvalReport,
    /// The same without those that were removed.
    pub after: EvalReport,
    /// Bytes of the file.
    #[serde(skip)]
    pub bytes: u64,
    /// Whether pictures had to be left out.
    #[serde(skip)]
    pub has_skipped: bool,
}

/// Removes what hangs in the air before the cameras of a run, and writes what is left.
///
/// # Errors
/// A file of another kind, no finished run, another dataset or one without points; the job was asked to stop.
pub fn clean_run(options: &CleanOptions, host: &mut Host<'_>) -> Result<Cleaned, Failure> {
    let output = &options.output;
    let format = convert::format_of(output, "")?;
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let run = SavedRun::read(&options.run)?;
    refuse_existing(&Disk, output, overwrite)?;
    let mut engine = options.device.engine_for(options.threads as usize, host)?;
    let file = run.load_splats(&mut *engine, host)?;
    let place = DataPlace {
        path: options.data.as_deref(),
        other: OtherData::accepted(options.accept_changed_data),
        allow_outside: options.allow_outside,
    };
    let dataset = run.open_dataset(place, host)?;
    let space = free_space(&run, &dataset)?;
    let exposures = LearntGains::read(&run.folder)?.map(|gains| gains.of_pictures(&dataset));
    let loader = run.loader(&dataset);
    let turn = run.splats_from_dataset();
    let score = |engine: &mut dyn Engine, scene: usize| {
        let options = EvalOptions {
            split: Split::Test,
            most: None,
            render: run.render_options(),
            scene_splats: (file.sky > 0).then_some(scene as u32),
            exposures: exposures.clone(),
            splats_from_dataset: turn,
            reduction: 1,
            ssim: SsimDefinition::default(),
            measures: Measures::All,
            lpips: None,
        };
        match evaluate(engine, &loader, options, None, host.stop()) {
            Err(EvalError::Stopped) => Err(Failure::stopped()),
            scored => Ok(scored?),
        }
    };

    let before = score(&mut *engine, file.scene_len())?;
    let seed = run.recorded.config.recipe.seed;
    let stays = clean::keep(&mut *engine, &file.scene(), &turn, &space, seed)?;
    let scene: Vec<usize> = (0..file.scene_len()).filter(|&i| stays[i]).collect();
    let kept: Vec<usize> = scene.iter().copied().chain(file.scene_len()..file.splats.len()).collect();
    let splats = file.splats.select(&kept);
    let removed = file.splats.len() - splats.len();
    engine.load_splats(splats.clone(), Vec::new())?;
    let after = score(&mut *engine, scene.len())?;

    let write = WriteOptions { label: "splats", overwrite, ..WriteOptions::default() };
    let save = SaveOptions { format: Some(format), ..SaveOptions::default() };
    let cleaned = file.with_splats(splats, file.sky);
    let bytes = splat::save(&Disk, output, &cleaned, &save, &write)?.bytes;
    let has_skipped = !before.skipped.is_empty() || dataset.has_skipped();
    let has_skipped = has_skipped && !run.recorded.config.data.allow_missing;
    Ok(Cleaned { splats: file.splats.len(), removed, before, after, bytes, has_skipped })
}

/// What the points of a dataset show to be empty.
fn free_space(run: &SavedRun, dataset: &Dataset) -> Result<FreeViews, Failure> {
    let memory = MemoryPlan::tracks_budget(run.recorded.config.max_memory_bytes());
    FreeViews::of(dataset, dataset.read_tracks(memory)?).ok_or_else(|| {
        let line = format!(
            "{}: points: none that neighbouring cameras share (expected the points of a reconstruction, which show \
             what is empty)",
            dataset.root.display()
        );
        Failure::new("dataset", line)
    })
}
