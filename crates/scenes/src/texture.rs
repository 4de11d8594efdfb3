//! Solid textures: reflectance as a function of the position on the shape, in the shape's own axes.
//!
//! Every edge between two colours is a ramp about as wide as a pixel of the largest images, and noise ends at features
//! of a few pixels: finer detail would only cause aliasing in images and noise in training.

use std::f64::consts::TAU;

use crate::noise::Noise;
use crate::town::Surface;
use crate::vec3::{Vec3, smoothstep, vec3};

/// Width of a colour edge in scene units.
const EDGE: f64 = 0.014;

/// Reflectance of a surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Texture {
    /// Rings of coloured stone tiles around the z axis.
    Mosaic,
    /// White stone with coloured clouds and veins.
    Marble,
    /// Planks: year rings around an axis below the shape, and fine grain along x.
    Wood {
        /// Early and late wood.
        colours: [Vec3; 2],
    },
    /// Stripes that wind around the tube of a ring of this radius.
    Candy {
        /// Radius of the circle that the tube follows.
        major: f64,
        /// Colours in order.
        colours: [Vec3; 3],
        /// Number of windings of each colour.
        windings: f64,
    },
    /// Six gores of a ball, with caps.
    BeachBall,
    /// Dots on each face of a block.
    Dots {
        /// Ground and dots.
        colours: [Vec3; 2],
        /// Distance between the dots.
        pitch: f64,
        /// Radius of the dots.
        radius: f64,
    },
    /// Squares on each face of a block.
    Checker {
        /// Both colours.
        colours: [Vec3; 2],
        /// Edge of a square.
        pitch: f64,
    },
    /// Glazed pottery: a band of zigzag and lines on a ground that darkens downwards.
    Pottery {
        /// Height of the body.
        height: f64,
    },
    /// A helix of two colours around the z axis.
    Spiral {
        /// Both colours.
        colours: [Vec3; 2],
        /// Height of a winding.
        pitch: f64,
    },
    /// One colour with soft brightness variation.
    Plain {
        /// The colour.
        colour: Vec3,
    },
    /// Bands of paint around the z axis.
    Bands {
        /// Colours from the bottom, repeating.
        colours: [Vec3; 4],
        /// Height of a band.
        pitch: f64,
    },
    /// A surface of the town.
    Town(Surface),
}

/// Linear colour of a display colour `0xRRGGBB` (gamma 2, as in the images).
#[must_use]
pub const fn colour(rgb: u32) -> Vec3 {
    const fn linear(byte: u32) -> f64 {
        let v = (byte & 255) as f64 / 255.0;
        v * v
    }
    vec3(linear(rgb >> 16), linear(rgb >> 8), linear(rgb))
}

/// Rings of the floor: outer radius, tiles, pattern.
const RINGS: [(f64, f64, RingPattern); 11] = [
    (0.34, 8.0, RingPattern::Pair(0xE8_D5B0, 0xC4_5B39)),
    (0.50, 12.0, RingPattern::Pair(0x2A_5D6B, 0x3E_8C8C)),
    (0.78, 18.0, RingPattern::Teeth(0xE9_D8B4, 0xB9_4E32)),
    (1.04, 24.0, RingPattern::Mixed),
    (1.18, 34.0, RingPattern::Pair(0x27_4B68, 0x35_6F8A)),
    (1.56, 24.0, RingPattern::Teeth(0xD9_9A3C, 0x2B_5F6E)),
    (1.86, 36.0, RingPattern::Mixed),
    (2.02, 48.0, RingPattern::Pair(0xC4_5B39, 0xE8_D5B0)),
    (2.40, 40.0, RingPattern::Teeth(0x27_4B68, 0xE9_D8B4)),
    (2.72, 48.0, RingPattern::Mixed),
    (3.20, 44.0, RingPattern::Pair(0x8E_A08C, 0xB5_A88A)),
];

