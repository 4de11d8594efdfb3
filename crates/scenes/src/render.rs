//! Renders images of a world: a pinhole camera, eight samples where needed, display colours.
//!
//! A pixel is the mean of samples over its square, taken in display space (as splats are blended). Four samples decide
//! whether it is uniform; if not, four more follow. The samples are the same in every pixel, so there is no noise.

use gausset_compute::Pool;
use gausset_core::{Camera, Pose, RgbImage8, image::quantise, se3};

use crate::object_lists::{Candidate, TileLists};
use crate::vec3::Vec3;
use crate::world::{PixelCone, Ray, World};

/// Samples of a pixel that is not uniform.
const SAMPLES: usize = 8;
/// Samples that decide.
const FIRST_SAMPLES: usize = 4;
/// Maximum difference of a channel among the first samples of a uniform pixel, relative to 1.
const UNIFORM_RANGE: f64 = 0.08;

/// Sample positions relative to the centre of the pixel, in sixteenths of it: each row and each column of an 8x8 grid
/// contains one, the first four and the last four form rotated squares around the centre.
const SAMPLE_OFFSETS: [[i8; 2]; SAMPLES] =
    [[5, 1], [-1, 5], [-5, -1], [1, -5], [7, -3], [3, 7], [-7, 3], [-3, -7]];

impl World {
    /// Renders the image of a camera; rows are rendered in parallel.
    #[must_use]
    pub fn render(&self, camera: &Camera, pose: &Pose, pool: &Pool) -> RgbImage8 {
        let _span = gausset_prof::span("ray_trace");
        let mut image = RgbImage8::new(camera.width, camera.height);
        let eye = Eye::new(camera, pose);
        let lists = TileLists::new(camera, pose, self.balls());
        pool.run_chunks(&mut image.data, camera.width as usize * 3, |row, pixels| {
            for (column, pixel) in pixels.chunks_exact_mut(3).enumerate() {
                let colour = self.pixel(&eye, column as f64, row as f64, lists.at(column, row));
                pixel.copy_from_slice(&colour.array().map(|v| quantise(v as f32)));
            }
        });
        image
    }

    /// Depth along the optical axis at the centre of each pixel, in scene units, row-major; the sky dome counts as a
    /// surface.
    #[must_use]
    pub fn depth(&self, camera: &Camera, pose: &Pose, pool: &Pool) -> Vec<f32> {
        let mut depth = vec![0.0; camera.pixels()];
        let eye = Eye::new(camera, pose);
        pool.run_chunks(&mut depth, camera.width as usize, |row, pixels| {
            for (column, pixel) in pixels.iter_mut().enumerate() {
                let ray = eye.ray(column as f64 + 0.5, row as f64 + 0.5);
                *pixel = pose.apply(ray.at(self.first_hit(&ray).distance).array())[2] as f32;
            }
        });
        depth
    }

    /// Display colour of the pixel whose top-left corner is at (x, y), of which only `candidates` can be visible.
    fn pixel(&self, eye: &Eye, x: f64, y: f64, candidates: &[Candidate]) -> Vec3 {
        let mut cone = PixelCone::new(eye.pixel_angle());
        let mut sample = |place: [i8; 2]| {
            let [dx, dy] = place.map(|v| 0.5 + f64::from(v) / 16.0);
            display(self.radiance_among(&eye.ray(x + dx, y + dy), candidates, &mut cone))
        };
        let (mut sum, mut low, mut high) = (Vec3::default(), Vec3::splat(1.0), Vec3::default());
        for &place in &SAMPLE_OFFSETS[..FIRST_SAMPLES] {
            let colour = sample(place);
            sum += colour;
            low = component_min(low, colour);
            high = -component_min(-high, -colour);
        }
        let range = high - low;
        if range.x.max(range.y).max(range.z) <= UNIFORM_RANGE {
            return sum * (1.0 / FIRST_SAMPLES as f64);
        }
        SAMPLE_OFFSETS[FIRST_SAMPLES..].iter().for_each(|&place| sum += sample(place));
        sum * (1.0 / SAMPLES as f64)
    }
}

/// Display value, 0..1, of linear light: a filmic curve (Narkowicz 2016) and gamma 2.
#[must_use]
pub fn display(light: Vec3) -> Vec3 {
    light.map(|x| {
        let x = 0.56 * x.max(0.0);
        let film = (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14);
        film.clamp(0.0, 1.0).sqrt()
    })
}

