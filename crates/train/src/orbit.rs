//! Camera orbits: closed camera paths around a scene.
//!
//! The orbit is derived from the cameras of the scene's dataset, or, for a bare splat file, from the splats.

use gausset_core::camera::CameraError;
use gausset_core::matrix::{self, rotation_from_quaternion};
use gausset_core::se3;
use gausset_core::splats_transform::Similarity;
use gausset_core::statistics::upper_median;
use gausset_core::{Camera, Pose, Splats};
use gausset_io::dataset::Dataset;
use gausset_io::dataset::init::common_cube;

use crate::cameras::{NamedCamera, dataset_cameras};
use crate::option_values::{Split, Up};
use crate::up;

/// Minimum length of the mean viewing direction for cameras that count as facing one way.
const FACING_THRESHOLD: f64 = 0.7;

/// Image size of an orbit around splats without a dataset, in px.
const DEFAULT_SIZE: [u32; 2] = [1280, 720];
/// Vertical field of view in degrees without a dataset: that of a normal lens.
const DEFAULT_FOV: f64 = 50.0;
/// Splats with a lower opacity logit do not determine the location of the scene, if there are others.
const FAINT_LOGIT: f32 = -2.2;
/// Radius that an orbit should show, in median distances of the splats from their centre: all of an object whose splats
/// are on its surface, but not the sky of a landscape.
const RADIUS_IN_MEDIANS: f64 = 1.5;
/// Fraction of the splats that the first view of a file leaves out at least: stray ones. Up to ten times as many are, as
/// far as they are apart from the others.
const HOME_STRAY: f64 = 0.002;
/// Largest gap between splats of an object, and largest reach of those that may be stray, in distances of the other
/// outermost splats from the median. The head of a guitar is 2 % of its splats and reaches to 1.3 times the others.
const MAX_GAP: f64 = 0.1;
const MAX_REACH: f64 = 2.0;
/// Extent of a splat, in standard deviations.
const HOME_EXTENT: f64 = 2.0;
/// Fraction of the frame that they fill.
const HOME_FILL: f64 = 0.95;
/// Sides from which an orbit looks whether all is shown, and how much farther than by the median distance it may be for that:
/// splats that reach farther are a landscape.
const SIDES_LOOKED_AT: usize = 8;
const MAX_OBJECT: f64 = 2.2;
/// Sine of the elevation of an orbit around splats (20 degrees).
const ELEVATION_SINE: f64 = 0.342;

/// Image size and field of view of an orbit; unset values are those of the dataset, or defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImageShape {
    /// Width in px.
    pub width: Option<u32>,
    /// Height in px.
    pub height: Option<u32>,
    /// Vertical field of view in degrees.
    pub vertical_fov: Option<f64>,
}

impl ImageShape {
    /// Applies this shape to `camera`; everything else is kept. A size given by one side keeps the aspect ratio, and a
    /// new size keeps the vertical field of view.
    ///
    /// # Errors
    /// A size or field of view that is invalid for a camera.
    pub fn apply_to(&self, camera: &Camera) -> Result<Camera, CameraError> {
        if *self == Self::default() {
            return Ok(*camera);
        }
        let (old_width, old_height) = (f64::from(camera.width), f64::from(camera.height));
        // Even, for video.
        let side = |value: f64| (2.0 * (0.5 * value).round()).clamp(1.0, f64::from(Camera::MAX_SIDE)) as u32;
        let [width, height] = match (self.width, self.height) {
            (Some(width), Some(height)) => [width, height],
            (Some(width), None) => [width, side(old_height * f64::from(width) / old_width)],
            (None, Some(height)) => [side(old_width * f64::from(height) / old_height), height],
            (None, None) => [camera.width, camera.height],
        };
        if !camera.is_pinhole() {
            return Ok(camera.resized(width, height));
        }
        let scale = f64::from(height) / old_height;
        let (fx, fy) = match self.vertical_fov {
            Some(degrees) => {
                let focal = 0.5 * f64::from(height) / libm::tan(0.5 * degrees.to_radians());
                (focal, focal)
            }
            None => (camera.fx * scale, camera.fy * scale),
        };
        let cx = camera.cx / old_width * f64::from(width);
        let cy = camera.cy / old_height * f64::from(height);
        Camera::new(width, height, fx, fy, cx, cy)
    }
}

