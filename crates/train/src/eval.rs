//! Evaluation: renders views of a dataset and scores them against their pictures (docs/training.md, 1).

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Pool;
use gausset_core::engine::{Engine, EngineError, RenderOptions, Rendering};
use gausset_core::se3::Mat3;
use gausset_core::splats_transform::Similarity;
use gausset_core::{Stage, TargetImage};
use gausset_io::atomic::{FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::dataset::{Dataset, Loader};
use gausset_io::owned;
use gausset_io::run_folder::EVALUATION;
use gausset_metrics::{LossKernel, quality};
use serde::{Deserialize, Serialize};

use crate::events::{RunWarning, SkippedPicture, is_zero};
use crate::sheet::{self, ContactSheet};
use crate::words::Split;

/// What is evaluated, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalOptions {
    /// Which views.
    pub split: Split,
    /// How they are rendered; the background is also under the truth where that is transparent.
    pub render: RenderOptions,
    /// Rotation `splats_from_dataset`: how the splats were turned when they were saved. The cameras turn with them.
    pub splats_from_dataset: Mat3,
    /// Also report the PSNR after an affine colour fit per picture.
    pub colour_corrected: bool,
}

/// Scores of one view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalRecord {
    /// Name of the picture.
    pub name: String,
    /// PSNR in dB; `None` for equal pictures, whose PSNR is infinite.
    pub psnr: Option<f64>,
    /// Mean SSIM; `None` when no pixel counts.
    pub ssim: Option<f64>,
    /// Share of the pixels that count.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub valid_share: f64,
    /// PSNR after an affine colour fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr_colour_corrected: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn one() -> f64 {
    1.0
}

/// Scores of a split: the object of `gausset eval --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalReport {
    /// `test` or `train`.
    pub split: Split,
    /// Views scored.
    pub images: usize,
    /// Mean of the PSNRs in dB; `None` when a picture is equal to its truth or there is none.
    pub psnr: Option<f64>,
    /// Mean of the SSIMs; `None` when there is no picture.
    pub ssim: Option<f64>,
    /// Share of all pixels that count.
    pub valid_share: f64,
    /// Mean of the PSNRs after an affine colour fit per picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr_colour_corrected: Option<f64>,
    /// Tiles whose list was cut by `--max-splats-per-tile`, over all views; left out where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_tiles: u64,
    /// Views with such a tile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_views: u64,
    /// Scores per view, by name.
    pub per_image: Vec<EvalRecord>,
    /// Views whose picture cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPicture>,
}

impl EvalReport {
    /// What is said about lists that a limit has cut.
    #[must_use]
    pub fn cut_lists(&self, limit: u32) -> Option<RunWarning> {
        let (tiles, cut_views, views) = (self.cut_tiles, self.cut_views, self.images as u64);
        (tiles > 0).then_some(RunWarning::CutPictures { limit, tiles, cut_views, views })
    }
}

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A picture or report could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It was asked to stop.
    #[error("evaluation: stopped before its end")]
    Stopped,
}

/// Where the pictures of an evaluation go.
pub struct PictureFolder<'a> {
    /// Where files are written.
    pub fs: &'a dyn FileSystem,
    /// The folder, usually `RUN/eval`.
    pub folder: &'a Path,
    /// Whether files of others in it may be replaced; those of an earlier evaluation always are.
    pub overwrite: Overwrite,
}

impl PictureFolder<'_> {
    /// Takes the folder for the pictures of these views.
    fn take(&self, dataset: &Dataset, views: &[usize]) -> Result<(), WriteError> {
        let pictures = views.iter().enumerate();
        let pictures =
            pictures.map(|(position, &index)| sheet::file_name(position, &dataset.images[index].name));
        let names = pictures.chain([CONTACT_SHEET, REPORT].map(str::to_owned));
        owned::take(self.fs, self.folder, EVALUATION, names, self.overwrite)
    }
}

/// Pictures that the loader is told of in advance.
const LOOKAHEAD: usize = 4;

