//! Coordinate tables: the source pixels of each pixel of a view.
//!
//! 16 neighbouring pixels of a row share a *segment*, which stores their source coordinates relative to a whole pixel
//! as a parabola in f32, in units of 1/128 px. The parabola goes through the exact coordinates of pixels 0, 8 and 15.
//! Where it misses those of pixels 4 or 12 by more than `FIT_TOLERANCE`, or where the source is discontinuous (an edge
//! of a cube face, a pole), the segment stores its 16 coordinates one by one. Parabolas take 2.25 bytes a pixel and
//! stay within 0.0005 px of the exact coordinates for usual views. Coordinates are rounded to 1/128 px, so the total
//! error is below 0.008 px. (Straight lines over 8 px miss by 0.0069 px before rounding.)
//!
//! A panorama of the whole sphere wraps around. A segment begins in columns 0..W, and its taps may reach into the copy
//! of the first [`PAD_COLUMNS`] columns that planes keep to the right of column W-1. Above row 0 and below row H-1,
//! planes repeat the outermost row, shifted by W/2 columns.

use std::sync::Arc;

use gausset_compute::Pool;
use gausset_core::se3;
use gausset_jpeg::plane::PAD_COLUMNS;

use crate::sphere::geometry::View;
use crate::sphere::projection::{Projection, degrees_from_nadir};

/// Pixels of a segment.
pub(crate) const SEGMENT: usize = 16;
/// Subpixel units per pixel.
const SUBPIXEL_UNITS: f64 = 128.0;
/// Largest error of a parabola at the checked pixels, px.
const FIT_TOLERANCE: f64 = 0.0015;
/// Largest range of coordinates in a segment, px; it must fit into the padding, including the right tap.
const MAX_SEGMENT_RANGE: f64 = (PAD_COLUMNS - 4) as f64;
/// Marks a segment that stores a parabola and has no entries in [`Table::exact`].
const FITTED: u32 = u32::MAX;

/// The source coordinates of 16 pixels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// Whole column that `u` is relative to.
    pub(crate) col: i32,
    /// Whole row that `v` is relative to.
    pub(crate) row: i32,
    /// `u[0] + k (u[1] + k u[2])` for pixel k, in 1/128 px, rounding included.
    pub(crate) u: [f32; 3],
    /// The same for rows.
    pub(crate) v: [f32; 3],
    /// Index of the first of 16 coordinates in [`Table::exact`], or `FITTED`.
    exact: u32,
}

/// The source coordinates of a single pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExactCoordinate {
    /// Column of the left tap.
    pub(crate) col: u16,
    /// Row of the upper tap, plus 1: row -1 exists at a pole.
    pub(crate) row_plus_1: u16,
    /// Weight of the right tap in 1/128.
    pub(crate) fu: u8,
    /// Weight of the lower tap in 1/128.
    pub(crate) fv: u8,
}

/// A pixel that blends two source positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlendedPixel {
    /// Column of the output.
    pub(crate) x: u32,
    /// The second source position.
    pub(crate) second: ExactCoordinate,
    /// Weight of the second position in 1/256.
    pub(crate) weight: u16,
}

/// The table of one view (or of all views that differ by a whole number of columns) over one plane of the source.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Width of the output.
    pub(crate) width: usize,
    /// Height of the output.
    pub(crate) height: usize,
    /// Period of the plane in columns; `None` if it does not wrap.
    pub(crate) wrap: Option<usize>,
    segments: Vec<Segment>,
    exact: Vec<ExactCoordinate>,
    blends: Vec<BlendedPixel>,
    /// Start of each row's range in `blends`; empty if there are none.
    blend_rows: Vec<u32>,
    /// First and last row of the plane that is read, including lower taps.
    pub(crate) rows: [i32; 2],
}

