//! The engine: what it holds, how a unit runs to its end, and what is reported.

use gausset_compute::Pool;
use gausset_core::engine::{
    Engine, EngineError, FrontQuery, Outputs, RenderOptions, Rendering, StepParams, StepReport, TrainView,
};
use gausset_core::{Camera, Pose};

use crate::device::{AdapterKind, Gpu, Memory};
use crate::layout::{Buffer, Sizes};
use crate::record::{Job, halt, status};
use crate::schedule::{Then, Unit, dispatches};
use crate::state::HostState;
use crate::unit::{self, Held, LossScale};

/// How a GPU engine is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// Threads that convert states and apply density rules; 0 = as many as the machine runs at once.
    pub threads: usize,
    /// Bytes of the device's own memory that may be used; `None` = no limit is known.
    pub memory_limit: Option<u64>,
}

/// A step that has been submitted and not been acknowledged: all that a second try needs.
#[derive(Debug)]
pub(crate) struct Pending {
    view: TrainView,
    step: u64,
    job: Job,
    unit: Unit,
    scale: LossScale,
}

/// Trains and renders on a GPU. See the crate's documentation.
pub struct GpuEngine {
    pub(crate) memory: Memory,
    pub(crate) pool: Pool,
    pub(crate) state: HostState,
    pub(crate) pending: Option<Pending>,
    pub(crate) report: StepReport,
    pub(crate) failed: Option<EngineError>,
    /// Bytes that all buffers may take together.
    pub(crate) memory_limit: u64,
    /// An engine of the processor for what this one does not do itself.
    pub(crate) helper: Option<Box<dyn Engine>>,
}

impl std::fmt::Debug for GpuEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GpuEngine { memory, state, pending, report, failed, .. } = self;
        f.debug_struct("GpuEngine")
            .field("memory", memory)
            .field("state", state)
            .field("pending", pending)
            .field("report", report)
            .field("failed", failed)
            .finish_non_exhaustive()
    }
}

impl GpuEngine {
    /// An engine without splats.
    #[must_use]
    pub fn new(gpu: &Gpu, options: GpuOptions) -> Self {
        let pool = if options.threads == 0 { Pool::with_all_cores() } else { Pool::new(options.threads) };
        Self {
            memory: Memory::new(gpu.clone()),
            pool,
            state: HostState::default(),
            pending: None,
            report: StepReport::default(),
            failed: None,
            memory_limit: options.memory_limit.unwrap_or(u64::MAX),
            helper: None,
        }
    }

    /// With an engine of the processor, which does what needs the lists of views on the host: clearing free space.
    #[must_use]
    pub fn with_helper(mut self, helper: Box<dyn Engine>) -> Self {
        self.helper = Some(helper);
        self
    }

