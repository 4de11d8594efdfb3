//! Dense initialisation: points from stereo and in the background, appended to those of the dataset, reproducible to
//! the bit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    MockEngine, copy_folder, cpu, ignore, open, options, resume, runs, session, small_dataset, splats_of,
    stop_at, tiny_dataset, train,
};
use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::engine::{CorrectionKind, Engine};
use gausset_core::image::RgbImage8;
use gausset_core::{Splats, matrix, sh};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::ImageEntry;
use gausset_io::image::encode::PngPixels;
use gausset_io::image::{decode_file, encode};
use gausset_train::{
    Event, Exposure, InitPoints, MemoryLimit, MemoryPlan, RecordedRun, Run, TrainConfig, TrainError,
    TrainOptions,
};

fn from(points: InitPoints, steps: u64) -> TrainOptions {
    TrainOptions {
        data: Some(small_dataset().to_owned()),
        init_points: Some(points),
        max_splats: Some(8_000),
        ..options(steps)
    }
}

/// A dense start from images of 80x60 px, for tests that compare bytes of several runs.
fn halved(steps: u64) -> TrainOptions {
    TrainOptions { max_resolution: Some(80), ..from(InitPoints::Dense, steps) }
}

/// The initial splats of a run, and its record.
fn start_of(options: &TrainOptions) -> (Splats, RecordedRun) {
    let (_folder, run) = runs();
    let mut engine = MockEngine::default();
    train(options, &mut engine, &run, &mut ignore).unwrap();
    (engine.save().unwrap().splats, RecordedRun::read(&run.join("config.toml")).unwrap())
}

fn whole(options: &TrainOptions) -> Vec<u8> {
    let (_folder, run) = runs();
    train(options, &mut cpu(2), &run, &mut ignore).unwrap();
    splats_of(&run)
}

/// The number of splats in the background of a run at its start.
fn background_of(recorded: &RecordedRun) -> usize {
    recorded.record.background_points.unwrap_or(0) as usize
}

#[test]
fn dense_points_come_behind_those_of_the_dataset_and_there_is_room_left() {
    let (sfm, _) = start_of(&from(InitPoints::Sfm, 1));
    let (dense, recorded) = start_of(&from(InitPoints::Dense, 1));
    let (first, background) = (sfm.len(), background_of(&recorded));
    let all = dense.len() - background;
    assert_eq!(dense.select(&(0..first).collect::<Vec<_>>()), sfm);
    // At most half of the maximum, 4,000; a voxel contains one point.
    assert!((first + 1_500..=first + 4_000).contains(&all) && dense.len() <= 8_000, "{first}, {all}");
    let (count, start) = (all - first, &recorded.record.start);
    let note = format!(", {count} from stereo, {background} in the background");
    assert!(start.ends_with(&note), "{start}");
    assert_eq!(recorded.record.stereo_side, Some(400));
    // They have the same opacity as the others, and no view-dependent colour.
    assert!(dense.opacity_logits.iter().all(|&o| o == sfm.opacity_logits[0]));
    assert!(dense.sh.chunks_exact(dense.sh_stride()).all(|sh| sh[3..].iter().all(|&v| v == 0.0)));
    // Where enough views agree, `auto` also uses stereo, with the fraction given by the verdict.
    let (auto, recorded) = start_of(&from(InitPoints::Auto, 1));
    let auto = auto.len() - background_of(&recorded);
    assert!((first + 500..=all).contains(&auto), "{first}, {auto}, {all}");
    // `--initial-scale` is a factor on all scales.
    let half = TrainOptions { initial_scale: Some(0.5), ..from(InitPoints::Dense, 1) };
    let (half, _) = start_of(&half);
    for (half, whole) in half.log_scales.as_flattened().iter().zip(dense.log_scales.as_flattened()) {
        assert!((whole - half - std::f32::consts::LN_2).abs() < 1e-5);
    }
}

