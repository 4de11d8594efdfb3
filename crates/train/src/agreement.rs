//! Seed agreement: compares novel views of two runs of the same recipe with different seeds.
//!
//! The two runs differ only in their random numbers. They agree where the photographs determine the result, and differ
//! where they do not (veils, clouds, smears). No ground truth is needed, so the views can be placed where held-out
//! cameras and viewers are: between neighbouring training cameras.

use gausset_core::engine::{Engine, EngineError, Outputs, RenderOptions};
use gausset_core::{Camera, Pose};
use gausset_io::dataset::{Dataset, Tracks};
use gausset_metrics::quality::psnr;

use crate::view_pairs::{interpolate_pose, neighbour_pairs, visible_points};

/// Positions of the views between two neighbours, as fractions of their distance.
const FRACTIONS: [f64; 3] = [0.25, 0.5, 0.75];
/// Without points, each image and the next one count as neighbours.
const NEIGHBOUR_OFFSET: usize = 1;

/// Three views between each pair of neighbouring training cameras; at most `most` views, evenly chosen.
#[must_use]
pub fn novel_views(dataset: &Dataset, tracks: Tracks, most: usize) -> Vec<(Camera, Pose)> {
    let train = &dataset.split.train;
    let pairs = neighbour_pairs(dataset, &visible_points(dataset, tracks));
    let mut pairs: Vec<[usize; 2]> = pairs.iter().map(|pair| pair.images).collect();
    if pairs.is_empty() {
        pairs = train.iter().zip(train.iter().skip(NEIGHBOUR_OFFSET)).map(|(&a, &b)| [a, b]).collect();
    }
    let views = pairs.iter().flat_map(|pair| FRACTIONS.map(|share| (*pair, share)));
    let step = (pairs.len() * FRACTIONS.len()).div_ceil(most.max(1)).max(1);
    let view = |([a, b], share): ([usize; 2], f64)| {
        let [a, b] = [a, b].map(|index| &dataset.images[index]);
        (a.camera, interpolate_pose(&a.pose, &b.pose, share, [0.0; 3]))
    };
    // With a step that is no multiple of three, all fractions occur.
    let step = if step > 1 && step.is_multiple_of(FRACTIONS.len()) { step + 1 } else { step };
    views.step_by(step).map(view).collect()
}

/// PSNR in dB between the renders of two engines, per view; renders are clamped to 0..1.
///
/// # Errors
/// A device failed.
pub fn agreement(
    engines: [&mut dyn Engine; 2],
    views: &[(Camera, Pose)],
    options: &RenderOptions,
) -> Result<Vec<f64>, EngineError> {
    let [a, b] = engines;
    let clamped = |engine: &mut dyn Engine, camera: &Camera, pose: &Pose| {
        let picture = engine.render(camera, pose, options, Outputs::Color)?;
        Ok::<Vec<f32>, EngineError>(picture.color.iter().map(|v| v.clamp(0.0, 1.0)).collect())
    };
    let mut values = Vec::with_capacity(views.len());
    for (camera, pose) in views {
        values.push(psnr(&clamped(a, camera, pose)?, &clamped(b, camera, pose)?, None));
    }
    Ok(values)
}
