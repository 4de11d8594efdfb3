//! Limits the duration of dispatches and submissions, so that none occupies the device for too long: a desktop freezes
//! meanwhile, and drivers abort work that takes seconds (Windows after two, by default).
//!
//! Timestamps of some units give the time of each stage per pixel or splat. A dispatch that would take longer than
//! [`DISPATCH_MS`] is divided into parts, and a unit that would take longer than [`SUBMISSION_MS`] into submissions.
//! Results do not depend on this. Stages without a measurement count as slow. A software device is never split: it
//! drives no display, and its times include those of other work on the machine.

use gausset_core::Stage;

use crate::split::DispatchParts;

/// Target duration of a dispatch, ms.
pub(crate) const DISPATCH_MS: f64 = 20.0;
/// Target duration of a submission, ms.
pub(crate) const SUBMISSION_MS: f64 = 100.0;
/// Assumed duration of a dispatch without a measurement, ms.
const UNKNOWN_MS: f64 = 8.0 * DISPATCH_MS;
/// Maximum number of parts of a dispatch.
const MAX_PARTS: f64 = 128.0;
/// One of this many units is timed.
const TIMING_INTERVAL: u64 = 50;
/// Factor on an older, longer time at each newer measurement: views differ.
const DECAY: f64 = 0.9;

/// Sizes of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UnitSize {
    pub(crate) splats: f64,
    pub(crate) pixels: f64,
}

impl UnitSize {
    /// The size with which the time of a stage scales.
    fn size_for_stage(&self, stage: Stage) -> f64 {
        let size = match stage {
            Stage::Blend | Stage::Loss | Stage::BlendVjp => self.pixels,
            _ => self.splats,
        };
        // Below this size the time no longer falls.
        size.max(65_536.0)
    }
}

/// The measured times of stages.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageTimes {
    /// Whether work is split by time at all.
    is_enabled: bool,
    /// For a whole dispatch of each stage: ms per pixel or splat.
    rates: [Option<f64>; Stage::ALL.len()],
}

impl StageTimes {
    /// Without measurements. If not `is_kept`, nothing is split.
    pub(crate) fn new(is_kept: bool) -> Self {
        Self { is_enabled: is_kept, rates: Default::default() }
    }

    /// Whether the unit with this number and these stages is to be timed: also while the time of a stage is not known.
    pub(crate) fn is_timed(&self, unit: u64, mut stages: impl Iterator<Item = Stage>) -> bool {
        let is_new = |stage: Stage| self.rates[stage as usize].is_none();
        self.is_enabled && (unit.is_multiple_of(TIMING_INTERVAL) || stages.any(is_new))
    }

    /// Adds a measurement: `dispatches` whole dispatches of a stage took `ms` together.
    pub(crate) fn add_measurement(&mut self, stage: Stage, extent: &UnitSize, dispatches: f64, ms: f64) {
        let rate = ms / dispatches / extent.size_for_stage(stage);
        if !rate.is_finite() {
            return;
        }
        let known = &mut self.rates[stage as usize];
        *known = Some(known.map_or(rate, |old| rate.max(DECAY * old)));
    }

    /// Expected duration of a whole dispatch, ms.
    fn dispatch_ms(&self, stage: Stage, extent: &UnitSize) -> f64 {
        if !self.is_enabled {
            return 0.0;
        }
        self.rates[stage as usize].map_or(UNKNOWN_MS, |rate| rate * extent.size_for_stage(stage))
    }

    /// Number of parts of the dispatches of a unit: powers of two, so that there are few plans.
    pub(crate) fn windows(&self, extent: &UnitSize) -> DispatchParts {
        DispatchParts::for_stages(|stage| {
            let parts = (self.dispatch_ms(stage, extent) / DISPATCH_MS).ceil().clamp(1.0, MAX_PARTS);
            (parts as u8).next_power_of_two()
        })
    }

