//! Vector maths on 16 lanes, with the same bits at every SIMD level.
//!
//! Functions are generic over the `fearless_simd` level and always inlined; call them from inside `at_level!`. They use
//! IEEE operations (`+ - * /`, `sqrt`, fused multiply-add by `mul_add_precise`) in a fixed order, never hardware
//! estimates. Inputs must be finite; each function documents its behaviour outside its range.

use fearless_simd::{f32x16, i32x16, prelude::*, u32x16};

/// Number of lanes of every kernel.
pub const LANES: usize = 16;

/// `log2(e)`.
pub const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// `ln(2)`.
pub const LN_2: f32 = std::f32::consts::LN_2;

/// One row of a block: the unit of vector loads and stores.
pub type Row = [f32; LANES];

/// A row aligned to a cache line, so that a 16-lane load never touches two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct AlignedRow(pub Row);

/// Loads a row.
#[inline(always)]
pub fn load<S: Simd>(simd: S, row: &Row) -> f32x16<S> {
    f32x16::load_array_ref(simd, row)
}

/// Stores a row.
#[inline(always)]
pub fn store<S: Simd>(v: f32x16<S>, row: &mut Row) {
    v.store_array(row);
}

/// Builds an array from a function of the index, always inlining the function.
///
/// Closures passed to `std::array::from_fn` and `map` are not always inlined into the kernel that calls them, and a
/// call from AVX-512 code into code compiled for the baseline costs more than the kernel itself. Mark the closure
/// `#[inline(always)]`.
#[inline(always)]
pub fn array_from_fn<T: Copy, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut out = [f(0); N];
    for (i, value) in out.iter_mut().enumerate().skip(1) {
        *value = f(i);
    }
    out
}

/// Applies a function to each element; see [`array_from_fn`].
#[inline(always)]
pub fn map_array<T: Copy, U: Copy, const N: usize>(values: [T; N], mut f: impl FnMut(T) -> U) -> [U; N] {
    array_from_fn(
        #[inline(always)]
        |i| f(values[i]),
    )
}

/// Returns the closure unchanged; used to mark it `#[inline(always)]`.
#[inline(always)]
pub fn inline_closure<F>(f: F) -> F {
    f
}

/// A vector with `x` in all lanes.
#[inline(always)]
pub fn splat<S: Simd>(simd: S, x: f32) -> f32x16<S> {
    f32x16::splat(simd, x)
}

/// Whether a level lacks a fused multiply-add instruction: the baseline of x86-64, whose vectors have 4 lanes.
const fn emulates_fma<S: Simd>() -> bool {
    cfg!(any(target_arch = "x86", target_arch = "x86_64")) && <S::f32s as SimdBase<S>>::LEN == 4
}

/// The emulation takes some two hundred instructions: inlining it into the kernels would take minutes and gigabytes to
/// compile.
#[inline(never)]
fn fma_emulated<S: Simd>(a: f32x16<S>, b: f32x16<S>, c: f32x16<S>) -> f32x16<S> {
    a.mul_add_precise(b, c)
}

/// `a · b + c` with one rounding at every level.
#[inline(always)]
pub fn fma<S: Simd>(a: f32x16<S>, b: f32x16<S>, c: f32x16<S>) -> f32x16<S> {
    if const { emulates_fma::<S>() } { fma_emulated(a, b, c) } else { a.mul_add_precise(b, c) }
}

/// `c - a · b` with one rounding.
#[inline(always)]
pub fn fnma<S: Simd>(a: f32x16<S>, b: f32x16<S>, c: f32x16<S>) -> f32x16<S> {
    fma(-a, b, c)
}

/// Polynomial with coefficients from the highest power down, by Horner's rule.
#[inline(always)]
fn horner<S: Simd, const N: usize>(simd: S, x: f32x16<S>, coefficients: [f32; N]) -> f32x16<S> {
    let mut sum = splat(simd, coefficients[0]);
    for &c in &coefficients[1..] {
        sum = fma(sum, x, splat(simd, c));
    }
    sum
}

/// `2^n` for integers `n` in -126..=127.
#[inline(always)]
fn exp2_int<S: Simd>(n: i32x16<S>) -> f32x16<S> {
    let bits: u32x16<S> = ((n + 127) << 23).bitcast();
    f32x16::from_bits(bits)
}

