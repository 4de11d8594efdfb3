//! Co-visibility: the pixels of a view that the training views observe (after DyCheck, Gao et al. 2022).
//!
//! A pixel is co-visible if its 3D point, at the depth rendered there, is confirmed by at least three training views:
//! the point projects into their image, and the depth rendered there agrees within a tenth. All other pixels were not
//! observed, or have a geometry that training views contradict.
//!
//! The rendered depth is the expected depth, `Σ w z / Σ w`, defined where alpha is at least a half. Training views are
//! rendered small: their depth maps only answer whether a surface is visible, not where its edge is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Pool;
use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose};
use gausset_io::dataset::Dataset;

use super::error::EvalError;

/// Training views that must confirm a pixel.
pub(super) const CONFIRMATIONS: u8 = 3;
/// Maximum relative difference of two depths that agree.
const TOLERANCE: f32 = 0.1;
/// Minimum alpha of a pixel that has a depth.
const MIN_ALPHA: f32 = 0.5;
/// Longest side of a depth map in px.
const MAP_SIDE: u32 = 160;
/// Maximum number of cached depth maps. With more training views, only the [`MAX_QUERIED_VIEWS`] ones of each view are used.
const MAX_MAPS: usize = 200;
/// Number of training views that are used per view in a large dataset.
const MAX_QUERIED_VIEWS: usize = 32;

/// The depths of a training view; NaN where undefined.
struct DepthMap {
    index: usize,
    camera: Camera,
    depths: Vec<f32>,
}

/// The depth maps of training views, rendered on demand.
pub(super) struct DepthMaps {
    dataset: Arc<Dataset>,
    /// Transforms cameras to the axes of the saved splats.
    similarity: Similarity,
    options: RenderOptions,
    maps: Vec<DepthMap>,
}

impl DepthMaps {
    /// An empty cache.
    pub(super) fn new(dataset: Arc<Dataset>, turn: Similarity, options: &RenderOptions) -> Self {
        // Depth maps need no view-dependent colour.
        let options = RenderOptions { sh_degree: 0, ..*options };
        Self { dataset, similarity: turn, options, maps: Vec::new() }
    }

    /// Bytes of all maps of a dataset that are cached at once.
    pub(crate) fn bytes(dataset: &Dataset) -> u64 {
        let map = |&index: &usize| 4 * depth_map_camera(&dataset.images[index].camera).pixels() as u64;
        let largest = dataset.split.train.iter().map(map).max().unwrap_or(0);
        largest * dataset.split.train.len().min(MAX_MAPS) as u64
    }

