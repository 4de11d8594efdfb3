//! Messages between pages and the server.
//!
//! Text messages are JSON with the message type in `t`. A page first sends `hello` with the version and the token; the
//! answer is a `hello` that describes the scene. Frames are binary, little-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 0 | kind: 1 a frame, 2 a photograph |
//! | 1 | [`VERSION`] |
//! | 2..4 | flags: 1 exact, 2 rendered again because the splats have changed |
//! | 4..8 | id of the request |
//! | 8..12 | width, height (u16) |
//! | 12 | codec: 0 JPEG, 2 PNG |
//! | 13..16 | zero |
//! | 16..28 | milliseconds of rendering, of encoding, of waiting (f32) |
//! | 28..36 | smallest and largest value of a depth or count map, PSNR in dB and 0 of an error map, or fractions confirmed and invented (f32) |
//! | 36..44 | finished steps (u64) |
//! | 44.. | the encoded image |

use gausset_core::camera::CameraError;
use gausset_core::{Camera, Pose};
use serde::{Deserialize, Serialize};

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Largest message from a page, bytes.
pub const MAX_MESSAGE: usize = 64 << 10;
/// Largest number of messages from a page per second.
pub const MAX_MESSAGES_PER_S: u32 = 100;
/// Largest number of pixels of a frame.
pub const MAX_FRAME_PIXELS: u64 = 4096 * 2304;
/// Length of the header of a frame, bytes.
pub const FRAME_HEADER_BYTES: usize = 44;

/// A message from a page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum PageMessage {
    /// The first message.
    Hello {
        /// Protocol version of the page.
        version: u32,
        /// The token.
        token: String,
    },
    /// Requests a view; replaces the previous request.
    View(Box<ViewRequest>),
    /// Requests the photograph of a camera of the dataset.
    Photo {
        /// Id of the request; returned with the photograph.
        id: u32,
        /// Index in the list of cameras.
        camera: usize,
        /// Longer side, px, at most.
        side: u32,
    },
    /// Acknowledges a frame that was shown.
    Ack {
        /// Id of the frame.
        id: u32,
    },
    /// The page became hidden or visible.
    Hidden {
        /// Whether it is hidden.
        hidden: bool,
    },
    /// The page draws in the browser and asks for newer splats. The answer is `{"t":"snapshot","number":…,"bytes":…}`,
    /// or one with a `line` that says why there are none. The splats are at `/api/snapshot`.
    Snapshot {
        /// Number of the snapshot that it has; 0 for none.
        have: u64,
        /// Whether the view is moving, so that the last view at rest need not be rendered again.
        moving: bool,
    },
    /// Sets which splats are shown, for all pages.
    Filter {
        /// The filter.
        filter: SplatFilter,
    },
    /// A command for the training.
    Command {
        /// The command.
        what: Command,
    },
    /// A message of a newer protocol version.
    #[serde(other)]
    Unknown,
}

/// Which splats of a file are shown: the filters of `gausset convert`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct SplatFilter {
    /// Least opacity of a splat, 0 to 1.
    pub min_opacity: Option<f64>,
    /// Largest distance of a splat from the centre, in median distances; splats of a sky are kept.
    pub drop_far: Option<f64>,
    /// Only splats with a centre in this ball are shown (centre, radius; axes of the saved splats).
    pub sphere: Option<[f64; 4]>,
    /// Only splats with a centre in this box are shown (smallest, then largest x, y, z; the same axes).
    #[serde(rename = "box")]
    pub within_box: Option<[f64; 6]>,
    /// Largest standard deviation of a splat along any axis, scene units.
    pub max_size: Option<f64>,
    /// Factor of the standard deviations of all splats, above 0 and at most 1; small values make the inside of a cloud
    /// visible.
    pub shrink: Option<f64>,
}

impl SplatFilter {
    /// The filter, if its values are in range.
    #[must_use]
    pub fn checked(self) -> Option<Self> {
        let is_share = |v: f64| (0.0..=1.0).contains(&v);
        let is_length = |v: f64| v > 0.0 && v.is_finite();
        let fits = self.min_opacity.is_none_or(is_share)
            && self.drop_far.is_none_or(is_length)
            && self.max_size.is_none_or(is_length)
            && self.shrink.is_none_or(|v| is_share(v) && v > 0.0)
            && self
                .within_box
                .is_none_or(|b| b.iter().all(|v| v.is_finite()) && (0..3).all(|k| b[k] < b[k + 3]))
            && self.sphere.is_none_or(|[x, y, z, r]| [x, y, z].iter().all(|v| v.is_finite()) && is_length(r));
        fits.then_some(self)
    }
}

