//! Assigns training views to rows of the correction groups (exposure, vignetting, pose).

use std::collections::BTreeMap;

use gausset_core::engine::{CorrectionGroup, CorrectionKind};
use gausset_core::{Pose, se3};
use gausset_io::dataset::{Dataset, ImageEntry, Loader};

use super::TrainError;
use crate::gains::{self, Gains};
use crate::option_values::{Colours, Exposure};
use crate::recipe::{ColourRows, Recipe};

/// Rows of corrections per training view, by its index in the training split.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Corrections {
    colours: Colours,
    exposure: Option<GroupRows>,
    /// A row per camera.
    vignetting: Option<GroupRows>,
    poses: Option<GroupRows>,
    sky: bool,
    /// Pose of each view's camera in the rig that its pose row moves.
    camera_from_rig: Vec<Option<Pose>>,
}

/// Rows of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupRows {
    by_view: Vec<Option<u32>>,
    count: usize,
}

impl Corrections {
    /// The corrections that a recipe learns on a dataset, and whether a sky is learnt. There is one row per view, or
    /// per rig frame, whose images were taken at the same time.
    ///
    /// Colours: gains keep the mean of their logarithm at 0, so that the whole cannot drift. Poses: the row of a frame
    /// moves the rig as a whole, in the axes of the camera of its first training view.
    pub(super) fn new(recipe: &Recipe, colours: Colours, dataset: &Dataset, sky: bool) -> Self {
        let images = || dataset.split.train.iter().map(|&index| &dataset.images[index]);
        let moments = frame_rows(dataset);
        // A panorama has no corners that a lens could darken.
        let lens = |image: &ImageEntry| image.camera.is_pinhole().then_some(image.source_camera as u32);
        let cameras = || rows_per_frame(images().map(lens));
        let mut first_of_row: Vec<Option<Pose>> = vec![None; moments.count];
        let camera_from_rig = images().zip(&moments.by_view).map(|(image, row)| {
            let first = first_of_row.get_mut((*row)? as usize)?;
            match first {
                None => {
                    *first = Some(image.pose);
                    None
                }
                Some(first) => Some(image.pose.compose(&first.inverse())),
            }
        });
        let camera_from_rig = camera_from_rig.collect();
        Self {
            colours,
            exposure: match colours {
                Colours::None => None,
                Colours::Gains | Colours::GainsFromTracks => Some(moments.clone()),
            },
            vignetting: recipe.vignetting.then(cameras),
            poses: recipe.poses.map(|_| moments),
            sky,
            camera_from_rig,
        }
    }

    /// Row of a view's exposure correction.
    pub(super) fn exposure_row(&self, train_index: usize) -> Option<u32> {
        self.exposure.as_ref().and_then(|rows| rows.by_view.get(train_index).copied().flatten())
    }

    /// Row of the vignetting of a view's camera.
    pub(super) fn vignetting_row(&self, train_index: usize) -> Option<u32> {
        self.vignetting.as_ref().and_then(|rows| rows.by_view.get(train_index).copied().flatten())
    }

    /// Number of rows that correct colours.
    pub(super) fn colour_rows(&self) -> ColourRows {
        let count = |rows: &Option<GroupRows>| rows.as_ref().map_or(0, |rows| rows.count);
        ColourRows {
            gains: count(&self.exposure),
            vignetting: count(&self.vignetting),
            is_measured: self.colours == Colours::GainsFromTracks,
        }
    }

    /// Row of a view's pose correction.
    pub(super) fn pose_row(&self, train_index: usize) -> Option<u32> {
        self.poses.as_ref().and_then(|rows| rows.by_view.get(train_index).copied().flatten())
    }

    /// Pose of a view's camera in the rig that its pose row moves; `None` if the row moves the camera itself.
    pub(super) fn camera_from_rig(&self, train_index: usize) -> Option<Pose> {
        self.camera_from_rig.get(train_index).copied().flatten()
    }

