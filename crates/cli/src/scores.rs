//! Formatting of the scores of held-out views (docs/reference/quality.md).

use gausset_train::{EvalReport, Scores, Split};

use crate::lines::Lines;
use crate::numbers::{counted, decibels};
use crate::table::{self, ColumnAlign};

/// The panels of a contact sheet, from left to right.
pub(crate) const PANELS: &str =
    "ground truth | render | error, and the colour-corrected render if it differs";

/// Shown for a score that was not measured, or that no pixel contributes to.
const NOT_MEASURED: &str = "-";

/// Formats an evaluation as a table with one row per image; the last row holds the means.
pub(crate) fn table(report: &EvalReport) -> Lines {
    let mut header = vec![
        ("picture", ColumnAlign::Left),
        ("PSNR", ColumnAlign::Right),
        ("SSIM", ColumnAlign::Right),
        ("CC-PSNR", ColumnAlign::Right),
        ("CC-SSIM", ColumnAlign::Right),
        ("co-visible", ColumnAlign::Right),
        ("share", ColumnAlign::Right),
        ("haze", ColumnAlign::Right),
    ];
    let has_lpips = report.scores.lpips.is_some();
    if has_lpips {
        header.push(("LPIPS", ColumnAlign::Right));
    }
    // Cells beyond the header are dropped: LPIPS, if it was not measured.
    let row = |name: String, psnr: Option<f64>, ssim: Option<f64>, scores: &Scores| {
        // Without valid pixels there is no SSIM, and a missing PSNR is not infinite.
        let of_all = |psnr| if ssim.is_some() { decibels(psnr) } else { NOT_MEASURED.to_owned() };
        vec![
            name,
            of_all(psnr),
            four_digits(ssim),
            of_all(scores.psnr_colour_corrected),
            four_digits(scores.ssim_colour_corrected),
            covisible(scores),
            scores.covisible_share.map_or_else(|| NOT_MEASURED.to_owned(), percent),
            haze(scores),
            four_digits(scores.lpips),
        ]
    };
    let mut rows: Vec<Vec<String>> = report
        .per_image
        .iter()
        .map(|view| row(view.name.clone(), view.psnr, view.ssim, &view.scores))
        .collect();
    if report.images > 0 {
        let name = format!("mean of {}", counted(report.images as u64, "image"));
        rows.push(row(name, report.psnr, report.ssim, &report.scores));
    }
    let mut text = table::columns(&header, &rows);
    if report.valid_share < 1.0 {
        text += format!("valid: {} of the pixels", percent(report.valid_share));
    }
    if report.reduction > 1 {
        text += format!("compared at 1/{} of the size", report.reduction);
    }
    if report.exposed > 0 {
        text += match report.split {
            Split::Test => {
                "exposure: held-out images use the interpolated gains of their neighbouring training images"
            }
            Split::Train => "exposure: images use their own gains",
        };
    }
    let lpips = if has_lpips { "" } else { "; LPIPS: not measured" };
    text + format!("SSIM: {}{lpips}", report.ssim_definition)
}

/// The scores beside PSNR as rows of facts; nothing about what was not measured at all.
pub(crate) fn facts(ssim: Option<f64>, scores: &Scores) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if ssim.is_some() {
        rows.push(("SSIM", four_digits(ssim)));
    }
    if scores.psnr_colour_corrected.or(scores.ssim_colour_corrected).is_some() {
        let (psnr, ssim) =
            (decibels(scores.psnr_colour_corrected), four_digits(scores.ssim_colour_corrected));
        rows.push(("CC", format!("{psnr}, SSIM {ssim} after a colour fit per image")));
    }
    if let Some(share) = scores.covisible_share {
        let scarce =
            scores.scarce_share.map(|scarce| format!("; {} seen by only one or two views", percent(scarce)));
        let where_ = format!("on {} of the pixels{}", percent(share), scarce.unwrap_or_default());
        rows.push(("co-visible", format!("{} {where_}", covisible(scores))));
    }
    if ssim.is_some() && scores.covisible_share.is_some() {
        let known = scores.haze.map(|_| format!("{} (0 clear, 1 opaque)", haze(scores)));
        rows.push(("haze", known.unwrap_or_else(|| "not measured: no known points are visible".to_owned())));
    }
    rows
}

fn four_digits(score: Option<f64>) -> String {
    score.map_or_else(|| NOT_MEASURED.to_owned(), |score| format!("{score:.4}"))
}

/// Formats the co-visible PSNR. A missing one either has no pixels or is infinite.
fn covisible(scores: &Scores) -> String {
    match (scores.psnr_covisible, scores.covisible_share) {
        (None, None | Some(0.0)) => NOT_MEASURED.to_owned(),
        (psnr, _) => decibels(psnr),
    }
}

fn haze(scores: &Scores) -> String {
    scores.haze.map_or_else(|| NOT_MEASURED.to_owned(), |haze| format!("{haze:.3}"))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_a_dash_and_never_a_zero() {
        let all = Scores {
            psnr_colour_corrected: Some(21.0),
            ssim_colour_corrected: Some(0.8),
            psnr_covisible: Some(24.0),
            covisible_share: Some(0.625),
            scarce_share: Some(0.125),
            haze: Some(0.0125),
            lpips: None,
        };
        let lines = |scores| facts(Some(0.75), &scores).into_iter().map(|(_, v)| v).collect::<Vec<_>>();
        assert_eq!(
            lines(all),
            [
                "0.7500",
                "21.00 dB, SSIM 0.8000 after a colour fit per image",
                "24.00 dB on 62.5 % of the pixels; 12.5 % seen by only one or two views",
                "0.013 (0 clear, 1 opaque)"
            ]
        );
        let unseen = Scores {
            psnr_covisible: None,
            covisible_share: Some(0.0),
            scarce_share: None,
            haze: None,
            ..all
        };
        assert_eq!(
            lines(unseen)[2..],
            ["- on 0.0 % of the pixels", "not measured: no known points are visible"]
        );
        // Nothing was measured.
        assert!(facts(None, &Scores::default()).is_empty());
    }
}
