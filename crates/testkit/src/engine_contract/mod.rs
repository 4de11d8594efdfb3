//! The engine contract as checks: `gausset_core::engine::Engine` documents it, this module tests it.
//!
//! Each check takes a function that creates an engine without splats. Features that an engine may leave out (several
//! views in a step, some corrections, density rules that need more than the state) have to be refused
//! with [`EngineError::InvalidInput`]; the check then ends there. [`engine_contract!`](crate::engine_contract!) makes a
//! test of each check.
//!
//! ```ignore
//! mod my_device {
//!     gausset_testkit::engine_contract!(|| Box::new(MyEngine::new()));
//! }
//! ```

mod failures;
mod renders;
mod scene;
mod training;

use gausset_core::engine::{Engine, EngineError, TrainState};

pub use failures::*;
pub use renders::*;
pub use scene::{loaded, params, start, view};
pub use training::*;

/// Any engine.
pub type AnyEngine = Box<dyn Engine>;

/// Creates an engine without splats.
pub type MakeEngine<'a> = &'a dyn Fn() -> AnyEngine;

/// Makes a test for each check of the contract; the argument creates an engine without splats. With `where`: a function
/// that takes the name of a test and returns such a constructor, or `None` if the test is to be skipped.
#[macro_export]
macro_rules! engine_contract {
    ($make:expr) => {
        $crate::engine_contract!(where |_: &str| {
            Some(|| -> $crate::engine_contract::AnyEngine {
                let make = $make;
                make()
            })
        });
    };
    (where $maker:expr) => {
        $crate::engine_contract!(@tests $maker;
            a_saved_state_is_the_one_that_was_loaded
            looking_changes_nothing_of_training
            a_state_that_was_saved_goes_on_as_if_it_had_not_been
            the_same_calls_give_the_same_state
            each_step_is_told_once
            steps_on_a_view_lower_its_loss
            without_rates_nothing_moves
            statistics_are_those_of_the_steps_that_ask_for_them
            dropout_depends_on_seed_and_step
            gains_are_learnt_and_their_mean_stays_zero
            a_transparent_picture_shows_the_background_under_its_gain
            corrections_move_where_a_step_names_them
            opacities_are_reset_with_their_moments
            a_set_grows_as_far_as_its_limit
            transparent_splats_are_pruned
            views_together_are_one_step_or_are_refused
            what_is_refused_changes_nothing
            arrays_that_do_not_fit_are_refused
            a_loss_that_is_not_finite_stops_what_follows_and_changes_nothing
            too_little_memory_is_told_before_it_is_taken
            needs_grow_evenly
            pictures_have_the_outputs_that_are_wanted
            buffers_that_were_used_before_make_no_difference
            splats_that_are_only_drawn_look_the_same
            only_the_first_splats_are_drawn_where_that_is_asked
            what_is_in_front_is_a_part_of_the_picture
            work_is_that_of_the_last_picture
        );
    };
    (@tests $maker:expr; $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                if let Some(make) = ($maker)(stringify!($check)) {
                    $crate::engine_contract::$check(&make);
                }
            }
        )*
    };
}

/// The result of an optional feature; `None` if the engine refuses it.
fn if_supported<T>(result: Result<T, EngineError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(EngineError::InvalidInput(_)) => None,
        Err(error) => panic!("unsupported features must return BadInput: {error:?}"),
    }
}

/// Checks that two states are the same, bit for bit.
fn assert_same(a: &TrainState, b: &TrainState, what: &str) {
    assert!(a == b, "{what}: states differ");
}
