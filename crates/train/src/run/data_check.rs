//! Checks that a run resumes with the same data, and reports the first difference.

use std::path::Path;

use gausset_io::dataset::{Dataset, Sample};
use gausset_io::input;
use gausset_io::run_folder::data_list_path;

use super::TrainError;
use crate::config::RecordedRun;

/// Maximum size of a data list: 200,000 images with names of 250 bytes.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// Checks that a dataset, opened with the options of the run in `folder`, is the one of that run.
///
/// # Errors
/// The dataset differs; the error names the first image that differs if the run has recorded the list of its data.
pub fn check_dataset(folder: &Path, recorded: &RecordedRun, dataset: &Dataset) -> Result<(), TrainError> {
    let expected = &recorded.record.fingerprint;
    if dataset.fingerprint.to_string() != *expected {
        let list = input::read_to_string(&data_list_path(folder), MAX_LIST_BYTES).unwrap_or_default();
        return Err(TrainError::DatasetChanged {
            path: dataset.root.clone(),
            what: dataset.difference_from(&list),
            expected: expected.clone(),
            found: dataset.fingerprint.to_string(),
        });
    }
    Ok(())
}

/// Checks that the `--init` file, if there is one and it still exists, is the one of the run.
///
/// # Errors
/// The file differs.
pub fn check_init(recorded: &RecordedRun) -> Result<(), TrainError> {
    let (Some(path), Some(expected)) = (&recorded.config.data.init, &recorded.record.init_file) else {
        return Ok(());
    };
    // A missing file is needed at step 0 only, where reading it reports the error.
    match init_file_record(path) {
        Some(found) if found != *expected => {
            Err(TrainError::InitChanged { path: path.clone(), expected: expected.clone(), found })
        }
        _ => Ok(()),
    }
}

/// What a run records about its `--init` file.
pub(super) fn init_file_record(path: &Path) -> Option<String> {
    Sample::from_file(path).ok().map(|(bytes, sample)| format!("{bytes}-{sample}"))
}
