//! `gausset pano run`: cuts, aligns and trains panoramas, in stages that can be resumed.

use std::path::PathBuf;

use clap::Args;
use gausset::Host;
use gausset::panos::MaskStatistics;
use gausset::panos::run as pano_run;
use gausset::panos::{ColourOptions, FrameMaskOptions, FrameOptions, PanoOptions, PanoRun, TrainViewOptions};
use gausset_train::TrainOptions;
use serde::Serialize;

use super::align::{AlignerArgs, ToolArgs, TrackArgs};
use crate::commands::overwrite;
use crate::commands::training::{RunOutputArgs, WithLeftOut, exit_status, summary_json, training_status};
use crate::commands::viewer::ViewerArgs;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::event_log;
use crate::events::run_job_with_viewer;
use crate::exit::Status;
use crate::footage::FootageArgs;
use crate::interrupt::Interrupt;
use crate::options::{ExtraOptionArgs, OptionArgs, PanoRunCommand};
use crate::{EarlyExit, describe, table};

const AFTER_HELP: &str = "\
Examples:
  gausset pano run walk/ -o out/                   writes out/run/splats.ply and out/run/eval/
  gausset pano run walk/ -o out/ --crop-bottom 35 --quality fast
  gausset pano run walk/ -o out/ -- --time-budget 10m     training options after --
Exposure and pose are corrected per panorama, unless --exposure off or --refine-poses=false is given.
The same command resumes an interrupted run.";

/// Arguments of `pano run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Input panoramas or video, as for `pano split`.
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// Output folder for views, model and run.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    views: FootageArgs<TrainViewOptions>,
    #[command(flatten)]
    masking: FootageArgs<FrameMaskOptions>,
    #[command(flatten)]
    choice: FootageArgs<FrameOptions>,
    #[command(flatten)]
    colours: FootageArgs<ColourOptions>,
    #[command(flatten)]
    aligner: AlignerArgs,
    #[command(flatten)]
    tool: ToolArgs,
    #[command(flatten)]
    track: TrackArgs,
    /// Hold out every N-th frame for evaluation [default: 4, with 16 or more frames 8].
    #[arg(long, value_name = "N", help_heading = "Run")]
    test_every: Option<u32>,
    #[command(flatten)]
    options: OptionArgs<PanoRunCommand>,
    #[command(flatten)]
    more: ExtraOptionArgs,
    /// Replace existing results in DIR; cut views again if their options changed, and train again.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    records: RunOutputArgs,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    viewer: ViewerArgs,
}

/// The result.
#[derive(Debug, Serialize)]
struct PanoRunResult<'a> {
    schema: u32,
    kind: &'static str,
    frames: usize,
    registered: usize,
    /// Name and version of the aligner.
    tool: &'a str,
    /// How much of the frames was masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    masks: Option<&'a MaskStatistics>,
    points: u64,
    mean_reprojection_px: f64,
    /// Whether one unit is a metre, from GPS positions or a GPS track.
    is_metric: bool,
    /// Georeference of the world, from a GPS track.
    #[serde(skip_serializing_if = "Option::is_none")]
    earth: Option<&'a gausset_pano::export::Georeference>,
    /// Relative pose of two lenses that were aligned separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    lenses: Option<&'a gausset_pano::lens_pose::LensRelation>,
    training: WithLeftOut<'a, gausset_train::RunSummary>,
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let given = args.more.merge(args.options.clone())?;
    let options = PanoOptions {
        views: args.views.0.clone(),
        masking: args.masking.0.clone(),
        colours: args.colours.0.clone(),
        frames: args.choice.0.clone(),
        tool: args.aligner.tool_options(&args.tool, args.compute.threads),
        known: args.track.known_poses(),
        training: TrainOptions { test_every: args.test_every, threads: Some(args.compute.threads), ..given },
        overwrite: overwrite(args.force),
        threads: args.compute.threads,
        ..PanoOptions::new(&args.input, &args.output)
    };
    let conditions = args.records.apply_to(args.compute.device.conditions(), console)?;
    let mut viewer = args.viewer.start(&args.output, &interrupt, console)?;
    let job = |host: &mut Host<'_>| pano_run::run(&options, conditions, host);
    let done = match run_job_with_viewer(&interrupt, console, viewer.as_mut(), job) {
        Ok(done) => done,
        Err(failure) => {
            console.log_event(|| failure.is_stopped().then(event_log::stopped_line));
            return exit_status(failure, &interrupt);
        }
    };
    let PanoRun { alignment, masked, trained, has_skipped } = &done;
    let result = PanoRunResult {
        schema: 1,
        kind: "pano-run",
        frames: alignment.frames,
        registered: alignment.registered,
        tool: &alignment.tool,
        masks: masked.as_ref(),
        points: alignment.points,
        mean_reprojection_px: alignment.mean_reprojection_px,
        is_metric: alignment.is_metric,
        earth: alignment.earth.as_ref(),
        lenses: alignment.lenses.as_ref(),
        training: summary_json(trained),
    };
    let status = training_status(trained, &interrupt, console);
    console.json_or_summary(&result, || {
        let masks = masked.as_ref().map(|share| table::facts(&[("masks", describe::mask_statistics(share))]));
        describe::pano_alignment(alignment)
            + masks.unwrap_or_default()
            + describe::trained(trained, console.is_verbose())
    })?;
    let is_partial = (*has_skipped || alignment.registered < alignment.frames) && !trained.allow_missing;
    Ok(if status == Status::Done { Status::done(is_partial) } else { status })
}
