//! One attempt at an alignment, as input of the Python driver or as command lines of the `colmap` executable.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gausset_io::atomic::WriteError;
use serde::Serialize;

use crate::align::{AlignError, CameraSharing};

/// All stages of an attempt, in order.
pub(crate) const STAGES: [&str; 3] = ["features", "matching", "mapping"];

/// Mapper that reconstructs a model from the matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mapper {
    /// COLMAP's incremental mapper, which registers one image at a time.
    #[default]
    Incremental,
    /// COLMAP's global mapper (GLOMAP): rotation averaging, then global positioning. Needs COLMAP 4.0 or later.
    Global,
    /// The incremental mapper first. If it registers too few frames, the global mapper runs on the same matches before
    /// the next recipe extracts other features.
    Auto,
}

impl Mapper {
    /// Every mapper, each once.
    pub const ALL: [Self; 3] = [Self::Incremental, Self::Global, Self::Auto];

    /// Name in configuration files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Incremental => "incremental",
            Self::Global => "global",
            Self::Auto => "auto",
        }
    }

    /// The mappers to run, in order, until enough frames are registered.
    pub(crate) fn sequence(self) -> &'static [SingleMapper] {
        match self {
            Self::Incremental => &[SingleMapper::Incremental],
            Self::Global => &[SingleMapper::Global],
            Self::Auto => &[SingleMapper::Incremental, SingleMapper::Global],
        }
    }
}

/// A single mapper of COLMAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SingleMapper {
    Incremental,
    Global,
}

/// Which pairs of images are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Matcher {
    /// Every pair.
    Exhaustive,
    /// Neighbours in the list.
    Sequential,
    /// The pairs of a file.
    Listed,
}

/// Keypoints and matches from other software, in the form that the driver reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum ImportedFiles {
    /// All lists in two flat files (f32 and u32, two numbers a row), with the range of rows of each image and pair.
    Lists {
        keypoints: PathBuf,
        matches: PathBuf,
        pictures: Vec<(String, usize, usize)>,
        pairs: Vec<(String, String, usize, usize)>,
    },
    /// A COLMAP database.
    Database { database: PathBuf },
}

/// One attempt, in the form that the driver reads. All paths are absolute: COLMAP runs in another folder.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Attempt {
    pub(crate) images: PathBuf,
    /// Names of the images to align, in byte order: other files below the folder are not read.
    pub(crate) image_names: Vec<String>,
    /// File with these names, one a line, for the executable.
    pub(crate) image_list: PathBuf,
    pub(crate) masks: Option<PathBuf>,
    pub(crate) database: PathBuf,
    pub(crate) models: PathBuf,
    pub(crate) rig_config: Option<PathBuf>,
    pub(crate) camera_model: String,
    pub(crate) camera_params: String,
    pub(crate) camera_mode: CameraSharing,
    pub(crate) max_features: u32,
    /// Longest side of the images from which features are extracted, px. The executable keeps its default of 3200: the
    /// name of the option depends on its version.
    pub(crate) max_image_size: u32,
    pub(crate) affine_shape: bool,
    pub(crate) matcher: Matcher,
    pub(crate) overlap: u32,
    /// File with the pairs of names, one a line, of [`Matcher::Listed`].
    pub(crate) pair_list: PathBuf,
    pub(crate) min_matches: u32,
    pub(crate) mapper: SingleMapper,
    /// Stages to run: only the mapping if features and matches exist already.
    pub(crate) stages: &'static [&'static str],
    pub(crate) fixed_intrinsics: bool,
    /// Folder of the model with known poses.
    pub(crate) known: Option<PathBuf>,
    /// Whether bundle adjustment refines the known poses.
    pub(crate) refine: bool,
    /// Position priors: image name, position, standard deviation.
    pub(crate) priors: Vec<(String, [f64; 3], f64)>,
    /// Keypoints and matches to import instead of extracting them.
    pub(crate) given: Option<ImportedFiles>,
    /// Frame index of each image; needed when a third-party database is imported.
    pub(crate) frame_of: BTreeMap<String, usize>,
    pub(crate) threads: usize,
    pub(crate) seed: u32,
}

