//! Stage `blend`: composites each pixel front to back.
//!
//! A task is a tile. Its list is walked in batches of 256 entries until every cell is saturated:
//! 1. the records of the batch are copied to consecutive memory,
//! 2. lane = entry: for each band of 4 pixel rows the exact column span of the ellipse `alpha >= 1/255` is computed,
//!    and each entry is appended to the lists of the cells that its spans touch,
//! 3. lane = pixel: each cell walks its list.
//!
//! The spans are conservative (they have slack for rounding), and a cell that has stopped never reads another entry. A
//! 16-bit mask per entry records the cells that evaluated it, for the backward pass.
//!
//! Blending (fixtures, section 3): `T' = T (1 - alpha)`; a splat is blended while `T' > 1e-4`. `T` continues to fall
//! after a pixel has stopped: it is monotone, so "stopped" needs no separate state.

use fearless_simd::{f32x16, mask32x16, prelude::*, u32x16};
use gausset_compute::prefetch::prefetch;
use gausset_compute::simd::{LANES, array_from_fn, fma, fnma, inline_closure, load, splat, transpose};
use gausset_compute::{Exec, at_level};
use gausset_core::constants::{TILE_SIZE, TRANSMITTANCE_STOP};
use gausset_core::engine::Outputs;

use crate::layout::AlignedRow;
use crate::pixel::{
    CELLS, CELLS_PER_ROW, PIXELS_PER_CELL_ROW, cell_origin, cell_pixels, clamped_alpha, exponent,
    inside_image, tile_origin,
};
use crate::project::{EXTENT_SLACK, LOG2_255, Record, record};
use crate::tile::{BlendInput, TileEntry};
use crate::view::KernelView;

/// Entries per batch: their records (16 KiB) stay in the first-level cache while the cells walk them.
const BATCH: usize = 256;
/// Prefetch distance of records, in entries.
const RECORD_PREFETCH: usize = 16;

/// Slack of the column spans as a fraction of the splat's extents: the quadratic form of a long thin splat is rounded
/// relative to its large terms.
const RELATIVE_SLACK: f32 = 1e-4;

/// The pixels of a tile, by cell.
#[derive(Clone, Copy, Debug, Default)]
pub struct TilePixels {
    /// Red, green, blue composited over the background.
    pub color: [[AlignedRow; 3]; CELLS],
    /// Transmittance after the last blended splat.
    pub transmittance: [AlignedRow; CELLS],
}

impl TilePixels {
    /// Bytes of a tile.
    pub const BYTES: u64 = size_of::<Self>() as u64;
}

impl TileExtras {
    /// Bytes of a tile.
    pub const BYTES: u64 = size_of::<Self>() as u64;
}

/// Additional outputs, by cell: depth and count.
#[derive(Clone, Copy, Debug, Default)]
pub struct TileExtras {
    /// `Σ w z`.
    pub depth: [AlignedRow; CELLS],
    /// Splats blended, as floats.
    pub count: [AlignedRow; CELLS],
}

/// Output of the stage; reused from step to step.
#[derive(Clone, Debug, Default)]
pub struct Blended {
    /// One per tile.
    pub tiles: Vec<TilePixels>,
    /// One per tile if requested, else empty.
    pub extras: Vec<TileExtras>,
    /// For each tile entry: bit `c` is set if the entry was evaluated at cell `c`. Valid up to `processed`.
    pub cell_masks: Vec<u16>,
    /// Number of entries of each tile that were read before all its cells had stopped.
    pub processed_entries: Vec<u32>,
}

struct TilePart<'a> {
    pixels: &'a mut TilePixels,
    extras: Option<&'a mut TileExtras>,
    masks: &'a mut [u16],
    processed: &'a mut u32,
}

