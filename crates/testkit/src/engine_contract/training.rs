//! States, steps, corrections, density rules, reports.

use std::sync::Arc;

use gausset_core::engine::{
    ClassicRule, CorrectionGroup, CorrectionKind, DensityRule, GradientStatistic, McmcRule, Outputs,
    StepParams, StepReport, TrainView,
};
use gausset_core::{Pose, TargetImage};

use super::scene::{CORRECTION, ZERO_RATES, loaded, options, params, scene, start, train, view};
use super::{MakeEngine, assert_same, if_supported};

/// `save` returns what was passed to `load`, including everything that is not a parameter, and does so twice.
pub fn a_saved_state_is_the_one_that_was_loaded(make: MakeEngine<'_>) {
    let mut state = start(CorrectionKind::ALL.map(|group| CorrectionGroup::new(group, 2)).to_vec());
    let n = state.splats.len();
    for i in 0..n {
        let x = i as f32;
        (state.moments.m.means[i], state.moments.v.quats[i]) = ([x, -x, 0.5], [x, 1.0, 2.0, 3.0]);
        (state.update_counts[i], state.ids[i]) = (i as u32, 100 - i as u32);
        state.statistics.gradient_sum[i] = 0.25 * x;
        (state.statistics.visible_steps[i], state.statistics.max_radius[i]) = (3, x);
    }
    (state.dense_update_count, state.next_id) = (77, 101);
    for extra in &mut state.corrections {
        extra.values.fill(0.125);
        extra.v.fill(2.0);
        extra.update_counts[1] = 5;
    }
    let mut engine = make();
    engine.load(state.clone()).expect("a state");
    for _ in 0..2 {
        assert!(engine.save().expect("saved") == state, "as it was loaded");
    }
    assert!(engine.read_corrections().expect("corrections") == state.corrections);
    for degree in 0..=state.splats.sh_degree {
        let splats = engine.read_splats(degree).expect("splats");
        assert!(splats == state.splats.with_sh_degree(degree), "the splats up to degree {degree}");
    }
}

/// Saving, rendering, querying and polling between steps do not change the state or the reports.
pub fn looking_changes_nothing_of_training(make: MakeEngine<'_>) {
    let mut quiet = loaded(make, Vec::new());
    train(&mut *quiet, 0..6);
    let expected = quiet.flush().expect("flushed");

    let mut busy = loaded(make, Vec::new());
    let (mut steps, mut losses) = (0, 0.0);
    let small = view(0).camera.downscaled(2);
    for step in 0..6 {
        train(&mut *busy, step..step + 1);
        let _ = busy.save().expect("saved");
        let _ = busy.read_corrections().expect("corrections");
        let _ = busy.read_splats(0).expect("splats");
        let report = busy.poll().expect("polled");
        (steps, losses) = (steps + report.steps, losses + report.loss_sum);
        let before = busy.flush().expect("flushed");
        (steps, losses) = (steps + before.steps, losses + before.loss_sum);
        let pose = scene().pose;
        busy.render(&small, &pose, &options(), Outputs::All).expect("a picture");
        let _ = busy.weight_in_front(&small, &pose, &options(), &[]).expect("an answer");
        let after = busy.flush().expect("flushed");
        let counted = StepReport { steps: 0, loss_sum: 0.0, cap_hits: 0, capped_steps: 0, ..before };
        assert_eq!(after, counted, "a picture is no step");
    }
    assert_eq!(steps, expected.steps);
    assert!((losses - expected.loss_sum).abs() <= 1e-6 * expected.loss_sum, "{losses} {}", expected.loss_sum);
    let (a, b) = (busy.save().expect("saved"), quiet.save().expect("saved"));
    assert_same(&a, &b, "looked at");
}

/// Training resumed from a state that another engine saved gives the same result.
pub fn a_state_that_was_saved_goes_on_as_if_it_had_not_been(make: MakeEngine<'_>) {
    let mut whole = loaded(make, Vec::new());
    train(&mut *whole, 0..6);
    let mut first = loaded(make, Vec::new());
    train(&mut *first, 0..3);
    let mut second = make();
    second.load(first.save().expect("saved")).expect("loaded");
    train(&mut *second, 3..6);
    let (a, b) = (second.save().expect("saved"), whole.save().expect("saved"));
    assert_eq!(b.dense_update_count, 6, "dense steps have one clock");
    assert_same(&a, &b, "gone on");
}

