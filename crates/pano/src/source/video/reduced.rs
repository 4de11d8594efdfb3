//! All frames of a video at reduced size, and their times, for frame selection.

use std::sync::atomic::AtomicBool;

use gausset_process::{ProcessError, ProgramStream};

use super::error::{VideoError, VideoProblem};
use super::open::Video;
use super::probe::{TimeStamps, read_time_stamps};

/// Times of the frames between start and end of a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameTimes {
    /// Seconds from the start of the file, for the frames with a time stamp.
    stored: Vec<f64>,
    /// Frame rate for the frames without, 1/s.
    rate: f64,
    /// Start of the selection, seconds.
    start: f64,
    /// A warning about the time stamps, one line.
    pub warning: Option<String>,
}

impl FrameTimes {
    fn new(found: TimeStamps, rate: f64, start: f64, end: Option<f64>) -> Self {
        let TimeStamps { times, untimed, start: begin } = found;
        // ffmpeg rounds times to microseconds.
        let is_chosen = |t: &f64| *t >= start - 1e-6 && end.is_none_or(|end| *t < end - 1e-6);
        let all = times.len();
        let mut stored: Vec<f64> = times.into_iter().map(|t| t - begin).filter(is_chosen).collect();
        let same = stored.windows(2).filter(|pair| pair[1] - pair[0] < 1e-6).count();
        let mut note = None;
        if untimed > 0 || all == 0 {
            note = Some(format!(
                "{untimed} frames have no time stamp; times are taken from the rate, {rate:.3} a second"
            ));
            stored.clear();
        } else if same > 0 {
            note = Some(format!("{same} frames have the time stamp of the frame before them"));
        }
        Self { stored, rate, start, warning: note }
    }

    /// Number of frames with a time stamp.
    #[must_use]
    pub fn timed_frames(&self) -> usize {
        self.stored.len()
    }

    /// Time of frame `index` of the selection, seconds from the start of the file. Frames after the last time stamp are
    /// extrapolated at the frame rate.
    #[must_use]
    pub fn seconds(&self, index: usize) -> f64 {
        match (self.stored.get(index), self.stored.last()) {
            (Some(&time), _) => time,
            (None, Some(last)) => last + (index + 1 - self.stored.len()) as f64 / self.rate,
            (None, None) => self.start + index as f64 / self.rate,
        }
    }
}

impl Video {
    /// Approximate number of stored frames between start and end.
    #[must_use]
    pub fn approximate_frames(&self) -> u64 {
        self.periods as u64
    }

    /// The times of the frames between start and end.
    ///
    /// # Errors
    /// ffprobe failed.
    pub fn frame_times(&self, stop: &AtomicBool) -> Result<FrameTimes, VideoError> {
        let found = read_time_stamps(&self.path, self.container, self.output_timeout, stop)
            .map_err(|problem| VideoError::new(&self.path, problem))?;
        Ok(FrameTimes::new(found, self.stored_rate, self.choice.start, self.choice.end))
    }

    /// Starts ffmpeg, which writes every stored frame between start and end once, scaled to this size, as grey or RGB.
    ///
    /// # Errors
    /// ffmpeg cannot be started.
    pub fn start_reduced<'a>(
        &self,
        [width, height]: [u32; 2],
        is_grey: bool,
        stop: &'a AtomicBool,
    ) -> Result<ReducedReader<'a>, VideoError> {
        let format = if is_grey { "gray" } else { "rgb24" };
        // Area averaging, to avoid aliasing.
        let scale = format!("scale={width}:{height}:flags=area");
        let format = format!("format={format}");
        let filters = match self.tone_mapping() {
            None => vec![format!("{scale}:out_range=full"), format],
            // After scaling, because it is slow.
            Some(tone_mapping) => {
                let full = "scale=out_range=full".to_owned();
                vec![scale, "format=yuv444p10le".to_owned(), tone_mapping, full, format]
            }
        };
        let program = self.ffmpeg_command(filters, true);
        let stream = program.stream(stop).map_err(|error| VideoError::new(&self.path, error))?;
        let bytes = width as usize * height as usize * if is_grey { 1 } else { 3 };
        Ok(ReducedReader { stream: Some(stream), bytes })
    }
}

/// A running ffmpeg process that writes frames at reduced size.
pub struct ReducedReader<'a> {
    stream: Option<ProgramStream<'a>>,
    bytes: usize,
}

impl ReducedReader<'_> {
    /// Reads the next image; `video` must be the video that was started. Returns `false` at the end.
    ///
    /// # Errors
    /// ffmpeg failed, was stopped or delivers nothing, or the stream ends within an image.
    pub fn read_image(&mut self, video: &Video, picture: &mut Vec<u8>) -> Result<bool, VideoError> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        picture.resize(self.bytes, 0);
        let failed = |error: ProcessError| VideoError::new(&video.path, error);
        let got = stream.fill(picture).map_err(failed)?;
        if got == self.bytes {
            return Ok(true);
        }
        match self.stream.take().map(ProgramStream::finish) {
            Some(Err(error)) => Err(failed(error)),
            _ if got > 0 => Err(VideoError::new(&video.path, VideoProblem::Truncated)),
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_file_or_of_its_rate() {
        let found = |times: &[f64], untimed| TimeStamps { times: times.to_vec(), untimed, start: 0.5 };
        let times = FrameTimes::new(found(&[0.5, 0.6, 0.9, 1.3, 1.4], 0), 10.0, 0.1, Some(0.9));
        assert_eq!((times.timed_frames(), times.warning.clone()), (3, None));
        assert!((times.seconds(2) - 0.8).abs() < 1e-12 && (times.seconds(4) - 1.0).abs() < 1e-12);
        let times = FrameTimes::new(found(&[0.5, 0.6], 3), 10.0, 2.0, None);
        assert!((times.seconds(5) - 2.5).abs() < 1e-12 && times.warning.is_some());
        let times = FrameTimes::new(found(&[0.5, 0.6, 0.6], 0), 10.0, 0.0, None);
        assert_eq!(times.warning.unwrap(), "1 frames have the time stamp of the frame before them");
    }
}
