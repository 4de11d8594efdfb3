//! The pass rule of the fixtures (their README, section 9).
//!
//! With candidate c and reference r, a tensor passes if `|c - r| / |r| <= rel` (L2 norms) or `max |c - r| <= abs`;
//! integer tensors must be equal; masked tensors are compared on robust pixels only; a candidate value that is not
//! finite fails at any pixel.

use std::fmt;

use crate::fixtures::{Case, Tolerance};
use crate::tensor::Tensor;

/// Which of the two tolerances applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// A backend that computes in single precision.
    F32,
    /// A backend that computes in double precision.
    F64,
}

/// Difference of a candidate from its reference, and the result of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Case.
    pub case: String,
    /// Tensor.
    pub tensor: String,
    /// Largest absolute error of the values that count; NaN if the tensors could not be compared.
    pub max_abs: f64,
    /// Relative L2 error of the values that count; NaN if the tensors could not be compared.
    pub relative: f64,
    /// The tolerance, `None` for tensors that must be equal or could not be compared.
    pub tolerance: Option<Tolerance>,
    /// Whether it passed.
    pub passed: bool,
    /// Reason why it could not be compared, or number of values that differ.
    pub note: String,
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.case, self.tensor)?;
        if !self.max_abs.is_nan() {
            write!(f, "relative L2 error {:.2e}, largest error {:.2e} ", self.relative, self.max_abs)?;
            match self.tolerance {
                Some(t) => write!(f, "(tolerance {:.0e} or {:.0e}) ", t.rel, t.abs)?,
                None => write!(f, "(must be equal) ")?,
            }
        }
        if !self.note.is_empty() {
            write!(f, "{} ", self.note)?;
        }
        f.write_str(if self.passed { "ok" } else { "FAILED" })
    }
}

/// Compares a candidate for the tensor `name` of a case.
///
/// A candidate with one value matches a reference of shape `[1]` for any shape of its own.
///
/// # Panics
/// If the case has no rule for that name, or a masked tensor has no mask.
#[must_use]
pub fn compare(case: &Case, name: &str, candidate: &Tensor, precision: Precision) -> Comparison {
    let rule = case.rules.get(name).unwrap_or_else(|| panic!("{}: no rule for `{name}`", case.name));
    let reference = case.tensor(name);
    let mut result = Comparison {
        case: case.name.clone(),
        tensor: name.to_owned(),
        max_abs: f64::NAN,
        relative: f64::NAN,
        tolerance: None,
        passed: false,
        note: String::new(),
    };
    let both_scalar = candidate.len() == 1 && reference.shape == [1];
    if candidate.shape != reference.shape && !both_scalar {
        result.note = format!("shape is {:?} (expected {:?})", candidate.shape, reference.shape);
        return result;
    }
    let non_finite = candidate.values.iter().filter(|v| !v.is_finite()).count();
    if non_finite > 0 {
        result.note = format!("{non_finite} of {} values are not finite", candidate.len());
        return result;
    }
    let pairs: Vec<(f64, f64)> =
        candidate.values.iter().copied().zip(reference.values.iter().copied()).collect();
    let pairs = if rule.masked { keep_robust(case, name, pairs) } else { pairs };
    (result.max_abs, result.relative) = errors(&pairs);
    if rule.equal {
        result.passed = result.max_abs == 0.0;
        if !result.passed {
            result.note =
                format!("{} of {} values differ", pairs.iter().filter(|(c, r)| c != r).count(), pairs.len());
        }
    } else {
        let tolerance = match precision {
            Precision::F32 => rule.f32,
            Precision::F64 => rule.f64,
        };
        let tolerance = tolerance.unwrap_or_else(|| panic!("{}: {name}: no tolerance", case.name));
        result.tolerance = Some(tolerance);
        result.passed = result.relative <= tolerance.rel || result.max_abs <= tolerance.abs;
    }
    result
}

/// `(largest absolute error, relative L2 error)` of (candidate, reference) pairs.
fn errors(pairs: &[(f64, f64)]) -> (f64, f64) {
    let max_abs = pairs.iter().fold(0.0f64, |worst, (c, r)| worst.max((c - r).abs()));
    let norm = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(|p| f(p).powi(2)).sum::<f64>().sqrt();
    let (error, reference) = (norm(&|(c, r)| c - r), norm(&|(_, r)| *r));
    let relative = match (error, reference) {
        (0.0, _) => 0.0,
        (_, 0.0) => f64::INFINITY,
        (error, reference) => error / reference,
    };
    (max_abs, relative)
}

