//! Locks a folder in use, so that two processes never write to one run.
//!
//! Two locks are taken, and the system releases both when the process ends for any reason: the folder itself, so that
//! it cannot be removed and replaced while in use, and `FOLDER/.lock`, for operating and file systems that cannot lock
//! a folder (Windows, some NFS). The file contains process id, host and start time, for messages and for file systems
//! without any locks: there, a lock is held if it names a running process of this host, and stale if that process is
//! gone.
//!
//! Other programs use the name `.lock` as well. A link or a file with other content is refused and left unchanged; an
//! empty file is used and left empty.
#![allow(
    clippy::disallowed_methods,
    reason = "a lock file is opened without following links, and is no input"
)]
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the lock file.
pub const LOCK_NAME: &str = ".lock";

/// Content of a lock file that is held as shared.
const SHARED_LINE: &[u8] = b"gausset\n";

/// Longest lock file that is read, bytes.
const MAX_LOCK_BYTES: u64 = 4096;

/// Why a folder could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{}: in use by {holder}; wait until it is done or stop it", folder.display())]
    InUse {
        /// The folder that another process uses.
        folder: PathBuf,
        /// `process 123 on host x (since 2026-11-21 09:30:00 UTC)`.
        holder: String,
    },
    /// `.lock` was not created by Gausset.
    #[error("{}: lock: {found} (expected no such file, or one that gausset left); choose another folder or move it away", path.display())]
    NotOurs {
        /// The lock file.
        path: PathBuf,
        /// Kind of the existing entry.
        found: &'static str,
    },
    /// The lock file could not be opened or written.
    #[error("{}: lock: {}", path.display(), crate::atomic::plain_reason(source))]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Exclusive lock of a folder, held until drop.
#[derive(Debug)]
pub struct FolderLock {
    /// A remark for the user: a stale lock was taken over, or the file system has no locks.
    pub note: Option<String>,
    taken: HeldLock,
}

impl FolderLock {
    /// Locks a folder without waiting.
    ///
    /// # Errors
    /// Another process holds the lock, `.lock` was not created by Gausset, or the lock file cannot be written.
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let mut taken = acquire(folder, LockKind::Exclusive)?;
        let note = match (taken.is_locked, &taken.content) {
            (true, LockContent::Holder(holder)) => {
                Some(format!("{}: lock: left by {holder}; taken over", folder.display()))
            }
            (true, _) => None,
            (false, _) => Some(format!(
                "{}: lock: this file system has no locks; make sure that no other host uses the folder",
                folder.display()
            )),
        };
        let written =
            taken.empty().and_then(|()| taken.file.write_all(Holder::current().to_line().as_bytes()));
        written.map_err(|source| LockError::Io { path: taken.path.clone(), source })?;
        Ok(Self { note, taken })
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        let taken = &mut self.taken;
        // The lock file was removed meanwhile: the file there now belongs to another program.
        if !is_same_file(&taken.file, &taken.path) {
            return;
        }
        let left = match taken.content {
            LockContent::Foreign => taken.empty(),
            // Still locked, so no other process can have taken it over.
            _ => std::fs::remove_file(&taken.path),
        };
        if let Err(e) = left {
            tracing::warn!(
                "{}: could not be removed: {}",
                taken.path.display(),
                crate::atomic::plain_reason(&e)
            );
        }
    }
}

/// Shared lock of a folder that is read or into which images are written, held until drop. Others may hold shared locks
/// at the same time; an exclusive lock is impossible meanwhile.
#[derive(Debug)]
pub struct SharedLock {
    taken: HeldLock,
}

impl SharedLock {
    /// Takes a shared lock without waiting. On a file system without locks it succeeds, unless the lock file names a
    /// running process of this host.
    ///
    /// # Errors
    /// A process holds an exclusive lock, `.lock` was not created by Gausset, or the lock file cannot be written.
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let mut taken = acquire(folder, LockKind::Shared)?;
        if matches!(taken.content, LockContent::Created) {
            // Marks the file as Gausset-owned, so that the last holder may remove it.
            taken
                .file
                .write_all(SHARED_LINE)
                .map_err(|source| LockError::Io { path: taken.path.clone(), source })?;
        }
        Ok(Self { taken })
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        let HeldLock { file, path, content, .. } = &self.taken;
        // Only the last holder removes the file, because only it can lock it exclusively. A holder line left by a dead
        // process stays, so that the next exclusive lock can report it.
        let is_ours = matches!(content, LockContent::Created | LockContent::Ours);
        if is_ours && file.try_lock().is_ok() && is_same_file(file, path) {
            // A failure leaves a file that locks nothing.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockKind {
    Exclusive,
    Shared,
}

impl LockKind {
    fn lock(self, file: &File) -> Result<(), TryLockError> {
        match self {
            Self::Exclusive => file.try_lock(),
            Self::Shared => file.try_lock_shared(),
        }
    }
}

/// A lock that is held.
#[derive(Debug)]
struct HeldLock {
    file: File,
    path: PathBuf,
    /// Previous content of the lock file.
    content: LockContent,
    /// `false` on a file system without locks.
    is_locked: bool,
    /// Holds the lock of the folder itself, on systems that have such locks.
    folder: Option<File>,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Closing is not enough: a program that another thread is just starting has copies of all open files until it
        // is executed, and a lock lasts as long as any copy. A failure leaves what closing does.
        for file in self.folder.iter().chain([&self.file]) {
            let _ = file.unlock();
        }
    }
}

