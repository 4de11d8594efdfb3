//! NumPy archives: one array for each image or pair, by its name, with or without compression.
//!
//! ```text
//! numpy.savez("keypoints.npz", **{"view00/a.jpg": xy})                     (N, 2 or more)
//! numpy.savez("matches.npz", **{"view00/a.jpg view00/b.jpg": indices})      (M, 2)
//! ```

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use gausset_io::text::excerpt;
use zip::ZipArchive;

use super::{ImagePair, InvalidEntry};

/// Largest array, elements.
const MAX_ELEMENTS: u64 = 256 << 20;
/// Largest total of all arrays, bytes: an archive can inflate to a thousand times its length.
const MAX_INFLATED_BYTES: u64 = 1 << 30;
/// Largest ratio of inflated to compressed length: measurements never reach 32.
const MAX_RATIO: u64 = 32;
/// Longest header of an array, bytes.
const MAX_HEADER: usize = 1 << 16;

/// Reads the keypoints of images.
///
/// # Errors
/// The file is not an archive, or an array is not a list of finite positions.
pub fn keypoints(bytes: &[u8]) -> Result<BTreeMap<String, Vec<[f32; 2]>>, InvalidEntry> {
    let mut all = BTreeMap::new();
    for_each_array(bytes, |name, columns, rows| {
        if columns < 2 {
            return Err(InvalidEntry::new(
                &name,
                format!("has {columns} columns (expected at least 2: x and y)"),
            ));
        }
        let list: Vec<[f32; 2]> =
            rows.chunks_exact(columns).map(|row| [row[0] as f32, row[1] as f32]).collect();
        if list.iter().flatten().any(|v| !v.is_finite()) {
            return Err(InvalidEntry::new(&name, "a position is not finite"));
        }
        all.insert(name, list);
        Ok(())
    })?;
    Ok(all)
}

/// Reads the matches of pairs of images, in the order of their names.
///
/// # Errors
/// The file is not an archive, a name is not two names, or an array is not a list of pairs of indices.
pub fn pairs(bytes: &[u8]) -> Result<Vec<ImagePair>, InvalidEntry> {
    let mut all = Vec::new();
    for_each_array(bytes, |name, columns, rows| {
        let Some((a, b)) = name.split_once(' ').filter(|(_, b)| !b.contains(' ')) else {
            return Err(InvalidEntry::new(
                &name,
                "is not the name of a pair (expected two names with a space between)",
            ));
        };
        if columns != 2 && !rows.is_empty() {
            return Err(InvalidEntry::new(&name, format!("has {columns} columns (expected 2)")));
        }
        let place = |v: f64| (v >= 0.0 && v < f64::from(u32::MAX) && v.fract() == 0.0).then_some(v as u32);
        let matches = rows.as_chunks::<2>().0.iter().map(|row| Some([place(row[0])?, place(row[1])?]));
        let matches = matches.collect::<Option<Vec<_>>>();
        let matches =
            matches.ok_or_else(|| InvalidEntry::new(&name, "holds values that are not indices (0, 1, …)"))?;
        all.push(ImagePair { names: [a.to_owned(), b.to_owned()], matches });
        Ok(())
    })?;
    all.sort_by(|a: &ImagePair, b| a.names.cmp(&b.names));
    Ok(all)
}

/// Passes each array to `take`: its name, its columns, its numbers row by row.
fn for_each_array(
    bytes: &[u8],
    mut take: impl FnMut(String, usize, Vec<f64>) -> Result<(), InvalidEntry>,
) -> Result<(), InvalidEntry> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))
        .map_err(|e| InvalidEntry::new("archive", format!("not a .npz: {e}")))?;
    let mut left = MAX_INFLATED_BYTES.min(MAX_RATIO.saturating_mul(bytes.len() as u64));
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).map_err(|e| InvalidEntry::new(format!("array {at}"), e))?;
        let name = match file.name() {
            Ok(name) => name.trim_end_matches(".npy").to_owned(),
            Err(e) => return Err(InvalidEntry::new(format!("array {at}"), e)),
        };
        let (columns, numbers) = read_array(&mut file, &mut left)
            .map_err(|problem| InvalidEntry::new(format!("array {:?}", excerpt(&name)), problem))?;
        take(name, columns, numbers)?;
    }
    Ok(())
}

