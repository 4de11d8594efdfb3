//! Stage `blend_vjp`: gradients with respect to the screen splats.
//!
//! A task is a tile; its entries are walked *front to back*, with the same arithmetic as the forward pass, so `T` is
//! bit-identical and no division is needed to undo it. Per pixel, with upstream gradients `g` of colour, `g_a` of alpha
//! and `g_z` of depth, let `s_i = g · colour_i + g_z z_i + g_a`, and let
//! `S_i = Σ_{j > i} w_j s_j + T_end g · background` be the contribution behind splat i. Then
//!
//! ```text
//! dL/d ln alpha_i = w_i s_i - S_i alpha_i / (1 - alpha_i)      (0 where alpha is clamped or the splat is not blended)
//! dL/d colour_i   = w_i g
//! ```
//!
//! `S` starts as `g · C + g_z D + g_a (1 - T_end)` from the forward result, and `w_i s_i` is subtracted at each splat.
//! Sums over the pixels of a tile go to one [`GradientSlot`] per (tile, splat) entry; there are no atomic additions, and a
//! later stage adds the slots of a splat in a fixed order.

use fearless_simd::{f32x8, f32x16, mask32x16, prelude::*, u32x16};
use gausset_compute::prefetch::prefetch;
use gausset_compute::scatter::{SharedRow, as_shared_rows};
use gausset_compute::simd::{
    LANES, Row, array_from_fn, fma, fnma, inline_closure, load, map_array, splat, sum_lanes,
};
use gausset_compute::{Exec, at_level};
use gausset_core::constants::TRANSMITTANCE_STOP;

use crate::blend::{Blended, TileExtras, TilePixels};
use crate::layout::AlignedRow;
use crate::pixel::{
    CELLS, PIXELS_PER_CELL_ROW, cell_origin, cell_pixels, exponent, inside_image, offset, raw_alpha,
    tile_origin,
};
use crate::project::{Record, record};
use crate::tile::{BlendInput, TileEntry};
use crate::view::KernelView;

/// Sums over the pixels of a tile for one splat; names in [`slot`].
pub type GradientSlot = AlignedRow;

/// Values of half a slot.
const HALF: usize = LANES / 2;
/// Entries whose records and alphas are in the first-level cache together.
const GROUP: usize = 16;
/// Prefetch distance of records, in entries: some microseconds of arithmetic.
const RECORD_PREFETCH: usize = 64;
/// Prefetch distance of slots, in entries.
const SLOT_PREFETCH: usize = 32;

/// Names of the values of a [`GradientSlot`]; `v = dL/d ln alpha`, `(dx, dy)` from the mean to the pixel.
pub mod slot {
    /// `Σ v`.
    pub const V: usize = 0;
    /// `Σ v dx`.
    pub const VX: usize = 1;
    /// `Σ v dy`.
    pub const VY: usize = 2;
    /// `Σ v dx²`.
    pub const VXX: usize = 3;
    /// `Σ v dx dy`.
    pub const VXY: usize = 4;
    /// `Σ v dy²`.
    pub const VYY: usize = 5;
    /// `dL/d red`; green and blue follow.
    pub const RED: usize = 6;
    /// `dL/d z` of the depth output.
    pub const DEPTH: usize = 9;
    /// `Σ |dL/du|` per pixel, in units of `1/ln 2`.
    pub const ABS_X: usize = 10;
    /// `Σ |dL/dv|` per pixel, in units of `1/ln 2`.
    pub const ABS_Y: usize = 11;
    /// Number of values; the following ones are bookkeeping.
    pub const VALUES: usize = 12;
    /// The bits of the number of the pass that wrote the slot.
    pub const PASS: usize = 12;
}

/// An image of several channels, stored line by line: channel `c` of pixel row `y` starts at
/// `y · row_len + c · stride`.
///
/// `stride` and the number of rows are the image's width and height rounded up to 16.
#[derive(Clone, Copy, Debug)]
pub struct PlanarImage<'a> {
    /// The values of all lines.
    pub data: &'a [f32],
    /// Values per line.
    pub stride: usize,
    /// Values per pixel row.
    pub row_len: usize,
}

impl PlanarImage<'_> {
    /// The 16 values of a channel in the cell whose top left pixel is `(x, y)`.
    #[inline(always)]
    pub(crate) fn cell(&self, channel: usize, [x, y]: [usize; 2]) -> Row {
        let mut row = [0.0; LANES];
        for (line, out) in row.chunks_exact_mut(PIXELS_PER_CELL_ROW).enumerate() {
            let start = (y + line) * self.row_len + channel * self.stride + x;
            out.copy_from_slice(&self.data[start..start + PIXELS_PER_CELL_ROW]);
        }
        row
    }
}

