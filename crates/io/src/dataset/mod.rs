//! Datasets: photographs with cameras and poses, and optionally points.
//!
//! ```text
//! COLMAP model (binary | text) ─┐                       ┌─▶ init    initial splats
//!                               ├─▶ open ─▶ Dataset ────┤
//! transforms.json (3 dialects) ─┤                       └─▶ loader  training images
//! cameras of other programs ────┘
//! ```
//! [`open`] reads models and image *headers* only; [`Loader`] decodes, undistorts and downscales images. Problems of
//! single images are collected in [`Dataset::skipped`] and [`Dataset::warnings`]; a [`DatasetError`] makes the whole
//! dataset unusable.

mod any_json;
mod assemble;
mod calibration;
pub mod camera_model;
pub mod colmap;
pub mod error;
pub mod exports;
mod fingerprint;
pub mod georeference;
pub mod init;
pub mod lens;
mod limits;
pub mod loader;
mod locate;
mod masks;
mod normalisation;
mod open;
pub mod panorama;
mod paths;
mod points;
mod similar;
mod sizes;
mod source;
pub mod tracks;
mod training_image;
pub mod transforms;
pub mod warning;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::{Camera, Pose};

use self::colmap::ModelFolder;
pub use camera_model::{CameraModel, SourceCamera};
pub use error::{DatasetError, DatasetProblem};
pub use fingerprint::{Fingerprint, Sample};
pub use georeference::Georeference;
pub use loader::{Loader, LoaderOptions, LoaderStats};
pub use masks::{find_masks, mask_folder};
pub use normalisation::{NORMALISED_EXTENT, Normalisation};
pub use panorama::Face;
pub use sizes::{far_cameras, is_full_panorama, scene_extent_of as scene_extent};
pub use tracks::Tracks;
pub use warning::{OrientationUse, SkipReason, SkippedImage, Warning};

use crate::image::turn;
use crate::input_files::InputFiles;

/// Meaning of the alpha channel of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlphaMode {
    /// Composite image and render on the same background.
    #[default]
    Composite,
    /// Ignore pixels with alpha 0 and treat all others as opaque.
    Mask,
}

/// How panoramas are trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanoramaTraining {
    /// As the six faces of a cube, pinhole cameras of 90 degrees.
    #[default]
    Cube,
    /// As whole panoramas. Held-out ones are split into cube faces nevertheless, so that metrics are comparable.
    Sphere,
}

/// Options for opening a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOptions {
    /// Image folder instead of `images`, relative to the working folder.
    pub images: Option<PathBuf>,
    /// Mask folder instead of `masks`, `mask` or `segmentation`, relative to the working folder.
    pub masks: Option<PathBuf>,
    /// Whether masks are black where pixels are kept.
    pub invert_masks: bool,
    /// Folder of the COLMAP model instead of `sparse/0`, …, relative to the working folder.
    pub sparse: Option<PathBuf>,
    /// Longest side of a training image in px; for a panorama, the side of a cube face (a quarter of its width). 0 = as
    /// stored.
    pub max_resolution: u32,
    /// Holds out every n-th image, counted from the first; 0 = none. The dataset's own test list takes precedence.
    pub test_every: usize,
    /// Meaning of the alpha channel.
    pub alpha: AlphaMode,
    /// How panoramas are trained on.
    pub panoramas: PanoramaTraining,
    /// Whether names may point outside the image folder, by `..` or as absolute paths. Links are always followed.
    pub allow_outside: bool,
    /// Scene extent in scene units, instead of the computed one.
    pub scene_extent: Option<f64>,
    /// What to subtract from the coordinates of the source; `None` = as the distance from the origin needs it. A dataset
    /// that is opened again beside splats takes theirs.
    pub offset: Option<[f64; 3]>,
    /// Memory limit for points while they are read, bytes. More points are an error.
    pub memory_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            images: None,
            masks: None,
            invert_masks: false,
            sparse: None,
            max_resolution: 1600,
            test_every: 8,
            alpha: AlphaMode::Composite,
            panoramas: PanoramaTraining::Cube,
            allow_outside: false,
            scene_extent: None,
            offset: None,
            memory_bytes: u64::MAX,
        }
    }
}

/// Format of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatasetKind {
    /// A COLMAP model, binary or text.
    Colmap,
    /// `transforms.json` as Nerfstudio writes it.
    Nerfstudio,
    /// `transforms.json` as instant-ngp's scripts write it.
    InstantNgp,
    /// NeRF-synthetic: `camera_angle_x` only, in `transforms_train.json`, or with cameras around the origin and images
    /// with alpha.
    Blender,
    /// The cameras of Metashape, as XML.
    Metashape,
    /// The cameras of RealityCapture or RealityScan: a table or XMP sidecars.
    RealityCapture,
    /// `reconstruction.json` of OpenSfM or OpenDroneMap.
    OpenSfm,
    /// `sfm_data.json` of OpenMVG.
    OpenMvg,
    /// `bundle.out` of Bundler, with its list of pictures.
    Bundler,
    /// Raw data of Polycam.
    Polycam,
    /// `cameras.json` of the released 3DGS code.
    Inria,
    /// `poses_bounds.npy` of LLFF.
    Llff,
}

