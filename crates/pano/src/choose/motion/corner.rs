//! Corner detection and tracking.
//!
//! Detection takes the strongest corner of each cell (Shi and Tomasi 1994), so that corners cover the whole image.
//! Tracking is Gauss-Newton of the differences of a patch, from the coarsest level to the finest (Lucas and Kanade
//! 1981; gradients of the first image, as in Baker and Matthews 2004). Mean and contrast are normalised, so a change of
//! exposure does not move a corner.

use super::image::{GreyImage, ImagePyramid};
use super::projection::SmallProjection;

/// Side of a patch, px.
const SIDE: usize = 12;
const AREA: usize = SIDE * SIDE;
/// Parallel partial sums of [`product`]; divides [`AREA`].
const LANES: usize = 48;
/// Pixels of a row that are read at once: those of a patch with its border, and one more for interpolation.
const ROW_PIXELS: usize = 16;
/// Side of a patch with a border of one pixel for gradients.
const BORDERED_SIDE: usize = SIDE + 2;
/// Cells along the longer side of the half-size image; the strongest corner of each is taken.
const CELLS: usize = 30;
/// Half window of the structure tensor, px of the half-size image.
const HALF_WINDOW: usize = 3;
/// Minimum strength of a corner: squared grey levels per pixel.
const MIN_STRENGTH: f32 = 12.0;
/// Maximum Gauss-Newton steps per level, and the step below which they end, px.
const MAX_STEPS: usize = 8;
const CONVERGED_STEP: f32 = 0.02;
/// Minimum correlation of a patch with its match.
const MIN_CORRELATION: f32 = 0.8;

/// A patch of a corner on one level: values and gradients without their means, and the inverse of the structure tensor.
#[derive(Clone, Debug)]
struct CornerPatch {
    value: [f32; AREA],
    across: [f32; AREA],
    down: [f32; AREA],
    inverse: [f32; 3],
    length: f32,
    /// Inner products of the gradients with the values.
    along: [f32; 2],
}

/// Sums over the samples of another image's patch: of the samples, of their squares, of products with this patch.
#[derive(Clone, Copy)]
struct Sums {
    own: f32,
    square: f32,
    value: f32,
    across: f32,
    down: f32,
}

impl Sums {
    /// Length of the samples after removing their mean.
    fn length(&self) -> f32 {
        (self.square - self.own * self.own / AREA as f32).max(0.0).sqrt()
    }
}

/// A corner of a reference image, to be tracked in other images.
#[derive(Clone, Debug)]
pub(super) struct TrackableCorner {
    /// Position in the reference, continuous px.
    pub(super) point: [f64; 2],
    patches: Vec<Option<CornerPatch>>,
}

/// Detects the corners of an image.
pub(super) fn detect_corners(pyramid: &ImagePyramid, optics: &SmallProjection) -> Vec<TrackableCorner> {
    let level = usize::from(pyramid.levels.len() > 1);
    let picture = &pyramid.levels[level];
    let scale = (1 << level) as f64;
    let rows = optics.rows();
    let rows = (rows.start >> level).max(SIDE)..(rows.end >> level).min(picture.height.saturating_sub(SIDE));
    if rows.is_empty() || picture.width < 3 * SIDE {
        return Vec::new();
    }
    let strengths = corner_strengths(picture, rows.clone(), optics.wraps());
    let cell = (picture.width.max(picture.height) / CELLS).max(2 * HALF_WINDOW + 1);
    let edge = if optics.wraps() { 0 } else { SIDE };
    let mut corners = Vec::new();
    for top in rows.clone().step_by(cell) {
        for left in (edge..picture.width - edge).step_by(cell) {
            let mut best = (MIN_STRENGTH, None);
            for y in top..(top + cell).min(rows.end) {
                for x in left..(left + cell).min(picture.width - edge) {
                    let strength = strengths[(y - rows.start) * picture.width + x];
                    if strength > best.0 {
                        best = (strength, Some([x, y]));
                    }
                }
            }
            if let (_, Some([x, y])) = best {
                let point = [scale * (x as f64 + 0.5), scale * (y as f64 + 0.5)];
                corners.extend(TrackableCorner::new(pyramid, point, optics.wraps()));
            }
        }
    }
    corners
}