/// `2^x`, relative error below 2.2e-7 (two ulp), exact for integers; `x` is clamped to -125..=126.
#[inline(always)]
pub fn exp2<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    exp2_bounded_above(simd, x.min(splat(simd, 126.0)))
}

/// [`exp2`] for `x` that does not exceed 126.
///
/// Adding 1.5 · 2^23 rounds `x` to an integer, which is then in the lowest bits of the sum, ready to be added to the
/// exponent of `2^fraction`. The latter is a minimax polynomial of degree 5 on [-½, ½], with its constant term rounded
/// to 1 (relative error 7.5e-8 around 7.5e-8). Lower degrees save one multiply-add each and lose a digit and a half.
#[inline(always)]
pub fn exp2_bounded_above<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    exp2_in_range(simd, x.max(splat(simd, -125.0)))
}

/// [`exp2`] for `x` in -125..=126; outside, the result is unspecified.
#[inline(always)]
pub fn exp2_in_range<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    let round = splat(simd, 12_582_912.0);
    let shifted = x + round;
    let fraction = x - (shifted - round);
    let power = horner(
        simd,
        fraction,
        [0.001_327_647_2, 0.009_675_541, 0.055_507_13, 0.240_221_2, 0.693_146_94, 1.0],
    );
    let whole: u32x16<S> = shifted.to_bits();
    let bits: u32x16<S> = power.to_bits();
    f32x16::from_bits(bits + (whole << 23))
}

/// `e^x`, relative error below 1.2e-7 (two ulp); `x` is clamped to -87..=88.
///
/// Cody-Waite reduction to ±ln(2)/2, then the Taylor polynomial of degree 7 (truncation 5e-9).
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    let x = x.max(splat(simd, -87.0)).min(splat(simd, 88.0));
    let whole = (x * splat(simd, LOG2_E)).round_ties_even();
    // ln 2 in two parts; the first has so few bits that its product with a small integer is exact.
    let r = fnma(whole, splat(simd, 0.693_359_4), x);
    let r = fnma(whole, splat(simd, -2.121_944_4e-4), r);
    let p = horner(simd, r, [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0]);
    p * exp2_int(whole.to_int::<i32x16<S>>())
}

/// Natural logarithm of positive normal numbers, relative error below 2e-7 away from 1, absolute below 1e-7 near 1.
///
/// `x = m 2^k` with m in [sqrt(1/2), sqrt(2)), `ln m = 2 artanh((m - 1)/(m + 1))` by its odd series.
#[inline(always)]
pub fn ln<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    let bits: u32x16<S> = x.to_bits();
    // Adding the distance from sqrt(1/2) to 1 carries into the exponent exactly when the mantissa is >= sqrt(2).
    let shifted = bits + (0x3F80_0000 - 0x3F35_04F3);
    let exponent: i32x16<S> = (shifted >> 23).bitcast();
    let mantissa_bits = (shifted & 0x007F_FFFF) + 0x3F35_04F3;
    let m: f32x16<S> = f32x16::from_bits(mantissa_bits);
    let k: f32x16<S> = (exponent - 127).to_float();
    let one = splat(simd, 1.0);
    let s = (m - one) / (m + one);
    let s2 = s * s;
    let p = horner(simd, s2, [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0]);
    // k ln 2 in two parts, the small one first.
    let low = fma(k, splat(simd, -2.121_944_4e-4), s * p);
    fma(k, splat(simd, 0.693_359_4), low)
}

/// The logistic function `1/(1 + e^-x)`.
#[inline(always)]
pub fn sigmoid<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    let one = splat(simd, 1.0);
    one / (one + exp(simd, -x))
}

/// `(sin, cos)` of `turns · 2π` for `turns` in (-1, 1), absolute error below 2e-7.
#[inline(always)]
pub fn sin_cos_turns<S: Simd>(simd: S, turns: f32x16<S>) -> (f32x16<S>, f32x16<S>) {
    // Quadrant and remainder in [-1/8, 1/8] turns.
    let quadrant = (turns * splat(simd, 4.0)).round_ties_even();
    let r = fnma(quadrant, splat(simd, 0.25), turns) * splat(simd, std::f32::consts::TAU);
    let r2 = r * r;
    let sin = r * horner(simd, r2, [1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0]);
    let cos = horner(simd, r2, [1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0]);
    let q: i32x16<S> = quadrant.to_int();
    let swap = (q & 1).simd_eq(i32x16::splat(simd, 1));
    let sin_negative = (q & 2).simd_eq(i32x16::splat(simd, 2));
    let cos_negative = ((q + 1) & 2).simd_eq(i32x16::splat(simd, 2));
    let (s, c) = (swap.select(cos, sin), swap.select(sin, cos));
    (sin_negative.select(-s, s), cos_negative.select(-c, c))
}

