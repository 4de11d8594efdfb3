//! Distance travelled in steps: by parallax, or by the metres of a GPS track where parallax is unreliable.

use gausset_core::statistics::upper_median;

use super::record::FrameRecord;

/// Seconds before and after a frame over which parallax and metres are compared.
const WINDOW_SECONDS: f64 = 1.0;
/// Factor by which parallax may fall below the value expected from the metres; beyond it the scene is far away and the
/// track is used.
const MAX_RATIO: f64 = 2.0;
/// Fraction of the video's median number of tracked corners below which parallax is unreliable.
const MIN_TRACKS_FRACTION: f64 = 0.25;
/// Speed below which a receiver counts as stationary, m/s.
const STATIONARY_SPEED: f64 = 0.2;
/// Minimum parallax from which metres per degree are estimated, degrees.
const MIN_PARALLAX: f64 = 0.5;
/// Metres per degree if they cannot be estimated: two steps of 4 degrees per second at 1.4 m/s, walking speed.
const DEFAULT_METRES_PER_DEGREE: f64 = 0.175;
/// Steps per second where neither parallax nor track is known.
const UNKNOWN_STEP_RATE: f64 = 2.0;

/// Distance travelled from the first frame.
pub(super) struct TravelledDistance {
    /// Distance at each frame, in steps.
    pub(super) steps: Vec<f64>,
    /// Whether the distance from the previous frame is from the track.
    pub(super) by_track: Vec<bool>,
}

impl TravelledDistance {
    /// Accumulates the distance with steps of `step` degrees.
    pub(super) fn new(lines: &[FrameRecord], step: f64) -> Self {
        let blind = blind_seconds(lines);
        let track = metres_per_degree(lines);
        let usual = median_tracks(lines);
        let (mut steps, mut by_track) = (vec![0.0; lines.len()], vec![false; lines.len()]);
        for k in 1..lines.len() {
            let doubted = track.and_then(|ratio| {
                let around = Window::new(lines, k)?;
                let is_doubted =
                    around.metres > MAX_RATIO * ratio * around.degrees || around.has_few_tracks(usual);
                let metres = lines[k].metres? - lines[k - 1].metres?;
                (around.is_moving() && is_doubted).then_some(metres / (ratio * step))
            });
            by_track[k] = doubted.is_some();
            let seen =
                (lines[k].path - lines[k - 1].path) / step + UNKNOWN_STEP_RATE * (blind[k] - blind[k - 1]);
            steps[k] = steps[k - 1] + doubted.unwrap_or(seen);
        }
        Self { steps, by_track }
    }
}

/// Metres, degrees and seconds from one second before a frame to one second after it.
struct Window<'a> {
    lines: &'a [FrameRecord],
    metres: f64,
    degrees: f64,
    seconds: f64,
}

impl<'a> Window<'a> {
    /// Sums around frame `k`; `None` where the track has a gap.
    fn new(lines: &'a [FrameRecord], k: usize) -> Option<Self> {
        let from = lines.partition_point(|line| line.time < lines[k].time - WINDOW_SECONDS);
        let until = lines.partition_point(|line| line.time <= lines[k].time + WINDOW_SECONDS);
        let lines = lines.get(from..until)?;
        let (first, last) = (lines.first()?, lines.last()?);
        let metres = last.metres? - first.metres?;
        Some(Self { lines, metres, degrees: last.path - first.path, seconds: last.time - first.time })
    }

    fn is_moving(&self) -> bool {
        self.metres > STATIONARY_SPEED * self.seconds
    }

    fn has_few_tracks(&self, usual: f64) -> bool {
        let found: Vec<f64> = track_counts(self.lines).collect();
        upper_median(found).is_none_or(|tracks| tracks < MIN_TRACKS_FRACTION * usual)
    }
}

/// Median metres per degree of parallax in this video; `None` without a track.
pub(super) fn metres_per_degree(lines: &[FrameRecord]) -> Option<f64> {
    lines.iter().find(|line| line.metres.is_some())?;
    let usual = median_tracks(lines);
    let ratio = |k: usize| {
        let around = Window::new(lines, k)?;
        let is_known = around.lines.iter().all(|line| line.parallax.is_some() || line.frame == 0);
        let tells =
            is_known && around.is_moving() && around.degrees > MIN_PARALLAX && !around.has_few_tracks(usual);
        tells.then_some(around.metres / around.degrees)
    };
    Some(upper_median((0..lines.len()).filter_map(ratio).collect()).unwrap_or(DEFAULT_METRES_PER_DEGREE))
}

fn track_counts(lines: &[FrameRecord]) -> impl Iterator<Item = f64> {
    lines.iter().filter(|line| line.parallax.is_some()).map(|line| line.tracks as f64)
}

fn median_tracks(lines: &[FrameRecord]) -> f64 {
    upper_median(track_counts(lines).collect()).unwrap_or(0.0)
}

/// Accumulated seconds up to each frame in which the motion is unknown: between two measured frames that were not
/// compared with the same reference. Duplicates count no time.
fn blind_seconds(lines: &[FrameRecord]) -> Vec<f64> {
    let mut blind = vec![0.0; lines.len()];
    let (mut seconds, mut known) = (0.0, 0usize);
    for k in 1..lines.len() {
        let is_last = k + 1 == lines.len();
        if lines[k].parallax.is_none() && !is_last {
            continue;
        }
        // After a short loss the frame is measured from the same reference as before, so no motion is missing.
        let goes_on = lines[k].parallax.is_some() && lines[k].reference <= known;
        for at in known + 1..=k {
            if !goes_on && !lines[at].duplicate {
                seconds += (lines[at].time - lines[at - 1].time).max(0.0);
            }
            blind[at] = seconds;
        }
        known = k;
    }
    blind
}
