//! What is known before panoramas are aligned: poses from another program, of the panoramas themselves or of their views.

use std::path::{Path, PathBuf};

use gausset_core::{Pose, se3};
use gausset_pano::export::{FramePose, Poses};
use gausset_pano::poses::matching::{self, MatchError, MatchedBy};
use gausset_pano::poses::{NamedPose, Trajectory, find};
use gausset_pano::rig;
use gausset_pano::split::Description;
use gausset_sfm::Tool;
use gausset_sfm::model::Model;

use super::align::poses_of;
use super::track::TrackChoice;
use crate::tool::{Aligner, of_colmap_alone};
use crate::{Failure, Host};

/// Views of a panorama share one centre: up to this share of the extent of all centres.
const SAME_CENTRE: f64 = 1e-3;

/// What is known before an alignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownChoice {
    /// Poses of the panoramas or their views by another program: they stay as they are, and only points are made.
    pub poses: Option<PathBuf>,
    /// Whether these, or the places of the track, are where a bundle adjustment of poses and points begins.
    pub refine: bool,
    /// The track of a receiver.
    pub track: Option<TrackChoice>,
    /// A folder with keypoints and raw matches of the views.
    pub matches: Option<PathBuf>,
    /// A database of COLMAP with both.
    pub database: Option<PathBuf>,
}

impl KnownChoice {
    /// Refuses a refinement of nothing, and with the built-in aligner what COLMAP alone can use: of a track it takes the
    /// scale and the place on the earth, but does not let the places hold the poses.
    pub(super) fn check(&self, aligner: Aligner) -> Result<(), Failure> {
        let of_colmap = [
            ("poses", self.poses.is_some()),
            ("matches", self.matches.is_some()),
            ("database", self.database.is_some()),
            ("refine", self.refine),
        ];
        match of_colmap.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) if aligner == Aligner::Own => return Err(of_colmap_alone(key)),
            _ => {}
        }
        if self.refine && self.poses.is_none() && self.track.is_none() {
            return Err(Failure::new(
                "option",
                "⟨refine⟩: has no effect without what is refined; leave it out, or take ⟨track⟩ or, of an alignment, ⟨poses⟩",
            ));
        }
        Ok(())
    }
}

/// The poses of the frames of a split, from a file of any form.
///
/// # Errors
/// Poses that cannot be read or have no name in common with the frames or their views.
pub(crate) fn poses_of_frames(
    description: &Description,
    path: &Path,
    host: &mut Host<'_>,
) -> Result<Poses, Failure> {
    let list = find::read(path)?;
    let failed = |e: MatchError| Failure::new("poses", format!("{}: names: {e}", path.display()));
    let found = match of_panoramas(&description.frames, &list) {
        Ok(found) => found,
        // Names of views have a folder, and as many of them as there are views share their stem.
        Err(first) => of_views(description, &list, path, host)?.ok_or_else(|| failed(first))?,
    };
    Ok(named(&description.frames, &found, &list, path, host))
}

/// The poses of panoramas of these names, from a file of any form.
///
/// # Errors
/// Poses that cannot be read or have no name in common with the frames.
#[cfg(feature = "masks")]
pub(crate) fn poses_of_names(frames: &[String], path: &Path, host: &mut Host<'_>) -> Result<Poses, Failure> {
    let list = find::read(path)?;
    let found = of_panoramas(frames, &list)
        .map_err(|e| Failure::new("poses", format!("{}: names: {e}", path.display())))?;
    Ok(named(frames, &found, &list, path, host))
}

/// Poses under the names of their frames.
fn named(
    frames: &[String],
    found: &[Option<Pose>],
    list: &Trajectory,
    path: &Path,
    host: &mut Host<'_>,
) -> Poses {
    if let Some(note) = &list.note {
        host.warn("poses", format!("{}: {note}", path.display()));
    }
    let frames = frames.iter().zip(found).map(|(name, pose)| FramePose {
        name: name.clone(),
        rotation: pose.map(|p| p.quaternion()),
        translation: pose.map(|p| p.translation),
    });
    Poses {
        tool: list.form.to_owned(),
        is_metric: list.is_metric,
        applied: list.applied,
        frames: frames.collect(),
        ..Poses::default()
    }
}

