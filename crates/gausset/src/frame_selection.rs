//! Frame selection for panoramic and ordinary video: options, measurement, selection.

use std::path::Path;

use gausset_pano::selection::{
    DEFAULT_FPS, DEFAULT_STEP, FRAMES_FILE, FrameContent, MeasurementKey, SelectBy, Selection,
    SelectionCriteria, SelectionError, measure_frames,
};
use gausset_pano::video::{Video, VideoError};

use crate::footage_options::SelectionOptions;
use crate::panos::track::{TrackOptions, VideoTrack};
use crate::{CountedItem, Event, Failure, Host, SelectionSummary, Stage};

/// Options that apply to one criterion only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Frames per second.
    pub(crate) fps: Option<f64>,
    /// Keep the sharpest of this many neighbouring frames.
    pub(crate) sharpest_of: Option<u32>,
    /// Maximum number of frames.
    pub(crate) max_frames: Option<u32>,
}

impl SelectionOptions {
    /// Resolves the options; `None` = take all frames without measuring them.
    pub(crate) fn resolve(&self, rates: Rates) -> Result<Option<SelectionCriteria>, Failure> {
        let Rates { fps, sharpest_of, max_frames } = rates;
        let select = match (self.select, fps, sharpest_of) {
            (Some(select), ..) => select,
            (None, _, Some(_)) => SelectBy::All,
            (None, Some(_), None) => SelectBy::Time,
            (None, None, None) => SelectBy::Space,
        };
        let idle = |option: &str, instead: &str| {
            let select = select.name();
            Err(Failure::usage(format!(
                "⟨{option}⟩: has no effect with ⟨select = {select}⟩; leave it out, or take ⟨select = {instead}⟩"
            )))
        };
        let is_asked = self.select.is_some();
        if self.step.is_some() && select != SelectBy::Space {
            return idle("step", "space");
        }
        if is_asked && fps.is_some() && select != SelectBy::Time {
            return idle("fps", "time");
        }
        if is_asked && sharpest_of.is_some() && select != SelectBy::All {
            return idle("sharpest-of", "all");
        }
        let wanted = SelectionCriteria {
            select,
            fps: fps.unwrap_or(DEFAULT_FPS),
            step: self.step.unwrap_or(DEFAULT_STEP),
            max_frames: max_frames.map(|most| most as usize),
        };
        Ok((select != SelectBy::All).then_some(wanted))
    }
}

impl From<VideoError> for Failure {
    fn from(error: VideoError) -> Self {
        match error {
            VideoError::Write(error) => error.into(),
            error @ VideoError::Video { .. } => Self::new("video", error),
        }
    }
}

/// Refuses a start time that is negative or not finite.
pub(crate) fn check_start(start: f64) -> Result<(), Failure> {
    if start.is_finite() && start >= 0.0 {
        return Ok(());
    }
    Err(Failure::usage(format!("⟨start⟩: expected a number from 0 on, found {start}")))
}

/// A video that cannot be read to its end, after frames of it were finished.
pub(crate) fn broken_video(error: VideoError) -> Failure {
    Failure::from(error).with_remedy(
        "finished frames are kept, and the same command resumes; ⟨end⟩ leaves out what cannot be read",
    )
}

impl From<SelectionError> for Failure {
    fn from(error: SelectionError) -> Self {
        match error {
            SelectionError::Write(error) => error.into(),
            error @ SelectionError::NoFrame(_) => Self::new("video", error),
        }
    }
}

/// Adds what to do where the images that could not be aligned are frames of a video: `folder` has their selection.
pub(crate) fn with_advice(failure: Failure, folder: &Path) -> Failure {
    if failure.code != "align" || !folder.join(FRAMES_FILE).is_file() {
        return failure;
    }
    failure.with_remedy(&format!(
        "take more frames of the video: ⟨step⟩ below {DEFAULT_STEP} degrees, or ⟨select = time⟩"
    ))
}

/// Warns of colours that cannot be converted.
pub(crate) fn warn_of_colours(video: &Video, host: &mut Host<'_>) {
    if let Some(warning) = video.colour_warning() {
        host.warn("the video", format!("{}: video: {warning}", video.path.display()));
    }
}

/// Measures all frames of a video, or reads the measurements of an earlier selection, and selects frames.
///
/// # Errors
/// ffmpeg fails, the video has no frame, or the job was asked to stop.
pub(crate) fn select(
    video: &Video,
    shows: &FrameContent,
    wanted: &SelectionCriteria,
    track: Option<&TrackOptions>,
    known: &Path,
    host: &mut Host<'_>,
) -> Result<Selection, Failure> {
    let way = track.map(|track| VideoTrack::open(track, host)).transpose()?;
    let film = MeasurementKey::new(video, shows);
    let (mut lines, notes) = match Selection::read_measurements(known, &film) {
        Some(known) => known,
        None => {
            let times = host.unless_stopped(video.frame_times(host.stop()))?;
            // Report a bad track before the slow measurement of all frames.
            if let Some(way) = &way {
                let expected = times.timed_frames().max(video.approximate_frames() as usize);
                way.distances(&(0..expected).map(|k| times.seconds(k)).collect::<Vec<_>>())?;
            }
            host.stage(Stage::LookAtFrames);
            host.report(Event::Begun {
                item: CountedItem::Frames,
                done: 0,
                total: video.approximate_frames(),
            });
            let stop = host.stop();
            let measured = measure_frames(video, shows, &times, stop, &mut |done| {
                host.report(Event::Done { done: done as u64, views_per_s: None });
            });
            host.report(Event::Ended);
            let lines = host.unless_stopped(measured)?;
            if host.is_stopping() {
                return Err(Failure::stopped());
            }
            (lines, times.warning.into_iter().collect())
        }
    };
    if let Some(way) = way {
        let times: Vec<f64> = lines.iter().map(|line| line.time).collect();
        Selection::set_metres(&mut lines, &way.distances(&times)?);
    }
    let selection = Selection::new(video, film, lines, notes, wanted)?;
    for note in &selection.header.notes {
        host.warn("the video", format!("{}: {note}", video.path.display()));
    }
    if let Some(line) = selection_warning(&selection) {
        host.warn("the video", format!("{}: {line}", video.path.display()));
    }
    host.report(Event::FramesChosen(SelectionSummary::new(&selection)));
    Ok(selection)
}

/// A warning about a selection based on too few measurements.
fn selection_warning(selection: &Selection) -> Option<String> {
    let (header, frames) = (&selection.header, selection.lines.len());
    if header.select != SelectBy::Space || frames < 2 {
        return None;
    }
    // The first frame has no predecessor to be compared with.
    let unknown = selection.lines[1..].iter().filter(|line| line.parallax.is_none()).count();
    if 2 * unknown > frames {
        return Some(format!(
            "motion of {unknown} of {frames} frames could not be measured (too small, too dark or no texture); these frames are selected by time"
        ));
    }
    (header.kept == 1 && header.max_frames != Some(1)).then(|| {
        format!("the camera does not move: 1 of {frames} frames is selected; use ⟨select = time⟩ for more")
    })
}
