//! The parser of layout names, shared by several commands.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_pano::layout::Layout;

/// A parser for layout names.
pub(crate) fn layout_parser() -> impl TypedValueParser<Value = Layout> {
    // The name is always that of a layout here.
    PossibleValuesParser::new(Layout::ALL.map(Layout::name))
        .map(|name| Layout::from_name(&name).unwrap_or(Layout::Ring8))
}
