//! What the commands that train have in common.

use clap::Args;
use clap::builder::PossibleValuesParser;
use gausset_flow::Failure;
use gausset_flow::training::{Conditions, Trained};
use gausset_train::Summary;
use serde::Serialize;

use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::interrupt::{Interrupt, Signal};
use crate::profiling;

/// What a training leaves in the folder of its run beside its result.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordArgs {
    /// Write curves into the folder of the run for another program as well: tensorboard.
    #[arg(long, value_name = "PROGRAM", hide_possible_values = true, value_parser = PossibleValuesParser::new(["tensorboard"]))]
    log: Option<String>,
    /// Write no report.html into the folder of the run at the end.
    #[arg(long)]
    no_report: bool,
}

impl RecordArgs {
    /// Conditions that are these, and otherwise others.
    pub(crate) fn over(&self, others: Conditions) -> Conditions {
        Conditions { report: !self.no_report, tensorboard: self.log.is_some(), ..others }
    }
}

/// A result as an object, with how many pictures were left out.
#[derive(Debug, Serialize)]
pub(crate) struct Counted<'a, T: Serialize> {
    #[serde(flatten)]
    pub(crate) result: &'a T,
    /// Pictures that are absent or cannot be read.
    pub(crate) left_out: usize,
}

/// The result of a training as an object.
pub(crate) fn object(trained: &Trained) -> Counted<'_, Summary> {
    Counted { result: &trained.outcome.summary, left_out: trained.skipped }
}

/// How the program ends that was asked to stop.
pub(crate) fn interrupted(interrupt: &Interrupt) -> Status {
    Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt))
}

/// How the program ends whose job was asked to stop or failed.
pub(crate) fn ending(failure: Failure, interrupt: &Interrupt) -> Result<Status, Ending> {
    if failure.is_stopped() { Ok(interrupted(interrupt)) } else { Err(failure.into()) }
}

/// How the program ends after a training. Where the time went is reported before, if that was asked for.
pub(crate) fn status(trained: &Trained, interrupt: &Interrupt, console: &Console) -> Status {
    if let Some(profile) = &trained.profile {
        console.note(profiling::report(profile));
    }
    if trained.is_stopped() { interrupted(interrupt) } else { Status::done(trained.has_skipped()) }
}
