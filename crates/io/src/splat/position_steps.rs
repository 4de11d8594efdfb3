//! How exactly a written file keeps positions, for the scene and the sky.

use std::fmt;

use gausset_core::statistics::upper_median;

use super::SplatFile;

/// Steps of the scene above this many times the median step count as outliers: the positions of scene splats that share a
/// group with splats far out.
const OUTLIER_FACTOR: f64 = 16.0;

/// Steps of the positions in a written file, in scene units: a position moves by at most half a step along each axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PositionSteps {
    /// Largest step of the splats of the scene, without [`Self::outliers`].
    pub scene: f64,
    /// Number of scene splats with far larger steps than the others, and the largest of these steps.
    pub outliers: Option<(usize, f64)>,
    /// Largest step of the splats of the sky.
    pub sky: Option<f64>,
    /// Whether the step of the scene is visible: above the width of its splats, the median of their middle standard deviations.
    pub is_coarse: bool,
}

impl PositionSteps {
    /// Steps of a document from the step of each splat; `None` without scene splats.
    pub(super) fn of(document: &SplatFile, step: impl Fn(usize) -> f64) -> Option<Self> {
        let (scene, all) = (document.scene_len(), document.splats.len());
        let usual = upper_median((0..scene).map(&step).collect())?;
        let is_outlier = |step: &f64| *step > OUTLIER_FACTOR * usual;
        let largest = |steps: &mut dyn Iterator<Item = f64>| steps.fold(0.0, f64::max);
        let outliers = (0..scene).map(&step).filter(is_outlier).count();
        let scene_step = largest(&mut (0..scene).map(&step).filter(|step| !is_outlier(step)));
        let width = |logs: &[f32; 3]| {
            let [a, b, c] = logs.map(f64::from);
            libm::exp(a.max(b).min(a.max(c)).min(b.max(c)))
        };
        let width = upper_median(document.splats.log_scales.iter().take(scene).map(width).collect());
        Some(Self {
            scene: scene_step,
            outliers: (outliers > 0)
                .then(|| (outliers, largest(&mut (0..scene).map(&step).filter(is_outlier)))),
            sky: (scene < all).then(|| largest(&mut (scene..all).map(&step))),
            is_coarse: width.is_some_and(|width| scene_step > width),
        })
    }
}

impl fmt::Display for PositionSteps {
    /// `positions: scene to 0.0004 units, sky to 1.1`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "positions: scene to {} units", two_digits(self.scene))?;
        if let Some((count, step)) = self.outliers {
            write!(out, " ({} of its splats to {})", crate::text::grouped(count as u64), two_digits(step))?;
        }
        self.sky.map_or(Ok(()), |step| write!(out, ", sky to {}", two_digits(step)))
    }
}

/// A positive number with two significant digits.
fn two_digits(value: f64) -> String {
    if value == 0.0 || !(1e-6..1e9).contains(&value) {
        return if value == 0.0 { "0".to_owned() } else { format!("{value:.1e}") };
    }
    let decimals = (1.0 - libm::floor(libm::log10(value))).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use gausset_core::Splats;

    use super::*;

    /// Splats at x = 0, 1, 2 …, the last `sky` of which are a sky.
    fn line(count: usize, sky: usize) -> SplatFile {
        let mut splats = Splats::zeros(0, count);
        splats.means.iter_mut().zip(0u16..).for_each(|(mean, i)| mean[0] = f32::from(i));
        SplatFile { sky, ..SplatFile::new(splats) }
    }

    #[test]
    fn scene_and_sky_have_steps_of_their_own() {
        let of = |sky: usize, step: fn(usize) -> f64| PositionSteps::of(&line(100, sky), step).unwrap();
        let steps = of(40, |i| if i < 60 { 4.2e-4 } else { 1.13 });
        assert_eq!(steps.to_string(), "positions: scene to 0.00042 units, sky to 1.1");
        assert!(!steps.is_coarse && steps.outliers.is_none());
        // The last two scene splats share a group with the sky.
        let steps = of(40, |i| if i < 58 { 4e-4 } else { 228.0 });
        assert_eq!(
            steps.to_string(),
            "positions: scene to 0.0004 units (2 of its splats to 228), sky to 228"
        );
        // Splats of one unit.
        let steps = of(0, |_| 1.5);
        assert_eq!((steps.to_string().as_str(), steps.is_coarse), ("positions: scene to 1.5 units", true));
        assert!(PositionSteps::of(&line(5, 5), |_| 1.0).is_none());
    }

    #[test]
    fn numbers_have_two_digits() {
        let texts = [0.0, 1.4e-9, 0.000_419_6, 0.1, 1.0, 1.13, 22.8, 1294.0].map(two_digits);
        assert_eq!(texts, ["0", "1.4e-9", "0.00042", "0.1", "1", "1.1", "23", "1294"]);
    }
}
