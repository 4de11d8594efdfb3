//! Accelerated evaluation: its cost grows with the number of contributing pairs, and its error bound is guaranteed.
//!
//! Points are sorted into leaves (`leaves`), Gaussians along a Morton curve (`index`). Per super-block of 512 points,
//! and then per leaf of 32, the Gaussians that can contribute are listed (`lists`), and the dense kernels run over the
//! lists. With the bound rule, the sum of the omitted contributions is below the requested error at every point of the
//! leaf: `Σ |w| 2^-q` with lower bounds `q` over the leaf's box. Lists are computed in f32, with bounds rounded to the
//! safe side, also for f64 fields. The rounding errors of the evaluation come in addition, as in dense evaluation.

mod index;
mod leaves;
mod lists;
pub(crate) mod pass;

use gausset_compute::at_level;
use std::sync::Mutex;

use crate::dense::{self, DerivativeOrder};
use crate::error::FieldError;
use crate::eval::{Compute, FieldDerivatives};
use crate::field::GaussianField;
use crate::packed::{PackedField, Term};
use crate::real::{Lanes, Real};

pub(crate) use index::{GaussianIndex, morton_order};
use leaves::SUPER;
pub(crate) use leaves::{LEAF, Leaves};
use lists::{LeafLists, ListRule};

/// Requested errors are clamped to this, so that sums of contributions stay below the largest f32.
const MAX_ERROR: f64 = 1e36;

/// How much of the contributions may be omitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cutoff {
    /// At most this at any point, value units; 0 = nothing.
    Absolute(f64),
    /// At most this fraction of the largest |f| at the given points; 0 = nothing.
    Relative(f64),
}

/// Statistics of an accelerated evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CutoffReport {
    /// Point-Gaussian pairs that were computed (including the padding of the last leaf).
    pub pairs: u64,
    /// Error bound of all values, rounding excepted; `None` without a bound.
    pub bound: Option<f64>,
}

/// Points prepared for accelerated evaluation: sorted once, usable with any field.
#[derive(Clone, Debug)]
pub struct SortedPoints<T: Real> {
    pub(crate) leaves: Leaves<T>,
}

impl<T: Real> SortedPoints<T> {
    /// Sorts points.
    ///
    /// # Errors
    /// A point is not finite or too far from the origin; there are more than 2³² - 32 points.
    pub fn new(points: &[[T; 3]]) -> Result<Self, FieldError> {
        GaussianField::check_points(points)?;
        if u32::try_from(points.len() + LEAF).is_err() {
            return Err(FieldError::TooMany { what: "points", count: points.len() });
        }
        Ok(Self { leaves: Leaves::new(points) })
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leaves.len
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaves.len == 0
    }
}

/// A field prepared for accelerated evaluation.
///
/// ```
/// use gausset_field::{AcceleratedEvaluator, Compute, Cutoff, SortedPoints};
/// use gausset_field::{CovarianceKind, GaussianField, WeightMode};
///
/// let (means, chol) = (vec![[0.0f64; 3]], vec![[0.0; 6]]);
/// let field = GaussianField::new(means, chol, vec![1.0], WeightMode::Raw, CovarianceKind::Full)?;
/// let compute = Compute::best();
/// // The second point is a thousand standard deviations away.
/// let points = SortedPoints::new(&[[0.0, 0.0, 0.0], [1000.0, 0.0, 0.0]])?;
/// let (values, report) = AcceleratedEvaluator::new(&compute, &field)?.values(&points, Cutoff::Absolute(1e-6))?;
/// assert!((values[0] - 1.0).abs() < 1e-6 && values[1].abs() < 1e-6);
/// assert!(report.bound.is_some_and(|bound| bound <= 1e-6));
/// # Ok::<(), gausset_field::FieldError>(())
/// ```
#[derive(Debug)]
pub struct AcceleratedEvaluator<'a, T: Real> {
    compute: &'a Compute,
    /// Terms in the order of the index.
    terms: Vec<Term<T>>,
    index: GaussianIndex,
    /// Working memory of lists, reused between calls.
    scratch: Mutex<Vec<Scratch<T>>>,
}