    /// `camera_from_world` of a training view with its correction: `exp(twist) · pose`.
    pub(super) fn refined_pose(&self, group: &CorrectionGroup, train_index: usize, pose: &Pose) -> Pose {
        let Some(row) = self.pose_row(train_index) else { return *pose };
        let row = group.row(row as usize);
        let twist: [f64; 6] = std::array::from_fn(|k| f64::from(row[k]));
        let twist = match &self.camera_from_rig(train_index) {
            Some(camera_from_rig) => se3::adjoint(camera_from_rig, twist),
            None => twist,
        };
        se3::exp(twist).compose(pose)
    }

    /// The groups before the first step, as identities.
    pub(super) fn identity_groups(&self) -> Vec<CorrectionGroup> {
        let exposure =
            self.exposure.as_ref().map(|rows| CorrectionGroup::new(CorrectionKind::Gain, rows.count));
        let vignetting =
            self.vignetting.as_ref().map(|rows| CorrectionGroup::new(CorrectionKind::Vignetting, rows.count));
        let poses = self.poses.as_ref().map(|rows| CorrectionGroup::new(CorrectionKind::Pose, rows.count));
        let sky = self.sky.then(|| CorrectionGroup::new(CorrectionKind::Sky, 1));
        exposure.into_iter().chain(vignetting).chain(poses).chain(sky).collect()
    }

    /// The groups before the first step, with gains initialised from measurements; rows without a measurement are 1.
    pub(super) fn initial_groups(&self, gains: &Gains) -> Vec<CorrectionGroup> {
        let mut groups = self.identity_groups();
        if let Some(group) = groups.iter_mut().find(|group| group.group == CorrectionKind::Gain) {
            for (row, gain) in group.values.chunks_exact_mut(3).zip(&gains.rows) {
                row.copy_from_slice(&gain.unwrap_or_default().map(|g| g as f32));
            }
        }
        groups
    }
}

/// Rows per rig frame of the training views.
fn frame_rows(dataset: &Dataset) -> GroupRows {
    rows_per_frame(dataset.split.train.iter().map(|&index| dataset.images[index].frame))
}

/// How a new run corrects colours, and its initial gains. For a resumed run, `decided` is the recorded mode; the
/// measured gains are then the same.
pub(super) fn initial_colours(
    recipe: &Recipe,
    loader: &Loader,
    memory_bytes: u64,
    decided: Option<Colours>,
) -> Result<(Colours, Gains), TrainError> {
    let mode = recipe.exposure.map_or(Exposure::Off, |exposure| exposure.mode);
    match (mode, decided) {
        (Exposure::Off, _) | (_, Some(Colours::None)) => return Ok((Colours::None, Gains::default())),
        (Exposure::Auto | Exposure::On, _) => {}
    }
    let dataset = loader.dataset();
    let rows = frame_rows(dataset);
    let pictures = dataset.split.train.iter().zip(&rows.by_view);
    let pictures: Vec<(usize, u32)> = pictures.filter_map(|(&index, row)| Some((index, (*row)?))).collect();
    let tracks = dataset.read_tracks(memory_bytes)?;
    let gains = gains::measure(loader, &tracks, &pictures, rows.count);
    Ok(match mode {
        Exposure::Auto if !gains.are_notable() => (Colours::None, Gains::default()),
        _ if gains.are_known() => (Colours::GainsFromTracks, gains),
        _ => (Colours::Gains, Gains::default()),
    })
}

/// One row per rig frame, and one per view without a frame, in the order of their first views.
fn rows_per_frame(frames: impl Iterator<Item = Option<u32>>) -> GroupRows {
    let mut of_frame = BTreeMap::new();
    let mut used = 0u32;
    let of_view = frames
        .map(|frame| {
            let mut next = || {
                used += 1;
                used - 1
            };
            Some(match frame {
                Some(frame) => *of_frame.entry(frame).or_insert_with(next),
                None => next(),
            })
        })
        .collect();
    GroupRows { by_view: of_view, count: used as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_one_moment_share_their_rows() {
        let frames = [Some(9), Some(9), None, Some(4), None, Some(9), Some(4)];
        let rows = rows_per_frame(frames.into_iter());
        assert_eq!(rows.by_view, [0, 0, 1, 2, 3, 0, 2].map(Some));
        assert_eq!(rows.count, 4);
    }
}
