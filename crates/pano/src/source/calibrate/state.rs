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

use super::matching::{LensMatch, LensObservation};
use super::model::LensModel;

/// Parameters of one lens (centre, three coefficients), and of both lenses with the rotation of the second.
pub(super) const LENS_PARAMETERS: usize = 5;
pub(super) const LENSES_PARAMETERS: usize = 2 * LENS_PARAMETERS + 3;
/// With given poses: index of the first parameter of the second lens' position, and the number of parameters of a pose,
/// translation first.
pub(super) const OFFSET_PARAMETER: usize = LENSES_PARAMETERS;
pub(super) const POSE_PARAMETERS: usize = 6;

/// Values of all parameters.
#[derive(Clone, Debug)]
pub(super) struct CalibrationState {
    pub(super) models: [LensModel; 2],
    /// `pano_from_world` of each frame; the world is that of the given poses, or the axes of the first frame.
    pub(super) poses: Vec<Pose>,
    /// Median distance between neighbouring frames, if poses are given; `None` if the camera only rotated.
    pub(super) spacing: Option<f64>,
    /// Position of the second lens relative to the first, in panorama axes.
    pub(super) second_position: [f64; 3],
    /// Inverse depth of each landmark, in one over the unit of the poses.
    pub(super) inverse_depths: Vec<f64>,
}

/// Relative pose from one lens of a frame to a lens of another frame: maps a ray of inverse depth `d` to `R ray + d t`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelativePose {
    pub(super) rotation: Mat3,
    pub(super) translation: [f64; 3],
}

impl RelativePose {
    /// Pure rotation, for frames at the same position.
    pub(super) fn from_rotation(turn: &Mat3) -> Self {
        Self { rotation: *turn, translation: [0.0; 3] }
    }

    pub(super) fn transform(&self, ray: [f64; 3], nearness: f64) -> [f64; 3] {
        add_scaled(se3::mul_vec(&self.rotation, ray), nearness, self.translation)
    }
}

/// Residual of a match, px, and its Jacobian: derivatives by parameter index, where an index may occur more than once
/// and then contributions are summed, and by the inverse depth of its landmark.
pub(super) struct ResidualJacobian {
    pub(super) residual: [f64; 2],
    pub(super) by_parameter: Vec<(usize, [f64; 2])>,
    pub(super) by_inverse_depth: [f64; 2],
}

/// `a + factor · b`.
fn add_scaled(a: [f64; 3], factor: f64, b: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|k| a[k] + factor * b[k])
}

impl CalibrationState {
    /// Position of a lens in the axes of its frame.
    fn lens_position(&self, lens: usize) -> [f64; 3] {
        if lens == 0 { [0.0; 3] } else { self.second_position }
    }

    /// Relative pose between the lenses of two observations.
    pub(super) fn relative_pose(&self, from: LensObservation, to: LensObservation) -> RelativePose {
        let (here, there) = (self.lens_position(from.lens), self.lens_position(to.lens));
        if from.frame == to.frame {
            return RelativePose { rotation: se3::IDENTITY3, translation: add_scaled(here, -1.0, there) };
        }
        let (a, b) = (&self.poses[from.frame], &self.poses[to.frame]);
        let turn = se3::mul(&b.rotation, &se3::transpose(&a.rotation));
        let carried = se3::mul_vec(&turn, add_scaled(here, -1.0, a.translation));
        RelativePose {
            rotation: turn,
            translation: add_scaled(add_scaled(carried, 1.0, b.translation), -1.0, there),
        }
    }

    /// Ray of an observation in panorama axes.
    pub(super) fn ray(&self, seen: LensObservation) -> [f64; 3] {
        let model = &self.models[seen.lens];
        se3::mul_vec(&model.pano_from_lens, model.unproject(seen.pixel))
    }

    fn inverse_depth_of(&self, track: &LensMatch) -> f64 {
        track.landmark.map_or(0.0, |thing| self.inverse_depths[thing])
    }

    /// Reprojection residual of a match, px.
    pub(super) fn residual(&self, track: &LensMatch) -> [f64; 2] {
        self.residual_at(track, self.inverse_depth_of(track))
    }

    /// Residual of a match for the given inverse depth, px.
    pub(super) fn residual_at(&self, track: &LensMatch, nearness: f64) -> [f64; 2] {
        let LensMatch { from, to, .. } = *track;
        let model = &self.models[to.lens];
        let there = self.relative_pose(from, to).transform(self.ray(from), nearness);
        let [u, v] = model.project(se3::transpose_mul_vec(&model.pano_from_lens, there));
        [u - to.pixel[0], v - to.pixel[1]]
    }

