//! What version 0.1 wrote is read by this one: a run goes on from its checkpoint to the bytes that 0.1 gave
//! (`testdata/v0.1`).

mod common;

use std::path::{Path, PathBuf};

use common::{copy_folder, cpu, ignore, resume, splats_of, train};
use gausset_train::{End, Event, RecordedRun, TrainOptions, read_finished, read_summary};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0.1")
}

/// The run of 0.1 in a folder of its own, and where its data is now.
fn run_of_01() -> (tempfile::TempDir, PathBuf, TrainOptions) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    copy_folder(&fixture().join("run"), &run);
    (folder, run, TrainOptions { data: Some(fixture().join("data")), ..TrainOptions::default() })
}

/// The splats of a run, without the header of their file, which says today how they stand to the dataset.
fn rows(run: &Path) -> Vec<u8> {
    let file = splats_of(run);
    let end = b"end_header\n";
    let at = file.windows(end.len()).position(|part| part == end).expect("a header");
    file[at..].to_vec()
}

#[test]
fn a_run_of_01_goes_on_from_its_checkpoint_to_the_bytes_of_01() {
    let (_folder, run, moved) = run_of_01();
    // As a kill after step 3 would have left it.
    for file in ["splats.ply", "checkpoints/step_000006.ckpt"] {
        std::fs::remove_file(run.join(file)).unwrap();
    }
    assert_eq!(read_finished(&run).unwrap(), None);
    let mut begun_at = None;
    let mut on_event = |event: &Event, _: &_| {
        if let Event::Started(started) = event {
            begun_at = Some(started.step);
        }
    };
    let outcome = resume(&moved, &mut cpu(1), &run, &mut on_event).unwrap();
    assert_eq!((begun_at, outcome.end, outcome.summary.steps), (Some(3), End::Finished, 6));
    assert!(rows(&run) == rows(&fixture().join("run")));
}

#[test]
fn the_configuration_of_01_repeats_its_run() {
    let recorded = RecordedRun::read(&fixture().join("run/config.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (run, options) = (folder.path().join("again"), recorded.config.to_options());
    let options = TrainOptions { data: Some(fixture().join("data")), ..options };
    train(&options, &mut cpu(2), &run, &mut ignore).unwrap();
    assert!(rows(&run) == rows(&fixture().join("run")));
}

#[test]
fn a_finished_run_of_01_is_finished_and_its_numbers_are_read() {
    let (_folder, run, moved) = run_of_01();
    let outcome = read_finished(&run).unwrap().expect("finished");
    assert_eq!((outcome.summary.steps, outcome.summary.splats), (6, 80));
    let report = outcome.evaluation.expect("an evaluation");
    assert_eq!((report.images, report.psnr), (1, Some(8.650_030_884_133_29)));
    assert_eq!(read_summary(&run).unwrap(), outcome.summary);
    let again = resume(&moved, &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!(again.summary.psnr, report.psnr);
    assert!(rows(&run) == rows(&fixture().join("run")));
}
