//! Determines which files in a run folder are Gausset-owned.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::error::RunFolderError;
use super::names::{
    CAMERA_FILES, CAMERAS_MARKER, CHECKPOINTS_MARKER, CONFIG_START, CONTACT_SHEET, DEPTH_MARKER,
    EVALUATION_MARKER, EVALUATION_REPORT, RUN_FILES, RUN_MARKER, cameras_folder, checkpoints_folder,
    config_path, depth_folder, eval_folder, report_metrics_path, report_path, step_of,
};
use crate::atomic::{FileSystem, Overwrite, WriteError, remove_temporaries, retry};
use crate::input;
use crate::input_files;
use crate::ownership::{self, MARKER};

/// Longest `config.toml` that is looked at to see whose it is.
const MAX_PROOF_BYTES: u64 = 64 << 20;

/// Whether a folder belongs to a run, by its marker or the first line of its `config.toml`.
pub(super) fn is_run(root: &Path) -> bool {
    ownership::is_gausset_owned(root, RUN_MARKER)
        || input::read(&config_path(root), MAX_PROOF_BYTES)
            .is_ok_and(|text| text.starts_with(CONFIG_START.as_bytes()))
}

/// Refuses a run folder if one of its names is a link that leads out of it, or a pipe or device: a write would go
/// elsewhere or block for ever.
///
/// # Errors
/// The first such name, or a folder cannot be listed.
pub fn check_no_links_out(fs: &dyn FileSystem, root: &Path) -> Result<(), WriteError> {
    let folders = ["checkpoints", "eval", "cameras", "depth", "render"];
    // The lock file checks itself.
    for name in RUN_FILES.iter().chain(&folders).chain(&[MARKER]) {
        ownership::check_inside(root, Path::new(name))?;
    }
    for place in RunSubfolder::all(root) {
        for name in names_in(fs, &place.folder)? {
            let is_one = name.to_str().is_some_and(|name| (place.is_name)(name) || name == MARKER);
            if is_one || place.is_parent_of(&name) {
                let path = place.folder.join(name);
                ownership::check_inside(root, path.strip_prefix(root).unwrap_or(&path))?;
            }
        }
    }
    Ok(())
}

/// The files of a run that other commands read: without the evaluations and the report, which those commands write.
#[must_use]
pub fn input_paths(root: &Path) -> Vec<PathBuf> {
    let files = RUN_FILES.iter().map(|name| root.join(name));
    let made = [report_path(root), report_metrics_path(root)];
    let folders = RunSubfolder::all(root).into_iter().filter(|place| place.purpose != EVALUATION_MARKER);
    files.filter(|file| !made.contains(file)).chain(folders.map(|place| place.folder)).collect()
}

/// Removes temporary files of killed processes from a locked run folder.
pub(super) fn clean_up(fs: &dyn FileSystem, root: &Path) -> Result<(), WriteError> {
    remove_temporaries(fs, root)?;
    for place in RunSubfolder::all(root) {
        remove_temporaries(fs, &place.folder)?;
    }
    Ok(())
}

/// A sub-folder into which a run writes.
struct RunSubfolder {
    folder: PathBuf,
    /// Text of its marker.
    purpose: &'static str,
    /// Whether a run writes files with this kind of name.
    is_name: fn(&str) -> bool,
}

impl RunSubfolder {
    /// All sub-folders, parents before their contents.
    fn all(root: &Path) -> [Self; 5] {
        let eval = eval_folder(root);
        [
            Self {
                folder: checkpoints_folder(root),
                purpose: CHECKPOINTS_MARKER,
                is_name: |name| {
                    let name = name.strip_suffix(".damaged").unwrap_or(name);
                    step_of(OsStr::new(name)).is_some()
                },
            },
            Self { folder: eval.join("train"), purpose: EVALUATION_MARKER, is_name: is_evaluation_name },
            Self { folder: eval, purpose: EVALUATION_MARKER, is_name: is_evaluation_name },
            Self {
                folder: cameras_folder(root),
                purpose: CAMERAS_MARKER,
                is_name: |name| CAMERA_FILES.contains(&name),
            },
            Self {
                folder: depth_folder(root),
                purpose: DEPTH_MARKER,
                is_name: |name| is_numbered(name, ".npy"),
            },
        ]
    }

    fn is_parent_of(&self, name: &OsStr) -> bool {
        self.folder.ends_with("eval") && name == "train"
    }
}