/// `frames` cameras on a closed path around the scene of a dataset, with the intrinsics of its first training camera.
///
/// If the training cameras look inwards, the path is a circle around the point that they look at, at their mean
/// distance and height. If they all face one way (a facade, the ground), it is a small circle around their mean
/// position, so that nothing is seen from behind. `up` is the up direction of the splats, that of the cameras if unknown.
///
/// # Errors
/// A shape that is invalid for a camera. Returns no cameras if the dataset has no training images.
pub fn orbit_dataset(
    dataset: &Dataset,
    frames: usize,
    splats_from_dataset: &Similarity,
    up: Option<[f32; 3]>,
    shape: &ImageShape,
) -> Result<Vec<NamedCamera>, CameraError> {
    let training = dataset_cameras(dataset, Split::Train, splats_from_dataset);
    let Some(first) = training.first() else { return Ok(Vec::new()) };
    let [width, height] = [first.camera.width, first.camera.height].map(|side| side.max(2) & !1);
    let even = ImageShape { width: Some(width), height: Some(height), vertical_fov: None };
    let camera = shape.apply_to(&even.apply_to(&first.camera)?)?;
    let poses: Vec<Pose> = training.iter().map(|c| c.pose).collect();
    let of_dataset = || {
        let up = up::direction_of(Up::Auto, dataset)?;
        Some(se3::mul_vec(&splats_from_dataset.rotation, up))
    };
    let up = up.and_then(|up| unit(up.map(f64::from))).or_else(of_dataset).unwrap_or(up::SAVED_UP);
    let centre = common_cube(&poses, splats_from_dataset.scale * dataset.scene_extent).centre;
    let offsets: Vec<[f64; 3]> = poses.iter().map(|pose| se3::sub(pose.centre(), centre)).collect();
    let facing = mean(&poses.iter().map(|pose| pose.rotation[2]).collect::<Vec<_>>());
    let circle = if se3::norm(facing) > FACING_THRESHOLD {
        let middle = mean(&offsets);
        let spread = offsets.iter().map(|&offset| se3::distance(offset, middle)).sum::<f64>();
        Circle::around(middle, facing, up, 0.5 * spread / offsets.len() as f64)
    } else {
        let heights = offsets.iter().map(|&offset| se3::dot(offset, up)).sum::<f64>();
        let radius = offsets.iter().map(|&offset| se3::norm(perpendicular_part(offset, up))).sum::<f64>();
        let count = offsets.len() as f64;
        let middle = up.map(|v| v * heights / count);
        Circle::around(middle, up, perpendicular_part(offsets[0], up), radius / count)
    };
    Ok(circle.cameras(frames, centre, up, &camera))
}

/// `frames` cameras on a circle around splats, a little above their centre and far enough away to show most of them.
///
/// The centre is the median of the positions, and the size follows from the median distance to it, so some splats far
/// away, such as a sky, do not matter. Of an object whose ends would be cut off, all is shown from every side. `up` is the up
/// direction, -y if unknown.
///
/// # Errors
/// A shape that is invalid for a camera. Returns no cameras if there are no splats.
pub fn orbit_splats(
    splats: &Splats,
    frames: usize,
    up: Option<[f32; 3]>,
    shape: &ImageShape,
) -> Result<Vec<NamedCamera>, CameraError> {
    let Some(mut orbit) = SplatOrbit::by_medians(splats, up, shape)? else { return Ok(Vec::new()) };
    let centre = middle_of(orbit.seen.iter().map(|&i| splats.means[i].map(f64::from)));
    let whole = SplatOrbit { centre, ..orbit.clone() };
    let sides = whole.cameras(SIDES_LOOKED_AT);
    let needed = sides.iter().map(|side| whole.distance_for(splats, &side.pose)).fold(0.0, f64::max);
    if needed > orbit.away && needed < MAX_OBJECT * orbit.away {
        orbit = SplatOrbit { away: needed, ..whole };
    }
    Ok(orbit.cameras(frames))
}

