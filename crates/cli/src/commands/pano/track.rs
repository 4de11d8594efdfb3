//! Arguments for a GPS track, which is used for frame selection and georeferencing.

use std::path::PathBuf;

use clap::Args;
use gausset::panos::{TrackOffset, TrackOptions};

/// Arguments for a GPS track and its clock offset.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TrackFileArgs {
    /// GPS track (GPX, NMEA, CSV) for the spacing of video frames, metric scale and georeferencing.
    #[arg(long, value_name = "FILE", help_heading = "Known before")]
    track: Option<PathBuf>,
    /// Time offset from frames to the GPS track, seconds; auto = estimate from poses [default: 0].
    #[arg(
        long, value_name = "S|auto", requires = "track", help_heading = "Known before",
        value_parser = parse_offset
    )]
    track_offset: Option<TrackOffset>,
}

fn parse_offset(text: &str) -> Result<TrackOffset, String> {
    let seconds = || text.parse().ok().filter(|s: &f64| s.abs() <= 1e9).map(TrackOffset::Seconds);
    match text {
        "auto" => Ok(TrackOffset::Auto),
        _ => seconds().ok_or_else(|| "expected seconds or auto".to_owned()),
    }
}

impl TrackFileArgs {
    pub(crate) fn options(&self) -> Option<TrackOptions> {
        let offset = self.track_offset.unwrap_or(TrackOffset::Seconds(0.0));
        self.track.clone().map(|path| TrackOptions { path, offset })
    }
}
