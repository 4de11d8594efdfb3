//! Conversion of a state between arrays of splats and planes of vec4, bit for bit, for upload and readback.
//!
//! A plane is converted on all threads and sent before the next one is created, so that at most one exists twice.

use gausset_compute::Pool;
use gausset_core::Splats;
use gausset_core::engine::{AdamMoments, DensityStatistics, EngineError, TrainState};

use crate::device::DeviceMemory;
use crate::layout::{Buffer, sh_blocks};

/// Largest number of rows that a density rule can index: its words also hold flags.
pub(crate) const MAX_ROWS: u64 = 1 << 29;

/// Splats per task of a conversion.
const CHUNK: usize = 4096;

/// The buffers of parameters, of first or of second moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSet {
    geometry: Buffer,
    sh: [Buffer; 4],
}

/// Parameters.
pub(crate) const PARAMETERS: BufferSet = BufferSet { geometry: Buffer::Splats, sh: Buffer::SH };
/// First moments.
pub(crate) const FIRST: BufferSet = BufferSet { geometry: Buffer::Splats1, sh: Buffer::SH_FIRST };
/// Second moments.
pub(crate) const SECOND: BufferSet = BufferSet { geometry: Buffer::Splats2, sh: Buffer::SH_SECOND };

/// Writes a value of each splat to its position in a plane, page by page.
fn write_plane<T: bytemuck::NoUninit>(
    memory: &mut DeviceMemory,
    buffer: Buffer,
    plane: u64,
    values: &[T],
) -> Result<(), EngineError> {
    for (range, at) in memory.sizes().plane_runs(buffer, plane, values.len()) {
        memory.write(buffer, at, bytemuck::cast_slice(&values[range]))?;
    }
    Ok(())
}

/// Writes the arrays of a part.
pub(crate) fn write(
    memory: &mut DeviceMemory,
    pool: &Pool,
    part: BufferSet,
    splats: &Splats,
) -> Result<(), EngineError> {
    let n = splats.len();
    let mut plane = vec![[0u32; 4]; n];
    let mut send =
        |memory: &mut DeviceMemory, buffer: Buffer, k: u64, value: &(dyn Fn(usize) -> [f32; 4] + Sync)| {
            pool.run_chunks(&mut plane, CHUNK, |chunk, out| {
                for (local, out) in out.iter_mut().enumerate() {
                    *out = value(chunk * CHUNK + local).map(f32::to_bits);
                }
            });
            write_plane(memory, buffer, k, &plane)
        };
    let three = |[x, y, z]: [f32; 3], w: f32| [x, y, z, w];
    send(memory, part.geometry, 0, &|i| three(splats.means[i], splats.opacity_logits[i]))?;
    send(memory, part.geometry, 1, &|i| splats.quats[i])?;
    send(memory, part.geometry, 2, &|i| three(splats.log_scales[i], 0.0))?;
    for block in 0..sh_blocks(splats.sh_degree) as usize {
        for k in 0..3 {
            let first = 12 * block + 4 * k;
            send(memory, part.sh[block], k as u64, &|i| {
                let row = splats.sh_coefficients(i);
                std::array::from_fn(|lane| row.get(first + lane).copied().unwrap_or(0.0))
            })?;
        }
    }
    Ok(())
}

