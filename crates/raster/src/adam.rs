//! Stage `adam`: the update of raw parameters (Kingma and Ba 2015).
//!
//! ```text
//! m = 0.9 m + 0.1 g,  v = 0.999 v + 0.001 g²,  p -= rate (m / (1 - 0.9ᵗ)) / (sqrt(v / (1 - 0.999ᵗ)) + 1e-15)
//! ```
//!
//! *Dense*: one clock for all splats; every splat is updated. *Sparse*: a clock per splat; a splat without gradient is
//! unchanged together with its moments. The decision is made per lane.

use fearless_simd::{Level, f32x16, mask32x16, prelude::*};
use gausset_compute::at_level;
use gausset_compute::simd::{LANES, Row, fma, load, splat};
use gausset_core::constants::{ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON};

/// Moments below this are set to zero: they have no effect next to epsilon, and letting them decay further would end in
/// slow subnormal arithmetic.
const MOMENT_FLOOR: f32 = 1e-36;

/// Bias corrections `1/(1 - 0.9ᵗ)` and `1/(1 - 0.999ᵗ)`, computed in f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BiasCorrection {
    /// Factor on the first moment.
    pub first: f32,
    /// Factor on the second moment.
    pub second: f32,
}

impl BiasCorrection {
    /// Bias corrections for update number `clock`, counted from 1.
    #[must_use]
    pub fn new(clock: u64) -> Self {
        let t = clock.max(1) as f64;
        let correction = |beta: f64| (1.0 / (1.0 - libm::pow(beta, t))) as f32;
        Self { first: correction(ADAM_BETA1), second: correction(ADAM_BETA2) }
    }
}

/// Precomputed bias corrections for small clocks, used by sparse updates.
#[derive(Clone, Debug)]
pub struct BiasCorrectionTable(Vec<BiasCorrection>);

/// Number of clocks after which both corrections are 1 in f32: `0.999^20000 = 2e-9`.
const TABLE_LEN: usize = 20_000;

impl Default for BiasCorrectionTable {
    fn default() -> Self {
        Self((0..TABLE_LEN as u64).map(BiasCorrection::new).collect())
    }
}

impl BiasCorrectionTable {
    /// Bias corrections for update number `clock`.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, clock: u32) -> BiasCorrection {
        self.0.get(clock as usize).copied().unwrap_or(BiasCorrection { first: 1.0, second: 1.0 })
    }
}

/// Bias corrections of 16 splats, and which of them are updated.
#[derive(Clone, Copy)]
pub(crate) struct LaneAdam<S: Simd> {
    pub first: f32x16<S>,
    pub second: f32x16<S>,
    pub is_updated: mask32x16<S>,
}

/// Updates one row of parameters and its moments in place; returns the new parameters.
#[inline(always)]
pub(crate) fn update_row<S: Simd>(
    simd: S,
    parameter: &mut Row,
    moment1: &mut Row,
    moment2: &mut Row,
    gradient: f32x16<S>,
    rate: f32x16<S>,
    lanes: &LaneAdam<S>,
) -> f32x16<S> {
    let zero = splat(simd, 0.0);
    let (p, old_m, old_v) = (load(simd, parameter), load(simd, moment1), load(simd, moment2));
    let m = fma(splat(simd, ADAM_BETA1 as f32), old_m, splat(simd, (1.0 - ADAM_BETA1) as f32) * gradient);
    let v = fma(
        splat(simd, ADAM_BETA2 as f32),
        old_v,
        splat(simd, (1.0 - ADAM_BETA2) as f32) * gradient * gradient,
    );
    let floor = splat(simd, MOMENT_FLOOR);
    let m = m.abs().simd_ge(floor).select(m, zero);
    let v = v.simd_ge(floor).select(v, zero);
    let denominator = (v * lanes.second).sqrt() + splat(simd, ADAM_EPSILON as f32);
    let next = p - rate * (m * lanes.first) / denominator;
    let next = lanes.is_updated.select(next, p);
    lanes.is_updated.select(m, old_m).store_array(moment1);
    lanes.is_updated.select(v, old_v).store_array(moment2);
    next.store_array(parameter);
    next
}

/// A plain array of parameters (exposures, poses, tests) with its moments.
#[derive(Debug)]
pub struct ParameterSlice<'a> {
    /// Raw parameters, updated in place.
    pub parameter: &'a mut [f32],
    /// First moments, one per parameter.
    pub moment1: &'a mut [f32],
    /// Second moments, one per parameter.
    pub moment2: &'a mut [f32],
}

/// Applies update number `clock` (from 1) to a plain array: dense, with one clock.
///
/// # Panics
/// If the slices differ in length.
pub fn update_slice(level: Level, slice: ParameterSlice<'_>, gradient: &[f32], rate: f32, clock: u64) {
    let correction = BiasCorrection::new(clock);
    at_level!(level, simd => slice_kernel(simd, slice, gradient, rate, correction));
}

#[inline(always)]
fn slice_kernel<S: Simd>(
    simd: S,
    slice: ParameterSlice<'_>,
    gradient: &[f32],
    rate: f32,
    correction: BiasCorrection,
) {
    let ParameterSlice { parameter, moment1, moment2 } = slice;
    assert!(
        moment1.len() == parameter.len()
            && moment2.len() == parameter.len()
            && gradient.len() == parameter.len()
    );
    let lanes = LaneAdam {
        first: splat(simd, correction.first),
        second: splat(simd, correction.second),
        is_updated: mask32x16::splat(simd, true),
    };
    let parts = parameter
        .chunks_mut(LANES)
        .zip(moment1.chunks_mut(LANES))
        .zip(moment2.chunks_mut(LANES))
        .zip(gradient.chunks(LANES));
    for (((p, m), v), g) in parts {
        let row = |s: &[f32]| -> Row { std::array::from_fn(|i| s.get(i).copied().unwrap_or(0.0)) };
        let (mut pr, mut mr, mut vr, gr) = (row(p), row(m), row(v), row(g));
        update_row(simd, &mut pr, &mut mr, &mut vr, load(simd, &gr), splat(simd, rate), &lanes);
        p.copy_from_slice(&pr[..p.len()]);
        m.copy_from_slice(&mr[..m.len()]);
        v.copy_from_slice(&vr[..v.len()]);
    }
}
