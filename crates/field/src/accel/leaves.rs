//! Sorts points into leaves of 32 nearby points.
//!
//! A recursive median split along the longest axis, at multiples of 32, gives leaves of exactly 32 points (the last is
//! padded with copies of its last point) in compact boxes; 16 consecutive leaves form a super-block. Leaves of a
//! Morton order would cross its discontinuities and intersect half as many Gaussians again.

use crate::real::Real;

/// Points per leaf.
pub(crate) const LEAF: usize = 32;
/// Leaves per super-block.
pub(crate) const SUPER: usize = 16;

/// An axis-aligned box in f32, rounded outwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Box3 {
    pub(crate) lo: [f32; 3],
    pub(crate) hi: [f32; 3],
}

impl Box3 {
    /// The empty box.
    pub(crate) const EMPTY: Self = Self { lo: [f32::INFINITY; 3], hi: [f32::NEG_INFINITY; 3] };

    /// Enlarges the box to contain another box.
    pub(crate) fn union_with(&mut self, other: &Self) {
        for k in 0..3 {
            self.lo[k] = self.lo[k].min(other.lo[k]);
            self.hi[k] = self.hi[k].max(other.hi[k]);
        }
    }

    /// Enlarges the box to contain a point, however it rounds to f32.
    pub(crate) fn include(&mut self, point: [f64; 3]) {
        for k in 0..3 {
            self.lo[k] = self.lo[k].min(round_down(point[k]));
            self.hi[k] = self.hi[k].max(round_up(point[k]));
        }
    }
}

/// Coordinates farther from the origin are clamped to this in boxes, so that squares of distances stay below the
/// largest f32. Clamping never increases the distance of two coordinates. Coordinates of f32 fields and points are
/// always within it.
const MAX_COORDINATE: f64 = <f32 as Real>::MAX_COORDINATE;

/// A coordinate as f32, rounded down.
pub(crate) fn round_down(x: f64) -> f32 {
    let x = x.clamp(-MAX_COORDINATE, MAX_COORDINATE);
    let rounded = x as f32;
    if f64::from(rounded) > x { rounded.next_down() } else { rounded }
}

/// A coordinate as f32, rounded up.
pub(crate) fn round_up(x: f64) -> f32 {
    let x = x.clamp(-MAX_COORDINATE, MAX_COORDINATE);
    let rounded = x as f32;
    if f64::from(rounded) < x { rounded.next_up() } else { rounded }
}

/// Points sorted into leaves.
#[derive(Clone, Debug)]
pub(crate) struct Leaves<T: Real> {
    /// Number of points without padding.
    pub(crate) len: usize,
    /// Index of the point in each slot; padding repeats the last.
    pub(crate) order: Vec<u32>,
    /// Coordinates per leaf: three rows of 32.
    pub(crate) rows: Vec<[[T; LEAF]; 3]>,
    /// Box of each leaf.
    pub(crate) boxes: Vec<Box3>,
    /// Box of each super-block.
    pub(crate) supers: Vec<Box3>,
}

impl<T: Real> Leaves<T> {
    /// Sorts points. There must be fewer than 2³² of them.
    pub(crate) fn new(points: &[[T; 3]]) -> Self {
        let len = points.len();
        let mut order: Vec<u32> = (0..len as u32).collect();
        split(points, &mut order);
        order.resize(len.next_multiple_of(LEAF), order.last().copied().unwrap_or(0));
        let mut leaves = Self { len, order, rows: Vec::new(), boxes: Vec::new(), supers: Vec::new() };
        for slots in leaves.order.as_chunks::<LEAF>().0 {
            let mut rows = [[T::ZERO; LEAF]; 3];
            let mut bounds = Box3::EMPTY;
            for (lane, &point) in slots.iter().enumerate() {
                let point = points[point as usize];
                (0..3).for_each(|k| rows[k][lane] = point[k]);
                bounds.include(point.map(Into::into));
            }
            leaves.rows.push(rows);
            leaves.boxes.push(bounds);
        }
        for boxes in leaves.boxes.chunks(SUPER) {
            let mut bounds = Box3::EMPTY;
            boxes.iter().for_each(|leaf| bounds.union_with(leaf));
            leaves.supers.push(bounds);
        }
        leaves
    }

    /// Number of points of a leaf without padding.
    pub(crate) fn count(&self, leaf: usize) -> usize {
        (self.len - leaf * LEAF).min(LEAF)
    }
}

/// Orders points so that leaves are compact.
fn split<T: Real>(points: &[[T; 3]], order: &mut [u32]) {
    if order.len() <= LEAF {
        return;
    }
    let (mut lo, mut hi) = (points[order[0] as usize], points[order[0] as usize]);
    for &i in order.iter() {
        let point = points[i as usize];
        for k in 0..3 {
            lo[k] = if point[k] < lo[k] { point[k] } else { lo[k] };
            hi[k] = if point[k] > hi[k] { point[k] } else { hi[k] };
        }
    }
    let length = |k: usize| hi[k].into() - lo[k].into();
    let axis = (1..3).fold(0, |best, k| if length(k) > length(best) { k } else { best });
    // Several super-blocks are split at a super-block boundary, so that super-blocks are compact, too.
    let unit = if order.len() > LEAF * SUPER { LEAF * SUPER } else { LEAF };
    let units = order.len().div_ceil(unit);
    let cut = units.div_ceil(2) * unit;
    // Ties are broken by index, so that the order depends only on the points.
    order.select_nth_unstable_by(cut, |&a, &b| {
        let (x, y) = (points[a as usize][axis], points[b as usize][axis]);
        x.partial_cmp(&y).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(&b))
    });
    let (left, right) = order.split_at_mut(cut);
    split(points, left);
    split(points, right);
}
