//! Corners of frames with poses, found again in frames nearby and in the other lens, however far they are.
//!
//! ```text
//! near     for each frame the nearest ones by their poses
//! look     coarse pictures: along the line on which a corner appears for all distances, in patches wide enough for what
//!          lens and poses are off; every sighting narrows the line down for the next
//! refine   fine pictures: where it is expected, to hundredths of a pixel, stretched as what slants is
//! ```
//! A corner with its sightings is a thing; its own pixel is exact, as all sightings are of the patch around it.

use gausset_compute::Pool;
use gausset_core::se3;

use super::Grey;
use super::model::Model;
use super::state::State;
use super::tracks::{Eye, Patch, RIM, Seen, Tangent, Track, Warp, Zone, corners};

/// Frames in which the corners of a frame are looked for.
const NEIGHBOURS: usize = 4;
/// Corners of a bin; in the ring, one would leave the rotation between the lenses up to twice as far off.
const EACH: usize = 1;
const EACH_OF_RING: usize = 3;
/// Parts of the way between two places that the nearest things are away from the first.
const NEAREST: f64 = 1.2;
/// Nearness over the usual way, at most.
const CLOSEST: f64 = 3.0;
/// Sightings in other frames that tell how near something is.
const ENOUGH: usize = 2;
/// Patches along a line, at most.
const LINE: usize = 64;
/// Radians of a pixel of coarse and of fine pictures, about.
pub(super) const COARSE: f64 = 0.5 * std::f64::consts::PI / 180.0;
pub(super) const FINE: f64 = 0.13 * std::f64::consts::PI / 180.0;
/// Parts of the radius within which corners are taken.
const WITHIN: f64 = RIM - 0.02;

/// Frames, so many times smaller.
pub(super) struct Level {
    greys: Vec<Grey>,
    factor: usize,
    models: [Model; 2],
}

/// A corner and its sightings, in pixels of the full frames.
#[derive(Clone, Debug)]
pub(super) struct Thing {
    pub(super) corner: Seen,
    /// One over its distance.
    pub(super) nearness: f64,
    pub(super) sightings: Vec<Seen>,
}

impl Level {
    /// Pictures with pixels of about so many radians, if they have as many.
    pub(super) fn new(frames: &[Grey], state: &State, wanted: f64, pool: &Pool) -> Self {
        let factor = (libm::round(wanted / state.models[0].pixel()) as usize).max(1);
        let greys = pool.map(frames.len(), |frame| frames[frame].reduced(factor));
        Self { greys, factor, models: state.models.map(|model| model.reduced(factor)) }
    }

    fn eye(&self, frame: usize, lens: usize) -> Eye<'_> {
        Eye { frame, lens, grey: &self.greys[frame], model: &self.models[lens] }
    }

    /// What a pixel of the full frame is here, and the other way round.
    fn to_here(&self, pixel: [f64; 2]) -> [f64; 2] {
        pixel.map(|v| v / self.factor as f64)
    }

    fn to_full(&self, pixel: [f64; 2]) -> [f64; 2] {
        pixel.map(|v| v * self.factor as f64)
    }

    /// Steps in so many radians.
    fn reach(&self, within: f64) -> i32 {
        (within / self.models[0].pixel() + 1.0) as i32
    }

    /// Finds things by the corners of a lens of a frame in these other frames, so many radians beside where
    /// lens and poses expect them.
    pub(super) fn look(
        &self,
        state: &State,
        [frame, lens]: [usize; 2],
        near: &[usize],
        within: f64,
    ) -> Vec<Thing> {
        let reach = self.reach(within);
        let from = self.eye(frame, lens);
        // The whole circle, and more in the ring that the other lens sees: that is what tells the rotation between them.
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
            // So far lens and poses may be off by as much as is looked for.
            let doubt = 0.5 * f64::from(reach * self.factor as i32) / libm::sqrt(certainty);
            range = doubt.is_finite().then_some([nearness - 2.0 * doubt, nearness + 2.0 * doubt]);
        }
        (!thing.sightings.is_empty()).then_some(thing)
    }

    /// Finds the sightings of a thing again, where they are expected.
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

/// Both lenses of frames nearby, then the other lens of its own.
fn eyes(from: Eye<'_>, near: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let others = near.iter().flat_map(|&frame| [(frame, 0), (frame, 1)]);
    others.chain([(from.frame, 1 - from.lens)])
}

/// The plane of a patch as it is seen for all nearness within a range, at places that are about as far from each other as
/// is looked; in the middle of a range that is no longer than that.
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

/// The nearness with which a thing misses its sightings least, and how certain it is: squares of px per unit of it.
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

/// The nearest frames of each frame that has a pose, nearest first.
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

/// Things as the solver wants them: tracks in their order, their nearness.
pub(super) fn tracks_of(things: &[Thing]) -> (Vec<Track>, Vec<f64>) {
    let track = |(at, thing): (usize, &Thing)| {
        let (from, sightings) = (thing.corner, thing.sightings.clone());
        sightings.into_iter().map(move |to| Track { from, to, thing: Some(at) })
    };
    (things.iter().enumerate().flat_map(track).collect(), things.iter().map(|t| t.nearness).collect())
}
