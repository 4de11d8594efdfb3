//! The TOML description of a model: inputs, outputs and class names. `docs/reference/masks.md` describes each field.

use std::collections::BTreeMap;
use std::path::Path;

use gausset_io::input;
use gausset_io::text::{excerpt, one_line};
use serde::Deserialize;

use crate::classes::{self, nearest};
use crate::error::ModelError;
use crate::input_image::ResizeMode;
use crate::prompt::PromptSpec;

/// Largest size of a description, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Largest number of classes.
const MAX_CLASSES: usize = 10_000;
/// Allowed width and height of an input, px.
pub(crate) const SIDES: std::ops::RangeInclusive<usize> = 8..=4096;

/// Order of an input's dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Channel, row, column.
    #[default]
    Nchw,
    /// Row, column, channel.
    Nhwc,
}

/// Order of the colour channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelOrder {
    /// Red first, as in image files.
    #[default]
    Rgb,
    /// Blue first, as in OpenCV.
    Bgr,
}

/// Kind of outputs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OutputKind {
    /// A class, or a value per class, for each pixel: `masks` [1, C, h, w] or [1, h, w].
    Semantic,
    /// Queries with a mask of the whole image each: `scores` [1, Q, C], `masks` [1, Q, h, w].
    QueryMasks,
    /// Boxes with a mask inside each: `boxes` `[N, 4]`, `labels` `[N]`, `scores` `[N]`, `masks` `[N, 1, m, m]`.
    BoxMasks,
    /// Boxes with coefficients of prototype masks: `scores` [1, 4 + C + K, A], `prototypes` [1, K, h, w].
    Prototypes,
    /// Boxes only; each box is its own mask. `boxes` with `scores` [1, Q, C], or with `labels` and `scores`, or
    /// everything in `scores` [1, A, 5 + C].
    Boxes,
    /// The mask of a prompt box, `masks` [1, M, h, w] of the whole image with `scores` [1, M]: a model in two files
    /// that needs a box model.
    Promptable,
}

/// Conversion of an output to probabilities from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// They are probabilities already.
    None,
    /// Each value separately.
    #[default]
    Sigmoid,
    /// Over all classes.
    Softmax,
}

/// Meaning of the four numbers of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoxForm {
    /// Centre, width and height.
    #[default]
    Cxcywh,
    /// Left, top, right, bottom.
    Xyxy,
}

/// Units of boxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoxUnits {
    /// Fractions of the input's width and height.
    #[default]
    Relative,
    /// Pixels of the input.
    Pixels,
}

/// Specification of the input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InputSpec {
    /// Name; `None` = the model's first input.
    pub name: Option<String>,
    /// Width and height, px; `None` = as the model declares.
    pub size: Option<[usize; 2]>,
    pub layout: Layout,
    pub colour: ChannelOrder,
    /// Value of white before mean and deviation are applied: 1 or 255.
    pub range: f32,
    /// By channel of the tensor.
    pub mean: [f32; 3],
    pub deviation: [f32; 3],
    pub fit: ResizeMode,
    /// Value of the padding, 0 to 255.
    pub pad: f32,
}

impl Default for InputSpec {
    fn default() -> Self {
        Self {
            name: None,
            size: None,
            layout: Layout::Nchw,
            colour: ChannelOrder::Rgb,
            range: 1.0,
            mean: [0.0; 3],
            deviation: [1.0; 3],
            fit: ResizeMode::Stretch,
            pad: 114.0,
        }
    }
}

/// Specification of the outputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutputSpec {
    pub kind: OutputKind,
    /// Name of the output with boxes; the fields below name the others.
    pub boxes: Option<String>,
    pub labels: Option<String>,
    pub scores: Option<String>,
    pub masks: Option<String>,
    pub prototypes: Option<String>,
    pub form: BoxForm,
    pub units: BoxUnits,
    /// Activation of scores and of semantic masks.
    pub activation: Activation,
    /// Activation of the masks of queries and boxes.
    pub mask_activation: Activation,
    /// Index of the background class; -1 = the last.
    pub background: Option<i64>,
    /// Overlap (intersection over union) above which the weaker of two boxes of a class is dropped; 1 = never.
    pub nms: f32,
    /// The description of the promptable model that segments the boxes.
    pub prompt: Option<String>,
}

