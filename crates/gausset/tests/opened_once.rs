//! Counts how often a job opens its dataset, by the profiler. It is global to the process, so this test has its own
//! binary.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset::device::DeviceOptions;
use gausset::training::{self, RunSettings, Trained};
use gausset::{Event, Host};
use gausset_compute::Pool;
use gausset_io::atomic::Overwrite;
use gausset_train::{Background, TrainOptions};
use tempfile::TempDir;

fn begin(data: &Path, run: &Path, stops: bool) -> Trained {
    let options = TrainOptions {
        data: Some(data.to_owned()),
        steps: Some(20),
        max_splats: Some(400),
        threads: Some(1),
        background: Some(Background::Colour([0.0; 3])),
        ..TrainOptions::default()
    };
    let stop = Arc::<AtomicBool>::default();
    let mut events = |event: Event| {
        if stops && matches!(event, Event::Training(_)) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let conditions = RunSettings::for_device(DeviceOptions::default());
    let mut host = Host::new(&stop, &mut events);
    training::start_or_resume(run.to_owned(), &options, Overwrite::Refuse, conditions, &mut host).unwrap()
}

/// Counts how often the dataset was opened during a job.
fn opened(work: impl FnOnce()) -> u64 {
    gausset_prof::reset();
    gausset_prof::set_enabled(true);
    work();
    gausset_prof::set_enabled(false);
    let profile = gausset_prof::snapshot();
    profile.rows.iter().filter(|row| row.name == "open").map(|row| row.count).sum()
}

#[test]
fn a_dataset_is_opened_once_whether_a_run_begins_goes_on_or_is_finished() {
    let root = TempDir::new().unwrap();
    let (data, run) = (root.path().join("data"), root.path().join("run"));
    gausset_scenes::write_dataset(&gausset_scenes::tiny(), &data, &Pool::new(1), &mut |_, _| {}).unwrap();
    assert_eq!(opened(|| assert!(begin(&data, &run, true).is_stopped())), 1);
    assert_eq!(opened(|| assert!(!begin(&data, &run, false).is_stopped())), 1);
    assert_eq!(opened(|| assert!(!begin(&data, &run, false).is_stopped())), 1);
}
