//! The number types of a field, and the operations that kernels need at each SIMD level.
//!
//! Kernels are written once over [`Real`] (f32 or f64) and [`Lanes`] (the CPU's widest vectors). No operation combines
//! lanes within a kernel, so the width does not change a bit of the result: AVX-512, AVX2, NEON and SSE2 agree.
//!
//! The Gaussian itself is `2^-q` with the scale `k = sqrt(log2(e)/2)` folded into the inverse factor. In f32, with `n`
//! the multiple of 1/8 nearest to `-q`:
//!
//! ```text
//! m = 1.5 2²⁰ - q          low three bits of m: which eighth; the others: the exponent
//! r = (m - 1.5 2²⁰) + q    -1/16 ..= 1/16, exact
//! 2^-q = (c0 + c1 r + c2 r² + c3 r³) * (table[m & 7] + (m << 20))
//! ```
//! The second factor is a table look-up, a shift and an integer addition, so the multiply-add units execute four
//! operations instead of six, and a weight is multiplied into the `c` beforehand. In f64: a minimax polynomial and an
//! exponent insertion. Coefficients are relative minimax fits. Beyond [`Real::MAX_Q`] the value is exactly 0, because
//! denormals would slow down all operations that use them by a factor of two.

use std::f32::consts::SQRT_2;

use fearless_simd::{Simd, prelude::*};

/// `sqrt(log2(e) / 2)`: with `v' = k L^-1 d`, `exp(-|v|²/2) = 2^(-|v'|²)`.
pub(crate) const K: f64 = 0.849_321_800_288_019_1;
/// `1 / k² = 2 ln 2`.
pub(crate) const INV_K2: f64 = 2.0 * std::f64::consts::LN_2;

/// A SIMD level with the operations of the kernels.
pub trait Lanes: Simd {
    /// Gaussians whose squares are computed before the first of their exponentials: 1 if a block of points and all its
    /// intermediate values fit into the registers.
    const GROUP: usize;
    /// Points whose squares are computed before the first of their exponentials, in gradients.
    const POINTS: usize;
    /// `a b + c` with one rounding.
    fn fma_f32(self, a: Self::f32s, b: Self::f32s, c: Self::f32s) -> Self::f32s;
    /// `a b + c` with one rounding.
    fn fma_f64(self, a: Self::f64s, b: Self::f64s, c: Self::f64s) -> Self::f64s;
    /// The power of two for `m = EIGHTHS - q`; undefined if `q` is beyond the limit.
    fn power_f32(self, m: Self::f32s) -> Self::f32s;
    /// `p power + sum` with one rounding where `m` is within the limit, `sum` elsewhere.
    fn fma_near_f32(self, m: Self::f32s, p: Self::f32s, power: Self::f32s, sum: Self::f32s) -> Self::f32s;
    /// `p power` where `m` is within the limit, 0 elsewhere.
    fn mul_near_f32(self, m: Self::f32s, p: Self::f32s, power: Self::f32s) -> Self::f32s;
    /// `2^-q`, 0 for `q > 1000` and for NaN; relative error below 4e-16.
    fn gauss_f64(self, q: Self::f64s) -> Self::f64s;
}

/// Subtracting from this rounds to a multiple of 1/8.
const EIGHTHS: f32 = 1_572_864.0;
/// Bits of [`EIGHTHS`] - 64, the smallest `m` within the limit (positive floats are ordered as their bits).
const MIN_NEAR_BITS: i32 = 0x49C0_0000 - 8 * 64;

/// `2^-r` on [-1/16, 1/16], degree 3, relative error 1.9e-8; from the highest power down.
const EXP2_F32: [f32; 4] = [-0.055_498_9, 0.240_264_07, -0.693_147_24, 0.999_999_99];

/// Bits of `2^(k/8)`, minus the `k` that the shift by 20 adds to them.
const EIGHTH_POWERS: [i32; 8] = {
    let powers: [f32; 8] =
        [1.0, 1.090_507_7, 1.189_207_1, 1.296_839_6, SQRT_2, 1.542_210_8, 1.681_792_9, 1.834_008_1];
    let mut bits = [0; 8];
    let mut k = 0;
    while k < 8 {
        bits[k] = powers[k].to_bits().cast_signed() - ((k as i32) << 20);
        k += 1;
    }
    bits
};

