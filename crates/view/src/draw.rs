//! A job becomes a picture: drawn by whoever holds an engine, made ready to be shown on the server's thread.

use std::sync::Arc;
use std::time::Instant;

use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, RgbImage8, TargetImage};

use crate::colours;
use crate::encode::Codec;
use crate::hub::{Ask, Hub, Job};
use crate::protocol::{FRAME_HEAD, FrameHead, ViewRequest, What};
use crate::scene::Photos;

/// How the splats on a device are looked at.
pub struct Look<'a> {
    /// The photographs, where there are some.
    pub photos: Option<&'a Photos>,
    /// Turns the axes of a page, those of the saved splats, to those of the device.
    pub device_from_saved: Similarity,
    /// How pictures are rendered unless a page wants something else.
    pub options: RenderOptions,
    /// How many splats are the scene, where a sky follows them: depths and alphas are those of the scene.
    pub scene_splats: Option<u32>,
    /// Finished steps.
    pub step: u64,
}

/// What came of a job.
#[derive(Debug)]
pub struct Drawn {
    pub(crate) page: u64,
    pub(crate) id: u32,
    pub(crate) painted: Painted,
    pub(crate) ms: f64,
    waited_ms: f64,
    flags: u16,
    step: u64,
    is_moving: bool,
    is_exact: bool,
}

/// A picture that is not packed yet.
#[derive(Debug)]
pub(crate) enum Painted {
    View(Rendering, What),
    /// A rendering, the photograph of its camera, the factor of the difference, the colour behind the photograph.
    Against(Rendering, Arc<TargetImage>, f32, [f32; 3]),
    Photo(Arc<TargetImage>, u32, [f32; 3]),
    /// The depth at a point, where something is.
    Depth(Option<f32>),
    Failed(String),
}

/// A message to a page.
pub(crate) enum Packed {
    Frame(Vec<u8>),
    Text(String),
}

/// Draws what was asked for and hands it to its page.
pub fn answer(hub: &Hub, job: &Job, engine: &mut dyn Engine, look: &Look<'_>) {
    let _span = gausset_prof::span("view");
    let started = Instant::now();
    let painted = match &job.ask {
        Ask::Photo { camera, side, .. } => match look.photos.and_then(|photos| photos.get(*camera)) {
            Some(Ok((photo, ..))) => Painted::Photo(photo, *side, look.options.background),
            Some(Err(reason)) => Painted::Failed(reason),
            None => Painted::Failed("there is no such photograph".to_owned()),
        },
        Ask::View(view, camera, pose) => {
            let mut rendering = hub.buffers();
            match draw(view, camera, pose, engine, look, &mut rendering) {
                Ok(Some(against)) => {
                    Painted::Against(rendering, against, view.gain.unwrap_or(1.0), look.options.background)
                }
                Ok(None) if view.what == What::Probe => {
                    let depth = depth_at(&rendering, view.at.unwrap_or([0.5; 2]));
                    hub.give_back(rendering);
                    Painted::Depth(depth)
                }
                Ok(None) => Painted::View(rendering, view.what),
                Err(reason) => Painted::Failed(reason),
            }
        }
    };
    let ms = 1e3 * started.elapsed().as_secs_f64();
    hub.deliver(Drawn { painted, ms, ..Drawn::of(job, look.step) });
}

/// Renders a view; gives the photograph that it is to be compared with.
fn draw(
    view: &ViewRequest,
    camera: &Camera,
    pose: &Pose,
    engine: &mut dyn Engine,
    look: &Look<'_>,
    rendering: &mut Rendering,
) -> Result<Option<Arc<TargetImage>>, String> {
    let mut options = look.options;
    options.sh_degree = view.sh_degree.map_or(options.sh_degree, |degree| degree.min(options.sh_degree));
    options.near_plane =
        view.near.filter(|near| near.is_finite() && *near > 0.0).unwrap_or(options.near_plane);
    if let Some(colour) = view.background.filter(|colour| colour.iter().all(|v| (0.0..=1.0).contains(v))) {
        (options.background, options.sky) = (colour, false);
    }
    let (mut camera, mut pose, mut against) = (*camera, *pose, None);
    if view.what == What::Error {
        let photo = view.against.and_then(|number| look.photos?.get(number));
        let (photo, of_photo, there) = photo.ok_or("there is no such photograph")??;
        let factor = photo.width.div_ceil(camera.width.max(1)).clamp(1, photo.width.min(photo.height).max(1));
        (camera, pose) = (of_photo.reduced(factor), there);
        against = Some(if factor == 1 { photo } else { Arc::new(photo.reduced(factor)) });
    }
    if matches!(view.what, What::Alpha | What::Depth | What::Count | What::Probe) {
        options.only_first = look.scene_splats;
    }
    if view.what == What::Probe {
        let share = (320.0 / f64::from(camera.width)).min(1.0);
        let side = |side: u32| ((f64::from(side) * share) as u32).max(1);
        camera = camera.resized(side(camera.width), side(camera.height));
    }
    let outputs = match view.what {
        What::Color | What::Alpha | What::Error => Outputs::Color,
        What::Depth | What::Count | What::Probe => Outputs::All,
    };
    let pose = look.device_from_saved.apply_to_pose(&pose);
    engine.render_into(&camera, &pose, &options, outputs, rendering).map_err(|error| error.to_string())?;
    Ok(against)
}