/// Working memory of a thread.
#[derive(Debug, Default)]
struct Scratch<T> {
    lists: LeafLists,
    terms: Vec<Term<T>>,
}

impl<'a, T: Real> AcceleratedEvaluator<'a, T> {
    /// Prepares a field.
    ///
    /// # Errors
    /// As [`GaussianField::check`]; there are 2³² Gaussians or more.
    pub fn new(compute: &'a Compute, field: &'a GaussianField<T>) -> Result<Self, FieldError> {
        field.check_shape()?;
        if u32::try_from(field.len() + 1024).is_err() {
            return Err(FieldError::TooMany { what: "Gaussians", count: field.len() });
        }
        let packed = PackedField::new(compute.exec(), field);
        if !packed.is_usable {
            field.check()?;
        }
        let order = morton_order(field);
        let terms = order.iter().map(|&i| packed.terms[i as usize]).collect();
        let index = GaussianIndex::new(field, &packed, order, &compute.pool);
        Ok(Self { compute, terms, index, scratch: Mutex::default() })
    }

    /// f at points.
    ///
    /// # Errors
    /// The cutoff is negative or not a number.
    pub fn values(
        &self,
        points: &SortedPoints<T>,
        cutoff: Cutoff,
    ) -> Result<(Vec<T>, CutoffReport), FieldError> {
        let (mut rows, report) = self.forward(points, cutoff, DerivativeOrder::Value)?;
        Ok((rows.swap_remove(0), report))
    }

