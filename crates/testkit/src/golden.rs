//! Results with guaranteed bytes: `testdata/golden/bytes.txt` holds a checksum for each, the same on every platform,
//! SIMD level and number of threads.
//!
//! A changed line is a change that users notice: it must be listed in the changelog ("output bytes change"). New lines
//! are written with `GAUSSET_BLESS=1`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::paths::testdata_dir;

/// Environment variable that writes the results instead of comparing them.
const BLESS_VARIABLE: &str = "GAUSSET_BLESS";

/// Compares the xxh3 checksum of some bytes with the recorded one.
///
/// # Panics
/// If they differ, or none is recorded.
pub fn assert_golden_bytes(name: &str, bytes: &[u8]) {
    static FILE: Mutex<()> = Mutex::new(());
    let _only_one_writes = FILE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes));
    let mut recorded = read();
    if std::env::var_os(BLESS_VARIABLE).is_some() {
        recorded.insert(name.to_owned(), found);
        let lines: Vec<String> = recorded.iter().map(|(name, sum)| format!("{sum} {name}\n")).collect();
        std::fs::create_dir_all(path().parent().expect("it stands in a folder")).expect("a folder");
        std::fs::write(path(), lines.concat()).expect("the golden file can be written");
        return;
    }
    let expected = recorded.get(name).map_or("nothing", String::as_str);
    assert!(
        expected == found,
        "{name}: other bytes than recorded (expected xxh3 {expected}, found {found}); if that is meant, run again with \
         {BLESS_VARIABLE}=1 and say so in CHANGELOG.md"
    );
}

fn path() -> PathBuf {
    testdata_dir().join("golden").join("bytes.txt")
}

/// Checksums by name; empty if there is no file.
fn read() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect()
}