impl Attempt {
    /// The JSON that the driver reads. JSON is UTF-8, so all names must be.
    pub(crate) fn to_json(&self) -> Result<String, AlignError> {
        let paths = [Some(&self.images), self.masks.as_ref(), Some(&self.models), self.rig_config.as_ref()];
        if let Some(path) = paths.into_iter().flatten().find(|path| path.to_str().is_none()) {
            return Err(AlignError::NotUtf8 { path: path.clone() });
        }
        serde_json::to_string_pretty(self).map_err(|e| {
            let (path, source) = (self.models.clone(), std::io::Error::other(e));
            WriteError::Io { path, action: "describe", source }.into()
        })
    }

    /// The calls of the executable that do the same as the driver. Paths keep their bytes.
    pub(crate) fn commands(&self) -> Vec<(&'static str, Vec<OsString>)> {
        let path = |path: &Path| path.as_os_str().to_owned();
        let text = |value: &str| OsString::from(value);
        let flag = |yes: bool| number_argument(u64::from(yes));
        let threads = || number_argument(self.threads as u64);
        let mut features = vec![
            ("database_path", path(&self.database)),
            ("image_path", path(&self.images)),
            ("image_list_path", path(&self.image_list)),
            ("ImageReader.camera_model", text(&self.camera_model)),
            ("FeatureExtraction.num_threads", threads()),
            ("FeatureExtraction.use_gpu", flag(false)),
            ("SiftExtraction.max_num_features", number_argument(self.max_features.into())),
            ("SiftExtraction.estimate_affine_shape", flag(self.affine_shape)),
        ];
        match self.camera_mode {
            CameraSharing::PerFolder => features.push(("ImageReader.single_camera_per_folder", flag(true))),
            CameraSharing::Single => features.push(("ImageReader.single_camera", flag(true))),
            CameraSharing::Auto => {}
        }
        if !self.camera_params.is_empty() {
            features.push(("ImageReader.camera_params", text(&self.camera_params)));
        }
        if let Some(masks) = &self.masks {
            features.push(("ImageReader.mask_path", path(masks)));
        }
        let mut out = vec![("features", command_line("feature_extractor", features))];
        if let Some(rig) = &self.rig_config {
            let options = vec![("database_path", path(&self.database)), ("rig_config_path", path(rig))];
            out.push(("features", command_line("rig_configurator", options)));
        }
        let mut matching = vec![
            ("database_path", path(&self.database)),
            ("FeatureMatching.num_threads", threads()),
            ("FeatureMatching.use_gpu", flag(false)),
        ];
        if self.rig_config.is_some() {
            matching.push(("FeatureMatching.rig_verification", flag(true)));
            matching.push(("FeatureMatching.skip_image_pairs_in_same_frame", flag(true)));
        }
        let matcher = match self.matcher {
            Matcher::Exhaustive => "exhaustive_matcher",
            Matcher::Sequential => {
                matching.push(("SequentialMatching.overlap", number_argument(self.overlap.into())));
                "sequential_matcher"
            }
            Matcher::Listed => {
                matching.push(("match_list_path", path(&self.pair_list)));
                matching.push(("match_type", text("pairs")));
                "matches_importer"
            }
        };
        out.push(("matching", command_line(matcher, matching)));
        out.push(("mapping", self.mapping_command()));
        out.retain(|(stage, _)| self.stages.contains(stage));
        out
    }

    /// The call that reconstructs models from the matches.
    fn mapping_command(&self) -> Vec<OsString> {
        let path = |path: &Path| path.as_os_str().to_owned();
        let refined = number_argument(u64::from(!self.fixed_intrinsics));
        let mut options = vec![
            ("database_path".to_owned(), path(&self.database)),
            ("image_path".to_owned(), path(&self.images)),
            ("output_path".to_owned(), path(&self.models)),
        ];
        let (command, group) = match self.mapper {
            SingleMapper::Incremental => ("mapper", "Mapper"),
            SingleMapper::Global => ("global_mapper", "GlobalMapper"),
        };
        let mut push = |name: &str, value: OsString| options.push((format!("{group}.{name}"), value));
        push("num_threads", number_argument(self.threads as u64));
        push("min_num_matches", number_argument(self.min_matches.into()));
        push("ba_refine_focal_length", refined.clone());
        push("ba_refine_extra_params", refined);
        if self.rig_config.is_some() {
            push("ba_refine_sensor_from_rig", number_argument(0));
        }
        if self.mapper == SingleMapper::Global {
            push("gp_use_gpu", number_argument(0));
            push("ba_ceres_use_gpu", number_argument(0));
            push("random_seed", number_argument(self.seed.into()));
        } else {
            options.push(("default_random_seed".to_owned(), number_argument(self.seed.into())));
        }
        command_line(command, options.iter().map(|(name, value)| (name.as_str(), value.clone())))
    }
}

