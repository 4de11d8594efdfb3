//! Depth maps of the training views, and the pixels of other views that they confirm.
//!
//! A pixel is co-visible (after DyCheck, Gao et al. 2022) if its 3D point, at the depth rendered there, is confirmed by at
//! least three training views: the point projects into their image, and the depth rendered there agrees within a tenth.
//! All other pixels were not observed, or have a geometry that training views contradict.
//!
//! The rendered depth is the expected depth, `Σ w z / Σ w`, defined where alpha is at least a half. Training views are
//! rendered small: their depth maps only answer whether a surface is visible, not where its edge is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Pool;
use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::matrix::rotation_from_quaternion;
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, Splats, se3};
use gausset_io::dataset::Dataset;

use super::confidence::{Confidence, Support};
use super::confirming_view::ConfirmingView;
use super::error::EvalError;

/// Training views that must confirm a pixel.
pub(super) const CONFIRMATIONS: u8 = 3;
/// Maximum relative difference of two depths that agree.
pub(super) const TOLERANCE: f32 = 0.1;
/// Minimum alpha of a pixel that has a depth.
const MIN_ALPHA: f32 = 0.5;
/// Longest side of a depth map in px.
const MAP_SIDE: u32 = 160;
/// Maximum number of cached depth maps. With more training views, only the [`MAX_QUERIED_VIEWS`] nearest ones of each
/// view are used.
const MAX_MAPS: usize = 200;
/// Number of training views that are used per view in a large dataset.
const MAX_QUERIED_VIEWS: usize = 32;
/// Cosine of the largest angle (20 degrees) at which a surface still looks as it was photographed: on the demo scene, the
/// error of what three views confirm doubles at 30 degrees, and is five times as large at 60 (research/experiments.md).
const SAME_DIRECTION: f64 = 0.94;
/// Standard deviations to which a splat reaches.
const REACH: f64 = 2.0;
/// Points per unit of work.
const POINTS_PER_CHUNK: usize = 4096;
/// Pixels of a depth map from one surveyed point to the next.
const SURVEY_STRIDE: usize = 4;
/// Views up to which they are that close; of more, fewer points each suffice.
const DENSELY_SURVEYED: usize = 64;

/// The depths of a training view; NaN where undefined.
pub(super) struct DepthMap {
    pub(super) index: usize,
    pub(super) camera: Camera,
    /// In the axes of the splats.
    pub(super) pose: Pose,
    pub(super) depths: Vec<f32>,
}

impl DepthMap {
    /// Whether this view sees a surface at a point in camera coordinates, or nearer than `reach` along the ray.
    pub(super) fn has_surface_at(&self, local: [f64; 3], reach: f64) -> bool {
        let (z, [u, v]) = (self.camera.depth(local), self.camera.project(local));
        let [width, height] = [self.camera.width, self.camera.height].map(f64::from);
        // These comparisons are false for NaN.
        if !(z > 0.0 && u >= 0.0 && u < width && v >= 0.0 && v < height) {
            return false;
        }
        let seen = self.depths[v as usize * self.camera.width as usize + u as usize];
        // Depth along the ray is depth along the axis over the cosine.
        let reach = reach * z / se3::norm(local);
        (f64::from(seen) - z).abs() <= f64::from(TOLERANCE) * z + reach
    }
}

/// The depth maps of training views, rendered on demand.
pub struct DepthMaps {
    dataset: Arc<Dataset>,
    /// Transforms cameras to the axes of the splats.
    similarity: Similarity,
    options: RenderOptions,
    maps: Vec<DepthMap>,
}

impl DepthMaps {
    /// An empty cache. `options` should draw no sky: it is no surface.
    #[must_use]
    pub fn new(dataset: Arc<Dataset>, splats_from_dataset: Similarity, options: &RenderOptions) -> Self {
        // Depth maps need no view-dependent colour.
        let options = RenderOptions { sh_degree: 0, ..*options };
        Self { dataset, similarity: splats_from_dataset, options, maps: Vec::new() }
    }

    /// Bytes of all maps of a dataset that are cached at once.
    pub(crate) fn bytes(dataset: &Dataset) -> u64 {
        let map = |&index: &usize| 4 * depth_map_camera(&dataset.images[index].camera).pixels() as u64;
        let largest = dataset.split.train.iter().map(map).max().unwrap_or(0);
        largest * dataset.split.train.len().min(MAX_MAPS) as u64
    }

