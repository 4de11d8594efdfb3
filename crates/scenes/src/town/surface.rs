//! Surfaces of the town: ground, walls, roofs, leaves, cars.
//!
//! Each takes the size of a pixel on the surface (`footprint`, m) and leaves out detail that the pixel cannot show. So
//! one surface has detail of a few pixels for an aircraft and for a pedestrian, and aliases for neither.

use super::plan::{Dice, KERB, LANE, Plan, Quarter, hash, noise, unit};
use crate::texture::colour;
use crate::vec3::{Vec3, smoothstep, vec3};

/// What a surface is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Surface {
    /// Streets, gardens, water and fields, by the position on the map.
    Ground {
        /// The map.
        plan: Plan,
        /// Position of the shape's origin on the map, m.
        at: [f64; 2],
    },
    /// Walls with windows and doors, and a roof.
    House {
        /// Half the size of the walls, m.
        half: Vec3,
        /// Height of the ground above the shape's origin, m.
        ground: f64,
        /// Colours of wall and roof.
        colours: [Vec3; 2],
        /// What else differs between houses.
        seed: u32,
    },
    /// Leaves of a tree or hedge.
    Leaves {
        /// Mean colour.
        colour: Vec3,
        /// Seed of the pattern.
        seed: u32,
    },
    /// Lacquer, concrete or wood with stains.
    Plain {
        /// The colour.
        colour: Vec3,
        /// Seed of the stains.
        seed: u32,
    },
}

impl Surface {
    /// Reflectance at a point with this normal, in the shape's axes; `footprint` in m.
    pub(crate) fn at(&self, p: Vec3, normal: Vec3, footprint: f64) -> Vec3 {
        match *self {
            Self::Ground { plan, at } => ground(&plan, p.x + at[0], p.y + at[1], footprint),
            Self::House { half, colours, seed, .. } if normal.z > 0.2 => {
                roof(p, half, colours[1], normal.z > 0.99, seed, footprint)
            }
            Self::House { half, ground, colours, seed } => {
                let (along, width) = if normal.x.abs() > 0.5 { (p.y, half.y) } else { (p.x, half.x) };
                let side = u32::from(normal.x > 0.5)
                    + 2 * u32::from(normal.y > 0.5)
                    + 4 * u32::from(normal.x < -0.5);
                let face = Face { along, height: p.z - ground, width, eaves: half.z - ground };
                wall(&face, colours[0], seed.wrapping_add(side.wrapping_mul(0x9e37)), seed, footprint)
            }
            Self::Leaves { colour, seed } => leaves(p, colour, seed, footprint),
            Self::Plain { colour, seed } => {
                let (u, v) = unfold(p, normal);
                colour * (1.0 + 0.3 * grain(u, v, 0.9, footprint, seed))
            }
        }
    }
}

/// Coordinates on the plane that faces a normal most.
fn unfold(p: Vec3, normal: Vec3) -> (f64, f64) {
    let n = normal.map(f64::abs);
    if n.z >= n.x.max(n.y) {
        (p.x, p.y)
    } else if n.x >= n.y {
        (p.y, p.z + 40.0)
    } else {
        (p.x, p.z + 80.0)
    }
}

/// One octave of noise with features of this size, fading out where a pixel cannot show it.
fn octave(x: f64, y: f64, size: f64, footprint: f64, seed: u32) -> f64 {
    let shown = smoothstep(1.0, 2.2, size / footprint);
    if shown == 0.0 { 0.0 } else { shown * noise(x / size, y / size, seed) }
}

/// Octaves from this size down to the pixel, each a third of the one before and nearly as strong, about -1..1.
fn grain(x: f64, y: f64, coarsest: f64, footprint: f64, seed: u32) -> f64 {
    let (mut sum, mut size, mut strength) = (0.0, coarsest, 0.8);
    for octave_seed in 0..5 {
        if size < footprint {
            break;
        }
        sum += strength * octave(x, y, size, footprint, seed.wrapping_add(octave_seed * 77));
        size *= 0.36;
        strength *= 0.85;
    }
    sum
}

/// 1 inside, where `depth` is positive, 0 outside, with an edge as wide as a pixel.
fn inside(depth: f64, footprint: f64) -> f64 {
    let edge = 0.5 * footprint.max(0.02);
    smoothstep(-edge, edge, depth)
}

