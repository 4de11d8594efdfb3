//! One frame of the sphere: what the model finds in its views is carried to a panorama, united and worked on there.
//!
//! ```text
//! first pass   the views of a layout, as large as the model's input
//! second pass  a view around each part of what was found, as large as it needs: people near the nadir are cut by any
//!              layout, and those far away are small in it
//! after that   edges to those of the picture ▸ holes ▸ small parts ▸ growth
//! ```

use std::f64::consts::TAU;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use gausset_compute::Pool;
use gausset_core::se3;
use gausset_pano::convert;
use gausset_pano::cutter::{CutError, CutJob, Cutter, Format, Plan};
use gausset_pano::frames::SourceFrame;
use gausset_pano::geometry::{View, direction_from_equirect};
use gausset_pano::load::rgb_from_ycbcr;
use gausset_pano::plane::{Frame, FrameShape};
use gausset_pano::projection::{Equirect, Projection};
use gausset_pano::sphere_mask::SphereMask;
use gausset_pano::sphere_mask::regions::Region;
use gausset_pano::split::Description;
use gausset_segment::{Find, ModelError, Picture, Runner, Segmenter};

use super::report::{MaskedFind, StageSeconds};
use super::{Job, Reach};
use crate::Host;

/// Widest panorama that finds are carried to, px; a wider frame's mask is its mask enlarged. 0.125 degrees a pixel.
const WIDEST: usize = 2880;
/// Narrowest.
const NARROWEST: usize = 512;
/// Most finds around which a second look is taken, the largest.
const MOST_LOOKS: usize = 24;
/// Field of view of a second look, degrees.
const LOOK: std::ops::RangeInclusive<f64> = 24.0..=120.0;
/// What a second look sees beside a find, on each side: a share of it, and degrees.
const BESIDE: (f64, f64) = (0.25, 4.0);

/// Why there is no mask of a frame.
pub(super) enum Trouble {
    /// The frame is left out.
    Frame(String),
    /// Nothing goes on.
    Model(ModelError),
    Stopped,
}

impl From<ModelError> for Trouble {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Stopped => Self::Stopped,
            other => Self::Model(other),
        }
    }
}

/// What a worker keeps.
#[derive(Default)]
pub(super) struct Worker {
    pub(super) runner: Runner,
    cutter: Cutter,
    pub(super) seconds: StageSeconds,
}

/// Plans for frames of a shape, shared by workers.
#[derive(Default)]
pub(super) struct Plans(Mutex<Vec<(FrameShape, Equirect, Arc<Plan>)>>);

impl Plans {
    fn get(&self, views: impl Fn() -> Vec<View>, frame: &Frame, equirect: Equirect) -> Arc<Plan> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = FrameShape { has_alpha: false, ..frame.shape() };
        if let Some((_, _, plan)) = plans.iter().find(|(of, at, _)| *of == shape && *at == equirect) {
            return Arc::clone(plan);
        }
        let projection = Projection::Equirect(equirect);
        let plan = Arc::new(Plan::new(views(), Format::Png, &projection, shape.clone(), 0.0, &Pool::new(1)));
        plans.push((shape, equirect, Arc::clone(&plan)));
        plan
    }
}

/// A find as its direction.
struct Sighting {
    class: usize,
    score: f32,
    /// Unit vector to the middle of its mask.
    towards: [f64; 3],
}

/// What was found in a frame.
pub(super) struct Outcome {
    /// The masks of its pictures (0 = remove), with width and height.
    pub(super) masks: Vec<(Vec<u8>, [usize; 2])>,
    /// The pictures as RGB, for cut-outs.
    pub(super) rgb: Vec<Vec<u8>>,
    pub(super) finds: Vec<MaskedFind>,
    /// Share of the sphere, or of the photograph.
    pub(super) removed: f64,
}

