//! Cache of compiled GPU kernels in the user's cache folder.
//!
//! The folder is `$GAUSSET_CACHE`, or `gausset` in the user's cache folder: `$XDG_CACHE_HOME` or `~/.cache` on Linux,
//! `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows. An empty `$GAUSSET_CACHE` disables the cache, and without
//! any of these variables there is none. Read and write errors are ignored: the cache saves a second at most.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_gpu::KernelCache;
use gausset_io::atomic::{Disk, FileSystem, write_atomic};
use gausset_io::input;

/// Size limit of a cache file; a larger one was not written by Gausset.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A folder of compiled kernels.
#[derive(Debug)]
struct CacheFolder(PathBuf);

/// The cache folder according to environment variables: an absolute path, or `None`.
fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(own) = variable("GAUSSET_CACHE") {
        return Some(PathBuf::from(own)).filter(|folder| folder.is_absolute());
    }
    // A relative path is invalid here (XDG Base Directory Specification).
    let of = |name: &str| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let users = if cfg!(windows) {
        of("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        of("HOME").map(|home| home.join("Library/Caches"))
    } else {
        of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")))
    };
    users.map(|folder| folder.join("gausset"))
}

/// The kernel cache of the current user, if there is one.
pub(crate) fn user_cache() -> Option<Arc<dyn KernelCache>> {
    cache_folder(|name| std::env::var_os(name))
        .map(|folder| Arc::new(CacheFolder(folder)) as Arc<dyn KernelCache>)
}

impl CacheFolder {
    fn path(&self, name: &str) -> PathBuf {
        let Self(folder) = self;
        folder.join(Path::new(name))
    }
}

impl KernelCache for CacheFolder {
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        input::read(&self.path(name), MAX_FILE_BYTES).ok()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let Self(folder) = self;
        if Disk.create_folder(folder).is_ok() {
            let _ = write_atomic(&Disk, &self.path(name), |writer| std::io::Write::write_all(writer, bytes));
        }
    }

    fn remove(&self, name: &str) {
        let _ = Disk.remove(&self.path(name));
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<PathBuf> {
        cache_folder(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_folder_is_the_users_own() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(of(&[("HOME", "/users/me")]), path("/users/me/.cache/gausset"));
        assert_eq!(of(&[("HOME", "/users/me"), ("XDG_CACHE_HOME", "/fast")]), path("/fast/gausset"));
        assert_eq!(
            of(&[("HOME", "/users/me"), ("XDG_CACHE_HOME", "fast")]),
            path("/users/me/.cache/gausset")
        );
        assert_eq!(of(&[("HOME", "/users/me"), ("GAUSSET_CACHE", "/elsewhere")]), path("/elsewhere"));
        assert_eq!(of(&[("HOME", "/users/me"), ("GAUSSET_CACHE", "")]), None, "off");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn files_are_written_read_and_removed_and_trouble_is_none() {
        let root = TempDir::new().unwrap();
        let files = CacheFolder(root.path().join("a/b"));
        assert_eq!(files.read("k.bin"), None);
        files.remove("k.bin");
        files.write("k.bin", b"kernels");
        files.write("k.bin", b"more");
        assert_eq!(files.read("k.bin").as_deref(), Some(&b"more"[..]));
        assert_eq!(std::fs::read_dir(root.path().join("a/b")).unwrap().count(), 1, "nothing temporary stays");
        files.remove("k.bin");
        assert_eq!(files.read("k.bin"), None);
        // A file where the folder should be: errors are ignored.
        std::fs::write(root.path().join("c"), b"").unwrap();
        let files = CacheFolder(root.path().join("c"));
        files.write("k.bin", b"kernels");
        files.remove("k.bin");
        assert_eq!(files.read("k.bin"), None);
    }
}
