//! Detection in one full-sphere frame: detections in views are warped to a panorama and merged and refined there.
//!
//! ```text
//! first pass   the views of a layout, in the input size of the model second pass  a view around each detected region,
//! as large as it needs: layouts cut people near the nadir, and distant
//!              people are small in them
//! refinement   edges snap to image edges ▸ holes ▸ small regions
//! ```
//! Temporal consistency, dilation and other removed regions follow in `finish`.

use std::f64::consts::TAU;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gausset_compute::Pool;
use gausset_core::se3::Mat3;
use gausset_pano::convert::DecodedFrame;
use gausset_pano::cutter::{CutError, CutJob, Cutter, Format, Plan};
use gausset_pano::frames::SourceFrame;
use gausset_pano::geometry::View;
use gausset_pano::motion::GreyImage;
use gausset_pano::plane::{Frame, FrameShape};
use gausset_pano::projection::Projection;
use gausset_pano::sphere_mask::SphereMask;
use gausset_pano::split::SplitDescription;
use gausset_pano::video::VideoError;
use gausset_prof::StageTimer;
use gausset_segment::{Detection, ModelError, RgbImage, Segmenter};

use super::direction::{self, DetectionDirection, unit};
use super::report::DetectionRecord;
use super::stages::WorkerStage;
use super::{MaskJob, resample};
use crate::Host;

/// Maximum width of the mask panorama in pixels (0.125 degrees per pixel); masks of wider frames are upsampled.
pub(super) const MAX_WIDTH: usize = 2880;
/// Minimum width of the mask panorama in pixels.
const MIN_WIDTH: usize = 512;
/// Width of the panoramas used to estimate the camera rotation, in pixels.
pub(super) const ROTATION_WIDTH: usize = 960;

/// Why a frame has no mask.
pub(super) enum FrameError {
    /// This frame is unusable and skipped.
    Frame(String),
    /// The model failed; the job ends.
    Model(ModelError),
    Stopped,
    /// The video has no such frame.
    End,
    /// The video cannot be read further; the job ends.
    Broken(VideoError),
}

impl From<ModelError> for FrameError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Stopped => Self::Stopped,
            other => Self::Model(other),
        }
    }
}

/// State of a worker.
pub(super) struct Worker {
    cutter: Cutter,
    pub(super) ledger: StageTimer<WorkerStage>,
}

impl Worker {
    pub(super) fn new() -> Self {
        Self { cutter: Cutter::default(), ledger: StageTimer::start() }
    }
}

/// Sampling plans by frame shape and projection, shared by the workers.
#[derive(Default)]
pub(super) struct Plans(Mutex<Vec<(FrameShape, Projection, Arc<Plan>)>>);

impl Plans {
    fn get(&self, views: impl Fn() -> Vec<View>, frame: &Frame, projection: &Projection) -> Arc<Plan> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = FrameShape { has_alpha: false, ..frame.shape() };
        if let Some((_, _, plan)) = plans.iter().find(|(of, at, _)| *of == shape && at == projection) {
            return Arc::clone(plan);
        }
        let plan = Arc::new(Plan::new(views(), Format::Png, projection, shape.clone(), 0.0, &Pool::new(1)));
        plans.push((shape, projection.clone(), Arc::clone(&plan)));
        plan
    }
}

/// Projection of the images of a frame.
pub(super) enum ImageLayout {
    One(Box<Projection>),
    /// The views of a split, with their widths and heights.
    Views(Vec<[usize; 2]>),
}

/// Detections in one frame, refined but not yet compared with other frames.
pub(super) struct Detections {
    pub(super) sphere: SphereMask,
    pub(super) sightings: Vec<DetectionDirection>,
    pub(super) shown: ImageLayout,
    /// RGB images, for cut-outs.
    pub(super) rgb: Arc<Vec<Vec<u8>>>,
    /// Low-resolution grey panorama, if needed to estimate the camera rotation.
    pub(super) small: Option<GreyImage>,
    /// Camera rotation from the previous frame, computed on first use.
    pub(super) rotation: OnceLock<Option<Mat3>>,
}

/// Final masks and detections of a frame.
pub(super) struct FrameMasks {
    /// Masks of its images (0 = remove), with width and height.
    pub(super) masks: Vec<(Vec<u8>, [usize; 2])>,
    /// RGB images, for cut-outs.
    pub(super) rgb: Arc<Vec<Vec<u8>>>,
    pub(super) finds: Vec<DetectionRecord>,
    /// Number of detections dropped because no neighbouring frame confirms them.
    pub(super) dropped: usize,
    /// Whether neighbouring frames should have been used but could not be compared.
    pub(super) is_unchecked: bool,
    /// Masked fraction of the sphere, or of the photograph.
    pub(super) removed: f64,
    /// EXIF orientation of a photograph: masks and images here are upright, mask files have its stored pixels.
    pub(super) orientation: u8,
}

