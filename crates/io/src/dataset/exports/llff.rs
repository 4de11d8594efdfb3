//! LLFF's `poses_bounds.npy`: one row of 17 numbers per picture, pictures sorted by name.
//!
//! ```text
//! 3x5, row by row: world_from_camera (columns: down, right, backwards), centre, (height, width, focal length in px)
//! near, far        ignored
//! ```
//! Source: Mildenhall et al. 2019, released code, "Using your own poses without running COLMAP".

use std::sync::Arc;

use super::lens::{Distortion, ExportLens, LensUnit, perspective};
use super::{Export, ExportError, ExportFrame, pose_from_centre};
use crate::dataset::limits::MAX_IMAGES;
use crate::file_problem::FileProblem;

/// Numbers of a row.
const ROW: usize = 17;

/// Parses the rows; `names` are the pictures, sorted.
///
/// # Errors
/// Not an array of floats of shape (N, 17), or another number of names.
pub fn parse(bytes: &[u8], names: &[String]) -> Result<Export, FileProblem> {
    let rows = rows(bytes)?;
    if rows.len() != names.len() {
        let problem = format!(
            "{} poses for {} pictures (expected as many: LLFF has no names, only their order)",
            rows.len(),
            names.len()
        );
        return Err(FileProblem::new("rows", problem));
    }
    let mut found = Export::default();
    for (name, row) in names.iter().zip(rows) {
        let (mut r, mut centre, mut last) = ([[0.0; 3]; 3], [0.0; 3], [0.0; 3]);
        for (i, five) in row[..15].chunks_exact(5).enumerate() {
            // Columns x right, y down, z forward.
            r[i] = [five[1], five[0], -five[2]];
            (centre[i], last[i]) = (five[3], five[4]);
        }
        let pose = pose_from_centre(gausset_core::se3::transpose(&r), centre).map_err(Into::into);
        found.frames.push(ExportFrame { name: name.clone(), pose, lens: Arc::new(lens(last)) });
    }
    Ok(found)
}

fn lens([height, width, focal]: [f64; 3]) -> Result<ExportLens, ExportError> {
    let size = super::json::size(super::json::Number(width), super::json::Number(height))?;
    let (model, params) = perspective([focal; 2], [0.0; 2], Distortion::default())?;
    Ok(ExportLens { model, size: Some(size), unit: LensUnit::PixelFromMiddle, params })
}

/// The rows of a `.npy` file of f32 or f64.
fn rows(bytes: &[u8]) -> Result<Vec<[f64; ROW]>, FileProblem> {
    let bad = |problem: &str| {
        FileProblem::new("header", format!("{problem} (expected f4 or f8 of shape (N, {ROW}))"))
    };
    let (text, data) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, rest @ ..] => {
            rest.split_at_checked(usize::from(u16::from_le_bytes([*a, *b])))
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, rest @ ..] => {
            rest.split_at_checked(u32::from_le_bytes([*a, *b, *c, *d]) as usize)
        }
        _ => return Err(bad("not a .npy file")),
    }
    .ok_or_else(|| bad("the file ends in it"))?;
    let text: String = String::from_utf8_lossy(text).split_ascii_whitespace().collect();
    let after = |key: &str| text.split_once(key).map_or("", |(_, rest)| rest);
    let descr = after("'descr':'").split('\'').next().unwrap_or_default();
    let by_columns = after("'fortran_order':").starts_with("True");
    let shape = after("'shape':(").split(')').next().unwrap_or_default();
    let shape: Vec<usize> = shape.split(',').filter_map(|side| side.parse().ok()).collect();
    let values: Vec<f64> = match descr {
        "<f8" => data.chunks_exact(8).filter_map(|v| Some(f64::from_le_bytes(v.try_into().ok()?))).collect(),
        "<f4" => {
            data.chunks_exact(4).filter_map(|v| Some(f32::from_le_bytes(v.try_into().ok()?).into())).collect()
        }
        _ => return Err(bad("another type of numbers")),
    };
    match shape[..] {
        [count, ROW] if count as u64 <= MAX_IMAGES && values.len() >= count * ROW => {
            let at = |i: usize, k: usize| if by_columns { k * count + i } else { i * ROW + k };
            let value = |i, k| values.get(at(i, k)).copied().unwrap_or(f64::NAN);
            Ok((0..count).map(|i| std::array::from_fn(|k| value(i, k))).collect())
        }
        [_, ROW] => Err(bad("too few numbers, or too many rows")),
        _ => Err(bad("another shape")),
    }
}
