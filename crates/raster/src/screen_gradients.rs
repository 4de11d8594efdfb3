//! Gradients of the screen splats, as a stage of its own: written out after the blending, and read to continue to the
//! parameters. Training goes through both at once ([`crate::project_vjp`]).

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{LANES, LN_2, Row, array_from_fn, load, map_array, splat};
use gausset_compute::{Exec, at_level};

use crate::blend_vjp::{GradientSlots, slot};
use crate::form::Activated;
use crate::geometry::Geometry;
use crate::layout::{Blocks, GeometryBlock};
use crate::project::{BLOCKS_PER_CHUNK, Projected, record};
use crate::project_vjp::{
    Gradients, PoseGradientSums, PoseSums, ScreenGradient, VjpInput, gradient_of_screen, sum_slots,
};
use crate::view::KernelView;

/// Gradients with respect to the screen splats, one per splat; zero for those that are not drawn.
#[derive(Clone, Debug, Default)]
pub struct ScreenGradients {
    /// With respect to the projected means, 1/px.
    pub mean2d: Vec<[f32; 2]>,
    /// With respect to the conics `(A, B, C)`, where B stands for both off-diagonal entries, px².
    pub conic: Vec<[f32; 3]>,
    /// With respect to the depths.
    pub depth: Vec<f32>,
    /// With respect to the opacities after compensation.
    pub opacity: Vec<f32>,
    /// With respect to the colours.
    pub color: Vec<[f32; 3]>,
    /// Sums over pixels of the absolute values of `mean2d`, 1/px; zero unless requested.
    pub mean2d_abs: Vec<[f32; 2]>,
}

struct ScreenPart<'a> {
    mean2d: &'a mut [[f32; 2]],
    conic: &'a mut [[f32; 3]],
    depth: &'a mut [f32],
    opacity: &'a mut [f32],
    color: &'a mut [[f32; 3]],
    mean2d_abs: &'a mut [[f32; 2]],
}

impl ScreenGradients {
    /// Adds the slots of each splat after [`GradientSlots::run`].
    #[must_use]
    pub fn compute(exec: Exec<'_>, stages: (&Projected, &GradientSlots), view: &KernelView) -> Self {
        let lanes = stages.0.visible.len() * LANES;
        let mut out = Self {
            mean2d: vec![[0.0; 2]; lanes],
            conic: vec![[0.0; 3]; lanes],
            depth: vec![0.0; lanes],
            opacity: vec![0.0; lanes],
            color: vec![[0.0; 3]; lanes],
            mean2d_abs: vec![[0.0; 2]; lanes],
        };
        let input = VjpInput { projected: stages.0, sums: stages.1, view, antialiased: false };
        let chunk = BLOCKS_PER_CHUNK * LANES;
        let mut parts: Vec<_> = out
            .mean2d
            .chunks_mut(chunk)
            .zip(out.conic.chunks_mut(chunk))
            .zip(out.depth.chunks_mut(chunk).zip(out.opacity.chunks_mut(chunk)))
            .zip(out.color.chunks_mut(chunk).zip(out.mean2d_abs.chunks_mut(chunk)))
            .map(|(((mean2d, conic), (depth, opacity)), (color, mean2d_abs))| ScreenPart {
                mean2d,
                conic,
                depth,
                opacity,
                color,
                mean2d_abs,
            })
            .collect();
        exec.pool.run_parts(&mut parts, |chunk, part| {
            at_level!(exec.level, simd => screen_chunk(simd, &input, chunk, part));
        });
        out
    }
}

/// The derivatives of the exponent of [`crate::project::record`] for a chunk.
#[inline(always)]
fn screen_chunk<S: Simd>(simd: S, input: &VjpInput<'_>, chunk: usize, part: &mut ScreenPart<'_>) {
    for local in 0..part.depth.len() / LANES {
        let block = chunk * BLOCKS_PER_CHUNK + local;
        if input.projected.visible[block] == 0 {
            continue;
        }
        let rows: [Row; LANES] = map_array(
            sum_slots(simd, input, block),
            #[inline(always)]
            |row: f32x16<S>| row.to_array(),
        );
        for lane in 0..LANES {
            let sum = |i: usize| rows[i][lane];
            if input.projected.visible[block] >> lane & 1 == 0 {
                continue;
            }
            let r = &input.projected.records[block * LANES + lane].0;
            let (a, b, c) = (r[record::A], r[record::B], r[record::C]);
            let (sx, sy) = (sum(slot::VX), sum(slot::VY));
            let i = local * LANES + lane;
            part.mean2d[i] = [-LN_2 * (2.0 * a * sx + b * sy), -LN_2 * (b * sx + 2.0 * c * sy)];
            part.conic[i] = [-0.5 * sum(slot::VXX), -sum(slot::VXY), -0.5 * sum(slot::VYY)];
            part.depth[i] = sum(slot::DEPTH);
            part.opacity[i] = sum(slot::V) * libm::exp2f(-r[record::L]);
            part.color[i] = [sum(slot::RED), sum(slot::RED + 1), sum(slot::RED + 2)];
            part.mean2d_abs[i] = [LN_2 * sum(slot::ABS_X), LN_2 * sum(slot::ABS_Y)];
        }
    }
}

