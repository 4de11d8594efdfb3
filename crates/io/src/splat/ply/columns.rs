//! Maps columns of the vertex element to parameters.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::collections::BTreeMap;
use std::path::Path;

use gausset_core::sh;

use super::header::{Element, Scalar, Shape};
use crate::splat::SplatError;

/// Log scale normal to a flat disc (2DGS), whose files have no third scale.
const FLAT_LOG_SCALE: f32 = -20.0;

/// Prefixes that CloudCompare writes before the names of all columns but positions, normals and colours; the converters
/// for it write some themselves.
const CLOUDCOMPARE_PREFIXES: [&str; 3] = ["scalar_scal_", "scalar_", "scal_"];

/// Content of the rows of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowLayout {
    pub(super) kind: Kind,
    /// Sources of the values of a decoded row, in its order.
    pub(super) sources: Vec<ValueSource>,
}

/// Splats or points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A decoded row is `[mean 3 | log scale 3 | quaternion 4 | logit 1 | SH, coefficient-major]`.
    Splats {
        /// SH degree of the file, up to 4.
        stored_degree: u8,
        /// SH degree of a decoded row, up to 3.
        degree: u8,
        /// Whether the third scale is missing.
        flat: bool,
    },
    /// A decoded row is `[position 3]` or `[position 3 | colour 3]`.
    Points {
        /// Whether the points have colours.
        colours: bool,
    },
}

/// A column of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Column {
    /// Index, from 0.
    pub(super) index: usize,
    /// Byte offset in a binary row.
    pub(super) offset: usize,
    /// Type of the value.
    pub(super) scalar: Scalar,
}

/// Source of a value of a decoded row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ValueSource {
    /// A column, unchanged.
    Value(Column),
    /// A colour column; integers are scaled to 0..1.
    Colour(Column),
    /// A colour column that is converted to SH coefficient 0.
    ColourAsSh(Column),
    /// A constant.
    Constant(f32),
}

impl RowLayout {
    /// Finds the parameters among the properties of the vertex element by name.
    pub(super) fn from_element(vertex: &Element, path: &Path) -> Result<Self, SplatError> {
        let bad = |expected: String, found: String| SplatError::Properties {
            path: path.to_owned(),
            expected,
            found,
        };
        let Some(columns) = columns_of(vertex) else {
            return Err(bad("single values".to_owned(), "a list".to_owned()));
        };
        let find = |name: &str| columns.get(name).copied();
        let need = |name: &str| find(name).ok_or_else(|| bad(name.to_owned(), "none".to_owned()));
        let mut sources = Vec::new();
        for name in ["x", "y", "z"] {
            sources.push(ValueSource::Value(need(name)?));
        }
        let colours = [find("red"), find("green"), find("blue")];
        if ["f_dc_0", "scale_0", "rot_0"].into_iter().all(|name| find(name).is_none()) {
            let colours = if let [Some(r), Some(g), Some(b)] = colours { vec![r, g, b] } else { Vec::new() };
            sources.extend(colours.iter().map(|&c| ValueSource::Colour(c)));
            return Ok(Self { kind: Kind::Points { colours: !colours.is_empty() }, sources });
        }

        sources.push(ValueSource::Value(need("scale_0")?));
        sources.push(ValueSource::Value(need("scale_1")?));
        let third_scale = find("scale_2");
        sources.push(third_scale.map_or(ValueSource::Constant(FLAT_LOG_SCALE), ValueSource::Value));
        for name in ["rot_0", "rot_1", "rot_2", "rot_3", "opacity"] {
            sources.push(ValueSource::Value(need(name)?));
        }
        match (find("f_dc_0"), colours) {
            (None, [Some(r), Some(g), Some(b)]) => sources.extend([r, g, b].map(ValueSource::ColourAsSh)),
            _ => {
                for name in ["f_dc_0", "f_dc_1", "f_dc_2"] {
                    sources.push(ValueSource::Value(need(name)?));
                }
            }
        }

        let rest = columns.keys().filter(|name| name.starts_with("f_rest_")).count();
        let Some(stored_degree) = (0..=4u8).find(|&d| 3 * (sh::coefficients(d) - 1) == rest) else {
            return Err(bad("0, 9, 24, 45 or 72 f_rest properties".to_owned(), rest.to_string()));
        };
        let degree = stored_degree.min(sh::MAX_DEGREE);
        for coefficient in 1..sh::coefficients(degree) {
            for channel in 0..3 {
                let name = format!("f_rest_{}", channel * (rest / 3) + coefficient - 1);
                sources.push(ValueSource::Value(need(&name)?));
            }
        }
        Ok(Self { kind: Kind::Splats { stored_degree, degree, flat: third_scale.is_none() }, sources })
    }

    /// Byte offsets of the values in a binary row, if every value is an unchanged f32.
    pub(super) fn plain_offsets(&self) -> Option<Vec<usize>> {
        let offset = |source: &ValueSource| match source {
            ValueSource::Value(Column { offset, scalar: Scalar::F32, .. }) => Some(*offset),
            _ => None,
        };
        self.sources.iter().map(offset).collect()
    }
}

/// Type of the values of a decoded row.
pub(super) trait RowValue: From<f32> + Copy {
    /// The nearest value.
    fn rounded(value: f64) -> Self;
}

impl RowValue for f32 {
    fn rounded(value: f64) -> Self {
        value as Self
    }
}

impl RowValue for f64 {
    fn rounded(value: f64) -> Self {
        value
    }
}

impl ValueSource {
    /// The value for a decoded row, from the values of the columns.
    pub(super) fn value<T: RowValue>(self, value_of: impl Fn(Column) -> f64) -> T {
        let colour = |column: Column| match column.scalar {
            Scalar::U8 => value_of(column) / f64::from(u8::MAX),
            Scalar::U16 => value_of(column) / f64::from(u16::MAX),
            _ => value_of(column),
        };
        match self {
            Self::Value(column) => T::rounded(value_of(column)),
            Self::Colour(column) => T::rounded(colour(column)),
            Self::ColourAsSh(column) => sh::dc_from_colour(colour(column) as f32).into(),
            Self::Constant(value) => value.into(),
        }
    }
}

/// The columns of an element by name, without the prefixes of CloudCompare; `None` if any is a list.
fn columns_of(vertex: &Element) -> Option<BTreeMap<&str, Column>> {
    let mut offset = 0;
    let mut columns = BTreeMap::new();
    for (index, property) in vertex.properties.iter().enumerate() {
        let Shape::One(scalar) = property.shape else { return None };
        columns.insert(property.name.as_str(), Column { index, offset, scalar });
        offset += scalar.bytes();
    }
    for property in &vertex.properties {
        let name = CLOUDCOMPARE_PREFIXES.iter().find_map(|prefix| property.name.strip_prefix(prefix));
        if let (Some(name), Some(column)) = (name, columns.get(property.name.as_str()).copied()) {
            columns.entry(name).or_insert(column);
        }
    }
    Some(columns)
}
