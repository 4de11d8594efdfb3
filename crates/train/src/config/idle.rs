//! Options that others leave without effect: whoever gives one is told, and how to mean it.
//!
//! What counts is what a *person* gives. A run's own `config.toml` holds what the run resolved, keys without effect
//! among them; they are left out when it is used as a config file ([`TrainOptions::read`]). And where the command line
//! chooses otherwise than a config file, what belonged to the file's choice goes with it ([`TrainOptions::over`]).

use gausset_io::dataset::Dataset;

use super::{ConfigError, complete};
use crate::options::TrainOptions;
use crate::words::{Exposure, InitPoints, Strategy, TimeBudget};

/// Options without effect under a condition.
struct Rule {
    /// Long names.
    options: &'static [&'static str],
    /// Whether they have none with these options, all of which are there that have a default.
    is_idle: fn(&TrainOptions) -> bool,
    /// What leaves them without effect, and what to do: `has no effect …`.
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        options: &[
            "grow-gradient",
            "abs-grad",
            "clone-scale",
            "prune-opacity",
            "prune-scale",
            "prune-screen",
            "opacity-reset-every",
        ],
        is_idle: |o| o.strategy != Some(Strategy::Classic),
        why: "with --strategy mcmc; leave it out, or take --strategy classic",
    },
    Rule {
        options: &["dead-opacity", "growth", "split-largest", "noise"],
        is_idle: |o| o.strategy != Some(Strategy::Mcmc),
        why: "with --strategy classic; leave it out, or take --strategy mcmc",
    },
    Rule {
        options: &["lr-exposure", "lr-exposure-final", "exposure-decay"],
        is_idle: |o| o.exposure == Some(Exposure::Off),
        why: "with --exposure off; leave it out, or take --exposure auto or on",
    },
    Rule {
        options: &["vignetting"],
        // False says what happens.
        is_idle: |o| o.exposure == Some(Exposure::Affine) && o.vignetting != Some(false),
        why: "with --exposure affine; leave it out, or take --exposure on",
    },
    Rule {
        options: &["lr-poses", "pose-decay", "poses-from", "poses-until"],
        is_idle: |o| o.refine_poses != Some(true),
        why: "without --refine-poses; leave it out, or give --refine-poses",
    },
    Rule {
        options: &["steps"],
        is_idle: |o| o.time_budget.is_some_and(|budget| budget != TimeBudget::None),
        why: "with --time-budget, which finds the steps; leave it out, or give --time-budget none",
    },
    Rule {
        options: &["plan"],
        is_idle: |o| o.time_budget.is_some_and(|budget| budget != TimeBudget::None),
        why: "with --time-budget, which makes a plan of its own; leave it out, or give --time-budget none",
    },
    Rule {
        options: &["coarse-until"],
        is_idle: |o| o.coarse_factor == Some(1),
        why: "with --coarse-factor 1; leave it out, or take a factor of 2, 4 or 8",
    },
    Rule {
        options: &["sh-every", "lr-sh-rest"],
        is_idle: |o| o.sh_degree == Some(0),
        why: "with --sh-degree 0; leave it out, or take a degree of 1..3",
    },
    Rule {
        options: &["opacity-regularisation-until"],
        is_idle: |o| o.opacity_regularisation == Some(0.0),
        why: "with --opacity-regularisation 0; leave it out, or give that a weight",
    },
    Rule {
        options: &["eval-every"],
        // 0 says "at the end only", which is what happens.
        is_idle: |o| o.test_every == Some(0) && o.eval_every != Some(0),
        why: "with --test-every 0, which holds no picture out; leave it out, or hold some out",
    },
    Rule {
        options: &["initial-splats"],
        is_idle: |o| o.init.is_some(),
        why: "with --init, whose splats or points are the start; leave it out",
    },
    Rule {
        options: &["initial-splats"],
        is_idle: |o| o.init_points == Some(InitPoints::Dense),
        why: "with --init-points dense, whose points are the start; leave it out, or take --init-points auto",
    },
    Rule {
        options: &["init-points"],
        // Auto says what happens.
        is_idle: |o| o.init.is_some() && o.init_points == Some(InitPoints::Dense),
        why: "with --init, whose splats or points are the start; leave it out",
    },
    Rule {
        options: &["keep-depth"],
        is_idle: |o| o.init.is_some() && o.keep_depth != Some(false),
        why: "with --init, which needs no depth maps; leave it out",
    },
    Rule {
        options: &["keep-depth"],
        is_idle: |o| o.init_points == Some(InitPoints::Sfm) && o.keep_depth != Some(false),
        why: "with --init-points sfm, which needs no depth maps; leave it out, or take --init-points dense",
    },
    Rule {
        options: &["sparse"],
        is_idle: |o| o.data.as_ref().is_some_and(|data| data.extension().is_some_and(|end| end == "json")),
        why: "with a dataset that is a JSON file; leave it out, or name the folder of the dataset",
    },
];

/// An option that is given and has no effect.
struct Idle {
    option: &'static str,
    why: &'static str,
}

/// The options among those given that have no effect.
fn idle(given: &TrainOptions) -> Vec<Idle> {
    let all = complete(given.clone(), None);
    let rules = RULES.iter().filter(|rule| (rule.is_idle)(&all));
    let options = rules.flat_map(|rule| rule.options.iter().map(|&option| Idle { option, why: rule.why }));
    options.filter(|idle| given.gives(idle.option)).collect()
}

/// Refuses the first option without effect.
pub(super) fn refuse(given: &TrainOptions) -> Result<(), ConfigError> {
    refuse_those(given, |_| true)
}

/// As [`refuse`], of those for which somebody is to blame.
pub(super) fn refuse_those(
    given: &TrainOptions,
    is_to_blame: impl Fn(&str) -> bool,
) -> Result<(), ConfigError> {
    match idle(given).into_iter().find(|idle| is_to_blame(idle.option)) {
        Some(Idle { option, why }) => Err(ConfigError::NoEffect { option, why }),
        None => Ok(()),
    }
}

/// Refuses an option that this dataset leaves without effect.
pub(super) fn refuse_for(given: &TrainOptions, dataset: &Dataset) -> Result<(), ConfigError> {
    if given.initial_splats.is_some() && !dataset.points.is_empty() {
        let why = "with a dataset that has points, which are the start; leave it out";
        return Err(ConfigError::NoEffect { option: "initial-splats", why });
    }
    Ok(())
}

impl TrainOptions {
    /// What a person says over a config file: the same as [`TrainOptions::or`], but options of the file whose effect
    /// the person's choice takes away are left out. `--strategy classic` over a file with a growth leaves that out.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        let mistakes_of_file = idle(&file);
        let mut merged = self.clone().or(file);
        for Idle { option, .. } in idle(&merged) {
            if !self.gives(option) && !mistakes_of_file.iter().any(|mistake| mistake.option == option) {
                merged.clear(option);
            }
        }
        merged
    }

    /// The same without the options that have no effect.
    #[must_use]
    pub fn without_idle(mut self) -> Self {
        for Idle { option, .. } in idle(&self) {
            self.clear(option);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_names_options_and_says_what_to_do() {
        for rule in RULES {
            for option in rule.options {
                assert!(TrainOptions::keys().any(|key| key == *option), "{option}");
            }
            assert!(rule.why.starts_with("with") && rule.why.contains("; leave it out"), "{}", rule.why);
        }
    }
}
