//! The views of a panorama: maps pixels to directions and back.

use gausset_core::matrix::{Mat3, dot, mul_vec, transpose_mul_vec, unit};

/// A pinhole view of a panorama, with the principal point at the centre of the image.
#[derive(Clone, Debug, PartialEq)]
pub struct PanoView {
    /// Focal length, px.
    pub focal: f64,
    /// Width of the view, px.
    pub width: u32,
    /// Height of the view, px.
    pub height: u32,
    /// Rotation from the axes of the view to those of the panorama.
    pub pano_from_view: Mat3,
}

impl PanoView {
    /// Unit direction, in the axes of the panorama, of the continuous pixel position (x, y).
    ///
    /// ```
    /// use gausset_core::matrix::IDENTITY3;
    /// use gausset_sfm::PanoView;
    ///
    /// let view = PanoView { focal: 100.0, width: 200, height: 200, pano_from_view: IDENTITY3 };
    /// assert_eq!(view.bearing([100.0, 100.0]), [0.0, 0.0, 1.0]);
    /// assert_eq!(view.pixel([1.0, 0.0, 1.0]), Some([200.0, 100.0]));
    /// assert_eq!(view.pixel([0.0, 0.0, -1.0]), None);
    /// ```
    #[must_use]
    pub fn bearing(&self, [x, y]: [f64; 2]) -> [f64; 3] {
        let ray = [
            (x - 0.5 * f64::from(self.width)) / self.focal,
            (y - 0.5 * f64::from(self.height)) / self.focal,
            1.0,
        ];
        mul_vec(&self.pano_from_view, unit(ray))
    }

    /// The continuous pixel position at which a direction (in the axes of the panorama) is seen; `None` behind the
    /// view.
    #[must_use]
    pub fn pixel(&self, direction: [f64; 3]) -> Option<[f64; 2]> {
        let [x, y, z] = transpose_mul_vec(&self.pano_from_view, direction);
        (z > 0.0).then(|| {
            [
                0.5 * f64::from(self.width) + self.focal * x / z,
                0.5 * f64::from(self.height) + self.focal * y / z,
            ]
        })
    }

    /// Viewing direction.
    fn axis(&self) -> [f64; 3] {
        [0, 1, 2].map(|row| self.pano_from_view[row][2])
    }
}

/// Index of the view whose axis is nearest to a direction. Where views overlap, features are taken only from this one,
/// which has the least distortion there.
pub(crate) fn nearest_view(views: &[PanoView], direction: [f64; 3]) -> usize {
    let along = |view: &PanoView| dot(view.axis(), direction);
    (1..views.len()).fold(0, |best, at| if along(&views[at]) > along(&views[best]) { at } else { best })
}

/// The rectangle `[left, top, right, bottom]` of a view, px, that contains all pixels nearer to its axis than to that
/// of any other view.
pub(crate) fn nearest_region(views: &[PanoView], index: usize) -> [usize; 4] {
    /// Distance of the sampled pixels, px. The rectangle is enlarged by as much.
    const STEP: usize = 8;
    let view = &views[index];
    let (width, height) = (view.width as usize, view.height as usize);
    let [mut left, mut top, mut right, mut bottom] = [width, height, 0, 0];
    for y in (0..=height).step_by(STEP) {
        for x in (0..=width).step_by(STEP) {
            if nearest_view(views, view.bearing([x as f64, y as f64])) == index {
                (left, top) = (left.min(x), top.min(y));
                (right, bottom) = (right.max(x), bottom.max(y));
            }
        }
    }
    if left > right {
        return [0; 4];
    }
    [
        left.saturating_sub(STEP),
        top.saturating_sub(STEP),
        (right + STEP).min(width),
        (bottom + STEP).min(height),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_core::se3::so3_exp;

    /// A ring of eight views with a field of view of 90 degrees.
    fn ring() -> Vec<PanoView> {
        let turn = |k: u32| so3_exp([0.0, f64::from(k) * std::f64::consts::FRAC_PI_4, 0.0]);
        (0..8).map(|k| PanoView { focal: 100.0, width: 200, height: 200, pano_from_view: turn(k) }).collect()
    }

    #[test]
    fn directions_and_pixels_undo_each_other() {
        for view in ring() {
            let pixel = view.pixel(view.bearing([13.25, 180.5])).unwrap();
            assert!((pixel[0] - 13.25).abs() < 1e-10 && (pixel[1] - 180.5).abs() < 1e-10);
        }
    }

    #[test]
    fn the_part_of_a_view_holds_all_that_is_nearest_to_it() {
        let views = ring();
        let [left, top, right, bottom] = nearest_region(&views, 3);
        // Half of 45 degrees on either side.
        assert!((left as f64 - (100.0 - 41.4)).abs() < 17.0 && (right as f64 - 141.4).abs() < 17.0);
        assert_eq!((top, bottom), (0, 200));
        for k in 0..200 {
            let place = [f64::from(k), 50.0];
            if nearest_view(&views, views[3].bearing(place)) == 3 {
                assert!((left..=right).contains(&(k as usize)));
            }
        }
    }
}
