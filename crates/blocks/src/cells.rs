//! The ground plane, and the cells that tile it.

use gausset_core::Splats;
use gausset_core::matrix::dot;
use gausset_core::se3::Mat3;
use serde::{Deserialize, Serialize};

/// Fractions of sorted coordinates between which a size is measured: far splats do not count.
const SIZE_QUANTILES: [f64; 2] = [0.05, 0.95];
/// A cell grows by this fraction of its size on each side, for cameras that stand just outside it.
const MARGIN: f64 = 0.1;

/// Two axes of the ground, unit vectors at a right angle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ground {
    /// The axes, in coordinates of the splats.
    pub axes: [[f64; 3]; 2],
}

impl Ground {
    /// The ground of a scene whose results are saved with this rotation (rows; up is -y), with axes along and across the
    /// direction in which its cameras are spread most.
    #[must_use]
    pub fn new(saved_from_scene: &Mat3, cameras: &[[f64; 3]]) -> Self {
        let level = Self { axes: [saved_from_scene[0], saved_from_scene[2]] };
        let places: Vec<[f64; 2]> = cameras.iter().map(|&centre| level.place_of(centre)).collect();
        let count = places.len().max(1) as f64;
        let mean: [f64; 2] = [0, 1].map(|k| places.iter().map(|place| place[k]).sum::<f64>() / count);
        let moment = |a: usize, b: usize| -> f64 {
            places.iter().map(|place| (place[a] - mean[a]) * (place[b] - mean[b])).sum()
        };
        let angle = 0.5 * libm::atan2(2.0 * moment(0, 1), moment(0, 0) - moment(1, 1));
        let (sine, cosine) = libm::sincos(angle);
        let [x, z] = level.axes;
        let axis = |a: f64, b: f64| std::array::from_fn(|k| a * x[k] + b * z[k]);
        Self { axes: [axis(cosine, sine), axis(-sine, cosine)] }
    }

    /// Coordinates on the ground.
    #[must_use]
    pub fn place_of(&self, position: [f64; 3]) -> [f64; 2] {
        self.axes.map(|axis| dot(axis, position))
    }

    /// The same for the mean of a splat.
    #[must_use]
    pub fn place(&self, mean: [f32; 3]) -> [f64; 2] {
        self.place_of(mean.map(f64::from))
    }
}

/// A box over the ground; `None`: open on that side. The lower side belongs to it, the upper one does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Lower sides.
    pub low: [Option<f64>; 2],
    /// Upper sides.
    pub high: [Option<f64>; 2],
    /// Size of what the cell contained when it was made, without the farthest tenth.
    pub size: [f64; 2],
}

impl Cell {
    /// Whether a place belongs to the cell. A place that is not finite belongs to none.
    #[must_use]
    pub fn contains(&self, place: [f64; 2]) -> bool {
        self.contains_within(place, 0.0)
    }

    /// Whether a place belongs to the cell grown by a tenth of its size.
    #[must_use]
    pub fn is_near(&self, place: [f64; 2]) -> bool {
        self.contains_within(place, MARGIN)
    }

    fn contains_within(&self, place: [f64; 2], margin: f64) -> bool {
        (0..2).all(|k| {
            let grown = margin * self.size[k];
            place[k].is_finite()
                && self.low[k].is_none_or(|low| place[k] >= low - grown)
                && self.high[k].is_none_or(|high| place[k] < high + grown)
        })
    }

    /// Appends the splats that the cell owns to `merged`, in their order.
    pub fn append_owned(&self, splats: &Splats, ground: &Ground, merged: &mut Splats) {
        for i in (0..splats.len()).filter(|&i| self.contains(ground.place(splats.means[i]))) {
            let (mean, log_scale, quat) = (splats.means[i], splats.log_scales[i], splats.quats[i]);
            merged.push(mean, log_scale, quat, splats.opacity_logits[i], splats.sh_coefficients(i));
        }
    }
}

/// Divides the plane into `count` cells with about equally many of `places`: a cell for several blocks is cut across its
/// longer side, in proportion to the blocks on either side of the cut. Fewer cells if places coincide.
#[must_use]
pub fn divide(places: &[[f64; 2]], count: u32) -> Vec<Cell> {
    let all: Vec<usize> = (0..places.len()).filter(|&i| places[i].iter().all(|v| v.is_finite())).collect();
    let mut cells = Vec::new();
    cut(places, all, Cell::default(), count, &mut cells);
    cells
}

fn cut(places: &[[f64; 2]], mut inside: Vec<usize>, cell: Cell, count: u32, cells: &mut Vec<Cell>) {
    let size = [0, 1].map(|axis| size(places, &inside, axis));
    let axis = usize::from(size[1] > size[0]);
    let whole = Cell { size, ..cell };
    if count <= 1 || size[axis] <= 0.0 {
        cells.push(whole);
        return;
    }
    inside.sort_by(|&a, &b| places[a][axis].total_cmp(&places[b][axis]).then(a.cmp(&b)));
    let before = count / 2;
    let rank = (inside.len() as u64 * u64::from(before) / u64::from(count)) as usize;
    let border = places[inside[rank.min(inside.len() - 1)]][axis];
    // Places at the border belong to the upper cell, also those of a lower rank.
    let first = inside.partition_point(|&i| places[i][axis] < border);
    if first == 0 {
        cells.push(whole);
        return;
    }
    let upper = inside.split_off(first);
    let (mut left, mut right) = (cell, cell);
    (left.high[axis], right.low[axis]) = (Some(border), Some(border));
    cut(places, inside, left, before, cells);
    cut(places, upper, right, count - before, cells);
}

/// Distance between two quantiles of a coordinate.
fn size(places: &[[f64; 2]], inside: &[usize], axis: usize) -> f64 {
    let mut sorted: Vec<f64> = inside.iter().map(|&i| places[i][axis]).collect();
    if sorted.is_empty() {
        return 0.0;
    }
    sorted.sort_by(f64::total_cmp);
    let [low, high] = SIZE_QUANTILES.map(|quantile| sorted[(quantile * (sorted.len() - 1) as f64) as usize]);
    high - low
}
