//! Units: recorded, submitted, awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use gausset_core::engine::EngineError;

use super::Gpu;
use super::memory::Memory;
use super::pipeline::Pipeline;
use crate::layout::Buffer;
use crate::record::{GRID_WIDTH, status};
use crate::schedule::{Dispatch, Grid};

const PENDING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

/// How long a callback may take that another thread is about to call.
const PATIENCE: Duration = Duration::from_secs(60);

/// A buffer that is being made readable.
#[derive(Debug)]
pub(super) struct Mapping {
    buffer: wgpu::Buffer,
    bytes: u64,
    state: Arc<AtomicU8>,
}

/// A unit under way.
#[derive(Debug)]
pub(super) struct Ticket {
    index: wgpu::SubmissionIndex,
    mapping: Mapping,
}

/// Asks for the first bytes of a buffer, as soon as what was submitted is done.
pub(super) fn map(gpu: &Gpu, buffer: &wgpu::Buffer, bytes: u64) -> Result<Mapping, EngineError> {
    let state = Arc::new(AtomicU8::new(PENDING));
    let told = Arc::clone(&state);
    gpu.guarded("mapping", 0, |_, _| {
        buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |outcome| {
            told.store(if outcome.is_ok() { READY } else { FAILED }, Ordering::Release);
        });
    })?;
    Ok(Mapping { buffer: buffer.clone(), bytes, state })
}

/// Waits for a submission, or for all of them.
pub(super) fn wait(gpu: &Gpu, submission_index: Option<wgpu::SubmissionIndex>) -> Result<(), EngineError> {
    let kind = wgpu::PollType::Wait { submission_index, timeout: None };
    let outcome = gpu.guarded("waiting", 0, |device, _| device.poll(kind).map_err(|err| err.to_string()))?;
    outcome.map(drop).map_err(|what| gpu.error(&what))
}

impl Mapping {
    /// Hands the bytes over and lets the buffer go.
    pub(super) fn finish(self, gpu: &Gpu, take: impl FnOnce(&[u8])) -> Result<(), EngineError> {
        // Another thread that polls the same device may have taken our callback and not called it yet.
        let since = Instant::now();
        while self.state.load(Ordering::Acquire) == PENDING && since.elapsed() < PATIENCE {
            wait(gpu, None)?;
            std::thread::yield_now();
        }
        if self.state.load(Ordering::Acquire) != READY {
            return Err(gpu.error("a result of the device could not be read"));
        }
        let outcome = gpu.guarded("reading", 0, |_, _| {
            let view = self.buffer.get_mapped_range(0..self.bytes).map_err(|err| err.to_string())?;
            take(&view);
            drop(view);
            self.buffer.unmap();
            Ok::<(), String>(())
        })?;
        outcome.map_err(|what| gpu.error(&what))
    }
}

impl Memory {
    /// Submits a unit: one command buffer with one pass, behind which the status is copied to the host.
    pub(crate) fn submit(&mut self, dispatches: &[Dispatch]) -> Result<(), EngineError> {
        let gpu = self.gpu.clone();
        let mut parts: Vec<(Pipeline, wgpu::BindGroup, Grid)> = Vec::with_capacity(dispatches.len());
        for dispatch in dispatches {
            let pipeline = gpu.pipeline(dispatch.kernel)?;
            let group = self.group(&pipeline, dispatch)?;
            parts.push((pipeline, group, dispatch.grid));
        }
        let bytes = 4 * status::WORDS as u64;
        if self.status.is_none() {
            self.status = Some(self.readable("status", bytes)?);
        }
        let Some(target) = self.status.clone() else { return Err(gpu.error("no status buffer")) };
        let of = |buffer: Buffer| &self.buffers[buffer as usize];
        let (arguments, ranges, source) = (of(Buffer::Arguments), of(Buffer::Ranges), of(Buffer::Status));
        let index = gpu.guarded("a unit", 0, |device, queue| {
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.clear_buffer(ranges, 0, None);
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                for (pipeline, group, grid) in &parts {
                    pass.set_pipeline(&pipeline.pipeline);
                    pass.set_bind_group(0, group, &[]);
                    match grid {
                        Grid::One => pass.dispatch_workgroups(1, 1, 1),
                        Grid::Groups(groups) => {
                            pass.dispatch_workgroups(
                                (*groups).min(GRID_WIDTH),
                                groups.div_ceil(GRID_WIDTH),
                                1,
                            );
                        }
                        Grid::Counted(argument) => {
                            pass.dispatch_workgroups_indirect(arguments, 16 * u64::from(*argument));
                        }
                    }
                }
            }
            encoder.copy_buffer_to_buffer(source, 0, &target, 0, bytes);
            queue.submit([encoder.finish()])
        })?;
        let mapping = map(&gpu, &target, bytes)?;
        self.ticket = Some(Ticket { index, mapping });
        Ok(())
    }

    /// Whether a unit is under way whose status has not been taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.ticket.is_some()
    }

    /// Whether the status of the unit under way has arrived; does not wait.
    pub(crate) fn is_done(&self) -> Result<bool, EngineError> {
        let Some(ticket) = &self.ticket else { return Ok(true) };
        self.gpu.guarded("asking", 0, |device, _| {
            let _ = device.poll(wgpu::PollType::Poll);
        })?;
        Ok(ticket.mapping.state.load(Ordering::Acquire) != PENDING)
    }

    /// Waits for the unit under way and takes its status.
    pub(crate) fn finish(&mut self) -> Result<Option<[u32; status::WORDS]>, EngineError> {
        let Some(ticket) = self.ticket.take() else { return Ok(None) };
        let mut words = [0; status::WORDS];
        let outcome = wait(&self.gpu, Some(ticket.index)).and_then(|()| {
            ticket.mapping.finish(&self.gpu, |bytes| words.copy_from_slice(bytemuck::cast_slice(bytes)))
        });
        if outcome.is_err() {
            // It may be mapped for ever.
            self.status = None;
        }
        outcome.map(|()| Some(words))
    }

    fn group(&mut self, pipeline: &Pipeline, dispatch: &Dispatch) -> Result<wgpu::BindGroup, EngineError> {
        let key = (dispatch.kernel, dispatch.buffers.clone());
        if let Some(group) = self.groups.get(&key) {
            return Ok(group.clone());
        }
        let label = dispatch.kernel.label();
        let entries: Vec<_> = dispatch
            .buffers
            .iter()
            .enumerate()
            .map(|(binding, &buffer)| wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: self.buffers[buffer as usize].as_entire_binding(),
            })
            .collect();
        let group = self.gpu.guarded(&label, 0, |device, _| {
            device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&label),
                layout: &pipeline.layout,
                entries: &entries,
            })
        })?;
        self.groups.insert(key, group.clone());
        Ok(group)
    }
}
