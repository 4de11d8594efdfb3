//! `cameras.json` of the released 3DGS code (Kerbl et al. 2023, `camera_to_JSON`), which lies in its output folder.
//!
//! ```text
//! { img_name, width, height, position, rotation, fx, fy }   world_from_camera, rows; x right, y down, z forward
//! ```
//! The principal point is the middle; Gausset's own files add `cx` and `cy`. Names may lack their extension.

use std::sync::Arc;

use gausset_core::se3;
use serde::Deserialize;

use super::json::{self, Number, values};
use super::lens::{Distortion, ExportLens, LensUnit, perspective};
use super::{Export, ExportFrame, pose_from_centre};
use crate::file_problem::FileProblem;

#[derive(Deserialize)]
#[serde(expecting = "a camera with img_name, position and rotation")]
struct Camera {
    img_name: String,
    width: Number,
    height: Number,
    position: [Number; 3],
    rotation: [[Number; 3]; 3],
    fx: Number,
    fy: Number,
    cx: Option<Number>,
    cy: Option<Number>,
}

/// Parses a list of cameras.
///
/// # Errors
/// Another format.
pub fn parse(bytes: &[u8]) -> Result<Export, FileProblem> {
    let cameras: Vec<Camera> = json::parse(bytes)?;
    let mut found = Export::default();
    for camera in cameras {
        let lens = lens(&camera);
        let rotation = se3::transpose(&camera.rotation.map(values));
        let pose = pose_from_centre(rotation, values(camera.position)).map_err(|e| e.to_string());
        found.frames.push(ExportFrame { name: camera.img_name, pose, lens: Arc::new(lens) });
    }
    Ok(found)
}

fn lens(camera: &Camera) -> Result<ExportLens, String> {
    let size = json::size(camera.width, camera.height)?;
    let middle = size.map(|side| 0.5 * side as f64);
    let centre = [camera.cx.map_or(middle[0], |c| c.0), camera.cy.map_or(middle[1], |c| c.0)];
    let (model, params) = perspective([camera.fx.0, camera.fy.0], centre, Distortion::default())?;
    Ok(ExportLens { model, size: Some(size), unit: LensUnit::Pixel, params })
}