/// Whether a name is one that an evaluation gives: `0012_name.png`, the contact sheet, the report.
fn is_evaluation_name(name: &str) -> bool {
    [CONTACT_SHEET, EVALUATION_REPORT].contains(&name) || is_numbered(name, ".png")
}

/// Whether a name consists of a number of four digits or more, `_`, and text with this ending.
fn is_numbered(name: &str, ending: &str) -> bool {
    let Some((number, rest)) = name.split_once('_') else { return false };
    let is_number = number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && rest.len() > ending.len() && rest.ends_with(ending)
}

/// Whether everything that looks like an evaluation in this folder, `eval` of a run or `train` in it, is of ours.
#[must_use]
pub fn evaluation_is_gausset_owned(fs: &dyn FileSystem, folder: &Path) -> bool {
    let is_other = |name: &OsStr| name.to_str().is_none_or(|name| !is_evaluation_name(name));
    ownership::is_gausset_owned(folder, EVALUATION_MARKER)
        || names_in(fs, folder).is_ok_and(|names| names.iter().all(|name| is_other(name)))
}

/// Ownership of the files that have names of a run.
#[derive(Debug, Default)]
pub(super) struct OwnershipSurvey {
    /// Whether the folder belongs to a run.
    pub(super) is_run: bool,
    /// Gausset-owned files of a run.
    pub(super) owned: Vec<PathBuf>,
    /// Files of others directly in the folder that a new run would or might replace …
    pub(super) replaced: Vec<PathBuf>,
    /// … and those of theirs in its sub-folders that have names of a run.
    pub(super) third_party: Vec<PathBuf>,
}

impl OwnershipSurvey {
    pub(super) fn new(fs: &dyn FileSystem, root: &Path) -> Result<Self, WriteError> {
        let mut survey = Self { is_run: is_run(root), ..Self::default() };
        for name in RUN_FILES {
            let path = root.join(name);
            if retry(|| fs.info(&path)).map_err(io_error(&path, "look up"))?.is_none() {
                continue;
            }
            let list = if survey.is_run { &mut survey.owned } else { &mut survey.replaced };
            list.push(path);
        }
        for place in RunSubfolder::all(root) {
            let names = names_in(fs, &place.folder)?;
            if names.is_empty() {
                continue;
            }
            let is_ours = ownership::is_gausset_owned(&place.folder, place.purpose);
            let list = if is_ours { &mut survey.owned } else { &mut survey.third_party };
            let names = names.iter().filter_map(|name| name.to_str()).filter(|name| (place.is_name)(name));
            list.extend(names.map(|name| place.folder.join(name)));
        }
        Ok(survey)
    }

    /// Surveys a folder and fails if a new run may not use it.
    pub(super) fn accepted(
        fs: &dyn FileSystem,
        root: &Path,
        overwrite: Overwrite,
    ) -> Result<Self, RunFolderError> {
        let old = Self::new(fs, root)?;
        let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        if let Some((first, forcible)) = old.in_the_way(overwrite) {
            let path = root.to_owned();
            return Err(RunFolderError::Foreign { path, found: shown(first), forcible });
        }
        if let (Overwrite::Refuse, Some(first)) = (overwrite, old.owned.first()) {
            return Err(RunFolderError::HoldsARun { path: root.to_owned(), found: shown(first) });
        }
        old.owned.iter().chain(&old.replaced).try_for_each(|path| input_files::check_not_input(path))?;
        Ok(old)
    }

    /// The first third-party file for which a new run must be refused, and whether `--force` would help.
    fn in_the_way(&self, overwrite: Overwrite) -> Option<(&Path, bool)> {
        let foreign = self.third_party.first().map(|path| (path.as_path(), false));
        let replaced = self.replaced.first().filter(|_| overwrite == Overwrite::Refuse);
        foreign.or(replaced.map(|path| (path.as_path(), true)))
    }
}

/// Names in a folder; empty if the folder does not exist.
pub(super) fn names_in(fs: &dyn FileSystem, folder: &Path) -> Result<Vec<std::ffi::OsString>, WriteError> {
    match retry(|| fs.list(folder)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(io_error(folder, "list")),
    }
}

pub(super) fn io_error(path: &Path, action: &'static str) -> impl Fn(io::Error) -> WriteError {
    move |source| WriteError::Io { path: path.to_owned(), action, source }
}
