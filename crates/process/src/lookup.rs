//! Looks up programs, and filters the search paths that they inherit.
//!
//! An empty or relative entry of a search path means the working folder of the process that reads it, which may hold
//! untrusted files. Such entries are neither searched nor passed on. A program that another user of the machine may
//! have put there is skipped as well ([`is_trusted`]).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables with search paths of programs, modules and libraries.
pub(crate) const SEARCH_PATHS: [&str; 5] =
    ["PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];

/// Finds an executable program: by name in the absolute entries of PATH, or by path.
///
/// ```
/// use gausset_process::find_program;
///
/// assert_eq!(find_program("a-program-that-does-not-exist"), None);
/// # #[cfg(unix)]
/// assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
/// ```
#[must_use]
pub fn find_program(program: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH").unwrap_or_default(), program)
}

fn find_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut found = which::which_in_all(program, absolute_only(path), here).ok()?;
    if is_name(Path::new(program)) { found.find(|path| is_trusted(path)) } else { found.next() }
}

/// Whether it is a name, not a path. A path is the user's choice and is not checked.
fn is_name(program: &Path) -> bool {
    program.parent().is_some_and(|folder| folder.as_os_str().is_empty())
}

/// Whether only the system, this user, or the owner of the folder can have put a program there: no other user may write
/// to the folder or the file, and the file belongs to one of the three. Symbolic links are followed, and checked as
/// well.
#[cfg(unix)]
fn is_trusted(program: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_trusted_at = |program: &Path| {
        let folder = program.parent()?.metadata().ok()?;
        let file = program.symlink_metadata().ok()?;
        // The mode of a symbolic link has no meaning.
        let is_writable_by_all = folder.mode() & 0o002 != 0 || (file.is_file() && file.mode() & 0o002 != 0);
        let owners = [0, rustix::process::geteuid().as_raw(), folder.uid()];
        Some(!is_writable_by_all && owners.contains(&file.uid()))
    };
    let target = program.canonicalize();
    target.is_ok_and(|target| [program, &target].into_iter().all(|path| is_trusted_at(path) == Some(true)))
}

#[cfg(not(unix))]
fn is_trusted(_program: &Path) -> bool {
    true
}

fn absolute_entries(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute())
}

/// A search path without its empty and relative entries; `None` if none remain.
pub(crate) fn absolute_only(path: &OsStr) -> Option<OsString> {
    let path = std::env::join_paths(absolute_entries(path)).ok()?;
    (!path.is_empty()).then_some(path)
}

/// A program by name, looked up, or by path, made absolute.
pub(crate) fn resolve(program: &Path) -> Option<PathBuf> {
    match program.to_str().filter(|_| is_name(program)) {
        Some(name) => find_program(name),
        None => std::path::absolute(program).ok(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn entries_that_mean_the_working_folder_are_neither_searched_nor_passed_on() {
        // The tests of a crate run in its folder, in which this is an executable file.
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
        // A path needs no lookup.
        let by_path = folder.join(name);
        assert_eq!(find_in(&list(&[]), by_path.to_str().unwrap()), Some(absolute.join(name)));
        assert_eq!(
            absolute_only(&list(&[folder, Path::new(""), Path::new("/usr/bin")])).unwrap(),
            "/usr/bin"
        );
        assert_eq!(absolute_only(OsStr::new(":.:lib")), None);
    }

    #[test]
    fn a_program_that_anybody_may_replace_is_passed_over() {
        use std::os::unix::fs::PermissionsExt;
        let [open, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let allow = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for folder in [&open, &ours] {
            std::fs::write(folder.path().join("a-tool"), "").unwrap();
            allow(&folder.path().join("a-tool"), 0o755);
        }
        let path = std::env::join_paths([open.path(), ours.path()]).unwrap();
        let found = || find_in(&path, "a-tool");
        assert_eq!(found(), Some(open.path().join("a-tool")));
        // A folder such as /tmp, a file of mode 777, a link to one.
        allow(open.path(), 0o1777);
        assert_eq!(found(), Some(ours.path().join("a-tool")));
        allow(open.path(), 0o755);
        allow(&open.path().join("a-tool"), 0o777);
        assert_eq!(found(), Some(ours.path().join("a-tool")));
        std::fs::rename(open.path().join("a-tool"), open.path().join("other")).unwrap();
        std::os::unix::fs::symlink("other", open.path().join("a-tool")).unwrap();
        assert_eq!(found(), Some(ours.path().join("a-tool")));
        allow(&open.path().join("other"), 0o755);
        assert_eq!(found(), Some(open.path().join("a-tool")));
        // A path is the user's choice.
        allow(open.path(), 0o777);
        let by_path = open.path().join("other");
        assert_eq!(find_in(&path, by_path.to_str().unwrap()), Some(by_path));
    }
}