/// A command for the training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Pause after the current step.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Write a checkpoint.
    Save,
    /// Write `splats.ply` with the current splats.
    Export,
    /// Save a checkpoint and end.
    Stop,
}

/// Content of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameContent {
    /// Colours, as `gausset render` writes them.
    #[default]
    Color,
    /// Alpha as a grey image.
    Alpha,
    /// Expected depth in false colours.
    Depth,
    /// Splats per pixel in false colours.
    Count,
    /// Surface normals of the depth map, as colours.
    Normals,
    /// What the training views know about each pixel: confirmed, seen or invented.
    Confidence,
    /// Difference from the photograph of a camera.
    Error,
    /// No frame: the depth at one point of the image, as text.
    Probe,
}

/// Request of a view.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ViewRequest {
    /// Id of the request; returned with the frame.
    pub id: u32,
    /// Width and height in px, focal lengths and principal point.
    pub camera: [f64; 6],
    /// Rows of `camera_from_world`, 3x4, in the axes of the saved splats.
    pub pose: [f64; 12],
    /// What the frame shows.
    pub what: FrameContent,
    /// Whether more requests follow; if so, the frame may be smaller, and comes sooner.
    pub moving: bool,
    /// Whether the frame must be lossless and of full size.
    pub exact: bool,
    /// Index of the camera whose photograph is compared with.
    pub against: Option<usize>,
    /// Gain of an error map.
    pub gain: Option<f32>,
    /// Point of a probe, as fractions of width and height.
    pub at: Option<[f64; 2]>,
    /// SH degree to render.
    pub sh_degree: Option<u8>,
    /// Near plane, scene units.
    pub near: Option<f64>,
    /// Colour behind the splats, 0..1; `None` = that of the scene.
    pub background: Option<[f32; 3]>,
    /// Whether it is a separate image that does not replace the page's view.
    pub aside: bool,
    /// Id of a frame that was shown.
    pub ack: Option<u32>,
}

