//! Properties that must hold for any bytes read as a metrics log.

use gausset_io::metrics_log::parse_metrics;

/// Reads the bytes; records that are written as lines read back the same, with nothing left over.
pub(crate) fn check(bytes: &[u8]) {
    let (records, _) = parse_metrics(&mut &bytes[..]).expect("memory can be read");
    assert!(records.iter().all(serde_json::Value::is_object));
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let again = parse_metrics(&mut text.as_bytes()).expect("memory can be read");
    assert_eq!(again, (records, 0));
}
