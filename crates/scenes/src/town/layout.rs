//! The solids of a town: houses, churches, trees, cars, bridges, each drawn from the hash of its quarter.

use super::plan::{Dice, KERB, LANE, Plan, QUARTER, Quarter, RIVER, hash};
use super::surface::Surface;
use crate::shape::{Placement, Shape};
use crate::texture::{Texture, colour};
use crate::vec3::{Vec3, vec3};
use crate::world::Object;

/// How far solids reach into the ground, so that none floats on a slope, m.
const FOUNDATION: f64 = 3.0;
/// Half the side of the plain around the town, m.
const PLAIN: f64 = 4000.0;
const WALLS: [u32; 12] = [
    0xE6_D8BC, 0xD9_B48C, 0xC9_8D70, 0xEA_E4D8, 0xB8_A48C, 0xA4_5C48, 0xD8_C888, 0xB4_BCB8, 0xC8_A8A0,
    0x98_6850, 0xDC_D0C8, 0xA8_B090,
];
const ROOFS: [u32; 9] =
    [0x96_5644, 0x84_4A3E, 0xA8_6A50, 0x70_4A40, 0x58_5458, 0x44_484E, 0x8E_6050, 0x6A_5848, 0xB0_7A5C];
const FLAT_ROOFS: [u32; 5] = [0x84_827E, 0x68_6866, 0x9C_968A, 0x54_5658, 0xAC_A8A2];
const LACQUERS: [u32; 9] =
    [0xD8_D8D8, 0x28_2A2E, 0x8C_1C20, 0x24_4A80, 0x80_8488, 0xE8_E8E4, 0x3A_5A44, 0xA8_9850, 0x58_5C60];
const GREENS: [u32; 7] = [0x54_6640, 0x5E_6E42, 0x46_5A3A, 0x6C_7448, 0x4C_5E42, 0x72_6E46, 0x40_5038];

/// Everything solid in a town; the ground is the first.
pub(crate) fn objects(plan: &Plan) -> Vec<Object> {
    let mut site = Site { plan: *plan, objects: Vec::new() };
    site.ground();
    for (i, j) in (0..plan.quarters).flat_map(|j| (0..plan.quarters).map(move |i| (i, j))) {
        let mut dice = Dice::new(plan.seed ^ 0x100, i, j);
        site.quarter(i, j, &mut dice);
        site.cars(i, j, &mut dice);
    }
    site.bridges();
    site.countryside();
    site.objects
}

/// Solids on a plan.
struct Site {
    plan: Plan,
    objects: Vec<Object>,
}

/// A house to build: centre and half the size in m, degrees about z.
struct House {
    at: [f64; 2],
    half: [f64; 2],
    /// Height of the walls.
    walls: f64,
    /// Height of the ridge above them; 0 = a flat roof.
    rise: f64,
    yaw: f64,
    colours: [Vec3; 2],
    seed: u32,
}

impl Site {
    fn add(&mut self, shape: Shape, at: Vec3, yaw: f64, surface: Surface) {
        self.objects.push(Object::new(shape, Placement::upright_at(at, yaw), Texture::Town(surface), 0.0));
    }

    /// A box or hipless roof on the ground at (x, y).
    fn block(&mut self, [x, y]: [f64; 2], half: Vec3, lift: f64, yaw: f64, rgb: u32, seed: u32) {
        let z = self.plan.height(x, y) + lift + half.z;
        let surface = Surface::Plain { colour: colour(rgb), seed };
        self.add(Shape::Gable { half, rise: 0.0 }, vec3(x, y, z), yaw, surface);
    }

    fn ground(&mut self) {
        let plan = self.plan;
        let plain = Shape::Gable { half: vec3(PLAIN, PLAIN, 1.0), rise: 0.0 };
        self.add(plain, vec3(0.0, 0.0, -1.0), 0.0, Surface::Ground { plan, at: [0.0; 2] });
        let (centre, radius) = plan.hill_ball();
        let hill = Surface::Ground { plan, at: [centre.x, centre.y] };
        self.add(Shape::Sphere { radius }, centre, 0.0, hill);
    }

