//! Stage `blend_vjp`: gradients with respect to the screen splats.
//!
//! A task is a tile; its entries are walked *front to back*, with the same arithmetic as the forward pass, so `T` is
//! the same to the bit and nothing is divided to undo it. Per pixel, with upstream gradients `g` of colour, `g_a` of
//! alpha and `g_z` of depth, let `s_i = g · colour_i + g_z z_i + g_a` and
//! `S_i = Σ_{j > i} w_j s_j + T_end g · background`: what lies behind splat i. Then
//!
//! ```text
//! dL/d ln alpha_i = w_i s_i - S_i alpha_i / (1 - alpha_i)      (0 where alpha is clamped or the splat is not blended)
//! dL/d colour_i   = w_i g
//! ```
//!
//! `S` starts as `g · C + g_z D + g_a (1 - T_end)` from the forward result and loses `w_i s_i` at each splat. Sums over
//! the pixels of a tile go to one [`Slot`] per (tile, splat) entry; nothing is added atomically, and a later stage adds
//! the slots of a splat in a fixed order.

use fearless_simd::{Level, f32x16, mask32x16, prelude::*, u32x16};
use gausset_compute::simd::{LANES, Row, each, each_of, fma, fnma, fold, inlined, load, splat, sum_lanes};
use gausset_compute::prefetch::prefetch;
use gausset_compute::scatter::{SharedRow, shared};
use gausset_compute::{Pool, at_level};
use gausset_core::constants::{ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_STOP};

use crate::blend::{BATCH, Blended, TileExtras, TilePixels, copy_records};
use crate::layout::AlignedRow;
use crate::pixel::{
    CELL_SIDE, CELLS, PixelAlpha, cell_origin, cell_pixels, inside_image, pixel_alpha, tile_origin,
};
use crate::project::{Record, record};
use crate::tile::{Entry, TileSplats};
use crate::view::KernelView;

/// Sums over the pixels of a tile for one splat; names in [`slot`].
pub type Slot = AlignedRow;

/// Entries between asking for a slot and writing it.
const SLOTS_AHEAD: usize = 16;

/// Names of the values of a [`Slot`]; `v = dL/d ln alpha`, `(dx, dy)` from the mean to the pixel.
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
    /// Number of values; what follows belongs to the bookkeeping.
    pub const VALUES: usize = 12;
    /// The bits of the number of the pass that wrote the slot.
    pub const PASS: usize = 12;
}

/// A picture of several channels, line by line: channel `c` of pixel row `y` starts at `y · row_len + c · stride`.
///
/// `stride` and the number of rows are the image's width and height rounded up to 16.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    /// The values.
    pub data: &'a [f32],
    /// Values per line.
    pub stride: usize,
    /// Values per pixel row.
    pub row_len: usize,
}

/// Gradients of the loss with respect to the rendered picture.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a> {
    /// `dL/d colour`, three channels.
    pub color: Lines<'a>,
    /// `dL/d alpha` and `dL/d depth`, two channels.
    pub alpha_depth: Option<Lines<'a>>,
}

/// Output of the stage; reused from step to step.
#[derive(Clone, Debug, Default)]
pub struct SlotSums {
    /// One per tile entry in the order of splats; meaningful where live.
    pub slots: Vec<Slot>,
    /// Number of the last pass: its slots are live.
    pub pass: u32,
    /// `dL/d background`.
    pub background: [f64; 3],
}

/// What is accumulated besides the gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsoluteSums {
    /// Nothing.
    #[default]
    Off,
    /// Sums of the absolute screen gradients of each pixel.
    On,
}


struct TileInput<'a> {
    view: &'a KernelView,
    tile: usize,
    entries: &'a [Entry],
    records: &'a [Record],
    masks: &'a [u16],
    pixels: &'a TilePixels,
    extras: Option<&'a TileExtras>,
    upstream: Upstream<'a>,
    slots: &'a [SharedRow],
    pass: u32,
}

impl SlotSums {
    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Whether a slot was written by the last pass.
    #[must_use]
    #[inline(always)]
    pub fn is_live(&self, slot: &Slot) -> bool {
        slot.0[slot::PASS].to_bits() == self.pass
    }

