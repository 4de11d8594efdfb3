//! The CPU engine: raster's stages, metrics' loss, the buffers between them and the order of a step.
//!
//! No policy: which view, which rates and which density rule come in as arguments. Parameters live in blocks of 16
//! lanes and are converted at `load` and `save` (and around density rules) only. Steps run when they are asked for.
#![forbid(unsafe_code)]

mod corrections;
mod free_space;
mod sky;
mod state;
pub mod statistics;
mod step;

use fearless_simd::Level;
use gausset_compute::level::{describe as describe_level, name as level_name};
use gausset_compute::{Pool, Rates, VectorLevel, level};
use gausset_core::engine::{
    DensityRule, DeviceInfo, Engine, EngineError, ExtraGroup, FrontQuery, RenderOptions, Rendering,
    StepParams, StepReport, TrainState, TrainView,
};
use gausset_core::{Camera, Pose};
use gausset_metrics::{LossKernel, Planes};
use gausset_raster::adam::CorrectionTable;
use gausset_raster::blend::Outputs;
use gausset_raster::density;
use gausset_raster::in_front::weight_in_front;
use gausset_raster::pipeline::{ListRoom, Pipeline, TooManyEntries};
use gausset_raster::tile::TileSplats;
use gausset_raster::view::KernelView;

use crate::state::BlockState;

/// How a CPU engine is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// Threads that work; 0 = as many as the machine runs at once.
    pub threads: usize,
    /// Vector level.
    pub level: VectorLevel,
}

/// This processor lacks a vector level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this processor has no {} (use --simd auto)", .0.name())]
pub struct LevelMissing(pub VectorLevel);

/// Trains and renders on the processor.
#[derive(Debug)]
pub struct CpuEngine {
    pool: Pool,
    level: Level,
    state: BlockState,
    pipeline: Pipeline,
    loss: LossKernel,
    render: Planes,
    corrected: Planes,
    gradient: Planes,
    clocks: CorrectionTable,
    report: StepReport,
    /// Size of the last picture in px.
    last_size: [u32; 2],
    /// SH degree that it was drawn with.
    last_degree: u8,
    /// The view whose tile lists the buffers hold, as long as nothing has changed since.
    listed: Option<(Camera, Pose, RenderOptions)>,
    /// Bytes that state and buffers may take.
    memory_limit: u64,
    failed: Option<EngineError>,
}

impl CpuEngine {
    /// An engine without splats.
    ///
    /// # Errors
    /// A vector level that this processor lacks.
    pub fn new(options: CpuOptions) -> Result<Self, LevelMissing> {
        let pool = if options.threads == 0 { Pool::with_all_cores() } else { Pool::new(options.threads) };
        let level = level(options.level).ok_or(LevelMissing(options.level))?;
        Ok(Self {
            pool,
            level,
            state: BlockState::default(),
            pipeline: Pipeline::default(),
            loss: LossKernel::new(level),
            render: Planes::default(),
            corrected: Planes::default(),
            gradient: Planes::default(),
            clocks: CorrectionTable::default(),
            report: StepReport::default(),
            last_size: [0; 2],
            last_degree: 0,
            listed: None,
            memory_limit: u64::MAX,
            failed: None,
        })
    }

    /// Bytes held by parameters, moments and buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state.bytes()
            + self.pipeline.bytes()
            + self.loss.bytes()
            + self.render.bytes()
            + self.corrected.bytes()
            + self.gradient.bytes()
    }

    /// The rates of this machine with the engine's threads and vector level, which take a tenth of a second to measure.
    #[must_use]
    pub fn measure_rates(&self) -> Rates {
        Rates::measure(&self.pool, self.level)
    }

    /// Threads that work.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Stable name of the vector level that kernels run at: `avx512`, `avx2` or `fallback`.
    #[must_use]
    pub fn level_name(&self) -> &'static str {
        level_name(self.level)
    }

    fn check(&self) -> Result<(), EngineError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Gives the lists of a view what is left of the memory, if there is enough for all the rest: `bytes_per_pixel` are
    /// those of pictures beside the tiles.
    fn make_room(
        &mut self,
        name: &dyn Fn() -> String,
        view: &KernelView,
        outputs: Outputs,
        bytes_per_pixel: u64,
    ) -> Result<(), EngineError> {
        let [width, height] = view.size;
        let pixels = u64::from(width) * u64::from(height);
        let buffers =
            Pipeline::view_bytes(self.state.parameters.len(), view, outputs) + pixels * bytes_per_pixel;
        let needed = self.state.bytes() as u64 + buffers;
        let Some(bytes) = self.memory_limit.checked_sub(needed) else {
            let what = format!("{}: {width}x{height} px", name());
            return Err(EngineError::OutOfMemory { what, needed, limit: self.memory_limit });
        };
        let bytes_per_entry = match outputs {
            Outputs::Color => ListRoom::BACKWARD,
            Outputs::All => ListRoom::FORWARD,
        };
        self.pipeline.room = ListRoom { bytes, bytes_per_entry };
        Ok(())
    }

    /// The error for a view that has more entries than there is room for.
    fn too_many_entries(&self, name: &dyn Fn() -> String, error: TooManyEntries) -> EngineError {
        let ListRoom { bytes, bytes_per_entry } = self.pipeline.room;
        EngineError::OutOfMemory {
            what: format!("{}: the tile lists, with {} entries,", name(), error.entries),
            needed: error.entries.saturating_mul(bytes_per_entry),
            limit: bytes.min(error.limit.saturating_mul(bytes_per_entry)),
        }
    }
}

