//! The streaming splitter: from frames to encoded views.
//!
//! ```text
//! worker: take the next frame ─▶ read ─▶ decode needed rows ─▶ per view: remap ▸ encode band by band ─▶ .tmp-…
//! caller: frames whose last view is written ─▶ one sync for all ─▶ rename ─▶ manifest lines, synced
//! ```
//! Each worker processes one frame at a time and reuses its buffers. Frames are assigned in order. The following ones
//! are announced to the system (`fadvise`), so that a slow disk reads ahead. A memory budget, estimated from the
//! headers, bounds the frames in flight. A frame that fails is reported and skipped, and leaves no files behind.
//! `pano.jsonl` records finished frames by name, length, modification time, and hashes of the mask and the settings; an
//! interrupted run resumes from it and writes the same bytes.
//!
//! input and output | one frame | shared by workers | on disk |
//! |---|---|---|---|
//! | `settings`, `report`, `error` | `worker` → `frame` → `masks`, `files` | `queue`, `plans`, `budget`, `memory_estimate`, `stages` | `record` |

mod budget;
mod error;
mod files;
mod frame;
mod mask_command;
mod masks;
mod memory_estimate;
mod plans;
mod queue;
mod record;
mod report;
mod run;
mod settings;
mod shared;
mod stages;
mod worker;

pub use error::SplitError;
pub use mask_command::{MaskCommand, MaskCommandError};
pub use masks::{MaskFile, find_mask, has_mask};
pub use record::{
    DESCRIPTION, DescriptionError, MANIFEST, ManifestLine, SplitDescription, claim, has_other_settings,
    is_split_output, read_manifest,
};
pub use report::{Skipped, SplitEvent, SplitReport};
pub use run::split;
pub use settings::{Naming, Numbering, OnError, SplitSettings, WorkerSettings};
pub use stages::{StageRow, StageTimes};