/// One call of the executable: the command and its options.
fn command_line<'a>(command: &str, options: impl IntoIterator<Item = (&'a str, OsString)>) -> Vec<OsString> {
    let options = options.into_iter().flat_map(|(name, value)| [format!("--{name}").into(), value]);
    std::iter::once(command.into()).chain(options).collect()
}

fn number_argument(value: u64) -> OsString {
    value.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::DRIVER;

    fn attempt_in(folder: &Path) -> Attempt {
        Attempt {
            images: folder.join("images"),
            image_names: vec!["a.jpg".to_owned(), "cam0/b.jpg".to_owned()],
            image_list: folder.join("images.txt"),
            masks: None,
            database: folder.join("database.db"),
            models: folder.join("models"),
            rig_config: None,
            camera_model: "PINHOLE".to_owned(),
            camera_params: String::new(),
            camera_mode: CameraSharing::PerFolder,
            max_features: 1,
            max_image_size: 2400,
            affine_shape: false,
            matcher: Matcher::Sequential,
            overlap: 10,
            pair_list: folder.join("pairs.txt"),
            min_matches: 15,
            fixed_intrinsics: false,
            threads: 1,
            seed: 0,
            known: None,
            refine: false,
            priors: Vec::new(),
            given: None,
            frame_of: BTreeMap::new(),
            mapper: SingleMapper::Incremental,
            stages: &STAGES,
        }
    }

    #[test]
    fn the_driver_reads_the_words_that_it_knows() {
        let job: serde_json::Value =
            serde_json::from_str(&attempt_in(Path::new("/w")).to_json().unwrap()).unwrap();
        assert_eq!((&job["camera_mode"], &job["matcher"]), (&"per-folder".into(), &"sequential".into()));
        for name in DRIVER.split("job[\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(job.get(name).is_some(), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_not_utf8_keeps_its_bytes_or_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let folder = PathBuf::from(OsString::from_vec(b"/data/caf\xe9".to_vec()));
        let attempt = attempt_in(&folder);
        for (stage, arguments) in attempt.commands() {
            assert!(arguments.contains(&attempt.database.clone().into_os_string()), "{stage}");
        }
        let refusal = attempt.to_json().unwrap_err().to_string();
        assert!(refusal.contains("caf\u{fffd}/images: name: is not UTF-8"), "{refusal}");
    }

    #[test]
    fn colmap_gets_the_names_of_the_images_not_only_their_folder() {
        let attempt = attempt_in(Path::new("/w"));
        let job: serde_json::Value = serde_json::from_str(&attempt.to_json().unwrap()).unwrap();
        assert_eq!(job["image_names"], serde_json::json!(["a.jpg", "cam0/b.jpg"]));
        assert_eq!(DRIVER.matches("image_names=job[\"image_names\"]").count(), 2);
        let features = &attempt.commands()[0].1;
        let at = features.iter().position(|word| word == "--image_list_path").unwrap();
        assert_eq!(features[at + 1], Path::new("/w/images.txt"));
    }

    #[test]
    fn the_executable_matches_the_pairs_of_a_list() {
        let attempt = Attempt { matcher: Matcher::Listed, ..attempt_in(Path::new("/w")) };
        let matching = attempt.commands().into_iter().find(|(stage, _)| *stage == "matching");
        let words: Vec<String> =
            matching.unwrap().1.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(words[0], "matches_importer");
        for option in [["--match_list_path", "/w/pairs.txt"], ["--match_type", "pairs"]] {
            assert!(words.windows(2).any(|two| two == option), "{words:?}");
        }
    }

    #[test]
    fn a_second_mapper_uses_the_matches_of_the_first() {
        let first = attempt_in(Path::new("/w"));
        let second =
            Attempt { mapper: SingleMapper::Global, stages: &STAGES[2..], ..attempt_in(Path::new("/w")) };
        let stages =
            |attempt: &Attempt| attempt.commands().iter().map(|(stage, _)| *stage).collect::<Vec<_>>();
        assert_eq!(stages(&first), STAGES);
        assert_eq!(stages(&second), ["mapping"]);
        let call = &second.commands()[0].1;
        assert_eq!(call[0], "global_mapper");
        assert!(call.iter().all(|word| !word.to_string_lossy().starts_with("--Mapper.")), "{call:?}");
        assert_eq!(Mapper::Auto.sequence(), [SingleMapper::Incremental, SingleMapper::Global]);
    }
}
