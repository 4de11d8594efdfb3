//! Recording, submitting and awaiting units.

use std::sync::Arc;

use gausset_core::Stage;
use gausset_core::engine::EngineError;

use super::image_cache::ImageKey;
use super::mapping::{poll, wait};
use super::memory::{DeviceMemory, RecordedDispatch};
use super::pipeline::Pipeline;
use super::ring::Ring;
use super::timer::{self, TimedStage, Timer, UnitTiming};
use crate::kernels::Kernel;
use crate::layout::Buffer;
use crate::layout::sh_blocks;
use crate::pace::UnitSize;
#[cfg(test)]
use crate::record::GRID_WIDTH;
use crate::record::{Job, Record, Rule, status};
use crate::schedule::{Dispatch, Grid, Unit, UnitKind, dispatches};
use crate::split::WorkSplit;
use crate::traffic::{ItemCounts, Traffic};

/// Bytes of a status.
const STATUS_BYTES: u64 = 4 * status::WORDS as u64;
/// Number of recorded plans that are cached; beyond it, they belong to units that do not recur.
const MAX_PLANS: usize = 64;

/// Data uploaded with a unit in addition to its records: an image, rays.
pub(crate) struct Upload<'a> {
    /// Destination buffer.
    pub(crate) to: Buffer,
    /// Key under which it may be cached; `None` if it belongs to this unit alone.
    pub(crate) name: Option<ImageKey>,
    /// Size of its words, bytes.
    pub(crate) bytes: u64,
    /// Appends its words.
    pub(crate) words: &'a dyn Fn(&mut Vec<u32>),
}

/// Where the data of a unit comes from.
enum UploadSource {
    /// It is cached on the device.
    Cached(wgpu::Buffer),
    /// It is uploaded, and cached if there is a buffer for it.
    Uploaded(Option<wgpu::Buffer>),
}

impl DeviceMemory {
    /// Submits a unit with the current capacities: one command buffer that uploads its records and data, runs the
    /// dispatches and copies the status back.
    pub(crate) fn submit(
        &mut self,
        job: &Job,
        rule: Option<&Rule>,
        upload: Option<&Upload<'_>>,
        unit: &Unit,
    ) -> Result<(), EngineError> {
        let sizes = *self.sizes();
        let extent =
            UnitSize { splats: f64::from(job.splats), pixels: f64::from(job.width) * f64::from(job.height) };
        let view = upload.and_then(|upload| upload.name);
        let split = self.splits.of(view, job.tile_rows(), self.pace.windows(&extent));
        let job = Job {
            capacity: sizes.splats_per_page() as u32,
            drawn_capacity: sizes.visible_capacity() as u32,
            entry_capacity: sizes.entries as u32,
            band_rows: split.band_rows,
            chunk_entries: self.splits.chunk_entries,
            chunks: split.chunks,
            ..*job
        };
        let parts = self.plan(unit, &split)?;
        self.launch(Some((&job, &split, &extent)), rule, upload, &parts)
    }

    /// Submits dispatches without a unit.
    #[cfg(test)]
    pub(crate) fn submit_list(&mut self, dispatches: &[Dispatch]) -> Result<(), EngineError> {
        let parts = self.parts(dispatches)?;
        self.launch(None, None, None, &parts)
    }

