//! The engine: its state, running a unit to completion, and its reports.

use gausset_compute::Pool;
use gausset_core::engine::{
    DensityRule, Engine, EngineError, OcclusionQuery, Outputs, RenderOptions, Rendering, StepParams,
    StepReport, TrainView,
};
use gausset_core::{Camera, Pose};

use crate::device::{DeviceMemory, Gpu};
use crate::in_flight::{IN_FLIGHT, InFlight, check_number};
use crate::layout::{Buffer, Capacities};
use crate::record::{Job, flag, halt, status};
use crate::schedule::{Unit, UnitKind};
use crate::state::HostState;
use crate::task::{StepTask, Task, Tasks};
use crate::unit::{self, StateInfo};
use crate::{planes, rule};

/// Where density rules are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DensityBackend {
    /// On the device, as units that the host does not wait for.
    #[default]
    Device,
    /// On the CPU: the state is read back, changed and uploaded again.
    Host,
}

/// Options of a GPU engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// Threads that convert states and apply density rules; 0 = as many as the machine can run in parallel.
    pub threads: usize,
    /// Bytes of the device's memory that may be used; `None` = nine tenths of its own memory, if that is known.
    pub memory_limit: Option<u64>,
    /// Maximum number of steps in flight, up to 8; 0 = 8. The state does not depend on it.
    pub in_flight: usize,
    /// Where density rules are applied.
    pub density: DensityBackend,
    /// Bytes of host memory that the driver took when the device was opened.
    pub driver_bytes: u64,
}

/// Trains and renders on a GPU. See the crate's documentation.
pub struct GpuEngine {
    pub(crate) memory: DeviceMemory,
    /// Memory limit from the options or from the device, apart from other limits.
    pub(crate) device_limit: Option<u64>,
    pub(crate) pool: Pool,
    pub(crate) state: HostState,
    pub(crate) flight: InFlight<Task>,
    density: DensityBackend,
    pub(crate) driver_bytes: u64,
    pub(crate) report: StepReport,
    pub(crate) pending_error: Option<EngineError>,
    /// A CPU engine that clears free space if rules are applied on the host.
    pub(crate) helper: Option<Box<dyn Engine>>,
}

