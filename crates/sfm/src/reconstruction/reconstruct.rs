//! From features to poses and points: matches, relative poses, averaging, then rounds of triangulation and adjustment.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;
use gausset_core::Pose;
use gausset_core::matrix::{Mat3, mul, mul_vec, transpose, transpose_mul_vec};

use crate::reconstruction::adjust::{AdjustedCamera, BundleProblem, Observation, Target};
use crate::reconstruction::features::Features;
use crate::reconstruction::focal::{DEFAULT_FOCAL, estimate_focal};
use crate::reconstruction::graph_fit::{components, largest_component};
use crate::reconstruction::matches::{self, WideDescriptors};
use crate::reconstruction::pairs;
use crate::reconstruction::picture::{CAMERA_PARAMETERS, CameraPrior, PictureCamera, Pictures};
use crate::reconstruction::positions::{self, DirectedPair, compact_indices};
use crate::reconstruction::resection::{Sight, resect};
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
}

/// Largest difference between a relative rotation and the averaged ones, radians.
const MAX_ROTATION_RESIDUAL: f64 = 3.0 * std::f64::consts::PI / 180.0;
/// Least triangulation angle of a point, radians.
const MIN_TRIANGULATION_ANGLE: f64 = 1.5 * std::f64::consts::PI / 180.0;
/// Least number of observations of a panorama that keeps its pose.
const MIN_OBSERVATIONS: usize = 20;

/// Tolerances of the rounds in units of the final one, and the adjustment steps of each round.
const ROUNDS: [(f64, usize); 4] = [(4.0, 15), (2.0, 15), (1.0, 20), (1.0, 30)];

/// Estimates poses and points from the features of panoramas; `tell` is called with the progress.
///
/// # Errors
/// The stop flag was set.
pub fn reconstruct(
    frames: &[Features],
    options: ReconstructionOptions,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Reconstruction, Stopped> {
    let matched = match_pairs(frames, &[], options, exec, stop, tell)?;
    let mut verified = verify_pairs(frames, &matched, options, exec, stop)?;
    let pairs: Vec<[usize; 2]> = verified.iter().map(|v| [v.a, v.b]).collect();
    let mut report = |done| tell(Progress { stage: Stage::Mapping, done, total: 1 + ROUNDS.len() });
    report(0);
    let Some(mut poses) = initial_poses(frames, &mut verified, options.tolerance) else {
        return Ok(Reconstruction { poses: vec![None; frames.len()], landmarks: Vec::new(), pairs });
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
        let mut points = triangulate_tracks(&tracks, frames, &poses, factor * options.tolerance, exec);
        drop_weak_poses(&mut poses, &mut points);
        adjust(&mut poses, &mut points, frames, None, 0.5 * options.tolerance, steps, exec, stop);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped);
    }
    // Removes observations whose error the last adjustment has raised above the tolerance.
    let mut points = triangulate_tracks(&tracks, frames, &poses, options.tolerance, exec);
    drop_weak_poses(&mut poses, &mut points);
    report(1 + ROUNDS.len());
    Ok(Reconstruction { poses, landmarks: points, pairs })
}

/// Tolerances of the rounds of pictures in units of the final one, the adjustment steps of each, and whether cameras are
/// adjusted. Pictures that are not registered are tried after each round.
const PICTURE_ROUNDS: [(f64, usize, bool); 6] =
    [(8.0, 10, false), (8.0, 15, true), (4.0, 15, true), (2.0, 15, true), (1.0, 20, true), (1.0, 30, true)];
/// Tolerance of pairs of pictures in units of the final one: before the lenses are known, and before the focal lengths
/// are.
const UNKNOWN_LENS: f64 = 2.0;
const UNKNOWN_FOCAL: f64 = 4.0;
/// Standard deviations of what is expected of a camera: of ln f from metadata, of ln f without, of k1 and k2.
const FOCAL_DEVIATIONS: [f64; 2] = [0.1, 0.5];
const RADIAL_DEVIATION: f64 = 0.3;
/// Focal lengths that are tried if pairs do not tell them (parallel axes, a plane), relative to the longest side, and
/// the number of pairs.
const FOCALS_TRIED: [f64; 5] = [0.6, 0.8, 1.0, DEFAULT_FOCAL, 1.8];
const PAIRS_TRIED: usize = 40;
/// Matched pictures whose rotation is tried for one that is not registered.
const NEIGHBOURS_TRIED: usize = 6;

