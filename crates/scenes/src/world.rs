//! A world of objects under a sky: ray intersection and shading.
//!
//! Light is a sun with soft shadows, the sky dome (a hemisphere of cool light above, warm light from below, dimmed in
//! corners), and one reflection on glossy surfaces. Distances are in scene units, light is linear.

use crate::noise::Noise;
use crate::object_lists::{Candidate, FEW, GridSize, MANY, ObjectGrid};
use crate::shape::{Placement, Shape};
use crate::texture::{Texture, colour};
use crate::vec3::{Vec3, smoothstep, vec3};

/// A solid with a surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Shape of the object.
    pub shape: Shape,
    /// Position and rotation of the object.
    pub placement: Placement,
    /// Reflectance of the object.
    pub texture: Texture,
    /// Fraction of light that is mirrored at normal incidence, 0 = matt (Schlick's F0; glass and glaze: 0.04).
    pub gloss: f64,
    /// Centre of a ball that contains it.
    ball_centre: Vec3,
    /// Radius of that ball.
    ball_radius: f64,
}

/// Objects, light and sky.
#[derive(Clone, Debug)]
pub struct World {
    objects: Vec<Object>,
    noise: Noise,
    sky_radius: f64,
    /// Distances from a surface at which ambient occlusion is probed.
    openness_probes: [f64; 3],
    /// Objects above a position on the xy plane, or below it.
    above: ObjectGrid,
    /// Height that no object exceeds.
    top: f64,
    /// Objects that can block the sun from a point, by the position where the sun's ray through the point crosses z =
    /// 0.
    sun_blockers: ObjectGrid,
    /// Objects that can dim a point by their proximity, by its position on the xy plane.
    near_objects: ObjectGrid,
}

/// Index of the ground in [`World::objects`]; it casts no shadows.
pub const GROUND: usize = 0;

/// A ray; `direction` has length 1.
#[derive(Clone, Copy, Debug)]
pub struct Ray {
    /// Start of the ray in world space.
    pub origin: Vec3,
    /// Unit direction in world space.
    pub direction: Vec3,
}

impl Ray {
    /// The point at a distance.
    #[must_use]
    pub fn at(&self, distance: f64) -> Vec3 {
        self.origin + self.direction * distance
    }
}

/// The first hit of a ray.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// Distance from the origin of the ray.
    pub distance: f64,
    /// Index of the object, `None` = the sky dome.
    pub object: Option<usize>,
}

/// The pixel to which a ray contributes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PixelCone {
    /// Angle of the pixel, radians.
    angle: f64,
    /// Ambient openness of the surface that the pixel shows. It varies little within a pixel, so the value of the first
    /// sample of an object is reused.
    openness: Option<(usize, f64)>,
}

impl PixelCone {
    /// A pixel of this angle in radians.
    pub(crate) const fn new(angle: f64) -> Self {
        Self { angle, openness: None }
    }

    fn get_or_compute(&mut self, object: usize, compute: impl FnOnce() -> f64) -> f64 {
        match self.openness {
            Some((known, open)) if known == object => open,
            _ => self.openness.insert((object, compute())).1,
        }
    }

    /// Size of the pixel on a surface at this distance, whose normal has this cosine to the ray: the mean of both axes
    /// if it is slanted, closer to the longer one.
    fn footprint(&self, distance: f64, cosine: f64) -> f64 {
        distance * self.angle / libm::pow(cosine.clamp(0.01, 1.0), 0.7)
    }
}

/// Sizes in a world, in its units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldScale {
    /// The square in which objects are searched by their place.
    pub(crate) grid: GridSize,
    /// Longest distance at which an object dims the ambient light of another.
    pub(crate) openness: f64,
}

impl WorldScale {
    /// For a table or a room, in units of about half a metre.
    const TABLE: Self = Self { grid: GridSize { half: 5.5, cells: 44 }, openness: OPENNESS_PROBES[2] };
}

