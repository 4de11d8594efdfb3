//! How well the training views know a place: how many of them confirm its depth, and from how different directions.
//!
//! A splat or a pixel is *confirmed* if three training views agree on its depth and two of them see it at least
//! [`MIN_PARALLAX`] apart: the least triangulation angle of COLMAP's points. It is *seen* if two views agree. Everything
//! else is *invented*: at most one view shows it there, and what it looks like from elsewhere is a guess.

use gausset_core::se3;
use serde::{Deserialize, Serialize};

use super::depth_maps::CONFIRMATIONS;

/// Least angle in degrees between the rays of two views that confirm a depth.
pub const MIN_PARALLAX: f64 = 1.5;

/// How well the training views know a place; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// At most one view shows it there.
    Invented,
    /// Two views agree on its depth, or more that all see it from the same direction.
    Seen,
    /// Three views or more agree on its depth, from different directions.
    Confirmed,
}

/// The training views that confirm the depth of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Support {
    /// Number of views.
    pub views: u32,
    /// Unit vector from the first view to the point.
    first: [f64; 3],
    /// Largest `1 - cos` of the angles between the first view and the others.
    widest: f64,
}

impl Support {
    /// Counts a view that confirms the point.
    pub(super) fn add(&mut self, centre: [f64; 3], point: [f64; 3]) {
        let ray = se3::sub(point, centre);
        let length = se3::norm(ray);
        if length > 0.0 {
            let direction = ray.map(|v| v / length);
            if self.views == 0 {
                self.first = direction;
            }
            self.widest = self.widest.max(1.0 - se3::dot(self.first, direction));
            self.views += 1;
        }
    }

    /// Whether more views make no difference to [`Self::confidence`].
    pub(super) fn is_sufficient(&self) -> bool {
        self.views >= u32::from(CONFIRMATIONS) && self.widest >= 1.0 - libm::cos(MIN_PARALLAX.to_radians())
    }

    /// What these views know about the point.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        match self.views {
            _ if self.is_sufficient() => Confidence::Confirmed,
            0 | 1 => Confidence::Invented,
            _ => Confidence::Seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_views_confirm_a_point_if_two_of_them_are_apart() {
        let confidence = |positions: &[f64]| {
            let mut support = Support::default();
            positions.iter().for_each(|&x| support.add([x, 0.0, 0.0], [0.0, 0.0, 1.0]));
            assert_eq!(support.views as usize, positions.len());
            support.confidence()
        };
        assert_eq!(confidence(&[]), Confidence::Invented);
        assert_eq!(confidence(&[0.0]), Confidence::Invented);
        assert_eq!(confidence(&[0.0, 1.0]), Confidence::Seen);
        // 0.02 at a distance of 1 is 1.1 degrees, 0.03 is 1.7.
        assert_eq!(confidence(&[0.0, 0.01, 0.02]), Confidence::Seen);
        assert_eq!(confidence(&[0.0, 0.01, 0.03]), Confidence::Confirmed);
        // A camera in the point sees nothing of it.
        let mut support = Support::default();
        support.add([1.0; 3], [1.0; 3]);
        assert_eq!(support, Support::default());
    }
}
