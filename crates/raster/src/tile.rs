//! Stage `tile`: for each tile the list of splats that touch it, in depth order.
//!
//! A counting sort: the depth-sorted splats are divided into a fixed number of chunks; each chunk counts its entries
//! per tile, a prefix sum over (tile, chunk) gives every chunk its target positions, and each chunk scatters its
//! splats. The number of chunks is fixed, so lists do not depend on the number of threads. Each tile's list starts at a
//! multiple of 32 entries, so that tiles own whole words of the bitmap of live entries.
//!
//! A rectangle is counted by its corners: +1 and -1 in a table with one more row and column than there are tiles; its
//! running sums along rows and columns are the counts. Splats in depth order are scattered in memory, so the data of
//! the next ones is prefetched.
//!
//! The rectangle of a splat may contain tiles that its ellipse does not reach; the exact test comes later, where it is
//! cheap (stage `blend`).

use std::sync::atomic::{AtomicU64, Ordering};

use fearless_simd::prelude::*;
use gausset_compute::prefetch::prefetch;
use gausset_compute::simd::splat;
use gausset_compute::{Exec, Pool, at_level};

use crate::pixel::{CELLS, cell_pixels, exponent, inside_image, raw_alpha, tile_origin};
use crate::project::{Projected, Record, TileRect};
use crate::view::KernelView;

/// Chunks of the depth-sorted list.
const DEPTH_CHUNKS: usize = 16;
/// Prefetch distance of rectangles, in splats.
const RECT_PREFETCH: usize = 32;
/// Alignment of each tile's first entry.
const ENTRY_ALIGNMENT: usize = 32;

/// The input of the blending stages: the splats of each tile of a view.
#[derive(Clone, Copy, Debug)]
pub struct BlendInput<'a> {
    /// The view that the lists belong to.
    pub view: &'a KernelView,
    /// The list of splats of each tile, in depth order.
    pub lists: &'a TileLists,
    /// The splats, see [`crate::project::record`].
    pub records: &'a [Record],
}

/// A splat in the list of a tile, with the index of this entry among all entries in the order of splats: those of a
/// splat are consecutive, row by row of tiles.
#[derive(Debug, Default)]
pub struct TileEntry(AtomicU64);

impl TileEntry {
    /// Positions are disjoint; relaxed atomic stores are plain stores that need no `unsafe`.
    #[inline(always)]
    fn set(&self, splat: u32, slot: u32) {
        self.0.store(u64::from(slot) << 32 | u64::from(splat), Ordering::Relaxed);
    }

    /// Index of the splat.
    #[must_use]
    #[inline(always)]
    pub fn splat(&self) -> usize {
        self.0.load(Ordering::Relaxed) as u32 as usize
    }

    /// Index of the entry in the order of splats.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self) -> usize {
        (self.0.load(Ordering::Relaxed) >> 32) as usize
    }
}

/// The lists; reused from step to step.
#[derive(Debug, Default)]
pub struct TileLists {
    /// The entries, tile by tile.
    pub entries: Vec<TileEntry>,
    /// First entry of each tile.
    pub starts: Vec<u32>,
    /// Number of entries of each tile (after the cap).
    pub lengths: Vec<u32>,
    /// Number of entries of all tiles before the cap.
    pub entry_count: usize,
    /// Number of entries of all tiles including the gaps between lists.
    pub padded_entries: usize,
    /// Tiles whose list was cut.
    pub cap_hits: u64,
    counts: Vec<u32>,
}