impl HeldLock {
    /// Empties the lock file.
    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        io::Seek::rewind(&mut self.file)
    }
}

/// Content of a lock file.
#[derive(Debug)]
enum LockContent {
    /// Created by this process.
    Created,
    /// Empty, of unknown origin.
    Foreign,
    /// [`SHARED_LINE`], or only zeros, which a power failure leaves of a line that Gausset wrote.
    Ours,
    /// The process that took the lock.
    Holder(Holder),
}

/// Locks a folder and its lock file, or checks that no running process is named as holder.
fn acquire(folder: &Path, share: LockKind) -> Result<HeldLock, LockError> {
    let path = folder.join(LOCK_NAME);
    let io_error = |source| LockError::Io { path: path.clone(), source };
    let in_use = |holder: Option<Holder>| LockError::InUse {
        folder: folder.to_owned(),
        holder: holder.map_or("another process".to_owned(), |holder| holder.to_string()),
    };
    let folder_lock = match lock_folder(folder, share) {
        Err(TryLockError::WouldBlock) => return Err(in_use(Holder::read_at(&path))),
        // Folders cannot be locked here: the lock file has to suffice.
        Err(TryLockError::Error(_)) => None,
        Ok(file) => file,
    };
    // A lock file that its owner removed between opening and locking protects nothing: try the next one.
    for _ in 0..100 {
        let (mut file, is_new) = open_lock_file(&path)?;
        let locked = share.lock(&file);
        let content = if is_new { Ok(LockContent::Created) } else { LockContent::read(&mut file) };
        let is_locked = match locked {
            Ok(()) if is_same_file(&file, &path) => true,
            Ok(()) => continue,
            Err(TryLockError::WouldBlock) => return Err(in_use(content.ok().and_then(LockContent::holder))),
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(TryLockError::Error(e)) if has_no_locks(&e) => {
                if let Ok(LockContent::Holder(holder)) = &content
                    && holder.is_alive_here()
                {
                    return Err(in_use(content.ok().and_then(LockContent::holder)));
                }
                false
            }
            Err(TryLockError::Error(e)) => return Err(io_error(e)),
        };
        let content = content.map_err(|found| LockError::NotOurs { path: path.clone(), found })?;
        return Ok(HeldLock { file, path, content, is_locked, folder: folder_lock });
    }
    Err(io_error(io::Error::other("the lock file changes all the time")))
}

/// Locks the folder itself: a lock file can be removed while it is locked, and another process would create a new one.
#[cfg(unix)]
fn lock_folder(folder: &Path, share: LockKind) -> Result<Option<File>, TryLockError> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECTORY.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(folder).map_err(TryLockError::Error)?;
    share.lock(&file).map(|()| Some(file))
}

/// Folders cannot be opened as files here.
#[cfg(not(unix))]
fn lock_folder(_folder: &Path, _share: LockKind) -> Result<Option<File>, TryLockError> {
    Ok(None)
}