/// As [`reconstruct`], for pictures of cameras that are estimated as well. Features must have their positions in the
/// stored picture; their bearings are set. `tolerance` is in px of the stored picture.
///
/// # Errors
/// The stop flag was set.
pub fn reconstruct_pictures(
    frames: &mut [Features],
    pictures: &mut Pictures,
    options: ReconstructionOptions,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Reconstruction, Stopped> {
    let sharpest = |pictures: &Pictures| pictures.cameras.iter().map(|c| c.focal).fold(1.0, f64::max);
    let within = |factor: f64, focal: f64| ReconstructionOptions {
        tolerance: factor * options.tolerance / focal,
        ..options
    };
    set_bearings(frames, pictures);
    let matched = match_pairs(frames, &pictures.near, options, exec, stop, tell)?;
    let mut report = |done| tell(Progress { stage: Stage::Mapping, done, total: 2 + PICTURE_ROUNDS.len() });
    report(0);
    if pictures.priors.iter().any(|prior| prior.focal.is_none()) {
        let loose = within(UNKNOWN_FOCAL, sharpest(pictures));
        let verified = verify_pairs(frames, &matched, loose, exec, stop)?;
        let open = estimate_focals(frames, pictures, &verified);
        set_bearings(frames, pictures);
        if !open.is_empty() {
            choose_focals(
                frames,
                pictures,
                &open,
                &matched,
                &|factor, focal| within(factor, focal),
                exec,
                stop,
            )?;
        }
    }
    report(1);
    let lens = within(UNKNOWN_LENS, sharpest(pictures));
    let mut verified = verify_pairs(frames, &matched, lens, exec, stop)?;
    let pairs: Vec<[usize; 2]> = verified.iter().map(|v| [v.a, v.b]).collect();
    let rotations: Vec<MatchedRotation> =
        verified.iter().map(|v| ([v.a, v.b], v.relative.rotation, v.matches.len())).collect();
    let mut others = verified.clone();
    let Some(mut poses) = initial_poses(frames, &mut verified, lens.tolerance) else {
        return Ok(Reconstruction { poses: vec![None; frames.len()], landmarks: Vec::new(), pairs });
    };
    // Tracks begin with the pairs that agree on the poses. The others reach the frames that have none yet.
    let agree: BTreeSet<[usize; 2]> = verified.iter().map(|v| [v.a, v.b]).collect();
    others.retain(|v| !agree.contains(&[v.a, v.b]));
    for pairs in [&mut verified, &mut others] {
        pairs.sort_by_key(|v| std::cmp::Reverse(v.matches.len()));
    }
    let counts: Vec<usize> = frames.iter().map(|frame| frame.features.len()).collect();
    let reliable_first = verified.iter().chain(&others);
    let tracks = build_tracks(&counts, reliable_first.map(|v| ([v.a, v.b], &v.matches[..])));
    for (round, (factor, steps, adjusts_cameras)) in PICTURE_ROUNDS.into_iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        report(2 + round);
        let tolerance = within(factor, sharpest(pictures)).tolerance;
        let mut points = triangulate_tracks(&tracks, frames, &poses, tolerance, exec);
        drop_weak_poses(&mut poses, &mut points);
        let huber = 0.5 * options.tolerance;
        adjust(&mut poses, &mut points, frames, Some((pictures, adjusts_cameras)), huber, steps, exec, stop);
        set_bearings(frames, pictures);
        let tolerance = within(factor.max(2.0), sharpest(pictures)).tolerance;
        register_missing(&mut poses, &points, &tracks, frames, &rotations, (tolerance, options.seed));
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped);
    }
    let mut points =
        triangulate_tracks(&tracks, frames, &poses, within(1.0, sharpest(pictures)).tolerance, exec);
    drop_weak_poses(&mut poses, &mut points);
    report(2 + PICTURE_ROUNDS.len());
    Ok(Reconstruction { poses, landmarks: points, pairs })
}

fn set_bearings(frames: &mut [Features], pictures: &Pictures) {
    for (frame, features) in frames.iter_mut().enumerate() {
        let camera = pictures.camera(frame);
        features.features.iter_mut().for_each(|feature| feature.bearing = camera.bearing(feature.pixel));
    }
}

/// Of cameras whose focal lengths pairs leave open, tries some for the pairs with the most matches, and keeps that with
/// the most verified ones.
fn choose_focals(
    frames: &mut [Features],
    pictures: &mut Pictures,
    open: &[usize],
    matched: &[MatchedPair],
    within: &dyn Fn(f64, f64) -> ReconstructionOptions,
    exec: Exec<'_>,
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    let mut pairs: Vec<&MatchedPair> = matched.iter().collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.matches.len()));
    pairs.truncate(PAIRS_TRIED);
    let mut best: Option<(usize, f64)> = None;
    for relative in FOCALS_TRIED {
        for &camera in open {
            pictures.cameras[camera].focal = relative * pictures.cameras[camera].longest_side();
        }
        set_bearings(frames, pictures);
        let sharpest = pictures.cameras.iter().map(|c| c.focal).fold(1.0, f64::max);
        let verified = verify_pairs(frames, &pairs, within(1.0, sharpest), exec, stop)?;
        let count = verified.iter().map(|pair| pair.matches.len()).sum();
        if best.is_none_or(|(most, _)| count > most) {
            best = Some((count, relative));
        }
    }
    for &camera in open {
        let relative = best.map_or(DEFAULT_FOCAL, |(_, relative)| relative);
        pictures.cameras[camera].focal = relative * pictures.cameras[camera].longest_side();
    }
    set_bearings(frames, pictures);
    Ok(())
}

