//! Camera files of Metashape (XML, File > Export > Export Cameras): the sensors and cameras of a chunk.
//!
//! ```text
//! camera/transform     chunk_from_camera, 4x4, row by row; x right, y down, z forward
//! chunk/transform      rotation 3x3, translation, scale: world = s R x + t; missing = the world is the chunk.
//!                      Since 2.0 one for each `component` that a camera names
//! frame sensor         (x', y') = (x, y) (1 + k1 r² + …) + (p1 (r² + 2x²) + 2 p2 x y, p2 (r² + 2y²) + 2 p1 x y)
//!                      u = w/2 + cx + x' (f + b1) + y' b2, v = h/2 + cy + y' f: OpenCV has p1 and p2 the other way round
//!                      p3 and p4, factors (1 + p3 r² + p4 r⁴) of the tangential terms, and b2 are only read where they
//!                      move no point by more than a quarter of a pixel
//! fisheye sensor       the same of (x, y) · θ/r
//! spherical sensor     u = w/2 + w/(2 pi) atan2(x, z), v = h/2 + w/(2 pi) atan2(y, hypot(x, z))
//! ```
//! Source: the Metashape manual, appendix "Camera models", and published files. Not tested with Metashape itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};
use roxmltree::{Document, Node};

use super::lens::{Distortion, ExportLens, LensUnit, fisheye, perspective};
use super::{Export, ExportError, ExportFrame, SharedLens, ValueProblem, parse_numbers, pose_from_centre};
use crate::file_problem::FileProblem;
use crate::text::excerpt;

/// Largest displacement by a term that is left out because no COLMAP model has it, px.
const MAX_DROPPED: f64 = 0.25;
/// What to do about a lens that cannot be used.
const UNDISTORT: &str = "export undistorted pictures with their cameras from Metashape";

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
/// Not XML, no chunk or several chunks with poses, a chunk transform that is no similarity.
pub fn parse(text: &str) -> Result<Export, FileProblem> {
    let document = Document::parse(text).map_err(|e| FileProblem::new("XML", e))?;
    let chunks: Vec<Export> = document
        .descendants()
        .filter(|node| node.has_tag_name("chunk"))
        .map(parse_chunk)
        .collect::<Result<_, _>>()?;
    if chunks.is_empty() {
        let root = excerpt(document.root_element().tag_name().name());
        let problem = format!("none (expected the <chunk> of Metashape's <document>, found <{root}>)");
        return Err(FileProblem::new("chunk", problem));
    }
    let mut found = chunks.into_iter().filter(|chunk| !chunk.frames.is_empty());
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(FileProblem::new(
            "chunk",
            "several chunks have cameras with poses; export one chunk at a time",
        )),
        (None, _) => Err(FileProblem::new("chunk", "no camera of any chunk has a pose")),
    }
}

