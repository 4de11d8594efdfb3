//! A free-space rule as units: one for each view, whose rays are followed through its tile lists, then the rule itself.
//!
//! The evidence of the rays about each splat is summed as integers in a buffer that otherwise only steps use. It is
//! valid from the first view of a rule up to the rule, with no step in between.

use gausset_core::constants::NEAR_PLANE;
use gausset_core::engine::{
    Bubble, EngineError, FreeSpaceRay, FreeSpaceRule, FreeSpaceView, Outputs, RenderOptions,
};
use gausset_core::{Camera, Pose};

use crate::engine::GpuEngine;
use crate::layout::Capacities;
use crate::record::{Job, Rule, rule_flag};
use crate::schedule::{RuleKind, Unit, UnitKind};
use crate::task::{RuleTask, Task};
use crate::unit::{render_job, render_unit, rows};

/// Maximum number of fraction bits of a weight: an f32 has no more.
const MAX_WEIGHT_BITS: u32 = 24;

/// The integer for a weight of 1: the largest power of two with which the sum over all rays fits into 32 bits.
fn integer_weight_unit(rays: usize) -> f32 {
    let bits = rays.max(1).next_power_of_two().trailing_zeros();
    (1u32 << 31u32.saturating_sub(bits).min(MAX_WEIGHT_BITS)) as f32
}

/// The smallest integer that is not below a sum of weights; unreachable if the sum is NaN.
fn integer_threshold(weight: f32, unit: f32) -> u32 {
    if weight.is_nan() { u32::MAX } else { (f64::from(weight) * f64::from(unit)).ceil() as u32 }
}

fn ray_words(rays: &[FreeSpaceRay]) -> Vec<u32> {
    let words = |ray: &FreeSpaceRay| {
        let [x, y, z] = ray.camera_to_point.map(|v| (v as f32).to_bits());
        [ray.pixel[0].to_bits(), ray.pixel[1].to_bits(), ray.tile, 0, x, y, z, 0]
    };
    rays.iter().flat_map(words).collect()
}

fn camera_words((camera, pose): &(Camera, Pose)) -> impl Iterator<Item = u32> + use<> {
    let [x, y, z] = pose.centre().map(|v| v as f32);
    let [r0, r1, r2] = rows(pose);
    let lens = [camera.fx, camera.fy, camera.cx, camera.cy].map(|v| v as f32);
    let size = [camera.width as f32, camera.height as f32, 0.0, 0.0];
    [r0, r1, r2, [x, y, z, NEAR_PLANE as f32], lens, size].into_iter().flatten().map(f32::to_bits)
}

/// Bubbles, then cameras: the input of `clear.wgsl`.
fn bubble_words(rule: &FreeSpaceRule) -> Vec<u32> {
    let bubble = |bubble: &Bubble| {
        let [x, y, z] = bubble.centre;
        [x, y, z, bubble.radius].map(f32::to_bits)
    };
    rule.bubbles.iter().flat_map(bubble).chain(rule.cameras.iter().flat_map(camera_words)).collect()
}

impl GpuEngine {
    /// Submits the units of a free-space rule.
    pub(crate) fn submit_free_space(&mut self, rule: &FreeSpaceRule) -> Result<(), EngineError> {
        let views = rule.views.iter().map(|view| (view, view.rays().collect::<Vec<_>>()));
        let views: Vec<_> = views.filter(|(_, rays)| !rays.is_empty()).collect();
        let unit = integer_weight_unit(views.iter().map(|(_, rays)| rays.len()).sum());
        let record = Rule {
            flags: rule_flag::STAYS | if views.is_empty() { 0 } else { rule_flag::LOOKED },
            reset_logit: FreeSpaceRule::REMOVED_LOGIT,
            reach: rule.free_fraction,
            weight_unit: unit,
            least_weight: integer_threshold(rule.min_weight, unit),
            least_points: rule.min_points,
            bubbles: rule.bubbles.len() as u32,
            cameras: if rule.bubbles.is_empty() { 0 } else { rule.cameras.len() as u32 },
            near: rule.near_factor,
            ..Rule::default()
        };
        for (number, (view, rays)) in views.iter().enumerate() {
            let asked = self.free_space_view(view, rays, record, number == 0)?;
            self.submit(Task::Rays(Box::new(asked)))?;
        }
        let words = if rule.bubbles.is_empty() { Vec::new() } else { bubble_words(rule) };
        self.reserve_free_space(&words, 0)?;
        let then = UnitKind::Rule { change: RuleKind::Clear, reorder: false, sh_blocks: 0 };
        let unit = Unit { tiles: 0, capped: false, kind: then };
        self.submit(Task::Rule(Box::new(RuleTask { job: Job::default(), rule: record, unit, words })))
    }

    fn free_space_view(
        &mut self,
        view: &FreeSpaceView,
        rays: &[FreeSpaceRay],
        rule: Rule,
        first: bool,
    ) -> Result<RuleTask, EngineError> {
        let options = RenderOptions { sh_degree: 0, ..RenderOptions::default() };
        let job = render_job(&self.state_info(), &view.camera, &view.pose, &options)?;
        let job = Job { queries: rays.len() as u32, ..job };
        let words = ray_words(rays);
        self.reserve_free_space(&words, u64::from(job.tiles))?;
        let unit = Unit { kind: UnitKind::Rays { first }, ..render_unit(&job, Outputs::Color) };
        Ok(RuleTask { job, rule, unit, words })
    }

    fn reserve_free_space(&mut self, words: &[u32], tiles: u64) -> Result<(), EngineError> {
        let old = *self.memory.sizes();
        let free_space = old.free_space.max(4 * words.len() as u64);
        let sizes = Capacities { tiles: old.tiles.max(tiles), free_space, ..old };
        self.memory.ensure_capacity(&|| "free space".to_owned(), &sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_shares_fit_however_many_there_are() {
        for rays in [0, 1, 2, 3, 127, 128, 129, 6144, 1 << 20, (1 << 31) - 1] {
            let unit = integer_weight_unit(rays);
            assert!((rays as u64) * (unit as u64 + 1) <= u64::from(u32::MAX), "{rays}: {unit}");
            assert!(unit >= 1.0 && (unit == 16_777_216.0 || 2.0 * unit * rays as f32 > 1_073_741_824.0));
        }
        assert_eq!(
            (
                integer_threshold(2.0, 1024.0),
                integer_threshold(-1.0, 1024.0),
                integer_threshold(f32::NAN, 1024.0)
            ),
            (2048, 0, u32::MAX)
        );
        assert_eq!(integer_threshold(f32::INFINITY, 1024.0), u32::MAX);
    }
}
