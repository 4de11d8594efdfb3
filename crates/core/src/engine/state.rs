//! What an engine holds: splats with moments, clocks, statistics, and the groups of corrections.

use crate::{Splats, sh};

/// Name of the group of gains: 3 values a row, the natural logarithm of a factor on each channel of the rendered colour.
/// After an update of a row the mean over all rows is taken off each of them, channel by channel, so that the gains of
/// all pictures together change nothing (the gauge: what all share belongs to the splats).
pub const GAIN_GROUP: &str = "gains";
/// Name of the group of vignetting: 3 values a row, `a` in `1 + a1 r² + a2 r⁴ + a3 r⁶`, r the distance from the principal
/// point in half diagonals of the picture.
pub const VIGNETTING_GROUP: &str = "vignetting";
/// Name of the group of exposure corrections of version 0.1: 12 values a row, a row-major 3x4 affine on the rendered
/// colour.
pub const EXPOSURE_GROUP: &str = "exposure";
/// Name of the group of pose corrections: 6 values a row, a twist `(rho, phi)` multiplied from the left to
/// `camera_from_world`, or to `rig_from_world` of the rig that the camera belongs to.
pub const POSE_GROUP: &str = "pose";
/// Name of the group of the sky: one row of [`SKY_WIDTH`] values, the coefficients of spherical harmonics up to degree 2
/// of the colour behind all splats, `[coefficient][channel]`.
pub const SKY_GROUP: &str = "sky";
/// Values of a sky.
pub const SKY_WIDTH: usize = 27;

/// Adam moments of a [`Splats`]: the same shapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// First moments.
    pub m: Splats,
    /// Second moments.
    pub v: Splats,
}

/// Statistics that density control reads, per splat, since they were last cleared (by [`DensityRule::Classic`](super::DensityRule::Classic)).
///
/// The statistic of a step is the norm of `(dL/du · W/2, dL/dv · H/2)`: the gradient of the projected mean in
/// normalised device coordinates, loss averaged over pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DensityStatistics {
    /// Sum of the statistic over the steps in which the splat was visible.
    pub gradient_sum: Vec<f32>,
    /// Number of those steps.
    pub visible_steps: Vec<u32>,
    /// Largest screen radius in px.
    pub max_radius: Vec<f32>,
}

/// A group of per-view corrections with its moments: `rows × width` values each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraGroup {
    /// [`GAIN_GROUP`], [`VIGNETTING_GROUP`], [`EXPOSURE_GROUP`], [`POSE_GROUP`] or [`SKY_GROUP`].
    pub name: String,
    /// Values per row.
    pub width: u32,
    /// Current values.
    pub values: Vec<f32>,
    /// First moments.
    pub m: Vec<f32>,
    /// Second moments.
    pub v: Vec<f32>,
    /// Updates that each row has received.
    pub clocks: Vec<u32>,
}

impl ExtraGroup {
    /// A group of `rows` copies of `identity` with zero moments.
    #[must_use]
    pub fn new(name: &str, identity: &[f32], rows: usize) -> Self {
        let values: Vec<f32> = identity.iter().copied().cycle().take(identity.len() * rows).collect();
        Self {
            name: name.to_owned(),
            width: identity.len() as u32,
            m: vec![0.0; values.len()],
            v: vec![0.0; values.len()],
            clocks: vec![0; rows],
            values,
        }
    }

    /// Gains of 1.
    #[must_use]
    pub fn gains(rows: usize) -> Self {
        Self::new(GAIN_GROUP, &[0.0; 3], rows)
    }

    /// Cameras without vignetting.
    #[must_use]
    pub fn vignetting(rows: usize) -> Self {
        Self::new(VIGNETTING_GROUP, &[0.0; 3], rows)
    }

    /// Identity exposures.
    #[must_use]
    pub fn exposures(rows: usize) -> Self {
        Self::new(EXPOSURE_GROUP, &[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], rows)
    }

    /// Zero twists.
    #[must_use]
    pub fn poses(rows: usize) -> Self {
        Self::new(POSE_GROUP, &[0.0; 6], rows)
    }

    /// A grey sky.
    #[must_use]
    pub fn sky() -> Self {
        Self::new(SKY_GROUP, &[0.0; SKY_WIDTH], 1)
    }

    /// The values of one row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[f32] {
        let w = self.width as usize;
        &self.values[row * w..(row + 1) * w]
    }
}

/// The whole state that a device holds: what a checkpoint keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainState {
    /// Parameters, in the engine's order.
    pub splats: Splats,
    /// Adam moments.
    pub moments: Moments,
    /// Updates that each splat has received ([`AdamMode::Sparse`](super::AdamMode::Sparse)).
    pub clocks: Vec<u32>,
    /// Updates that all splats have received ([`AdamMode::Dense`](super::AdamMode::Dense)).
    pub group_clock: u64,
    /// Identity of each splat: the counter of its random numbers.
    pub ids: Vec<u32>,
    /// Identity that the next new splat gets.
    pub next_id: u32,
    /// Density statistics.
    pub statistics: DensityStatistics,
    /// Corrections per view.
    pub extras: Vec<ExtraGroup>,
}

impl TrainState {
    /// The state before the first step: zero moments, clocks and statistics, ids in order.
    #[must_use]
    pub fn new(splats: Splats, extras: Vec<ExtraGroup>) -> Self {
        let n = splats.len();
        let zeros = Splats::zeros(splats.sh_degree, n);
        Self {
            splats,
            moments: Moments { m: zeros.clone(), v: zeros },
            clocks: vec![0; n],
            group_clock: 0,
            ids: (0..n as u32).collect(),
            next_id: n as u32,
            statistics: DensityStatistics {
                gradient_sum: vec![0.0; n],
                visible_steps: vec![0; n],
                max_radius: vec![0.0; n],
            },
            extras,
        }
    }

    /// Bytes that a splat takes in a state: each parameter with two moments, and five numbers of clocks, ids and
    /// statistics.
    #[must_use]
    pub const fn bytes_per_splat(sh_degree: u8) -> u64 {
        // Mean, scales, quaternion, opacity, SH: 59 floats at degree 3.
        12 * (11 + 3 * sh::coefficients(sh_degree) as u64) + 20
    }

    /// The group of a name.
    #[must_use]
    pub fn extra(&self, name: &str) -> Option<&ExtraGroup> {
        self.extras.iter().find(|g| g.name == name)
    }
}
