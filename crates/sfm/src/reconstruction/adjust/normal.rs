//! The reduced normal equations of an adjustment: points are eliminated (Schur complement). Unknowns are the poses, in the
//! order of their places, then the cameras.

use gausset_compute::{Exec, at_level};
use gausset_core::matrix::{Mat3, dot, mul_vec};

use super::order::SharedPoints;
use super::{BundleProblem, LinearisedResidual, POSE_PARAMETERS};
use crate::reconstruction::cholesky::{TILE, TileRow, TiledMatrix};
use crate::reconstruction::picture::CAMERA_PARAMETERS;
use crate::reconstruction::solve::inverse_symmetric;

/// Points per task.
const POINTS_PER_TASK: usize = 256;
/// Poses per row of tiles.
const POSES_PER_TILE: usize = TILE / POSE_PARAMETERS;
/// The pose that stays as it is.
const FIXED_POSE: usize = 0;

/// What does not change during an adjustment.
pub(super) struct Structure {
    /// Index of the first observation of each point, and of the end.
    pub(super) starts: Vec<usize>,
    /// Place of each pose.
    pub(super) places: Vec<usize>,
    /// Camera of the pose at each place.
    cameras: Vec<Option<usize>>,
    /// Observations of the poses of each row of tiles, ascending: those of a point follow each other.
    of_row: Vec<Vec<usize>>,
    /// First tile of each row of tiles.
    first: Vec<usize>,
}

impl Structure {
    pub(super) fn new(problem: &BundleProblem) -> Self {
        let count = problem.poses.len();
        let mut starts = vec![0; problem.points.len() + 1];
        problem.observations.iter().for_each(|o| starts[o.point as usize + 1] += 1);
        for k in 0..problem.points.len() {
            starts[k + 1] += starts[k];
        }
        let poses_of =
            |p: usize| problem.observations[starts[p]..starts[p + 1]].iter().map(|o| o.pose as usize);
        let mut shared = SharedPoints::new(count);
        (0..problem.points.len()).for_each(|p| shared.add(poses_of(p)));
        let places = shared.places();
        let mut cameras = vec![None; count];
        let mut of_row = vec![Vec::new(); count.div_ceil(POSES_PER_TILE)];
        for (at, observation) in problem.observations.iter().enumerate() {
            let place = places[observation.pose as usize];
            cameras[place] = problem.camera_of(observation);
            of_row[place / POSES_PER_TILE].push(at);
        }
        let unknowns = POSE_PARAMETERS * count + CAMERA_PARAMETERS * problem.cameras.len();
        let mut first: Vec<usize> = (0..unknowns.div_ceil(TILE)).collect();
        for p in 0..problem.points.len() {
            let Some(least) = poses_of(p).map(|pose| places[pose]).min() else { continue };
            for place in poses_of(p).map(|pose| places[pose]) {
                let row = &mut first[place / POSES_PER_TILE];
                *row = (*row).min(least / POSES_PER_TILE);
            }
        }
        // A camera may share points with every pose.
        if !problem.cameras.is_empty() {
            first[POSE_PARAMETERS * count / TILE..].fill(0);
        }
        Self { starts, places, cameras, of_row, first }
    }
}

/// Terms of an eliminated point.
#[derive(Clone, Copy, Debug)]
pub(super) struct EliminatedPoint {
    pub(super) inverse: Mat3,
    /// Negative gradient.
    pub(super) gradient: [f64; 3],
    /// First of its couplings with cameras, and their number.
    couplings: [usize; 2],
}

/// `Jᵀ J` between a camera and a point, over all observations of the point by the camera.
type CameraCoupling = (usize, [[f64; 3]; CAMERA_PARAMETERS]);

impl EliminatedPoint {
    fn new(rows: &[LinearisedResidual], damping: f64) -> Self {
        let (mut v, mut gradient) = ([[0.0; 3]; 3], [0.0; 3]);
        for row in rows {
            for e in 0..2 {
                for i in 0..3 {
                    gradient[i] -= row.weight * row.jacobian_point[e][i] * row.residual[e];
                    for j in 0..3 {
                        v[i][j] += row.weight * row.jacobian_point[e][i] * row.jacobian_point[e][j];
                    }
                }
            }
        }
        let size = v[0][0].max(v[1][1]).max(v[2][2]);
        for (k, row) in v.iter_mut().enumerate() {
            row[k] += damping * row[k] + 1e-9 * size;
        }
        // A point without a unique solution is not moved.
        Self { inverse: inverse_symmetric(&v).unwrap_or([[0.0; 3]; 3]), gradient, couplings: [0; 2] }
    }
}

