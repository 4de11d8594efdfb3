//! COLMAP models: `cameras`, `images` and `points3D`, binary or text.
//!
//! Readers keep what training needs. Observations (2-D points and tracks) can be as large as everything else together
//! and are kept only on request ([`Observations`]). Formats: `colmap/scene/reconstruction_io_binary.cc` and
//! `…_text.cc`.

pub mod binary;
pub mod frames;
pub mod rigs;
pub mod text;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};

use gausset_core::Pose;

use super::camera_model::SourceCamera;
use super::error::{DatasetError, DatasetProblem};
use super::paths::file_in;
use crate::input;
use crate::text::{LFS_POINTER_START, is_lfs_pointer};

/// Point id in binary files that means "no 3-D point".
pub const NO_POINT: u64 = u64::MAX;

/// Whether a reader keeps 2-D points and tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observations {
    /// Count and discard them.
    #[default]
    Skip,
    /// Keep them, for tracks and reprojection errors.
    Keep,
}

/// A sparse reconstruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColmapModel {
    /// Cameras, sorted by id.
    pub cameras: Vec<SourceCamera>,
    /// Images with a pose, sorted by id.
    pub images: Vec<ColmapImage>,
    /// Points, sorted by id.
    pub points: Vec<ColmapPoint>,
}

/// An image record as in the file; the pose is not validated here.
#[derive(Clone, Debug, PartialEq)]
pub struct ColmapImage {
    /// Id of the image, unique in its model.
    pub id: u32,
    /// Rotation `camera_from_world` as a quaternion `wxyz`.
    pub quaternion: [f64; 4],
    /// Translation of `camera_from_world`, scene units.
    pub translation: [f64; 3],
    /// Id of its camera in the camera file.
    pub camera_id: u32,
    /// Path relative to the image folder.
    pub name: String,
    /// Number of 2-D points in the file; [`Self::points`] holds them if they were kept.
    pub point_count: u64,
    /// 2-D points: x, y in px from the top-left corner and the id of the 3-D point ([`NO_POINT`] = none).
    pub points: Vec<([f64; 2], u64)>,
}

impl ColmapImage {
    /// Creates an image record without 2-D points.
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColmapPoint {
    /// Id of the point, unique in its model.
    pub id: u64,
    /// Position in world space, scene units.
    pub position: [f64; 3],
    /// Colour, 0..=255 per channel.
    pub colour: [u8; 3],
    /// Mean reprojection error in px.
    pub error: f64,
    /// Number of observations in the file; [`Self::track`] holds them if they were kept.
    pub track_length: u64,
    /// Observations: image id and index of the 2-D point.
    pub track: Vec<[u32; 2]>,
}

/// Items that a reader of points yields, one at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum PointItem {
    /// Number of points that follow; the file is long enough to hold them. Text files do not provide it.
    Expected(u64),
    /// A point with its observations, if they are kept.
    Point(ColmapPoint),
}

/// Encoding of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// `cameras.bin`, `images.bin`, `points3D.bin`.
    Binary,
    /// `cameras.txt`, `images.txt`, `points3D.txt`, in any case.
    Text,
}

/// The files of a model in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFolder {
    /// The folder that contains the files.
    pub path: PathBuf,
    /// Encoding; binary is preferred if both are complete.
    pub format: ModelFormat,
}

impl ModelFormat {
    /// Names of the camera, image and point files.
    #[must_use]
    pub const fn file_names(self) -> [&'static str; 3] {
        match self {
            Self::Binary => ["cameras.bin", "images.bin", "points3D.bin"],
            Self::Text => ["cameras.txt", "images.txt", "points3D.txt"],
        }
    }
}