/// Distance to the nearer end of the interval -half..half, positive inside.
fn within(x: f64, half: f64) -> f64 {
    half - x.abs()
}

fn mixed_colour(of: &[u32], word: u32) -> Vec3 {
    colour(of[word as usize % of.len()])
}

/// The ground at a position of the map.
fn ground(plan: &Plan, x: f64, y: f64, footprint: f64) -> Vec3 {
    let seed = plan.seed;
    let rough = grain(x, y, 2.6, footprint, seed);
    let blotch = noise(x / 9.0, y / 9.0, seed ^ 0x77);
    let beyond_bank = plan.beyond_bank(x, y);
    let half = plan.half();
    let beyond = (x.abs().max(y.abs())) - half;
    let (i, j) = (plan.index(x), plan.index(y));
    // Distances from the centre lines of the two nearest streets, each running along the other axis.
    let (u, v) = (x - plan.centre(i), y - plan.centre(j));
    let street = (20.0 - u.abs(), 20.0 - v.abs());
    if beyond < KERB && street.0.min(street.1) < KERB {
        return pavement(plan, [x, y], street, rough, footprint);
    }
    if beyond_bank < 2.5 {
        return river(x, y, beyond_bank, rough, footprint, seed);
    }
    if beyond > 0.0 {
        return field(x, y, rough, blotch, footprint, seed);
    }
    let edge = street.0.min(street.1) - KERB;
    let yard = match plan.quarter(i, j) {
        Quarter::Houses => garden(u, v, hash(seed ^ 0x33, i, j), rough, blotch, footprint),
        Quarter::Park => park(u, v, hash(seed ^ 0x35, i, j), rough, blotch, footprint),
        Quarter::Blocks => {
            let grass = vec3(0.11, 0.17, 0.05) * (1.0 + 0.9 * rough + 0.5 * blotch);
            let path = vec3(0.33, 0.30, 0.26) * (1.0 + 0.7 * rough);
            let is_path = inside(0.1 + noise(x / 6.0, y / 6.0, seed ^ 0x44), 0.2);
            grass.lerp(path, is_path)
        }
        Quarter::Halls => tarmac(x, y, rough, footprint, seed ^ 0x99)
            .lerp(Vec3::splat(0.62), bay_lines(u, v, footprint) * smoothstep(0.8, 0.2, footprint)),
        Quarter::Square => slabs(x, y, rough, footprint, seed ^ 0x21),
    };
    // A garden wall or kerb of irregular colour.
    let wall = vec3(0.34, 0.32, 0.29) * (1.0 + 0.5 * rough);
    wall.lerp(yard, inside(edge - 0.35, footprint))
}

/// Carriageway, pavement, lane markings and zebra crossings.
fn pavement(plan: &Plan, [x, y]: [f64; 2], street: (f64, f64), rough: f64, footprint: f64) -> Vec3 {
    let across = street.0.min(street.1);
    // Where two streets cross there are no kerbs.
    let (along, to_crossing) = if street.0 < street.1 { (y, street.1) } else { (x, street.0) };
    let seed = plan.seed;
    let mut road = tarmac(x, y, rough, footprint, seed);
    if to_crossing > KERB {
        let lane = hash(seed ^ 0x61, plan.index(x + 20.0), plan.index(y + 20.0));
        let worn = 0.75 + 0.9 * noise(x * 1.3, y * 1.3, seed ^ 0x62);
        let dash = inside(within((along / 3.7).fract().abs() - 0.4, 0.3) * 3.7, footprint);
        let line = dash * inside(0.09 - across, footprint) * f64::from(u8::from(!lane.is_multiple_of(5)));
        let zebra = if lane.is_multiple_of(3) {
            inside(within(to_crossing - 6.4, 1.3), footprint)
                * inside(within((across / 0.9).fract() - 0.5, 0.27) * 0.9, footprint)
        } else {
            0.0
        };
        road = road.lerp(Vec3::splat(0.62), (line.max(zebra) * worn).clamp(0.0, 1.0));
    }
    let tint = unit(hash(seed ^ 0x63, (x / 3.1).floor() as i32, (y / 3.1).floor() as i32));
    let stone = vec3(0.30, 0.28, 0.26) * (0.85 + 0.3 * tint + 0.6 * rough);
    road.lerp(stone, inside(across - LANE, footprint))
}

