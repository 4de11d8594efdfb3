//! Conversion of a field to splats and back.
//!
//! A splat has the mean and covariance of its Gaussian. Its opacity is `0.99 |w| / max |w|` (`opacity_logits` its
//! logit), its colour encodes the sign: light for positive, blue for negative weights. In the other direction, the
//! weight is the opacity with that sign, so a field is preserved up to a factor.

use gausset_core::Splats;
use gausset_core::linalg::jacobi;
use gausset_core::matrix::{Mat3, determinant};

use crate::error::FieldError;
use crate::field::{CovarianceKind, GaussianField, WeightMode, cholesky, covariance_of, raw_factor};

/// Largest opacity of a splat.
const MAX_OPACITY: f64 = 0.99;
/// Smallest opacity, so that the logit is finite.
const MIN_OPACITY: f64 = 1e-6;
/// SH coefficients (degree 0) of the two colours.
const LIGHT: [f32; 3] = [1.5, 1.5, 1.5];
const BLUE: [f32; 3] = [-1.5, -1.0, 1.5];

/// The splats of a field.
///
/// ```
/// use gausset_field::splat::to_splats;
/// use gausset_field::{CovarianceKind, GaussianField, WeightMode};
///
/// let (means, chol) = (vec![[0.0; 3], [1.0, 2.0, 3.0]], vec![[0.0; 6]; 2]);
/// let field = GaussianField::new(means, chol, vec![1.0, -0.5], WeightMode::Raw, CovarianceKind::Full)?;
/// let splats = to_splats(&field);
/// assert_eq!(splats.means[1], [1.0, 2.0, 3.0]);
/// // The larger weight is the more opaque splat.
/// assert!(splats.opacity_logits[0] > splats.opacity_logits[1]);
/// # Ok::<(), gausset_field::FieldError>(())
/// ```
#[must_use]
pub fn to_splats(field: &GaussianField<f64>) -> Splats {
    let largest = (0..field.len()).fold(f64::MIN_POSITIVE, |most, i| most.max(field.weight(i).abs()));
    let mut splats = Splats::zeros(0, field.len());
    for i in 0..field.len() {
        let (axes, variances) = eigen(&covariance_of(&field.factor(i)));
        let weight = field.weight(i);
        let opacity = (MAX_OPACITY * weight.abs() / largest).max(MIN_OPACITY);
        splats.means[i] = field.means[i].map(|v| v as f32);
        splats.log_scales[i] = variances.map(|v| (0.5 * libm::log(v.max(f64::MIN_POSITIVE))) as f32);
        splats.quats[i] = quaternion(&axes).map(|v| v as f32);
        splats.opacity_logits[i] = libm::log(opacity / (1.0 - opacity)) as f32;
        splats.sh[3 * i..3 * i + 3].copy_from_slice(if weight < 0.0 { &BLUE } else { &LIGHT });
    }
    splats
}

/// The field of splats: weights are opacities, negative where a splat is blue.
///
/// # Errors
/// A splat does not make a valid Gaussian.
pub fn from_splats(splats: &Splats) -> Result<GaussianField<f64>, FieldError> {
    let mut field = GaussianField {
        means: splats.means.iter().map(|m| m.map(f64::from)).collect(),
        chol: Vec::with_capacity(splats.len()),
        weights: Vec::with_capacity(splats.len()),
        weight_mode: WeightMode::Raw,
        covariance: CovarianceKind::Full,
        bounds: None,
    };
    for i in 0..splats.len() {
        let q = splats.quats[i].map(f64::from);
        let r = rotation(q);
        let scale = splats.log_scales[i].map(|s| libm::exp(f64::from(s)));
        let mut s = [0.0; 6];
        for (entry, (row, column)) in crate::reference::ENTRIES.into_iter().enumerate() {
            s[entry] = (0..3).map(|k| r[row][k] * r[column][k] * scale[k] * scale[k]).sum();
        }
        let factor = cholesky(&s).ok_or(FieldError::Singular { index: i, precision: "f64" })?;
        field.chol.push(raw_factor(&factor));
        let opacity = WeightMode::Sigmoid.weight(f64::from(splats.opacity_logits[i]));
        let sh = splats.sh_coefficients(i);
        let is_blue = matches!(sh, [red, _, blue, ..] if blue - red > 2.0);
        field.weights.push(if is_blue { -opacity } else { opacity });
    }
    field.check()?;
    Ok(field)
}

/// Principal axes (columns, right-handed) and variances of a covariance.
fn eigen(s: &[f64; 6]) -> (Mat3, [f64; 3]) {
    let covariance = [[s[0], s[1], s[3]], [s[1], s[2], s[4]], [s[3], s[4], s[5]]];
    let (variances, mut axes) = jacobi(covariance, 24, |v| v == 0.0);
    if determinant(&axes) < 0.0 {
        axes.iter_mut().for_each(|row| row[2] = -row[2]);
    }
    (axes, variances)
}

/// The quaternion `wxyz` of a rotation matrix (Shepperd 1978: the largest component first).
fn quaternion(r: &[[f64; 3]; 3]) -> [f64; 4] {
    let trace = r[0][0] + r[1][1] + r[2][2];
    let largest = [trace, r[0][0], r[1][1], r[2][2]];
    let most = (1..4).fold(0, |best, k| if largest[k] > largest[best] { k } else { best });
    let q = match most {
        0 => [1.0 + trace, r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]],
        1 => [r[2][1] - r[1][2], 1.0 + r[0][0] - r[1][1] - r[2][2], r[0][1] + r[1][0], r[0][2] + r[2][0]],
        2 => [r[0][2] - r[2][0], r[0][1] + r[1][0], 1.0 - r[0][0] + r[1][1] - r[2][2], r[1][2] + r[2][1]],
        _ => [r[1][0] - r[0][1], r[0][2] + r[2][0], r[1][2] + r[2][1], 1.0 - r[0][0] - r[1][1] + r[2][2]],
    };
    let norm = q.iter().map(|v| v * v).sum::<f64>().sqrt();
    q.map(|v| v / norm)
}

/// The rotation of a quaternion of any length.
fn rotation(q: [f64; 4]) -> [[f64; 3]; 3] {
    let norm = q.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    let [w, x, y, z] = q.map(|v| v / norm);
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
}
