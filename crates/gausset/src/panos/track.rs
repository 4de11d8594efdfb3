//! GPS tracks: scale, georeference and positions of panoramas.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gausset_core::se3;
use gausset_io::input;
use gausset_pano::export::{AlignedPoses, Georeference};
use gausset_pano::gps_track::{self, GpsTrack, TimeOrigin, TrackCoordinates};
use gausset_pano::metadata::Metadata;
use gausset_pano::selection::{FRAMES_FILE, FrameRecord, SelectBy, SelectionCriteria};
use gausset_pano::split::SplitDescription;
use gausset_sfm::track::{
    ClockOffset, GpsFix, MIN_FRAMES, TimedPose, Track, TrackFit, find_offset, fit_track,
};
use gausset_sfm::{gps, speed};

use crate::{Failure, Host};

/// Size limit of a file that is read for its times.
const MAX_BYTES: u64 = 1 << 30;

/// A GPS track and its clock offset.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackOptions {
    /// GPX, NMEA or CSV file.
    pub path: PathBuf,
    /// Clock offset, added to the time of a frame to get that of the track.
    pub offset: TrackOffset,
}

impl TrackOptions {
    /// Refuses a track that does not affect the frame selection.
    pub(super) fn check(track: Option<&Self>, wanted: Option<&SelectionCriteria>) -> Result<(), Failure> {
        match track {
            Some(_) if wanted.is_none_or(|wanted| wanted.select != SelectBy::Space) => Err(Failure::usage(
                "⟨track⟩: applies to selection by space only; leave it out, or take ⟨select = space⟩",
            )),
            _ => Ok(()),
        }
    }
}

/// Offset between the clocks of camera and track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrackOffset {
    /// A given offset, in seconds.
    Seconds(f64),
    /// Estimated from the poses.
    Auto,
}

/// A track, and the times of the frames on its clock.
pub(super) struct TrackWithTimes {
    choice: TrackOptions,
    fixes: Vec<GpsFix>,
    /// Geographic origin of the local metric coordinates of the fixes.
    origin: Option<gps::Geodetic>,
    /// Time of each frame in seconds.
    times: Vec<Option<f64>>,
}

/// Reads a track and the times of the frames of a split.
pub(super) fn open(
    choice: &TrackOptions,
    folder: &Path,
    description: &SplitDescription,
    host: &mut Host<'_>,
) -> Result<TrackWithTimes, Failure> {
    let found = gps_track::read(&choice.path)?;
    if let Some(note) = &found.note {
        host.warn("track", format!("{}: {note}", choice.path.display()));
    }
    let (mut times, frames_clock) = times_of(folder, description);
    let known = times.iter().flatten().count();
    if known < MIN_FRAMES {
        return Err(Failure::new(
            "track",
            format!(
                "{}: times: {known} of {} frames have one (expected {MIN_FRAMES} or more: a video split with ⟨select = space⟩ or ⟨select = time⟩, or JPEG views of images with an EXIF date)",
                folder.display(),
                times.len()
            ),
        ));
    }
    // If one clock is UTC and the other starts at an arbitrary time, count both from their first value.
    let begin = found.fixes.first().map_or(0.0, |fix| fix.time);
    let mut since = 0.0;
    match (frames_clock, found.time_origin) {
        (TimeOrigin::Relative, TimeOrigin::Utc) => since = begin,
        (TimeOrigin::Utc, TimeOrigin::Relative) => {
            let first = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            since = begin;
            times.iter_mut().flatten().for_each(|time| *time -= first);
        }
        _ => {}
    }
    let origin = origin_of(&found);
    Ok(TrackWithTimes { choice: choice.clone(), fixes: fixes_of(&found, origin, since), origin, times })
}

/// Geographic origin of the local coordinates: the first fix; `None` if the track is already in metres.
fn origin_of(found: &GpsTrack) -> Option<gps::Geodetic> {
    match found.coordinates {
        TrackCoordinates::Geodetic => found.fixes.first().map(|fix| fix.position),
        TrackCoordinates::Local => None,
    }
}

