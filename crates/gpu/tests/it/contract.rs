//! The engine contract.

use crate::gpu::{engine, gpu};

gausset_testkit::engine_contract!(where |test: &str| gpu(test).map(|gpu| move || engine(&gpu)));

/// With density rules applied on the CPU.
mod rules_on_the_host {
    use gausset_testkit::engine_contract;

    use crate::gpu::{gpu, with_rules_on_host};

    #[test]
    fn rules_keep_what_an_engine_promises() {
        let Some(gpu) = gpu("rules_keep_what_an_engine_promises") else { return };
        let make = move || with_rules_on_host(&gpu);
        engine_contract::opacities_are_reset_with_their_moments(&make);
        engine_contract::a_set_grows_as_far_as_its_limit(&make);
        engine_contract::transparent_splats_are_pruned(&make);
        engine_contract::a_loss_that_is_not_finite_stops_what_follows_and_changes_nothing(&make);
        engine_contract::a_state_that_was_saved_goes_on_as_if_it_had_not_been(&make);
    }
}
