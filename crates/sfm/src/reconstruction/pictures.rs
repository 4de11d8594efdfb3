//! [`reconstruct`](super::reconstruct) for pictures of cameras that are estimated as well: focal lengths first, then rounds
//! that also adjust cameras and register pictures that have no pose yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;
use gausset_core::Pose;
use gausset_core::matrix::{Mat3, mul, transpose};
use gausset_io::dataset::CameraModel;

use crate::reconstruction::adjust::AdjustedCamera;
use crate::reconstruction::features::Features;
use crate::reconstruction::focal::estimate_focal;
use crate::reconstruction::pairs::PairHints;
use crate::reconstruction::picture::{CAMERA_PARAMETERS, FOCALS_TRIED, PictureCamera, Pictures};
use crate::reconstruction::reconstruct::{
    Landmark, MatchStore, MatchedPair, PairTolerance, Progress, Reconstruction, ReconstructionOptions, Stage,
    Stopped, VerifiedPair, adjust, bearing, drop_weak_poses, initial_poses, match_pairs, triangulate_tracks,
    tried_pairs, verify_pairs,
};
use crate::reconstruction::resection::{Sight, resect};
use crate::reconstruction::tracks::{TrackElement, build_tracks};
use crate::reconstruction::two_view;

/// Tolerances of the rounds of pictures in units of the final one, the most adjustment steps of each, and whether cameras
/// are adjusted. Pictures that are not registered are tried after each round. A dozen steps are usual; where focal length
/// and distance are nearly interchangeable (views straight down), there are several times as many.
const PICTURE_ROUNDS: [(f64, usize, bool); 6] =
    [(8.0, 10, false), (8.0, 60, true), (4.0, 60, true), (2.0, 60, true), (1.0, 60, true), (1.0, 100, true)];
/// Round, counted from 0, before which matches are chosen again, by the poses and cameras of the rounds before.
const MATCHES_AGAIN: usize = 2;
/// Round before which lenses that one parameter of distortion does not describe get a second one.
const LENSES_AGAIN: usize = 3;
/// Tolerance of pairs of pictures in units of the final one: with lenses that are not exact, and with focal lengths that
/// are not known.
const UNKNOWN_LENS: f64 = 2.0;
const UNKNOWN_FOCAL: f64 = 4.0;
/// Standard deviations that are expected of ln f: from metadata, and without.
const FOCAL_DEVIATIONS: [f64; 2] = [0.1, 0.5];
/// Number of pairs on which focal lengths are tried where pairs do not tell them (parallel axes, a plane, a fisheye lens).
const PAIRS_TRIED: usize = 40;
/// Matched pictures whose rotation is tried for one that is not registered.
const NEIGHBOURS_TRIED: usize = 6;

/// As [`reconstruct`](super::reconstruct()), for pictures of cameras that are estimated as well. Features must have their positions in the
/// stored picture; their bearings are set. `tolerance` is in px of the reduced picture.
///
/// # Errors
/// The stop flag was set.
pub fn reconstruct_pictures(
    frames: &mut [Features],
    pictures: &mut Pictures,
    options: ReconstructionOptions,
    store: Option<&dyn MatchStore>,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Reconstruction, Stopped> {
    let within = |pictures: &Pictures, factor: f64| Angles::new(pictures, factor, options.tolerance);
    set_bearings(frames, pictures);
    let hints = PairHints { near: &pictures.near, is_sequence: options.is_sequence };
    let matched = match_pairs(frames, (&pictures.pairs, hints), store, exec, stop, tell)?;
    let tried = tried_pairs(frames.len(), &matched);
    let mut report = |done| tell(Progress { stage: Stage::Mapping, done, total: 2 + PICTURE_ROUNDS.len() });
    report(0);
    if pictures.known_focals.iter().any(Option::is_none) {
        let loose = within(pictures, UNKNOWN_FOCAL);
        let verified =
            verify_pairs(frames, &matched, (&|a, b| loose.of_pair(a, b), options.seed), exec, stop)?;
        let open = estimate_focals(frames, pictures, &verified);
        set_bearings(frames, pictures);
        if !open.is_empty() {
            choose_focals(frames, pictures, &open, &matched, options, exec, stop)?;
        }
    }
    report(1);
    let lens = within(pictures, UNKNOWN_LENS);
    let of_pair = |a: usize, b: usize| lens.of_pair(a, b);
    let mut verified = verify_pairs(frames, &matched, (&of_pair, options.seed), exec, stop)?;
    let pairs: Vec<[usize; 2]> = verified.iter().map(|v| [v.a, v.b]).collect();
    let rotations: Vec<MatchedRotation> =
        verified.iter().map(|v| ([v.a, v.b], v.relative.rotation, v.matches.len())).collect();
    let mut others = verified.clone();
    let Some(mut poses) = initial_poses(frames, &mut verified, &of_pair, stop) else {
        return Ok(Reconstruction { poses: vec![None; frames.len()], landmarks: Vec::new(), pairs, tried });
    };
    // Tracks begin with the pairs that agree on the poses. The others reach the frames that have none yet.
    let agree: BTreeSet<[usize; 2]> = verified.iter().map(|v| [v.a, v.b]).collect();
    others.retain(|v| !agree.contains(&[v.a, v.b]));
    for pairs in [&mut verified, &mut others] {
        pairs.sort_by_key(|v| std::cmp::Reverse(v.matches.len()));
    }
    let counts: Vec<usize> = frames.iter().map(|frame| frame.features.len()).collect();
    let mut verified: Vec<VerifiedPair> = verified.into_iter().chain(others).collect();
    let mut tracks = tracks_of(&counts, &verified);
    for (round, (factor, steps, adjusts_cameras)) in PICTURE_ROUNDS.into_iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        report(2 + round);
        if round == LENSES_AGAIN {
            for camera in pictures.cameras.iter_mut().filter(|camera| camera.needs_second_radial()) {
                camera.model = CameraModel::Radial;
            }
        }
        if round == MATCHES_AGAIN {
            let lens = within(pictures, UNKNOWN_LENS);
            choose_matches(&mut verified, &matched, frames, &poses, &|a, b| lens.of_pair(a, b));
            tracks = tracks_of(&counts, &verified);
        }
        let angles = within(pictures, factor);
        let mut points = triangulate_tracks(&tracks, frames, &poses, &|frame| angles.of_frame(frame), exec);
        drop_weak_poses(&mut poses, &mut points);
        let huber = 0.5 * (options.tolerance * pictures.coarsest());
        adjust(&mut poses, &mut points, frames, Some((pictures, adjusts_cameras)), huber, steps, exec, stop);
        set_bearings(frames, pictures);
        let angles = within(pictures, factor.max(2.0));
        register_missing(&mut poses, &points, &tracks, frames, &rotations, (&angles, options.seed));
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped);
    }
    let angles = within(pictures, 1.0);
    let mut points = triangulate_tracks(&tracks, frames, &poses, &|frame| angles.of_frame(frame), exec);
    drop_weak_poses(&mut poses, &mut points);
    report(2 + PICTURE_ROUNDS.len());
    Ok(Reconstruction { poses, landmarks: points, pairs, tried })
}