/// Why an array cannot be read.
#[derive(Debug, thiserror::Error)]
enum ArrayError {
    #[error("is cut off")]
    CutOff,
    #[error("not a .npy")]
    NotNumpy,
    #[error("has a header of {0} bytes (expected at most {MAX_HEADER})")]
    HeaderLength(usize),
    #[error("is in Fortran order (expected C order: numpy.ascontiguousarray)")]
    FortranOrder,
    #[error("does not have two axes (expected rows and columns)")]
    Axes,
    #[error("has elements of type {:?} (expected <f4, <f8, <i4, <i8, <u2, <u4 or <u8)", excerpt(.0))]
    ElementType(String),
    #[error("is too large")]
    TooLarge,
    #[error("inflates to more than expected of measurements")]
    Inflated,
    #[error(transparent)]
    Read(#[from] std::io::Error),
}

/// Number of columns, and the numbers of one array (`.npz` member, `.npy` 1 to 3) of two axes, in C order.
fn read_array(file: &mut impl Read, left: &mut u64) -> Result<(usize, Vec<f64>), ArrayError> {
    let cut_off = |_| ArrayError::CutOff;
    let mut head = [0; 8];
    file.read_exact(&mut head).map_err(cut_off)?;
    if head[..6] != *b"\x93NUMPY" {
        return Err(ArrayError::NotNumpy);
    }
    let mut length = [0; 4];
    let wide = if head[6] >= 2 { 4 } else { 2 };
    file.read_exact(&mut length[..wide]).map_err(cut_off)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(ArrayError::HeaderLength(length));
    }
    let mut header = vec![0; length];
    file.read_exact(&mut header).map_err(cut_off)?;
    let header = String::from_utf8_lossy(&header).into_owned();
    let after = |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start_matches([':', ' ']));
    let kind = after("'descr'").and_then(|rest| rest.split('\'').nth(1)).unwrap_or_default().to_owned();
    if !after("'fortran_order'").is_some_and(|rest| rest.starts_with("False")) {
        return Err(ArrayError::FortranOrder);
    }
    let shape =
        after("'shape'").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).map(|(shape, _)| shape);
    let shape: Option<Vec<u64>> = shape
        .map(|s| s.split(',').map(str::trim).filter(|d| !d.is_empty()).map(|d| d.parse().ok()).collect())
        .and_then(|dimensions: Option<Vec<u64>>| dimensions);
    let (rows, columns) = match shape.as_deref() {
        Some([rows, columns]) => (*rows, *columns),
        // NumPy's empty list has one axis.
        Some([0]) => (0, 2),
        _ => return Err(ArrayError::Axes),
    };
    let read: fn(&[u8]) -> f64 = match kind.as_str() {
        "<f4" => |b| f64::from(f32::from_le_bytes(to_array(b))),
        "<f8" => |b| f64::from_le_bytes(to_array(b)),
        "<i4" => |b| f64::from(i32::from_le_bytes(to_array(b))),
        "<i8" => |b| i64::from_le_bytes(to_array(b)) as f64,
        "<u4" => |b| f64::from(u32::from_le_bytes(to_array(b))),
        "<u8" => |b| u64::from_le_bytes(to_array(b)) as f64,
        "<u2" => |b| f64::from(u16::from_le_bytes(to_array(b))),
        _ => return Err(ArrayError::ElementType(kind)),
    };
    let size = u64::from(kind.as_bytes()[2] - b'0');
    let count = rows.checked_mul(columns).filter(|&n| n <= MAX_ELEMENTS).ok_or(ArrayError::TooLarge)?;
    *left = left.checked_sub(count * size).ok_or(ArrayError::Inflated)?;
    let mut data = Vec::new();
    file.take(count * size).read_to_end(&mut data)?;
    if data.len() as u64 != count * size {
        return Err(ArrayError::CutOff);
    }
    Ok((columns as usize, data.chunks_exact(size as usize).map(read).collect()))
}

/// The bytes of a number of N bytes.
fn to_array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|k| bytes.get(k).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn archive(entries: &[(&str, &str, &str, &[u8])]) -> Vec<u8> {
        let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, kind, shape, data) in entries {
            out.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
            let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
            out.write_all(b"\x93NUMPY\x01\x00").unwrap();
            out.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
            out.write_all(header.as_bytes()).unwrap();
            out.write_all(data).unwrap();
        }
        out.finish().unwrap().into_inner()
    }

    #[test]
    fn arrays_are_read() {
        let xy: Vec<u8> = [1.5f32, 2.5, 9.0, 3.0, 4.0, 9.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let found = keypoints(&archive(&[("v/a.jpg", "<f4", "(2, 3)", &xy)])).unwrap();
        assert_eq!(found["v/a.jpg"], [[1.5, 2.5], [3.0, 4.0]]);
        let places: Vec<u8> = [0i64, 7].iter().flat_map(|v| v.to_le_bytes()).collect();
        let found =
            pairs(&archive(&[("b c", "<i8", "(1, 2)", &places), ("a b", "<i8", "(0,)", &[])])).unwrap();
        assert_eq!((found[0].names[0].as_str(), found[1].matches.as_slice()), ("a", &[[0, 7]][..]));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let minus: Vec<u8> = [0i32, -1].iter().flat_map(|v| v.to_le_bytes()).collect();
        for (kind, shape, data, line) in [
            ("<i4", "(1, 2)", &minus[..], "a b: holds values that are not indices"),
            ("<i4", "(1, 3)", &[0; 12], "a b: has 3 columns"),
            ("<i4", "(9, 2)", &minus, "array \"a b\": is cut off"),
            ("<i4", "(99999999, 99999999)", &[], "array \"a b\": is too large"),
            ("<i4", "(999999, 2)", &[], "array \"a b\": inflates to more"),
            ("|O", "(1, 2)", &[], "array \"a b\": has elements of type \"|O\""),
            ("<i4", "(1,)", &[], "array \"a b\": does not have two axes"),
        ] {
            let found = pairs(&archive(&[("a b", kind, shape, data)])).unwrap_err().to_string();
            assert!(found.starts_with(line), "{found}");
        }
        assert!(
            pairs(&archive(&[("ab", "<i4", "(1, 2)", &minus)]))
                .unwrap_err()
                .to_string()
                .contains("not the name of a pair")
        );
        assert!(pairs(b"PK").unwrap_err().to_string().starts_with("archive: not a .npz"));
    }
}
