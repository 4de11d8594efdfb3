//! Calls of a run to its device, its events and files, and how it ends after an error.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::common::{
    Call, MockEngine, copy_folder, cpu, ignore, open, options, resume, runs, session, splats_of, stop_at,
    tiny_dataset, train, write_scene,
};
use gausset_core::engine::DensityRule;
use gausset_io::atomic::Overwrite;
use gausset_io::splat::LoadOptions;
use gausset_train::{
    Event, Exposure, FreeSpace, MemoryLimit, MemoryPlan, RecordedRun, Run, RunEnd, RunWarning, Strategy,
    TrainConfig, TrainError, TrainOptions, Up, read_summary, resumable_config,
};

fn mock_calls(options: &TrainOptions) -> MockEngine {
    let (_folder, run) = runs();
    let mut engine = MockEngine::default();
    train(options, &mut engine, &run, &mut ignore).unwrap();
    engine
}

#[test]
fn each_step_names_its_view_and_the_one_that_follows() {
    let engine = mock_calls(&options(30));
    let steps: Vec<(u64, u32, Option<u32>)> = engine
        .calls
        .iter()
        .filter_map(|call| match call {
            Call::Step { step, view, next, .. } => Some((*step, *view, *next)),
            _ => None,
        })
        .collect();
    assert_eq!(steps.iter().map(|s| s.0).collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
    for pair in steps.windows(2) {
        assert_eq!(pair[0].2, Some(pair[1].1));
    }
    // Image 0 is held out; every epoch of seven steps uses the seven others.
    for epoch in steps.chunks_exact(7) {
        let mut views: Vec<u32> = epoch.iter().map(|s| s.1).collect();
        views.sort_unstable();
        assert_eq!(views, (1..8).collect::<Vec<_>>());
    }
}

#[test]
fn the_set_changes_between_steps_as_the_recipe_says() {
    let engine = mock_calls(&TrainOptions { strategy: Some(Strategy::Classic), ..options(300) });
    let (mut done, mut changes, mut resets) = (0, Vec::new(), Vec::new());
    for call in &engine.calls {
        match call {
            Call::Step { step, .. } => done = step + 1,
            Call::Densify(DensityRule::Classic(rule)) => {
                assert_eq!(rule.step, done);
                changes.push(done);
            }
            Call::Densify(DensityRule::ResetOpacity { .. }) => resets.push(done),
            _ => {}
        }
    }
    // 300 steps: every 10 from 5 to 150, resets every 30.
    assert_eq!(changes, (1..15).map(|k| 10 * k).collect::<Vec<_>>());
    assert_eq!(resets, [30, 60, 90, 120]);
}

#[test]
fn every_picture_has_gains_of_its_own() {
    let options = TrainOptions {
        exposure: Some(Exposure::On),
        vignetting: Some(true),
        refine_poses: Some(true),
        ..options(7)
    };
    let engine = mock_calls(&options);
    let extras = [("gains", 7), ("vignetting", 1), ("pose", 7)].map(|(name, rows)| (name.to_owned(), rows));
    assert_eq!(engine.calls[0], Call::Load { splats: 200, extras: extras.into() });
    for call in &engine.calls {
        if let Call::Step { view, exposure_row, pose_row, .. } = call {
            assert_eq!((*exposure_row, *pose_row), (Some(view - 1), Some(view - 1)));
        }
    }
}

#[test]
fn a_run_tells_its_start_its_progress_and_its_end() {
    let (_folder, run) = runs();
    let mut kinds = Vec::new();
    let mut on_event = |event: &Event, _: &AtomicBool| {
        kinds.push(match event {
            Event::StereoBegun { .. } | Event::StereoDone(_) => panic!("stereo was not requested"),
            Event::Started(started) => {
                assert_eq!((started.step, started.steps, started.splats), (0, 20, 200));
                assert_eq!((started.train_images, started.test_images), (7, 1));
                assert!(started.memory.total() > 0 && started.memory.fits());
                "started"
            }
            Event::Progress(progress) => {
                assert_eq!((progress.loss, progress.steps), (0.5, 20));
                "progress"
            }
            Event::Warning(warning) => panic!("{warning}"),
            Event::Paused { .. } | Event::Resumed { .. } | Event::Density { .. } => {
                panic!("it was not requested")
            }
            Event::Evaluated { .. } => "evaluated",
            Event::Checkpointed { .. } => "checkpointed",
            Event::Exported { splats, dropped, .. } => {
                assert_eq!((*splats, *dropped), (200, 0));
                "exported"
            }
            Event::Finished(summary) => {
                assert_eq!((summary.steps, summary.splats), (20, 200));
                "finished"
            }
        });
    };
    train(&options(20), &mut MockEngine::default(), &run, &mut on_event).unwrap();
    // Each of the twenty steps has a line in the log and a progress event.
    let progress = kinds.iter().filter(|kind| **kind == "progress").count();
    kinds.dedup();
    assert_eq!(progress, 20);
    assert_eq!(kinds, ["started", "progress", "checkpointed", "exported", "evaluated", "finished"]);
    let mut names: Vec<String> = std::fs::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "cameras.json",
            "checkpoints",
            "config.toml",
            "eval",
            "fingerprint.txt",
            "metrics.jsonl",
            "splats.ply"
        ]
    );
    // By this line runs of 0.1, which have no marker, are known.
    let config = std::fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(config.starts_with(gausset_io::run_folder::CONFIG_START), "{config}");
}