/// The angle of `(x, y)` from the x axis in -π..=π, absolute error below 5e-7; 0 for `(0, 0)`.
///
/// The quotient of the shorter by the longer side is reduced to ±tan(π/8), where atan is `q + q³ p(q²)` with the
/// minimax polynomial of Cephes (`atanf`).
#[inline(always)]
pub fn atan2<S: Simd>(simd: S, y: f32x16<S>, x: f32x16<S>) -> f32x16<S> {
    let (zero, half_turn) = (splat(simd, 0.0), splat(simd, std::f32::consts::PI));
    let quarter_turn = splat(simd, std::f32::consts::FRAC_PI_2);
    let (across, up) = (x.abs(), y.abs());
    let (short, long) = (across.min(up), across.max(up).max(splat(simd, 1e-37)));
    let is_steep = short.simd_gt(long * splat(simd, 0.414_213_57));
    let q = is_steep.select(short - long, short) / is_steep.select(short + long, long);
    let q2 = q * q;
    let p = horner(simd, q2, [8.053_744_5e-2, -0.138_776_86, 0.199_777_11, -0.333_329_5]);
    let near = fma(p * q2, q, q) + is_steep.select(splat(simd, std::f32::consts::FRAC_PI_4), zero);
    let first = up.simd_gt(across).select(quarter_turn - near, near);
    let whole = x.simd_lt(zero).select(half_turn - first, first);
    y.simd_lt(zero).select(-whole, whole)
}

/// Transposes a 16x16 matrix of rows: four rounds of perfect shuffles.
#[inline(always)]
pub fn transpose<S: Simd>(rows: [f32x16<S>; LANES]) -> [f32x16<S>; LANES] {
    let mut m = rows;
    for _ in 0..4 {
        let mut next = m;
        for i in 0..8 {
            next[2 * i] = m[i].zip_low(m[i + 8]);
            next[2 * i + 1] = m[i].zip_high(m[i + 8]);
        }
        m = next;
    }
    m
}

/// Sums of the lanes of 16 vectors at once: lane `i` of the result is the sum over `v[i]`.
///
/// Each sum adds lanes that are 8, 4, 2, 1 apart, in that order, like [`sum_lanes`].
#[inline(always)]
pub fn sum_each<S: Simd>(v: [f32x16<S>; LANES]) -> f32x16<S> {
    // Folding pairs (i, i + 8), (i, i + 4), ... puts the totals in order.
    let a: [f32x16<S>; 8] = array_from_fn(
        #[inline(always)]
        |i| fold_halves(v[i], v[i + 8]),
    );
    let b: [f32x16<S>; 4] = array_from_fn(
        #[inline(always)]
        |i| fold_halves(a[i], a[i + 4]),
    );
    fold_halves(fold_halves(b[0], b[2]), fold_halves(b[1], b[3]))
}

/// Adds lanes 8 apart of two vectors and interleaves the sums: a step of [`sum_each`].
#[inline(always)]
pub fn fold_halves<S: Simd>(a: f32x16<S>, b: f32x16<S>) -> f32x16<S> {
    a.zip_low(b) + a.zip_high(b)
}

