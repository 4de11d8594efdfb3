//! Stage `project_vjp`: computes gradients of raw parameters and of the camera pose from the slots of the tiles.
//!
//! Each splat adds its slots in the order of its tiles (fixed, independent of the threads), then those of its copy at
//! the seam of a panorama. The projection is recomputed, and the chain rule runs backwards through it. With `Q` the
//! conic, `S = Σ v d dᵀ`, `s = Σ v d`:
//!
//! ```text
//! d mean2d = Q s,  d cov = ½ Q S Q,  d logit = Σv (1 - o),  H = Vᵀ (2 dcov) V with V = T R(q),
//! dT = 2 dcov V diag(s²) Rᵀ,  dJ = dT Wᵀ,  dp from J and mean2d,  dm = Wᵀ dp + SH direction
//! ```
//!
//! `H` is the gradient in the splat's own axes, from which those of scales and quaternion follow (module `shape`). In
//! antialiased mode `ln o` has the additional term `½ ln(det_raw / det)`. Gradients of a block stay in registers and on
//! the stack: either they are written out ([`Gradients`]), or the fused update of [`crate::update`] consumes them.

use fearless_simd::{f32x16, mask32x16, prelude::*, u32x16};
use gausset_compute::Exec;
use gausset_compute::prefetch::prefetch;
use gausset_compute::simd::{
    LANES, LN_2, Row, array_from_fn, fma, inline_closure, load, map_array, splat, sum_lanes, transpose,
};
use gausset_core::{Pose, Projection, se3};

use crate::blend_vjp::{GradientSlots, slot};
use crate::form::{Form, Raw};
use crate::geometry::{Geometry, ViewDirection, compensation, dot3};
use crate::layout::{AlignedRow, Blocks, DC, GEOMETRY_ROWS, GeometryBlock, LOG_SCALE, LOGIT, MEAN, QUAT};
use crate::project::{BLOCKS_PER_CHUNK, Projected, TileRect};
use crate::projected_block::{Jacobian, ProjectedGradient};
use crate::spherical_harmonics::{ColourGradient, at_degree, colour_gradient};
use crate::view::KernelView;

/// The inputs of the stage.
#[derive(Clone, Copy)]
pub(crate) struct VjpInput<'a> {
    pub projected: &'a Projected,
    pub sums: &'a GradientSlots,
    pub view: &'a KernelView,
    pub antialiased: bool,
}

/// Gradients of a block of 16 splats.
pub(crate) struct BlockGradient<S: Simd> {
    /// Rows as in [`crate::layout`].
    pub geometry: [f32x16<S>; GEOMETRY_ROWS],
    /// Gradients of the colours and of the SH coefficients.
    pub colour: ColourGradient<S>,
    /// `dL/d mean2d`, 1/px.
    pub mean2d: [f32x16<S>; 2],
    /// Sums of absolute pixel gradients, 1/px.
    pub mean2d_abs: [f32x16<S>; 2],
    /// Three standard deviations of the longer screen axis, px.
    pub radius: f32x16<S>,
    /// Splats with a non-zero gradient.
    pub has_gradient: mask32x16<S>,
}

/// Gradient sums with respect to the camera, per lane.
pub(crate) struct PoseSums<S: Simd> {
    rotation: [[f32x16<S>; 3]; 3],
    translation: [f32x16<S>; 3],
    /// `dL/d mean` through the viewing direction: minus the gradient of the camera centre.
    direction: [f32x16<S>; 3],
}

impl<S: Simd> PoseSums<S> {
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        let zero = [splat(simd, 0.0); 3];
        Self { rotation: [zero; 3], translation: zero, direction: zero }
    }

    #[inline(always)]
    pub(crate) fn totals(&self) -> PoseGradientSums {
        let sum = inline_closure(
            #[inline(always)]
            |v: [f32x16<S>; 3]| {
                map_array(
                    v,
                    #[inline(always)]
                    |x| f64::from(sum_lanes(x)),
                )
            },
        );
        PoseGradientSums {
            rotation: map_array(self.rotation, sum),
            translation: sum(self.translation),
            direction: sum(self.direction),
        }
    }
}

/// Sums over splats from which the gradient of the pose is computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoseGradientSums {
    rotation: [[f64; 3]; 3],
    translation: [f64; 3],
    direction: [f64; 3],
}

impl PoseGradientSums {
    /// Adds the sums of another part. Parts are added in a fixed order.
    pub fn add(&mut self, other: &Self) {
        for i in 0..3 {
            for j in 0..3 {
                self.rotation[i][j] += other.rotation[i][j];
            }
            self.translation[i] += other.translation[i];
            self.direction[i] += other.direction[i];
        }
    }