/// Bytes per pixel of the pictures of a step: the render, its gradient, and the render with corrected exposure.
const STEP_BYTES_PER_PIXEL: u64 = 3 * 12;
/// Bytes per pixel of a [`Rendering`]: three colours, alpha, depth, count.
const RENDERING_BYTES_PER_PIXEL: u64 = 6 * 4;

impl Engine for CpuEngine {
    fn describe(&self) -> DeviceInfo {
        let threads = self.pool.threads();
        let plural = if threads == 1 { "" } else { "s" };
        DeviceInfo {
            name: format!("CPU, {threads} thread{plural}, {}", describe_level(self.level)),
            kind: "cpu".to_owned(),
            threads,
            deterministic: true,
        }
    }

    fn limit_memory(&mut self, bytes: u64) {
        self.memory_limit = bytes;
    }

    fn load(&mut self, state: TrainState) -> Result<(), EngineError> {
        self.listed = None;
        // The old state goes before the new one is laid out.
        self.state = BlockState::default();
        self.state = BlockState::from_state(state, &self.pool)?;
        self.report = StepReport::default();
        self.failed = None;
        Ok(())
    }

    fn save(&mut self) -> Result<TrainState, EngineError> {
        Ok(self.state.to_state(&self.pool))
    }

    fn corrections(&mut self) -> Result<Vec<ExtraGroup>, EngineError> {
        Ok(self.state.extras.clone())
    }

    fn step(
        &mut self,
        view: &TrainView,
        _next: Option<&TrainView>,
        params: &StepParams,
    ) -> Result<(), EngineError> {
        self.check()?;
        self.listed = None;
        if let Err(error) = self.run_step(view, params) {
            self.failed = Some(error.clone());
            // A loss that is not finite belongs to the next flush: a step may be reported late.
            if !matches!(error, EngineError::NonFiniteLoss { .. }) {
                return Err(error);
            }
        }
        Ok(())
    }

    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError> {
        self.check()?;
        self.listed = None;
        let _span = gausset_prof::span("density");
        if let DensityRule::FreeSpace(rule) = rule {
            return self.clear_space(rule);
        }
        let mut state = std::mem::take(&mut self.state).into_state(&self.pool);
        let outcome = density::apply(&mut state, rule, &self.pool);
        self.state = BlockState::from_state(state, &self.pool)?;
        self.report.cloned += outcome.cloned;
        self.report.split += outcome.split;
        self.report.pruned += outcome.pruned + outcome.non_finite;
        self.report.relocated += outcome.relocated;
        self.report.added += outcome.added;
        Ok(())
    }

    fn flush(&mut self) -> Result<StepReport, EngineError> {
        self.check()?;
        let splats = self.state.parameters.len() as u64;
        let report = StepReport { splats, ..self.report };
        // What describes the last step stays; what counts starts again.
        self.report = StepReport {
            last_loss: report.last_loss,
            visible: report.visible,
            intersections: report.intersections,
            dead_splats: report.dead_splats,
            ..StepReport::default()
        };
        Ok(report)
    }

    fn render(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
    ) -> Result<Rendering, EngineError> {
        self.check()?;
        self.listed = None;
        let view = KernelView::new(camera, pose).with_near_plane(options.near_plane);
        let name = || "a picture".to_owned();
        self.make_room(&name, &view, Outputs::All, RENDERING_BYTES_PER_PIXEL)?;
        self.pipeline.sky = self.sky_behind(options)?;
        let forward = self.pipeline.forward(
            &self.pool,
            self.level,
            &self.state.parameters,
            &view,
            options,
            Outputs::All,
        );
        forward.map_err(|error| self.too_many_entries(&name, error))?;
        (self.last_size, self.last_degree) = (view.size, options.sh_degree);
        self.listed = Some((*camera, *pose, *options));
        let rendering = self.pipeline.rendering(&view);
        statistics::count_contributors(&rendering);
        Ok(rendering)
    }

    fn weight_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[FrontQuery],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        self.check()?;
        let view = KernelView::new(camera, pose).with_near_plane(options.near_plane);
        // Right after a render of the same view the lists are there.
        if self.listed != Some((*camera, *pose, *options)) {
            self.listed = None;
            let name = || "a picture".to_owned();
            self.make_room(&name, &view, Outputs::All, 0)?;
            let splats = &self.state.parameters;
            let lists = self.pipeline.lists(&self.pool, self.level, splats, &view, options);
            lists.map_err(|error| self.too_many_entries(&name, error))?;
            self.listed = Some((*camera, *pose, *options));
        }
        let (lists, records) = (&self.pipeline.lists, &self.pipeline.projected.records);
        Ok(Some(weight_in_front(&self.pool, TileSplats { view: &view, lists, records }, queries)))
    }
}