/// A table and the number of columns by which a view is rotated from the one that the table was built for.
#[derive(Clone, Debug)]
pub(crate) struct ShiftedTable {
    /// The table, shared by several views.
    pub(crate) table: Arc<Table>,
    /// Columns to add to those of the table.
    pub(crate) shift: usize,
}

/// What a table maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSpec<'a> {
    /// The view that is sampled.
    pub(crate) view: &'a View,
    /// View pixels per output pixel: 1, or 2 for subsampled chroma.
    pub(crate) step: u32,
    /// The source that is sampled.
    pub(crate) projection: &'a Projection,
    /// Size of the plane that stores the canvas.
    pub(crate) plane: [u32; 2],
}

impl TableSpec<'_> {
    /// Width and height of the output.
    #[must_use]
    pub(crate) fn output(&self) -> [usize; 2] {
        [self.view.width, self.view.height].map(|side| side.div_ceil(self.step) as usize)
    }

    /// Scale factors from canvas to plane coordinates.
    fn scale(&self) -> [f64; 2] {
        let [w, h] = self.projection.canvas_size();
        [f64::from(self.plane[0]) / f64::from(w), f64::from(self.plane[1]) / f64::from(h)]
    }
}

/// Computes the exact index coordinates (continuous minus ½) of output pixels in the plane.
struct Sampler<'a> {
    spec: TableSpec<'a>,
    rotation: se3::Mat3,
    focal: f64,
    scale: [f64; 2],
    wrap: Option<f64>,
}

#[derive(Clone, Copy)]
struct SourcePosition {
    u: f64,
    v: f64,
    patch: u8,
    second: Option<([f64; 2], f64)>,
}

impl<'a> Sampler<'a> {
    fn new(spec: TableSpec<'a>) -> Self {
        Self {
            rotation: spec.view.pano_from_camera(),
            focal: spec.view.focal(),
            scale: spec.scale(),
            wrap: spec.projection.wraps().then_some(f64::from(spec.plane[0])),
            spec,
        }
    }

    fn direction(&self, x: f64, y: f64) -> [f64; 3] {
        let step = f64::from(self.spec.step);
        let (w, h) = (f64::from(self.spec.view.width), f64::from(self.spec.view.height));
        let ray = [((x + 0.5) * step - 0.5 * w) / self.focal, ((y + 0.5) * step - 0.5 * h) / self.focal, 1.0];
        se3::mul_vec(&self.rotation, ray)
    }

    fn position(&self, x: f64, y: f64) -> SourcePosition {
        let place = self.spec.projection.project(self.direction(x, y));
        let [sx, sy] = self.scale;
        let bounds = self.spec.projection.patch_bounds(place.patch);
        let to_index = |[u, v]: [f64; 2]| {
            let (u, v) = (u * sx - 0.5, v * sy - 0.5);
            if self.wrap.is_some() {
                return [u, v];
            }
            // Taps must stay on the plane. Where the plane is coarser than the canvas, they must also stay within the
            // patch.
            let [w, h] = self.spec.plane.map(f64::from);
            let [left, right, top, bottom] = match bounds {
                Some([left, right, top, bottom]) => [left * sx, right * sx, top * sy, bottom * sy],
                None => [0.0, w, 0.0, h],
            };
            let inside =
                |at: f64, from: f64, to: f64, most: f64| at.clamp(from, (to - 1.0).min(most - 1.001));
            [inside(u, left, right, w), inside(v, top, bottom, h)]
        };
        let [u, v] = to_index([place.u, place.v]);
        let second = place.second.map(|(at, share)| (to_index(at), share));
        SourcePosition { u, v, patch: place.patch, second }
    }
}

/// `a - b` on a circle of circumference `wrap`, nearest to 0.
fn wrapped_difference(a: f64, b: f64, wrap: Option<f64>) -> f64 {
    match wrap {
        Some(w) => {
            let d = a - b;
            d - w * libm::round(d / w)
        }
        None => a - b,
    }
}

