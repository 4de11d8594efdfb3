//! Properties that must hold for any bytes read as a checkpoint.

use gausset_io::text::is_valid_message;
use std::path::Path;

use gausset_io::checkpoint::parse_train_state;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the footer: five words covered by a hash, the hash, the end mark.
const FOOTER_BYTES: usize = 56;

/// Reads the bytes unchanged, and with corrected checksums, without which the code behind the checks is never reached.
pub(crate) fn check(bytes: &[u8]) {
    read(bytes);
    if let Some(forged) = with_right_checksums(bytes) {
        read(&forged);
    }
}

fn read(bytes: &[u8]) {
    match parse_train_state(bytes, Path::new("fuzz.ckpt")) {
        Ok((state, _header)) => {
            assert_eq!(state.splats.validate(), Ok(()));
            assert_eq!(state.update_counts.len(), state.splats.len());
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("fuzz.ckpt: ") && is_valid_message(&line), "{line:?}");
        }
    }
}

/// The bytes with correct total size, end mark and checksums of header, table, sections and footer, as far as their
/// offsets are valid.
fn with_right_checksums(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let total = bytes.len();
    let footer = total.checked_sub(FOOTER_BYTES)?;
    let word = |bytes: &[u8], at: usize| -> Option<usize> {
        let word = bytes.get(at..at.checked_add(8)?)?;
        usize::try_from(u64::from_le_bytes(word.try_into().ok()?)).ok()
    };
    let put = |bytes: &mut [u8], at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    let (table, table_bytes) = (word(&bytes, footer)?, word(&bytes, footer + 8)?);
    let table_end = table.checked_add(table_bytes).filter(|&end| end <= footer)?;
    // Entries: name length, name, kind, flags, offset, bytes, hash.
    let mut entry = table;
    while entry < table_end {
        let fields = entry + 1 + bytes[entry] as usize + 2;
        if fields + 24 > table_end {
            break;
        }
        let (offset, length) = (word(&bytes, fields)?, word(&bytes, fields + 8)?);
        if let Some(data) = offset.checked_add(length).and_then(|end| bytes.get(offset..end)) {
            let hash = xxh3_64(data);
            put(&mut bytes, fields + 16, hash);
        }
        entry = fields + 24;
    }
    let header_bytes = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?) as usize;
    let header_hash = xxh3_64(bytes.get(..24usize.checked_add(header_bytes)?)?);
    let table_hash = xxh3_64(&bytes[table..table_end]);
    put(&mut bytes, footer + 16, total as u64);
    put(&mut bytes, footer + 24, header_hash);
    put(&mut bytes, footer + 32, table_hash);
    let footer_hash = xxh3_64(&bytes[footer..footer + 40]);
    put(&mut bytes, footer + 40, footer_hash);
    bytes[footer + 48..].copy_from_slice(b"GSETCEND");
    Some(bytes)
}
