//! A row of the table of options: the properties of one option besides name, type and help.
//!
//! Rows are built in [`super::table`], the single source for everything that lists all options: defaults, ranges and
//! their error messages, conversion to and from a [`TrainConfig`], options that may change on resume, and what front
//! ends show ([`OptionInfo`]), such as command-line arguments and the documentation page.

use std::ffi::OsStr;

use super::value::{OptionValue, ValueSyntax};
use crate::config::{ConfigError, Requirement, TrainConfig};
use crate::option_values::ParseValueError;

/// The heading under which help and documentation list an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionHeading {
    /// Images and how they are read.
    Data,
    /// Length and quality of the run, and when files are written.
    Run,
    /// Threads and memory.
    Machine,
    /// Number and properties of splats.
    Model,
    /// Corrections of colours and poses.
    Corrections,
    /// Details of the initial splats.
    Start,
    /// Details of the loss and the learning rates.
    Loss,
    /// Details of density control.
    Density,
}

impl OptionHeading {
    /// The text of the heading.
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

/// How a front end shows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presentation {
    /// The heading under which it is listed.
    pub heading: OptionHeading,
    /// Placeholder of its value: `N`, `SHARE`.
    pub value_name: &'static str,
    /// Whether its help text already lists the accepted words.
    pub has_words_in_help: bool,
    /// The value of the option name without a value.
    pub bare: Option<&'static str>,
    /// Whether its value may follow after a space, although the bare name has a meaning.
    pub may_stand_apart: bool,
    /// The option after which it is listed, if that is not the preceding one in files.
    pub after: Option<&'static str>,
}

/// An option as front ends see it: command line, documentation.
#[derive(Clone, Debug)]
pub struct OptionInfo {
    /// Long name, which is also the key in files.
    pub name: &'static str,
    /// Help text without a full stop.
    pub help: String,
    /// How it is shown; `None` for the dataset, which every front end treats separately, and for what only files hold,
    /// such as the plan.
    pub shown: Option<Presentation>,
    /// Syntax of its values.
    pub form: ValueSyntax,
    /// Description of the accepted values.
    pub expected: String,
    /// Whether a resumed run may change it, because it has no influence on the result.
    pub is_free_on_resume: bool,
    /// Checks the syntax of a value. The error reads `expected a number, found `x``.
    pub check: fn(&str) -> Result<(), ParseValueError>,
}

/// The subset of values of a type that an option accepts.
#[derive(Debug)]
pub(crate) struct ValueRange<T> {
    expected: &'static str,
    accepts: fn(&T) -> bool,
}

impl<T> ValueRange<T> {
    pub(super) const fn new(expected: &'static str, accepts: fn(&T) -> bool) -> Self {
        Self { expected, accepts }
    }
}

/// Where a configuration stores the value of an option.
enum Storage<T> {
    Nowhere,
    Field(fn(&mut TrainConfig) -> &mut T),
    /// In a part that only some configurations have.
    Part(fn(&mut TrainConfig) -> Option<&mut T>),
    Optional(fn(&mut TrainConfig) -> &mut Option<T>),
    /// The value decides which parts exist, or is stored in another form.
    Choice(fn(&TrainConfig) -> Option<T>, fn(&mut TrainConfig, T)),
}

/// A row of the table.
pub(super) struct OptionRow<T> {
    shown: Option<Presentation>,
    pub(super) default: Option<T>,
    range: Option<ValueRange<T>>,
    place: Storage<T>,
    is_optional: bool,
    pub(super) is_free_on_resume: bool,
    pub(super) needs: &'static [Requirement],
}

/// An option that front ends do not list among the others.
pub(super) fn unlisted<T>() -> OptionRow<T> {
    OptionRow {
        shown: None,
        default: None,
        range: None,
        place: Storage::Nowhere,
        is_optional: false,
        is_free_on_resume: false,
        needs: &[],
    }
}

/// An option that front ends list.
pub(super) fn listed<T>(heading: OptionHeading, value_name: &'static str) -> OptionRow<T> {
    let shown = Presentation {
        heading,
        value_name,
        has_words_in_help: false,
        bare: None,
        may_stand_apart: false,
        after: None,
    };
    OptionRow { shown: Some(shown), ..unlisted() }
}

impl<T> OptionRow<T> {
    /// Sets the default value. Options without one get it from presets (`config/defaults.rs`).
    pub(super) fn default(self, value: T) -> Self {
        Self { default: Some(value), ..self }
    }

