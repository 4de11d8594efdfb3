//! Runs of version 0.2 (`testdata/v0.2`): a later version resumes them to the bytes that 0.2 gave.

use std::path::{Path, PathBuf};

use crate::common::{copy_folder, cpu, ignore, resume, splats_of, train};
use gausset_train::{Event, RecordedRun, RunEnd, TrainOptions, read_outcome, read_summary};

/// PSNR on the held-out view of the fixture, dB.
const PSNR: f64 = 8.652630772238307;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0.2")
}

/// A copy of the run, and an option that says where its data is now.
fn copied_run() -> (tempfile::TempDir, PathBuf, TrainOptions) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    copy_folder(&fixture().join("run"), &run);
    (folder, run, TrainOptions { data: Some(fixture().join("data")), ..TrainOptions::default() })
}

#[test]
fn a_run_of_02_resumes_from_its_checkpoint_to_the_bytes_of_02() {
    let (_folder, run, moved) = copied_run();
    // As a kill after step 3 would have left it.
    for file in ["splats.ply", "checkpoints/step_000006.ckpt"] {
        std::fs::remove_file(run.join(file)).unwrap();
    }
    assert_eq!(read_outcome(&run).unwrap(), None);
    let mut begun_at = None;
    let mut on_event = |event: &Event, _: &_| {
        if let Event::Started(started) = event {
            begun_at = Some(started.step);
        }
    };
    let outcome = resume(&moved, &mut cpu(1), &run, &mut on_event).unwrap();
    assert_eq!((begun_at, outcome.end, outcome.summary.steps), (Some(3), RunEnd::Finished, 6));
    assert!(splats_of(&run) == splats_of(&fixture().join("run")));
}

#[test]
fn the_configuration_of_02_trains_as_well() {
    let recorded = RecordedRun::read(&fixture().join("run/config.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (run, options) = (folder.path().join("again"), recorded.config.to_options());
    let options = TrainOptions { data: Some(fixture().join("data")), ..options };
    let outcome = train(&options, &mut cpu(2), &run, &mut ignore).unwrap();
    // Not the same bytes since training works in normalised coordinates.
    assert_eq!(outcome.summary.splats, 80);
    assert!(outcome.summary.psnr.unwrap() > PSNR - 0.5, "{:?} of {PSNR}", outcome.summary.psnr);
}

#[test]
fn a_finished_run_of_02_is_finished_and_its_numbers_are_read() {
    let (_folder, run, moved) = copied_run();
    let outcome = read_outcome(&run).unwrap().expect("finished");
    assert_eq!((outcome.summary.steps, outcome.summary.splats), (6, 80));
    let report = outcome.evaluation.expect("an evaluation");
    assert_eq!((report.images, report.psnr), (1, Some(PSNR)));
    assert_eq!(read_summary(&run).unwrap(), outcome.summary);
    let again = resume(&moved, &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!(again.summary.psnr, report.psnr);
    assert!(splats_of(&run) == splats_of(&fixture().join("run")));
}
