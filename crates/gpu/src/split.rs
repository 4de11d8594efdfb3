//! How the work of a unit is taken apart. None of it shows in the result.
//!
//! | what | why | where the result stays the same |
//! |---|---|---|
//! | bands of tile rows | the tile lists of a view are longer than there is room for | a tile has the same list; the slots of a splat are added in the order of its tiles, band after band |
//! | chunks of long lists | one workgroup walks over the list of its tile | what a pixel has gathered is carried on, in f32 as before |
//! | windows of a dispatch | what takes too long stops others from using the device, or ends it ([`crate::pace`]) | workgroups know nothing of each other |

use std::collections::BTreeMap;

use gausset_core::Stage;

use crate::device::PictureName;

/// Entries of a list that one dispatch walks over: at half a microsecond each, as slow devices take, 8 ms.
pub(crate) const CHUNK_ENTRIES: u32 = 16_384;

/// Parts of each dispatch, by stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows([u8; Stage::ALL.len()]);

impl Default for Windows {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Windows {
    /// Whole dispatches.
    pub(crate) const WHOLE: Self = Self([1; Stage::ALL.len()]);

    /// So many of each, from 1 on.
    pub(crate) fn of(parts: impl Fn(Stage) -> u8) -> Self {
        Self(Stage::ALL.map(parts))
    }

    /// Parts of a dispatch of a stage.
    pub(crate) fn parts(&self, stage: Stage) -> u8 {
        self.0[stage as usize]
    }
}

/// How a unit is taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Tile rows of a band.
    pub(crate) band_rows: u32,
    /// Bands.
    pub(crate) bands: u32,
    /// Dispatches that walk over a list.
    pub(crate) chunks: u32,
    /// Parts of each dispatch.
    pub(crate) windows: Windows,
}

impl Default for Split {
    /// Not at all.
    fn default() -> Self {
        Self { band_rows: u32::MAX, bands: 1, chunks: 1, windows: Windows::default() }
    }
}

/// What is known of the lists of a view.
#[derive(Clone, Copy, Debug)]
struct Known {
    band_rows: u32,
    longest: u32,
}

/// What is known of the lists of all views.
#[derive(Debug)]
pub(crate) struct Splits {
    /// By picture; those of no picture that stays are one.
    known: BTreeMap<Option<PictureName>, Known>,
    /// Entries of a chunk.
    pub(crate) chunk_entries: u32,
}

impl Default for Splits {
    fn default() -> Self {
        Self { known: BTreeMap::new(), chunk_entries: CHUNK_ENTRIES }
    }
}

impl Splits {
    fn known(&self, view: Option<PictureName>) -> Known {
        self.known.get(&view).copied().unwrap_or(Known { band_rows: u32::MAX, longest: 0 })
    }

    /// How a view with so many rows of tiles is taken apart.
    pub(crate) fn of(&self, view: Option<PictureName>, tile_rows: u32, windows: Windows) -> Split {
        let known = self.known(view);
        let band_rows = known.band_rows.clamp(1, tile_rows.max(1));
        // Powers of two, so that there are few plans.
        let chunks = known.longest.div_ceil(self.chunk_entries).max(1).next_power_of_two();
        Split { band_rows, bands: tile_rows.div_ceil(band_rows).max(1), chunks, windows }
    }

    /// Takes a view into smaller bands, after one had more entries than there is room for. Whether it can be: a band is one
    /// row of tiles at least.
    pub(crate) fn divide(
        &mut self,
        view: Option<PictureName>,
        tile_rows: u32,
        entries: u64,
        room: u64,
    ) -> bool {
        let known = self.known(view);
        let rows = known.band_rows.min(tile_rows);
        if rows <= 1 {
            return false;
        }
        let fit = (u64::from(rows) * room / entries.max(1)) as u32;
        self.known.insert(view, Known { band_rows: fit.clamp(1, rows - 1), ..known });
        true
    }

    /// Remembers the longest list of a view. Nothing is kept of those that one dispatch walks over anyway.
    pub(crate) fn note(&mut self, view: Option<PictureName>, longest: u32) {
        let known = self.known(view);
        if longest > self.chunk_entries || known.longest > 0 {
            self.known.insert(view, Known { longest, ..known });
        }
    }

    /// Forgets all views.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(splits: &Splits, view: Option<PictureName>, tile_rows: u32) -> (u32, u32, u32) {
        let Split { band_rows, bands, chunks, .. } = splits.of(view, tile_rows, Windows::default());
        (band_rows, bands, chunks)
    }

    #[test]
    fn a_view_is_whole_until_its_lists_are_too_long_and_a_row_is_the_least() {
        let mut splits = Splits::default();
        let view = Some((3, 1));
        assert_eq!(split(&splits, view, 13), (13, 1, 1));
        assert!(splits.divide(view, 13, 3000, 1000));
        assert_eq!(split(&splits, view, 13), (4, 4, 1));
        assert_eq!(split(&splits, Some((4, 1)), 13), (13, 1, 1), "others stay whole");
        // Hardly too many: at least one row fewer each time.
        assert!(splits.divide(view, 13, 1001, 1000));
        assert_eq!(split(&splits, view, 13), (3, 5, 1));
        assert!(splits.divide(view, 13, u64::from(u32::MAX), 1000));
        assert_eq!(split(&splits, view, 13), (1, 13, 1));
        assert!(!splits.divide(view, 13, 1001, 1000));
        splits.forget();
        assert_eq!(split(&splits, view, 0), (1, 1, 1), "a rule has no tiles");
    }

    #[test]
    fn long_lists_are_walked_in_chunks_while_they_are_long() {
        let mut splits = Splits::default();
        splits.note(None, CHUNK_ENTRIES);
        assert_eq!(split(&splits, None, 5), (5, 1, 1));
        splits.note(None, 4 * CHUNK_ENTRIES + 1);
        assert_eq!(split(&splits, None, 5), (5, 1, 8));
        splits.note(None, 10);
        assert_eq!(split(&splits, None, 5), (5, 1, 1));
    }
}
