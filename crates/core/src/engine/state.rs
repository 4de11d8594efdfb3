//! What an engine holds: splats with moments, clocks, statistics, and the groups of corrections.

use crate::{Splats, sh};

/// Values of a sky.
pub const SKY_WIDTH: usize = 27;

/// What the rows of an [`ExtraGroup`] correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// 3 values a row, the natural logarithm of a factor on each channel of the rendered colour. After an update of a
    /// row the mean over all rows is taken off each of them, channel by channel, so that the gains of all pictures
    /// together change nothing (the gauge: what all share belongs to the splats).
    Gain,
    /// 3 values a row, `a` in `1 + a1 r² + a2 r⁴ + a3 r⁶`, r the distance from the principal point in half diagonals of
    /// the picture.
    Vignetting,
    /// 6 values a row, a twist `(rho, phi)` multiplied from the left to `camera_from_world`, or to `rig_from_world` of
    /// the rig that the camera belongs to.
    Pose,
    /// One row of [`SKY_WIDTH`] values, the coefficients of spherical harmonics up to degree 2 of the colour behind all
    /// splats, `[coefficient][channel]`.
    Sky,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::Gain, Self::Vignetting, Self::Pose, Self::Sky];

    /// Stable name, in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gain => "gains",
            Self::Vignetting => "vignetting",
            Self::Pose => "pose",
            Self::Sky => "sky",
        }
    }

    /// The group of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// The values of a row that corrects nothing.
    #[must_use]
    pub const fn identity(self) -> &'static [f32] {
        match self {
            Self::Gain | Self::Vignetting => &[0.0; 3],
            Self::Pose => &[0.0; 6],
            Self::Sky => &[0.0; SKY_WIDTH],
        }
    }

    /// Values of a row.
    #[must_use]
    pub const fn width(self) -> usize {
        self.identity().len()
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

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
    /// Largest screen radius in px, over the steps in which the splat got a gradient.
    pub max_radius: Vec<f32>,
}

/// A group of corrections with its moments: `rows × width` values each.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtraGroup {
    /// What the rows correct, and how wide they are.
    pub group: Group,
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
    /// So many rows that correct nothing (a grey sky), with zero moments.
    #[must_use]
    pub fn new(group: Group, rows: usize) -> Self {
        let values = group.identity().repeat(rows);
        Self { group, m: vec![0.0; values.len()], v: vec![0.0; values.len()], clocks: vec![0; rows], values }
    }

    /// Places of the values of one row.
    #[must_use]
    pub fn range(&self, row: usize) -> std::ops::Range<usize> {
        let width = self.group.width();
        row * width..(row + 1) * width
    }

    /// The values of one row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[self.range(row)]
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

    /// The corrections of a kind.
    #[must_use]
    pub fn extra(&self, group: Group) -> Option<&ExtraGroup> {
        self.extras.iter().find(|extra| extra.group == group)
    }
}
