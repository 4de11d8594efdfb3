//! The map of a division: the coarse splats from above, the borders of the cells, and the cameras.

use std::collections::BTreeMap;

use gausset_blocks::{BlockPlan, Division};
use gausset_core::image::quantise;
use gausset_core::matrix::{cross, dot};
use gausset_core::splats::opacity;
use gausset_core::{RgbImage8, Splats, sh};
use gausset_io::dataset::Dataset;
use gausset_io::image::caption::{draw_text, fitting, text_size};

/// Longer side of the map, px.
const SIDE: u32 = 1200;
/// Shorter side at least, px: a street.
const MIN_SIDE: u32 = 240;
/// Fractions of sorted coordinates between which splats and cameras fill the view: those far away do not count.
const SHOWN_QUANTILES: [f64; 2] = [0.02, 0.98];
/// Border around them, as a fraction of their extent.
const BORDER: f64 = 0.05;
/// Largest radius of a splat, px: one that is larger would hide what lies below it.
const MAX_RADIUS: f64 = 12.0;
/// Half the side of the square of a camera, px.
const CAMERA: i64 = 3;
/// Size of a pixel of the captions, px.
const TEXT: u32 = 2;
/// Farther than any pixel.
const FAR: f64 = 1e6;

const BORDERS: [u8; 3] = [255, 220, 0];
const IN_ONE: [u8; 3] = [255, 255, 255];
const IN_SEVERAL: [u8; 3] = [80, 170, 255];
const IN_NONE: [u8; 3] = [255, 60, 60];
const INK: [u8; 3] = [0, 0, 0];
const LEGEND: [&str; 3] = ["white: camera in one block", "blue: in several", "red: in none"];

/// The part of the ground that is shown.
struct View {
    /// Place of the top left corner.
    corner: [f64; 2],
    /// Pixels per unit.
    scale: f64,
    size: [u32; 2],
}

/// Draws a map. `coarse` are splats in normalised coordinates, as the dataset.
pub(super) fn draw(coarse: &Splats, division: &Division, dataset: &Dataset) -> RgbImage8 {
    let ground = &division.ground;
    let places: Vec<[f64; 2]> = coarse.means.iter().map(|&mean| ground.place(mean)).collect();
    let cameras: BTreeMap<&str, [f64; 2]> = dataset
        .split
        .train
        .iter()
        .map(|&index| &dataset.images[index])
        .map(|image| (&*image.name, ground.place_of(image.pose.centre())))
        .collect();
    let view = View::of(&places, &cameras.values().copied().collect::<Vec<_>>());
    let mut picture = view.draw_splats(coarse, division, &places);
    division.blocks.iter().for_each(|block| view.draw_borders(&mut picture, block));
    for (&name, &camera) in &cameras {
        let holds =
            |block: &&BlockPlan| block.images.binary_search_by(|image| image.as_str().cmp(name)).is_ok();
        let colour = match division.blocks.iter().filter(holds).count() {
            0 => IN_NONE,
            1 => IN_ONE,
            _ => IN_SEVERAL,
        };
        // A camera far outside stays there.
        let [x, y] = view.pixel(camera).map(|v| v.clamp(-FAR, FAR) as i64);
        fill(&mut picture, [x - CAMERA, y - CAMERA], [x + CAMERA, y + CAMERA], INK);
        fill(&mut picture, [x - CAMERA + 1, y - CAMERA + 1], [x + CAMERA - 1, y + CAMERA - 1], colour);
    }
    for (number, block) in (1..).zip(&division.blocks) {
        let [low, high] = view.visible(block);
        let text = format!("{number}: {} images", block.images.len());
        let text = fitting(&text, TEXT, (high[0] - low[0]) as u32);
        let [width, height] = text_size(&text, TEXT).map(f64::from);
        let middle = [0, 1].map(|k| (low[k] + high[k]) / 2.0);
        write(&mut picture, [middle[0] - width / 2.0, middle[1] - height / 2.0], &text);
    }
    let line = f64::from(text_size("", TEXT)[1]);
    for (from_bottom, text) in (1..).zip(LEGEND.iter().rev()) {
        let top = f64::from(view.size[1]) - f64::from(from_bottom) * 1.5 * line;
        write(&mut picture, [line / 2.0, top], text);
    }
    picture
}

