//! Density control: the rules that change the set of splats, executed on a [`TrainState`].
//!
//! | rule | source | file |
//! |---|---|---|
//! | classic: clone, split, prune | Kerbl et al. 2023, section 5; statistic in NDC as in the released code | `classic` |
//! | MCMC: relocate, add | Kheradmand et al. 2024, eq. 9 and section 4 | `mcmc`, `long_axis` |
//! | opacity reset | Kerbl et al. 2023, section 5.2 | here |
//!
//! What all rules share:
//! - Kept splats keep their order and their bits; new ones follow in the order of the splats they come from (classic)
//!   or of their draws (MCMC). With `reorder` the result is then sorted along a Morton curve.
//! - New splats have zero moments, clock 0 and the next ids.
//! - Splats with a parameter that is not finite are removed, counted apart (an opacity reset removes nothing).
//! - Random numbers are functions of (seed, step, id); nothing depends on the number of threads or the vector level.

#![forbid(unsafe_code)]

pub mod decide;
pub mod morton;

mod classic;
mod long_axis;
mod mcmc;
mod noise;
mod rows;

pub use classic::SPLIT_STREAMS;
pub use mcmc::{MAX_COPIES, Share, copies_integral, share_among_copies};
pub use noise::{FADE_STEEPNESS, noise_from_normals, noise_of_splat};

use gausset_compute::Pool;
use gausset_core::Splats;
use gausset_core::engine::{DensityRule, TrainState};

/// Splats per task; fixed, so that the partition does not depend on the threads.
const CHUNK: usize = 4096;

/// What a density rule did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DensityOutcome {
    /// Splats to which a copy was added (classic).
    pub cloned: u64,
    /// Splats replaced by two smaller ones (classic).
    pub split: u64,
    /// Splats removed for opacity, scale or screen radius (classic).
    pub pruned: u64,
    /// Dead splats moved to living ones (MCMC).
    pub relocated: u64,
    /// Splats added by growth (MCMC).
    pub added: u64,
    /// Splats removed because a parameter was not finite.
    pub non_finite: u64,
}

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
        // What a view draws is known to the engine.
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
/// A logit that is not finite stays: its splat is dead and must not come back.
fn reset_opacity(state: &mut TrainState, max_opacity: f32) {
    let highest = logit(max_opacity);
    for value in state.splats.opacity_logits.iter_mut().filter(|v| v.is_finite()) {
        *value = value.min(highest);
    }
    state.moments.m.opacity_logits.fill(0.0);
    state.moments.v.opacity_logits.fill(0.0);
}

/// For each splat, whether a parameter is not finite; `None` when all splats are finite.
fn not_finite(splats: &Splats, pool: &Pool) -> Option<Vec<bool>> {
    let sh = splats.sh_stride();
    let mut dead = vec![false; splats.len()];
    pool.run_chunks(&mut dead, CHUNK, |chunk, dead| {
        let first = chunk * CHUNK;
        for (i, dead) in (first..).zip(dead) {
            *dead = any_not_finite(&splats.means[i])
                | any_not_finite(&splats.log_scales[i])
                | any_not_finite(&splats.quats[i])
                | !splats.opacity_logits[i].is_finite()
                | any_not_finite(&splats.sh[i * sh..(i + 1) * sh]);
        }
    });
    dead.contains(&true).then_some(dead)
}

/// Without early exit, so that it runs in vectors.
fn any_not_finite(values: &[f32]) -> bool {
    values.iter().fold(false, |any, v| any | !v.is_finite())
}

/// `ln x` in f64, rounded to f32.
fn ln(x: f32) -> f32 {
    libm::log(f64::from(x)) as f32
}

/// The logit of an opacity in f64, rounded to f32: `-∞` at 0, `+∞` at 1.
fn logit(opacity: f32) -> f32 {
    let o = f64::from(opacity);
    (libm::log(o) - libm::log1p(-o)) as f32
}
