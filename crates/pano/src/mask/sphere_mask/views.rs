//! Projects masks between views and the sphere, with inverse mapping in both directions, which leaves no holes.
//!
//! ```text
//! carry  samples the view at each pixel of the sphere      minimum of old and new value
//! cut    samples the sphere at each pixel of the view      bilinear
//! ```
//! Where the target is coarser than the source, a pixel is the mean of several samples: per side, the number of source
//! pixels that it spans.

use std::f64::consts::{PI, TAU};

use gausset_core::se3;

use super::SphereMask;
use super::reach::longitude_half_width;
use crate::sphere::geometry::View;
use crate::sphere::projection::angle_between;

impl SphereMask {
    /// Removes what the mask of a view removes. The mask is stretched if its size differs from the view's. Directions
    /// outside the view by less than a pixel of the sphere take the value at the view's edge, so that adjacent views
    /// leave no gap.
    ///
    /// # Panics
    /// If the mask is empty or its length is not `w · h`.
    pub fn project_from_view(&mut self, view: &View, mask: &[u8], w: usize, h: usize) {
        assert!(w > 0 && h > 0 && mask.len() == w * h, "values of a view's mask");
        let Some(span) = removed_bounds(mask, w) else { return };
        let look = MaskView::new(view, w, h);
        let pixel = TAU / self.width as f64;
        // Pixels of the view per pixel of the sphere, at the centre of the view.
        let per_side = samples_per_side(f64::from(look.focal[0].max(look.focal[1])) * pixel);
        let margin = [f64::from(look.focal[0]) * pixel, f64::from(look.focal[1]) * pixel].map(|m| m as f32);
        let (axis, radius) = look.bounding_cap(span);
        let (axis_lon, axis_lat) =
            (libm::atan2(axis[0], axis[2]), libm::atan2(-axis[1], libm::hypot(axis[0], axis[2])));
        let radius = radius + 2.0 * pixel;
        let longitudes: Vec<[f32; 2]> = (0..self.width * per_side)
            .map(|k| {
                let lon = TAU * (k as f64 + 0.5) / (self.width * per_side) as f64 - PI;
                [libm::sin(lon) as f32, libm::cos(lon) as f32]
            })
            .collect();
        // Outside of these bounds the mask keeps everything. At the edges of the view, the bounds extend by the margin.
        let within = [[span[0], span[1], w], [span[2], span[3], h]];
        let within = [0, 1].map(|k| {
            let [from, to, size] = within[k];
            let from = if from == 0 { -margin[k] } else { from as f32 };
            from..=if to == size { size as f32 + margin[k] } else { to as f32 }
        });
        let mut places = Vec::new();
        for y in 0..self.height {
            let Some(reach) = longitude_half_width(axis_lat, self.latitude(y), radius) else { continue };
            let latitudes: Vec<[f32; 2]> = (0..per_side)
                .map(|k| {
                    let v = (y as f64 + (k as f64 + 0.5) / per_side as f64) / self.height as f64;
                    let lat = PI * (0.5 - v);
                    [libm::sin(lat) as f32, libm::cos(lat) as f32]
                })
                .collect();
            let middle = (axis_lon / TAU + 0.5) * self.width as f64 - 0.5;
            let half = reach / pixel;
            let first = (middle - half).floor() as isize;
            let count = ((2.0 * half).ceil() as usize + 2).min(self.width);
            let row = &mut self.data[y * self.width..(y + 1) * self.width];
            let start = first.rem_euclid(row.len() as isize) as usize;
            let before_seam = count.min(row.len() - start);
            if let ([latitude], 1) = (latitudes.as_slice(), per_side) {
                for columns in [start..start + before_seam, 0..count - before_seam] {
                    look.project_row(*latitude, &longitudes[columns.clone()], &mut places);
                    for (keep, &[px, py]) in row[columns].iter_mut().zip(&places) {
                        if within[0].contains(&px) && within[1].contains(&py) && *keep != 0 {
                            *keep = (*keep).min((sample_bilinear(mask, w, h, px, py) + 0.5) as u8);
                        }
                    }
                }
                continue;
            }
            for x in first..first + count as isize {
                let x = x.rem_euclid(row.len() as isize) as usize;
                if row[x] == 0 {
                    continue;
                }
                let (mut sum, mut seen) = (0.0f32, 0.0f32);
                for &[sin_lat, cos_lat] in &latitudes {
                    for &[sin_lon, cos_lon] in &longitudes[x * per_side..(x + 1) * per_side] {
                        let direction = [cos_lat * sin_lon, -sin_lat, cos_lat * cos_lon];
                        if let Some([px, py]) = look.project(direction, margin) {
                            sum += sample_bilinear(mask, w, h, px, py);
                            seen += 1.0;
                        }
                    }
                }
                if seen > 0.0 {
                    row[x] = row[x].min((sum / seen + 0.5) as u8);
                }
            }
        }
    }