#[test]
fn what_stereo_cannot_match_has_splats_behind_the_scene() {
    let (dense, recorded) = start_of(&from(InitPoints::Dense, 1));
    let background = background_of(&recorded);
    // At most a quarter of the maximum.
    assert!((200..=2_000).contains(&background), "{background}");
    let mut dataset = Arc::unwrap_or_clone(open(&recorded.config));
    dataset.normalise(recorded.record.normalisation);
    let images: Vec<_> = dataset.split.train.iter().map(|&index| &dataset.images[index]).collect();
    let first = dense.len() - background;
    let means: Vec<[f64; 3]> = dense.means.iter().map(|mean| mean.map(f64::from)).collect();
    let shows = |image: &&ImageEntry, point: [f64; 3]| {
        let p = image.pose.apply(point);
        let [u, v] = image.camera.project(p);
        let size = [image.camera.width, image.camera.height].map(f64::from);
        p[2] > 0.0 && (0.0..size[0]).contains(&u) && (0.0..size[1]).contains(&v)
    };
    // Each point once per image that shows it.
    let views: Vec<usize> = means[..first]
        .iter()
        .map(|&point| images.iter().filter(|image| shows(image, point)).count())
        .collect();
    let centre = [0, 1, 2].map(|axis| {
        let counted = means.iter().zip(&views);
        let mut values: Vec<f64> =
            counted.flat_map(|(point, &count)| std::iter::repeat_n(point[axis], count)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    });
    let reach = images.iter().map(|image| matrix::distance(image.pose.centre(), centre)).fold(0.0, f64::max);
    let radius = matrix::distance(means[first], centre);
    // The cameras are at about one distance.
    assert!((2.3 * reach..=2.5 * reach).contains(&radius), "{radius}, {reach}");
    for (i, &mean) in means.iter().enumerate().skip(first) {
        assert!((matrix::distance(mean, centre) / radius - 1.0).abs() < 1e-5);
        assert_eq!(dense.opacity_logits[i], dense.opacity_logits[0]);
        let sees = |index: &usize| {
            let image = &dataset.images[*index];
            let p = image.pose.apply(mean);
            let [u, v] = image.camera.project(p);
            let size = [image.camera.width, image.camera.height].map(f64::from);
            // A cell of 4.6 degrees is 13 px; its mean may lie between the blocks of two views.
            p[2] > 0.0 && (-13.0..size[0] + 13.0).contains(&u) && (-13.0..size[1] + 13.0).contains(&v)
        };
        assert!(dataset.split.train.iter().any(sees), "{mean:?}");
    }

    // Where the points of the dataset leave little room, dense points and the background share it.
    let sparse = recorded.record.start.split(' ').next().unwrap().parse::<u64>().unwrap();
    let tight = TrainOptions { max_splats: Some(sparse + 800), ..from(InitPoints::Dense, 1) };
    let (tight, recorded) = start_of(&tight);
    let (background, room) = (background_of(&recorded), tight.len() - sparse as usize);
    assert!(
        (1..=400).contains(&background) && (background + 1..=800).contains(&room),
        "{background}, {room}"
    );
}

#[test]
fn a_run_that_began_without_a_background_resumes_without_it() {
    let options = TrainOptions { test_every: Some(0), ..from(InitPoints::Dense, 2) };
    let (_folder, run) = runs();
    train(&options, &mut MockEngine::default(), &run, &mut ignore).unwrap();
    let resumed = |run: &Path| {
        std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
        let mut engine = MockEngine::default();
        resume(&TrainOptions::default(), &mut engine, run, &mut ignore).unwrap();
        engine.save().unwrap().splats
    };
    let config = run.join("config.toml");
    let count = background_of(&RecordedRun::read(&config).unwrap());
    let with = resumed(&run);
    // As a run of before has recorded it.
    let text = std::fs::read_to_string(&config).unwrap();
    let line = format!("background-points = {count}\n");
    assert!(text.contains(&line), "{text}");
    std::fs::write(&config, text.replace(&line, "")).unwrap();
    let without = resumed(&run);
    assert_eq!(without.len() + count, with.len());
    assert_eq!(without, with.select(&(0..without.len()).collect::<Vec<_>>()));
}

#[test]
fn images_with_alpha_have_no_background() {
    let (folder, _) = runs();
    let data = folder.path().join("data");
    copy_folder(small_dataset(), &data);
    for entry in std::fs::read_dir(data.join("images")).unwrap() {
        let path = entry.unwrap().path();
        let picture = decode_file(&path).unwrap();
        let (width, height) = (picture.width, picture.height);
        let mut rgba: Vec<u8> = picture.rgb.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect();
        rgba[3] = 0;
        std::fs::write(&path, encode::png(width, height, PngPixels::Rgba8(&rgba), &[]).unwrap()).unwrap();
    }
    let given = TrainOptions { data: Some(data), ..from(InitPoints::Dense, 1) };
    let (_, recorded) = start_of(&given);
    assert_eq!(recorded.record.background_points, None);
    assert!(recorded.record.start.ends_with(" from stereo"), "{}", recorded.record.start);
}

#[test]
fn memory_is_planned_for_dense_points_also_if_no_splats_are_added_later() {
    let (_folder, run) = runs();
    let options = TrainOptions { density_until: Some(0.0), ..halved(1) };
    let mut planned = [0; 2];
    let mut on_event = |event: &Event, _: &AtomicBool| {
        if let Event::Started(started) = event {
            planned = [started.memory.splat_count, started.splats];
        }
    };
    train(&options, &mut MockEngine::default(), &run, &mut on_event).unwrap();
    assert!(planned[0] == planned[1] && planned[0] > 1_000, "{planned:?}");
}

#[test]
fn threads_levels_stops_and_kills_do_not_change_a_byte() {
    let options = TrainOptions { test_every: Some(0), ..halved(20) };
    let expected = whole(&options);
    for threads in [1, 3] {
        let (_folder, run) = runs();
        let given = TrainOptions { threads: Some(threads), ..options.clone() };
        train(&given, &mut cpu(threads as usize), &run, &mut ignore).unwrap();
        assert!(splats_of(&run) == expected, "{threads} threads");
    }
    // Stopped after ten steps: resuming from a checkpoint needs no depth maps.
    let (_folder, run) = runs();
    train(&options, &mut cpu(1), &run, &mut stop_at(10)).unwrap();
    let mut no_stereo = |event: &Event, _: &AtomicBool| assert!(!matches!(event, Event::StereoBegun { .. }));
    resume(&TrainOptions::default(), &mut cpu(2), &run, &mut no_stereo).unwrap();
    assert!(splats_of(&run) == expected, "stopped");
    // Killed before the first checkpoint: everything is computed again.
    let (folder, run) = runs();
    let killed = folder.path().join("killed");
    let mut kill = |event: &Event, _: &AtomicBool| {
        if matches!(event, Event::Started(_)) {
            copy_folder(&run, &killed);
        }
    };
    train(&options, &mut cpu(1), &run, &mut kill).unwrap();
    let mut again = 0;
    let mut count =
        |event: &Event, _: &AtomicBool| again += usize::from(matches!(event, Event::StereoDone(_)));
    resume(&TrainOptions::default(), &mut cpu(1), &killed, &mut count).unwrap();
    assert!(splats_of(&killed) == expected && again == 1, "killed");
}

#[test]
fn vector_levels_do_not_change_a_byte() {
    // Two steps and no evaluation: the baseline without fused multiply-adds is slow.
    let options = TrainOptions { test_every: Some(0), ..halved(2) };
    let expected = whole(&options);
    for wanted in SimdLevel::ALL.into_iter().filter(|&wanted| dispatch_level(wanted).is_some()) {
        let (_folder, run) = runs();
        let mut engine = CpuEngine::new(CpuOptions { threads: 2, level: wanted }).unwrap();
        train(&options, &mut engine, &run, &mut ignore).unwrap();
        assert!(splats_of(&run) == expected, "{}", wanted.level_name());
    }
}

#[test]
fn kept_depth_maps_are_arrays_of_right_depths_and_are_the_runs_own() {
    let (_folder, run) = runs();
    let options = TrainOptions { keep_depth: Some(true), ..from(InitPoints::Auto, 2) };
    train(&options, &mut MockEngine::default(), &run, &mut ignore).unwrap();
    let config = TrainConfig::resolve(&options, None).unwrap();
    let dataset = open(&config);
    let mut files: Vec<_> =
        std::fs::read_dir(run.join("depth")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "npy"));
    files.sort();
    assert_eq!(files.len(), dataset.split.train.len());
    let index = dataset.split.train[3];
    let name = dataset.images[index].name.trim_end_matches(".png").to_owned();
    assert!(files[3].ends_with(format!("0003_{name}.npy")), "{}", files[3].display());
    let bytes = std::fs::read(&files[3]).unwrap();
    let (header, data) = bytes.split_at(bytes.len() - 4 * 160 * 120);
    assert!(header.starts_with(b"\x93NUMPY\x01\x00") && header.len() % 64 == 0);
    assert!(String::from_utf8_lossy(header).contains("'<f4', 'fortran_order': False, 'shape': (120, 160)"));
    let scene = gausset_scenes::demo(gausset_scenes::DemoSize::Small, 0);
    let truth = scene.world.depth(&scene.camera, &dataset.images[index].pose, &Pool::new(1));
    let depths = data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let known: Vec<f32> =
        depths.zip(truth).filter(|(z, _)| !z.is_nan()).map(|(z, truth)| (z / truth - 1.0).abs()).collect();
    let right = known.iter().filter(|&&error| error < 0.03).count();
    // 88 % of all views (crates/stereo/tests).
    assert!(known.len() > 5_000 && right * 10 > known.len() * 8, "{right} of {}", known.len());

    // Without a checkpoint, existing depth maps are kept and missing ones are computed again.
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    std::fs::remove_file(&files[3]).unwrap();
    std::fs::write(&files[4], "as it was").unwrap();
    resume(&TrainOptions::default(), &mut MockEngine::default(), &run, &mut ignore).unwrap();
    assert!(std::fs::read(&files[3]).unwrap() == bytes);
    assert_eq!(std::fs::read(&files[4]).unwrap(), b"as it was");

    // A new run removes them.
    let config = TrainConfig::resolve(&from(InitPoints::Sfm, 2), None).unwrap();
    let session = session(&config, Box::new(MockEngine::default()), &Arc::default());
    drop(Run::start(config, &run, Overwrite::Replace, session, &mut |_| {}).unwrap());
    assert!(files.iter().all(|file| !file.exists()));
}