/// Why a view cannot be rendered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ViewError {
    /// The camera is invalid.
    #[error("view: {0}")]
    Camera(#[from] CameraError),
    /// The pose is invalid.
    #[error("view: {0}")]
    Pose(#[from] gausset_core::pose::PoseError),
    /// Too many pixels.
    #[error("view: {0} pixels (expected at most {MAX_FRAME_PIXELS})")]
    Size(u64),
}

impl ViewRequest {
    /// Camera and pose, checked.
    ///
    /// # Errors
    /// An invalid camera or pose, or too many pixels.
    pub fn view(&self) -> Result<(Camera, Pose), ViewError> {
        let [width, height, fx, fy, cx, cy] = self.camera;
        // `as` saturates at the range of sides, and maps NaN to 0.
        let camera = Camera::new(width as u32, height as u32, fx, fy, cx, cy)?;
        if camera.pixels() as u64 > MAX_FRAME_PIXELS {
            return Err(ViewError::Size(camera.pixels() as u64));
        }
        let row = |k: usize| [self.pose[4 * k], self.pose[4 * k + 1], self.pose[4 * k + 2]];
        let translation = [3, 7, 11].map(|k| self.pose[k]);
        Ok((camera, Pose::from_matrix([row(0), row(1), row(2)], translation)?))
    }
}

/// A pose as 12 numbers, rows of 3x4.
#[must_use]
pub fn pose_rows(pose: &Pose) -> [f64; 12] {
    std::array::from_fn(|k| if k % 4 == 3 { pose.translation[k / 4] } else { pose.rotation[k / 4][k % 4] })
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameHeader {
    /// 1 for a frame, 2 for a photograph.
    pub kind: u8,
    /// See the table above.
    pub flags: u16,
    /// Id of the request.
    pub id: u32,
    /// Width and height in px.
    pub size: [u32; 2],
    /// 0 JPEG, 2 PNG.
    pub codec: u8,
    /// Milliseconds of rendering, of encoding, of waiting.
    pub times: [f32; 3],
    /// See the table above.
    pub range: [f32; 2],
    /// Finished steps of the training when it was rendered.
    pub step: u64,
}

impl FrameHeader {
    /// The header as bytes, to which an image can be appended.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind, VERSION as u8];
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.size.iter().flat_map(|&side| (side as u16).to_le_bytes()));
        bytes.extend([self.codec, 0, 0, 0]);
        bytes.extend(self.times.iter().chain(&self.range).flat_map(|value| value.to_le_bytes()));
        bytes.extend(self.step.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_unknown_words_are_no_error() {
        let read = |text: &str| serde_json::from_str::<PageMessage>(text).ok();
        assert_eq!(read(r#"{"t":"ack","id":7}"#), Some(PageMessage::Ack { id: 7 }));
        assert_eq!(read(r#"{"t":"teleport","id":7}"#), Some(PageMessage::Unknown));
        assert_eq!(
            read(r#"{"t":"filter","filter":{"min_opacity":0.5}}"#),
            Some(PageMessage::Filter {
                filter: SplatFilter { min_opacity: Some(0.5), ..SplatFilter::default() }
            })
        );
        let filter = |min_opacity, drop_far, sphere| {
            SplatFilter { min_opacity, drop_far, sphere, ..SplatFilter::default() }.checked()
        };
        let cropped =
            |within_box| SplatFilter { within_box: Some(within_box), ..SplatFilter::default() }.checked();
        assert!(cropped([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]).is_some());
        assert_eq!(cropped([-1.0, 1.0, -1.0, 1.0, 1.0, 1.0]), None);
        assert_eq!(cropped([f64::NEG_INFINITY, -1.0, -1.0, 1.0, 1.0, 1.0]), None);
        assert_eq!(SplatFilter { max_size: Some(0.0), ..SplatFilter::default() }.checked(), None);
        assert!(filter(Some(0.5), Some(3.0), Some([0.0, -1.0, 2.0, 1.0])).is_some());
        assert_eq!(filter(Some(1.5), None, None), None);
        assert_eq!(filter(None, Some(f64::NAN), None), None);
        assert_eq!(filter(None, None, Some([0.0, 0.0, f64::INFINITY, 1.0])), None);
        assert_eq!(filter(None, None, Some([0.0, 0.0, 0.0, -1.0])), None);
        assert_eq!(
            read(r#"{"t":"command","what":"pause"}"#),
            Some(PageMessage::Command { what: Command::Pause })
        );
        assert!(
            read(r#"{"t":"command","what":"rm"}"#).is_none() && read("{").is_none() && read("[]").is_none()
        );
    }

    #[test]
    fn views_that_are_none_are_refused() {
        let good = ViewRequest {
            camera: [64.0, 48.0, 50.0, 50.0, 32.0, 24.0],
            pose: pose_rows(&Pose::IDENTITY),
            ..ViewRequest::default()
        };
        assert_eq!(good.view().unwrap().1, Pose::IDENTITY);
        let with = |change: &dyn Fn(&mut ViewRequest)| {
            let mut view = good.clone();
            change(&mut view);
            view.view().map(|_| ()).unwrap_err().to_string()
        };
        assert!(with(&|view| view.camera[0] = 0.0).contains("image size is 0x48"));
        assert!(with(&|view| view.camera[0] = f64::NAN).contains("image size"));
        assert!(with(&|view| view.camera[..2].fill(30_000.0)).contains("pixels (expected at most"));
        assert!(with(&|view| view.camera[2] = -1.0).contains("focal length"));
        assert!(with(&|view| view.pose[0] = f64::INFINITY).contains("not finite"));
        assert!(with(&|view| view.pose.fill(0.0)).contains("rotation"));
    }

    #[test]
    fn a_head_is_as_long_as_the_page_expects() {
        let head =
            FrameHeader { kind: 1, id: 0x0102_0304, size: [516, 344], step: 9, ..FrameHeader::default() };
        let bytes = head.bytes();
        assert_eq!(bytes.len(), FRAME_HEADER_BYTES);
        assert_eq!((&bytes[4..8], &bytes[8..12], bytes[36]), (&[4, 3, 2, 1][..], &[4, 2, 88, 1][..], 9));
    }
}
