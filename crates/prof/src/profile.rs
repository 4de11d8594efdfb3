//! The result of profiling: rows that add up.

use serde::{Deserialize, Serialize};

use crate::paths::{PathTree, ROOT};
use crate::stats::{MEDIAN_RELATIVE_ERROR, Stats};
use crate::tracks::{TrackRow, Tracks};

/// Time spent during a period. All times are in milliseconds; every fraction is relative to `wall_ms`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Time during which recording was on.
    pub wall_ms: f64,
    /// CPU time of all threads of the process in that time, if the system has a clock for it.
    pub cpu_ms: Option<f64>,
    /// The critical path, depth first, children in the order of first occurrence. The children of each row that has any
    /// end with one of kind [`RowKind::Unattributed`], and so does the top level: the children of a row sum to the row,
    /// and the rows of depth 0 to `wall_ms`.
    pub rows: Vec<Row>,
    /// Number of other threads that recorded spans.
    pub worker_threads: u32,
    /// Spans of all other threads, summed by path. They run in parallel to the wall clock: their sum is busy time.
    pub worker_rows: Vec<Row>,
    /// Statistics of counted quantities.
    pub counters: Vec<CounterRow>,
    /// Work of devices, by track. It runs in parallel to the wall clock, and may have been measured only in part:
    /// `count` is the number of measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracks: Vec<TrackRow>,
    /// Spans beyond the limits of the tables; their time counts as that of their parent.
    pub dropped_spans: u64,
    /// Largest relative error of the medians.
    pub median_relative_error: f64,
    /// Description of what was profiled: pairs of a name and a value.
    #[serde(default)]
    pub about: Vec<(String, String)>,
    /// Peak rates of the machine, if they were measured.
    #[serde(default)]
    pub machine: Option<MachineRates>,
    /// Lower bounds of stages, if they are known.
    #[serde(default)]
    pub floors: Vec<StageLowerBound>,
}

/// Measured rates of a machine, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineRates {
    /// Threads that were used.
    pub threads: u32,
    /// Multiply-adds on 16 lanes of f32 per second.
    pub vector_ops_per_s: f64,
    /// Bytes read and written per second by an in-place update of memory.
    pub stream_bytes_per_s: f64,
}

/// Minimum work of a stage each time it runs, and the time it takes on the measured machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageLowerBound {
    /// Name of the span.
    pub name: String,
    /// Bytes that have to be read and written.
    pub bytes: f64,
    /// Multiply-adds on 16 lanes, or operations that take as long.
    pub vector_ops: f64,
    /// Lower bound of the time, ms.
    pub floor_ms: f64,
}

/// The kind of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// Spans of one path.
    #[default]
    Span,
    /// The time of the parent that no child accounts for.
    Unattributed,
}

/// Statistics of the spans of one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Names from the outermost span to this one, separated by `/`.
    pub path: String,
    /// The last name of the path.
    pub name: String,
    /// Number of enclosing spans.
    pub depth: u32,
    /// The kind of the row.
    pub kind: RowKind,
    /// Number of spans that ended.
    pub count: u64,
    /// Time of all spans including nested ones; spans that were cut off or are still open count as well.
    pub total_ms: f64,
    /// The same without nested spans.
    pub self_ms: f64,
    /// `total_ms` as a fraction of the wall time, 0..1 on the critical path.
    pub share: f64,
    /// Mean over the spans that ended.
    pub mean_ms: f64,
    /// Sample standard deviation.
    pub std_ms: f64,
    /// Shortest span, ms.
    pub min_ms: f64,
    /// Median, within [`Profile::median_relative_error`].
    pub median_ms: f64,
    /// Longest span, ms.
    pub max_ms: f64,
    /// CPU time of all threads of the process during the spans, if it was read.
    pub cpu_ms: Option<f64>,
}

