//! Lists the photographs of a folder and its sub-folders: the one list that COLMAP, training and `info` share.
//!
//! Folders that hold masks, depths, previews, rejected pictures or output of Gausset are left out, and so are folders
//! whose file names all repeat those of the folder above, hidden files and formats that are not read. Each exclusion has
//! a line with its count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::image::formats::{NamedFormat, left_out_line, named_format};
use gausset_io::image::{ImageHeader, check_file, read_header, read_heif_header};
use gausset_io::input;
use gausset_io::ownership::MARKER;
use gausset_io::splat;
use gausset_io::text::{counted, shell_quote};
use gausset_pano::frames::{count_left_out, is_mask_name, masks_line};
use gausset_pano::video::is_video_name;

use super::alignment::LeftOut;
use super::full_sphere::full_sphere_of_folder;
use crate::Failure;
use crate::saved_run::SavedRun;

/// Folders whose pictures are no photographs of the scene, in lower case.
const EXCLUDED_FOLDERS: [&str; 39] = [
    "masks",
    "mask",
    "sky_masks",
    "sky_mask",
    "dynamic_masks",
    "segmentation",
    "segmentations",
    "segments",
    "semantics",
    "semantic",
    "instances",
    "annotations",
    "annotation",
    "labels",
    "alpha",
    "alphas",
    "mattes",
    "matte",
    "depth",
    "depths",
    "depth_maps",
    "depthmaps",
    "depth_map",
    "normals",
    "normal",
    "normal_maps",
    "confidence",
    "edges",
    "flow",
    "thumbs",
    "thumbnails",
    "thumbnail",
    "previews",
    "preview",
    "small",
    "lowres",
    "@eadir",
    "rejected",
    "__macosx",
];
/// Largest depth of sub-folders.
const MAX_DEPTH: usize = 8;
/// Largest number of files and folders.
const MAX_ENTRIES: usize = 200_000;

/// The photographs of a folder.
#[derive(Clone, Debug, Default)]
pub struct PhotographList {
    /// Paths relative to the folder, with `/` as separator, in byte order.
    pub names: Vec<String>,
    /// Paths of HEIC, HEIF and AVIF files, which only other programs decode.
    pub heif: Vec<String>,
    /// What was left out, one line each: `40 HEIC files left out: convert them …`.
    pub left_out: Vec<String>,
    /// The photographs among them that cannot be read, and why.
    pub unreadable: Vec<LeftOut>,
    /// Paths of videos, which are inputs of their own.
    pub films: Vec<String>,
}

impl PhotographList {
    /// Lists the photographs of a folder and its sub-folders without those in `excluded`, such as the output.
    ///
    /// # Errors
    /// A folder cannot be read, there are too many files, or a name is not plain text.
    pub fn of_folder(folder: &Path, excluded: &[&Path]) -> Result<Self, Failure> {
        let excluded = excluded.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let mut walk = Walk { root: folder.to_owned(), excluded, ..Walk::default() };
        walk.visited.extend(folder.canonicalize().ok());
        walk.folder("", 0)?;
        walk.names.sort_unstable();
        walk.heif.sort_unstable();
        walk.leave_out_converted();
        let left_out = walk.lines();
        Ok(Self { names: walk.names, heif: walk.heif, left_out, unreadable: Vec::new(), films: walk.films })
    }

    /// Leaves out the HEIF files.
    pub fn leave_out_heif(&mut self) {
        let counts = count_left_out(self.heif.iter().map(Path::new));
        let lines =
            counts.into_iter().filter_map(|(format, ending, count)| left_out_line(format, &ending, count));
        self.left_out.splice(..0, lines);
        self.heif.clear();
    }

