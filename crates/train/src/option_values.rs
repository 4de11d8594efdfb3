//! Options whose values are words: one definition of their spelling for the command line, config files and messages.

use std::fmt;
use std::str::FromStr;

use gausset_core::constants::{MIN_NEAR_PLANE, NEAR_PLANE};
use gausset_core::engine::AdamMode;
use gausset_io::splat::SpzAxes;
use gausset_io::text::format_number;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::near_plane;

/// A value that is none of the words or forms of its option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`")]
pub struct ParseValueError {
    /// The accepted forms.
    pub expected: String,
    /// The given value.
    pub found: String,
}

/// Serialises a type with its `Display` and parses it with its `FromStr`, for serde's `into` and `try_from`.
macro_rules! string_in_files {
    ($name:ty) => {
        impl TryFrom<String> for $name {
            type Error = ParseValueError;

            fn try_from(text: String) -> Result<Self, ParseValueError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}

/// Defines an enum of unit variants with its words: `FromStr`, `Display`, serde as a string, and the list of words.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The words of all values, in the order of the definition.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word of this value.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl FromStr for $name {
            type Err = ParseValueError;

            fn from_str(text: &str) -> Result<Self, ParseValueError> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(ParseValueError { expected: Self::WORDS.join("|"), found: text.to_owned() }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        string_in_files!($name);
    };
}

words! {
    /// How the set of splats changes while training.
    Strategy {
        /// Relocation and growth up to a budget (Kheradmand et al. 2024).
        Mcmc = "mcmc",
        /// Adaptive density control: clone, split, prune, opacity resets (Kerbl et al. 2023).
        Classic = "classic",
    }
}

words! {
    /// The recipe at three scales of training time.
    #[derive(Default)]
    Quality {
        /// Under a minute on two cores for a hundred small images.
        Fast = "fast",
        /// A few minutes.
        #[default]
        Default = "default",
        /// The quality of the schedules of the literature, in a fraction of an hour or more.
        Best = "best",
    }
}

words! {
    /// The meaning of an image's alpha channel.
    #[derive(Default)]
    Alpha {
        /// Coverage: truth and render are composited on the same background.
        #[default]
        Composite = "composite",
        /// A mask: transparent pixels are ignored.
        Mask = "mask",
    }
}

words! {
    /// Axes of SPZ files that do not specify them.
    SpzFrame {
        /// Those of a PLY, as most programs write them.
        AsIs = "as-is",
        /// x right, y up, z back, as the specification says.
        Rub = "rub",
    }
}

impl From<SpzFrame> for SpzAxes {
    fn from(frame: SpzFrame) -> Self {
        match frame {
            SpzFrame::AsIs => Self::AsIs,
            SpzFrame::Rub => Self::Rub,
        }
    }
}

words! {
    /// How panoramas are trained on.
    #[derive(Default)]
    Panoramas {
        /// The six faces of a cube.
        #[default]
        Cube = "cube",
        /// Panoramas themselves, with a spherical projection.
        Sphere = "sphere",
    }
}

words! {
    /// Points from which splats start.
    #[derive(Default)]
    InitPoints {
        /// Those of the dataset, and dense ones from stereo if enough views agree on them.
        #[default]
        Auto = "auto",
        /// Those of the dataset.
        Sfm = "sfm",
        /// Those of the dataset and dense ones from stereo; an error if stereo finds none.
        Dense = "dense",
    }
}

words! {
    /// Whether space that is known to be empty is kept empty.
    #[derive(Default)]
    FreeSpace {
        /// If the points of the dataset provide the evidence.
        #[default]
        Auto = "auto",
        /// Such space is not kept empty.
        Off = "off",
    }
}

words! {
    /// Whether each step has a random background colour.
    #[derive(Default)]
    RandomBackground {
        /// When the dataset has no points.
        #[default]
        Auto = "auto",
        /// Each step has a colour of its own.
        Always = "always",
        /// All steps have the same colour.
        Never = "never",
    }
}

words! {
    /// Which splats Adam updates.
    Adam {
        /// All of them, every step.
        Dense = "dense",
        /// Those with a gradient in the step.
        Sparse = "sparse",
    }
}

impl From<Adam> for AdamMode {
    fn from(word: Adam) -> Self {
        match word {
            Adam::Dense => Self::Dense,
            Adam::Sparse => Self::Sparse,
        }
    }
}

impl From<AdamMode> for Adam {
    fn from(mode: AdamMode) -> Self {
        match mode {
            AdamMode::Dense => Self::Dense,
            AdamMode::Sparse => Self::Sparse,
        }
    }
}

words! {
    /// Whether training compensates the exposure of each image by gains.
    #[derive(Default)]
    Exposure {
        /// If the tracks show that the exposure of the images differs.
        #[default]
        Auto = "auto",
        /// Whether or not the exposure differs.
        On = "on",
        /// Gains are not fitted.
        Off = "off",
    }
}

words! {
    /// How a run corrects the colours of its images: the result of [`Exposure`] on its data.
    Colours {
        /// Not at all.
        None = "none",
        /// By gains that start at zero.
        Gains = "gains",
        /// By gains that are initialised from the tracks.
        GainsFromTracks = "gains-from-tracks",
    }
}

words! {
    /// Which direction of the dataset points up in the saved scene.
    #[derive(Default)]
    Up {
        /// The mean up direction of the training cameras.
        #[default]
        Auto = "auto",
        /// The x axis is up.
        X = "x",
        /// The y axis is up.
        Y = "y",
        /// The z axis is up.
        Z = "z",
        /// The x axis is down.
        MinusX = "-x",
        /// The y axis is down.
        MinusY = "-y",
        /// The z axis is down.
        MinusZ = "-z",
        /// Save the scene in the axes of the dataset.
        None = "none",
    }
}

words! {
    /// Part of a dataset.
    Split {
        /// Views that the splats are trained on.
        Train = "train",
        /// The held-out views, which are not trained on.
        Test = "test",
    }
}

/// The colour behind the splats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Background {
    /// White for Blender-style datasets, black otherwise.
    #[default]
    Auto,
    /// A learnt sky, whose colour depends on the direction.
    Sky,
    /// RGB in 0..1.
    Colour([f32; 3]),
}

