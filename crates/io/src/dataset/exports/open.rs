//! From a camera file of another program to a [`Dataset`]: its pictures, its points, and what it shares with others.

use std::path::{Path, PathBuf};

use super::find::ExportSource;
use super::{Export, ExportFrame, bundler, decode_text, inria, llff, metashape, openmvg, opensfm, polycam};
use super::{realitycapture, recognise};
use crate::dataset::assemble::{CameraSource, DatasetBuilder, Findings, ListedImage};
use crate::dataset::error::{DatasetError, DatasetProblem};
use crate::dataset::paths::{ExtensionRule, NameResolver, file_in, has_extension};
use crate::dataset::points::check_count;
use crate::dataset::source::{OTHER_IMAGE_FOLDERS, SplitRole, read_ply};
use crate::dataset::warning::{SkipReason, Warning};
use crate::dataset::{Dataset, DatasetKind, OpenOptions};
use crate::file_problem::FileProblem;
use crate::image::formats::is_readable;
use crate::input;
use crate::text::is_lfs_pointer;

/// Largest size of a camera file, bytes.
pub(super) const MAX_BYTES: u64 = 512 << 20;
/// Largest size of a sidecar or keyframe, bytes.
const MAX_SMALL_BYTES: u64 = 4 << 20;
/// Number of names by which the folder of the pictures is found.
const PROBED_NAMES: usize = 100;

/// Opens the dataset of a camera file.
pub(in crate::dataset) fn open(
    source: ExportSource,
    options: &OpenOptions,
    mut report: Findings,
) -> Result<Dataset, DatasetError> {
    let ExportSource { root, kind, file, .. } = &source;
    let of_program = |problem: FileProblem| {
        let place = format!("{}: {}", kind.program(), problem.location);
        DatasetError::malformed(file, place, DatasetProblem::Export(problem.problem))
    };
    let mut folder = None;
    if *kind == DatasetKind::Llff {
        folder = Some(image_folder(&source, &[], options)?);
    }
    let mut export = read(&source, folder.as_deref())?.map_err(of_program)?;
    if export.frames.is_empty() {
        return Err(DatasetError::malformed(file, kind.program(), DatasetProblem::NoFrames));
    }
    let folder = folder.map_or_else(|| image_folder(&source, &export.frames, options), Ok)?;
    let mut read = vec![file.clone()];
    if *kind == DatasetKind::Inria
        && let Some(name) = newest_splats(root)
    {
        let path = root.join(name);
        read.push(path.clone());
        match read_ply(&path, options.memory_bytes)? {
            Ok(found) => (export.points, export.dropped_points) = (found.points, found.dropped),
            Err(error) => report.warnings.push(Warning::PointsUnreadable { reason: error.to_string() }),
        }
    }
    check_count(file, export.points.len() as u64, options.memory_bytes)?;
    warn(&export, file, &mut report);
    let listed = export.frames.into_iter().zip(0..).map(|(frame, id)| ListedImage {
        id,
        frame: None,
        name: frame.name,
        pose: frame.pose.map_err(|problem| SkipReason::Export(format!("pose: {problem}"))),
        camera: CameraSource::Export(frame.lens),
        mask: None,
        role: SplitRole::Undecided,
    });
    let listed = listed.collect();
    DatasetBuilder {
        source: file.clone(),
        model: None,
        read,
        cameras_file: file.clone(),
        file: file.clone(),
        kind: *kind,
        extension: ExtensionRule::MayBeMissing,
        name_folder: None,
        applied_transform: None,
        georeference: None,
        root: root.clone(),
        folder,
        cameras: Vec::new(),
        points: export.points,
    }
    .build(listed, options, report)
}

fn warn(export: &Export, file: &Path, report: &mut Findings) {
    let path = || file.to_owned();
    if let Some((count, index)) = export.chosen {
        let (chosen, images) = (format!("number {index}"), export.frames.len());
        report.warnings.push(Warning::SeveralModels { folder: path(), count, chosen, images });
    }
    if !export.unregistered.is_empty() {
        let count = export.unregistered.len();
        let listed = count + export.frames.len();
        report.warnings.push(Warning::WithoutPose { path: path(), count, listed });
    }
    if let Some(first) = export.approximations.first() {
        let (count, first) = (export.approximations.len(), first.clone());
        report.warnings.push(Warning::TermsDropped { path: path(), count, first });
    }
    if export.dropped_points > 0 {
        report.warnings.push(Warning::PointsDropped { path: path(), count: export.dropped_points });
    }
    if export.points.is_empty() {
        report.warnings.push(Warning::NoPoints { path: path() });
    }
}