    /// Samples the mask of a view, at any size.
    #[must_use]
    pub fn sample_view(&self, view: &View, w: usize, h: usize) -> Vec<u8> {
        if self.data.iter().all(|&keep| keep == 255) {
            return vec![255; w * h];
        }
        let look = MaskView::new(view, w, h);
        let per_radian = self.width as f64 / TAU;
        let coarse = f64::from(look.focal[0].min(look.focal[1]));
        let per_side = samples_per_side(per_radian / coarse);
        let (across, down) =
            (self.width as f32 / std::f32::consts::TAU, self.height as f32 / std::f32::consts::PI);
        let (middle_u, middle_v) = (0.5 * self.width as f32, 0.5 * self.height as f32);
        let step = 1.0 / per_side as f32;
        let mut out = vec![255u8; w * h];
        for (y, row) in out.chunks_exact_mut(w.max(1)).enumerate() {
            for (x, out) in row.iter_mut().enumerate() {
                let mut sum = 0.0f32;
                for k in 0..per_side * per_side {
                    let (i, j) = (k % per_side, k / per_side);
                    let [dx, dy, dz] = look
                        .direction(x as f32 + (i as f32 + 0.5) * step, y as f32 + (j as f32 + 0.5) * step);
                    let longitude = libm::atan2f(dx, dz);
                    let latitude = libm::atan2f(-dy, (dx * dx + dz * dz).sqrt());
                    sum += self.sample(middle_u + longitude * across, middle_v - latitude * down);
                }
                *out = (sum * step * step + 0.5) as u8;
            }
        }
        out
    }
}

/// Bounds (left, right, top, bottom) outside of which a mask keeps everything and is not sampled; `None` if it keeps
/// everything.
fn removed_bounds(mask: &[u8], w: usize) -> Option<[usize; 4]> {
    let mut span: Option<[usize; 4]> = None;
    for (y, row) in mask.chunks_exact(w).enumerate() {
        let is_removed = |keep: &u8| *keep < 255;
        let (Some(first), Some(last)) = (row.iter().position(is_removed), row.iter().rposition(is_removed))
        else {
            continue;
        };
        let [left, right, top, _] = span.unwrap_or([first, last + 1, y, y + 1]);
        span = Some([left.min(first), right.max(last + 1), top, y + 1]);
    }
    // Bilinear samples reach half a pixel farther.
    span.map(|[left, right, top, bottom]| {
        [left.saturating_sub(1), (right + 1).min(w), top.saturating_sub(1), (bottom + 1).min(mask.len() / w)]
    })
}

/// Samples per side of a pixel that spans this many source pixels.
fn samples_per_side(source_pixels: f64) -> usize {
    // Up to 1.2 source pixels, one bilinear sample is sufficient.
    (source_pixels - 0.2).ceil().clamp(1.0, 64.0) as usize
}

/// A view at the size of its mask, in f32: an error of 1e-4 px at 8192 px.
struct MaskView {
    camera_from_pano: [[f32; 3]; 3],
    focal: [f32; 2],
    size: [f32; 2],
}

impl MaskView {
    fn new(view: &View, w: usize, h: usize) -> Self {
        let turned = se3::transpose(&view.pano_from_camera());
        let focal = view.focal();
        Self {
            camera_from_pano: turned.map(|row| row.map(|value| value as f32)),
            focal: [
                (focal * w as f64 / f64::from(view.width)) as f32,
                (focal * h as f64 / f64::from(view.height)) as f32,
            ],
            size: [w as f32, h as f32],
        }
    }

    /// The centre of a part of the mask, and the angle (rad) to its farthest corner.
    fn bounding_cap(&self, [left, right, top, bottom]: [usize; 4]) -> ([f64; 3], f64) {
        let towards = |x: f32, y: f32| self.direction(x, y).map(f64::from);
        let middle = towards(0.5 * (left + right) as f32, 0.5 * (top + bottom) as f32);
        let corners = [(left, top), (right, top), (left, bottom), (right, bottom)];
        let angles = corners.map(|(x, y)| angle_between(middle, towards(x as f32, y as f32)));
        (middle, angles.into_iter().fold(0.0, f64::max))
    }

