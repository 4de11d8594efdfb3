//! `cameras.json` of the released 3DGS code (Kerbl et al. 2023, `camera_to_JSON`), which lies in its output folder.
//!
//! ```text
//! { img_name, width, height, position, rotation, fx, fy }   world_from_camera, rows; x right, y down, z forward
//! ```
//! The principal point is the middle; Gausset's own files add `cx` and `cy`. Names may lack their extension.

use std::sync::Arc;

use gausset_core::se3::{self, Mat3};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::json::{self, Number};
use super::lens::{Distortion, ExportLens, LensUnit, perspective};
use super::{Export, ExportError, ExportFrame, ValueProblem, pose_from_centre};
use crate::dataset::any_json::{AnyNumbers, AnyText};
use crate::file_problem::FileProblem;

#[derive(Deserialize)]
#[serde(expecting = "a camera with img_name, position and rotation")]
struct Camera {
    img_name: Option<AnyText>,
    width: Number,
    height: Number,
    position: Option<AnyNumbers>,
    rotation: Option<AnyNumbers>,
    fx: Number,
    fy: Number,
    cx: Option<Number>,
    cy: Option<Number>,
}

/// What every camera should have: a file without any such camera is refused with the place of the first.
#[derive(Deserialize)]
#[serde(expecting = "a camera with img_name, position and rotation")]
#[allow(dead_code, reason = "only the error of the first camera is used")]
struct StrictCamera {
    img_name: String,
    position: [Number; 3],
    rotation: [[Number; 3]; 3],
}

/// Parses a list of cameras.
///
/// # Errors
/// Another format, or no camera has a pose.
pub fn parse(bytes: &[u8]) -> Result<Export, FileProblem> {
    let cameras: Vec<Camera> = list(bytes)?;
    let mut found = Export::default();
    let mut is_any_complete = cameras.is_empty();
    for (camera, index) in cameras.into_iter().zip(0..) {
        let lens = Arc::new(lens(&camera));
        let values = values(&camera);
        is_any_complete |= values.is_ok() && matches!(camera.img_name, Some(AnyText::Text(_)));
        let pose = values
            .map_err(ExportError::from)
            .and_then(|(rotation, centre)| Ok(pose_from_centre(se3::transpose(&rotation), centre)?));
        match camera.img_name {
            Some(AnyText::Text(name)) if !name.is_empty() => {
                found.frames.push(ExportFrame { name, pose, lens });
            }
            _ => found.unregistered.push(format!("camera {index}")),
        }
    }
    if !is_any_complete {
        list::<StrictCamera>(bytes)?;
    }
    Ok(found)
}

/// The cameras of a file: a list, or one under the key `cameras`.
fn list<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, FileProblem> {
    #[derive(Deserialize)]
    struct File<T> {
        cameras: Vec<T>,
    }
    if json::is_object(bytes) {
        json::parse(bytes).map(|file: File<T>| file.cameras)
    } else {
        json::parse(bytes)
    }
}

/// Rotation and position of a camera.
fn values(camera: &Camera) -> Result<(Mat3, [f64; 3]), ValueProblem> {
    let rotation = AnyNumbers::rotation(camera.rotation.as_ref(), "rotation")?;
    Ok((rotation, AnyNumbers::list(camera.position.as_ref(), "position")?))
}

fn lens(camera: &Camera) -> Result<ExportLens, ExportError> {
    let size = json::size(camera.width, camera.height)?;
    let middle = size.map(|side| 0.5 * side as f64);
    let centre = [camera.cx.map_or(middle[0], |c| c.0), camera.cy.map_or(middle[1], |c| c.0)];
    let (model, params) = perspective([camera.fx.0, camera.fy.0], centre, Distortion::default())?;
    Ok(ExportLens { model, size: Some(size), unit: LensUnit::Pixel, params })
}
