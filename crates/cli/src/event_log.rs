//! `--events`: the events of a training as JSON lines in a file or on stdout, for other programs.
//!
//! The lines are those of [`gausset_train::Event::to_json`]. A run in blocks adds lines for its stages: the events after
//! one belong to that part. The last line of a session is `finished`, with the hash of the splats, `stopped` or `failed`;
//! a killed one has none.

use std::io::Read;
use std::path::Path;

use gausset::training::Trained;
use gausset::{Event, Failure};
use gausset_io::atomic::{Disk, plain_reason};
use gausset_io::input;
use gausset_io::metrics_log::MetricsLog;
use gausset_io::run_folder::splats_path;
use gausset_train::Event as TrainingEvent;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// First bytes of each line, then follow a number and [`EVENT`].
const BEGINNING: &str = "{\"schema\":";
const EVENT: &str = ",\"event\":\"";
/// Bytes in which both are found.
const HEAD_BYTES: u64 = 64;

/// Where the lines go.
pub(crate) enum EventLog {
    /// To stdout.
    Stdout,
    /// To a stdout that cannot be written any more.
    Closed,
    /// To the end of a file, whose size is limited as that of `metrics.jsonl`.
    File(Box<MetricsLog>),
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stdout => "Stdout",
            Self::Closed => "Closed",
            Self::File(_) => "File",
        })
    }
}

impl EventLog {
    /// Opens the log that an option names: `-` for stdout, else a new file or one with such lines.
    ///
    /// # Errors
    /// The file holds something else, or cannot be read or written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stdout);
        }
        check_is_log(path)?;
        Ok(Self::File(Box::new(MetricsLog::resume(&Disk, path)?)))
    }
}

/// Refuses a file that holds something else than events.
fn check_is_log(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let refused = |code: &'static str, what: &str| {
        Err(Failure::new(code, format!("--events: {}: {what}", path.display())))
    };
    let mut found = Vec::new();
    let read =
        input::open(path, input::NO_LIMIT).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut found));
    if let Err(error) = read {
        return refused("read", &plain_reason(&error).to_string());
    }
    let after = found.strip_prefix(BEGINNING.as_bytes());
    let digits = |rest: &[u8]| rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_event = after.is_some_and(|rest| rest[digits(rest)..].starts_with(EVENT.as_bytes()));
    if found.is_empty() || is_event {
        return Ok(());
    }
    refused("exists", "holds something else (expected a new file or lines of events); choose another name")
}

/// The line of an event of a job; `None` if only people need it.
pub(crate) fn line_of(event: &Event) -> Option<String> {
    match event {
        Event::Training(event) => match &**event {
            // `finished` follows once all files are written, with their hash.
            TrainingEvent::Finished(_) => None,
            // A path that is not Unicode has no JSON.
            event => Some(event.to_json()).filter(|line| !line.is_empty()),
        },
        Event::Stage(stage) => stage.block_event().map(|(name, fields)| named(name, fields)),
        Event::Warning { topic, line } => Some(named("warning", json!({ "kind": topic, "line": line }))),
        _ => None,
    }
}

/// The last line of a training that has ended or stopped.
pub(crate) fn end_line(trained: &Trained) -> String {
    let run = trained.folder.display().to_string();
    let summary = &trained.outcome.summary;
    if trained.is_stopped() {
        // A run in blocks, or one before its first step, has no steps of its own.
        let step = Some(summary.steps).filter(|&steps| steps > 0);
        return named("stopped", json!({ "step": step, "run": run }));
    }
    let mut fields = json!(summary);
    fields["run"] = json!(run);
    fields["sha256"] = json!(sha256_of(&splats_path(&trained.folder)));
    named("finished", fields)
}

/// The last line of a job that was asked to stop before the training.
pub(crate) fn stopped_line() -> String {
    named("stopped", json!({ "step": null }))
}

/// The last line of a job that ends without a training, with its result.
pub(crate) fn result_line(result: &Value) -> String {
    named("finished", result.clone())
}

/// The last line of a training that has failed.
pub(crate) fn failure_line(failure: &Failure) -> String {
    named("failed", json!({ "error": failure }))
}

/// A line with the version of the format, a name and fields.
fn named(name: &str, fields: Value) -> String {
    let start = format!("{BEGINNING}{}{EVENT}{name}\"", TrainingEvent::SCHEMA);
    let fields = fields.to_string();
    format!("{start},{}", fields.trim_start_matches('{'))
}

/// SHA-256 of a file in hexadecimal; `None` if it cannot be read.
fn sha256_of(path: &Path) -> Option<String> {
    let mut file = input::open(path, input::NO_LIMIT).ok()?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => hash.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_file_or_lines_of_events_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        for (contents, is_refused) in [
            (None, false),
            (Some(""), false),
            (Some("{\"schema\":1,\"event\":\"finished\"}\n"), false),
            (Some("{\"schema\":1,\"event\":\"prog"), false),
            (Some("{\"schema\":1,\"kind\":\"run\"}"), true),
            (Some("{\"step\": 1}\n"), true),
            (Some("notes"), true),
        ] {
            if let Some(contents) = contents {
                std::fs::write(&path, contents).unwrap();
            }
            let opened = EventLog::open(&path);
            assert_eq!(opened.is_err(), is_refused, "{contents:?}");
            if is_refused {
                assert_eq!(std::fs::read_to_string(&path).unwrap(), contents.unwrap());
            }
        }
    }

    #[test]
    fn a_line_begins_with_the_version_and_its_name() {
        assert_eq!(
            named("divided", json!({ "images": [1, 2] })),
            r#"{"schema":1,"event":"divided","images":[1,2]}"#
        );
    }
}