/// Asphalt with repairs and cracks.
fn tarmac(x: f64, y: f64, rough: f64, footprint: f64, seed: u32) -> Vec3 {
    let mut grey = 0.085 * (1.0 + 0.8 * rough + 0.35 * noise(x / 5.0, y / 5.0, seed ^ 0x12));
    // Repairs: one rectangle of random size in each cell of 5 m.
    let (i, j) = ((x / 5.0).floor() as i32, (y / 5.0).floor() as i32);
    let mut dice = Dice::new(seed ^ 0x13, i, j);
    if dice.happens(0.55) {
        let (cx, cy) = (dice.between(1.5, 3.5), dice.between(1.5, 3.5));
        let (hx, hy) = (dice.between(0.3, 1.5), dice.between(0.2, 1.4));
        let (lx, ly) = (x - 5.0 * f64::from(i) - cx, y - 5.0 * f64::from(j) - cy);
        let depth = within(lx, hx).min(within(ly, hy));
        let tone = dice.pick(&[0.45, 0.6, 1.5, 1.9]);
        grey *= 1.0 + (tone - 1.0) * inside(depth, footprint);
    }
    let crack = noise(x / 2.3, y / 2.3, seed ^ 0x14).abs();
    grey *= 1.0 - 0.5 * smoothstep(0.035, 0.0, crack) * smoothstep(0.3, 0.1, footprint);
    vec3(grey, grey, 1.06 * grey)
}

/// Paving in slabs of different tones.
fn slabs(x: f64, y: f64, rough: f64, footprint: f64, seed: u32) -> Vec3 {
    let row = (y / 1.3).floor();
    let column = (x / 1.9 + 0.5 * unit(hash(seed, row as i32, 1))).floor();
    let tone = unit(hash(seed ^ 0x5, column as i32, row as i32));
    let shown = smoothstep(1.4, 0.6, footprint);
    let warm = colour(0xB4_A28C).lerp(colour(0x8C_8078), tone * shown + 0.5 * (1.0 - shown));
    warm * (1.0 + 0.6 * rough + 0.25 * noise(x / 4.0, y / 4.0, seed))
}

/// White lines between parking bays.
fn bay_lines(u: f64, v: f64, footprint: f64) -> f64 {
    let place = (u / 2.6).fract().abs() - 0.5;
    let row = within(v.abs() - 13.0, 2.2);
    inside(within(place * 2.6, 0.07), footprint) * inside(row, footprint)
}

/// Four gardens of a quarter, each with lawn, beds, a terrace and perhaps a pool.
fn garden(u: f64, v: f64, quarter: u32, rough: f64, blotch: f64, footprint: f64) -> Vec3 {
    let (i, j) = (i32::from(u > 0.0), i32::from(v > 0.0));
    let mut dice = Dice::new(quarter, i, j);
    let lawn = dice.pick(&[0x66_7448, 0x70_7A50, 0x78_7A50, 0x5C_6C44, 0x80_7C58]);
    let (x, y) = (u.abs() - 8.0, v.abs() - 8.0);
    let mut out = colour(lawn) * (1.0 + 1.1 * rough + 0.5 * blotch);
    let beds = noise(u / 3.4, v / 3.4, quarter ^ 0x8) - 0.22;
    let soil = vec3(0.13, 0.09, 0.055) * (1.0 + rough);
    out = out.lerp(soil, inside(2.0 * beds, footprint));
    let (px, py) = (dice.between(-6.0, 6.0), dice.between(-6.0, 6.0));
    let terrace = within(x - px, dice.between(1.5, 4.0)).min(within(y - py, dice.between(1.2, 3.0)));
    let stone = mixed_colour(&[0xB8_AA98, 0x9C_7A68, 0x8E_8C8A, 0xC2_B48E], dice.word());
    out = out.lerp(stone * (1.0 + 0.5 * rough), inside(terrace, footprint));
    if dice.happens(0.25) {
        let pool = within(x - 5.4, 1.4).min(within(y - dice.between(-3.0, 3.0), 2.6));
        let rim = inside(pool + 0.4, footprint);
        let water = vec3(0.10, 0.42, 0.52) * (1.0 + 0.12 * rough);
        out = out.lerp(Vec3::splat(0.55), rim).lerp(water, inside(pool, footprint));
    }
    let hedge = within(u, 0.45).max(within(v, 0.45));
    out.lerp(vec3(0.04, 0.08, 0.025) * (1.0 + 0.8 * rough), inside(hedge, footprint))
}