/// A circle of cameras around splats, a little above their centre.
#[derive(Clone)]
struct SplatOrbit {
    /// The splats that determine it.
    seen: Vec<usize>,
    centre: [f64; 3],
    up: [f64; 3],
    camera: Camera,
    /// Distance from the centre.
    away: f64,
}

impl SplatOrbit {
    /// `None` if there are no splats.
    fn by_medians(
        splats: &Splats,
        up: Option<[f32; 3]>,
        shape: &ImageShape,
    ) -> Result<Option<Self>, CameraError> {
        let up = up.and_then(|up| unit(up.map(f64::from))).unwrap_or(up::SAVED_UP);
        let usable = || (0..splats.len()).filter(|&i| splats.is_valid(i));
        let mut seen: Vec<usize> = usable().filter(|&i| splats.opacity_logits[i] >= FAINT_LOGIT).collect();
        if seen.is_empty() {
            seen = usable().collect();
        }
        if seen.is_empty() {
            return Ok(None);
        }
        let position = |i: usize| splats.means[i].map(f64::from);
        let centre = std::array::from_fn(|k| {
            upper_median(seen.iter().map(|&i| position(i)[k]).collect()).unwrap_or(0.0)
        });
        let distance =
            upper_median(seen.iter().map(|&i| se3::distance(position(i), centre)).collect()).unwrap_or(0.0);
        let radius = RADIUS_IN_MEDIANS * if distance > 0.0 { distance } else { 1.0 };

        let [width, height] = DEFAULT_SIZE.map(f64::from);
        let focal = 0.5 * height / libm::tan(0.5 * DEFAULT_FOV.to_radians());
        let [width_px, height_px] = DEFAULT_SIZE;
        let usual = Camera::new(width_px, height_px, focal, focal, 0.5 * width, 0.5 * height)?;
        let camera = shape.apply_to(&usual)?;
        // The narrower of the two half angles must contain the ball.
        let half_side = f64::from(camera.width).min(f64::from(camera.height)) / 2.0;
        let sine = half_side / libm::hypot(half_side, camera.fx.max(camera.fy));
        Ok(Some(Self { seen, centre, up, camera, away: radius / sine }))
    }

    fn cameras(&self, frames: usize) -> Vec<NamedCamera> {
        let middle = self.up.map(|v| v * self.away * ELEVATION_SINE);
        let across = self.away * (1.0 - ELEVATION_SINE * ELEVATION_SINE).sqrt();
        let circle = Circle::around(middle, self.up, any_perpendicular(self.up), across);
        circle.cameras(frames, self.centre, self.up, &self.camera)
    }

    /// Distance from the centre at which a camera with the rotation of `pose` shows all but stray splats.
    fn distance_for(&self, splats: &Splats, pose: &Pose) -> f64 {
        let Camera { width, height, fx, fy, .. } = self.camera;
        let tangents = [f64::from(width) / fx, f64::from(height) / fy].map(|side| HOME_FILL * 0.5 * side);
        let needed = self.seen.iter().map(|&i| {
            let offset = se3::sub(splats.means[i].map(f64::from), self.centre);
            let [x, y, z] = se3::mul_vec(&pose.rotation, offset);
            let [width, height] = extent_in_camera(splats, i, pose);
            ((x.abs() + width) / tangents[0]).max((y.abs() + height) / tangents[1]) - z
        });
        outermost(needed.collect(), HOME_STRAY)
    }
}

/// Middle of positions along each axis, without stray ones at both ends.
fn middle_of(positions: impl Iterator<Item = [f64; 3]>) -> [f64; 3] {
    let positions: Vec<[f64; 3]> = positions.collect();
    std::array::from_fn(|k| {
        let along = |sign: f64| positions.iter().map(|position| sign * position[k]).collect();
        let [low, high] = [-1.0, 1.0].map(|sign| sign * outermost(along(sign), 0.5 * HOME_STRAY));
        0.5 * (low + high)
    })
}