    /// Divides a unit into submissions: the number of parts in each, given the stage of each part; parts without a
    /// stage take no time.
    pub(crate) fn submissions(
        &self,
        stages: impl Iterator<Item = Option<Stage>>,
        windows: &DispatchParts,
        extent: &UnitSize,
    ) -> Vec<usize> {
        let mut lengths = vec![0];
        let mut taken = 0.0;
        for stage in stages {
            let of = |stage| self.dispatch_ms(stage, extent) / f64::from(windows.parts(stage));
            let ms = stage.map_or(0.0, of);
            if taken > 0.0 && taken + ms > SUBMISSION_MS {
                lengths.push(0);
                taken = 0.0;
            }
            taken += ms;
            if let Some(last) = lengths.last_mut() {
                *last += 1;
            }
        }
        lengths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: UnitSize = UnitSize { splats: 1e6, pixels: 1e6 };

    fn kept() -> StageTimes {
        StageTimes::new(true)
    }

    #[test]
    fn a_slow_stage_is_done_in_parts_and_a_slow_unit_in_submissions() {
        let mut pace = kept();
        Stage::ALL.into_iter().for_each(|stage| pace.add_measurement(stage, &STEP, 10.0, 1.0));
        assert_eq!(pace.windows(&STEP), DispatchParts::default());
        let stages = || [Stage::Project, Stage::Sort, Stage::Blend, Stage::Blend].into_iter().map(Some);
        assert_eq!(pace.submissions(stages(), &DispatchParts::default(), &STEP), [4]);
        // A blend of 130 ms: eight parts of 16.
        pace.add_measurement(Stage::Blend, &STEP, 1.0, 130.0);
        let windows = pace.windows(&STEP);
        assert_eq!((windows.parts(Stage::Blend), windows.parts(Stage::Sort)), (8, 1));
        let parts = || std::iter::repeat_n(Some(Stage::Blend), 16).chain([None; 9]);
        assert_eq!(pace.submissions(parts(), &windows, &STEP), [6, 6, 13]);
        // A quarter of the image takes a quarter of the time, a larger image more.
        let small = UnitSize { pixels: 2.5e5, ..STEP };
        assert_eq!(pace.windows(&small).parts(Stage::Blend), 2);
        let huge = UnitSize { pixels: 1e8, ..STEP };
        assert_eq!(pace.windows(&huge).parts(Stage::Blend), 128);
        // Old times decay slowly.
        (0..30).for_each(|_| pace.add_measurement(Stage::Blend, &STEP, 1.0, 2.0));
        assert_eq!(pace.windows(&STEP), DispatchParts::default());
    }

    #[test]
    fn what_is_not_known_counts_as_slow_and_what_is_not_watched_as_fast() {
        let unknown = kept().windows(&STEP);
        assert!(Stage::ALL.into_iter().all(|stage| unknown.parts(stage) == 8));
        let parts = || std::iter::repeat_n(Some(Stage::Sort), 11);
        assert_eq!(kept().submissions(parts(), &unknown, &STEP), [5, 5, 1]);
        let free = StageTimes::default();
        assert_eq!(free.windows(&STEP), DispatchParts::default());
        assert_eq!(free.submissions(parts(), &DispatchParts::default(), &STEP), [11]);
        let (none, blend) = (std::iter::empty, || std::iter::once(Stage::Blend));
        assert!(!free.is_timed(0, none()) && !free.is_timed(1, blend()));
        let mut kept = kept();
        assert!(kept.is_timed(0, none()) && !kept.is_timed(1, none()) && kept.is_timed(50, none()));
        assert!(kept.is_timed(1, blend()));
        kept.add_measurement(Stage::Blend, &STEP, 1.0, 1.0);
        assert!(!kept.is_timed(1, blend()));
    }

    #[test]
    fn times_that_are_none_are_not_noted() {
        let mut pace = kept();
        pace.add_measurement(Stage::Sort, &STEP, 0.0, 1.0);
        pace.add_measurement(Stage::Sort, &STEP, 1.0, f64::NAN);
        assert_eq!(pace.windows(&STEP).parts(Stage::Sort), 8);
    }
}
