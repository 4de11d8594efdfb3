//! Maps the steps of a run to the steps of its schedules.
//!
//! Schedules are written for a number of steps that is known beforehand. A run that must end at a given time finds out
//! only during training how many steps it can afford. So at some steps it decides on a new last step, and traverses the
//! rest of the schedules evenly until then. The list of these decisions is all that is needed to repeat the run
//! exactly. A run without a time budget has one decision: as many steps as its schedules.
//!
//! ```text
//! scheduled(s) = from_i + floor((s - at_i) (schedule - from_i) / (end_i - at_i))      at_i ≤ s, i the last such decision
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::option_values::ParseValueError;

/// Maximum number of decisions of a plan that is read from a file.
const MAX_DECISIONS: usize = 100_000;
/// Maximum number of steps of a run or schedule.
const MAX_STEPS: u64 = 1_000_000_000;

/// The decisions of a run about its last step.
///
/// ```
/// use gausset_train::StepPlan;
///
/// // A time budget ends the run after 500 steps: each is then two steps of the schedules.
/// let mut plan = StepPlan::identity(1000);
/// plan.decide(0, 500);
/// assert_eq!([plan.scheduled(0), plan.scheduled(250), plan.scheduled(500)], [0, 500, 1000]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepPlan {
    schedule_steps: u64,
    decisions: Vec<PlanDecision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlanDecision {
    /// Finished steps at the time of the decision.
    at: u64,
    /// The step of the schedules at that time.
    from: u64,
    /// Last step of the run from then on.
    end: u64,
}

impl StepPlan {
    /// A plan with one step of the schedules per step.
    #[must_use]
    pub fn identity(schedule_steps: u64) -> Self {
        Self { schedule_steps, decisions: vec![PlanDecision { at: 0, from: 0, end: schedule_steps }] }
    }

    /// Number of steps of the schedules.
    #[must_use]
    pub fn schedule_steps(&self) -> u64 {
        self.schedule_steps
    }

    /// Number of steps of the run according to the last decision.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.decisions.last().map_or(0, |decision| decision.end)
    }

    /// Whether the steps of the run are those of the schedules.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        *self == Self::identity(self.schedule_steps)
    }

    /// Finished steps of the schedules after `done` steps of the run; all of them at the end.
    #[must_use]
    pub fn scheduled(&self, done: u64) -> u64 {
        let decision = self.decisions.iter().rev().find(|decision| decision.at <= done);
        decision.map_or(0, |decision| decision.scheduled(done, self.schedule_steps))
    }

    /// Decides after `done` steps that the run has `end` steps. Discards earlier decisions for later steps; `end` is
    /// lowered to the largest number of steps that a file may have, and raised to at least the next step.
    pub fn decide(&mut self, done: u64, end: u64) {
        let from = self.scheduled(done);
        self.decisions.retain(|decision| decision.at < done);
        self.decisions.push(PlanDecision { at: done, from, end: end.min(MAX_STEPS).max(done + 1) });
    }
}

impl PlanDecision {
    fn scheduled(&self, done: u64, schedule_steps: u64) -> u64 {
        let steps = u128::from((self.end - self.at).max(1));
        let walked = u128::from((done - self.at).min(self.end - self.at));
        // At most `schedule_steps - from`, so it fits into 64 bits.
        self.from + (walked * u128::from(schedule_steps - self.from) / steps) as u64
    }
}

/// `SCHEDULE AT:END AT:END …`
impl fmt::Display for StepPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.schedule_steps)?;
        self.decisions.iter().try_for_each(|decision| write!(f, " {}:{}", decision.at, decision.end))
    }
}

impl FromStr for StepPlan {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        let bad = || ParseValueError {
            expected: "steps of the schedules, then decisions AT:END in order, the first at 0".to_owned(),
            found: text.chars().take(80).collect(),
        };
        let mut words = text.split(' ');
        let number = |word: &str| word.parse::<u64>().ok().filter(|&n| n <= MAX_STEPS).ok_or_else(bad);
        let schedule_steps = number(words.next().unwrap_or_default())?;
        let mut plan = Self { schedule_steps, decisions: Vec::new() };
        for word in words {
            let (at, end) = word.split_once(':').ok_or_else(bad)?;
            let (at, end) = (number(at)?, number(end)?);
            let is_next = match plan.decisions.last() {
                None => at == 0,
                Some(before) => at > before.at && at < before.end,
            };
            if !is_next || end <= at || plan.decisions.len() == MAX_DECISIONS {
                return Err(bad());
            }
            plan.decide(at, end);
        }
        if plan.decisions.is_empty() || schedule_steps == 0 { Err(bad()) } else { Ok(plan) }
    }
}

impl TryFrom<String> for StepPlan {
    type Error = ParseValueError;

    fn try_from(text: String) -> Result<Self, ParseValueError> {
        text.parse()
    }
}

impl From<StepPlan> for String {
    fn from(plan: StepPlan) -> Self {
        plan.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_second_thoughts_each_step_is_one_of_the_schedules() {
        let plan = StepPlan::identity(100);
        assert!((0..=100).all(|step| plan.scheduled(step) == step));
        assert_eq!((plan.end(), plan.scheduled(200), plan.is_identity()), (100, 100, true));
    }

    #[test]
    fn the_rest_of_the_schedules_is_walked_evenly_and_what_was_walked_stays() {
        let mut plan = StepPlan::identity(100);
        plan.decide(20, 60);
        assert_eq!(
            [0, 19, 20, 21, 40, 59, 60].map(|step| plan.scheduled(step)),
            [0, 19, 20, 22, 60, 98, 100]
        );
        plan.decide(40, 120);
        assert_eq!(
            [20, 21, 40, 41, 42, 80, 120].map(|step| plan.scheduled(step)),
            [20, 22, 60, 60, 61, 80, 100]
        );
        assert_eq!(plan.end(), 120);
        // An end that has passed becomes the next step.
        plan.decide(70, 10);
        assert_eq!((plan.end(), plan.scheduled(71)), (71, 100));
    }

    #[test]
    fn a_plan_reads_back_from_its_words_with_every_step() {
        let mut plan = StepPlan::identity(977);
        for (done, end) in [(13, 1_200), (14, 700), (399, 1_009)] {
            plan.decide(done, end);
        }
        assert_eq!(plan.to_string(), "977 0:977 13:1200 14:700 399:1009");
        let read: StepPlan = plan.to_string().parse().unwrap();
        assert_eq!(read, plan);
        // More steps than a file may have are cut, so that a checkpoint with the plan can be read.
        plan.decide(500, u64::MAX);
        assert_eq!(plan.end(), MAX_STEPS);
        assert_eq!(plan.to_string().parse::<StepPlan>().unwrap(), plan);
        for wrong in [
            "",
            "10",
            "0 0:5",
            "10 1:5",
            "10 0:5 5:9",
            "10 0:5 3:2",
            "10 0:5 3:3",
            "10 0:5 2:9 1:8",
            "10 0:x",
        ] {
            assert!(wrong.parse::<StepPlan>().is_err(), "{wrong}");
        }
    }
}