/// The first view of splats without a dataset, and their size.
#[derive(Clone, Debug, PartialEq)]
pub struct HomeView {
    /// Looks at the middle of the splats from a little above. All but stray ones are within the square in the middle of
    /// its image.
    pub camera: NamedCamera,
    /// Middle of the splats along each axis, without stray ones at both ends.
    pub centre: [f64; 3],
    /// Median distance of the splats from this point, scene units; 1 if it is zero.
    pub radius: f64,
}

/// Where to look at splats from, without a dataset. `splats` are those of the scene, without its sky; `up` is the up
/// direction, -y if unknown. `None` if there are no splats.
#[must_use]
pub fn home_view(splats: &Splats, up: Option<[f32; 3]>) -> Option<HomeView> {
    let orbit = SplatOrbit::by_medians(splats, up, &ImageShape::default()).ok()??;
    let NamedCamera { name, camera, pose } = orbit.cameras(1).into_iter().next()?;
    let usable: Vec<usize> = (0..splats.len()).filter(|&i| splats.is_valid(i)).collect();
    let positions: Vec<[f64; 3]> = usable.iter().map(|&i| splats.means[i].map(f64::from)).collect();
    let centre = middle_of(positions.iter().copied());
    let tangent = HOME_FILL * 0.5 * f64::from(camera.height) / camera.fy;
    // The distance at which a splat touches the edge of the square.
    let needed = usable.iter().zip(&positions).map(|(&i, &position)| {
        let [x, y, z] = se3::mul_vec(&pose.rotation, se3::sub(position, centre));
        let [width, height] = extent_in_camera(splats, i, &pose);
        (x.abs() + width).max(y.abs() + height) / tangent - z
    });
    let median = upper_median(positions.iter().map(|&p| se3::distance(p, centre)).collect()).unwrap_or(0.0);
    let radius = if median > 0.0 { median } else { 1.0 };
    let distance = outermost(needed.collect(), HOME_STRAY).max(radius);
    let seen = se3::mul_vec(&pose.rotation, centre);
    let translation = [-seen[0], -seen[1], distance - seen[2]];
    let camera = NamedCamera { name, camera, pose: Pose { translation, ..pose } };
    Some(HomeView { camera, centre, radius })
}

/// Half the width and height of a splat in a camera far away, scene units.
fn extent_in_camera(splats: &Splats, i: usize, pose: &Pose) -> [f64; 2] {
    let axes = matrix::mul(&pose.rotation, &rotation_from_quaternion(splats.quats[i].map(f64::from)));
    let scales = splats.log_scales[i].map(|log_scale| libm::exp(f64::from(log_scale)));
    std::array::from_fn(|row| HOME_EXTENT * se3::norm(std::array::from_fn(|k| axes[row][k] * scales[k])))
}

/// The largest value that is not stray; 0 of no values. The fraction `stray` is; up to ten times as many are from the
/// first gap on, or all of them where they reach far.
fn outermost(mut values: Vec<f64>, stray: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let place =
        |fraction: f64| ((fraction * values.len() as f64).ceil().max(1.0) as usize).min(values.len()) - 1;
    if values.is_empty() {
        return 0.0;
    }
    let (inner, outer) = (place(1.0 - 10.0 * stray), place(1.0 - stray));
    let (safe, median) = (values[inner], values[place(0.5)]);
    let width = safe - median;
    let beyond = values[inner..=outer].windows(2).take_while(|pair| pair[1] - pair[0] <= MAX_GAP * width);
    let found = beyond.last().map_or(safe, |pair| pair[1]);
    if found - median > MAX_REACH * width { safe } else { found }
}

/// A circle in space.
struct Circle {
    middle: [f64; 3],
    axes: [[f64; 3]; 2],
    radius: f64,
}