#[test]
fn where_stereo_finds_nothing_dense_is_refused_and_auto_starts_from_the_points_alone() {
    // Too small for two scales.
    let max_resolution = Some(24);
    let tiny = |points| TrainOptions { init_points: Some(points), max_resolution, ..options(5) };
    let (_folder, run) = runs();
    let error = train(&tiny(InitPoints::Dense), &mut cpu(1), &run, &mut ignore).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: ⟨init-points = dense⟩: stereo found no points (expected surfaces that three images see from more than \
             3 degrees apart, found 0.0 % of the pixels confirmed in 0 of 7 images); use ⟨init-points = auto or sfm⟩",
            tiny_dataset().display()
        )
    );
    assert!(!run.exists());
    assert!(whole(&tiny(InitPoints::Auto)) == whole(&tiny(InitPoints::Sfm)));
    // The points of the dataset use up the maximum number of splats.
    let full = |points| TrainOptions { max_splats: Some(150), ..tiny(points) };
    let error = train(&full(InitPoints::Dense), &mut cpu(1), &run, &mut ignore).unwrap_err().to_string();
    assert!(error.contains("dense points do not fit (expected fewer points"), "{error}");
    let mut no_stereo = |event: &Event, _: &AtomicBool| assert!(!matches!(event, Event::StereoBegun { .. }));
    train(&full(InitPoints::Auto), &mut cpu(1), &run, &mut no_stereo).unwrap();
}

