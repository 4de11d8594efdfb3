//! Rigid poses `camera_from_world`.

use crate::matrix::{self, Mat3};

/// A rigid transform that maps world points to camera points: `p_camera = rotation · p_world + translation`.
///
/// Camera axes are OpenCV's: x right, y down, z forward. The rotation is stored as a row-major matrix, so that a pose
/// read from a file is used exactly as written.
///
/// ```
/// use gausset_core::Pose;
///
/// // Rotated by 180 degrees about y: the camera looks back along -z, from 3 units ahead of the origin.
/// let pose = Pose::from_quaternion([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 3.0])?;
/// assert_eq!(pose.centre(), [0.0, 0.0, 3.0]);
/// assert_eq!(pose.apply([1.0, 0.0, 0.0]), [-1.0, 0.0, 3.0]);
/// # Ok::<(), gausset_core::pose::PoseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// `camera_from_world` rotation, row-major.
    pub rotation: Mat3,
    /// `camera_from_world` translation in scene units.
    pub translation: [f64; 3],
}

/// Why numbers do not form a pose.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PoseError {
    /// A number is NaN or infinite.
    #[error("pose has a value that is not finite")]
    NotFinite,
    /// The quaternion's length is zero or far from one.
    #[error("quaternion has length {0} (expected 1)")]
    QuaternionNorm(f64),
    /// The matrix is not a rotation.
    #[error("rotation has determinant {determinant} and is off orthogonal by {deviation} (expected 1 and 0)")]
    NotARotation {
        /// Determinant found; negative if the matrix mirrors.
        determinant: f64,
        /// Largest deviation of RᵀR from the identity.
        deviation: f64,
    },
}

impl Default for Pose {
    fn default() -> Self {
        Self::IDENTITY
    }
}

impl Pose {
    /// The pose of a camera at the origin that looks along +z.
    pub const IDENTITY: Self = Self { rotation: matrix::IDENTITY3, translation: [0.0; 3] };

    /// Pose from a `wxyz` quaternion, which is normalised when its length is within 1e-3 of one.
    ///
    /// # Errors
    /// Returns an error for values that are not finite, or a length further than 1e-3 from one.
    pub fn from_quaternion(wxyz: [f64; 4], translation: [f64; 3]) -> Result<Self, PoseError> {
        if !wxyz.iter().chain(&translation).all(|v| v.is_finite()) {
            return Err(PoseError::NotFinite);
        }
        let norm = wxyz.iter().map(|v| v * v).sum::<f64>().sqrt();
        if (norm - 1.0).abs() > 1e-3 {
            return Err(PoseError::QuaternionNorm(norm));
        }
        Ok(Self { rotation: matrix::rotation_from_quaternion(wxyz), translation })
    }

    /// Pose from a rotation matrix, which must be right-handed and orthonormal within 1e-2. It is re-orthonormalised if
    /// it is off by more than 1e-6.
    ///
    /// ```
    /// use gausset_core::Pose;
    ///
    /// let mirrored = [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    /// assert!(Pose::from_matrix(mirrored, [0.0; 3]).is_err());
    /// ```
    ///
    /// # Errors
    /// Returns an error for values that are not finite, or a matrix that is mirrored, scaled or sheared.
    pub fn from_matrix(rotation: Mat3, translation: [f64; 3]) -> Result<Self, PoseError> {
        if !rotation.iter().flatten().chain(&translation).all(|v| v.is_finite()) {
            return Err(PoseError::NotFinite);
        }
        let deviation = matrix::orthonormality_error(&rotation);
        let determinant = matrix::determinant(&rotation);
        if deviation > 1e-2 || determinant <= 0.0 {
            return Err(PoseError::NotARotation { determinant, deviation });
        }
        let rotation = if deviation > 1e-6 { matrix::orthonormalise(&rotation) } else { rotation };
        Ok(Self { rotation, translation })
    }

    /// Camera centre in the world: `-Rᵀ t`.
    #[must_use]
    pub fn centre(&self) -> [f64; 3] {
        let back = matrix::transpose_mul_vec(&self.rotation, self.translation);
        [-back[0], -back[1], -back[2]]
    }

    /// Transforms a world point to camera axes.
    #[must_use]
    pub fn apply(&self, point_in_world: [f64; 3]) -> [f64; 3] {
        let p = matrix::mul_vec(&self.rotation, point_in_world);
        [p[0] + self.translation[0], p[1] + self.translation[1], p[2] + self.translation[2]]
    }

    /// The inverse transform (`world_from_camera` for a `camera_from_world`).
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { rotation: matrix::transpose(&self.rotation), translation: self.centre() }
    }

    /// `self ∘ other`: applies `other` first.
    ///
    /// ```
    /// use gausset_core::Pose;
    ///
    /// let left_from_world = Pose { translation: [0.0, 0.0, 2.0], ..Pose::IDENTITY };
    /// let right_from_left = Pose { translation: [-0.1, 0.0, 0.0], ..Pose::IDENTITY };
    /// let right_from_world = right_from_left.compose(&left_from_world);
    /// assert_eq!(right_from_world.translation, [-0.1, 0.0, 2.0]);
    /// assert_eq!(right_from_world.compose(&right_from_world.inverse()), Pose::IDENTITY);
    /// ```
    #[must_use]
    pub fn compose(&self, other: &Self) -> Self {
        Self {
            rotation: matrix::mul(&self.rotation, &other.rotation),
            translation: self.apply(other.translation),
        }
    }

    /// The rotation as a `wxyz` quaternion with `w >= 0`.
    #[must_use]
    pub fn quaternion(&self) -> [f64; 4] {
        matrix::quaternion_from_rotation(&self.rotation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pose_undoes_itself() {
        let pose = Pose::from_quaternion([0.5, 0.5, -0.5, 0.5], [1.0, 2.0, 3.0]).unwrap();
        let p = pose.compose(&pose.inverse()).apply([0.3, -7.0, 2.0]);
        assert!((p[0] - 0.3).abs() + (p[1] + 7.0).abs() + (p[2] - 2.0).abs() < 1e-12);
        let at_centre = pose.apply(pose.centre());
        assert!(at_centre.iter().all(|v| v.abs() < 1e-12));
    }

    #[test]
    fn zero_nan_and_mirrored_rotations_are_refused() {
        assert_eq!(Pose::from_quaternion([0.0; 4], [0.0; 3]), Err(PoseError::QuaternionNorm(0.0)));
        assert_eq!(Pose::from_quaternion([f64::NAN, 0.0, 0.0, 0.0], [0.0; 3]), Err(PoseError::NotFinite));
        let mirrored = [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        assert!(matches!(Pose::from_matrix(mirrored, [0.0; 3]), Err(PoseError::NotARotation { .. })));
    }
}
