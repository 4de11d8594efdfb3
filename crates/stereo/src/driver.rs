//! The stages of stereo in order: prepare, plan, sweep, refine, confirm.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;
use gausset_core::{Stage, TargetImage};

use crate::confirm::{self, Support};
use crate::picture::{Grey, Prepared, prepare};
use crate::surface::{self, Surface, upsample_row};
use crate::sweep::{BAND, Job, Scratch, VARIANCE_FLOOR, sweep};
use crate::verdict::Verdict;
use crate::warp::Warp;
use crate::{DepthMap, Depths, Options, Plan, Scene, View, memory, neighbours};

/// Minimum variance of a patch with a depth, in squared grey levels: 2e-5 relative to a range of 1. Ten times as much
/// leaves out a sixth of the pixels, and the remaining ones are not correct more often (research/stereo-notes.md).
const LEAST_VARIANCE: f32 = 2e-5 * 255.0 * 255.0;
/// Minimum number of planes of a sweep.
const FEWEST_PLANES: u32 = 16;
/// Refinement: steps on either side of the surface, and steps per plane of the sweep.
const REFINE_STEPS: u32 = 4;
const REFINE_PER_PLANE: f32 = 4.0;
/// Second refinement, from the surface behind edges: steps on either side, and the ratio of inverse depths below which
/// it is another surface.
const BEHIND_STEPS: u32 = 2;
const BEHIND: f32 = 0.97;
/// Maximum relative difference of depths that agree at half size.
const COARSE_TOLERANCE: f32 = 0.05;
/// Minimum score of pixels at half size.
const COARSE_SCORE: f32 = 0.3;

/// A view during processing.
struct Work {
    prepared: Option<Prepared>,
    /// The view at the size of its depth map.
    view: View,
    plan: Plan,
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
    scene: &Scene<'_>,
    picture: &mut dyn FnMut(usize) -> Option<Arc<TargetImage>>,
    options: &Options,
    exec: Exec<'_>,
    stop: &AtomicBool,
) -> Option<Depths> {
    let _span = gausset_prof::span(Stage::Stereo.name());
    let pool = exec.pool;
    let limit = options.memory_bytes;
    let side = memory::largest_side(scene.views, options.longest_side, limit);
    let Some(side) = side.filter(|_| scene.views.len() > 1) else {
        let maps = vec![DepthMap::default(); scene.views.len()];
        return Some(Depths { verdict: Verdict::new(&maps), maps, longest_side: 0 });
    };
    let is_stopped = || stop.load(Ordering::Relaxed);
    let span = gausset_prof::span("prepare");
    let prepared: Vec<Option<Prepared>> = (0..scene.views.len())
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
    let small: Vec<View> = scene.views.iter().map(|view| reduced(view, side)).collect();
    let work: Vec<Work> = prepared
        .into_iter()
        .zip(plans)
        .enumerate()
        .map(|(index, (prepared, plan))| Work::new(index, prepared, plan, &small, options))
        .collect();
    drop(span);
    let coarse = swept(&work, 1, None, exec, stop)?;
    let span = gausset_prof::span("surface");
    let agrees = pool.map(work.len(), |index| {
        let neighbours = warps(&work, index, 1, |other| &coarse[other]);
        confirm::support(&coarse[index], &neighbours, COARSE_TOLERANCE, COARSE_SCORE)
    });
    let cleaned = pool.map(work.len(), |index| coarse[index].cleaned(|i| agrees[index][i].agree > 0));
    let behind = pool.map(work.len(), |index| surface::background(&cleaned[index], coarse[index].width));
    drop((agrees, coarse, span));
    let fine = swept(&work, 0, Some([&cleaned, &behind]), exec, stop)?;
    drop(cleaned);
    let _confirm = gausset_prof::span("confirm");
    let supports = pool.map(work.len(), |index| {
        let neighbours = warps(&work, index, 0, |other| &fine[other]);
        confirm::support(&fine[index], &neighbours, confirm::SAME_DEPTH, confirm::SCORE_FOR_TWO)
    });
    let mut parts: Vec<_> =
        work.into_iter().zip(fine).zip(supports).map(|(of, s)| (Some((of, s)), None)).collect();
    pool.run_parts(&mut parts, |_, (from, to)| {
        *to = from.take().map(|((work, fine), s)| map(work, &fine, s))
    });
    let maps: Vec<DepthMap> = parts.into_iter().map(|(_, map)| map.unwrap_or_default()).collect();
    Some(Depths { verdict: Verdict::new(&maps), maps, longest_side: side })
}

