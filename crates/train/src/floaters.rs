//! Finds floaters of a finished run: splats in space that is known to be empty. Applies the rule of training
//! ([`DensityRule::FreeSpace`]) repeatedly until it finds no more.

use gausset_core::Splats;
use gausset_core::engine::{DensityRule, Engine, EngineError, TrainState};
use gausset_core::splats_transform::Similarity;

use crate::free_space::FreeSpaceViews;

/// Minimum number of passes of the rule, each with other views.
const MIN_PASSES: u64 = 8;
/// The rule is repeated until this many passes in a row find nothing.
const QUIET_PASSES: u64 = 3;
/// Maximum number of passes.
const MAX_PASSES: u64 = 64;

/// For each splat of a scene, whether it is kept because it is not a floater. `saved_from_normalised` is the transform
/// of the splats when they were saved; `space` is in normalised coordinates. Replaces the state of the engine.
///
/// The result is deterministic in splats, views and `seed`.
///
/// # Errors
/// The device failed.
pub fn splats_to_keep(
    engine: &mut dyn Engine,
    scene: &Splats,
    saved_from_normalised: &Similarity,
    space: &FreeSpaceViews,
    seed: u64,
) -> Result<Vec<bool>, EngineError> {
    let mut splats = scene.clone();
    saved_from_normalised.inverse().apply_to_splats(&mut splats);
    engine.load(TrainState::new(splats, Vec::new()))?;
    let mut quiet = 0;
    for pass in 0..MAX_PASSES {
        if pass >= MIN_PASSES && quiet >= QUIET_PASSES {
            break;
        }
        engine.densify(&DensityRule::FreeSpace(space.rule(seed, pass)))?;
        quiet = if engine.flush()?.cleared > 0 { 0 } else { quiet + 1 };
    }
    // The rule clears a splat by lowering its opacity.
    let after = engine.save()?.splats;
    Ok(scene
        .opacity_logits
        .iter()
        .zip(&after.opacity_logits)
        .map(|(before, after)| after >= before)
        .collect())
}
