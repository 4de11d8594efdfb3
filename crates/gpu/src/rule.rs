//! A density rule as a unit: its record and its dispatches.

use gausset_core::engine::{ClassicRule, DensityRule, McmcRule};
use gausset_density::decide::Thresholds;
use gausset_density::logit;

use crate::layout::sh_blocks;
use crate::record::{Job, Rule, rule_flag};
use crate::schedule::{RuleKind, Unit, UnitKind};
use crate::task::RuleTask;

/// The two words of a 64-bit number, low word first.
fn split_words(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

fn capped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn classic(rule: &ClassicRule) -> Rule {
    let [seed_low, seed_high] = split_words(rule.seed);
    let [step_low, step_high] = split_words(rule.step);
    let limits = Thresholds::from_rule(rule);
    Rule {
        seed_low,
        seed_high,
        step_low,
        step_high,
        gradient_threshold: limits.gradient,
        clone_log_scale: limits.clone_log_scale,
        log_shrink: limits.log_shrink,
        prune_logit: limits.prune_logit,
        prune_log_scale: limits.prune_log_scale,
        prune_radius: limits.prune_radius,
        max_splats: capped(rule.max_splats),
        flags: rule_flag::CLEARS,
        ..Rule::default()
    }
}

fn mcmc(rule: &McmcRule) -> Rule {
    let [seed_low, seed_high] = split_words(rule.seed);
    let [step_low, step_high] = split_words(rule.step);
    let [growth_low, growth_high] = split_words(f64::from(rule.growth.max(0.0)).to_bits());
    let [whole_low, whole_high] =
        split_words((1.0 - f64::from(rule.split_largest)).clamp(0.0, 1.0).to_bits());
    Rule {
        seed_low,
        seed_high,
        step_low,
        step_high,
        max_splats: capped(rule.max_splats),
        dead_logit: logit(rule.dead_opacity),
        min_opacity: rule.dead_opacity,
        growth_low,
        growth_high,
        whole_low,
        whole_high,
        ..Rule::default()
    }
}

/// A rule, for a state of this SH degree, as a unit; `None` if it is not a single unit.
pub(crate) fn unit(rule: &DensityRule, sh_degree: u8) -> Option<RuleTask> {
    let (record, change, reorder) = match rule {
        DensityRule::Classic(rule) => (classic(rule), RuleKind::Classic, rule.reorder),
        DensityRule::Mcmc(rule) => (mcmc(rule), RuleKind::Mcmc, rule.reorder),
        DensityRule::ResetOpacity { max_opacity } => {
            let reset_logit = logit(*max_opacity);
            (Rule { reset_logit, flags: rule_flag::STAYS, ..Rule::default() }, RuleKind::Reset, false)
        }
        // More than one unit: see `free_space`.
        DensityRule::FreeSpace(_) => return None,
    };
    let sh_blocks = sh_blocks(sh_degree);
    let then = UnitKind::Rule { change, reorder, sh_blocks };
    let record = Rule { sh_blocks: sh_blocks as u32, ..record };
    let unit = Unit { tiles: 0, capped: false, kind: then };
    Some(RuleTask { job: Job::default(), rule: record, unit, words: Vec::new() })
}
