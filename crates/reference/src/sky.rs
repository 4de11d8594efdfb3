//! The colour behind all splats of a pixel: the background, plus the colour of the sky if there is one,
//! `max(0.5 + Σ_k sky[k] Y_k(direction), 0)` per channel for the direction of the pixel's centre in the world.

use gausset_core::se3::transpose_mul_vec;

use super::scene::{Scene, SkyF64};
use super::sh;
use super::tile::pixel_centre;

/// Highest degree of a sky.
const DEGREE: u8 = 2;

/// The colour behind all splats of a pixel.
#[must_use]
pub fn background_colour(scene: &Scene, column: u32, row: u32) -> [f64; 3] {
    let Some(sky) = &scene.sky else { return scene.background };
    let color = sh::color(sky, DEGREE, direction(scene, column, row));
    std::array::from_fn(|channel| scene.background[channel] + color[channel])
}

/// Adds the contribution of a pixel to the gradient of the sky, from the gradient with respect to [`background_colour`].
pub fn background_colour_vjp(scene: &Scene, column: u32, row: u32, d_behind: [f64; 3], d_sky: &mut SkyF64) {
    if let Some(sky) = &scene.sky {
        // The gradient with respect to the pose is left out: see the docs of `raster::sky`.
        let _ = sh::color_vjp(sky, DEGREE, direction(scene, column, row), d_behind, d_sky);
    }
}

/// Unit direction of a pixel's centre in the world.
fn direction(scene: &Scene, column: u32, row: u32) -> [f64; 3] {
    let in_camera = scene.camera.ray(pixel_centre(column, row));
    sh::direction(transpose_mul_vec(&scene.pose.rotation, in_camera)).0
}
