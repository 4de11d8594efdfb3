//! The track of a receiver, for the frames of a film and for poses.

use std::path::PathBuf;

use clap::Args;
use gausset_flow::panos::{TrackChoice, TrackOffset};

/// A track, and by how much its clock is off.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TrackFileArgs {
    /// Track of a receiver (GPX, NMEA, CSV): the way between frames of a video; metres and the place on the earth.
    #[arg(long, value_name = "FILE", help_heading = "Known before")]
    track: Option<PathBuf>,
    /// Seconds from the time of a frame to that of the track [default: 0]; auto finds them from poses.
    #[arg(
        long, value_name = "S|auto", requires = "track", help_heading = "Known before",
        value_parser = offset
    )]
    track_offset: Option<TrackOffset>,
}

fn offset(text: &str) -> Result<TrackOffset, String> {
    let seconds = || text.parse().ok().filter(|s: &f64| s.abs() <= 1e9).map(TrackOffset::Seconds);
    match text {
        "auto" => Ok(TrackOffset::Auto),
        _ => seconds().ok_or_else(|| "expected seconds or auto".to_owned()),
    }
}

impl TrackFileArgs {
    pub(crate) fn options(&self) -> Option<TrackChoice> {
        let offset = self.track_offset.unwrap_or(TrackOffset::Seconds(0.0));
        self.track.clone().map(|path| TrackChoice { path, offset })
    }
}
