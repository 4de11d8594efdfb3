//! What a worker does, for the table of where the time went.

use gausset_pano::split::StageTimes;
use gausset_prof::{Spent, Stages};

/// Waiting for others has stages of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Waits for its turn at the pipe of a video, or until frames before it are done.
    Turn,
    Read,
    Decode,
    /// Cuts views.
    Cut,
    /// The model, with its input and what is read from its outputs.
    Inference,
    /// Brings finds to the sphere.
    Carry,
    /// Edges, holes, time, growth, masks of views.
    WorkOver,
    Encode,
    Write,
    /// Waits until the calling thread has brought earlier frames to the device.
    Queue,
}

impl Stages for Doing {
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

/// The rows of all workers together: work in its order, then waiting.
pub(super) fn times(workers: &[Vec<Spent>], wall_s: f64, sync: Spent) -> StageTimes {
    let row = |(at, doing): (usize, &Doing)| {
        let mut sum = Spent::default();
        workers.iter().for_each(|worker| sum += worker[at]);
        (doing.name(), sum)
    };
    let (waits, work): (Vec<_>, Vec<_>) =
        Doing::ALL.iter().enumerate().map(row).partition(|(name, _)| name.starts_with("wait"));
    StageTimes::of_rows(workers.len(), wall_s, &[work, waits].concat(), sync)
}