    /// f and ∇f at points. The bound applies to the values; the error of gradients is up to `|p|` times as large, with
    /// `|p|` the distance to the omitted Gaussians in standard deviations, divided by the shortest axis.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn gradients(
        &self,
        points: &SortedPoints<T>,
        cutoff: Cutoff,
    ) -> Result<(FieldDerivatives<T>, CutoffReport), FieldError> {
        let (rows, report) = self.forward(points, cutoff, DerivativeOrder::Gradient)?;
        let gradients = (0..points.len()).map(|b| [rows[1][b], rows[2][b], rows[3][b]]).collect();
        let values = rows.into_iter().next().unwrap_or_default();
        Ok((FieldDerivatives { values, gradients, hessians: Vec::new() }, report))
    }

    fn rule(&self, points: &SortedPoints<T>, cutoff: Cutoff) -> Result<ListRule, FieldError> {
        let (Cutoff::Absolute(amount) | Cutoff::Relative(amount)) = cutoff;
        if !amount.is_finite() || amount < 0.0 {
            return Err(FieldError::Cutoff { found: amount });
        }
        Ok(match cutoff {
            // Rounded down, so that the bound holds.
            Cutoff::Absolute(error) => ListRule::Bound((error.min(MAX_ERROR) as f32).next_down().max(0.0)),
            Cutoff::Relative(0.0) => ListRule::Bound(0.0),
            Cutoff::Relative(share) => {
                ListRule::Bound((share * self.sampled_maximum(points)).min(MAX_ERROR) as f32)
            }
        })
    }

    /// A value that |f| reaches at one of the points: the largest of a sample of them, computed densely.
    fn sampled_maximum(&self, points: &SortedPoints<T>) -> f64 {
        const SAMPLE: usize = 128;
        let leaves = &points.leaves;
        let step = leaves.rows.len().div_ceil(SAMPLE).max(1);
        let sample: Vec<[T; 3]> =
            leaves.rows.iter().step_by(step).map(|rows| [rows[0][0], rows[1][0], rows[2][0]]).collect();
        let rows = crate::packed::PointRows::new(&sample);
        let values = dense::forward(self.compute.exec(), &self.terms, &rows, DerivativeOrder::Value);
        // Reduced by a thousandth for the rounding of the sample.
        values[0].iter().fold(0.0f64, |most, v| most.max((*v).into().abs())) * (1.0 - 1e-3)
    }

    fn forward(
        &self,
        points: &SortedPoints<T>,
        cutoff: Cutoff,
        order: DerivativeOrder,
    ) -> Result<(Vec<Vec<T>>, CutoffReport), FieldError> {
        let rule = self.rule(points, cutoff)?;
        let leaves = &points.leaves;
        let rows = order.rows();
        // Per super-block: its rows one after the other, by slot.
        let mut slots = vec![T::ZERO; leaves.order.len() * rows];
        let supers: Vec<&mut [T]> = slots.chunks_mut(SUPER * LEAF * rows).collect();
        let mut parts: Vec<(&mut [T], u64, f32)> = supers.into_iter().map(|out| (out, 0, 0.0)).collect();
        self.compute.pool.run_parts(&mut parts, |part, (out, pairs, bound)| {
            let mut scratch = self.scratch.lock().ok().and_then(|mut free| free.pop()).unwrap_or_default();
            (*pairs, *bound) = at_level!(self.compute.level, simd =>
                self.super_block(simd, leaves, part, (rule, order), &mut scratch, out));
            if let Ok(mut free) = self.scratch.lock() {
                free.push(scratch);
            }
        });
        let mut report = CutoffReport::default();
        let mut bound = 0.0f32;
        for (_, pairs, missed) in &parts {
            report.pairs += pairs;
            bound = bound.max(*missed);
        }
        report.bound = Some(f64::from(bound));
        let mut out = vec![vec![T::ZERO; points.len()]; rows];
        for (s, block) in slots.chunks(SUPER * LEAF * rows).enumerate() {
            let len = block.len() / rows;
            for (row, values) in out.iter_mut().zip(block.chunks(len)) {
                let order = &leaves.order[s * SUPER * LEAF..][..len];
                for (&point, value) in order.iter().zip(values) {
                    row[point as usize] = *value;
                }
            }
        }
        Ok((out, report))
    }

    #[inline(always)]
    fn super_block<S: Lanes>(
        &self,
        simd: S,
        leaves: &Leaves<T>,
        part: usize,
        (rule, order): (ListRule, DerivativeOrder),
        scratch: &mut Scratch<T>,
        out: &mut [T],
    ) -> (u64, f32) {
        let Scratch { lists, terms } = scratch;
        lists.start(simd, &self.index, &leaves.supers[part], rule);
        terms.clear();
        terms.extend(lists.candidates.iter().map(|&slot| self.terms[slot as usize]));
        let (mut pairs, mut bound) = (0, 0.0f32);
        let first = part * SUPER;
        let count = leaves.rows.len().min(first + SUPER) - first;
        let mut rows: Vec<&mut [T]> = out.chunks_mut(count * LEAF).collect();
        for leaf in 0..count {
            lists.leaf(simd, &leaves.boxes[first + leaf], rule);
            pairs += (lists.kept.len() * LEAF) as u64;
            bound = bound.max(lists.omitted);
            let [x, y, z] = &leaves.rows[first + leaf];
            let mut leaf_rows: [&mut [T]; 4] = [&mut [], &mut [], &mut [], &mut []];
            for (to, row) in leaf_rows.iter_mut().zip(&mut rows) {
                *to = &mut row[leaf * LEAF..(leaf + 1) * LEAF];
            }
            let points: [&[T]; 3] = [x, y, z];
            let count = lists.kept.len();
            let term = gausset_compute::simd::inline_closure(
                #[inline(always)]
                |i: usize| &terms[lists.kept[i] as usize],
            );
            let width = <T::V<S> as fearless_simd::SimdBase<S>>::LEN;
            let mut at = 0;
            while at < LEAF {
                if order == DerivativeOrder::Gradient {
                    dense::gradients::<T, S, 1>(simd, count, term, points, at, &mut leaf_rows);
                    at += width;
                } else if 4 * width <= LEAF {
                    dense::values::<T, S, 4, 32>(simd, count, term, points, at, &mut leaf_rows);
                    at += 4 * width;
                } else {
                    dense::values::<T, S, 2, 32>(simd, count, term, points, at, &mut leaf_rows);
                    at += 2 * width;
                }
            }
        }
        (pairs, bound)
    }
}
