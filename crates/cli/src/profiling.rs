//! Formatting of profiles for the terminal.

use gausset_prof::{Profile, Row};

use crate::lines::Lines;
use crate::table;

/// Number of rows of the table of the most expensive spans.
const TOP_ROWS: usize = 5;
/// Name of the span of a training step.
pub(crate) const STEP: &str = "step";

/// Formats all tables of a profile.
pub(crate) fn report(profile: &Profile) -> Lines {
    let about: Vec<(&str, String)> =
        profile.about.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let tables = [
        profile.table(),
        profile.slowest_table(TOP_ROWS),
        profile.budget_table(category),
        profile.lower_bound_table(STEP),
    ];
    let head = if about.is_empty() { Lines::default() } else { table::facts(&about) + "" };
    let tables: Vec<_> = tables.into_iter().filter(|table| !table.is_empty()).collect();
    head + Lines::from_text(&tables.join("\n"))
}

/// The category of a row of the profile, for the time budget.
fn category(row: &Row) -> &'static str {
    // From the outermost span inwards: rendering within an evaluation counts as evaluation, not as training.
    for word in row.path.split('/') {
        let group = match word {
            "eval" => "evaluation",
            "checkpoint" | "export" | "write_ply" | "fsync" => "files",
            "stereo" => "dense start",
            "open" | "init" | "predict" => "start",
            "next_view" | "decode" | "reduce" | "downscale" | "undistort" | "upload" => "waiting for images",
            "project" | "sort" | "tile" | "blend" => "rendering",
            "loss" => "loss",
            "blend_vjp" | "project_vjp" | "adam" | "project_vjp+adam" => "gradients and update",
            "density" => "density control",
            "report" => "reports",
            "statistics" => "counting for this profile",
            _ => continue,
        };
        return group;
    }
    gausset_prof::UNATTRIBUTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_the_outermost_thing_that_has_a_name() {
        let group_of = |path: &str| category(&Row { path: path.to_owned(), ..Row::default() });
        assert_eq!(group_of("step/blend"), "rendering");
        assert_eq!(group_of("eval/blend"), "evaluation");
        assert_eq!(group_of("eval/unattributed"), "evaluation");
        assert_eq!(group_of("step/checkpoint/fsync"), "files");
        assert_eq!(group_of("step/density/rule"), "density control");
        assert_eq!(group_of("stereo/prepare/decode"), "dense start");
        assert_eq!(group_of("step/unattributed"), "unattributed");
        assert_eq!(group_of("unattributed"), "unattributed");
    }
}
