//! A run is looked at between two of its parts.

use gausset_core::Pose;
use gausset_core::engine::{Engine, Group, RenderOptions};
use gausset_core::se3::Mat3;

use super::{Run, refined};

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

    /// Poses of the dataset's pictures, by index, as the run has refined them so far, in the dataset's axes; `None` where it
    /// refines none, or the device does not tell. The time is none of training.
    pub fn refined_poses(&mut self) -> Option<Vec<Pose>> {
        self.config.recipe.poses.as_ref()?;
        let groups = self.look(|engine, _| engine.corrections()).ok()?;
        let group = groups.iter().find(|group| group.group == Group::Pose)?;
        Some(refined::refined_poses(&self.session.dataset, group, self.feed.corrections()))
    }

    /// Rotation that turns the splats on the device, which stand as the dataset does, to those of `splats.ply`.
    #[must_use]
    pub fn splats_from_dataset(&self) -> &Mat3 {
        &self.recorded.record.up_rotation
    }
}
