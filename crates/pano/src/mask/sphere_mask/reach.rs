//! Extent of a circle on the sphere along a row.

use std::f64::consts::PI;

/// Half the width, in rad of longitude, of the part of a row at latitude `b` within `radius` (rad) of a point at
/// latitude `a`; `None` if no part is, π if the whole row is.
///
/// Haversines: `sin²(radius/2) = sin²((a-b)/2) + cos a cos b sin²(width/2)`, exact for small circles as well.
pub(super) fn longitude_half_width(a: f64, b: f64, radius: f64) -> Option<f64> {
    if radius >= PI {
        return Some(PI);
    }
    let square_sine = |angle: f64| {
        let sine = libm::sin(0.5 * angle);
        sine * sine
    };
    let rest = square_sine(radius) - square_sine(a - b);
    if rest < 0.0 {
        return None;
    }
    let square = rest / (libm::cos(a) * libm::cos(b));
    Some(if square >= 1.0 { PI } else { 2.0 * libm::asin(libm::sqrt(square)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_is_that_of_the_law_of_cosines() {
        for (a, b, radius) in
            [(0.1_f64, 0.3_f64, 0.5_f64), (1.4, 1.5, 0.12), (-1.2, -1.0, 0.4), (0.0, 0.0, 3.0)]
        {
            let width = longitude_half_width(a, b, radius).unwrap();
            let cosine = a.sin() * b.sin() + a.cos() * b.cos() * width.cos();
            assert!((cosine - radius.cos()).abs() < 1e-12, "{a} {b} {radius}");
        }
        assert_eq!(longitude_half_width(0.0, 0.2, 0.1), None);
        // The pole is within the circle, and so is the whole row beyond it.
        assert_eq!(longitude_half_width(1.5, 1.55, 0.2), Some(PI));
    }
}
