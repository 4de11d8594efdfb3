//! ffprobe: information about a file, and the supported file types.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_io::input;
use gausset_process::{OutputStream, Program, find_program};
use serde::Deserialize;

use super::error::VideoProblem;
use super::tone_mapping::HdrCurve;
use crate::source::colour_conversion::{ColourConversion, YcbcrMatrix};

/// Output of ffprobe.
#[derive(Deserialize)]
pub(super) struct ProbeOutput {
    #[serde(default)]
    pub(super) streams: Vec<ProbeStream>,
    pub(super) format: Option<ProbeFormat>,
}

impl ProbeOutput {
    /// Duration of a stream, or of the file if the stream has none, seconds.
    pub(super) fn stream_duration(&self, stream: usize) -> Option<f64> {
        let number =
            |text: &Option<String>| text.as_ref()?.parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
        let own = self.streams.get(stream).and_then(|stream| number(&stream.duration));
        own.or_else(|| number(&self.format.as_ref()?.duration))
    }
}

#[derive(Deserialize)]
pub(super) struct ProbeStream {
    width: Option<u32>,
    height: Option<u32>,
    pub(super) avg_frame_rate: Option<String>,
    pub(super) duration: Option<String>,
    pix_fmt: Option<String>,
    color_range: Option<String>,
    color_space: Option<String>,
    color_transfer: Option<String>,
    #[serde(default)]
    side_data_list: Vec<ProbeSideData>,
}

#[derive(Deserialize)]
struct ProbeSideData {
    /// Rotation that ffmpeg applies to the images, degrees.
    rotation: Option<f64>,
}

impl ProbeStream {
    /// Conversion of the samples to those of JPEG; `None` for uncommon formats.
    pub(super) fn colour_conversion(&self) -> Option<ColourConversion> {
        // HDR is converted by ffmpeg.
        if self.hdr_curve().is_some() {
            return None;
        }
        let is_full = match self.pix_fmt.as_deref()? {
            "yuvj420p" => true,
            "yuv420p" => self.color_range.as_deref() == Some("pc"),
            _ => return None,
        };
        let matrix = match self.color_space.as_deref().unwrap_or("unknown") {
            "bt709" => YcbcrMatrix::Bt709,
            // ffmpeg's default for unspecified matrices.
            "smpte170m" | "bt470bg" | "unknown" => YcbcrMatrix::Bt601,
            _ => return None,
        };
        Some(ColourConversion::new(matrix, is_full))
    }

    /// Transfer curve, if it is that of HDR video.
    pub(super) fn hdr_curve(&self) -> Option<HdrCurve> {
        HdrCurve::from_transfer(self.color_transfer.as_deref()?)
    }

    /// Width and height after rotation, px.
    pub(super) fn display_size(&self) -> Option<[u32; 2]> {
        let stored = [self.width?, self.height?];
        let is_turned = |data: &ProbeSideData| data.rotation.is_some_and(|r| r.rem_euclid(180.0) == 90.0);
        Some(if self.side_data_list.iter().any(is_turned) { [stored[1], stored[0]] } else { stored })
    }
}

#[derive(Deserialize)]
pub(super) struct ProbeFormat {
    pub(super) duration: Option<String>,
}

/// Parses a ratio such as `30000/1001`.
pub(super) fn parse_ratio(text: &str) -> Option<f64> {
    let (a, b) = text.split_once('/')?;
    let value = a.parse::<f64>().ok()? / b.parse::<f64>().ok()?;
    Some(value).filter(|v| v.is_finite() && *v > 0.0)
}

/// Largest number of frame times that are kept: a day at 100 frames a second.
const MAX_PACKETS: usize = 10_000_000;

/// Supported file types by extension, with ffmpeg's name of the container. All of them store their own images.
/// Playlists are not supported, whatever their extension, so that no other file and no network address is ever opened.
const CONTAINERS: [(&[&str], &str); 7] = [
    (&["mp4", "mov", "m4v", "360", "insv", "lrv", "3gp", "3g2", "qt"], "mov"),
    (&["mkv", "webm"], "matroska"),
    (&["avi"], "avi"),
    (&["ts", "mts", "m2ts"], "mpegts"),
    (&["mpg", "mpeg", "vob"], "mpeg"),
    (&["wmv", "asf"], "asf"),
    (&["flv"], "flv"),
];

/// Whether a file has the name of a video that is read.
#[must_use]
pub fn is_video_name(path: &Path) -> bool {
    container_of(path).is_some()
}

fn container_of(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    CONTAINERS.iter().find_map(|(names, format)| names.contains(&extension.as_str()).then_some(*format))
}

/// ffmpeg's limit on decoded pixels: twice the size limit, for stereo or for rows that are cropped.
pub(super) fn max_pixels_option([width, height]: [u32; 2]) -> String {
    (2 * u64::from(width) * u64::from(height)).min(u64::from(u32::MAX >> 1)).to_string()
}