/// Detects in a panorama or other full-sphere frame.
pub(super) fn panorama(
    job: &MaskJob<'_>,
    index: usize,
    mut moment: DecodedFrame,
    plans: &Plans,
    worker: &mut Worker,
    host: &StopFlag<'_>,
) -> Result<Detections, FrameError> {
    let around = match &moment.projection {
        Projection::Equirect(equirect) => equirect.full_width as usize,
        other => other.pixels_per_turn() as usize,
    };
    let width = (around / 2 * 2).clamp(MIN_WIDTH, MAX_WIDTH);
    let mut sphere = SphereMask::new(width, width / 2);
    let mut sightings = Vec::new();
    if let Some(side) = job.segmenter.map(model_view_side) {
        worker.ledger.switch_to(WorkerStage::Cut);
        let views = || job.options.layout.views(side, side, None);
        let plan = plans.get(views, &moment.frame, &moment.projection);
        detect_in_views(job, &plan, &mut moment.frame, worker, host, &mut sphere, &mut sightings)?;
        if job.options.passes > 1 {
            let of = (&mut moment.frame, &moment.projection);
            second_pass(job, side, of, worker, host, (&mut sphere, &mut sightings))?;
        }
    }
    worker.ledger.switch_to(WorkerStage::WorkOver);
    let luma = |size| resample::luma(&moment, size, (job.level, host.stop)).ok_or(FrameError::Stopped);
    if job.options.edges > 0.0 && !sphere.keeps_all() {
        sphere.refine_edges(&luma([width, width / 2])?, job.options.edges);
    }
    fill_and_filter(job, &mut sphere);
    let small = if job.needs_comparison(index) {
        let width = width.min(ROTATION_WIDTH) / 4 * 4;
        Some(GreyImage { width, height: width / 2, data: luma([width, width / 2])? })
    } else {
        None
    };
    let rgb = if job.needs_rgb() { vec![resample::rgb_of(&moment)] } else { Vec::new() };
    let shown = ImageLayout::One(Box::new(moment.projection));
    Ok(Detections { sphere, sightings, shown, rgb: Arc::new(rgb), small, rotation: OnceLock::new() })
}

/// Side of the views that are passed to the model, in pixels.
pub(super) fn model_view_side(segmenter: &Segmenter) -> u32 {
    segmenter.size().into_iter().max().unwrap_or(16).clamp(16, 4096) as u32
}

/// Second pass: runs the model on views around the detected regions.
fn second_pass(
    job: &MaskJob<'_>,
    side: u32,
    (frame, projection): (&mut Frame, &Projection),
    worker: &mut Worker,
    host: &StopFlag<'_>,
    (sphere, sightings): (&mut SphereMask, &mut Vec<DetectionDirection>),
) -> Result<(), FrameError> {
    worker.ledger.switch_to(WorkerStage::Cut);
    let views: Vec<View> = direction::largest(sphere.regions())
        .iter()
        .filter_map(|region| direction::second_pass_view(region, sphere, side))
        .collect();
    if views.is_empty() {
        return Ok(());
    }
    let shape = FrameShape { has_alpha: false, ..frame.shape() };
    let plan = Plan::new(views, Format::Png, projection, shape, 0.0, &Pool::new(1));
    detect_in_views(job, &plan, frame, worker, host, sphere, sightings)
}

/// Detects in the views of a split.
pub(super) fn views(
    job: &MaskJob<'_>,
    description: &SplitDescription,
    source: &SourceFrame,
    worker: &mut Worker,
    host: &StopFlag<'_>,
) -> Result<Detections, FrameError> {
    let focal = description.views.iter().map(View::focal).fold(0.0, f64::max);
    let width = ((focal * TAU / 2.0) as usize * 2).clamp(MIN_WIDTH, MAX_WIDTH);
    let mut sphere = SphereMask::new(width, width / 2);
    let (mut sightings, mut rgb, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (view, file) in description.views.iter().zip(&source.files) {
        worker.ledger.switch_to(WorkerStage::Decode);
        let picture = gausset_io::image::decode_file(file).map_err(|e| FrameError::Frame(e.to_string()))?;
        let [w, h] = [picture.width as usize, picture.height as usize];
        if [picture.width, picture.height] != [view.width, view.height] {
            return Err(FrameError::Frame(format!(
                "{}: picture: {w}x{h} px (expected {}x{}, according to the split)",
                file.display(),
                view.width,
                view.height
            )));
        }
        let found = run_model(job, &RgbImage { width: w, height: h, rgb: &picture.rgb }, worker, host)?;
        warp_to_sphere(view, [w, h], found, worker, &mut sphere, &mut sightings);
        sizes.push([w, h]);
        if job.needs_rgb() {
            rgb.push(picture.rgb);
        }
    }
    worker.ledger.switch_to(WorkerStage::WorkOver);
    fill_and_filter(job, &mut sphere);
    let shown = ImageLayout::Views(sizes);
    Ok(Detections { sphere, sightings, shown, rgb: Arc::new(rgb), small: None, rotation: OnceLock::new() })
}

/// Fills holes and drops small regions.
fn fill_and_filter(job: &MaskJob<'_>, sphere: &mut SphereMask) {
    if !sphere.keeps_all() {
        sphere.fill_holes(job.options.holes);
        sphere.drop_small(job.options.smallest);
    }
}

/// The stop flag of the host, for worker threads.
pub(super) struct StopFlag<'a> {
    pub(super) stop: &'a AtomicBool,
}

