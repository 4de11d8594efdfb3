//! `gausset pano frames`: which frames of a video are taken, and why.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_flow::FramesChosen;
use gausset_flow::film_frames::SelectChoice;
use gausset_flow::panos::frames::frames;
use gausset_flow::panos::{FilmKind, FramesOptions};
use gausset_flow::tool::SILENCE;
use gausset_pano::selection::{FILE, Header, Select, Selection};
use serde::Serialize;

use super::shape::ShapeArgs;
use super::split::parse_positive;
use super::track::TrackFileArgs;
use crate::Ending;
use crate::commands::overwrite;
use crate::commands::training::ending;
use crate::console::Console;
use crate::describe;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::listener::attend;
use crate::table::{self, Align};

const AFTER_HELP: &str = "\
Examples:
  gausset pano frames tour.mp4                       frames.jsonl, frames.png
  gausset pano frames tour.mp4 --step 6 --dry-run    a table; writes nothing
  gausset pano frames phone.mp4 --select time --fps 2.5
`pano split`, `pano run` and `run` choose the same frames with the same options.
The sheet: above, the way of the camera and what became of each frame (green kept,
red blurred, yellow duplicate, blue standing, cyan turning on the spot); below, what is kept.";

/// Most kept frames that the table shows.
const MOST_ROWS: usize = 40;

/// By what frames of a video are chosen: shared by commands that take videos.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct SelectArgs {
    /// Video: by what frames are chosen: space (equal parallax), time or all [default: space; time with --fps].
    #[arg(
        long, value_name = "HOW", hide_possible_values = true, help_heading = "Frames",
        value_parser = PossibleValuesParser::new(Select::ALL.map(Select::name)).map(|name| {
            Select::ALL.into_iter().find(|select| select.name() == name).unwrap_or_default()
        })
    )]
    select: Option<Select>,
    /// Video: degrees of parallax from frame to frame [default: 4].
    #[arg(long, value_name = "DEG", help_heading = "Frames", value_parser = parse_step)]
    step: Option<f64>,
}

impl SelectArgs {
    pub(crate) fn options(self) -> SelectChoice {
        SelectChoice { select: self.select, step: self.step }
    }
}

fn parse_step(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| (0.1..=90.0).contains(v));
    value.ok_or_else(|| format!("expected 0.1..90 degrees, found `{text}`"))
}

/// Arguments of `pano frames`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FramesArgs {
    /// A video of panoramas or cubes, or an ordinary one (through ffmpeg).
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// The file for all frames: measurements, kept or not, why.
    #[arg(short, long, value_name = "FILE", default_value = FILE)]
    output: PathBuf,
    /// The picture of what is kept [default: as the file, with .png].
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// What the frames show: panorama (the sphere, also as a cube) or ordinary [default: by their shape].
    #[arg(
        long, value_name = "KIND", hide_possible_values = true, help_heading = "Frames",
        value_parser = PossibleValuesParser::new(["panorama", "ordinary"])
            .map(|name| if name == "panorama" { FilmKind::Panorama } else { FilmKind::Ordinary })
    )]
    kind: Option<FilmKind>,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    track: TrackFileArgs,
    /// Frames per second, by time.
    #[arg(long, value_name = "FPS", help_heading = "Frames", value_parser = parse_positive)]
    fps: Option<f64>,
    /// First second.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Frames")]
    start: f64,
    /// Last second.
    #[arg(long, value_name = "S", help_heading = "Frames", value_parser = parse_positive)]
    end: Option<f64>,
    /// Two eyes, one above the other; the upper one is taken (tb).
    #[arg(long, value_name = "HOW", help_heading = "Frames", value_parser = PossibleValuesParser::new(["tb"]))]
    stereo: Option<String>,
    /// Frames of two fisheye circles, described by a lens file (docs/pano.md).
    #[arg(long, value_name = "FILE", conflicts_with = "stereo", help_heading = "Frames")]
    lens: Option<PathBuf>,
    /// At most so many frames, spread by parallax.
    #[arg(long, value_name = "N", help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..))]
    max_frames: Option<u32>,
    /// Replace files that are there.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Seconds for which ffmpeg may say nothing.
    #[arg(long, value_name = "S", default_value_t = SILENCE, value_parser = clap::value_parser!(u64).range(1..))]
    tool_timeout: u64,
    /// Choose and show; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// The result: a stable contract.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    header: &'a Header,
    /// How many frames were kept for each reason.
    kept_for: BTreeMap<&'static str, usize>,
    /// How many were dropped for each reason.
    dropped_for: BTreeMap<&'static str, usize>,
    /// What was written.
    files: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &FramesArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let plain = FramesOptions::new(&args.input, &args.output);
    let options = FramesOptions {
        sheet: args.sheet.clone().unwrap_or_else(|| plain.sheet.clone()),
        kind: args.kind,
        shape: args.shape.options(),
        select: args.select.options(),
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
    let selection = match attend(&interrupt, console, |host| frames(&options, args.dry_run, host)) {
        Ok(selection) => selection,
        Err(failure) => return ending(failure, &interrupt),
    };
    let files: Vec<String> = match args.dry_run {
        true => Vec::new(),
        false => [&options.output, &options.sheet].map(|file| file.display().to_string()).to_vec(),
    };
    let named = |kept| selection.reasons(kept).into_iter().map(|(reason, n)| (reason.name(), n)).collect();
    let report = Report {
        header: &selection.header,
        kept_for: named(true),
        dropped_for: named(false),
        files: files.clone(),
    };
    console.object_or(&report, || text(&selection, &files))?;
    Ok(Status::Done)
}

/// The kept frames for people.
fn text(selection: &Selection, files: &[String]) -> Lines {
    let header = [
        ("frame", Align::Right),
        ("time", Align::Right),
        ("parallax", Align::Right),
        ("sharpness", Align::Right),
        ("exposure", Align::Right),
        ("tracks", Align::Right),
        ("why", Align::Left),
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
    let more = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    let mut text = table::columns(&header, &rows);
    if more > 0 {
        text += format!("and {more} more");
    }
    text += "";
    text += describe::frames_chosen(&FramesChosen::of(selection));
    if !files.is_empty() {
        text += files.join(", ");
    }
    text
}
