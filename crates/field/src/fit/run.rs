//! The fit: from samples to a field, step by step.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gausset_io::input::NEVER;

use crate::accel::pass::{Batch, LeafSamples, ListRule, PassMemory, PassOutput, PassResult, SamplePass};
use crate::accel::{AcceleratedEvaluator, Cutoff, GaussianIndex, SortedPoints, morton_order};
use crate::eval::Compute;
use crate::field::{CovarianceKind, FieldBounds, GaussianField, WeightMode};
use crate::fit::adam::{AdamState, AdamStep, Rates};
use crate::fit::data::{Normalisation, SampleRole, Samples, sample_roles, thin};
use crate::fit::error::FitError;
use crate::fit::lm::{LmState, Shapes};
use crate::fit::metrics::Metrics;
use crate::fit::options::{FitOptions, FitSolver, RADIUS};
use crate::fit::pursuit::{self, Pursuit};
use crate::fit::result::{FitProgress, FitResult};
use crate::fit::{density, init, weights};
use crate::packed::{PackedField, Record};
use crate::real::K;

/// Steps between two changes of the set of Gaussians (density control).
const DENSITY_EVERY: u64 = 50;
/// Fraction of the fit during which the set changes.
const DENSITY_FRACTION: f64 = 0.6;
/// Steps between two validations.
const VALIDATE_EVERY: u64 = 20;
/// Steps without a better validation loss after which a fit stops.
const PATIENCE: u64 = 120;
/// Failed exchanges of Gaussians after which a Levenberg-Marquardt fit ends.
const MAX_EXCHANGES: usize = 20;
/// Relative gain of an iteration below which a fit has converged.
const CONVERGED_GAIN: f64 = 1e-6;
/// Iterations of the linear solver at the start and at the end.
const START_ITERATIONS: usize = 12;
const FINISH_ITERATIONS: usize = 15;
/// Regularisation of the weights.
const WEIGHT_REGULARISATION: f64 = 1e-2;
/// Largest number of Gaussians for which every pair is computed, because lists would cost more than they save.
const MAX_DENSE_GAUSSIANS: usize = 128;
/// Error of the final evaluation, relative to the range of the data.
const REPORT_ERROR: f64 = 1e-5;

/// The best field so far, with its validation loss.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BestField {
    pub(crate) field: GaussianField<f64>,
    pub(crate) loss: f64,
    pub(crate) step: u64,
}

/// A fit in progress.
#[derive(Debug)]
pub struct FieldFit<'a> {
    pub(crate) compute: &'a Compute,
    stop: &'a AtomicBool,
    pub(crate) options: FitOptions,
    pub(crate) normalisation: Normalisation,
    pub(crate) fingerprint: u64,
    bounds: FieldBounds,
    /// All samples, in the normalised coordinates of the fit.
    points: Vec<[f32; 3]>,
    values: Vec<f32>,
    roles: Vec<SampleRole>,
    train: LeafSamples,
    validation: Option<LeafSamples>,
    /// Training samples in f64, for Levenberg-Marquardt.
    training_f64: Option<(Vec<[f64; 3]>, Vec<f64>)>,
    batch_of_leaf: Vec<u8>,
    log_range: [f32; 2],
    voxel: f32,
    passes: PassMemory,
    moments: Vec<[f32; 10]>,
    pub(crate) field: GaussianField<f32>,
    pub(crate) adam: Vec<AdamState>,
    pub(crate) lm: Option<LmState>,
    pub(crate) step: u64,
    pub(crate) best: Option<BestField>,
    pub(crate) has_converged: bool,
    last_loss: f64,
    /// Pairs computed by steps of Adam, and seconds, both with those before a resumed state.
    pub(crate) pairs: u64,
    pub(crate) seconds_before: f64,
    started: Instant,
}

impl<'a> FieldFit<'a> {
    /// Prepares samples and initialises a field.
    ///
    /// # Errors
    /// Invalid options or samples.
    pub fn new(compute: &'a Compute, samples: &Samples, options: &FitOptions) -> Result<Self, FitError> {
        Self::start(compute, samples, options, None, &NEVER)
    }

