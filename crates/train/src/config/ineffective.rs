//! Rejects options that have no effect with the other options; the message says what to do instead.
//!
//! Only options that the *user* gives count. A run's own `config.toml` holds all resolved options, some of them without
//! effect; they are dropped when it is used as a config file ([`TrainOptions::read`]). If the command line overrides a
//! choice of a config file, the file's options that belonged to that choice are dropped with it
//! ([`TrainOptions::over`]).

use gausset_io::dataset::Dataset;

use super::{ConfigError, with_defaults};
use crate::block::Blocks;
use crate::option_values::{Exposure, InitPoints, Strategy, TimeBudget};
use crate::options::TrainOptions;

/// A condition under which an option has an effect; the option's row in the table names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// Classic density control.
    Classic,
    /// Relocation.
    Mcmc,
    /// Exposure compensation.
    Exposure,
    /// Refinement of poses.
    Poses,
    /// Steps and a plan that are not chosen by a time budget.
    FixedSteps,
    /// Images that start downsampled.
    CoarseImages,
    /// View-dependent colour.
    ShDegree,
    /// A weight for the mean opacity.
    OpacityRegularisation,
    /// Held-out images.
    HeldOut,
    /// A start that is not a file.
    NoFile,
    /// A start that is a file.
    InitFile,
    /// A start that is not from dense points alone.
    OtherPoints,
    /// A start for which points are selected.
    ChoiceOfPoints,
    /// A start that may use depth maps.
    DepthForPoints,
    /// A start that is not from the points of the dataset alone.
    DepthMaps,
    /// A dataset that is a folder.
    Folder,
    /// A scene that is not trained in blocks.
    WholeScene,
    /// The same, unless poses stay as they are known.
    KnownPoses,
}

/// When a condition is not met.
struct RequirementRule {
    /// The condition.
    needs: Requirement,
    /// Whether it is not met by these options, whose defaults are filled in.
    is_unmet: fn(&TrainOptions) -> bool,
    /// Why options that need it have no effect, and what to do: `has no effect …`.
    why: &'static str,
}

/// Whether the scene is trained in blocks.
fn is_in_blocks(options: &TrainOptions) -> bool {
    options.blocks.is_some_and(|blocks| blocks != Blocks::Off)
}

/// Why a setting has no effect there.
const IN_BLOCKS: &str = "with ⟨blocks⟩; leave it out, or take ⟨blocks = off⟩";

const RULES: &[RequirementRule] = &[
    RequirementRule { needs: Requirement::WholeScene, is_unmet: is_in_blocks, why: IN_BLOCKS },
    RequirementRule {
        needs: Requirement::KnownPoses,
        is_unmet: |o| is_in_blocks(o) && o.refine_poses != Some(false),
        why: IN_BLOCKS,
    },
    RequirementRule {
        needs: Requirement::Classic,
        is_unmet: |o| o.strategy != Some(Strategy::Classic),
        why: "with ⟨strategy = mcmc⟩; leave it out, or take ⟨strategy = classic⟩",
    },
    RequirementRule {
        needs: Requirement::Mcmc,
        is_unmet: |o| o.strategy != Some(Strategy::Mcmc),
        why: "with ⟨strategy = classic⟩; leave it out, or take ⟨strategy = mcmc⟩",
    },
    RequirementRule {
        needs: Requirement::Exposure,
        is_unmet: |o| o.exposure == Some(Exposure::Off),
        why: "with ⟨exposure = off⟩; leave it out, or take ⟨exposure = auto or on⟩",
    },
    RequirementRule {
        needs: Requirement::Poses,
        is_unmet: |o| o.refine_poses != Some(true),
        why: "without ⟨refine-poses⟩; leave it out, or give ⟨refine-poses⟩",
    },
    RequirementRule {
        needs: Requirement::FixedSteps,
        is_unmet: |o| o.time_budget.is_some_and(|budget| budget != TimeBudget::None),
        why: "with ⟨time-budget⟩, which finds the steps; leave it out, or give ⟨time-budget = none⟩",
    },
    RequirementRule {
        needs: Requirement::CoarseImages,
        is_unmet: |o| o.coarse_factor == Some(1),
        why: "with ⟨coarse-factor = 1⟩; leave it out, or take a factor of 2, 4 or 8",
    },
    RequirementRule {
        needs: Requirement::ShDegree,
        is_unmet: |o| o.sh_degree == Some(0),
        why: "with ⟨sh-degree = 0⟩; leave it out, or take a degree of 1..3",
    },
    RequirementRule {
        needs: Requirement::OpacityRegularisation,
        is_unmet: |o| o.opacity_regularisation == Some(0.0),
        why: "with ⟨opacity-regularisation = 0⟩; leave it out, or give that a weight",
    },
    RequirementRule {
        needs: Requirement::HeldOut,
        // 0 means "at the end only", which is the actual behaviour.
        is_unmet: |o| o.test_every == Some(0) && o.eval_every != Some(0),
        why: "with ⟨test-every = 0⟩, which holds no picture out; leave it out, or hold some out",
    },
    RequirementRule {
        needs: Requirement::InitFile,
        is_unmet: |o| o.init.is_none(),
        why: "without ⟨init⟩; leave it out, or give ⟨init⟩ with an SPZ",
    },
    RequirementRule {
        needs: Requirement::NoFile,
        is_unmet: |o| o.init.is_some(),
        why: "with ⟨init⟩, whose splats or points are the start; leave it out",
    },
    RequirementRule {
        needs: Requirement::OtherPoints,
        is_unmet: |o| o.init_points == Some(InitPoints::Dense),
        why: "with ⟨init-points = dense⟩, whose points are the start; leave it out, or take ⟨init-points = auto⟩",
    },
    RequirementRule {
        needs: Requirement::ChoiceOfPoints,
        // `auto` matches the actual behaviour.
        is_unmet: |o| o.init.is_some() && o.init_points == Some(InitPoints::Dense),
        why: "with ⟨init⟩, whose splats or points are the start; leave it out",
    },
    RequirementRule {
        needs: Requirement::DepthForPoints,
        is_unmet: |o| o.init.is_some() && o.keep_depth != Some(false),
        why: "with ⟨init⟩, which needs no depth maps; leave it out",
    },
    RequirementRule {
        needs: Requirement::DepthMaps,
        is_unmet: |o| o.init_points == Some(InitPoints::Sfm) && o.keep_depth != Some(false),
        why: "with ⟨init-points = sfm⟩, which needs no depth maps; leave it out, or take ⟨init-points = dense⟩",
    },
    RequirementRule {
        needs: Requirement::Folder,
        is_unmet: |o| o.data.as_ref().is_some_and(|data| data.extension().is_some_and(|end| end == "json")),
        why: "with a dataset that is a JSON file; leave it out, or name the folder of the dataset",
    },
];

