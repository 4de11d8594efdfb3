//! Stage `project`: projects splats to the screen and evaluates their colour.
//!
//! For each block of 16 splats: cull, project, evaluate SH, and write for each visible splat
//! - a [`Record`]: the data that a pixel needs to blend it,
//! - the rectangle of tiles that the bounding box of its `alpha >= 1/255` ellipse touches,
//! - its sort key, `depth bits << 32 | splat`.
//!
//! Culling is exact: with `tau = 2 ln(255 o)`, a splat reaches alpha 1/255 only inside the ellipse `dᵀ Q d <= tau`,
//! whose bounding box has half sizes `sqrt(tau a)`, `sqrt(tau c)`. A splat is dropped if it is not in front of the near
//! plane, if `tau < 0`, if its box touches no pixel centre, if a parameter is NaN, or if a result is not finite.

use std::ops::Range;

use fearless_simd::{f32x16, mask32x16, prelude::*};
use gausset_compute::simd::{
    LANES, LN_2, LOG2_E, Row, fma, inline_closure, ln, load, map_array, splat, transpose,
};
use gausset_compute::{Exec, Pool, at_level, rng};
use gausset_core::Projection;
use gausset_core::constants::TILE_SIZE;
use gausset_core::engine::RenderOptions;

use crate::form::{Activated, Form, Raw};
use crate::geometry::{Geometry, ViewDirection};
use crate::layout::{AlignedRow, Blocks, GeometryBlock, LOG_SCALE, LOGIT};
use crate::seam::{self, SeamCopies, SeamCopy};
use crate::spherical_harmonics::{at_degree, basis, colours};
use crate::view::{KernelView, ParameterForm};

/// Blocks per task. Fixed, so that results do not depend on the number of threads.
pub(crate) const BLOCKS_PER_CHUNK: usize = 64;
/// Splats per task.
pub(crate) const SPLATS_PER_CHUNK: usize = BLOCKS_PER_CHUNK * LANES;
const _: () = assert!(SPLATS_PER_CHUNK == 1024, "as the documentation says");

/// Slack in px around each extent: far above the rounding errors of f32, and too small to cost time.
pub(crate) const EXTENT_SLACK: f32 = 0.01;

/// `log2(255)`: alpha reaches 1/255 where the exponent reaches `-LOG2_255`.
pub(crate) const LOG2_255: f32 = 7.994_353_4;

/// Random dropout of splats in a step (Park et al. 2025, DropGaussian). The selection is a function of the seed, the
/// step and the index of a splat. Not part of the reference renderer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Fraction of the splats that is dropped, in 0..1.
    pub fraction: f32,
    /// Seed of the run.
    pub seed: u64,
    /// Number of the step.
    pub step: u64,
}

/// A screen splat, one cache line: values named in [`record`].
pub type Record = AlignedRow;

/// Names of the values of a [`Record`].
///
/// The exponent of a pixel at `(dx, dy)` from the mean is `(A dx + B dy) dx + C dy² + L`, in base 2.
pub mod record {
    /// Projected mean, px.
    pub const X: usize = 0;
    /// Projected mean, px.
    pub const Y: usize = 1;
    /// `-½ log2(e) A` of the conic.
    pub const A: usize = 2;
    /// `-log2(e) B` of the conic.
    pub const B: usize = 3;
    /// `-½ log2(e) C` of the conic.
    pub const C: usize = 4;
    /// `log2` of the opacity (after compensation).
    pub const L: usize = 5;
    /// Red, clamped at 0.
    pub const RED: usize = 6;
    /// Green, clamped at 0.
    pub const GREEN: usize = 7;
    /// Blue, clamped at 0.
    pub const BLUE: usize = 8;
    /// Depth: camera z, or the distance in a panorama.
    pub const DEPTH: usize = 9;
    /// Half width of the visible ellipse, px.
    pub const EXTENT_X: usize = 10;
    /// Half height of the visible ellipse, px.
    pub const EXTENT_Y: usize = 11;
    /// `dy` of the rightmost point of the ellipse, px.
    pub const RIGHTMOST_DY: usize = 12;
    /// `A C - B²/4` of the three values above, computed without cancellation: `(½ log2(e))² / det(cov)`.
    pub const CONIC_DET: usize = 13;
}

/// Half-open rectangle of tiles; empty for a splat that is not visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileRect {
    /// First tile column.
    pub x0: u16,
    /// One past the last tile column.
    pub x1: u16,
    /// First tile row.
    pub y0: u16,
    /// One past the last tile row.
    pub y1: u16,
}

