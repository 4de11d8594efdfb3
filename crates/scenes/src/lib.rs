//! Procedural scenes: defined by formulas, written as ordinary datasets, bit-identical on every machine.
//!
//! ```
//! use gausset_compute::Pool;
//!
//! let scene = gausset_scenes::tiny();
//! let image = scene.image(0, &Pool::new(1));
//! assert_eq!((scene.poses.len(), image.width, image.height), (8, 32, 24));
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod captures;
pub mod dataset;
mod demo;
pub mod noise;
mod object_lists;
pub mod panorama;
pub mod points;
pub mod render;
pub mod room;
pub mod shape;
pub mod texture;
pub mod town;
pub mod vec3;
pub mod workload;
pub mod world;

use gausset_compute::Pool;
use gausset_core::{Camera, Pose, RgbImage8};

pub use captures::Capture;
pub use dataset::write_dataset;
pub use town::town;
pub use world::World;

/// Size of the demo scene.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DemoSize {
    /// 60 images of 160x120, for tests.
    Small,
    /// 72 images of 480x360.
    #[default]
    Default,
}

/// A world with its cameras.
#[derive(Clone, Debug)]
pub struct ProceduralScene {
    /// Objects, light and sky.
    pub world: World,
    /// Intrinsics of all cameras.
    pub camera: Camera,
    /// `camera_from_world` of each image.
    pub poses: Vec<Pose>,
    /// Factor on the display values of each image, which simulates automatic exposure; empty = 1.
    pub exposures: Vec<f64>,
    /// Degrees north, degrees east and metres up of each image, as its GPS receiver measured them; empty = unknown.
    pub geotags: Vec<[f64; 3]>,
    /// Maximum number of sparse points.
    pub points: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// The demo scene.
#[must_use]
pub fn demo(size: DemoSize, seed: u64) -> ProceduralScene {
    let (camera, per_ring, points) = match size {
        DemoSize::Small => (demo::camera(160, 120), 20, 2_000),
        DemoSize::Default => (demo::camera(480, 360), 24, 12_000),
    };
    scene(camera, &demo::CameraRings { cameras: per_ring, rings: demo::DEMO_RINGS }, points, seed)
}

/// The demo scene in eight images of 32x24, for unit tests.
#[must_use]
pub fn tiny() -> ProceduralScene {
    scene(demo::camera(32, 24), &demo::CameraRings { cameras: 4, rings: &demo::DEMO_RINGS[1..] }, 200, 0)
}

fn scene(camera: Camera, rings: &demo::CameraRings, points: usize, seed: u64) -> ProceduralScene {
    ProceduralScene {
        world: demo::world(seed),
        camera,
        poses: demo::poses(rings, seed),
        exposures: Vec::new(),
        geotags: Vec::new(),
        points,
        seed,
    }
}

impl ProceduralScene {
    /// Renders an image from a camera with a `camera_from_world` pose.
    #[must_use]
    pub fn render(&self, camera: &Camera, pose: &Pose, pool: &Pool) -> RgbImage8 {
        self.world.render(camera, pose, pool)
    }

    /// Renders an image of the capture with its exposure; bright parts saturate.
    #[must_use]
    pub fn image(&self, index: usize, pool: &Pool) -> RgbImage8 {
        let mut picture = self.render(&self.camera, &self.poses[index], pool);
        if let Some(&factor) = self.exposures.get(index) {
            let brighter: [u8; 256] =
                std::array::from_fn(|value| (factor * value as f64).round().clamp(0.0, 255.0) as u8);
            picture.data.iter_mut().for_each(|value| *value = brighter[usize::from(*value)]);
        }
        picture
    }
}
