//! The seeds of the fuzz targets pass their oracles.

use gausset_testkit::workspace_root;

#[path = "../../../fuzz/oracles/field_input.rs"]
mod field_input;
#[path = "../../../fuzz/oracles/field_model.rs"]
mod field_model;
#[path = "../../../fuzz/oracles/field_nrrd.rs"]
mod field_nrrd;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = workspace_root().join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        check(&bytes);
        // Cut anywhere, and with any byte damaged.
        for at in 0..bytes.len() {
            check(&bytes[..at]);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x15;
            check(&damaged);
        }
        count += 1;
    }
    assert!(count > 0, "{}", folder.display());
}

#[test]
fn nrrd_seeds() {
    replay("field_nrrd", field_nrrd::check);
}

#[test]
fn input_seeds() {
    assert!(field_input::NAMES.len() < 256);
    replay("field_input", field_input::check);
}

#[test]
fn model_seeds() {
    replay("field_model", field_model::check);
}