impl View {
    fn of(places: &[[f64; 2]], cameras: &[[f64; 2]]) -> Self {
        let shown = [0, 1].map(|k| {
            let ranges = [places, cameras].map(|all| range(all.iter().map(|place| place[k])));
            let both = ranges.into_iter().flatten().reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
            both.unwrap_or_default()
        });
        let extent = shown.map(|[low, high]| high - low);
        let longer = extent[0].max(extent[1]);
        let (longer, border) = if longer > 0.0 { (longer, BORDER * longer) } else { (1.0, BORDER) };
        let scale = f64::from(SIDE) / (longer + 2.0 * border);
        let size = extent.map(|extent| (((extent + 2.0 * border) * scale) as u32).clamp(MIN_SIDE, SIDE));
        // What is shown is in the middle.
        let half = size.map(|size| f64::from(size) / (2.0 * scale));
        let middle = shown.map(|[low, high]| (low + high) / 2.0);
        Self { corner: [middle[0] - half[0], middle[1] + half[1]], scale, size }
    }

    /// The pixel of a place: seen from above, the second axis points to the top.
    fn pixel(&self, place: [f64; 2]) -> [f64; 2] {
        [(place[0] - self.corner[0]) * self.scale, (self.corner[1] - place[1]) * self.scale]
    }

    /// The splats as discs of one colour, the highest first.
    fn draw_splats(&self, splats: &Splats, division: &Division, places: &[[f64; 2]]) -> RgbImage8 {
        let up = cross(division.ground.axes[0], division.ground.axes[1]);
        let heights: Vec<f64> = splats.means.iter().map(|mean| dot(up, mean.map(f64::from))).collect();
        let mut order: Vec<usize> = (0..splats.len()).collect();
        order.sort_unstable_by(|&a, &b| heights[b].total_cmp(&heights[a]).then(a.cmp(&b)));
        let pixels = (self.size[0] * self.size[1]) as usize;
        let (mut colours, mut left) = (vec![0f32; 3 * pixels], vec![1f32; pixels]);
        for i in order {
            let [x, y] = self.pixel(places[i]);
            let scale = splats.log_scales[i].iter().fold(f32::MIN, |a, &b| a.max(b));
            let radius = (libm::exp(f64::from(scale)) * self.scale).clamp(0.5, MAX_RADIUS);
            let alpha = opacity(splats.opacity_logits[i]) as f32;
            let colour = std::array::from_fn::<f32, 3, _>(|k| {
                sh::colour_from_dc(splats.sh_coefficients(i)[k]).clamp(0.0, 1.0)
            });
            let rows = self.covered(y, radius, 1);
            for row in rows {
                for column in self.covered(x, radius, 0) {
                    let [dx, dy] = [column as f64 + 0.5 - x, row as f64 + 0.5 - y];
                    if dx * dx + dy * dy > radius * radius {
                        continue;
                    }
                    let at = row * self.size[0] as usize + column;
                    let weight = alpha * left[at];
                    left[at] -= weight;
                    colours[3 * at..3 * at + 3]
                        .iter_mut()
                        .zip(colour)
                        .for_each(|(sum, value)| *sum += weight * value);
                }
            }
        }
        let data = colours.into_iter().map(quantise).collect();
        RgbImage8 { width: self.size[0], height: self.size[1], data }
    }

    /// The columns (axis 0) or rows (axis 1) that a disc covers; none if its centre is not finite.
    fn covered(&self, centre: f64, radius: f64, axis: usize) -> std::ops::Range<usize> {
        // Casts saturate, and turn what is not a number into 0.
        let end = (centre + radius + 1.0) as usize;
        ((centre - radius).max(0.0) as usize)..end.min(self.size[axis] as usize)
    }

    /// The corners of the visible part of a cell, px.
    fn visible(&self, block: &BlockPlan) -> [[f64; 2]; 2] {
        let cell = &block.cell;
        let [left, bottom] = [0, 1].map(|k| cell.low[k].unwrap_or(f64::NEG_INFINITY));
        let [right, top] = [0, 1].map(|k| cell.high[k].unwrap_or(f64::INFINITY));
        let inside =
            |corner: [f64; 2]| std::array::from_fn(|k| corner[k].clamp(0.0, f64::from(self.size[k])));
        [inside(self.pixel([left, top])), inside(self.pixel([right, bottom]))]
    }

    fn draw_borders(&self, picture: &mut RgbImage8, block: &BlockPlan) {
        let [[left, top], [right, bottom]] = self.visible(block).map(|corner| corner.map(|v| v as i64));
        let cell = &block.cell;
        let sides = [
            (cell.low[0], [left, top], [left, bottom]),
            (cell.high[0], [right, top], [right, bottom]),
            (cell.low[1], [left, bottom], [right, bottom]),
            (cell.high[1], [left, top], [right, top]),
        ];
        for (_, from, to) in sides.into_iter().filter(|(border, ..)| border.is_some()) {
            fill(picture, from.map(|v| v - 1), to.map(|v| v + 1), BORDERS);
        }
    }
}

/// The range between the shown quantiles of finite numbers.
fn range(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(SHOWN_QUANTILES.map(|quantile| sorted[(quantile * last as f64).round() as usize]))
}

