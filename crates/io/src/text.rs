//! Formats numbers and untrusted text for messages.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::path::Path;

/// Formats a byte count: `512 bytes`, `1.5 KiB`, `2.0 GiB`.
///
/// ```
/// use gausset_io::text::{counted, format_bytes, grouped};
///
/// assert_eq!([512, 1536, 2 << 30].map(format_bytes), ["512 bytes", "1.5 KiB", "2.0 GiB"]);
/// assert_eq!((grouped(1_234_567), counted(1, "image")), ("1,234,567".to_owned(), "1 image".to_owned()));
/// ```
#[must_use]
pub fn format_bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a number with its shortest digits, in scientific notation if it would have many zeros.
#[must_use]
pub fn format_number(value: f64) -> String {
    let is_long = value != 0.0 && value.is_finite() && !(1e-4..1e9).contains(&value.abs());
    if is_long { format!("{value:e}") } else { value.to_string() }
}

/// Quotes text from a file for a message: short, on one line, without characters that a terminal interprets.
#[must_use]
pub fn quote(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let short: String = text.chars().take(MAX_CHARS).collect();
    let cut = if short.len() < text.len() { "…" } else { "" };
    format!("\"{}{cut}\"", short.escape_debug())
}

/// The number of splats of a scene and of its sky, in the same words everywhere.
///
/// ```
/// use gausset_io::text::scene_and_sky;
///
/// assert_eq!(scene_and_sky(6_000, 4_000), "6,000 and a sky of 4,000");
/// assert_eq!(scene_and_sky(6_000, 0), "6,000");
/// ```
#[must_use]
pub fn scene_and_sky(scene: u64, sky: u64) -> String {
    match sky {
        0 => grouped(scene),
        _ => format!("{} and a sky of {}", grouped(scene), grouped(sky)),
    }
}

/// Number of bytes in which [`is_lfs_pointer`] recognises a pointer.
pub(crate) const LFS_POINTER_START: u64 = 64;

/// What is wrong with a file that is a Git LFS pointer, and what to do.
pub(crate) fn lfs_pointer_problem(expected: &str) -> String {
    format!(
        "a Git LFS pointer instead of the file (expected {expected}, found \"version https://git-lfs\"); run `git lfs pull`"
    )
}

/// Whether a file begins as a Git LFS pointer, the text that Git stores in place of a file that was not downloaded.
pub(crate) fn is_lfs_pointer(start: &[u8]) -> bool {
    start.starts_with(b"version https://git-lfs.github.com/spec/")
}

/// Whether a terminal interprets this character instead of displaying it: controls (C0, DEL, C1), bidirectional marks,
/// embeddings, overrides and isolates (UAX #9), line and paragraph separators. Joiners are excluded, because many
/// scripts and emoji need them.
#[must_use]
pub fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Untrusted text as one line, with characters that a terminal interprets escaped.
///
/// ```
/// assert_eq!(gausset_io::text::escape_controls("a\u{1b}[31m"), r"a\u{1b}[31m");
/// ```
#[must_use]
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(is_terminal_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_terminal_control(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    Cow::Owned(line)
}

/// A message that may contain untrusted text, on one line: line breaks become spaces, the rest is [`escape_controls`].
#[must_use]
pub fn one_line(message: &str) -> String {
    let parts = message.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty());
    parts.map(escape_controls).collect::<Vec<_>>().join(" ")
}

/// Whether a message about a file has the form that every reader guarantees and the fuzz targets check: one short line
/// without characters that a terminal interprets, whatever the file contains.
#[must_use]
pub fn is_valid_message(message: &str) -> bool {
    const LONGEST: usize = 400;
    !message.is_empty() && !message.contains(is_terminal_control) && message.chars().count() <= LONGEST
}

/// A message in which numbers longer than ten characters are rounded: `3.142`, `1.000e300`.
#[must_use]
pub fn short_numbers(message: &str) -> String {
    const LONGEST: usize = 10;
    let mut line = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, from)) = rest.find(|c: char| c.is_ascii_digit()).map(|at| rest.split_at(at)) {
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        line.push_str(before);
        match number.parse::<f64>() {
            // Numbers with an exponent stay as they are.
            Ok(value) if number.len() > LONGEST && !after.starts_with('e') => {
                let is_plain = (1e-3..1e6).contains(&value) || value == 0.0;
                let short = if is_plain { format!("{value:.4}") } else { format!("{value:.3e}") };
                line.push_str(&short);
            }
            _ => line.push_str(number),
        }
        rest = after;
    }
    line + rest
}

/// Column from which messages include the column.
const COLUMN_THRESHOLD: usize = 100;

/// Formats an error of a JSON file as one line that starts with its position: `line 3: unknown field …`.
#[must_use]
pub fn json_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // serde_json appends the position, if known.
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    // Programs often write a whole file as one line, where the line number is no help.
    let column = match error.column() {
        column if column > COLUMN_THRESHOLD => format!(", column {column}"),
        _ => String::new(),
    };
    format!("line {}{column}: {}", error.line(), one_line(what))
}

