//! Options of footage as command-line arguments, generated from the table of options ([`gausset::footage_options`]).

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use gausset::footage_options::{OptionGroup, OptionInfo, OptionValue, ValueError, ValueSyntax};

/// The arguments of a group of options. An option that is not given has its default.
#[derive(Clone, Debug, Default)]
pub(crate) struct FootageArgs<G>(pub(crate) G);

impl<G: OptionGroup> Args for FootageArgs<G> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(G::table().into_iter().map(argument))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<G: OptionGroup> FromArgMatches for FootageArgs<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for OptionInfo { key, .. } in G::table() {
            if matches.value_source(key) != Some(ValueSource::CommandLine) {
                continue;
            }
            // Several values are those of the last time that the option was given.
            let occurrences = matches.get_raw_occurrences(key);
            let Some(texts) = occurrences.and_then(|mut all| all.next_back()) else { continue };
            let given = texts.collect::<Vec<_>>().join(OsStr::new(" "));
            // The argument parsers have already accepted a single text.
            let set = self.0.set(key, &given).unwrap_or(Ok(()));
            set.map_err(|what| clap::Error::raw(clap::error::ErrorKind::InvalidValue, what))?;
        }
        Ok(())
    }
}

/// The command-line argument of an option.
fn argument(option: OptionInfo) -> Arg {
    let argument = Arg::new(option.key)
        .long(option.key)
        .help(option.help)
        .hide_possible_values(option.has_words_in_help)
        .allow_hyphen_values(option.allows_hyphen)
        .conflicts_with_all(option.conflicts);
    let argument = match option.heading {
        "" => argument,
        heading => argument.help_heading(heading),
    };
    let argument = match option.needs {
        Some(key) => argument.requires(key),
        None => argument,
    };
    let argument = match option.default {
        // Clap borrows defaults for the life of the program.
        Some(text) => argument.default_value(&*text.leak()),
        None => argument,
    };
    let check = option.check;
    let argument = match option.syntax {
        ValueSyntax::Flag => return argument.action(ArgAction::SetTrue),
        ValueSyntax::Whole { least, most } => {
            argument.value_parser(value_parser!(u32).range(i64::from(least)..=i64::from(most)))
        }
        ValueSyntax::Path => argument.value_parser(value_parser!(PathBuf)),
        ValueSyntax::Words(words) => argument.value_parser(PossibleValuesParser::new(words)),
        ValueSyntax::Text if option.value_name.contains(' ') => {
            let names: Vec<&str> = option.value_name.split(' ').collect();
            return argument.num_args(names.len()).value_names(names);
        }
        ValueSyntax::Text => argument.value_parser(move |text: &str| check(text).map(|()| text.to_owned())),
    };
    argument.value_name(option.value_name)
}

/// Parses a value of an option that is declared outside of the table.
pub(crate) fn parse_value<T: OptionValue>(text: &str) -> Result<T, ValueError> {
    T::from_text(OsStr::new(text))
}

#[cfg(test)]
mod tests {
    use gausset::footage_options::{FrameMaskOptions, FrameOptions, all_options};
    use gausset::mask_engine::EngineKind;

    use super::*;

    fn parse<G: OptionGroup>(arguments: &[&str]) -> Result<G, String> {
        let mut command = FootageArgs::<G>::augment_args(clap::Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from_mut(arguments);
        let parsed = matches.and_then(|matches| FootageArgs::<G>::from_arg_matches(&matches));
        parsed.map(|args| args.0).map_err(|error| crate::usage::format_error(&error, &command))
    }

    #[test]
    fn arguments_set_the_options_of_their_table() {
        assert_eq!(parse::<FrameOptions>(&[]).unwrap(), FrameOptions::default());
        let frames: FrameOptions = parse(&["--every", "3", "--end", "9.5", "--lens", "a.json"]).unwrap();
        let expected =
            FrameOptions { every: 3, end: Some(9.5), lens: Some("a.json".into()), ..FrameOptions::default() };
        assert_eq!(frames, expected);
        let frames: FrameOptions = parse(&["--lens", "a.json", "--pair", "left.jpg", "right"]).unwrap();
        assert_eq!(frames.pair.map(|pair| pair.0), Some(["left", "right"].map(str::to_owned)));
        let frames: FrameOptions = parse(&["--lens", "a.json", "--pair", "-front", "-back"]).unwrap();
        assert_eq!(frames.pair.map(|pair| pair.0), Some(["-front", "-back"].map(str::to_owned)));
        assert!(parse::<FrameOptions>(&["--lens", "a.json", "--pair", "left", "left"]).is_err());
        assert!(parse::<FrameOptions>(&["--pair", "left", "right"]).is_err());
        let given = ["--crop-bottom", "35", "--still-patch", "--shadow", "--mask-engine", "onnxruntime"];
        let masks: FrameMaskOptions = parse(&given).unwrap();
        assert_eq!(masks.crop_bottom, 35.0);
        assert!(masks.removal.still_patch && masks.removal.shadow);
        assert_eq!(masks.removal.engine.kind, EngineKind::OnnxRuntime);
    }

    #[test]
    fn a_wrong_value_gives_the_line_of_its_row() {
        let line = |arguments: &[&str]| parse::<FrameOptions>(arguments).unwrap_err();
        assert_eq!(line(&["--every", "0"]), "--every: expected 1..4294967295, found `0`");
        assert_eq!(line(&["--step", "100"]), "--step: expected 0.1..90 degrees, found `100`");
        assert_eq!(line(&["--start", "x"]), "--start: expected a number, found `x`");
        assert_eq!(line(&["--from", "ball"]), "--from: expected equirect|cross|strip|faces, found `ball`");
        for clash in [&["--masks", "a", "--still-patch"][..], &["--shadow"], &["--temporal", "1"]] {
            assert!(parse::<FrameMaskOptions>(clash).is_err(), "{clash:?}");
        }
    }

    /// Generates docs/reference/footage-options.md, the reference of the options in the table.
    fn page() -> String {
        let mut page = String::from(
            "# Options of footage\n\n\
             Generated from the table of options (`crates/gausset/src/footage_options/table.rs`) by \
             `GAUSSET_BLESS=1 cargo test -p gausset-cli --lib footage`. `--help-all` of a command shows which of \
             them it takes; [360-degree footage](pano.md) and [masks](masks.md) explain them. An empty default means none.\n",
        );
        for heading in ["Frames", "Views", "Colours"] {
            page += &format!("\n## {heading}\n\n| option | values | default | |\n|---|---|---|---|\n");
            let mut listed = Vec::new();
            for option in all_options().into_iter().filter(|option| option.heading == heading) {
                let OptionInfo { key, value_name, help, default, expected, .. } = option;
                if listed.contains(&key) {
                    continue;
                }
                listed.push(key);
                let name = format!("--{key} {value_name}");
                let default = default.unwrap_or_default();
                let row = format!("`{}` \0 {expected} \0 {default} \0 {help}", name.trim_end());
                // An unescaped bar would end the table cell.
                page += &format!("| {} |\n", row.replace('|', "\\|").replace('\0', "|"));
            }
        }
        page
    }

    #[test]
    fn the_page_of_footage_options_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/footage-options.md");
        if std::env::var_os("GAUSSET_BLESS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            written,
            page(),
            "docs/reference/footage-options.md is out of date; its first paragraph says how to generate it"
        );
    }
}