    /// The position of a direction in the mask, if it is at most `margin` px outside of it.
    #[inline]
    fn project(&self, [x, y, z]: [f32; 3], margin: [f32; 2]) -> Option<[f32; 2]> {
        let m = &self.camera_from_pano;
        let along = |k: usize| m[k][0] * x + m[k][1] * y + m[k][2] * z;
        let depth = along(2);
        if depth <= 1e-6 {
            return None;
        }
        let at = |k: usize| along(k) / depth * self.focal[k] + 0.5 * self.size[k];
        let inside = |k: usize, at: f32| (-margin[k]..=self.size[k] + margin[k]).contains(&at);
        let (px, py) = (at(0), at(1));
        (inside(0, px) && inside(1, py)).then_some([px, py])
    }

    /// Like [`Self::project`], for many directions at one latitude; directions behind the view get a position far
    /// outside. Free of branches, so that the loop is vectorised.
    fn project_row(&self, [sin_lat, cos_lat]: [f32; 2], longitudes: &[[f32; 2]], out: &mut Vec<[f32; 2]>) {
        let m = &self.camera_from_pano;
        let place = |&[sin_lon, cos_lon]: &[f32; 2]| {
            let [x, y, z] = [cos_lat * sin_lon, -sin_lat, cos_lat * cos_lon];
            let along = |k: usize| m[k][0] * x + m[k][1] * y + m[k][2] * z;
            let depth = along(2);
            let at = |k: usize| along(k) / depth * self.focal[k] + 0.5 * self.size[k];
            let place = [at(0), at(1)];
            if depth > 1e-6 { place } else { [f32::MAX; 2] }
        };
        out.clear();
        out.extend(longitudes.iter().map(place));
    }

    /// Direction (panorama axes) of a continuous point of the mask, not normalised.
    #[inline]
    fn direction(&self, x: f32, y: f32) -> [f32; 3] {
        let m = &self.camera_from_pano;
        let (cx, cy) = ((x - 0.5 * self.size[0]) / self.focal[0], (y - 0.5 * self.size[1]) / self.focal[1]);
        [0, 1, 2].map(|k| m[0][k] * cx + m[1][k] * cy + m[2][k])
    }
}

