//! Recognises files and folders other than splats, datasets and runs: what Gausset writes in addition to them, and what
//! it reads. `info` prints the type and the commands that use it.

use std::path::{Path, PathBuf};

use gausset::Failure;
use gausset::photos::{FullSphere, PhotographList, full_sphere_of, full_sphere_of_folder};
use gausset::report;
use gausset::saved_run::SavedRun;
use gausset_field::fit::Samples;
use gausset_field::input::{self as field_input, Input, ReadRequest};
use gausset_io::container::ContainerReader;
use gausset_io::dataset::{self, DatasetError, OpenOptions};
use gausset_io::image::read_header;
use gausset_io::input;
use gausset_io::metrics_log::read_metrics;
use gausset_io::ownership;
use gausset_io::run_folder::{CONFIG_START, EVALUATION_MARKER};
use gausset_io::splat;
use gausset_io::text::shell_quote;
use gausset_pano::projection::is_panorama_size;
use serde::Serialize;
use serde_json::Value;

use crate::numbers::{counted, grouped};

/// Maximum size of a text file that is read, bytes.
const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Number of leading bytes by which a file is recognised.
const START_BYTES: u64 = 4096;
/// Maximum number of images of a folder whose size is read.
const MAX_INSPECTED_IMAGES: usize = 8;

/// A recognised file or folder: `info --json`, a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct RecognisedFile {
    /// Type as one word.
    kind: &'static str,
    /// Description for people.
    what: String,
    /// Commands that use it, the most useful one first.
    commands: Vec<String>,
}

impl RecognisedFile {
    fn new(kind: &'static str, what: impl Into<String>, commands: &[String]) -> Self {
        Self { kind, what: what.into(), commands: commands.to_vec() }
    }

    /// The failure of a command that expects something else.
    fn instead_of(&self, code: &'static str, input: &Path, expected: &str) -> Failure {
        let tried = self.commands.first().map_or_else(String::new, |command| format!("; try: {command}"));
        // Further clauses are about its commands and what is left out.
        let what = self.what.split(';').next().unwrap_or_default();
        let verb = if input.is_dir() { "holds" } else { "is" };
        Failure::new(code, format!("{}: {verb} {what} (expected {expected}){tried}", input.display()))
    }

