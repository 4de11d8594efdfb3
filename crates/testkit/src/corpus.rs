//! Seeds and past findings of the fuzz targets, replayed by ordinary tests: a clone without cargo-fuzz checks them as
//! well.

use crate::workspace_root;

/// Passes all files of `fuzz/corpus/TARGET` to an oracle, and for each file up to `variants` prefixes, as many copies
/// with a damaged byte and as many with a number or a name grown to thousands of digits, evenly spread.
///
/// # Panics
/// If the oracle panics, or the folder cannot be read or is empty.
pub fn replay(target: &str, variants: usize, check: fn(&[u8])) {
    let folder = workspace_root().join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        check(&bytes);
        let step = bytes.len().div_ceil(variants.max(1)).max(1);
        for at in (0..bytes.len()).step_by(step).take(variants) {
            check(&bytes[..at]);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x15;
            check(&damaged);
            check(&[&bytes[..at], &[b'0'; 3000], &bytes[at..]].concat());
        }
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}
