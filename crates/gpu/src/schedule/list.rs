//! Sequences of dispatches: tile lists of a view, its render, a step.

use super::{Dispatch, Grid, PLAN_BUFFERS, Unit};
use crate::kernels::{BlendVjpVariant, Kernel, PageSelection, ScanInput, SortInput};
use crate::layout::{Buffer, Capacities};
use crate::record::argument;
use crate::split::WorkSplit;

/// Largest number of counts that a single workgroup scans.
const MAX_SINGLE_WORKGROUP_SCAN: u64 = 65_536;

/// The buffers of the records of visible splats: those of the splats or, if these are paged, separate ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct VisibleBuffers {
    pub(super) screen: Buffer,
    boxes: Buffer,
    gradients: Buffer,
}

pub(crate) struct DispatchList {
    pub(super) dispatches: Vec<Dispatch>,
    /// The page to which kernels on splats are bound.
    page: u64,
    pub(super) drawn: VisibleBuffers,
}

impl DispatchList {
    pub(super) fn new(sizes: &Capacities) -> Self {
        let [screen, boxes, gradients] = match sizes.paging {
            None => [Buffer::Screen, Buffer::Boxes, Buffer::Gradients],
            Some(_) => [Buffer::VisibleRecords, Buffer::VisibleBoxes, Buffer::VisibleGradients],
        };
        Self { dispatches: Vec::new(), page: 0, drawn: VisibleBuffers { screen, boxes, gradients } }
    }

    pub(crate) fn add(&mut self, kernel: Kernel, buffers: &[Buffer], grid: Grid) {
        self.dispatches.push(Dispatch { kernel, buffers: buffers.to_vec(), page: self.page, grid });
    }

    /// Adds a planning kernel: always one workgroup, unless the unit has been halted.
    pub(super) fn plan(&mut self, kernel: Kernel) {
        self.add(kernel, &PLAN_BUFFERS, Grid::One);
    }

    /// Switches to another page, or to all of them.
    fn select_page(&mut self, turn: PageSelection, page: u64) {
        self.plan(Kernel::TurnPage(turn));
        self.page = page;
    }

    /// Adds everything up to the depth sort of visible splats; returns the buffer with their sorted indices.
    pub(super) fn by_depth(&mut self, sizes: &Capacities) -> Buffer {
        use Buffer as B;
        let counted = Grid::Counted;
        let project =
            [B::Job, B::View, B::Splats, B::Sh0, B::Sh1, B::Sh2, B::Sh3, B::Screen, B::Boxes, B::Partials];
        for page in 0..sizes.pages() {
            if page > 0 {
                self.select_page(PageSelection::Next, page);
            }
            self.add(Kernel::Project, &project, counted(argument::SPLATS));
            self.plan(Kernel::PlanVisible);
            if sizes.paging.is_none() {
                let compact = [B::Job, B::Boxes, B::Partials, B::DepthKeys0, B::Order0];
                self.add(Kernel::Compact, &compact, counted(argument::SPLATS));
            } else {
                let VisibleBuffers { screen, boxes, .. } = self.drawn;
                let compact =
                    [B::Job, B::Boxes, B::Partials, B::Screen, B::DepthKeys0, B::Order0, screen, boxes];
                self.add(Kernel::CompactPage, &compact, counted(argument::SPLATS));
            }
        }
        let depth = [[B::DepthKeys0, B::Order0], [B::DepthKeys1, B::Order1]];
        let [_, order] = self.sort(SortInput::Splats, depth, 4, sizes.visible_capacity());
        order
    }

    /// Adds the entries of a band, sorted by tile and depth; returns the buffers with their tiles and indices.
    fn entries(&mut self, unit: &Unit, sizes: &Capacities, order: Buffer) -> [Buffer; 2] {
        use Buffer as B;
        let counted = Grid::Counted;
        let boxes = self.drawn.boxes;
        self.add(Kernel::Gather, &[B::Job, boxes, order, B::Offsets], counted(argument::VISIBLE));
        self.scan(ScanInput::Tiles, B::Offsets, argument::VISIBLE_BLOCKS);
        self.plan(Kernel::PlanEntries);
        let emit = [B::Job, boxes, order, B::Offsets, B::TileKeys0, B::Entries0, B::EntrySplats];
        self.add(Kernel::Emit, &emit, counted(argument::VISIBLE));
        let tiles = [[B::TileKeys0, B::Entries0], [B::TileKeys1, B::Entries1]];
        self.sort(SortInput::Entries, tiles, tile_passes(unit.tiles), sizes.entries)
    }

