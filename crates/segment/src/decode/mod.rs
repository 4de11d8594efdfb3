//! Decodes the outputs of a model to detections: class, confidence, and a soft mask in the image.

mod candidates;
mod paint;
mod semantic;

use crate::description::{Activation, OutputKind, OutputSpec};
use crate::engine::Tensor;
use crate::input_image::Placement;
pub(crate) use candidates::CandidateBox;
use paint::Lattice;

/// Why outputs cannot be decoded; the text follows the word `output`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The description is of a promptable model, which is decoded through [`prompted_mask`].
    #[error("is of a promptable model")]
    Promptable,
    /// An output that the description needs.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// An output with another shape than expected.
    #[error("`{name}` is {shape:?} (expected {expected})")]
    Shape { name: &'static str, shape: Vec<usize>, expected: String },
    /// An output with another number of classes than described.
    #[error("`{name}` is {shape:?}: {found} classes (expected {expected})")]
    Classes { name: &'static str, shape: Vec<usize>, found: usize, expected: usize },
    /// Two outputs of different lengths.
    #[error("`scores` has {scores} values, `{other}` {length}")]
    Lengths { scores: usize, other: &'static str, length: usize },
    /// Fewer masks than detections.
    #[error("`masks` has {masks} masks, `{other}` has more")]
    TooFewMasks { masks: usize, other: &'static str },
}

impl DecodeError {
    /// The shape of an output differs from what was expected.
    fn shape(name: &'static str, tensor: &Tensor, expected: impl Into<String>) -> Self {
        Self::Shape { name, shape: tensor.shape.clone(), expected: expected.into() }
    }
}

/// An object detected in an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// Index of its class.
    pub class: usize,
    /// Confidence of the model, 0 to 1.
    pub confidence: f32,
    /// First column and row of its mask in the image.
    pub corner: [usize; 2],
    /// Width and height of its mask, px.
    pub size: [usize; 2],
    /// 255 = inside, 0 = outside; the edge is at half.
    pub soft_mask: Vec<u8>,
}

/// The outputs that a description names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outputs<'a> {
    pub boxes: Option<&'a Tensor>,
    pub labels: Option<&'a Tensor>,
    pub scores: Option<&'a Tensor>,
    pub masks: Option<&'a Tensor>,
    pub prototypes: Option<&'a Tensor>,
}

/// Parameters of decoding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeParameters<'a> {
    pub spec: &'a OutputSpec,
    pub placement: &'a Placement,
    /// Number of named classes; 0 = as many as the outputs have.
    pub classes: usize,
    /// Which classes are wanted; classes beyond the list are not.
    pub wanted: &'a [bool],
    /// Least confidence.
    pub confidence: f32,
}

impl DecodeParameters<'_> {
    fn wants(&self, class: usize) -> bool {
        self.wanted.get(class).copied().unwrap_or(false)
    }
}

/// Decodes the outputs of a run; the error names the output whose shape does not match.
pub(crate) fn decode(
    outputs: Outputs<'_>,
    rules: &DecodeParameters<'_>,
) -> Result<Vec<Detection>, DecodeError> {
    match rules.spec.kind {
        // Used through `prompted_mask`, never directly.
        OutputKind::Promptable => Err(DecodeError::Promptable),
        OutputKind::Semantic => semantic::decode(required("masks", outputs.masks)?, rules),
        OutputKind::QueryMasks => {
            let masks = MaskStack::from_tensor("masks", required("masks", outputs.masks)?)?;
            let candidates =
                candidates::from_queries(required("scores", outputs.scores)?, outputs.boxes, rules)?;
            whole_masks(&candidates, rules, masks.count, |c| masks.mask(c.index).to_vec(), &masks, false)
        }
        OutputKind::BoxMasks => {
            let masks = MaskStack::from_tensor("masks", required("masks", outputs.masks)?)?;
            let found = candidates::from_lists(outputs, rules)?;
            // torchvision has already pasted the masks into the whole input.
            let is_pasted = masks.size == rules.placement.input;
            let [width, height] = rules.placement.input.map(|side| side as f32);
            let finds = found.iter().map(|candidate| {
                if candidate.index >= masks.count {
                    return Err(DecodeError::TooFewMasks { masks: masks.count, other: "boxes" });
                }
                let lattice = Lattice {
                    values: masks.mask(candidate.index),
                    size: masks.size,
                    span: if is_pasted { [0.0, 0.0, width, height] } else { candidate.corners },
                    activation: rules.spec.mask_activation,
                    within: Some(candidate.corners),
                };
                Ok(lattice.find(candidate.class, candidate.score, rules.placement))
            });
            collect(finds)
        }
        OutputKind::Prototypes => {
            let sheets = MaskStack::from_tensor("prototypes", required("prototypes", outputs.prototypes)?)?;
            let scores = required("scores", outputs.scores)?;
            let (found, coefficients) = candidates::of_table(scores, sheets.count, rules)?;
            let combined = |candidate: &CandidateBox| {
                let shares = &coefficients[candidate.index * sheets.count..][..sheets.count];
                let mut mask = vec![0.0; sheets.size[0] * sheets.size[1]];
                for (k, &share) in shares.iter().enumerate() {
                    mask.iter_mut().zip(sheets.mask(k)).for_each(|(sum, v)| *sum += share * v);
                }
                mask
            };
            whole_masks(&found, rules, coefficients.len(), combined, &sheets, true)
        }
        OutputKind::Boxes => {
            let found = boxes(outputs, rules)?;
            let finds = found.iter().map(|candidate| {
                let lattice = Lattice {
                    values: &[1.0],
                    size: [1, 1],
                    span: candidate.corners,
                    activation: Activation::None,
                    within: Some(candidate.corners),
                };
                Ok(lattice.find(candidate.class, candidate.score, rules.placement))
            });
            collect(finds)
        }
    }
}

