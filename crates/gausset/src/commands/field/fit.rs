//! `gausset field fit`: samples or a volume in, a field out.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_field::fit::{FitOptions, Solver};
use gausset_field::{Covariance, WeightMode};
use gausset_flow::fields::{self, FieldFit, FitFieldOptions, FittedField};

use super::{MachineArgs, check_output};
use crate::Ending;
use crate::commands::training::{ending, interrupted};
use crate::console::Console;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::listener::attend;
use crate::numbers::{grouped, three_digits};
use crate::table::{self, Align};

const AFTER_HELP: &str = "\
Examples:
  gausset field fit samples.csv -o field.safetensors --gaussians 20
  gausset field fit head.nii.gz -o head.safetensors --gaussians 5000 --steps 300
  gausset field fit tooth.nrrd -o tooth.safetensors --gaussians 1000 --max-gaussians 5000
  gausset field fit head.nii.gz -o head.safetensors --gaussians 5000 --resume
IN: rows `x y z value` (.csv, .npy, .npz) or a volume (.npy, .nrrd, .nii, .nii.gz, .hdr, .tif).
While it runs, OUT.state holds what --resume needs.";

/// Arguments of `field fit`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FitArgs {
    /// Samples or a volume.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Field file to write.
    #[arg(short, long, value_name = "OUT.safetensors")]
    output: PathBuf,
    /// Gaussians at the start.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    gaussians: u32,
    /// Most Gaussians: more than at the start lets the fit split [default: as many as at the start].
    #[arg(long, value_name = "N")]
    max_gaussians: Option<u32>,
    /// Steps [default: 400, Levenberg-Marquardt: at most 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    steps: Option<u64>,
    /// Covariances: full|diag.
    #[arg(
        long, value_name = "KIND", default_value = "full", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["full", "diag"])
            .map(|word| Covariance::from_name(&word).unwrap_or_default())
    )]
    cov: Covariance,
    /// Weights: raw (any sign), softplus (positive) or sigmoid (0 to 1).
    #[arg(
        long, value_name = "MODE", default_value = "raw", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(WeightMode::ALL.map(WeightMode::name))
            .map(|word| WeightMode::from_name(&word).unwrap_or_default())
    )]
    weights: WeightMode,
    /// auto (lm up to 30 Gaussians), adam or lm (Levenberg-Marquardt).
    #[arg(
        long, value_name = "SOLVER", default_value = "auto", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Solver::ALL.map(Solver::name))
            .map(|word| Solver::ALL.into_iter().find(|solver| solver.name() == word).unwrap_or_default())
    )]
    solver: Solver,
    /// Share of the samples that is held out and only measured.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    holdout: f64,
    /// Share of the rest that decides when to stop; 0 = do not stop early.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    validation: f64,
    /// A step of Adam looks at one N-th of the samples [default: 4 for large inputs, else 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    batches: Option<u8>,
    /// Frame of a 4-D volume, from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    frame: usize,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Go on where an interrupted fit of the same input and options stopped.
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

/// Runs the command.
pub(super) fn run(args: &FitArgs, console: &Console) -> Result<Status, Ending> {
    check_output(&args.output, &[".safetensors"], args.force)?;
    let options = FitFieldOptions {
        input: args.input.clone(),
        frame: args.frame,
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
    match attend(&interrupt, console, |host| fields::fit(&options, host)) {
        Ok(FieldFit::Done(fitted)) => {
            console.object_or(&*fitted, || table(&fitted, &args.output))?;
            Ok(Status::Done)
        }
        Ok(FieldFit::Stopped { step, state }) => {
            console.note(format!("{}: saved at step {step}; go on with --resume", state.display()));
            Ok(interrupted(&interrupt))
        }
        Err(failure) => ending(failure, &interrupt),
    }
}

/// The result for people.
fn table(fitted: &FittedField, output: &Path) -> Lines {
    let head = table::facts(&[
        ("field", output.display().to_string()),
        ("Gaussians", grouped(fitted.gaussians as u64)),
        ("steps", format!("{} (best at {})", fitted.steps, fitted.best_step)),
        ("time", format!("{} s", three_digits(fitted.seconds))),
    ]);
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
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
            format!("{:.4e}", m.mse),
            format!("{:.4e}", m.mae),
        ]
    })
    .collect();
    let header = [
        ("samples", Align::Left),
        ("number", Align::Right),
        ("PSNR dB", Align::Right),
        ("R2", Align::Right),
        ("Pearson", Align::Right),
        ("MSE", Align::Right),
        ("MAE", Align::Right),
    ];
    head + "" + table::columns(&header, &rows)
}
