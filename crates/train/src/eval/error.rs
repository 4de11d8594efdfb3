//! Why an evaluation failed.

use gausset_core::engine::EngineError;
use gausset_io::atomic::WriteError;

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An image or report could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The evaluation was asked to stop.
    #[error("evaluation: stopped before its end")]
    Stopped,
}
