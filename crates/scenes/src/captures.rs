//! Realistic captures: a furnished room, photographed handheld with automatic exposure, and held-out cameras at
//! positions away from all training cameras.
//!
//! The room is an open stage (walls without a ceiling, so that the sun comes in): plain walls with few features,
//! furniture along them, toys and pottery in the middle. Every eighth image, which the usual split holds out, is taken
//! from a different position than its neighbours: nearer, farther away or off the path. Images are brighter or darker
//! by up to 0.4 EV, varying slowly along the capture.

use gausset_compute::rng;

use crate::ProceduralScene;
use crate::demo::{
    arch, blocks, camera, candy_ring, cone, look_at, marble_ball, pillar, ring_toy, small_balls, vase,
};
use crate::noise::Noise;
use crate::shape::{Placement, Shape};
use crate::texture::{Texture, colour};
use crate::vec3::{Vec3, smoothstep, vec3};
use crate::world::{Object, World};

/// The camera path of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Once around the middle of the room: 53 images.
    Orbit,
    /// From the walls, and close to single objects: 48 images.
    CloseUps,
    /// Through the room, looking ahead: 32 images.
    Walk,
}

impl Capture {
    /// Every capture, each once.
    pub const ALL: [Self; 3] = [Self::Orbit, Self::CloseUps, Self::Walk];

    /// Name of its folder.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Orbit => "orbit",
            Self::CloseUps => "close-ups",
            Self::Walk => "walk",
        }
    }

    /// The room with the cameras of this capture; images are `width` px wide and three quarters as high.
    #[must_use]
    pub fn scene(self, width: u32, seed: u64) -> ProceduralScene {
        let count = match self {
            Self::Orbit => 53,
            Self::CloseUps => 48,
            Self::Walk => 32,
        };
        let poses = (0..count).map(|i| {
            let hand = Jitter::new(seed, self, i);
            let [eye, target] = match self {
                Self::Orbit => orbit(i, count, &hand),
                Self::CloseUps => close_up(i, &hand),
                Self::Walk => walk(i, count, &hand),
            };
            look_at(eye, target, (2.0 * hand.0[6]).to_radians())
        });
        ProceduralScene {
            world: room(seed),
            camera: camera(width, width * 3 / 4),
            poses: poses.collect(),
            exposures: (0..count).map(|i| exposure(self, i, seed)).collect(),
            geotags: Vec::new(),
            points: 6_000,
            seed,
        }
    }
}

/// The usual split holds out one of this many images.
const HELD_OUT_EVERY: u32 = 8;
/// Maximum exposure in EV, applied to display values.
const MAX_EXPOSURE_EV: f64 = 0.4;
/// Half the size of the room along x and y, and the height of its walls.
const ROOM_SIZE: [f64; 3] = [6.6, 6.0, 3.2];

/// Handheld jitter of a camera: eight numbers in -1..1.
struct Jitter([f64; 8]);

impl Jitter {
    fn new(seed: u64, capture: Capture, picture: u32) -> Self {
        let word = |index| {
            rng::philox(seed, rng::stream::SCENE, FIRST_RANDOM_STEP + capture as u64, 2 * picture + index)
        };
        let (a, b) = (word(0), word(1));
        Self(std::array::from_fn(|k| {
            2.0 * f64::from(rng::uniform(if k < 4 { a[k] } else { b[k - 4] })) - 1.0
        }))
    }
}

/// First step of the random numbers of the jitter.
const FIRST_RANDOM_STEP: u64 = 2;

/// Factor on the display values of an image: two slow waves of different lengths.
fn exposure(capture: Capture, picture: u32, seed: u64) -> f64 {
    let phase = seed as f64 + 2.0 * capture as u32 as f64;
    let at = f64::from(picture);
    let stops = 0.6 * libm::sin(0.31 * at + phase) + 0.4 * libm::cos(0.83 * at - phase);
    libm::exp2(MAX_EXPOSURE_EV * stops)
}

