//! Records profiles on all threads, and computes the lower bounds of this machine (floors).

use std::io::Write;
use std::path::Path;

use gausset_compute::pool::{WorkerCallbacks, set_worker_callbacks};
use gausset_core::engine::{Engine, LowerBounds, StepWork};
use gausset_io::atomic::{Disk, Overwrite, WriteError, write_atomic};
use gausset_io::ownership;
use gausset_io::run_folder::{profile_csv_path, profile_path, trace_path};
use gausset_io::text::grouped;
use gausset_prof::{MachineRates, Profile, StageLowerBound, Trace};
use gausset_train::RunOutcome;

use crate::Failure;

/// A recording, which ends when this is dropped.
#[must_use]
#[derive(Debug)]
pub struct Recording(());

impl Drop for Recording {
    fn drop(&mut self) {
        switch_off();
    }
}

/// Starts recording spans, counters and events, without those of an earlier job.
pub fn start() -> Recording {
    set_worker_callbacks(WorkerCallbacks {
        begin: gausset_prof::start_worker_span,
        end: gausset_prof::end_worker_span,
    });
    gausset_prof::set_enabled(true);
    gausset_prof::set_trace(true);
    gausset_prof::reset();
    Recording(())
}

fn switch_off() {
    gausset_prof::set_enabled(false);
    gausset_prof::set_trace(false);
}

/// Stops the recording of a training and writes it into the run folder.
///
/// # Errors
/// A profile file cannot be written.
pub fn finish(engine: &mut dyn Engine, folder: &Path, outcome: &RunOutcome) -> Result<Profile, Failure> {
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

/// Stops recording, measures the machine and adds the floor of each stage.
pub fn stop(engine: &mut dyn Engine, about: &[(&str, String)]) -> (Profile, Trace) {
    let (mut profile, trace) = stop_recording(about);
    let median = |name: &str| profile.counter(name).map(|counter| counter.median);
    if let Some(work) = StepWork::from_counters(median) {
        (profile.machine, profile.floors) = floors(engine, &work);
    }
    (profile, trace)
}

/// Stops the recording of a job that has no engine.
pub fn stop_recording(about: &[(&str, String)]) -> (Profile, Trace) {
    switch_off();
    let (mut profile, trace) = (gausset_prof::snapshot(), gausset_prof::trace());
    profile.about = about.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    (profile, trace)
}

/// Measured rates of this machine, and the least time that each stage of a step with this work can take at these rates.
pub fn floors(engine: &mut dyn Engine, work: &StepWork) -> (Option<MachineRates>, Vec<StageLowerBound>) {
    let Some(LowerBounds { rates, stages }) = engine.lower_bounds(work) else { return (None, Vec::new()) };
    let machine = MachineRates {
        threads: rates.threads as u32,
        vector_ops_per_s: rates.vector_ops_per_s,
        stream_bytes_per_s: rates.bytes_per_s,
    };
    let floors = stages.into_iter().map(|floor| StageLowerBound {
        name: floor.stage.name().to_owned(),
        bytes: floor.bytes,
        vector_ops: floor.vector_ops,
        floor_ms: floor.lower_bound_ms,
    });
    (Some(machine), floors.collect())
}

/// Purpose in the ownership marker of a profile folder.
const PURPOSE: &str = "profile";

/// As [`claim_folder`], for a job that has its own output folder.
///
/// # Errors
/// As [`claim_folder`]; the profile folder is the job's folder or inside it.
pub fn claim_folder_outside(folder: &Path, job: &Path) -> Result<(), Failure> {
    if folder.starts_with(job) {
        let (folder, job) = (folder.display(), job.display());
        return Err(Failure::usage(format!(
            "⟨profile⟩: {folder} is inside {job}; choose a folder next to it"
        )));
    }
    claim_folder(folder)
}

/// Claims a folder for `profile.json`, `profile.csv` and `trace.json`. In a folder that Gausset did not create, none of
/// these files may exist. A run folder is already claimed.
///
/// # Errors
/// One of the files exists, or the folder cannot be written to.
pub fn claim_folder(folder: &Path) -> Result<(), Failure> {
    let names = [profile_path, profile_csv_path, trace_path].map(|path| path(Path::new("")));
    ownership::claim_for_files(&Disk, folder, PURPOSE, names, Overwrite::Refuse).map_err(
        |error| match error {
            WriteError::Exists { path, .. } => {
                let what = "output: exists already (expected a free name)";
                Failure::new("write", format!("{}: {what}; choose another folder", path.display()))
            }
            other => other.into(),
        },
    )
}

/// Writes `profile.json`, `profile.csv` and `trace.json` into a folder.
///
/// # Errors
/// A file cannot be written.
pub fn save(profile: &Profile, trace: &Trace, folder: &Path) -> Result<(), Failure> {
    write_atomic(&Disk, &profile_path(folder), |file| file.write_all(profile.to_json().as_bytes()))?;
    write_atomic(&Disk, &profile_csv_path(folder), |file| file.write_all(profile.to_csv().as_bytes()))?;
    write_atomic(&Disk, &trace_path(folder), |file| trace.write_chrome(file))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_nothing_of_an_earlier_one_and_ends_when_it_is_dropped() {
        let first = start();
        drop(gausset_prof::span("first"));
        drop(first);
        assert!(!gausset_prof::is_enabled());
        let _second = start();
        drop(gausset_prof::span("second"));
        let (profile, _) = stop_recording(&[]);
        let names: Vec<&str> = profile.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["second", "unattributed"]);
    }
}
