//! How long the stages of a unit take on the device: its timestamps, taken around a pass for each stage.
//!
//! Passes are split in units that are timed and in no others. Timestamps that are 0 or run backwards are left out: some
//! drivers give them for passes without work.

use gausset_core::Stage;
use gausset_core::engine::EngineError;

use super::Gpu;

/// Most stages of a unit.
const MOST_STAGES: u32 = 8;
/// Bytes of the timestamps of a unit: begin and end of each stage.
pub(super) const BYTES: u64 = 16 * MOST_STAGES as u64;
/// While the profiler records, one in so many units is timed.
pub(super) const EVERY: u64 = 10;

/// Where timestamps go. Units may share it: the device takes them one after the other.
#[derive(Debug)]
pub(super) struct Timer {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
}

impl Timer {
    /// `None` on a device without timestamps.
    pub(super) fn new(gpu: &Gpu) -> Result<Option<Self>, EngineError> {
        if !gpu.has_timestamps() {
            return Ok(None);
        }
        gpu.guarded("timestamps", BYTES, |device, _| {
            let set = device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: 2 * MOST_STAGES,
            });
            let resolved = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("timestamps"),
                size: BYTES,
                usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            Some(Self { set, resolved })
        })
    }

    /// The timestamps around the pass of a stage; `None` for one too many.
    pub(super) fn around(&self, stage: usize) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let first = 2 * stage as u32;
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
        let stages = (stages as u32).min(MOST_STAGES);
        encoder.resolve_query_set(&self.set, 0..2 * stages, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, to, at, 16 * u64::from(stages));
    }
}

/// Name of a stage's time in the profile.
fn counter(stage: Stage) -> &'static str {
    match stage {
        Stage::Project => "gpu project ms",
        Stage::Sort => "gpu sort ms",
        Stage::Tile => "gpu tile ms",
        Stage::Blend => "gpu blend ms",
        Stage::Loss => "gpu loss ms",
        Stage::BlendVjp => "gpu blend_vjp ms",
        Stage::ProjectVjpAdam => "gpu project_vjp+adam ms",
        Stage::Density => "gpu density ms",
        _ => "gpu other ms",
    }
}

/// Hands the times of stages to the profiler; `period` is the length of a tick, ns.
pub(super) fn report(stages: &[Stage], ticks: &[u64], period: f32) {
    let mut sum = 0.0;
    for (&stage, pair) in stages.iter().zip(ticks.as_chunks::<2>().0) {
        let [begin, end] = *pair;
        if begin == 0 || end < begin {
            continue;
        }
        let ms = 1e-6 * f64::from(period) * (end - begin) as f64;
        gausset_prof::counter(counter(stage), ms);
        sum += ms;
    }
    gausset_prof::counter("gpu unit ms", sum);
}
