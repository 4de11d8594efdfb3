//! Whether a run goes on with the data that it began with, and what differs if not.

use std::path::Path;

use gausset_io::dataset::{Dataset, Sample};
use gausset_io::input;
use gausset_io::run_folder::data_list_path;

use super::TrainError;
use crate::config::RecordedRun;

/// Largest list of data that is read: 200,000 pictures with names of 250 bytes.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// Checks that a dataset, opened with the options of the run in `folder`, is the one that the run began with.
///
/// # Errors
/// It is another; the first picture that differs is named if the run has kept the list of its data.
pub fn check_dataset(folder: &Path, recorded: &RecordedRun, dataset: &Dataset) -> Result<(), TrainError> {
    let expected = &recorded.record.fingerprint;
    if dataset.fingerprint.to_string() != *expected {
        let list = input::read_to_string(&data_list_path(folder), MAX_LIST_BYTES).unwrap_or_default();
        return Err(TrainError::OtherDataset {
            path: dataset.root.clone(),
            what: dataset.difference_from(&list),
            expected: expected.clone(),
            found: dataset.fingerprint.to_string(),
        });
    }
    Ok(())
}

/// Checks that the file of the first splats, if there is one and it is still there, is the one that the run began with.
///
/// # Errors
/// It is another.
pub fn check_init(recorded: &RecordedRun) -> Result<(), TrainError> {
    let (Some(path), Some(expected)) = (&recorded.config.data.init, &recorded.record.init_file) else {
        return Ok(());
    };
    // One that is gone is needed at step 0 only, and whoever reads it there says so.
    match init_file(path) {
        Some(found) if found != *expected => {
            Err(TrainError::OtherInit { path: path.clone(), expected: expected.clone(), found })
        }
        _ => Ok(()),
    }
}

/// What a run records of the file of its first splats.
pub(super) fn init_file(path: &Path) -> Option<String> {
    Sample::of_file(path).ok().map(|(bytes, sample)| format!("{bytes}-{sample}"))
}
