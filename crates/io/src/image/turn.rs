//! Turns pictures upright by their EXIF orientation, and cameras with them.
//!
//! Each orientation says where the pixel (x, y) of the upright picture is stored, for a stored size of w x h px:
//!
//! | value | stored at | turn from stored to upright |
//! |---|---|---|
//! | 1 | (x, y) | none |
//! | 2 | (w-1-x, y) | mirrored |
//! | 3 | (w-1-x, h-1-y) | half |
//! | 4 | (x, h-1-y) | half, mirrored |
//! | 5 | (y, x) | quarter clockwise, mirrored |
//! | 6 | (y, h-1-x) | quarter clockwise |
//! | 7 | (w-1-y, h-1-x) | quarter anticlockwise, mirrored |
//! | 8 | (w-1-y, x) | quarter anticlockwise |

use gausset_core::{Camera, Pose, TargetImage};

use super::{DecodedImage, Mask};

/// Applies an EXIF orientation to the pixels of an image; other values than 2..=8 change nothing.
#[must_use]
pub fn upright(picture: DecodedImage, orientation: u8) -> DecodedImage {
    let size = [picture.width, picture.height];
    let [width, height] = turned_size(size, orientation);
    DecodedImage {
        width,
        height,
        rgb: turned::<3>(picture.rgb, size, orientation),
        alpha: picture.alpha.map(|alpha| turned::<1>(alpha, size, orientation)),
    }
}

/// The orientation that turns back.
#[must_use]
pub fn inverse_orientation(orientation: u8) -> u8 {
    match orientation {
        6 => 8,
        8 => 6,
        other => other,
    }
}

/// The orientation that gives a mask the axes of its image as stored: the inverse of the image's own, if the long side of
/// the mask is that of the upright picture, else 1. Squares fit both ways; they are stored as their image is.
#[must_use]
pub fn stored_mask_turn(mask: [u32; 2], stored: [u32; 2], orientation: u8) -> u8 {
    let is_upright = mask[0] != mask[1] && mask[0].cmp(&mask[1]) == stored[1].cmp(&stored[0]);
    if (5..=8).contains(&orientation) && is_upright { inverse_orientation(orientation) } else { 1 }
}

/// Applies an EXIF orientation to a mask.
#[must_use]
pub fn upright_mask(mask: Mask, orientation: u8) -> Mask {
    let size = [mask.width, mask.height];
    let [width, height] = turned_size(size, orientation);
    Mask { width, height, values: turned::<1>(mask.values, size, orientation) }
}

/// Applies an EXIF orientation to a training image.
pub(crate) fn upright_target(image: TargetImage, orientation: u8) -> TargetImage {
    let size = [image.width, image.height];
    let [width, height] = turned_size(size, orientation);
    let plane = |plane: Option<Vec<u8>>| plane.map(|plane| turned::<1>(plane, size, orientation));
    TargetImage {
        width,
        height,
        rgb: turned::<3>(image.rgb, size, orientation),
        alpha: plane(image.alpha),
        mask: plane(image.mask),
    }
}

/// Width and height of the upright picture.
#[must_use]
pub fn turned_size([width, height]: [u32; 2], orientation: u8) -> [u32; 2] {
    if (5..=8).contains(&orientation) { [height, width] } else { [width, height] }
}

/// The orientation that turns as this one does, without its mirroring. No pose describes a mirrored camera.
pub(crate) fn without_mirror(orientation: u8) -> u8 {
    match orientation {
        3 | 4 => 3,
        5 | 6 => 6,
        7 | 8 => 8,
        _ => 1,
    }
}

/// The camera of the upright picture, for an orientation that does not mirror (1, 3, 6, 8).
pub(crate) fn upright_camera(camera: Camera, orientation: u8) -> Camera {
    let (w, h) = (f64::from(camera.width), f64::from(camera.height));
    let Camera { fx, fy, cx, cy, .. } = camera;
    let [width, height] = turned_size([camera.width, camera.height], orientation);
    match orientation {
        3 => Camera { cx: w - cx, cy: h - cy, ..camera },
        6 => Camera { width, height, fx: fy, fy: fx, cx: h - cy, cy: cx, ..camera },
        8 => Camera { width, height, fx: fy, fy: fx, cx: cy, cy: w - cx, ..camera },
        _ => camera,
    }
}