impl Blended {
    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tiles.capacity() * size_of::<TilePixels>()
            + self.extras.capacity() * size_of::<TileExtras>()
            + self.cell_masks.capacity() * 2
    }

    /// Runs the stage.
    pub fn run(&mut self, exec: Exec<'_>, splats: BlendInput<'_>, background: [f32; 3], outputs: Outputs) {
        let BlendInput { view, lists, records } = splats;
        let tiles = view.tile_count();
        self.tiles.resize(tiles, TilePixels::default());
        self.extras.resize(if outputs == Outputs::All { tiles } else { 0 }, TileExtras::default());
        self.processed_entries.resize(tiles, 0);
        if self.cell_masks.len() < lists.padded_entries {
            self.cell_masks.resize(lists.entries.len(), 0);
        }

        let mut extras = self.extras.iter_mut();
        let mut masks = &mut self.cell_masks[..lists.padded_entries];
        let mut parts: Vec<TilePart<'_>> = Vec::with_capacity(tiles);
        for (tile, (pixels, processed)) in self.tiles.iter_mut().zip(&mut self.processed_entries).enumerate()
        {
            let end = lists.starts.get(tile + 1).map_or(lists.padded_entries, |&f| f as usize);
            let (mine, rest) = masks.split_at_mut(end - lists.starts[tile] as usize);
            masks = rest;
            parts.push(TilePart { pixels, extras: extras.next(), masks: mine, processed });
        }
        exec.pool.run_parts(&mut parts, |tile, part| {
            let first = lists.starts[tile] as usize;
            let entries = &lists.entries[first..first + lists.lengths[tile] as usize];
            let input = TileInput { view, tile, entries, records, background };
            at_level!(exec.level, simd => match outputs {
                Outputs::Color => blend_tile::<_, false>(simd, &input, part),
                Outputs::All => blend_tile::<_, true>(simd, &input, part),
            });
        });
    }
}

struct TileInput<'a> {
    view: &'a KernelView,
    tile: usize,
    entries: &'a [TileEntry],
    records: &'a [Record],
    background: [f32; 3],
}

/// Entry numbers per cell. The 16 extra elements allow the full-width store of a partly filled vector.
type CellList = [u32; BATCH + LANES];

#[derive(Clone, Copy)]
struct Cell<S: Simd> {
    transmittance: f32x16<S>,
    processed_entries: f32x16<S>,
    color: [f32x16<S>; 3],
    depth: f32x16<S>,
    count: f32x16<S>,
}

#[inline(always)]
fn blend_tile<S: Simd, const EXTRAS: bool>(simd: S, input: &TileInput<'_>, part: &mut TilePart<'_>) {
    let zero = splat(simd, 0.0);
    let one = splat(simd, 1.0);
    let origin = tile_origin(input.view, input.tile);

    let mut active = 0u32;
    let mut cells =
        [Cell { transmittance: one, processed_entries: one, color: [zero; 3], depth: zero, count: zero };
            CELLS];
    for (c, cell) in cells.iter_mut().enumerate() {
        let (x, y) = cell_pixels(simd, origin, c);
        let inside = inside_image(simd, input.view, x, y);
        // Pixels outside the image start opaque: they never blend and never keep a cell alive.
        cell.transmittance = inside.select(one, zero);
        active |= u32::from(inside.any_true()) << c;
    }

    let mut local = [Record::default(); BATCH];
    let mut masks = [0u32; BATCH];
    let mut lists = [[0u32; BATCH + LANES]; CELLS];
    let mut base = 0;
    while base < input.entries.len() && active != 0 {
        let batch = &input.entries[base..input.entries.len().min(base + BATCH)];
        copy_records(input.records, &input.entries[base..], &mut local);
        let batch = Batch {
            local: &local,
            len: batch.len(),
            records: input.records,
            following: &input.entries[base + batch.len()..],
        };
        let lengths = cell_lists(simd, origin, &batch, active, &mut lists, &mut masks);
        for c in 0..CELLS {
            if active >> c & 1 == 0 {
                continue;
            }
            let list = &lists[c];
            let length = lengths[c];
            if let Some(stopped_after) =
                blend_cell::<S, EXTRAS>(simd, input.view, origin, c, (list, length), &local, &mut cells[c])
            {
                active &= !(1 << c);
                for &entry in &list[stopped_after..length] {
                    masks[entry as usize] &= !(1 << c);
                }
            }
        }
        for (out, mask) in part.masks[base..].iter_mut().zip(&masks[..batch.len]) {
            *out = *mask as u16;
        }
        base += batch.len;
    }
    *part.processed = base as u32;

    for (c, cell) in cells.iter().enumerate() {
        for k in 0..3 {
            let over = fma(cell.processed_entries, splat(simd, input.background[k]), cell.color[k]);
            over.store_array(&mut part.pixels.color[c][k].0);
        }
        cell.processed_entries.store_array(&mut part.pixels.transmittance[c].0);
        if EXTRAS && let Some(extras) = &mut part.extras {
            cell.depth.store_array(&mut extras.depth[c].0);
            cell.count.store_array(&mut extras.count[c].0);
        }
    }
}

