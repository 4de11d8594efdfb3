//! `gausset field fit`: fits a field to samples or a volume.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::fields::{self, FieldFitResult, FieldFitSummary, FitFieldOptions};
use gausset_field::fit::{FitOptions, FitSolver};
use gausset_field::{CovarianceKind, WeightMode};

use super::{MachineArgs, check_output};
use crate::EarlyExit;
use crate::commands::training::{exit_status, interrupted_status};
use crate::console::Console;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::numbers::{grouped, three_digits};
use crate::table::{self, ColumnAlign};

const AFTER_HELP: &str = "\
Examples:
  gausset field fit samples.csv -o field.safetensors --gaussians 20
  gausset field fit head.nii.gz -o head.safetensors --gaussians 5000 --steps 300
  gausset field fit tooth.nrrd -o tooth.safetensors --gaussians 1000 --max-gaussians 5000
  gausset field fit head.nii.gz -o head.safetensors --gaussians 5000 --resume
IN: rows `x y z value` (.csv, .npy, .npz), a volume (.npy, .nrrd, .nii, .nii.gz, .hdr, .mha, .vti, .tif) or a folder of \
slices (.tif, .png).
During the fit, OUT.state holds the state for --resume.";

/// Arguments of `field fit`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FitArgs {
    /// Input samples or volume.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Output field file.
    #[arg(short, long, value_name = "OUT.safetensors")]
    output: PathBuf,
    /// Initial number of Gaussians.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    gaussians: u32,
    /// Maximum number of Gaussians; above the initial number, the fit splits Gaussians [default: --gaussians].
    #[arg(long, value_name = "N")]
    max_gaussians: Option<u32>,
    /// Number of steps [default: 400, with Levenberg-Marquardt at most 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    steps: Option<u64>,
    /// Covariance type: full|diag.
    #[arg(
        long, value_name = "KIND", default_value = "full", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["full", "diag"])
            .map(|word| CovarianceKind::from_name(&word).unwrap_or_default())
    )]
    cov: CovarianceKind,
    /// Weight type: raw (any sign), softplus (positive) or sigmoid (0 to 1).
    #[arg(
        long, value_name = "MODE", default_value = "raw", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(WeightMode::ALL.map(WeightMode::name))
            .map(|word| WeightMode::from_name(&word).unwrap_or_default())
    )]
    weights: WeightMode,
    /// Solver: adam, lm (Levenberg-Marquardt), or auto (lm up to 30 Gaussians).
    #[arg(
        long, value_name = "SOLVER", default_value = "auto", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(FitSolver::ALL.map(FitSolver::name))
            .map(|word| FitSolver::ALL.into_iter().find(|solver| solver.name() == word).unwrap_or_default())
    )]
    solver: FitSolver,
    /// Fraction of the samples held out for the evaluation.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    holdout: f64,
    /// Fraction of the other samples used for early stopping; 0 = no early stopping.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    validation: f64,
    /// Number of batches: each Adam step uses one N-th of the samples [default: 4 for large inputs, otherwise 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    batches: Option<u8>,
    /// Frame of a 4D volume, counted from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    frame: usize,
    /// Channel of a volume with several, counted from 0.
    #[arg(long, value_name = "N")]
    channel: Option<usize>,
    /// Distances of the voxels along x, y and z, instead of those in the file.
    #[arg(long, num_args = 3, value_names = ["X", "Y", "Z"], value_parser = parse_length)]
    spacing: Option<Vec<f64>>,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Resume an interrupted fit of the same input and options.
    #[arg(long)]
    resume: bool,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

fn parse_length(text: &str) -> Result<f64, String> {
    let length = text.parse().ok().filter(|length: &f64| length.is_finite() && *length > 0.0);
    length.ok_or_else(|| format!("expected a length above 0, found `{text}`"))
}

/// Runs the command.
pub(super) fn run(args: &FitArgs, console: &Console) -> Result<Status, EarlyExit> {
    check_output(&args.output, &[".safetensors"], args.force)?;
    let options = FitFieldOptions {
        input: args.input.clone(),
        frame: args.frame,
        channel: args.channel,
        spacing: args.spacing.as_ref().and_then(|lengths| lengths.last_chunk().copied()),
        output: args.output.clone(),
        fit: FitOptions {
            gaussians: args.gaussians as usize,
            max_gaussians: args.max_gaussians.unwrap_or(0) as usize,
            steps: args.steps,
            covariance: args.cov,
            weight_mode: args.weights,
            solver: args.solver,
            holdout: args.holdout,
            validation: args.validation,
            seed: args.seed,
            ..FitOptions::default()
        },
        batches: args.batches,
        resume: args.resume,
        force: args.force,
        threads: args.machine.threads,
        level: args.machine.simd,
    };
    let interrupt = Interrupt::watch();
    match run_job(&interrupt, console, |host| fields::fit(&options, host)) {
        Ok(FieldFitResult::Done(fitted)) => {
            console.json_or_summary(&*fitted, || table(&fitted, &args.output))?;
            Ok(Status::Done)
        }
        Ok(FieldFitResult::Stopped { step, state }) => {
            console.note(format!("{}: saved at step {step}; resume with --resume", state.display()));
            Ok(interrupted_status(&interrupt))
        }
        Err(failure) => exit_status(failure, &interrupt),
    }
}

/// Formats the result as a table.
fn table(fitted: &FieldFitSummary, output: &Path) -> Lines {
    let head = table::facts(&[
        ("field", output.display().to_string()),
        ("Gaussians", grouped(fitted.gaussians as u64)),
        ("steps", format!("{} (best at {})", fitted.steps, fitted.best_step)),
        ("time", format!("{} s", three_digits(fitted.seconds))),
    ]);
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let error = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.4e}") };
    let rows: Vec<Vec<String>> = [
        ("train", &fitted.train),
        ("held out", &fitted.test),
        ("held out, foreground", &fitted.test_foreground),
    ]
    .into_iter()
    .map(|(name, m)| {
        vec![
            name.to_owned(),
            grouped(m.samples),
            shown(m.psnr, 2),
            shown(m.r2, 6),
            shown(m.pearson, 6),
            error(m.mse),
            error(m.mae),
        ]
    })
    .collect();
    let header = [
        ("samples", ColumnAlign::Left),
        ("number", ColumnAlign::Right),
        ("PSNR dB", ColumnAlign::Right),
        ("R2", ColumnAlign::Right),
        ("Pearson", ColumnAlign::Right),
        ("MSE", ColumnAlign::Right),
        ("MAE", ColumnAlign::Right),
    ];
    head + "" + table::columns(&header, &rows)
}