/// The parabola through (0, 0), (8, y8), (15, y15): coefficients of k and k².
fn parabola(y8: f64, y15: f64) -> [f64; 2] {
    let c = (y15 / 15.0 - y8 / 8.0) / 7.0;
    [y8 / 8.0 - 8.0 * c, c]
}

/// Rows per task of the thread pool.
const ROWS_PER_TASK: usize = 16;

#[derive(Default)]
struct TablePart {
    segments: Vec<Segment>,
    exact: Vec<ExactCoordinate>,
    /// (row, blend)
    blends: Vec<(u32, BlendedPixel)>,
    rows: [i32; 2],
}

impl Table {
    /// Builds a table.
    #[must_use]
    pub(crate) fn build(spec: TableSpec<'_>, pool: &Pool) -> Self {
        let [width, height] = spec.output();
        let sampler = Sampler::new(spec);
        let tasks = height.div_ceil(ROWS_PER_TASK);
        let parts: Vec<std::sync::Mutex<TablePart>> =
            (0..tasks).map(|_| std::sync::Mutex::default()).collect();
        pool.run(tasks, |task, _worker| {
            let rows = task * ROWS_PER_TASK..height.min((task + 1) * ROWS_PER_TASK);
            let part = build_rows(&sampler, width, rows);
            *parts[task].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = part;
        });
        let mut table = Self {
            width,
            height,
            wrap: spec.projection.wraps().then_some(spec.plane[0] as usize),
            segments: Vec::with_capacity(width.div_ceil(SEGMENT) * height),
            exact: Vec::new(),
            blends: Vec::new(),
            blend_rows: Vec::new(),
            rows: [i32::MAX, i32::MIN],
        };
        let mut blend_rows = vec![0u32; height + 1];
        for part in parts {
            let part = part.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            let offset = table.exact.len() as u32;
            table.segments.extend(part.segments.into_iter().map(|mut s| {
                if s.exact != FITTED {
                    s.exact += offset;
                }
                s
            }));
            table.exact.extend(part.exact);
            for (row, blend) in part.blends {
                blend_rows[row as usize + 1] += 1;
                table.blends.push(blend);
            }
            table.rows = [table.rows[0].min(part.rows[0]), table.rows[1].max(part.rows[1])];
        }
        if !table.blends.is_empty() {
            for row in 0..height {
                blend_rows[row + 1] += blend_rows[row];
            }
            table.blend_rows = blend_rows;
        }
        table
    }

    /// Segments of a row.
    #[must_use]
    pub(crate) fn row(&self, y: usize) -> &[Segment] {
        let per_row = self.width.div_ceil(SEGMENT);
        &self.segments[y * per_row..(y + 1) * per_row]
    }

    /// The 16 coordinates of a segment that stores them one by one.
    #[must_use]
    pub(crate) fn exact_coordinates(&self, segment: &Segment) -> Option<&[ExactCoordinate]> {
        let first = segment.exact as usize;
        (segment.exact != FITTED).then(|| &self.exact[first..first + SEGMENT])
    }

    /// Pixels of a row that blend two source positions.
    #[must_use]
    pub(crate) fn blended_pixels(&self, y: usize) -> &[BlendedPixel] {
        if self.blend_rows.is_empty() {
            return &[];
        }
        &self.blends[self.blend_rows[y] as usize..self.blend_rows[y + 1] as usize]
    }

    /// Fraction of the segments that store their coordinates one by one, 0 to 1.
    #[cfg(test)]
    fn exact_fraction(&self) -> f64 {
        (self.exact.len() / SEGMENT) as f64 / self.segments.len().max(1) as f64
    }