    /// Number of parameters without inverse depths, which the solver eliminates.
    pub(super) fn parameter_count(&self) -> usize {
        match self.spacing {
            None => LENSES_PARAMETERS + 3 * self.poses.len().saturating_sub(1),
            Some(_) => OFFSET_PARAMETER + 3 + POSE_PARAMETERS * self.poses.len(),
        }
    }

    /// Parameters of a frame: its rotation (the first frame is fixed and has none), or, with given poses, its pose.
    pub(super) fn frame_parameters(&self, frame: usize) -> Option<Range<usize>> {
        match self.spacing {
            None => frame
                .checked_sub(1)
                .map(|before| LENSES_PARAMETERS + 3 * before..LENSES_PARAMETERS + 3 * frame),
            Some(_) => Some(
                OFFSET_PARAMETER + 3 + POSE_PARAMETERS * frame
                    ..OFFSET_PARAMETER + 3 + POSE_PARAMETERS * (frame + 1),
            ),
        }
    }

    /// The state after a step of all parameters except inverse depths.
    pub(super) fn stepped(&self, step: &[f64]) -> Self {
        let three = |from: usize| [step[from], step[from + 1], step[from + 2]];
        let mut next = self.clone();
        for (lens, model) in next.models.iter_mut().enumerate() {
            let own = &step[LENS_PARAMETERS * lens..LENS_PARAMETERS * (lens + 1)];
            (0..2).for_each(|k| model.centre[k] += own[k]);
            (0..3).for_each(|k| model.polynomial[k] += own[2 + k]);
        }
        let rotation = &mut next.models[1].pano_from_lens;
        *rotation = se3::orthonormalise(&se3::mul(rotation, &se3::so3_exp(three(2 * LENS_PARAMETERS))));
        if self.spacing.is_some() {
            next.second_position = add_scaled(next.second_position, 1.0, three(OFFSET_PARAMETER));
        }
        for (frame, pose) in next.poses.iter_mut().enumerate() {
            let Some(own) = self.frame_parameters(frame) else { continue };
            let [a, b, c] = three(own.end - 3);
            let [x, y, z] = if own.len() == POSE_PARAMETERS { three(own.start) } else { [0.0; 3] };
            *pose = se3::exp([x, y, z, a, b, c]).compose(pose);
            pose.rotation = se3::orthonormalise(&pose.rotation);
        }
        next
    }