impl<'a> StopFlag<'a> {
    pub(super) fn of(host: &Host<'a>) -> Self {
        Self { stop: host.stop() }
    }
}

/// Runs the model on an image.
pub(super) fn run_model(
    job: &MaskJob<'_>,
    picture: &RgbImage<'_>,
    worker: &mut Worker,
    host: &StopFlag<'_>,
) -> Result<Vec<Detection>, FrameError> {
    worker.ledger.switch_to(WorkerStage::Inference);
    let limit = std::time::Duration::from_secs(job.options.model_timeout);
    let watch = gausset_segment::RunLimits { stop: host.stop, limit };
    let found = match job.segmenter {
        Some(segmenter) => segmenter.detect(picture, watch)?,
        None => Vec::new(),
    };
    Ok(found)
}

/// Merges detections into one keep mask: 255 where there is none.
pub(super) fn merge_detections(finds: &[Detection], [width, height]: [usize; 2]) -> Vec<u8> {
    let mut keep = vec![255; width * height];
    for find in finds {
        let [left, top] = find.corner;
        for (y, row) in find.soft_mask.chunks_exact(find.size[0]).enumerate() {
            let start = (top + y) * width + left;
            for (keep, soft) in keep[start..start + find.size[0]].iter_mut().zip(row) {
                *keep = (255 - soft).min(*keep);
            }
        }
    }
    keep
}

/// Runs the model on views of a frame and warps the detections to the sphere.
fn detect_in_views(
    job: &MaskJob<'_>,
    plan: &Plan,
    frame: &mut Frame,
    worker: &mut Worker,
    host: &StopFlag<'_>,
    sphere: &mut SphereMask,
    sightings: &mut Vec<DetectionDirection>,
) -> Result<(), FrameError> {
    let mut cutter = std::mem::take(&mut worker.cutter);
    worker.ledger.switch_to(WorkerStage::Cut);
    let cut =
        CutJob { level: job.level, plan, frame, mask: None, cancel: host.stop, segments: &|_| Vec::new() };
    let done = cutter.sample_rgb(cut, |index, rgb| {
        let view = &plan.views[index];
        let [w, h] = [view.width as usize, view.height as usize];
        let found = run_model(job, &RgbImage { width: w, height: h, rgb }, worker, host)?;
        warp_to_sphere(view, [w, h], found, worker, sphere, sightings);
        worker.ledger.switch_to(WorkerStage::Cut);
        Ok(())
    });
    worker.cutter = cutter;
    match done {
        Ok(()) => Ok(()),
        Err(CutError::Receiver(trouble)) => Err(trouble),
        Err(CutError::Cancelled) => Err(FrameError::Stopped),
        Err(CutError::Encoding(what)) => Err(FrameError::Frame(what)),
    }
}

fn warp_to_sphere(
    view: &View,
    size: [usize; 2],
    found: Vec<Detection>,
    worker: &mut Worker,
    sphere: &mut SphereMask,
    sightings: &mut Vec<DetectionDirection>,
) {
    if found.is_empty() {
        return;
    }
    worker.ledger.switch_to(WorkerStage::Carry);
    sphere.project_from_view(view, &merge_detections(&found, size), size[0], size[1]);
    for find in found {
        for (score, [x, y]) in direction::parts(&find) {
            let ray = view.ray_in_panorama(
                x * f64::from(view.width) / size[0] as f64,
                y * f64::from(view.height) / size[1] as f64,
            );
            sightings.push(DetectionDirection {
                class: find.class,
                score,
                direction: unit(ray),
                is_filled: false,
            });
        }
    }
}
