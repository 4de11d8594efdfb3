//! The stages of stereo in order: prepare, plan, sweep, refine, confirm.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;
use gausset_core::{Stage, TargetImage};

use crate::consistency::{self, Support};
use crate::grey::{Grey, PreparedImage, prepare};
use crate::reliability::Reliability;
use crate::surface::{self, Surface, upsample_row};
use crate::sweep::{BAND_ROWS, SweepBuffers, SweepJob, VARIANCE_FLOOR, sweep};
use crate::warp::Warp;
use crate::{DepthMap, Depths, NeighbourPlan, StereoOptions, StereoScene, StereoView, memory, neighbours};

/// Minimum variance of a patch with a depth, in squared grey levels: 2e-5 relative to a range of 1. Ten times as much
/// leaves out a sixth of the pixels, and the remaining ones are not correct more often (docs/internals/stereo.md).
const MIN_VARIANCE: f32 = 2e-5 * 255.0 * 255.0;
/// Minimum number of planes of a sweep.
const MIN_PLANES: u32 = 16;
/// Refinement: steps on either side of the surface, and steps per plane of the sweep.
const REFINE_STEPS: u32 = 4;
const REFINE_PER_PLANE: f32 = 4.0;
/// Second refinement, from the surface behind edges: steps on either side, and the ratio of inverse depths below which
/// it is another surface.
const BACKGROUND_STEPS: u32 = 2;
const BACKGROUND_RATIO: f32 = 0.97;

/// A view during processing.
struct ViewState {
    prepared: Option<PreparedImage>,
    /// The view at the size of its depth map.
    view: StereoView,
    plan: NeighbourPlan,
    /// Inverse depth of the first plane, and the distance between planes.
    first: f32,
    step: f32,
    planes: u32,
}

/// Computes depth maps of all views. `picture` returns the image of a view at the size of its camera and is called once
/// per view, in order; `None` if it cannot be read, and the view then has no depth.
///
/// Returns `None` if `stop` is set, which is checked between images and between bands of rows.
///
/// # Panics
/// If an image and its camera differ in size.
pub fn depth_maps(
    scene: &StereoScene<'_>,
    picture: &mut dyn FnMut(usize) -> Option<Arc<TargetImage>>,
    options: &StereoOptions,
    exec: Exec<'_>,
    stop: &AtomicBool,
) -> Option<Depths> {
    let _span = gausset_prof::span(Stage::Stereo.name());
    let pool = exec.pool;
    let limit = options.memory_bytes;
    let side = memory::largest_side(scene.views, options.longest_side, limit);
    let Some(side) = side.filter(|_| scene.views.len() > 1) else {
        let maps = vec![DepthMap::default(); scene.views.len()];
        return Some(Depths { verdict: Reliability::new(&maps), maps, longest_side: 0 });
    };
    let is_stopped = || stop.load(Ordering::Relaxed);
    let span = gausset_prof::span("prepare");
    let prepared: Vec<Option<PreparedImage>> = (0..scene.views.len())
        .map(|index| {
            let camera = &scene.views[index].camera;
            let picture = if is_stopped() { None } else { picture(index) }?;
            assert_eq!((picture.width, picture.height), (camera.width, camera.height), "view {index}");
            prepare(&picture, memory::factor(&scene.views[index], side))
        })
        .collect();
    if is_stopped() {
        return None;
    }
    let usable: Vec<bool> = prepared.iter().map(Option::is_some).collect();
    let plans = neighbours::plan(scene, &usable, options.neighbours as usize, pool);
    let small: Vec<StereoView> = scene.views.iter().map(|view| downsampled(view, side)).collect();
    let work: Vec<ViewState> = prepared
        .into_iter()
        .zip(plans)
        .enumerate()
        .map(|(index, (prepared, plan))| ViewState::new(index, prepared, plan, &small, options))
        .collect();
    drop(span);
    let coarse = sweep_all(&work, 1, None, exec, stop)?;
    let span = gausset_prof::span("surface");
    let agrees = pool.map(work.len(), |index| {
        let neighbours = warps(&work, index, 1, |other| &coarse[other]);
        consistency::support(&coarse[index], &neighbours, &consistency::AT_HALF_SIZE)
    });
    let cleaned =
        pool.map(work.len(), |index| coarse[index].with_filled_pixels(|i| agrees[index][i].agree > 0));
    let behind = pool.map(work.len(), |index| surface::far_surface(&cleaned[index], coarse[index].width));
    drop((agrees, coarse, span));
    let fine = sweep_all(&work, 0, Some([&cleaned, &behind]), exec, stop)?;
    drop(cleaned);
    let _confirm = gausset_prof::span("confirm");
    let supports = pool.map(work.len(), |index| {
        let neighbours = warps(&work, index, 0, |other| &fine[other]);
        consistency::support(&fine[index], &neighbours, &consistency::AT_FULL_SIZE)
    });
    let mut parts: Vec<_> =
        work.into_iter().zip(fine).zip(supports).map(|(of, s)| (Some((of, s)), None)).collect();
    pool.run_parts(&mut parts, |_, (from, to)| {
        *to = from.take().map(|((work, fine), s)| assemble_map(work, &fine, s))
    });
    let maps: Vec<DepthMap> = parts.into_iter().map(|(_, map)| map.unwrap_or_default()).collect();
    Some(Depths { verdict: Reliability::new(&maps), maps, longest_side: side })
}

