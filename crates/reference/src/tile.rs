//! Depth order, and the splats of each tile (README, section 3).
//!
//! Renders do not depend on tiles; only the cap does. The list of a tile holds, nearest first, the splats that reach
//! alpha 1/255 at one or more of its pixel centres, before any early stop; a cap keeps the first entries.

use gausset_core::Camera;
use gausset_core::constants::TILE_SIZE;

use super::alpha::alpha_at;
use super::project::ScreenSplat;

/// The lists of all tiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileLists {
    /// Tiles per row and column.
    pub tiles: [u32; 2],
    /// Indices of splats per tile, rows of tiles first, nearest splat first, cut at the cap.
    pub lists: Vec<Vec<u32>>,
    /// Length of the longest list before the cap.
    pub longest_list: usize,
    /// Number of tiles whose list was cut.
    pub capped_tiles: usize,
}

impl TileLists {
    /// The list of the tile that contains a pixel.
    #[must_use]
    pub fn list_at_pixel(&self, column: u32, row: u32) -> &[u32] {
        let [columns, _] = self.tiles;
        &self.lists[((row / TILE_SIZE) * columns + column / TILE_SIZE) as usize]
    }
}

/// Indices of the projected splats by ascending depth; equal depth: lower index first.
#[must_use]
pub fn depth_order(screen: &[Option<ScreenSplat>]) -> Vec<u32> {
    let mut by_depth: Vec<(f64, u32)> =
        screen.iter().zip(0..).filter_map(|(splat, index)| Some((splat.as_ref()?.depth, index))).collect();
    by_depth.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    by_depth.into_iter().map(|(_, index)| index).collect()
}

/// The lists of all tiles of an image; `cap` 0 = no limit.
#[must_use]
pub fn tile_lists(screen: &[Option<ScreenSplat>], camera: &Camera, cap: u32) -> TileLists {
    let tiles @ [columns, rows] = camera.tiles();
    let order = depth_order(screen);
    let mut result = TileLists { tiles, ..TileLists::default() };
    for tile_row in 0..rows {
        for tile_column in 0..columns {
            let x_range = tile_column * TILE_SIZE..((tile_column + 1) * TILE_SIZE).min(camera.width);
            let y_range = tile_row * TILE_SIZE..((tile_row + 1) * TILE_SIZE).min(camera.height);
            let is_seen = |index: &u32| {
                screen[*index as usize].as_ref().is_some_and(|splat| {
                    y_range
                        .clone()
                        .any(|y| x_range.clone().any(|x| alpha_at(splat, pixel_centre(x, y)).is_some()))
                })
            };
            let mut list: Vec<u32> = order.iter().copied().filter(is_seen).collect();
            result.longest_list = result.longest_list.max(list.len());
            if cap > 0 && list.len() > cap as usize {
                list.truncate(cap as usize);
                result.capped_tiles += 1;
            }
            result.lists.push(list);
        }
    }
    result
}

/// Centre of a pixel.
#[must_use]
pub fn pixel_centre(column: u32, row: u32) -> [f64; 2] {
    [f64::from(column) + 0.5, f64::from(row) + 0.5]
}