    /// `dL/d [R | t]` of `camera_from_world`, including all uses of the pose.
    #[must_use]
    pub fn matrix(&self, pose: &Pose) -> [[f64; 4]; 3] {
        // The camera centre is -Rᵀ t, and moving it by δ has the same effect on directions as moving the splats by -δ.
        let centre = self.direction.map(|v| -v);
        let turned = se3::mul_vec(&pose.rotation, centre);
        std::array::from_fn(|j| {
            let row: [f64; 3] =
                std::array::from_fn(|i| self.rotation[j][i] - pose.translation[j] * centre[i]);
            [row[0], row[1], row[2], self.translation[j] - turned[j]]
        })
    }

    /// Gradient with respect to a left twist `(rho, phi)` (fixtures, section 5).
    #[must_use]
    pub fn twist(&self, pose: &Pose) -> [f64; 6] {
        let g = self.matrix(pose);
        let a: [[f64; 3]; 3] = std::array::from_fn(|i| {
            std::array::from_fn(|j| {
                (0..3).map(|k| g[i][k] * pose.rotation[j][k]).sum::<f64>() + g[i][3] * pose.translation[j]
            })
        });
        [g[0][3], g[1][3], g[2][3], a[2][1] - a[1][2], a[0][2] - a[2][0], a[1][0] - a[0][1]]
    }
}

/// Prefetch distance of slots: about the number of slots of a block.
const SLOT_PREFETCH: usize = 40;

/// Whether a block has tile entries.
#[inline(always)]
pub(crate) fn has_entries(projected: &Projected, block: usize) -> bool {
    projected
        .rects
        .get(block * LANES..(block + 1) * LANES)
        .is_some_and(|rects| !entry_range(projected, rects, block).is_empty())
}

/// The entries of a block, in the order of splats.
#[inline(always)]
fn entry_range(projected: &Projected, rects: &[TileRect], block: usize) -> std::ops::Range<usize> {
    let last = projected.first_entry(block * LANES + LANES - 1) + rects[LANES - 1].area() as usize;
    projected.first_entry(block * LANES)..last
}

/// Sums the live slots of the 16 splats of a block, for each splat in the order of tiles; row `i` of the result is
/// value `i` of a slot for each lane.
#[inline(always)]
pub(crate) fn sum_slots<S: Simd>(simd: S, input: &VjpInput<'_>, block: usize) -> [f32x16<S>; LANES] {
    let zero = splat(simd, 0.0);
    let rects = &input.projected.rects[block * LANES..(block + 1) * LANES];
    let entries = entry_range(input.projected, rects, block);
    let copies = input.projected.copies_of(block);
    if entries.is_empty() && copies.len() == 0 {
        return [zero; LANES];
    }
    let slots = &input.sums.slots[entries.start..];
    let values: u32x16<S> = u32x16::from_fn(simd, |i| if i < slot::VALUES { u32::MAX } else { 0 });
    let mut lanes = [AlignedRow::default(); LANES];
    let mut next = 0;
    for (lane, rect) in lanes.iter_mut().zip(rects) {
        let mut sum = zero;
        let end = next + rect.area() as usize;
        while next < end {
            prefetch(slots, next + SLOT_PREFETCH);
            let slot = &slots[next];
            // The branch would be unpredictable: slots that are not live are masked instead.
            let live = u32::from(input.sums.is_live(slot)).wrapping_neg();
            let bits: u32x16<S> = load(simd, &slot.0).to_bits();
            sum += f32x16::from_bits(bits & values & u32x16::splat(simd, live));
            next += 1;
        }
        sum.store_array(&mut lane.0);
    }
    for (splat, entries) in copies {
        let lane = &mut lanes[splat % LANES];
        let mut sum: f32x16<S> = load(simd, &lane.0);
        for slot in &input.sums.slots[entries] {
            if input.sums.is_live(slot) {
                let bits: u32x16<S> = load(simd, &slot.0).to_bits();
                sum += f32x16::from_bits(bits & values);
            }
        }
        sum.store_array(&mut lane.0);
    }
    transpose(array_from_fn(
        #[inline(always)]
        |i| load(simd, &lanes[i].0),
    ))
}

