//! All buffers of the device with their sizes; no other module computes bytes.
//!
//! N is the capacity for splats (a multiple of 4096), M that for tile entries, P and T the pixels and tiles of the
//! largest image so far. Values per splat are stored in *planes* of vec4, element (plane k, splat i) at `k N + i`:
//! neighbouring threads read neighbouring 16 bytes, and no buffer takes more than 48 bytes per splat, so that a binding
//! limit of 2 GiB is reached at 44 million splats, one of 128 MiB at 2.79 million.
//!
//! A larger state is stored in *pages* of W splats, each with its planes: element (plane k, splat i) of p planes at
//! `(i / W) p W + k W + i mod W`. A kernel on splats is dispatched for each page and bound to it alone. The screen
//! records of visible splats are copied to separate buffers, at most as many as a binding holds; all kernels on pixels
//! read these.

use std::ops::Range;

use gausset_core::engine::{CorrectionKind, SKY_VALUES};
use gausset_core::sh;

use crate::in_flight::IN_FLIGHT;
use crate::record::{
    BIAS_CLOCKS, Job, Record, Rule, SCAN_BLOCK, SUMS_STRIDE, TILE_SUMS, View, argument, census, status,
};

/// Bytes that are written or read at a time.
pub(crate) const TRANSFER_CHUNK: u64 = 16 << 20;

/// A buffer on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Buffer {
    /// The record of the unit.
    Job,
    /// The camera of the unit.
    View,
    /// Arguments of indirect dispatches, 16 bytes each.
    Arguments,
    /// The status of the unit.
    Status,
    /// (mean, opacity logit), quaternion, (log scales, 0).
    Splats,
    /// First Adam moments of `Splats`.
    Splats1,
    /// Second Adam moments of `Splats`.
    Splats2,
    /// SH coefficients 0 to 3 of three channels each; block b holds coefficients 4 b and up.
    Sh0,
    /// Coefficients 4 to 7.
    Sh1,
    /// Coefficients 8 to 11.
    Sh2,
    /// Coefficients 12 to 15.
    Sh3,
    /// First moments of SH block 0.
    ShFirst0,
    /// First moments of SH block 1.
    ShFirst1,
    /// First moments of SH block 2.
    ShFirst2,
    /// First moments of SH block 3.
    ShFirst3,
    /// Second moments of SH block 0.
    ShSecond0,
    /// Second moments of SH block 1.
    ShSecond1,
    /// Second moments of SH block 2.
    ShSecond2,
    /// Second moments of SH block 3.
    ShSecond3,
    /// Five words: id, clock, visible steps, bits of the gradient sum and of the largest radius.
    Records,
    /// Screen records of splats, see `project.wgsl`.
    Screen,
    /// Tiles and depth of each splat.
    Boxes,
    /// Sums per block: of scans, of visible splats, of the loss.
    Partials,
    /// Keys of the depth sort.
    DepthKeys0,
    /// Output of a pass of the depth sort: keys.
    DepthKeys1,
    /// Splats in the order of the keys.
    Order0,
    /// Output of a pass of the depth sort: splats.
    Order1,
    /// First entry of each visible splat, in depth order.
    Offsets,
    /// Digit counts of a sort.
    Counts,
    /// Tile of each entry.
    TileKeys0,
    /// Output of a pass of the tile sort: tiles.
    TileKeys1,
    /// Indices of the entries, by tile and depth.
    Entries0,
    /// Output of a pass of the tile sort: entries.
    Entries1,
    /// Splat of each entry.
    EntrySplats,
    /// Gradient sums over the pixels of each entry: three vec4.
    Slots,
    /// Range of the entries of each tile.
    Ranges,
    /// The render, followed by its gradient.
    Pixels,
    /// Depth and count of each pixel, if requested.
    Depths,
    /// Derivatives of SSIM: nine floats per pixel.
    Derivatives,
    /// The target image as RGBA bytes, followed by its mask as bits.
    Picture,
    /// Sums of the slots of each splat.
    Gradients,
    /// Viewing directions, and the gradients of the means through them.
    Directions,
    /// Bias corrections by clock, then sums of each group of 256 splats.
    Sums,
    /// Sums of each tile for the correction rows.
    TileSums,
    /// The groups of corrections.
    Corrections,
    /// Queries of weights in front of depths, and their results: four words each.
    Queries,
    /// Upload of a free-space rule: the rays of a view, or bubbles and cameras.
    FreeSpace,
    /// The record of a density rule.
    Rule,
    /// The device's own counts of its splats.
    SplatCounts,
    /// Screen records of visible splats, if splats are stored in pages.
    VisibleRecords,
    /// Their tiles and depth.
    VisibleBoxes,
    /// Sums of their slots.
    VisibleGradients,
    /// Bound if a kernel has a binding that it does not use.
    Unused,
}

