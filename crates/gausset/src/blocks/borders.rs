//! The quality of a merged set next to the borders of its blocks and elsewhere, on held-out images.
//!
//! The pixels of a surface that the coarse run shows, too, are in the band of a border or in the rest. The same scores of
//! the coarse run, which has no borders, tell how hard these places are. Each image is first brought to the brightness of
//! the photograph, by a factor per channel.

use std::sync::Arc;

use gausset_blocks::{Cell, Division};
use gausset_core::engine::{Engine, EngineError, Outputs, RenderOptions, Rendering};
use gausset_core::{Camera, Pose, Splats, TargetImage};
use gausset_io::dataset::{Dataset, Loader, LoaderOptions};
use gausset_train::MemoryPlan;
use serde::Serialize;

use crate::Host;

/// Half the width of the band, as a fraction of the shorter side of a cell.
const BAND: f64 = 0.02;
/// Minimum opacity of a surface.
const MIN_ALPHA: f32 = 0.9;
/// Minimum share of an image's pixels in a class.
const MIN_SHARE: f64 = 0.005;
/// Maximum number of images, evenly spread.
const MAX_IMAGES: usize = 32;
/// Longest side of a render, px.
const SIDE: u32 = 400;
/// Largest PSNR of a class, dB: some pixels may be equal.
const MAX_PSNR: f64 = 60.0;

/// Quality at the borders of a merged set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct BorderScores {
    /// Number of held-out images with borders.
    pub(super) images: usize,
    /// Mean PSNR of the merged set in the bands and elsewhere, dB.
    pub(super) psnr: [f64; 2],
    /// The same of the coarse run.
    pub(super) coarse_psnr: [f64; 2],
}

/// Places next to a border between cells.
struct Borders<'a>(&'a Division);

impl Borders<'_> {
    /// Whether a place lies in the band of a border. Outer sides are no borders.
    fn has_nearby(&self, place: [f64; 2]) -> bool {
        let is_next_to = |cell: &Cell| {
            let reach = BAND * cell.size[0].min(cell.size[1]);
            cell.contains(place)
                && (0..2).any(|k| {
                    [cell.low[k], cell.high[k]]
                        .into_iter()
                        .flatten()
                        .any(|side| (place[k] - side).abs() < reach)
                })
        };
        self.0.blocks.iter().any(|block| is_next_to(&block.cell))
    }
}

/// A held-out image, and the classes of its pixels: 1 in a band, 2 elsewhere, 0 neither.
struct View {
    camera: Camera,
    pose: Pose,
    target: TargetImage,
    /// The merged set.
    color: Vec<f32>,
    classes: Vec<u8>,
}

/// Measures the borders of a merged set; `None` if no held-out image shows any, or the job is asked to stop. All is in
/// normalised coordinates.
///
/// # Errors
/// The device failed.
pub(super) fn measure(
    dataset: &Arc<Dataset>,
    memory_bytes: u64,
    options: RenderOptions,
    [merged, coarse]: [&Splats; 2],
    division: &Division,
    engine: &mut dyn Engine,
    host: &Host<'_>,
) -> Result<Option<BorderScores>, EngineError> {
    let held_out = &dataset.split.test;
    if division.blocks.len() < 2 || held_out.is_empty() {
        return Ok(None);
    }
    let budget = MemoryPlan::image_budget(memory_bytes);
    let budget_bytes = usize::try_from(budget).unwrap_or(usize::MAX);
    let loader = Loader::new(Arc::clone(dataset), LoaderOptions { budget_bytes, threads: 0 });
    engine.load_splats(merged.clone(), Vec::new())?;
    let mut views = Vec::new();
    for &index in held_out.iter().step_by(held_out.len().div_ceil(MAX_IMAGES)) {
        if host.is_stopping() {
            return Ok(None);
        }
        // An image that cannot be read is reported by the evaluation.
        let Ok(target) = loader.get(index) else { continue };
        let image = &dataset.images[index];
        let factor = image.camera.width.max(image.camera.height).div_ceil(SIDE).max(1);
        if image.camera.width.min(image.camera.height) < factor {
            continue;
        }
        let mut view = View {
            camera: image.camera.downscaled(factor),
            pose: image.pose,
            target: target.downscaled(factor),
            color: Vec::new(),
            classes: Vec::new(),
        };
        let rendering = engine.render(&view.camera, &view.pose, &options, Outputs::All)?;
        view.classify(&rendering, division);
        view.color = rendering.color;
        views.push(view);
    }
    engine.load_splats(coarse.clone(), Vec::new())?;
    let (mut images, mut psnr) = (0, [[0.0; 2]; 2]);
    for view in &mut views {
        if host.is_stopping() {
            return Ok(None);
        }
        let rendering = engine.render(&view.camera, &view.pose, &options, Outputs::All)?;
        view.keep_opaque(&rendering.alpha);
        let found = [&view.color, &rendering.color].map(|color| view.psnr(color));
        let [Some(found_merged), Some(found_coarse)] = found else { continue };
        images += 1;
        for (sums, found) in psnr.iter_mut().zip([found_merged, found_coarse]) {
            sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += value);
        }
    }
    if images == 0 {
        return Ok(None);
    }
    let [psnr, coarse_psnr] = psnr.map(|classes| classes.map(|sum| sum / images as f64));
    Ok(Some(BorderScores { images, psnr, coarse_psnr }))
}

