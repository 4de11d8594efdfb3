//! What aligns, and how it runs.

use std::path::PathBuf;
use std::time::Duration;

use gausset_sfm::{Mapper, Tool};

use crate::{Failure, Host, device};

/// Seconds for which COLMAP may say nothing: matching many pictures takes long without a word.
const COLMAP_SILENCE: u64 = 1800;
/// Seconds for which ffmpeg or a mask command may say nothing.
pub const SILENCE: u64 = 120;

/// Who aligns panoramas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aligner {
    /// COLMAP.
    #[default]
    Colmap,
    /// What is built in: no program is needed.
    Own,
}

impl Aligner {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Colmap, Self::Own];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Colmap => "colmap",
            Self::Own => "own",
        }
    }
}

/// What aligns: which COLMAP, and how it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOptions {
    /// Who aligns; photographs are aligned by COLMAP.
    pub aligner: Aligner,
    /// Python that has pycolmap; `None` = `$GAUSSET_PYTHON`, then python3 in PATH.
    pub python: Option<PathBuf>,
    /// The colmap executable, 3.12 or later, instead of pycolmap.
    pub colmap: Option<PathBuf>,
    /// Seconds for which an outside program may say nothing; `None` = 1800 for COLMAP, 120 for others.
    pub timeout: Option<u64>,
    /// Seed of the alignment.
    pub seed: u32,
    /// Who makes a model of the matches.
    pub mapper: Mapper,
    /// Threads of the alignment; 0 = all processors. With one, it is repeatable.
    pub threads: u32,
}

impl ToolOptions {
    /// Finds the program.
    ///
    /// # Errors
    /// There is none, or none that can be used; the built-in aligner with options of COLMAP; the job was asked to stop.
    pub fn find(&self, host: &Host<'_>) -> Result<Tool, Failure> {
        if self.aligner == Aligner::Own {
            let others = [
                ("python", self.python.is_some()),
                ("colmap", self.colmap.is_some()),
                ("mapper", self.other_mapper().is_some()),
            ];
            return match others.into_iter().find(|(_, is_given)| *is_given) {
                Some((key, _)) => Err(of_colmap_alone(key)),
                None => Ok(Tool::Own),
            };
        }
        host.unless_stopped(Tool::find(self.python.as_deref(), self.colmap.as_deref(), host.stop()))
    }

    /// The mapper, if it is another than that of models whose record names none.
    pub(crate) fn other_mapper(&self) -> Option<&'static str> {
        (self.mapper != Mapper::default()).then(|| self.mapper.name())
    }

    /// The aligner, if it is another than that of models whose record names none.
    pub(crate) fn other_aligner(&self) -> Option<&'static str> {
        (self.aligner != Aligner::default()).then(|| self.aligner.name())
    }

    /// Threads of the alignment.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        device::threads(self.threads)
    }

    /// How long COLMAP may say nothing.
    #[must_use]
    pub fn silence(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(COLMAP_SILENCE))
    }

    /// How long ffmpeg may say nothing.
    #[must_use]
    pub fn silence_of_others(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(SILENCE))
    }
}

/// An option that the built-in aligner does not take.
pub(crate) fn of_colmap_alone(key: &str) -> Failure {
    Failure::usage(format!("⟨{key}⟩: is an option of COLMAP (expected none with ⟨aligner = own⟩)"))
}
