//! SSIM as different programs define it: results in papers differ by 0.01 and more for that reason alone.
//!
//! All have `S = (2 μx μy + C1)(2 σxy + C2) / ((μx² + μy² + C1)(σx² + σy² + C2))` with C1 = 0.01², C2 = 0.03² for
//! values in 0..1, per channel, and the mean over the valid pixels; they differ in window and border:
//!
//! | name | window | border |
//! |---|---|---|
//! | `gaussian11-zero` | 11x11 Gaussian, sigma 1.5 (Wang et al. 2004) | zeros around the image; all pixels count (the code of Kerbl et al. 2023) |
//! | `gaussian11-valid` | the same | only pixels whose window is inside the image count |
//! | `uniform7` | 7x7, all weights equal, covariances of a sample: times N / (N - 1), N = 49 | only pixels whose window is inside the image count (`scikit-image`, without options) |
//!
//! In masked pixels the render is replaced by the ground truth, and the pixel does not count.

use std::fmt;
use std::str::FromStr;

use gausset_compute::Pool;
use gausset_core::TargetImage;
use gausset_core::constants::{SSIM_C1, SSIM_C2, SSIM_TAPS};

use crate::loss::{GroundTruth, LossKernel};
use crate::planes::Planes;
use crate::size::SizeMismatch;

/// Channels of an image.
const CHANNELS: usize = 3;
/// Pixels on either side of the centre of the uniform window.
const UNIFORM_RADIUS: usize = 3;

/// A definition of SSIM.
///
/// ```
/// use gausset_metrics::SsimDefinition;
///
/// assert_eq!("uniform7".parse(), Ok(SsimDefinition::Uniform7));
/// assert_eq!(SsimDefinition::default().to_string(), "gaussian11-zero");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SsimDefinition {
    /// Gaussian window, zero-padded: the definition of training.
    #[default]
    Gaussian11Zero,
    /// Gaussian window inside the image.
    Gaussian11Valid,
    /// Uniform window inside the image.
    Uniform7,
}

impl SsimDefinition {
    /// The names of all definitions.
    pub const NAMES: [&str; 3] = ["gaussian11-zero", "gaussian11-valid", "uniform7"];

    /// Stable name, for output and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for SsimDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of [`SsimDefinition::NAMES`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {names}, found `{found}`", names = SsimDefinition::NAMES.join("|"))]
pub struct UnknownSsim {
    /// The given value.
    pub found: String,
}

impl FromStr for SsimDefinition {
    type Err = UnknownSsim;

