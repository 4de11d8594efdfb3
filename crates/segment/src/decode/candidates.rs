//! Boxes with class and score, from the output formats of models.

use super::{DecodeError, DecodeParameters, Outputs, activate, required, sides};
use crate::description::{BoxForm, BoxUnits};
use crate::engine::Tensor;

/// Largest number of detections of an image; those with the highest scores are kept.
const MAX_DETECTIONS: usize = 300;

/// A box that may become a detection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CandidateBox {
    pub class: usize,
    pub score: f32,
    /// Index of its query, row or anchor.
    pub index: usize,
    /// Left, top, right, bottom, px of the input.
    pub corners: [f32; 4],
}

/// Queries: scores [Q, C], and boxes [Q, 4] if there are some.
pub(super) fn from_queries(
    scores: &Tensor,
    boxes: Option<&Tensor>,
    rules: &DecodeParameters<'_>,
) -> Result<Vec<CandidateBox>, DecodeError> {
    let &[queries, classes] = sides("scores", scores, 2)? else { return Ok(Vec::new()) };
    if classes == 0 || (rules.classes != 0 && rules.classes.abs_diff(classes) > 1) {
        let (shape, expected) = (scores.shape.clone(), rules.classes);
        return Err(DecodeError::Classes { name: "scores", shape, found: classes, expected });
    }
    let boxes = boxes.map(|boxes| rows_of_four(boxes, queries)).transpose()?;
    let background = rules.spec.background.map(|class| class.rem_euclid(classes as i64) as usize);
    let mut found = Vec::new();
    for (index, row) in scores.data.chunks_exact(classes).enumerate() {
        let mut shares = row.to_vec();
        activate(&mut shares, rules.spec.activation);
        let best = shares.iter().enumerate().filter(|(class, _)| Some(*class) != background);
        let Some((class, &score)) = best.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))) else {
            continue;
        };
        if score >= rules.confidence && rules.wants(class) {
            let corners = boxes.map_or_else(|| whole(rules), |boxes| corners(&boxes[4 * index..], rules));
            found.push(CandidateBox { class, score, index, corners });
        }
    }
    Ok(suppress_overlaps(found, rules.spec.nms))
}

/// Lists: boxes [N, 4], labels [N], scores [N].
pub(super) fn from_lists(
    outputs: Outputs<'_>,
    rules: &DecodeParameters<'_>,
) -> Result<Vec<CandidateBox>, DecodeError> {
    let labels = &required("labels", outputs.labels)?.data;
    let scores = &required("scores", outputs.scores)?.data;
    let boxes = rows_of_four(required("boxes", outputs.boxes)?, labels.len())?;
    if scores.len() != labels.len() {
        let length = labels.len();
        return Err(DecodeError::Lengths { scores: scores.len(), other: "labels", length });
    }
    let all = labels.iter().zip(scores).enumerate();
    let found = all.filter(|(_, (label, score))| {
        **label >= 0.0 && **score >= rules.confidence && rules.wants(**label as usize)
    });
    let candidate = |(index, (label, score)): (usize, (&f32, &f32))| CandidateBox {
        class: *label as usize,
        score: *score,
        index,
        corners: corners(&boxes[4 * index..], rules),
    };
    Ok(suppress_overlaps(found.map(candidate).collect(), rules.spec.nms))
}