/// The mask of a panorama.
pub(super) fn panorama(
    job: &Job<'_>,
    (index, source): (usize, &SourceFrame),
    plans: &Plans,
    worker: &mut Worker,
    host: &HostView<'_>,
) -> Result<Outcome, Trouble> {
    let started = Instant::now();
    let limits = gausset_pano::load::Limits::default();
    let read = convert::read(&source.files, None, false, &limits, job.level);
    let mut moment = read.map_err(|e| Trouble::Frame(e.to_string()))?;
    worker.seconds.decode += started.elapsed().as_secs_f64();
    let Projection::Equirect(equirect) = moment.projection else {
        return Err(Trouble::Frame(format!("{}: picture: is no panorama", source.stem)));
    };
    let width = (equirect.full_width as usize / 2 * 2).clamp(NARROWEST, WIDEST);
    let mut sphere = SphereMask::keep_all(width, width / 2);
    let mut seen = Vec::new();
    let side =
        |segmenter: &Segmenter| segmenter.size().into_iter().max().unwrap_or(16).clamp(16, 4096) as u32;
    if let Some(side) = job.segmenter.map(side) {
        let plan = plans.get(|| job.options.layout.views(side, side, None), &moment.frame, equirect);
        look(job, &plan, &mut moment.frame, worker, host, &mut sphere, &mut seen)?;
        if job.options.passes > 1 {
            second_look(
                job,
                side,
                (&mut moment.frame, &moment.projection),
                worker,
                host,
                (&mut sphere, &mut seen),
            )?;
        }
    }
    let started = Instant::now();
    if job.options.edges > 0.0 && !sphere.keeps_all() {
        sphere.refine_edges(&luma(&moment.frame, equirect, &sphere), job.options.edges);
    }
    let finds = work_over(job, &mut sphere, &seen);
    if let Some(still) = job.still {
        sphere.unite(&still.mask(index, width, width / 2));
    }
    let [w, h] = [equirect.width as usize, equirect.height as usize];
    let removed = sphere.removed_share();
    let masks = vec![(panorama_of(&sphere, equirect), [w, h])];
    let rgb = if job.options.modes == super::Modes::Masks { Vec::new() } else { vec![rgb_of(&moment.frame)] };
    worker.seconds.work += started.elapsed().as_secs_f64();
    Ok(Outcome { masks, rgb, finds, removed })
}

/// Looks again, around what was found.
fn second_look(
    job: &Job<'_>,
    side: u32,
    (frame, projection): (&mut Frame, &Projection),
    worker: &mut Worker,
    host: &HostView<'_>,
    (sphere, seen): (&mut SphereMask, &mut Vec<Sighting>),
) -> Result<(), Trouble> {
    let views: Vec<View> =
        largest(sphere.regions()).iter().filter_map(|region| around(region, sphere, side)).collect();
    if views.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    let shape = FrameShape { has_alpha: false, ..frame.shape() };
    let plan = Plan::new(views, Format::Png, projection, shape, 0.0, &Pool::new(1));
    worker.seconds.cut += started.elapsed().as_secs_f64();
    look(job, &plan, frame, worker, host, sphere, seen)
}

