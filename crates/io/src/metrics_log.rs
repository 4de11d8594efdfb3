//! `metrics.jsonl`: one JSON object a line, appended while a run goes on.
//!
//! The one file that is not replaced as a whole. A line that a kill cut off is dropped when the file is opened again;
//! lines beyond the step from which a run resumes are trimmed, because those steps will run (and report) again.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::atomic::{FileSystem, OutputFile, WriteError};

/// Size at which every second line is dropped.
pub const METRICS_LIMIT_BYTES: u64 = 256 << 20;

/// The log, open for appending.
pub struct MetricsLog<'a> {
    fs: &'a dyn FileSystem,
    path: PathBuf,
    file: Box<dyn OutputFile>,
    bytes: u64,
}

impl<'a> MetricsLog<'a> {
    /// Opens a log for a run that goes on behind `last_step`: a torn last line and lines whose `step` is greater are
    /// removed. `None` begins an empty log.
    ///
    /// # Errors
    /// A failed read or write.
    pub fn open(fs: &'a dyn FileSystem, path: &Path, last_step: Option<u64>) -> Result<Self, WriteError> {
        let _ = (fs, path, last_step);
        unimplemented!()
    }

    /// Appends one line.
    ///
    /// # Errors
    /// A failed write. The log stays usable; a line that was written in part is dropped by readers.
    pub fn append(&mut self, record: &impl Serialize) -> Result<(), WriteError> {
        let _ = (record, self.fs, &self.path, &mut self.file, self.bytes);
        unimplemented!()
    }
}

/// All lines of a log that are JSON objects, and the number of those that are not.
///
/// # Errors
/// A failed read.
pub fn read_metrics(path: &Path) -> Result<(Vec<Value>, usize), WriteError> {
    let _ = path;
    unimplemented!()
}
