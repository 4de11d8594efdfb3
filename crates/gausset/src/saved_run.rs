//! Access to a finished run: configuration, dataset and splats.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::constants::{MIN_NEAR_PLANE, NEAR_PLANE};
use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::Disk;
use gausset_io::dataset::{self, Dataset, Loader, LoaderOptions, OpenOptions};
use gausset_io::input_files::InputFiles;
use gausset_io::lock::SharedLock;
use gausset_io::run_folder::{self, check_no_links_out, config_path, splats_path};
use gausset_io::splat::{self, Format, LoadOptions, SplatFile, SpzAxes};
use gausset_train::{MemoryPlan, RecordedRun, SceneFacts, check_dataset, read_summary, with_refined_poses};

use crate::{Failure, Host};

/// A run, as recorded in its folder.
#[derive(Debug)]
pub struct SavedRun {
    /// The run folder.
    pub folder: PathBuf,
    /// Content of its `config.toml`.
    pub recorded: RecordedRun,
    /// Marks the files of the run, and of its dataset once opened, as inputs that must not be overwritten.
    reading: RefCell<Vec<Arc<InputFiles>>>,
}

impl SavedRun {
    /// Whether a folder is a run folder.
    pub fn is_run_folder(folder: &Path) -> bool {
        config_path(folder).is_file()
    }

    /// The run folder of an input: the folder itself, or its `run`, which `run` and `pano run` write.
    #[must_use]
    pub fn folder_at(folder: &Path) -> PathBuf {
        let inside = folder.join("run");
        let is_inside = !Self::is_run_folder(folder) && Self::is_run_folder(&inside);
        if is_inside { inside } else { folder.to_owned() }
    }

    /// The run that a splat file is the result of: the file is in a run folder and has the name of the result file.
    pub fn from_splat_file(file: &Path) -> Option<Self> {
        let folder = std::path::absolute(file).ok()?.parent()?.to_owned();
        let is_result = Self::is_run_folder(&folder) && splats_path(&folder).file_name() == file.file_name();
        // Keep the spelling of the path that the caller used.
        let folder =
            file.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(folder, Path::to_owned);
        if is_result { Self::read(&folder).ok() } else { None }
    }

    /// Reads the run of a folder; `None` for a file, and for a folder that holds splats of another program
    /// ([`splat::file_at`]).
    ///
    /// # Errors
    /// The folder is neither.
    pub fn from_input(input: &Path) -> Result<Option<Self>, Failure> {
        let is_file = !input.is_dir() || !Self::is_run_folder(input) && splat::recognise(input).is_some();
        if is_file { Ok(None) } else { Self::read(input).map(Some) }
    }

