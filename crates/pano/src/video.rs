//! Video through the system's ffmpeg: frames as planes over a pipe, never through a picture file.
//!
//! ```text
//! ffprobe: streams, sizes, duration, colours (checked) ─▶ ffmpeg -vf fps -f rawvideo ─▶ W·H·1.5 bytes a frame ─▶ planes
//! ```
//! Video is usually of limited range and BT.709, JPEG of full range and BT.601. The usual kinds are converted when a
//! frame's needed rows are copied out of the pipe ([`crate::colours`]); for the others ffmpeg does it, which takes
//! longer. A GoPro MAX `.360` file has
//! its two pictures in two streams, which are stacked. Not tried on `.360` files of a camera; on streams made with
//! ffmpeg it is tested.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gausset_compute::fearless_simd::Level;
use gausset_io::atomic::{Disk, write_atomic};
use gausset_io::input;
use gausset_process::{ProcessError, Program, Stream, Streaming, find};
use serde::Deserialize;

use crate::colours::{Colours, Matrix};
use crate::eac::Eac;
use crate::jpeg::encode_frame;
use crate::plane::{Colour, Frame, FrameShape, Plane};

/// Longest video, seconds.
const MAX_SECONDS: f64 = 24.0 * 3600.0;
/// Most frames that are kept.
const MAX_FRAMES: f64 = 1e6;

/// What a video shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Footage {
    /// The whole sphere.
    #[default]
    Panorama,
    /// What an ordinary camera sees.
    Ordinary,
}

/// Which frames of a video.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What it shows.
    pub footage: Footage,
    /// Frames per second; `None` = all.
    pub fps: Option<f64>,
    /// First second.
    pub start: f64,
    /// Last second.
    pub end: Option<f64>,
    /// Of so many neighbouring frames the sharpest; 1 = all; 0 = of all frames of the file in a period of `fps`.
    pub sharpest_of: u32,
    /// Top and bottom are two eyes: the upper is taken.
    pub is_stereo: bool,
}

impl Default for Choice {
    /// All frames of a panorama.
    fn default() -> Self {
        Self {
            footage: Footage::Panorama,
            fps: None,
            start: 0.0,
            end: None,
            sharpest_of: 1,
            is_stereo: false,
        }
    }
}

/// A video that can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// The file.
    pub path: PathBuf,
    /// Width and height of a frame of planes.
    pub size: [u32; 2],
    /// Frames that are taken: of those that are to be expected one more, because rates and durations are rounded.
    pub frames: usize,
    /// Periods of the film, of each of which a frame could be taken.
    periods: usize,
    /// Frames out of ffmpeg in a period; a fraction where the rates do not divide.
    frames_a_period: f64,
    /// Frames a second that ffmpeg is to give, if not those of the file: `5/2`.
    rate: Option<String>,
    /// What ffmpeg calls the kind of file.
    container: &'static str,
    /// Most pixels of a frame, for ffmpeg.
    max_pixels: String,
    /// GoPro MAX: two stacked streams.
    pub eac: Option<Eac>,
    /// Which frames.
    pub choice: Choice,
    /// How long ffmpeg may deliver nothing.
    pub silence: Duration,
    /// What turns its samples into those of a JPEG; `None`: ffmpeg does that.
    pub colours: Option<Colours>,
}

#[derive(Deserialize)]
struct Probe {
    #[serde(default)]
    streams: Vec<ProbeStream>,
    format: Option<ProbeFormat>,
}

#[derive(Deserialize)]
struct ProbeStream {
    width: Option<u32>,
    height: Option<u32>,
    avg_frame_rate: Option<String>,
    duration: Option<String>,
    pix_fmt: Option<String>,
    color_range: Option<String>,
    color_space: Option<String>,
    #[serde(default)]
    side_data_list: Vec<ProbeSideData>,
}

#[derive(Deserialize)]
struct ProbeSideData {
    /// Degrees by which ffmpeg turns the pictures.
    rotation: Option<f64>,
}

