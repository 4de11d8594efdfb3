//! Shared code of the commands that train.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use gausset::Failure;
use gausset::training::{RunSettings, Trained};
use gausset_train::RunSummary;
use serde::Serialize;

use crate::EarlyExit;
use crate::console::Console;
use crate::event_log::{self, EventLog};
use crate::exit::Status;
use crate::interrupt::{Interrupt, Signal};
use crate::profiling;

/// Arguments for additional files in the run folder.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunOutputArgs {
    /// Also log training curves for an external program: tensorboard.
    #[arg(long, value_name = "PROGRAM", hide_possible_values = true, value_parser = PossibleValuesParser::new(["tensorboard"]))]
    log: Option<String>,
    /// Do not write report.html at the end of the run.
    #[arg(long)]
    no_report: bool,
    /// Also append the events of the training as JSON lines to FILE; - writes them to stdout instead of the result.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

impl RunOutputArgs {
    /// The training conditions `others` with these arguments applied. Opens the log of events.
    ///
    /// # Errors
    /// The log of events cannot be opened.
    pub(crate) fn apply_to(&self, others: RunSettings, console: &Console) -> Result<RunSettings, Failure> {
        if let Some(path) = &self.events {
            console.log_events_to(EventLog::open(path)?);
        }
        Ok(RunSettings { report: !self.no_report, tensorboard: self.log.is_some(), ..others })
    }
}

/// A result as a JSON object, with the number of images that were left out.
#[derive(Debug, Serialize)]
pub(crate) struct WithLeftOut<'a, T: Serialize> {
    #[serde(flatten)]
    pub(crate) result: &'a T,
    /// Number of images that are missing or unreadable.
    pub(crate) left_out: usize,
}

/// The result of a training as a JSON object.
pub(crate) fn summary_json(trained: &Trained) -> WithLeftOut<'_, RunSummary> {
    WithLeftOut { result: &trained.outcome.summary, left_out: trained.skipped }
}

/// The exit status of a job that a signal stopped.
pub(crate) fn interrupted_status(interrupt: &Interrupt) -> Status {
    Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt))
}

/// The exit status of a job that was stopped, or its failure.
pub(crate) fn exit_status(failure: Failure, interrupt: &Interrupt) -> Result<Status, EarlyExit> {
    if failure.is_stopped() { Ok(interrupted_status(interrupt)) } else { Err(failure.into()) }
}

/// The exit status after a training. Prints the profile first, if there is one.
pub(crate) fn training_status(trained: &Trained, interrupt: &Interrupt, console: &Console) -> Status {
    if let Some(profile) = &trained.profile {
        console.note(profiling::report(profile));
    }
    console.log_event(|| Some(event_log::end_line(trained)));
    if trained.is_stopped() { interrupted_status(interrupt) } else { Status::done(trained.has_skipped()) }
}
