//! Changes of the set of splats: every per-splat array of a state is changed in the same way.
//!
//! [`edit`] appends copies of splats and then closes the gaps of removed ones, in place: growing a large vector and
//! moving rows down touches far less fresh memory than allocating new arrays (page faults cost more than the copy).
//! [`permute`] needs one scratch array per shape, which is swapped with each array in turn.

use gausset_compute::Pool;
use gausset_core::Splats;
use gausset_core::engine::TrainState;

/// Rows per task of a permutation; a constant, so that the partition does not depend on the number of threads.
const CHUNK: usize = 4096;

/// Initial contents of a new row of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewRow {
    /// A copy of its parent's row: parameters, and the id until the rule assigns a new one.
    Copied,
    /// Zero: moments, clock, statistics.
    Zero,
}

/// A per-splat array of a state, by its shape.
enum StateArray<'a> {
    /// Values, and the number of values per row.
    Scalars(&'a mut Vec<f32>, usize),
    Words(&'a mut Vec<u32>),
    Triples(&'a mut Vec<[f32; 3]>),
    Quads(&'a mut Vec<[f32; 4]>),
}

/// Keeps the rows `kept` (ascending) in order and appends copies of the rows `parents`.
///
/// The copies are untrained: their moments, clocks and statistics are zero; their ids are those of their parents.
pub(crate) fn edit(state: &mut TrainState, kept: &[u32], parents: &[u32], pool: &Pool) {
    let before = state.splats.len();
    if kept.len() == before && parents.is_empty() {
        return;
    }
    pool.run_parts(&mut arrays(state), |_, (array, newborn)| match array {
        StateArray::Scalars(values, width) => edit_array(values, *width, *newborn, before, kept, parents),
        StateArray::Words(values) => edit_array(values, 1, *newborn, before, kept, parents),
        StateArray::Triples(values) => edit_array(values, 1, *newborn, before, kept, parents),
        StateArray::Quads(values) => edit_array(values, 1, *newborn, before, kept, parents),
    });
}

/// Permutes all rows: row `i` of the result is row `order[i]`.
pub(crate) fn permute(state: &mut TrainState, order: &[u32], pool: &Pool) {
    let TrainState { splats: p, moments, update_counts: clocks, ids, statistics, .. } = state;
    let (m, v) = (&mut moments.m, &mut moments.v);
    let sh = p.sh_stride();
    permute_alike([&mut p.sh, &mut m.sh, &mut v.sh], sh, order, pool);
    permute_alike(
        [&mut p.means, &mut m.means, &mut v.means, &mut p.log_scales, &mut m.log_scales, &mut v.log_scales],
        1,
        order,
        pool,
    );
    permute_alike([&mut p.quats, &mut m.quats, &mut v.quats], 1, order, pool);
    permute_alike(
        [
            &mut p.opacity_logits,
            &mut m.opacity_logits,
            &mut v.opacity_logits,
            &mut statistics.gradient_sum,
            &mut statistics.max_radius,
        ],
        1,
        order,
        pool,
    );
    permute_alike([clocks, ids, &mut statistics.visible_steps], 1, order, pool);
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

/// Resets the optimiser state of a splat: zero moments, clock 0.
pub(crate) fn reset_optimiser_state(state: &mut TrainState, splat: usize) {
    for moment in [&mut state.moments.m, &mut state.moments.v] {
        let sh = moment.sh_stride();
        moment.means[splat] = [0.0; 3];
        moment.log_scales[splat] = [0.0; 3];
        moment.quats[splat] = [0.0; 4];
        moment.opacity_logits[splat] = 0.0;
        moment.sh[splat * sh..(splat + 1) * sh].fill(0.0);
    }
    state.update_counts[splat] = 0;
}

/// All per-splat arrays, largest first, so that threads finish at about the same time.
fn arrays(state: &mut TrainState) -> Vec<(StateArray<'_>, NewRow)> {
    let TrainState { splats, moments, update_counts: clocks, ids, statistics, .. } = state;
    let mut arrays = Vec::with_capacity(20);
    let mut rest = Vec::with_capacity(12);
    for (splats, newborn) in
        [(splats, NewRow::Copied), (&mut moments.m, NewRow::Zero), (&mut moments.v, NewRow::Zero)]
    {
        let sh = splats.sh_stride();
        arrays.push((StateArray::Scalars(&mut splats.sh, sh), newborn));
        rest.push((StateArray::Triples(&mut splats.means), newborn));
        rest.push((StateArray::Triples(&mut splats.log_scales), newborn));
        rest.push((StateArray::Quads(&mut splats.quats), newborn));
        rest.push((StateArray::Scalars(&mut splats.opacity_logits, 1), newborn));
    }
    arrays.append(&mut rest);
    arrays.push((StateArray::Words(clocks), NewRow::Zero));
    arrays.push((StateArray::Words(ids), NewRow::Copied));
    arrays.push((StateArray::Scalars(&mut statistics.gradient_sum, 1), NewRow::Zero));
    arrays.push((StateArray::Words(&mut statistics.visible_steps), NewRow::Zero));
    arrays.push((StateArray::Scalars(&mut statistics.max_radius, 1), NewRow::Zero));
    arrays
}

/// [`edit`] for one array of `width` values per row and `before` rows.
fn edit_array<T: Copy + Default>(
    array: &mut Vec<T>,
    width: usize,
    newborn: NewRow,
    before: usize,
    kept: &[u32],
    parents: &[u32],
) {
    assert_eq!(array.len(), before * width, "the arrays of a state have different lengths");
    array.reserve_exact(parents.len() * width);
    match newborn {
        NewRow::Zero => array.resize((before + parents.len()) * width, T::default()),
        NewRow::Copied => {
            for &parent in parents {
                let first = parent as usize * width;
                array.extend_from_within(first..first + width);
            }
        }
    }
    // Contiguous runs of kept rows are moved down; the new rows are the last run.
    let mut to = 0;
    let mut at = 0;
    while at < kept.len() {
        let from = kept[at] as usize;
        let run =
            kept[at..].iter().zip(from..).take_while(|(row, expected)| **row as usize == *expected).count();
        if from != to {
            array.copy_within(from * width..(from + run) * width, to * width);
        }
        to += run;
        at += run;
    }
    if to != before {
        array.copy_within(before * width.., to * width);
    }
    array.truncate((to + parents.len()) * width);
}

/// [`permute`] for arrays of one shape.
fn permute_alike<T: Copy + Default + Send + Sync, const N: usize>(
    arrays: [&mut Vec<T>; N],
    width: usize,
    order: &[u32],
    pool: &Pool,
) {
    let mut scratch = vec![T::default(); order.len() * width];
    for array in arrays {
        assert_eq!(array.len(), scratch.len(), "the arrays of a state have different lengths");
        let before: &[T] = array;
        pool.run_chunks(&mut scratch, CHUNK * width, |chunk, after| {
            for (to, &row) in after.chunks_exact_mut(width).zip(&order[chunk * CHUNK..]) {
                let first = row as usize * width;
                to.copy_from_slice(&before[first..first + width]);
            }
        });
        std::mem::swap(array, &mut scratch);
    }
}
