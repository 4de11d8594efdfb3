//! The plans for the shapes of frames that occur, built once each and shared by all workers.

use std::sync::{Arc, Mutex, PoisonError};

use gausset_compute::Pool;
use gausset_jpeg::plane::FrameShape;

use super::budget::MemoryBudget;
use super::settings::SplitSettings;
use crate::cut::cutter::Plan;
use crate::source::sphere_video::SphereVideo;
use crate::sphere::geometry::level_views;
use crate::sphere::projection::Projection;

/// What a plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanKey {
    pub(super) projection: Projection,
    pub(super) shape: FrameShape,
    /// Pitch and roll by which the panorama is levelled, degrees.
    pub(super) tilt: [f64; 2],
}

impl PlanKey {
    /// The key for all frames of a video.
    pub(super) fn for_video(film: &SphereVideo) -> Self {
        Self { projection: film.projection(), shape: film.shape(), tilt: [0.0, 0.0] }
    }
}

/// Plans that are kept; frames of one folder usually have the same shape.
const CACHED_PLANS: usize = 2;

/// A cache of plans.
pub(super) struct PlanCache<'a> {
    settings: &'a SplitSettings,
    /// Number of threads that build tables.
    threads: usize,
    cached: Mutex<Vec<(PlanKey, Arc<Plan>)>>,
}

impl<'a> PlanCache<'a> {
    pub(super) fn new(settings: &'a SplitSettings, threads: usize) -> Self {
        Self { settings, threads, cached: Mutex::default() }
    }

    /// The plan for a key; the budget is charged for its tables.
    pub(super) fn get_or_build(&self, key: PlanKey, budget: &MemoryBudget) -> Arc<Plan> {
        let mut kept = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = kept.iter().find(|(k, _)| *k == key) {
            return Arc::clone(plan);
        }
        // Built under the lock, because other workers would build the same plan.
        let SplitSettings { views, lenses, format, crop_bottom, .. } = self.settings;
        let views = level_views(views, key.tilt);
        let (shape, pool) = (key.shape.clone(), Pool::new(self.threads));
        let plan = Arc::new(match (&key.projection, lenses) {
            (Projection::Fisheye(both), Some(lenses)) => {
                let alone = [0, 1].map(|lens| Projection::Fisheye(both.single_lens(lens)));
                let each: Vec<&Projection> =
                    alone.iter().flat_map(|one| lenses.views.iter().map(move |_| one)).collect();
                Plan::with_projections(&each, views, *format, shape, *crop_bottom, &pool)
            }
            (projection, _) => Plan::new(views, *format, projection, shape, *crop_bottom, &pool),
        });
        let (count, bytes) = (plan.table_count(), plan.table_bytes());
        tracing::debug!("tables: {count} of {bytes} bytes for {} views", plan.views.len());
        if kept.len() >= CACHED_PLANS {
            let (_, old) = kept.remove(0);
            budget.discharge(old.table_bytes() as u64);
        }
        budget.charge(bytes as u64);
        kept.push((key, Arc::clone(&plan)));
        plan
    }
}
