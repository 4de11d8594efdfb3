//! Orientations and descriptors of keypoints: histograms of gradients (Lowe 2004, sections 5 and 6).

use gausset_compute::at_level;
use gausset_compute::fearless_simd::Level;

use super::DESCRIPTOR_LENGTH;
use super::keypoints::Keypoint;
use super::scale_space::{GreyImage, ScaleSpace};

/// Bins of the orientation histogram of a keypoint.
const BINS: usize = 36;
/// Most orientations of a keypoint, and the least height of the second peak relative to the first.
const MAX_ORIENTATIONS: usize = 2;
const SECOND_PEAK: f32 = 0.8;
/// Cells along a side of a descriptor, and orientation bins in each.
const CELLS: usize = 4;
const ORIENTATION_BINS: usize = 8;
/// Side of a cell, in units of the keypoint's size.
const CELL: f64 = 3.0;
/// Norm of a descriptor.
const NORM: f32 = 512.0;
const TAU: f32 = std::f32::consts::TAU;

/// Gradients of a level: magnitudes, and directions in revolutions from 0 to 1 (clockwise from the right, as y goes
/// down).
pub(super) struct Gradients {
    octave: usize,
    level: usize,
    width: usize,
    height: usize,
    magnitude: Vec<f32>,
    direction: Vec<f32>,
}

impl Gradients {
    pub(super) fn new(space: &ScaleSpace, keypoint: &Keypoint, level: Level) -> Self {
        let plane: &GreyImage = &space.octaves[keypoint.octave][keypoint.level];
        let (width, height) = (plane.width, plane.height);
        let (mut length, mut turn) = (vec![0.0f32; width * height], vec![0.0f32; width * height]);
        for y in 1..height - 1 {
            let (above, row, below) = (plane.row(y - 1), plane.row(y), plane.row(y + 1));
            let inner = y * width + 1..(y + 1) * width - 1;
            let (length, turn) = (&mut length[inner.clone()], &mut turn[inner]);
            at_level!(level, _simd => gradients_of_row([above, row, below], length, turn));
        }
        Self {
            octave: keypoint.octave,
            level: keypoint.level,
            width,
            height,
            magnitude: length,
            direction: turn,
        }
    }

    pub(super) fn is_of(&self, keypoint: &Keypoint) -> bool {
        (self.octave, self.level) == (keypoint.octave, keypoint.level)
    }

