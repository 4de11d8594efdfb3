//! The header of a PLY file: text, at most 64 KiB.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use gausset_core::se3::{self, Mat3};
use gausset_core::splats_transform::Similarity;

use super::input::PlyReader;
use crate::dataset::georeference::EarthPlace;
use crate::splat::SplatError;
use crate::text::quote;

/// Longest header in bytes.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// Longest line of a header in bytes.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Largest number of properties of all elements together.
const MAX_PROPERTIES: usize = 1024;
/// Largest number of elements.
const MAX_ELEMENTS: usize = 64;

/// Encoding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::splat) enum Encoding {
    Ascii,
    LittleEndian,
    BigEndian,
}

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::splat) enum Scalar {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl Scalar {
    /// The type with this name, in the old (`uchar`) or new (`uint8`) spelling.
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "char" | "int8" => Self::I8,
            "uchar" | "uint8" => Self::U8,
            "short" | "int16" => Self::I16,
            "ushort" | "uint16" => Self::U16,
            "int" | "int32" => Self::I32,
            "uint" | "uint32" => Self::U32,
            "float" | "float32" => Self::F32,
            "double" | "float64" => Self::F64,
            _ => return None,
        })
    }

    /// Size in bytes.
    pub(in crate::splat) const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Name in the new spelling.
    pub(in crate::splat) const fn name(self) -> &'static str {
        match self {
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::I16 => "int16",
            Self::U16 => "uint16",
            Self::I32 => "int32",
            Self::U32 => "uint32",
            Self::F32 => "float32",
            Self::F64 => "float64",
        }
    }
}

/// Shape of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::splat) enum Shape {
    /// One value.
    One(Scalar),
    /// A count followed by that many values.
    List {
        /// Type of the count.
        count: Scalar,
        /// Type of the values.
        item: Scalar,
    },
}

impl Shape {
    /// Minimum size in bytes.
    fn min_bytes(self) -> usize {
        match self {
            Self::One(scalar) => scalar.bytes(),
            Self::List { count, .. } => count.bytes(),
        }
    }
}

/// A column of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::splat) struct Property {
    pub(in crate::splat) name: String,
    pub(in crate::splat) shape: Shape,
}

/// A table of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::splat) struct Element {
    pub(in crate::splat) name: String,
    /// Number of rows according to the header.
    pub(in crate::splat) count: u64,
    pub(in crate::splat) properties: Vec<Property>,
}

impl Element {
    /// Minimum bytes of a row in a binary body; exact if there are no lists.
    pub(in crate::splat) fn min_row_bytes(&self) -> u64 {
        self.properties.iter().map(|p| p.shape.min_bytes() as u64).sum()
    }

    /// Whether rows contain lists, so that their size varies.
    pub(in crate::splat) fn has_lists(&self) -> bool {
        self.properties.iter().any(|p| matches!(p.shape, Shape::List { .. }))
    }
}

/// The parsed header.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::splat) struct PlyHeader {
    pub(in crate::splat) encoding: Encoding,
    pub(in crate::splat) elements: Vec<Element>,
    pub(in crate::splat) comments: CommentMetadata,
}

/// Metadata from comments; the last occurrence counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::splat) struct CommentMetadata {
    /// `SplatRenderMode: mip` or `antialiased 1`.
    pub(in crate::splat) antialiased: bool,
    /// `SplatRenderMode: 2dgs`.
    pub(in crate::splat) flat: bool,
    /// `Vertical axis: …`.
    pub(in crate::splat) vertical_axis: Option<[f32; 3]>,
    /// `gausset saved_from_dataset …`: scale, rows of the rotation, translation.
    pub(in crate::splat) saved_from_dataset: Option<Similarity>,
    /// `gausset georeference …`: latitude, longitude, and altitude if it is known.
    pub(in crate::splat) georeference: Option<EarthPlace>,
    /// `gausset offset …`: what was subtracted from the dataset's coordinates.
    pub(in crate::splat) offset: Option<[f64; 3]>,
    /// `gausset near_plane D`: near plane of the training, more than 0.
    pub(in crate::splat) near_plane: Option<f64>,
    /// `gausset sky N of TOTAL`: number of splats at the end that are the sky, and of all; without it in older files.
    sky: (u64, Option<u64>),
}