impl Buffer {
    /// All buffers, in order.
    pub(crate) const ALL: [Self; 53] = [
        Self::Job,
        Self::View,
        Self::Arguments,
        Self::Status,
        Self::Splats,
        Self::Splats1,
        Self::Splats2,
        Self::Sh0,
        Self::Sh1,
        Self::Sh2,
        Self::Sh3,
        Self::ShFirst0,
        Self::ShFirst1,
        Self::ShFirst2,
        Self::ShFirst3,
        Self::ShSecond0,
        Self::ShSecond1,
        Self::ShSecond2,
        Self::ShSecond3,
        Self::Records,
        Self::Screen,
        Self::Boxes,
        Self::Partials,
        Self::DepthKeys0,
        Self::DepthKeys1,
        Self::Order0,
        Self::Order1,
        Self::Offsets,
        Self::Counts,
        Self::TileKeys0,
        Self::TileKeys1,
        Self::Entries0,
        Self::Entries1,
        Self::EntrySplats,
        Self::Slots,
        Self::Ranges,
        Self::Pixels,
        Self::Depths,
        Self::Derivatives,
        Self::Picture,
        Self::Gradients,
        Self::Directions,
        Self::Sums,
        Self::TileSums,
        Self::Corrections,
        Self::Queries,
        Self::FreeSpace,
        Self::Rule,
        Self::SplatCounts,
        Self::VisibleRecords,
        Self::VisibleBoxes,
        Self::VisibleGradients,
        Self::Unused,
    ];

    /// Blocks of SH coefficients.
    pub(crate) const SH: [Self; 4] = [Self::Sh0, Self::Sh1, Self::Sh2, Self::Sh3];
    /// Their first moments.
    pub(crate) const SH_FIRST: [Self; 4] = [Self::ShFirst0, Self::ShFirst1, Self::ShFirst2, Self::ShFirst3];
    /// Their second moments.
    pub(crate) const SH_SECOND: [Self; 4] =
        [Self::ShSecond0, Self::ShSecond1, Self::ShSecond2, Self::ShSecond3];

    /// Tile lists, which are sized by the capacity for entries alone.
    pub(crate) const LISTS: [Self; 6] =
        [Self::TileKeys0, Self::TileKeys1, Self::Entries0, Self::Entries1, Self::EntrySplats, Self::Slots];

    /// Number of planes, and bytes per splat of each, of the data in this buffer that persists between units; `None` if
    /// there is none.
    pub(crate) const fn planes(self) -> Option<(u64, u64)> {
        match self {
            Self::Splats
            | Self::Splats1
            | Self::Splats2
            | Self::Sh0
            | Self::Sh1
            | Self::Sh2
            | Self::Sh3
            | Self::ShFirst0
            | Self::ShFirst1
            | Self::ShFirst2
            | Self::ShFirst3
            | Self::ShSecond0
            | Self::ShSecond1
            | Self::ShSecond2
            | Self::ShSecond3 => Some((3, 16)),
            Self::Records => Some((5, 4)),
            _ => None,
        }
    }

