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
    F32,
    F64,
}

impl Scalar {
    /// Bytes per number.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
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
            Self::F32 => numbers!(f32),
            Self::F64 => numbers!(f64),
        }
    }
}
