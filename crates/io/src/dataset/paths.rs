//! Resolves names in a dataset to files on disk.
//!
//! A name is a path relative to a folder and must stay inside it, as [`input::inside`] checks; links on disk are
//! followed. A file is one image, however often and in whatever spelling it is listed: identity is the path with links
//! resolved. Hard links and copies are separate files: a copy of the dataset has no hard links and must be the same
//! dataset, and equal bytes need not be the same view. Names written on Windows (`sub\a.jpg`) are accepted. A name that
//! leads to no file may stand for a similar one ([`super::similar`]).

use std::cell::OnceCell;
use std::path::{Component, Path, PathBuf};

use super::similar::{FileKind, NameIndex, Similar};
use super::warning::SkipReason;
use crate::image::ImageProblem;
use crate::input;

/// Extensions to try if a name leads to no file.
const EXTENSIONS: [&str; 6] = ["png", "jpg", "jpeg", "PNG", "JPG", "JPEG"];

/// A folder that the names of a dataset are relative to.
#[derive(Clone, Debug)]
pub(super) struct NameResolver {
    folder: PathBuf,
    allow_outside: bool,
    /// The files of the folder, once a name is missing.
    files: OnceCell<NameIndex>,
}

/// A file that a name resolves to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ResolvedFile {
    /// The name relative to the folder, without `.` and `..`, with `/` as separator and with its extension. For a file
    /// outside the folder, the spelling of the dataset.
    pub(super) name: String,
    /// The name as the dataset spells it, for messages.
    pub(super) spelled: String,
    pub(super) path: PathBuf,
    /// The path with links resolved, which identifies the file.
    pub(super) file: PathBuf,
}

/// Path of a file in any case: RealityCapture writes `Cameras.txt`. The path of the usual name if there is none.
pub(super) fn file_in(folder: &Path, name: &str) -> PathBuf {
    let usual = folder.join(name);
    if usual.exists() {
        return usual;
    }
    let names = input::read_dir(folder).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let found = names.filter(|found| found.eq_ignore_ascii_case(name)).min();
    found.map_or(usual, |found| folder.join(found))
}

/// Whether a path ends in a file name, in any case.
pub(super) fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|found| found.eq_ignore_ascii_case(name))
}

/// Whether a file has an extension, in any case.
pub(super) fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

impl NameResolver {
    pub(super) fn new(folder: &Path, allow_outside: bool) -> Self {
        Self { folder: folder.to_owned(), allow_outside, files: OnceCell::new() }
    }

    /// Path of a name, for messages.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(without_dots(name))
    }

    /// Canonical spelling of a name inside the folder.
    pub(super) fn canonical_name(&self, name: &str) -> String {
        input::resolve_inside(&self.folder, name)
            .map_or_else(|_| without_dots(name), |path| self.name_of(&path))
    }

    /// The name of a path below the folder.
    fn name_of(&self, path: &Path) -> String {
        without_dots(&path.strip_prefix(&self.folder).unwrap_or(path).to_string_lossy())
    }

    /// Resolves a name to a file.
    ///
    /// # Errors
    /// There is no such file, it is outside the folder, or access is denied.
    pub(super) fn find(&self, name: &str, extension: ExtensionRule) -> Result<ResolvedFile, SkipReason> {
        let name = if cfg!(not(windows)) && name.contains('\\') && !self.folder.join(name).exists() {
            name.replace('\\', "/")
        } else {
            name.to_owned()
        };
        let name = without_dots(&name);
        if name.is_empty() || name.contains('\0') {
            return Err(SkipReason::Missing);
        }
        let mut result = self.resolve(&name);
        // `r_0` may be an unrelated folder next to the image `r_0.png`.
        let is_no_file = match &result {
            Ok(found) => found.path.is_dir(),
            Err(reason) => *reason == SkipReason::Missing,
        };
        if extension == ExtensionRule::MayBeMissing && is_no_file {
            for extension in EXTENSIONS {
                let longer = format!("{name}.{extension}");
                match self.resolve(&longer) {
                    Err(SkipReason::Missing) => {}
                    found => {
                        result = found;
                        break;
                    }
                }
            }
        }
        result
    }

    fn resolve(&self, spelled: &str) -> Result<ResolvedFile, SkipReason> {
        use std::io::ErrorKind as Kind;
        let (name, path) = match input::resolve_inside(&self.folder, spelled) {
            Ok(path) => (self.name_of(&path), path),
            Err(input::LeadsOutside) if self.allow_outside => (spelled.to_owned(), self.folder.join(spelled)),
            Err(input::LeadsOutside) => return Err(SkipReason::Outside),
        };
        match path.canonicalize() {
            Ok(file) => Ok(ResolvedFile { name, spelled: spelled.to_owned(), path, file }),
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::NotADirectory | Kind::InvalidFilename) => {
                Err(SkipReason::Missing)
            }
            Err(e) => Err(SkipReason::Unreadable(ImageProblem::Io(crate::atomic::plain_reason(&e)))),
        }
    }

    /// The pictures and PLY files of the folder.
    pub(super) fn files(&self) -> &NameIndex {
        self.files.get_or_init(|| NameIndex::of_folder(&self.folder))
    }

    /// The file inside the folder that a name stands for to which [`Self::find`] finds no file for the reason `missing`.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub(super) fn find_similar(
        &self,
        name: &str,
        kind: FileKind,
        missing: SkipReason,
    ) -> Result<ResolvedFile, SkipReason> {
        if !matches!(missing, SkipReason::Missing | SkipReason::Outside) {
            return Err(missing);
        }
        match self.files().find(name, kind) {
            Similar::One(index) => {
                let found = self.resolve(self.files().name(index))?;
                Ok(ResolvedFile { spelled: name.to_owned(), ..found })
            }
            Similar::Several([a, b]) => {
                Err(SkipReason::Ambiguous { candidates: [a.to_owned(), b.to_owned()] })
            }
            Similar::Nothing => Err(missing),
        }
    }
}

