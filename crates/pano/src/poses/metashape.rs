//! Camera files of Metashape (XML, File > Export > Export Cameras): frame and spherical sensors, in a chunk.
//!
//! ```text
//! camera/transform     chunk_from_camera, 4x4, row by row; x right, y down, z forward
//! chunk/transform      rotation 3x3, translation, scale: world = s R x + t; missing = the world is the chunk.
//!                      Since 2.0 one for each `component` that a camera names
//! spherical sensor     u = w/2 + w/(2 pi) atan2(x, z), v = h/2 + w/(2 pi) atan2(y, hypot(x, z)): axes of `geometry`
//! ```
//! Source: the Metashape manual, appendix "Camera models", and published files. Not tested with Metashape itself.

use std::collections::{BTreeMap, BTreeSet};

use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};
use gausset_io::text::excerpt;
use roxmltree::{Document, Node};

use super::{FileProblem, NamedPose, Trajectory, join_numbers, parse_numbers, pose_from_centre};

/// Similarity transform of a chunk or component.
struct Similarity {
    rotation: Mat3,
    translation: [f64; 3],
    scale: f64,
}

/// The first child element of a name.
fn child<'a, 'b>(node: Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    node.children().find(|c| c.has_tag_name(name))
}

fn chunk_similarity(node: Node<'_, '_>) -> Result<Similarity, FileProblem> {
    let Some(transform) = child(node, "transform") else {
        return Ok(Similarity {
            rotation: gausset_core::matrix::IDENTITY3,
            translation: [0.0; 3],
            scale: 1.0,
        });
    };
    let place = "chunk transform";
    let text = |name: &str| child(transform, name).and_then(|n| n.text());
    let bad = |what: &str| {
        FileProblem::new(place, format!("{what}: wrong number of values, or not finite numbers"))
    };
    let r = text("rotation").map_or(Some([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]), parse_numbers::<9>);
    let r = r.ok_or_else(|| bad("rotation"))?;
    let rotation = [[r[0], r[1], r[2]], [r[3], r[4], r[5]], [r[6], r[7], r[8]]];
    let rotation = Pose::from_matrix(rotation, [0.0; 3]).map_err(|e| FileProblem::new(place, e))?.rotation;
    let translation =
        text("translation").map_or(Some([0.0; 3]), parse_numbers::<3>).ok_or_else(|| bad("translation"))?;
    let [scale] = text("scale").map_or(Some([1.0]), parse_numbers::<1>).ok_or_else(|| bad("scale"))?;
    if scale <= 0.0 {
        return Err(FileProblem::new(place, format!("scale: is {scale} (expected more than 0)")));
    }
    Ok(Similarity { rotation, translation, scale })
}

/// Parses the cameras of a document. Exactly one chunk must have cameras with poses.
///
/// # Errors
/// Not XML, no chunk or several chunks with poses, invalid matrices, or a scale that is not positive.
pub fn parse(text: &str) -> Result<Trajectory, FileProblem> {
    let document = Document::parse(text).map_err(|e| FileProblem::new("XML", e))?;
    let chunks: Vec<Trajectory> = document
        .descendants()
        .filter(|node| node.has_tag_name("chunk"))
        .map(parse_chunk)
        .collect::<Result<_, _>>()?;
    if chunks.is_empty() {
        let root = excerpt(document.root_element().tag_name().name());
        let problem = format!("none (expected the <chunk> of Metashape's <document>, found <{root}>)");
        return Err(FileProblem::new("chunk", problem));
    }
    let mut found = chunks.into_iter().filter(|chunk| !chunk.poses.is_empty());
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(FileProblem::new(
            "chunk",
            "several chunks have cameras with poses; export one chunk at a time",
        )),
        (None, _) => Err(FileProblem::new("chunk", "no camera of any chunk has a pose")),
    }
}

fn parse_chunk(chunk: Node<'_, '_>) -> Result<Trajectory, FileProblem> {
    let world = chunk_similarity(chunk)?;
    let mut components = BTreeMap::new();
    for component in chunk.children().filter(|n| n.has_tag_name("components")).flat_map(|n| n.children()) {
        if let (Some(id), Some(_)) = (component.attribute("id"), child(component, "transform")) {
            components.insert(id.to_owned(), chunk_similarity(component)?);
        }
    }
    let mut found = Trajectory::new("Metashape XML", Vec::new());
    let mut named = BTreeSet::new();
    let cameras = chunk.children().filter(|n| n.has_tag_name("cameras")).flat_map(|n| n.descendants());
    for camera in cameras.filter(|n| n.has_tag_name("camera")) {
        let name = camera.attribute("label").unwrap_or_default().to_owned();
        let Some(transform) = child(camera, "transform").and_then(|n| n.text()) else {
            found.unregistered.push(name);
            continue;
        };
        let m = parse_numbers::<16>(transform).ok_or_else(|| {
            FileProblem::new(gausset_io::text::quote(&name), "transform: not 16 finite numbers")
        })?;
        let component = camera.attribute("component_id").unwrap_or_default();
        named.insert(component);
        let world = components.get(component).unwrap_or(&world);
        let chunk_from_camera = [[m[0], m[1], m[2]], [m[4], m[5], m[6]], [m[8], m[9], m[10]]];
        let at = se3::mul_vec(&world.rotation, [m[3], m[7], m[11]]);
        let centre = std::array::from_fn(|k| world.scale * at[k] + world.translation[k]);
        let rotation = se3::transpose(&se3::mul(&world.rotation, &chunk_from_camera));
        let pose = pose_from_centre(rotation, centre).map_err(|e| FileProblem::invalid_pose(&name, &e))?;
        found.poses.push(NamedPose { name, pose, frame: found.poses.len() as u32 });
    }
    // Components have unrelated coordinate systems, unless each has a transform to the common world.
    let apart = named.iter().find(|id| named.len() > 1 && !components.contains_key(**id));
    match apart {
        None => Ok(found),
        Some(id) => {
            let id = if id.is_empty() { "none".to_owned() } else { excerpt(id) };
            let problem = format!(
                "cameras of {} components have poses, and component {id} has no transform to a common world; export one component",
                named.len()
            );
            Err(FileProblem::new("components", problem))
        }
    }
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
