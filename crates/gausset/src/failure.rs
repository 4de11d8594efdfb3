//! The error type of all jobs: one line, and a stable code for scripts. Maps the errors of all libraries below to
//! codes.

use std::error::Error;
use std::sync::Arc;

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
use gausset_io::text::{one_line, shell_quote};
use gausset_pano::frames::FramesError;
use gausset_pano::gps_track::TrackError;
use gausset_pano::poses::PoseFileError;
use gausset_pano::split::SplitError;
use gausset_sfm::matches::MatchesError;
use gausset_sfm::pair_list::PairListError;
use gausset_sfm::{AlignError, ToolError};
use gausset_train::cameras::CameraPathError;
use gausset_train::{ConfigError, EvalError, GainsError, OptionsError, TrainError};
use serde::Serialize;

use crate::frame_selection::broken_video;
use crate::photos::advice_for_photographs;
use crate::saved_run::SavedRun;

/// Why a job was refused or failed. Displays as one line; serialises as the error object of `--json`.
///
/// ```
/// use gausset::{FailureKind, load};
///
/// let failure = load("no-such-file.ply").expect_err("there is no such file");
/// assert_eq!((failure.code, failure.kind()), ("splats", FailureKind::Input));
/// assert!(failure.message.starts_with("no-such-file.ply: "));
/// assert!(std::error::Error::source(&failure).is_some());
/// ```
#[derive(Clone, Debug, Serialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// Stable code for scripts, listed in `docs/reference/errors.md`.
    pub code: &'static str,
    /// `FILE: PLACE: problem (expected …, found …); remedy`.
    pub message: String,
    /// The library's error that caused the failure.
    #[serde(skip)]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What a caller can do about a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The job stopped on request; the same call resumes it.
    Stopped,
    /// Invalid options, or options that exclude each other.
    Options,
    /// Files or folders are in the way or in use: other names, or permission to replace them.
    Exists,
    /// An output could not be written.
    Write,
    /// More memory is needed than allowed.
    Memory,
    /// A device or another program is missing or failed.
    Device,
    /// The input is unusable, or not enough for a result.
    Input,
}

/// Code of a job that stopped on request.
const STOPPED: &str = "stopped";

impl Failure {
    /// Creates a failure; the message is reduced to one line.
    pub fn new(code: &'static str, message: impl ToString) -> Self {
        Self { code, message: one_line(&message.to_string()), source: None }
    }

    /// A failure caused by an error of a library, which it keeps as its source.
    fn from_error(code: &'static str, error: impl Error + Send + Sync + 'static) -> Self {
        let message = one_line(&error.to_string());
        Self { code, message, source: Some(Arc::new(error)) }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self.code {
            STOPPED => FailureKind::Stopped,
            "usage" | "option" | "config-file" => FailureKind::Options,
            "other-options" | "other-dataset" | "exists" | "in-use" | "resume" => FailureKind::Exists,
            "write" | "convert-loss" => FailureKind::Write,
            "memory" => FailureKind::Memory,
            "device" | "colmap" | "port" | "viewer" => FailureKind::Device,
            _ => FailureKind::Input,
        }
    }

    /// An invalid option, or options that exclude each other.
    pub fn usage(message: impl ToString) -> Self {
        Self::new("usage", message)
    }

