//! A run writes the same `splats.ply` however often it is saved, rendered, stopped, killed and resumed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    copy_folder, cpu, ignore, options, resume, runs, splats_of, stop_at, train, without_turn,
};
use gausset_core::engine::{CorrectionKind, Engine};
use gausset_testkit::assert_golden_bytes;
use gausset_train::{
    Adam, Colours, Event, Exposure, RandomBackground, RecordedRun, RunEnd, RunWarning, Strategy,
    TrainOptions, read_outcome,
};

const STEPS: u64 = 60;

/// Enables everything that is part of a run's state: density control, corrections, all kinds of random numbers.
fn everything(strategy: Strategy) -> TrainOptions {
    TrainOptions {
        strategy: Some(strategy),
        // Grow early: the gradients of this scene are small.
        grow_gradient: (strategy == Strategy::Classic).then_some(2e-6),
        opacity_reset_every: (strategy == Strategy::Classic).then_some(0.3),
        random_background: Some(RandomBackground::Always),
        exposure: Some(Exposure::On),
        refine_poses: Some(true),
        seed: Some(7),
        ..options(STEPS)
    }
}

/// The same with vignetting.
fn with_gains() -> TrainOptions {
    TrainOptions { vignetting: Some(true), ..everything(Strategy::Mcmc) }
}

