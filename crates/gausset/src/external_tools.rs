//! The programs and libraries of others that some jobs use: where they are, which version, and what needs them.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_process::{OutputStream, Program, find_program};
use gausset_sfm::AlignmentTool;
use serde::Serialize;

/// Time after which a program that prints nothing is stopped.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Names of the program of libheif that decodes, the present one first.
pub(crate) const LIBHEIF_PROGRAMS: [&str; 2] = ["heif-dec", "heif-convert"];

/// A program or library of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExternalTool {
    /// Name: `COLMAP`, `ffmpeg`, `ONNX Runtime`.
    pub name: &'static str,
    /// Version as it reports itself; `None` if the tool is missing.
    pub version: Option<String>,
    /// Where it is; `None` if the tool is missing.
    pub path: Option<PathBuf>,
    /// The jobs that use it.
    pub needed_by: &'static str,
    /// Why it cannot be used and how to install it, on one line; `None` if it was found.
    pub fault: Option<String>,
}

impl ExternalTool {
    fn found(name: &'static str, needed_by: &'static str, version: String, path: PathBuf) -> Self {
        Self { name, version: Some(version), path: Some(path), needed_by, fault: None }
    }

    fn missing(name: &'static str, needed_by: &'static str, fault: String) -> Self {
        Self { name, version: None, path: None, needed_by, fault: Some(fault) }
    }

    /// All tools, found or not.
    #[must_use]
    pub fn all(stop: &AtomicBool) -> Vec<Self> {
        let mut tools = vec![colmap(stop)];
        tools.extend(["ffmpeg", "ffprobe"].map(|name| of_ffmpeg(name, stop)));
        tools.push(libheif(stop));
        #[cfg(feature = "onnxruntime")]
        tools.push(onnx_runtime(stop));
        tools
    }
}

fn colmap(stop: &AtomicBool) -> ExternalTool {
    let needed_by =
        "run, align, pano run, pano align: other camera models, poses of other programs, a second try";
    match AlignmentTool::find(None, None, stop) {
        Ok(tool) => {
            let version = tool.describe();
            let path = match tool {
                AlignmentTool::Pycolmap { python: program, .. }
                | AlignmentTool::ColmapExecutable { program, .. } => program,
                AlignmentTool::BuiltIn => PathBuf::new(),
            };
            ExternalTool::found("COLMAP", needed_by, version, path)
        }
        Err(error) => ExternalTool::missing("COLMAP", needed_by, error.to_string()),
    }
}

/// A program of ffmpeg. The first line of `ffmpeg -version` is `ffmpeg version 7.1 Copyright …`.
fn of_ffmpeg(name: &'static str, stop: &AtomicBool) -> ExternalTool {
    let needed_by = "videos";
    let Some(path) = find_program(name) else {
        let fault = "not found in PATH; install it, for example: apt install ffmpeg";
        return ExternalTool::missing(name, needed_by, fault.to_owned());
    };
    let mut version = None;
    let mut on_line = |stream, line: &str| {
        if stream == OutputStream::Out && version.is_none() {
            version =
                line.split_once(" version ").and_then(|(_, rest)| rest.split(' ').next()).map(str::to_owned);
        }
    };
    let ran = Program::new(&path).arg("-version").silence_limit(VERSION_TIMEOUT).run(stop, &mut on_line);
    match (ran, version) {
        (Ok(_), Some(version)) => ExternalTool::found(name, needed_by, version, path),
        (Ok(_), None) => {
            ExternalTool::missing(name, needed_by, format!("{}: reports no version", path.display()))
        }
        (Err(error), _) => ExternalTool::missing(name, needed_by, error.to_string()),
    }
}

/// The decoder of libheif: `heif-dec`, or `heif-convert` as it was called before, which may not report its version.
fn libheif(stop: &AtomicBool) -> ExternalTool {
    let (name, needed_by) = ("heif-convert", "HEIC photographs, unless ffmpeg decodes them");
    let Some(path) = LIBHEIF_PROGRAMS.into_iter().find_map(find_program) else {
        let fault = "not found in PATH; install it, for example: apt install libheif-examples";
        return ExternalTool::missing(name, needed_by, fault.to_owned());
    };
    let mut version = None;
    let mut on_line = |_, line: &str| {
        let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        version = version.take().or_else(|| line.split_whitespace().find(is_version).map(str::to_owned));
    };
    let program = Program::new(&path).arg("--version").silence_limit(VERSION_TIMEOUT);
    // Old versions take it for a mistake, but decode.
    let _ = program.run(stop, &mut on_line);
    ExternalTool::found(name, needed_by, version.unwrap_or_else(|| "unknown".to_owned()), path)
}

#[cfg(feature = "onnxruntime")]
fn onnx_runtime(stop: &AtomicBool) -> ExternalTool {
    let (name, needed_by) = ("ONNX Runtime", "masks, if it is chosen; the default engine is built in");
    match gausset_segment::LibraryChoice::default().find(stop) {
        Ok(path) => {
            // `libonnxruntime.so.1.22.0`
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let version = file.split_once(".so.").map_or("unknown", |(_, version)| version).to_owned();
            ExternalTool::found(name, needed_by, version, path)
        }
        Err(error) => ExternalTool::missing(name, needed_by, error.to_string()),
    }
}
