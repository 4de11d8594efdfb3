//! EXIF and XMP: what a panorama says about itself, and what its views are given.
//!
//! Read: Make, Model, DateTimeOriginal, Orientation, the GPS directory, the GPano packet, the ICC profile. Written into
//! each view while it is encoded, as one APP1 each: those facts (heading turned with the view), the focal length, and
//! a packet of our own with the frame and the angles of the view. Thumbnails, maker notes, serial numbers and GPano stay
//! behind: none of them is true of a view.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;

use crate::geometry::View;
use crate::projection::Equirect;

/// Namespace of the packet that views carry.
pub const XMP_NAMESPACE: &str = "https://gausset.dev/ns/pano/1.0/";

/// Last tag of the GPS directory.
const LAST_GPS_TAG: u16 = 0x1F;
/// Entries of a GPS directory that are looked at: more than there are tags, because they may come twice.
const MAX_GPS_ENTRIES: usize = 64;
/// Longest value of the GPS directory that is kept: all of them together fit into the segment of a view.
const MAX_GPS_BYTES: usize = 1024;

/// A value of the GPS directory, numbers big-endian as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpsEntry {
    tag: u16,
    kind: u16,
    count: u32,
    bytes: Vec<u8>,
}

/// A place on the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// Metres above sea level; 0 when the file does not say.
    pub altitude: f64,
}

/// What GPano says (Google, Photo Sphere XMP Metadata).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GPano {
    /// Size of the whole sphere as declared.
    pub full: Option<[f64; 2]>,
    /// Left and top of the stored part.
    pub crop_at: [f64; 2],
    /// Size of the stored part as declared.
    pub crop_size: Option<[f64; 2]>,
    /// Compass heading of the centre, degrees.
    pub heading: Option<f64>,
    /// Pitch of the camera, degrees.
    pub pitch: f64,
    /// Roll of the camera, degrees.
    pub roll: f64,
    /// Whether `ProjectionType` is something else than equirectangular.
    pub is_other_projection: bool,
}

/// What a picture file says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Maker of the camera.
    pub make: Option<String>,
    /// Model of the camera.
    pub model: Option<String>,
    /// `YYYY:MM:DD HH:MM:SS`.
    pub taken: Option<String>,
    /// EXIF orientation; 1 when the file does not say.
    pub orientation: u8,
    /// The GPS directory.
    pub gps: Vec<GpsEntry>,
    /// The GPano packet.
    pub gpano: Option<GPano>,
    /// APP2 segments with the ICC profile, whole.
    pub icc: Vec<Vec<u8>>,
}

impl Metadata {
    /// Reads the segments of a JPEG up to its picture data. What cannot be read is left out.
    #[must_use]
    pub fn of_jpeg(data: &[u8]) -> Self {
        let mut found = Self { orientation: 1, ..Self::default() };
        let mut at = 2usize;
        while let Some(&[0xFF, marker, high, low]) = data.get(at..).and_then(<[u8]>::first_chunk::<4>) {
            if marker == 0xFF {
                at += 1;
                continue;
            }
            if marker == 0xDA || marker == 0xD9 {
                break;
            }
            let length = usize::from(u16::from_be_bytes([high, low]));
            let end = at + 2 + length.max(2);
            let Some(segment) = data.get(at..end) else { break };
            let content = segment.get(4..).unwrap_or(&[]);
            if marker == 0xE1 {
                if let Some(tiff) = content.strip_prefix(b"Exif\0\0") {
                    found.read_exif(tiff);
                } else if let Some(xmp) = content.strip_prefix(b"http://ns.adobe.com/xap/1.0/\0") {
                    found.gpano = found.gpano.or_else(|| parse_gpano(&String::from_utf8_lossy(xmp)));
                }
            } else if marker == 0xE2 && content.starts_with(b"ICC_PROFILE\0") {
                found.icc.push(segment.to_vec());
            }
            at = end;
        }
        found
    }

