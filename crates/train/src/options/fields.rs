//! What is made of the table of options ([`super::table`]): [`super::TrainOptions`], and what is done field by field.

/// Makes of the table of options what has to know all of them: the struct with a field for each, and what is done
/// field by field.
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
            use crate::options::row::Row;

            $(pub(super) fn $name() -> Row<$type> {
                $row
            })+
        }

        impl TrainOptions {
            /// The long names of all options, in the order of files.
            pub fn keys() -> impl Iterator<Item = &'static str> {
                [$(key!($name)),+].into_iter()
            }

            /// All options as faces show them, in the order of files.
            #[must_use]
            pub fn table() -> Vec<OptionInfo> {
                vec![$(row_of::$name().info(key!($name), concat!($($help),+))),+]
            }

            /// What the option of this long name needs to have an effect.
            pub(crate) fn needs(key: &str) -> &'static [Needs] {
                $(if key == key!($name) {
                    return row_of::$name().needs;
                })+
                &[]
            }

            /// What happens where neither somebody nor a preset says anything.
            pub(crate) fn from_table() -> Self {
                Self { $($name: row_of::$name().default,)+ }
            }

            /// What `self` says, and where it says nothing, what `lower` says.
            #[must_use]
            pub fn or(self, lower: Self) -> Self {
                Self { $($name: self.$name.or(lower.$name),)+ }
            }

            /// What `self` says otherwise than `other`.
            pub(crate) fn otherwise_than(self, other: &Self) -> Self {
                Self { $($name: self.$name.filter(|value| other.$name.as_ref() != Some(value)),)+ }
            }

            /// Whether the option of this long name is given.
            pub(crate) fn gives(&self, key: &str) -> bool {
                $((key == key!($name) && self.$name.is_some()))||+
            }

            /// Takes the option of this long name back.
            pub fn clear(&mut self, key: &str) {
                $(if key == key!($name) {
                    self.$name = None;
                })+
            }

            /// Gives the option of this long name what somebody has typed.
            ///
            /// # Errors
            /// No such option, or a value of another form, as `expected a number, found `x``.
            pub fn set(&mut self, key: &str, text: &OsStr) -> Result<(), crate::options::SetError> {
                $(if key == key!($name) {
                    self.$name = Some(Value::from_text(text)?);
                    return Ok(());
                })+
                Err(crate::options::SetError::NoSuchOption(key.to_owned()))
            }

            /// The options that are paths, given or not.
            pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut Option<PathBuf>> {
                [$(Value::as_path(&mut self.$name)),+].into_iter().flatten()
            }

            /// The same as files hold it, if all that must be given is and every value is in its range.
            pub(crate) fn checked(self) -> Result<Self, ConfigError> {
                Ok(Self { $($name: row_of::$name().checked(key!($name), self.$name)?,)+ })
            }

            /// Writes every option to its place in a configuration.
            pub(crate) fn write_to(self, config: &mut TrainConfig) {
                $(row_of::$name().write(self.$name, config);)+
            }

            /// Reads every option from its place in a configuration, which stays as it is.
            pub(crate) fn read_from(config: &mut TrainConfig) -> Self {
                Self { $($name: row_of::$name().read(config),)+ }
            }
        }
    };
}
pub(super) use options;

/// The long name of an option, which is that of its field with dashes, as a constant.
macro_rules! key {
    ($field:ident) => {{
        const DASHED: [u8; stringify!($field).len()] = $crate::options::fields::dashed(stringify!($field));
        const KEY: &str = match str::from_utf8(&DASHED) {
            Ok(key) => key,
            Err(_) => stringify!($field),
        };
        KEY
    }};
}
pub(super) use key;

/// A name with dashes for underscores.
pub(super) const fn dashed<const LENGTH: usize>(name: &str) -> [u8; LENGTH] {
    let mut bytes = [b'-'; LENGTH];
    let mut at = 0;
    while at < LENGTH {
        let byte = name.as_bytes()[at];
        bytes[at] = if byte == b'_' { b'-' } else { byte };
        at += 1;
    }
    bytes
}
