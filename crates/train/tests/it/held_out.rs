//! Held-out images do not affect training, whichever rule holds them out: their files are not opened, nothing is learnt
//! for their views, and their contents do not change a byte of the splats.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::{
    Call, MockEngine, cpu, ignore, open, options, runs, session_on, splats_of, train, write_scene,
};
use gausset_core::Pose;
use gausset_core::engine::{CorrectionKind, Engine};
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::{Dataset, ImageEntry};
use gausset_io::image::encode::{PngPixels, png};
use gausset_train::{
    BudgetGrowth, Event, Exposure, InitPoints, Quality, RecordedRun, Run, RunEnd, TimeBudget, TrainConfig,
    TrainOptions, with_refined_poses,
};

const SIZE: [u32; 2] = [32, 24];
const STEPS: u64 = 40;

/// A dataset with one of the rules that hold images out.
struct Rule {
    name: &'static str,
    options: TrainOptions,
    /// Names of the held-out images.
    held_out: Vec<&'static str>,
}

/// The eight images of the tiny scene with each rule.
fn rules(folder: &Path) -> Vec<Rule> {
    let make = |name: &'static str, held_out: &[&'static str]| {
        let data = folder.join(name);
        write_scene(&gausset_scenes::tiny(), &data);
        let options = TrainOptions { data: Some(data), ..options(STEPS) };
        Rule { name, options, held_out: held_out.to_vec() }
    };
    let nth = make("every third", &["view_000.png", "view_003.png", "view_006.png"]);
    let nth = Rule { options: TrainOptions { test_every: Some(3), ..nth.options }, ..nth };
    let none = make("none", &[]);
    let none = Rule { options: TrainOptions { test_every: Some(0), ..none.options }, ..none };

    // Four rig frames of two images each; of every two frames the second is held out.
    let moments = make("moments", &["view_002.png", "view_003.png", "view_006.png", "view_007.png"]);
    let moments = Rule { options: TrainOptions { test_every: Some(2), ..moments.options }, ..moments };
    let data = moments.options.data.clone().unwrap();
    std::fs::write(data.join("sparse/0/frames.bin"), frames_of_two(&opened(&moments))).unwrap();

    let list = make("list", &["images/view_001.png", "images/view_004.png"]);
    let names = r#""test_filenames": ["images/view_004.png", "./images/../images/view_001.png"],"#;
    write_json(&list, "transforms.json", names, &["images/"], |_| true);
    // Every file twice; the list contains one of the spellings.
    let twice = make("twice", &["images/view_001.png", "images/view_004.png"]);
    write_json(&twice, "transforms.json", names, &["images/", "images/../images/"], |_| true);
    let files = make("two files", &["images/view_005.png", "images/view_007.png"]);
    let is_test = |image: &ImageEntry| image.name.contains('5') || image.name.contains('7');
    write_json(&files, "transforms_test.json", "", &["images/"], is_test);
    write_json(&files, "transforms_train.json", "", &["images/"], |image| !is_test(image));
    for rule in [&list, &twice, &files] {
        std::fs::remove_dir_all(rule.options.data.as_ref().unwrap().join("sparse")).unwrap();
    }
    let rules = vec![nth, none, moments, list, twice, files];
    for rule in &rules {
        let dataset = opened(rule);
        let names: Vec<&str> = dataset.split.test.iter().map(|&i| &*dataset.images[i].name).collect();
        assert_eq!(names, rule.held_out, "{}", rule.name);
        assert_eq!(dataset.split.train.len() + names.len(), 8);
    }
    rules
}

fn opened(rule: &Rule) -> Arc<Dataset> {
    open(&TrainConfig::resolve(&rule.options, None).unwrap())
}

/// `frames.bin` of a rig of two cameras.
fn frames_of_two(dataset: &Dataset) -> Vec<u8> {
    let moments: Vec<&[ImageEntry]> = dataset.images.chunks(2).collect();
    let mut bytes = (moments.len() as u64).to_le_bytes().to_vec();
    for (frame, images) in (1u32..).zip(moments) {
        bytes.extend(frame.to_le_bytes());
        bytes.extend([0; 60]);
        bytes.extend((images.len() as u32).to_le_bytes());
        for image in images {
            bytes.extend([0; 8]);
            bytes.extend(u64::from(image.id).to_le_bytes());
        }
    }
    bytes
}