#[test]
fn a_run_that_is_stopped_in_stereo_has_written_nothing() {
    let (_folder, run) = runs();
    let mut stop = |event: &Event, stop: &AtomicBool| {
        assert!(!matches!(event, Event::StereoDone(_)));
        stop.store(true, Ordering::Relaxed);
    };
    let error = train(&from(InitPoints::Dense, 5), &mut cpu(2), &run, &mut stop).unwrap_err();
    assert!(matches!(error, TrainError::Stopped) && !run.exists());
    // A folder in use is reported before stereo starts.
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("splats.ply"), "mine").unwrap();
    let error = train(&from(InitPoints::Dense, 5), &mut cpu(2), &run, &mut stop).unwrap_err();
    assert!(matches!(error, TrainError::Folder(_)), "{error}");
}

#[test]
fn without_points_of_the_dataset_those_of_stereo_are_the_start_and_the_background_stays_random() {
    let (folder, _) = runs();
    let data = folder.path().join("data");
    copy_folder(small_dataset(), &data);
    let points = data.join("sparse/0/points3D.bin");
    assert!(points.is_file());
    std::fs::write(points, 0u64.to_le_bytes()).unwrap();
    let given = TrainOptions { data: Some(data), ..from(InitPoints::Auto, 1) };
    let (splats, recorded) = start_of(&given);
    let record = recorded.record;
    let background = record.background_points.unwrap();
    let dense = splats.len() as u64 - background;
    assert_eq!(
        record.start,
        format!("{dense} splats from stereo (the dataset has no points), {background} in the background")
    );
    assert!(splats.len() > 300 && record.random_background, "{record:?}");
}

