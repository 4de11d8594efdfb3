//! Escapes third-party text, encodes bytes as text and hashes scripts, for HTML pages.

use std::io::{self, Write};

use data_encoding::BASE64;
use sha2::{Digest, Sha256};

/// Escapes text for HTML elements and quoted attributes. Control characters, which HTML cannot hold, become U+FFFD.
///
/// ```
/// assert_eq!(gausset_page::text::escape_html("<b>&"), "&lt;b&gt;&amp;");
/// ```
#[must_use]
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Formats a value as JSON for a script element: nothing in it can end the element.
///
/// ```
/// assert_eq!(gausset_page::text::script_json(&"</script>"), r#""\u003c/script>""#);
/// ```
#[must_use]
pub fn script_json(value: &impl serde::Serialize) -> String {
    // Pages only get text and numbers, which JSON can hold.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Content policy source of a script or style with this text: the SHA-256 digest by which it may run.
pub(crate) fn csp_hash(text: &str) -> String {
    format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)))
}

/// 7-bit characters that a page cannot hold unchanged. The bits of [`ESCAPE_BITS`] turn NUL, CR and `<` into `À`, `Í` and
/// `ü`.
const ESCAPED: [u8; 3] = [0, b'\r', b'<'];
const ESCAPE_BITS: u8 = 0xc0;

/// Writes bytes as UTF-8 text with 7 bits per character, which a script element holds unchanged. The text is about 1/6
/// longer than the bytes; base64 is 1/3 longer.
///
/// # Errors
/// The writer failed.
pub fn write_base128(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    let mut text = Vec::with_capacity(1 << 16);
    let (mut bits, mut held) = (0u32, 0u32);
    let put = |value: u8, text: &mut Vec<u8>| {
        if ESCAPED.contains(&value) {
            // U+00C0 to U+00FF in UTF-8.
            text.extend([0xc3, 0x80 | value & 0x3f]);
        } else {
            text.push(value);
        }
    };
    for &byte in bytes {
        held = held << 8 | u32::from(byte);
        bits += 8;
        while bits >= 7 {
            bits -= 7;
            put((held >> bits) as u8 & 127, &mut text);
        }
        held &= (1 << bits) - 1;
        if text.len() > (1 << 16) - 16 {
            out.write_all(&text)?;
            text.clear();
        }
    }
    if bits > 0 {
        put((held << (7 - bits)) as u8 & 127, &mut text);
    }
    out.write_all(&text)
}

/// Decodes the first `length` bytes of a text by [`write_base128`].
#[must_use]
pub fn read_base128(text: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length.min(text.len()));
    let (mut bits, mut held, mut moved) = (0u32, 0u32, false);
    for &byte in text {
        if bytes.len() == length {
            break;
        }
        if byte == 0xc3 {
            moved = true;
            continue;
        }
        let value = if moved { byte | ESCAPE_BITS } else { byte };
        moved = false;
        held = held << 7 | u32::from(value & if value > 127 { 63 } else { 127 });
        bits += 7;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_others_becomes_html() {
        let name = "<img src=x onerror='alert(1)'>\u{0}&\"";
        assert_eq!(escape_html(name), "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;\u{fffd}&amp;&quot;");
        assert_eq!(script_json(&"</script><!--\u{2028}"), "\"\\u003c/script>\\u003c!--\\u2028\"");
    }

    #[test]
    fn a_content_policy_names_a_script_by_its_digest() {
        // FIPS 180-4: ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad.
        assert_eq!(csp_hash("abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
    }

    #[test]
    fn any_bytes_come_back_from_text_that_a_page_holds() {
        let mut bytes: Vec<u8> = (0..=255u8).flat_map(|byte| [byte, byte.wrapping_mul(29), 0, 255]).collect();
        for cut in [0, 1, 2, 3, 5, 6, 7, 8, 1024] {
            bytes.truncate(bytes.len().min(1024 - cut));
            let mut text = Vec::new();
            write_base128(&mut text, &bytes).unwrap();
            let text = String::from_utf8(text).expect("UTF-8");
            assert!(!text.contains(['\0', '\r', '<']));
            // The condition that the script in the page relies on.
            assert!(text.chars().all(|c| (c as u32) < 128 || [0xc0, 0xcd, 0xfc].contains(&(c as u32))));
            assert!(read_base128(text.as_bytes(), bytes.len()) == bytes);
        }
    }
}