/// Writes some images of a rule's COLMAP model as a JSON file (`world_from_camera`, OpenGL axes), once for each
/// spelling of their folder.
fn write_json(rule: &Rule, file: &str, head: &str, folders: &[&str], takes: impl Fn(&ImageEntry) -> bool) {
    let data = rule.options.data.as_ref().unwrap();
    let dataset = gausset_io::dataset::open(&data.join("sparse/0"), &Default::default()).unwrap();
    let frame = |(folder, image): (&str, &ImageEntry)| {
        let (r, c) = (image.pose.rotation, image.pose.centre());
        let row = |k: usize| format!("[{}, {}, {}, {}]", r[0][k], -r[1][k], -r[2][k], c[k]);
        format!(
            "{{\"file_path\": \"{folder}{}\", \"transform_matrix\": [{}, {}, {}, [0, 0, 0, 1]]}}",
            image.name,
            row(0),
            row(1),
            row(2)
        )
    };
    let pictures = dataset.images.iter().filter(|image| takes(image));
    let frames: Vec<String> =
        pictures.flat_map(|image| folders.iter().map(move |folder| (*folder, image))).map(frame).collect();
    let camera = dataset.images[0].camera;
    let text = format!(
        "{{\"fl_x\": {}, \"fl_y\": {}, \"cx\": {}, \"cy\": {}, \"w\": {}, \"h\": {}, {head} \"frames\": [{}]}}",
        camera.fx,
        camera.fy,
        camera.cx,
        camera.cy,
        SIZE[0],
        SIZE[1],
        frames.join(", ")
    );
    std::fs::write(data.join(file), text).unwrap();
}

/// Files of the images of one half, with their masks.
fn files(dataset: &Dataset, half: &[usize]) -> Vec<PathBuf> {
    let images = half.iter().map(|&index| &dataset.images[index]);
    images.flat_map(|image| std::iter::once(image.path.clone()).chain(image.mask.clone())).collect()
}

/// Enables everything that is learnt per view.
fn with_corrections(options: &TrainOptions) -> TrainOptions {
    TrainOptions {
        exposure: Some(Exposure::On),
        refine_poses: Some(true),
        // Stereo reads the training images beforehand.
        init_points: Some(InitPoints::Auto),
        ..options.clone()
    }
}

