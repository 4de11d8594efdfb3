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
//!   cameras.json         the cameras of all pictures in the axes of splats.ply
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
    CAMERAS, CONFIG_START, CONTACT_SHEET, DEPTH, EVALUATION, EVALUATION_REPORT, PURPOSE, cameras_folder,
    cameras_json_path, checkpoint_path, checkpoints_folder, config_path, data_list_path, depth_folder,
    eval_folder, events_path, gains_path, metrics_path, numbers_path, profile_csv_path, profile_path,
    report_path, splats_path, trace_path,
};
use self::names::{CHECKPOINTS, NEEDED_FILES};
use self::survey::{Survey, clean_up, io_error, is_run};
pub use self::survey::{evaluation_is_ours, inputs, refuse_ways_out};
use crate::atomic::{
    Committed, FileKind, FileSystem, Overwrite, WriteError, WriteOptions, crash, retry, try_folder,
    write_atomic_with,
};
use crate::checkpoint::save_train_state;
use crate::lock::{FolderLock, LOCK_NAME, SharedLock};
use crate::owned;

/// A run folder that this process has locked.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    lock: FolderLock,
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

    /// Looks whether a folder would be refused for what is in it, who uses it or because it cannot be written to, and
    /// leaves it as it is: before long work.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn check(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<(), RunFolderError> {
        match retry(|| fs.info(root)).map_err(io_error(root, "look up"))?.map(|info| info.kind) {
            Some(FileKind::Folder) => {}
            // What cannot become a folder fails when one is made.
            Some(_) => return Ok(()),
            None => {
                return folder_above(fs, root).map_or(Ok(()), |above| {
                    Ok(try_folder(fs, above).map_err(io_error(root, "create folder"))?)
                });
            }
        }
        refuse_ways_out(fs, root)?;
        let lock = root.join(LOCK_NAME);
        let may_be_in_use = retry(|| fs.info(&lock)).map_err(io_error(&lock, "look up"))?.is_some();
        if may_be_in_use {
            SharedLock::acquire(root)?;
        }
        Survey::accepted(fs, root, overwrite)?;
        Ok(try_folder(fs, root).map_err(io_error(root, "write to folder"))?)
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

/// The nearest folder above a path that is there.
fn folder_above<'a>(fs: &dyn FileSystem, path: &'a Path) -> Option<&'a Path> {
    let is_folder =
        |path: &&Path| fs.info(path).ok().flatten().is_some_and(|info| info.kind == FileKind::Folder);
    let above = path.ancestors().skip(1);
    above.map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path }).find(is_folder)
}
