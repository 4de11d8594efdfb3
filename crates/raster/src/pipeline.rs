//! The stages in order, with the buffers between them.

use gausset_compute::{Exec, Pool};
use gausset_core::constants::TILE_SIZE;
use gausset_core::engine::{Outputs, RenderOptions, Rendering, SKY_VALUES};
use gausset_core::{Projection, Stage};
use gausset_prof::span;

use crate::blend::{Blended, TileExtras, TilePixels};
use crate::blend_vjp::{AbsoluteSums, GradientSlot, GradientSlots, Upstream};
use crate::layout::Blocks;
use crate::pixel::{CELLS, cell_origin, tile_origin};
use crate::project::{Dropout, Projected};
use crate::project_vjp::Gradients;
use crate::sky::{self, SkyCoefficients};
use crate::sort::sort_by_depth;
use crate::tile::{BlendInput, TileEntry, TileLists};
use crate::view::KernelView;

/// Largest number of entries that 32-bit indices can count, including the gaps between the lists.
const MAX_ENTRIES: u64 = u32::MAX as u64 / 2;

/// A view has more tile entries than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entries} tile entries (expected at most {limit})")]
pub struct TooManyEntries {
    /// Entries of the view.
    pub entries: u64,
    /// Largest number allowed.
    pub limit: u64,
}

/// The memory that the tile lists of a view may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCapacity {
    /// Bytes available for the entries.
    pub bytes: u64,
    /// Bytes per entry: [`ListCapacity::FORWARD`] or [`ListCapacity::BACKWARD`].
    pub bytes_per_entry: u64,
}

impl ListCapacity {
    /// Bytes per entry of a forward pass: the list entry and the mask of its cells.
    pub const FORWARD: u64 = (size_of::<TileEntry>() + size_of::<u16>()) as u64;
    /// Bytes per entry if a backward pass follows: also the sums of its gradients.
    pub const BACKWARD: u64 = Self::FORWARD + size_of::<GradientSlot>() as u64;

    /// Limited only by the range of entry indices.
    pub const UNLIMITED: Self = Self { bytes: u64::MAX, bytes_per_entry: Self::BACKWARD };

    /// Largest number of entries.
    #[must_use]
    pub fn max_entries(self) -> u64 {
        (self.bytes / self.bytes_per_entry).min(MAX_ENTRIES)
    }
}

/// Buffers of a forward and backward pass; reused from step to step, they grow and never shrink.
#[derive(Debug)]
pub struct Pipeline {
    /// Memory for the entries of the next view.
    pub list_capacity: ListCapacity,
    /// Dropout of splats in the next view.
    pub dropout: Option<Dropout>,
    /// The sky behind the splats of the next view; `None` if there is none.
    pub sky: Option<SkyCoefficients>,
    /// Gradient of the sky, an output of `blend_vjp`; zero without a sky.
    pub sky_gradient: SkyCoefficients,
    /// Output of `project`.
    pub projected: Projected,
    /// Output of `tile`.
    pub lists: TileLists,
    /// Output of `blend`.
    pub blended: Blended,
    /// Output of `blend_vjp`.
    pub sums: GradientSlots,
    sort_scratch: Vec<u64>,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            list_capacity: ListCapacity::UNLIMITED,
            dropout: None,
            sky: None,
            sky_gradient: [0.0; SKY_VALUES],
            projected: Projected::default(),
            lists: TileLists::default(),
            blended: Blended::default(),
            sums: GradientSlots::default(),
            sort_scratch: Vec::new(),
        }
    }
}

impl Pipeline {
    /// Runs `project`, `sort`, `tile`.
    ///
    /// # Errors
    /// [`TooManyEntries`] if they exceed [`Self::list_capacity`].
    pub fn lists(
        &mut self,
        exec: Exec<'_>,
        splats: &Blocks,
        view: &KernelView,
        options: &RenderOptions,
    ) -> Result<(), TooManyEntries> {
        {
            let _span = span(Stage::Project.name());
            self.projected.run(exec, splats, view, options, self.dropout);
        }
        // Checked before anything is allocated for them.
        let (entries, limit) = (self.projected.entries, self.list_capacity.max_entries());
        if entries > limit {
            return Err(TooManyEntries { entries, limit });
        }
        {
            let _span = span(Stage::Sort.name());
            sort_by_depth(exec.pool, &mut self.projected.sort_keys, &mut self.sort_scratch);
        }
        let _span = span(Stage::Tile.name());
        self.lists.run(exec.pool, view, &self.projected);
        if options.max_splats_per_tile > 0 {
            self.lists.cap(exec, view, &self.projected.records, options.max_splats_per_tile);
        }
        Ok(())
    }

    /// Runs `project`, `sort`, `tile`, `blend`, with [`Self::sky`] behind the splats.
    ///
    /// # Errors
    /// [`TooManyEntries`] if they exceed [`Self::list_capacity`].
    pub fn forward(
        &mut self,
        exec: Exec<'_>,
        splats: &Blocks,
        view: &KernelView,
        options: &RenderOptions,
        outputs: Outputs,
    ) -> Result<(), TooManyEntries> {
        self.lists(exec, splats, view, options)?;
        let _span = span(Stage::Blend.name());
        let splats = BlendInput { view, lists: &self.lists, records: &self.projected.records };
        self.blended.run(exec, splats, options.background, outputs);
        if let Some(sky) = &self.sky {
            sky::add_sky(exec, view, sky, &mut self.blended);
        }
        Ok(())
    }