fn parse_chunk(chunk: Node<'_, '_>) -> Result<Export, FileProblem> {
    let world = chunk_similarity(chunk)?;
    let mut components = BTreeMap::new();
    for component in chunk.children().filter(|n| n.has_tag_name("components")).flat_map(|n| n.children()) {
        if let (Some(id), Some(_)) = (component.attribute("id"), child(component, "transform")) {
            components.insert(id.to_owned(), chunk_similarity(component)?);
        }
    }
    let mut found = Export::default();
    let sensors: BTreeMap<&str, SharedLens> = chunk
        .children()
        .filter(|n| n.has_tag_name("sensors"))
        .flat_map(|n| n.children())
        .filter(|n| n.has_tag_name("sensor"))
        .map(|sensor| {
            let lens = lens(sensor).map(|(lens, dropped)| {
                found.approximations.extend(dropped);
                lens
            });
            (sensor.attribute("id").unwrap_or_default(), Arc::new(lens))
        })
        .collect();
    let missing = ValueProblem::new("its sensor", "is not in the file");
    let no_sensor: SharedLens = Arc::new(Err(ExportError::lens("", missing, "export the cameras again")));
    let mut named = BTreeSet::new();
    let cameras = chunk.children().filter(|n| n.has_tag_name("cameras")).flat_map(|n| n.descendants());
    for camera in cameras.filter(|n| n.has_tag_name("camera")) {
        let name = camera.attribute("label").unwrap_or_default().to_owned();
        let Some(transform) = child(camera, "transform").and_then(|n| n.text()) else {
            found.unregistered.push(name);
            continue;
        };
        let component = camera.attribute("component_id").unwrap_or_default();
        named.insert(component);
        let pose = pose_in(components.get(component).unwrap_or(&world), transform);
        let sensor = sensors.get(camera.attribute("sensor_id").unwrap_or_default());
        found.frames.push(ExportFrame { name, pose, lens: sensor.unwrap_or(&no_sensor).clone() });
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

/// `camera_from_world` of a camera's transform in a chunk or component.
fn pose_in(world: &Similarity, transform: &str) -> Result<Pose, ExportError> {
    let m = parse_numbers::<16>(transform)
        .ok_or_else(|| FileProblem::new("transform", "not 16 finite numbers"))?;
    let chunk_from_camera = [[m[0], m[1], m[2]], [m[4], m[5], m[6]], [m[8], m[9], m[10]]];
    let at = se3::mul_vec(&world.rotation, [m[3], m[7], m[11]]);
    let centre = std::array::from_fn(|k| world.scale * at[k] + world.translation[k]);
    let rotation = se3::transpose(&se3::mul(&world.rotation, &chunk_from_camera));
    Ok(pose_from_centre(rotation, centre)?)
}

/// The lens of a sensor, and a line for each of its terms that is left out.
fn lens(sensor: Node<'_, '_>) -> Result<(ExportLens, Vec<String>), ExportError> {
    let label = excerpt(sensor.attribute("label").unwrap_or_default());
    let of_sensor =
        |problem| ExportError::lens(format!("Metashape's sensor \"{label}\": "), problem, UNDISTORT);
    let calibrations = || sensor.children().filter(|n| n.has_tag_name("calibration"));
    let adjusted = calibrations().find(|n| n.attribute("class") == Some("adjusted"));
    let calibration = adjusted.or_else(|| calibrations().next());
    let resolution = calibration.and_then(|n| child(n, "resolution")).or_else(|| child(sensor, "resolution"));
    let side = |name| resolution.and_then(|n| n.attribute(name)?.parse::<u64>().ok());
    let size = side("width").zip(side("height")).map(|(width, height)| [width, height]);
    let kind = calibration.and_then(|n| n.attribute("type")).or_else(|| sensor.attribute("type"));
    let kind = kind.unwrap_or("frame");
    if kind == "spherical" {
        return Ok((ExportLens::panorama(size), Vec::new()));
    }
    let calibration = calibration.ok_or_else(|| of_sensor(ValueProblem::new("calibration", "is missing")))?;
    let value = |name: &'static str| -> Result<f64, ExportError> {
        let Some(node) = child(calibration, name) else { return Ok(0.0) };
        let text = node.text().unwrap_or_default().trim();
        let problem = || ValueProblem::new(name, format!("is `{}`", excerpt(text))).expecting("a number");
        text.parse().map_err(|_| of_sensor(problem()))
    };
    if child(calibration, "f").is_none() {
        let problem = ValueProblem::new("f", "is missing");
        return Err(of_sensor(problem.expecting("the calibration of Metashape, or PhotoScan 1.3")));
    }
    // Displacements in px at the border, where they are largest.
    let [width, height] = size.map_or([f64::INFINITY; 2], |size| size.map(|side| side as f64));
    let f = value("f")?;
    let r2 = (width * width + height * height) / (4.0 * f * f);
    let tangential = 3.0 * f * r2 * (value("p1")?.abs() + value("p2")?.abs());
    let mut dropped = Vec::new();
    for (name, what, at_border) in [
        ("b2", "skew", 0.5 * height / f),
        ("p3", "a tangential term", tangential * r2),
        ("p4", "a tangential term", tangential * r2 * r2),
    ] {
        let (term, moved) = (value(name)?, (value(name)? * at_border).abs());
        if term != 0.0 && moved < MAX_DROPPED {
            dropped.push(format!(
                "Metashape's sensor \"{label}\": {name} is {term} and left out: it moves no point by more than {moved:.3} px"
            ));
        } else if term != 0.0 {
            let expected = format!("0: no COLMAP model has {what} like it");
            return Err(of_sensor(ValueProblem::new(name, format!("is {term}")).expecting(expected)));
        }
    }
    let focal = [value("f")? + value("b1")?, value("f")?];
    let centre = [value("cx")?, value("cy")?];
    let k = [value("k1")?, value("k2")?, value("k3")?, value("k4")?];
    let distortion = Distortion { k, p: [value("p2")?, value("p1")?] };
    let (model, params) = match kind {
        "frame" => perspective(focal, centre, distortion).map_err(of_sensor)?,
        "fisheye" | "equidistant_fisheye" => fisheye(focal, centre, distortion),
        other => {
            let problem = ValueProblem::new("type", format!("is {}", excerpt(other)));
            return Err(of_sensor(problem.expecting("frame, equidistant fisheye or spherical")));
        }
    };
    Ok((ExportLens { model, size, unit: LensUnit::PixelFromMiddle, params }, dropped))
}
