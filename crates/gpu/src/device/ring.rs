//! The slots of units in flight. Each has a buffer that uploads the record and image of a unit, and one that reads back
//! its status. A slot is reused when its status has been taken, so in the steady state nothing is allocated.

use std::collections::VecDeque;

use gausset_core::engine::EngineError;

use super::Gpu;
use super::mapping::{Mapping, map};
use super::timer::Timed;
use crate::flight::IN_FLIGHT;

/// A slot.
#[derive(Debug)]
pub(super) struct Place {
    /// Upload buffer; mapped by the host while no unit uses it.
    pub(super) up: wgpu::Buffer,
    /// The pending mapping of `up` after its first use.
    up_again: Option<Mapping>,
    /// Readback buffer.
    pub(super) down: wgpu::Buffer,
}

/// A unit in flight with its slot.
#[derive(Debug)]
pub(super) struct Under {
    place: Place,
    pub(super) index: wgpu::SubmissionIndex,
    pub(super) status: Mapping,
    timed: Timed,
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Ring {
    free: Vec<Place>,
    /// Units in flight, oldest first.
    pub(super) under: VecDeque<Under>,
}

impl Place {
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
        Ok(Self { up, up_again: None, down: buffer("status", down, usage, false)? })
    }

    /// Writes bytes to the start of the upload buffer.
    pub(super) fn fill(&mut self, gpu: &Gpu, bytes: &[u8]) -> Result<(), EngineError> {
        if let Some(again) = self.up_again.take() {
            again.settle(gpu)?;
        }
        let outcome = gpu.guarded("writing", 0, |_, _| {
            let range = 0..bytes.len() as u64;
            let mut view = self.up.get_mapped_range_mut(range).map_err(|err| err.to_string())?;
            view.slice(..).copy_from_slice(bytes);
            drop(view);
            self.up.unmap();
            Ok::<(), String>(())
        })?;
        outcome.map_err(|what| gpu.error(&what))
    }

    /// Registers a submission that uses both buffers and reads `down` bytes back.
    pub(super) fn under(
        mut self,
        gpu: &Gpu,
        index: wgpu::SubmissionIndex,
        down: u64,
        timed: Timed,
    ) -> Result<Under, EngineError> {
        self.up_again = Some(map(gpu, &self.up, self.up.size(), wgpu::MapMode::Write)?);
        let status = map(gpu, &self.down, down, wgpu::MapMode::Read)?;
        Ok(Under { place: self, index, status, timed })
    }
}

impl Ring {
    /// A free slot with buffers of these sizes, and how many were allocated: if none fits, as many as there can be
    /// units in flight, so that none has to be allocated later.
    pub(super) fn place(&mut self, gpu: &Gpu, up: u64, down: u64) -> Result<(Place, u64), EngineError> {
        let fits = |place: &Place| place.up.size() >= up && place.down.size() == down;
        if let Some(found) = self.free.iter().position(fits) {
            return Ok((self.free.swap_remove(found), 0));
        }
        // Slots that are too small are freed.
        self.free.clear();
        let place = Place::new(gpu, up, down)?;
        for _ in self.under.len() + 1..IN_FLIGHT {
            self.free.push(Place::new(gpu, up, down)?);
        }
        Ok((place, 1 + self.free.len() as u64))
    }

    /// Removes the oldest unit, passes its bytes to `take`, and frees its slot.
    pub(super) fn land(&mut self, gpu: &Gpu, take: impl FnOnce(&[u8], &Timed)) -> Result<(), EngineError> {
        let Some(Under { place, status, timed, .. }) = self.under.pop_front() else { return Ok(()) };
        status.finish(gpu, |bytes| take(bytes, &timed))?;
        self.free.push(place);
        Ok(())
    }
}
