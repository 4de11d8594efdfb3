//! Cuts a frame into encoded views: the inner part of the splitter.
//!
//! A [`Plan`] holds everything that is the same for all frames of one shape: the coordinate tables, the rows needed of
//! each plane, and the validity masks. A [`Cutter`] is a worker's set of buffers; it never allocates after its first
//! frame.
//!
//! Views that differ only by a yaw of a whole number of columns share a table (`ring8`: one for all eight). Planes that
//! are much finer than a view (more than [`HALVE_ABOVE`] source pixels a pixel) are halved first by 2x2 averages. Masks
//! and alpha are halved with them. A mask takes the minimum of 2x2, so that no minification restores a removed pixel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gausset_compute::Pool;
use gausset_compute::fearless_simd::Level;
use gausset_io::image::encode::{PngPixels, png};
use gausset_jpeg::colour::rgb_from_ycbcr;
use gausset_jpeg::encode::Band;
use gausset_jpeg::plane::{ColourModel, Frame, FrameShape, Halving, Plane};
use gausset_jpeg::{Encoder, Sampling};

use crate::cut::remap::{RemapBuffers, remap_row};
use crate::cut::table::{ShiftedTable, Table, TableSpec, validity_mask};
use crate::sphere::geometry::View;
use crate::sphere::projection::Projection;

/// Source pixels per output pixel above which the source is halved first. Measured against 4x4 supersampling
/// (`tests/sampling.rs`, figures in research/benchmarks-log.md): averaging overtakes plain bilinear sampling at 2.65 in
/// a procedural room with detail down to its pixels, and at 2.45 in a photograph of 5760 px.
pub const HALVE_ABOVE: f64 = 2.6;

/// File format of the views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JPEG, 4:2:0, at a quality of 1..=100.
    Jpeg(u8),
    /// PNG.
    Png,
}

impl Format {
    /// File name extension, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Jpeg(_) => "jpg",
            Self::Png => "png",
        }
    }
}

/// Coordinate tables and validity mask of one view.
#[derive(Clone, Debug)]
struct ViewTables {
    /// For plane 0 (and alpha), one entry per pixel.
    luma: ShiftedTable,
    /// For the chroma planes: one entry per second pixel for JPEG, per pixel for PNG.
    chroma: Option<ShiftedTable>,
    /// Validity mask (0 = not usable); `None` if all pixels are usable.
    validity: Option<Arc<Vec<u8>>>,
}

/// Everything that is the same for all frames of one shape.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The views, in layout order.
    pub views: Vec<View>,
    /// File format of the views.
    pub format: Format,
    /// Plane sizes and colour model of the frames.
    pub shape: FrameShape,
    /// Whether column W is column 0.
    pub wraps: bool,
    tables: Vec<ViewTables>,
    /// Number of 2x2 halvings of each plane before it is sampled.
    halvings: Vec<u32>,
    /// First and last row needed of each decoded plane.
    pub rows: Vec<[i32; 2]>,
}

impl Plan {
    /// Builds the tables for frames of this shape. Directions within `crop_bottom` degrees of the nadir are masked.
    #[must_use]
    pub fn new(
        views: Vec<View>,
        format: Format,
        projection: &Projection,
        shape: FrameShape,
        crop_bottom: f64,
        pool: &Pool,
    ) -> Self {
        let projections = vec![projection; views.len()];
        Self::with_projections(&projections, views, format, shape, crop_bottom, pool)
    }

