//! `frames.jsonl`: a header line with the video and the selection, then one line per frame.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, Overwrite, WriteError, WriteOptions, write_atomic_with};
use gausset_io::input;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::choose::select_frames;
use super::distance::metres_per_degree;
use super::{FrameContent, FrameReason, SelectBy, SelectionCriteria};
use crate::choose::motion::FrameMotion;
use crate::source::frames::source_frame_from_files;
use crate::source::video::Video;
use crate::sphere::projection::Projection;

/// Default file name.
pub const FRAMES_FILE: &str = "frames.jsonl";
/// Version of the measurements: changes whenever the same video would give other values.
const MEASURED_VERSION: u32 = 3;
/// Maximum size of the file, bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The header line: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelectionHeader {
    /// Version of the file format.
    pub schema: u32,
    /// Always `frames`.
    pub kind: String,
    /// What the measurements depend on.
    #[serde(flatten)]
    pub film: MeasurementKey,
    /// Criterion of the selection.
    pub select: SelectBy,
    /// Frames per second, if selected by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// Requested parallax between consecutive frames, degrees, if selected by space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// Parallax used, degrees: larger than `step` where `max_frames` required it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_step: Option<f64>,
    /// Length of a used step in metres, if there is a GPS track.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_metres: Option<f64>,
    /// Maximum number of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frames: Option<usize>,
    /// Number of frames between start and end.
    pub frames: usize,
    /// Number of kept frames.
    pub kept: usize,
    /// Warnings about the video.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What measurements depend on: they are reused only if all of it is equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasurementKey {
    /// File name of the video.
    pub video: String,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Modification time of the file, seconds since 1970.
    pub modified: u64,
    /// Start of the range, seconds.
    pub start: f64,
    /// End of the range, seconds; `None` = the end of the video.
    pub end: Option<f64>,
    /// Width and height of its frames, px.
    pub size: [u32; 2],
    /// Whether the frames show the whole sphere.
    pub sphere: bool,
    /// Checksum of the lens file, for two fisheye circles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lenses: Option<String>,
    /// Grid, order and rotations of the faces, for cubes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cube: Option<String>,
    /// Version of the measurements.
    pub version: u32,
}

impl MeasurementKey {
    /// Describes a video for [`Selection::read_measurements`].
    #[must_use]
    pub fn new(video: &Video, shows: &FrameContent) -> Self {
        let folded = match shows {
            FrameContent::Projected(folded) => Some(&**folded),
            FrameContent::Sphere | FrameContent::Pinhole => None,
        };
        let lenses = match folded {
            Some(Projection::Fisheye(lenses)) => Some(lenses),
            _ => None,
        };
        let cube = match folded {
            Some(Projection::Cube(cube)) => Some(cube.faces.to_text()),
            _ => None,
        };
        let file = source_frame_from_files("film", vec![video.path.clone()]);
        Self {
            video: video.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            bytes: file.bytes,
            modified: file.modified,
            start: video.choice.start,
            end: video.choice.end,
            size: video.size,
            sphere: *shows != FrameContent::Pinhole,
            lenses: lenses.map(|lenses| format!("{:016x}", xxh3_64(lenses.to_json().as_bytes()))),
            cube,
            version: MEASURED_VERSION,
        }
    }
}

/// Measurements of a frame and whether it is kept: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// Frame number between start and end, from 0.
    pub frame: usize,
    /// Time stamp, seconds from the beginning of the file.
    pub time: f64,
    /// Sharpness: gradients relative to the median of nearby frames; 1 = as sharp as they are.
    pub sharpness: f64,
    /// Exposure: mean light in stops above middle grey.
    pub exposure: f64,
    /// Rotation since the previous frame, axis times degrees, in image axes (x right, y down, z forward).
    pub rotation: Option<[f64; 3]>,
    /// Parallax: angular displacement of the corners since frame `reference` after removing the rotation, degrees: the
    /// median on the sphere, a high quantile in an ordinary image.
    pub parallax: Option<f64>,
    /// Direction of the camera's motion since frame `reference`, a unit vector in image axes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<[f64; 3]>,
    /// The frame whose corners were tracked.
    pub reference: usize,
    /// Accumulated parallax from the first frame on, degrees.
    pub path: f64,
    /// Number of tracked corners.
    pub tracks: usize,
    /// Distance along the GPS track from the first frame that it covers, metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metres: Option<f64>,
    /// Whether it duplicates the previous frame.
    pub duplicate: bool,
    /// Whether the frame is selected.
    pub kept: bool,
    /// Why it is kept or dropped.
    pub reason: FrameReason,
    /// Name of its image, if kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl FrameRecord {
    /// A frame before the selection, with values rounded to their meaningful digits.
    #[must_use]
    pub fn new(frame: usize, time: f64, sight: &FrameMotion) -> Self {
        Self {
            frame,
            time: rounded(time, 1e6),
            sharpness: rounded(sight.sharpness, 1e4),
            exposure: rounded(sight.exposure, 1e3),
            rotation: sight.rotation.map(|r| r.map(|v| rounded(v, 1e4))),
            parallax: sight.parallax.map(|v| rounded(v, 1e4)),
            way: sight.direction.map(|way| way.map(|v| rounded(v, 1e3))),
            reference: sight.reference,
            path: rounded(sight.path, 1e4),
            tracks: sight.tracks,
            metres: None,
            duplicate: sight.is_duplicate,
            kept: false,
            reason: FrameReason::Near,
            name: None,
        }
    }
}

