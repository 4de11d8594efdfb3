//! Bundle adjustment: poses and points that minimise the angular errors of the bearings of panoramas, or the pixel errors
//! of pictures, with their cameras (Triggs et al. 2000, "Bundle adjustment: a modern synthesis").
//!
//! A point in the axes of a panorama is `y = R X + t`; its error is the difference between `y/|y|` and the bearing `b`
//! along two directions perpendicular to it, in radians (the sine of the angle). With unknown focal lengths angles would
//! shrink as these grow, so errors of pictures are in pixels. Levenberg-Marquardt with Huber loss; points are eliminated
//! (Schur complement). Sums are computed by panorama in the order of observations, so results are
//! bit-identical for any number of threads.

mod normal;
mod order;
mod residual;

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::{Exec, Pool};
use gausset_core::Pose;
use gausset_core::matrix::mul_vec;
use gausset_core::se3;

use crate::reconstruction::picture::{CAMERA_PARAMETERS, PictureCamera};
use crate::reconstruction::solve::solve;
use normal::{NormalEquations, Structure};
use residual::{LinearisedResidual, huber_loss, huber_loss_pixel, linearise, linearise_pixel};

/// Observations per task.
const OBSERVATIONS_PER_TASK: usize = 1024;
/// Parameters of a pose: a twist, translation first.
const POSE_PARAMETERS: usize = 6;

/// An observation of a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    pub(crate) pose: u32,
    pub(crate) point: u32,
    pub(crate) target: Target,
}

/// What was seen of a point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// A bearing of a panorama.
    Bearing([f64; 3]),
    /// A pixel of a picture with this camera.
    Pixel {
        /// Index of the camera.
        camera: u32,
        /// Continuous position, px.
        pixel: [f64; 2],
    },
}

/// A camera that is adjusted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdjustedCamera {
    pub(crate) camera: PictureCamera,
    /// Expected values of the parameters, and their weights: squared px divided by the variance.
    pub(crate) expected: [f64; CAMERA_PARAMETERS],
    pub(crate) weights: [f64; CAMERA_PARAMETERS],
    /// Which parameters are adjusted.
    pub(crate) free: [bool; CAMERA_PARAMETERS],
    /// Factor of the errors of its pixels.
    pub(crate) error_scale: f64,
}

impl AdjustedCamera {
    /// Differences from the expected values.
    fn offsets(&self) -> [f64; CAMERA_PARAMETERS] {
        let values = self.camera.parameters();
        std::array::from_fn(|k| values[k] - self.expected[k])
    }

    fn cost(&self) -> f64 {
        self.offsets().iter().zip(self.weights).map(|(off, weight)| weight * off * off).sum()
    }
}

/// Parameters and observations. Only the first pose is fixed; the scale stays near its start.
#[derive(Clone, Debug)]
pub(crate) struct BundleProblem {
    pub(crate) poses: Vec<Pose>,
    pub(crate) points: Vec<[f64; 3]>,
    /// Cameras of pictures; none for panoramas.
    pub(crate) cameras: Vec<AdjustedCamera>,
    /// Ordered by point.
    pub(crate) observations: Vec<Observation>,
}

impl BundleProblem {
    fn loss(&self, o: &Observation, huber: f64) -> f64 {
        let (pose, point) = (&self.poses[o.pose as usize], self.points[o.point as usize]);
        match o.target {
            Target::Bearing(bearing) => huber_loss(pose, point, bearing, huber),
            Target::Pixel { camera, pixel } => {
                let AdjustedCamera { camera, error_scale, .. } = &self.cameras[camera as usize];
                huber_loss_pixel(pose, point, (camera, *error_scale), pixel, huber)
            }
        }
    }

    fn linearised(&self, o: &Observation, huber: f64) -> LinearisedResidual {
        let (pose, point) = (&self.poses[o.pose as usize], self.points[o.point as usize]);
        match o.target {
            Target::Bearing(bearing) => linearise(pose, point, bearing, huber),
            Target::Pixel { camera, pixel } => {
                let AdjustedCamera { camera, free, error_scale, .. } = &self.cameras[camera as usize];
                linearise_pixel(pose, point, (camera, *error_scale), pixel, (huber, *free))
            }
        }
    }

