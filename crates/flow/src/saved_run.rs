//! What a finished run needs to be looked at again: its configuration, its dataset, its splats on a device.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::se3::{IDENTITY3, Mat3};
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::Disk;
use gausset_io::dataset::{self, Dataset, Loader, LoaderOptions};
use gausset_io::lock::SharedLock;
use gausset_io::reading::Reading;
use gausset_io::run_folder::{self, config_path, refuse_ways_out, splats_path};
use gausset_io::splat::{self, Document, LoadOptions};
use gausset_train::{MemoryPlan, RecordedRun, SceneFacts, check_dataset, read_summary, with_refined_poses};

use crate::{Failure, Host};

/// A run as its folder records it.
#[derive(Debug)]
pub struct SavedRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Its `config.toml`.
    pub recorded: RecordedRun,
    /// Keeps its files, and those of its dataset once that is open, from being written over.
    reading: RefCell<Vec<Arc<Reading>>>,
}

impl SavedRun {
    /// Whether a folder is that of a run.
    pub fn is_one(folder: &Path) -> bool {
        config_path(folder).is_file()
    }

    /// The run whose result a file is: it lies in the folder of one, under the name that the run gave it.
    pub fn of_splats(file: &Path) -> Option<Self> {
        let folder = std::path::absolute(file).ok()?.parent()?.to_owned();
        let is_result = Self::is_one(&folder) && splats_path(&folder).file_name() == file.file_name();
        // Under the name by which it was called.
        let folder =
            file.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(folder, Path::to_owned);
        if is_result { Self::read(&folder).ok() } else { None }
    }

    /// The run of a folder; `None` for a file, and for a folder that holds the parts of one (an unpacked SOG).
    ///
    /// # Errors
    /// A folder that holds neither.
    pub fn of(input: &Path) -> Result<Option<Self>, Failure> {
        let is_file = !input.is_dir() || splat::recognise(input).is_some();
        if is_file { Ok(None) } else { Self::read(input).map(Some) }
    }

    /// Reads `config.toml`.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        // Says best what is wrong with a folder that holds no run.
        read_summary(folder)?;
        let recorded = RecordedRun::read(&config_path(folder))?;
        let reading = RefCell::new(vec![Arc::new(Reading::of(run_folder::inputs(folder)))]);
        Ok(Self { folder: folder.to_owned(), recorded, reading })
    }

    /// Keeps trainings out of the folder while something is put into it; refuses one that a link leads out of.
    pub fn share(&self) -> Result<SharedLock, Failure> {
        refuse_ways_out(&Disk, &self.folder)?;
        SharedLock::acquire(&self.folder)
            .map_err(|error| Failure::new("in-use", format!("{error}, or name another folder with -o")))
    }

    /// Opens the dataset of the run, from another place if one is given.
    pub fn open_dataset(&self, place: DataPlace<'_>, host: &mut Host<'_>) -> Result<Arc<Dataset>, Failure> {
        let config = &self.recorded.config;
        let path = place.path.unwrap_or(&config.data.path);
        let mut options = config.open_options();
        options.allow_outside |= place.allow_outside;
        if place.path.is_some() {
            // The run's folders belong to the place that it was trained from.
            (options.images, options.masks, options.sparse) = (None, None, None);
        }
        let dataset = dataset::open(path, &options)?;
        self.reading.borrow_mut().push(Arc::clone(&dataset.reading));
        for line in dataset.report() {
            host.warn("the dataset", line);
        }
        if let Err(error) = check_dataset(&self.folder, &self.recorded, &dataset) {
            match place.other {
                OtherData::Refuse => return Err(error.into()),
                OtherData::Unaccepted => {
                    let Failure { code, message, .. } = error.into();
                    return Err(Failure::new(code, format!("{message}, or add ⟨accept-changed-data⟩")));
                }
                OtherData::Warn => {
                    host.warn("the dataset", error.to_string());
                    return Ok(Arc::new(dataset));
                }
            }
        }
        // Splats were trained with the poses that the run refined: looked at from others they are out of place.
        Ok(Arc::new(with_refined_poses(dataset, &self.folder, &self.recorded)?))
    }

    /// A loader within the memory of the run.
    pub fn loader(&self, dataset: &Arc<Dataset>) -> Loader {
        let budget = MemoryPlan::picture_budget(self.recorded.config.max_memory_bytes());
        let budget_bytes = usize::try_from(budget).unwrap_or(usize::MAX);
        Loader::new(Arc::clone(dataset), LoaderOptions { budget_bytes, threads: 1 })
    }

    /// Path of the saved splats.
    pub fn splats(&self) -> Result<PathBuf, Failure> {
        let path = splats_path(&self.folder);
        if !path.is_file() {
            let folder = self.folder.display();
            let line = format!(
                "{}: no such file: the run has not finished; go on with ⟨resume⟩ {folder}",
                path.display()
            );
            return Err(Failure::new("not-finished", line));
        }
        Ok(path)
    }

    /// Brings the saved splats to a device.
    pub fn load_splats(&self, engine: &mut dyn Engine, host: &mut Host<'_>) -> Result<Document, Failure> {
        load_splats(&self.splats()?, engine, host)
    }

    /// How views of the finished run are rendered.
    pub fn render_options(&self) -> RenderOptions {
        let record = &self.recorded.record;
        let scene = SceneFacts {
            extent: record.scene_extent,
            background: record.background,
            random_background: record.random_background,
            ..SceneFacts::default()
        };
        let recipe = &self.recorded.config.recipe;
        recipe.eval_options(recipe.steps, &scene)
    }

    /// Rotation `splats_from_dataset` that turned the saved splats.
    pub fn splats_from_dataset(&self) -> Mat3 {
        self.recorded.record.up_rotation
    }
}

