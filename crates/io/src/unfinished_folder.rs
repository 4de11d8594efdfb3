//! An unfinished output folder: `.tmp-<pid>-<n>-NAME` next to its final path.
//!
//! It is marked as Gausset-owned when it is created ([`crate::ownership`]), so that the remains of a killed process can be
//! distinguished from third-party files and removed. When it is complete it is renamed to its final name; otherwise it
//! is removed on drop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::atomic::{FileSystem, WriteError};
use crate::ownership::{self, OwnershipError};

/// Prefix of the names of everything unfinished.
const PREFIX: &str = ".tmp-";

/// A folder that only this process uses.
#[derive(Debug)]
pub struct UnfinishedFolder {
    path: PathBuf,
    name: String,
}

impl UnfinishedFolder {
    /// Creates the folder in `parent`, which is created if necessary, and removes drafts of this name that earlier
    /// processes left there. The caller must hold the lock of `parent`.
    ///
    /// # Errors
    /// The system refused.
    pub fn new(fs: &dyn FileSystem, parent: &Path, name: &str) -> Result<Self, WriteError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let io_error = |action| move |source| WriteError::Io { path: parent.to_owned(), action, source };
        fs.create_folder(parent).map_err(io_error("create folder"))?;
        for left in fs.list(parent).map_err(io_error("list"))? {
            let is_draft =
                left.to_str().is_some_and(|l| l.starts_with(PREFIX) && l.ends_with(&format!("-{name}")));
            let path = parent.join(&left);
            if is_draft
                && ownership::is_gausset_owned(&path, name)
                && let Err(error) = ownership::remove(&path, name)
            {
                tracing::warn!("{error}");
            }
        }
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{count}-{name}", std::process::id()));
            match std::fs::create_dir(&path) {
                // A third-party file or folder: never used.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("create folder")(error)),
                Ok(()) => {
                    ownership::mark(fs, &path, name)?;
                    return Ok(Self { path, name: name.to_owned() });
                }
            }
        }
    }

    /// Path of the draft.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to `target`, replacing an existing Gausset-owned folder with the same marker. An interruption
    /// leaves the old one, the new one, or neither under this name, never a part of one.
    ///
    /// # Errors
    /// The existing folder is not Gausset-owned, or the system refused.
    pub fn publish(self, fs: &dyn FileSystem, target: &Path) -> Result<(), OwnershipError> {
        let io_error = |action| move |source| WriteError::Io { path: target.to_owned(), action, source };
        fs.sync_folder(&self.path).map_err(io_error("sync folder"))?;
        let old = ownership::move_aside(target, &self.name)?;
        if let Err(error) = fs.rename(&self.path, target) {
            // The old one has its name again; if that fails as well, the first error is the one to report.
            if let Some(old) = old {
                let _ = fs.rename(&old, target);
            }
            return Err(io_error("rename")(error).into());
        }
        let parent = self.path.parent().unwrap_or(Path::new("."));
        fs.sync_folder(parent).map_err(io_error("sync folder"))?;
        if let Some(old) = old {
            ownership::remove_moved(&old);
        }
        Ok(())
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        // A published draft no longer exists here.
        if let Err(error) = ownership::remove(&self.path, &self.name) {
            tracing::warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::Disk;

    fn names(folder: &Path) -> Vec<String> {
        Disk.list(folder).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_draft_takes_its_name_when_it_is_whole_and_goes_when_it_is_not() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("frames");
        for content in ["old", "new"] {
            let draft = UnfinishedFolder::new(&Disk, root.path(), "frames").unwrap();
            std::fs::write(draft.path().join("a.jpg"), content).unwrap();
            draft.publish(&Disk, &target).unwrap();
            assert_eq!(std::fs::read_to_string(target.join("a.jpg")).unwrap(), content);
        }
        drop(UnfinishedFolder::new(&Disk, root.path(), "frames").unwrap());
        assert_eq!(names(root.path()), ["frames"]);
        assert!(ownership::is_gausset_owned(&target, "frames"));
    }

    #[test]
    fn a_draft_never_takes_the_place_of_a_folder_of_somebody_else() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("frames");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("holiday.jpg"), "x").unwrap();
        let refusal =
            UnfinishedFolder::new(&Disk, root.path(), "frames").unwrap().publish(&Disk, &target).unwrap_err();
        assert!(matches!(refusal, OwnershipError::ThirdPartyFiles { .. }), "{refusal}");
        assert_eq!((names(root.path()), names(&target)), (vec!["frames".into()], vec!["holiday.jpg".into()]));
    }

    #[test]
    fn what_a_kill_left_is_removed_and_what_only_looks_like_it_is_not() {
        let root = tempfile::tempdir().unwrap();
        std::mem::forget(UnfinishedFolder::new(&Disk, root.path(), "sfm").unwrap());
        std::mem::forget(UnfinishedFolder::new(&Disk, root.path(), "frames").unwrap());
        let theirs = root.path().join(".tmp-7-sfm");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("thesis.txt"), "x").unwrap();
        assert_eq!(names(root.path()).len(), 3);
        let draft = UnfinishedFolder::new(&Disk, root.path(), "sfm").unwrap();
        let left = names(root.path());
        let own = draft.path().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(
            left.len() == 3 && left.contains(&own) && left.contains(&".tmp-7-sfm".to_owned()),
            "{left:?}"
        );
        drop(draft);
        assert!(theirs.join("thesis.txt").is_file());
    }
}
