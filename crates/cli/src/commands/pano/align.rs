//! `gausset pano align`: estimates the poses of panoramas by structure from motion.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::aligner::{Aligner, AlignerOptions};
use gausset::panos::{PanoAlignment, PriorKnowledge, align};
use gausset::records;
use gausset_sfm::Mapper;

use super::compare;
use super::track::TrackFileArgs;
use crate::commands::overwrite;
use crate::commands::training::exit_status;
use crate::console::Console;
use crate::device::threads_parser;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::{EarlyExit, describe};

const AFTER_HELP: &str = "\
Examples:
  gausset pano align work/                         work/ is the folder of `gausset pano split`
  gausset pano align work/ --python ~/venv/bin/python
  gausset pano align work/ --aligner colmap        by COLMAP
  gausset pano align work/ --poses cameras.xml     keep given poses, triangulate points with COLMAP
  gausset pano align work/ --track walk.gpx --track-offset auto
  gausset pano align work/ --poses cameras.xml --track walk.gpx    given poses, georeferenced
  gausset pano align work/ --reference truth.csv   also report errors against reference poses
--poses, --refine, --matches and --database need COLMAP: pip install pycolmap, or colmap 3.13 or
later in PATH.";

/// Arguments of `pano align`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AlignArgs {
    /// Folder of `gausset pano split`.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) aligner: AlignerArgs,
    #[command(flatten)]
    pub(crate) tool: ToolArgs,
    /// Use given poses of panoramas or views and only triangulate points; with --track, scale the poses to metres. Any
    /// format of `gausset pano compare`.
    #[arg(long, value_name = "FILE", help_heading = "Known before")]
    poses: Option<PathBuf>,
    #[command(flatten)]
    track: TrackArgs,
    /// Folder of keypoints and raw matches that replace COLMAP's: text lists, or keypoints.npz and matches.npz
    /// (docs/reference/pano.md). COLMAP verifies them.
    #[arg(long, value_name = "DIR", help_heading = "Known before")]
    matches: Option<PathBuf>,
    /// COLMAP database with keypoints and matches that replace COLMAP's.
    #[arg(long, value_name = "FILE", conflicts_with = "matches", help_heading = "Known before")]
    database: Option<PathBuf>,
    /// Reference poses to compare the result with, in any format of `gausset pano compare`.
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Replace an existing model and poses in DIR, also those of other programs.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments for a GPS track and the refinement of known poses.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrackArgs {
    #[command(flatten)]
    file: TrackFileArgs,
    /// Refine poses by bundle adjustment: the given ones, or all with the positions of the GPS track.
    #[arg(long, help_heading = "Known before")]
    refine: bool,
}

impl TrackArgs {
    pub(crate) fn known_poses(&self) -> PriorKnowledge {
        PriorKnowledge { track: self.file.options(), refine: self.refine, ..PriorKnowledge::default() }
    }
}

/// Argument that selects the aligner.
#[derive(Clone, Debug, Args)]
pub(crate) struct AlignerArgs {
    /// Aligner: own (built in), colmap, or auto: own, and COLMAP too where that registers less than 90 %.
    #[arg(
        long, value_name = "WHO", default_value = "auto", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Aligner::ALL.map(Aligner::name)).map(|name| {
            Aligner::ALL.into_iter().find(|aligner| aligner.name() == name).unwrap_or_default()
        })
    )]
    aligner: Aligner,
}

impl AlignerArgs {
    /// The options of the tool with this aligner. `threads` = number of threads of the command.
    pub(crate) fn tool_options(&self, tool: &ToolArgs, threads: u32) -> AlignerOptions {
        AlignerOptions {
            aligner: self.aligner,
            python: tool.python.clone(),
            colmap: tool.colmap.clone(),
            timeout: tool.tool_timeout,
            mapper: tool.mapper,
            seed: tool.sfm_seed,
            threads: tool.sfm_threads.unwrap_or(threads),
        }
    }
}

/// Arguments that select COLMAP and its settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct ToolArgs {
    /// Python with pycolmap [default: $GAUSSET_PYTHON, then python3 in PATH].
    #[arg(long, value_name = "PROGRAM", help_heading = "COLMAP")]
    python: Option<PathBuf>,
    /// COLMAP executable (3.13 or later) to use instead of pycolmap.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "python", help_heading = "COLMAP")]
    colmap: Option<PathBuf>,
    /// Maximum time without output of an external program, seconds [default: 1800 for COLMAP, 120 for others].
    #[arg(long, value_name = "S", help_heading = "COLMAP", value_parser = clap::value_parser!(u64).range(1..))]
    tool_timeout: Option<u64>,
    /// Mapper: incremental, global (GLOMAP, COLMAP 4.0 or later), or auto (global if incremental registers too few
    /// images).
    #[arg(
        long, value_name = "HOW", default_value = "incremental", hide_possible_values = true, help_heading = "COLMAP",
        value_parser = PossibleValuesParser::new(Mapper::ALL.map(Mapper::name)).map(|name| {
            Mapper::ALL.into_iter().find(|mapper| mapper.name() == name).unwrap_or_default()
        })
    )]
    mapper: Mapper,
    /// Random seed of the alignment.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "COLMAP")]
    sfm_seed: u32,
    /// Number of threads of the alignment; 0 = all CPU cores [default: as --threads, or 0]. COLMAP is repeatable with 1
    /// only.
    #[arg(long, value_name = "N", help_heading = "COLMAP", value_parser = threads_parser())]
    sfm_threads: Option<u32>,
}

/// Runs the command.
pub(crate) fn run(args: &AlignArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let (tool, overwrite) = (args.aligner.tool_options(&args.tool, 0), overwrite(args.force));
    let known = PriorKnowledge {
        poses: args.poses.clone(),
        matches: args.matches.clone(),
        database: args.database.clone(),
        ..args.track.known_poses()
    };
    let aligned = run_job(&interrupt, console, |host| match &args.reference {
        Some(reference) => align::align_and_compare(&args.folder, reference, &known, &tool, overwrite, host),
        None => align::align(&args.folder, &known, &tool, overwrite, host)
            .map(|poses| PanoAlignment::new(&poses, records::model_folder(&args.folder))),
    });
    let alignment = match aligned {
        Ok(alignment) => alignment,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    console.json_or_summary(&alignment, || {
        let judged = alignment.reference.as_ref();
        let judged = judged.map(|found| {
            Lines::from("") + "comparison with the reference" + compare::format_comparison(found)
        });
        describe::pano_alignment(&alignment) + judged.unwrap_or_default()
    })?;
    let is_judged = args.reference.is_none() || alignment.reference.is_some();
    Ok(Status::done(!alignment.unregistered.is_empty() || !is_judged))
}