    fn read_exif(&mut self, tiff: &[u8]) {
        let Some(tiff) = Tiff::new(tiff) else { return };
        for entry in tiff.directory(tiff.u32_at(4)) {
            match entry.tag {
                0x010F => self.make = entry.text(&tiff),
                0x0110 => self.model = entry.text(&tiff),
                0x0112 => {
                    let value = entry.bytes(&tiff).and_then(|b| b.first_chunk::<2>().copied());
                    let value = value.map_or(1, u16::from_be_bytes);
                    self.orientation = u8::try_from(value).ok().filter(|o| (1..=8).contains(o)).unwrap_or(1);
                }
                0x8769 => {
                    for entry in tiff.directory(entry.offset(&tiff)) {
                        if entry.tag == 0x9003 {
                            self.taken = entry.text(&tiff);
                        }
                    }
                }
                0x8825 => {
                    let entries = tiff.directory(entry.offset(&tiff));
                    self.gps = entries
                        .filter(|e| e.tag <= LAST_GPS_TAG)
                        .take(MAX_GPS_ENTRIES)
                        .filter_map(|e| {
                            let bytes = e.bytes(&tiff).filter(|bytes| bytes.len() <= MAX_GPS_BYTES)?;
                            Some(GpsEntry { tag: e.tag, kind: e.kind, count: e.count, bytes })
                        })
                        .collect();
                    self.gps.sort_by_key(|e| e.tag);
                    self.gps.dedup_by_key(|e| e.tag);
                }
                _ => {}
            }
        }
    }