/// Around the middle at a varying distance and height; held-out cameras at three quarters or six fifths of the
/// distance.
fn orbit(i: u32, count: u32, hand: &Jitter) -> [Vec3; 2] {
    let azimuth = (360.0 * (f64::from(i) + 0.3 * hand.0[0]) / f64::from(count)).to_radians();
    let usual = 4.2 + 0.3 * hand.0[1];
    let distance = match (i % HELD_OUT_EVERY, i / HELD_OUT_EVERY % 2) {
        (0, 0) => 0.75 * usual,
        (0, _) => 1.2 * usual,
        _ => usual,
    };
    let height = 1.5 + 0.4 * libm::sin(3.0 * azimuth) + 0.1 * hand.0[2];
    let eye = vec3(distance * libm::cos(azimuth), distance * libm::sin(azimuth), height);
    [eye, vec3(0.15 * hand.0[3], 0.15 * hand.0[4], 0.45 + 0.1 * hand.0[5])]
}

/// Positions of single objects, and the camera distance to them.
const TARGETS: [[f64; 4]; 6] = [
    [0.05, 0.25, 0.75, 3.2],
    [-1.55, -0.35, 0.7, 1.7],
    [0.62, -1.42, 0.5, 1.5],
    [-0.75, 1.5, 0.7, 1.8],
    [1.5, 0.05, 0.5, 1.5],
    [1.22, 1.45, 0.6, 1.5],
];

/// Half a circle around an object with one step back in the middle; held-out cameras twice as far away and from above.
fn close_up(i: u32, hand: &Jitter) -> [Vec3; 2] {
    let [x, y, z, near] = TARGETS[(i / HELD_OUT_EVERY) as usize % TARGETS.len()];
    let thing = vec3(x, y, z);
    // Half a circle on the side of the object that faces away from the middle.
    let azimuth = libm::atan2(y, x)
        + (140.0 * (f64::from(i % HELD_OUT_EVERY) / 7.0 - 0.5) + 8.0 * hand.0[0]).to_radians();
    let distance = match i % HELD_OUT_EVERY {
        0 => 2.1 * near,
        4 => 1.4 * near,
        _ => near * (1.0 + 0.08 * hand.0[1]),
    };
    let level = vec3(libm::cos(azimuth), libm::sin(azimuth), 0.0) * distance;
    let rise = if i.is_multiple_of(HELD_OUT_EVERY) { 1.2 } else { 0.45 + 0.2 * hand.0[2] };
    let eye = thing + level + vec3(0.0, 0.0, rise);
    // Keeps the camera inside the room, whose walls have furniture.
    let inside = |v: f64, half: f64| v.clamp(1.0 - half, half - 1.0);
    let target = thing + vec3(0.1 * hand.0[3], 0.1 * hand.0[4], 0.1 * hand.0[5]);
    [vec3(inside(eye.x, ROOM_SIZE[0]), inside(eye.y, ROOM_SIZE[1]), eye.z), target]
}

/// From corner to corner past the objects, looking ahead and a little inwards; held-out cameras off the path.
fn walk(i: u32, count: u32, hand: &Jitter) -> [Vec3; 2] {
    let place = |share: f64| {
        let x = -5.6 + 11.2 * share;
        vec3(x, -4.0 + 1.0 * libm::sin(0.6 * x), 0.0)
    };
    let share = f64::from(i) / f64::from(count - 1);
    let here = place(share);
    let aside = if i.is_multiple_of(HELD_OUT_EVERY) { vec3(0.2, 0.7, 0.2) } else { Vec3::default() };
    let eye = here + aside + vec3(0.05 * hand.0[0], 0.05 * hand.0[1], 1.5 + 0.06 * hand.0[2]);
    // Inwards at the beginning, along the far wall at the end.
    let ahead = place(share + 0.1) - here;
    let inwards = vec3(0.0, 0.35 + 0.9 * smoothstep(0.2, 0.9, share), 0.0);
    let direction = ahead.normalised() + inwards + vec3(0.0, 0.08 * hand.0[3], -0.22 + 0.06 * hand.0[4]);
    [eye, eye + direction]
}

