//! A part of a run in blocks: a run in its own folder.

use std::path::Path;
use std::sync::Arc;

use gausset_io::atomic::{Disk, Overwrite};
use gausset_io::dataset::Dataset;
use gausset_io::run_folder::config_path;
use gausset_train::{Block, Run, RunOutcome, Session, TrainConfig, read_outcome};

use crate::saved_run::SavedRun;
use crate::training::{RunSettings, Trainer, with_absolute_paths};
use crate::{Event, Failure, Host};

/// A part that is about to be trained.
pub(crate) struct Part<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) config: TrainConfig,
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) block: Block,
    /// Kind and name of the device of the whole run.
    pub(crate) device: (&'a str, &'a str),
}

impl Part<'_> {
    /// The outcome of the part that a folder holds; `None` if none has finished there.
    pub(super) fn outcome(folder: &Path) -> Result<Option<RunOutcome>, Failure> {
        if SavedRun::is_run_folder(folder) { Ok(read_outcome(folder)?) } else { Ok(None) }
    }

    /// Begins or resumes the part, or returns its outcome if it is finished. `None` if the job was asked to stop before
    /// the first step.
    pub(super) fn train(
        mut self,
        settings: RunSettings,
        host: &mut Host<'_>,
    ) -> Result<Option<RunOutcome>, Failure> {
        self.config = with_absolute_paths(self.config)?;
        let is_begun = SavedRun::is_run_folder(self.folder);
        if is_begun {
            self.check()?;
            if let Some(outcome) = Self::outcome(self.folder)? {
                return Ok(Some(outcome));
            }
        }
        match self.open(is_begun, settings, host) {
            Err(failure) if failure.is_stopped() => Ok(None),
            opened => opened?.finish_started(host).map(|trained| Some(trained.outcome)),
        }
    }

    /// Refuses a folder that holds a part of another run.
    fn check(&self) -> Result<(), Failure> {
        let recorded = SavedRun::read(self.folder)?.recorded;
        let differences = recorded.differences(&self.config);
        let is_this = recorded.record.block.as_ref() == Some(&self.block.label);
        if differences.is_empty() && is_this {
            return Ok(());
        }
        let what = match differences.is_empty() {
            true => format!("expected {}", self.block.label),
            false => differences.join(", "),
        };
        let line = format!(
            "{}: a part of another run: {what}; remove its folder, or train again with ⟨force⟩",
            config_path(self.folder).display()
        );
        Err(Failure::new("other-options", line))
    }

    /// Opens the part for training: a new one, or one that its folder holds.
    pub(crate) fn open(
        self,
        is_begun: bool,
        settings: RunSettings,
        host: &mut Host<'_>,
    ) -> Result<Trainer, Failure> {
        let Self { folder, config, dataset, block, device } = self;
        let (engine, _) = settings.device.engine_for_training(config.threads(), Some(device), host)?;
        let session = Session {
            dataset,
            engine,
            device_choice: None,
            fs: Arc::new(Disk),
            stop: Arc::clone(host.stop()),
            has_viewer: false,
            block: Some(block.clone()),
        };
        let mut events = |event| host.report(Event::Training(Box::new(event)));
        let run = match is_begun {
            true => Run::resume(config, folder, session, &mut events)?,
            false => Run::start(config, folder, Overwrite::Refuse, session, &mut events)?,
        };
        Ok(Trainer::of_part(run, block, settings, host))
    }
}