impl ImageEntry {
    /// Name of the stored image: for a cube face, without the name of the face.
    #[must_use]
    pub fn stored_name(&self) -> &str {
        match self.face {
            Some(face) => {
                self.name.strip_suffix(face.name()).map_or(&*self.name, |n| n.trim_end_matches('/'))
            }
            None => &self.name,
        }
    }
}

impl DatasetKind {
    /// Stable name, for messages and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Colmap => "colmap",
            Self::Nerfstudio => "nerfstudio",
            Self::InstantNgp => "instant-ngp",
            Self::Blender => "blender",
            Self::Metashape => "metashape",
            Self::RealityCapture => "realitycapture",
            Self::OpenSfm => "opensfm",
            Self::OpenMvg => "openmvg",
            Self::Bundler => "bundler",
            Self::Polycam => "polycam",
            Self::Inria => "3dgs",
            Self::Llff => "llff",
        }
    }
}

/// How the EXIF orientation of an image is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Not at all.
    None,
    /// Its camera is that of the upright picture: the stored pixels get this orientation, 2..=8, when they are decoded.
    Pixels(u8),
    /// Its camera is that of the stored pixels: training image, camera and pose are turned together. The orientation is
    /// 3, 6 or 8: no pose describes a mirrored camera.
    View(u8),
}

impl Turn {
    /// Pose of the turned view, from the pose of the source.
    pub(crate) fn view_pose(self, pose: Pose) -> Pose {
        match self {
            Self::View(orientation) => turn::upright_pose(pose, orientation),
            Self::None | Self::Pixels(_) => pose,
        }
    }

    /// Pose by the axes of the source camera, from the pose of the turned view.
    #[must_use]
    pub fn source_pose(self, pose: Pose) -> Pose {
        self.back().view_pose(pose)
    }

    /// Camera of the turned view.
    pub(crate) fn view_camera(self, camera: Camera) -> Camera {
        match self {
            Self::View(orientation) => turn::upright_camera(camera, orientation),
            Self::None | Self::Pixels(_) => camera,
        }
    }

    /// The opposite turn of the view.
    pub(crate) fn back(self) -> Self {
        match self {
            Self::View(6) => Self::View(8),
            Self::View(8) => Self::View(6),
            other => other,
        }
    }
}

/// An image with its camera and pose.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageEntry {
    /// Path relative to the image folder, with `/` as separator: the name in messages, masks and reports.
    pub name: Arc<str>,
    /// Path of the file.
    pub path: PathBuf,
    /// COLMAP image id, or index of the frame in `transforms.json`.
    pub id: u32,
    /// Frame of a camera rig: images of one frame share exposure and the error of the rig pose. `None` for single
    /// images.
    pub frame: Option<u32>,
    /// Index into [`Dataset::cameras`].
    pub source_camera: usize,
    /// Size of the stored image in px, after [`Turn::Pixels`].
    pub stored_size: [u32; 2],
    /// Whether the file stores an alpha channel, which may be opaque everywhere.
    pub has_alpha_channel: bool,
    /// How its EXIF orientation is applied.
    pub turn: Turn,
    /// Length of the file when the dataset was opened.
    pub file_bytes: u64,
    /// Upper bound on the bytes for decoding it with its mask, up to the training image.
    pub decode_bytes: u64,
    /// Sample of the file content when the dataset was opened.
    pub sample: Sample,
    /// Camera at training size, as [`Loader::get`] returns it. A pinhole, or a panorama ([`PanoramaTraining::Sphere`]).
    pub camera: Camera,
    /// `camera_from_world`; for a cube face, that of the face.
    pub pose: Pose,
    /// Mask file, if any.
    pub mask: Option<PathBuf>,
    /// Length and sample of the mask file.
    pub mask_content: Option<(u64, Sample)>,
    /// Face of a panorama that it is; its name is then that of the image, `/` and the name of the face.
    pub face: Option<Face>,
}

/// A point of the sparse reconstruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Position in world space, scene units.
    pub position: [f64; 3],
    /// Colour, 0..=255 per channel.
    pub colour: [u8; 3],
    /// Mean reprojection error in px; NaN if unknown.
    pub error: f64,
    /// Number of observations; 0 if unknown.
    pub track_length: u32,
}

/// Training and held-out images, as sorted indices into [`Dataset::images`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Images that are trained on.
    pub train: Vec<usize>,
    /// Images that are held out, for evaluation only.
    pub test: Vec<usize>,
}

/// Transform between the world of a `transforms.json` and the world that it was made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppliedTransform {
    /// `dataset_from_original`, rows of a 3x4 matrix (`applied_transform`).
    pub transform: [[f64; 4]; 3],
    /// Factor applied after it (`applied_scale`).
    pub scale: f64,
}

