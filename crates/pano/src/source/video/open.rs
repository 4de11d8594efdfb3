//! A video file and the selection of its frames.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_jpeg::plane::{ColourModel, FrameShape};

use super::error::{VideoError, VideoProblem};
use super::probe::{ProbeOutput, ProbeStream, checked_container, max_pixels_option, parse_ratio, probe};
use super::tone_mapping::{HdrCurve, has_tone_mapping};
use crate::source::colour_conversion::ColourConversion;

/// Longest video, seconds.
const MAX_SECONDS: f64 = 24.0 * 3600.0;
/// Frame rate assumed for files that do not specify one, 1/s.
const DEFAULT_RATE: f64 = 30.0;
/// Largest number of selected frames.
const MAX_FRAMES: f64 = 1e6;

impl FrameArrangement {
    /// Whether frames combine two streams.
    pub(crate) const fn has_two_streams(self) -> bool {
        matches!(self, Self::Stacked | Self::SideBySide)
    }

    /// Size of a frame, from the size of the first stream.
    pub(crate) fn frame_size(self, [width, height]: [u32; 2]) -> [u32; 2] {
        match self {
            Self::Whole => [width, height],
            Self::CropToEven => [width & !1, height & !1],
            Self::UpperHalf => [width, height / 2],
            Self::Stacked => [width, 2 * height],
            Self::SideBySide => [2 * width, height],
        }
    }
}

/// Checks that frames of this size can be read.
pub(crate) fn check_size(size: [u32; 2], limits: [u32; 2]) -> Result<(), VideoProblem> {
    if size[0] > limits[0] || size[1] > limits[1] {
        return Err(VideoProblem::TooLarge { size, limits });
    }
    if size.iter().any(|&side| side % 2 == 1 || side < 16) {
        return Err(VideoProblem::InvalidSides(size));
    }
    Ok(())
}

/// A selection of frames.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameSelection {
    /// Frames per second; `None` = all.
    pub fps: Option<f64>,
    /// Start of the range, seconds.
    pub start: f64,
    /// End of the range, seconds; `None` = end of the video.
    pub end: Option<f64>,
    /// The sharpest of each group of this many frames is selected. 1 = all frames; 0 = the groups are all stored frames
    /// within a period of `fps`.
    pub sharpest_of: u32,
}

impl Default for FrameSelection {
    /// Selects all frames.
    fn default() -> Self {
        Self { fps: None, start: 0.0, end: None, sharpest_of: 1 }
    }
}

/// How decoded images become frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameArrangement {
    /// Unchanged.
    Whole,
    /// Without an odd last column or row, because 4:2:0 needs even sizes.
    CropToEven,
    /// The upper half only.
    UpperHalf,
    /// Two streams of one size, the first above the second.
    Stacked,
    /// Two streams of one size, the first to the left of the second.
    SideBySide,
}

/// An opened video.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// The video file.
    pub path: PathBuf,
    /// The file with the second of two streams, if it is a separate file.
    pub second: Option<PathBuf>,
    /// Width and height of a frame, px.
    pub size: [u32; 2],
    /// Upper bound of the number of selected frames: one more than computed, because rates and durations are rounded.
    pub frames: usize,
    /// Number of selection periods; one frame is selected per period.
    pub(crate) periods: usize,
    /// Frames from ffmpeg per period; may be fractional.
    frames_per_period: f64,
    /// Frame rate requested from ffmpeg, if it differs from the file's: `5/2`.
    pub(super) rate: Option<String>,
    /// Average frame rate of the file, 1/s.
    pub(super) stored_rate: f64,
    /// Indices of explicitly selected frames, counted from `choice.start`, ascending; `None` = selected by `choice`.
    pub(super) selected: Option<Arc<[usize]>>,
    /// ffmpeg's name of the container format.
    pub(super) container: &'static str,
    /// ffmpeg's limit on the pixels of a frame.
    pub(super) max_pixels: String,
    /// How decoded images become frames.
    pub(crate) arrangement: FrameArrangement,
    /// The selection of frames.
    pub choice: FrameSelection,
    /// Longest time without output from ffmpeg.
    pub output_timeout: Duration,
    /// Colour conversion to JPEG samples; `None` = done by ffmpeg.
    pub colour_conversion: Option<ColourConversion>,
    /// Transfer curve of HDR video.
    hdr_curve: Option<HdrCurve>,
    /// Whether ffmpeg converts HDR to SDR.
    is_tone_mapped: bool,
}

