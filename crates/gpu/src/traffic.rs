//! Bytes moved by kernels, for comparison with their times in a profile.
//!
//! Each value counts once when it is read and once when it is written; planes of invisible splats do not count, and
//! lists count as if they were walked to the end. Caches reduce the actual traffic, scattered reads increase it.

use std::ops::AddAssign;

use crate::kernels::{Kernel, ScanInput, SortInput};

/// Numbers of items that a unit works on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ItemCounts {
    pub(crate) splats: f64,
    /// Visible splats, or rows of a rule.
    pub(crate) visible: f64,
    pub(crate) entries: f64,
    pub(crate) pixels: f64,
    /// Number of blocks of SH coefficients in use.
    pub(crate) sh_blocks: f64,
}

/// Bytes per item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    splat: f64,
    visible: f64,
    /// Per visible splat and block.
    block: f64,
    entry: f64,
    pixel: f64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.splat += other.splat;
        self.visible += other.visible;
        self.block += other.block;
        self.entry += other.entry;
        self.pixel += other.pixel;
    }
}

impl Traffic {
    /// Bytes for all items.
    pub(crate) fn bytes(&self, of: &ItemCounts) -> f64 {
        self.splat * of.splats
            + (self.visible + self.block * of.sh_blocks) * of.visible
            + self.entry * of.entries
            + self.pixel * of.pixels
    }
}

/// Three planes of a vec4.
const PLANES: f64 = 48.0;
/// Values and two moments, read and written.
const ADAM: f64 = 6.0 * PLANES;
const BOX: f64 = 16.0;

impl Kernel {
    /// Bytes moved by this kernel.
    pub(crate) fn traffic(self) -> Traffic {
        let of = |splat: f64, visible: f64, entry: f64, pixel: f64| Traffic {
            splat,
            visible,
            entry,
            pixel,
            ..Traffic::default()
        };
        let splat = |bytes: f64| of(bytes, 0.0, 0.0, 0.0);
        let visible = |bytes: f64| of(0.0, bytes, 0.0, 0.0);
        match self {
            Self::Project => {
                Traffic { splat: PLANES + BOX, visible: PLANES, block: PLANES, ..Traffic::default() }
            }
            Self::Compact => of(BOX, 8.0, 0.0, 0.0),
            Self::CompactPage => of(BOX, 8.0 + 2.0 * PLANES + 2.0 * BOX, 0.0, 0.0),
            Self::PageGradients => of(BOX, 2.0 * PLANES, 0.0, 0.0),
            Self::Histogram(SortInput::Splats, _) => visible(4.0),
            Self::Scatter(SortInput::Splats, _) => visible(16.0),
            Self::Histogram(SortInput::Entries, _) => of(0.0, 0.0, 4.0, 0.0),
            Self::Scatter(SortInput::Entries, _) => of(0.0, 0.0, 16.0, 0.0),
            Self::Reduce(ScanInput::Tiles) => visible(4.0),
            Self::Down(ScanInput::Tiles) => visible(8.0),
            Self::Gather => visible(BOX + 8.0),
            Self::Emit => of(0.0, BOX + 8.0, 12.0, 0.0),
            Self::Ranges => of(0.0, 0.0, 4.0, 0.0),
            Self::Cap => of(0.0, 0.0, 40.0, 0.0),
            // Indices of the entry and its splat; (x, y, A, B), (C, L, red, green), (blue, z).
            Self::Blend(_) => of(0.0, 0.0, 8.0 + 40.0, 16.0),
            // The render, the target as bytes, nine derivatives.
            Self::Loss => of(0.0, 0.0, 0.0, 16.0 + 4.0 + 36.0),
            Self::LossVjp => of(0.0, 0.0, 0.0, 16.0 + 4.0 + 36.0 + 16.0),
            Self::SkyVjp => of(0.0, 0.0, 0.0, 16.0),
            Self::BlendVjp(_) => of(0.0, 0.0, 8.0 + 2.0 * PLANES, 32.0),
            Self::SlotSum => of(0.0, BOX + PLANES, PLANES, 0.0),
            Self::Direction => {
                Traffic { splat: BOX, visible: 2.0 * PLANES, block: PLANES, ..Traffic::default() }
            }
            Self::ProjectVjp(_) => of(BOX, ADAM + PLANES + 32.0 + 40.0, 0.0, 0.0),
            Self::ShAdam(_) => visible(ADAM + 16.0 + 16.0),
            Self::Dead => splat(PLANES + 16.0),
            Self::Mark(_) => Traffic { splat: PLANES + 20.0 + 16.0, block: PLANES, ..Traffic::default() },
            Self::Weigh => visible(32.0),
            Self::Keys => visible(24.0),
            Self::Limit => visible(20.0),
            Self::Flags => splat(24.0),
            Self::Spawn => of(PLANES + 28.0, PLANES + 8.0, 0.0, 0.0),
            Self::ReduceWide => visible(16.0),
            Self::DownWide => visible(16.0 + 12.0),
            Self::Share(_) => visible(2.0 * PLANES + 8.0),
            Self::Bounds => visible(16.0),
            Self::Codes(_) => visible(24.0),
            Self::Carry(_) | Self::Settle => visible(2.0 * PLANES + 12.0),
            Self::Put => visible(2.0 * PLANES),
            Self::CarryRecords | Self::PutRecords => visible(40.0),
            Self::Reset => splat(96.0),
            Self::Forget => splat(12.0),
            Self::Clear => splat(16.0 + 12.0),
            _ => Traffic::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Capacities;
    use crate::schedule::{Unit, UnitKind, dispatches};
    use crate::split::WorkSplit;

    #[test]
    fn a_step_moves_what_its_table_says() {
        let then = UnitKind::Step { sh_blocks: 4, absolute: false, sky: false, rows: false };
        let unit = Unit { tiles: 256, capped: false, kind: then };
        let sizes = Capacities { splats: 1 << 18, entries: 1 << 20, ..Capacities::default() };
        let mut sum = Traffic::default();
        dispatches(&unit, &sizes, &WorkSplit::default())
            .iter()
            .for_each(|dispatch| sum += dispatch.kernel.traffic());
        // Four passes by depth and one by tile; slots are written once and read once.
        assert_eq!(sum.entry, 12.0 + 20.0 + 4.0 + 48.0 + (8.0 + 96.0) + 48.0);
        assert_eq!(sum.pixel, 16.0 + 56.0 + 72.0 + 32.0);
        // Parameters and moments of the geometry and of four blocks, each read and written.
        assert!(sum.visible > 5.0 * ADAM && sum.visible < 8.0 * ADAM, "{sum:?}");
        let items = ItemCounts { splats: 10.0, visible: 4.0, entries: 3.0, pixels: 2.0, sh_blocks: 4.0 };
        let expected =
            10.0 * sum.splat + 4.0 * (sum.visible + 4.0 * 96.0) + 3.0 * sum.entry + 2.0 * sum.pixel;
        assert_eq!((sum.block, sum.bytes(&items)), (96.0, expected));
    }
}
