//! What came of a job, made ready to be shown on the server's thread.

use std::sync::Arc;
use std::time::Instant;

use gausset_core::engine::Rendering;
use gausset_core::{Camera, RgbImage8, TargetImage};

use crate::budget::Reserved;
use crate::colours;
use crate::encode::Codec;
use crate::job::{Ask, Job};
use crate::protocol::{FRAME_HEAD, FrameHead, What};

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
    /// Memory that is counted for it, until it is sent.
    pub(crate) reserved: Reserved,
}

/// A picture that is not packed yet.
#[derive(Debug)]
pub(crate) enum Painted {
    View(Rendering, What),
    /// Depths, and the camera that they are of.
    Normals(Rendering, Camera),
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

impl Drawn {
    /// What is known of it before it is drawn.
    pub(crate) fn of(job: Job, step: u64) -> Self {
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
            reserved: job.reserved,
        }
    }

    /// The same when it is drawn, in so many milliseconds.
    pub(crate) fn with(self, painted: Painted, ms: f64) -> Self {
        Self { painted, ms, ..self }
    }

    /// The message that tells a page of it, and the milliseconds that drawing and packing took of a frame among many.
    /// Renderings go back to whoever has lent them.
    pub(crate) fn pack(self, give_back: impl Fn(Rendering), quality: u8) -> (Packed, Option<f64>) {
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
                give_back(rendering);
                head.range = range;
                picture
            }
            Painted::Normals(rendering, camera) => {
                let picture = colours::of_normals(&rendering, &camera);
                give_back(rendering);
                picture
            }
            Painted::Against(rendering, photo, gain, background) => {
                let render = RgbImage8::from_f32(rendering.width, rendering.height, &rendering.color);
                give_back(rendering);
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
        What::Color | What::Error | What::Probe | What::Normals => {
            (RgbImage8::from_f32(width, height, &rendering.color), [0.0; 2])
        }
    }
}
