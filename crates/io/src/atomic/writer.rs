//! The atomic writer itself.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::{FileKind, FileSystem, OutputFile, UnnamedFile, WriteError, crash};
use crate::input_files;

/// Prefix of temporary file names.
const TEMPORARY_PREFIX: &str = ".tmp-";

/// Bytes of the final name that go into the temporary name, because file systems limit the length of names.
const NAME_BYTES: usize = 64;

/// Size of the write buffer in bytes; larger writes bypass it.
const BUFFER_BYTES: usize = 256 * 1024;

/// Number of temporary names to try before a taken one is an error.
const MAX_NAMES: usize = 1000;

/// Number of retries of a call that is interrupted by signals.
const INTERRUPT_RETRIES: usize = 100;

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Yes: for files that Gausset itself keeps up to date.
    #[default]
    Replace,
    /// No ([`WriteError::Exists`]): for output that the user requested without `--force`.
    Refuse,
}

/// Options of an atomic write.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Kind of file, for the names of crash points.
    pub label: &'static str,
    /// Free space required before writing starts, bytes; 0 = no check.
    pub needed_bytes: u64,
    /// Whether an existing file may be replaced.
    pub overwrite: Overwrite,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { label: "file", needed_bytes: 0, overwrite: Overwrite::Replace }
    }
}

/// Result of a finished write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteStats {
    /// Length of the file.
    pub bytes: u64,
    /// Seconds spent syncing the file and its folder.
    pub sync_seconds: f64,
}

