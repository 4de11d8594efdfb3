//! The inputs of a render in f64.
//!
//! Parameters are f32 everywhere else; here they can also be changed by the tiny steps of a finite difference.

use gausset_core::engine::{RenderOptions, SKY_VALUES};
use gausset_core::{Camera, Pose, Splats};

/// [`Splats`] in f64: parameters, or gradients with respect to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SplatsF64 {
    /// Centres in world space.
    pub means: Vec<[f64; 3]>,
    /// Natural logs of the standard deviations.
    pub log_scales: Vec<[f64; 3]>,
    /// Rotations `wxyz`, any length.
    pub quats: Vec<[f64; 4]>,
    /// Logits of the opacities.
    pub opacity_logits: Vec<f64>,
    /// Coefficients `[splat][coefficient][channel]`.
    pub sh: Vec<f64>,
    /// Values of `sh` per splat: `3 (stored degree + 1)²`.
    pub sh_stride: usize,
}

/// Coefficients `[coefficient][channel]` of a sky, or gradients with respect to them.
pub type SkyF64 = [[f64; 3]; SKY_VALUES / 3];

/// The inputs of a render.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Raw parameters in f64.
    pub splats: SplatsF64,
    /// Size and intrinsics, px.
    pub camera: Camera,
    /// `camera_from_world`, used unchanged: the rotation need not be exactly orthonormal.
    pub pose: Pose,
    /// Active SH degree; higher stored coefficients are ignored.
    pub sh_degree: u8,
    /// Colour behind the splats.
    pub background: [f64; 3],
    /// Coefficients of the sky, which is added to the background.
    pub sky: Option<SkyF64>,
    /// Whether opacity is compensated for the low-pass filter.
    pub antialiased: bool,
    /// Maximum length of a tile's list, nearest splats first; 0 = no limit.
    pub max_splats_per_tile: u32,
    /// Depth that a splat must exceed to be rendered.
    pub near_plane: f64,
}

impl SplatsF64 {
    /// `len` splats with every value 0.
    #[must_use]
    pub fn zeros(len: usize, sh_stride: usize) -> Self {
        Self {
            means: vec![[0.0; 3]; len],
            log_scales: vec![[0.0; 3]; len],
            quats: vec![[0.0; 4]; len],
            opacity_logits: vec![0.0; len],
            sh: vec![0.0; len * sh_stride],
            sh_stride,
        }
    }

    /// Number of splats.
    #[must_use]
    pub fn len(&self) -> usize {
        self.means.len()
    }

    /// Whether there are no splats.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.means.is_empty()
    }

    /// Coefficients of one splat, `[coefficient][channel]`.
    #[must_use]
    pub fn sh_of(&self, splat: usize) -> &[[f64; 3]] {
        self.sh[splat * self.sh_stride..(splat + 1) * self.sh_stride].as_chunks().0
    }

    /// Coefficients of one splat, `[coefficient][channel]`.
    pub fn sh_of_mut(&mut self, splat: usize) -> &mut [[f64; 3]] {
        self.sh[splat * self.sh_stride..(splat + 1) * self.sh_stride].as_chunks_mut().0
    }

    /// Whether every value of a splat is finite.
    #[must_use]
    pub fn is_finite(&self, splat: usize) -> bool {
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        finite(&self.means[splat])
            && finite(&self.log_scales[splat])
            && finite(&self.quats[splat])
            && self.opacity_logits[splat].is_finite()
            && finite(self.sh_of(splat).as_flattened())
    }
}

impl From<&Splats> for SplatsF64 {
    fn from(splats: &Splats) -> Self {
        Self {
            means: splats.means.iter().map(|v| v.map(f64::from)).collect(),
            log_scales: splats.log_scales.iter().map(|v| v.map(f64::from)).collect(),
            quats: splats.quats.iter().map(|v| v.map(f64::from)).collect(),
            opacity_logits: splats.opacity_logits.iter().copied().map(f64::from).collect(),
            sh: splats.sh.iter().copied().map(f64::from).collect(),
            sh_stride: splats.sh_stride(),
        }
    }
}

impl Scene {
    /// A scene with these inputs, without a sky. An active SH degree above the stored one is reduced to the stored one.
    #[must_use]
    pub fn new(splats: &Splats, camera: &Camera, pose: &Pose, options: &RenderOptions) -> Self {
        Self {
            splats: splats.into(),
            camera: *camera,
            pose: *pose,
            sh_degree: options.sh_degree.min(splats.sh_degree),
            background: options.background.map(f64::from),
            sky: None,
            antialiased: options.antialiased,
            max_splats_per_tile: options.max_splats_per_tile,
            near_plane: options.near_plane,
        }
    }
}
