//! Writes and reads the state of a fit as a safetensors file. A resumed fit ends with the same bytes.
//!
//! Tensors: the field (`means`, `chol`, `weights`), Adam's `m1`, `m2` (N, 10) and `steps` (N), the best field so far
//! (`best_*`). Metadata: `format` = `gausset-field-fit/1`, step, options, fingerprint of the samples, and as `work` the
//! pairs and seconds so far.

use gausset_io::input::NEVER;
use gausset_io::text::quote;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::error::ContentError;
use crate::eval::Compute;
use crate::field::{GaussianField, WeightMode};
use crate::fit::adam::AdamState;
use crate::fit::data::Samples;
use crate::fit::error::FitError;
use crate::fit::lm::LmState;
use crate::fit::options::{FitOptions, RADIUS};
use crate::fit::run::{BestField, FieldFit};
use crate::model::{numbers, serialize, tensor};
use crate::real::Real;

/// Value of `format`.
const FORMAT: &str = "gausset-field-fit/1";

fn bytes<T: Real>(values: &[T]) -> Vec<u8> {
    // f32 numbers are exact in f64, so both precisions are kept in one type.
    values.iter().flat_map(|v| (*v).into().to_le_bytes()).collect()
}

impl<'a> FieldFit<'a> {
    /// The state as the bytes of a file.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        let mut parts: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        let mut add = |prefix: &str, field: &GaussianField<f64>| {
            let n = field.len();
            parts.push((format!("{prefix}means"), vec![n, 3], bytes(field.means.as_flattened())));
            parts.push((format!("{prefix}chol"), vec![n, 6], bytes(field.chol.as_flattened())));
            parts.push((format!("{prefix}weights"), vec![n], bytes(&field.weights)));
        };
        match &self.lm {
            Some(lm) => add("", &lm.field),
            None => add("", &self.field.cast()),
        }
        if let Some(best) = &self.best {
            add("best_", &best.field);
        }
        let n = self.adam.len();
        let rows =
            |of: &dyn Fn(&AdamState) -> [f32; 10]| -> Vec<f32> { self.adam.iter().flat_map(of).collect() };
        parts.push(("m1".to_owned(), vec![n, 10], bytes(&rows(&|state| state.first))));
        parts.push(("m2".to_owned(), vec![n, 10], bytes(&rows(&|state| state.second))));
        let steps: Vec<f64> = self.adam.iter().map(|state| f64::from(state.steps)).collect();
        parts.push(("steps".to_owned(), vec![n], bytes(&steps)));
        let views = parts
            .iter()
            .filter_map(|(name, shape, data)| {
                Some((name.as_str(), TensorView::new(Dtype::F64, shape.clone(), data).ok()?))
            })
            .collect();
        let mut metadata = vec![
            ("format", FORMAT.to_owned()),
            ("step", self.step.to_string()),
            ("stopped", u8::from(self.has_converged).to_string()),
            ("options", options_text(&self.options)),
            ("samples", format!("{:016x}", self.fingerprint)),
            ("work", format!("{} {}", self.pairs, self.seconds())),
        ];
        if let Some(best) = &self.best {
            // `NaN` means "not validated", but is not written to the file.
            let loss = if best.loss.is_finite() { best.loss } else { -1.0 };
            metadata.push(("best", format!("{} {loss:e}", best.step)));
        }
        if let Some(lm) = &self.lm {
            metadata.push((
                "lm",
                format!(
                    "{:e} {:e} {} {:e} {}",
                    lm.lambda,
                    lm.loss,
                    u8::from(lm.is_done),
                    lm.gain,
                    lm.failed_exchanges
                ),
            ));
        }
        serialize(views, metadata)
    }

    /// Resumes from a state with the same samples and options.
    ///
    /// # Errors
    /// The state is damaged, or belongs to other samples or options.
    pub fn resume(
        compute: &'a Compute,
        samples: &Samples,
        options: &FitOptions,
        state: &[u8],
    ) -> Result<Self, FitError> {
        Self::start(compute, samples, options, Some(state), &NEVER)
    }

    /// Replaces the field and what belongs to it by those of a state.
    pub(crate) fn restore(&mut self, state: &[u8]) -> Result<(), FitError> {
        let damaged = |what: String| FitError::State { problem: what };
        let unread = |error: ContentError| damaged(error.to_string());
        let not_ours = |error| damaged(format!("not a safetensors file ({error})"));
        let (_, header) = SafeTensors::read_metadata(state).map_err(not_ours)?;
        let tensors = SafeTensors::deserialize(state).map_err(not_ours)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let word = |key: &str| metadata.get(key).cloned().unwrap_or_default();
        if word("format") != FORMAT {
            return Err(damaged(format!("format (expected `{FORMAT}`, found {})", quote(&word("format")))));
        }
        let expected =
            [("options", options_text(&self.options)), ("samples", format!("{:016x}", self.fingerprint))];
        for (what, expected) in expected {
            let found = word(what);
            if found != expected {
                return Err(FitError::OtherFit { what, expected, found });
            }
        }
        let (mode, covariance) = (self.options.weight_mode, self.options.covariance);
        let field = |prefix: &str| -> Result<GaussianField<f64>, FitError> {
            let name = |tensor: &str| format!("{prefix}{tensor}");
            let (n, weights) = tensor(&tensors, &name("weights"), None).map_err(unread)?;
            let (_, means) = tensor(&tensors, &name("means"), Some((n, 3))).map_err(unread)?;
            let (_, chol) = tensor(&tensors, &name("chol"), Some((n, 6))).map_err(unread)?;
            let (means, chol) = (means.as_chunks().0.to_vec(), chol.as_chunks().0.to_vec());
            GaussianField::new(means, chol, weights, mode, covariance)
                .map_err(|error| damaged(error.to_string()))
        };
        let current = field("")?;
        let n = current.len();
        let number = |key: &str| -> Result<f64, FitError> {
            numbers::<1>(&metadata, key)
                .map_err(unread)?
                .map(|v| v[0])
                .ok_or_else(|| damaged(format!("no {key}")))
        };
        self.step = number("step")? as u64;
        self.has_converged = number("stopped")? != 0.0;
        if let Some([step, loss]) = numbers::<2>(&metadata, "best").map_err(unread)? {
            let loss = if loss < 0.0 { f64::NAN } else { loss };
            self.best = Some(BestField { field: field("best_")?, loss, step: step as u64 });
        }
        match numbers::<5>(&metadata, "lm").map_err(unread)? {
            Some([lambda, loss, is_done, gain, tried]) => {
                self.field = current.cast();
                self.lm = Some(LmState {
                    field: current,
                    lambda,
                    loss,
                    is_done: is_done != 0.0,
                    gain,
                    failed_exchanges: tried as usize,
                });
            }
            None => self.field = current.cast(),
        }
        self.adam = fit_rows(&tensors, self.field.len().min(n)).map_err(unread)?;
        // States of version 0.2 do not have this.
        if let Some([pairs, seconds]) = numbers::<2>(&metadata, "work").map_err(unread)? {
            (self.pairs, self.seconds_before) = (pairs as u64, seconds);
        }
        Ok(())
    }
}

