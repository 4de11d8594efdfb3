//! `--profile`: records where the time goes, on all threads, and what it would be at least on this machine.

use std::io::Write;
use std::path::Path;

use gausset_compute::pool::{WorkerWatch, watch_workers};
use gausset_cpu::CpuEngine;
use gausset_cpu::statistics::StepSizes;
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
pub(crate) fn stop(engine: &CpuEngine, about: &[(&str, String)]) -> (Profile, Trace) {
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
pub(crate) fn floors(engine: &CpuEngine, sizes: &StepSizes) -> (Option<Machine>, Vec<Floor>) {
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
