//! `gausset eval`: renders the pictures of a split and compares them with the truth.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_flow::evaluate::{EvaluateOptions, evaluate};
use gausset_train::eval::CONTACT_SHEET;
use gausset_train::{Split, SsimDefinition};

use super::training::{Counted, ending};
use super::view_args::ViewArgs;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::listener::attend;
use crate::{Ending, scores};

const AFTER_HELP: &str = "\
Examples:
  gausset eval run/                 scores of each held-out picture; pictures in run/eval/
  gausset eval run/ --json | jq .psnr
  gausset eval run/ --data moved/photos/
  gausset eval scene.spz --data photos/   any splat file on a dataset
  gausset eval run/ --ssim uniform7   SSIM as scikit-image has it
PSNR and SSIM as in the literature: values in 0..1, means over pictures. CC-PSNR and CC-SSIM: after
a colour fit per picture. Co-visible: PSNR of the pixels whose depth three training views confirm,
and their share. Haze: what is blended in front of known points, 0 clear to 1 opaque. LPIPS is
measured with --lpips alone: its weights are not part of the program.";

/// Arguments of `eval`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct EvalArgs {
    /// Folder of the run, or a splat file.
    #[arg(value_name = "RUN|FILE")]
    run: PathBuf,
    /// Where the dataset is now [default: where the run found it; a splat file needs one].
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
    /// Folder for the pictures truth | render | error [default: RUN/eval, or RUN/eval/train; of a file: NAME-eval].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
    /// Replace files of others in the folder.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Take a dataset that is not the run's, or that changed since.
    #[arg(long)]
    accept_changed_data: bool,
    /// Take pictures whose names lead out of the picture folder (by `..` or as absolute paths).
    #[arg(long)]
    allow_outside: bool,
    /// Pictures that are absent or cannot be read are no reason for exit code 1.
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
            split: self.split,
            ssim: self.ssim,
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
pub(crate) fn run(args: &EvalArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let evaluated = match attend(&interrupt, console, |host| evaluate(&args.options(), host)) {
        Ok(evaluated) => evaluated,
        Err(failure) => return ending(failure, &interrupt),
    };
    let left_out = evaluated.left_out;
    console.object_or(&Counted { result: &evaluated.report, left_out }, || {
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
