//! Removes the splats whose place no two training views agree on.

use std::sync::Arc;

use gausset_compute::Pool;
use gausset_core::engine::RenderOptions;
use gausset_io::splat::SplatFile;
use gausset_train::{Confidence, DepthMaps, EvalError};

use super::{ConvertOptions, TrainingCameras};
use crate::{Failure, Host};

impl ConvertOptions {
    /// Removes the splats of the scene that are invented, and returns their number. The sky stays.
    pub(super) fn remove_invented(
        &self,
        document: &mut SplatFile,
        seen: Option<&TrainingCameras>,
        host: &mut Host<'_>,
    ) -> Result<usize, Failure> {
        let Some(seen) = seen else { return Err(self.no_cameras("confirmed", "")) };
        let mut engine = self.device.engine(self.threads as usize)?;
        let pool = Pool::new(engine.describe().threads.max(1));
        engine.load_splats(document.splats.clone(), Vec::new())?;
        let scene = document.scene_len();
        let options = RenderOptions {
            antialiased: document.antialiased,
            splat_limit: (document.sky > 0).then_some(scene as u32),
            ..seen.render_options
        };
        let mut maps = DepthMaps::new(Arc::clone(&seen.dataset), seen.splats_from_dataset, &options);
        let supports = match maps.support(&mut *engine, &pool, &document.scene(), host.stop()) {
            Err(EvalError::Stopped) => return Err(Failure::stopped()),
            supports => supports?,
        };
        let is_kept =
            |i: usize| supports.get(i).is_none_or(|support| support.confidence() > Confidence::Invented);
        let kept: Vec<bool> = (0..document.splats.len()).map(is_kept).collect();
        let removed = kept.iter().filter(|kept| !**kept).count();
        if removed > 0 {
            document.retain(&kept);
        }
        Ok(removed)
    }
}
