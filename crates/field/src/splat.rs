//! Conversion of a field to splats and back.
//!
//! A splat has the mean and covariance of its Gaussian. Its opacity is `0.99 |w| / max |w|` (`opacity_logits` its
//! logit), its colour encodes the sign: light for positive, one blue for negative weights. In the other direction, the
//! weight is the opacity with that sign, so a field is preserved up to a factor.

use gausset_core::Splats;
use gausset_core::matrix::{
    Mat3, determinant, dot, norm, quaternion_from_rotation, rotation_from_quaternion, transpose,
};

use crate::error::FieldError;
use crate::field::{CovarianceKind, GaussianField, WeightMode, raw_factor};

/// Largest opacity of a splat.
const MAX_OPACITY: f64 = 0.99;
/// Smallest opacity, so that the logit is finite.
const MIN_OPACITY: f64 = 1e-6;
/// SH coefficients (degree 0) of the two colours.
const LIGHT: [f32; 3] = [1.5, 1.5, 1.5];
const BLUE: [f32; 3] = [-1.5, -1.0, 1.5];
/// Rounding of a coefficient by formats that keep 8 bits of a colour: half of `1 / (255 · 0.282)`.
const COLOUR_ROUNDING: f32 = 0.007;
/// Rounds of rotations of an axis pair each; they converge quadratically.
const SWEEPS: usize = 12;

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
        let (axes, scales) = principal_axes(&field.factor(i));
        let weight = field.weight(i);
        let opacity = (MAX_OPACITY * weight.abs() / largest).max(MIN_OPACITY);
        splats.means[i] = field.means[i].map(|v| v as f32);
        splats.log_scales[i] = scales.map(|v| libm::log(v.max(f64::MIN_POSITIVE)) as f32);
        splats.quats[i] = quaternion_from_rotation(&axes).map(|v| v as f32);
        splats.opacity_logits[i] = libm::log(opacity / (1.0 - opacity)) as f32;
        splats.sh[3 * i..3 * i + 3].copy_from_slice(if weight < 0.0 { &BLUE } else { &LIGHT });
    }
    splats
}

/// The field of splats: weights are opacities, negative where a splat has the blue of [`to_splats`].
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
        let rotation = rotation_from_quaternion(splats.quats[i].map(f64::from));
        let scales = splats.log_scales[i].map(|s| libm::exp(f64::from(s)));
        let factor =
            factor_of(&rotation, scales).ok_or(FieldError::Singular { index: i, precision: "f64" })?;
        field.chol.push(raw_factor(&factor));
        let opacity = WeightMode::Sigmoid.weight(f64::from(splats.opacity_logits[i]));
        let sh = splats.sh_coefficients(i);
        let is_blue = BLUE.iter().zip(sh).all(|(blue, found)| (blue - found).abs() < COLOUR_ROUNDING);
        field.weights.push(if is_blue { -opacity } else { opacity });
    }
    field.check()?;
    Ok(field)
}

/// Principal axes (columns, right-handed) and standard deviations of a Gaussian: the singular value decomposition of its
/// factor, whose columns are rotated until they are orthogonal (Hestenes 1958). Thin axes keep their relative accuracy,
/// which squares lose.
fn principal_axes(l: &[f64; 6]) -> (Mat3, [f64; 3]) {
    let mut columns = [[l[0], l[1], l[3]], [0.0, l[2], l[4]], [0.0, 0.0, l[5]]];
    for (p, q) in [(0, 1), (0, 2), (1, 2)].into_iter().cycle().take(3 * SWEEPS) {
        let (a, b) = (columns[p], columns[q]);
        let product = dot(a, b);
        if product == 0.0 {
            continue;
        }
        let theta = (dot(b, b) - dot(a, a)) / (2.0 * product);
        // The smaller rotation; +1 also for a negative zero.
        let sign = if theta < 0.0 { -1.0 } else { 1.0 };
        let tangent = sign / (theta.abs() + libm::hypot(theta, 1.0));
        let cosine = 1.0 / libm::hypot(tangent, 1.0);
        columns[p] = std::array::from_fn(|k| cosine * (a[k] - tangent * b[k]));
        columns[q] = std::array::from_fn(|k| cosine * (tangent * a[k] + b[k]));
    }
    let scales = columns.map(norm);
    let mut axes = transpose(&std::array::from_fn(|k| columns[k].map(|v| v / scales[k])));
    if determinant(&axes) < 0.0 {
        axes.iter_mut().for_each(|row| row[2] = -row[2]);
    }
    (axes, scales)
}

/// The factor of a rotation and standard deviations: `L` of `R S = L Q`, by Gram-Schmidt on the rows of `R S`; its last
/// entry from the determinant. `None` if that is singular.
fn factor_of(rotation: &Mat3, scales: [f64; 3]) -> Option<[f64; 6]> {
    let [x, y, z] = rotation.map(|row| std::array::from_fn::<_, 3, _>(|k| row[k] * scales[k]));
    let l00 = norm(x);
    let first = x.map(|v| v / l00);
    let (l10, l20) = (dot(y, first), dot(z, first));
    let rest: [f64; 3] = std::array::from_fn(|k| y[k] - l10 * first[k]);
    let l11 = norm(rest);
    let l21 = dot(z, rest.map(|v| v / l11));
    let l22 = scales[0] / l00 * (scales[1] / l11) * scales[2];
    [l00, l11, l22].iter().all(|l| *l > 0.0 && l.is_finite()).then_some([l00, l10, l11, l20, l21, l22])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_splats_and_ordinary_blue_come_back() {
        for thin in [-4.0, -14.0, -19.0, -24.0] {
            let mut splats = Splats::zeros(0, 8);
            for i in 0..8 {
                splats.quats[i] = [0.4, 0.1 * i as f32 - 0.3, 0.7, -0.2];
                splats.log_scales[i] = [-1.0, -3.0, thin];
                splats.sh[3 * i..3 * i + 3].copy_from_slice(&[-1.2, 0.1, 1.4]);
            }
            let field = from_splats(&splats).unwrap();
            assert!(field.weights.iter().all(|w| *w == 0.5), "{:?}", field.weights);
            let again = to_splats(&field);
            for (i, scales) in again.log_scales.iter().enumerate() {
                let mut scales = *scales;
                scales.sort_by(f32::total_cmp);
                let error =
                    [thin, -3.0, -1.0].iter().zip(scales).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
                assert!(error < 1e-3, "{thin}, splat {i}: {scales:?}");
                let rotation = rotation_from_quaternion(again.quats[i].map(f64::from));
                let factor =
                    factor_of(&rotation, again.log_scales[i].map(|s| libm::exp(f64::from(s)))).unwrap();
                let off = factor.iter().zip(field.factor(i)).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
                assert!(off < 1e-6, "{thin}, splat {i}: {factor:?}");
            }
        }
    }
}