/// An engine that did other things before gives the same results as a new one.
pub fn the_same_calls_give_the_same_state(make: MakeEngine<'_>) {
    let mut used = loaded(make, vec![CorrectionGroup::new(CorrectionKind::Gain, 3)]);
    train(&mut *used, 5..9);
    let run = |engine: &mut dyn gausset_core::engine::Engine| {
        engine.load(start(Vec::new())).expect("loaded");
        train(engine, 0..4);
        engine.save().expect("saved")
    };
    let (a, b) = (run(&mut *used), run(&mut *make()));
    assert_same(&a, &b, "used before");
}

/// A step is reported once, by the first report after it; fields about the last step stay.
pub fn each_step_is_told_once(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let nothing = engine.flush().expect("flushed");
    assert_eq!((nothing.steps, nothing.last_step, nothing.splats), (0, None, 24));
    train(&mut *engine, 7..9);
    let told = engine.flush().expect("flushed");
    assert_eq!((told.steps, told.last_step, told.splats), (2, Some(8), 24));
    assert!(told.last_loss > 0.0 && told.loss_sum > told.last_loss && told.visible > 0, "{told:?}");
    let again = engine.poll().expect("polled");
    assert_eq!(again, StepReport { steps: 0, loss_sum: 0.0, ..told }, "told twice");
    train(&mut *engine, 9..12);
    let mut steps = engine.poll().expect("polled").steps;
    let last = engine.flush().expect("flushed");
    steps += last.steps;
    assert_eq!((steps, last.last_step), (3, Some(11)));
    engine.load(start(Vec::new())).expect("loaded");
    assert_eq!(engine.flush().expect("flushed").last_step, None, "of the state before");
}

/// Twelve steps on one view.
pub fn steps_on_a_view_lower_its_loss(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let mut loss = |step: u64| {
        engine.step(&[view(1)], &[], &params(step)).expect("a step");
        engine.flush().expect("flushed").last_loss
    };
    let losses: Vec<f64> = (0..12).map(&mut loss).collect();
    assert!(losses[11] < 0.97 * losses[0], "{losses:?}");
}

/// Moments may change, parameters do not.
pub fn without_rates_nothing_moves(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let still = StepParams { rates: ZERO_RATES, ..params(0) };
    engine.step(&[view(0)], &[], &still).expect("a step");
    let state = engine.save().expect("saved");
    assert!(state.splats == start(Vec::new()).splats);
    assert!(state.moments.m.means.iter().any(|m| *m != [0.0; 3]), "there was a gradient");
}

/// Sums and counts of visible splats, in the steps that request a statistic.
pub fn statistics_are_those_of_the_steps_that_ask_for_them(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    train(&mut *engine, 0..2);
    let none = engine.save().expect("saved").statistics;
    assert!(
        none.visible_steps.iter().all(|&steps| steps == 0) && none.gradient_sum.iter().all(|&sum| sum == 0.0)
    );
    let sums = [GradientStatistic::Signed, GradientStatistic::Absolute].map(|statistic| {
        engine.load(start(Vec::new())).expect("loaded");
        for step in 0..2 {
            let still = StepParams { rates: ZERO_RATES, statistic, ..params(step) };
            engine.step(&[view(0)], &[], &still).expect("a step");
        }
        engine.save().expect("saved").statistics
    });
    for statistics in &sums {
        assert!(statistics.visible_steps.iter().all(|&steps| steps == 0 || steps == 2));
        assert!(statistics.visible_steps.iter().filter(|&&steps| steps == 2).count() > 12);
        assert!(statistics.max_radius.iter().any(|&radius| radius > 1.0));
    }
    engine.load(start(Vec::new())).expect("loaded");
    let still = StepParams { rates: ZERO_RATES, statistic: GradientStatistic::Signed, ..params(0) };
    engine.step(&[TrainView { downscale: 4, ..view(0) }], &[], &still).expect("a step");
    let coarse = engine.save().expect("saved").statistics.max_radius;
    let [signed, absolute] = sums;
    let is_whole = |(c, r): (&f32, &f32)| (c - 4.0 * r).abs() <= 1e-3 * c;
    assert!(coarse.iter().zip(&signed.max_radius).all(is_whole), "in px of the whole image");
    let more = |(signed, absolute): (&f32, &f32)| *absolute >= 0.999 * signed;
    assert!(signed.gradient_sum.iter().zip(&absolute.gradient_sum).all(more), "of absolute values");
    assert!(signed.gradient_sum.iter().any(|&sum| sum > 0.0));
}

