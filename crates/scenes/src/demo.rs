//! The demo scene: toys and pottery on a round mosaic table under an open sky, and the cameras around it.

use gausset_compute::rng;
use gausset_core::{Camera, Pose};

use crate::noise::Noise;
use crate::shape::{Placement, Shape};
use crate::texture::{Texture, colour};
use crate::vec3::{Vec3, vec3};
use crate::world::{Object, World};

/// Radius of the sky dome.
const SKY_RADIUS: f64 = 14.0;

/// The objects under their sky; the seed changes veins, grain and the colours of tiles, not the objects.
#[must_use]
pub(crate) fn world(seed: u64) -> World {
    let mut objects = vec![table()];
    objects.extend(marble_ball());
    objects.extend(blocks());
    objects.extend(ring_toy());
    objects.extend([vase(), candy_ring(), cone(), arch(), pillar()]);
    objects.extend(small_balls());
    World::new(objects, Noise::new(seed), SKY_RADIUS)
}

/// Places a shape upright on the table, rotated by `yaw` degrees; `rise` is the height of its origin.
fn upright_on_table(x: f64, y: f64, rise: f64, yaw: f64) -> Placement {
    Placement::upright_at(vec3(x, y, rise), yaw)
}

fn table() -> Object {
    let shape = Shape::Cylinder { radius: 3.2, half_height: 0.14, rounding: 0.06 };
    Object::new(shape, upright_on_table(0.0, 0.0, -0.14, 0.0), Texture::Mosaic, 0.0)
}

pub(crate) fn marble_ball() -> [Object; 2] {
    let foot = Shape::Torus { major: 0.36, minor: 0.085 };
    let brass = Texture::Plain { colour: colour(0xC7_9A4B) };
    [
        Object::new(
            Shape::Sphere { radius: 0.72 },
            upright_on_table(0.05, 0.25, 0.79, 20.0),
            Texture::Marble,
            0.05,
        ),
        Object::new(foot, upright_on_table(0.05, 0.25, 0.085, 0.0), brass, 0.06),
    ]
}

pub(crate) fn blocks() -> [Object; 3] {
    let block = |half: f64| Shape::Block { half: Vec3::splat(half), rounding: 0.05 };
    let pine = Texture::Wood { colours: [colour(0xE0_B57C), colour(0x9A_5F30)] };
    let dots = Texture::Dots { colours: [colour(0x2C_7A9B), colour(0xF3_E3C3)], pitch: 0.2, radius: 0.058 };
    let checks = Texture::Checker { colours: [colour(0xE8_DCC4), colour(0xC2_4A3A)], pitch: 0.145 };
    [
        Object::new(block(0.42), upright_on_table(-1.55, -0.35, 0.42, 24.0), pine, 0.0),
        Object::new(block(0.29), upright_on_table(-1.58, -0.38, 0.84 + 0.29, -14.0), dots, 0.0),
        Object::new(block(0.29), upright_on_table(-0.98, -1.32, 0.29, 52.0), checks, 0.0),
    ]
}

/// Four rings on a post, the largest at the bottom.
pub(crate) fn ring_toy() -> impl Iterator<Item = Object> {
    let place = |rise: f64| upright_on_table(0.62, -1.42, rise, 0.0);
    let rings = [
        (0.36, 0.15, 0x3F_A08A, 0.0),
        (0.29, 0.135, 0xF0_B93A, 0.275),
        (0.225, 0.12, 0xE2_6D3D, 0.52),
        (0.165, 0.105, 0xB9_3B5E, 0.735),
    ];
    let rings = rings.map(|(major, minor, rgb, rise)| {
        let base = colour(rgb);
        let texture = Texture::Candy {
            major,
            colours: [base, base.lerp(colour(0xFF_F3DC), 0.55), base],
            windings: 7.0,
        };
        Object::new(Shape::Torus { major, minor }, place(rise + minor), texture, 0.03)
    });
    let post = Shape::RoundCone { bottom: 0.12, top: 0.11, height: 1.02 };
    let post = Object::new(post, place(0.0), Texture::Plain { colour: colour(0xE9_CFA0) }, 0.0);
    rings.into_iter().chain([post])
}

pub(crate) fn vase() -> Object {
    let shape = Shape::Vase { height: 1.5, radius: 0.5 };
    Object::new(shape, upright_on_table(-0.75, 1.5, 0.0, 0.0), Texture::Pottery { height: 1.5 }, 0.045)
}

/// A ring that is placed on its edge.
pub(crate) fn candy_ring() -> Object {
    let colours = [colour(0xD6_3F45), colour(0xF6_EEDD), colour(0xF6_EEDD)];
    let texture = Texture::Candy { major: 0.46, colours, windings: 4.0 };
    Object::new(
        Shape::Torus { major: 0.46, minor: 0.17 },
        Placement::tilted(vec3(1.5, 0.05, 0.63), -38.0, 90.0),
        texture,
        0.04,
    )
}

pub(crate) fn cone() -> Object {
    let spiral = Texture::Spiral { colours: [colour(0x5B_3F8C), colour(0xEA_D9B0)], pitch: 0.52 };
    let shape = Shape::RoundCone { bottom: 0.34, top: 0.07, height: 0.95 };
    Object::new(shape, upright_on_table(1.22, 1.45, 0.34, 0.0), spiral, 0.03)
}

