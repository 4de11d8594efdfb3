//! The folder of a training run: file names, lock, checkpoints.
//!
//! ```text
//! RUN/
//!   config.toml          all options needed to repeat the run
//!   fingerprint.txt      the training data, one line per image
//!   splats.ply           the result
//!   checkpoints/         step_007000.ckpt (latest) and the previous one
//!   metrics.jsonl        one line per report
//!   profile.json profile.csv trace.json
//!   gains.json           exposure compensation of the training images, if enabled
//!   cameras.json         the cameras of all images in the axes of splats.ply
//!   cameras/             the refined cameras, if poses are refined
//!   depth/               depth maps of the training images, if kept
//!   eval/                truth, render and error images, metrics.json
//! ```
//! Every file is written by [`crate::atomic`]; only `metrics.jsonl` grows by appended lines ([`crate::metrics_log`]).
//!
//! A run folder may contain third-party files, and may come from another user. So ownership is decided per file:
//!
//! - The folder is one of a run if its marker ([`crate::ownership`]) or the first line of its `config.toml` says so; then the
//!   `RUN_FILES` directly in it are ours.
//! - In a sub-folder with a marker, what has a name of the form that a run gives is ours.
//! - Anything else is neither replaced nor removed. If it has a name that the run would need, the folder is refused.
//! - No name of ours may be a link that leads out of the folder, or a pipe or device.

mod checkpoints;
mod error;
mod names;
mod survey;

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::engine::TrainState;
use serde_json::Value;

pub use self::checkpoints::{CheckpointSearch, FoundCheckpoint, list_checkpoints, newest_checkpoint};
pub use self::error::RunFolderError;
pub use self::names::{
    CAMERAS_MARKER, CONFIG_START, CONTACT_SHEET, DEPTH_MARKER, EVALUATION_MARKER, EVALUATION_REPORT,
    RUN_MARKER, cameras_folder, cameras_json_path, checkpoint_path, checkpoints_folder, confidence_path,
    config_path, data_list_path, depth_folder, eval_folder, events_path, exposure_path, metrics_path,
    profile_csv_path, profile_path, report_metrics_path, report_path, splats_path, trace_path,
};
use self::names::{CHECKPOINTS_MARKER, NEEDED_FILES};
use self::survey::{OwnershipSurvey, clean_up, io_error, is_run};
pub use self::survey::{check_no_links_out, evaluation_is_gausset_owned, input_paths};
use crate::atomic::{
    FileKind, FileSystem, Overwrite, WriteError, WriteOptions, WriteStats, check_writable, crash, retry,
    write_atomic_with,
};
use crate::checkpoint::save_train_state;
use crate::lock::{FolderLock, LOCK_NAME, SharedLock};
use crate::ownership;

/// A run folder locked by this process.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    lock: FolderLock,
}

impl RunFolder {
    /// Creates or reuses a folder for a new run and locks it. With [`Overwrite::Replace`], only the files of an earlier
    /// run are removed; without it, a folder that contains any of them is refused. Files not created by Gausset stay;
    /// if they have names that the run needs, the folder is refused (directly in it, only without `Replace`).
    ///
    /// # Errors
    /// The folder is in use, contains a run and may not be overwritten, contains third-party files with needed names or
    /// a link that leads out of it, or cannot be written to.
    pub fn create(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<Self, RunFolderError> {
        retry(|| fs.create_folder(root)).map_err(io_error(root, "create folder"))?;
        check_no_links_out(fs, root)?;
        let lock = FolderLock::acquire(root)?;
        let old = OwnershipSurvey::accepted(fs, root, overwrite)?;
        // The folder is accepted, and the lock guarantees that no other run writes here.
        if old.is_run {
            clean_up(fs, root)?;
        }
        let replaced =
            old.replaced.iter().filter(|path| NEEDED_FILES.iter().any(|name| path.ends_with(name)));
        for path in old.owned.iter().chain(replaced) {
            retry(|| fs.remove(path)).map_err(io_error(path, "remove"))?;
        }
        let no_names = std::iter::empty::<&Path>;
        ownership::claim_for_files(fs, root, RUN_MARKER, no_names(), overwrite)?;
        ownership::claim_for_files(fs, &checkpoints_folder(root), CHECKPOINTS_MARKER, no_names(), overwrite)?;
        // Both folder names must be durable, or a power failure would lose their contents.
        for folder in [Some(root), root.parent()].into_iter().flatten().filter(|f| !f.as_os_str().is_empty())
        {
            retry(|| fs.sync_folder(folder)).map_err(io_error(folder, "sync folder"))?;
        }
        Ok(Self { root: root.to_owned(), lock })
    }

    /// Checks before long work whether [`Self::create`] would refuse the folder for its contents, a lock or missing
    /// write permission. Changes nothing.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn check(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<(), RunFolderError> {
        match retry(|| fs.info(root)).map_err(io_error(root, "look up"))?.map(|info| info.kind) {
            Some(FileKind::Folder) => {}
            // A path that cannot become a folder fails when it is created.
            Some(_) => return Ok(()),
            None => {
                return existing_parent(fs, root).map_or(Ok(()), |above| {
                    Ok(check_writable(fs, above).map_err(io_error(root, "create folder"))?)
                });
            }
        }
        check_no_links_out(fs, root)?;
        let lock = root.join(LOCK_NAME);
        let may_be_in_use = retry(|| fs.info(&lock)).map_err(io_error(&lock, "look up"))?.is_some();
        if may_be_in_use {
            SharedLock::acquire(root)?;
        }
        OwnershipSurvey::accepted(fs, root, overwrite)?;
        Ok(check_writable(fs, root).map_err(io_error(root, "write to folder"))?)
    }

