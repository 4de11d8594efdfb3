//! Selection of the aligner and its options.

use std::path::PathBuf;
use std::time::Duration;

use gausset_sfm::{AlignmentTool, Mapper};

use crate::{Failure, Host, device};

/// Default timeout for COLMAP in seconds without output: matching many images is silent for long.
const COLMAP_TIMEOUT: u64 = 1800;
/// Default timeout for ffmpeg and mask commands in seconds without output.
pub const TOOL_TIMEOUT: u64 = 120;

/// The program that aligns photographs and panoramas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aligner {
    /// COLMAP where it is found, else the built-in aligner.
    #[default]
    Auto,
    /// COLMAP, an external program.
    Colmap,
    /// The built-in aligner, which needs no other program.
    Own,
}

impl Aligner {
    /// All aligners; the first is the default.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Colmap, Self::Own];

    /// Name as in options: `auto`, `colmap` or `own`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Colmap => "colmap",
            Self::Own => "own",
        }
    }
}

/// The aligner and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlignerOptions {
    /// The aligner.
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
    /// Finds the aligner. `needs_colmap`: options or inputs that only COLMAP can use.
    ///
    /// # Errors
    /// COLMAP is not installed or too old; the built-in aligner with options of COLMAP; the job was asked to stop.
    pub(crate) fn find(&self, needs_colmap: bool, host: &Host<'_>) -> Result<AlignmentTool, Failure> {
        self.decide(needs_colmap, || self.find_colmap(host))
    }

    /// Reports that the built-in aligner is used because COLMAP was not found.
    pub(crate) fn warn_without_colmap(&self, found: &AlignmentTool, host: &mut Host<'_>) {
        if *found == AlignmentTool::BuiltIn && self.aligner == Aligner::Auto {
            host.warn("colmap", "COLMAP: not found; the built-in aligner is used, as with ⟨aligner = own⟩ (for COLMAP: pip install pycolmap)");
        }
    }

    /// As [`Self::find`], with this search for COLMAP.
    fn decide(
        &self,
        needs_colmap: bool,
        find_colmap: impl FnOnce() -> Result<AlignmentTool, Failure>,
    ) -> Result<AlignmentTool, Failure> {
        let options = [
            ("python", self.python.is_some()),
            ("colmap", self.colmap.is_some()),
            ("mapper", self.non_default_mapper().is_some()),
        ];
        let of_colmap = options.into_iter().find(|(_, is_given)| *is_given);
        match (self.aligner, of_colmap) {
            (Aligner::Own, Some((key, _))) => Err(colmap_only(key)),
            (Aligner::Own, None) => Ok(AlignmentTool::BuiltIn),
            (Aligner::Auto, None) if !needs_colmap => match find_colmap() {
                Err(failure) if failure.code == "colmap" => Ok(AlignmentTool::BuiltIn),
                found => found,
            },
            (Aligner::Auto | Aligner::Colmap, _) => find_colmap(),
        }
    }

    /// Finds COLMAP.
    ///
    /// # Errors
    /// COLMAP is not installed or too old; the job was asked to stop.
    pub fn find_colmap(&self, host: &Host<'_>) -> Result<AlignmentTool, Failure> {
        host.unless_stopped(AlignmentTool::find(self.python.as_deref(), self.colmap.as_deref(), host.stop()))
    }

    /// Name of the mapper for the record; `None` for the default, which older records omit.
    pub(crate) fn non_default_mapper(&self) -> Option<&'static str> {
        (self.mapper != Mapper::default()).then(|| self.mapper.name())
    }

    /// Name of the aligner for the record; `None` for COLMAP, which older records omit, also where it was not found.
    pub(crate) fn non_default_aligner(&self) -> Option<&'static str> {
        (self.aligner == Aligner::Own).then(|| self.aligner.name())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colmap_the_built_in_aligner_is_taken_unless_colmap_is_asked_for() {
        let absent = || Err(Failure::new("colmap", "COLMAP: not found"));
        let colmap = AlignmentTool::Pycolmap { python: "python3".into(), version: "4.2.1".into() };
        let there = || Ok(colmap.clone());
        let with = |aligner| AlignerOptions { aligner, ..AlignerOptions::default() };
        let auto = AlignerOptions::default();
        assert_eq!(auto.decide(false, absent).ok(), Some(AlignmentTool::BuiltIn));
        assert_eq!(auto.decide(false, there).ok(), Some(colmap.clone()));
        // What only COLMAP can use asks for it, and so do its options.
        assert!(auto.decide(true, absent).is_err_and(|failure| failure.code == "colmap"));
        let named = AlignerOptions { python: Some("python".into()), ..auto.clone() };
        assert!(named.decide(false, absent).is_err());
        assert!(with(Aligner::Colmap).decide(false, absent).is_err());
        assert_eq!(with(Aligner::Own).decide(false, there).ok(), Some(AlignmentTool::BuiltIn));
        // A stop is not the lack of COLMAP.
        assert!(auto.decide(false, || Err(Failure::stopped())).is_err_and(|failure| failure.is_stopped()));
        // Records of results by COLMAP stay valid.
        assert_eq!((auto.non_default_aligner(), with(Aligner::Colmap).non_default_aligner()), (None, None));
    }
}
