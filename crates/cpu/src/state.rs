//! The training state in the engine's layout.

use gausset_compute::Pool;
use gausset_compute::simd::LANES;
use gausset_core::Splats;
use gausset_core::engine::{
    AdamMoments, CorrectionGroup, CorrectionKind, DensityStatistics, EngineError, TrainState,
};
use gausset_raster::layout::Blocks;

/// A [`TrainState`] with its splats and moments in blocks, and all per-splat arrays padded to whole blocks.
#[derive(Debug, Default)]
pub(crate) struct BlockState {
    pub parameters: Blocks,
    pub moment1: Blocks,
    pub moment2: Blocks,
    pub clocks: Vec<u32>,
    pub ids: Vec<u32>,
    pub gradient_sum: Vec<f32>,
    pub visible_steps: Vec<u32>,
    pub max_radius: Vec<f32>,
    pub group_clock: u64,
    pub next_id: u32,
    pub extras: Vec<CorrectionGroup>,
    /// Whether there are only parameters and corrections, for rendering.
    pub is_render_only: bool,
}

fn invalid_input(what: String) -> EngineError {
    EngineError::InvalidInput(what)
}

fn check_splats(name: &str, splats: &Splats, like: &Splats) -> Result<(), EngineError> {
    splats.validate().map_err(|err| invalid_input(format!("{name}: {err}")))?;
    if (splats.len(), splats.sh_degree) == (like.len(), like.sh_degree) {
        return Ok(());
    }
    Err(invalid_input(format!(
        "{name}: {} splats of degree {} (expected {} of degree {})",
        splats.len(),
        splats.sh_degree,
        like.len(),
        like.sh_degree
    )))
}

fn check_groups(groups: &[CorrectionGroup]) -> Result<(), EngineError> {
    for group in groups {
        let values = group.update_counts.len() * group.group.values_per_row();
        if [group.values.len(), group.m.len(), group.v.len()] != [values; 3] {
            return Err(invalid_input(format!("group `{}`: arrays of different lengths", group.group)));
        }
    }
    Ok(())
}

impl BlockState {
    /// A state for rendering only.
    pub(crate) fn from_splats(
        splats: &Splats,
        extras: Vec<CorrectionGroup>,
        pool: &Pool,
    ) -> Result<Self, EngineError> {
        check_splats("splats", splats, splats)?;
        check_groups(&extras)?;
        let parameters = Blocks::from_splats_on(splats, pool);
        Ok(Self { parameters, extras, is_render_only: true, ..Self::default() })
    }

    /// Checks a state and converts it.
    pub(crate) fn from_state(state: TrainState, pool: &Pool) -> Result<Self, EngineError> {
        check_splats("splats", &state.splats, &state.splats)?;
        check_splats("first moments", &state.moments.m, &state.splats)?;
        check_splats("second moments", &state.moments.v, &state.splats)?;
        let n = state.splats.len();
        let lengths = [
            ("clocks", state.update_counts.len()),
            ("ids", state.ids.len()),
            ("gradient sums", state.statistics.gradient_sum.len()),
            ("visible steps", state.statistics.visible_steps.len()),
            ("screen radii", state.statistics.max_radius.len()),
        ];
        if let Some((name, found)) = lengths.into_iter().find(|&(_, found)| found != n) {
            return Err(invalid_input(format!("{name}: {found} values (expected {n})")));
        }
        check_groups(&state.corrections)?;
        let lanes = n.next_multiple_of(LANES);
        // One array at a time, so that at most one exists twice.
        let parameters = Blocks::from_splats_on(&state.splats, pool);
        drop(state.splats);
        let moment1 = Blocks::from_values_on(&state.moments.m, pool);
        drop(state.moments.m);
        let moment2 = Blocks::from_values_on(&state.moments.v, pool);
        drop(state.moments.v);
        Ok(Self {
            parameters,
            moment1,
            moment2,
            clocks: padded(state.update_counts, lanes),
            ids: padded(state.ids, lanes),
            gradient_sum: padded(state.statistics.gradient_sum, lanes),
            visible_steps: padded(state.statistics.visible_steps, lanes),
            max_radius: padded(state.statistics.max_radius, lanes),
            group_clock: state.dense_update_count,
            next_id: state.next_id,
            extras: state.corrections,
            is_render_only: false,
        })
    }

    /// The inverse of [`Self::from_state`].
    pub(crate) fn to_state(&self, pool: &Pool) -> TrainState {
        if self.is_render_only {
            return TrainState::new(self.parameters.to_splats_on(pool), self.extras.clone());
        }
        let n = self.parameters.len();
        TrainState {
            splats: self.parameters.to_splats_on(pool),
            moments: AdamMoments { m: self.moment1.to_splats_on(pool), v: self.moment2.to_splats_on(pool) },
            update_counts: self.clocks[..n].to_vec(),
            dense_update_count: self.group_clock,
            ids: self.ids[..n].to_vec(),
            next_id: self.next_id,
            statistics: DensityStatistics {
                gradient_sum: self.gradient_sum[..n].to_vec(),
                visible_steps: self.visible_steps[..n].to_vec(),
                max_radius: self.max_radius[..n].to_vec(),
            },
            corrections: self.extras.clone(),
        }
    }

    /// Like [`Self::to_state`], but consumes this state: at most one array exists twice.
    pub(crate) fn into_state(mut self, pool: &Pool) -> TrainState {
        let mut take =
            |blocks: fn(&mut Self) -> &mut Blocks| std::mem::take(blocks(&mut self)).to_splats_on(pool);
        let splats = take(|state| &mut state.parameters);
        let moments =
            AdamMoments { m: take(|state| &mut state.moment1), v: take(|state| &mut state.moment2) };
        let n = splats.len();
        for values in [&mut self.clocks, &mut self.ids, &mut self.visible_steps] {
            values.truncate(n);
        }
        self.gradient_sum.truncate(n);
        self.max_radius.truncate(n);
        TrainState {
            splats,
            moments,
            update_counts: self.clocks,
            dense_update_count: self.group_clock,
            ids: self.ids,
            next_id: self.next_id,
            statistics: DensityStatistics {
                gradient_sum: self.gradient_sum,
                visible_steps: self.visible_steps,
                max_radius: self.max_radius,
            },
            corrections: self.extras,
        }
    }

    /// The index of a group of per-view corrections and one of its rows, checked.
    pub(crate) fn correction_index(
        &self,
        group: CorrectionKind,
        row: Option<u32>,
    ) -> Result<Option<(usize, usize)>, EngineError> {
        let Some(row) = row.map(|r| r as usize) else { return Ok(None) };
        let found =
            self.extras.iter().position(|extra| extra.group == group && row < extra.update_counts.len());
        match found {
            Some(place) => Ok(Some((place, row))),
            None => Err(invalid_input(format!(
                "view uses row {row} of group `{group}`, which the state does not have"
            ))),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.parameters.bytes() + self.moment1.bytes() + self.moment2.bytes() + self.ids.len() * 20
    }
}

fn padded<T: Default + Clone>(mut values: Vec<T>, len: usize) -> Vec<T> {
    values.resize(len, T::default());
    values
}