/// The room with all objects; the seed changes grain and clouds, not the objects.
fn room(seed: u64) -> World {
    let mut objects = vec![floor()];
    objects.extend(walls());
    objects.extend(furniture());
    objects.extend(marble_ball());
    objects.extend(blocks());
    objects.extend(ring_toy());
    objects.extend([vase(), candy_ring(), cone(), arch(), pillar()]);
    objects.extend(small_balls());
    World::new(objects, Noise::new(seed), 2.5 * ROOM_SIZE[0])
}

fn plain(rgb: u32) -> Texture {
    Texture::Plain { colour: colour(rgb) }
}

fn block(half: Vec3, at: Vec3, texture: Texture) -> Object {
    Object::new(Shape::Block { half, rounding: 0.03 }, Placement::upright_at(at, 0.0), texture, 0.0)
}

fn floor() -> Object {
    let pine = Texture::Wood { colours: [colour(0xC8_A072), colour(0x8A_5A34)] };
    block(vec3(ROOM_SIZE[0] + 0.2, ROOM_SIZE[1] + 0.2, 0.1), vec3(0.0, 0.0, -0.1), pine)
}

fn walls() -> [Object; 4] {
    let [x, y, height] = ROOM_SIZE;
    let across = vec3(0.1, y + 0.2, 0.5 * height);
    let along = vec3(x + 0.2, 0.1, 0.5 * height);
    let middle = 0.5 * height;
    [
        block(across, vec3(-x - 0.1, 0.0, middle), plain(0xE4_DCCB)),
        block(across, vec3(x + 0.1, 0.0, middle), plain(0xD9_DDD6)),
        block(along, vec3(0.0, -y - 0.1, middle), plain(0xE8_E2D8)),
        block(along, vec3(0.0, y + 0.1, middle), plain(0xCF_D8DF)),
    ]
}

/// A shelf with boards and books, a sofa, two pictures, a lamp.
fn furniture() -> Vec<Object> {
    let [x, y, _] = ROOM_SIZE;
    let oak = Texture::Wood { colours: [colour(0xB9_8350), colour(0x6B_4326)] };
    let mut things = Vec::new();
    for rise in [0.35, 0.95, 1.55] {
        things.push(block(vec3(0.16, 1.1, 0.03), vec3(-x + 0.18, 0.6, rise), oak));
    }
    for (at, height, rgb) in [
        (-0.3, 0.2, 0x9A_3B3B),
        (-0.05, 0.24, 0x2E_5E7E),
        (0.3, 0.17, 0xD8_B24A),
        (0.9, 0.22, 0x4D_7A4B),
        (1.3, 0.2, 0x7A_4C7E),
    ] {
        things.push(block(vec3(0.12, 0.07, height), vec3(-x + 0.18, at, 0.98 + height), plain(rgb)));
    }
    let cushion = plain(0x6F_8791);
    things.push(block(vec3(1.2, 0.42, 0.22), vec3(0.9, y - 0.45, 0.22), cushion));
    things.push(block(vec3(1.2, 0.12, 0.45), vec3(0.9, y - 0.14, 0.45), cushion));
    let checks = Texture::Checker { colours: [colour(0xF1_E6D0), colour(0x2D_5C74)], pitch: 0.17 };
    let dots = Texture::Dots { colours: [colour(0xB4_4A3A), colour(0xF3_DDB0)], pitch: 0.24, radius: 0.07 };
    things.push(block(vec3(0.04, 0.55, 0.4), vec3(x - 0.02, -0.8, 1.7), checks));
    things.push(block(vec3(0.5, 0.04, 0.38), vec3(-1.6, -y + 0.02, 1.65), dots));
    let pole = Shape::Cylinder { radius: 0.04, half_height: 0.8, rounding: 0.02 };
    let lamp = vec3(x - 0.6, y - 0.7, 0.8);
    things.push(Object::new(pole, Placement::upright_at(lamp, 0.0), plain(0x3C_3A38), 0.0));
    let shade = Shape::RoundCone { bottom: 0.3, top: 0.16, height: 0.35 };
    things.push(Object::new(
        shade,
        Placement::upright_at(lamp + vec3(0.0, 0.0, 0.75), 0.0),
        plain(0xF2_E3BE),
        0.0,
    ));
    things
}

