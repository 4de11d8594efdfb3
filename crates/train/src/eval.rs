//! Evaluation: renders views of a dataset and scores them against their pictures (`training.md` 1).

use std::path::Path;
use std::sync::atomic::AtomicBool;

use gausset_core::engine::{Engine, EngineError, RenderOptions};
use gausset_core::se3::Mat3;
use gausset_io::atomic::{FileSystem, WriteError};
use gausset_io::dataset::Loader;
use serde::Serialize;

use crate::events::SkippedPicture;
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvalRecord {
    /// Name of the picture.
    pub name: String,
    /// PSNR in dB; `None` for equal pictures, whose PSNR is infinite.
    pub psnr: Option<f64>,
    /// Mean SSIM.
    pub ssim: f64,
    /// Share of the pixels that count.
    #[serde(skip_serializing_if = "is_one")]
    pub valid_share: f64,
    /// PSNR after an affine colour fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr_colour_corrected: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

/// Scores of a split: the object of `gausset eval --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Scores per view, by name.
    pub per_image: Vec<EvalRecord>,
    /// Views whose picture cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPicture>,
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
}

/// Renders and scores the views of a split with the splats that the engine holds. With `pictures`, a picture
/// `truth | render | error` per view, a contact sheet of all of them and `metrics.json` are written.
///
/// # Errors
/// The device failed, a file could not be written, `stop` was set. Unreadable pictures are skipped and listed.
pub fn evaluate(
    engine: &mut dyn Engine,
    loader: &Loader,
    options: &EvalOptions,
    pictures: Option<&PictureFolder<'_>>,
    stop: &AtomicBool,
) -> Result<EvalReport, EvalError> {
    let _ = (engine, loader, options, pictures, stop);
    unimplemented!()
}
