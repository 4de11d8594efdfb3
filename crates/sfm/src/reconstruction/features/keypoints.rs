//! Extrema of the difference of Gaussians over position and scale, with subpixel accuracy (Lowe 2004, sections 3 and
//! 4).

use gausset_compute::at_level;
use gausset_compute::fearless_simd::Level;

use super::scale_space::{GreyImage, STEPS, ScaleSpace, sigma};

/// Least absolute difference at an extremum (grey values are 0 to 1).
const MIN_CONTRAST: f32 = 0.02 / STEPS as f32;
/// Largest ratio of the principal curvatures; extrema above it are edges.
const MAX_EDGE_RATIO: f32 = 10.0;
/// Width of the border of an octave without keypoints, px.
const BORDER: usize = 5;

/// An extremum of the scale space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Keypoint {
    pub(super) octave: usize,
    /// Index of the nearest level.
    pub(super) level: usize,
    /// Position in the octave, px; integers are pixel centres.
    pub(super) x: f32,
    pub(super) y: f32,
    /// Scale, in levels.
    pub(super) step: f32,
}

impl Keypoint {
    /// Continuous position in the (cropped) image, px.
    pub(super) fn position(&self) -> [f64; 2] {
        let spacing = ScaleSpace::spacing(self.octave);
        [spacing * f64::from(self.x) + 0.5, spacing * f64::from(self.y) + 0.5]
    }

    /// Size, px of the image.
    pub(super) fn size(&self) -> f64 {
        ScaleSpace::spacing(self.octave) * self.sigma()
    }

    /// Blur, px of the octave.
    pub(super) fn sigma(&self) -> f64 {
        sigma(f64::from(self.step))
    }
}

/// All keypoints, by octave, level and row.
pub(super) fn detect(space: &ScaleSpace, level: Level) -> Vec<Keypoint> {
    let mut found = Vec::new();
    for (octave, levels) in space.octaves.iter().enumerate() {
        let differences: Vec<GreyImage> =
            levels.windows(2).map(|pair| difference(&pair[0], &pair[1], level)).collect();
        for step in 1..=STEPS {
            detect_in(&differences, octave, step, &mut found);
        }
    }
    found
}

fn difference(a: &GreyImage, b: &GreyImage, level: Level) -> GreyImage {
    let mut data = b.data.clone();
    at_level!(level, _simd => for (out, value) in data.iter_mut().zip(&a.data) {
        *out -= value;
    });
    GreyImage { data, ..*a }
}

fn detect_in(planes: &[GreyImage], octave: usize, step: usize, found: &mut Vec<Keypoint>) {
    let (width, height) = (planes[step].width, planes[step].height);
    if width <= 2 * BORDER || height <= 2 * BORDER {
        return;
    }
    for y in BORDER..height - BORDER {
        for x in BORDER..width - BORDER {
            let value = planes[step].data[y * width + x];
            if value.abs() > 0.8 * MIN_CONTRAST && is_extremum(planes, step, x, y, value) {
                found.extend(refine(planes, octave, step, x, y));
            }
        }
    }
}

fn is_extremum(planes: &[GreyImage], step: usize, x: usize, y: usize, value: f32) -> bool {
    let width = planes[step].width;
    let sign = if value > 0.0 { 1.0 } else { -1.0 };
    // The keypoint's own plane first, because most candidates fail there.
    [step, step - 1, step + 1].iter().all(|&plane| {
        (y - 1..=y + 1).all(|row| {
            let at = row * width + x;
            planes[plane].data[at - 1..=at + 1].iter().enumerate().all(|(k, &other)| {
                let is_self = plane == step && row == y && k == 1;
                is_self || sign * other < sign * value
            })
        })
    })
}

