//! Renders the image of a job on an engine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gausset_compute::Pool;
use gausset_core::engine::{Engine, EngineError, Outputs, RenderOptions, Rendering};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, TargetImage};
use gausset_train::{Confidence, DepthMaps, EvalError};

use crate::colours;
use crate::hub::Hub;
use crate::job::{RenderJob, Request};
use crate::protocol::{FrameContent, ViewRequest};
use crate::result::{JobResult, ResultImage};
use crate::scene::{Photos, UnreadablePhoto};

/// Settings with which the splats on a device are rendered.
pub struct RenderSettings<'a> {
    /// The photographs, if the dataset has some.
    pub photos: Option<&'a Photos>,
    /// Maps the axes of a page, which are those of the saved splats, to those of the device.
    pub device_from_saved: Similarity,
    /// Render options, unless a request overrides them.
    pub options: RenderOptions,
    /// Number of splats of the scene, if a sky follows them: depth and alpha are those of the scene alone.
    pub scene_splats: Option<u32>,
    /// Finished training steps.
    pub step: u64,
    /// What the training views know about the splats, if they are a finished result with its dataset.
    pub confidence: Option<ConfidenceSource<'a>>,
}

/// Depth maps of the training views, and what computes with them.
pub struct ConfidenceSource<'a> {
    /// The maps; rendered when they are first needed.
    pub maps: &'a mut DepthMaps,
    /// Threads.
    pub pool: &'a Pool,
    /// Ends the work early.
    pub stop: &'a AtomicBool,
}

/// Renders a job and delivers the result to its page.
pub fn render_job(hub: &Hub, job: RenderJob, engine: &mut dyn Engine, look: RenderSettings<'_>) {
    let _span = gausset_prof::span("view");
    let started = Instant::now();
    let painted = match &job.request {
        Request::Photo { camera, side, .. } => match look.photos.and_then(|photos| photos.load(*camera)) {
            Some(Ok((photo, ..))) => ResultImage::Photo(photo, *side, look.options.background),
            Some(Err(error)) => ResultImage::Failed(error.to_string()),
            None => ResultImage::Failed(RenderError::NoPhotograph.to_string()),
        },
        Request::View(view, camera, pose) => {
            let mut rendering = hub.take_buffer(&job);
            match render_view(view, camera, pose, engine, &look, &mut rendering) {
                Ok(Some(against)) => ResultImage::Comparison(
                    rendering,
                    against,
                    view.gain.unwrap_or(1.0),
                    look.options.background,
                ),
                Ok(None) if view.what == FrameContent::Probe => {
                    let depth = depth_at(&rendering, view.at.unwrap_or([0.5; 2]));
                    hub.return_buffer(rendering);
                    ResultImage::Depth(depth)
                }
                Ok(None) if view.what == FrameContent::Normals => ResultImage::Normals(rendering, *camera),
                Ok(None) if view.what == FrameContent::Confidence => {
                    match confidence((camera, pose), engine, look.confidence, &rendering) {
                        Ok(confidence) => ResultImage::Confidence(rendering, confidence),
                        Err(error) => ResultImage::Failed(error.to_string()),
                    }
                }
                Ok(None) => ResultImage::View(rendering, view.what),
                Err(error) => ResultImage::Failed(error.to_string()),
            }
        }
    };
    let ms = 1e3 * started.elapsed().as_secs_f64();
    hub.deliver(JobResult::new(job, look.step).with_content(painted, ms));
}

