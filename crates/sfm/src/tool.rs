//! Finds COLMAP: the `pycolmap` package of a Python, or a `colmap` executable.
//!
//! Order: `--python`, `GAUSSET_PYTHON`, `python3` and `python` in PATH, then `colmap` in PATH. The options used here
//! came with COLMAP 3.13 and pycolmap 4; older versions are refused with their version number.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_io::dataset::CameraModel;
use gausset_process::{OutputStream, Program, find_program};
use serde::Deserialize;

/// Source of the driver, which runs in Python.
pub const DRIVER: &str = include_str!("driver.py");
/// Environment variable that names a Python with pycolmap.
pub const PYTHON_VARIABLE: &str = "GAUSSET_PYTHON";
/// Time limit for asking a program for its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(60);

/// An aligner: COLMAP, or the built-in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlignmentTool {
    /// A Python that has pycolmap.
    Pycolmap {
        /// The interpreter.
        python: PathBuf,
        /// Version of pycolmap.
        version: String,
    },
    /// The `colmap` executable.
    ColmapExecutable {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
    },
    /// The built-in aligner.
    BuiltIn,
}

/// Why no COLMAP can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Neither pycolmap nor the executable was found.
    #[error(
        "COLMAP: not found (expected pycolmap 4 in a Python, or colmap 3.13 or later in PATH); install it with: pip install pycolmap{}",
        tried.as_ref().map(|t| format!(" ({t})")).unwrap_or_default()
    )]
    NotFound {
        /// Why a program that was found first cannot be used.
        tried: Option<UnusableTool>,
    },
    /// The program that the caller named cannot be used.
    #[error(transparent)]
    Unusable(#[from] UnusableTool),
}

/// Why a program that was found cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableTool {
    /// A Python without the package.
    #[error(
        "{0}: pycolmap: not installed; install it with: {0} -m pip install pycolmap", python.display()
    )]
    NotInstalled {
        /// The interpreter.
        python: PathBuf,
    },
    /// A pycolmap without the options that are used here.
    #[error(
        "{0}: pycolmap: version {version} is too old (expected 4.0 or later); {0} -m pip install --upgrade pycolmap",
        python.display()
    )]
    OldPackage {
        /// The interpreter.
        python: PathBuf,
        /// Version of pycolmap.
        version: String,
    },
    /// An executable without the options that are used here.
    #[error(
        "{}: COLMAP: version {version} is too old (expected 3.13 or later); install pycolmap: pip install pycolmap",
        program.display()
    )]
    OldProgram {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
    },
    /// SphereSfM, a branch of COLMAP 3.8 for panoramas.
    #[error(
        "{0}: COLMAP: is SphereSfM, which has no camera rigs (expected COLMAP 3.13 or later); run it separately and pass its model as ⟨poses⟩",
        program.display()
    )]
    SphereSfm {
        /// The program.
        program: PathBuf,
    },
    /// It ran, but did not print its version.
    #[error("{}: {problem}", program.display())]
    NoVersion {
        /// The program.
        program: PathBuf,
        /// The missing output.
        problem: &'static str,
    },
    /// It did not exit normally.
    #[error("{0}")]
    Failed(String),
}

#[derive(Deserialize)]
struct VersionLine {
    event: String,
    version: Option<String>,
}

/// Major and minor number of `4.2.1` or `3.12.0.dev1`.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|p| {
        let digits: String = p.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    Some((parts.next()??, parts.next()??))
}

impl AlignmentTool {
    /// Camera models that the built-in aligner estimates for photographs.
    pub const BUILT_IN_CAMERAS: [CameraModel; 6] = [
        CameraModel::SimpleRadial,
        CameraModel::Radial,
        CameraModel::SimplePinhole,
        CameraModel::Pinhole,
        CameraModel::OpenCv,
        CameraModel::OpenCvFisheye,
    ];

