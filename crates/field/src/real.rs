//! The two number types of a field, and what the kernels need of each at each vector level.
//!
//! Kernels are written once over [`Real`] (f32 or f64) and [`Lanes`] (the processor's widest vectors). Lanes never
//! meet in a kernel, so the width does not change a bit of the result: AVX-512, AVX2, NEON and SSE2 agree.
//!
//! The Gaussian itself is `2^-q` with the scale `k = sqrt(log2(e)/2)` folded into the inverse factor. The exponential
//! is a minimax polynomial (coefficients: relative minimax fits of `2^r`) and an exponent insertion; AVX-512 has
//! an instruction for the latter (`vscalef`) that gives the same bits. Beyond [`Real::FAR`] the value
//! is exactly 0: denormals would cost a factor of two in everything that is multiplied with them.

use fearless_simd::{Simd, prelude::*};

/// `sqrt(log2(e) / 2)`: with `v' = k L^-1 d`, `exp(-|v|²/2) = 2^(-|v'|²)`.
pub(crate) const K: f64 = 0.849_321_800_288_019_1;
/// `1 / k² = 2 ln 2`.
pub(crate) const INV_K2: f64 = 2.0 * std::f64::consts::LN_2;

/// A vector level with the operations of the kernels.
pub trait Lanes: Simd {
    /// Points that stay in registers while the Gaussians pass, in f32 vectors: as many as the registers hold.
    const POINT_VECTORS: usize;
    /// `a b + c` with one rounding.
    fn fma_f32(self, a: Self::f32s, b: Self::f32s, c: Self::f32s) -> Self::f32s;
    /// `a b + c` with one rounding.
    fn fma_f64(self, a: Self::f64s, b: Self::f64s, c: Self::f64s) -> Self::f64s;
    /// `2^-q`, 0 for `q > 64` and for NaN; relative error below 2e-7.
    fn gauss_f32(self, q: Self::f32s) -> Self::f32s;
    /// `2^-q`, 0 for `q > 1000` and for NaN; relative error below 4e-16.
    fn gauss_f64(self, q: Self::f64s) -> Self::f64s;
}

/// `2^r` on [0, 1), degree 5, relative error 7.5e-8; from the highest power down.
const EXP2_F32: [f32; 6] =
    [0.001_877_576_7, 0.008_989_341, 0.055_826_318, 0.240_153_61, 0.693_153_1, 0.999_999_94];

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

/// Adding and dropping this rounds to whole numbers and leaves them in the low bits.
const MAGIC_F32: f32 = 12_582_912.0;
/// The same for f64.
const MAGIC_F64: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
fn polynomial_f32<S: Lanes>(simd: S, r: S::f32s) -> S::f32s {
    let mut sum = S::f32s::splat(simd, EXP2_F32[0]);
    for &c in &EXP2_F32[1..] {
        sum = simd.fma_f32(sum, r, S::f32s::splat(simd, c));
    }
    sum
}

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

/// [`Lanes::gauss_f32`] from operations that every level has.
#[inline(always)]
fn gauss_f32<S: Lanes>(simd: S, q: S::f32s) -> S::f32s {
    let zero = S::f32s::splat(simd, 0.0);
    let t = -q;
    let whole = t.floor();
    let p = polynomial_f32(simd, t - whole);
    // `bitcast`, because `to_bits` and `from_bits` are not always inlined.
    let exponent: Bits<S, S::f32s> = (whole + S::f32s::splat(simd, MAGIC_F32)).bitcast();
    let mantissa: Bits<S, S::f32s> = p.bitcast();
    let g: S::f32s = (mantissa + (exponent << 23)).bitcast();
    q.simd_le(S::f32s::splat(simd, f32::FAR)).select(g, zero)
}

/// `p 2^n` for the whole number `n` in the low bits of `shifted`.
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
    q.simd_le(S::f64s::splat(simd, f64::FAR)).select(g, zero)
}

/// `e^x` for |x| below 700, relative error below 1e-15: `log2 e` in two parts, so that the product loses nothing.
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

