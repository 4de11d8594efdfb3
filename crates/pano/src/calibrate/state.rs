//! Parameters of the calibration (two lenses, poses, inverse depths), with the residuals and Jacobians of matches.
//!
//! A landmark is parameterised by a ray from the lens that saw it and its inverse depth (Civera et al. 2008): it is at
//! distance `1/d` along the ray for inverse depth `d`, in the unit of the poses. Points at infinity have `d = 0`, and
//! all directions stay finite. With `x = ray + d · (position of the lens)` in the axes of the frame, the point is
//! `y = R x + d · t` in the axes of another frame, and `y - d · (position of its lens)` is the direction in which that
//! lens sees it.

use std::ops::Range;

use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};

use super::model::Model;
use super::tracks::{Seen, Track};

/// Parameters of one lens (centre, three coefficients), and of both lenses with the rotation of the second.
pub(super) const LENS: usize = 5;
pub(super) const BOTH: usize = 2 * LENS + 3;
/// With given poses: index of the first parameter of the second lens' position, and the number of parameters of a pose,
/// translation first.
pub(super) const BASELINE: usize = BOTH;
pub(super) const POSE: usize = 6;

/// Values of all parameters.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) models: [Model; 2],
    /// `pano_from_world` of each frame; the world is that of the given poses, or the axes of the first frame.
    pub(super) poses: Vec<Pose>,
    /// Median distance between neighbouring frames, if poses are given; `None` if the camera only rotated.
    pub(super) unit: Option<f64>,
    /// Position of the second lens relative to the first, in panorama axes.
    pub(super) second: [f64; 3],
    /// Inverse depth of each landmark, in one over the unit of the poses.
    pub(super) nearness: Vec<f64>,
}

/// Relative pose from one lens of a frame to a lens of another frame: maps a ray of inverse depth `d` to `R ray + d t`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) turn: Mat3,
    pub(super) shift: [f64; 3],
}

impl Way {
    /// Pure rotation, for frames at the same position.
    pub(super) fn turn(turn: &Mat3) -> Self {
        Self { turn: *turn, shift: [0.0; 3] }
    }

    pub(super) fn carried(&self, ray: [f64; 3], nearness: f64) -> [f64; 3] {
        add(se3::mul_vec(&self.turn, ray), nearness, self.shift)
    }
}

/// Residual of a match, px, and its Jacobian: derivatives by parameter index, where an index may occur more than once
/// and then contributions are summed, and by the inverse depth of its landmark.
pub(super) struct Slopes {
    pub(super) error: [f64; 2],
    pub(super) by: Vec<(usize, [f64; 2])>,
    pub(super) by_nearness: [f64; 2],
}

/// `a + factor · b`.
fn add(a: [f64; 3], factor: f64, b: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|k| a[k] + factor * b[k])
}

impl State {
    /// Position of a lens in the axes of its frame.
    fn place(&self, lens: usize) -> [f64; 3] {
        if lens == 0 { [0.0; 3] } else { self.second }
    }

    /// Relative pose between the lenses of two observations.
    pub(super) fn way(&self, from: Seen, to: Seen) -> Way {
        let (here, there) = (self.place(from.lens), self.place(to.lens));
        if from.frame == to.frame {
            return Way { turn: se3::IDENTITY3, shift: add(here, -1.0, there) };
        }
        let (a, b) = (&self.poses[from.frame], &self.poses[to.frame]);
        let turn = se3::mul(&b.rotation, &se3::transpose(&a.rotation));
        let carried = se3::mul_vec(&turn, add(here, -1.0, a.translation));
        Way { turn, shift: add(add(carried, 1.0, b.translation), -1.0, there) }
    }

    /// Ray of an observation in panorama axes.
    pub(super) fn ray(&self, seen: Seen) -> [f64; 3] {
        let model = &self.models[seen.lens];
        se3::mul_vec(&model.pano_from_lens, model.unproject(seen.pixel))
    }

    fn nearness_of(&self, track: &Track) -> f64 {
        track.thing.map_or(0.0, |thing| self.nearness[thing])
    }

    /// Reprojection residual of a match, px.
    pub(super) fn error(&self, track: &Track) -> [f64; 2] {
        self.error_at(track, self.nearness_of(track))
    }

    /// Residual of a match for the given inverse depth, px.
    pub(super) fn error_at(&self, track: &Track, nearness: f64) -> [f64; 2] {
        let Track { from, to, .. } = *track;
        let model = &self.models[to.lens];
        let there = self.way(from, to).carried(self.ray(from), nearness);
        let [u, v] = model.project(se3::transpose_mul_vec(&model.pano_from_lens, there));
        [u - to.pixel[0], v - to.pixel[1]]
    }

