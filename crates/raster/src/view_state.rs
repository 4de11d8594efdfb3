//! A view as stages with gradients, for automatic differentiation outside of the engine: what `project` and `blend` need
//! again in the backward pass is a value, and backward may run any number of times.
//!
//! ```text
//! project: parameters, view            → screen splats         project_vjp: their gradients → gradients of parameters, pose
//! blend:   screen splats, D channels   → images                blend_vjp:   image gradients → gradients of screen splats
//! ```
//!
//! Parameters are activated (scales and opacities, no logarithms); colours are given (see [`crate::shade`]) and not
//! clamped. Channels are blended three at a time over the same lists. All images are row-major, channels fastest.

use std::sync::Arc;

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{LANES, Row, array_from_fn, ln, map_array, splat};
use gausset_compute::{Exec, at_level};
use gausset_core::Projection;
use gausset_core::constants::TILE_SIZE;
use gausset_core::engine::{Outputs, RenderOptions};

use crate::blend::Blended;
use crate::blend_vjp::{AbsoluteSums, GradientSlots, PlanarImage, Upstream};
use crate::form::Activated;
use crate::geometry::Geometry;
use crate::layout::{Blocks, LOGIT};
use crate::pipeline::{ListCapacity, TooManyEntries};
use crate::pixel::{CELLS, PIXELS_PER_CELL_ROW};
use crate::project::{BLOCKS_PER_CHUNK, Projected, record};
use crate::project_vjp::Gradients;
use crate::screen_gradients::{ScreenGradients, ScreenUpstream};
use crate::sort::sort_by_depth;
use crate::tile::{BlendInput, TileLists};
use crate::view::{KernelView, ParameterForm};

/// Channels that are blended together.
const CHANNELS: usize = 3;
/// Pixel rows of a tile.
const TILE: usize = TILE_SIZE as usize;
/// The box of a splat ends at this number of standard deviations even if its opacity would make it larger.
const MAX_DEVIATIONS: f32 = 3.33;
/// Exponent of splats that are never drawn; its power is still finite.
const NEVER: f32 = -100.0;

/// The splats on the screen, one element per splat; all 0 for a splat that is not in view.
#[derive(Clone, Debug, Default)]
pub struct ScreenSplats {
    /// Projected means, px.
    pub mean2d: Vec<[f32; 2]>,
    /// Inverse screen covariances `(A, B, C)`, 1/px².
    pub conic: Vec<[f32; 3]>,
    /// Depths, scene units.
    pub depth: Vec<f32>,
    /// Opacities after compensation.
    pub opacity: Vec<f32>,
    /// Half sizes of the bounding boxes, px, rounded up: 3.33 standard deviations, or less if alpha is 1/255 before.
    pub radii: Vec<[i32; 2]>,
}

/// A view of splats between forward and backward.
#[derive(Debug)]
pub struct ViewState {
    view: KernelView,
    antialiased: bool,
    splats: Arc<Blocks>,
    in_view: Vec<bool>,
    projected: Projected,
    lists: TileLists,
    blended: Vec<Blended>,
    sums: GradientSlots,
    scratch: Vec<u64>,
}

/// What [`ViewState::blend`] draws.
#[derive(Clone, Copy, Debug)]
pub struct BlendOptions<'a> {
    /// Channels of the colours.
    pub channels: usize,
    /// One value per channel; zeros if it is empty.
    pub background: &'a [f32],
    /// Whether depth is an output.
    pub with_depth: bool,
    /// Memory for the tile entries.
    pub list_capacity: ListCapacity,
}

/// The images of a view.
#[derive(Clone, Debug, Default)]
pub struct Images {
    /// Channels over the background.
    pub color: Vec<f32>,
    /// 1 minus the transmittance.
    pub alpha: Vec<f32>,
    /// Sums of weight times depth, scene units; empty unless requested.
    pub depth: Vec<f32>,
}

/// Gradients of a loss with respect to [`Images`]; `None` = zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageGradients<'a> {
    /// Of the colours.
    pub color: Option<&'a [f32]>,
    /// Of alpha.
    pub alpha: Option<&'a [f32]>,
    /// Of the depth.
    pub depth: Option<&'a [f32]>,
}

