//! Promptable models, which segment the contents of a box. An encoder processes the image once, a decoder each
//! box, which is encoded as two corner points with the labels 2 and 3 (Segment Anything, arXiv 2304.02643, and its
//! exports).

use std::collections::BTreeMap;
use std::path::Path;

use gausset_io::input;
use gausset_io::text::one_line;
use serde::Deserialize;

use crate::decode::{self, CandidateBox, Detection, Outputs};
use crate::description::{DescriptionError, ModelDescription, OutputKind, invalid};
use crate::engine::{InferenceEngine, Tensor, TensorPort};
use crate::error::ModelError;
use crate::input_image::{self, Placement, RgbImage};
use crate::model::{OnnxModel, RunLimits};
use crate::segmenter::input_size;

/// Labels of the first and second corner of a box.
const CORNERS: [f32; 2] = [2.0, 3.0];
/// Place of the sources in a description.
const FEATURES: &str = "[prompt] features";
/// Largest number of values of an input that is filled with zeros.
const MAX_ZEROS: usize = 1 << 24;

/// The two files, and the names of the decoder's inputs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PromptSpec {
    /// Files in the folder of the description.
    pub encoder: String,
    pub decoder: String,
    /// Points [1, 2, 2], px of the encoder's input.
    #[serde(default = "coordinates")]
    pub coordinates: String,
    /// Their labels [1, 2].
    #[serde(default = "labels")]
    pub labels: String,
    /// Height and width of the image [2], if there is such an input.
    #[serde(default = "size")]
    pub size: String,
    /// Maps decoder inputs to encoder outputs; inputs that are not listed use the output of the same name.
    #[serde(default)]
    pub features: BTreeMap<String, String>,
}

fn coordinates() -> String {
    "point_coords".to_owned()
}

fn labels() -> String {
    "point_labels".to_owned()
}

fn size() -> String {
    "orig_im_size".to_owned()
}

/// Source of a decoder input.
#[derive(Clone, Debug)]
enum DecoderInput {
    /// An output of the encoder, by its index in the run.
    Feature(usize),
    Coordinates,
    Labels,
    Size,
    /// Zeros: no previous mask.
    Zeros(Vec<usize>),
}

/// A promptable model with its description.
#[derive(Clone, Debug)]
pub(crate) struct Promptable {
    encoder: OnnxModel,
    decoder: OnnxModel,
    description: ModelDescription,
    input: TensorPort,
    size: [usize; 2],
    /// Names of the encoder outputs that are used.
    features: Vec<String>,
    /// Sources of the decoder inputs.
    given: Vec<(String, DecoderInput)>,
}

impl Promptable {
    /// Opens the model that a description names.
    pub(crate) fn open(toml: &Path, engine: &InferenceEngine) -> Result<Self, ModelError> {
        let bad = |what: String| ModelError::Description { path: toml.to_owned(), problem: what };
        let description = ModelDescription::read(toml)?;
        let (OutputKind::Promptable, Some(spec)) = (description.output.kind, description.prompt.clone())
        else {
            return Err(bad("[output] kind: expected `promptable`".to_owned()));
        };
        let folder = toml.parent().unwrap_or(Path::new(""));
        let open = |key: &str, name: &str| {
            let path = input::resolve_inside(folder, name)
                .map_err(|e| bad(format!("[prompt] {key}: {}, which {e}", one_line(name))))?;
            OnnxModel::open(&path, engine)
        };
        let (encoder, decoder) = (open("encoder", &spec.encoder)?, open("decoder", &spec.decoder)?);
        let input = match &description.input.name {
            Some(name) => encoder.inputs.iter().find(|port| port.name == *name),
            None => encoder.inputs.first(),
        };
        let input =
            input.cloned().ok_or_else(|| bad("[input] name: the encoder has no such input".to_owned()))?;
        let size = input_size(&input, Some(&description), toml)?;
        let mut features = Vec::new();
        let mut given = Vec::new();
        for port in &decoder.inputs {
            let what = decoder_input(port, &spec, &encoder, &mut features)
                .map_err(|error| bad(error.to_string()))?;
            given.push((port.name.clone(), what));
        }
        for (name, what) in [("coordinates", &spec.coordinates), ("labels", &spec.labels)] {
            if !decoder.inputs.iter().any(|port| port.name == *what) {
                return Err(bad(format!("[prompt] {name}: the decoder has no input `{}`", one_line(what))));
            }
        }
        if features.is_empty() {
            return Err(bad("[prompt] features: nothing goes from the encoder to the decoder".to_owned()));
        }
        for name in description.output_names() {
            if !decoder.outputs.iter().any(|port| port.name == name) {
                let has: Vec<&str> = decoder.outputs.iter().map(|port| port.name.as_str()).collect();
                return Err(bad(format!(
                    "[output]: the decoder has no output `{name}` (has {})",
                    has.join(", ")
                )));
            }
        }
        Ok(Self { encoder, decoder, description, input, size, features, given })
    }

