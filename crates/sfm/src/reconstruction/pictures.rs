//! From features of ordinary pictures to poses, points and cameras.
//!
//! ```text
//! coarse    matches of the largest features ─▶ focal lengths, relative poses, averaging, rounds of adjustment
//! complete  all features of pictures that share landmarks, along epipolar lines ─▶ tracks, rounds of adjustment
//! resection pictures without a pose, after each round; with all of their features at last
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;
use gausset_core::Pose;
use gausset_core::matrix::{Mat3, dot, mul, norm, transpose};

use crate::reconstruction::adjust::AdjustedCamera;
use crate::reconstruction::completion::{SingleMatch, completing_matches, matches_of};
use crate::reconstruction::features::Features;
use crate::reconstruction::focal::{DEFAULT_FOCAL, estimate_focal};
use crate::reconstruction::guided::{Band, GuidedMatch, PosedPicture, guided_matches};
use crate::reconstruction::matches::{self, WideDescriptors};
use crate::reconstruction::picture::{CAMERA_PARAMETERS, CameraPrior, PictureCamera, Pictures};
use crate::reconstruction::reconstruct::{
    Landmark, MatchedPair, Progress, Reconstruction, ReconstructionOptions, Stage, Stopped, VerifiedPair,
    adjust, bearing, drop_weak_poses, initial_poses, match_pairs, triangulate_tracks, verify_pairs,
};
use crate::reconstruction::resection::{Sight, resect};
use crate::reconstruction::tracks::{TrackElement, build_tracks};

/// Tolerance of pairs of pictures in units of the final one: before the lenses are known, and before the focal lengths
/// are.
const UNKNOWN_LENS: f64 = 2.0;
const UNKNOWN_FOCAL: f64 = 4.0;
/// Standard deviations of what is expected of a camera: of ln f from metadata, of ln f without, of k1 and k2.
const FOCAL_DEVIATIONS: [f64; 2] = [0.1, 0.5];
const RADIAL_DEVIATION: f64 = 0.3;
/// Focal lengths that are tried if pairs do not tell them (parallel axes, a plane), relative to the longest side.
const FOCALS_TRIED: [f64; 5] = [0.6, 0.8, 1.0, DEFAULT_FOCAL, 1.8];
/// Pairs from which focal lengths are estimated: at least so many, or two a picture.
const FOCAL_PAIRS: usize = 60;
/// Matched pictures whose rotation is tried for one that is not registered.
const NEIGHBOURS_TRIED: usize = 6;

/// Features of a picture that are matched before poses are known, the largest.
const COARSE_FEATURES: usize = 1024;
/// Rounds before all features are matched, and after: tolerances in units of the final one, adjustment steps, and
/// whether cameras are adjusted. Pictures that are not registered are tried after each round.
const COARSE_ROUNDS: [Round; 4] =
    [coarse(8.0, 10, false), coarse(8.0, 15, true), coarse(4.0, 15, true), coarse(2.0, 15, true)];
const WIDE_ROUNDS: [Round; 1] = [complete(4.0, 15)];
const COMPLETE_ROUNDS: [Round; 3] = [complete(2.0, 15), complete(1.0, 20), complete(1.0, 30)];
/// Bands of guided matches in units of the final tolerance: at first wide, as poses are known from large features only.
const WIDE: Band = Band { tolerance: 4.0, compared: 6.0 };
const NARROW: Band = Band { tolerance: 1.5, compared: 4.0 };
/// Least number of landmarks that two pictures share whose other features are matched.
const MIN_SHARED: usize = 5;
/// Largest parallax of guided matches, in units of that of the landmarks; and what is added, radians.
const PARALLAX: (f64, f64) = (1.5, 0.03);
/// Times that pictures without a pose are matched with all features, and the pictures with which.
const LATE_ROUNDS: usize = 2;
const LATE_NEIGHBOURS: usize = 8;

