//! Forbidden dependencies between crates, direct or indirect.

use std::path::Path;
use std::process::Command;

/// A crate, packages that may not be in its dependency tree, and why.
const FORBIDDEN: [(&str, &[&str], &str); 5] = [
    (
        "gausset",
        &["clap", "indicatif", "signal-hook"],
        "jobs are functions of plain options: arguments, bars and signals belong to the program",
    ),
    (
        "gausset-view",
        &["clap", "indicatif", "signal-hook"],
        "the viewer is a library: arguments, bars and signals belong to the program",
    ),
    (
        "gausset-density",
        &["gausset-raster", "gausset-cpu"],
        "rules are for every device and must not depend on CPU kernels",
    ),
    (
        "gausset-reference",
        &["gausset-raster", "gausset-density", "gausset-cpu", "gausset-compute"],
        "the definition must not depend on an implementation",
    ),
    (
        "gausset-train",
        &[
            "clap",
            "gausset-cpu",
            "gausset-raster",
            "gausset-pano",
            "gausset-sfm",
            "gausset-field",
            "gausset-blocks",
        ],
        "a run uses devices through the Engine trait only, and images through their dataset",
    ),
];

/// The forbidden packages in the dependency trees.
pub(crate) fn forbidden_dependencies(workspace: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (package, forbidden, why) in FORBIDDEN {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "-e", "normal", "--prefix", "none", "-f", "{p}", "-p", package])
            .current_dir(workspace)
            .output()
            .map_err(|error| format!("cargo tree: {error}"))?;
        if !tree.status.success() {
            return Err(format!("cargo tree -p {package}: {}", String::from_utf8_lossy(&tree.stderr)));
        }
        let text = String::from_utf8_lossy(&tree.stdout);
        let names = || text.lines().filter_map(|line| line.split(' ').next());
        for name in forbidden.iter().filter(|name| names().any(|found| found == **name)) {
            found.push(format!("{package}: depends on {name} (expected not: {why})"));
        }
    }
    Ok(found)
}