/// Tables of anchors, one per column or row: four numbers of a box, then
/// - a probability of each class (YOLOv8 and later, 4 + C),
/// - an objectness and a probability of each class (YOLOX, 5 + C),
/// - or score and class, with the box as corners (models with built-in suppression, 6);
///
/// and `shares` mask coefficients. Also returns these, a row per anchor.
pub(super) fn of_table(
    table: &Tensor,
    shares: usize,
    rules: &DecodeParameters<'_>,
) -> Result<(Vec<CandidateBox>, Vec<f32>), DecodeError> {
    let &[first, second] = sides("scores", table, 2)? else { return Ok((Vec::new(), Vec::new())) };
    let classes = rules.classes;
    let mut forms = [(4 + classes, 4), (5 + classes, 5), (6, 6)];
    if rules.spec.form == BoxForm::Xyxy {
        // With one or two classes, the others have six columns, too.
        forms.rotate_right(1);
    }
    let form =
        |width: usize| forms.into_iter().find(|(sides, _)| sides + shares == width).map(|(_, start)| start);
    // If both orientations match, the longer dimension counts anchors.
    let (start, is_in_rows) = match (form(first), form(second)) {
        (Some(start), None) => (start, false),
        (Some(start), Some(_)) if first < second => (start, false),
        (_, Some(start)) => (start, true),
        (None, None) => {
            let (plain, objects) = (4 + classes + shares, 5 + classes + shares);
            let rows = 6 + shares;
            let expected = format!(
                "a side of {plain}, {objects} or {rows}: a box, {classes} classes and {shares} shares of masks"
            );
            return Err(DecodeError::shape("scores", table, expected));
        }
    };
    let (anchors, width) = if is_in_rows { (first, second) } else { (second, first) };
    let mut found = Vec::new();
    let mut coefficients = Vec::new();
    let mut row = vec![0.0; width];
    for index in 0..anchors {
        for (k, v) in row.iter_mut().enumerate() {
            *v = table.data[if is_in_rows { index * width + k } else { k * anchors + index }];
        }
        coefficients.extend_from_slice(&row[width - shares..]);
        let (class, score) = if start == 6 {
            (row[5].max(0.0) as usize, row[4])
        } else {
            let best = row[start..start + classes].iter().enumerate();
            let Some((class, share)) = best.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))) else {
                continue;
            };
            (class, if start == 5 { share * row[4] } else { *share })
        };
        if score >= rules.confidence && rules.wants(class) {
            found.push(CandidateBox { class, score, index, corners: corners(&row, rules) });
        }
    }
    Ok((suppress_overlaps(found, rules.spec.nms), coefficients))
}

/// Values of `count` boxes.
fn rows_of_four(boxes: &Tensor, count: usize) -> Result<&[f32], DecodeError> {
    if boxes.data.len() == 4 * count {
        return Ok(&boxes.data);
    }
    Err(DecodeError::shape("boxes", boxes, format!("{count} of four numbers")))
}

/// The box of the whole input.
fn whole(rules: &DecodeParameters<'_>) -> [f32; 4] {
    let [width, height] = rules.placement.input.map(|side| side as f32);
    [0.0, 0.0, width, height]
}

/// Left, top, right and bottom, px of the input.
fn corners(row: &[f32], rules: &DecodeParameters<'_>) -> [f32; 4] {
    let [a, b, c, d] = [row[0], row[1], row[2], row[3]];
    let edges = match rules.spec.form {
        BoxForm::Xyxy => [a, b, c, d],
        BoxForm::Cxcywh => [a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d],
    };
    let all = whole(rules);
    let scale = |k: usize| if rules.spec.units == BoxUnits::Relative { all[2 + k % 2] } else { 1.0 };
    [0, 1, 2, 3].map(|k| (edges[k] * scale(k)).clamp(0.0, all[2 + k % 2]))
}

/// Sorts by descending score and removes boxes that overlap a better one of their class (greedy non-maximum
/// suppression).
fn suppress_overlaps(mut found: Vec<CandidateBox>, nms: f32) -> Vec<CandidateBox> {
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index)));
    let mut kept: Vec<CandidateBox> = Vec::new();
    for candidate in found {
        if kept.len() == MAX_DETECTIONS {
            break;
        }
        let is_seen = |other: &CandidateBox| {
            other.class == candidate.class && nms < 1.0 && overlap(&other.corners, &candidate.corners) > nms
        };
        if !kept.iter().any(is_seen) {
            kept.push(candidate);
        }
    }
    kept
}

/// Intersection over union of two boxes.
fn overlap(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let area = |r: &[f32; 4]| (r[2] - r[0]).max(0.0) * (r[3] - r[1]).max(0.0);
    let both = area(&[a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]);
    let union = area(a) + area(b) - both;
    if union > 0.0 { both / union } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surer_of_two_boxes_on_each_other_stays_and_those_of_other_classes_do() {
        let of = |class, score, index, left| CandidateBox {
            class,
            score,
            index,
            corners: [left, 0.0, left + 10.0, 10.0],
        };
        let found = vec![of(0, 0.5, 0, 0.0), of(0, 0.9, 1, 2.0), of(1, 0.6, 2, 1.0), of(0, 0.7, 3, 20.0)];
        let order = |nms| suppress_overlaps(found.clone(), nms).iter().map(|c| c.index).collect::<Vec<_>>();
        // Overlap of the first two: 8 of 12 columns.
        assert_eq!(order(0.5), [1, 3, 2]);
        assert_eq!(order(0.7), [1, 3, 2, 0]);
        assert_eq!(order(1.0), [1, 3, 2, 0]);
    }
}
