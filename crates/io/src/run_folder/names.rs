//! Names of the files and folders of a run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Marker text of a run folder; the markers of its sub-folders contain their names.
pub const RUN_MARKER: &str = "run";
/// Marker text of the checkpoint folder.
pub(super) const CHECKPOINTS_MARKER: &str = "checkpoints";
/// Marker text of a folder with the images of an evaluation.
pub const EVALUATION_MARKER: &str = "evaluation";
/// Marker text of the folder of refined cameras.
pub const CAMERAS_MARKER: &str = "cameras";
/// Marker text of the folder of depth maps.
pub const DEPTH_MARKER: &str = "depth";

/// Start of the first line of every `config.toml` that a run writes.
pub const CONFIG_START: &str = "# Everything needed to repeat this run";
/// Files that a run writes directly into its folder.
pub(super) const RUN_FILES: [&str; 14] = [
    "config.toml",
    "fingerprint.txt",
    "splats.ply",
    "metrics.jsonl",
    "profile.json",
    "profile.csv",
    "trace.json",
    "gains.json",
    "cameras.json",
    "confidence.json",
    "report.html",
    "metrics.json",
    "events.out.tfevents.gausset",
    "crash.txt",
];
/// The [`RUN_FILES`] that every run writes.
pub(super) const NEEDED_FILES: [&str; 3] = ["config.toml", "splats.ply", "metrics.jsonl"];
/// Files in the folder of refined cameras.
pub(super) const CAMERA_FILES: [&str; 7] = [
    "cameras.bin",
    "images.bin",
    "points3D.bin",
    "cameras.txt",
    "images.txt",
    "points3D.txt",
    "transforms.json",
];

/// File name of the contact sheet of an evaluation.
pub const CONTACT_SHEET: &str = "contact_sheet.png";
/// File name of the report of an evaluation.
pub const EVALUATION_REPORT: &str = "metrics.json";

/// Step from the file name of a checkpoint; `None` for other names.
pub(super) fn step_of(name: &OsStr) -> Option<u64> {
    let step = name.to_str()?.strip_prefix("step_")?.strip_suffix(".ckpt")?.parse().ok()?;
    // Gausset does not write names such as `step_7.ckpt` or `step_+07000.ckpt`.
    (*checkpoint_name(step) == *name).then_some(step)
}

/// `step_007000.ckpt`.
pub(super) fn checkpoint_name(step: u64) -> String {
    format!("step_{step:06}.ckpt")
}

/// `RUN/fingerprint.txt`: what the fingerprint of the dataset was made from.
#[must_use]
pub fn data_list_path(root: &Path) -> PathBuf {
    root.join("fingerprint.txt")
}

/// `RUN/config.toml`: all options of the run.
#[must_use]
pub fn config_path(run: &Path) -> PathBuf {
    run.join("config.toml")
}

/// `RUN/splats.ply`: the trained splats.
#[must_use]
pub fn splats_path(run: &Path) -> PathBuf {
    run.join("splats.ply")
}

/// `RUN/checkpoints`: the folder of the checkpoints.
#[must_use]
pub fn checkpoints_folder(run: &Path) -> PathBuf {
    run.join("checkpoints")
}

/// `RUN/checkpoints/step_007000.ckpt`: the state after a step.
#[must_use]
pub fn checkpoint_path(run: &Path, step: u64) -> PathBuf {
    checkpoints_folder(run).join(checkpoint_name(step))
}

/// `RUN/metrics.jsonl`: losses and scores, one JSON object a line.
#[must_use]
pub fn metrics_path(run: &Path) -> PathBuf {
    run.join("metrics.jsonl")
}

/// `RUN/profile.json`: the profile, if one was recorded.
#[must_use]
pub fn profile_path(run: &Path) -> PathBuf {
    run.join("profile.json")
}

/// `RUN/profile.csv`: the rows of the profile.
#[must_use]
pub fn profile_csv_path(run: &Path) -> PathBuf {
    run.join("profile.csv")
}

/// `RUN/trace.json`: the trace, if one was recorded.
#[must_use]
pub fn trace_path(run: &Path) -> PathBuf {
    run.join("trace.json")
}

/// `RUN/report.html`: the report page, if one was written.
#[must_use]
pub fn report_path(run: &Path) -> PathBuf {
    run.join("report.html")
}

/// `RUN/metrics.json`: the metrics of the report.
#[must_use]
pub fn report_metrics_path(run: &Path) -> PathBuf {
    run.join("metrics.json")
}

/// `RUN/events.out.tfevents.gausset`: curves for TensorBoard, which finds event files by this name.
#[must_use]
pub fn events_path(run: &Path) -> PathBuf {
    run.join("events.out.tfevents.gausset")
}

/// `RUN/gains.json`: exposure compensation of the training images, if enabled.
#[must_use]
pub fn exposure_path(run: &Path) -> PathBuf {
    run.join("gains.json")
}

/// `RUN/cameras.json`: the cameras of all images in the axes of `splats.ply`, in the format of the released 3DGS code.
#[must_use]
pub fn cameras_json_path(run: &Path) -> PathBuf {
    run.join("cameras.json")
}

/// `RUN/confidence.json`: which places the training views confirm.
#[must_use]
pub fn confidence_path(run: &Path) -> PathBuf {
    run.join("confidence.json")
}

/// `RUN/cameras`: the refined cameras of a run that refines poses.
#[must_use]
pub fn cameras_folder(run: &Path) -> PathBuf {
    run.join("cameras")
}

/// `RUN/depth`: depth maps of the training images.
#[must_use]
pub fn depth_folder(run: &Path) -> PathBuf {
    run.join("depth")
}

/// `RUN/eval`: the folder of the evaluations.
#[must_use]
pub fn eval_folder(run: &Path) -> PathBuf {
    run.join("eval")
}
