//! The slots of units in flight. Each has a buffer that uploads the record and image of a unit, and one that reads back
//! its status. A slot is reused when its status has been taken, so in the steady state nothing is allocated.

use std::collections::VecDeque;

use gausset_core::engine::EngineError;

use super::Gpu;
use super::mapping::{Mapping, map};
use super::timer::UnitTiming;
use crate::in_flight::IN_FLIGHT;

/// A slot.
#[derive(Debug)]
pub(super) struct Slot {
    /// Upload buffer; mapped by the host while no unit uses it.
    pub(super) upload_buffer: wgpu::Buffer,
    /// The pending mapping of `up` after its first use.
    upload_mapping: Option<Mapping>,
    /// Readback buffer.
    pub(super) readback_buffer: wgpu::Buffer,
}

/// A unit in flight with its slot.
#[derive(Debug)]
pub(super) struct InFlightUnit {
    place: Slot,
    pub(super) index: wgpu::SubmissionIndex,
    pub(super) status: Mapping,
    timed: UnitTiming,
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Ring {
    free: Vec<Slot>,
    /// Units in flight, oldest first.
    pub(super) in_flight: VecDeque<InFlightUnit>,
}

impl Slot {
    fn new(gpu: &Gpu, up: u64, down: u64) -> Result<Self, EngineError> {
        let buffer = |label: &'static str, size: u64, usage: wgpu::BufferUsages, mapped_at_creation: bool| {
            gpu.guarded(label, size, |device, _| {
                let label = Some(label);
                device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation })
            })
        };
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let up = buffer("upload", up, usage, true)?;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        Ok(Self {
            upload_buffer: up,
            upload_mapping: None,
            readback_buffer: buffer("status", down, usage, false)?,
        })
    }

    /// Writes bytes to the start of the upload buffer.
    pub(super) fn fill(&mut self, gpu: &Gpu, bytes: &[u8]) -> Result<(), EngineError> {
        if let Some(again) = self.upload_mapping.take() {
            again.wait_mapped(gpu)?;
        }
        let outcome = gpu.guarded("writing", 0, |_, _| {
            let range = 0..bytes.len() as u64;
            let mut view = self.upload_buffer.get_mapped_range_mut(range).map_err(|err| err.to_string())?;
            view.slice(..).copy_from_slice(bytes);
            drop(view);
            self.upload_buffer.unmap();
            Ok::<(), String>(())
        })?;
        outcome.map_err(|what| gpu.error(&what))
    }

    /// Registers a submission that uses both buffers and reads `down` bytes back.
    pub(super) fn into_in_flight(
        mut self,
        gpu: &Gpu,
        index: wgpu::SubmissionIndex,
        down: u64,
        timed: UnitTiming,
    ) -> Result<InFlightUnit, EngineError> {
        self.upload_mapping =
            Some(map(gpu, &self.upload_buffer, self.upload_buffer.size(), wgpu::MapMode::Write)?);
        let status = map(gpu, &self.readback_buffer, down, wgpu::MapMode::Read)?;
        Ok(InFlightUnit { place: self, index, status, timed })
    }
}

impl Ring {
    /// A free slot with buffers of these sizes, and how many were allocated: if none fits, as many as there can be
    /// units in flight, so that none has to be allocated later.
    pub(super) fn acquire(&mut self, gpu: &Gpu, up: u64, down: u64) -> Result<(Slot, u64), EngineError> {
        let fits = |place: &Slot| place.upload_buffer.size() >= up && place.readback_buffer.size() == down;
        if let Some(found) = self.free.iter().position(fits) {
            return Ok((self.free.swap_remove(found), 0));
        }
        // Slots that are too small are freed.
        self.free.clear();
        let place = Slot::new(gpu, up, down)?;
        for _ in self.in_flight.len() + 1..IN_FLIGHT {
            self.free.push(Slot::new(gpu, up, down)?);
        }
        Ok((place, 1 + self.free.len() as u64))
    }

    /// Removes the oldest unit, passes its bytes to `take`, and frees its slot.
    pub(super) fn release_oldest(
        &mut self,
        gpu: &Gpu,
        take: impl FnOnce(&[u8], &UnitTiming),
    ) -> Result<(), EngineError> {
        let Some(InFlightUnit { place, status, timed, .. }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        status.finish(gpu, |bytes| take(bytes, &timed))?;
        self.free.push(place);
        Ok(())
    }
}
