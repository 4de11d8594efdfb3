//! Model files: a fitted field with the units of its values and coordinates, as safetensors.
//!
//! | tensor | shape | type |
//! |---|---|---|
//! | `means` | (N, 3) | F32 or F64 |
//! | `chol` | (N, 6) | raw factors `L00 L10 L11 L20 L21 L22`, logs on the diagonal |
//! | `weights` | (N) | raw weights |
//!
//! Metadata (all text): `format` = `gausset-field/1`, `weight_mode`, `cov`, `offset` and `scale`
//! (`value = offset + scale f(x)`), `affine` (16 numbers, row-major: world from model coordinates), `bbox` (6 numbers, lo then hi, model
//! coordinates), `peak`, and for volumes `dims` and `spacing` (model coordinates are `index * spacing`). The tensors
//! alone define the field.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{FileSystem, WriteError, WriteOptions, write_atomic_with};
use gausset_io::input;
use gausset_io::text::quote;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::ContentError;
use crate::field::{CovarianceKind, FieldBounds, GaussianField, WeightMode};
use crate::fit::Grid;
use crate::input::{Affine, IDENTITY};
use crate::memory;

/// Value of `format`.
pub const FORMAT: &str = "gausset-field/1";

/// A field with the units of its values and coordinates.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldModel {
    /// The field, model coordinates.
    pub field: GaussianField<f64>,
    /// Value where the field is 0.
    pub offset: f64,
    /// Value per unit of the field.
    pub scale: f64,
    /// Map from model coordinates to world positions.
    pub world_from_model: Affine,
    /// Range of the data to which it was fitted.
    pub peak: f64,
    /// Grid to which it was fitted, if there was one.
    pub grid: Option<Grid>,
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file cannot be read.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file that could not be read.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The contents are invalid.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file with the invalid contents.
        path: PathBuf,
        /// What is wrong, with its place.
        what: Box<ContentError>,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl FieldModel {
    /// A model whose values and world coordinates are those of the field.
    #[must_use]
    pub fn from_field(field: GaussianField<f64>) -> Self {
        Self { field, offset: 0.0, scale: 1.0, world_from_model: IDENTITY, peak: 1.0, grid: None }
    }

    /// The model's value for a value of the field.
    #[must_use]
    pub fn value(&self, f: f64) -> f64 {
        self.offset + self.scale * f
    }

    /// Map from world positions to model coordinates; `None` if it cannot be inverted.
    #[must_use]
    pub fn model_from_world(&self) -> Option<Affine> {
        let m = &self.world_from_model;
        let minor =
            |r0: usize, r1: usize, c0: usize, c1: usize| m[r0][c0] * m[r1][c1] - m[r0][c1] * m[r1][c0];
        let cofactors = [
            [minor(1, 2, 1, 2), -minor(0, 2, 1, 2), minor(0, 1, 1, 2)],
            [-minor(1, 2, 0, 2), minor(0, 2, 0, 2), -minor(0, 1, 0, 2)],
            [minor(1, 2, 0, 1), -minor(0, 2, 0, 1), minor(0, 1, 0, 1)],
        ];
        let det = m[0][0] * cofactors[0][0] + m[0][1] * cofactors[1][0] + m[0][2] * cofactors[2][0];
        let inverse = cofactors.map(|row| row.map(|v| v / det));
        let is_good = det != 0.0 && inverse.as_flattened().iter().all(|v| v.is_finite());
        is_good.then(|| inverse.map(|[a, b, c]| [a, b, c, -(a * m[0][3] + b * m[1][3] + c * m[2][3])]))
    }

    /// The bytes of the file. Numbers are stored as f32 if that is accurate enough: lengths to a thousandth of σ, and no
    /// number too large.
    ///
    /// ```
    /// use gausset_field::model::FieldModel;
    /// use gausset_field::{CovarianceKind, GaussianField, WeightMode};
    ///
    /// let (means, chol) = (vec![[0.5; 3]], vec![[0.0; 6]]);
    /// let field = GaussianField::new(means, chol, vec![2.0], WeightMode::Raw, CovarianceKind::Full)?;
    /// let model = FieldModel::from_field(field);
    /// assert_eq!(FieldModel::parse(&model.to_bytes())?, model);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let off_diagonals = self.field.chol.iter().flat_map(|c| [c[1], c[3], c[4]]);
        let lengths = self.field.means.as_flattened().iter().copied().chain(off_diagonals);
        let largest = lengths.fold(0.0f64, |most, v| most.max(v.abs()));
        let thinnest = self.field.chol.iter().flat_map(|c| [c[0], c[2], c[5]]).fold(f64::INFINITY, f64::min);
        let is_accurate = largest * f64::from(f32::EPSILON) < 1e-4 * libm::exp(thinnest);
        let arrays = [self.field.means.as_flattened(), self.field.chol.as_flattened(), &self.field.weights];
        let are_small = arrays.into_iter().flatten().all(|v| (*v as f32).is_finite());
        let is_single = (is_accurate && are_small) || self.field.is_empty();
        let n = self.field.len();
        let bytes = |values: &mut dyn Iterator<Item = f64>| -> Vec<u8> {
            match is_single {
                true => values.flat_map(|v| (v as f32).to_le_bytes()).collect(),
                false => values.flat_map(f64::to_le_bytes).collect(),
            }
        };
        let dtype = if is_single { Dtype::F32 } else { Dtype::F64 };
        let means = bytes(&mut self.field.means.as_flattened().iter().copied());
        let chol = bytes(&mut self.field.chol.as_flattened().iter().copied());
        let weights = bytes(&mut self.field.weights.iter().copied());
        let views: Vec<(&str, TensorView<'_>)> =
            [("means", vec![n, 3], &means), ("chol", vec![n, 6], &chol), ("weights", vec![n], &weights)]
                .into_iter()
                .filter_map(|(name, shape, data)| Some((name, TensorView::new(dtype, shape, data).ok()?)))
                .collect();
        serialize(views, self.metadata())
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        let list = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        let mut affine = self.world_from_model.as_flattened().to_vec();
        affine.extend([0.0, 0.0, 0.0, 1.0]);
        let mut metadata = vec![
            ("format", FORMAT.to_owned()),
            ("weight_mode", self.field.weight_mode.name().to_owned()),
            ("cov", self.field.covariance.name().to_owned()),
            ("offset", self.offset.to_string()),
            ("scale", self.scale.to_string()),
            ("affine", list(&affine)),
            ("peak", self.peak.to_string()),
        ];
        if let Some(bounds) = self.field.bounds {
            metadata.push(("bbox", list(&[bounds.lo, bounds.hi].concat())));
        }
        if let Some(grid) = self.grid {
            metadata.push(("dims", list(&grid.dims.map(|d| d as f64))));
            metadata.push(("spacing", list(&grid.spacing)));
        }
        metadata
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, fs: &dyn FileSystem, path: &Path, options: &WriteOptions) -> Result<u64, ModelError> {
        let bytes = self.to_bytes();
        let written =
            write_atomic_with(fs, path, options, |writer| std::io::Write::write_all(writer, &bytes))?;
        Ok(written.1.bytes)
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a model.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let bytes = input::read(path, memory::max_file_bytes())
            .map_err(|source| ModelError::Io { path: path.to_owned(), source })?;
        Self::parse(&bytes)
            .map_err(|what| ModelError::Content { path: path.to_owned(), what: Box::new(what) })
    }

    /// Parses the bytes of a model file.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        let not_ours =
            |error| ContentError::unread("header", format_args!("not a safetensors file ({error})"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_ours)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(not_ours)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        if let Some(format) = metadata.get("format").filter(|format| *format != FORMAT) {
            return Err(unexpected("format", format_args!("`{FORMAT}`"), quote(format)));
        }
        let (n, weights) = tensor(&tensors, "weights", None)?;
        let (_, means) = tensor(&tensors, "means", Some((n, 3)))?;
        let (_, chol) = tensor(&tensors, "chol", Some((n, 6)))?;
        let word = |key: &str, default: &str| metadata.get(key).map_or(default, String::as_str).to_owned();
        let weight_mode = word("weight_mode", "raw");
        let weight_mode = WeightMode::from_name(&weight_mode)
            .ok_or_else(|| unexpected("weight_mode", "raw, softplus or sigmoid", quote(&weight_mode)))?;
        let covariance = word("cov", "full");
        let covariance = CovarianceKind::from_name(&covariance)
            .ok_or_else(|| unexpected("cov", "full or diag", quote(&covariance)))?;
        let mut field = GaussianField::new(
            means.as_chunks().0.to_vec(),
            chol.as_chunks().0.to_vec(),
            weights,
            weight_mode,
            covariance,
        )?;
        let affine = numbers::<16>(&metadata, "affine")?;
        let world_from_model =
            affine.map_or(IDENTITY, |a| std::array::from_fn(|r| std::array::from_fn(|c| a[4 * r + c])));
        if let Some(b) = numbers::<6>(&metadata, "bbox")? {
            let bounds = FieldBounds { lo: [b[0], b[1], b[2]], hi: [b[3], b[4], b[5]] };
            if (0..3).any(|k| bounds.lo[k] > bounds.hi[k]) {
                return Err(unexpected("bbox", "lo <= hi", format_args!("{b:?}")));
            }
            field.bounds = Some(bounds);
        }
        let one = |key: &str, default: f64| {
            Ok::<_, ContentError>(numbers::<1>(&metadata, key)?.map_or(default, |v| v[0]))
        };
        let grid = match (numbers::<3>(&metadata, "dims")?, numbers::<3>(&metadata, "spacing")?) {
            (Some(dims), Some(spacing))
                if dims.iter().all(|d| *d >= 1.0 && *d < 1e9 && d.fract() == 0.0)
                    && spacing.iter().all(|s| *s > 0.0) =>
            {
                Some(Grid { dims: dims.map(|d| d as usize), spacing })
            }
            (None, None) => None,
            (dims, spacing) => {
                let found = format_args!("{dims:?}, {spacing:?}");
                return Err(ContentError::unusable("metadata", "dims and spacing make no grid", found));
            }
        };
        let scale = one("scale", 1.0)?;
        Ok(Self {
            field,
            offset: one("offset", 0.0)?,
            scale,
            world_from_model,
            peak: one("peak", scale.abs())?,
            grid,
        })
    }
}

