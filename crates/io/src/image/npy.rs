//! Depth maps as NumPy arrays, which most tools read.

/// A NumPy file, version 1.0, of `height × width` values: f32 little-endian, rows first.
#[must_use]
pub fn npy(width: u32, height: u32, values: &[f32]) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({height}, {width}), }}");
    // Magic, length, header and its line feed fill a multiple of 64 bytes.
    let used = MAGIC.len() + 2 + header.len() + 1;
    header.extend(std::iter::repeat_n(' ', used.next_multiple_of(64) - used));
    header.push('\n');
    let mut bytes = Vec::with_capacity(MAGIC.len() + 2 + header.len() + 4 * values.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_file_begins_on_a_multiple_of_64_bytes_and_tells_its_shape() {
        let bytes = npy(3, 2, &[1.0; 6]);
        assert_eq!((bytes.len() - 24) % 64, 0);
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
        assert!(String::from_utf8_lossy(&bytes).contains("'shape': (2, 3)"));
    }
}
