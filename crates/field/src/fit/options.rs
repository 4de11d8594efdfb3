//! Options of a fit.

use crate::field::{CovarianceKind, WeightMode};
use crate::fit::error::FitError;

/// Optimiser of the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FitSolver {
    /// Levenberg-Marquardt for few Gaussians, otherwise Adam.
    #[default]
    Auto,
    /// Adam: any number of Gaussians.
    Adam,
    /// Levenberg-Marquardt over all parameters: few Gaussians.
    Lm,
}

impl FitSolver {
    /// All solvers; the first is the default.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Adam, Self::Lm];

    /// Name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Adam => "adam",
            Self::Lm => "lm",
        }
    }
}

/// Options of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FitOptions {
    /// Initial number of Gaussians.
    pub gaussians: usize,
    /// Largest number of Gaussians; a value above `gaussians` enables splitting.
    pub max_gaussians: usize,
    /// Steps of Adam, or iterations of Levenberg-Marquardt; `None` = 400, or at most 100.
    pub steps: Option<u64>,
    /// Which entries of the factors are learned.
    pub covariance: CovarianceKind,
    /// Mapping from raw weights to weights.
    pub weight_mode: WeightMode,
    /// Optimiser of the parameters.
    pub solver: FitSolver,
    /// Fraction of the samples that is held out.
    pub holdout: f64,
    /// Fraction of the other samples that decides when to stop; 0 = never stop early.
    pub validation: f64,
    /// A step of Adam uses 1/n of the samples.
    pub batches: u8,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            gaussians: 1000,
            max_gaussians: 0,
            steps: None,
            covariance: CovarianceKind::Full,
            weight_mode: WeightMode::Raw,
            solver: FitSolver::Auto,
            holdout: 0.1,
            validation: 0.05,
            batches: 1,
            seed: 0,
        }
    }
}

/// Pairs farther than this many standard deviations are omitted from training.
pub(crate) const RADIUS: f64 = 3.5;
/// Largest number of unknowns for which [`FitSolver::Auto`] selects Levenberg-Marquardt.
const AUTO_LM_UNKNOWNS: usize = 300;
/// Largest number of unknowns of Levenberg-Marquardt, whose matrix grows with their square.
const MAX_LM_UNKNOWNS: usize = 4000;

impl FitOptions {
    /// The solver that is used.
    #[must_use]
    pub fn resolved_solver(&self) -> FitSolver {
        match self.solver {
            FitSolver::Auto if 10 * self.gaussians.max(self.max_gaussians) <= AUTO_LM_UNKNOWNS => {
                FitSolver::Lm
            }
            FitSolver::Auto => FitSolver::Adam,
            solver => solver,
        }
    }

    /// Number of steps.
    #[must_use]
    pub fn resolved_steps(&self) -> u64 {
        self.steps.unwrap_or(if self.resolved_solver() == FitSolver::Lm { 100 } else { 400 })
    }

    /// Checks the options.
    ///
    /// # Errors
    /// An option is out of range.
    pub fn check(&self) -> Result<(), FitError> {
        let bad = |option, expected, found: f64| Err(FitError::Option { option, expected, found });
        let is_share = |v: f64| (0.0..1.0).contains(&v);
        if self.gaussians == 0 {
            return bad("gaussians", "at least 1", 0.0);
        }
        if !is_share(self.holdout) {
            return bad("holdout", "a share in 0..1", self.holdout);
        }
        if !is_share(self.validation) {
            return bad("validation", "a share in 0..1", self.validation);
        }
        if self.batches == 0 {
            return bad("batches", "at least 1", 0.0);
        }
        if self.max_gaussians != 0 && self.max_gaussians < self.gaussians {
            return bad("max-gaussians", "at least as many as at the start", self.max_gaussians as f64);
        }
        if self.resolved_solver() == FitSolver::Lm {
            if 10 * self.gaussians > MAX_LM_UNKNOWNS {
                return bad("gaussians", "at most 400 with Levenberg-Marquardt", self.gaussians as f64);
            }
            if self.max_gaussians > self.gaussians {
                let expected = "as many as at the start with Levenberg-Marquardt, or ⟨solver = adam⟩";
                return bad("max-gaussians", expected, self.max_gaussians as f64);
            }
        }
        Ok(())
    }
}
