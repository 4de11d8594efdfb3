//! `gausset eval`: renders the views of a split and compares them with their photographs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::evaluate::{EvaluateOptions, evaluate};
use gausset_train::eval::CONTACT_SHEET;
use gausset_train::{Split, SsimDefinition};

use super::near_plane::NearPlaneArgs;
use super::spz_frame::SpzFrameArgs;
use super::training::{WithLeftOut, exit_status};
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::{EarlyExit, scores};

const AFTER_HELP: &str = "\
Examples:
  gausset eval run/                       scores of each held-out view; renders in run/eval/
  gausset eval run/ --json | jq .psnr
  gausset eval run/ --data moved/photos/
  gausset eval scene.spz --data photos/   evaluate any splat file on a dataset
  gausset eval run/ --ssim uniform7       SSIM as computed by scikit-image
PSNR and SSIM follow the literature: pixel values in 0..1, means over images. CC-PSNR and CC-SSIM
are measured after a colour fit per image. Co-visible: PSNR of the pixels whose depth three training
views confirm, and their fraction. Haze: opacity in front of known points, 0 (clear) to 1 (opaque).
LPIPS needs --lpips, because its weights are not part of the program.";

/// Arguments of `eval`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct EvalArgs {
    /// Run folder or splat file.
    #[arg(value_name = "RUN|FILE")]
    run: PathBuf,
    /// Path of the dataset [default: the path recorded by the run; required for a splat file].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the photographs [default: the path recorded by the run, or that of --data].
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Views to evaluate: test (held out) or train.
    #[arg(
        long, value_name = "SPLIT", default_value = "test", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Split::WORDS).try_map(|word| word.parse::<Split>())
    )]
    split: Split,
    /// SSIM definition: gaussian11-zero, gaussian11-valid (no border) or uniform7 (scikit-image).
    #[arg(
        long, value_name = "DEFINITION", default_value = SsimDefinition::default().name(),
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(SsimDefinition::NAMES)
            .try_map(|name| name.parse::<SsimDefinition>())
    )]
    ssim: SsimDefinition,
    /// Longest side of the images in px, for a splat file; 0 = as stored [default: 1600].
    #[arg(long, value_name = "PX")]
    max_resolution: Option<u32>,
    /// Downscale by N (mean of N x N pixels) before comparing, for runs trained at different resolutions.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    reduce: u32,
    /// Safetensors file of LPIPS weights (AlexNet, version 0.1); enables LPIPS.
    #[arg(long, value_name = "FILE")]
    lpips: Option<PathBuf>,
    /// Output folder for comparison images [default: RUN/eval or RUN/eval/train; for a splat file NAME-eval].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    spz: SpzFrameArgs,
    #[command(flatten)]
    view: NearPlaneArgs,
    /// Replace files in the folder that were not created by Gausset.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Accept a dataset that differs from the one of the run.
    #[arg(long)]
    accept_changed_data: bool,
    /// Allow image names that point outside the image folder (by `..` or absolute paths).
    #[arg(long)]
    allow_outside: bool,
    /// Exit with code 0 instead of 1 if images are missing or unreadable.
    #[arg(long)]
    allow_missing: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

impl EvalArgs {
    fn options(&self) -> EvaluateOptions {
        EvaluateOptions {
            run: self.run.clone(),
            data: self.data.clone(),
            images: self.images.clone(),
            spz_frame: self.spz.axes(),
            split: self.split,
            ssim: self.ssim,
            max_resolution: self.max_resolution,
            reduction: self.reduce,
            lpips: self.lpips.clone(),
            output: self.output.clone(),
            near_plane: self.view.near_plane,
            force: self.force,
            accept_changed_data: self.accept_changed_data,
            allow_outside: self.allow_outside,
            allow_missing: self.allow_missing,
            device: self.compute.device.options(),
            threads: self.compute.threads,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &EvalArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let evaluated = match run_job(&interrupt, console, |host| evaluate(&args.options(), host)) {
        Ok(evaluated) => evaluated,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    let left_out = evaluated.skipped;
    console.json_or_text(&WithLeftOut { result: &evaluated.report, left_out }, || {
        let sheet = evaluated.folder.join(CONTACT_SHEET);
        let mut lines = scores::table(&evaluated.report);
        if sheet.is_file() {
            lines += "";
            lines += format!("{} ({})", sheet.display(), scores::PANELS);
        }
        lines
    })?;
    Ok(Status::done(left_out > 0 && !evaluated.allow_missing))
}