    /// Adds what else to do.
    pub(crate) fn with_remedy(mut self, remedy: &str) -> Self {
        self.message = format!("{}; {remedy}", self.message);
        self
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
                    Self::from_error($code, error)
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
    PairListError => "matches",
}

impl From<SplatError> for Failure {
    fn from(error: SplatError) -> Self {
        Self::from_error(if matches!(error, SplatError::Memory { .. }) { "memory" } else { "splats" }, error)
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        match error {
            DatasetError::TooManyPoints { .. } => Self::from_error("memory", error),
            DatasetError::NotADataset { ref path, .. } if SavedRun::is_run_folder(path) => {
                let (folder, place) = (path.display(), shell_quote(path));
                let line = format!(
                    "{folder}: is a run folder (expected a dataset); try: gausset train ⟨resume⟩ {place}, gausset view {place} or gausset eval {place}"
                );
                Self::new("dataset", line)
            }
            DatasetError::NotADataset { ref path, splats: None, ref deeper } if deeper.is_empty() => {
                match advice_for_photographs(path) {
                    Some(advice) => {
                        let line = error.to_string();
                        let found = line.rsplit_once("; ").map_or(line.as_str(), |(found, _)| found);
                        Self::new("dataset", format!("{found}; {advice}"))
                    }
                    None => Self::from_error("dataset", error),
                }
            }
            _ => Self::from_error("dataset", error),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::File(error) => error.into(),
            ConfigError::Differs { .. } => Self::from_error("other-options", error),
            _ => Self::from_error("option", error),
        }
    }
}

impl From<OwnershipError> for Failure {
    fn from(error: OwnershipError) -> Self {
        match error {
            OwnershipError::Write(error) => error.into(),
            OwnershipError::ThirdPartyFiles { .. } => Self::from_error("exists", error),
        }
    }
}

impl From<RunFolderError> for Failure {
    fn from(error: RunFolderError) -> Self {
        match error {
            RunFolderError::Write(error) => error.into(),
            RunFolderError::Checkpoint(error) => Self::from_error("checkpoint", error),
            RunFolderError::Lock(error) => Self::from_error("in-use", error),
            RunFolderError::HoldsARun { .. } | RunFolderError::Foreign { .. } => {
                Self::from_error("exists", error)
            }
            RunFolderError::NotARun { .. } => Self::from_error("not-a-run", error),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NonFiniteLoss { .. } => Self::from_error("loss", error),
            EngineError::OutOfMemory { .. } | EngineError::DeviceLimit { .. } => {
                Self::new("memory", format!("{error}; use smaller images or fewer splats"))
            }
            // Invalid input, a failed device, and what may be added.
            _ => Self::from_error("device", error),
        }
    }
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        match error {
            EvalError::Engine(error) => error.into(),
            EvalError::Write(error) => error.into(),
            EvalError::Stopped => Self::from_error("stopped", error),
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
                Self::from_error("splats", error)
            }
            TrainError::Stopped => Self::from_error("stopped", error),
            TrainError::NonFiniteLoss { .. } => Self::from_error("loss", error),
            TrainError::Device { .. } => Self::from_error("device", error),
            TrainError::DatasetChanged { .. } | TrainError::InitChanged { .. } => {
                Self::from_error("other-dataset", error)
            }
            TrainError::UnreadableImages { .. }
            | TrainError::UnreadableInBlock { .. }
            | TrainError::NoUsableImages { .. } => Self::from_error("dataset", error),
            TrainError::Memory { .. } | TrainError::StereoMemory { .. } | TrainError::View { .. } => {
                Self::from_error("memory", error)
            }
            TrainError::Checkpoint { .. } => Self::from_error("checkpoint", error),
            TrainError::OtherBlock { .. } => Self::from_error("other-options", error),
        }
    }
}

impl From<SplitError> for Failure {
    fn from(error: SplitError) -> Self {
        match error {
            SplitError::Input(_) | SplitError::NoFrames { .. } | SplitError::Stopped(_) => {
                Self::from_error("frames", error)
            }
            SplitError::Write { .. } | SplitError::NotOwned(_) => Self::from_error("write", error),
            SplitError::Atomic(error) => error.into(),
            SplitError::Video(error) => broken_video(error),
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
            _ => Self::from_error("model", error),
        }
    }
}

impl From<AlignError> for Failure {
    fn from(error: AlignError) -> Self {
        match error {
            AlignError::NoFrameRegistered { .. } | AlignError::TooFewFrames { .. } => {
                Self::from_error("align", error)
            }
            AlignError::Matches { .. } | AlignError::PairName { .. } => Self::from_error("matches", error),
            AlignError::WorkFolder(OwnershipError::ThirdPartyFiles { .. }) => {
                Self::from_error("exists", error)
            }
            AlignError::WorkFolder(_) => Self::from_error("write", error),
            AlignError::Image(_)
            | AlignError::ImageSize { .. }
            | AlignError::TooManyFrames { .. }
            | AlignError::TooManyPairs { .. } => Self::from_error("frames", error),
            AlignError::Stopped => Self::stopped(),
            _ => Self::from_error("colmap", error),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::from_error(if error.is_out_of_memory() { "memory" } else { "samples" }, error)
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        let code = if matches!(error, FieldError::Memory { .. }) { "memory" } else { "field" };
        Self::from_error(code, error)
    }
}

impl From<FitError> for Failure {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Option { .. } => Self::from_error("option", error),
            FitError::Stopped => Self::stopped(),
            FitError::State { .. } | FitError::OtherFit { .. } => Self::from_error("checkpoint", error),
            _ => Self::from_error("field", error),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Write(error) => error.into(),
            _ => Self::from_error("field", error),
        }
    }
}
