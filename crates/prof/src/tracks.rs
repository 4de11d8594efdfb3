//! Intervals that were measured elsewhere: on a device, around a transfer.

use serde::{Deserialize, Serialize};

use crate::recorder::MAX_COUNTERS;
use crate::stats::Stats;

/// An interval on a track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Owner of the time: `gpu`, `gpu transfers`.
    pub track: &'static str,
    /// Name of the work, such as a stage.
    pub name: &'static str,
    /// Start, ns of [`clock_ns`](crate::clock_ns).
    pub start_ns: u64,
    /// Duration in ns.
    pub duration_ns: u64,
    /// Lower bound of the bytes moved; 0 = not known.
    pub bytes: f64,
}

/// Statistics of the intervals with one name on one track.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackRow {
    /// Name of the track.
    pub track: String,
    /// Name of the work.
    pub name: String,
    /// Number of intervals.
    pub count: u64,
    /// Total time of all intervals, ms.
    pub total_ms: f64,
    /// Mean time, ms.
    pub mean_ms: f64,
    /// Sample standard deviation, ms.
    pub std_ms: f64,
    /// Shortest interval, ms.
    pub min_ms: f64,
    /// Median, within [`Profile::median_relative_error`](crate::Profile::median_relative_error).
    pub median_ms: f64,
    /// Longest interval, ms.
    pub max_ms: f64,
    /// Mean of the lower bounds of the bytes moved; 0 = not known.
    pub bytes: f64,
    /// Bytes divided by time; 0 = not known.
    pub gb_per_s: f64,
}

/// Statistics of all tracks: rows grouped by track, both in the order of first occurrence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks(Vec<Track>);

#[derive(Clone, Debug)]
struct Track {
    track: &'static str,
    name: &'static str,
    ns: Stats,
    bytes: Stats,
}

impl Tracks {
    /// The row with this name, created if needed; `None` if the maximum number is reached.
    fn row(&mut self, track: &'static str, name: &'static str) -> Option<&mut Track> {
        let found = self.0.iter().position(|row| (row.track, row.name) == (track, name));
        let at = match found {
            Some(at) => at,
            None if self.0.len() < MAX_COUNTERS => {
                let behind =
                    self.0.iter().rposition(|row| row.track == track).map_or(self.0.len(), |at| at + 1);
                self.0.insert(behind, Track { track, name, ns: Stats::default(), bytes: Stats::default() });
                behind
            }
            None => return None,
        };
        self.0.get_mut(at)
    }

    pub(crate) fn add(&mut self, interval: &Interval) {
        if let Some(row) = self.row(interval.track, interval.name) {
            row.ns.add(interval.duration_ns as f64);
            row.bytes.add(if interval.bytes.is_finite() { interval.bytes.max(0.0) } else { 0.0 });
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for from in &other.0 {
            if let Some(row) = self.row(from.track, from.name) {
                row.ns.merge(&from.ns);
                row.bytes.merge(&from.bytes);
            }
        }
    }

    pub(crate) fn rows(&self) -> Vec<TrackRow> {
        let row = |row: &Track| {
            let total_ns = row.ns.mean * row.ns.count as f64;
            TrackRow {
                track: row.track.to_owned(),
                name: row.name.to_owned(),
                count: row.ns.count,
                total_ms: total_ns / 1e6,
                mean_ms: row.ns.mean / 1e6,
                std_ms: row.ns.std() / 1e6,
                min_ms: row.ns.min_or_zero() / 1e6,
                median_ms: row.ns.median() / 1e6,
                max_ms: row.ns.max / 1e6,
                bytes: row.bytes.mean,
                gb_per_s: if row.ns.mean > 0.0 { row.bytes.mean / row.ns.mean } else { 0.0 },
            }
        };
        self.0.iter().map(row).collect()
    }
}