impl Circle {
    /// The circle around `middle` in the plane perpendicular to `axis`, starting towards `start`.
    fn around(middle: [f64; 3], axis: [f64; 3], start: [f64; 3], radius: f64) -> Self {
        let axis = unit(axis).unwrap_or(up::SAVED_UP);
        let first = unit(perpendicular_part(start, axis)).unwrap_or_else(|| any_perpendicular(axis));
        Self { middle, axes: [first, se3::cross(axis, first)], radius }
    }

    /// Cameras along the circle around `centre` that look at it.
    fn cameras(&self, frames: usize, centre: [f64; 3], up: [f64; 3], camera: &Camera) -> Vec<NamedCamera> {
        (0..frames)
            .map(|frame| {
                let offset = self.at(frame as f64 / frames as f64);
                let position = std::array::from_fn(|k| centre[k] + offset[k]);
                let name = format!("orbit_{frame:04}").into();
                NamedCamera { name, camera: *camera, pose: look_at(position, centre, up) }
            })
            .collect()
    }

    /// The point after a fraction of the circle.
    fn at(&self, share: f64) -> [f64; 3] {
        let angle = std::f64::consts::TAU * share;
        let (sin, cos) = (self.radius * libm::sin(angle), self.radius * libm::cos(angle));
        std::array::from_fn(|k| self.middle[k] + cos * self.axes[0][k] + sin * self.axes[1][k])
    }
}

/// The pose of a camera at `position` that looks at `target`, with `up` upwards in its image.
///
/// ```
/// use gausset_train::orbit::look_at;
///
/// let pose = look_at([0.0, 0.0, -4.0], [0.0; 3], [0.0, -1.0, 0.0]);
/// assert_eq!(pose.centre(), [0.0, 0.0, -4.0]);
/// assert_eq!(pose.apply([0.0; 3]), [0.0, 0.0, 4.0]);
/// ```
#[must_use]
pub fn look_at(position: [f64; 3], target: [f64; 3], up: [f64; 3]) -> Pose {
    let forward = unit(se3::sub(target, position)).unwrap_or([0.0, 0.0, 1.0]);
    let right = unit(se3::cross(forward, up)).unwrap_or_else(|| any_perpendicular(forward));
    let down = se3::cross(forward, right);
    let rotation = [right, down, forward];
    Pose { rotation, translation: se3::mul_vec(&rotation, position).map(|v| -v) }
}

fn mean(vectors: &[[f64; 3]]) -> [f64; 3] {
    std::array::from_fn(|k| vectors.iter().map(|v| v[k]).sum::<f64>() / vectors.len().max(1) as f64)
}

/// The component of a vector perpendicular to a unit axis.
fn perpendicular_part(v: [f64; 3], axis: [f64; 3]) -> [f64; 3] {
    let along = se3::dot(v, axis);
    std::array::from_fn(|k| v[k] - along * axis[k])
}

fn unit(v: [f64; 3]) -> Option<[f64; 3]> {
    let length = se3::norm(v);
    (length > 1e-9).then(|| v.map(|x| x / length))
}

