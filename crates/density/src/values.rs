//! Conversions of splat values to their stored spaces, and a check for values that are not finite.

use gausset_compute::Pool;
use gausset_core::Splats;

/// Splats per task; a constant, so that the partition does not depend on the number of threads.
const CHUNK: usize = 4096;

/// Whether each splat has a parameter that is not finite; `None` if all are finite.
pub(crate) fn non_finite_mask(splats: &Splats, pool: &Pool) -> Option<Vec<bool>> {
    let sh = splats.sh_stride();
    let mut dead = vec![false; splats.len()];
    pool.run_chunks(&mut dead, CHUNK, |chunk, dead| {
        let first = chunk * CHUNK;
        for (i, dead) in (first..).zip(dead) {
            *dead = any_not_finite(&splats.means[i])
                | any_not_finite(&splats.log_scales[i])
                | any_not_finite(&splats.quats[i])
                | !splats.opacity_logits[i].is_finite()
                | any_not_finite(&splats.sh[i * sh..(i + 1) * sh]);
        }
    });
    dead.contains(&true).then_some(dead)
}

/// Has no early exit, so that it vectorises.
fn any_not_finite(values: &[f32]) -> bool {
    values.iter().fold(false, |any, v| any | !v.is_finite())
}

/// `ln x` in f64, rounded to f32.
pub(crate) fn ln(x: f32) -> f32 {
    libm::log(f64::from(x)) as f32
}

/// The logit of an opacity in f64, rounded to f32: `-∞` at 0, `+∞` at 1.
#[must_use]
pub fn logit(opacity: f32) -> f32 {
    let o = f64::from(opacity);
    (libm::log(o) - libm::log1p(-o)) as f32
}
