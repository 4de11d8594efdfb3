//! A row of the table of options: what is known of one option besides its name, its type and its help.
//!
//! Rows are built in [`super::table`]. Everything that has to know all options takes it from there: defaults, ranges
//! and their error lines, the way into a [`TrainConfig`] and back, what a run that goes on may change, and what faces
//! show ([`OptionInfo`]): arguments of a command line, a page of the documentation.

use std::ffi::OsStr;

use super::value::{Form, Value};
use crate::config::{ConfigError, Needs, TrainConfig};
use crate::words::ParseWordError;

/// Under which heading an option is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// Which pictures, and how they are read.
    Data,
    /// How long, how well, and what is written when.
    Run,
    /// What the machine may spend.
    Machine,
    /// What splats can show.
    Model,
    /// What is corrected in colours and poses.
    Corrections,
    /// Details of the first splats.
    Start,
    /// Details of the loss and the learning rates.
    Loss,
    /// Details of density control.
    Density,
}

impl Heading {
    /// The heading in words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Data => "Data",
            Self::Run => "Run",
            Self::Machine => "Machine",
            Self::Model => "Model",
            Self::Corrections => "Corrections",
            Self::Start => "Start (details)",
            Self::Loss => "Loss and rates (details)",
            Self::Density => "Density control (details)",
        }
    }
}

/// What a face shows of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Under which heading.
    pub heading: Heading,
    /// What its value is called: `N`, `SHARE`.
    pub value_name: &'static str,
    /// Only for those who want to see everything.
    pub is_detail: bool,
    /// Its help names the words that it takes.
    pub has_words_in_help: bool,
    /// What its bare name means.
    pub bare: Option<&'static str>,
    /// Its value is written behind a space as well, although the bare name has a meaning.
    pub may_stand_apart: bool,
    /// The option behind which it is shown, where that is not the one before it in files.
    pub after: Option<&'static str>,
}

/// An option for a face: command line, documentation.
#[derive(Clone, Debug)]
pub struct OptionInfo {
    /// Its long name, which is its key in files.
    pub name: &'static str,
    /// What it does, without a full stop.
    pub help: String,
    /// How it is shown; `None` for the dataset, for which every face has a place of its own.
    pub shown: Option<Shown>,
    /// How its values are written.
    pub form: Form,
    /// Which values are accepted.
    pub expected: String,
    /// A run that goes on may change it: it has no influence on the result.
    pub is_free_on_resume: bool,
    /// Says what is wrong with the form of a value: `expected a number, found `x``.
    pub check: fn(&str) -> Result<(), ParseWordError>,
}

/// Values that an option accepts among those of its type.
#[derive(Debug)]
pub(crate) struct Range<T> {
    expected: &'static str,
    accepts: fn(&T) -> bool,
}

impl<T> Range<T> {
    pub(super) const fn of(expected: &'static str, accepts: fn(&T) -> bool) -> Self {
        Self { expected, accepts }
    }
}

/// Where the value of an option is in a configuration.
enum Place<T> {
    Nowhere,
    Field(fn(&mut TrainConfig) -> &mut T),
    /// In a part that only some configurations have.
    Part(fn(&mut TrainConfig) -> Option<&mut T>),
    Optional(fn(&mut TrainConfig) -> &mut Option<T>),
    /// The value decides which parts there are, or is there in another form.
    Choice(fn(&TrainConfig) -> Option<T>, fn(&mut TrainConfig, T)),
}

/// A row of the table.
pub(super) struct Row<T> {
    shown: Option<Shown>,
    pub(super) default: Option<T>,
    range: Option<Range<T>>,
    place: Place<T>,
    is_optional: bool,
    pub(super) is_free_on_resume: bool,
    pub(super) needs: &'static [Needs],
}

/// An option that no face shows among the others.
pub(super) fn hidden<T>() -> Row<T> {
    Row {
        shown: None,
        default: None,
        range: None,
        place: Place::Nowhere,
        is_optional: false,
        is_free_on_resume: false,
        needs: &[],
    }
}

/// An option that people look for first.
pub(super) fn common<T>(heading: Heading, value_name: &'static str) -> Row<T> {
    let shown = Shown {
        heading,
        value_name,
        is_detail: false,
        has_words_in_help: false,
        bare: None,
        may_stand_apart: false,
        after: None,
    };
    Row { shown: Some(shown), ..hidden() }
}

/// An option for those who want to see everything.
pub(super) fn detail<T>(heading: Heading, value_name: &'static str) -> Row<T> {
    common(heading, value_name).show(|shown| shown.is_detail = true)
}

impl<T> Row<T> {
    /// What happens where nobody says anything. An option without one has it from presets (`config/defaults.rs`).
    pub(super) fn default(self, value: T) -> Self {
        Self { default: Some(value), ..self }
    }

