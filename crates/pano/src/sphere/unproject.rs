//! From a pixel of a source to its direction: the inverse of [`Projection::project`].
//!
//! Masks are computed on the sphere and stored as files of the size of their source images.

use gausset_core::se3;

use crate::sphere::eac::Eac;
use crate::sphere::fisheye::{DualFisheye, Lens};
use crate::sphere::geometry::direction_from_equirect;
use crate::sphere::projection::Projection;

/// Steps of the radius at which the angle of a fisheye lens is tabulated.
const ANGLE_STEPS: usize = 4096;

/// Directions of the pixels of a source. Points are those of the stored image, with several images stacked vertically.
pub struct Unprojection<'a> {
    projection: &'a Projection,
    /// For fisheyes, one table per lens: angle over half angle, by radius.
    angles: [Vec<f64>; 2],
}

impl<'a> Unprojection<'a> {
    /// Builds the tables for a projection.
    #[must_use]
    pub fn new(projection: &'a Projection) -> Self {
        let angles = match projection {
            Projection::Fisheye(fisheye) => fisheye.lenses.each_ref().map(angle_table),
            _ => [Vec::new(), Vec::new()],
        };
        Self { projection, angles }
    }

    /// The direction of a continuous point, not normalised; `None` where the source shows nothing.
    #[must_use]
    pub fn direction(&self, u: f64, v: f64) -> Option<[f64; 3]> {
        match self.projection {
            Projection::Equirect(e) => {
                Some(direction_from_equirect(u + e.left, v + e.top, e.full_width, e.full_height))
            }
            Projection::Eac(eac) => Some(eac_direction(eac, u, v)),
            Projection::Fisheye(fisheye) => self.fisheye_direction(fisheye, u, v),
            Projection::Cube(cube) => cube.faces.direction(u, v),
        }
    }

    fn fisheye_direction(&self, fisheye: &DualFisheye, u: f64, v: f64) -> Option<[f64; 3]> {
        let seen = fisheye.lenses.iter().zip(&self.angles).map(|(lens, angles)| {
            let (x, y) = (u - lens.centre[0], v - lens.centre[1]);
            (libm::hypot(x, y) / lens.radius, x, y, lens, angles)
        });
        // The circles do not overlap: a point belongs to the lens with the smaller relative radius.
        let (share, x, y, lens, angles) = seen.min_by(|a, b| a.0.total_cmp(&b.0))?;
        if share > 1.0 {
            return None;
        }
        let at = share * ANGLE_STEPS as f64;
        let below = (at as usize).min(ANGLE_STEPS - 1);
        let t = angles[below] + (angles[below + 1] - angles[below]) * (at - below as f64);
        let angle = t * lens.half_angle;
        let (across, r) = (libm::sin(angle), libm::hypot(x, y).max(f64::MIN_POSITIVE));
        Some(se3::mul_vec(&lens.pano_from_lens, [across * x / r, across * y / r, libm::cos(angle)]))
    }
}

/// Angles over the half angle at even steps of the radius, by bisection; the polynomial is monotonic.
fn angle_table(lens: &Lens) -> Vec<f64> {
    let [k1, k2, k3] = lens.polynomial;
    let radius = |t: f64| t * (k1 + t * t * (k2 + t * t * k3)) / (k1 + k2 + k3);
    let angle = |step: usize| {
        let share = step as f64 / ANGLE_STEPS as f64;
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..48 {
            let middle = 0.5 * (low + high);
            if radius(middle) < share { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    };
    (0..=ANGLE_STEPS).map(angle).collect()
}

/// The direction of a point on the canvas of a GoPro MAX: the inverse of [`Eac::place`].
fn eac_direction(eac: &Eac, u: f64, v: f64) -> [f64; 3] {
    let (side, centre) = (f64::from(eac.side), f64::from(eac.centre));
    let (row, t) = if v < centre { (0, v / centre) } else { (1, v / centre - 1.0) };
    // Side faces hold a strip in their middle twice.
    let d = f64::from(eac.overlap) / side;
    let of_side = |at: f64| (if at < 0.5 { at } else { at - 2.0 * d }) / (1.0 - 2.0 * d);
    let (third, s) = if u < side {
        (0, of_side(u / side))
    } else if u < side + centre {
        (1, (u - side) / centre)
    } else {
        (2, of_side((u - side - centre) / side))
    };
    let patch = 3 * row + third;
    let (across, up) = if patch < 3 { (s, 1.0 - t) } else { (t, s) };
    let tangent = |share: f64| libm::tan(std::f64::consts::FRAC_PI_4 * (2.0 * share - 1.0));
    let (right, left) = (tangent(across), tangent(1.0 - across));
    match patch {
        0 => [-1.0, -tangent(up), right],
        1 => [right, -tangent(up), 1.0],
        2 => [1.0, -tangent(up), left],
        3 => [left, 1.0, tangent(1.0 - up)],
        4 => [left, -tangent(up), -1.0],
        _ => [left, -1.0, tangent(up)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::canvas_position::CanvasPosition;
    use crate::sphere::cube::{Cube, CubeLayout, Face, Faces, StripOrder};
    use crate::sphere::projection::Equirect;

    /// Distance (px) from a point to the nearer canvas position of its direction.
    fn apart(place: &CanvasPosition, u: f64, v: f64) -> f64 {
        let first = libm::hypot(place.u - u, place.v - v);
        place.second.map_or(first, |([a, b], _)| first.min(libm::hypot(a - u, b - v)))
    }

    #[test]
    fn a_point_shows_the_direction_whose_place_it_is() {
        let lenses = r#"{ "width": 400, "height": 200, "lenses": [
            { "cx": 100, "cy": 99, "radius": 98, "half_angle": 100, "polynomial": [1, -0.1, 0.02], "roll": 90 },
            { "cx": 300, "cy": 100, "radius": 99, "half_angle": 97, "yaw": 179, "pitch": 2 } ] }"#;
        let fisheye = DualFisheye::parse(lenses.as_bytes()).unwrap();
        let part = Equirect { left: 100.0, top: 30.0, ..Equirect::whole(200, 100) };
        let part = Equirect { full_width: 400.0, full_height: 200.0, ..part };
        for projection in [
            Projection::Fisheye(fisheye),
            Projection::Eac(Eac::from_stream_size(2272, 736).unwrap()),
            Projection::Equirect(Equirect::whole(200, 100)),
            Projection::Equirect(part),
        ] {
            let [width, height] = projection.canvas_size();
            let shown = Unprojection::new(&projection);
            let mut seen = 0;
            for k in 0..20_000u32 {
                let u = 0.5 + f64::from(k * 7919 % width);
                let v = 0.5 + f64::from(k * 104_729 / 3 % height);
                let Some(direction) = shown.direction(u, v) else { continue };
                let place = projection.project(direction);
                assert!(!place.is_visible || apart(&place, u, v) < 2e-2, "{u} {v}: {place:?}");
                seen += usize::from(place.is_visible);
            }
            assert!(seen > 10_000, "{seen}");
        }
    }

    #[test]
    fn a_point_of_a_cross_shows_what_its_face_shows() {
        let faces = Faces::new(CubeLayout::Cross4x3, StripOrder::default(), 64);
        let projection = Projection::Cube(Cube { faces });
        let shown = Unprojection::new(&projection);
        assert_eq!(shown.direction(1.0, 1.0), None);
        // The front is the second face of the second row.
        let (face, [a, b]) = Face::from_direction(shown.direction(96.0, 96.0).unwrap());
        assert!(face == Face::Front && a.abs() < 1e-12 && b.abs() < 1e-12);
    }
}