/// A model's input, outputs and classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelDescription {
    pub(crate) input: InputSpec,
    pub(crate) output: OutputSpec,
    /// Specification of a promptable model.
    pub(crate) prompt: Option<PromptSpec>,
    /// Names of the classes by index; an empty name means no class.
    pub classes: Vec<String>,
    /// Groups of classes, by name.
    pub groups: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct RawInput {
    name: Option<String>,
    size: Option<Sides>,
    #[serde(default)]
    layout: Layout,
    #[serde(default)]
    colour: ChannelOrder,
    range: Option<f32>,
    mean: Option<[f32; 3]>,
    deviation: Option<[f32; 3]>,
    #[serde(default)]
    fit: ResizeMode,
    pad: Option<f32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "[input] size: expected a side in px, or [width, height]")]
enum Sides {
    Both(usize),
    Each([usize; 2]),
}

#[derive(Deserialize)]
struct RawOutput {
    kind: OutputKind,
    boxes: Option<String>,
    labels: Option<String>,
    scores: Option<String>,
    masks: Option<String>,
    prototypes: Option<String>,
    #[serde(default, rename = "box")]
    form: BoxForm,
    #[serde(default)]
    units: BoxUnits,
    #[serde(default)]
    activation: Activation,
    #[serde(default)]
    mask_activation: Activation,
    background: Option<i64>,
    nms: Option<f32>,
    prompt: Option<String>,
}

#[derive(Default, Deserialize)]
struct RawClasses {
    list: Option<String>,
    names: Option<Vec<String>>,
    #[serde(default)]
    groups: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default = "default_input")]
    input: RawInput,
    output: RawOutput,
    prompt: Option<PromptSpec>,
    #[serde(default)]
    classes: RawClasses,
}

fn default_input() -> RawInput {
    RawInput {
        name: None,
        size: None,
        layout: Layout::default(),
        colour: ChannelOrder::default(),
        range: None,
        mean: None,
        deviation: None,
        fit: ResizeMode::default(),
        pad: None,
    }
}

/// Allowed keys of each table. A new key must also be added to `docs/reference/masks.md`.
const KEYS: [(&str, &[&str]); 4] = [
    ("input", &["name", "size", "layout", "colour", "range", "mean", "deviation", "fit", "pad"]),
    (
        "output",
        &[
            "kind",
            "boxes",
            "labels",
            "scores",
            "masks",
            "prototypes",
            "box",
            "units",
            "activation",
            "mask_activation",
            "background",
            "nms",
            "prompt",
        ],
    ),
    ("prompt", &["encoder", "decoder", "coordinates", "labels", "size", "features"]),
    ("classes", &["list", "names", "groups"]),
];

/// Why a description is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct DescriptionError {
    /// Line, table or key.
    pub place: String,
    /// The problem, with what was expected.
    pub problem: String,
}

pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> DescriptionError {
    DescriptionError { place: place.into(), problem: problem.into() }
}

impl ModelDescription {
    /// Reads a description.
    ///
    /// # Errors
    /// The file cannot be read, has unknown keys, or has values out of range.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let text = input::read_to_string(path, MAX_BYTES).map_err(|e| ModelError::Description {
            path: path.to_owned(),
            problem: format!("description: {}", gausset_io::atomic::plain_reason(&e)),
        })?;
        Self::parse(&text)
            .map_err(|error| ModelError::Description { path: path.to_owned(), problem: error.to_string() })
    }

    /// Parses the text of a description.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str) -> Result<Self, DescriptionError> {
        let table: toml::Table = toml::from_str(text).map_err(|e| syntax(text, &e))?;
        check_keys(&table)?;
        let raw: Raw = toml::from_str(text).map_err(|e| syntax(text, &e))?;
        raw.checked()
    }

    /// Names of the outputs that are used.
    pub(crate) fn output_names(&self) -> Vec<&str> {
        let OutputSpec { boxes, labels, scores, masks, prototypes, .. } = &self.output;
        [boxes, labels, scores, masks, prototypes].into_iter().flatten().map(String::as_str).collect()
    }
}

/// An error of syntax or type, with its line.
fn syntax(text: &str, error: &toml::de::Error) -> DescriptionError {
    let line =
        error.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count());
    // A message may quote a name of any length, so it is shortened.
    let message: String = one_line(error.message()).chars().take(240).collect();
    invalid(format!("line {line}"), message)
}

