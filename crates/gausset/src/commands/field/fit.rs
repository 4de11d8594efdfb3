//! `gausset field fit`: samples or a volume in, a field out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_field::fit::{Fit, FitOptions, Fitted, Samples, Solver};
use gausset_field::input;
use gausset_field::model::Model;
use gausset_field::{Covariance, WeightMode};
use gausset_flow::Failure;
use gausset_io::atomic::{Disk, FileSystem, WriteOptions, plain_reason};

use super::fit_run::{Report, Stepped, steps};
use super::{MachineArgs, check_output, overwrite};
use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset field fit samples.csv -o field.safetensors --gaussians 20
  gausset field fit head.nii.gz -o head.safetensors --gaussians 5000 --steps 300
  gausset field fit tooth.nrrd -o tooth.safetensors --gaussians 1000 --max-gaussians 5000
  gausset field fit head.nii.gz -o head.safetensors --gaussians 5000 --resume
IN: rows `x y z value` (.csv, .npy, .npz) or a volume (.npy, .nrrd, .nii, .nii.gz, .hdr, .tif).
While it runs, OUT.state holds what --resume needs.";

/// No state is larger: some 400 bytes for each of the most Gaussians that can be asked for.
const MAX_STATE_BYTES: u64 = 32 << 30;

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
    #[arg(long)]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Samples from which on steps look at a part of them.
const MANY_SAMPLES: usize = 50_000;

/// Runs the command.
pub(super) fn run(args: &FitArgs, console: &Console) -> Result<Status, Ending> {
    check_output(&args.output, &[".safetensors"], args.force)?;
    let compute = args.machine.compute()?;
    let input = input::read(&args.input, args.frame)?;
    let in_file = |error| {
        let failure = Failure::from(error);
        Failure::new(failure.code, format!("{}: {}", args.input.display(), failure.message))
    };
    Samples::check_room(input.len()).map_err(in_file)?;
    let samples = input.samples();
    if let input::Input::Volume(volume) = &input {
        let [x, y, z] = volume.dims;
        let frames = if volume.frames > 1 {
            format!(", frame {} of {}", args.frame, volume.frames)
        } else {
            String::new()
        };
        console.note(format!("{}: {x} x {y} x {z} voxels{frames}", args.input.display()));
    } else {
        let count = counted(samples.values.len() as u64, "sample");
        console.note(format!("{}: {count}", args.input.display()));
    }
    let options = FitOptions {
        gaussians: args.gaussians as usize,
        max_gaussians: args.max_gaussians.unwrap_or(0) as usize,
        steps: args.steps,
        covariance: args.cov,
        weight_mode: args.weights,
        solver: args.solver,
        holdout: args.holdout,
        validation: args.validation,
        batches: args.batches.unwrap_or(if samples.values.len() >= MANY_SAMPLES { 4 } else { 1 }),
        seed: args.seed,
        ..FitOptions::default()
    };
    if args.batches.is_some() && options.resolved_solver() == Solver::Lm {
        let line =
            "--batches: Levenberg-Marquardt looks at all samples (expected --solver adam); leave it out";
        return Err(Failure::new("option", line).into());
    }
    let started = Instant::now();
    let state_path = state_path(&args.output);
    let state = read_state(args, console, &state_path)?;
    let fit = match &state {
        Some(bytes) => Fit::resume(&compute, &samples, &options, bytes),
        None => Fit::new(&compute, &samples, &options),
    };
    let fit = fit.map_err(in_file)?;
    let fit = match steps(fit, console, &state_path)? {
        Stepped::Done(fit) => *fit,
        Stepped::Interrupted(status) => return Ok(status),
    };
    let (steps, fitted) = (fit.progress().step, fit.finish().map_err(in_file)?);
    let seconds = started.elapsed().as_secs_f64() - fitted.report_seconds;
    let model = model(&input, &samples, &fitted);
    let write = WriteOptions { label: "field", overwrite: overwrite(args.force), ..WriteOptions::default() };
    model.save(&Disk, &args.output, &write)?;
    // The state has served; what cannot be removed does no harm.
    let _ = Disk.remove(&state_path);
    let report = Report {
        gaussians: fitted.field.len(),
        steps,
        best_step: fitted.best_step,
        seconds,
        parameters: fitted.field.len() * fitted.field.covariance.parameters(),
        peak: fitted.frame.scale,
        train: fitted.train,
        test: fitted.test,
        test_foreground: fitted.test_foreground,
        pairs: fitted.pairs,
    };
    console.object_or(&report, || report.table(&args.output))?;
    Ok(Status::Done)
}

/// `OUT.state`.
fn state_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".state");
    PathBuf::from(name)
}

/// The state to go on from, if there is one and that is wanted. One that would be lost unnoticed is refused.
fn read_state(args: &FitArgs, console: &Console, path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let place = path.display();
    match gausset_io::input::read(path, MAX_STATE_BYTES) {
        Ok(bytes) if args.resume => Ok(Some(bytes)),
        Ok(_) if args.force => Ok(None),
        Ok(_) => Err(Failure::new(
            "resume",
            format!(
                "{place}: an interrupted fit (expected none); add --resume to go on, --force to begin again"
            ),
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if args.resume {
                console.note(format!("{place}: no such file; the fit begins at step 0"));
            }
            Ok(None)
        }
        Err(error) => Err(Failure::new("read", format!("{place}: read: {}", plain_reason(&error)))),
    }
}

fn model(input: &input::Input, samples: &Samples, fitted: &Fitted) -> Model {
    Model {
        field: fitted.field.clone(),
        offset: fitted.frame.offset,
        scale: fitted.frame.scale,
        world_from_model: input.world_from_model(),
        peak: fitted.frame.scale,
        grid: samples.grid,
    }
}
