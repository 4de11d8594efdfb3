//! Which images belong to which block.

use std::collections::BTreeMap;

use crate::Cell;

/// Maximum number of images of a block.
pub const MAX_IMAGES: usize = 1_500;
/// Share of an image's pixels that must show a cell, for the image to belong to its block.
const MIN_SHARE: f32 = 0.02;
/// The same for a camera in or next to the cell.
const MIN_SHARE_NEAR: f32 = 0.005;
/// In how many blocks an image may be on average, for a division that is made finer because blocks have too many.
const MAX_USES: usize = 2;

/// The images of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockImages {
    /// Sorted indices.
    pub images: Vec<usize>,
    /// Number of images that it would have, too, if it could have more than [`MAX_IMAGES`].
    pub left_out: usize,
}

/// The images of each cell's block. `shares[image][cell]` is the share of the image's pixels that show the cell, `places`
/// are those of the cameras on the ground, and images of one group (a moment of a rig, the faces of a panorama) stay
/// together. An image that shows no cell enough belongs to the one that it shows most; one that shows nothing belongs to
/// none. Of more than [`MAX_IMAGES`], those that show most of the cell stay.
#[must_use]
pub fn choose_images(
    shares: &[Vec<f32>],
    places: &[[f64; 2]],
    groups: &[Option<u32>],
    cells: &[Cell],
) -> Vec<BlockImages> {
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
    // Images that stay together, in the order of their first.
    let mut together: BTreeMap<(usize, Option<u32>), Vec<usize>> = BTreeMap::new();
    let mut first = BTreeMap::new();
    for (image, &group) in groups.iter().enumerate() {
        let first = group.map_or(image, |group| *first.entry(group).or_insert(image));
        together.entry((first, group)).or_default().push(image);
    }
    let of_cell = |(cell, members): (usize, Vec<bool>)| {
        let share = |images: &[usize]| images.iter().map(|&image| shares[image][cell]).fold(0.0, f32::max);
        let mut chosen: Vec<&Vec<usize>> =
            together.values().filter(|images| images.iter().any(|&image| members[image])).collect();
        let all: usize = chosen.iter().map(|images| images.len()).sum();
        if all > MAX_IMAGES {
            chosen.sort_by(|a, b| share(b).total_cmp(&share(a)));
        }
        let mut images: Vec<usize> = Vec::new();
        for group in chosen {
            if images.len() + group.len() > MAX_IMAGES {
                break;
            }
            images.extend(group);
        }
        images.sort_unstable();
        BlockImages { left_out: all - images.len(), images }
    };
    members.into_iter().enumerate().map(of_cell).collect()
}

/// Whether `count` blocks are better than these, because those leave images out, and the finer division would not use
/// each of the `images` more than twice.
#[must_use]
pub fn should_be_finer(blocks: &[BlockImages], count: usize, images: usize) -> bool {
    let used: usize = blocks.iter().map(|block| block.images.len()).sum();
    blocks.iter().any(|block| block.left_out > 0) && used * count <= MAX_USES * images * blocks.len()
}