#[test]
fn the_summary_of_a_run_is_read_from_its_folder_finished_or_not() {
    let (_folder, run) = runs();
    let stopped = train(&options(40), &mut MockEngine::default(), &run, &mut stop_at(20)).unwrap();
    let summary = read_summary(&run).unwrap();
    assert_eq!((summary.steps, summary.splats, summary.psnr), (20, 200, None));
    assert_eq!((stopped.end, stopped.summary.steps), (RunEnd::Stopped, 20));
    let splats = gausset_io::splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap().splats;
    assert_eq!(splats.len(), 200, "a stopped run can be looked at");
    let outcome = resume(&TrainOptions::default(), &mut MockEngine::default(), &run, &mut ignore).unwrap();
    assert_eq!(read_summary(&run).unwrap(), outcome.summary);
    assert!(outcome.summary.psnr.is_some() && outcome.summary.seconds > 0.0);
    assert!((0.0..=outcome.summary.seconds).contains(&outcome.summary.step_seconds));
    let json = serde_json::to_value(&outcome.summary).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    let expected = [
        "confirmed_share",
        "covisible_share",
        "cpu_seconds",
        "haze",
        "kind",
        "lpips",
        "psnr",
        "psnr_colour_corrected",
        "psnr_covisible",
        "scarce_share",
        "seconds",
        "splats",
        "ssim",
        "ssim_colour_corrected",
        "step_seconds",
        "steps",
        "training_haze",
        "training_psnr",
    ];
    assert_eq!(keys, expected);
    assert_eq!(json["kind"], "run");
    // Each step is in the log once, however often it was executed.
    let log = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let steps: Vec<u64> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line.get("loss").is_some())
        .map(|line| line["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, (1..=40).collect::<Vec<_>>());
    let nothing = read_summary(run.parent().unwrap()).unwrap_err().to_string();
    assert!(nothing.contains("config.toml"), "{nothing}");
}

#[test]
fn the_config_of_a_run_repeats_it() {
    let (folder, run) = runs();
    let first = TrainOptions { seed: Some(5), up: Some(Up::Z), ..options(10) };
    train(&first, &mut MockEngine::default(), &run, &mut ignore).unwrap();
    let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
    assert_eq!(recorded.record.device, "mock");
    assert_eq!((recorded.record.train_images, recorded.record.test_images), (7, 1));
    let file = TrainOptions::read(&run.join("config.toml")).unwrap();
    let again = folder.path().join("again");
    train(&file, &mut MockEngine::default(), &again, &mut ignore).unwrap();
    assert_eq!(RecordedRun::read(&again.join("config.toml")).unwrap(), recorded);
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run_and_leaves_the_checkpoint() {
    let (_folder, run) = runs();
    let options = TrainOptions { checkpoint_every: Some(8), ..options(30) };
    let mut engine = MockEngine::failing_at(21);
    let error = train(&options, &mut engine, &run, &mut ignore).unwrap_err();
    let line = error.to_string();
    assert!(line.starts_with("step 21: loss on view `view_00"), "{line}");
    assert!(line.ends_with("the last checkpoint is that of step 16"), "{line}");
    assert!(run.join("checkpoints/step_000016.ckpt").exists() && !run.join("splats.ply").exists());
    resume(&TrainOptions::default(), &mut MockEngine::default(), &run, &mut ignore).unwrap();
}

#[test]
fn a_real_device_that_meets_a_splat_without_number_goes_on_without_it() {
    let (_folder, run) = runs();
    let init = run.with_extension("ply");
    let text = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n\
                end_header\n0 0 0\nnan 0 0\n0.1 0.2 0.3\n";
    std::fs::write(&init, text).unwrap();
    let options = TrainOptions { init: Some(init), ..options(10) };
    let outcome = train(&options, &mut cpu(1), &run, &mut ignore).unwrap();
    assert!(outcome.summary.splats >= 2);
}

#[test]
fn a_run_is_not_overwritten_unless_that_was_said() {
    let (_folder, run) = runs();
    train(&options(3), &mut MockEngine::default(), &run, &mut ignore).unwrap();
    let before = std::fs::read(run.join("config.toml")).unwrap();
    let error = train(&options(4), &mut MockEngine::default(), &run, &mut ignore).unwrap_err();
    assert!(matches!(error, TrainError::Folder(_)), "{error}");
    assert_eq!(std::fs::read(run.join("config.toml")).unwrap(), before);
    // Overwriting is allowed, but the start fails: nothing is lost.
    let config = |init: Option<&Path>| {
        let options = TrainOptions { init: init.map(Path::to_owned), ..options(4) };
        TrainConfig::resolve(&options, None).unwrap()
    };
    let start = |config: TrainConfig| {
        let session = session(&config, Box::new(MockEngine::default()), &Arc::default());
        Run::start(config, &run, Overwrite::Replace, session, &mut |_| {})?.train(&mut |_| {})
    };
    assert!(start(config(Some(Path::new("nothing-here.ply")))).is_err());
    assert_eq!(std::fs::read(run.join("config.toml")).unwrap(), before);
    assert_eq!(start(config(None)).unwrap().summary.steps, 4);
}

#[test]
fn a_run_goes_on_with_its_own_dataset_and_options_only() {
    let (folder, run) = runs();
    train(&options(3), &mut MockEngine::default(), &run, &mut ignore).unwrap();
    let other = TrainOptions { steps: Some(5), ..TrainOptions::default() };
    let line = resumable_config(&run, &other).unwrap_err().to_string();
    assert!(line.contains("steps = 3 (given: 5)"), "{line}");
    // The same images at another location are the same dataset; with one image less it is another dataset.
    let moved = folder.path().join("moved");
    copy_folder(tiny_dataset(), &moved);
    let given = TrainOptions { data: Some(moved.clone()), ..TrainOptions::default() };
    resume(&given, &mut MockEngine::default(), &run, &mut ignore).unwrap();
    let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
    assert_eq!(recorded.config.data.path, moved);
    let refusal = || {
        let error = resume(&given, &mut MockEngine::default(), &run, &mut ignore).unwrap_err();
        assert!(matches!(error, TrainError::DatasetChanged { .. }), "{error}");
        error.to_string()
    };
    // The same length with other contents: an edited image, and an edited mask.
    let picture = moved.join("images/view_003.png");
    let original = std::fs::read(&picture).unwrap();
    let mut edited = original.clone();
    *edited.last_mut().unwrap() ^= 1;
    std::fs::write(&picture, &edited).unwrap();
    let line = refusal();
    let expected = "not the dataset of this run: changed content: view_003.png (expected fingerprint 2-";
    assert!(line.contains(expected), "{line}");
    // A copy has other modification times, but is the same dataset.
    std::fs::write(&picture, &original).unwrap();
    resume(&given, &mut MockEngine::default(), &run, &mut ignore).unwrap();
    std::fs::remove_file(&picture).unwrap();
    assert!(refusal().contains(": missing: view_003.png (expected"), "{}", refusal());
    // A run of version 0.1 has no list.
    std::fs::remove_file(run.join("fingerprint.txt")).unwrap();
    assert!(refusal().contains("not the dataset of this run (expected fingerprint 2-"), "{}", refusal());
}

#[test]
fn the_file_of_the_first_splats_is_part_of_the_data() {
    let (folder, run) = runs();
    let first = folder.path().join("first.ply");
    train(&options(3), &mut MockEngine::default(), &folder.path().join("earlier"), &mut ignore).unwrap();
    std::fs::copy(folder.path().join("earlier/splats.ply"), &first).unwrap();
    let with_init = TrainOptions { init: Some(first.clone()), ..options(60) };
    train(&with_init, &mut MockEngine::default(), &run, &mut stop_at(2)).unwrap();
    let resumed = || resume(&TrainOptions::default(), &mut MockEngine::default(), &run, &mut stop_at(2));
    resumed().unwrap();
    let original = std::fs::read(&first).unwrap();
    let mut other = original.clone();
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(&first, &other).unwrap();
    let line = resumed().unwrap_err().to_string();
    let expected = format!("{}: file: not the splats that this run began with (expected ", first.display());
    assert!(line.starts_with(&expected), "{line}");
    // After step 0 the file is not needed any more.
    std::fs::remove_file(&first).unwrap();
    resumed().unwrap();
    // The folder of a run stands for its splats.
    let (earlier, again) = (folder.path().join("earlier"), folder.path().join("again"));
    let with_run = TrainOptions { init: Some(earlier.clone()), ..options(60) };
    train(&with_run, &mut MockEngine::default(), &again, &mut stop_at(2)).unwrap();
    std::fs::write(earlier.join("splats.ply"), &other).unwrap();
    let changed = resume(&TrainOptions::default(), &mut MockEngine::default(), &again, &mut stop_at(2));
    assert!(changed.unwrap_err().to_string().contains("not the splats that this run began with"));
    let without = TrainOptions { init: Some(again.join("checkpoints")), ..options(3) };
    let refused = train(&without, &mut MockEngine::default(), &folder.path().join("new"), &mut ignore);
    let line = refused.unwrap_err().to_string();
    assert!(line.contains(&again.join("checkpoints/splats.ply").display().to_string()), "{line}");
}

#[test]
fn a_taken_folder_is_refused_before_images_are_decoded_and_decoding_can_be_stopped() {
    let (_folder, run) = runs();
    let given = TrainOptions { exposure: Some(Exposure::On), ..options(1) };
    let start = || {
        let config = TrainConfig::resolve(&given, None).unwrap();
        let session = session(&config, Box::new(MockEngine::default()), &Arc::new(AtomicBool::new(true)));
        Run::start(config, &run, Overwrite::Refuse, session, &mut |_| {}).err()
    };
    assert!(matches!(start(), Some(TrainError::Stopped)));
    assert!(!run.exists());
    train(&given, &mut MockEngine::default(), &run, &mut ignore).unwrap();
    assert!(matches!(start(), Some(TrainError::Folder(_))));
}

#[test]
fn a_run_that_would_not_fit_into_memory_is_refused_with_what_would() {
    let (_folder, run) = runs();
    let options = TrainOptions {
        max_splats: Some(1_000_000),
        max_memory: Some(MemoryLimit::Bytes(256 << 20)),
        ..options(3)
    };
    let line = train(&options, &mut MockEngine::default(), &run, &mut ignore).unwrap_err().to_string();
    let (needs, possible) = line.split_once("; lower ⟨max-splats⟩ to ").unwrap();
    assert_eq!(
        needs,
        "⟨max-memory⟩: the run would need about 1.6 GiB for 1000000 splats (expected at most 256.0 MiB)"
    );
    assert!(!run.exists());
    let possible: u64 = possible.split(' ').next().unwrap().parse().unwrap();
    let fitting = TrainOptions { max_splats: Some(possible), ..options.clone() };
    train(&fitting, &mut MockEngine::default(), &run, &mut ignore).unwrap();
    let too_many = TrainOptions { max_splats: Some(possible + 1), ..options };
    let other = run.with_extension("other");
    assert!(train(&too_many, &mut MockEngine::default(), &other, &mut ignore).is_err());
    // Without density control, the splats at the start are all that there will be.
    let fixed = TrainOptions { density_until: Some(0.0), ..too_many };
    train(&fixed, &mut MockEngine::default(), &other, &mut ignore).unwrap();
}

#[test]
fn memory_for_the_scores_of_training_images_is_planned_even_if_none_are_held_out() {
    let given = TrainOptions { test_every: Some(0), max_splats: Some(50), ..options(3) };
    let config = TrainConfig::resolve(&given, None).unwrap();
    let dataset = open(&config);
    assert!(dataset.split.test.is_empty());
    let plan = MemoryPlan::predict(&config.recipe, &dataset, 1, 1 << 30, &cpu(1));
    // The copy of 50 splats is smaller than the buffers of an image, 92 bytes per pixel, and the depth maps.
    let copy = plan.without_evaluation().beside;
    let buffers = 92 * 32 * 24;
    assert!(plan.beside > buffers.max(copy), "{} of {copy} and {buffers}", plan.beside);
}

/// The tiny scene with more cameras, so that one bad image is less than a tenth.
fn crowded_dataset(folder: &Path) {
    let mut scene = gausset_scenes::tiny();
    let poses = scene.poses.clone();
    scene.poses.extend(poses.iter().chain(&poses));
    write_scene(&scene, folder);
}

/// Truncates an image in the middle of its data; its header stays valid.
fn cut(picture: &Path) {
    let bytes = std::fs::read(picture).unwrap();
    std::fs::write(picture, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_picture_that_cannot_be_decoded_is_left_out_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    crowded_dataset(&data);
    cut(&data.join("images/view_010.png"));
    let options = TrainOptions { data: Some(data), checkpoint_every: Some(30), ..options(50) };
    let mut warnings = Vec::new();
    let mut on_event = |event: &Event, _: &AtomicBool| {
        if let Event::Warning(warning) = event {
            warnings.push(warning.to_string());
        }
    };
    let mut engine = MockEngine::default();
    let outcome = train(&options, &mut engine, &run, &mut on_event).unwrap();
    assert_eq!((outcome.end, warnings.len()), (RunEnd::Finished, 1));
    assert!(warnings[0].starts_with("view_010.png: skipped: "), "{warnings:?}");
    assert_eq!(outcome.skipped.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["view_010.png"]);
    assert!(!engine.calls.iter().any(|call| matches!(call, Call::Step { view: 10, .. })));
    // The others keep their positions: a resumed run uses the same order, without a second warning.
    let views = |calls: &[Call]| -> Vec<u32> {
        let step = |call: &Call| if let Call::Step { view, .. } = call { Some(*view) } else { None };
        calls.iter().filter_map(step).collect()
    };
    std::fs::remove_file(run.join("checkpoints/step_000050.ckpt")).unwrap();
    let (mut resumed, mut again) = (MockEngine::default(), 0);
    let mut on_event =
        |event: &Event, _: &AtomicBool| again += usize::from(matches!(event, Event::Warning(_)));
    let outcome = resume(&TrainOptions::default(), &mut resumed, &run, &mut on_event).unwrap();
    assert_eq!((again, outcome.skipped.len()), (0, 1));
    assert_eq!(views(&resumed.calls), views(&engine.calls)[30..]);
}

#[test]
fn more_than_a_tenth_of_unreadable_pictures_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    crowded_dataset(&data);
    for index in [3, 10, 17] {
        cut(&data.join(format!("images/view_{index:03}.png")));
    }
    let options = TrainOptions { data: Some(data), ..options(100) };
    let line = train(&options, &mut MockEngine::default(), &run, &mut ignore).unwrap_err().to_string();
    assert!(
        line.contains("images: 3 of 21 cannot be read (expected at most a tenth); the first: view_0"),
        "{line}"
    );
    assert!(!run.join("splats.ply").exists());
}

#[test]
fn masks_that_ignore_everything_leave_nothing_to_train_on() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    crowded_dataset(&data);
    std::fs::create_dir(data.join("masks")).unwrap();
    let black = gausset_io::image::encode::png_rgb8(&gausset_core::RgbImage8::new(32, 24)).unwrap();
    for picture in std::fs::read_dir(data.join("images")).unwrap() {
        std::fs::write(data.join("masks").join(picture.unwrap().file_name()), &black).unwrap();
    }
    let options = TrainOptions { data: Some(data), ..options(100) };
    let line = train(&options, &mut MockEngine::default(), &run, &mut ignore).unwrap_err().to_string();
    assert!(line.contains("images: none of 21 can be trained on; the first: view_0"), "{line}");
    assert!(line.contains("ignores every pixel"), "{line}");
}

#[test]
fn two_runs_never_share_a_folder() {
    let (_folder, run) = runs();
    let config = TrainConfig::resolve(&options(3), None).unwrap();
    let session = || session(&config, Box::new(MockEngine::default()), &Arc::default());
    let mut running = Run::start(config.clone(), &run, Overwrite::Refuse, session(), &mut |_| {}).unwrap();
    let error = Run::resume(config.clone(), &run, session(), &mut |_| {}).err().unwrap().to_string();
    assert!(error.contains("in use by process"), "{error}");
    running.train(&mut |_| {}).unwrap();
}

#[test]
fn a_prediction_of_the_time_leaves_no_trace_in_the_result() {
    let given = TrainOptions {
        exposure: Some(Exposure::On),
        refine_poses: Some(true),
        threads: Some(1),
        ..options(60)
    };
    let result = |predicts: bool| {
        let (_folder, run) = runs();
        let config = TrainConfig::resolve(&given, None).unwrap();
        let mut predicted = None;
        let mut events = |event: Event| {
            if let Event::Started(started) = event {
                predicted = started.predicted_seconds;
            }
        };
        let session = session(&config, Box::new(cpu(1)), &Arc::default());
        let mut started = Run::start(config, &run, Overwrite::Refuse, session, &mut |_| {}).unwrap();
        if predicts {
            started.predict_time().unwrap();
        }
        started.train(&mut events).unwrap();
        (predicted, splats_of(&run))
    };
    let ((predicted, with), (none, without)) = (result(true), result(false));
    assert!(predicted.is_some_and(|seconds| seconds > 0.0) && none.is_none(), "{predicted:?} {none:?}");
    assert!(with == without);
}

#[test]
fn a_set_that_density_control_empties_ends_the_run_and_leaves_the_last_checkpoint() {
    let (_folder, run) = runs();
    let given = TrainOptions {
        strategy: Some(Strategy::Classic),
        prune_opacity: Some(1.0),
        density_from: Some(0.4),
        density_until: Some(0.8),
        density_every: Some(10),
        checkpoint_every: Some(15),
        export_every: Some(15),
        ..options(100)
    };
    let error = train(&given, &mut cpu(1), &run, &mut ignore).unwrap_err();
    assert_eq!(
        error.to_string(),
        "step 50: splats: none is left that can be drawn (expected at least one); lower ⟨prune-opacity⟩, raise \
         ⟨prune-scale⟩, or set ⟨opacity-reset-every = 0⟩; the last checkpoint is that of step 45"
    );
    // Earlier results are kept: checkpoint and export of step 45, from which the run can resume.
    let ply = splats_of(&run);
    let count =
        gausset_io::splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap().splats.len();
    assert!(count > 0, "{count}");
    let again = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    assert!(splats_of(&run) == ply);
}

#[test]
fn lists_that_a_limit_cuts_are_counted_over_all_sittings_and_said_once() {
    // Removing splats would leave tiles with fewer than two.
    let given =
        TrainOptions { max_splats_per_tile: Some(2), free_space: Some(FreeSpace::Off), ..options(30) };
    let (_folder, run) = runs();
    let mut said = Vec::new();
    let mut listen = |event: &Event, _: &_| {
        if let Event::Warning(
            warning @ (RunWarning::TruncatedLists { .. } | RunWarning::TruncatedRenders { .. }),
        ) = event
        {
            said.push(warning.clone());
        }
    };
    let outcome = train(&given, &mut cpu(1), &run, &mut listen).unwrap();
    let tiles = outcome.summary.cut_tiles;
    // At least one tile in each step, as the scene fills its images; at most the four of 32x24 px.
    assert!((30..=120).contains(&tiles), "{tiles}");
    let report = outcome.evaluation.unwrap();
    assert_eq!((report.cut_views, report.images), (1, 1));
    assert_eq!(
        said,
        [
            RunWarning::TruncatedRenders { limit: 2, tiles: report.cut_tiles, cut_views: 1, views: 1 },
            RunWarning::TruncatedLists { limit: 2, tiles, cut_steps: 30, steps: 30 },
        ]
    );
    assert_eq!(
        said[1].to_string(),
        format!(
            "⟨max-splats-per-tile⟩ 2: the lists of {tiles} tiles were cut, in 30 of 30 steps; splats behind the \
             nearest 2 were not drawn there (raise the limit, or 0 for none)"
        )
    );
    assert_eq!(read_summary(&run).unwrap(), outcome.summary);

    let (_folder, cut) = runs();
    train(&given, &mut cpu(1), &cut, &mut stop_at(10)).unwrap();
    let resumed = resume(&TrainOptions::default(), &mut cpu(1), &cut, &mut ignore).unwrap();
    assert_eq!(resumed.summary.cut_tiles, tiles);

    // Without truncated lists there is no warning, and the summary has no additional keys.
    let (_folder, whole) = runs();
    let whole = train(&options(5), &mut cpu(1), &whole, &mut ignore).unwrap();
    let json = serde_json::to_value(&whole.summary).unwrap();
    assert!(json.get("cut_tiles").is_none() && json["steps"] == 5, "{json}");
}