/// Counts, through the operating system, how often some files are opened.
#[cfg(target_os = "linux")]
struct Watch(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Watch {
    fn on(files: &[PathBuf]) -> Self {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let watch = init(CreateFlags::NONBLOCK).unwrap();
        for file in files {
            add_watch(&watch, file, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        }
        Self(watch)
    }

    /// Number of openings since the last call.
    fn count(&self) -> usize {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = rustix::fs::inotify::Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while events.next().is_ok() {
            count += 1;
        }
        count
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_file_of_a_held_out_picture_is_opened_before_the_evaluation() {
    let (folder, _) = runs();
    for rule in rules(folder.path()) {
        let data = rule.options.data.clone().unwrap();
        for image in &opened(&rule).images {
            let mask = png(SIZE[0], SIZE[1], PngPixels::Grey8(&[255; 32 * 24]), &[]).unwrap();
            let path = data.join("masks").join(&*image.name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, mask).unwrap();
        }
        let steps = with_corrections(&rule.options);
        let budget =
            TrainOptions { time_budget: Some(TimeBudget::Milliseconds(2_000)), steps: None, ..steps.clone() };
        for (kind, given) in [("steps", steps), ("budget", budget)] {
            let run = folder.path().join(format!("{}, {kind}", rule.name));
            let config = TrainConfig::resolve(&given, None).unwrap();
            let dataset = open(&config);
            let test = files(&dataset, &dataset.split.test);
            assert_eq!(test.len(), 2 * rule.held_out.len(), "a mask each");
            let (held_out, trained) = (Watch::on(&test), Watch::on(&files(&dataset, &dataset.split.train)));
            // The last progress event comes before the evaluation begins.
            let mut before = [0, 0];
            let mut events = |event: Event| {
                if matches!(event, Event::Progress(_)) {
                    before[0] += held_out.count();
                    before[1] += trained.count();
                }
            };
            let since = Instant::now();
            let session = session_on(dataset, Box::new(cpu(1)), &Arc::default());
            let mut run = Run::start(config, &run, Overwrite::Refuse, session, &mut events).unwrap();
            run.apply_time_budget(since, BudgetGrowth::Chosen).unwrap();
            assert_eq!(run.train(&mut events).unwrap().end, RunEnd::Finished);
            drop(run);
            assert_eq!(before[0], 0, "{}, {kind}", rule.name);
            assert!(before[1] >= 2 * (8 - rule.held_out.len()), "{}, {kind}: {before:?}", rule.name);
            // The evaluation opens them, which shows that the watch works.
            assert_eq!(held_out.count() == 0, rule.held_out.is_empty(), "{}, {kind}", rule.name);
        }
    }
}

#[test]
fn nothing_is_learnt_for_held_out_views() {
    let (folder, _) = runs();
    for rule in rules(folder.path()) {
        let options = with_corrections(&rule.options);
        let dataset = opened(&rule);
        let moments = |half: &[usize]| match rule.name {
            "moments" => half.len() / 2,
            _ => half.len(),
        };
        let (mut mock, run) = (MockEngine::default(), folder.path().join(format!("{}, mock", rule.name)));
        train(&options, &mut mock, &run, &mut ignore).unwrap();
        for call in &mock.calls {
            if let Call::Step { view, next, .. } = call {
                let views = std::iter::once(view).chain(next.as_ref());
                assert!(
                    views.into_iter().all(|v| dataset.split.train.contains(&(*v as usize))),
                    "{}",
                    rule.name
                );
            }
        }
        let (mut engine, run) = (cpu(1), folder.path().join(format!("{}, run", rule.name)));
        train(&options, &mut engine, &run, &mut ignore).unwrap();
        let state = engine.save().unwrap();
        // A row for each rig frame to train on.
        let rows = |group: CorrectionKind| state.correction_group(group).unwrap().update_counts.len();
        let expected = moments(&dataset.split.train);
        assert_eq!(
            (rows(CorrectionKind::Pose), rows(CorrectionKind::Gain)),
            (expected, expected),
            "{}",
            rule.name
        );
        let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
        let refined = with_refined_poses((*dataset).clone(), &run, &recorded).unwrap();
        let pose = |data: &Dataset, index: usize| -> Pose { data.images[index].pose };
        let moved = |half: &[usize]| {
            half.iter().filter(|&&index| pose(&refined, index) != pose(&dataset, index)).count()
        };
        assert_eq!(moved(&dataset.split.test), 0, "{}", rule.name);
        assert_eq!(moved(&dataset.split.train), dataset.split.train.len(), "{}", rule.name);
    }
}

#[test]
fn what_held_out_pictures_show_does_not_change_a_byte_of_the_splats() {
    let (folder, _) = runs();
    for rule in rules(folder.path()) {
        // A preset, evaluations during training, and everything that is learnt.
        let options = TrainOptions {
            quality: Some(Quality::Best),
            eval_every: (!rule.held_out.is_empty()).then_some(10),
            ..with_corrections(&rule.options)
        };
        let splats = |name: &str| {
            let run = folder.path().join(format!("{}, {name}", rule.name));
            let outcome = train(&options, &mut cpu(1), &run, &mut ignore).unwrap();
            (splats_of(&run), outcome.summary.psnr)
        };
        let (before, psnr) = splats("as they are");
        let dataset = opened(&rule);
        for (k, &index) in dataset.split.test.iter().enumerate() {
            // Noise: everything but the size differs.
            let noise: Vec<u8> = (0..3 * SIZE[0] * SIZE[1])
                .map(|i| (i.wrapping_mul(2_654_435_761).rotate_left(9 + k as u32) >> 24) as u8)
                .collect();
            let noise = png(SIZE[0], SIZE[1], PngPixels::Rgb8(&noise), &[]).unwrap();
            std::fs::write(&dataset.images[index].path, noise).unwrap();
        }
        let (after, other_psnr) = splats("noise");
        assert!(before == after, "{}", rule.name);
        assert_eq!(psnr != other_psnr, !rule.held_out.is_empty(), "{}: the noise was looked at", rule.name);
    }
}

#[test]
fn a_held_out_picture_that_cannot_be_read_does_not_stop_the_training() {
    let (folder, run) = runs();
    let rule = rules(folder.path()).swap_remove(0);
    let whole = folder.path().join("whole");
    train(&rule.options, &mut cpu(1), &whole, &mut ignore).unwrap();
    let config = TrainConfig::resolve(&rule.options, None).unwrap();
    let dataset = open(&config);
    for file in files(&dataset, &dataset.split.test) {
        std::fs::remove_file(file).unwrap();
    }
    let stop = Arc::<AtomicBool>::default();
    let session = session_on(dataset, Box::new(cpu(1)), &stop);
    let mut started = Run::start(config, &run, Overwrite::Refuse, session, &mut |_| {}).unwrap();
    let outcome = started.train(&mut |_| {}).unwrap();
    assert!(outcome.skipped.is_empty() && !stop.load(Ordering::Relaxed));
    assert_eq!(outcome.evaluation.unwrap().skipped.len(), 3);
    // As without held-out images, training images are scored.
    assert!(outcome.summary.psnr.is_none() && outcome.summary.trust.training_psnr.is_some());
    assert!(run.join("confidence.json").is_file());
    assert!(splats_of(&run) == splats_of(&whole));
}