impl ProbeStream {
    /// How its samples become those of a JPEG, if they are of a usual kind.
    fn colours(&self) -> Option<Colours> {
        let is_full = match self.pix_fmt.as_deref()? {
            "yuvj420p" => true,
            "yuv420p" => self.color_range.as_deref() == Some("pc"),
            _ => return None,
        };
        let matrix = match self.color_space.as_deref().unwrap_or("unknown") {
            "bt709" => Matrix::Bt709,
            // What ffmpeg takes those for that say nothing.
            "smpte170m" | "bt470bg" | "unknown" => Matrix::Bt601,
            _ => return None,
        };
        Some(Colours::new(matrix, is_full))
    }

    /// Width and height as they are shown.
    fn shown_size(&self) -> Option<[u32; 2]> {
        let stored = [self.width?, self.height?];
        let is_turned = |data: &ProbeSideData| data.rotation.is_some_and(|r| r.rem_euclid(180.0) == 90.0);
        Some(if self.side_data_list.iter().any(is_turned) { [stored[1], stored[0]] } else { stored })
    }
}

#[derive(Deserialize)]
struct ProbeFormat {
    duration: Option<String>,
}

/// `30000/1001` as a number.
fn ratio(text: &str) -> Option<f64> {
    let (a, b) = text.split_once('/')?;
    let value = a.parse::<f64>().ok()? / b.parse::<f64>().ok()?;
    Some(value).filter(|v| v.is_finite() && *v > 0.0)
}

/// Kinds of files that are read, by their extension, and what ffmpeg calls them. Each holds its pictures itself: a
/// playlist, whatever its name, is none of them, so no other file and no address is ever opened.
const CONTAINERS: [(&[&str], &str); 4] = [
    (&["mp4", "mov", "m4v", "360"], "mov"),
    (&["mkv", "webm"], "matroska"),
    (&["avi"], "avi"),
    (&["ts", "mts", "m2ts"], "mpegts"),
];

fn container_of(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    CONTAINERS.iter().find_map(|(names, format)| names.contains(&extension.as_str()).then_some(*format))
}

/// Most pixels that a decoder is to make room for: a frame within the limits, with two eyes or rows that are cut off.
fn max_pixels([width, height]: [u32; 2]) -> String {
    (2 * u64::from(width) * u64::from(height)).min(u64::from(u32::MAX >> 1)).to_string()
}