impl TileRect {
    /// Number of tiles.
    #[must_use]
    #[inline]
    pub fn area(self) -> u32 {
        u32::from(self.x1 - self.x0) * u32::from(self.y1 - self.y0)
    }
}

/// Output of the stage; reused from step to step.
#[derive(Clone, Debug, Default)]
pub struct Projected {
    /// One per splat (and padding lane); valid only if visible.
    pub records: Vec<Record>,
    /// One per splat.
    pub rects: Vec<TileRect>,
    /// First entry of each splat, relative to its chunk; for a splat without entries, that of the next one.
    pub entry_offset: Vec<u32>,
    /// First entry of each chunk of 1 024 splats.
    pub chunk_entry_base: Vec<u32>,
    /// Which splats of each block are visible, one bit per lane.
    pub visible: Vec<u16>,
    /// Sort keys of the visible splats in splat order.
    pub sort_keys: Vec<u64>,
    /// Keys by chunk before they are concatenated.
    chunk_keys: Vec<u64>,
    /// Number of tile entries.
    pub entries: u64,
    /// Splats that would be visible without dropout.
    pub dropped_out: u64,
    /// Copies at the seam of a panorama, ordered by splat; their records, rectangles and entries follow those of all
    /// splats.
    copies: Vec<SeamCopy>,
}

impl Projected {
    /// Bytes per splat: its record, rectangle, entry offset, key, and key by chunk.
    pub const BYTES_PER_SPLAT: u64 =
        (size_of::<Record>() + size_of::<TileRect>() + size_of::<u32>() + 2 * size_of::<u64>()) as u64;

    /// Position of a splat's first entry among all entries.
    #[must_use]
    #[inline]
    pub fn first_entry(&self, splat: usize) -> usize {
        self.chunk_entry_base[splat / SPLATS_PER_CHUNK] as usize + self.entry_offset[splat] as usize
    }

    /// The splat of a record: itself, or the one of which it is a copy.
    #[must_use]
    #[inline(always)]
    pub fn splat_index(&self, record: usize) -> usize {
        match record.checked_sub(self.visible.len() * LANES) {
            Some(copy) => self.copies[copy].splat as usize,
            None => record,
        }
    }

    /// Number of visible splats.
    #[must_use]
    pub fn visible_splats(&self) -> u64 {
        if self.copies.is_empty() {
            return self.sort_keys.len() as u64;
        }
        self.visible.iter().map(|lanes| u64::from(lanes.count_ones())).sum()
    }

