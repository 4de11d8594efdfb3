//! The order of dispatches of a step or picture: a table that any device could walk through.

use gausset_core::Stage;

use crate::kernels::{Kernel, Scanned, Sorted, Sums, Turn};
use crate::layout::{Buffer, Sizes};
use crate::record::argument;
use crate::rule_schedule::Change;
use crate::split::{Split, in_windows};

/// How many workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grid {
    /// One.
    One,
    /// So many: for tests.
    #[cfg(test)]
    Groups(u32),
    /// As many as the arguments of this number say, which are written on the device.
    Counted(u32),
}

/// A kernel on some buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispatch {
    /// The kernel.
    pub(crate) kernel: Kernel,
    /// Its buffers, in the order of its bindings.
    pub(crate) buffers: Vec<Buffer>,
    /// Which page of those that lie in pages.
    pub(crate) page: u64,
    /// How many workgroups.
    pub(crate) grid: Grid,
}

/// What a unit has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Tiles of the picture.
    pub(crate) tiles: u64,
    /// Whether lists are cut.
    pub(crate) capped: bool,
    /// What follows the lists.
    pub(crate) then: Then,
}

/// What follows the lists of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A picture.
    Picture {
        /// With depth and count.
        extras: bool,
    },
    /// Questions of what is in front.
    Questions,
    /// A training step.
    Step {
        /// Blocks of SH coefficients that the degree in use touches.
        sh_blocks: u64,
        /// Sums of absolute gradients.
        absolute: bool,
        /// The gradient of the sky.
        sky: bool,
        /// Rows of corrections move.
        rows: bool,
    },
    /// Rays of a view of free space.
    Rays {
        /// Nothing has been said against a splat before.
        first: bool,
    },
    /// A density rule: nothing of a view.
    Rule {
        /// Which.
        change: Change,
        /// The result is sorted along a Morton curve.
        reorder: bool,
        /// Blocks of SH coefficients that are stored.
        sh_blocks: u64,
    },
    /// A step from upstream gradients that the host has written, of colours, alpha and depth: for tests.
    #[cfg(test)]
    Probe {
        /// Blocks of SH coefficients.
        sh_blocks: u64,
        /// Absolute sums, in place of the gradient of the depth.
        absolute: bool,
    },
}

/// The buffers of a planner.
pub(crate) const PLANNED: [Buffer; 6] =
    [Buffer::Job, Buffer::Arguments, Buffer::Status, Buffer::Partials, Buffer::Sums, Buffer::Census];

/// Counts up to which one workgroup scans them all.
const ALONE: u64 = 65_536;

/// The dispatches of a unit, taken apart as that is wanted.
pub(crate) fn dispatches(unit: &Unit, sizes: &Sizes, split: &Split) -> Vec<Dispatch> {
    let is_rule = matches!(unit.then, Then::Rule { .. } | Then::Rays { .. });
    let stage = |kernel: Kernel| if is_rule { Stage::Density } else { kernel.stage() };
    in_windows(whole_dispatches(unit, sizes, split), &|kernel| split.windows.parts(stage(kernel)))
}