impl std::fmt::Debug for GpuEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GpuEngine { memory, state, flight, report, pending_error: failed, .. } = self;
        f.debug_struct("GpuEngine")
            .field("memory", memory)
            .field("state", state)
            .field("flight", flight)
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
        let mut memory = DeviceMemory::new(gpu.clone());
        let info = gpu.info();
        let known = info.memory_bytes.filter(|_| !info.shares_memory()).map(|bytes| bytes / 10 * 9);
        let own_limit = options.memory_limit.or(known);
        memory.set_limit(own_limit.unwrap_or(u64::MAX));
        Self {
            memory,
            device_limit: own_limit,
            pool,
            state: HostState::default(),
            flight: InFlight::new(if options.in_flight == 0 { IN_FLIGHT } else { options.in_flight }),
            density: options.density,
            driver_bytes: options.driver_bytes,
            report: StepReport::default(),
            pending_error: None,
            helper: None,
        }
    }

    /// Adds a CPU engine, which clears free space if density rules are applied on the host.
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

    fn steps_in_flight(&self) -> u64 {
        self.flight.units().filter(|task| matches!(task, Task::Step(_))).count() as u64
    }

    pub(crate) fn state_info(&self) -> StateInfo<'_> {
        StateInfo {
            sh_degree: self.state.sh_degree,
            groups: &self.state.groups,
            group_clock: self.state.group_clock + self.steps_in_flight(),
        }
    }

    /// Submits a step on a view.
    pub(crate) fn submit_step(&mut self, view: &TrainView, params: &StepParams) -> Result<(), EngineError> {
        let (job, unit, scale) = unit::step(&self.state_info(), view, params)?;
        let pixels = u64::from(job.width) * u64::from(job.height);
        let old = *self.memory.sizes();
        let sizes = Capacities {
            pixels: old.pixels.max(pixels),
            training_pixels: old.training_pixels.max(pixels),
            tiles: old.tiles.max(u64::from(job.tiles)),
            ..old
        };
        let what = || format!("view `{}`: {}x{} px", view.name, job.width, job.height);
        self.memory.ensure_capacity(&what, &sizes)?;
        let step = StepTask { view: view.clone(), step: params.step, job, unit, scale };
        self.submit(Task::Step(Box::new(step)))
    }

    /// Submits a density rule if the device can apply it; returns whether it did.
    pub(crate) fn submit_rule(&mut self, rule: &DensityRule) -> Result<bool, EngineError> {
        let sizes = self.memory.sizes();
        if self.density == DensityBackend::Host || !(1..=planes::MAX_ROWS).contains(&sizes.splats) {
            return Ok(false);
        }
        self.acknowledge_finished();
        self.check()?;
        let unit = rule::unit(rule, self.state.sh_degree);
        if self.needs_pages(unit.as_ref().map_or(0, |unit| unit.rule.max_splats))? {
            self.report.host_rules += 1;
            return Ok(false);
        }
        match (rule, unit) {
            (DensityRule::FreeSpace(rule), _) => self.submit_free_space(rule)?,
            (_, Some(unit)) => self.submit(Task::Rule(Box::new(unit)))?,
            (_, None) => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the splats are stored in pages, or may have to be after a rule that leaves at most `most` of them and at
    /// most doubles their number. Rules on the device do not support pages.
    fn needs_pages(&mut self, most: u32) -> Result<bool, EngineError> {
        let (sizes, page) = (*self.memory.sizes(), self.memory.max_splats_per_page());
        if sizes.paging.is_some() || u64::from(most) <= page {
            return Ok(sizes.paging.is_some());
        }
        let rules = self.flight.units().filter(|task| matches!(task, Task::Rule(_))).count();
        if sizes.splats << (rules + 1) <= page {
            return Ok(false);
        }
        // The number of splats is known once no unit is in flight.
        self.drain();
        self.check()?;
        Ok(2 * self.state.splats as u64 > page)
    }

    /// Submits a task without waiting for its result.
    pub(crate) fn submit(&mut self, task: Task) -> Result<(), EngineError> {
        self.advance(|flight, device| flight.submit(device, task));
        self.check()
    }

    /// Processes finished units, without waiting.
    pub(crate) fn acknowledge_finished(&mut self) {
        self.advance(|flight, device| flight.collect(device));
    }

    /// Waits for all units in flight.
    pub(crate) fn drain(&mut self) {
        self.advance(|flight, device| flight.drain(device));
    }

    /// Advances the units in flight. A failure is returned by all later calls.
    fn advance(
        &mut self,
        action: impl FnOnce(&mut InFlight<Task>, &mut Tasks<'_>) -> Result<(), EngineError>,
    ) {
        let Self { flight, memory, state, report, .. } = self;
        if let Err(error) = action(flight, &mut Tasks { memory, state, report }) {
            self.pending_error = Some(error);
        }
    }

    /// Runs a unit that does not change the state to completion, enlarging buffers as needed. No other unit is in
    /// flight.
    fn run_to_completion(&mut self, job: &Job, unit: &Unit) -> Result<[u32; status::WORDS], EngineError> {
        let splats = self.state.splats as u32;
        let flags = job.flags | flag::LIFTS;
        // If it fails half-way, the next step lifts its halt.
        self.flight.clear();
        loop {
            let number = self.flight.take_number();
            self.memory.submit(&Job { unit: number, flags, splats, ..*job }, None, None, unit)?;
            let Some(words) = self.memory.take_status(true)? else {
                return Err(EngineError::DeviceFailed("a render was lost".to_owned()));
            };
            check_number(number, &words)?;
            if words[status::HALT] == halt::NOT {
                self.memory.splits.record_longest(None, words[status::LONGEST]);
                return Ok(words);
            }
            let what = || "a render".to_owned();
            self.memory.check_visible(&what, &words)?;
            let entries = u64::from(words[status::ENTRIES]);
            self.memory.ensure_list_capacity(None, job.tile_rows(), &what, entries)?;
        }
    }

    /// The weights in front of depths.
    pub(crate) fn weights_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[OcclusionQuery],
    ) -> Result<Vec<f32>, EngineError> {
        let count = queries.len() as u32;
        let job = Job { queries: count, ..unit::render_job(&self.state_info(), camera, pose, options)? };
        let unit = Unit { kind: UnitKind::Queries, ..unit::render_unit(&job, Outputs::Color) };
        let old = *self.memory.sizes();
        let sizes = Capacities {
            tiles: old.tiles.max(u64::from(job.tiles)),
            queries: old.queries.max(u64::from(count)),
            ..old
        };
        self.memory.ensure_capacity(&|| format!("{count} questions"), &sizes)?;
        let words: Vec<[u32; 4]> =
            queries.iter().map(|q| [q.pixel[0], q.pixel[1], q.depth.to_bits(), 0]).collect();
        self.memory.write(Buffer::Queries, 0, words.as_flattened())?;
        self.run_to_completion(&job, &unit)?;
        let mut weights = Vec::with_capacity(queries.len());
        self.memory.read(Buffer::Queries, 0, 4 * queries.len(), |_, part| {
            weights.extend(part.as_chunks::<4>().0.iter().map(|words| f32::from_bits(words[3])));
        })?;
        Ok(weights)
    }

    /// Renders into buffers of the caller.
    pub(crate) fn render_view(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        out: &mut Rendering,
    ) -> Result<(), EngineError> {
        let job = unit::render_job(&self.state_info(), camera, pose, options)?;
        let unit = unit::render_unit(&job, outputs);
        let with_depth = outputs == Outputs::All;
        let pixels = camera.width as usize * camera.height as usize;
        let old = *self.memory.sizes();
        let sizes = Capacities {
            pixels: old.pixels.max(pixels as u64),
            depth_pixels: if with_depth { old.depth_pixels.max(pixels as u64) } else { old.depth_pixels },
            tiles: old.tiles.max(u64::from(job.tiles)),
            ..old
        };
        let what = || format!("a picture: {}x{} px", camera.width, camera.height);
        self.memory.ensure_capacity(&what, &sizes)?;
        let words = self.run_to_completion(&job, &unit)?;
        (out.width, out.height, out.capped_tiles) =
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
}