    /// Size of the table in bytes.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.segments.as_slice())
            + size_of_val(self.exact.as_slice())
            + size_of_val(self.blends.as_slice())
    }

    /// Index coordinates of a pixel as the kernels compute them, rounded to 1/128 px.
    #[cfg(test)]
    pub(crate) fn coordinates(&self, x: usize, y: usize) -> [f64; 2] {
        let segment = &self.row(y)[x / SEGMENT];
        let k = x % SEGMENT;
        if let Some(exact) = self.exact_coordinates(segment) {
            let e = exact[k];
            return [
                f64::from(e.col) + f64::from(e.fu) / SUBPIXEL_UNITS,
                f64::from(e.row_plus_1) - 1.0 + f64::from(e.fv) / SUBPIXEL_UNITS,
            ];
        }
        let at = |c: &[f32; 3]| {
            let k = k as f32;
            f64::from((c[0] + k * (c[1] + k * c[2])) as i32) / SUBPIXEL_UNITS
        };
        [f64::from(segment.col) + at(&segment.u), f64::from(segment.row) + at(&segment.v)]
    }
}

fn build_rows(sampler: &Sampler<'_>, width: usize, rows: std::ops::Range<usize>) -> TablePart {
    let mut part = TablePart { rows: [i32::MAX, i32::MIN], ..TablePart::default() };
    for y in rows {
        for first in (0..width).step_by(SEGMENT) {
            let segment = fit_segment(sampler, first, y).unwrap_or_else(|| {
                let segment = Segment { exact: part.exact.len() as u32, ..Segment::default() };
                for k in 0..SEGMENT {
                    let sample = sampler.position((first + k) as f64, y as f64);
                    part.exact.push(quantise(sampler, [sample.u, sample.v]));
                    if let Some((second, share)) = sample.second.filter(|_| first + k < width) {
                        let share = libm::round(share * 256.0) as u16;
                        let blend = BlendedPixel {
                            x: (first + k) as u32,
                            second: quantise(sampler, second),
                            weight: share,
                        };
                        part.blends.push((y as u32, blend));
                    }
                }
                segment
            });
            let range = if segment.exact == FITTED {
                fitted_row_range(&segment)
            } else {
                let new = &part.exact[segment.exact as usize..];
                exact_row_range(new)
            };
            part.rows = [part.rows[0].min(range[0]), part.rows[1].max(range[1])];
            part.segments.push(segment);
        }
    }
    for (_, blend) in &part.blends {
        let row = i32::from(blend.second.row_plus_1) - 1;
        part.rows = [part.rows[0].min(row), part.rows[1].max(row + 1)];
    }
    part
}

fn fitted_row_range(segment: &Segment) -> [i32; 2] {
    let at = |k: usize| {
        let k = k as f32;
        let v = &segment.v;
        segment.row + ((v[0] + k * (v[1] + k * v[2])) as i32 >> 7)
    };
    let (mut low, mut high) = (i32::MAX, i32::MIN);
    for k in 0..SEGMENT {
        low = low.min(at(k));
        high = high.max(at(k) + 1);
    }
    [low, high]
}

fn exact_row_range(exact: &[ExactCoordinate]) -> [i32; 2] {
    let rows = exact.iter().map(|e| i32::from(e.row_plus_1) - 1);
    [rows.clone().min().unwrap_or(0), rows.max().unwrap_or(0) + 1]
}

/// Rounds a coordinate to 1/128 px.
fn quantise(sampler: &Sampler<'_>, [u, v]: [f64; 2]) -> ExactCoordinate {
    let units = |x: f64| libm::floor(x * SUBPIXEL_UNITS + 0.5) as i64;
    let mut u = units(u);
    if let Some(wrap) = sampler.wrap {
        u = u.rem_euclid((wrap * SUBPIXEL_UNITS) as i64);
    }
    let v = units(v).max(-(SUBPIXEL_UNITS as i64));
    ExactCoordinate {
        col: (u >> 7) as u16,
        row_plus_1: ((v >> 7) + 1) as u16,
        fu: (u & 127) as u8,
        fv: (v & 127) as u8,
    }
}