    /// Number of parameters without inverse depths, which the solver eliminates.
    pub(super) fn count(&self) -> usize {
        match self.unit {
            None => BOTH + 3 * self.poses.len().saturating_sub(1),
            Some(_) => BASELINE + 3 + POSE * self.poses.len(),
        }
    }

    /// Parameters of a frame: its rotation (the first frame is fixed and has none), or, with given poses, its pose.
    pub(super) fn unknowns_of(&self, frame: usize) -> Option<Range<usize>> {
        match self.unit {
            None => frame.checked_sub(1).map(|before| BOTH + 3 * before..BOTH + 3 * frame),
            Some(_) => Some(BASELINE + 3 + POSE * frame..BASELINE + 3 + POSE * (frame + 1)),
        }
    }

    /// The state after a step of all parameters except inverse depths.
    pub(super) fn moved(&self, step: &[f64]) -> Self {
        let three = |from: usize| [step[from], step[from + 1], step[from + 2]];
        let mut next = self.clone();
        for (lens, model) in next.models.iter_mut().enumerate() {
            let own = &step[LENS * lens..LENS * (lens + 1)];
            (0..2).for_each(|k| model.centre[k] += own[k]);
            (0..3).for_each(|k| model.polynomial[k] += own[2 + k]);
        }
        let rotation = &mut next.models[1].pano_from_lens;
        *rotation = se3::orthonormalise(&se3::mul(rotation, &se3::so3_exp(three(2 * LENS))));
        if self.unit.is_some() {
            next.second = add(next.second, 1.0, three(BASELINE));
        }
        for (frame, pose) in next.poses.iter_mut().enumerate() {
            let Some(own) = self.unknowns_of(frame) else { continue };
            let [a, b, c] = three(own.end - 3);
            let [x, y, z] = if own.len() == POSE { three(own.start) } else { [0.0; 3] };
            *pose = se3::exp([x, y, z, a, b, c]).compose(pose);
            pose.rotation = se3::orthonormalise(&pose.rotation);
        }
        next
    }

