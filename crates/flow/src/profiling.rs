//! Where the time of a job goes: recorded, on all threads, and what it would be at least on this machine.

use std::io::Write;
use std::path::Path;

use gausset_compute::pool::{WorkerWatch, watch_workers};
use gausset_core::engine::Engine;
use gausset_cpu::CpuEngine;
use gausset_cpu::statistics::StepSizes;
use gausset_io::atomic::{Disk, Overwrite, WriteError, write_atomic};
use gausset_io::owned;
use gausset_io::run_folder::{profile_csv_path, profile_path, trace_path};
use gausset_io::units::grouped;
use gausset_prof::{Floor, Machine, Profile, Trace};
use gausset_train::Outcome;

use crate::Failure;

/// Begins to record spans, counters and single events.
pub fn start() {
    watch_workers(WorkerWatch { begin: gausset_prof::begin_as_worker, end: gausset_prof::end_as_worker });
    gausset_prof::set_enabled(true);
    gausset_prof::set_trace(true);
}

/// Ends the recording of a training, and writes it into the folder of the run.
///
/// # Errors
/// A file that cannot be written.
pub fn finish(engine: &CpuEngine, folder: &Path, outcome: &Outcome) -> Result<Profile, Failure> {
    let about = [
        ("run", folder.display().to_string()),
        ("device", engine.describe().name),
        ("steps", grouped(outcome.summary.steps)),
        ("splats", grouped(outcome.summary.splats)),
    ];
    let (profile, trace) = stop(engine, &about);
    save(&profile, &trace, folder)?;
    Ok(profile)
}

/// Ends the recording; measures the machine and adds what the stages would take at least.
pub fn stop(engine: &CpuEngine, about: &[(&str, String)]) -> (Profile, Trace) {
    gausset_prof::set_enabled(false);
    gausset_prof::set_trace(false);
    let (mut profile, trace) = (gausset_prof::snapshot(), gausset_prof::trace());
    profile.about = about.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    if let Some(sizes) = StepSizes::of_profile(&profile) {
        (profile.machine, profile.floors) = floors(engine, &sizes);
    }
    (profile, trace)
}

/// The rates of this machine, and what the stages of a step of these sizes take at least at them.
pub fn floors(engine: &CpuEngine, sizes: &StepSizes) -> (Option<Machine>, Vec<Floor>) {
    let (rates, threads) = (engine.measure_rates(), engine.threads());
    let machine = Machine {
        threads: threads as u32,
        vector_ops_per_s: rates.vector_ops_per_s,
        stream_bytes_per_s: rates.memory_bytes_per_s(),
    };
    let floors = sizes.work().into_iter().map(|work| Floor {
        name: work.stage.name().to_owned(),
        bytes: work.bytes,
        vector_ops: work.vector_ops,
        floor_ms: work.floor_ms(&rates, threads),
    });
    (Some(machine), floors.collect())
}

/// What the marker of a folder says that was made for profiles.
const PURPOSE: &str = "profile";

/// Takes a folder for `profile.json`, `profile.csv` and `trace.json`; in one of somebody else none of them may exist.
/// A run folder is taken already.
///
/// # Errors
/// A name that is taken, a folder that cannot be written to.
pub fn take(folder: &Path) -> Result<(), Failure> {
    let names = [profile_path, profile_csv_path, trace_path].map(|path| path(Path::new("")));
    owned::take(&Disk, folder, PURPOSE, names, Overwrite::Refuse).map_err(|error| match error {
        WriteError::Exists { path, .. } => {
            let what = "output: exists already (expected a free name)";
            Failure::new("write", format!("{}: {what}; choose another folder", path.display()))
        }
        other => other.into(),
    })
}

/// Writes `profile.json`, `profile.csv` and `trace.json` into a folder.
///
/// # Errors
/// A file that cannot be written.
pub fn save(profile: &Profile, trace: &Trace, folder: &Path) -> Result<(), Failure> {
    write_atomic(&Disk, &profile_path(folder), |file| file.write_all(profile.to_json().as_bytes()))?;
    write_atomic(&Disk, &profile_csv_path(folder), |file| file.write_all(profile.to_csv().as_bytes()))?;
    write_atomic(&Disk, &trace_path(folder), |file| trace.write_chrome(file))?;
    Ok(())
}