fn whole_dispatches(unit: &Unit, sizes: &Sizes, split: &Split) -> Vec<Dispatch> {
    let mut list = List::new(sizes);
    list.plan(Kernel::Begin);
    if let Then::Rule { change, reorder, sh_blocks } = unit.then {
        list.rule(change, reorder, sh_blocks, sizes.splats);
        return list.dispatches;
    }
    list.add(Kernel::View, &[Buffer::Job, Buffer::View, Buffer::Corrections], Grid::One);
    let order = list.by_depth(sizes);
    for band in 0..split.bands {
        if band > 0 {
            list.plan(Kernel::NextBand);
        }
        let entries = list.lists(unit, sizes, order);
        match unit.then {
            Then::Picture { extras } => list.blend(entries, extras, split.chunks),
            Then::Questions => {
                let buffers = [
                    Buffer::Job,
                    Buffer::Ranges,
                    entries,
                    Buffer::EntrySplats,
                    list.drawn.screen,
                    Buffer::Queries,
                ];
                list.add(Kernel::InFront, &buffers, Grid::Counted(argument::QUERIES));
            }
            Then::Rays { first } => list.rays(entries, first && band == 0),
            Then::Step { .. } => list.blend(entries, false, split.chunks),
            Then::Rule { .. } => {}
            #[cfg(test)]
            Then::Probe { .. } => list.blend(entries, false, split.chunks),
        }
    }
    match unit.then {
        Then::Step { sh_blocks, absolute, sky, rows } => {
            list.loss(sky);
            list.backward(unit, sizes, split, order, Sums { absolute, extras: false });
            list.update(sh_blocks, rows, false, sizes.pages());
        }
        #[cfg(test)]
        Then::Probe { sh_blocks, absolute } => {
            list.backward(unit, sizes, split, order, Sums { absolute, extras: true });
            list.update(sh_blocks, true, !absolute, sizes.pages());
        }
        _ => {}
    }
    list.dispatches
}

impl Dispatch {
    /// Whether it has many workgroups that take turns in any order.
    pub(crate) fn is_heavy(&self) -> bool {
        matches!(self.grid, Grid::Counted(argument) if argument != argument::ONE)
    }
}

/// A sort of visible splats by their depth keys alone, and where its result is: for tests.
#[cfg(test)]
pub(crate) fn depth_sort(passes: u8, sizes: &Sizes) -> (Vec<Dispatch>, [Buffer; 2]) {
    let mut list = List::new(sizes);
    let pairs = [[Buffer::DepthKeys0, Buffer::Order0], [Buffer::DepthKeys1, Buffer::Order1]];
    let result = list.sort(Sorted::Splats, pairs, passes, sizes.splats);
    (list.dispatches, result)
}

/// What follows the sums of the slots, with a gradient of the depth: for tests.
#[cfg(test)]
pub(crate) fn update_alone(sh_blocks: u64) -> Vec<Dispatch> {
    let mut list = List::new(&Sizes::default());
    list.add(Kernel::View, &[Buffer::Job, Buffer::View, Buffer::Corrections], Grid::One);
    list.update(sh_blocks, true, true, 1);
    list.dispatches
}

/// A scan of the numbers of tiles alone: for tests.
#[cfg(test)]
pub(crate) fn offset_scan() -> Vec<Dispatch> {
    let mut list = List::new(&Sizes::default());
    list.scan(Scanned::Tiles, Buffer::Offsets, argument::VISIBLE_BLOCKS);
    list.dispatches
}

/// Where the records of what is drawn lie: with the splats, or by themselves where those lie in pages.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    screen: Buffer,
    boxes: Buffer,
    gradients: Buffer,
}

pub(crate) struct List {
    dispatches: Vec<Dispatch>,
    /// The page that kernels on splats are bound to.
    page: u64,
    drawn: Drawn,
}

impl List {
    fn new(sizes: &Sizes) -> Self {
        let [screen, boxes, gradients] = match sizes.paging {
            None => [Buffer::Screen, Buffer::Boxes, Buffer::Gradients],
            Some(_) => [Buffer::Drawn, Buffer::DrawnBoxes, Buffer::DrawnGradients],
        };
        Self { dispatches: Vec::new(), page: 0, drawn: Drawn { screen, boxes, gradients } }
    }

    pub(crate) fn add(&mut self, kernel: Kernel, buffers: &[Buffer], grid: Grid) {
        self.dispatches.push(Dispatch { kernel, buffers: buffers.to_vec(), page: self.page, grid });
    }

    /// A planner: always one workgroup, until the unit has been halted.
    fn plan(&mut self, kernel: Kernel) {
        self.add(kernel, &PLANNED, Grid::One);
    }