/// Smaller eigenvalue of the mean structure tensor around each pixel of `rows`.
pub(crate) fn corner_strengths(picture: &GreyImage, rows: std::ops::Range<usize>, wraps: bool) -> Vec<f32> {
    let w = picture.width;
    let tall = rows.len() + 2 * HALF_WINDOW;
    // Gradient products of the rows and `HALF_WINDOW` more on both sides, summed along the row.
    let mut sums = [vec![0i32; tall * w], vec![0i32; tall * w], vec![0i32; tall * w]];
    let mut products =
        [vec![0i32; w + 2 * HALF_WINDOW], vec![0i32; w + 2 * HALF_WINDOW], vec![0i32; w + 2 * HALF_WINDOW]];
    for k in 0..tall {
        let y = rows.start + k - HALF_WINDOW;
        let (above, row, below) = (picture.row(y - 1), picture.row(y), picture.row(y + 1));
        for x in 0..w {
            let (left, right) = match (x, wraps) {
                (0, true) => (w - 1, 1),
                (0, false) => (0, 1),
                (x, true) if x + 1 == w => (x - 1, 0),
                (x, false) if x + 1 == w => (x - 1, x),
                (x, _) => (x - 1, x + 1),
            };
            let gx = i32::from(row[right]) - i32::from(row[left]);
            let gy = i32::from(below[x]) - i32::from(above[x]);
            for (products, value) in products.iter_mut().zip([gx * gx, gx * gy, gy * gy]) {
                products[HALF_WINDOW + x] = value;
            }
        }
        for (products, sums) in products.iter_mut().zip(&mut sums) {
            for i in 0..HALF_WINDOW {
                products[i] = if wraps { products[w + i] } else { 0 };
                products[HALF_WINDOW + w + i] = if wraps { products[HALF_WINDOW + i] } else { 0 };
            }
            let mut sum: i32 = products[..2 * HALF_WINDOW].iter().sum();
            for (x, out) in sums[k * w..(k + 1) * w].iter_mut().enumerate() {
                sum += products[x + 2 * HALF_WINDOW];
                *out = sum;
                sum -= products[x];
            }
        }
    }
    let count = ((2 * HALF_WINDOW + 1) * (2 * HALF_WINDOW + 1) * 4) as f32;
    let mut columns = [vec![0i32; w], vec![0i32; w], vec![0i32; w]];
    let mut strengths = vec![0.0f32; rows.len() * w];
    for k in 0..tall {
        for (columns, sums) in columns.iter_mut().zip(&sums) {
            for (column, &sum) in columns.iter_mut().zip(&sums[k * w..(k + 1) * w]) {
                *column += sum;
            }
        }
        let Some(row) = (k + 1).checked_sub(2 * HALF_WINDOW + 1) else { continue };
        for (x, out) in strengths[row * w..(row + 1) * w].iter_mut().enumerate() {
            let [xx, xy, yy] = [columns[0][x] as f32, columns[1][x] as f32, columns[2][x] as f32];
            let (half, apart) = (0.5 * (xx + yy), 0.5 * (xx - yy));
            *out = (half - (apart * apart + xy * xy).sqrt()) / count;
        }
        for (columns, sums) in columns.iter_mut().zip(&sums) {
            for (column, &sum) in columns.iter_mut().zip(&sums[row * w..(row + 1) * w]) {
                *column -= sum;
            }
        }
    }
    strengths
}

impl TrackableCorner {
    fn new(pyramid: &ImagePyramid, point: [f64; 2], wraps: bool) -> Option<Self> {
        let patch =
            |(level, picture): (usize, &GreyImage)| CornerPatch::new(picture, on_level(point, level), wraps);
        let patches: Vec<Option<CornerPatch>> = pyramid.levels.iter().enumerate().map(patch).collect();
        patches.first()?.is_some().then_some(Self { point, patches })
    }

    /// Position of the corner in another image, searched around `about`; `None` if it is not found.
    pub(super) fn track(&self, pyramid: &ImagePyramid, about: [f64; 2], wraps: bool) -> Option<[f64; 2]> {
        let mut place = about;
        for level in (0..pyramid.levels.len()).rev() {
            let Some(Some(patch)) = self.patches.get(level) else { continue };
            let start = on_level(place, level);
            match patch.align(&pyramid.levels[level], start, wraps) {
                Some((found, alike)) if level > 0 || alike > MIN_CORRELATION => {
                    let scale = (1 << level) as f64;
                    place = [scale * (f64::from(found[0]) + 0.5), scale * (f64::from(found[1]) + 0.5)];
                }
                // A coarse level may fail; the finer ones continue from the last position.
                _ if level > 0 => {}
                _ => return None,
            }
        }
        Some(place)
    }
}

