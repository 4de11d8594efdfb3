//! Free space: the device compared with the CPU, and the protocol around the units of its views.

use gausset_core::engine::{Bubble, FreeSpaceRule, FreeSpaceView};
use gausset_core::{Camera, Pose};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_testkit::engine_contract::{params, view};

use super::*;
use crate::layout::Buffer;
use crate::record::{Job, Record, Rule, status};

const CAMERA: Camera = Camera {
    projection: gausset_core::Projection::Pinhole,
    width: 64,
    height: 48,
    fx: 60.0,
    fy: 60.0,
    cx: 32.0,
    cy: 24.0,
};

/// Points on a wall at z = 4, as a camera near the origin sees it.
fn wall() -> Vec<[f32; 3]> {
    let along = |n: i32| (0..n).map(move |i| 0.2 * (i - n / 2) as f32);
    along(11).flat_map(|x| along(9).map(move |y| [x, y, 4.0])).collect()
}

/// Views next to each other, of two sizes.
fn rays(views: usize) -> FreeSpaceRule {
    let views = (0..views).map(|i| {
        let pose = Pose { translation: [0.05 * i as f64, -0.02 * i as f64, 0.0], ..Pose::IDENTITY };
        let camera = if i % 2 == 0 { CAMERA } else { CAMERA.downscaled(2) };
        FreeSpaceView { camera, pose, points: wall() }
    });
    FreeSpaceRule {
        views: views.collect(),
        free_fraction: 0.5,
        min_points: 1,
        min_weight: 0.05,
        bubbles: Vec::new().into(),
        cameras: Vec::new().into(),
        near_factor: 3.0,
    }
}

/// With two bubbles, part of which a camera sees from close by.
fn places(rule: FreeSpaceRule) -> FreeSpaceRule {
    let bubbles = vec![
        Bubble { centre: [0.6, 0.0, 1.0], radius: 0.5 },
        Bubble { centre: [-0.6, 0.2, 2.0], radius: 0.4 },
    ];
    let cameras =
        vec![(CAMERA, Pose::IDENTITY), (CAMERA, Pose { translation: [-0.5, 0.0, 0.2], ..Pose::IDENTITY })];
    FreeSpaceRule { bubbles: bubbles.into(), cameras: cameras.into(), near_factor: 1.5, ..rule }
}

/// A cloud of splats of all sizes and shapes between the cameras and the wall; some are not finite.
fn cloud(n: usize) -> TrainState {
    let mut state = state(n, 1, 70);
    for i in 0..n {
        let of = |k: u32| uniform(philox(71, stream::TEST, u64::from(k), i as u32)[0]);
        let z = 0.1 + 4.0 * of(0);
        state.splats.means[i] = [z * (of(1) - 0.5), z * (of(2) - 0.5), z];
        state.splats.log_scales[i] = [3, 4, 5].map(|k| (0.002 + 0.2 * of(k) * of(k)).ln());
        state.splats.opacity_logits[i] = 4.0 * of(6) - 5.0;
    }
    for i in (40..n).step_by(97) {
        match i % 3 {
            0 => state.splats.means[i][1] = f32::NAN,
            1 => state.splats.opacity_logits[i] = f32::INFINITY,
            _ => state.splats.quats[i] = [0.0; 4],
        }
    }
    state
}

fn by_processor(state: &TrainState, rule: &FreeSpaceRule) -> (TrainState, StepReport) {
    let mut engine = CpuEngine::new(CpuOptions::default()).expect("an engine");
    engine.load(state.clone()).expect("a state");
    engine.densify(&DensityRule::FreeSpace(rule.clone())).expect("a rule");
    let report = engine.flush().expect("flushed");
    (engine.save().expect("saved"), report)
}