/// Gradients with respect to the inputs of [`ViewState::blend`].
#[derive(Clone, Debug, Default)]
pub struct BlendGradients {
    /// With respect to the screen splats; `color` is empty.
    pub screen: ScreenGradients,
    /// With respect to the colours, in their layout.
    pub color: Vec<f32>,
    /// With respect to the background, one value per channel.
    pub background: Vec<f32>,
}

impl ViewState {
    /// Projects splats with activated parameters. Splats whose box is at most `radius_clip` px in both directions are not
    /// in view.
    #[must_use]
    pub fn project(
        exec: Exec<'_>,
        splats: Arc<Blocks>,
        view: &KernelView,
        antialiased: bool,
        radius_clip: f32,
    ) -> (Self, ScreenSplats) {
        let view = KernelView { form: ParameterForm::Activated, ..*view };
        let options = RenderOptions { sh_degree: 0, antialiased, ..RenderOptions::default() };
        let screen = screen_splats(exec, &splats, &view, antialiased, radius_clip);
        let in_view: Vec<bool> = screen.radii.iter().map(|&[x, y]| x > 0 && y > 0).collect();
        let mut projected = Projected::default();
        if radius_clip > 0.0 {
            let mut drawn = Blocks::clone(&splats);
            for (i, _) in in_view.iter().enumerate().filter(|(_, in_view)| !**in_view) {
                drawn.geometry[i / LANES][LOGIT].0[i % LANES] = 0.0;
            }
            projected.run(exec, &drawn, &view, &options, None);
        } else {
            projected.run(exec, &splats, &view, &options, None);
        }
        let state = Self {
            view,
            antialiased,
            splats,
            in_view,
            projected,
            lists: TileLists::default(),
            blended: Vec::new(),
            sums: GradientSlots::default(),
            scratch: Vec::new(),
        };
        (state, screen)
    }

    /// Which splats are in view.
    #[must_use]
    pub fn in_view(&self) -> &[bool] {
        &self.in_view
    }

    /// Blends the splats with these colours, [`BlendOptions::channels`] values each. Splats with a colour that is not
    /// finite are not drawn.
    ///
    /// # Errors
    /// [`TooManyEntries`] if the lists exceed their capacity.
    ///
    /// # Panics
    /// If the number of colours is not that of the splats times the channels.
    pub fn blend(
        &mut self,
        exec: Exec<'_>,
        colors: &[f32],
        options: &BlendOptions<'_>,
    ) -> Result<Images, TooManyEntries> {
        let channels = options.channels;
        assert_eq!(colors.len(), self.splats.len() * channels, "one value per splat and channel");
        let (entries, limit) = (self.projected.entries, options.list_capacity.max_entries());
        if entries > limit {
            return Err(TooManyEntries { entries, limit });
        }
        self.hide_splats_without_colour(colors, channels);
        sort_by_depth(exec.pool, &mut self.projected.sort_keys, &mut self.scratch);
        self.lists.run(exec.pool, &self.view, &self.projected);

        let passes = channels.div_ceil(CHANNELS).max(1);
        self.blended.resize_with(passes, Blended::default);
        let pixels = self.view.size[0] as usize * self.view.size[1] as usize;
        let mut out = Images {
            color: vec![0.0; pixels * channels],
            alpha: vec![0.0; pixels],
            depth: vec![0.0; if options.with_depth { pixels } else { 0 }],
        };
        for (pass, blended) in self.blended.iter_mut().enumerate() {
            let first = pass * CHANNELS;
            self.projected.set_colors(exec.pool, colors, channels, first);
            let splats =
                BlendInput { view: &self.view, lists: &self.lists, records: &self.projected.records };
            let background = array_from_fn(|k| options.background.get(first + k).copied().unwrap_or(0.0));
            // The gradient of alpha needs them, too.
            let outputs = if pass == 0 { Outputs::All } else { Outputs::Color };
            blended.run(exec, splats, background, outputs);
            let used = CHANNELS.min(channels.saturating_sub(first));
            self.view.write_image(exec, &mut out.color, channels, |tile, cell, lane, pixel| {
                for k in 0..used {
                    pixel[first + k] = blended.tiles[tile].color[cell][k].0[lane];
                }
            });
        }
        let first = &self.blended[0];
        self.view.write_image(exec, &mut out.alpha, 1, |tile, cell, lane, pixel| {
            pixel[0] = 1.0 - first.tiles[tile].transmittance[cell].0[lane];
        });
        if options.with_depth {
            self.view.write_image(exec, &mut out.depth, 1, |tile, cell, lane, pixel| {
                pixel[0] = first.extras[tile].depth[cell].0[lane];
            });
        }
        Ok(out)
    }

