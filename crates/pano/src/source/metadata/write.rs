//! Metadata of the views: EXIF and Gausset's XMP packet.

use std::fmt::Write as _;

use gausset_io::image::exif::{ExifField, FILM_DIAGONAL, kind, tag};
use gausset_io::image::exif_write::{exif_content, marker_segment, text_field};
use gausset_io::image::segments::marker;

use super::read::{IMG_DIRECTION_TAG, Metadata, XMP_PREFIX};
use crate::sphere::geometry::View;

/// Namespace of the XMP packet in views.
pub const XMP_NAMESPACE: &str = "https://gausset.dev/ns/pano/1.0/";

/// GPS tag: the direction is relative to true north.
const IMG_DIRECTION_REF_TAG: u16 = 0x10;

impl Metadata {
    /// The marker segments for a view of `frame`.
    #[must_use]
    pub fn view_segments(&self, view: &View, frame: &str) -> Vec<Vec<u8>> {
        let xmp = [XMP_PREFIX, xmp_packet(view, frame, "").as_bytes()].concat();
        let own = [(marker::APP1, &self.view_exif(view)), (marker::APP1, &xmp)];
        let icc = self.icc.iter().map(|part| (marker::APP2, part));
        own.into_iter().chain(icc).map(|(marker, content)| marker_segment(marker, content)).collect()
    }

    /// The marker segments of an image that was made from the whole frame; `panorama` is its size if it is a panorama.
    #[must_use]
    pub fn frame_segments(&self, panorama: Option<[u32; 2]>) -> Vec<Vec<u8>> {
        let exif = self.build_exif(None, 0.0);
        let gpano = panorama.map(|size| [XMP_PREFIX, self.gpano_packet(size).as_bytes()].concat());
        let icc = self.icc.iter().map(|part| (marker::APP2, part));
        let own = std::iter::once(&exif).chain(&gpano).map(|content| (marker::APP1, content));
        own.chain(icc).map(|(marker, content)| marker_segment(marker, content)).collect()
    }

    fn view_exif(&self, view: &View) -> Vec<u8> {
        let diagonal = libm::hypot(f64::from(view.width), f64::from(view.height));
        let focal_35mm = FILM_DIAGONAL * view.focal() / diagonal;
        self.build_exif(Some(focal_35mm.round().clamp(1.0, 65_535.0) as u16), view.yaw)
    }

    /// EXIF with this focal length, for an image at `yaw` degrees to the right of the panorama's centre.
    fn build_exif(&self, focal_35mm: Option<u16>, yaw: f64) -> Vec<u8> {
        let mut main = Vec::new();
        for (tag, text) in [(tag::MAKE, &self.exif.make), (tag::MODEL, &self.exif.model)] {
            main.extend(text.as_ref().map(|text| text_field(tag, text)));
        }
        main.push(text_field(tag::SOFTWARE, concat!("gausset ", env!("CARGO_PKG_VERSION"))));
        let mut photo = Vec::new();
        photo.extend(self.exif.taken.as_ref().map(|text| text_field(tag::DATE_TIME_ORIGINAL, text)));
        photo.extend(focal_35mm.map(|focal| ExifField {
            tag: tag::FOCAL_LENGTH_IN_35MM_FILM,
            kind: kind::SHORT,
            count: 1,
            bytes: focal.to_be_bytes().to_vec(),
        }));
        let mut gps: Vec<ExifField> = self
            .exif
            .gps
            .iter()
            .filter(|e| e.tag != IMG_DIRECTION_REF_TAG && e.tag != IMG_DIRECTION_TAG)
            .cloned()
            .collect();
        if let Some(heading) = self.heading().filter(|_| !gps.is_empty()) {
            let hundredths = ((heading + yaw).rem_euclid(360.0) * 100.0).round() as u32 % 36_000;
            gps.push(ExifField {
                tag: IMG_DIRECTION_REF_TAG,
                kind: kind::ASCII,
                count: 2,
                bytes: b"T\0".to_vec(),
            });
            let bytes = [hundredths.to_be_bytes(), 100u32.to_be_bytes()].concat();
            gps.push(ExifField { tag: IMG_DIRECTION_TAG, kind: kind::RATIONAL, count: 1, bytes });
            gps.sort_by_key(|f| f.tag);
        }
        exif_content(main, photo, gps)
    }

