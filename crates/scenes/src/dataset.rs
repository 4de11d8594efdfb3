//! A scene as an ordinary dataset: `images/*.png`, or `*.jpg` with EXIF if positions are known, and a COLMAP model in
//! `sparse/0`.

use std::path::{Path, PathBuf};

use gausset_compute::{Pool, fearless_simd::Level};
use gausset_core::RgbImage8;
use gausset_io::atomic::{Disk, FileSystem, WriteError, write_atomic};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint, ModelFormat};
use gausset_io::dataset::{CameraModel, SourceCamera};
use gausset_io::image::encode;
use gausset_jpeg::{colour::ycbcr_from_rgb, encode_image};

use crate::ProceduralScene;
use crate::points::SparsePoint;
use crate::town::geotag;

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
        let path = images.join(picture_name(scene, index));
        let bytes = match scene.geotags.get(index) {
            Some(&position) => jpeg(&picture, geotag::segment(position)),
            None => encode::png_rgb8(&picture)
                .map_err(|e| SceneError::Encode { path: path.clone(), reason: e.to_string() })?,
        };
        write(&path, &bytes)?;
        progress(index + 1, count);
    }
    let points = scene.sparse_points(pool);
    for (name, bytes) in colmap_model(scene, &points).to_files(ModelFormat::Binary) {
        write(&model.join(name), &bytes)?;
    }
    Ok(())
}

/// Name of an image; all names of a scene are equally long, so that they sort by number.
fn picture_name(scene: &ProceduralScene, index: usize) -> String {
    let digits = (scene.poses.len().saturating_sub(1)).to_string().len().max(3);
    let ending = if scene.geotags.is_empty() { "png" } else { "jpg" };
    format!("view_{index:0digits$}.{ending}")
}

/// Quality of JPEG files, as of a camera's best setting.
const JPEG_QUALITY: u8 = 95;

/// Encodes an image as a 4:2:0 JPEG file with a marker segment.
fn jpeg(picture: &RgbImage8, segment: Vec<u8>) -> Vec<u8> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (chroma_width, chroma_height) = (width.div_ceil(2), height.div_ceil(2));
    let at = |x: usize, y: usize| {
        let at = 3 * (y.min(height - 1) * width + x.min(width - 1));
        ycbcr_from_rgb([picture.data[at], picture.data[at + 1], picture.data[at + 2]])
    };
    let luma = (0..width * height).map(|i| at(i % width, i / width)[0]).collect();
    let chroma = |channel: usize| -> Vec<u8> {
        let mean = |i: usize| {
            let (x, y) = (2 * (i % chroma_width), 2 * (i / chroma_width));
            let four = [at(x, y), at(x + 1, y), at(x, y + 1), at(x + 1, y + 1)];
            ((four.iter().map(|c| u32::from(c[channel])).sum::<u32>() + 2) / 4) as u8
        };
        (0..chroma_width * chroma_height).map(mean).collect()
    };
    let planes = [luma, chroma(1), chroma(2)];
    // The same bytes at every level.
    encode_image([width, height], &planes, JPEG_QUALITY, Level::baseline(), &[segment])
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
    let image = |(index, pose)| ColmapImage::new(index as u32 + 1, picture_name(scene, index), 1, pose);
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
