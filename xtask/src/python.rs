//! The Python package: its wheel, and its tests in an environment of their own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Subcommand;

use crate::output;

/// Exits with 1 if versions are too old.
const IS_NEW_ENOUGH: &str = "import sys; sys.exit(sys.version_info < (3, 11))";
const REQUIREMENTS: [&str; 4] = ["maturin>=1.16,<2", "mypy>=2,<3", "numpy>=1.24", "pytest>=8"];
/// gsplat, whose results some tests compare with, and what it imports; without its dependency torch.
const GSPLAT: [&str; 4] = ["gsplat==1.5.3", "jaxtyping", "wadler-lindig", "rich"];

#[derive(Debug, Subcommand)]
pub(crate) enum PythonTask {
    /// Build the wheel; prints its path.
    Build {
        /// As it is shipped; otherwise the development profile.
        #[arg(long)]
        release: bool,
    },
    /// Build the package into `target/py` and run its tests there. Needs torch for those of the renderer, which are
    /// skipped without it, or fail if `GAUSSET_REQUIRE_TORCH` is set.
    Test {
        /// Tests to run, an expression of pytest.
        #[arg(short = 'k')]
        expression: Option<String>,
    },
    /// Run gsplat's own tests, of a checkout of gsplat, against `gausset.gsplat.install()` on the CPU. The last line is the
    /// result as JSON.
    GsplatTests {
        /// Folder of the checkout.
        checkout: PathBuf,
        /// Also the tests that take minutes.
        #[arg(long)]
        full: bool,
    },
}

pub(crate) fn run(workspace: &Path, task: &PythonTask) -> Result<(), String> {
    let environment = Environment::new(workspace)?;
    match task {
        PythonTask::Build { release } => environment.build(*release),
        PythonTask::Test { expression } => environment.test(expression.as_deref()),
        PythonTask::GsplatTests { checkout, full } => environment.gsplat_tests(checkout, *full),
    }
}

/// Shows which splats of a run hang in front of known depths.
pub(crate) fn veils(workspace: &Path, run: &Path, views: &[String]) -> Result<(), String> {
    let environment = Environment::new(workspace)?;
    let mut script = Command::new(&environment.python);
    succeed(script.arg(environment.package.join("examples/veils.py")).arg(run).args(views))
}

/// A virtual environment, with the packages of the system, so that an installed torch is found.
struct Environment {
    folder: PathBuf,
    python: PathBuf,
    package: PathBuf,
}

impl Environment {
    fn new(workspace: &Path) -> Result<Self, String> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let folder = absolute(target.join("py"))?;
        let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let environment = Self { folder, python, package: absolute(workspace.join("python"))? };
        if !environment.python.exists() {
            environment.create()?;
        }
        Ok(environment)
    }

    fn create(&self) -> Result<(), String> {
        let system = std::env::var_os("GAUSSET_SYSTEM_PYTHON")
            .unwrap_or_else(|| if cfg!(windows) { "python".into() } else { "python3".into() });
        output(Command::new(&system).args(["-c", IS_NEW_ENOUGH]))
            .map_err(|error| format!("Python 3.11 or later is needed: {error}"))?;
        output(Command::new(&system).args(["-m", "venv", "--system-site-packages"]).arg(&self.folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let installed = output(Command::new(&self.python).args(pip).args(REQUIREMENTS));
        // An environment without its packages is not one.
        installed.map(drop).inspect_err(|_| drop(std::fs::remove_dir_all(&self.folder)))?;
        // Tests that need it are skipped without it.
        let compared = Command::new(&self.python).args(pip).arg("--no-deps").args(GSPLAT).status();
        drop(compared);
        Ok(())
    }

    fn maturin(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command.args(["-m", "maturin"]).args(arguments).args(["--locked", "--quiet", "--manifest-path"]);
        command.arg(self.package.join("Cargo.toml")).env("VIRTUAL_ENV", &self.folder);
        command
    }

    /// In the development profile, from what the tests of the workspace have compiled.
    fn maturin_dev(&self, command: &str) -> Command {
        self.maturin(&[command, "--profile", "dev", "--features", "test-build"])
    }

    fn build(&self, is_release: bool) -> Result<(), String> {
        let wheels = self.folder.join("wheels");
        if wheels.exists() {
            std::fs::remove_dir_all(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
        }
        let mut build = if is_release {
            self.maturin(&["build", "--profile", "dist"])
        } else {
            self.maturin_dev("build")
        };
        succeed(build.arg("--out").arg(&wheels))?;
        let entries = std::fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
        let names: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let [wheel] = names.as_slice() else {
            return Err(format!("{}: {} files (expected a wheel)", wheels.display(), names.len()));
        };
        println!("{}", wheel.display());
        Ok(())
    }

    fn gsplat_tests(&self, checkout: &Path, is_full: bool) -> Result<(), String> {
        succeed(&mut self.maturin_dev("develop"))?;
        let mut tests = Command::new(&self.python);
        tests.arg(self.package.join("tests/gsplat_tests.py")).arg(checkout);
        succeed(tests.args(is_full.then_some("--full")))
    }

    fn test(&self, expression: Option<&str>) -> Result<(), String> {
        succeed(&mut self.maturin_dev("develop"))?;
        let selected: Vec<OsString> =
            expression.map(|text| vec!["-k".into(), text.into()]).unwrap_or_default();
        let mut tests = Command::new(&self.python);
        tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-rs"]).args(selected);
        succeed(tests.args(["tests", "gausset_ray"].map(|folder| self.package.join(folder))))
    }
}

/// Runs a command whose output is shown.
fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
