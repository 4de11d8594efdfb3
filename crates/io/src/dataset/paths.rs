//! From names in a dataset to files on disk.
//!
//! A name is a path relative to a folder and must stay inside it: it is joined, every link and `..` is resolved,
//! and the result must lie below the folder. Names written on Windows (`sub\a.jpg`) are understood.

use std::path::{Component, Path, PathBuf};

use super::report::SkipReason;
use crate::image::ImageProblem;

/// Extensions tried when a name has none that leads to a file.
const EXTENSIONS: [&str; 6] = ["png", "jpg", "jpeg", "PNG", "JPG", "JPEG"];

/// A folder whose files are named by a dataset.
#[derive(Clone, Debug)]
pub(super) struct Root {
    folder: PathBuf,
    /// The folder with links resolved.
    canonical: PathBuf,
    allow_outside: bool,
}

/// A file that a name leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// The name without `.` parts, with `/` between folders and with its extension.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

impl Root {
    pub(super) fn new(folder: &Path, allow_outside: bool) -> std::io::Result<Self> {
        Ok(Self { folder: folder.to_owned(), canonical: folder.canonicalize()?, allow_outside })
    }

    /// Where a name would lead, for messages.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(tidy(name))
    }

    /// The file of a name.
    ///
    /// # Errors
    /// No such file, one outside the folder, or one that the system does not let us see.
    pub(super) fn find(&self, name: &str, extension: Extension) -> Result<Found, SkipReason> {
        let name = if name.contains('\\') && !self.folder.join(name).exists() {
            name.replace('\\', "/")
        } else {
            name.to_owned()
        };
        let name = tidy(&name);
        if name.is_empty() || name.contains('\0') {
            return Err(SkipReason::Missing);
        }
        let mut result = self.resolve(&name);
        // `r_0` may be the folder of something else beside the picture `r_0.png`.
        let is_no_file = match &result {
            Ok(found) => found.path.is_dir(),
            Err(reason) => *reason == SkipReason::Missing,
        };
        if extension == Extension::MayBeMissing && is_no_file {
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

    fn resolve(&self, name: &str) -> Result<Found, SkipReason> {
        use std::io::ErrorKind as Kind;
        let path = self.folder.join(name);
        let canonical = match path.canonicalize() {
            Ok(canonical) => canonical,
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::NotADirectory | Kind::InvalidFilename) => {
                return Err(SkipReason::Missing);
            }
            Err(e) => {
                return Err(SkipReason::Unreadable(ImageProblem::Io(crate::atomic::plain_reason(&e))));
            }
        };
        if !self.allow_outside && !canonical.starts_with(&self.canonical) {
            return Err(SkipReason::Outside);
        }
        Ok(Found { name: name.to_owned(), path })
    }

    /// A file beside a missing one whose name differs in case only.
    pub(super) fn twin_in_case(&self, name: &str) -> Option<String> {
        let path = self.folder.join(tidy(name));
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

/// Whether a name in a dataset may lack its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
    Required,
    MayBeMissing,
}

/// A name without `.` parts and doubled slashes; `..` stays, because links decide what it means.
fn tidy(name: &str) -> String {
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

/// The mask of a picture: `<name>.png`, `<name without extension>.png` below the mask folder, or
/// `<name>.mask.png`, `<name without extension>.mask.png` there or beside the picture.
pub(super) fn find_mask(masks: &Path, images: &Path, name: &str) -> Option<PathBuf> {
    let stem = match name.rsplit_once('.') {
        Some((stem, extension)) if !extension.contains('/') && !stem.is_empty() => stem,
        _ => name,
    };
    let candidates = [
        masks.join(format!("{name}.png")),
        masks.join(format!("{stem}.png")),
        masks.join(format!("{name}.mask.png")),
        masks.join(format!("{stem}.mask.png")),
        images.join(format!("{name}.mask.png")),
        images.join(format!("{stem}.mask.png")),
    ];
    candidates.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_dots_but_keep_folders() {
        assert_eq!(tidy("./train/r_0"), "train/r_0");
        assert_eq!(tidy("a//b/./c.png"), "a/b/c.png");
        assert_eq!(tidy("../x"), "../x");
        assert_eq!(tidy("/etc/passwd"), "/etc/passwd");
    }

    #[test]
    fn a_name_must_stay_inside_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("images");
        std::fs::create_dir_all(images.join("sub")).unwrap();
        std::fs::write(images.join("sub/a.jpg"), b"x").unwrap();
        std::fs::write(folder.path().join("secret.jpg"), b"x").unwrap();
        let root = Root::new(&images, false).unwrap();
        assert_eq!(root.find("sub/a.jpg", Extension::Required).unwrap().name, "sub/a.jpg");
        assert_eq!(root.find("sub\\a.jpg", Extension::Required).unwrap().name, "sub/a.jpg");
        assert_eq!(root.find("./sub/a", Extension::MayBeMissing).unwrap().name, "sub/a.jpg");
        assert_eq!(root.find("sub/a", Extension::Required), Err(SkipReason::Missing));
        assert_eq!(root.find("../secret.jpg", Extension::Required), Err(SkipReason::Outside));
        assert_eq!(root.find("/etc/passwd", Extension::Required), Err(SkipReason::Outside));
        assert_eq!(root.find("nothing.jpg", Extension::Required), Err(SkipReason::Missing));
        assert_eq!(root.twin_in_case("sub/A.JPG").as_deref(), Some("a.jpg"));
        let lifted = Root::new(&images, true).unwrap();
        assert!(lifted.find("../secret.jpg", Extension::Required).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_or_round_in_circles_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("images");
        std::fs::create_dir_all(&images).unwrap();
        std::fs::write(folder.path().join("secret.jpg"), b"x").unwrap();
        std::os::unix::fs::symlink("../secret.jpg", images.join("out.jpg")).unwrap();
        std::os::unix::fs::symlink("loop.jpg", images.join("loop.jpg")).unwrap();
        let root = Root::new(&images, false).unwrap();
        assert_eq!(root.find("out.jpg", Extension::Required), Err(SkipReason::Outside));
        assert!(matches!(root.find("loop.jpg", Extension::Required), Err(SkipReason::Unreadable(_))));
    }
}
