//! The vocabulary of poses: what an alignment found, in the axes of panoramas ([`crate::sphere::geometry`]).

use gausset_core::Pose;
use serde::{Deserialize, Serialize};

/// The result of an alignment: `poses.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AlignedPoses {
    /// Program that aligned the frames.
    pub tool: String,
    /// Hash of the aligned input.
    pub input: String,
    /// Whether the unit is a metre, from GPS.
    pub is_metric: bool,
    /// Number of points of the sparse model.
    pub points: u64,
    /// Mean reprojection error, px.
    pub mean_reprojection_px: f64,
    /// Mean number of observations per point.
    pub track_length: f64,
    /// Georeference of the world, from a GPS track.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earth: Option<Georeference>,
    /// World transform of the `transforms.json` that the poses were read from; applied again when one is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<WorldTransform>,
    /// Relative pose of two lenses that were aligned separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lenses: Option<LensRelation>,
    /// All frames, in order.
    pub frames: Vec<FramePose>,
}

/// Georeference of a metric world: metres east, north and up of `origin` are `R x + t`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Georeference {
    /// File name of the GPS track.
    pub track: String,
    /// Degrees north, degrees east, metres up; `None` if the track has local coordinates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<[f64; 3]>,
    /// Rotation R, wxyz.
    pub rotation: [f64; 4],
    /// Translation t, m.
    pub translation: [f64; 3],
    /// Offset from the time of a frame to the time of the track, seconds.
    pub offset_s: f64,
    /// Standard deviation of the offset, seconds; `None` if it was not estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_deviation_s: Option<f64>,
    /// Number of frames with a position on the track.
    pub frames: usize,
    /// Robust RMS distance of the frames from their track positions, m; outliers have less weight.
    pub residual_m: f64,
    /// RMS distance of the track positions from their mean, m.
    pub spread_m: f64,
    /// Number of frames with heading or tilt in the track.
    pub looks: usize,
}

impl Georeference {
    /// Whether rotation, translation and origin are valid.
    pub(crate) fn is_valid(&self) -> bool {
        let is_on_earth = |[north, east, _]: [f64; 3]| north.abs() <= 90.0 && east.abs() <= 180.0;
        Pose::from_quaternion(self.rotation, self.translation).is_ok() && self.origin.is_none_or(is_on_earth)
    }
}

/// Pose of a panorama.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FramePose {
    /// Name of the frame.
    pub name: String,
    /// Rotation of `pano_from_world`, wxyz; `None` if the frame is not registered.
    pub rotation: Option<[f64; 4]>,
    /// Translation of `pano_from_world`; `None` if the frame is not registered.
    pub translation: Option<[f64; 3]>,
}

impl FramePose {
    /// The pose `pano_from_world`; `None` if the frame is not registered or the pose is invalid.
    #[must_use]
    pub fn pose(&self) -> Option<Pose> {
        Pose::from_quaternion(self.rotation?, self.translation?).ok()
    }
}

impl AlignedPoses {
    /// Number of frames with a pose.
    #[must_use]
    pub fn registered_frames(&self) -> usize {
        self.frames.iter().filter(|f| f.rotation.is_some()).count()
    }
}

/// Relative pose of the two lenses of a camera from an alignment: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LensRelation {
    /// Number of frames with poses of both lenses.
    pub frames: usize,
    /// Rotation from the upright axes of the first lens to those of the second, wxyz.
    pub rotation: [f64; 4],
    /// Translation, in the unit of the poses.
    pub translation: [f64; 3],
    /// Angle of that rotation, degrees.
    pub angle_degrees: f64,
    /// Angle between the rotation and that of the lens file, degrees.
    pub off_lens_file_degrees: f64,
    /// Distance between the two lens centres, in the unit of the poses.
    pub baseline: f64,
    /// Median and largest deviation of the frames from the rotation, degrees.
    pub deviation_degrees: [f64; 2],
    /// Median and largest deviation of the frames from the centre of the second lens, in the unit of the poses.
    pub deviation: [f64; 2],
    /// Names of the lens frames that did not register, whose pose was computed from the other lens.
    pub completed: Vec<String>,
}

/// World transform of a `transforms.json`: a point x became `scale (L x + t)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorldTransform {
    /// Rows of `[L t]`: `applied_transform`.
    pub transform: [[f64; 4]; 3],
    /// Scale: `applied_scale`.
    pub scale: f64,
}

impl WorldTransform {
    /// Transforms a point of the original world to the world of the file.
    #[must_use]
    pub fn transform_point(&self, x: [f64; 3]) -> [f64; 3] {
        self.transform.map(|[a, b, c, t]| self.scale * (a * x[0] + b * x[1] + c * x[2] + t))
    }

    /// Whether the transform is a rotation, a translation and a positive scale.
    #[must_use]
    pub(crate) fn is_similarity(&self) -> bool {
        let linear = self.transform.map(|[a, b, c, _]| [a, b, c]);
        let shift = self.transform.map(|[.., t]| t);
        Pose::from_matrix(linear, shift).is_ok() && self.scale.is_finite() && self.scale > 0.0
    }

    /// Transforms a direction of the original world to the world of the file.
    #[must_use]
    pub fn transform_direction(&self, d: [f64; 3]) -> [f64; 3] {
        self.transform.map(|[a, b, c, _]| a * d[0] + b * d[1] + c * d[2])
    }
}

/// An image with its pose.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPose {
    /// Name of the image as in the file.
    pub name: String,
    /// `camera_from_world`.
    pub pose: Pose,
    /// Index of the frame: views of one frame have the same; without frames, the index in the list.
    pub frame: u32,
}