    fn launch(
        &mut self,
        unit: Option<(&Job, &WorkSplit, &UnitSize)>,
        rule: Option<&Rule>,
        upload: Option<&Upload<'_>>,
        parts: &[RecordedDispatch],
    ) -> Result<(), EngineError> {
        let gpu = self.gpu.clone();
        self.words.clear();
        if let Some((job, ..)) = unit {
            self.words.extend(job.words());
        }
        let job_bytes = 4 * self.words.len() as u64;
        if let Some(rule) = rule {
            self.words.extend(rule.words());
        }
        let record_bytes = 4 * self.words.len() as u64;
        let source = upload.map(|upload| self.source(upload)).transpose()?;
        if let (Some(upload), Some(UploadSource::Uploaded(_))) = (upload, &source) {
            (upload.words)(&mut self.words);
        }
        let bytes = 4 * self.words.len() as u64;
        // The buffer of a step also has space for a rule.
        let room = bytes.max(Job::BYTES + Rule::BYTES);
        let (mut place, made) = self.ring.acquire(&gpu, room, STATUS_BYTES + timer::BYTES)?;
        self.counts.allocations += 2 * made;
        place.fill(&gpu, bytemuck::cast_slice(&self.words))?;
        let number = self.counts.units;
        let heavy = parts.iter().filter(|part| part.is_heavy && unit.is_some());
        let is_timed = gpu.has_timestamps()
            && (self.pace.is_timed(number, heavy.map(|part| part.stage))
                || gausset_prof::is_enabled() && number.is_multiple_of(timer::TIMING_INTERVAL));
        if is_timed && self.timer.is_none() {
            self.timer = Timer::new(&gpu)?;
        }
        let timer = self.timer.as_ref().filter(|_| is_timed);
        let submissions = match unit {
            Some((_, split, extent)) => {
                let stages = parts.iter().map(|part| part.is_heavy.then_some(part.stage));
                self.pace.submissions(stages, &split.windows, extent)
            }
            None => vec![parts.len()],
        };
        // For each submission, the parts that are recorded in one pass.
        let mut rest = parts;
        let mut runs: Vec<Vec<&[RecordedDispatch]>> = Vec::with_capacity(submissions.len());
        for length in submissions {
            let (now, later) = rest.split_at(length);
            runs.push(match timer {
                Some(_) => now.chunk_by(|a, b| a.stage == b.stage).collect(),
                None => vec![now],
            });
            rest = later;
        }
        let all_runs = || runs.iter().flatten();
        let down = STATUS_BYTES + timer.map_or(0, |_| timer::BYTES);
        let of = |buffer: Buffer| &self.buffers[buffer as usize];
        let index = gpu.guarded("a unit", 0, |device, queue| {
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            if let Some(timer) = timer {
                timer.mark(&mut encoder, 0);
            }
            encoder.copy_buffer_to_buffer(&place.upload_buffer, 0, of(Buffer::Job), 0, job_bytes);
            if rule.is_some() {
                encoder.copy_buffer_to_buffer(
                    &place.upload_buffer,
                    job_bytes,
                    of(Buffer::Rule),
                    0,
                    Rule::BYTES,
                );
            }
            if let (Some(upload), Some(source)) = (upload, &source) {
                let (from, first) = match source {
                    UploadSource::Cached(kept) => (kept, 0),
                    UploadSource::Uploaded(_) => (&place.upload_buffer, record_bytes),
                };
                encoder.copy_buffer_to_buffer(from, first, of(upload.to), 0, upload.bytes);
                if let UploadSource::Uploaded(Some(kept)) = source {
                    encoder.copy_buffer_to_buffer(from, first, kept, 0, upload.bytes);
                }
            }
            encoder.clear_buffer(of(Buffer::Ranges), 0, None);
            if let Some(timer) = timer {
                timer.mark(&mut encoder, 1);
            }
            let mut number = 0;
            for (submission, runs) in runs.iter().enumerate() {
                if submission > 0 {
                    let next = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                    queue.submit([std::mem::replace(&mut encoder, next).finish()]);
                }
                for run in runs {
                    let timestamps = timer.and_then(|timer| timer.around(number));
                    record(&mut encoder, run, of(Buffer::Arguments), timestamps);
                    number += 1;
                }
            }
            encoder.copy_buffer_to_buffer(of(Buffer::Status), 0, &place.readback_buffer, 0, STATUS_BYTES);
            if let Some(timer) = timer {
                timer.resolve(&mut encoder, number, &place.readback_buffer, STATUS_BYTES);
            }
            queue.submit([encoder.finish()])
        })?;
        self.counts.units += 1;
        self.counts.submissions += runs.len() as u64;
        self.counts.sent += bytes;
        self.counts.read += down;
        let timed = match (timer, unit) {
            (Some(_), Some((job, split, extent))) => UnitTiming {
                stages: all_runs().filter_map(|run| timed_stage(run, split)).collect(),
                extent: *extent,
                items: ItemCounts {
                    splats: f64::from(job.splats),
                    pixels: f64::from(job.width) * f64::from(job.height),
                    sh_blocks: sh_blocks(job.sh_degree as u8) as f64,
                    ..ItemCounts::default()
                },
                // A free-space view has a rule and tile lists.
                is_rule: rule.is_some() && job.tiles == 0,
                copied: (record_bytes + upload.map_or(0, |upload| upload.bytes)) as f64,
            },
            _ => UnitTiming::default(),
        };
        self.ring.in_flight.push_back(place.into_in_flight(&gpu, index, down, timed)?);
        if let (Some(name), Some(UploadSource::Uploaded(Some(kept)))) =
            (upload.and_then(|upload| upload.name), source)
        {
            self.pictures.insert(name, kept);
        }
        Ok(())
    }

