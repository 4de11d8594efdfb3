//! Datasets: photographs with cameras, poses and, if there are any, points.
//!
//! ```text
//! COLMAP model (binary | text) ─┐                       ┌─▶ init    initial splats
//!                               ├─▶ open ─▶ Dataset ────┤
//! transforms.json (3 dialects) ─┘                       └─▶ loader  pictures as the trainer sees them
//! ```
//! [`open`] reads models and picture *headers* only; pictures are decoded, undistorted and downscaled by
//! [`Loader`]. What is wrong with single pictures is collected in [`Dataset::skipped`] and [`Dataset::warnings`];
//! what makes the whole unusable is a [`DatasetError`].

mod assemble;
pub mod camera_model;
pub mod colmap;
pub mod error;
mod fingerprint;
pub mod init;
pub mod lens;
mod limits;
pub mod loader;
mod open;
pub mod panorama;
mod paths;
mod points;
pub mod report;
mod sizes;
mod source;
mod target;
pub mod tracks;
pub mod transforms;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::{Camera, Pose};

pub use camera_model::{CameraModel, SourceCamera};
pub use error::{DatasetError, Problem};
pub use fingerprint::{Fingerprint, Sample};
pub use loader::{Loader, LoaderOptions, LoaderStats};
pub use panorama::Face;
pub use report::{SkipReason, Skipped, Warning};
pub use sizes::extent_of as scene_extent;
pub use tracks::Tracks;

use crate::reading::Reading;

/// What to do with the alpha channel of pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlphaMode {
    /// Keep it: truth and render are composited on the same background.
    #[default]
    Composite,
    /// Ignore pixels with alpha 0, take all others as opaque.
    Mask,
}

/// What panoramas are trained on as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panoramas {
    /// The six faces of a cube, pinholes of 90 degrees.
    #[default]
    Cube,
    /// Themselves. Those that are held out are the faces of a cube all the same, so that figures compare.
    Sphere,
}

/// How a dataset is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOptions {
    /// Folder of the pictures instead of `images`; relative to the current folder.
    pub images: Option<PathBuf>,
    /// Folder of the masks instead of `masks`; relative to the current folder.
    pub masks: Option<PathBuf>,
    /// Folder of the COLMAP model instead of `sparse/0`, …; relative to the current folder.
    pub sparse: Option<PathBuf>,
    /// Longest side of a training picture in px, of a panorama a quarter of it (the side of a face); 0 = as stored.
    pub max_resolution: u32,
    /// Every n-th picture is held out, counted from the first; 0 = none. A dataset's own test list wins.
    pub test_every: usize,
    /// What the alpha channel means.
    pub alpha: AlphaMode,
    /// What panoramas are trained on as.
    pub panoramas: Panoramas,
    /// Whether names may lead out of the picture folder, by `..` or as absolute ones. Links are followed anyway.
    pub allow_outside: bool,
    /// Scene extent in scene units instead of the computed one.
    pub scene_extent: Option<f64>,
    /// Bytes that points may take while they are read; more of them are an error.
    pub memory_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            images: None,
            masks: None,
            sparse: None,
            max_resolution: 1600,
            test_every: 8,
            alpha: AlphaMode::Composite,
            panoramas: Panoramas::Cube,
            allow_outside: false,
            scene_extent: None,
            memory_bytes: u64::MAX,
        }
    }
}

/// Where a dataset came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetKind {
    /// A COLMAP model, binary or text.
    Colmap,
    /// `transforms.json` as Nerfstudio writes it.
    Nerfstudio,
    /// `transforms.json` as instant-ngp's scripts write it.
    InstantNgp,
    /// `transforms_train.json` and `transforms_test.json` with `camera_angle_x` only (NeRF-synthetic).
    Blender,
}

impl ImageEntry {
    /// Name of the stored picture: a face's without the face.
    #[must_use]
    pub fn picture_name(&self) -> &str {
        match self.face {
            Some(face) => {
                self.name.strip_suffix(face.name()).map_or(&*self.name, |n| n.trim_end_matches('/'))
            }
            None => &self.name,
        }
    }
}

impl DatasetKind {
    /// Stable name, for people and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Colmap => "colmap",
            Self::Nerfstudio => "nerfstudio",
            Self::InstantNgp => "instant-ngp",
            Self::Blender => "blender",
        }
    }
}

