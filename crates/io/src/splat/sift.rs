//! What can be drawn: every reader passes its splats through here.
//!
//! An opacity of exactly 1 (logit +∞) and a scale of exactly 0 (log scale −∞) mean something and are brought to the
//! nearest value that can be trained; everything else that is not finite, and a rotation of length zero, drops the splat.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use super::ReadReport;

/// Logit that stands for an opacity of 1: `1 - 3e-7`.
const FULL_OPACITY_LOGIT: f32 = 15.0;
/// Log scale that stands for a scale of 0: `9e-14` scene units.
const ZERO_LOG_SCALE: f32 = -30.0;
/// Coordinates beyond this (scene units) are worth a note.
const FAR_COORDINATE: f32 = 1e6;

/// Parameters of one splat, in the order of a decoded row: mean, log scale, quaternion, opacity logit, SH.
pub(super) const ROW_SH: usize = 11;

/// Sorts splats out and keeps count.
#[derive(Default)]
pub(super) struct Sift {
    pub(super) report: ReadReport,
    far: u64,
}

impl Sift {
    /// Whether a splat (`[mean 3 | log scale 3 | quaternion 4 | logit 1 | SH …]`) is kept; may repair it.
    pub(super) fn keeps(&mut self, row: &mut [f32]) -> bool {
        self.report.found += 1;
        let Some((geometry, sh)) = row.split_first_chunk_mut::<ROW_SH>() else { return false };
        let finite = |values: &[f32]| values.iter().fold(true, |all, v| all & v.is_finite());
        if !finite(geometry) || !finite(sh) {
            if let Some(why) = unusable(geometry, sh) {
                self.report.drop_one(why);
                return false;
            }
            self.repair(geometry);
        }
        if geometry[6..10] == [0.0; 4] {
            self.report.drop_one("zero rotation");
            return false;
        }
        self.far += u64::from(is_far(&geometry[..3]));
        true
    }

    /// Whether a point is kept.
    pub(super) fn keeps_point(&mut self, position: &[f32]) -> bool {
        self.report.found += 1;
        let finite = position.iter().all(|v| v.is_finite());
        if !finite {
            self.report.drop_one("non-finite position");
        }
        self.far += u64::from(finite && is_far(position));
        finite
    }

    /// The report at the end.
    pub(super) fn into_report(mut self) -> ReadReport {
        if self.far > 0 {
            let far = self.far;
            self.report.notes.push(format!(
                "positions: far from the origin (expected coordinates up to {FAR_COORDINATE:e}, found {far} beyond)"
            ));
        }
        self.report
    }

    fn repair(&mut self, geometry: &mut [f32; ROW_SH]) {
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

/// Why a splat with values that are not finite cannot be kept, if so.
fn unusable(geometry: &[f32; ROW_SH], sh: &[f32]) -> Option<&'static str> {
    let any = |values: &[f32], bad: fn(f32) -> bool| values.iter().any(|&v| bad(v));
    let not_finite = |v: f32| !v.is_finite();
    if any(&geometry[..3], not_finite) {
        Some("non-finite position")
    } else if any(&geometry[3..6], |v| v.is_nan() || v == f32::INFINITY) {
        Some("non-finite scale")
    } else if any(&geometry[6..10], not_finite) {
        Some("non-finite rotation")
    } else if any(&geometry[10..11], |v| v.is_nan() || v == f32::NEG_INFINITY) {
        Some("non-finite opacity")
    } else if any(sh, not_finite) {
        Some("non-finite colour")
    } else {
        None
    }
}

fn is_far(position: &[f32]) -> bool {
    position.iter().any(|v| v.abs() > FAR_COORDINATE)
}