/// Gradients of the loss with respect to the render.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a> {
    /// `dL/d colour`, three channels.
    pub color: PlanarImage<'a>,
    /// `dL/d alpha` and `dL/d depth`, two channels.
    pub alpha_depth: Option<PlanarImage<'a>>,
}

/// Output of the stage; reused from step to step.
#[derive(Clone, Debug, Default)]
pub struct GradientSlots {
    /// One per tile entry, in the order of splats; valid only if live.
    pub slots: Vec<GradientSlot>,
    /// Number of the last pass; the slots with this number are live.
    pub pass: u32,
    /// Gradient `dL/d background` of the colour behind the splats.
    pub background: [f64; 3],
}

/// What is accumulated in addition to the gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsoluteSums {
    /// Nothing: [`slot::ABS_X`] and [`slot::ABS_Y`] stay 0.
    #[default]
    Off,
    /// Sums of the absolute screen gradients of each pixel.
    On,
}

struct TileInput<'a> {
    view: &'a KernelView,
    tile: usize,
    entries: &'a [TileEntry],
    records: &'a [Record],
    masks: &'a [u16],
    pixels: &'a TilePixels,
    extras: Option<&'a TileExtras>,
    upstream: Upstream<'a>,
    slots: &'a [SharedRow],
    pass: u32,
}

impl GradientSlots {
    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<GradientSlot>()
    }

    /// Whether a slot was written by the last pass.
    #[must_use]
    #[inline(always)]
    pub fn is_live(&self, slot: &GradientSlot) -> bool {
        slot.0[slot::PASS].to_bits() == self.pass
    }

    /// Runs the stage.
    ///
    /// # Panics
    /// If gradients of depth are given and the forward pass did not keep the depth.
    pub fn run(
        &mut self,
        exec: Exec<'_>,
        splats: BlendInput<'_>,
        blended: &Blended,
        upstream: Upstream<'_>,
        absolute: AbsoluteSums,
    ) {
        let BlendInput { view, lists, records } = splats;
        assert!(
            upstream.alpha_depth.is_none() || blended.extras.len() == blended.tiles.len(),
            "gradients of depth need the forward pass with depth"
        );
        if self.slots.len() < lists.entry_count {
            self.slots.resize(lists.entries.len(), GradientSlot::default());
        }
        if self.pass == u32::MAX {
            self.slots.fill(GradientSlot::default());
            self.pass = 0;
        }
        self.pass += 1;
        let (slots, pass) = (as_shared_rows(&mut self.slots), self.pass);
        let mut backgrounds = vec![[0.0f32; 3]; view.tile_count()];
        exec.pool.run_parts(&mut backgrounds, |tile, background| {
            let first = lists.starts[tile] as usize;
            let processed = (blended.processed_entries[tile] as usize).min(lists.lengths[tile] as usize);
            let input = TileInput {
                view,
                tile,
                entries: &lists.entries[first..first + processed],
                records,
                masks: &blended.cell_masks[first..first + processed],
                pixels: &blended.tiles[tile],
                extras: blended.extras.get(tile),
                upstream,
                slots,
                pass,
            };
            let extra = upstream.alpha_depth.is_some();
            at_level!(exec.level, simd => match (extra, absolute) {
                (false, AbsoluteSums::Off) => tile_vjp::<_, false, false>(simd, &input, background),
                (false, AbsoluteSums::On) => tile_vjp::<_, false, true>(simd, &input, background),
                (true, AbsoluteSums::Off) => tile_vjp::<_, true, false>(simd, &input, background),
                (true, AbsoluteSums::On) => tile_vjp::<_, true, true>(simd, &input, background),
            });
        });
        self.background = [0.0; 3];
        for background in backgrounds {
            for (sum, value) in self.background.iter_mut().zip(background) {
                *sum += f64::from(value);
            }
        }
    }
}

/// State of a cell during the walk.
#[derive(Clone, Copy)]
struct Cell<S: Simd> {
    x: f32x16<S>,
    y: f32x16<S>,
    transmittance: f32x16<S>,
    /// `S` of the module documentation.
    remaining: f32x16<S>,
    color_gradient: [f32x16<S>; 3],
    alpha_gradient: f32x16<S>,
    depth_gradient: f32x16<S>,
}