/// Pattern of a ring of tiles.
#[derive(Clone, Copy)]
enum RingPattern {
    /// Two colours alternating.
    Pair(u32, u32),
    /// Triangles of the first colour on the second.
    Teeth(u32, u32),
    /// Colours of [`MIXED_TILES`] at random.
    Mixed,
}

const MIXED_TILES: [u32; 6] = [0xE8_D5B0, 0xC4_5B39, 0x3E_8C8C, 0xD9_9A3C, 0x27_4B68, 0xA9_B79A];
const GROUT: Vec3 = colour(0x8A_8076);

impl Texture {
    /// Reflectance at a point of the surface with this normal, both in the shape's axes. Surfaces of the town have no
    /// detail below `footprint`, the size of a pixel on the surface in scene units.
    #[must_use]
    pub fn at(&self, p: Vec3, normal: Vec3, footprint: f64, noise: &Noise) -> Vec3 {
        match *self {
            Self::Mosaic => mosaic(p, noise),
            Self::Marble => marble(p, noise),
            Self::Wood { colours } => wood(p, colours, noise),
            Self::Candy { major, colours, windings } => {
                let tube = angle(p.z, (p.x * p.x + p.y * p.y).sqrt() - major);
                let along = (angle(p.y, p.x) * windings + tube) * 3.0;
                let width = EDGE * 3.0 * windings / (TAU * major);
                with_clouds(blend_colours(&colours, along, width), p, 0.10, noise)
            }
            Self::BeachBall => {
                const GORES: [Vec3; 6] = [
                    colour(0xE6_4B3C),
                    colour(0xF4_EBD9),
                    colour(0x2F_7FB8),
                    colour(0xF4_C13B),
                    colour(0xF4_EBD9),
                    colour(0x46_A067),
                ];
                let around = (p.x * p.x + p.y * p.y).sqrt();
                let gore =
                    blend_colours(&GORES, angle(p.y, p.x) * 6.0, EDGE * 6.0 / (TAU * around.max(0.03)));
                let cap = smoothstep(0.06 + EDGE, 0.06, around);
                with_clouds(gore.lerp(GORES[1], cap), p, 0.10, noise)
            }
            Self::Dots { colours, pitch, radius } => {
                let [u, v] = face_coordinates(p, normal);
                let to_centre = |x: f64| (x / pitch - (x / pitch).round()) * pitch;
                let (du, dv) = (to_centre(u), to_centre(v));
                let inside = smoothstep(radius + EDGE, radius, (du * du + dv * dv).sqrt());
                with_clouds(colours[0].lerp(colours[1], inside), p, 0.14, noise)
            }
            Self::Checker { colours, pitch } => {
                let [u, v] = face_coordinates(p, normal);
                let wave = |x: f64| stripes(x / pitch, EDGE / pitch);
                let (a, b) = (wave(u), wave(v));
                with_clouds(colours[0].lerp(colours[1], a + b - 2.0 * a * b), p, 0.14, noise)
            }
            Self::Pottery { height } => pottery(p, height, noise),
            Self::Spiral { colours, pitch } => {
                let turn = 2.0 * (p.z / pitch + angle(p.y, p.x));
                with_clouds(blend_colours(&colours, turn, 2.0 * EDGE / pitch), p, 0.12, noise)
            }
            Self::Town(surface) => surface.at(p, normal, footprint),
            Self::Plain { colour } => with_clouds(colour, p, 0.16, noise),
            Self::Bands { colours, pitch } => {
                with_clouds(blend_colours(&colours, p.z / pitch, EDGE / pitch), p, 0.12, noise)
            }
        }
    }
}

/// Angle of (x, y) in turns, -0.5..0.5.
fn angle(y: f64, x: f64) -> f64 {
    libm::atan2(y, x) / TAU
}

