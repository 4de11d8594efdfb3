//! What each image shows of each cell: renders of the coarse splats, coloured by cell.
//!
//! A splat of the cell of a channel has 1 in that channel and 0 in the others, before black. The mean of a channel over
//! the image is then the share of its pixels that show the cell, with everything in between hidden as it should be. Three
//! cells per render, on any device.

use gausset_blocks::Cell;
use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::{Camera, Splats, sh};
use gausset_io::dataset::ImageEntry;
use gausset_train::RunRecord;

use crate::{Failure, Host};

/// Longest side of a render, px.
const SIDE: u32 = 200;

/// The share of the pixels of each of these images that show each cell. `coarse` are splats in normalised coordinates, as
/// the poses, and `places` where they are on the ground.
pub(super) fn shares(
    images: &[&ImageEntry],
    record: &RunRecord,
    coarse: &Splats,
    places: &[[f64; 2]],
    cells: &[Cell],
    engine: &mut dyn Engine,
    host: &Host<'_>,
) -> Result<Vec<Vec<f32>>, Failure> {
    let mut shares = vec![vec![0.0; cells.len()]; images.len()];
    let options = RenderOptions { sh_degree: 0, ..render_options(record) };
    let mut rendering = Rendering::default();
    for (group, cells) in cells.chunks(3).enumerate() {
        engine.load_splats(coloured(coarse, places, cells), Vec::new())?;
        for (shares, image) in shares.iter_mut().zip(images) {
            if host.is_stopping() {
                return Err(Failure::stopped());
            }
            let Camera { width, height, .. } = image.camera;
            let factor = width.max(height).div_ceil(SIDE).min(width.min(height)).max(1);
            let camera = image.camera.downscaled(factor);
            engine.render_into(&camera, &image.pose, &options, Outputs::Color, &mut rendering)?;
            let mut sums = [0.0; 3];
            for pixel in rendering.color.chunks_exact(3) {
                sums.iter_mut().zip(pixel).for_each(|(sum, &value)| *sum += f64::from(value));
            }
            let pixels = camera.pixels().max(1) as f64;
            for (share, sum) in shares[3 * group..].iter_mut().zip(sums).take(cells.len()) {
                *share = (sum / pixels) as f32;
            }
        }
    }
    Ok(shares)
}

/// How the splats of a run are rendered, in normalised coordinates.
pub(super) fn render_options(record: &RunRecord) -> RenderOptions {
    let near_plane = record
        .near_plane
        .map_or(RenderOptions::default().near_plane, |near| near / record.normalisation.unit);
    RenderOptions { near_plane, ..RenderOptions::default() }
}

/// The splats with a channel for each of up to three cells.
fn coloured(splats: &Splats, places: &[[f64; 2]], cells: &[Cell]) -> Splats {
    let mut coloured = splats.clone();
    coloured.cut_sh_degree(0);
    for (coefficients, &place) in coloured.sh.chunks_exact_mut(3).zip(places) {
        for (channel, coefficient) in coefficients.iter_mut().enumerate() {
            let is_inside = cells.get(channel).is_some_and(|cell| cell.contains(place));
            *coefficient = sh::dc_from_colour(if is_inside { 1.0 } else { 0.0 });
        }
    }
    coloured
}