/// Samples a flat mask bilinearly at a continuous point; outside, the value at the edge.
#[inline]
fn sample_bilinear(mask: &[u8], w: usize, h: usize, x: f32, y: f32) -> f32 {
    let (x, y) = ((x - 0.5).clamp(0.0, (w - 1) as f32), (y - 0.5).clamp(0.0, (h - 1) as f32));
    let (left, top) = (x as usize, y as usize);
    let (fx, fy) = (x - left as f32, y - top as f32);
    let (right, bottom) = ((left + 1).min(w - 1), (top + 1).min(h - 1));
    let at = |x: usize, y: usize| f32::from(mask[y * w + x]);
    let upper = at(left, top) + (at(right, top) - at(left, top)) * fx;
    let lower = at(left, bottom) + (at(right, bottom) - at(left, bottom)) * fx;
    upper + (lower - upper) * fy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::layout::Layout;

    /// Reproducible random numbers from 0 to 1.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut v = self.0;
            v = (v ^ (v >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            v = (v ^ (v >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((v ^ (v >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// A random ellipse in a square view of 90 degrees.
    fn ellipse(random: &mut Random, side: usize) -> Vec<u8> {
        let half = side as f64 * 0.5;
        let (a, b) = (half * (0.15 + 0.6 * random.next()), half * (0.15 + 0.6 * random.next()));
        let (cx, cy) = (half * (0.4 + 1.2 * random.next()), half * (0.4 + 1.2 * random.next()));
        let turn = TAU * random.next();
        let (s, c) = turn.sin_cos();
        let inside = |at: usize| {
            let (x, y) = ((at % side) as f64 + 0.5 - cx, (at / side) as f64 + 0.5 - cy);
            let (x, y) = (c * x + s * y, c * y - s * x);
            (x / a) * (x / a) + (y / b) * (y / b) < 1.0
        };
        (0..side * side).map(|at| if inside(at) { 0 } else { 255 }).collect()
    }

    /// IoU of the removed pixels of two masks, and the number of pixels that `b` keeps inside of what `a` removes.
    fn compared(a: &[u8], b: &[u8], side: usize) -> (f64, usize) {
        let removed = |keep: u8| keep < super::super::REMOVED;
        let both = a.iter().zip(b).filter(|(a, b)| removed(**a) && removed(**b)).count();
        let either = a.iter().zip(b).filter(|(a, b)| removed(**a) || removed(**b)).count();
        // A hole: `b` keeps the pixel, while `a` removes it and everything within two pixels of it.
        let deep =
            |x: usize, y: usize| (y - 2..=y + 2).all(|y| (x - 2..=x + 2).all(|x| removed(a[y * side + x])));
        let holes = (2..side - 2)
            .flat_map(|y| (2..side - 2).map(move |x| (x, y)))
            .filter(|&(x, y)| !removed(b[y * side + x]) && deep(x, y))
            .count();
        (both as f64 / either as f64, holes)
    }

    /// Worst IoU of 40 masks of views of `side` px projected to a sphere of 1440 px (natural side 360) and back.
    fn worst(side: usize) -> f64 {
        let mut random = Random(side as u64);
        let mut worst = 1.0f64;
        for k in 0..40 {
            // All latitudes, including both poles and the seam.
            let pitch = -90.0 + 180.0 * f64::from(k) / 39.0;
            let yaw = if k % 4 == 0 { 180.0 } else { 360.0 * random.next() };
            let roll = 360.0 * random.next();
            let side32 = side as u32;
            let view =
                View { name: String::new(), yaw, pitch, roll, hfov: 90.0, width: side32, height: side32 };
            let mask = ellipse(&mut random, side);
            let mut sphere = SphereMask::new(1440, 720);
            sphere.project_from_view(&view, &mask, side, side);
            let back = sphere.sample_view(&view, side, side);
            let (iou, holes) = compared(&mask, &back, side);
            assert_eq!(holes, 0, "view {k}");
            worst = worst.min(iou);
        }
        worst
    }

    #[test]
    fn masks_come_back_from_the_sphere_as_they_were() {
        let natural = worst(360);
        assert!(natural >= 0.995, "natural side: {natural}");
        let half = worst(180);
        assert!(half >= 0.98, "half: {half}");
        let twice = worst(720);
        assert!(twice >= 0.98, "twice: {twice}");
    }

    #[test]
    fn views_that_meet_leave_no_gap() {
        for (layout, side) in [(Layout::Cube6, 64), (Layout::Cube6, 257), (Layout::Ring8Caps, 100)] {
            let mut sphere = SphereMask::new(512, 256);
            for view in layout.views(side, side, None) {
                sphere.project_from_view(
                    &view,
                    &vec![0; (side * side) as usize],
                    side as usize,
                    side as usize,
                );
            }
            assert!(sphere.data.iter().all(|&keep| keep == 0), "{} {side}", layout.name());
        }
    }

    #[test]
    fn a_pixel_is_carried_where_the_view_looks() {
        // The direction of the only removed pixel of a view.
        let view = View {
            name: String::new(),
            yaw: 170.0,
            pitch: -60.0,
            roll: 20.0,
            hfov: 70.0,
            width: 40,
            height: 30,
        };
        let mut mask = vec![255; 40 * 30];
        mask[7 * 40 + 33] = 0;
        let mut sphere = SphereMask::new(1440, 720);
        sphere.project_from_view(&view, &mask, 40, 30);
        let ray = view.ray_in_panorama(33.5, 7.5);
        let [u, v] = crate::sphere::geometry::equirect_from_direction(ray, 1440.0, 720.0);
        assert!(sphere.data[v as usize * 1440 + u as usize] < 30);
        let removed = sphere.data.iter().filter(|&&keep| keep < 255).count();
        assert!(removed > 0 && removed < 400, "{removed}");
    }

    #[test]
    fn a_minified_cut_is_the_mean_of_what_it_covers() {
        // Every other column is removed, finer than the view resolves, so that everything is half removed.
        let data = (0..2048 * 1024).map(|at| if at % 2 == 0 { 0 } else { 255 }).collect();
        let sphere = SphereMask::from_data(2048, 1024, data);
        let view = Layout::Ring4.views(64, 64, None).remove(0);
        let cut = sphere.sample_view(&view, 64, 64);
        let (least, most) = (cut.iter().min(), cut.iter().max());
        assert!(cut.iter().all(|keep| keep.abs_diff(128) <= 40), "{least:?} {most:?}");
    }
}
