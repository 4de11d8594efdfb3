//! Events of single spans, for a timeline: the Trace Event Format that Perfetto and `chrome://tracing` read.
//!
//! Format: "Trace Event Format", Google 2016: complete events (`"ph":"X"`), counters (`"C"`) and thread names (`"M"`),
//! times in microseconds.

use std::io::{self, Write};

use serde_json::json;

use crate::tracks::Interval;

/// Number of the first track in the trace: above the thread numbers.
const FIRST_TRACK: usize = 1 << 20;

/// One recorded span or counter value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TraceEvent {
    /// A span that has ended.
    Span {
        /// Number of its thread.
        thread: u32,
        /// Name of the span.
        name: &'static str,
        /// Start, in ns of the monotonic clock.
        start_ns: u64,
        /// Duration in ns.
        duration_ns: u64,
    },
    /// Work of a device, as measured there.
    Interval(Interval),
    /// A value of a counter.
    Counter {
        /// Number of the thread that set it.
        thread: u32,
        /// Name of the counter.
        name: &'static str,
        /// Time in ns of the monotonic clock.
        at_ns: u64,
        /// The value.
        value: f64,
    },
}

impl TraceEvent {
    /// Sort key: start time; an enclosing span comes before the nested ones.
    pub(crate) fn order(&self) -> (u64, std::cmp::Reverse<u64>) {
        match *self {
            Self::Span { start_ns, duration_ns, .. } => (start_ns, std::cmp::Reverse(duration_ns)),
            Self::Interval(Interval { start_ns, duration_ns, .. }) => {
                (start_ns, std::cmp::Reverse(duration_ns))
            }
            Self::Counter { at_ns, .. } => (at_ns, std::cmp::Reverse(0)),
        }
    }
}

/// The last events of all threads, by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Number and name of each thread.
    pub thread_names: Vec<(u32, String)>,
    /// Events by start.
    pub events: Vec<TraceEvent>,
}

impl Trace {
    /// Writes the trace as JSON that <https://ui.perfetto.dev> and `chrome://tracing` open.
    ///
    /// ```
    /// gausset_prof::set_enabled(true);
    /// gausset_prof::set_trace(true);
    /// drop(gausset_prof::span("blend"));
    /// let mut json = Vec::new();
    /// gausset_prof::trace().write_chrome(&mut json)?;
    /// assert!(String::from_utf8_lossy(&json).contains("\"blend\""));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_chrome(&self, writer: &mut dyn Write) -> io::Result<()> {
        let micros = |ns: u64| ns as f64 / 1e3;
        let names = self.thread_names.iter().map(|(thread, name)| {
            json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": name}})
        });
        let mut tracks: Vec<&'static str> = Vec::new();
        for event in &self.events {
            if let TraceEvent::Interval(interval) = event
                && !tracks.contains(&interval.track)
            {
                tracks.push(interval.track);
            }
        }
        let number = |track: &str| FIRST_TRACK + tracks.iter().position(|known| *known == track).unwrap_or(0);
        let track_names = tracks.iter().map(|track| {
            json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": number(track), "args": {"name": track}})
        });
        let names = names.chain(track_names);
        let events = self.events.iter().map(|event| match *event {
            TraceEvent::Interval(Interval { track, name, start_ns, duration_ns, bytes }) => json!({
                "ph": "X", "cat": "device", "name": name, "pid": 1, "tid": number(track),
                "ts": micros(start_ns), "dur": micros(duration_ns), "args": {"bytes": bytes},
            }),
            TraceEvent::Span { thread, name, start_ns, duration_ns } => json!({
                "ph": "X", "cat": "span", "name": name, "pid": 1, "tid": thread,
                "ts": micros(start_ns), "dur": micros(duration_ns),
            }),
            TraceEvent::Counter { thread, name, at_ns, value } => json!({
                "ph": "C", "cat": "counter", "name": name, "pid": 1, "tid": thread,
                "ts": micros(at_ns), "args": {"value": value},
            }),
        });
        writer.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        for (i, event) in names.chain(events).enumerate() {
            writer.write_all(if i == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *writer, &event)?;
        }
        writer.write_all(b"\n]}\n")
    }
}