/// A block without gradients.
#[inline(always)]
fn no_gradient<S: Simd>(simd: S, has_gradient: mask32x16<S>) -> BlockGradient<S> {
    let zero = splat(simd, 0.0);
    BlockGradient {
        geometry: [zero; GEOMETRY_ROWS],
        colour: ColourGradient { colour: [zero; 3], basis: [zero; 15], mean: [zero; 3] },
        mean2d: [zero; 2],
        mean2d_abs: [zero; 2],
        radius: zero,
        has_gradient,
    }
}

/// Gradients of the splats of a block.
#[inline(always)]
pub(crate) fn block_gradient<S: Simd, const DEGREE: u8>(
    simd: S,
    form: impl Form,
    input: &VjpInput<'_>,
    block_index: usize,
    block: &GeometryBlock,
    rest: &[AlignedRow],
    pose: Option<&mut PoseSums<S>>,
) -> BlockGradient<S> {
    let zero = splat(simd, 0.0);
    let sums = sum_slots(simd, input, block_index);
    let mut touched = sums[slot::V].simd_ne(zero);
    for sum in &sums[slot::V + 1..slot::ABS_X] {
        touched |= sum.simd_ne(zero);
    }
    if !touched.any_true() {
        return no_gradient(simd, touched);
    }
    let geo = Geometry::new(simd, form, block, input.view, input.antialiased);
    let conic = geo.conic();
    let (sx, sy) = (sums[slot::VX], sums[slot::VY]);
    let screen = ScreenGradient {
        touched,
        v: sums[slot::V],
        mean2d: [fma(conic[0], sx, conic[1] * sy), fma(conic[1], sx, conic[2] * sy)],
        moments: [sums[slot::VXX], sums[slot::VXY], sums[slot::VYY]],
        depth: sums[slot::DEPTH],
        colour: [sums[slot::RED], sums[slot::RED + 1], sums[slot::RED + 2]],
        mean2d_abs: [sums[slot::ABS_X], sums[slot::ABS_Y]],
    };
    gradient_of_screen::<S, DEGREE>(simd, form, input, &geo, (block, rest), &screen, pose)
}

/// Gradients of a block with respect to its screen splats.
pub(crate) struct ScreenGradient<S: Simd> {
    /// Splats with a non-zero gradient.
    pub touched: mask32x16<S>,
    /// `o dL/do` of the opacity o after compensation.
    pub v: f32x16<S>,
    pub mean2d: [f32x16<S>; 2],
    /// `Σ v d dᵀ`: -2 times the gradient of the conic, its entries `(xx, xy, yy)`.
    pub moments: [f32x16<S>; 3],
    pub depth: f32x16<S>,
    pub colour: [f32x16<S>; 3],
    /// In units of `1/ln 2`.
    pub mean2d_abs: [f32x16<S>; 2],
}

