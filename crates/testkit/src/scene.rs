//! Random scenes: the same seed gives the same scene on every machine.

use gausset_compute::rng::{self, stream};
use gausset_core::{Camera, Pose, Splats, se3, sh};

/// Parameters of a random scene. Start from `RandomScene::default()` and change what matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomScene {
    /// Seed.
    pub seed: u64,
    /// Number of splats.
    pub splats: usize,
    /// Degree of the stored SH coefficients.
    pub sh_degree: u8,
    /// Image width in px.
    pub width: u32,
    /// Image height in px.
    pub height: u32,
    /// Range of camera depths.
    pub depth: [f64; 2],
    /// Margin by which means extend beyond the image, as a fraction of its size; negative keeps them inside.
    pub margin: f64,
    /// Range of the standard deviations on screen, in px (drawn log-uniformly, per axis).
    pub size_in_px: [f64; 2],
    /// Range of opacity logits.
    pub opacity_logit: [f64; 2],
}

impl Default for RandomScene {
    fn default() -> Self {
        Self {
            seed: 1,
            splats: 50,
            sh_degree: 3,
            width: 40,
            height: 30,
            depth: [1.0, 6.0],
            margin: 0.1,
            size_in_px: [0.6, 5.0],
            opacity_logit: [-2.0, 3.0],
        }
    }
}

/// Splats and a rotated, off-centre camera with unequal focal lengths that sees them.
#[derive(Clone, Debug, PartialEq)]
pub struct TestScene {
    /// Splats.
    pub splats: Splats,
    /// Intrinsics.
    pub camera: Camera,
    /// `camera_from_world`.
    pub pose: Pose,
}

impl RandomScene {
    /// Creates the scene.
    ///
    /// # Panics
    /// If the image size is not valid for a camera.
    #[must_use]
    pub fn build(&self) -> TestScene {
        let mut random = Random::new(self.seed);
        let (width, height) = (f64::from(self.width), f64::from(self.height));
        let fx = width * random.uniform(0.8, 1.2);
        let camera = Camera::new(
            self.width,
            self.height,
            fx,
            fx * random.uniform(0.9, 1.1),
            width * random.uniform(0.42, 0.58),
            height * random.uniform(0.42, 0.58),
        )
        .expect("the image has a size");
        let pose = se3::exp(std::array::from_fn(|_| random.uniform(-0.7, 0.7)));
        let world_from_camera = pose.inverse();

        let mut splats = Splats::with_capacity(self.sh_degree, self.splats);
        for _ in 0..self.splats {
            let z = random.uniform(self.depth[0], self.depth[1]);
            let u = random.uniform(-self.margin, 1.0 + self.margin) * width;
            let v = random.uniform(-self.margin, 1.0 + self.margin) * height;
            let in_camera = [(u - camera.cx) / camera.fx * z, (v - camera.cy) / camera.fy * z, z];
            let mean = world_from_camera.apply(in_camera).map(|v| v as f32);
            let log_scale = std::array::from_fn(|_| {
                let log_px = random.uniform(self.size_in_px[0].ln(), self.size_in_px[1].ln());
                (log_px + (z / camera.fx).ln()) as f32
            });
            let length = random.uniform(0.3, 3.0);
            let quat = random.rotation().map(|v| (v * length) as f32);
            let logit = random.uniform(self.opacity_logit[0], self.opacity_logit[1]) as f32;
            let coefficients: Vec<f32> = (0..3 * sh::coefficients(self.sh_degree))
                .map(|k| random.uniform(-0.6, 0.6) as f32 * if k < 3 { 2.0 } else { 1.0 })
                .collect();
            splats.push(mean, log_scale, quat, logit, &coefficients);
        }
        TestScene { splats, camera, pose }
    }
}

/// A sequence of random numbers for tests.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    seed: u64,
    next: u32,
}

impl Random {
    /// Starts a sequence from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }

    /// Uniform in `[low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let words = rng::philox(self.seed, stream::TEST, 0, self.next);
        self.next += 1;
        low + (high - low) * rng::uniform_f64(words[0], words[1])
    }

    /// A unit `wxyz` quaternion, uniform over rotations (Shoemake 1992).
    pub fn rotation(&mut self) -> [f64; 4] {
        use std::f64::consts::TAU;
        let (u, a, b) = (self.uniform(0.0, 1.0), self.uniform(0.0, TAU), self.uniform(0.0, TAU));
        let (p, q) = ((1.0 - u).sqrt(), u.sqrt());
        [p * a.sin(), p * a.cos(), q * b.sin(), q * b.cos()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_land_where_the_recipe_says() {
        let recipe = RandomScene { margin: 0.0, splats: 200, ..RandomScene::default() };
        let scene = recipe.build();
        assert_eq!(scene.splats.validate(), Ok(()));
        for mean in &scene.splats.means {
            let p = scene.pose.apply(mean.map(f64::from));
            let [u, v] = scene.camera.project(p);
            // Means are rounded to f32 after they were chosen: 1e-4 px.
            assert!(u > -1e-4 && u < 40.0001 && v > -1e-4 && v < 30.0001, "{u} {v}");
            assert!(p[2] > 0.999 && p[2] < 6.001, "{}", p[2]);
        }
        assert_eq!(scene, recipe.build());
    }
}
