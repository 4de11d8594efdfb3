//! Per-view corrections: rows of exposure and pose, and their update.

use fearless_simd::Level;
use gausset_core::engine::{CorrectionRates, ExtraGroup};
use gausset_raster::adam::update_slice;

/// Adam on one row, then the pull towards its identity: `value -= decay (value - identity)`.
///
/// The first half of the row moves with `rates.first`, the second with `rates.second` when `halves` is set.
pub(crate) fn update_row(
    level: Level,
    group: &mut ExtraGroup,
    row: usize,
    gradient: &[f32],
    identity: &[f32],
    rates: &CorrectionRates,
    halves: bool,
) {
    // A gradient that is not finite must not reach the row.
    if !gradient.iter().all(|g| g.is_finite()) {
        return;
    }
    let width = group.width as usize;
    group.clocks[row] = group.clocks[row].saturating_add(1);
    let clock = u64::from(group.clocks[row]);
    let split = if halves { width / 2 } else { width };
    for (part, rate) in [(0..split, rates.first), (split..width, rates.second)] {
        let range = row * width + part.start..row * width + part.end;
        update_slice(
            level,
            &mut group.values[range.clone()],
            &mut group.m[range.clone()],
            &mut group.v[range],
            &gradient[part],
            rate,
            clock,
        );
    }
    for (value, &target) in group.values[row * width..(row + 1) * width].iter_mut().zip(identity) {
        *value -= rates.decay * (*value - target);
    }
}
