//! COLMAP's text formats of features and matches.
//!
//! ```text
//! features   COUNT DIMENSION                     first line; the dimension is that of the descriptors
//!            X Y SCALE ORIENTATION D_1 …         a keypoint; only X and Y are used
//! matches    NAME1 NAME2                         then a pair of indices a line, then an empty line
//! ```
//! Source: COLMAP documentation, "Feature Detection and Extraction" and "Feature Matching and Geometric Verification".

use super::{ImagePair, InvalidEntry};

/// Reads the keypoints of an image.
///
/// # Errors
/// A line without two finite numbers, or another number of keypoints than the first line says.
pub fn keypoints(text: &str) -> Result<Vec<[f32; 2]>, InvalidEntry> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().map(|(_, line)| line).unwrap_or_default();
    let count = header.split_ascii_whitespace().next().and_then(|field| field.parse::<usize>().ok());
    let Some(count) = count else {
        return Err(InvalidEntry::new("line 1", "no count of keypoints (expected: COUNT DIMENSION)"));
    };
    let mut found = Vec::new();
    for (number, line) in lines {
        let mut fields = line.split_ascii_whitespace().map(|field| field.parse().ok());
        let both = fields.next().flatten().zip(fields.next().flatten());
        let Some((x, y)) = both.filter(|(x, y): &(f32, f32)| x.is_finite() && y.is_finite()) else {
            return Err(InvalidEntry::new(format!("line {number}"), "no position (expected: X Y …)"));
        };
        found.push([x, y]);
    }
    if found.len() != count {
        return Err(InvalidEntry::new(
            "line 1",
            format!("says {count} keypoints, and {} follow", found.len()),
        ));
    }
    Ok(found)
}

/// Reads lists of matches.
///
/// # Errors
/// A line that is neither two names nor two indices where one of them is expected.
pub fn pairs(text: &str) -> Result<Vec<ImagePair>, InvalidEntry> {
    let mut found: Vec<ImagePair> = Vec::new();
    let mut is_open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            is_open = false;
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split_ascii_whitespace().take(3).collect();
        let [first, second] = fields[..] else {
            let expected = if is_open { "two numbers, or an empty line" } else { "two names without spaces" };
            return Err(InvalidEntry::new(
                format!("line {number}"),
                format!("is not a pair (expected {expected})"),
            ));
        };
        match found.last_mut().filter(|_| is_open) {
            None => {
                found.push(ImagePair { names: [first.to_owned(), second.to_owned()], matches: Vec::new() });
                is_open = true;
            }
            Some(pair) => {
                let (Ok(a), Ok(b)) = (first.parse(), second.parse()) else {
                    let what = "is not a pair of indices (expected two whole numbers, and an empty line before names)";
                    return Err(InvalidEntry::new(format!("line {number}"), what));
                };
                pair.matches.push([a, b]);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let text = "2 128\n10.5 20.25 1.2 0.1 0 0 0\n3 4\n\n";
        assert_eq!(keypoints(text).unwrap(), [[10.5, 20.25], [3.0, 4.0]]);
        let found = pairs("a.jpg b.jpg\n0 1\n2 3\n\n\nb.jpg c.jpg\r\n4 5\r\n").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].matches.as_slice(), found[1].names[1].as_str()),
            (&[[0, 1], [2, 3]][..], "c.jpg")
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, line) in [
            ("", "line 1: no count of keypoints"),
            ("2 128\n1 2\n", "line 1: says 2 keypoints, and 1 follow"),
            ("1 128\nnan 2\n", "line 2: no position"),
        ] {
            let found = keypoints(text).unwrap_err().to_string();
            assert!(found.starts_with(line), "{found}");
        }
        for (text, line) in [
            ("a.jpg\n", "line 1: is not a pair (expected two names"),
            ("a.jpg b.jpg\n0 1\nb.jpg c.jpg\n", "line 3: is not a pair of indices"),
            ("a.jpg b.jpg\n-1 0\n", "line 2: is not a pair of indices"),
        ] {
            let found = pairs(text).unwrap_err().to_string();
            assert!(found.starts_with(line), "{found}");
        }
    }
}
