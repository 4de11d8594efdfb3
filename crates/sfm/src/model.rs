//! A model that COLMAP made: read, checked, chosen, scaled, written with its rigs and frames.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::Pose;
use gausset_core::pose::PoseError;
use gausset_io::atomic::{Disk, FileSystem, WriteError, write_atomic};
use gausset_io::dataset::DatasetError;
use gausset_io::dataset::colmap::rigs::{RigFrame, RigModel};
use gausset_io::dataset::colmap::{ColmapModel, ModelFolder, ModelFormat, Observations};

use crate::compare::Similarity;

/// Pictures that were taken in one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameImages {
    /// Name of the moment.
    pub name: String,
    /// Names of its pictures, relative to the picture folder.
    pub images: Vec<String>,
}

/// A checked model.
#[derive(Clone, Debug)]
pub struct Model {
    /// What COLMAP wrote.
    pub colmap: ColmapModel,
    /// Which frames have a pose, by index into the job's list, and the image (index into the model) that tells it.
    pub frames: BTreeMap<usize, usize>,
}

/// Why a model cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// It cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// There is none in the folder.
    #[error("{}: model: holds none", .0.display())]
    None(PathBuf),
    /// It has a picture that was not to be aligned.
    #[error("{}: images: {name:?} is none of the pictures", folder.display())]
    Foreign {
        /// Of the model.
        folder: PathBuf,
        /// Of the picture.
        name: String,
    },
    /// A pose is no rotation and translation.
    #[error("{}: images: {name:?}: {problem}", folder.display())]
    Pose {
        /// Of the model.
        folder: PathBuf,
        /// Of the picture.
        name: String,
        /// What is wrong with it.
        problem: PoseError,
    },
    /// A point is nowhere.
    #[error("{}: points: a position is not finite", .0.display())]
    Point(PathBuf),
}

impl Model {
    /// Reads and checks the model in a folder.
    ///
    /// # Errors
    /// No model, one that cannot be read, or one of other pictures.
    pub fn read(folder: &Path, frames: &[FrameImages]) -> Result<Self, ModelError> {
        let found = ModelFolder::find(folder)?.ok_or_else(|| ModelError::None(folder.to_owned()))?;
        let colmap = found.read(Observations::Keep)?;
        let owner: BTreeMap<&str, usize> = frames
            .iter()
            .enumerate()
            .flat_map(|(index, frame)| frame.images.iter().map(move |name| (name.as_str(), index)))
            .collect();
        let mut of_frame = BTreeMap::new();
        for (at, image) in colmap.images.iter().enumerate() {
            let place = || (folder.to_owned(), image.name.clone());
            let Some(&frame) = owner.get(image.name.as_str()) else {
                let (folder, name) = place();
                return Err(ModelError::Foreign { folder, name });
            };
            Pose::from_quaternion(image.quaternion, image.translation).map_err(|problem| {
                let (folder, name) = place();
                ModelError::Pose { folder, name, problem }
            })?;
            of_frame.entry(frame).or_insert(at);
        }
        if !colmap.points.iter().all(|p| p.position.iter().all(|v| v.is_finite())) {
            return Err(ModelError::Point(folder.to_owned()));
        }
        Ok(Self { colmap, frames: of_frame })
    }