/// Checks that a file is readable and of a supported type; returns ffmpeg's name of the container.
pub(super) fn checked_container(path: &Path) -> Result<&'static str, VideoProblem> {
    let opened = input::open(path, input::NO_LIMIT);
    opened.map_err(|e| VideoProblem::Open(gausset_io::atomic::plain_reason(&e)))?;
    let container = container_of(path).ok_or_else(|| {
        let known: Vec<&str> = CONTAINERS.iter().flat_map(|(names, _)| *names).copied().collect();
        VideoProblem::UnsupportedType(format!(".{}", known.join(", .")))
    })?;
    match ["ffmpeg", "ffprobe"].into_iter().find(|name| find_program(name).is_none()) {
        Some(missing) => Err(VideoProblem::MissingTool(missing)),
        None => Ok(container),
    }
}

/// Runs ffprobe on a file.
pub(super) fn probe(
    path: &Path,
    container: &str,
    limits: [u32; 2],
    silence: Duration,
    stop: &AtomicBool,
) -> Result<ProbeOutput, VideoProblem> {
    const ENTRIES: &str = "stream=width,height,avg_frame_rate,duration,pix_fmt,color_range,color_space,color_transfer:stream_side_data=rotation:format=duration";
    let mut text = String::new();
    let mut on_line = |stream, line: &str| {
        if stream == OutputStream::Out && text.len() < 1 << 20 {
            text.push_str(line);
        }
    };
    let pixels = max_pixels_option(limits);
    let arguments = ["-v", "error", "-protocol_whitelist", "file", "-f", container, "-max_pixels", &pixels];
    let wanted = ["-select_streams", "v", "-show_entries", ENTRIES, "-of", "json"];
    let program = arguments.iter().chain(&wanted).fold(Program::new("ffprobe"), Program::arg);
    let asked = program.file_with_prefix("file:", path).silence_limit(silence).run(stop, &mut on_line);
    asked.map_err(VideoProblem::Probe)?;
    serde_json::from_str(&text)
        .map_err(|_| VideoProblem::MissingInfo("ffprobe returned no information about it"))
}

/// Time stamps of the frames of a file, as stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TimeStamps {
    /// Times in seconds, ascending.
    pub(super) times: Vec<f64>,
    /// Number of frames without a time stamp.
    pub(super) untimed: usize,
    /// Start time of the file, seconds.
    pub(super) start: f64,
}

/// Reads the time stamps of the frames with ffprobe, without decoding.
pub(super) fn read_time_stamps(
    path: &Path,
    container: &str,
    silence: Duration,
    stop: &AtomicBool,
) -> Result<TimeStamps, VideoProblem> {
    let mut found = TimeStamps::default();
    let mut on_line = |stream, line: &str| {
        if stream == OutputStream::Out && found.times.len() + found.untimed < MAX_PACKETS {
            found.parse_line(line);
        }
    };
    let arguments = ["-v", "error", "-protocol_whitelist", "file", "-f", container, "-select_streams", "v:0"];
    let wanted = ["-show_entries", "packet=pts_time,flags:format=start_time", "-of", "compact"];
    let program = arguments.iter().chain(&wanted).fold(Program::new("ffprobe"), Program::arg);
    let asked = program.file_with_prefix("file:", path).silence_limit(silence).run(stop, &mut on_line);
    asked.map_err(VideoProblem::Probe)?;
    found.times.sort_by(f64::total_cmp);
    Ok(found)
}

impl TimeStamps {
    /// Parses `packet|pts_time=0.033333|flags=K__` or `format|start_time=0.000000`.
    fn parse_line(&mut self, line: &str) {
        let value = |name: &str| line.split('|').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let number = |text: Option<&str>| text?.parse::<f64>().ok().filter(|v| v.is_finite());
        if line.starts_with("format|") {
            self.start = number(value("start_time")).unwrap_or(0.0);
        } else if line.starts_with("packet|") && !value("flags").is_some_and(|flags| flags.contains('D')) {
            // D: decoded only because other frames depend on it, before the start of an edit list.
            match number(value("pts_time")) {
                Some(time) => self.times.push(time),
                None => self.untimed += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files_are_told_by_their_extension() {
        let of = |name: &str| container_of(Path::new(name));
        assert_eq!((of("a.MP4"), of("a.360"), of("b.webm")), (Some("mov"), Some("mov"), Some("matroska")));
        assert_eq!((of("GL010001.LRV"), of("a.3gp"), of("a.qt")), (Some("mov"), Some("mov"), Some("mov")));
        assert_eq!((of("a.MPG"), of("a.wmv"), of("a.flv")), (Some("mpeg"), Some("asf"), Some("flv")));
        assert_eq!((of("a.m3u8"), of("mp4"), of("a.mp4.txt")), (None, None, None));
    }

    #[test]
    fn time_stamps_are_read_and_frames_before_the_edit_are_not_counted() {
        let mut found = TimeStamps::default();
        for line in [
            "packet|pts_time=-0.080000|flags=KD_",
            "packet|pts_time=0.120000|flags=K__",
            "packet|pts_time=0.040000|flags=___",
            "packet|pts_time=N/A|flags=__",
            "format|start_time=0.021000",
            "",
        ] {
            found.parse_line(line);
        }
        assert_eq!(found, TimeStamps { times: vec![0.12, 0.04], untimed: 1, start: 0.021 });
    }
}