/// Statistics of a counted quantity, in its unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterRow {
    /// Name of the counter.
    pub name: String,
    /// Number of values.
    pub count: u64,
    /// The last value.
    pub last: f64,
    /// Mean of the values.
    pub mean: f64,
    /// Sample standard deviation.
    pub std: f64,
    /// Smallest value so far.
    pub min: f64,
    /// Median, within [`Profile::median_relative_error`].
    pub median: f64,
    /// Largest value so far.
    pub max: f64,
}

impl Profile {
    /// The row of the critical path with this path.
    #[must_use]
    pub fn row(&self, path: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.path == path)
    }

    /// The counter with this name.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<&CounterRow> {
        self.counters.iter().find(|counter| counter.name == name)
    }

    /// Rows of the critical path that do not overlap: those without children, and unattributed time. They sum to the
    /// wall time.
    pub fn exclusive_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().enumerate().filter_map(|(index, row)| {
            let has_children = self.rows.get(index + 1).is_some_and(|next| next.depth > row.depth);
            (!has_children).then_some(row)
        })
    }

    /// Reads the output of [`Self::to_json`].
    ///
    /// # Errors
    /// Returns an error for text that is not a profile.
    pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The profile as indented JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Structs of numbers and strings always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// One line for each row and counter, with a header.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut csv =
            String::from("section,path,kind,unit,count,total,self,share,mean,std,min,median,max,cpu\n");
        for (section, rows) in [("critical", &self.rows), ("worker", &self.worker_rows)] {
            for row in rows {
                let kind = if row.kind == RowKind::Span { "span" } else { "unattributed" };
                let cpu = row.cpu_ms.map_or_else(String::new, |cpu| cpu.to_string());
                csv += &format!(
                    "{section},{},{kind},ms,{},{},{},{},{},{},{},{},{},{cpu}\n",
                    quoted(&row.path),
                    row.count,
                    row.total_ms,
                    row.self_ms,
                    row.share,
                    row.mean_ms,
                    row.std_ms,
                    row.min_ms,
                    row.median_ms,
                    row.max_ms,
                );
            }
        }
        for t in &self.tracks {
            csv += &format!(
                "{},{},interval,ms,{},{},,,{},{},{},{},{},\n",
                quoted(&t.track),
                quoted(&t.name),
                t.count,
                t.total_ms,
                t.mean_ms,
                t.std_ms,
                t.min_ms,
                t.median_ms,
                t.max_ms
            );
        }
        for c in &self.counters {
            csv += &format!(
                "counter,{},counter,,{},,,,{},{},{},{},{},\n",
                quoted(&c.name),
                c.count,
                c.mean,
                c.std,
                c.min,
                c.median,
                c.max
            );
        }
        csv
    }
}

/// A CSV field (RFC 4180).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// The recorder's data for a profile.
pub(crate) struct Recorded {
    pub(crate) critical: PathTree,
    pub(crate) workers: PathTree,
    pub(crate) worker_threads: u32,
    pub(crate) counters: Vec<(&'static str, Stats)>,
    pub(crate) tracks: Tracks,
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: Option<u64>,
    pub(crate) dropped_spans: u64,
}

/// Builds the rows.
pub(crate) fn assemble(recorded: &Recorded) -> Profile {
    let wall_ms = ms(recorded.wall_ns);
    let mut rows = RowWriter { paths: &recorded.critical, wall_ns: recorded.wall_ns, rows: Vec::new() };
    rows.write_children(ROOT, "", 0);
    rows.write_unattributed_top(recorded.cpu_ns);
    let mut worker_rows = RowWriter { paths: &recorded.workers, wall_ns: recorded.wall_ns, rows: Vec::new() };
    worker_rows.write_children(ROOT, "", 0);
    Profile {
        wall_ms,
        cpu_ms: recorded.cpu_ns.map(ms),
        rows: rows.rows,
        worker_threads: recorded.worker_threads,
        worker_rows: worker_rows.rows,
        counters: recorded.counters.iter().map(|(name, stats)| counter_row(name, stats)).collect(),
        tracks: recorded.tracks.rows(),
        dropped_spans: recorded.dropped_spans,
        median_relative_error: MEDIAN_RELATIVE_ERROR,
        ..Profile::default()
    }
}

struct RowWriter<'a> {
    paths: &'a PathTree,
    wall_ns: u64,
    rows: Vec<Row>,
}

