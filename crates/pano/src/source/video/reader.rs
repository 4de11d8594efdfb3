//! A running ffmpeg process whose output is read as frames of planes.

use std::sync::atomic::AtomicBool;

use gausset_compute::fearless_simd::Level;
use gausset_jpeg::plane::{ColourModel, Frame, Plane};
use gausset_process::{ProcessError, Program, ProgramStream};

use super::error::{VideoError, VideoProblem};
use super::open::{FrameArrangement, FrameSelection, Video};
use super::sharpness::laplacian_variance;
use crate::source::colour_conversion::ColourConversion;

/// Frame rate used when frames are counted; any integer works.
const COUNTED_RATE: u32 = 25;

impl Video {
    /// The ffmpeg command that writes the frames between start and end as raw samples, through the filters `then`. With
    /// `is_counted`, every stored frame is written once, whatever its time stamp; otherwise frames are repeated or
    /// dropped to the file's average rate.
    pub(super) fn ffmpeg_command(&self, filters_after: Vec<String>, is_counted: bool) -> Program {
        let FrameSelection { start, end, .. } = &self.choice;
        let [width, height] = self.size;
        let mut filters: Vec<String> = match self.arrangement {
            FrameArrangement::Whole | FrameArrangement::Stacked | FrameArrangement::SideBySide => Vec::new(),
            FrameArrangement::CropToEven => vec![format!("crop={width}:{height}:0:0")],
            FrameArrangement::UpperHalf => vec!["crop=iw:ih/2:0:0".to_owned()],
        };
        if is_counted {
            // Replaces time stamps by 0, 1, 2 ..., so that ffmpeg neither drops nor repeats frames.
            filters.push(format!("settb=1/{COUNTED_RATE},setpts=N"));
        }
        filters.extend(filters_after);
        let filters = filters.join(",");
        let mut program = Program::new("ffmpeg").silence_limit(self.output_timeout);
        for argument in ["-nostdin", "-v", "error", "-xerror", "-protocol_whitelist", "file"] {
            program = program.arg(argument);
        }
        let length = end.map(|end| format!("{}", (end - start).max(0.0)));
        for file in [Some(&self.path), self.second.as_ref()].into_iter().flatten() {
            program = program.arg("-f").arg(self.container).arg("-max_pixels").arg(&self.max_pixels);
            // Before the input: ffmpeg seeks, then decodes up to the exact frame.
            if *start > 0.0 {
                program = program.arg("-ss").arg(format!("{start}"));
            }
            // With counted frames, output time stamps are not times of the file, so the length applies to the input.
            if let (Some(length), true) = (&length, is_counted) {
                program = program.arg("-t").arg(length);
            }
            program = program.arg("-i").file_with_prefix("file:", file);
        }
        if let (Some(length), false) = (&length, is_counted) {
            program = program.arg("-t").arg(length);
        }
        program = if self.arrangement.has_two_streams() {
            let second = if self.second.is_some() { "[1:v:0]" } else { "[0:v:1]" };
            let stack = if self.arrangement == FrameArrangement::SideBySide { "hstack" } else { "vstack" };
            // Frames after the end of the shorter stream are dropped.
            program
                .arg("-filter_complex")
                .arg(format!("[0:v:0]{second}{stack}=inputs=2:shortest=1,{filters}"))
        } else {
            program.arg("-map").arg("0:v:0").arg("-vf").arg(filters)
        };
        if is_counted {
            program = program.arg("-r").arg(COUNTED_RATE.to_string());
        }
        ["-an", "-f", "rawvideo", "-"].into_iter().fold(program, Program::arg)
    }

