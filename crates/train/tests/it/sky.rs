//! The learnt sky, and the splats that represent it in files.

#![allow(clippy::print_stdout, reason = "measured errors, shown with --nocapture")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::common::{
    MockEngine, copy_folder, cpu, ignore, open, options, resume, runs, small_dataset, splats_of, stop_at,
    train, without_turn,
};
use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, Engine, Outputs, RenderOptions, Rendering, SKY_VALUES, TrainState,
};
use gausset_core::se3;
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, Splats};
use gausset_io::atomic::Disk;
use gausset_io::dataset::{Loader, LoaderOptions};
use gausset_io::image::encode::PngPixels;
use gausset_io::image::{decode_file, encode};
use gausset_io::run_folder::RunFolder;
use gausset_io::splat::{self, LoadOptions, SplatFile};
use gausset_testkit::assert_golden_bytes;
use gausset_testkit::scene::Random;
use gausset_train::{
    Background, EvalOptions, EvalReport, MetricSet, RandomBackground, RecordedRun, Split, SsimDefinition,
    TrainConfig, TrainOptions, evaluate, sky,
};

fn with_sky(steps: u64) -> TrainOptions {
    TrainOptions { background: Some(Background::Sky), ..options(steps) }
}

/// The state of the last checkpoint.
fn last_state(run: &Path) -> TrainState {
    RunFolder::open(&Disk, run).unwrap().newest_checkpoint(&Disk).unwrap().found.unwrap().state
}

fn saved(run: &Path) -> SplatFile {
    splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap()
}