/// Copies the records of the first entries, as many as fit.
#[inline(always)]
fn copy_records(records: &[Record], entries: &[TileEntry], local: &mut [Record; BATCH]) {
    for (i, (to, entry)) in local.iter_mut().zip(entries).enumerate() {
        if let Some(ahead) = entries.get(i + RECORD_PREFETCH) {
            prefetch(records, ahead.splat());
        }
        *to = records[entry.splat()];
    }
}

/// Blends the first `length` entries of a cell's list; returns `Some(n)` if the cell stopped after `n` of them.
///
/// The loop is software-pipelined in three stages: the exponent of the entry after the next, the power of the next, and
/// blending. In sequence they are a dependency chain of some fifty cycles, and the scheduler of a CPU holds less than
/// two entries.
#[inline(always)]
fn blend_cell<S: Simd, const EXTRAS: bool>(
    simd: S,
    view: &KernelView,
    origin: [usize; 2],
    c: usize,
    (list, length): (&CellList, usize),
    local: &[Record; BATCH],
    cell: &mut Cell<S>,
) -> Option<usize> {
    let zero = splat(simd, 0.0);
    let stop = splat(simd, TRANSMITTANCE_STOP);
    let alpha_max = splat(simd, view.alpha_max);
    let (x, y) = cell_pixels(simd, origin, c);
    let mut state = *cell;
    let mut stopped = None;
    // After the end there are entries of earlier batches, or zeros: evaluated and not used.
    let record_of = inline_closure(
        #[inline(always)]
        |n: usize| &local[list[n % list.len()] as usize % BATCH],
    );
    let mut next_alpha = clamped_alpha(simd, exponent(simd, record_of(0), x, y), alpha_max);
    let mut next_exponent = exponent(simd, record_of(1), x, y);
    for n in 0..length {
        let alpha = next_alpha;
        next_alpha = clamped_alpha(simd, next_exponent, alpha_max);
        next_exponent = exponent(simd, record_of(n + 2), x, y);
        let splat_record = record_of(n);
        let next = fnma(alpha, state.transmittance, state.transmittance);
        let blends = next.simd_gt(stop);
        let weight = blends.select(alpha * state.transmittance, zero);
        for k in 0..3 {
            state.color[k] = fma(weight, splat(simd, splat_record.0[record::RED + k]), state.color[k]);
        }
        if EXTRAS {
            state.depth = fma(weight, splat(simd, splat_record.0[record::DEPTH]), state.depth);
            state.count += weight.simd_gt(zero).select(splat(simd, 1.0), zero);
        }
        state.processed_entries = blends.select(next, state.processed_entries);
        state.transmittance = next;
        if !blends.any_true() {
            stopped = Some(n + 1);
            break;
        }
    }
    *cell = state;
    stopped
}

/// A batch of entries that are sorted into cells, and what is prefetched meanwhile.
struct Batch<'a> {
    /// The records; the first `len` of them belong to this batch.
    local: &'a [Record; BATCH],
    len: usize,
    records: &'a [Record],
    /// The entries after this batch.
    following: &'a [TileEntry],
}

/// Sorts the entries of a batch into the lists of the active cells that they touch; returns the lengths of the lists.
#[inline(always)]
fn cell_lists<S: Simd>(
    simd: S,
    origin: [usize; 2],
    batch: &Batch<'_>,
    active: u32,
    lists: &mut [CellList; CELLS],
    masks: &mut [u32; BATCH],
) -> [usize; CELLS] {
    let mut lengths = [0usize; CELLS];
    let lane_numbers = u32x16::from_fn(simd, |i| i as u32);
    for group in 0..batch.len.div_ceil(LANES) {
        let first = group * LANES;
        for i in first..first + LANES {
            if let Some(entry) = batch.following.get(i) {
                prefetch(batch.records, entry.splat());
            }
        }
        let rows = transpose(array_from_fn(
            #[inline(always)]
            |i| load(simd, &batch.local[first + i].0),
        ));
        let spans = EllipseSpans::new(simd, &rows, origin);
        let numbers = lane_numbers + first as u32;
        let valid = numbers.simd_lt(u32x16::splat(simd, batch.len as u32));
        let mut bits = u32x16::splat(simd, 0);
        for band in 0..CELLS / CELLS_PER_ROW {
            if active >> (band * CELLS_PER_ROW) & 0xF == 0 {
                continue;
            }
            let (left, right, touched) = spans.columns(simd, origin, band);
            let touched = touched & valid;
            if !touched.any_true() {
                continue;
            }
            for column in 0..CELLS_PER_ROW {
                let c = band * CELLS_PER_ROW + column;
                if active >> c & 1 == 0 {
                    continue;
                }
                let first_px = (column * 4) as f32;
                let hits = touched
                    & left.simd_le(splat(simd, first_px + 3.0))
                    & right.simd_ge(splat(simd, first_px));
                let hit_bits = hits.to_bitmask();
                if hit_bits == 0 {
                    continue;
                }
                let length = lengths[c];
                numbers.compress(hits).store_slice(&mut lists[c][length..length + LANES]);
                lengths[c] = length + hit_bits.count_ones() as usize;
                bits |= hits.select(u32x16::splat(simd, 1 << c), u32x16::splat(simd, 0));
            }
        }
        bits.store_slice(&mut masks[first..first + LANES]);
    }
    lengths
}

