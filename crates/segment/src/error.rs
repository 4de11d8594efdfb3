//! Errors of models.

use std::path::PathBuf;

/// Why a model, its description or a run of it cannot be used: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The model file, or an external file of it, cannot be used.
    #[error("{}: model: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, with what was expected.
        problem: String,
    },
    /// The selected engine cannot be used.
    #[error("{0}")]
    Engine(String),
    /// The engine does not support some operators.
    #[error(
        "{}: model: needs {names}, which the built-in engine (rten) does not have; take ⟨mask-engine = onnxruntime⟩, export it without, or take another model (docs/reference/masks.md)",
        path.display()
    )]
    Operators {
        /// Path of the model.
        path: PathBuf,
        /// Names of the operators.
        names: String,
    },
    /// The description of a model is invalid.
    #[error("{}: {problem}", path.display())]
    Description {
        /// The TOML file, or the model whose built-in description does not fit.
        path: PathBuf,
        /// `PLACE: problem …`.
        problem: String,
    },
    /// The selected classes do not exist.
    #[error("{0}")]
    Classes(String),
    /// A run failed.
    #[error("{}: model: {problem}", path.display())]
    Run {
        /// Path of the model.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The caller set the stop flag.
    #[error("stopped")]
    Stopped,
}