/// Least number of pictures that see a landmark: with two, only one of four coordinates is redundant, and a wrong match is
/// not noticed. Landmarks of two pictures stay where a picture has few others.
const MIN_OBSERVERS: usize = 3;
const FEW_OBSERVATIONS: usize = 100;
/// Change of ln f in the coarse rounds beyond which other focal lengths are tried.
const MAX_FOCAL_CHANGE: f64 = 0.15;

/// A round of adjustment.
#[derive(Clone, Copy)]
struct Round {
    /// Tolerance in units of the final one.
    factor: f64,
    /// Largest number of steps.
    steps: usize,
    adjusts_cameras: bool,
    /// Whether landmarks need [`MIN_OBSERVERS`].
    of_three: bool,
}

const fn coarse(factor: f64, steps: usize, adjusts_cameras: bool) -> Round {
    Round { factor, steps, adjusts_cameras, of_three: false }
}

const fn complete(factor: f64, steps: usize) -> Round {
    Round { factor, steps, adjusts_cameras: true, of_three: true }
}

/// As [`reconstruct`](super::reconstruct()), for pictures of cameras that are estimated as well. Features must have their
/// positions in the stored picture and come largest first; their bearings are set. `tolerance` is in px of the stored
/// picture.
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
    let none = Reconstruction { poses: vec![None; frames.len()], landmarks: Vec::new() };
    set_bearings(frames, pictures);
    let matched = match_pairs(frames, COARSE_FEATURES, options, exec, stop, tell)?;
    let rounds = COARSE_ROUNDS.len() + WIDE_ROUNDS.len() + COMPLETE_ROUNDS.len();
    let mut done = 0;
    let mut report = || {
        tell(Progress { stage: Stage::Mapping, done, total: 2 + rounds });
        done = (done + 1).min(1 + rounds);
    };
    report();
    let work = Work { options, exec, stop };
    let starts = work.starting_focals(frames, pictures, &matched)?;
    report();
    let Some((mut state, verified)) = work.best_coarse(frames, pictures, &matched, &starts, &mut report)?
    else {
        return Ok(none);
    };
    let wide: Vec<WideDescriptors> = frames.iter().map(|f| WideDescriptors::new(&f.descriptors)).collect();
    for late in 0..LATE_ROUNDS {
        let mut tracks = Vec::new();
        for (band, rounds) in [(WIDE, &WIDE_ROUNDS[..]), (NARROW, &COMPLETE_ROUNDS[..])] {
            let mut found = work.guided_matches(&state, frames, &wide, pictures, band)?;
            let reaches = |v: &&VerifiedPair| state.poses[v.a].is_none() || state.poses[v.b].is_none();
            for pair in verified.iter().filter(reaches) {
                found.extend(pair.matches.iter().map(|m| ([pair.a, pair.b], *m)));
            }
            tracks = tracks_of_singles(frames, &found);
            for round in rounds {
                report();
                work.adjust_round(&mut state, frames, pictures, &tracks, *round)?;
                tracks = tracks_of_singles(frames, &work.completed(&state, frames, &wide, pictures));
            }
        }
        state.points = work.triangulated(&mut state.poses, frames, pictures, &tracks, COMPLETE_ROUNDS[2]);
        if late + 1 == LATE_ROUNDS || !work.register_late(&mut state, frames, &wide, pictures, &matched)? {
            break;
        }
    }
    Ok(Reconstruction { poses: state.poses, landmarks: state.points })
}

fn tracks_of_singles(frames: &[Features], matches: &[SingleMatch]) -> Vec<Vec<TrackElement>> {
    tracks_of(frames, matches.iter().map(|(pair, m)| (*pair, std::slice::from_ref(m))))
}

/// Tracks of matches, which are listed best first.
fn tracks_of<'a>(
    frames: &[Features],
    matches: impl Iterator<Item = ([usize; 2], &'a [[u32; 2]])>,
) -> Vec<Vec<TrackElement>> {
    let counts: Vec<usize> = frames.iter().map(|frame| frame.features.len()).collect();
    build_tracks(&counts, matches)
}