/// An option that was given and has no effect.
struct IneffectiveOption {
    option: &'static str,
    why: &'static str,
}

/// The given options that have no effect.
fn ineffective_options(given: &TrainOptions) -> Vec<IneffectiveOption> {
    let all = with_defaults(given.clone(), None);
    let needs = |key: &str, rule: &RequirementRule| TrainOptions::needs(key).contains(&rule.needs);
    let mut found = Vec::new();
    for rule in RULES.iter().filter(|rule| (rule.is_unmet)(&all)) {
        let options = TrainOptions::keys().filter(|key| given.gives(key) && needs(key, rule));
        found.extend(options.map(|option| IneffectiveOption { option, why: rule.why }));
    }
    found
}

/// Returns an error for the first option without effect.
pub(super) fn reject(given: &TrainOptions) -> Result<(), ConfigError> {
    reject_if(given, |_| true)
}

/// As [`reject`], limited to the options that `is_to_blame` accepts.
pub(super) fn reject_if(given: &TrainOptions, is_to_blame: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
    match ineffective_options(given).into_iter().find(|idle| is_to_blame(idle.option)) {
        Some(IneffectiveOption { option, why }) => Err(ConfigError::NoEffect { option, why }),
        None => Ok(()),
    }
}

/// Returns an error for an option that has no effect on this dataset.
pub(super) fn reject_for(given: &TrainOptions, dataset: &Dataset) -> Result<(), ConfigError> {
    if given.initial_splats.is_some() && !dataset.points.is_empty() {
        let why = "with a dataset that has points, which are the start; leave it out";
        return Err(ConfigError::NoEffect { option: "initial-splats", why });
    }
    Ok(())
}

impl TrainOptions {
    /// Layers the user's options over a config file: like [`TrainOptions::or`], but options of the file that the user's
    /// choice makes ineffective are dropped. `--strategy classic` over a file with a growth drops the growth.
    #[must_use]
    pub fn layered_over(self, file: Self) -> Self {
        let mistakes_of_file = ineffective_options(&file);
        let mut merged = self.clone().or(file);
        for IneffectiveOption { option, .. } in ineffective_options(&merged) {
            if !self.gives(option) && !mistakes_of_file.iter().any(|mistake| mistake.option == option) {
                merged.clear(option);
            }
        }
        // A plan is one of the steps beside it.
        if self.steps.is_some() {
            merged.plan = self.plan.clone();
        }
        // A start with another limit is another start.
        if self.max_splats.is_some() {
            merged.start_max_splats = self.start_max_splats;
        }
        merged
    }

    /// The options without those that have no effect.
    #[must_use]
    pub fn without_ineffective(mut self) -> Self {
        for IneffectiveOption { option, .. } in ineffective_options(&self) {
            self.clear(option);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_that_of_an_option_and_says_what_to_do() {
        for rule in RULES {
            assert!(
                TrainOptions::keys().any(|key| TrainOptions::needs(key).contains(&rule.needs)),
                "no option needs {:?}",
                rule.needs
            );
            assert!(rule.why.starts_with("with") && rule.why.contains("; leave it out"), "{}", rule.why);
        }
    }
}
