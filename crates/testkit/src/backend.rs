//! Comparison of a whole implementation with the fixtures.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::fixtures::{Case, CaseKind, Fixtures};
use crate::pass_rule::{Comparison, Precision, compare};
use crate::tensor::Tensor;

/// Candidate tensors of one case, named as in the fixtures, for example `out.image`, `grad.cap256.means`.
pub type Outputs = BTreeMap<String, Tensor>;

/// An implementation that can be compared with the fixtures.
pub trait Backend {
    /// Precision of its arithmetic.
    fn precision(&self) -> Precision;

    /// The kinds of cases that it implements.
    fn kinds(&self) -> &[CaseKind];

    /// Whether it also supplies `mid.*` tensors.
    fn supplies_intermediates(&self) -> bool {
        false
    }

    /// Computes a case of one of its [`Self::kinds`] from the `in.*` tensors: every `out.*` and `grad.*` tensor.
    fn outputs(&self, case: &Case) -> Outputs;
}

/// Results of comparing any number of tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FixtureReport {
    /// One entry per tensor that was required or supplied.
    pub comparisons: Vec<Comparison>,
}

impl FixtureReport {
    /// The tensors that did not pass.
    pub fn failures(&self) -> impl Iterator<Item = &Comparison> {
        self.comparisons.iter().filter(|c| !c.passed)
    }

    /// Fails with one line per tensor that did not pass.
    ///
    /// # Panics
    /// If there is such a tensor, or no tensor at all.
    pub fn assert_passed(&self) {
        assert!(!self.comparisons.is_empty(), "no tensor was compared");
        let mut lines = String::new();
        for failure in self.failures() {
            let _ = writeln!(lines, "  {failure}");
        }
        assert!(
            lines.is_empty(),
            "{} of {} tensors failed:\n{lines}",
            self.failures().count(),
            self.comparisons.len()
        );
    }

    /// Per case, the tensor that came closest to its relative tolerance, or exceeded it most: for a table.
    #[must_use]
    pub fn worst_per_case(&self) -> Vec<&Comparison> {
        let badness = |c: &Comparison| c.tolerance.map_or(0.0, |t| c.relative / t.rel);
        let mut worst: BTreeMap<&str, &Comparison> = BTreeMap::new();
        for comparison in &self.comparisons {
            let entry = worst.entry(&comparison.case).or_insert(comparison);
            if badness(comparison) > badness(entry) {
                *entry = comparison;
            }
        }
        worst.into_values().collect()
    }
}

/// Compares the candidates of one case. `out.*` and `grad.*` tensors that were not supplied fail, and so do names that
/// the case does not have.
#[must_use]
pub fn check(case: &Case, outputs: &Outputs, precision: Precision) -> FixtureReport {
    check_scope(case, outputs, precision, false)
}

/// Runs a backend on every case of its kinds.
#[must_use]
pub fn check_backend(fixtures: &Fixtures, backend: &dyn Backend) -> FixtureReport {
    let mut report = FixtureReport::default();
    for case in fixtures.cases.iter().filter(|case| backend.kinds().contains(&case.kind)) {
        let outputs = backend.outputs(case);
        let of_case = check_scope(case, &outputs, backend.precision(), backend.supplies_intermediates());
        report.comparisons.extend(of_case.comparisons);
    }
    report
}

fn check_scope(case: &Case, outputs: &Outputs, precision: Precision, intermediates: bool) -> FixtureReport {
    let mut report = FixtureReport::default();
    let failed = |tensor: &str, note: &str| Comparison {
        case: case.name.clone(),
        tensor: tensor.to_owned(),
        max_abs: f64::NAN,
        relative: f64::NAN,
        tolerance: None,
        passed: false,
        note: note.to_owned(),
    };
    for name in case.required(intermediates).filter(|&name| !outputs.contains_key(name)) {
        report.comparisons.push(failed(name, "was not supplied"));
    }
    for (name, candidate) in outputs {
        report.comparisons.push(if case.rules.contains_key(name) {
            compare(case, name, candidate, precision)
        } else {
            failed(name, "is not a tensor of this case")
        });
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_are_missing_or_unknown_fail() {
        let fixtures = Fixtures::load();
        let case = fixtures.with_kind(CaseKind::Knn).next().expect("there is a kNN case");
        let mut outputs: Outputs =
            case.required(true).map(|name| (name.to_owned(), case.tensor(name).clone())).collect();
        let complete = check(case, &outputs, Precision::F64);
        complete.assert_passed();
        assert_eq!(complete.comparisons.len(), case.rules.len());

        let (name, tensor) = outputs.pop_first().expect("a case has results");
        outputs.insert("out.typo".to_owned(), tensor);
        let notes: Vec<String> = check(case, &outputs, Precision::F64)
            .failures()
            .map(|f| format!("{} {}", f.tensor, f.note))
            .collect();
        assert_eq!(
            notes,
            [format!("{name} was not supplied"), "out.typo is not a tensor of this case".to_owned()]
        );
    }
}
