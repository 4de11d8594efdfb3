//! Test support: a temporary folder with panoramas, and the jobs of panoramas in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset::aligner::AlignerOptions;
use gausset::panos::align::{align, poses_path};
use gausset::panos::compare::{PoseComparison, compare};
use gausset::panos::export::{ExportFormat, ExportOptions, ExportResult, export};
use gausset::panos::split::split;
use gausset::panos::{PriorKnowledge, SplitOptions};
use gausset::{Event, Failure, Host};
use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::{Pose, se3};
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::colmap::{ColmapModel, ModelFolder, Observations};
use gausset_jpeg::encode_planes;
use gausset_pano::export::AlignedPoses;
use gausset_pano::layout::Layout;
use gausset_pano::split::SplitReport;
use gausset_scenes::panorama::detailed;
use gausset_sfm::AlignmentTool;
use serde_json::Value;
use tempfile::TempDir;

/// Runs a job. Returns its result and its warnings, one per line.
pub(crate) fn run<T>(job: impl FnOnce(&mut Host<'_>) -> Result<T, Failure>) -> (Result<T, Failure>, String) {
    let mut warnings = String::new();
    let mut hear = |event: Event| {
        if let Event::Warning { line, .. } = event {
            warnings += &(line + "\n");
        }
    };
    let done = job(&mut Host::new(&Arc::new(AtomicBool::new(false)), &mut hear));
    (done, warnings)
}

/// A temporary folder.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Panoramas of 256x128 px in `walk`: `NAME0.jpg` and so on.
    pub(crate) fn with_walk(name: &str, count: u32) -> Self {
        let place = Self::new();
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        for k in 0..count {
            let bytes = encode_planes(256, &detailed(256, k, &Pool::new(1)), 90, level);
            place.write(&format!("walk/{name}{k}.jpg"), bytes);
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// Writes a file, and its folder if there is none.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Splits footage; the options are the defaults with changes.
    pub(crate) fn split(
        &self,
        input: impl AsRef<Path>,
        output: &str,
        change: impl FnOnce(&mut SplitOptions),
    ) -> SplitReport {
        let mut options = SplitOptions::new(self.path("").join(input), self.path(output));
        change(&mut options);
        run(|host| split(&options, host)).0.unwrap()
    }

    /// Splits footage into square views of a layout.
    pub(crate) fn split_square(&self, input: impl AsRef<Path>, output: &str, layout: Layout, side: u32) {
        self.split(input, output, |options| {
            options.views.layout = layout;
            options.views.size = Some(side);
        });
    }

    /// Aligns the views in `w` with an aligner.
    pub(crate) fn try_align(
        &self,
        tool: &AlignerOptions,
        known: &PriorKnowledge,
        overwrite: Overwrite,
    ) -> (Result<AlignedPoses, Failure>, String) {
        run(|host| align(&self.path("w"), known, tool, overwrite, host))
    }

    /// Exports the alignment in `w`.
    pub(crate) fn try_export(
        &self,
        form: ExportFormat,
        output: &str,
        change: impl FnOnce(&mut ExportOptions),
    ) -> Result<ExportResult, Failure> {
        let mut options = ExportOptions {
            folder: self.path("w"),
            views_of: None,
            sources: None,
            form,
            is_text: false,
            output: Some(self.path(output)),
            masks: None,
            invert: false,
            empty_masks: false,
            overwrite: Overwrite::Refuse,
        };
        change(&mut options);
        export(&options)
    }

    pub(crate) fn export(&self, form: ExportFormat, output: &str) -> ExportResult {
        self.try_export(form, output, |_| {}).unwrap()
    }

    pub(crate) fn compare(&self, first: &str, reference: &str) -> PoseComparison {
        compare(&self.path(first), &self.path(reference)).unwrap()
    }

    /// The poses of the views in `w`.
    pub(crate) fn aligned_poses(&self) -> AlignedPoses {
        AlignedPoses::read(&poses_path(&self.path("w"))).unwrap()
    }

    pub(crate) fn model(&self, folder: &str) -> ColmapModel {
        let found = ModelFolder::find(&self.path(folder)).unwrap().expect("a model");
        found.read(Observations::Keep).unwrap()
    }
}

/// The poses of all frames, which are registered.
pub(crate) fn all_poses(poses: &AlignedPoses) -> Vec<Pose> {
    poses.frames.iter().map(|frame| frame.pose().expect("registered")).collect()
}

/// COLMAP, or pycolmap, of this machine; without one the test is skipped.
pub(crate) fn pycolmap(test: &str) -> Option<PathBuf> {
    let missing = match AlignmentTool::find(None, None, &AtomicBool::new(false)) {
        Ok(AlignmentTool::Pycolmap { python, .. }) => return Some(python),
        Ok(tool) => format!("needs pycolmap, found {}", tool.describe()),
        Err(error) => error.to_string(),
    };
    gausset_testkit::skip_for_tool(test, &missing);
    None
}

/// Runs a Python script that prints JSON.
pub(crate) fn ask(python: &Path, script: &str, arguments: &[&Path]) -> Value {
    let output = std::process::Command::new(python).arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    se3::norm(std::array::from_fn(|k| a[k] - b[k]))
}

/// Length of a path through the centres of cameras.
pub(crate) fn path_length(poses: &[Pose]) -> f64 {
    poses.windows(2).map(|pair| distance(pair[0].centre(), pair[1].centre())).sum()
}

/// A table of poses with a header, as other programs write it.
pub(crate) fn pose_table<'a>(rows: impl IntoIterator<Item = (&'a str, Pose)>) -> String {
    let row = |(name, pose): (&str, Pose)| {
        let ([x, y, z], [w, i, j, k]) = (pose.centre(), pose.inverse().quaternion());
        format!("{name},{x},{y},{z},{w},{i},{j},{k}\n")
    };
    "name,x,y,z,qw,qx,qy,qz\n".to_owned() + &rows.into_iter().map(row).collect::<String>()
}