impl PlyHeader {
    /// Reads a header, from `ply` to `end_header`.
    pub(in crate::splat) fn read(input: &mut PlyReader<'_>) -> Result<Self, SplatError> {
        let mut encoding = None;
        let mut elements: Vec<Element> = Vec::new();
        let mut comments = CommentMetadata::default();
        let start = input.remaining;
        let bad = |input: &PlyReader<'_>, what, expected: &str, found: String| SplatError::Header {
            path: input.path.to_owned(),
            line: input.line.saturating_sub(1),
            what,
            expected: expected.to_owned(),
            found,
        };
        loop {
            let line = input.line(MAX_LINE_BYTES)?;
            if start - input.remaining > MAX_HEADER_BYTES as u64 {
                return Err(bad(input, "the header is too long", "at most 64 KiB", "more".to_owned()));
            }
            let Some(line) = line else {
                input.line += 1;
                let found = "a cut-off or endless line".to_owned();
                return Err(bad(input, "the header does not end", "lines up to 4 KiB and end_header", found));
            };
            let text = String::from_utf8_lossy(&line);
            let words: Vec<&str> = text.split_ascii_whitespace().collect();
            match words.as_slice() {
                ["end_header"] => break,
                [] | ["ply" | "obj_info", ..] => {}
                ["comment", ..] => {
                    comments.read(text.trim_start().strip_prefix("comment").unwrap_or_default())
                }
                ["format", name, _version] => {
                    encoding = match *name {
                        "ascii" => Some(Encoding::Ascii),
                        "binary_little_endian" => Some(Encoding::LittleEndian),
                        "binary_big_endian" => Some(Encoding::BigEndian),
                        _ => {
                            let expected = "ascii, binary_little_endian or binary_big_endian";
                            return Err(bad(input, "unknown format", expected, quote(name)));
                        }
                    };
                }
                ["element", name, count] => {
                    let Ok(count) = count.parse() else {
                        return Err(bad(input, "not a number of rows", "a whole number", quote(count)));
                    };
                    if elements.iter().any(|e| e.name == *name) || elements.len() == MAX_ELEMENTS {
                        let expected = "at most 64 elements of different names";
                        return Err(bad(input, "a duplicate element or too many", expected, quote(name)));
                    }
                    elements.push(Element { name: (*name).to_owned(), count, properties: Vec::new() });
                }
                ["property", shape @ .., name] => {
                    let shape = match shape {
                        [scalar] => Scalar::from_name(scalar).map(Shape::One),
                        ["list", count, item] => match (Scalar::from_name(count), Scalar::from_name(item)) {
                            (Some(count), Some(item)) => Some(Shape::List { count, item }),
                            _ => None,
                        },
                        _ => None,
                    };
                    let Some(shape) = shape else {
                        let expected = "property TYPE NAME or property list TYPE TYPE NAME";
                        return Err(bad(input, "unknown property type", expected, quote(&text)));
                    };
                    let properties: usize = elements.iter().map(|e| e.properties.len()).sum();
                    let Some(element) = elements.last_mut() else {
                        return Err(bad(
                            input,
                            "a property without an element",
                            "an element before it",
                            quote(&text),
                        ));
                    };
                    if properties == MAX_PROPERTIES || element.properties.iter().any(|p| p.name == *name) {
                        let expected = "at most 1024 properties of different names";
                        return Err(bad(input, "a duplicate property or too many", expected, quote(name)));
                    }
                    element.properties.push(Property { name: (*name).to_owned(), shape });
                }
                _ => {
                    let expected = "format, comment, element, property or end_header";
                    return Err(bad(input, "not a header line", expected, quote(&text)));
                }
            }
        }
        let Some(encoding) = encoding else {
            return Err(bad(
                input,
                "the format is missing",
                "a format line before end_header",
                "none".to_owned(),
            ));
        };
        Ok(Self { encoding, elements, comments })
    }
}

impl CommentMetadata {
    /// Number of splats at the end that are the sky; 0 if the count belongs to another number of splats than `found`.
    pub(in crate::splat) fn sky_of(&self, found: u64) -> u64 {
        let (sky, total) = self.sky;
        if sky <= found && total.is_none_or(|total| total == found) { sky } else { 0 }
    }