#[inline(always)]
fn tile_vjp<S: Simd, const EXTRAS: bool, const ABSOLUTE: bool>(
    simd: S,
    input: &TileInput<'_>,
    background_gradient: &mut [f32; 3],
) {
    let zero = splat(simd, 0.0);
    let mut background = [zero; 3];
    let origin = tile_origin(input.view, input.tile);
    let mut cells: [Cell<S>; CELLS] = array_from_fn(
        #[inline(always)]
        |c| start_cell::<S, EXTRAS>(simd, input, origin, c, &mut background),
    );
    *background_gradient = map_array(background, sum_lanes);

    let alpha_max = splat(simd, input.view.alpha_max);
    let stop = splat(simd, TRANSMITTANCE_STOP);
    let one = splat(simd, 1.0);
    let lane_numbers = u32x16::from_fn(simd, |i| i as u32);
    let mut local = [Record::default(); GROUP];
    let mut pairs = [0u32; GROUP * CELLS + LANES];
    let mut raw_alphas = [zero; GROUP * CELLS];
    for base in (0..input.entries.len()).step_by(GROUP) {
        let count = GROUP.min(input.entries.len() - base);
        let mut pair_count = 0;
        for i in 0..count {
            if let Some(entry) = input.entries.get(base + i + RECORD_PREFETCH) {
                prefetch(input.records, entry.splat());
            }
            if let (Some(entry), Some(mask)) =
                (input.entries.get(base + i + SLOT_PREFETCH), input.masks.get(base + i + SLOT_PREFETCH))
                && *mask != 0
            {
                prefetch(input.slots, entry.slot());
            }
            local[i] = input.records[input.entries[base + i].splat()];
            let mask = input.masks[base + i];
            let cells_of_entry = mask32x16::from_bitmask(simd, u64::from(mask));
            let numbers = lane_numbers + (i * CELLS) as u32;
            numbers.compress(cells_of_entry).store_slice(&mut pairs[pair_count..pair_count + LANES]);
            pair_count += mask.count_ones() as usize;
        }
        if pair_count == 0 {
            continue;
        }
        // After the end there are pairs of earlier groups, or zeros: evaluated and not used.
        let exponent_of = inline_closure(
            #[inline(always)]
            |pair: usize| {
                let pair = pairs[pair] as usize;
                let cell = &cells[pair % CELLS];
                exponent(simd, &local[pair / CELLS % GROUP], cell.x, cell.y)
            },
        );
        let mut next_exponent = exponent_of(0);
        for pair in 0..pair_count {
            let this = next_exponent;
            next_exponent = exponent_of(pair + 1);
            raw_alphas[pair] = raw_alpha(simd, this);
        }

        let mut pair = 0;
        for i in 0..count {
            let end = pair + input.masks[base + i].count_ones() as usize;
            if pair == end {
                continue;
            }
            let splat_record = &local[i];
            let r = &splat_record.0;
            let mut sums = [zero; slot::DEPTH];
            let mut depth_sum = zero;
            let mut absolute = [zero; 2];
            while pair < end {
                let cell = &mut cells[pairs[pair] as usize % CELLS];
                let raw = raw_alphas[pair];
                pair += 1;
                let alpha = raw.min(alpha_max);
                let (dx, dy) = offset(simd, splat_record, cell.x, cell.y);
                let next = fnma(alpha, cell.transmittance, cell.transmittance);
                let blends = next.simd_gt(stop);
                let weight = blends.select(alpha * cell.transmittance, zero);
                cell.transmittance = next;
                let g = &cell.color_gradient;
                let mut gain = fma(
                    splat(simd, r[record::RED]),
                    g[0],
                    fma(splat(simd, r[record::GREEN]), g[1], splat(simd, r[record::BLUE]) * g[2]),
                );
                if EXTRAS {
                    gain += fma(splat(simd, r[record::DEPTH]), cell.depth_gradient, cell.alpha_gradient);
                    depth_sum = fma(weight, cell.depth_gradient, depth_sum);
                }
                let own = weight * gain;
                cell.remaining -= own;
                let lost = cell.remaining * (alpha / (one - alpha));
                let v = (blends & raw.simd_le(alpha_max)).select(own - lost, zero);
                let (vx, vy) = (v * dx, v * dy);
                sums[slot::V] += v;
                sums[slot::VX] += vx;
                sums[slot::VY] += vy;
                sums[slot::VXX] = fma(vx, dx, sums[slot::VXX]);
                sums[slot::VXY] = fma(vx, dy, sums[slot::VXY]);
                sums[slot::VYY] = fma(vy, dy, sums[slot::VYY]);
                for k in 0..3 {
                    sums[slot::RED + k] = fma(weight, g[k], sums[slot::RED + k]);
                }
                if ABSOLUTE {
                    let two = splat(simd, 2.0);
                    let slope_x = fma(two * splat(simd, r[record::A]), dx, splat(simd, r[record::B]) * dy);
                    let slope_y = fma(two * splat(simd, r[record::C]), dy, splat(simd, r[record::B]) * dx);
                    absolute[0] += (v * slope_x).abs();
                    absolute[1] += (v * slope_y).abs();
                }
            }
            let (low, mut high) = reduce(simd, &sums);
            high[slot::PASS - HALF] = f32::from_bits(input.pass);
            if EXTRAS {
                high[slot::DEPTH - HALF] = sum_lanes(depth_sum);
            }
            if ABSOLUTE {
                high[slot::ABS_X - HALF] = sum_lanes(absolute[0]);
                high[slot::ABS_Y - HALF] = sum_lanes(absolute[1]);
            }
            input.slots[input.entries[base + i].slot()].store(low, high);
        }
    }
}

