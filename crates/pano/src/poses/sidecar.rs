//! XMP sidecars of RealityCapture: one file next to each image.
//!
//! ```text
//! xcr:Rotation   camera_from_world, row by row; x right, y down, z forward       attribute or element of rdf:Description
//! xcr:Position   centre of the camera
//! ```
//! Written by [`crate::poses::export::xmp_sidecars`]. Not tested with RealityCapture itself.

use gausset_core::Pose;
use roxmltree::Document;

use super::{FileProblem, parse_numbers, pose_from_centre};

/// Parses a sidecar; `None` if it has no pose.
///
/// # Errors
/// Not XML, or numbers that are not a pose.
pub fn parse(text: &str) -> Result<Option<Pose>, FileProblem> {
    // Packets may have bytes before and after the XML element.
    let start = text.find("<x:xmpmeta").unwrap_or(0);
    let end = text.rfind("</x:xmpmeta>").map_or(text.len(), |at| at + "</x:xmpmeta>".len());
    let document =
        Document::parse(text.get(start..end).unwrap_or(text)).map_err(|e| FileProblem::new("XMP", e))?;
    let value = |name: &str| {
        document.descendants().find_map(|node| {
            let own = node.attributes().find(|a| a.name() == name).map(|a| a.value());
            own.or_else(|| node.tag_name().name().eq(name).then(|| node.text()).flatten())
        })
    };
    let (Some(rotation), Some(position)) = (value("Rotation"), value("Position")) else { return Ok(None) };
    let bad = |name| FileProblem::new(name, "wrong number of values, or not finite numbers");
    let r = parse_numbers::<9>(rotation).ok_or_else(|| bad("xcr:Rotation"))?;
    let centre = parse_numbers::<3>(position).ok_or_else(|| bad("xcr:Position"))?;
    let rotation = [[r[0], r[1], r[2]], [r[3], r[4], r[5]], [r[6], r[7], r[8]]];
    pose_from_centre(rotation, centre).map(Some).map_err(|e| FileProblem::new("xcr:Rotation", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_attributes_are_read() {
        let wrap = |attributes: &str, elements: &str| {
            format!(
                "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description xmlns:xcr=\"http://www.capturingreality.com/ns/xcr/1.1#\" {attributes}>{elements}</rdf:Description></rdf:RDF></x:xmpmeta>"
            )
        };
        let turned = "0 0 -1 0 1 0 1 0 0";
        let as_elements = wrap(
            "xcr:Version=\"3\"",
            &format!("<xcr:Rotation>{turned}</xcr:Rotation><xcr:Position>1 2 3</xcr:Position>"),
        );
        let as_attributes = wrap(&format!("xcr:Rotation=\"{turned}\" xcr:Position=\"1 2 3\""), "");
        for text in [as_elements, as_attributes] {
            let pose = parse(&text).unwrap().unwrap();
            assert!(pose.centre().iter().zip([1.0, 2.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-12));
            // The last row is the viewing direction.
            assert_eq!(pose.rotation[2], [1.0, 0.0, 0.0]);
        }
        assert_eq!(parse(&wrap("", "")).unwrap(), None);
        assert!(parse(&wrap("xcr:Rotation=\"1 0\" xcr:Position=\"1 2 3\"", "")).is_err());
        assert!(parse("<a").is_err());
    }
}