/// Grass with winding paths, meadow and a pond.
fn park(u: f64, v: f64, quarter: u32, rough: f64, blotch: f64, footprint: f64) -> Vec3 {
    let meadow = smoothstep(-0.1, 0.25, noise(u / 7.0, v / 7.0, quarter));
    let grass = vec3(0.13, 0.175, 0.07).lerp(vec3(0.21, 0.20, 0.10), meadow);
    let mut out = grass * (1.0 + 1.1 * rough + 0.5 * blotch);
    let path = 0.05 - noise(u / 17.0, v / 17.0, quarter ^ 0x2).abs();
    out = out.lerp(vec3(0.42, 0.36, 0.28) * (1.0 + 0.4 * rough), inside(12.0 * path, footprint));
    let flowers = octave(u, v, 0.8, footprint, quarter ^ 0x3);
    let spots = smoothstep(0.28, 0.45, flowers) * meadow;
    out.lerp(mixed_colour(&[0xE8_D048, 0xD8_D4E0, 0xC0_5060], quarter), 0.8 * spots)
}

/// Water with its banks.
fn river(x: f64, y: f64, from_bank: f64, rough: f64, footprint: f64, seed: u32) -> Vec3 {
    let shore = 0.8 * noise(x / 2.1, y / 2.1, seed ^ 0x41);
    let depth = -from_bank + shore;
    let gravel = vec3(0.30, 0.27, 0.20) * (1.0 + 0.8 * rough);
    let reed = vec3(0.09, 0.13, 0.04) * (1.0 + rough);
    let bank = gravel.lerp(reed, smoothstep(-0.1, 0.1, noise(x / 4.3, y / 4.3, seed ^ 0x42)));
    let shallow = vec3(0.12, 0.15, 0.10) * (1.0 + 0.5 * rough);
    let deep = vec3(0.035, 0.065, 0.07) * (1.0 + 0.25 * rough + 0.4 * noise(x / 6.0, y / 3.0, seed ^ 0x43));
    bank.lerp(shallow.lerp(deep, smoothstep(0.3, 2.4, depth)), inside(depth, footprint))
}

/// Farmland: parcels of different crops, rows within them.
fn field(x: f64, y: f64, rough: f64, blotch: f64, footprint: f64, seed: u32) -> Vec3 {
    // Boundaries bend, and each row of parcels is shifted.
    let (bx, by) = (x + 9.0 * noise(x / 90.0, y / 90.0, seed), y + 9.0 * noise(x / 80.0, y / 80.0, seed ^ 1));
    let j = (by / 47.0).floor();
    let width = 38.0 + 45.0 * unit(hash(seed ^ 0x71, j as i32, 0));
    let i = ((bx + 61.0 * unit(hash(seed ^ 0x72, j as i32, 0))) / width).floor();
    let mut dice = Dice::new(seed ^ 0x73, i as i32, j as i32);
    let crop = dice.pick(&[0x86_8450, 0x62_7246, 0xA8_9668, 0x78_6250, 0x70_8048, 0x9C_8868, 0x56_683F]);
    let angle = dice.between(0.0, 3.1);
    let row = (x * libm::cos(angle) + y * libm::sin(angle)) / dice.between(1.1, 2.6);
    let stripe = (row - row.floor() - 0.5).abs() * 4.0 - 1.0;
    let shown = smoothstep(0.5, 0.15, footprint);
    let ditch = (by / 47.0 - j).min(1.0 - by / 47.0 + j) * 47.0 - 1.2;
    let crop = colour(crop) * (1.0 + 0.9 * rough + 0.5 * blotch + 0.16 * shown * stripe);
    let weeds = vec3(0.10, 0.13, 0.05) * (1.0 + rough);
    weeds.lerp(crop, inside(ditch, footprint.max(0.3)))
}