/// Where the dataset of a run is now, and what may be odd about it.
#[derive(Clone, Copy, Debug)]
pub struct DataPlace<'a> {
    /// Its place; `None` = where the run found it.
    pub path: Option<&'a Path>,
    /// What to do if it is another one.
    pub other: OtherData,
    /// Whether pictures may lie outside the picture folder, even if they might not when the run was trained.
    pub allow_outside: bool,
}

/// What to do with a dataset that is not that of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherData {
    /// An error.
    Refuse,
    /// An error that names the option by which it is taken all the same.
    Unaccepted,
    /// A warning.
    Warn,
}

impl OtherData {
    /// Where the user accepts changed data, a warning.
    pub const fn accepted(is_accepted: bool) -> Self {
        if is_accepted { Self::Warn } else { Self::Unaccepted }
    }
}

/// Reads a splat file, says what is odd about it and brings it to a device.
pub fn load_splats(path: &Path, engine: &mut dyn Engine, host: &mut Host<'_>) -> Result<Document, Failure> {
    let file = splat::load(path, &LoadOptions::default())?;
    for line in file.report.lines(path) {
        host.warn("the splats", line);
    }
    engine.load_splats(file.splats.clone(), Vec::new())?;
    Ok(file)
}

/// How views of a splat file are rendered, as far as it tells.
pub fn file_options(file: &Document) -> RenderOptions {
    RenderOptions {
        sh_degree: file.splats.sh_degree,
        antialiased: file.antialiased,
        ..RenderOptions::default()
    }
}

/// How many splats of a file are the scene, where a sky follows them.
pub fn scene_splats(file: &Document) -> Option<u32> {
    // The device numbers splats with 32 bits and has taken this many.
    (file.sky > 0).then_some(file.scene_len() as u32)
}

/// The rotation that took the splats of a file away from their dataset, whose cameras turn with them; a file that does not tell is
/// taken to be in the dataset's axes, which is said.
///
/// # Errors
/// They were moved or scaled as well.
pub fn turn_of(file: &Document, path: &Path, host: &mut Host<'_>) -> Result<Mat3, Failure> {
    let Some(moved) = file.saved_from_dataset else {
        let line = format!(
            "{}: does not say how its splats stand to the dataset: taken as if they were never turned or moved",
            path.display()
        );
        host.warn("the splats", line);
        return Ok(NOT_TURNED);
    };
    if moved != Similarity::from_rotation(moved.rotation) {
        let line = format!(
            "{}: cameras: those of a dataset do not see these splats, which were moved or scaled since they were trained \
             (expected splats as they were trained or turned; or cameras with ⟨path = FILE⟩)",
            path.display()
        );
        return Err(Failure::new("cameras", line));
    }
    Ok(moved.rotation)
}

/// Splats that nobody turned.
pub const NOT_TURNED: Mat3 = IDENTITY3;