    /// Begins a fit, or resumes it from a state. This and [`Self::step`] fail with [`FitError::Stopped`] if they notice
    /// that `stop` is set; the state is then still that before the step.
    ///
    /// # Errors
    /// Invalid options or samples; the state is damaged, or belongs to other samples or options.
    pub fn start(
        compute: &'a Compute,
        samples: &Samples,
        options: &FitOptions,
        state: Option<&[u8]>,
        stop: &'a AtomicBool,
    ) -> Result<Self, FitError> {
        let mut fit = Self::prepare(compute, samples, options, stop)?;
        match state {
            Some(state) => fit.restore(state)?,
            None => fit.initialise(samples)?,
        }
        Ok(fit)
    }

    /// Prepares everything except the field.
    fn prepare(
        compute: &'a Compute,
        samples: &Samples,
        options: &FitOptions,
        stop: &'a AtomicBool,
    ) -> Result<Self, FitError> {
        let started = Instant::now();
        options.check()?;
        samples.check()?;
        let bounds = FieldBounds::from_points(&samples.points).ok_or(FitError::TooFew { found: 0 })?;
        let frame = Normalisation::from_samples(samples, &bounds, options.weight_mode);
        let points: Vec<[f32; 3]> =
            samples.points.iter().map(|x| std::array::from_fn(|k| (x[k] - frame.origin[k]) as f32)).collect();
        let values: Vec<f32> =
            samples.values.iter().map(|v| ((v - frame.offset) / frame.scale) as f32).collect();
        let mut shares = sample_roles(points.len(), options.holdout, options.validation, options.seed);
        thin(&mut shares, options.gaussians.max(options.max_gaussians), options.seed);
        let of = |share: SampleRole| {
            let chosen = (0..points.len()).filter(|&i| shares[i] == share);
            let (p, v): (Vec<[f32; 3]>, Vec<f32>) = chosen.map(|i| (points[i], values[i])).unzip();
            (p, v)
        };
        let (train_points, train_values) = of(SampleRole::Train);
        if train_points.is_empty() {
            return Err(FitError::NoTraining { found: points.len() });
        }
        let (validation_points, validation_values) = of(SampleRole::Validation);
        let validation =
            (!validation_points.is_empty()).then(|| LeafSamples::new(&validation_points, &validation_values));
        let exact = (options.resolved_solver() == FitSolver::Lm).then(|| {
            let chosen = || (0..points.len()).filter(|&i| shares[i] == SampleRole::Train);
            let exact_point = |i: usize| std::array::from_fn(|k| samples.points[i][k] - frame.origin[k]);
            (
                chosen().map(exact_point).collect(),
                chosen().map(|i| (samples.values[i] - frame.offset) / frame.scale).collect(),
            )
        });
        let train = LeafSamples::new(&train_points, &train_values);
        // Four leaves of a super-block belong to one batch, the next four to the next: a batch covers the whole domain.
        let turns = (0..train.leaves.rows.len())
            .map(|leaf| ((leaf.wrapping_mul(5) + leaf / 16) % usize::from(options.batches)) as u8)
            .collect();
        let size = bounds.size();
        let largest = size.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let voxel = samples
            .grid
            .map(|grid| libm::cbrt(grid.spacing.iter().product()))
            .unwrap_or_else(|| largest * 1e-3);
        let widest = if samples.grid.is_some() { (40.0 * voxel).min(largest) } else { largest };
        let logs = [0.25 * voxel, widest].map(|v| libm::log(v) as f32);
        let empty = GaussianField {
            means: Vec::new(),
            chol: Vec::new(),
            weights: Vec::new(),
            weight_mode: options.weight_mode,
            covariance: options.covariance,
            bounds: None,
        };
        Ok(Self {
            compute,
            stop,
            options: options.clone(),
            normalisation: frame,
            fingerprint: fingerprint(samples),
            bounds: covered_bounds(bounds, samples),
            points,
            values,
            roles: shares,
            train,
            validation,
            training_f64: exact,
            batch_of_leaf: turns,
            log_range: logs,
            voxel: voxel as f32,
            passes: PassMemory::default(),
            moments: Vec::new(),
            field: empty,
            adam: Vec::new(),
            lm: None,
            step: 0,
            best: None,
            has_converged: false,
            last_loss: f64::NAN,
            pairs: 0,
            seconds_before: 0.0,
            started,
        })
    }