/// Distance to a surface at which a ray counts as a hit.
const HIT_DISTANCE: f64 = 1e-4;
/// Maximum number of steps of a ray inside the bounding ball of an object; only grazing rays need more than about 40.
const MAX_STEPS: u32 = 160;
/// Offset along the normal with which secondary rays start.
const SURFACE_OFFSET: f64 = 2e-3;

/// Towards the sun.
const SUN_DIRECTION: [f64; 3] = [-0.46, -0.52, 0.72];
const SUN_LIGHT: Vec3 = vec3(2.70, 2.40, 1.95);
/// Sharpness of shadows: distance to the occluder per width of the penumbra.
const SHADOW_SHARPNESS: f64 = 9.0;
/// Minimum z of a point that the sun can reach: the lower rim of the table.
const MIN_LIT_Z: f64 = -0.3;
/// Distances from a surface at which ambient occlusion is probed on a table.
const OPENNESS_PROBES: [f64; 3] = [0.13, 0.29, 0.52];
const SKY_LIGHT: Vec3 = vec3(0.42, 0.52, 0.68);
const BOUNCE_LIGHT: Vec3 = vec3(0.30, 0.24, 0.19);
/// Exponent of the sun's highlight; low, because the surfaces are not perfectly polished.
const HIGHLIGHT_EXPONENT: u32 = 5;

impl World {
    /// A world of solids, of which the first is the ground, under a sky dome of this radius around the origin.
    #[must_use]
    pub fn new(objects: Vec<Object>, noise: Noise, sky_radius: f64) -> Self {
        Self::with_scale(objects, noise, sky_radius, &WorldScale::TABLE)
    }

    /// A world of another size.
    pub(crate) fn with_scale(
        objects: Vec<Object>,
        noise: Noise,
        sky_radius: f64,
        scale: &WorldScale,
    ) -> Self {
        let openness_probes = OPENNESS_PROBES.map(|reach| reach * (scale.openness / OPENNESS_PROBES[2]));
        let sun = Vec3::from(SUN_DIRECTION).normalised();
        let shadows: Vec<_> = objects.iter().map(|o| o.shadow_disc(sun)).collect();
        let discs = |margin: f64| -> Vec<_> {
            let disc = |o: &Object| ([o.ball_centre.x, o.ball_centre.y], o.ball_radius + margin);
            objects.iter().map(disc).collect()
        };
        let grid = |discs: &[_]| ObjectGrid::from_discs(scale.grid, discs);
        let (sun_blockers, near_objects) = (grid(&shadows), grid(&discs(2.0 * openness_probes[2])));
        let above = grid(&discs(0.0));
        let top = objects.iter().map(Object::top).fold(f64::NEG_INFINITY, f64::max);
        Self { objects, noise, sky_radius, openness_probes, above, top, sun_blockers, near_objects }
    }

    /// The solids; the first is the ground.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Radius of the sky dome around the origin.
    #[must_use]
    pub fn sky_radius(&self) -> f64 {
        self.sky_radius
    }

    /// Centre and radius of a ball around each object.
    pub(crate) fn balls(&self) -> impl ExactSizeIterator<Item = (Vec3, f64)> {
        self.objects.iter().map(|o| (o.ball_centre, o.ball_radius))
    }

    /// The first hit of a ray; the sky dome is behind everything.
    #[must_use]
    pub fn first_hit(&self, ray: &Ray) -> Hit {
        let mut hit = Hit { distance: self.distance_to_sky(ray), object: None };
        if self.objects.len() <= FEW {
            (0..self.objects.len()).for_each(|index| self.nearer_hit(ray, index, &mut hit));
            return hit;
        }
        // A rising ray leaves everything below it.
        let rise = (self.top - ray.origin.z) / ray.direction.z;
        let limit = if ray.direction.z > 0.0 { rise } else { f64::INFINITY };
        self.above.walk(ray, limit, |list| {
            for &index in list {
                self.nearer_hit(ray, index as usize, &mut hit);
            }
            hit.distance
        });
        hit
    }

