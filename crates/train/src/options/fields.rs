//! The macro that generates [`super::TrainOptions`] and its methods from the table of options ([`super::table`]).

/// Generates the struct with a field per option, and the methods that process all options.
macro_rules! options {
    ($($(#[doc = $help:literal])+ $name:ident: $type:ty = $row:expr;)+) => {
        /// Options of a training run as given by one source; `None` = not given.
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct TrainOptions {
            $(
                $(#[doc = $help])+
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )+
        }

        /// The row of each option.
        mod row_of {
            use super::*;
            use crate::options::row::OptionRow;

            $(pub(super) fn $name() -> OptionRow<$type> {
                $row
            })+
        }

        impl TrainOptions {
            /// The long names of all options, in the order of files.
            pub fn keys() -> impl Iterator<Item = &'static str> {
                [$(key!($name)),+].into_iter()
            }

            /// All options as front ends show them, in the order of files.
            #[must_use]
            pub fn table() -> Vec<OptionInfo> {
                vec![$(row_of::$name().info(key!($name), concat!($($help),+))),+]
            }

            /// The conditions under which the option of this long name has an effect.
            pub(crate) fn needs(key: &str) -> &'static [Requirement] {
                $(if key == key!($name) {
                    return row_of::$name().needs;
                })+
                &[]
            }

            /// The default values of the table, for options that neither the user nor a preset sets.
            pub(crate) fn from_table() -> Self {
                Self { $($name: row_of::$name().default,)+ }
            }

            /// What `self` says, and where it says nothing, what `lower` says.
            #[must_use]
            pub fn or(self, lower: Self) -> Self {
                Self { $($name: self.$name.or(lower.$name),)+ }
            }

            /// The options of `self` that differ from those of `other`.
            pub(crate) fn otherwise_than(self, other: &Self) -> Self {
                Self { $($name: self.$name.filter(|value| other.$name.as_ref() != Some(value)),)+ }
            }

            /// Whether the option of this long name is given.
            pub(crate) fn gives(&self, key: &str) -> bool {
                $((key == key!($name) && self.$name.is_some()))||+
            }

            /// Unsets the option of this long name.
            pub fn clear(&mut self, key: &str) {
                $(if key == key!($name) {
                    self.$name = None;
                })+
            }

            /// Sets the option of this long name from text.
            ///
            /// # Errors
            /// There is no such option, or the text is malformed: `expected a number, found `x``.
            pub fn set(&mut self, key: &str, text: &OsStr) -> Result<(), crate::options::SetError> {
                $(if key == key!($name) {
                    self.$name = Some(OptionValue::from_text(text)?);
                    return Ok(());
                })+
                Err(crate::options::SetError::NoSuchOption(key.to_owned()))
            }

            /// The options that are paths, given or not.
            pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut Option<PathBuf>> {
                [$(OptionValue::as_path(&mut self.$name)),+].into_iter().flatten()
            }

            /// Checks that all required options are set and all values are in range. Returns the options as files store
            /// them.
            pub(crate) fn checked(self) -> Result<Self, ConfigError> {
                Ok(Self { $($name: row_of::$name().checked(key!($name), self.$name)?,)+ })
            }

            /// Writes every option to a configuration.
            pub(crate) fn write_to(self, config: &mut TrainConfig) {
                $(row_of::$name().write(self.$name, config);)+
            }

            /// Reads every option from a configuration, which is not changed.
            pub(crate) fn read_from(config: &mut TrainConfig) -> Self {
                Self { $($name: row_of::$name().read(config),)+ }
            }
        }
    };
}
pub(super) use options;

/// The long name of an option as a constant: the name of its field with dashes.
macro_rules! key {
    ($field:ident) => {{
        const DASHED: [u8; stringify!($field).len()] =
            $crate::options::fields::with_dashes(stringify!($field));
        const KEY: &str = match str::from_utf8(&DASHED) {
            Ok(key) => key,
            Err(_) => stringify!($field),
        };
        KEY
    }};
}
pub(super) use key;

/// Replaces underscores by dashes.
pub(super) const fn with_dashes<const LENGTH: usize>(name: &str) -> [u8; LENGTH] {
    let mut bytes = [b'-'; LENGTH];
    let mut at = 0;
    while at < LENGTH {
        let byte = name.as_bytes()[at];
        bytes[at] = if byte == b'_' { b'-' } else { byte };
        at += 1;
    }
    bytes
}
