//! Time per stage of a split.

use gausset_prof::{Spent, Stages};
use serde::Serialize;

use crate::cutter::Times;

/// The current stage of a worker. Waiting for other workers has its own stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Waits for the pipe of a video.
    Turn,
    /// Waits for memory that other workers hold.
    Memory,
    Read,
    /// Builds the tables of the views, or waits for another worker that builds them.
    Tables,
    Decode,
    /// Makes or reads masks: runs a command, decodes files.
    Mask,
    Colour,
    /// Samples views and encodes them, band by band.
    Cut,
    Write,
    /// Waits until the calling thread has synced earlier frames.
    Queue,
}

impl Stages for Doing {
    const ALL: &'static [Self] = &[
        Self::Turn,
        Self::Memory,
        Self::Read,
        Self::Tables,
        Self::Decode,
        Self::Mask,
        Self::Colour,
        Self::Cut,
        Self::Write,
        Self::Queue,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Turn => "wait: turn",
            Self::Memory => "wait: memory",
            Self::Read => "read",
            Self::Tables => "tables",
            Self::Decode => "decode",
            Self::Mask => "mask",
            Self::Colour => "colour",
            Self::Cut => "cut",
            Self::Write => "write",
            Self::Queue => "wait: device",
        }
    }
}

/// Time of one worker.
#[derive(Clone, Debug)]
pub(super) struct WorkerTime {
    /// Time per stage, in the order of the stages.
    pub(super) spent: Vec<Spent>,
    /// Division of the cutting time into sampling and encoding.
    pub(super) cut: Times,
}

/// Time per stage of a split; the rows of the workers add up to `workers * wall_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageTimes {
    /// Number of worker threads.
    pub workers: usize,
    /// Wall time from their start to their end, seconds.
    pub wall_s: f64,
    /// Time per stage of all workers, in the order of the work, followed by waiting times.
    pub stages: Vec<StageTime>,
    /// Time of the calling thread, which syncs and renames files while the workers run.
    pub sync: Spent,
}

/// A row of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageTime {
    /// `read`, `tables`, `decode`, `mask`, `colour`, `remap`, `encode`, `write`, `wait: turn`, `wait: memory`,
    /// `wait: device`, `idle`; for masks, the stages of `gausset mask`.
    pub stage: &'static str,
    /// Wall and CPU time of the stage.
    #[serde(flatten)]
    pub spent: Spent,
}

/// Fraction of the wall time from which on a serial stage is reported as the bottleneck.
const SERIAL: f64 = 0.8;
/// Fraction of the workers' time from which on waiting for memory is reported as the bottleneck.
const SHORT_OF_MEMORY: f64 = 0.25;

impl StageTimes {
    /// Adds up the times of the workers of a run of `wall_s` seconds.
    pub(super) fn of(workers: &[WorkerTime], wall_s: f64, sync: Spent) -> Self {
        let sum = |doing: Doing| {
            let at = Doing::ALL.iter().position(|d| *d == doing).unwrap_or(0);
            let mut sum = Spent::default();
            workers.iter().for_each(|worker| sum += worker.spent[at]);
            sum
        };
        let cut = workers.iter().fold(Times::default(), |sum, worker| Times {
            remap: sum.remap + worker.cut.remap,
            encode: sum.encode + worker.cut.encode,
        });
        let encode = cut.encode / (cut.remap + cut.encode).max(1e-12);
        let rows = [
            (Doing::Read.name(), sum(Doing::Read)),
            (Doing::Tables.name(), sum(Doing::Tables)),
            (Doing::Decode.name(), sum(Doing::Decode)),
            (Doing::Mask.name(), sum(Doing::Mask)),
            (Doing::Colour.name(), sum(Doing::Colour)),
            ("remap", sum(Doing::Cut) * (1.0 - encode)),
            ("encode", sum(Doing::Cut) * encode),
            (Doing::Write.name(), sum(Doing::Write)),
            (Doing::Turn.name(), sum(Doing::Turn)),
            (Doing::Memory.name(), sum(Doing::Memory)),
            (Doing::Queue.name(), sum(Doing::Queue)),
        ];
        Self::of_rows(workers.len(), wall_s, &rows, sync)
    }