#[test]
fn what_rays_and_bubbles_condemn_is_what_the_processor_condemns() {
    let Some(gpu) = gpu("what_rays_and_bubbles_condemn_is_what_the_processor_condemns") else { return };
    let mut engine = engine(&gpu, 0);
    let nothing = FreeSpaceRule { views: Vec::new().into(), ..rays(0) };
    let behind = FreeSpaceView { camera: CAMERA, pose: Pose::IDENTITY, points: vec![[0.0, 0.0, -1.0]] };
    let cases = [
        ("rays", rays(3), 3000),
        ("bubbles", places(nothing.clone()), 3000),
        ("both", places(rays(2)), 4097),
        ("few", places(rays(1)), 255),
        ("nothing", nothing.clone(), 300),
        ("nothing that is seen", FreeSpaceRule { views: vec![behind].into(), ..nothing }, 300),
        ("no splats", places(rays(1)), 0),
    ];
    for (name, rule, n) in cases {
        let start = cloud(n);
        let (expected, told) = by_processor(&start, &rule);
        let (found, report) = applied(&mut engine, &start, &[DensityRule::FreeSpace(rule)]);
        let logits = |state: &TrainState| bits(&state.splats.opacity_logits);
        let differ = logits(&found).iter().zip(logits(&expected)).filter(|(a, b)| **a != *b).count();
        assert!(if n >= 3000 { told.cleared > 20 } else { n > 0 || told.cleared == 0 }, "{name}: {told:?}");
        // Weights and peak positions are rounded differently: one in two hundred may be borderline.
        assert!(differ as u64 <= told.cleared / 200, "{name}: {differ} of {} differ", told.cleared);
        assert!(report.cleared.abs_diff(told.cleared) <= told.cleared / 200, "{name}: {report:?} {told:?}");
        let but: &[&str] = if differ == 0 { &[] } else { &["logits", "m logits"] };
        assert_equal_bits(name, &found, &expected, but);
    }
}

#[test]
fn rays_that_are_followed_in_parts_say_the_same() {
    let Some(gpu) = gpu("rays_that_are_followed_in_parts_say_the_same") else { return };
    let rule = [DensityRule::FreeSpace(FreeSpaceRule {
        // More rays than one workgroup.
        views: rays(2)
            .views
            .iter()
            .map(|view| FreeSpaceView { points: wall().repeat(9), ..view.clone() })
            .collect(),
        ..rays(0)
    })];
    let (whole, told) = applied(&mut engine(&gpu, 0), &cloud(3000), &rule);
    let mut apart = engine(&gpu, 0);
    apart.memory.pace = crate::split_tests::slow(3.0);
    let (found, report) = applied(&mut apart, &cloud(3000), &rule);
    let counts = apart.memory.counts();
    assert!(counts.submissions > 4 * counts.units, "{counts:?}");
    assert!(told.cleared > 20 && report == told, "{told:?} {report:?}");
    assert_equal_bits("in parts", &found, &whole, &[]);
}

#[test]
fn what_was_cleared_is_not_counted_again() {
    let Some(gpu) = gpu("what_was_cleared_is_not_counted_again") else { return };
    let rule = DensityRule::FreeSpace(places(rays(0)));
    let (once, first) = applied(&mut engine(&gpu, 0), &cloud(600), std::slice::from_ref(&rule));
    let (twice, both) = applied(&mut engine(&gpu, 0), &cloud(600), &[rule.clone(), rule]);
    assert!(first.cleared > 0 && both.cleared == first.cleared, "{first:?} {both:?}");
    assert_equal_bits("twice", &twice, &once, &[]);
}

#[test]
fn rays_are_counted_once_where_a_later_band_has_too_many_entries() {
    let Some(gpu) = gpu("rays_are_counted_once_where_a_later_band_has_too_many_entries") else { return };
    // Most splats are in the lower half of the image.
    let mut start = cloud(3000);
    start.splats.means.iter_mut().for_each(|[_, y, z]| *y = y.abs() - 0.1 * *z);
    let camera = Camera { width: 512, height: 384, fx: 480.0, fy: 480.0, cx: 256.0, cy: 192.0, ..CAMERA };
    let view = FreeSpaceView { camera, ..rays(1).views[0].clone() };
    let rule = FreeSpaceRule { min_points: 3, views: vec![view; 2].into(), ..rays(0) };
    let rule = [DensityRule::FreeSpace(rule)];
    let (whole, told) = applied(&mut engine(&gpu, 0), &start, &rule);
    let mut in_bands = engine(&gpu, 0);
    in_bands.memory.entry_limit = 32_768;
    let (found, report) = applied(&mut in_bands, &start, &rule);
    assert!(told.cleared > 20 && report == told, "{told:?} {report:?}");
    assert_equal_bits("in bands", &found, &whole, &[]);
}

