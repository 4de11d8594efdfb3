//! The result of a job, which the server's thread encodes.

use std::sync::Arc;
use std::time::Instant;

use gausset_core::engine::Rendering;
use gausset_core::{Camera, RgbImage8, TargetImage};

use crate::budget::Reserved;
use crate::colours;
use crate::encode::Codec;
use crate::job::{Ask, Job};
use crate::protocol::{FRAME_HEAD, FrameHead, What};

/// The result of a job.
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
    /// Memory that is reserved for it until it is sent.
    pub(crate) reserved: Reserved,
}

/// An image before encoding.
#[derive(Debug)]
pub(crate) enum Painted {
    View(Rendering, What),
    /// Depths, and their camera.
    Normals(Rendering, Camera),
    /// A rendering, the photograph of its camera, the gain of the difference, the background colour.
    Against(Rendering, Arc<TargetImage>, f32, [f32; 3]),
    Photo(Arc<TargetImage>, u32, [f32; 3]),
    /// The depth at a point, if there is one.
    Depth(Option<f32>),
    Failed(String),
}

/// An encoded message to a page.
pub(crate) enum Packed {
    Frame(Vec<u8>),
    Text(String),
}

impl Drawn {
    /// A result without content: page, id, time waited and flags of a job.
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

    /// Adds the content and the time that rendering took, milliseconds.
    pub(crate) fn with(self, painted: Painted, ms: f64) -> Self {
        Self { painted, ms, ..self }
    }

    /// Encodes the message to the page. Also returns the milliseconds of rendering and encoding if the frame is part of
    /// a movement. Rendering buffers are returned through `give_back`.
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

/// A rendering as an image, and the range of its colours.
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
