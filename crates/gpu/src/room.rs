//! Room: more of it, within limits.

use gausset_core::engine::EngineError;

use crate::device::Memory;
use crate::layout::{Sizes, splat_room};
use crate::planes::MOST_ROWS;

/// Bytes that an entry takes in the largest of the buffers: a slot.
const BYTES_PER_ENTRY: u64 = 48;
/// And a splat.
const BYTES_PER_SPLAT: u64 = 48;

impl Memory {
    /// Refuses sizes that are beyond the limit, before anything is allocated. Pictures that stay make way.
    pub(crate) fn make_room(&mut self, what: &dyn Fn() -> String, sizes: &Sizes) -> Result<(), EngineError> {
        let (needed, limit) = (sizes.total(), self.limit());
        if needed > limit {
            return Err(EngineError::OutOfMemory { what: what(), needed, limit });
        }
        if needed + self.picture_bytes() > limit {
            self.forget_pictures();
        }
        self.grow(sizes)
    }

    /// More room for splats, after a rule was halted that would leave so many; never more head room than for `most` of them.
    pub(crate) fn grow_splats(&mut self, splats: u64, most: u64) -> Result<(), EngineError> {
        let sizes = *self.sizes();
        let what = || format!("a density rule that leaves {splats} splats");
        let largest = (self.gpu().most_bytes_of_a_buffer() / BYTES_PER_SPLAT).min(MOST_ROWS) / 4096 * 4096;
        if splats > largest {
            let (needed, limit) = (splats * BYTES_PER_SPLAT, largest * BYTES_PER_SPLAT);
            return Err(EngineError::OutOfMemory { what: what(), needed, limit });
        }
        let wanted = (splats + splats / 2).min(most.max(splats));
        let widened =
            self.make_room_for_splats(&what, &Sizes { splats: splat_room(wanted).min(largest), ..sizes });
        match widened {
            // Head room is not worth a failure.
            Err(EngineError::OutOfMemory { .. }) => {
                self.make_room_for_splats(&what, &Sizes { splats: splat_room(splats), ..sizes })
            }
            outcome => outcome,
        }
    }

    /// As [`Self::make_room`], with what each splat has. It is there twice meanwhile, or waits on the host.
    fn make_room_for_splats(&mut self, what: &dyn Fn() -> String, sizes: &Sizes) -> Result<(), EngineError> {
        let (needed, limit) = (sizes.total(), self.limit());
        if needed > limit {
            return Err(EngineError::OutOfMemory { what: what(), needed, limit });
        }
        let together = needed + self.sizes().state();
        if together + self.picture_bytes() > limit {
            self.forget_pictures();
        }
        if together > limit {
            return self.widen_by_host(sizes);
        }
        match self.widen(sizes) {
            Err(EngineError::OutOfMemory { .. }) => self.widen_by_host(sizes),
            widened => widened,
        }
    }

    /// More room for entries, after a unit was halted that has so many.
    pub(crate) fn grow_entries(
        &mut self,
        what: &dyn Fn() -> String,
        entries: u64,
    ) -> Result<(), EngineError> {
        let sizes = *self.sizes();
        let most = (self.gpu().most_bytes_of_a_buffer() / BYTES_PER_ENTRY).min(1 << 31) / 4096 * 4096;
        let what = || format!("{}: the tile lists, with {entries} entries,", what());
        if entries > most {
            let needed = entries * BYTES_PER_ENTRY;
            return Err(EngineError::OutOfMemory { what: what(), needed, limit: most * BYTES_PER_ENTRY });
        }
        let wanted = (entries + entries / 2).next_multiple_of(4096).min(most);
        let grown = self.make_room(&what, &Sizes { entries: wanted, ..sizes });
        match grown {
            // Head room is not worth a failure.
            Err(EngineError::OutOfMemory { .. }) => {
                self.make_room(&what, &Sizes { entries: entries.next_multiple_of(4096).min(most), ..sizes })
            }
            outcome => outcome,
        }
    }
}