pub(crate) fn arch() -> Object {
    let shape = Shape::Arch { half: vec3(0.52, 0.2, 0.4), opening: 0.3, rounding: 0.04 };
    let oak = Texture::Wood { colours: [colour(0xC9_8B4E), colour(0x74_4020)] };
    Object::new(shape, upright_on_table(-2.05, 0.95, 0.4, 58.0), oak, 0.0)
}

pub(crate) fn pillar() -> Object {
    let colours = [colour(0x2F_6F73), colour(0xEC_DDBB), colour(0xD9_8A36), colour(0xEC_DDBB)];
    let shape = Shape::Cylinder { radius: 0.23, half_height: 0.47, rounding: 0.05 };
    Object::new(
        shape,
        upright_on_table(2.2, -0.95, 0.47, 0.0),
        Texture::Bands { colours, pitch: 0.155 },
        0.03,
    )
}

pub(crate) fn small_balls() -> [Object; 5] {
    let ball = |radius: f64, x: f64, y: f64, yaw: f64, tilt: f64, texture: Texture| {
        Object::new(Shape::Sphere { radius }, Placement::tilted(vec3(x, y, radius), yaw, tilt), texture, 0.04)
    };
    let spiral = |a: u32, b: u32, pitch: f64| Texture::Spiral { colours: [colour(a), colour(b)], pitch };
    [
        ball(0.33, -0.35, -2.15, 20.0, 35.0, Texture::BeachBall),
        ball(0.2, 1.62, -1.85, 40.0, 60.0, spiral(0x1F_6F8B, 0xF0_E2C0, 0.3)),
        ball(0.17, -1.9, -1.55, 10.0, 25.0, spiral(0xC9_4F3D, 0xF2_D8A0, 0.24)),
        ball(0.24, 0.55, 2.1, 75.0, 50.0, Texture::BeachBall),
        ball(0.16, 2.15, 0.75, 0.0, 80.0, spiral(0x4B_8B4F, 0xF3_EBD3, 0.25)),
    ]
}

/// Rings of cameras that look at the table.
pub(crate) struct CameraRings {
    /// Cameras on each ring.
    pub(crate) cameras: u32,
    /// Elevation above the table in degrees and distance from its centre, one pair per ring.
    pub(crate) rings: &'static [[f64; 2]],
}

/// Rings of the demo: nearly level, half-way up, from above.
pub(crate) const DEMO_RINGS: &[[f64; 2]] = &[[17.0, 6.7], [34.0, 6.3], [54.0, 6.0]];

/// Horizontal field of view in degrees.
const FIELD_OF_VIEW: f64 = 54.0;

/// A camera of this size with the demo's field of view.
pub(crate) fn camera(width: u32, height: u32) -> Camera {
    let focal = 0.5 * f64::from(width) / libm::tan(FIELD_OF_VIEW.to_radians() * 0.5);
    Camera {
        projection: gausset_core::Projection::Pinhole,
        width,
        height,
        fx: focal,
        fy: focal,
        cx: f64::from(width) / 2.0,
        cy: f64::from(height) / 2.0,
    }
}

/// The poses of all rings, with handheld jitter.
pub(crate) fn poses(rings: &CameraRings, seed: u64) -> Vec<Pose> {
    let mut poses = Vec::new();
    for (ring, &[elevation, distance]) in (0u32..).zip(rings.rings) {
        for i in 0..rings.cameras {
            let hand = jitter(seed, ring * rings.cameras + i);
            // Rings are rotated against each other, so that no two cameras are directly above one another.
            let share = f64::from(ring) / rings.rings.len() as f64;
            let azimuth = 360.0 * (f64::from(i) + share + 0.25 * hand[0]) / f64::from(rings.cameras);
            let elevation = elevation + 2.0 * hand[1];
            let distance = distance * (1.0 + 0.04 * hand[2]);
            let (azimuth, elevation) = (azimuth.to_radians(), elevation.to_radians());
            let level = distance * libm::cos(elevation);
            let eye =
                vec3(level * libm::cos(azimuth), level * libm::sin(azimuth), distance * libm::sin(elevation));
            let target = vec3(0.12 * hand[3], 0.12 * hand[4], 0.38 + 0.1 * hand[5]);
            poses.push(look_at(eye, target, (1.5 * hand[6]).to_radians()));
        }
    }
    poses
}

/// Jitter of a camera: eight numbers in -1..1.
fn jitter(seed: u64, camera: u32) -> [f64; 8] {
    let words = |index| rng::philox(seed, rng::stream::SCENE, 1, 2 * camera + index);
    let (a, b) = (words(0), words(1));
    std::array::from_fn(|k| 2.0 * f64::from(rng::uniform(if k < 4 { a[k] } else { b[k - 4] })) - 1.0)
}

/// The pose of a camera that looks at a target, upright (z up) except for a roll about its axis in radians.
pub(crate) fn look_at(eye: Vec3, target: Vec3, roll: f64) -> Pose {
    let forward = (target - eye).normalised();
    let right = forward.cross(vec3(0.0, 0.0, 1.0)).normalised();
    let down = forward.cross(right);
    let (s, c) = (libm::sin(roll), libm::cos(roll));
    let rows = [right * c + down * s, down * c - right * s, forward];
    let translation = rows.map(|row| -row.dot(eye));
    Pose { rotation: rows.map(Vec3::array), translation }
}
