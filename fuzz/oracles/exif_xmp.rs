//! Properties that must hold for the metadata of any file: EXIF with GPS, XMP with GPano or the position of a drone, ICC.

use gausset_io::text::is_valid_message;
use gausset_pano::geometry::View;
use gausset_pano::metadata::Metadata;

/// Values are valid or absent, and the metadata written to views reads back as intended.
pub(crate) fn check(bytes: &[u8]) {
    let found = Metadata::from_jpeg(bytes);
    assert!((1..=8).contains(&found.orientation()), "{}", found.orientation());
    if let Some(position) = found.position() {
        assert!(position.latitude.abs() <= 90.0 && position.longitude.abs() <= 180.0);
        assert!(position.altitude.is_none_or(f64::is_finite));
        assert!((position.latitude, position.longitude) != (0.0, 0.0));
    }
    // A tiny negative angle rounds to 360 degrees.
    assert!(found.heading().is_none_or(|h| (0.0..=360.0).contains(&h)));
    for (width, height) in [(64, 32), (100, 100), (8704, 4352)] {
        match found.equirect(width, height) {
            Ok(e) => {
                let all = [e.full_width, e.full_height, e.left, e.top];
                assert!(all.iter().all(|v| v.is_finite() && (0.0..1e7).contains(v)), "{all:?}");
                assert_eq!((e.width, e.height), (width, height));
            }
            Err(error) => assert!(is_valid_message(&error.to_string()), "{error}"),
        }
    }
    let view = View {
        name: "view03".into(),
        yaw: 135.0,
        pitch: -10.0,
        roll: 0.5,
        hfov: 90.0,
        width: 64,
        height: 48,
    };
    let mut jpeg = vec![0xFF, 0xD8];
    for segment in found.view_segments(&view, "frame") {
        // Marker, two bytes of length, content.
        assert!(segment.len() >= 4 && segment.len() <= 2 + 0xFFFF && segment[0] == 0xFF);
        assert_eq!(usize::from(u16::from_be_bytes([segment[2], segment[3]])) + 2, segment.len());
        jpeg.extend(segment);
    }
    jpeg.extend([0xFF, 0xDA]);
    let again = Metadata::from_jpeg(&jpeg);
    let (e, f) = (&again.exif, &found.exif);
    assert_eq!(again.orientation(), 1);
    for (again, found) in [(&e.make, &f.make), (&e.model, &f.model), (&e.taken, &f.taken)] {
        // Views carry printable ASCII, at most 200 characters of it.
        let is_valid_message = |text: &&String| {
            text.len() <= 200 && text.trim() == *text && text.bytes().all(|b| (0x20..0x7F).contains(&b))
        };
        if let Some(text) = found.as_ref().filter(is_valid_message).filter(|text| !text.is_empty()) {
            assert_eq!(again.as_ref(), Some(text));
        }
    }
    // Views carry EXIF, not the packet of a drone.
    if found.dji_position.is_none() {
        assert_eq!(again.position(), found.position());
    }
    assert_eq!(again.icc, found.icc);
    assert!(again.gpano.is_none());
}
