//! Splitting the work of a unit. Results do not depend on it.
//!
//! | unit of splitting | reason | why the result stays the same |
//! |---|---|---|
//! | bands of tile rows | the tile lists of a view do not fit into memory | a tile has the same list; the slots of a splat are added in the order of its tiles, band after band |
//! | chunks of long lists | one workgroup walks over the list of its tile | the state of a pixel is carried over in f32, as in a single walk |
//! | windows of a dispatch | long work blocks other users of the device, or is aborted ([`crate::pace`]) | workgroups are independent |

use std::collections::BTreeMap;

use gausset_core::Stage;

use crate::device::ImageKey;

/// Entries of a list that one dispatch walks over: at half a microsecond each, as on slow devices, 8 ms.
pub(crate) const CHUNK_ENTRIES: u32 = 16_384;

/// Number of parts of each dispatch, by stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchParts([u8; Stage::ALL.len()]);

impl Default for DispatchParts {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl DispatchParts {
    /// Dispatches are not split.
    pub(crate) const WHOLE: Self = Self([1; Stage::ALL.len()]);

    /// `parts(stage)` parts for each stage, at least 1.
    pub(crate) fn for_stages(parts: impl Fn(Stage) -> u8) -> Self {
        Self(Stage::ALL.map(parts))
    }

    /// Number of parts of a dispatch of a stage.
    pub(crate) fn parts(&self, stage: Stage) -> u8 {
        self.0[stage as usize]
    }
}

/// How a unit is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkSplit {
    /// Number of tile rows per band.
    pub(crate) band_rows: u32,
    /// Number of bands.
    pub(crate) bands: u32,
    /// Number of dispatches that walk over a list.
    pub(crate) chunks: u32,
    /// Number of parts of each dispatch.
    pub(crate) windows: DispatchParts,
}

impl Default for WorkSplit {
    /// No splitting.
    fn default() -> Self {
        Self { band_rows: u32::MAX, bands: 1, chunks: 1, windows: DispatchParts::default() }
    }
}

/// Known properties of the lists of a view.
#[derive(Clone, Copy, Debug)]
struct ViewLists {
    band_rows: u32,
    longest: u32,
}

/// Known properties of the lists of all views.
#[derive(Debug)]
pub(crate) struct ListStatistics {
    /// By image; views without a cached image share one entry.
    known: BTreeMap<Option<ImageKey>, ViewLists>,
    /// Entries per chunk.
    pub(crate) chunk_entries: u32,
}

impl Default for ListStatistics {
    fn default() -> Self {
        Self { known: BTreeMap::new(), chunk_entries: CHUNK_ENTRIES }
    }
}

impl ListStatistics {
    fn known(&self, view: Option<ImageKey>) -> ViewLists {
        self.known.get(&view).copied().unwrap_or(ViewLists { band_rows: u32::MAX, longest: 0 })
    }

    /// How to split a view with this number of tile rows.
    pub(crate) fn of(&self, view: Option<ImageKey>, tile_rows: u32, windows: DispatchParts) -> WorkSplit {
        let known = self.known(view);
        let band_rows = known.band_rows.clamp(1, tile_rows.max(1));
        // Powers of two, so that there are few plans.
        let chunks = known.longest.div_ceil(self.chunk_entries).max(1).next_power_of_two();
        WorkSplit { band_rows, bands: tile_rows.div_ceil(band_rows).max(1), chunks, windows }
    }

    /// Reduces the bands of a view, after one had more entries than fit. Returns whether that was possible: a band has
    /// at least one tile row.
    pub(crate) fn reduce_bands(
        &mut self,
        view: Option<ImageKey>,
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
        self.known.insert(view, ViewLists { band_rows: fit.clamp(1, rows - 1), ..known });
        true
    }

    /// Stores the length of the longest list of a view, if a single dispatch cannot walk over it.
    pub(crate) fn record_longest(&mut self, view: Option<ImageKey>, longest: u32) {
        let known = self.known(view);
        if longest > self.chunk_entries || known.longest > 0 {
            self.known.insert(view, ViewLists { longest, ..known });
        }
    }

    /// Forgets all views.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(splits: &ListStatistics, view: Option<ImageKey>, tile_rows: u32) -> (u32, u32, u32) {
        let WorkSplit { band_rows, bands, chunks, .. } = splits.of(view, tile_rows, DispatchParts::default());
        (band_rows, bands, chunks)
    }

    #[test]
    fn a_view_is_whole_until_its_lists_are_too_long_and_a_row_is_the_least() {
        let mut splits = ListStatistics::default();
        let view = Some((3, 1));
        assert_eq!(split(&splits, view, 13), (13, 1, 1));
        assert!(splits.reduce_bands(view, 13, 3000, 1000));
        assert_eq!(split(&splits, view, 13), (4, 4, 1));
        assert_eq!(split(&splits, Some((4, 1)), 13), (13, 1, 1), "others stay whole");
        // Only slightly too many: at least one row fewer each time.
        assert!(splits.reduce_bands(view, 13, 1001, 1000));
        assert_eq!(split(&splits, view, 13), (3, 5, 1));
        assert!(splits.reduce_bands(view, 13, u64::from(u32::MAX), 1000));
        assert_eq!(split(&splits, view, 13), (1, 13, 1));
        assert!(!splits.reduce_bands(view, 13, 1001, 1000));
        splits.clear();
        assert_eq!(split(&splits, view, 0), (1, 1, 1), "a rule has no tiles");
    }

    #[test]
    fn long_lists_are_walked_in_chunks_while_they_are_long() {
        let mut splits = ListStatistics::default();
        splits.record_longest(None, CHUNK_ENTRIES);
        assert_eq!(split(&splits, None, 5), (5, 1, 1));
        splits.record_longest(None, 4 * CHUNK_ENTRIES + 1);
        assert_eq!(split(&splits, None, 5), (5, 1, 8));
        splits.record_longest(None, 10);
        assert_eq!(split(&splits, None, 5), (5, 1, 1));
    }
}