    /// Like [`Self::new`], with one projection per view, as the views of separate lenses need it. All projections must
    /// have the same canvas and the same [`Projection::pixels_around`].
    #[must_use]
    pub(crate) fn with_projections(
        projections: &[&Projection],
        views: Vec<View>,
        format: Format,
        shape: FrameShape,
        crop_bottom: f64,
        pool: &Pool,
    ) -> Self {
        let whole = projections[0];
        let around = whole.pixels_per_turn();
        let canvas_width = f64::from(whole.canvas_size()[0]);
        let chroma_step = if matches!(format, Format::Jpeg(_)) { 2 } else { 1 };
        let finest = views.iter().map(|v| v.minification(around)).fold(f64::INFINITY, f64::min);
        let halvings: Vec<u32> = (0..shape.sizes.len())
            .map(|plane| {
                let step = if plane == 0 { 1 } else { chroma_step };
                let [w, h] = shape.sizes[plane];
                let density = finest * f64::from(w) / canvas_width * f64::from(step);
                let mut count = 0;
                while density / f64::from(1 << count) > HALVE_ABOVE
                    && (w >> count).is_multiple_of(2)
                    && (h >> count).is_multiple_of(2)
                    && whole.can_halve()
                {
                    count += 1;
                }
                count
            })
            .collect();
        let sampled = |plane: usize| shape.sizes[plane].map(|side| side >> halvings[plane]);
        let mut shared: Vec<(usize, u32, ShiftedTable)> = Vec::new();
        let mut tables: Vec<ViewTables> = Vec::with_capacity(views.len());
        for (index, (view, &projection)) in views.iter().zip(projections).enumerate() {
            let mut placed = |plane: usize, step: u32| {
                let size = sampled(plane);
                let twin = shared.iter().find_map(|(of, its_step, placed)| {
                    let other = &views[*of];
                    let same = *its_step == step && differs_only_by_yaw(other, view) && projection.wraps();
                    let shift = columns_between(other, view, size[0]).filter(|_| same)?;
                    (placed.table.wrap == Some(size[0] as usize))
                        .then(|| ShiftedTable { table: Arc::clone(&placed.table), shift })
                });
                twin.unwrap_or_else(|| {
                    let spec = TableSpec { view, step, projection, plane: size };
                    let new = ShiftedTable { table: Arc::new(Table::build(spec, pool)), shift: 0 };
                    shared.push((index, step, new.clone()));
                    new
                })
            };
            let luma = placed(0, 1);
            let chroma = (shape.colour == ColourModel::YCbCr).then(|| {
                let same_size = shape.sizes[0] == shape.sizes[1] && halvings[0] == halvings[1];
                if same_size && chroma_step == 1 { luma.clone() } else { placed(1, chroma_step) }
            });
            // Validity depends on the angle from the nadir, not on the yaw.
            let twin = views[..index]
                .iter()
                .zip(&tables)
                .find(|(other, _)| differs_only_by_yaw(other, view) && projection.wraps());
            let validity = match twin {
                Some((_, tables)) => tables.validity.clone(),
                None => validity_mask(view, projection, crop_bottom, pool).map(Arc::new),
            };
            tables.push(ViewTables { luma, chroma, validity });
        }
        let mut rows = vec![[i32::MAX, i32::MIN]; shape.sizes.len()];
        for table in &tables {
            let chroma = table.chroma.iter().flat_map(|c| [(1, c), (2, c)]);
            for (plane, placed) in chroma.chain([(0, &table.luma)]) {
                let [low, high] = placed.table.rows;
                let scale = 1 << halvings[plane];
                rows[plane][0] = rows[plane][0].min(low * scale);
                rows[plane][1] = rows[plane][1].max((high + 1) * scale - 1);
            }
        }
        Self { views, format, shape, wraps: whole.wraps(), tables, halvings, rows }
    }

    /// Validity mask of a view (0 = not usable); `None` if all pixels are usable.
    #[must_use]
    pub fn validity(&self, view: usize) -> Option<&[u8]> {
        self.tables[view].validity.as_ref().map(|v| v.as_slice())
    }

    /// The tables without duplicates; views that differ by whole columns share one.
    fn distinct_tables(&self) -> Vec<&Arc<Table>> {
        let mut tables: Vec<&Arc<Table>> = Vec::new();
        for placed in self.tables.iter().flat_map(|t| t.chroma.iter().chain([&t.luma])) {
            if !tables.iter().any(|table| Arc::ptr_eq(table, &placed.table)) {
                tables.push(&placed.table);
            }
        }
        tables
    }

    /// Total size of the tables in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.distinct_tables().iter().map(|table| table.bytes()).sum()
    }

    /// Number of distinct tables.
    #[must_use]
    pub fn table_count(&self) -> usize {
        self.distinct_tables().len()
    }
}

fn differs_only_by_yaw(a: &View, b: &View) -> bool {
    a.pitch == b.pitch && a.roll == b.roll && a.hfov == b.hfov && a.width == b.width && a.height == b.height
}

/// Number of columns from view `a` to view `b`, if it is whole.
fn columns_between(a: &View, b: &View, width: u32) -> Option<usize> {
    let columns = (b.yaw - a.yaw).rem_euclid(360.0) / 360.0 * f64::from(width);
    let whole = columns.round();
    ((columns - whole).abs() < 1e-9).then(|| whole as usize % width as usize)
}

/// Time per stage, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CutTimes {
    /// Sampling the views.
    pub remap: f64,
    /// Transform, quantisation, Huffman coding.
    pub encode: f64,
}