/// Converts a continuous point to an index on a level.
fn on_level(point: [f64; 2], level: usize) -> [f32; 2] {
    point.map(|v| (v / (1 << level) as f64 - 0.5) as f32)
}

/// Samples `N` x `N` pixels bilinearly, the first one at `at`; returns false if the image does not contain them.
fn sample_square<const N: usize>(picture: &GreyImage, at: [f32; 2], wraps: bool, out: &mut [f32]) -> bool {
    let [x, y] = at.map(f32::floor);
    let (fx, fy) = (at[0] - x, at[1] - y);
    let (w, h) = (picture.width as i64, picture.height as i64);
    let (x, y) = (x as i64, y as i64);
    if y < 0 || y + N as i64 >= h || (!wraps && (x < 0 || x + N as i64 >= w)) {
        return false;
    }
    let is_plain = x >= 0 && x + (ROW_PIXELS as i64) <= w;
    // Interpolate between columns first, each row once, then between rows.
    let mut above = [0.0f32; N];
    for k in 0..=N {
        let row = picture.row(y as usize + k);
        let around: [u8; ROW_PIXELS] = match row.get(x as usize..).and_then(|row| row.first_chunk()) {
            Some(around) if is_plain => *around,
            _ => std::array::from_fn(|i| row[(x + i as i64).rem_euclid(w) as usize]),
        };
        let around = around.map(f32::from);
        let mut below = [0.0f32; N];
        for (i, below) in below.iter_mut().enumerate() {
            *below = (1.0 - fx) * around[i] + fx * around[i + 1];
        }
        if k > 0 {
            let out = &mut out[(k - 1) * N..][..N];
            for (i, out) in out.iter_mut().enumerate() {
                *out = (1.0 - fy) * above[i] + fy * below[i];
            }
        }
        above = below;
    }
    true
}

/// Inner product in a fixed order of lanes. With 48 lanes compilers keep the inner loop and vectorise it; with four
/// they produced scalar code.
fn inner_product(a: &[f32; AREA], b: &[f32; AREA]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for k in 0..LANES {
            lanes[k] += a[k] * b[k];
        }
    }
    let mut four = [0.0f32; 4];
    for some in lanes.as_chunks::<4>().0 {
        for k in 0..4 {
            four[k] += some[k];
        }
    }
    (four[0] + four[1]) + (four[2] + four[3])
}

fn without_mean(values: &mut [f32; AREA]) {
    let mean = inner_product(values, &[1.0; AREA]) / AREA as f32;
    values.iter_mut().for_each(|v| *v -= mean);
}

impl CornerPatch {
    fn new(picture: &GreyImage, centre: [f32; 2], wraps: bool) -> Option<Self> {
        let mut rimmed = [0.0f32; BORDERED_SIDE * BORDERED_SIDE];
        let corner = centre.map(|v| v - 0.5 * (SIDE as f32 - 1.0) - 1.0);
        if !sample_square::<BORDERED_SIDE>(picture, corner, wraps, &mut rimmed) {
            return None;
        }
        let (mut value, mut across, mut down) = ([0.0; AREA], [0.0; AREA], [0.0; AREA]);
        for y in 0..SIDE {
            for x in 0..SIDE {
                let at = |dx: usize, dy: usize| rimmed[(y + dy) * BORDERED_SIDE + x + dx];
                value[y * SIDE + x] = at(1, 1);
                across[y * SIDE + x] = 0.5 * (at(2, 1) - at(0, 1));
                down[y * SIDE + x] = 0.5 * (at(1, 2) - at(1, 0));
            }
        }
        without_mean(&mut value);
        without_mean(&mut across);
        without_mean(&mut down);
        let (xx, xy, yy) =
            (inner_product(&across, &across), inner_product(&across, &down), inner_product(&down, &down));
        let determinant = xx * yy - xy * xy;
        let length = inner_product(&value, &value).sqrt();
        let has_structure = determinant > 1e-3 * (xx + yy) * (xx + yy) && length > AREA as f32 / 8.0;
        has_structure.then(|| Self {
            value,
            across,
            down,
            inverse: [yy / determinant, -xy / determinant, xx / determinant],
            length,
            along: [inner_product(&across, &value), inner_product(&down, &value)],
        })
    }