    /// Reads the run in a folder, or in its `run` ([`Self::folder_at`]).
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let folder = &*Self::folder_at(folder);
        // Gives the best error for a folder without a finished run.
        read_summary(folder)?;
        let recorded = RecordedRun::read(&config_path(folder))?;
        let reading = RefCell::new(vec![Arc::new(InputFiles::new(run_folder::input_paths(folder)))]);
        Ok(Self { folder: folder.to_owned(), recorded, reading })
    }

    /// Locks the folder against trainings while files are written into it. Refuses a folder with links that lead out of
    /// it.
    pub fn lock_shared(&self) -> Result<SharedLock, Failure> {
        check_no_links_out(&Disk, &self.folder)?;
        SharedLock::acquire(&self.folder)
            .map_err(|error| Failure::new("in-use", format!("{error}, or name another folder with -o")))
    }

    /// Opens the dataset of the run, from `place` if it has paths.
    pub fn open_dataset(
        &self,
        place: DataLocation<'_>,
        host: &mut Host<'_>,
    ) -> Result<Arc<Dataset>, Failure> {
        let config = &self.recorded.config;
        let path = place.path.unwrap_or(&config.data.path);
        let mut options = config.open_options();
        options.allow_outside |= place.allow_outside;
        options.offset = Some(self.offset().unwrap_or_default());
        if place.path.is_some() {
            // Subfolders in the configuration are relative to the original dataset.
            (options.images, options.masks, options.sparse) = (None, None, None);
        }
        if let Some(images) = place.images {
            options.images = Some(images.to_owned());
        }
        let dataset = dataset::open(path, &options)?;
        self.reading.borrow_mut().push(Arc::clone(&dataset.reading));
        for line in dataset.report_lines() {
            host.warn("the dataset", line);
        }
        if let Err(error) = check_dataset(&self.folder, &self.recorded, &dataset) {
            match place.if_changed {
                ChangedData::Refuse => return Err(error.into()),
                ChangedData::Unaccepted => {
                    let Failure { code, message, .. } = error.into();
                    return Err(Failure::new(code, format!("{message}, or add ⟨accept-changed-data⟩")));
                }
                ChangedData::Warn => {
                    host.warn("the dataset", error.to_string());
                    return Ok(Arc::new(dataset));
                }
            }
        }
        // If the run refined the camera poses, the splats fit only those.
        Ok(Arc::new(with_refined_poses(dataset, &self.folder, &self.recorded)?))
    }

    /// Creates an image loader within the memory limit of the run.
    pub fn loader(&self, dataset: &Arc<Dataset>) -> Loader {
        let budget = MemoryPlan::image_budget(self.recorded.config.max_memory_bytes());
        let budget_bytes = usize::try_from(budget).unwrap_or(usize::MAX);
        Loader::new(Arc::clone(dataset), LoaderOptions { budget_bytes, threads: 1 })
    }

    /// Path of the trained splats.
    pub fn trained_splats(&self) -> Result<PathBuf, Failure> {
        let path = splats_path(&self.folder);
        if !path.is_file() {
            let folder = self.folder.display();
            let line = format!(
                "{}: no such file: the run has not finished; resume it with ⟨resume⟩ {folder}",
                path.display()
            );
            return Err(Failure::new("not-finished", line));
        }
        Ok(path)
    }

    /// Loads the trained splats onto a device.
    pub fn load_splats(&self, engine: &mut dyn Engine, host: &mut Host<'_>) -> Result<SplatFile, Failure> {
        load_splats(&self.trained_splats()?, None, engine, host)
    }

    /// Render options of the finished run.
    pub fn render_options(&self) -> RenderOptions {
        let (record, recipe) = (&self.recorded.record, &self.recorded.config.recipe);
        let scene = SceneFacts {
            extent: record.scene_extent,
            near_plane: recipe.near_plane.distance(record.near_plane),
            background: record.background,
            random_background: record.random_background,
            ..SceneFacts::default()
        };
        recipe.eval_options(recipe.steps, &scene)
    }

    /// The rotation that was applied to the saved splats.
    pub fn splats_from_dataset(&self) -> Similarity {
        self.recorded.record.saved_from_dataset()
    }

    /// What the run subtracted from the coordinates of its dataset.
    pub fn offset(&self) -> Option<[f64; 3]> {
        self.recorded.record.offset
    }
}

/// Where the dataset of a run is, and what may differ from the training.
#[derive(Clone, Copy, Debug)]
pub struct DataLocation<'a> {
    /// Path; `None` = where the run found it.
    pub path: Option<&'a Path>,
    /// Folder of its photographs; `None` = where the run found them, or that of `path`.
    pub images: Option<&'a Path>,
    /// What to do if the dataset differs from the run's.
    pub if_changed: ChangedData,
    /// Accept image paths outside the image folder, even if the training did not.
    pub allow_outside: bool,
}

impl<'a> DataLocation<'a> {
    /// Paths of a dataset whose cameras alone are used: if it differs from the run's, a warning is enough.
    #[must_use]
    pub const fn for_viewing(path: Option<&'a Path>, images: Option<&'a Path>) -> Self {
        Self { path, images, if_changed: ChangedData::Warn, allow_outside: false }
    }

    /// Refuses photographs without a dataset, for splats without a run.
    ///
    /// # Errors
    /// There are such photographs.
    pub fn check_without_run(data: Option<&Path>, images: Option<&Path>) -> Result<(), Failure> {
        if data.is_some() || images.is_none() {
            return Ok(());
        }
        let line = "⟨images⟩: has no effect; leave it out (it needs a run, or ⟨data⟩)";
        Err(Failure::new("option", line))
    }
}