    /// Formats the type and the commands as rows of a table.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![("what", self.what.clone())];
        rows.extend(self.commands.iter().map(|command| ("command", command.clone())));
        rows
    }

    /// Recognises a folder that is neither a run nor a dataset.
    pub(super) fn recognise_folder(folder: &Path) -> Option<Self> {
        let run = folder.join("run");
        if SavedRun::is_run_folder(&run) {
            let commands = [command("info", &run), command("view", &run)];
            let data = folder.join("data");
            if ownership::is_gausset_owned(&data, "demo") || data.join("demo.json").is_file() {
                let (data, run) = (data.display(), run.display());
                return Some(Self::new("demo", format!("a demo with scene {data} and run {run}"), &commands));
            }
            let what = format!("output of `gausset run` or `gausset pano run` with run {}", run.display());
            return Some(Self::new("project", what, &commands));
        }
        let files = files_of(folder);
        if files.iter().any(|file| extension(file) == "ckpt") {
            let run = folder.parent().filter(|run| SavedRun::is_run_folder(run));
            let resume = run.map(|run| command("train --resume", run));
            return Some(Self::new("checkpoints", "checkpoints of a run", resume.as_slice()));
        }
        if let Some(run) = run_of_renders(folder) {
            let what = format!("renders of the run {}, not photographs", run.display());
            return Some(Self::new("renders", what, &[command("view", run)]));
        }
        let inside = ["images", "frames", "photos"].map(|name| folder.join(name));
        let has_own = |folder: &Path| files_of(folder).iter().any(|file| is_image(file));
        let chosen =
            std::iter::once(folder).chain(inside.iter().map(PathBuf::as_path)).find(|place| has_own(place));
        match Self::recognise_images(chosen.unwrap_or(folder)) {
            Some(images) if !images.commands.is_empty() => Some(images),
            unusable => Self::recognise_splats(folder).or(unusable),
        }
    }

    /// Recognises a folder with files and folders of splats.
    fn recognise_splats(folder: &Path) -> Option<Self> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut splats: Vec<PathBuf> = entries.filter(|path| splat::recognise(path).is_some()).collect();
        splats.sort_unstable();
        let first = splats.first()?;
        let what = format!("{}; the commands take one", counted(splats.len() as u64, "splat file"));
        Some(Self::new("splat-files", what, &[command("info", first), command("view", first)]))
    }

    /// Recognises a folder of photographs or panoramas without cameras.
    fn recognise_images(folder: &Path) -> Option<Self> {
        let PhotographList { names, heif, left_out, .. } = PhotographList::of_folder(folder, &[]).ok()?;
        let left_out: String = left_out.iter().map(|line| format!("; {line}")).collect();
        let commands = ["run", "align"].map(|name| format!("{} -o scene/", command(name, folder))).to_vec();
        let with_heif = match heif.len() as u64 {
            0 => String::new(),
            count => format!(
                "; {}: needs libheif (heif-convert) or an ffmpeg that decodes HEIC",
                counted(count, "HEIC photograph")
            ),
        };
        let left_out = with_heif + &left_out;
        if names.is_empty() && !heif.is_empty() {
            return Some(Self::new(
                "photographs",
                format!("photographs without cameras{left_out}"),
                &commands,
            ));
        }
        if names.is_empty() && !left_out.is_empty() {
            return Some(Self::new("photographs", format!("no photograph that can be read{left_out}"), &[]));
        }
        let pictures: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        let every = pictures.len().div_ceil(MAX_INSPECTED_IMAGES).max(1);
        let sizes = pictures.iter().step_by(every).filter_map(|file| read_header(file).ok());
        let sizes: Vec<[u32; 2]> = sizes.map(|header| [header.width, header.height]).collect();
        let &[width, height] = sizes.first()?;
        let count = pictures.len() as u64;
        let size = if sizes.iter().all(|size| *size == [width, height]) {
            format!("{width}x{height} px")
        } else {
            "different sizes".to_owned()
        };
        let kind = match full_sphere_of_folder(folder, &names) {
            // The shape alone does not exclude photographs.
            None if sizes.iter().all(|size| is_panorama_size(*size)) => {
                let what = format!(
                    "{} by their shape, {size}, without cameras{left_out}",
                    counted(count, "panorama")
                );
                return Some(Self::new(
                    "panoramas",
                    what,
                    &[pano_commands(false, folder), commands].concat(),
                ));
            }
            None => None,
            Some(FullSphere::Panorama) => Some(("panoramas", "panorama")),
            Some(FullSphere::TwoCircles) => Some(("two-circles", "unstitched image")),
            Some(FullSphere::OneCircle) => Some(("one-circle", "image")),
        };
        if let Some((kind, noun)) = kind {
            let circles = match kind {
                "two-circles" => " of two fisheye circles",
                "one-circle" => " of one fisheye circle",
                _ => "",
            };
            let what = format!("{}{circles}, {size}, without cameras{left_out}", counted(count, noun));
            return Some(Self::new(kind, what, &pano_commands(!circles.is_empty(), folder)));
        }
        let what = format!("{}, {size}, without cameras{left_out}", counted(count, "photograph"));
        Some(Self::new("photographs", what, &commands))
    }

    /// Recognises a file that is not a splat file.
    pub(super) fn recognise_file(file: &Path) -> Option<Self> {
        if let Some(found) = Self::recognise_file_of_run(file) {
            return Some(found);
        }
        let start = read_start(file)?;
        match extension(file).as_str() {
            "jsonl" => Self::recognise_log(file),
            "json" => Self::recognise_json(file),
            "toml" if start.starts_with(CONFIG_START.as_bytes()) => {
                let again = format!("gausset train --config {} -o again/", shell_quote(file));
                Some(Self::new("config", "the configuration of a run", &[again]))
            }
            "mp4" | "mov" | "mkv" | "avi" | "webm" | "m4v" | "insv" | "360" | "lrv" | "3gp" | "3g2"
            | "qt" | "mts" | "m2ts" | "mpg" | "mpeg" | "vob" | "wmv" | "asf" | "flv" => {
                let place = shell_quote(file);
                let run = format!("gausset run {place} -o scene/");
                let pano = format!("gausset pano run {place} -o scene/");
                Some(Self::new("video", "a video; the second command is for 360-degree video", &[run, pano]))
            }
            "npy" | "npz" | "nii" | "hdr" | "gz" | "nrrd" | "nhdr" | "csv" | "tsv" | "txt" | "tif"
            | "tiff" | "mha" | "mhd" | "vti" => Self::recognise_samples(file),
            _ if start.starts_with(b"GAUSSETC") => Self::recognise_checkpoint(file),
            _ if start.windows(14).any(|part| part == b"gausset-field/") => {
                let slice = format!("{} -o slice.png", command("field slice", file));
                Some(Self::new("field", "a Gaussian field", &[slice, command("field info", file)]))
            }
            "html" | "htm" if report::is_report_page(file) => {
                Some(Self::new("report", "the report of a run, a page for browsers", &[]))
            }
            _ if is_image(file) => {
                let header = read_header(file).ok()?;
                let what = format!("an image of {}x{} px", header.width, header.height);
                let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                if let Some(run) = run_of_renders(folder) {
                    let what = format!("{what}, a render of the run {}", run.display());
                    return Some(Self::new("render", what, &[command("view", run)]));
                }
                let preview = || format!("{} --page", command("pano preview", file));
                let (kind, commands) = match full_sphere_of(file) {
                    None if is_panorama_size([header.width, header.height]) => (
                        ", a panorama by its shape",
                        [vec![preview()], pano_commands(false, folder)].concat(),
                    ),
                    None => ("", vec![format!("gausset run {} -o scene/", shell_quote(folder))]),
                    Some(FullSphere::Panorama) => {
                        (", a panorama", [vec![preview()], pano_commands(false, folder)].concat())
                    }
                    Some(FullSphere::TwoCircles) => {
                        (", two fisheye circles of an unstitched panorama", pano_commands(true, folder))
                    }
                    Some(FullSphere::OneCircle) => {
                        (", the circle of a fisheye lens", pano_commands(true, folder))
                    }
                };
                Some(Self::new("picture", what + kind, &commands))
            }
            _ => None,
        }
    }

    fn recognise_log(file: &Path) -> Option<Self> {
        let (lines, _) = read_metrics(file).ok()?;
        let step = lines.iter().rev().find_map(|line| line["step"].as_u64())?;
        let run = file.parent().filter(|run| SavedRun::is_run_folder(run));
        let what =
            format!("the log of a run, {} up to step {}", counted(lines.len() as u64, "line"), grouped(step));
        Some(Self::new("log", what, run.map(|run| command("info", run)).as_slice()))
    }

    fn recognise_json(file: &Path) -> Option<Self> {
        let value: Value = serde_json::from_slice(&input::read(file, MAX_TEXT_BYTES).ok()?).ok()?;
        let path = shell_quote(file);
        let render = |input: &str| format!("gausset render {input} --path {path} -o frames/");
        if let Some(cameras) =
            value.as_array().filter(|list| list.iter().any(|one| one["img_name"].is_string()))
        {
            let run = file.parent().filter(|run| SavedRun::is_run_folder(run));
            let what =
                format!("{} in the axes of the splats next to it", counted(cameras.len() as u64, "camera"));
            return Some(Self::new(
                "cameras",
                what,
                &[render(&run.map_or("scene.ply".to_owned(), shell_quote))],
            ));
        }
        if let Some(path) = value["camera_path"].as_array() {
            let what = format!("a camera path of {}", counted(path.len() as u64, "frame"));
            return Some(Self::new("camera-path", what, &[render("run/")]));
        }
        if value["seconds_to"].is_object() && value["curves"].is_object() {
            let what = "the numbers of the report of a run".to_owned();
            let run = file.parent().filter(|run| SavedRun::is_run_folder(run));
            return Some(Self::new("report-metrics", what, run.map(|run| command("report", run)).as_slice()));
        }
        if value["per_image"].is_array() {
            let what = "the report of an evaluation".to_owned();
            let run = file.parent().and_then(Path::parent).filter(|run| SavedRun::is_run_folder(run));
            return Some(Self::new("evaluation", what, run.map(|run| command("eval", run)).as_slice()));
        }
        None
    }

    /// Recognises a file of a run by its name.
    fn recognise_file_of_run(file: &Path) -> Option<Self> {
        let run = file.parent().filter(|run| SavedRun::is_run_folder(run))?;
        let (kind, what, name) = match file.file_name()?.to_str()? {
            "profile.json" | "profile.csv" => ("profile", "the profile of a run", "profile show"),
            "trace.json" => ("profile", "the trace of a run, for https://ui.perfetto.dev", "profile show"),
            "gains.json" => ("gains", "the exposure gains of a run", "info"),
            "confidence.json" => ("confidence", "what the photographs of a run confirm", "report"),
            "fingerprint.txt" => ("fingerprint", "the training data of a run", "info"),
            _ => return None,
        };
        Some(Self::new(kind, what, &[command(name, run)]))
    }

    fn recognise_checkpoint(file: &Path) -> Option<Self> {
        let reader = ContainerReader::open_header(file).ok()?;
        let step = reader.header()["step"].as_u64().unwrap_or_default();
        let run = file.parent().and_then(Path::parent).filter(|run| SavedRun::is_run_folder(run));
        let resume = run.map(|run| command("train --resume", run));
        let what = match run {
            Some(run) => format!("a checkpoint of the run {}, step {}", run.display(), grouped(step)),
            None => {
                format!("a checkpoint, step {}, outside its run (expected RUN/checkpoints/)", grouped(step))
            }
        };
        Some(Self::new("checkpoint", what, resume.as_slice()))
    }

    fn recognise_samples(file: &Path) -> Option<Self> {
        let what = match field_input::read(
            file,
            &ReadRequest { max_samples: Samples::max_count(), ..ReadRequest::default() },
        )
        .ok()?
        {
            Input::Volume(volume) => {
                let [x, y, z] = volume.dims;
                let frames =
                    if volume.frames > 1 { format!(", {} frames", volume.frames) } else { String::new() };
                ("volume", format!("a volume of {x} x {y} x {z} voxels{frames}"))
            }
            other @ Input::Samples(_) => {
                ("samples", format!("{} samples of a field", grouped(other.len() as u64)))
            }
        };
        let fit = format!("gausset field fit {} -o field.safetensors", shell_quote(file));
        Some(Self::new(what.0, what.1, &[fit]))
    }
}

