//! `--profile`: records where the time goes, on all threads, and what it would be at least on this machine.

use std::io::Write;
use std::path::Path;

use gausset_compute::pool::{WorkerWatch, watch_workers};
use gausset_core::engine::{Engine, Floors, StepWork};
use gausset_io::atomic::{Disk, Overwrite, WriteError, write_atomic};
use gausset_io::owned;
use gausset_io::run_folder::{profile_csv_path, profile_path, trace_path};
use gausset_prof::{Floor, Machine, Profile, Row, Trace};

use crate::failure::Failure;

/// Rows that the table of those with most time has.
const TOP: usize = 5;
/// Name of the span of a step.
pub(crate) const STEP: &str = "step";

/// Begins to record spans, counters and single events.
pub(crate) fn start() {
    watch_workers(WorkerWatch { begin: gausset_prof::begin_as_worker, end: gausset_prof::end_as_worker });
    gausset_prof::set_enabled(true);
    gausset_prof::set_trace(true);
}

/// Ends the recording; measures the machine and adds what the stages would take at least.
pub(crate) fn stop(engine: &mut dyn Engine, about: &[(&str, String)]) -> (Profile, Trace) {
    gausset_prof::set_enabled(false);
    gausset_prof::set_trace(false);
    let (mut profile, trace) = (gausset_prof::snapshot(), gausset_prof::trace());
    profile.about = about.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let median = |name: &str| profile.counter(name).map(|counter| counter.median);
    if let Some(work) = StepWork::from_counters(median) {
        (profile.machine, profile.floors) = floors(engine, &work);
    }
    (profile, trace)
}

/// The rates of this machine, and what the stages of a step with so much work take at least at them.
pub(crate) fn floors(engine: &mut dyn Engine, work: &StepWork) -> (Option<Machine>, Vec<Floor>) {
    let Some(Floors { rates, stages }) = engine.floors(work) else { return (None, Vec::new()) };
    let machine = Machine {
        threads: rates.threads as u32,
        vector_ops_per_s: rates.vector_ops_per_s,
        stream_bytes_per_s: rates.bytes_per_s,
    };
    let floors = stages.into_iter().map(|floor| Floor {
        name: floor.stage.name().to_owned(),
        bytes: floor.bytes,
        vector_ops: floor.vector_ops,
        floor_ms: floor.floor_ms,
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
pub(crate) fn take(folder: &Path) -> Result<(), Failure> {
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
pub(crate) fn save(profile: &Profile, trace: &Trace, folder: &Path) -> Result<(), Failure> {
    write_atomic(&Disk, &profile_path(folder), |file| file.write_all(profile.to_json().as_bytes()))?;
    write_atomic(&Disk, &profile_csv_path(folder), |file| file.write_all(profile.to_csv().as_bytes()))?;
    write_atomic(&Disk, &trace_path(folder), |file| trace.write_chrome(file))?;
    Ok(())
}

/// Everything that a profile says, for a terminal.
pub(crate) fn report(profile: &Profile) -> String {
    let about: Vec<(&str, String)> =
        profile.about.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let parts = [
        crate::table::facts(&about),
        profile.table(),
        profile.top_table(TOP),
        profile.budget_table(group),
        profile.floor_table(STEP),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// What a row of the profile belongs to, in a few words.
fn group(row: &Row) -> &'static str {
    // From the outside inwards: what an evaluation renders belongs to it, not to the training.
    for word in row.path.split('/') {
        let group = match word {
            "eval" => "evaluation",
            "checkpoint" | "export" | "write_ply" | "fsync" => "files",
            "stereo" => "dense start",
            "open" | "init" | "predict" => "start",
            "next_view" | "decode" | "reduce" | "downscale" | "undistort" | "upload" => {
                "waiting for pictures"
            }
            "project" | "sort" | "tile" | "blend" => "rendering",
            "loss" => "loss",
            "blend_vjp" | "project_vjp" | "adam" | "project_vjp+adam" => "gradients and update",
            "density" => "density control",
            "report" => "reports",
            "statistics" => "counting for this profile",
            _ => continue,
        };
        return group;
    }
    gausset_prof::UNATTRIBUTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_the_outermost_thing_that_has_a_name() {
        let group_of = |path: &str| group(&Row { path: path.to_owned(), ..Row::default() });
        assert_eq!(group_of("step/blend"), "rendering");
        assert_eq!(group_of("eval/blend"), "evaluation");
        assert_eq!(group_of("eval/unattributed"), "evaluation");
        assert_eq!(group_of("step/checkpoint/fsync"), "files");
        assert_eq!(group_of("step/density/rule"), "density control");
        assert_eq!(group_of("stereo/prepare/decode"), "dense start");
        assert_eq!(group_of("step/unattributed"), "unattributed");
        assert_eq!(group_of("unattributed"), "unattributed");
    }
}