/// The view at the size of its depth map.
fn reduced(view: &View, side: u32) -> View {
    View { camera: view.camera.reduced(memory::factor(view, side)), pose: view.pose }
}

impl Work {
    fn new(
        index: usize,
        prepared: Option<Prepared>,
        mut plan: Plan,
        views: &[View],
        options: &Options,
    ) -> Self {
        let view = views[index];
        let [near, far] = plan.depths;
        plan.neighbours.retain(|&other| !neighbours::is_same_place(&view.pose, &views[other].pose, near));
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
            places.map(|[x, y]| 0.5 * warp.travel(x * width, y * height, [nearest, farthest]))
        });
        let travel = travels.fold(0.0, f64::max);
        let most = options.planes.max(FEWEST_PLANES);
        let planes = (travel.min(f64::from(most)) as u32 + 1).clamp(FEWEST_PLANES, most);
        let step = (nearest - farthest) / f64::from(planes - 1);
        Self { prepared, view, plan, first: farthest as f32, step: step as f32, planes }
    }

    fn grey(&self, level: usize) -> Option<&Grey> {
        self.prepared.as_ref().map(|prepared| &prepared.levels[level])
    }

    /// The view at a pyramid level: 0 = size of the depth map, 1 = half of it.
    fn at(&self, level: usize) -> View {
        View { camera: if level == 0 { self.view.camera } else { self.view.camera.reduced(2) }, ..self.view }
    }
}

/// The warps from a view to its neighbours, each with a value of the neighbour.
fn warps<'a, T>(work: &[Work], index: usize, level: usize, of: impl Fn(usize) -> T + 'a) -> Vec<(Warp, T)> {
    let from = work[index].at(level);
    let warp = |&other: &usize| {
        let to = work[other].at(level);
        (Warp::new((&from.camera, &from.pose), (&to.camera, &to.pose)), of(other))
    };
    work[index].plan.neighbours.iter().map(warp).collect()
}

/// A band of rows of a view.
struct Part<'a> {
    view: usize,
    rows: Range<usize>,
    inverse_depth: &'a mut [f32],
    score: &'a mut [f32],
}

/// Sweeps all views at a level: over planes, or around surfaces of half the size. `None` if `stop` is set.
fn swept(
    work: &[Work],
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
        let len = BAND * surface.width;
        let bands = surface.inverse_depth.chunks_mut(len).zip(surface.score.chunks_mut(len));
        for (band, (inverse_depth, score)) in bands.enumerate() {
            let rows = band * BAND..(band * BAND + BAND).min(surface.height);
            parts.push(Part { view, rows, inverse_depth, score });
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
            Some(_) => (-(REFINE_STEPS as f32) * fine_step, fine_step, 2 * REFINE_STEPS + 1, LEAST_VARIANCE),
        };
        let rows = part.rows.clone();
        let job = Job { reference, neighbours: &neighbours, rows, first, step, steps, least_variance };
        let mut scratch = Scratch::default();
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
        let first = -(BEHIND_STEPS as f32) * step;
        let job = Job { first, steps: 2 * BEHIND_STEPS + 1, ..job };
        sweep(
            exec.level,
            &job,
            |y, row| upsample_row(behind, half, y, row),
            &mut scratch,
            &mut far,
            &mut far_score,
        );
        for (i, (&far, &far_score)) in far.iter().zip(&far_score).enumerate() {
            if far < inverse_depth[i] * BEHIND && far_score > score[i] {
                (inverse_depth[i], score[i]) = (far, far_score);
            }
        }
    });
    (!stop.load(Ordering::Relaxed)).then_some(surfaces)
}

/// Assembles the depth map of a view.
fn map(work: Work, surface: &Surface, support: Vec<Support>) -> DepthMap {
    let Some(prepared) = work.prepared else { return DepthMap::default() };
    if surface.width == 0 {
        return DepthMap::default();
    }
    let pixels = surface.score.iter().zip(&surface.inverse_depth).zip(&support);
    let depth = |((&score, &q), &support)| match confirm::is_confirmed(score, support) && q > 0.0 {
        true => 1.0 / q,
        false => 0.0,
    };
    let mut depth: Vec<f32> = pixels.map(depth).collect();
    confirm::drop_specks(&mut depth, surface.width);
    let support =
        support.iter().zip(&depth).map(|(&s, &z)| if z > 0.0 { s } else { Support::default() }).collect();
    DepthMap { camera: Some(work.view.camera), depth, support, rgb: prepared.rgb, plan: work.plan }
}
