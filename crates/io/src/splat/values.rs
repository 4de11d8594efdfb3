//! Converts between raw parameters and file values: opacities, unit rotations, bytes.
//!
//! All conversions use f64 and `libm`, so that equal splats give equal bytes on every machine.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

pub(super) use gausset_core::splats::opacity;

/// Logit for an opacity of exactly 1, `1 - 3e-7`; its negative stands for 0.
pub(super) const EXTREME_LOGIT: f32 = 15.0;

/// Logit of an opacity, clamped to ±[`EXTREME_LOGIT`]; NaN if the opacity is NaN.
pub(super) fn logit(opacity: f64) -> f32 {
    let most = f64::from(EXTREME_LOGIT);
    if opacity >= 1.0 {
        EXTREME_LOGIT
    } else if opacity <= 0.0 {
        -EXTREME_LOGIT
    } else {
        libm::log(opacity / (1.0 - opacity)).clamp(-most, most) as f32
    }
}

/// Logits of the 256 opacities `byte / 255`, with `±extreme` at the ends.
pub(super) fn byte_logits(extreme: f32) -> [f32; 256] {
    std::array::from_fn(|byte| match byte {
        0 => -extreme,
        255 => extreme,
        _ => logit(byte as f64 / 255.0),
    })
}

/// Normalises a rotation `wxyz`; NaN for a zero quaternion.
pub(super) fn unit_quaternion([w, x, y, z]: [f32; 4]) -> [f64; 4] {
    let q = [w, x, y, z].map(f64::from);
    let length = libm::sqrt(q.iter().map(|v| v * v).sum());
    q.map(|v| v / length)
}

/// The index of the largest component of a unit quaternion (by magnitude, the first of equals), and the other three in
/// order, with the sign for which the largest is positive.
pub(super) fn smallest_three(q: [f64; 4]) -> (usize, [f64; 3]) {
    let largest = q
        .iter()
        .enumerate()
        .fold((0, 0.0), |best, (k, v)| if v.abs() > best.1 { (k, v.abs()) } else { best })
        .0;
    let sign = if q.get(largest).is_some_and(|v| *v < 0.0) { -1.0 } else { 1.0 };
    let mut rest = [0.0; 3];
    let others = q.iter().enumerate().filter(|(k, _)| *k != largest);
    rest.iter_mut().zip(others).for_each(|(out, (_, v))| *out = sign * v);
    (largest, rest)
}

/// Inverse of [`smallest_three`].
pub(super) fn from_smallest_three(largest: usize, rest: [f64; 3]) -> [f32; 4] {
    let square: f64 = rest.iter().map(|v| v * v).sum();
    // Square roots are correctly rounded on all machines.
    let largest_value = (1.0 - square).max(0.0).sqrt() as f32;
    let [a, b, c] = rest.map(|v| v as f32);
    match largest {
        0 => [largest_value, a, b, c],
        1 => [a, largest_value, b, c],
        2 => [a, b, largest_value, c],
        _ => [a, b, c, largest_value],
    }
}

/// The integer in `0..=steps` nearest to `value * steps`, for a value in 0..=1.
pub(super) fn quantise(value: f64, steps: u32) -> u32 {
    (value.clamp(0.0, 1.0) * f64::from(steps) + 0.5) as u32
}

/// The byte nearest to a value, and whether the value is outside 0..=255 by more than half a step.
pub(super) fn to_byte(value: f64) -> (u8, bool) {
    ((value.clamp(0.0, 255.0) + 0.5) as u8, !(-0.5..=255.5).contains(&value))
}

/// Converts a 16-bit float (IEEE 754 binary16).
pub(super) fn from_half(bits: u16) -> f32 {
    let (sign, exponent, fraction) =
        (u32::from(bits >> 15) << 31, u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    match exponent {
        // Subnormal: multiples of 2^-24.
        0 => f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Counts splats with values outside the range of a format.
#[derive(Default)]
pub(super) struct ClampCounts(Vec<(&'static str, u64)>);

impl ClampCounts {
    /// Counts one splat if `is_clipped`.
    pub(super) fn count(&mut self, what: &'static str, is_clipped: bool) {
        if !is_clipped {
            return;
        }
        match self.0.iter_mut().find(|(reason, _)| *reason == what) {
            Some((_, count)) => *count += 1,
            None => self.0.push((what, 1)),
        }
    }

    /// The counts.
    pub(super) fn into_counts(self) -> Vec<(&'static str, u64)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_and_opacities_are_inverse() {
        for i in -140..=140 {
            let x = i as f32 * 0.1;
            assert!((logit(opacity(x)) - x).abs() < 1e-5, "{x}");
        }
        assert_eq!((logit(1.0), logit(0.0)), (15.0, -15.0));
        assert!(logit(f64::NAN).is_nan());
        let logits = byte_logits(13.0);
        assert_eq!((logits.first(), logits.last()), (Some(&-13.0), Some(&13.0)));
        assert!(logits.is_sorted());
    }

    #[test]
    fn three_components_are_the_whole_rotation() {
        for q in
            [[0.8, 0.4, 0.2, -0.4], [0.1, -0.9, 0.3, 0.3], [0.5, 0.5, -0.5, 0.5], [0.0, 0.0, 0.0, -2.0f32]]
        {
            let q = unit_quaternion(q);
            let (largest, rest) = smallest_three(q);
            let back = from_smallest_three(largest, rest).map(f64::from);
            let same: f64 = q.iter().zip(back).map(|(a, b)| a * b).sum();
            assert!((same.abs() - 1.0).abs() < 1e-7, "{q:?} {back:?}");
        }
    }

    #[test]
    fn halves_are_floats() {
        let known = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x0400, 6.103_515_6e-5),
        ];
        known.iter().for_each(|(bits, value)| assert_eq!(from_half(*bits), *value));
        assert!(from_half(0x7e00).is_nan() && from_half(0xfc00) == f32::NEG_INFINITY);
        assert_eq!(from_half(0x8000).to_bits(), (-0.0f32).to_bits());
    }
}