/// Photographs, cameras, points; see the module documentation.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The folder (or the folder of the JSON file) that was opened.
    pub root: PathBuf,
    /// The model folder or JSON file that was read.
    pub source: PathBuf,
    /// The COLMAP model that was read, if the source is one.
    pub model: Option<ModelFolder>,
    /// Folder to which image names are relative.
    pub images_folder: PathBuf,
    /// Format of the source.
    pub kind: DatasetKind,
    /// Cameras as the source describes them, sorted by id.
    pub cameras: Vec<SourceCamera>,
    /// Usable images, sorted by name (byte order).
    pub images: Vec<ImageEntry>,
    /// Finite points in the order of the source.
    pub points: Vec<Point>,
    /// Training and held-out images.
    pub split: Split,
    /// Default background for this kind of data: white for [`DatasetKind::Blender`], black otherwise.
    pub background: [f32; 3],
    /// Meaning of the alpha channel (from the options).
    pub alpha: AlphaMode,
    /// Whether masks are black where pixels are kept (from the options).
    pub invert_masks: bool,
    /// Scene extent in scene units: 1.1 x the largest distance of a training camera from the mean of all that are not far
    /// out ([`far_cameras`]), but at least the median distance of the points from that mean (docs/internals/training.md, "Start").
    pub scene_extent: f64,
    /// World transform recorded in a `transforms.json`, if any.
    pub applied_transform: Option<AppliedTransform>,
    /// Place of the world on the earth, if its model has one: coordinates are metres east, north and up.
    pub georeference: Option<Georeference>,
    /// What was subtracted from the coordinates of the source, in its world, because they are too far from the origin for
    /// 32-bit numbers; `None` = nothing.
    pub offset: Option<[f64; 3]>,
    /// Coordinates of poses, points and scene extent; those of the dataset when it is opened.
    pub normalisation: Normalisation,
    /// Warnings for the user, one line each.
    pub warnings: Vec<Warning>,
    /// Skipped images with reasons, sorted by name.
    pub skipped: Vec<SkippedImage>,
    /// Decides whether a run resumes with unchanged data.
    pub fingerprint: Fingerprint,
    /// Protects the files of the dataset from being overwritten while it is open.
    pub reading: Arc<InputFiles>,
}

/// Opens the dataset at `path`: a folder with a COLMAP model, `transforms*.json` or the cameras of another program
/// ([`exports`]), or such a file.
///
/// ```
/// use gausset_core::RgbImage8;
/// use gausset_io::dataset::{DatasetKind, OpenOptions, open};
/// use gausset_io::image::encode::png_rgb8;
///
/// let folder = tempfile::tempdir()?;
/// let frames = r#"{ "fl_x": 60, "frames": [{ "file_path": "a.png",
///     "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]] }] }"#;
/// std::fs::write(folder.path().join("transforms.json"), frames)?;
/// std::fs::write(folder.path().join("a.png"), png_rgb8(&RgbImage8::new(64, 48))?)?;
/// let dataset = open(folder.path(), &OpenOptions { test_every: 0, ..OpenOptions::default() })?;
/// assert_eq!((dataset.kind, dataset.split.train.as_slice()), (DatasetKind::Nerfstudio, [0].as_slice()));
/// assert_eq!(dataset.images[0].pose.centre(), [0.0, 0.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The model cannot be read, no image is usable, or more than a tenth of the images are unreadable.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Dataset, DatasetError> {
    open::open(path, options)
}

impl Dataset {
    /// The lens of an image at its stored size.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[must_use]
    pub fn lens(&self, index: usize) -> lens::Lens {
        let image = &self.images[index];
        let lens = sizes::lens_at(&self.cameras[image.source_camera], image.stored_size);
        match image.face {
            Some(face) => lens.rotated(face.panorama_from_face()),
            None => lens,
        }
    }

    /// Whether some images were skipped: the command succeeds with exit code 1.
    #[must_use]
    pub fn has_skipped(&self) -> bool {
        !self.skipped.is_empty()
    }

    /// Lines for the user: warnings, then skipped images, at most five of each kind.
    #[must_use]
    pub fn report_lines(&self) -> Vec<String> {
        const LINES_PER_KIND: usize = 5;
        let mut lines: Vec<String> = self.warnings.iter().map(ToString::to_string).collect();
        let has_warning =
            |s: &&SkippedImage| matches!(s.reason, SkipReason::Missing | SkipReason::SameFile { .. });
        let skipped: Vec<&SkippedImage> = self.skipped.iter().filter(|s| !has_warning(s)).collect();
        let mut kinds: Vec<(std::mem::Discriminant<SkipReason>, usize)> = Vec::new();
        for s in skipped {
            let kind = std::mem::discriminant(&s.reason);
            let count = match kinds.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    kinds.push((kind, 1));
                    1
                }
            };
            if count <= LINES_PER_KIND {
                lines.push(format!("{s}; skipped"));
            }
        }
        let more: usize = kinds.iter().map(|(_, count)| count.saturating_sub(LINES_PER_KIND)).sum();
        if more > 0 {
            lines.push(format!("… and {more} more skipped images"));
        }
        lines
    }
}
