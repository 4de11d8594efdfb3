//! `gausset pano align`: poses of panoramas by structure from motion.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_flow::panos::{KnownChoice, PanoAlignment, align};
use gausset_flow::tool::{Aligner, ToolOptions};
use gausset_sfm::Mapper;

use super::compare;
use super::track::TrackFileArgs;
use crate::commands::overwrite;
use crate::commands::training::ending;
use crate::console::Console;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::listener::attend;
use crate::{Ending, describe};

const AFTER_HELP: &str = "\
Examples:
  gausset pano align work/                     work/ is the folder of `gausset pano split`
  gausset pano align work/ --python ~/venv/bin/python
  gausset pano align work/ --aligner own                 without COLMAP, by what is built in
  gausset pano align work/ --poses cameras.xml           poses of another program, points by COLMAP
  gausset pano align work/ --track walk.gpx --track-offset auto
  gausset pano align work/ --poses cameras.xml --track walk.gpx      the same poses in metres, on the earth
  gausset pano align work/ --reference truth.csv         and what the poses are off, in degrees and metres
COLMAP does the work (without --aligner own): pip install pycolmap, or colmap 3.12 or later in PATH.";

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
    /// Take the poses of another program as they are, of the panoramas or of their views, and make points only; with
    /// --track in its metres. Any form of `gausset pano compare`.
    #[arg(long, value_name = "FILE", help_heading = "Known before")]
    poses: Option<PathBuf>,
    #[command(flatten)]
    track: TrackArgs,
    /// Keypoints and raw matches of the views in place of COLMAP's: its text lists, or keypoints.npz and matches.npz
    /// (docs/pano.md). COLMAP verifies them.
    #[arg(long, value_name = "DIR", help_heading = "Known before")]
    matches: Option<PathBuf>,
    /// The same from a database of COLMAP.
    #[arg(long, value_name = "FILE", conflicts_with = "matches", help_heading = "Known before")]
    database: Option<PathBuf>,
    /// Poses of the same panoramas to judge the result by, in any form of `gausset pano compare`.
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Replace the model and the poses that DIR holds, whoever made them.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The track of a receiver, and what it has a say in.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrackArgs {
    #[command(flatten)]
    file: TrackFileArgs,
    /// Let the bundle adjustment refine poses: those of another program, or all with the places of the track.
    #[arg(long, help_heading = "Known before")]
    refine: bool,
}

impl TrackArgs {
    pub(crate) fn known(&self) -> KnownChoice {
        KnownChoice { track: self.file.options(), refine: self.refine, ..KnownChoice::default() }
    }
}

/// Who aligns panoramas.
#[derive(Clone, Debug, Args)]
pub(crate) struct AlignerArgs {
    /// Who aligns: colmap, or own, which is built in and needs no program (see docs/pano.md).
    #[arg(
        long, value_name = "WHO", default_value = "colmap", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Aligner::ALL.map(Aligner::name)).map(|name| {
            Aligner::ALL.into_iter().find(|aligner| aligner.name() == name).unwrap_or_default()
        })
    )]
    aligner: Aligner,
}

impl AlignerArgs {
    /// The options of a tool with this aligner.
    pub(crate) fn over(&self, tool: &ToolArgs) -> ToolOptions {
        ToolOptions { aligner: self.aligner, ..tool.options() }
    }
}

/// Which COLMAP, and how it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ToolArgs {
    /// Python that has pycolmap [default: $GAUSSET_PYTHON, then python3 in PATH].
    #[arg(long, value_name = "PROGRAM", help_heading = "COLMAP")]
    pub(crate) python: Option<PathBuf>,
    /// The colmap executable, 3.12 or later, instead of pycolmap.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "python", help_heading = "COLMAP")]
    pub(crate) colmap: Option<PathBuf>,
    /// Seconds for which an outside program may say nothing [default: 1800 for COLMAP, 120 for others].
    #[arg(long, value_name = "S", help_heading = "COLMAP", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) tool_timeout: Option<u64>,
    /// Who makes the model: incremental, global (GLOMAP, COLMAP 4.0 or later), or auto (global where incremental
    /// registers too few).
    #[arg(
        long, value_name = "HOW", default_value = "incremental", hide_possible_values = true, help_heading = "COLMAP",
        value_parser = PossibleValuesParser::new(Mapper::ALL.map(Mapper::name)).map(|name| {
            Mapper::ALL.into_iter().find(|mapper| mapper.name() == name).unwrap_or_default()
        })
    )]
    pub(crate) mapper: Mapper,
    /// Seed of the alignment.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "COLMAP")]
    pub(crate) sfm_seed: u32,
    /// Threads of the alignment; 0 = all processors. With one, it is repeatable.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "COLMAP")]
    pub(crate) sfm_threads: u32,
}

impl ToolArgs {
    pub(crate) fn options(&self) -> ToolOptions {
        ToolOptions {
            aligner: Aligner::Colmap,
            python: self.python.clone(),
            colmap: self.colmap.clone(),
            timeout: self.tool_timeout,
            mapper: self.mapper,
            seed: self.sfm_seed,
            threads: self.sfm_threads,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &AlignArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let (tool, overwrite) = (args.aligner.over(&args.tool), overwrite(args.force));
    let known = KnownChoice {
        poses: args.poses.clone(),
        matches: args.matches.clone(),
        database: args.database.clone(),
        ..args.track.known()
    };
    let aligned = attend(&interrupt, console, |host| match &args.reference {
        Some(reference) => align::align_and_compare(&args.folder, reference, &known, &tool, overwrite, host),
        None => align::align(&args.folder, &known, &tool, overwrite, host)
            .map(|poses| PanoAlignment::of(&poses, &args.folder)),
    });
    let alignment = match aligned {
        Ok(alignment) => alignment,
        Err(failure) => return ending(failure, &interrupt),
    };
    console.object_or(&alignment, || {
        let judged = alignment.reference.as_ref();
        let judged = judged.map(|found| Lines::from("") + "against the reference" + compare::describe(found));
        describe::panos(&alignment) + judged.unwrap_or_default()
    })?;
    let is_judged = args.reference.is_none() || alignment.reference.is_some();
    Ok(Status::done(!alignment.unregistered.is_empty() || !is_judged))
}
