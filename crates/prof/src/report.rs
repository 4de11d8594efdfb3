//! Summaries of a profile: where most of the time is spent, and how far stages are from their lower bounds.

use std::fmt::Write;

use crate::profile::{Profile, Row, RowKind, StageLowerBound};
use crate::table::{number, percent, write_table};

impl Profile {
    /// The exclusive rows with the largest times, largest first.
    #[must_use]
    pub fn slowest_rows(&self, count: usize) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.exclusive_rows().collect();
        rows.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        rows.truncate(count);
        rows
    }

    /// The rows with the largest times, as a table.
    #[must_use]
    pub fn slowest_table(&self, count: usize) -> String {
        let cells = |row: &&Row| {
            vec![
                row.path.clone(),
                number(row.total_ms),
                percent(row.share),
                row.count.to_string(),
                number(row.median_ms),
            ]
        };
        let rows: Vec<_> = self.slowest_rows(count).iter().map(cells).collect();
        let mut out = String::new();
        write_table(&mut out, "most time", &["total ms", "share", "count", "median"], &rows);
        out
    }

    /// The wall time by groups of rows, which sum to it: each exclusive row belongs to the group returned by
    /// `group_of`. Groups are in the order of first occurrence.
    #[must_use]
    pub fn budget(&self, group_of: impl Fn(&Row) -> &'static str) -> Vec<(&'static str, f64)> {
        let mut groups: Vec<(&'static str, f64)> = Vec::new();
        for row in self.exclusive_rows() {
            let group = group_of(row);
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, total)) => *total += row.total_ms,
                None => groups.push((group, row.total_ms)),
            }
        }
        groups
    }

    /// [`Self::budget`] as a table.
    #[must_use]
    pub fn budget_table(&self, group_of: impl Fn(&Row) -> &'static str) -> String {
        let share = |ms: f64| if self.wall_ms > 0.0 { percent(ms / self.wall_ms) } else { String::new() };
        let mut rows: Vec<_> = self
            .budget(group_of)
            .into_iter()
            .map(|(group, ms)| vec![group.to_owned(), number(ms), share(ms)])
            .collect();
        rows.push(vec!["wall".to_owned(), number(self.wall_ms), share(self.wall_ms)]);
        let mut out = String::new();
        write_table(&mut out, "time budget", &["ms", "share"], &rows);
        out
    }

    /// Times of stages and their lower bounds, per run of a stage, below a span named `below`; empty if no lower bound
    /// is known.
    #[must_use]
    pub fn lower_bound_table(&self, below: &str) -> String {
        let mut out = String::new();
        let (Some(machine), false) = (self.machine, self.floors.is_empty()) else { return out };
        let mut sums = [0.0; 2];
        let mut rows = Vec::new();
        for floor in &self.floors {
            let Some(row) = self.stage_row(below, &floor.name) else { continue };
            sums = [sums[0] + row.median_ms, sums[1] + floor.floor_ms];
            rows.push(lower_bound_cells(floor, row.median_ms));
        }
        rows.push(vec!["sum".to_owned(), number(sums[0]), number(sums[1]), ratio(sums[0], sums[1])]);
        let columns = ["median ms", "floor ms", "ratio", "MB", "GB/s", "M vector ops"];
        write_table(&mut out, "what the machine allows", &columns, &rows);
        let _ = writeln!(
            out,
            "measured: {} GB/s read and written in place, {} G multiply-adds on 16 lanes per second, {} thread{}",
            number(machine.stream_bytes_per_s / 1e9),
            number(machine.vector_ops_per_s / 1e9),
            machine.threads,
            if machine.threads == 1 { "" } else { "s" }
        );
        out
    }

    /// The row of a stage directly below a span with this name.
    #[must_use]
    pub fn stage_row(&self, below: &str, name: &str) -> Option<&Row> {
        let end = format!("{below}/{name}");
        let is_it = |row: &&Row| {
            row.kind == RowKind::Span
                && row.path.strip_suffix(&end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        self.rows.iter().find(is_it)
    }
}

fn lower_bound_cells(floor: &StageLowerBound, median_ms: f64) -> Vec<String> {
    vec![
        floor.name.clone(),
        number(median_ms),
        number(floor.floor_ms),
        ratio(median_ms, floor.floor_ms),
        number(floor.bytes / 1e6),
        if median_ms > 0.0 { number(floor.bytes / median_ms / 1e6) } else { String::new() },
        number(floor.vector_ops / 1e6),
    ]
}

fn ratio(time: f64, floor: f64) -> String {
    if floor > 0.0 { format!("{:.1}", time / floor) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::MachineRates;

    fn profile() -> Profile {
        let row = |path: &str, depth, kind, total_ms| Row {
            path: path.to_owned(),
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            depth,
            kind,
            count: 10,
            total_ms,
            median_ms: total_ms / 10.0,
            ..Row::default()
        };
        Profile {
            wall_ms: 100.0,
            rows: vec![
                row("step", 0, RowKind::Span, 80.0),
                row("step/blend", 1, RowKind::Span, 50.0),
                row("step/sort", 1, RowKind::Span, 20.0),
                row("step/unattributed", 1, RowKind::Unattributed, 10.0),
                row("eval", 0, RowKind::Span, 15.0),
                row("unattributed", 0, RowKind::Unattributed, 5.0),
            ],
            machine: Some(MachineRates { threads: 2, vector_ops_per_s: 8e9, stream_bytes_per_s: 4e10 }),
            floors: vec![StageLowerBound {
                name: "blend".to_owned(),
                bytes: 4e7,
                vector_ops: 2e7,
                floor_ms: 2.5,
            }],
            ..Profile::default()
        }
    }

    #[test]
    fn exclusive_rows_sum_to_the_wall_time_whatever_their_groups() {
        let profile = profile();
        assert_eq!(profile.exclusive_rows().map(|row| row.total_ms).sum::<f64>(), profile.wall_ms);
        let paths: Vec<&str> = profile.slowest_rows(3).iter().map(|row| row.path.as_str()).collect();
        assert_eq!(paths, ["step/blend", "step/sort", "eval"]);
        let budget = profile.budget(|row| if row.path.starts_with("step") { "training" } else { "other" });
        assert_eq!(budget, [("training", 80.0), ("other", 20.0)]);
    }

    #[test]
    fn a_stage_is_compared_with_its_floor() {
        let table = profile().lower_bound_table("step");
        let blend = table.lines().find(|line| line.starts_with("blend")).unwrap();
        // 5 ms per call, twice its floor; 40 MB in that time are 8 GB/s.
        let cells: Vec<&str> = blend.split_whitespace().collect();
        assert_eq!(cells, ["blend", "5.000", "2.500", "2.0", "40.00", "8.000", "20.00"]);
        assert!(profile().lower_bound_table("eval").contains("sum"));
        assert!(Profile::default().lower_bound_table("step").is_empty());
    }
}
