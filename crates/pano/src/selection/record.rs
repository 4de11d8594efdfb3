//! `frames.jsonl`: a line about the film and the choice, then a line for each of its frames.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, Overwrite, WriteError, WriteOptions, write_atomic_with};
use gausset_io::input;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::along::metres_a_degree;
use super::choose::choose;
use super::{Reason, Select, Shows, Wanted};
use crate::frames::source_frame;
use crate::motion::Sight;
use crate::projection::Projection;
use crate::video::Video;

/// Its usual name.
pub const FILE: &str = "frames.jsonl";
/// Changes when the same film would give other measurements.
const MEASURED_VERSION: u32 = 2;
/// Longest file that is read.
const MAX_BYTES: u64 = 1 << 30;

/// The first line: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of this form.
    pub schema: u32,
    /// `frames`.
    pub kind: String,
    /// What was measured.
    #[serde(flatten)]
    pub film: Measured,
    /// By what frames are chosen.
    pub select: Select,
    /// Frames a second, by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// Degrees of parallax between neighbours that were asked for, by space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// Those that were used, so that not more than `max_frames` are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_step: Option<f64>,
    /// Metres that such a step stands for where the track tells the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_metres: Option<f64>,
    /// At most so many frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frames: Option<usize>,
    /// Frames of the film between start and end.
    pub frames: usize,
    /// Those that are kept.
    pub kept: usize,
    /// What was found wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What measurements depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the video.
    pub video: String,
    /// Its length.
    pub bytes: u64,
    /// Its time of change, seconds since 1970.
    pub modified: u64,
    /// First second.
    pub start: f64,
    /// Last second.
    pub end: Option<f64>,
    /// Width and height of its frames, px.
    pub size: [u32; 2],
    /// Whether they are panoramas.
    pub sphere: bool,
    /// Sum of the lens file, if two fisheye circles are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lenses: Option<String>,
    /// Grid, letters and turns of the faces, if they are cubes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cube: Option<String>,
    /// Version of the measurements.
    pub version: u32,
}

impl Measured {
    /// What measurements of a video depend on.
    #[must_use]
    pub fn of(video: &Video, shows: &Shows) -> Self {
        let folded = match shows {
            Shows::Folded(folded) => Some(&**folded),
            Shows::Sphere | Shows::Pinhole => None,
        };
        let lenses = match folded {
            Some(Projection::Fisheye(lenses)) => Some(lenses),
            _ => None,
        };
        let cube = match folded {
            Some(Projection::Cube(cube)) => Some(cube.faces.text()),
            _ => None,
        };
        let file = source_frame("film", vec![video.path.clone()]);
        Self {
            video: video.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            bytes: file.bytes,
            modified: file.modified,
            start: video.choice.start,
            end: video.choice.end,
            size: video.size,
            sphere: *shows != Shows::Pinhole,
            lenses: lenses.map(|lenses| format!("{:016x}", xxh3_64(lenses.to_json().as_bytes()))),
            cube,
            version: MEASURED_VERSION,
        }
    }
}

/// A frame: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its number between start and end, from 0.
    pub frame: usize,
    /// Seconds from the beginning of the file, by its time stamp.
    pub time: f64,
    /// Gradients relative to the median of the neighbours: 1 = as sharp as they are.
    pub sharpness: f64,
    /// Mean light in stops above middle grey.
    pub exposure: f64,
    /// Turn since the frame before, axis times degrees in the picture's axes (x right, y down, z forward).
    pub rotation: Option<[f64; 3]>,
    /// Median angle of the corners' ways since frame `reference`, once the turn is taken out, degrees.
    pub parallax: Option<f64>,
    /// Which way the camera went since frame `reference`, a unit vector in the picture's axes, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<[f64; 3]>,
    /// The frame whose corners were followed.
    pub reference: usize,
    /// Parallax from the first frame on, degrees.
    pub path: f64,
    /// Corners that were found again.
    pub tracks: usize,
    /// Way along a track from the first frame that it knows, metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metres: Option<f64>,
    /// Whether it is the frame before it again.
    pub duplicate: bool,
    /// Whether it is taken.
    pub kept: bool,
    /// Why, or why not.
    pub reason: Reason,
    /// Name of its picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Line {
    /// A frame that nobody has decided about; numbers with as many digits as they are good for.
    #[must_use]
    pub fn of(frame: usize, time: f64, sight: &Sight) -> Self {
        Self {
            frame,
            time: rounded(time, 1e6),
            sharpness: rounded(sight.sharpness, 1e4),
            exposure: rounded(sight.exposure, 1e3),
            rotation: sight.rotation.map(|r| r.map(|v| rounded(v, 1e4))),
            parallax: sight.parallax.map(|v| rounded(v, 1e4)),
            way: sight.way.map(|way| way.map(|v| rounded(v, 1e3))),
            reference: sight.reference,
            path: rounded(sight.path, 1e4),
            tracks: sight.tracks,
            metres: None,
            duplicate: sight.is_duplicate,
            kept: false,
            reason: Reason::Near,
            name: None,
        }
    }
}

