//! Landmarks from frames with poses: corners matched in nearby frames and in the other lens, at any depth.
//!
//! ```text
//! near     nearest frames of each frame, by pose
//! look     coarse images: search along the epipolar line, in a band as wide as the error of lens and poses; each
//!          observation narrows the range of depth for the next
//! refine   fine images: search around the predicted position, to hundredths of a pixel, with an affine warp
//! ```
//! A landmark is a corner with its observations. The corner's own pixel is taken as exact, because all observations are
//! matches of the patch around it.

use gausset_compute::Pool;
use gausset_core::se3;

use super::Grey;
use super::model::Model;
use super::state::State;
use super::tracks::{Eye, Patch, RIM, Seen, Tangent, Track, Warp, Zone, corners};

/// Number of frames in which the corners of a frame are searched.
const NEIGHBOURS: usize = 4;
/// Corners per bin. In the ring, one per bin would double the error of the rotation between the lenses.
const EACH: usize = 1;
const EACH_OF_RING: usize = 3;
/// Minimum depth of a landmark, in distances between the two cameras.
const NEAREST: f64 = 1.2;
/// Maximum inverse depth, times the median distance between neighbouring frames.
const CLOSEST: f64 = 3.0;
/// Number of observations in other frames that determine the depth of a landmark.
const ENOUGH: usize = 2;
/// Maximum number of patches along an epipolar line.
const LINE: usize = 64;
/// Approximate angle of a pixel of coarse and fine images, radians.
pub(super) const COARSE: f64 = 0.5 * std::f64::consts::PI / 180.0;
pub(super) const FINE: f64 = 0.13 * std::f64::consts::PI / 180.0;
/// Fraction of the radius within which corners are detected.
const WITHIN: f64 = RIM - 0.02;

/// Frames downsampled by `factor`, with lens models to match.
pub(super) struct Level {
    greys: Vec<Grey>,
    factor: usize,
    models: [Model; 2],
}

/// A corner and its observations, in pixels of the full frames.
#[derive(Clone, Debug)]
pub(super) struct Thing {
    pub(super) corner: Seen,
    /// Inverse depth, in one over the unit of the poses.
    pub(super) nearness: f64,
    pub(super) sightings: Vec<Seen>,
}

impl Level {
    /// Downsamples the frames so that a pixel covers about `wanted` radians; frames are never enlarged.
    pub(super) fn new(frames: &[Grey], state: &State, wanted: f64, pool: &Pool) -> Self {
        let factor = (libm::round(wanted / state.models[0].pixel()) as usize).max(1);
        let greys = pool.map(frames.len(), |frame| frames[frame].reduced(factor));
        Self { greys, factor, models: state.models.map(|model| model.reduced(factor)) }
    }

    fn eye(&self, frame: usize, lens: usize) -> Eye<'_> {
        Eye { frame, lens, grey: &self.greys[frame], model: &self.models[lens] }
    }

    /// Converts a pixel of the full frame to this level; [`Self::to_full`] is the inverse.
    fn to_here(&self, pixel: [f64; 2]) -> [f64; 2] {
        pixel.map(|v| v / self.factor as f64)
    }

    fn to_full(&self, pixel: [f64; 2]) -> [f64; 2] {
        pixel.map(|v| v * self.factor as f64)
    }

    /// Search radius in steps for an angle in radians.
    fn reach(&self, within: f64) -> i32 {
        (within / self.models[0].pixel() + 1.0) as i32
    }

    /// Detects the corners of one lens of a frame and searches for them in the frames `near`, within `within` radians
    /// of the epipolar line that lens and poses predict.
    pub(super) fn look(
        &self,
        state: &State,
        [frame, lens]: [usize; 2],
        near: &[usize],
        within: f64,
    ) -> Vec<Thing> {
        let reach = self.reach(within);
        let from = self.eye(frame, lens);
        // The whole circle, and more corners in the ring that both lenses see: it determines the rotation between the
        // lenses.
        let inner = from.model.mapped(std::f64::consts::PI - self.models[1 - lens].angle(RIM));
        let zones = [
            Zone { radii: [0.02, WITHIN], bins: [24, 6], each: EACH },
            Zone { radii: [inner.clamp(0.3, 0.95), WITHIN], bins: [90, 2], each: EACH_OF_RING },
        ];
        let mut all: Vec<[f64; 2]> = zones.into_iter().flat_map(|zone| corners(from, zone)).collect();
        all.sort_by(|a, b| a[1].total_cmp(&b[1]).then(a[0].total_cmp(&b[0])));
        all.dedup();
        all.into_iter().filter_map(|pixel| self.look_for(state, from, pixel, near, reach)).collect()
    }

    fn look_for(
        &self,
        state: &State,
        from: Eye<'_>,
        pixel: [f64; 2],
        near: &[usize],
        reach: i32,
    ) -> Option<Thing> {
        let patch = Patch::new(from, pixel, from.model.pixel())?;
        let corner = Seen { pixel: self.to_full(pixel), ..from.sees(pixel) };
        let mut thing = Thing { corner, nearness: 0.0, sightings: Vec::new() };
        let mut range = None;
        for (frame, lens) in eyes(from, near) {
            if thing.sightings.len() >= ENOUGH && frame != from.frame {
                continue;
            }
            let to = self.eye(frame, lens);
            let (nearness, planes): (Vec<f64>, Vec<Tangent>) =
                line(state, &patch, corner, to, range, reach).into_iter().unzip();
            let Some((pixel, at)) = patch.seek(to, &planes, reach, Warp::Shift) else { continue };
            thing.sightings.push(Seen { pixel: self.to_full(pixel), ..to.sees(pixel) });
            if range.is_none() {
                thing.nearness = nearness[at];
            }
            let (nearness, certainty) = placed(state, &thing);
            thing.nearness = nearness;
            // Until the first solve, errors of lens and poses are as large as the search radius.
            let doubt = 0.5 * f64::from(reach * self.factor as i32) / libm::sqrt(certainty);
            range = doubt.is_finite().then_some([nearness - 2.0 * doubt, nearness + 2.0 * doubt]);
        }
        (!thing.sightings.is_empty()).then_some(thing)
    }

    /// Matches the observations of a landmark again around their predicted positions.
    pub(super) fn refine(&self, state: &State, thing: &Thing, near: &[usize], within: f64) -> Option<Thing> {
        let reach = self.reach(within);
        let corner = thing.corner;
        let from = self.eye(corner.frame, corner.lens);
        let patch = Patch::new(from, self.to_here(corner.pixel), from.model.pixel())?;
        let sighting = |(frame, lens): (usize, usize)| {
            let to = self.eye(frame, lens);
            let plane = patch.carried(&state.way(corner, to.sees([0.0; 2])), thing.nearness);
            let (pixel, _) = patch.seek(to, &[plane], reach, Warp::Affine)?;
            Some(Seen { pixel: self.to_full(pixel), ..to.sees(pixel) })
        };
        let sightings: Vec<Seen> = eyes(from, near).filter_map(sighting).collect();
        (!sightings.is_empty()).then_some(Thing { sightings, ..*thing })
    }
}