/// The equations `matrix x = right` of a damped step.
pub(super) struct NormalEquations {
    pub(super) matrix: TiledMatrix,
    pub(super) right: Vec<f64>,
    pub(super) points: Vec<EliminatedPoint>,
}

/// What a pose contributes outside its rows of the matrix.
#[derive(Default)]
struct PoseTerms {
    right: [f64; POSE_PARAMETERS],
    /// Blocks between the pose and cameras.
    cameras: Vec<(usize, [[f64; POSE_PARAMETERS]; CAMERA_PARAMETERS])>,
    /// Of its own camera: its block, and its right-hand side.
    own_camera: [[f64; CAMERA_PARAMETERS]; CAMERA_PARAMETERS],
    own_right: [f64; CAMERA_PARAMETERS],
}

impl PoseTerms {
    #[inline(always)]
    fn add_own_camera(&mut self, row: &LinearisedResidual) {
        for k in 0..CAMERA_PARAMETERS {
            for e in 0..2 {
                let weighted = row.weight * row.jacobian_camera[e][k];
                self.own_right[k] -= weighted * row.residual[e];
                for l in 0..CAMERA_PARAMETERS {
                    self.own_camera[k][l] += weighted * row.jacobian_camera[e][l];
                }
            }
        }
    }
}

/// What the functions below share.
struct Elimination<'a> {
    problem: &'a BundleProblem,
    rows: &'a [LinearisedResidual],
    structure: &'a Structure,
    points: Vec<EliminatedPoint>,
    couplings: Vec<CameraCoupling>,
    damping: f64,
}

impl NormalEquations {
    pub(super) fn new(
        problem: &BundleProblem,
        rows: &[LinearisedResidual],
        structure: &Structure,
        damping: f64,
        exec: Exec<'_>,
    ) -> Self {
        let elimination = Elimination::new(problem, rows, structure, damping, exec);
        let of_poses = POSE_PARAMETERS * problem.poses.len();
        let unknowns = of_poses + CAMERA_PARAMETERS * problem.cameras.len();
        let mut matrix = TiledMatrix::new(unknowns, &structure.first);
        let mut parts: Vec<(&mut TileRow, Vec<PoseTerms>)> =
            matrix.rows.iter_mut().map(|row| (row, Vec::new())).collect();
        exec.pool.run_parts(&mut parts, |at, (row, terms)| {
            if at < structure.of_row.len() {
                *terms = at_level!(exec.level, _simd => elimination.pose_rows(at, row));
            }
        });
        let terms: Vec<PoseTerms> = parts.into_iter().flat_map(|(_, terms)| terms).collect();
        let mut right: Vec<f64> = terms.iter().flat_map(|terms| terms.right).collect();
        right.resize(unknowns, 0.0);
        let mut add = |i: usize, j: usize, value: f64| {
            matrix.rows[i / TILE].tile_mut(j / TILE)[i % TILE][j % TILE] += value;
        };
        for (place, terms) in terms.iter().enumerate() {
            for (camera, block) in &terms.cameras {
                for (k, values) in block.iter().enumerate() {
                    for (l, value) in values.iter().enumerate() {
                        add(of_poses + CAMERA_PARAMETERS * camera + k, POSE_PARAMETERS * place + l, *value);
                    }
                }
            }
        }
        let of_cameras =
            exec.pool.map(problem.cameras.len(), |camera| elimination.camera_rows(camera, &terms));
        for (camera, (blocks, gradient)) in of_cameras.iter().enumerate() {
            let row = of_poses + CAMERA_PARAMETERS * camera;
            for (other, block) in blocks.iter().enumerate() {
                for (k, values) in block.iter().enumerate() {
                    for (l, value) in values.iter().enumerate() {
                        add(row + k, of_poses + CAMERA_PARAMETERS * other + l, *value);
                    }
                }
            }
            right[row..row + CAMERA_PARAMETERS].copy_from_slice(gradient);
        }
        Self { matrix, right, points: elimination.points }
    }
}

