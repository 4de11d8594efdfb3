//! Views that are inside one lens of a frame with two fisheye circles.
//!
//! The two lens centres are some centimetres apart: a view across the seam shows near objects twice, and no pose fits
//! both of its halves. Layouts of the sphere place views on the seam (two of `ring8`, four of `cube6`); omitting them
//! would lose coverage. Therefore each lens gets separate views: one along its axis and four rotated left, right, up
//! and down, as far as they stay inside both circles and still contain the axis.

use gausset_core::se3::{self, Mat3};

use crate::sphere::fisheye::DualFisheye;
use crate::sphere::geometry::{View, rotation, yaw_pitch_roll};
use crate::sphere::layout::view_name;

/// Step by which views are rotated back towards the axis until they are inside the circle, degrees.
const STEP_DEGREES: f64 = 0.5;
/// Margin of views to the rim of the circle, in px of the view or of the source, whichever are larger: interpolation in
/// downsampled planes and in half-size chroma reads neighbouring pixels.
const RIM_MARGIN: f64 = 3.0;

/// A lens cannot hold the requested view.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "lenses[{lens}]: a view of {hfov} degrees along its axis leaves its circle (expected a narrower one)"
)]
pub struct LensViewError {
    /// The lens, from 0.
    pub lens: usize,
    /// Field of view, degrees.
    pub hfov: f64,
}

/// Views of two lenses that are split separately: the same layout around the axis of each lens.
///
/// Each lens of a frame becomes a separate frame, in the upright axes of the lens: x to the right, y down, z along its
/// axis. The views form the same rig for every lens and frame.
#[derive(Clone, Debug, PartialEq)]
pub struct LensViews {
    /// The views of a lens, in the upright axes of the lens.
    pub views: Vec<View>,
    /// Yaw and pitch of the axis of each lens in the axes of the lens file, degrees.
    pub axes: [[f64; 2]; 2],
}

impl LensViews {
    /// Makes square views of `side` px and `hfov` degrees.
    ///
    /// # Errors
    /// A circle is too small for a view along its axis.
    pub fn new(frame: &DualFisheye, side: u32, hfov: f64) -> Result<Self, LensViewError> {
        let axes = frame.lenses.each_ref().map(|lens| {
            let (yaw, pitch, _) = yaw_pitch_roll(&lens.pano_from_lens);
            [yaw, pitch]
        });
        let mut found = Self { views: Vec::new(), axes };
        let view = |index: usize, yaw: f64, pitch: f64| View {
            name: view_name(index),
            yaw,
            pitch,
            roll: 0.0,
            hfov,
            width: side,
            height: side,
        };
        let centre = view(0, 0.0, 0.0);
        if let Some(lens) =
            (0..2).find(|&lens| !is_view_inside(frame, lens, &found.in_panorama(lens, &centre)))
        {
            return Err(LensViewError { lens, hfov });
        }
        found.views.push(centre);
        for (right, up) in [(-1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, -1.0)] {
            let turns =
                (0..).map(|k| 0.5 * hfov - STEP_DEGREES * f64::from(k)).take_while(|turn| *turn > 0.0);
            let mut off_axis = turns.map(|turn| view(found.views.len(), right * turn, up * turn));
            let in_both =
                |view: &View| (0..2).all(|lens| is_view_inside(frame, lens, &found.in_panorama(lens, view)));
            // The largest rotation that keeps the view inside both circles; none if no rotation does.
            let inside = off_axis.find(in_both);
            found.views.extend(inside);
        }
        Ok(found)
    }

    /// The views of a lens in panorama axes.
    #[must_use]
    pub fn views_of(&self, lens: usize) -> Vec<View> {
        self.views.iter().map(|view| self.in_panorama(lens, view)).collect()
    }

    /// The views of the first lens, then those of the second, in panorama axes.
    #[must_use]
    pub fn all_views(&self) -> Vec<View> {
        (0..2).flat_map(|lens| self.views_of(lens)).collect()
    }

    fn in_panorama(&self, lens: usize, view: &View) -> View {
        let turned = se3::mul(&upright_rotation(self.axes[lens]), &view.pano_from_camera());
        let (yaw, pitch, roll) = yaw_pitch_roll(&turned);
        View { yaw, pitch, roll, ..view.clone() }
    }
}

/// Rotation from the upright axes of a lens to panorama axes, from yaw and pitch of its axis, degrees.
#[must_use]
pub fn upright_rotation([yaw, pitch]: [f64; 2]) -> Mat3 {
    rotation(yaw, pitch, 0.0)
}

/// Name of the separate frame of one lens of a frame.
#[must_use]
pub fn lens_frame(frame: &str, lens: usize) -> String {
    format!("{frame}{LENS_SEPARATOR}{lens}")
}

/// Inverse of [`lens_frame`]: frame name and lens, or `None` if the name has no lens.
#[must_use]
pub fn frame_of_lens(name: &str) -> Option<(&str, usize)> {
    let (frame, lens) = name.rsplit_once(LENS_SEPARATOR)?;
    Some((frame, lens.parse().ok().filter(|lens| *lens < 2)?))
}

/// Separator between the name of a frame and the number of its lens, which counts from 0 as in the lens file.
const LENS_SEPARATOR: &str = "_lens";