/// A position on a wall: metres along it from its middle, and above the ground.
struct Face {
    along: f64,
    height: f64,
    /// Half the width of the wall.
    width: f64,
    /// Height of the wall.
    eaves: f64,
}

/// Plaster or brick with rows of windows, no two walls alike.
fn wall(face: &Face, base: Vec3, side: u32, house: u32, footprint: f64) -> Vec3 {
    let &Face { along, height, width, eaves } = face;
    let stains = grain(along, height + 300.0, 1.7, footprint, side);
    let damp = smoothstep(1.4, 0.0, height + 0.7 * noise(along / 1.5, 0.5, side));
    let mut plaster =
        base * (1.0 + 0.45 * stains + 0.2 * noise(along / 4.0, height / 4.0, side ^ 5) - 0.4 * damp);
    if house.is_multiple_of(3) {
        let course = (height / 0.32).floor();
        let brick = unit(hash(side, course as i32, (along / 0.7 + 0.5 * (course % 2.0)).floor() as i32));
        plaster = plaster * (1.0 + 0.5 * (brick - 0.5) * smoothstep(0.25, 0.1, footprint));
    }
    let mut dice = Dice::new(house, 1, 2);
    let storey = dice.between(2.7, 3.2);
    let level = (height / storey).floor();
    let band = within(height - level * storey, 0.14).max(0.14 - (height - eaves).abs());
    let trim = mixed_colour(&[0xE8_E0D0, 0x80_6A58, 0xC8_C0B4, 0x58_5450], dice.word());
    if dice.happens(0.5) && level > 0.0 {
        plaster = plaster.lerp(trim, 0.8 * inside(band, footprint));
    }
    if height > eaves || height < 0.0 {
        return plaster;
    }
    let columns = (2.0 * width / dice.between(2.2, 3.4)).floor().max(1.0);
    let pitch = 2.0 * width / columns;
    let column = ((along + width) / pitch).floor().clamp(0.0, columns - 1.0);
    let x = along + width - (column + 0.5) * pitch;
    let opening = Opening { x, z: height - level * storey, level, column, columns, side };
    opening.over(plaster, trim, &mut dice, footprint)
}

/// The window, door or shop front of a cell of a wall.
struct Opening {
    /// Metres from the middle of the cell, and above its floor.
    x: f64,
    z: f64,
    level: f64,
    column: f64,
    columns: f64,
    side: u32,
}

impl Opening {
    /// The wall with the opening in it; `dice` are those of the house, so that its windows match.
    fn over(&self, plaster: Vec3, trim: Vec3, dice: &mut Dice, footprint: f64) -> Vec3 {
        let (half_width, sill, top) =
            (dice.between(0.42, 0.7), dice.between(0.75, 1.0), dice.between(2.1, 2.4));
        let shutters = dice.happens(0.4);
        let shutter = mixed_colour(&[0x3E_6050, 0x7A_4438, 0x46_5878, 0xB0_A890, 0x60_5040], dice.word());
        let mut own = Dice::new(self.side, self.column as i32, self.level as i32);
        let door_at = f64::from(self.side % 97) % self.columns;
        let is_door = self.level == 0.0 && self.column == door_at.floor() && self.side % 4 != 3;
        if !is_door && own.happens(0.13) {
            return plaster;
        }
        let shift = own.between(-0.12, 0.12);
        let (x, sill) = (self.x - shift, if is_door { 0.0 } else { sill });
        let half_width = half_width * own.between(0.8, 1.15);
        let (middle, half_height) = (0.5 * (sill + top), 0.5 * (top - sill));
        let depth = within(x, half_width).min(within(self.z - middle, half_height));
        let mut out = plaster.lerp(trim, 0.9 * inside(depth + 0.12, footprint));
        if shutters && !is_door {
            let beside = within(x.abs() - half_width - 0.32, 0.27).min(within(self.z - middle, half_height));
            out = out.lerp(shutter, inside(beside, footprint));
        }
        let glass = if is_door {
            mixed_colour(&[0x5A_3A28, 0x2E_4A3A, 0x70_2A28, 0x38_4868, 0xC8_B898], own.word())
        } else {
            // Curtains, blinds, dark rooms and the sky.
            let pane = mixed_colour(&[0x20_2830, 0x38_4650, 0x58_6E80, 0x8C_A0B0, 0x2C_2824], own.word());
            let curtain = own.between(-0.3, 1.2);
            let drawn = inside((self.z - sill) / (top - sill) - curtain, 0.05);
            pane.lerp(mixed_colour(&[0xD8_CFC0, 0xB0_7860, 0xE8_E4DC, 0x90_98A0], own.word()), 0.85 * drawn)
        };
        out = out.lerp(glass, inside(depth, footprint));
        let bar = inside(0.035 - x.abs().min((self.z - middle - 0.3 * half_height).abs()), footprint);
        out.lerp(trim, if is_door { 0.0 } else { 0.8 * bar * inside(depth, footprint) })
    }
}

