//! What every engine promises.

use gausset_testkit::engine_contract as contract;

use crate::gpu::{engine, gpu};

macro_rules! on_the_gpu {
    ($($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                let Some(gpu) = gpu(stringify!($check)) else { return };
                contract::$check(&|| engine(&gpu));
            }
        )*
    };
}

on_the_gpu! {
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
    corrections_move_where_a_step_names_them
    opacities_are_reset_with_their_moments
    a_set_grows_as_far_as_its_limit
    transparent_splats_are_pruned
    views_together_are_one_step_or_are_refused
    splats_that_are_to_stay_stay_or_are_refused
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
}