/// Writes a file atomically: `body` writes the content, then the file gets its final name.
///
/// An error of `body` is reported as a failed write with its text.
///
/// ```
/// use gausset_io::atomic::{Disk, write_atomic};
/// use std::io::{Error, Write};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("list.txt");
/// write_atomic(&Disk, &path, |file| file.write_all(b"whole"))?;
/// // A write that fails half way leaves the old file as it was.
/// let failed = write_atomic(&Disk, &path, |file| {
///     file.write_all(b"ha")?;
///     Err::<(), Error>(Error::other("full"))
/// });
/// assert!(failed.is_err());
/// assert_eq!(std::fs::read(&path)?, b"whole");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A system call failed, or `path` is a folder. An existing file is then unchanged.
pub fn write_atomic<T>(
    fs: &dyn FileSystem,
    path: &Path,
    body: impl FnOnce(&mut AtomicWriter<'_>) -> io::Result<T>,
) -> Result<T, WriteError> {
    write_atomic_with(fs, path, &WriteOptions::default(), body).map(|(value, _)| value)
}

/// As [`write_atomic`], with options; also returns length and sync time.
///
/// # Errors
/// As [`write_atomic`], and if there is too little free space or the file exists and may not be replaced.
pub fn write_atomic_with<T>(
    fs: &dyn FileSystem,
    path: &Path,
    options: &WriteOptions,
    body: impl FnOnce(&mut AtomicWriter<'_>) -> io::Result<T>,
) -> Result<(T, WriteStats), WriteError> {
    let mut writer = AtomicWriter::create(fs, path, options)?;
    match body(&mut writer) {
        Ok(value) => Ok((value, writer.commit()?)),
        Err(source) => Err(writer.failed("write", source)),
    }
}

/// A file that is being written: write to it, then call [`AtomicWriter::commit`]. Without that, it is deleted on drop.
///
/// Content is streamed through a small buffer, so a large file is never copied in memory.
pub struct AtomicWriter<'a> {
    fs: &'a dyn FileSystem,
    label: &'static str,
    /// Final name, as given.
    path: PathBuf,
    /// Final name with links resolved, so that the target of a link is replaced and not the link.
    target: PathBuf,
    /// Temporary name until the rename; `None` for devices and pipes, which are written in place.
    temporary: Option<PathBuf>,
    file: Option<BufWriter<RetryOnInterrupt<Box<dyn OutputFile>>>>,
    bytes: u64,
}

impl<'a> AtomicWriter<'a> {
    /// Starts writing a file.
    ///
    /// # Errors
    /// As [`write_atomic_with`].
    pub fn create(fs: &'a dyn FileSystem, path: &Path, options: &WriteOptions) -> Result<Self, WriteError> {
        let io_error = |action| move |source| WriteError::Io { path: path.to_owned(), action, source };
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        input_files::check_not_input(path)?;
        let old = retry(|| fs.info(&target)).map_err(io_error("look up"))?;
        let in_place = match old.map(|info| info.kind) {
            Some(FileKind::Folder) => return Err(WriteError::IsFolder { path: path.to_owned() }),
            Some(FileKind::File) if options.overwrite == Overwrite::Refuse => {
                return Err(WriteError::Exists { path: path.to_owned(), found: "a file".to_owned() });
            }
            // A rename would replace the link, and its target would never be created.
            None if is_link(&target) => return Err(WriteError::DanglingLink { path: path.to_owned() }),
            kind => kind == Some(FileKind::Special),
        };
        let mode = old.and_then(|info| info.mode);
        let Some(name) = target.file_name() else {
            return Err(WriteError::IsFolder { path: path.to_owned() });
        };
        if options.needed_bytes > 0 && !in_place {
            // If the system does not report it, the write itself fails.
            let free = retry(|| fs.free_space(folder_of(&target))).unwrap_or(u64::MAX);
            if free < options.needed_bytes {
                return Err(WriteError::NoSpace {
                    path: path.to_owned(),
                    needed: options.needed_bytes,
                    free,
                });
            }
        }
        crash::crash_point(options.label, "before_write");
        let (temporary, file) = if in_place {
            (None, retry(|| fs.append(&target)))
        } else {
            let mut temporary = temporary_name(&target, name);
            let mut file = retry(|| fs.create_new(&temporary, mode));
            // The name is taken by a dead process that had this process id, or by another program: do not remove it.
            for _ in 0..MAX_NAMES {
                if !file.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists) {
                    break;
                }
                temporary = temporary_name(&target, name);
                file = retry(|| fs.create_new(&temporary, mode));
            }
            (Some(temporary), file)
        };
        let file =
            BufWriter::with_capacity(BUFFER_BYTES, RetryOnInterrupt(file.map_err(io_error("create"))?));
        Ok(Self {
            fs,
            label: options.label,
            path: path.to_owned(),
            target,
            temporary,
            file: Some(file),
            bytes: 0,
        })
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Syncs the file, renames it to its final name and syncs the folder.
    ///
    /// # Errors
    /// A system call failed. After a failed sync of the folder, the new file is complete and in place, but a power
    /// failure might still undo it. After any other failure, the old file is unchanged.
    pub fn commit(mut self) -> Result<WriteStats, WriteError> {
        let file = self.file.take().map(BufWriter::into_inner);
        let mut file = match file {
            Some(Ok(file)) => file,
            Some(Err(e)) => {
                let (source, buffer) = e.into_parts();
                drop(buffer.into_parts());
                return Err(self.failed("write", source));
            }
            None => return Err(self.failed("write", io::Error::other("the file is closed already"))),
        };
        crash::crash_point(self.label, "after_write");
        let clock = Instant::now();
        let _span = gausset_prof::span("fsync");
        if let Err(source) = retry(|| file.0.sync()) {
            return Err(self.failed("sync", source));
        }
        drop(file);
        crash::crash_point(self.label, "after_fsync");
        if let Some(temporary) = &self.temporary {
            if let Err(source) = retry(|| self.fs.rename(temporary, &self.target)) {
                return Err(self.failed("rename", source));
            }
            self.temporary = None;
            crash::crash_point(self.label, "after_rename");
            if let Err(source) = retry(|| self.fs.sync_folder(folder_of(&self.target))) {
                return Err(self.failed("sync folder", source));
            }
            crash::crash_point(self.label, "after_folder_sync");
        }
        Ok(WriteStats { bytes: self.bytes, sync_seconds: clock.elapsed().as_secs_f64() })
    }

    /// Closes the file without syncing or renaming it.
    pub(super) fn close_unnamed(mut self) -> Result<UnnamedFile, WriteError> {
        if let Some(Err(e)) = self.file.take().map(BufWriter::into_inner) {
            let (source, buffer) = e.into_parts();
            drop(buffer.into_parts());
            return Err(self.failed("write", source));
        }
        Ok(UnnamedFile {
            path: self.path.clone(),
            target: self.target.clone(),
            temporary: self.temporary.take(),
        })
    }

    /// Error of a failed action. Dropping `self` deletes the temporary file.
    fn failed(self, action: &'static str, source: io::Error) -> WriteError {
        WriteError::Io { path: self.path.clone(), action, source }
    }
}

impl Write for AtomicWriter<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else { return Err(io::Error::other("the file is closed already")) };
        if self.bytes > 0 && crash::is_crash_due(self.label, "mid_write") {
            file.flush()?;
            std::process::abort();
        }
        let written = file.write(data)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicWriter<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Discards the buffer, which would otherwise be written on drop.
            drop(file.into_parts());
        }
        if let Some(temporary) = &self.temporary
            && let Err(e) = retry(|| self.fs.remove(temporary))
        {
            tracing::warn!("{}: could not be removed: {}", temporary.display(), super::plain_reason(&e));
        }
    }
}