/// An entry of the metadata that cannot be used.
fn unexpected(key: &str, expected: impl Display, found: impl Display) -> ContentError {
    ContentError::unexpected("metadata", key, expected, found)
}

/// Serialises tensors with metadata in a fixed order.
pub(crate) fn serialize(views: Vec<(&str, TensorView<'_>)>, metadata: Vec<(&str, String)>) -> Vec<u8> {
    // The crate keeps metadata in a hash map, whose order varies between runs. So the metadata are inserted here into
    // the JSON header.
    let Ok(plain) = safetensors::serialize(views, None) else { return Vec::new() };
    let Some((length, rest)) = plain.split_first_chunk::<8>() else { return plain };
    let length = u64::from_le_bytes(*length) as usize;
    let (header, data) = rest.split_at(length.min(rest.len()));
    let pairs: Vec<String> = metadata
        .iter()
        .map(|(key, value)| {
            format!("{}:{}", serde_json::Value::from(*key), serde_json::Value::from(value.as_str()))
        })
        .collect();
    let header = String::from_utf8_lossy(header);
    let body = header.trim_end().strip_prefix('{').unwrap_or_default();
    let comma = if body == "}" { "" } else { "," };
    let mut header = format!("{{\"__metadata__\":{{{}}}{comma}{body}", pairs.join(","));
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(data);
    out
}

/// A tensor of floats as f64, with its number of rows.
pub(crate) fn tensor(
    tensors: &SafeTensors<'_>,
    name: &str,
    shape: Option<(usize, usize)>,
) -> Result<(usize, Vec<f64>), ContentError> {
    let place = format!("tensor `{name}`");
    let view = tensors.tensor(name).map_err(|_| ContentError::unread(&place, "missing"))?;
    let found = view.shape();
    let rows = match (shape, found) {
        (None, [n]) => *n,
        (Some((n, columns)), [rows, c]) if *rows == n && *c == columns => n,
        _ => {
            let expected = shape.map_or("(N)".to_owned(), |(n, c)| format!("({n}, {c})"));
            return Err(ContentError::unexpected(place, "wrong shape", expected, format_args!("{found:?}")));
        }
    };
    let values = match view.dtype() {
        Dtype::F32 => view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
        Dtype::F64 => view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        other => {
            let found = format_args!("{other:?}");
            return Err(ContentError::unexpected(place, "wrong type", "F32 or F64", found));
        }
    };
    Ok((rows, values))
}

/// A list of finite numbers in the metadata.
pub(crate) fn numbers<const N: usize>(
    metadata: &HashMap<String, String>,
    key: &str,
) -> Result<Option<[f64; N]>, ContentError> {
    let Some(text) = metadata.get(key) else { return Ok(None) };
    let values: Option<Vec<f64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let values = values.filter(|v| v.iter().all(|x: &f64| x.is_finite()));
    let values = values.and_then(|v| <[f64; N]>::try_from(v).ok());
    values.map(Some).ok_or_else(|| unexpected(key, format_args!("{N} numbers"), quote(text)))
}
