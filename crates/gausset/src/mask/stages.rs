//! Stages of a worker, for the table of times.

use gausset_pano::split::StageTimes;
use gausset_prof::{StageSet, StageTime};

/// A stage. Waiting has its own stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerStage {
    /// Waits for its turn at the pipe of a video, or until earlier frames are done.
    Turn,
    Read,
    Decode,
    /// Resamples views.
    Cut,
    /// Runs the model, including preparation of its input and decoding of its outputs.
    Inference,
    /// Warps detections to the sphere.
    Carry,
    /// Refinement, temporal consistency, dilation, masks of views.
    WorkOver,
    Encode,
    Write,
    /// Waits until the calling thread has written earlier frames to disk.
    Queue,
}

impl StageSet for WorkerStage {
    const ALL: &'static [Self] = &[
        Self::Turn,
        Self::Read,
        Self::Decode,
        Self::Cut,
        Self::Inference,
        Self::Carry,
        Self::WorkOver,
        Self::Encode,
        Self::Write,
        Self::Queue,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Turn => "wait: turn",
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Cut => "cut",
            Self::Inference => "inference",
            Self::Carry => "carry",
            Self::WorkOver => "work over",
            Self::Encode => "encode",
            Self::Write => "write",
            Self::Queue => "wait: device",
        }
    }
}

/// Rows of all workers added up: work stages in order, then waiting.
pub(super) fn times(workers: &[Vec<StageTime>], wall_s: f64, sync: StageTime) -> StageTimes {
    let row = |(at, doing): (usize, &WorkerStage)| {
        let mut sum = StageTime::default();
        workers.iter().for_each(|worker| sum += worker[at]);
        (doing.name(), sum)
    };
    let (waits, work): (Vec<_>, Vec<_>) =
        WorkerStage::ALL.iter().enumerate().map(row).partition(|(name, _)| name.starts_with("wait"));
    StageTimes::from_rows(workers.len(), wall_s, &[work, waits].concat(), sync)
}