    /// For each pixel of a view of the dataset, the number of training views that confirm it, at most
    /// [`CONFIRMATIONS`].
    pub(super) fn confirmations(
        &mut self,
        engine: &mut dyn Engine,
        pool: &Pool,
        view: usize,
        rendering: &Rendering,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, EvalError> {
        let asked = self.queried_views(view);
        if self.dataset.split.train.len() > MAX_MAPS {
            // Consecutive views lie on a path, so the maps of this view are mostly reused for the next.
            let room = MAX_MAPS - asked.len();
            let is_asked = |map: &DepthMap| asked.contains(&map.index);
            let (mut kept, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.maps).into_iter().partition(is_asked);
            kept.extend(others.into_iter().take(room));
            self.maps = kept;
        }
        for &index in &asked {
            if stop.load(Ordering::Relaxed) {
                return Err(EvalError::Stopped);
            }
            if !self.maps.iter().any(|map| map.index == index) {
                let map = self.render(engine, index)?;
                self.maps.push(map);
            }
        }
        let image = &self.dataset.images[view];
        let witnesses: Vec<ConfirmingView<'_>> = asked
            .iter()
            .filter_map(|&index| self.maps.iter().find(|map| map.index == index))
            .map(|map| {
                ConfirmingView::new((&image.camera, &image.pose), map, &self.dataset.images[map.index].pose)
            })
            .collect();
        let mut counts = vec![0u8; image.camera.pixels()];
        let depths = expected_depths(rendering);
        let width = image.camera.width as usize;
        pool.run_chunks(&mut counts, width, |row, counts| {
            let depths = &depths[row * width..];
            for (column, (out, &depth)) in counts.iter_mut().zip(depths).enumerate() {
                // A pixel without depth has NaN, which no witness confirms.
                let pixel = [column as f32 + 0.5, row as f32 + 0.5];
                let confirming = witnesses.iter().filter(|w| w.confirms(pixel, depth));
                *out = confirming.take(usize::from(CONFIRMATIONS)).count() as u8;
            }
        });
        Ok(counts)
    }

    /// The training views that are used for a view, nearest first; never the view itself.
    fn queried_views(&self, view: usize) -> Vec<usize> {
        let images = &self.dataset.images;
        let train = &self.dataset.split.train;
        let here = &images[view].pose;
        let extent = self.dataset.scene_extent;
        let mut others: Vec<(f64, usize)> = train
            .iter()
            .filter(|&&index| index != view)
            .map(|&index| (distance(here, &images[index].pose, extent), index))
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if train.len() > MAX_MAPS {
            others.truncate(MAX_QUERIED_VIEWS);
        }
        others.into_iter().map(|(_, index)| index).collect()
    }

    fn render(&self, engine: &mut dyn Engine, index: usize) -> Result<DepthMap, EvalError> {
        let image = &self.dataset.images[index];
        let camera = depth_map_camera(&image.camera);
        let rendering = engine.render(
            &camera,
            &self.similarity.apply_to_pose(&image.pose),
            &self.options,
            Outputs::All,
        )?;
        Ok(DepthMap { index, camera, depths: expected_depths(&rendering) })
    }
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

/// A training view that confirms pixels of another view. In f32: agreement of depths within a tenth needs no more.
enum ConfirmingView<'a> {
    Pinhole(PinholeConfirmingView<'a>),
    /// One of the two is a panorama: the pixel is transformed through world coordinates, in f64.
    Any {
        camera: &'a Camera,
        map: &'a DepthMap,
        map_from_camera: Pose,
    },
}

impl<'a> ConfirmingView<'a> {
    fn new(view: (&'a Camera, &Pose), map: &'a DepthMap, map_pose: &Pose) -> Self {
        let (camera, pose) = view;
        if camera.is_pinhole() && map.camera.is_pinhole() {
            return Self::Pinhole(PinholeConfirmingView::new(view, map, map_pose));
        }
        Self::Any { camera, map, map_from_camera: map_pose.compose(&pose.inverse()) }
    }

    /// Whether the point at `depth` of a pixel is on the surface that this view sees.
    fn confirms(&self, pixel: [f32; 2], depth: f32) -> bool {
        let (camera, map, map_from_camera) = match self {
            Self::Pinhole(witness) => return witness.confirms(pixel, depth),
            Self::Any { camera, map, map_from_camera } => (camera, map, map_from_camera),
        };
        let point = camera.ray(pixel.map(f64::from)).map(|v| v * f64::from(depth));
        let local = map_from_camera.apply(point);
        let (z, [u, v]) = (map.camera.depth(local), map.camera.project(local));
        let [width, height] = [map.camera.width, map.camera.height].map(f64::from);
        // These comparisons are false for NaN.
        if !(z > 0.0 && u >= 0.0 && u < width && v >= 0.0 && v < height) {
            return false;
        }
        let seen = map.depths[v as usize * map.camera.width as usize + u as usize];
        (f64::from(seen) - z).abs() <= f64::from(TOLERANCE) * z
    }
}

/// A pinhole camera that confirms pixels of another pinhole camera.
struct PinholeConfirmingView<'a> {
    depths: &'a [f32],
    /// Width and height of the map.
    size: [f32; 2],
    /// From `(u z, v z, z)` of the view to `(u' z', v' z', z')` of the map.
    from_pixel: [[f32; 3]; 3],
    offset: [f32; 3],
}

impl<'a> PinholeConfirmingView<'a> {
    fn new((camera, pose): (&Camera, &Pose), map: &'a DepthMap, map_pose: &Pose) -> Self {
        let Pose { rotation: [x, y, z], translation: t } = map_pose.compose(&pose.inverse());
        // Multiply by the intrinsics of the map from the left ...
        let to = &map.camera;
        let along = |f: f64, row: [f64; 3], c: f64| std::array::from_fn(|k| f * row[k] + c * z[k]);
        let rows: [[f64; 3]; 3] = [along(to.fx, x, to.cx), along(to.fy, y, to.cy), z];
        let offset = [to.fx * t[0] + to.cx * t[2], to.fy * t[1] + to.cy * t[2], t[2]];
        // ... and by the inverse intrinsics of the view from the right.
        let from_pixel = rows.map(|[x, y, z]| {
            let (x, y) = (x / camera.fx, y / camera.fy);
            [x, y, z - x * camera.cx - y * camera.cy].map(|v| v as f32)
        });
        let size = [to.width as f32, to.height as f32];
        Self { depths: &map.depths, size, from_pixel, offset: offset.map(|v| v as f32) }
    }

    /// Whether the point at `depth` of a pixel is on the surface that this view sees.
    fn confirms(&self, [u, v]: [f32; 2], depth: f32) -> bool {
        let axis = |k: usize| {
            let [x, y, z] = self.from_pixel[k];
            (x * u + y * v + z) * depth + self.offset[k]
        };
        let z = axis(2);
        if z.is_nan() || z <= 0.0 {
            return false;
        }
        let inverse = 1.0 / z;
        let (u, v) = (axis(0) * inverse, axis(1) * inverse);
        let [width, height] = self.size;
        // These comparisons are false for NaN.
        if !(u >= 0.0 && u < width && v >= 0.0 && v < height) {
            return false;
        }
        let seen = self.depths[v as usize * width as usize + u as usize];
        (seen - z).abs() <= TOLERANCE * z
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A camera at `x` that looks along +z.
    fn pose(x: f64) -> Pose {
        Pose { translation: [-x, 0.0, 0.0], ..Pose::IDENTITY }
    }

    /// A map of 20x10 px that sees a wall at this depth.
    fn map(depth: f32) -> DepthMap {
        let camera = Camera::new(20, 10, 20.0, 20.0, 10.0, 5.0).unwrap();
        DepthMap { index: 0, camera, depths: vec![depth; 200] }
    }

    #[test]
    fn a_point_is_confirmed_where_it_lands_on_a_surface_of_the_same_depth() {
        let camera = Camera::new(40, 20, 40.0, 40.0, 20.0, 10.0).unwrap();
        let wall = map(4.0);
        let witness = ConfirmingView::new((&camera, &pose(0.0)), &wall, &pose(1.0));
        let middle = [20.0, 10.0];
        assert!(
            witness.confirms(middle, 4.0) && witness.confirms(middle, 4.3) && witness.confirms(middle, 3.7)
        );
        assert!(!witness.confirms(middle, 4.5) && !witness.confirms(middle, 3.6));
        assert!(!witness.confirms(middle, f32::NAN) && !witness.confirms(middle, -4.0));
        // The left edge at depth 4 is 2 units left of the axis, 3 from the other camera, which sees 2.
        assert!(!witness.confirms([0.5, 10.0], 4.0));
        // From the other side it is 1 unit away.
        assert!(ConfirmingView::new((&camera, &pose(0.0)), &wall, &pose(-1.0)).confirms([0.5, 10.0], 4.0));
        let hole = map(f32::NAN);
        assert!(!ConfirmingView::new((&camera, &pose(0.0)), &hole, &pose(1.0)).confirms(middle, 4.0));
        // From behind, the wall is behind the camera.
        let back = Pose { rotation: [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]], ..pose(0.0) };
        assert!(!ConfirmingView::new((&camera, &pose(0.0)), &wall, &back).confirms(middle, 4.0));
    }

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
