//! Converts the sky of a run to splats, for files: a distant sphere that every viewer can draw.
//!
//! [`SPLAT_COUNT`] round splats on a Fibonacci sphere (González 2010) around the training cameras, each with the colour of
//! the sky in its direction as seen from the centre. Cameras are at most a thirtieth of the radius away from the
//! centre, so the colours appear rotated by at most two degrees; a sky of degree 2 hardly changes over that angle.

use gausset_core::engine::SKY_VALUES;
use gausset_core::sh::{C0, basis};
use gausset_core::splats::opacity;
use gausset_core::{Pose, Splats, se3};

/// Number of splats of a sky.
pub const SPLAT_COUNT: usize = 4000;

/// Standard deviation in neighbour distances, `sqrt(4π / SPLAT_COUNT)` radii. At 0.9 a thousandth of the background shines
/// through (even with more opacity); at 1.2 the image is blurrier: twice the error of a strong sky.
const SPREAD: f64 = 1.0;
/// Opacity of a sky splat. A renderer leaves out the splat after which less than 1e-4 of the light would remain, so at
/// most `1e-4 / (1 - opacity)` is left.
const OPACITY: f64 = 0.85;
/// Minimum radius in scene extents.
const MIN_RADIUS: f64 = 30.0;
/// Radius relative to the distance of the farthest relevant splat. Splats are sorted by depth along the optical axis,
/// which varies within a splat of the sky.
const RADIUS_FACTOR: f64 = 1.5;
/// Maximum solid angle in steradians that all splats behind the sky may cover together: some always drift off, to
/// thousands of extents, and viewers limit the drawing distance. In an image of 60 degrees it is a thousandth.
const MAX_HIDDEN_SOLID_ANGLE: f64 = 1e-3;
/// Maximum radius in scene extents.
const MAX_RADIUS: f64 = 1000.0;
/// Logit of the opacity 1/255, below which a splat is not drawn.
const INVISIBLE_LOGIT: f32 = -5.54;

/// Appends a sky to the splats of a scene. `sky` holds its coefficients (`[coefficient][channel]`, degree 2), `cameras`
/// the views of the scene, and `extent` its size in scene units.
pub fn append(splats: &mut Splats, sky: &[f32], cameras: &[Pose], extent: f64) {
    let mut surroundings = Surroundings::new(cameras, extent);
    surroundings.add(splats);
    surroundings.append_sky(splats, sky);
}

/// What lies far away from the cameras of a scene: its sky is behind that.
#[derive(Debug)]
pub(crate) struct Surroundings {
    centre: [f64; 3],
    extent: f64,
    /// Distance of each splat that may matter, and the solid angle that it covers.
    far: Vec<(f64, f64)>,
}

impl Surroundings {
    /// Empty surroundings of the views of a scene of size `extent`.
    pub(crate) fn new(cameras: &[Pose], extent: f64) -> Self {
        Self { centre: mean(cameras), extent, far: Vec::new() }
    }

    /// Adds splats of the scene.
    pub(crate) fn add(&mut self, splats: &Splats) {
        for i in 0..splats.len() {
            let distance = se3::distance(splats.means[i].map(f64::from), self.centre);
            // Nearer ones are inside the smallest sky.
            let matters = RADIUS_FACTOR * distance > MIN_RADIUS * self.extent;
            if matters && splats.is_valid(i) && splats.opacity_logits[i] > INVISIBLE_LOGIT {
                self.far.push((distance, solid_angle(splats, i, distance)));
            }
        }
    }

    /// Appends a sky with these coefficients.
    pub(crate) fn append_sky(self, splats: &mut Splats, sky: &[f32]) {
        let centre = self.centre;
        append_sphere(splats, sky, centre, self.radius());
    }

    /// Radius beyond all splats that matter.
    fn radius(mut self) -> f64 {
        // Equal distances in the order of the splats.
        self.far.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut hidden = 0.0;
        let first_that_matters = self.far.iter().find(|(_, solid_angle)| {
            hidden += solid_angle;
            hidden > MAX_HIDDEN_SOLID_ANGLE
        });
        let farthest = first_that_matters.map_or(0.0, |&(distance, _)| distance);
        (RADIUS_FACTOR * farthest).max(MIN_RADIUS * self.extent).min(MAX_RADIUS * self.extent)
    }
}

/// Appends a sky on a sphere.
fn append_sphere(splats: &mut Splats, sky: &[f32], centre: [f64; 3], radius: f64) {
    let neighbours = radius * (4.0 * std::f64::consts::PI / SPLAT_COUNT as f64).sqrt();
    let log_scale = libm::log(SPREAD * neighbours) as f32;
    let logit = libm::log(OPACITY / (1.0 - OPACITY)) as f32;
    let mut sh = vec![0.0; splats.sh_stride()];
    for index in 0..SPLAT_COUNT {
        let direction = direction(index);
        let position = std::array::from_fn(|k| (centre[k] + radius * direction[k]) as f32);
        for (channel, value) in colour(sky, direction).into_iter().enumerate() {
            sh[channel] = ((value - 0.5) / C0) as f32;
        }
        splats.push(position, [log_scale; 3], [1.0, 0.0, 0.0, 0.0], logit, &sh);
    }
}