    /// Initialises the field: means, sizes, weights.
    fn initialise(&mut self, samples: &Samples) -> Result<(), FitError> {
        let count = self.options.gaussians;
        let density: Vec<f32> = match &samples.grid {
            Some(grid) => init::grid_density(grid, &samples.points, &self.values, &self.roles),
            None => {
                let square = |(v, share): (&f32, &SampleRole)| {
                    if *share == SampleRole::Train { v * v + 1e-12 } else { 0.0 }
                };
                self.values.iter().zip(&self.roles).map(square).collect()
            }
        };
        // Neighbours are consecutive in leaf order. Leaves number the training samples only, so indices are mapped.
        let train: Vec<u32> =
            (0..self.points.len() as u32).filter(|&i| self.roles[i as usize] == SampleRole::Train).collect();
        let order: Vec<u32> = self.train.leaves.order[..self.train.leaves.len]
            .iter()
            .map(|&slot| train[slot as usize])
            .collect();
        let chosen = init::sample_stratified(&order, &density, count, self.options.seed, 0);
        let total: f64 = order.iter().map(|&i| f64::from(density[i as usize])).sum();
        let mut means: Vec<[f32; 3]> = chosen.iter().map(|&i| self.points[i as usize]).collect();
        let size = self.bounds.size();
        let sigma: Vec<f64> = if samples.grid.is_some() {
            let volume: f64 = size.iter().map(|s| s.max(f64::from(self.voxel))).product();
            let cell = volume / order.len() as f64;
            let of = |i: &u32| init::sigma_of_density(f64::from(density[*i as usize]), total, count, cell);
            chosen.iter().map(of).collect()
        } else {
            init::sigma_of_neighbours(&means, size)
        };
        for (i, mean) in means.iter_mut().enumerate() {
            let jitter = density::jitter(self.options.seed, i);
            (0..3).for_each(|k| mean[k] += 0.2 * sigma[i] as f32 * jitter[k]);
        }
        let log = |s: &f64| libm::log(*s) as f32;
        self.field = GaussianField {
            chol: sigma.iter().map(|s| [log(s), 0.0, log(s), 0.0, 0.0, log(s)]).collect(),
            weights: vec![0.0; means.len()],
            means,
            weight_mode: self.options.weight_mode,
            covariance: self.options.covariance,
            bounds: None,
        };
        density::clamp_logs(&mut self.field, self.log_range);
        self.adam = vec![AdamState::default(); self.field.len()];
        self.sort();
        self.solve_weights(START_ITERATIONS);
        if self.training_f64.is_some() {
            self.run_pursuit()?;
        }
        self.validate()?;
        Ok(())
    }

    /// Runs matching pursuit, whose Gaussians replace as many of the sampled ones.
    fn run_pursuit(&mut self) -> Result<(), FitError> {
        let Some(pursuit) = self.pursuit() else { return Ok(()) };
        let found = pursuit.run(self.field.len())?;
        let drawn = self.field.cast::<f64>();
        let kept: Vec<usize> = (found.len()..drawn.len()).collect();
        let mut start = drawn.select(&kept);
        start.weights.fill(self.options.weight_mode.raw(0.0));
        start.means.extend(found.means);
        start.chol.extend(found.chol);
        start.weights.extend(found.weights);
        self.lm = Some(LmState::new(start, self.compute, pursuit.points, pursuit.values)?);
        Ok(())
    }