/// The chain from the screen to the parameters.
#[inline(always)]
pub(crate) fn gradient_of_screen<S: Simd, const DEGREE: u8>(
    simd: S,
    form: impl Form,
    input: &VjpInput<'_>,
    geo: &Geometry<S>,
    (block, rest): (&GeometryBlock, &[AlignedRow]),
    screen: &ScreenGradient<S>,
    pose: Option<&mut PoseSums<S>>,
) -> BlockGradient<S> {
    let zero = splat(simd, 0.0);
    let half = splat(simd, 0.5);
    let one = splat(simd, 1.0);
    let two = splat(simd, 2.0);
    let view = input.view;
    let conic = geo.conic();
    let &ScreenGradient { touched, v, mean2d, moments: [sxx, sxy, syy], .. } = screen;

    // ½ Q S Q; the off-diagonal entry counts twice, because b occurs twice in the matrix.
    let p00 = fma(conic[0], sxx, conic[1] * sxy);
    let p01 = fma(conic[0], sxy, conic[1] * syy);
    let p10 = fma(conic[1], sxx, conic[2] * sxy);
    let p11 = fma(conic[1], sxy, conic[2] * syy);
    let mut d_a = half * fma(p00, conic[0], p01 * conic[1]);
    let mut d_b = fma(p00, conic[1], p01 * conic[2]);
    let mut d_c = half * fma(p10, conic[1], p11 * conic[2]);
    if input.antialiased {
        let eps = splat(simd, view.low_pass);
        let is_free = compensation(geo.det_raw, geo.inverse_det).simd_ge(splat(simd, view.min_compensation));
        let safe = geo.det_raw.simd_gt(zero) & is_free;
        let inverse_raw = safe.select(one / geo.det_raw, zero);
        let hv = safe.select(half * v, zero);
        d_a += hv * ((geo.cov[2] - eps) * inverse_raw - geo.cov[2] * geo.inverse_det);
        d_b -= two * hv * geo.cov[1] * (inverse_raw - geo.inverse_det);
        d_c += hv * ((geo.cov[0] - eps) * inverse_raw - geo.cov[0] * geo.inverse_det);
    }
    let d_opacity = form.opacity_gradient(simd, geo.opacity_raw, v);

    // dcov acts on the axes V: H = Vᵀ (2 dcov) V.
    let (two_a, two_c) = (two * d_a, two * d_c);
    let d_v: [[f32x16<S>; 3]; 2] = [
        array_from_fn(
            #[inline(always)]
            |k| fma(two_a, geo.v[0][k], d_b * geo.v[1][k]),
        ),
        array_from_fn(
            #[inline(always)]
            |k| fma(two_c, geo.v[1][k], d_b * geo.v[0][k]),
        ),
    ];
    let d_shape = geo.shape.gradient(
        simd,
        form,
        #[inline(always)]
        |i, j| fma(geo.v[0][i], d_v[0][j], geo.v[1][i] * d_v[1][j]),
    );
    let variance = geo.shape.variance();
    let scaled: [[f32x16<S>; 3]; 2] = map_array(
        d_v,
        #[inline(always)]
        |row: [f32x16<S>; 3]| {
            array_from_fn(
                #[inline(always)]
                |k| row[k] * variance[k],
            )
        },
    );
    let d_t: [[f32x16<S>; 3]; 2] = map_array(
        scaled,
        #[inline(always)]
        |row: [f32x16<S>; 3]| {
            array_from_fn(
                #[inline(always)]
                |i| dot3(row, geo.shape.rotation[i]),
            )
        },
    );

    // Through the Jacobian and the projected mean.
    let w = &view.rotation;
    let on_screen = ProjectedGradient { mean2d, depth: screen.depth, t: &d_t };
    let d_point @ [d_x, d_y, d_z] = geo.projected.point_gradient(simd, view, geo.point, &on_screen);
    let mut d_mean: [f32x16<S>; 3] = array_from_fn(
        #[inline(always)]
        |k| fma(splat(simd, w[2][k]), d_z, fma(splat(simd, w[1][k]), d_y, splat(simd, w[0][k]) * d_x)),
    );

    // Colour and viewing direction.
    let direction = ViewDirection::new(simd, geo.mean, view.origin);
    let colour = colour_gradient::<S, DEGREE>(simd, block, rest, &direction, screen.colour);
    let mut d_direction = [zero; 3];
    if DEGREE > 0 {
        for k in 0..3 {
            // Invisible lanes may hold any value and must not reach the sums.
            d_direction[k] = touched.select(colour.mean[k], zero);
            d_mean[k] += d_direction[k];
        }
    }

    if let Some(pose) = pose {
        let masked = inline_closure(
            #[inline(always)]
            |x: f32x16<S>| touched.select(x, zero),
        );
        let dp = map_array(d_point, masked);
        let dt = map_array(
            d_t,
            #[inline(always)]
            |row: [f32x16<S>; 3]| map_array(row, masked),
        );
        let Jacobian { j00, j02, j10, j11, j12 } = geo.projected.jacobian;
        for j in 0..3 {
            pose.rotation[0][j] += fma(dp[0], geo.mean[j], masked(j00 * dt[0][j]));
            pose.rotation[1][j] += fma(dp[1], geo.mean[j], masked(j11 * dt[1][j]));
            pose.rotation[2][j] += fma(dp[2], geo.mean[j], masked(fma(j02, dt[0][j], j12 * dt[1][j])));
            pose.translation[j] += dp[j];
            pose.direction[j] += d_direction[j];
        }
        if view.projection == Projection::Equirectangular {
            for j in 0..3 {
                pose.rotation[0][j] += masked(j10 * dt[1][j]);
            }
        }
    }

    let mut g = [zero; GEOMETRY_ROWS];
    for (k, dc) in colour.coefficient_0(simd).into_iter().enumerate() {
        g[MEAN + k] = touched.select(d_mean[k], zero);
        g[LOG_SCALE + k] = touched.select(d_shape.scale[k], zero);
        g[DC + k] = dc;
    }
    for k in 0..4 {
        g[QUAT + k] = touched.select(d_shape.quat[k], zero);
    }
    g[LOGIT] = touched.select(d_opacity, zero);
    let mid = half * (geo.cov[0] + geo.cov[2]);
    let spread = half * (geo.cov[0] - geo.cov[2]);
    let largest = mid + fma(spread, spread, geo.cov[1] * geo.cov[1]).sqrt();
    let ln_2 = splat(simd, LN_2);
    BlockGradient {
        geometry: g,
        colour,
        mean2d: map_array(
            mean2d,
            #[inline(always)]
            |m| touched.select(m, zero),
        ),
        mean2d_abs: [screen.mean2d_abs[0] * ln_2, screen.mean2d_abs[1] * ln_2],
        radius: touched.select(splat(simd, 3.0) * largest.sqrt(), zero),
        has_gradient: touched,
    }
}

