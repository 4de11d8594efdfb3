//! Compositing one pixel front to back (README, section 3).
//!
//! ```text
//! d = u - mean2d;  sigma = 0.5 (A dx² + C dy²) + B dx dy
//! alpha = min(0.99, o exp(-sigma));   if alpha < 1/255: skip this splat
//! T' = T (1 - alpha);                 if T' <= 1e-4: stop, this splat is not blended
//! w = alpha T;  image += w color;  depth += w z;  count += 1;  T = T'
//! at the end: image += T background, with the sky in it;  alpha_out = 1 - T
//! ```

use super::alpha::{Alpha, alpha_at};
use super::constants::TRANSMITTANCE_STOP;
use super::project::{ScreenSplat, project};
use super::scene::Scene;
use super::sky::background_colour;
use super::tile::{TileLists, pixel_centre, tile_lists};

/// A rendered view with the data that its gradients need.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendering {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// `[H, W, 3]`: colour over the background, not clamped.
    pub color: Vec<f64>,
    /// `[H, W]`: 1 - transmittance.
    pub alpha: Vec<f64>,
    /// `[H, W]`: `Σ w z` with the depth z.
    pub depth: Vec<f64>,
    /// `[H, W]`: splats blended.
    pub count: Vec<u32>,
    /// The projected splats; `None` for dropped ones.
    pub screen: Vec<Option<ScreenSplat>>,
    /// The list of each tile.
    pub tiles: TileLists,
    /// Whether each splat is blended at one pixel or more.
    pub contributes: Vec<bool>,
}

/// A splat blended at a pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    /// Index of the splat.
    pub splat: u32,
    /// Its alpha at the pixel.
    pub alpha: Alpha,
    /// Transmittance in front of it.
    pub transmittance: f64,
}

/// Renders a scene.
#[must_use]
pub fn render(scene: &Scene) -> Rendering {
    blend(scene, (0..scene.splats.len()).map(|i| project(scene, i)).collect())
}

/// Composites projected splats; of the scene only camera, background, sky and cap are used.
#[must_use]
pub fn blend(scene: &Scene, screen: Vec<Option<ScreenSplat>>) -> Rendering {
    let camera = &scene.camera;
    let tiles = tile_lists(&screen, camera, scene.max_splats_per_tile);
    let mut rendering = Rendering {
        width: camera.width,
        height: camera.height,
        color: Vec::with_capacity(3 * camera.pixels()),
        alpha: Vec::with_capacity(camera.pixels()),
        depth: Vec::with_capacity(camera.pixels()),
        count: Vec::with_capacity(camera.pixels()),
        contributes: vec![false; screen.len()],
        screen,
        tiles,
    };
    for row in 0..camera.height {
        for column in 0..camera.width {
            let (contributions, transmittance) = contributions(
                &rendering.screen,
                rendering.tiles.list_at_pixel(column, row),
                pixel_centre(column, row),
            );
            let mut color = background_colour(scene, column, row).map(|channel| channel * transmittance);
            let mut depth = 0.0;
            for contribution in &contributions {
                let Some(splat) = &rendering.screen[contribution.splat as usize] else { continue };
                let weight = contribution.alpha.alpha * contribution.transmittance;
                for channel in 0..3 {
                    color[channel] += weight * splat.color[channel];
                }
                depth += weight * splat.depth;
                rendering.contributes[contribution.splat as usize] = true;
            }
            rendering.color.extend(color);
            rendering.alpha.push(1.0 - transmittance);
            rendering.depth.push(depth);
            rendering.count.push(contributions.len() as u32);
        }
    }
    rendering
}

/// The splats blended at a point of the screen, front to back, and the transmittance behind them.
#[must_use]
pub fn contributions(
    screen: &[Option<ScreenSplat>],
    list: &[u32],
    point: [f64; 2],
) -> (Vec<Contribution>, f64) {
    let mut contributions = Vec::new();
    let mut transmittance = 1.0;
    for &splat in list {
        let Some(at) = screen[splat as usize].as_ref().and_then(|splat| alpha_at(splat, point)) else {
            continue;
        };
        let behind = transmittance * (1.0 - at.alpha);
        if behind <= TRANSMITTANCE_STOP {
            break;
        }
        contributions.push(Contribution { splat, alpha: at, transmittance });
        transmittance = behind;
    }
    (contributions, transmittance)
}