#[test]
fn with_gains_the_colours_are_those_of_the_scene_and_without_them_those_of_the_pictures() {
    let (folder, _) = runs();
    let data = folder.path().join("data");
    copy_folder(small_dataset(), &data);
    for (i, entry) in std::fs::read_dir(data.join("images")).unwrap().enumerate() {
        let path = entry.unwrap().path();
        let gain = libm::exp2(0.2 * (i % 4) as f64 - 0.3);
        let picture = decode_file(&path).unwrap();
        let rgb = picture.rgb.iter().map(|&v| (f64::from(v) * gain).round().min(255.0) as u8).collect();
        let changed = RgbImage8 { width: picture.width, height: picture.height, data: rgb };
        std::fs::write(&path, encode::png_rgb8(&changed).unwrap()).unwrap();
    }
    let start = |exposure| {
        let exposure = Some(exposure);
        let given = TrainOptions { data: Some(data.clone()), exposure, ..from(InitPoints::Dense, 1) };
        let (_folder, run) = runs();
        let mut engine = MockEngine::default();
        train(&given, &mut engine, &run, &mut ignore).unwrap();
        let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
        (engine.save().unwrap(), background_of(&recorded))
    };
    let ((with, background), (without, _)) = (start(Exposure::On), start(Exposure::Off));
    let (sfm, _) = start_of(&from(InitPoints::Sfm, 1));
    let gains = with.correction_group(CorrectionKind::Gain).unwrap();
    assert_eq!(with.splats.means, without.splats.means);
    let colour = |splats: &Splats, i: usize| {
        let stride = splats.sh_stride();
        [0, 1, 2].map(|c| f64::from(sh::colour_from_dc(splats.sh[i * stride + c])))
    };
    let (mut changed, end) = (0, with.splats.len() - background);
    for i in sfm.len()..end {
        let (scene, picture) = (colour(&with.splats, i), colour(&without.splats, i));
        // The gain of one of the images is between them.
        let is_one = |row: usize| {
            let gain = gains.row(row);
            (0..3).all(|c| (scene[c] * libm::exp(f64::from(gain[c])) - picture[c]).abs() < 1e-5)
        };
        assert!((0..gains.update_counts.len()).any(is_one), "{scene:?}, {picture:?}");
        changed += usize::from((scene[0] - picture[0]).abs() > 0.03 * picture[0]);
    }
    let dense = end - sfm.len();
    assert!(dense > 300 && changed * 2 > dense, "{changed} of {dense}");
}

