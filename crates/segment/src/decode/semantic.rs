//! Decodes semantic segmentation: a class for each pixel.

use super::paint::Lattice;
use super::{DecodeError, DecodeParameters, Detection, MaskStack, activate};
use crate::description::Activation;
use crate::engine::Tensor;

/// Class probabilities [1, C, h, w]; or class indices [1, h, w] or [1, 1, h, w], if there is more than one named class.
pub(super) fn decode(masks: &Tensor, rules: &DecodeParameters<'_>) -> Result<Vec<Detection>, DecodeError> {
    let sheets = MaskStack::from_tensor("masks", masks)?;
    let pixels = sheets.size[0] * sheets.size[1];
    let is_numbered = sheets.count == 1 && rules.classes > 1;
    if !is_numbered && rules.classes != 0 && sheets.count != rules.classes {
        let (shape, found, expected) = (masks.shape.clone(), sheets.count, rules.classes);
        return Err(DecodeError::Classes { name: "masks", shape, found, expected });
    }
    let shares = if is_numbered { Vec::new() } else { probabilities(&sheets, rules.spec.activation) };
    let classes = if is_numbered { rules.classes } else { sheets.count };
    let background = rules.spec.background.map(|class| class.rem_euclid(classes as i64) as usize);
    let mut finds = Vec::new();
    for class in (0..classes).filter(|&class| rules.wants(class) && Some(class) != background) {
        let numbered: Vec<f32>;
        let values = if is_numbered {
            numbered = sheets.mask(0).iter().map(|&v| if v == class as f32 { 1.0 } else { 0.0 }).collect();
            &numbered
        } else {
            &shares[class * pixels..(class + 1) * pixels]
        };
        let score = values.iter().copied().fold(0.0, f32::max);
        if score < rules.confidence {
            continue;
        }
        let [width, height] = rules.placement.input.map(|side| side as f32);
        let lattice = Lattice {
            values,
            size: sheets.size,
            span: [0.0, 0.0, width, height],
            activation: Activation::None,
            within: None,
        };
        finds.extend(lattice.find(class, score, rules.placement));
    }
    Ok(finds)
}

/// The maps of all classes as probabilities.
fn probabilities(sheets: &MaskStack<'_>, activation: Activation) -> Vec<f32> {
    let pixels = sheets.size[0] * sheets.size[1];
    let mut all = sheets.values[..sheets.count * pixels].to_vec();
    if activation != Activation::Softmax {
        activate(&mut all, activation);
        return all;
    }
    let mut column = vec![0.0; sheets.count];
    for pixel in 0..pixels {
        for (k, v) in column.iter_mut().enumerate() {
            *v = all[k * pixels + pixel];
        }
        activate(&mut column, activation);
        for (k, v) in column.iter().enumerate() {
            all[k * pixels + pixel] = *v;
        }
    }
    all
}
