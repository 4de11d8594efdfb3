//! Per-view corrections: rows of colour and pose corrections, and their update.

use fearless_simd::Level;
use gausset_core::engine::{CorrectionRates, EngineError, ExtraGroup, Group, TrainView};
use gausset_metrics::{Gain, GainGradient, Vignetting};
use gausset_raster::adam::{Slice, update_slice};

use crate::state::BlockState;

/// Index of a group, and of a row in it.
pub(crate) type Place = (usize, usize);

/// The rows that correct the colours of a view; `None` where a correction is not used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColourRows {
    pub(crate) gains: Option<Place>,
    pub(crate) vignetting: Option<Place>,
}

/// The colour correction of a view, as read from its rows.
pub(crate) enum Colours {
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
    pub(crate) fn of(view: &TrainView, state: &BlockState) -> Result<Self, EngineError> {
        Ok(Self {
            gains: state.correction(Group::Gain, view.exposure_row)?,
            vignetting: state.correction(Group::Vignetting, view.vignetting_row)?,
        })
    }

    /// Reads the correction from the rows, for a camera with its principal point at `centre`.
    pub(crate) fn read(&self, state: &BlockState, centre: [f64; 2]) -> Colours {
        let three = |(group, row): Place| {
            let row = state.extras[group].row(row);
            [row[0], row[1], row[2]]
        };
        if self.gains.is_none() && self.vignetting.is_none() {
            return Colours::AsRendered;
        }
        Colours::Gain(Gain {
            log_gains: self.gains.map_or([0.0; 3], three),
            vignetting: self
                .vignetting
                .map(|place| Vignetting { coefficients: three(place), centre: centre.map(|c| c as f32) }),
        })
    }
}

/// Subtracts the mean over all rows from each row, value by value: the mean is then 0 up to the rounding of f32.
pub(crate) fn hold_mean(group: &mut ExtraGroup) {
    let (width, rows) = (group.group.width(), group.clocks.len());
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
    extra: &mut ExtraGroup,
    row: usize,
    gradient: &[f32],
    rates: &CorrectionRates,
) {
    // A gradient that is not finite must not change the row.
    if !gradient.iter().all(|g| g.is_finite()) {
        return;
    }
    let width = extra.group.width();
    extra.clocks[row] = extra.clocks[row].saturating_add(1);
    let clock = u64::from(extra.clocks[row]);
    let split = if extra.group == Group::Pose { width / 2 } else { width };
    for (part, rate) in [(0..split, rates.first), (split..width, rates.second)] {
        let range = row * width + part.start..row * width + part.end;
        let slice = Slice {
            parameter: &mut extra.values[range.clone()],
            moment1: &mut extra.m[range.clone()],
            moment2: &mut extra.v[range],
        };
        update_slice(level, slice, &gradient[part], rate, clock);
    }
    let (range, identity) = (extra.range(row), extra.group.identity());
    for (value, &target) in extra.values[range].iter_mut().zip(identity) {
        *value -= rates.decay * (*value - target);
    }
}