/// Fails if a file exists and may not be replaced.
///
/// # Errors
/// [`WriteError::Exists`] if anything exists at `path`, unless `overwrite` allows it; [`WriteError::IsInput`] if it is
/// an input, even with [`Overwrite::Replace`].
pub fn check_free(fs: &dyn FileSystem, path: &Path, overwrite: Overwrite) -> Result<(), WriteError> {
    input_files::check_not_input(path)?;
    if overwrite == Overwrite::Replace {
        return Ok(());
    }
    let io_error = |source| WriteError::Io { path: path.to_owned(), action: "look up", source };
    let found = match retry(|| fs.info(path)).map_err(io_error)?.map(|info| info.kind) {
        None if is_link(path) => "a broken symbolic link",
        None | Some(FileKind::Special) => return Ok(()),
        Some(FileKind::Folder) => "a folder",
        Some(FileKind::File) => "a file",
    };
    Err(WriteError::Exists { path: path.to_owned(), found: found.to_owned() })
}

/// Checks an output path before a long job. Fails for an existing file, an input file (even with
/// [`Overwrite::Replace`]), a folder, or a path in a folder that does not exist.
///
/// # Errors
/// The path cannot be written, with the reason.
pub fn check_output(fs: &dyn FileSystem, path: &Path, overwrite: Overwrite) -> Result<(), WriteError> {
    check_free(fs, path, overwrite)?;
    let info = |path: &Path, action| {
        let found = retry(|| fs.info(path));
        found.map_err(|source| WriteError::Io { path: path.to_owned(), action, source })
    };
    if info(path, "look up")?.is_some_and(|info| info.kind == FileKind::Folder) {
        return Err(WriteError::IsFolder { path: path.to_owned() });
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if info(folder, "look up")?.is_none() => Err(WriteError::Io {
            path: path.to_owned(),
            action: "create",
            source: io::Error::from(io::ErrorKind::NotFound),
        }),
        _ => Ok(()),
    }
}

/// Refuses to write into an input folder. Input files are protected by [`input_files`].
///
/// # Errors
/// [`WriteError::IsInput`] if `path` resolves to one of `inputs`.
pub fn check_not_in_inputs<'a>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), WriteError> {
    let Ok(target) = path.canonicalize() else { return Ok(()) };
    match inputs.into_iter().any(|input| input.canonicalize().is_ok_and(|input| input == target)) {
        true => Err(WriteError::IsInput { path: path.to_owned() }),
        false => Ok(()),
    }
}

/// Tests whether files can be created in a folder: creates an empty one and removes it.
///
/// # Errors
/// The error of the system if it cannot.
pub(crate) fn check_writable(fs: &dyn FileSystem, folder: &Path) -> io::Result<()> {
    let path = temporary_name(&folder.join("try"), OsStr::new("try"));
    retry(|| fs.create_new(&path, None))?;
    retry(|| fs.remove(&path))
}