    fn camera_of(&self, o: &Observation) -> Option<usize> {
        match o.target {
            Target::Pixel { camera, .. } => Some(camera as usize),
            Target::Bearing(_) => None,
        }
    }

    fn cost(&self, huber: f64, pool: &Pool) -> f64 {
        let parts = pool.map(self.observations.len().div_ceil(OBSERVATIONS_PER_TASK), |part| {
            let of_part =
                self.observations.iter().skip(OBSERVATIONS_PER_TASK * part).take(OBSERVATIONS_PER_TASK);
            of_part.map(|o| self.loss(o, huber)).sum::<f64>()
        });
        parts.iter().sum::<f64>() + self.cameras.iter().map(AdjustedCamera::cost).sum::<f64>()
    }

    /// Reduces the cost by at most `rounds` steps; errors above `huber` (radians or px) have linear instead of quadratic
    /// loss. Returns the root of the mean loss, in the same unit. When `stop` is set, it keeps the result of the last complete
    /// step.
    pub(crate) fn minimise(&mut self, huber: f64, rounds: usize, exec: Exec<'_>, stop: &AtomicBool) -> f64 {
        let structure = Structure::new(self);
        let mut rows = vec![LinearisedResidual::default(); self.observations.len()];
        let mut cost = self.cost(huber, exec.pool);
        let mut damping = 1e-4;
        for _ in 0..rounds {
            exec.pool.run_chunks(&mut rows, OBSERVATIONS_PER_TASK, |part, rows| {
                for (row, o) in rows.iter_mut().zip(&self.observations[part * OBSERVATIONS_PER_TASK..]) {
                    *row = self.linearised(o, huber);
                }
            });
            let mut better = None;
            while better.is_none() && damping < 1e8 && !stop.load(Ordering::Relaxed) {
                let Some(next) = self.step(&rows, &structure, damping, exec) else {
                    damping *= 10.0;
                    continue;
                };
                let found = next.cost(huber, exec.pool);
                if found < cost {
                    better = Some((next, found));
                    damping = (damping * 0.1).max(1e-10);
                } else {
                    damping *= 10.0;
                }
            }
            let Some((next, found)) = better else { break };
            *self = next;
            let is_done = cost - found < 1e-8 * cost;
            cost = found;
            if is_done {
                break;
            }
        }
        libm::sqrt(cost / self.observations.len().max(1) as f64)
    }

    /// The problem after a damped step.
    fn step(
        &self,
        rows: &[LinearisedResidual],
        structure: &Structure,
        damping: f64,
        exec: Exec<'_>,
    ) -> Option<Self> {
        let NormalEquations { mut matrix, right: mut twists, points: eliminated } =
            NormalEquations::new(self, rows, structure, damping, exec);
        if !matrix.solve(&mut twists, exec) {
            return None;
        }
        let (of_poses, of_cameras) = twists.split_at(POSE_PARAMETERS * self.poses.len());
        let (of_poses, of_cameras) =
            (of_poses.as_chunks::<POSE_PARAMETERS>().0, of_cameras.as_chunks::<CAMERA_PARAMETERS>().0);
        let mut next = self.clone();
        for (pose, &place) in next.poses.iter_mut().zip(&structure.places) {
            *pose = se3::exp(of_poses[place]).compose(pose);
            pose.rotation = se3::orthonormalise(&pose.rotation);
        }
        for (camera, step) in next.cameras.iter_mut().zip(of_cameras) {
            camera.camera = camera.camera.moved(*step);
        }
        for p in 0..self.points.len() {
            let mut right = eliminated[p].gradient;
            let of_point = structure.starts[p]..structure.starts[p + 1];
            for (row, o) in rows[of_point.clone()].iter().zip(&self.observations[of_point]) {
                let twist = &of_poses[structure.places[o.pose as usize]];
                for e in 0..2 {
                    let mut moved: f64 = row.jacobian_pose[e].iter().zip(twist).map(|(a, b)| a * b).sum();
                    if let Some(camera) = self.camera_of(o) {
                        moved += (0..CAMERA_PARAMETERS)
                            .map(|k| row.jacobian_camera[e][k] * of_cameras[camera][k])
                            .sum::<f64>();
                    }
                    (0..3).for_each(|k| right[k] -= row.weight * row.jacobian_point[e][k] * moved);
                }
            }
            let by = mul_vec(&eliminated[p].inverse, right);
            (0..3).for_each(|k| next.points[p][k] += by[k]);
        }
        Some(next)
    }
}

