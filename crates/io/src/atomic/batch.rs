//! Writes files as a batch: written one by one, synced together, then renamed.
//!
//! ```text
//! write .tmp-… (no sync) → … → one sync for all of them → rename each
//! ```
//! For files that a list refers to: the list is written after them. A file never has its name before its content is on
//! the device. Folders are not synced: a name that a power failure undoes is missing from its folder, which readers of
//! the list can detect.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::writer::AtomicWriter;
use super::{Disk, FileSystem, WriteError, WriteOptions, retry};

/// A completely written file without its final name. It is deleted on drop.
#[derive(Debug)]
pub struct UnnamedFile {
    /// Final name, as given.
    pub(super) path: PathBuf,
    /// Final name with links resolved.
    pub(super) target: PathBuf,
    /// Path of the content; `None` for devices and pipes, which are written in place, and after the rename.
    pub(super) temporary: Option<PathBuf>,
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It may have been removed with its folder.
            let _ = retry(|| Disk.remove(temporary));
        }
    }
}

/// Writes the content of a file that [`commit_all`] renames later; an existing file stays until then.
///
/// # Errors
/// As [`super::write_atomic`].
pub fn write_uncommitted(path: &Path, content: &[u8]) -> Result<UnnamedFile, WriteError> {
    let mut writer = AtomicWriter::create(&Disk, path, &WriteOptions::default())?;
    writer.write_all(content).map_err(|source| WriteError::Io {
        path: path.to_owned(),
        action: "write",
        source,
    })?;
    writer.close_unnamed()
}

/// Syncs all files, then renames each to its final name.
///
/// # Errors
/// A system call failed. Files that were already renamed stay; the others are deleted.
pub fn commit_all(files: Vec<UnnamedFile>) -> Result<(), WriteError> {
    commit_all_after(files, || Ok(()))
}

/// As [`commit_all`]; `before_names` runs once the contents are safe, before the first file gets its name.
///
/// # Errors
/// As [`commit_all`], and those of `before_names`; then no file has got its name.
pub fn commit_all_after(
    mut files: Vec<UnnamedFile>,
    before_names: impl FnOnce() -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let _span = gausset_prof::span("fsync");
    sync_contents(&files)?;
    before_names()?;
    for file in &mut files {
        if let Some(temporary) = &file.temporary {
            retry(|| Disk.rename(temporary, &file.target)).map_err(|source| WriteError::Io {
                path: file.path.clone(),
                action: "rename",
                source,
            })?;
            file.temporary = None;
        }
    }
    Ok(())
}

/// One call per file system: many small files cost one journal commit instead of one each.
#[cfg(target_os = "linux")]
fn sync_contents(files: &[UnnamedFile]) -> Result<(), WriteError> {
    use std::os::unix::fs::MetadataExt;
    let mut done: Vec<u64> = Vec::new();
    for file in files {
        let Some(folder) = file.temporary.as_deref().and_then(Path::parent) else { continue };
        let sync = || {
            let folder = std::fs::File::open(folder)?;
            let device = folder.metadata()?.dev();
            if !done.contains(&device) {
                rustix::fs::syncfs(&folder)?;
                done.push(device);
            }
            Ok(())
        };
        retry(sync).map_err(|source| WriteError::Io { path: file.path.clone(), action: "sync", source })?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn sync_contents(files: &[UnnamedFile]) -> Result<(), WriteError> {
    for file in files {
        let Some(temporary) = &file.temporary else { continue };
        let sync = || std::fs::File::options().write(true).open(temporary)?.sync_all();
        retry(sync).map_err(|source| WriteError::Io { path: file.path.clone(), action: "sync", source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_get_their_names_together_or_vanish() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a"), b"old").unwrap();
        let write = |name: &str| write_uncommitted(&path(name), name.as_bytes()).unwrap();
        let files = vec![write("a"), write("b")];
        assert_eq!(std::fs::read(path("a")).unwrap(), b"old");
        assert_eq!(names(folder.path()).iter().filter(|name| name.starts_with(".tmp-")).count(), 2);
        commit_all(files).unwrap();
        assert_eq!(std::fs::read(path("a")).unwrap(), b"a");
        drop([write("a"), write("c")]);
        assert_eq!(names(folder.path()), ["a", "b"]);
    }
}
