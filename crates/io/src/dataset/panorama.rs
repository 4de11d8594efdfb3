//! Panoramas as training images: a panorama is split into the six faces of a cube when it is loaded, or trained on as a
//! whole ([`super::PanoramaTraining`]).
//!
//! ```text
//! face axes: x right, y down, z forward; direction in the panorama = picture_from_face · direction in the face
//! face camera: square, 90 degrees, at most a quarter of the panorama's width
//! ```
//! Panoramas are periodic in x: before a face is cut, the panorama is padded with columns of its other end on both
//! sides.

use gausset_core::se3::Mat3;
use gausset_core::{Camera, Pose, camera::CameraError, se3};

use super::sizes::training_size;
use crate::image::{DecodedImage, Mask};

/// A face of the cube around the centre of a panorama.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Face {
    Front,
    Right,
    Back,
    Left,
    Up,
    Down,
}

impl Face {
    /// All faces: those on the horizon from front to the right, then up and down.
    pub const ALL: [Self; 6] = [Self::Front, Self::Right, Self::Back, Self::Left, Self::Up, Self::Down];

    /// Stable name; the last part of [`super::ImageEntry::name`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Right => "right",
            Self::Back => "back",
            Self::Left => "left",
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// Rotation from the axes of the face to those of the panorama.
    #[must_use]
    pub const fn panorama_from_face(self) -> Mat3 {
        match self {
            Self::Front => [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            Self::Right => [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]],
            Self::Back => [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]],
            Self::Left => [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
            Self::Up => [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]],
            Self::Down => [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]],
        }
    }

    /// `face_from_world`, from the `camera_from_world` of the panorama.
    ///
    /// ```
    /// use gausset_core::Pose;
    /// use gausset_io::dataset::Face;
    ///
    /// // What is to the right of a panorama is ahead of its right face.
    /// let face = Face::Right.pose(&Pose::IDENTITY);
    /// assert_eq!(face.apply([5.0, 0.0, 0.0]), [0.0, 0.0, 5.0]);
    /// ```
    #[must_use]
    pub fn pose(self, panorama: &Pose) -> Pose {
        Pose { rotation: se3::transpose(&self.panorama_from_face()), translation: [0.0; 3] }.compose(panorama)
    }

    /// `camera_from_world` of the panorama, from that of its face.
    #[must_use]
    pub fn panorama_pose(self, face: &Pose) -> Pose {
        Pose { rotation: self.panorama_from_face(), translation: [0.0; 3] }.compose(face)
    }
}

/// The camera of a face; `longest` is the limit of its side in px, 0 for none.
pub(super) fn face_camera(stored: [u32; 2], longest: u32) -> Result<Camera, CameraError> {
    let natural = stored[0] / 4;
    let side = if longest == 0 { natural } else { natural.min(longest) };
    let half = 0.5 * f64::from(side);
    Camera::new(side, side, half, half, half, half)
}

/// The camera of a whole panorama, at the resolution of its faces; `longest` limits the side of a face, 0 for none.
pub(super) fn sphere_camera(stored: [u32; 2], longest: u32) -> Result<Camera, CameraError> {
    let [width, height] = training_size(stored, longest.saturating_mul(4));
    Camera::panorama(width, height)
}

/// Columns of padding that faces of this side need on each side of the panorama: the reach of the widest filter.
pub(super) fn padding_columns(width: u32, side: u32) -> u32 {
    (4 * width / side.max(1) + 8).min(width)
}

/// The image with `strip` columns of its other end on each side.
pub(super) fn padded(picture: &DecodedImage, strip: u32) -> DecodedImage {
    let around = |data: &[u8], channels: usize| {
        let (row, strip) = (picture.width as usize * channels, strip as usize * channels);
        let mut out = Vec::with_capacity(picture.height as usize * (row + 2 * strip));
        for line in data.chunks_exact(row) {
            out.extend_from_slice(&line[row - strip..]);
            out.extend_from_slice(line);
            out.extend_from_slice(&line[..strip]);
        }
        out
    };
    DecodedImage {
        width: picture.width + 2 * strip,
        height: picture.height,
        rgb: around(&picture.rgb, 3),
        alpha: picture.alpha.as_ref().map(|alpha| around(alpha, 1)),
    }
}

/// The mask of an image of this size, padded like the image. A mask of another size is sampled at the nearest pixels.
pub(super) fn padded_mask(mask: &Mask, [width, height]: [u32; 2], strip: u32) -> Mask {
    let mut keep = Vec::with_capacity((width + 2 * strip) as usize * height as usize);
    for y in 0..height {
        let v = (f64::from(y) + 0.5) / f64::from(height);
        for x in (width - strip..width).chain(0..width).chain(0..strip) {
            keep.push(mask.at_fraction((f64::from(x) + 0.5) / f64::from(width), v));
        }
    }
    Mask { width: width + 2 * strip, height, values: keep }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_look_where_their_names_say() {
        let forward = |face: Face| se3::mul_vec(&face.panorama_from_face(), [0.0, 0.0, 1.0]);
        assert_eq!(forward(Face::Right), [1.0, 0.0, 0.0]);
        assert_eq!(forward(Face::Back), [0.0, 0.0, -1.0]);
        assert_eq!(forward(Face::Left), [-1.0, 0.0, 0.0]);
        // y points down.
        assert_eq!(forward(Face::Up), [0.0, -1.0, 0.0]);
        assert_eq!(forward(Face::Down), [0.0, 1.0, 0.0]);
        for face in Face::ALL {
            let r = face.panorama_from_face();
            assert_eq!(se3::mul(&r, &se3::transpose(&r)), Face::Front.panorama_from_face());
        }
    }

    #[test]
    fn poses_of_faces_and_panoramas_undo_each_other() {
        let pose = Pose::from_quaternion([0.5, -0.5, 0.5, 0.5], [1.0, 2.0, 3.0]).unwrap();
        for face in Face::ALL {
            assert_eq!(face.panorama_pose(&face.pose(&pose)), pose);
        }
    }
}
