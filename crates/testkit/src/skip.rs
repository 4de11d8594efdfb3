//! Skipping tests: a message, a log, and environment variables that make a skip a failure.
//!
//! `cargo test` counts a skipped test as passed and hides its output. So every skip is also appended to the file named
//! by `$GAUSSET_SKIP_LOG`, which a run of all tests prints at its end. Where data or programs must be available,
//! `GAUSSET_REQUIRE_DATA=1`, `GAUSSET_REQUIRE_TOOLS=1` and `GAUSSET_REQUIRE_GPU=1` make their absence a failure.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

/// Environment variable with the file to which each skip is appended as a line.
pub const LOG_VARIABLE: &str = "GAUSSET_SKIP_LOG";
/// Environment variable that, set to `1`, makes a skip for missing data a failure.
pub const REQUIRE_DATA_VARIABLE: &str = "GAUSSET_REQUIRE_DATA";
/// Environment variable that, set to `1`, makes a skip for a missing program a failure.
pub const REQUIRE_TOOLS_VARIABLE: &str = "GAUSSET_REQUIRE_TOOLS";

/// Environment variable that, set to `1`, makes a skip for a missing GPU a failure.
pub const REQUIRE_GPU_VARIABLE: &str = "GAUSSET_REQUIRE_GPU";

/// Skips a test because data that is not in the repository is missing.
///
/// # Panics
/// If `GAUSSET_REQUIRE_DATA=1`.
pub fn skip(test: &str, reason: &str) {
    report_skip(test, reason, Some(REQUIRE_DATA_VARIABLE));
}

/// Skips a test because a program that it needs is missing: ffmpeg, COLMAP.
///
/// # Panics
/// If `GAUSSET_REQUIRE_TOOLS=1`.
pub fn skip_for_tool(test: &str, reason: &str) {
    report_skip(test, reason, Some(REQUIRE_TOOLS_VARIABLE));
}

/// Skips a test because there is neither a GPU nor a software device.
///
/// # Panics
/// If `GAUSSET_REQUIRE_GPU=1`.
pub fn skip_for_gpu(test: &str, reason: &str) {
    report_skip(test, reason, Some(REQUIRE_GPU_VARIABLE));
}

/// Skips a test, or a part of one, that this machine cannot run: for example a SIMD level, a device file.
///
/// # Panics
/// If the log cannot be written.
pub fn skip_for_machine(test: &str, reason: &str) {
    report_skip(test, reason, None);
}

fn report_skip(test: &str, reason: &str, switch: Option<&str>) {
    let is_required = switch.is_some_and(|name| std::env::var_os(name).is_some_and(|value| value == "1"));
    let log = std::env::var_os(LOG_VARIABLE);
    log_skip(test, reason, switch.filter(|_| is_required), log.as_deref().map(Path::new));
}

#[allow(clippy::print_stderr, reason = "the one place where a test announces that it did not run")]
#[allow(clippy::disallowed_methods, reason = "a log of tests, which grows by lines")]
fn log_skip(test: &str, reason: &str, required_by: Option<&str>, log: Option<&Path>) {
    let reason = reason.lines().next().unwrap_or_default();
    if let Some(switch) = required_by {
        panic!("{test}: {reason}, and {switch}=1 does not let it be skipped");
    }
    let line = format!("skipped: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(log) = log.filter(|log| log.as_os_str() != OsStr::new("")) {
        // A single write of a short line to a file opened for appending: tests of several processes do not mix.
        let written = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error} (named by {LOG_VARIABLE})", log.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_lines_of_a_log_that_grows() {
        let log = std::env::temp_dir().join(format!("gausset-skips-{}", std::process::id()));
        log_skip("first", "no data\nsecond line", None, Some(&log));
        log_skip("second", "no ffmpeg", None, Some(&log));
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert_eq!(text, "skipped: first: no data\nskipped: second: no ffmpeg\n");
    }

    #[test]
    #[should_panic(expected = "walk: no data, and GAUSSET_REQUIRE_DATA=1 does not let it be skipped")]
    fn what_is_required_cannot_be_skipped() {
        log_skip("walk", "no data", Some(REQUIRE_DATA_VARIABLE), None);
    }
}
