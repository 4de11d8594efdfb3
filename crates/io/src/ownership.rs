//! Decides which output folders and files are Gausset-owned, and may therefore be replaced or removed.
//!
//! A folder is Gausset-owned only if its marker file says so: `.gausset`, one line, `gausset NAME`. Names and contents
//! of other files prove nothing. Other files are neither replaced nor removed unless the user adds `--force`, and then
//! only those with the names of files that are about to be written. Inputs are never replaced ([`crate::input_files`]).

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::atomic::{
    Disk, FileSystem, Overwrite, WriteError, check_free, is_temporary, plain_reason, remove_temporaries,
    write_atomic,
};
use crate::input;
use crate::input_files;
use crate::lock::LOCK_NAME;

/// Name of the marker file.
pub const MARKER: &str = ".gausset";

/// Longest marker that is read, bytes.
const MAX_MARKER_BYTES: u64 = 4096;

/// Before the name of a folder that is being removed.
const REMOVED: &str = "-removed-";

/// Why a folder cannot be used for output.
#[derive(Debug, thiserror::Error)]
pub enum OwnershipError {
    /// The folder contains third-party files.
    #[error("{}: output: holds files that gausset did not write (expected an empty or new folder, found {found}); choose another folder, or add ⟨force⟩ to write among them", path.display())]
    ThirdPartyFiles {
        /// The folder, which is not changed.
        path: PathBuf,
        /// The first file, in byte order.
        found: String,
    },
    /// A system call failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Whether a marker says that Gausset owns the folder, for this purpose (`frames`, `views` …).
#[must_use]
pub fn is_gausset_owned(folder: &Path, purpose: &str) -> bool {
    let marker = folder.join(MARKER);
    let is_file = std::fs::symlink_metadata(&marker).is_ok_and(|about| about.is_file());
    is_file && input::read_to_string(&marker, MAX_MARKER_BYTES).is_ok_and(|text| text == line(purpose))
}

/// Creates a folder (and its parents), or reuses one that is empty or already Gausset-owned, and marks it. With
/// [`Overwrite::Replace`] a third-party folder is used as well, but not marked.
///
/// # Errors
/// The folder contains third-party files, or cannot be written to.
pub fn claim_folder(
    fs: &dyn FileSystem,
    folder: &Path,
    purpose: &str,
    overwrite: Overwrite,
) -> Result<(), OwnershipError> {
    let io_error = |action| move |source| WriteError::Io { path: folder.to_owned(), action, source };
    fs.create_folder(folder).map_err(io_error("create folder"))?;
    if is_gausset_owned(folder, purpose) {
        return Ok(());
    }
    match contents(fs, folder)?.first() {
        // Another Gausset process has just marked it.
        Some(_) if is_gausset_owned(folder, purpose) => Ok(()),
        Some(name) if overwrite == Overwrite::Refuse => Err(OwnershipError::ThirdPartyFiles {
            path: folder.to_owned(),
            found: name.display().to_string(),
        }),
        Some(_) => Ok(()),
        None => mark(fs, folder, purpose).map_err(OwnershipError::Write),
    }
}

/// Names in a folder, except those of the lock file and of markers that are being written.
fn contents(fs: &dyn FileSystem, folder: &Path) -> Result<Vec<OsString>, WriteError> {
    let mut names = fs.list(folder).map_err(|source| WriteError::Io {
        path: folder.to_owned(),
        action: "list",
        source,
    })?;
    let is_marker = |name: &OsString| name.display().to_string().ends_with(&format!("-{MARKER}"));
    let is_marker_in_the_making = |name: &OsString| is_temporary(name) && is_marker(name);
    names.retain(|name| name != LOCK_NAME && !is_marker_in_the_making(name));
    Ok(names)
}

/// Creates or reuses a folder for files with these names. An empty folder is marked; in a marked folder, earlier files
/// may be replaced. In a third-party folder, existing files are refused without `--force`, and it is not marked. No
/// name may be a link that leads out of the folder, or a pipe or device.
///
/// # Errors
/// A file exists or leads out of the folder, or the folder cannot be written to.
pub fn claim_for_files(
    fs: &dyn FileSystem,
    folder: &Path,
    purpose: &str,
    names: impl IntoIterator<Item = impl AsRef<Path>>,
    overwrite: Overwrite,
) -> Result<(), WriteError> {
    let io_error = |action| move |source| WriteError::Io { path: folder.to_owned(), action, source };
    fs.create_folder(folder).map_err(io_error("create folder"))?;
    if !is_gausset_owned(folder, purpose) && contents(fs, folder)?.is_empty() {
        return mark(fs, folder, purpose);
    }
    let overwrite = if is_gausset_owned(folder, purpose) { Overwrite::Replace } else { overwrite };
    for name in names {
        check_inside(folder, name.as_ref())?;
        check_free(fs, &folder.join(name), overwrite)?;
    }
    Ok(())
}

/// Refuses a path below a folder if a link on it leads out of that folder, or if it is a pipe, device or socket.
/// Missing components are fine; the folder itself may be a link.
///
/// # Errors
/// The first component that leads out, is a broken link, or is neither a file nor a folder.
pub fn check_inside(folder: &Path, below: &Path) -> Result<(), WriteError> {
    let Ok(real) = std::fs::canonicalize(folder) else { return Ok(()) };
    let mut path = folder.to_owned();
    for part in below.components() {
        if !matches!(part, Component::Normal(_)) {
            return Err(WriteError::LeadsOut { path: folder.join(below), folder: folder.to_owned() });
        }
        path.push(part);
        let Ok(about) = std::fs::symlink_metadata(&path) else { return Ok(()) };
        let about = if about.is_symlink() {
            let Ok(target) = std::fs::canonicalize(&path) else {
                return Err(WriteError::DanglingLink { path });
            };
            if !target.starts_with(&real) {
                return Err(WriteError::LeadsOut { path, folder: folder.to_owned() });
            }
            std::fs::metadata(&path).map_err(|source| WriteError::Io {
                path: path.clone(),
                action: "look up",
                source,
            })?
        } else {
            about
        };
        if !about.is_file() && !about.is_dir() {
            return Err(WriteError::Special { path });
        }
    }
    Ok(())
}

/// Removes the temporary files that killed processes left in a Gausset-owned folder and in these sub-folders; does
/// nothing in a third-party folder. The caller must hold the lock that excludes other writers.
///
/// # Errors
/// A folder could not be listed.
pub fn clean_up(
    fs: &dyn FileSystem,
    folder: &Path,
    purpose: &str,
    below: impl IntoIterator<Item = impl AsRef<Path>>,
) -> Result<(), WriteError> {
    if !is_gausset_owned(folder, purpose) {
        return Ok(());
    }
    remove_temporaries(fs, folder)?;
    for below in below {
        if check_inside(folder, below.as_ref()).is_ok() {
            remove_temporaries(fs, &folder.join(below))?;
        }
    }
    Ok(())
}

/// Writes the marker into a folder that this process has created.
///
/// # Errors
/// The write failed.
pub fn mark(fs: &dyn FileSystem, folder: &Path, purpose: &str) -> Result<(), WriteError> {
    write_atomic(fs, &folder.join(MARKER), |file| file.write_all(line(purpose).as_bytes()))
}

/// Removes a Gausset-owned folder with its contents, and what interrupted removals of it have left; links in it are
/// removed, not followed. A missing folder is no error.
///
/// The folder first loses its name, so that an interruption never leaves a part of it there, and last its marker.
///
/// # Errors
/// The folder is not Gausset-owned, or the system refused.
pub fn remove(folder: &Path, purpose: &str) -> Result<(), OwnershipError> {
    for left in folders_moved_aside(folder, purpose) {
        remove_moved(&left);
    }
    if !is_removable(folder, purpose)? {
        return Ok(());
    }
    let is_temporary = folder.file_name().is_some_and(is_temporary);
    // Where nothing can be renamed, the folder is emptied in place.
    let moved = if is_temporary { None } else { rename_aside(folder).ok() };
    let folder = moved.as_deref().unwrap_or(folder);
    remove_marker_last(folder)
        .map_err(|source| WriteError::Io { path: folder.to_owned(), action: "remove", source }.into())
}

/// Renames a Gausset-owned folder to `.tmp-<pid>-<n>-removed-NAME` next to it; `None` if it is missing.
///
/// # Errors
/// The folder is not Gausset-owned, or the system refused.
pub(crate) fn move_aside(folder: &Path, purpose: &str) -> Result<Option<PathBuf>, OwnershipError> {
    if !is_removable(folder, purpose)? {
        return Ok(None);
    }
    let io_error = |source| WriteError::Io { path: folder.to_owned(), action: "rename", source };
    Ok(Some(rename_aside(folder).map_err(io_error)?))
}

/// Removes a folder that [`move_aside`] has renamed. If that fails, it takes up space only.
pub(crate) fn remove_moved(folder: &Path) {
    if let Err(error) = remove_marker_last(folder) {
        tracing::warn!("{}: could not be removed: {}", folder.display(), plain_reason(&error));
    }
}

/// Whether a folder exists.
///
/// # Errors
/// It is not Gausset-owned, or cannot be looked up.
fn is_removable(folder: &Path, purpose: &str) -> Result<bool, OwnershipError> {
    let about = match std::fs::symlink_metadata(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        about => {
            about.map_err(|source| WriteError::Io { path: folder.to_owned(), action: "look up", source })?
        }
    };
    if !about.is_dir() || !is_gausset_owned(folder, purpose) {
        let found = format!("no marker {MARKER} of ours");
        return Err(OwnershipError::ThirdPartyFiles { path: folder.to_owned(), found });
    }
    input_files::check_no_input_below(folder)?;
    Ok(true)
}

#[allow(clippy::disallowed_methods, reason = "this is the door")]
fn rename_aside(folder: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(format!(".tmp-{}-{count}{REMOVED}", std::process::id()));
    name.push(folder.file_name().unwrap_or_default());
    let aside = folder.with_file_name(name);
    std::fs::rename(folder, &aside)?;
    Ok(aside)
}

/// What [`move_aside`] has made of this folder in processes that ended before its removal.
fn folders_moved_aside(folder: &Path, purpose: &str) -> Vec<PathBuf> {
    let Some(name) = folder.file_name() else { return Vec::new() };
    let ending = format!("{REMOVED}{}", name.display());
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = Disk.list(parent).unwrap_or_default().into_iter();
    let left = names.filter(|left| is_temporary(left) && left.to_string_lossy().ends_with(&ending));
    left.map(|left| parent.join(left)).filter(|left| is_removable(left, purpose).unwrap_or(false)).collect()
}

/// Removes a folder, its marker last. What another process removes meanwhile is no error.
#[allow(clippy::disallowed_methods, reason = "this is the door")]
fn remove_marker_last(folder: &Path) -> io::Result<()> {
    let remove = || {
        let entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        for entry in entries.iter().filter(|entry| entry.file_name() != MARKER) {
            match entry.file_type()?.is_dir() {
                true => std::fs::remove_dir_all(entry.path())?,
                false => std::fs::remove_file(entry.path())?,
            }
        }
        std::fs::remove_dir_all(folder)
    };
    remove().or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Removes an empty folder; another one, and one that cannot be removed, stays.
#[allow(clippy::disallowed_methods, reason = "this is the door")]
pub fn remove_empty(folder: &Path) {
    // The system refuses to remove a folder with content.
    let _ = std::fs::remove_dir(folder);
}

fn line(purpose: &str) -> String {
    format!("gausset {purpose}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_ours_once_it_is_claimed_and_only_for_its_purpose() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("new/frames");
        claim_folder(&Disk, &folder, "frames", Overwrite::Refuse).unwrap();
        assert!(is_gausset_owned(&folder, "frames") && !is_gausset_owned(&folder, "views"));
        std::fs::write(folder.join("a.jpg"), b"x").unwrap();
        claim_folder(&Disk, &folder, "frames", Overwrite::Refuse).unwrap();
        assert!(remove(&folder, "views").is_err());
        // What a kill during a removal has left goes with the next one, and does not stand in the way of the folder.
        let left = move_aside(&folder, "frames").unwrap().unwrap();
        claim_folder(&Disk, &folder, "frames", Overwrite::Refuse).unwrap();
        assert!(left.join("a.jpg").exists() && is_gausset_owned(&left, "frames"));
        remove(&folder, "frames").unwrap();
        assert!(!folder.exists() && !left.exists());
        remove(&folder, "frames").unwrap();
    }

    #[test]
    fn of_several_who_claim_a_folder_at_once_nobody_is_refused() {
        for _ in 0..20 {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("masks");
            std::thread::scope(|scope| {
                let claim = || claim_folder(&Disk, &folder, "masks", Overwrite::Refuse);
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
            });
        }
        // A marker that a killed process did not finish is not a third-party file.
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(".tmp-17-0-.gausset"), "").unwrap();
        claim_folder(&Disk, root.path(), "masks", Overwrite::Refuse).unwrap();
        assert!(is_gausset_owned(root.path(), "masks"));
    }

    #[test]
    fn what_kills_left_goes_from_folders_of_ours_and_from_no_others() {
        let root = tempfile::tempdir().unwrap();
        let (ours, theirs) = (root.path().join("ours"), root.path().join("theirs"));
        claim_folder(&Disk, &ours, "masks", Overwrite::Refuse).unwrap();
        let names =
            [".tmp-1-0-a.png", "sub/.tmp-1-1-a.png", "other/.tmp-1-2-a.png", ".tmp-notes", "sub/a.png"];
        for path in [&ours, &theirs].into_iter().flat_map(|folder| names.map(|name| folder.join(name))) {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(theirs.join("sub"), ours.join("out")).unwrap();
        for folder in [&ours, &theirs] {
            clean_up(&Disk, folder, "masks", ["sub", "out", "none", "../theirs"]).unwrap();
            clean_up(&Disk, folder, "views", ["other"]).unwrap();
        }
        let left = |folder: &Path| names.map(|name| folder.join(name).exists());
        assert_eq!(left(&ours), [false, false, true, true, true]);
        assert_eq!(left(&theirs), [true; 5]);
    }

    #[test]
    fn a_folder_of_somebody_else_is_neither_taken_nor_removed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("thesis.txt"), b"x").unwrap();
        let refusal = claim_folder(&Disk, root.path(), "frames", Overwrite::Refuse).unwrap_err().to_string();
        assert!(refusal.contains("found thesis.txt"), "{refusal}");
        claim_folder(&Disk, root.path(), "frames", Overwrite::Replace).unwrap();
        assert!(!is_gausset_owned(root.path(), "frames"), "forced, but still theirs");
        assert!(remove(root.path(), "frames").is_err());
        assert!(root.path().join("thesis.txt").is_file());
    }