    /// Bytes per splat in the pages of this buffer; `None` if it is not paged.
    const fn paged(self) -> Option<u64> {
        match (self, self.planes()) {
            (_, Some((planes, bytes))) => Some(planes * bytes),
            (Self::Boxes, None) => Some(16),
            _ => None,
        }
    }

    /// Label for the device's debugging tools.
    pub(crate) fn label(self) -> String {
        format!("{self:?}")
    }
}

/// The paging of splats whose buffers are larger than a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paging {
    /// Number of splats per page.
    pub(crate) splats_per_page: u64,
    /// Capacity for visible splats.
    pub(crate) visible_capacity: u64,
}

/// The capacities that determine the sizes of all buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacities {
    /// Capacity for splats; 0 = no splats are loaded.
    pub(crate) splats: u64,
    /// `None` if all splats are one page.
    pub(crate) paging: Option<Paging>,
    /// Number of blocks of SH coefficients: 1, 1, 3, 4 for degrees 0 to 3.
    pub(crate) sh_blocks: u64,
    /// Whether there are moments and the other buffers for training.
    pub(crate) training: bool,
    /// Capacity for tile entries.
    pub(crate) entries: u64,
    /// Capacity for pixels.
    pub(crate) pixels: u64,
    /// Capacity for pixels with depth and count.
    pub(crate) depth_pixels: u64,
    /// Pixels of the largest image that was trained on.
    pub(crate) training_pixels: u64,
    /// Capacity for tiles.
    pub(crate) tiles: u64,
    /// Words of all corrections.
    pub(crate) corrections: u64,
    /// Capacity for queries.
    pub(crate) queries: u64,
    /// Bytes uploaded by free-space rules.
    pub(crate) free_space: u64,
}

/// Capacity for this number of splats, rounded up.
pub(crate) fn splat_capacity(splats: u64) -> u64 {
    splats.max(1).next_multiple_of(u64::from(SCAN_BLOCK))
}

/// Number of blocks of SH coefficients for a degree.
pub(crate) const fn sh_blocks(degree: u8) -> u64 {
    sh::coefficients(degree).div_ceil(4) as u64
}

impl Capacities {
    /// Number of splats per page.
    pub(crate) fn splats_per_page(&self) -> u64 {
        self.paging.map_or(self.splats, |paging| paging.splats_per_page)
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.paging.map_or(1, |paging| self.splats / paging.splats_per_page)
    }

    /// Capacity for visible splats.
    pub(crate) fn visible_capacity(&self) -> u64 {
        self.paging.map_or(self.splats, |paging| paging.visible_capacity)
    }

    /// Position of a page in a buffer: its first byte and its length; `None` if the buffer is bound as a whole.
    pub(crate) fn page_range(&self, buffer: Buffer, page: u64) -> Option<(u64, u64)> {
        let bytes = self.splats_per_page() * buffer.paged().filter(|_| self.paging.is_some())?;
        (self.bytes(buffer) > 16).then_some((page * bytes, bytes))
    }

    /// Position of the values of a plane in a buffer: for each page its splats, and the word of the first.
    pub(crate) fn plane_runs(
        &self,
        buffer: Buffer,
        plane: u64,
        splats: usize,
    ) -> impl Iterator<Item = (Range<usize>, u64)> + use<> {
        let (planes, bytes) = buffer.planes().unwrap_or((1, 4));
        let page = self.splats_per_page();
        (0..self.pages()).map(move |at| {
            let range = [at, at + 1].map(|at| ((at * page) as usize).min(splats));
            (range[0]..range[1], (at * planes + plane) * page * bytes / 4)
        })
    }