impl FromStr for Background {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        let bad = || ParseValueError {
            expected: "auto|sky|black|white or three numbers r,g,b in 0..1".to_owned(),
            found: text.to_owned(),
        };
        match text {
            "auto" => return Ok(Self::Auto),
            "sky" => return Ok(Self::Sky),
            "black" => return Ok(Self::Colour([0.0; 3])),
            "white" => return Ok(Self::Colour([1.0; 3])),
            _ => {}
        }
        let channels: Vec<f32> =
            text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>().map_err(|_| bad())?;
        let colour: [f32; 3] = channels.try_into().map_err(|_| bad())?;
        // The range check also rejects NaN.
        if colour.iter().all(|v| (0.0..=1.0).contains(v)) { Ok(Self::Colour(colour)) } else { Err(bad()) }
    }
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Sky => f.write_str("sky"),
            // The shortest digits that read back as the same f32.
            Self::Colour([r, g, b]) => write!(f, "{r},{g},{b}"),
        }
    }
}

string_in_files!(Background);

/// An amount of memory: `512MiB`, `4GiB`, `1500000000`, or `auto`.
///
/// ```
/// use gausset_train::MemoryLimit;
///
/// assert_eq!("1.5GiB".parse(), Ok(MemoryLimit::Bytes(3 << 29)));
/// assert_eq!(MemoryLimit::Bytes(4 << 30).to_string(), "4GiB");
/// assert!("lots".parse::<MemoryLimit>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MemoryLimit {
    /// Half of the machine's memory.
    #[default]
    Auto,
    /// A number of bytes.
    Bytes(u64),
}

/// Units of memory, largest first: both spellings mean powers of 1024 or of 1000 as their letters say.
const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