    /// Leaves out pictures that training could not read, and returns the headers of the others.
    ///
    /// # Errors
    /// None can be read, and there is no HEIF file.
    pub fn check(&mut self, folder: &Path) -> Result<Vec<ImageHeader>, Failure> {
        let (mut headers, mut unreadable) = (Vec::new(), Vec::new());
        self.names.retain(|name| match check_file(&folder.join(name)) {
            Ok(header) => {
                headers.push(header);
                true
            }
            Err(error) => {
                unreadable.push(LeftOut { name: name.clone(), reason: error.problem.to_string() });
                false
            }
        });
        self.leave_out_unreadable(unreadable);
        if self.names.is_empty() && self.heif.is_empty() {
            return Err(self.none(folder));
        }
        Ok(headers)
    }

    /// Adds photographs that cannot be read.
    pub(super) fn leave_out_unreadable(&mut self, unreadable: Vec<LeftOut>) {
        self.left_out.extend(unreadable_line(&unreadable));
        self.unreadable.extend(unreadable);
    }

    /// The error of a folder without photographs, which names what it holds instead.
    fn none(&self, folder: &Path) -> Failure {
        let mut instead: String = self.left_out.iter().map(|line| format!("; {line}")).collect();
        if let Some(first) = self.films.first() {
            let command = format!("gausset run {} -o scene/", shell_quote(&folder.join(first)));
            instead += &format!(
                "; {} found, one at a time is read: {command}",
                counted(self.films.len() as u64, "video")
            );
        }
        let line = format!(
            "{}: photographs: none found (expected JPEG, PNG, TIFF or WebP files){instead}",
            folder.display()
        );
        Failure::new("frames", line)
    }
}

/// `2 files that cannot be read left out (the first: …)`
pub(super) fn unreadable_line(unreadable: &[LeftOut]) -> Option<String> {
    let LeftOut { name, reason } = unreadable.first()?;
    let files = counted(unreadable.len() as u64, "file");
    Some(format!("{files} that cannot be read left out (the first: {name}: {reason})"))
}

/// Size in px of a picture, and the focal length that its metadata state (35 mm equivalent).
pub(super) type Lens = ([u32; 2], Option<f64>);

/// Whether there are several folders, and the pictures of each have one size and focal length.
pub(super) fn has_one_lens_per_folder<'a>(pictures: impl Iterator<Item = (&'a str, Lens)>) -> bool {
    let mut lenses: BTreeMap<&str, Lens> = BTreeMap::new();
    let mut is_same = true;
    for (name, lens) in pictures {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        is_same &= *lenses.entry(folder).or_insert(lens) == lens;
    }
    is_same && lenses.len() > 1
}

/// The commands for a folder of photographs without cameras, as one phrase; `None` if it holds none that can be read.
#[must_use]
pub fn advice_for_photographs(folder: &Path) -> Option<String> {
    let list = PhotographList::of_folder(folder, &[]).ok()?;
    let is_readable = |name: &String| read_header(&folder.join(name)).is_ok();
    let is_heif = |name: &String| read_heif_header(&folder.join(name)).is_ok();
    if !list.names.iter().any(is_readable) && !list.heif.iter().any(is_heif) {
        return None;
    }
    let count = list.names.len() + list.heif.len();
    let these =
        if count == 1 { "this is 1 photograph".to_owned() } else { format!("these are {count} photographs") };
    let (these, command) = match full_sphere_of_folder(folder, &list.names) {
        None => (these, "run"),
        Some(_) => (these.replace("photograph", "panorama"), "pano run"),
    };
    Some(format!("{these} without cameras: gausset {command} {} -o scene/", shell_quote(folder)))
}

/// State of a walk through the folders.
#[derive(Default)]
struct Walk {
    root: PathBuf,
    excluded: Vec<PathBuf>,
    /// Folders that were listed, with links resolved: a link to a folder above would be followed for ever.
    visited: BTreeSet<PathBuf>,
    entries: usize,
    names: Vec<String>,
    heif: Vec<String>,
    films: Vec<String>,
    hidden: usize,
    masks: usize,
    /// Number of HEIF files beside what was converted from them.
    converted: usize,
    other: Vec<PathBuf>,
    /// Number of pictures in excluded folders, by the folder.
    folders: BTreeMap<String, usize>,
}

