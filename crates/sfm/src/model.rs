//! A model made by COLMAP: read, checked, selected, scaled, and written with its rigs and frames.

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

/// Images that were taken at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameImages {
    /// Name of the frame.
    pub name: String,
    /// Names of its images, relative to the image folder.
    pub images: Vec<String>,
}

/// A checked model.
#[derive(Clone, Debug, Default)]
pub struct CheckedModel {
    /// Contents of the model's files.
    pub colmap: ColmapModel,
    /// Registered frames: index into the job's list → index of the image of the model that gives the frame's pose.
    pub image_of_frame: BTreeMap<usize, usize>,
}

/// Why a model cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A file cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The folder holds no model.
    #[error("{}: model: none found", .0.display())]
    NotFound(PathBuf),
    /// The model has an image that is not part of the job.
    #[error("{}: images: {name:?} is not one of the images of this alignment", folder.display())]
    UnknownImage {
        /// Folder of the model.
        folder: PathBuf,
        /// Name of the image.
        name: String,
    },
    /// A pose is not a rotation and translation.
    #[error("{}: images: {name:?}: {problem}", folder.display())]
    Pose {
        /// Folder of the model.
        folder: PathBuf,
        /// Name of the image.
        name: String,
        /// The problem.
        problem: PoseError,
    },
    /// The position of a point is not finite.
    #[error("{}: points: a position is not finite", .0.display())]
    Point(PathBuf),
}

impl CheckedModel {
    /// Reads and checks the model in a folder.
    ///
    /// # Errors
    /// There is no model, it cannot be read, or it is a model of other images.
    pub fn read(folder: &Path, frames: &[FrameImages]) -> Result<Self, ModelError> {
        let found = ModelFolder::find(folder)?.ok_or_else(|| ModelError::NotFound(folder.to_owned()))?;
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
                return Err(ModelError::UnknownImage { folder, name });
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
        Ok(Self { colmap, image_of_frame: of_frame })
    }