    /// A GPano packet for a whole panorama (Google, Photo Sphere XMP Metadata).
    fn gpano_packet(&self, [width, height]: [u32; 2]) -> String {
        let mut pose =
            self.heading().map_or_else(String::new, |h| format!(" GPano:PoseHeadingDegrees=\"{h}\""));
        if let Some([pitch, roll]) = self.tilt() {
            pose += &format!(" GPano:PosePitchDegrees=\"{pitch}\" GPano:PoseRollDegrees=\"{roll}\"");
        }
        format!(
            "<?xpacket begin=\"\u{feff}\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?><x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description rdf:about=\"\" xmlns:GPano=\"http://ns.google.com/photos/1.0/panorama/\" GPano:ProjectionType=\"equirectangular\" GPano:FullPanoWidthPixels=\"{width}\" GPano:FullPanoHeightPixels=\"{height}\" GPano:CroppedAreaLeftPixels=\"0\" GPano:CroppedAreaTopPixels=\"0\" GPano:CroppedAreaImageWidthPixels=\"{width}\" GPano:CroppedAreaImageHeightPixels=\"{height}\"{pose}/></rdf:RDF></x:xmpmeta><?xpacket end=\"w\"?>"
        )
    }
}

/// An XMP packet with the angles of a view; `more` holds further attributes.
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

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::source::metadata::GPano;
    use gausset_io::image::exif::Exif;

    fn view() -> View {
        View { name: "view02".into(), yaw: 90.0, pitch: 0.0, roll: 0.0, hfov: 90.0, width: 64, height: 64 }
    }

    fn rational(values: &[(u32, u32)]) -> Vec<u8> {
        values.iter().flat_map(|(a, b)| [a.to_be_bytes(), b.to_be_bytes()].concat()).collect()
    }

    #[test]
    fn a_whole_panorama_says_that_it_is_one() {
        let tilted = GPano { pitch: 20.0, roll: -10.5, ..GPano::default() };
        let source = Metadata { gpano: Some(tilted), ..Metadata::default() };
        let mut file = vec![0xFF, 0xD8];
        file.extend(source.frame_segments(Some([400, 200])).concat());
        file.extend([0xFF, 0xDA]);
        let back = Metadata::from_jpeg(&file);
        assert!(back.equirect(400, 200).unwrap().is_whole());
        assert_eq!(back.gpano.unwrap().full_size, Some([400.0, 200.0]));
        assert_eq!(back.tilt(), Some([20.0, -10.5]));
    }

    #[test]
    fn what_views_are_given_can_be_read_back() {
        let exif = Exif {
            make: Some("GoPro".into()),
            model: Some("GoPro Max".into()),
            taken: Some("2022:04:01 12:00:00".into()),
            gps: vec![
                ExifField { tag: 1, kind: 2, count: 2, bytes: b"S\0".to_vec() },
                ExifField { tag: 2, kind: 5, count: 3, bytes: rational(&[(48, 1), (30, 1), (36, 1)]) },
                ExifField { tag: 3, kind: 2, count: 2, bytes: b"E\0".to_vec() },
                ExifField { tag: 4, kind: 5, count: 3, bytes: rational(&[(2, 1), (0, 1), (0, 1)]) },
                ExifField { tag: 6, kind: 5, count: 1, bytes: rational(&[(1230, 10)]) },
                ExifField { tag: 0x11, kind: 5, count: 1, bytes: rational(&[(300, 1)]) },
            ],
            ..Exif::default()
        };
        let source = Metadata { exif, ..Metadata::default() };
        let mut file = vec![0xFF, 0xD8];
        file.extend(source.view_segments(&view(), "a & b").concat());
        file.extend([0xFF, 0xDA]);
        let back = Metadata::from_jpeg(&file);
        let said = |m: &Metadata| (m.exif.make.clone(), m.exif.model.clone(), m.exif.taken.clone());
        assert_eq!(said(&back), said(&source));
        let position = back.position().unwrap();
        assert!((position.latitude + 48.51).abs() < 1e-9 && (position.longitude - 2.0).abs() < 1e-9);
        assert!((position.altitude.unwrap() - 123.0).abs() < 1e-9);
        assert_eq!(back.heading(), Some(30.0));
        // 90 degrees: half the width, for the diagonal of the film.
        assert_eq!(back.exif.focal_35mm, Some((0.5 * FILM_DIAGONAL / 2f64.sqrt()).round()));
        assert!(String::from_utf8_lossy(&file).contains("pano:frame=\"a &amp; b\" pano:view=\"view02\""));
        // Every truncation is parsed without a panic.
        for length in 0..file.len() {
            let _ = Metadata::from_jpeg(&file[..length]);
        }
    }
}