    fn from_str(name: &str) -> Result<Self, UnknownSsim> {
        let all = [Self::Gaussian11Zero, Self::Gaussian11Valid, Self::Uniform7];
        all.into_iter().find(|d| d.name() == name).ok_or_else(|| UnknownSsim { found: name.to_owned() })
    }
}

/// Mean SSIM of `render` (interleaved, in 0..1) and the target composited on `background`, whose values are `truth`;
/// NaN if no pixel is valid.
///
/// # Errors
/// The render does not have the target's size.
pub fn ssim(
    definition: SsimDefinition,
    (kernel, pool): (&mut LossKernel, &Pool),
    render: &[f32],
    (target, truth): (&TargetImage, &[f32]),
    background: [f32; 3],
) -> Result<f64, SizeMismatch> {
    let (width, height) = (target.width, target.height);
    let mask = target.mask.as_deref();
    if definition == SsimDefinition::Uniform7 {
        return Ok(mean_uniform_ssim(pool, [width as usize, height as usize], render, truth, mask));
    }
    let planes = Planes::from_interleaved(width, height, render);
    let mut map = Planes::default();
    let mean = kernel.ssim(pool, &planes, GroundTruth::Bytes(target), background, &mut map)?;
    Ok(match definition {
        _ if target.valid_pixels() == 0 => f64::NAN,
        SsimDefinition::Gaussian11Valid => mean_inside(&map, mask),
        SsimDefinition::Gaussian11Zero | SsimDefinition::Uniform7 => mean,
    })
}

/// Mean of a map of S over the valid pixels whose Gaussian window is inside the image.
fn mean_inside(map: &Planes, mask: Option<&[u8]>) -> f64 {
    let (width, height) = (map.width() as usize, map.height() as usize);
    let radius = SSIM_TAPS / 2;
    let (mut sum, mut count) = (0.0, 0usize);
    for y in radius..height.saturating_sub(radius) {
        for x in radius..width.saturating_sub(radius) {
            if mask.is_none_or(|mask| mask[y * width + x] != 0) {
                sum += (0..CHANNELS).map(|channel| f64::from(map.line(y, channel)[x])).sum::<f64>();
                count += CHANNELS;
            }
        }
    }
    sum / count as f64
}

/// Sums over a window, or over a column of it: x, y, x² + y², x y.
type Sums = [f64; 4];

fn add(a: Sums, b: Sums) -> Sums {
    std::array::from_fn(|k| a[k] + b[k])
}

/// Mean SSIM of `uniform7`; rows are divided among threads, their sums are added in order.
fn mean_uniform_ssim(
    pool: &Pool,
    [width, height]: [usize; 2],
    render: &[f32],
    truth: &[f32],
    mask: Option<&[u8]>,
) -> f64 {
    let side = 2 * UNIFORM_RADIUS + 1;
    if width < side || height < side {
        return f64::NAN;
    }
    let is_valid = |pixel: usize| mask.is_none_or(|mask| mask[pixel] != 0);
    let rows: Vec<(f64, usize)> = pool.map(height + 1 - side, |top| {
        let (mut sum, mut count) = (0.0, 0);
        for channel in 0..CHANNELS {
            let value = |row: usize, x: usize| -> Sums {
                let pixel = row * width + x;
                let b = f64::from(truth[pixel * CHANNELS + channel]);
                let a = if is_valid(pixel) { f64::from(render[pixel * CHANNELS + channel]) } else { b };
                [a, b, a * a + b * b, a * b]
            };
            let column = |x: usize| (top..top + side).map(|row| value(row, x)).fold(Sums::default(), add);
            let columns: Vec<Sums> = (0..width).map(column).collect();
            for (left, window) in columns.windows(side).enumerate() {
                if is_valid((top + UNIFORM_RADIUS) * width + left + UNIFORM_RADIUS) {
                    sum += uniform_ssim(window.iter().copied().fold(Sums::default(), add));
                    count += 1;
                }
            }
        }
        (sum, count)
    });
    let (sum, count) = rows.into_iter().fold((0.0, 0), |(s, n), (sum, count)| (s + sum, n + count));
    sum / count as f64
}

/// S of a uniform window.
fn uniform_ssim(sums: Sums) -> f64 {
    let n = ((2 * UNIFORM_RADIUS + 1) * (2 * UNIFORM_RADIUS + 1)) as f64;
    let of_a_sample = n / (n - 1.0);
    let [x, y, squares, product] = sums.map(|sum| sum / n);
    let covariance = of_a_sample * (product - x * y);
    let variances = of_a_sample * (squares - x * x - y * y);
    (2.0 * x * y + SSIM_C1) * (2.0 * covariance + SSIM_C2)
        / ((x * x + y * y + SSIM_C1) * (variances + SSIM_C2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::composited_truth;
    use crate::reference::ReferencePair;
    use gausset_compute::SimdLevel;
    use gausset_compute::rng::{philox, stream, uniform as unit};

    const SIZE: [u32; 2] = [19, 15];

    /// A random ground truth, a render that is the ground truth with noise, and a mask with holes.
    fn pictures() -> (TargetImage, Vec<f32>, Vec<u8>) {
        let [width, height] = SIZE;
        let draw = |i: usize| philox(8, stream::TEST, 0, i as u32);
        let pixels = (width * height) as usize;
        let rgb: Vec<u8> = (0..3 * pixels).map(|i| draw(i)[0] as u8).collect();
        let noisy = |i: usize| f32::from(rgb[i]) / 255.0 + 0.4 * (unit(draw(i)[1]) - 0.5);
        let render = (0..3 * pixels).map(|i| noisy(i).clamp(0.0, 1.0)).collect();
        let mask = (0..pixels).map(|i| u8::from(unit(draw(i)[2]) > 0.2)).collect();
        (TargetImage { width, height, rgb, alpha: None, mask: None }, render, mask)
    }

    fn measured(definition: SsimDefinition, target: &TargetImage, render: &[f32]) -> f64 {
        let level = gausset_compute::dispatch_level(SimdLevel::Auto).unwrap();
        let (mut kernel, pool) = (LossKernel::new(level), Pool::new(2));
        let truth = composited_truth(target, [0.0; 3]);
        ssim(definition, (&mut kernel, &pool), render, (target, &truth), [0.0; 3]).unwrap()
    }

    /// Window by window, with textbook variances: mean squared deviation from the mean, over N - 1.
    fn uniform_by_deviations(target: &TargetImage, render: &[f32]) -> f64 {
        let [width, height] = SIZE.map(|v| v as usize);
        let truth = composited_truth(target, [0.0; 3]);
        let is_valid = |pixel: usize| target.mask.as_ref().is_none_or(|mask| mask[pixel] != 0);
        let (mut sum, mut count) = (0.0, 0.0);
        for (cy, cx) in (3..height - 3).flat_map(|y| (3..width - 3).map(move |x| (y, x))) {
            for channel in 0..3 {
                if !is_valid(cy * width + cx) {
                    continue;
                }
                let window: Vec<[f64; 2]> = (cy - 3..=cy + 3)
                    .flat_map(|y| (cx - 3..=cx + 3).map(move |x| y * width + x))
                    .map(|p| {
                        let y = f64::from(truth[3 * p + channel]);
                        [if is_valid(p) { f64::from(render[3 * p + channel]) } else { y }, y]
                    })
                    .collect();
                let mean = [0, 1].map(|k| window.iter().map(|v| v[k]).sum::<f64>() / 49.0);
                let moment = |i: usize, j: usize| {
                    window.iter().map(|v| (v[i] - mean[i]) * (v[j] - mean[j])).sum::<f64>() / 48.0
                };
                let [x, y] = mean;
                sum += (2.0 * x * y + SSIM_C1) * (2.0 * moment(0, 1) + SSIM_C2)
                    / ((x * x + y * y + SSIM_C1) * (moment(0, 0) + moment(1, 1) + SSIM_C2));
                count += 1.0;
            }
        }
        sum / count
    }

    #[test]
    fn each_definition_is_what_its_formula_says_with_and_without_a_mask() {
        let (mut target, render, mask) = pictures();
        let [width, height] = SIZE.map(|v| v as usize);
        for mask in [None, Some(mask)] {
            target.mask = mask;
            let (x, y): (Vec<f64>, Vec<f64>) = (
                render.iter().copied().map(f64::from).collect(),
                composited_truth(&target, [0.0; 3]).iter().copied().map(f64::from).collect(),
            );
            let pair = ReferencePair { width, height, x: &x, y: &y, mask: target.mask.as_deref() };
            let map = pair.ssim_map();
            let inside = |i: &usize| {
                let (column, row) = (i / 3 % width, i / 3 / width);
                let counts = target.mask.as_ref().is_none_or(|mask| mask[i / 3] != 0);
                counts && (5..width - 5).contains(&column) && (5..height - 5).contains(&row)
            };
            let inner: Vec<f64> = (0..map.len()).filter(inside).map(|i| map[i]).collect();
            let valid = inner.iter().sum::<f64>() / inner.len() as f64;
            for (definition, expected, tolerance) in [
                // The kernel is in f32: its variances lose about 1e-7 of squares near 1, compared with C2 = 9e-4.
                (SsimDefinition::Gaussian11Zero, pair.ssim(), 1e-4),
                (SsimDefinition::Gaussian11Valid, valid, 1e-4),
                (SsimDefinition::Uniform7, uniform_by_deviations(&target, &render), 1e-9),
            ] {
                let found = measured(definition, &target, &render);
                assert!((found - expected).abs() < tolerance, "{definition}: {found} {expected}");
            }
            // The definitions must differ.
            let all = [SsimDefinition::Gaussian11Zero, SsimDefinition::Gaussian11Valid];
            let [zero, valid] = all.map(|d| measured(d, &target, &render));
            assert!((zero - valid).abs() > 1e-3, "{zero} {valid}");
        }
    }

    #[test]
    fn equal_pictures_have_one_and_where_nothing_counts_there_is_no_number() {
        let (mut target, ..) = pictures();
        let truth = composited_truth(&target, [0.0; 3]);
        for name in SsimDefinition::NAMES {
            let definition: SsimDefinition = name.parse().unwrap();
            assert!((measured(definition, &target, &truth) - 1.0).abs() < 1e-6, "{name}");
        }
        target.mask = Some(vec![0; truth.len() / 3]);
        for name in SsimDefinition::NAMES {
            assert!(measured(name.parse().unwrap(), &target, &truth).is_nan(), "{name}");
        }
        let small = TargetImage { width: 6, height: 40, rgb: vec![9; 720], alpha: None, mask: None };
        let values = composited_truth(&small, [0.0; 3]);
        assert!(measured(SsimDefinition::Uniform7, &small, &values).is_nan());
        assert!(measured(SsimDefinition::Gaussian11Valid, &small, &values).is_nan());
        assert!(
            "ssim"
                .parse::<SsimDefinition>()
                .unwrap_err()
                .to_string()
                .starts_with("expected gaussian11-zero|")
        );
    }
}