/// Removes landmarks of two pictures, except those of pictures with few others.
fn drop_pairs(points: &mut Vec<Landmark>, frames: usize) {
    let mut seen = vec![0usize; frames];
    for point in points.iter().filter(|point| point.observations.len() >= MIN_OBSERVERS) {
        point.observations.iter().for_each(|o| seen[o[0] as usize] += 1);
    }
    let is_few = |o: &[u32; 2]| seen[o[0] as usize] < FEW_OBSERVATIONS;
    points.retain(|p| p.observations.len() >= MIN_OBSERVERS || p.observations.iter().any(is_few));
}

fn matched_rotation(v: &VerifiedPair) -> MatchedRotation {
    ([v.a, v.b], v.relative.rotation, v.matches.len())
}

/// What is known so far.
struct State {
    poses: Vec<Option<Pose>>,
    points: Vec<Landmark>,
    /// Relative rotations of matched pairs.
    rotations: Vec<MatchedRotation>,
}

/// A reconstruction of the largest features, and the verified pairs, best first.
type Coarse = (State, Vec<VerifiedPair>);

/// What makes one reconstruction better than another: registered pictures, then observations of landmarks that three or
/// more pictures see.
fn score((state, _): &Coarse) -> (usize, usize) {
    let registered = state.poses.iter().flatten().count();
    let lengths = state.points.iter().map(|point| point.observations.len());
    (registered, lengths.filter(|length| *length >= MIN_OBSERVERS).sum())
}

/// Cameras whose focal length is not known from metadata.
struct StartingFocals {
    unknown: Vec<usize>,
    /// Whether pairs leave one of them open.
    is_open: bool,
}