/// A list of names as poses to be matched with.
fn names(names: impl Iterator<Item = String>) -> Trajectory {
    let pose = |(moment, name)| NamedPose { name, pose: Pose::IDENTITY, moment };
    Trajectory { poses: (0..).zip(names).map(pose).collect(), ..Trajectory::default() }
}

fn of_panoramas(frames: &[String], list: &Trajectory) -> Result<Vec<Option<Pose>>, MatchError> {
    let pairs = matching::pairs(list, &names(frames.iter().cloned()))?;
    let mut found = vec![None; frames.len()];
    for (pose, frame) in pairs.pairs {
        found[frame] = Some(list.poses[pose].pose);
    }
    Ok(found)
}

/// Poses of panoramas from those of their views; `None` where the names are not those of views.
fn of_views(
    description: &Description,
    list: &Trajectory,
    path: &Path,
    host: &mut Host<'_>,
) -> Result<Option<Vec<Option<Pose>>>, Failure> {
    let count = description.views.len();
    let all = (0..description.frames.len() * count).map(|k| description.picture_name(k / count, k % count));
    let Ok(pairs) = matching::pairs(list, &names(all)) else { return Ok(None) };
    if !matches!(pairs.by, MatchedBy::Name | MatchedBy::NameWithoutExtension) {
        return Ok(None);
    }
    let mut found: Vec<Option<Pose>> = vec![None; description.frames.len()];
    let (mut apart, mut worst) = (0.0f64, String::new());
    for (pose, picture) in pairs.pairs {
        let (frame, view) = (picture / count, picture % count);
        let pano = rig::pano_from_world(&description.views[view], &list.poses[pose].pose);
        match &found[frame] {
            None => found[frame] = Some(pano),
            Some(first) => {
                let between = distance(first.centre(), pano.centre());
                if between > apart {
                    (apart, worst) = (between, description.frames[frame].clone());
                }
            }
        }
    }
    let centres: Vec<[f64; 3]> = found.iter().flatten().map(Pose::centre).collect();
    let extent = centres.iter().map(|c| distance(*c, centres[0])).fold(0.0, f64::max);
    if apart > SAME_CENTRE * extent {
        host.warn(
            "poses",
            format!(
                "{}: {worst}: its views stand up to {apart:.3} apart; the first one is taken",
                path.display()
            ),
        );
    }
    Ok(Some(found))
}

/// Poses that were given, with points: to the last digit as they were, or as they were refined, in the same world.
pub(super) fn with_points(
    mut model: Model,
    known: Poses,
    refined: bool,
    description: &Description,
    tool: &Tool,
    input: String,
) -> Result<(Model, Poses), Failure> {
    let found = |model: &Model| Poses {
        input: input.clone(),
        points: model.colmap.points.len() as u64,
        mean_reprojection_px: model.mean_reprojection(),
        track_length: model.track_length(),
        ..known.clone()
    };
    let by = |what: &str| format!("{}, {what} by {}", known.tool, tool.describe());
    if !refined {
        let poses = Poses { tool: by("points"), ..found(&model) };
        return Ok((model, poses));
    }
    let own = poses_of(&model, description, &tool.describe(), input.clone(), known.is_metric)?;
    let pairs = own.frames.iter().zip(&known.frames).filter_map(|(a, b)| Some((a.pose()?, b.pose()?)));
    let pairs: Vec<(Pose, Pose)> = pairs.collect();
    // An adjustment leaves the world free to drift: it is brought back to where the given poses are.
    if let Ok(compared) = gausset_sfm::compare::compare(&pairs, &[]) {
        model.transform(&compared.fit);
    }
    let own = poses_of(&model, description, &tool.describe(), input.clone(), known.is_metric)?;
    Ok((model.clone(), Poses { tool: by("refined"), frames: own.frames, ..found(&model) }))
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    se3::norm([a[0] - b[0], a[1] - b[1], a[2] - b[2]])
}