/// Reads the arrays of a part.
pub(crate) fn read(
    memory: &mut DeviceMemory,
    pool: &Pool,
    part: BufferSet,
    sh_degree: u8,
    n: usize,
) -> Result<Splats, EngineError> {
    let mut splats = Splats::zeros(sh_degree, n);
    let mut plane = vec![[0.0f32; 4]; n];
    let fetch = |memory: &mut DeviceMemory, buffer: Buffer, k: u64, plane: &mut Vec<[f32; 4]>| {
        let runs = memory.sizes().plane_runs(buffer, k, n);
        for (range, at) in runs {
            let out = plane[range].as_flattened_mut();
            memory.read(buffer, at, out.len(), |first, words| {
                for (out, &word) in out[first..].iter_mut().zip(words) {
                    *out = f32::from_bits(word);
                }
            })?;
        }
        Ok::<_, EngineError>(())
    };
    let three = |[x, y, z, _]: [f32; 4]| [x, y, z];
    fetch(memory, part.geometry, 0, &mut plane)?;
    pool.run_chunks(&mut splats.means, CHUNK, |chunk, out| {
        out.iter_mut().zip(&plane[chunk * CHUNK..]).for_each(|(out, &v)| *out = three(v));
    });
    pool.run_chunks(&mut splats.opacity_logits, CHUNK, |chunk, out| {
        out.iter_mut().zip(&plane[chunk * CHUNK..]).for_each(|(out, v)| *out = v[3]);
    });
    fetch(memory, part.geometry, 1, &mut plane)?;
    splats.quats.copy_from_slice(&plane);
    fetch(memory, part.geometry, 2, &mut plane)?;
    pool.run_chunks(&mut splats.log_scales, CHUNK, |chunk, out| {
        out.iter_mut().zip(&plane[chunk * CHUNK..]).for_each(|(out, &v)| *out = three(v));
    });
    let width = splats.sh_stride();
    for block in 0..sh_blocks(sh_degree) as usize {
        for k in 0..3 {
            let first = 12 * block + 4 * k;
            if first >= width {
                continue;
            }
            fetch(memory, part.sh[block], k as u64, &mut plane)?;
            pool.run_chunks(&mut splats.sh, CHUNK * width, |chunk, rows| {
                for (row, values) in rows.chunks_exact_mut(width).zip(&plane[chunk * CHUNK..]) {
                    for (out, &value) in row.iter_mut().skip(first).zip(values) {
                        *out = value;
                    }
                }
            });
        }
    }
    Ok(splats)
}

/// Writes the data of each splat other than parameters and moments.
pub(crate) fn write_records(memory: &mut DeviceMemory, state: &TrainState) -> Result<(), EngineError> {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
    let statistics = &state.statistics;
    write_plane(memory, Buffer::Records, 0, &state.ids)?;
    write_plane(memory, Buffer::Records, 1, &state.update_counts)?;
    write_plane(memory, Buffer::Records, 2, &statistics.visible_steps)?;
    write_plane(memory, Buffer::Records, 3, &bits(&statistics.gradient_sum))?;
    write_plane(memory, Buffer::Records, 4, &bits(&statistics.max_radius))
}

/// The inverse of [`write_records`]: ids, clocks and statistics of a state.
pub(crate) fn read_records(
    memory: &mut DeviceMemory,
    n: usize,
    state: &mut TrainState,
) -> Result<(), EngineError> {
    let mut plane = |k: u64| {
        let mut words = Vec::with_capacity(n);
        for (range, at) in memory.sizes().plane_runs(Buffer::Records, k, n) {
            memory.read(Buffer::Records, at, range.len(), |_, part| words.extend_from_slice(part))?;
        }
        Ok::<Vec<u32>, EngineError>(words)
    };
    state.ids = plane(0)?;
    state.update_counts = plane(1)?;
    let visible_steps = plane(2)?;
    let floats = |words: Vec<u32>| words.into_iter().map(f32::from_bits).collect();
    let (gradient_sum, max_radius) = (floats(plane(3)?), floats(plane(4)?));
    state.statistics = DensityStatistics { gradient_sum, visible_steps, max_radius };
    Ok(())
}

/// Both moments.
pub(crate) fn read_moments(
    memory: &mut DeviceMemory,
    pool: &Pool,
    sh_degree: u8,
    n: usize,
) -> Result<AdamMoments, EngineError> {
    let m = read(memory, pool, FIRST, sh_degree, n)?;
    let v = read(memory, pool, SECOND, sh_degree, n)?;
    Ok(AdamMoments { m, v })
}