/// Levels with a fused multiply-add and no instructions of their own for the exponential.
macro_rules! lanes {
    ($token:ty, $vectors:literal, $fma_f32:expr, $fma_f64:expr) => {
        impl Lanes for $token {
            const POINT_VECTORS: usize = $vectors;
            #[inline(always)]
            fn fma_f32(self, a: Self::f32s, b: Self::f32s, c: Self::f32s) -> Self::f32s {
                $fma_f32(a, b, c)
            }
            #[inline(always)]
            fn fma_f64(self, a: Self::f64s, b: Self::f64s, c: Self::f64s) -> Self::f64s {
                $fma_f64(a, b, c)
            }
            #[inline(always)]
            fn gauss_f32(self, q: Self::f32s) -> Self::f32s {
                gauss_f32(self, q)
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
        __m512, __m512d, _CMP_LE_OQ, _mm512_cmp_pd_mask, _mm512_cmp_ps_mask, _mm512_fmadd_pd,
        _mm512_fmadd_ps, _mm512_maskz_scalef_pd, _mm512_maskz_scalef_ps, _mm512_roundscale_pd,
        _mm512_roundscale_ps, _mm512_set1_pd, _mm512_set1_ps, _mm512_setzero_pd, _mm512_setzero_ps,
        _mm512_sub_pd, _mm512_sub_ps,
    };

    use fearless_simd::prelude::*;
    use fearless_simd::{Avx2, Avx512, Sse2, f32x4, f32x16, f64x2, f64x8};

    use super::{EXP2_F32, EXP2_F64, Lanes, Real, fma_precise, gauss_f32, gauss_f64};

    /// The emulation of a fused multiply-add is long: out of line, or kernels take minutes to compile.
    #[inline(never)]
    fn fma_f32_sse2(a: f32x4<Sse2>, b: f32x4<Sse2>, c: f32x4<Sse2>) -> f32x4<Sse2> {
        a.mul_add_precise(b, c)
    }

    #[inline(never)]
    fn fma_f64_sse2(a: f64x2<Sse2>, b: f64x2<Sse2>, c: f64x2<Sse2>) -> f64x2<Sse2> {
        a.mul_add_precise(b, c)
    }

    lanes!(Sse2, 2, fma_f32_sse2, fma_f64_sse2);
    lanes!(Avx2, 2, fma_precise, fma_precise);

    impl Lanes for Avx512 {
        const POINT_VECTORS: usize = 4;
        #[inline(always)]
        fn fma_f32(self, a: Self::f32s, b: Self::f32s, c: Self::f32s) -> Self::f32s {
            a.mul_add_precise(b, c)
        }
        #[inline(always)]
        fn fma_f64(self, a: Self::f64s, b: Self::f64s, c: Self::f64s) -> Self::f64s {
            a.mul_add_precise(b, c)
        }
        #[inline(always)]
        fn gauss_f32(self, q: f32x16<Self>) -> f32x16<Self> {
            gauss_ps(self, q.into()).simd_into(self)
        }
        #[inline(always)]
        fn gauss_f64(self, q: f64x8<Self>) -> f64x8<Self> {
            gauss_pd(self, q.into()).simd_into(self)
        }
    }

    fearless_simd::kernel!(
        /// `vscalef` multiplies by `2^floor(t)`: the bits of the general form. (`vreduce` would not give them: it
        /// rounds `t - floor(t)` in the direction of its own rounding control.)
        #[inline]
        fn gauss_ps(avx512: Avx512, q: __m512) -> __m512 {
            // Bits 0 and 1: towards minus infinity; bit 3: no exceptions; no fraction bits.
            const FLOOR: i32 = 0x09;
            let t = _mm512_sub_ps(_mm512_setzero_ps(), q);
            let r = _mm512_sub_ps(t, _mm512_roundscale_ps::<FLOOR>(t));
            let mut p = _mm512_set1_ps(EXP2_F32[0]);
            let mut i = 1;
            while i < EXP2_F32.len() {
                p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP2_F32[i]));
                i += 1;
            }
            let near = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(q, _mm512_set1_ps(<f32 as Real>::FAR));
            _mm512_maskz_scalef_ps(near, p, t)
        }
    );

    fearless_simd::kernel!(
        /// As `gauss_ps`, rounding to the nearest whole number.
        #[inline]
        fn gauss_pd(avx512: Avx512, q: __m512d) -> __m512d {
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
            let near = _mm512_cmp_pd_mask::<_CMP_LE_OQ>(q, _mm512_set1_pd(<f64 as Real>::FAR));
            _mm512_maskz_scalef_pd(near, p, whole)
        }
    );
}

#[cfg(not(target_arch = "x86_64"))]
mod other {
    use fearless_simd::prelude::*;

    use super::{Lanes, fma_precise, gauss_f32, gauss_f64};

    lanes!(
        fearless_simd::Fallback,
        2,
        |a: Self::f32s, b, c| a.mul_add_precise(b, c),
        |a: Self::f64s, b, c| a.mul_add_precise(b, c)
    );
    #[cfg(target_arch = "aarch64")]
    lanes!(fearless_simd::Neon, 2, fma_precise, fma_precise);
}

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
    /// Its name as in file formats.
    const NAME: &'static str;
    /// Gaussians of `q = k² |L^-1 d|²` above this are 0.
    const FAR: Self;
    /// Zero.
    const ZERO: Self;
    /// Raw log diagonals are clamped to this range, up and down.
    const MAX_LOG: f64;
    /// Largest coordinate of points and means, and largest entry of an inverse factor: products of two stay finite.
    const MAX_COORDINATE: f64;
    /// Its widest vector.
    type V<S: Lanes>: SimdFloat<S, Element = Self>;
    /// Rounds.
    fn from_f64(value: f64) -> Self;
    /// `a b + c` with one rounding.
    fn fma<S: Lanes>(simd: S, a: Self::V<S>, b: Self::V<S>, c: Self::V<S>) -> Self::V<S>;
    /// The Gaussian `2^-q`; see [`Lanes`].
    fn gauss<S: Lanes>(simd: S, q: Self::V<S>) -> Self::V<S>;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const FAR: Self = 64.0;
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
    fn gauss<S: Lanes>(simd: S, q: S::f32s) -> S::f32s {
        simd.gauss_f32(q)
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const FAR: Self = 1000.0;
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
    fn gauss<S: Lanes>(simd: S, q: S::f64s) -> S::f64s {
        simd.gauss_f64(q)
    }
}
