//! Camera files of Metashape (XML): reading is in [`gausset_io::dataset::exports::metashape`].

use gausset_io::dataset::exports;

use super::{FileProblem, NamedPose, Trajectory, join_numbers};

/// Parses the cameras of a document. Exactly one chunk must have cameras with poses.
///
/// # Errors
/// Not XML, no chunk or several chunks with poses, invalid matrices, or a scale that is not positive.
pub fn parse(text: &str) -> Result<Trajectory, FileProblem> {
    Trajectory::from_export("Metashape XML", exports::metashape::parse(text)?)
}

/// A sensor for [`write()`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sensor {
    /// Name of the sensor.
    pub label: String,
    /// Size of its images, px.
    pub size: [u32; 2],
    /// Focal length, px; `None` for panoramas.
    pub focal: Option<f64>,
}

/// Formats a document with one chunk in world axes. `sensor_of` gives the sensor of the pose at an index.
#[must_use]
pub fn write(sensors: &[Sensor], poses: &[NamedPose], sensor_of: impl Fn(usize) -> usize) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<document version=\"1.2.0\">\n  <chunk label=\"Chunk 1\" enabled=\"true\">\n".to_owned();
    out += &format!("    <sensors next_id=\"{}\">\n", sensors.len());
    for (id, Sensor { label, size: [width, height], focal }) in sensors.iter().enumerate() {
        let kind = if focal.is_some() { "frame" } else { "spherical" };
        let size = format!("<resolution width=\"{width}\" height=\"{height}\"/>");
        let f = focal.map(|f| format!("<f>{f}</f><cx>0</cx><cy>0</cy>")).unwrap_or_default();
        out += &format!(
            "      <sensor id=\"{id}\" label=\"{}\" type=\"{kind}\">\n        {size}\n        <property name=\"fixed\" value=\"true\"/>\n        <calibration type=\"{kind}\" class=\"adjusted\">{size}{f}</calibration>\n      </sensor>\n",
            escape_xml(label)
        );
    }
    out += &format!("    </sensors>\n    <cameras next_id=\"{}\" next_group_id=\"0\">\n", poses.len());
    for (id, NamedPose { name, pose, .. }) in poses.iter().enumerate() {
        let (r, c) = (&pose.rotation, pose.centre());
        // Rows of world_from_camera are columns of camera_from_world.
        let rows = (0..3).flat_map(|i| [r[0][i], r[1][i], r[2][i], c[i]]).chain([0.0, 0.0, 0.0, 1.0]);
        out += &format!(
            "      <camera id=\"{id}\" sensor_id=\"{}\" label=\"{}\" enabled=\"true\"><transform>{}</transform></camera>\n",
            sensor_of(id),
            escape_xml(name),
            join_numbers(rows)
        );
    }
    out + "    </cameras>\n  </chunk>\n</document>\n"
}

/// Escapes text for an XML attribute.
pub(crate) fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use gausset_core::se3;

    use super::super::examples::{assert_same, poses};
    use super::*;

    #[test]
    fn documents_come_back() {
        let frame = Sensor { label: "a < b".into(), size: [64, 48], focal: Some(32.0) };
        let sphere = Sensor { label: "sphere".into(), size: [200, 100], focal: None };
        let text = write(&[frame, sphere], &poses(), |k| k % 2);
        assert!(text.contains("type=\"spherical\"") && text.contains("<f>32</f>"));
        let back = parse(&text).unwrap();
        assert_same(&back.poses, &poses());
        assert_eq!(back.poses[2].name, poses()[2].name);
    }

    /// A file of version 2: a component with its transform, a group, and a camera without a pose.
    const DOCUMENT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<document version="2.1.0"><chunk label="Chunk 1" enabled="true">
 <sensors next_id="1"><sensor id="0" label="unknown" type="spherical"><resolution width="5760" height="2880"/></sensor></sensors>
 <components next_id="1" active_id="0"><component id="0" label="Component 1">
  <transform><rotation locked="false">0 -1 0 1 0 0 0 0 1</rotation><translation locked="false">10 20 30</translation><scale locked="false">2</scale></transform>
 </component></components>
 <cameras next_id="3" next_group_id="1">
  <camera id="0" sensor_id="0" component_id="0" label="P1" enabled="true"><transform>1 0 0 3 0 1 0 0 0 0 1 0 0 0 0 1</transform></camera>
  <group id="0" label="g"><camera id="1" sensor_id="0" component_id="0" label="P2"><transform>0 0 1 0 0 1 0 1 -1 0 0 0 0 0 0 1</transform></camera></group>
  <camera id="2" sensor_id="0" label="P3"/>
 </cameras></chunk></document>"#;

    #[test]
    fn chunk_transforms_and_groups_are_followed() {
        let found = parse(DOCUMENT).unwrap();
        assert_eq!((found.poses.len(), &found.unregistered[..]), (2, &["P3".to_owned()][..]));
        let near = |a: [f64; 3], b: [f64; 3]| (0..3).all(|k| (a[k] - b[k]).abs() < 1e-12);
        // (3, 0, 0) rotated to (0, 3, 0), scaled by 2, added to (10, 20, 30).
        assert!(near(found.poses[0].pose.centre(), [10.0, 26.0, 30.0]));
        assert!(near(found.poses[1].pose.centre(), [8.0, 20.0, 30.0]));
        // P2 looks along the chunk's x axis, which is the world's y axis.
        let ahead = se3::transpose_mul_vec(&found.poses[1].pose.rotation, [0.0, 0.0, 1.0]);
        assert!(near(ahead, [0.0, 1.0, 0.0]), "{ahead:?}");
    }

    #[test]
    fn bad_documents_are_named() {
        for (from, to, line) in [
            (">2</scale>", ">0</scale>", "chunk transform: scale: is 0"),
            ("0 -1 0 1 0 0 0 0 1", "0 1 0 1 0 0 0 0 1", "chunk transform: rotation has determinant -1"),
            ("1 0 0 3 0 1 0 0 0 0 1 0 0 0 0 1", "1 0 0", "\"P1\": transform: not 16 finite numbers"),
            ("1 0 0 3 0 1 0", "-1 0 0 3 0 1 0", "\"P1\": rotation has determinant -1"),
            ("<transform>", "<other>", "XML: "),
        ] {
            let found = parse(&DOCUMENT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(found.starts_with(line), "{found}");
        }
        assert!(parse("<document><chunk/></document>").is_err());
        let other = parse("<kml/>").unwrap_err().to_string();
        assert_eq!(other, "chunk: none (expected the <chunk> of Metashape's <document>, found <kml>)");
        let apart =
            DOCUMENT.replacen("component_id=\"0\" label=\"P2\"", "component_id=\"7\" label=\"P2\"", 1);
        assert_eq!(
            parse(&apart).unwrap_err().to_string(),
            "components: cameras of 2 components have poses, and component 7 has no transform to a common world; export one component"
        );
        // The XML reader refuses entities that expand.
        assert!(parse("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>").is_err());
    }
}