/// The ellipses of 16 entries, prepared for intersection with bands of rows.
struct EllipseSpans<S: Simd> {
    x: f32x16<S>,
    y: f32x16<S>,
    a: f32x16<S>,
    b: f32x16<S>,
    det: f32x16<S>,
    a_tau: f32x16<S>,
    extent_y: f32x16<S>,
    rightmost: f32x16<S>,
    slack: f32x16<S>,
}

impl<S: Simd> EllipseSpans<S> {
    #[inline(always)]
    fn new(simd: S, rows: &[f32x16<S>; LANES], origin: [usize; 2]) -> Self {
        let (a, b) = (-rows[record::A], splat(simd, -0.5) * rows[record::B]);
        let tau = rows[record::L] + splat(simd, LOG2_255);
        let slack = fma(
            rows[record::EXTENT_X] + rows[record::EXTENT_Y],
            splat(simd, RELATIVE_SLACK),
            splat(simd, EXTENT_SLACK),
        );
        Self {
            x: rows[record::X] - splat(simd, origin[0] as f32 + 0.5),
            y: rows[record::Y],
            a,
            b,
            det: rows[record::CONIC_DET],
            a_tau: a * tau,
            extent_y: rows[record::EXTENT_Y] + slack,
            rightmost: rows[record::RIGHTMOST_DY],
            slack,
        }
    }

    /// First and last pixel column, relative to the tile, that each ellipse reaches in a band of 4 rows, and whether
    /// there is any.
    ///
    /// The right edge is a concave function of `dy`, so its maximum over a band is at the rightmost point of the
    /// ellipse clamped to the band; the left edge likewise with the sign reversed.
    #[inline(always)]
    fn columns(&self, simd: S, origin: [usize; 2], band: usize) -> (f32x16<S>, f32x16<S>, mask32x16<S>) {
        let zero = splat(simd, 0.0);
        let first_row = splat(simd, cell_origin(origin, band * CELLS_PER_ROW)[1] as f32 + 0.5);
        let top = first_row - self.y;
        let bottom = top + splat(simd, 3.0);
        let top = top.max(-self.extent_y);
        let bottom = bottom.min(self.extent_y);
        let rows_touched = top.simd_le(bottom);
        let at_right = self.rightmost.max(top).min(bottom);
        let at_left = (-self.rightmost).max(top).min(bottom);
        let root = inline_closure(
            #[inline(always)]
            |dy: f32x16<S>| fnma(self.det * dy, dy, self.a_tau).max(zero).sqrt(),
        );
        let right = (fnma(self.b, at_right, root(at_right))) / self.a;
        let left = (-(fma(self.b, at_left, root(at_left)))) / self.a;
        let left = (self.x + left - self.slack).ceil();
        let right = (self.x + right + self.slack).floor();
        (left, right, rows_touched & left.simd_le(right))
    }
}

/// Writes the colours of a row of tiles as lines: channel `c` of pixel row `y` (relative to the tiles' top) starts at
/// `y · row_len + c · stride`.
///
/// `lines` holds 16 pixel rows; all 16 are written, with padding outside the image.
///
/// # Panics
/// If `lines` is too short.
pub fn tile_row_to_lines(tiles: &[TilePixels], lines: &mut [f32], stride: usize, row_len: usize) {
    for (column, pixels) in tiles.iter().enumerate() {
        for (c, channels) in pixels.color.iter().enumerate() {
            let [x, y] = cell_origin([column * TILE_SIZE as usize, 0], c);
            for (k, values) in channels.iter().enumerate() {
                for (line, four) in values.0.chunks_exact(PIXELS_PER_CELL_ROW).enumerate() {
                    let start = (y + line) * row_len + k * stride + x;
                    lines[start..start + PIXELS_PER_CELL_ROW].copy_from_slice(four);
                }
            }
        }
    }
}