/// Reads the files of a source. `pictures` is the folder of the pictures, for a format without names.
fn read(source: &ExportSource, pictures: Option<&Path>) -> Result<Result<Export, FileProblem>, DatasetError> {
    let ExportSource { kind, file, folder, .. } = source;
    let bytes = bytes_of(file, MAX_BYTES)?;
    Ok(match kind {
        DatasetKind::Metashape => metashape::parse(&decode_text(&bytes)),
        DatasetKind::RealityCapture if has_extension(file, "csv") => realitycapture::parse_table(&bytes),
        DatasetKind::RealityCapture => return read_sidecars(folder).map(Ok),
        DatasetKind::OpenSfm => opensfm::parse(&bytes),
        DatasetKind::OpenMvg => openmvg::parse(&bytes),
        DatasetKind::Polycam => return read_keyframes(folder).map(Ok),
        DatasetKind::Inria => inria::parse(&bytes),
        DatasetKind::Llff => llff::parse(&bytes, &pictures_in(pictures.unwrap_or(folder))),
        DatasetKind::Bundler => {
            let Some(list) = bundler_list(file) else {
                let problem = "is missing (expected list.txt beside it, with one picture per line)";
                return Ok(Err(FileProblem::new("list of pictures", problem)));
            };
            let names = bundler::parse_list(&decode_text(&bytes_of(&list, MAX_BYTES)?));
            bundler::parse(&decode_text(&bytes), &names)
        }
        DatasetKind::Colmap | DatasetKind::Nerfstudio | DatasetKind::InstantNgp | DatasetKind::Blender => {
            Ok(Export::default())
        }
    })
}

fn bytes_of(path: &Path, limit: u64) -> Result<Vec<u8>, DatasetError> {
    let bytes = input::read(path, limit).map_err(|e| DatasetError::io(path, "read", &e))?;
    if is_lfs_pointer(&bytes) {
        return Err(DatasetError::malformed(path, "content", DatasetProblem::LfsPointer));
    }
    Ok(bytes)
}

/// The sidecars of RealityCapture in a folder and below; those of other programs are left alone.
fn read_sidecars(folder: &Path) -> Result<Export, DatasetError> {
    let mut export = Export::default();
    for (name, path) in realitycapture::sidecars(folder) {
        let bytes = bytes_of(&path, MAX_SMALL_BYTES)?;
        let text = decode_text(&bytes);
        if !text.contains(realitycapture::NAMESPACE) {
            continue;
        }
        match realitycapture::parse_sidecar(&text) {
            Ok(Some(realitycapture::Sidecar { pose, lens })) => {
                export.frames.push(ExportFrame { name, pose, lens: lens.into() });
            }
            Ok(None) => export.unregistered.push(name),
            Err(problem) => export.frames.push(ExportFrame::broken(name, problem)),
        }
    }
    Ok(export)
}

/// The keyframes of Polycam in a folder.
fn read_keyframes(folder: &Path) -> Result<Export, DatasetError> {
    let mut export = Export::default();
    for path in polycam::cameras_in(folder) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let frame = polycam::parse(&bytes_of(&path, MAX_SMALL_BYTES)?, &name);
        export.frames.push(frame.unwrap_or_else(|problem| ExportFrame::broken(name, problem)));
    }
    Ok(export)
}

impl ExportFrame {
    /// An image whose own file cannot be read.
    fn broken(name: String, problem: FileProblem) -> Self {
        Self { name, pose: Err(problem.clone().into()), lens: Err(problem.into()).into() }
    }
}

