//! The options of footage commands, as one table (`table`).
//!
//! A row is an argument with its help, the key in records and messages, the value name, the default, the accepted values
//! and the level of help. Everything that lists options derives from the rows: the structs that jobs take, the arguments
//! of the command line, the record that decides whether earlier results still apply, and the reference page.

mod row;
mod table;
mod value;
mod words;

pub use row::{HelpLevel, OptionGroup, OptionInfo, ValueCheck};
pub use table::{
    ColourOptions, FrameMaskOptions, FrameOptions, LensViewOptions, MaskEngine, MaskingOptions,
    ProjectionOptions, SelectionOptions, TrainViewOptions, ViewOptions, all_options,
};
pub use value::{OptionValue, ValueError, ValueSyntax};
pub use words::{LensWords, StereoLayout};