/// What to do with a dataset that differs from the run's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedData {
    /// The job fails.
    Refuse,
    /// Fail with a message that names the option to accept it.
    Unaccepted,
    /// A warning; the job continues.
    Warn,
}

impl ChangedData {
    /// `Warn` if the user accepts changed data, otherwise `Unaccepted`.
    pub const fn accepted(is_accepted: bool) -> Self {
        if is_accepted { Self::Warn } else { Self::Unaccepted }
    }
}

/// Reads a splat file, or the file of a folder ([`splat::file_at`]). `spz_frame` gives the axes of an SPZ that does not
/// specify them.
///
/// # Errors
/// The splats cannot be read, or `spz_frame` has no effect on them.
pub fn read_splats(path: &Path, spz_frame: Option<SpzAxes>) -> Result<SplatFile, Failure> {
    let file = splat::load(path, &LoadOptions { spz_frame, ..LoadOptions::default() })?;
    let has_spz = matches!(file.format, Format::Spz | Format::Gltf);
    if spz_frame.is_some() && !has_spz {
        let (path, title) = (path.display(), file.format.row().title);
        let line = format!("⟨spz-frame⟩: has no effect on {title} ({path}); leave it out (it needs an SPZ)");
        return Err(Failure::new("option", line));
    }
    Ok(file)
}

/// Reads a splat file as [`read_splats`], warns about its irregularities and loads it onto a device.
pub fn load_splats(
    path: &Path,
    spz_frame: Option<SpzAxes>,
    engine: &mut dyn Engine,
    host: &mut Host<'_>,
) -> Result<SplatFile, Failure> {
    let file = read_splats(path, spz_frame)?;
    for line in file.report.lines(path) {
        host.warn("the splats", line);
    }
    engine.load_splats(file.splats.clone(), Vec::new())?;
    Ok(file)
}

/// Render options for a splat file, from its metadata.
pub fn file_render_options(file: &SplatFile) -> RenderOptions {
    RenderOptions {
        sh_degree: file.splats.sh_degree,
        antialiased: file.antialiased,
        near_plane: file.near_plane.unwrap_or(NEAR_PLANE),
        ..RenderOptions::default()
    }
}

/// Refuses a near plane that would draw splats at the camera, or behind it.
///
/// # Errors
/// It is not finite, or too small.
pub fn check_near_plane(near_plane: Option<f64>) -> Result<(), Failure> {
    let outside = near_plane.filter(|near| !(*near >= MIN_NEAR_PLANE && (*near as f32).is_finite()));
    outside.map_or(Ok(()), |found| {
        let line = format!("⟨near-plane⟩: expected {MIN_NEAR_PLANE} or more scene units, found `{found}`");
        Err(Failure::new("option", line))
    })
}

/// Number of scene splats in a file that also has sky splats; `None` if it has none.
pub fn scene_splat_count(file: &SplatFile) -> Option<u32> {
    // Fits `u32`: the device counts splats with 32 bits and has loaded these.
    (file.sky > 0).then_some(file.scene_len() as u32)
}

/// Options to open a dataset in the coordinates of a file's splats.
pub fn open_beside(file: &SplatFile, images: Option<&Path>, allow_outside: bool) -> OpenOptions {
    // A file with a transform was written with the offset, unless there was none.
    let none = file.saved_from_dataset.map(|_| [0.0; 3]);
    let images = images.map(Path::to_owned);
    OpenOptions { images, allow_outside, offset: file.offset.or(none), ..OpenOptions::default() }
}

/// Transform of a file's splats relative to their dataset, to be applied to its cameras. If the file does not record it,
/// warns and assumes none.
pub fn splats_from_dataset_of(file: &SplatFile, path: &Path, host: &mut Host<'_>) -> Similarity {
    file.saved_from_dataset.unwrap_or_else(|| {
        let line = format!(
            "{}: has no transform relative to the dataset: the splats are assumed not to be rotated or moved",
            path.display()
        );
        host.warn("the splats", line);
        Similarity::IDENTITY
    })
}
