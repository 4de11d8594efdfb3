//! Prior knowledge for an alignment: poses from another program (of the panoramas or their views), GPS track, matches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gausset_core::{Pose, se3};
use gausset_pano::export::{AlignedPoses, FramePose};
use gausset_pano::poses::matching::{self, MatchKey, PairError, PosePairs};
use gausset_pano::poses::{NamedPose, Trajectory, read};
use gausset_pano::rig;
use gausset_pano::split::SplitDescription;
use gausset_sfm::model::CheckedModel;
use serde_json::{Value, json};

use super::track::{TrackOffset, TrackOptions};
use crate::aligner::{Aligner, colmap_only};
use crate::{Failure, Host, records};

/// Largest distance between the centres of one panorama's views, as a fraction of the extent of all centres.
const SAME_CENTRE: f64 = 1e-3;
/// Largest distance of a centre from the origin: a thousand times that of the sun in metres; its square is finite.
const MAX_DISTANCE: f64 = 1e14;

/// Prior knowledge for an alignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriorKnowledge {
    /// Poses of the panoramas or their views by another program. They are kept (scaled to metres by a GPS track), and
    /// only points are triangulated.
    pub poses: Option<PathBuf>,
    /// Whether bundle adjustment refines these poses, or uses the GPS track as priors.
    pub refine: bool,
    /// GPS track that the frames are placed on.
    pub track: Option<TrackOptions>,
    /// Folder with keypoints and raw matches of the views.
    pub matches: Option<PathBuf>,
    /// COLMAP database with keypoints and matches.
    pub database: Option<PathBuf>,
}

impl PriorKnowledge {
    /// The values that `pano run` depends on, by option name; `null` = not set.
    pub(super) fn record(&self) -> [(&'static str, Value); 3] {
        let offset = self.track.as_ref().and_then(|track| match track.offset {
            TrackOffset::Auto => Some(json!("auto")),
            TrackOffset::Seconds(seconds) => (seconds != 0.0).then(|| json!(seconds)),
        });
        [
            ("track", json!(self.track.as_ref().map(|track| records::canonical_path(&track.path)))),
            ("track-offset", json!(offset)),
            ("refine", json!(self.refine.then_some(true))),
        ]
    }

    /// The first option that only COLMAP can use.
    fn option_of_colmap(&self) -> Option<&'static str> {
        let options = [
            ("poses", self.poses.is_some()),
            ("matches", self.matches.is_some()),
            ("database", self.database.is_some()),
            ("refine", self.refine),
        ];
        options.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
    }

    /// Whether only COLMAP can use it.
    pub(super) fn needs_colmap(&self) -> bool {
        self.option_of_colmap().is_some()
    }

    /// Refuses `refine` without poses or a track, and options that the built-in aligner does not support: from a track
    /// it takes scale and georeference, but not priors for the poses.
    pub(super) fn check(&self, aligner: Aligner) -> Result<(), Failure> {
        if let (Some(key), Aligner::Own) = (self.option_of_colmap(), aligner) {
            return Err(colmap_only(key));
        }
        if self.refine && self.poses.is_none() && self.track.is_none() {
            return Err(Failure::new(
                "option",
                "⟨refine⟩: has no effect without ⟨track⟩ or, for an alignment, ⟨poses⟩; leave it out, or add one of them",
            ));
        }
        Ok(())
    }
}

/// Poses of the frames of a split, from a file in any supported format.
///
/// # Errors
/// The poses cannot be read, or share no name with the frames or their views.
pub(crate) fn poses_of_frames(
    description: &SplitDescription,
    path: &Path,
    host: &mut Host<'_>,
) -> Result<AlignedPoses, Failure> {
    let list = read(path)?;
    let frames = &description.frames;
    let pairs = pairs_of_panoramas(frames, &list);
    let is_named = |pairs: &PosePairs| matches!(pairs.key, MatchKey::Name | MatchKey::NameWithoutExtension);
    // View names have a folder. Without it they equal the names of panoramas.
    let views = match &pairs {
        Ok(pairs) if is_named(pairs) => None,
        _ => poses_from_views(description, &list, path, host),
    };
    let found = match views {
        Some(found) => found,
        None => poses_of_panoramas(frames, &list, pairs.map_err(|e| no_common_names(path, &e))?, path, host),
    };
    Ok(with_frame_names(frames, &found, &list, path, host))
}