#[test]
fn less_memory_makes_smaller_depth_maps_and_a_run_that_goes_on_makes_the_same() {
    let given = from(InitPoints::Dense, 2);
    let config = TrainConfig::resolve(&given, None).unwrap();
    let dataset = open(&config);
    let engine = cpu(1);
    let plan = |mebibytes: u64| MemoryPlan::predict(&config.recipe, &dataset, 0, mebibytes << 20, &engine);
    let least = (1..).find(|&mebibytes| plan(mebibytes).fits()).unwrap();
    let limited = TrainOptions { max_memory: Some(MemoryLimit::Bytes((least + 1) << 20)), ..given };
    let (_folder, run) = runs();
    train(&limited, &mut cpu(1), &run, &mut ignore).unwrap();
    let side = RecordedRun::read(&run.join("config.toml")).unwrap().record.stereo_side.unwrap();
    assert!((48..160).contains(&side), "{side}");
    let expected = splats_of(&run);
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    let more = TrainOptions { max_memory: Some(MemoryLimit::Bytes(4 << 30)), ..TrainOptions::default() };
    resume(&more, &mut cpu(2), &run, &mut ignore).unwrap();
    assert!(splats_of(&run) == expected);
    // A size that does not fit is rejected.
    let config = run.join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(&format!("stereo-side = {side}"), "stereo-side = 400")).unwrap();
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    let less = TrainOptions { max_memory: limited.max_memory, ..TrainOptions::default() };
    let error = resume(&less, &mut cpu(1), &run, &mut ignore).unwrap_err();
    assert!(matches!(error, TrainError::StereoMemory { .. }), "{error}");
}

#[test]
fn depth_maps_that_should_be_kept_and_are_not_possible_are_missing_with_a_reason() {
    let (_folder, run) = runs();
    // The points of the dataset take all splats.
    let given = TrainOptions { keep_depth: Some(true), max_splats: Some(50), ..from(InitPoints::Auto, 1) };
    let mut lines = Vec::new();
    let mut warnings = |event: &Event, _: &AtomicBool| {
        if let Event::Warning(warning) = event {
            lines.push(warning.to_string());
        }
    };
    train(&given, &mut MockEngine::default(), &run, &mut warnings).unwrap();
    let expected = "⟨keep-depth⟩: there are no depth maps: dense points do not fit (expected fewer points in the dataset \
                    than ⟨max-splats⟩ 50, found 50)";
    assert_eq!(lines, [expected]);
    assert!(!run.join("depth").exists());
}

#[test]
fn initial_points_are_chosen_from_the_number_of_splats_before_a_time_budget_lowered_it() {
    let whole = from(InitPoints::Dense, 1);
    let (expected, _) = start_of(&whole);
    let lowered = TrainOptions { max_splats: Some(5_000), start_max_splats: Some(8_000), ..whole.clone() };
    let (lowered, recorded) = start_of(&lowered);
    assert!(lowered == expected && recorded.config.recipe.max_splats == 5_000);
    let (fewer, _) = start_of(&TrainOptions { max_splats: Some(5_000), ..whole });
    assert!(fewer.len() < expected.len());
}
