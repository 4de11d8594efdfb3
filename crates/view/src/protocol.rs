//! What pages and the server say to each other.
//!
//! Text messages are JSON with a word under `t`. The first one of a page is `hello` with the version and the token; the
//! answer is a `hello` that tells what there is to see. Frames are binary, little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind: 1 a frame, 2 a photograph |
//! | 1 | [`VERSION`] |
//! | 2..4 | flags: 1 exact, 2 drawn again because the splats have changed |
//! | 4..8 | id of the request |
//! | 8..12 | width, height (u16) |
//! | 12 | codec: 0 JPEG, 2 PNG |
//! | 13..16 | zero |
//! | 16..28 | milliseconds of drawing, of encoding, waited before (f32) |
//! | 28..36 | smallest and largest depth or count of a coloured map, or PSNR in dB and 0 of an error map (f32) |
//! | 36..44 | finished steps (u64) |
//! | 44.. | the picture |

use gausset_core::camera::CameraError;
use gausset_core::{Camera, Pose};
use serde::{Deserialize, Serialize};

/// Version of all this.
pub const VERSION: u32 = 1;
/// Largest message from a page in bytes.
pub const MAX_MESSAGE: usize = 64 << 10;
/// Most messages from a page in a second.
pub const MAX_MESSAGES_PER_S: u32 = 100;
/// Most pixels of a frame.
pub const MAX_FRAME_PIXELS: u64 = 4096 * 2304;
/// Bytes before the picture of a frame.
pub const FRAME_HEAD: usize = 44;

/// A message from a page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum FromPage {
    /// The first one.
    Hello {
        /// Version of the page.
        version: u32,
        /// The secret.
        token: String,
    },
    /// A view that the page wants to see; replaces the one before.
    View(Box<ViewRequest>),
    /// The photograph of a camera of the dataset.
    Photo {
        /// Comes back with the photograph.
        id: u32,
        /// Number in the list of cameras.
        camera: usize,
        /// Longer side in px, at most.
        side: u32,
    },
    /// A frame was shown.
    Ack {
        /// Its id.
        id: u32,
    },
    /// Nobody can see the page, or somebody can again.
    Hidden {
        /// Whether nobody can.
        hidden: bool,
    },
    /// The page draws by itself and asks for newer splats. They are told with `{"t":"snapshot","number":…,"bytes":…}`, or with
    /// a `line` that says why there are none, and lie at `/api/snapshot`.
    Snapshot {
        /// Number of those that it has; 0 for none.
        have: u64,
        /// Whether what it saw at rest is no longer looked at.
        moving: bool,
    },
    /// Which splats are shown, to every page.
    Filter {
        /// Those that pass.
        filter: Filter,
    },
    /// Something that the training is asked to do.
    Command {
        /// What.
        what: Command,
    },
    /// Words of another version.
    #[serde(other)]
    Unknown,
}

/// Which splats of a file are shown: the filters of `gausset convert`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Filter {
    /// Splats of less opacity are left out, 0 to 1.
    pub min_opacity: Option<f64>,
    /// Splats farther from the middle than so many median distances are left out; those of a sky stay.
    pub drop_far: Option<f64>,
    /// Splats whose centre lies outside this ball (centre, radius; axes of the saved splats) are left out.
    pub sphere: Option<[f64; 4]>,
    /// Splats whose centre lies outside this box (smallest, then largest x, y, z; the same axes) are left out.
    #[serde(rename = "box")]
    pub within_box: Option<[f64; 6]>,
    /// Splats with a larger standard deviation along any axis are left out, scene units.
    pub max_size: Option<f64>,
    /// Factor of the standard deviations of all splats that are shown, above 0 and at most 1: small ones let look into a
    /// cloud.
    pub shrink: Option<f64>,
}

impl Filter {
    /// The filter, if its numbers mean something.
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

/// What a training can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Do no step.
    Pause,
    /// Go on.
    Resume,
    /// Write a checkpoint.
    Save,
    /// Write `splats.ply`.
    Export,
    /// Save and end.
    Stop,
}

/// What a frame shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Colours, as `gausset render` gives them.
    #[default]
    Color,
    /// Coverage.
    Alpha,
    /// Expected depth in false colours.
    Depth,
    /// Splats per pixel in false colours.
    Count,
    /// Directions of the surface that the depths are of, as colours.
    Normals,
    /// Difference to the photograph of a camera.
    Error,
    /// No frame: the depth at one point of the picture, as text.
    Probe,
}

/// A view that a page wants to see.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ViewRequest {
    /// Comes back with the frame.
    pub id: u32,
    /// Width and height in px, focal lengths and principal point.
    pub camera: [f64; 6],
    /// Rows of `camera_from_world`, 3x4, in the axes of the saved splats.
    pub pose: [f64; 12],
    /// What to show.
    pub what: What,
    /// Whether more are coming: then the frame may be smaller, and comes sooner.
    pub moving: bool,
    /// Whether the bytes are to be exact.
    pub exact: bool,
    /// Camera of the dataset whose photograph is compared with.
    pub against: Option<usize>,
    /// Factor of an error map.
    pub gain: Option<f32>,
    /// Point of a probe, as shares of width and height.
    pub at: Option<[f64; 2]>,
    /// SH degree in use.
    pub sh_degree: Option<u8>,
    /// Splats nearer than this are not drawn, scene units.
    pub near: Option<f64>,
    /// Colour behind the splats.
    pub background: Option<[f32; 3]>,
    /// Whether it is a picture of its own, and not what the page shows from now on.
    pub aside: bool,
    /// Id of a frame that was shown.
    pub ack: Option<u32>,
}