impl FromStr for MemoryLimit {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        let bad = || ParseValueError {
            expected: "auto, bytes, or a number with KiB|MiB|GiB|TiB|KB|MB|GB|TB".to_owned(),
            found: text.to_owned(),
        };
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let lower = text.to_ascii_lowercase();
        // `4G` means 4 GiB, as for `ulimit`, `docker` and Java.
        let letters = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
        let (number, unit) = UNITS
            .iter()
            .chain(&letters)
            .find_map(|(name, unit)| Some((lower.strip_suffix(&name.to_ascii_lowercase())?, *unit)))
            .unwrap_or((lower.as_str(), 1));
        let number = number.trim();
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(unit).map(Self::Bytes).ok_or_else(bad);
        }
        // Fractions such as 1.5GiB; above 2^53 bytes fractions are not needed.
        match number.parse::<f64>() {
            Ok(value) if value >= 0.0 && value * (unit as f64) < 9.0e15 => {
                Ok(Self::Bytes((value * unit as f64) as u64))
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Auto => f.write_str("auto"),
            Self::Bytes(bytes) => match UNITS.iter().find(|(_, unit)| bytes > 0 && bytes % unit == 0) {
                Some((name, unit)) => write!(f, "{}{name}", bytes / unit),
                None => write!(f, "{bytes}"),
            },
        }
    }
}

string_in_files!(MemoryLimit);

/// Minimum distance of drawn splats from the camera. Files hold a number, or `auto`.
///
/// ```
/// use gausset_train::NearPlane;
///
/// assert_eq!("0.25".parse(), Ok(NearPlane::Distance(0.25)));
/// assert_eq!(NearPlane::Auto.to_string(), "auto");
/// assert!("near".parse::<NearPlane>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum NearPlane {
    /// A fraction of the depth of the nearest points; see [`crate::near_plane`].
    #[default]
    Auto,
    /// A distance in scene units.
    Distance(f64),
}

/// Accepted forms of a near plane.
const NEAR_PLANE_FORMS: &str = "auto or a number";

impl NearPlane {
    /// The distance in scene units, of a run that has `recorded` what `auto` meant at its start.
    #[must_use]
    pub fn distance(self, recorded: Option<f64>) -> f64 {
        match self {
            Self::Auto => recorded.unwrap_or(NEAR_PLANE),
            Self::Distance(distance) => distance,
        }
    }

    /// The distance of a training step, from that of trained splats.
    #[must_use]
    pub fn in_training(self, distance: f64) -> f64 {
        match self {
            Self::Auto => (near_plane::TRAINING_FRACTION * distance).max(MIN_NEAR_PLANE),
            Self::Distance(_) => distance,
        }
    }
}

impl FromStr for NearPlane {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        let bad = |_| ParseValueError { expected: NEAR_PLANE_FORMS.to_owned(), found: text.to_owned() };
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Distance).map_err(bad) }
    }
}

impl fmt::Display for NearPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Distance(distance) => f.write_str(&format_number(*distance)),
        }
    }
}

impl Serialize for NearPlane {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Distance(distance) => serializer.serialize_f64(*distance),
        }
    }
}

impl<'de> Deserialize<'de> for NearPlane {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = NearPlane;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(NEAR_PLANE_FORMS)
            }

            fn visit_f64<E: de::Error>(self, distance: f64) -> Result<NearPlane, E> {
                Ok(NearPlane::Distance(distance))
            }

            fn visit_i64<E: de::Error>(self, distance: i64) -> Result<NearPlane, E> {
                Ok(NearPlane::Distance(distance as f64))
            }

            fn visit_u64<E: de::Error>(self, distance: u64) -> Result<NearPlane, E> {
                Ok(NearPlane::Distance(distance as f64))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<NearPlane, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// Maximum wall time of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TimeBudget {
    /// The run may take any time.
    #[default]
    None,
    /// Milliseconds from the start of the program to the finished result.
    Milliseconds(u64),
}

/// Longest time budget, in seconds: a hundred days.
const MAX_BUDGET_SECONDS: f64 = 8.64e6;

impl TimeBudget {
    /// The budget in seconds.
    #[must_use]
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Milliseconds(ms) => Some(ms as f64 / 1e3),
        }
    }
}