    /// The pixels within `reach` of a keypoint and inside the border: offsets from the keypoint, and index.
    fn around(&self, keypoint: &Keypoint, reach: f32) -> impl Iterator<Item = (f32, f32, usize)> + '_ {
        let (x, y) = (keypoint.x, keypoint.y);
        let range = |centre: f32, size: usize| {
            let low = (centre - reach).ceil().max(1.0) as usize;
            let high = ((centre + reach).floor().max(0.0) as usize + 1).min(size - 1);
            low..high.max(low)
        };
        let columns = range(x, self.width);
        range(y, self.height).flat_map(move |row| {
            let dy = row as f32 - y;
            columns.clone().map(move |column| (column as f32 - x, dy, row * self.width + column))
        })
    }

    /// Orientations of a keypoint, in revolutions.
    pub(super) fn orientations(&self, keypoint: &Keypoint) -> Vec<f32> {
        let window = 1.5 * keypoint.sigma() as f32;
        let mut histogram = [0.0f32; BINS];
        let falloff = -0.5 / (window * window);
        for (dx, dy, at) in self.around(keypoint, 3.0 * window) {
            let squared = dx * dx + dy * dy;
            if squared < 9.0 * window * window {
                let place = self.direction[at] * BINS as f32 - 0.5;
                let below = place.floor();
                let share = place - below;
                let weight = exp(falloff * squared) * self.magnitude[at];
                let bin = (below as i32).rem_euclid(BINS as i32) as usize;
                histogram[bin] += (1.0 - share) * weight;
                histogram[(bin + 1) % BINS] += share * weight;
            }
        }
        for _ in 0..6 {
            let before = histogram;
            for (bin, value) in histogram.iter_mut().enumerate() {
                *value = (before[(bin + BINS - 1) % BINS] + before[bin] + before[(bin + 1) % BINS]) / 3.0;
            }
        }
        let highest = histogram.iter().copied().fold(0.0f32, f32::max);
        if highest <= 0.0 {
            return Vec::new();
        }
        let mut peaks: Vec<(f32, f32)> = (0..BINS)
            .filter_map(|bin| {
                let (a, b, c) =
                    (histogram[(bin + BINS - 1) % BINS], histogram[bin], histogram[(bin + 1) % BINS]);
                (b > a && b >= c && b >= SECOND_PEAK * highest).then(|| {
                    let offset = 0.5 * (a - c) / (a - 2.0 * b + c);
                    (b, (bin as f32 + 0.5 + offset) / BINS as f32)
                })
            })
            .collect();
        peaks.sort_by(|a, b| b.0.total_cmp(&a.0));
        peaks.truncate(MAX_ORIENTATIONS);
        peaks.into_iter().map(|(_, turn)| turn.rem_euclid(1.0)).collect()
    }

    /// The descriptor of a keypoint, in the axes of its orientation.
    pub(super) fn describe(&self, keypoint: &Keypoint, turn: f32) -> [u8; DESCRIPTOR_LENGTH] {
        let cell = (CELL * keypoint.sigma()) as f32;
        let (sin, cos) = (libm::sinf(TAU * turn) / cell, libm::cosf(TAU * turn) / cell);
        let reach = cell * (CELLS as f32 + 1.0) * 0.5 * std::f32::consts::SQRT_2;
        let mut cells = [[[0.0f32; ORIENTATION_BINS]; CELLS + 2]; CELLS + 2];
        const HALF: f32 = 0.5 * CELLS as f32;
        for (dx, dy, at) in self.around(keypoint, reach) {
            let (u, v) = (cos * dx + sin * dy, cos * dy - sin * dx);
            // Coordinates in cells. Samples beyond the descriptor fall into a border of cells that is discarded.
            let (column, row) = (u + HALF + 0.5, v + HALF + 0.5);
            if column <= 0.0 || row <= 0.0 || column >= CELLS as f32 + 1.0 || row >= CELLS as f32 + 1.0 {
                continue;
            }
            let weight = exp((u * u + v * v) * (-0.5 / (HALF * HALF))) * self.magnitude[at];
            let mut place = (self.direction[at] - turn) * ORIENTATION_BINS as f32;
            if place < 0.0 {
                place += ORIENTATION_BINS as f32;
            }
            let (i, j, k) = (column as usize, row as usize, place as usize);
            let (a, b, c) = (column - i as f32, row - j as f32, place - k as f32);
            let (k, next) = (k % ORIENTATION_BINS, (k + 1) % ORIENTATION_BINS);
            for (j, share) in [(j, 1.0 - b), (j + 1, b)] {
                for (i, share) in [(i, share * (1.0 - a)), (i + 1, share * a)] {
                    let value = weight * share;
                    cells[j][i][k] += value * (1.0 - c);
                    cells[j][i][next] += value * c;
                }
            }
        }
        let mut values = [0.0f32; DESCRIPTOR_LENGTH];
        for (at, value) in values.iter_mut().enumerate() {
            let (cell, k) = (at / ORIENTATION_BINS, at % ORIENTATION_BINS);
            *value = cells[cell / CELLS + 1][cell % CELLS + 1][k];
        }
        let sum: f32 = values.iter().sum();
        values.map(|value| (NORM * (value / sum.max(1e-12)).sqrt()).round().min(255.0) as u8)
    }
}

#[inline(always)]
fn gradients_of_row([above, row, below]: [&[f32]; 3], length: &mut [f32], turn: &mut [f32]) {
    let count = length.len();
    let (left, right) = (&row[..count], &row[2..2 + count]);
    let (above, below) = (&above[1..1 + count], &below[1..1 + count]);
    let turn = &mut turn[..count];
    for x in 0..count {
        let (dx, dy) = (0.5 * (right[x] - left[x]), 0.5 * (below[x] - above[x]));
        length[x] = (dx * dx + dy * dy).sqrt();
        turn[x] = revolutions(dy, dx);
    }
}