impl Video {
    /// Looks at a video file.
    ///
    /// # Errors
    /// One line: ffmpeg is missing, the file is no video, is too large or too long.
    pub fn open(
        path: &Path,
        choice: Choice,
        limits: [u32; 2],
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        let error = |what: String| format!("{}: video: {what}", path.display());
        input::open(path, input::STREAMED).map_err(|e| error(gausset_io::atomic::plain_reason(&e)))?;
        let container = container_of(path).ok_or_else(|| {
            let known: Vec<&str> = CONTAINERS.iter().flat_map(|(names, _)| *names).copied().collect();
            error(format!("is of no kind that is read (expected .{})", known.join(", .")))
        })?;
        for name in ["ffmpeg", "ffprobe"] {
            if find(name).is_none() {
                return Err(error(format!(
                    "{name} is not installed (expected in PATH); install ffmpeg, for example: apt install ffmpeg"
                )));
            }
        }
        let mut text = String::new();
        let mut on_line = |stream, line: &str| {
            if stream == Stream::Out && text.len() < 1 << 20 {
                text.push_str(line);
            }
        };
        Program::new("ffprobe")
            .arg("-v")
            .arg("error")
            .arg("-protocol_whitelist")
            .arg("file")
            .arg("-f")
            .arg(container)
            .arg("-max_pixels")
            .arg(max_pixels(limits))
            .arg("-select_streams")
            .arg("v")
            .arg("-show_entries")
            .arg("stream=width,height,avg_frame_rate,duration,pix_fmt,color_range,color_space:stream_side_data=rotation:format=duration")
            .arg("-of")
            .arg("json")
            .file_after("file:", path)
            .silence(silence)
            .run(stop, &mut on_line)
            .map_err(|e| error(format!("cannot be read: {e}")))?;
        let probe: Probe =
            serde_json::from_str(&text).map_err(|_| error("ffprobe tells nothing about it".to_owned()))?;
        let first = probe.streams.first().ok_or_else(|| error("has no pictures".to_owned()))?;
        let Some([width, height]) = first.shown_size() else {
            return Err(error("has no size".to_owned()));
        };
        let is_panorama = choice.footage == Footage::Panorama;
        let eac = Eac::of_stream(width, height).filter(|_| {
            is_panorama
                && probe.streams.get(1).is_some_and(|s| (s.width, s.height) == (Some(width), Some(height)))
        });
        let size = match &eac {
            Some(eac) => eac.canvas(),
            None if choice.is_stereo => [width, height / 2],
            None if is_panorama => [width, height],
            // Planes of 4:2:0 have even sides; ffmpeg cuts the last column or row off.
            None => [width & !1, height & !1],
        };
        if size[0] > limits[0] || size[1] > limits[1] {
            let ([w, h], [mw, mh]) = (size, limits);
            return Err(error(format!(
                "{w}x{h} px are too many (expected at most {mw}x{mh}); raise --max-side"
            )));
        }
        if size[0] % 2 == 1 || size[1] % 2 == 1 || size[0] < 16 || size[1] < 16 {
            return Err(error(format!("{}x{} px (expected even sides of at least 16)", size[0], size[1])));
        }
        if is_panorama && eac.is_none() && size[0] != 2 * size[1] {
            return Err(error(format!(
                "{}x{} px is no panorama (expected twice as wide as high, or the two streams of a GoPro MAX); for stacked eyes say --stereo tb",
                size[0], size[1]
            )));
        }
        let number =
            |text: &Option<String>| text.as_ref()?.parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
        let duration = number(&first.duration).or_else(|| number(&probe.format?.duration));
        let duration = duration.ok_or_else(|| error("has no duration".to_owned()))?;
        if duration > MAX_SECONDS {
            return Err(error(format!("lasts {duration:.0} s (expected at most {MAX_SECONDS:.0})")));
        }
        // The file's rate as it is written, so that nothing is rounded: 30000/1001.
        let (stored_text, stored_rate) =
            match first.avg_frame_rate.as_deref().and_then(|t| Some((t, ratio(t)?))) {
                Some((text, rate)) => (text.to_owned(), rate),
                None => ("30/1".to_owned(), 30.0),
            };
        let (rate, frames_a_second, frames_a_period) = match (choice.sharpest_of, choice.fps) {
            // All frames are looked at; of each period the sharpest stays.
            (0, fps) => (Some(stored_text), stored_rate, (stored_rate / fps.unwrap_or(stored_rate)).max(1.0)),
            (window, Some(fps)) => (Some(fps.to_string()), fps, f64::from(window)),
            (window, None) => (None, stored_rate, f64::from(window)),
        };
        let seconds = choice.end.unwrap_or(duration).min(duration) - choice.start;
        // A thousandth of a frame is rounding.
        let frames = (seconds * frames_a_second / frames_a_period - 1e-3).ceil();
        if frames.is_nan() || frames < 1.0 {
            return Err(error(format!("no frame lies between --start and --end (it lasts {duration:.2} s)")));
        }
        if frames > MAX_FRAMES {
            return Err(error(format!(
                "{frames:.0} frames are too many (expected at most {MAX_FRAMES}); use --fps"
            )));
        }
        let periods = frames as usize;
        let colours = first.colours();
        Ok(Self {
            path: path.to_owned(),
            size,
            container,
            max_pixels: max_pixels(limits),
            frames: periods + 1,
            periods,
            frames_a_period,
            rate,
            eac,
            choice,
            silence,
            colours,
        })
    }

