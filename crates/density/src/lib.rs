//! Density control: the rules that change the set of splats, executed on a [`TrainState`].
//!
//! | rule | source | file |
//! |---|---|---|
//! | classic: clone, split, prune | Kerbl et al. 2023, section 5; statistic in NDC as in the released code | `classic` |
//! | MCMC: relocate, add | Kheradmand et al. 2024, eq. 9 and section 4 | `mcmc`, `long_axis` |
//! | opacity reset | Kerbl et al. 2023, section 5.2 | here |
//! | free space | needs views, so the engines execute it | `gausset_raster::free_space` |
//!
//! Common to all rules:
//! - Kept splats keep their order and their bits; new ones follow in the order of their source splats (classic) or of
//!   their draws (MCMC). With `reorder` the result is then sorted along a Morton curve.
//! - New splats have zero moments, clock 0 and the next free ids.
//! - Random numbers are functions of (seed, step, id); nothing depends on the number of threads or the vector level.
//!
//! ```
//! use gausset_compute::Pool;
//! use gausset_core::Splats;
//! use gausset_core::engine::{DensityRule, McmcRule, TrainState};
//!
//! let mut state = TrainState::new(Splats::zeros(0, 100), Vec::new());
//! let rule = DensityRule::Mcmc(McmcRule {
//!     seed: 1,
//!     step: 600,
//!     dead_opacity: 0.005,
//!     growth: 1.05,
//!     max_splats: 1000,
//!     split_largest: 0.0,
//!     reorder: false,
//! });
//! let outcome = gausset_density::apply(&mut state, &rule, &Pool::new(2));
//! assert_eq!((outcome.added, outcome.relocated, state.splats.len()), (5, 0, 105));
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod decide;
pub mod morton;

mod classic;
mod long_axis;
mod mcmc;
mod outcome;
mod rows;
mod values;

pub use classic::SPLIT_STREAMS;
pub use mcmc::{CopyParameters, MAX_COPIES, copy_parameters, overlap_integral};
pub use outcome::DensityOutcome;

use gausset_compute::Pool;
use gausset_core::engine::{DensityRule, TrainState};

pub use values::logit;

/// Applies a density rule to a state.
///
/// # Panics
/// If the arrays of the state have different lengths.
pub fn apply(state: &mut TrainState, rule: &DensityRule, pool: &Pool) -> DensityOutcome {
    let reorders = match rule {
        DensityRule::Classic(classic) => classic.reorder,
        DensityRule::Mcmc(mcmc) => mcmc.reorder,
        DensityRule::ResetOpacity { .. } | DensityRule::FreeSpace(_) => false,
    };
    let outcome = match rule {
        DensityRule::Classic(rule) => classic::apply(state, rule, pool),
        DensityRule::Mcmc(rule) => mcmc::apply(state, rule, pool),
        DensityRule::ResetOpacity { max_opacity } => {
            reset_opacity(state, *max_opacity);
            DensityOutcome::default()
        }
        // Implemented by the engine, which knows what a view draws.
        DensityRule::FreeSpace(_) => DensityOutcome::default(),
    };
    if reorders {
        reorder(state, pool);
    }
    outcome
}

/// Sorts a state along a Morton curve through the means (30 bits, stable): parameters, moments, clocks, ids and
/// statistics move together.
///
/// # Panics
/// If the arrays of the state have different lengths.
pub fn reorder(state: &mut TrainState, pool: &Pool) {
    let order = morton::order(&state.splats.means, pool);
    rows::permute(state, &order, pool);
}

/// Lowers every opacity to at most `max_opacity` and zeroes the moments of the opacity logits.
///
/// A logit that is not finite is kept: its splat is dead and must not be revived.
fn reset_opacity(state: &mut TrainState, max_opacity: f32) {
    let highest = logit(max_opacity);
    for value in state.splats.opacity_logits.iter_mut().filter(|v| v.is_finite()) {
        *value = value.min(highest);
    }
    state.moments.m.opacity_logits.fill(0.0);
    state.moments.v.opacity_logits.fill(0.0);
}
