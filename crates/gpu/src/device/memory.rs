//! The buffers of an engine: allocation, writing, reading.

use std::collections::BTreeMap;
use std::sync::Arc;

use gausset_core::Stage;
use gausset_core::engine::EngineError;

use super::image_cache::ImageCache;
use super::mapping::{map, wait};
use super::ring::Ring;
use super::timer::{Timer, transfer};
use super::{AdapterKind, Gpu};
use crate::kernels::Kernel;
use crate::layout::{Buffer, Capacities, TRANSFER_CHUNK};
use crate::pace::StageTimes;
use crate::schedule::{Grid, Unit};
use crate::split::{ListStatistics, WorkSplit};
use crate::traffic::Traffic;

const CHUNK: usize = TRANSFER_CHUNK as usize;

/// Counts of the operations so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperationCounts {
    /// Units submitted.
    pub(crate) units: u64,
    /// Submissions of these units.
    pub(crate) submissions: u64,
    /// Number of times that the host waited for a unit.
    pub(crate) waits: u64,
    /// Buffers and bind groups created.
    pub(crate) allocations: u64,
    /// Bytes uploaded with units.
    pub(crate) sent: u64,
    /// Bytes read back with units.
    pub(crate) read: u64,
}

/// A dispatch prepared for recording.
#[derive(Debug)]
pub(super) struct RecordedDispatch {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) group: wgpu::BindGroup,
    pub(super) grid: Grid,
    /// Whether its time has to be considered for splitting.
    pub(super) is_heavy: bool,
    pub(super) stage: Stage,
    pub(super) traffic: Traffic,
}

/// All buffers of one engine.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(super) gpu: Gpu,
    pub(super) buffers: Vec<wgpu::Buffer>,
    sizes: Capacities,
    /// Bind groups by kernel, buffers and page; cleared when a buffer is replaced, or when paging changes.
    pub(super) groups: BTreeMap<(Kernel, Vec<Buffer>, u64), wgpu::BindGroup>,
    /// Recorded dispatches by unit; cleared with the bind groups, and when sizes change.
    pub(super) plans: Vec<(Unit, WorkSplit, Arc<[RecordedDispatch]>)>,
    /// Units in flight.
    pub(super) ring: Ring,
    /// Images cached on the device.
    pub(super) pictures: ImageCache,
    /// How views are split.
    pub(crate) splits: ListStatistics,
    /// Measured times of stages.
    pub(crate) pace: StageTimes,
    /// Created when the first unit is timed.
    pub(super) timer: Option<Timer>,
    /// Upload data of a unit, while it is assembled.
    pub(super) words: Vec<u32>,
    pub(super) counts: OperationCounts,
    /// Staging buffer for reading everything except statuses.
    staging: Option<wgpu::Buffer>,
    /// Limit of the bytes of all buffers together.
    limit: u64,
    /// Limit of the capacity for entries, in addition to the device's: for tests.
    pub(crate) entry_limit: u64,
    /// Limit of the splats of a page, in addition to that of a binding: for tests.
    pub(crate) page_limit: u64,
    /// Limit of the bytes of a binding, in addition to the device's: for tests.
    pub(crate) binding_limit: u64,
}

fn usages(buffer: Buffer) -> wgpu::BufferUsages {
    let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    match buffer {
        Buffer::Job | Buffer::View | Buffer::Rule => storage | wgpu::BufferUsages::UNIFORM,
        Buffer::Arguments => storage | wgpu::BufferUsages::INDIRECT,
        _ => storage,
    }
}

impl DeviceMemory {
    /// No buffers.
    pub(crate) fn new(gpu: Gpu) -> Self {
        // Without timestamps, every stage counts as slow.
        let is_kept = gpu.info().kind != AdapterKind::Software;
        Self {
            gpu,
            buffers: Vec::new(),
            sizes: Capacities::default(),
            groups: BTreeMap::new(),
            plans: Vec::new(),
            ring: Ring::default(),
            pictures: ImageCache::default(),
            splits: ListStatistics::default(),
            pace: StageTimes::new(is_kept),
            timer: None,
            words: Vec::new(),
            counts: OperationCounts::default(),
            staging: None,
            limit: u64::MAX,
            entry_limit: u64::MAX,
            page_limit: u64::MAX,
            binding_limit: u64::MAX,
        }
    }

    /// Limit of the bytes of all buffers together.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that count against the limit at these sizes: those of transfers only if the memory is shared.
    pub(crate) fn needed_bytes(&self, sizes: &Capacities) -> u64 {
        let transfers = if self.gpu.info().shares_memory() { sizes.transfer_bytes() } else { 0 };
        sizes.total_bytes() + transfers
    }

