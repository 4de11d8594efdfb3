//! Converts whole-sphere images: to panoramas, crosses, strips and faces of cubes.
//!
//! Each output pixel has a direction, and the direction has a position in the source. Up to 1.5 source pixels per
//! pixel, the source is sampled with Catmull-Rom's cubic (16 taps), up to [`HALVE_ABOVE`] bilinearly, and finer sources
//! are halved first by 2x2 averages: this measured best for views (`research/benchmarks-log.md`, "Sampling"). Sums are
//! in f32 in a fixed order, so the bytes depend neither on threads nor on the SIMD level.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use gausset_compute::Pool;
use gausset_compute::fearless_simd::Level;
use gausset_io::image::encode::{PngPixels, png};
use gausset_jpeg::colour::rgb_from_ycbcr;
use gausset_jpeg::encode_image;
use gausset_jpeg::plane::{Frame, Halving, Plane};

pub use crate::source::decoded::{DecodeStep, DecodedFrame, decode_frame, decode_frame_with_progress};

use crate::cut::cutter::{Format, HALVE_ABOVE};
use crate::sphere::cube::{Face, Faces};
use crate::sphere::geometry::direction_from_equirect;
use crate::sphere::projection::Projection;

/// Source pixels per output pixel above which bilinear sampling scores better than the cubic.
const CUBIC_MAX_MINIFICATION: f64 = 1.5;

/// The projection of an output image.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputProjection {
    /// An equirectangular panorama of this width in px; the height is half of it.
    Equirect(u32),
    /// Faces of a cube.
    Faces(Faces),
}

impl OutputProjection {
    /// One output image per face, in the order of [`Face::ALL`].
    #[must_use]
    pub fn separate_faces(side: u32) -> Vec<Self> {
        Face::ALL.into_iter().map(|face| Self::Faces(Faces::single(face, side))).collect()
    }

    /// Width and height, px.
    #[must_use]
    pub fn size(&self) -> [u32; 2] {
        match self {
            Self::Equirect(width) => [*width, width / 2],
            Self::Faces(faces) => faces.size(),
        }
    }

    /// Source pixels per output pixel at the centre of a face, or on the horizon.
    fn minification(&self, source: &Projection) -> f64 {
        let of = |around: u32, is_flat: bool| {
            // At the centre of a flat face, pixels cover an angle that is 4/π times the average.
            f64::from(around) * if is_flat { std::f64::consts::FRAC_PI_4 } else { 1.0 }
        };
        let found = of(source.pixels_per_turn(), matches!(source, Projection::Cube(_)));
        let made = match self {
            Self::Equirect(width) => of(*width, false),
            Self::Faces(faces) => of(4 * faces.side, true),
        };
        found / made
    }
}

/// The planes of a source frame, halved as often as the output resolution needs.
pub struct SourceSampler<'a> {
    projection: &'a Projection,
    planes: Vec<&'a Plane>,
    halves: Vec<Plane>,
    is_cubic: bool,
}

impl<'a> SourceSampler<'a> {
    /// Prepares a frame for sampling at the resolution of `shown`. For a cube, the frame must be folded.
    #[must_use]
    pub fn new(projection: &'a Projection, frame: &'a Frame, shown: &OutputProjection) -> Self {
        let mut density = shown.minification(projection);
        let mut halves: Vec<Plane> = Vec::new();
        let planes: Vec<&Plane> = frame.planes.iter().collect();
        let is_even = |planes: &[&Plane]| {
            planes.iter().all(|p| p.width.is_multiple_of(2) && p.height.is_multiple_of(2))
        };
        while density > HALVE_ABOVE && projection.can_halve() {
            let now: Vec<&Plane> = if halves.is_empty() { planes.clone() } else { halves.iter().collect() };
            if !is_even(&now) {
                break;
            }
            let mut next = vec![Plane::default(); now.len()];
            for (from, to) in now.into_iter().zip(&mut next) {
                from.halve_into(to, Halving::Mean);
            }
            halves = next;
            density /= 2.0;
        }
        // The taps of the cubic must not cross an image edge that is not an edge on the sphere.
        let is_smooth = matches!(projection, Projection::Equirect(_) | Projection::Cube(_));
        Self { projection, planes, halves, is_cubic: density <= CUBIC_MAX_MINIFICATION && is_smooth }
    }

    fn plane(&self, index: usize) -> &Plane {
        self.halves.get(index).unwrap_or_else(|| self.planes[index])
    }

