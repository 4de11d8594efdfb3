//! Regions of space, used to select splats.

use crate::matrix::distance;

/// A region of space, its surface included.
///
/// ```
/// use gausset_core::Region;
///
/// let region = Region::Ball { centre: [0.0, 0.0, 2.0], radius: 1.0 };
/// assert!(region.contains([0.0, 0.0, 3.0]));
/// assert!(!region.contains([0.0, 0.0, 3.5]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Region {
    /// An axis-aligned box.
    Box {
        /// Smallest x, y, z.
        min: [f64; 3],
        /// Largest x, y, z.
        max: [f64; 3],
    },
    /// A ball around a point.
    Ball {
        /// Its centre in world space.
        centre: [f64; 3],
        /// Its radius, in the unit of the scene.
        radius: f64,
    },
}

impl Region {
    /// The ball around the mean of these positions that contains all of them, its radius multiplied by `factor`; `None`
    /// if there are no positions.
    #[must_use]
    pub fn enclosing_ball(places: &[[f64; 3]], factor: f64) -> Option<Self> {
        let count = places.len() as f64;
        let centre: [f64; 3] =
            std::array::from_fn(|k| places.iter().map(|place| place[k]).sum::<f64>() / count);
        let farthest = places.iter().map(|&place| distance(place, centre)).reduce(f64::max)?;
        Some(Self::Ball { centre, radius: farthest * factor })
    }

    /// Whether a point is inside.
    #[must_use]
    pub fn contains(&self, point: [f32; 3]) -> bool {
        let point = point.map(f64::from);
        match *self {
            Self::Box { min, max } => (0..3).all(|k| min[k] <= point[k] && point[k] <= max[k]),
            Self::Ball { centre, radius } => distance(point, centre) <= radius,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_holds_its_corners_and_nothing_beyond_a_face() {
        let region = Region::Box { min: [-1.0, 0.0, 2.0], max: [1.0, 0.5, 3.0] };
        assert!(region.contains([-1.0, 0.0, 2.0]) && region.contains([1.0, 0.5, 3.0]));
        for outside in [[-1.1, 0.2, 2.5], [0.0, 0.6, 2.5], [0.0, 0.2, 1.9], [f32::NAN, 0.2, 2.5]] {
            assert!(!region.contains(outside), "{outside:?}");
        }
    }

    #[test]
    fn the_ball_around_cameras_reaches_to_the_farthest_times_the_factor() {
        let cameras = [[3.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]];
        let ball = Region::enclosing_ball(&cameras, 1.5).unwrap();
        assert_eq!(ball, Region::Ball { centre: [1.0, 0.0, 0.0], radius: 3.0 });
        assert!(ball.contains([1.0, 3.0, 0.0]) && !ball.contains([1.0, 2.0, 2.5]));
        assert_eq!(Region::enclosing_ball(&[], 1.0), None);
    }
}