    /// Adds the tile lists of a band; returns the buffer with their entries.
    pub(super) fn lists(&mut self, unit: &Unit, sizes: &Capacities, order: Buffer) -> Buffer {
        use Buffer as B;
        let [keys, entries] = self.entries(unit, sizes, order);
        self.add(Kernel::Ranges, &[B::Job, keys, B::Ranges], Grid::Counted(argument::ENTRIES));
        if unit.capped {
            let cap = [B::Job, B::Ranges, entries, B::EntrySplats, self.drawn.screen, B::Status];
            self.add(Kernel::Cap, &cap, Grid::Counted(argument::BAND));
        }
        entries
    }

    /// Adds a radix sort of `passes` passes; returns the pair of buffers with the result.
    pub(crate) fn sort(
        &mut self,
        sorted: SortInput,
        pairs: [[Buffer; 2]; 2],
        passes: u8,
        room: u64,
    ) -> [Buffer; 2] {
        let (blocks, counts) = match sorted {
            SortInput::Splats => (argument::VISIBLE_BLOCKS, argument::VISIBLE_COUNTS),
            SortInput::Entries => (argument::ENTRY_BLOCKS, argument::ENTRY_COUNTS),
        };
        let [mut from, mut to] = pairs;
        for byte in 0..passes {
            let buffers = [Buffer::Job, from[0], from[1], to[0], to[1], Buffer::Counts];
            self.add(Kernel::Histogram(sorted, byte), &buffers, Grid::Counted(blocks));
            let scanned = ScanInput::Counts(sorted);
            if 256 * room.div_ceil(4096) <= MAX_SINGLE_WORKGROUP_SCAN {
                let buffers = [Buffer::Job, Buffer::Counts, Buffer::Partials];
                self.add(Kernel::Alone(scanned), &buffers, Grid::Counted(argument::ONE));
            } else {
                self.scan(scanned, Buffer::Counts, counts);
            }
            self.add(Kernel::Scatter(sorted, byte), &buffers, Grid::Counted(blocks));
            (from, to) = (to, from);
        }
        from
    }

    /// Adds an exclusive scan whose total is stored after the sums of its blocks.
    pub(crate) fn scan(&mut self, scanned: ScanInput, data: Buffer, blocks: u32) {
        let buffers = [Buffer::Job, data, Buffer::Partials];
        self.add(Kernel::Reduce(scanned), &buffers, Grid::Counted(blocks));
        self.add(Kernel::Spine(scanned), &buffers, Grid::Counted(argument::ONE));
        self.add(Kernel::Down(scanned), &buffers, Grid::Counted(blocks));
    }

    pub(super) fn blend(&mut self, entries: Buffer, extras: bool, chunks: u32) {
        use Buffer as B;
        let depths = if extras { B::Depths } else { B::Unused };
        let buffers = [
            B::Job,
            B::View,
            B::Ranges,
            entries,
            B::EntrySplats,
            self.drawn.screen,
            B::Pixels,
            depths,
            B::Corrections,
            B::Status,
        ];
        self.in_chunks(Kernel::Blend(extras), &buffers, chunks);
    }

    /// Adds a kernel that walks over tile lists, in `chunks` dispatches.
    fn in_chunks(&mut self, kernel: Kernel, buffers: &[Buffer], chunks: u32) {
        for _ in 0..chunks {
            self.add(kernel, buffers, Grid::Counted(argument::BAND));
            if chunks > 1 {
                self.plan(Kernel::NextChunk);
            }
        }
    }

    pub(super) fn loss(&mut self, sky: bool) {
        use Buffer as B;
        let tiles = Grid::Counted(argument::TILES);
        let loss = [B::Job, B::Pixels, B::Picture, B::Corrections, B::Derivatives, B::Partials];
        self.add(Kernel::Loss, &loss, tiles);
        self.plan(Kernel::PlanLoss);
        let vjp = [B::Job, B::Pixels, B::Picture, B::Corrections, B::Derivatives, B::TileSums];
        self.add(Kernel::LossVjp, &vjp, tiles);
        if sky {
            let vjp = [B::Job, B::View, B::Pixels, B::Corrections, B::TileSums];
            self.add(Kernel::SkyVjp, &vjp, tiles);
        }
    }

    /// Adds the gradients of the screen splats. The lists of the last band exist; those of the other bands are built
    /// again. The ranges keep the lengths of each tile's list and of its used part.
    pub(super) fn backward(
        &mut self,
        unit: &Unit,
        sizes: &Capacities,
        split: &WorkSplit,
        order: Buffer,
        sums: BlendVjpVariant,
    ) {
        use Buffer as B;
        let extras = if sums.extras { B::Derivatives } else { B::Unused };
        for _ in 0..split.bands {
            let entries = if split.bands > 1 {
                self.plan(Kernel::NextBand);
                let [_, entries] = self.entries(unit, sizes, order);
                entries
            } else {
                sorted_entries(unit.tiles)
            };
            let VisibleBuffers { screen, boxes, gradients } = self.drawn;
            let vjp = [B::Job, B::Ranges, entries, B::EntrySplats, screen, B::Pixels, B::Slots, extras];
            self.in_chunks(Kernel::BlendVjp(sums), &vjp, split.chunks);
            let sum = [B::Job, boxes, order, B::Offsets, B::Slots, gradients];
            self.add(Kernel::SlotSum, &sum, Grid::Counted(argument::VISIBLE));
        }
    }

