//! The 8x8 cosine transform and its inverse, on rows of 8 lanes.
//!
//! Arai, Agui and Nakajima's form (1988): five products and 29 sums per line; the remaining scaling is folded into the
//! quantisation. Coefficients are stored transposed (`8 u + v`), which saves one of two transpositions in each
//! direction. f32 with IEEE products and sums in a fixed order: the bytes are the same at every SIMD level.

use gausset_compute::fearless_simd::{f32x8, i32x8, prelude::*};

/// `cos(kπ/16) √2` for k > 0, 1 for k = 0: the scale of frequency k that remains after the AAN transform.
const AAN: [f64; 8] =
    [1.0, 1.387_039_845, 1.306_562_965, 1.175_875_602, 1.0, 0.785_694_958, 0.541_196_100, 0.275_899_379];

/// Factors that turn the output of [`forward`] into quantised coefficients; transposed order.
#[must_use]
pub fn forward_scale(quantisation: &[u8; 64]) -> [f32; 64] {
    std::array::from_fn(|i| {
        let (u, v) = (i / 8, i % 8);
        (1.0 / (f64::from(quantisation[8 * v + u]) * AAN[u] * AAN[v] * 8.0)) as f32
    })
}

/// Factors that turn quantised coefficients into the input of [`inverse`]; transposed order.
#[must_use]
pub fn inverse_scale(quantisation: &[u16; 64]) -> [f32; 64] {
    std::array::from_fn(|i| {
        let (u, v) = (i / 8, i % 8);
        (f64::from(quantisation[8 * v + u]) * AAN[u] * AAN[v] / 8.0) as f32
    })
}

type Rows<S> = [f32x8<S>; 8];

#[inline(always)]
fn transpose<S: Simd>(m: Rows<S>) -> Rows<S> {
    let mut m = m;
    for _ in 0..3 {
        let mut next = m;
        for i in 0..4 {
            next[2 * i] = m[i].zip_low(m[i + 4]);
            next[2 * i + 1] = m[i].zip_high(m[i + 4]);
        }
        m = next;
    }
    m
}

/// One dimension of the forward transform, along the vectors.
#[inline(always)]
fn forward_1d<S: Simd>(simd: S, d: Rows<S>) -> Rows<S> {
    let c = |x: f32| f32x8::splat(simd, x);
    let (t0, t7) = (d[0] + d[7], d[0] - d[7]);
    let (t1, t6) = (d[1] + d[6], d[1] - d[6]);
    let (t2, t5) = (d[2] + d[5], d[2] - d[5]);
    let (t3, t4) = (d[3] + d[4], d[3] - d[4]);
    let (e0, e3) = (t0 + t3, t0 - t3);
    let (e1, e2) = (t1 + t2, t1 - t2);
    let z1 = (e2 + e3) * c(0.707_106_77);
    let (o0, o1, o2) = (t4 + t5, t5 + t6, t6 + t7);
    let z5 = (o0 - o2) * c(0.382_683_43);
    let z2 = o0 * c(0.541_196_1) + z5;
    let z4 = o2 * c(1.306_563) + z5;
    let z3 = o1 * c(0.707_106_77);
    let (z11, z13) = (t7 + z3, t7 - z3);
    [e0 + e1, z11 + z4, e3 + z1, z13 - z2, e0 - e1, z13 + z2, e3 - z1, z11 - z4]
}

/// One dimension of the inverse transform, along the vectors.
#[inline(always)]
fn inverse_1d<S: Simd>(simd: S, d: Rows<S>) -> Rows<S> {
    let c = |x: f32| f32x8::splat(simd, x);
    let (a, b) = (d[0] + d[4], d[0] - d[4]);
    let sum = d[2] + d[6];
    let difference = (d[2] - d[6]) * c(std::f32::consts::SQRT_2) - sum;
    let (e0, e3) = (a + sum, a - sum);
    let (e1, e2) = (b + difference, b - difference);
    let (z13, z10) = (d[5] + d[3], d[5] - d[3]);
    let (z11, z12) = (d[1] + d[7], d[1] - d[7]);
    let o7 = z11 + z13;
    let mid = (z11 - z13) * c(std::f32::consts::SQRT_2);
    let z5 = (z10 + z12) * c(1.847_759_1);
    let t10 = z5 - z12 * c(1.082_392_2);
    let t12 = z5 - z10 * c(2.613_126);
    let o6 = t12 - o7;
    let o5 = mid - o6;
    let o4 = t10 - o5;
    [e0 + o7, e1 + o6, e2 + o5, e3 + o4, e3 - o4, e2 - o5, e1 - o6, e0 - o7]
}