    /// Finds the source of an upload, with a buffer to cache it if it has a key and fits.
    fn source(&mut self, upload: &Upload<'_>) -> Result<UploadSource, EngineError> {
        let Some(name) = upload.name else { return Ok(UploadSource::Uploaded(None)) };
        if let Some(kept) = self.pictures.get(name) {
            return Ok(UploadSource::Cached(kept.clone()));
        }
        let taken = self.needed_bytes(self.sizes()) + self.pictures.bytes();
        if !self.pictures.fits(upload.bytes) || taken + upload.bytes > self.limit() {
            return Ok(UploadSource::Uploaded(None));
        }
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let made = self.create_buffer("a picture", upload.bytes, usage);
        match made {
            // Caching is optional: without memory the device continues without it.
            Err(EngineError::OutOfMemory { .. }) => Ok(UploadSource::Uploaded(None)),
            made => made.map(|kept| UploadSource::Uploaded(Some(kept))),
        }
    }

    /// Whether there are units in flight whose status has not been taken.
    pub(crate) fn is_busy(&self) -> bool {
        !self.ring.in_flight.is_empty()
    }

    /// The status of the oldest unit in flight, if there is one and it has arrived; waits for it if `is_awaited`.
    pub(crate) fn take_status(
        &mut self,
        is_awaited: bool,
    ) -> Result<Option<[u32; status::WORDS]>, EngineError> {
        let gpu = self.gpu.clone();
        let outcome = self.try_take_status(&gpu, is_awaited);
        if outcome.is_err() {
            // After a failure, units in flight may never finish.
            self.ring = Ring::default();
        }
        outcome
    }

    fn try_take_status(
        &mut self,
        gpu: &super::Gpu,
        is_awaited: bool,
    ) -> Result<Option<[u32; status::WORDS]>, EngineError> {
        let Some(oldest) = self.ring.in_flight.front() else { return Ok(None) };
        if !oldest.status.is_done() {
            poll(gpu)?;
        }
        if !oldest.status.is_done() {
            if !is_awaited {
                return Ok(None);
            }
            self.counts.waits += 1;
            wait(gpu, Some(oldest.index.clone()))?;
        }
        let mut words = [0; status::WORDS];
        let (timer, pace) = (&mut self.timer, &mut self.pace);
        self.ring.release_oldest(gpu, |bytes, timed| {
            let (status, ticks) = bytes.split_at(STATUS_BYTES as usize);
            words.copy_from_slice(bytemuck::cast_slice(status));
            let period = gpu.shared.tick_ns.filter(|_| !timed.stages.is_empty());
            if let (Some(period), Some(timer)) = (period, timer) {
                timer.report(timed, &words, bytemuck::cast_slice(ticks), period, pace);
            }
        })?;
        Ok(Some(words))
    }

    /// The recorded dispatches of a unit, created once.
    fn plan(&mut self, unit: &Unit, split: &WorkSplit) -> Result<Arc<[RecordedDispatch]>, EngineError> {
        let is_it = |(of, with, _): &&(Unit, WorkSplit, _)| of == unit && with == split;
        if let Some((_, _, parts)) = self.plans.iter().find(is_it) {
            return Ok(Arc::clone(parts));
        }
        if self.plans.len() >= MAX_PLANS {
            self.plans.clear();
        }
        let mut parts = self.parts(&dispatches(unit, self.sizes(), split))?;
        if matches!(unit.kind, UnitKind::Rule { .. } | UnitKind::Rays { .. }) {
            // Including its sorts and scans.
            parts.iter_mut().for_each(|part| part.stage = Stage::Density);
        }
        let parts: Arc<[RecordedDispatch]> = parts.into();
        self.plans.push((*unit, *split, Arc::clone(&parts)));
        Ok(parts)
    }