    /// Returns the best of the models in the sub-folders 0, 1, …: most frames, then most points. `None` if there is no
    /// model.
    ///
    /// # Errors
    /// A model cannot be read.
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
            let worth = |m: &Self| (m.image_of_frame.len(), m.colmap.points.len());
            if best.as_ref().is_none_or(|b| worth(&model) > worth(b)) {
                best = Some(model);
            }
        }
        Ok(best.filter(|b| !b.image_of_frame.is_empty()))
    }

    /// `camera_from_world` of an image of the model.
    #[must_use]
    pub fn pose(&self, image: usize) -> Pose {
        let image = &self.colmap.images[image];
        // `read` has checked it.
        Pose::from_quaternion(image.quaternion, image.translation).unwrap_or(Pose::IDENTITY)
    }

    /// Mean of the points' reprojection errors, px, as COLMAP reports it.
    #[must_use]
    pub fn mean_reprojection_error(&self) -> f64 {
        let errors: Vec<f64> =
            self.colmap.points.iter().map(|p| p.error).filter(|e| e.is_finite() && *e >= 0.0).collect();
        // The sum of an empty list is -0; the fold from 0.0 avoids it.
        errors.iter().fold(0.0, |sum, e| sum + e) / errors.len().max(1) as f64
    }

    /// Mean number of images that observe a point.
    #[must_use]
    pub fn mean_track_length(&self) -> f64 {
        let sum: u64 = self.colmap.points.iter().map(|p| p.track_length).sum();
        sum as f64 / self.colmap.points.len().max(1) as f64
    }

    /// Multiplies the size of the model by `scale`.
    pub fn scale(&mut self, scale: f64) {
        for image in &mut self.colmap.images {
            image.translation = image.translation.map(|v| v * scale);
        }
        for point in &mut self.colmap.points {
            point.position = point.position.map(|v| v * scale);
        }
    }

    /// Maps the model to another world by a similarity.
    pub fn transform(&mut self, similarity: &Similarity) {
        for at in 0..self.colmap.images.len() {
            let pose = similarity.apply_to_pose(&self.pose(at));
            let image = &mut self.colmap.images[at];
            (image.quaternion, image.translation) = (pose.quaternion(), pose.translation);
        }
        for point in &mut self.colmap.points {
            point.position = similarity.apply(point.position);
        }
    }

    /// Writes the model to a folder: cameras, images, points; rigs and frames if a frame has several images, else those
    /// of an earlier model are removed.
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
        // Frames before images: a reader that finds images also finds the rest.
        if frames.iter().any(|frame| frame.images.len() > 1) {
            let rigs = self.rig_model(frames).to_files(ModelFormat::Binary);
            files.extend(rigs.into_iter().map(|(name, bytes)| (folder.join(name), bytes)));
        } else {
            // From those of an earlier model, readers would take its poses.
            let old = ["frames.bin", "rigs.bin"].map(|name| folder.join(name));
            for path in old.into_iter().filter(|path| path.exists()) {
                Disk.remove(&path).map_err(|source| WriteError::Io { path, action: "remove", source })?;
            }
        }
        for (name, bytes) in self.colmap.to_files(ModelFormat::Binary) {
            files.push((folder.join(name), bytes));
        }
        for (path, bytes) in files {
            write_atomic(&Disk, &path, |file| file.write_all(&bytes))?;
        }
        Ok(())
    }

    /// The rig and its frames. The camera of the first image of a frame is the reference.
    fn rig_model(&self, frames: &[FrameImages]) -> RigModel {
        let by_name: BTreeMap<&str, usize> =
            self.colmap.images.iter().enumerate().map(|(at, image)| (image.name.as_str(), at)).collect();
        let in_model = |index: &usize| -> Vec<usize> {
            frames[*index].images.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect()
        };
        let groups: Vec<Vec<usize>> = self.image_of_frame.keys().map(in_model).collect();
        // Sensors are the cameras of the frame with the most images; their relative poses are the same in all frames.
        let fullest = groups.iter().max_by_key(|g| g.len()).cloned().unwrap_or_default();
        let camera_of = |image: usize| self.colmap.images[image].camera_id;
        let reference = fullest.first().map_or(Pose::IDENTITY, |&image| self.pose(image));
        let cam_from_rig = |image: usize| {
            let mut pose = self.pose(image).compose(&reference.inverse());
            // All sensors share one centre; the translation here is only rounding.
            pose.translation = [0.0; 3];
            pose
        };
        let sensors: Vec<(u32, Pose)> =
            fullest.iter().map(|&image| (camera_of(image), cam_from_rig(image))).collect();
        let moment = |group: &Vec<usize>| {
            let first = group.first().copied().unwrap_or(0);
            // A frame without the reference image gets its pose from its first image.
            let own = sensors.iter().find(|(camera, _)| *camera == camera_of(first)).map(|(_, pose)| *pose);
            RigFrame {
                rig_from_world: own.unwrap_or(Pose::IDENTITY).inverse().compose(&self.pose(first)),
                images: group.iter().map(|&i| (camera_of(i), self.colmap.images[i].id)).collect(),
            }
        };
        RigModel { frames: groups.iter().map(moment).collect(), sensors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rigs_of_an_earlier_model_stay_beside_photographs() {
        let folder = tempfile::tempdir().unwrap();
        let old = ["rigs.bin", "frames.bin"].map(|name| folder.path().join(name));
        old.iter().for_each(|path| std::fs::write(path, "of COLMAP").unwrap());
        let frame = FrameImages { name: "a.jpg".to_owned(), images: vec!["a.jpg".to_owned()] };
        CheckedModel::default().write(folder.path(), &[frame]).unwrap();
        assert!(folder.path().join("images.bin").is_file() && !old.iter().any(|path| path.exists()));
    }
}