/// A frame to cut, with everything that cutting needs.
pub struct CutJob<'a> {
    /// SIMD level.
    pub level: Level,
    /// The plan for frames of this shape.
    pub plan: &'a Plan,
    /// The frame; its planes are padded in place.
    pub frame: &'a mut Frame,
    /// A mask of the frame (0 = remove), at the size of plane 0.
    pub mask: Option<&'a Plane>,
    /// Checked every 16 rows.
    pub cancel: &'a AtomicBool,
    /// Returns the marker segments of a view.
    pub segments: &'a dyn Fn(&View) -> Vec<Vec<u8>>,
}

/// A worker's buffers.
#[derive(Debug, Default)]
pub struct Cutter {
    staging: RemapBuffers,
    band: Band,
    encoders: Vec<Encoder>,
    halved_planes: Vec<Vec<Plane>>,
    /// Alpha halved by averages, for PNG.
    halved_alpha: Vec<Plane>,
    /// The frame's mask and its alpha, halved by minima.
    halved_masks: [Vec<Plane>; 2],
    /// Pixels of a view as RGB(A), for PNG.
    pixels: Vec<u8>,
    rows: [Vec<u8>; 4],
}

/// A finished view.
#[derive(Debug)]
pub struct CutView<'a> {
    /// Index of the view in the plan.
    pub index: usize,
    /// The encoded image file.
    pub encoded: &'a [u8],
    /// A mask of the view (0 = remove), if any pixel is removed.
    pub mask: Option<&'a [u8]>,
}

/// Why cutting ended early.
#[derive(Debug)]
pub enum CutError<E> {
    /// The cancel flag was set.
    Cancelled,
    /// The receiver of the views failed.
    Receiver(E),
    /// A view cannot be encoded, with the reason.
    Encoding(String),
}

/// Resampled mask values below this count as removed. The threshold is near 255: a pixel that is removed by half would
/// still show a remnant of the masked object.
const KEEP_THRESHOLD: u8 = 250;