/// Largest angles between bearings and their predictions, each by the focal length of its picture: a telephoto lens among
/// wide ones must not tighten theirs.
struct Angles(Vec<f64>);

impl Angles {
    /// `factor * tolerance` px of the reduced pictures.
    fn new(pictures: &Pictures, factor: f64, tolerance: f64) -> Self {
        let of_camera: Vec<f64> =
            (0..pictures.cameras.len()).map(|camera| pictures.angle_of(camera, factor, tolerance)).collect();
        Self(pictures.camera_of.iter().map(|&camera| of_camera[camera as usize]).collect())
    }

    fn of_frame(&self, frame: usize) -> f64 {
        self.0[frame]
    }

    /// The angle of the coarser picture.
    fn of_pair(&self, a: usize, b: usize) -> f64 {
        self.0[a].max(self.0[b])
    }
}

/// Joins the matches of pairs to tracks, those of the first pairs first.
fn tracks_of(counts: &[usize], pairs: &[VerifiedPair]) -> Vec<Vec<TrackElement>> {
    build_tracks(counts, pairs.iter().map(|pair| ([pair.a, pair.b], &pair.matches[..])))
}

/// Pairs of registered pictures take all matches that agree with the poses, if these are more than they have; then pairs
/// are sorted, most matches first. With a wrong focal length, a relative pose fits the subject alone, and what lies behind
/// it is lost.
fn choose_matches(
    pairs: &mut [VerifiedPair],
    matched: &[MatchedPair],
    frames: &[Features],
    poses: &[Option<Pose>],
    tolerance: PairTolerance<'_>,
) {
    let matched: BTreeMap<[usize; 2], &MatchedPair> = matched.iter().map(|m| ([m.a, m.b], m)).collect();
    for pair in pairs.iter_mut() {
        let (Some(a), Some(b), Some(all)) = (poses[pair.a], poses[pair.b], matched.get(&[pair.a, pair.b]))
        else {
            continue;
        };
        let relative = b.compose(&a.inverse());
        let rays = |&[i, j]: &[u32; 2]| [bearing(frames, pair.a, i), bearing(frames, pair.b, j)];
        let rays: Vec<[[f64; 3]; 2]> = all.matches.iter().map(rays).collect();
        let agree =
            two_view::inliers(&relative.rotation, relative.translation, &rays, tolerance(pair.a, pair.b));
        if agree.len() > pair.matches.len() {
            pair.matches = agree.into_iter().map(|k| all.matches[k as usize]).collect();
        }
    }
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.matches.len()));
}

fn set_bearings(frames: &mut [Features], pictures: &Pictures) {
    for (frame, features) in frames.iter_mut().enumerate() {
        let camera = pictures.camera(frame);
        features.features.iter_mut().for_each(|feature| feature.bearing = camera.bearing(feature.pixel));
    }
}

