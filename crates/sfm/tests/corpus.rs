//! The seeds of the fuzz targets pass their oracles: complete, truncated and damaged.

use gausset_testkit::corpus::replay;

#[path = "../../../fuzz/oracles/match_lists.rs"]
mod match_lists;

#[test]
fn match_seeds() {
    replay("match_lists", 200, match_lists::check);
}
