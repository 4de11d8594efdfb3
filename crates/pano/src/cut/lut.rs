//! Colour look-up tables: `.cube` files (Adobe, Cube LUT Specification 1.0) with one or three dimensions.
//!
//! In a 3D table red changes fastest. Interpolation is tetrahedral, as in ffmpeg's `lut3d`: of the six tetrahedra of a
//! cell, the four corners of the one that contains the colour are weighted by the sorted fractions. 1D tables are
//! interpolated linearly.

use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::text::one_line;

/// Maximum size of a file, bytes: enough for 65³ lines.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// Valid sizes of a 3D table, in points per axis.
const SIZES_3D: std::ops::RangeInclusive<usize> = 2..=65;
/// Valid sizes of a 1D table, in points.
const SIZES_1D: std::ops::RangeInclusive<usize> = 2..=65_536;
/// Largest valid value of a table.
const LARGEST: f32 = 1e6;

/// A colour look-up table for encoded values, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Lut {
    /// Points per axis.
    size: usize,
    is_3d: bool,
    /// Input values of the first and the last point of each axis.
    domain: [[f32; 3]; 2],
    /// Output colours of the points, red fastest.
    points: Vec<[f32; 3]>,
}

/// Why a LUT file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct LutFileError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub problem: LutError,
}

/// A problem in a LUT file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LutError {
    /// The file cannot be read.
    #[error("LUT: {0}")]
    Read(String),
    /// The file is not text.
    #[error("LUT: is not text (expected a .cube file)")]
    NotText,
    /// No size is given.
    #[error("LUT: has no LUT_3D_SIZE and no LUT_1D_SIZE (expected one of them)")]
    NoSize,
    /// The size is given twice.
    #[error("line {0}: a second size (expected one of LUT_3D_SIZE and LUT_1D_SIZE)")]
    TwoSizes(usize),
    /// The size is out of range.
    #[error("line {line}: {key} {found} (expected {low}..{high})")]
    Size {
        /// From 1.
        line: usize,
        /// Key of the size.
        key: &'static str,
        /// The value in the file.
        found: String,
        /// Smallest valid size.
        low: usize,
        /// Largest valid size.
        high: usize,
    },
    /// A line is neither a key nor a colour.
    #[error("line {line}: `{found}` (expected three finite numbers)")]
    MalformedLine {
        /// From 1.
        line: usize,
        /// The line, shortened.
        found: String,
    },
    /// The number of colours does not match the size.
    #[error("LUT: {found} colours (expected {expected} for its size)")]
    Count {
        /// Colours in the file.
        found: usize,
        /// Colours that the size requires.
        expected: usize,
    },
    /// `DOMAIN_MIN` is not below `DOMAIN_MAX`.
    #[error("line {0}: a domain without extent (expected DOMAIN_MIN below DOMAIN_MAX)")]
    Domain(usize),
}

