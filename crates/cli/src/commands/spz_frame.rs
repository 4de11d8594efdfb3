//! The axes of SPZ files: one argument of all commands that read splats.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_io::splat::SpzAxes;
use gausset_train::SpzFrame;

/// Axes of SPZ files.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SpzFrameArgs {
    /// Axes of an SPZ, unless the file specifies them: as-is (as in PLY) or rub (x right, y up, z back) [default: as-is].
    #[arg(
        long, value_name = "AXES", hide_possible_values = true, ignore_case = true,
        value_parser = PossibleValuesParser::new(SpzFrame::WORDS)
            .try_map(|word| word.to_ascii_lowercase().parse::<SpzFrame>())
    )]
    spz_frame: Option<SpzFrame>,
}

impl SpzFrameArgs {
    /// The axes, if they were given.
    pub(crate) fn axes(self) -> Option<SpzAxes> {
        self.spz_frame.map(SpzAxes::from)
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn axes_are_read_in_any_case() {
        for (text, axes) in [("RUB", SpzAxes::Rub), ("rub", SpzAxes::Rub), ("As-Is", SpzAxes::AsIs)] {
            let command = SpzFrameArgs::augment_args(clap::Command::new("x").no_binary_name(true));
            let matches = command.try_get_matches_from(["--spz-frame", text]).unwrap();
            let args = SpzFrameArgs::from_arg_matches(&matches).unwrap();
            assert_eq!(args.axes(), Some(axes), "{text}");
        }
    }
}