/// Fills a rectangle, corners included, as far as it lies in the picture.
fn fill(picture: &mut RgbImage8, from: [i64; 2], to: [i64; 2], colour: [u8; 3]) {
    let within = |v: [i64; 2], size: u32| v[0].max(0)..(v[1] + 1).min(i64::from(size));
    for row in within([from[1], to[1]], picture.height) {
        for column in within([from[0], to[0]], picture.width) {
            let at = 3 * (row as usize * picture.width as usize + column as usize);
            picture.data[at..at + 3].copy_from_slice(&colour);
        }
    }
}

/// Writes a line of text on a dark ground.
fn write(picture: &mut RgbImage8, corner: [f64; 2], text: &str) {
    if text.is_empty() {
        return;
    }
    let corner = corner.map(|v| v.max(0.0) as u32);
    let [width, height] = text_size(text, TEXT);
    let [from, to] = [corner, [corner[0] + width, corner[1] + height]].map(|corner| corner.map(i64::from));
    fill(picture, from.map(|v| v - i64::from(2 * TEXT)), to.map(|v| v + i64::from(TEXT)), INK);
    draw_text(picture, corner, text, TEXT, IN_ONE);
}

#[cfg(test)]
mod tests {
    use gausset_blocks::{Cell, DivisionSource, Ground};

    use super::*;

    const GROUND: Ground = Ground { axes: [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]] };

    fn splats(means: &[[f32; 3]], colours: &[f32]) -> Splats {
        let mut splats = Splats::with_capacity(0, means.len());
        for (&mean, &colour) in means.iter().zip(colours) {
            splats.push(mean, [-3.0; 3], [1.0, 0.0, 0.0, 0.0], 10.0, &[sh::dc_from_colour(colour); 3]);
        }
        splats
    }

    fn division(border: f64) -> Division {
        let left = Cell { high: [Some(border), None], ..Cell::default() };
        let right = Cell { low: [Some(border), None], ..Cell::default() };
        let block = |cell, images: &[&str]| BlockPlan {
            cell,
            steps: 1,
            max_splats: 1,
            images: images.iter().map(|&name| name.to_owned()).collect(),
            ..BlockPlan::default()
        };
        let blocks = vec![block(left, &["a"]), block(right, &["a", "b"])];
        Division::new(DivisionSource::default(), GROUND, 0, blocks, Vec::new())
    }

    fn pixel(picture: &RgbImage8, [x, y]: [f64; 2]) -> [u8; 3] {
        let at = 3 * (y as usize * picture.width as usize + x as usize);
        picture.data[at..at + 3].try_into().unwrap()
    }

    #[test]
    fn the_highest_splat_is_seen_and_borders_are_where_cells_meet() {
        // Up is -y: the white splat is above the black one.
        let set = splats(&[[0.0, 0.0, 0.0], [0.0, -1.0, 0.0], [4.0, 0.0, 2.0]], &[0.0, 1.0, 0.5]);
        let places: Vec<_> = set.means.iter().map(|&mean| GROUND.place(mean)).collect();
        let view = View::of(&places, &[]);
        let plan = division(1.0);
        let mut picture = view.draw_splats(&set, &plan, &places);
        assert_eq!(pixel(&picture, view.pixel([0.0, 0.0])), [255; 3]);
        assert!(pixel(&picture, view.pixel([4.0, 2.0])).iter().all(|value| value.abs_diff(128) <= 1));
        // The second axis points to the top.
        assert!(view.pixel([0.0, 2.0])[1] < view.pixel([0.0, 0.0])[1]);
        plan.blocks.iter().for_each(|block| view.draw_borders(&mut picture, block));
        assert_eq!(pixel(&picture, view.pixel([1.0, 0.5])), BORDERS);
        // Cells are open elsewhere.
        let corners = [[0.0, 0.0], [f64::from(view.size[0]) - 1.0, f64::from(view.size[1]) - 1.0]];
        assert!(corners.iter().all(|&corner| pixel(&picture, corner) == [0; 3]));
    }

    #[test]
    fn sets_that_have_no_extent_or_no_numbers_are_drawn() {
        for means in
            [&[][..], &[[1.0; 3]], &[[f32::NAN; 3], [f32::INFINITY; 3], [0.0; 3]], &[[-1e30; 3], [1e30; 3]]]
        {
            let set = splats(means, &vec![0.5; means.len()]);
            let places: Vec<_> = set.means.iter().map(|&mean| GROUND.place(mean)).collect();
            let view = View::of(&places, &[[0.0; 2]]);
            let plan = division(0.0);
            let mut picture = view.draw_splats(&set, &plan, &places);
            plan.blocks.iter().for_each(|block| view.draw_borders(&mut picture, block));
            assert_eq!(picture.data.len(), (3 * picture.width * picture.height) as usize, "{means:?}");
        }
    }
}
