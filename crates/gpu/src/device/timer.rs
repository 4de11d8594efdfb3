//! Times of the stages of a unit on the device, from timestamps around a pass for each stage.
//!
//! Passes are split only in units that are timed. Timestamps that are 0 or run backwards are ignored: some drivers
//! return them for passes without work.

use gausset_core::Stage;
use gausset_core::engine::EngineError;

use super::Gpu;
use crate::pace::{StageTimes, UnitSize};
use crate::record::{halt, status};
use crate::traffic::{ItemCounts, Traffic};

/// Maximum number of stage passes of a unit; in a split unit a stage occurs several times.
const MAX_STAGES: u32 = 32;
/// Bytes of the timestamps of a unit: begin and end of the copies before its dispatches, then of each stage.
pub(super) const BYTES: u64 = 16 * (1 + MAX_STAGES as u64);
/// While the profiler records, one of this many units is timed.
pub(super) const TIMING_INTERVAL: u64 = 10;
/// Names of the tracks of the profile.
const STAGES: &str = "gpu";
pub(super) const TRANSFERS: &str = "gpu transfers";

/// The timestamp queries. Units may share them: the device processes units one after the other.
#[derive(Debug)]
pub(super) struct Timer {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    /// Whether the device also supports timestamps between passes.
    times_copies: bool,
    /// Host clock minus device clock, ns: from the unit whose record arrived soonest after its end, so that no time is
    /// later than possible.
    clock_offset_ns: Option<f64>,
}

/// The timing data of a unit.
#[derive(Debug, Default)]
pub(super) struct UnitTiming {
    /// Stages in order; empty if the unit is not timed.
    pub(super) stages: Vec<TimedStage>,
    /// Sizes of the unit.
    pub(super) extent: UnitSize,
    /// Item counts known at submission.
    pub(super) items: ItemCounts,
    /// Whether it is a rule: its status has rows in place of visible splats, and no entries.
    pub(super) is_rule: bool,
    /// Bytes copied before its dispatches.
    pub(super) copied: f64,
}

/// A stage that is timed.
#[derive(Debug)]
pub(super) struct TimedStage {
    pub(super) stage: Stage,
    /// Its memory traffic.
    pub(super) traffic: Traffic,
    /// Number of dispatches, each counted as whole.
    pub(super) dispatches: f64,
}

impl Timer {
    /// Returns `None` on a device without timestamps.
    pub(super) fn new(gpu: &Gpu) -> Result<Option<Self>, EngineError> {
        if !gpu.has_timestamps() {
            return Ok(None);
        }
        let features = gpu.shared.device.features();
        let times_copies = features.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
        gpu.guarded("timestamps", BYTES, |device, _| {
            let set = device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: 2 * (1 + MAX_STAGES),
            });
            let resolved = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("timestamps"),
                size: BYTES,
                usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            Some(Self { set, resolved, times_copies, clock_offset_ns: None })
        })
    }

    /// Writes the timestamp before (0) or after (1) the copies, if the device supports it.
    pub(super) fn mark(&self, encoder: &mut wgpu::CommandEncoder, index: u32) {
        if self.times_copies {
            encoder.write_timestamp(&self.set, index);
        }
    }

    /// The timestamps around the pass of a stage; `None` beyond the maximum number.
    pub(super) fn around(&self, stage: usize) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let first = 2 + 2 * stage as u32;
        (stage < MAX_STAGES as usize).then_some(wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        })
    }

    /// Records the copy of the timestamps of `stages` stages to a buffer.
    pub(super) fn resolve(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        stages: usize,
        to: &wgpu::Buffer,
        at: u64,
    ) {
        let end = 2 + 2 * (stages as u32).min(MAX_STAGES);
        let first = self.first();
        encoder.resolve_query_set(&self.set, first..end, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, to, at, 8 * u64::from(end - first));
    }

    /// Index of the first timestamp in use.
    fn first(&self) -> u32 {
        if self.times_copies { 0 } else { 2 }
    }

    /// Reports the times of a finished unit to the profiler and to `pace`; `period` is the duration of a tick, ns.
    pub(super) fn report(
        &mut self,
        timed: &UnitTiming,
        status: &[u32],
        ticks: &[u64],
        period: f32,
        pace: &mut StageTimes,
    ) {
        let of = |word: usize| f64::from(status[word]);
        let items = ItemCounts {
            visible: of(status::VISIBLE),
            entries: if timed.is_rule { 0.0 } else { of(status::ENTRIES) },
            ..timed.items
        };
        let stages = timed.stages.iter().map(|of| (STAGES, of.stage.name(), of.traffic.bytes(&items)));
        let copies = self.times_copies.then_some((TRANSFERS, "upload", timed.copied));
        let ns = |tick: u64| f64::from(period) * tick as f64;
        let times = ticks.as_chunks::<2>().0.iter().skip(usize::from(self.times_copies));
        // A unit that was halted has done less work than its counts suggest.
        let times = times.filter(|_| status[status::HALT] == halt::NOT);
        for (of, &[begin, end]) in timed.stages.iter().zip(times).take(MAX_STAGES as usize) {
            if begin != 0 && end >= begin {
                pace.add_measurement(of.stage, &timed.extent, of.dispatches, ns(end - begin) / 1e6);
            }
        }
        let pairs = ticks.as_chunks::<2>().0.iter().filter(|[begin, end]| *begin != 0 && end >= begin);
        let last = pairs.map(|&[_, end]| ns(end)).fold(0.0, f64::max);
        let offset = gausset_prof::clock_ns() as f64 - last;
        let offset = self.clock_offset_ns.map_or(offset, |known| known.min(offset));
        self.clock_offset_ns = Some(offset);
        for ((track, name, bytes), &[begin, end]) in
            copies.into_iter().chain(stages).zip(ticks.as_chunks::<2>().0)
        {
            if begin == 0 || end < begin {
                continue;
            }
            gausset_prof::interval(gausset_prof::Interval {
                track,
                name,
                start_ns: (ns(begin) + offset).max(0.0) as u64,
                duration_ns: ns(end - begin) as u64,
                bytes,
            });
        }
    }
}

/// Runs `action`, which transfers `bytes` bytes, and reports to the profiler how long the host waited.
pub(super) fn transfer<T>(name: &'static str, bytes: u64, action: impl FnOnce() -> T) -> T {
    let start_ns = gausset_prof::clock_ns();
    let value = action();
    gausset_prof::interval(gausset_prof::Interval {
        track: TRANSFERS,
        name,
        start_ns,
        duration_ns: gausset_prof::clock_ns() - start_ns,
        bytes: bytes as f64,
    });
    value
}