    /// Starts ffmpeg. It is terminated when `stop` is set.
    ///
    /// # Errors
    /// ffmpeg cannot be started.
    pub fn start<'a>(&self, stop: &'a AtomicBool) -> Result<FrameReader<'a>, VideoError> {
        let mut filters = Vec::new();
        if self.selected.is_none()
            && let Some(rate) = &self.rate
        {
            filters.push(format!("fps={rate}"));
        }
        filters.extend(self.tone_mapping());
        if self.colour_conversion.is_some() {
            filters.push("format=yuv420p|yuvj420p".to_owned());
        } else {
            filters.push("scale=out_color_matrix=bt601:out_range=full".to_owned());
            filters.push("format=yuv420p".to_owned());
        }
        let program = self.ffmpeg_command(filters, self.selected.is_some());
        let stream = program.stream(stop).map_err(|error| VideoError::new(&self.path, error))?;
        Ok(FrameReader { stream: Some(stream), position: 0, buffer: Vec::new(), spare: Frame::default() })
    }
}

/// A running ffmpeg process.
pub struct FrameReader<'a> {
    stream: Option<ProgramStream<'a>>,
    /// Index of the next output frame.
    position: usize,
    buffer: Vec<u8>,
    spare: Frame,
}

impl FrameReader<'_> {
    /// Reads frame `index` (ascending), storing `rows` of its planes in `frame`. Returns `false` at the end of the
    /// video.
    ///
    /// # Errors
    /// ffmpeg failed, was stopped or delivers nothing, or the stream ends within a frame.
    pub fn read_frame(
        &mut self,
        video: &Video,
        index: usize,
        rows: &[[i32; 2]],
        level: Level,
        frame: &mut Frame,
    ) -> Result<bool, VideoError> {
        let window = video.candidate_range(index);
        while self.position < window.start {
            if !self.read_raw(video)? {
                return Ok(false);
            }
        }
        // If the window holds several frames, `spare` keeps the sharpest so far.
        let mut best: Option<f64> = None;
        for _ in window.clone() {
            if !self.read_raw(video)? {
                break;
            }
            if window.len() == 1 {
                fill_from_raw(video, &self.buffer, rows, level, frame);
                return Ok(true);
            }
            let sharpness = laplacian_variance(&self.buffer, video.size);
            if best.is_none_or(|b| sharpness > b) {
                best = Some(sharpness);
                fill_from_raw(video, &self.buffer, rows, level, &mut self.spare);
            }
        }
        if best.is_some() {
            std::mem::swap(frame, &mut self.spare);
        }
        Ok(best.is_some())
    }

    /// Reads the next frame into the buffer. Returns `false` at the end.
    fn read_raw(&mut self, video: &Video) -> Result<bool, VideoError> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let [w, h] = video.size.map(|s| s as usize);
        self.buffer.resize(w * h * 3 / 2, 0);
        let failed = |error: ProcessError| VideoError::new(&video.path, error);
        let got = stream.fill(&mut self.buffer).map_err(failed)?;
        if got == self.buffer.len() {
            self.position += 1;
            return Ok(true);
        }
        match self.stream.take().map(ProgramStream::finish) {
            Some(Err(error)) => Err(failed(error)),
            _ if got > 0 => Err(VideoError::new(&video.path, VideoProblem::Truncated)),
            _ => Ok(false),
        }
    }
}

/// Converts raw planes to a frame with JPEG colours.
fn fill_from_raw(video: &Video, raw: &[u8], rows: &[[i32; 2]], level: Level, frame: &mut Frame) {
    frame.colour = ColourModel::YCbCr;
    frame.alpha = None;
    frame.planes.resize_with(3, Plane::default);
    for (index, [w, h]) in video.shape().sizes.into_iter().enumerate() {
        let all = [-1, h as i32];
        frame.planes[index].reshape(w as usize, h as usize, rows.get(index).copied().unwrap_or(all));
    }
    let [width, height] = video.size.map(|s| s as usize);
    let (luma, chroma) = raw.split_at(width * height);
    let (cb, cr) = chroma.split_at(width * height / 4);
    let colours = video.colour_conversion.unwrap_or(ColourConversion::IDENTITY);
    colours.convert(level, [luma, cb, cr], &mut frame.planes);
}
