//! The sky behind a picture, and its update.

use gausset_core::engine::{CorrectionRates, EngineError, SKY_GROUP, SKY_WIDTH};
use gausset_raster::blend_vjp::Lines;
use gausset_raster::sky::{self, Sky};
use gausset_raster::view::KernelView;

use crate::{CpuEngine, corrections};

impl CpuEngine {
    /// Which group the sky is, and its coefficients.
    fn sky(&self) -> Result<(usize, Sky), EngineError> {
        let row = self.state.correction(SKY_GROUP, Some(0), SKY_WIDTH)?;
        let (group, row) = row.ok_or_else(|| EngineError::BadInput("no sky".to_owned()))?;
        let values = self.state.extras[group].row(row);
        Ok((group, std::array::from_fn(|i| values[i])))
    }

    /// Puts the sky behind what was blended on black.
    pub(crate) fn add_sky(&mut self, view: &KernelView) -> Result<(), EngineError> {
        let (_, sky) = self.sky()?;
        sky::add(&self.pool, self.level, view, &sky, &mut self.pipeline.blended);
        Ok(())
    }

    /// Adam on the coefficients, with the gradient of the picture in `self.gradient`.
    pub(crate) fn update_sky(
        &mut self,
        view: &KernelView,
        rates: &CorrectionRates,
    ) -> Result<(), EngineError> {
        let (group, sky) = self.sky()?;
        let color = Lines {
            data: self.gradient.as_slice(),
            stride: self.gradient.stride(),
            row_len: self.gradient.row_len(),
        };
        let gradient = sky::gradient(&self.pool, self.level, view, &sky, &self.pipeline.blended, color);
        let group = &mut self.state.extras[group];
        corrections::update_row(self.level, group, 0, &gradient, &[0.0; SKY_WIDTH], rates, false);
        Ok(())
    }
}
