//! Where programs are looked for, and the search paths that they get themselves.
//!
//! An entry of a search path that is empty or relative means the working folder of whoever reads it, which may be one
//! that a stranger has filled. Such entries are passed over here, and not passed on.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that hold search paths of programs, modules and libraries.
pub(crate) const SEARCH_PATHS: [&str; 5] =
    ["PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];

/// Finds a program that can be executed: by name in the absolute entries of PATH, or by path.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH").unwrap_or_default(), program)
}

fn find_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    which::which_in(program, trusted(path), std::env::current_dir().unwrap_or_default()).ok()
}

fn absolute_entries(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute())
}

/// A search path without its empty and relative entries; `None` when nothing is left.
pub(crate) fn trusted(path: &OsStr) -> Option<OsString> {
    let path = std::env::join_paths(absolute_entries(path)).ok()?;
    (!path.is_empty()).then_some(path)
}

/// A program by name, looked up, or by path, made absolute.
pub(crate) fn resolve(program: &Path) -> Option<PathBuf> {
    let is_name = program.parent().is_some_and(|folder| folder.as_os_str().is_empty());
    match program.to_str().filter(|_| is_name) {
        Some(name) => find(name),
        None => std::path::absolute(program).ok(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn entries_that_mean_the_working_folder_are_neither_searched_nor_passed_on() {
        // The tests of a crate run in its folder, in which this is a file that can be executed.
        let relative = tempfile::tempdir_in(".").unwrap();
        let name = "a-tool";
        std::fs::write(relative.path().join(name), "").unwrap();
        std::fs::set_permissions(
            relative.path().join(name),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let folder =
            relative.path().strip_prefix(std::env::current_dir().unwrap()).unwrap_or(relative.path());
        assert!(folder.is_relative() && folder.join(name).is_file(), "{}", folder.display());
        let absolute = std::path::absolute(folder).unwrap();
        let list = |entries: &[&Path]| std::env::join_paths(entries).unwrap();
        assert_eq!(find_in(&list(&[folder, Path::new("")]), name), None);
        assert_eq!(find_in(&list(&[folder, &absolute]), name), Some(absolute.join(name)));
        // A path says itself where the program is.
        let by_path = folder.join(name);
        assert_eq!(find_in(&list(&[]), by_path.to_str().unwrap()), Some(absolute.join(name)));
        assert_eq!(trusted(&list(&[folder, Path::new(""), Path::new("/usr/bin")])).unwrap(), "/usr/bin");
        assert_eq!(trusted(OsStr::new(":.:lib")), None);
    }
}
