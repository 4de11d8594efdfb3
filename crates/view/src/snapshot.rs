//! Splats for pages that draw in the browser while the view moves: one compressed PLY, shared by all pages. During
//! training it has no view-dependent colour and 16.3 bytes per splat; otherwise as much SH as fits in 8 MB.
//!
//! The renderer copies the splats of the device, which is the only delay of a training; a thread of the viewer packs
//! them. At most two snapshots exist: the newest, and an older one that a page is still loading.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use gausset_core::engine::{Engine, EngineError};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Splats, sh};
use gausset_io::splat::{self, Format, SaveOptions, SplatFile};
use gausset_io::text;
use serde_json::json;

use crate::hub::Hub;
use crate::server::THREAD;

/// Largest number of splats that are sent to a page.
pub const MAX_SPLATS: u64 = 2_000_000;
/// Largest size of a snapshot with SH, bytes; the SH degree is lowered until it fits.
const MAX_BYTES_WITH_SH: u64 = 8_000_000;
/// Shortest interval between copies of splats in training.
const COPY_INTERVAL: Duration = Duration::from_secs(10);

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// More splats than a browser can draw.
    #[error("{0} splats are too many to draw in a browser (expected at most {MAX_SPLATS})")]
    TooManySplats(u64),
    /// Packing needs more than the viewer may use.
    #[error(
        "packing {splats} splats for the browser needs {} (expected at most {}, the viewer's memory limit)",
        text::format_bytes(packing_bytes(*splats, 0)), text::format_bytes(*room)
    )]
    TooLittleMemory {
        /// Number of splats.
        splats: u64,
        /// Memory that is left, bytes.
        room: u64,
    },
    /// There are no splats.
    #[error("no splats")]
    Empty,
    /// The device did not return its splats.
    #[error(transparent)]
    Device(#[from] EngineError),
    /// The splats cannot be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
    /// Packing did not end.
    #[error("the splats could not be packed")]
    NotPacked,
}

/// Packed splats for browsers.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Counts from 1.
    pub(crate) number: u64,
    /// A compressed PLY.
    pub(crate) bytes: Vec<u8>,
    /// State of the splats on the device.
    state: u64,
}

/// The existing snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    newest: Option<Arc<Snapshot>>,
    previous: Weak<Snapshot>,
    is_packing: bool,
    /// When splats were last copied.
    copied_at: Option<Instant>,
    /// The state of the splats that could not be packed, and why.
    failed: Option<(u64, SnapshotError)>,
    count: u64,
}

impl Snapshots {
    /// Whether there is a snapshot of this state of the splats, or it is known that there can be none.
    pub(crate) fn is_current(&self, state: u64) -> bool {
        self.failed.as_ref().is_some_and(|(failed, _)| *failed == state)
            || self.newest.as_ref().is_some_and(|newest| newest.state == state)
    }

    /// Whether packing may start now.
    pub(crate) fn may_begin(&self, is_live: bool) -> bool {
        let is_early = is_live && self.copied_at.is_some_and(|copied| copied.elapsed() < COPY_INTERVAL);
        !is_early && !self.is_packing && self.previous.strong_count() == 0
    }

    /// Packing has started.
    pub(crate) fn begin(&mut self) {
        (self.is_packing, self.copied_at) = (true, Some(Instant::now()));
    }

    /// Packing of this state of the splats has ended.
    pub(crate) fn end(&mut self, state: u64, packed: Result<Vec<u8>, SnapshotError>) {
        self.is_packing = false;
        let bytes = match packed {
            Ok(bytes) => bytes,
            Err(reason) => {
                self.failed = Some((state, reason));
                return;
            }
        };
        self.failed = None;
        self.count += 1;
        let new = Arc::new(Snapshot { number: self.count, bytes, state });
        self.previous = self.newest.replace(new).map_or(Weak::new(), |old| Arc::downgrade(&old));
    }

    /// The message to a page that has snapshot `have`: that there is a newer one, or why there is none.
    pub(crate) fn message_for(&self, have: u64) -> Option<String> {
        let word = match (&self.failed, &self.newest) {
            (Some((_, reason)), _) => json!({ "t": "snapshot", "number": 0, "line": reason.to_string() }),
            (None, Some(newest)) if newest.number != have => {
                json!({ "t": "snapshot", "number": newest.number, "bytes": newest.bytes.len() })
            }
            _ => return None,
        };
        Some(word.to_string())
    }

    /// Bytes of the existing snapshots.
    pub(crate) fn bytes(&self) -> u64 {
        let before = self.previous.upgrade();
        self.newest.iter().chain(&before).map(|snapshot| snapshot.bytes.len() as u64).sum()
    }

    pub(crate) fn newest(&self) -> Option<&Arc<Snapshot>> {
        self.newest.as_ref()
    }
}

/// Has the splats of a device packed if pages wait for them and it is time; `state` identifies the splats. Takes as
/// long as copying them. Returns whether packing has started.
pub fn pack_if_due(
    hub: &Arc<Hub>,
    state: u64,
    engine: &mut dyn Engine,
    saved_from_device: Similarity,
    antialiased: bool,
) -> bool {
    let Some(sh_degree) = hub.begin_snapshot(state) else { return false };
    let _span = gausset_prof::span("view");
    let copied = engine.read_splats(sh_degree).map_err(SnapshotError::from);
    let packing = PackingGuard { hub: Arc::clone(hub), state, packed: Err(SnapshotError::NotPacked) };
    let work = move || {
        let mut packing = packing;
        packing.packed = copied.and_then(|splats| pack(splats, &saved_from_device, antialiased));
    };
    // Without a thread the closure is dropped, which informs the pages.
    let _ = thread::Builder::new().name(THREAD.to_owned()).spawn(work);
    true
}

