//! How good a result is, how far it can be trusted, and what would improve it: lines from the scores of held-out and
//! training views.

use serde::{Deserialize, Serialize};

use super::report::EvalReport;

/// Haze from which floaters are likely: trees and walls without texture alone reach 0.36 (docs/reference/quality.md).
const HAZE_LIMIT: f64 = 0.5;
/// PSNR in dB by which training views normally exceed held-out ones.
const NORMAL_GAP: f64 = 4.0;
/// Fraction of the pixels that three training views should confirm.
const MIN_COVISIBLE: f64 = 0.7;
/// PSNR in dB that a colour fit normally gains.
const NORMAL_CORRECTION: f64 = 1.0;
/// Steps below which scores say more about the length of the run than about the photographs: a tenth of the shortest run
/// of the default preset.
const MIN_ADVICE_STEPS: u64 = 300;

/// Scores that show how far a result can be trusted; `None` if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trust {
    /// Mean PSNR of some training views in dB.
    pub training_psnr: Option<f64>,
    /// Their mean haze: the weight in front of known depth, 0..1. It shows floaters without any held-out view.
    pub training_haze: Option<f64>,
    /// Fraction of the surface, as the training views show it, whose depth three of them confirm ([`Confidence`]).
    ///
    /// [`Confidence`]: super::Confidence
    pub confirmed_share: Option<f64>,
}

/// How good held-out views look, by their PSNR after a colour fit: exposure and white balance are no fault of the splats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// 30 dB or more.
    Excellent,
    /// 25 dB or more.
    Good,
    /// 20 dB or more.
    Fair,
    /// Less than 20 dB.
    Poor,
}

impl Judgement {
    /// The judgement of held-out views; `None` if they were not measured. The limits are those by which papers and users of
    /// the field read PSNR.
    #[must_use]
    pub fn from_scores(held_out: &EvalReport) -> Option<Self> {
        let psnr = held_out.psnr?.max(held_out.scores.psnr_colour_corrected.unwrap_or(0.0));
        Some(match psnr {
            30.0.. => Self::Excellent,
            25.0.. => Self::Good,
            20.0.. => Self::Fair,
            _ => Self::Poor,
        })
    }

    /// One line on what held-out views look like.
    #[must_use]
    pub fn line(self) -> &'static str {
        match self {
            Self::Excellent => "excellent: unseen views are hard to tell from the photographs",
            Self::Good => "good: unseen views are close to the photographs",
            Self::Fair => "fair: shapes and colours of unseen views are right, fine detail is soft",
            Self::Poor => "poor: unseen views differ clearly from the photographs",
        }
    }
}

/// What would improve a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Floaters in front of the cameras.
    Haze,
    /// Many pixels are seen by only one or two images.
    MoreImages,
    /// The splats overfit the training images.
    Overfitting,
    /// Images differ in brightness or colour, and no gains are learnt.
    Exposure,
    /// Images differ in a way that the gains of their neighbours do not predict.
    ExposureJumps,
}

impl Advice {
    /// The advice that the scores after `steps` steps give; `None` if nothing is unusual, or the run was too short to say.
    #[must_use]
    pub fn from_scores(held_out: &EvalReport, trust: &Trust, steps: u64) -> Option<Self> {
        if steps < MIN_ADVICE_STEPS {
            return None;
        }
        let scores = &held_out.scores;
        let gap = trust.training_psnr.zip(held_out.psnr).map_or(0.0, |(training, psnr)| training - psnr);
        let correction =
            scores.psnr_colour_corrected.zip(held_out.psnr).map_or(0.0, |(corrected, psnr)| corrected - psnr);
        if scores.haze.is_some_and(|haze| haze >= HAZE_LIMIT) {
            Some(Self::Haze)
        } else if correction > NORMAL_CORRECTION {
            Some(if held_out.exposed > 0 { Self::ExposureJumps } else { Self::Exposure })
        } else if gap <= NORMAL_GAP {
            None
        } else if scores.covisible_share.is_some_and(|share| share < MIN_COVISIBLE) {
            Some(Self::MoreImages)
        } else {
            Some(Self::Overfitting)
        }
    }

    /// One line: the problem and what to do.
    #[must_use]
    pub fn line(self) -> &'static str {
        match self {
            Self::Haze => {
                "haze: there are floaters in front of the cameras; look at the worst images and take more photographs from there"
            }
            Self::MoreImages => {
                "many pixels of the held-out views are seen by only one or two photographs: take more from there"
            }
            Self::Overfitting => {
                "the training images are overfitted: take more photographs, or use fewer splats (⟨max-splats⟩)"
            }
            Self::ExposureJumps => {
                "brightness or colour jump from image to image: lock exposure and white balance when taking them"
            }
            Self::Exposure => {
                "brightness or colour differ from image to image: lock exposure and white balance, or try ⟨exposure = on⟩"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gausset_metrics::SsimDefinition;

    use super::*;
    use crate::eval::Scores;
    use crate::option_values::Split;

    #[test]
    fn advice_names_the_first_thing_that_is_out_of_the_ordinary() {
        let advice = |psnr: f64, training: f64, corrected: f64, share: f64, haze: Option<f64>| {
            let scores = Scores {
                psnr_colour_corrected: Some(corrected),
                covisible_share: Some(share),
                haze,
                ..Scores::default()
            };
            let report = EvalReport::new(Split::Test, SsimDefinition::default(), Vec::new());
            let report = EvalReport { psnr: Some(psnr), scores, ..report };
            let trust = Trust { training_psnr: Some(training), training_haze: None, confirmed_share: None };
            assert_eq!(Advice::from_scores(&report, &trust, MIN_ADVICE_STEPS - 1), None);
            Advice::from_scores(&report, &trust, MIN_ADVICE_STEPS)
        };
        assert_eq!(advice(27.0, 29.0, 27.5, 0.9, Some(0.02)), None);
        assert_eq!(advice(27.0, 29.0, 27.5, 0.5, None), None);
        assert_eq!(advice(20.0, 25.0, 20.5, 0.6, Some(0.02)), Some(Advice::MoreImages));
        assert_eq!(advice(20.0, 25.0, 20.5, 0.8, None), Some(Advice::Overfitting));
        assert_eq!(advice(20.0, 25.0, 21.5, 0.6, Some(0.02)), Some(Advice::Exposure));
        assert_eq!(advice(20.0, 25.0, 21.5, 0.6, Some(0.6)), Some(Advice::Haze));
        let nothing = EvalReport::new(Split::Test, SsimDefinition::default(), Vec::new());
        assert_eq!(Advice::from_scores(&nothing, &Trust::default(), 7_000), None);
    }

    #[test]
    fn a_difference_in_exposure_does_not_make_a_result_poor() {
        let judgement = |psnr: Option<f64>, corrected: Option<f64>| {
            let scores = Scores { psnr_colour_corrected: corrected, ..Scores::default() };
            let report = EvalReport::new(Split::Test, SsimDefinition::default(), Vec::new());
            Judgement::from_scores(&EvalReport { psnr, scores, ..report })
        };
        assert_eq!(judgement(Some(30.0), None), Some(Judgement::Excellent));
        assert_eq!(judgement(Some(24.9), None), Some(Judgement::Fair));
        assert_eq!(judgement(Some(19.0), Some(26.0)), Some(Judgement::Good));
        assert_eq!(judgement(Some(19.0), Some(19.5)), Some(Judgement::Poor));
        assert_eq!(judgement(None, None), None);
    }
}