    /// Sums for one step. The patch has mean zero, so the mean of the samples need not be subtracted from the products.
    fn sums(&self, seen: &mut [f32; AREA]) -> Sums {
        // Centred at middle grey, squares lose fewer digits.
        seen.iter_mut().for_each(|v| *v -= 128.0);
        Sums {
            own: inner_product(seen, &[1.0; AREA]),
            square: inner_product(seen, seen),
            value: inner_product(seen, &self.value),
            across: inner_product(seen, &self.across),
            down: inner_product(seen, &self.down),
        }
    }

    /// Aligns the patch from a start index; returns the index found and the correlation there.
    fn align(&self, picture: &GreyImage, start: [f32; 2], wraps: bool) -> Option<([f32; 2], f32)> {
        let (mut at, mut alike) = (start, 0.0);
        let mut seen = [0.0f32; AREA];
        for _ in 0..MAX_STEPS {
            let corner = at.map(|v| v - 0.5 * (SIDE as f32 - 1.0));
            if !sample_square::<SIDE>(picture, corner, wraps, &mut seen) {
                return None;
            }
            let sums = self.sums(&mut seen);
            // Scale to the contrast of the reference; otherwise a darker image would appear to have moved.
            let length = sums.length();
            let gain = (self.length / length.max(1e-3)).clamp(0.25, 4.0);
            alike = sums.value / (length * self.length).max(1e-6);
            let (a, b) = (gain * sums.across - self.along[0], gain * sums.down - self.along[1]);
            let step =
                [-(self.inverse[0] * a + self.inverse[1] * b), -(self.inverse[1] * a + self.inverse[2] * b)];
            at = [at[0] + step[0], at[1] + step[1]];
            let apart = (at[0] - start[0]).abs().max((at[1] - start[1]).abs());
            if apart.is_nan() || apart >= SIDE as f32 {
                return None;
            }
            if step[0].abs().max(step[1].abs()) < CONVERGED_STEP {
                break;
            }
        }
        // `alike` is from the last but one position, which is close enough.
        Some((at, alike))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A smooth periodic texture, shifted by (dx, dy) px.
    fn pyramid(dx: f64, dy: f64, gain: f64) -> ImagePyramid {
        let (w, h) = (480usize, 240usize);
        let wave = |x: f64, y: f64, a: f64, b: f64| {
            libm::sin(std::f64::consts::TAU * a * x / w as f64 + b * y / 9.0)
        };
        let mut picture = GreyImage::new(w, h);
        for (i, out) in picture.data.iter_mut().enumerate() {
            let (x, y) = ((i % w) as f64 - dx, (i / w) as f64 - dy);
            let waves = [(7.0, 1.0), (5.0, -1.3), (11.0, 0.8), (3.0, 0.9), (13.0, -0.6)];
            let value: f64 = waves.iter().map(|&(a, b)| wave(x, y, a, b)).sum();
            *out = (gain * (110.0 + 22.0 * value)) as u8;
        }
        let mut pyramid = ImagePyramid::default();
        pyramid.rebuild(&mut picture);
        pyramid
    }

    #[test]
    fn corners_are_found_where_the_picture_has_moved_them_also_across_the_seam() {
        let optics = SmallProjection::sphere(480, 240);
        let corners = detect_corners(&pyramid(0.0, 0.0, 1.0), &optics);
        assert!(corners.len() > 150, "{}", corners.len());
        let moved = pyramid(3.25, -1.5, 0.8);
        let mut errors: Vec<f64> = corners
            .iter()
            .filter_map(|corner| {
                let [x, y] = corner.track(&moved, corner.point, true)?;
                Some((x - corner.point[0] - 3.25).abs().max((y - corner.point[1] + 1.5).abs()))
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        assert!(errors.len() * 10 > corners.len() * 8, "{} of {}", errors.len(), corners.len());
        assert!(errors[errors.len() / 2] < 0.05 && errors[errors.len() * 9 / 10] < 0.2, "{errors:?}");
    }

    #[test]
    fn an_even_picture_has_no_corners() {
        let mut pyramid = ImagePyramid::default();
        pyramid.rebuild(&mut GreyImage { width: 480, height: 240, data: vec![90; 480 * 240] });
        assert!(detect_corners(&pyramid, &SmallProjection::sphere(480, 240)).is_empty());
        pyramid.rebuild(&mut GreyImage::new(20, 10));
        assert!(detect_corners(&pyramid, &SmallProjection::sphere(20, 10)).is_empty());
    }
}
