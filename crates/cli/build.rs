//! The version that `gausset --version` prints: `0.2.0 (1a2b3c4d)`, with the commit if `$GAUSSET_COMMIT` or git knows it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=GAUSSET_COMMIT");
    let package = env!("CARGO_PKG_VERSION");
    let given = std::env::var("GAUSSET_COMMIT").ok().filter(|commit| !commit.is_empty());
    let version = match given.or_else(commit_of_checkout) {
        Some(commit) => format!("{package} ({commit:.8})"),
        None => package.to_owned(),
    };
    println!("cargo::rustc-env=GAUSSET_VERSION={version}");
}

/// The commit of this repository, but not of another one that holds a copy of these sources.
fn commit_of_checkout() -> Option<String> {
    let arguments = ["rev-parse", "--show-prefix", "--git-path", "logs/HEAD", "--git-path", "HEAD", "HEAD"];
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    lines.next().filter(|folder| *folder == "crates/cli/")?;
    // Every commit and every checkout adds a line to the log. A repository may be without one.
    let (log, head) = (lines.next()?, lines.next()?);
    println!("cargo::rerun-if-changed={}", if Path::new(log).exists() { log } else { head });
    lines.next().map(str::to_owned)
}