    /// Which values are accepted.
    pub(super) fn range(self, range: ValueRange<T>) -> Self {
        Self { range: Some(range), ..self }
    }

    /// Sets the field of the configuration that stores the value.
    pub(super) fn field(self, place: fn(&mut TrainConfig) -> &mut T) -> Self {
        Self { place: Storage::Field(place), ..self }
    }

    /// Sets a field in a part that only some configurations have. If the part is missing, the value is dropped. Options
    /// that decide which parts exist must come before the options of these parts.
    pub(super) fn section_field(self, place: fn(&mut TrainConfig) -> Option<&mut T>) -> Self {
        Self { place: Storage::Part(place), ..self }
    }

    /// Sets the field of an option that may have no value.
    pub(super) fn optional_field(self, place: fn(&mut TrainConfig) -> &mut Option<T>) -> Self {
        Self { place: Storage::Optional(place), is_optional: true, ..self }
    }

    /// Sets the functions that read the value from a configuration and apply it.
    pub(super) fn accessors(
        self,
        read: fn(&TrainConfig) -> Option<T>,
        write: fn(&mut TrainConfig, T),
    ) -> Self {
        Self { place: Storage::Choice(read, write), ..self }
    }

    /// Allows the option to have no value.
    pub(super) fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Allows a resumed run to change the option, because it has no influence on the result.
    pub(super) fn may_change_on_resume(self) -> Self {
        Self { is_free_on_resume: true, ..self }
    }

    /// Sets the conditions under which the option has an effect (`config/ineffective.rs`).
    pub(super) fn needs(self, needs: &'static [Requirement]) -> Self {
        Self { needs, ..self }
    }

    /// Sets the value of the bare option name. Other values then follow after `=`.
    pub(super) fn bare_value(self, word: &'static str) -> Self {
        self.show(|shown| shown.bare = Some(word))
    }

    /// Allows a value after a space, although the bare name has a meaning.
    pub(super) fn allow_space(self) -> Self {
        self.show(|shown| shown.may_stand_apart = true)
    }

    /// Marks that the help text lists the accepted words, so that front ends do not repeat them.
    pub(super) fn help_lists_words(self) -> Self {
        self.show(|shown| shown.has_words_in_help = true)
    }

    /// Lists the option after another one in the help. Files keep the order of the table.
    pub(super) fn shown_after(self, name: &'static str) -> Self {
        self.show(|shown| shown.after = Some(name))
    }

    fn show(mut self, change: impl FnOnce(&mut Presentation)) -> Self {
        if let Some(shown) = &mut self.shown {
            change(shown);
        }
        self
    }
}

impl<T: OptionValue> OptionRow<T> {
    /// Checks the range of a value. Returns it in the form in which files store it.
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
            _ => value.to_file_value(option).map(Some),
        }
    }

    /// Writes the value to the configuration.
    pub(super) fn write(&self, value: Option<T>, config: &mut TrainConfig) {
        match (&self.place, value) {
            (Storage::Optional(place), value) => *place(config) = value,
            (_, None) | (Storage::Nowhere, _) => {}
            (Storage::Field(place), Some(value)) => *place(config) = value,
            (Storage::Part(place), Some(value)) => {
                if let Some(field) = place(config) {
                    *field = value;
                }
            }
            (Storage::Choice(_, write), Some(value)) => write(config, value),
        }
    }

    /// Reads the value from the configuration, which is not changed.
    pub(super) fn read(&self, config: &mut TrainConfig) -> Option<T> {
        match &self.place {
            Storage::Nowhere => None,
            Storage::Field(place) => Some(place(config).clone()),
            Storage::Part(place) => place(config).cloned(),
            Storage::Optional(place) => place(config).clone(),
            Storage::Choice(read, _) => read(config),
        }
    }

    /// The option as front ends see it. `help` is the doc comment of the option, with a space before each line.
    pub(super) fn info(&self, name: &'static str, help: &str) -> OptionInfo {
        let help = help.trim();
        OptionInfo {
            name,
            help: help.strip_suffix('.').unwrap_or(help).to_owned(),
            shown: self.shown.map(|shown| Presentation { bare: shown.bare.or(T::SYNTAX.bare()), ..shown }),
            form: T::SYNTAX,
            expected: self
                .range
                .as_ref()
                .map_or_else(|| T::SYNTAX.expected(), |range| range.expected.to_owned()),
            is_free_on_resume: self.is_free_on_resume,
            check: |text| T::from_text(OsStr::new(text)).map(|_| ()),
        }
    }
}
