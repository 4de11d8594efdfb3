//! The seeds of the fuzz targets pass their oracles.

use gausset_testkit::corpus::replay;

#[path = "../../../fuzz/oracles/field_input.rs"]
mod field_input;
#[path = "../../../fuzz/oracles/field_model.rs"]
mod field_model;
#[path = "../../../fuzz/oracles/field_nrrd.rs"]
mod field_nrrd;

#[test]
fn nrrd_seeds() {
    replay("field_nrrd", usize::MAX, field_nrrd::check);
}

#[test]
fn input_seeds() {
    assert!(field_input::NAMES.len() < 256);
    replay("field_input", usize::MAX, field_input::check);
}

#[test]
fn model_seeds() {
    replay("field_model", usize::MAX, field_model::check);
}