    /// The same video with at most so many frames, spread evenly over the film.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.frames = most.max(1).min(self.periods + 1);
        self
    }

    /// Which frames out of ffmpeg frame `index` is chosen from.
    fn window(&self, index: usize) -> Range<usize> {
        let period = if self.frames < self.periods { index * self.periods / self.frames } else { index };
        let first = |period: usize| (period as f64 * self.frames_a_period - 1e-6).ceil().max(0.0) as usize;
        first(period)..first(period + 1)
    }

    /// Which frames of the film are taken: for a name of the settings.
    #[must_use]
    pub fn selection(&self) -> String {
        format!("{:?} {} of {}", self.choice, self.frames, self.periods)
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

    /// Starts ffmpeg, which ends when `stop` is set.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<'a>(&self, stop: &'a AtomicBool) -> Result<Reader<'a>, ProcessError> {
        let Choice { start, end, is_stereo, .. } = &self.choice;
        let mut filters: Vec<String> = Vec::new();
        if *is_stereo {
            filters.push("crop=iw:ih/2:0:0".to_owned());
        } else if self.choice.footage == Footage::Ordinary {
            filters.push(format!("crop={}:{}:0:0", self.size[0], self.size[1]));
        }
        if let Some(rate) = &self.rate {
            filters.push(format!("fps={rate}"));
        }
        if self.colours.is_some() {
            filters.push("format=yuv420p|yuvj420p".to_owned());
        } else {
            filters.push("scale=out_color_matrix=bt601:out_range=full".to_owned());
            filters.push("format=yuv420p".to_owned());
        }
        let filters = filters.join(",");
        let mut program = Program::new("ffmpeg").silence(self.silence);
        for argument in ["-nostdin", "-v", "error", "-xerror", "-protocol_whitelist", "file"] {
            program = program.arg(argument);
        }
        program = program.arg("-f").arg(self.container).arg("-max_pixels").arg(&self.max_pixels);
        // Before the input: seeks, then decodes up to the exact frame.
        if *start > 0.0 {
            program = program.arg("-ss").arg(format!("{start}"));
        }
        program = program.arg("-i").file_after("file:", &self.path);
        if let Some(end) = end {
            program = program.arg("-t").arg(format!("{}", (end - start).max(0.0)));
        }
        program = if self.eac.is_some() {
            program.arg("-filter_complex").arg(format!("[0:v:0][0:v:1]vstack=inputs=2,{filters}"))
        } else {
            program.arg("-map").arg("0:v:0").arg("-vf").arg(filters)
        };
        for argument in ["-an", "-f", "rawvideo", "-"] {
            program = program.arg(argument);
        }
        Ok(Reader {
            stream: Some(program.stream(stop)?),
            position: 0,
            buffer: Vec::new(),
            spare: Frame::default(),
        })
    }
}

/// A running ffmpeg.
pub struct Reader<'a> {
    stream: Option<Streaming<'a>>,
    /// Number of the next frame.
    position: usize,
    buffer: Vec<u8>,
    spare: Frame,
}

impl Reader<'_> {
    /// Reads frame `index` (ascending) into `frame`, of which `rows` are kept; false at the end of the video.
    ///
    /// # Errors
    /// ffmpeg failed, was stopped or delivers nothing; the stream ends within a frame.
    pub fn read(
        &mut self,
        video: &Video,
        index: usize,
        rows: &[[i32; 2]],
        level: Level,
        frame: &mut Frame,
    ) -> Result<bool, String> {
        let window = video.window(index);
        while self.position < window.start {
            if !self.raw(video)? {
                return Ok(false);
            }
        }
        let mut best: Option<f64> = None;
        for _ in window.clone() {
            if !self.raw(video)? {
                break;
            }
            if window.len() == 1 {
                fill(video, &self.buffer, rows, level, frame);
                return Ok(true);
            }
            let sharpness = sharpness(&self.buffer, video.size);
            if best.is_none_or(|b| sharpness > b) {
                best = Some(sharpness);
                fill(video, &self.buffer, rows, level, &mut self.spare);
            }
        }
        if best.is_some() {
            std::mem::swap(frame, &mut self.spare);
        }
        Ok(best.is_some())
    }

    /// Reads the next frame into the buffer; false at the end.
    fn raw(&mut self, video: &Video) -> Result<bool, String> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let [w, h] = video.size.map(|s| s as usize);
        self.buffer.resize(w * h * 3 / 2, 0);
        let path = video.path.display();
        let got = stream.fill(&mut self.buffer).map_err(|e| format!("{path}: video: {e}"))?;
        if got == self.buffer.len() {
            self.position += 1;
            return Ok(true);
        }
        let finished = self.stream.take().map(Streaming::finish);
        match finished {
            Some(Err(error)) => Err(format!("{path}: video: {error}")),
            _ if got > 0 => {
                Err(format!("{path}: video: the stream ends within a frame; the frames before it are kept"))
            }
            _ => Ok(false),
        }
    }
}

/// Quality of pictures made of frames.
const PICTURE_QUALITY: u8 = 95;