/// What every step needs.
#[derive(Clone, Copy)]
struct Work<'a> {
    options: ReconstructionOptions,
    exec: Exec<'a>,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn check(&self) -> Result<(), Stopped> {
        if self.stop.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }

    /// The options with a tolerance in radians.
    fn within(&self, factor: f64, pictures: &Pictures) -> ReconstructionOptions {
        let sharpest = pictures.cameras.iter().map(|c| c.focal).fold(1.0, f64::max);
        ReconstructionOptions { tolerance: factor * self.options.tolerance / sharpest, ..self.options }
    }

    /// Sets the focal lengths of cameras without metadata that pairs tell. Returns the cameras whose focal length is not
    /// known from metadata, and whether pairs leave one of them open.
    fn starting_focals(
        &self,
        frames: &mut [Features],
        pictures: &mut Pictures,
        matched: &[MatchedPair],
    ) -> Result<StartingFocals, Stopped> {
        let unknown: Vec<usize> =
            (0..pictures.cameras.len()).filter(|&k| pictures.priors[k].focal.is_none()).collect();
        if unknown.is_empty() {
            return Ok(StartingFocals { unknown, is_open: false });
        }
        let mut pairs: Vec<&MatchedPair> = matched.iter().collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.matches.len()));
        pairs.truncate(FOCAL_PAIRS.max(2 * frames.len()));
        let loose = self.within(UNKNOWN_FOCAL, pictures);
        let verified = verify_pairs(frames, &pairs, loose, self.exec, self.stop)?;
        let is_open = !estimate_focals(frames, pictures, &verified).is_empty();
        set_bearings(frames, pictures);
        Ok(StartingFocals { unknown, is_open })
    }

    /// The coarse reconstruction; where focal lengths are open or moved far, the best of several.
    fn best_coarse(
        &self,
        frames: &mut [Features],
        pictures: &mut Pictures,
        matched: &[MatchedPair],
        starts: &StartingFocals,
        report: &mut dyn FnMut(),
    ) -> Result<Option<Coarse>, Stopped> {
        let first = pictures.clone();
        let mut best = self.coarse(frames, pictures, matched, report)?;
        let has_moved = |&k: &usize| {
            let change = libm::log(pictures.cameras[k].focal / first.cameras[k].focal);
            change.abs() > MAX_FOCAL_CHANGE
        };
        if !starts.is_open && !starts.unknown.iter().any(has_moved) {
            return Ok(best);
        }
        let mut kept = pictures.clone();
        for relative in FOCALS_TRIED {
            *pictures = first.clone();
            set_focals(frames, pictures, &starts.unknown, relative);
            let found = self.coarse(frames, pictures, matched, &mut || {})?;
            if found.as_ref().map(score) > best.as_ref().map(score) {
                (best, kept) = (found, pictures.clone());
            }
        }
        *pictures = kept;
        set_bearings(frames, pictures);
        Ok(best)
    }

    /// Poses and landmarks from the matches of the largest features, and the verified pairs, best first; `None` if no pair
    /// is verified.
    fn coarse(
        &self,
        frames: &mut [Features],
        pictures: &mut Pictures,
        matched: &[MatchedPair],
        report: &mut dyn FnMut(),
    ) -> Result<Option<Coarse>, Stopped> {
        let lens = self.within(UNKNOWN_LENS, pictures);
        let mut verified = verify_pairs(frames, matched, lens, self.exec, self.stop)?;
        let mut others = verified.clone();
        let Some(poses) = initial_poses(frames, &mut verified, lens.tolerance) else {
            return Ok(None);
        };
        // Tracks begin with the pairs that agree on the poses. The others reach the frames that have none yet.
        let agree: BTreeSet<[usize; 2]> = verified.iter().map(|v| [v.a, v.b]).collect();
        let rotations: Vec<MatchedRotation> = others.iter().map(matched_rotation).collect();
        others.retain(|v| !agree.contains(&[v.a, v.b]));
        for pairs in [&mut verified, &mut others] {
            pairs.sort_by_key(|v| std::cmp::Reverse(v.matches.len()));
        }
        verified.append(&mut others);
        let mut state = State { poses, points: Vec::new(), rotations };
        let tracks = tracks_of(frames, verified.iter().map(|v| ([v.a, v.b], &v.matches[..])));
        for round in COARSE_ROUNDS {
            report();
            self.adjust_round(&mut state, frames, pictures, &tracks, round)?;
        }
        state.points = self.triangulated(&mut state.poses, frames, pictures, &tracks, COARSE_ROUNDS[3]);
        Ok(Some((state, verified)))
    }

    /// The matches of the landmarks, then those that complete them.
    fn completed(
        &self,
        state: &State,
        frames: &[Features],
        wide: &[WideDescriptors],
        pictures: &Pictures,
    ) -> Vec<SingleMatch> {
        let project = |frame: usize, point: [f64; 3]| {
            let camera = pictures.camera(frame);
            let [x, y] = camera.project(state.poses[frame]?.apply(point))?;
            let inside =
                (0.0..f64::from(camera.width)).contains(&x) && (0.0..f64::from(camera.height)).contains(&y);
            inside.then_some([x, y])
        };
        let mut all = matches_of(&state.points);
        let radius = self.options.tolerance;
        all.extend(completing_matches(&state.points, frames, wide, &project, radius, self.exec));
        all
    }

    /// One round: landmarks of the tracks, adjustment, resection.
    fn adjust_round(
        &self,
        state: &mut State,
        frames: &mut [Features],
        pictures: &mut Pictures,
        tracks: &[Vec<TrackElement>],
        round: Round,
    ) -> Result<(), Stopped> {
        self.check()?;
        let Round { factor, steps, adjusts_cameras, .. } = round;
        state.points = self.triangulated(&mut state.poses, frames, pictures, tracks, round);
        let huber = 0.5 * self.options.tolerance;
        let cameras = adjusted_cameras(pictures, adjusts_cameras);
        let adjusted = adjust(
            &mut state.poses,
            &mut state.points,
            frames,
            Some((pictures, cameras)),
            huber,
            steps,
            self.exec,
            self.stop,
        );
        for (camera, adjusted) in pictures.cameras.iter_mut().zip(adjusted) {
            *camera = adjusted.camera;
        }
        set_bearings(frames, pictures);
        self.register_missing(state, frames, tracks, self.within(factor.max(2.0), pictures).tolerance);
        Ok(())
    }

    fn triangulated(
        &self,
        poses: &mut [Option<Pose>],
        frames: &[Features],
        pictures: &Pictures,
        tracks: &[Vec<TrackElement>],
        round: Round,
    ) -> Vec<Landmark> {
        let tolerance = self.within(round.factor, pictures).tolerance;
        let mut points = triangulate_tracks(tracks, frames, poses, tolerance, self.exec);
        if round.of_three {
            drop_pairs(&mut points, frames.len());
        }
        drop_weak_poses(poses, &mut points);
        points
    }

    /// Matches of all features of pictures that share landmarks, those with the least ratio of distances first.
    fn guided_matches(
        &self,
        state: &State,
        frames: &[Features],
        wide: &[WideDescriptors],
        pictures: &Pictures,
        band: Band,
    ) -> Result<Vec<SingleMatch>, Stopped> {
        let [tolerance, compared] =
            [band.tolerance, band.compared].map(|factor| self.within(factor, pictures).tolerance);
        let band = Band { tolerance, compared };
        let pairs = covisible_pairs(&state.points, &state.poses);
        let found = self.exec.pool.map(pairs.len(), |index| {
            let (pair, parallax) = pairs[index];
            let [Some(a), Some(b)] = pair.map(|frame| {
                let (pose, features) = (state.poses[frame].as_ref()?, &frames[frame]);
                Some(PosedPicture { pose, features, descriptors: &wide[frame] })
            }) else {
                return Vec::new();
            };
            if self.stop.load(Ordering::Relaxed) {
                return Vec::new();
            }
            guided_matches(a, b, band, PARALLAX.0 * parallax + PARALLAX.1, self.exec.level)
        });
        self.check()?;
        let of_pair = |((pair, _), found): (&([usize; 2], f64), Vec<GuidedMatch>)| {
            let pair = *pair;
            found.into_iter().map(move |m| (pair, m))
        };
        let mut all: Vec<([usize; 2], GuidedMatch)> = pairs.iter().zip(found).flat_map(of_pair).collect();
        // The sort is stable: of equal ones the earlier first.
        all.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
        Ok(all.into_iter().map(|(pair, m)| (pair, m.features)).collect())
    }

    /// Registers pictures without a pose with the matches of all of their features; whether there were any.
    fn register_late(
        &self,
        state: &mut State,
        frames: &[Features],
        wide: &[WideDescriptors],
        pictures: &Pictures,
        matched: &[MatchedPair],
    ) -> Result<bool, Stopped> {
        let missing: Vec<usize> = (0..frames.len()).filter(|&frame| state.poses[frame].is_none()).collect();
        let mut pairs = Vec::new();
        for &frame in &missing {
            let mut near: Vec<(usize, [usize; 2])> = matched
                .iter()
                .filter(|m| {
                    m.a == frame && state.poses[m.b].is_some() || m.b == frame && state.poses[m.a].is_some()
                })
                .map(|m| (m.matches.len(), [m.a, m.b]))
                .collect();
            near.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
            pairs.extend(near.into_iter().take(LATE_NEIGHBOURS).map(|(_, pair)| pair));
        }
        let mut late = Vec::with_capacity(pairs.len());
        for [a, b] in pairs {
            self.check()?;
            let matches = matches::mutual_matches(&wide[a], &wide[b], self.exec);
            late.push(MatchedPair { a, b, matches });
        }
        let lens = self.within(UNKNOWN_LENS, pictures);
        let verified = verify_pairs(frames, &late, lens, self.exec, self.stop)?;
        state.rotations.extend(verified.iter().map(matched_rotation));
        let tracks = tracks_of(frames, verified.iter().map(|v| ([v.a, v.b], &v.matches[..])));
        // Tracks that meet landmarks take the place of those of the landmarks.
        self.register_missing(state, frames, &tracks, lens.tolerance);
        Ok(missing.iter().any(|&frame| state.poses[frame].is_some()))
    }

    /// Registers pictures without a pose that see enough landmarks.
    fn register_missing(
        &self,
        state: &mut State,
        frames: &[Features],
        tracks: &[Vec<TrackElement>],
        tolerance: f64,
    ) {
        let State { poses, points, rotations: matched } = state;
        let seed = self.options.seed;
        if poses.iter().all(Option::is_some) {
            return;
        }
        // The landmark of each feature of a registered picture.
        let mut landmark_of: Vec<Vec<u32>> =
            frames.iter().map(|f| vec![u32::MAX; f.features.len()]).collect();
        for (number, point) in (0u32..).zip(points.iter()) {
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
            let rotations: Vec<Mat3> =
                neighbours.into_iter().take(NEIGHBOURS_TRIED).map(|(_, r)| r).collect();
            if let Some(pose) = resect(&sights[frame], &rotations, tolerance, [seed, frame as u32]) {
                found.push((frame, pose));
            }
        }
        for (frame, pose) in found {
            poses[frame] = Some(pose);
        }
    }
}