    /// Segments the contents of boxes (px of the image).
    pub(crate) fn segment_boxes(
        &self,
        picture: &RgbImage<'_>,
        boxes: &[CandidateBox],
        watch: RunLimits<'_>,
    ) -> Result<Vec<Detection>, ModelError> {
        if boxes.is_empty() {
            return Ok(Vec::new());
        }
        let placement =
            Placement::new(self.description.input.fit, [picture.width, picture.height], self.size);
        let tensor = input_image::tensor(picture, &placement, &self.description.input);
        let names: Vec<&str> = self.features.iter().map(String::as_str).collect();
        let features = self.encoder.run(vec![(&self.input.name, tensor)], &names, watch)?;
        let spec = &self.description.output;
        let names = self.description.output_names();
        let mut finds = Vec::new();
        for candidate in boxes {
            let inputs = self
                .given
                .iter()
                .map(|(name, what)| (name.as_str(), self.tensor(what, &features, candidate, &placement)));
            let tensors = self.decoder.run(inputs.collect(), &names, watch)?;
            let of = |name: &Option<String>| {
                tensors.get(names.iter().position(|known| Some(*known) == name.as_deref())?)
            };
            let outputs = Outputs { scores: of(&spec.scores), masks: of(&spec.masks), ..Outputs::default() };
            let found = decode::prompted_mask(outputs, (candidate, spec.mask_activation), &placement);
            finds.extend(found.map_err(|what| ModelError::Run {
                path: self.decoder.path().to_owned(),
                problem: format!("output {what} (docs/reference/masks.md)"),
            })?);
        }
        Ok(finds)
    }

    fn tensor(
        &self,
        what: &DecoderInput,
        features: &[Tensor],
        candidate: &CandidateBox,
        placement: &Placement,
    ) -> Tensor {
        match what {
            DecoderInput::Feature(number) => features[*number].clone(),
            DecoderInput::Coordinates => {
                let at = |k: usize| placement.to_input(k % 2, f64::from(candidate.corners[k])) as f32;
                Tensor { shape: vec![1, 2, 2], data: (0..4).map(at).collect() }
            }
            DecoderInput::Labels => Tensor { shape: vec![1, 2], data: CORNERS.to_vec() },
            // Masks are returned in the encoder's coordinates.
            DecoderInput::Size => {
                Tensor { shape: vec![2], data: vec![self.size[1] as f32, self.size[0] as f32] }
            }
            DecoderInput::Zeros(shape) => {
                Tensor { shape: shape.clone(), data: vec![0.0; shape.iter().product()] }
            }
        }
    }

    /// Hashes and description, for the fingerprint of settings.
    pub(crate) fn settings(&self) -> String {
        format!("{} {} {:?} {:?}", self.encoder.hash, self.decoder.hash, self.description, self.size)
    }

    /// Size of both files, and of the input tensor, bytes.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let [width, height] = self.size.map(|side| side as u64);
        (self.encoder.bytes + self.decoder.bytes, 3 * 4 * width * height)
    }
}

/// Selects the source of a decoder input.
fn decoder_input(
    port: &TensorPort,
    spec: &PromptSpec,
    encoder: &OnnxModel,
    features: &mut Vec<String>,
) -> Result<DecoderInput, DescriptionError> {
    let name = &port.name;
    if *name == spec.coordinates {
        return Ok(DecoderInput::Coordinates);
    }
    if *name == spec.labels {
        return Ok(DecoderInput::Labels);
    }
    if *name == spec.size {
        return Ok(DecoderInput::Size);
    }
    let said = spec.features.get(name);
    let feature = said.unwrap_or(name);
    if encoder.outputs.iter().any(|output| output.name == *feature) {
        features.push(feature.clone());
        return Ok(DecoderInput::Feature(features.len() - 1));
    }
    if said.is_some() {
        let has: Vec<&str> = encoder.outputs.iter().map(|output| output.name.as_str()).collect();
        let problem = format!("the encoder has no output `{}` (has {})", one_line(feature), has.join(", "));
        return Err(invalid(FEATURES, problem));
    }
    let sides: Option<Vec<usize>> = port.shape.iter().copied().collect();
    match sides {
        Some(sides) if !sides.is_empty() && sides.iter().product::<usize>() <= MAX_ZEROS => {
            Ok(DecoderInput::Zeros(sides))
        }
        _ => {
            let problem =
                format!("the decoder's input `{name}` has no source, and no fixed size to fill with zeros");
            Err(invalid(FEATURES, problem))
        }
    }
}
