//! Exposure: a 3x4 affine on the rendered colour, and its VJP.
//!
//! `corrected_i = Σ_j m_ij colour_j + m_i3`, so with upstream gradient `g`
//! `∂colour_j = Σ_i m_ij g_i`, `∂m_ij = Σ_pixels g_i colour_j` and `∂m_i3 = Σ_pixels g_i`.
//! Sums are taken in f32 along a row of pixels, lane by lane, then in f64: lanes, rows and bands of 16 rows in order.

use fearless_simd::{Simd, prelude::*};
use gausset_compute::simd::{LANES, Row, fma, load, splat, store};
use gausset_compute::{Exec, at_level};

use crate::planes::{Planes, split, split_mut, sum_in_f64};

/// A row-major 3x4 affine: `out_i = Σ_j m[4 i + j] colour_j + m[4 i + 3]`.
pub type Exposure = [f32; 12];

/// The exposure that changes nothing.
pub const IDENTITY: Exposure = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];

/// Pixel rows of a task.
const BAND_ROWS: usize = 16;

/// `corrected = exposure(render)`; `corrected` takes the size of `render`, what its padding holds is not defined.
pub fn apply_exposure(exec: Exec<'_>, exposure: &Exposure, render: &Planes, corrected: &mut Planes) {
    corrected.resize(render.width(), render.height());
    let row_len = render.row_len();
    let render = render.as_slice();
    exec.pool.run_chunks(corrected.as_mut_slice(), BAND_ROWS * row_len.max(1), |band, out| {
        let rows = &render[band * BAND_ROWS * row_len..][..out.len()];
        for (row, out) in rows.chunks_exact(row_len).zip(out.chunks_exact_mut(row_len)) {
            at_level!(exec.level, simd => apply_row(simd, exposure, split(row), split_mut(out)));
        }
    });
}

/// The VJP of [`apply_exposure`]: turns `gradient` from d loss / d corrected into d loss / d render, in place, and
/// returns d loss / d exposure. Padding takes no part; that of the gradient becomes 0.
///
/// # Panics
/// If the pictures differ in size.
#[must_use]
pub fn exposure_vjp(exec: Exec<'_>, exposure: &Exposure, render: &Planes, gradient: &mut Planes) -> Exposure {
    assert_eq!(
        (render.width(), render.height()),
        (gradient.width(), gradient.height()),
        "sizes of the pictures"
    );
    let (row_len, width, height) = (render.row_len(), render.width() as usize, render.height() as usize);
    let render = render.as_slice();
    let mut parts: Vec<(&mut [f32], [f64; 12])> = gradient
        .as_mut_slice()
        .chunks_mut(BAND_ROWS * row_len.max(1))
        .map(|gradient| (gradient, [0.0; 12]))
        .collect();
    exec.pool.run_parts(&mut parts, |band, (gradient, sums)| {
        let rows = &render[band * BAND_ROWS * row_len..][..gradient.len()];
        let inside = (height - band * BAND_ROWS).min(BAND_ROWS) * row_len;
        gradient[inside..].fill(0.0);
        for (row, gradient) in rows[..inside].chunks_exact(row_len).zip(gradient.chunks_exact_mut(row_len)) {
            at_level!(exec.level, simd => vjp_row(simd, exposure, width, split(row), split_mut(gradient), sums));
        }
    });
    let mut total = [0.0; 12];
    for (_, sums) in &parts {
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    total.map(|sum| sum as f32)
}

#[inline(always)]
fn apply_row<S: Simd>(simd: S, m: &Exposure, colour: [&[Row]; 3], out: [&mut [Row]; 3]) {
    for (i, out) in out.into_iter().enumerate() {
        for (v, out) in out.iter_mut().enumerate() {
            let mut value = splat(simd, m[4 * i + 3]);
            for j in 0..3 {
                value = fma(splat(simd, m[4 * i + j]), load(simd, &colour[j][v]), value);
            }
            store(value, out);
        }
    }
}

#[inline(always)]
fn vjp_row<S: Simd>(
    simd: S,
    m: &Exposure,
    width: usize,
    colour: [&[Row]; 3],
    gradient: [&mut [Row]; 3],
    sums: &mut [f64; 12],
) {
    let [gradient_r, gradient_g, gradient_b] = gradient;
    let zero = splat(simd, 0.0);
    let last = gradient_r.len() - 1;
    let tail: Row = std::array::from_fn(|lane| if last * LANES + lane < width { 1.0 } else { 0.0 });
    let mut lanes = [zero; 12];
    for v in 0..=last {
        let mut c = [load(simd, &colour[0][v]), load(simd, &colour[1][v]), load(simd, &colour[2][v])];
        let mut g = [load(simd, &gradient_r[v]), load(simd, &gradient_g[v]), load(simd, &gradient_b[v])];
        if v == last {
            let padding = load(simd, &tail).simd_eq(zero);
            for i in 0..3 {
                c[i] = padding.select(zero, c[i]);
                g[i] = padding.select(zero, g[i]);
            }
        }
        for i in 0..3 {
            for j in 0..3 {
                lanes[4 * i + j] = fma(g[i], c[j], lanes[4 * i + j]);
            }
            lanes[4 * i + 3] += g[i];
        }
        for (j, out) in [&mut gradient_r[v], &mut gradient_g[v], &mut gradient_b[v]].into_iter().enumerate() {
            let mut sum = splat(simd, m[j]) * g[0];
            for i in 1..3 {
                sum = fma(splat(simd, m[4 * i + j]), g[i], sum);
            }
            store(sum, out);
        }
    }
    for (sum, lanes) in sums.iter_mut().zip(lanes) {
        *sum += sum_in_f64(lanes);
    }
}