    fn first_hit_among(&self, ray: &Ray, candidates: &[Candidate]) -> Hit {
        if candidates.len() > MANY && self.objects.len() > FEW {
            return self.first_hit(ray);
        }
        let mut hit = Hit { distance: self.distance_to_sky(ray), object: None };
        for candidate in candidates {
            if candidate.near > hit.distance {
                break;
            }
            self.nearer_hit(ray, candidate.index as usize, &mut hit);
        }
        hit
    }

    /// Replaces a hit by that of an object if it is nearer.
    fn nearer_hit(&self, ray: &Ray, index: usize, hit: &mut Hit) {
        if let Some(distance) = self.objects[index].hit(ray, hit.distance) {
            *hit = Hit { distance, object: Some(index) };
        }
    }

    /// Radiance along a ray.
    #[must_use]
    pub fn radiance(&self, ray: &Ray) -> Vec3 {
        self.pixel_radiance(ray, &self.first_hit(ray), 0.0)
    }

    /// Radiance of a hit for a pixel of this angle in radians.
    pub(crate) fn pixel_radiance(&self, ray: &Ray, hit: &Hit, angle: f64) -> Vec3 {
        self.hit_radiance(ray, hit, Some(&mut PixelCone::new(angle)))
    }

    /// Radiance along a ray of a pixel that can only hit `candidates`.
    pub(crate) fn radiance_among(&self, ray: &Ray, candidates: &[Candidate], pixel: &mut PixelCone) -> Vec3 {
        self.hit_radiance(ray, &self.first_hit_among(ray, candidates), Some(pixel))
    }

    /// Radiance of a hit; with `pixel` for a camera ray, without for a mirrored one.
    fn hit_radiance(&self, ray: &Ray, hit: &Hit, pixel: Option<&mut PixelCone>) -> Vec3 {
        let Some(index) = hit.object else {
            return self.sky(ray.at(hit.distance));
        };
        let object = &self.objects[index];
        let point = ray.at(hit.distance);
        let local = object.placement.point(point);
        let local_normal = object.shape.normal(local);
        let normal = object.placement.to_world(local_normal);
        let footprint = pixel.as_ref().map_or(0.0, |p| p.footprint(hit.distance, -normal.dot(ray.direction)));
        let reflectance = object.texture.at(local, local_normal, footprint, &self.noise);

        let sun_direction = Vec3::from(SUN_DIRECTION).normalised();
        let facing_sun = normal.dot(sun_direction);
        let outside = point + normal * SURFACE_OFFSET;
        let sun = if facing_sun > 0.0 { self.sun_fraction(index, outside, sun_direction) } else { 0.0 };
        let up = 0.5 + 0.5 * normal.z;
        let reflect = pixel.is_some();
        let open = match pixel {
            Some(known) => known.get_or_compute(index, || self.openness(index, point, normal)),
            // Mirrored surfaces are faint, so an average is sufficient.
            None => 0.85,
        };
        let ambient = BOUNCE_LIGHT.lerp(SKY_LIGHT, up) * open;
        let mut light = reflectance.mul_components(SUN_LIGHT * (sun * facing_sun.max(0.0)) + ambient);

        if object.gloss > 0.0 {
            let facing_eye = -normal.dot(ray.direction);
            let mirrored = ray.direction + normal * (2.0 * facing_eye);
            // Schlick 1994: grazing light is mirrored more.
            let grazing = 1.0 - facing_eye.clamp(0.0, 1.0);
            let grazing2 = grazing * grazing;
            let share = object.gloss + (0.55 - object.gloss) * grazing2 * grazing2 * grazing;
            if reflect {
                let bounced = Ray { origin: outside, direction: mirrored };
                let seen = self.hit_radiance(&bounced, &self.first_hit(&bounced), None);
                // Corners receive less light; a bright sky must not reflect in them.
                light = light * (1.0 - share) + seen * (share * (0.4 + 0.6 * open));
            }
            let mut highlight = mirrored.dot(sun_direction).max(0.0);
            for _ in 0..HIGHLIGHT_EXPONENT {
                highlight *= highlight;
            }
            light += SUN_LIGHT * (sun * highlight * (0.25 + 5.0 * object.gloss) * 0.6);
        }
        light
    }

