//! Tensors in tests: a shape and f64 values, whatever type a file or a backend uses.

/// A row-major tensor. Every type that occurs in the fixtures (F64, F32, I32, U8) fits in f64 without rounding.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// Values, last axis fastest.
    pub values: Vec<f64>,
}

impl Tensor {
    /// A tensor with the given values.
    ///
    /// # Panics
    /// If the number of values is not the product of the shape.
    #[must_use]
    pub fn new<T: Copy + Into<f64>>(shape: &[usize], values: &[T]) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "values of a tensor of shape {shape:?}");
        Self { shape: shape.to_vec(), values: values.iter().map(|&v| v.into()).collect() }
    }

    /// A tensor `[rows.len(), N]` of rows.
    #[must_use]
    pub fn rows<T: Copy + Into<f64>, const N: usize>(rows: &[[T; N]]) -> Self {
        Self::new(&[rows.len(), N], rows.as_flattened())
    }

    /// A tensor of shape `[1]`.
    #[must_use]
    pub fn scalar(value: impl Into<f64>) -> Self {
        Self { shape: vec![1], values: vec![value.into()] }
    }

    /// A tensor of flags, 1 for true.
    #[must_use]
    pub fn flags(flags: &[bool]) -> Self {
        Self { shape: vec![flags.len()], values: flags.iter().map(|&f| f64::from(u8::from(f))).collect() }
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The only value of the tensor.
    ///
    /// # Panics
    /// If there is not exactly one value.
    #[must_use]
    pub fn to_scalar(&self) -> f64 {
        assert_eq!(self.len(), 1, "a scalar was expected, the shape is {:?}", self.shape);
        self.values[0]
    }

    /// Values rounded to f32.
    #[must_use]
    pub fn to_f32(&self) -> Vec<f32> {
        self.values.iter().map(|&v| v as f32).collect()
    }

    /// Values as rows of N.
    ///
    /// # Panics
    /// If the values do not fill rows of N.
    #[must_use]
    pub fn to_rows<const N: usize>(&self) -> Vec<[f64; N]> {
        let (rows, rest) = self.values.as_chunks::<N>();
        assert!(rest.is_empty(), "rows of {N} were expected, the shape is {:?}", self.shape);
        rows.to_vec()
    }

    /// Values rounded to f32, as rows of N.
    ///
    /// # Panics
    /// If the values do not fill rows of N.
    #[must_use]
    pub fn to_f32_rows<const N: usize>(&self) -> Vec<[f32; N]> {
        self.to_rows::<N>().into_iter().map(|row| row.map(|v| v as f32)).collect()
    }
}