/// 0 on even and 1 on odd unit intervals, with ramps of this width.
fn stripes(x: f64, ramp: f64) -> f64 {
    let t = 0.5 * x - (0.5 * x).floor();
    // Distance to the nearer of the edges at 0 and 0.5, in units of x.
    let from_edge = (0.5 - t).min(t) * 2.0;
    let odd = if t < 0.5 { 0.0 } else { 1.0 };
    let soft = 0.5 * smoothstep(0.0, ramp, if t < 0.5 { from_edge } else { (t - 0.5).min(1.0 - t) * 2.0 });
    if odd == 0.0 { 0.5 - soft } else { 0.5 + soft }
}

/// The colour of the unit interval that `x` is in, blended with the next one over a ramp of this width.
fn blend_colours(colours: &[Vec3], x: f64, ramp: f64) -> Vec3 {
    let cell = x.floor();
    let of = |cell: f64| colours[(cell as i64).rem_euclid(colours.len() as i64) as usize];
    let into_next = smoothstep(1.0 - ramp, 1.0, x - cell);
    of(cell).lerp(of(cell + 1.0), into_next)
}

/// Coordinates on the face of a block that the normal points out of.
fn face_coordinates(p: Vec3, normal: Vec3) -> [f64; 2] {
    let n = normal.map(f64::abs);
    if n.z >= n.x && n.z >= n.y {
        [p.x, p.y]
    } else if n.x >= n.y {
        [p.y, p.z]
    } else {
        [p.x, p.z]
    }
}

/// A colour with lighter and darker patches.
fn with_clouds(colour: Vec3, p: Vec3, strength: f64, noise: &Noise) -> Vec3 {
    colour * (1.0 + strength * (noise.value(p * 4.0) + 0.7 * noise.value(p * 9.0 + vec3(3.1, 0.0, 0.0))))
}

fn mosaic(p: Vec3, noise: &Noise) -> Vec3 {
    let r = (p.x * p.x + p.y * p.y).sqrt();
    let ring = RINGS.iter().position(|&(outer, _, _)| r < outer).unwrap_or(RINGS.len() - 1);
    let inner = if ring == 0 { 0.0 } else { RINGS[ring - 1].0 };
    let (outer, tiles, pattern) = RINGS[ring];
    let place = angle(p.y, p.x) * tiles + 0.37 * ring as f64;
    let tile = place.floor();
    let across = place - tile;
    let along = (r - inner) / (outer - inner);
    // Distances to the joints, in scene units.
    let arc = across.min(1.0 - across) * TAU * r / tiles;
    let to_joint = arc.min(r - inner).min((outer - r).abs());

    // The index may be negative; tiles of one ring count from 0.
    let number = (tile as i64).rem_euclid(tiles as i64);
    let base = match pattern {
        RingPattern::Pair(a, b) => colour(if number % 2 == 0 { a } else { b }),
        RingPattern::Teeth(a, b) => {
            // A triangle based on the inner joint; its flank is a ramp.
            let flank = (1.0 - along) - (2.0 * across - 1.0).abs();
            colour(b).lerp(colour(a), smoothstep(-0.04, 0.04, flank))
        }
        RingPattern::Mixed => colour(MIXED_TILES[(noise.cell(number, ring as i64) * 6.0) as usize % 6]),
    };
    let shade = 0.86 + 0.28 * noise.cell(number + 91, ring as i64 + 7);
    let grain = 1.0 + 0.16 * noise.octaves(vec3(p.x, p.y, 0.0) * 5.0, 2) + 0.14 * noise.value(p * 1.1);
    let stone = base * (shade * grain);
    (GROUT * (0.9 + 0.1 * grain)).lerp(stone, smoothstep(0.008, 0.008 + EDGE, to_joint))
}

