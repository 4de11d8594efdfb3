//! Shared by the tests of runs: a tiny dataset, runs on it, and a mock device.
#![allow(unreachable_pub, reason = "shared by the tests beside it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use gausset_compute::Pool;
use gausset_core::engine::{
    DensityRule, DeviceInfo, Engine, EngineError, MemoryEstimate, Outputs, RenderOptions, Rendering,
    SceneSize, StepParams, StepReport, TrainState, TrainView,
};
use gausset_core::{Camera, Pose};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::atomic::{Disk, Overwrite};
use gausset_io::dataset::{self, Dataset};
use gausset_train::{
    Background, Event, InitPoints, Run, RunOutcome, Session, TrainConfig, TrainError, TrainOptions,
    resumable_config,
};
use tempfile::TempDir;

/// The tiny demo scene as a dataset: eight images of 32x24 px, one of them held out. Every test process writes the same
/// bytes to the same place, each file atomically.
pub fn tiny_dataset() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiny-dataset");
        write_scene(&gausset_scenes::tiny(), &folder);
        folder
    })
}

/// The small demo scene: images of 160x120 px.
pub fn small_dataset() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small-dataset");
        write_scene(&gausset_scenes::demo(gausset_scenes::DemoSize::Small, 0), &folder);
        folder
    })
}

pub fn write_scene(scene: &gausset_scenes::ProceduralScene, folder: &Path) {
    gausset_scenes::write_dataset(scene, folder, &Pool::new(1), &mut |_, _| {}).unwrap();
}

/// A short run on the tiny dataset with little growth.
pub fn options(steps: u64) -> TrainOptions {
    TrainOptions {
        data: Some(tiny_dataset().to_owned()),
        steps: Some(steps),
        max_splats: Some(400),
        threads: Some(1),
        checkpoint_every: Some(0),
        checkpoint_seconds: Some(0),
        // The dense start is tested in dense.rs.
        init_points: Some(InitPoints::Sfm),
        // The sky has its own tests.
        background: Some(Background::Colour([0.0; 3])),
        ..TrainOptions::default()
    }
}

pub fn cpu(threads: usize) -> CpuEngine {
    CpuEngine::new(CpuOptions { threads, ..CpuOptions::default() }).unwrap()
}

pub fn open(config: &TrainConfig) -> Arc<Dataset> {
    Arc::new(dataset::open(&config.data.path, &config.open_options()).unwrap())
}

/// Callback of a test during a run: it receives each event and can set the stop flag.
pub type OnEvent<'a> = &'a mut dyn FnMut(&Event, &AtomicBool);

/// The session of a run, on a disk without faults.
pub fn session(config: &TrainConfig, engine: Box<dyn Engine>, stop: &Arc<AtomicBool>) -> Session {
    session_on(open(config), engine, stop)
}

/// The same on an opened dataset.
pub fn session_on(dataset: Arc<Dataset>, engine: Box<dyn Engine>, stop: &Arc<AtomicBool>) -> Session {
    Session {
        dataset,
        engine,
        device_choice: None,
        fs: Arc::new(Disk),
        stop: Arc::clone(stop),
        has_viewer: false,
        block: None,
    }
}

/// Trains a new run from its options to its end.
pub fn train(
    options: &TrainOptions,
    engine: &mut impl Spare,
    run: &Path,
    on_event: OnEvent<'_>,
) -> Result<RunOutcome, TrainError> {
    let config = TrainConfig::resolve(options, None)?;
    let stop = Arc::<AtomicBool>::default();
    lend(engine, |engine| {
        let session = session(&config, engine, &stop);
        let mut events = |event: Event| on_event(&event, &stop);
        Run::start(config, run, Overwrite::Refuse, session, &mut events)?.train(&mut events)
    })
}

/// Resumes a run and trains it to its end.
pub fn resume(
    given: &TrainOptions,
    engine: &mut impl Spare,
    run: &Path,
    on_event: OnEvent<'_>,
) -> Result<RunOutcome, TrainError> {
    let config = resumable_config(run, given)?;
    let stop = Arc::<AtomicBool>::default();
    lend(engine, |engine| {
        let session = session(&config, engine, &stop);
        let mut events = |event: Event| on_event(&event, &stop);
        Run::resume(config, run, session, &mut events)?.train(&mut events)
    })
}

/// A device that can be replaced by a placeholder while a run owns it.
pub trait Spare: Engine + 'static {
    fn spare() -> Self;
}

impl Spare for CpuEngine {
    fn spare() -> Self {
        cpu(1)
    }
}

impl Spare for MockEngine {
    fn spare() -> Self {
        Self::default()
    }
}

/// Lends a device to a run, which owns its device; its state is visible again afterwards.
pub fn lend<E: Spare, T>(engine: &mut E, work: impl FnOnce(Box<dyn Engine>) -> T) -> T {
    let lent = Arc::new(Mutex::new(std::mem::replace(engine, E::spare())));
    let done = work(Box::new(Lent(Arc::clone(&lent))));
    *engine = Arc::into_inner(lent).expect("the run is over").into_inner().unwrap();
    done
}

struct Lent<E>(Arc<Mutex<E>>);

impl<E: Engine> Engine for Lent<E> {
    gausset_testkit::forward_to_engine!(
        |self| self.0.lock().unwrap();
        describe needs limit_memory load load_splats save corrections step densify flush poll render_into weight_in_front
    );
}