impl Lut {
    /// Reads a `.cube` file.
    ///
    /// # Errors
    /// It cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, LutFileError> {
        let read = gausset_io::input::read(path, MAX_FILE_BYTES);
        let parsed = read.map_err(|e| LutError::Read(plain_reason(&e))).and_then(|bytes| Self::parse(&bytes));
        parsed.map_err(|problem| LutFileError { path: path.to_owned(), problem })
    }

    /// Parses the content of a `.cube` file.
    ///
    /// # Errors
    /// The first problem, with its line.
    pub fn parse(bytes: &[u8]) -> Result<Self, LutError> {
        let text = std::str::from_utf8(bytes).map_err(|_| LutError::NotText)?;
        // Windows editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut size: Option<(usize, bool)> = None;
        let mut domain = [[0.0f32; 3], [1.0; 3]];
        let mut domain_line = 0;
        let mut points: Vec<[f32; 3]> = Vec::new();
        for (index, content) in text.lines().enumerate() {
            let line = index + 1;
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') || content.starts_with("TITLE") {
                continue;
            }
            let bad = || LutError::MalformedLine { line, found: shortened(content, 40) };
            let (word, rest) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
            let rest = rest.trim();
            match word {
                "LUT_3D_SIZE" | "LUT_1D_SIZE" => {
                    let is_3d = word == "LUT_3D_SIZE";
                    if size.is_some() {
                        return Err(LutError::TwoSizes(line));
                    }
                    let range = if is_3d { SIZES_3D } else { SIZES_1D };
                    let found = rest.parse().ok().filter(|size| range.contains(size));
                    let found = found.ok_or_else(|| LutError::Size {
                        line,
                        key: if is_3d { "LUT_3D_SIZE" } else { "LUT_1D_SIZE" },
                        found: shortened(rest, 20),
                        low: *range.start(),
                        high: *range.end(),
                    })?;
                    size = Some((found, is_3d));
                }
                "DOMAIN_MIN" | "DOMAIN_MAX" => {
                    domain[usize::from(word == "DOMAIN_MAX")] = parse_colour(rest).ok_or_else(bad)?;
                    domain_line = line;
                }
                // DaVinci Resolve's form of the domain.
                "LUT_3D_INPUT_RANGE" | "LUT_1D_INPUT_RANGE" => {
                    let mut numbers = rest.split_whitespace().map(parse_number);
                    let (Some(Some(low)), Some(Some(high)), None) =
                        (numbers.next(), numbers.next(), numbers.next())
                    else {
                        return Err(bad());
                    };
                    domain = [[low; 3], [high; 3]];
                    domain_line = line;
                }
                _ => {
                    // The size must precede the colours, so that their number is bounded.
                    let Some((size, is_3d)) = size else {
                        return Err(if parse_colour(content).is_some() { LutError::NoSize } else { bad() });
                    };
                    let expected = if is_3d { size * size * size } else { size };
                    if points.len() == expected {
                        let found = points.len()
                            + text.lines().skip(index).filter(|l| parse_colour(l).is_some()).count();
                        return Err(LutError::Count { found, expected });
                    }
                    points.push(parse_colour(content).ok_or_else(bad)?);
                }
            }
        }
        let (size, is_3d) = size.ok_or(LutError::NoSize)?;
        let expected = if is_3d { size * size * size } else { size };
        if points.len() != expected {
            return Err(LutError::Count { found: points.len(), expected });
        }
        if (0..3).any(|c| domain[1][c] - domain[0][c] < 1e-6) {
            return Err(LutError::Domain(domain_line));
        }
        Ok(Self { size, is_3d, domain, points })
    }

    /// Maps an encoded colour.
    #[must_use]
    pub fn apply(&self, rgb: [f32; 3]) -> [f32; 3] {
        let last = (self.size - 1) as f32;
        let at = [0, 1, 2].map(|c| {
            let [low, high] = [self.domain[0][c], self.domain[1][c]];
            ((rgb[c] - low) / (high - low) * last).clamp(0.0, last)
        });
        let whole = at.map(|v| (v as usize).min(self.size - 2));
        let rest = [0, 1, 2].map(|c| at[c] - whole[c] as f32);
        if !self.is_3d {
            return [0, 1, 2].map(|c| {
                let (a, b) = (self.points[whole[c]][c], self.points[whole[c] + 1][c]);
                a + (b - a) * rest[c]
            });
        }
        let steps = [1, self.size, self.size * self.size];
        // Corners of the tetrahedron: from the lower corner along the axes in descending order of their fractions.
        let mut order = [0, 1, 2];
        order.sort_by(|&a, &b| rest[b].total_cmp(&rest[a]));
        let mut index: usize = (0..3).map(|c| whole[c] * steps[c]).sum();
        let mut weight = 1.0 - rest[order[0]];
        let mut out = self.points[index].map(|v| v * weight);
        for (k, &axis) in order.iter().enumerate() {
            index += steps[axis];
            weight = rest[axis] - order.get(k + 1).map_or(0.0, |&next| rest[next]);
            let corner = self.points[index];
            out = [0, 1, 2].map(|c| out[c] + corner[c] * weight);
        }
        out
    }

    /// Fingerprint of the content: equal for equal tables.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut bytes = Vec::with_capacity(12 * self.points.len() + 32);
        bytes.extend([self.size as u8, (self.size >> 8) as u8, u8::from(self.is_3d)]);
        bytes.extend(self.domain.iter().chain(&self.points).flatten().flat_map(|v| v.to_le_bytes()));
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes))
    }
}

fn parse_number(word: &str) -> Option<f32> {
    word.parse::<f32>().ok().filter(|v| v.is_finite() && v.abs() <= LARGEST)
}

