//! Options that say what pictures of the sphere look like: shared by the sub-commands of `pano`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_flow::panos::{ShapeChoice, SourceShape};
use gausset_pano::cube::{Face, Order};

/// What the pictures look like.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShapeArgs {
    /// What the pictures are: equirect|cross|strip|faces [default: by their shape].
    #[arg(
        long, value_name = "SHAPE", hide_possible_values = true, help_heading = "Frames",
        value_parser = PossibleValuesParser::new(SourceShape::ALL.map(SourceShape::name)).map(|name| {
            SourceShape::ALL.into_iter().find(|shape| shape.name() == name).unwrap_or(SourceShape::Equirect)
        })
    )]
    from: Option<SourceShape>,
    /// Strip: its faces, row by row, by their letters: right, left, up, down, front, back [default: rludfb].
    #[arg(long, value_name = "ORDER", help_heading = "Frames", value_parser = parse_faces)]
    from_faces: Option<[Face; 6]>,
    /// Strip: quarter turns clockwise of each of its faces [default: 000000].
    #[arg(long, value_name = "TURNS", help_heading = "Frames", value_parser = parse_turns)]
    from_turns: Option<[u8; 6]>,
}

impl ShapeArgs {
    pub(crate) fn options(&self) -> ShapeChoice {
        ShapeChoice { from: self.from, faces: self.from_faces, turns: self.from_turns }
    }
}

pub(crate) fn parse_faces(text: &str) -> Result<[Face; 6], String> {
    Order::faces_of(text).ok_or_else(|| format!("expected each of the letters rludfb once, found `{text}`"))
}

pub(crate) fn parse_turns(text: &str) -> Result<[u8; 6], String> {
    Order::turns_of(text).ok_or_else(|| format!("expected six digits 0 to 3, found `{text}`"))
}