/// Sets focal lengths relative to the longest side.
fn set_focals(frames: &mut [Features], pictures: &mut Pictures, cameras: &[usize], relative: f64) {
    for &camera in cameras {
        pictures.cameras[camera].focal = relative * pictures.cameras[camera].longest_side();
    }
    set_bearings(frames, pictures);
}

/// Pairs of pictures that share landmarks, ascending, with the largest parallax of these, radians.
fn covisible_pairs(points: &[Landmark], poses: &[Option<Pose>]) -> Vec<([usize; 2], f64)> {
    let centres: Vec<[f64; 3]> =
        poses.iter().map(|pose| pose.map_or([0.0; 3], |pose| pose.centre())).collect();
    // Number of shared landmarks, and the least cosine.
    let mut pairs: BTreeMap<[usize; 2], (usize, f64)> = BTreeMap::new();
    for point in points {
        let rays: Vec<(usize, [f64; 3])> = point
            .observations
            .iter()
            .map(|&[frame, _]| {
                let way: [f64; 3] = std::array::from_fn(|k| point.position[k] - centres[frame as usize][k]);
                let length = norm(way).max(1e-12);
                (frame as usize, way.map(|v| v / length))
            })
            .collect();
        for (at, (a, one)) in rays.iter().enumerate() {
            for (b, other) in &rays[at + 1..] {
                let (count, least) = pairs.entry([*a, *b]).or_insert((0, 1.0));
                *count += 1;
                *least = least.min(dot(*one, *other));
            }
        }
    }
    let shares = pairs.into_iter().filter(|(_, (count, _))| *count >= MIN_SHARED);
    shares.map(|(pair, (_, least))| (pair, libm::acos(least.clamp(-1.0, 1.0)))).collect()
}

fn set_bearings(frames: &mut [Features], pictures: &Pictures) {
    for (frame, features) in frames.iter_mut().enumerate() {
        let camera = pictures.camera(frame);
        features.features.iter_mut().for_each(|feature| feature.bearing = camera.bearing(feature.pixel));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landmarks_of_two_pictures_stay_where_a_picture_has_few_others() {
        let landmark = |frames: &[u32], k: u32| Landmark {
            position: [0.0; 3],
            observations: frames.iter().map(|&frame| [frame, k]).collect(),
        };
        let mut points: Vec<Landmark> =
            (0..FEW_OBSERVATIONS as u32).map(|k| landmark(&[0, 1, 2], k)).collect();
        let of_three = points.clone();
        points.push(landmark(&[0, 1], 500));
        points.push(landmark(&[1, 3], 501));
        drop_pairs(&mut points, 4);
        assert_eq!(points[..of_three.len()], of_three);
        assert_eq!(points[of_three.len()..], [landmark(&[1, 3], 501)]);
    }
}