/// Exactly three numbers.
fn parse_colour(text: &str) -> Option<[f32; 3]> {
    let mut words = text.split_whitespace().map(parse_number);
    let found = [words.next()??, words.next()??, words.next()??];
    words.next().is_none().then_some(found)
}

/// Shortens a line for a message.
fn shortened(text: &str, most: usize) -> String {
    one_line(&text.chars().take(most).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `.cube` file that samples a function of encoded colours.
    pub(crate) fn cube(size: usize, f: impl Fn([f64; 3]) -> [f64; 3]) -> String {
        let mut text = format!("# made by a test\nTITLE \"t\"\nLUT_3D_SIZE {size}\n\n");
        let at = |k: usize| k as f64 / (size - 1) as f64;
        for b in 0..size {
            for g in 0..size {
                for r in 0..size {
                    let [x, y, z] = f([at(r), at(g), at(b)]);
                    text += &format!("{x:.6} {y:.6} {z:.6}\n");
                }
            }
        }
        text
    }

    #[test]
    fn what_is_linear_between_points_is_found_exactly() {
        // Tetrahedral interpolation reproduces linear functions exactly.
        let lut = Lut::parse(cube(5, |[r, g, b]| [0.5 * r + 0.5 * g, g, 1.0 - b]).as_bytes()).unwrap();
        for rgb in [[0.0, 0.3, 1.0], [0.11, 0.77, 0.5], [0.99, 0.01, 0.42]] {
            let [r, g, b]: [f32; 3] = rgb;
            let wanted = [0.5 * r + 0.5 * g, g, 1.0 - b];
            assert!(lut.apply(rgb).iter().zip(wanted).all(|(a, b)| (a - b).abs() < 2e-6));
        }
        assert_eq!(lut.apply([-1.0, 2.0, 0.5]), lut.apply([0.0, 1.0, 0.5]));
        let one = Lut::parse(b"LUT_1D_SIZE 3\n0 0 0\n0.5 0.25 1\n1 1 1\n").unwrap();
        assert_eq!(one.apply([0.25, 0.25, 0.75]), [0.25, 0.125, 1.0]);
        assert_eq!(
            Lut::parse("\u{feff}LUT_1D_SIZE 3\r\n0 0 0\r\n0.5 0.25 1\r\n1 1 1\r\n".as_bytes()).unwrap(),
            one
        );
        let domain = Lut::parse(b"LUT_1D_SIZE 2\nDOMAIN_MAX 2 2 2\n0 0 0\n1 1 1\n").unwrap();
        assert_eq!(domain.apply([1.0, 0.5, 2.0]), [0.5, 0.25, 1.0]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let message = |text: &str| Lut::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(message("LUT_3D_SIZE 1\n0 0 0\n"), "line 1: LUT_3D_SIZE 1 (expected 2..65)");
        assert_eq!(message("# x\nLUT_3D_SIZE 300\n"), "line 2: LUT_3D_SIZE 300 (expected 2..65)");
        assert_eq!(message("LUT_1D_SIZE 2\n0 0 nan\n"), "line 2: `0 0 nan` (expected three finite numbers)");
        assert_eq!(message("LUT_1D_SIZE 2\n0 0 0\n"), "LUT: 1 colours (expected 2 for its size)");
        assert_eq!(
            message("LUT_1D_SIZE 2\n0 0 0\n1 1 1\n1 1 1\n"),
            "LUT: 3 colours (expected 2 for its size)"
        );
        assert_eq!(message("0 0 0\n"), "LUT: has no LUT_3D_SIZE and no LUT_1D_SIZE (expected one of them)");
        assert_eq!(
            message("LUT_1D_SIZE 2\nLUT_3D_SIZE 2\n"),
            "line 2: a second size (expected one of LUT_3D_SIZE and LUT_1D_SIZE)"
        );
        assert_eq!(
            message("LUT_1D_SIZE 2\nDOMAIN_MAX 0 1 1\n0 0 0\n1 1 1"),
            "line 2: a domain without extent (expected DOMAIN_MIN below DOMAIN_MAX)"
        );
        assert_eq!(message("hello\n"), "line 1: `hello` (expected three finite numbers)");
        assert_eq!(Lut::parse(&[0xFF, 0xFE]).unwrap_err(), LutError::NotText);
    }
}