/// Why a view cannot be drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ViewError {
    /// The intrinsics are none.
    #[error("view: {0}")]
    Camera(#[from] CameraError),
    /// The pose is none.
    #[error("view: {0}")]
    Pose(#[from] gausset_core::pose::PoseError),
    /// Too many pixels.
    #[error("view: {0} pixels are too many (expected at most {MAX_FRAME_PIXELS})")]
    Size(u64),
}

impl ViewRequest {
    /// Camera and pose, checked.
    ///
    /// # Errors
    /// Numbers that are no camera or no pose; a frame that is too large.
    pub fn view(&self) -> Result<(Camera, Pose), ViewError> {
        let [width, height, fx, fy, cx, cy] = self.camera;
        // Beyond the range of sides either way: `as` keeps to it, and NaN becomes 0.
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
pub fn rows(pose: &Pose) -> [f64; 12] {
    std::array::from_fn(|k| if k % 4 == 3 { pose.translation[k / 4] } else { pose.rotation[k / 4][k % 4] })
}

/// What stands before the picture of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameHead {
    /// 1 a frame, 2 a photograph.
    pub kind: u8,
    /// See the table above.
    pub flags: u16,
    /// Of the request.
    pub id: u32,
    /// Width and height in px.
    pub size: [u32; 2],
    /// 0 JPEG, 2 PNG.
    pub codec: u8,
    /// Milliseconds of drawing, of encoding, waited before.
    pub times: [f32; 3],
    /// See the table above.
    pub range: [f32; 2],
    /// Finished steps.
    pub step: u64,
}

impl FrameHead {
    /// The head as bytes, in front of which a picture can be put.
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
        let read = |text: &str| serde_json::from_str::<FromPage>(text).ok();
        assert_eq!(read(r#"{"t":"ack","id":7}"#), Some(FromPage::Ack { id: 7 }));
        assert_eq!(read(r#"{"t":"teleport","id":7}"#), Some(FromPage::Unknown));
        assert_eq!(
            read(r#"{"t":"filter","filter":{"min_opacity":0.5}}"#),
            Some(FromPage::Filter { filter: Filter { min_opacity: Some(0.5), ..Filter::default() } })
        );
        let filter = |min_opacity, drop_far, sphere| {
            Filter { min_opacity, drop_far, sphere, ..Filter::default() }.checked()
        };
        let cropped = |within_box| Filter { within_box: Some(within_box), ..Filter::default() }.checked();
        assert!(cropped([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]).is_some());
        assert_eq!(cropped([-1.0, 1.0, -1.0, 1.0, 1.0, 1.0]), None);
        assert_eq!(cropped([f64::NEG_INFINITY, -1.0, -1.0, 1.0, 1.0, 1.0]), None);
        assert_eq!(Filter { max_size: Some(0.0), ..Filter::default() }.checked(), None);
        assert!(filter(Some(0.5), Some(3.0), Some([0.0, -1.0, 2.0, 1.0])).is_some());
        assert_eq!(filter(Some(1.5), None, None), None);
        assert_eq!(filter(None, Some(f64::NAN), None), None);
        assert_eq!(filter(None, None, Some([0.0, 0.0, f64::INFINITY, 1.0])), None);
        assert_eq!(filter(None, None, Some([0.0, 0.0, 0.0, -1.0])), None);
        assert_eq!(
            read(r#"{"t":"command","what":"pause"}"#),
            Some(FromPage::Command { what: Command::Pause })
        );
        assert!(
            read(r#"{"t":"command","what":"rm"}"#).is_none() && read("{").is_none() && read("[]").is_none()
        );
    }

    #[test]
    fn views_that_are_none_are_refused() {
        let good = ViewRequest {
            camera: [64.0, 48.0, 50.0, 50.0, 32.0, 24.0],
            pose: rows(&Pose::IDENTITY),
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
        assert!(with(&|view| view.camera[..2].fill(30_000.0)).contains("too many"));
        assert!(with(&|view| view.camera[2] = -1.0).contains("focal length"));
        assert!(with(&|view| view.pose[0] = f64::INFINITY).contains("not finite"));
        assert!(with(&|view| view.pose.fill(0.0)).contains("rotation"));
    }

    #[test]
    fn a_head_is_as_long_as_the_page_expects() {
        let head = FrameHead { kind: 1, id: 0x0102_0304, size: [516, 344], step: 9, ..FrameHead::default() };
        let bytes = head.bytes();
        assert_eq!(bytes.len(), FRAME_HEAD);
        assert_eq!((&bytes[4..8], &bytes[8..12], bytes[36]), (&[4, 3, 2, 1][..], &[4, 2, 88, 1][..], 9));
    }
}
