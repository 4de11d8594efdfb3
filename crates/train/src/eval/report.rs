//! The scores of an evaluation, as they are written and read back.

use gausset_metrics::SsimDefinition;
use gausset_metrics::quality::Quality;
use serde::{Deserialize, Serialize};

use crate::warning::{RunWarning, SkippedPicture, is_zero};
use crate::words::Split;

/// What is measured beside PSNR and SSIM (docs/quality.md); `None` where it was not measured or is not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scores {
    /// PSNR in dB after an affine colour fit per picture.
    pub psnr_colour_corrected: Option<f64>,
    /// SSIM after the same fit.
    pub ssim_colour_corrected: Option<f64>,
    /// PSNR in dB of the pixels that three training views or more confirm.
    pub psnr_covisible: Option<f64>,
    /// Share of these among the pixels that count.
    pub covisible_share: Option<f64>,
    /// Share of the pixels that only one or two training views confirm.
    pub scarce_share: Option<f64>,
    /// Mean weight blended in front of known depths, 0 to 1.
    pub haze: Option<f64>,
    /// LPIPS, with weights that a person has named.
    pub lpips: Option<f64>,
}

impl Scores {
    /// Those of a picture that its pixels alone tell.
    pub(super) fn of(quality: &Quality) -> Self {
        Self {
            psnr_colour_corrected: finite(quality.color_corrected_psnr),
            ssim_colour_corrected: finite(quality.color_corrected_ssim),
            ..Self::default()
        }
    }

    /// Adds the PSNR of the co-visible pixels and their number, and how many only one or two views confirm, of so many
    /// valid ones.
    pub(super) fn add_covisible(&mut self, (psnr, pixels): (f64, usize), scarce: usize, valid_pixels: usize) {
        self.psnr_covisible = finite(psnr);
        self.covisible_share = finite(pixels as f64 / valid_pixels as f64);
        self.scarce_share = finite(scarce as f64 / valid_pixels as f64);
    }

    /// Means over pictures.
    fn mean_of(records: &[EvalRecord]) -> Self {
        let of = |score: fn(&Self) -> Option<f64>| mean(records.iter().map(|record| score(&record.scores)));
        // A view may have no co-visible pixel or no point: the mean is over the others.
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
    /// Name of the picture.
    pub name: String,
    /// PSNR in dB; `None` for equal pictures, whose PSNR is infinite.
    pub psnr: Option<f64>,
    /// Mean SSIM; `None` when no pixel counts.
    pub ssim: Option<f64>,
    /// Share of the pixels that count.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub valid_share: f64,
    /// The other scores.
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

/// What SSIM meant in reports that do not say it.
fn first_definition() -> String {
    SsimDefinition::Gaussian11Zero.to_string()
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
    /// Name of the SSIM that was measured, one of [`SsimDefinition::NAMES`].
    #[serde(default = "first_definition")]
    pub ssim_definition: String,
    /// Share of all pixels that count.
    pub valid_share: f64,
    /// Means of the other scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// Pictures that were rendered with a gain: training pictures with their own, others with that of those before and
    /// after them; left out where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exposed: u64,
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
    /// A report of these views, with their means; nothing else is said in it yet.
    pub(crate) fn of(split: Split, ssim: SsimDefinition, per_image: Vec<EvalRecord>) -> Self {
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

    /// What is said about lists that a limit has cut.
    #[must_use]
    pub fn cut_lists(&self, limit: u32) -> Option<RunWarning> {
        let (tiles, cut_views, views) = (self.cut_tiles, self.cut_views, self.images as u64);
        (tiles > 0).then_some(RunWarning::CutPictures { limit, tiles, cut_views, views })
    }
}

/// `None` for what JSON cannot say: the PSNR of equal pictures is infinite, without valid pixels nothing is a number.
pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The mean, if every value is there and there is one.
fn mean(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = values.len();
    let sum: f64 = values.sum::<Option<f64>>()?;
    (count > 0).then(|| sum / count as f64)
}