#[cfg(test)]
mod tests {
    use gausset_compute::Pool;

    use super::*;

    fn centres(scene: &ProceduralScene) -> Vec<Vec3> {
        scene.poses.iter().map(|pose| Vec3::from(pose.centre())).collect()
    }

    #[test]
    fn cameras_stand_in_the_room_and_in_nothing_else() {
        for capture in Capture::ALL {
            let scene = capture.scene(80, 0);
            for (i, eye) in centres(&scene).into_iter().enumerate() {
                assert!(
                    eye.x.abs() < ROOM_SIZE[0] && eye.y.abs() < ROOM_SIZE[1] && eye.z > 0.2,
                    "{capture:?} {i} {eye:?}"
                );
                let nearest = scene
                    .world
                    .objects()
                    .iter()
                    .map(|thing| thing.shape.distance(thing.placement.point(eye)));
                let nearest = nearest.fold(f64::INFINITY, f64::min);
                assert!(nearest > 0.1, "{capture:?} {i}: {nearest} from a surface");
            }
        }
    }

    #[test]
    fn held_out_cameras_stand_apart_from_the_others() {
        for capture in Capture::ALL {
            let centres = centres(&capture.scene(80, 0));
            let is_held_out = |i: usize| i.is_multiple_of(HELD_OUT_EVERY as usize);
            let nearest = |i: usize| {
                let others = (0..centres.len()).filter(|&j| j != i && !is_held_out(j));
                others.map(|j| (centres[i] - centres[j]).length()).fold(f64::INFINITY, f64::min)
            };
            let (held_out, kept): (Vec<usize>, Vec<usize>) =
                (0..centres.len()).partition(|&i| is_held_out(i));
            let mean = |views: &[usize]| views.iter().map(|&i| nearest(i)).sum::<f64>() / views.len() as f64;
            let [apart, usual] = [mean(&held_out), mean(&kept)];
            assert!(apart > 1.5 * usual, "{capture:?}: {apart} against {usual}");
        }
    }

    #[test]
    fn exposures_fill_their_range_and_show_in_the_pictures() {
        for capture in Capture::ALL {
            let scene = capture.scene(80, 3);
            let stops: Vec<f64> = scene.exposures.iter().map(|&factor| libm::log2(factor)).collect();
            let (low, high) = stops.iter().fold((0.0f64, 0.0f64), |(l, h), &s| (l.min(s), h.max(s)));
            assert!(
                low >= -MAX_EXPOSURE_EV && high <= MAX_EXPOSURE_EV && high - low > 0.5,
                "{capture:?}: {low} {high}"
            );
        }
        let scene = Capture::Orbit.scene(40, 0);
        let (pool, view) = (Pool::new(1), 5);
        let plain = ProceduralScene { exposures: Vec::new(), ..scene.clone() };
        let brightness = |scene: &ProceduralScene| {
            let values = scene.image(view, &pool).data;
            values.iter().map(|&v| f64::from(v)).sum::<f64>()
        };
        let found = brightness(&scene) / brightness(&plain);
        assert!((found / scene.exposures[view] - 1.0).abs() < 0.08, "{found} {}", scene.exposures[view]);
    }
}