    /// The splats of a block that have a copy, with the entries of the copy.
    pub(crate) fn copies_of(&self, block: usize) -> impl ExactSizeIterator<Item = (usize, Range<usize>)> {
        let before = |splat: usize| self.copies.partition_point(|copy| (copy.splat as usize) < splat);
        let copies = match self.copies.len() {
            0 => 0..0,
            _ => before(block * LANES)..before((block + 1) * LANES),
        };
        let first = self.visible.len() * LANES;
        copies.map(move |i| {
            let entry = self.first_entry(first + i);
            (self.copies[i].splat as usize, entry..entry + self.copies[i].rect.area() as usize)
        })
    }

    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.copies.capacity() * size_of::<SeamCopy>()
            + self.records.capacity() * size_of::<Record>()
            + self.rects.capacity() * size_of::<TileRect>()
            + self.entry_offset.capacity() * 4
            + self.visible.capacity() * 2
            + (self.sort_keys.capacity() + self.chunk_keys.capacity()) * 8
    }

    /// Runs the stage.
    pub fn run(
        &mut self,
        exec: Exec<'_>,
        splats: &Blocks,
        view: &KernelView,
        options: &RenderOptions,
        dropout: Option<Dropout>,
    ) {
        let lanes = splats.geometry.len() * LANES;
        self.records.resize(lanes, Record::default());
        self.rects.resize(lanes, TileRect::default());
        self.entry_offset.resize(lanes, 0);
        self.visible.resize(splats.geometry.len(), 0);
        self.chunk_keys.resize(lanes, 0);
        let mut parts: Vec<Chunk<'_>> = self
            .records
            .chunks_mut(SPLATS_PER_CHUNK)
            .zip(self.rects.chunks_mut(SPLATS_PER_CHUNK))
            .zip(self.entry_offset.chunks_mut(SPLATS_PER_CHUNK))
            .zip(self.visible.chunks_mut(BLOCKS_PER_CHUNK))
            .zip(self.chunk_keys.chunks_mut(SPLATS_PER_CHUNK))
            .map(|((((records, rects), offsets), visible), keys)| Chunk {
                records,
                rects,
                offsets,
                visible,
                keys,
                key_count: 0,
                entries: 0,
                left_out: 0,
                copies: Vec::new(),
            })
            .collect();
        let degree = options.sh_degree.min(splats.sh_degree());
        exec.pool.run_parts(&mut parts, |chunk, part| {
            let input = ChunkInput {
                splats,
                first_block: chunk * BLOCKS_PER_CHUNK,
                view,
                antialiased: options.antialiased,
                dropout,
                only_first: options.splat_limit.map_or(usize::MAX, |count| count as usize),
            };
            match view.form {
                ParameterForm::Raw => {
                    at_degree!(exec.level, degree, simd => project_chunk(Raw, &input, part));
                }
                ParameterForm::Activated => {
                    at_level!(exec.level, simd => project_chunk::<_, 0>(simd, Activated, &input, part));
                }
            }
        });

        let counts: Vec<(usize, u64)> = parts.iter().map(|p| (p.key_count, p.entries)).collect();
        self.dropped_out = parts.iter().map(|part| part.left_out).sum();
        self.copies.clear();
        parts.iter().for_each(|part| self.copies.extend_from_slice(&part.copies));
        drop(parts);
        self.sort_keys.clear();
        self.chunk_entry_base.clear();
        self.entries = 0;
        for (chunk, (keys, entries)) in counts.into_iter().enumerate() {
            let first = chunk * SPLATS_PER_CHUNK;
            self.sort_keys.extend_from_slice(&self.chunk_keys[first..first + keys]);
            // With more than 2^32 entries the caller refuses the step; the base is not used then.
            self.chunk_entry_base.push(self.entries as u32);
            self.entries += entries;
        }
        self.append_copies();
    }

    /// Replaces the colours of the drawn splats by three channels of `colors`, from channel `first` on; channels that
    /// `colors`, `channels` values per splat, does not have are 0.
    pub fn set_colors(&mut self, pool: &Pool, colors: &[f32], channels: usize, first: usize) {
        let Self { records, copies, visible, .. } = self;
        let (records, of_copies) = records.split_at_mut(visible.len() * LANES);
        let set = |record: &mut Record, splat: usize| {
            let color = colors.get(splat * channels..(splat + 1) * channels).unwrap_or_default();
            for k in 0..3 {
                record.0[record::RED + k] = color.get(first + k).copied().unwrap_or(0.0);
            }
        };
        pool.run_chunks(records, SPLATS_PER_CHUNK, |chunk, records| {
            for (local, record) in records.iter_mut().enumerate() {
                let splat = chunk * SPLATS_PER_CHUNK + local;
                if visible[splat / LANES] >> (splat % LANES) & 1 != 0 {
                    set(record, splat);
                }
            }
        });
        of_copies.iter_mut().zip(copies).for_each(|(record, copy)| set(record, copy.splat as usize));
    }

    /// Appends the copies to the arrays of the splats.
    fn append_copies(&mut self) {
        for copy in &self.copies {
            let index = self.records.len();
            let mut record = self.records[copy.splat as usize];
            record.0[record::X] += copy.shift;
            let chunk = index / SPLATS_PER_CHUNK;
            if chunk == self.chunk_entry_base.len() {
                self.chunk_entry_base.push(self.entries as u32);
            }
            self.entry_offset.push((self.entries as u32).wrapping_sub(self.chunk_entry_base[chunk]));
            self.sort_keys.push(u64::from(record.0[record::DEPTH].to_bits()) << 32 | index as u64);
            self.records.push(record);
            self.rects.push(copy.rect);
            self.entries += u64::from(copy.rect.area());
        }
    }
}

struct Chunk<'a> {
    records: &'a mut [Record],
    rects: &'a mut [TileRect],
    offsets: &'a mut [u32],
    visible: &'a mut [u16],
    keys: &'a mut [u64],
    key_count: usize,
    entries: u64,
    left_out: u64,
    copies: Vec<SeamCopy>,
}

struct ChunkInput<'a> {
    splats: &'a Blocks,
    first_block: usize,
    view: &'a KernelView,
    antialiased: bool,
    dropout: Option<Dropout>,
    /// Splats from this index on are not rendered.
    only_first: usize,
}

