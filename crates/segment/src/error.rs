//! Why a model cannot be used.

use std::path::PathBuf;

/// Why a model, its description or a run of it cannot be used: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The model file, or one that it names.
    #[error("{}: model: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, with what was expected.
        what: String,
    },
    /// The engine that was asked for.
    #[error("{0}")]
    Engine(String),
    /// Operators that the engine does not have.
    #[error(
        "{}: model: needs {names}, which the built-in engine (rten) does not have; take ⟨mask-engine = onnxruntime⟩, export it without, or take another model (docs/masks.md)",
        path.display()
    )]
    Operators {
        /// The model.
        path: PathBuf,
        /// Their names.
        names: String,
    },
    /// The description of a model.
    #[error("{}: {what}", path.display())]
    Description {
        /// The TOML file, or the model whose built-in description does not fit.
        path: PathBuf,
        /// `PLACE: what is wrong …`.
        what: String,
    },
    /// Classes that were asked for.
    #[error("{0}")]
    Classes(String),
    /// A run failed.
    #[error("{}: model: {what}", path.display())]
    Run {
        /// The model.
        path: PathBuf,
        /// What happened.
        what: String,
    },
    /// It was asked to stop.
    #[error("stopped")]
    Stopped,
}