    fn parts(&mut self, dispatches: &[Dispatch]) -> Result<Vec<RecordedDispatch>, EngineError> {
        let mut parts = Vec::with_capacity(dispatches.len());
        for dispatch in dispatches {
            let pipeline = self.gpu.pipeline(dispatch.kernel)?;
            let group = self.group(&pipeline, dispatch)?;
            let stage = match (dispatch.kernel, parts.last()) {
                // It belongs to the dispatch that it splits.
                (
                    Kernel::NextWindow(..) | Kernel::NextChunk | Kernel::TurnPage(_),
                    Some(RecordedDispatch { stage, .. }),
                ) => *stage,
                _ => dispatch.kernel.stage(),
            };
            parts.push(RecordedDispatch {
                pipeline: pipeline.pipeline,
                group,
                grid: dispatch.grid,
                is_heavy: dispatch.is_heavy(),
                stage,
                traffic: dispatch.kernel.traffic(),
            });
        }
        Ok(parts)
    }

    fn group(&mut self, pipeline: &Pipeline, dispatch: &Dispatch) -> Result<wgpu::BindGroup, EngineError> {
        let key = (dispatch.kernel, dispatch.buffers.clone(), dispatch.page);
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
                resource: wgpu::BindingResource::Buffer(self.binding(buffer, dispatch.page)),
            })
            .collect();
        let group = self.gpu.guarded(&label, 0, |device, _| {
            device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&label),
                layout: &pipeline.layout,
                entries: &entries,
            })
        })?;
        self.counts.allocations += 1;
        self.groups.insert(key, group.clone());
        Ok(group)
    }
}

impl DeviceMemory {
    /// The binding of a buffer for a kernel: one page of it, or the used part.
    fn binding(&self, buffer: Buffer, page: u64) -> wgpu::BufferBinding<'_> {
        let all = &self.buffers[buffer as usize];
        // The buffer may be larger than its current size.
        let most = all.size().min(self.max_binding_bytes() / 16 * 16);
        let (offset, bytes) = self.sizes().page_range(buffer, page).unwrap_or((0, most));
        wgpu::BufferBinding { buffer: all, offset, size: std::num::NonZeroU64::new(bytes) }
    }
}

#[cfg(test)]
impl DeviceMemory {
    /// Offset and length in bytes of all current bindings.
    pub(crate) fn bound_ranges(&self) -> Vec<(u64, u64)> {
        let of = |(_, buffers, page): &(Kernel, Vec<Buffer>, u64)| {
            buffers.iter().map(|&buffer| self.binding(buffer, *page)).collect::<Vec<_>>()
        };
        let all = self.groups.keys().flat_map(of);
        all.map(|binding| (binding.offset, binding.size.map_or(0, u64::from))).collect()
    }
}

/// The stage of consecutive dispatches, and their memory traffic.
fn timed_stage(run: &[RecordedDispatch], split: &WorkSplit) -> Option<TimedStage> {
    let mut traffic = Traffic::default();
    run.iter().for_each(|part| traffic += part.traffic);
    let heavy = run.iter().filter(|part| part.is_heavy).count() as f64;
    let of = |part: &RecordedDispatch| TimedStage {
        stage: part.stage,
        traffic,
        dispatches: heavy / f64::from(split.windows.parts(part.stage)),
    };
    run.first().map(of)
}

/// Records dispatches in one pass.
fn record(
    encoder: &mut wgpu::CommandEncoder,
    parts: &[RecordedDispatch],
    arguments: &wgpu::Buffer,
    timestamp_writes: Option<wgpu::ComputePassTimestampWrites<'_>>,
) {
    let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
    let mut pass = encoder.begin_compute_pass(&descriptor);
    for part in parts {
        pass.set_pipeline(&part.pipeline);
        pass.set_bind_group(0, &part.group, &[]);
        match part.grid {
            Grid::One => pass.dispatch_workgroups(1, 1, 1),
            #[cfg(test)]
            Grid::Groups(groups) => {
                pass.dispatch_workgroups(groups.min(GRID_WIDTH), groups.div_ceil(GRID_WIDTH), 1);
            }
            Grid::Counted(argument) => {
                pass.dispatch_workgroups_indirect(arguments, 16 * u64::from(argument));
            }
        }
    }
}