    /// Parses a comment, ignoring case.
    pub(in crate::splat) fn read(&mut self, text: &str) {
        let text = text.trim().to_ascii_lowercase();
        if let Some(mode) = text.strip_prefix("splatrendermode:") {
            let mode = mode.trim();
            (self.antialiased, self.flat) = (mode == "mip", mode == "2dgs");
        } else if let Some(flag) = text.strip_prefix("antialiased") {
            self.antialiased = flag.trim_start_matches([':', ' ', '\t']) == "1";
        } else if let Some(numbers) = text.strip_prefix("gausset saved_from_dataset") {
            self.saved_from_dataset = similarity(numbers);
        } else if let Some(numbers) = text.strip_prefix("gausset georeference") {
            self.georeference = earth_place(numbers);
        } else if let Some(numbers) = text.strip_prefix("gausset offset") {
            self.offset = finite_numbers(numbers).and_then(|numbers| numbers.try_into().ok());
        } else if let Some(number) = text.strip_prefix("gausset near_plane") {
            self.near_plane = number.trim().parse().ok().filter(|near| is_near_plane(*near));
        } else if let Some(count) = text.strip_prefix("gausset sky") {
            let words: Vec<&str> = count.split_ascii_whitespace().collect();
            self.sky = match words[..] {
                [sky] => (sky.parse().unwrap_or(0), None),
                [sky, "of", total] => (sky.parse().unwrap_or(0), Some(total.parse().unwrap_or(0))),
                _ => (0, None),
            };
        } else if let Some(axis) = text.strip_prefix("vertical axis:") {
            // As others write them: COLMAP's axes, whose y points down, are "y" in Brush; Nerfstudio's have z up.
            self.vertical_axis = match axis.trim() {
                "x" => Some([1.0, 0.0, 0.0]),
                "y" => Some([0.0, -1.0, 0.0]),
                "z" => Some([0.0, 0.0, 1.0]),
                numbers => three_numbers(numbers).or(self.vertical_axis),
            };
        }
    }
}

/// Whether splats can be rendered with this near plane: devices compute in f32.
pub(super) fn is_near_plane(near: f64) -> bool {
    near > 0.0 && (near as f32).is_finite()
}

/// Parses numbers separated by blanks; `None` if one is not finite.
fn finite_numbers(text: &str) -> Option<Vec<f64>> {
    let number = |word: &str| word.parse().ok().filter(|v: &f64| v.is_finite());
    text.split_ascii_whitespace().map(number).collect()
}

/// Parses latitude, longitude and altitude, which may be missing; `None` if they are not a place.
fn earth_place(text: &str) -> Option<EarthPlace> {
    let place = match *finite_numbers(text)? {
        [latitude, longitude] => EarthPlace { latitude, longitude, altitude: None },
        [latitude, longitude, altitude] => EarthPlace { latitude, longitude, altitude: Some(altitude) },
        _ => return None,
    };
    place.is_valid().then_some(place)
}

/// Parses scale, rows of the rotation, translation; `None` if they are not a similarity.
fn similarity(text: &str) -> Option<Similarity> {
    let numbers: Vec<f64> = text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [scale, a, b, c, d, e, f, g, h, i, x, y, z] = numbers.try_into().ok()?;
    let rotation: Mat3 = [[a, b, c], [d, e, f], [g, h, i]];
    let is_finite = [x, y, z].iter().all(|v| f64::is_finite(*v)) && scale.is_finite() && scale > 0.0;
    let product = se3::mul(&rotation, &se3::transpose(&rotation));
    let is_orthonormal =
        product.iter().flatten().zip(se3::IDENTITY3.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-6);
    let [first, second, third] = rotation;
    let is_right_handed = se3::dot(se3::cross(first, second), third) > 0.0;
    (is_finite && is_orthonormal && is_right_handed).then_some(Similarity {
        scale,
        rotation,
        translation: [x, y, z],
    })
}

/// Parses three finite numbers, not all zero, separated by blanks or commas.
fn three_numbers(text: &str) -> Option<[f32; 3]> {
    let words = text.split([' ', ',', '\t']).filter(|w| !w.is_empty());
    let numbers: Vec<f32> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    let axis: [f32; 3] = numbers.try_into().ok()?;
    (axis.iter().all(|v| v.is_finite()) && axis != [0.0; 3]).then_some(axis)
}