fn whole(options: &TrainOptions) -> Vec<u8> {
    let (_folder, run) = runs();
    let outcome = train(options, &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!(outcome.end, RunEnd::Finished);
    splats_of(&run)
}

#[test]
fn the_runs_of_these_tests_do_grow_and_move() {
    for strategy in [Strategy::Mcmc, Strategy::Classic] {
        let (_folder, run) = runs();
        let (mut grown, mut losses) = (0, Vec::new());
        let mut on_event = |event: &Event, _: &_| {
            if let Event::Progress(p) = event {
                grown += p.report.cloned + p.report.split + p.report.added;
                losses.push(p.loss);
            }
        };
        let mut engine = cpu(1);
        train(&everything(strategy), &mut engine, &run, &mut on_event).unwrap();
        assert!(grown > 10, "{strategy}: {grown}");
        let state = engine.save().unwrap();
        for group in [CorrectionKind::Gain, CorrectionKind::Pose] {
            let group = state.correction_group(group).unwrap();
            assert!(group.update_counts.iter().all(|&clock| clock > 0), "{strategy}: {group:?}");
        }
    }
}

#[test]
fn a_run_gives_the_bytes_that_every_platform_gives() {
    for strategy in [Strategy::Mcmc, Strategy::Classic] {
        assert_golden_bytes(
            &format!("train: 60 steps, {strategy}"),
            &without_turn(&whole(&everything(strategy))),
        );
    }
}

#[test]
fn saving_looking_and_exporting_at_every_step_does_not_change_a_byte() {
    for strategy in [Strategy::Mcmc, Strategy::Classic] {
        let quiet = everything(strategy);
        let busy = TrainOptions {
            checkpoint_every: Some(1),
            eval_every: Some(7),
            export_every: Some(11),
            ..quiet.clone()
        };
        assert!(whole(&quiet) == whole(&busy), "{strategy}");
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_byte() {
    let options = everything(Strategy::Mcmc);
    let (_folder, run) = runs();
    train(&options, &mut cpu(3), &run, &mut ignore).unwrap();
    assert!(splats_of(&run) == whole(&options));
}

#[test]
fn gains_survive_stops_and_kills_and_do_not_depend_on_threads() {
    let options = with_gains();
    let expected = whole(&options);
    let (_folder, run) = runs();
    train(&options, &mut cpu(3), &run, &mut stop_at(10)).unwrap();
    let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
    // These pictures are too small to be measured.
    assert_eq!(recorded.record.colours, Colours::Gains);
    resume(&TrainOptions::default(), &mut cpu(2), &run, &mut ignore).unwrap();
    assert!(splats_of(&run) == expected);
    // Killed before the first checkpoint.
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("killed");
    killed(&options, &run, |event| matches!(event, Event::Progress(p) if p.step == 10));
    let mut engine = cpu(1);
    resume(&TrainOptions::default(), &mut engine, &run, &mut ignore).unwrap();
    assert!(splats_of(&run) == expected);
    let state = engine.save().unwrap();
    for group in [CorrectionKind::Gain, CorrectionKind::Vignetting] {
        let group = state.correction_group(group).unwrap();
        assert!(group.update_counts.iter().all(|&clock| clock > 0) && group.values.iter().any(|v| *v != 0.0));
    }
}

#[test]
fn another_seed_gives_another_result() {
    let options = everything(Strategy::Mcmc);
    assert!(whole(&options) != whole(&TrainOptions { seed: Some(8), ..options.clone() }));
}

#[test]
fn a_run_that_was_stopped_again_and_again_ends_as_if_it_never_had() {
    for (strategy, adam) in [(Strategy::Mcmc, Adam::Sparse), (Strategy::Classic, Adam::Dense)] {
        let options = TrainOptions { adam: Some(adam), ..everything(strategy) };
        let (_folder, run) = runs();
        let outcome = train(&options, &mut cpu(1), &run, &mut stop_at(10)).unwrap();
        assert_eq!((outcome.end, outcome.summary.steps), (RunEnd::Stopped, 10));
        for stop in [20, 40] {
            let outcome = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut stop_at(stop)).unwrap();
            assert_eq!((outcome.end, outcome.summary.steps), (RunEnd::Stopped, stop));
        }
        let outcome = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
        assert_eq!((outcome.end, outcome.summary.steps), (RunEnd::Finished, STEPS));
        assert!(splats_of(&run) == whole(&options), "{strategy}");
    }
}

/// Trains with frequent checkpoints and keeps what a kill at the first event that `is_time` accepts would have left.
fn killed(options: &TrainOptions, killed: &Path, is_time: impl Fn(&Event) -> bool) {
    let (_folder, run) = runs();
    let mut copied = false;
    let mut on_event = |event: &Event, _: &_| {
        if !copied && is_time(event) {
            copied = true;
            copy_folder(&run, killed);
        }
    };
    train(options, &mut cpu(1), &run, &mut on_event).unwrap();
    assert!(copied);
}

#[test]
fn a_killed_run_goes_on_from_its_checkpoint_to_the_same_bytes() {
    // 13 is between two flushes, two lines of the log and two changes of the set.
    let options = TrainOptions { checkpoint_every: Some(13), ..everything(Strategy::Mcmc) };
    let expected = whole(&options);
    for step in [20, 30, 50] {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("killed");
        killed(&options, &run, |event| matches!(event, Event::Progress(p) if p.step == step));
        let mut started = None;
        let mut on_event = |event: &Event, _: &_| {
            if let Event::Started(s) = event {
                started = Some(s.step);
            }
        };
        resume(&TrainOptions::default(), &mut cpu(1), &run, &mut on_event).unwrap();
        assert_eq!(started, Some(step / 13 * 13));
        assert!(splats_of(&run) == expected, "killed at {step}");
    }
}

#[test]
fn a_run_killed_before_its_first_checkpoint_starts_again_from_step_0() {
    let options = everything(Strategy::Mcmc);
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("killed");
    killed(&options, &run, |event| matches!(event, Event::Progress(p) if p.step == 20));
    let mut lines = Vec::new();
    let mut on_event = |event: &Event, _: &_| match event {
        Event::Warning(warning @ RunWarning::NoCheckpoint { .. }) => lines.push(warning.to_string()),
        Event::Started(started) => assert_eq!(started.step, 0),
        _ => {}
    };
    resume(&TrainOptions::default(), &mut cpu(1), &run, &mut on_event).unwrap();
    assert_eq!(lines, [format!("{}: no checkpoint yet; starting again from step 0", run.display())]);
    assert!(splats_of(&run) == whole(&options));
}

#[test]
fn a_run_killed_between_its_last_checkpoint_and_its_result_writes_the_result() {
    let options = everything(Strategy::Classic);
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("killed");
    killed(&options, &run, |event| matches!(event, Event::Checkpointed { step: STEPS, .. }));
    assert!(!run.join("splats.ply").exists());
    let outcome = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!(outcome.end, RunEnd::Finished);
    assert!(splats_of(&run) == whole(&options));
}

#[test]
fn a_run_is_finished_when_its_evaluation_is_there_and_not_before() {
    let options = everything(Strategy::Mcmc);
    for at in ["exported", "evaluated"] {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("killed");
        killed(&options, &run, |event| match event {
            Event::Exported { .. } => at == "exported",
            Event::Evaluated { .. } => at == "evaluated",
            _ => false,
        });
        assert!(run.join("splats.ply").is_file());
        assert_eq!(read_outcome(&run).unwrap(), None, "killed when it had {at}");
        let outcome = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
        assert!(outcome.evaluation.as_ref().is_some_and(|report| report.images == 1));
        // The outcome read back equals the returned one.
        assert_eq!(read_outcome(&run).unwrap(), Some(outcome), "killed when it had {at}");
        std::fs::remove_file(run.join("eval/metrics.json")).unwrap();
        assert_eq!(read_outcome(&run).unwrap(), None);
    }
}

#[test]
fn a_run_stopped_while_its_training_images_are_scored_is_finished_when_it_resumes() {
    let (_folder, run) = runs();
    let mut stop = |event: &Event, stop: &AtomicBool| {
        if matches!(event, Event::Evaluated { step: STEPS, .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let outcome = train(&everything(Strategy::Mcmc), &mut cpu(1), &run, &mut stop).unwrap();
    assert_eq!((outcome.end, read_outcome(&run).unwrap()), (RunEnd::Stopped, None));
    let outcome = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
    assert!(outcome.end == RunEnd::Finished && outcome.summary.trust.training_psnr.is_some());
}

#[test]
fn a_finished_run_that_is_resumed_stays_as_it_is() {
    let options = everything(Strategy::Mcmc);
    let (_folder, run) = runs();
    let first = train(&options, &mut cpu(1), &run, &mut ignore).unwrap();
    let before = splats_of(&run);
    let again = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!((again.end, again.summary.psnr), (RunEnd::Finished, first.summary.psnr));
    assert!(splats_of(&run) == before);
}

#[test]
fn a_damaged_checkpoint_costs_the_steps_since_the_one_before_and_nothing_else() {
    let options = TrainOptions { checkpoint_every: Some(20), ..everything(Strategy::Mcmc) };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("killed");
    killed(&options, &run, |event| matches!(event, Event::Progress(p) if p.step == 50));
    let newest = run.join("checkpoints/step_000040.ckpt");
    let mut bytes = std::fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    let (mut lines, mut started) = (Vec::new(), None);
    let mut on_event = |event: &Event, _: &_| match event {
        Event::Warning(RunWarning::DamagedCheckpoint(line)) => lines.push(line.clone()),
        Event::Started(s) => started = Some(s.step),
        _ => {}
    };
    resume(&TrainOptions::default(), &mut cpu(1), &run, &mut on_event).unwrap();
    assert_eq!((lines.len(), started), (1, Some(20)));
    assert!(
        lines[0].contains("step_000040.ckpt") && lines[0].ends_with("going back to step 20"),
        "{lines:?}"
    );
    assert!(splats_of(&run) == whole(&options));
}
