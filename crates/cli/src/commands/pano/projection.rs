//! Arguments for the projection of input images, shared by the sub-commands of `pano`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::panos::{ProjectionOptions, SourceProjection};
use gausset_pano::cube::{Face, StripOrder};

/// Arguments for the projection of input images.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ProjectionArgs {
    /// Projection of the input: equirect|cross|strip|faces [default: by aspect ratio].
    #[arg(
        long, value_name = "SHAPE", hide_possible_values = true, help_heading = "Frames",
        value_parser = PossibleValuesParser::new(SourceProjection::ALL.map(SourceProjection::name)).map(|name| {
            SourceProjection::ALL.into_iter().find(|shape| shape.name() == name).unwrap_or(SourceProjection::Equirect)
        })
    )]
    from: Option<SourceProjection>,
    /// Strip: order of its faces, row by row; r, l, u, d, f, b = right, left, up, down, front, back [default: rludfb].
    #[arg(long, value_name = "ORDER", help_heading = "Frames", value_parser = parse_faces)]
    from_faces: Option<[Face; 6]>,
    /// Strip: clockwise quarter turns of each face [default: 000000].
    #[arg(long, value_name = "TURNS", help_heading = "Frames", value_parser = parse_turns)]
    from_turns: Option<[u8; 6]>,
}

impl ProjectionArgs {
    pub(crate) fn options(&self) -> ProjectionOptions {
        ProjectionOptions { from: self.from, faces: self.from_faces, turns: self.from_turns }
    }
}

pub(crate) fn parse_faces(text: &str) -> Result<[Face; 6], String> {
    StripOrder::parse_faces(text)
        .ok_or_else(|| format!("expected each of the letters rludfb once, found `{text}`"))
}

pub(crate) fn parse_turns(text: &str) -> Result<[u8; 6], String> {
    StripOrder::parse_turns(text).ok_or_else(|| format!("expected six digits 0 to 3, found `{text}`"))
}