/// Sets the focal lengths of cameras without metadata; returns the cameras of which pairs do not tell it.
fn estimate_focals(frames: &[Features], pictures: &mut Pictures, verified: &[VerifiedPair]) -> Vec<usize> {
    let mut open = Vec::new();
    for camera in 0..pictures.cameras.len() {
        if pictures.priors[camera].focal.is_some() {
            continue;
        }
        let is_of = |frame: usize| pictures.camera_of[frame] as usize == camera;
        let side = pictures.cameras[camera].longest_side();
        let [cx, cy] =
            [pictures.cameras[camera].width, pictures.cameras[camera].height].map(|v| 0.5 * f64::from(v));
        let place = |frame: usize, feature: u32| {
            let [x, y] = frames[frame].features[feature as usize].pixel;
            [(x - cx) / side, (y - cy) / side]
        };
        let pairs: Vec<Vec<[[f64; 2]; 2]>> = verified
            .iter()
            .filter(|v| is_of(v.a) && is_of(v.b) && !v.relative.is_pure_rotation)
            .map(|v| v.matches.iter().map(|&[i, j]| [place(v.a, i), place(v.b, j)]).collect())
            .collect();
        match estimate_focal(&pairs) {
            Some(focal) => pictures.cameras[camera].focal = side * focal,
            None => open.push(camera),
        }
    }
    open
}

/// Rotation `b_from_a` of pairs [a, b], with their numbers of matches.
type MatchedRotation = ([usize; 2], Mat3, usize);

/// Registers pictures without a pose that see enough landmarks.
fn register_missing(
    poses: &mut [Option<Pose>],
    points: &[Landmark],
    tracks: &[Vec<TrackElement>],
    frames: &[Features],
    matched: &[MatchedRotation],
    (tolerance, seed): (f64, u32),
) {
    if poses.iter().all(Option::is_some) {
        return;
    }
    // The landmark of each feature of a registered picture.
    let mut landmark_of: Vec<Vec<u32>> = frames.iter().map(|f| vec![u32::MAX; f.features.len()]).collect();
    for (number, point) in (0u32..).zip(points) {
        for &[frame, feature] in &point.observations {
            landmark_of[frame as usize][feature as usize] = number;
        }
    }
    let mut sights: Vec<Vec<Sight>> = vec![Vec::new(); frames.len()];
    for track in tracks {
        let known = track.iter().map(|e| landmark_of[e.frame as usize][e.feature as usize]);
        let Some(landmark) = known.into_iter().find(|number| *number != u32::MAX) else { continue };
        for element in track.iter().filter(|e| poses[e.frame as usize].is_none()) {
            let bearing = bearing(frames, element.frame as usize, element.feature);
            let position = points[landmark as usize].position;
            sights[element.frame as usize].push(Sight { bearing, position });
        }
    }
    let mut found = Vec::new();
    for frame in (0..frames.len()).filter(|&frame| poses[frame].is_none()) {
        let mut neighbours: Vec<(usize, Mat3)> = matched
            .iter()
            .filter_map(|([a, b], rotation, count)| {
                let (other, relative) = match (*a == frame, *b == frame) {
                    (true, _) => (*b, transpose(rotation)),
                    (_, true) => (*a, *rotation),
                    _ => return None,
                };
                Some((*count, mul(&relative, &poses[other]?.rotation)))
            })
            .collect();
        neighbours.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let rotations: Vec<Mat3> = neighbours.into_iter().take(NEIGHBOURS_TRIED).map(|(_, r)| r).collect();
        if let Some(pose) = resect(&sights[frame], &rotations, tolerance, [seed, frame as u32]) {
            found.push((frame, pose));
        }
    }
    for (frame, pose) in found {
        poses[frame] = Some(pose);
    }
}

/// A pair with its matches.
struct MatchedPair {
    a: usize,
    b: usize,
    matches: Vec<[u32; 2]>,
}

/// A pair with a verified relative pose.
#[derive(Clone)]
struct VerifiedPair {
    a: usize,
    b: usize,
    relative: RelativePose,
    matches: Vec<[u32; 2]>,
}

fn bearing(frames: &[Features], frame: usize, feature: u32) -> [f64; 3] {
    frames[frame].features[feature as usize].bearing
}