impl Walk {
    /// Lists the folder of a name relative to the root, which is empty or ends in `/`.
    fn folder(&mut self, prefix: &str, depth: usize) -> Result<(), Failure> {
        let names = self.entries_of(prefix)?;
        let stems = self.stems_above(prefix, &names);
        for name in names {
            let below = format!("{prefix}{name}");
            let path = self.root.join(&below);
            if !path.is_dir() {
                self.file(&name, below);
            } else if let Some(folder) =
                self.exclusion(prefix, &name, &path).or_else(|| repetition(prefix, &name, &path, &stems))
            {
                let count = self.count_pictures(&below, depth + 1)?;
                *self.folders.entry(folder).or_default() += count;
            } else if depth < MAX_DEPTH && self.visited.insert(path.canonicalize().unwrap_or(path)) {
                self.folder(&format!("{below}/"), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Leaves out HEIF files that stand beside what another program made of them: `a.jpg` or `a.heic.jpg` of `a.heic`.
    fn leave_out_converted(&mut self) {
        let without_ending = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_lowercase();
        let readable: BTreeSet<String> = self.names.iter().map(|name| without_ending(name)).collect();
        let all = self.heif.len();
        self.heif.retain(|name| {
            !readable.contains(&without_ending(name)) && !readable.contains(&name.to_lowercase())
        });
        self.converted = all - self.heif.len();
    }

    /// Stems of the readable pictures in a folder with these names, and of those in its folder `images`, in lower case.
    fn stems_above(&self, prefix: &str, names: &[String]) -> BTreeSet<String> {
        let is_readable = |name: &&String| named_format(Path::new(name)) == Some(NamedFormat::Readable);
        let mut stems: BTreeSet<String> =
            names.iter().filter(is_readable).map(|name| lower_stem(name)).collect();
        if names.iter().any(|name| name == "images") {
            stems.extend(stems_of(&self.root.join(prefix).join("images")).unwrap_or_default());
        }
        stems
    }

    /// Names in a folder, in byte order.
    fn entries_of(&mut self, prefix: &str) -> Result<Vec<String>, Failure> {
        // Without a slash at the end, as it was named.
        let folder: PathBuf = self.root.join(prefix).components().collect();
        let failed = |e: std::io::Error| {
            Failure::new("frames", format!("{}: folder: {}", folder.display(), plain_reason(&e)))
        };
        let mut names = Vec::new();
        for entry in input::read_dir(&folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                let line = format!(
                    "{}: folder: holds too many files (expected at most {MAX_ENTRIES}); name the folder with the photographs",
                    self.root.display()
                );
                return Err(Failure::new("frames", line));
            }
            match name.to_str() {
                // COLMAP's database and Gausset's records store names as text.
                Some(text) if !text.contains(char::is_control) => names.push(text.to_owned()),
                _ if named_format(Path::new(&name)).is_none() && !folder.join(&name).is_dir() => {}
                _ => {
                    let line = format!(
                        "{}: photograph {name:?}: name is not plain text; rename it",
                        folder.display()
                    );
                    return Err(Failure::new("frames", line));
                }
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn file(&mut self, name: &str, below: String) {
        let path = Path::new(name);
        let Some(format) = named_format(path) else {
            if is_video_name(path) && !name.starts_with('.') {
                self.films.push(below);
            }
            return;
        };
        if name.starts_with('.') {
            self.hidden += 1;
        } else if matches!(format, NamedFormat::Raw | NamedFormat::Other) {
            self.other.push(PathBuf::from(below));
        } else if is_mask_name(path) {
            self.masks += 1;
        } else if format == NamedFormat::Heif {
            self.heif.push(below);
        } else {
            self.names.push(below);
        }
    }

    /// Name under which a folder is left out, if it is.
    fn exclusion(&self, prefix: &str, name: &str, path: &Path) -> Option<String> {
        let lower = name.to_lowercase();
        // Reduced copies beside `images`, as Nerfstudio and the released code of 3DGS make them.
        let is_reduced = lower.strip_prefix("images_").is_some_and(|rest| rest.parse::<u32>().is_ok())
            && self.root.join(prefix).join("images").is_dir();
        let is_named = EXCLUDED_FOLDERS.contains(&lower.as_str()) || is_reduced;
        let is_output = path.canonicalize().is_ok_and(|path| self.excluded.contains(&path));
        if name.starts_with('.') {
            Some("hidden folders".to_owned())
        } else if is_named {
            Some(format!("folders {name}"))
        } else if is_output || path.join(MARKER).is_file() || SavedRun::is_run_folder(path) {
            Some(format!("{prefix}{name}, which gausset writes"))
        } else if splat::recognise(path).is_some() {
            Some(format!("{prefix}{name}, which holds splats"))
        } else {
            None
        }
    }

    /// Number of pictures in and below an excluded folder.
    fn count_pictures(&mut self, below: &str, depth: usize) -> Result<usize, Failure> {
        let prefix = format!("{below}/");
        let mut count = 0;
        for name in self.entries_of(&prefix)? {
            let inside = format!("{prefix}{name}");
            match self.root.join(&inside).symlink_metadata() {
                Ok(about) if about.is_dir() && depth < MAX_DEPTH => {
                    count += self.count_pictures(&inside, depth + 1)?
                }
                _ => count += usize::from(named_format(Path::new(&name)).is_some()),
            }
        }
        Ok(count)
    }

    /// One line per kind of exclusion.
    fn lines(&self) -> Vec<String> {
        let pictures =
            |count: usize| if count == 1 { "1 picture".to_owned() } else { format!("{count} pictures") };
        let formats = count_left_out(self.other.iter().map(PathBuf::as_path));
        let formats =
            formats.into_iter().filter_map(|(format, ending, count)| left_out_line(format, &ending, count));
        let folders = self.folders.iter().filter(|(_, count)| **count > 0);
        let folders = folders.map(|(folder, &count)| format!("{} left out: in {folder}", pictures(count)));
        let hidden = (self.hidden > 0).then(|| format!("{} left out: hidden files", pictures(self.hidden)));
        let masks = masks_line(self.masks);
        let converted = (self.converted > 0).then(|| {
            let files = counted(self.converted as u64, "HEIC file");
            format!("{files} left out: a converted picture of the same name is in the same folder")
        });
        formats.chain(folders).chain(hidden).chain(masks).chain(converted).collect()
    }
}

/// The stem of a file name, in lower case.
fn lower_stem(name: &str) -> String {
    Path::new(name).file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Stems of the pictures in a folder, in lower case; `None` if it holds folders or no pictures, or cannot be read.
fn stems_of(folder: &Path) -> Option<BTreeSet<String>> {
    let mut stems = BTreeSet::new();
    for entry in input::read_dir(folder).ok()?.take(MAX_ENTRIES) {
        let path = entry.ok()?.path();
        if named_format(&path).is_some() {
            stems.insert(lower_stem(path.file_name()?.to_str()?));
        } else if path.is_dir() {
            return None;
        }
    }
    (!stems.is_empty()).then_some(stems)
}

/// Whether a folder is named as one of several cameras or as cameras name their folders: `cam1`, `left`, `100MEDIA`.
fn is_camera_folder(name: &str) -> bool {
    let lower = name.to_lowercase();
    let is_numbered = lower.len() >= 3 && lower.bytes().take(3).all(|b| b.is_ascii_digit());
    let sides = ["left", "right", "front", "back", "rear", "top", "bottom", "images"];
    let word = lower.trim_end_matches(|c: char| !c.is_alphabetic());
    is_numbered || lower.starts_with("cam") || sides.contains(&word)
}

/// Name under which a folder is left out whose pictures all repeat names of the folder above: derived ones.
fn repetition(prefix: &str, name: &str, path: &Path, above: &BTreeSet<String>) -> Option<String> {
    if above.is_empty() || is_camera_folder(name) {
        return None;
    }
    let stems = stems_of(path)?;
    stems
        .is_subset(above)
        .then(|| format!("{prefix}{name}, whose names repeat those of the photographs above it"))
}

#[cfg(test)]
mod tests {
    use gausset_core::RgbImage8;
    use gausset_io::image::encode::png_rgb8;

    use super::*;

    /// A folder with files of these names, all the same PNG.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let png = png_rgb8(&RgbImage8::new(4, 3)).unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &png).unwrap();
        }
        folder
    }

    #[test]
    fn photographs_of_sub_folders_are_listed_without_masks_previews_and_rejected_ones() {
        let folder = folder(&[
            "100MEDIA/DJI_0001.JPG",
            "cam0/x.png",
            "cam1/x.png",
            "top.webp",
            "a.tif",
            "masks/top.png",
            "Thumbs/a.jpg",
            "@eaDir/top.jpg/SYNO.jpg",
            "cam0/rejected/y.jpg",
            "cam0/._x.png",
            ".hidden/z.png",
            "__MACOSX/cam0/x.png",
            "cam1/x_mask.png",
            "old.bmp",
            "p.HEIC",
            "raw/q.dng",
            "raw/r.CR2",
            "out/frames/f.jpg",
            "notes.txt",
            "film.mp4",
            "made/m.png",
            "made/.gausset",
        ]);
        let out = folder.path().join("out");
        let mut list = PhotographList::of_folder(folder.path(), &[&out]).unwrap();
        assert_eq!(list.heif, ["p.HEIC"]);
        list.leave_out_heif();
        assert_eq!(list.names, ["100MEDIA/DJI_0001.JPG", "a.tif", "cam0/x.png", "cam1/x.png", "top.webp"]);
        let starts = [
            "1 HEIC file left out: convert it",
            "1 CR2 file left out: develop it",
            "1 DNG file left out: develop it",
            "1 BMP file left out: convert it",
            "1 picture left out: in folders @eaDir",
            "1 picture left out: in folders Thumbs",
            "1 picture left out: in folders __MACOSX",
            "1 picture left out: in folders masks",
            "1 picture left out: in folders rejected",
            "1 picture left out: in hidden folders",
            "1 picture left out: in made, which gausset writes",
            "1 picture left out: in out, which gausset writes",
            "1 picture left out: hidden files",
            "1 picture left out: masks by their names",
        ];
        assert_eq!(list.left_out.len(), starts.len(), "{:#?}", list.left_out);
        for (line, start) in list.left_out.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }

    #[test]
    fn heif_files_beside_their_conversions_are_left_out() {
        let folder = folder(&["a.HEIC", "a.jpg", "b.heic", "B.heic.JPG", "c.HEIC", "d/c.jpg"]);
        let list = PhotographList::of_folder(folder.path(), &[]).unwrap();
        assert_eq!(list.heif, ["c.HEIC"]);
        assert_eq!(
            list.left_out,
            ["2 HEIC files left out: a converted picture of the same name is in the same folder"]
        );
    }

    #[test]
    fn a_folder_that_holds_only_videos_names_the_command_for_one() {
        let folder = folder(&["b.MOV", "a/c.3gp", "._b.MOV", "notes.txt"]);
        let mut list = PhotographList::of_folder(folder.path(), &[]).unwrap();
        let line = list.check(folder.path()).unwrap_err().to_string();
        let command =
            format!("2 videos found, one at a time is read: gausset run {}", folder.path().display());
        assert!(line.contains(&command) && line.contains("c.3gp"), "{line}");
    }

    #[test]
    fn folders_of_depths_and_of_pictures_derived_from_those_above_are_left_out() {
        let folder = folder(&[
            "a.png",
            "b.png",
            "Previews/x.png",
            "depth_maps/x.png",
            "sky_masks/x.png",
            "enhanced/A.jpg",
            "enhanced/b.jpg",
            "cam1/a.png",
            "100MEDIA/b.png",
            "day2/a.png",
            "day2/c.png",
            "set/images/p.png",
            "set/metric3d/p.png",
            "city/lod-meta.json",
            "city/0_0/means_l.webp",
        ]);
        let list = PhotographList::of_folder(folder.path(), &[]).unwrap();
        let expected = [
            "100MEDIA/b.png",
            "a.png",
            "b.png",
            "cam1/a.png",
            "day2/a.png",
            "day2/c.png",
            "set/images/p.png",
        ];
        assert_eq!(list.names, expected);
        let repeated = "whose names repeat those of the photographs above it";
        let lines = [
            "1 picture left out: in city, which holds splats".to_owned(),
            "1 picture left out: in folders Previews".to_owned(),
            "1 picture left out: in folders depth_maps".to_owned(),
            "1 picture left out: in folders sky_masks".to_owned(),
            format!("1 picture left out: in set/metric3d, {repeated}"),
            format!("2 pictures left out: in enhanced, {repeated}"),
        ];
        let mut found = list.left_out;
        found.sort();
        assert_eq!(found, lines);
    }

    #[test]
    fn files_that_training_cannot_read_are_left_out_before_any_work() {
        let folder = folder(&["a.jpg", "b.png"]);
        std::fs::write(folder.path().join("c.jpg"), b"\0\0\0\x18ftypheic").unwrap();
        let mut list = PhotographList::of_folder(folder.path(), &[]).unwrap();
        assert_eq!(list.check(folder.path()).unwrap().len(), 2);
        assert_eq!(list.names, ["a.jpg", "b.png"]);
        assert_eq!(list.unreadable[0].name, "c.jpg");
        assert!(
            list.left_out[0]
                .starts_with("1 file that cannot be read left out (the first: c.jpg: picture: is HEIC")
        );
        for name in ["a.jpg", "b.png", "c.jpg"] {
            std::fs::rename(folder.path().join(name), folder.path().join(name).with_extension("heic"))
                .unwrap();
        }
        let mut list = PhotographList::of_folder(folder.path(), &[]).unwrap();
        list.leave_out_heif();
        let line = list.check(folder.path()).unwrap_err().to_string();
        assert!(
            line.contains("none found (expected JPEG, PNG, TIFF or WebP files); 3 HEIC files left out"),
            "{line}"
        );
    }

    #[test]
    fn folders_share_a_camera_where_their_pictures_share_a_lens() {
        let folder = folder(&["cam0/a.png", "cam0/b.png", "cam1/a.png"]);
        let mut list = PhotographList::of_folder(folder.path(), &[]).unwrap();
        let mut is_shared = || {
            let headers = list.check(folder.path()).unwrap();
            let lenses = headers.iter().map(|header| ([header.width, header.height], header.focal_35mm));
            has_one_lens_per_folder(list.names.iter().map(String::as_str).zip(lenses))
        };
        assert!(is_shared());
        std::fs::write(folder.path().join("cam0/b.png"), png_rgb8(&RgbImage8::new(5, 3)).unwrap()).unwrap();
        assert!(!is_shared());
        // A folder of two lenses of one size.
        let lens = |focal| ([4032, 3024], Some(focal));
        let names = ["inside/a.jpg", "inside/b.jpg", "outside/c.jpg"];
        assert!(has_one_lens_per_folder(names.into_iter().zip([lens(26.0), lens(26.0), lens(77.0)])));
        assert!(!has_one_lens_per_folder(names.into_iter().zip([lens(13.0), lens(26.0), lens(26.0)])));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_above_is_not_followed_for_ever() {
        let folder = folder(&["a.png"]);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
        assert_eq!(PhotographList::of_folder(folder.path(), &[]).unwrap().names, ["a.png"]);
    }
}
