//! The folder of a training run: its names, its lock, its checkpoints.
//!
//! ```text
//! RUN/
//!   config.toml          everything needed to repeat the run
//!   fingerprint.txt      the data it was made of, a line for each picture
//!   splats.ply           the result
//!   checkpoints/         step_007000.ckpt (latest) and the one before
//!   metrics.jsonl        one line per report
//!   profile.json profile.csv trace.json
//!   gains.json           the gains of the training pictures, of a run that learns them
//!   cameras/             the refined cameras, of a run that refines poses
//!   depth/               depth maps of the training pictures, of a run that keeps them
//!   eval/                truth | render | error pictures, metrics.json
//! ```
//! Every file is written by [`crate::atomic`]; `metrics.jsonl` alone grows by appended lines ([`crate::metrics_log`]).
//!
//! A run folder may hold files of others, and may come from others. So what is ours is decided file by file:
//!
//! - The folder is one of a run if its marker ([`crate::owned`]) or the first line of its `config.toml` says so; then the
//!   `RUN_FILES` directly in it are ours.
//! - In a sub-folder with a marker, what has a name of the form that a run gives is ours. Version 0.1 wrote no markers:
//!   in a sub-folder without one it takes a proof, see `Place::proof`.
//! - Anything else is neither replaced nor removed. If it has a name that the run would need, the folder is refused.
//! - No name of ours may be a link that leads out of the folder, or a pipe or device.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gausset_core::engine::TrainState;
use serde_json::Value;

use crate::atomic::{
    Committed, FileKind, FileSystem, Overwrite, WriteError, WriteOptions, crash, remove_temporaries, retry,
    write_atomic_with,
};
use crate::checkpoint::{CheckpointError, load_train_state, save_train_state};
use crate::input;
use crate::lock::{FolderLock, LOCK_NAME, LockError, SharedLock};
use crate::names;
use crate::owned::{self, MARKER};

/// What the marker of a run folder says; those of its sub-folders say their names.
pub const PURPOSE: &str = "run";
/// What the marker of a folder of checkpoints says.
const CHECKPOINTS: &str = "checkpoints";
/// What the marker of a folder with the pictures of an evaluation says.
pub const EVALUATION: &str = "evaluation";
/// What the marker of a folder with refined cameras says.
pub const CAMERAS: &str = "cameras";
/// What the marker of a folder with depth maps says.
pub const DEPTH: &str = "depth";

/// Start of the first line of every `config.toml` that a run has written.
pub const CONFIG_START: &str = "# Everything needed to repeat this run";
/// Longest `config.toml` and `metrics.json` that are looked at to see whose they are.
const MAX_PROOF_BYTES: u64 = 64 << 20;

/// Files that a run leaves directly in its folder …
const RUN_FILES: [&str; 9] = [
    "config.toml",
    "fingerprint.txt",
    "splats.ply",
    "metrics.jsonl",
    "profile.json",
    "profile.csv",
    "trace.json",
    "gains.json",
    "crash.txt",
];
/// … and those of them that every run writes.
const NEEDED_FILES: [&str; 3] = ["config.toml", "splats.ply", "metrics.jsonl"];
/// Files of the folder of refined cameras.
const CAMERA_FILES: [&str; 7] = [
    "cameras.bin",
    "images.bin",
    "points3D.bin",
    "cameras.txt",
    "images.txt",
    "points3D.txt",
    "transforms.json",
];

/// Name of the contact sheet in the folder of an evaluation.
pub const CONTACT_SHEET: &str = "contact_sheet.png";
/// Name of the report in the folder of an evaluation.
pub const EVALUATION_REPORT: &str = "metrics.json";

/// Why something in a run folder could not be done.
#[derive(Debug, thiserror::Error)]
pub enum RunFolderError {
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A checkpoint could not be saved.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Somebody else uses the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A new run would replace an old one.
    #[error("{}: run folder: holds a run already (expected an empty or new folder, found {found}); continue it with ⟨resume⟩, choose another folder, or replace it with ⟨force⟩", path.display())]
    HoldsARun {
        /// The folder.
        path: PathBuf,
        /// The first thing found that a run leaves.
        found: String,
    },
    /// Files of somebody else are in the way.
    #[error("{}: run folder: holds files that gausset did not write (expected an empty or new folder, found {found}); choose another folder{}", path.display(), if *forcible { ", or replace that file with ⟨force⟩" } else { ", or move them away" })]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The first of them.
        found: String,
        /// Whether it would be replaced with `--force`.
        forcible: bool,
    },
    /// There is no run to go on with.
    #[error("{}: run folder: holds no run (expected {expected}, found {found}); start one with `gausset train DATA -o {}`", path.display(), path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
}

