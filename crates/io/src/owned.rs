//! The door for what goes out, beside [`crate::atomic`]: which folders and files are ours to replace or remove.
//!
//! A folder is ours only if a marker file of ours says so: `.gausset`, one line, `gausset NAME`. Names and contents of
//! other files prove nothing. What is not ours is neither replaced nor removed, unless the user says `--force`, and even
//! then only files whose names we are about to write.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::atomic::{FileSystem, Overwrite, WriteError, write_atomic};
use crate::input;

/// Name of the marker file.
pub const MARKER: &str = ".gausset";

/// Longest marker that is looked at.
const MAX_MARKER_BYTES: u64 = 4096;

/// Why a folder cannot be used for output.
#[derive(Debug, thiserror::Error)]
pub enum OwnedError {
    /// The folder holds files of somebody else.
    #[error("{}: output: holds files that gausset did not write (expected an empty or new folder, found {found}); choose another folder, or add --force to write among them", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// The first file, in byte order.
        found: String,
    },
    /// A call to the system failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Whether a marker says that a folder is ours, for this purpose (`frames`, `views` …).
#[must_use]
pub fn is_ours(folder: &Path, purpose: &str) -> bool {
    let marker = folder.join(MARKER);
    let is_file = std::fs::symlink_metadata(&marker).is_ok_and(|about| about.is_file());
    is_file && input::read_to_string(&marker, MAX_MARKER_BYTES).is_ok_and(|text| text == line(purpose))
}

/// Makes a folder (and its parents), or takes one that is empty or ours already, and marks it. With
/// [`Overwrite::Replace`] a folder of somebody else is taken as well, but not marked: it stays theirs.
///
/// # Errors
/// The folder holds files of somebody else; it cannot be written to.
pub fn claim(
    fs: &dyn FileSystem,
    folder: &Path,
    purpose: &str,
    overwrite: Overwrite,
) -> Result<(), OwnedError> {
    let io_error = |action| move |source| WriteError::Io { path: folder.to_owned(), action, source };
    fs.create_folder(folder).map_err(io_error("create folder"))?;
    if is_ours(folder, purpose) {
        return Ok(());
    }
    let names = fs.list(folder).map_err(io_error("list"))?;
    match names.first() {
        Some(name) if overwrite == Overwrite::Refuse => {
            Err(OwnedError::NotOurs { path: folder.to_owned(), found: name.display().to_string() })
        }
        Some(_) => Ok(()),
        None => mark(fs, folder, purpose).map_err(OwnedError::Write),
    }
}

/// Writes the marker into a folder that this process has made.
///
/// # Errors
/// A failed write.
pub fn mark(fs: &dyn FileSystem, folder: &Path, purpose: &str) -> Result<(), WriteError> {
    write_atomic(fs, &folder.join(MARKER), |file| file.write_all(line(purpose).as_bytes()))
}

/// Removes a folder with everything in it, if it is ours; links in it are removed, not followed. One that is not there
/// is fine.
///
/// # Errors
/// The folder is not ours; the system refused.
#[allow(clippy::disallowed_methods, reason = "this is the door")]
pub fn remove(folder: &Path, purpose: &str) -> Result<(), OwnedError> {
    let about = match std::fs::symlink_metadata(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => {
            about.map_err(|source| WriteError::Io { path: folder.to_owned(), action: "look up", source })?
        }
    };
    if !about.is_dir() || !is_ours(folder, purpose) {
        let found = format!("no marker {MARKER} of ours");
        return Err(OwnedError::NotOurs { path: folder.to_owned(), found });
    }
    std::fs::remove_dir_all(folder)
        .map_err(|source| WriteError::Io { path: folder.to_owned(), action: "remove", source }.into())
}

fn line(purpose: &str) -> String {
    format!("gausset {purpose}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::Disk;

    #[test]
    fn a_folder_is_ours_once_it_is_claimed_and_only_for_its_purpose() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("new/frames");
        claim(&Disk, &folder, "frames", Overwrite::Refuse).unwrap();
        assert!(is_ours(&folder, "frames") && !is_ours(&folder, "views"));
        std::fs::write(folder.join("a.jpg"), b"x").unwrap();
        claim(&Disk, &folder, "frames", Overwrite::Refuse).unwrap();
        assert!(remove(&folder, "views").is_err());
        remove(&folder, "frames").unwrap();
        assert!(!folder.exists());
        remove(&folder, "frames").unwrap();
    }

    #[test]
    fn a_folder_of_somebody_else_is_neither_taken_nor_removed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("thesis.txt"), b"x").unwrap();
        let refusal = claim(&Disk, root.path(), "frames", Overwrite::Refuse).unwrap_err().to_string();
        assert!(refusal.contains("found thesis.txt"), "{refusal}");
        claim(&Disk, root.path(), "frames", Overwrite::Replace).unwrap();
        assert!(!is_ours(root.path(), "frames"), "forced, but still theirs");
        assert!(remove(root.path(), "frames").is_err());
        assert!(root.path().join("thesis.txt").is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_never_a_marker_and_never_a_folder_to_remove() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("ours");
        claim(&Disk, &ours, "frames", Overwrite::Refuse).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        assert!(remove(&link, "frames").is_err());
        let theirs = root.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::symlink(ours.join(MARKER), theirs.join(MARKER)).unwrap();
        assert!(!is_ours(&theirs, "frames"));
    }
}
