//! `gausset clean`: removes the splats that hang in space which cameras and points show to be empty, and tells what that
//! changes.

use std::path::PathBuf;

use clap::Args;
use gausset_core::engine::{Engine, TrainState};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::dataset::Dataset;
use gausset_io::splat::ply::{PlyOptions, save_ply};
use gausset_io::units;
use gausset_train::free_space::FreeViews;
use gausset_train::{
    EvalError, EvalOptions, EvalReport, LearntGains, Measures, MemoryPlan, Split, SsimDefinition, clean,
    evaluate,
};
use serde::Serialize;

use super::saved_run::{DataPlace, OtherData, SavedRun};
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::numbers::grouped;
use crate::table::{self, Align};

const AFTER_HELP: &str = "\
Examples:
  gausset clean run/ -o clean.ply            what hangs in the air is gone; the run stays as it is
  gausset clean run/ -o clean.ply --json | jq .after.psnr
Empty is the space around the cameras and on the ways between neighbours, up to 0.7 of the distance
of the nearest points, and the first 0.3 of the way to points that are seen (docs/density.md). Runs
clear it while they train, until 5/6 of their steps; this finds what came since, and what older runs
left. The scores are those of the held-out pictures before and after.";

/// Arguments of `clean`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CleanArgs {
    /// Folder of a finished run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// PLY file to write.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Where the dataset is now [default: where the run found it].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Replace OUT if it exists, and accept a dataset that is not the run's.
    #[arg(long)]
    force: bool,
    /// Take pictures whose names lead out of the picture folder (by `..` or as absolute paths).
    #[arg(long)]
    allow_outside: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// What was done: a stable contract.
#[derive(Debug, Serialize)]
struct Cleaned {
    /// Splats of the run.
    splats: usize,
    /// Those that were removed.
    removed: usize,
    /// Scores of the held-out pictures with all splats.
    before: EvalReport,
    /// The same without those that were removed.
    after: EvalReport,
}

/// Runs the command.
pub(crate) fn run(args: &CleanArgs, console: &Console) -> Result<Status, Ending> {
    if args.output.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("ply")) {
        let line = format!(
            "{}: name: no known splat format (expected a name that ends in .ply)",
            args.output.display()
        );
        return Err(Failure::usage(line).into());
    }
    let run = SavedRun::read(&args.run)?;
    let mut engine = args.compute.engine().map_err(Failure::from)?;
    let file = run.load_splats(&mut *engine, console)?;
    let place = DataPlace {
        path: args.data.as_deref(),
        other: OtherData::forced(args.force),
        allow_outside: args.allow_outside,
    };
    let dataset = run.open_dataset(place, console)?;
    let space = free_space(&run, &dataset)?;
    let gains = LearntGains::read(&run.folder).map_err(Failure::from)?;
    let exposures = gains.map(|gains| gains.of_pictures(&dataset));
    let interrupt = Interrupt::watch();
    let loader = run.loader(&dataset);
    let turn = run.splats_from_dataset();
    let score = |engine: &mut dyn Engine, scene: usize| {
        let options = EvalOptions {
            split: Split::Test,
            most: None,
            render: run.render_options(),
            scene_splats: (file.sky > 0).then_some(scene as u32),
            exposures: exposures.as_ref(),
            splats_from_dataset: turn,
            reduction: 1,
            ssim: SsimDefinition::default(),
            measures: Measures::All,
            lpips: None,
        };
        evaluate(engine, &loader, &options, None, interrupt.stop())
    };
    let stopped = || Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt));

    let before = match score(&mut *engine, file.scene_len()) {
        Err(EvalError::Stopped) => return Ok(stopped()),
        scored => scored.map_err(Failure::from)?,
    };
    let seed = run.recorded.config.recipe.seed;
    let stays = clean::keep(&mut *engine, &file.scene(), &turn, &space, seed).map_err(Failure::from)?;
    let scene: Vec<usize> = (0..file.scene_len()).filter(|&i| stays[i]).collect();
    let kept: Vec<usize> = scene.iter().copied().chain(file.scene_len()..file.splats.len()).collect();
    let splats = file.splats.select(&kept);
    let removed = file.splats.len() - splats.len();
    engine.load(TrainState::new(splats.clone(), Vec::new())).map_err(Failure::from)?;
    let after = match score(&mut *engine, scene.len()) {
        Err(EvalError::Stopped) => return Ok(stopped()),
        scored => scored.map_err(Failure::from)?,
    };

    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let write = WriteOptions { label: "splats", overwrite, ..WriteOptions::default() };
    let options = PlyOptions {
        normals: true,
        antialiased: file.antialiased,
        vertical_axis: file.vertical_axis,
        sky: file.sky,
    };
    let written = save_ply(&Disk, &args.output, &splats, &options, &write).map_err(Failure::from)?;
    let is_partial = !before.skipped.is_empty() || dataset.has_skipped();
    let cleaned = Cleaned { splats: file.splats.len(), removed, before, after };
    console.object_or(&cleaned, || {
        let size = units::bytes(written.bytes);
        let line = format!(
            "{}: {} of {} splats removed, {size}\n",
            args.output.display(),
            grouped(removed as u64),
            grouped(cleaned.splats as u64)
        );
        cleaned.table() + &line
    })?;
    Ok(Status::done(is_partial))
}

/// What the points of a dataset show to be empty.
fn free_space(run: &SavedRun, dataset: &Dataset) -> Result<FreeViews, Failure> {
    let memory = MemoryPlan::tracks_budget(run.recorded.config.max_memory_bytes());
    let tracks = dataset.read_tracks(memory).map_err(Failure::from)?;
    FreeViews::of(dataset, tracks).ok_or_else(|| {
        let line = format!(
            "{}: points: none that neighbouring cameras share (expected the points of a reconstruction, which show \
             what is empty)",
            dataset.root.display()
        );
        Failure::new("dataset", line)
    })
}

impl Cleaned {
    /// The scores before and after, as a table.
    fn table(&self) -> String {
        let header =
            [("", Align::Left), ("before", Align::Right), ("after", Align::Right), ("change", Align::Right)];
        let [a, b] = [&self.before, &self.after];
        let worst =
            |report: &EvalReport| report.per_image.iter().filter_map(|picture| picture.psnr).reduce(f64::min);
        let rows = [
            ("PSNR", a.psnr, b.psnr, 2),
            ("worst picture", worst(a), worst(b), 2),
            ("SSIM", a.ssim, b.ssim, 4),
            ("CC-PSNR", a.scores.psnr_colour_corrected, b.scores.psnr_colour_corrected, 2),
            ("CC-SSIM", a.scores.ssim_colour_corrected, b.scores.ssim_colour_corrected, 4),
            ("co-visible", a.scores.psnr_covisible, b.scores.psnr_covisible, 2),
            ("share", a.scores.covisible_share, b.scores.covisible_share, 3),
            ("haze", a.scores.haze, b.scores.haze, 3),
        ];
        let rows = rows.iter().filter_map(|&(name, before, after, digits)| {
            let (before, after) = (before?, after?);
            let number = |value: f64| format!("{value:.digits$}");
            Some(vec![
                name.to_owned(),
                number(before),
                number(after),
                format!("{:+.digits$}", after - before),
            ])
        });
        table::columns(&header, &rows.collect::<Vec<_>>())
    }
}