    /// Builds a profile from the rows of another job whose workers move from stage to stage. The rest of the workers'
    /// time is `idle`.
    #[must_use]
    pub fn of_rows(workers: usize, wall_s: f64, rows: &[(&'static str, Spent)], sync: Spent) -> Self {
        let known: f64 = rows.iter().map(|(_, spent)| spent.wall_s).sum();
        let idle = Spent { wall_s: (workers as f64 * wall_s - known).max(0.0), cpu_s: 0.0 };
        let rows = rows.iter().copied().chain([("idle", idle)]);
        let stages = rows.map(|(stage, spent)| StageTime { stage, spent }).collect();
        Self { workers, wall_s, stages, sync }
    }

    fn wall(&self, name: &str) -> f64 {
        self.stages.iter().find(|row| row.stage == name).map_or(0.0, |row| row.spent.wall_s)
    }

    /// Fraction of all workers' time that a row takes, 0 to 1.
    #[must_use]
    pub fn share(&self, row: &StageTime) -> f64 {
        row.spent.wall_s / (self.workers as f64 * self.wall_s).max(1e-12)
    }

    /// The bottleneck: a serial stage that is busy nearly all the time, else memory, else the stage with the most
    /// worker time.
    #[must_use]
    pub fn limit(&self) -> &'static str {
        // Workers that wait for a turn wait for the one that reads.
        if self.wall("wait: turn") > 0.0 && self.wall("read") >= SERIAL * self.wall_s {
            return "read";
        }
        if self.sync.wall_s >= SERIAL * self.wall_s {
            return "sync";
        }
        if self.wall("wait: memory") >= SHORT_OF_MEMORY * self.workers as f64 * self.wall_s {
            return "memory";
        }
        let work = self.stages.iter().filter(|row| !row.stage.starts_with("wait") && row.stage != "idle");
        work.max_by(|a, b| a.spent.wall_s.total_cmp(&b.spent.wall_s)).map_or("", |row| row.stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(times: [(Doing, f64); 3], cut: Times) -> WorkerTime {
        let of = |doing| times.iter().find(|(d, _)| *d == doing).map_or(0.0, |(_, wall)| *wall);
        let spent = Doing::ALL.iter().map(|&d| Spent { wall_s: of(d), cpu_s: of(d) / 2.0 }).collect();
        WorkerTime { spent, cut }
    }

    #[test]
    fn rows_add_up_to_all_workers_and_the_limit_has_a_name() {
        let cut = Times { remap: 1.0, encode: 3.0 };
        let two = [
            worker([(Doing::Read, 1.0), (Doing::Cut, 6.0), (Doing::Turn, 2.0)], cut),
            worker([(Doing::Read, 3.0), (Doing::Cut, 4.0), (Doing::Memory, 1.0)], cut),
        ];
        let times = StageTimes::of(&two, 10.0, Spent::default());
        let sum: f64 = times.stages.iter().map(|row| row.spent.wall_s).sum();
        assert!((sum - 20.0).abs() < 1e-9, "{times:?}");
        assert_eq!((times.wall("remap"), times.wall("encode"), times.wall("idle")), (2.5, 7.5, 3.0));
        assert_eq!(times.limit(), "encode");
        // The reader of a video is busy nearly all the time.
        assert_eq!(StageTimes::of(&two, 5.0, Spent::default()).limit(), "read");
        let sync = Spent { wall_s: 9.0, cpu_s: 0.1 };
        assert_eq!(StageTimes::of(&two, 10.0, sync).limit(), "sync");
        let waits = [worker([(Doing::Memory, 5.0), (Doing::Cut, 4.0), (Doing::Read, 1.0)], cut)];
        assert_eq!(StageTimes::of(&waits, 10.0, Spent::default()).limit(), "memory");
    }
}
