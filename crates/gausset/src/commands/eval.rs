//! `gausset eval`: renders the pictures of a split and compares them with the truth.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_io::atomic::{Disk, Overwrite, plain_reason};
use gausset_io::run_folder::{EVALUATION, eval_folder, evaluation_is_ours};
use gausset_io::{input, owned};
use gausset_train::eval::CONTACT_SHEET;
use gausset_train::{
    EvalError, EvalOptions, LearntGains, Lpips, Measures, PictureFolder, Split, SsimDefinition, evaluate,
};

use super::saved_run::{DataPlace, OtherData, SavedRun, ViewArgs, scene_splats};
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::{Ending, scores};

const AFTER_HELP: &str = "\
Examples:
  gausset eval run/                 scores of each held-out picture; pictures in run/eval/
  gausset eval run/ --json | jq .psnr
  gausset eval run/ --data moved/photos/
  gausset eval run/ --ssim uniform7   SSIM as scikit-image has it
PSNR and SSIM as in the literature: values in 0..1, means over pictures. CC-PSNR and CC-SSIM: after
a colour fit per picture. Co-visible: PSNR of the pixels whose depth three training views confirm,
and their share. Haze: what is blended in front of known points, 0 clear to 1 opaque. LPIPS is
measured with --lpips alone: its weights are not part of the program.";

/// Arguments of `eval`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct EvalArgs {
    /// Folder of the run.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Where the dataset is now [default: where the run found it].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Which pictures: test (held out) or train.
    #[arg(
        long, value_name = "SPLIT", default_value = "test", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Split::WORDS).try_map(|word| word.parse::<Split>())
    )]
    split: Split,
    /// Which SSIM: gaussian11-zero, gaussian11-valid (no border), uniform7 (scikit-image).
    #[arg(
        long, value_name = "DEFINITION", default_value = SsimDefinition::default().name(),
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(SsimDefinition::NAMES)
            .try_map(|name| name.parse::<SsimDefinition>())
    )]
    ssim: SsimDefinition,
    /// Compare at 1/N of the size, blocks of N x N pixels averaged: for runs that were trained at different sizes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    reduce: u32,
    /// Measure LPIPS (AlexNet, 0.1) with the weights in a safetensors file.
    #[arg(long, value_name = "FILE")]
    lpips: Option<PathBuf>,
    /// Folder for the pictures truth | render | error [default: RUN/eval, or RUN/eval/train].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
    /// Replace files of others in the folder, and accept a dataset that is not the run's.
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

/// Runs the command.
pub(crate) fn run(args: &EvalArgs, console: &Console) -> Result<Status, Ending> {
    let run = SavedRun::read(&args.run)?;
    // Reading needs no lock: what stands in a run folder is whole, also while a training goes on.
    let _lock = if args.output.is_none() { Some(run.share()?) } else { None };
    let lpips = args.lpips.as_deref().map(read_lpips).transpose()?;
    let mut engine = args.compute.engine().map_err(Failure::from)?;
    let scene_splats = scene_splats(&run.load_splats(&mut *engine, console)?);
    let place = DataPlace {
        path: args.data.as_deref(),
        other: OtherData::forced(args.force),
        allow_outside: args.allow_outside,
    };
    let dataset = run.open_dataset(place, console)?;
    let (folder, overwrite) = place_of(args)?;
    let mut render = run.render_options();
    args.view.apply(&mut render);
    let gains = LearntGains::read(&run.folder).map_err(Failure::from)?;
    let exposures = gains.map(|gains| gains.of_pictures(&dataset));
    let options = EvalOptions {
        exposures: exposures.as_ref(),
        split: args.split,
        most: None,
        render,
        scene_splats,
        splats_from_dataset: run.splats_from_dataset(),
        reduction: args.reduce,
        ssim: args.ssim,
        measures: Measures::All,
        lpips: lpips.as_ref(),
    };
    let interrupt = Interrupt::watch();
    let loader = run.loader(&dataset);
    let pictures = PictureFolder { fs: &Disk, folder: &folder, overwrite };
    let report = match evaluate(&mut *engine, &loader, &options, Some(&pictures), interrupt.stop()) {
        Err(EvalError::Stopped) => {
            return Ok(Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt)));
        }
        evaluated => evaluated.map_err(Failure::from)?,
    };
    for view in &report.skipped {
        console.warn("pictures", format!("{}: skipped: {}", view.name, view.reason));
    }
    if let Some(warning) = report.cut_lists(options.render.max_splats_per_tile) {
        console.warn("the tile lists", warning.to_string());
    }
    if report.images == 0 {
        console.warn(
            "the dataset",
            format!("{}: split {}: holds no picture", dataset.root.display(), args.split),
        );
    }
    console.object_or(&report, || {
        let sheet = folder.join(CONTACT_SHEET);
        let place = if sheet.is_file() {
            format!("\n{} ({})\n", sheet.display(), scores::PANELS)
        } else {
            String::new()
        };
        scores::table(&report) + &place
    })?;
    Ok(Status::done(!report.skipped.is_empty() || dataset.has_skipped()))
}

/// Reads the weights of LPIPS.
fn read_lpips(path: &Path) -> Result<Lpips, Failure> {
    let refused = |reason: String| Failure::new("read", format!("{}: LPIPS: {reason}", path.display()));
    let bytes = input::read(path, Lpips::MAX_FILE_BYTES).map_err(|error| refused(plain_reason(&error)))?;
    Lpips::from_bytes(&bytes).map_err(|error| refused(error.to_string()))
}

/// Where the pictures go, and whether files of others may be replaced there.
fn place_of(args: &EvalArgs) -> Result<(PathBuf, Overwrite), Failure> {
    let forced = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    if let Some(folder) = &args.output {
        return Ok((folder.clone(), forced));
    }
    let mut folder = eval_folder(&args.run);
    if args.split == Split::Train {
        // Made before what is in it, so that it is known to be ours.
        owned::take(&Disk, &folder, EVALUATION, std::iter::empty::<&Path>(), forced)?;
        folder = folder.join("train");
    }
    // What version 0.1 put into a run folder has no marker, and is ours all the same.
    let is_ours = evaluation_is_ours(&Disk, &folder);
    Ok((folder, if is_ours { Overwrite::Replace } else { forced }))
}