    /// Builds a house with a chimney or boxes on its roof, unless the river is in the way.
    fn house(&mut self, house: &House, dice: &mut Dice) {
        let &House { at: [x, y], half: [hx, hy], walls, rise, yaw, colours, seed } = house;
        if self.plan.beyond_bank(x, y) < hx.max(hy) + 1.0 {
            return;
        }
        let ground = self.plan.height(x, y);
        let half = vec3(hx, hy, 0.5 * (walls + FOUNDATION));
        let centre = vec3(x, y, ground + walls - half.z);
        let surface = Surface::House { half, ground: FOUNDATION - half.z, colours, seed };
        self.add(Shape::Gable { half, rise }, centre, yaw, surface);
        let boxes = if rise > 0.0 { dice.word() % 3 } else { 1 + (hx * hy / 20.0) as u32 };
        let place = Placement::upright_at(centre, yaw);
        for _ in 0..boxes.min(9) {
            let (u, v) = (0.75 * dice.between(-hx, hx), 0.6 * dice.between(-hy, hy));
            let on_roof = half.z + rise * (1.0 - (v / hy).abs());
            let size = if rise > 0.0 {
                vec3(0.35, 0.3, 0.9)
            } else {
                vec3(dice.between(0.4, 1.5), dice.between(0.4, 1.2), dice.between(0.3, 0.9))
            };
            let middle = centre + place.to_world(vec3(u, v, on_roof + 0.4));
            let tone = dice.pick(&[0x8A_5040, 0x90_8E8A, 0xB0_ACA4, 0x60_6468, 0x78_706A]);
            let surface = Surface::Plain { colour: colour(tone), seed: dice.word() };
            self.add(Shape::Gable { half: size, rise: 0.0 }, middle, yaw, surface);
        }
    }

    /// A tree of a radius at (x, y), unless it would stand in water.
    fn tree(&mut self, [x, y]: [f64; 2], radius: f64, dice: &mut Dice) {
        if self.plan.beyond_bank(x, y) < 1.0 {
            return;
        }
        let trunk = dice.between(0.6, 1.1) * radius;
        let foot = self.plan.height(x, y);
        let at = vec3(x, y, foot + trunk + 0.8 * radius);
        let leaves = Surface::Leaves { colour: colour(dice.pick(&GREENS)), seed: dice.word() };
        let place = Placement::tilted(at, dice.between(0.0, 360.0), dice.between(0.0, 360.0));
        self.objects.push(Object::new(Shape::Crown { radius }, place, Texture::Town(leaves), 0.0));
        let width = 0.07 * radius;
        self.block([x, y], vec3(width, width, 0.6 * trunk + 0.3), -0.3, 30.0, 0x4A_3A2C, dice.word());
    }

    fn quarter(&mut self, i: i32, j: i32, dice: &mut Dice) {
        let at = [self.plan.centre(i), self.plan.centre(j)];
        match self.plan.quarter(i, j) {
            Quarter::Houses => self.detached(at, dice),
            Quarter::Blocks => self.blocks(at, dice),
            Quarter::Halls => self.halls(at, dice),
            Quarter::Park => self.trees(at, 13, 1.6..3.6, dice),
            Quarter::Square => {
                self.square(at, (i, j) == (self.plan.quarters / 2, self.plan.quarters / 2), dice)
            }
        }
    }

    fn trees(&mut self, [x, y]: [f64; 2], count: u32, radius: std::ops::Range<f64>, dice: &mut Dice) {
        for _ in 0..count {
            let radius = dice.between(radius.start, radius.end);
            let reach = 0.5 * QUARTER - KERB - 0.6 * radius;
            let at = [x + dice.between(-reach, reach), y + dice.between(-reach, reach)];
            let is_free = self.objects.iter().rev().take(120).all(|other| match other.shape {
                Shape::Gable { half, .. } if half.x < PLAIN => {
                    let from = vec3(at[0] - other.placement.origin.x, at[1] - other.placement.origin.y, 0.0);
                    let from = other.placement.direction(from);
                    from.x.abs() > half.x + 0.8 * radius || from.y.abs() > half.y + 0.8 * radius
                }
                _ => true,
            });
            if is_free {
                self.tree(at, radius, dice);
            }
        }
    }