/// `2^r` on [-1/2, 1/2], degree 11, relative error 2.2e-16; from the highest power down.
#[allow(clippy::excessive_precision, reason = "the digits of the fit")]
const EXP2_F64: [f64; 12] = [
    4.454_930_741_563_682_20e-10,
    7.074_197_067_616_035_07e-9,
    1.017_805_647_237_198_63e-7,
    1.321_543_252_054_703_46e-6,
    1.525_273_384_275_891_64e-5,
    1.540_353_046_375_613_91e-4,
    1.333_355_814_640_543_43e-3,
    9.618_129_107_587_223_42e-3,
    5.550_410_866_481_662_17e-2,
    2.402_265_069_591_015_7e-1,
    6.931_471_805_599_454_52e-1,
    1.0,
];

/// Adding and subtracting this rounds to integers; after the addition they are in the low bits.
const MAGIC_F64: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
fn polynomial_f64<S: Lanes>(simd: S, r: S::f64s) -> S::f64s {
    let mut sum = S::f64s::splat(simd, EXP2_F64[0]);
    for &c in &EXP2_F64[1..] {
        sum = simd.fma_f64(sum, r, S::f64s::splat(simd, c));
    }
    sum
}

/// The integers that a vector's bits are.
type Bits<S, V> = <V as SimdFloat<S>>::Bits;

/// [`Lanes::power_f32`] for levels without a variable permutation: lane by lane.
#[inline(always)]
fn power_f32<S: Lanes>(simd: S, m: S::f32s) -> S::f32s {
    let mut out = m;
    for lane in 0..S::f32s::LEN {
        let bits = m.as_slice()[lane].to_bits().cast_signed();
        let power = EIGHTH_POWERS[(bits & 7) as usize].wrapping_add(bits << 20);
        out.as_mut_slice()[lane] = f32::from_bits(power.cast_unsigned());
    }
    let _ = simd;
    out
}

/// A value where `m` is within the limit, 0 elsewhere. `m` is positive within the limit; negative `m` are beyond it, so
/// comparing as floats gives the same result.
#[inline(always)]
fn near_f32<S: Lanes>(simd: S, m: S::f32s, value: S::f32s) -> S::f32s {
    let limit = S::f32s::splat(simd, f32::from_bits(MIN_NEAR_BITS.cast_unsigned()));
    m.simd_ge(limit).select(value, S::f32s::splat(simd, 0.0))
}

/// `p 2^n` for the integer `n` in the low bits of `shifted`.
#[inline(always)]
fn insert_exponent<S: Simd, V: SimdFloat<S, Element = f64>>(p: V, shifted: V) -> V {
    let (mantissa, exponent): (Bits<S, V>, Bits<S, V>) = (p.bitcast(), shifted.bitcast());
    (mantissa + (exponent << 52)).bitcast()
}

/// [`Lanes::gauss_f64`] from operations that every level has.
#[inline(always)]
fn gauss_f64<S: Lanes>(simd: S, q: S::f64s) -> S::f64s {
    let zero = S::f64s::splat(simd, 0.0);
    let magic = S::f64s::splat(simd, MAGIC_F64);
    let t = -q;
    let shifted = t + magic;
    let p = polynomial_f64(simd, t - (shifted - magic));
    let g = insert_exponent(p, shifted);
    q.simd_le(S::f64s::splat(simd, f64::MAX_Q)).select(g, zero)
}

/// `e^x` for |x| below 700, relative error below 1e-15: `log2 e` is split in two, so that the product is exact enough.
#[inline(always)]
pub(crate) fn exp_f64<S: Lanes>(simd: S, x: S::f64s) -> S::f64s {
    const LOG2_E_LOW: f64 = 2.035_527_374_093_103_3e-17;
    let magic = S::f64s::splat(simd, MAGIC_F64);
    let log2_e = S::f64s::splat(simd, std::f64::consts::LOG2_E);
    let shifted = x * log2_e + magic;
    let r = simd.fma_f64(x, log2_e, -(shifted - magic));
    let r = simd.fma_f64(x, S::f64s::splat(simd, LOG2_E_LOW), r);
    insert_exponent(polynomial_f64(simd, r), shifted)
}

