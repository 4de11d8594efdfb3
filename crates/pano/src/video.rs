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

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gausset_compute::fearless_simd::Level;
use gausset_process::{ProcessError, Program, Stream, Streaming, find};
use serde::Deserialize;

use crate::colours::{Colours, Matrix};
use crate::eac::Eac;
use crate::jpeg::encode::Band;
use crate::jpeg::{Encoder, Sampling};
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
    /// Of so many neighbouring frames the sharpest; 1 = all; 0 = of all frames of a period of `fps`.
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
    /// Frames that are to be expected, one more or less.
    pub frames: usize,
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
        let info = std::fs::metadata(path).map_err(|e| error(gausset_io::atomic::plain_reason(&e)))?;
        if !info.is_file() {
            return Err(error("is not a regular file".to_owned()));
        }
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
            .arg("file,pipe")
            .arg("-select_streams")
            .arg("v")
            .arg("-show_entries")
            .arg("stream=width,height,avg_frame_rate,duration,pix_fmt,color_range,color_space:stream_side_data=rotation:format=duration")
            .arg("-of")
            .arg("json")
            .file(path)
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
        let stored_rate = ratio(first.avg_frame_rate.as_deref().unwrap_or_default()).unwrap_or(30.0);
        let mut choice = choice;
        if let (0, fps) = (choice.sharpest_of, choice.fps.unwrap_or(stored_rate)) {
            // All frames are looked at; of each period the sharpest stays.
            choice.sharpest_of = (stored_rate / fps).round().clamp(1.0, 1000.0) as u32;
            choice.fps = None;
        }
        let rate = choice.fps.unwrap_or(stored_rate);
        let seconds = choice.end.unwrap_or(duration).min(duration) - choice.start;
        let frames = (seconds * rate / f64::from(choice.sharpest_of)).ceil();
        if frames.is_nan() || frames < 1.0 {
            return Err(error(format!("no frame lies between --start and --end (it lasts {duration:.2} s)")));
        }
        if frames > MAX_FRAMES {
            return Err(error(format!(
                "{frames:.0} frames are too many (expected at most {MAX_FRAMES}); use --fps"
            )));
        }
        // Rates and durations are rounded: a frame more may come.
        let colours = first.colours();
        Ok(Self { path: path.to_owned(), size, frames: frames as usize + 1, eac, choice, silence, colours })
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
        let Choice { fps, start, end, is_stereo, .. } = &self.choice;
        let mut filters: Vec<String> = Vec::new();
        if *is_stereo {
            filters.push("crop=iw:ih/2:0:0".to_owned());
        } else if self.choice.footage == Footage::Ordinary {
            filters.push(format!("crop={}:{}:0:0", self.size[0], self.size[1]));
        }
        if let Some(fps) = fps {
            filters.push(format!("fps={fps}"));
        }
        if self.colours.is_some() {
            filters.push("format=yuv420p|yuvj420p".to_owned());
        } else {
            filters.push("scale=out_color_matrix=bt601:out_range=full".to_owned());
            filters.push("format=yuv420p".to_owned());
        }
        let filters = filters.join(",");
        let mut program = Program::new("ffmpeg").silence(self.silence);
        for argument in ["-nostdin", "-v", "error", "-xerror", "-protocol_whitelist", "file,pipe"] {
            program = program.arg(argument);
        }
        // Before the input: seeks, then decodes up to the exact frame.
        if *start > 0.0 {
            program = program.arg("-ss").arg(format!("{start}"));
        }
        program = program.arg("-i").file(&self.path);
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
        let window = video.choice.sharpest_of as usize;
        while self.position < index * window {
            if !self.raw(video)? {
                return Ok(false);
            }
        }
        let mut best: Option<f64> = None;
        for _ in 0..window {
            if !self.raw(video)? {
                break;
            }
            if window == 1 {
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

/// Writes the frames of a video as JPEG pictures `frame_NNNNNN.jpg`, at most `most`; `tell` hears how many there are.
/// Gives their number.
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
    let mut reader = video.start(stop).map_err(|e| format!("{}: video: {e}", video.path.display()))?;
    let mut frame = Frame::default();
    let all = [[-1, i32::MAX / 2]; 3];
    for index in 0..video.frames.min(most) {
        if stop.load(Ordering::Relaxed) || !reader.read(video, index, &all, level, &mut frame)? {
            return Ok(index);
        }
        let path = folder.join(format!("frame_{index:06}.jpg"));
        std::fs::write(&path, picture_of(&frame, PICTURE_QUALITY, level))
            .map_err(|e| format!("{}: write: {}", path.display(), gausset_io::atomic::plain_reason(&e)))?;
        tell(index + 1);
    }
    Ok(video.frames.min(most))
}

/// A whole 4:2:0 frame as a JPEG.
#[must_use]
pub fn picture_of(frame: &Frame, quality: u8, level: Level) -> Vec<u8> {
    let luma = &frame.planes[0];
    let mut encoder = Encoder::new(luma.width, luma.height, Sampling::Half, quality);
    let mut band = Band::default();
    band.reshape(luma.width, Sampling::Half);
    encoder.start(&[]);
    // Rows beyond the picture repeat its last row, columns its last column.
    let copy = |plane: &Plane, out: &mut [u8], top: usize, stride: usize| {
        for (k, out) in out.chunks_exact_mut(stride).enumerate() {
            let row = plane.row((top + k).min(plane.height - 1) as i32);
            let (inside, rest) = out.split_at_mut(row.len());
            inside.copy_from_slice(row);
            rest.fill(row[row.len() - 1]);
        }
    };
    let stride = band.stride;
    for top in (0..luma.height).step_by(encoder.band_rows()) {
        copy(luma, &mut band.luma, top, stride);
        for (out, plane) in band.chroma.iter_mut().zip(&frame.planes[1..]) {
            copy(plane, out, top / 2, stride / 2);
        }
        encoder.band(level, &band);
    }
    encoder.finish().to_vec()
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