    /// Where it was taken.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        let entry = |tag| self.gps.iter().find(|e| e.tag == tag);
        let degrees = |tag, letter_tag, negative: u8| {
            let [d, m, s] = entry(tag)?.rationals::<3>()?;
            let sign = entry(letter_tag).and_then(|e| e.bytes.first().copied()) == Some(negative);
            let value = d + m / 60.0 + s / 3600.0;
            Some(if sign { -value } else { value }).filter(|v| v.is_finite())
        };
        let (latitude, longitude) = (degrees(2, 1, b'S')?, degrees(4, 3, b'W')?);
        let below = entry(5).and_then(|e| e.bytes.first().copied()) == Some(1);
        let altitude = entry(6).and_then(GpsEntry::rationals::<1>).map_or(0.0, |[a]| a);
        let altitude = if below { -altitude } else { altitude };
        let in_range = latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && altitude.is_finite();
        in_range.then_some(Position { latitude, longitude, altitude })
    }

    /// Compass heading of the panorama's centre, degrees.
    #[must_use]
    pub fn heading(&self) -> Option<f64> {
        let gpano = self.gpano.and_then(|g| g.heading);
        let exif = || self.gps.iter().find(|e| e.tag == 0x11)?.rationals::<1>().map(|[h]| h);
        gpano.or_else(exif).filter(|h| h.is_finite()).map(|h| h.rem_euclid(360.0))
    }

    /// How a picture of this size shows the sphere.
    ///
    /// # Errors
    /// Neither twice as wide as high nor described by GPano; what GPano says makes no sense.
    pub fn equirect(&self, width: u32, height: u32) -> Result<Equirect, String> {
        let (w, h) = (f64::from(width), f64::from(height));
        if let Some(GPano { is_other_projection: true, .. }) = self.gpano {
            return Err("GPano: ProjectionType is not equirectangular".to_owned());
        }
        if let Some(GPano { full: Some([fw, fh]), crop_at: [left, top], crop_size, .. }) = self.gpano {
            let [cw, ch] = crop_size.unwrap_or([fw, fh]);
            let good = [fw, fh, cw, ch].iter().all(|v| *v >= 1.0 && *v <= 1e6)
                && left >= 0.0
                && top >= 0.0
                && left + cw <= fw + 1.0
                && top + ch <= fh + 1.0
                && (fw / fh - 2.0).abs() < 0.02;
            if !good {
                return Err(format!(
                    "GPano: a part of {cw}x{ch} px at ({left}, {top}) of {fw}x{fh} px makes no sense (expected a part of a 2:1 panorama)"
                ));
            }
            // A file can be a resize of what it declares.
            let (sx, sy) = (w / cw, h / ch);
            if (sx / sy - 1.0).abs() > 0.02 {
                return Err(format!(
                    "GPano: the picture is {width}x{height} px, which is not the shape of the declared {cw}x{ch} px"
                ));
            }
            if left == 0.0 && top == 0.0 && cw == fw && ch == fh && width == 2 * height {
                return Ok(Equirect::whole(width, height));
            }
            return Ok(Equirect {
                full_width: fw * sx,
                full_height: fh * sy,
                left: left * sx,
                top: top * sy,
                width,
                height,
            });
        }
        if width == 2 * height {
            return Ok(Equirect::whole(width, height));
        }
        Err(format!(
            "picture: {width}x{height} px is no panorama (expected twice as wide as high, or GPano metadata); stitch it first, or cut it with `gausset pano split`: --lens for two fisheye circles, --stereo tb for one eye above the other"
        ))
    }

    /// The marker segments of a view of `frame`.
    #[must_use]
    pub fn segments(&self, view: &View, frame: &str) -> Vec<Vec<u8>> {
        let mut out = vec![app1(&self.exif_of(view)), app1(&xmp_of(view, frame))];
        out.extend(self.icc.iter().cloned());
        out
    }

    fn exif_of(&self, view: &View) -> Vec<u8> {
        let focal_35mm = (36.0 * view.focal() / f64::from(view.width)).round().clamp(1.0, 65_535.0) as u16;
        let mut main = Vec::new();
        for (tag, text) in [(0x010F, &self.make), (0x0110, &self.model)] {
            main.extend(text.as_ref().map(|text| Field::text(tag, text)));
        }
        main.push(Field::text(0x0131, concat!("gausset ", env!("CARGO_PKG_VERSION"))));
        let mut photo = Vec::new();
        photo.extend(self.taken.as_ref().map(|text| Field::text(0x9003, text)));
        photo.push(Field { tag: 0xA405, kind: 3, count: 1, bytes: focal_35mm.to_be_bytes().to_vec() });
        let mut gps: Vec<Field> = self
            .gps
            .iter()
            .filter(|e| e.tag != 0x10 && e.tag != 0x11)
            .map(|e| Field { tag: e.tag, kind: e.kind, count: e.count, bytes: e.bytes.clone() })
            .collect();
        if let Some(heading) = self.heading().filter(|_| !gps.is_empty()) {
            let hundredths = ((heading + view.yaw).rem_euclid(360.0) * 100.0).round() as u32 % 36_000;
            gps.push(Field { tag: 0x10, kind: 2, count: 2, bytes: b"T\0".to_vec() });
            let bytes = [hundredths.to_be_bytes(), 100u32.to_be_bytes()].concat();
            gps.push(Field { tag: 0x11, kind: 5, count: 1, bytes });
            gps.sort_by_key(|f| f.tag);
        }
        let mut out = b"Exif\0\0MM\0\x2A\0\0\0\x08".to_vec();
        write_directories(main, photo, gps, &mut out);
        out
    }
}

impl GpsEntry {
    fn rationals<const N: usize>(&self) -> Option<[f64; N]> {
        if self.kind != 5 || (self.count as usize) < N {
            return None;
        }
        let mut out = [0.0; N];
        for (value, eight) in out.iter_mut().zip(self.bytes.chunks_exact(8)) {
            let [a, b, c, d, e, f, g, h] = *eight.first_chunk::<8>()?;
            let under = f64::from(u32::from_be_bytes([e, f, g, h]));
            *value = if under == 0.0 { 0.0 } else { f64::from(u32::from_be_bytes([a, b, c, d])) / under };
        }
        Some(out)
    }
}

/// A field of a directory that is written; numbers big-endian.
struct Field {
    tag: u16,
    kind: u16,
    count: u32,
    bytes: Vec<u8>,
}

impl Field {
    fn text(tag: u16, text: &str) -> Self {
        let mut bytes: Vec<u8> = text.bytes().filter(|b| (0x20..0x7F).contains(b)).take(200).collect();
        bytes.push(0);
        Self { tag, kind: 2, count: bytes.len() as u32, bytes }
    }

