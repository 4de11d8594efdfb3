//! A folder that is in use is locked, so that two processes never write to one run.
//!
//! `RUN/.lock` is held with `flock`, which the system releases when the process ends, however it ends. Inside stand
//! process number, host and start time, for the message and for file systems without `flock`: there a lock counts as
//! held when it names a living process of this host, and as left behind when that process is gone.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::Pid;

/// Name of the lock file.
pub const LOCK_NAME: &str = ".lock";

/// Longest lock file that is looked at.
const MAX_LOCK_BYTES: u64 = 4096;

/// Why a folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{}: in use by {holder}; wait until it is done or stop it", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// `process 123 on host x (since 2026-11-21 09:30:00 UTC)`.
        holder: String,
    },
    /// The lock file could not be opened or written.
    #[error("{}: lock: {}", path.display(), crate::atomic::plain_reason(source))]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Holds the lock of a folder until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    /// Something worth telling: a lock left by a process that died, or a file system without locks.
    pub note: Option<String>,
    path: PathBuf,
    /// Keeps the `flock`.
    _file: File,
}

impl FolderLock {
    /// Locks a folder without waiting.
    ///
    /// # Errors
    /// Another process holds it; the lock file cannot be written.
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let Taken { mut file, path, previous, is_locked } =
            take(folder, FlockOperation::NonBlockingLockExclusive)?;
        let note = match (is_locked, previous) {
            (true, Some(holder)) => Some(format!("{}: lock: left by {holder}; taken over", folder.display())),
            (true, None) => None,
            (false, _) => Some(format!(
                "{}: lock: this file system has no locks; make sure that no other host uses the folder",
                folder.display()
            )),
        };
        let written = file.set_len(0).and_then(|()| {
            io::Seek::rewind(&mut file)?;
            file.write_all(Holder::current().to_line().as_bytes())
        });
        written.map_err(|source| LockError::Io { path: path.clone(), source })?;
        Ok(Self { note, path, _file: file })
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Still locked: nobody can have made it his own.
        if let Err(e) = std::fs::remove_file(&self.path) {
            tracing::warn!(
                "{}: could not be removed: {}",
                self.path.display(),
                crate::atomic::plain_reason(&e)
            );
        }
    }
}

/// Says that a folder is looked at, or that pictures are put into it, until it is dropped: others may do the same, and
/// nobody may lock it meanwhile.
#[derive(Debug)]
pub struct SharedLock {
    path: PathBuf,
    /// Keeps the `flock`.
    file: File,
}

impl SharedLock {
    /// Takes a share of the lock without waiting. On a file system without locks it succeeds, unless a living process
    /// of this host has left its name.
    ///
    /// # Errors
    /// A process holds the folder for itself; the lock file cannot be written.
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let Taken { file, path, .. } = take(folder, FlockOperation::NonBlockingLockShared)?;
        Ok(Self { path, file })
    }
}

/// A lock file as it was found.
struct Taken {
    file: File,
    path: PathBuf,
    /// Who stands in it: a process that is gone.
    previous: Option<Holder>,
    /// No, on a file system without locks.
    is_locked: bool,
}

/// Opens the lock file of a folder and locks it, or makes sure that nobody holds it by its name.
fn take(folder: &Path, operation: FlockOperation) -> Result<Taken, LockError> {
    let path = folder.join(LOCK_NAME);
    let io_error = |source| LockError::Io { path: path.clone(), source };
    // A lock file that its owner removed between our open and our flock locks nobody out: try the next one.
    for _ in 0..100 {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(io_error)?;
        let locked = rustix::fs::flock(&file, operation);
        let previous = Holder::read(&mut file);
        let in_use = |holder: Option<Holder>| LockError::InUse {
            folder: folder.to_owned(),
            holder: holder.map_or("another process".to_owned(), |holder| holder.to_string()),
        };
        let is_locked = match locked {
            Ok(()) if is_same_file(&file, &path) => true,
            Ok(()) | Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) => return Err(in_use(previous)),
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                if previous.as_ref().is_some_and(Holder::is_alive_here) {
                    return Err(in_use(previous));
                }
                false
            }
            Err(e) => return Err(io_error(e.into())),
        };
        return Ok(Taken { file, path, previous, is_locked });
    }
    Err(io_error(io::Error::other("the lock file changes all the time")))
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        // Only the last one takes the file away: it alone can have the lock for itself.
        let is_last = rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // A line in it was left by a process that died: the next one to lock the folder will want to tell.
        let is_empty = self.file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if is_last && is_empty && is_same_file(&self.file, &self.path) {
            // What would be left is an empty file that locks nobody out.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether an open file is the one that stands under the path now.
fn is_same_file(file: &File, path: &Path) -> bool {
    match (rustix::fs::fstat(file), rustix::fs::stat(path)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
        _ => false,
    }
}

/// Who holds a lock, as the lock file says: `<pid> <seconds since 1970> <host>`.
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

    fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        io::Seek::rewind(file).ok()?;
        file.take(MAX_LOCK_BYTES).read_to_string(&mut text).ok()?;
        let mut words = text.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        let since = words.next()?.parse().ok()?;
        let host = words.next()?.chars().filter(|c| !c.is_control()).collect();
        Some(Self { pid, since, host })
    }

    /// Whether that process runs on this host.
    fn is_alive_here(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // A process of another user answers "not permitted", which means that it lives.
        let lives = |pid| !matches!(rustix::process::test_kill_process(pid), Err(Errno::SRCH));
        self.host == host_name() && pid.is_some_and(lives)
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on host {} (since {})", self.pid, self.host, utc(self.since))
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split_whitespace().collect::<Vec<_>>().join("-")
}

/// `2026-11-21 09:30:00 UTC` of seconds since 1970 (days to civil date after Hinnant, "chrono-compatible low-level date
/// algorithms").
fn utc(seconds: u64) -> String {
    // Beyond the year 9999 there is nothing to be right about.
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
        assert!(FolderLock::acquire(folder.path()).is_err(), "the other one still looks");
        drop(other);
        assert!(!folder.path().join(LOCK_NAME).exists());
        let lock = FolderLock::acquire(folder.path()).unwrap();
        let refusal = SharedLock::acquire(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains(&format!("in use by process {}", std::process::id())), "{refusal}");
        drop(lock);
        assert!(SharedLock::acquire(folder.path()).is_ok());
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
    fn a_lock_file_full_of_rubbish_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LOCK_NAME), [0xff; 10_000]).unwrap();
        assert_eq!(FolderLock::acquire(folder.path()).unwrap().note, None);
    }

    #[test]
    fn without_flock_a_lock_counts_while_its_process_lives() {
        let own = Holder::current();
        assert!(own.is_alive_here());
        assert!(!Holder { host: "elsewhere".to_owned(), ..Holder::current() }.is_alive_here());
        // Process numbers end at 2^22 on Linux.
        assert!(!Holder { pid: 1 << 23, ..own }.is_alive_here());
    }
}