    /// Fraction of the sun's disc that is visible from a point of an object.
    fn sun_fraction(&self, of: usize, point: Vec3, to_sun: Vec3) -> f64 {
        let ray = Ray { origin: point, direction: to_sun };
        let on_plane = ray.at(-point.z / to_sun.z);
        let mut share: f64 = 1.0;
        for index in self.sun_blockers.at(on_plane.x, on_plane.y).iter().map(|&i| i as usize) {
            let object = &self.objects[index];
            if index == GROUND || (index == of && object.shape.is_convex()) {
                continue;
            }
            share = share.min(object.sun_visibility(&ray));
            if share == 0.0 {
                break;
            }
        }
        share
    }

    /// Ambient openness in front of a surface, 1 = nothing near (Evans 2006, "Fast approximations for global
    /// illumination").
    fn openness(&self, of: usize, point: Vec3, normal: Vec3) -> f64 {
        let probes = self.openness_probes;
        let mut nearest = probes;
        for index in self.near_objects.at(point.x, point.y).iter().map(|&i| i as usize) {
            let object = &self.objects[index];
            // An object near a probe is nearer to the point than twice the distance of the probe.
            if (index == of && object.shape.is_convex()) || !object.is_within(point, 2.0 * probes[2]) {
                continue;
            }
            let (point, normal) = (object.placement.point(point), object.placement.direction(normal));
            let from_point = object.shape.distance(point);
            for (nearest, reach) in nearest.iter_mut().zip(probes).filter(|(_, r)| from_point < 2.0 * r) {
                *nearest = nearest.min(object.shape.distance(point + normal * reach));
            }
        }
        let (mut closed, mut weight) = (0.0, 1.0);
        for (nearest, reach) in nearest.into_iter().zip(probes) {
            closed += weight * (reach - nearest) / reach;
            weight *= 0.65;
        }
        // The weights sum to 2.02.
        1.0 - 0.85 * (closed / 2.02).clamp(0.0, 1.0)
    }

    fn distance_to_sky(&self, ray: &Ray) -> f64 {
        let b = ray.origin.dot(ray.direction);
        let c = ray.origin.dot(ray.origin) - self.sky_radius * self.sky_radius;
        // The origin is inside the dome: c < 0.
        -b + (b * b - c).max(0.0).sqrt()
    }

    /// Colour of the dome: haze at the horizon, blue above, sand below, soft clouds.
    fn sky(&self, point: Vec3) -> Vec3 {
        let direction = point * (1.0 / self.sky_radius);
        let height = direction.z;
        let (zenith, haze, nadir) = (colour(0x2C_78C8), colour(0xFA_D8B0), colour(0x46_6A98));
        let clear = if height > 0.0 {
            haze.lerp(zenith, smoothstep(-0.1, 0.6, height))
        } else {
            haze.lerp(nadir, smoothstep(0.1, -0.7, height))
        };
        let cloud = smoothstep(
            -0.15,
            0.65,
            self.noise.octaves(vec3(direction.x, direction.y, 1.6 * height) * 1.7, 2),
        );
        clear.lerp(colour(0xFA_EEDC), 0.34 * cloud) * 1.3
    }
}

impl Object {
    /// An object with these properties.
    #[must_use]
    pub fn new(shape: Shape, placement: Placement, texture: Texture, gloss: f64) -> Self {
        let (rise, ball_radius) = shape.bounding_ball();
        let ball_centre = placement.origin + placement.to_world(vec3(0.0, 0.0, rise));
        Self { shape, placement, texture, gloss, ball_centre, ball_radius }
    }

