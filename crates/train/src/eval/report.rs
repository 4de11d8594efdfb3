//! The scores of an evaluation, as written to and read from JSON.

use gausset_metrics::SsimDefinition;
use gausset_metrics::quality::ImageQuality;
use serde::{Deserialize, Serialize};

use crate::option_values::Split;
use crate::warning::{RunWarning, SkippedImage, is_zero};

/// Metrics in addition to PSNR and SSIM (docs/reference/quality.md); `None` if not measured or not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scores {
    /// PSNR in dB after an affine colour fit per image.
    pub psnr_colour_corrected: Option<f64>,
    /// SSIM after the same fit.
    pub ssim_colour_corrected: Option<f64>,
    /// PSNR in dB of the pixels that at least three training views confirm.
    pub psnr_covisible: Option<f64>,
    /// Fraction of the valid pixels that are co-visible.
    pub covisible_share: Option<f64>,
    /// Fraction of the valid pixels that only one or two training views confirm.
    pub scarce_share: Option<f64>,
    /// Mean weight blended in front of known depths, 0 to 1.
    pub haze: Option<f64>,
    /// LPIPS, with weights that the user has provided.
    pub lpips: Option<f64>,
}

impl Scores {
    /// The scores that depend only on the pixels of an image.
    pub(super) fn from_quality(quality: &ImageQuality) -> Self {
        Self {
            psnr_colour_corrected: finite_or_none(quality.color_corrected_psnr),
            ssim_colour_corrected: finite_or_none(quality.color_corrected_ssim),
            ..Self::default()
        }
    }

    /// Adds the PSNR and number of the co-visible pixels, and the number of pixels that only one or two views confirm,
    /// of `valid_pixels`.
    pub(super) fn add_covisible(&mut self, (psnr, pixels): (f64, usize), scarce: usize, valid_pixels: usize) {
        self.psnr_covisible = finite_or_none(psnr);
        self.covisible_share = finite_or_none(pixels as f64 / valid_pixels as f64);
        self.scarce_share = finite_or_none(scarce as f64 / valid_pixels as f64);
    }

    /// Means over images.
    fn mean_of(records: &[EvalRecord]) -> Self {
        let of = |score: fn(&Self) -> Option<f64>| mean(records.iter().map(|record| score(&record.scores)));
        // A view may have no co-visible pixel or no point: it does not count in that mean.
        let of_known = |score: fn(&Self) -> Option<f64>| {
            let known: Vec<f64> = records.iter().filter_map(|record| score(&record.scores)).collect();
            mean(known.into_iter().map(Some))
        };
        Self {
            psnr_colour_corrected: of(|s| s.psnr_colour_corrected),
            ssim_colour_corrected: of(|s| s.ssim_colour_corrected),
            psnr_covisible: of_known(|s| s.psnr_covisible),
            covisible_share: of_known(|s| s.covisible_share),
            scarce_share: of_known(|s| s.scarce_share),
            haze: of_known(|s| s.haze),
            lpips: of_known(|s| s.lpips),
        }
    }
}

/// Scores of one view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalRecord {
    /// Name of the image.
    pub name: String,
    /// PSNR in dB; `None` for identical images, whose PSNR is infinite.
    pub psnr: Option<f64>,
    /// Mean SSIM; `None` if no pixel is valid.
    pub ssim: Option<f64>,
    /// Fraction of valid pixels.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub valid_share: f64,
    /// Scores besides PSNR and SSIM.
    #[serde(flatten)]
    pub scores: Scores,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn one() -> f64 {
    1.0
}

/// SSIM definition of reports that do not state it.
fn first_definition() -> String {
    SsimDefinition::Gaussian11Zero.to_string()
}

/// Scores of a split: the object of `gausset eval --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalReport {
    /// `test` or `train`.
    pub split: Split,
    /// Number of scored views.
    pub images: usize,
    /// Mean PSNR in dB; `None` if an image is identical to its ground truth or there is no image.
    pub psnr: Option<f64>,
    /// Mean SSIM; `None` if there is no image.
    pub ssim: Option<f64>,
    /// Name of the SSIM definition, one of [`SsimDefinition::NAMES`].
    #[serde(default = "first_definition")]
    pub ssim_definition: String,
    /// Fraction of valid pixels among all pixels.
    pub valid_share: f64,
    /// Means of the further scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// Number of images rendered with a gain: training images with their own, others with one interpolated from their
    /// neighbours; omitted if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exposed: u64,
    /// Tiles whose list was truncated by `--max-splats-per-tile`, over all views; omitted if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_tiles: u64,
    /// Number of views with such a tile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_views: u64,
    /// Scores per view, by name.
    pub per_image: Vec<EvalRecord>,
    /// Views whose image cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedImage>,
}

impl EvalReport {
    /// A report of these views with their means; all other fields are blank.
    pub(crate) fn new(split: Split, ssim: SsimDefinition, per_image: Vec<EvalRecord>) -> Self {
        Self {
            split,
            images: per_image.len(),
            psnr: mean(per_image.iter().map(|r| r.psnr)),
            ssim: mean(per_image.iter().map(|r| r.ssim)),
            ssim_definition: ssim.to_string(),
            valid_share: 1.0,
            scores: Scores::mean_of(&per_image),
            exposed: 0,
            cut_tiles: 0,
            cut_views: 0,
            per_image,
            skipped: Vec::new(),
        }
    }

    /// Warning about tile lists that a limit has truncated.
    #[must_use]
    pub fn truncation_warning(&self, limit: u32) -> Option<RunWarning> {
        let (tiles, cut_views, views) = (self.cut_tiles, self.cut_views, self.images as u64);
        (tiles > 0).then_some(RunWarning::TruncatedRenders { limit, tiles, cut_views, views })
    }
}

/// `None` for values that JSON cannot represent: the PSNR of identical images is infinite, and metrics without valid
/// pixels are NaN.
pub(super) fn finite_or_none(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The mean, if there is at least one value and none is missing.
fn mean(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = values.len();
    let sum: f64 = values.sum::<Option<f64>>()?;
    (count > 0).then(|| sum / count as f64)
}
