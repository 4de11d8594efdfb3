//! How far a run in blocks has come, from its folders alone.

use std::path::Path;

use gausset_train::{RecordedRun, RunSummary, read_outcome, read_summary};
use serde::Serialize;

use super::files::BlocksFolder;
use crate::Failure;
use crate::saved_run::SavedRun;

/// The parts of a run in blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlocksStatus {
    /// The coarse run.
    pub coarse: PartStatus,
    /// The blocks, once the scene is divided.
    pub blocks: Vec<PartStatus>,
    /// Why the division cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A part of a run in blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartStatus {
    /// Number of training images.
    pub images: u64,
    /// Steps that it has done, by its last report.
    pub steps: u64,
    /// Steps that it will have done at its end.
    pub total_steps: u64,
    /// Splats, by its last report.
    pub splats: u64,
    /// Whether it is finished.
    pub is_finished: bool,
}

impl BlocksStatus {
    /// The status of the run in blocks in `run`.
    ///
    /// # Errors
    /// A file of it cannot be read.
    pub fn read(run: &Path, recorded: &RecordedRun) -> Result<Self, Failure> {
        let folder = BlocksFolder::of(run);
        let coarse = PartStatus::default().read(&folder.coarse())?;
        let problem = folder.read_division(recorded).err().map(|failure| failure.to_string());
        let division = folder.division().unwrap_or_default();
        let plans = division.map(|division| division.blocks).unwrap_or_default();
        let blocks = plans.iter().enumerate().map(|(index, plan)| {
            let images = plan.images.len() as u64;
            // A block without images has nothing to do.
            let is_finished = images == 0;
            PartStatus { images, total_steps: plan.steps, is_finished, ..PartStatus::default() }
                .read(&folder.block(index))
        });
        Ok(Self { coarse, blocks: blocks.collect::<Result<_, _>>()?, problem })
    }

    /// Steps of all blocks: those that are done, and all.
    #[must_use]
    pub fn steps(&self) -> [u64; 2] {
        let sum = |of: fn(&PartStatus) -> u64| self.blocks.iter().map(of).sum();
        [sum(|part| part.steps), sum(|part| part.total_steps)]
    }
}

impl PartStatus {
    /// The status with what the folder of the part says; unchanged if it has not begun.
    fn read(self, folder: &Path) -> Result<Self, Failure> {
        if !SavedRun::is_run_folder(folder) {
            return Ok(self);
        }
        let recorded = SavedRun::read(folder)?.recorded;
        let RunSummary { steps, splats, .. } = read_summary(folder)?;
        Ok(Self {
            images: recorded.record.train_images,
            steps,
            total_steps: recorded.config.plan.end(),
            splats,
            is_finished: read_outcome(folder)?.is_some(),
        })
    }
}