impl Cutter {
    /// Cuts all views of a frame and passes each to `receive` as soon as it is finished.
    ///
    /// # Errors
    /// Cancelled, the receiver failed, or a view cannot be encoded.
    pub fn cut<E>(
        &mut self,
        job: CutJob<'_>,
        times: &mut CutTimes,
        receive: &mut dyn FnMut(CutView<'_>) -> Result<(), E>,
    ) -> Result<(), CutError<E>> {
        let started = Instant::now();
        self.prepare(job.plan, job.frame, job.mask);
        times.remap += started.elapsed().as_secs_f64();
        let mut mask = Vec::new();
        for index in 0..job.plan.views.len() {
            self.compute_view_mask(&job, index, &mut mask);
            let mask = (!mask.is_empty()).then_some(mask.as_slice());
            match job.plan.format {
                Format::Jpeg(quality) => {
                    let at = self.encode_jpeg(&job, index, quality, times).ok_or(CutError::Cancelled)?;
                    let finishing = Instant::now();
                    let picture = self.encoders[at].finish();
                    times.encode += finishing.elapsed().as_secs_f64();
                    receive(CutView { index, encoded: picture, mask }).map_err(CutError::Receiver)?;
                }
                Format::Png => {
                    let bytes = self.encode_png(&job, index, times)?;
                    receive(CutView { index, encoded: &bytes, mask }).map_err(CutError::Receiver)?;
                }
            }
        }
        Ok(())
    }

    /// Samples all views of a frame and passes the index and the pixels (RGB, 3 bytes each) of each view to `receive`.
    /// The plan must be for [`Format::Png`]; masks and alpha are ignored.
    ///
    /// # Errors
    /// Cancelled, or the receiver failed.
    pub fn sample_rgb<E>(
        &mut self,
        job: CutJob<'_>,
        mut receive: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), CutError<E>> {
        job.frame.alpha = None;
        self.prepare(job.plan, job.frame, None);
        let mut buffers = Default::default();
        for index in 0..job.plan.views.len() {
            let kind = self.sample_pixels(&job, index, &mut buffers).ok_or(CutError::Cancelled)?;
            let pixels = &buffers.2;
            let sent = match kind {
                PngChannels::Grey => {
                    receive(index, &pixels.iter().flat_map(|&v| [v; 3]).collect::<Vec<u8>>())
                }
                PngChannels::Rgb | PngChannels::Rgba => receive(index, pixels),
            };
            sent.map_err(CutError::Receiver)?;
        }
        Ok(())
    }

    /// Pads and halves the planes, alpha and the mask.
    fn prepare(&mut self, plan: &Plan, frame: &mut Frame, mask: Option<&Plane>) {
        self.halved_planes.resize_with(frame.planes.len(), Vec::new);
        for (plane, (half, &count)) in
            frame.planes.iter_mut().zip(self.halved_planes.iter_mut().zip(&plan.halvings))
        {
            halve(plane, half, count, plan.wraps, Halving::Mean);
            if count == 0 {
                plane.pad(plan.wraps);
            }
        }
        // Masks and alpha have the size of plane 0 and are sampled through its tables.
        let count = plan.halvings.first().copied().unwrap_or(0);
        if let Some(alpha) = &mut frame.alpha {
            alpha.pad(plan.wraps);
            halve(alpha, &mut self.halved_masks[1], count, plan.wraps, Halving::Min);
            if plan.format == Format::Png {
                halve(alpha, &mut self.halved_alpha, count, plan.wraps, Halving::Mean);
            }
        }
        if let Some(mask) = mask {
            halve(mask, &mut self.halved_masks[0], count, plan.wraps, Halving::Min);
        }
    }

    fn sampled_plane<'a>(&'a self, frame: &'a Frame, index: usize) -> &'a Plane {
        self.halved_planes[index].last().unwrap_or(&frame.planes[index])
    }

    /// Computes the mask of a view from its validity mask, the frame's mask and the frame's alpha. An empty result
    /// keeps everything.
    fn compute_view_mask(&mut self, job: &CutJob<'_>, index: usize, out: &mut Vec<u8>) {
        out.clear();
        let tables = &job.plan.tables[index];
        let (width, height) = (tables.luma.table.width, tables.luma.table.height);
        if let Some(validity) = &tables.validity {
            out.extend_from_slice(validity);
        }
        let mut row = vec![0; width];
        for (plane, halved) in [job.mask, job.frame.alpha.as_ref()].into_iter().zip(&self.halved_masks) {
            let Some(plane) = plane.map(|full| halved.last().unwrap_or(full)) else { continue };
            if out.is_empty() {
                out.resize(width * height, 255);
            }
            for y in 0..height {
                remap_row(job.level, &tables.luma, y, plane, &mut self.staging, &mut row);
                for (out, &keep) in out[y * width..].iter_mut().zip(&row) {
                    if keep < KEEP_THRESHOLD {
                        *out = 0;
                    }
                }
            }
        }
        if out.iter().all(|&m| m == 255) {
            out.clear();
        }
    }

    /// Cuts and encodes a view as JPEG. Returns the index of the encoder that holds it, or `None` if cancelled.
    fn encode_jpeg(
        &mut self,
        job: &CutJob<'_>,
        index: usize,
        quality: u8,
        times: &mut CutTimes,
    ) -> Option<usize> {
        let CutJob { level, plan, .. } = *job;
        let tables = &plan.tables[index];
        let (width, height) = (tables.luma.table.width, tables.luma.table.height);
        let sampling = if tables.chroma.is_some() { Sampling::Half } else { Sampling::Grey };
        let at = self.encoder_index(width, height, sampling, quality);
        let segments = (job.segments)(&plan.views[index]);
        let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
        self.encoders[at].start(&segments);
        let rows = self.encoders[at].band_rows();
        let mut band = std::mem::take(&mut self.band);
        let mut staging = std::mem::take(&mut self.staging);
        band.reshape(width, sampling);
        let stride = band.stride;
        for top in (0..height).step_by(rows) {
            if job.cancel.load(Ordering::Relaxed) {
                (self.band, self.staging) = (band, staging);
                return None;
            }
            let started = Instant::now();
            for k in 0..rows {
                let y = (top + k).min(height - 1);
                let out = &mut band.luma[k * stride..(k + 1) * stride];
                remap_row(
                    level,
                    &tables.luma,
                    y,
                    self.sampled_plane(job.frame, 0),
                    &mut staging,
                    &mut out[..width],
                );
                extend_row(out, width);
            }
            if let Some(placed) = &tables.chroma {
                let (table, stride) = (&placed.table, stride / 2);
                for (c, plane) in band.chroma.iter_mut().enumerate() {
                    for k in 0..8 {
                        let y = (top / 2 + k).min(table.height - 1);
                        let out = &mut plane[k * stride..(k + 1) * stride];
                        let source = self.sampled_plane(job.frame, 1 + c);
                        remap_row(level, placed, y, source, &mut staging, &mut out[..table.width]);
                        extend_row(out, table.width);
                    }
                }
            }
            let remapped = Instant::now();
            self.encoders[at].band(level, &band);
            times.remap += (remapped - started).as_secs_f64();
            times.encode += remapped.elapsed().as_secs_f64();
        }
        (self.band, self.staging) = (band, staging);
        Some(at)
    }

    /// Index of the encoder for this size, sampling and quality; creates it if there is none.
    fn encoder_index(&mut self, width: usize, height: usize, sampling: Sampling, quality: u8) -> usize {
        match self.encoders.iter().position(|e| e.fits(width, height, sampling, quality)) {
            Some(at) => at,
            None => {
                self.encoders.push(Encoder::new(width, height, sampling, quality));
                self.encoders.len() - 1
            }
        }
    }

    /// Cuts and encodes a view as PNG.
    fn encode_png<E>(
        &mut self,
        job: &CutJob<'_>,
        index: usize,
        times: &mut CutTimes,
    ) -> Result<Vec<u8>, CutError<E>> {
        let started = Instant::now();
        // Taken out of `self` because `self` is borrowed while its planes are read; put back in every case.
        let mut buffers = (
            std::mem::take(&mut self.rows),
            std::mem::take(&mut self.staging),
            std::mem::take(&mut self.pixels),
        );
        let kind = self.sample_pixels(job, index, &mut buffers);
        (self.rows, self.staging, self.pixels) = buffers;
        times.remap += started.elapsed().as_secs_f64();
        let started = Instant::now();
        let pixels = match kind.ok_or(CutError::Cancelled)? {
            PngChannels::Rgba => PngPixels::Rgba8(&self.pixels),
            PngChannels::Rgb => PngPixels::Rgb8(&self.pixels),
            PngChannels::Grey => PngPixels::Grey8(&self.pixels),
        };
        let table = &job.plan.tables[index].luma.table;
        let bytes = png(table.width as u32, table.height as u32, pixels, &[])
            .map_err(|e| CutError::Encoding(e.to_string()))?;
        times.encode += started.elapsed().as_secs_f64();
        Ok(bytes)
    }

    /// Samples the pixels of a view for PNG into the last buffer. Returns `None` if cancelled.
    fn sample_pixels(
        &self,
        job: &CutJob<'_>,
        index: usize,
        (rows, staging, pixels): &mut ([Vec<u8>; 4], RemapBuffers, Vec<u8>),
    ) -> Option<PngChannels> {
        let CutJob { level, plan, ref frame, .. } = *job;
        let tables = &plan.tables[index];
        let (width, height) = (tables.luma.table.width, tables.luma.table.height);
        let alpha = frame.alpha.as_ref().map(|full| self.halved_alpha.last().unwrap_or(full));
        pixels.clear();
        for row in rows.iter_mut() {
            row.resize(width, 0);
        }
        for y in 0..height {
            if y % 16 == 0 && job.cancel.load(Ordering::Relaxed) {
                return None;
            }
            remap_row(level, &tables.luma, y, self.sampled_plane(frame, 0), staging, &mut rows[0]);
            if let Some(alpha) = alpha {
                remap_row(level, &tables.luma, y, alpha, staging, &mut rows[3]);
            }
            if let Some(chroma) = &tables.chroma {
                for c in 1..3 {
                    remap_row(level, chroma, y, self.sampled_plane(frame, c), staging, &mut rows[c]);
                }
            }
            for x in 0..width {
                let luma = rows[0][x];
                if tables.chroma.is_some() {
                    pixels.extend(rgb_from_ycbcr([luma, rows[1][x], rows[2][x]]));
                } else if alpha.is_some() {
                    pixels.extend([luma; 3]);
                } else {
                    pixels.push(luma);
                }
                if alpha.is_some() {
                    pixels.push(rows[3][x]);
                }
            }
        }
        Some(match (tables.chroma.is_some(), alpha.is_some()) {
            (_, true) => PngChannels::Rgba,
            (true, false) => PngChannels::Rgb,
            (false, false) => PngChannels::Grey,
        })
    }
}

/// Channels of a PNG.
enum PngChannels {
    Rgba,
    Rgb,
    Grey,
}

/// Halves a plane `count` times. The result is the last of `halves`; `halves` stays empty for a count of 0.
fn halve(plane: &Plane, halves: &mut Vec<Plane>, count: u32, wraps: bool, how: Halving) {
    halves.resize_with(count as usize, Plane::default);
    let mut source = plane;
    for out in halves {
        source.halve_into(out, how);
        out.pad(wraps);
        source = out;
    }
}

/// Repeats the last of `width` samples to the end of the row.
fn extend_row(row: &mut [u8], width: usize) {
    let last = row[width - 1];
    row[width..].fill(last);
}