    /// Four plots with a house each, some with a wing or a garage.
    fn detached(&mut self, [x, y]: [f64; 2], dice: &mut Dice) {
        for (sx, sy) in [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)] {
            let at = [x + sx * dice.between(7.3, 8.6), y + sy * dice.between(7.3, 8.6)];
            let colours = [colour(dice.pick(&WALLS)), colour(dice.pick(&ROOFS))];
            let yaw = dice.pick(&[0.0, 90.0, 180.0, 270.0]) + dice.between(-7.0, 7.0);
            let half = [dice.between(3.8, 5.6), dice.between(3.0, 4.3)];
            let walls = dice.pick(&[3.2, 5.6, 5.9, 6.3]) + dice.between(-0.3, 0.3);
            let rise = dice.between(1.8, 3.8);
            let seed = dice.word();
            self.house(&House { at, half, walls, rise, yaw, colours, seed }, dice);
            if dice.happens(0.5) {
                let turn = Placement::upright_at(Vec3::default(), yaw);
                let aside = turn.to_world(vec3(dice.between(-1.0, 1.0), sy * half[1], 0.0));
                let wing = House {
                    at: [at[0] + aside.x, at[1] + aside.y],
                    half: [dice.between(2.6, 3.6), dice.between(2.0, 2.8)],
                    walls: 0.75 * walls,
                    rise: dice.pick(&[0.0, 1.6, 2.2]),
                    yaw: yaw + 90.0,
                    colours: [colours[0], colour(dice.pick(&ROOFS))],
                    seed: seed ^ 0x55,
                };
                self.house(&wing, dice);
            }
        }
        self.trees([x, y], 9, 1.0..2.3, dice);
    }

    /// Two to four long houses along the streets, sheds in the yard.
    fn blocks(&mut self, [x, y]: [f64; 2], dice: &mut Dice) {
        for (side, yaw) in [(0, 0.0), (1, 180.0), (2, 90.0), (3, 270.0)] {
            if side > 1 && dice.happens(0.35) {
                continue;
            }
            let depth = dice.between(3.6, 4.4);
            let out = 0.5 * QUARTER - KERB - 0.6 - depth;
            let (length, walls) = (if side > 1 { 5.8 } else { 14.6 }, dice.pick(&[8.6, 9.4, 11.3, 12.2]));
            // A row consists of two or three houses of different heights and colours.
            let parts = if side > 1 { 1 } else { 2 + dice.word() % 2 };
            for part in 0..parts {
                let half = length / f64::from(parts);
                let u = -length + half * (2.0 * f64::from(part) + 1.0);
                let away = Placement::upright_at(Vec3::default(), yaw).to_world(vec3(u, -out, 0.0));
                let is_flat = dice.happens(0.25);
                let roofs = if is_flat { &FLAT_ROOFS[..] } else { &ROOFS[..] };
                let house = House {
                    at: [x + away.x, y + away.y],
                    half: [half, depth],
                    walls: walls + dice.between(-1.3, 1.3),
                    rise: if is_flat { 0.0 } else { dice.between(2.2, 3.6) },
                    yaw,
                    colours: [colour(dice.pick(&WALLS)), colour(dice.pick(roofs))],
                    seed: dice.word(),
                };
                self.house(&house, dice);
            }
        }
        self.trees([x, y], 6, 1.2..2.6, dice);
    }

    /// One or two flat halls.
    fn halls(&mut self, [x, y]: [f64; 2], dice: &mut Dice) {
        for side in [-1.0, 1.0] {
            let house = House {
                at: [x + dice.between(-2.0, 2.0), y + side * dice.between(6.3, 7.0)],
                half: [dice.between(8.0, 12.5), dice.between(3.6, 5.0)],
                walls: dice.between(3.8, 8.0),
                rise: dice.pick(&[0.0, 0.0, 1.2]),
                yaw: 0.0,
                colours: [colour(dice.pick(&WALLS)), colour(dice.pick(&FLAT_ROOFS))],
                seed: dice.word(),
            };
            if side < 0.0 || dice.happens(0.75) {
                self.house(&house, dice);
            }
        }
        self.trees([x, y], 4, 1.0..1.9, dice);
    }

    /// Stalls and trees, and in the middle of the town a church.
    fn square(&mut self, [x, y]: [f64; 2], has_church: bool, dice: &mut Dice) {
        if has_church {
            let colours = [colour(0xD8_CDB4), colour(0x5A_5E62)];
            let nave =
                |at, half, walls, rise, seed| House { at, half, walls, rise, yaw: 12.0, colours, seed };
            self.house(&nave([x + 2.0, y], [9.0, 4.5], 8.5, 5.5, 91), dice);
            self.house(&nave([x - 8.0, y - 2.1], [2.4, 2.4], 17.0, 5.5, 92), dice);
        }
        for _ in 0..11 {
            let at = [x + dice.between(-13.5, 13.5), y + dice.between(-13.5, 13.5)];
            let house = House {
                at,
                half: [dice.between(1.0, 1.7), dice.between(0.8, 1.2)],
                walls: 2.3,
                rise: dice.between(0.4, 1.0),
                yaw: dice.between(0.0, 180.0),
                colours: [colour(dice.pick(&WALLS)), colour(dice.pick(&LACQUERS))],
                seed: dice.word(),
            };
            if !has_church || (at[1] - y).abs() > 8.5 {
                self.house(&house, dice);
            }
        }
        self.trees([x, y], 7, 1.3..2.4, dice);
    }

    /// Cars along the kerbs of a quarter.
    fn cars(&mut self, i: i32, j: i32, dice: &mut Dice) {
        let centre = [self.plan.centre(i), self.plan.centre(j)];
        for (side, sign) in [(0, -1.0), (0, 1.0), (1, -1.0), (1, 1.0)] {
            let mut along = dice.between(-13.0, 3.0);
            while along < 13.0 {
                let kerb = sign * (0.5 * QUARTER - LANE + 0.95);
                let at = if side == 0 {
                    [centre[0] + kerb, centre[1] + along]
                } else {
                    [centre[0] + along, centre[1] + kerb]
                };
                let yaw = if side == 0 { 90.0 } else { 0.0 } + dice.between(-3.0, 3.0);
                if dice.happens(0.6) {
                    self.car(at, yaw, dice);
                }
                along += dice.between(5.2, 14.0);
            }
        }
    }

    fn car(&mut self, at: [f64; 2], yaw: f64, dice: &mut Dice) {
        let (rgb, seed) = (dice.pick(&LACQUERS), dice.word());
        let length = dice.between(1.9, 2.3);
        self.block(at, vec3(length, 0.85, 0.65), -0.55, yaw, rgb, seed);
        let cabin = vec3(0.55 * length, 0.74, 0.3);
        self.block(at, cabin, 0.75, yaw, dice.pick(&[0x24_2A30, 0x30_383E, rgb]), seed ^ 1);
    }

    /// Parapets where streets cross the river.
    fn bridges(&mut self) {
        for line in 0..=self.plan.quarters {
            let x = f64::from(line) * QUARTER - self.plan.half();
            for side in [-KERB, KERB] {
                let at = [x + side, self.plan.river(x + side)];
                self.block(
                    at,
                    vec3(0.2, RIVER + 2.0, 0.55),
                    0.0,
                    0.0,
                    0xA0_9684,
                    hash(self.plan.seed, line, 9),
                );
            }
        }
    }

    /// Trees and barns in a ring around the town.
    fn countryside(&mut self) {
        let mut dice = Dice::new(self.plan.seed ^ 0x200, 0, 0);
        let half = self.plan.half();
        for _ in 0..24 * self.plan.quarters {
            let (side, out) = (dice.word() % 4, half + dice.between(8.0, 90.0));
            let along = dice.between(-half - 60.0, half + 60.0);
            let at = [[out, along], [-out, along], [along, out], [along, -out]][side as usize];
            if dice.happens(0.12) {
                let house = House {
                    at,
                    half: [dice.between(5.0, 9.0), dice.between(3.5, 5.0)],
                    walls: dice.between(3.0, 5.0),
                    rise: dice.between(1.5, 3.5),
                    yaw: dice.between(0.0, 180.0),
                    colours: [colour(dice.pick(&WALLS)), colour(dice.pick(&ROOFS))],
                    seed: dice.word(),
                };
                self.house(&house, &mut dice);
            } else {
                let radius = dice.between(1.3, 3.8);
                self.tree(at, radius, &mut dice);
            }
        }
    }
}