    /// For each pixel of a view of the dataset, the number of other training views that confirm it, at most
    /// [`CONFIRMATIONS`].
    pub(super) fn confirmations(
        &mut self,
        engine: &mut dyn Engine,
        pool: &Pool,
        view: usize,
        rendering: &Rendering,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, EvalError> {
        let image = &self.dataset.images[view];
        let (camera, pose) = (image.camera, self.similarity.apply_to_pose(&image.pose));
        let nearest = self.nearest(&pose, Some(view));
        self.prepare(engine, &nearest, stop)?;
        let views = self.confirming_views((&camera, &pose), &nearest);
        Ok(map_pixels(pool, &camera, rendering, 0, |pixel, depth| {
            let confirming = views.iter().filter(|view| view.confirms(pixel, depth));
            confirming.take(usize::from(CONFIRMATIONS)).count() as u8
        }))
    }

    /// How well the training views know each pixel of any view, in the axes of the splats; `None` where it shows no
    /// surface. A pixel is confirmed by views that see it from about the same direction: what a surface looks like from
    /// elsewhere is a guess. Views from behind do not count at all: a hole shows the far side of an object.
    ///
    /// # Errors
    /// The device failed, `stop` was set.
    pub fn confidence(
        &mut self,
        engine: &mut dyn Engine,
        pool: &Pool,
        (camera, pose): (&Camera, &Pose),
        rendering: &Rendering,
        stop: &AtomicBool,
    ) -> Result<Vec<Option<Confidence>>, EvalError> {
        let nearest = self.nearest(pose, None);
        self.prepare(engine, &nearest, stop)?;
        let views = self.confirming_views((camera, pose), &nearest);
        Ok(map_pixels(pool, camera, rendering, None, |pixel, depth| {
            let point = camera.ray(pixel.map(f64::from)).map(|v| v * f64::from(depth));
            let [mut here, mut anywhere] = [Support::default(); 2];
            for view in views.iter().filter(|view| view.confirms(pixel, depth)) {
                let cosine = cosine(view.centre, point);
                if cosine > SAME_DIRECTION {
                    here.add(view.centre, point);
                    if here.is_sufficient() {
                        return Some(Confidence::Confirmed);
                    }
                }
                if cosine > 0.0 {
                    anywhere.add(view.centre, point);
                }
            }
            Some(anywhere.confidence().min(Confidence::Seen))
        }))
    }

    /// How well the training views know the place of each splat: a view confirms it if the surface that it sees is within
    /// two standard deviations.
    ///
    /// # Errors
    /// The device failed, `stop` was set.
    pub fn support(
        &mut self,
        engine: &mut dyn Engine,
        pool: &Pool,
        splats: &Splats,
        stop: &AtomicBool,
    ) -> Result<Vec<Support>, EvalError> {
        let axes = |i: usize| {
            let turn = rotation_from_quaternion(splats.quats[i].map(f64::from));
            let sizes = splats.log_scales[i].map(|log| libm::exp(f64::from(log)));
            // Columns of the rotation are the axes; rows of the result are the axes with their lengths.
            std::array::from_fn(|k| std::array::from_fn(|j| (turn[j][k] * sizes[k]) as f32))
        };
        let axes: Vec<[[f32; 3]; 3]> = (0..splats.len()).map(axes).collect();
        let reach = |i: usize, ray: [f64; 3]| {
            let along = axes[i].map(|axis| se3::dot(axis.map(f64::from), ray));
            REACH * se3::norm(along)
        };
        self.support_of_points(engine, pool, &splats.means, &reach, stop)
    }

    /// How well the training views know each point; `reach` tells how far the point extends along a unit vector.
    fn support_of_points(
        &mut self,
        engine: &mut dyn Engine,
        pool: &Pool,
        points: &[[f32; 3]],
        reach: &(dyn Fn(usize, [f64; 3]) -> f64 + Sync),
        stop: &AtomicBool,
    ) -> Result<Vec<Support>, EvalError> {
        let views = self.spread();
        self.prepare(engine, &views, stop)?;
        let maps: Vec<&DepthMap> = views.iter().filter_map(|&index| self.map(index)).collect();
        let centres: Vec<[f64; 3]> = maps.iter().map(|map| map.pose.centre()).collect();
        let mut supports = vec![Support::default(); points.len()];
        pool.run_chunks(&mut supports, POINTS_PER_CHUNK, |chunk, supports| {
            let first = chunk * POINTS_PER_CHUNK;
            for (i, support) in (first..).zip(supports) {
                let point = points[i].map(f64::from);
                for (map, centre) in maps.iter().zip(&centres) {
                    let ray = se3::sub(point, *centre);
                    let length = se3::norm(ray);
                    let reach = reach(i, ray.map(|v| v / length));
                    if map.has_surface_at(map.pose.apply(point), reach) {
                        support.add(*centre, point);
                    }
                }
            }
        });
        Ok(supports)
    }

    /// Points on the surfaces that the training views see, with what these views know about them.
    ///
    /// # Errors
    /// The device failed, `stop` was set.
    pub fn survey(
        &mut self,
        engine: &mut dyn Engine,
        pool: &Pool,
        stop: &AtomicBool,
    ) -> Result<Vec<([f64; 3], Confidence)>, EvalError> {
        let views = self.spread();
        self.prepare(engine, &views, stop)?;
        let stride = SURVEY_STRIDE * views.len().div_ceil(DENSELY_SURVEYED).max(1);
        let mut points = Vec::new();
        for map in views.iter().filter_map(|&index| self.map(index)) {
            let (world, width) = (map.pose.inverse(), map.camera.width as usize);
            for row in (stride / 2..map.camera.height as usize).step_by(stride) {
                for column in (stride / 2..width).step_by(stride) {
                    let depth = f64::from(map.depths[row * width + column]);
                    if depth.is_finite() {
                        let ray = map.camera.ray([column as f64 + 0.5, row as f64 + 0.5]);
                        points.push(world.apply(ray.map(|v| v * depth)).map(|v| v as f32));
                    }
                }
            }
        }
        let supports = self.support_of_points(engine, pool, &points, &|_, _| 0.0, stop)?;
        let points = points.iter().map(|point| point.map(f64::from));
        Ok(points.zip(supports.iter().map(Support::confidence)).collect())
    }

    /// Forgets all maps, because the splats have changed.
    pub fn clear(&mut self) {
        self.maps.clear();
    }

    fn map(&self, index: usize) -> Option<&DepthMap> {
        self.maps.iter().find(|map| map.index == index)
    }

    fn confirming_views<'a>(
        &'a self,
        view: (&'a Camera, &Pose),
        indices: &[usize],
    ) -> Vec<ConfirmingView<'a>> {
        let maps = indices.iter().filter_map(|&index| self.map(index));
        maps.map(|map| ConfirmingView::new(view, map)).collect()
    }