    /// Sets the limit of all buffers; a quarter of it is for cached images.
    pub(crate) fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
        self.pictures.limit(bytes);
    }

    /// Bytes of the cached images.
    pub(crate) fn cached_image_bytes(&self) -> u64 {
        self.pictures.bytes()
    }

    /// Frees the cached images: from now on their keys belong to other images.
    pub(crate) fn clear_image_cache(&mut self) {
        self.pictures.clear();
    }

    /// Counts of the operations so far.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> OperationCounts {
        self.counts
    }

    /// The device.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Current sizes.
    pub(crate) fn sizes(&self) -> &Capacities {
        &self.sizes
    }

    /// Largest number of bytes that can be bound to a kernel.
    pub(crate) fn max_binding_bytes(&self) -> u64 {
        self.gpu.max_binding_bytes().min(self.binding_limit)
    }

    /// The limit of the bytes of a buffer that it exceeds with these sizes, if any: that of a binding, or of a buffer
    /// with pages.
    fn limit_of(&self, buffer: Buffer, sizes: &Capacities) -> Option<u64> {
        let bound = sizes.page_range(buffer, 0).map_or(sizes.bytes(buffer), |(_, bytes)| bytes);
        let limits = [(bound, self.max_binding_bytes()), (sizes.bytes(buffer), self.gpu.max_buffer_bytes())];
        limits.into_iter().find(|(bytes, most)| bytes > most).map(|(_, most)| most)
    }

    fn over_device_limit(&self, buffer: Buffer, sizes: &Capacities, limit: u64) -> EngineError {
        let what = format!("buffer {} of {}", buffer.label(), self.gpu.info().name);
        EngineError::DeviceLimit { what, needed: sizes.bytes(buffer), limit }
    }

    /// Frees the tile lists; the next call of [`Self::grow`] allocates them again.
    pub(crate) fn free_lists(&mut self) -> Result<(), EngineError> {
        if self.buffers.is_empty() {
            return Ok(());
        }
        self.sizes.entries = 0;
        self.groups.clear();
        self.plans.clear();
        for buffer in Buffer::LISTS {
            self.buffers[buffer as usize] = self.create_sized_buffer(buffer, &self.sizes.clone())?;
        }
        // The device frees them once no unit uses them.
        wait(&self.gpu, None)
    }

    /// Enlarges the buffers to at least these sizes. A buffer that grows is reallocated and zeroed.
    ///
    /// # Errors
    /// Returns an error if a buffer is larger than the device allows, or if there is no memory; some buffers may have
    /// grown by then.
    pub(crate) fn grow(&mut self, sizes: &Capacities) -> Result<(), EngineError> {
        let limited = |buffer| Some((buffer, self.limit_of(buffer, sizes)?));
        if let Some((buffer, most)) = Buffer::ALL.into_iter().find_map(limited) {
            return Err(self.over_device_limit(buffer, sizes, most));
        }
        if self.buffers.is_empty() {
            // All or none: later calls rely on each of them.
            let made = Buffer::ALL.into_iter().map(|buffer| self.create_sized_buffer(buffer, sizes));
            self.buffers = made.collect::<Result<_, _>>()?;
        } else {
            for buffer in Buffer::ALL {
                if sizes.bytes(buffer) > self.buffers[buffer as usize].size() {
                    self.groups.clear();
                    self.plans.clear();
                    self.buffers[buffer as usize] = self.create_sized_buffer(buffer, sizes)?;
                }
            }
        }
        if self.sizes != *sizes {
            self.plans.clear();
        }
        if self.sizes.paging != sizes.paging {
            self.groups.clear();
        }
        self.sizes = *sizes;
        Ok(())
    }

    /// Enlarges the buffers for more splats, keeping the data of the existing ones.
    ///
    /// # Errors
    /// Those of [`Self::grow`]. If there is no memory for the data, it stays unchanged.
    pub(crate) fn grow_splat_buffers(&mut self, sizes: &Capacities) -> Result<(), EngineError> {
        let (old, new) = (self.sizes.splats, sizes.splats);
        let mut wider = Vec::new();
        for buffer in Buffer::ALL {
            let is_kept = buffer.planes().is_some() && sizes.bytes(buffer) > 16;
            // The bias corrections are stored before the sums.
            if is_kept || buffer == Buffer::Sums {
                if let Some(most) = self.limit_of(buffer, sizes) {
                    return Err(self.over_device_limit(buffer, sizes, most));
                }
                wider.push((buffer, self.create_sized_buffer(buffer, sizes)?));
            }
        }
        let buffers = &self.buffers;
        self.gpu.guarded("a wider state", 0, |device, queue| {
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for (buffer, to) in &wider {
                let from = &buffers[*buffer as usize];
                match buffer.planes() {
                    Some((planes, bytes)) => {
                        for plane in 0..planes {
                            let (first, next) = (plane * old * bytes, plane * new * bytes);
                            encoder.copy_buffer_to_buffer(from, first, to, next, old * bytes);
                        }
                    }
                    None => encoder.copy_buffer_to_buffer(from, 0, to, 0, from.size().min(to.size())),
                }
            }
            queue.submit([encoder.finish()])
        })?;
        for (buffer, to) in wider {
            self.buffers[buffer as usize] = to;
        }
        self.groups.clear();
        self.grow(sizes)
    }

    /// Like [`Self::grow_splat_buffers`], but copies through the host, for devices without memory for both versions.
    ///
    /// # Errors
    /// Those of [`Self::grow`]; everything is unchanged then.
    pub(crate) fn grow_splat_buffers_via_host(&mut self, sizes: &Capacities) -> Result<(), EngineError> {
        let before = self.sizes;
        let mut kept = Vec::new();
        for buffer in Buffer::ALL {
            let (planes, bytes) = match buffer.planes() {
                Some(planes) if before.bytes(buffer) > 16 => planes,
                // The bias corrections are stored before the sums.
                _ if buffer == Buffer::Sums => (1, 0),
                _ => continue,
            };
            let count =
                if bytes == 0 { before.bytes(buffer) } else { planes * bytes * before.splats } as usize / 4;
            let mut words = Vec::with_capacity(count);
            self.read(buffer, 0, count, |_, part| words.extend_from_slice(part))?;
            kept.push((buffer, words, planes as usize, bytes / 4));
        }
        let grown = self.grow(sizes);
        let (now, outcome) = match grown {
            Ok(()) => (sizes, Ok(())),
            // Buffers that have grown by then are large enough for the old sizes.
            Err(error) => (&before, self.grow(&before).and(Err(error))),
        };
        for (buffer, words, planes, width) in kept {
            for (plane, part) in (0..).zip(words.chunks(words.len().div_ceil(planes).max(1))) {
                self.write(buffer, plane * width * now.splats, part)?;
            }
        }
        outcome
    }

    fn create_sized_buffer(
        &mut self,
        buffer: Buffer,
        sizes: &Capacities,
    ) -> Result<wgpu::Buffer, EngineError> {
        self.create_buffer(&buffer.label(), sizes.bytes(buffer), usages(buffer))
    }

    /// Allocates a buffer.
    pub(super) fn create_buffer(
        &mut self,
        label: &str,
        size: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer, EngineError> {
        self.counts.allocations += 1;
        self.gpu.guarded(label, size, |device, _| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage,
                mapped_at_creation: false,
            })
        })
    }

    /// Writes words, starting at a word offset.
    pub(crate) fn write(&mut self, buffer: Buffer, first: u64, words: &[u32]) -> Result<(), EngineError> {
        let target = &self.buffers[buffer as usize];
        let bytes: &[u8] = bytemuck::cast_slice(words);
        for (chunk, part) in bytes.chunks(CHUNK).enumerate() {
            let at = 4 * first + (chunk * CHUNK) as u64;
            transfer("write", part.len() as u64, || {
                self.gpu.guarded("writing", part.len() as u64, |_, queue| {
                    queue.write_buffer(target, at, part);
                    if part.len() == CHUNK {
                        // Written data stays in host memory until something is submitted.
                        queue.submit([]);
                    }
                })
            })?;
        }
        Ok(())
    }

    /// Writes words at the start of a buffer, if there are any buffers.
    pub(crate) fn write_if_allocated(&mut self, buffer: Buffer, words: &[u32]) -> Result<(), EngineError> {
        if self.buffers.is_empty() { Ok(()) } else { self.write(buffer, 0, words) }
    }

    /// Reads `count` words from a word offset on, after all submitted work; `take` gets them in parts.
    pub(crate) fn read(
        &mut self,
        buffer: Buffer,
        first: u64,
        count: usize,
        mut take: impl FnMut(usize, &[u32]),
    ) -> Result<(), EngineError> {
        let words_of_chunk = CHUNK / 4;
        for start in (0..count).step_by(words_of_chunk) {
            let words = words_of_chunk.min(count - start);
            let bytes = 4 * words as u64;
            let staging = self.staging(bytes)?;
            let source = &self.buffers[buffer as usize];
            let from = 4 * (first + start as u64);
            let index = self.gpu.guarded("reading", bytes, |device, queue| {
                let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                encoder.copy_buffer_to_buffer(source, from, &staging, 0, bytes);
                queue.submit([encoder.finish()])
            })?;
            let mapped = map(&self.gpu, &staging, bytes, wgpu::MapMode::Read)?;
            transfer("read back", bytes, || wait(&self.gpu, Some(index)))?;
            mapped.finish(&self.gpu, |bytes| take(start, bytemuck::cast_slice(bytes)))?;
        }
        Ok(())
    }

    fn staging(&mut self, bytes: u64) -> Result<wgpu::Buffer, EngineError> {
        if self.staging.as_ref().is_none_or(|staging| staging.size() < bytes) {
            self.staging = Some(self.create_buffer(
                "staging",
                bytes,
                wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            )?);
        }
        let staging = self.staging.clone();
        staging.ok_or_else(|| self.gpu.error("no staging buffer"))
    }
}