    fn pointer(tag: u16) -> Self {
        Self { tag, kind: 4, count: 1, bytes: vec![0; 4] }
    }
}

/// Writes IFD0, the Exif and the GPS directory after the 14 bytes of header in `out`.
fn write_directories(mut main: Vec<Field>, photo: Vec<Field>, gps: Vec<Field>, out: &mut Vec<u8>) {
    let size = |fields: &[Field]| {
        let values: usize = fields
            .iter()
            .map(|f| if f.bytes.len() > 4 { f.bytes.len().next_multiple_of(2) } else { 0 })
            .sum();
        2 + 12 * fields.len() + 4 + values
    };
    main.push(Field::pointer(0x8769));
    if !gps.is_empty() {
        main.push(Field::pointer(0x8825));
    }
    main.sort_by_key(|f| f.tag);
    let photo_at = 8 + size(&main);
    let gps_at = photo_at + size(&photo);
    for field in &mut main {
        let at = match field.tag {
            0x8769 => photo_at,
            0x8825 => gps_at,
            _ => continue,
        };
        field.bytes = (at as u32).to_be_bytes().to_vec();
    }
    write_directory(&main, 8, out);
    write_directory(&photo, photo_at, out);
    if !gps.is_empty() {
        write_directory(&gps, gps_at, out);
    }
}

fn write_directory(fields: &[Field], at: usize, out: &mut Vec<u8>) {
    let mut values_at = at + 2 + 12 * fields.len() + 4;
    let mut values = Vec::new();
    out.extend((fields.len() as u16).to_be_bytes());
    for field in fields {
        out.extend(field.tag.to_be_bytes());
        out.extend(field.kind.to_be_bytes());
        out.extend(field.count.to_be_bytes());
        if field.bytes.len() > 4 {
            out.extend((values_at as u32).to_be_bytes());
            values.extend_from_slice(&field.bytes);
            if field.bytes.len() % 2 == 1 {
                values.push(0);
            }
            values_at += field.bytes.len().next_multiple_of(2);
        } else {
            let mut four = field.bytes.clone();
            four.resize(4, 0);
            out.extend(four);
        }
    }
    out.extend([0; 4]);
    out.extend(values);
}

/// A marker segment APP1 with this content; content too long for one is left out.
fn app1(content: &[u8]) -> Vec<u8> {
    let Ok(length) = u16::try_from(content.len() + 2) else { return Vec::new() };
    let mut out = vec![0xFF, 0xE1];
    out.extend(length.to_be_bytes());
    out.extend_from_slice(content);
    out
}

/// The XMP packet of a view, without the APP1 header.
fn xmp_of(view: &View, frame: &str) -> Vec<u8> {
    let mut out = b"http://ns.adobe.com/xap/1.0/\0".to_vec();
    out.extend(xmp_packet(view, frame, "").bytes());
    out
}

/// An XMP packet with the angles of a view; `more` are further attributes.
#[must_use]
pub fn xmp_packet(view: &View, frame: &str, more: &str) -> String {
    let escape = |text: &str| -> String {
        text.chars().fold(String::new(), |mut out, c| {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                c => out.push(c),
            }
            out
        })
    };
    let View { name, yaw, pitch, roll, hfov, .. } = view;
    let mut out = String::from(
        "<?xpacket begin=\"\u{feff}\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?><x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">",
    );
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<rdf:Description rdf:about=\"\" xmlns:pano=\"{XMP_NAMESPACE}\" pano:frame=\"{}\" pano:view=\"{}\" pano:yaw=\"{yaw}\" pano:pitch=\"{pitch}\" pano:roll=\"{roll}\" pano:hfov=\"{hfov}\"{more}/>",
        escape(frame),
        escape(name),
    );
    out.push_str("</rdf:RDF></x:xmpmeta><?xpacket end=\"w\"?>");
    out
}