/// Removes the temporary files that killed processes left in a folder; returns how many. Only for folders that Gausset
/// created and locked, so that no other process writes there.
///
/// # Errors
/// The folder could not be listed (a missing one is no error). Files that cannot be removed are left and not counted.
pub fn remove_temporaries(fs: &dyn FileSystem, folder: &Path) -> Result<usize, WriteError> {
    let names = match retry(|| fs.list(folder)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(source) => return Err(WriteError::Io { path: folder.to_owned(), action: "list", source }),
        Ok(names) => names,
    };
    // Gausset creates only regular files; links are neither followed nor removed.
    let is_file = |path: &Path| {
        !is_link(path) && fs.info(path).ok().flatten().is_some_and(|info| info.kind == FileKind::File)
    };
    let paths = names.iter().filter(|name| is_temporary(name)).map(|name| folder.join(name));
    Ok(paths.filter(|path| is_file(path) && retry(|| fs.remove(path)).is_ok()).count())
}

/// Whether a name has exactly the form of [`temporary_name`].
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = |name: &str| {
        let mut parts = name.strip_prefix(TEMPORARY_PREFIX)?.splitn(3, '-');
        Some([parts.next()?, parts.next()?, parts.next()?].map(str::to_owned))
    };
    parts(&name.to_string_lossy())
        .is_some_and(|[process, count, name]| is_number(&process) && is_number(&count) && !name.is_empty())
}

/// Whether the path itself is a symbolic link.
fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink())
}

/// `.tmp-<pid>-<n>-<name>` next to `target`, with at most [`NAME_BYTES`] of the name; `n` distinguishes writers of one
/// process.
fn temporary_name(target: &Path, name: &OsStr) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut temporary = OsString::from(format!("{TEMPORARY_PREFIX}{}-{count}-", std::process::id()));
    if name.len() <= NAME_BYTES {
        temporary.push(name);
    } else {
        let name = name.to_string_lossy();
        temporary.push(&name[..name.floor_char_boundary(NAME_BYTES)]);
    }
    target.with_file_name(temporary)
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Repeats a call while signals interrupt it, at most [`INTERRUPT_RETRIES`] times.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..INTERRUPT_RETRIES {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
    // Not `Interrupted`, which the standard library would retry.
    Err(io::Error::other("interrupted by signals too often"))
}

/// A file whose reads and writes are repeated if signals interrupt them.
pub(crate) struct RetryOnInterrupt<F>(pub(crate) F);

impl Write for RetryOnInterrupt<Box<dyn OutputFile>> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        retry(|| self.0.write(data))
    }

    fn flush(&mut self) -> io::Result<()> {
        retry(|| self.0.flush())
    }
}

impl<F: io::Read> io::Read for RetryOnInterrupt<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| self.0.read(buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_as_long_as_they_may_be_is_written() {
        // Letters of one, two and three bytes.
        for name in ["a".repeat(255), "ä".repeat(127), format!("x{}", "あ".repeat(84))] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(&name);
            write_atomic(&super::super::Disk, &path, |file| {
                let names: Vec<_> =
                    std::fs::read_dir(folder.path())?.map(|e| e.unwrap().file_name()).collect();
                assert!(names.len() == 1 && names.iter().all(|name| is_temporary(name)), "{names:?}");
                file.write_all(b"x")
            })
            .unwrap();
            let names: Vec<_> =
                std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(names, [OsString::from(name)]);
        }
    }

    #[test]
    fn only_names_that_we_give_are_temporary_names() {
        let own = temporary_name(Path::new("out/a-b.png"), OsStr::new("a-b.png"));
        assert!(is_temporary(own.file_name().unwrap()), "{own:?}");
        for name in [".tmp-12-0-splats.ply", ".tmp-1-22-.hidden"] {
            assert!(is_temporary(OsStr::new(name)), "{name}");
        }
        for name in [
            ".tmp-notes",
            ".tmp-x",
            ".tmp-data",
            ".tmp-12",
            ".tmp-12-0",
            ".tmp-12-0-",
            ".tmp--0-a",
            ".tmp-1--a",
            ".tmp-1-x-a",
            ".tmp-+1-0-a",
            "tmp-1-0-a",
            "x.tmp-1-0-a",
        ] {
            assert!(!is_temporary(OsStr::new(name)), "{name}");
        }
    }
}
