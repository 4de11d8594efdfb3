//! The sky as a row of the engine's state: read before a render, updated after a step.

use gausset_core::engine::{CorrectionKind, EngineError, RenderOptions, StepParams};
use gausset_raster::sky::SkyCoefficients;

use crate::corrections;
use crate::engine::CpuEngine;

impl CpuEngine {
    /// The sky behind the splats of a render; `None` if the options do not request it.
    pub(crate) fn sky_behind(&self, options: &RenderOptions) -> Result<Option<SkyCoefficients>, EngineError> {
        let Some((group, row)) = self.sky_row_index(options)? else { return Ok(None) };
        let values = self.state.extras[group].row(row);
        Ok(Some(std::array::from_fn(|k| values[k])))
    }

    /// Adam on the sky after a step, with the gradient from its backward pass.
    pub(crate) fn update_sky(&mut self, params: &StepParams) -> Result<(), EngineError> {
        let place = self.sky_row_index(&params.render)?;
        if let (Some((group, row)), Some(rates)) = (place, params.sky) {
            let gradient = &self.pipeline.sky_gradient;
            let group = &mut self.state.extras[group];
            corrections::update_row(self.level, group, row, gradient, &rates);
        }
        Ok(())
    }

    /// Group and row of the sky in the state, if the options request it.
    fn sky_row_index(&self, options: &RenderOptions) -> Result<Option<(usize, usize)>, EngineError> {
        self.state.correction_index(CorrectionKind::Sky, options.sky.then_some(0))
    }
}
