//! Everything that can be wrong with a dataset, as values with a place and a line.

use std::path::PathBuf;

/// Why a dataset cannot be used at all. Each displays as one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatasetError {
    /// Neither a COLMAP model nor a `transforms.json`.
    #[error("{}: dataset: nothing to train on here (expected a COLMAP model in sparse/0 or a transforms.json, found neither); name the folder that holds one", path.display())]
    NotADataset {
        /// The path that was given.
        path: PathBuf,
    },
}

/// A picture that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    /// Name as in the dataset.
    pub name: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a picture was left out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SkipReason {
    /// The mask ignores every pixel.
    #[error("mask: ignores every pixel (expected some above 0)")]
    EmptyMask,
}

/// Something a person should know though the dataset is usable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// Listed but absent files.
    #[error("missing")]
    MissingFiles {
        /// How many.
        count: usize,
    },
}
