//! The loss of a training step and its gradient: `(1 - w) L1 + w (1 - SSIM)` in f32 on 16 lanes and all threads.
//!
//! The formulas, masks included, are those of [`crate::reference`]. A call makes two passes over the images:
//!
//! 1. `ground_truth`: the bytes of the ground truth become f32 planes (composited on the step's background); with a mask, the
//!    render is copied and its masked pixels are replaced by the ground truth.
//! 2. `band`: bands of pixel rows, one task each, stream through both halves of SSIM and write the gradient.
//!
//! Sums are collected per line in f64 and added in line order, so results do not depend on threads or bands.

mod band;
mod ground_truth;
mod lines;
mod window;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fearless_simd::Level;
use gausset_compute::{Pool, at_level};
use gausset_core::TargetImage;

use crate::planes::{AlignedBuffer, Planes};
use crate::size::SizeMismatch;
use band::{Band, LineSums, PassOutput, Scratch};
use lines::LossFactors;

/// Pixel rows per task, a multiple of the rows that are filtered at once. Each task computes the statistics of 10 more
/// rows than it has, so bands should be tall, but an image should yield more tasks than there are threads: 32 rows cost
/// 5 % more time and 64 rows 5 % less (516x344).
const BAND_ROWS: usize = 44;

/// Options of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossOptions {
    /// Weight `w` of D-SSIM; 0 skips SSIM.
    pub dssim_weight: f32,
    /// Background colour under transparent pixels of the ground truth.
    pub background: [f32; 3],
    /// Weights of the rows of a panorama; `None` = equal weights.
    pub latitude: Option<LatitudeWeights>,
}

/// Row weights of a panorama: a pixel's weight is the cosine of its latitude, in proportion to its solid angle. A row
/// near a pole has as many pixels as the equator but covers little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatitudeWeights {
    /// Row of latitude 0, px from the top edge.
    pub equator: f32,
    /// Rows per radian, px.
    pub rows_per_radian: f32,
}

impl LatitudeWeights {
    /// Weight of a row, 0..1.
    #[must_use]
    pub fn weight(&self, row: usize) -> f32 {
        libm::cosf((row as f32 + 0.5 - self.equator) / self.rows_per_radian).max(0.0)
    }
}

/// The ground truth of a render.
#[derive(Clone, Copy, Debug)]
pub enum GroundTruth<'a> {
    /// Bytes, with optional alpha and mask.
    Bytes(&'a TargetImage),
    /// Values, all of them valid.
    Planes(&'a Planes),
}

impl GroundTruth<'_> {
    fn size(&self) -> (u32, u32) {
        match self {
            Self::Bytes(image) => (image.width, image.height),
            Self::Planes(planes) => (planes.width(), planes.height()),
        }
    }

    fn mask(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(image) => image.mask.as_deref(),
            Self::Planes(_) => None,
        }
    }
}

/// Loss of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossValue {
    /// `(1 - w) L1 + w (1 - SSIM)`; 0 if no pixel is valid.
    pub loss: f64,
    /// Mean absolute difference over valid pixels and channels, weighted by [`LossOptions::latitude`].
    pub l1: f64,
    /// Mean SSIM over valid pixels and channels, weighted likewise; `None` if its weight is 0.
    pub ssim: Option<f64>,
    /// Number of valid pixels.
    pub valid_pixels: usize,
}

/// The loss kernel with its buffers, which grow to the largest image seen and are then reused: later calls only
/// allocate the list of their bands.
#[derive(Debug)]
pub struct LossKernel {
    level: Level,
    /// The ground truth in f32, unless it was given as planes.
    truth: Planes,
    /// The render with the ground truth in masked pixels; only used with a mask.
    filled_render: Planes,
    /// 1 for valid values, 0 for masked values and padding: a line per pixel row, or one for all of them.
    weights: AlignedBuffer,
    /// A line of zeros, for rows above and below the image.
    zeros: AlignedBuffer,
    /// Sums of |x - y| and S of each line.
    line_sums: Vec<LineSums>,
    /// One scratch buffer per worker.
    scratch: Vec<Mutex<Scratch>>,
}