    /// Renders the maps of these views that are not cached.
    fn prepare(
        &mut self,
        engine: &mut dyn Engine,
        views: &[usize],
        stop: &AtomicBool,
    ) -> Result<(), EvalError> {
        if self.dataset.split.train.len() > MAX_MAPS {
            // Consecutive views lie on a path, so the maps of this view are mostly reused for the next.
            let capacity = MAX_MAPS.saturating_sub(views.len());
            let is_needed = |map: &DepthMap| views.contains(&map.index);
            let (mut kept, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.maps).into_iter().partition(is_needed);
            kept.extend(others.into_iter().take(capacity));
            self.maps = kept;
        }
        for &index in views {
            if stop.load(Ordering::Relaxed) {
                return Err(EvalError::Stopped);
            }
            if self.map(index).is_none() {
                let map = self.render(engine, index)?;
                self.maps.push(map);
            }
        }
        Ok(())
    }

    /// The training views that are used for a view, nearest first, without one.
    fn nearest(&self, pose: &Pose, without: Option<usize>) -> Vec<usize> {
        let train = &self.dataset.split.train;
        let extent = self.dataset.scene_extent * self.similarity.scale;
        let mut views: Vec<(f64, usize)> = train
            .iter()
            .filter(|&&index| Some(index) != without)
            .map(|&index| {
                let there = self.similarity.apply_to_pose(&self.dataset.images[index].pose);
                (distance(pose, &there, extent), index)
            })
            .collect();
        views.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if train.len() > MAX_MAPS {
            views.truncate(MAX_QUERIED_VIEWS);
        }
        views.into_iter().map(|(_, index)| index).collect()
    }

    /// Training views spread over all of them, as many as are cached.
    fn spread(&self) -> Vec<usize> {
        let train = &self.dataset.split.train;
        train.iter().copied().step_by(train.len().div_ceil(MAX_MAPS).max(1)).collect()
    }

