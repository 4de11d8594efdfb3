//! From features to poses and points: matches, relative poses, averaging, then rounds of triangulation and adjustment.
//! Of pictures whose cameras are estimated as well: [`pictures`](super::pictures).

use std::borrow::Borrow;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;
use gausset_core::Pose;
use gausset_core::matrix::{Mat3, mul_vec, transpose_mul_vec};

use crate::pair_list::PairChoice;
use crate::reconstruction::adjust::{BundleProblem, Observation, Target};
use crate::reconstruction::features::Features;
use crate::reconstruction::graph_fit::{components, largest_component};
use crate::reconstruction::matches::{self, WideDescriptors};
use crate::reconstruction::pairs::{self, PairHints};
use crate::reconstruction::picture::Pictures;
use crate::reconstruction::pictures::adjusted_cameras;
use crate::reconstruction::positions::{self, DirectedPair, compact_indices};
use crate::reconstruction::rotations::{self, RelativeRotation};
use crate::reconstruction::tracks::{Ray, TrackElement, build_tracks, triangulate};
use crate::reconstruction::two_view::{self, RelativePose};

/// Options that influence the result.
#[derive(Clone, Copy, Debug)]
pub struct ReconstructionOptions {
    /// Largest angle between a bearing and its prediction, radians.
    pub tolerance: f64,
    /// Whether neighbours in the list were taken in succession.
    pub is_sequence: bool,
    /// Seed of RANSAC.
    pub seed: u32,
}

/// A stage of the reconstruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Selecting the pairs to match, by frame.
    Pairs,
    /// Matching pairs of panoramas.
    Matching,
    /// Estimating poses and points.
    Mapping,
}

/// Progress of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The stage that the counts are of.
    pub stage: Stage,
    /// Units of work done.
    pub done: usize,
    /// Units of work in total.
    pub total: usize,
}

/// Keeps matches, so that an interrupted reconstruction resumes.
pub trait MatchStore: Sync {
    /// The matches of a frame with each of its partners, if they are known.
    fn load(&self, frame: usize, partners: &[usize]) -> Option<Vec<Vec<[u32; 2]>>>;
    /// Keeps these matches.
    fn save(&self, frame: usize, partners: &[usize], matches: &[Vec<[u32; 2]>]);
}

/// The caller set the stop flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// A landmark with its observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Landmark {
    /// Position in the world.
    pub position: [f64; 3],
    /// Observations: indices of panorama and feature, ascending by panorama; at least two.
    pub observations: Vec<[u32; 2]>,
}

/// Poses and points in one world. The median baseline between panoramas that share features is about 1; the axes are
/// those of the first panorama with a pose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reconstruction {
    /// `pano_from_world` of each panorama; `None` if it was not registered.
    pub poses: Vec<Option<Pose>>,
    /// Landmarks with their observations.
    pub landmarks: Vec<Landmark>,
    /// Pairs of panoramas with verified matches, whether their poses agree with them or not.
    pub pairs: Vec<[usize; 2]>,
    /// Number of panoramas with which each was matched.
    pub tried: Vec<usize>,
}

/// Largest difference between a relative rotation and the averaged ones, radians.
const MAX_ROTATION_RESIDUAL: f64 = 3.0 * std::f64::consts::PI / 180.0;
/// Least triangulation angle of a point, radians.
const MIN_TRIANGULATION_ANGLE: f64 = 1.5 * std::f64::consts::PI / 180.0;
/// Least number of observations of a panorama that keeps its pose.
const MIN_OBSERVATIONS: usize = 20;

/// Tolerances of the rounds in units of the final one, and the adjustment steps of each round.
const ROUNDS: [(f64, usize); 4] = [(4.0, 15), (2.0, 15), (1.0, 20), (1.0, 30)];

