//! How long the stages of a unit take on the device: its timestamps, taken around a pass for each stage.
//!
//! Passes are split in units that are timed and in no others. Timestamps that are 0 or run backwards are left out: some
//! drivers give them for passes without work.

use gausset_core::Stage;
use gausset_core::engine::EngineError;

use super::Gpu;
use crate::pace::{Extent, Pace};
use crate::record::{halt, status};
use crate::traffic::{Items, Traffic};

/// Most stages of a unit; one that is taken apart has a stage several times.
const MOST_STAGES: u32 = 32;
/// Bytes of the timestamps of a unit: begin and end of the copies before its dispatches, then of each stage.
pub(super) const BYTES: u64 = 16 * (1 + MOST_STAGES as u64);
/// While the profiler records, one in so many units is timed.
pub(super) const EVERY: u64 = 10;
/// Tracks of the profile.
const STAGES: &str = "gpu";
pub(super) const TRANSFERS: &str = "gpu transfers";

/// Where timestamps go. Units may share it: the device takes them one after the other.
#[derive(Debug)]
pub(super) struct Timer {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    /// Whether the device tells times between passes, too.
    times_copies: bool,
    /// The clock of the host less that of the device, ns: by the unit whose record came soonest after its end, so that no time
    /// is later than it can have been.
    offset: Option<f64>,
}

/// What is timed of a unit.
#[derive(Debug, Default)]
pub(super) struct Timed {
    /// Stages in their order. Empty where the unit is not timed.
    pub(super) stages: Vec<TimedStage>,
    /// How large the unit is.
    pub(super) extent: Extent,
    /// What is known when it is submitted.
    pub(super) items: Items,
    /// Whether it is a rule: its status has rows in place of visible splats, and no entries.
    pub(super) is_rule: bool,
    /// Bytes that are copied before its dispatches.
    pub(super) copied: f64,
}

/// A stage that is timed.
#[derive(Debug)]
pub(super) struct TimedStage {
    pub(super) stage: Stage,
    /// What it moves.
    pub(super) traffic: Traffic,
    /// Dispatches as if each were whole.
    pub(super) dispatches: f64,
}

impl Timer {
    /// `None` on a device without timestamps.
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
                count: 2 * (1 + MOST_STAGES),
            });
            let resolved = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("timestamps"),
                size: BYTES,
                usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            Some(Self { set, resolved, times_copies, offset: None })
        })
    }

    /// Takes the time before (0) or after (1) the copies, if the device can.
    pub(super) fn mark(&self, encoder: &mut wgpu::CommandEncoder, index: u32) {
        if self.times_copies {
            encoder.write_timestamp(&self.set, index);
        }
    }

    /// The timestamps around the pass of a stage; `None` for one too many.
    pub(super) fn around(&self, stage: usize) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let first = 2 + 2 * stage as u32;
        (stage < MOST_STAGES as usize).then_some(wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        })
    }

    /// Records how the timestamps of so many stages come to a buffer.
    pub(super) fn resolve(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        stages: usize,
        to: &wgpu::Buffer,
        at: u64,
    ) {
        let end = 2 + 2 * (stages as u32).min(MOST_STAGES);
        let first = self.first();
        encoder.resolve_query_set(&self.set, first..end, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, to, at, 8 * u64::from(end - first));
    }

    /// The first timestamp that is taken.
    fn first(&self) -> u32 {
        if self.times_copies { 0 } else { 2 }
    }

    /// Hands the times of a unit that has just come to its end to the profiler and to who splits units; `period` is the length
    /// of a tick, ns.
    pub(super) fn report(
        &mut self,
        timed: &Timed,
        status: &[u32],
        ticks: &[u64],
        period: f32,
        pace: &mut Pace,
    ) {
        let of = |word: usize| f64::from(status[word]);
        let items = Items {
            visible: of(status::VISIBLE),
            entries: if timed.is_rule { 0.0 } else { of(status::ENTRIES) },
            ..timed.items
        };
        let stages = timed.stages.iter().map(|of| (STAGES, of.stage.name(), of.traffic.bytes(&items)));
        let copies = self.times_copies.then_some((TRANSFERS, "upload", timed.copied));
        let ns = |tick: u64| f64::from(period) * tick as f64;
        let times = ticks.as_chunks::<2>().0.iter().skip(usize::from(self.times_copies));
        // A unit that was halted has done less than it says.
        let times = times.filter(|_| status[status::HALT] == halt::NOT);
        for (of, &[begin, end]) in timed.stages.iter().zip(times).take(MOST_STAGES as usize) {
            if begin != 0 && end >= begin {
                pace.note(of.stage, &timed.extent, of.dispatches, ns(end - begin) / 1e6);
            }
        }
        let pairs = ticks.as_chunks::<2>().0.iter().filter(|[begin, end]| *begin != 0 && end >= begin);
        let last = pairs.map(|&[_, end]| ns(end)).fold(0.0, f64::max);
        let offset = gausset_prof::clock_ns() as f64 - last;
        let offset = self.offset.map_or(offset, |known| known.min(offset));
        self.offset = Some(offset);
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

/// Does something that moves so many bytes, and tells the profiler how long the host waited for it.
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
