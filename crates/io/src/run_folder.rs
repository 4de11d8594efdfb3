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
//!   cameras/             the refined cameras, of a run that refines poses
//!   eval/                truth | render | error pictures, metrics.json
//! ```
//! Every file is written by [`crate::atomic`]; `metrics.jsonl` alone grows by appended lines ([`crate::metrics_log`]).

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use gausset_core::engine::TrainState;
use serde_json::Value;

use crate::atomic::{
    Committed, FileKind, FileSystem, Overwrite, Temporaries, WriteError, WriteOptions, crash,
    remove_temporaries, retry, write_atomic_with,
};
use crate::checkpoint::{CheckpointError, load_train_state, save_train_state};
use crate::lock::{FolderLock, LockError};
use std::io::Write;

/// Files that a run leaves directly in its folder.
const RUN_FILES: [&str; 8] = [
    "config.toml",
    "fingerprint.txt",
    "splats.ply",
    "metrics.jsonl",
    "profile.json",
    "profile.csv",
    "trace.json",
    "crash.txt",
];
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
    #[error("{}: run folder: holds a run already (expected an empty or new folder, found {found}); continue it with --resume, choose another folder, or replace it with --force", path.display())]
    HoldsARun {
        /// The folder.
        path: PathBuf,
        /// The first thing found that a run leaves.
        found: String,
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
    /// are removed, and nothing else; without, a folder that holds any of them is refused.
    ///
    /// # Errors
    /// The folder is in use; it holds a run and may not be overwritten; it cannot be written to.
    pub fn create(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<Self, RunFolderError> {
        retry(|| fs.create_folder(root)).map_err(io_error(root, "create folder"))?;
        let lock = FolderLock::acquire(root)?;
        let folder = checkpoints_folder(root);
        // The lock says that nobody else is writing here.
        for folder in [root, &folder, &eval_folder(root)] {
            remove_temporaries(fs, folder, Temporaries::All)?;
        }
        let old = files_of_a_run(fs, root)?;
        match old.first() {
            Some(first) if overwrite == Overwrite::Refuse => {
                let found = first.strip_prefix(root).unwrap_or(first).display().to_string();
                return Err(RunFolderError::HoldsARun { path: root.to_owned(), found });
            }
            _ => {}
        }
        for path in &old {
            retry(|| fs.remove(path)).map_err(io_error(path, "remove"))?;
        }
        retry(|| fs.create_folder(&folder)).map_err(io_error(&folder, "create folder"))?;
        // The names of both folders must outlive a power failure, or what is in them does not.
        for folder in [Some(root), root.parent()].into_iter().flatten().filter(|f| !f.as_os_str().is_empty())
        {
            retry(|| fs.sync_folder(folder)).map_err(io_error(folder, "sync folder"))?;
        }
        Ok(Self { root: root.to_owned(), lock })
    }

    /// Opens and locks the folder of a run that is to go on.
    ///
    /// # Errors
    /// The folder is in use, is not there or has no `config.toml`.
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
        let lock = FolderLock::acquire(root)?;
        let folder = checkpoints_folder(root);
        retry(|| fs.create_folder(&folder)).map_err(io_error(&folder, "create folder"))?;
        for folder in [root, &folder] {
            remove_temporaries(fs, folder, Temporaries::All)?;
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

/// Everything in a folder that a run leaves behind.
fn files_of_a_run(fs: &dyn FileSystem, root: &Path) -> Result<Vec<PathBuf>, WriteError> {
    let mut found = Vec::new();
    for name in RUN_FILES {
        let path = root.join(name);
        if retry(|| fs.info(&path)).map_err(io_error(&path, "look up"))?.is_some() {
            found.push(path);
        }
    }
    let mut add = |folder: PathBuf, is_ours: &dyn Fn(&str) -> bool| -> Result<(), WriteError> {
        let names = names_in(fs, &folder)?;
        let ours = names.iter().filter(|name| name.to_str().is_some_and(is_ours));
        found.extend(ours.map(|name| folder.join(name)));
        Ok(())
    };
    let ends = |name: &str, endings: &[&str]| endings.iter().any(|e| name.ends_with(e));
    add(checkpoints_folder(root), &|name| {
        ends(name, &[".ckpt", ".ckpt.damaged"]) || name.starts_with(".tmp-")
    })?;
    for folder in [eval_folder(root), eval_folder(root).join("train")] {
        add(folder, &|name| ends(name, &[".png", ".json"]) || name.starts_with(".tmp-"))?;
    }
    add(cameras_folder(root), &|name| CAMERA_FILES.contains(&name) || name.starts_with(".tmp-"))?;
    Ok(found)
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

/// `RUN/cameras`: the cameras of a run that refines poses.
#[must_use]
pub fn cameras_folder(run: &Path) -> PathBuf {
    run.join("cameras")
}

/// `RUN/eval`.
#[must_use]
pub fn eval_folder(run: &Path) -> PathBuf {
    run.join("eval")
}
