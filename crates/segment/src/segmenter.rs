//! A model with its description: images in, detections out.

use std::path::{Path, PathBuf};

use crate::classes::nearest;
use crate::decode::{self, CandidateBox, DecodeError, DecodeParameters, Detection, Outputs};
use crate::description::{Layout, ModelDescription, OutputKind, SIDES};
use crate::engine::{InferenceEngine, Tensor, TensorPort};
use crate::error::ModelError;
use crate::input_image::{self, Placement, RgbImage};
use crate::known;
use crate::model::{OnnxModel, RunLimits};
use crate::prompt::Promptable;

/// Selection of classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSelection {
    /// Groups and classes to detect; `None` = persons and what they carry, as far as the model has these classes.
    pub remove: Option<Vec<String>>,
    /// Groups and classes that are excluded from these.
    pub keep: Vec<String>,
    /// Least confidence, 0 to 1.
    pub confidence: f32,
}

impl Default for ClassSelection {
    fn default() -> Self {
        Self { remove: None, keep: Vec::new(), confidence: 0.5 }
    }
}

/// Estimated memory of a model, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelMemory {
    /// Shared by all runs.
    pub shared: u64,
    /// For each concurrent run.
    pub per_run: u64,
}

/// Memory of activations, as a multiple of the input's size. Three of the widest layers of a ResNet, 64 planes of half
/// the side, are 16; this is three times that, for what an engine packs and for outputs.
const ACTIVATION_FACTOR: u64 = 48;

/// Groups that are removed by default.
const DEFAULT_GROUPS: [&str; 2] = ["person", "carried"];

/// A model with its description.
#[derive(Clone, Debug)]
pub struct Segmenter {
    model: OnnxModel,
    description: ModelDescription,
    input: TensorPort,
    size: [usize; 2],
    selected: Vec<bool>,
    confidence: f32,
    /// The promptable model that segments the boxes of a box model.
    promptable: Option<Promptable>,
    /// Origin of the description, for display.
    pub explanation: String,
}

impl Segmenter {
    /// Opens a model and tries it on a grey image. The description is `toml`, else the one next to the model
    /// (`NAME.toml` of `NAME.onnx`), else a guess from its outputs.
    ///
    /// # Errors
    /// As [`OnnxModel::open`], [`ModelDescription::read`] and [`OnnxModel::run`]; outputs that do not match; classes that do not
    /// exist.
    pub fn open(
        path: &Path,
        toml: Option<&Path>,
        wanted: &ClassSelection,
        engine: &InferenceEngine,
        watch: RunLimits<'_>,
    ) -> Result<Self, ModelError> {
        let model = OnnxModel::open(path, engine)?;
        let beside = path.with_extension("toml");
        let file: Option<PathBuf> = toml.map(Path::to_owned).or_else(|| beside.is_file().then_some(beside));
        let described = file.as_deref().map(ModelDescription::read).transpose()?;
        let described_in = file.as_deref().unwrap_or(path);
        let bad = |what: String| ModelError::Description { path: described_in.to_owned(), problem: what };
        if described.as_ref().is_some_and(|d| d.output.kind == OutputKind::Promptable) {
            return Err(bad(
                "[output] kind: a promptable model needs boxes; name this file in [output] prompt of a box model".to_owned(),
            ));
        }
        let name = described.as_ref().and_then(|d| d.input.name.clone());
        let input = match &name {
            Some(name) => model.inputs.iter().find(|port| port.name == *name),
            None => model.inputs.first(),
        };
        let input = input.cloned().ok_or_else(|| {
            let has = port_names(&model.inputs);
            match &name {
                Some(wanted) => bad(format!("[input] name: the model has no input `{wanted}` (has {has})")),
                None => bad("the model has no input (expected one for pictures)".to_owned()),
            }
        })?;
        let size = input_size(&input, described.as_ref(), described_in)?;
        let (description, explanation) = match described {
            Some(description) => (description, format!("described by {}", described_in.display())),
            None => {
                let names: Vec<&str> = model.outputs.iter().map(|port| port.name.as_str()).collect();
                let layout = if is_nhwc(&input) { Layout::Nhwc } else { Layout::Nchw };
                let outputs = model.run(vec![(&input.name, grey_input(size, layout))], &names, watch)?;
                let beside = path.with_extension("toml");
                let guess =
                    known::guess(&model.outputs, &outputs).map_err(|what| ModelError::Description {
                        path: path.to_owned(),
                        problem: format!(
                            "model: {what}; describe it in {} (docs/reference/masks.md)",
                            beside.display()
                        ),
                    })?;
                let mut description = guess.description;
                description.input.layout = layout;
                (description, guess.reason)
            }
        };
        for name in description.output_names() {
            if !model.outputs.iter().any(|port| port.name == name) {
                let has: Vec<&str> = model.outputs.iter().map(|port| port.name.as_str()).collect();
                let near = nearest(name, has.iter().copied());
                let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                let has = port_names(&model.outputs);
                return Err(bad(format!("[output]: the model has no output `{name}` (has {has}){hint}")));
            }
        }
        let numbers = selected_classes(&description, wanted)?;
        let confidence = wanted.confidence;
        let beside = |name: &String| {
            let folder = file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
            let path = gausset_io::input::resolve_inside(folder, name).map_err(|e| {
                bad(format!("[output] prompt: {}, which {e}", gausset_io::text::one_line(name)))
            })?;
            Promptable::open(&path, engine)
        };
        let promptable = description.output.prompt.as_ref().map(beside).transpose()?;
        let segmenter =
            Self { model, description, input, size, selected: numbers, confidence, promptable, explanation };
        // Test run: reports a description that does not match now instead of at the first image.
        let [width, height] = size;
        let rgb = vec![128; 3 * width * height];
        let picture = RgbImage { width, height, rgb: &rgb };
        segmenter.detect(&picture, watch)?;
        if let Some(promptable) = &segmenter.promptable {
            let corners = [0.0, 0.0, width as f32, height as f32];
            promptable.segment_boxes(
                &picture,
                &[CandidateBox { class: 0, score: 1.0, index: 0, corners }],
                watch,
            )?;
        }
        Ok(segmenter)
    }

