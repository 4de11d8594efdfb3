//! Writes arrays of f32 or f64 in the format of NumPy (`.npy`, version 1.0).

use std::io::{self, Write};

/// Bytes that are written at a time.
const CHUNK: usize = 1 << 16;

/// A number of an array.
pub trait Number: Copy {
    /// NumPy's name of the type.
    const TYPE: &'static str;
    /// Its little-endian bytes.
    fn bytes(self) -> impl IntoIterator<Item = u8>;
}

impl Number for f32 {
    const TYPE: &'static str = "<f4";

    fn bytes(self) -> impl IntoIterator<Item = u8> {
        self.to_le_bytes()
    }
}

impl Number for f64 {
    const TYPE: &'static str = "<f8";

    fn bytes(self) -> impl IntoIterator<Item = u8> {
        self.to_le_bytes()
    }
}

/// Writes an array in C order: the last axis of `shape` varies fastest.
///
/// ```
/// let mut bytes = Vec::new();
/// gausset_io::npy::write(&mut bytes, &[2, 3], [0.0f32; 6])?;
/// assert_eq!((bytes.len() % 64, &bytes[1..6]), (6 * 4, b"NUMPY".as_slice()));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The writer failed.
pub fn write<T: Number>(
    out: &mut dyn Write,
    shape: &[usize],
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let list: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let dict = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        T::TYPE,
        list.join(", ")
    );
    // Magic, length, dictionary and its line feed are padded to a multiple of 64 bytes.
    let used = MAGIC.len() + 2;
    let padded = (used + dict.len() + 1).next_multiple_of(64) - used;
    let mut head = MAGIC.to_vec();
    head.extend((padded as u16).to_le_bytes());
    head.extend(dict.bytes());
    head.resize(used + padded - 1, b' ');
    head.push(b'\n');
    out.write_all(&head)?;
    write_numbers(out, values)
}

/// Writes numbers as little-endian bytes.
///
/// # Errors
/// The writer failed.
pub fn write_numbers<T: Number>(out: &mut dyn Write, values: impl IntoIterator<Item = T>) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(CHUNK);
    for value in values {
        bytes.extend(value.bytes());
        if bytes.len() == CHUNK {
            out.write_all(&bytes)?;
            bytes.clear();
        }
    }
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_the_header_that_numpy_writes() {
        let mut bytes = Vec::new();
        write(&mut bytes, &[2, 3], [1.0f32; 6]).unwrap();
        assert_eq!((bytes.len() - 24) % 64, 0);
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
        assert!(String::from_utf8_lossy(&bytes).contains("'shape': (2, 3), }"));
        bytes.clear();
        write(&mut bytes, &[1], [0.1f64]).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("'descr': '<f8'"));
        assert!(String::from_utf8_lossy(&bytes).contains("'shape': (1,), }"));
        assert_eq!(bytes[bytes.len() - 8..], 0.1f64.to_le_bytes());
    }
}