/// Poses of panoramas with these names, from a file in any supported format.
///
/// # Errors
/// The poses cannot be read, or share no name with the frames.
pub(crate) fn poses_of_names(
    frames: &[String],
    path: &Path,
    host: &mut Host<'_>,
) -> Result<AlignedPoses, Failure> {
    let list = read(path)?;
    let pairs = pairs_of_panoramas(frames, &list).map_err(|e| no_common_names(path, &e))?;
    let found = poses_of_panoramas(frames, &list, pairs, path, host);
    Ok(with_frame_names(frames, &found, &list, path, host))
}

/// Reads poses and refuses coordinates too large for COLMAP's arithmetic.
fn read(path: &Path) -> Result<Trajectory, Failure> {
    let list = read::read(path)?;
    // Compare the largest coordinate: the sum of squares could overflow.
    let away = |pose: &NamedPose| pose.pose.centre().iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    match list.poses.iter().find(|pose| away(pose) > MAX_DISTANCE) {
        None => Ok(list),
        Some(far) => {
            let (name, away) = (&far.name, away(far));
            let line = format!(
                "{}: {name:?}: is {away:.0e} from the origin (expected at most {MAX_DISTANCE:e})",
                path.display()
            );
            Err(Failure::new("poses", line))
        }
    }
}

fn no_common_names(path: &Path, problem: &PairError) -> Failure {
    Failure::new("poses", format!("{}: names: {problem}", path.display()))
}

/// Converts poses to the names of their frames.
fn with_frame_names(
    frames: &[String],
    found: &[Option<Pose>],
    list: &Trajectory,
    path: &Path,
    host: &mut Host<'_>,
) -> AlignedPoses {
    if let Some(note) = &list.note {
        host.warn("poses", format!("{}: {note}", path.display()));
    }
    let frames = frames.iter().zip(found).map(|(name, pose)| FramePose {
        name: name.clone(),
        rotation: pose.map(|p| p.quaternion()),
        translation: pose.map(|p| p.translation),
    });
    AlignedPoses {
        tool: list.format.to_owned(),
        is_metric: list.is_metric,
        applied: list.applied,
        earth: list.georeference.clone(),
        frames: frames.collect(),
        ..AlignedPoses::default()
    }
}

/// A trajectory of names only, for matching.
fn names_as_trajectory(names: impl Iterator<Item = String>) -> Trajectory {
    let pose = |(moment, name)| NamedPose { name, pose: Pose::IDENTITY, frame: moment };
    Trajectory { poses: (0..).zip(names).map(pose).collect(), ..Trajectory::default() }
}

fn pairs_of_panoramas(frames: &[String], list: &Trajectory) -> Result<PosePairs, PairError> {
    matching::pair_poses(list, &names_as_trajectory(frames.iter().cloned()), ["it", "the frames"])
}

/// Poses of panoramas; warns if they were not matched by full names.
fn poses_of_panoramas(
    frames: &[String],
    list: &Trajectory,
    pairs: PosePairs,
    path: &Path,
    host: &mut Host<'_>,
) -> Vec<Option<Pose>> {
    let by = match pairs.key {
        MatchKey::Name | MatchKey::NameWithoutExtension => None,
        MatchKey::Stem => Some("names without folder and extension"),
        MatchKey::Place => Some("time stamps as indices into the list of frames, from 0"),
    };
    warn_about_matching(list, &pairs.pairs, by, &|frame| frames[frame].clone(), path, host);
    let mut found = vec![None; frames.len()];
    for (pose, frame) in pairs.pairs {
        found[frame] = Some(list.poses[pose].pose);
    }
    found
}

