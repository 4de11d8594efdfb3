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
        // A view may have no co-visible pixel or no point: it does not count in that mean.
        let of_known =
            |score: fn(&Self) -> Option<f64>| mean_of_known(records, |record| score(&record.scores));
        Self {
            psnr_colour_corrected: mean_of_scored(records, |record| record.scores.psnr_colour_corrected),
            ssim_colour_corrected: of_known(|s| s.ssim_colour_corrected),
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
    /// PSNR in dB; `None` for identical images, whose PSNR is infinite, and if no pixel is valid.
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

impl EvalRecord {
    /// Whether a pixel is valid: otherwise the view has no score.
    #[must_use]
    pub fn is_scored(&self) -> bool {
        self.valid_share > 0.0
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_one<T: PartialEq + From<u8>>(value: &T) -> bool {
    *value == one()
}

fn one<T: From<u8>>() -> T {
    1.into()
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
    /// Mean PSNR in dB over the views with valid pixels; `None` if one equals its ground truth, or there is none.
    pub psnr: Option<f64>,
    /// Mean SSIM over the same views; `None` if there is none.
    pub ssim: Option<f64>,
    /// Name of the SSIM definition, one of [`SsimDefinition::NAMES`].
    #[serde(default = "first_definition")]
    pub ssim_definition: String,
    /// Images were compared at `1 / reduction` of their size; omitted if 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub reduction: u32,
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
            psnr: mean_of_scored(&per_image, |record| record.psnr),
            ssim: mean_of_known(&per_image, |record| record.ssim),
            ssim_definition: ssim.to_string(),
            reduction: 1,
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

/// The mean over the views with valid pixels; `None` if a score is infinite, or there is no view.
fn mean_of_scored(records: &[EvalRecord], score: impl Fn(&EvalRecord) -> Option<f64>) -> Option<f64> {
    let scores: Option<Vec<f64>> = records.iter().filter(|record| record.is_scored()).map(score).collect();
    mean(&scores?)
}

/// The mean over the views that have the score.
fn mean_of_known(records: &[EvalRecord], score: impl Fn(&EvalRecord) -> Option<f64>) -> Option<f64> {
    mean(&records.iter().filter_map(score).collect::<Vec<f64>>())
}

/// The mean, if there is a value.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_without_a_valid_pixel_does_not_count_in_the_means() {
        let record = |psnr, ssim, valid_share| {
            let scores =
                Scores { psnr_colour_corrected: psnr, ssim_colour_corrected: ssim, ..Scores::default() };
            EvalRecord { name: String::new(), psnr, ssim, valid_share, scores }
        };
        let means = |records| {
            let EvalReport { psnr, ssim, scores, .. } =
                EvalReport::new(Split::Test, SsimDefinition::default(), records);
            assert_eq!((scores.psnr_colour_corrected, scores.ssim_colour_corrected), (psnr, ssim));
            (psnr, ssim)
        };
        let masked = record(None, None, 0.0);
        let views =
            vec![record(Some(20.0), Some(0.5), 1.0), masked.clone(), record(Some(30.0), Some(1.0), 0.5)];
        assert_eq!(means(views), (Some(25.0), Some(0.75)));
        let equal = record(None, Some(1.0), 1.0);
        assert_eq!(means(vec![record(Some(20.0), Some(0.5), 1.0), equal]), (None, Some(0.75)));
        assert_eq!(means(vec![masked]), (None, None));
    }
}
