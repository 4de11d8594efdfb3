//! A town of any size, photographed from an aircraft and on foot, to test alignment and training of large sets.
//!
//! Streets on a grid of 40 m, houses, gardens, trees, cars, a river, a hill, fields around. One unit is a metre; x is
//! east, y north. The number of pictures decides the size of the town: overlaps stay the same.

mod cameras;
pub(crate) mod geotag;
mod layout;
mod plan;
mod surface;

pub use geotag::{GPS_NOISE, ORIGIN};
pub use surface::Surface;

use crate::ProceduralScene;
use crate::noise::Noise;
use crate::object_lists::GridSize;
use crate::world::{World, WorldScale};
use plan::Plan;

/// Numbers of pictures that a town can have.
pub const PICTURES: std::ops::RangeInclusive<u32> = 40..=10_000;
/// Radius of the sky dome, m.
const SKY_RADIUS: f64 = 3000.0;
/// Edge of a cell of the lists of objects, m.
const CELL: f64 = 5.0;
/// Distance from the town to the end of these lists, m.
const MARGIN: f64 = 100.0;
/// Points of the model per picture.
const POINTS_PER_PICTURE: usize = 40;

/// A town in this many pictures, clamped to [`PICTURES`], each `width` px wide and three quarters as high.
#[must_use]
pub fn town(pictures: u32, width: u32, seed: u64) -> ProceduralScene {
    let pictures = pictures.clamp(*PICTURES.start(), *PICTURES.end());
    let plan = Plan { quarters: cameras::quarters(pictures), seed: seed as u32 ^ (seed >> 32) as u32 };
    let half = plan.half() + MARGIN;
    let grid = GridSize { half, cells: (2.0 * half / CELL).ceil() as usize };
    let scale = WorldScale { grid, openness: 3.0 };
    let poses = cameras::poses(&plan, pictures);
    let geotags = (0..).zip(&poses).map(|(index, pose)| geotag::geotag(pose, seed, index)).collect();
    ProceduralScene {
        world: World::with_scale(layout::objects(&plan), Noise::new(seed), SKY_RADIUS, &scale),
        camera: cameras::camera(width),
        poses,
        exposures: Vec::new(),
        geotags,
        points: POINTS_PER_PICTURE * pictures as usize,
        seed,
    }
}