/// Whether a view is completely inside the circle of a lens and on the canvas.
///
/// It suffices to check the outline of the view: only for a view that contains the backward direction could the outline
/// be inside and the rest outside.
#[must_use]
pub fn is_view_inside(frame: &DualFisheye, lens: usize, view: &View) -> bool {
    let one = &frame.lenses[lens];
    let axis = se3::mul_vec(&one.pano_from_lens, [0.0, 0.0, 1.0]);
    if contains_direction(view, axis.map(|v| -v)) {
        return false;
    }
    let rim = RIM_MARGIN * view.minification(frame.pixels_around()).max(1.0);
    let inside = |x: u32, y: u32| {
        let (u, v, weight) = frame.project_in_lens(one, view.ray_in_panorama(f64::from(x), f64::from(y)));
        weight > 0.0 && libm::hypot(u - one.centre[0], v - one.centre[1]) <= one.radius - rim
    };
    (0..=view.width).all(|x| inside(x, 0) && inside(x, view.height))
        && (0..=view.height).all(|y| inside(0, y) && inside(view.width, y))
}

/// Whether a view contains a direction (panorama axes).
fn contains_direction(view: &View, direction: [f64; 3]) -> bool {
    let [x, y, z] = se3::transpose_mul_vec(&view.pano_from_camera(), direction);
    let f = view.focal();
    let half = [view.width, view.height].map(|side| 0.5 * f64::from(side));
    z > 0.0 && (f * x).abs() <= half[0] * z && (f * y).abs() <= half[1] * z
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::coverage::Coverage;
    use crate::sphere::layout::Layout;

    fn frame(half_angle: f64, second: &str) -> DualFisheye {
        let text = format!(
            r#"{{ "width": 800, "height": 400, "lenses": [
            {{ "cx": 200, "cy": 200, "radius": 198, "half_angle": {half_angle}, "roll": 90 }},
            {{ "cx": 601, "cy": 199, "radius": 197, "half_angle": {half_angle}, {second} }} ] }}"#
        );
        DualFisheye::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_pixel_of_a_view_is_of_its_lens_alone_and_inside_the_circle() {
        for (half_angle, second) in [
            (97.0, "\"yaw\": 180"),
            (92.0, "\"yaw\": 178.5, \"pitch\": 1.2, \"roll\": -88"),
            (80.0, "\"yaw\": 180"),
        ] {
            let frame = frame(half_angle, second);
            let views = LensViews::new(&frame, 64, 90.0).unwrap();
            assert_eq!(views.views.len(), 5);
            for (lens, views) in [0, 1].map(|lens| views.views_of(lens)).iter().enumerate() {
                let (alone, one) = (frame.single_lens(lens), &frame.lenses[lens]);
                for (view, (x, y)) in views.iter().flat_map(|view| {
                    (0..64 * 64).map(move |k| (view, (f64::from(k % 64) + 0.5, f64::from(k / 64) + 0.5)))
                }) {
                    let place = alone.place(view.ray_in_panorama(x, y));
                    assert!(place.is_visible && place.second.is_none(), "{view:?} {x} {y}");
                    assert_eq!(usize::from(place.patch), lens + 1);
                    let from_centre = libm::hypot(place.u - one.centre[0], place.v - one.centre[1]);
                    assert!(from_centre < one.radius, "{from_centre}");
                }
            }
        }
    }

    #[test]
    fn views_over_the_seam_are_in_no_lens() {
        let frame = frame(97.0, "\"yaw\": 180");
        let of = |layout: Layout| {
            let views = layout.views(64, 64, None);
            let in_one = |view: &&View| is_view_inside(&frame, 0, view) || is_view_inside(&frame, 1, view);
            let kept: Vec<View> = views.iter().filter(in_one).cloned().collect();
            (kept.len(), Coverage::new(&kept).fraction)
        };
        let (ring, of_ring) = of(Layout::Ring8);
        let (cube, of_cube) = of(Layout::Cube6);
        assert_eq!((ring, cube), (6, 2));
        let own = Coverage::new(&LensViews::new(&frame, 64, 90.0).unwrap().all_views()).fraction;
        assert!(own > of_ring && own > of_cube && own > 0.8, "{own} {of_ring} {of_cube}");
    }

    #[test]
    fn views_are_upright_whatever_the_roll_of_the_sensor() {
        let found = LensViews::new(&frame(97.0, "\"yaw\": 180"), 64, 90.0).unwrap();
        let views = [0, 1].map(|lens| found.views_of(lens));
        let angles =
            |k: usize| views[0].iter().map(|v| [v.yaw, v.pitch, v.roll][k].round()).collect::<Vec<_>>();
        assert_eq!(angles(0), [0.0, -45.0, 45.0, 0.0, 0.0]);
        assert_eq!(angles(1), [0.0, 0.0, 0.0, 45.0, -45.0]);
        assert!(angles(2).iter().all(|roll| *roll == 0.0));
        let names = |lens: usize| views[lens].iter().map(|v| v.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(0), views[1][0].name.as_str()), (names(1), "view00"));
    }

    #[test]
    fn the_name_of_a_lens_tells_its_frame() {
        for frame in ["a", "a_lens0", "VID_00_007"] {
            assert_eq!(frame_of_lens(&lens_frame(frame, 1)), Some((frame, 1)));
        }
        assert_eq!(
            (frame_of_lens("a"), frame_of_lens("a_lens2"), frame_of_lens("a_lens")),
            (None, None, None)
        );
    }

    #[test]
    fn a_view_that_is_too_wide_for_the_circle_is_refused() {
        let wrong = LensViews::new(&frame(50.0, "\"yaw\": 180"), 64, 90.0).unwrap_err();
        assert!(wrong.to_string().starts_with("lenses[0]: a view of 90 degrees"), "{wrong}");
        // Its outline is inside a circle of 140 degrees, but it looks backwards.
        let back = View { yaw: 180.0, hfov: 60.0, ..Layout::Ring4.views(64, 64, None).remove(0) };
        assert!(!is_view_inside(&frame(140.0, "\"yaw\": 180"), 0, &back));
    }
}