/// Reads the GPano attributes or elements of an XMP packet.
#[must_use]
pub fn parse_gpano(xmp: &str) -> Option<GPano> {
    if !xmp.contains("GPano:") {
        return None;
    }
    let text = |name: &str| -> Option<&str> {
        let key = format!("GPano:{name}");
        let mut rest = xmp;
        loop {
            let at = rest.find(&key)?;
            rest = rest.get(at + key.len()..)?;
            let trimmed = rest.trim_start();
            if let Some(after) = trimmed.strip_prefix('=') {
                let after = after.trim_start();
                let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
                return after.get(1..)?.split(quote).next();
            }
            if let Some(after) = trimmed.strip_prefix('>') {
                return after.split('<').next();
            }
        }
    };
    let number = |name: &str| text(name)?.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let pair = |a: &str, b: &str| Some([number(a)?, number(b)?]);
    Some(GPano {
        full: pair("FullPanoWidthPixels", "FullPanoHeightPixels"),
        crop_at: pair("CroppedAreaLeftPixels", "CroppedAreaTopPixels").unwrap_or([0.0; 2]),
        crop_size: pair("CroppedAreaImageWidthPixels", "CroppedAreaImageHeightPixels"),
        heading: number("PoseHeadingDegrees"),
        pitch: number("PosePitchDegrees").unwrap_or(0.0),
        roll: number("PoseRollDegrees").unwrap_or(0.0),
        is_other_projection: text("ProjectionType")
            .is_some_and(|t| !t.trim().eq_ignore_ascii_case("equirectangular")),
    })
}

/// A TIFF structure of either byte order.
struct Tiff<'a> {
    data: &'a [u8],
    is_little: bool,
}

/// An entry of a directory.
#[derive(Clone, Copy)]
struct TiffEntry {
    tag: u16,
    kind: u16,
    count: u32,
    /// Where its four bytes of value or offset stand.
    at: usize,
}

impl<'a> Tiff<'a> {
    fn new(data: &'a [u8]) -> Option<Self> {
        let is_little = match data.first_chunk::<4>()? {
            b"II\x2A\0" => true,
            b"MM\0\x2A" => false,
            _ => return None,
        };
        Some(Self { data, is_little })
    }