    /// Opens and locks the folder of a run that is to be resumed.
    ///
    /// # Errors
    /// The folder is in use, does not exist, has no `config.toml`, or contains a link that leads out of it.
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
        check_no_links_out(fs, root)?;
        let lock = FolderLock::acquire(root)?;
        let folder = checkpoints_folder(root);
        ownership::claim_for_files(
            fs,
            &folder,
            CHECKPOINTS_MARKER,
            std::iter::empty::<&Path>(),
            Overwrite::Replace,
        )?;
        if is_run(root) {
            clean_up(fs, root)?;
        }
        Ok(Self { root: root.to_owned(), lock })
    }

    /// Path of the folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A remark about the lock for the user, if any.
    #[must_use]
    pub fn lock_note(&self) -> Option<&str> {
        self.lock.note.as_deref()
    }

    /// Writes `config.toml`.
    ///
    /// # Errors
    /// The write failed.
    pub fn write_config(&self, fs: &dyn FileSystem, toml: &str) -> Result<(), RunFolderError> {
        let options = WriteOptions { label: "config", ..WriteOptions::default() };
        write_atomic_with(fs, &config_path(&self.root), &options, |file| file.write_all(toml.as_bytes()))?;
        Ok(())
    }

    /// Writes the list of the training data (`fingerprint.txt`).
    ///
    /// # Errors
    /// The write failed.
    pub fn write_data_list(&self, fs: &dyn FileSystem, list: &str) -> Result<(), RunFolderError> {
        let options = WriteOptions { label: "fingerprint", ..WriteOptions::default() };
        let path = data_list_path(&self.root);
        write_atomic_with(fs, &path, &options, |file| file.write_all(list.as_bytes()))?;
        Ok(())
    }

    /// Saves the checkpoint of a step, then removes all others except the previous one.
    ///
    /// Checkpoints of later steps, which a resume has abandoned, are removed as well.
    ///
    /// # Errors
    /// The write failed; existing checkpoints are unchanged. Old ones that cannot be removed are left.
    pub fn save_checkpoint(
        &self,
        fs: &dyn FileSystem,
        step: u64,
        state: &TrainState,
        header: &Value,
    ) -> Result<WriteStats, RunFolderError> {
        let committed = save_train_state(fs, &checkpoint_path(&self.root, step), state, header)?;
        crash::crash_point("checkpoint", "before_remove_old");
        self.remove_old_checkpoints(fs, step)?;
        Ok(committed)
    }

    /// Finds the newest valid checkpoint to resume from. Newer damaged ones are renamed to `….damaged`, so that they
    /// never count as the previous one, and reported.
    ///
    /// # Errors
    /// As [`newest_checkpoint()`]; nothing is renamed then.
    pub fn newest_checkpoint(&self, fs: &dyn FileSystem) -> Result<CheckpointSearch, RunFolderError> {
        let search = newest_checkpoint(fs, &self.root)?;
        for (path, _) in &search.damaged {
            let aside = path.with_extension("ckpt.damaged");
            if let Err(e) = retry(|| fs.rename(path, &aside)) {
                tracing::warn!(
                    "{}: could not be renamed to *.damaged: {}",
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

    /// Removes all checkpoints except that of `step` and the newest before it.
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

/// The nearest existing folder above a path.
fn existing_parent<'a>(fs: &dyn FileSystem, path: &'a Path) -> Option<&'a Path> {
    let is_folder =
        |path: &&Path| fs.info(path).ok().flatten().is_some_and(|info| info.kind == FileKind::Folder);
    let above = path.ancestors().skip(1);
    above.map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path }).find(is_folder)
}