/// The nearest depth around a point of a picture.
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

impl Drawn {
    /// What is known of it before it is drawn.
    pub(crate) fn of(job: &Job, step: u64) -> Self {
        let (is_moving, is_exact) = match &job.ask {
            Ask::View(view, ..) => (view.moving, view.exact),
            Ask::Photo { .. } => (false, false),
        };
        Self {
            page: job.page,
            id: job.ask.id(),
            painted: Painted::Depth(None),
            ms: 0.0,
            waited_ms: 1e3 * job.asked.elapsed().as_secs_f64(),
            flags: u16::from(is_exact) | u16::from(job.renewed) << 1,
            step,
            is_moving,
            is_exact,
        }
    }

    /// The message that tells a page of it, and the milliseconds that drawing and packing took of a frame among many.
    pub(crate) fn pack(self, hub: &Hub, quality: u8) -> (Packed, Option<f64>) {
        let started = Instant::now();
        let codec = match (self.is_exact, self.is_moving) {
            (true, _) => Codec::Png,
            (false, true) => Codec::Moving(quality),
            (false, false) => Codec::Resting,
        };
        let mut head =
            FrameHead { kind: 1, id: self.id, flags: self.flags, step: self.step, ..FrameHead::default() };
        let text = |object: serde_json::Value| (Packed::Text(object.to_string()), None);
        let picture = match self.painted {
            Painted::Depth(depth) => {
                return text(serde_json::json!({ "t": "depth", "id": self.id, "depth": depth }));
            }
            Painted::Failed(reason) => {
                return text(serde_json::json!({ "t": "error", "id": self.id, "line": reason }));
            }
            Painted::View(rendering, what) => {
                let (picture, range) = shown(&rendering, what);
                hub.give_back(rendering);
                head.range = range;
                picture
            }
            Painted::Against(rendering, photo, gain, background) => {
                let render = RgbImage8::from_f32(rendering.width, rendering.height, &rendering.color);
                hub.give_back(rendering);
                let behind = colours::of_photo(&photo, background);
                let (picture, psnr) = colours::of_error(&render, &behind, photo.mask.as_deref(), gain);
                head.range = [psnr, 0.0];
                picture
            }
            Painted::Photo(photo, side, background) => {
                head.kind = 2;
                let factor = photo.width.max(photo.height).div_ceil(side.max(16));
                let factor = factor.clamp(1, photo.width.min(photo.height).max(1));
                if factor == 1 {
                    colours::of_photo(&photo, background)
                } else {
                    colours::of_photo(&photo.reduced(factor), background)
                }
            }
        };
        head.codec = codec.number();
        head.size = [picture.width, picture.height];
        match codec.pack(&picture) {
            Ok(bytes) => {
                let encode_ms = 1e3 * started.elapsed().as_secs_f64();
                head.times = [self.ms, encode_ms, self.waited_ms].map(|ms| ms as f32);
                let mut message = head.bytes();
                message.reserve_exact(bytes.len());
                debug_assert_eq!(message.len(), FRAME_HEAD);
                message.extend(bytes);
                (Packed::Frame(message), self.is_moving.then_some(self.ms + encode_ms))
            }
            Err(reason) => text(serde_json::json!({ "t": "error", "id": self.id, "line": reason })),
        }
    }
}

/// A rendering as it is shown, and the range of its colours.
fn shown(rendering: &Rendering, what: What) -> (RgbImage8, [f32; 2]) {
    let (width, height) = (rendering.width, rendering.height);
    match what {
        What::Depth => colours::of_depth(rendering),
        What::Count => colours::of_count(rendering),
        What::Alpha => (colours::of_alpha(rendering), [0.0, 1.0]),
        What::Color | What::Error | What::Probe => {
            (RgbImage8::from_f32(width, height, &rendering.color), [0.0; 2])
        }
    }
}
