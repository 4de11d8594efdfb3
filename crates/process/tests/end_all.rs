//! `kill_all` kills everything immediately. This test has its own process: nothing can be started afterwards.
#![cfg(unix)]

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gausset_process::{ProcessError, Program, kill_all};

#[test]
fn everything_ends_at_once_and_nothing_more_is_started() {
    let never = AtomicBool::new(false);
    let sleeper = Program::new("/bin/sh").arg("-c").arg("sleep 97 & sleep 97");
    let started = Instant::now();
    let results = std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| sleeper.run(&never, &mut |_, _| {}))).collect();
        // Some may be running by now. The others must not start any more.
        std::thread::sleep(Duration::from_millis(300));
        kill_all();
        waiting.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(started.elapsed() < Duration::from_secs(20), "a caller still waits");
    for result in &results {
        let is_over = match result {
            Err(ProcessError::Failed { status: how, .. }) => how.contains("signal 9"),
            Err(ProcessError::Stopped { .. }) => true,
            _ => false,
        };
        assert!(is_over, "{result:?}");
    }
    let refused = Program::new("/bin/sh").arg("-c").arg("true").run(&never, &mut |_, _| {});
    assert!(matches!(refused, Err(ProcessError::Stopped { .. })), "{refused:?}");
}
