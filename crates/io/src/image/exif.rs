//! Reads EXIF metadata (CIPA DC-008): a TIFF structure of directories, each a count and entries of 12 bytes: tag, type,
//! count, and a value of at most four bytes or its offset.
//!
//! Damaged fields are skipped. If a tag occurs twice, the first is used.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// Tags, by their names in the standard.
pub mod tag {
    /// Maker of the camera.
    pub const MAKE: u16 = 0x010F;
    /// Model of the camera.
    pub const MODEL: u16 = 0x0110;
    /// Orientation of the stored pixels, 1..8.
    pub const ORIENTATION: u16 = 0x0112;
    /// Program that wrote the file.
    pub const SOFTWARE: u16 = 0x0131;
    /// Offset of the Exif directory.
    pub const EXIF_DIRECTORY: u16 = 0x8769;
    /// Offset of the GPS directory.
    pub const GPS_DIRECTORY: u16 = 0x8825;
    /// Exposure time, seconds.
    pub const EXPOSURE_TIME: u16 = 0x829A;
    /// F-number: focal length divided by aperture diameter.
    pub const F_NUMBER: u16 = 0x829D;
    /// ISO speed, a whole number.
    pub const PHOTOGRAPHIC_SENSITIVITY: u16 = 0x8827;
    /// Local time of the exposure as text: `YYYY:MM:DD HH:MM:SS`.
    pub const DATE_TIME_ORIGINAL: u16 = 0x9003;
    /// Focal length, mm.
    pub const FOCAL_LENGTH: u16 = 0x920A;
    /// Width and height of the image as the camera wrote it, px.
    pub const PIXEL_X_DIMENSION: u16 = 0xA002;
    /// As [`PIXEL_X_DIMENSION`].
    pub const PIXEL_Y_DIMENSION: u16 = 0xA003;
    /// Pixels of that width per [`FOCAL_PLANE_RESOLUTION_UNIT`] of the sensor.
    pub const FOCAL_PLANE_X_RESOLUTION: u16 = 0xA20E;
    /// Unit of length: 2 = inch, 3 = centimetre; also in use: 4 = millimetre, 5 = micrometre.
    pub const FOCAL_PLANE_RESOLUTION_UNIT: u16 = 0xA210;
    /// Equivalent focal length for film with a diagonal of [`super::FILM_DIAGONAL`], mm.
    pub const FOCAL_LENGTH_IN_35MM_FILM: u16 = 0xA405;
    /// Largest tag of the GPS directory.
    pub const LAST_GPS: u16 = 0x1F;
}

/// Types of values.
pub mod kind {
    /// Text with a terminating zero.
    pub const ASCII: u16 = 2;
    /// Unsigned integer of 16 bits.
    pub const SHORT: u16 = 3;
    /// Unsigned integer of 32 bits.
    pub const LONG: u16 = 4;
    /// Numerator and denominator, 32 bits each.
    pub const RATIONAL: u16 = 5;
}

/// Header of EXIF data in an APP1 segment of a JPEG.
pub const EXIF: &[u8] = b"Exif\0\0";
/// Credible equivalent focal lengths, mm.
const FOCAL_LENGTHS_35MM: std::ops::RangeInclusive<f64> = 4.0..=2000.0;
/// Diagonal of the film for which EXIF states the equivalent focal length, mm.
pub const FILM_DIAGONAL: f64 = 43.266_615_305_567_87;
/// Longest value that is read, bytes.
const MAX_VALUE_BYTES: usize = 4096;
/// Largest number of GPS entries that are read: more than there are tags, because tags may be duplicate.
pub(super) const MAX_GPS_ENTRIES: usize = 64;
/// Longest GPS value that is kept, bytes: all of them together fit into a JPEG segment.
pub(super) const MAX_GPS_BYTES: usize = 1024;

/// A field of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExifField {
    /// The tag ([`tag`], or one of the GPS directory).
    pub tag: u16,
    /// Type of the values ([`kind`]).
    pub kind: u16,
    /// Number of values.
    pub count: u32,
    /// The values; numbers are big-endian.
    pub bytes: Vec<u8>,
}

/// Exposure of a photograph (EXIF: ExposureTime, FNumber, PhotographicSensitivity).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// Exposure time in seconds, as numerator and denominator.
    pub time: [u32; 2],
    /// F-number, as numerator and denominator.
    pub f_number: [u32; 2],
    /// ISO speed, as in ISO 100.
    pub iso: u32,
}

