//! Rendering: options and results.

use crate::constants::NEAR_PLANE;

/// Render options: what the renderer needs in addition to camera and splats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenderOptions {
    /// SH degree in use; higher stored coefficients are ignored.
    pub sh_degree: u8,
    /// Colour behind the splats.
    pub background: [f32; 3],
    /// Opacity compensation for splats smaller than a pixel (Yu et al. 2024, Mip-Splatting's 2D filter as in gsplat).
    pub antialiased: bool,
    /// Maximum length of a tile's list, nearest splats first; 0 = no limit.
    pub max_splats_per_tile: u32,
    /// A splat is dropped unless its camera-space depth is greater than this (scene units).
    pub near_plane: f64,
    /// Whether the sky of the state ([`CorrectionKind::Sky`](super::CorrectionKind)) is added to `background`.
    pub sky: bool,
    /// Only the first so many splats are rendered; `None` = all. The splats after them in a saved scene may be its sky.
    pub splat_limit: Option<u32>,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            sh_degree: 3,
            background: [0.0; 3],
            antialiased: false,
            max_splats_per_tile: 0,
            near_plane: NEAR_PLANE,
            sky: false,
            splat_limit: None,
        }
    }
}

/// Which images of a view are rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outputs {
    /// Colour and alpha.
    #[default]
    Color,
    /// Colour, alpha, depth and count.
    All,
}

/// A rendered view. Buffers are row-major; `color` has 3 interleaved channels; `depth` and `count` are empty unless
/// [`Outputs::All`] is requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendering {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// Colour over the background, not clamped.
    pub color: Vec<f32>,
    /// `1 - transmittance`.
    pub alpha: Vec<f32>,
    /// `Σ weight · camera z`; divide by `alpha` for the expected depth.
    pub depth: Vec<f32>,
    /// Number of splats blended.
    pub count: Vec<u32>,
    /// Tiles whose list was cut by `max_splats_per_tile`.
    pub capped_tiles: u64,
}

/// A query for the blending weight in front of a given depth at a pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OcclusionQuery {
    /// Column and row.
    pub pixel: [u32; 2],
    /// Camera z, scene units.
    pub depth: f32,
}