/// Lenses to search: both lenses of the nearby frames, then the other lens of the same frame.
fn eyes(from: Eye<'_>, near: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let others = near.iter().flat_map(|&frame| [(frame, 0), (frame, 1)]);
    others.chain([(from.frame, 1 - from.lens)])
}

/// Samples a range of inverse depths along the epipolar line: the patch's plane for each, 1.5 search radii apart in the
/// image. A range that is shorter than this gives its middle alone.
fn line(
    state: &State,
    patch: &Patch,
    corner: Seen,
    to: Eye<'_>,
    range: Option<[f64; 2]>,
    reach: i32,
) -> Vec<(f64, Tangent)> {
    let way = state.way(corner, to.sees([0.0; 2]));
    let most = (1.0 / (NEAREST * se3::norm(way.shift))).min(CLOSEST / state.unit.unwrap_or(1.0));
    let [low, high] = range.unwrap_or([0.0, most]);
    let (low, high) = (low.clamp(0.0, most), high.clamp(0.0, most));
    let ray = state.ray(corner);
    let angle = |nearness: f64| {
        let there = way.carried(ray, nearness);
        let length = se3::norm(there);
        se3::norm(se3::cross(there, way.shift)) / (length * length)
    };
    let apart = 1.5 * f64::from(reach) * to.model.pixel();
    let middle = 0.5 * (low + high);
    if angle(middle) * (high - low) <= apart {
        return vec![(middle, patch.carried(&way, middle))];
    }
    let mut planes = Vec::new();
    let mut nearness = low;
    while nearness <= high && planes.len() < LINE {
        planes.push((nearness, patch.carried(&way, nearness)));
        nearness += apart / angle(nearness).max(1e-9);
    }
    planes
}

/// Inverse depth with the smallest reprojection error (Gauss-Newton), and its information: squared px per squared unit.
fn placed(state: &State, thing: &Thing) -> (f64, f64) {
    let mut nearness = thing.nearness;
    let mut certainty = 0.0;
    for _ in 0..6 {
        let (mut slope, mut right) = (0.0, 0.0);
        for &to in &thing.sightings {
            let track = Track { from: thing.corner, to, thing: None };
            let step = 1e-5 / state.unit.unwrap_or(1.0);
            let [here, beside] = [0.0, step].map(|by| state.error_at(&track, nearness + by));
            for c in 0..2 {
                let by = (beside[c] - here[c]) / step;
                slope += by * by;
                right -= by * here[c];
            }
        }
        certainty = slope;
        if slope.is_nan() || slope <= 0.0 {
            break;
        }
        nearness = (nearness + right / slope).max(0.0);
    }
    (nearness, certainty)
}

/// The nearest frames with poses of each frame with a pose, nearest first.
pub(super) fn near(state: &State, has_pose: &[bool]) -> Vec<Vec<usize>> {
    let centres: Vec<[f64; 3]> = state.poses.iter().map(|pose| pose.centre()).collect();
    let of = |frame: usize| {
        let others = (0..centres.len()).filter(|&other| other != frame && has_pose[other] && has_pose[frame]);
        let mut others: Vec<(f64, usize)> =
            others.map(|other| (distance(centres[frame], centres[other]), other)).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        others.into_iter().take(NEIGHBOURS).map(|(_, other)| other).collect()
    };
    (0..centres.len()).map(of).collect()
}

pub(super) fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    se3::norm([0, 1, 2].map(|k| a[k] - b[k]))
}

/// Landmarks in the form that the solver takes: matches sorted by landmark, and inverse depths.
pub(super) fn tracks_of(things: &[Thing]) -> (Vec<Track>, Vec<f64>) {
    let track = |(at, thing): (usize, &Thing)| {
        let (from, sightings) = (thing.corner, thing.sightings.clone());
        sightings.into_iter().map(move |to| Track { from, to, thing: Some(at) })
    };
    (things.iter().enumerate().flat_map(track).collect(), things.iter().map(|t| t.nearness).collect())
}
