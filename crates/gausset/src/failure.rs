//! The error type of all jobs: one line, and a stable code for scripts. Maps the errors of all libraries below to
//! codes.

use gausset_core::engine::EngineError;
use gausset_cpu::UnsupportedLevel;
use gausset_field::FieldError;
use gausset_field::fit::FitError;
use gausset_field::input::InputError;
use gausset_field::model::ModelError;
use gausset_io::atomic::WriteError;
use gausset_io::dataset::DatasetError;
use gausset_io::ownership::OwnershipError;
use gausset_io::run_folder::RunFolderError;
use gausset_io::splat::SplatError;
use gausset_io::text::one_line;
use gausset_pano::frames::FramesError;
use gausset_pano::gps_track::TrackError;
use gausset_pano::poses::PoseFileError;
use gausset_pano::split::SplitError;
use gausset_sfm::matches::MatchesError;
use gausset_sfm::{AlignError, ToolError};
use gausset_train::cameras::CameraPathError;
use gausset_train::{ConfigError, EvalError, GainsError, OptionsError, TrainError};
use serde::Serialize;

/// Why a job was refused or failed. Displays as one line; serialises as the error object of `--json`.
///
/// ```
/// let failure = gausset::Failure::usage("steps: expected more than 0,\n found 0");
/// assert_eq!((failure.code, failure.to_string().as_str()), ("usage", "steps: expected more than 0, found 0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// Stable code for scripts, listed in `docs/reference/errors.md`.
    pub code: &'static str,
    /// `FILE: PLACE: problem (expected …, found …); remedy`.
    pub message: String,
}

/// Code of a job that stopped on request.
const STOPPED: &str = "stopped";

impl Failure {
    /// Creates a failure; the message is reduced to one line.
    pub fn new(code: &'static str, message: impl ToString) -> Self {
        Self { code, message: one_line(&message.to_string()) }
    }

    /// An invalid option, or options that exclude each other.
    pub fn usage(message: impl ToString) -> Self {
        Self::new("usage", message)
    }

    /// The job stopped on request.
    #[must_use]
    pub fn stopped() -> Self {
        Self::new(STOPPED, "stopped")
    }

    /// Whether the job stopped on request.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.code == STOPPED
    }
}

/// Maps each error type to one code for all its variants.
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
    CameraPathError => "camera-path",
    UnsupportedLevel => "device",
    ToolError => "colmap",
    GainsError => "read",
    FramesError => "frames",
    PoseFileError => "poses",
    TrackError => "track",
    MatchesError => "matches",
}

impl From<SplatError> for Failure {
    fn from(error: SplatError) -> Self {
        Self::new(if matches!(error, SplatError::Memory { .. }) { "memory" } else { "splats" }, error)
    }
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

impl From<OwnershipError> for Failure {
    fn from(error: OwnershipError) -> Self {
        match error {
            OwnershipError::Write(error) => error.into(),
            OwnershipError::ThirdPartyFiles { .. } => Self::new("exists", error),
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
                Self::new("memory", format!("{error}; use smaller images or fewer splats"))
            }
            // Invalid input, a failed device, and what may be added.
            _ => Self::new("device", error),
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
            TrainError::Device { .. } => Self::new("device", error),
            TrainError::DatasetChanged { .. } | TrainError::InitChanged { .. } => {
                Self::new("other-dataset", error)
            }
            TrainError::UnreadableImages { .. } => Self::new("dataset", error),
            TrainError::Memory { .. } | TrainError::StereoMemory { .. } | TrainError::View { .. } => {
                Self::new("memory", error)
            }
            TrainError::Checkpoint { .. } => Self::new("checkpoint", error),
        }
    }
}

impl From<SplitError> for Failure {
    fn from(error: SplitError) -> Self {
        match error {
            SplitError::Input(_) | SplitError::NoFrames { .. } | SplitError::Stopped(_) => {
                Self::new("frames", error)
            }
            SplitError::Write { .. } | SplitError::NotOwned(_) => Self::new("write", error),
            SplitError::Atomic(error) => error.into(),
        }
    }
}

#[cfg(feature = "masks")]
impl From<gausset_segment::ModelError> for Failure {
    fn from(error: gausset_segment::ModelError) -> Self {
        use gausset_segment::ModelError;
        match error {
            ModelError::Stopped => Self::stopped(),
            ModelError::Classes(_) => Self::usage(error),
            _ => Self::new("model", error),
        }
    }
}

impl From<AlignError> for Failure {
    fn from(error: AlignError) -> Self {
        match error {
            AlignError::NoFrameRegistered { .. } => Self::new("align", error),
            AlignError::Matches { .. } => Self::new("matches", error),
            AlignError::WorkFolder(OwnershipError::ThirdPartyFiles { .. }) => Self::new("exists", error),
            AlignError::WorkFolder(_) => Self::new("write", error),
            AlignError::Image(_) | AlignError::ImageSize { .. } | AlignError::TooManyFrames { .. } => {
                Self::new("frames", error)
            }
            AlignError::Stopped => Self::stopped(),
            _ => Self::new("colmap", error),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::new(if error.is_out_of_memory() { "memory" } else { "samples" }, error)
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        let code = if matches!(error, FieldError::Memory { .. }) { "memory" } else { "field" };
        Self::new(code, error)
    }
}

impl From<FitError> for Failure {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Option { .. } => Self::new("option", error),
            FitError::State { .. } | FitError::OtherFit { .. } => Self::new("checkpoint", error),
            _ => Self::new("field", error),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Write(error) => error.into(),
            _ => Self::new("field", error),
        }
    }
}
