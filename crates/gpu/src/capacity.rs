//! Enlarging buffers, within limits.

use gausset_core::engine::EngineError;

use crate::device::{DeviceMemory, ImageKey};
use crate::in_flight::Status;
use crate::layout::{Capacities, Paging, splat_capacity};
use crate::planes::MAX_ROWS;
use crate::record::{halt, status};

/// Bytes per entry in the largest of the buffers: a slot.
const BYTES_PER_ENTRY: u64 = 48;
/// The same without training: its index.
const BYTES_PER_RENDER_ENTRY: u64 = 4;
/// Bytes per splat in the largest of the buffers.
const BYTES_PER_SPLAT: u64 = 48;

/// Capacities for entries are multiples of this.
const ENTRY_STEP: u64 = 4096;

impl DeviceMemory {
    /// Enlarges the buffers to these sizes; an error, before anything is allocated, if they exceed the limit. Cached
    /// images are freed if necessary, then tile lists: units whose lists no longer fit are split into bands.
    pub(crate) fn ensure_capacity(
        &mut self,
        what: &dyn Fn() -> String,
        sizes: &Capacities,
    ) -> Result<(), EngineError> {
        match self.with_smaller_lists(sizes, 0)? {
            Some(smaller) => self.enlarge(what, &smaller),
            None => self.enlarge(what, sizes),
        }
    }

    /// If these sizes exceed the limit and would fit with smaller tile lists, frees the lists and returns such sizes,
    /// which also leave `spare` bytes of the limit if that is possible.
    fn with_smaller_lists(
        &mut self,
        sizes: &Capacities,
        spare: u64,
    ) -> Result<Option<Capacities>, EngineError> {
        let limit = self.limit();
        if self.needed_bytes(sizes) <= limit {
            return Ok(None);
        }
        let least = sizes.entries.min(ENTRY_STEP);
        let entries = self.fitting_entries(sizes, [least, sizes.entries], limit.saturating_sub(spare));
        let smaller = Capacities { entries, ..*sizes };
        if self.needed_bytes(&smaller) > limit {
            return Ok(None);
        }
        self.free_lists()?;
        Ok(Some(smaller))
    }

    /// Like [`Self::ensure_capacity`], keeping the tile lists.
    fn enlarge(&mut self, what: &dyn Fn() -> String, sizes: &Capacities) -> Result<(), EngineError> {
        let (needed, limit) = (self.needed_bytes(sizes), self.limit());
        if needed > limit {
            return Err(EngineError::OutOfMemory { what: what(), needed, limit });
        }
        if needed + self.cached_image_bytes() > limit {
            self.clear_image_cache();
        }
        self.grow(sizes)
    }

    /// Largest number of splats per page, so that the planes of each buffer fit into one binding.
    pub(crate) fn max_splats_per_page(&self) -> u64 {
        self.max_visible().min(self.page_limit) / 4096 * 4096
    }

    /// Largest number of splats whose records fit into one binding.
    fn max_visible(&self) -> u64 {
        (self.max_binding_bytes() / BYTES_PER_SPLAT).min(MAX_ROWS) / 4096 * 4096
    }

    /// Capacity for this number of splats, with pages of equal size if they do not fit into a binding.
    pub(crate) fn splat_capacity(&self, splats: u64) -> (u64, Option<Paging>) {
        let (room, most) = (splat_capacity(splats), self.max_splats_per_page().max(4096));
        if room <= most {
            return (room, None);
        }
        let pages = room.div_ceil(most);
        let page = splat_capacity(room.div_ceil(pages));
        let room = page * pages;
        (room, Some(Paging { splats_per_page: page, visible_capacity: self.max_visible().min(room) }))
    }

    /// Enlarges the capacity for splats after a halted rule that would leave `splats` of them; spare capacity never
    /// exceeds `most`.
    pub(crate) fn grow_splats(&mut self, splats: u64, most: u64) -> Result<(), EngineError> {
        let sizes = *self.sizes();
        let what = || format!("a density rule that leaves {splats} splats");
        let largest = self.max_splats_per_page();
        if splats > largest {
            let (needed, limit) = (splats * BYTES_PER_SPLAT, largest * BYTES_PER_SPLAT);
            return Err(EngineError::DeviceLimit { what: what(), needed, limit });
        }
        let wanted = (splats + splats / 2).min(most.max(splats));
        let widened = self.ensure_splat_capacity(
            &what,
            &Capacities { splats: splat_capacity(wanted).min(largest), ..sizes },
        );
        match widened {
            // Spare capacity is optional: retry without it.
            Err(EngineError::OutOfMemory { .. } | EngineError::DeviceLimit { .. }) => {
                let sizes = Capacities { splats: splat_capacity(splats), ..sizes };
                // Both versions of the state exist while it is copied.
                let spare = self.sizes().state_bytes();
                let sizes = self.with_smaller_lists(&sizes, spare)?.unwrap_or(sizes);
                self.ensure_splat_capacity(&what, &sizes)
            }
            outcome => outcome,
        }
    }