impl View {
    /// Determines the class of each pixel from a render of the merged set.
    fn classify(&mut self, rendering: &Rendering, division: &Division) {
        let Rendering { alpha, depth, .. } = rendering;
        let Self { camera, target, .. } = &*self;
        let (borders, world_from_camera) = (Borders(division), self.pose.inverse());
        let is_valid = |pixel: usize| {
            let is_on =
                |channel: &Option<Vec<u8>>, least: u8| channel.as_ref().is_none_or(|c| c[pixel] >= least);
            alpha[pixel] > MIN_ALPHA && is_on(&target.mask, 1) && is_on(&target.alpha, u8::MAX)
        };
        let width = camera.width as usize;
        let class = |pixel: usize| {
            if !is_valid(pixel) {
                return 0;
            }
            let ray = camera.ray([(pixel % width) as f64 + 0.5, (pixel / width) as f64 + 0.5]);
            let distance = f64::from(depth[pixel] / alpha[pixel]) / camera.depth(ray);
            let surface = world_from_camera.apply(ray.map(|v| v * distance));
            if borders.has_nearby(division.ground.place_of(surface)) { 1 } else { 2 }
        };
        self.classes = (0..camera.pixels()).map(class).collect();
    }

    /// Leaves out the pixels where another render has no opaque surface: neither has a sky.
    fn keep_opaque(&mut self, alpha: &[f32]) {
        let see_through = self.classes.iter_mut().zip(alpha).filter(|(_, alpha)| **alpha <= MIN_ALPHA);
        see_through.for_each(|(class, _)| *class = 0);
    }

    /// PSNR of a render in the bands and elsewhere, after a factor per channel; `None` where either class is too small.
    fn psnr(&self, color: &[f32]) -> Option<[f64; 2]> {
        let pixels = || self.classes.iter().enumerate().filter(|(_, class)| **class > 0);
        let value = |pixel: usize, channel: usize| {
            let at = 3 * pixel + channel;
            [f64::from(color[at]), f64::from(self.target.rgb[at]) / 255.0]
        };
        let factors: [f64; 3] = std::array::from_fn(|channel| {
            let (mut product, mut square) = (0.0, 0.0);
            for (pixel, _) in pixels() {
                let [rendered, seen] = value(pixel, channel);
                product += rendered * seen;
                square += rendered * rendered;
            }
            if square > 0.0 { product / square } else { 1.0 }
        });
        let (mut errors, mut counts) = ([0.0; 2], [0; 2]);
        for (pixel, &class) in pixels() {
            let class = usize::from(class - 1);
            counts[class] += 1;
            for (channel, factor) in factors.iter().enumerate() {
                let [rendered, seen] = value(pixel, channel);
                errors[class] += ((rendered * factor).clamp(0.0, 1.0) - seen).powi(2) / 3.0;
            }
        }
        let psnr = |class: usize| {
            let error = errors[class] / counts[class] as f64;
            (-10.0 * libm::log10(error)).min(MAX_PSNR)
        };
        let least = MIN_SHARE * self.classes.len() as f64;
        let is_known = errors.iter().all(|error| error.is_finite());
        (is_known && counts.iter().all(|&count| count as f64 >= least)).then(|| [psnr(0), psnr(1)])
    }
}

