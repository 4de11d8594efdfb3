//! COLMAP models: `cameras`, `images` and `points3D`, binary or text.
//!
//! Reading keeps what training needs; observations (2-D points and tracks) can be as large as all the rest together and
//! are kept on request only ([`Observations`]). Layouts: `colmap/scene/reconstruction_io_binary.cc` and `…_text.cc`.

use gausset_core::Pose;

use super::camera_model::SourceCamera;

/// Id of "no 3-D point" in binary files.
pub const NO_POINT: u64 = u64::MAX;

/// Whether a reader keeps 2-D points and tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observations {
    /// Count them and throw them away.
    #[default]
    Skip,
    /// Keep them.
    Keep,
}

/// A sparse reconstruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColmapModel {
    /// Cameras, ascending by id.
    pub cameras: Vec<SourceCamera>,
    /// Images with a pose, ascending by id.
    pub images: Vec<ColmapImage>,
    /// Points, ascending by id.
    pub points: Vec<ColmapPoint>,
}

/// An image record, as written: the pose is not checked here.
#[derive(Clone, Debug, PartialEq)]
pub struct ColmapImage {
    /// Image id.
    pub id: u32,
    /// Rotation `camera_from_world` as a quaternion `wxyz`.
    pub quaternion: [f64; 4],
    /// Translation `camera_from_world`.
    pub translation: [f64; 3],
    /// Camera id.
    pub camera_id: u32,
    /// Path relative to the image folder.
    pub name: String,
    /// 2-D points in the file; [`Self::points`] holds them if they were kept.
    pub point_count: u64,
    /// 2-D points: x, y in px from the top-left corner and the id of the 3-D point ([`NO_POINT`] = none).
    pub points: Vec<([f64; 2], u64)>,
}

impl ColmapImage {
    /// An image record without 2-D points.
    #[must_use]
    pub fn new(id: u32, name: String, camera_id: u32, pose: &Pose) -> Self {
        Self {
            id,
            quaternion: pose.quaternion(),
            translation: pose.translation,
            camera_id,
            name,
            point_count: 0,
            points: Vec::new(),
        }
    }
}

/// A point record.
#[derive(Clone, Debug, PartialEq)]
pub struct ColmapPoint {
    /// Point id.
    pub id: u64,
    /// World position.
    pub position: [f64; 3],
    /// Colour.
    pub colour: [u8; 3],
    /// Mean reprojection error in px.
    pub error: f64,
    /// Observations in the file; [`Self::track`] holds them if they were kept.
    pub track_length: u64,
    /// Observations: image id and index of the 2-D point.
    pub track: Vec<[u32; 2]>,
}

/// Encoding of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// `cameras.bin`, `images.bin`, `points3D.bin`.
    Binary,
    /// `cameras.txt`, `images.txt`, `points3D.txt`.
    Text,
}

impl ColmapModel {
    /// The files of the model: names and contents, records ascending by id.
    #[must_use]
    pub fn to_files(&self, format: ModelFormat) -> [(&'static str, Vec<u8>); 3] {
        match format {
            ModelFormat::Binary => {
                [("cameras.bin", Vec::new()), ("images.bin", Vec::new()), ("points3D.bin", Vec::new())]
            }
            ModelFormat::Text => {
                [("cameras.txt", Vec::new()), ("images.txt", Vec::new()), ("points3D.txt", Vec::new())]
            }
        }
    }
}
