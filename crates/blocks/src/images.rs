//! Which images belong to which block.

use crate::Cell;

/// Maximum number of images of a block.
pub const MAX_IMAGES: usize = 1_500;
/// Share of an image's pixels that must show a cell, for the image to belong to its block.
const MIN_SHARE: f32 = 0.02;
/// The same for a camera in or next to the cell.
const MIN_SHARE_NEAR: f32 = 0.005;

/// The images of each cell's block, as sorted indices. `shares[image][cell]` is the share of the image's pixels that show
/// the cell, `places` are those of the cameras on the ground, and images of one group (a moment of a rig, the faces of a
/// panorama) stay together. An image that shows no cell enough belongs to the one that it shows most; one that shows
/// nothing belongs to none. Of more than [`MAX_IMAGES`], those that show most of the cell stay.
#[must_use]
pub fn choose_images(
    shares: &[Vec<f32>],
    places: &[[f64; 2]],
    groups: &[Option<u32>],
    cells: &[Cell],
) -> Vec<Vec<usize>> {
    let belongs = |image: usize, cell: usize| {
        let share = shares[image][cell];
        share >= MIN_SHARE || share >= MIN_SHARE_NEAR && cells[cell].is_near(places[image])
    };
    let most = |image: usize| {
        let by_share = |a: &usize, b: &usize| shares[image][*a].total_cmp(&shares[image][*b]).then(b.cmp(a));
        (0..cells.len()).max_by(by_share).filter(|&cell| shares[image][cell] > 0.0)
    };
    let mut members = vec![vec![false; shares.len()]; cells.len()];
    for image in 0..shares.len() {
        for cell in (0..cells.len()).filter(|&cell| belongs(image, cell)).chain(most(image)) {
            members[cell][image] = true;
        }
    }
    for (cell, members) in members.iter_mut().enumerate() {
        let chosen: std::collections::BTreeSet<u32> =
            (0..shares.len()).filter(|&image| members[image]).filter_map(|image| groups[image]).collect();
        for image in 0..shares.len() {
            members[image] |= groups[image].is_some_and(|group| chosen.contains(&group));
        }
        let mut images: Vec<usize> = (0..shares.len()).filter(|&image| members[image]).collect();
        if images.len() > MAX_IMAGES {
            images.sort_by(|&a, &b| shares[b][cell].total_cmp(&shares[a][cell]).then(a.cmp(&b)));
            images[MAX_IMAGES..].iter().for_each(|&image| members[image] = false);
        }
    }
    let indices = |members: Vec<bool>| (0..members.len()).filter(|&image| members[image]).collect();
    members.into_iter().map(indices).collect()
}
