//! Real spherical harmonics up to degree 3, in the layout and with the signs of 3DGS `.ply` files.
//!
//! `colour = max(0, 0.5 + Σ_k sh[k] Y_k(direction))` per channel; coefficients are stored raw.

/// Highest degree that is stored and trained.
pub const MAX_DEGREE: u8 = 3;

/// The constant basis function `Y_0 = 1 / (2 √π)`.
pub const C0: f64 = 0.282_094_791_773_878_14;
/// Normalisation factor of degree 1.
pub const C1: f64 = 0.488_602_511_902_919_9;
/// Normalisation factors of degree 2.
pub const C2: [f64; 5] = [
    1.092_548_430_592_079_2,
    -1.092_548_430_592_079_2,
    0.315_391_565_252_520_05,
    -1.092_548_430_592_079_2,
    0.546_274_215_296_039_6,
];
/// Normalisation factors of degree 3.
pub const C3: [f64; 7] = [
    -0.590_043_589_926_643_5,
    2.890_611_442_640_554,
    -0.457_045_799_464_465_8,
    0.373_176_332_590_115_4,
    -0.457_045_799_464_465_8,
    1.445_305_721_320_277,
    -0.590_043_589_926_643_5,
];

/// Number of coefficients per channel up to a degree: `(degree + 1)²`.
///
/// ```
/// assert_eq!([0, 1, 2, 3].map(gausset_core::sh::coefficients), [1, 4, 9, 16]);
/// ```
#[must_use]
pub const fn coefficients(degree: u8) -> usize {
    (degree as usize + 1) * (degree as usize + 1)
}

/// Degree with that many coefficients per channel, if there is one up to [`MAX_DEGREE`].
#[must_use]
pub const fn degree_from_coefficients(coefficients_per_channel: usize) -> Option<u8> {
    match coefficients_per_channel {
        1 => Some(0),
        4 => Some(1),
        9 => Some(2),
        16 => Some(3),
        _ => None,
    }
}

/// The 16 basis values for a unit direction.
///
/// ```
/// use gausset_core::sh;
///
/// let [ahead, behind] = [sh::basis([0.0, 0.0, 1.0]), sh::basis([0.0, 0.0, -1.0])];
/// assert_eq!(ahead[0], sh::C0);
/// // Degree 1 changes its sign with the direction, degree 2 does not.
/// assert_eq!((ahead[2], behind[2]), (sh::C1, -sh::C1));
/// assert_eq!(ahead[6], behind[6]);
/// ```
#[must_use]
pub fn basis([x, y, z]: [f64; 3]) -> [f64; 16] {
    let (xx, yy, zz) = (x * x, y * y, z * z);
    [
        C0,
        -C1 * y,
        C1 * z,
        -C1 * x,
        C2[0] * x * y,
        C2[1] * y * z,
        C2[2] * (3.0 * zz - 1.0),
        C2[3] * x * z,
        C2[4] * (xx - yy),
        C3[0] * y * (3.0 * xx - yy),
        C3[1] * x * y * z,
        C3[2] * y * (5.0 * zz - 1.0),
        C3[3] * z * (5.0 * zz - 3.0),
        C3[4] * x * (5.0 * zz - 1.0),
        C3[5] * z * (xx - yy),
        C3[6] * x * (xx - 3.0 * yy),
    ]
}

/// Degree-0 coefficient of a colour in 0..1.
#[must_use]
pub fn dc_from_colour(colour: f32) -> f32 {
    ((f64::from(colour) - 0.5) / C0) as f32
}

/// Colour of a degree-0 coefficient (not clamped).
#[must_use]
pub fn colour_from_dc(dc: f32) -> f32 {
    (0.5 + f64::from(dc) * C0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_basis_has_its_golden_values() {
        // seed-systems appendix F.1, nine digits.
        let n = (0.09f64 + 0.25 + 0.64).sqrt();
        let y = basis([0.3 / n, -0.5 / n, 0.8 / n]);
        let expected = [
            0.282094792,
            0.246781535,
            0.394850457,
            -0.148068921,
            -0.167226801,
            0.445938135,
            0.30251844,
            -0.267562881,
            -0.089187627,
            0.00608197994,
            -0.357545939,
            0.522930036,
            0.0800089026,
            -0.313758021,
            -0.190691168,
            0.120423203,
        ];
        for (a, b) in y.iter().zip(expected) {
            assert!((a - b).abs() < 1e-8, "{a} {b}");
        }
    }
}
