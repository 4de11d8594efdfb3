//! What is printed when a command is refused or fails: one line, and for programs a stable code.

use gausset_core::engine::EngineError;
use gausset_cpu::LevelMissing;
use gausset_io::atomic::WriteError;
use gausset_io::dataset::DatasetError;
use gausset_io::owned::OwnedError;
use gausset_io::run_folder::RunFolderError;
use gausset_io::splat::SplatError;
use gausset_io::units::one_line;
use gausset_train::cameras::CameraPathError;
use gausset_train::{ConfigError, EvalError, OptionsError, TrainError};
use serde::Serialize;

/// Why a command was refused or failed. Serialises as the object of `--json` errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    /// Stable word for programs, listed in `docs/errors.md`.
    pub(crate) code: &'static str,
    /// `FILE: PLACE: what is wrong (expected …, found …); what to do`.
    pub(crate) message: String,
}

impl Failure {
    /// A failure with its code; the message becomes one line.
    pub(crate) fn new(code: &'static str, message: impl ToString) -> Self {
        Self { code, message: one_line(&message.to_string()) }
    }

    /// A mistake in the arguments.
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::new("usage", message)
    }
}

/// Gives an error type one code for all its variants.
macro_rules! code {
    ($($error:ty => $code:literal),+ $(,)?) => {
        $(
            impl From<$error> for Failure {
                fn from(error: $error) -> Self {
                    Self::new($code, error)
                }
            }
        )+
    };
}

code! {
    OptionsError => "config-file",
    WriteError => "write",
    SplatError => "splats",
    CameraPathError => "camera-path",
    LevelMissing => "device",
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        match error {
            DatasetError::TooManyPoints { .. } => Self::new("memory", error),
            _ => Self::new("dataset", error),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::File(error) => error.into(),
            ConfigError::Differs { .. } => Self::new("other-options", error),
            _ => Self::new("option", error),
        }
    }
}

impl From<OwnedError> for Failure {
    fn from(error: OwnedError) -> Self {
        match error {
            OwnedError::Write(error) => error.into(),
            OwnedError::NotOurs { .. } => Self::new("exists", error),
        }
    }
}

impl From<RunFolderError> for Failure {
    fn from(error: RunFolderError) -> Self {
        match error {
            RunFolderError::Write(error) => error.into(),
            RunFolderError::Checkpoint(error) => Self::new("checkpoint", error),
            RunFolderError::Lock(error) => Self::new("in-use", error),
            RunFolderError::HoldsARun { .. } | RunFolderError::Foreign { .. } => Self::new("exists", error),
            RunFolderError::NotARun { .. } => Self::new("not-a-run", error),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NonFiniteLoss { .. } => Self::new("loss", error),
            EngineError::OutOfMemory { .. } => {
                Self::new("memory", format!("{error}; smaller pictures and fewer splats need less"))
            }
            EngineError::BadInput(_) | EngineError::Device(_) => Self::new("device", error),
        }
    }
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        match error {
            EvalError::Engine(error) => error.into(),
            EvalError::Write(error) => error.into(),
            EvalError::Stopped => Self::new("stopped", error),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Config(error) => error.into(),
            TrainError::Folder(error) => error.into(),
            TrainError::Write(error) => error.into(),
            TrainError::Init(error) => error.into(),
            TrainError::Dataset(error) => error.into(),
            TrainError::Engine(error) => error.into(),
            TrainError::Eval(error) => error.into(),
            TrainError::EmptyInit { .. } | TrainError::NoSplats { .. } | TrainError::NoDensePoints { .. } => {
                Self::new("splats", error)
            }
            TrainError::Stopped => Self::new("stopped", error),
            TrainError::NonFiniteLoss { .. } => Self::new("loss", error),
            TrainError::OtherDataset { .. } | TrainError::OtherInit { .. } => {
                Self::new("other-dataset", error)
            }
            TrainError::TooManyUnreadable { .. } => Self::new("dataset", error),
            TrainError::Gains { .. } => Self::new("read", error),
            TrainError::Memory { .. } | TrainError::StereoMemory { .. } | TrainError::View { .. } => {
                Self::new("memory", error)
            }
            TrainError::Checkpoint { .. } => Self::new("checkpoint", error),
        }
    }
}