/// Fits a parabola to the segment; `None` if the error is too large.
fn fit_segment(sampler: &Sampler<'_>, first: usize, y: usize) -> Option<Segment> {
    let x = first as f64;
    let at = |k: f64| sampler.position(x + k, y as f64);
    let start = at(0.0);
    if start.second.is_some() {
        return None;
    }
    let relative = |k: f64| {
        let sample = at(k);
        let same = sample.patch == start.patch && sample.second.is_none();
        same.then(|| [wrapped_difference(sample.u, start.u, sampler.wrap), sample.v - start.v])
    };
    let (p4, p8, p12, p15) = (relative(4.0)?, relative(8.0)?, relative(12.0)?, relative(15.0)?);
    let mut out = Segment { exact: FITTED, ..Segment::default() };
    for axis in 0..2 {
        let [b, c] = parabola(p8[axis], p15[axis]);
        let value = |k: f64| k * (b + k * c);
        if (value(4.0) - p4[axis]).abs() > FIT_TOLERANCE || (value(12.0) - p12[axis]).abs() > FIT_TOLERANCE {
            return None;
        }
        // A parabola is extreme at its ends and, if it is between them, at its vertex.
        let vertex = if c != 0.0 { (-b / (2.0 * c)).clamp(0.0, 15.0) } else { 0.0 };
        let (end, bend) = (value(15.0), value(vertex));
        let (low, high) = (end.min(bend).min(0.0), end.max(bend).max(0.0));
        if high - low > MAX_SEGMENT_RANGE {
            return None;
        }
        let origin = if axis == 0 { start.u } else { start.v };
        // The rounding constant of half a unit must keep coordinates non-negative, so the whole pixel is taken below
        // the smallest coordinate of the segment.
        let mut whole = libm::floor(origin + low);
        let constant = (origin - whole) * SUBPIXEL_UNITS + 0.5;
        if axis == 0
            && let Some(wrap) = sampler.wrap
        {
            whole = whole.rem_euclid(wrap);
        }
        let coefficients = [constant as f32, (b * SUBPIXEL_UNITS) as f32, (c * SUBPIXEL_UNITS) as f32];
        if axis == 0 {
            (out.col, out.u) = (whole as i32, coefficients);
        } else {
            (out.row, out.v) = (whole as i32, coefficients);
        }
    }
    Some(out)
}