/// Name of the rows with the time that no child accounts for.
pub const UNATTRIBUTED: &str = "unattributed";

impl RowWriter<'_> {
    fn write_children(&mut self, parent: usize, prefix: &str, depth: u32) {
        for &index in &self.paths.nodes[parent].children {
            let node = &self.paths.nodes[index];
            let path = format!("{prefix}{}", node.name);
            let below = format!("{path}/");
            let (children_ns, children_cpu_ns) = self.sum_of_children(index);
            let self_ns = node.total_ns.saturating_sub(children_ns);
            let row = self.row(path, node.name, depth, node.total_ns, &node.inclusive);
            self.rows.push(Row { self_ms: ms(self_ns), cpu_ms: node.cpu_ns.map(ms), ..row });
            self.write_children(index, &below, depth + 1);
            if let Some(exclusive) = &node.exclusive {
                let rest = self.row(below + UNATTRIBUTED, UNATTRIBUTED, depth + 1, self_ns, exclusive);
                let cpu_ms =
                    node.cpu_ns.zip(children_cpu_ns).map(|(all, below)| ms(all.saturating_sub(below)));
                self.rows.push(Row { kind: RowKind::Unattributed, self_ms: ms(self_ns), cpu_ms, ..rest });
            }
        }
    }

    /// The row of the wall time outside all spans.
    fn write_unattributed_top(&mut self, cpu_ns: Option<u64>) {
        let (children_ns, children_cpu_ns) = self.sum_of_children(ROOT);
        let rest_ns = self.wall_ns.saturating_sub(children_ns);
        let rest_ms = ms(rest_ns);
        let row = self.row(UNATTRIBUTED.to_owned(), UNATTRIBUTED, 0, rest_ns, &Stats::default());
        self.rows.push(Row {
            kind: RowKind::Unattributed,
            count: 1,
            self_ms: rest_ms,
            mean_ms: rest_ms,
            min_ms: rest_ms,
            median_ms: rest_ms,
            max_ms: rest_ms,
            cpu_ms: cpu_ns.zip(children_cpu_ns).map(|(all, below)| ms(all.saturating_sub(below))),
            ..row
        });
    }

    /// Time of the children of a node and, if each child has one, their CPU time.
    fn sum_of_children(&self, parent: usize) -> (u64, Option<u64>) {
        let children = || self.paths.nodes[parent].children.iter().map(|&c| &self.paths.nodes[c]);
        (children().map(|c| c.total_ns).sum(), children().map(|c| c.cpu_ns).sum())
    }

    fn row(&self, path: String, name: &str, depth: u32, total_ns: u64, stats: &Stats) -> Row {
        let ms_of = |ns: f64| ns / 1e6;
        Row {
            path,
            name: name.to_owned(),
            depth,
            kind: RowKind::Span,
            count: stats.count,
            total_ms: ms(total_ns),
            self_ms: 0.0,
            share: if self.wall_ns == 0 { 0.0 } else { total_ns as f64 / self.wall_ns as f64 },
            mean_ms: ms_of(stats.mean),
            std_ms: ms_of(stats.std()),
            min_ms: ms_of(stats.min_or_zero()),
            median_ms: ms_of(stats.median()),
            max_ms: ms_of(stats.max),
            cpu_ms: None,
        }
    }
}

fn counter_row(name: &str, stats: &Stats) -> CounterRow {
    CounterRow {
        name: name.to_owned(),
        count: stats.count,
        last: stats.last,
        mean: stats.mean,
        std: stats.std(),
        min: stats.min_or_zero(),
        median: stats.median(),
        max: stats.max,
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
