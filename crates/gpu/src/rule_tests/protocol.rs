//! Rules in flight: the host does not wait, nothing is read back, units that do not fit are repeated, and all give the
//! same bytes.

use gausset_core::engine::{ClassicRule, DensityRule, Engine, EngineError, McmcRule};
use gausset_testkit::engine_contract::{params, view};

use super::*;
use crate::in_flight::IN_FLIGHT;
use crate::layout::{Capacities, splat_capacity};
use crate::record::{Job, Record, Rule, status};

/// Steps and rules: the set grows twice beyond its capacity while steps are in flight.
fn work(engine: &mut GpuEngine, range: std::ops::Range<u64>) {
    for step in range {
        let mut params = params(step);
        params.opacity_regularisation = 0.01;
        params.scale_regularisation = 0.01;
        engine.step(&[view(step as u32 % 2)], &[], &params).expect("a step");
        match step % 4 {
            1 => {
                let rule = McmcRule { growth: 1.6, step, reorder: step % 8 == 1, ..mcmc_rule() };
                engine.densify(&DensityRule::Mcmc(rule)).expect("a rule");
            }
            3 => {
                let limits = ClassicRule { gradient_threshold: 1e-7, max_splats: 12_000, ..classic_rule() };
                engine.densify(&DensityRule::Classic(ClassicRule { step, ..limits })).expect("a rule");
                engine.densify(&DensityRule::ResetOpacity { max_opacity: 0.5 }).expect("a rule");
            }
            _ => {}
        }
    }
}

/// Splats that are visible in the views of the contract.
fn start() -> TrainState {
    let mut state = state(3000, 1, 50);
    state.splats.means.iter_mut().for_each(|[_, _, z]| *z = z.abs() + 1.0);
    state
}

#[test]
fn any_number_of_rules_and_steps_under_way_gives_the_same_bytes() {
    let Some(gpu) = gpu("any_number_of_rules_and_steps_under_way_gives_the_same_bytes") else { return };
    let run = |engine: &mut GpuEngine| {
        engine.load(start()).expect("a state");
        work(engine, 0..9);
        let report = engine.flush().expect("flushed");
        (engine.save().expect("saved"), report)
    };
    let mut one = engine(&gpu, 1);
    let (expected, report) = run(&mut one);
    assert!(expected.splats.len() > 8192 && report.steps == 9, "{report:?}");
    let mut eight = engine(&gpu, 8);
    let found = run(&mut eight);
    assert_eq!(found.1, report);
    assert_equal_bits("8 under way", &found.0, &expected, &[]);
    // A second time, now with enough capacity.
    assert_equal_bits("again", &run(&mut eight).0, &expected, &[]);
    // Stopped and resumed half-way, between a step and a rule.
    let mut first = engine(&gpu, 8);
    first.load(start()).expect("a state");
    work(&mut first, 0..4);
    let mut second = engine(&gpu, 8);
    second.load(first.save().expect("saved")).expect("a state");
    work(&mut second, 4..9);
    assert_equal_bits("resumed", &second.save().expect("saved"), &expected, &[]);
}

#[test]
fn a_rule_is_one_submission_that_nobody_waits_for() {
    let Some(gpu) = gpu("a_rule_is_one_submission_that_nobody_waits_for") else { return };
    let mut engine = engine(&gpu, 0);
    engine.load(start()).expect("a state");
    let rules = [
        DensityRule::Classic(ClassicRule { max_splats: 3100, reorder: true, ..classic_rule() }),
        DensityRule::Mcmc(McmcRule { max_splats: 3200, ..mcmc_rule() }),
        DensityRule::ResetOpacity { max_opacity: 0.9 },
    ];
    let round = |engine: &mut GpuEngine| {
        for number in 0..IN_FLIGHT {
            engine.densify(&rules[number % 3]).expect("a rule");
        }
    };
    for step in 0..2 {
        engine.step(&[view(step)], &[], &params(u64::from(step))).expect("a step");
    }
    round(&mut engine);
    engine.flush().expect("flushed");
    let before = engine.memory.counts();
    round(&mut engine);
    let after = engine.memory.counts();
    let n = IN_FLIGHT as u64;
    assert_eq!(after.submissions - before.submissions, n);
    assert_eq!((after.waits, after.allocations), (before.waits, before.allocations));
    assert_eq!(after.sent - before.sent, n * (Job::BYTES + Rule::BYTES));
    assert_eq!(after.read - before.read, n * 4 * status::WORDS as u64, "64 bytes each");
    engine.flush().expect("flushed");
}

#[test]
fn a_rule_that_finds_no_memory_fails_and_changes_nothing() {
    let Some(gpu) = gpu("a_rule_that_finds_no_memory_fails_and_changes_nothing") else { return };
    let mut engine = engine(&gpu, 0);
    engine.load(start()).expect("a state");
    // Tile lists make room, but not enough.
    let least = Capacities { entries: 4096, ..*engine.memory.sizes() };
    engine.memory.set_limit(engine.memory.needed_bytes(&least) + 1_000_000);
    engine.densify(&DensityRule::Mcmc(McmcRule { growth: 2.0, ..mcmc_rule() })).expect("a rule under way");
    let failed = engine.flush();
    let Err(EngineError::OutOfMemory { what, needed, limit }) = failed else { panic!("{failed:?}") };
    assert!(what.contains("6000 splats") && needed > limit, "{what}");
    assert_equal_bits("as before", &engine.save().expect("saved"), &start(), &[]);
    let run = |engine: &mut GpuEngine, limit: u64| {
        engine.memory.set_limit(limit);
        engine.load(start()).expect("a state");
        engine.step(&[view(0)], &[], &params(0)).expect("a step");
        engine.densify(&DensityRule::Mcmc(McmcRule { growth: 2.0, ..mcmc_rule() })).expect("a rule");
        engine.step(&[view(1)], &[], &params(1)).expect("a step");
        assert_eq!(engine.flush().expect("flushed").splats, 6000);
        engine.save().expect("saved")
    };
    let expected = run(&mut engine, u64::MAX);
    // Memory for the new buffers, but not for both versions: the data is copied through the host.
    engine.load(start()).expect("a state");
    let sizes = *engine.memory.sizes();
    let wide = Capacities { splats: splat_capacity(6000), entries: 16_384, ..sizes };
    let limit = engine.memory.needed_bytes(&wide);
    let found = run(&mut engine, limit);
    assert_equal_bits("by way of the host", &found, &expected, &[]);
}