impl Exposure {
    /// Brightness of the image relative to the scene in stops: `log2(t ISO / (100 N²))`, the negative of the scene's
    /// EV.
    #[must_use]
    pub fn brightness_stops(&self) -> f64 {
        let of = |[numerator, denominator]: [u32; 2]| f64::from(numerator) / f64::from(denominator);
        libm::log2(of(self.time) * f64::from(self.iso) / 100.0 / of(self.f_number).powi(2))
    }
}

/// The EXIF metadata that Gausset uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exif {
    /// Orientation of the stored pixels, 1..8.
    pub orientation: Option<u8>,
    /// Exposure, if time, aperture and ISO speed are known.
    pub shot: Option<Exposure>,
    /// Maker of the camera.
    pub make: Option<String>,
    /// Model of the camera.
    pub model: Option<String>,
    /// Local time of the exposure: `YYYY:MM:DD HH:MM:SS`.
    pub taken: Option<String>,
    /// Focal length for a film of 36 x 24 mm that gives the same angle, mm: as stated, or by the resolution of the
    /// focal plane.
    pub focal_35mm: Option<f64>,
    /// The GPS directory, by tag.
    pub gps: Vec<ExifField>,
}

impl Exif {
    /// Reads a TIFF structure.
    #[must_use]
    pub fn read(tiff: &[u8]) -> Self {
        let Some(tiff) = Tiff::new(tiff) else { return Self::default() };
        let main = tiff.number_at(4);
        let text = |directory, tag| tiff.field(directory, tag)?.text();
        let place = |tag| tiff.field(main, tag)?.number();
        let photo = place(tag::EXIF_DIRECTORY);
        let orientation = place(tag::ORIENTATION).and_then(|value| u8::try_from(value).ok());
        let gps = tiff.entries(place(tag::GPS_DIRECTORY)).filter(|entry| entry.tag <= tag::LAST_GPS);
        let gps = gps.take(MAX_GPS_ENTRIES).filter_map(|entry| tiff.value(&entry));
        let gps = by_tag(gps.filter(|field| field.bytes.len() <= MAX_GPS_BYTES).collect());
        Self {
            orientation: orientation.filter(|value| (1..=8).contains(value)),
            make: text(main, tag::MAKE),
            model: text(main, tag::MODEL),
            taken: text(photo, tag::DATE_TIME_ORIGINAL),
            gps,
            ..Self::of_photo_directory(&mut |tag| tiff.field(photo, tag))
        }
    }

    /// What the Exif directory states of exposure and focal length, by its fields.
    pub(super) fn of_photo_directory(field: &mut dyn FnMut(u16) -> Option<ExifField>) -> Self {
        let mut shot = || {
            Some(Exposure {
                time: field(tag::EXPOSURE_TIME)?.ratio()?,
                f_number: field(tag::F_NUMBER)?.ratio()?,
                iso: field(tag::PHOTOGRAPHIC_SENSITIVITY)?.number().filter(|&iso| iso > 0)?,
            })
        };
        let shot = shot();
        let mut number = |tag| field(tag).and_then(|field| field.as_f64()).filter(|&value| value > 0.0);
        let is_credible = |mm: &f64| FOCAL_LENGTHS_35MM.contains(mm);
        let stated = number(tag::FOCAL_LENGTH_IN_35MM_FILM).filter(is_credible);
        // The width of the sensor as in COLMAP's `Bitmap::ExifFocalLength`.
        let mut by_resolution = || {
            let millimetres = match number(tag::FOCAL_PLANE_RESOLUTION_UNIT) {
                None | Some(2.0) => 25.4,
                Some(3.0) => 10.0,
                Some(4.0) => 1.0,
                Some(5.0) => 1e-3,
                Some(_) => return None,
            };
            let size = [number(tag::PIXEL_X_DIMENSION)?, number(tag::PIXEL_Y_DIMENSION)?];
            let diagonal =
                libm::hypot(size[0], size[1]) * millimetres / number(tag::FOCAL_PLANE_X_RESOLUTION)?;
            Some(number(tag::FOCAL_LENGTH)? / diagonal * FILM_DIAGONAL).filter(is_credible)
        };
        Self { shot, focal_35mm: stated.or_else(&mut by_resolution), ..Self::default() }
    }

    /// Fills missing values from `other`.
    #[must_use]
    pub fn fill_from(self, other: Self) -> Self {
        Self {
            orientation: self.orientation.or(other.orientation),
            shot: self.shot.or(other.shot),
            make: self.make.or(other.make),
            model: self.model.or(other.model),
            taken: self.taken.or(other.taken),
            focal_35mm: self.focal_35mm.or(other.focal_35mm),
            gps: if self.gps.is_empty() { other.gps } else { self.gps },
        }
    }
}