/// Opens the lock file, or creates it (`true`). Links are not followed, and only regular files are accepted.
fn open_lock_file(path: &Path) -> Result<(File, bool), LockError> {
    let io_error = |source| LockError::Io { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other.map(|file| (file, true)).map_err(io_error),
    }
    let not_ours = |found| LockError::NotOurs { path: path.to_owned(), found };
    let about = std::fs::symlink_metadata(path).map_err(io_error)?;
    if about.is_symlink() {
        return Err(not_ours("is a link"));
    }
    if !about.is_file() {
        return Err(not_ours("is no regular file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // It may have been replaced since the check.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path).map_err(io_error)?;
    if !file.metadata().map_err(io_error)?.is_file() {
        return Err(not_ours("is no regular file"));
    }
    Ok((file, false))
}

/// Whether an error means that the file system does not support locks.
fn has_no_locks(error: &io::Error) -> bool {
    #[cfg(unix)]
    if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NOLCK) {
        return true;
    }
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// Whether an open file is the one that the path refers to now.
#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Whether the path still exists: on this system an open file cannot be replaced.
#[cfg(not(unix))]
fn is_same_file(_file: &File, path: &Path) -> bool {
    path.exists()
}

impl LockContent {
    /// Reads an existing lock file. The error says what is wrong if Gausset did not create it.
    fn read(file: &mut File) -> Result<Self, &'static str> {
        let mut bytes = Vec::new();
        let read = io::Seek::rewind(file).and_then(|()| file.take(MAX_LOCK_BYTES).read_to_end(&mut bytes));
        if read.is_err() {
            return Err("cannot be read");
        }
        if bytes.is_empty() {
            return Ok(Self::Foreign);
        }
        if bytes == SHARED_LINE || bytes.iter().all(|&byte| byte == 0) {
            return Ok(Self::Ours);
        }
        Holder::parse(&bytes).map(Self::Holder).ok_or("is a file of another program")
    }

    fn holder(self) -> Option<Holder> {
        match self {
            Self::Holder(holder) => Some(holder),
            Self::Created | Self::Foreign | Self::Ours => None,
        }
    }
}

/// Holder of a lock, as in the lock file: `<pid> <seconds since 1970> <host>`.
#[derive(Debug)]
struct Holder {
    pid: u32,
    since: u64,
    host: String,
}

impl Holder {
    fn current() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self { pid: std::process::id(), since, host: host_name() }
    }

    fn to_line(&self) -> String {
        format!("{} {} {}\n", self.pid, self.since, self.host)
    }

    /// Parses a complete line of [`Self::to_line`] and nothing else.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let line = str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let mut words = line.split(' ');
        let pid = words.next()?.parse().ok()?;
        let since = words.next()?.parse().ok()?;
        let host = words.next()?.to_owned();
        let is_plain = !host.is_empty() && !host.contains(char::is_control) && words.next().is_none();
        is_plain.then_some(Self { pid, since, host })
    }

    /// Holder named in the lock file at this path, if any.
    fn read_at(path: &Path) -> Option<Self> {
        Self::parse(&crate::input::read(path, MAX_LOCK_BYTES).ok()?)
    }

    /// Whether that process runs on this host.
    #[cfg(unix)]
    fn is_alive_here(&self) -> bool {
        use rustix::process::Pid;
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // For a process of another user the call fails with "not permitted", which means that it is running.
        let lives = |pid| !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH));
        self.host == host_name() && pid.is_some_and(lives)
    }

    /// Whether that process runs on this host: unknown here, where every file system has locks.
    #[cfg(not(unix))]
    fn is_alive_here(&self) -> bool {
        false
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on host {} (since {})", self.pid, self.host, utc(self.since))
    }
}

