//! Ranges of the options of a conversion, for callers without the parsers of the command line.

use gausset_core::sh::MAX_DEGREE;
use gausset_train::Up;

use super::ConvertOptions;
use crate::Failure;

impl ConvertOptions {
    /// Refuses values outside the ranges of the options.
    pub(super) fn check_ranges(&self) -> Result<(), Failure> {
        let edits = &self.edits;
        let positive = |value: f64| value > 0.0 && value <= 1e6;
        let above_0 = "a number above 0, at most 1000000";
        let numbers = [
            ("scale", Some(edits.scale), positive as fn(f64) -> bool, above_0),
            ("drop-far", edits.drop_far, positive, above_0),
            ("crop-to-cameras", self.crop_to_cameras, positive, above_0),
            ("min-psnr", self.min_psnr, positive, above_0),
            ("min-opacity", edits.min_opacity, |value| (0.0..=1.0).contains(&value), "0..1"),
            ("sh-degree", edits.sh_degree.map(f64::from), |value| value <= f64::from(MAX_DEGREE), "0..3"),
            ("levels", self.levels.map(f64::from), |value| (1.0..=16.0).contains(&value), "1..16"),
            ("max-splats", self.max_splats.map(|count| count as f64), |value| value >= 1.0, "1 or more"),
        ];
        for (name, value, is_inside, expected) in numbers {
            if let Some(found) = value.filter(|value| !is_inside(*value)) {
                return Err(refused(name, expected, found));
            }
        }
        for (name, vector) in [("translate", edits.translate), ("rotate", edits.rotate)] {
            if let Some(found) = vector.into_iter().find(|value| !value.is_finite()) {
                return Err(refused(name, "finite numbers", found));
            }
        }
        if edits.up == Up::Auto {
            return Err(refused("up", "an axis or `none`", "auto"));
        }
        Ok(())
    }
}

fn refused(name: &str, expected: &str, found: impl std::fmt::Display) -> Failure {
    Failure::new("option", format!("⟨{name}⟩: expected {expected}, found `{found}`"))
}