/// Some unit vector perpendicular to a unit vector.
fn any_perpendicular(axis: [f64; 3]) -> [f64; 3] {
    let other = if axis[0].abs() < 0.9 { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] };
    unit(perpendicular_part(other, axis)).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: [f64; 3], b: [f64; 3]) -> bool {
        (0..3).all(|k| (a[k] - b[k]).abs() < 1e-9)
    }

    #[test]
    fn a_camera_that_looks_at_a_point_sees_it_in_the_middle_with_up_above() {
        let (position, target, up) = ([3.0, -1.0, 2.0], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]);
        let pose = look_at(position, target, up);
        assert!(close(pose.centre(), position));
        let seen = pose.apply(target);
        assert!(seen[0].abs() < 1e-12 && seen[1].abs() < 1e-12 && seen[2] > 0.0);
        // A point above the target is higher in the image: smaller y.
        assert!(pose.apply([0.5, 0.0, 0.1])[1] < 0.0);
        assert!(se3::determinant(&pose.rotation) > 0.999);
        // Looking straight down there is no unique up; any will do.
        let down = look_at([0.0, 0.0, 5.0], [0.0; 3], up);
        assert!(close(down.apply([0.0; 3]), [0.0, 0.0, 5.0]));
    }

    /// Splats on a ball of radius 1 around `centre`, and a tenth as many a thousand times as far away.
    fn ball(centre: [f32; 3]) -> Splats {
        let mut splats = Splats::with_capacity(0, 110);
        for k in 0..110 {
            let (turn, height) = (0.7 * k as f32, (k % 100) as f32 / 50.0 - 1.0);
            let across = (1.0 - height * height).max(0.0).sqrt();
            let far = if k < 100 { 1.0 } else { 1000.0 };
            let direction = [across * turn.cos(), height, across * turn.sin()];
            let mean = std::array::from_fn(|axis| centre[axis] + far * direction[axis]);
            splats.push(mean, [-3.0; 3], [1.0, 0.0, 0.0, 0.0], 2.0, &[0.0; 3]);
        }
        splats
    }

    #[test]
    fn an_orbit_around_splats_shows_all_of_an_object_and_does_not_care_about_some_far_away() {
        let centre = [5.0, -2.0, 7.0];
        let splats = ball(centre);
        let cameras = orbit_splats(&splats, 12, None, &ImageShape::default()).unwrap();
        assert_eq!(cameras.len(), 12);
        for NamedCamera { camera, pose, .. } in &cameras {
            assert_eq!((camera.width, camera.height), (1280, 720));
            // Up is -y, and the cameras are above the middle.
            assert!(pose.centre()[1] < -2.0);
            for mean in &splats.means[..100] {
                let point = pose.apply(mean.map(f64::from));
                let [x, y] = camera.project(point);
                assert!(point[2] > 0.0 && (0.0..1280.0).contains(&x) && (0.0..720.0).contains(&y), "{x} {y}");
            }
            // Not from so far that there would be little to see: the ball fills a third of the height.
            let distance = se3::distance(pose.centre(), centre.map(f64::from));
            assert!(2.0 * camera.fy / distance > 240.0, "{distance}");
        }
    }

    #[test]
    fn an_orbit_shows_both_ends_of_a_tall_object() {
        let mut statue = Splats::with_capacity(0, 1000);
        for k in 0..1000 {
            let (x, y) = (0.05 * (k % 9) as f32, 10.0 * k as f32 / 999.0);
            statue.push([x, y, 0.0], [-4.0; 3], [1.0, 0.0, 0.0, 0.0], 2.0, &[0.0; 3]);
        }
        for NamedCamera { camera, pose, .. } in
            orbit_splats(&statue, 12, None, &ImageShape::default()).unwrap()
        {
            let row = |y: f64| camera.project(pose.apply([0.2, y, 0.0]))[1];
            assert!(row(0.0) > 0.0 && row(10.0) < 720.0, "{} {}", row(0.0), row(10.0));
            assert!(row(10.0) - row(0.0) > 500.0, "fills the frame");
        }
    }

    #[test]
    fn the_first_view_of_a_file_shows_all_but_stray_splats_in_a_square_and_fills_it() {
        // A long thing with its weight at one end, and one splat in a hundred far away.
        let mut long = Splats::with_capacity(0, 1000);
        for k in 0..1000 {
            let t = k as f32 / 1000.0;
            let x = if k % 100 == 7 { 900.0 } else { 8.0 * t.powi(3) };
            long.push([x, 0.2 * (40.0 * t).sin(), 0.1 * t], [-3.0; 3], [1.0, 0.0, 0.0, 0.0], -4.0, &[0.0; 3]);
        }
        for (splats, up) in
            [(long.clone(), None), (long, Some([1.0, 0.0, 0.0])), (ball([5.0, -2.0, 7.0]), None)]
        {
            let home = home_view(&splats, up).unwrap();
            let NamedCamera { camera, pose, .. } = &home.camera;
            let half = f64::from(camera.height) / 2.0;
            let beside = |mean: &[f32; 3]| {
                let point = pose.apply(mean.map(f64::from));
                let [x, y] = camera.project(point);
                let beside = (x - camera.cx).abs().max((y - camera.cy).abs());
                if point[2] > 0.0 { beside / half } else { f64::INFINITY }
            };
            let within = |reach: f64| splats.means.iter().filter(|mean| beside(mean) <= reach).count();
            let all = splats.len() as f64;
            let shown = if splats.len() == 1000 { 0.988 } else { 0.98 };
            assert!(within(1.0) as f64 >= shown * all, "{} of {all}", within(1.0));
            assert!((within(0.8) as f64) < shown * all, "closer would do");
            let [x, y, _] = pose.apply(home.centre);
            assert!(close([x, y, 0.0], [0.0; 3]), "its middle is in the middle");
        }
        assert_eq!(home_view(&Splats::default(), None), None);
    }

    #[test]
    fn the_first_view_shows_a_thin_end_and_not_stray_splats() {
        // A body, a neck, and a head of the outermost 1.5 % of the splats, with large splats.
        let at = |k: usize| if k < 700 { k as f64 / 700.0 } else { 1.0 + (k - 700) as f64 / 300.0 };
        let mut guitar = Splats::with_capacity(0, 1001);
        for k in 0..1000 {
            let y = if k < 985 { at(k) } else { 2.0 + (k - 985) as f64 / 30.0 };
            guitar.push(
                [0.01 * (k % 7) as f32, y as f32, 0.0],
                [-4.0; 3],
                [1.0, 0.0, 0.0, 0.0],
                2.0,
                &[0.0; 3],
            );
        }
        let row = |splats: &Splats, y: f64| {
            let NamedCamera { camera, pose, .. } = home_view(splats, None).unwrap().camera;
            let [_, row] = camera.project(pose.apply([0.0, y, 0.0]));
            row / f64::from(camera.height)
        };
        let far = 2.0 + 12.0 / 30.0 + 2.0 * 0.018;
        assert!((0.0..=1.0).contains(&row(&guitar, far)) && (0.0..=1.0).contains(&row(&guitar, 0.0)));
        let before = row(&guitar, far);
        guitar.push([0.0, 50.0, 0.0], [-4.0; 3], [1.0, 0.0, 0.0, 0.0], 2.0, &[0.0; 3]);
        assert!((row(&guitar, far) - before).abs() < 0.02, "one stray splat changes nothing");
    }

    #[test]
    fn an_orbit_around_nothing_has_no_cameras_and_one_around_a_single_splat_has_some() {
        let shape = ImageShape::default();
        assert!(orbit_splats(&Splats::default(), 5, None, &shape).unwrap().is_empty());
        let mut one = Splats::with_capacity(0, 1);
        one.push([1.0, 2.0, 3.0], [-3.0; 3], [1.0, 0.0, 0.0, 0.0], -6.0, &[0.0; 3]);
        let cameras = orbit_splats(&one, 3, Some([0.0, 0.0, 2.0]), &shape).unwrap();
        assert!(cameras.iter().all(|c| c.pose.centre()[2] > 3.0), "above, where z is up");
    }

    #[test]
    fn a_picture_shape_keeps_the_field_of_view_of_the_height_and_the_proportions() {
        let camera = Camera::new(200, 100, 80.0, 90.0, 101.0, 49.0).unwrap();
        let shape = |width, height, vertical_fov| ImageShape { width, height, vertical_fov };
        let of = |shape: ImageShape| shape.apply_to(&camera).unwrap();
        assert_eq!(of(ImageShape::default()), camera);
        let half = of(shape(Some(100), None, None));
        assert_eq!((half.width, half.height, half.fx, half.fy), (100, 50, 40.0, 45.0));
        let square = of(shape(Some(100), Some(100), None));
        assert_eq!((square.width, square.height, square.fy, square.cx), (100, 100, 90.0, 50.5));
        let wide = of(shape(None, Some(200), Some(90.0)));
        assert_eq!((wide.width, wide.height), (400, 200));
        assert!((wide.fy - 100.0).abs() < 1e-9 && wide.fx == wide.fy);
        assert!(shape(Some(40_000), None, None).apply_to(&camera).is_err());
    }
}
