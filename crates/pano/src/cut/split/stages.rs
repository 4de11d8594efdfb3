//! Time per stage of a split.

use gausset_prof::{StageSet, StageTime};
use serde::Serialize;

use crate::cut::cutter::CutTimes;

/// The current stage of a worker. Waiting for other workers has its own stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerStage {
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

impl StageSet for WorkerStage {
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
    pub(super) spent: Vec<StageTime>,
    /// Division of the cutting time into sampling and encoding.
    pub(super) cut: CutTimes,
}

/// Time per stage of a split; the rows of the workers add up to `workers * wall_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageTimes {
    /// Number of worker threads.
    pub workers: usize,
    /// Wall time from their start to their end, seconds.
    pub wall_s: f64,
    /// Time per stage of all workers, in the order of the work, followed by waiting times.
    pub stages: Vec<StageRow>,
    /// Time of the calling thread, which syncs and renames files while the workers run.
    pub sync: StageTime,
}

/// A row of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageRow {
    /// `read`, `tables`, `decode`, `mask`, `colour`, `remap`, `encode`, `write`, `wait: turn`, `wait: memory`,
    /// `wait: device`, `idle`; for masks, the stages of `gausset mask`.
    pub stage: &'static str,
    /// Wall and CPU time of the stage.
    #[serde(flatten)]
    pub spent: StageTime,
}

/// Fraction of the wall time from which on a serial stage is reported as the bottleneck.
const SERIAL_FRACTION: f64 = 0.8;
/// Fraction of the workers' time from which on waiting for memory is reported as the bottleneck.
const MEMORY_WAIT_FRACTION: f64 = 0.25;

impl StageTimes {
    /// Adds up the times of the workers of a run of `wall_s` seconds.
    pub(super) fn from_workers(workers: &[WorkerTime], wall_s: f64, sync: StageTime) -> Self {
        let sum = |doing: WorkerStage| {
            let at = WorkerStage::ALL.iter().position(|d| *d == doing).unwrap_or(0);
            let mut sum = StageTime::default();
            workers.iter().for_each(|worker| sum += worker.spent[at]);
            sum
        };
        let cut = workers.iter().fold(CutTimes::default(), |sum, worker| CutTimes {
            remap: sum.remap + worker.cut.remap,
            encode: sum.encode + worker.cut.encode,
        });
        let encode = cut.encode / (cut.remap + cut.encode).max(1e-12);
        let rows = [
            (WorkerStage::Read.name(), sum(WorkerStage::Read)),
            (WorkerStage::Tables.name(), sum(WorkerStage::Tables)),
            (WorkerStage::Decode.name(), sum(WorkerStage::Decode)),
            (WorkerStage::Mask.name(), sum(WorkerStage::Mask)),
            (WorkerStage::Colour.name(), sum(WorkerStage::Colour)),
            ("remap", sum(WorkerStage::Cut) * (1.0 - encode)),
            ("encode", sum(WorkerStage::Cut) * encode),
            (WorkerStage::Write.name(), sum(WorkerStage::Write)),
            (WorkerStage::Turn.name(), sum(WorkerStage::Turn)),
            (WorkerStage::Memory.name(), sum(WorkerStage::Memory)),
            (WorkerStage::Queue.name(), sum(WorkerStage::Queue)),
        ];
        Self::from_rows(workers.len(), wall_s, &rows, sync)
    }

    /// Builds a profile from the rows of another job whose workers move from stage to stage. The rest of the workers'
    /// time is `idle`.
    #[must_use]
    pub fn from_rows(
        workers: usize,
        wall_s: f64,
        rows: &[(&'static str, StageTime)],
        sync: StageTime,
    ) -> Self {
        let known: f64 = rows.iter().map(|(_, spent)| spent.wall_s).sum();
        let idle = StageTime { wall_s: (workers as f64 * wall_s - known).max(0.0), cpu_s: 0.0 };
        let rows = rows.iter().copied().chain([("idle", idle)]);
        let stages = rows.map(|(stage, spent)| StageRow { stage, spent }).collect();
        Self { workers, wall_s, stages, sync }
    }

    fn wall_seconds(&self, name: &str) -> f64 {
        self.stages.iter().find(|row| row.stage == name).map_or(0.0, |row| row.spent.wall_s)
    }

    /// Fraction of all workers' time that a row takes, 0 to 1.
    #[must_use]
    pub fn fraction(&self, row: &StageRow) -> f64 {
        row.spent.wall_s / (self.workers as f64 * self.wall_s).max(1e-12)
    }

    /// The bottleneck: a serial stage that is busy nearly all the time, else memory, else the stage with the most
    /// worker time.
    #[must_use]
    pub fn bottleneck(&self) -> &'static str {
        // Workers that wait for a turn wait for the one that reads.
        if self.wall_seconds("wait: turn") > 0.0 && self.wall_seconds("read") >= SERIAL_FRACTION * self.wall_s
        {
            return "read";
        }
        if self.sync.wall_s >= SERIAL_FRACTION * self.wall_s {
            return "sync";
        }
        if self.wall_seconds("wait: memory") >= MEMORY_WAIT_FRACTION * self.workers as f64 * self.wall_s {
            return "memory";
        }
        let work = self.stages.iter().filter(|row| !row.stage.starts_with("wait") && row.stage != "idle");
        work.max_by(|a, b| a.spent.wall_s.total_cmp(&b.spent.wall_s)).map_or("", |row| row.stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(times: [(WorkerStage, f64); 3], cut: CutTimes) -> WorkerTime {
        let of = |doing| times.iter().find(|(d, _)| *d == doing).map_or(0.0, |(_, wall)| *wall);
        let spent =
            WorkerStage::ALL.iter().map(|&d| StageTime { wall_s: of(d), cpu_s: of(d) / 2.0 }).collect();
        WorkerTime { spent, cut }
    }

    #[test]
    fn rows_add_up_to_all_workers_and_the_limit_has_a_name() {
        let cut = CutTimes { remap: 1.0, encode: 3.0 };
        let two = [
            worker([(WorkerStage::Read, 1.0), (WorkerStage::Cut, 6.0), (WorkerStage::Turn, 2.0)], cut),
            worker([(WorkerStage::Read, 3.0), (WorkerStage::Cut, 4.0), (WorkerStage::Memory, 1.0)], cut),
        ];
        let times = StageTimes::from_workers(&two, 10.0, StageTime::default());
        let sum: f64 = times.stages.iter().map(|row| row.spent.wall_s).sum();
        assert!((sum - 20.0).abs() < 1e-9, "{times:?}");
        assert_eq!(
            (times.wall_seconds("remap"), times.wall_seconds("encode"), times.wall_seconds("idle")),
            (2.5, 7.5, 3.0)
        );
        assert_eq!(times.bottleneck(), "encode");
        // The reader of a video is busy nearly all the time.
        assert_eq!(StageTimes::from_workers(&two, 5.0, StageTime::default()).bottleneck(), "read");
        let sync = StageTime { wall_s: 9.0, cpu_s: 0.1 };
        assert_eq!(StageTimes::from_workers(&two, 10.0, sync).bottleneck(), "sync");
        let waits =
            [worker([(WorkerStage::Memory, 5.0), (WorkerStage::Cut, 4.0), (WorkerStage::Read, 1.0)], cut)];
        assert_eq!(StageTimes::from_workers(&waits, 10.0, StageTime::default()).bottleneck(), "memory");
    }
}
