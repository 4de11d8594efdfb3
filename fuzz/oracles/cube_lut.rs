//! Properties that must hold for any `.cube` colour lookup table.

use gausset_io::text::is_valid_message;
use gausset_pano::lut::Lut;

/// A table that is accepted maps every colour to a finite one.
pub(crate) fn check(bytes: &[u8]) {
    let lut = match Lut::parse(bytes) {
        Ok(lut) => lut,
        Err(error) => return assert!(is_valid_message(&error.to_string()), "{error}"),
    };
    assert!(!lut.fingerprint().is_empty());
    for k in 0..64u8 {
        let at = |step: u8| f32::from(k.wrapping_mul(step)) / 200.0 - 0.1;
        let rgb = lut.apply([at(7), at(31), at(113)]);
        assert!(rgb.iter().all(|v| v.is_finite()), "{rgb:?}");
    }
}
