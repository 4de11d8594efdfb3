//! A video, and which of its frames are taken.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::error::{VideoError, VideoProblem};
use super::probe::{Probe, ProbeStream, container, max_pixels, probe, ratio};
use crate::colours::Colours;
use crate::plane::{Colour, FrameShape};

/// Longest video, seconds.
const MAX_SECONDS: f64 = 24.0 * 3600.0;
/// Frames a second of a file that does not say.
const USUAL_RATE: f64 = 30.0;
/// Most frames that are kept.
const MAX_FRAMES: f64 = 1e6;

impl Arrangement {
    /// Whether its pictures come from two streams.
    pub(crate) const fn is_of_two(self) -> bool {
        matches!(self, Self::Stacked | Self::Beside)
    }

    /// Size of a frame, by that of the first stream.
    pub(crate) fn size(self, [width, height]: [u32; 2]) -> [u32; 2] {
        match self {
            Self::Whole => [width, height],
            Self::Even => [width & !1, height & !1],
            Self::UpperHalf => [width, height / 2],
            Self::Stacked => [width, 2 * height],
            Self::Beside => [2 * width, height],
        }
    }
}

/// Whether frames of this size can be read.
pub(crate) fn check_size(size: [u32; 2], limits: [u32; 2]) -> Result<(), VideoProblem> {
    if size[0] > limits[0] || size[1] > limits[1] {
        return Err(VideoProblem::Large { size, limits });
    }
    if size.iter().any(|&side| side % 2 == 1 || side < 16) {
        return Err(VideoProblem::Sides(size));
    }
    Ok(())
}

/// Which frames of a video.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Frames per second; `None` = all.
    pub fps: Option<f64>,
    /// First second.
    pub start: f64,
    /// Last second.
    pub end: Option<f64>,
    /// Of so many neighbouring frames the sharpest; 1 = all; 0 = of all frames of the file in a period of `fps`.
    pub sharpest_of: u32,
}

impl Default for Choice {
    /// All frames.
    fn default() -> Self {
        Self { fps: None, start: 0.0, end: None, sharpest_of: 1 }
    }
}

/// What becomes of the pictures of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// They are taken as they are.
    Whole,
    /// An odd last column or row is cut off: planes of 4:2:0 have even sides.
    Even,
    /// The upper half is taken.
    UpperHalf,
    /// Those of two streams of one size are taken, the first above the second.
    Stacked,
    /// The same, the first to the left of the second.
    Beside,
}

/// A video that can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// The video file.
    pub path: PathBuf,
    /// The file with the second of two streams, if it is another one.
    pub second: Option<PathBuf>,
    /// Width and height of a frame of planes.
    pub size: [u32; 2],
    /// Frames that are taken: of those that are to be expected one more, because rates and durations are rounded.
    pub frames: usize,
    /// Periods of the film, of each of which a frame could be taken.
    pub(crate) periods: usize,
    /// Frames out of ffmpeg in a period; a fraction where the rates do not divide.
    frames_a_period: f64,
    /// Frames a second that ffmpeg is asked for, if not those of the file: `5/2`.
    pub(super) rate: Option<String>,
    /// Frames a second of the file, on average.
    pub(super) stored_rate: f64,
    /// Numbers of the frames that are taken, counted from the first of the choice, ascending; `None` = by the choice.
    pub(super) picks: Option<Arc<[usize]>>,
    /// What ffmpeg calls the kind of file.
    pub(super) container: &'static str,
    /// Most pixels of a frame, for ffmpeg.
    pub(super) max_pixels: String,
    /// What becomes of its pictures.
    pub(crate) arrangement: Arrangement,
    /// Which frames.
    pub choice: Choice,
    /// How long ffmpeg may deliver nothing.
    pub silence: Duration,
    /// What turns its samples into those of a JPEG; `None`: ffmpeg does that.
    pub colours: Option<Colours>,
}