#[inline(always)]
fn start_cell<S: Simd, const EXTRAS: bool>(
    simd: S,
    input: &TileInput<'_>,
    origin: [usize; 2],
    c: usize,
    background: &mut [f32x16<S>; 3],
) -> Cell<S> {
    let (zero, one) = (splat(simd, 0.0), splat(simd, 1.0));
    let (x, y) = cell_pixels(simd, origin, c);
    let inside = inside_image(simd, input.view, x, y);
    let corner = cell_origin(origin, c);
    // Padding of the upstream image may hold any value: it is masked here once.
    let upstream = inline_closure(
        #[inline(always)]
        |lines: &PlanarImage<'_>, channel: usize| {
            inside.select(load(simd, &lines.cell(channel, corner)), zero)
        },
    );
    let last = load(simd, &input.pixels.transmittance[c].0);
    let mut behind = zero;
    let mut color_gradient = [zero; 3];
    for k in 0..3 {
        color_gradient[k] = upstream(&input.upstream.color, k);
        behind = fma(color_gradient[k], load(simd, &input.pixels.color[c][k].0), behind);
        background[k] = fma(color_gradient[k], last, background[k]);
    }
    let (mut alpha_gradient, mut depth_gradient) = (zero, zero);
    if EXTRAS && let (Some(lines), Some(extras)) = (&input.upstream.alpha_depth, input.extras) {
        alpha_gradient = upstream(lines, 0);
        depth_gradient = upstream(lines, 1);
        behind = fma(depth_gradient, load(simd, &extras.depth[c].0), behind);
        behind = fma(alpha_gradient, one - last, behind);
    }
    let transmittance = inside.select(one, zero);
    Cell { x, y, transmittance, remaining: behind, color_gradient, alpha_gradient, depth_gradient }
}

/// Sums the lanes of nine vectors, each over lanes 8, 4, 2, 1 apart: eight of them together, and the ninth as the first
/// of a row of zeros.
///
/// Adding the halves first leaves eight lanes, which cost half as much to shuffle and are one register each on AVX2.
/// Nothing is assembled in memory: a load that spans several earlier stores waits until these have left the store
/// queue, behind all slots that were written before.
#[inline(always)]
fn reduce<S: Simd>(_simd: S, sums: &[f32x16<S>; slot::DEPTH]) -> ([f32; HALF], [f32; HALF]) {
    let v: [f32x8<S>; slot::DEPTH] = array_from_fn(
        #[inline(always)]
        |i| {
            let (low, high) = sums[i].split();
            low + high
        },
    );
    let fold = inline_closure(
        #[inline(always)]
        |a: f32x8<S>, b: f32x8<S>| a.zip_low(b) + a.zip_high(b),
    );
    let a: [f32x8<S>; 4] = array_from_fn(
        #[inline(always)]
        |i| fold(v[i], v[i + 4]),
    );
    let eight = fold(fold(a[0], a[2]), fold(a[1], a[3]));
    let (low, high) = v[HALF].split();
    let four: [f32; 4] = (low + high).to_array();
    let mut rest = [0.0; HALF];
    rest[slot::RED + 2 - HALF] = (four[0] + four[2]) + (four[1] + four[3]);
    (eight.to_array(), rest)
}
