//! A scene as an ordinary dataset: `images/*.png` and a COLMAP model in `sparse/0`.

use std::path::{Path, PathBuf};

use gausset_compute::Pool;
use gausset_io::atomic::{Disk, FileSystem, WriteError, write_atomic};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint, ModelFormat};
use gausset_io::dataset::{CameraModel, SourceCamera};
use gausset_io::image::encode;

use crate::ProceduralScene;
use crate::points::SparsePoint;

/// Errors of writing a dataset.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A folder could not be created.
    #[error("{}: folder: cannot be made: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An image could not be encoded.
    #[error("{}: picture: cannot be encoded: {reason}", path.display())]
    Encode {
        /// The file to write.
        path: PathBuf,
        /// Error of the encoder.
        reason: String,
    },
}

/// Renders all images of a scene and writes them with their cameras and points to a folder.
///
/// `progress` is called with the number of finished images and of all images. Existing files are replaced.
///
/// # Errors
/// A folder or file cannot be written; files written so far are kept.
pub fn write_dataset(
    scene: &ProceduralScene,
    folder: &Path,
    pool: &Pool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), SceneError> {
    let images = make_folder(folder.join("images"))?;
    let model = make_folder(folder.join("sparse").join("0"))?;
    let count = scene.poses.len();
    progress(0, count);
    for index in 0..count {
        let picture = scene.image(index, pool);
        let path = images.join(picture_name(index));
        let bytes = encode::png_rgb8(&picture)
            .map_err(|e| SceneError::Encode { path: path.clone(), reason: e.to_string() })?;
        write(&path, &bytes)?;
        progress(index + 1, count);
    }
    let points = scene.sparse_points(pool);
    for (name, bytes) in colmap_model(scene, &points).to_files(ModelFormat::Binary) {
        write(&model.join(name), &bytes)?;
    }
    Ok(())
}

fn picture_name(index: usize) -> String {
    format!("view_{index:03}.png")
}

fn make_folder(path: PathBuf) -> Result<PathBuf, SceneError> {
    match Disk.create_folder(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(SceneError::Folder { path, source }),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), SceneError> {
    Ok(write_atomic(&Disk, path, |file| std::io::Write::write_all(file, bytes))?)
}

/// A COLMAP model with one camera, all images and all points; ids count from 1.
fn colmap_model(scene: &ProceduralScene, points: &[SparsePoint]) -> ColmapModel {
    let camera = &scene.camera;
    let camera = SourceCamera {
        id: 1,
        model: CameraModel::Pinhole,
        width: camera.width,
        height: camera.height,
        params: vec![camera.fx, camera.fy, camera.cx, camera.cy],
    };
    let image = |(index, pose)| ColmapImage::new(index as u32 + 1, picture_name(index), 1, pose);
    let mut images: Vec<ColmapImage> = scene.poses.iter().enumerate().map(image).collect();
    let points = (1u64..).zip(points).map(|(id, point)| {
        let see = |seen: &crate::points::PointObservation| {
            let image = &mut images[seen.view];
            image.points.push((seen.pixel, id));
            image.point_count += 1;
            [image.id, image.point_count as u32 - 1]
        };
        let track: Vec<[u32; 2]> = point.track.iter().map(see).collect();
        ColmapPoint {
            id,
            position: point.position,
            colour: point.colour,
            error: point.error,
            track_length: track.len() as u64,
            track,
        }
    });
    let points = points.collect();
    ColmapModel { cameras: vec![camera], images, points }
}
