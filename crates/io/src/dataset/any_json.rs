//! JSON values of one image that may have any type: a wrong one costs that image and not the file.
//!
//! Values are read as they come, in memory that does not grow with them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::limits::MAX_NAME_BYTES;

/// Most numbers that are kept.
const MAX_NUMBERS: usize = 16;

/// A value of a file that is missing or cannot be used: `size is 0x4 (expected whole px)`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {found}{}", expected.as_ref().map_or_else(String::new, |expected| format!(" (expected {expected})")))]
#[non_exhaustive]
pub struct ValueProblem {
    /// Name of the value.
    pub name: Cow<'static, str>,
    /// What was found, with its verb: `is missing`, `is 7`.
    pub found: Cow<'static, str>,
    /// What was expected, where the message states it.
    pub expected: Option<Cow<'static, str>>,
}

impl ValueProblem {
    pub(super) fn new(name: impl Into<Cow<'static, str>>, found: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), found: found.into(), expected: None }
    }

    /// The problem with what was expected.
    pub(super) fn expecting(self, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { expected: Some(expected.into()), ..self }
    }
}

/// Numbers, also in rows, or a value of another type. `null` among the numbers is NaN.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AnyNumbers {
    /// Columns are 0 for numbers without rows.
    Numbers { values: Vec<f64>, rows: usize, columns: usize },
    /// Another type, rows of different lengths, or more numbers than a matrix has.
    Other,
}

impl AnyNumbers {
    /// The numbers of the value `name`, if it is there and has a shape that fits: rows and columns.
    ///
    /// # Errors
    /// What is wrong; `expected` names the shape.
    pub(super) fn of_shape<'a>(
        value: Option<&'a Self>,
        name: &'static str,
        expected: impl Into<Cow<'static, str>>,
        fits: impl Fn(usize, usize) -> bool,
    ) -> Result<&'a [f64], ValueProblem> {
        let found = match value {
            Some(Self::Numbers { values, rows, columns }) if fits(*rows, *columns) => return Ok(values),
            Some(Self::Numbers { rows: 0, .. }) => "is empty",
            Some(Self::Numbers { .. }) => "has another shape",
            Some(Self::Other) => "has another shape, or values that are no numbers",
            None => "is missing or null",
        };
        Err(ValueProblem::new(name, found).expecting(expected))
    }

    /// Exactly `N` numbers without rows.
    ///
    /// # Errors
    /// As [`Self::of_shape`].
    pub(super) fn list<const N: usize>(
        value: Option<&Self>,
        name: &'static str,
    ) -> Result<[f64; N], ValueProblem> {
        let fits = |rows, columns| (rows, columns) == (N, 0);
        let values = Self::of_shape(value, name, format!("{N} numbers"), fits)?;
        Ok(std::array::from_fn(|i| values.get(i).copied().unwrap_or(f64::NAN)))
    }

    /// Three rows of three numbers.
    ///
    /// # Errors
    /// As [`Self::of_shape`].
    pub(super) fn rotation(value: Option<&Self>, name: &'static str) -> Result<[[f64; 3]; 3], ValueProblem> {
        let fits = |rows, columns| (rows, columns) == (3, 3);
        let values = Self::of_shape(value, name, "3 rows of 3 numbers", fits)?;
        Ok(std::array::from_fn(|i| {
            std::array::from_fn(|k| values.get(3 * i + k).copied().unwrap_or(f64::NAN))
        }))
    }
}

/// A text, or a value of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnyText {
    Text(String),
    /// A text that is too long for a name, with its length in bytes.
    TooLong(usize),
    Other,
}

/// A part of [`AnyNumbers`].
enum Item {
    Number(f64),
    Row(Vec<f64>),
    Other,
}

