//! `metrics.jsonl`: one JSON object a line, appended while a run goes on.
//!
//! The one file that is not replaced as a whole. A line that a kill cut off is dropped when the file is opened again;
//! lines beyond the step from which a run resumes are trimmed, because those steps will run (and report) again.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::atomic::{FileSystem, OutputFile, Patient, WriteError, WriteOptions, retry, write_atomic_with};
use crate::input;

/// Size at which every second line is dropped.
pub const METRICS_LIMIT_BYTES: u64 = 256 << 20;

/// Largest log that is read: one that was thinned too late.
const LARGEST_LOG_BYTES: u64 = 2 * METRICS_LIMIT_BYTES;

/// Longest line; anything longer is not ours.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The log, open for appending.
pub struct MetricsLog {
    path: PathBuf,
    file: Patient<Box<dyn OutputFile>>,
    /// Length of the file.
    bytes: u64,
    /// Length at which it is thinned.
    limit_bytes: u64,
    /// The last line may have been written in part: begin the next one on a new line.
    torn: bool,
}

impl MetricsLog {
    /// Opens the log of a run that goes on behind `last_step`: a torn last line and lines whose `step` is greater are
    /// removed. `None` begins an empty log.
    ///
    /// # Errors
    /// A failed read or write.
    pub fn open(fs: &dyn FileSystem, path: &Path, last_step: Option<u64>) -> Result<Self, WriteError> {
        let is_kept = |record: &Value| match (last_step, record.get("step").and_then(Value::as_u64)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(last), Some(step)) => step <= last,
        };
        rewrite(fs, path, |line| {
            serde_json::from_slice(line).is_ok_and(|record: Value| record.is_object() && is_kept(&record))
        })?;
        Self::append_to(fs, path)
    }

    /// The same log with another size at which it is thinned.
    #[must_use]
    pub fn with_limit(self, limit_bytes: u64) -> Self {
        Self { limit_bytes, ..self }
    }

    /// Appends one line, in the file system that the log was opened in.
    ///
    /// # Errors
    /// A failed write. The log stays usable; a line that was written in part is dropped by readers.
    pub fn append(&mut self, fs: &dyn FileSystem, record: &impl Serialize) -> Result<(), WriteError> {
        let io_error = |source| WriteError::Io { path: self.path.clone(), action: "write", source };
        let mut line = if self.torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, record).map_err(|e| io_error(e.into()))?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > self.limit_bytes {
            self.thin(fs)?;
        }
        self.torn = true;
        self.file.write_all(&line).map_err(|source| WriteError::Io {
            path: self.path.clone(),
            action: "write",
            source,
        })?;
        self.torn = false;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Brings everything appended so far to the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        retry(|| self.file.0.sync()).map_err(|source| WriteError::Io {
            path: self.path.clone(),
            action: "sync",
            source,
        })
    }

    /// Drops every second line.
    fn thin(&mut self, fs: &dyn FileSystem) -> Result<(), WriteError> {
        let mut keep = false;
        rewrite(fs, &self.path, |_| {
            keep = !keep;
            keep
        })?;
        let limit_bytes = self.limit_bytes;
        *self = Self::append_to(fs, &self.path)?.with_limit(limit_bytes);
        Ok(())
    }

    fn append_to(fs: &dyn FileSystem, path: &Path) -> Result<Self, WriteError> {
        let io_error = |source| WriteError::Io { path: path.to_owned(), action: "open", source };
        let file = retry(|| fs.append(path)).map_err(io_error)?;
        let bytes = retry(|| fs.info(path)).map_err(io_error)?.map_or(0, |info| info.bytes);
        Ok(Self {
            path: path.to_owned(),
            file: Patient(file),
            bytes,
            limit_bytes: METRICS_LIMIT_BYTES,
            torn: false,
        })
    }
}

/// Replaces a log by the lines that `keep` wants. A log that is not there is made.
fn rewrite(fs: &dyn FileSystem, path: &Path, mut keep: impl FnMut(&[u8]) -> bool) -> Result<(), WriteError> {
    let io_error = |source| WriteError::Io { path: path.to_owned(), action: "read", source };
    let mut old: Box<dyn Read> = match retry(|| fs.open(path)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Box::new(io::empty()),
        Err(e) => return Err(io_error(e)),
    };
    let options = WriteOptions { label: "metrics", ..WriteOptions::default() };
    write_atomic_with(fs, path, &options, |new| {
        for_each_line(&mut old, |line| if keep(line) { new.write_all(line) } else { Ok(()) })
    })?;
    Ok(())
}

/// Calls `visit` with each whole line, its end included. A line without an end, or one that is too long, is left out.
fn for_each_line(source: &mut dyn Read, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut source = BufReader::with_capacity(1 << 16, Patient(source));
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        line.clear();
        let read = (&mut source).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let ends = line.last() == Some(&b'\n');
        if ends && !too_long {
            visit(&line)?;
        }
        too_long = !ends;
    }
}

/// All lines of a log that are JSON objects, and the number of those that are not.
///
/// # Errors
/// A failed read.
pub fn read_metrics(path: &Path) -> Result<(Vec<Value>, usize), WriteError> {
    let io_error = |source| WriteError::Io { path: path.to_owned(), action: "read", source };
    let mut file = input::open(path, LARGEST_LOG_BYTES).map_err(io_error)?;
    parse_metrics(&mut file).map_err(io_error)
}

/// [`read_metrics`] from any source.
///
/// # Errors
/// The source failed.
pub fn parse_metrics(source: &mut dyn Read) -> io::Result<(Vec<Value>, usize)> {
    let (mut records, mut other) = (Vec::new(), 0);
    for_each_line(source, |line| {
        match serde_json::from_slice::<Value>(line) {
            Ok(record) if record.is_object() => records.push(record),
            _ => other += 1,
        }
        Ok(())
    })?;
    Ok((records, other))
}