/// Name of this host, without spaces; never empty.
fn host_name() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    let name: String = name.replace(char::is_control, "-");
    let name = name.split_whitespace().collect::<Vec<_>>().join("-");
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Formats seconds since 1970 as `2026-11-21 09:30:00 UTC` (days to civil date after Hinnant, "chrono-compatible
/// low-level date algorithms").
fn utc(seconds: u64) -> String {
    // Dates beyond the year 9999 are clamped.
    let seconds = seconds.min(253_402_300_799);
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59:59 UTC");
    }

    #[test]
    fn a_locked_folder_names_its_holder_and_is_free_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::acquire(folder.path()).unwrap();
        assert_eq!(lock.note, None);
        let refusal = FolderLock::acquire(folder.path()).unwrap_err().to_string();
        let start = format!(
            "{}: in use by process {} on host {} (since 2",
            folder.path().display(),
            std::process::id(),
            host_name()
        );
        assert!(refusal.starts_with(&start), "{refusal}");
        assert!(refusal.ends_with(" UTC); wait until it is done or stop it"), "{refusal}");
        drop(lock);
        assert!(!folder.path().join(LOCK_NAME).exists());
        assert_eq!(FolderLock::acquire(folder.path()).unwrap().note, None);
    }

    #[test]
    fn a_folder_that_some_look_at_cannot_be_locked_and_one_that_is_locked_not_be_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) =
            (SharedLock::acquire(folder.path()).unwrap(), SharedLock::acquire(folder.path()).unwrap());
        let refusal = FolderLock::acquire(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains("in use by another process"), "{refusal}");
        drop(one);
        assert!(FolderLock::acquire(folder.path()).is_err(), "the other shared lock is still held");
        drop(other);
        assert!(!folder.path().join(LOCK_NAME).exists());
        let lock = FolderLock::acquire(folder.path()).unwrap();
        let refusal = SharedLock::acquire(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains(&format!("in use by process {}", std::process::id())), "{refusal}");
        drop(lock);
        assert!(SharedLock::acquire(folder.path()).is_ok());
    }

    #[test]
    fn a_lock_ends_with_its_owner_while_a_program_that_is_being_started_has_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::acquire(folder.path()).unwrap();
        // What a process holds between fork and exec.
        let copies = (lock.taken.file.try_clone(), lock.taken.folder.as_ref().map(File::try_clone));
        drop(lock);
        let lock = FolderLock::acquire(folder.path()).unwrap();
        drop(lock);
        let shared = SharedLock::acquire(folder.path()).unwrap();
        let copies_of_shared =
            (shared.taken.file.try_clone(), shared.taken.folder.as_ref().map(File::try_clone));
        drop(shared);
        assert!(FolderLock::acquire(folder.path()).is_ok());
        drop((copies, copies_of_shared));
    }

    #[test]
    fn a_lock_left_by_a_dead_process_is_taken_over_and_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LOCK_NAME), "4194303 1700000000 elsewhere\n").unwrap();
        let lock = FolderLock::acquire(folder.path()).unwrap();
        let expected = format!(
            "{}: lock: left by process 4194303 on host elsewhere (since 2023-11-14 22:13:20 UTC); taken over",
            folder.path().display()
        );
        assert_eq!(lock.note, Some(expected));
    }

    #[test]
    fn a_lock_file_of_somebody_else_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_NAME);
        let like_ours = "4194303 1700000000 elsewhere and more\n";
        for content in [&[0xff; 10_000][..], b"my thesis", b"12 34", like_ours.as_bytes()] {
            std::fs::write(&path, content).unwrap();
            for refusal in [
                FolderLock::acquire(folder.path()).map(|_| ()).unwrap_err().to_string(),
                SharedLock::acquire(folder.path()).map(|_| ()).unwrap_err().to_string(),
            ] {
                let expected = "/.lock: lock: is a file of another program (expected no such file, or one that \
                                gausset left); choose another folder or move it away";
                assert!(refusal.ends_with(expected), "{refusal}");
            }
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
    }

    #[test]
    fn an_empty_lock_file_that_was_there_before_stays_there_and_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_NAME);
        std::fs::write(&path, "").unwrap();
        drop(SharedLock::acquire(folder.path()).unwrap());
        let lock = FolderLock::acquire(folder.path()).unwrap();
        assert_eq!(lock.note, None);
        assert!(FolderLock::acquire(folder.path()).unwrap_err().to_string().contains("in use by process "));
        drop(lock);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        // Zeros are what a power failure leaves of a line that Gausset wrote.
        std::fs::write(&path, [0; 30]).unwrap();
        drop(FolderLock::acquire(folder.path()).unwrap());
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_file_that_is_a_link_or_a_pipe_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, thesis) = (folder.path().join(LOCK_NAME), folder.path().join("thesis.txt"));
        std::fs::write(&thesis, "words").unwrap();
        let refusal = || FolderLock::acquire(folder.path()).unwrap_err().to_string();
        for target in ["thesis.txt", "nowhere.txt"] {
            std::os::unix::fs::symlink(target, &path).unwrap();
            assert!(refusal().contains("/.lock: lock: is a link (expected"), "{}", refusal());
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(std::fs::read(&thesis).unwrap(), b"words");
        assert!(!folder.path().join("nowhere.txt").exists());
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        assert!(refusal().contains("/.lock: lock: is no regular file"), "{}", refusal());
    }

    #[cfg(unix)]
    #[test]
    fn who_removes_the_lock_file_does_not_get_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_NAME);
        let lock = FolderLock::acquire(folder.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        for refusal in [
            FolderLock::acquire(folder.path()).map(|_| ()).unwrap_err().to_string(),
            SharedLock::acquire(folder.path()).map(|_| ()).unwrap_err().to_string(),
        ] {
            assert!(refusal.contains("in use by another process"), "{refusal}");
        }
        // A file that another program put in its place must not be removed.
        std::fs::write(&path, "mine").unwrap();
        drop(lock);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn without_flock_a_lock_counts_while_its_process_lives() {
        let own = Holder::current();
        assert!(own.is_alive_here());
        assert!(!Holder { host: "elsewhere".to_owned(), ..Holder::current() }.is_alive_here());
        // Process ids end at 2^22 on Linux.
        assert!(!Holder { pid: 1 << 23, ..own }.is_alive_here());
    }
}
