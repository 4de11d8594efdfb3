//! Cameras that other programs export: one parser per program, one plain result.
//!
//! ```text
//! metashape  realitycapture  opensfm  openmvg  bundler  polycam  inria  llff     parse: text or bytes ─▶ Export
//! find       recognises the files of a folder                                    lens: conversion to COLMAP's models
//! open       turns an Export into a Dataset
//! ```
//! Poses become `camera_from_world` with x right, y down, z forward, in f64 and in the program's own world. Lenses are
//! converted exactly; a lens that no COLMAP model expresses costs its images, with a line that says what to do.

pub mod bundler;
mod find;
pub mod inria;
mod json;
pub mod lens;
pub mod llff;
pub mod metashape;
mod open;
pub mod openmvg;
pub mod opensfm;
pub mod polycam;
pub mod realitycapture;

use std::borrow::Cow;
use std::sync::Arc;

use gausset_core::Pose;
use gausset_core::pose::PoseError;
use gausset_core::se3::{self, Mat3};

pub use super::any_json::ValueProblem;
use super::{DatasetKind, Point};
use crate::file_problem::FileProblem;
pub use find::recognise;
pub(super) use find::{ExportSource, find_in, has_frames, why_not_read, why_not_read_in};
pub use lens::{ExportLens, LensUnit};
pub(super) use open::{of_file, open};

/// Why an image has no pose or no lens.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Its file, or a place in the file of all images, cannot be read.
    #[error(transparent)]
    File(#[from] FileProblem),
    /// The pose is not a rigid transform.
    #[error(transparent)]
    Pose(#[from] PoseError),
    /// A value is missing or cannot be used.
    #[error(transparent)]
    Value(#[from] ValueProblem),
    /// A value of the lens is missing or cannot be used, and another export may help.
    #[error("{lens}{problem}; {remedy}")]
    Lens {
        /// Program and name of the lens, `PROGRAM's camera NAME: `; empty if the value is named with them.
        lens: String,
        /// What is wrong with it.
        problem: ValueProblem,
        /// What to do.
        remedy: &'static str,
    },
}

impl ExportError {
    fn lens(lens: impl Into<String>, problem: ValueProblem, remedy: &'static str) -> Self {
        Self::Lens { lens: lens.into(), problem, remedy }
    }
}

/// The lens of an image, or why it has none. Images of one camera share it.
pub type SharedLens = Arc<Result<ExportLens, ExportError>>;

/// Cameras and poses of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Export {
    /// Images with a pose, in the order of the file.
    pub frames: Vec<ExportFrame>,
    /// Names of the images that the program left without a pose.
    pub unregistered: Vec<String>,
    /// Points, in the order of the file.
    pub points: Vec<Point>,
    /// Number of points left out because they are not finite.
    pub dropped_points: usize,
    /// Lenses of which negligible terms were left out, as text.
    pub approximations: Vec<String>,
    /// Number of reconstructions in the file and index of the one that was read, if there are several.
    pub chosen: Option<(usize, usize)>,
}

/// An image with its pose and lens.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportFrame {
    /// Name as in the file; may lack its extension or contain folders of another machine.
    pub name: String,
    /// `camera_from_world`, or what is wrong with it.
    pub pose: Result<Pose, ExportError>,
    /// Its lens.
    pub lens: SharedLens,
}

impl Export {
    /// Adds a point, 0..=255 per channel, if it is finite.
    fn add_point(&mut self, position: [f64; 3], colour: [f64; 3]) {
        if position.iter().all(|v| v.is_finite()) {
            let colour = colour.map(|c| c.round().clamp(0.0, 255.0) as u8);
            self.points.push(Point { position, colour, error: f64::NAN, track_length: 0 });
        } else {
            self.dropped_points += 1;
        }
    }
}

/// Colour of points without one.
const GREY: [f64; 3] = [128.0; 3];

impl DatasetKind {
    /// Name of the program, for messages.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Colmap => "COLMAP",
            Self::Nerfstudio => "Nerfstudio",
            Self::InstantNgp => "instant-ngp",
            Self::Blender => "Blender",
            Self::Metashape => "Metashape",
            Self::RealityCapture => "RealityCapture",
            Self::OpenSfm => "OpenSfM",
            Self::OpenMvg => "OpenMVG",
            Self::Bundler => "Bundler",
            Self::Polycam => "Polycam",
            Self::Inria => "3DGS",
            Self::Llff => "LLFF",
        }
    }
}

/// Pose from the rotation (`camera_from_world`) and the camera's centre.
///
/// # Errors
/// A value is not finite, or the matrix is not a rotation.
pub fn pose_from_centre(rotation: Mat3, centre: [f64; 3]) -> Result<Pose, PoseError> {
    // `from_matrix` orthonormalises the rotation slightly; the centre must stay as written.
    let rotation = Pose::from_matrix(rotation, centre)?.rotation;
    let back = se3::mul_vec(&rotation, centre);
    Ok(Pose { rotation, translation: back.map(|v| -v) })
}

/// Pose from `world_from_camera` in OpenGL axes (x right, y up, z backwards) and the camera's centre.
fn pose_from_opengl(world_from_camera: Mat3, centre: [f64; 3]) -> Result<Pose, PoseError> {
    // Columns y and z change sign from OpenGL's axes to OpenCV's.
    let columns = world_from_camera.map(|row| [row[0], -row[1], -row[2]]);
    pose_from_centre(se3::transpose(&columns), centre)
}

/// Parses exactly `N` finite numbers separated by white space.
pub fn parse_numbers<const N: usize>(text: &str) -> Option<[f64; N]> {
    let mut out = [0.0; N];
    let mut fields = text.split_ascii_whitespace();
    for slot in &mut out {
        *slot = fields.next()?.parse().ok().filter(|v: &f64| v.is_finite())?;
    }
    fields.next().is_none().then_some(out)
}

/// The text of a file: UTF-8 or, as its byte order mark tells, UTF-16. Bytes that are not text become U+FFFD.
fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).filter_map(|pair| Some(unit(pair.try_into().ok()?)));
        Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(bytes),
    }
}
