//! Any bytes give the requirements of an ONNX file, or are refused.

use gausset_segment::scan;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(facts) = scan(bytes) else { return };
    // Every name comes from the bytes.
    let names = facts.operators.iter().chain(&facts.external_files).chain(&facts.outputs);
    assert!(names.map(String::len).sum::<usize>() <= 4 * bytes.len());
    assert_eq!(scan(bytes), Ok(facts));
}
