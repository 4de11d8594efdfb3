//! Counts what a step requires of the host and of transfers to the device.

use gausset_core::engine::Engine;
use gausset_testkit::engine_contract::{params, start, view};

use crate::engine::{GpuEngine, GpuOptions};
use crate::in_flight::IN_FLIGHT;
use crate::record::{Job, Record, status};
use crate::test_device::gpu;
use crate::unit::image_bytes;

fn engine(test: &str) -> Option<GpuEngine> {
    let gpu = gpu(test)?;
    let mut engine = GpuEngine::new(&gpu, GpuOptions { threads: 1, ..GpuOptions::default() });
    engine.load(start(Vec::new())).expect("a state");
    Some(engine)
}

fn steps(engine: &mut GpuEngine, steps: std::ops::Range<u64>) {
    for step in steps {
        engine.step(&[view(step as u32 % 2)], &[], &params(step)).expect("a step");
    }
}

#[test]
fn a_step_is_one_submission_that_nobody_waits_for() {
    let Some(mut engine) = engine("a_step_is_one_submission_that_nobody_waits_for") else { return };
    // Until buffers, pipelines and slots are allocated and both images are cached.
    for first in [0, 8] {
        steps(&mut engine, first..first + 8);
        engine.flush().expect("flushed");
    }
    let before = engine.memory.counts();
    steps(&mut engine, 16..16 + IN_FLIGHT as u64);
    let after = engine.memory.counts();
    let n = IN_FLIGHT as u64;
    assert_eq!((after.units - before.units, after.submissions - before.submissions), (n, n));
    assert_eq!(after.waits, before.waits);
    assert_eq!(after.allocations, before.allocations);
    assert_eq!(after.sent - before.sent, n * Job::BYTES, "records alone: the pictures are there");
    assert_eq!(after.read - before.read, n * 4 * status::WORDS as u64);
}

#[test]
fn many_steps_allocate_nothing() {
    let Some(mut engine) = engine("many_steps_allocate_nothing") else { return };
    steps(&mut engine, 0..20);
    engine.flush().expect("flushed");
    let before = engine.memory.counts();
    for first in (20..120).step_by(10) {
        steps(&mut engine, first..first + 10);
        engine.poll().expect("polled");
    }
    engine.flush().expect("flushed");
    let after = engine.memory.counts();
    assert_eq!((after.submissions - before.submissions, after.allocations - before.allocations), (100, 0));
}

#[test]
fn pictures_without_room_go_up_with_their_steps() {
    let Some(mut engine) = engine("pictures_without_room_go_up_with_their_steps") else { return };
    steps(&mut engine, 0..2);
    engine.flush().expect("flushed");
    let kept = engine.memory.cached_image_bytes();
    let bytes = image_bytes(&view(0).target) + image_bytes(&view(1).target);
    assert_eq!(kept, bytes);
    // All current memory, and nothing more.
    let taken = engine.memory.needed_bytes(engine.memory.sizes());
    engine.memory.set_limit(taken);
    engine.memory.clear_image_cache();
    let before = engine.memory.counts();
    steps(&mut engine, 2..6);
    engine.flush().expect("flushed");
    let after = engine.memory.counts();
    assert_eq!(engine.memory.cached_image_bytes(), 0);
    assert_eq!(after.sent - before.sent, 4 * Job::BYTES + 2 * bytes);
}