/// Refuses unknown keys and suggests the nearest known one.
fn check_keys(table: &toml::Table) -> Result<(), DescriptionError> {
    let unknown = |place: &str, key: &str, known: &[&str]| {
        let hint = nearest(key, known.iter().copied()).map_or_else(
            || format!("expected {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Err(invalid(place, format!("unknown key `{}` ({hint})", excerpt(key))))
    };
    let tables = KEYS.map(|(name, _)| name);
    for (name, value) in table {
        let Some((_, known)) = KEYS.iter().find(|(known, _)| known == name) else {
            return unknown("description", name, &tables);
        };
        for key in value.as_table().into_iter().flat_map(toml::Table::keys) {
            if !known.contains(&key.as_str()) {
                return unknown(&format!("[{name}]"), key, known);
            }
        }
    }
    Ok(())
}

impl Raw {
    fn checked(self) -> Result<ModelDescription, DescriptionError> {
        let Self { input, output, prompt, classes } = self;
        let spec = InputSpec::default();
        let size = input.size.map(|size| match size {
            Sides::Both(side) => [side; 2],
            Sides::Each([width, height]) => [width, height],
        });
        if let Some([width, height]) = size
            && !(SIDES.contains(&width) && SIDES.contains(&height))
        {
            return Err(invalid(
                "[input] size",
                format!("expected sides of {} to {} px", SIDES.start(), SIDES.end()),
            ));
        }
        let input = InputSpec {
            name: input.name,
            size,
            layout: input.layout,
            colour: input.colour,
            range: input.range.unwrap_or(spec.range),
            mean: input.mean.unwrap_or(spec.mean),
            deviation: input.deviation.unwrap_or(spec.deviation),
            fit: input.fit,
            pad: input.pad.unwrap_or(spec.pad),
        };
        if input.range != 1.0 && input.range != 255.0 {
            return Err(invalid("[input] range", format!("expected 1 or 255, found {}", input.range)));
        }
        if !input.mean.iter().all(|m| m.is_finite()) {
            return Err(invalid("[input] mean", "expected three finite numbers"));
        }
        if !input.deviation.iter().all(|d| d.is_finite() && *d > 0.0) {
            return Err(invalid("[input] deviation", "expected three numbers above 0"));
        }
        if !(0.0..=255.0).contains(&input.pad) {
            return Err(invalid("[input] pad", format!("expected 0 to 255, found {}", input.pad)));
        }
        let output = output.checked()?;
        match (output.kind, &prompt) {
            (OutputKind::Promptable, None) => {
                return Err(invalid(
                    "[prompt]",
                    "is missing (expected encoder and decoder of a promptable model)",
                ));
            }
            (kind, Some(_)) if kind != OutputKind::Promptable => {
                return Err(invalid("[prompt]", "is for kind = \"promptable\""));
            }
            _ => {}
        }
        let names = match (&classes.list, classes.names) {
            (Some(_), Some(_)) => {
                return Err(invalid("[classes]", "expected a list or names, found both"));
            }
            (None, None) => Vec::new(),
            (None, Some(names)) => names,
            (Some(name), None) => classes::list(name).ok_or_else(|| {
                invalid(
                    "[classes] list",
                    format!("expected {}, found `{}`", classes::LISTS.join(", "), excerpt(name)),
                )
            })?,
        };
        if names.len() > MAX_CLASSES {
            return Err(invalid(
                "[classes]",
                format!("{} names (expected at most {MAX_CLASSES})", names.len()),
            ));
        }
        if let Some(number) = output.background
            && !names.is_empty()
            && !(-1..names.len() as i64).contains(&number)
        {
            let last = names.len() - 1;
            return Err(invalid(
                "[output] background",
                format!("expected the number of a class, 0 to {last}, or -1, found {number}"),
            ));
        }
        for (group, members) in &classes.groups {
            for member in members {
                if !names.contains(member) {
                    let near = nearest(member, names.iter().map(String::as_str));
                    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                    let problem = format!("`{}` is not a class of the model{hint}", excerpt(member));
                    let place = format!("[classes.groups] {}", excerpt(group));
                    return Err(invalid(place, problem));
                }
            }
        }
        Ok(ModelDescription { input, output, prompt, classes: names, groups: classes.groups })
    }
}

impl RawOutput {
    fn checked(self) -> Result<OutputSpec, DescriptionError> {
        let out = OutputSpec {
            kind: self.kind,
            boxes: self.boxes,
            labels: self.labels,
            scores: self.scores,
            masks: self.masks,
            prototypes: self.prototypes,
            form: self.form,
            units: self.units,
            activation: self.activation,
            mask_activation: self.mask_activation,
            background: self.background,
            nms: self.nms.unwrap_or(1.0),
            prompt: self.prompt,
        };
        if out.prompt.is_some() && out.kind != OutputKind::Boxes {
            return Err(invalid("[output] prompt", "is for kind = \"boxes\""));
        }
        if !(out.nms > 0.0 && out.nms <= 1.0) {
            return Err(invalid(
                "[output] nms",
                format!("expected above 0 and at most 1, found {}", out.nms),
            ));
        }
        let needed: &[(&str, bool)] = &match out.kind {
            OutputKind::Semantic => vec![("masks", out.masks.is_some())],
            OutputKind::QueryMasks => vec![("scores", out.scores.is_some()), ("masks", out.masks.is_some())],
            OutputKind::BoxMasks => vec![
                ("boxes", out.boxes.is_some()),
                ("labels", out.labels.is_some()),
                ("scores", out.scores.is_some()),
                ("masks", out.masks.is_some()),
            ],
            OutputKind::Prototypes => {
                vec![("scores", out.scores.is_some()), ("prototypes", out.prototypes.is_some())]
            }
            OutputKind::Boxes => vec![("scores", out.scores.is_some())],
            OutputKind::Promptable => vec![("masks", out.masks.is_some())],
        };
        match needed.iter().find(|(_, is_there)| !is_there) {
            Some((name, _)) => {
                Err(invalid("[output]", format!("`{name}` is missing (the name of an output)")))
            }
            None => Ok(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_what_goes_in_and_what_comes_out() {
        let text = "[input]\nsize = [640, 384]\nfit = 'letterbox'\ncolour = 'bgr'\nrange = 255\n\
                    [output]\nkind = 'query-masks'\nscores = 'labels'\nmasks = 'masks'\nbackground = -1\n\
                    [classes]\nnames = ['', 'man', 'dog']\ngroups = { person = ['man'] }\n";
        let found = ModelDescription::parse(text).unwrap();
        assert_eq!(found.input.size, Some([640, 384]));
        assert_eq!(
            (found.input.fit, found.input.colour, found.input.range),
            (ResizeMode::Letterbox, ChannelOrder::Bgr, 255.0)
        );
        assert_eq!((found.output.kind, found.output.background), (OutputKind::QueryMasks, Some(-1)));
        assert_eq!(found.groups["person"], ["man"]);
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_what_was_meant() {
        let output = "[output]\nkind = 'semantic'\nmasks = 'm'\n";
        for (text, expected) in [
            (format!("[inputs]\n{output}"), "description: unknown key `inputs` (did you mean `input`?)"),
            (
                format!("[input]\nmeans = [0,0,0]\n{output}"),
                "[input]: unknown key `means` (did you mean `mean`?)",
            ),
            (format!("[input]\nsize = 4\n{output}"), "[input] size: expected sides of 8 to 4096 px"),
            (format!("[input]\nrange = 2\n{output}"), "[input] range: expected 1 or 255, found 2"),
            (
                format!("[input]\ndeviation = [1,0,1]\n{output}"),
                "[input] deviation: expected three numbers above 0",
            ),
            (
                format!("{output}[classes]\nlist = 'coco'\n"),
                "[classes] list: expected coco80, coco91, voc21, found `coco`",
            ),
            (
                format!("{output}[classes]\nlist = 'voc21'\ngroups = {{ a = ['persn'] }}\n"),
                "[classes.groups] a: `persn` is not a class of the model; did you mean `person`?",
            ),
            (
                format!("{output}background = 2\n[classes]\nnames = ['', 'person']\n"),
                "[output] background: expected the number of a class, 0 to 1, or -1, found 2",
            ),
            (
                format!("[input]\nsize = 'big'\n{output}"),
                "line 2: [input] size: expected a side in px, or [width, height]",
            ),
            (
                "[output]\nkind = 'prototypes'\nscores = 's'\n".to_owned(),
                "[output]: `prototypes` is missing (the name of an output)",
            ),
            (
                "[output]\nkind = 'promptable'\nmasks = 'm'\n".to_owned(),
                "[prompt]: is missing (expected encoder and decoder of a promptable model)",
            ),
            (
                format!("{output}[prompt]\nencoder = 'e'\ndecoder = 'd'\n"),
                "[prompt]: is for kind = \"promptable\"",
            ),
            (
                "[output]\nkind = 'promptable'\nmasks = 'm'\n[prompt]\nencodr = 'e'\n".to_owned(),
                "[prompt]: unknown key `encodr` (did you mean `encoder`?)",
            ),
            (
                "[output]\nkind = 'semantic'\nmasks = 'm'\nprompt = 'p.toml'\n".to_owned(),
                "[output] prompt: is for kind = \"boxes\"",
            ),
        ] {
            assert_eq!(ModelDescription::parse(&text).unwrap_err().to_string(), expected);
        }
        let kinds = ModelDescription::parse("[output]\nkind = 'mask'\n").unwrap_err().to_string();
        assert!(kinds.starts_with("line 2: unknown variant `mask`, expected one of `semantic`"), "{kinds}");
        assert_eq!(ModelDescription::parse("[output\n").unwrap_err().place, "line 1");
    }
}