/// Tiles in rows, patches of newer ones, skylights; or gravel on a flat roof.
fn roof(p: Vec3, half: Vec3, base: Vec3, is_flat: bool, seed: u32, footprint: f64) -> Vec3 {
    let stains = grain(p.x, p.y + 3.0 * half.y, 2.4, footprint, seed ^ 0x9);
    let patch = noise(p.x / 2.2, p.y / 1.4, seed ^ 0xA);
    let (i, j) = ((p.x / 3.1).floor(), (p.y / 2.7).floor());
    let mut dice = Dice::new(seed ^ 0xB, i as i32, j as i32);
    let mut out = base * (1.0 + 0.8 * stains + 0.3 * patch);
    let (x, y) = (p.x - 3.1 * (i + 0.5), p.y - 2.7 * (j + 0.5));
    let (cx, cy) = (dice.between(-0.7, 0.7), dice.between(-0.5, 0.5));
    let box_in_cell = |hx: f64, hy: f64| within(x - cx, hx).min(within(y - cy, hy));
    if is_flat {
        let moss = smoothstep(0.05, 0.3, noise(p.x / 3.0, p.y / 3.0, seed ^ 0xC));
        out = out.lerp(vec3(0.12, 0.13, 0.07) * (1.0 + stains), 0.6 * moss);
        let sheet = box_in_cell(dice.between(0.3, 1.3), dice.between(0.3, 1.1));
        let tone = dice.pick(&[0.4, 0.6, 1.5, 1.9, 1.0, 1.0]);
        out = out * (1.0 + (tone - 1.0) * inside(sheet, footprint));
        let rim = within(p.x, half.x).min(within(p.y, half.y)) - 0.4;
        return (base * 1.5).lerp(out, inside(rim, footprint));
    }
    // A row of tiles is darker where the next one covers it.
    let row = (p.y / 0.33).fract().abs();
    out = out * (1.0 + 0.3 * (row - 0.5) * smoothstep(0.22, 0.1, footprint));
    let newer = inside(0.3 * (noise(p.x / 3.5, p.y / 2.8, seed ^ 0xD) - 0.3), footprint);
    out = out.lerp(base.mul_components(vec3(1.5, 1.2, 1.1)), 0.6 * newer);
    match dice.word() % 9 {
        0 => out.lerp(vec3(0.05, 0.07, 0.10), inside(box_in_cell(0.4, 0.6), footprint)),
        1 if seed.is_multiple_of(3) => {
            let panel = inside(box_in_cell(1.3, 0.75), footprint);
            let joint = (x * 1.4).fract().abs();
            out.lerp(vec3(0.02, 0.03, 0.08) * (1.0 + 1.5 * inside(0.06 - joint, footprint)), panel)
        }
        _ => out,
    }
}

/// Clumps of leaves, lit and in shade.
fn leaves(p: Vec3, colour: Vec3, seed: u32, footprint: f64) -> Vec3 {
    // The sum of noise on two slanted planes is drawn out in no direction.
    let first = grain(p.x + 0.6 * p.z, p.y - 0.7 * p.z, 0.9, footprint, seed);
    let second = grain(p.z + 0.4 * p.y, p.x - 0.8 * p.y, 0.9, footprint, seed ^ 0x1);
    let gaps = smoothstep(-0.15, -0.5, first + second);
    let light = (1.0 + 0.9 * (first + second)) * (1.0 - 0.6 * gaps);
    (colour * light.max(0.1)).mul_components(vec3(1.0 + 0.3 * second, 1.0, 1.0 - 0.2 * second))
}