    /// Residual and Jacobian of a match. Lens parameters use central differences, the rest is analytic.
    pub(super) fn slopes(&self, track: &Track) -> Slopes {
        let Track { from, to, .. } = *track;
        let (a, b) = (&self.models[from.lens], &self.models[to.lens]);
        let nearness = self.nearness_of(track);
        let way = self.way(from, to);
        let ray_in_lens = a.unproject(from.pixel);
        let ray = se3::mul_vec(&a.pano_from_lens, ray_in_lens);
        let there = way.carried(ray, nearness);
        let there_in_lens = se3::transpose_mul_vec(&b.pano_from_lens, there);
        let [u, v] = b.project(there_in_lens);
        let in_lens = b.slopes_by_direction(there_in_lens);
        // Derivatives by the direction at the target, and by the direction at the source; `both` evaluates a function
        // for each coordinate of the pixel.
        let by_there = in_lens.map(|row| se3::mul_vec(&b.pano_from_lens, row));
        let by_here = by_there.map(|row| se3::transpose_mul_vec(&way.turn, row));
        let by_ray = by_here.map(|row| se3::transpose_mul_vec(&a.pano_from_lens, row));
        let both = |value: &dyn Fn(usize) -> f64| [value(0), value(1)];
        let mut by: Vec<(usize, [f64; 2])> = Vec::with_capacity(28);
        for (k, moved) in a.changed().into_iter().enumerate() {
            let [up, down] = moved.map(|model| model.unproject(from.pixel));
            let slope = [0, 1, 2].map(|i| (up[i] - down[i]) / (2.0 * Model::STEPS[k]));
            by.push((LENS * from.lens + k, both(&|c| se3::dot(by_ray[c], slope))));
        }
        for (k, moved) in b.changed().into_iter().enumerate() {
            let [up, down] = moved.map(|model| model.project(there_in_lens));
            by.push((LENS * to.lens + k, both(&|c| (up[c] - down[c]) / (2.0 * Model::STEPS[k]))));
        }
        let mut turned = |first: usize, sign: f64, place: [f64; 3], rows: [[f64; 3]; 2]| {
            // A rotation by φ moves a point p by φ × p, and d · (φ × p) = φ · (p × d).
            let rows = rows.map(|row| se3::cross(place, row));
            (0..3).for_each(|k| by.push((first + k, both(&|c| sign * rows[c][k]))));
        };
        if from.lens == 1 {
            turned(2 * LENS, 1.0, ray_in_lens, by_ray);
        }
        if to.lens == 1 {
            turned(2 * LENS, -1.0, there_in_lens, in_lens);
        }
        let in_head = add(ray, nearness, self.place(from.lens));
        let in_head_there = add(there, nearness, self.place(to.lens));
        let mut moved = Vec::new();
        if from.frame != to.frame {
            if let Some(own) = self.unknowns_of(from.frame) {
                turned(own.end - 3, -1.0, in_head, by_here);
                moved.extend((own.len() == POSE).then_some((own.start, -1.0, by_here)));
            }
            if let Some(own) = self.unknowns_of(to.frame) {
                turned(own.end - 3, 1.0, in_head_there, by_there);
                moved.extend((own.len() == POSE).then_some((own.start, 1.0, by_there)));
            }
        }
        if self.unit.is_some() {
            moved.extend((from.lens == 1).then_some((BASELINE, 1.0, by_here)));
            moved.extend((to.lens == 1).then_some((BASELINE, -1.0, by_there)));
        }
        for (first, sign, rows) in moved {
            (0..3).for_each(|k| by.push((first + k, both(&|c| sign * nearness * rows[c][k]))));
        }
        Slopes {
            error: [u - to.pixel[0], v - to.pixel[1]],
            by,
            by_nearness: both(&|c| {
                if track.thing.is_some() { se3::dot(by_there[c], way.shift) } else { 0.0 }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::rotation;

    fn state(unit: Option<f64>) -> State {
        let model = |x: f64, yaw: f64, roll: f64| Model {
            centre: [x, 398.0],
            radius: 380.0,
            polynomial: [1.05, -0.06, 0.014],
            pano_from_lens: rotation(yaw, 2.0, roll),
        };
        let pose = |k: f64| Pose {
            rotation: rotation(40.0 * k, 9.0 * k, -5.0 * k),
            translation: if unit.is_some() { [0.3 * k, -0.1 * k, 0.2 - k] } else { [0.0; 3] },
        };
        State {
            models: [model(401.0, 3.0, 1.0), model(1203.0, 178.0, -20.0)],
            poses: vec![pose(0.0), pose(1.0), pose(-1.3)],
            unit,
            second: if unit.is_some() { [0.02, -0.01, -0.05] } else { [0.0; 3] },
            nearness: vec![0.4, 0.1],
        }
    }

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        let seen = |frame: usize, lens: usize, x: f64, y: f64| Seen {
            frame,
            lens,
            pixel: [401.0 + 802.0 * lens as f64 + x, 398.0 + y],
        };
        let pairs = [
            (seen(0, 0, 200.0, 90.0), seen(1, 0, 10.0, -70.0)),
            (seen(1, 1, -150.0, 120.0), seen(2, 0, 60.0, 10.0)),
            (seen(2, 1, 30.0, 310.0), seen(0, 1, 100.0, 100.0)),
            (seen(1, 0, 340.0, 20.0), seen(1, 1, -330.0, 40.0)),
        ];
        for unit in [None, Some(1.0)] {
            let state = state(unit);
            for (at, (from, to)) in pairs.into_iter().enumerate() {
                let track = Track { from, to, thing: unit.map(|_| at % 2) };
                let slopes = state.slopes(&track);
                for k in 0..state.count() {
                    let told = slopes.by.iter().filter(|(unknown, _)| *unknown == k);
                    let told = told.fold([0.0; 2], |sum, (_, by)| [sum[0] + by[0], sum[1] + by[1]]);
                    let mut step = vec![0.0; state.count()];
                    let [up, down] = [1e-6, -1e-6].map(|by| {
                        step[k] = by;
                        state.moved(&step).error(&track)
                    });
                    for c in 0..2 {
                        let wanted = (up[c] - down[c]) / 2e-6;
                        assert!(
                            (wanted - told[c]).abs() < 1e-3 * (1.0 + wanted.abs()),
                            "{unit:?}, track {at}, unknown {k}: {} {wanted}",
                            told[c]
                        );
                    }
                }
                if let Some(thing) = track.thing {
                    let [up, down] =
                        [1e-6, -1e-6].map(|by| state.error_at(&track, state.nearness[thing] + by));
                    for c in 0..2 {
                        let wanted = (up[c] - down[c]) / 2e-6;
                        assert!((wanted - slopes.by_nearness[c]).abs() < 1e-3 * (1.0 + wanted.abs()));
                    }
                }
            }
        }
    }
}