    /// Bytes of a buffer; 16 if it is not needed.
    pub(crate) fn bytes(&self, buffer: Buffer) -> u64 {
        let (n, page, drawn) = (self.splats, self.splats_per_page(), self.visible_capacity());
        let apart = |bytes: u64| if self.paging.is_some() { bytes } else { 0 };
        let block = |index: u64, wanted: bool| if wanted && index < self.sh_blocks { 48 * n } else { 0 };
        let trained = |bytes: u64| if self.training { bytes } else { 0 };
        let bytes = match buffer {
            Buffer::Job => Job::BYTES,
            Buffer::View => View::BYTES,
            Buffer::Arguments => 16 * u64::from(argument::COUNT),
            Buffer::Status => 4 * status::WORDS as u64,
            Buffer::Splats => 48 * n,
            Buffer::Splats1 | Buffer::Splats2 => trained(48 * n),
            Buffer::Screen => 48 * page,
            Buffer::Gradients => trained(48 * page),
            Buffer::Sh0 => block(0, true),
            Buffer::Sh1 => block(1, true),
            Buffer::Sh2 => block(2, true),
            Buffer::Sh3 => block(3, true),
            Buffer::ShFirst0 | Buffer::ShSecond0 => block(0, self.training),
            Buffer::ShFirst1 | Buffer::ShSecond1 => block(1, self.training),
            Buffer::ShFirst2 | Buffer::ShSecond2 => block(2, self.training),
            Buffer::ShFirst3 | Buffer::ShSecond3 => block(3, self.training),
            Buffer::Records => trained(20 * n),
            Buffer::Boxes => 16 * n,
            Buffer::DepthKeys0 | Buffer::DepthKeys1 | Buffer::Order0 | Buffer::Order1 => 4 * drawn,
            Buffer::Offsets => 4 * drawn + 16,
            Buffer::Directions => trained(32 * page),
            Buffer::VisibleRecords => apart(48 * drawn),
            Buffer::VisibleBoxes => apart(16 * drawn),
            Buffer::VisibleGradients => apart(trained(48 * drawn)),
            // The largest of: block sums of a scan with their total, sums of groups of splats, two sums per tile.
            Buffer::Partials => {
                let scanned = n.max(256 * self.entries.div_ceil(4096)).div_ceil(4096) + 1;
                4 * scanned.max(n.div_ceil(256)).max(2 * self.tiles)
            }
            Buffer::Counts => 4 * 256 * n.max(self.entries).div_ceil(4096),
            Buffer::TileKeys0
            | Buffer::TileKeys1
            | Buffer::Entries0
            | Buffer::Entries1
            | Buffer::EntrySplats => 4 * self.entries,
            Buffer::Slots => trained(48 * self.entries),
            Buffer::Ranges => 16 * self.tiles,
            Buffer::Pixels => (16 * self.pixels).max(32 * self.training_pixels),
            Buffer::Depths => 8 * self.depth_pixels,
            Buffer::Derivatives => 36 * self.training_pixels,
            Buffer::Picture => 4 * (self.training_pixels + self.training_pixels.div_ceil(32)),
            Buffer::Sums => {
                trained(8 * u64::from(BIAS_CLOCKS) + 4 * u64::from(SUMS_STRIDE) * n.div_ceil(256))
            }
            Buffer::TileSums => trained(4 * u64::from(TILE_SUMS) * self.tiles),
            Buffer::Corrections => 4 * self.corrections,
            Buffer::Queries => 16 * self.queries,
            Buffer::FreeSpace => self.free_space,
            Buffer::Rule => Rule::BYTES,
            Buffer::SplatCounts => 4 * u64::from(census::WORDS),
            Buffer::Unused => 16,
        };
        bytes.max(16).next_multiple_of(16)
    }

    /// Bytes of the splat data that persists between units.
    pub(crate) fn state_bytes(&self) -> u64 {
        let kept = Buffer::ALL.into_iter().filter(|buffer| buffer.planes().is_some());
        kept.map(|buffer| self.bytes(buffer)).sum()
    }

    /// Bytes of all buffers.
    pub(crate) fn total_bytes(&self) -> u64 {
        Buffer::ALL.into_iter().map(|buffer| self.bytes(buffer)).sum()
    }