    /// Detects the selected classes in an image; highest scores first where boxes are sorted.
    ///
    /// # Errors
    /// As [`OnnxModel::run`]; outputs that do not match the description.
    pub fn detect(&self, picture: &RgbImage<'_>, watch: RunLimits<'_>) -> Result<Vec<Detection>, ModelError> {
        let spec = &self.description.output;
        let placement =
            Placement::new(self.description.input.fit, [picture.width, picture.height], self.size);
        let tensor = input_image::tensor(picture, &placement, &self.description.input);
        let names = self.description.output_names();
        let tensors = self.model.run(vec![(&self.input.name, tensor)], &names, watch)?;
        let of = |name: &Option<String>| {
            let at = names.iter().position(|known| Some(*known) == name.as_deref())?;
            tensors.get(at)
        };
        let outputs = Outputs {
            boxes: of(&spec.boxes),
            labels: of(&spec.labels),
            scores: of(&spec.scores),
            masks: of(&spec.masks),
            prototypes: of(&spec.prototypes),
        };
        let rules = DecodeParameters {
            spec,
            placement: &placement,
            classes: self.description.classes.len(),
            wanted: &self.selected,
            confidence: self.confidence,
        };
        let bad = |what: DecodeError| ModelError::Run {
            path: self.model.path().to_owned(),
            problem: format!(
                "output {what}; describe the model in a .toml next to it (docs/reference/masks.md)"
            ),
        };
        let Some(promptable) = &self.promptable else { return decode::decode(outputs, &rules).map_err(bad) };
        let mut boxes = decode::boxes(outputs, &rules).map_err(bad)?;
        for found in &mut boxes {
            let corners = found.corners;
            found.corners = [0, 1, 2, 3].map(|k| placement.to_image(k % 2, f64::from(corners[k])) as f32);
        }
        promptable.segment_boxes(picture, &boxes, watch)
    }

    /// Memory estimate: weights by the size of their files, tensors by the size of the input.
    #[must_use]
    pub fn memory(&self) -> ModelMemory {
        let [width, height] = self.size.map(|side| side as u64);
        let (more, other) = self.promptable.as_ref().map_or((0, 0), Promptable::bytes);
        let input = (3 * 4 * width * height).max(other);
        let weights = self.model.engine().weight_memory(self.model.bytes + more);
        ModelMemory { shared: weights.shared, per_run: weights.per_run + input * ACTIVATION_FACTOR }
    }

    /// Width and height of the model's input, px.
    #[must_use]
    pub const fn size(&self) -> [usize; 2] {
        self.size
    }

    /// Name of a class.
    #[must_use]
    pub fn class(&self, number: usize) -> &str {
        self.description.classes.get(number).map_or("", String::as_str)
    }

    /// Names of the selected classes.
    pub fn wanted(&self) -> impl Iterator<Item = &str> {
        self.selected.iter().enumerate().filter(|(_, wanted)| **wanted).map(|(number, _)| self.class(number))
    }

    /// Name and version of the engine.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.model.engine().name()
    }

    /// Hash of the model.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.model.hash
    }

    /// Text of everything that influences the detections in an image, for the fingerprint of settings.
    #[must_use]
    pub fn settings(&self) -> String {
        format!(
            "{} {} {:?} {:?} {} {:?} {}",
            self.engine(),
            self.model.hash,
            self.description,
            self.selected,
            self.confidence,
            self.size,
            self.promptable.as_ref().map_or_else(String::new, Promptable::settings)
        )
    }
}

