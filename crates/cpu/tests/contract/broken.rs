//! Engines that violate the contract, to test that the contract's checks fail.

use gausset_core::engine::{
    Engine, EngineError, Outputs, RenderOptions, Rendering, StepParams, StepReport, TrainState, TrainView,
};
use gausset_core::{Camera, Pose};
use gausset_testkit::engine_contract as contract;

/// A violation of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    SavesNoClock,
    TellsTwice,
    CountsPictures,
    RefusesLate,
    ForgetsFailures,
    IgnoresLimits,
    KeepsOldPixels,
    IgnoresNumbersOfSteps,
}

/// A correct engine except for one fault.
struct Broken {
    inner: Box<dyn Engine>,
    fault: Fault,
    told: StepReport,
    refused: Option<EngineError>,
}

impl Engine for Broken {
    gausset_testkit::forward_to_engine!(|self| self.inner; describe needs load densify);

    fn limit_memory(&mut self, bytes: u64) {
        if self.fault != Fault::IgnoresLimits {
            self.inner.limit_memory(bytes);
        }
    }

    fn save(&mut self) -> Result<TrainState, EngineError> {
        let mut state = self.inner.save()?;
        if self.fault == Fault::SavesNoClock {
            state.dense_update_count = 0;
        }
        Ok(state)
    }

    fn step(
        &mut self,
        views: &[TrainView],
        next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError> {
        let number = if self.fault == Fault::IgnoresNumbersOfSteps { 0 } else { params.step };
        match self.inner.step(views, next, &params.with_step(number)) {
            Err(error) if self.fault == Fault::RefusesLate => {
                self.refused = Some(error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn flush(&mut self) -> Result<StepReport, EngineError> {
        self.refused.take().map_or(Ok(()), Err)?;
        match self.inner.flush() {
            Ok(report) if self.fault == Fault::TellsTwice => {
                self.told.steps += report.steps;
                Ok(StepReport { steps: self.told.steps, ..report })
            }
            Err(_) if self.fault == Fault::ForgetsFailures => Ok(StepReport::default()),
            outcome => outcome,
        }
    }

    fn poll(&mut self) -> Result<StepReport, EngineError> {
        self.flush()
    }

    fn render_into(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        rendering: &mut Rendering,
    ) -> Result<(), EngineError> {
        let old = rendering.clone();
        self.inner.render_into(camera, pose, options, outputs, rendering)?;
        if self.fault == Fault::KeepsOldPixels && !old.count.is_empty() {
            rendering.count = old.count;
        }
        if self.fault == Fault::CountsPictures {
            self.inner.step(&[contract::view(0)], &[], &contract::params(0))?;
        }
        Ok(())
    }
}

#[test]
fn a_broken_promise_is_noticed() {
    type Check = fn(contract::MakeEngine<'_>);
    let faults: [(Fault, Check); 8] = [
        (Fault::SavesNoClock, contract::a_saved_state_is_the_one_that_was_loaded),
        (Fault::TellsTwice, contract::each_step_is_told_once),
        (Fault::CountsPictures, contract::looking_changes_nothing_of_training),
        (Fault::RefusesLate, contract::what_is_refused_changes_nothing),
        (Fault::ForgetsFailures, contract::a_loss_that_is_not_finite_stops_what_follows_and_changes_nothing),
        (Fault::IgnoresLimits, contract::too_little_memory_is_told_before_it_is_taken),
        (Fault::KeepsOldPixels, contract::buffers_that_were_used_before_make_no_difference),
        (Fault::IgnoresNumbersOfSteps, contract::dropout_depends_on_seed_and_step),
    ];
    for (fault, check) in faults {
        let make = || -> Box<dyn Engine> {
            Box::new(Broken { inner: super::cpu(), fault, told: StepReport::default(), refused: None })
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&make)));
        assert!(outcome.is_err(), "{fault:?} went unnoticed");
    }
}