/// A snapshot in progress; when dropped, informs the pages of the result or failure.
struct PackingGuard {
    hub: Arc<Hub>,
    state: u64,
    packed: Result<Vec<u8>, SnapshotError>,
}

impl Drop for PackingGuard {
    fn drop(&mut self) {
        self.hub.end_snapshot(self.state, std::mem::replace(&mut self.packed, Ok(Vec::new())));
    }
}

/// Packs splats as a snapshot.
///
/// # Errors
/// There are no splats, or too many.
pub fn pack(
    mut splats: Splats,
    saved_from_device: &Similarity,
    antialiased: bool,
) -> Result<Vec<u8>, SnapshotError> {
    if splats.len() as u64 > MAX_SPLATS {
        return Err(SnapshotError::TooManySplats(splats.len() as u64));
    }
    if *saved_from_device != Similarity::IDENTITY {
        saved_from_device.apply_to_splats(&mut splats);
    }
    let document = SplatFile { antialiased, ..SplatFile::new(splats) };
    let mut bytes = Vec::with_capacity(17 * document.splats.len() + 4096);
    let saved = splat::write(&mut bytes, &document, Format::CompressedPly, &SaveOptions::default());
    match saved?.splats {
        0 => Err(SnapshotError::Empty),
        _ => Ok(bytes),
    }
}

/// The SH degree with which this many splats are sent, at most `sh_degree`, if packing them needs at most `room` bytes.
pub(crate) fn sent_degree(splats: u64, sh_degree: u8, room: u64) -> Option<u8> {
    // A byte for each coefficient in addition to 16.3 for the rest.
    let packed = |degree: u8| splats * (17 + 3 * sh::coefficients(degree) as u64 - 3);
    let is_possible = |degree: &u8| {
        (*degree == 0 || packed(*degree) <= MAX_BYTES_WITH_SH) && packing_bytes(splats, *degree) <= room
    };
    (0..=sh_degree).rev().find(is_possible)
}

/// Memory to pack this many splats, bytes: their copy and its order, the packed splats, and the device's buffers for
/// the copy.
fn packing_bytes(splats: u64, sh_degree: u8) -> u64 {
    let coefficients = 3 * sh::coefficients(sh_degree) as u64;
    splats * (4 * (11 + coefficients) + 24 + 17 + coefficients)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splats(count: usize) -> Splats {
        let mut splats = Splats::with_capacity(0, count);
        for k in 0..count {
            let x = (k as f32 * 0.37).sin();
            splats.push([x, -x, 2.0 + x], [-3.0; 3], [1.0, x, 0.0, 0.2], x, &[x; 3]);
        }
        splats
    }

    #[test]
    fn sh_is_sent_where_it_fits() {
        let sent = |splats, degree| sent_degree(splats, degree, u64::MAX);
        let degrees = [60_000, 166_000, 300_000, 400_000].map(|splats| sent(splats, 3));
        assert_eq!((degrees, sent(1000, 1)), ([3, 2, 1, 0].map(Some), Some(1)));
        // 1000 splats of degree 3 take 325 kB while they are packed, without SH 100 kB.
        let within = [330_000, 230_000, 101_000, 90_000].map(|room| sent_degree(1000, 3, room));
        assert_eq!(within, [Some(3), Some(2), Some(0), None]);
    }

    #[test]
    fn a_splat_takes_16_3_bytes_in_the_axes_of_the_saved_ones() {
        let turn = Similarity::from_rotation([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]);
        let bytes = pack(splats(100_000), &turn, true).unwrap();
        assert!(bytes.len() < 1_630_000, "{}", bytes.len());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.compressed.ply");
        std::fs::write(&path, &bytes).unwrap();
        let read = splat::load(&path, &splat::LoadOptions::default()).unwrap();
        assert_eq!((read.splats.len(), read.splats.sh_degree, read.antialiased), (100_000, 0, true));
        let [low, high] = read.splats.bounds().unwrap();
        // y is -z of before: -3 to -1; z is y.
        assert!((low[1] + 3.0).abs() < 0.01 && (high[1] + 1.0).abs() < 0.01, "{low:?} {high:?}");
        assert!((low[2] + 1.0).abs() < 0.01 && (high[2] - 1.0).abs() < 0.01, "{low:?} {high:?}");
        assert!(pack(Splats::default(), &turn, false).is_err());
    }

    #[test]
    fn one_is_made_at_a_time_and_none_while_an_old_one_is_loaded() {
        let mut all = Snapshots::default();
        assert!(!all.is_current(1) && all.may_begin(true));
        all.begin();
        assert!(!all.may_begin(false), "one is under way");
        assert_eq!(all.message_for(0), None);
        all.end(1, Ok(vec![1]));
        let first = Arc::clone(all.newest().unwrap());
        assert!(all.is_current(1) && !all.is_current(2));
        assert!(all.may_begin(false) && !all.may_begin(true), "a training waits ten seconds");
        all.begin();
        all.end(2, Ok(vec![2, 2]));
        assert_eq!((first.number, all.newest().unwrap().number), (1, 2));
        assert_eq!(all.message_for(1).unwrap(), r#"{"bytes":2,"number":2,"t":"snapshot"}"#);
        assert_eq!(all.message_for(2), None);
        assert!(!all.may_begin(false), "somebody loads the first one");
        drop(first);
        assert!(all.may_begin(false));
        all.begin();
        all.end(3, Err(SnapshotError::TooManySplats(9)));
        assert!(all.is_current(3) && all.newest().unwrap().number == 2, "not tried again and again");
        assert!(all.message_for(2).unwrap().contains("too many"));
    }
}