impl FromStr for TimeBudget {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<Self, ParseValueError> {
        if text == "none" {
            return Ok(Self::None);
        }
        match seconds_of(&text.to_ascii_lowercase()) {
            Some(seconds) if (1.0..=MAX_BUDGET_SECONDS).contains(&seconds) => {
                Ok(Self::Milliseconds((seconds * 1e3).round() as u64))
            }
            _ => Err(ParseValueError {
                expected: "none, or 1s..100 days as seconds or with s|m|h, as 1h30m".to_owned(),
                found: text.to_owned(),
            }),
        }
    }
}

/// Parses `90`, `90s`, `1.5m`, `1h30m`, `2 min 5 s`: numbers with decreasing units.
fn seconds_of(text: &str) -> Option<f64> {
    const UNITS: [(&[&str], f64); 3] = [(&["h"], 3600.0), (&["min", "m"], 60.0), (&["s", ""], 1.0)];
    let (mut rest, mut seconds, mut units) = (text.trim(), 0.0, UNITS.iter());
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().ok()?;
        let behind = rest[end..].trim_start();
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let name = &behind[..end];
        // A trailing number as in `1h30` is ambiguous: minutes or seconds.
        let (_, unit) =
            units.find(|(names, _)| names.contains(&name) && (seconds == 0.0 || !name.is_empty()))?;
        seconds += number * unit;
        rest = behind[end..].trim_start();
    }
    (!text.trim().is_empty()).then_some(seconds)
}

impl fmt::Display for TimeBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Milliseconds(ms) => write!(f, "{}s", ms as f64 / 1e3),
        }
    }
}

string_in_files!(TimeBudget);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_budgets_have_units_and_read_back_as_they_are_written() {
        for (text, ms) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("1.5m", 90_000),
            ("2 min", 120_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1h 30min 5s", 5_405_000),
            ("2m30s", 150_000),
        ] {
            let budget: TimeBudget = text.parse().unwrap();
            assert_eq!(budget, TimeBudget::Milliseconds(ms), "{text}");
            assert_eq!(budget.to_string().parse::<TimeBudget>().unwrap(), budget);
        }
        for wrong in ["", "0", "-5s", "1d", "nan", "inf", "0.1s", "1e9h", "1h30", "30m1h", "m", "1h1h"] {
            assert!(wrong.parse::<TimeBudget>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_read_back_as_they_are_written() {
        for word in Up::WORDS {
            assert_eq!(word.parse::<Up>().unwrap().to_string(), *word);
        }
        let err = "MCMC".parse::<Strategy>().unwrap_err();
        assert_eq!(err.to_string(), "expected mcmc|classic, found `MCMC`");
    }

    #[test]
    fn backgrounds_are_words_or_three_numbers_in_range() {
        assert_eq!("0.1, 0.2,1".parse(), Ok(Background::Colour([0.1, 0.2, 1.0])));
        assert_eq!("white".parse(), Ok(Background::Colour([1.0; 3])));
        for word in [Background::Auto, Background::Sky] {
            assert_eq!(word.to_string().parse(), Ok(word));
        }
        for bad in ["", "1,2,3", "0,0", "0,0,0,0", "nan,0,0", "red"] {
            assert!(bad.parse::<Background>().is_err(), "{bad}");
        }
        let odd = Background::Colour([0.1, 1.0 / 3.0, 0.6130]);
        assert_eq!(odd.to_string().parse(), Ok(odd));
    }

    #[test]
    fn memory_has_units_and_does_not_overflow() {
        assert_eq!("2GiB".parse(), Ok(MemoryLimit::Bytes(2 << 30)));
        assert_eq!("1.5 gib".parse(), Ok(MemoryLimit::Bytes(3 << 29)));
        assert_eq!("3000".parse(), Ok(MemoryLimit::Bytes(3000)));
        assert_eq!("2gb".parse(), Ok(MemoryLimit::Bytes(2_000_000_000)));
        for bad in ["", "-1", "12XB", "99999999999999TiB", "nan", "inf GiB", "GiB"] {
            assert!(bad.parse::<MemoryLimit>().is_err(), "{bad}");
        }
        for bytes in [0, 1, 1023, 1 << 30, 5_000_000] {
            let limit = MemoryLimit::Bytes(bytes);
            assert_eq!(limit.to_string().parse(), Ok(limit));
        }
    }
}