fn rounded(value: f64, parts: f64) -> f64 {
    let rounded = (value * parts).round() / parts;
    // No negative zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Why a choice cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The film gave no frame.
    #[error("{}: video: gave no frame", .0.display())]
    NoFrame(PathBuf),
}

/// The frames of a film, and which of them are taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The film and the choice.
    pub header: Header,
    /// Its frames, in order.
    pub lines: Vec<Line>,
}

impl Selection {
    /// Chooses among measured frames.
    ///
    /// # Errors
    /// There is none.
    pub fn new(
        video: &Video,
        film: Measured,
        mut lines: Vec<Line>,
        notes: Vec<String>,
        wanted: &Wanted,
    ) -> Result<Self, SelectionError> {
        if lines.is_empty() {
            return Err(SelectionError::NoFrame(video.path.clone()));
        }
        let turn = super::choose::turn_between(film.sphere, film.size);
        let used_step = choose(&mut lines, wanted, turn);
        let mut kept = 0;
        for line in &mut lines {
            line.name = line.kept.then(|| format!("frame_{kept:06}"));
            kept += usize::from(line.kept);
        }
        let is_space = wanted.select == Select::Space;
        let header = Header {
            schema: 1,
            kind: "frames".to_owned(),
            film,
            select: wanted.select,
            fps: (wanted.select == Select::Time).then_some(wanted.fps),
            step: is_space.then_some(wanted.step),
            used_step: is_space.then(|| rounded(used_step, 1e4)),
            step_metres: metres_a_degree(&lines)
                .filter(|_| is_space)
                .map(|metres| rounded(metres * used_step, 1e3)),
            max_frames: wanted.max_frames,
            frames: lines.len(),
            kept,
            notes,
        };
        Ok(Self { header, lines })
    }

    /// The choice that a file tells; nothing if there is none, or not a line for each frame.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        let text = input::read_to_string(path, MAX_BYTES).ok()?;
        let mut rows = text.lines();
        let header = serde_json::from_str(rows.next()?).ok()?;
        let lines: Option<Vec<Line>> = rows.map(|row| serde_json::from_str(row).ok()).collect();
        let choice = Self { header, lines: lines? };
        let Self { header: Header { frames, .. }, lines } = &choice;
        let is_whole = lines.len() == *frames && lines.iter().enumerate().all(|(k, line)| line.frame == k);
        is_whole.then_some(choice)
    }

    /// Numbers of the frames that are taken.
    #[must_use]
    pub fn picks(&self) -> Vec<usize> {
        self.lines.iter().filter(|line| line.kept).map(|line| line.frame).collect()
    }

    /// How many frames there are for each reason, of those that are kept or not.
    #[must_use]
    pub fn reasons(&self, kept: bool) -> BTreeMap<Reason, usize> {
        let mut reasons = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.kept == kept) {
            *reasons.entry(line.reason).or_insert(0) += 1;
        }
        reasons
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut add = |line: serde_json::Result<String>| {
            // Plain numbers and names always have a form.
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
        write_atomic_with(&Disk, path, &options, |file| file.write_all(self.text().as_bytes()))?;
        Ok(())
    }

    /// Writes down how far the camera had come at each frame, metres along a track; `None` where it does not tell.
    pub fn set_metres(lines: &mut [Line], metres: &[Option<f64>]) {
        for (line, metres) in lines.iter_mut().zip(metres) {
            line.metres = metres.map(|metres| rounded(metres, 1e3));
        }
    }

    /// Measurements of the same film that an earlier choice has left in a file, with what was found wrong; nothing if
    /// there are none.
    #[must_use]
    pub fn known(path: &Path, film: &Measured) -> Option<(Vec<Line>, Vec<String>)> {
        let Self { header, lines } = Self::read(path).filter(|choice| choice.header.film == *film)?;
        // The track of another choice is no measurement of the film.
        let lines = lines.into_iter().map(|line| Line { metres: None, ..line }).collect();
        Some((lines, header.notes))
    }
}
