//! GPS positions of the pictures of a town, and the EXIF segment that states them.

use gausset_compute::rng;
use gausset_core::Pose;
use gausset_io::image::exif::{ExifField, kind, tag};
use gausset_io::image::exif_write::{exif_content, marker_segment, text_field};
use gausset_io::image::segments::marker;

use super::cameras::FOCAL_35MM;

/// Degrees north, degrees east and metres up of the origin of the town.
pub const ORIGIN: [f64; 3] = [48.0, 11.0, 500.0];
/// Standard deviation of a GPS position on each axis, m.
pub const GPS_NOISE: f64 = 2.0;

/// Step of the random numbers of the noise.
const RANDOM_STEP: u64 = 8;

/// Degrees north and degrees east per metre at the origin (WGS 84).
fn degrees_per_metre() -> [f64; 2] {
    const A: f64 = 6_378_137.0;
    const E2: f64 = 6.694_379_990_14e-3;
    let latitude = ORIGIN[0].to_radians();
    let (sin, cos) = (libm::sin(latitude), libm::cos(latitude));
    let w = (1.0 - E2 * sin * sin).sqrt();
    [w * w * w / (A * (1.0 - E2)), w / (A * cos)].map(f64::to_degrees)
}

/// Degrees north, degrees east and metres up of a picture, with the noise of a receiver.
pub(crate) fn geotag(pose: &Pose, seed: u64, index: usize) -> [f64; 3] {
    let noise = rng::normals(seed, rng::stream::SCENE, RANDOM_STEP, index as u32).map(f64::from);
    let [east, north, up]: [f64; 3] = std::array::from_fn(|k| pose.centre()[k] + GPS_NOISE * noise[k]);
    let [per_north, per_east] = degrees_per_metre();
    [ORIGIN[0] + north * per_north, ORIGIN[1] + east * per_east, ORIGIN[2] + up]
}

/// The EXIF segment of a JPEG file taken at this position.
pub(crate) fn segment([latitude, longitude, altitude]: [f64; 3]) -> Vec<u8> {
    let main = vec![text_field(tag::MAKE, "Gausset"), text_field(tag::MODEL, "Town 28 mm")];
    let bytes = FOCAL_35MM.to_be_bytes().to_vec();
    let photo = vec![ExifField { tag: tag::FOCAL_LENGTH_IN_35MM_FILM, kind: kind::SHORT, count: 1, bytes }];
    let letter = |tag, value: f64, letters: [&str; 2]| text_field(tag, letters[usize::from(value < 0.0)]);
    let gps = vec![
        letter(1, latitude, ["N", "S"]),
        rationals(2, &degrees(latitude)),
        letter(3, longitude, ["E", "W"]),
        rationals(4, &degrees(longitude)),
        ExifField { tag: 5, kind: 1, count: 1, bytes: vec![u8::from(altitude < 0.0)] },
        rationals(6, &[[(altitude.abs() * 1000.0).round() as u32, 1000]]),
    ];
    marker_segment(marker::APP1, &exif_content(main, photo, gps))
}

/// Degrees, minutes and seconds as rationals; seconds to 1e-5, 0.3 mm.
fn degrees(value: f64) -> [[u32; 2]; 3] {
    const PER_SECOND: f64 = 1e5;
    let all = (value.abs() * 3600.0 * PER_SECOND).round();
    let minutes = (all / (60.0 * PER_SECOND)).floor();
    let whole = (minutes / 60.0).floor();
    let seconds = all - minutes * 60.0 * PER_SECOND;
    [[whole as u32, 1], [(minutes - 60.0 * whole) as u32, 1], [seconds as u32, PER_SECOND as u32]]
}

fn rationals(tag: u16, values: &[[u32; 2]]) -> ExifField {
    let bytes = values.iter().flatten().flat_map(|part| part.to_be_bytes()).collect();
    ExifField { tag, kind: kind::RATIONAL, count: values.len() as u32, bytes }
}

#[cfg(test)]
mod tests {
    use gausset_io::image::exif::Exif;

    use super::*;

    #[test]
    fn positions_in_the_south_west_below_the_sea_are_read_back() {
        // Rounded, 59.999999 seconds are a minute, not 60 seconds.
        let segment = segment([-33.5, -(70.0 + 59.999_999_9 / 3600.0), -12.25]);
        // Marker, length and `Exif 00 00` take ten bytes.
        let exif = Exif::read(&segment[10..]);
        let field = |tag| exif.gps.iter().find(|field| field.tag == tag).unwrap();
        let parts = |tag| field(tag).rationals().collect::<Vec<_>>();
        assert_eq!((field(1).bytes.as_slice(), field(3).bytes.as_slice()), (&b"S\0"[..], &b"W\0"[..]));
        assert_eq!(parts(2), [[33, 1], [30, 1], [0, 100_000]]);
        assert_eq!(parts(4), [[70, 1], [1, 1], [0, 100_000]]);
        assert_eq!((field(5).bytes.as_slice(), parts(6)), (&[1][..], vec![[12_250, 1000]]));
        assert_eq!((exif.model.as_deref(), exif.focal_35mm), (Some("Town 28 mm"), Some(28.0)));
    }
}