/// Warns if poses were not matched by full names, and about poses that match no image.
fn warn_about_matching(
    list: &Trajectory,
    pairs: &[(usize, usize)],
    by: Option<&str>,
    name: &dyn Fn(usize) -> String,
    path: &Path,
    host: &mut Host<'_>,
) {
    let (path, count) = (path.display(), list.poses.len());
    if let Some((by, &(pose, picture))) = by.zip(pairs.first()) {
        let (pose, picture) = (&list.poses[pose].name, name(picture));
        host.warn("poses", format!("{path}: names: matched by {by} ({pose:?} is {picture})"));
    }
    let used: BTreeSet<usize> = pairs.iter().map(|(pose, _)| *pose).collect();
    if let Some(idle) = (0..count).find(|pose| !used.contains(pose)) {
        let (idle, left) = (&list.poses[idle].name, count - used.len());
        host.warn("poses", format!("{path}: names: {left} of {count} match no frame (such as {idle:?})"));
    }
}

/// Poses of panoramas computed from those of their views; `None` if the names are not view names.
fn poses_from_views(
    description: &SplitDescription,
    list: &Trajectory,
    path: &Path,
    host: &mut Host<'_>,
) -> Option<Vec<Option<Pose>>> {
    let count = description.views.len();
    let picture = |k: usize| description.image_name(k / count, k % count);
    let all = names_as_trajectory((0..description.frames.len() * count).map(picture));
    let by_name = |list: &Trajectory| {
        let found = matching::pair_poses(list, &all, ["it", "the views"]).ok()?;
        matches!(found.key, MatchKey::Name | MatchKey::NameWithoutExtension).then_some(found.pairs)
    };
    // Other programs prepend their own folders.
    let parts = picture(0).split('/').count();
    let (pairs, by) = match by_name(list) {
        Some(pairs) => (pairs, None),
        None => {
            (by_name(&with_last_components(list, parts))?, Some(format!("the last {parts} parts of names")))
        }
    };
    warn_about_matching(list, &pairs, by.as_deref(), &picture, path, host);
    let mut found: Vec<Option<Pose>> = vec![None; description.frames.len()];
    let (mut apart, mut worst) = (0.0f64, String::new());
    for (pose, picture) in pairs {
        let (frame, view) = (picture / count, picture % count);
        let pano = rig::pano_from_world(&description.views[view], &list.poses[pose].pose);
        match &found[frame] {
            None => found[frame] = Some(pano),
            Some(first) => {
                let between = se3::distance(first.centre(), pano.centre());
                if between > apart {
                    (apart, worst) = (between, description.frames[frame].clone());
                }
            }
        }
    }
    let centres: Vec<[f64; 3]> = found.iter().flatten().map(Pose::centre).collect();
    let extent = centres.iter().map(|c| se3::distance(*c, centres[0])).fold(0.0, f64::max);
    if apart > SAME_CENTRE * extent {
        host.warn(
            "poses",
            format!(
                "{}: {worst}: its views are up to {apart:.3} apart; the first one is used",
                path.display()
            ),
        );
    }
    Some(found)
}

/// A copy of the list with names reduced to their last parts.
fn with_last_components(list: &Trajectory, parts: usize) -> Trajectory {
    let mut list = list.clone();
    for pose in &mut list.poses {
        let name = pose.name.replace('\\', "/");
        let mut last: Vec<&str> = name.rsplit('/').take(parts).collect();
        last.reverse();
        pose.name = last.join("/");
    }
    list
}

/// Transforms a refined model back to the coordinates of the given poses: bundle adjustment is free to drift as a
/// whole.
pub(super) fn restore_coordinates(model: &mut CheckedModel, own: &AlignedPoses, given: &AlignedPoses) {
    let pairs = own.frames.iter().zip(&given.frames).filter_map(|(a, b)| Some((a.pose()?, b.pose()?)));
    let pairs: Vec<(Pose, Pose)> = pairs.collect();
    if let Ok(compared) = gausset_sfm::compare::compare(&pairs, &[]) {
        model.transform(&compared.fit);
    }
}