/// `max(0, 0.5 + Σ_k c_k Y_k(d))` per channel for a unit direction, with the coefficients up to degree 2.
///
/// ```
/// use gausset_core::engine::SKY_VALUES;
///
/// // Without coefficients, the sky is grey in every direction.
/// assert_eq!(gausset_train::sky::colour(&[0.0; SKY_VALUES], [0.0, 0.0, 1.0]), [0.5; 3]);
/// ```
#[must_use]
pub fn colour(sky: &[f32], direction: [f64; 3]) -> [f64; 3] {
    let basis = basis(direction);
    std::array::from_fn(|channel| {
        let terms = (0..SKY_VALUES / 3).zip(sky.iter().skip(channel).step_by(3));
        let sum: f64 = terms.map(|(k, &c)| f64::from(c) * basis[k]).sum();
        (0.5 + sum).max(0.0)
    })
}

/// The direction of a splat: heights evenly spaced, rotated by the golden angle each.
fn direction(index: usize) -> [f64; 3] {
    let golden_angle = std::f64::consts::PI * (3.0 - 5f64.sqrt());
    let height = 1.0 - (2 * index + 1) as f64 / SPLAT_COUNT as f64;
    let (sine, cosine) = libm::sincos(golden_angle * index as f64);
    let across = (1.0 - height * height).sqrt();
    [across * cosine, across * sine, height]
}

/// The mean position of cameras; the origin without any.
fn mean(cameras: &[Pose]) -> [f64; 3] {
    let count = cameras.len().max(1) as f64;
    std::array::from_fn(|k| cameras.iter().map(|pose| pose.centre()[k]).sum::<f64>() / count)
}

/// Maximum solid angle that a splat covers from that distance: its opacity times `2π` of its two larger standard
/// deviations.
fn solid_angle(splats: &Splats, i: usize, distance: f64) -> f64 {
    let opacity = opacity(splats.opacity_logits[i]);
    let mut log_scales = splats.log_scales[i].map(f64::from);
    log_scales.sort_by(f64::total_cmp);
    let area = std::f64::consts::TAU * libm::exp(log_scales[1] + log_scales[2]);
    opacity * area / (distance * distance).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sphere_is_even_and_behind_what_can_be_seen() {
        let mut splats = Splats::with_capacity(1, 4);
        let quat = [1.0, 0.0, 0.0, 0.0];
        splats.push([100.0, 0.0, 0.0], [2.0; 3], quat, 0.0, &[0.0; 12]);
        // Splats that are invisible, or that drifted off and appear small, do not enlarge the sky.
        splats.push([0.0, 1e5, 0.0], [9.0; 3], quat, -8.0, &[0.0; 12]);
        splats.push([0.0, 1e5, 0.0], [2.0; 3], quat, 8.0, &[0.0; 12]);
        splats.push([f32::NAN; 3], [0.0; 3], quat, 0.0, &[0.0; 12]);
        let cameras = [Pose { translation: [-2.0, 0.0, 0.0], ..Pose::IDENTITY }, Pose::IDENTITY];
        let mut sky = [0.0; SKY_VALUES];
        (sky[0], sky[7]) = (1.0, 0.5);
        append(&mut splats, &sky, &cameras, 2.0);
        assert_eq!(splats.len(), 4 + SPLAT_COUNT);
        assert_eq!(splats.validate(), Ok(()));
        let centre = [1.0, 0.0, 0.0];
        for i in 4..splats.len() {
            let away: [f64; 3] = std::array::from_fn(|k| f64::from(splats.means[i][k]) - centre[k]);
            // One and a half times the distance of 99 of the farthest relevant splat, more than thirty extents.
            assert!((se3::norm(away) - 148.5).abs() < 1e-4);
            let expected = colour(&sky, away.map(|v| v / se3::norm(away)));
            for (k, expected) in expected.into_iter().enumerate() {
                let found = 0.5 + C0 * f64::from(splats.sh_coefficients(i)[k]);
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
            assert_eq!(splats.sh_coefficients(i)[3..], [0.0; 9]);
        }
        let around = |splats: &Splats| {
            let mut surroundings = Surroundings { centre, ..Surroundings::new(&[], 2.0) };
            surroundings.add(splats);
            surroundings.radius()
        };
        assert_eq!(around(&Splats::zeros(0, 0)), 60.0);
        // The radius is limited.
        (splats.means[0][0], splats.log_scales[0]) = (1e9, [20.0; 3]);
        assert_eq!(around(&splats), 2000.0);
        // No two are closer than half of the distance of neighbours.
        let nearest = (1..SPLAT_COUNT).map(|i| se3::distance(direction(i), direction(0)));
        assert!(
            nearest.fold(f64::MAX, f64::min) > 0.5 * (4.0 * std::f64::consts::PI / SPLAT_COUNT as f64).sqrt()
        );
    }
}