/// Why a view is not rendered.
#[derive(Debug, thiserror::Error)]
enum RenderError {
    #[error("there is no such photograph")]
    NoPhotograph,
    #[error(transparent)]
    Photo(#[from] UnreadablePhoto),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Confidence(#[from] EvalError),
    #[error("confidence is shown of a finished run whose dataset is at hand")]
    NoConfidence,
}

/// What the training views know about the pixels of a view.
fn confidence(
    view: (&Camera, &Pose),
    engine: &mut dyn Engine,
    source: Option<ConfidenceSource<'_>>,
    rendering: &Rendering,
) -> Result<Vec<Option<Confidence>>, RenderError> {
    let ConfidenceSource { maps, pool, stop } = source.ok_or(RenderError::NoConfidence)?;
    Ok(maps.confidence(engine, pool, view, rendering, stop)?)
}

/// Renders a view; returns the photograph with which it is compared.
fn render_view(
    view: &ViewRequest,
    camera: &Camera,
    pose: &Pose,
    engine: &mut dyn Engine,
    look: &RenderSettings<'_>,
    rendering: &mut Rendering,
) -> Result<Option<Arc<TargetImage>>, RenderError> {
    let mut options = look.options;
    options.sh_degree = view.sh_degree.map_or(options.sh_degree, |degree| degree.min(options.sh_degree));
    let near = view.near.filter(|near| near.is_finite() && *near > 0.0);
    options.near_plane = near.map_or(options.near_plane, |near| near * look.device_from_saved.scale);
    // A photograph with alpha is compared on the colour that it was trained on.
    let background = view.background.filter(|_| view.what != FrameContent::Error);
    if let Some(colour) = background.filter(|colour| colour.iter().all(|v| (0.0..=1.0).contains(v))) {
        (options.background, options.sky) = (colour, false);
    }
    let (mut camera, mut pose, mut against) = (*camera, *pose, None);
    if view.what == FrameContent::Error {
        let photo = view.against.and_then(|number| look.photos?.load(number));
        let (photo, of_photo, there) = photo.ok_or(RenderError::NoPhotograph)??;
        let factor =
            photo.width.div_ceil(camera.width.max(1)).max(photo.height.div_ceil(camera.height.max(1)));
        let factor = factor.clamp(1, photo.width.min(photo.height).max(1));
        (camera, pose) = (of_photo.downscaled(factor), there);
        against = Some(if factor == 1 { photo } else { Arc::new(photo.downscaled(factor)) });
    }
    if !matches!(view.what, FrameContent::Color | FrameContent::Error) {
        options.splat_limit = look.scene_splats;
    }
    if view.what == FrameContent::Probe {
        let share = (320.0 / f64::from(camera.width)).min(1.0);
        let side = |side: u32| ((f64::from(side) * share) as u32).max(1);
        camera = camera.resized(side(camera.width), side(camera.height));
    }
    let outputs = match view.what {
        FrameContent::Color | FrameContent::Alpha | FrameContent::Error => Outputs::Color,
        FrameContent::Depth
        | FrameContent::Count
        | FrameContent::Probe
        | FrameContent::Normals
        | FrameContent::Confidence => Outputs::All,
    };
    let pose = look.device_from_saved.apply_to_pose(&pose);
    engine.render_into(&camera, &pose, &options, outputs, rendering)?;
    let unit = look.device_from_saved.scale;
    if unit != 1.0 {
        rendering.depth.iter_mut().for_each(|depth| *depth = (f64::from(*depth) / unit) as f32);
    }
    Ok(against)
}

/// The nearest depth around a point of an image.
fn depth_at(rendering: &Rendering, at: [f64; 2]) -> Option<f32> {
    let depths = colours::depths(rendering);
    let place =
        |share: f64, side: u32| ((share.clamp(0.0, 1.0) * f64::from(side)) as usize).min(side as usize - 1);
    let (x, y) = (place(at[0], rendering.width), place(at[1], rendering.height));
    let (width, height) = (rendering.width as usize, rendering.height as usize);
    let around = (y.saturating_sub(1)..(y + 2).min(height))
        .flat_map(|y| (x.saturating_sub(1)..(x + 2).min(width)).map(move |x| y * width + x));
    around.filter_map(|i| depths[i]).min_by(f32::total_cmp)
}