fn component_min(a: Vec3, b: Vec3) -> Vec3 {
    Vec3 { x: a.x.min(b.x), y: a.y.min(b.y), z: a.z.min(b.z) }
}

/// A camera at its position, which maps pixels to rays.
#[derive(Clone, Copy, Debug)]
pub struct Eye {
    camera: Camera,
    centre: Vec3,
    world_from_camera: se3::Mat3,
}

impl Eye {
    /// The eye of a camera with a `camera_from_world` pose.
    #[must_use]
    pub fn new(camera: &Camera, pose: &Pose) -> Self {
        Self {
            camera: *camera,
            centre: pose.centre().into(),
            world_from_camera: se3::transpose(&pose.rotation),
        }
    }

    /// Position of the camera in the world.
    #[must_use]
    pub fn centre(&self) -> Vec3 {
        self.centre
    }

    /// Angle of a pixel at the centre of the image, radians.
    pub(crate) fn pixel_angle(&self) -> f64 {
        1.0 / self.camera.fx
    }

    /// The ray through a position in the image, in px from its top-left corner.
    #[must_use]
    pub fn ray(&self, u: f64, v: f64) -> Ray {
        let in_camera = [(u - self.camera.cx) / self.camera.fx, (v - self.camera.cy) / self.camera.fy, 1.0];
        let direction = Vec3::from(se3::mul_vec(&self.world_from_camera, in_camera)).normalised();
        Ray { origin: self.centre, direction }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fill_rows_columns_and_quadrants_evenly_around_the_centre() {
        for axis in [0, 1] {
            let mut values = SAMPLE_OFFSETS.map(|p| p[axis]);
            values.sort_unstable();
            assert_eq!(values, [-7, -5, -3, -1, 1, 3, 5, 7]);
        }
        for square in SAMPLE_OFFSETS.chunks(FIRST_SAMPLES) {
            let mut quadrants: Vec<_> = square.iter().map(|p| (p[0] > 0, p[1] > 0)).collect();
            quadrants.sort_unstable();
            assert_eq!(quadrants, [(false, false), (false, true), (true, false), (true, true)]);
            assert_eq!(square.iter().fold([0, 0], |s, p| [s[0] + p[0], s[1] + p[1]]), [0, 0]);
        }
    }

    #[test]
    fn tile_lists_change_nothing() {
        let scene = crate::tiny();
        for pose in &scene.poses {
            let eye = Eye::new(&scene.camera, pose);
            let lists = TileLists::new(&scene.camera, pose, scene.world.balls());
            for (row, column) in (0..24).flat_map(|row| (0..32).map(move |column| (row, column))) {
                for corner in [0.0, 0.999] {
                    let ray = eye.ray(f64::from(column) + corner, f64::from(row) + corner);
                    let candidates = lists.at(column as usize, row as usize);
                    let mut cone = PixelCone::new(eye.pixel_angle());
                    assert_eq!(
                        scene.world.radiance_among(&ray, candidates, &mut cone),
                        scene.world.radiance(&ray)
                    );
                }
            }
        }
    }

    #[test]
    fn the_depth_of_a_pixel_is_that_of_what_its_ray_meets() {
        let scene = crate::tiny();
        let pose = &scene.poses[3];
        let depth = scene.world.depth(&scene.camera, pose, &Pool::new(2));
        for (i, &z) in depth.iter().enumerate() {
            let (x, y) = ((i % 32) as f64 + 0.5, (i / 32) as f64 + 0.5);
            let camera = &scene.camera;
            let z = f64::from(z);
            let p = [(x - camera.cx) / camera.fx * z, (y - camera.cy) / camera.fy * z, z];
            let hit = scene.world.first_hit(&Eye::new(camera, pose).ray(x, y));
            assert!((se3::norm(p) - hit.distance).abs() < 1e-5 * hit.distance);
        }
    }

    #[test]
    fn a_ray_through_the_projection_of_a_point_meets_the_point() {
        let camera = Camera::new(64, 48, 60.0, 61.0, 31.0, 25.0).unwrap();
        let pose = Pose::from_quaternion([0.5, 0.5, -0.5, 0.5], [0.2, -0.3, 4.0]).unwrap();
        let point = [0.4, 0.1, -0.3];
        let [u, v] = camera.project(pose.apply(point));
        let ray = Eye::new(&camera, &pose).ray(u, v);
        let offset = Vec3::from(point) - ray.origin;
        assert!(offset.cross(ray.direction).length() < 1e-12 && offset.dot(ray.direction) > 0.0);
    }
}