/// Renders and scores the views of a split with the splats that the engine holds. With `pictures`, a picture
/// `truth | render | error` per view, a contact sheet and `metrics.json` are written.
///
/// # Errors
/// The device failed, the folder holds files of others with names that are needed, a file could not be written, `stop`
/// was set. Unreadable pictures are skipped and listed.
pub fn evaluate(
    engine: &mut dyn Engine,
    loader: &Loader,
    options: &EvalOptions,
    pictures: Option<&PictureFolder<'_>>,
    stop: &AtomicBool,
) -> Result<EvalReport, EvalError> {
    let _span = gausset_prof::span(Stage::Eval.name());
    let dataset = loader.dataset();
    let views = match options.split {
        Split::Train => &dataset.split.train,
        Split::Test => &dataset.split.test,
    };
    if let Some(to) = pictures {
        to.take(dataset, views)?;
    }
    let turn = Similarity::from_rotation(options.splats_from_dataset);
    let mut scorer = Scorer::new();
    let mut sheet = pictures.map(|_| ContactSheet::new(views.len()));
    let mut records = Vec::with_capacity(views.len());
    let mut skipped = Vec::new();
    let mut pixels = [0.0f64; 2];
    let (mut cut_tiles, mut cut_views) = (0, 0);
    for (position, &index) in views.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(EvalError::Stopped);
        }
        loader.prefetch(&views[position..views.len().min(position + LOOKAHEAD)]);
        let image = &dataset.images[index];
        let target = match loader.get(index) {
            Ok(target) => target,
            Err(why) => {
                skipped.push(SkippedPicture { name: why.name, reason: why.reason.to_string() });
                continue;
            }
        };
        let pose = turn.apply_to_pose(&image.pose);
        let rendering = engine.render(&image.camera, &pose, &options.render)?;
        cut_tiles += rendering.cut_tiles;
        cut_views += u64::from(rendering.cut_tiles > 0);
        let quality = scorer.score(&rendering, &target, options.render.background)?;
        let all = image.camera.pixels() as f64;
        pixels = [pixels[0] + quality.valid_share * all, pixels[1] + all];
        if let (Some(to), Some(sheet)) = (pictures, &mut sheet) {
            let view = sheet::triptych(&rendering, &target, options.render.background);
            let name = sheet::file_name(position, &image.name);
            sheet::save_png(to.fs, &to.folder.join(name), &view)?;
            sheet.add(position, &view);
        }
        records.push(EvalRecord {
            name: image.name.to_string(),
            psnr: finite(quality.psnr),
            ssim: finite(quality.ssim),
            valid_share: quality.valid_share,
            psnr_colour_corrected: options
                .colour_corrected
                .then(|| finite(quality.color_corrected_psnr))
                .flatten(),
        });
    }
    let report = EvalReport {
        split: options.split,
        images: records.len(),
        psnr: mean(records.iter().map(|r| r.psnr)),
        ssim: mean(records.iter().map(|r| r.ssim)),
        valid_share: if pixels[1] > 0.0 { pixels[0] / pixels[1] } else { 1.0 },
        psnr_colour_corrected: mean(records.iter().map(|r| r.psnr_colour_corrected)),
        cut_tiles,
        cut_views,
        per_image: records,
        skipped,
    };
    if let (Some(to), Some(sheet)) = (pictures, sheet) {
        if let Some(sheet) = sheet.picture() {
            sheet::save_png(to.fs, &to.folder.join(CONTACT_SHEET), &sheet)?;
        }
        let json = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
        write_atomic(to.fs, &to.folder.join(REPORT), |file| file.write_all(json.as_bytes()))?;
    }
    Ok(report)
}

pub use gausset_io::run_folder::{CONTACT_SHEET, EVALUATION_REPORT as REPORT};

/// `None` for what JSON cannot say: the PSNR of equal pictures is infinite, without valid pixels nothing is a number.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The mean, if every value is there and there is one.
fn mean(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = values.len();
    let sum: f64 = values.sum::<Option<f64>>()?;
    (count > 0).then(|| sum / count as f64)
}

/// The metrics with their buffers. They are a small part of an evaluation: one thread.
struct Scorer {
    kernel: LossKernel,
    pool: Pool,
}

impl Scorer {
    fn new() -> Self {
        let level = gausset_compute::fearless_simd::Level::new();
        Self { kernel: LossKernel::new(level), pool: Pool::new(1) }
    }

    fn score(
        &mut self,
        rendering: &Rendering,
        target: &TargetImage,
        background: [f32; 3],
    ) -> Result<quality::Quality, EvalError> {
        let size = (rendering.width, rendering.height);
        quality::evaluate(&mut self.kernel, &self.pool, size, &rendering.color, target, background)
            .map_err(|error| EvalError::Engine(EngineError::BadInput(error.to_string())))
    }
}