/// Writes the frames of a video as JPEG pictures `frame_NNNNNN.jpg`, at most `most`, spread evenly over the film; `tell`
/// hears how many there are. Gives their number.
///
/// # Errors
/// One line: ffmpeg fails or delivers nothing, a picture cannot be written. `stop` ends it early, without error.
pub fn extract(
    video: &Video,
    folder: &Path,
    most: usize,
    level: Level,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize),
) -> Result<usize, String> {
    let video = &video.clone().at_most(most);
    let mut reader = video.start(stop).map_err(|e| format!("{}: video: {e}", video.path.display()))?;
    let mut frame = Frame::default();
    let all = [[-1, i32::MAX / 2]; 3];
    for index in 0..video.frames {
        if stop.load(Ordering::Relaxed) || !reader.read(video, index, &all, level, &mut frame)? {
            return Ok(index);
        }
        let path = folder.join(format!("frame_{index:06}.jpg"));
        let picture = encode_frame(&frame, PICTURE_QUALITY, level);
        write_atomic(&Disk, &path, |file| file.write_all(&picture)).map_err(|e| e.to_string())?;
        tell(index + 1);
    }
    Ok(video.frames)
}

/// Raw planes into a frame, in the colours of a JPEG.
fn fill(video: &Video, raw: &[u8], rows: &[[i32; 2]], level: Level, frame: &mut Frame) {
    frame.colour = Colour::YCbCr;
    frame.alpha = None;
    frame.planes.resize_with(3, Plane::default);
    for (index, [w, h]) in video.shape().sizes.into_iter().enumerate() {
        let all = [-1, h as i32];
        frame.planes[index].reshape(w as usize, h as usize, rows.get(index).copied().unwrap_or(all));
    }
    let [width, height] = video.size.map(|s| s as usize);
    let (luma, chroma) = raw.split_at(width * height);
    let (cb, cr) = chroma.split_at(width * height / 4);
    let colours = video.colours.unwrap_or(Colours::SAME);
    colours.convert(level, [luma, cb, cr], &mut frame.planes);
}

/// Variance of the Laplacian of the luma at a quarter of the size: low where motion blurs.
fn sharpness(raw: &[u8], [w, h]: [u32; 2]) -> f64 {
    let (w, h) = (w as usize, h as usize);
    let at = |x: usize, y: usize| f64::from(raw[4 * y * w + 4 * x]);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    // The middle half of the height: the poles are stretched.
    for y in (h / 16).max(1)..(3 * h / 16).max(2) {
        for x in 1..w / 4 - 1 {
            let l = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1) - 4.0 * at(x, y);
            sum += l;
            squares += l * l;
            count += 1.0;
        }
    }
    let mean: f64 = sum / f64::max(count, 1.0);
    squares / f64::max(count, 1.0) - mean * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sharpness of a picture of 64x32 px of which every fourth sample of a row and every fourth row counts.
    fn of(value: impl Fn(usize, usize) -> u8) -> f64 {
        let raw: Vec<u8> = (0..64 * 32).map(|i| value(i % 64 / 4, i / 64 / 4)).collect();
        sharpness(&raw, [64, 32])
    }

    #[test]
    fn sharpness_is_the_variance_of_the_laplacian() {
        assert_eq!(of(|_, _| 90), 0.0);
        assert_eq!(of(|x, y| (10 * x + 7 * y) as u8), 0.0);
        // A checkerboard of 0 and 100: the Laplacian is 400 and -400.
        let checker = |high: u8| move |x: usize, y: usize| if (x + y).is_multiple_of(2) { 0 } else { high };
        assert_eq!(of(checker(100)), 160_000.0);
        // Half the contrast, a quarter of the variance.
        assert_eq!(of(checker(50)), 40_000.0);
        // One column of 100 in 14: Laplacians of -200 there and 100 beside it.
        let column = of(|x, _| if x == 5 { 100 } else { 0 });
        assert!((column - 60_000.0 / 14.0).abs() < 1e-9, "{column}");
    }

    #[test]
    fn kinds_of_files_are_told_by_their_extension() {
        let of = |name: &str| container_of(Path::new(name));
        assert_eq!((of("a.MP4"), of("a.360"), of("b.webm")), (Some("mov"), Some("mov"), Some("matroska")));
        assert_eq!((of("a.m3u8"), of("mp4"), of("a.mp4.txt")), (None, None, None));
    }
}
