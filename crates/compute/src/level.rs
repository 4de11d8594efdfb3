//! The SIMD level that kernels are dispatched to.

use fearless_simd::Level;

/// A SIMD level that the user can select.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimdLevel {
    /// The best level of this CPU.
    #[default]
    Auto,
    /// AVX-512 (Ice Lake and later, Zen 4 and later).
    Avx512,
    /// AVX2 with FMA.
    Avx2,
    /// The baseline of the target (SSE2 on x86-64, NEON on AArch64).
    Fallback,
}

impl SimdLevel {
    /// All levels, best first.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Avx512, Self::Avx2, Self::Fallback];

    /// The stable name.
    #[must_use]
    pub const fn level_name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Fallback => "fallback",
        }
    }
}

/// The dispatch token of a level; `None` if this CPU does not support it.
#[must_use]
pub fn dispatch_level(wanted: SimdLevel) -> Option<Level> {
    let best = Level::new();
    match wanted {
        SimdLevel::Auto => Some(best),
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => best.as_avx512().map(Level::Avx512),
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => best.as_avx2().map(Level::Avx2),
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Fallback => best.as_sse2().map(Level::Sse2),
        #[cfg(not(target_arch = "x86_64"))]
        SimdLevel::Fallback => Some(Level::baseline()),
        #[cfg(not(target_arch = "x86_64"))]
        _ => None,
    }
}

/// Stable name of a token's level: one of [`SimdLevel::level_name`], never `auto`.
#[must_use]
pub fn name(level: Level) -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if level.as_avx512().is_some() {
            return SimdLevel::Avx512.level_name();
        }
        if level.as_avx2().is_some() {
            return SimdLevel::Avx2.level_name();
        }
    }
    let _ = level;
    SimdLevel::Fallback.level_name()
}

/// Name of a token's level, for messages.
#[must_use]
pub fn describe(level: Level) -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if level.as_avx512().is_some() {
            return "AVX-512";
        }
        if level.as_avx2().is_some() {
            return "AVX2";
        }
        "SSE2"
    }
    #[cfg(target_arch = "aarch64")]
    {
        let _ = level;
        "NEON"
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = level;
        "baseline"
    }
}

/// Runs an expression with the token of a SIMD level: `at_level!(level, simd => kernel(simd, ...))`.
///
/// Like `fearless_simd::dispatch!`, but on x86-64 it compiles the expression for AVX-512, AVX2 and the baseline only:
/// CPUs with SSE4.2 and without AVX2 are rare, and each level costs compile time and code size.
#[macro_export]
macro_rules! at_level {
    ($level:expr, $simd:ident => $op:expr) => {{
        let level: $crate::fearless_simd::Level = $level;
        #[cfg(target_arch = "x86_64")]
        {
            if let Some($simd) = level.as_avx512() {
                $crate::vectorized!($simd => $op)
            } else if let Some($simd) = level.as_avx2() {
                $crate::vectorized!($simd => $op)
            } else if let Some($simd) = level.as_sse2() {
                $crate::vectorized!($simd => $op)
            } else {
                unreachable!("SSE2 is part of x86-64")
            }
        }
        // The concrete token, not `impl Simd`: kernels have separate code for some levels.
        #[cfg(target_arch = "aarch64")]
        {
            if let Some($simd) = level.as_neon() {
                $crate::vectorized!($simd => $op)
            } else {
                unreachable!("NEON is part of AArch64")
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            $crate::fearless_simd::dispatch!(level, $simd => $op)
        }
    }};
}

/// Compiles an expression with the target features of a token.
#[doc(hidden)]
#[macro_export]
macro_rules! vectorized {
    ($simd:ident => $op:expr) => {
        $crate::fearless_simd::Simd::vectorize(
            $simd,
            #[inline(always)]
            || $op,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_is_always_there() {
        assert!(dispatch_level(SimdLevel::Fallback).is_some());
        assert!(dispatch_level(SimdLevel::Auto).is_some());
        assert_eq!(dispatch_level(SimdLevel::Fallback).map(name), Some("fallback"));
        for wanted in [SimdLevel::Avx512, SimdLevel::Avx2] {
            assert!(dispatch_level(wanted).is_none_or(|level| name(level) == wanted.level_name()));
        }
    }
}
