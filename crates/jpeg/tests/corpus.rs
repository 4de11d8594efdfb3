//! Runs the oracle of the fuzz target on its seeds, unchanged, truncated and damaged.

use gausset_testkit::corpus::replay;

#[path = "../../../fuzz/oracles/jpeg_decode.rs"]
mod jpeg_decode;

/// Largest number of truncated variants, and of damaged variants, per seed.
const VARIANTS: usize = 200;

#[test]
fn jpeg_seeds() {
    replay("jpeg_decode", VARIANTS, jpeg_decode::check);
}