/// Sum of the lanes: lanes 8 apart first, then 4, 2, 1.
#[inline(always)]
pub fn sum_lanes<S: Simd>(v: f32x16<S>) -> f32 {
    let a: [f32; LANES] = v.to_array();
    let b: [f32; 8] = array_from_fn(
        #[inline(always)]
        |i| a[i] + a[i + 8],
    );
    let c: [f32; 4] = array_from_fn(
        #[inline(always)]
        |i| b[i] + b[i + 4],
    );
    (c[0] + c[2]) + (c[1] + c[3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at_level;
    use crate::level::{SimdLevel, dispatch_level};

    /// Applies a function to one row at a level; `None` if the CPU does not support the level.
    fn at(wanted: SimdLevel, x: Row, f: Function) -> Option<Row> {
        let level = dispatch_level(wanted)?;
        Some(at_level!(level, simd => apply(simd, x, f)))
    }

    #[derive(Clone, Copy, Debug)]
    enum Function {
        Exp2,
        Exp,
        Ln,
        Sigmoid,
        Sin,
        Cos,
        /// atan2 of a direction given in turns, with a different radius in each lane.
        Atan2,
    }

    #[inline(always)]
    fn apply<S: Simd>(simd: S, x: Row, f: Function) -> Row {
        let v = load(simd, &x);
        match f {
            Function::Exp2 => exp2(simd, v),
            Function::Exp => exp(simd, v),
            Function::Ln => ln(simd, v),
            Function::Sigmoid => sigmoid(simd, v),
            Function::Sin => sin_cos_turns(simd, v).0,
            Function::Cos => sin_cos_turns(simd, v).1,
            Function::Atan2 => {
                let direction = |f: fn(f64) -> f64| -> Row {
                    std::array::from_fn(|i| {
                        let radius = 10f64.powi(i as i32 - 8);
                        (radius * f(f64::from(x[i]) * std::f64::consts::TAU)) as f32
                    })
                };
                atan2(simd, load(simd, &direction(f64::sin)), load(simd, &direction(f64::cos)))
            }
        }
        .to_array()
    }

    fn check(f: Function, low: f64, high: f64, exact: impl Fn(f64) -> f64, tolerance: f64, absolute: f64) {
        for block in 0..4000 {
            let x: Row = std::array::from_fn(|i| {
                (low + (high - low) * f64::from(block * 16 + i as i32) / 64_000.0) as f32
            });
            let best = at(SimdLevel::Auto, x, f).unwrap();
            for other in SimdLevel::ALL {
                if let Some(y) = at(other, x, f) {
                    assert_eq!(
                        best.map(f32::to_bits),
                        y.map(f32::to_bits),
                        "{f:?} differs at {}",
                        other.level_name()
                    );
                }
            }
            for (x, y) in x.iter().zip(best) {
                let wanted = exact(f64::from(*x));
                let error = (f64::from(y) - wanted).abs();
                assert!(error <= tolerance * wanted.abs() + absolute, "{f:?}({x}) = {y}, expected {wanted}");
            }
        }
    }

    #[test]
    fn vector_functions_are_accurate_and_equal_at_every_level() {
        check(Function::Exp2, -125.0, 126.0, f64::exp2, 2.2e-7, 0.0);
        check(Function::Exp, -86.0, 87.0, f64::exp, 1.5e-7, 0.0);
        check(Function::Ln, 1e-6, 4.0, f64::ln, 2e-7, 1e-7);
        check(Function::Ln, 1.0, 1e30, f64::ln, 2e-7, 1e-7);
        check(Function::Sigmoid, -30.0, 30.0, |x| 1.0 / (1.0 + (-x).exp()), 3e-7, 0.0);
        check(Function::Sin, -1.0, 1.0, |x| (x * std::f64::consts::TAU).sin(), 0.0, 4e-7);
        check(Function::Cos, -1.0, 1.0, |x| (x * std::f64::consts::TAU).cos(), 0.0, 4e-7);
        check(Function::Atan2, -0.4999, 0.4999, |x| x * std::f64::consts::TAU, 0.0, 5e-7);
    }

    #[test]
    fn transposing_and_summing_agree_with_the_scalar_meaning() {
        let rows: [Row; 16] =
            std::array::from_fn(|i| std::array::from_fn(|j| ((i * 37 + j * 11) % 97) as f32 + 0.25));
        for wanted in SimdLevel::ALL {
            let Some(level) = dispatch_level(wanted) else { continue };
            let (transposed, sums, singles) = at_level!(level, simd => {
                let v: [f32x16<_>; 16] = std::array::from_fn(|i| load(simd, &rows[i]));
                let t = transpose(v).map(|r| -> Row { r.to_array() });
                let s: Row = sum_each(v).to_array();
                (t, s, v.map(sum_lanes))
            });
            for i in 0..16 {
                for j in 0..16 {
                    assert_eq!(transposed[i][j], rows[j][i]);
                }
                assert_eq!(sums[i], rows[i].iter().sum::<f32>());
            }
            assert_eq!(sums, singles);
        }
    }
}