impl TileLists {
    /// Bytes per tile without entries: the start of its list, its length, and for each chunk of the sort a count and
    /// the sums from which it is computed.
    pub const BYTES_PER_TILE: u64 = (2 + 2 * DEPTH_CHUNKS as u64) * size_of::<u32>() as u64;

    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<TileEntry>()
            + (self.starts.capacity() + self.lengths.capacity() + self.counts.capacity()) * 4
    }

    /// Builds the lists from the splats in depth order (`keys`, sorted).
    pub fn run(&mut self, pool: &Pool, view: &KernelView, projected: &Projected) {
        let tiles = view.tile_count();
        let columns = view.tiles[0] as usize;
        let keys = &projected.sort_keys;
        let chunk_len = keys.len().div_ceil(DEPTH_CHUNKS).max(1);

        self.counts.clear();
        self.counts.resize(tiles * DEPTH_CHUNKS, 0);
        let rows = view.tiles[1] as usize;
        let mut parts: Vec<&mut [u32]> = self.counts.chunks_mut(tiles).collect();
        pool.run_parts(&mut parts, |chunk, counts| {
            let splats = chunk_keys(keys, chunk, chunk_len);
            count_tiles(splats, &projected.rects, [columns, rows], counts);
        });

        // Convert counts to target positions: tile by tile, and within a tile chunk by chunk.
        self.starts.clear();
        self.lengths.clear();
        let mut next = 0usize;
        for tile in 0..tiles {
            next = next.next_multiple_of(ENTRY_ALIGNMENT);
            self.starts.push(next as u32);
            let start = next;
            for chunk in 0..DEPTH_CHUNKS {
                let slot = &mut self.counts[chunk * tiles + tile];
                let here = *slot as usize;
                *slot = next as u32;
                next += here;
            }
            self.lengths.push((next - start) as u32);
        }
        self.padded_entries = next.next_multiple_of(ENTRY_ALIGNMENT);
        self.entry_count = projected.entries as usize;
        grow(&mut self.entries, self.padded_entries);

        let entries = &*self.entries;
        let mut parts: Vec<&mut [u32]> = self.counts.chunks_mut(tiles).collect();
        pool.run_parts(&mut parts, |chunk, places| {
            let keys = chunk_keys(keys, chunk, chunk_len);
            for (i, &key) in keys.iter().enumerate() {
                if let Some(&key) = keys.get(i + RECT_PREFETCH) {
                    prefetch(&projected.rects, key as u32 as usize);
                    prefetch(&projected.entry_offset, key as u32 as usize);
                }
                let splat = key as u32;
                let rect = projected.rects[splat as usize];
                let mut slot = projected.first_entry(splat as usize) as u32;
                for y in usize::from(rect.y0)..usize::from(rect.y1) {
                    for place in
                        &mut places[y * columns + usize::from(rect.x0)..y * columns + usize::from(rect.x1)]
                    {
                        entries[*place as usize].set(splat, slot);
                        *place += 1;
                        slot += 1;
                    }
                }
            }
        });
        self.cap_hits = 0;
    }

    /// Cuts each list after its `cap`-th splat that reaches alpha 1/255 at some pixel of the tile inside the image.
    ///
    /// Forward and backward pass then walk the same shortened lists. The test evaluates every pixel with the arithmetic
    /// of the blending kernel: it is exact, and costs time only if a cap is set.
    pub fn cap(&mut self, exec: Exec<'_>, view: &KernelView, records: &[Record], cap: u32) {
        let (first, all) = (&self.starts, &*self.entries);
        let mut hit = vec![false; self.lengths.len()];
        let mut parts: Vec<(&mut u32, &mut bool)> = self.lengths.iter_mut().zip(&mut hit).collect();
        exec.pool.run_parts(&mut parts, |tile, (len, hit)| {
            let start = first[tile] as usize;
            let entries = &all[start..start + **len as usize];
            let kept = at_level!(exec.level, simd => capped_length(simd, view, tile, entries, records, cap));
            if let Some(kept) = kept {
                **len = kept;
                **hit = true;
            }
        });
        self.cap_hits = hit.iter().filter(|&&h| h).count() as u64;
    }
}

/// Length of the list up to and including its `cap`-th splat that reaches a pixel; `None` if there are at most `cap`.
#[inline(always)]
fn capped_length<S: Simd>(
    simd: S,
    view: &KernelView,
    tile: usize,
    entries: &[TileEntry],
    records: &[Record],
    cap: u32,
) -> Option<u32> {
    let origin = tile_origin(view, tile);
    let mut drawing = 0;
    let mut cut = 0;
    for (i, entry) in entries.iter().enumerate() {
        let record = &records[entry.splat()];
        let draws = (0..CELLS).any(|cell| {
            let (x, y) = cell_pixels(simd, origin, cell);
            let alpha = raw_alpha(simd, exponent(simd, record, x, y));
            (alpha.simd_gt(splat(simd, 0.0)) & inside_image(simd, view, x, y)).any_true()
        });
        if draws {
            drawing += 1;
            if drawing == cap {
                cut = i as u32 + 1;
            } else if drawing > cap {
                return Some(cut);
            }
        }
    }
    None
}

/// Counts for each tile the rectangles that contain it; `counts` holds `columns` x `rows` tiles.
fn count_tiles(keys: &[u64], rects: &[TileRect], [columns, rows]: [usize; 2], counts: &mut [u32]) {
    let stride = columns + 1;
    // Differences wrap below zero; the sums do not.
    let mut changes = vec![0u32; stride * (rows + 1)];
    for (i, &key) in keys.iter().enumerate() {
        if let Some(&key) = keys.get(i + RECT_PREFETCH) {
            prefetch(rects, key as u32 as usize);
        }
        let rect = rects[key as u32 as usize];
        let [x0, x1, y0, y1] = [rect.x0, rect.x1, rect.y0, rect.y1].map(usize::from);
        for (corner, sign) in [(y0 * stride + x0, 1), (y0 * stride + x1, u32::MAX)] {
            changes[corner] = changes[corner].wrapping_add(sign);
        }
        for (corner, sign) in [(y1 * stride + x0, u32::MAX), (y1 * stride + x1, 1)] {
            changes[corner] = changes[corner].wrapping_add(sign);
        }
    }
    let mut above = vec![0u32; columns];
    for (changes, counts) in changes.chunks_exact(stride).zip(counts.chunks_exact_mut(columns)) {
        let mut along = 0u32;
        for ((change, above), count) in changes.iter().zip(&mut above).zip(counts) {
            along = along.wrapping_add(*change);
            *above = above.wrapping_add(along);
            *count = *above;
        }
    }
}

fn chunk_keys(keys: &[u64], chunk: usize, chunk_len: usize) -> &[u64] {
    let start = (chunk * chunk_len).min(keys.len());
    &keys[start..(start + chunk_len).min(keys.len())]
}

fn grow(values: &mut Vec<TileEntry>, len: usize) {
    if values.len() < len {
        // Spare capacity, so that a slowly growing scene does not reallocate at every step.
        values.reserve_exact(len + len / 8 - values.len());
        values.resize_with(len, TileEntry::default);
    }
}
