//! Option names of other programs, for hints to users who type them.

use crate::usage::is_misspelt;

/// Option names of the released 3DGS code (Kerbl et al. 2023), gsplat, Nerfstudio, Brush, OpenSplat and
/// splat-transform, without dashes and with `-` for `_`, each with the equivalent of Gausset.
const OPTION_NAMES: &[(&str, Equivalent)] = &[
    ("iterations", Equivalent::Option("steps")),
    ("iters", Equivalent::Option("steps")),
    ("num-iters", Equivalent::Option("steps")),
    ("num-iterations", Equivalent::Option("steps")),
    ("max-num-iterations", Equivalent::Option("steps")),
    ("max-steps", Equivalent::Option("steps")),
    ("num-steps", Equivalent::Option("steps")),
    ("total-steps", Equivalent::Option("steps")),
    ("total-train-iters", Equivalent::Option("steps")),
    ("epochs", Equivalent::Option("steps")),
    ("source-path", Equivalent::Data),
    ("source", Equivalent::Data),
    ("s", Equivalent::Data),
    ("data", Equivalent::Data),
    ("data-dir", Equivalent::Data),
    ("dataset", Equivalent::Data),
    ("input", Equivalent::Data),
    ("model-path", Equivalent::Option("output")),
    ("m", Equivalent::Option("output")),
    ("result-dir", Equivalent::Option("output")),
    ("output-dir", Equivalent::Option("output")),
    ("output-path", Equivalent::Option("output")),
    ("out", Equivalent::Option("output")),
    ("resolution", Equivalent::Option("max-resolution")),
    ("r", Equivalent::Option("max-resolution")),
    ("downscale", Equivalent::Option("max-resolution")),
    ("downscale-factor", Equivalent::Option("max-resolution")),
    ("data-factor", Equivalent::Option("max-resolution")),
    ("resize", Equivalent::Option("max-resolution")),
    ("cap-max", Equivalent::Option("max-splats")),
    ("max-gaussians", Equivalent::Option("max-splats")),
    ("max-num-splats", Equivalent::Option("max-splats")),
    ("init-num-pts", Equivalent::Option("initial-splats")),
    ("white-background", Equivalent::Value("background", "white")),
    ("images-path", Equivalent::Option("images")),
    ("eval", Equivalent::Option("test-every")),
    ("holdout", Equivalent::Option("test-every")),
    ("eval-split-every", Equivalent::Option("test-every")),
    ("llffhold", Equivalent::Option("test-every")),
    ("lambda-dssim", Equivalent::Option("dssim-weight")),
    ("ssim-lambda", Equivalent::Option("dssim-weight")),
    ("ssim-weight", Equivalent::Option("dssim-weight")),
    ("position-lr-init", Equivalent::Option("lr-means")),
    ("position-lr-final", Equivalent::Option("lr-means-final")),
    ("means-lr", Equivalent::Option("lr-means")),
    ("lr-mean", Equivalent::Option("lr-means")),
    ("scaling-lr", Equivalent::Option("lr-scales")),
    ("scales-lr", Equivalent::Option("lr-scales")),
    ("rotation-lr", Equivalent::Option("lr-quats")),
    ("quats-lr", Equivalent::Option("lr-quats")),
    ("opacity-lr", Equivalent::Option("lr-opacities")),
    ("feature-lr", Equivalent::Option("lr-sh-dc")),
    ("densify-grad-threshold", Equivalent::Option("grow-gradient")),
    ("grow-grad2d", Equivalent::Option("grow-gradient")),
    ("densify-from-iter", Equivalent::Option("density-from")),
    ("densify-until-iter", Equivalent::Option("density-until")),
    ("densification-interval", Equivalent::Option("density-every")),
    ("refine-every", Equivalent::Option("density-every")),
    ("opacity-reset-interval", Equivalent::Option("opacity-reset-every")),
    ("opacity-reg", Equivalent::Option("opacity-regularisation")),
    ("scale-reg", Equivalent::Option("scale-regularisation")),
    ("test-iterations", Equivalent::Option("eval-every")),
    ("save-iterations", Equivalent::Option("export-every")),
    ("checkpoint-iterations", Equivalent::Option("checkpoint-every")),
    ("save-every", Equivalent::Option("export-every")),
    ("ply-steps", Equivalent::Option("export-every")),
    ("start-checkpoint", Equivalent::Option("resume")),
    ("load-checkpoint", Equivalent::Option("resume")),
    ("load-dir", Equivalent::Option("resume")),
    ("ckpt", Equivalent::Option("resume")),
    ("pose-opt", Equivalent::Option("refine-poses")),
    ("camera-optimizer", Equivalent::Option("refine-poses")),
    ("app-opt", Equivalent::Option("exposure")),
    ("random-bkgd", Equivalent::Option("random-background")),
    ("num-threads", Equivalent::Option("threads")),
    ("jobs", Equivalent::Option("threads")),
    ("cpu", Equivalent::Value("device", "cpu")),
    ("gpu", Equivalent::Option("device")),
    ("cuda", Equivalent::Option("device")),
    ("max-sh-degree", Equivalent::Option("sh-degree")),
    ("filter-bands", Equivalent::Option("sh-degree")),
    ("filter-harmonics", Equivalent::Option("sh-degree")),
    ("filter-box", Equivalent::Option("box")),
    ("filter-sphere", Equivalent::Option("sphere")),
    ("filter-value", Equivalent::Option("min-opacity")),
    ("filter-floaters", Equivalent::Option("drop-far")),
    ("morton-order", Equivalent::Option("morton")),
    ("near", Equivalent::Option("near-plane")),
    ("with-viewer", Equivalent::Option("viewer")),
];

