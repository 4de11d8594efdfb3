//! Fits a Gaussian field to samples or a volume. A fit to a file has checkpoints next to its result.

use std::cell::RefCell;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gausset_compute::SimdLevel;
use gausset_field::Compute;
use gausset_field::fit::{FieldFit, FitError, FitOptions, FitResult, FitSolver, Metrics, Samples};
use gausset_field::input::{self, Affine, Input, ReadRequest};
use gausset_field::model::FieldModel;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteOptions, plain_reason, write_atomic};
use gausset_io::input_files::InputFiles;
use serde::Serialize;

use crate::host::CountedItem;
use crate::{Event, Failure, Host, Stage};

/// Time between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);
/// Size limit of a checkpoint: about 400 bytes for each of the maximum number of Gaussians.
const MAX_CHECKPOINT_BYTES: u64 = 32 << 30;
/// Number of samples from which steps use mini-batches by default.
const MINI_BATCH_SAMPLES: usize = 50_000;
/// Number of batches in that case.
const DEFAULT_BATCHES: u8 = 4;

/// Options of [`fit()`].
#[derive(Clone, Debug)]
pub struct FitFieldOptions {
    /// Input file: samples (`x y z value`) or a volume; or a folder of slices.
    pub input: PathBuf,
    /// Frame of a 4-D volume, from 0.
    pub frame: usize,
    /// Channel of a volume with several, from 0.
    pub channel: Option<usize>,
    /// Distance of voxel centres, instead of that in the file.
    pub spacing: Option<[f64; 3]>,
    /// Output field file (`.safetensors`); the checkpoint is `OUTPUT.state`.
    pub output: PathBuf,
    /// Options of the fit; its `batches` is overridden by [`Self::batches`].
    pub fit: FitOptions,
    /// Number of batches: a step of Adam uses one of them. `None` = chosen by the number of samples.
    pub batches: Option<u8>,
    /// Resume an interrupted fit of the same input and options.
    pub resume: bool,
    /// Replace the output if it exists.
    pub force: bool,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
    /// SIMD level of the kernels; the result does not depend on it.
    pub level: SimdLevel,
}

/// Result of a finished fit; its JSON form is a stable contract.
#[derive(Clone, Debug, Serialize)]
pub struct FieldFitSummary {
    /// Gaussians of the field.
    pub gaussians: usize,
    /// Number of steps.
    pub steps: u64,
    /// Step of the field that was kept: the best on the validation samples.
    pub best_step: u64,
    /// Wall time of the fit in seconds, of all parts of a resumed one.
    pub seconds: f64,
    /// Number of fitted parameters.
    pub parameters: usize,
    /// Value range of the data, used as the peak of PSNR.
    pub peak: f64,
    /// Errors on the training samples.
    pub train: Metrics,
    /// Errors on the held-out samples.
    pub test: Metrics,
    /// Errors on the held-out samples that are not background.
    pub test_foreground: Metrics,
    /// Point-Gaussian pairs computed by the steps of Adam; `null` for Levenberg-Marquardt.
    pub pairs: Option<u64>,
}

/// How a fit ended.
#[derive(Clone, Debug)]
pub enum FieldFitResult {
    /// The fit finished and the field is written.
    Done(Box<FieldFitSummary>),
    /// The job was asked to stop; the fit can resume from the checkpoint.
    Stopped {
        /// Steps done so far.
        step: u64,
        /// The checkpoint, `OUTPUT.state`.
        state: PathBuf,
    },
}

/// Fits a field and writes it.
///
/// # Errors
/// Unsupported or too large input, invalid options, a checkpoint that would be lost, or an existing output file.
pub fn fit(options: &FitFieldOptions, host: &mut Host<'_>) -> Result<FieldFitResult, Failure> {
    let compute = compute(options.threads, options.level)?;
    check(&options.fit, options.batches)?;
    let _reading = InputFiles::new([&options.input]);
    let notes = RefCell::new(Vec::new());
    let wanted = ReadRequest {
        frame: options.frame,
        channel: options.channel,
        spacing: options.spacing,
        max_samples: Samples::max_count(),
        stop: host.stop(),
        notes: Some(&notes),
    };
    let input = input::read(&options.input, &wanted);
    let input = host.unless_stopped(input)?;
    for line in notes.take() {
        host.warn("the samples", format!("{}: {line}", options.input.display()));
    }
    if host.is_stopping() {
        return Err(Failure::stopped());
    }
    let samples = input.samples();
    host.stage(Stage::FieldInput {
        path: options.input.clone(),
        voxels: match &input {
            Input::Volume(volume) => Some(volume.dims),
            Input::Samples(_) => None,
        },
        frame: match &input {
            Input::Volume(volume) if volume.frames > 1 => Some([options.frame, volume.frames]),
            _ => None,
        },
        samples: samples.values.len(),
    });
    let settings = resolved(&options.fit, options.batches, &samples);
    let state_path = checkpoint_path(&options.output);
    let state = read_checkpoint(options, &state_path, host)?;
    let in_file = |error: FitError| {
        let place = match &error {
            FitError::Option { .. } | FitError::Stopped => return Failure::from(error),
            FitError::State { .. } | FitError::OtherFit { .. } => &state_path,
            _ => &options.input,
        };
        let line = format!("{}: {error}", place.display());
        Failure::new(Failure::from(error).code, line)
    };
    let mut fit =
        FieldFit::start(&compute, &samples, &settings, state.as_deref(), host.stop()).map_err(in_file)?;
    if !run_steps(&mut fit, Some(&state_path), host)? {
        return Ok(FieldFitResult::Stopped { step: fit.progress().step, state: state_path });
    }
    let (summary, fitted) = finish(fit).map_err(in_file)?;
    let overwrite = if options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let write = WriteOptions { label: "field", overwrite, ..WriteOptions::default() };
    model(input.world_from_model(), &samples, &fitted).save(&Disk, &options.output, &write)?;
    // The checkpoint is no longer needed. A failure to remove it is harmless.
    let _ = Disk.remove(&state_path);
    Ok(FieldFitResult::Done(Box::new(summary)))
}