    fn render(&self, engine: &mut dyn Engine, index: usize) -> Result<DepthMap, EvalError> {
        let image = &self.dataset.images[index];
        let (camera, pose) = (depth_map_camera(&image.camera), self.similarity.apply_to_pose(&image.pose));
        let rendering = engine.render(&camera, &pose, &self.options, Outputs::All)?;
        Ok(DepthMap { index, camera, pose, depths: expected_depths(&rendering) })
    }
}

/// A value for each pixel that has a depth, and `otherwise` for the others.
fn map_pixels<T: Copy + Send + Sync>(
    pool: &Pool,
    camera: &Camera,
    rendering: &Rendering,
    otherwise: T,
    value: impl Fn([f32; 2], f32) -> T + Sync,
) -> Vec<T> {
    let mut values = vec![otherwise; camera.pixels()];
    let depths = expected_depths(rendering);
    let width = camera.width as usize;
    pool.run_chunks(&mut values, width, |row, values| {
        let depths = &depths[row * width..];
        for (column, (out, &depth)) in values.iter_mut().zip(depths).enumerate() {
            if depth.is_finite() {
                *out = value([column as f32 + 0.5, row as f32 + 0.5], depth);
            }
        }
    });
    values
}

/// Cosine of the angle at which a camera at `centre` and one at the origin see a point.
fn cosine(centre: [f64; 3], point: [f64; 3]) -> f64 {
    let ray = se3::sub(point, centre);
    se3::dot(ray, point) / (se3::norm(ray) * se3::norm(point))
}

/// Dissimilarity of two views: distance of the cameras relative to the scene extent, plus the chord between their
/// directions.
fn distance(a: &Pose, b: &Pose, extent: f64) -> f64 {
    let length = |a: [f64; 3], b: [f64; 3]| (0..3).map(|k| (a[k] - b[k]) * (a[k] - b[k])).sum::<f64>().sqrt();
    length(a.centre(), b.centre()) / extent + length(a.rotation[2], b.rotation[2])
}

/// The same view, no larger than a depth map.
fn depth_map_camera(camera: &Camera) -> Camera {
    let longest = camera.width.max(camera.height);
    if longest <= MAP_SIDE {
        return *camera;
    }
    let side = |side: u32| (f64::from(side) * f64::from(MAP_SIDE) / f64::from(longest)).round().max(1.0);
    let (width, height) = (side(camera.width), side(camera.height));
    let (x, y) = (width / f64::from(camera.width), height / f64::from(camera.height));
    Camera {
        projection: camera.projection,
        width: width as u32,
        height: height as u32,
        fx: camera.fx * x,
        fy: camera.fy * y,
        cx: camera.cx * x,
        cy: camera.cy * y,
    }
}

/// `Σ w z / Σ w`, NaN where alpha is too low.
fn expected_depths(rendering: &Rendering) -> Vec<f32> {
    let pixels = rendering.depth.iter().zip(&rendering.alpha);
    pixels.map(|(depth, &alpha)| if alpha >= MIN_ALPHA { depth / alpha } else { f32::NAN }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_is_what_was_blended_by_what_it_weighs_and_half_a_splat_has_none() {
        let rendering = Rendering {
            width: 3,
            height: 1,
            alpha: vec![0.8, 0.49, 0.0],
            depth: vec![1.6, 1.0, 0.0],
            ..Rendering::default()
        };
        let depths = expected_depths(&rendering);
        assert!((depths[0] - 2.0).abs() < 1e-6 && depths[1].is_nan() && depths[2].is_nan());
    }

    #[test]
    fn a_map_is_small_and_sees_what_the_view_sees() {
        let camera = Camera::new(1600, 1201, 1500.0, 1490.0, 810.0, 590.0).unwrap();
        let small = depth_map_camera(&camera);
        assert_eq!((small.width, small.height), (160, 120));
        // The same fraction of the image, from the same corner.
        assert!((small.fx / 160.0 - camera.fx / 1600.0).abs() < 1e-12);
        assert!((small.cy / 120.0 - camera.cy / 1201.0).abs() < 1e-12);
        assert_eq!(depth_map_camera(&small), small);
        assert_eq!(depth_map_camera(&Camera { width: 4000, height: 3, ..camera }).height, 1);
    }
}