/// Names of inputs or outputs.
fn port_names(ports: &[TensorPort]) -> String {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Whether the channels of an input come last.
fn is_nhwc(input: &TensorPort) -> bool {
    matches!(input.shape.as_slice(), [_, a, _, Some(3)] if *a != Some(3))
}

/// Width and height of the input: from the description, else from the model. `path` is the file that errors name.
pub(crate) fn input_size(
    input: &TensorPort,
    description: Option<&ModelDescription>,
    path: &Path,
) -> Result<[usize; 2], ModelError> {
    let bad = |what: String| ModelError::Description { path: path.to_owned(), problem: what };
    if !(input.shape.len() == 4 || input.shape.is_empty()) {
        let sides = input.shape.len();
        return Err(bad(format!(
            "input `{}` has {sides} sides (expected 4: pictures, channels, rows, columns)",
            input.name
        )));
    }
    let nhwc = match description {
        Some(description) => description.input.layout == Layout::Nhwc,
        None => is_nhwc(input),
    };
    let side = |axis: usize| input.shape.get(axis).copied().flatten();
    let said = description.and_then(|description| description.input.size);
    let own = if nhwc { (side(2), side(1)) } else { (side(3), side(2)) };
    let channels = side(if nhwc { 3 } else { 1 });
    if let Some(channels) = channels.filter(|channels| *channels != 3) {
        let what = format!("input `{}` has {channels} channels (expected 3: red, green, blue)", input.name);
        return Err(bad(what));
    }
    match (said, own) {
        (Some([w, h]), (Some(width), Some(height))) if [w, h] != [width, height] => {
            Err(bad(format!("[input] size: {w}x{h} px (expected {width}x{height}, the size in the model)")))
        }
        (Some(size), _) => Ok(size),
        (None, (Some(width), Some(height))) if SIDES.contains(&width) && SIDES.contains(&height) => {
            Ok([width, height])
        }
        // Exporters write 0 for dimensions that are not fixed.
        (None, (Some(width), Some(height))) if width > 0 && height > 0 => Err(bad(format!(
            "input `{}` has {width}x{height} px (expected sides of {} to {} px)",
            input.name,
            SIDES.start(),
            SIDES.end()
        ))),
        (None, _) => Err(bad(format!(
            "input `{}` has no fixed size; set [input] size in a .toml next to the model, or export it with one",
            input.name
        ))),
    }
}

/// A grey input.
fn grey_input([width, height]: [usize; 2], layout: Layout) -> Tensor {
    let shape = match layout {
        Layout::Nchw => vec![1, 3, height, width],
        Layout::Nhwc => vec![1, height, width, 3],
    };
    Tensor { shape, data: vec![0.5; 3 * width * height] }
}

/// Which classes are selected, by index.
fn selected_classes(
    description: &ModelDescription,
    wanted: &ClassSelection,
) -> Result<Vec<bool>, ModelError> {
    let groups = known::available_groups(description);
    let of = |key: &str, name: &str| -> Result<Vec<usize>, ModelError> {
        let group = groups.iter().find(|(group, _)| group == name).map(|(_, members)| members.clone());
        let class = description.classes.iter().position(|class| class == name && !name.is_empty());
        match (group, class) {
            (Some(members), _) if !members.is_empty() => Ok(members),
            (_, Some(class)) => Ok(vec![class]),
            _ => {
                let filled =
                    groups.iter().filter(|(_, members)| !members.is_empty()).map(|(name, _)| name.as_str());
                let all = filled.chain(description.classes.iter().map(String::as_str));
                let mut known: Vec<&str> = Vec::new();
                for name in all.filter(|name| !name.is_empty()) {
                    // A class may also be the name of a group.
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
                let hint = nearest(name, known.iter().copied()).map_or_else(
                    || {
                        let some = known.iter().take(8).copied().collect::<Vec<_>>().join(", ");
                        format!("expected one of {some}{}", if known.len() > 8 { ", …" } else { "" })
                    },
                    |near| format!("did you mean `{near}`?"),
                );
                Err(ModelError::Classes(format!(
                    "⟨{key}⟩: the model has no class or group `{name}` ({hint})"
                )))
            }
        }
    };
    let mut found = vec![false; description.classes.len()];
    match &wanted.remove {
        Some(names) => {
            for name in names {
                of("remove", name)?.into_iter().for_each(|class| found[class] = true);
            }
        }
        // A model need not have both groups.
        None => {
            let members = groups.iter().filter(|(name, _)| DEFAULT_GROUPS.contains(&name.as_str()));
            members.flat_map(|(_, members)| members).for_each(|&class| found[class] = true);
        }
    }
    for name in &wanted.keep {
        of("keep", name)?.into_iter().for_each(|class| found[class] = false);
    }
    if found.contains(&true) {
        return Ok(found);
    }
    Err(ModelError::Classes(
        "⟨remove⟩: no class is selected (expected a class or a group of the model)".to_owned(),
    ))
}
