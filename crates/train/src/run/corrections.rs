//! Which row of which group of corrections belongs to which training view.

use std::collections::BTreeMap;

use gausset_core::engine::ExtraGroup;
use gausset_io::dataset::Dataset;

use crate::recipe::Recipe;

/// Rows of corrections per training view, by its index in the training split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Corrections {
    exposure: Option<Rows>,
    poses: Option<Rows>,
}

/// Rows of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rows {
    of_view: Vec<Option<u32>>,
    count: usize,
}

impl Corrections {
    /// The corrections that a recipe learns on a dataset.
    ///
    /// Colour corrections: a row per view, or per frame of a rig, whose pictures were taken in one moment. The first has
    /// none: it is pinned to the identity, so that the whole cannot drift. Pose corrections: a row per view.
    pub(super) fn new(recipe: &Recipe, dataset: &Dataset) -> Self {
        let frames = || dataset.split.train.iter().map(|&index| dataset.images[index].frame);
        Self {
            exposure: recipe.exposure.map(|_| exposure_rows(frames())),
            poses: recipe.poses.map(|_| {
                let of_view: Vec<Option<u32>> = (0..).map(Some).take(dataset.split.train.len()).collect();
                Rows { count: of_view.len(), of_view }
            }),
        }
    }

    /// Row of a view's colour correction.
    pub(super) fn exposure_row(&self, train_index: usize) -> Option<u32> {
        self.exposure.as_ref().and_then(|rows| rows.of_view.get(train_index).copied().flatten())
    }

    /// Row of a view's pose correction.
    pub(super) fn pose_row(&self, train_index: usize) -> Option<u32> {
        self.poses.as_ref().and_then(|rows| rows.of_view.get(train_index).copied().flatten())
    }

    /// The groups before the first step: corrections that change nothing.
    pub(super) fn identities(&self) -> Vec<ExtraGroup> {
        let exposure = self.exposure.as_ref().map(|rows| ExtraGroup::exposures(rows.count));
        let poses = self.poses.as_ref().map(|rows| ExtraGroup::poses(rows.count));
        exposure.into_iter().chain(poses).collect()
    }
}

/// A row per frame and per view without one, in the order of their first views; none for the very first.
fn exposure_rows(frames: impl Iterator<Item = Option<u32>>) -> Rows {
    let mut of_frame = BTreeMap::new();
    let mut used = 0u32;
    let of_view = frames
        .map(|frame| {
            let mut next = || {
                used += 1;
                used - 1
            };
            let number = match frame {
                Some(frame) => *of_frame.entry(frame).or_insert_with(next),
                None => next(),
            };
            // Number 0 is pinned.
            number.checked_sub(1)
        })
        .collect();
    Rows { of_view, count: used.saturating_sub(1) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_one_moment_share_their_colours_and_the_first_moment_keeps_them() {
        let rows = exposure_rows([Some(9), Some(9), None, Some(4), None, Some(9), Some(4)].into_iter());
        assert_eq!(rows.of_view, [None, None, Some(0), Some(1), Some(2), None, Some(1)]);
        assert_eq!(rows.count, 3);
        assert_eq!(exposure_rows(std::iter::empty()).count, 0);
    }
}
