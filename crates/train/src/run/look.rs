//! A run is looked at between two of its parts.

use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::se3::Mat3;

use super::Run;

impl Run {
    /// Lets somebody look at the device, who is told how this run renders pictures now. The time is none of training.
    pub fn look<T>(&mut self, look: impl FnOnce(&mut dyn Engine, &RenderOptions) -> T) -> T {
        let options = self.picture_options();
        let was_running = self.stopwatch.is_running();
        self.stopwatch.pause();
        let looked = look(&mut *self.session.engine, &options);
        if was_running {
            self.stopwatch.go_on();
        }
        looked
    }

    /// Rotation that turns the splats on the device, which stand as the dataset does, to those of `splats.ply`.
    #[must_use]
    pub fn splats_from_dataset(&self) -> &Mat3 {
        &self.recorded.record.up_rotation
    }
}