/// Drops the pairs of pixels at which a decision is close: `out.cap256.image` is masked by `mask.cap256.robust`.
fn keep_robust(case: &Case, name: &str, pairs: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let parts: Vec<&str> = name.split('.').collect();
    let mask_name = [&["mask"], &parts[1..parts.len() - 1], &["robust"]].concat().join(".");
    let mask = case.tensor(&mask_name);
    assert!(
        !mask.is_empty() && pairs.len().is_multiple_of(mask.len()),
        "{}: `{mask_name}` does not fit `{name}`",
        case.name
    );
    let per_pixel = pairs.len() / mask.len();
    pairs
        .into_iter()
        .enumerate()
        .filter(|(i, _)| mask.values[i / per_pixel] != 0.0)
        .map(|(_, pair)| pair)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fixtures::{CaseKind, CaseSettings, CompareRule};

    fn case_with(reference: &[f64], rule: CompareRule, mask: &[f64]) -> Case {
        let mut tensors = BTreeMap::new();
        tensors.insert("out.cap4.x".to_owned(), Tensor::new(&[reference.len()], reference));
        tensors.insert("mask.cap4.robust".to_owned(), Tensor::new(&[mask.len()], mask));
        Case {
            name: "made_up".to_owned(),
            kind: CaseKind::Raster,
            description: String::new(),
            settings: CaseSettings::default(),
            tensors,
            rules: [("out.cap4.x".to_owned(), rule)].into(),
        }
    }

    fn rule(rel: f64, abs: f64) -> CompareRule {
        CompareRule {
            f32: Some(Tolerance { rel, abs }),
            f64: Some(Tolerance { rel: 0.0, abs: 0.0 }),
            equal: false,
            masked: false,
        }
    }

    fn verdict(case: &Case, candidate: &[f64], precision: Precision) -> Comparison {
        compare(case, "out.cap4.x", &Tensor::new(&[candidate.len()], candidate), precision)
    }

    #[test]
    fn either_tolerance_is_enough_and_each_precision_has_its_own() {
        let case = case_with(&[3.0, 4.0], rule(0.1, 0.0), &[]);
        assert!(verdict(&case, &[3.0, 4.5], Precision::F32).passed, "0.5 of 5 is exactly a tenth");
        assert!(!verdict(&case, &[3.0, 4.6], Precision::F32).passed);
        assert!(!verdict(&case, &[3.0, 4.5], Precision::F64).passed);
        let case = case_with(&[3.0, 4.0], rule(0.0, 0.5), &[]);
        assert!(verdict(&case, &[3.5, 3.5], Precision::F32).passed);
        assert!(!verdict(&case, &[3.6, 4.0], Precision::F32).passed);
    }

    #[test]
    fn a_zero_reference_needs_the_absolute_tolerance() {
        let case = case_with(&[0.0, 0.0], rule(1.0, 1e-6), &[]);
        assert!(verdict(&case, &[0.0, 5e-7], Precision::F32).passed);
        assert!(!verdict(&case, &[0.0, 5e-6], Precision::F32).passed);
        assert!(verdict(&case, &[0.0, 0.0], Precision::F64).passed);
    }

    #[test]
    fn pixels_outside_the_mask_count_only_when_they_are_not_finite() {
        let masked = CompareRule { masked: true, ..rule(1e-6, 0.0) };
        let case = case_with(&[1.0, 2.0, 3.0, 4.0], masked, &[1.0, 0.0]);
        assert!(verdict(&case, &[1.0, 2.0, 9.0, 9.0], Precision::F32).passed);
        assert!(!verdict(&case, &[1.0, 2.1, 3.0, 4.0], Precision::F32).passed);
        let nan = verdict(&case, &[1.0, 2.0, f64::NAN, 4.0], Precision::F32);
        assert_eq!(nan.to_string(), "made_up: out.cap4.x: 1 of 4 values are not finite FAILED");
    }

    #[test]
    fn integers_must_be_equal_and_shapes_must_fit() {
        let equal = CompareRule { f32: None, f64: None, equal: true, masked: false };
        let case = case_with(&[1.0, 2.0], equal, &[]);
        assert!(verdict(&case, &[1.0, 2.0], Precision::F32).passed);
        assert!(
            verdict(&case, &[1.0, 3.0], Precision::F32).to_string().contains("1 of 2 values differ FAILED")
        );
        assert!(verdict(&case, &[1.0], Precision::F32).note.starts_with("shape is [1]"));
    }
}
