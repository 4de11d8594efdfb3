//! XMP sidecars of RealityCapture, one file next to each image: reading is in
//! [`gausset_io::dataset::exports::realitycapture`].
//!
//! Written by [`crate::poses::export::xmp_sidecars`].

use gausset_core::Pose;
use gausset_io::dataset::exports::realitycapture;

use super::FileProblem;

/// Parses a sidecar; `None` if it has no pose.
///
/// # Errors
/// Not XML, or numbers that are not a pose.
pub fn parse(text: &str) -> Result<Option<Pose>, FileProblem> {
    let sidecar = realitycapture::parse_sidecar(text)?;
    sidecar.map(|found| found.pose.map_err(|problem| FileProblem::new("pose", problem))).transpose()
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