impl Video {
    /// Looks at a video file.
    ///
    /// # Errors
    /// ffmpeg is missing, the file is no video, is too large or too long.
    pub fn open(
        path: &Path,
        choice: Choice,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, VideoError> {
        Self::arranged(path, None, choice, limits, silence, stop, |streams| {
            if is_of_two_circles(path) {
                return Err(VideoProblem::TwoCircles);
            }
            check_size(Arrangement::Even.size(streams[0]), limits)?;
            Ok(Arrangement::Even)
        })
    }

    /// [`Self::open`], where `arrange` decides by the sizes of the streams what becomes of the pictures. A file of one
    /// stream may have its second in the file `second`.
    pub(crate) fn arranged(
        path: &Path,
        second: Option<&Path>,
        choice: Choice,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
        arrange: impl Fn(&[[u32; 2]]) -> Result<Arrangement, VideoProblem>,
    ) -> Result<Self, VideoError> {
        let look = || -> Result<Self, VideoProblem> {
            let container = container(path)?;
            let probe = probe(path, container, limits, silence, stop)?;
            let first = probe.streams.first().ok_or(VideoProblem::Facts("has no pictures"))?;
            let mut sizes: Vec<[u32; 2]> = probe.streams.iter().map_while(ProbeStream::shown_size).collect();
            if sizes.is_empty() {
                return Err(VideoProblem::Facts("has no size"));
            }
            let second = second.filter(|_| sizes.len() == 1);
            let other = match second {
                Some(second) => Some(probe_of(second, limits, silence, stop)?),
                None => None,
            };
            let other = other.as_ref();
            sizes.extend(other.and_then(|probe| probe.streams.first()?.shown_size()));
            let arrangement = arrange(&sizes)?;
            let second = second.filter(|_| arrangement.is_of_two());
            let size = arrangement.size(sizes[0]);
            let mut duration = probe.seconds(0).ok_or(VideoProblem::Facts("has no duration"))?;
            if arrangement.is_of_two() {
                let seconds = other.map_or_else(|| probe.seconds(1), |other| other.seconds(0));
                duration = common_duration(duration, seconds.unwrap_or(duration), choice.end)?;
            }
            if duration > MAX_SECONDS {
                return Err(VideoProblem::Long(duration, MAX_SECONDS));
            }
            let (rate, frames_a_second, frames_a_period) = pace(&choice, first.avg_frame_rate.as_deref());
            let stored_rate = first.avg_frame_rate.as_deref().and_then(ratio).unwrap_or(USUAL_RATE);
            let seconds = choice.end.unwrap_or(duration).min(duration) - choice.start;
            // A thousandth of a frame is rounding.
            let frames = (seconds * frames_a_second / frames_a_period - 1e-3).ceil();
            if frames.is_nan() || frames < 1.0 {
                return Err(VideoProblem::Nothing(duration));
            }
            if frames > MAX_FRAMES {
                return Err(VideoProblem::Frames(frames, MAX_FRAMES));
            }
            let periods = frames as usize;
            let (path, max_pixels, colours) = (path.to_owned(), max_pixels(limits), first.colours());
            Ok(Self {
                path,
                second: second.map(Path::to_owned),
                size,
                frames: periods + 1,
                periods,
                frames_a_period,
                rate,
                stored_rate,
                picks: None,
                container,
                max_pixels,
                arrangement,
                choice,
                silence,
                colours,
            })
        };
        look().map_err(|problem| VideoError::new(path, problem))
    }

    /// The same video with these frames: numbers of those that the file holds between start and end, ascending.
    #[must_use]
    pub fn picked(mut self, picks: &[usize]) -> Self {
        self.frames = picks.len();
        self.picks = Some(picks.into());
        self
    }

    /// Numbers of the frames that are taken, if they were chosen one by one.
    #[must_use]
    pub fn picks(&self) -> Option<&[usize]> {
        self.picks.as_deref()
    }

    /// The same video with at most so many frames, spread evenly over the film; frames that were chosen one by one stay.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        if self.picks.is_some() {
            return self;
        }
        self.frames = most.max(1).min(self.periods + 1);
        self
    }

    /// Which frames out of ffmpeg frame `index` is chosen from.
    pub(super) fn window(&self, index: usize) -> Range<usize> {
        if let Some(picks) = &self.picks {
            return picks.get(index).map_or(usize::MAX..usize::MAX, |&pick| pick..pick + 1);
        }
        let period = if self.frames < self.periods { index * self.periods / self.frames } else { index };
        let first = |period: usize| (period as f64 * self.frames_a_period - 1e-6).ceil().max(0.0) as usize;
        first(period)..first(period + 1)
    }

    /// Shape of its frames: 4:2:0.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        let [w, h] = self.size;
        FrameShape {
            colour: Colour::YCbCr,
            sizes: vec![[w, h], [w / 2, h / 2], [w / 2, h / 2]],
            has_alpha: false,
        }
    }
}

/// Whether a file is of a camera with two fisheye lenses that stores what they see.
pub(crate) fn is_of_two_circles(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("insv"))
}

/// What ffprobe says of the second file of a pair.
fn probe_of(
    path: &Path,
    limits: [u32; 2],
    silence: Duration,
    stop: &AtomicBool,
) -> Result<Probe, VideoProblem> {
    let look = || probe(path, container(path)?, limits, silence, stop);
    look().map_err(|problem| VideoProblem::Second { path: path.to_owned(), problem: Box::new(problem) })
}

/// Seconds by which two streams of one take may differ: some frames.
const UNEQUAL: f64 = 0.5;

/// What both of two streams last; `end` may keep within it.
fn common_duration(first: f64, second: f64, end: Option<f64>) -> Result<f64, VideoProblem> {
    let shorter = first.min(second);
    if (first - second).abs() > UNEQUAL && end.is_none_or(|end| end > shorter) {
        return Err(VideoProblem::Lengths([first, second]));
    }
    Ok(shorter)
}

/// The rate that ffmpeg is asked for, if not that of the file; frames a second out of ffmpeg; how many of them make a
/// period. `stored` is the rate of the file.
fn pace(choice: &Choice, stored: Option<&str>) -> (Option<String>, f64, f64) {
    // The file's rate as it is written, so that nothing is rounded: 30000/1001.
    let (stored_text, stored_rate) = match stored.and_then(|t| Some((t, ratio(t)?))) {
        Some((text, rate)) => (text.to_owned(), rate),
        None => (format!("{USUAL_RATE}/1"), USUAL_RATE),
    };
    match (choice.sharpest_of, choice.fps) {
        // All frames are looked at; of each period the sharpest stays.
        (0, fps) => (Some(stored_text), stored_rate, (stored_rate / fps.unwrap_or(stored_rate)).max(1.0)),
        (window, Some(fps)) => (Some(fps.to_string()), fps, f64::from(window)),
        (window, None) => (None, stored_rate, f64::from(window)),
    }
}