#[inline(always)]
fn project_chunk<S: Simd, const DEGREE: u8>(
    simd: S,
    form: impl Form,
    input: &ChunkInput<'_>,
    part: &mut Chunk<'_>,
) {
    let blocks = part.rects.len() / LANES;
    for local in 0..blocks {
        let block = input.first_block + local;
        let screen = project_block::<S, DEGREE>(
            simd,
            form,
            &input.splats.geometry[block],
            input.splats.rest_rows_of(block),
            input.view,
            input.antialiased,
        );
        let first_lane = local * LANES;
        let copied = screen.seam.as_ref().map_or(0, |seam| seam.lanes);
        let mut drawn = lane_mask_before(input.only_first, block);
        if let Some(dropout) = input.dropout {
            let kept = kept_lanes(dropout, block);
            part.left_out += u64::from(((screen.visible | copied) & drawn & !kept).count_ones());
            drawn &= kept;
        }
        let (mut visible, copied) = (screen.visible & drawn, copied & drawn);
        part.visible[local] = (visible | copied) as u16;
        let rects = &mut part.rects[first_lane..first_lane + LANES];
        let offsets = &mut part.offsets[first_lane..first_lane + LANES];
        rects.fill(TileRect::default());
        if visible | copied == 0 {
            offsets.fill(part.entries as u32);
            continue;
        }
        let mut without_offset = 0;
        let records = &mut part.records[first_lane..first_lane + LANES];
        for (record, row) in records.iter_mut().zip(transpose(screen.rows)) {
            row.store_array(&mut record.0);
        }
        while visible != 0 {
            let lane = visible.trailing_zeros() as usize;
            visible &= visible - 1;
            let rect = TileRect {
                x0: screen.tile_bounds[0][lane] as u16,
                x1: screen.tile_bounds[1][lane] as u16,
                y0: screen.tile_bounds[2][lane] as u16,
                y1: screen.tile_bounds[3][lane] as u16,
            };
            rects[lane] = rect;
            offsets[without_offset..=lane].fill(part.entries as u32);
            without_offset = lane + 1;
            part.entries += u64::from(rect.area());
            let splat = (block * LANES + lane) as u64;
            let depth = records[lane].0[record::DEPTH];
            part.keys[part.key_count] = u64::from(depth.to_bits()) << 32 | splat;
            part.key_count += 1;
        }
        offsets[without_offset..].fill(part.entries as u32);
        if let (Some(seam), 1..) = (&screen.seam, copied) {
            for lane in (0..LANES).filter(|lane| copied >> lane & 1 != 0) {
                let rect = TileRect {
                    x0: seam.tiles[0][lane] as u16,
                    x1: seam.tiles[1][lane] as u16,
                    y0: screen.tile_bounds[2][lane] as u16,
                    y1: screen.tile_bounds[3][lane] as u16,
                };
                let splat = (block * LANES + lane) as u32;
                part.copies.push(SeamCopy { splat, shift: seam.shift[lane], rect });
            }
        }
    }
}

/// Which lanes of a block hold one of the first `count` splats, one bit each.
#[inline(always)]
fn lane_mask_before(count: usize, block: usize) -> u64 {
    let lanes = count.saturating_sub(block * LANES).min(LANES);
    (1 << lanes) - 1
}

/// Which lanes of a block `dropout` keeps, one bit each.
fn kept_lanes(dropout: Dropout, block: usize) -> u64 {
    // 16 bits of randomness per lane.
    let limit = (dropout.fraction * 65_536.0) as u32;
    let mut kept = 0;
    for half in 0..2 {
        let index = 2 * block as u32 + half;
        let words = rng::philox(dropout.seed, rng::stream::DROPOUT, dropout.step, index);
        for (i, word) in words.into_iter().enumerate() {
            let lane = 8 * half as usize + 2 * i;
            kept |= u64::from(word & 0xFFFF >= limit) << lane;
            kept |= u64::from(word >> 16 >= limit) << (lane + 1);
        }
    }
    kept
}

/// Screen splats of a block, one row per value of a record.
struct ScreenBlock<S: Simd> {
    rows: [f32x16<S>; LANES],
    visible: u64,
    tile_bounds: [Row; 4],
    /// The lanes that are also visible across the seam of a panorama.
    seam: Option<SeamCopies>,
}