/// Half of the splats are left out; which ones depends on step and seed.
pub fn dropout_depends_on_seed_and_step(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let mut moments = |seed: u64, step: u64| {
        engine.load(start(Vec::new())).expect("loaded");
        let half = StepParams { dropout: 0.5, seed, rates: ZERO_RATES, ..params(step) };
        if_supported(engine.step(&[view(0)], &[], &half))?;
        let state = engine.save().expect("saved");
        Some(state.moments.m.means.iter().map(|m| *m != [0.0; 3]).collect::<Vec<bool>>())
    };
    let Some(first) = moments(1, 0) else { return };
    let left = first.iter().filter(|&&moved| moved).count();
    assert!((3..22).contains(&left), "{left} of 24");
    assert_eq!(moments(1, 0), Some(first.clone()));
    assert_ne!(moments(1, 1), Some(first.clone()));
    assert_ne!(moments(2, 0), Some(first));
}

/// A brighter image gets a larger gain; the mean of the gains stays zero; a row without rates is applied and not
/// updated.
pub fn gains_are_learnt_and_their_mean_stays_zero(make: MakeEngine<'_>) {
    let mut engine = loaded(make, vec![CorrectionGroup::new(CorrectionKind::Gain, 3)]);
    let rowed = |row: u32| TrainView { exposure_row: Some(row), ..view(row) };
    for step in 0..30 {
        let learning = StepParams { rates: ZERO_RATES, exposure: Some(CORRECTION), ..params(step) };
        let views = [rowed((step % 3) as u32)];
        let Some(()) = if_supported(engine.step(&views, &[], &learning)) else { return };
    }
    let groups = engine.read_corrections().expect("corrections");
    let [gains] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!((gains.group, &gains.update_counts[..]), (CorrectionKind::Gain, &[10, 10, 10][..]));
    for channel in 0..3 {
        let of = |row: usize| gains.row(row)[channel];
        assert!((of(0) + of(1) + of(2)).abs() < 1e-6, "{gains:?}");
        assert!(of(0) < of(1) && of(1) < of(2), "{gains:?}");
    }
    // The gain is applied without being updated: for the dark image the loss differs from that without the gain.
    let still = StepParams { rates: ZERO_RATES, ..params(30) };
    engine.flush().expect("flushed");
    let mut loss = |view: TrainView| {
        engine.step(&[view], &[], &still).expect("a step");
        engine.flush().expect("flushed").last_loss
    };
    assert!(loss(rowed(0)) < loss(view(0)));
    assert!(engine.read_corrections().expect("corrections") == groups);
}

/// A picture without content, and a render without splats: nothing to learn under any gain.
pub fn a_transparent_picture_shows_the_background_under_its_gain(make: MakeEngine<'_>) {
    let mut gains = CorrectionGroup::new(CorrectionKind::Gain, 1);
    gains.values.fill(-0.5);
    let mut step = StepParams { exposure: Some(CORRECTION), ..params(0) };
    step.render.background = [1.0, 0.5, 0.9];
    let picture = view(0);
    let alpha = Some(vec![0; picture.camera.pixels()]);
    let target = TargetImage { alpha, ..(*picture.target).clone() };
    let pose = Pose { translation: [0.0, 0.0, -100.0], ..picture.pose };
    let empty = TrainView { target: Arc::new(target), pose, exposure_row: Some(0), ..picture };
    let mut engine = loaded(make, vec![gains]);
    let Some(()) = if_supported(engine.step(&[empty], &[], &step)) else { return };
    let report = engine.flush().expect("flushed");
    // SSIM is 1 up to the rounding of f32.
    assert!(report.visible == 0 && report.last_loss.abs() < 1e-5, "{report:?}");
}

/// Poses, vignetting and sky: the row that a step uses is updated if it has rates, and no other row.
pub fn corrections_move_where_a_step_names_them(make: MakeEngine<'_>) {
    for group in [CorrectionKind::Pose, CorrectionKind::Vignetting, CorrectionKind::Sky] {
        let rows = if group == CorrectionKind::Sky { 1 } else { 2 };
        let mut engine = loaded(make, vec![CorrectionGroup::new(group, rows)]);
        let mut named = view(1);
        let mut step = StepParams { rates: ZERO_RATES, ..params(0) };
        match group {
            CorrectionKind::Pose => (named.pose_row, step.pose) = (Some(1), Some(CORRECTION)),
            CorrectionKind::Vignetting => {
                (named.vignetting_row, step.vignetting) = (Some(1), Some(CORRECTION))
            }
            _ => (step.render.sky, step.sky) = (true, Some(CORRECTION)),
        }
        let resting = StepParams { pose: None, vignetting: None, sky: None, ..step };
        if if_supported(engine.step(&[named.clone()], &[], &resting)).is_none() {
            continue;
        }
        let rest = CorrectionGroup::new(group, rows);
        assert!(engine.read_corrections().expect("corrections") == [rest.clone()], "{group}: without rates");
        engine.step(&[named], &[], &step).expect("a step");
        let groups = engine.read_corrections().expect("corrections");
        let last = rows - 1;
        assert_eq!(groups[0].update_counts[last], 1, "{group}");
        assert_ne!(groups[0].row(last), rest.row(last), "{group}: the row in use");
        assert!(rows == 1 || groups[0].row(0) == rest.row(0), "{group}: the other row");
    }
}