    /// The device.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        self.memory.gpu()
    }

    /// Refuses sizes that are beyond the limit, before anything is allocated.
    pub(crate) fn make_room(&mut self, what: &dyn Fn() -> String, sizes: &Sizes) -> Result<(), EngineError> {
        let needed = sizes.total();
        if needed > self.memory_limit {
            return Err(EngineError::OutOfMemory { what: what(), needed, limit: self.memory_limit });
        }
        self.memory.grow(sizes)
    }

    fn held(&self) -> Held<'_> {
        Held {
            splats: self.state.splats as u64,
            sh_degree: self.state.sh_degree,
            groups: &self.state.groups,
            group_clock: self.state.group_clock,
        }
    }

    /// Submits a step on a view.
    pub(crate) fn submit_step(&mut self, view: &TrainView, params: &StepParams) -> Result<(), EngineError> {
        let (job, unit, scale) = unit::step(&self.held(), view, params)?;
        let pixels = u64::from(job.width) * u64::from(job.height);
        let old = *self.memory.sizes();
        let sizes = Sizes {
            pixels: old.pixels.max(pixels),
            training_pixels: old.training_pixels.max(pixels),
            tiles: old.tiles.max(u64::from(job.tiles)),
            ..old
        };
        let what = || format!("view `{}`: {}x{} px", view.name, job.width, job.height);
        self.make_room(&what, &sizes)?;
        self.memory.write(Buffer::Picture, 0, &unit::picture_words(&view.target))?;
        self.submit(&job, &unit)?;
        self.pending = Some(Pending { view: view.clone(), step: params.step, job, unit, scale });
        Ok(())
    }

    /// Submits a unit with the room that there is.
    fn submit(&mut self, job: &Job, unit: &Unit) -> Result<(), EngineError> {
        let sizes = *self.memory.sizes();
        let job = Job { capacity: sizes.splats as u32, entry_capacity: sizes.entries as u32, ..*job };
        self.memory.write(Buffer::Job, 0, &job.words())?;
        self.memory.submit(&dispatches(unit, &sizes))
    }

    /// More room for entries, after a unit was halted that has so many.
    fn grow_entries(&mut self, what: &dyn Fn() -> String, entries: u64) -> Result<(), EngineError> {
        let sizes = *self.memory.sizes();
        let bytes_per_entry = 48;
        let most = (self.gpu().most_bytes_of_a_buffer() / bytes_per_entry).min(1 << 31) / 4096 * 4096;
        let what = || format!("{}: the tile lists, with {entries} entries,", what());
        if entries > most {
            let needed = entries * bytes_per_entry;
            return Err(EngineError::OutOfMemory { what: what(), needed, limit: most * bytes_per_entry });
        }
        let wanted = (entries + entries / 2).next_multiple_of(4096).min(most);
        let grown = self.make_room(&what, &Sizes { entries: wanted, ..sizes });
        match grown {
            // Head room is not worth a failure.
            Err(EngineError::OutOfMemory { .. }) => {
                self.make_room(&what, &Sizes { entries: entries.next_multiple_of(4096).min(most), ..sizes })
            }
            outcome => outcome,
        }
    }

    /// Waits for the step under way, and repeats it with more room where there was too little. What it was goes to the
    /// report, or is the failure that all later calls tell of.
    pub(crate) fn drain(&mut self) -> Result<(), EngineError> {
        while let Some(pending) = self.pending.take() {
            let Some(words) = self.memory.finish()? else { return Ok(()) };
            let outcome = match words[status::HALT] {
                halt::NOT => {
                    self.count(&pending, &words);
                    Ok(())
                }
                halt::CAPACITY => self.repeat(pending, u64::from(words[status::ENTRIES])),
                _ => {
                    let loss = loss_of(&pending.scale, &words);
                    let view = pending.view.name.to_string();
                    Err(EngineError::NonFiniteLoss { step: pending.step, view, loss })
                }
            };
            if let Err(error) = outcome {
                self.failed = Some(error);
            }
        }
        Ok(())
    }

    fn repeat(&mut self, pending: Pending, entries: u64) -> Result<(), EngineError> {
        let name = pending.view.name.clone();
        self.grow_entries(&|| format!("view `{name}`"), entries)?;
        // The picture is still there: what grows is what belongs to entries.
        self.submit(&pending.job, &pending.unit)?;
        self.pending = Some(pending);
        Ok(())
    }

    fn count(&mut self, pending: &Pending, words: &[u32; status::WORDS]) {
        let loss = loss_of(&pending.scale, words);
        let of = |word: usize| u64::from(words[word]);
        self.state.group_clock += 1;
        let report = &mut self.report;
        report.steps += 1;
        report.loss_sum += loss;
        report.last_step = Some(pending.step);
        report.last_loss = loss;
        report.visible = of(status::VISIBLE);
        report.intersections = of(status::ENTRIES);
        report.cap_hits += of(status::CUT_TILES);
        report.capped_steps += u64::from(words[status::CUT_TILES] > 0);
        report.skipped_updates += of(status::SKIPPED);
        report.dead_splats = of(status::DEAD);
    }

    /// Runs a unit that changes nothing to its end, with as much room as it needs.
    fn look(&mut self, job: &Job, unit: &Unit) -> Result<[u32; status::WORDS], EngineError> {
        loop {
            self.submit(job, unit)?;
            let Some(words) = self.memory.finish()? else {
                return Err(EngineError::Device("a picture was lost".to_owned()));
            };
            if words[status::HALT] == halt::NOT {
                return Ok(words);
            }
            self.grow_entries(&|| "a picture".to_owned(), u64::from(words[status::ENTRIES]))?;
        }
    }

    /// The weights in front of depths.
    pub(crate) fn ask(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[FrontQuery],
    ) -> Result<Vec<f32>, EngineError> {
        let count = queries.len() as u32;
        let job = Job { queries: count, ..unit::picture_job(&self.held(), camera, pose, options)? };
        let unit = Unit { then: Then::Questions { count }, ..unit::picture_unit(&job, Outputs::Color) };
        let old = *self.memory.sizes();
        let sizes = Sizes {
            tiles: old.tiles.max(u64::from(job.tiles)),
            queries: old.queries.max(u64::from(count)),
            ..old
        };
        self.make_room(&|| format!("{count} questions"), &sizes)?;
        let words: Vec<[u32; 4]> =
            queries.iter().map(|q| [q.pixel[0], q.pixel[1], q.depth.to_bits(), 0]).collect();
        self.memory.write(Buffer::Queries, 0, words.as_flattened())?;
        self.look(&job, &unit)?;
        let mut weights = Vec::with_capacity(queries.len());
        self.memory.read(Buffer::Queries, 0, 4 * queries.len(), |_, part| {
            weights.extend(part.as_chunks::<4>().0.iter().map(|words| f32::from_bits(words[3])));
        })?;
        Ok(weights)
    }

    /// Renders a picture into buffers of the caller.
    pub(crate) fn draw(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        out: &mut Rendering,
    ) -> Result<(), EngineError> {
        let job = unit::picture_job(&self.held(), camera, pose, options)?;
        let unit = unit::picture_unit(&job, outputs);
        let with_depth = outputs == Outputs::All;
        let pixels = camera.width as usize * camera.height as usize;
        let old = *self.memory.sizes();
        let sizes = Sizes {
            pixels: old.pixels.max(pixels as u64),
            depth_pixels: if with_depth { old.depth_pixels.max(pixels as u64) } else { old.depth_pixels },
            tiles: old.tiles.max(u64::from(job.tiles)),
            ..old
        };
        let what = || format!("a picture: {}x{} px", camera.width, camera.height);
        self.make_room(&what, &sizes)?;
        let words = self.look(&job, &unit)?;
        (out.width, out.height, out.cut_tiles) =
            (camera.width, camera.height, u64::from(words[status::CUT_TILES]));
        out.color.clear();
        out.alpha.clear();
        out.depth.clear();
        out.count.clear();
        out.color.reserve(3 * pixels);
        out.alpha.reserve(pixels);
        self.memory.read(Buffer::Pixels, 0, 4 * pixels, |_, part| {
            for &[red, green, blue, last] in part.as_chunks().0 {
                out.color.extend([red, green, blue].map(f32::from_bits));
                out.alpha.push(1.0 - f32::from_bits(last));
            }
        })?;
        if with_depth {
            self.memory.read(Buffer::Depths, 0, 2 * pixels, |_, part| {
                for &[depth, count] in part.as_chunks().0 {
                    out.depth.push(f32::from_bits(depth));
                    out.count.push(count);
                }
            })?;
        }
        Ok(())
    }

    /// For people, and for the record of a run: adapter, interface, driver.
    pub(crate) fn name(&self) -> String {
        let info = self.gpu().info();
        let what = if info.kind == AdapterKind::Software { " (software)" } else { "" };
        format!("{}{what}, {}, {}", info.name, info.backend, info.driver)
    }
}

fn loss_of(scale: &LossScale, words: &[u32; status::WORDS]) -> f64 {
    scale.loss(f32::from_bits(words[status::ABSOLUTE]), f32::from_bits(words[status::SSIM]))
}
