//! Filters splats that can be rendered; every reader uses it.
//!
//! An opacity of exactly 1 (logit +∞) and a scale of exactly 0 (log scale −∞) are valid and are replaced by the nearest
//! trainable value. Other values that are not finite, and a rotation of length zero, drop the splat. So do finite
//! values too large for single precision: a renderer needs their squares and products, and one such splat would turn
//! every pixel that it touches into NaN.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use gausset_core::{Splats, sh};

use super::memory::MemoryAccount;
use super::{Format, ReadReport, SplatError, SplatFile};

/// Logit that replaces an opacity of 1: `1 - 3e-7`.
const FULL_OPACITY_LOGIT: f32 = 15.0;
/// Log scale that replaces a scale of 0: `9e-14` scene units.
const ZERO_LOG_SCALE: f32 = -30.0;
/// Coordinates beyond this (scene units) cause a note.
const FAR_COORDINATE: f32 = 1e6;
/// Largest coordinate: adjacent f32 values are 65,536 units apart here.
const LARGEST_COORDINATE: f32 = 1e12;
/// Largest log scale: `2e17` scene units, whose fourth power (a determinant) is finite.
const LARGEST_LOG_SCALE: f32 = 40.0;
/// Largest component of a quaternion before normalisation; below, its smallest squared length.
const LARGEST_QUATERNION: f32 = 1e15;
const SHORTEST_QUATERNION_SQUARED: f32 = 1e-30;
/// Largest SH coefficient: white is 1.8, and a loss squares it.
const LARGEST_COEFFICIENT: f32 = 1e6;

/// Number of values before SH in a decoded row: mean, log scale, quaternion, opacity logit.
pub(super) const VALUES_BEFORE_SH: usize = 11;

/// Decides which splats are usable, and counts the others.
#[derive(Default)]
pub(super) struct SplatFilter {
    pub(super) report: ReadReport,
    far: u64,
}

impl SplatFilter {
    /// Whether a splat (`[mean 3 | log scale 3 | quaternion 4 | logit 1 | SH …]`) is kept. May repair it.
    pub(super) fn accepts(&mut self, row: &mut [f32]) -> bool {
        self.report.found += 1;
        let Some((geometry, sh)) = row.split_first_chunk_mut::<VALUES_BEFORE_SH>() else { return false };
        let finite = |values: &[f32]| values.iter().fold(true, |all, v| all & v.is_finite());
        // Comparisons with NaN are false.
        let within = |values: &[f32], most: f32| values.iter().fold(true, |all, v| all & (v.abs() <= most));
        let is_ordinary = within(&geometry[..3], LARGEST_COORDINATE)
            & finite(&geometry[3..11])
            & geometry[3..6].iter().fold(true, |all, &v| all & (v <= LARGEST_LOG_SCALE))
            & within(&geometry[6..10], LARGEST_QUATERNION)
            & within(sh, LARGEST_COEFFICIENT);
        if !is_ordinary {
            if let Some(why) = drop_reason(geometry, sh) {
                self.report.drop_one(why);
                return false;
            }
            self.repair(geometry);
        }
        if geometry[6..10].iter().map(|v| v * v).sum::<f32>() < SHORTEST_QUATERNION_SQUARED {
            self.report.drop_one("zero rotation");
            return false;
        }
        self.far += u64::from(is_far(&geometry[..3]));
        true
    }

    /// Whether a point is kept.
    pub(super) fn accepts_point(&mut self, position: [f64; 3]) -> bool {
        self.report.found += 1;
        let why = if !position.iter().all(|v| v.is_finite()) {
            Some("non-finite position")
        } else if position.iter().any(|v| v.abs() > f64::from(LARGEST_COORDINATE)) {
            Some("position out of range")
        } else {
            None
        };
        if let Some(why) = why {
            self.report.drop_one(why);
        }
        self.far += u64::from(why.is_none() && is_far(&position));
        why.is_none()
    }

    /// The final report.
    pub(super) fn into_report(mut self) -> ReadReport {
        if self.far > 0 {
            let far = self.far;
            self.report.notes.push(format!(
                "positions: far from the origin (expected coordinates up to {FAR_COORDINATE:e}, found {far} beyond)"
            ));
        }
        self.report
    }

