//! Locations of test data.

use std::path::{Path, PathBuf};

/// Environment variable with the folder that contains the fixtures' folders `raster`, `field`, ...
pub const FIXTURES_VARIABLE: &str = "GAUSSET_FIXTURES";
/// Environment variable with the folder of the real scenes.
pub const DATA_VARIABLE: &str = "GAUSSET_DATA";

/// The folder with the workspace's `Cargo.toml`.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let testkit = Path::new(env!("CARGO_MANIFEST_DIR"));
    testkit.ancestors().nth(2).expect("testkit lies two folders below the workspace root").to_owned()
}

/// The project's own test data, `testdata/`.
#[must_use]
pub fn testdata_dir() -> PathBuf {
    workspace_root().join("testdata")
}

/// The folder with the fixtures' folders: `$GAUSSET_FIXTURES`, or the project's own copy.
#[must_use]
pub fn fixtures_dir() -> PathBuf {
    match std::env::var_os(FIXTURES_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => testdata_dir().join("fixtures"),
    }
}

/// The folder with the real scenes: `$GAUSSET_DATA`, or `../shared/data` next to the workspace; `None` if it does not
/// exist.
///
/// A test that gets `None` calls [`crate::skip()`] and returns.
#[must_use]
pub fn data_dir() -> Option<PathBuf> {
    Some(data_dir_candidate()).filter(|folder| folder.is_dir())
}

/// A file or folder among the real scenes; if it does not exist, the test is skipped and the result is `None`.
#[must_use]
pub fn data_file(test: &str, name: &str) -> Option<PathBuf> {
    let path = data_dir_candidate().join(name);
    if path.exists() {
        return Some(path);
    }
    crate::skip(test, &format!("{} is not there (set {DATA_VARIABLE})", path.display()));
    None
}

fn data_dir_candidate() -> PathBuf {
    match std::env::var_os(DATA_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => workspace_root().join("../shared/data"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
