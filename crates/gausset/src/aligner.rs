//! Selection of the aligner and its options.

use std::path::PathBuf;
use std::time::Duration;

use gausset_sfm::{AlignmentTool, Mapper};

use crate::{Failure, Host, device};

/// Default timeout for COLMAP in seconds without output: matching many images is silent for long.
const COLMAP_TIMEOUT: u64 = 1800;
/// Default timeout for ffmpeg and mask commands in seconds without output.
pub const TOOL_TIMEOUT: u64 = 120;

/// The program that aligns panoramas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aligner {
    /// COLMAP, an external program.
    #[default]
    Colmap,
    /// The built-in aligner, which needs no other program.
    Own,
}

impl Aligner {
    /// All aligners; the first is the default.
    pub const ALL: [Self; 2] = [Self::Colmap, Self::Own];

    /// Name as in options: `colmap` or `own`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Colmap => "colmap",
            Self::Own => "own",
        }
    }
}

/// The aligner and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlignerOptions {
    /// Aligner of panoramas; photographs are always aligned by COLMAP.
    pub aligner: Aligner,
    /// Python that has pycolmap; `None` = `$GAUSSET_PYTHON`, then python3 in PATH.
    pub python: Option<PathBuf>,
    /// The colmap executable, 3.12 or later, instead of pycolmap.
    pub colmap: Option<PathBuf>,
    /// Timeout for external programs in seconds without output; `None` = 1800 for COLMAP, 120 for others.
    pub timeout: Option<u64>,
    /// Seed of the alignment.
    pub seed: u32,
    /// COLMAP mapper that reconstructs from the matches.
    pub mapper: Mapper,
    /// Threads of the alignment; 0 = all CPU threads. Only one thread is repeatable.
    pub threads: u32,
}

impl AlignerOptions {
    /// Finds the aligner.
    ///
    /// # Errors
    /// COLMAP is not installed or too old; the built-in aligner with options of COLMAP; the job was asked to stop.
    pub fn find(&self, host: &Host<'_>) -> Result<AlignmentTool, Failure> {
        if self.aligner == Aligner::Own {
            let others = [
                ("python", self.python.is_some()),
                ("colmap", self.colmap.is_some()),
                ("mapper", self.non_default_mapper().is_some()),
            ];
            return match others.into_iter().find(|(_, is_given)| *is_given) {
                Some((key, _)) => Err(colmap_only(key)),
                None => Ok(AlignmentTool::BuiltIn),
            };
        }
        host.unless_stopped(AlignmentTool::find(self.python.as_deref(), self.colmap.as_deref(), host.stop()))
    }

    /// Name of the mapper for the record; `None` for the default, which older records omit.
    pub(crate) fn non_default_mapper(&self) -> Option<&'static str> {
        (self.mapper != Mapper::default()).then(|| self.mapper.name())
    }

    /// Name of the aligner for the record; `None` for the default, which older records omit.
    pub(crate) fn non_default_aligner(&self) -> Option<&'static str> {
        (self.aligner != Aligner::default()).then(|| self.aligner.name())
    }

    /// Resolved number of threads.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        device::thread_count(self.threads)
    }

    /// Timeout of COLMAP.
    #[must_use]
    pub fn colmap_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(COLMAP_TIMEOUT))
    }

    /// Timeout of ffmpeg and other programs.
    #[must_use]
    pub fn tool_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(TOOL_TIMEOUT))
    }
}

/// Error for an option that the built-in aligner does not take.
pub(crate) fn colmap_only(key: &str) -> Failure {
    Failure::usage(format!("⟨{key}⟩: applies to COLMAP only (expected none with ⟨aligner = own⟩)"))
}