    /// Goes on with another page, or with all of them.
    fn turn(&mut self, turn: Turn, page: u64) {
        self.plan(Kernel::TurnPage(turn));
        self.page = page;
    }

    /// Everything up to the visible splats by depth; the buffer that holds their numbers.
    fn by_depth(&mut self, sizes: &Sizes) -> Buffer {
        use Buffer as B;
        let counted = Grid::Counted;
        let project =
            [B::Job, B::View, B::Splats, B::Sh0, B::Sh1, B::Sh2, B::Sh3, B::Screen, B::Boxes, B::Partials];
        for page in 0..sizes.pages() {
            if page > 0 {
                self.turn(Turn::Next, page);
            }
            self.add(Kernel::Project, &project, counted(argument::SPLATS));
            self.plan(Kernel::PlanVisible);
            if sizes.paging.is_none() {
                let compact = [B::Job, B::Boxes, B::Partials, B::DepthKeys0, B::Order0];
                self.add(Kernel::Compact, &compact, counted(argument::SPLATS));
            } else {
                let Drawn { screen, boxes, .. } = self.drawn;
                let compact =
                    [B::Job, B::Boxes, B::Partials, B::Screen, B::DepthKeys0, B::Order0, screen, boxes];
                self.add(Kernel::CompactPage, &compact, counted(argument::SPLATS));
            }
        }
        let depth = [[B::DepthKeys0, B::Order0], [B::DepthKeys1, B::Order1]];
        let [_, order] = self.sort(Sorted::Splats, depth, 4, sizes.drawn());
        order
    }

    /// The entries of a band, by tile and depth: the buffers that hold their tiles and their numbers.
    fn entries(&mut self, unit: &Unit, sizes: &Sizes, order: Buffer) -> [Buffer; 2] {
        use Buffer as B;
        let counted = Grid::Counted;
        let boxes = self.drawn.boxes;
        self.add(Kernel::Gather, &[B::Job, boxes, order, B::Offsets], counted(argument::VISIBLE));
        self.scan(Scanned::Tiles, B::Offsets, argument::VISIBLE_BLOCKS);
        self.plan(Kernel::PlanEntries);
        let emit = [B::Job, boxes, order, B::Offsets, B::TileKeys0, B::Entries0, B::EntrySplats];
        self.add(Kernel::Emit, &emit, counted(argument::VISIBLE));
        let tiles = [[B::TileKeys0, B::Entries0], [B::TileKeys1, B::Entries1]];
        self.sort(Sorted::Entries, tiles, tile_passes(unit.tiles), sizes.entries)
    }

    /// The lists of the tiles of a band; the buffer that holds their entries.
    fn lists(&mut self, unit: &Unit, sizes: &Sizes, order: Buffer) -> Buffer {
        use Buffer as B;
        let [keys, entries] = self.entries(unit, sizes, order);
        self.add(Kernel::Ranges, &[B::Job, keys, B::Ranges], Grid::Counted(argument::ENTRIES));
        if unit.capped {
            let cap = [B::Job, B::Ranges, entries, B::EntrySplats, self.drawn.screen, B::Status];
            self.add(Kernel::Cap, &cap, Grid::Counted(argument::BAND));
        }
        entries
    }