/// A run folder that this process has locked.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    lock: FolderLock,
}

/// The newest checkpoint that can be used.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// Step in its name.
    pub step: u64,
    /// The file.
    pub path: PathBuf,
    /// The state.
    pub state: TrainState,
    /// The header that was given when it was saved.
    pub header: Value,
}

/// What was found when a run was looked through for checkpoints.
#[derive(Debug, Default)]
pub struct CheckpointSearch {
    /// The newest whole checkpoint; `None`: the run starts from step 0.
    pub found: Option<FoundCheckpoint>,
    /// Newer ones that cannot be used, each with the reason.
    pub damaged: Vec<(PathBuf, CheckpointError)>,
}

impl CheckpointSearch {
    /// One line per damaged checkpoint, saying which one is used instead.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let instead = match &self.found {
            Some(found) => format!("going back to step {}", found.step),
            None => "starting again from step 0".to_owned(),
        };
        self.damaged.iter().map(|(_, error)| format!("{error}; {instead}")).collect()
    }
}

impl RunFolder {
    /// Makes (or takes) a folder for a new run and locks it. With [`Overwrite::Replace`] the files of an earlier run
    /// are removed, and nothing else; without, a folder that holds any of them is refused. Files of somebody else stay;
    /// a folder in which they have names that the run needs is refused (directly in it, without `Replace`).
    ///
    /// # Errors
    /// The folder is in use; it holds a run and may not be overwritten; files of somebody else are in the way; a link
    /// leads out of it; it cannot be written to.
    pub fn create(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<Self, RunFolderError> {
        retry(|| fs.create_folder(root)).map_err(io_error(root, "create folder"))?;
        refuse_ways_out(fs, root)?;
        let lock = FolderLock::acquire(root)?;
        let old = Survey::accepted(fs, root, overwrite)?;
        // The folder is accepted, and the lock says that nobody else is writing here.
        if old.is_run {
            clean_up(fs, root)?;
        }
        let replaced =
            old.replaced.iter().filter(|path| NEEDED_FILES.iter().any(|name| path.ends_with(name)));
        for path in old.ours.iter().chain(replaced) {
            retry(|| fs.remove(path)).map_err(io_error(path, "remove"))?;
        }
        let no_names = std::iter::empty::<&Path>;
        owned::take(fs, root, PURPOSE, no_names(), overwrite)?;
        owned::take(fs, &checkpoints_folder(root), CHECKPOINTS, no_names(), overwrite)?;
        // The names of both folders must outlive a power failure, or what is in them does not.
        for folder in [Some(root), root.parent()].into_iter().flatten().filter(|f| !f.as_os_str().is_empty())
        {
            retry(|| fs.sync_folder(folder)).map_err(io_error(folder, "sync folder"))?;
        }
        Ok(Self { root: root.to_owned(), lock })
    }

    /// Looks whether a folder would be refused for what is in it or who uses it, and leaves it as it is: before long work.
    ///
    /// # Errors
    /// As [`Self::create`], but for writing.
    pub fn check(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<(), RunFolderError> {
        match retry(|| fs.info(root)).map_err(io_error(root, "look up"))?.map(|info| info.kind) {
            Some(FileKind::Folder) => {}
            // What cannot become a folder fails when one is made.
            _ => return Ok(()),
        }
        refuse_ways_out(fs, root)?;
        let lock = root.join(LOCK_NAME);
        let may_be_in_use = retry(|| fs.info(&lock)).map_err(io_error(&lock, "look up"))?.is_some();
        if may_be_in_use {
            SharedLock::acquire(root)?;
        }
        Survey::accepted(fs, root, overwrite).map(drop)
    }

    /// Opens and locks the folder of a run that is to go on.
    ///
    /// # Errors
    /// The folder is in use, is not there or has no `config.toml`; a link leads out of it.
    pub fn open(fs: &dyn FileSystem, root: &Path) -> Result<Self, RunFolderError> {
        let not_a_run = |expected, found| RunFolderError::NotARun { path: root.to_owned(), expected, found };
        let look_up = |path: &Path| retry(|| fs.info(path)).map_err(io_error(path, "look up"));
        match look_up(root)?.map(|info| info.kind) {
            Some(FileKind::Folder) => {}
            Some(_) => return Err(not_a_run("a folder", "a file")),
            None => return Err(not_a_run("a folder", "nothing")),
        }
        if look_up(&config_path(root))?.is_none() {
            return Err(not_a_run("config.toml in it", "none"));
        }
        refuse_ways_out(fs, root)?;
        let lock = FolderLock::acquire(root)?;
        let folder = checkpoints_folder(root);
        owned::take(fs, &folder, CHECKPOINTS, std::iter::empty::<&Path>(), Overwrite::Replace)?;
        if is_run(root) {
            clean_up(fs, root)?;
        }
        Ok(Self { root: root.to_owned(), lock })
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Something worth telling about the lock.
    #[must_use]
    pub fn lock_note(&self) -> Option<&str> {
        self.lock.note.as_deref()
    }

    /// Writes `config.toml`.
    ///
    /// # Errors
    /// A failed write.
    pub fn write_config(&self, fs: &dyn FileSystem, toml: &str) -> Result<(), RunFolderError> {
        let options = WriteOptions { label: "config", ..WriteOptions::default() };
        write_atomic_with(fs, &config_path(&self.root), &options, |file| file.write_all(toml.as_bytes()))?;
        Ok(())
    }

    /// Writes the list of the data that the run is made of.
    ///
    /// # Errors
    /// A failed write.
    pub fn write_list_of_data(&self, fs: &dyn FileSystem, list: &str) -> Result<(), RunFolderError> {
        let options = WriteOptions { label: "fingerprint", ..WriteOptions::default() };
        let path = data_list_path(&self.root);
        write_atomic_with(fs, &path, &options, |file| file.write_all(list.as_bytes()))?;
        Ok(())
    }

    /// Saves the checkpoint of a step; then removes all but this one and the newest before it.
    ///
    /// Checkpoints of later steps are from a future that a resume has given up: they go, too.
    ///
    /// # Errors
    /// A failed write: the checkpoints that were there are still there. An old one that cannot be removed is left.
    pub fn save_checkpoint(
        &self,
        fs: &dyn FileSystem,
        step: u64,
        state: &TrainState,
        header: &Value,
    ) -> Result<Committed, RunFolderError> {
        let committed = save_train_state(fs, &checkpoint_path(&self.root, step), state, header)?;
        crash::point("checkpoint", "before_remove_old");
        self.remove_old_checkpoints(fs, step)?;
        Ok(committed)
    }

    /// Finds the newest checkpoint that is whole, to go on from it. Damaged ones in front of it are set aside (renamed
    /// to `….damaged`), so that they never count as the previous one, and reported.
    ///
    /// # Errors
    /// The folder could not be listed.
    pub fn newest_checkpoint(&self, fs: &dyn FileSystem) -> Result<CheckpointSearch, RunFolderError> {
        let search = newest_checkpoint(fs, &self.root)?;
        for (path, _) in &search.damaged {
            let aside = path.with_extension("ckpt.damaged");
            if let Err(e) = retry(|| fs.rename(path, &aside)) {
                tracing::warn!(
                    "{}: could not be set aside: {}",
                    path.display(),
                    crate::atomic::plain_reason(&e)
                );
            }
        }
        if let Some(found) = &search.found {
            self.remove_old_checkpoints(fs, found.step)?;
        }
        Ok(search)
    }

    /// Removes all checkpoints but the one of `step` and the newest before it.
    fn remove_old_checkpoints(&self, fs: &dyn FileSystem, step: u64) -> Result<(), WriteError> {
        let mut steps = list_checkpoints(fs, &self.root)?;
        steps.retain(|&s| s != step);
        let previous = steps.iter().copied().rfind(|&s| s < step);
        for old in steps.into_iter().filter(|&s| Some(s) != previous) {
            let path = checkpoint_path(&self.root, old);
            if let Err(e) = retry(|| fs.remove(&path)) {
                tracing::warn!(
                    "{}: could not be removed: {}",
                    path.display(),
                    crate::atomic::plain_reason(&e)
                );
            }
        }
        Ok(())
    }
}

/// Finds the newest checkpoint of a run that is whole, and changes nothing: for looking at a run from outside.
///
/// # Errors
/// The folder could not be listed.
pub fn newest_checkpoint(fs: &dyn FileSystem, run: &Path) -> Result<CheckpointSearch, RunFolderError> {
    let mut search = CheckpointSearch::default();
    for step in list_checkpoints(fs, run)?.into_iter().rev() {
        let path = checkpoint_path(run, step);
        match load_train_state(&path) {
            Ok((state, header)) => {
                search.found = Some(FoundCheckpoint { step, path, state, header });
                break;
            }
            Err(error) => search.damaged.push((path, error)),
        }
    }
    Ok(search)
}

/// Steps of the checkpoints of a run, whole or not, in increasing order.
///
/// # Errors
/// The folder could not be listed.
pub fn list_checkpoints(fs: &dyn FileSystem, run: &Path) -> Result<Vec<u64>, WriteError> {
    let mut steps: Vec<u64> =
        names_in(fs, &checkpoints_folder(run))?.iter().filter_map(|name| step_of(name)).collect();
    steps.sort_unstable();
    Ok(steps)
}

/// Step of a checkpoint's file name, if it is one of ours.
fn step_of(name: &OsStr) -> Option<u64> {
    let step = name.to_str()?.strip_prefix("step_")?.strip_suffix(".ckpt")?.parse().ok()?;
    // `step_7.ckpt` or `step_+07000.ckpt` are not names that we give.
    (*checkpoint_name(step) == *name).then_some(step)
}

/// Whether a folder is that of a run: its marker says so, or its `config.toml` begins as ours do.
fn is_run(root: &Path) -> bool {
    owned::is_ours(root, PURPOSE)
        || input::read(&config_path(root), MAX_PROOF_BYTES)
            .is_ok_and(|text| text.starts_with(CONFIG_START.as_bytes()))
}

/// Refuses a run folder in which a name of ours is a link that leads out of it, or a pipe or device: what is written
/// there would go elsewhere, or wait for ever.
///
/// # Errors
/// The first such name; a folder that cannot be listed.
pub fn refuse_ways_out(fs: &dyn FileSystem, root: &Path) -> Result<(), WriteError> {
    let folders = ["checkpoints", "eval", "cameras", "depth", "render"];
    // The lock looks after itself.
    for name in RUN_FILES.iter().chain(&folders).chain(&[MARKER]) {
        owned::stays_inside(root, Path::new(name))?;
    }
    for place in Place::all(root) {
        for name in names_in(fs, &place.folder)? {
            let is_one = name.to_str().is_some_and(|name| (place.is_name)(name) || name == MARKER);
            if is_one || place.is_parent_of(&name) {
                let path = place.folder.join(name);
                owned::stays_inside(root, path.strip_prefix(root).unwrap_or(&path))?;
            }
        }
    }
    Ok(())
}

/// Removes what killed processes have left in a run folder that is locked.
fn clean_up(fs: &dyn FileSystem, root: &Path) -> Result<(), WriteError> {
    remove_temporaries(fs, root)?;
    for place in Place::all(root) {
        remove_temporaries(fs, &place.folder)?;
    }
    Ok(())
}

/// A sub-folder into which a run writes.
struct Place {
    folder: PathBuf,
    /// What its marker says.
    purpose: &'static str,
    /// Whether a name is of the form that a run gives.
    is_name: fn(&str) -> bool,
    /// Whether a file of such a name is ours though the folder has no marker, as in version 0.1; told the run's folder.
    proof: fn(&Path, &Self) -> Proof,
}

/// Which files of a folder without a marker are ours.
enum Proof {
    /// All whose names are of the right form.
    All,
    /// Those with these names; of pictures, what comes behind their number.
    These(BTreeSet<String>),
}

impl Place {
    /// All of them, parents before what is in them.
    fn all(root: &Path) -> [Self; 5] {
        let eval = eval_folder(root);
        [
            Self {
                folder: checkpoints_folder(root),
                purpose: CHECKPOINTS,
                is_name: |name| {
                    let name = name.strip_suffix(".damaged").unwrap_or(name);
                    step_of(OsStr::new(name)).is_some()
                },
                // No other program gives exactly these names to files in the folder of a run of ours.
                proof: |_, _| Proof::All,
            },
            Self {
                folder: eval.join("train"),
                purpose: EVALUATION,
                is_name: is_evaluation_name,
                proof: |_, place| evaluation_proof(&place.folder),
            },
            Self {
                folder: eval,
                purpose: EVALUATION,
                is_name: is_evaluation_name,
                proof: |_, place| evaluation_proof(&place.folder),
            },
            Self {
                folder: cameras_folder(root),
                purpose: CAMERAS,
                is_name: |name| CAMERA_FILES.contains(&name),
                // Those are names of COLMAP: ours only if the run refines poses.
                proof: |root, _| {
                    let config = input::read_to_string(&config_path(root), MAX_PROOF_BYTES);
                    let refines = config.is_ok_and(|text| text.lines().any(|l| l == "refine-poses = true"));
                    if refines { Proof::All } else { Proof::These(BTreeSet::new()) }
                },
            },
            Self {
                folder: depth_folder(root),
                purpose: DEPTH,
                is_name: |name| is_numbered(name, ".npy"),
                // Version 0.1 wrote none.
                proof: |_, _| Proof::These(BTreeSet::new()),
            },
        ]
    }

    fn is_parent_of(&self, name: &OsStr) -> bool {
        self.folder.ends_with("eval") && name == "train"
    }
}

impl Proof {
    fn holds(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => {
                names.contains(name) || name.split_once('_').is_some_and(|(_, rest)| names.contains(rest))
            }
        }
    }
}

/// Whether a name is one that an evaluation gives: `0012_name.png`, the contact sheet, the report.
fn is_evaluation_name(name: &str) -> bool {
    [CONTACT_SHEET, EVALUATION_REPORT].contains(&name) || is_numbered(name, ".png")
}

/// Whether a name is a number of four digits or more, `_`, and something with this ending.
fn is_numbered(name: &str, ending: &str) -> bool {
    let Some((number, rest)) = name.split_once('_') else { return false };
    let is_number = number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && rest.len() > ending.len() && rest.ends_with(ending)
}

/// What an evaluation of version 0.1 wrote into a folder, by its report. Pictures alone prove nothing: without the
/// report, which is written last, they stay.
fn evaluation_proof(folder: &Path) -> Proof {
    let read = || {
        let report = input::read(&folder.join(EVALUATION_REPORT), MAX_PROOF_BYTES).ok()?;
        let report: Value = serde_json::from_slice(&report).ok()?;
        report.get("split")?.as_str()?;
        let pictures = report.get("per_image")?.as_array()?.iter();
        let names = pictures.filter_map(|picture| picture.get("name")?.as_str());
        let ours = [CONTACT_SHEET, EVALUATION_REPORT].map(str::to_owned).into_iter();
        Some(ours.chain(names.map(|name| format!("{}.png", names::flat(name)))).collect())
    };
    Proof::These(read().unwrap_or_default())
}

/// Whether everything that looks like an evaluation in this folder, `eval` of a run or `train` in it, is of ours.
#[must_use]
pub fn evaluation_is_ours(fs: &dyn FileSystem, folder: &Path) -> bool {
    let proof = evaluation_proof(folder);
    let holds =
        |name: &OsStr| name.to_str().is_none_or(|name| !is_evaluation_name(name) || proof.holds(name));
    owned::is_ours(folder, EVALUATION)
        || names_in(fs, folder).is_ok_and(|names| names.iter().all(|name| holds(name)))
}

/// Whose the files are that have names of a run.
#[derive(Debug, Default)]
struct Survey {
    /// The folder is one of a run.
    is_run: bool,
    /// Files of a run of ours.
    ours: Vec<PathBuf>,
    /// Files of others directly in the folder that a new run would or might replace …
    replaced: Vec<PathBuf>,
    /// … and those of theirs in its sub-folders that have names of a run.
    foreign: Vec<PathBuf>,
}

impl Survey {
    fn of(fs: &dyn FileSystem, root: &Path) -> Result<Self, WriteError> {
        let mut survey = Self { is_run: is_run(root), ..Self::default() };
        for name in RUN_FILES {
            let path = root.join(name);
            if retry(|| fs.info(&path)).map_err(io_error(&path, "look up"))?.is_none() {
                continue;
            }
            let list = if survey.is_run { &mut survey.ours } else { &mut survey.replaced };
            list.push(path);
        }
        for place in Place::all(root) {
            let names = names_in(fs, &place.folder)?;
            if names.is_empty() {
                continue;
            }
            let proof = match (owned::is_ours(&place.folder, place.purpose), survey.is_run) {
                (true, _) => Proof::All,
                (false, true) => (place.proof)(root, &place),
                (false, false) => Proof::These(BTreeSet::new()),
            };
            for name in names.iter().filter_map(|name| name.to_str()).filter(|name| (place.is_name)(name)) {
                let list = if proof.holds(name) { &mut survey.ours } else { &mut survey.foreign };
                list.push(place.folder.join(name));
            }
        }
        Ok(survey)
    }

    /// What is in a folder that a new run may take.
    fn accepted(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<Self, RunFolderError> {
        let old = Self::of(fs, root)?;
        let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        if let Some((first, forcible)) = old.in_the_way(overwrite) {
            let path = root.to_owned();
            return Err(RunFolderError::Foreign { path, found: shown(first), forcible });
        }
        if let (Overwrite::Refuse, Some(first)) = (overwrite, old.ours.first()) {
            return Err(RunFolderError::HoldsARun { path: root.to_owned(), found: shown(first) });
        }
        Ok(old)
    }

    /// The first file of somebody else for which a new run must be refused, and whether `--force` would help.
    fn in_the_way(&self, overwrite: Overwrite) -> Option<(&Path, bool)> {
        let foreign = self.foreign.first().map(|path| (path.as_path(), false));
        let replaced = self.replaced.first().filter(|_| overwrite == Overwrite::Refuse);
        foreign.or(replaced.map(|path| (path.as_path(), true)))
    }
}

/// Names in a folder; none when there is no folder.
fn names_in(fs: &dyn FileSystem, folder: &Path) -> Result<Vec<std::ffi::OsString>, WriteError> {
    match retry(|| fs.list(folder)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(io_error(folder, "list")),
    }
}

fn io_error(path: &Path, action: &'static str) -> impl Fn(io::Error) -> WriteError {
    move |source| WriteError::Io { path: path.to_owned(), action, source }
}

/// `step_007000.ckpt`.
fn checkpoint_name(step: u64) -> String {
    format!("step_{step:06}.ckpt")
}

/// `RUN/fingerprint.txt`.
#[must_use]
pub fn data_list_path(root: &Path) -> PathBuf {
    root.join("fingerprint.txt")
}

/// `RUN/config.toml`.
#[must_use]
pub fn config_path(run: &Path) -> PathBuf {
    run.join("config.toml")
}

/// `RUN/splats.ply`.
#[must_use]
pub fn splats_path(run: &Path) -> PathBuf {
    run.join("splats.ply")
}

/// `RUN/checkpoints`.
#[must_use]
pub fn checkpoints_folder(run: &Path) -> PathBuf {
    run.join("checkpoints")
}

/// `RUN/checkpoints/step_007000.ckpt`.
#[must_use]
pub fn checkpoint_path(run: &Path, step: u64) -> PathBuf {
    checkpoints_folder(run).join(checkpoint_name(step))
}

/// `RUN/metrics.jsonl`.
#[must_use]
pub fn metrics_path(run: &Path) -> PathBuf {
    run.join("metrics.jsonl")
}

/// `RUN/profile.json`.
#[must_use]
pub fn profile_path(run: &Path) -> PathBuf {
    run.join("profile.json")
}

/// `RUN/profile.csv`.
#[must_use]
pub fn profile_csv_path(run: &Path) -> PathBuf {
    run.join("profile.csv")
}

/// `RUN/trace.json`.
#[must_use]
pub fn trace_path(run: &Path) -> PathBuf {
    run.join("trace.json")
}

/// `RUN/gains.json`: the gains of the training pictures, of a run that learns them.
#[must_use]
pub fn gains_path(run: &Path) -> PathBuf {
    run.join("gains.json")
}

/// `RUN/cameras`: the cameras of a run that refines poses.
#[must_use]
pub fn cameras_folder(run: &Path) -> PathBuf {
    run.join("cameras")
}

/// `RUN/depth`: depth maps of the training pictures.
#[must_use]
pub fn depth_folder(run: &Path) -> PathBuf {
    run.join("depth")
}

/// `RUN/eval`.
#[must_use]
pub fn eval_folder(run: &Path) -> PathBuf {
    run.join("eval")
}
