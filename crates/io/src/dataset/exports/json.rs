//! JSON as Python writes it: `NaN`, `Infinity` and `null` become a NaN, which costs one image and not the file.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};

use super::{ValueProblem, decode_text};
use crate::file_problem::FileProblem;
use crate::text::{excerpt, json_problem};

/// Parses a file.
///
/// # Errors
/// Not JSON, or not of this shape.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FileProblem> {
    let text = decode_text(bytes);
    serde_json::from_str(&with_null(&text)).map_err(|e| FileProblem::new("JSON", json_problem(&e)))
}

/// Whether a file is an object and not a list.
pub(super) fn is_object(bytes: &[u8]) -> bool {
    decode_text(bytes).trim_start().starts_with('{')
}

/// The text with `null` for numbers that JSON does not have. Lines stay as they are.
fn with_null(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];
    if !WORDS.iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let (mut rest, mut in_string) = (text, false);
    while let Some(next) = rest.chars().next() {
        if !in_string && let Some(word) = WORDS.iter().find(|word| rest.starts_with(**word)) {
            out.push_str("null");
            rest = rest.get(word.len()..).unwrap_or_default();
            continue;
        }
        let mut taken = next.len_utf8();
        match next {
            '"' => in_string = !in_string,
            '\\' if in_string => {
                taken += rest.get(taken..).and_then(|r| r.chars().next()).map_or(0, char::len_utf8)
            }
            _ => {}
        }
        let (copied, after) = rest.split_at(taken.min(rest.len()));
        out.push_str(copied);
        rest = after;
    }
    Cow::Owned(out)
}

/// A number; also one in quotes. `null` is NaN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E>(self, v: f64) -> Result<Number, E> {
                Ok(Number(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Number, E> {
                Ok(Number(v as f64))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Number, E> {
                Ok(Number(v as f64))
            }
            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(f64::NAN))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Number, E> {
                let number = v.trim().parse().map(Number);
                number.map_err(|_| E::custom(format_args!("`{}` is not a number", excerpt(v))))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The values of three numbers.
pub(super) fn values<const N: usize>(numbers: [Number; N]) -> [f64; N] {
    numbers.map(|number| number.0)
}

/// An image size in px as the file has it.
///
/// # Errors
/// Not whole numbers above 0.
pub(super) fn size(width: Number, height: Number) -> Result<[u64; 2], ValueProblem> {
    let side = |v: f64| (v.fract() == 0.0 && (1.0..1e9).contains(&v)).then_some(v as u64);
    match (side(width.0), side(height.0)) {
        (Some(width), Some(height)) => Ok([width, height]),
        _ => Err(ValueProblem::new("size", format!("is {}x{}", width.0, height.0)).expecting("whole px")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_does_not_have_are_nan_outside_of_strings() {
        let text = r#"{"a NaN \" Infinity": [NaN, -Infinity, Infinity, null, 1, -2, 1e3, "4"]}"#;
        let found: std::collections::BTreeMap<String, Vec<Number>> = parse(text.as_bytes()).unwrap();
        let (name, list) = found.first_key_value().unwrap();
        assert_eq!(name, "a NaN \" Infinity");
        assert_eq!(list.iter().filter(|n| n.0.is_nan()).count(), 4);
        assert_eq!(
            list.iter().map(|n| n.0).filter(|n| !n.is_nan()).collect::<Vec<_>>(),
            [1.0, -2.0, 1e3, 4.0]
        );
        let wide: Vec<u8> =
            [0xFEFFu16].into_iter().chain("[7]".encode_utf16()).flat_map(u16::to_le_bytes).collect();
        assert_eq!(parse::<Vec<Number>>(&wide).unwrap()[0].0, 7.0);
        assert!(parse::<Vec<Number>>(b"[NaN").unwrap_err().to_string().starts_with("JSON: "));
    }
}