    /// The best of the models in the sub-folders 0, 1, …: most frames, then most points.
    ///
    /// # Errors
    /// A model cannot be read. `None` when there is no model.
    pub fn best(folder: &Path, frames: &[FrameImages]) -> Result<Option<Self>, ModelError> {
        let mut best: Option<Self> = None;
        let names = match Disk.list(folder) {
            Ok(names) => names,
            Err(_) => return Ok(None),
        };
        let mut numbers: Vec<u32> = names.iter().filter_map(|n| n.to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        for number in numbers {
            let model = Self::read(&folder.join(number.to_string()), frames)?;
            let worth = |m: &Self| (m.frames.len(), m.colmap.points.len());
            if best.as_ref().is_none_or(|b| worth(&model) > worth(b)) {
                best = Some(model);
            }
        }
        Ok(best.filter(|b| !b.frames.is_empty()))
    }

    /// `camera_from_world` of an image of the model.
    #[must_use]
    pub fn pose(&self, image: usize) -> Pose {
        let image = &self.colmap.images[image];
        // Checked when it was read.
        Pose::from_quaternion(image.quaternion, image.translation).unwrap_or(Pose::IDENTITY)
    }

    /// Mean of the points' reprojection errors, px, as COLMAP reports it.
    #[must_use]
    pub fn mean_reprojection(&self) -> f64 {
        let errors: Vec<f64> =
            self.colmap.points.iter().map(|p| p.error).filter(|e| e.is_finite() && *e >= 0.0).collect();
        // The sum of none is -0.
        errors.iter().fold(0.0, |sum, e| sum + e) / errors.len().max(1) as f64
    }

    /// Mean number of pictures that see a point.
    #[must_use]
    pub fn track_length(&self) -> f64 {
        let sum: u64 = self.colmap.points.iter().map(|p| p.track_length).sum();
        sum as f64 / self.colmap.points.len().max(1) as f64
    }

    /// Makes the model `scale` times as large.
    pub fn scale(&mut self, scale: f64) {
        for image in &mut self.colmap.images {
            image.translation = image.translation.map(|v| v * scale);
        }
        for point in &mut self.colmap.points {
            point.position = point.position.map(|v| v * scale);
        }
    }

    /// Brings the model to another world.
    pub fn transform(&mut self, similarity: &Similarity) {
        for at in 0..self.colmap.images.len() {
            let pose = similarity.pose(&self.pose(at));
            let image = &mut self.colmap.images[at];
            (image.quaternion, image.translation) = (pose.quaternion(), pose.translation);
        }
        for point in &mut self.colmap.points {
            point.position = similarity.apply(point.position);
        }
    }

    /// Writes the model to a folder: cameras, images, points, and rigs and frames where pictures share a moment.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn write(&self, folder: &Path, frames: &[FrameImages]) -> Result<(), WriteError> {
        Disk.create_folder(folder).map_err(|source| WriteError::Io {
            path: folder.to_owned(),
            action: "folder",
            source,
        })?;
        let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        // Frames before images: a reader that finds images finds the rest, too.
        if frames.iter().any(|frame| frame.images.len() > 1) {
            let rigs = self.rig(frames).to_files(ModelFormat::Binary);
            files.extend(rigs.into_iter().map(|(name, bytes)| (folder.join(name), bytes)));
        }
        for (name, bytes) in self.colmap.to_files(ModelFormat::Binary) {
            files.push((folder.join(name), bytes));
        }
        for (path, bytes) in files {
            write_atomic(&Disk, &path, |file| file.write_all(&bytes))?;
        }
        Ok(())
    }

    /// The rig and its moments. The camera of the first picture of a frame is the reference.
    fn rig(&self, frames: &[FrameImages]) -> RigModel {
        let by_name: BTreeMap<&str, usize> =
            self.colmap.images.iter().enumerate().map(|(at, image)| (image.name.as_str(), at)).collect();
        let in_model = |index: &usize| -> Vec<usize> {
            frames[*index].images.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect()
        };
        let groups: Vec<Vec<usize>> = self.frames.keys().map(in_model).collect();
        // Sensors are the cameras of the fullest frame; poses between them are the same in all.
        let fullest = groups.iter().max_by_key(|g| g.len()).cloned().unwrap_or_default();
        let camera_of = |image: usize| self.colmap.images[image].camera_id;
        let reference = fullest.first().map_or(Pose::IDENTITY, |&image| self.pose(image));
        let cam_from_rig = |image: usize| {
            let mut pose = self.pose(image).compose(&reference.inverse());
            // One centre: what is left is rounding.
            pose.translation = [0.0; 3];
            pose
        };
        let sensors: Vec<(u32, Pose)> =
            fullest.iter().map(|&image| (camera_of(image), cam_from_rig(image))).collect();
        let moment = |group: &Vec<usize>| {
            let first = group.first().copied().unwrap_or(0);
            // A frame without the reference picture has its pose from the one it has.
            let own = sensors.iter().find(|(camera, _)| *camera == camera_of(first)).map(|(_, pose)| *pose);
            RigFrame {
                rig_from_world: own.unwrap_or(Pose::IDENTITY).inverse().compose(&self.pose(first)),
                images: group.iter().map(|&i| (camera_of(i), self.colmap.images[i].id)).collect(),
            }
        };
        RigModel { frames: groups.iter().map(moment).collect(), sensors }
    }
}
