//! The header of constants and records at the start of every kernel.

use std::fmt::Write as _;

use gausset_compute::rng::stream;
use gausset_core::constants::{
    ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON, ALPHA_MAX, LOW_PASS_VARIANCE, MAX_CONTRACTED_DISTANCE, SSIM_C1,
    SSIM_C2, SSIM_SIGMA, SSIM_TAPS, TILE_SIZE, TRANSMITTANCE_STOP,
};
use gausset_core::sh;

use crate::record::{
    BIAS_CLOCKS, GRID_WIDTH, Job, NOWHERE, Rule, SCAN_BLOCK, SUMS_STRIDE, TILE_SUMS, View, argument, census,
    flag, halt, rule_flag, status,
};

/// Taps of the SSIM window from its centre outwards, normalised in f64 (as in `gausset_metrics`).
fn ssim_taps() -> Vec<f32> {
    let middle = SSIM_TAPS / 2;
    let weight = |k: usize| libm::exp(-((k * k) as f64) / (2.0 * SSIM_SIGMA * SSIM_SIGMA));
    let sum = weight(0) + 2.0 * (1..=middle).map(weight).sum::<f64>();
    (0..=middle).map(|k| (weight(k) / sum) as f32).collect()
}

/// Constants and records in WGSL: the start of every kernel.
#[must_use]
pub(crate) fn header() -> String {
    let mut text = String::from("// Generated from `header.rs` and `record.rs`.\n");
    let words: [(&str, u32); 76] = [
        ("GRID_WIDTH", GRID_WIDTH),
        ("SCAN_BLOCK", SCAN_BLOCK),
        ("TILE_SIZE", TILE_SIZE),
        ("BIAS_CLOCKS", BIAS_CLOCKS),
        ("SUMS_GROUPS", 2 * BIAS_CLOCKS),
        ("SUMS_STRIDE", SUMS_STRIDE),
        ("SUMS_SKIPPED", SUMS_STRIDE - 1),
        ("TILE_SUMS", TILE_SUMS),
        ("TILE_SUMS_SKY", 6),
        ("NOWHERE", NOWHERE),
        ("STREAM_DROPOUT", stream::DROPOUT),
        ("STREAM_NOISE", stream::NOISE),
        ("ARGUMENTS", argument::COUNT),
        ("ARGUMENT_SPLATS", argument::SPLATS),
        ("ARGUMENT_VISIBLE", argument::VISIBLE),
        ("ARGUMENT_VISIBLE_BLOCKS", argument::VISIBLE_BLOCKS),
        ("ARGUMENT_VISIBLE_COUNTS", argument::VISIBLE_COUNTS),
        ("ARGUMENT_ENTRIES", argument::ENTRIES),
        ("ARGUMENT_ENTRY_BLOCKS", argument::ENTRY_BLOCKS),
        ("ARGUMENT_ENTRY_COUNTS", argument::ENTRY_COUNTS),
        ("ARGUMENT_ONE", argument::ONE),
        ("ARGUMENT_TILES", argument::TILES),
        ("ARGUMENT_BAND", argument::BAND),
        ("ARGUMENT_WINDOW", argument::WINDOW),
        ("ARGUMENT_QUERIES", argument::QUERIES),
        ("STATUS_WORDS", status::WORDS as u32),
        ("STATUS_HALT", status::HALT as u32),
        ("STATUS_VISIBLE", status::VISIBLE as u32),
        ("STATUS_ENTRIES", status::ENTRIES as u32),
        ("STATUS_CUT_TILES", status::CUT_TILES as u32),
        ("STATUS_SKIPPED", status::SKIPPED as u32),
        ("STATUS_DEAD", status::DEAD as u32),
        ("STATUS_ABSOLUTE", status::ABSOLUTE as u32),
        ("STATUS_SSIM", status::SSIM as u32),
        ("STATUS_DONE", status::DONE as u32),
        ("STATUS_NUMBER", status::NUMBER as u32),
        ("STATUS_LONGEST", status::LONGEST as u32),
        ("STATUS_DONE_ROWS", status::DONE_ROWS as u32),
        ("HALT_CAPACITY", halt::CAPACITY),
        ("HALT_LOSS", halt::LOSS),
        ("FLAG_ANTIALIASED", flag::ANTIALIASED),
        ("FLAG_SPARSE", flag::SPARSE),
        ("FLAG_SIGNED", flag::SIGNED),
        ("FLAG_ABSOLUTE", flag::ABSOLUTE),
        ("FLAG_NOISE", flag::NOISE),
        ("FLAG_SSIM", flag::SSIM),
        ("FLAG_MASK", flag::MASK),
        ("FLAG_COVERAGE", flag::COVERAGE),
        ("FLAG_POSE", flag::POSE),
        ("FLAG_LIFTS", flag::LIFTS),
        ("HALT_SPLATS", halt::SPLATS),
        ("HALT_VISIBLE", halt::VISIBLE),
        ("STREAM_SPLIT", stream::SPLIT),
        ("STREAM_RELOCATE", stream::RELOCATE),
        ("STREAM_ADD", stream::ADD),
        ("RULE_SPLATS", status::SPLATS as u32),
        ("RULE_NEXT_ID", status::NEXT_ID as u32),
        ("RULE_CLONED", status::CLONED as u32),
        ("RULE_SPLIT", status::SPLIT as u32),
        ("RULE_PRUNED", status::PRUNED as u32),
        ("RULE_RELOCATED", status::RELOCATED as u32),
        ("RULE_ADDED", status::ADDED as u32),
        ("RULE_CLEARS", rule_flag::CLEARS),
        ("RULE_STAYS", rule_flag::STAYS),
        ("RULE_LOOKED", rule_flag::LOOKED),
        ("RULE_CLEARED", status::CLEARED as u32),
        ("CENSUS_SPLATS", census::SPLATS),
        ("CENSUS_NEXT_ID", census::NEXT_ID),
        ("CENSUS_BOX", census::BOX),
        ("CENSUS_GRID", census::GRID),
        // The decision about a splat.
        ("KEEP", 0),
        ("CLONE", 1),
        ("SPLIT", 2),
        ("PRUNE", 4),
        ("MOVE", 8),
        // Bits of a row of a rule: the source splat, and whether moments and statistics are dropped.
        ("ROW_SOURCE", 0x1fff_ffff),
    ];
    for (name, value) in
        words.into_iter().chain([("FLAG_RIG", flag::RIG), ("ROW_FORGETS", 1 << 30), ("ROW_NEW", 1 << 31)])
    {
        let _ = writeln!(text, "const {name}: u32 = {value}u;");
    }
    let mut number = |name: &str, value: f32| {
        let _ = writeln!(text, "const {name}: f32 = {value:e}f;");
    };
    for (name, value) in [
        // How a splat is updated: not, with its gradient, or without one (dense updates of invisible splats).
        ("MOVES_NOT", 0.0),
        ("MOVES", 1.0),
        ("MOVES_ON", 2.0),
        ("LN_2", std::f32::consts::LN_2),
        ("LOG2_E", std::f32::consts::LOG2_E),
        ("TAU", std::f32::consts::TAU),
        // log2(255): alpha reaches 1/255 where the exponent reaches its negative.
        ("LOG2_255", 7.994_353_4),
        ("EXTENT_SLACK", 0.01),
        ("NOISE_CUTOFF", 30.0),
        ("MAX_CONTRACTED_DISTANCE", MAX_CONTRACTED_DISTANCE as f32),
        ("MOMENT_FLOOR", 1e-36),
        ("LOW_PASS_VARIANCE", LOW_PASS_VARIANCE),
        ("ALPHA_MAX", ALPHA_MAX),
        ("TRANSMITTANCE_STOP", TRANSMITTANCE_STOP),
        ("ADAM_BETA1", ADAM_BETA1 as f32),
        ("ADAM_BETA2", ADAM_BETA2 as f32),
        ("ADAM_REST1", (1.0 - ADAM_BETA1) as f32),
        ("ADAM_REST2", (1.0 - ADAM_BETA2) as f32),
        ("ADAM_EPSILON", ADAM_EPSILON as f32),
        ("SSIM_C1", SSIM_C1 as f32),
        ("SSIM_C2", SSIM_C2 as f32),
        ("SH_C0", sh::C0 as f32),
        ("SH_C1", sh::C1 as f32),
    ] {
        number(name, value);
    }
    for (k, value) in sh::C2.into_iter().enumerate() {
        number(&format!("SH_C2_{k}"), value as f32);
    }
    for (k, value) in sh::C3.into_iter().enumerate() {
        number(&format!("SH_C3_{k}"), value as f32);
    }
    for (k, value) in ssim_taps().into_iter().enumerate() {
        number(&format!("SSIM_TAP_{k}"), value);
    }
    text + &View::wgsl() + &Job::wgsl() + &Rule::wgsl()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_of_the_window_add_up_to_one() {
        let taps = ssim_taps();
        let sum: f32 = taps[0] + 2.0 * taps[1..].iter().sum::<f32>();
        assert!((sum - 1.0).abs() < 1e-6 && taps.len() == 6, "{taps:?}");
    }
}