/// The pose of the camera of the upright picture, for an orientation that does not mirror.
#[must_use]
pub fn upright_pose(pose: Pose, orientation: u8) -> Pose {
    let turn = |[x, y, z]: [f64; 3]| match orientation {
        3 => [-x, -y, z],
        6 => [-y, x, z],
        8 => [y, -x, z],
        _ => [x, y, z],
    };
    let [x, y, z] = pose.rotation;
    let columns: [[f64; 3]; 3] = std::array::from_fn(|k| turn([x[k], y[k], z[k]]));
    Pose {
        rotation: std::array::from_fn(|row| std::array::from_fn(|k| columns[k][row])),
        translation: turn(pose.translation),
    }
}

/// Pixels of `C` bytes of a stored image of `width x height` px, in the order of the upright picture.
fn turned<const C: usize>(pixels: Vec<u8>, [width, height]: [u32; 2], orientation: u8) -> Vec<u8> {
    if !(2..=8).contains(&orientation) {
        return pixels;
    }
    let (w, h) = (width as usize, height as usize);
    let [columns, rows] = turned_size([width, height], orientation).map(|side| side as usize);
    let stored = |x: usize, y: usize| match orientation {
        2 => (w - 1 - x, y),
        3 => (w - 1 - x, h - 1 - y),
        4 => (x, h - 1 - y),
        5 => (y, x),
        6 => (y, h - 1 - x),
        7 => (w - 1 - y, h - 1 - x),
        _ => (w - 1 - y, x),
    };
    let mut out = Vec::with_capacity(pixels.len());
    for y in 0..rows {
        for x in 0..columns {
            let (sx, sy) = stored(x, y);
            let at = C * (sy * w + sx);
            out.extend_from_slice(&pixels[at..at + C]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored so that each orientation gives the same upright picture of 3x2 px, as the standard draws its letter F.
    fn stored(orientation: u8) -> DecodedImage {
        let (width, height, values) = match orientation {
            1 => (3, 2, [1, 2, 3, 4, 5, 6]),
            2 => (3, 2, [3, 2, 1, 6, 5, 4]),
            3 => (3, 2, [6, 5, 4, 3, 2, 1]),
            4 => (3, 2, [4, 5, 6, 1, 2, 3]),
            5 => (2, 3, [1, 4, 2, 5, 3, 6]),
            6 => (2, 3, [3, 6, 2, 5, 1, 4]),
            7 => (2, 3, [6, 3, 5, 2, 4, 1]),
            _ => (2, 3, [4, 1, 5, 2, 6, 3]),
        };
        let rgb = values.iter().flat_map(|&v| [v; 3]).collect();
        DecodedImage { width, height, rgb, alpha: Some(values.to_vec()) }
    }

    #[test]
    fn all_eight_orientations_give_the_same_upright_picture() {
        for orientation in 1..=8 {
            assert_eq!(upright(stored(orientation), orientation), stored(1), "orientation {orientation}");
        }
    }

    #[test]
    fn a_turned_camera_sees_each_point_where_the_turned_picture_has_it() {
        let camera = Camera::new(40, 30, 50.0, 55.0, 19.0, 16.5).unwrap();
        let pose = Pose::from_quaternion([0.8, 0.4, -0.4, 0.2], [0.1, -0.4, 2.0]).unwrap();
        for orientation in [1, 3, 6, 8] {
            let (turned, view) = (upright_camera(camera, orientation), upright_pose(pose, orientation));
            for point in [[0.3, -0.2, 5.0], [-1.0, 0.8, 7.0]] {
                let [u, v] = camera.project(pose.apply(point));
                let [x, y] = turned.project(view.apply(point));
                // Where the pixel of the upright picture is stored, in coordinates of pixel edges.
                let back = match orientation {
                    3 => [40.0 - x, 30.0 - y],
                    6 => [y, 30.0 - x],
                    8 => [40.0 - y, x],
                    _ => [x, y],
                };
                assert!((back[0] - u).abs() + (back[1] - v).abs() < 1e-9, "orientation {orientation}");
            }
            assert!(Pose::from_matrix(view.rotation, view.translation).is_ok());
        }
    }
}
