//! Recovery from a lost device and from exhausted device memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gausset_compute::Pool;
use gausset_core::engine::{
    MemoryEstimate, Outputs, RenderOptions, Rendering, SceneSize, StepParams, TrainView,
};
use gausset_core::{Camera, Pose};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::dataset::init::{self, InitOptions};
use gausset_train::{Background, BlockedRun, Totals};
use tempfile::TempDir;

use super::*;

/// An engine that fails after this many steps.
struct LostDevice(CpuEngine, AtomicU64, EngineError);

impl Engine for LostDevice {
    gausset_testkit::forward_to_engine!(|self| self.0; describe needs load save corrections densify flush poll render_into);

    fn step(
        &mut self,
        views: &[TrainView],
        next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError> {
        if self.1.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.1.store(0, Ordering::Relaxed);
            return Err(self.2.clone());
        }
        self.0.step(views, next, params)
    }
}

fn lost_after(steps: u64) -> Box<dyn Engine> {
    let cpu = CpuEngine::new(CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
    Box::new(LostDevice(
        cpu,
        AtomicU64::new(steps),
        EngineError::DeviceFailed("a card: the device is lost".to_owned()),
    ))
}

fn out_of_memory_after(steps: u64) -> Box<dyn Engine> {
    let cpu = CpuEngine::new(CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
    let error = EngineError::OutOfMemory { what: "Slots on a card".to_owned(), needed: 48 << 20, limit: 0 };
    Box::new(LostDevice(cpu, AtomicU64::new(steps), error))
}

/// Trains 40 steps with a checkpoint every `every` steps. Returns the result and the warnings.
fn train_on(
    data: &Path,
    run: &Path,
    engine: Option<Box<dyn Engine>>,
    every: u64,
    lost_at: Option<u64>,
) -> (Result<Trained, Failure>, Vec<String>) {
    let options = TrainOptions {
        data: Some(data.to_owned()),
        steps: Some(40),
        max_splats: Some(400),
        threads: Some(1),
        checkpoint_every: Some(every),
        background: Some(Background::Colour([0.0; 3])),
        ..TrainOptions::default()
    };
    let conditions = RunSettings { report: false, ..RunSettings::for_device(DeviceOptions::default()) };
    let stop = Arc::<AtomicBool>::default();
    let mut warnings = Vec::new();
    let mut events = |event: Event| {
        if let Event::Warning { line, .. } = event {
            warnings.push(line);
        }
    };
    let mut host = Host::new(&stop, &mut events);
    let task = Task::new(options, run.to_owned(), Overwrite::Refuse).unwrap();
    let config = task.first_config().unwrap();
    let engine = engine.unwrap_or_else(|| conditions.device.engine(1).unwrap());
    let dataset = Arc::new(dataset::open(data, &config.open_options()).unwrap());
    let begun = Trainer::open(task, config, (engine, None), dataset, conditions, &mut host).unwrap();
    let trained = Trainer { lost_at, ..begun }.finish_started(&mut host);
    (trained, warnings)
}

#[test]
fn a_run_whose_device_is_lost_goes_on_from_its_checkpoint_to_the_same_bytes() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    gausset_scenes::write_dataset(&gausset_scenes::tiny(), &data, &Pool::new(1), &mut |_, _| {}).unwrap();
    let [whole, lost, early, twice] = ["whole", "lost", "early", "twice"].map(|name| root.path().join(name));
    let bytes = |run: &Path| std::fs::read(run.join("splats.ply")).unwrap();

    train_on(&data, &whole, None, 10, None).0.unwrap();
    let (trained, warnings) = train_on(&data, &lost, Some(lost_after(25)), 10, None);
    assert_eq!(trained.unwrap().outcome.summary.steps, 40);
    let is_told = |line: &String| line.contains("lost; the run resumes from the checkpoint of step 20");
    assert_eq!(warnings.iter().filter(|line| is_told(line)).count(), 1, "{warnings:?}");
    assert_eq!(bytes(&lost), bytes(&whole));

    // Exhausted memory is handled like a lost device.
    let full = root.path().join("full");
    let (trained, warnings) = train_on(&data, &full, Some(out_of_memory_after(25)), 10, None);
    trained.unwrap();
    let line = "Slots on a card would need 48.0 MiB of memory, and the device has none left; the run resumes from the \
                checkpoint of step 20";
    assert!(warnings.iter().any(|warning| warning == line), "{warnings:?}");
    assert_eq!(bytes(&full), bytes(&whole));
    let again = root.path().join("again");
    let failure = train_on(&data, &again, Some(out_of_memory_after(25)), 10, Some(3)).0.unwrap_err();
    let end = "has none left; the last checkpoint is that of step 20";
    assert!(failure.to_string().ends_with(end) && !failure.to_string().contains('\n'), "{failure}");

    // Without a checkpoint the run cannot resume.
    let failure = train_on(&data, &early, Some(lost_after(5)), 10, None).0.unwrap_err();
    assert!(failure.to_string().ends_with("the device is lost; there is no checkpoint yet"), "{failure}");
    assert_eq!(failure.code, "device");
    // A second loss within 100 steps is final.
    let failure = train_on(&data, &twice, Some(lost_after(25)), 10, Some(3)).0.unwrap_err();
    assert!(failure.to_string().ends_with("the last checkpoint is that of step 20"), "{failure}");
}

/// An engine that fails when it renders.
struct LostWhenRendering(CpuEngine);

impl Engine for LostWhenRendering {
    gausset_testkit::forward_to_engine!(|self| self.0; describe needs load save corrections densify flush poll);

    fn step(&mut self, _: &[TrainView], _: &[TrainView], _: &StepParams) -> Result<(), EngineError> {
        panic!("a merged set is not trained");
    }

    fn render_into(
        &mut self,
        _: &Camera,
        _: &Pose,
        _: &RenderOptions,
        _: Outputs,
        _: &mut Rendering,
    ) -> Result<(), EngineError> {
        Err(EngineError::DeviceFailed("a card: the device is lost".to_owned()))
    }
}

#[test]
fn a_merged_set_is_not_trained_as_a_whole_if_the_device_is_lost_in_its_evaluation() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    gausset_scenes::write_dataset(&gausset_scenes::tiny(), &data, &Pool::new(1), &mut |_, _| {}).unwrap();
    let options = TrainOptions {
        data: Some(data.clone()),
        blocks: Some(Blocks::Count(2)),
        steps: Some(40),
        max_splats: Some(400),
        threads: Some(1),
        ..TrainOptions::default()
    };
    let run = root.path().join("run");
    let conditions = RunSettings { report: false, ..RunSettings::for_device(DeviceOptions::default()) };
    let (stop, mut events) = (Arc::<AtomicBool>::default(), |_| {});
    let mut host = Host::new(&stop, &mut events);
    let config = TrainConfig::resolve(&options, None).unwrap();
    let dataset = Arc::new(dataset::open(&data, &config.open_options()).unwrap());
    let cpu = CpuEngine::new(CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
    let engine: Box<dyn Engine> = Box::new(LostWhenRendering(cpu));
    let whole =
        BlockedRun::start(config, &run, Overwrite::Refuse, dataset, &engine.describe(), &stop).unwrap();
    let dataset = Arc::clone(whole.dataset());
    let splats = init::initial_splats(&dataset, &InitOptions::CLASSIC).splats;
    let session = Session {
        dataset,
        engine,
        device_choice: None,
        fs: Arc::new(Disk),
        stop: Arc::clone(&stop),
        has_viewer: false,
        block: None,
    };
    let merged = whole.finish(splats, Vec::new(), Totals::default(), session).unwrap();
    let failure = Trainer::of_run(merged, conditions, false).finish_started(&mut host).unwrap_err();
    assert_eq!(failure.code, "device", "{failure}");
    assert!(failure.to_string().contains("the device is lost"), "{failure}");
}

#[test]
fn a_device_that_is_reopened_does_not_move_the_end_of_a_time_budget() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    gausset_scenes::write_dataset(&gausset_scenes::tiny(), &data, &Pool::new(1), &mut |_, _| {}).unwrap();
    let options = TrainOptions {
        data: Some(data),
        time_budget: Some("100s".parse().unwrap()),
        max_splats: Some(400),
        threads: Some(1),
        ..TrainOptions::default()
    };
    let conditions = RunSettings { report: false, ..RunSettings::for_device(DeviceOptions::default()) };
    let (stop, mut events) = (Arc::<AtomicBool>::default(), |_| {});
    let mut host = Host::new(&stop, &mut events);
    let task = Task::new(options, root.path().join("run"), Overwrite::Refuse).unwrap();
    let mut trainer = Trainer::new(task, conditions, &mut host).unwrap();
    while trainer.run().step() < 20 {
        trainer.advance(&mut host).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    trainer.run().save_checkpoint().unwrap();
    let end = trainer.run().deadline();
    assert_eq!(end, conditions.started.checked_add(std::time::Duration::from_secs(100)));
    let lost = EngineError::DeviceFailed("a card: the device is lost".to_owned());
    let mut again = trainer.reopen_device(&lost, 20, &mut host).unwrap();
    assert_eq!((again.run().step(), again.run().deadline()), (20, end));
}

/// A device with this many bytes of its own memory, or without such memory if they are 0, and more host memory than any
/// machine has.
struct SmallGpu(CpuEngine, u64);

impl Engine for SmallGpu {
    gausset_testkit::forward_to_engine!(
        |self| self.0; describe load save corrections step densify flush poll render_into);

    fn memory_needs(&self, scene: &SceneSize) -> MemoryEstimate {
        let mut need = self.0.memory_needs(scene);
        if self.1 == 0 {
            need.host.working += 1 << 60;
            return MemoryEstimate { limit: Some(u64::MAX), ..need };
        }
        MemoryEstimate { device: need.host, limit: Some(self.1), ..need }
    }
}

#[test]
fn a_card_that_nobody_has_named_is_left_where_its_memory_is_too_small() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    gausset_scenes::write_dataset(&gausset_scenes::tiny(), &data, &Pool::new(1), &mut |_, _| {}).unwrap();
    let options = TrainOptions {
        data: Some(data.clone()),
        threads: Some(1),
        max_splats: Some(400),
        ..TrainOptions::default()
    };
    let dataset = Arc::new(dataset::open(&data, &Default::default()).unwrap());
    let conditions = RunSettings::for_device(DeviceOptions::default());
    let taken = |bytes: u64, why: Option<&str>| {
        let task = Task::new(options.clone(), folder.path().join("run"), Overwrite::Refuse).unwrap();
        let cpu = CpuEngine::new(CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
        let chosen: ChosenEngine = (Box::new(SmallGpu(cpu, bytes)), why.map(str::to_owned));
        let stop = Arc::<AtomicBool>::default();
        let mut told = Vec::new();
        let mut events = |event: Event| {
            if let Event::DeviceChosen(reason) = event {
                told.push(reason);
            }
        };
        let chosen = task
            .with_enough_memory(chosen, &dataset, conditions, &mut Host::new(&stop, &mut events))
            .unwrap();
        let scene = SceneSize { splats: 1, ..SceneSize::default() };
        (chosen.0.memory_needs(&scene).limit, chosen.1, told)
    };
    let why = Some("a discrete GPU");
    let card = (Some(1 << 30), why.map(str::to_owned), Vec::new());
    assert_eq!(taken(1 << 30, why), card, "it fits");
    let (limit, reason, told) = taken(1 << 10, why);
    assert_eq!(limit, None, "the CPU");
    let reason = reason.expect("why");
    assert!(reason.starts_with("the CPU, because ") && reason.contains("has 1.0 KiB of memory"), "{reason}");
    assert_eq!(told, [reason]);
    assert_eq!(taken(0, why).0, None, "shared memory");
    assert_eq!(taken(1 << 10, None), (Some(1 << 10), None, Vec::new()), "named by the user");
}