    /// Height that it does not exceed.
    fn top(&self) -> f64 {
        if self.placement.rotation[2] == [0.0, 0.0, 1.0] {
            self.placement.origin.z + self.shape.height_range()[1]
        } else {
            self.ball_centre.z + self.ball_radius
        }
    }

    /// Distances at which a ray enters and leaves the bounding ball.
    fn enter_bounds(&self, ray: &Ray) -> Option<(f64, f64)> {
        let radius = self.ball_radius;
        let to_centre = self.ball_centre - ray.origin;
        let along = to_centre.dot(ray.direction);
        let inside = radius * radius - (to_centre.dot(to_centre) - along * along);
        if inside < 0.0 {
            return None;
        }
        let half = inside.sqrt();
        (along + half > 0.0).then_some(((along - half).max(0.0), along + half))
    }

    /// Disc on the plane z = 0 outside which rays towards the sun are not shadowed by the object.
    ///
    /// A ray with its closest approach `aside` of the ball, at a distance `along`, loses light when
    /// `aside < radius + (along + radius) / sharpness`; and `along` is at most
    /// `(height of the ball's centre + aside - MIN_LIT_Z) / sun.z`.
    fn shadow_disc(&self, sun: Vec3) -> ([f64; 2], f64) {
        let height = (self.ball_centre.z - MIN_LIT_Z) / sun.z;
        let aside = (self.ball_radius + (height + self.ball_radius) / SHADOW_SHARPNESS)
            / (1.0 - 1.0 / (SHADOW_SHARPNESS * sun.z));
        let centre = self.ball_centre - sun * (self.ball_centre.z / sun.z);
        // A ball casts an elliptic shadow that is elongated by the slant of the light.
        ([centre.x, centre.y], aside / sun.z)
    }

    fn in_shape_axes(&self, ray: &Ray) -> Ray {
        Ray { origin: self.placement.point(ray.origin), direction: self.placement.direction(ray.direction) }
    }

    /// Distance at which a ray hits the object, if it is less than `limit`.
    fn hit(&self, ray: &Ray, limit: f64) -> Option<f64> {
        let (enter, leave) = self.enter_bounds(ray)?;
        let end = leave.min(limit);
        if enter >= end {
            return None;
        }
        if let Shape::Sphere { .. } = self.shape {
            // The ball is its own bounding ball; a ray that starts on it leaves it.
            return (enter > 0.0).then_some(enter);
        }
        let ray = self.in_shape_axes(ray);
        if let Some(exact) = self.shape.exact_hit(ray.origin, ray.direction) {
            return exact.filter(|&distance| distance < limit);
        }
        // Half of all rays hit the table top; the more level they are, the more steps the slab saves.
        let [low, high] = self.shape.height_range();
        let (a, b) = ((low - ray.origin.z) / ray.direction.z, (high - ray.origin.z) / ray.direction.z);
        // A level ray inside the slab gives infinities; on its faces NaN, which min and max ignore.
        let (mut distance, end) = (enter.max(a.min(b)), end.min(a.max(b) + HIT_DISTANCE));
        for _ in 0..MAX_STEPS {
            if distance > end {
                return None;
            }
            let free = self.shape.distance(ray.at(distance));
            if free < HIT_DISTANCE {
                return Some(distance);
            }
            distance += free;
        }
        // Still grazing after all steps, which is visually a hit.
        Some(distance)
    }

