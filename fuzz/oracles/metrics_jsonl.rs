//! What must hold for any bytes that are read as a log of metrics.

use gausset_io::metrics_log::parse_metrics;

/// Reads the bytes; what is read and written as lines comes back the same, and nothing is left over.
pub(crate) fn check(bytes: &[u8]) {
    let (records, _) = parse_metrics(&mut &bytes[..]).expect("memory can be read");
    assert!(records.iter().all(serde_json::Value::is_object));
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let again = parse_metrics(&mut text.as_bytes()).expect("memory can be read");
    assert_eq!(again, (records, 0));
}