/// Fits a field to samples in memory, without checkpoints.
///
/// # Errors
/// Invalid samples or options, or the job was asked to stop.
pub fn fit_samples(
    compute: &Compute,
    samples: &Samples,
    options: &FitOptions,
    batches: Option<u8>,
    host: &mut Host<'_>,
) -> Result<(FieldModel, FieldFitSummary), Failure> {
    check(options, batches)?;
    let settings = resolved(options, batches, samples);
    let mut fit = FieldFit::start(compute, samples, &settings, None, host.stop())?;
    if !run_steps(&mut fit, None, host)? {
        return Err(Failure::stopped());
    }
    let (summary, fitted) = finish(fit)?;
    Ok((model(input::IDENTITY, samples, &fitted), summary))
}

/// Checks options before the samples are read.
fn check(fit: &FitOptions, batches: Option<u8>) -> Result<(), Failure> {
    FitOptions { batches: batches.unwrap_or(1), ..fit.clone() }.check()?;
    if batches.is_some() && fit.resolved_solver() == FitSolver::Lm {
        let line = "⟨batches⟩: Levenberg-Marquardt uses all samples (expected ⟨solver = adam⟩); leave it out";
        return Err(Failure::new("option", line));
    }
    Ok(())
}

/// The options with a number of batches: the one given, or one that suits the number of samples.
fn resolved(fit: &FitOptions, batches: Option<u8>, samples: &Samples) -> FitOptions {
    let automatic = if samples.values.len() >= MINI_BATCH_SAMPLES { DEFAULT_BATCHES } else { 1 };
    FitOptions { batches: batches.unwrap_or(automatic), ..fit.clone() }
}

fn finish(fit: FieldFit<'_>) -> Result<(FieldFitSummary, FitResult), FitError> {
    let (steps, fitted) = (fit.progress().step, fit.finish()?);
    let summary = FieldFitSummary {
        gaussians: fitted.field.len(),
        steps,
        best_step: fitted.best_step,
        seconds: fitted.seconds,
        parameters: fitted.field.len() * fitted.field.covariance.parameters(),
        peak: fitted.normalisation.scale,
        train: fitted.train,
        test: fitted.test,
        test_foreground: fitted.test_foreground,
        pairs: fitted.pairs,
    };
    Ok((summary, fitted))
}

/// Creates the CPU compute context with this many threads (0 = all).
///
/// # Errors
/// The CPU lacks the SIMD level.
pub fn compute(threads: u32, level: SimdLevel) -> Result<Compute, Failure> {
    Compute::new(threads as usize, level).ok_or_else(|| {
        let name = level.level_name();
        Failure::new("device", format!("⟨simd = {name}⟩: not supported by this CPU; use ⟨simd = auto⟩"))
    })
}

/// Runs all remaining steps, with checkpoints if there is a path; returns `false` if asked to stop before the end.
fn run_steps(
    fit: &mut FieldFit<'_>,
    state_path: Option<&Path>,
    host: &mut Host<'_>,
) -> Result<bool, Failure> {
    let progress = fit.progress();
    host.report(Event::Begun { item: CountedItem::Steps, done: progress.step, total: progress.steps });
    let mut saved = Instant::now();
    while !fit.is_done() {
        match fit.step() {
            // The state is that before the step.
            Ok(()) | Err(FitError::Stopped) => {}
            Err(error) => return Err(error.into()),
        }
        host.report(Event::Fitting(fit.progress()));
        let is_stopping = host.is_stopping();
        if let Some(state_path) = state_path
            && (is_stopping || saved.elapsed() >= CHECKPOINT_EVERY)
        {
            let state = fit.state();
            write_atomic(&Disk, state_path, |writer| writer.write_all(&state))?;
            saved = Instant::now();
        }
        if is_stopping {
            break;
        }
    }
    host.report(Event::Ended);
    Ok(fit.is_done())
}

/// `OUTPUT.state`.
fn checkpoint_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".state");
    PathBuf::from(name)
}

/// Reads the checkpoint if `resume` is set. An existing checkpoint is refused without `resume` or `force`.
fn read_checkpoint(
    options: &FitFieldOptions,
    path: &Path,
    host: &mut Host<'_>,
) -> Result<Option<Vec<u8>>, Failure> {
    let place = path.display();
    match gausset_io::input::read(path, MAX_CHECKPOINT_BYTES) {
        Ok(bytes) if options.resume => Ok(Some(bytes)),
        Ok(_) if options.force => Ok(None),
        Ok(_) => {
            let line = format!(
                "{place}: an interrupted fit (expected none); add ⟨resume⟩ to continue it or ⟨force⟩ to start again"
            );
            Err(Failure::new("resume", line))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if options.resume {
                host.stage(Stage::NoFieldState(path.to_owned()));
            }
            Ok(None)
        }
        Err(error) => Err(Failure::new("read", format!("{place}: read: {}", plain_reason(&error)))),
    }
}

fn model(world_from_model: Affine, samples: &Samples, fitted: &FitResult) -> FieldModel {
    FieldModel {
        field: fitted.field.clone(),
        offset: fitted.normalisation.offset,
        scale: fitted.normalisation.scale,
        world_from_model,
        peak: fitted.normalisation.scale,
        grid: samples.grid,
    }
}