/// Fields by their tags; of those with the same tag the first.
pub(super) fn by_tag(mut fields: Vec<ExifField>) -> Vec<ExifField> {
    fields.sort_by_key(|field| field.tag);
    fields.dedup_by_key(|field| field.tag);
    fields
}

/// Bytes of one value of a type; `None` if the type is unknown.
pub(super) const fn value_bytes(kind: u16) -> Option<usize> {
    Some(match kind {
        1 | kind::ASCII | 6 | 7 => 1,
        kind::SHORT | 8 => 2,
        kind::LONG | 9 => 4,
        kind::RATIONAL | 10 => 8,
        _ => return None,
    })
}

/// Little-endian values, each of `unit` bytes, as big-endian ones. A rational consists of two numbers of four bytes.
pub(super) fn to_big_endian(bytes: &mut [u8], unit: usize) {
    bytes.chunks_exact_mut(unit.min(4)).for_each(<[u8]>::reverse);
}

impl ExifField {
    /// The first value as an integer.
    fn number(&self) -> Option<u32> {
        match self.kind {
            kind::SHORT => self.bytes.first_chunk().map(|&two| u32::from(u16::from_be_bytes(two))),
            kind::LONG => self.bytes.first_chunk().map(|&four| u32::from_be_bytes(four)),
            _ => None,
        }
    }

    /// The first value as a number.
    fn as_f64(&self) -> Option<f64> {
        let ratio =
            || self.ratio().map(|[numerator, denominator]| f64::from(numerator) / f64::from(denominator));
        self.number().map(f64::from).or_else(ratio)
    }

