//! `gausset pano frames`: selects frames of a video and shows the reasons.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::SelectionSummary;
use gausset::aligner::TOOL_TIMEOUT;
use gausset::panos::frames::frames;
use gausset::panos::{FootageKind, FramesOptions, ProjectionOptions, SelectionOptions};
use gausset_pano::selection::{FRAMES_FILE, Selection, SelectionHeader};
use serde::Serialize;

use super::track::TrackFileArgs;
use crate::EarlyExit;
use crate::commands::overwrite;
use crate::commands::training::exit_status;
use crate::console::Console;
use crate::describe;
use crate::events::run_job;
use crate::exit::Status;
use crate::footage::FootageArgs;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::table::{self, ColumnAlign};
use crate::value_parsers::parse_positive;

const AFTER_HELP: &str = "\
Examples:
  gausset pano frames tour.mp4                       writes frames.jsonl and frames.png
  gausset pano frames tour.mp4 --step 6 --dry-run    prints a table, writes nothing
  gausset pano frames phone.mp4 --select time --fps 2.5
`pano split`, `pano run` and `run` select the same frames with the same options. The contact sheet
shows the path of the camera with the state of each frame at the top (green kept, red blurred, yellow
duplicate, blue stationary, cyan rotating in place), and the kept frames below.";

/// Maximum number of kept frames in the printed table.
const MAX_TABLE_ROWS: usize = 40;

/// Arguments of `pano frames`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FramesArgs {
    /// Video of panoramas or cube maps, or an ordinary video (read with ffmpeg).
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Output file with the measurements, decision and reason of every frame.
    #[arg(short, long, value_name = "FILE", default_value = FRAMES_FILE)]
    output: PathBuf,
    /// Output contact sheet of the kept frames [default: as --output, with .png].
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// Type of the video: panorama (also cube maps) or ordinary [default: by aspect ratio].
    #[arg(
        long, value_name = "KIND", hide_possible_values = true, help_heading = "Frames",
        value_parser = PossibleValuesParser::new(["panorama", "ordinary"])
            .map(|name| if name == "panorama" { FootageKind::Panorama } else { FootageKind::Ordinary })
    )]
    kind: Option<FootageKind>,
    #[command(flatten)]
    shape: FootageArgs<ProjectionOptions>,
    #[command(flatten)]
    select: FootageArgs<SelectionOptions>,
    #[command(flatten)]
    track: TrackFileArgs,
    /// Frames per second, selected by time.
    #[arg(long, value_name = "FPS", help_heading = "Frames", value_parser = parse_positive)]
    fps: Option<f64>,
    /// Start time in seconds.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Frames")]
    start: f64,
    /// End time in seconds.
    #[arg(long, value_name = "S", help_heading = "Frames", value_parser = parse_positive)]
    end: Option<f64>,
    /// Stereo layout of the frames: tb (top-bottom; the upper eye is used).
    #[arg(long, value_name = "HOW", help_heading = "Frames", value_parser = PossibleValuesParser::new(["tb"]))]
    stereo: Option<String>,
    /// Lens file for dual-fisheye frames (docs/reference/pano.md).
    #[arg(long, value_name = "FILE", conflicts_with = "stereo", help_heading = "Frames")]
    lens: Option<PathBuf>,
    /// Maximum number of frames, spaced by parallax.
    #[arg(long, value_name = "N", help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..))]
    max_frames: Option<u32>,
    /// Replace existing files.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Maximum time without output of ffmpeg, seconds.
    #[arg(long, value_name = "S", default_value_t = TOOL_TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    tool_timeout: u64,
    /// Print the selection; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// The result: a stable contract.
#[derive(Serialize)]
struct FramesReport<'a> {
    #[serde(flatten)]
    header: &'a SelectionHeader,
    /// Number of kept frames by reason.
    kept_for: BTreeMap<&'static str, usize>,
    /// Number of dropped frames by reason.
    dropped_for: BTreeMap<&'static str, usize>,
    /// Paths of the written files.
    files: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &FramesArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let plain = FramesOptions::new(&args.input, &args.output);
    let options = FramesOptions {
        sheet: args.sheet.clone().unwrap_or_else(|| plain.sheet.clone()),
        kind: args.kind,
        shape: args.shape.0.clone(),
        select: args.select.0.clone(),
        fps: args.fps,
        start: args.start,
        end: args.end,
        is_stereo: args.stereo.is_some(),
        lens: args.lens.clone(),
        max_frames: args.max_frames,
        track: args.track.options(),
        overwrite: overwrite(args.force),
        tool_timeout: args.tool_timeout,
        ..plain
    };
    let selection = match run_job(&interrupt, console, |host| frames(&options, args.dry_run, host)) {
        Ok(selection) => selection,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    let files: Vec<String> = match args.dry_run {
        true => Vec::new(),
        false => [&options.output, &options.sheet].map(|file| file.display().to_string()).to_vec(),
    };
    let named = |kept| selection.reasons(kept).into_iter().map(|(reason, n)| (reason.name(), n)).collect();
    let report = FramesReport {
        header: &selection.header,
        kept_for: named(true),
        dropped_for: named(false),
        files: files.clone(),
    };
    console.json_or_text(&report, || format_selection(&selection, &files))?;
    Ok(Status::Done)
}

/// Formats the kept frames as a table.
fn format_selection(selection: &Selection, files: &[String]) -> Lines {
    let header = [
        ("frame", ColumnAlign::Right),
        ("time", ColumnAlign::Right),
        ("parallax", ColumnAlign::Right),
        ("sharpness", ColumnAlign::Right),
        ("exposure", ColumnAlign::Right),
        ("tracks", ColumnAlign::Right),
        ("why", ColumnAlign::Left),
    ];
    let mut last = None;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in selection.lines.iter().filter(|line| line.kept) {
        let moved = last.map_or_else(|| "-".to_owned(), |last| format!("{:.2}", line.path - last));
        last = Some(line.path);
        rows.push(vec![
            line.frame.to_string(),
            format!("{:.3}", line.time),
            moved,
            format!("{:.2}", line.sharpness),
            format!("{:+.1}", line.exposure),
            line.tracks.to_string(),
            line.reason.name().to_owned(),
        ]);
    }
    let more = rows.len().saturating_sub(MAX_TABLE_ROWS);
    rows.truncate(MAX_TABLE_ROWS);
    let mut text = table::columns(&header, &rows);
    if more > 0 {
        text += format!("and {more} more");
    }
    text += "";
    text += describe::frames_chosen(&SelectionSummary::new(selection));
    if !files.is_empty() {
        text += files.join(", ");
    }
    text
}