/// Distance travelled along a track during a video, used before its frames have poses.
pub(crate) struct VideoTrack {
    path: PathBuf,
    /// The fixes and the clock offset; `None` = the track is not used.
    fixes_and_offset: Option<(Vec<GpsFix>, f64)>,
}

impl VideoTrack {
    /// Reads a track. With an offset of `Auto`, which needs poses, frames are selected without the track, with a
    /// warning.
    ///
    /// # Errors
    /// The track cannot be read.
    pub(crate) fn open(choice: &TrackOptions, host: &mut Host<'_>) -> Result<Self, Failure> {
        let (path, found) = (choice.path.clone(), gps_track::read(&choice.path)?);
        let TrackOffset::Seconds(offset) = choice.offset else {
            let line = "offset: can be estimated from poses only; frames are selected without the track";
            host.warn("track", format!("{}: {line}", path.display()));
            return Ok(Self { path, fixes_and_offset: None });
        };
        let since = if found.time_origin == TimeOrigin::Utc {
            found.fixes.first().map_or(0.0, |fix| fix.time)
        } else {
            0.0
        };
        Ok(Self { path, fixes_and_offset: Some((fixes_of(&found, origin_of(&found), since), offset)) })
    }

    /// Distance travelled in metres at these times of the video in seconds.
    ///
    /// # Errors
    /// The track covers none of them.
    pub(crate) fn distances(&self, times: &[f64]) -> Result<Vec<Option<f64>>, Failure> {
        let Some((fixes, offset)) = &self.fixes_and_offset else { return Ok(vec![None; times.len()]) };
        let moments: Vec<f64> = times.iter().map(|time| time + offset).collect();
        let metres = speed::distances(fixes, &moments);
        if metres.iter().all(Option::is_none) {
            let ends = [fixes.first(), fixes.last()].map(|fix| fix.map_or(0.0, |fix| fix.time));
            let frames = [moments.first(), moments.last()].map(|at| at.copied().unwrap_or(0.0));
            return Err(Failure::new(
                "track",
                format!(
                    "{}: times: from {:.1} to {:.1} s, the frames from {:.1} to {:.1} s (expected an overlap; ⟨track-offset⟩ is added to the frame times)",
                    self.path.display(),
                    ends[0],
                    ends[1],
                    frames[0],
                    frames[1]
                ),
            ));
        }
        Ok(metres)
    }
}

fn fixes_of(found: &GpsTrack, origin: Option<gps::Geodetic>, since: f64) -> Vec<GpsFix> {
    let fix = |fix: &gps_track::GpsFix| GpsFix {
        time: fix.time - since,
        position: origin.map_or(fix.position, |origin| gps::to_local(fix.position, origin)),
        heading: fix.heading,
        tilt: fix.tilt,
    };
    found.fixes.iter().map(fix).collect()
}

/// Time of each frame: time stamps of the video, or EXIF dates of the images.
fn times_of(folder: &Path, description: &SplitDescription) -> (Vec<Option<f64>>, TimeOrigin) {
    if let Ok(text) = input::read_to_string(&folder.join(FRAMES_FILE), MAX_BYTES) {
        let lines = text.lines().skip(1).filter_map(|row| serde_json::from_str::<FrameRecord>(row).ok());
        let times: BTreeMap<String, f64> = lines.filter_map(|line| Some((line.name?, line.time))).collect();
        let of = |name: &String| times.get(description.source_frame(name)).copied();
        return (description.frames.iter().map(of).collect(), TimeOrigin::Relative);
    }
    let of = |frame: usize| {
        let path = folder.join("images").join(description.image_name(frame, 0));
        let bytes = input::read(&path, MAX_BYTES).ok()?;
        Metadata::from_jpeg(&bytes).capture_time()
    };
    ((0..description.frames.len()).map(of).collect(), TimeOrigin::Utc)
}