impl<'a> Elimination<'a> {
    fn new(
        problem: &'a BundleProblem,
        rows: &'a [LinearisedResidual],
        structure: &'a Structure,
        damping: f64,
        exec: Exec<'_>,
    ) -> Self {
        let count = problem.points.len();
        let parts = exec.pool.map(count.div_ceil(POINTS_PER_TASK), |part| {
            let (mut points, mut couplings) = (Vec::new(), Vec::<CameraCoupling>::new());
            for p in part * POINTS_PER_TASK..((part + 1) * POINTS_PER_TASK).min(count) {
                let of_point = structure.starts[p]..structure.starts[p + 1];
                let mut point = EliminatedPoint::new(&rows[of_point.clone()], damping);
                let begin = couplings.len();
                for at in of_point {
                    let Some(camera) = problem.camera_of(&problem.observations[at]) else { continue };
                    let added = rows[at].camera_coupling();
                    match couplings[begin..].iter_mut().find(|(of, _)| *of == camera) {
                        Some((_, sum)) => {
                            sum.as_flattened_mut()
                                .iter_mut()
                                .zip(added.as_flattened())
                                .for_each(|(s, v)| *s += v);
                        }
                        None => couplings.push((camera, added)),
                    }
                }
                point.couplings = [begin, couplings.len() - begin];
                points.push(point);
            }
            (points, couplings)
        });
        let (mut points, mut couplings) = (Vec::with_capacity(count), Vec::new());
        for (part, of_part) in parts {
            let begin = couplings.len();
            points.extend(part.into_iter().map(|mut point| {
                point.couplings[0] += begin;
                point
            }));
            couplings.extend(of_part);
        }
        Self { problem, rows, structure, points, couplings, damping }
    }

    fn couplings(&self, point: &EliminatedPoint) -> &[CameraCoupling] {
        let [begin, count] = point.couplings;
        &self.couplings[begin..begin + count]
    }

    /// A row of tiles: its poses, up to their diagonal blocks.
    #[inline(always)]
    fn pose_rows(&self, at: usize, row: &mut TileRow) -> Vec<PoseTerms> {
        let count = POSES_PER_TILE.min(self.problem.poses.len() - at * POSES_PER_TILE);
        let mut terms = Vec::new();
        terms.resize_with(count, PoseTerms::default);
        for &own in &self.structure.of_row[at] {
            let (one, o) = (&self.rows[own], &self.problem.observations[own]);
            let place = self.structure.places[o.pose as usize];
            let (terms, slot) =
                (&mut terms[place % POSES_PER_TILE], POSE_PARAMETERS * (place % POSES_PER_TILE));
            terms.add_own_camera(one);
            if o.pose as usize == FIXED_POSE {
                continue;
            }
            let point = &self.points[o.point as usize];
            // W V⁻¹ without the Jacobian of the pose.
            let mut through = [[0.0; 3]; 2];
            for e in 0..2 {
                for k in 0..3 {
                    let by_place = &one.jacobian_point[e];
                    let sum = by_place[0] * point.inverse[0][k]
                        + by_place[1] * point.inverse[1][k]
                        + by_place[2] * point.inverse[2][k];
                    through[e][k] = one.weight * sum;
                }
            }
            let tile = row.tile_mut(at);
            for e in 0..2 {
                let gradient = one.weight * one.residual[e] + dot(through[e], point.gradient);
                for k in 0..POSE_PARAMETERS {
                    terms.right[k] -= one.jacobian_pose[e][k] * gradient;
                    let weighted = one.weight * one.jacobian_pose[e][k];
                    for l in 0..POSE_PARAMETERS {
                        tile[slot + k][slot + l] += weighted * one.jacobian_pose[e][l];
                    }
                }
            }
            self.subtract_couplings(place, (one, o.point as usize), &through, row);
            self.add_camera_terms(place, one, &through, point, terms);
        }
        let tile = row.tile_mut(at);
        for slot in 0..count {
            let is_fixed = at * POSES_PER_TILE + slot == self.structure.places[FIXED_POSE];
            for k in POSE_PARAMETERS * slot..POSE_PARAMETERS * (slot + 1) {
                // The diagonal before the elimination would do as well; this one is available here.
                tile[k][k] += self.damping * tile[k][k].abs() + if is_fixed { 1.0 } else { 1e-12 };
            }
        }
        terms
    }