/// Formats a count with thousands separators: `1,234,567`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with a noun: `1 image`, `3 images`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// Untrusted text, truncated to fit a line, and [`escape_controls`].
#[must_use]
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(end, _)| end);
    let cut = if end < text.len() { "…" } else { "" };
    escape_controls(&text[..end]).into_owned() + cut
}

/// Formats a path as one word of a POSIX shell, in single quotes where needed. A path that begins with `-` gets `./`.
#[must_use]
pub fn shell_quote(path: &Path) -> String {
    let text = path.display().to_string();
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Compares names so that `slice_9` comes before `slice_10`.
#[must_use]
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (l, r) = (number(left), number(right));
        if let (Some((l, after_l)), Some((r, after_r))) = (l, r) {
            let order = l.len().cmp(&r.len()).then(l.cmp(r));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (after_l, after_r);
            continue;
        }
        let (mut l, mut r) = (left.chars(), right.chars());
        match (l.next(), r.next()) {
            (Some(x), Some(y)) if x == y => (left, right) = (l.as_str(), r.as_str()),
            (None, None) => return a.cmp(b),
            (x, y) => return x.cmp(&y),
        }
    }
}

/// The digits at the start without leading zeros, and the rest.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (end > 0).then(|| (digits.trim_start_matches('0'), rest))
}

#[cfg(test)]
mod tests {
    use super::natural_order;

    #[test]
    fn numbers_in_names_count_by_value() {
        let ordered = [
            "a/99999999999999999999999.jpg",
            "a/img.jpg",
            "a/img09.jpg",
            "a/img9.jpg",
            "a/img9b.jpg",
            "a/img10.jpg",
        ];
        let mut names = ordered;
        names.reverse();
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ordered);
    }

    #[test]
    fn messages_have_one_line_whatever_stands_in_a_file() {
        assert_eq!(super::one_line("a \r\n\n b\x1b[31m\tc"), "a b\\u{1b}[31m\\tc");
        let error = serde_json::from_str::<u8>("\n\"x\\ny at line 7\"").unwrap_err();
        let line = super::json_problem(&error);
        assert!(line.starts_with("line 2: invalid type: string \"x") && line.contains("at line 7"), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_every_script_stays() {
        for (raw, shown) in [
            ("a\x1b[31m\n\t\x07", "a\\u{1b}[31m\\n\\t\\u{7}"),
            ("\x7f \u{9b}31m", "\\u{7f} \\u{9b}31m"),
            ("gpj\u{202e}.ply \u{2066}\u{200f}\u{61c}", "gpj\\u{202e}.ply \\u{2066}\\u{200f}\\u{61c}"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
        ] {
            assert_eq!(super::escape_controls(raw), shown);
        }
        for name in [
            "Straße",
            "e\u{301}té",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "👩\u{200d}🔬",
            "שלום",
            "図\u{3000}書",
            "a\\b \"c\"",
        ] {
            assert_eq!(super::escape_controls(name), name);
        }
    }

    #[test]
    fn numbers_in_messages_are_short() {
        let short = super::short_numbers;
        assert_eq!(short(&format!("({}, {})", 1e300, -1.5e-200)), "(1.000e300, -1.500e-200)");
        assert_eq!(short(&format!("length {} (expected 1)", 50f64.sqrt())), "length 7.0711 (expected 1)");
        assert_eq!(short("8x6 for 16x12 px, 0.5"), "8x6 for 16x12 px, 0.5");
        assert_eq!(short("1.2345678901234e-7. 12."), "1.2345678901234e-7. 12.");
    }

    #[test]
    fn foreign_text_is_harmless() {
        assert_eq!(super::quote("a\x1b[31m\"b\"\n"), r#""a\u{1b}[31m\"b\"\n""#);
        assert_eq!(super::quote(&"ä".repeat(70)), format!("\"{}…\"", "ä".repeat(60)));
    }

    #[test]
    fn numbers_are_never_a_row_of_zeros() {
        let written = [0.0, -0.25, 123_456.5, 1e9, 1e300, -1.5e308, 1e-5, 5e-324].map(super::format_number);
        assert_eq!(written, ["0", "-0.25", "123456.5", "1e9", "1e300", "-1.5e308", "1e-5", "5e-324"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(super::format_number), ["NaN", "inf"]);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(super::format_bytes(1023), "1023 bytes");
        assert_eq!(super::format_bytes(1536), "1.5 KiB");
        assert_eq!(super::format_bytes(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn a_shell_reads_the_path_that_was_meant() {
        let cases = [
            ("runs/garden", "runs/garden"),
            ("my run", "'my run'"),
            ("it's", r"'it'\''s'"),
            ("$HOME;rm *", "'$HOME;rm *'"),
            ("~", "'~'"),
            ("-o", "./-o"),
            ("", "''"),
            ("großer_see", "großer_see"),
        ];
        for (path, word) in cases {
            assert_eq!(super::shell_quote(std::path::Path::new(path)), word);
        }
    }
}
