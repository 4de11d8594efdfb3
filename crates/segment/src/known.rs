//! Built-in descriptions of common models, and guesses from the outputs of other models.

use crate::classes::{self, list_of};
use crate::description::{DescriptionError, ModelDescription};
use crate::engine::{Tensor, TensorPort};

/// Mean and deviation of the ImageNet images, which most models use.
const IMAGENET: &str = "mean = [0.485, 0.456, 0.406]\ndeviation = [0.229, 0.224, 0.225]\n";

/// A description without a file, and the reason for it.
pub(crate) struct DescriptionGuess {
    pub description: ModelDescription,
    /// One line for display.
    pub reason: String,
}

/// Why no description can be guessed; the text follows the word `model`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuessError {
    /// More classes than one, in a number that no list has.
    #[error("has {0} classes without names; list them ([classes] names)")]
    UnnamedClasses(usize),
    /// Outputs of other shapes, as text.
    #[error("has outputs that match no known model: {0}")]
    UnknownOutputs(String),
    /// The outputs have names that a description cannot have.
    #[error(transparent)]
    Description(#[from] DescriptionError),
}

/// Guesses the description from the outputs of a run on a grey image.
///
/// | outputs | guess |
/// |---|---|
/// | `dets`, `labels` [1, Q, C], `masks` [1, Q, h, w] | RF-DETR-Seg |
/// | `boxes`, `labels`, `scores`, `masks` [N, 1, m, m] | torchvision's Mask R-CNN |
/// | `boxes`, `labels`, `scores` | RT-DETR with its own sorting |
/// | [1, 4 + C + K, A] and [1, K, h, w] | boxes with coefficients of prototype masks (YOLO) |
/// | [1, A, 5 + C] | YOLOX |
/// | [1, C, h, w] | semantic segmentation, ImageNet normalisation |
pub(crate) fn guess(ports: &[TensorPort], outputs: &[Tensor]) -> Result<DescriptionGuess, GuessError> {
    let shape = |name: &str| {
        let at = ports.iter().position(|port| port.name == name)?;
        outputs.get(at).map(|tensor| tensor.shape.as_slice())
    };
    let name = |index: usize| ports[index].name.replace('\'', "");
    let shapes: Vec<&[usize]> = outputs.iter().map(|tensor| tensor.shape.as_slice()).collect();
    let made =
        |what: &str, output: String, input: &str, classes: usize| -> Result<DescriptionGuess, GuessError> {
            let list =
                list_of(classes).map_or_else(String::new, |list| format!("[classes]\nlist = '{list}'\n"));
            let text = format!("[input]\n{input}[output]\n{output}{list}");
            let mut description = ModelDescription::parse(&text)?;
            if description.classes.is_empty() && classes == 1 {
                // A model with a single class is assumed to detect persons.
                description.classes = vec!["person".to_owned()];
            }
            if description.classes.is_empty() {
                return Err(GuessError::UnnamedClasses(classes));
            }
            Ok(DescriptionGuess {
                description,
                reason: format!("taken for {what}: {}", describe_outputs(ports, outputs)),
            })
        };
    if let (Some(_), Some([1, _, c]), Some([1, _, _, _])) = (shape("dets"), shape("labels"), shape("masks")) {
        let output = "kind = 'query-masks'\nboxes = 'dets'\nscores = 'labels'\nmasks = 'masks'\n";
        return made("RF-DETR-Seg", output.to_owned(), IMAGENET, *c);
    }
    if let (Some([_, 4]), Some(_), Some(_), Some([_, 1, _, _])) =
        (shape("boxes"), shape("labels"), shape("scores"), shape("masks"))
    {
        let output = "kind = 'box-masks'\nboxes = 'boxes'\nlabels = 'labels'\nscores = 'scores'\nmasks = 'masks'\n\
                      box = 'xyxy'\nunits = 'pixels'\nmask_activation = 'none'\n";
        return made("Mask R-CNN of torchvision", output.to_owned(), "", 91);
    }
    if let (Some([.., 4]), Some(_), Some(_)) = (shape("boxes"), shape("labels"), shape("scores")) {
        let output = "kind = 'boxes'\nboxes = 'boxes'\nlabels = 'labels'\nscores = 'scores'\n\
                      box = 'xyxy'\nunits = 'pixels'\n";
        return made("RT-DETR", output.to_owned(), "", 80);
    }
    match shapes.as_slice() {
        [[1, a, b], [1, k, _, _]] => {
            let width = (*a).min(*b);
            let classes = if width == 6 + k { 80 } else { width.saturating_sub(4 + k) };
            // Models with built-in suppression return corners.
            let form = if width == 6 + k { "xyxy" } else { "cxcywh" };
            let output = format!(
                "kind = 'prototypes'\nscores = '{}'\nprototypes = '{}'\nbox = '{form}'\nunits = 'pixels'\nactivation = 'none'\nnms = 0.7\n",
                name(0),
                name(1)
            );
            made("YOLO with prototypes", output, "fit = 'letterbox'\n", classes)
        }
        [[1, a, b]] if *b == 85 || *a == 84 || *b == 6 => {
            let (what, form, input) = match (*a, *b) {
                (_, 85) => ("YOLOX", "cxcywh", "fit = 'pad'\ncolour = 'bgr'\nrange = 255\n"),
                (_, 6) => ("YOLO without overlaps", "xyxy", "fit = 'letterbox'\n"),
                _ => ("YOLO", "cxcywh", "fit = 'letterbox'\n"),
            };
            let output = format!(
                "kind = 'boxes'\nscores = '{}'\nbox = '{form}'\nunits = 'pixels'\nactivation = 'none'\nnms = 0.65\n",
                name(0)
            );
            made(what, output, input, 80)
        }
        // Torchvision's segmentation models may also return the outputs of a second head.
        [[1, c, _, _], ..] => {
            let values = &outputs[0].data;
            let is_shares = values.iter().all(|v| (0.0..=1.0).contains(v));
            let activation = match (is_shares, *c) {
                (true, _) => "none",
                (false, 1) => "sigmoid",
                (false, _) => "softmax",
            };
            let background = if *c == 21 { "background = 0\n" } else { "" };
            let output = format!(
                "kind = 'semantic'\nmasks = '{}'\nactivation = '{activation}'\n{background}",
                name(0)
            );
            let input = if *c == 1 { "" } else { IMAGENET };
            made("classes of pixels", output, input, *c)
        }
        _ => Err(GuessError::UnknownOutputs(describe_outputs(ports, outputs))),
    }
}

/// Names and shapes, for display.
fn describe_outputs(ports: &[TensorPort], outputs: &[Tensor]) -> String {
    let each = ports.iter().zip(outputs).map(|(port, tensor)| format!("`{}` {:?}", port.name, tensor.shape));
    each.collect::<Vec<_>>().join(", ")
}

/// Groups that the model has, with the indices of their classes.
pub(crate) fn available_groups(description: &ModelDescription) -> Vec<(String, Vec<usize>)> {
    let numbers = |names: &mut dyn Iterator<Item = &str>| -> Vec<usize> {
        names.filter_map(|name| description.classes.iter().position(|class| class == name)).collect()
    };
    let mut groups: Vec<(String, Vec<usize>)> = description
        .groups
        .iter()
        .map(|(name, members)| (name.clone(), numbers(&mut members.iter().map(String::as_str))))
        .collect();
    for (name, members) in classes::GROUPS {
        if !description.groups.contains_key(name) {
            groups.push((name.to_owned(), numbers(&mut members.iter().copied())));
        }
    }
    groups
}