    /// Which values are accepted.
    pub(super) fn range(self, range: Range<T>) -> Self {
        Self { range: Some(range), ..self }
    }

    /// The field of the configuration that holds the value.
    pub(super) fn at(self, place: fn(&mut TrainConfig) -> &mut T) -> Self {
        Self { place: Place::Field(place), ..self }
    }

    /// The same in a part that only some configurations have. Where it is missing the value goes nowhere; options that
    /// decide about parts come before those of the parts.
    pub(super) fn at_part(self, place: fn(&mut TrainConfig) -> Option<&mut T>) -> Self {
        Self { place: Place::Part(place), ..self }
    }

    /// The field of an option that may stay without a value.
    pub(super) fn at_optional(self, place: fn(&mut TrainConfig) -> &mut Option<T>) -> Self {
        Self { place: Place::Optional(place), is_optional: true, ..self }
    }

    /// How the value is read from a configuration, and what it decides there.
    pub(super) fn choice(self, read: fn(&TrainConfig) -> Option<T>, write: fn(&mut TrainConfig, T)) -> Self {
        Self { place: Place::Choice(read, write), ..self }
    }

    /// It may stay without a value.
    pub(super) fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// A run that goes on may change it: it has no influence on the result.
    pub(super) fn free_on_resume(self) -> Self {
        Self { is_free_on_resume: true, ..self }
    }

    /// What it needs to have an effect (`config/idle.rs`).
    pub(super) fn needs(self, needs: &'static [Needs]) -> Self {
        Self { needs, ..self }
    }

    /// The bare name means this; a value follows it behind `=`.
    pub(super) fn bare(self, word: &'static str) -> Self {
        self.show(|shown| shown.bare = Some(word))
    }

    /// A value may follow it behind a space as well, although the bare name has a meaning.
    pub(super) fn may_stand_apart(self) -> Self {
        self.show(|shown| shown.may_stand_apart = true)
    }

    /// The help names the words, so that a list of them would say the same once more.
    pub(super) fn words_in_help(self) -> Self {
        self.show(|shown| shown.has_words_in_help = true)
    }

    /// It is shown behind this option. Files keep the order of the table.
    pub(super) fn shown_after(self, name: &'static str) -> Self {
        self.show(|shown| shown.after = Some(name))
    }

    fn show(mut self, change: impl FnOnce(&mut Shown)) -> Self {
        if let Some(shown) = &mut self.shown {
            change(shown);
        }
        self
    }
}

impl<T: Value> Row<T> {
    /// The value if it is one that the option accepts, as it is written into files.
    pub(super) fn checked(&self, option: &'static str, value: Option<T>) -> Result<Option<T>, ConfigError> {
        let Some(value) = value else {
            let expected = self.range.as_ref().map_or("a value", |range| range.expected);
            let missing = ConfigError::Missing { option, expected };
            return if self.is_optional { Ok(None) } else { Err(missing) };
        };
        match &self.range {
            Some(range) if !value.is_usable() || !(range.accepts)(&value) => {
                Err(ConfigError::Range { option, expected: range.expected, found: value.to_text() })
            }
            _ => value.for_files(option).map(Some),
        }
    }

    /// Writes a value to its place.
    pub(super) fn write(&self, value: Option<T>, config: &mut TrainConfig) {
        match (&self.place, value) {
            (Place::Optional(place), value) => *place(config) = value,
            (_, None) | (Place::Nowhere, _) => {}
            (Place::Field(place), Some(value)) => *place(config) = value,
            (Place::Part(place), Some(value)) => {
                if let Some(field) = place(config) {
                    *field = value;
                }
            }
            (Place::Choice(_, write), Some(value)) => write(config, value),
        }
    }

    /// Reads the value from its place, which nothing is written to.
    pub(super) fn read(&self, config: &mut TrainConfig) -> Option<T> {
        match &self.place {
            Place::Nowhere => None,
            Place::Field(place) => Some(place(config).clone()),
            Place::Part(place) => place(config).cloned(),
            Place::Optional(place) => place(config).clone(),
            Place::Choice(read, _) => read(config),
        }
    }

    /// What faces show. `help` is the comment of the option, a space before each line.
    pub(super) fn info(&self, name: &'static str, help: &str) -> OptionInfo {
        let help = help.trim();
        OptionInfo {
            name,
            help: help.strip_suffix('.').unwrap_or(help).to_owned(),
            shown: self.shown.map(|shown| Shown { bare: shown.bare.or(T::FORM.bare()), ..shown }),
            form: T::FORM,
            expected: self
                .range
                .as_ref()
                .map_or_else(|| T::FORM.expected(), |range| range.expected.to_owned()),
            is_free_on_resume: self.is_free_on_resume,
            check: |text| T::from_text(OsStr::new(text)).map(|_| ()),
        }
    }
}