fn fit_rows(tensors: &SafeTensors<'_>, n: usize) -> Result<Vec<AdamState>, ContentError> {
    let (_, first) = tensor(tensors, "m1", Some((n, 10)))?;
    let (_, second) = tensor(tensors, "m2", Some((n, 10)))?;
    let (count, steps) = tensor(tensors, "steps", None)?;
    if count != n {
        return Err(ContentError::unexpected("tensor `steps`", "wrong length", n, count));
    }
    let row = |values: &[f64]| std::array::from_fn(|k| values[k] as f32);
    let states = first.chunks_exact(10).zip(second.chunks_exact(10)).zip(&steps);
    Ok(states.map(|((a, b), s)| AdamState { first: row(a), second: row(b), steps: *s as u32 }).collect())
}

/// Text of all options that influence the result.
fn options_text(options: &FitOptions) -> String {
    format!(
        "gaussians {} max {} steps {} cov {} weights {}{} solver {} holdout {} validation {} batches {} radius {} seed {}",
        options.gaussians,
        options.max_gaussians,
        options.resolved_steps(),
        options.covariance.name(),
        options.weight_mode.name(),
        if options.weight_mode == WeightMode::Raw { "" } else { " offset lowest" },
        options.resolved_solver().name(),
        options.holdout,
        options.validation,
        options.batches,
        RADIUS,
        options.seed
    )
}
