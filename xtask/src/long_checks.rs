//! Everything that is too long for CI: measurements that tests mark as ignored, and benchmarks. Their output goes
//! to `research/benchmarks-log.md`, and the current figures to `docs/benchmarks.md`.

use std::path::Path;
use std::process::Command;

use crate::program;

/// Packages with ignored tests, and a part of the names of those tests.
const IGNORED: [(&str, &str); 6] = [
    ("gausset-pano", "crossover_of_averaging_and_plain_sampling"),
    ("gausset", "the_poses_of_the_room_are_recovered"),
    ("gausset", "what_is_known_before_helps_the_room"),
    ("gausset", "real_walks_become_splats"),
    ("gausset-cli", "a_gpu_learns_what_the_processor_learns"),
    ("gausset-gpu", "three_million_splats_train_where_a_binding_holds_fewer"),
];

pub(crate) fn run(workspace: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut failed = Vec::new();
    for (package, test) in IGNORED {
        println!("== {package}: {test}");
        let mut command = Command::new(&cargo);
        command.args(["test", "--release", "--locked", "--package", package, test]);
        command.args(["--", "--ignored", "--nocapture"]).current_dir(workspace);
        let status = command.status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            failed.push(test);
        }
    }
    println!("== gausset bench pano");
    let status = Command::new(program()?).args(["bench", "pano"]).status();
    if !status.map_err(|error| format!("gausset: {error}"))?.success() {
        failed.push("gausset bench pano");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}