    /// Like [`Self::enlarge`], keeping the data of each splat. It exists twice meanwhile, or is copied through the
    /// host.
    fn ensure_splat_capacity(
        &mut self,
        what: &dyn Fn() -> String,
        sizes: &Capacities,
    ) -> Result<(), EngineError> {
        let (needed, limit) = (self.needed_bytes(sizes), self.limit());
        if needed > limit {
            return Err(EngineError::OutOfMemory { what: what(), needed, limit });
        }
        let together = needed + self.sizes().state_bytes();
        if together + self.cached_image_bytes() > limit {
            self.clear_image_cache();
        }
        if together > limit {
            return self.grow_splat_buffers_via_host(sizes);
        }
        match self.grow_splat_buffers(sizes) {
            Err(EngineError::OutOfMemory { .. }) => self.grow_splat_buffers_via_host(sizes),
            widened => widened,
        }
    }

    /// Returns an error if a view has more visible splats than fit into one binding.
    pub(crate) fn check_visible(&self, what: &dyn Fn() -> String, words: &Status) -> Result<(), EngineError> {
        if words[status::HALT] != halt::VISIBLE {
            return Ok(());
        }
        let [visible, room] = [u64::from(words[status::VISIBLE]), self.sizes().visible_capacity()];
        let what = format!(
            "{}: the records of {visible} or more visible splats, of which a binding holds {room},",
            what()
        );
        let [needed, limit] = [visible, room].map(|splats| splats * BYTES_PER_SPLAT);
        Err(EngineError::DeviceLimit { what, needed, limit })
    }

    /// Largest number of entries that fit into one binding of each buffer.
    pub(crate) fn max_entries(&self, training: bool) -> u64 {
        let bytes = if training { BYTES_PER_ENTRY } else { BYTES_PER_RENDER_ENTRY };
        let most = (self.max_binding_bytes() / bytes).min(1 << 31).min(self.entry_limit);
        most / ENTRY_STEP * ENTRY_STEP
    }

    /// Makes the tile lists of a view fit, after a halted unit with `entries` entries in one band: enlarges the buffers
    /// or, if that is not possible, uses more bands.
    pub(crate) fn ensure_list_capacity(
        &mut self,
        view: Option<ImageKey>,
        tile_rows: u32,
        what: &dyn Fn() -> String,
        entries: u64,
    ) -> Result<(), EngineError> {
        let sizes = *self.sizes();
        let most = self.max_entries(sizes.training);
        let what = || format!("{}: the tile lists, with {entries} entries,", what());
        // Spare capacity is optional: retry without it.
        for wanted in [entries + entries / 2, entries].map(|entries| entries.next_multiple_of(ENTRY_STEP)) {
            if entries > most {
                break;
            }
            match self.enlarge(&what, &Capacities { entries: wanted.min(most), ..sizes }) {
                Err(EngineError::OutOfMemory { .. } | EngineError::DeviceLimit { .. }) => (),
                outcome => return outcome,
            }
        }
        // Half of the remaining memory: the set of splats may grow.
        let half = self.limit() - self.limit().saturating_sub(self.needed_bytes(&sizes)) / 2;
        let fitting = self.fitting_entries(&sizes, [sizes.entries, most], half);
        if fitting > sizes.entries {
            match self.enlarge(&what, &Capacities { entries: fitting, ..sizes }) {
                Ok(()) | Err(EngineError::OutOfMemory { .. } | EngineError::DeviceLimit { .. }) => (),
                failed => return failed,
            }
        }
        let room = self.sizes().entries;
        if room >= entries || self.splits.reduce_bands(view, tile_rows, entries, room) {
            return Ok(());
        }
        let what = format!("{} of one row of tiles,", what());
        if entries > most {
            let [needed, limit] = [entries, most].map(|entries| entries * BYTES_PER_ENTRY);
            return Err(EngineError::DeviceLimit { what, needed, limit });
        }
        let sizes = Capacities { entries: entries.next_multiple_of(ENTRY_STEP), ..sizes };
        let needed = self.needed_bytes(&sizes);
        // 0: the device refused an allocation below the limit.
        let limit = Some(self.limit()).filter(|&limit| needed > limit).unwrap_or(0);
        Err(EngineError::OutOfMemory { what, needed, limit })
    }

    /// Largest number of entries in a range with which the other buffers fit into `limit`; the least one if none fits.
    fn fitting_entries(&self, sizes: &Capacities, [least, most]: [u64; 2], limit: u64) -> u64 {
        let needed = |entries: u64| self.needed_bytes(&Capacities { entries, ..*sizes });
        let (mut fits, mut beyond) = (least / ENTRY_STEP, most.max(least) / ENTRY_STEP + 1);
        while beyond - fits > 1 {
            let middle = fits.midpoint(beyond);
            if needed(ENTRY_STEP * middle) <= limit {
                fits = middle;
            } else {
                beyond = middle;
            }
        }
        ENTRY_STEP * fits
    }
}
