//! Changes of the set of splats: every array of a state follows one list of rows.
//!
//! Row `i` of the result is row `rows[i]` of the state before. From `newborn_from` on, rows are copies that have not
//! been trained: parameters and id are copied (the rule changes them afterwards), moments, clock and statistics are 0.
//! Arrays are rebuilt one after the other, so that the largest of them is all the memory needed on top.

use gausset_compute::Pool;
use gausset_core::Splats;
use gausset_core::engine::TrainState;

/// Rows per task; fixed, so that the partition does not depend on the threads.
const CHUNK: usize = 4096;

/// What a newborn row of an array holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newborn {
    Copied,
    Zero,
}

struct Rebuild<'a> {
    rows: &'a [u32],
    newborn_from: usize,
    /// All splats stay where they are, and newborn ones follow.
    only_grows: bool,
    pool: &'a Pool,
}

/// Rebuilds every per-splat array of `state`; see the module documentation.
pub(crate) fn rebuild(state: &mut TrainState, rows: &[u32], newborn_from: usize, pool: &Pool) {
    let before = state.splats.len();
    let in_place = rows.iter().take(newborn_from).enumerate().all(|(i, &row)| row as usize == i);
    let plan = Rebuild { rows, newborn_from, only_grows: in_place && newborn_from == before, pool };
    plan.splats(&mut state.splats, Newborn::Copied);
    plan.splats(&mut state.moments.m, Newborn::Zero);
    plan.splats(&mut state.moments.v, Newborn::Zero);
    plan.array(&mut state.clocks, 1, Newborn::Zero);
    plan.array(&mut state.ids, 1, Newborn::Copied);
    plan.array(&mut state.statistics.gradient_sum, 1, Newborn::Zero);
    plan.array(&mut state.statistics.visible_steps, 1, Newborn::Zero);
    plan.array(&mut state.statistics.max_radius, 1, Newborn::Zero);
}

/// Copies the parameters of one splat over those of another.
pub(crate) fn copy_splat(splats: &mut Splats, from: usize, to: usize) {
    let sh = splats.sh_stride();
    splats.means[to] = splats.means[from];
    splats.log_scales[to] = splats.log_scales[from];
    splats.quats[to] = splats.quats[from];
    splats.opacity_logits[to] = splats.opacity_logits[from];
    splats.sh.copy_within(from * sh..(from + 1) * sh, to * sh);
}

/// Makes a splat as good as new to Adam: zero moments, clock 0.
pub(crate) fn forget_training(state: &mut TrainState, splat: usize) {
    for moment in [&mut state.moments.m, &mut state.moments.v] {
        let sh = moment.sh_stride();
        moment.means[splat] = [0.0; 3];
        moment.log_scales[splat] = [0.0; 3];
        moment.quats[splat] = [0.0; 4];
        moment.opacity_logits[splat] = 0.0;
        moment.sh[splat * sh..(splat + 1) * sh].fill(0.0);
    }
    state.clocks[splat] = 0;
}

impl Rebuild<'_> {
    fn splats(&self, splats: &mut Splats, newborn: Newborn) {
        let sh = splats.sh_stride();
        self.array(&mut splats.means, 1, newborn);
        self.array(&mut splats.log_scales, 1, newborn);
        self.array(&mut splats.quats, 1, newborn);
        self.array(&mut splats.opacity_logits, 1, newborn);
        self.array(&mut splats.sh, sh, newborn);
    }

    /// Rebuilds one array of `width` values per row.
    fn array<T: Copy + Default + Send + Sync>(&self, array: &mut Vec<T>, width: usize, newborn: Newborn) {
        if self.only_grows {
            array.reserve_exact((self.rows.len() - self.newborn_from) * width);
            match newborn {
                Newborn::Zero => array.resize(self.rows.len() * width, T::default()),
                Newborn::Copied => {
                    for &row in &self.rows[self.newborn_from..] {
                        let first = row as usize * width;
                        array.extend_from_within(first..first + width);
                    }
                }
            }
            return;
        }
        let copied = match newborn {
            Newborn::Copied => self.rows.len(),
            Newborn::Zero => self.newborn_from,
        };
        let before = std::mem::take(array);
        // Fresh pages are zero already, so rows that are not copied cost nothing.
        let mut after = vec![T::default(); self.rows.len() * width];
        self.pool.run_chunks(&mut after[..copied * width], CHUNK * width, |chunk, after| {
            for (to, &row) in after.chunks_exact_mut(width).zip(&self.rows[chunk * CHUNK..]) {
                let first = row as usize * width;
                to.copy_from_slice(&before[first..first + width]);
            }
        });
        *array = after;
    }
}