/// The masks of the views of a frame.
pub(super) fn views(
    job: &Job<'_>,
    description: &Description,
    source: &SourceFrame,
    worker: &mut Worker,
    host: &HostView<'_>,
) -> Result<Outcome, Trouble> {
    let focal = description.views.iter().map(View::focal).fold(0.0, f64::max);
    let width = ((focal * TAU / 2.0) as usize * 2).clamp(NARROWEST, WIDEST);
    let mut sphere = SphereMask::keep_all(width, width / 2);
    let (mut seen, mut rgb, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (view, file) in description.views.iter().zip(&source.files) {
        let started = Instant::now();
        let picture = gausset_io::image::decode_file(file).map_err(|e| Trouble::Frame(e.to_string()))?;
        worker.seconds.decode += started.elapsed().as_secs_f64();
        let [w, h] = [picture.width as usize, picture.height as usize];
        if [picture.width, picture.height] != [view.width, view.height] {
            return Err(Trouble::Frame(format!(
                "{}: picture: {w}x{h} px (expected {}x{}, as the split says)",
                file.display(),
                view.width,
                view.height
            )));
        }
        let found = find(job, &Picture { width: w, height: h, rgb: &picture.rgb }, worker, host)?;
        carry(view, [w, h], found, worker, &mut sphere, &mut seen);
        sizes.push([w, h]);
        if job.options.modes != super::Modes::Masks {
            rgb.push(picture.rgb);
        }
    }
    let started = Instant::now();
    let finds = work_over(job, &mut sphere, &seen);
    let removed = sphere.removed_share();
    let cut = |(view, [w, h]): (&View, [usize; 2])| (sphere.cut(view, w, h), [w, h]);
    let masks = description.views.iter().zip(sizes).map(cut).collect();
    worker.seconds.work += started.elapsed().as_secs_f64();
    Ok(Outcome { masks, rgb, finds, removed })
}

/// The flag to stop, for workers.
pub(super) struct HostView<'a> {
    pub(super) stop: &'a std::sync::atomic::AtomicBool,
}

impl<'a> HostView<'a> {
    pub(super) fn of(host: &Host<'a>) -> Self {
        Self { stop: host.stop() }
    }
}

/// What the model finds in a picture.
pub(super) fn find(
    job: &Job<'_>,
    picture: &Picture<'_>,
    worker: &mut Worker,
    host: &HostView<'_>,
) -> Result<Vec<Find>, Trouble> {
    let started = Instant::now();
    let limit = std::time::Duration::from_secs(job.options.model_timeout);
    let watch = gausset_segment::Watch { stop: host.stop, limit };
    let found = match job.segmenter {
        Some(segmenter) => segmenter.find(picture, &worker.runner, watch)?,
        None => Vec::new(),
    };
    worker.seconds.model += started.elapsed().as_secs_f64();
    Ok(found)
}

/// The keep mask of finds in a picture: 255 where none is.
pub(super) fn united(finds: &[Find], [width, height]: [usize; 2]) -> Vec<u8> {
    let mut keep = vec![255; width * height];
    for find in finds {
        let [left, top] = find.corner;
        for (y, row) in find.soft.chunks_exact(find.size[0]).enumerate() {
            let start = (top + y) * width + left;
            for (keep, soft) in keep[start..start + find.size[0]].iter_mut().zip(row) {
                *keep = (255 - soft).min(*keep);
            }
        }
    }
    keep
}

/// Looks at views of a frame, and carries what is found to the sphere.
fn look(
    job: &Job<'_>,
    plan: &Plan,
    frame: &mut Frame,
    worker: &mut Worker,
    host: &HostView<'_>,
    sphere: &mut SphereMask,
    seen: &mut Vec<Sighting>,
) -> Result<(), Trouble> {
    let mut cutter = std::mem::take(&mut worker.cutter);
    let mut since = Instant::now();
    let cut =
        CutJob { level: job.level, plan, frame, mask: None, cancel: host.stop, segments: &|_| Vec::new() };
    let done = cutter.pixels(cut, |index, rgb| {
        worker.seconds.cut += since.elapsed().as_secs_f64();
        let view = &plan.views[index];
        let [w, h] = [view.width as usize, view.height as usize];
        let found = find(job, &Picture { width: w, height: h, rgb }, worker, host)?;
        carry(view, [w, h], found, worker, sphere, seen);
        since = Instant::now();
        Ok(())
    });
    worker.cutter = cutter;
    match done {
        Ok(()) => Ok(()),
        Err(CutError::Receiver(trouble)) => Err(trouble),
        Err(CutError::Cancelled) => Err(Trouble::Stopped),
        Err(CutError::Encoding(what)) => Err(Trouble::Frame(what)),
    }
}

