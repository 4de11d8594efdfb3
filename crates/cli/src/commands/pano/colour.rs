//! Arguments for colour adjustments, shared by the sub-commands of `pano`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::panos::ColourOptions;
use gausset_pano::equalise::Equalise;
use gausset_pano::look::ColourSettings;

/// Arguments for colour adjustments.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ColourArgs {
    /// Colour adjustments KEY=VALUE,...: exposure (stops), and from -100 to 100 warmth, tint, brightness, contrast,
    /// highlights, shadows, black, saturation, vibrance.
    #[arg(long, value_name = "SETTINGS", help_heading = "Colours", allow_hyphen_values = true, value_parser = parse_look)]
    look: Option<ColourSettings>,
    /// Colour lookup table (.cube), applied after --look.
    #[arg(long, value_name = "FILE", help_heading = "Colours")]
    lut: Option<PathBuf>,
    /// Equalise exposure and white balance: off, lenses (the two of a frame) or frames [default: lenses, if there are
    /// two].
    #[arg(
        long, value_name = "WHAT", hide_possible_values = true, help_heading = "Colours",
        value_parser = PossibleValuesParser::new(Equalise::ALL.map(Equalise::name)).map(|name| {
            Equalise::ALL.into_iter().find(|what| what.name() == name).unwrap_or_default()
        })
    )]
    equalise: Option<Equalise>,
}

impl ColourArgs {
    pub(crate) fn options(&self) -> ColourOptions {
        ColourOptions { look: self.look.unwrap_or_default(), lut: self.lut.clone(), equalise: self.equalise }
    }
}

pub(crate) fn parse_look(text: &str) -> Result<ColourSettings, String> {
    ColourSettings::parse(text).map_err(|e| e.to_string())
}