    fn hide_splats_without_colour(&mut self, colors: &[f32], channels: usize) {
        let Projected { visible, records, .. } = &mut self.projected;
        let first_copy = visible.len() * LANES;
        let mut any = false;
        for (splat, color) in colors.chunks_exact(channels.max(1)).enumerate() {
            if visible[splat / LANES] >> (splat % LANES) & 1 != 0 && !color.iter().all(|c| c.is_finite()) {
                records[splat].0[record::L] = NEVER;
                any = true;
            }
        }
        if any {
            for copy in first_copy..self.projected.records.len() {
                let splat = self.projected.splat_index(copy);
                self.projected.records[copy].0[record::L] = self.projected.records[splat].0[record::L];
            }
        }
    }

    /// Gradients of [`Self::blend`] with the same colours.
    ///
    /// # Panics
    /// If the sizes of the gradients are not those of the images.
    #[must_use]
    pub fn blend_vjp(
        &mut self,
        exec: Exec<'_>,
        colors: &[f32],
        channels: usize,
        upstream: &ImageGradients<'_>,
        absolute: AbsoluteSums,
    ) -> BlendGradients {
        let len = self.splats.len();
        let mut out = BlendGradients {
            color: vec![0.0; len * channels],
            background: vec![0.0; channels],
            ..BlendGradients::default()
        };
        let has_extras = upstream.alpha.is_some() || upstream.depth.is_some();
        let extras = has_extras
            .then(|| Planar::new(exec, &self.view, &[(upstream.alpha, 1, 0), (upstream.depth, 1, 0)]));
        for (pass, blended) in self.blended.iter().enumerate() {
            let first = pass * CHANNELS;
            let used = CHANNELS.min(channels.saturating_sub(first));
            let sources: [_; CHANNELS] =
                array_from_fn(|k| (upstream.color.filter(|_| k < used), channels, first + k));
            let color = Planar::new(exec, &self.view, &sources);
            self.projected.set_colors(exec.pool, colors, channels, first);
            let splats =
                BlendInput { view: &self.view, lists: &self.lists, records: &self.projected.records };
            // Everything is linear in the gradients of the images: those of alpha and depth count once.
            let alpha_depth = extras.as_ref().filter(|_| pass == 0).map(Planar::image);
            let upstream = Upstream { color: color.image(), alpha_depth };
            self.sums.run(exec, splats, blended, upstream, absolute);
            let screen = ScreenGradients::compute(exec, (&self.projected, &self.sums), &self.view);
            for (to, from) in out.color.chunks_exact_mut(channels.max(1)).zip(&screen.color) {
                to[first..first + used].copy_from_slice(&from[..used]);
            }
            for (to, from) in out.background[first..first + used].iter_mut().zip(self.sums.background) {
                *to = from as f32;
            }
            if pass == 0 {
                out.screen = screen;
            } else {
                add(out.screen.mean2d.as_flattened_mut(), screen.mean2d.as_flattened());
                add(out.screen.conic.as_flattened_mut(), screen.conic.as_flattened());
                add(&mut out.screen.opacity, &screen.opacity);
                add(out.screen.mean2d_abs.as_flattened_mut(), screen.mean2d_abs.as_flattened());
            }
        }
        out.screen.mean2d.truncate(len);
        out.screen.conic.truncate(len);
        out.screen.depth.truncate(len);
        out.screen.opacity.truncate(len);
        out.screen.mean2d_abs.truncate(len);
        out.screen.color.clear();
        out
    }