/// Gradients written out, for tests and for uses other than the fused update.
#[derive(Clone, Debug, Default)]
pub struct Gradients {
    /// With respect to the raw parameters.
    pub parameters: Blocks,
    /// With respect to the projected means, 1/px.
    pub mean2d: Vec<[f32; 2]>,
    /// Sums over pixels of the absolute values, 1/px; zero unless requested.
    pub mean2d_abs: Vec<[f32; 2]>,
    /// Gradient sums of the camera pose.
    pub pose: PoseGradientSums,
}

struct GradientChunk<'a> {
    geometry: &'a mut [GeometryBlock],
    rest: &'a mut [AlignedRow],
    mean2d: &'a mut [[f32; 2]],
    mean2d_abs: &'a mut [[f32; 2]],
    pose: PoseGradientSums,
}

impl Gradients {
    /// Runs the stage after [`GradientSlots::run`].
    #[must_use]
    pub fn compute(
        exec: Exec<'_>,
        splats: &Blocks,
        sh_degree: u8,
        antialiased: bool,
        stages: (&Projected, &GradientSlots),
        view: &KernelView,
    ) -> Self {
        let mut parameters = Blocks::zeros(splats.sh_degree(), splats.len());
        let lanes = parameters.geometry.len() * LANES;
        let mut mean2d = vec![[0.0; 2]; lanes];
        let mut mean2d_abs = vec![[0.0; 2]; lanes];
        let rest_rows = splats.rest_rows();
        let input = VjpInput { projected: stages.0, sums: stages.1, view, antialiased };
        let mut rest_parts = parameters.rest.chunks_mut((BLOCKS_PER_CHUNK * rest_rows).max(1));
        let mut parts: Vec<GradientChunk<'_>> = parameters
            .geometry
            .chunks_mut(BLOCKS_PER_CHUNK)
            .zip(mean2d.chunks_mut(BLOCKS_PER_CHUNK * LANES))
            .zip(mean2d_abs.chunks_mut(BLOCKS_PER_CHUNK * LANES))
            .map(|((geometry, mean2d), mean2d_abs)| GradientChunk {
                geometry,
                rest: rest_parts.next().unwrap_or_default(),
                mean2d,
                mean2d_abs,
                pose: PoseGradientSums::default(),
            })
            .collect();
        let degree = sh_degree.min(splats.sh_degree());
        exec.pool.run_parts(&mut parts, |chunk, part| {
            at_degree!(exec.level, degree, simd => gradient_chunk(&input, splats, chunk, part));
        });
        let mut pose = PoseGradientSums::default();
        for part in &parts {
            pose.add(&part.pose);
        }
        mean2d.truncate(splats.len());
        mean2d_abs.truncate(splats.len());
        Self { parameters, mean2d, mean2d_abs, pose }
    }
}

#[inline(always)]
fn gradient_chunk<S: Simd, const DEGREE: u8>(
    simd: S,
    input: &VjpInput<'_>,
    splats: &Blocks,
    chunk: usize,
    part: &mut GradientChunk<'_>,
) {
    let rows = splats.rest_rows();
    let mut pose = PoseSums::new(simd);
    for (local, out) in part.geometry.iter_mut().enumerate() {
        let block = chunk * BLOCKS_PER_CHUNK + local;
        let g = block_gradient::<S, DEGREE>(
            simd,
            Raw,
            input,
            block,
            &splats.geometry[block],
            splats.rest_rows_of(block),
            Some(&mut pose),
        );
        for (row, value) in out.iter_mut().zip(g.geometry) {
            value.store_array(&mut row.0);
        }
        g.colour.store_rest::<DEGREE>(&mut part.rest[local * rows..(local + 1) * rows]);
        let pairs = [(&mut *part.mean2d, g.mean2d), (&mut *part.mean2d_abs, g.mean2d_abs)];
        for (out, [x, y]) in pairs {
            let (x, y): (Row, Row) = (x.to_array(), y.to_array());
            for (lane, value) in out[local * LANES..(local + 1) * LANES].iter_mut().enumerate() {
                *value = [x[lane], y[lane]];
            }
        }
    }
    part.pose = pose.totals();
}