    /// Residual and Jacobian of a match. Lens parameters use central differences, the rest is analytic.
    pub(super) fn linearise(&self, track: &LensMatch) -> ResidualJacobian {
        let LensMatch { from, to, .. } = *track;
        let (a, b) = (&self.models[from.lens], &self.models[to.lens]);
        let nearness = self.inverse_depth_of(track);
        let way = self.relative_pose(from, to);
        let ray_in_lens = a.unproject(from.pixel);
        let ray = se3::mul_vec(&a.pano_from_lens, ray_in_lens);
        let there = way.transform(ray, nearness);
        let there_in_lens = se3::transpose_mul_vec(&b.pano_from_lens, there);
        let [u, v] = b.project(there_in_lens);
        let in_lens = b.direction_jacobian(there_in_lens);
        // Derivatives by the direction at the target, and by the direction at the source; `both` evaluates a function
        // for each coordinate of the pixel.
        let by_there = in_lens.map(|row| se3::mul_vec(&b.pano_from_lens, row));
        let by_here = by_there.map(|row| se3::transpose_mul_vec(&way.rotation, row));
        let by_ray = by_here.map(|row| se3::transpose_mul_vec(&a.pano_from_lens, row));
        let both = |value: &dyn Fn(usize) -> f64| [value(0), value(1)];
        let mut by: Vec<(usize, [f64; 2])> = Vec::with_capacity(28);
        for (k, moved) in a.perturbed().into_iter().enumerate() {
            let [up, down] = moved.map(|model| model.unproject(from.pixel));
            let slope = [0, 1, 2].map(|i| (up[i] - down[i]) / (2.0 * LensModel::DIFFERENCE_STEPS[k]));
            by.push((LENS_PARAMETERS * from.lens + k, both(&|c| se3::dot(by_ray[c], slope))));
        }
        for (k, moved) in b.perturbed().into_iter().enumerate() {
            let [up, down] = moved.map(|model| model.project(there_in_lens));
            by.push((
                LENS_PARAMETERS * to.lens + k,
                both(&|c| (up[c] - down[c]) / (2.0 * LensModel::DIFFERENCE_STEPS[k])),
            ));
        }
        let mut turned = |first: usize, sign: f64, place: [f64; 3], rows: [[f64; 3]; 2]| {
            // A rotation by φ moves a point p by φ × p, and d · (φ × p) = φ · (p × d).
            let rows = rows.map(|row| se3::cross(place, row));
            (0..3).for_each(|k| by.push((first + k, both(&|c| sign * rows[c][k]))));
        };
        if from.lens == 1 {
            turned(2 * LENS_PARAMETERS, 1.0, ray_in_lens, by_ray);
        }
        if to.lens == 1 {
            turned(2 * LENS_PARAMETERS, -1.0, there_in_lens, in_lens);
        }
        let in_head = add_scaled(ray, nearness, self.lens_position(from.lens));
        let in_head_there = add_scaled(there, nearness, self.lens_position(to.lens));
        let mut moved = Vec::new();
        if from.frame != to.frame {
            if let Some(own) = self.frame_parameters(from.frame) {
                turned(own.end - 3, -1.0, in_head, by_here);
                moved.extend((own.len() == POSE_PARAMETERS).then_some((own.start, -1.0, by_here)));
            }
            if let Some(own) = self.frame_parameters(to.frame) {
                turned(own.end - 3, 1.0, in_head_there, by_there);
                moved.extend((own.len() == POSE_PARAMETERS).then_some((own.start, 1.0, by_there)));
            }
        }
        if self.spacing.is_some() {
            moved.extend((from.lens == 1).then_some((OFFSET_PARAMETER, 1.0, by_here)));
            moved.extend((to.lens == 1).then_some((OFFSET_PARAMETER, -1.0, by_there)));
        }
        for (first, sign, rows) in moved {
            (0..3).for_each(|k| by.push((first + k, both(&|c| sign * nearness * rows[c][k]))));
        }
        ResidualJacobian {
            residual: [u - to.pixel[0], v - to.pixel[1]],
            by_parameter: by,
            by_inverse_depth: both(&|c| {
                if track.landmark.is_some() { se3::dot(by_there[c], way.translation) } else { 0.0 }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::geometry::rotation;

    fn state(unit: Option<f64>) -> CalibrationState {
        let model = |x: f64, yaw: f64, roll: f64| LensModel {
            centre: [x, 398.0],
            radius: 380.0,
            polynomial: [1.05, -0.06, 0.014],
            pano_from_lens: rotation(yaw, 2.0, roll),
        };
        let pose = |k: f64| Pose {
            rotation: rotation(40.0 * k, 9.0 * k, -5.0 * k),
            translation: if unit.is_some() { [0.3 * k, -0.1 * k, 0.2 - k] } else { [0.0; 3] },
        };
        CalibrationState {
            models: [model(401.0, 3.0, 1.0), model(1203.0, 178.0, -20.0)],
            poses: vec![pose(0.0), pose(1.0), pose(-1.3)],
            spacing: unit,
            second_position: if unit.is_some() { [0.02, -0.01, -0.05] } else { [0.0; 3] },
            inverse_depths: vec![0.4, 0.1],
        }
    }

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        let seen = |frame: usize, lens: usize, x: f64, y: f64| LensObservation {
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
                let track = LensMatch { from, to, landmark: unit.map(|_| at % 2) };
                let slopes = state.linearise(&track);
                for k in 0..state.parameter_count() {
                    let told = slopes.by_parameter.iter().filter(|(unknown, _)| *unknown == k);
                    let told = told.fold([0.0; 2], |sum, (_, by)| [sum[0] + by[0], sum[1] + by[1]]);
                    let mut step = vec![0.0; state.parameter_count()];
                    let [up, down] = [1e-6, -1e-6].map(|by| {
                        step[k] = by;
                        state.stepped(&step).residual(&track)
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
                if let Some(thing) = track.landmark {
                    let [up, down] =
                        [1e-6, -1e-6].map(|by| state.residual_at(&track, state.inverse_depths[thing] + by));
                    for c in 0..2 {
                        let wanted = (up[c] - down[c]) / 2e-6;
                        assert!((wanted - slopes.by_inverse_depth[c]).abs() < 1e-3 * (1.0 + wanted.abs()));
                    }
                }
            }
        }
    }
}
