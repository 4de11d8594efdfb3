//! The text table: aligned columns, units in the header, one base for all fractions.

use std::fmt::Write;

use crate::profile::{CounterRow, Profile, Row};
use crate::tracks::TrackRow;

/// Numeric columns of a span table, to the right of the name.
const SPAN_COLUMNS: [&str; 9] =
    ["count", "total ms", "share", "mean ms", "± std", "min", "median", "max", "cpu ms"];
/// The same without CPU time, which is only read on the critical path.
const WORKER_COLUMNS: &[&str] = SPAN_COLUMNS.split_at(SPAN_COLUMNS.len() - 1).0;
/// Bytes are per interval, the rate is over all intervals.
const TRACK_COLUMNS: [&str; 9] =
    ["count", "total ms", "mean ms", "± std", "min", "median", "max", "MB", "GB/s"];
const COUNTER_COLUMNS: [&str; 7] = ["count", "last", "mean", "± std", "min", "median", "max"];

impl Profile {
    /// Tables of the critical path, of the workers and of the counters, for a terminal.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        let mut critical: Vec<_> = self.rows.iter().map(span_cells).collect();
        let cpu = self.cpu_ms.map_or_else(String::new, number);
        let mut sum = vec!["wall".to_owned(), String::new(), number(self.wall_ms), percent(1.0)];
        sum.resize(SPAN_COLUMNS.len(), String::new());
        sum.push(cpu);
        critical.push(sum);
        write_table(&mut out, "critical path", &SPAN_COLUMNS, &critical);
        if !self.worker_rows.is_empty() {
            let title = match self.worker_threads {
                1 => "1 other thread".to_owned(),
                n => format!("{n} other threads"),
            };
            let cells: Vec<_> = self.worker_rows.iter().map(span_cells).collect();
            out.push('\n');
            write_table(&mut out, &title, WORKER_COLUMNS, &cells);
        }
        for rows in self.tracks.chunk_by(|a, b| a.track == b.track) {
            let cells: Vec<_> = rows.iter().map(track_cells).collect();
            out.push('\n');
            write_table(&mut out, &rows[0].track, &TRACK_COLUMNS, &cells);
        }
        if !self.counters.is_empty() {
            let cells: Vec<_> = self.counters.iter().map(counter_cells).collect();
            out.push('\n');
            write_table(&mut out, "counted", &COUNTER_COLUMNS, &cells);
        }
        if self.dropped_spans > 0 {
            let _ = writeln!(
                out,
                "\n{} spans did not fit into the tables and count as their parent's time",
                self.dropped_spans
            );
        }
        out
    }
}

fn span_cells(row: &Row) -> Vec<String> {
    let indent = "  ".repeat(row.depth as usize);
    let mut cells = vec![
        format!("{indent}{}", row.name),
        row.count.to_string(),
        number(row.total_ms),
        percent(row.share),
    ];
    if row.count > 0 {
        let values = [row.mean_ms, row.std_ms, row.min_ms, row.median_ms, row.max_ms];
        cells.extend(values.map(number));
    }
    cells.resize(SPAN_COLUMNS.len(), String::new());
    cells.push(row.cpu_ms.map_or_else(String::new, number));
    cells
}

fn track_cells(row: &TrackRow) -> Vec<String> {
    let known = |value: f64| if value > 0.0 { number(value) } else { String::new() };
    let times = [row.total_ms, row.mean_ms, row.std_ms, row.min_ms, row.median_ms, row.max_ms];
    let moved = [row.bytes / 1e6, row.gb_per_s].map(known);
    [row.name.clone(), row.count.to_string()].into_iter().chain(times.map(number)).chain(moved).collect()
}

fn counter_cells(row: &CounterRow) -> Vec<String> {
    let values = [row.last, row.mean, row.std, row.min, row.median, row.max];
    [row.name.clone(), row.count.to_string()].into_iter().chain(values.map(number)).collect()
}

/// Three to four significant digits below 1000, integers above.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        v if v < 999.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Writes a title with column heads and the rows; the first cell of a row is left-aligned, the others are
/// right-aligned. Cells beyond the columns are left out. Line breaks in a name from a file are escaped.
pub(crate) fn write_table(out: &mut String, title: &str, columns: &[&str], rows: &[Vec<String>]) {
    let head: Vec<String> =
        std::iter::once(title).chain(columns.iter().copied()).map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&head)
        .chain(rows)
        .map(|row| row.iter().map(|c| c.replace('\n', "\\n")).collect())
        .collect();
    let all = || rows.iter();
    let width =
        |i: usize| all().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in all() {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if i == 0 { write!(line, "{cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