fn score(state: TrainState, render: RenderOptions, scene: Option<usize>, turn: Similarity) -> EvalReport {
    let config = TrainConfig::resolve(&options(1), None).unwrap();
    let loader = Loader::new(open(&config), LoaderOptions::default());
    let options = EvalOptions {
        split: Split::Test,
        max_views: None,
        exposures: None,
        render,
        scene_splats: scene.map(|count| count as u32),
        splats_from_dataset: turn,
        reduction: 1,
        ssim: SsimDefinition::default(),
        measures: MetricSet::All,
        lpips: None,
    };
    let mut engine = cpu(1);
    engine.load(state).unwrap();
    evaluate(&mut engine, &loader, options, None, &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_sphere_of_splats_shows_the_sky_and_nothing_of_what_is_behind_it() {
    let mut random = Random::new(5);
    let coefficients: [f32; SKY_VALUES] = std::array::from_fn(|_| random.uniform(-0.3, 0.3) as f32);
    let (extent, cameras) = (2.0, [Pose { translation: [1.0, -2.0, 3.0], ..Pose::IDENTITY }]);
    let mut splats = Splats::zeros(0, 0);
    sky::append(&mut splats, &coefficients, &cameras, extent);
    let mut engine = cpu(1);
    engine.load(TrainState::new(splats, Vec::new())).unwrap();
    let (mut squares, mut values, mut most, mut most_through) = (0.0, 0.0, 0.0f64, 0.0f32);
    // A wide-angle lens and a long one.
    for focal in [32.0, 400.0] {
        let camera = Camera::new(64, 48, focal, focal, 32.0, 24.0).unwrap();
        let mut picture = |pose: &Pose, white: f32| -> Rendering {
            let options = RenderOptions { background: [white; 3], ..RenderOptions::default() };
            engine.render(&camera, pose, &options, Outputs::All).unwrap()
        };
        for index in 0..40 {
            // In all directions, from the centre and from positions as far out as cameras are.
            let turn = se3::so3_exp(std::array::from_fn(|_| random.uniform(-3.0, 3.0)));
            let out = if index % 2 == 0 { 0.0 } else { extent / 3f64.sqrt() };
            let place: [f64; 3] = std::array::from_fn(|k| cameras[0].centre()[k] + out);
            let translation = se3::mul_vec(&turn, place).map(|v| -v);
            let pose = Pose { rotation: turn, translation };
            let (black, white) = (picture(&pose, 0.0), picture(&pose, 1.0));
            for (pixel, (on_black, on_white)) in black.color.iter().zip(&white.color).enumerate() {
                let through = on_white - on_black;
                assert!(through <= 1e-3, "{through} of the background is visible");
                most_through = most_through.max(through);
                let (x, y) = (pixel / 3 % 64, pixel / 3 / 64);
                let [u, v] = [(x as f64 - 31.5) / focal, (y as f64 - 23.5) / focal];
                let way = se3::transpose_mul_vec(&turn, [u, v, 1.0]);
                let expected = sky::colour(&coefficients, way.map(|d| d / se3::norm(way)))[pixel % 3];
                // Blurred over some degrees, most towards the edges of a wide image, and seen from up to two degrees
                // off the centre; this sky changes by up to one per radian, which is more than real skies do.
                let error = (f64::from(*on_black) - expected).abs();
                most = most.max(error);
                (squares, values) = (squares + error * error, values + 1.0);
            }
        }
    }
    let error = (squares / values).sqrt();
    println!("error: root mean square {error:.4}, largest {most:.4}; seen through {most_through:.1e}");
    assert!(most < 0.1, "{most}");
    assert!(error < 0.02, "{error}");
}

#[test]
fn the_saved_splats_show_what_the_run_has_learnt() {
    let (_folder, run) = runs();
    let outcome = train(&with_sky(300), &mut cpu(1), &run, &mut ignore).unwrap();
    let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
    assert!(recorded.record.sky && recorded.record.background == [0.0; 3]);
    let (state, file) = (last_state(&run), saved(&run));
    // The training state contains no sky splats.
    assert_eq!((file.sky, file.scene_len()), (sky::SPLAT_COUNT, state.splats.len()));
    assert_eq!(state.correction_group(CorrectionKind::Sky).unwrap().update_counts, [300]);
    assert_eq!(outcome.summary.splats, state.splats.len() as u64);

    let turn = recorded.record.saved_from_dataset();
    let state_from_dataset = recorded.record.normalisation.dataset_from_normalised().inverse();
    let scene = Some(file.scene_len());
    let harmonics = RenderOptions { sky: true, ..RenderOptions::default() };
    let by_state = score(state.clone(), harmonics, None, state_from_dataset);
    let by_file =
        score(TrainState::new(file.splats.clone(), Vec::new()), RenderOptions::default(), scene, turn);
    let [in_run, by_state, by_file] =
        [outcome.summary.psnr.unwrap(), by_state.psnr.unwrap(), by_file.psnr.unwrap()];
    println!("harmonics {by_state:.3} dB, splats {by_file:.3} dB, in the run {in_run:.3} dB");
    assert!((by_state - by_file).abs() < 0.1, "harmonics {by_state} dB, splats {by_file} dB");
    // Rotation rounds to f32.
    assert!((in_run - by_file).abs() < 1e-2, "{in_run} {by_file}");
    // Without its sky the score is different.
    let alone = TrainState::new(file.scene().into_owned(), Vec::new());
    let alone = score(alone, RenderOptions::default(), None, turn).psnr.unwrap();
    assert!(alone < by_file - 1.0, "{alone} {by_file}");
}

#[test]
fn the_splats_of_a_sky_are_no_surface() {
    let (_folder, run) = runs();
    let outcome = train(&with_sky(200), &mut cpu(1), &run, &mut ignore).unwrap();
    let turn = RecordedRun::read(&run.join("config.toml")).unwrap().record.saved_from_dataset();
    let file = saved(&run);
    let whole = TrainState::new(file.splats.clone(), Vec::new());
    let alone = TrainState::new(file.scene().into_owned(), Vec::new());
    let known = score(whole.clone(), RenderOptions::default(), Some(file.scene_len()), turn).scores;
    let without = score(alone, RenderOptions::default(), None, turn).scores;
    // Haze and the co-visible fraction are those of the scene, to the bit.
    assert_eq!((known.haze, known.covisible_share), (without.haze, without.covisible_share));
    assert!(known.covisible_share.is_some_and(|share| share > 0.0), "{known:?}");
    assert_ne!(known.psnr_covisible, without.psnr_covisible, "the colour includes the sky");
    // If the sky were counted as a surface, they would differ.
    let mistaken = score(whole, RenderOptions::default(), None, turn).scores;
    assert_ne!(mistaken.covisible_share, known.covisible_share);
    // The run itself excludes the sky; rotation rounds to f32.
    let in_run = outcome.summary.scores.covisible_share.unwrap();
    assert!((in_run - known.covisible_share.unwrap()).abs() < 0.02, "{in_run} {known:?}");
}

#[test]
fn a_run_with_a_sky_goes_on_with_the_same_bytes() {
    let random = TrainOptions { random_background: Some(RandomBackground::Always), ..with_sky(60) };
    for given in [with_sky(60), random] {
        let (_folder, run) = runs();
        train(&given, &mut cpu(1), &run, &mut ignore).unwrap();
        let expected = splats_of(&run);
        let random = given.random_background.map_or("", |_| ", random backgrounds");
        assert_golden_bytes(&format!("train: 60 steps, a sky{random}"), &without_turn(&expected));
        for stop in [10, 40] {
            let (_folder, run) = runs();
            train(&given, &mut cpu(2), &run, &mut stop_at(stop)).unwrap();
            resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
            assert!(splats_of(&run) == expected, "stopped after {stop}");
        }
        let groups: Vec<CorrectionGroup> = last_state(&run).corrections;
        assert_eq!(groups.iter().map(|group| group.group).collect::<Vec<_>>(), [CorrectionKind::Sky]);
    }
}

#[test]
fn a_start_from_saved_splats_leaves_their_sky_out() {
    let (_folder, run) = runs();
    train(&with_sky(30), &mut cpu(1), &run, &mut ignore).unwrap();
    let scene = saved(&run).scene_len();
    let (_other_folder, other) = runs();
    let given = TrainOptions { init: Some(run.join("splats.ply")), ..options(1) };
    train(&given, &mut cpu(1), &other, &mut ignore).unwrap();
    let start = RecordedRun::read(&other.join("config.toml")).unwrap().record.start;
    assert!(start.starts_with(&format!("{scene} splats without the 4000 of a sky (from ")), "{start}");
    assert_eq!(saved(&other).sky, 0);
    assert_eq!(last_state(&other).splats.len(), scene);
}

#[test]
fn by_default_no_sky_is_learnt_if_the_background_of_any_image_is_cut_out() {
    let (folder, _) = runs();
    let data = folder.path().join("data");
    copy_folder(small_dataset(), &data);
    let given = TrainOptions { data: Some(data), background: Some(Background::Auto), ..options(1) };
    let config = TrainConfig::resolve(&given, None).unwrap();
    let dataset = open(&config);
    let with_alpha = |index: usize, alpha: u8| {
        let path = &dataset.images[index].path;
        let picture = decode_file(path).unwrap();
        let mut rgba: Vec<u8> = picture.rgb.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect();
        rgba[3] = alpha;
        let png = encode::png(picture.width, picture.height, PngPixels::Rgba8(&rgba), &[]).unwrap();
        std::fs::write(path, png).unwrap();
    };
    let learns = |name: &str| {
        let run = folder.path().join(name);
        train(&given, &mut MockEngine::default(), &run, &mut ignore).unwrap();
        RecordedRun::read(&run.join("config.toml")).unwrap().record.sky
    };
    let images = &dataset.split.train;
    assert!(images.len() >= 40 && learns("without"));
    images[..3].iter().for_each(|&index| with_alpha(index, 255));
    assert!(learns("opaque"));
    with_alpha(images[images.len() - 1], 0);
    assert!(!learns("cut out"));
}