    /// Gradients of [`Self::project`]; gradients of splats that are not in view are ignored.
    #[must_use]
    pub fn project_vjp(&self, exec: Exec<'_>, mut upstream: ScreenGradients) -> Gradients {
        for (i, _) in self.in_view.iter().enumerate().filter(|(_, in_view)| !**in_view) {
            upstream.mean2d[i] = [0.0; 2];
            upstream.conic[i] = [0.0; 3];
            (upstream.depth[i], upstream.opacity[i]) = (0.0, 0.0);
        }
        let ScreenGradients { mean2d, conic, depth, opacity, .. } = &upstream;
        let upstream = ScreenUpstream { mean2d, conic, depth, opacity };
        Gradients::from_screen(exec, &self.splats, self.antialiased, upstream, &self.view)
    }

    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.projected.bytes()
            + self.lists.bytes()
            + self.blended.iter().map(Blended::bytes).sum::<usize>()
            + self.sums.bytes()
            + 8 * self.scratch.capacity()
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

impl KernelView {
    /// Calls `write(tile, cell, lane, pixel)` for each pixel of a row-major image.
    fn write_image(
        &self,
        exec: Exec<'_>,
        image: &mut [f32],
        channels: usize,
        write: impl Fn(usize, usize, usize, &mut [f32]) + Sync,
    ) {
        let width = self.size[0] as usize;
        if channels == 0 {
            return;
        }
        exec.pool.run_chunks(image, TILE * width * channels, |tile_row, rows| {
            for (i, pixel) in rows.chunks_exact_mut(channels).enumerate() {
                let (x, y) = (i % width, i / width);
                let side = PIXELS_PER_CELL_ROW;
                let cell = y / side * (TILE / side) + x % TILE / side;
                let lane = y % side * side + x % side;
                write(tile_row * self.tiles[0] as usize + x / TILE, cell, lane, pixel);
            }
        });
    }
}
const _: () = assert!(CELLS == (TILE / PIXELS_PER_CELL_ROW) * (TILE / PIXELS_PER_CELL_ROW), "square cells");

/// Images stored line by line, channel after channel.
struct Planar {
    data: Vec<f32>,
    stride: usize,
    row_len: usize,
}

impl Planar {
    /// One channel per source: values of an image, its number of channels, and which of them.
    fn new(exec: Exec<'_>, view: &KernelView, sources: &[(Option<&[f32]>, usize, usize)]) -> Self {
        let [width, height] = view.size.map(|side| side as usize);
        let stride = width.next_multiple_of(TILE);
        let row_len = stride * sources.len();
        let mut data = vec![0.0; row_len * height.next_multiple_of(TILE)];
        for &(image, channels, _) in sources {
            assert!(image.is_none_or(|i| i.len() == width * height * channels), "the size of the image");
        }
        exec.pool.run_chunks(&mut data, row_len, |y, row| {
            for (line, &(image, channels, channel)) in row.chunks_exact_mut(stride).zip(sources) {
                if let Some(image) = image.filter(|_| y < height) {
                    let from = image[y * width * channels..(y + 1) * width * channels].iter();
                    let from = from.skip(channel).step_by(channels);
                    line.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        });
        Self { data, stride, row_len }
    }

    fn image(&self) -> PlanarImage<'_> {
        PlanarImage { data: &self.data, stride: self.stride, row_len: self.row_len }
    }
}

/// The screen splats of activated parameters, by the arithmetic of `project`.
fn screen_splats(
    exec: Exec<'_>,
    splats: &Blocks,
    view: &KernelView,
    antialiased: bool,
    radius_clip: f32,
) -> ScreenSplats {
    let lanes = splats.geometry.len() * LANES;
    let mut out = ScreenSplats {
        mean2d: vec![[0.0; 2]; lanes],
        conic: vec![[0.0; 3]; lanes],
        depth: vec![0.0; lanes],
        opacity: vec![0.0; lanes],
        radii: vec![[0; 2]; lanes],
    };
    let chunk = BLOCKS_PER_CHUNK * LANES;
    let mut parts: Vec<ScreenPart<'_>> = out
        .mean2d
        .chunks_mut(chunk)
        .zip(out.conic.chunks_mut(chunk))
        .zip(out.depth.chunks_mut(chunk).zip(out.opacity.chunks_mut(chunk)))
        .zip(out.radii.chunks_mut(chunk))
        .map(|(((mean2d, conic), (depth, opacity)), radii)| ScreenPart {
            mean2d,
            conic,
            depth,
            opacity,
            radii,
        })
        .collect();
    exec.pool.run_parts(&mut parts, |chunk, part| {
        let input = (splats, view, antialiased, radius_clip);
        at_level!(exec.level, simd => screen_chunk(simd, input, chunk, part));
    });
    out.mean2d.truncate(splats.len());
    out.conic.truncate(splats.len());
    out.depth.truncate(splats.len());
    out.opacity.truncate(splats.len());
    out.radii.truncate(splats.len());
    out
}

struct ScreenPart<'a> {
    mean2d: &'a mut [[f32; 2]],
    conic: &'a mut [[f32; 3]],
    depth: &'a mut [f32],
    opacity: &'a mut [f32],
    radii: &'a mut [[i32; 2]],
}

#[inline(always)]
fn screen_chunk<S: Simd>(
    simd: S,
    (splats, view, antialiased, radius_clip): (&Blocks, &KernelView, bool, f32),
    chunk: usize,
    part: &mut ScreenPart<'_>,
) {
    let zero = splat(simd, 0.0);
    for local in 0..part.depth.len() / LANES {
        let block = &splats.geometry[chunk * BLOCKS_PER_CHUNK + local];
        let g = Geometry::new(simd, Activated, block, view, antialiased);
        let (opacity, conic, mean2d) = (g.opacity(), g.conic(), g.projected.mean2d);
        let tau = splat(simd, 2.0) * ln(simd, opacity.max(splat(simd, 1e-37)) * splat(simd, 255.0));
        let deviations = tau.max(zero).sqrt().min(splat(simd, MAX_DEVIATIONS));
        let radius = map_array(
            [g.cov[0], g.cov[2]],
            #[inline(always)]
            |variance: f32x16<S>| (deviations * variance.sqrt()).ceil(),
        );
        let clip = splat(simd, radius_clip);
        let mut in_view = g.in_front(simd, view) & tau.simd_ge(zero);
        in_view &= radius[0].simd_gt(clip) | radius[1].simd_gt(clip);
        for k in [0, 1] {
            let is_panorama = view.projection == Projection::Equirectangular;
            let [size_x, size_y] = view.size.map(|side| splat(simd, side as f32));
            let side = if k == 0 { size_x } else { size_y };
            if !(is_panorama && k == 0) {
                in_view &= (mean2d[k] + radius[k]).simd_gt(zero) & (mean2d[k] - radius[k]).simd_lt(side);
            }
        }
        let sum = mean2d[0] + mean2d[1] + conic[0] + conic[1] + conic[2] + radius[0] + radius[1] + opacity;
        in_view &= (sum * zero).simd_eq(zero);
        let in_view = in_view.to_bitmask();
        let rows = [
            mean2d[0],
            mean2d[1],
            conic[0],
            conic[1],
            conic[2],
            g.projected.depth,
            opacity,
            radius[0],
            radius[1],
        ];
        let rows: [Row; 9] = map_array(
            rows,
            #[inline(always)]
            |row: f32x16<S>| row.to_array(),
        );
        for lane in (0..LANES).filter(|lane| in_view >> lane & 1 != 0) {
            let (value, i) = (|k: usize| rows[k][lane], local * LANES + lane);
            part.mean2d[i] = [value(0), value(1)];
            part.conic[i] = [value(2), value(3), value(4)];
            (part.depth[i], part.opacity[i]) = (value(5), value(6));
            part.radii[i] = [value(7) as i32, value(8) as i32];
        }
    }
}