    /// Runs the stage.
    ///
    /// # Panics
    /// If gradients of depth are given and the forward pass did not keep depth.
    pub fn run(
        &mut self,
        pool: &Pool,
        level: Level,
        splats: TileSplats<'_>,
        blended: &Blended,
        upstream: Upstream<'_>,
        absolute: AbsoluteSums,
    ) {
        let TileSplats { view, lists, records } = splats;
        assert!(
            upstream.alpha_depth.is_none() || blended.extras.len() == blended.tiles.len(),
            "gradients of depth need the forward pass with depth"
        );
        if self.slots.len() < lists.entry_count {
            self.slots.resize(lists.entries.len(), Slot::default());
        }
        if self.pass == u32::MAX {
            self.slots.fill(Slot::default());
            self.pass = 0;
        }
        self.pass += 1;
        let (slots, pass) = (shared(&mut self.slots), self.pass);
        let mut backgrounds = vec![[0.0f32; 3]; view.tile_count()];
        pool.run_parts(&mut backgrounds, |tile, background| {
            let first = lists.first[tile] as usize;
            let processed = (blended.processed[tile] as usize).min(lists.len[tile] as usize);
            let input = TileInput {
                view,
                tile,
                entries: &lists.entries[first..first + processed],
                records,
                masks: &blended.masks[first..first + processed],
                pixels: &blended.tiles[tile],
                extras: blended.extras.get(tile),
                upstream,
                slots,
                pass,
            };
            let extra = upstream.alpha_depth.is_some();
            at_level!(level, simd => match (extra, absolute) {
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

/// The 16 values of a cell of one channel.
#[inline(always)]
fn cell_values(lines: &Lines<'_>, channel: usize, [x, y]: [usize; 2]) -> Row {
    let mut row = [0.0; LANES];
    for (line, out) in row.chunks_exact_mut(CELL_SIDE).enumerate() {
        let start = (y + line) * lines.row_len + channel * lines.stride + x;
        out.copy_from_slice(&lines.data[start..start + CELL_SIDE]);
    }
    row
}

/// What the walk keeps of a cell.
#[derive(Clone, Copy)]
struct Cell<S: Simd> {
    x: f32x16<S>,
    y: f32x16<S>,
    transmittance: f32x16<S>,
    /// `S` of the module documentation.
    behind: f32x16<S>,
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
    tile_vjp_inner::<S, EXTRAS, ABSOLUTE>(simd, input, background_gradient);
}

#[inline(always)]
fn tile_vjp_inner<S: Simd, const EXTRAS: bool, const ABSOLUTE: bool>(
    simd: S,
    input: &TileInput<'_>,
    background_gradient: &mut [f32; 3],
) {
    let zero = splat(simd, 0.0);
    let mut background = [zero; 3];
    let origin = tile_origin(input.view, input.tile);
    let mut cells: [Cell<S>; CELLS] = each(
        #[inline(always)]
        |c| start_cell::<S, EXTRAS>(simd, input, origin, c, &mut background),
    );
    *background_gradient = each_of(background, sum_lanes);

    let alpha_min = splat(simd, ALPHA_MIN);
    let alpha_max = splat(simd, ALPHA_MAX);
    let stop = splat(simd, TRANSMITTANCE_STOP);
    let one = splat(simd, 1.0);
    let lane_numbers = u32x16::from_fn(simd, |i| i as u32);
    let lane_is = inlined(
        #[inline(always)]
        |lane: usize| lane_numbers.simd_eq(u32x16::splat(simd, lane as u32)),
    );
    let first_nine = lane_numbers.simd_lt(u32x16::splat(simd, 9));
    let pass_row = lane_is(slot::PASS).select(splat(simd, f32::from_bits(input.pass)), zero);
    let mut local = [Record::default(); BATCH];
    let mut alphas = [PixelAlpha { dx: zero, dy: zero, raw: zero, alpha: zero }; CELLS];
    for base in (0..input.entries.len()).step_by(BATCH) {
        copy_records(input.records, &input.entries[base..], &mut local);
        for i in 0..BATCH.min(input.entries.len() - base) {
            if let (Some(entry), Some(mask)) =
                (input.entries.get(base + i + SLOTS_AHEAD), input.masks.get(base + i + SLOTS_AHEAD))
                && *mask != 0
            {
                prefetch(input.slots, entry.slot());
            }
            let mut mask = u32::from(input.masks[base + i]);
            if mask == 0 {
                continue;
            }
            let splat_record = &local[i];
            let r = &splat_record.0;
            let mut sums = [zero; 9];
            let mut depth_sum = zero;
            let mut absolute = [zero; 2];
            let mut remaining = mask;
            while remaining != 0 {
                let c = remaining.trailing_zeros() as usize % CELLS;
                remaining &= remaining - 1;
                let cell = &cells[c];
                alphas[c] = pixel_alpha(simd, splat_record, cell.x, cell.y);
            }
            while mask != 0 {
                let c = mask.trailing_zeros() as usize % CELLS;
                mask &= mask - 1;
                let cell = &mut cells[c];
                let at = alphas[c];
                let alpha = at.alpha.simd_ge(alpha_min).select(at.alpha, zero);
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
                cell.behind -= own;
                let lost = cell.behind * (alpha / (one - alpha));
                let v = (blends & at.raw.simd_le(alpha_max)).select(own - lost, zero);
                let (vx, vy) = (v * at.dx, v * at.dy);
                sums[0] += v;
                sums[1] += vx;
                sums[2] += vy;
                sums[3] = fma(vx, at.dx, sums[3]);
                sums[4] = fma(vx, at.dy, sums[4]);
                sums[5] = fma(vy, at.dy, sums[5]);
                for k in 0..3 {
                    sums[6 + k] = fma(weight, g[k], sums[6 + k]);
                }
                if ABSOLUTE {
                    let two = splat(simd, 2.0);
                    let slope_x =
                        fma(two * splat(simd, r[record::A]), at.dx, splat(simd, r[record::B]) * at.dy);
                    let slope_y =
                        fma(two * splat(simd, r[record::C]), at.dy, splat(simd, r[record::B]) * at.dx);
                    absolute[0] += (v * slope_x).abs();
                    absolute[1] += (v * slope_y).abs();
                }
            }
            let mut row = reduce(&sums, pass_row, first_nine);
            if EXTRAS {
                row = lane_is(slot::DEPTH).select(splat(simd, sum_lanes(depth_sum)), row);
            }
            if ABSOLUTE {
                row = lane_is(slot::ABS_X).select(splat(simd, sum_lanes(absolute[0])), row);
                row = lane_is(slot::ABS_Y).select(splat(simd, sum_lanes(absolute[1])), row);
            }
            input.slots[input.entries[base + i].slot()].store(&AlignedRow(row.to_array()));
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
    // Padding of the upstream picture may hold anything: it is masked here once.
    let upstream = inlined(
        #[inline(always)]
        |lines: &Lines<'_>, channel: usize| {
            inside.select(load(simd, &cell_values(lines, channel, corner)), zero)
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
    Cell { x, y, transmittance, behind, color_gradient, alpha_gradient, depth_gradient }
}

/// Sums of the lanes of nine vectors, each over lanes 8, 4, 2, 1 apart, in the first nine lanes; the others are those of
/// `rest`.
///
/// All of it stays in vectors: a row put together in memory out of several stores could not be read back before they
/// have left the store queue, behind all slots that were written before.
#[inline(always)]
fn reduce<S: Simd>(sums: &[f32x16<S>; 9], rest: f32x16<S>, first_nine: mask32x16<S>) -> f32x16<S> {
    let a: [f32x16<S>; 4] = each(
        #[inline(always)]
        |i| fold(sums[i], sums[i + 4]),
    );
    let b: [f32x16<S>; 2] = each(
        #[inline(always)]
        |i| fold(a[i], a[i + 2]),
    );
    let c = fold(b[0], b[1]);
    let eight = c + c.slide::<8>(c);
    let ninth = sums[8] + sums[8].slide::<8>(sums[8]);
    let ninth = ninth + ninth.slide::<4>(ninth);
    let ninth = ninth + ninth.slide::<2>(ninth);
    let ninth = ninth + ninth.slide::<1>(ninth);
    first_nine.select(eight.slide::<8>(ninth), rest)
}
