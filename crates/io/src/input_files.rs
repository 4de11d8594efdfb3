//! Protects input files: no command writes to a file that it reads, even with ⟨force⟩.
//!
//! A job holds the files that it reads ([`InputFiles`]) as long as it may read them: a dataset its images, masks and
//! model, a run its files, a command the files in its arguments. Every writer of [`crate::atomic`] and every removal by
//! [`crate::ownership`] checks here ([`check_not_input`]). A file is the same under all its names: another spelling, a symbolic
//! link, and on Unix a hard link.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::atomic::WriteError;

/// Identity of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FileIdentity {
    /// Canonical path.
    Path(PathBuf),
    /// Device and inode number, which all hard links share.
    Number(u64, u64),
}

/// Number of holders of a file, and one of its paths.
type Held = HashMap<FileIdentity, (usize, PathBuf)>;

/// Files that the jobs of this process read.
static INPUTS: LazyLock<Mutex<Held>> = LazyLock::new(Mutex::default);

fn held() -> MutexGuard<'static, Held> {
    INPUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Input files. While this value lives, nothing in this process replaces or removes them.
#[derive(Debug, Default)]
pub struct InputFiles {
    keys: Vec<FileIdentity>,
}

impl InputFiles {
    /// Holds these files, and for a folder the files directly in it. Missing files are not held.
    pub fn new(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let mut keys = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            let inside = entries.map(|entry| entry.path()).filter(|path| path.is_file());
            let own = path.is_file().then(|| path.to_owned());
            own.into_iter().chain(inside).for_each(|file| keys.extend(identities_of(&file)));
        }
        let mut held = held();
        for (key, path) in &keys {
            held.entry(key.clone()).or_insert_with(|| (0, path.clone())).0 += 1;
        }
        Self { keys: keys.into_iter().map(|(key, _)| key).collect() }
    }
}

impl Drop for InputFiles {
    fn drop(&mut self) {
        let mut held = held();
        for key in &self.keys {
            if let Some((count, _)) = held.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    held.remove(key);
                }
            }
        }
    }
}

/// Fails if `path` is an input file: it must not be written or removed.
///
/// # Errors
/// [`WriteError::IsInput`].
pub fn check_not_input(path: &Path) -> Result<(), WriteError> {
    let keys = identities_of(path);
    let held = held();
    let is_read = keys.iter().any(|(key, _)| match (key, held.get(key)) {
        (FileIdentity::Path(_), found) => found.is_some(),
        // The inode may have been reused by another file.
        (FileIdentity::Number(..), found) => {
            found.is_some_and(|(_, path)| identities_of(path).iter().any(|(other, _)| other == key))
        }
    });
    if is_read { Err(WriteError::IsInput { path: path.to_owned() }) } else { Ok(()) }
}

/// Fails if an input file is below `folder`: it must not be removed.
///
/// # Errors
/// [`WriteError::IsInput`].
pub fn check_no_input_below(folder: &Path) -> Result<(), WriteError> {
    let Ok(real) = folder.canonicalize() else { return Ok(()) };
    match held().keys().any(|key| matches!(key, FileIdentity::Path(path) if path.starts_with(&real))) {
        true => Err(WriteError::IsInput { path: folder.to_owned() }),
        false => Ok(()),
    }
}

/// Identities of a file, each with its canonical path; empty if it does not exist.
fn identities_of(path: &Path) -> Vec<(FileIdentity, PathBuf)> {
    let (Ok(real), Ok(about)) = (path.canonicalize(), std::fs::metadata(path)) else { return Vec::new() };
    let number = number_of(&about).map(|[device, number]| FileIdentity::Number(device, number));
    [Some(FileIdentity::Path(real.clone())), number]
        .into_iter()
        .flatten()
        .map(|key| (key, real.clone()))
        .collect()
}

#[cfg(unix)]
fn number_of(about: &std::fs::Metadata) -> Option<[u64; 2]> {
    use std::os::unix::fs::MetadataExt;
    Some([about.dev(), about.ino()])
}

#[cfg(not(unix))]
fn number_of(_about: &std::fs::Metadata) -> Option<[u64; 2]> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::{
        Disk, FileSystem, Overwrite, check_free, check_output, write_atomic, write_uncommitted,
    };
    use crate::ownership;

    fn is_refused<T: std::fmt::Debug>(written: Result<T, WriteError>) -> bool {
        matches!(written, Err(WriteError::IsInput { .. }))
    }

    #[test]
    fn no_writer_replaces_or_removes_what_is_read_under_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ownership::claim_folder(&Disk, &at("ours"), "views", Overwrite::Refuse).unwrap();
        let file = at("ours/a.png");
        std::fs::write(&file, "photograph").unwrap();
        let mut names = vec![file.clone(), at("ours/../ours/./a.png")];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&file, at("link.png")).unwrap();
            names.push(at("link.png"));
        }
        if std::fs::hard_link(&file, at("hard.png")).is_ok() && cfg!(unix) {
            names.push(at("hard.png"));
        }
        let (reading, again) = (InputFiles::new([at("ours")]), InputFiles::new([&file]));
        drop(again);
        for name in &names {
            for overwrite in [Overwrite::Replace, Overwrite::Refuse] {
                assert!(is_refused(check_free(&Disk, name, overwrite)), "{name:?}");
                assert!(is_refused(check_output(&Disk, name, overwrite)), "{name:?}");
            }
            assert!(is_refused(write_atomic(&Disk, name, |_| Ok(()))), "{name:?}");
            assert!(is_refused(write_uncommitted(name, b"render")), "{name:?}");
            assert!(Disk.remove(name).is_err() && Disk.rename(&at("ours/.gausset"), name).is_err());
            assert!(Disk.append(name).is_err(), "{name:?}");
        }
        let taken = ownership::claim_for_files(&Disk, &at("ours"), "views", ["a.png"], Overwrite::Replace);
        assert!(is_refused(taken), "not even in a folder of ours");
        assert!(ownership::remove(&at("ours"), "views").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "photograph");
        write_atomic(&Disk, &at("ours/new.png"), |_| Ok(())).unwrap();
        drop(reading);
        write_atomic(&Disk, &file, |_| Ok(())).unwrap();
        ownership::remove(&at("ours"), "views").unwrap();
    }
}