fn marble(p: Vec3, noise: &Noise) -> Vec3 {
    const LAYERS: [Vec3; 6] = [
        colour(0xEA_DFC8),
        colour(0x7F_B8AC),
        colour(0x2B_7A80),
        colour(0x17_4A5C),
        colour(0x6F_A89C),
        colour(0xF0_E6D2),
    ];
    // Layers of stone, folded by noise.
    let fold = noise.octaves(p * 1.15, 3);
    let depth = 1.9 * p.dot(vec3(0.35, -0.2, 0.95)) + 1.25 * fold;
    let layer = depth * 2.3;
    let cell = layer.floor();
    let of = |cell: f64| LAYERS[(cell as i64).rem_euclid(LAYERS.len() as i64) as usize];
    let stone = of(cell).lerp(of(cell + 1.0), smoothstep(0.15, 0.95, layer - cell));
    // Veins of metal where another fold passes through zero.
    let wave = libm::sin(p.dot(vec3(-2.3, 2.1, 1.6)) + 2.2 * fold + 0.8 * noise.value(p * 2.9));
    let gold = smoothstep(0.12, 0.04, wave.abs());
    with_clouds(stone, p, 0.08, noise).lerp(colour(0xD8_A545), 0.9 * gold)
}

fn wood(p: Vec3, colours: [Vec3; 2], noise: &Noise) -> Vec3 {
    let bent = p + vec3(0.0, 1.0, 1.0) * (0.10 * noise.octaves(vec3(p.x * 0.8, p.y * 2.0, p.z * 2.0), 2));
    let (y, z) = (bent.y + 0.25, bent.z + 0.9);
    let rings = 9.0 * (y * y + z * z).sqrt();
    let t = rings - rings.floor();
    let late = smoothstep(0.35, 0.85, t) * smoothstep(1.0, 0.9, t);
    let grain = noise.value(vec3(p.x * 2.0, p.y * 14.0, p.z * 14.0));
    colours[0].lerp(colours[1], 0.62 * late) * (1.0 + 0.14 * grain)
}

fn pottery(p: Vec3, height: f64, noise: &Noise) -> Vec3 {
    let (deep, light, cream, rust) =
        (colour(0x1D_3F66), colour(0x4F_8FB0), colour(0xF0_E4C8), colour(0xB5_5436));
    let t = p.z / height;
    let turn = angle(p.y, p.x);
    let glaze = deep.lerp(light, smoothstep(0.05, 1.0, t + 0.12 * noise.octaves(p * 2.2, 2)));
    // A painted band with zigzag, framed by lines.
    let soft = EDGE / height;
    let within = |low: f64, high: f64| smoothstep(low - soft, low, t) * smoothstep(high + soft, high, t);
    let teeth = 2.0 * (turn * 14.0 - (turn * 14.0).floor() - 0.5).abs();
    let zigzag = smoothstep(-0.08, 0.08, teeth - (t - 0.30) / 0.22);
    let painted = glaze.lerp(cream.lerp(rust, zigzag), within(0.30, 0.52));
    let lines = within(0.24, 0.265).max(within(0.555, 0.58)).max(within(0.74, 0.765));
    let dots = {
        let (u, v) = (turn * 20.0, (t - 0.655) * height / 0.115);
        let du = u - u.floor() - 0.5;
        smoothstep(0.34, 0.26, (du * du + v * v).sqrt())
    };
    with_clouds(painted.lerp(cream, lines.max(dots)), p, 0.08, noise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternating_stripes_swap_at_whole_numbers() {
        for (x, expected) in [(0.5, 0.0), (1.5, 1.0), (2.5, 0.0), (-0.5, 1.0), (1.0, 0.5), (2.0, 0.5)] {
            assert!((stripes(x, 0.1) - expected).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn picking_a_colour_has_no_jump() {
        let colours = [colour(0xFF_0000), colour(0x00_FF00), colour(0x00_00FF)];
        let mut before = blend_colours(&colours, -4.0, 0.2);
        for i in 1..=8000 {
            let here = blend_colours(&colours, -4.0 + f64::from(i) * 1e-3, 0.2);
            // A ramp of 0.2 has a slope of at most 1.5 / 0.2 in each of three channels.
            assert!((here - before).length() < 0.015, "{i}");
            before = here;
        }
    }
}