    fn pursuit(&self) -> Option<Pursuit<'_>> {
        let (points, values) = self.training_f64.as_ref()?;
        Some(Pursuit {
            compute: self.compute,
            stop: self.stop,
            points,
            values,
            volume: self.bounds.size().iter().map(|s| s.max(f64::from(self.voxel))).product(),
            mode: self.options.weight_mode,
            covariance: self.options.covariance,
            shapes: Shapes::Any,
        })
    }

    /// Whether only [`Self::finish`] remains.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.has_converged
            || self.step >= self.options.resolved_steps()
            || self
                .lm
                .as_ref()
                .is_some_and(|lm| lm.is_done && lm.failed_exchanges >= lm.field.len().min(MAX_EXCHANGES))
    }

    /// Progress after the last step.
    #[must_use]
    pub fn progress(&self) -> FitProgress {
        FitProgress {
            step: self.step,
            steps: self.options.resolved_steps(),
            gaussians: self.lm.as_ref().map_or(self.field.len(), |lm| lm.field.len()),
            loss: self.last_loss,
            validation: self.best.as_ref().map(|best| best.loss),
        }
    }

    /// One step: of Adam, or one iteration of Levenberg-Marquardt.
    ///
    /// # Errors
    /// The loss is not finite; the fit was stopped.
    pub fn step(&mut self) -> Result<(), FitError> {
        if self.lm.is_some() {
            self.lm_step()?;
            self.step += 1;
            return self.validate();
        }
        let steps = self.options.resolved_steps();
        let until = (steps as f64 * DENSITY_FRACTION) as u64;
        let result = self.adam_step(steps)?;
        self.last_loss = result.loss / result.samples.max(1) as f64;
        self.pairs += result.pairs;
        self.step += 1;
        if self.step.is_multiple_of(DENSITY_EVERY) && self.step <= until && self.step < steps {
            self.control_density();
        }
        if self.step.is_multiple_of(VALIDATE_EVERY) || self.step == steps {
            self.validate()?;
            let best = self.best.as_ref().map_or(self.step, |best| best.step);
            self.has_converged = self.step >= until && self.step - best >= PATIENCE;
        }
        Ok(())
    }

    /// One iteration of Levenberg-Marquardt; an exchange of a Gaussian if it is stuck.
    fn lm_step(&mut self) -> Result<(), FitError> {
        let (Some(lm), Some(pursuit)) = (&self.lm, self.pursuit()) else { return Ok(()) };
        // A copy: a step that is stopped changes nothing.
        let mut lm = lm.clone();
        let (points, values) = (pursuit.points, pursuit.values);
        let most = lm.field.len().min(MAX_EXCHANGES);
        if (lm.is_done || lm.gain < pursuit::MIN_EXCHANGE_GAIN) && lm.failed_exchanges < most {
            match pursuit.exchange(&lm, lm.failed_exchanges)? {
                Some(better) => lm = better,
                None => lm.failed_exchanges += 1,
            }
        } else {
            lm.iterate(Shapes::Any, self.compute, points, values, self.stop)?;
            lm.is_done |= lm.failed_exchanges == most && lm.gain < CONVERGED_GAIN;
        }
        self.last_loss = lm.loss / values.len() as f64;
        self.lm = Some(lm);
        Ok(())
    }

    fn rule(&self, count: usize) -> ListRule {
        let radius = if count <= MAX_DENSE_GAUSSIANS { 1e3 } else { RADIUS };
        ListRule::Radius((K * K * radius * radius) as f32)
    }

    fn packed(&self) -> (Vec<Record<f32>>, GaussianIndex) {
        let packed = PackedField::new(self.compute.exec(), &self.field);
        let order = (0..self.field.len() as u32).collect();
        (packed.records(), GaussianIndex::new(&self.field, &packed, order, &self.compute.pool))
    }

    /// A pass of packed Gaussians over all of the samples.
    fn pass<'p>(
        &'p self,
        records: &'p [Record<f32>],
        index: &'p GaussianIndex,
        samples: &'p LeafSamples,
        want: PassOutput,
    ) -> SamplePass<'p> {
        SamplePass {
            exec: self.compute.exec(),
            index,
            records,
            samples,
            rule: self.rule(self.field.len()),
            want,
            batch: None,
            zero_targets: false,
        }
    }

    fn adam_step(&mut self, steps: u64) -> Result<PassResult, FitError> {
        let (records, index) = self.packed();
        let batches = u64::from(self.options.batches);
        let batch = Batch { batch_of_leaf: &self.batch_of_leaf, batch: (self.step % batches) as u8 };
        let mut moments = std::mem::take(&mut self.moments);
        moments.resize(self.field.len(), [0.0; 10]);
        let batch = (batches > 1).then_some(batch);
        let pass = SamplePass { batch, ..self.pass(&records, &index, &self.train, PassOutput::Moments) };
        let result = pass.run(&self.passes, &mut moments, None);
        if !result.loss.is_finite() {
            return Err(FitError::Loss { step: self.step });
        }
        let step = AdamStep {
            rates: Rates::default(),
            progress: self.step as f64 / steps as f64,
            records: &records,
            moments: &moments,
            scale: 2.0 / result.samples.max(1) as f32,
            logs: self.log_range,
        };
        step.run(&self.compute.pool, &mut self.field, &mut self.adam);
        self.moments = moments;
        Ok(result)
    }

    /// Sorts Gaussians so that neighbours are adjacent in memory.
    fn sort(&mut self) {
        let order = morton_order(&self.field);
        density::reorder(&mut self.field, &mut self.adam, &order);
    }

    fn control_density(&mut self) {
        let mut values = vec![0.0f32; self.train.leaves.order.len()];
        self.evaluate(&self.train, &mut values);
        let len = self.train.leaves.len;
        let residuals: Vec<f32> = self.train.y.iter().zip(&values).take(len).map(|(y, f)| y - f).collect();
        let rows = self.train.leaves.rows.iter();
        let points: Vec<[f32; 3]> = rows
            .flat_map(|rows| {
                (0..rows[0].len()).map(move |lane| [rows[0][lane], rows[1][lane], rows[2][lane]])
            })
            .take(len)
            .collect();
        let evidence = density::DensityInput {
            points: &points,
            residuals: &residuals,
            sigma: (0.8 * self.voxel).max(libm::expf(self.log_range[0])),
            seed: self.options.seed,
            step: self.step,
            max_gaussians: self.options.max_gaussians.max(self.options.gaussians),
        };
        density::control_density(&mut self.field, &mut self.adam, &evidence);
        density::clamp_logs(&mut self.field, self.log_range);
        self.sort();
    }

    /// Evaluates the field at samples, by slot; returns the sum of squared residuals.
    fn evaluate(&self, samples: &LeafSamples, values: &mut [f32]) -> PassResult {
        let (records, index) = self.packed();
        let pass = self.pass(&records, &index, samples, PassOutput::Values);
        let mut moments = Vec::new();
        pass.run(&self.passes, &mut moments, (!values.is_empty()).then_some(values))
    }

    fn solve_weights(&mut self, iterations: usize) {
        let (mut solved, index) = self.packed();
        let records = solved.clone();
        let pass = self.pass(&records, &index, &self.train, PassOutput::Zeroth);
        let weights = weights::solve(&pass, &self.passes, &mut solved, WEIGHT_REGULARISATION, iterations);
        let mode = self.field.weight_mode;
        // Weights that softplus and sigmoid reach with a slope that is not 0.
        let [least, most] = match mode {
            WeightMode::Raw => [f64::NEG_INFINITY, f64::INFINITY],
            WeightMode::Softplus => [1e-3, f64::INFINITY],
            WeightMode::Sigmoid => [1e-3, 1.0 - 1e-3],
        };
        for (raw, weight) in self.field.weights.iter_mut().zip(weights) {
            *raw = mode.raw(f64::from(weight).max(least).min(most)) as f32;
        }
    }

    /// Evaluates the validation samples and keeps the best field.
    fn validate(&mut self) -> Result<(), FitError> {
        let field: GaussianField<f64> = match &self.lm {
            Some(lm) => lm.field.clone(),
            None => self.field.cast(),
        };
        let loss = match (&self.validation, &self.lm) {
            (None, _) => {
                self.best = Some(BestField { field, loss: f64::NAN, step: self.step });
                return Ok(());
            }
            (Some(validation), None) => {
                let result = self.evaluate(validation, &mut []);
                result.loss / result.samples.max(1) as f64
            }
            (Some(validation), Some(lm)) => {
                let rows = validation.leaves.rows.iter();
                let points: Vec<[f64; 3]> = rows
                    .flat_map(|r| (0..r[0].len()).map(move |i| [r[0][i], r[1][i], r[2][i]].map(f64::from)))
                    .take(validation.leaves.len)
                    .collect();
                let found = crate::eval::Evaluator::new(self.compute, &lm.field)?.values(&points)?;
                let errors = found.iter().zip(&validation.y).map(|(f, y)| (f - f64::from(*y)).powi(2));
                errors.sum::<f64>() / points.len() as f64
            }
        };
        if self.best.as_ref().is_none_or(|best| loss < best.loss) {
            self.best = Some(BestField { field, loss, step: self.step });
        }
        Ok(())
    }

    /// Duration of the fit so far, seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    /// Ends the fit: solves for the weights once more, selects the best field by validation, and measures errors.
    ///
    /// # Errors
    /// The field is invalid.
    pub fn finish(mut self) -> Result<FitResult, FitError> {
        if self.lm.is_none() {
            if let Some(best) = &self.best {
                self.field = best.field.cast();
            }
            let step = self.best.as_ref().map_or(self.step, |best| best.step);
            let before = self.field.clone();
            self.solve_weights(FINISH_ITERATIONS);
            let kept = std::mem::replace(&mut self.step, step);
            self.validate()?;
            self.step = kept;
            if self.field.check().is_err() {
                self.field = before;
            }
        }
        let (field, best_step) = match self.best.take() {
            Some(best) => (best.field, best.step),
            None => (self.field.cast(), self.step),
        };
        let seconds = self.seconds();
        let started = Instant::now();
        let single: GaussianField<f32> = field.cast();
        // Spare samples are not evaluated: they have no part in the fit.
        let used: Vec<usize> =
            (0..self.points.len()).filter(|&i| self.roles[i] != SampleRole::Spare).collect();
        let points: Vec<[f32; 3]> = used.iter().map(|&i| self.points[i]).collect();
        let set = SortedPoints::new(&points)?;
        let evaluator = AcceleratedEvaluator::new(self.compute, &single)?;
        let (found, _) = evaluator.values(&set, Cutoff::Absolute(REPORT_ERROR))?;
        let report_seconds = started.elapsed().as_secs_f64();
        let value = |v: f32| self.normalisation.offset + self.normalisation.scale * f64::from(v);
        let metrics = |wanted: &dyn Fn(usize) -> bool| {
            let chosen = used.iter().zip(&found).filter(|(i, _)| wanted(**i));
            let (f, y): (Vec<f64>, Vec<f64>) =
                chosen.map(|(&i, found)| (value(*found), value(self.values[i]))).unzip();
            Metrics::new(&f, &y, self.normalisation.scale)
        };
        let is_test = |i: usize| self.roles[i] == SampleRole::Test;
        let low = self.values.iter().copied().fold(f32::INFINITY, f32::min);
        let train = metrics(&|i| !is_test(i));
        let test = metrics(&is_test);
        let test_foreground = metrics(&|i| is_test(i) && self.values[i] - low > 0.02);
        let mut field = field;
        for mean in &mut field.means {
            (0..3).for_each(|k| mean[k] += self.normalisation.origin[k]);
        }
        field.bounds = Some(self.bounds);
        if field.covariance == CovarianceKind::Diagonal {
            field.chol.iter_mut().for_each(|c| [c[1], c[3], c[4]] = [0.0; 3]);
        }
        Ok(FitResult {
            field,
            normalisation: self.normalisation,
            steps: self.step,
            best_step,
            train,
            test,
            test_foreground,
            seconds,
            report_seconds,
            pairs: self.lm.is_none().then_some(self.pairs),
        })
    }
}

/// The box that the samples cover; each grid point covers its cell.
fn covered_bounds(mut bounds: FieldBounds, samples: &Samples) -> FieldBounds {
    if let Some(grid) = &samples.grid {
        for k in 0..3 {
            bounds.lo[k] -= 0.5 * grid.spacing[k];
            bounds.hi[k] += 0.5 * grid.spacing[k];
        }
    }
    bounds
}

/// Fingerprint of the samples (FNV-1a over their bits).
fn fingerprint(samples: &Samples) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut mix = |bits: u64| hash = (hash ^ bits).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    samples.points.iter().flatten().for_each(|x| mix(x.to_bits()));
    samples.values.iter().for_each(|v| mix(v.to_bits()));
    hash
}