/// Ignores events.
pub fn ignore(_: &Event, _: &AtomicBool) {}

/// A splat file as golden bytes record it: without its `saved_from_dataset` comment, and of version 0.1.0.
#[allow(dead_code, reason = "not every test looks at recorded bytes")]
pub fn without_turn(file: &[u8]) -> Vec<u8> {
    let find = |mark: &[u8]| file.windows(mark.len()).position(|part| part == mark).expect("a comment");
    let version = find(b"comment Generated by gausset ") + b"comment Generated by gausset ".len();
    let start = find(b"comment gausset saved_from_dataset");
    let length = file[start..].iter().position(|byte| *byte == b'\n').expect("its end") + 1;
    let after_version = version + env!("CARGO_PKG_VERSION").len();
    [&file[..version], b"0.1.0", &file[after_version..start], &file[start + length..]].concat()
}

pub fn splats_of(run: &Path) -> Vec<u8> {
    std::fs::read(run.join("splats.ply")).unwrap()
}

/// Copies a run folder in its current state, which is what a kill would leave.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Sets the flag once `step` steps are done.
pub fn stop_at(step: u64) -> impl FnMut(&Event, &AtomicBool) {
    move |event, stop| {
        if matches!(event, Event::Progress(progress) if progress.step >= step) {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// A call of the trainer, with the parts that tests check.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Load { splats: usize, extras: Vec<(String, usize)> },
    Step { step: u64, view: u32, next: Option<u32>, exposure_row: Option<u32>, pose_row: Option<u32> },
    Densify(DensityRule),
    Flush,
    Save,
    Render,
}

/// A device that records its calls and computes nothing.
#[derive(Default)]
pub struct MockEngine {
    pub calls: Vec<Call>,
    pub params: Vec<StepParams>,
    /// Step whose loss is NaN.
    pub fails_at: Option<u64>,
    state: TrainState,
    steps: u64,
    failed: Option<EngineError>,
}

impl MockEngine {
    pub fn failing_at(step: u64) -> Self {
        Self { fails_at: Some(step), ..Self::default() }
    }
}

impl Engine for MockEngine {
    fn describe(&self) -> DeviceInfo {
        DeviceInfo { name: "mock".to_owned(), kind: "mock".to_owned(), threads: 1, ..DeviceInfo::default() }
    }

    /// About the memory of the CPU engine.
    fn memory_needs(&self, scene: &SceneSize) -> MemoryEstimate {
        let host = gausset_core::engine::MemoryBytes {
            state: scene.splats * TrainState::bytes_per_splat(scene.sh_degree),
            working: 200 * scene.splats + 280 * scene.pixels,
        };
        MemoryEstimate { host, ..MemoryEstimate::default() }
    }

    fn load(&mut self, state: TrainState) -> Result<(), EngineError> {
        let extras = state
            .corrections
            .iter()
            .map(|group| (group.group.name().to_owned(), group.update_counts.len()))
            .collect();
        self.calls.push(Call::Load { splats: state.splats.len(), extras });
        self.state = state;
        Ok(())
    }

    fn save(&mut self) -> Result<TrainState, EngineError> {
        self.calls.push(Call::Save);
        Ok(self.state.clone())
    }

    fn step(
        &mut self,
        views: &[TrainView],
        next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError> {
        let [view] = views else { panic!("{} views", views.len()) };
        assert_eq!((view.target.width, view.target.height), (view.camera.width, view.camera.height));
        self.calls.push(Call::Step {
            step: params.step,
            view: view.index,
            next: next.first().map(|view| view.index),
            exposure_row: view.exposure_row,
            pose_row: view.pose_row,
        });
        self.params.push(*params);
        if self.fails_at == Some(params.step) {
            let (step, view) = (params.step, view.name.to_string());
            self.failed = Some(EngineError::NonFiniteLoss { step, view, loss: f64::NAN });
        }
        self.steps += 1;
        Ok(())
    }

    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError> {
        self.calls.push(Call::Densify(rule.clone()));
        Ok(())
    }

    fn flush(&mut self) -> Result<StepReport, EngineError> {
        self.calls.push(Call::Flush);
        if let Some(error) = self.failed.clone() {
            return Err(error);
        }
        let steps = std::mem::take(&mut self.steps);
        let splats = self.state.splats.len() as u64;
        Ok(StepReport {
            steps,
            loss_sum: 0.5 * steps as f64,
            last_loss: 0.5,
            splats,
            ..StepReport::default()
        })
    }

    fn poll(&mut self) -> Result<StepReport, EngineError> {
        self.flush()
    }

    fn render_into(
        &mut self,
        camera: &Camera,
        _pose: &Pose,
        options: &RenderOptions,
        _outputs: Outputs,
        rendering: &mut Rendering,
    ) -> Result<(), EngineError> {
        self.calls.push(Call::Render);
        let pixels = camera.pixels();
        *rendering = Rendering {
            width: camera.width,
            height: camera.height,
            color: options.background.iter().copied().cycle().take(3 * pixels).collect(),
            alpha: vec![0.0; pixels],
            depth: vec![0.0; pixels],
            count: vec![0; pixels],
            capped_tiles: 0,
        };
        Ok(())
    }
}

/// A new temporary folder for runs.
pub fn runs() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    (folder, run)
}