impl ModelFolder {
    /// The model in a folder, if any.
    ///
    /// # Errors
    /// The camera file or the image file of the model is missing.
    pub fn find(path: &Path) -> Result<Option<Self>, DatasetError> {
        let mut half = None;
        for format in [ModelFormat::Binary, ModelFormat::Text] {
            let [cameras, images, _] = format.file_names();
            // Pipes and folders with these names fail when they are opened.
            match (file_in(path, cameras).exists(), file_in(path, images).exists()) {
                (true, true) => return Ok(Some(Self { path: path.to_owned(), format })),
                (true, false) => half = half.or(Some((images, cameras))),
                (false, true) => half = half.or(Some((cameras, images))),
                (false, false) => {}
            }
        }
        match half {
            Some((file, beside)) => {
                Err(DatasetError::MissingModelFile { folder: path.to_owned(), file, beside })
            }
            None => Ok(None),
        }
    }

    /// The model as text in the same folder, beside a binary one.
    #[must_use]
    pub fn text_beside(&self) -> Option<Self> {
        let text = Self { path: self.path.clone(), format: ModelFormat::Text };
        let is_whole = || text.cameras_path().exists() && text.images_path().exists();
        (self.format == ModelFormat::Binary && is_whole()).then_some(text)
    }

    /// That a file of the model is empty, as an interrupted export or a full disk leaves it.
    pub(super) fn empty_file(&self) -> Option<DatasetError> {
        let paths = [self.cameras_path(), self.images_path(), self.points_path()];
        let is_empty = |path: &PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.len() == 0);
        let path = paths.into_iter().find(is_empty)?;
        Some(DatasetError::malformed(&path, "content", DatasetProblem::Truncated { needed: 8, left: 0 }))
    }

    /// Path of the camera file.
    #[must_use]
    pub fn cameras_path(&self) -> PathBuf {
        file_in(&self.path, self.format.file_names()[0])
    }

    /// Path of the image file.
    #[must_use]
    pub fn images_path(&self) -> PathBuf {
        file_in(&self.path, self.format.file_names()[1])
    }

    /// Path of the point file, which may be absent.
    #[must_use]
    pub fn points_path(&self) -> PathBuf {
        file_in(&self.path, self.format.file_names()[2])
    }

    /// Reads the cameras.
    ///
    /// # Errors
    /// The file cannot be read or contains invalid data.
    pub fn cameras(&self) -> Result<Vec<SourceCamera>, DatasetError> {
        let path = self.cameras_path();
        let file = open_regular(&path)?;
        match self.format {
            ModelFormat::Binary => binary::read_cameras(&path, file),
            ModelFormat::Text => text::read_cameras(&path, file),
        }
    }

    /// Reads the images.
    ///
    /// # Errors
    /// As [`Self::cameras`].
    pub fn images(
        &self,
        cameras: &[SourceCamera],
        observations: Observations,
    ) -> Result<Vec<ColmapImage>, DatasetError> {
        let path = self.images_path();
        let file = open_regular(&path)?;
        match self.format {
            ModelFormat::Binary => binary::read_images(&path, file, cameras, observations),
            ModelFormat::Text => text::read_images(&path, file, cameras, observations),
        }
    }

    /// Reads the points, sorted by id; empty if there is no point file.
    ///
    /// # Errors
    /// As [`Self::cameras`].
    pub fn points(&self, observations: Observations) -> Result<Vec<ColmapPoint>, DatasetError> {
        collect_points(|take| self.for_each_point(observations, take))
    }

    /// Reads the points and passes each to `take`, in file order. Does nothing if there is no point file.
    ///
    /// # Errors
    /// As [`Self::cameras`], or `take` fails.
    pub fn for_each_point(
        &self,
        observations: Observations,
        take: &mut dyn FnMut(PointItem) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        let path = self.points_path();
        if !path.exists() {
            return Ok(());
        }
        let file = open_regular(&path)?;
        match self.format {
            ModelFormat::Binary => binary::for_each_point(&path, file, observations, take),
            ModelFormat::Text => text::for_each_point(&path, file, observations, take),
        }
    }

    /// Frame id of each image id, for models with rigs; empty if there is no frame file.
    ///
    /// # Errors
    /// As [`Self::cameras`].
    pub fn frames(&self) -> Result<BTreeMap<u32, u32>, DatasetError> {
        let name = match self.format {
            ModelFormat::Binary => "frames.bin",
            ModelFormat::Text => "frames.txt",
        };
        let path = file_in(&self.path, name);
        if !path.exists() {
            return Ok(BTreeMap::new());
        }
        let file = open_regular(&path)?;
        match self.format {
            ModelFormat::Binary => frames::read_binary(&path, file),
            ModelFormat::Text => frames::read_text(&path, file),
        }
    }

    /// Reads the whole model.
    ///
    /// # Errors
    /// As [`Self::cameras`].
    pub fn read(&self, observations: Observations) -> Result<ColmapModel, DatasetError> {
        let cameras = self.cameras()?;
        let images = self.images(&cameras, observations)?;
        let points = self.points(observations)?;
        Ok(ColmapModel { cameras, images, points })
    }
}