    /// Samples a plane in a direction; `None` where the source shows nothing.
    fn sample(&self, index: usize, direction: [f64; 3]) -> Option<f32> {
        let place = self.projection.project(direction);
        if !place.is_visible {
            return None;
        }
        let plane = self.plane(index);
        let [w, h] = self.projection.canvas_size().map(f64::from);
        let (su, sv) = (plane.width as f64 / w, plane.height as f64 / h);
        let bounds = self.projection.patch_bounds(place.patch);
        let sample = |[u, v]: [f64; 2]| {
            let (mut u, mut v) = (u * su - 0.5, v * sv - 0.5);
            if let Some([left, right, top, bottom]) = bounds {
                u = u.clamp(left * su, right * su - 1.0);
                v = v.clamp(top * sv, bottom * sv - 1.0);
            }
            let taps = PlaneTaps { plane, wraps: self.projection.wraps() };
            if self.is_cubic { taps.cubic(u, v) } else { taps.bilinear(u, v) }
        };
        let first = sample([place.u, place.v]);
        Some(match place.second {
            Some((at, share)) => first + (sample(at) - first) * share as f32,
            None => first,
        })
    }
}

/// Access to the pixels of a plane by integer coordinates, also outside of it.
struct PlaneTaps<'a> {
    plane: &'a Plane,
    wraps: bool,
}

impl PlaneTaps<'_> {
    fn pixel(&self, mut column: i64, mut row: i64) -> f32 {
        let (width, height) = (self.plane.width as i64, self.plane.height as i64);
        if self.wraps {
            // Beyond a pole, the row continues on the opposite meridian.
            if row < 0 || row >= height {
                row = if row < 0 { -1 - row } else { 2 * height - 1 - row };
                column += width / 2;
            }
            column = column.rem_euclid(width);
        }
        let (column, row) = (column.clamp(0, width - 1), row.clamp(0, height - 1));
        f32::from(self.plane.row(row as i32)[column as usize])
    }

    /// Four neighbouring pixels of a row, starting at column `first`.
    fn row_of_four(&self, first: i64, row: i64) -> [f32; 4] {
        let (width, height) = (self.plane.width as i64, self.plane.height as i64);
        if first >= 0 && first + 4 <= width && (0..height).contains(&row) {
            let row = &self.plane.row(row as i32)[first as usize..first as usize + 4];
            return [row[0], row[1], row[2], row[3]].map(f32::from);
        }
        [0, 1, 2, 3].map(|k| self.pixel(first + k, row))
    }

    fn bilinear(&self, u: f64, v: f64) -> f32 {
        let (left, top) = (libm::floor(u), libm::floor(v));
        let (fu, fv) = ((u - left) as f32, (v - top) as f32);
        let (left, top) = (left as i64, top as i64);
        let across = |row: i64| {
            let (a, b) = (self.pixel(left, row), self.pixel(left + 1, row));
            a + (b - a) * fu
        };
        let (upper, lower) = (across(top), across(top + 1));
        upper + (lower - upper) * fv
    }

    fn cubic(&self, u: f64, v: f64) -> f32 {
        let (left, top) = (libm::floor(u), libm::floor(v));
        let (wu, wv) = (catmull_rom((u - left) as f32), catmull_rom((v - top) as f32));
        let (left, top) = (left as i64 - 1, top as i64 - 1);
        let mut sum = 0.0;
        for (k, weight) in (0..).zip(wv) {
            let [a, b, c, d] = self.row_of_four(left, top + k);
            sum += weight * (a * wu[0] + b * wu[1] + c * wu[2] + d * wu[3]);
        }
        sum
    }
}

/// Weights of four neighbours at the fraction `t` between the second and the third (Catmull and Rom 1974).
fn catmull_rom(t: f32) -> [f32; 4] {
    let (t2, t3) = (t * t, t * t * t);
    [-0.5 * t + t2 - 0.5 * t3, 1.0 - 2.5 * t2 + 1.5 * t3, 0.5 * t + 2.0 * t2 - 1.5 * t3, -0.5 * t2 + 0.5 * t3]
}

/// Converts a frame of another projection to a panorama of this width.
///
/// # Errors
/// The stop flag was set.
pub fn to_panorama(
    moment: &DecodedFrame,
    width: u32,
    writing: OutputContext<'_>,
) -> Result<Frame, ConvertError> {
    let shown = OutputProjection::Equirect(width);
    let source = SourceSampler::new(&moment.projection, &moment.frame, &shown);
    let mut frame = Frame { colour: moment.frame.colour, ..Frame::default() };
    for index in 0..moment.frame.planes.len() {
        let drawn = render_plane(&source, &shown, index, 1, &writing)?;
        let mut plane = Plane::default();
        plane.reshape(width as usize, width as usize / 2, [-1, width as i32 / 2]);
        for (y, row) in drawn.chunks_exact(width as usize).enumerate() {
            plane.row_mut(y as i32).copy_from_slice(row);
        }
        frame.planes.push(plane);
    }
    Ok(frame)
}