    /// Fraction of the sun's disc in the ray's direction that the object leaves visible, from the closest approach as
    /// seen from the start of the ray (Quilez, "Soft shadows in raymarched SDFs", with Aaltonen's improvement).
    fn sun_visibility(&self, ray: &Ray) -> f64 {
        let to_centre = self.ball_centre - ray.origin;
        let along = to_centre.dot(ray.direction);
        let radius = self.ball_radius;
        // Most objects are too far to the side, which can be tested without a square root.
        let aside_squared = (to_centre.dot(to_centre) - along * along).max(0.0);
        let reach = radius + (along + radius) * (1.0 / SHADOW_SHARPNESS);
        if along < -radius || aside_squared >= reach * reach {
            return 1.0;
        }
        let aside = aside_squared.sqrt() - radius;
        if let Shape::Sphere { .. } = self.shape {
            return if along > 0.0 { smoothstep(0.0, 1.0, SHADOW_SHARPNESS * aside / along) } else { 1.0 };
        }
        let ray = self.in_shape_axes(ray);
        if let Some(exact) = self.shape.exact_hit(ray.origin, ray.direction) {
            // Shadows of buildings are sharp: the penumbra of the sun is a hundredth of the distance.
            return f64::from(u8::from(exact.is_none()));
        }
        let mut distance = (along - radius - aside.max(0.0)).max(0.01);
        let end = along + radius;
        let mut share: f64 = 1.0;
        let mut before = f64::INFINITY;
        for _ in 0..MAX_STEPS {
            let free = self.shape.distance(ray.at(distance));
            if free < HIT_DISTANCE {
                return 0.0;
            }
            // If two empty balls overlap, the closest approach is between their centres.
            let back = if before.is_finite() { (free * free / (2.0 * before)).min(free) } else { 0.0 };
            let closest = (free * free - back * back).max(0.0).sqrt();
            share = share.min(SHADOW_SHARPNESS * closest / (distance - back).max(1e-4));
            before = free;
            distance += free.max(0.01);
            if distance > end || share < 0.01 {
                break;
            }
        }
        smoothstep(0.0, 1.0, share)
    }

    /// Whether the bounding ball is nearer to a point than `reach`.
    fn is_within(&self, point: Vec3, reach: f64) -> bool {
        let to_centre = point - self.ball_centre;
        let limit = self.ball_radius + reach;
        to_centre.dot(to_centre) < limit * limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng;

    #[test]
    fn the_lists_leave_out_only_objects_that_take_no_light() {
        let world = crate::demo::world(0);
        let sun = Vec3::from(SUN_DIRECTION).normalised();
        let (mut left_out, mut taking) = (0, 0);
        for i in 0..4000 {
            let w = rng::philox(5, rng::stream::TEST, 0, i).map(|w| f64::from(rng::uniform(w)));
            let point = vec3(8.0 * w[0] - 4.0, 8.0 * w[1] - 4.0, 2.3 * w[2] + MIN_LIT_Z);
            let ray = Ray { origin: point, direction: sun };
            let on_plane = ray.at(-point.z / sun.z);
            let (shadow, near) =
                (world.sun_blockers.at(on_plane.x, on_plane.y), world.near_objects.at(point.x, point.y));
            for (index, object) in (0..).zip(&world.objects) {
                let takes = object.sun_visibility(&ray) < 1.0;
                assert!(!takes || shadow.contains(&index), "{point:?} {index}");
                assert!(!object.is_within(point, 2.0 * OPENNESS_PROBES[2]) || near.contains(&index));
                left_out += u32::from(!shadow.contains(&index));
                taking += u32::from(takes);
            }
        }
        // Both cases must be frequent for the test to be meaningful.
        assert!(left_out > 10_000 && taking > 500, "{left_out} {taking}");
    }

    #[test]
    fn a_shadow_is_full_behind_a_ball_and_fades_beside_it() {
        let ball = Object::new(
            Shape::Sphere { radius: 0.5 },
            Placement::upright_at(vec3(0.0, 0.0, 3.0), 0.0),
            Texture::Marble,
            0.0,
        );
        let light =
            |x: f64| ball.sun_visibility(&Ray { origin: vec3(x, 0.0, 0.0), direction: vec3(0.0, 0.0, 1.0) });
        assert_eq!((light(0.0), light(0.49)), (0.0, 0.0));
        // Half of the light at half the width of the penumbra, which is a ninth of the distance.
        assert!((light(0.5 + 0.5 * 3.0 / SHADOW_SHARPNESS) - 0.5).abs() < 1e-12);
        assert_eq!(light(0.5 + 3.01 / SHADOW_SHARPNESS), 1.0);
    }
}