fn carry(
    view: &View,
    size: [usize; 2],
    found: Vec<Find>,
    worker: &mut Worker,
    sphere: &mut SphereMask,
    seen: &mut Vec<Sighting>,
) {
    if found.is_empty() {
        return;
    }
    let started = Instant::now();
    sphere.carry_from_view(view, &united(&found, size), size[0], size[1]);
    for find in found {
        let [x, y] = middle(&find);
        let ray = view.ray_in_panorama(
            x * f64::from(view.width) / size[0] as f64,
            y * f64::from(view.height) / size[1] as f64,
        );
        seen.push(Sighting { class: find.class, score: find.score, towards: unit(ray) });
    }
    worker.seconds.carry += started.elapsed().as_secs_f64();
}

/// Where the middle of a find is, px of its picture.
pub(super) fn middle(find: &Find) -> [f64; 2] {
    let (mut sum, mut at) = (0.0, [0.0; 2]);
    for (y, row) in find.soft.chunks_exact(find.size[0]).enumerate() {
        for (x, &soft) in row.iter().enumerate() {
            let soft = f64::from(soft);
            sum += soft;
            at = [at[0] + soft * (x as f64 + 0.5), at[1] + soft * (y as f64 + 0.5)];
        }
    }
    [0, 1].map(|axis| find.corner[axis] as f64 + if sum > 0.0 { at[axis] / sum } else { 0.0 })
}

fn unit(v: [f64; 3]) -> [f64; 3] {
    let length = libm::sqrt(se3::dot(v, v)).max(f64::MIN_POSITIVE);
    v.map(|c| c / length)
}

/// The largest parts, in their own order.
fn largest(mut regions: Vec<Region>) -> Vec<Region> {
    if regions.len() > MOST_LOOKS {
        regions.sort_by(|a, b| b.square_degrees.total_cmp(&a.square_degrees));
        regions.truncate(MOST_LOOKS);
    }
    regions
}

/// Angle between the middle of a region and its farthest pixel, degrees; `None` for one that goes around.
fn radius(region: &Region, sphere: &SphereMask) -> Option<f64> {
    if se3::dot(region.middle, region.middle) < 0.01 {
        return None;
    }
    let middle = unit(region.middle);
    let (w, h) = (sphere.width as f64, sphere.height as f64);
    let ends = region.runs.iter().flat_map(|run| [(run.start, run.row), (run.end, run.row)]);
    let least = ends.fold(1.0f64, |least, (column, row)| {
        let towards = direction_from_equirect(column as f64, row as f64 + 0.5, w, h);
        least.min(se3::dot(middle, towards))
    });
    Some(libm::acos(least.clamp(-1.0, 1.0)).to_degrees())
}

/// The view of a second look.
fn around(region: &Region, sphere: &SphereMask, side: u32) -> Option<View> {
    let radius = radius(region, sphere)?;
    let hfov = (2.0 * (radius * (1.0 + BESIDE.0) + BESIDE.1)).clamp(*LOOK.start(), *LOOK.end());
    let [x, y, z] = unit(region.middle);
    let yaw = libm::atan2(x, z).to_degrees();
    let pitch = libm::atan2(-y, libm::hypot(x, z)).to_degrees();
    Some(View { name: "find".to_owned(), yaw, pitch, roll: 0.0, hfov, width: side, height: side })
}

/// Holes, small parts, growth; and what each part that stays is.
fn work_over(job: &Job<'_>, sphere: &mut SphereMask, seen: &[Sighting]) -> Vec<MaskedFind> {
    let options = job.options;
    if sphere.keeps_all() {
        return Vec::new();
    }
    sphere.fill_holes(options.holes);
    sphere.drop_small(options.smallest);
    let finds = sphere.regions().iter().map(|region| described(job, region, seen)).collect();
    if let Reach::Degrees(degrees) = options.dilate {
        sphere.dilate(degrees);
    }
    if options.feather > 0.0 {
        sphere.feather(options.feather);
    }
    finds
}

