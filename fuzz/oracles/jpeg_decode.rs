//! Properties that must hold for any bytes read by the planar JPEG decoder.

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_jpeg::colour::rgb_from_ycbcr;
use gausset_jpeg::plane::Plane;
use gausset_jpeg::{DecodeError, Decoder, JpegHeader};

/// Images of at most this many pixels are decoded: larger ones are legal, but slow.
const PIXELS: usize = 1 << 18;

fn decode(bytes: &[u8], header: &JpegHeader, rows: &[[i32; 2]]) -> Result<Vec<Plane>, DecodeError> {
    let level = dispatch_level(SimdLevel::Auto).expect("the baseline");
    let mut planes = Vec::new();
    Decoder::default().decode(level, header, &mut bytes.to_vec(), rows, &mut planes)?;
    Ok(planes)
}

/// A decoded image has the size of its header, does not depend on which rows are requested, and agrees with another
/// decoder.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(header) = JpegHeader::parse(bytes) else { return };
    if header.width * header.height > PIXELS {
        return;
    }
    let all = [[-1, i32::MAX / 2]; 3];
    let Ok(planes) = decode(bytes, &header, &all) else { return };
    assert_eq!(planes.len(), header.components.len());
    for (index, plane) in planes.iter().enumerate() {
        assert_eq!([plane.width, plane.height], header.plane_size(index));
        assert_eq!(plane.image_rows(), 0..plane.height);
    }
    let middle = (header.height / 2) as i32;
    if let Ok(part) = decode(bytes, &header, &[[middle, middle]; 3]) {
        for (part, whole) in part.iter().zip(&planes) {
            for row in part.image_rows() {
                assert_eq!(part.row(row as i32), whole.row(row as i32));
            }
        }
    }
    compare(bytes, &planes);
}

/// Compares with the `image` crate if both store the same samples: grey, and colour without subsampling.
fn compare(bytes: &[u8], planes: &[Plane]) {
    let is_full = planes.iter().all(|p| (p.width, p.height) == (planes[0].width, planes[0].height));
    // Samples at the ends of the range come from coefficients beyond it, which decoders clamp at different points.
    let is_sane = |p: &Plane| p.image_rows().all(|y| p.row(y as i32).iter().all(|v| (1..=254).contains(v)));
    if !is_full || !planes.iter().all(is_sane) {
        return;
    }
    let Ok(other) = image::load_from_memory_with_format(bytes, image::ImageFormat::Jpeg) else { return };
    if (other.width() as usize, other.height() as usize) != (planes[0].width, planes[0].height) {
        panic!("another decoder sees {}x{} px", other.width(), other.height());
    }
    let row = |plane: usize, y: u32| planes[plane].row(y as i32);
    if let [_] = planes {
        for (x, y, pixel) in other.to_luma8().enumerate_pixels() {
            assert!(row(0, y)[x as usize].abs_diff(pixel[0]) <= 2, "{x},{y}");
        }
        return;
    }
    for (x, y, pixel) in other.to_rgb8().enumerate_pixels() {
        let own = rgb_from_ycbcr([0, 1, 2].map(|plane| row(plane, y)[x as usize]));
        // A step of chroma is up to 1.8 steps of blue.
        assert!(own.iter().zip(pixel.0).all(|(a, b)| a.abs_diff(b) <= 6), "{x},{y}: {own:?} {pixel:?}");
    }
}
