//! Renders frames of two fisheye circles ray by ray, and compares lens files.

use gausset_compute::Pool;
use gausset_core::{Pose, se3};
use gausset_pano::calibrate::{LumaImage, circle_cells};
use gausset_pano::fisheye::{DualFisheye, Lens};
use gausset_pano::geometry::rotation;
use gausset_scenes::room::Room;

pub(crate) const DETAILED: Room = Room { octaves: 4, has_spots: true, has_pillars: false, seed: 0 };

/// Distance from the centre at an angle, px.
fn mapped(lens: &Lens, angle: f64) -> f64 {
    let t = angle / lens.half_angle;
    let [a, b, c] = lens.polynomial;
    lens.radius * t * (a + t * t * (b + t * t * c)) / (a + b + c)
}

/// The angle at a distance from the centre, by bisection, radians.
pub(crate) fn angle_at(lens: &Lens, far: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.2 * lens.half_angle);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if mapped(lens, middle) < far { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// For each pixel of a frame, its direction in panorama axes and the fraction of it that is inside a circle.
pub(crate) struct Drawing {
    pub(crate) size: [usize; 2],
    pixels: Vec<([f64; 3], f64)>,
}

impl Drawing {
    pub(crate) fn of(lenses: &DualFisheye, pool: &Pool) -> Self {
        let [width, height] = lenses.canvas().map(|v| v as usize);
        let cells = circle_cells(lenses.canvas()).unwrap();
        let mut pixels = vec![([0.0; 3], 0.0); width * height];
        pool.run_chunks(&mut pixels, width, |y, row| {
            for (x, out) in row.iter_mut().enumerate() {
                let is_second = x >= cells[1][0] && y >= cells[1][1];
                let lens = &lenses.lenses[usize::from(is_second)];
                let from_centre =
                    |a: f64, b: f64| [x as f64 + a - lens.centre[0], y as f64 + b - lens.centre[1]];
                let [dx, dy] = from_centre(0.5, 0.5);
                let far = dx.hypot(dy).max(1e-12);
                let is_inside = |k: i32| {
                    let [dx, dy] =
                        from_centre((f64::from(k % 8) + 0.5) / 8.0, (f64::from(k / 8) + 0.5) / 8.0);
                    dx.hypot(dy) <= lens.radius
                };
                let share = match far - lens.radius {
                    d if d < -1.0 => 1.0,
                    d if d > 1.0 => 0.0,
                    _ => (0..64).filter(|&k| is_inside(k)).count() as f64 / 64.0,
                };
                if share > 0.0 {
                    let angle = angle_at(lens, far);
                    let ray = [angle.sin() * dx / far, angle.sin() * dy / far, angle.cos()];
                    *out = (se3::mul_vec(&lens.pano_from_lens, ray), share);
                }
            }
        });
        Self { size: [width, height], pixels }
    }

    /// Renders a function of ray and lens, with values from 0 to 255.
    pub(crate) fn drawn(&self, pool: &Pool, value: &(dyn Fn([f64; 3], usize) -> f64 + Sync)) -> Vec<f64> {
        let mut data = vec![0.0; self.pixels.len()];
        let width = self.size[0];
        pool.run_chunks(&mut data, width, |y, row| {
            for (x, (out, &(ray, share))) in row.iter_mut().zip(&self.pixels[y * width..]).enumerate() {
                if share > 0.0 {
                    *out = share * value(ray, usize::from(2 * x >= width));
                }
            }
        });
        data
    }

    pub(crate) fn grey(&self, data: &[f64]) -> LumaImage {
        let [width, height] = self.size;
        LumaImage { width, height, data: data.iter().map(|v| (v + 0.5).clamp(0.0, 255.0) as u8).collect() }
    }

    /// Luma of the room from a pose (`pano_from_world`); the second lens is `behind` metres behind the first.
    pub(crate) fn room(&self, room: Room, pose: &Pose, behind: f64, pool: &Pool) -> LumaImage {
        let back = se3::transpose_mul_vec(&pose.rotation, [0.0, 0.0, -behind]);
        let second = [0, 1, 2].map(|k| pose.centre()[k] + back[k]);
        let value = |ray: [f64; 3], lens: usize| {
            let centre = if lens == 0 { pose.centre() } else { second };
            let [r, g, b] = room.colour(centre, se3::transpose_mul_vec(&pose.rotation, ray));
            255.0 * (0.299 * r + 0.587 * g + 0.114 * b)
        };
        self.grey(&self.drawn(pool, &value))
    }
}

/// RMS and largest angle between the rays of two lens files for pixels of the circles, in lens axes, degrees.
pub(crate) fn angles_between(found: &DualFisheye, truth: &DualFisheye) -> [f64; 2] {
    let (mut squares, mut count, mut worst) = (0.0, 0.0, 0.0f64);
    for (a, b) in found.lenses.iter().zip(&truth.lenses) {
        for i in 1..=40 {
            for k in 0..36 {
                let (far, around) = (b.radius * f64::from(i) / 40.5, f64::from(k) * 10.0f64.to_radians());
                let (x, y) = (b.centre[0] + far * around.cos(), b.centre[1] + far * around.sin());
                let ray = |lens: &Lens| {
                    let (dx, dy) = (x - lens.centre[0], y - lens.centre[1]);
                    let (far, angle) = (dx.hypot(dy), angle_at(lens, dx.hypot(dy)));
                    [angle.sin() * dx / far, angle.sin() * dy / far, angle.cos()]
                };
                let apart = se3::norm(se3::cross(ray(a), ray(b))).asin().to_degrees();
                squares += apart * apart;
                count += 1.0;
                worst = worst.max(apart);
            }
        }
    }
    [f64::sqrt(squares / count), worst]
}

/// Difference of the rotation between the lenses, degrees.
pub(crate) fn rotation_between(found: &DualFisheye, truth: &DualFisheye) -> f64 {
    let relative =
        |l: &DualFisheye| se3::mul(&se3::transpose(&l.lenses[0].pano_from_lens), &l.lenses[1].pano_from_lens);
    let r = se3::mul(&se3::transpose(&relative(found)), &relative(truth));
    let sine = 0.5 * se3::norm([r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]]);
    sine.asin().to_degrees()
}

/// An initial lens file that is off by 1.5 % and 1.2 degrees.
pub(crate) fn poor_start(truth: &DualFisheye) -> DualFisheye {
    let mut lenses = truth.clone();
    for lens in &mut lenses.lenses {
        lens.radius *= 1.015;
        lens.centre = lens.centre.map(|c| c + 0.004 * truth.lenses[0].radius);
    }
    let off = rotation(0.8, -0.7, 0.6);
    lenses.lenses[1].pano_from_lens = se3::mul(&lenses.lenses[1].pano_from_lens, &off);
    lenses
}