/// Matches pairs of frames.
fn match_pairs(
    frames: &[Features],
    near: &[[usize; 2]],
    options: ReconstructionOptions,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Vec<MatchedPair>, Stopped> {
    let pairs = pairs::select_pairs(frames, near, options.is_sequence, exec, stop);
    let mut matched = Vec::with_capacity(pairs.len());
    let mut first: Option<(usize, WideDescriptors)> = None;
    for (done, &[a, b]) in pairs.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        tell(Progress { stage: Stage::Matching, done, total: pairs.len() });
        if first.as_ref().is_none_or(|(known, _)| *known != a) {
            first = Some((a, WideDescriptors::new(&frames[a].descriptors)));
        }
        let Some((_, one)) = &first else { continue };
        let matches = matches::mutual_matches(one, &WideDescriptors::new(&frames[b].descriptors), exec);
        matched.push(MatchedPair { a, b, matches });
    }
    Ok(matched)
}

/// The pairs with a relative pose, and the matches that agree with it.
fn verify_pairs<P: Borrow<MatchedPair> + Sync>(
    frames: &[Features],
    matched: &[P],
    options: ReconstructionOptions,
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
        let relative = two_view::estimate_relative_pose(
            &rays,
            options.tolerance,
            [options.seed, index as u32],
            exec.level,
        )?;
        let matches = relative.inliers.iter().map(|&k| matches[k as usize]).collect();
        Some(VerifiedPair { a: *a, b: *b, relative, matches })
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped);
    }
    Ok(found.into_iter().flatten().collect())
}

/// Poses of the frames of the largest component; pairs outside it and pairs that contradict them are removed.
fn initial_poses(
    frames: &[Features],
    verified: &mut Vec<VerifiedPair>,
    tolerance: f64,
) -> Option<Vec<Option<Pose>>> {
    let is_in = largest_component(&components(frames.len(), verified.iter().map(|v| [v.a, v.b])));
    verified.retain(|v| is_in[v.a]);
    if verified.is_empty() {
        return None;
    }
    let (rotations, centres) = poses_of(frames, verified, &is_in, tolerance)?;
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
    tolerance: f64,
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
    let (averaged, off) = rotations::average_rotations(count, &edges);
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
    let centres = positions::average_positions(&rotations, &pairs, tolerance, &|frame, feature| {
        bearing(frames, frame, feature)
    })?;
    Some((rotations, centres))
}

/// Triangulates the points of tracks.
fn triangulate_tracks(
    tracks: &[Vec<TrackElement>],
    frames: &[Features],
    poses: &[Option<Pose>],
    tolerance: f64,
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
                Some((*sight, Ray::new(&pose, centre, bearing(frames, frame, sight.feature))))
            })
            .collect();
        let rays: Vec<Ray> = seen.iter().map(|(_, ray)| *ray).collect();
        let (position, used) = triangulate(&rays, tolerance, MIN_TRIANGULATION_ANGLE)?;
        let sights = used.iter().map(|&k| [seen[k].0.frame, seen[k].0.feature]).collect();
        Some(Landmark { position, observations: sights })
    };
    let found = exec.pool.map(tracks.len().div_ceil(PART), |part| {
        tracks.iter().skip(part * PART).take(PART).filter_map(point).collect::<Vec<Landmark>>()
    });
    found.into_iter().flatten().collect()
}

/// Removes the poses of panoramas with too few observations, and their observations, until all have enough.
fn drop_weak_poses(poses: &mut [Option<Pose>], points: &mut Vec<Landmark>) {
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

/// Bundle adjustment; of pictures with their cameras, if these are adjusted. `huber` is in radians, or in px for pictures.
#[allow(clippy::too_many_arguments)]
fn adjust(
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
    problem.minimise(huber, steps, exec.pool, stop);
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

fn adjusted_cameras(pictures: &Pictures, is_free: bool) -> Vec<AdjustedCamera> {
    let adjusted = |(camera, prior): (&PictureCamera, &CameraPrior)| {
        let [known, unknown] = FOCAL_DEVIATIONS;
        let (focal, deviation) = match prior.focal {
            Some(focal) => (focal, known),
            None => (DEFAULT_FOCAL * camera.longest_side(), unknown),
        };
        let weight = |deviation: f64| 1.0 / (deviation * deviation);
        AdjustedCamera {
            camera: *camera,
            expected: [libm::log(focal), 0.0, 0.0],
            weights: [weight(deviation), weight(RADIAL_DEVIATION), weight(RADIAL_DEVIATION)],
            free: if is_free { (1 + prior.coefficients).min(CAMERA_PARAMETERS) } else { 0 },
        }
    };
    pictures.cameras.iter().zip(&pictures.priors).map(adjusted).collect()
}