/// Decodes boxes only.
pub(crate) fn boxes(
    outputs: Outputs<'_>,
    rules: &DecodeParameters<'_>,
) -> Result<Vec<CandidateBox>, DecodeError> {
    match (outputs.boxes, outputs.labels) {
        (Some(_), Some(_)) => candidates::from_lists(outputs, rules),
        (Some(_), None) => {
            candidates::from_queries(required("scores", outputs.scores)?, outputs.boxes, rules)
        }
        (None, _) => Ok(candidates::of_table(required("scores", outputs.scores)?, 0, rules)?.0),
    }
}

/// The mask of a promptable model for a box: of several masks over the whole input, the one with the best score.
pub(crate) fn prompted_mask(
    outputs: Outputs<'_>,
    (candidate, activation): (&CandidateBox, Activation),
    placement: &Placement,
) -> Result<Option<Detection>, DecodeError> {
    let sheets = MaskStack::from_tensor("masks", required("masks", outputs.masks)?)?;
    let scores = outputs.scores.map_or(&[] as &[f32], |scores| &scores.data);
    if outputs.scores.is_some() && scores.len() != sheets.count {
        let length = sheets.count;
        return Err(DecodeError::Lengths { scores: scores.len(), other: "masks", length });
    }
    let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    let index = best.map_or(0, |(index, _)| index);
    if index >= sheets.count {
        return Ok(None);
    }
    let [width, height] = placement.input.map(|side| side as f32);
    let lattice = Lattice {
        values: sheets.mask(index),
        size: sheets.size,
        span: [0.0, 0.0, width, height],
        activation,
        within: None,
    };
    Ok(lattice.find(candidate.class, candidate.score, placement))
}

/// Detections whose masks cover the whole input; clipped to their boxes if `cut` is set.
fn whole_masks(
    candidates: &[CandidateBox],
    rules: &DecodeParameters<'_>,
    count: usize,
    mask: impl Fn(&CandidateBox) -> Vec<f32>,
    sheets: &MaskStack<'_>,
    cut: bool,
) -> Result<Vec<Detection>, DecodeError> {
    let [width, height] = rules.placement.input.map(|side| side as f32);
    let finds = candidates.iter().map(|candidate| {
        if candidate.index >= count {
            return Err(DecodeError::TooFewMasks { masks: count, other: "scores" });
        }
        let lattice = Lattice {
            values: &mask(candidate),
            size: sheets.size,
            span: [0.0, 0.0, width, height],
            activation: rules.spec.mask_activation,
            within: cut.then_some(candidate.corners),
        };
        Ok(lattice.find(candidate.class, candidate.score, rules.placement))
    });
    collect(finds)
}

/// Collects the detections that have a mask.
fn collect(
    finds: impl Iterator<Item = Result<Option<Detection>, DecodeError>>,
) -> Result<Vec<Detection>, DecodeError> {
    finds.filter_map(Result::transpose).collect()
}

fn required<'a>(name: &'static str, tensor: Option<&'a Tensor>) -> Result<&'a Tensor, DecodeError> {
    tensor.ok_or(DecodeError::Missing(name))
}

/// The last `wanted` dimensions of a tensor, without a leading 1.
fn sides<'a>(name: &'static str, tensor: &'a Tensor, wanted: usize) -> Result<&'a [usize], DecodeError> {
    let mut sides = tensor.shape.as_slice();
    while sides.len() > wanted && sides[0] == 1 {
        sides = &sides[1..];
    }
    if sides.len() == wanted {
        return Ok(sides);
    }
    Err(DecodeError::shape(name, tensor, format!("{wanted} dimensions after the first")))
}

/// A tensor as a list of masks.
struct MaskStack<'a> {
    values: &'a [f32],
    count: usize,
    /// Width and height.
    size: [usize; 2],
}

impl<'a> MaskStack<'a> {
    fn from_tensor(name: &'static str, tensor: &'a Tensor) -> Result<Self, DecodeError> {
        // [N, 1, h, w], [1, N, h, w], [N, h, w] or [h, w].
        let (count, [height, width]) = match tensor.shape.as_slice() {
            [n, 1, h, w] | [1, n, h, w] | [n, h, w] => (*n, [*h, *w]),
            [h, w] => (1, [*h, *w]),
            _ => return Err(DecodeError::shape(name, tensor, "masks of rows and columns")),
        };
        if height == 0 || width == 0 {
            return Err(DecodeError::shape(name, tensor, "masks with pixels"));
        }
        Ok(Self { values: &tensor.data, count, size: [width, height] })
    }

    fn mask(&self, index: usize) -> &'a [f32] {
        let pixels = self.size[0] * self.size[1];
        &self.values[index * pixels..(index + 1) * pixels]
    }
}

/// 1 / (1 + e^-x).
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

/// Converts class values, `stride` apart, to probabilities.
fn activate(values: &mut [f32], activation: Activation) {
    match activation {
        Activation::None => {}
        Activation::Sigmoid => values.iter_mut().for_each(|v| *v = sigmoid(*v)),
        Activation::Softmax => {
            let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            values.iter_mut().for_each(|v| *v = libm::expf(*v - most));
            let sum: f32 = values.iter().sum();
            values.iter_mut().for_each(|v| *v /= sum);
        }
    }
}
