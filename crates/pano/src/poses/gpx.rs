//! Writes GPX 1.1 tracks: positions on the earth, for maps.

use super::metashape::escape_xml;

/// Formats a track of named positions: degrees north, degrees east, metres up.
#[must_use]
pub fn write(positions: &[(String, [f64; 3])]) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<gpx version=\"1.1\" creator=\"Gausset\" xmlns=\"http://www.topografix.com/GPX/1/1\">\n<trk><trkseg>\n".to_owned();
    for (name, [north, east, up]) in positions {
        // Resolution of a hundredth of a millimetre.
        out += &format!(
            "<trkpt lat=\"{north:.10}\" lon=\"{east:.10}\"><ele>{up:.5}</ele><name>{}</name></trkpt>\n",
            escape_xml(name)
        );
    }
    out + "</trkseg></trk>\n</gpx>\n"
}