/// Why conversion ended without an image.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The stop flag was set.
    #[error("stopped")]
    Stopped,
    /// The image cannot be encoded.
    #[error("picture: cannot be encoded: {0}")]
    Encoding(String),
}

/// How an output image is computed and encoded.
#[derive(Clone, Copy)]
pub struct OutputContext<'a> {
    /// File format.
    pub format: Format,
    /// SIMD level of the encoder; does not change the bytes.
    pub level: Level,
    /// Thread pool.
    pub pool: &'a Pool,
    /// Stop flag, checked in every row.
    pub stop: &'a AtomicBool,
    /// Marker segments of a JPEG.
    pub segments: &'a [Vec<u8>],
}

/// Renders and encodes an image.
///
/// # Errors
/// The stop flag was set, or the image cannot be encoded.
pub fn render_encoded(
    source: &SourceSampler<'_>,
    shown: &OutputProjection,
    writing: OutputContext<'_>,
) -> Result<Vec<u8>, ConvertError> {
    let [width, height] = shown.size();
    let is_grey = source.planes.len() < 3;
    let planes = if is_grey { 1 } else { 3 };
    let chroma_step = if matches!(writing.format, Format::Jpeg(_)) { 2 } else { 1 };
    let mut drawn: Vec<Vec<u8>> = Vec::new();
    for plane in 0..planes {
        drawn.push(render_plane(source, shown, plane, if plane == 0 { 1 } else { chroma_step }, &writing)?);
    }
    match writing.format {
        Format::Jpeg(quality) => Ok(encode_image(
            [width as usize, height as usize],
            &drawn,
            quality,
            writing.level,
            writing.segments,
        )),
        Format::Png => {
            let pixels = match drawn.as_slice() {
                [y, cb, cr] => {
                    let mut rgb = Vec::with_capacity(3 * y.len());
                    let all = y.iter().zip(cb).zip(cr);
                    rgb.extend(all.flat_map(|((&y, &cb), &cr)| rgb_from_ycbcr([y, cb, cr])));
                    drawn = vec![rgb];
                    PngPixels::Rgb8(&drawn[0])
                }
                _ => PngPixels::Grey8(&drawn[0]),
            };
            png(width, height, pixels, &[]).map_err(|e| ConvertError::Encoding(e.to_string()))
        }
    }
}

/// Renders one plane of an image, with one sample per `step` x `step` pixels.
fn render_plane(
    source: &SourceSampler<'_>,
    shown: &OutputProjection,
    plane: usize,
    step: u32,
    writing: &OutputContext<'_>,
) -> Result<Vec<u8>, ConvertError> {
    let [width, height] = shown.size().map(|side| side.div_ceil(step) as usize);
    // Pixels without a source stay black.
    let nothing = if plane == 0 { 0 } else { 128 };
    let mut out = vec![nothing; width * height];
    let rows: Vec<Mutex<&mut [u8]>> = out.chunks_mut(width).map(Mutex::new).collect();
    let at = |k: usize| (k as f64 + 0.5) * f64::from(step);
    let [full_width, full_height] = shown.size().map(f64::from);
    // For panoramas: sine and cosine of the longitude of each column.
    let columns: Vec<[f64; 3]> = match shown {
        OutputProjection::Equirect(_) => (0..width)
            .map(|x| direction_from_equirect(at(x), 0.5 * full_height, full_width, full_height))
            .collect(),
        OutputProjection::Faces(_) => Vec::new(),
    };
    writing.pool.run(height, |y, _worker| {
        if writing.stop.load(Ordering::Relaxed) {
            return;
        }
        let mut row = rows[y].lock().unwrap_or_else(PoisonError::into_inner);
        let [_, down, across] = direction_from_equirect(0.5 * full_width, at(y), full_width, full_height);
        for (x, out) in row.iter_mut().enumerate() {
            let direction = match shown {
                OutputProjection::Equirect(_) => Some([across * columns[x][0], down, across * columns[x][2]]),
                OutputProjection::Faces(faces) => faces.direction(at(x), at(y)),
            };
            if let Some(value) = direction.and_then(|direction| source.sample(plane, direction)) {
                *out = (value + 0.5) as u8;
            }
        }
    });
    drop(rows);
    if writing.stop.load(Ordering::Relaxed) { Err(ConvertError::Stopped) } else { Ok(out) }
}

/// A short hash of a text, for comparing settings.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}
