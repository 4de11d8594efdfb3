//! Properties that must hold for any lens file of two fisheyes.

use gausset_io::text::is_valid_message;
use gausset_pano::fisheye::DualFisheye;

/// A file that is accepted maps every direction to an image position, or to none.
pub(crate) fn check(bytes: &[u8]) {
    let lenses = match DualFisheye::parse(bytes) {
        Ok(lenses) => lenses,
        Err(error) => return assert!(is_valid_message(&error.to_string()), "{error}"),
    };
    assert!(lenses.pixels_around() > 0);
    for k in 0..64 {
        let (a, b) = (0.1 + 0.7 * f64::from(k), 0.37 * f64::from(k));
        let direction = [a.sin() * b.cos(), b.sin(), a.cos() * b.cos()];
        let place = lenses.place(direction);
        assert!(place.u.is_finite() && place.v.is_finite(), "{direction:?}");
        if let Some((second, share)) = place.second {
            assert!(second.iter().all(|v| v.is_finite()) && (0.0..=1.0).contains(&share), "{share}");
        }
    }
}
