//! Rows of values that the tasks of a job write in any order.
//!
//! If each task knows the positions of its results, but the positions of different tasks are interleaved, a slice
//! cannot be divided into parts. Rows are then written through relaxed atomic stores of eight bytes, which are plain
//! moves on every common CPU: two tasks that write the same row would mix their values, but nothing worse.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::simd::{AlignedRow, LANES};

/// Stores per row: two values each.
const PAIRS: usize = LANES / 2;

/// An [`AlignedRow`] that several threads may write to.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct SharedRow([AtomicU64; PAIRS]);

impl SharedRow {
    /// Writes all values of the row, given as two halves.
    #[inline(always)]
    pub fn store(&self, low: [f32; LANES / 2], high: [f32; LANES / 2]) {
        let low: [u64; PAIRS / 2] = bytemuck::cast(low);
        let high: [u64; PAIRS / 2] = bytemuck::cast(high);
        for i in 0..PAIRS / 2 {
            self.0[i].store(low[i], Ordering::Relaxed);
            self.0[PAIRS / 2 + i].store(high[i], Ordering::Relaxed);
        }
    }
}

/// Borrows rows exclusively as rows that several threads may write to.
#[must_use]
pub fn as_shared_rows(rows: &mut [AlignedRow]) -> &[SharedRow] {
    const { assert!(size_of::<SharedRow>() == size_of::<AlignedRow>()) };
    const { assert!(align_of::<SharedRow>() == align_of::<AlignedRow>()) };
    #[allow(unsafe_code)]
    // SAFETY: both types are 64 bytes without gaps at multiples of 64, and every content is valid for both. The rows
    // are borrowed exclusively while the result lives, so all access is through its atomics.
    unsafe {
        std::slice::from_raw_parts(rows.as_mut_ptr().cast_const().cast::<SharedRow>(), rows.len())
    }
}

/// Borrows numbers exclusively as atomics that several threads may write to. The standard library's
/// `AtomicU64::from_mut_slice` will do the same once it is stable.
#[must_use]
pub fn as_atomics(values: &mut [u64]) -> &[AtomicU64] {
    const { assert!(size_of::<AtomicU64>() == size_of::<u64>()) };
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    #[allow(unsafe_code)]
    // SAFETY: both types have the same size, alignment and valid contents. The numbers are borrowed exclusively while
    // the result lives, so all access is through its atomics.
    unsafe {
        std::slice::from_raw_parts(values.as_mut_ptr().cast_const().cast::<AtomicU64>(), values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn rows_written_by_any_task_are_there_afterwards() {
        let value = |row: usize, lane: usize| (row * 16 + lane) as f32 - 7.5;
        for threads in [1, 3] {
            let mut rows = vec![AlignedRow::default(); 1000];
            let places = as_shared_rows(&mut rows);
            Pool::new(threads).run(10, |task, _| {
                for row in (task..1000).step_by(10) {
                    let half = |first| std::array::from_fn(|lane| value(row, first + lane));
                    places[row].store(half(0), half(8));
                }
            });
            for (row, values) in rows.iter().enumerate() {
                assert_eq!(values.0, std::array::from_fn(|lane| value(row, lane)));
            }
        }
    }

    #[test]
    fn numbers_written_by_any_task_are_there_afterwards() {
        for threads in [1, 3] {
            let mut values = vec![0u64; 1000];
            let places = as_atomics(&mut values);
            Pool::new(threads).run(10, |task, _| {
                (task..1000).step_by(10).for_each(|i| places[i].store(!(i as u64), Ordering::Relaxed));
            });
            assert!(values.iter().enumerate().all(|(i, &value)| value == !(i as u64)));
        }
    }

    #[test]
    fn every_bit_of_a_value_survives() {
        let bits = [0x7F80_0001, 0xFFC0_1234, 0x0000_0001, 0x8000_0000];
        let mut rows = [AlignedRow::default()];
        let half = std::array::from_fn(|lane| f32::from_bits(bits[lane % 4]));
        as_shared_rows(&mut rows)[0].store(half, half);
        for (lane, value) in rows[0].0.iter().enumerate() {
            assert_eq!(value.to_bits(), bits[lane % 4]);
        }
    }
}
