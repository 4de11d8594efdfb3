//! Values of a `transforms.json` as scripts write them.
//!
//! | value | accepted |
//! |---|---|
//! | number | `1.5`, `"1.5"`, and what is not finite: `NaN`, `-Infinity`, `nan`, `-nan(ind)`, in a matrix also `null` |
//! | flag | `true`, `1` |
//! | matrix | rows, or all numbers in a row |
//! | text | UTF-8 or UTF-16, with a byte order mark or without |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// Most numbers of a matrix.
const MAX_NUMBERS: usize = 16;

/// A number, also as text; NaN for `null`.
#[derive(Clone, Copy)]
pub(super) struct Real(pub(super) f64);

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Real;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E>(self, v: f64) -> Result<Real, E> {
                Ok(Real(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Real, E> {
                Ok(Real(v as f64))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Real, E> {
                Ok(Real(v as f64))
            }
            fn visit_unit<E>(self) -> Result<Real, E> {
                Ok(Real(f64::NAN))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Real, E> {
                v.trim().parse().map(Real).map_err(|_| E::invalid_value(Unexpected::Str(v), &self))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// A flag, or a number as some Python scripts write it.
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoolOrNumber;
        impl Visitor<'_> for BoolOrNumber {
            type Value = Flag;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Flag, E> {
                Ok(Flag(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Flag, E> {
                Ok(Flag(v != 0))
            }
        }
        deserializer.deserialize_any(BoolOrNumber)
    }
}

/// `world_from_camera`: three or four rows of four numbers; the last row defaults to 0 0 0 1.
pub(super) struct Matrix(pub(super) [[f64; 4]; 4]);

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let grid = Grid { expected: Self::EXPECTED, fits: Self::has_shape };
        Ok(Self(Self::of_values(&deserializer.deserialize_seq(grid)?)))
    }
}

impl Matrix {
    pub(super) const EXPECTED: &str = "3 or 4 rows of 4 numbers";

    /// Whether it may have so many rows and columns; 0 columns: numbers without rows.
    pub(super) fn has_shape(rows: usize, columns: usize) -> bool {
        matches!((rows, columns), (3 | 4, 4) | (12 | 16, 0))
    }

    /// The matrix of numbers row by row.
    pub(super) fn of_values(values: &[f64]) -> [[f64; 4]; 4] {
        let mut matrix = [[0.0, 0.0, 0.0, 1.0]; 4];
        matrix.iter_mut().zip(values.as_chunks().0).for_each(|(row, found)| *row = *found);
        matrix
    }
}

/// A calibration matrix: focal lengths on its diagonal, the principal point in its third column.
pub(super) struct CalibrationMatrix {
    pub(super) focal: [f64; 2],
    pub(super) centre: [f64; 2],
}

impl<'de> Deserialize<'de> for CalibrationMatrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = deserializer.deserialize_seq(Grid {
            expected: "3 rows of 3 numbers",
            fits: |rows, columns| matches!((rows, columns), (3, 3 | 4) | (4, 4) | (9, 0)),
        })?;
        let columns = if values.len() == 9 { 3 } else { 4 };
        let at = |row: usize, column: usize| values.get(row * columns + column).copied().unwrap_or(f64::NAN);
        Ok(Self { focal: [at(0, 0), at(1, 1)], centre: [at(0, 2), at(1, 2)] })
    }
}

/// Reads rows of numbers, or numbers without rows, as one list.
struct Grid {
    expected: &'static str,
    /// Whether it may have so many rows and columns; 0 columns: numbers without rows.
    fits: fn(usize, usize) -> bool,
}

impl<'de> Visitor<'de> for Grid {
    type Value = Vec<f64>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<f64>, A::Error> {
        let (mut values, mut rows, mut columns) = (Vec::new(), 0, None);
        while let Some(item) = items.next_element::<GridItem>()? {
            rows += 1;
            let found = match &item {
                GridItem::Number(_) => 0,
                GridItem::Row(row) => row.len(),
            };
            if *columns.get_or_insert(found) != found {
                return Err(A::Error::invalid_length(found, &self));
            }
            match item {
                GridItem::Number(value) => values.push(value),
                GridItem::Row(row) => values.extend(row),
            }
            if values.len() > MAX_NUMBERS {
                return Err(A::Error::invalid_length(rows, &self));
            }
        }
        if (self.fits)(rows, columns.unwrap_or(0)) {
            Ok(values)
        } else {
            Err(A::Error::invalid_length(rows, &self))
        }
    }
}

/// A number, or a row of numbers.
enum GridItem {
    Number(f64),
    Row(Vec<f64>),
}

impl<'de> Deserialize<'de> for GridItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrRow;
        impl<'de> Visitor<'de> for NumberOrRow {
            type Value = GridItem;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row of numbers")
            }
            fn visit_f64<E>(self, v: f64) -> Result<GridItem, E> {
                Ok(GridItem::Number(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<GridItem, E> {
                Ok(GridItem::Number(v as f64))
            }
            fn visit_i64<E>(self, v: i64) -> Result<GridItem, E> {
                Ok(GridItem::Number(v as f64))
            }
            fn visit_unit<E>(self) -> Result<GridItem, E> {
                Ok(GridItem::Number(f64::NAN))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<GridItem, E> {
                let number = v.trim().parse().map(GridItem::Number);
                number.map_err(|_| E::invalid_value(Unexpected::Str(v), &self))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<GridItem, A::Error> {
                let mut row = Vec::new();
                while let Some(Real(value)) = items.next_element()? {
                    if row.len() == MAX_NUMBERS {
                        return Err(A::Error::invalid_length(row.len() + 1, &self));
                    }
                    row.push(value);
                }
                Ok(GridItem::Row(row))
            }
        }
        deserializer.deserialize_any(NumberOrRow)
    }
}

/// The text without its byte order mark, and as UTF-8 if it is UTF-16. `None` if UTF-16 is damaged.
pub(super) fn as_utf8(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    if let Some(rest) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        return Some(Cow::Borrowed(rest));
    }
    // JSON starts with an ASCII character, so a zero byte tells the order of the bytes.
    let (is_little, bytes) = match bytes {
        [0xFF, 0xFE, rest @ ..] => (true, rest),
        [0xFE, 0xFF, rest @ ..] => (false, rest),
        [first, 0, ..] if *first != 0 => (true, bytes),
        [0, second, ..] if *second != 0 => (false, bytes),
        _ => return Some(Cow::Borrowed(bytes)),
    };
    let (pairs, rest) = bytes.as_chunks();
    let units = pairs.iter().map(|&p| if is_little { u16::from_le_bytes(p) } else { u16::from_be_bytes(p) });
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.ok().filter(|_| rest.is_empty()).map(|text| Cow::Owned(text.into_bytes()))
}

/// The JSON with numbers that are not finite as text, because JSON has none: `NaN` becomes `"NaN"`.
pub(super) fn with_quoted_non_finite(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut quoted: Option<Vec<u8>> = None;
    let (mut copied, mut at, mut in_string, mut escaped) = (0, 0, false, false);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if byte == b'"' {
            in_string = true;
        }
        if !(byte.is_ascii_alphabetic() || byte == b'-') {
            continue;
        }
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'(' | b')' | b'#' | b'_' | b'.');
        let rest = bytes.get(at..).unwrap_or_default();
        at += rest.iter().take_while(|b| is_part(b)).count();
        let token = bytes.get(start..at).unwrap_or_default();
        let word = token.strip_prefix(b"-").unwrap_or(token).get(..3).unwrap_or_default();
        let text: &[u8] = if word.eq_ignore_ascii_case(b"nan") {
            b"\"NaN\""
        } else if word.eq_ignore_ascii_case(b"inf") {
            b"\"inf\""
        } else {
            continue;
        };
        let quoted = quoted.get_or_insert_with(|| Vec::with_capacity(bytes.len() + bytes.len() / 8));
        quoted.extend_from_slice(bytes.get(copied..start).unwrap_or_default());
        quoted.extend_from_slice(text);
        copied = at;
    }
    match quoted {
        None => Cow::Borrowed(bytes),
        Some(mut quoted) => {
            quoted.extend_from_slice(bytes.get(copied..).unwrap_or_default());
            Cow::Owned(quoted)
        }
    }
}