/// Refines an extremum by a quadratic fit to its neighbours; `None` if it is rejected.
fn refine(planes: &[GreyImage], octave: usize, step: usize, x: usize, y: usize) -> Option<Keypoint> {
    let (width, height) = (planes[0].width, planes[0].height);
    let (mut x, mut y, mut step) = (x, y, step);
    for _ in 0..5 {
        let at = |ds: isize, dy: isize, dx: isize| {
            let row = (y as isize + dy) as usize;
            planes[(step as isize + ds) as usize].data[row * width + (x as isize + dx) as usize]
        };
        let centre = at(0, 0, 0);
        let g = [
            0.5 * (at(0, 0, 1) - at(0, 0, -1)),
            0.5 * (at(0, 1, 0) - at(0, -1, 0)),
            0.5 * (at(1, 0, 0) - at(-1, 0, 0)),
        ];
        let xx = at(0, 0, 1) + at(0, 0, -1) - 2.0 * centre;
        let yy = at(0, 1, 0) + at(0, -1, 0) - 2.0 * centre;
        let ss = at(1, 0, 0) + at(-1, 0, 0) - 2.0 * centre;
        let xy = 0.25 * (at(0, 1, 1) + at(0, -1, -1) - at(0, 1, -1) - at(0, -1, 1));
        let xs = 0.25 * (at(1, 0, 1) + at(-1, 0, -1) - at(1, 0, -1) - at(-1, 0, 1));
        let ys = 0.25 * (at(1, 1, 0) + at(-1, -1, 0) - at(1, -1, 0) - at(-1, 1, 0));
        let hessian = [[xx, xy, xs], [xy, yy, ys], [xs, ys, ss]].map(|row| row.map(f64::from));
        let inverse = crate::reconstruction::solve::inverse_symmetric(&hessian)?;
        let offset = gausset_core::matrix::mul_vec(&inverse, g.map(|v| -f64::from(v))).map(|v| v as f32);
        let shift = |offset: f32| isize::from(offset > 0.6) - isize::from(offset < -0.6);
        let moves = offset.map(shift);
        if moves == [0; 3] {
            let value = centre + 0.5 * (g[0] * offset[0] + g[1] * offset[1] + g[2] * offset[2]);
            let (trace, determinant) = (xx + yy, xx * yy - xy * xy);
            let is_edge = determinant <= 0.0
                || trace * trace * MAX_EDGE_RATIO
                    >= (MAX_EDGE_RATIO + 1.0) * (MAX_EDGE_RATIO + 1.0) * determinant;
            let exact = step as f32 + offset[2];
            let is_good = value.abs() >= MIN_CONTRAST && !is_edge && offset.iter().all(|v| v.abs() <= 1.0);
            return is_good.then_some(Keypoint {
                octave,
                level: (exact.round().max(1.0) as usize).min(STEPS),
                x: x as f32 + offset[0],
                y: y as f32 + offset[1],
                step: exact,
            });
        }
        (x, y) = (x.checked_add_signed(moves[0])?, y.checked_add_signed(moves[1])?);
        step = step.checked_add_signed(moves[2])?;
        let is_inside = |value: usize, size: usize| value >= BORDER && value + BORDER < size;
        if !(1..=STEPS).contains(&step) || !is_inside(x, width) || !is_inside(y, height) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_found_at_its_place_and_size() {
        let (cx, cy, size) = (60.3f64, 41.7f64, 4.0f64);
        let value = |k: usize| {
            let (x, y) = ((k % 120) as f64 + 0.5, (k / 120) as f64 + 0.5);
            (0.2 + 0.6 * libm::exp(-0.5 * ((x - cx).powi(2) + (y - cy).powi(2)) / (size * size))) as f32
        };
        let grey = GreyImage { width: 120, height: 90, data: (0..120 * 90).map(value).collect() };
        let level = Level::new();
        let space = ScaleSpace::new(&grey, level);
        let found = detect(&space, level);
        let best = found
            .iter()
            .map(|keypoint| (keypoint.position(), keypoint.size()))
            .min_by(|a, b| {
                let off = |p: &([f64; 2], f64)| (p.0[0] - cx).abs() + (p.0[1] - cy).abs();
                off(a).total_cmp(&off(b))
            })
            .expect("a keypoint");
        assert!((best.0[0] - cx).abs() < 0.05 && (best.0[1] - cy).abs() < 0.05, "{best:?}");
        // The difference of Gaussians responds most to a blob of its own size; the levels are half a step apart.
        assert!((best.1 / size).ln().abs() < 0.25, "{best:?}");
    }

    #[test]
    fn an_edge_has_no_keypoints() {
        let value = |k: usize| if k % 100 + (k / 100) / 3 < 60 { 0.2 } else { 0.8 };
        let grey = GreyImage { width: 100, height: 80, data: (0..8000).map(value).collect() };
        let space = ScaleSpace::new(&grey, Level::new());
        let near_the_middle = |k: &&Keypoint| (k.position()[1] - 40.0).abs() < 20.0 && k.size() > 1.5;
        assert_eq!(detect(&space, Level::new()).iter().filter(near_the_middle).count(), 0);
    }
}