    /// Host memory of transfers: the slots of units in flight, the words of the next unit, a chunk that is read back.
    pub(crate) fn transfer_bytes(&self) -> u64 {
        let unit = Job::BYTES + Rule::BYTES + self.bytes(Buffer::Picture).max(self.free_space);
        let largest = self.bytes(Buffer::Splats).max(self.bytes(Buffer::Pixels));
        (IN_FLIGHT as u64 + 1) * unit + largest.min(TRANSFER_CHUNK)
    }
}

/// Words of a group of corrections: values, two moments, one clock per row.
pub(crate) const fn correction_words(group: CorrectionKind, rows: usize) -> usize {
    rows * (3 * group.values_per_row() + 1)
}

const _: () = assert!(TILE_SUMS as usize == 6 + SKY_VALUES, "sums of a tile");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splat_and_an_entry_take_what_the_documentation_says() {
        let of = |splats: u64, entries: u64| Capacities {
            splats,
            sh_blocks: 4,
            training: true,
            entries,
            ..Capacities::default()
        };
        let (many, more) = (of(1 << 20, 0), of(1 << 21, 0));
        let state = |sizes: &Capacities| -> u64 {
            let parts = [Buffer::Splats, Buffer::Splats1, Buffer::Splats2, Buffer::Records];
            let sh = [Buffer::SH, Buffer::SH_FIRST, Buffer::SH_SECOND].concat();
            parts.into_iter().chain(sh).map(|buffer| sizes.bytes(buffer)).sum()
        };
        assert!(state(&more) - state(&many) <= 760 << 20);
        let entry =
            (of(4096, 2 << 20).total_bytes() - of(4096, 1 << 20).total_bytes()) as f64 / f64::from(1 << 20);
        assert!(entry <= 72.0, "{entry}");
    }

    #[test]
    fn a_page_lies_behind_the_one_before_and_no_value_of_a_splat_is_in_two_places() {
        let paging = Some(Paging { splats_per_page: 8192, visible_capacity: 12_288 });
        let sizes = Capacities {
            splats: 24_576,
            paging,
            sh_blocks: 1,
            training: true,
            entries: 4096,
            ..Capacities::default()
        };
        assert_eq!(
            (sizes.pages(), sizes.page_range(Buffer::Splats, 2)),
            (3, Some((2 * 48 * 8192, 48 * 8192)))
        );
        assert_eq!(sizes.page_range(Buffer::Records, 1), Some((20 * 8192, 20 * 8192)));
        assert_eq!(sizes.page_range(Buffer::Boxes, 1), Some((16 * 8192, 16 * 8192)));
        // Buffers that are absent, or not per splat.
        assert_eq!(
            [Buffer::Sh3, Buffer::Order0, Buffer::VisibleRecords].map(|of| sizes.page_range(of, 1)),
            [None; 3]
        );
        assert_eq!(sizes.bytes(Buffer::Screen) + sizes.bytes(Buffer::VisibleRecords), 48 * (8192 + 12_288));
        let mut taken = vec![false; 5 * 24_576];
        for plane in 0..5 {
            let runs: Vec<_> = sizes.plane_runs(Buffer::Records, plane, 20_000).collect();
            assert_eq!(runs.iter().map(|(range, _)| range.len()).sum::<usize>(), 20_000);
            for (range, at) in runs {
                for place in 0..range.len() as u64 {
                    assert!(!std::mem::replace(&mut taken[(at + place) as usize], true));
                    // The address computed by the kernels.
                    let page = at / (5 * 8192);
                    assert_eq!(at + place - page * 5 * 8192, plane * 8192 + place);
                }
            }
        }
        let whole = Capacities { splats: 4096, ..Capacities::default() };
        assert_eq!((whole.pages(), whole.page_range(Buffer::Splats, 0)), (1, None));
        assert_eq!(whole.plane_runs(Buffer::Splats, 2, 100).collect::<Vec<_>>(), [(0..100, 2 * 4 * 4096)]);
    }

    #[test]
    fn every_buffer_is_listed_at_its_number() {
        for (number, buffer) in Buffer::ALL.into_iter().enumerate() {
            assert_eq!(buffer as usize, number);
        }
    }
}
