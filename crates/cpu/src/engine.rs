//! The engine: its state, its buffers, and its pending error.

use fearless_simd::Level;
use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::engine::{AdamMode, EngineError, RenderOptions, StepReport};
use gausset_core::{Camera, Pose};
use gausset_metrics::{LossKernel, Planes};
use gausset_raster::adam::BiasCorrectionTable;
use gausset_raster::pipeline::Pipeline;

use crate::state::BlockState;

/// Options of a CPU engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// Number of threads; 0 = as many as the machine can run in parallel.
    pub threads: usize,
    /// SIMD level of the kernels.
    pub level: SimdLevel,
}

/// The CPU does not support a SIMD level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this CPU does not support {} (use ⟨simd = auto⟩)", .0.level_name())]
pub struct UnsupportedLevel(pub SimdLevel);

/// Trains and renders on the CPU.
///
/// ```
/// use gausset_core::engine::{Engine, Outputs, RenderOptions};
/// use gausset_core::{Camera, Pose, Splats};
/// use gausset_cpu::{CpuEngine, CpuOptions};
///
/// // One red splat in front of the camera.
/// let mut splats = Splats::with_capacity(0, 1);
/// splats.push([0.0, 0.0, 2.0], [-1.0; 3], [1.0, 0.0, 0.0, 0.0], 4.0, &[1.0, -1.0, -1.0]);
/// let mut engine = CpuEngine::new(CpuOptions::default())?;
/// engine.load_splats(splats, Vec::new())?;
///
/// let camera = Camera::new(32, 32, 40.0, 40.0, 16.0, 16.0)?;
/// let options = RenderOptions { sh_degree: 0, ..RenderOptions::default() };
/// let picture = engine.render(&camera, &Pose::IDENTITY, &options, Outputs::Color)?;
/// let middle = 16 * 32 + 16;
/// assert!(picture.alpha[middle] > 0.9 && picture.alpha[0] < 0.1);
/// assert!(picture.color[3 * middle] > picture.color[3 * middle + 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CpuEngine {
    pub(crate) pool: Pool,
    pub(crate) level: Level,
    pub(crate) state: BlockState,
    pub(crate) pipeline: Pipeline,
    pub(crate) loss: LossKernel,
    pub(crate) render: Planes,
    /// d loss / d render.
    pub(crate) gradient: Planes,
    pub(crate) clocks: BiasCorrectionTable,
    pub(crate) report: StepReport,
    /// The pass whose results the buffers hold, as long as they match the state.
    pub(crate) last_pass: Option<LastPass>,
    /// The view whose tile lists the buffers hold, as long as nothing has changed since.
    pub(crate) listed_view: Option<(Camera, Pose, RenderOptions)>,
    /// Bytes that the state and the buffers may take.
    pub(crate) memory_limit: u64,
    pub(crate) pending_error: Option<EngineError>,
}

impl CpuEngine {
    /// An engine without splats.
    ///
    /// # Errors
    /// Returns an error if the CPU does not support the SIMD level.
    pub fn new(options: CpuOptions) -> Result<Self, UnsupportedLevel> {
        let pool = if options.threads == 0 { Pool::with_all_cores() } else { Pool::new(options.threads) };
        let level = dispatch_level(options.level).ok_or(UnsupportedLevel(options.level))?;
        Ok(Self {
            pool,
            level,
            state: BlockState::default(),
            pipeline: Pipeline::default(),
            loss: LossKernel::new(level),
            render: Planes::default(),
            gradient: Planes::default(),
            clocks: BiasCorrectionTable::default(),
            report: StepReport::default(),
            last_pass: None,
            listed_view: None,
            memory_limit: u64::MAX,
            pending_error: None,
        })
    }

    /// Bytes of parameters, moments and buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state.bytes()
            + self.pipeline.bytes()
            + self.loss.bytes()
            + self.render.bytes()
            + self.gradient.bytes()
    }

    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.pending_error.clone().map_or(Ok(()), Err)
    }

    /// Like [`Self::check`], before a change of the state.
    pub(crate) fn check_training(&self) -> Result<(), EngineError> {
        self.check()?;
        if self.state.is_render_only {
            let what =
                "the splats were loaded for rendering only and cannot be trained (expected a whole state)";
            return Err(EngineError::InvalidInput(what.to_owned()));
        }
        Ok(())
    }

    /// Frees the state and everything that belongs to it, before another one is allocated.
    pub(crate) fn clear(&mut self) {
        (self.listed_view, self.last_pass) = (None, None);
        self.state = BlockState::default();
        self.report = StepReport::default();
        self.pending_error = None;
    }
}

/// The properties of the last forward pass that its buffers do not contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastPass {
    /// Size of the image in px.
    pub size: [u32; 2],
    /// SH degree that was rendered.
    pub sh_degree: u8,
    /// The update that followed; `None` for a render.
    pub update: Option<AdamMode>,
}
