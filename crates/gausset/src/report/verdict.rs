//! The sentence at the start of a report: how good the held-out views are, and what would improve them.

use gausset_train::{Advice, EvalReport, Judgement};

/// Distance in dB of the worst view from the mean that is worth a word.
const FAR_BELOW_MEAN: f64 = 4.0;

/// Sums up held-out views, and what would improve them, in one sentence.
pub(super) fn sentence(held_out: Option<&EvalReport>, advice: Option<Advice>) -> String {
    let judged = held_out.and_then(|report| Some((report, report.psnr?, Judgement::from_scores(report)?)));
    let Some((report, psnr, judgement)) = judged else {
        return "Not judged: there are no held-out views with a score.".to_owned();
    };
    let grade = judgement.line();
    let grade = grade[..1].to_uppercase() + &grade[1..];
    let worst = report
        .per_image
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
    use gausset_train::{EvalRecord, Scores};

    use super::*;

    fn report(psnr: f64, views: &[f64]) -> EvalReport {
        let record = |(i, psnr): (usize, &f64)| EvalRecord {
            name: format!("{i}.jpg"),
            psnr: Some(*psnr),
            ssim: Some(0.8),
            valid_share: 1.0,
            scores: Scores::default(),
        };
        let views: Vec<EvalRecord> = views.iter().enumerate().map(record).collect();
        let json = serde_json::json!({
            "split": "test", "images": views.len(), "psnr": psnr, "valid_share": 1.0, "per_image": views
        });
        serde_json::from_value(json).expect("a report")
    }

    #[test]
    fn one_sentence_names_the_grade_a_view_far_below_and_one_advice() {
        for (psnr, word) in [(31.0, "Excellent"), (27.0, "Good"), (22.0, "Fair"), (12.0, "Poor")] {
            assert!(sentence(Some(&report(psnr, &[psnr, psnr + 1.0])), None).starts_with(word), "{psnr}");
        }
        let far = sentence(Some(&report(26.0, &[30.0, 18.0, 30.0])), None);
        assert_eq!(far, "Good: unseen views are close to the photographs; 1.jpg is 8 dB below the mean.");
        let overfitted = sentence(Some(&report(22.0, &[22.0])), Some(Advice::Overfitting));
        assert!(overfitted.contains("overfitted") && !overfitted.contains('\u{27e8}'), "{overfitted}");
        assert!(sentence(None, None).starts_with("Not judged"));
    }
}
