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
use gausset_core::se3::{self, distance};

use super::LumaImage;
use super::matching::{
    CornerRegion, LensImage, LensMatch, LensObservation, Patch, PatchWarp, TangentPlane, USABLE_RADIUS,
    detect_corners,
};
use super::model::LensModel;
use super::state::CalibrationState;

/// Number of frames in which the corners of a frame are searched.
const SEARCHED_FRAMES: usize = 4;
/// Corners per bin. In the ring, one per bin would double the error of the rotation between the lenses.
const CORNERS_PER_BIN: usize = 1;
const RING_CORNERS_PER_BIN: usize = 3;
/// Minimum depth of a landmark, in distances between the two cameras.
const MIN_DEPTH: f64 = 1.2;
/// Maximum inverse depth, times the median distance between neighbouring frames.
const MAX_INVERSE_DEPTH: f64 = 3.0;
/// Number of observations in other frames that determine the depth of a landmark.
const ENOUGH_OBSERVATIONS: usize = 2;
/// Maximum number of patches along an epipolar line.
const MAX_LINE_SAMPLES: usize = 64;
/// Approximate angle of a pixel of coarse and fine images, radians.
pub(super) const COARSE_PIXEL_ANGLE: f64 = 0.5 * std::f64::consts::PI / 180.0;
pub(super) const FINE_PIXEL_ANGLE: f64 = 0.13 * std::f64::consts::PI / 180.0;
/// Fraction of the radius within which corners are detected.
const CORNER_RADIUS: f64 = USABLE_RADIUS - 0.02;

/// Frames downsampled by `factor`, with lens models to match.
pub(super) struct ImageLevel {
    images: Vec<LumaImage>,
    factor: usize,
    models: [LensModel; 2],
}

/// A corner and its observations, in pixels of the full frames.
#[derive(Clone, Debug)]
pub(super) struct Landmark {
    pub(super) corner: LensObservation,
    /// Inverse depth, in one over the unit of the poses.
    pub(super) inverse_depth: f64,
    pub(super) observations: Vec<LensObservation>,
}

impl ImageLevel {
    /// Downsamples the frames so that a pixel covers about `wanted` radians; frames are never enlarged.
    pub(super) fn new(frames: &[LumaImage], state: &CalibrationState, wanted: f64, pool: &Pool) -> Self {
        let factor = (libm::round(wanted / state.models[0].pixel_angle()) as usize).max(1);
        let greys = pool.map(frames.len(), |frame| frames[frame].downsampled(factor));
        Self { images: greys, factor, models: state.models.map(|model| model.downsampled(factor)) }
    }

    fn lens_image(&self, frame: usize, lens: usize) -> LensImage<'_> {
        LensImage { frame, lens, grey: &self.images[frame], model: &self.models[lens] }
    }

    /// Converts a pixel of the full frame to this level; [`Self::to_full`] is the inverse.
    fn to_level(&self, pixel: [f64; 2]) -> [f64; 2] {
        pixel.map(|v| v / self.factor as f64)
    }

    fn to_full(&self, pixel: [f64; 2]) -> [f64; 2] {
        pixel.map(|v| v * self.factor as f64)
    }

    /// Search radius in steps for an angle in radians.
    fn search_steps(&self, within: f64) -> i32 {
        (within / self.models[0].pixel_angle() + 1.0) as i32
    }

    /// Detects the corners of one lens of a frame and searches for them in the frames `near`, within `within` radians
    /// of the epipolar line that lens and poses predict.
    pub(super) fn find_landmarks(
        &self,
        state: &CalibrationState,
        [frame, lens]: [usize; 2],
        near: &[usize],
        within: f64,
    ) -> Vec<Landmark> {
        let reach = self.search_steps(within);
        let from = self.lens_image(frame, lens);
        // The whole circle, and more corners in the ring that both lenses see: it determines the rotation between the
        // lenses.
        let inner = from.model.radii_at(std::f64::consts::PI - self.models[1 - lens].angle_at(USABLE_RADIUS));
        let zones = [
            CornerRegion { radii: [0.02, CORNER_RADIUS], bins: [24, 6], per_bin: CORNERS_PER_BIN },
            CornerRegion {
                radii: [inner.clamp(0.3, 0.95), CORNER_RADIUS],
                bins: [90, 2],
                per_bin: RING_CORNERS_PER_BIN,
            },
        ];
        let mut all: Vec<[f64; 2]> = zones.into_iter().flat_map(|zone| detect_corners(from, zone)).collect();
        all.sort_by(|a, b| a[1].total_cmp(&b[1]).then(a[0].total_cmp(&b[0])));
        all.dedup();
        all.into_iter().filter_map(|pixel| self.find_landmark(state, from, pixel, near, reach)).collect()
    }

    fn find_landmark(
        &self,
        state: &CalibrationState,
        from: LensImage<'_>,
        pixel: [f64; 2],
        near: &[usize],
        reach: i32,
    ) -> Option<Landmark> {
        let patch = Patch::new(from, pixel, from.model.pixel_angle())?;
        let corner = LensObservation { pixel: self.to_full(pixel), ..from.observation(pixel) };
        let mut thing = Landmark { corner, inverse_depth: 0.0, observations: Vec::new() };
        let mut range = None;
        for (frame, lens) in lenses_to_search(from, near) {
            if thing.observations.len() >= ENOUGH_OBSERVATIONS && frame != from.frame {
                continue;
            }
            let to = self.lens_image(frame, lens);
            let (nearness, planes): (Vec<f64>, Vec<TangentPlane>) =
                epipolar_samples(state, &patch, corner, to, range, reach).into_iter().unzip();
            let Some((pixel, at)) = patch.search(to, &planes, reach, PatchWarp::Shift) else { continue };
            thing.observations.push(LensObservation { pixel: self.to_full(pixel), ..to.observation(pixel) });
            if range.is_none() {
                thing.inverse_depth = nearness[at];
            }
            let (nearness, certainty) = estimate_inverse_depth(state, &thing);
            thing.inverse_depth = nearness;
            // Until the first solve, errors of lens and poses are as large as the search radius.
            let doubt = 0.5 * f64::from(reach * self.factor as i32) / libm::sqrt(certainty);
            range = doubt.is_finite().then_some([nearness - 2.0 * doubt, nearness + 2.0 * doubt]);
        }
        (!thing.observations.is_empty()).then_some(thing)
    }

    /// Matches the observations of a landmark again around their predicted positions.
    pub(super) fn refine_landmark(
        &self,
        state: &CalibrationState,
        thing: &Landmark,
        near: &[usize],
        within: f64,
    ) -> Option<Landmark> {
        let reach = self.search_steps(within);
        let corner = thing.corner;
        let from = self.lens_image(corner.frame, corner.lens);
        let patch = Patch::new(from, self.to_level(corner.pixel), from.model.pixel_angle())?;
        let sighting = |(frame, lens): (usize, usize)| {
            let to = self.lens_image(frame, lens);
            let plane = patch
                .transformed(&state.relative_pose(corner, to.observation([0.0; 2])), thing.inverse_depth);
            let (pixel, _) = patch.search(to, &[plane], reach, PatchWarp::Affine)?;
            Some(LensObservation { pixel: self.to_full(pixel), ..to.observation(pixel) })
        };
        let sightings: Vec<LensObservation> = lenses_to_search(from, near).filter_map(sighting).collect();
        (!sightings.is_empty()).then_some(Landmark { observations: sightings, ..*thing })
    }
}