/// `atan2(y, x) / 2π` in 0..1, to 3e-6 of a revolution, without branches (a minimax polynomial of the arctangent).
#[inline(always)]
fn revolutions(y: f32, x: f32) -> f32 {
    let (ax, ay) = (x.abs(), y.abs());
    let ratio = ax.min(ay) / ax.max(ay).max(1e-30);
    let s = ratio * ratio;
    let polynomial =
        ((((-0.013_480_47 * s + 0.057_477_314) * s - 0.121_239_07) * s + 0.195_635_93) * s - 0.332_994_6) * s
            + 0.999_995_63;
    let mut angle = polynomial * ratio * (1.0 / TAU);
    angle = if ay > ax { 0.25 - angle } else { angle };
    angle = if x < 0.0 { 0.5 - angle } else { angle };
    if y < 0.0 { 1.0 - angle } else { angle }
}

/// Approximates `exp(x)` for x <= 0 (to 4 % at -4) by `(1 + x/256)^256`, which is accurate enough for window weights.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let mut value = (1.0 + x.max(-16.0) * (1.0 / 256.0)).max(0.0);
    for _ in 0..8 {
        value *= value;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_those_of_the_arctangent() {
        for k in 0..1000 {
            let angle = f64::from(k) * 0.006_283;
            let found = revolutions(libm::sin(angle) as f32, libm::cos(angle) as f32);
            let off = (f64::from(found) - angle / std::f64::consts::TAU).abs();
            assert!(off.min(1.0 - off) < 5e-6, "{angle}: {found}");
        }
    }

    #[test]
    fn the_window_falls_as_an_exponential() {
        for k in 0..40 {
            let x = -0.1 * k as f32;
            assert!((exp(x) - libm::expf(x)).abs() < 0.04 * libm::expf(x), "{x}: {}", exp(x));
        }
    }

    /// A pattern, and the same rotated by a right angle: the descriptors rotate with it.
    #[test]
    fn a_turned_picture_has_the_same_descriptors() {
        let value = |x: usize, y: usize| {
            let spot = |cx: f64, cy: f64, size: f64| {
                let d = (x as f64 - cx).powi(2) + (y as f64 - cy).powi(2);
                libm::exp(-0.5 * d / (size * size))
            };
            (0.3 + 0.5 * spot(40.0, 40.0, 4.0) - 0.2 * spot(52.0, 36.0, 3.0) + 0.1 * spot(30.0, 47.0, 5.0))
                as f32
        };
        let size = 81;
        let plane = |turned: bool| {
            let at = |k: usize| {
                let (x, y) = (k % size, k / size);
                if turned { value(y, size - 1 - x) } else { value(x, y) }
            };
            GreyImage { width: size, height: size, data: (0..size * size).map(at).collect() }
        };
        let level = Level::new();
        let describe = |plane: &GreyImage| {
            let space = ScaleSpace::new(plane, level);
            let keypoint = super::super::keypoints::detect(&space, level)
                .into_iter()
                .filter(|k| (k.position()[0] - 40.5).abs() < 2.0 && (k.position()[1] - 40.5).abs() < 2.0)
                .max_by(|a, b| a.size().total_cmp(&b.size()))
                .expect("a keypoint");
            let gradients = Gradients::new(&space, &keypoint, level);
            let turn = gradients.orientations(&keypoint)[0];
            (turn, gradients.describe(&keypoint, turn))
        };
        let ((turn, one), (turned, other)) = (describe(&plane(false)), describe(&plane(true)));
        assert!(((turned - turn).rem_euclid(1.0) - 0.25).abs() < 0.01, "{turn} {turned}");
        let square = |a: u8, b: u8| (i32::from(a) - i32::from(b)).pow(2);
        let distance: i32 = one.iter().zip(other).map(|(&a, b)| square(a, b)).sum();
        assert!(distance < 60 * 60, "{distance}");
        let length: i32 = one.iter().map(|&v| square(v, 0)).sum();
        assert!((length - 512 * 512).abs() < 20_000, "{length}");
    }
}
