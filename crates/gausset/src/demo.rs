//! Generates a procedural scene, trains and evaluates it: a check that the whole pipeline works.
//!
//! ```text
//! DIR/.tmp-data/  the scene during generation ──rename──▶ DIR/data/  with demo.json, which records the scene
//! DIR/run/        the run; an interrupted run resumes
//! ```
//! Both scene folders have an ownership marker ([`gausset_io::ownership`]); a folder without it is never removed.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_compute::Pool;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, write_atomic};
use gausset_io::input;
use gausset_io::ownership::{self, MARKER, OwnershipError};
use gausset_scenes::{DemoSize, ProceduralScene, write_dataset};
use gausset_train::{TrainConfig, TrainOptions, read_outcome};
use serde::{Deserialize, Serialize};

use crate::saved_run::SavedRun;
use crate::training::{RunSettings, Trained, start_or_resume};
use crate::{CountedItem, Event, Failure, Host, Stage};

/// Scene of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoScene {
    /// Toys on a table.
    Table,
    /// A town from the air and on foot, in this many pictures (`gausset_scenes::town::PICTURES`).
    Town(u32),
}

/// Options of the demo.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The scene.
    pub scene: DemoScene,
    /// Size of the pictures, and of the table's set.
    pub size: DemoSize,
    /// Folder for scene and run.
    pub output: PathBuf,
    /// Steps of the training; `None` = as many as the scene needs, 0 = only the dataset.
    pub steps: Option<u64>,
    /// Seed of the scene and of the training.
    pub seed: u64,
    /// Replace the demo in the folder.
    pub force: bool,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
}

/// Training options per scene size: as many steps and splats as its images need.
fn training_options(args: &DemoOptions, data: PathBuf) -> TrainOptions {
    let common = TrainOptions {
        data: Some(data),
        steps: args.steps,
        seed: Some(args.seed),
        threads: Some(args.threads),
        ..TrainOptions::default()
    };
    if let DemoScene::Town(pictures) = args.scene {
        let pictures = u64::from(pictures);
        let (steps, splats) = match args.size {
            DemoSize::Small => (1_000, 100),
            DemoSize::Default => (4_000, 400),
        };
        let (steps, splats) = (Some(steps.max(10 * pictures)), Some((splats * pictures).max(20_000)));
        return common.or(TrainOptions { steps, max_splats: splats, ..TrainOptions::default() });
    }
    common.or(match args.size {
        // With so few steps, splats start as wide as the point spacing and the learning rates are higher than usual.
        DemoSize::Small => TrainOptions {
            steps: Some(300),
            max_splats: Some(6_000),
            initial_scale: Some(1.0),
            initial_opacity: Some(0.3),
            lr_means: Some(5e-4),
            lr_scales: Some(2e-2),
            lr_sh_dc: Some(1e-2),
            ..TrainOptions::default()
        },
        DemoSize::Default => {
            TrainOptions { steps: Some(4_000), max_splats: Some(60_000), ..TrainOptions::default() }
        }
    })
}

/// Content of `DIR/data/demo.json`: identifies the scene.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SceneNote {
    /// Older notes are of the table.
    #[serde(default = "table")]
    scene: String,
    size: String,
    seed: u64,
    /// Pictures of a town.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pictures: Option<u32>,
}

fn table() -> String {
    "table".to_owned()
}

/// File name of the [`SceneNote`] in the dataset.
const NOTE: &str = "demo.json";
/// Size limit of that file.
const MAX_NOTE_BYTES: u64 = 4096;
/// Purpose in the ownership marker of the dataset.
const PURPOSE: &str = "demo";

impl SceneNote {
    fn of(args: &DemoOptions) -> Self {
        let size = if args.size == DemoSize::Small { "small" } else { "default" };
        let (scene, pictures) = match args.scene {
            DemoScene::Table => (table(), None),
            DemoScene::Town(pictures) => ("town".to_owned(), Some(pictures)),
        };
        Self { scene, size: size.to_owned(), seed: args.seed, pictures }
    }

    /// Reads the note of a dataset; `None` if the dataset is not from a demo.
    fn read(data: &Path) -> Option<Self> {
        serde_json::from_slice(&input::read(&data.join(NOTE), MAX_NOTE_BYTES).ok()?).ok()
    }
}

/// The run of a demo.
#[derive(Debug)]
pub struct DemoRun {
    folder: PathBuf,
    options: TrainOptions,
    overwrite: Overwrite,
}

impl DemoRun {
    /// Trains and evaluates, or resumes; a finished run is only reported again.
    ///
    /// # Errors
    /// As [`start_or_resume`].
    pub fn train(self, conditions: RunSettings, host: &mut Host<'_>) -> Result<Trained, Failure> {
        start_or_resume(self.folder, &self.options, self.overwrite, conditions, host)
    }
}