#[inline(always)]
fn project_block<S: Simd, const DEGREE: u8>(
    simd: S,
    form: impl Form,
    block: &GeometryBlock,
    rest: &[AlignedRow],
    view: &KernelView,
    antialiased: bool,
) -> ScreenBlock<S> {
    let zero = splat(simd, 0.0);
    let g = Geometry::new(simd, form, block, view, antialiased);
    let opacity = g.opacity();
    let log2_opacity = ln(simd, opacity.max(splat(simd, 1e-37))) * splat(simd, LOG2_E);
    let tau = splat(simd, 2.0 * LN_2) * (log2_opacity + splat(simd, LOG2_255));
    let extent_x = (tau * g.cov[0]).max(zero).sqrt();
    let extent_y = (tau * g.cov[2]).max(zero).sqrt();

    let mut visible = g.in_front(simd, view) & tau.simd_ge(zero) & has_shape(simd, block);
    let mean2d = g.projected.mean2d;
    let (columns, touches_x) = pixel_range(simd, mean2d[0], extent_x, view.size[0]);
    let (rows, touches_y) = pixel_range(simd, mean2d[1], extent_y, view.size[1]);
    visible &= touches_y;
    let (mut tile_columns, mut seam) = (tile_range(simd, columns), None);
    if view.projection == Projection::Equirectangular {
        let (own, across) = seam::split_at_seam(simd, view, mean2d[0], extent_x, view.period);
        tile_columns = own;
        seam = Some(SeamCopies { lanes: across.lanes & visible.to_bitmask(), ..across });
        visible &= own[0].simd_lt(own[1]);
    } else {
        visible &= touches_x;
    }
    let is_copied = seam.as_ref().is_some_and(|seam| seam.lanes != 0);
    if !visible.any_true() && !is_copied {
        return ScreenBlock { rows: [zero; LANES], visible: 0, tile_bounds: [[0.0; LANES]; 4], seam: None };
    }

    let direction = ViewDirection::new(simd, g.mean, view.origin);
    let y = basis::<S, DEGREE>(simd, direction.unit);
    let colour = colours::<S, DEGREE>(simd, block, rest, &y);
    let conic = g.conic();
    let values = [
        mean2d[0],
        mean2d[1],
        conic[0] * splat(simd, -0.5 * LOG2_E),
        conic[1] * splat(simd, -LOG2_E),
        conic[2] * splat(simd, -0.5 * LOG2_E),
        log2_opacity,
        colour[0].max(zero),
        colour[1].max(zero),
        colour[2].max(zero),
        g.projected.depth,
        extent_x,
        extent_y,
        extent_x * g.cov[1] / g.cov[0],
        g.inverse_det * splat(simd, 0.25 * LOG2_E * LOG2_E),
        zero,
        zero,
    ];
    // A value that is not finite makes the product with zero NaN, and the comparison false. Colours are tested before
    // the clamp, which would hide a NaN.
    let sum =
        colour[0] + colour[1] + colour[2] + values[2] + values[3] + values[4] + values[12] + log2_opacity;
    let is_finite = (sum * zero).simd_eq(zero);
    visible &= is_finite;
    if let Some(seam) = &mut seam {
        seam.lanes &= is_finite.to_bitmask();
    }

    let [first_row, end_row] = tile_range(simd, rows);
    let bounds = [tile_columns[0], tile_columns[1], first_row, end_row];
    ScreenBlock {
        rows: values,
        visible: visible.to_bitmask(),
        tile_bounds: map_array(
            bounds,
            #[inline(always)]
            |b: f32x16<S>| b.to_array(),
        ),
        seam,
    }
}

/// Lanes in which neither a log scale nor the logit is NaN: the exponentials clamp NaN to the end of their range.
#[inline(always)]
fn has_shape<S: Simd>(simd: S, block: &GeometryBlock) -> mask32x16<S> {
    let is_number = inline_closure(
        #[inline(always)]
        |row: usize| {
            let value: f32x16<S> = load(simd, &block[row].0);
            value.simd_eq(value)
        },
    );
    is_number(LOG_SCALE) & is_number(LOG_SCALE + 1) & is_number(LOG_SCALE + 2) & is_number(LOGIT)
}

/// Half-open tile range of a pixel range.
#[inline(always)]
pub(crate) fn tile_range<S: Simd>(simd: S, (first, last): (f32x16<S>, f32x16<S>)) -> [f32x16<S>; 2] {
    let tile = splat(simd, 1.0 / TILE_SIZE as f32);
    [(first * tile).floor(), (last * tile).floor() + splat(simd, 1.0)]
}

/// First and last pixel whose centre is within `extent` of `centre`, clamped to the image, and whether there is one.
#[inline(always)]
pub(crate) fn pixel_range<S: Simd>(
    simd: S,
    centre: f32x16<S>,
    extent: f32x16<S>,
    side: u32,
) -> ((f32x16<S>, f32x16<S>), mask32x16<S>) {
    let half = splat(simd, 0.5);
    // A relative slack for extents so large that the absolute one is lost in rounding.
    let reach = fma(extent, splat(simd, 1.0 + 1e-5), splat(simd, EXTENT_SLACK));
    let last_pixel = splat(simd, (side - 1) as f32);
    let zero = splat(simd, 0.0);
    let first = (centre - reach - half).ceil().max(zero);
    let last = (centre + reach - half).floor().min(last_pixel);
    let finite = ((centre + extent) * zero).simd_eq(zero);
    ((first, last), first.simd_le(last) & finite)
}
