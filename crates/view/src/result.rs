//! The result of a job, which the server's thread encodes.

use std::sync::Arc;
use std::time::Instant;

use gausset_core::engine::Rendering;
use gausset_core::{Camera, RgbImage8, TargetImage};
use gausset_train::Confidence;

use crate::budget::Reservation;
use crate::colours;
use crate::encode::Codec;
use crate::job::{RenderJob, Request};
use crate::protocol::{FRAME_HEADER_BYTES, FrameContent, FrameHeader};

/// The result of a job.
#[derive(Debug)]
pub struct JobResult {
    pub(crate) page: u64,
    pub(crate) id: u32,
    pub(crate) content: ResultImage,
    pub(crate) render_ms: f64,
    waited_ms: f64,
    flags: u16,
    step: u64,
    is_moving: bool,
    is_exact: bool,
    /// Memory that is reserved for it until it is sent.
    pub(crate) reserved: Reservation,
}

/// An image before encoding.
#[derive(Debug)]
pub(crate) enum ResultImage {
    View(Rendering, FrameContent),
    /// Depths, and their camera.
    Normals(Rendering, Camera),
    /// A rendering, and what the training views know about its pixels.
    Confidence(Rendering, Vec<Option<Confidence>>),
    /// A rendering, the photograph of its camera, the gain of the difference, the background colour.
    Comparison(Rendering, Arc<TargetImage>, f32, [f32; 3]),
    Photo(Arc<TargetImage>, u32, [f32; 3]),
    /// The depth at a point, if there is one.
    Depth(Option<f32>),
    Failed(String),
}

/// An encoded message to a page.
pub(crate) enum EncodedMessage {
    Frame(Vec<u8>),
    Text(String),
}

impl JobResult {
    /// A result without content: page, id, time waited and flags of a job.
    pub(crate) fn new(job: RenderJob, step: u64) -> Self {
        let (is_moving, is_exact) = match &job.request {
            Request::View(view, ..) => (view.moving, view.exact),
            Request::Photo { .. } => (false, false),
        };
        Self {
            page: job.page,
            id: job.request.id(),
            content: ResultImage::Depth(None),
            render_ms: 0.0,
            waited_ms: 1e3 * job.requested_at.elapsed().as_secs_f64(),
            flags: u16::from(is_exact) | u16::from(job.is_repeat) << 1,
            step,
            is_moving,
            is_exact,
            reserved: job.reserved,
        }
    }

    /// Adds the content and the time that rendering took, milliseconds.
    pub(crate) fn with_content(self, painted: ResultImage, ms: f64) -> Self {
        Self { content: painted, render_ms: ms, ..self }
    }

    /// Encodes the message to the page. Also returns the milliseconds of rendering and encoding if the frame is part of
    /// a movement. Rendering buffers are returned through `give_back`.
    pub(crate) fn encode(self, give_back: impl Fn(Rendering), quality: u8) -> (EncodedMessage, Option<f64>) {
        let started = Instant::now();
        let codec = match (self.is_exact, self.is_moving) {
            (true, _) => Codec::Png,
            (false, true) => Codec::JpegMoving(quality),
            (false, false) => Codec::JpegAtRest,
        };
        let mut head = FrameHeader {
            kind: 1,
            id: self.id,
            flags: self.flags,
            step: self.step,
            ..FrameHeader::default()
        };
        let text = |object: serde_json::Value| (EncodedMessage::Text(object.to_string()), None);
        let picture = match self.content {
            ResultImage::Depth(depth) => {
                return text(serde_json::json!({ "t": "depth", "id": self.id, "depth": depth }));
            }
            ResultImage::Failed(reason) => {
                return text(serde_json::json!({ "t": "error", "id": self.id, "line": reason }));
            }
            ResultImage::View(rendering, what) => {
                let (picture, range) = false_colour(&rendering, what);
                give_back(rendering);
                head.range = range;
                picture
            }
            ResultImage::Normals(rendering, camera) => {
                let picture = colours::normal_image(&rendering, &camera);
                give_back(rendering);
                picture
            }
            ResultImage::Confidence(rendering, confidence) => {
                let picture = colours::confidence_image(&rendering, &confidence);
                head.range = [Confidence::Confirmed, Confidence::Invented]
                    .map(|wanted| colours::fraction(&confidence, wanted));
                give_back(rendering);
                picture
            }
            ResultImage::Comparison(rendering, photo, gain, background) => {
                let render = RgbImage8::from_f32(rendering.width, rendering.height, &rendering.color);
                give_back(rendering);
                let behind = colours::composite_photo(&photo, background);
                let (picture, psnr) = colours::error_image(&render, &behind, photo.mask.as_deref(), gain);
                head.range = [psnr, 0.0];
                picture
            }
            ResultImage::Photo(photo, side, background) => {
                head.kind = 2;
                let factor = photo.width.max(photo.height).div_ceil(side.max(16));
                let factor = factor.clamp(1, photo.width.min(photo.height).max(1));
                if factor == 1 {
                    colours::composite_photo(&photo, background)
                } else {
                    colours::composite_photo(&photo.downscaled(factor), background)
                }
            }
        };
        head.codec = codec.number();
        head.size = [picture.width, picture.height];
        match codec.encode(&picture) {
            Ok(bytes) => {
                let encode_ms = 1e3 * started.elapsed().as_secs_f64();
                head.times = [self.render_ms, encode_ms, self.waited_ms].map(|ms| ms as f32);
                let mut message = head.bytes();
                message.reserve_exact(bytes.len());
                debug_assert_eq!(message.len(), FRAME_HEADER_BYTES);
                message.extend(bytes);
                (EncodedMessage::Frame(message), self.is_moving.then_some(self.render_ms + encode_ms))
            }
            Err(error) => text(serde_json::json!({ "t": "error", "id": self.id, "line": error.to_string() })),
        }
    }
}

/// A rendering as an image, and the range of its colours.
fn false_colour(rendering: &Rendering, what: FrameContent) -> (RgbImage8, [f32; 2]) {
    let (width, height) = (rendering.width, rendering.height);
    match what {
        FrameContent::Depth => colours::depth_image(rendering),
        FrameContent::Count => colours::count_image(rendering),
        FrameContent::Alpha => (colours::alpha_image(rendering), [0.0, 1.0]),
        FrameContent::Color
        | FrameContent::Error
        | FrameContent::Probe
        | FrameContent::Normals
        | FrameContent::Confidence => (RgbImage8::from_f32(width, height, &rendering.color), [0.0; 2]),
    }
}
