//! Per-view corrections: rows of colour and pose corrections, and their update.

use fearless_simd::Level;
use gausset_core::engine::{CorrectionGroup, CorrectionKind, CorrectionRates, EngineError, TrainView};
use gausset_metrics::{Gain, GainGradient, Vignetting};
use gausset_raster::adam::{ParameterSlice, update_slice};

use crate::state::BlockState;

/// Index of a group, and of a row in it.
pub(crate) type RowIndex = (usize, usize);

/// The rows that correct the colours of a view; `None` where a correction is not used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColourRows {
    pub(crate) gains: Option<RowIndex>,
    pub(crate) vignetting: Option<RowIndex>,
}

/// The colour correction of a view, as read from its rows.
pub(crate) enum ColourCorrection {
    AsRendered,
    Gain(Gain),
}

/// Derivative of the loss with respect to the correction.
pub(crate) enum ColourGradient {
    None,
    Gain(GainGradient),
}

impl ColourRows {
    /// The rows that a view uses.
    pub(crate) fn from_view(view: &TrainView, state: &BlockState) -> Result<Self, EngineError> {
        Ok(Self {
            gains: state.correction_index(CorrectionKind::Gain, view.exposure_row)?,
            vignetting: state.correction_index(CorrectionKind::Vignetting, view.vignetting_row)?,
        })
    }

    /// Reads the correction from the rows, for a camera with its principal point at `centre`.
    pub(crate) fn read(&self, state: &BlockState, centre: [f64; 2]) -> ColourCorrection {
        let three = |(group, row): RowIndex| {
            let row = state.extras[group].row(row);
            [row[0], row[1], row[2]]
        };
        if self.gains.is_none() && self.vignetting.is_none() {
            return ColourCorrection::AsRendered;
        }
        ColourCorrection::Gain(Gain {
            log_gains: self.gains.map_or([0.0; 3], three),
            vignetting: self
                .vignetting
                .map(|place| Vignetting { coefficients: three(place), centre: centre.map(|c| c as f32) }),
        })
    }
}

/// Subtracts the mean over all rows from each row, value by value: the mean is then 0 up to the rounding of f32.
pub(crate) fn subtract_mean(group: &mut CorrectionGroup) {
    let (width, rows) = (group.group.values_per_row(), group.update_counts.len());
    for k in 0..width {
        let column = || group.values.iter().skip(k).step_by(width);
        let mean = column().map(|&value| f64::from(value)).sum::<f64>() / rows.max(1) as f64;
        for value in group.values.iter_mut().skip(k).step_by(width) {
            *value = (f64::from(*value) - mean) as f32;
        }
    }
}

/// Adam on one row, then decay towards its identity: `value -= decay (value - identity)`.
///
/// The first half of a pose uses `rates.first`, the second `rates.second`; all values of any other row use the first.
pub(crate) fn update_row(
    level: Level,
    extra: &mut CorrectionGroup,
    row: usize,
    gradient: &[f32],
    rates: &CorrectionRates,
) {
    // A gradient that is not finite must not change the row.
    if !gradient.iter().all(|g| g.is_finite()) {
        return;
    }
    let width = extra.group.values_per_row();
    extra.update_counts[row] = extra.update_counts[row].saturating_add(1);
    let clock = u64::from(extra.update_counts[row]);
    let split = if extra.group == CorrectionKind::Pose { width / 2 } else { width };
    for (part, rate) in [(0..split, rates.first), (split..width, rates.second)] {
        let range = row * width + part.start..row * width + part.end;
        let slice = ParameterSlice {
            parameter: &mut extra.values[range.clone()],
            moment1: &mut extra.m[range.clone()],
            moment2: &mut extra.v[range],
        };
        update_slice(level, slice, &gradient[part], rate, clock);
    }
    let (range, identity) = (extra.row_range(row), extra.group.identity());
    for (value, &target) in extra.values[range].iter_mut().zip(identity) {
        *value -= rates.decay * (*value - target);
    }
}