impl TrackWithTimes {
    /// Fits the track to the frames with a pose; warns and returns `None` if it gives no scale.
    pub(super) fn fit(&self, poses: &AlignedPoses, host: &mut Host<'_>) -> Option<TrackFit> {
        let frame = |(frame, time): (&gausset_pano::export::FramePose, &Option<f64>)| {
            Some(TimedPose { time: (*time)?, pose: frame.pose()? })
        };
        let mut frames: Vec<TimedPose> = poses.frames.iter().zip(&self.times).filter_map(frame).collect();
        frames.sort_by(|a, b| a.time.total_cmp(&b.time));
        let mut between: Vec<f64> = frames.windows(2).map(|pair| pair[1].time - pair[0].time).collect();
        between.sort_by(f64::total_cmp);
        let way = Track::new(&self.fixes, between.get(between.len() / 2).copied().unwrap_or(0.0));
        let path = self.choice.path.display();
        let (offset, is_found) = match self.choice.offset {
            TrackOffset::Seconds(seconds) => (ClockOffset { seconds, deviation: 0.0 }, false),
            TrackOffset::Auto => match find_offset(&frames, &way) {
                Some(offset) => (offset, true),
                None => {
                    let line = "offset: the track covers most of the frames at none";
                    host.warn("track", format!("{path}: {line}; it is not used"));
                    return None;
                }
            },
        };
        let found = fit_track(&frames, &way, offset, is_found);
        let placed =
            frames.iter().filter(|frame| way.position(frame.time + offset.seconds).is_some()).count();
        match &found {
            None if placed < MIN_FRAMES => {
                let line = "times: fewer than three frames were taken during the track";
                host.warn(
                    "track",
                    format!("{path}: {line}; it is not used (⟨track-offset = auto⟩ estimates the offset)"),
                );
            }
            None => {
                let line = "positions: all frames are at one position, which gives no scale; it is not used";
                host.warn("track", format!("{path}: {line}"));
            }
            Some(fit) if !fit.is_significant() => {
                let line = format!(
                    "positions: {:.2} m from the frames at a spread of {:.2} m, which gives no scale; it is not used",
                    fit.residual, fit.spread
                );
                host.warn("track", format!("{path}: {line}"));
            }
            Some(fit) if fit.offset_deviation_s.is_some_and(|d| d.is_nan() || d > 1.0) => {
                host.warn(
                    "track",
                    format!("{path}: offset: is uncertain by more than a second; a trajectory with turns gives a better estimate"),
                );
            }
            Some(_) => {}
        }
        found.filter(TrackFit::is_significant)
    }

    /// Scales poses to metres and georeferences them, if the track fits.
    pub(super) fn scale_to_metres(&self, poses: &mut AlignedPoses, host: &mut Host<'_>) -> Option<TrackFit> {
        let fit = self.fit(poses, host)?;
        for translation in poses.frames.iter_mut().filter_map(|frame| frame.translation.as_mut()) {
            *translation = translation.map(|v| v * fit.scale);
        }
        poses.is_metric = true;
        poses.earth = Some(self.earth(&fit));
        Some(fit)
    }

    /// Georeference of a model that has been scaled by a fit.
    pub(super) fn earth(&self, fit: &TrackFit) -> Georeference {
        let name = self.choice.path.file_name().unwrap_or(self.choice.path.as_os_str());
        Georeference {
            track: name.to_string_lossy().into_owned(),
            origin: self.origin,
            rotation: se3::quaternion_from_rotation(&fit.similarity.rotation),
            translation: fit.similarity.translation,
            offset_s: fit.offset_s,
            offset_deviation_s: fit.offset_deviation_s.filter(|d| d.is_finite()),
            frames: fit.frames,
            residual_m: fit.residual,
            spread_m: fit.spread,
            looks: fit.looks,
        }
    }

    /// Track positions of the frames in the coordinates of the scaled model, and the standard deviation of a
    /// coordinate.
    pub(super) fn positions(&self, fit: &TrackFit) -> (Vec<Option<[f64; 3]>>, f64) {
        let way = Track::new(&self.fixes, f64::INFINITY);
        let back = se3::transpose(&fit.similarity.rotation);
        let place = |time: &Option<f64>| {
            let at = way.position((*time)? + fit.offset_s)?;
            Some(se3::mul_vec(&back, std::array::from_fn(|k| at[k] - fit.similarity.translation[k])))
        };
        // At least a millimetre: COLMAP needs a positive deviation.
        (self.times.iter().map(place).collect(), (fit.residual / 3.0f64.sqrt()).max(1e-3))
    }
}
