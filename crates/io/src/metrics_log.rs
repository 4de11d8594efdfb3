//! `metrics.jsonl`: one JSON object per line, appended during a run.
//!
//! The only file that is not replaced as a whole. A line truncated by a kill is dropped when the file is opened again;
//! lines after the step from which a run resumes are removed, because those steps run (and report) again.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::atomic::{
    FileSystem, OutputFile, RetryOnInterrupt, WriteError, WriteOptions, retry, write_atomic_with,
};
use crate::input;

/// Size at which every second line is dropped, bytes.
pub const METRICS_LIMIT_BYTES: u64 = 256 << 20;

/// Longest log that is read: one that could not be thinned in time.
const LARGEST_LOG_BYTES: u64 = 2 * METRICS_LIMIT_BYTES;

/// Longest line, bytes; Gausset writes no longer ones.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The log, open for appending.
pub struct MetricsLog {
    path: PathBuf,
    file: RetryOnInterrupt<Box<dyn OutputFile>>,
    /// Length of the file, bytes.
    bytes: u64,
    /// Length at which it is thinned, bytes.
    limit_bytes: u64,
    /// The last line may be incomplete: start the next one on a new line.
    is_incomplete: bool,
}

impl MetricsLog {
    /// Opens the log of a run that resumes after `last_step`: an incomplete last line and lines with a larger `step`
    /// are removed. `None` starts an empty log.
    ///
    /// # Errors
    /// Reading or writing failed.
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

    /// Opens a log to append to it, and changes nothing in it. A missing one is created.
    ///
    /// # Errors
    /// Reading or writing failed.
    pub fn resume(fs: &dyn FileSystem, path: &Path) -> Result<Self, WriteError> {
        let is_incomplete = match retry(|| fs.open(path)).and_then(|file| last_byte(RetryOnInterrupt(file))) {
            Ok(last) => last.is_some_and(|last| last != b'\n'),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(source) => {
                return Err(WriteError::Io { path: path.to_owned(), action: "read", source });
            }
        };
        Ok(Self { is_incomplete, ..Self::append_to(fs, path)? })
    }

    /// Sets the size at which the log is thinned.
    #[must_use]
    pub fn with_limit(self, limit_bytes: u64) -> Self {
        Self { limit_bytes, ..self }
    }

    /// Appends one line, using the file system with which the log was opened.
    ///
    /// # Errors
    /// The write failed. The log stays usable; readers drop an incomplete line.
    pub fn append(&mut self, fs: &dyn FileSystem, record: &impl Serialize) -> Result<(), WriteError> {
        let io_error = |source| WriteError::Io { path: self.path.clone(), action: "write", source };
        let line = serde_json::to_string(record).map_err(|e| io_error(e.into()))?;
        self.append_line(fs, &line)
    }

    /// Appends a record that is one line of JSON already.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_line(&mut self, fs: &dyn FileSystem, record: &str) -> Result<(), WriteError> {
        let start = if self.is_incomplete { "\n" } else { "" };
        let line = format!("{start}{record}\n").into_bytes();
        if self.bytes + line.len() as u64 > self.limit_bytes {
            self.thin(fs)?;
        }
        self.is_incomplete = true;
        self.file.write_all(&line).map_err(|source| WriteError::Io {
            path: self.path.clone(),
            action: "write",
            source,
        })?;
        self.is_incomplete = false;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Syncs everything appended so far to the device.
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
            file: RetryOnInterrupt(file),
            bytes,
            limit_bytes: METRICS_LIMIT_BYTES,
            is_incomplete: false,
        })
    }
}

/// Rewrites a log with the lines that `keep` accepts. A missing log is created.
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

/// The last byte of a source; `None` if it is empty.
fn last_byte(mut source: impl Read) -> io::Result<Option<u8>> {
    let (mut last, mut buffer) = (None, [0; 1 << 13]);
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(last),
            count => last = buffer.get(count - 1).copied(),
        }
    }
}

/// Calls `visit` with each complete line, including its line feed. Incomplete and too long lines are skipped.
fn for_each_line(source: &mut dyn Read, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut source = BufReader::with_capacity(1 << 16, RetryOnInterrupt(source));
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

/// All lines of a log that are JSON objects, and the number of other lines.
///
/// # Errors
/// Reading failed.
pub fn read_metrics(path: &Path) -> Result<(Vec<Value>, usize), WriteError> {
    let io_error = |source| WriteError::Io { path: path.to_owned(), action: "read", source };
    let mut file = input::open(path, LARGEST_LOG_BYTES).map_err(io_error)?;
    parse_metrics(&mut file).map_err(io_error)
}

/// As [`read_metrics`], from any source.
///
/// ```
/// let mut log = b"{\"step\": 100, \"loss\": 0.12}\nnot JSON\n".as_slice();
/// let (records, other) = gausset_io::metrics_log::parse_metrics(&mut log)?;
/// assert_eq!((records[0]["step"].as_u64(), other), (Some(100), 1));
/// # Ok::<(), std::io::Error>(())
/// ```
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