    #[test]
    fn what_is_taken_in_a_folder_of_somebody_else_is_refused_and_in_ours_replaced() {
        let root = tempfile::tempdir().unwrap();
        let (ours, theirs) = (root.path().join("ours"), root.path().join("theirs"));
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("a.png"), b"x").unwrap();
        let take_in =
            |folder: &Path, name: &str, overwrite| claim_for_files(&Disk, folder, "views", [name], overwrite);
        take_in(&ours, "a.png", Overwrite::Refuse).unwrap();
        std::fs::write(ours.join("a.png"), b"x").unwrap();
        take_in(&ours, "a.png", Overwrite::Refuse).unwrap();
        take_in(&theirs, "b.png", Overwrite::Refuse).unwrap();
        assert!(!is_gausset_owned(&theirs, "views"));
        let refusal = take_in(&theirs, "a.png", Overwrite::Refuse).unwrap_err().to_string();
        assert!(refusal.contains("a.png: output: exists already"), "{refusal}");
        take_in(&theirs, "a.png", Overwrite::Replace).unwrap();
        assert!(!is_gausset_owned(&theirs, "views"), "forced, but still theirs");
    }

    #[cfg(unix)]
    #[test]
    fn no_link_leads_out_and_no_pipe_is_written_to() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let (folder, outside) = (root.path().join("folder"), root.path().join("outside"));
        for path in [&folder, &outside, &folder.join("sub")] {
            std::fs::create_dir(path).unwrap();
        }
        symlink(&outside, folder.join("out")).unwrap();
        symlink("nothing", folder.join("nowhere")).unwrap();
        symlink("sub", folder.join("within")).unwrap();
        symlink(&folder, root.path().join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        for start in [&folder, &root.path().join("link")] {
            let refusal =
                |name: &str| check_inside(start, Path::new(name)).map_err(|refusal| refusal.to_string());
            for fine in ["a.png", "sub/a.png", "new/a.png", "within/a.png"] {
                assert_eq!(refusal(fine), Ok(()));
            }
            for out in ["out", "out/a.png", "../a.png", "/a.png"] {
                assert!(refusal(out).unwrap_err().contains("is a link that leads out of"), "{out}");
            }
            assert!(refusal("nowhere").unwrap_err().contains("is a broken symbolic link"));
            assert!(refusal("pipe").unwrap_err().contains("is a pipe, device or socket"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_never_a_marker_and_never_a_folder_to_remove() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("ours");
        claim_folder(&Disk, &ours, "frames", Overwrite::Refuse).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        assert!(remove(&link, "frames").is_err());
        let theirs = root.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::symlink(ours.join(MARKER), theirs.join(MARKER)).unwrap();
        assert!(!is_gausset_owned(&theirs, "frames"));
    }
}