    fn u16_at(&self, at: usize) -> Option<u16> {
        let two = *self.data.get(at..)?.first_chunk::<2>()?;
        Some(if self.is_little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    }

    fn u32_at(&self, at: usize) -> Option<u32> {
        let four = *self.data.get(at..)?.first_chunk::<4>()?;
        Some(if self.is_little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    }

    /// The entries of the directory at an offset; none when it is not there.
    fn directory(&self, offset: Option<u32>) -> impl Iterator<Item = TiffEntry> + use<'_, 'a> {
        let start = offset.map_or(usize::MAX / 2, |o| o as usize);
        let count = self.u16_at(start).unwrap_or(0);
        (0..usize::from(count)).map_while(move |i| {
            let at = start + 2 + 12 * i;
            Some(TiffEntry {
                tag: self.u16_at(at)?,
                kind: self.u16_at(at + 2)?,
                count: self.u32_at(at + 4)?,
                at: at + 8,
            })
        })
    }
}

impl TiffEntry {
    fn offset(&self, tiff: &Tiff<'_>) -> Option<u32> {
        tiff.u32_at(self.at)
    }

    /// The value, numbers big-endian.
    fn bytes(&self, tiff: &Tiff<'_>) -> Option<Vec<u8>> {
        let unit: usize = match self.kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 => 4,
            5 | 10 => 8,
            _ => return None,
        };
        let length = unit.checked_mul(self.count as usize).filter(|&l| l <= 4096)?;
        let at = if length <= 4 { self.at } else { tiff.u32_at(self.at)? as usize };
        let mut bytes = tiff.data.get(at..at.checked_add(length)?)?.to_vec();
        if tiff.is_little {
            // A rational is two numbers of four bytes.
            bytes.chunks_exact_mut(unit.min(4)).for_each(<[u8]>::reverse);
        }
        Some(bytes)
    }

    fn text(&self, tiff: &Tiff<'_>) -> Option<String> {
        let bytes = self.bytes(tiff).filter(|_| self.kind == 2)?;
        let text = bytes.split(|&b| b == 0).next()?;
        let text = String::from_utf8_lossy(text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used)]
mod tests {
    use super::*;

    fn view() -> View {
        View { name: "view02".into(), yaw: 90.0, pitch: 0.0, roll: 0.0, hfov: 90.0, width: 64, height: 64 }
    }

    fn rational(values: &[(u32, u32)]) -> Vec<u8> {
        values.iter().flat_map(|(a, b)| [a.to_be_bytes(), b.to_be_bytes()].concat()).collect()
    }

    #[test]
    fn what_views_are_given_can_be_read_back() {
        let source = Metadata {
            make: Some("GoPro".into()),
            model: Some("GoPro Max".into()),
            taken: Some("2022:04:01 12:00:00".into()),
            orientation: 1,
            gps: vec![
                GpsEntry { tag: 1, kind: 2, count: 2, bytes: b"S\0".to_vec() },
                GpsEntry { tag: 2, kind: 5, count: 3, bytes: rational(&[(48, 1), (30, 1), (36, 1)]) },
                GpsEntry { tag: 3, kind: 2, count: 2, bytes: b"E\0".to_vec() },
                GpsEntry { tag: 4, kind: 5, count: 3, bytes: rational(&[(2, 1), (0, 1), (0, 1)]) },
                GpsEntry { tag: 6, kind: 5, count: 1, bytes: rational(&[(1230, 10)]) },
                GpsEntry { tag: 0x11, kind: 5, count: 1, bytes: rational(&[(300, 1)]) },
            ],
            gpano: None,
            icc: Vec::new(),
        };
        let mut file = vec![0xFF, 0xD8];
        file.extend(source.segments(&view(), "a & b").concat());
        file.extend([0xFF, 0xDA]);
        let back = Metadata::of_jpeg(&file);
        assert_eq!((&back.make, &back.model, &back.taken), (&source.make, &source.model, &source.taken));
        let position = back.position().unwrap();
        assert!((position.latitude + 48.51).abs() < 1e-9 && (position.longitude - 2.0).abs() < 1e-9);
        assert!((position.altitude - 123.0).abs() < 1e-9);
        assert_eq!(back.heading(), Some(30.0));
        assert!(String::from_utf8_lossy(&file).contains("pano:frame=\"a &amp; b\" pano:view=\"view02\""));
        // Every truncation is survived.
        for length in 0..file.len() {
            let _ = Metadata::of_jpeg(&file[..length]);
        }
    }

    #[test]
    fn gpano_is_read_as_attributes_and_as_elements_and_scaled_to_the_file() {
        let attributes = r#"GPano:ProjectionType="equirectangular" GPano:FullPanoWidthPixels="8704" GPano:FullPanoHeightPixels="4352" GPano:PoseHeadingDegrees='67'"#;
        let meta = Metadata { gpano: parse_gpano(attributes), ..Metadata::default() };
        assert_eq!(meta.equirect(1024, 512), Ok(Equirect::whole(1024, 512)));
        assert_eq!(meta.heading(), Some(67.0));
        let elements = "<GPano:FullPanoWidthPixels>4000</GPano:FullPanoWidthPixels><GPano:FullPanoHeightPixels>2000</GPano:FullPanoHeightPixels><GPano:CroppedAreaLeftPixels>1000</GPano:CroppedAreaLeftPixels><GPano:CroppedAreaTopPixels>500</GPano:CroppedAreaTopPixels><GPano:CroppedAreaImageWidthPixels>2000</GPano:CroppedAreaImageWidthPixels><GPano:CroppedAreaImageHeightPixels>1000</GPano:CroppedAreaImageHeightPixels>";
        let meta = Metadata { gpano: parse_gpano(elements), ..Metadata::default() };
        let crop = meta.equirect(1000, 500).unwrap();
        assert_eq!((crop.full_width, crop.left, crop.top), (2000.0, 500.0, 250.0));
        assert!(meta.equirect(1000, 900).unwrap_err().contains("not the shape"));
        assert!(
            Metadata::default()
                .equirect(300, 200)
                .unwrap_err()
                .starts_with("picture: 300x200 px is no panorama")
        );
    }
}
