//! Comparison of two profiles: which stages changed, and by how much relative to their variation.

use std::fmt::Write;

use crate::profile::{Profile, Row, RowKind};
use crate::stats::MEDIAN_RELATIVE_ERROR;
use crate::table::{number, write_table};
use crate::tracks::TrackRow;

/// Changes below this many standard errors are noise.
const SIGNIFICANCE_THRESHOLD: f64 = 3.0;
/// Ratio of the standard error of a median to that of the mean, for a normal distribution: `sqrt(pi / 2)`.
const MEDIAN_ERROR: f64 = 1.253_3;

/// How a stage changed from one profile to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It takes less time.
    Faster,
    /// It takes more time.
    Slower,
    /// The difference is within its variation.
    Same,
    /// Only in the second profile.
    New,
    /// Only in the first profile.
    Gone,
}

impl ChangeKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "",
            Self::New => "new",
            Self::Gone => "gone",
        }
    }
}

/// A stage in two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Path of the row.
    pub path: String,
    /// Median time of a call before, ms.
    pub before_ms: f64,
    /// Median time of a call after, ms.
    pub after_ms: f64,
    /// Standard error of the difference of the medians, ms.
    pub error_ms: f64,
    /// Whether the change is significant.
    pub kind: ChangeKind,
}

impl Change {
    /// Increase of the median time of a call, ms.
    #[must_use]
    pub fn difference_ms(&self) -> f64 {
        self.after_ms - self.before_ms
    }
}

/// All spans that ended at least once and all work of devices in two profiles, largest difference first.
#[must_use]
pub fn changes(before: &Profile, after: &Profile) -> Vec<Change> {
    let (old, new) = (measured(before), measured(after));
    let find = |rows: &[Row], path: &str| rows.iter().find(|row| row.path == path).cloned();
    let mut changes: Vec<Change> =
        old.iter().map(|row| change(&row.path, Some(row), find(&new, &row.path).as_ref())).collect();
    let added = new.iter().filter(|row| find(&old, &row.path).is_none());
    changes.extend(added.map(|row| change(&row.path, None, Some(row))));
    changes.sort_by(|a, b| b.difference_ms().abs().total_cmp(&a.difference_ms().abs()));
    changes
}

/// Spans that ended, and intervals of devices by track and name.
fn measured(profile: &Profile) -> Vec<Row> {
    let spans = profile.rows.iter().filter(|row| row.kind == RowKind::Span && row.count > 0);
    let on_track = |row: &TrackRow| Row {
        path: format!("{}/{}", row.track, row.name),
        count: row.count,
        median_ms: row.median_ms,
        std_ms: row.std_ms,
        ..Row::default()
    };
    spans.cloned().chain(profile.tracks.iter().map(on_track)).collect()
}

fn change(path: &str, before: Option<&Row>, after: Option<&Row>) -> Change {
    let median = |row: Option<&Row>| row.map_or(0.0, |row| row.median_ms);
    // In addition to sampling error, the histogram limits a median to half a bucket.
    let variance = |row: Option<&Row>| {
        row.map_or(0.0, |row| {
            let chance = MEDIAN_ERROR * row.std_ms / (row.count.max(1) as f64).sqrt();
            let bucket = MEDIAN_RELATIVE_ERROR * row.median_ms;
            chance * chance + bucket * bucket
        })
    };
    let (before_ms, after_ms) = (median(before), median(after));
    let error_ms = (variance(before) + variance(after)).sqrt();
    let difference = after_ms - before_ms;
    let verdict = match (before, after) {
        (None, _) => ChangeKind::New,
        (_, None) => ChangeKind::Gone,
        _ if difference.abs() <= SIGNIFICANCE_THRESHOLD * error_ms => ChangeKind::Same,
        _ if difference < 0.0 => ChangeKind::Faster,
        _ => ChangeKind::Slower,
    };
    Change { path: path.to_owned(), before_ms, after_ms, error_ms, kind: verdict }
}

impl Profile {
    /// A table of the changes from this profile to another one, for a terminal.
    #[must_use]
    pub fn difference_table(&self, after: &Self) -> String {
        let changes = changes(self, after);
        let cells = |change: &Change| {
            let percent = match change.kind {
                ChangeKind::New | ChangeKind::Gone => String::new(),
                _ if change.before_ms > 0.0 => {
                    format!("{:+.1} %", 100.0 * change.difference_ms() / change.before_ms)
                }
                _ => String::new(),
            };
            let sign = if change.difference_ms() < 0.0 { "-" } else { "+" };
            vec![
                change.path.clone(),
                number(change.before_ms),
                number(change.after_ms),
                format!("{sign}{}", number(change.difference_ms().abs())),
                format!("± {}", number(change.error_ms)),
                percent,
                change.kind.word().to_owned(),
            ]
        };
        let rows: Vec<_> = changes.iter().map(cells).collect();
        let mut out = String::new();
        let columns = ["before ms", "after ms", "change", "error", "relative", ""];
        write_table(&mut out, "median of a call", &columns, &rows);
        let count = |verdict| changes.iter().filter(|change| change.kind == verdict).count();
        let (faster, slower) = (count(ChangeKind::Faster), count(ChangeKind::Slower));
        let _ = writeln!(
            out,
            "\n{faster} faster, {slower} slower by more than {SIGNIFICANCE_THRESHOLD} standard errors; wall {} ms before, {} ms after",
            number(self.wall_ms),
            number(after.wall_ms)
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(rows: &[(&str, u64, f64, f64)]) -> Profile {
        let row = |&(path, count, median_ms, std_ms): &(&str, u64, f64, f64)| Row {
            path: path.to_owned(),
            count,
            median_ms,
            std_ms,
            ..Row::default()
        };
        let (name, track) = ("blend".to_owned(), "gpu".to_owned());
        let tracks = vec![TrackRow { track, name, count: 9, median_ms: 0.125, ..TrackRow::default() }];
        Profile { rows: rows.iter().map(row).collect(), tracks, ..Profile::default() }
    }

    #[test]
    fn a_stage_has_changed_when_its_median_moved_by_more_than_it_varies() {
        let before = profile(&[
            ("step", 100, 50.0, 4.0),
            ("step/blend", 100, 10.0, 0.5),
            ("step/sort", 100, 1.0, 0.5),
            ("step/old", 5, 1.0, 0.1),
        ]);
        let after = profile(&[
            ("step", 100, 55.0, 4.0),
            ("step/blend", 100, 15.0, 0.5),
            ("step/sort", 100, 1.1, 0.5),
            ("step/new", 5, 2.0, 0.1),
        ]);
        let changes = changes(&before, &after);
        let verdicts: Vec<(&str, ChangeKind)> = changes.iter().map(|c| (c.path.as_str(), c.kind)).collect();
        assert_eq!(
            verdicts,
            [
                ("step", ChangeKind::Slower),
                ("step/blend", ChangeKind::Slower),
                ("step/new", ChangeKind::New),
                ("step/old", ChangeKind::Gone),
                ("step/sort", ChangeKind::Same),
                ("gpu/blend", ChangeKind::Same),
            ]
        );
        // 1.2533 x 0.5 / sqrt(100) sampling error, 1/128 of the median from the buckets, on both sides.
        let error = [10.0, 15.0].map(|m: f64| 0.062_665f64.powi(2) + (m / 128.0).powi(2)).iter().sum::<f64>();
        assert!((changes[1].error_ms - error.sqrt()).abs() < 1e-6);
        let back = before.difference_table(&before);
        assert!(back.contains("0 faster, 0 slower"), "{back}");
        assert!(before.difference_table(&after).contains("step/blend"));
    }
}