/// Estimates poses and points from the features of panoramas; `tell` is called with the progress. Matches in `store`
/// are not made again.
///
/// # Errors
/// The stop flag was set.
pub fn reconstruct(
    frames: &[Features],
    options: ReconstructionOptions,
    store: Option<&dyn MatchStore>,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Reconstruction, Stopped> {
    let hints = PairHints { near: &[], is_sequence: options.is_sequence };
    let matched = match_pairs(frames, (&PairChoice::Auto, hints), store, exec, stop, tell)?;
    let tried = tried_pairs(frames.len(), &matched);
    let of_pair = |_: usize, _: usize| options.tolerance;
    let mut verified = verify_pairs(frames, &matched, (&of_pair, options.seed), exec, stop)?;
    let pairs: Vec<[usize; 2]> = verified.iter().map(|v| [v.a, v.b]).collect();
    let mut report = |done| tell(Progress { stage: Stage::Mapping, done, total: 1 + ROUNDS.len() });
    report(0);
    let Some(mut poses) = initial_poses(frames, &mut verified, &of_pair, stop) else {
        return Ok(Reconstruction { poses: vec![None; frames.len()], landmarks: Vec::new(), pairs, tried });
    };
    // Best first, so that tracks begin with the most reliable matches.
    verified.sort_by_key(|v| std::cmp::Reverse(v.matches.len()));
    let counts: Vec<usize> = frames.iter().map(|frame| frame.features.len()).collect();
    let tracks = build_tracks(&counts, verified.iter().map(|v| ([v.a, v.b], &v.matches[..])));
    for (round, (factor, steps)) in ROUNDS.into_iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        report(1 + round);
        let mut points = triangulate_tracks(&tracks, frames, &poses, &|_| factor * options.tolerance, exec);
        drop_weak_poses(&mut poses, &mut points);
        adjust(&mut poses, &mut points, frames, None, 0.5 * options.tolerance, steps, exec, stop);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped);
    }
    // Removes observations whose error the last adjustment has raised above the tolerance.
    let mut points = triangulate_tracks(&tracks, frames, &poses, &|_| options.tolerance, exec);
    drop_weak_poses(&mut poses, &mut points);
    report(1 + ROUNDS.len());
    Ok(Reconstruction { poses, landmarks: points, pairs, tried })
}

/// A pair with its matches.
pub(super) struct MatchedPair {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) matches: Vec<[u32; 2]>,
}

/// A pair with a verified relative pose.
#[derive(Clone)]
pub(super) struct VerifiedPair {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) relative: RelativePose,
    pub(super) matches: Vec<[u32; 2]>,
}

pub(super) fn bearing(frames: &[Features], frame: usize, feature: u32) -> [f64; 3] {
    frames[frame].features[feature as usize].bearing
}