impl Video {
    /// Opens a video file.
    ///
    /// # Errors
    /// ffmpeg is missing, or the file is not a video, too large or too long.
    pub fn open(
        path: &Path,
        choice: FrameSelection,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, VideoError> {
        Self::open_with(path, None, choice, limits, silence, stop, |streams| {
            if is_dual_fisheye_file(path) {
                return Err(VideoProblem::TwoCircles);
            }
            check_size(FrameArrangement::CropToEven.frame_size(streams[0]), limits)?;
            Ok(FrameArrangement::CropToEven)
        })
    }

    /// Like [`Self::open`]; `arrange` decides from the stream sizes how images become frames. The second stream may be
    /// in the file `second`.
    pub(crate) fn open_with(
        path: &Path,
        second: Option<&Path>,
        choice: FrameSelection,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
        arrange: impl Fn(&[[u32; 2]]) -> Result<FrameArrangement, VideoProblem>,
    ) -> Result<Self, VideoError> {
        let look = || -> Result<Self, VideoProblem> {
            let container = checked_container(path)?;
            let probe = probe(path, container, limits, silence, stop)?;
            let first = probe.streams.first().ok_or(VideoProblem::MissingInfo("has no video stream"))?;
            let mut sizes: Vec<[u32; 2]> =
                probe.streams.iter().map_while(ProbeStream::display_size).collect();
            if sizes.is_empty() {
                return Err(VideoProblem::MissingInfo("has no frame size"));
            }
            let second = second.filter(|_| sizes.len() == 1);
            let other = match second {
                Some(second) => Some(probe_second(second, limits, silence, stop)?),
                None => None,
            };
            let other = other.as_ref();
            sizes.extend(other.and_then(|probe| probe.streams.first()?.display_size()));
            let arrangement = arrange(&sizes)?;
            let second = second.filter(|_| arrangement.has_two_streams());
            let size = arrangement.frame_size(sizes[0]);
            let mut duration =
                probe.stream_duration(0).ok_or(VideoProblem::MissingInfo("has no duration"))?;
            if arrangement.has_two_streams() {
                let seconds =
                    other.map_or_else(|| probe.stream_duration(1), |other| other.stream_duration(0));
                duration = common_duration(duration, seconds.unwrap_or(duration), choice.end)?;
            }
            if duration > MAX_SECONDS {
                return Err(VideoProblem::TooLong(duration, MAX_SECONDS));
            }
            let (rate, frames_a_second, frames_a_period) =
                output_rate(&choice, first.avg_frame_rate.as_deref());
            let stored_rate = first.avg_frame_rate.as_deref().and_then(parse_ratio).unwrap_or(DEFAULT_RATE);
            let seconds = choice.end.unwrap_or(duration).min(duration) - choice.start;
            // A thousandth of a frame is a rounding error.
            let frames = (seconds * frames_a_second / frames_a_period - 1e-3).ceil();
            if frames.is_nan() || frames < 1.0 {
                return Err(VideoProblem::EmptySelection(duration));
            }
            if frames > MAX_FRAMES {
                return Err(VideoProblem::TooManyFrames(frames, MAX_FRAMES));
            }
            let periods = frames as usize;
            let (path, max_pixels, colours) =
                (path.to_owned(), max_pixels_option(limits), first.colour_conversion());
            let hdr_curve = first.hdr_curve();
            let is_tone_mapped = hdr_curve.is_some() && has_tone_mapping(stop);
            Ok(Self {
                path,
                second: second.map(Path::to_owned),
                size,
                frames: periods + 1,
                periods,
                frames_per_period: frames_a_period,
                rate,
                stored_rate,
                selected: None,
                container,
                max_pixels,
                arrangement,
                choice,
                output_timeout: silence,
                colour_conversion: colours,
                hdr_curve,
                is_tone_mapped,
            })
        };
        look().map_err(|problem| VideoError::new(path, problem))
    }

    /// A warning about the colours of the frames, one line.
    #[must_use]
    pub fn colour_warning(&self) -> Option<String> {
        self.hdr_curve.filter(|_| !self.is_tone_mapped).map(HdrCurve::warning)
    }

    /// Whether its frames are HDR that is converted to SDR.
    pub(crate) const fn is_tone_mapped(&self) -> bool {
        self.is_tone_mapped
    }

    /// Filters that convert HDR frames to SDR, if they are needed.
    pub(super) fn tone_mapping(&self) -> Option<String> {
        self.hdr_curve.filter(|_| self.is_tone_mapped).map(HdrCurve::filters)
    }

    /// Selects frames explicitly: ascending indices of the stored frames between start and end.
    #[must_use]
    pub fn with_selected(mut self, picks: &[usize]) -> Self {
        self.frames = picks.len();
        self.selected = Some(picks.into());
        self
    }

    /// Indices of explicitly selected frames, if any.
    #[must_use]
    pub fn selected(&self) -> Option<&[usize]> {
        self.selected.as_deref()
    }

    /// Limits the selection to at most `most` frames, evenly spaced. Explicitly selected frames are not changed.
    #[must_use]
    pub fn limited_to(mut self, most: usize) -> Self {
        if self.selected.is_some() {
            return self;
        }
        self.frames = most.max(1).min(self.periods + 1);
        self
    }

    /// Range of ffmpeg's output frames from which frame `index` is selected.
    pub(super) fn candidate_range(&self, index: usize) -> Range<usize> {
        if let Some(picks) = &self.selected {
            return picks.get(index).map_or(usize::MAX..usize::MAX, |&pick| pick..pick + 1);
        }
        let period = if self.frames < self.periods { index * self.periods / self.frames } else { index };
        let first = |period: usize| (period as f64 * self.frames_per_period - 1e-6).ceil().max(0.0) as usize;
        first(period)..first(period + 1)
    }

    /// Plane sizes of its frames: 4:2:0.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        let [w, h] = self.size;
        FrameShape {
            colour: ColourModel::YCbCr,
            sizes: vec![[w, h], [w / 2, h / 2], [w / 2, h / 2]],
            has_alpha: false,
        }
    }
}