    /// Runs `blend_vjp` after [`Self::forward`] of the same view.
    pub fn backward(
        &mut self,
        exec: Exec<'_>,
        view: &KernelView,
        upstream: Upstream<'_>,
        absolute: AbsoluteSums,
    ) {
        let _span = span(Stage::BlendVjp.name());
        let splats = BlendInput { view, lists: &self.lists, records: &self.projected.records };
        self.sums.run(exec, splats, &self.blended, upstream, absolute);
        self.sky_gradient = match &self.sky {
            Some(sky) => sky::sky_gradient(exec, view, sky, &self.blended, upstream.color),
            None => [0.0; SKY_VALUES],
        };
    }

    /// Runs `project_vjp` after [`Self::backward`], and writes the gradients out.
    #[must_use]
    pub fn gradients(
        &self,
        exec: Exec<'_>,
        splats: &Blocks,
        view: &KernelView,
        options: &RenderOptions,
    ) -> Gradients {
        let _span = span(Stage::ProjectVjp.name());
        Gradients::compute(
            exec,
            splats,
            options.sh_degree,
            options.antialiased,
            (&self.projected, &self.sums),
            view,
        )
    }

    /// The forward result in image layout.
    #[must_use]
    pub fn rendering(&self, view: &KernelView) -> Rendering {
        let mut out = Rendering::default();
        self.rendering_into(&Pool::new(1), view, &mut out);
        out
    }

    /// Like [`Self::rendering`], on all threads of a pool; reuses the buffers of `out`.
    pub fn rendering_into(&self, pool: &Pool, view: &KernelView, out: &mut Rendering) {
        let [width, height] = view.size;
        let pixels = width as usize * height as usize;
        let extras = if self.blended.extras.is_empty() { 0 } else { pixels };
        (out.width, out.height, out.capped_tiles) = (width, height, self.lists.cap_hits);
        resize_uninit(&mut out.color, 3 * pixels);
        resize_uninit(&mut out.alpha, pixels);
        resize_uninit(&mut out.depth, extras);
        resize_uninit(&mut out.count, extras);
        let row = (width as usize * TILE_SIZE as usize).max(1);
        let (mut depth, mut count) = (out.depth.chunks_mut(row), out.count.chunks_mut(row));
        let images = out.color.chunks_mut(3 * row).zip(out.alpha.chunks_mut(row));
        let mut rows: Vec<ImageRows<'_>> = images
            .map(|(color, alpha)| ImageRows {
                color,
                alpha,
                depth: depth.next().unwrap_or_default(),
                count: count.next().unwrap_or_default(),
            })
            .collect();
        let columns = view.tiles[0] as usize;
        pool.run_parts(&mut rows, |tile_row, rows| {
            let tiles = tile_row * columns..(tile_row + 1) * columns;
            for (tile, values) in tiles.clone().zip(&self.blended.tiles[tiles]) {
                rows.write(tile_origin(view, tile), width as usize, values, self.blended.extras.get(tile));
            }
        });
    }

    /// Bytes of the buffers for a view of this number of splats, without its tile entries.
    #[must_use]
    pub fn view_bytes(splats: usize, view: &KernelView, outputs: Outputs) -> u64 {
        let tile = TilePixels::BYTES + if outputs == Outputs::All { TileExtras::BYTES } else { 0 };
        let tiles = view.tile_count() as u64 * (tile + TileLists::BYTES_PER_TILE);
        // The keys exist twice while they are sorted; at the seam of a panorama a splat may exist twice.
        let times = if view.projection == Projection::Pinhole { 1 } else { 2 };
        tiles + times * splats as u64 * (Projected::BYTES_PER_SPLAT + size_of::<u64>() as u64)
    }

    /// Bytes held by all buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.projected.bytes()
            + self.lists.bytes()
            + self.blended.bytes()
            + self.sums.bytes()
            + self.sort_scratch.capacity() * 8
    }
}

/// The pixels of a row of tiles; without extras the last two are empty.
struct ImageRows<'a> {
    color: &'a mut [f32],
    alpha: &'a mut [f32],
    depth: &'a mut [f32],
    count: &'a mut [u32],
}

impl ImageRows<'_> {
    /// Writes the pixels of the tile at `origin` of an image of this width.
    fn write(&mut self, [left, _]: [usize; 2], width: usize, tile: &TilePixels, extras: Option<&TileExtras>) {
        for c in 0..CELLS {
            let [x0, y0] = cell_origin([left, 0], c);
            for lane in 0..16 {
                let (x, y) = (x0 + lane % 4, y0 + lane / 4);
                let pixel = y * width + x;
                if x >= width || pixel >= self.alpha.len() {
                    continue;
                }
                for k in 0..3 {
                    self.color[3 * pixel + k] = tile.color[c][k].0[lane];
                }
                self.alpha[pixel] = 1.0 - tile.transmittance[c].0[lane];
                if let Some(extras) = extras {
                    self.depth[pixel] = extras.depth[c].0[lane];
                    self.count[pixel] = extras.count[c].0[lane] as u32;
                }
            }
        }
    }
}

/// Resizes to `len` values, all of which the caller overwrites.
fn resize_uninit<T: Clone + Default>(values: &mut Vec<T>, len: usize) {
    if values.len() != len {
        *values = vec![T::default(); len];
    }
}