    /// Finds a COLMAP; if `python` or `colmap` is given, only that program is tried.
    ///
    /// # Errors
    /// None is found, the given one cannot be used, or `stop` is set.
    pub fn find(python: Option<&Path>, colmap: Option<&Path>, stop: &AtomicBool) -> Result<Self, ToolError> {
        if let Some(program) = colmap {
            return Ok(find_executable(program, stop)?);
        }
        let variable = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
        if let Some(python) = python.map(Path::to_owned).or(variable) {
            return Ok(find_pycolmap(&python, stop)?);
        }
        let mut tried = None;
        for python in ["python3", "python"].iter().filter_map(|name| find_program(name)) {
            match find_pycolmap(&python, stop) {
                Ok(tool) => return Ok(tool),
                Err(reason) => {
                    tried.get_or_insert(reason);
                }
            }
        }
        match find_program("colmap").map(|program| find_executable(&program, stop)) {
            Some(Ok(tool)) => Ok(tool),
            Some(Err(reason)) => Err(ToolError::NotFound { tried: Some(reason) }),
            None => Err(ToolError::NotFound { tried }),
        }
    }

    /// Name and version for display: `pycolmap 4.2.1`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Pycolmap { version, .. } => format!("pycolmap {version}"),
            Self::ColmapExecutable { version, .. } => format!("COLMAP {version}"),
            Self::BuiltIn => format!("own aligner {}", env!("CARGO_PKG_VERSION")),
        }
    }
}

fn find_pycolmap(python: &Path, stop: &AtomicBool) -> Result<AlignmentTool, UnusableTool> {
    let mut version = None;
    let mut is_absent = false;
    let mut on_line = |stream, line: &str| {
        if stream == OutputStream::Out
            && let Ok(found) = serde_json::from_str::<VersionLine>(line)
        {
            match found.event.as_str() {
                "version" => version = found.version,
                "absent" => is_absent = true,
                _ => {}
            }
        }
    };
    let ran = Program::new(python)
        .arg("-c")
        .arg(DRIVER)
        .arg("--version")
        .silence_limit(VERSION_TIMEOUT)
        .run(stop, &mut on_line);
    let python = python.to_owned();
    match (ran, version) {
        _ if is_absent => Err(UnusableTool::NotInstalled { python }),
        (Err(error), _) => Err(UnusableTool::Failed(error.to_string())),
        (Ok(_), None) => {
            Err(UnusableTool::NoVersion { program: python, problem: "pycolmap: reports no version" })
        }
        (Ok(_), Some(version)) => match major_minor(&version) {
            Some((4.., _)) => Ok(AlignmentTool::Pycolmap { python, version }),
            _ => Err(UnusableTool::OldPackage { python, version }),
        },
    }
}

fn find_executable(program: &Path, stop: &AtomicBool) -> Result<AlignmentTool, UnusableTool> {
    let mut first = None;
    let mut is_sphere = false;
    // `colmap help` prints its version in the first line: "COLMAP 3.13.0 -- Structure-from-Motion …".
    let mut on_line = |_, line: &str| {
        // A command that only SphereSfM has; the spelling is its own.
        is_sphere |= line.contains("sphere_cubic_reprojecer");
        if line.contains("COLMAP") {
            first.get_or_insert_with(|| line.to_owned());
        }
    };
    let ran = Program::new(program).arg("help").silence_limit(VERSION_TIMEOUT).run(stop, &mut on_line);
    if let (Err(error), None) = (ran, &first) {
        return Err(UnusableTool::Failed(error.to_string()));
    }
    let text = first.unwrap_or_default();
    let version =
        text.split_whitespace().skip_while(|w| *w != "COLMAP").nth(1).unwrap_or_default().to_owned();
    let program = program.to_owned();
    match major_minor(&version) {
        Some((major, minor)) if (major, minor) >= (3, 13) => {
            Ok(AlignmentTool::ColmapExecutable { program, version })
        }
        Some(_) if is_sphere => Err(UnusableTool::SphereSfm { program }),
        Some(_) => Err(UnusableTool::OldProgram { program, version }),
        None => {
            let what = "COLMAP: reports no version (expected `COLMAP 3.13` or later)";
            Err(UnusableTool::NoVersion { program, problem: what })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(major_minor("4.2.1"), Some((4, 2)));
        assert_eq!(major_minor("3.12.0.dev1"), Some((3, 12)));
        assert_eq!(major_minor("3.8"), Some((3, 8)));
        assert_eq!(major_minor("unknown"), None);
    }
}