/// Transforms a block of samples (first row at `samples[0]`, rows `stride` apart) and quantises it.
#[inline(always)]
pub fn forward<S: Simd>(simd: S, samples: &[u8], stride: usize, scale: &[f32; 64], out: &mut [i16; 64]) {
    let mut rows = [f32x8::splat(simd, 0.0); 8];
    for (y, row) in rows.iter_mut().enumerate() {
        let mut values = [0.0f32; 8];
        let source: &[u8; 8] = match samples[y * stride..].first_chunk() {
            Some(eight) => eight,
            None => &[128; 8],
        };
        for k in 0..8 {
            values[k] = f32::from(source[k]) - 128.0;
        }
        *row = f32x8::load_array_ref(simd, &values);
    }
    let rows = forward_1d(simd, transpose(forward_1d(simd, rows)));
    for (u, pair) in out.chunks_exact_mut(8).enumerate() {
        let factors: &[f32; 8] = scale[8 * u..].first_chunk().unwrap_or(&[0.0; 8]);
        let quantised: i32x8<S> = (rows[u] * f32x8::load_array_ref(simd, factors)).round_ties_even().to_int();
        let values: [i32; 8] = quantised.to_array();
        for k in 0..8 {
            pair[k] = values[k] as i16;
        }
    }
}

/// Scales a block of coefficients, transforms it back and stores 8 rows of 8 samples, `stride` apart.
#[inline(always)]
pub fn inverse<S: Simd>(simd: S, block: &[i16; 64], scale: &[f32; 64], out: &mut [u8], stride: usize) {
    let mut rows = [f32x8::splat(simd, 0.0); 8];
    for (u, row) in rows.iter_mut().enumerate() {
        let mut values = [0.0f32; 8];
        for k in 0..8 {
            values[k] = f32::from(block[8 * u + k]);
        }
        let factors: &[f32; 8] = scale[8 * u..].first_chunk().unwrap_or(&[0.0; 8]);
        *row = f32x8::load_array_ref(simd, &values) * f32x8::load_array_ref(simd, factors);
    }
    let rows = inverse_1d(simd, transpose(inverse_1d(simd, rows)));
    let (grey, low, high) = (f32x8::splat(simd, 128.5), f32x8::splat(simd, 0.0), f32x8::splat(simd, 255.5));
    for (y, row) in rows.into_iter().enumerate() {
        // Truncation after adding one half rounds, because no value is negative.
        let whole: i32x8<S> = (row + grey).max(low).min(high).to_int();
        let values: [i32; 8] = whole.to_array();
        let Some(target) = out[y * stride..].first_chunk_mut::<8>() else { return };
        for k in 0..8 {
            target[k] = values[k] as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::{SimdLevel, at_level, dispatch_level};

    fn cosine(u: usize, x: usize) -> f64 {
        let c = if u == 0 { 0.5f64.sqrt() } else { 1.0 };
        0.5 * c * ((2 * x + 1) as f64 * u as f64 * std::f64::consts::PI / 16.0).cos()
    }

    #[test]
    fn the_transform_is_that_of_the_standard_in_both_directions_and_at_every_level() {
        let samples: Vec<u8> = (0..64u32).map(|i| (i * i * 37 % 251) as u8).collect();
        let ones = forward_scale(&[1; 64]);
        let mut first = None;
        for wanted in SimdLevel::ALL {
            let Some(level) = dispatch_level(wanted) else { continue };
            let mut out = [0i16; 64];
            at_level!(level, simd => forward(simd, &samples, 8, &ones, &mut out));
            for u in 0..8 {
                for v in 0..8 {
                    let mut exact = 0.0;
                    for y in 0..8 {
                        for x in 0..8 {
                            exact += (f64::from(samples[8 * y + x]) - 128.0) * cosine(u, x) * cosine(v, y);
                        }
                    }
                    assert!((f64::from(out[8 * u + v]) - exact).abs() < 0.501, "{u},{v}");
                }
            }
            let mut back = [0u8; 64];
            at_level!(level, simd => inverse(simd, &out, &inverse_scale(&[1; 64]), &mut back, 8));
            // Rounding coefficients to integers changes samples by less than two.
            assert!(samples.iter().zip(&back).all(|(a, b)| a.abs_diff(*b) <= 1));
            assert_eq!(*first.get_or_insert((out, back)), (out, back), "{}", wanted.level_name());
        }
    }
}
