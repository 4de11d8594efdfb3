//! `gausset info`: the contents of a splat file, dataset or run folder, and the type of any other file of Gausset.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use gausset::Failure;
use gausset::blocks::{BlocksStatus, PartStatus};
use gausset::records::MODEL_PURPOSE;
use gausset::saved_run::{SavedRun, read_splats};
use gausset::splat_info::SplatInfo;
use gausset_io::dataset::{self, Dataset, DatasetError, DatasetKind, OpenOptions, exports};
use gausset_io::ownership;
use gausset_io::splat;
use gausset_train::{Blocks, RunSummary, read_summary};
use serde::Serialize;

use super::exposure;
use super::recognised::RecognisedFile;
use super::splat_facts;
use super::splat_statistics::SplatStatistics;
use super::spz_frame::SpzFrameArgs;
use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::{counted, decibels, duration, grouped, three_digits};
use crate::{scores, table};

const AFTER_HELP: &str = "\
Examples:
  gausset info run/splats.ply
  gausset info scene.spz           any splat format; also lists splats that cannot be drawn
  gausset info photos/
  gausset info run/ --json";

/// Arguments of `info`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InfoArgs {
    /// Splat file, dataset or run folder, or most other files that Gausset reads or writes.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Folder of the photographs of a dataset.
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    #[command(flatten)]
    spz: SpzFrameArgs,
    /// Allow image names that point outside the image folder (by `..` or absolute paths).
    #[arg(long)]
    allow_outside: bool,
    /// Exit with code 0 instead of 1 if images of a dataset are missing or unreadable.
    #[arg(long)]
    allow_missing: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

impl InfoArgs {
    /// Options of the dataset.
    fn open_options(&self) -> OpenOptions {
        let images = self.images.clone();
        OpenOptions { images, allow_outside: self.allow_outside, ..OpenOptions::default() }
    }
}

/// `info --json` of a splat file: a stable contract.
#[derive(Debug, Serialize)]
struct SplatsInfo {
    kind: &'static str,
    #[serde(flatten)]
    facts: SplatInfo,
    /// Statistics of the splats; left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<SplatStatistics>,
}

/// `info --json` of a run: a stable contract. The same facts as in the text.
#[derive(Debug, Serialize)]
struct RunInfo<'a> {
    #[serde(flatten)]
    summary: &'a RunSummary,
    /// Steps of the whole run.
    total_steps: u64,
    /// The parts of a run in blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<&'a BlocksStatus>,
    data: &'a Path,
    train_images: u64,
    test_images: u64,
    /// Source of the initial splats.
    start: &'a str,
    strategy: String,
    seed: u64,
    device: &'a str,
    version: &'a str,
}

/// `info --json` of a dataset: a stable contract.
#[derive(Debug, Serialize)]
struct DatasetInfo {
    kind: &'static str,
    format: &'static str,
    cameras: usize,
    images: usize,
    points: usize,
    camera_models: Vec<&'static str>,
    skipped: usize,
    train: usize,
    test: usize,
    /// Transform from the world of the original reconstruction to that of the dataset, 3x4.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_transform: Option<[[f64; 4]; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_scale: Option<f64>,
    /// Exposure differences of the images; left out if there are no tracks to measure them.
    #[serde(skip_serializing_if = "Option::is_none")]
    exposure: Option<exposure::ExposureInfo>,
}

/// Runs the command.
pub(crate) fn run(args: &InfoArgs, console: &Console) -> Result<Status, EarlyExit> {
    let path = &args.path;
    let metadata = std::fs::metadata(path).map_err(|error| {
        let reason = gausset_io::atomic::plain_reason(&error);
        Failure::new("read", format!("{}: read: {reason}", path.display()))
    })?;
    if metadata.is_file() && is_camera_file(path, args) {
        return dataset_info(path, args, console);
    }
    if metadata.is_file()
        && let Some(made) = RecognisedFile::recognise_file(path)
    {
        return recognised_info(&made, console);
    }
    // The folder of a demo, or of `run` or `pano run`, which made all that is inside.
    let sparse = path.join("sparse");
    if metadata.is_dir()
        && (!sparse.exists() || ownership::is_gausset_owned(&sparse.join("0"), MODEL_PURPOSE))
        && SavedRun::is_run_folder(&path.join("run"))
        && let Some(made) = RecognisedFile::recognise_folder(path)
    {
        return recognised_info(&made, console);
    }
    let is_json_file = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let is_splats = splat::recognise(path).is_some();
    if metadata.is_dir() && SavedRun::is_run_folder(path) {
        run_info(path, console)
    } else if !is_splats && (metadata.is_dir() || is_json_file) {
        dataset_info(path, args, console)
    } else {
        splats_info(&splat::file_at(path), args.spz, console)
    }
}

