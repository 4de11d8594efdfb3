//! The renderer and its gradients in f64: slow, plain, readable. This is the one definition of every formula; all
//! other implementations are tested against it, and it is tested against the fixtures
//! (`testdata/fixtures/raster/README.md`, "the README" below) and against finite differences.
//!
//! The files follow the pipeline, with the names of the stages:
//!
//! | file | what |
//! |---|---|
//! | [`scene`] | inputs in f64: splats, camera, pose, options |
//! | [`mod@project`], [`sh`] | one splat from the world to the screen, and its colour |
//! | [`tile`] | depth order, and which splats a tile sees (the cap) |
//! | [`blend`], [`sky`] | one pixel front to back, and what is behind all splats |
//! | [`loss`] | L1, SSIM and the training loss with its gradient |
//! | [`blend_vjp`] | gradients of the pictures pulled back to screen splats |
//! | [`project_vjp`] | and on to raw parameters and the camera pose |
//! | [`adam`], [`knn`] | the optimiser, the start scales |
//!
//! ```
//! use gausset_core::{Camera, Pose, Splats, engine::RenderOptions};
//! use gausset_reference::{Scene, Upstream, render, vjp};
//!
//! let mut splats = Splats::with_capacity(0, 1);
//! splats.push([0.0, 0.0, 2.0], [-2.0; 3], [1.0, 0.0, 0.0, 0.0], 0.0, &[1.0, 0.5, 0.0]);
//! let camera = Camera::new(16, 16, 20.0, 20.0, 8.0, 8.0).unwrap();
//! let options = RenderOptions { sh_degree: 0, ..RenderOptions::default() };
//!
//! let scene = Scene::new(&splats, &camera, &Pose::IDENTITY, &options);
//! let rendering = render(&scene);
//! let mut upstream = Upstream::zeros(&camera);
//! upstream.alpha.fill(1.0);
//! let gradients = vjp(&scene, &rendering, &upstream);
//! assert!(gradients.splats.opacity_logits[0] > 0.0, "more opacity means more alpha");
//! ```
#![forbid(unsafe_code)]

pub mod adam;
pub mod blend;
pub mod blend_vjp;
pub mod knn;
pub mod loss;
pub mod project;
pub mod project_vjp;
pub mod scene;
pub mod sh;
pub mod sky;
pub mod tile;

pub use blend::{Rendering, render};
pub use blend_vjp::{ScreenGradient, Upstream};
pub use project::{ScreenSplat, project};
pub use project_vjp::{Gradients, PoseGradient, vjp};
pub use scene::{Scene, SkyF64, SplatsF64};

use gausset_core::constants;

/// Added to both diagonal entries of the screen covariance, in px².
pub const LOW_PASS_VARIANCE: f64 = 0.3;
/// A splat is skipped at a pixel if its alpha is below.
pub const ALPHA_MIN: f64 = 1.0 / 255.0;
/// Upper clamp of alpha.
pub const ALPHA_MAX: f64 = 0.99;
/// A splat is blended only while the transmittance after it stays greater.
pub const TRANSMITTANCE_STOP: f64 = 1e-4;
/// Margin of the Jacobian clamp as a share of half the image size.
pub const JACOBIAN_CLAMP_MARGIN: f64 = 0.3;

// Rounding 0.3 to f32 would already cost 4e-8, more than the 1e-9 that the fixtures allow in f64. So these are the
// exact decimals, and the f32 constants of all other devices must be what they round to.
const _: () = assert!(
    LOW_PASS_VARIANCE as f32 == constants::LOW_PASS_VARIANCE
        && ALPHA_MIN as f32 == constants::ALPHA_MIN
        && ALPHA_MAX as f32 == constants::ALPHA_MAX
        && TRANSMITTANCE_STOP as f32 == constants::TRANSMITTANCE_STOP
        && JACOBIAN_CLAMP_MARGIN as f32 == constants::JACOBIAN_CLAMP_MARGIN
);
