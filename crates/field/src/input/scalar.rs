//! Number types of volume files.

/// Number type of voxels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
}

/// A float of 16 bits (IEEE 754 binary16).
fn half_to_f64(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF) / 1024.0);
    match exponent {
        0 => sign * fraction * libm::exp2(-14.0),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + fraction) * libm::exp2(f64::from(exponent - 15)),
    }
}

/// Unpacks whole numbers of 1, 2 or 4 bits; every row of `width` numbers begins with a new byte, whose high bits come
/// first.
pub(crate) fn unpack_bits(bytes: &[u8], bits: u8, width: usize) -> Vec<f64> {
    let bits = usize::from(bits.clamp(1, 8));
    let stride = (width * bits).div_ceil(8).max(1);
    let number = |row: &[u8], i: usize| {
        let at = i * bits;
        let byte = row.get(at / 8).copied().unwrap_or(0);
        f64::from(byte >> (8 - bits - at % 8) & (0xFFu8 >> (8 - bits)))
    };
    bytes.chunks(stride).flat_map(|row| (0..width).map(move |i| number(row, i))).collect()
}

impl Scalar {
    /// Bytes per number.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Decodes all complete numbers in `bytes` as f64.
    pub(crate) fn decode(self, bytes: &[u8], is_big_endian: bool) -> Vec<f64> {
        macro_rules! numbers {
            ($type:ty) => {{
                let chunks = bytes.as_chunks::<{ size_of::<$type>() }>().0.iter();
                if is_big_endian {
                    chunks.map(|b| <$type>::from_be_bytes(*b) as f64).collect()
                } else {
                    chunks.map(|b| <$type>::from_le_bytes(*b) as f64).collect()
                }
            }};
        }
        match self {
            Self::U8 => numbers!(u8),
            Self::I8 => numbers!(i8),
            Self::U16 => numbers!(u16),
            Self::I16 => numbers!(i16),
            Self::U32 => numbers!(u32),
            Self::I32 => numbers!(i32),
            Self::U64 => numbers!(u64),
            Self::I64 => numbers!(i64),
            Self::F16 => {
                let chunks = bytes.as_chunks::<2>().0.iter();
                let bits =
                    |b: &[u8; 2]| if is_big_endian { u16::from_be_bytes(*b) } else { u16::from_le_bytes(*b) };
                chunks.map(|b| half_to_f64(bits(b))).collect()
            }
            Self::F32 => numbers!(f32),
            Self::F64 => numbers!(f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_16_bits_have_their_values() {
        let bits: [u16; 8] = [0x3C00, 0xC000, 0x3555, 0x0001, 0x7BFF, 0x7C00, 0x7E00, 0x8000];
        let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_be_bytes()).collect();
        let found = Scalar::F16.decode(&bytes, true);
        assert_eq!(&found[..6], [1.0, -2.0, 0.333_251_953_125, 2f64.powi(-24), 65504.0, f64::INFINITY]);
        assert!(found[6].is_nan() && found[7] == 0.0);
    }

    #[test]
    fn rows_of_bits_begin_with_a_byte() {
        assert_eq!(unpack_bits(&[0b1010_0000, 0b0100_0000], 1, 3), [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!(unpack_bits(&[0x1B, 0xF0], 2, 4), [0.0, 1.0, 2.0, 3.0, 3.0, 3.0, 0.0, 0.0]);
        assert_eq!(unpack_bits(&[0x1B, 0xF0], 4, 3), [1.0, 11.0, 15.0]);
    }
}