#[cfg(test)]
mod tests {
    use gausset_blocks::{BlockPlan, DivisionSource, Ground};

    use super::*;

    /// Two cells that meet at x = 0, ten units along it and four across.
    fn division() -> Division {
        let size = [10.0, 4.0];
        let left = Cell { high: [Some(0.0), None], size, ..Cell::default() };
        let right = Cell { low: [Some(0.0), None], size, ..Cell::default() };
        let block = |cell| BlockPlan { cell, steps: 1, max_splats: 1, ..BlockPlan::default() };
        let ground = Ground { axes: [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] };
        Division::new(DivisionSource::default(), ground, 0, vec![block(left), block(right)], Vec::new())
    }

    #[test]
    fn a_band_is_a_fiftieth_of_the_shorter_side_on_either_side_of_a_border() {
        let division = division();
        let has_nearby = |x: f64| Borders(&division).has_nearby([x, 100.0]);
        let places = [-5.0, -0.081, -0.079, 0.0, 0.079, 0.081, 5.0];
        assert_eq!(places.map(has_nearby), [false, false, true, true, true, false, false]);
        assert!(!Borders(&division).has_nearby([f64::NAN; 2]));
    }

    #[test]
    fn pixels_of_surfaces_next_to_a_border_are_compared_with_the_others() {
        // The camera looks along z from x = 0.5; on a wall 10 units away, the border is at 18 px.
        let camera = Camera::new(40, 30, 40.0, 40.0, 20.0, 15.0).unwrap();
        let pose = Pose { translation: [-0.5, 0.0, 0.0], ..Pose::IDENTITY };
        let pixels = camera.pixels();
        let target =
            TargetImage { width: 40, height: 30, rgb: vec![102; 3 * pixels], alpha: None, mask: None };
        let mut view = View { camera, pose, target, color: Vec::new(), classes: Vec::new() };
        let rendering =
            Rendering { alpha: vec![0.95; pixels], depth: vec![9.5; pixels], ..Rendering::default() };
        let wide = division();
        view.classify(&rendering, &wide);
        // Pixels 17 and 18 see x = -0.125 and 0.125, both farther than 0.08.
        assert_eq!(view.classes[..40].iter().position(|&class| class == 1), None);
        let mut blocks = wide.blocks;
        blocks.iter_mut().for_each(|block| block.cell.size = [10.0, 60.0]);
        let division = Division::new(wide.source, wide.ground, 0, blocks, Vec::new());
        view.classify(&rendering, &division);
        let band: Vec<usize> = (0..40).filter(|&column| view.classes[column] == 1).collect();
        assert_eq!(band, [17, 18]);
        let mut alpha = vec![0.95; pixels];
        alpha[17] = 0.5;
        view.keep_opaque(&alpha);
        assert_eq!(view.classes[16..20], [2, 0, 1, 2]);
        assert!(view.psnr(&vec![0.4; 3 * pixels]).is_some());
        view.classes = vec![2; pixels];
        view.classes[0] = 1;
        assert_eq!(view.psnr(&vec![0.4; 3 * pixels]), None, "a single pixel in the band");

        // A render at half the brightness is equal but in the band, where one of three channels is off.
        view.classes = (0..pixels).map(|pixel| if pixel % 4 == 0 { 1 } else { 2 }).collect();
        let mut color = vec![0.2; 3 * pixels];
        let [band, rest] = view.psnr(&color).unwrap();
        assert!(band == MAX_PSNR && rest == MAX_PSNR, "{band} {rest}");
        for pixel in (0..pixels).step_by(4) {
            color[3 * pixel] = 0.0;
        }
        assert_eq!(view.psnr(&vec![f32::NAN; 3 * pixels]), None);
        // Red: the factor is 2, as 0 adds to neither sum; the error 0.4 squared, over three channels.
        let [band, rest] = view.psnr(&color).unwrap();
        assert!((band + 10.0 * (0.16f64 / 3.0).log10()).abs() < 1e-4 && rest == MAX_PSNR, "{band} {rest}");
    }
}