/// Steps, free space, relocation: as in training.
fn work(engine: &mut GpuEngine, range: std::ops::Range<u64>) {
    for step in range {
        engine.step(&[view(step as u32 % 2)], &[], &params(step)).expect("a step");
        if step % 3 == 1 {
            let rule = places(rays(1 + step as usize));
            engine.densify(&DensityRule::FreeSpace(rule)).expect("free space");
            let rule = McmcRule { growth: 1.3, step, ..mcmc_rule() };
            engine.densify(&DensityRule::Mcmc(rule)).expect("a rule");
        }
    }
}

#[test]
fn views_of_free_space_under_way_give_the_same_bytes_also_without_room() {
    let Some(gpu) = gpu("views_of_free_space_under_way_give_the_same_bytes_also_without_room") else {
        return;
    };
    // Veils over the whole image: more entries than the initial capacity.
    let mut start = cloud(3900);
    start.splats.log_scales.iter_mut().step_by(2).for_each(|scale| *scale = [-0.5; 3]);
    start.splats.opacity_logits.iter_mut().for_each(|logit| *logit = logit.min(-3.0));
    let run = |engine: &mut GpuEngine| {
        engine.load(start.clone()).expect("a state");
        work(engine, 0..5);
        let report = engine.flush().expect("flushed");
        (engine.save().expect("saved"), report)
    };
    let large = FreeSpaceView {
        camera: Camera {
            projection: gausset_core::Projection::Pinhole,
            width: 512,
            height: 384,
            fx: 480.0,
            fy: 480.0,
            cx: 256.0,
            cy: 192.0,
        },
        ..rays(1).views[0].clone()
    };
    let wide = DensityRule::FreeSpace(FreeSpaceRule { views: vec![large; 2].into(), ..rays(0) });
    let mut one = engine(&gpu, 1);
    let (expected, report) = run(&mut one);
    assert!(report.cleared > 0 && report.steps == 5 && report.added > 0, "{report:?}");
    let mut eight = engine(&gpu, 8);
    let found = run(&mut eight);
    assert_eq!(found.1, report);
    assert_equal_bits("8 under way", &found.0, &expected, &[]);
    // A view that does not fit: the second of three, after one that has added evidence.
    let with_room =
        |engine: &mut GpuEngine| applied(engine, &start, &[DensityRule::FreeSpace(rays(1)), wide.clone()]);
    let mut small = engine(&gpu, 8);
    let (first, told) = with_room(&mut small);
    assert!(told.cleared > 0);
    let entries = small.memory.sizes().entries;
    assert!(entries > 65_536, "it had to grow: {entries}");
    let (second, again) = with_room(&mut small);
    assert_eq!((again, small.memory.sizes().entries), (told, entries));
    assert_equal_bits("with room", &second, &first, &[]);
    // Stopped and resumed between a rule and a step.
    let mut before = engine(&gpu, 8);
    before.load(start.clone()).expect("a state");
    work(&mut before, 0..2);
    let mut after = engine(&gpu, 8);
    after.load(before.save().expect("saved")).expect("a state");
    work(&mut after, 2..5);
    assert_equal_bits("resumed", &after.save().expect("saved"), &expected, &[]);
}

#[test]
fn nothing_comes_back_of_free_space_and_nobody_waits() {
    let Some(gpu) = gpu("nothing_comes_back_of_free_space_and_nobody_waits") else { return };
    let mut engine = engine(&gpu, 0);
    engine.load(cloud(600)).expect("a state");
    let rule = places(rays(3));
    let sent: u64 = rule.views.iter().map(|view| 32 * view.rays().count() as u64).sum();
    let placed = 16 * (rule.bubbles.len() + 6 * rule.cameras.len()) as u64;
    let rule = DensityRule::FreeSpace(rule);
    for step in 0..2 {
        engine.step(&[view(step)], &[], &params(u64::from(step))).expect("a step");
        engine.densify(&rule).expect("a rule");
    }
    engine.flush().expect("flushed");
    let before = engine.memory.counts();
    engine.densify(&rule).expect("a rule");
    engine.densify(&rule).expect("a rule");
    let after = engine.memory.counts();
    assert_eq!(after.submissions - before.submissions, 8, "three views and the rule, twice");
    assert_eq!((after.waits, after.allocations), (before.waits, before.allocations));
    assert_eq!(after.sent - before.sent, 8 * (Job::BYTES + Rule::BYTES) + 2 * (sent + placed));
    assert_eq!(after.read - before.read, 8 * 4 * status::WORDS as u64, "64 bytes each");
    engine.flush().expect("flushed");
    assert!(engine.memory.sizes().bytes(Buffer::FreeSpace) < 16_384);
}