/// The equivalent of another program's option in Gausset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Equivalent {
    /// An option, without its dashes.
    Option(&'static str),
    /// An option, without its dashes, and its value.
    Value(&'static str, &'static str),
    /// The dataset, which is a positional argument.
    Data,
}

/// The option or argument of `command` that corresponds to an unknown option, as typed; `None` if there is none.
pub(crate) fn equivalent_of(command: &clap::Command, typed: &str) -> Option<String> {
    let word = word_of(typed)?;
    let (_, here) = OPTION_NAMES.iter().find(|(foreign, _)| *foreign == word)?;
    in_command(command, here)
}

/// The same for an option with a few other letters.
pub(crate) fn near_equivalent_of(command: &clap::Command, typed: &str) -> Option<String> {
    let word = word_of(typed)?;
    let near = OPTION_NAMES.iter().filter(|(foreign, _)| is_misspelt(&word, foreign));
    near.filter_map(|(_, here)| in_command(command, here)).next()
}

/// The name of an option as typed, in the form of [`OPTION_NAMES`].
fn word_of(typed: &str) -> Option<String> {
    Some(typed.trim_start_matches('-').split('=').next()?.to_lowercase().replace(['_', '.'], "-"))
}

fn in_command(command: &clap::Command, here: &Equivalent) -> Option<String> {
    let has = |name: &str| command.get_arguments().any(|argument| argument.get_long() == Some(name));
    match here {
        Equivalent::Option(name) if has(name) => Some(format!("--{name}")),
        Equivalent::Value(name, value) if has(name) => Some(format!("--{name} {value}")),
        Equivalent::Data => {
            let first = command.get_positionals().next()?;
            let names: Vec<String> = first.get_value_names()?.iter().map(ToString::to_string).collect();
            Some(format!("{}, given without an option name", names.join(" ")))
        }
        Equivalent::Option(_) | Equivalent::Value(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_programs_lead_to_options_that_exist_and_shadow_none() {
        let definition = crate::cli::definition();
        let commands: Vec<&clap::Command> = definition.get_subcommands().collect();
        for (foreign, known) in OPTION_NAMES {
            if let Equivalent::Option(name) | Equivalent::Value(name, _) = known {
                let knows = |command: &&clap::Command| equivalent_of(command, foreign).is_some();
                assert!(*name == "viewer" || commands.iter().any(knows), "{foreign}: {name}");
            }
        }
        let train = definition.find_subcommand("train").unwrap();
        assert_eq!(equivalent_of(train, "--iterations=30000").as_deref(), Some("--steps"));
        assert_eq!(equivalent_of(train, "--data_factor").as_deref(), Some("--max-resolution"));
        assert_eq!(equivalent_of(train, "-s").as_deref(), Some("DATA, given without an option name"));
        assert_eq!(equivalent_of(train, "--white_background").as_deref(), Some("--background white"));
        assert_eq!(equivalent_of(train, "--nonsense"), None);
        assert_eq!(near_equivalent_of(train, "--itertions").as_deref(), Some("--steps"));
        assert_eq!(near_equivalent_of(train, "--nonsense"), None);
        let render = definition.find_subcommand("render").unwrap();
        assert_eq!(equivalent_of(render, "--iterations"), None);
    }
}