/// The view at the size of its depth map.
fn downsampled(view: &StereoView, side: u32) -> StereoView {
    StereoView { camera: view.camera.downscaled(memory::factor(view, side)), pose: view.pose }
}

impl ViewState {
    fn new(
        index: usize,
        prepared: Option<PreparedImage>,
        mut plan: NeighbourPlan,
        views: &[StereoView],
        options: &StereoOptions,
    ) -> Self {
        let view = views[index];
        let [near, far] = plan.depths;
        plan.neighbours.retain(|&other| !neighbours::is_same_position(&view.pose, &views[other].pose, near));
        if plan.neighbours.is_empty() {
            return Self { prepared, view, plan, first: 0.0, step: 0.0, planes: 0 };
        }
        let (nearest, farthest) = (1.0 / near, 1.0 / far);
        // One plane per pixel of displacement at half size, in the neighbour with the largest displacement.
        let (width, height) = (f64::from(view.camera.width), f64::from(view.camera.height));
        let places = [[0.5, 0.5], [0.2, 0.2], [0.8, 0.2], [0.2, 0.8], [0.8, 0.8]];
        let travels = plan.neighbours.iter().flat_map(|&other| {
            let other = &views[other];
            let warp = Warp::new((&view.camera, &view.pose), (&other.camera, &other.pose));
            places.map(|[x, y]| 0.5 * warp.displacement(x * width, y * height, [nearest, farthest]))
        });
        let travel = travels.fold(0.0, f64::max);
        let most = options.planes.max(MIN_PLANES);
        let planes = (travel.min(f64::from(most)) as u32 + 1).clamp(MIN_PLANES, most);
        let step = (nearest - farthest) / f64::from(planes - 1);
        Self { prepared, view, plan, first: farthest as f32, step: step as f32, planes }
    }

    fn grey(&self, level: usize) -> Option<&Grey> {
        self.prepared.as_ref().map(|prepared| &prepared.levels[level])
    }

    /// The view at a pyramid level: 0 = size of the depth map, 1 = half of it.
    fn at(&self, level: usize) -> StereoView {
        StereoView {
            camera: if level == 0 { self.view.camera } else { self.view.camera.downscaled(2) },
            ..self.view
        }
    }
}

/// The warps from a view to its neighbours, each with a value of the neighbour.
fn warps<'a, T>(
    work: &[ViewState],
    index: usize,
    level: usize,
    of: impl Fn(usize) -> T + 'a,
) -> Vec<(Warp, T)> {
    let from = work[index].at(level);
    let warp = |&other: &usize| {
        let to = work[other].at(level);
        (Warp::new((&from.camera, &from.pose), (&to.camera, &to.pose)), of(other))
    };
    work[index].plan.neighbours.iter().map(warp).collect()
}

/// A band of rows of a view.
struct RowBand<'a> {
    view: usize,
    rows: Range<usize>,
    inverse_depth: &'a mut [f32],
    score: &'a mut [f32],
}