/// The commands for a folder of panoramas, or of images of two fisheye circles.
fn pano_commands(is_two_circles: bool, folder: &Path) -> Vec<String> {
    let folder = shell_quote(folder);
    if is_two_circles {
        let calibrate = format!("gausset pano calibrate {folder} -o lens.json");
        return vec![calibrate, format!("gausset pano run {folder} --lens lens.json -o scene/")];
    }
    vec![format!("gausset pano run {folder} -o scene/")]
}

/// The failure of a command that expects splats: for input of another kind, names the kind and a command that uses it.
pub(super) fn failure_of_other_file(failure: Failure, input: &Path) -> Failure {
    let found = match failure.code {
        "splats" if input.is_file() && splat::recognise(input).is_none() => {
            RecognisedFile::recognise_file(input)
        }
        "not-a-run" if is_no_dataset(input) => RecognisedFile::recognise_folder(input),
        _ => None,
    };
    match found {
        Some(found) => found.instead_of(failure.code, input, "a run or a splat file"),
        None => failure,
    }
}

fn is_no_dataset(folder: &Path) -> bool {
    let opened = dataset::open(folder, &OpenOptions::default());
    opened.is_err_and(|error| matches!(error, DatasetError::NotADataset { .. }))
}

/// The failure of a training: for a file that is no dataset, names its kind and a command that uses it.
pub(super) fn failure_of_other_data(failure: Failure, data: Option<&Path>) -> Failure {
    let file = data.filter(|path| failure.code == "dataset" && path.is_file());
    let found = file.and_then(|file| Some((file, RecognisedFile::recognise_file(file)?)));
    match found {
        Some((file, found)) if found.kind != "dataset" => found.instead_of(failure.code, file, "a dataset"),
        _ => failure,
    }
}

fn command(name: &str, path: &Path) -> String {
    format!("gausset {name} {}", shell_quote(path))
}

/// File extension in lower case, without its dot.
fn extension(file: &Path) -> String {
    file.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase()
}

/// The run whose images are in this folder: those of an evaluation, or of `render` where it writes by default.
fn run_of_renders(folder: &Path) -> Option<&Path> {
    let is_evaluation = ownership::is_gausset_owned(folder, EVALUATION_MARKER);
    let is_render = folder.file_name().is_some_and(|name| name == "render");
    let mut above = folder.ancestors().skip(1).take(if is_evaluation { 2 } else { 1 });
    above.find(|run| (is_evaluation || is_render) && SavedRun::is_run_folder(run))
}

fn is_image(file: &Path) -> bool {
    gausset_io::image::formats::is_readable(file)
}

/// The files of a folder, sorted by name.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn read_start(file: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    input::open(file, input::NO_LIMIT).ok()?.take(START_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
