//! Option names of other programs, for hints to users who type them.

/// Option names of the released 3DGS code (Kerbl et al. 2023), gsplat, Nerfstudio, Brush, OpenSplat and
/// splat-transform, without dashes and with `-` for `_`, each with the equivalent of Gausset.
const WORDS: &[(&str, Here)] = &[
    ("iterations", Here::Option("steps")),
    ("iters", Here::Option("steps")),
    ("num-iters", Here::Option("steps")),
    ("num-iterations", Here::Option("steps")),
    ("max-num-iterations", Here::Option("steps")),
    ("max-steps", Here::Option("steps")),
    ("num-steps", Here::Option("steps")),
    ("total-steps", Here::Option("steps")),
    ("total-train-iters", Here::Option("steps")),
    ("epochs", Here::Option("steps")),
    ("source-path", Here::Data),
    ("source", Here::Data),
    ("s", Here::Data),
    ("data", Here::Data),
    ("data-dir", Here::Data),
    ("dataset", Here::Data),
    ("input", Here::Data),
    ("model-path", Here::Option("output")),
    ("m", Here::Option("output")),
    ("result-dir", Here::Option("output")),
    ("output-dir", Here::Option("output")),
    ("output-path", Here::Option("output")),
    ("out", Here::Option("output")),
    ("resolution", Here::Option("max-resolution")),
    ("r", Here::Option("max-resolution")),
    ("downscale", Here::Option("max-resolution")),
    ("downscale-factor", Here::Option("max-resolution")),
    ("data-factor", Here::Option("max-resolution")),
    ("resize", Here::Option("max-resolution")),
    ("cap-max", Here::Option("max-splats")),
    ("max-gaussians", Here::Option("max-splats")),
    ("max-num-splats", Here::Option("max-splats")),
    ("init-num-pts", Here::Option("initial-splats")),
    ("white-background", Here::Value("background", "white")),
    ("images-path", Here::Option("images")),
    ("eval", Here::Option("test-every")),
    ("holdout", Here::Option("test-every")),
    ("eval-split-every", Here::Option("test-every")),
    ("llffhold", Here::Option("test-every")),
    ("lambda-dssim", Here::Option("dssim-weight")),
    ("ssim-lambda", Here::Option("dssim-weight")),
    ("ssim-weight", Here::Option("dssim-weight")),
    ("position-lr-init", Here::Option("lr-means")),
    ("position-lr-final", Here::Option("lr-means-final")),
    ("means-lr", Here::Option("lr-means")),
    ("lr-mean", Here::Option("lr-means")),
    ("scaling-lr", Here::Option("lr-scales")),
    ("scales-lr", Here::Option("lr-scales")),
    ("rotation-lr", Here::Option("lr-quats")),
    ("quats-lr", Here::Option("lr-quats")),
    ("opacity-lr", Here::Option("lr-opacities")),
    ("feature-lr", Here::Option("lr-sh-dc")),
    ("densify-grad-threshold", Here::Option("grow-gradient")),
    ("grow-grad2d", Here::Option("grow-gradient")),
    ("densify-from-iter", Here::Option("density-from")),
    ("densify-until-iter", Here::Option("density-until")),
    ("densification-interval", Here::Option("density-every")),
    ("refine-every", Here::Option("density-every")),
    ("opacity-reset-interval", Here::Option("opacity-reset-every")),
    ("opacity-reg", Here::Option("opacity-regularisation")),
    ("scale-reg", Here::Option("scale-regularisation")),
    ("test-iterations", Here::Option("eval-every")),
    ("save-iterations", Here::Option("export-every")),
    ("checkpoint-iterations", Here::Option("checkpoint-every")),
    ("save-every", Here::Option("export-every")),
    ("ply-steps", Here::Option("export-every")),
    ("start-checkpoint", Here::Option("resume")),
    ("load-checkpoint", Here::Option("resume")),
    ("load-dir", Here::Option("resume")),
    ("ckpt", Here::Option("resume")),
    ("pose-opt", Here::Option("refine-poses")),
    ("camera-optimizer", Here::Option("refine-poses")),
    ("app-opt", Here::Option("exposure")),
    ("random-bkgd", Here::Option("random-background")),
    ("num-threads", Here::Option("threads")),
    ("jobs", Here::Option("threads")),
    ("cpu", Here::Value("device", "cpu")),
    ("gpu", Here::Option("device")),
    ("cuda", Here::Option("device")),
    ("max-sh-degree", Here::Option("sh-degree")),
    ("filter-bands", Here::Option("sh-degree")),
    ("filter-harmonics", Here::Option("sh-degree")),
    ("filter-box", Here::Option("box")),
    ("filter-sphere", Here::Option("sphere")),
    ("filter-value", Here::Option("min-opacity")),
    ("filter-floaters", Here::Option("drop-far")),
    ("morton-order", Here::Option("morton")),
    ("near", Here::Option("near-plane")),
    ("with-viewer", Here::Option("viewer")),
];

/// The equivalent of another program's option in Gausset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Here {
    /// An option, without its dashes.
    Option(&'static str),
    /// An option, without its dashes, and its value.
    Value(&'static str, &'static str),
    /// The dataset, which is a positional argument.
    Data,
}

/// The option or argument of `command` that corresponds to an unknown option, as typed; `None` if there is none.
pub(crate) fn here(command: &clap::Command, typed: &str) -> Option<String> {
    let word = typed.trim_start_matches('-').split('=').next()?.to_lowercase().replace(['_', '.'], "-");
    let (_, here) = WORDS.iter().find(|(foreign, _)| *foreign == word)?;
    let has = |name: &str| command.get_arguments().any(|argument| argument.get_long() == Some(name));
    match here {
        Here::Option(name) if has(name) => Some(format!("--{name}")),
        Here::Value(name, value) if has(name) => Some(format!("--{name} {value}")),
        Here::Data => {
            let first = command.get_positionals().next()?;
            let names: Vec<String> = first.get_value_names()?.iter().map(ToString::to_string).collect();
            Some(format!("{}, given without an option name", names.join(" ")))
        }
        Here::Option(_) | Here::Value(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_programs_lead_to_options_that_exist_and_shadow_none() {
        let definition = crate::cli::definition();
        let commands: Vec<&clap::Command> = definition.get_subcommands().collect();
        for (foreign, known) in WORDS {
            if let Here::Option(name) | Here::Value(name, _) = known {
                let knows = |command: &&clap::Command| here(command, foreign).is_some();
                assert!(*name == "viewer" || commands.iter().any(knows), "{foreign}: {name}");
            }
        }
        let train = definition.find_subcommand("train").unwrap();
        assert_eq!(here(train, "--iterations=30000").as_deref(), Some("--steps"));
        assert_eq!(here(train, "--data_factor").as_deref(), Some("--max-resolution"));
        assert_eq!(here(train, "-s").as_deref(), Some("DATA, given without an option name"));
        assert_eq!(here(train, "--white_background").as_deref(), Some("--background white"));
        assert_eq!(here(train, "--nonsense"), None);
        let render = definition.find_subcommand("render").unwrap();
        assert_eq!(here(render, "--iterations"), None);
    }
}