/// The fused multiply-add of levels that have one.
#[inline(always)]
fn fma_precise<S: Simd, V: SimdFloat<S>>(a: V, b: V, c: V) -> V {
    a.mul_add_precise(b, c)
}

/// Implements [`Lanes`] for levels with few differences.
macro_rules! lanes {
    ($token:ty, $fma_f32:expr, $fma_f64:expr) => {
        impl Lanes for $token {
            const GROUP: usize = 32;
            const POINTS: usize = 4;
            #[inline(always)]
            fn fma_f32(self, a: Self::f32s, b: Self::f32s, c: Self::f32s) -> Self::f32s {
                $fma_f32(a, b, c)
            }
            #[inline(always)]
            fn fma_f64(self, a: Self::f64s, b: Self::f64s, c: Self::f64s) -> Self::f64s {
                $fma_f64(a, b, c)
            }
            #[inline(always)]
            fn power_f32(self, m: Self::f32s) -> Self::f32s {
                power_f32(self, m)
            }
            #[inline(always)]
            fn fma_near_f32(
                self,
                m: Self::f32s,
                p: Self::f32s,
                power: Self::f32s,
                sum: Self::f32s,
            ) -> Self::f32s {
                self.fma_f32(near_f32(self, m, p), near_f32(self, m, power), sum)
            }
            #[inline(always)]
            fn mul_near_f32(self, m: Self::f32s, p: Self::f32s, power: Self::f32s) -> Self::f32s {
                near_f32(self, m, p * power)
            }
            #[inline(always)]
            fn gauss_f64(self, q: Self::f64s) -> Self::f64s {
                gauss_f64(self, q)
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m256i, __m512, __m512d, _CMP_LE_OQ, _mm256_add_epi32, _mm256_and_ps, _mm256_castps_si256,
        _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_permutevar8x32_epi32,
        _mm256_set1_epi32, _mm256_setr_epi32, _mm256_slli_epi32, _mm512_add_epi32, _mm512_castps_si512,
        _mm512_castsi512_ps, _mm512_cmp_pd_mask, _mm512_cmpge_epi32_mask, _mm512_fmadd_pd,
        _mm512_mask3_fmadd_ps, _mm512_maskz_mul_ps, _mm512_maskz_scalef_pd, _mm512_permutexvar_epi32,
        _mm512_roundscale_pd, _mm512_set1_epi32, _mm512_set1_pd, _mm512_setr_epi32, _mm512_setzero_pd,
        _mm512_slli_epi32, _mm512_sub_pd,
    };

    use fearless_simd::prelude::*;
    use fearless_simd::{Avx2, Avx512, Sse2, f32x4, f32x8, f32x16, f64x2, f64x4, f64x8};

    use super::{
        EIGHTH_POWERS as E, EXP2_F64, Lanes, MIN_NEAR_BITS, Real, fma_precise, gauss_f64, near_f32, power_f32,
    };

    /// Not inlined, because the emulation of a fused multiply-add is long and would make kernels take minutes to
    /// compile.
    #[inline(never)]
    fn fma_f32_sse2(a: f32x4<Sse2>, b: f32x4<Sse2>, c: f32x4<Sse2>) -> f32x4<Sse2> {
        a.mul_add_precise(b, c)
    }

    #[inline(never)]
    fn fma_f64_sse2(a: f64x2<Sse2>, b: f64x2<Sse2>, c: f64x2<Sse2>) -> f64x2<Sse2> {
        a.mul_add_precise(b, c)
    }

    lanes!(Sse2, fma_f32_sse2, fma_f64_sse2);

    impl Lanes for Avx2 {
        const GROUP: usize = 32;
        const POINTS: usize = 4;
        #[inline(always)]
        fn fma_f32(self, a: f32x8<Self>, b: f32x8<Self>, c: f32x8<Self>) -> f32x8<Self> {
            fma_precise(a, b, c)
        }
        #[inline(always)]
        fn fma_f64(self, a: f64x4<Self>, b: f64x4<Self>, c: f64x4<Self>) -> f64x4<Self> {
            fma_precise(a, b, c)
        }
        #[inline(always)]
        fn power_f32(self, m: f32x8<Self>) -> f32x8<Self> {
            power_avx2(self, m.into()).simd_into(self)
        }
        #[inline(always)]
        fn fma_near_f32(
            self,
            m: f32x8<Self>,
            p: f32x8<Self>,
            power: f32x8<Self>,
            sum: f32x8<Self>,
        ) -> f32x8<Self> {
            fma_near_avx2(self, m.into(), p.into(), power.into(), sum.into()).simd_into(self)
        }
        #[inline(always)]
        fn mul_near_f32(self, m: f32x8<Self>, p: f32x8<Self>, power: f32x8<Self>) -> f32x8<Self> {
            mul_near_avx2(self, m.into(), p.into(), power.into()).simd_into(self)
        }
        #[inline(always)]
        fn gauss_f64(self, q: f64x4<Self>) -> f64x4<Self> {
            gauss_f64(self, q)
        }
    }

    impl Lanes for Avx512 {
        const GROUP: usize = 1;
        const POINTS: usize = 32;
        #[inline(always)]
        fn fma_f32(self, a: f32x16<Self>, b: f32x16<Self>, c: f32x16<Self>) -> f32x16<Self> {
            fma_precise(a, b, c)
        }
        #[inline(always)]
        fn fma_f64(self, a: f64x8<Self>, b: f64x8<Self>, c: f64x8<Self>) -> f64x8<Self> {
            fma_precise(a, b, c)
        }
        #[inline(always)]
        fn power_f32(self, m: f32x16<Self>) -> f32x16<Self> {
            power_avx512(self, m.into()).simd_into(self)
        }
        #[inline(always)]
        fn fma_near_f32(
            self,
            m: f32x16<Self>,
            p: f32x16<Self>,
            power: f32x16<Self>,
            sum: f32x16<Self>,
        ) -> f32x16<Self> {
            fma_near_avx512(self, m.into(), p.into(), power.into(), sum.into()).simd_into(self)
        }
        #[inline(always)]
        fn mul_near_f32(self, m: f32x16<Self>, p: f32x16<Self>, power: f32x16<Self>) -> f32x16<Self> {
            mul_near_avx512(self, m.into(), p.into(), power.into()).simd_into(self)
        }
        #[inline(always)]
        fn gauss_f64(self, q: f64x8<Self>) -> f64x8<Self> {
            gauss_avx512(self, q.into()).simd_into(self)
        }
    }

    // Comparisons use integers, because float comparisons would compete for the multiply-add units.

    fearless_simd::kernel!(
        /// The permutation uses the low three bits.
        #[inline]
        fn power_avx2(avx2: Avx2, m: __m256) -> __m256 {
            let table: __m256i = _mm256_setr_epi32(E[0], E[1], E[2], E[3], E[4], E[5], E[6], E[7]);
            let m = _mm256_castps_si256(m);
            let power = _mm256_permutevar8x32_epi32(table, m);
            _mm256_castsi256_ps(_mm256_add_epi32(power, _mm256_slli_epi32::<20>(m)))
        }
    );

    fearless_simd::kernel!(
        /// Both factors are masked, because either can be infinite beyond the limit.
        #[inline]
        fn fma_near_avx2(avx2: Avx2, m: __m256, p: __m256, power: __m256, sum: __m256) -> __m256 {
            let near = _mm256_cmpgt_epi32(_mm256_castps_si256(m), _mm256_set1_epi32(MIN_NEAR_BITS - 1));
            let near = _mm256_castsi256_ps(near);
            _mm256_fmadd_ps(_mm256_and_ps(near, p), _mm256_and_ps(near, power), sum)
        }
    );

    fearless_simd::kernel!(
        /// Implements `Lanes::mul_near_f32`.
        #[inline]
        fn mul_near_avx2(avx2: Avx2, m: __m256, p: __m256, power: __m256) -> __m256 {
            let near = _mm256_cmpgt_epi32(_mm256_castps_si256(m), _mm256_set1_epi32(MIN_NEAR_BITS - 1));
            _mm256_and_ps(_mm256_castsi256_ps(near), _mm256_mul_ps(p, power))
        }
    );

    fearless_simd::kernel!(
        /// The permutation uses the low four bits, so the table is stored twice.
        #[inline]
        fn power_avx512(avx512: Avx512, m: __m512) -> __m512 {
            let table = _mm512_setr_epi32(
                E[0], E[1], E[2], E[3], E[4], E[5], E[6], E[7], E[0], E[1], E[2], E[3], E[4], E[5], E[6],
                E[7],
            );
            let m = _mm512_castps_si512(m);
            let power = _mm512_permutexvar_epi32(m, table);
            _mm512_castsi512_ps(_mm512_add_epi32(power, _mm512_slli_epi32::<20>(m)))
        }
    );

    fearless_simd::kernel!(
        /// Implements `Lanes::fma_near_f32`.
        #[inline]
        fn fma_near_avx512(avx512: Avx512, m: __m512, p: __m512, power: __m512, sum: __m512) -> __m512 {
            let near = _mm512_cmpge_epi32_mask(_mm512_castps_si512(m), _mm512_set1_epi32(MIN_NEAR_BITS));
            _mm512_mask3_fmadd_ps(p, power, sum, near)
        }
    );

    fearless_simd::kernel!(
        /// Implements `Lanes::mul_near_f32`.
        #[inline]
        fn mul_near_avx512(avx512: Avx512, m: __m512, p: __m512, power: __m512) -> __m512 {
            let near = _mm512_cmpge_epi32_mask(_mm512_castps_si512(m), _mm512_set1_epi32(MIN_NEAR_BITS));
            _mm512_maskz_mul_ps(near, p, power)
        }
    );

    fearless_simd::kernel!(
        /// `vscalef` multiplies by a power of two; same bits as the generic version.
        #[inline]
        fn gauss_avx512(avx512: Avx512, q: __m512d) -> __m512d {
            // Bit 3: no exceptions; bits 0 and 1: to the nearest.
            const NEAREST: i32 = 0x08;
            let t = _mm512_sub_pd(_mm512_setzero_pd(), q);
            let whole = _mm512_roundscale_pd::<NEAREST>(t);
            let r = _mm512_sub_pd(t, whole);
            let mut p = _mm512_set1_pd(EXP2_F64[0]);
            let mut i = 1;
            while i < EXP2_F64.len() {
                p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(EXP2_F64[i]));
                i += 1;
            }
            let near = _mm512_cmp_pd_mask::<_CMP_LE_OQ>(q, _mm512_set1_pd(<f64 as Real>::MAX_Q));
            _mm512_maskz_scalef_pd(near, p, whole)
        }
    );
}

// NEON is part of every AArch64 processor: there is no level below it.
#[cfg(target_arch = "aarch64")]
lanes!(fearless_simd::Neon, fma_precise, fma_precise);

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A number type of a field: f32 or f64.
pub trait Real:
    sealed::Sealed
    + Copy
    + Default
    + PartialOrd
    + PartialEq
    + Send
    + Sync
    + std::fmt::Debug
    + std::fmt::Display
    + Into<f64>
    + SimdFloatElement
    + 'static
{
    /// Name of the type in file formats.
    const NAME: &'static str;
    /// Gaussians of `q = k² |L^-1 d|²` above this are 0 (f32: to the nearest eighth).
    const MAX_Q: Self;
    /// The number 0.
    const ZERO: Self;
    /// Raw log diagonals are clamped to ± this.
    const MAX_LOG: f64;
    /// Largest coordinate of points and means, and largest entry of an inverse factor, so that products of two stay
    /// finite.
    const MAX_COORDINATE: f64;
    /// The widest vector of this type.
    type V<S: Lanes>: SimdFloat<S, Element = Self>;
    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;
    /// `a b + c` with one rounding.
    fn fma<S: Lanes>(simd: S, a: Self::V<S>, b: Self::V<S>, c: Self::V<S>) -> Self::V<S>;
    /// The coefficients of the exponential, multiplied by a weight.
    fn coefficients(weight: Self) -> [Self; 4];
    /// `w 2^-q` with the coefficients of `w`.
    fn weighted<S: Lanes>(simd: S, coefficients: &[Self::V<S>; 4], q: Self::V<S>) -> Self::V<S>;
    /// Adds `w 2^-q` to sums, vector by vector.
    fn add_weighted<S: Lanes, const P: usize>(
        simd: S,
        coefficients: &[Self::V<S>; 4],
        q: &[Self::V<S>; P],
        sum: &mut [Self::V<S>; P],
    );
    /// The Gaussian `2^-q`.
    fn gauss<S: Lanes>(simd: S, q: Self::V<S>) -> Self::V<S>;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const MAX_Q: Self = 64.0;
    const ZERO: Self = 0.0;
    const MAX_LOG: f64 = 30.0;
    const MAX_COORDINATE: f64 = 1e18;
    type V<S: Lanes> = S::f32s;
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn fma<S: Lanes>(simd: S, a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
        simd.fma_f32(a, b, c)
    }
    #[inline(always)]
    fn coefficients(weight: Self) -> [Self; 4] {
        [EXP2_F32[0] * weight, EXP2_F32[1] * weight, EXP2_F32[2] * weight, EXP2_F32[3] * weight]
    }
    #[inline(always)]
    fn weighted<S: Lanes>(simd: S, c: &[S::f32s; 4], q: S::f32s) -> S::f32s {
        let magic = S::f32s::splat(simd, EIGHTHS);
        let m = magic - q;
        let r = (m - magic) + q;
        let p = simd.fma_f32(simd.fma_f32(simd.fma_f32(c[0], r, c[1]), r, c[2]), r, c[3]);
        simd.mul_near_f32(m, p, simd.power_f32(m))
    }
    #[inline(always)]
    fn add_weighted<S: Lanes, const P: usize>(
        simd: S,
        c: &[S::f32s; 4],
        q: &[S::f32s; P],
        sum: &mut [S::f32s; P],
    ) {
        // Each operation is applied to all vectors before the next one, because the dependency chain of one vector is
        // longer than the reorder window of the CPU.
        let magic = S::f32s::splat(simd, EIGHTHS);
        let (mut m, mut r, mut p) = ([magic; P], [magic; P], [c[0]; P]);
        for i in 0..P {
            m[i] = magic - q[i];
        }
        for i in 0..P {
            r[i] = (m[i] - magic) + q[i];
        }
        for k in 1..4 {
            for i in 0..P {
                p[i] = simd.fma_f32(p[i], r[i], c[k]);
            }
        }
        for i in 0..P {
            sum[i] = simd.fma_near_f32(m[i], p[i], simd.power_f32(m[i]), sum[i]);
        }
    }
    #[inline(always)]
    fn gauss<S: Lanes>(simd: S, q: S::f32s) -> S::f32s {
        let mut c = [S::f32s::splat(simd, EXP2_F32[0]); 4];
        for k in 1..4 {
            c[k] = S::f32s::splat(simd, EXP2_F32[k]);
        }
        Self::weighted(simd, &c, q)
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const MAX_Q: Self = 1000.0;
    const ZERO: Self = 0.0;
    const MAX_LOG: f64 = 300.0;
    const MAX_COORDINATE: f64 = 1e150;
    type V<S: Lanes> = S::f64s;
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn fma<S: Lanes>(simd: S, a: S::f64s, b: S::f64s, c: S::f64s) -> S::f64s {
        simd.fma_f64(a, b, c)
    }
    #[inline(always)]
    fn coefficients(weight: Self) -> [Self; 4] {
        [weight, 0.0, 0.0, 0.0]
    }
    #[inline(always)]
    fn weighted<S: Lanes>(simd: S, c: &[S::f64s; 4], q: S::f64s) -> S::f64s {
        c[0] * simd.gauss_f64(q)
    }
    #[inline(always)]
    fn add_weighted<S: Lanes, const P: usize>(
        simd: S,
        c: &[S::f64s; 4],
        q: &[S::f64s; P],
        sum: &mut [S::f64s; P],
    ) {
        for i in 0..P {
            sum[i] = simd.fma_f64(c[0], simd.gauss_f64(q[i]), sum[i]);
        }
    }
    #[inline(always)]
    fn gauss<S: Lanes>(simd: S, q: S::f64s) -> S::f64s {
        simd.gauss_f64(q)
    }
}