/// A part of a mask, named by the surest of the finds whose middles lie nearest.
fn described(job: &Job<'_>, region: &Region, seen: &[Sighting]) -> MaskedFind {
    let middle = unit(region.middle);
    let [x, y, z] = middle;
    // As wide as a disc of its area, so that each of several in one region can be the one.
    let near = libm::sqrt(region.square_degrees / std::f64::consts::PI).max(1.0).to_radians();
    let away = |sighting: &Sighting| libm::acos(se3::dot(middle, sighting.towards).clamp(-1.0, 1.0));
    let rank = |s: &Sighting| ((away(s) - near).max(0.0), -s.score);
    let best = seen.iter().min_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let round = |v: f64| (v * 100.0).round() / 100.0;
    MaskedFind {
        class: best.map_or_else(String::new, |s| job.class(s.class)),
        score: best.map_or(0.0, |s| round(f64::from(s.score))),
        yaw: Some(round(libm::atan2(x, z).to_degrees())),
        pitch: Some(round(libm::atan2(-y, libm::hypot(x, z)).to_degrees())),
        square_degrees: Some(round(region.square_degrees)),
        pixels: None,
    }
}

/// The luma of a frame as a picture of the mask's size: the mean of the pixels that lie in each.
fn luma(frame: &Frame, equirect: Equirect, sphere: &SphereMask) -> Vec<u8> {
    let plane = &frame.planes[0];
    let scale = [equirect.full_width / sphere.width as f64, equirect.full_height / sphere.height as f64];
    let mut out = vec![128; sphere.width * sphere.height];
    let range = |k: usize, scale: f64, first: f64, count: usize| {
        let start = (k as f64 * scale - first).floor();
        let end = ((k + 1) as f64 * scale - first).ceil().max(start + 1.0);
        (start.max(0.0) as usize).min(count)..(end.max(0.0) as usize).min(count)
    };
    for (y, row) in out.chunks_exact_mut(sphere.width).enumerate() {
        let rows = range(y, scale[1], equirect.top, plane.height);
        for (x, out) in row.iter_mut().enumerate() {
            let columns = range(x, scale[0], equirect.left, plane.width);
            let of_row = |y: usize| {
                plane.row(y as i32)[columns.clone()].iter().map(|&v| usize::from(v)).sum::<usize>()
            };
            let sum = rows.clone().map(of_row).sum::<usize>();
            // What the picture does not show stays grey.
            if let Some(mean) = sum.checked_div(rows.len() * columns.len()) {
                *out = mean as u8;
            }
        }
    }
    out
}

/// The mask at the size of the stored picture.
fn panorama_of(sphere: &SphereMask, equirect: Equirect) -> Vec<u8> {
    let (w, h) = (equirect.width as usize, equirect.height as usize);
    let scale = [sphere.width as f64 / equirect.full_width, sphere.height as f64 / equirect.full_height];
    if sphere.data.iter().all(|&keep| keep == 255) {
        return vec![255; w * h];
    }
    let mut out = Vec::with_capacity(w * h);
    for y in 0..h {
        let v = ((y as f64 + 0.5 + equirect.top) * scale[1]) as f32;
        for x in 0..w {
            let u = ((x as f64 + 0.5 + equirect.left) * scale[0]) as f32;
            out.push((sphere.sample(u, v) + 0.5) as u8);
        }
    }
    out
}

/// The pixels of a frame as RGB.
fn rgb_of(frame: &Frame) -> Vec<u8> {
    let luma = &frame.planes[0];
    let mut out = Vec::with_capacity(3 * luma.width * luma.height);
    for y in 0..luma.height {
        for x in 0..luma.width {
            let at = |index: usize| {
                let plane = &frame.planes[index];
                let (column, row) = (x * plane.width / luma.width, y * plane.height / luma.height);
                plane.row(row as i32)[column]
            };
            let value = at(0);
            if frame.planes.len() < 3 {
                out.extend([value; 3])
            } else {
                out.extend(rgb_from_ycbcr([value, at(1), at(2)]))
            }
        }
    }
    out
}
