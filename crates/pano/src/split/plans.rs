//! The plans for the shapes of frames that occur, built once each and shared by all workers.

use std::sync::{Arc, Mutex, PoisonError};

use gausset_compute::Pool;

use super::budget::Budget;
use super::settings::Settings;
use crate::cutter::Plan;
use crate::film::Film;
use crate::geometry::levelled;
use crate::plane::FrameShape;
use crate::projection::Projection;

/// What a plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) projection: Projection,
    pub(super) shape: FrameShape,
    /// Pitch and roll by which the panorama is levelled, degrees.
    pub(super) tilt: [f64; 2],
}

impl Key {
    /// The key for all frames of a video.
    pub(super) fn of_film(film: &Film) -> Self {
        Self { projection: film.projection(), shape: film.shape(), tilt: [0.0, 0.0] }
    }
}

/// Plans that are kept; frames of one folder usually have the same shape.
const PLANS_KEPT: usize = 2;

/// A cache of plans.
pub(super) struct Plans<'a> {
    settings: &'a Settings,
    /// Number of threads that build tables.
    threads: usize,
    kept: Mutex<Vec<(Key, Arc<Plan>)>>,
}

impl<'a> Plans<'a> {
    pub(super) fn new(settings: &'a Settings, threads: usize) -> Self {
        Self { settings, threads, kept: Mutex::default() }
    }

    /// The plan for a key; the budget is charged for its tables.
    pub(super) fn get(&self, key: Key, budget: &Budget) -> Arc<Plan> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = kept.iter().find(|(k, _)| *k == key) {
            return Arc::clone(plan);
        }
        // Built under the lock, because other workers would build the same plan.
        let Settings { views, lenses, format, crop_bottom, .. } = self.settings;
        let views = levelled(views, key.tilt);
        let (shape, pool) = (key.shape.clone(), Pool::new(self.threads));
        let plan = Arc::new(match (&key.projection, lenses) {
            (Projection::Fisheye(both), Some(lenses)) => {
                let alone = [0, 1].map(|lens| Projection::Fisheye(both.alone(lens)));
                let each: Vec<&Projection> =
                    alone.iter().flat_map(|one| lenses.views.iter().map(move |_| one)).collect();
                Plan::seen_by(&each, views, *format, shape, *crop_bottom, &pool)
            }
            (projection, _) => Plan::new(views, *format, projection, shape, *crop_bottom, &pool),
        });
        let (count, bytes) = (plan.table_count(), plan.table_bytes());
        tracing::debug!("tables: {count} of {bytes} bytes for {} views", plan.views.len());
        if kept.len() >= PLANS_KEPT {
            let (_, old) = kept.remove(0);
            budget.discharge(old.table_bytes() as u64);
        }
        budget.charge(bytes as u64);
        kept.push((key, Arc::clone(&plan)));
        plan
    }
}
