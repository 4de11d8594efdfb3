//! Runs in blocks.

use gausset::blocks::{self, BlocksStatus};
use gausset_core::Pose;
use gausset_core::engine::SKY_VALUES;
use gausset_io::splat::{self, LoadOptions};
use gausset_train::{Colours, Exposure, GivenCorrections, RunSummary, TrainConfig, read_outcome};

use super::*;

/// A small run in two blocks.
fn block_options(data: &Path) -> TrainOptions {
    TrainOptions { blocks: Some(Blocks::Count(2)), steps: Some(60), background: None, ..options(data) }
}

/// Every file below a folder whose content is a result: not logs, times or locks.
fn results(run: &Path) -> Vec<(String, Vec<u8>)> {
    let parts = ["", "blocks/001", "blocks/002", "blocks/coarse"];
    let files = ["splats.ply", "cameras.json", "gains.json", "eval/metrics.json"];
    let named = parts.iter().flat_map(|part| files.map(|file| Path::new(part).join(file)));
    let named =
        named.chain(["division.json", "shared.json", "map.png"].map(|file| Path::new("blocks").join(file)));
    named.filter_map(|file| Some((file.display().to_string(), std::fs::read(run.join(file)).ok()?))).collect()
}

#[test]
fn a_scene_is_trained_in_blocks_with_the_same_bytes_wherever_it_was_stopped() {
    let root = TempDir::new().unwrap();
    let data = scene(root.path());
    let begin = |run: &Path, threads: u32, host: &mut Host<'_>| {
        let options = TrainOptions { threads: Some(threads), ..block_options(&data) };
        training::start_or_resume(run.to_owned(), &options, Overwrite::Refuse, conditions(), host)
    };
    let (whole, stopped) = (root.path().join("whole"), root.path().join("stopped"));
    let (trained, events) = done(|host| begin(&whole, 1, host));
    let merged: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Stage(Stage::Merged { splats, blocks: 2 }) => Some(*splats),
            _ => None,
        })
        .collect();
    assert_eq!(merged, [trained.outcome.summary.splats]);
    assert!(trained.outcome.summary.psnr.is_some_and(|psnr| psnr > 10.0), "{:?}", trained.outcome.summary);
    assert!(events.iter().any(|event| matches!(event, Event::RunFolder(folder) if *folder == whole)));
    let expected = results(&whole);
    assert_eq!(expected.iter().filter(|(name, _)| name.ends_with("splats.ply")).count(), 4);
    assert!(expected.iter().any(|(name, _)| name == "blocks/map.png"));

    // Stopped in each of its parts, and with other threads each time.
    let places = ["coarsely", "divided", "in block 1", "in block 2", "merged"];
    for (threads, wanted) in (1..).zip(places) {
        let mut part = "coarsely";
        let stop_there = |event: &Event, stop: &AtomicBool| {
            match event {
                Event::Stage(Stage::Divided { .. }) => part = "divided",
                Event::Stage(Stage::BlockRun { block: 1, .. }) => part = "in block 1",
                Event::Stage(Stage::BlockRun { .. }) => part = "in block 2",
                Event::Stage(Stage::Merged { .. }) => part = "merged",
                Event::Training(event) if matches!(**event, RunEvent::Progress(_)) => {}
                _ => return,
            }
            let is_step = matches!(event, Event::Training(_));
            let needs_step = part.starts_with("in ") || part == "coarsely";
            if part == wanted && is_step == needs_step {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let (trained, events) = job(stop_there, |host| begin(&stopped, threads, host).unwrap());
        assert!(trained.is_stopped(), "{wanted}");
        let told = events.iter().find_map(|event| match event {
            Event::Stage(Stage::BlocksStopped { place, run }) if *run == stopped => Some(place.clone()),
            _ => None,
        });
        let expected = match wanted {
            "coarsely" => Some("in the coarse run"),
            "divided" | "in block 1" => Some("in block 1 of 2"),
            "in block 2" => Some("in block 2 of 2"),
            _ => None,
        };
        assert_eq!(told.as_deref(), expected, "{wanted}");
    }
    let (trained, _) = done(|host| begin(&stopped, 1, host));
    assert!(!trained.is_stopped());
    let names =
        |results: &[(String, Vec<u8>)]| results.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&results(&stopped)), names(&expected));
    for ((name, found), (_, expected)) in results(&stopped).iter().zip(&expected) {
        assert!(found == expected, "{name}: other bytes");
    }
    let borders = |run: &Path| -> serde_json::Value {
        let merged = std::fs::read(run.join("blocks/merged.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&merged).unwrap()["borders"].clone()
    };
    assert!(
        borders(&whole)["psnr"][0].is_f64() && borders(&whole) == borders(&stopped),
        "{}",
        borders(&whole)
    );
    let (_, events) = done(|host| begin(&stopped, 1, host));
    assert!(has_stage(&events, &Stage::TrainedAlready));
    // An ordinary run folder: its evaluation is repeated from it.
    let (evaluated, _) = done(|host| evaluate(&EvaluateOptions::new(&stopped), host));
    let [of_file, of_run] = [evaluated.report.psnr, trained.outcome.summary.psnr].map(Option::unwrap);
    assert!((of_file - of_run).abs() < 1e-3, "{of_file} {of_run}");

    // A merged set that cannot be rendered is written all the same, block by block, and not scored.
    for name in ["splats.ply", "metrics.jsonl", "report.html", "metrics.json", "eval/metrics.json"] {
        std::fs::remove_file(stopped.join(name)).unwrap();
    }
    let (trained, events) = done(|host| {
        let options = TrainOptions { max_memory: Some("24MiB".parse().unwrap()), ..block_options(&data) };
        training::start_or_resume(stopped.clone(), &options, Overwrite::Refuse, conditions(), host)
    });
    let RunSummary { splats, psnr, .. } = trained.outcome.summary;
    assert_eq!((psnr, splats), (None, merged[0]));
    let bytes = [&stopped, &whole].map(|run| std::fs::read(run.join("splats.ply")).unwrap());
    assert!(bytes[0] == bytes[1], "other bytes");
    let is_said = |event: &Event| match event {
        Event::Training(event) => {
            matches!(&**event, RunEvent::Warning(warning) if warning.to_string().starts_with("not scored: "))
        }
        _ => false,
    };
    assert!(events.iter().any(is_said));
    let (_, events) = done(|host| begin(&stopped, 1, host));
    assert!(has_stage(&events, &Stage::TrainedAlready));
}

/// 48 images of 32x24 with the exposure of a camera that cannot decide.
fn many_images(folder: &Path) -> PathBuf {
    let mut scene = gausset_scenes::tiny();
    let rings = scene.poses.clone();
    let moved = |k: usize| {
        let pose = rings[k % rings.len()];
        let translation =
            std::array::from_fn(|axis| pose.translation[axis] + 0.02 * (k / rings.len() + axis) as f64);
        Pose { translation, ..pose }
    };
    scene.poses = (0..48).map(moved).collect();
    scene.exposures = (0..48).map(|k| 1.0 + 0.1 * f64::from(k % 5 - 2)).collect();
    let data = folder.join("data");
    gausset_scenes::write_dataset(&scene, &data, &Pool::new(1), &mut |_, _| {}).unwrap();
    data
}

/// The colours of the splats of a sky, a function of its coefficients alone.
fn sky_colours(file: &Path) -> Vec<f32> {
    let file = splat::load(file, &LoadOptions::default()).unwrap();
    assert!(file.sky > 0);
    let scene = file.splats.len() - file.sky;
    file.splats.sh[scene * file.splats.sh_stride()..].to_vec()
}

#[test]
fn a_block_decides_nothing_that_the_whole_set_decides() {
    let root = TempDir::new().unwrap();
    let run = root.path().join("run");
    let options = TrainOptions {
        data: Some(many_images(root.path())),
        blocks: Some(Blocks::Count(12)),
        exposure: Some(Exposure::On),
        steps: Some(120),
        max_splats: Some(600),
        threads: Some(1),
        ..TrainOptions::default()
    };
    let task = Task::new(options, run.clone(), Overwrite::Refuse).unwrap();
    done(|host| training::train(task, conditions(), host));
    let whole = RecordedRun::read(&run.join("config.toml")).unwrap();
    assert!(whole.record.sky && whole.record.colours != Colours::None);
    let shared = std::fs::read_to_string(run.join("blocks/shared.json")).unwrap();
    let given: GivenCorrections = serde_json::from_str(&shared).unwrap();
    let (gains, sky) = (given.log_gains.unwrap(), given.sky.unwrap());
    assert_eq!((gains.len(), sky.len()), (42, SKY_VALUES));
    let mut fewest = usize::MAX;
    for block in 1..=12 {
        let folder = run.join(format!("blocks/{block:03}"));
        let part = RecordedRun::read(&folder.join("config.toml")).unwrap();
        fewest = fewest.min(part.record.train_images as usize);
        let size = |config: &TrainConfig| TrainOptions {
            steps: None,
            max_splats: None,
            blocks: None,
            growth: None,
            lr_means: None,
            lr_means_final: None,
            coarse_until: None,
            background: None,
            random_background: None,
            near_plane: None,
            up: None,
            ..config.to_options()
        };
        assert_eq!(size(&part.config), size(&whole.config), "block {block}");
        assert_eq!(part.config.background, Background::Sky);
        assert_eq!(part.record.random_background, whole.record.random_background);
        assert_eq!(part.record.scene_extent, whole.record.scene_extent);
        assert_eq!(part.record.normalisation, whole.record.normalisation);
        // After its last step it has the gains and the sky that it was given, bit by bit.
        assert!(
            sky_colours(&folder.join("splats.ply")) == sky_colours(&run.join("splats.ply")),
            "block {block}"
        );
        let text = std::fs::read_to_string(folder.join("gains.json")).unwrap();
        let own: serde_json::Value = serde_json::from_str(&text).unwrap();
        for image in own["gains"].as_array().unwrap() {
            let gain: [f32; 3] = serde_json::from_value(image["log_gain"].clone()).unwrap();
            assert_eq!(gain, gains[image["name"].as_str().unwrap()]);
        }
        assert_eq!(own["gains"].as_array().unwrap().len() as u64, part.record.train_images);
    }
    // By themselves, fewer than 40 images would have no sky, and other defaults.
    assert!(fewest < 40, "{fewest}");
}

#[test]
fn what_does_not_belong_to_a_run_in_blocks_is_refused() {
    let root = TempDir::new().unwrap();
    let data = scene(root.path());
    let run = root.path().join("run");
    let train = |options: TrainOptions, overwrite: Overwrite| {
        let task = Task::new(options, run.clone(), overwrite)?;
        job(|_, _| {}, |host| training::train(task, conditions(), host)).0
    };
    let resume = || {
        let task = Task::resume(run.clone(), &TrainOptions::default())?;
        job(|_, _| {}, |host| training::train(task, conditions(), host)).0
    };
    let options = TrainOptions { checkpoint_every: Some(400), ..block_options(&data) };
    for refused in [
        TrainOptions { init: Some(data.join("points.ply")), ..options.clone() },
        TrainOptions { refine_poses: Some(true), ..options.clone() },
        TrainOptions { lr_poses: Some(1e-4), ..options.clone() },
        TrainOptions { time_budget: Some("5s".parse().unwrap()), steps: None, ..options.clone() },
    ] {
        let failure = train(refused, Overwrite::Refuse).unwrap_err();
        assert_eq!(failure.code, "option", "{failure}");
        assert!(failure.to_string().contains("blocks"), "{failure}");
    }
    let known_poses = TrainOptions { refine_poses: Some(false), ..options.clone() };
    assert!(TrainConfig::resolve(&known_poses, None).is_ok());
    // Blocks that cannot fit, before the coarse run.
    let memory = Some("200MiB".parse().unwrap());
    let large = TrainOptions { max_splats: Some(1_000_000), max_memory: memory, ..options.clone() };
    let failure = train(large, Overwrite::Refuse).unwrap_err();
    assert_eq!(failure.code, "memory", "{failure}");
    assert!(
        failure.to_string().contains("for 500000 splats") && failure.to_string().contains("take at least ")
    );
    assert!(!run.exists());
    // Files of others, before anything is written.
    std::fs::create_dir_all(run.join("blocks/001")).unwrap();
    let failure = train(options.clone(), Overwrite::Refuse).unwrap_err();
    assert!(failure.to_string().contains("blocks: output: holds files"), "{failure}");
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 1);
    std::fs::remove_dir_all(&run).unwrap();
    train(options.clone(), Overwrite::Refuse).unwrap();
    let first = results(&run);

    // A part is not a run of its own.
    let part = Task::resume(run.join("blocks/002"), &TrainOptions::default()).unwrap();
    let (failure, _) = job(|_, _| {}, |host| training::train(part, conditions(), host).unwrap_err());
    assert!(failure.to_string().contains("block 2 of 2"), "{failure}");
    let config = TrainOptions::read(&run.join("blocks/002/config.toml")).unwrap_err();
    assert!(config.to_string().contains("block 2 of 2"), "{config}");

    // A division that was edited, cut off, or is of other data; parts of another division.
    std::fs::remove_file(run.join("splats.ply")).unwrap();
    let file = run.join("blocks/division.json");
    let text = std::fs::read_to_string(&file).unwrap();
    for (changed, word) in [
        (text.replace("\"max_splats\": ", "\"max_splats\": 1"), "hash"),
        (text[..text.len() / 2].to_owned(), "not a division"),
        (text.replace("\"version\": 2", "\"version\": 3"), "version"),
    ] {
        std::fs::write(&file, changed).unwrap();
        let failure = resume().unwrap_err();
        assert!(
            failure.to_string().contains(word) && failure.to_string().contains("division.json"),
            "{failure}"
        );
    }
    std::fs::write(&file, &text).unwrap();
    // Gains and sky, or options, that are not those of the division.
    for (name, from, to) in
        [("blocks/shared.json", "{", "{ "), ("config.toml", "\nsteps = 60", "\nsteps = 61")]
    {
        let path = run.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let failure = resume().unwrap_err();
        assert_eq!(failure.code, "division", "{failure}");
        if name == "config.toml" {
            assert!(failure.to_string().contains("options: steps: expected 61, as in config.toml, found 60"));
            // How far it has come is told all the same.
            let status = BlocksStatus::read(&run, &RecordedRun::read(&path).unwrap()).unwrap();
            assert!(status.blocks.iter().all(|block| block.is_finished) && status.blocks.len() == 2);
            assert!(status.problem.unwrap().contains("options: steps"));
        }
        std::fs::write(&path, text).unwrap();
    }
    // The last checkpoint of the coarse run is damaged: an earlier one is no substitute.
    let last = run.join("blocks/coarse/checkpoints/step_000600.ckpt");
    let checkpoint = std::fs::read(&last).unwrap();
    std::fs::write(&last, &checkpoint[..checkpoint.len() / 2]).unwrap();
    let failure = resume().unwrap_err();
    assert_eq!(failure.code, "checkpoint", "{failure}");
    assert!(failure.to_string().contains("(expected step 600, found 400); "), "{failure}");
    std::fs::write(&last, checkpoint).unwrap();
    // Other splats in the place of a block's own; then the block is trained again.
    let part = run.join("blocks/002");
    let mut splats = std::fs::read(part.join("splats.ply")).unwrap();
    *splats.last_mut().unwrap() ^= 1;
    std::fs::write(part.join("splats.ply"), splats).unwrap();
    let failure = resume().unwrap_err();
    assert_eq!(failure.code, "division", "{failure}");
    assert!(failure.to_string().contains("block 2 has trained"), "{failure}");
    std::fs::remove_dir_all(&part).unwrap();
    resume().unwrap();
    assert!(results(&run) == first, "other bytes");

    // Another run in its place.
    let other = TrainOptions { seed: Some(7), ..options };
    assert!(train(other.clone(), Overwrite::Refuse).is_err());
    train(other, Overwrite::Replace).unwrap();
    assert!(results(&run) != first);
    // A whole scene in its place leaves no parts; files of others stay.
    let note = run.join("blocks/002/note.txt");
    std::fs::write(&note, "mine").unwrap();
    train(self::options(&data), Overwrite::Replace).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(run.join("blocks")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(note.is_file() && left.len() == 2, "{left:?}");
    std::fs::remove_file(&note).unwrap();
    train(self::options(&data), Overwrite::Replace).unwrap();
    assert!(!run.join("blocks").exists());
}

/// Divides a run with so much memory, and returns a function that trains its first block anew.
fn divided(
    options: TrainOptions,
    run: &Path,
    memory: &str,
) -> impl Fn(&str, TrainOptions) -> Result<Vec<u8>, Failure> + use<> {
    let options = TrainOptions { max_memory: Some(memory.parse().unwrap()), ..options };
    let task = Task::new(options, run.to_owned(), Overwrite::Refuse).unwrap();
    assert_eq!(done(|host| blocks::divide(task, conditions(), host)).0, Some(2));
    let run = run.to_owned();
    move |memory, given| {
        let given = TrainOptions { max_memory: Some(memory.parse().unwrap()), ..given };
        job(|_, _| {}, |host| blocks::train_block(&run, 1, &given, conditions(), host)).0?;
        let part = run.join("blocks/001");
        let splats = bytes(&part);
        std::fs::remove_dir_all(&part).unwrap();
        Ok(splats)
    }
}

#[test]
fn a_block_has_the_same_bytes_with_any_memory_or_is_refused() {
    let root = TempDir::new().unwrap();
    let options = block_options(&scene(root.path()));
    let ([little, much], none) = (["28MiB", "1GiB"], TrainOptions::default);
    let [with_little, with_much] =
        [little, much].map(|memory| divided(options.clone(), &root.path().join(memory), memory));
    let first = with_little(little, none()).unwrap();
    assert!(with_little(much, none()).unwrap() == first, "other bytes");
    assert!(with_much(much, none()).unwrap() != first, "stereo needs more memory");
    let failure = with_much(little, none()).unwrap_err();
    assert_eq!(failure.code, "memory", "{failure}");
    assert!(failure.to_string().contains("depth maps of the training images would need"), "{failure}");
}

#[test]
fn images_of_a_block_may_have_moved_but_must_be_readable() {
    let root = TempDir::new().unwrap();
    let data = scene(root.path());
    let (run, [here, there]) = (root.path().join("run"), ["images", "elsewhere"].map(|name| data.join(name)));
    let options = TrainOptions { images: Some(here.clone()), ..block_options(&data) };
    let block = divided(options, &run, "1GiB");
    let first = block("1GiB", TrainOptions::default()).unwrap();
    std::fs::rename(&here, &there).unwrap();
    let moved = || TrainOptions { images: Some(there.clone()), ..TrainOptions::default() };
    assert!(block("1GiB", moved()).unwrap() == first, "other bytes");
    // Gone once the dataset is open.
    let division: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("blocks/division.json")).unwrap()).unwrap();
    let image = there.join(division["blocks"][0]["images"][0].as_str().unwrap());
    let remove = |event: &Event, _: &AtomicBool| {
        if matches!(event, Event::Stage(Stage::BlockRun { .. })) {
            std::fs::remove_file(&image).unwrap();
        }
    };
    let train = |host: &mut Host<'_>| blocks::train_block(&run, 1, &moved(), conditions(), host);
    let failure = job(remove, train).0.unwrap_err();
    assert_eq!(failure.code, "dataset", "{failure}");
    assert!(failure.to_string().contains("(expected what the coarse run has read)"), "{failure}");
    assert!(read_outcome(&run).unwrap().is_none());
}