/// Gradients with respect to the screen splats from which [`Gradients::from_screen`] continues: one per splat, finite,
/// and zero for splats that are not in front of the view.
#[derive(Clone, Copy, Debug)]
pub struct ScreenUpstream<'a> {
    /// As in [`ScreenGradients`].
    pub mean2d: &'a [[f32; 2]],
    /// As in [`ScreenGradients`].
    pub conic: &'a [[f32; 3]],
    /// As in [`ScreenGradients`].
    pub depth: &'a [f32],
    /// As in [`ScreenGradients`].
    pub opacity: &'a [f32],
}

impl Gradients {
    /// Computes gradients of the parameters and of the pose from those of the screen splats, without colours, for
    /// [`crate::view::ParameterForm::Activated`]. Leaves `mean2d` and `mean2d_abs` empty.
    #[must_use]
    pub fn from_screen(
        exec: Exec<'_>,
        splats: &Blocks,
        antialiased: bool,
        upstream: ScreenUpstream<'_>,
        view: &KernelView,
    ) -> Self {
        let mut parameters = Blocks::zeros(0, splats.len());
        let mut parts: Vec<_> = parameters
            .geometry
            .chunks_mut(BLOCKS_PER_CHUNK)
            .map(|geometry| (geometry, PoseGradientSums::default()))
            .collect();
        let (projected, sums) = (&Projected::default(), &GradientSlots::default());
        let input = VjpInput { projected, sums, view, antialiased };
        exec.pool.run_parts(&mut parts, |chunk, part| {
            at_level!(exec.level, simd => from_screen_chunk(simd, &input, splats, upstream, chunk, part));
        });
        let mut pose = PoseGradientSums::default();
        parts.iter().for_each(|(_, part)| pose.add(part));
        Self { parameters, pose, ..Self::default() }
    }
}

#[inline(always)]
fn from_screen_chunk<S: Simd>(
    simd: S,
    input: &VjpInput<'_>,
    splats: &Blocks,
    upstream: ScreenUpstream<'_>,
    chunk: usize,
    part: &mut (&mut [GeometryBlock], PoseGradientSums),
) {
    let zero = splat(simd, 0.0);
    let mut pose = PoseSums::new(simd);
    for (local, out) in part.0.iter_mut().enumerate() {
        let block = chunk * BLOCKS_PER_CHUNK + local;
        let mean2d = lane_rows(simd, upstream.mean2d, block);
        let conic: [f32x16<S>; 3] = lane_rows(simd, upstream.conic, block);
        let [depth]: [f32x16<S>; 1] = lane_rows(simd, upstream.depth.as_chunks().0, block);
        let [opacity]: [f32x16<S>; 1] = lane_rows(simd, upstream.opacity.as_chunks().0, block);
        let mut touched = depth.simd_ne(zero) | opacity.simd_ne(zero);
        for row in mean2d.into_iter().chain(conic) {
            touched |= row.simd_ne(zero);
        }
        if !touched.any_true() {
            continue;
        }
        let geo = Geometry::new(simd, Activated, &splats.geometry[block], input.view, input.antialiased);
        let screen = ScreenGradient {
            touched,
            v: geo.opacity() * opacity,
            mean2d,
            moments: [splat(simd, -2.0) * conic[0], -conic[1], splat(simd, -2.0) * conic[2]],
            depth,
            colour: [zero; 3],
            mean2d_abs: [zero; 2],
        };
        let stored = (&splats.geometry[block], &[][..]);
        let g = gradient_of_screen::<S, 0>(simd, Activated, input, &geo, stored, &screen, Some(&mut pose));
        for (row, value) in out.iter_mut().zip(g.geometry) {
            value.store_array(&mut row.0);
        }
    }
    part.1 = pose.totals();
}

/// Rows of a block from values by splat; zero in the padding.
#[inline(always)]
pub(crate) fn lane_rows<S: Simd, const N: usize>(
    simd: S,
    values: &[[f32; N]],
    block: usize,
) -> [f32x16<S>; N] {
    array_from_fn(
        #[inline(always)]
        |i| {
            let mut row: Row = [0.0; LANES];
            for (to, from) in row.iter_mut().zip(&values[block * LANES..]) {
                *to = from[i];
            }
            load(simd, &row)
        },
    )
}