/// No opacity is above the limit, the moments of opacities are zero, everything else is unchanged.
pub fn opacities_are_reset_with_their_moments(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    train(&mut *engine, 0..2);
    let before = engine.save().expect("saved");
    engine.densify(&DensityRule::ResetOpacity { max_opacity: 0.1 }).expect("a rule");
    let after = engine.save().expect("saved");
    // logit(0.1) = -2.197
    for (old, new) in before.splats.opacity_logits.iter().zip(&after.splats.opacity_logits) {
        assert!((old.min(-2.197_224_6) - new).abs() < 1e-5, "{old} {new}");
    }
    assert!(after.moments.m.opacity_logits.iter().chain(&after.moments.v.opacity_logits).all(|&m| m == 0.0));
    assert!(after.splats.means == before.splats.means && after.moments.m.means == before.moments.m.means);
    assert_eq!((after.ids, after.next_id), (before.ids, before.next_id));
}

/// MCMC: the set grows by the factor, up to the limit; kept splats stay in order and new ones have new ids.
pub fn a_set_grows_as_far_as_its_limit(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let rule = |max_splats: u64| {
        DensityRule::Mcmc(McmcRule {
            seed: 3,
            step: 100,
            dead_opacity: 0.005,
            growth: 1.5,
            max_splats,
            split_largest: 0.0,
            reorder: false,
        })
    };
    engine.densify(&rule(1000)).expect("a rule");
    let report = engine.flush().expect("flushed");
    let state = engine.save().expect("saved");
    assert_eq!((report.splats, report.added, state.splats.len()), (36, 12, 36));
    assert_eq!(state.ids, (0..36).collect::<Vec<u32>>());
    assert_eq!(state.next_id, 36);
    engine.densify(&rule(40)).expect("a rule");
    engine.densify(&rule(40)).expect("a rule");
    let report = engine.flush().expect("flushed");
    assert_eq!((report.splats, report.added), (40, 4));
    train(&mut *engine, 0..1);
    assert_eq!(engine.flush().expect("flushed").steps, 1, "and training goes on");
}

/// Classic: splats of low opacity are removed, and the statistics are cleared.
pub fn transparent_splats_are_pruned(make: MakeEngine<'_>) {
    let mut state = start(Vec::new());
    for i in [2, 3, 17] {
        state.splats.opacity_logits[i] = -9.0;
    }
    state.statistics.visible_steps.fill(1);
    let mut engine = make();
    engine.load(state).expect("loaded");
    let rule = ClassicRule {
        seed: 3,
        step: 100,
        gradient_threshold: 1.0,
        clone_scale_limit: 1.0,
        split_shrink: 1.6,
        prune_opacity: 0.005,
        prune_scale: None,
        prune_screen: None,
        max_splats: 100,
        reorder: false,
    };
    engine.densify(&DensityRule::Classic(rule)).expect("a rule");
    let report = engine.flush().expect("flushed");
    let state = engine.save().expect("saved");
    assert_eq!((report.pruned, report.splats), (3, 21));
    assert_eq!(state.ids, (0..24).filter(|id| ![2, 3, 17].contains(id)).collect::<Vec<u32>>());
    assert!(state.statistics.visible_steps.iter().all(|&steps| steps == 0));
}

/// The loss of two views is the mean of theirs, with one update for both.
pub fn views_together_are_one_step_or_are_refused(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let Some(()) = if_supported(engine.step(&[view(0), view(2)], &[], &params(0))) else { return };
    let together = engine.flush().expect("flushed");
    let alone = [0, 2].map(|index| {
        engine.load(start(Vec::new())).expect("loaded");
        engine.step(&[view(index)], &[], &params(0)).expect("a step");
        engine.flush().expect("flushed").last_loss
    });
    assert_eq!(together.steps, 1);
    assert!((together.last_loss - 0.5 * (alone[0] + alone[1])).abs() < 1e-5, "{together:?} {alone:?}");
}