impl LossKernel {
    /// A kernel for a SIMD level, without buffers yet.
    #[must_use]
    pub fn new(level: Level) -> Self {
        Self {
            level,
            truth: Planes::default(),
            filled_render: Planes::default(),
            weights: AlignedBuffer::default(),
            zeros: AlignedBuffer::default(),
            line_sums: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Loss of `render` against `truth`; `gradient` is resized to the render and becomes d loss / d render, 0 in its
    /// padding and at masked pixels.
    ///
    /// # Errors
    /// The images differ in size.
    pub fn run(
        &mut self,
        pool: &Pool,
        render: &Planes,
        truth: GroundTruth<'_>,
        options: &LossOptions,
        gradient: &mut Planes,
    ) -> Result<LossValue, SizeMismatch> {
        let valid_pixels = check(render, &truth)?;
        gradient.resize(render.width(), render.height());
        if valid_pixels == 0 {
            gradient.as_mut_slice().fill(0.0);
            return Ok(LossValue { loss: 0.0, l1: 0.0, ssim: None, valid_pixels });
        }
        let w = f64::from(options.dssim_weight);
        let weight = options.latitude.map_or(valid_pixels as f64, |latitude| total_weight(&truth, latitude));
        let values = weight * Planes::CHANNELS as f64;
        let factors = LossFactors { l1: ((1.0 - w) / values) as f32, ssim: (-w / values) as f32 };
        self.prepare(pool, render, &truth, options.background);
        self.pass(pool, render, &truth, PassOutput::Gradient, (factors, options.latitude), gradient);
        let sums = self.total();
        let l1 = sums.absolute / values;
        let ssim = (w != 0.0).then_some(sums.ssim / values);
        let loss = (1.0 - w) * l1 + ssim.map_or(0.0, |ssim| w * (1.0 - ssim));
        Ok(LossValue { loss, l1, ssim, valid_pixels })
    }

    /// Mean SSIM of `render` and `truth` over valid pixels and channels (1 if there are none); `map` is resized to the
    /// render and becomes S of each value, 0 for invalid ones.
    ///
    /// # Errors
    /// The images differ in size.
    pub fn ssim(
        &mut self,
        pool: &Pool,
        render: &Planes,
        truth: GroundTruth<'_>,
        background: [f32; 3],
        map: &mut Planes,
    ) -> Result<f64, SizeMismatch> {
        let valid_pixels = check(render, &truth)?;
        map.resize(render.width(), render.height());
        if valid_pixels == 0 {
            map.as_mut_slice().fill(0.0);
            return Ok(1.0);
        }
        self.prepare(pool, render, &truth, background);
        self.pass(pool, render, &truth, PassOutput::SsimMap, (LossFactors { l1: 0.0, ssim: 1.0 }, None), map);
        Ok(self.total().ssim / (valid_pixels * Planes::CHANNELS) as f64)
    }

    /// Bytes held between calls.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let scratch: usize = self.scratch.iter().map(|s| lock(s).bytes()).sum();
        self.truth.bytes()
            + self.filled_render.bytes()
            + self.weights.bytes()
            + self.zeros.bytes()
            + size_of_val(&*self.line_sums)
            + scratch
    }

    /// First pass: ground truth, weights and filled render.
    fn prepare(&mut self, pool: &Pool, render: &Planes, truth: &GroundTruth<'_>, background: [f32; 3]) {
        let (width, stride) = (render.width() as usize, render.stride());
        self.zeros.resize(stride);
        self.line_sums.resize(render.rows() * Planes::CHANNELS, LineSums::default());
        while self.scratch.len() < pool.threads() {
            self.scratch.push(Mutex::default());
        }
        let GroundTruth::Bytes(image) = truth else {
            ground_truth::one_weight_line(&mut self.weights, width, stride);
            return;
        };
        self.truth.resize(image.width, image.height);
        let level = self.level;
        if image.mask.is_none() {
            ground_truth::one_weight_line(&mut self.weights, width, stride);
            let chunk = BAND_ROWS * self.truth.row_len();
            pool.run_chunks(self.truth.as_mut_slice(), chunk, |band, planes| {
                let rows = band_rows(band, render);
                at_level!(level, simd => ground_truth::unpack_rows(simd, image, background, rows, planes));
            });
        } else {
            self.filled_render.resize(image.width, image.height);
            self.weights.resize(render.rows() * stride);
            let chunk = BAND_ROWS * self.truth.row_len();
            let mut parts: Vec<ground_truth::MaskedPart<'_>> = self
                .truth
                .as_mut_slice()
                .chunks_mut(chunk)
                .zip(self.filled_render.as_mut_slice().chunks_mut(chunk))
                .zip(self.weights.as_mut_slice().chunks_mut(BAND_ROWS * stride))
                .map(|((truth, filled_render), weights)| ground_truth::MaskedPart {
                    truth,
                    filled_render,
                    weights,
                })
                .collect();
            pool.run_parts(&mut parts, |band, part| {
                let rows = band_rows(band, render);
                at_level!(level, simd => ground_truth::unpack_masked_rows(simd, image, background, render, rows, part));
            });
        }
    }

    /// Second pass: one task per band.
    fn pass(
        &mut self,
        pool: &Pool,
        render: &Planes,
        truth: &GroundTruth<'_>,
        output: PassOutput,
        (factors, latitude): (LossFactors, Option<LatitudeWeights>),
        out: &mut Planes,
    ) {
        let y = match truth {
            GroundTruth::Bytes(_) => &self.truth,
            GroundTruth::Planes(planes) => planes,
        };
        let pictures = band::BandInputs {
            x: if truth.mask().is_some() { &self.filled_render } else { render },
            y,
            weights: self.weights.vectors(),
            one_weight_line: truth.mask().is_none(),
            zeros: self.zeros.vectors(),
            latitude,
        };
        let parts: Vec<Mutex<Band<'_>>> = out
            .as_mut_slice()
            .chunks_mut(BAND_ROWS * render.row_len())
            .zip(self.line_sums.chunks_mut(BAND_ROWS * Planes::CHANNELS))
            .enumerate()
            .map(|(band, (out, sums))| Mutex::new(Band { rows: band_rows(band, render), out, sums }))
            .collect();
        let (level, scratch) = (self.level, &self.scratch);
        pool.run(parts.len(), |task, worker| {
            let (mut part, mut scratch) = (lock(&parts[task]), lock(&scratch[worker]));
            scratch.resize(pictures.x.stride());
            band::run(level, &pictures, output, factors, &mut part, &mut scratch);
        });
    }

    fn total(&self) -> LineSums {
        self.line_sums.iter().fold(LineSums::default(), |total, line| LineSums {
            absolute: total.absolute + line.absolute,
            ssim: total.ssim + line.ssim,
        })
    }
}

/// Sum of the weights of the valid pixels.
fn total_weight(truth: &GroundTruth<'_>, latitude: LatitudeWeights) -> f64 {
    let (width, height) = truth.size();
    let (width, height) = (width as usize, height as usize);
    let valid = |row: usize| match truth.mask() {
        Some(mask) => mask[row * width..(row + 1) * width].iter().filter(|&&keep| keep != 0).count(),
        None => width,
    };
    (0..height).map(|row| f64::from(latitude.weight(row)) * valid(row) as f64).sum()
}

/// Pixel rows of a band; may be empty for the last one, which then contains only padding.
fn band_rows(band: usize, picture: &Planes) -> Range<usize> {
    let height = picture.height() as usize;
    (band * BAND_ROWS).min(height)..((band + 1) * BAND_ROWS).min(height)
}

/// Checks that the image sizes match, and counts the valid pixels.
fn check(render: &Planes, truth: &GroundTruth<'_>) -> Result<usize, SizeMismatch> {
    let (found_width, found_height) = truth.size();
    let (width, height) = (render.width(), render.height());
    if (found_width, found_height) != (width, height) {
        return Err(SizeMismatch { what: "the truth", width, height, found_width, found_height });
    }
    Ok(match truth {
        GroundTruth::Bytes(image) => image.valid_pixels(),
        GroundTruth::Planes(_) => width as usize * height as usize,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock only means that a task panicked; the pool propagates the panic to the caller.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