fn rounded(value: f64, parts: f64) -> f64 {
    let rounded = (value * parts).round() / parts;
    // Avoid negative zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Why a selection cannot be made or written.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The video contains no frames.
    #[error("{}: video: gave no frame", .0.display())]
    NoFrame(PathBuf),
}

/// The frames of a video with the selection.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The video and the options of the selection.
    pub header: SelectionHeader,
    /// The frames of the video, in order.
    pub lines: Vec<FrameRecord>,
}

impl Selection {
    /// Selects among measured frames.
    ///
    /// # Errors
    /// [`SelectionError::NoFrame`] if `lines` is empty.
    pub fn new(
        video: &Video,
        film: MeasurementKey,
        mut lines: Vec<FrameRecord>,
        notes: Vec<String>,
        wanted: &SelectionCriteria,
    ) -> Result<Self, SelectionError> {
        if lines.is_empty() {
            return Err(SelectionError::NoFrame(video.path.clone()));
        }
        let turn = super::choose::rotation_step(film.sphere, film.size);
        let used_step = select_frames(&mut lines, wanted, turn);
        let mut kept = 0;
        for line in &mut lines {
            line.name = line.kept.then(|| format!("frame_{kept:06}"));
            kept += usize::from(line.kept);
        }
        let is_space = wanted.select == SelectBy::Space;
        let header = SelectionHeader {
            schema: 1,
            kind: "frames".to_owned(),
            film,
            select: wanted.select,
            fps: (wanted.select == SelectBy::Time).then_some(wanted.fps),
            step: is_space.then_some(wanted.step),
            used_step: is_space.then(|| rounded(used_step, 1e4)),
            step_metres: metres_per_degree(&lines)
                .filter(|_| is_space)
                .map(|metres| rounded(metres * used_step, 1e3)),
            max_frames: wanted.max_frames,
            frames: lines.len(),
            kept,
            notes,
        };
        Ok(Self { header, lines })
    }

    /// Reads a selection; `None` if the file is missing, malformed or incomplete.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        let text = input::read_to_string(path, MAX_BYTES).ok()?;
        let mut rows = text.lines();
        let header = serde_json::from_str(rows.next()?).ok()?;
        let lines: Option<Vec<FrameRecord>> = rows.map(|row| serde_json::from_str(row).ok()).collect();
        let choice = Self { header, lines: lines? };
        let Self { header: SelectionHeader { frames, .. }, lines } = &choice;
        let is_whole = lines.len() == *frames && lines.iter().enumerate().all(|(k, line)| line.frame == k);
        is_whole.then_some(choice)
    }

    /// Numbers of the kept frames.
    #[must_use]
    pub fn kept_frames(&self) -> Vec<usize> {
        self.lines.iter().filter(|line| line.kept).map(|line| line.frame).collect()
    }

    /// Number of kept (or dropped) frames per reason.
    #[must_use]
    pub fn reasons(&self, kept: bool) -> BTreeMap<FrameReason, usize> {
        let mut reasons = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.kept == kept) {
            *reasons.entry(line.reason).or_insert(0) += 1;
        }
        reasons
    }

    /// Content of the file.
    #[must_use]
    pub fn to_jsonl(&self) -> String {
        let mut text = String::new();
        let mut add = |line: serde_json::Result<String>| {
            // Serialising plain numbers and names cannot fail.
            text.push_str(&line.unwrap_or_default());
            text.push('\n');
        };
        add(serde_json::to_string(&self.header));
        self.lines.iter().for_each(|line| add(serde_json::to_string(line)));
        text
    }

    /// Writes `frames.jsonl`.
    ///
    /// # Errors
    /// The file cannot be written, or is there already with [`Overwrite::Refuse`].
    pub fn write(&self, path: &Path, overwrite: Overwrite) -> Result<(), SelectionError> {
        let options = WriteOptions { overwrite, ..WriteOptions::default() };
        write_atomic_with(&Disk, path, &options, |file| file.write_all(self.to_jsonl().as_bytes()))?;
        Ok(())
    }

    /// Sets the distance along a GPS track at each frame, metres; `None` where the track does not cover it.
    pub fn set_metres(lines: &mut [FrameRecord], metres: &[Option<f64>]) {
        for (line, metres) in lines.iter_mut().zip(metres) {
            line.metres = metres.map(|metres| rounded(metres, 1e3));
        }
    }

    /// Measurements of the same video from an earlier selection's file, with their warnings; `None` if there are none.
    #[must_use]
    pub fn read_measurements(path: &Path, film: &MeasurementKey) -> Option<(Vec<FrameRecord>, Vec<String>)> {
        let Self { header, lines } = Self::read(path).filter(|choice| choice.header.film == *film)?;
        // Metres come from the track of the earlier run, not from the video.
        let lines = lines.into_iter().map(|line| FrameRecord { metres: None, ..line }).collect();
        Some((lines, header.notes))
    }
}
