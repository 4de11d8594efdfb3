//! Read-only access to a run between two units of work.

use gausset_core::Pose;
use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::se3::Mat3;

use super::Run;

impl Run {
    /// Calls `look` with the device and the options with which this run renders now. The time does not count as
    /// training.
    pub fn with_device<T>(&mut self, look: impl FnOnce(&mut dyn Engine, &RenderOptions) -> T) -> T {
        let options = self.display_options();
        let was_running = self.stopwatch.is_running();
        self.stopwatch.pause();
        let looked = look(&mut *self.session.engine, &options);
        if was_running {
            self.stopwatch.resume();
        }
        looked
    }

    /// Current refined poses of the dataset's images, by index, in the dataset's axes. `None` if the run refines no
    /// poses or the device does not return them. The time does not count as training.
    pub fn refined_poses(&mut self) -> Option<Vec<Pose>> {
        if !self.corrections.refines_poses() {
            return None;
        }
        let groups = self.with_device(|engine, _| engine.read_corrections()).ok()?;
        self.corrections.refined_poses(&self.session.dataset, &groups)
    }

    /// Rotation from the dataset's axes, in which the device holds the splats, to those of `splats.ply`.
    #[must_use]
    pub fn splats_from_dataset(&self) -> &Mat3 {
        &self.outputs.record().up_rotation
    }
}