    /// A radix sort in so many passes; the pair of buffers that holds the result.
    pub(crate) fn sort(
        &mut self,
        sorted: Sorted,
        pairs: [[Buffer; 2]; 2],
        passes: u8,
        room: u64,
    ) -> [Buffer; 2] {
        let (blocks, counts) = match sorted {
            Sorted::Splats => (argument::VISIBLE_BLOCKS, argument::VISIBLE_COUNTS),
            Sorted::Entries => (argument::ENTRY_BLOCKS, argument::ENTRY_COUNTS),
        };
        let [mut from, mut to] = pairs;
        for byte in 0..passes {
            let buffers = [Buffer::Job, from[0], from[1], to[0], to[1], Buffer::Counts];
            self.add(Kernel::Histogram(sorted, byte), &buffers, Grid::Counted(blocks));
            let scanned = Scanned::Counts(sorted);
            if 256 * room.div_ceil(4096) <= ALONE {
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

    /// An exclusive scan whose total stands behind the sums of its blocks.
    pub(crate) fn scan(&mut self, scanned: Scanned, data: Buffer, blocks: u32) {
        let buffers = [Buffer::Job, data, Buffer::Partials];
        self.add(Kernel::Reduce(scanned), &buffers, Grid::Counted(blocks));
        self.add(Kernel::Spine(scanned), &buffers, Grid::Counted(argument::ONE));
        self.add(Kernel::Down(scanned), &buffers, Grid::Counted(blocks));
    }

    fn blend(&mut self, entries: Buffer, extras: bool, chunks: u32) {
        use Buffer as B;
        let depths = if extras { B::Depths } else { B::Nothing };
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

    /// A kernel that walks over lists, in so many dispatches.
    fn in_chunks(&mut self, kernel: Kernel, buffers: &[Buffer], chunks: u32) {
        for _ in 0..chunks {
            self.add(kernel, buffers, Grid::Counted(argument::BAND));
            if chunks > 1 {
                self.plan(Kernel::NextChunk);
            }
        }
    }

    fn loss(&mut self, sky: bool) {
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

    /// Gradients of the screen splats. The entries of the last band are there, of the others they are made again; what each
    /// tile has and uses of them the ranges still know.
    fn backward(&mut self, unit: &Unit, sizes: &Sizes, split: &Split, order: Buffer, sums: Sums) {
        use Buffer as B;
        let extras = if sums.extras { B::Derivatives } else { B::Nothing };
        for _ in 0..split.bands {
            let entries = if split.bands > 1 {
                self.plan(Kernel::NextBand);
                let [_, entries] = self.entries(unit, sizes, order);
                entries
            } else {
                sorted_entries(unit.tiles)
            };
            let Drawn { screen, boxes, gradients } = self.drawn;
            let vjp = [B::Job, B::Ranges, entries, B::EntrySplats, screen, B::Pixels, B::Slots, extras];
            self.in_chunks(Kernel::BlendVjp(sums), &vjp, split.chunks);
            let sum = [B::Job, boxes, order, B::Offsets, B::Slots, gradients];
            self.add(Kernel::SlotSum, &sum, Grid::Counted(argument::VISIBLE));
        }
    }

    fn update(&mut self, sh_blocks: u64, rows: bool, depth: bool, pages: u64) {
        use Buffer as B;
        for page in 0..pages {
            if pages > 1 {
                self.turn(if page == 0 { Turn::First } else { Turn::Next }, page);
                let gradients = [B::Job, B::Boxes, self.drawn.gradients, B::Gradients];
                self.add(Kernel::PageGradients, &gradients, Grid::Counted(argument::SPLATS));
            }
            self.update_page(sh_blocks, depth);
        }
        if pages > 1 {
            self.turn(Turn::Whole, 0);
        }
        if rows {
            let rows = [B::Job, B::View, B::Corrections, B::Sums, B::TileSums];
            self.add(Kernel::Rows, &rows, Grid::Counted(argument::ONE));
        }
        // Not for a unit that was halted; the arguments cannot be read and written in one dispatch, so it looks itself.
        self.add(Kernel::Finish, &PLANNED, Grid::One);
    }

    /// Gradients and update of the splats of a page.
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

/// Where the numbers of the entries are after their sort.
fn sorted_entries(tiles: u64) -> Buffer {
    if tile_passes(tiles).is_multiple_of(2) { Buffer::Entries0 } else { Buffer::Entries1 }
}

/// Passes of 8 bits that the numbers of so many tiles need.
fn tile_passes(tiles: u64) -> u8 {
    let bits = u64::BITS - tiles.saturating_sub(1).leading_zeros();
    bits.div_ceil(8).max(1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::Windows;

    #[test]
    fn tiles_are_sorted_in_as_few_passes_as_their_numbers_need() {
        assert_eq!([1, 2, 256, 257, 65_536, 65_537].map(tile_passes), [1, 1, 1, 2, 2, 3]);
    }

    const WHOLE: Split = Split { band_rows: u32::MAX, bands: 1, chunks: 1, windows: Windows::WHOLE };

    #[test]
    fn every_dispatch_has_a_buffer_for_each_binding() {
        let apart = Split { bands: 2, chunks: 2, windows: Windows::of(|_| 2), ..Split::default() };
        for then in [
            Then::Picture { extras: true },
            Then::Step { sh_blocks: 4, absolute: true, sky: true, rows: true },
            Then::Rule { change: Change::Classic, reorder: true, sh_blocks: 4 },
            Then::Rule { change: Change::Mcmc, reorder: false, sh_blocks: 1 },
            Then::Rule { change: Change::Reset, reorder: false, sh_blocks: 3 },
            Then::Rule { change: Change::Clear, reorder: false, sh_blocks: 3 },
            Then::Rays { first: true },
        ] {
            let unit = Unit { tiles: 1000, capped: true, then };
            for dispatch in
                dispatches(&unit, &Sizes { splats: 4096, entries: 4096, ..Sizes::default() }, &apart)
            {
                assert_eq!(dispatch.buffers.len(), dispatch.kernel.source().bindings.len(), "{dispatch:?}");
            }
        }
    }

    #[test]
    fn a_step_takes_no_more_dispatches_than_the_architecture_says() {
        let then = Then::Step { sh_blocks: 4, absolute: false, sky: false, rows: true };
        let unit = Unit { tiles: 726, capped: false, then };
        let count = |entries: u64| {
            dispatches(&unit, &Sizes { splats: 1 << 18, entries, ..Sizes::default() }, &WHOLE).len()
        };
        assert_eq!(count(1 << 20), 45);
        assert!(count(1 << 24) <= 64);
    }

    #[test]
    fn a_step_on_pages_repeats_what_is_done_for_each_splat() {
        let then = Then::Step { sh_blocks: 4, absolute: false, sky: false, rows: true };
        let unit = Unit { tiles: 726, capped: false, then };
        let paging = Some(crate::layout::Paging { page: 1 << 18, drawn: 1 << 18 });
        let on =
            |pages: u64, paging| Sizes { splats: pages << 18, paging, entries: 1 << 20, ..Sizes::default() };
        let count = |sizes: Sizes| dispatches(&unit, &sizes, &WHOLE).len();
        // `turn_page` twice, `project`, `plan_visible`, `compact_page`, `page_gradients`, seven of the update; back to all.
        assert_eq!(count(on(3, paging)) - count(on(2, paging)), 13);
        assert_eq!(count(on(2, paging)), count(on(1, None)) + 13 + 3);
    }

    #[test]
    fn a_rule_takes_no_more_dispatches_than_the_architecture_says() {
        let count = |change: Change, reorder: bool| {
            let unit = Unit { tiles: 0, capped: false, then: Then::Rule { change, reorder, sh_blocks: 4 } };
            dispatches(&unit, &Sizes { splats: 1 << 20, ..Sizes::default() }, &WHOLE).len()
        };
        assert_eq!([false, true].map(|reorder| count(Change::Classic, reorder)), [60, 74]);
        assert_eq!([false, true].map(|reorder| count(Change::Mcmc, reorder)), [80, 94]);
        assert_eq!([Change::Reset, Change::Clear].map(|change| count(change, false)), [3, 3]);
        // A view of free space, 256 px wide.
        let view = |first: bool| {
            let unit = Unit { tiles: 256, capped: false, then: Then::Rays { first } };
            dispatches(&unit, &Sizes { splats: 1 << 20, entries: 1 << 20, ..Sizes::default() }, &WHOLE).len()
        };
        assert_eq!([false, true].map(view), [28, 29]);
    }
}