/// Generates the scene unless it exists, and returns the run for [`start_or_resume`]: a new one, the interrupted one or the
/// finished one; `None` for 0 steps. Generation does not react to the stop flag, because a partial scene is useless.
///
/// # Errors
/// A folder with another demo or with files not created by Gausset; a folder that cannot be written to.
pub fn prepare(args: &DemoOptions, host: &mut Host<'_>) -> Result<Option<DemoRun>, Failure> {
    let (data, run) = (args.output.join("data"), args.output.join("run"));
    // Report a mistake in the options before the scene is generated.
    let options = training_options(args, data.clone());
    let trains = args.steps != Some(0);
    if trains {
        TrainConfig::resolve(&options, None)?;
    }
    let is_same_scene = SceneNote::read(&data) == Some(SceneNote::of(args));
    let has_run = SavedRun::is_run_folder(&run);
    let is_finished = has_run && read_outcome(&run)?.is_some();
    let goes_on = !args.force && has_run && is_same_scene && !is_finished;
    // `symlink_metadata`: a broken link blocks the name as well.
    let has_data = data.symlink_metadata().is_ok();
    // `force` does not replace data that was not created by a demo.
    if has_data && (args.force || !is_same_scene) && !ownership::is_gausset_owned(&data, PURPOSE) {
        return Err(not_a_demo(&data));
    }
    if !args.force && !is_same_scene && (has_run || has_data) {
        let found = if has_run { "run" } else { "data" };
        return Err(demo_exists(&args.output, found));
    }
    if args.force || !is_same_scene {
        generate_scene(args, &data, host)?;
    }
    if !trains {
        return Ok(None);
    }
    if goes_on {
        host.stage(Stage::GoOn(run.clone()));
    }
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    Ok(Some(DemoRun { folder: run, options, overwrite }))
}

fn demo_exists(folder: &Path, found: &str) -> Failure {
    let folder = folder.display();
    Failure::new(
        "exists",
        format!(
            "{folder}: folder: contains a demo already (expected an empty or new folder, found {found}); choose another with ⟨output⟩, or replace it with ⟨force⟩"
        ),
    )
}

fn not_a_demo(data: &Path) -> Failure {
    let data = data.display();
    Failure::new(
        "exists",
        format!(
            "{data}: folder: was not created by a demo (expected {MARKER} of a demo in it); choose another folder with ⟨output⟩, or remove it yourself"
        ),
    )
}

/// Writes the scene as a dataset and moves it into place when complete. Removes the remains of an interrupted demo
/// first.
fn generate_scene(args: &DemoOptions, data: &Path, host: &mut Host<'_>) -> Result<(), Failure> {
    host.stage(Stage::MakeScene(data.to_owned()));
    let unfinished = args.output.join(".tmp-data");
    remove(&unfinished)?;
    ownership::claim_folder(&Disk, &unfinished, PURPOSE, Overwrite::Refuse).map_err(ownership_failure)?;
    let scene = make_scene(args);
    let threads = args.threads as usize;
    let pool = if threads == 0 { Pool::with_all_cores() } else { Pool::new(threads) };
    host.report(Event::Begun { item: CountedItem::Pictures, done: 0, total: scene.poses.len() as u64 });
    let written = write_dataset(&scene, &unfinished, &pool, &mut |done, _all| {
        host.report(Event::Done { done: done as u64, views_per_s: None });
    });
    host.report(Event::Ended);
    written.map_err(|error| Failure::new("write", error))?;
    let note = serde_json::to_vec(&SceneNote::of(args)).unwrap_or_default();
    write_atomic(&Disk, &unfinished.join(NOTE), |file| file.write_all(&note))?;
    remove(data)?;
    Disk.rename(&unfinished, data).map_err(|error| write_failure(data, "rename", &error))?;
    Disk.sync_folder(&args.output).map_err(|error| write_failure(&args.output, "sync folder", &error))
}

fn make_scene(args: &DemoOptions) -> ProceduralScene {
    match (args.scene, args.size) {
        (DemoScene::Table, size) => gausset_scenes::demo(size, args.seed),
        (DemoScene::Town(pictures), DemoSize::Small) => gausset_scenes::town(pictures, 200, args.seed),
        (DemoScene::Town(pictures), DemoSize::Default) => gausset_scenes::town(pictures, 400, args.seed),
    }
}

/// Removes a folder that a demo created, if it exists.
fn remove(folder: &Path) -> Result<(), Failure> {
    ownership::remove(folder, PURPOSE).map_err(ownership_failure)
}

fn ownership_failure(error: OwnershipError) -> Failure {
    match error {
        OwnershipError::Write(error) => error.into(),
        // `--force` does not help here.
        OwnershipError::ThirdPartyFiles { path, .. } => not_a_demo(&path),
    }
}

fn write_failure(path: &Path, action: &str, error: &std::io::Error) -> Failure {
    let reason = gausset_io::atomic::plain_reason(error);
    Failure::new("write", format!("{}: {action}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(scene: DemoScene) -> SceneNote {
        let output = PathBuf::from("d");
        let (size, seed) = (DemoSize::Small, 3);
        SceneNote::of(&DemoOptions { scene, size, output, steps: None, seed, force: false, threads: 1 })
    }

    #[test]
    fn a_note_without_a_scene_is_of_the_table_and_towns_differ_by_their_pictures() {
        let old: SceneNote = serde_json::from_str(r#"{"size":"small","seed":3}"#).unwrap();
        assert_eq!(old, note(DemoScene::Table));
        let town = note(DemoScene::Town(40));
        assert_ne!(town, note(DemoScene::Town(41)));
        let back: SceneNote = serde_json::from_slice(&serde_json::to_vec(&town).unwrap()).unwrap();
        assert_eq!(back, town);
    }
}