/// Of cameras whose focal lengths pairs leave open, tries some for their pairs with the most matches, and keeps that
/// with the most verified ones; of equal ones the default.
fn choose_focals(
    frames: &mut [Features],
    pictures: &mut Pictures,
    open: &[usize],
    matched: &[MatchedPair],
    options: ReconstructionOptions,
    exec: Exec<'_>,
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    let is_open = |frame: usize| open.contains(&(pictures.camera_of[frame] as usize));
    let mut pairs: Vec<&MatchedPair> =
        matched.iter().filter(|pair| is_open(pair.a) || is_open(pair.b)).collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.matches.len()));
    pairs.truncate(PAIRS_TRIED);
    let mut best: Option<(usize, usize)> = None;
    let set = |pictures: &mut Pictures, which: usize| {
        for &camera in open {
            pictures.cameras[camera].focal = pictures.cameras[camera].focals_tried()[which];
        }
    };
    for which in 0..FOCALS_TRIED {
        set(pictures, which);
        set_bearings(frames, pictures);
        let angles = Angles::new(pictures, 1.0, options.tolerance);
        let verified =
            verify_pairs(frames, &pairs, (&|a, b| angles.of_pair(a, b), options.seed), exec, stop)?;
        let count = verified.iter().map(|pair| pair.matches.len()).sum();
        if best.is_none_or(|(most, _)| count > most) {
            best = Some((count, which));
        }
    }
    if let Some((_, which)) = best {
        set(pictures, which);
    }
    set_bearings(frames, pictures);
    Ok(())
}

/// Sets the focal lengths of cameras without metadata; returns the cameras of which pairs do not tell it.
fn estimate_focals(frames: &[Features], pictures: &mut Pictures, verified: &[VerifiedPair]) -> Vec<usize> {
    let mut open = Vec::new();
    for camera in 0..pictures.cameras.len() {
        if pictures.known_focals[camera].is_some() {
            continue;
        }
        if pictures.cameras[camera].is_fisheye() {
            open.push(camera);
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
    (angles, seed): (&Angles, u32),
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
        if let Some(pose) = resect(&sights[frame], &rotations, angles.of_frame(frame), [seed, frame as u32]) {
            found.push((frame, pose));
        }
    }
    for (frame, pose) in found {
        poses[frame] = Some(pose);
    }
}

/// The cameras as unknowns of an adjustment.
pub(super) fn adjusted_cameras(pictures: &Pictures, is_free: bool) -> Vec<AdjustedCamera> {
    let coarsest = pictures.coarsest();
    let adjusted = |((camera, known), reduction): ((&PictureCamera, &Option<f64>), &f64)| {
        let plain = PictureCamera::new(camera.width, camera.height, known.unwrap_or(camera.default_focal()));
        let of_focal = FOCAL_DEVIATIONS[usize::from(known.is_none())];
        let [a, b, c, d, of_aspect] = camera.deviations();
        AdjustedCamera {
            camera: *camera,
            expected: plain.parameters(),
            weights: [of_focal, a, b, c, d, of_aspect].map(|deviation| 1.0 / (deviation * deviation)),
            free: if is_free { camera.free() } else { [false; CAMERA_PARAMETERS] },
            error_scale: coarsest / reduction,
        }
    };
    pictures.cameras.iter().zip(&pictures.known_focals).zip(&pictures.reductions).map(adjusted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::features::Feature;
    use crate::reconstruction::two_view::RelativePose;
    use crate::reconstruction::two_view::tests::TwoViewScene;

    #[test]
    fn matches_that_agree_with_the_poses_come_back_where_they_are_more() {
        let scene = TwoViewScene::new(3, 60, 0.0, 20);
        let feature = |bearing| Feature { bearing, view: 0, pixel: [0.0; 2], size: 1.0, colour: [0; 3] };
        let frame = |side: usize| Features {
            features: scene.pairs.iter().map(|pair| feature(pair[side])).collect(),
            descriptors: Vec::new(),
        };
        let frames = [frame(0), frame(1)];
        let matched = [MatchedPair { a: 0, b: 1, matches: (0..60).map(|k| [k, k]).collect() }];
        let origin = Pose { rotation: gausset_core::matrix::IDENTITY3, translation: [0.0; 3] };
        let right = Pose { rotation: scene.rotation, translation: scene.t };
        let kept = |pose: Pose, first: u32| {
            let matches: Vec<[u32; 2]> = (0..first).map(|k| [k, k]).collect();
            let relative = RelativePose {
                rotation: scene.rotation,
                direction: scene.t,
                inliers: (0..first).collect(),
                is_pure_rotation: false,
            };
            let mut pairs = vec![VerifiedPair { a: 0, b: 1, relative, matches }];
            choose_matches(&mut pairs, &matched, &frames, &[Some(origin), Some(pose)], &|_, _| 1e-3);
            pairs[0].matches.iter().map(|m| m[0]).collect::<Vec<u32>>()
        };
        let all: Vec<u32> = (0..40).collect();
        assert_eq!(kept(right, 25)[..40], all);
        // Poses that contradict the pair take nothing from it.
        let wrong = Pose { rotation: gausset_core::matrix::IDENTITY3, translation: scene.t };
        assert_eq!(kept(wrong, 25), all[..25]);
    }
}