    /// Subtracts `W V⁻¹ Wᵀ` between an observation of the pose at a place and all observations of the point.
    #[inline(always)]
    fn subtract_couplings(
        &self,
        place: usize,
        (one, p): (&LinearisedResidual, usize),
        through: &[[f64; 3]; 2],
        row: &mut TileRow,
    ) {
        let at = POSE_PARAMETERS * (place % POSES_PER_TILE);
        let of_point = self.structure.starts[p]..self.structure.starts[p + 1];
        for (other, o) in self.rows[of_point.clone()].iter().zip(&self.problem.observations[of_point]) {
            let to = self.structure.places[o.pose as usize];
            if to > place || o.pose as usize == FIXED_POSE {
                continue;
            }
            let mut between = [[0.0; POSE_PARAMETERS]; 2];
            for e in 0..2 {
                let by = [
                    other.weight * dot(through[e], other.jacobian_point[0]),
                    other.weight * dot(through[e], other.jacobian_point[1]),
                ];
                for l in 0..POSE_PARAMETERS {
                    between[e][l] = by[0] * other.jacobian_pose[0][l] + by[1] * other.jacobian_pose[1][l];
                }
            }
            let tile = row.tile_mut(to / POSES_PER_TILE);
            for k in 0..POSE_PARAMETERS {
                let values = &mut tile[at + k].as_chunks_mut::<POSE_PARAMETERS>().0[to % POSES_PER_TILE];
                let by = [one.jacobian_pose[0][k], one.jacobian_pose[1][k]];
                for l in 0..POSE_PARAMETERS {
                    values[l] -= by[0] * between[0][l] + by[1] * between[1][l];
                }
            }
        }
    }

    /// Adds the terms between an observation and cameras.
    #[inline(always)]
    fn add_camera_terms(
        &self,
        place: usize,
        one: &LinearisedResidual,
        through: &[[f64; 3]; 2],
        point: &EliminatedPoint,
        terms: &mut PoseTerms,
    ) {
        for (other, coupling) in self.couplings(point) {
            let block = match terms.cameras.iter_mut().find(|(of, _)| of == other) {
                Some((_, block)) => block,
                None => {
                    terms.cameras.push((*other, [[0.0; POSE_PARAMETERS]; CAMERA_PARAMETERS]));
                    let Some((_, block)) = terms.cameras.last_mut() else { continue };
                    block
                }
            };
            for k in 0..CAMERA_PARAMETERS {
                for e in 0..2 {
                    let mut value = -dot(through[e], coupling[k]);
                    if self.structure.cameras[place] == Some(*other) {
                        value += one.weight * one.jacobian_camera[e][k];
                    }
                    for l in 0..POSE_PARAMETERS {
                        block[k][l] += value * one.jacobian_pose[e][l];
                    }
                }
            }
        }
    }

    /// The blocks of a camera with the cameras up to itself, and its right-hand side.
    #[allow(clippy::type_complexity)]
    fn camera_rows(
        &self,
        camera: usize,
        terms: &[PoseTerms],
    ) -> (Vec<[[f64; CAMERA_PARAMETERS]; CAMERA_PARAMETERS]>, [f64; CAMERA_PARAMETERS]) {
        let mut blocks = vec![[[0.0; CAMERA_PARAMETERS]; CAMERA_PARAMETERS]; camera + 1];
        let mut right = [0.0; CAMERA_PARAMETERS];
        for point in &self.points {
            let couplings = self.couplings(point);
            let Some((_, own)) = couplings.iter().find(|(of, _)| *of == camera) else { continue };
            let through = own.map(|w| mul_vec(&point.inverse, w));
            for k in 0..CAMERA_PARAMETERS {
                right[k] -= dot(through[k], point.gradient);
                for (other, coupling) in couplings.iter().filter(|(other, _)| *other <= camera) {
                    for l in 0..CAMERA_PARAMETERS {
                        blocks[*other][k][l] -= dot(through[k], coupling[l]);
                    }
                }
            }
        }
        for (place, terms) in terms.iter().enumerate() {
            if self.structure.cameras[place] != Some(camera) {
                continue;
            }
            for k in 0..CAMERA_PARAMETERS {
                right[k] += terms.own_right[k];
                (0..CAMERA_PARAMETERS).for_each(|l| blocks[camera][k][l] += terms.own_camera[k][l]);
            }
        }
        let adjusted = &self.problem.cameras[camera];
        let offsets = adjusted.offsets();
        for k in 0..CAMERA_PARAMETERS {
            right[k] -= adjusted.weights[k] * offsets[k];
            let diagonal = &mut blocks[camera][k][k];
            *diagonal += adjusted.weights[k];
            *diagonal += self.damping * diagonal.abs() + 1e-12;
            if !adjusted.free[k] {
                (*diagonal, right[k]) = (1.0, 0.0);
            }
        }
        (blocks, right)
    }
}