/// The list of pictures of a Bundler file: by its name as COLMAP writes it, or `list.txt` beside it or above.
fn bundler_list(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?;
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let stem = name.strip_suffix(".out").unwrap_or(&name);
    let of_scene = stem.strip_suffix("bundle").unwrap_or(stem);
    let beside = [format!("{of_scene}list.txt"), format!("{name}.list.txt"), format!("{stem}.list.txt")];
    let beside = beside.into_iter().chain(["list.txt", "image_list.txt"].map(str::to_owned));
    let above = folder.parent().map(|above| file_in(above, "list.txt"));
    beside.map(|name| file_in(folder, &name)).chain(above).find(|path| path.is_file())
}

/// Name of the splats of the last iteration below an output folder of the released 3DGS code.
fn newest_splats(root: &Path) -> Option<String> {
    let entries = input::read_dir(&root.join("point_cloud")).ok()?.flatten();
    let iteration = |name: &str| name.strip_prefix("iteration_")?.parse::<u64>().ok();
    let newest = entries.filter_map(|entry| iteration(entry.file_name().to_str()?)).max()?;
    Some(format!("point_cloud/iteration_{newest}/point_cloud.ply"))
}

/// The pictures of a folder, sorted by name: JPEG and PNG, or without them those of other kinds.
fn pictures_in(folder: &Path) -> Vec<String> {
    let entries = input::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .filter(|name| is_readable(Path::new(name)))
        .collect();
    // A WebP beside a JPEG is a copy of it.
    let is_usual = |name: &String| ["jpg", "jpeg", "png"].iter().any(|e| has_extension(Path::new(name), e));
    if names.iter().any(is_usual) {
        names.retain(is_usual);
    }
    names.sort();
    names
}

/// The folder that has the most of the pictures, or the most pictures if they have no names.
fn image_folder(
    source: &ExportSource,
    frames: &[ExportFrame],
    options: &OpenOptions,
) -> Result<PathBuf, DatasetError> {
    if let Some(folder) = &options.images {
        return match folder.is_dir() {
            true => Ok(folder.clone()),
            false => Err(DatasetError::NoImageFolder { path: folder.clone() }),
        };
    }
    let ExportSource { root, kind, file, folder: beside } = source;
    let standard = root.join("images");
    let mut candidates = Vec::new();
    if *kind == DatasetKind::Polycam {
        candidates.extend(polycam::images_beside(beside));
    }
    candidates.extend([standard.clone(), beside.join("images")]);
    if *kind != DatasetKind::Llff {
        candidates.extend([root.clone(), beside.to_owned()]);
    }
    candidates.extend(beside.parent().map(|above| above.join("images")));
    candidates.extend(OTHER_IMAGE_FOLDERS.iter().map(|name| root.join(name)));
    if *kind != DatasetKind::Llff {
        candidates.extend(folders_in(root));
    }
    if *kind == DatasetKind::Bundler {
        // The names of a list above `bundle/` are relative to its folder.
        candidates.extend(bundler_list(file).and_then(|list| Some(list.parent()?.to_owned())));
    }
    let count = |folder: &Path| match frames {
        [] => pictures_in(folder).len().min(1),
        frames => {
            let names = NameResolver::new(folder, options.allow_outside);
            let is_there = |f: &&ExportFrame| names.find(&f.name, ExtensionRule::MayBeMissing).is_ok();
            frames.iter().take(PROBED_NAMES).filter(is_there).count()
        }
    };
    let mut best = (0, None);
    for folder in candidates.into_iter().filter(|folder| folder.is_dir()) {
        let found = count(&folder);
        if found > best.0 {
            best = (found, Some(folder));
        }
        if found > 0 && found == frames.len().clamp(1, PROBED_NAMES) {
            break;
        }
    }
    match best.1 {
        Some(folder) => Ok(folder),
        None if standard.is_dir() => Ok(standard),
        None => Err(DatasetError::NoImageFolder { path: standard }),
    }
}

/// Visible sub-folders except masks, sorted by name.
fn folders_in(root: &Path) -> Vec<PathBuf> {
    let entries = input::read_dir(root).into_iter().flatten().flatten();
    let is_plain = |name: &str| !name.starts_with('.') && !name.starts_with("mask");
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_plain))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

/// The source of a file that another program wrote.
pub(in crate::dataset) fn of_file(folder: &Path, file: &Path) -> Option<ExportSource> {
    recognise(file).map(|kind| ExportSource::new(folder, kind, file))
}
