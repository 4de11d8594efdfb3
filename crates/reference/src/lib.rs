//! The renderer and its gradients in f64: slow, simple, readable. It is the definition of every formula: all other
//! implementations are tested against it, and it is tested against the fixtures (`testdata/fixtures/raster/README.md`,
//! "the README" below) and against finite differences.
//!
//! The files follow the pipeline, with the names of the stages:
//!
//! | file | contents |
//! |---|---|
//! | [`scene`] | inputs in f64: splats, camera, pose, options |
//! | [`mod@project`], [`sh`] | one splat from the world to the screen, and its colour |
//! | [`alpha`] | alpha of a splat at a point of the screen |
//! | [`tile`] | depth order, and the splats of each tile (the cap) |
//! | [`blend`], [`sky`] | one pixel front to back, and the colour behind all splats |
//! | [`loss`] | L1, SSIM and the training loss with its gradient |
//! | [`blend_vjp`] | gradients of the images propagated to screen splats |
//! | [`project_vjp`] | gradients of raw parameters and of the camera pose |
//! | [`adam`], [`knn`] | the optimiser, the initial scales |
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
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod adam;
pub mod alpha;
pub mod blend;
pub mod blend_vjp;
pub mod constants;
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
pub use constants::{ALPHA_MAX, ALPHA_MIN, JACOBIAN_CLAMP_MARGIN, LOW_PASS_VARIANCE, TRANSMITTANCE_STOP};
pub use project::{ScreenSplat, project};
pub use project_vjp::{Gradients, PoseGradient, vjp};
pub use scene::{Scene, SkyF64, SplatsF64};