/// Whether a name in a dataset may omit its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtensionRule {
    Required,
    MayBeMissing,
}

/// A name without `.` parts and doubled slashes; `..` is kept.
fn without_dots(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let path = Path::new(name);
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.extend(part.to_str()),
            Component::ParentDir => parts.push(".."),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    let joined = parts.join("/");
    if path.is_absolute() { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_dots_but_keep_folders() {
        assert_eq!(without_dots("./train/r_0"), "train/r_0");
        assert_eq!(without_dots("a//b/./c.png"), "a/b/c.png");
        assert_eq!(without_dots("../x"), "../x");
        assert_eq!(without_dots("/etc/passwd"), "/etc/passwd");
    }

    #[test]
    fn a_name_must_stay_inside_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("images");
        std::fs::create_dir_all(images.join("sub")).unwrap();
        std::fs::write(images.join("sub/a.jpg"), b"x").unwrap();
        std::fs::write(folder.path().join("secret.jpg"), b"x").unwrap();
        let root = NameResolver::new(&images, false);
        assert_eq!(root.find("sub/a.jpg", ExtensionRule::Required).unwrap().name, "sub/a.jpg");
        assert_eq!(root.find("sub\\a.jpg", ExtensionRule::Required).unwrap().name, "sub/a.jpg");
        assert_eq!(root.find("./sub/a", ExtensionRule::MayBeMissing).unwrap().name, "sub/a.jpg");
        assert_eq!(root.find("sub/a", ExtensionRule::Required), Err(SkipReason::Missing));
        assert_eq!(root.find("../secret.jpg", ExtensionRule::Required), Err(SkipReason::Outside));
        assert_eq!(root.find("/etc/passwd", ExtensionRule::Required), Err(SkipReason::Outside));
        assert_eq!(root.find("nothing.jpg", ExtensionRule::Required), Err(SkipReason::Missing));
        let similar =
            |name| root.find_similar(name, FileKind::Picture, SkipReason::Outside).map(|file| file.name);
        assert_eq!(similar("/elsewhere/sub/A.JPG").as_deref(), Ok("sub/a.jpg"));
        assert_eq!(similar("../secret.jpg"), Err(SkipReason::Outside));
        assert_eq!(similar("/elsewhere/secret.jpg"), Err(SkipReason::Outside));
        let lifted = NameResolver::new(&images, true);
        assert!(lifted.find("../secret.jpg", ExtensionRule::Required).is_ok());
    }

    #[test]
    fn all_spellings_of_a_name_are_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/a.jpg"), b"x").unwrap();
        let root = NameResolver::new(folder.path(), false);
        let whole = folder.path().join("sub/a.jpg");
        for spelled in ["sub/a.jpg", "./sub//a.jpg", "none/../sub/a.jpg", whole.to_str().unwrap()] {
            let found = root.find(spelled, ExtensionRule::Required).unwrap();
            assert_eq!((found.name.as_str(), &found.path), ("sub/a.jpg", &whole), "{spelled}");
            assert_eq!(root.canonical_name(spelled), "sub/a.jpg");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_tell_which_file_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("images");
        std::fs::create_dir_all(&images).unwrap();
        let photo = folder.path().join("photo.jpg");
        std::fs::write(&photo, b"x").unwrap();
        for name in ["a.jpg", "b.jpg"] {
            std::os::unix::fs::symlink("../photo.jpg", images.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("loop.jpg", images.join("loop.jpg")).unwrap();
        let root = NameResolver::new(&images, false);
        let [a, b] = ["a.jpg", "b.jpg"].map(|name| root.find(name, ExtensionRule::Required).unwrap());
        assert_eq!((a.path, b.path), (images.join("a.jpg"), images.join("b.jpg")));
        assert_eq!((&a.file, &b.file), (&photo.canonicalize().unwrap(), &a.file));
        assert!(matches!(root.find("loop.jpg", ExtensionRule::Required), Err(SkipReason::Unreadable(_))));
    }
}