/// Whether the file extension is that of raw footage with two fisheye circles.
pub(crate) fn is_dual_fisheye_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("insv"))
}

/// Probes the second file of a pair.
fn probe_second(
    path: &Path,
    limits: [u32; 2],
    silence: Duration,
    stop: &AtomicBool,
) -> Result<ProbeOutput, VideoProblem> {
    let look = || probe(path, checked_container(path)?, limits, silence, stop);
    look().map_err(|problem| VideoProblem::SecondFile { path: path.to_owned(), problem: Box::new(problem) })
}

/// Largest difference in duration of two streams of one recording, seconds: some frames.
const MAX_DURATION_DIFFERENCE: f64 = 0.5;

/// Duration that both streams cover. A larger difference is accepted if `end` is within the shorter one.
fn common_duration(first: f64, second: f64, end: Option<f64>) -> Result<f64, VideoProblem> {
    let shorter = first.min(second);
    if (first - second).abs() > MAX_DURATION_DIFFERENCE && end.is_none_or(|end| end > shorter) {
        return Err(VideoProblem::DurationMismatch([first, second]));
    }
    Ok(shorter)
}

/// The rate requested from ffmpeg (`None` = that of the file), the frames per second from ffmpeg, and the number of
/// them per period. `stored` is the rate of the file.
fn output_rate(choice: &FrameSelection, stored: Option<&str>) -> (Option<String>, f64, f64) {
    // The file's rate in its own notation (30000/1001), to avoid rounding.
    let (stored_text, stored_rate) = match stored.and_then(|t| Some((t, parse_ratio(t)?))) {
        Some((text, rate)) => (text.to_owned(), rate),
        None => (format!("{DEFAULT_RATE}/1"), DEFAULT_RATE),
    };
    match (choice.sharpest_of, choice.fps) {
        // All frames are read; the sharpest of each period is selected.
        (0, fps) => (Some(stored_text), stored_rate, (stored_rate / fps.unwrap_or(stored_rate)).max(1.0)),
        (window, Some(fps)) => (Some(fps.to_string()), fps, f64::from(window)),
        (window, None) => (None, stored_rate, f64::from(window)),
    }
}