/// A picture with its camera and pose.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageEntry {
    /// Path relative to the picture folder, `/` between folders: the name that people, masks and reports use.
    pub name: Arc<str>,
    /// Where the file is.
    pub path: PathBuf,
    /// COLMAP image id, or index of the frame in `transforms.json`.
    pub id: u32,
    /// The moment of a camera rig in which it was taken together with others: they share exposure and the error of
    /// the rig's pose. `None` for a picture that stands alone.
    pub frame: Option<u32>,
    /// Index into [`Dataset::cameras`].
    pub source_camera: usize,
    /// Size of the stored picture in px.
    pub stored_size: [u32; 2],
    /// Length of the file when the dataset was opened.
    pub file_bytes: u64,
    /// Bytes that decoding it takes at most, with its mask and everything up to the training picture.
    pub decode_bytes: u64,
    /// What else was seen of its content then.
    pub sample: Sample,
    /// Camera at training size: what [`Loader::get`] delivers. A pinhole, or a panorama ([`Panoramas::Sphere`]).
    pub camera: Camera,
    /// `camera_from_world`.
    pub pose: Pose,
    /// Mask file, if there is one.
    pub mask: Option<PathBuf>,
    /// Length and sample of the mask file.
    pub mask_content: Option<(u64, Sample)>,
    /// Which face of a panorama it is; the name is then that of the picture, `/` and the face's.
    pub face: Option<Face>,
}

/// A point of the sparse reconstruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// World position.
    pub position: [f64; 3],
    /// Colour.
    pub colour: [u8; 3],
    /// Mean reprojection error in px; NaN when the source does not tell.
    pub error: f64,
    /// Number of observations; 0 when the source does not tell.
    pub track_length: u32,
}

/// Indices into [`Dataset::images`], ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Pictures to train on.
    pub train: Vec<usize>,
    /// Pictures held out for evaluation.
    pub test: Vec<usize>,
}

/// The world of a `transforms.json`, relative to the world it was made from.
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
    /// The folder (or the folder of the JSON file) it was opened from.
    pub root: PathBuf,
    /// The model folder or JSON file that was read.
    pub source: PathBuf,
    /// Folder that picture names are relative to.
    pub images_folder: PathBuf,
    /// Where it came from.
    pub kind: DatasetKind,
    /// Cameras as the source describes them, ascending by id.
    pub cameras: Vec<SourceCamera>,
    /// Usable pictures, ascending by name (byte order).
    pub images: Vec<ImageEntry>,
    /// Finite points in the order of the source.
    pub points: Vec<Point>,
    /// Which pictures train and which are held out.
    pub split: Split,
    /// Background that fits this kind of data: white for [`DatasetKind::Blender`], black otherwise.
    pub background: [f32; 3],
    /// What the alpha channel means (from the options).
    pub alpha: AlphaMode,
    /// Size of the scene in scene units: 1.1 x the largest distance of a training camera from their mean, at least
    /// the median distance of the points from there (docs/training.md, 3).
    pub scene_extent: f64,
    /// World of a `transforms.json` relative to its origin, if recorded.
    pub applied_transform: Option<AppliedTransform>,
    /// What a person should know, one line each.
    pub warnings: Vec<Warning>,
    /// Pictures that were left out, with reasons, in name order.
    pub skipped: Vec<Skipped>,
    /// Decides whether a run goes on with the data that it began with.
    pub fingerprint: Fingerprint,
    /// Keeps its files from being written over while it is open.
    pub reading: Arc<Reading>,
}

/// Opens the dataset at `path`: a folder with a COLMAP model or `transforms*.json` in it, or such a JSON file.
///
/// # Errors
/// A model that cannot be read, no usable picture, or more than a tenth of the pictures unreadable.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Dataset, DatasetError> {
    open::open(path, options)
}

impl Dataset {
    /// The lens of a picture at its stored size.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[must_use]
    pub fn lens(&self, index: usize) -> lens::Lens {
        let image = &self.images[index];
        let lens = sizes::lens_at(&self.cameras[image.source_camera], image.stored_size);
        match image.face {
            Some(face) => lens.turned(face.picture_from_face()),
            None => lens,
        }
    }

    /// Whether some inputs were left out: the work succeeds, the exit code is 1.
    #[must_use]
    pub fn has_skipped(&self) -> bool {
        !self.skipped.is_empty()
    }

    /// The lines that a person should see: warnings, then pictures that were left out, at most five of each kind.
    #[must_use]
    pub fn report(&self) -> Vec<String> {
        const LINES_PER_KIND: usize = 5;
        let mut lines: Vec<String> = self.warnings.iter().map(ToString::to_string).collect();
        let has_warning =
            |s: &&Skipped| matches!(s.reason, SkipReason::Missing | SkipReason::SameFile { .. });
        let skipped: Vec<&Skipped> = self.skipped.iter().filter(|s| !has_warning(s)).collect();
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
            lines.push(format!("… and {more} more skipped pictures"));
        }
        lines
    }
}

/// Median of finite values (mean of the two middle ones of an even number); `None` of none. Sorts.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(0.5 * (values[middle - 1] + values[middle])),
    }
}
