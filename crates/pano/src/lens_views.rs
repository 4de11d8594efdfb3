//! Views that lie inside one lens of a frame with two fisheye circles.
//!
//! The two centres are some centimetres apart: a view over the seam shows near things double, and no pose is right for
//! both of its halves. Layouts of the sphere put views on the seam (two of `ring8`, four of `cube6`), and leaving them
//! out would lose what they alone see. So each lens has views of its own: one along its axis, four turned off it to the
//! left, right, up and down, as far as they stay inside the circle and touch the axis.

use gausset_core::se3;

use crate::fisheye::DualFisheye;
use crate::geometry::{View, angles, rotation};
use crate::layout::view_name;

/// Step in which views are turned back until they lie inside the circle, degrees.
const STEP: f64 = 0.5;
/// Distance that views keep from the rim of the circle, px of the view or of the source, whichever are larger: what is
/// read beside a place from planes that were halved and from chroma at half the size.
const RIM: f64 = 3.0;

/// Why a lens has no views.
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

/// Square views of `side` px and `hfov` degrees for each lens, upright; numbers go on from the first lens to the second.
///
/// # Errors
/// A circle is too small for such a view.
pub fn lens_views(frame: &DualFisheye, side: u32, hfov: f64) -> Result<[Vec<View>; 2], LensViewError> {
    let first = views_of(frame, 0, side, hfov, 0)?;
    let second = views_of(frame, 1, side, hfov, first.len())?;
    Ok([first, second])
}

fn views_of(
    frame: &DualFisheye,
    lens: usize,
    side: u32,
    hfov: f64,
    number: usize,
) -> Result<Vec<View>, LensViewError> {
    let (yaw, pitch, _) = angles(&frame.lenses[lens].pano_from_lens);
    let axis = rotation(yaw, pitch, 0.0);
    let turned = |index: usize, right: f64, up: f64| {
        let (yaw, pitch, roll) = angles(&se3::mul(&axis, &rotation(right, up, 0.0)));
        View { name: view_name(number + index), yaw, pitch, roll, hfov, width: side, height: side }
    };
    let centre = turned(0, 0.0, 0.0);
    if !holds(frame, lens, &centre) {
        return Err(LensViewError { lens, hfov });
    }
    let mut views = vec![centre];
    for (right, up) in [(-1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, -1.0)] {
        let turns = (0..).map(|k| 0.5 * hfov - STEP * f64::from(k)).take_while(|turn| *turn > 0.0);
        let mut off_axis = turns.map(|turn| turned(views.len(), right * turn, up * turn));
        // One that can hardly be turned shows what the first shows.
        views.extend(off_axis.find(|view| holds(frame, lens, view)));
    }
    Ok(views)
}

/// Whether a view lies wholly inside the circle of a lens, and on the canvas.
///
/// The outline of a view is the outline of its picture in the circle, so that it is enough to look along it; only a
/// view that looks backwards could have its outline inside and the rest outside.
#[must_use]
pub fn holds(frame: &DualFisheye, lens: usize, view: &View) -> bool {
    let one = &frame.lenses[lens];
    let axis = se3::mul_vec(&one.pano_from_lens, [0.0, 0.0, 1.0]);
    if sees(view, axis.map(|v| -v)) {
        return false;
    }
    let rim = RIM * view.minification(frame.pixels_around()).max(1.0);
    let inside = |x: u32, y: u32| {
        let (u, v, weight) = frame.in_lens(one, view.ray_in_panorama(f64::from(x), f64::from(y)));
        weight > 0.0 && libm::hypot(u - one.centre[0], v - one.centre[1]) <= one.radius - rim
    };
    (0..=view.width).all(|x| inside(x, 0) && inside(x, view.height))
        && (0..=view.height).all(|y| inside(0, y) && inside(view.width, y))
}

/// Whether a direction (panorama axes) is in a view.
fn sees(view: &View, direction: [f64; 3]) -> bool {
    let [x, y, z] = se3::transpose_mul_vec(&view.pano_from_camera(), direction);
    let f = view.focal();
    let half = [view.width, view.height].map(|side| 0.5 * f64::from(side));
    z > 0.0 && (f * x).abs() <= half[0] * z && (f * y).abs() <= half[1] * z
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Coverage;
    use crate::layout::Layout;

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
            let views = lens_views(&frame, 64, 90.0).unwrap();
            assert_eq!(views.each_ref().map(Vec::len), [5, 5]);
            for (lens, views) in views.iter().enumerate() {
                let (alone, one) = (frame.alone(lens), &frame.lenses[lens]);
                for (view, (x, y)) in views.iter().flat_map(|view| {
                    (0..64 * 64).map(move |k| (view, (f64::from(k % 64) + 0.5, f64::from(k / 64) + 0.5)))
                }) {
                    let place = alone.place(view.ray_in_panorama(x, y));
                    assert!(place.is_seen && place.second.is_none(), "{view:?} {x} {y}");
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
            let in_one = |view: &&View| holds(&frame, 0, view) || holds(&frame, 1, view);
            let kept: Vec<View> = views.iter().filter(in_one).cloned().collect();
            (kept.len(), Coverage::of(&kept).share)
        };
        let (ring, of_ring) = of(Layout::Ring8);
        let (cube, of_cube) = of(Layout::Cube6);
        assert_eq!((ring, cube), (6, 2));
        let own = Coverage::of(&lens_views(&frame, 64, 90.0).unwrap().concat()).share;
        assert!(own > of_ring && own > of_cube && own > 0.8, "{own} {of_ring} {of_cube}");
    }

    #[test]
    fn views_are_upright_whatever_the_roll_of_the_sensor() {
        let views = lens_views(&frame(97.0, "\"yaw\": 180"), 64, 90.0).unwrap();
        let angles =
            |k: usize| views[0].iter().map(|v| [v.yaw, v.pitch, v.roll][k].round()).collect::<Vec<_>>();
        assert_eq!(angles(0), [0.0, -45.0, 45.0, 0.0, 0.0]);
        assert_eq!(angles(1), [0.0, 0.0, 0.0, 45.0, -45.0]);
        assert!(angles(2).iter().all(|roll| *roll == 0.0));
        assert_eq!(views[1][0].name, "view05");
    }

    #[test]
    fn a_view_that_is_too_wide_for_the_circle_is_refused() {
        let wrong = lens_views(&frame(50.0, "\"yaw\": 180"), 64, 90.0).unwrap_err();
        assert!(wrong.to_string().starts_with("lenses[0]: a view of 90 degrees"), "{wrong}");
        // Its outline is inside a circle of 140 degrees, but it looks at what is behind the lens.
        let back = View { yaw: 180.0, hfov: 60.0, ..Layout::Ring4.views(64, 64, None).remove(0) };
        assert!(!holds(&frame(140.0, "\"yaw\": 180"), 0, &back));
    }
}