/// Validity mask of a view: 255, or 0 where the source shows nothing or within `crop_bottom` degrees of the nadir.
/// `None` if all pixels are valid.
#[must_use]
pub(crate) fn validity_mask(
    view: &View,
    projection: &Projection,
    crop_bottom: f64,
    pool: &Pool,
) -> Option<Vec<u8>> {
    let has_holes = match projection {
        Projection::Equirect(e) => !e.is_whole(),
        Projection::Eac(_) | Projection::Cube(_) => false,
        Projection::Fisheye(_) => true,
    };
    if crop_bottom <= 0.0 && !has_holes {
        return None;
    }
    let (width, height) = (view.width as usize, view.height as usize);
    let spec = TableSpec { view, step: 1, projection, plane: projection.canvas_size() };
    let sampler = Sampler::new(spec);
    let mut mask = vec![255u8; width * height];
    let rows: Vec<std::sync::Mutex<&mut [u8]>> = mask.chunks_mut(width).map(std::sync::Mutex::new).collect();
    pool.run(height, |y, _worker| {
        let mut row = rows[y].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (x, out) in row.iter_mut().enumerate() {
            let direction = sampler.direction(x as f64, y as f64);
            let is_ground = crop_bottom > 0.0 && degrees_from_nadir(direction) < crop_bottom;
            if is_ground || (has_holes && !projection.project(direction).is_visible) {
                *out = 0;
            }
        }
    });
    drop(rows);
    mask.contains(&0).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::geometry::equirect_from_direction;
    use crate::sphere::layout::Layout;
    use crate::sphere::projection::Equirect;
    use proptest::prelude::*;

    fn table(view: &View, step: u32, width: u32) -> Table {
        let projection = Projection::Equirect(Equirect::whole(width, width / 2));
        let plane = [width / step, width / 2 / step];
        Table::build(TableSpec { view, step, projection: &projection, plane }, &Pool::new(1))
    }

    /// Largest distance from the f64 formula over all pixels. At a pole, where longitude is undefined, it is the
    /// distance on the sphere in source pixels of the equator.
    fn worst(view: &View, step: u32, width: u32, every: usize) -> f64 {
        let table = table(view, step, width);
        let (w, h) = (f64::from(width / step), f64::from(width / 2 / step));
        let r = view.pano_from_camera();
        let (mut worst, s) = (0.0f64, f64::from(step));
        for y in (0..table.height).step_by(every) {
            for x in 0..table.width {
                let ray = view.ray_in_camera((x as f64 + 0.5) * s, (y as f64 + 0.5) * s);
                let [u, v] = equirect_from_direction(se3::mul_vec(&r, ray), w, h);
                let [tu, tv] = table.coordinates(x, y);
                let du = wrapped_difference(tu + 0.5, u, Some(w));
                worst = worst.max(du.abs()).max((tv + 0.5 - v).abs());
            }
        }
        worst
    }

    #[test]
    fn tables_of_all_layouts_are_within_a_hundredth_of_a_pixel() {
        // A panorama of 1920 px and views of a quarter of it. The error grows with the size; the test of one large view
        // below covers 7680 px.
        for layout in Layout::ALL {
            for view in layout.views(480, 480, None) {
                for step in [1, 2] {
                    let error = worst(&view, step, 1920, 3);
                    assert!(error < 0.01, "{} {} step {step}: {error}", layout.name(), view.name);
                }
            }
        }
    }

    #[test]
    fn a_large_view_is_within_a_hundredth_of_a_pixel_and_mostly_fitted() {
        let view = &Layout::Ring8.views(1920, 1920, None)[3];
        let error = worst(view, 1, 7680, 37);
        assert!(error < 0.01, "{error}");
        assert!(table(view, 1, 7680).exact_fraction() < 0.001);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_view_is_within_a_hundredth_of_a_pixel(
            yaw in -180.0..180.0f64, pitch in -90.0..=90.0f64, roll in -180.0..180.0f64,
            hfov in 20.0..140.0f64, width in 16u32..200, height in 16u32..200, source in 128u32..4000,
        ) {
            let view = View { name: "v".into(), yaw, pitch, roll, hfov, width, height };
            let error = worst(&view, 1, source * 2, 1);
            prop_assert!(error < 0.01, "{}", error);
        }
    }

    #[test]
    fn the_rows_of_a_table_are_those_that_its_coordinates_reach() {
        for view in Layout::Dome16.views(100, 84, None) {
            let table = table(&view, 1, 640);
            let (mut low, mut high) = (i32::MAX, i32::MIN);
            for y in 0..table.height {
                for x in 0..table.width.next_multiple_of(SEGMENT) {
                    let row = libm::floor(table.coordinates(x, y)[1]) as i32;
                    (low, high) = (low.min(row), high.max(row + 1));
                }
            }
            assert_eq!(table.rows, [low, high], "{}", view.name);
        }
    }

    #[test]
    fn crop_bottom_masks_a_disc_around_the_nadir_only() {
        let view = &Layout::Cube6.views(64, 64, None)[5];
        let projection = Projection::Equirect(Equirect::whole(256, 128));
        let mask = validity_mask(view, &projection, 30.0, &Pool::new(1)).unwrap();
        // The disc has radius f tan 30 = 18.5 px.
        let inside = mask.iter().filter(|&&m| m == 0).count() as f64;
        assert!((inside - std::f64::consts::PI * 18.475 * 18.475).abs() < 20.0, "{inside}");
        let up = &Layout::Cube6.views(64, 64, None)[4];
        assert!(validity_mask(up, &projection, 30.0, &Pool::new(1)).is_none());
    }
}
