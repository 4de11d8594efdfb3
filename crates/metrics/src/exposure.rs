//! Exposure: a 3x4 affine on the rendered colour, and its VJP.

use fearless_simd::Level;
use gausset_compute::Pool;

use crate::Planes;

/// A row-major 3x4 affine: `out_i = Σ_j m[4 i + j] colour_j + m[4 i + 3]`.
pub type Exposure = [f32; 12];

/// The exposure that changes nothing.
pub const IDENTITY: Exposure = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];

/// `corrected = exposure(render)`; `corrected` takes the size of `render`.
pub fn apply_exposure(
    level: Level,
    pool: &Pool,
    exposure: &Exposure,
    render: &Planes,
    corrected: &mut Planes,
) {
    let _ = (level, pool, exposure, render, corrected);
    unimplemented!()
}

/// The VJP of [`apply_exposure`]: turns `gradient` from d loss / d corrected into d loss / d render, in place, and
/// returns d loss / d exposure.
///
/// # Panics
/// If the pictures differ in size.
#[must_use]
pub fn exposure_vjp(
    level: Level,
    pool: &Pool,
    exposure: &Exposure,
    render: &Planes,
    gradient: &mut Planes,
) -> Exposure {
    let _ = (level, pool, exposure, render, gradient);
    unimplemented!()
}
