//! Resolves names in a dataset to files on disk.
//!
//! A name is a path relative to a folder and must stay inside it, as [`input::inside`] checks; links on disk are
//! followed. A file is one image, however often and in whatever spelling it is listed: identity is the path with links
//! resolved. Hard links and copies are separate files: a copy of the dataset has no hard links and must be the same
//! dataset, and equal bytes need not be the same view. Names written on Windows (`sub\a.jpg`) are accepted.

use std::path::{Component, Path, PathBuf};

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

impl NameResolver {
    pub(super) fn new(folder: &Path, allow_outside: bool) -> Self {
        Self { folder: folder.to_owned(), allow_outside }
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

    /// A file next to a missing one whose name differs only in case.
    pub(super) fn same_name_in_other_case(&self, name: &str) -> Option<String> {
        let path = self.folder.join(without_dots(name));
        let wanted = path.file_name()?.to_str()?.to_lowercase();
        let mut twins: Vec<String> = std::fs::read_dir(path.parent()?)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|found| found.to_lowercase() == wanted)
            .collect();
        twins.sort();
        twins.into_iter().next()
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

/// The mask of an image, by the conventions of other programs: `<name>.png` (COLMAP), `<stem>.png` (Brush, LichtFeld)
/// below the mask folder; `<name>.mask.png` (RealityCapture), `<stem>.mask.png`, `<stem>_mask.png` (Metashape,
/// 360toolkit) there or next to the image, where `.mask/<stem>.png` (RealityCapture) is tried as well.
pub(super) fn find_mask(masks: &Path, images: &Path, name: &str) -> Option<PathBuf> {
    let stem = match name.rsplit_once('.') {
        Some((stem, extension)) if !extension.contains('/') && !stem.is_empty() => stem,
        _ => name,
    };
    let (folder, last) = stem.rsplit_once('/').unwrap_or(("", stem));
    let candidates = [
        masks.join(format!("{name}.png")),
        masks.join(format!("{stem}.png")),
        masks.join(format!("{name}.mask.png")),
        masks.join(format!("{stem}.mask.png")),
        masks.join(format!("{stem}_mask.png")),
        images.join(format!("{name}.mask.png")),
        images.join(format!("{stem}.mask.png")),
        images.join(format!("{stem}_mask.png")),
        images.join(folder).join(".mask").join(format!("{last}.png")),
    ];
    // A pipe or folder of such a name fails when it is opened.
    candidates.into_iter().find(|path| path.exists())
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
    fn masks_are_found_where_programs_lay_them() {
        let root = tempfile::tempdir().unwrap();
        let (images, masks) = (root.path().join("images"), root.path().join("masks"));
        for name in [
            "masks/sub/a.jpg.png",
            "masks/sub/a.png",
            "masks/sub/a.jpg.mask.png",
            "masks/sub/a_mask.png",
            "images/sub/a.jpg.mask.png",
            "images/sub/a_mask.png",
            "images/sub/.mask/a.png",
        ] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, b"x").unwrap();
            assert_eq!(find_mask(&masks, &images, "sub/a.jpg"), Some(path.clone()), "{name}");
            assert_eq!(find_mask(&masks, &images, "sub/b.jpg"), None);
            std::fs::remove_file(path).unwrap();
        }
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
        assert_eq!(root.same_name_in_other_case("sub/A.JPG").as_deref(), Some("a.jpg"));
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
