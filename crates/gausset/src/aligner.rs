//! Selection of the aligner and its options.

use std::path::PathBuf;
use std::time::Duration;

use gausset_sfm::align::{AlignError, AlignJob, Alignment, remove_work_folder};
use gausset_sfm::model::CheckedModel;
use gausset_sfm::{AlignmentTool, Mapper};

use crate::{Event, Failure, Host, Stage, device};

/// Default timeout for COLMAP in seconds without output: matching many images is silent for long.
const COLMAP_TIMEOUT: u64 = 1800;
/// Default timeout for ffmpeg and mask commands in seconds without output.
pub const TOOL_TIMEOUT: u64 = 120;

/// Fraction of registered frames below which COLMAP is tried as well.
const ENOUGH_REGISTERED: f64 = 0.9;

/// The program that aligns photographs and panoramas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aligner {
    /// The built-in aligner. Where it registers less than 90 %, COLMAP as well, if it is found; the better model is
    /// kept. Options and inputs that only COLMAP can use: COLMAP.
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
    /// The colmap executable, 3.13 or later, instead of pycolmap.
    pub colmap: Option<PathBuf>,
    /// Timeout for external programs in seconds without output; `None` = 1800 for COLMAP, 120 for others.
    pub timeout: Option<u64>,
    /// Seed of the alignment.
    pub seed: u32,
    /// COLMAP mapper that reconstructs from the matches.
    pub mapper: Mapper,
    /// Threads of the alignment; 0 = all CPU threads. COLMAP is repeatable with one only.
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

    /// Runs the aligner that [`Self::find`] chose, and COLMAP as well where `auto` asks for it. Returns the alignment and
    /// the tool that made it. `what` = noun for a frame.
    ///
    /// # Errors
    /// As [`gausset_sfm::align()`]; the job was asked to stop.
    pub(crate) fn run(
        &self,
        job: &AlignJob,
        tool: AlignmentTool,
        what: &'static str,
        host: &mut Host<'_>,
    ) -> Result<(Alignment, AlignmentTool), Failure> {
        if self.aligner != Aligner::Auto || tool != AlignmentTool::BuiltIn {
            return Ok((run_tool(job, &tool, what, host)?, tool));
        }
        // The folder keeps the features until it is known whether COLMAP is tried, which may be interrupted.
        let kept = AlignJob { keep_work_folder: true, ..job.clone() };
        let own = match run_tool(&kept, &tool, what, host) {
            Ok(own) => Ok(own),
            Err(error @ (AlignError::NoFrameRegistered { .. } | AlignError::TooManyFrames { .. })) => {
                Err(error)
            }
            Err(error) => return Err(error.into()),
        };
        let registered = own.as_ref().map_or(0, |own| own.model.image_of_frame.len());
        let count = job.frames.len();
        let better = if registered as f64 >= ENOUGH_REGISTERED * count as f64 {
            None
        } else {
            self.try_colmap(job, own.as_ref().ok().map(|own| &own.model), what, host)?
        };
        remove_work_folder(&job.work_folder);
        match better {
            Some(better) => Ok(better),
            None => Ok((own?, tool)),
        }
    }

    /// The alignment by COLMAP, where COLMAP is found and its model is better than the built-in aligner's.
    fn try_colmap(
        &self,
        job: &AlignJob,
        own: Option<&CheckedModel>,
        what: &'static str,
        host: &mut Host<'_>,
    ) -> Result<Option<(Alignment, AlignmentTool)>, Failure> {
        let (registered, count) = (own.map_or(0, |own| own.image_of_frame.len()), job.frames.len());
        let found = format!("alignment: {registered} of {count} {what}s registered by the built-in aligner");
        let tool = match self.find_colmap(host) {
            Ok(tool) => tool,
            Err(_) if host.is_stopping() => return Err(Failure::stopped()),
            Err(_) => {
                host.warn("colmap", format!("{found}; COLMAP may register more (pip install pycolmap)"));
                return Ok(None);
            }
        };
        let colmap = match run_tool(job, &tool, what, host) {
            Ok(colmap) => colmap,
            Err(_) if host.is_stopping() => return Err(Failure::stopped()),
            Err(error) => {
                host.warn("colmap", format!("{found}, none by COLMAP: {error}"));
                return Ok(None);
            }
        };
        let is_better = own.is_none_or(|own| is_better(&colmap.model, own));
        let by_colmap = colmap.model.image_of_frame.len();
        let kept = if is_better { "COLMAP" } else { "the built-in aligner" };
        host.warn("colmap", format!("{found}, {by_colmap} by COLMAP; the model of {kept} is kept"));
        Ok(is_better.then_some((colmap, tool)))
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
            (Aligner::Auto, None) if !needs_colmap => Ok(AlignmentTool::BuiltIn),
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

    /// Name of the aligner that the options ask for; `None` for `auto`.
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

/// Runs an aligner and forwards its progress.
pub(crate) fn run_tool(
    job: &AlignJob,
    tool: &AlignmentTool,
    what: &'static str,
    host: &mut Host<'_>,
) -> Result<Alignment, AlignError> {
    host.stage(Stage::Align { count: job.frames.len(), what, tool: tool.describe() });
    let stop = host.stop();
    let mut report = |progress: &gausset_sfm::AlignProgress| host.report(Event::Aligning(progress.clone()));
    gausset_sfm::align(job, tool, stop, &mut report)
}

/// Whether a model has more frames than another; of as many, longer tracks, then a smaller error.
fn is_better(model: &CheckedModel, other: &CheckedModel) -> bool {
    let quality = |model: &CheckedModel| {
        (model.image_of_frame.len(), model.mean_track_length(), -model.mean_reprojection_error())
    };
    quality(model) > quality(other)
}

/// Error for an option that the built-in aligner does not take.
pub(crate) fn colmap_only(key: &str) -> Failure {
    Failure::usage(format!("⟨{key}⟩: applies to COLMAP only (expected none with ⟨aligner = own⟩)"))
}

#[cfg(test)]
mod tests {
    use gausset_io::dataset::colmap::{ColmapModel, ColmapPoint};

    use super::*;

    #[test]
    fn colmap_is_looked_for_only_where_it_is_asked_for() {
        let colmap = AlignmentTool::Pycolmap { python: "python3".into(), version: "4.2.1".into() };
        let absent = || Err(Failure::new("colmap", "COLMAP: not found"));
        let there = || Ok(colmap.clone());
        let never = || unreachable!("nothing asks for COLMAP");
        let with = |aligner| AlignerOptions { aligner, ..AlignerOptions::default() };
        let auto = AlignerOptions::default();
        assert_eq!(auto.decide(false, never).ok(), Some(AlignmentTool::BuiltIn));
        assert_eq!(with(Aligner::Own).decide(false, never).ok(), Some(AlignmentTool::BuiltIn));
        // What only COLMAP can use asks for it, and so do its options.
        assert_eq!(auto.decide(true, there).ok(), Some(colmap.clone()));
        assert!(auto.decide(true, absent).is_err_and(|failure| failure.code == "colmap"));
        let named = AlignerOptions { python: Some("python".into()), ..auto.clone() };
        assert_eq!(named.decide(false, there).ok(), Some(colmap.clone()));
        assert!(with(Aligner::Colmap).decide(false, absent).is_err());
        // A stop is not the lack of COLMAP.
        let stopped = || Err(Failure::stopped());
        assert!(auto.decide(true, stopped).is_err_and(|failure| failure.is_stopped()));
    }

    #[test]
    fn a_model_is_better_by_its_frames_then_tracks_then_error() {
        let model = |frames: usize, track_length, error| {
            let image_of_frame = (0..frames).map(|frame| (frame, frame)).collect();
            let points = vec![ColmapPoint { track_length, error, ..ColmapPoint::default() }];
            CheckedModel { colmap: ColmapModel { points, ..ColmapModel::default() }, image_of_frame }
        };
        assert!(is_better(&model(9, 2, 2.0), &model(8, 5, 0.5)));
        assert!(is_better(&model(8, 5, 0.9), &model(8, 4, 0.1)));
        assert!(is_better(&model(8, 5, 0.4), &model(8, 5, 0.5)));
        assert!(!is_better(&model(8, 5, 0.5), &model(8, 5, 0.5)));
    }
}