/// Declares what a visitor does with values that have no use for it.
macro_rules! other_values {
    ($value:ty, $other:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }
        fn visit_bool<E>(self, _: bool) -> Result<$value, E> {
            Ok($other)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($other)
        }
    };
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrRow;
        impl<'de> Visitor<'de> for NumberOrRow {
            type Value = Item;
            other_values!(Item, Item::Other);
            fn visit_f64<E>(self, v: f64) -> Result<Item, E> {
                Ok(Item::Number(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Item, E> {
                Ok(Item::Number(v as f64))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Item, E> {
                Ok(Item::Number(v as f64))
            }
            fn visit_unit<E>(self) -> Result<Item, E> {
                Ok(Item::Number(f64::NAN))
            }
            fn visit_str<E>(self, v: &str) -> Result<Item, E> {
                Ok(v.trim().parse().map_or(Item::Other, Item::Number))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Item, A::Error> {
                let (mut row, mut is_row) = (Vec::new(), true);
                while let Some(item) = items.next_element::<Item>()? {
                    match item {
                        Item::Number(value) if row.len() < MAX_NUMBERS => row.push(value),
                        _ => is_row = false,
                    }
                }
                Ok(if is_row { Item::Row(row) } else { Item::Other })
            }
        }
        deserializer.deserialize_any(NumberOrRow)
    }
}

impl<'de> Deserialize<'de> for AnyNumbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = AnyNumbers;
            other_values!(AnyNumbers, AnyNumbers::Other);
            fn visit_f64<E>(self, _: f64) -> Result<AnyNumbers, E> {
                Ok(AnyNumbers::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<AnyNumbers, E> {
                Ok(AnyNumbers::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<AnyNumbers, E> {
                Ok(AnyNumbers::Other)
            }
            fn visit_unit<E>(self) -> Result<AnyNumbers, E> {
                Ok(AnyNumbers::Other)
            }
            fn visit_str<E>(self, _: &str) -> Result<AnyNumbers, E> {
                Ok(AnyNumbers::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AnyNumbers, A::Error> {
                let (mut values, mut rows, mut columns, mut is_grid) = (Vec::new(), 0, None, true);
                while let Some(item) = items.next_element::<Item>()? {
                    let row = match item {
                        _ if !is_grid => continue,
                        Item::Number(value) => (0, vec![value]),
                        Item::Row(row) => (row.len(), row),
                        Item::Other => (usize::MAX, Vec::new()),
                    };
                    rows += 1;
                    values.extend(row.1);
                    let is_like_the_first = *columns.get_or_insert(row.0) == row.0;
                    is_grid = is_like_the_first && row.0 != usize::MAX && values.len() <= MAX_NUMBERS;
                }
                let columns = columns.unwrap_or(0);
                Ok(if is_grid { AnyNumbers::Numbers { values, rows, columns } } else { AnyNumbers::Other })
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = AnyText;
            other_values!(AnyText, AnyText::Other);
            fn visit_f64<E>(self, _: f64) -> Result<AnyText, E> {
                Ok(AnyText::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<AnyText, E> {
                Ok(AnyText::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<AnyText, E> {
                Ok(AnyText::Other)
            }
            fn visit_unit<E>(self) -> Result<AnyText, E> {
                Ok(AnyText::Other)
            }
            fn visit_str<E>(self, v: &str) -> Result<AnyText, E> {
                Ok(if v.len() > MAX_NAME_BYTES {
                    AnyText::TooLong(v.len())
                } else {
                    AnyText::Text(v.to_owned())
                })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AnyText, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(AnyText::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_type_or_shape_is_read_to_its_end() {
        let read = |text: &str| -> Vec<Option<AnyNumbers>> { serde_json::from_str(text).unwrap() };
        let long = format!("[[{}]]", vec!["1"; 99].join(","));
        for bad in ["[1, [2]]", "[[1], [2, 3]]", "[true]", "{\"a\": [1]}", "\"x\"", "7", "[[[1]]]", &long] {
            assert_eq!(read(&format!("[{bad}, [1]]"))[0], Some(AnyNumbers::Other), "{bad}");
        }
        let found = read("[null, [], [[1, \"2\"], [null, 3]], [1, 2, 3]]");
        let message = |value: &Option<AnyNumbers>| {
            AnyNumbers::list::<3>(value.as_ref(), "rotation").unwrap_err().to_string()
        };
        assert_eq!(message(&found[0]), "rotation is missing or null (expected 3 numbers)");
        assert_eq!(message(&found[1]), "rotation is empty (expected 3 numbers)");
        assert_eq!(
            message(&Some(AnyNumbers::Other)),
            "rotation has another shape, or values that are no numbers (expected 3 numbers)"
        );
        assert_eq!(message(&found[2]), "rotation has another shape (expected 3 numbers)");
        assert_eq!(AnyNumbers::list(found[3].as_ref(), "rotation"), Ok([1.0, 2.0, 3.0]));
        let Some(AnyNumbers::Numbers { values, rows: 2, columns: 2 }) = &found[2] else {
            panic!("{found:?}")
        };
        assert!(values[..2] == [1.0, 2.0] && values[2].is_nan() && values[3] == 3.0);
        let names: Vec<Option<AnyText>> =
            serde_json::from_str("[null, \"a\", [1, {}], {\"b\": 1}, 7]").unwrap();
        assert_eq!(names[1], Some(AnyText::Text("a".to_owned())));
        assert!(names[0].is_none() && names[2..].iter().all(|name| *name == Some(AnyText::Other)));
    }
}