/// One Gauss-Newton step of a pose to landmarks (position, bearing) with fixed positions.
pub(crate) fn adjust_pose(pose: &mut Pose, landmarks: &[([f64; 3], [f64; 3])], huber: f64) {
    const N: usize = POSE_PARAMETERS;
    let (mut normal, mut right) = ([0.0; N * N], [0.0; N]);
    for (position, bearing) in landmarks {
        let row = linearise(pose, *position, *bearing, huber);
        for e in 0..2 {
            for k in 0..N {
                let weighted = row.weight * row.jacobian_pose[e][k];
                right[k] -= weighted * row.residual[e];
                for l in 0..=k {
                    normal[k * N + l] += weighted * row.jacobian_pose[e][l];
                }
            }
        }
    }
    for k in 0..N {
        normal[k * N + k] += 1e-9 * normal[k * N + k] + 1e-12;
    }
    if solve(&mut normal, &mut right) && right.iter().all(|v| v.is_finite()) {
        *pose = se3::exp(right).compose(pose);
    }
}

#[cfg(test)]
mod tests {
    use gausset_core::matrix::norm;
    use gausset_core::se3::so3_exp;

    use super::*;
    use crate::reconstruction::two_view::tangents;
    use crate::reconstruction::two_view::tests::{angle_between, vector};

    static GO: AtomicBool = AtomicBool::new(false);

    /// Six panoramas among 200 points that all of them see, with bearing errors of up to `noise` radians.
    fn problem(noise: f64) -> (BundleProblem, BundleProblem) {
        let poses: Vec<Pose> = (0..6)
            .map(|k| Pose { rotation: so3_exp(vector(30, k, 0)), translation: vector(31, k, 0) })
            .collect();
        let points: Vec<[f64; 3]> = (0..200).map(|k| vector(32, k, 0).map(|v| 5.0 * v)).collect();
        let mut observations = Vec::new();
        for (p, point) in points.iter().enumerate() {
            for (i, pose) in poses.iter().enumerate() {
                let y = pose.apply(*point);
                let by = vector(33, p as u32, i as u32);
                let b: [f64; 3] = std::array::from_fn(|k| y[k] / norm(y) + noise * by[k]);
                let target = Target::Bearing(b.map(|v| v / norm(b)));
                observations.push(Observation { pose: i as u32, point: p as u32, target });
            }
        }
        let truth = BundleProblem { poses, points, cameras: Vec::new(), observations };
        let mut start = truth.clone();
        for (k, pose) in start.poses.iter_mut().enumerate().skip(1) {
            let [a, b] = [vector(34, k as u32, 0), vector(35, k as u32, 0)].map(|v| v.map(|x| 0.05 * x));
            *pose = se3::exp([a[0], a[1], a[2], b[0], b[1], b[2]]).compose(pose);
        }
        for (k, point) in start.points.iter_mut().enumerate() {
            let by = vector(36, k as u32, 0);
            (0..3).for_each(|i| point[i] += 0.3 * by[i]);
        }
        (truth, start)
    }

    fn bearing_of(observation: &Observation) -> [f64; 3] {
        match observation.target {
            Target::Bearing(bearing) => bearing,
            Target::Pixel { .. } => unreachable!("panoramas"),
        }
    }

