//! The engine: its state, its buffers, and what failed.

use fearless_simd::Level;
use gausset_compute::{Pool, VectorLevel, level};
use gausset_core::engine::{AdamMode, EngineError, RenderOptions, StepReport};
use gausset_core::{Camera, Pose};
use gausset_metrics::{LossKernel, Planes};
use gausset_raster::adam::CorrectionTable;
use gausset_raster::pipeline::Pipeline;

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
#[error("this processor has no {} (use ⟨simd = auto⟩)", .0.name())]
pub struct LevelMissing(pub VectorLevel);

/// Trains and renders on the processor.
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
    pub(crate) clocks: CorrectionTable,
    pub(crate) report: StepReport,
    /// The pass whose buffers are there, as long as they belong to the state.
    pub(crate) last: Option<LastPass>,
    /// The view whose tile lists the buffers hold, as long as nothing has changed since.
    pub(crate) listed: Option<(Camera, Pose, RenderOptions)>,
    /// Bytes that state and buffers may take.
    pub(crate) memory_limit: u64,
    pub(crate) failed: Option<EngineError>,
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
            gradient: Planes::default(),
            clocks: CorrectionTable::default(),
            report: StepReport::default(),
            last: None,
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
            + self.gradient.bytes()
    }

    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// [`Self::check`] before a change of the state.
    pub(crate) fn check_training(&self) -> Result<(), EngineError> {
        self.check()?;
        if self.state.is_only_drawn {
            let what = "splats that were loaded to be drawn are asked to be trained (expected a whole state)";
            return Err(EngineError::BadInput(what.to_owned()));
        }
        Ok(())
    }

    /// Lets the state go, before another one is laid out, with everything that belongs to it.
    pub(crate) fn clear(&mut self) {
        (self.listed, self.last) = (None, None);
        self.state = BlockState::default();
        self.report = StepReport::default();
        self.failed = None;
    }
}

/// The forward pass that was done last, as far as its buffers do not hold it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastPass {
    /// Size of the picture in px.
    pub size: [u32; 2],
    /// SH degree that it was drawn with.
    pub sh_degree: u8,
    /// The update that came with it; `None` for a picture.
    pub update: Option<AdamMode>,
}
