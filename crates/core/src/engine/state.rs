//! The state of an engine: splats with moments, clocks and statistics, and the groups of corrections.

use crate::{Splats, sh};

/// Number of values of the sky: 9 SH coefficients of 3 channels.
pub const SKY_VALUES: usize = 27;

/// What the rows of an [`CorrectionGroup`] correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CorrectionKind {
    /// Exposure gain: 3 values a row, the natural logarithm of a factor on each channel of the rendered colour. After
    /// an update of a row, the mean over all rows is subtracted from each of them, channel by channel. This fixes the
    /// gauge: a factor that all images share belongs to the splats.
    Gain,
    /// 3 values a row, `a` in `1 + a1 r² + a2 r⁴ + a3 r⁶`; r is the distance from the principal point in units of half
    /// the image diagonal.
    Vignetting,
    /// 6 values a row, a twist `(rho, phi)` multiplied from the left to `camera_from_world`, or to `rig_from_world` of
    /// the rig that the camera belongs to.
    Pose,
    /// One row of [`SKY_VALUES`] values: SH coefficients up to degree 2 of the colour behind all splats,
    /// `[coefficient][channel]`.
    Sky,
}

impl CorrectionKind {
    /// All kinds; a state has at most one group of each.
    pub const ALL: [Self; 4] = [Self::Gain, Self::Vignetting, Self::Pose, Self::Sky];

    /// Stable name, used in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gain => "gains",
            Self::Vignetting => "vignetting",
            Self::Pose => "pose",
            Self::Sky => "sky",
        }
    }

    /// The group with this name; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// The values of a row that has no effect.
    #[must_use]
    pub const fn identity(self) -> &'static [f32] {
        match self {
            Self::Gain | Self::Vignetting => &[0.0; 3],
            Self::Pose => &[0.0; 6],
            Self::Sky => &[0.0; SKY_VALUES],
        }
    }

    /// Number of values per row.
    #[must_use]
    pub const fn values_per_row(self) -> usize {
        self.identity().len()
    }
}

impl std::fmt::Display for CorrectionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Adam moments of a [`Splats`], in arrays of the same shapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdamMoments {
    /// First moments: decaying means of the gradients.
    pub m: Splats,
    /// Second moments: decaying means of the squared gradients.
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
    /// Largest screen radius in px of the image at full size, over the steps in which the splat got a gradient.
    pub max_radius: Vec<f32>,
}

/// A group of corrections with its Adam moments: `rows × width` values each.
///
/// ```
/// use gausset_core::engine::{CorrectionGroup, CorrectionKind};
///
/// let poses = CorrectionGroup::new(CorrectionKind::Pose, 3);
/// assert_eq!((poses.values.len(), poses.row_range(2)), (18, 12..18));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectionGroup {
    /// What the rows correct; determines their width.
    pub group: CorrectionKind,
    /// Current values, row by row.
    pub values: Vec<f32>,
    /// First moments, in the order of `values`.
    pub m: Vec<f32>,
    /// Second moments, in the order of `values`.
    pub v: Vec<f32>,
    /// Number of updates of each row.
    pub update_counts: Vec<u32>,
}

impl CorrectionGroup {
    /// `rows` rows without effect (for the sky: grey), with zero moments.
    #[must_use]
    pub fn new(group: CorrectionKind, rows: usize) -> Self {
        let values = group.identity().repeat(rows);
        Self {
            group,
            m: vec![0.0; values.len()],
            v: vec![0.0; values.len()],
            update_counts: vec![0; rows],
            values,
        }
    }

    /// Index range of the values of one row.
    #[must_use]
    pub fn row_range(&self, row: usize) -> std::ops::Range<usize> {
        let width = self.group.values_per_row();
        row * width..(row + 1) * width
    }

    /// The values of one row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[self.row_range(row)]
    }
}

/// The whole state of a device, as saved in a checkpoint.
///
/// ```
/// use gausset_core::{Splats, engine::TrainState};
///
/// let state = TrainState::new(Splats::zeros(3, 100), Vec::new());
/// assert_eq!((state.ids[99], state.next_id), (99, 100));
/// // 59 parameters of 4 bytes, each with two moments, and 20 bytes more.
/// assert_eq!(TrainState::bytes_per_splat(3), 59 * 12 + 20);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainState {
    /// Parameters, in the engine's order.
    pub splats: Splats,
    /// Adam moments of `splats`.
    pub moments: AdamMoments,
    /// Number of updates of each splat ([`AdamMode::Sparse`](super::AdamMode::Sparse)).
    pub update_counts: Vec<u32>,
    /// Number of updates of all splats ([`AdamMode::Dense`](super::AdamMode::Dense)).
    pub dense_update_count: u64,
    /// Id of each splat, which is the counter of its random numbers.
    pub ids: Vec<u32>,
    /// Id of the next new splat.
    pub next_id: u32,
    /// Density statistics since they were last cleared.
    pub statistics: DensityStatistics,
    /// Corrections, one group per kind.
    pub corrections: Vec<CorrectionGroup>,
}

impl TrainState {
    /// The state before the first step: zero moments, clocks and statistics, ids in order.
    #[must_use]
    pub fn new(splats: Splats, extras: Vec<CorrectionGroup>) -> Self {
        let n = splats.len();
        let zeros = Splats::zeros(splats.sh_degree, n);
        Self {
            splats,
            moments: AdamMoments { m: zeros.clone(), v: zeros },
            update_counts: vec![0; n],
            dense_update_count: 0,
            ids: (0..n as u32).collect(),
            next_id: n as u32,
            statistics: DensityStatistics {
                gradient_sum: vec![0.0; n],
                visible_steps: vec![0; n],
                max_radius: vec![0.0; n],
            },
            corrections: extras,
        }
    }

    /// Bytes per splat of a state: each parameter with two moments, and five 4-byte values for clock, id and
    /// statistics.
    #[must_use]
    pub const fn bytes_per_splat(sh_degree: u8) -> u64 {
        // Mean, scales, quaternion, opacity, SH: 59 floats at degree 3.
        12 * (11 + 3 * sh::coefficients(sh_degree) as u64) + 20
    }

    /// The corrections of one kind, if the state has them.
    #[must_use]
    pub fn correction_group(&self, group: CorrectionKind) -> Option<&CorrectionGroup> {
        self.corrections.iter().find(|extra| extra.group == group)
    }
}
