//! Which splats of a finished run hang in space that is known to be empty: the rule of training
//! ([`DensityRule::FreeSpace`]), asked again and again until it finds nothing more.

use gausset_core::Splats;
use gausset_core::engine::{DensityRule, Engine, EngineError, TrainState};
use gausset_core::se3::Mat3;
use gausset_core::splats_transform::Similarity;

use crate::free_space::FreeViews;

/// The rule is asked at least so often, with other views each time …
const FEWEST_PASSES: u64 = 8;
/// … until so many in a row find nothing, …
const QUIET_PASSES: u64 = 3;
/// … and at most so often.
const MOST_PASSES: u64 = 64;

/// Finds the splats of a scene that nothing hangs in front of cameras for. `saved_from_dataset` is how the splats were
/// turned when they were saved; `space` is in the axes of the dataset. Gives for each splat whether it stays. What the
/// engine held is lost.
///
/// The same splats, views and `seed` give the same answer.
///
/// # Errors
/// The device failed.
pub fn keep(
    engine: &mut dyn Engine,
    scene: &Splats,
    saved_from_dataset: &Mat3,
    space: &FreeViews,
    seed: u64,
) -> Result<Vec<bool>, EngineError> {
    let mut splats = scene.clone();
    Similarity::from_rotation(*saved_from_dataset).inverse().apply_to_splats(&mut splats);
    engine.load(TrainState::new(splats, Vec::new()))?;
    let mut quiet = 0;
    for pass in 0..MOST_PASSES {
        if pass >= FEWEST_PASSES && quiet >= QUIET_PASSES {
            break;
        }
        engine.densify(&DensityRule::FreeSpace(space.rule(seed, pass)))?;
        quiet = if engine.flush()?.cleared > 0 { 0 } else { quiet + 1 };
    }
    // A splat that was cleared has an opacity that it did not have before.
    let after = engine.save()?.splats;
    Ok(scene
        .opacity_logits
        .iter()
        .zip(&after.opacity_logits)
        .map(|(before, after)| after >= before)
        .collect())
}