/// Whether a file has the cameras of another program. The released 3DGS code writes its own beside its splats, as runs
/// do: they are a dataset only where their pictures are.
fn is_camera_file(path: &Path, args: &InfoArgs) -> bool {
    match exports::recognise(path) {
        Some(DatasetKind::Inria) => {
            !path.parent().is_some_and(SavedRun::is_run_folder)
                && dataset::open(path, &args.open_options()).is_ok()
        }
        program => program.is_some(),
    }
}

fn recognised_info(made: &RecognisedFile, console: &Console) -> Result<Status, EarlyExit> {
    console.json_or_text(made, || table::facts(&made.rows()))?;
    Ok(Status::Done)
}

fn splats_info(path: &Path, spz: SpzFrameArgs, console: &Console) -> Result<Status, EarlyExit> {
    let file = read_splats(path, spz.axes())?;
    for line in file.report.lines(path) {
        console.warn("the splats", line);
    }
    let info = SplatsInfo {
        kind: "splats",
        facts: SplatInfo::from_document(&file),
        spread: SplatStatistics::from_document(&file),
    };
    console.json_or_text(&info, || {
        let mut rows = splat_facts::rows(&info.facts, splat_facts::file_bytes(path));
        rows.extend(info.spread.iter().flat_map(SplatStatistics::rows));
        table::facts(&rows)
    })?;
    Ok(Status::Done)
}

fn dataset_info(path: &Path, args: &InfoArgs, console: &Console) -> Result<Status, EarlyExit> {
    let dataset = match dataset::open(path, &args.open_options()) {
        Err(error) if matches!(&error, DatasetError::NotADataset { deeper, .. } if deeper.is_empty()) => {
            return match RecognisedFile::recognise_folder(path) {
                Some(made) => recognised_info(&made, console),
                None => Err(Failure::from(error).into()),
            };
        }
        opened => opened.map_err(Failure::from)?,
    };
    for line in dataset.report_lines() {
        console.warn("the dataset", line);
    }
    let models: BTreeSet<&'static str> = dataset.cameras.iter().map(|camera| camera.model.name()).collect();
    let info = DatasetInfo {
        kind: "dataset",
        format: dataset.kind.name(),
        cameras: dataset.cameras.len(),
        images: dataset.images.len(),
        points: dataset.points.len(),
        camera_models: models.into_iter().collect(),
        skipped: dataset.skipped.len(),
        train: dataset.split.train.len(),
        test: dataset.split.test.len(),
        applied_transform: dataset.applied_transform.map(|applied| applied.transform),
        applied_scale: dataset.applied_transform.map(|applied| applied.scale),
        exposure: exposure::measure(path, args.open_options())?,
    };
    console.json_or_text(&info, || dataset_table(&dataset, &info))?;
    Ok(Status::done(dataset.has_skipped() && !args.allow_missing))
}