/// The record of frame times that a split of a video writes, `apart` seconds between frames.
pub(crate) fn frame_times(names: &[String], apart: f64) -> String {
    let line = |(k, name): (usize, &String)| {
        format!(
            "{{\"frame\":{k},\"time\":{:.1},\"sharpness\":1.0,\"exposure\":0.0,\"rotation\":null,\"parallax\":null,\
             \"reference\":0,\"path\":0.0,\"tracks\":0,\"duplicate\":false,\"kept\":true,\"reason\":\"all\",\
             \"name\":\"{name}\"}}\n",
            apart * k as f64
        )
    };
    "{\"kind\":\"frames\"}\n".to_owned() + &names.iter().enumerate().map(line).collect::<String>()
}

/// Checks that a job was refused with this code and a message that contains these words.
#[track_caller]
pub(crate) fn assert_refused<T>(done: Result<T, Failure>, code: &str, words: &str) {
    let Err(failure) = done else { panic!("it was not refused: {words}") };
    assert!(failure.code == code && failure.message.contains(words), "{failure:?}");
}

/// Turns a pose file's rotation and centre by an inexact amount: some centimetres and half a degree.
pub(crate) fn slightly_off(k: usize, pose: &Pose, unit: f64) -> Pose {
    let off = |salt: usize| ((7 * k + 5 * salt) % 11) as f64 / 11.0 - 0.5;
    let rotation = se3::mul(&se3::so3_exp([0.02 * off(1), 0.02 * off(2), 0.02 * off(3)]), &pose.rotation);
    let centre: [f64; 3] = std::array::from_fn(|i| pose.centre()[i] + unit * 0.03 * off(4 + i));
    Pose { rotation, translation: se3::mul_vec(&rotation, centre).map(|v| -v) }
}

/// Three panoramas with the names of the recording of COLMAP, split into views of the same cameras in `w`, and the
/// stand-ins `python` and `colmap`, which give the recorded model.
#[cfg(unix)]
pub(crate) fn recorded() -> Place {
    use gausset_testkit::programs::{colmap_recording, write_colmap_stand_ins};
    let place = Place::with_walk("frame_0", 3);
    place.split("walk", "w", |options| options.views.size = Some(224));
    write_colmap_stand_ins(&place.path(""), &colmap_recording().join("model"));
    place
}

impl Place {
    /// The stand-in for pycolmap in this folder.
    pub(crate) fn stand_in(&self) -> AlignerOptions {
        AlignerOptions { python: Some(self.path("python")), ..AlignerOptions::default() }
    }

    /// Aligns with the stand-in for pycolmap.
    pub(crate) fn align_with(&self, known: &PriorKnowledge) -> (Result<AlignedPoses, Failure>, String) {
        self.try_align(&self.stand_in(), known, Overwrite::Replace)
    }
}