    #[test]
    fn exact_pixels_give_the_cameras_back_whatever_their_first_guess() {
        let (mut truth, mut start) = problem(0.0);
        let model = gausset_io::dataset::CameraModel::Radial;
        let real = [
            PictureCamera {
                model,
                distortion: [-0.08, 0.01, 0.0, 0.0],
                ..PictureCamera::new(800, 600, 640.0)
            },
            PictureCamera { model, distortion: [0.03, 0.0, 0.0, 0.0], ..PictureCamera::new(640, 480, 900.0) },
        ];
        // All cameras look at the points from outside.
        for problem in [&mut truth, &mut start] {
            problem.poses.iter_mut().for_each(|pose| pose.translation[2] += 14.0);
            problem.cameras = real
                .iter()
                .map(|&camera| AdjustedCamera {
                    error_scale: 1.0,
                    camera,
                    expected: PictureCamera::new(800, 600, camera.focal).parameters(),
                    weights: [1e-6; CAMERA_PARAMETERS],
                    free: camera.free(),
                })
                .collect();
        }
        for k in 0..truth.observations.len() {
            let Observation { pose, point, .. } = truth.observations[k];
            let camera = pose % 2;
            let seen = truth.poses[pose as usize].apply(truth.points[point as usize]);
            let pixel = real[camera as usize].project(seen).unwrap();
            truth.observations[k].target = Target::Pixel { camera, pixel };
        }
        start.observations = truth.observations.clone();
        start.cameras[0].camera = PictureCamera { model, ..PictureCamera::new(800, 600, 700.0) };
        start.cameras[1].camera = PictureCamera { model, ..PictureCamera::new(640, 480, 820.0) };
        let mut results = Vec::new();
        for threads in [1, 3] {
            let mut found = start.clone();
            let error = found.minimise(2.0, 100, Exec::best(&Pool::new(threads)), &GO);
            assert!(error < 1e-2, "{error}");
            for (found, real) in found.cameras.iter().zip(&real) {
                assert!((found.camera.focal / real.focal - 1.0).abs() < 1e-3, "{found:?}");
                assert!((found.camera.distortion[0] - real.distortion[0]).abs() < 1e-3, "{found:?}");
            }
            results.push(found.poses);
        }
        assert_eq!(results[0], results[1]);
    }

    #[test]
    fn exact_bearings_give_the_scene_back_up_to_its_scale() {
        let (truth, start) = problem(0.0);
        let mut results = Vec::new();
        for threads in [1, 3] {
            let mut found = start.clone();
            let error = found.minimise(1e-2, 50, Exec::best(&Pool::new(threads)), &GO);
            assert!(error < 1e-10, "{error}");
            let way = |p: &BundleProblem, k: usize| -> [f64; 3] {
                let (a, b) = (p.poses[k].centre(), p.poses[0].centre());
                std::array::from_fn(|i| a[i] - b[i])
            };
            let scale = norm(way(&truth, 1)) / norm(way(&found, 1));
            for k in 1..6 {
                assert!(angle_between(&found.poses[k].rotation, &truth.poses[k].rotation) < 1e-7);
                let (a, b) = (way(&found, k), way(&truth, k));
                assert!(norm(std::array::from_fn(|i| scale * a[i] - b[i])) < 1e-7, "{k}");
            }
            results.push(found.poses);
        }
        assert_eq!(results[0], results[1]);
    }

    #[test]
    fn a_few_wrong_sightings_hardly_pull() {
        let (truth, mut start) = problem(5e-4);
        for observation in start.observations.iter_mut().step_by(37) {
            observation.target = Target::Bearing(bearing_of(observation).map(|v| -v));
        }
        for observation in start.observations.iter_mut().skip(5).step_by(41) {
            let bearing = bearing_of(observation);
            let [u, _] = tangents(bearing);
            let b: [f64; 3] = std::array::from_fn(|k| bearing[k] + 0.1 * u[k]);
            observation.target = Target::Bearing(b.map(|v| v / norm(b)));
        }
        start.observations.retain({
            let mut at = 0;
            move |_| {
                at += 1;
                // Observations in the opposite direction are removed first, as in the rounds of a reconstruction.
                (at - 1) % 37 != 0
            }
        });
        start.minimise(1e-3, 50, Exec::best(&Pool::new(2)), &GO);
        for k in 1..6 {
            let off = angle_between(&start.poses[k].rotation, &truth.poses[k].rotation).to_degrees();
            assert!(off < 0.1, "{off}");
        }
    }
}