fn dataset_table(dataset: &Dataset, info: &DatasetInfo) -> Lines {
    let sizes: BTreeSet<[u32; 2]> =
        dataset.images.iter().map(|image| [image.camera.width, image.camera.height]).collect();
    let size = |size: &[u32; 2]| format!("{}x{}", size[0], size[1]);
    let sizes = match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) if first == last => format!("{} px", size(first)),
        (Some(first), Some(last)) => format!("{} .. {} px", size(first), size(last)),
        _ => String::new(),
    };
    let masks = dataset.images.iter().filter(|image| image.mask.is_some()).count();
    let mut rows = vec![
        ("format", info.format.to_owned()),
        ("model", dataset.source.display().to_string()),
        ("cameras", format!("{} ({})", grouped(info.cameras as u64), info.camera_models.join(", "))),
        ("images", format!("{} ({sizes} in training)", grouped(info.images as u64))),
        ("train", grouped(info.train as u64)),
        ("test", grouped(info.test as u64)),
        ("skipped", grouped(info.skipped as u64)),
        ("points", grouped(info.points as u64)),
        ("extent", format!("{} scene units", three_digits(dataset.scene_extent))),
    ];
    if masks > 0 {
        rows.push(("masks", counted(masks as u64, "image")));
    }
    if let (Some(matrix), Some(scale)) = (info.applied_transform, info.applied_scale) {
        let row = |row: [f64; 4]| row.map(three_digits).join(" ");
        rows.push((
            "moved by",
            format!("[{}], then scaled by {}", matrix.map(row).join("; "), three_digits(scale)),
        ));
    }
    if let Some(exposure) = &info.exposure {
        rows.push(("exposure", exposure.line()));
        rows.extend(exposure.exif_line().map(|line| ("EXIF", line)));
    }
    table::facts(&rows)
}

fn run_info(path: &Path, console: &Console) -> Result<Status, EarlyExit> {
    let run = SavedRun::read(path)?;
    let summary = read_summary(path).map_err(Failure::from)?;
    let (config, record) = (&run.recorded.config, &run.recorded.record);
    let is_in_blocks = config.blocks != Blocks::Off;
    let blocks = is_in_blocks.then(|| BlocksStatus::read(path, &run.recorded)).transpose()?;
    let [done, all] = blocks.as_ref().map_or([summary.steps, config.recipe.steps], BlocksStatus::steps);
    let info = RunInfo {
        summary: &summary,
        total_steps: all,
        blocks: blocks.as_ref(),
        data: &config.data.path,
        train_images: record.train_images,
        test_images: record.test_images,
        start: &record.start,
        strategy: config.recipe.strategy().to_string(),
        seed: config.recipe.seed,
        device: &record.device_name,
        version: &record.version,
    };
    console.json_or_text(&info, || {
        let steps = format!("{} of {}", grouped(done), grouped(all));
        let psnr = summary.psnr.map_or_else(|| "not measured".to_owned(), |psnr| decibels(Some(psnr)));
        let views = format!("{} train, {} test", grouped(record.train_images), grouped(record.test_images));
        let mut rows = vec![("steps", steps), ("splats", grouped(summary.splats)), ("PSNR", psnr)];
        rows.extend(blocks.iter().map(|blocks| ("blocks", describe_blocks(blocks, summary.splats > 0))));
        rows.extend(scores::facts(summary.ssim, &summary.scores));
        rows.extend([
            ("time", duration(summary.seconds)),
            ("CPU time", duration(summary.cpu_seconds)),
            ("data", config.data.path.display().to_string()),
            ("images", views),
            ("start", record.start.clone()),
            ("strategy", config.recipe.strategy().to_string()),
            ("seed", config.recipe.seed.to_string()),
            ("device", record.device_name.clone()),
            ("version", record.version.clone()),
        ]);
        table::facts(&rows)
    })?;
    Ok(Status::Done)
}

/// How far a run in blocks has come: `1 of 3 finished, block 2: 500 of 7,000 steps`.
fn describe_blocks(status: &BlocksStatus, is_merged: bool) -> String {
    let BlocksStatus { coarse, blocks, problem } = status;
    let progress =
        |part: &PartStatus| format!("{} of {} steps", grouped(part.steps), grouped(part.total_steps));
    if blocks.is_empty() {
        let problem = problem.iter().map(|problem| format!(", {problem}")).collect::<String>();
        return format!("coarse run: {}{problem}", progress(coarse));
    }
    let finished = blocks.iter().filter(|block| block.is_finished).count();
    let mut lines = vec![format!("{finished} of {} finished", blocks.len())];
    let running = (1..).zip(blocks).filter(|(_, block)| !block.is_finished && block.steps > 0);
    lines.extend(running.map(|(number, block)| format!("block {number}: {}", progress(block))));
    if finished == blocks.len() && !is_merged {
        lines.push("not merged yet".to_owned());
    }
    lines.extend(problem.clone());
    lines.join(", ")
}