impl ColmapModel {
    /// Names and contents of the model files. Records keep the order of the vectors, which should be sorted by id.
    ///
    /// Writes the 2-D points and tracks that are held; the counts are ignored.
    #[must_use]
    pub fn to_files(&self, format: ModelFormat) -> [(&'static str, Vec<u8>); 3] {
        let contents = match format {
            ModelFormat::Binary => binary::encode(self),
            ModelFormat::Text => text::encode(self),
        };
        let [a, b, c] = format.file_names();
        let [x, y, z] = contents;
        [(a, x), (b, y), (c, z)]
    }
}

/// Opens a regular file for streaming. A Git LFS pointer is refused.
pub(crate) fn open_regular(path: &Path) -> Result<File, DatasetError> {
    let io = |e: std::io::Error| DatasetError::io(path, "open", &e);
    let mut file = input::open(path, input::NO_LIMIT).map_err(io)?;
    let mut start = Vec::new();
    (&mut file).take(LFS_POINTER_START).read_to_end(&mut start).map_err(io)?;
    if is_lfs_pointer(&start) {
        return Err(DatasetError::malformed(path, "content", DatasetProblem::LfsPointer));
    }
    file.rewind().map_err(io)?;
    Ok(file)
}

/// Collects all points of a reader, sorted by id.
fn collect_points(
    read: impl FnOnce(&mut dyn FnMut(PointItem) -> Result<(), DatasetError>) -> Result<(), DatasetError>,
) -> Result<Vec<ColmapPoint>, DatasetError> {
    let mut points: Vec<ColmapPoint> = Vec::new();
    read(&mut |next| {
        match next {
            // The file is long enough to hold them, so the capacity is at most twice its length.
            PointItem::Expected(count) => points.reserve_exact(usize::try_from(count).unwrap_or(0)),
            PointItem::Point(point) => points.push(point),
        }
        Ok(())
    })?;
    points.sort_by_key(|point| point.id);
    Ok(points)
}

fn sort_cameras(path: &Path, cameras: &mut [SourceCamera]) -> Result<(), DatasetError> {
    cameras.sort_by_key(|c| c.id);
    check_unique_ids(path, "camera", cameras.iter().map(|c| c.id))
}

fn sort_images(path: &Path, images: &mut [ColmapImage]) -> Result<(), DatasetError> {
    images.sort_by_key(|i| i.id);
    check_unique_ids(path, "image", images.iter().map(|i| i.id))
}

fn check_unique_ids(
    path: &Path,
    what: &'static str,
    sorted: impl Iterator<Item = u32>,
) -> Result<(), DatasetError> {
    let mut last = None;
    for id in sorted {
        if last == Some(id) {
            let problem = DatasetProblem::DuplicateId { what, id: u64::from(id) };
            return Err(DatasetError::malformed(path, "records", problem));
        }
        last = Some(id);
    }
    Ok(())
}

fn check_camera(sorted: &[SourceCamera], id: u32, file: &'static str) -> Result<(), DatasetProblem> {
    if sorted.binary_search_by_key(&id, |c| c.id).is_ok() {
        return Ok(());
    }
    let known = match sorted {
        [] => "none".to_owned(),
        [one] => one.id.to_string(),
        [first, .., last] => format!("{}..{}", first.id, last.id),
    };
    Err(DatasetProblem::UnknownCamera { id, file, known })
}