/// Lenses to search: both lenses of the nearby frames, then the other lens of the same frame.
fn lenses_to_search(from: LensImage<'_>, near: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let others = near.iter().flat_map(|&frame| [(frame, 0), (frame, 1)]);
    others.chain([(from.frame, 1 - from.lens)])
}

/// Samples a range of inverse depths along the epipolar line: the patch's plane for each, 1.5 search radii apart in the
/// image. A range that is shorter than this gives its middle alone.
fn epipolar_samples(
    state: &CalibrationState,
    patch: &Patch,
    corner: LensObservation,
    to: LensImage<'_>,
    range: Option<[f64; 2]>,
    reach: i32,
) -> Vec<(f64, TangentPlane)> {
    let way = state.relative_pose(corner, to.observation([0.0; 2]));
    let most = (1.0 / (MIN_DEPTH * se3::norm(way.translation)))
        .min(MAX_INVERSE_DEPTH / state.spacing.unwrap_or(1.0));
    let [low, high] = range.unwrap_or([0.0, most]);
    let (low, high) = (low.clamp(0.0, most), high.clamp(0.0, most));
    let ray = state.ray(corner);
    let angle = |nearness: f64| {
        let there = way.transform(ray, nearness);
        let length = se3::norm(there);
        se3::norm(se3::cross(there, way.translation)) / (length * length)
    };
    let apart = 1.5 * f64::from(reach) * to.model.pixel_angle();
    let middle = 0.5 * (low + high);
    if angle(middle) * (high - low) <= apart {
        return vec![(middle, patch.transformed(&way, middle))];
    }
    let mut planes = Vec::new();
    let mut nearness = low;
    while nearness <= high && planes.len() < MAX_LINE_SAMPLES {
        planes.push((nearness, patch.transformed(&way, nearness)));
        nearness += apart / angle(nearness).max(1e-9);
    }
    planes
}

/// Inverse depth with the smallest reprojection error (Gauss-Newton), and its information: squared px per squared unit.
fn estimate_inverse_depth(state: &CalibrationState, thing: &Landmark) -> (f64, f64) {
    let mut nearness = thing.inverse_depth;
    let mut certainty = 0.0;
    for _ in 0..6 {
        let (mut slope, mut right) = (0.0, 0.0);
        for &to in &thing.observations {
            let track = LensMatch { from: thing.corner, to, landmark: None };
            let step = 1e-5 / state.spacing.unwrap_or(1.0);
            let [here, beside] = [0.0, step].map(|by| state.residual_at(&track, nearness + by));
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
pub(super) fn nearest_frames(state: &CalibrationState, has_pose: &[bool]) -> Vec<Vec<usize>> {
    let centres: Vec<[f64; 3]> = state.poses.iter().map(|pose| pose.centre()).collect();
    let of = |frame: usize| {
        let others = (0..centres.len()).filter(|&other| other != frame && has_pose[other] && has_pose[frame]);
        let mut others: Vec<(f64, usize)> =
            others.map(|other| (distance(centres[frame], centres[other]), other)).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        others.into_iter().take(SEARCHED_FRAMES).map(|(_, other)| other).collect()
    };
    (0..centres.len()).map(of).collect()
}

/// Landmarks in the form that the solver takes: matches sorted by landmark, and inverse depths.
pub(super) fn matches_of(things: &[Landmark]) -> (Vec<LensMatch>, Vec<f64>) {
    let track = |(at, thing): (usize, &Landmark)| {
        let (from, sightings) = (thing.corner, thing.observations.clone());
        sightings.into_iter().map(move |to| LensMatch { from, to, landmark: Some(at) })
    };
    (things.iter().enumerate().flat_map(track).collect(), things.iter().map(|t| t.inverse_depth).collect())
}
