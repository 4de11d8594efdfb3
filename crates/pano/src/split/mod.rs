//! The streaming splitter: frames in, encoded views out.
//!
//! ```text
//! worker: take the next frame ─▶ read ─▶ decode needed rows ─▶ per view: remap ▸ encode band by band ─▶ .tmp-…
//! caller: frames whose last view is written ─▶ one sync for all ─▶ rename ─▶ manifest lines, synced
//! ```
//! One worker has one frame in its hands, with buffers that it keeps; frames are handed out in order; the next ones are
//! announced to the system (`fadvise`) so that a cold disk reads ahead. A byte budget, counted from the headers, bounds
//! what is in flight. A frame that fails is named and skipped, and leaves nothing behind. `pano.jsonl` remembers
//! finished frames by name, length, time of change, a hash of its mask and one of the settings: a run that starts again
//! goes on where it was, with the same bytes.
//!
//! | asked and answered | one frame | shared by workers | on disk |
//! |---|---|---|---|
//! | `settings`, `report`, `error` | `worker` → `frame` → `masks`, `files` | `turns`, `plans`, `budget`, `demand`, `stages` | `record` |

mod budget;
mod demand;
mod error;
mod files;
mod frame;
mod mask_command;
mod masks;
mod plans;
mod record;
mod report;
mod run;
mod settings;
mod shared;
mod stages;
mod turns;
mod worker;

pub use error::SplitError;
pub use mask_command::{MaskCommand, MaskCommandError};
pub use masks::{MaskFile, find_mask, has_mask};
pub use record::{
    DESCRIPTION, Description, DescriptionError, MANIFEST, ManifestLine, claim, is_cut_otherwise, is_ours,
    read_manifest,
};
pub use report::{Event, Report, Skipped};
pub use run::split;
pub use settings::{Naming, Numbering, OnError, Settings, Work};
pub use stages::{StageTime, StageTimes};