    fn repair(&mut self, geometry: &mut [f32; VALUES_BEFORE_SH]) {
        if geometry[10] == f32::INFINITY {
            geometry[10] = FULL_OPACITY_LOGIT;
            self.report.repair_one("opacity of exactly 1");
        }
        let scales = &mut geometry[3..6];
        if scales.contains(&f32::NEG_INFINITY) {
            scales.iter_mut().filter(|s| **s == f32::NEG_INFINITY).for_each(|s| *s = ZERO_LOG_SCALE);
            self.report.repair_one("scale of exactly 0");
        }
    }
}

/// Why a splat with unusual values must be dropped; `None` if it can be kept.
fn drop_reason(geometry: &[f32; VALUES_BEFORE_SH], sh: &[f32]) -> Option<&'static str> {
    let any = |values: &[f32], bad: fn(f32) -> bool| values.iter().any(|&v| bad(v));
    let not_finite = |v: f32| !v.is_finite();
    let (mean, log_scales) = (&geometry[..3], &geometry[3..6]);
    let (rotation, opacity) = (&geometry[6..10], &geometry[10..11]);
    let reasons = [
        (any(mean, not_finite), "non-finite position"),
        (any(log_scales, |v| v.is_nan() || v == f32::INFINITY), "non-finite scale"),
        (any(rotation, not_finite), "non-finite rotation"),
        (any(opacity, |v| v.is_nan() || v == f32::NEG_INFINITY), "non-finite opacity"),
        (any(sh, not_finite), "non-finite colour"),
        (any(mean, |v| v.abs() > LARGEST_COORDINATE), "position out of range"),
        (any(log_scales, |v| v > LARGEST_LOG_SCALE), "scale out of range"),
        (any(rotation, |v| v.abs() > LARGEST_QUATERNION), "rotation out of range"),
        (any(sh, |v| v.abs() > LARGEST_COEFFICIENT), "colour out of range"),
    ];
    reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
}

fn is_far<T: Copy + Into<f64>>(position: &[T]) -> bool {
    position.iter().any(|&v| v.into().abs() > f64::from(FAR_COORDINATE))
}

/// Collects the usable splats from decoded rows.
pub(super) struct SplatCollector {
    splats: Splats,
    /// Capacity to reserve with the first splat: a count alone allocates no memory.
    capacity: usize,
    usable: SplatFilter,
}

impl SplatCollector {
    /// Creates a collector for `promised` rows, which may be more than there are.
    pub(super) fn new(sh_degree: u8, promised: u64, memory: &MemoryAccount<'_>) -> Result<Self, SplatError> {
        memory.reserve_rows(promised, splat_bytes(promised, sh_degree))?;
        let room = usize::try_from(promised).unwrap_or_default();
        Ok(Self {
            splats: Splats::with_capacity(sh_degree, 0),
            capacity: room,
            usable: SplatFilter::default(),
        })
    }

    /// Lowers the SH degree, before the first splat is added.
    pub(super) fn cut_degree(&mut self, sh_degree: u8) {
        self.splats.cut_sh_degree(sh_degree);
    }

    /// Adds a row of [`row_values`] values if it is usable.
    pub(super) fn push(&mut self, row: &mut [f32]) -> bool {
        let keeps = self.usable.accepts(row);
        if self.capacity > 0 {
            self.splats = Splats::with_capacity(self.splats.sh_degree, std::mem::take(&mut self.capacity));
        }
        if let (true, [x, y, z, sx, sy, sz, qw, qx, qy, qz, logit, sh @ ..]) = (keeps, row) {
            self.splats.push([*x, *y, *z], [*sx, *sy, *sz], [*qw, *qx, *qy, *qz], *logit, sh);
        }
        keeps
    }

    /// The document with its report.
    pub(super) fn into_document(self, format: Format) -> SplatFile {
        SplatFile { format, report: self.usable.into_report(), ..SplatFile::new(self.splats) }
    }
}

/// Number of values of a decoded row.
pub(super) fn row_values(sh_degree: u8) -> usize {
    VALUES_BEFORE_SH + 3 * sh::coefficients(sh_degree)
}

/// Bytes of `count` splats.
pub(super) fn splat_bytes(count: u64, sh_degree: u8) -> u64 {
    count.saturating_mul(4 * row_values(sh_degree) as u64)
}
