//! Whatever call to the disk fails, a run ends with one line, and goes on later to the same bytes.

mod common;

use std::sync::atomic::AtomicBool;

use common::{MockEngine, ignore, open, options, resume, runs, splats_of, train};
use gausset_io::atomic::Overwrite;
use gausset_io::atomic::faults::{Fault, FaultyDisk};
use gausset_train::{Run, Session, TrainConfig, TrainError, TrainOptions};
use rustix::io::Errno;

fn run_on(disk: &FaultyDisk, options: &TrainOptions, run: &std::path::Path) -> Result<(), TrainError> {
    let config = TrainConfig::resolve(options, None)?;
    let (mut engine, stop) = (MockEngine::default(), AtomicBool::new(false));
    let session =
        Session { dataset: open(&config), engine: &mut engine, fs: disk, stop: &stop, events: &mut |_| {} };
    Run::start(config, run, Overwrite::Refuse, session)?.train().map(|_| ())
}

#[test]
fn a_disk_that_fails_at_any_call_costs_one_line_and_no_result() {
    // Two checkpoints, an export on the way and all that comes at the end.
    let options = TrainOptions { checkpoint_every: Some(2), export_every: Some(2), ..options(3) };
    let (_folder, run) = runs();
    let healthy = FaultyDisk::new(0, Fault::Once(Errno::IO));
    run_on(&healthy, &options, &run).unwrap();
    let expected = splats_of(&run);
    let calls = healthy.calls().len();
    assert!(calls > 50, "{calls}");
    let mut told = 0;
    // Every third call: each kind of call is among them, and the files' own tests try them all.
    for fail_at in (1..=calls).step_by(3) {
        let fault = if fail_at % 2 == 0 { Fault::FromNowOn(Errno::NOSPC) } else { Fault::Once(Errno::IO) };
        let (_folder, run) = runs();
        match run_on(&FaultyDisk::new(fail_at, fault), &options, &run) {
            // Some failures are harmless: cleaning up, or looking for more room.
            Ok(()) => {}
            Err(error) => {
                let line = error.to_string();
                assert!(!line.contains('\n') && line.contains(run.to_str().unwrap()), "{fail_at}: {line}");
                told += 1;
                if run.join("config.toml").exists() {
                    resume(&TrainOptions::default(), &mut MockEngine::default(), &run, &mut ignore).unwrap();
                } else {
                    train(&options, &mut MockEngine::default(), &run, &mut ignore).unwrap();
                }
            }
        }
        assert!(splats_of(&run) == expected, "call {fail_at}");
    }
    assert!(told * 6 > calls, "{told} of {calls}");
}
