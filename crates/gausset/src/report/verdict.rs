//! The sentence at the start of a report: how good the held-out views are, and what would improve them.

use gausset_train::{Advice, EvalRecord};

/// Lowest mean PSNR in dB of each grade, and what it means (docs/reference/quality.md).
const GRADES: [(f64, &str); 4] = [
    (30.0, "Very good: unseen views are hard to tell from the photographs"),
    (25.0, "Good: unseen views are close to the photographs"),
    (20.0, "Usable: shapes and colours of unseen views are right, fine detail is soft"),
    (f64::NEG_INFINITY, "Poor: unseen views differ clearly from the photographs"),
];
/// Distance in dB of the worst view from the mean that is worth a word.
const FAR_BELOW_MEAN: f64 = 4.0;

/// Sums up held-out views, their mean PSNR in dB, and what would improve them, in one sentence.
pub(super) fn sentence(mean_psnr: Option<f64>, views: &[EvalRecord], advice: Option<Advice>) -> String {
    let Some(psnr) = mean_psnr else {
        return "Not judged: there are no held-out views with a score.".to_owned();
    };
    let grade = GRADES.iter().find(|(least, _)| psnr >= *least).map_or("", |(_, grade)| grade);
    let worst = views
        .iter()
        .filter_map(|view| Some((view.name.as_str(), view.psnr?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, worst)| psnr - worst > FAR_BELOW_MEAN)
        .map(|(name, worst)| format!("; {name} is {:.0} dB below the mean", psnr - worst));
    // Settings are named by their keys, as in config.toml.
    let advice = advice.map(|advice| format!("; {}", advice.line().replace(['\u{27e8}', '\u{27e9}'], "")));
    format!("{grade}{}{}.", worst.unwrap_or_default(), advice.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use gausset_train::Scores;

    use super::*;

    fn views(psnrs: &[f64]) -> Vec<EvalRecord> {
        let record = |(i, psnr): (usize, &f64)| EvalRecord {
            name: format!("{i}.jpg"),
            psnr: Some(*psnr),
            ssim: Some(0.8),
            valid_share: 1.0,
            scores: Scores::default(),
        };
        psnrs.iter().enumerate().map(record).collect()
    }

    #[test]
    fn one_sentence_names_the_grade_a_view_far_below_and_one_advice() {
        for (psnr, word) in [(31.0, "Very good"), (27.0, "Good"), (22.0, "Usable"), (12.0, "Poor")] {
            assert!(sentence(Some(psnr), &views(&[psnr, psnr + 1.0]), None).starts_with(word), "{psnr}");
        }
        let far = sentence(Some(26.0), &views(&[30.0, 18.0, 30.0]), None);
        assert_eq!(far, "Good: unseen views are close to the photographs; 1.jpg is 8 dB below the mean.");
        let overfitted = sentence(Some(22.0), &views(&[22.0]), Some(Advice::Overfitting));
        assert!(overfitted.contains("overfitted") && !overfitted.contains('\u{27e8}'), "{overfitted}");
        assert!(sentence(None, &[], None).starts_with("Not judged"));
    }
}