/// Sweeps all views at a level: over planes, or around surfaces of half the size. `None` if `stop` is set.
fn sweep_all(
    work: &[ViewState],
    at: usize,
    around: Option<[&[Vec<f32>]; 2]>,
    exec: Exec<'_>,
    stop: &AtomicBool,
) -> Option<Vec<Surface>> {
    let _span = gausset_prof::span(if around.is_some() { "refine" } else { "sweep" });
    let mut surfaces: Vec<Surface> =
        work.iter().map(|w| w.grey(at).map_or_else(Surface::default, Surface::new)).collect();
    let mut parts = Vec::new();
    for (view, surface) in surfaces.iter_mut().enumerate() {
        if work[view].plan.neighbours.is_empty() || surface.score.is_empty() {
            continue;
        }
        let len = BAND_ROWS * surface.width;
        let bands = surface.inverse_depth.chunks_mut(len).zip(surface.score.chunks_mut(len));
        for (band, (inverse_depth, score)) in bands.enumerate() {
            let rows = band * BAND_ROWS..(band * BAND_ROWS + BAND_ROWS).min(surface.height);
            parts.push(RowBand { view, rows, inverse_depth, score });
        }
    }
    exec.pool.run_parts(&mut parts, |_, part| {
        let w = &work[part.view];
        let Some(reference) = w.grey(at).filter(|_| !stop.load(Ordering::Relaxed)) else { return };
        // Neighbours are usable views, which have images.
        let neighbours: Vec<(Warp, &Grey)> = warps(work, part.view, at, |other| work[other].grey(at))
            .into_iter()
            .filter_map(|(warp, grey)| Some((warp, grey?)))
            .collect();
        let fine_step = w.step / REFINE_PER_PLANE;
        let (first, step, steps, least_variance) = match around {
            None => (w.first, w.step, w.planes, VARIANCE_FLOOR),
            Some(_) => (-(REFINE_STEPS as f32) * fine_step, fine_step, 2 * REFINE_STEPS + 1, MIN_VARIANCE),
        };
        let rows = part.rows.clone();
        let job = SweepJob { reference, neighbours: &neighbours, rows, first, step, steps, least_variance };
        let mut scratch = SweepBuffers::default();
        let (inverse_depth, score) = (&mut *part.inverse_depth, &mut *part.score);
        let Some(surfaces) = around else {
            sweep(exec.level, &job, |_, row| row.fill(0.0), &mut scratch, inverse_depth, score);
            return;
        };
        let [surface, behind] = surfaces.map(|surfaces| &*surfaces[part.view]);
        let half = reference.width / 2;
        sweep(
            exec.level,
            &job,
            |y, row| upsample_row(surface, half, y, row),
            &mut scratch,
            inverse_depth,
            score,
        );
        // Repeats the refinement with every edge moved outwards to where the far surface may begin. In front of a
        // uniform background a patch matches at the depth of the edge that it contains, so near surfaces grow by half a
        // patch.
        let (mut far, mut far_score) = (vec![0.0; score.len()], vec![0.0; score.len()]);
        let first = -(BACKGROUND_STEPS as f32) * step;
        let job = SweepJob { first, steps: 2 * BACKGROUND_STEPS + 1, ..job };
        sweep(
            exec.level,
            &job,
            |y, row| upsample_row(behind, half, y, row),
            &mut scratch,
            &mut far,
            &mut far_score,
        );
        for (i, (&far, &far_score)) in far.iter().zip(&far_score).enumerate() {
            if far < inverse_depth[i] * BACKGROUND_RATIO && far_score > score[i] {
                (inverse_depth[i], score[i]) = (far, far_score);
            }
        }
    });
    (!stop.load(Ordering::Relaxed)).then_some(surfaces)
}

/// Assembles the depth map of a view.
fn assemble_map(work: ViewState, surface: &Surface, support: Vec<Support>) -> DepthMap {
    let Some(prepared) = work.prepared else { return DepthMap::default() };
    if surface.width == 0 {
        return DepthMap::default();
    }
    let pixels = surface.score.iter().zip(&surface.inverse_depth).zip(&support);
    let depth = |((&score, &q), &support)| match consistency::is_confirmed(score, support) && q > 0.0 {
        true => 1.0 / q,
        false => 0.0,
    };
    let mut depth: Vec<f32> = pixels.map(depth).collect();
    consistency::remove_specks(&mut depth, surface.width);
    let support =
        support.iter().zip(&depth).map(|(&s, &z)| if z > 0.0 { s } else { Support::default() }).collect();
    let PreparedImage { rgb, mask, .. } = prepared;
    DepthMap { camera: Some(work.view.camera), depth, support, rgb, mask, plan: work.plan }
}
