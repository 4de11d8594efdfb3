//! The host's knowledge of the state, and checks of a state.

use gausset_core::Splats;
use gausset_core::engine::{CorrectionGroup, EngineError, TrainState};

use crate::corrections::CorrectionLayout;

/// The host's knowledge of the state on the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostState {
    pub(crate) splats: usize,
    pub(crate) sh_degree: u8,
    pub(crate) group_clock: u64,
    pub(crate) next_id: u32,
    pub(crate) groups: CorrectionLayout,
    /// Whether there are only parameters and corrections, for rendering.
    pub(crate) is_render_only: bool,
}

/// Checks the arrays of a state: equal lengths, and matching moments.
pub(crate) fn check_state(state: &TrainState) -> Result<(), EngineError> {
    let bad = |what: String| Err(EngineError::InvalidInput(what));
    check_splats("splats", &state.splats)?;
    for (name, values) in [("first moments", &state.moments.m), ("second moments", &state.moments.v)] {
        check_splats(name, values)?;
        if (values.len(), values.sh_degree) != (state.splats.len(), state.splats.sh_degree) {
            let (n, degree) = (state.splats.len(), state.splats.sh_degree);
            return bad(format!(
                "{name}: {} splats of degree {} (expected {n} of degree {degree})",
                values.len(),
                values.sh_degree
            ));
        }
    }
    let n = state.splats.len();
    let lengths = [
        ("clocks", state.update_counts.len()),
        ("ids", state.ids.len()),
        ("gradient sums", state.statistics.gradient_sum.len()),
        ("visible steps", state.statistics.visible_steps.len()),
        ("screen radii", state.statistics.max_radius.len()),
    ];
    if let Some((name, found)) = lengths.into_iter().find(|&(_, found)| found != n) {
        return bad(format!("{name}: {found} values (expected {n})"));
    }
    check_groups(&state.corrections)
}

/// Checks splats: arrays of equal length, few enough for 32-bit indices.
pub(crate) fn check_splats(name: &str, splats: &Splats) -> Result<(), EngineError> {
    let bad = |what: String| Err(EngineError::InvalidInput(what));
    if let Err(err) = splats.validate() {
        return bad(format!("{name}: {err}"));
    }
    let most = 1usize << 29;
    if splats.len() > most {
        return bad(format!("{name}: {} splats (expected at most {most})", splats.len()));
    }
    Ok(())
}

/// Checks groups of corrections.
pub(crate) fn check_groups(groups: &[CorrectionGroup]) -> Result<(), EngineError> {
    for group in groups {
        let values = group.update_counts.len() * group.group.values_per_row();
        if [group.values.len(), group.m.len(), group.v.len()] != [values; 3] {
            let what = format!("group `{}`: arrays of different lengths", group.group);
            return Err(EngineError::InvalidInput(what));
        }
    }
    Ok(())
}