    pub(super) fn update(&mut self, sh_blocks: u64, rows: bool, depth: bool, pages: u64) {
        use Buffer as B;
        for page in 0..pages {
            if pages > 1 {
                self.select_page(if page == 0 { PageSelection::First } else { PageSelection::Next }, page);
                let gradients = [B::Job, B::Boxes, self.drawn.gradients, B::Gradients];
                self.add(Kernel::PageGradients, &gradients, Grid::Counted(argument::SPLATS));
            }
            self.update_page(sh_blocks, depth);
        }
        if pages > 1 {
            self.select_page(PageSelection::Whole, 0);
        }
        if rows {
            let rows = [B::Job, B::View, B::Corrections, B::Sums, B::TileSums];
            self.add(Kernel::Rows, &rows, Grid::Counted(argument::ONE));
        }
        // Has no effect for a halted unit. It checks that itself, because arguments cannot be read and written in one
        // dispatch.
        self.add(Kernel::Finish, &PLAN_BUFFERS, Grid::One);
    }

    /// Adds gradients and update of the splats of a page.
    fn update_page(&mut self, sh_blocks: u64, depth: bool) {
        use Buffer as B;
        let splats = Grid::Counted(argument::SPLATS);
        let direction = [
            B::Job,
            B::View,
            B::Boxes,
            B::Splats,
            B::Sh0,
            B::Sh1,
            B::Sh2,
            B::Sh3,
            B::Gradients,
            B::Directions,
        ];
        self.add(Kernel::Direction, &direction, splats);
        let vjp = [
            B::Job,
            B::View,
            B::Splats,
            B::Splats1,
            B::Splats2,
            B::Gradients,
            B::Directions,
            B::Records,
            B::Boxes,
            B::Sums,
        ];
        self.add(Kernel::ProjectVjp(depth), &vjp, splats);
        for block in 0..sh_blocks as usize {
            let adam = [
                B::Job,
                B::SH[block],
                B::SH_FIRST[block],
                B::SH_SECOND[block],
                B::Gradients,
                B::Directions,
                B::Records,
                B::Sums,
            ];
            self.add(Kernel::ShAdam(block as u8), &adam, splats);
        }
        self.add(Kernel::Dead, &[B::Job, B::Splats, B::Sh0, B::Status], splats);
    }
}

/// The buffer with the indices of the entries after their sort.
fn sorted_entries(tiles: u64) -> Buffer {
    if tile_passes(tiles).is_multiple_of(2) { Buffer::Entries0 } else { Buffer::Entries1 }
}

/// Number of 8-bit passes for this number of tiles.
fn tile_passes(tiles: u64) -> u8 {
    let bits = u64::BITS - tiles.saturating_sub(1).leading_zeros();
    bits.div_ceil(8).max(1) as u8
}

/// Only the sort of visible splats by depth keys, and the buffer of its result: for tests.
#[cfg(test)]
pub(crate) fn depth_sort(passes: u8, sizes: &Capacities) -> (Vec<Dispatch>, [Buffer; 2]) {
    let mut list = DispatchList::new(sizes);
    let pairs = [[Buffer::DepthKeys0, Buffer::Order0], [Buffer::DepthKeys1, Buffer::Order1]];
    let result = list.sort(SortInput::Splats, pairs, passes, sizes.splats);
    (list.dispatches, result)
}

/// The dispatches after the sums of the slots, with a gradient of the depth: for tests.
#[cfg(test)]
pub(crate) fn update_alone(sh_blocks: u64) -> Vec<Dispatch> {
    let mut list = DispatchList::new(&Capacities::default());
    list.add(Kernel::View, &[Buffer::Job, Buffer::View, Buffer::Corrections], Grid::One);
    list.update(sh_blocks, true, true, 1);
    list.dispatches
}

/// Only a scan of tile counts: for tests.
#[cfg(test)]
pub(crate) fn offset_scan() -> Vec<Dispatch> {
    let mut list = DispatchList::new(&Capacities::default());
    list.scan(ScanInput::Tiles, Buffer::Offsets, argument::VISIBLE_BLOCKS);
    list.dispatches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_sorted_in_as_few_passes_as_their_numbers_need() {
        assert_eq!([1, 2, 256, 257, 65_536, 65_537].map(tile_passes), [1, 1, 1, 2, 2, 3]);
    }
}