/// Matches the chosen pairs of frames.
pub(super) fn match_pairs(
    frames: &[Features],
    (choice, hints): (&PairChoice, PairHints<'_>),
    store: Option<&dyn MatchStore>,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Vec<MatchedPair>, Stopped> {
    let pairs = match choice {
        PairChoice::Auto => pairs::select_pairs(frames, hints, exec, stop, tell),
        PairChoice::All => pairs::all_pairs(frames.len()),
        PairChoice::Listed(pairs) => pairs.clone(),
    };
    let mut matched = Vec::with_capacity(pairs.len());
    for of_frame in pairs.chunk_by(|[a, _], [b, _]| a == b) {
        let a = of_frame[0][0];
        let partners: Vec<usize> = of_frame.iter().map(|[_, b]| *b).collect();
        let mut tell = |done| tell(Progress { stage: Stage::Matching, done, total: pairs.len() });
        let matches = match store.and_then(|store| store.load(a, &partners)) {
            Some(matches) => matches,
            None => {
                let mut matches = Vec::with_capacity(partners.len());
                let one = WideDescriptors::new(&frames[a].descriptors);
                for &b in &partners {
                    if stop.load(Ordering::Relaxed) {
                        return Err(Stopped);
                    }
                    tell(matched.len() + matches.len());
                    let other = WideDescriptors::new(&frames[b].descriptors);
                    matches.push(matches::mutual_matches(&one, &other, exec));
                }
                if let Some(store) = store {
                    store.save(a, &partners, &matches);
                }
                matches
            }
        };
        matched.extend(partners.into_iter().zip(matches).map(|(b, matches)| MatchedPair { a, b, matches }));
    }
    Ok(matched)
}

/// Number of frames with which each was matched.
pub(super) fn tried_pairs(count: usize, matched: &[MatchedPair]) -> Vec<usize> {
    let mut tried = vec![0; count];
    matched.iter().flat_map(|pair| [pair.a, pair.b]).for_each(|frame| tried[frame] += 1);
    tried
}

/// Largest angle between a bearing of a frame and its prediction, radians.
pub(super) type FrameTolerance<'a> = &'a (dyn Fn(usize) -> f64 + Sync);
/// The same between bearings of two frames.
pub(super) type PairTolerance<'a> = &'a (dyn Fn(usize, usize) -> f64 + Sync);

/// The pairs with a relative pose, and the matches that agree with it.
pub(super) fn verify_pairs<P: Borrow<MatchedPair> + Sync>(
    frames: &[Features],
    matched: &[P],
    (tolerance, seed): (PairTolerance<'_>, u32),
    exec: Exec<'_>,
    stop: &AtomicBool,
) -> Result<Vec<VerifiedPair>, Stopped> {
    let found = exec.pool.map(matched.len(), |index| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let MatchedPair { a, b, matches } = matched[index].borrow();
        let rays: Vec<[[f64; 3]; 2]> =
            matches.iter().map(|&[i, j]| [bearing(frames, *a, i), bearing(frames, *b, j)]).collect();
        let relative =
            two_view::estimate_relative_pose(&rays, tolerance(*a, *b), [seed, index as u32], exec.level)?;
        let matches = relative.inliers.iter().map(|&k| matches[k as usize]).collect();
        Some(VerifiedPair { a: *a, b: *b, relative, matches })
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped);
    }
    Ok(found.into_iter().flatten().collect())
}

/// Poses of the frames of the largest component; pairs outside it and pairs that contradict them are removed.
pub(super) fn initial_poses(
    frames: &[Features],
    verified: &mut Vec<VerifiedPair>,
    tolerance: PairTolerance<'_>,
    stop: &AtomicBool,
) -> Option<Vec<Option<Pose>>> {
    let is_in = largest_component(&components(frames.len(), verified.iter().map(|v| [v.a, v.b])));
    verified.retain(|v| is_in[v.a]);
    if verified.is_empty() {
        return None;
    }
    let (rotations, centres) = poses_of(frames, verified, &is_in, tolerance, stop)?;
    let pose = |(rotation, centre): (&Mat3, &Option<[f64; 3]>)| {
        let moved = mul_vec(rotation, (*centre)?);
        Some(Pose { rotation: *rotation, translation: moved.map(|v| -v) })
    };
    Some(rotations.iter().zip(&centres).map(pose).collect())
}

/// Rotations and centres of the panoramas of a connected component; pairs that contradict them are removed.
#[allow(clippy::type_complexity)]
fn poses_of(
    frames: &[Features],
    verified: &mut Vec<VerifiedPair>,
    is_in: &[bool],
    tolerance: PairTolerance<'_>,
    stop: &AtomicBool,
) -> Option<(Vec<Mat3>, Vec<Option<[f64; 3]>>)> {
    let places = compact_indices(is_in);
    let count = is_in.iter().filter(|is_in| **is_in).count();
    let edges: Vec<RelativeRotation> = verified
        .iter()
        .filter_map(|v| {
            let (from, to) = (places[v.a]?, places[v.b]?);
            Some(RelativeRotation { from, to, rotation: v.relative.rotation, inliers: v.matches.len() })
        })
        .collect();
    let (averaged, off) = rotations::average_rotations(count, &edges, stop);
    let mut keep = off.iter().map(|off| *off < MAX_ROTATION_RESIDUAL);
    verified.retain(|_| keep.next().unwrap_or(false));
    let identity = gausset_core::matrix::IDENTITY3;
    let rotations: Vec<Mat3> = places.iter().map(|place| place.map_or(identity, |k| averaged[k])).collect();
    let pair = |v: &VerifiedPair| DirectedPair {
        from: v.a,
        to: v.b,
        // t = R_b (c_a - c_b).
        direction: transpose_mul_vec(&rotations[v.b], v.relative.direction).map(|v| -v),
        is_rotation: v.relative.is_pure_rotation,
        matches: v.matches.clone(),
    };
    let pairs: Vec<DirectedPair> = verified.iter().map(pair).collect();
    let bearing = |frame: usize, feature| bearing(frames, frame, feature);
    let centres = positions::average_positions(&rotations, &pairs, tolerance, &bearing, stop)?;
    Some((rotations, centres))
}

/// Triangulates the points of tracks.
pub(super) fn triangulate_tracks(
    tracks: &[Vec<TrackElement>],
    frames: &[Features],
    poses: &[Option<Pose>],
    tolerance: FrameTolerance<'_>,
    exec: Exec<'_>,
) -> Vec<Landmark> {
    /// Tracks per task.
    const PART: usize = 512;
    let centres: Vec<Option<[f64; 3]>> = poses.iter().map(|pose| pose.map(|pose| pose.centre())).collect();
    let point = |track: &Vec<TrackElement>| {
        let seen: Vec<(TrackElement, Ray)> = track
            .iter()
            .filter_map(|sight| {
                let frame = sight.frame as usize;
                let (pose, centre) = (poses[frame]?, centres[frame]?);
                Some((
                    *sight,
                    Ray::new(&pose, centre, bearing(frames, frame, sight.feature), tolerance(frame)),
                ))
            })
            .collect();
        let rays: Vec<Ray> = seen.iter().map(|(_, ray)| *ray).collect();
        let (position, used) = triangulate(&rays, MIN_TRIANGULATION_ANGLE)?;
        let sights = used.iter().map(|&k| [seen[k].0.frame, seen[k].0.feature]).collect();
        Some(Landmark { position, observations: sights })
    };
    let found = exec.pool.map(tracks.len().div_ceil(PART), |part| {
        tracks.iter().skip(part * PART).take(PART).filter_map(point).collect::<Vec<Landmark>>()
    });
    found.into_iter().flatten().collect()
}

/// Removes the poses of panoramas with too few observations, and their observations, until all have enough.
pub(super) fn drop_weak_poses(poses: &mut [Option<Pose>], points: &mut Vec<Landmark>) {
    loop {
        let mut seen = vec![0usize; poses.len()];
        points.iter().flat_map(|point| &point.observations).for_each(|&[frame, _]| seen[frame as usize] += 1);
        let lonely = |frame: usize| seen[frame] < MIN_OBSERVATIONS;
        if !(0..poses.len()).any(|frame| poses[frame].is_some() && lonely(frame)) {
            return;
        }
        (0..poses.len()).filter(|&frame| lonely(frame)).for_each(|frame| poses[frame] = None);
        for point in points.iter_mut() {
            point.observations.retain(|&[frame, _]| !lonely(frame as usize));
        }
        points.retain(|point| point.observations.len() > 1);
    }
}

/// Bundle adjustment; of pictures with their cameras, if these are adjusted. `huber` is in radians, or for pictures
/// in px of those that were reduced the most.
#[allow(clippy::too_many_arguments)]
pub(super) fn adjust(
    poses: &mut [Option<Pose>],
    points: &mut [Landmark],
    frames: &[Features],
    pictures: Option<(&mut Pictures, bool)>,
    huber: f64,
    steps: usize,
    exec: Exec<'_>,
    stop: &AtomicBool,
) {
    let places = compact_indices(&poses.iter().map(Option::is_some).collect::<Vec<bool>>());
    let sights =
        (0u32..).zip(points.iter()).flat_map(|(point, p)| p.observations.iter().map(move |s| (point, *s)));
    let target = |frame: usize, feature: u32| match &pictures {
        None => Target::Bearing(bearing(frames, frame, feature)),
        Some((pictures, _)) => Target::Pixel {
            camera: pictures.camera_of[frame],
            pixel: frames[frame].features[feature as usize].pixel,
        },
    };
    let observation = |(point, [frame, feature]): (u32, [u32; 2])| {
        let pose = places[frame as usize]? as u32;
        Some(Observation { pose, point, target: target(frame as usize, feature) })
    };
    let mut problem = BundleProblem {
        poses: poses.iter().flatten().copied().collect(),
        points: points.iter().map(|point| point.position).collect(),
        observations: sights.filter_map(observation).collect(),
        cameras: pictures
            .as_ref()
            .map(|(pictures, free)| adjusted_cameras(pictures, *free))
            .unwrap_or_default(),
    };
    problem.minimise(huber, steps, exec, stop);
    for (pose, adjusted) in poses.iter_mut().flatten().zip(problem.poses) {
        *pose = adjusted;
    }
    for (point, adjusted) in points.iter_mut().zip(problem.points) {
        point.position = adjusted;
    }
    if let Some((pictures, _)) = pictures {
        for (camera, adjusted) in pictures.cameras.iter_mut().zip(problem.cameras) {
            *camera = adjusted.camera;
        }
    }
}