    /// Numerators and denominators.
    pub fn rationals(&self) -> impl Iterator<Item = [u32; 2]> {
        let bytes = if self.kind == kind::RATIONAL { self.bytes.as_slice() } else { &[] };
        bytes.as_chunks::<8>().0.iter().map(|&[a, b, c, d, e, f, g, h]| {
            [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
        })
    }

    /// The first rational, if neither part is 0.
    fn ratio(&self) -> Option<[u32; 2]> {
        self.rationals().next().filter(|parts| !parts.contains(&0))
    }

    pub(super) fn text(&self) -> Option<String> {
        let text = self.bytes.split(|&byte| byte == 0).next().filter(|_| self.kind == kind::ASCII)?;
        let text = String::from_utf8_lossy(text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// The same TIFF structure, saying that the pixels are upright.
#[must_use]
pub fn with_upright_orientation(tiff: &[u8]) -> Vec<u8> {
    let mut out = tiff.to_vec();
    let Some(tiff) = Tiff::new(tiff) else { return out };
    for entry in tiff.entries(tiff.number_at(4)).filter(|entry| entry.tag == tag::ORIENTATION) {
        let one = match (tiff.is_little, entry.kind) {
            (true, _) => [1, 0, 0, 0],
            (false, kind::LONG) => [0, 0, 0, 1],
            (false, _) => [0, 1, 0, 0],
        };
        if let Some(value) = out.get_mut(entry.at..).and_then(|rest| rest.first_chunk_mut()) {
            *value = one;
        }
    }
    out
}

/// A TIFF structure of either byte order.
struct Tiff<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

/// A directory entry, with the offset of its four bytes of value or offset.
struct Entry {
    tag: u16,
    kind: u16,
    count: u32,
    at: usize,
}

impl<'a> Tiff<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let is_little = match bytes.first_chunk::<4>()? {
            b"II\x2A\0" => true,
            b"MM\0\x2A" => false,
            _ => return None,
        };
        Some(Self { bytes, is_little })
    }

    fn short_at(&self, at: usize) -> Option<u16> {
        let two = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    }

    fn number_at(&self, at: usize) -> Option<u32> {
        let four = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    }

    /// The entries of the directory at an offset; empty if there is none.
    fn entries(&self, place: Option<u32>) -> impl Iterator<Item = Entry> {
        let start = place.map(|place| place as usize);
        let count = start.and_then(|start| self.short_at(start)).unwrap_or(0);
        (0..usize::from(count)).map_while(move |i| {
            let at = start?.checked_add(2 + 12 * i)?;
            Some(Entry {
                tag: self.short_at(at)?,
                kind: self.short_at(at + 2)?,
                count: self.number_at(at + 4)?,
                at: at + 8,
            })
        })
    }

    fn field(&self, directory: Option<u32>, tag: u16) -> Option<ExifField> {
        let entry = self.entries(directory).find(|entry| entry.tag == tag)?;
        self.value(&entry)
    }

    /// The field of an entry, if its type is known and its value is within the data.
    fn value(&self, entry: &Entry) -> Option<ExifField> {
        let &Entry { tag, kind, count, at } = entry;
        let unit = value_bytes(kind)?;
        let length = unit.checked_mul(count as usize).filter(|&length| length <= MAX_VALUE_BYTES)?;
        let at = if length <= 4 { at } else { self.number_at(at)? as usize };
        let mut bytes = self.bytes.get(at..at.checked_add(length)?)?.to_vec();
        if self.is_little {
            to_big_endian(&mut bytes, unit);
        }
        Some(ExifField { tag, kind, count, bytes })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn an_upright_copy_keeps_everything_but_the_orientation() {
        let big = b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let little = b"II\x2A\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x08\0\0\0\0\0\0\0";
        for tiff in [big, little] {
            let upright = with_upright_orientation(tiff);
            assert!(Exif::read(tiff).orientation > Some(1));
            assert_eq!(Exif::read(&upright).orientation, Some(1));
            assert_eq!(upright.iter().zip(tiff).filter(|(a, b)| a != b).count(), 1);
        }
        assert_eq!(with_upright_orientation(b"no EXIF"), b"no EXIF");
    }

    /// A structure with an Exif directory of numbers and ratios.
    fn photo(fields: &[(u16, [u32; 2])]) -> Vec<u8> {
        let mut out = b"MM\0\x2A\0\0\0\x08\0\x01\x87\x69\0\x04\0\0\0\x01\0\0\0\x1A\0\0\0\0".to_vec();
        out.extend((fields.len() as u16).to_be_bytes());
        let mut ratios = Vec::new();
        let after = out.len() + 12 * fields.len();
        for &(tag, [a, b]) in fields {
            let is_ratio = b != 0;
            let kind = if is_ratio { kind::RATIONAL } else { kind::LONG };
            let value = if is_ratio { (after + ratios.len()) as u32 } else { a };
            out.extend([&tag.to_be_bytes()[..], &kind.to_be_bytes(), &1u32.to_be_bytes()].concat());
            out.extend(value.to_be_bytes());
            if is_ratio {
                ratios.extend([a.to_be_bytes(), b.to_be_bytes()].concat());
            }
        }
        out.extend(ratios);
        out
    }

    #[test]
    fn the_focal_length_follows_from_the_resolution_of_the_focal_plane() {
        // A Canon PowerShot ELPH 300 HS: 4.3 mm, a sensor 6.2 mm wide.
        let canon = [
            (tag::FOCAL_LENGTH, [4300, 1000]),
            (tag::PIXEL_X_DIMENSION, [4000, 0]),
            (tag::PIXEL_Y_DIMENSION, [3000, 0]),
            (tag::FOCAL_PLANE_X_RESOLUTION, [4_000_000, 244]),
            (tag::FOCAL_PLANE_RESOLUTION_UNIT, [2, 0]),
        ];
        let focal = |fields: &[(u16, [u32; 2])]| Exif::read(&photo(fields)).focal_35mm;
        let diagonal = 5000.0 * 25.4 * 244.0 / 4e6;
        let expected = 4.3 / diagonal * FILM_DIAGONAL;
        assert!((focal(&canon).unwrap() - expected).abs() < 1e-9 && (expected - 24.0).abs() < 0.1);
        // What the camera states itself comes first, unless it is no number that a lens can have.
        assert_eq!(focal(&[&canon[..], &[(tag::FOCAL_LENGTH_IN_35MM_FILM, [26, 0])]].concat()), Some(26.0));
        for absurd in [0, 3, 90_000] {
            let stated = focal(&[&canon[..], &[(tag::FOCAL_LENGTH_IN_35MM_FILM, [absurd, 0])]].concat());
            assert_eq!(stated, focal(&canon));
        }
        let with = |at: usize, value| {
            let mut fields = canon;
            fields[at].1 = value;
            focal(&fields)
        };
        assert!((with(4, [3, 0]).unwrap() / expected - 2.54).abs() < 1e-9);
        for (at, value) in [(0, [0, 1]), (1, [0, 0]), (3, [1, 0]), (4, [9, 0])] {
            assert_eq!(with(at, value), None, "field {at} = {value:?}");
        }
        assert_eq!(focal(&canon[..3]), None);
    }
}
