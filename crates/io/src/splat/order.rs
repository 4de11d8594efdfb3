//! Orders points so that consecutive ones are close in space, for formats that encode splats in groups.
//!
//! The set is split recursively along its longest side, until one group is left. The split is the multiple of the group
//! size that minimises the sum of side length times number of points over both parts. For evenly spread points that is
//! the middle; with a few outliers it separates them from the others, which would be coded in coarse steps if they
//! shared a group. Before that, points far out on all sides (sky, floaters) are separated from the core in shells, by
//! the same cost.

/// Levels of recursion in addition to those of halving, after which parts are only halved.
const EXTRA_LEVELS: u32 = 24;

/// Fraction of the cost of a set below which it is split into a core and a shell.
const SHELL_COST_FRACTION: f64 = 0.75;

/// Indices of points in an order in which each consecutive `group` is compact.
pub(super) fn order_in_groups(points: &[[f32; 3]], group: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..points.len() as u32).collect();
    let levels = 2 * points.len().div_ceil(group).max(1).ilog2() + EXTRA_LEVELS;
    let mut keys = vec![0; points.len()];
    for shell in shells(points, &mut order, group) {
        split(points, shell, &mut keys, group, levels);
    }
    order
}

/// Position of a point with these quantised coordinates on a Morton curve.
pub(super) fn morton(codes: [u16; 3]) -> u64 {
    let spread = |code: u16| (0..16).fold(0u64, |all, bit| all | u64::from(code >> bit & 1) << (3 * bit));
    codes.map(spread).iter().zip(0..).fold(0, |key, (part, axis)| key | part << axis)
}

/// A sort key by coordinate, then by index, so that the order does not depend on the sort algorithm.
fn key(value: f32, index: u32) -> u64 {
    // Negative numbers get all bits inverted, others are placed above them.
    let bits = value.to_bits();
    let rising = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(rising) << 32 | u64::from(index)
}

/// The coordinate of a [`key`].
fn coordinate(key: u64) -> f32 {
    let rising = (key >> 32) as u32;
    f32::from_bits(if rising >> 31 == 1 { rising & !(1 << 31) } else { !rising })
}

/// Splits the points into shells around their median, the core first; each starts at a multiple of the group size.
fn shells<'a>(points: &[[f32; 3]], order: &'a mut [u32], group: usize) -> Vec<&'a mut [u32]> {
    let mut values = Vec::with_capacity(points.len());
    let median = [0, 1, 2].map(|axis| {
        values.clear();
        values.extend(points.iter().map(|p| p[axis]));
        let middle = values.len() / 2;
        if values.is_empty() {
            0.0
        } else {
            f64::from(*values.select_nth_unstable_by(middle, f32::total_cmp).1)
        }
    });
    // Half side of the cube around the median on which a point is.
    let radius =
        |i: u32| (0..3).map(|k| (f64::from(points[i as usize][k]) - median[k]).abs()).fold(0.0, f64::max);
    // The bits of non-negative floats sort like the numbers.
    let mut radii: Vec<(u64, u32)> = order.iter().map(|&i| (radius(i).to_bits(), i)).collect();
    radii.sort_unstable();
    order.iter_mut().zip(&radii).for_each(|(item, (_, i))| *item = *i);
    drop(radii);
    let (mut rest, mut shells) = (order, Vec::new());
    loop {
        let (count, whole) = (rest.len() as f64, rest.last().map_or(0.0, |&i| radius(i)));
        let cost = |k: usize| k as f64 * radius(rest[k - 1]) + (count - k as f64) * whole;
        let cuts = (group..rest.len()).step_by(group).map(|k| (cost(k), k));
        let best = cuts.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((_, at)) = best.filter(|(cost, _)| *cost < SHELL_COST_FRACTION * count * whole) else {
            break;
        };
        let (core, shell) = rest.split_at_mut(at);
        shells.push(shell);
        rest = core;
    }
    shells.push(rest);
    shells.reverse();
    shells
}

fn split(points: &[[f32; 3]], items: &mut [u32], keys: &mut [u64], group: usize, levels: u32) {
    if items.len() <= group {
        items.sort_unstable();
        return;
    }
    let at = cut(points, items, keys, group, levels == 0);
    let (left, right) = items.split_at_mut(at);
    split(points, left, keys, group, levels.saturating_sub(1));
    split(points, right, keys, group, levels.saturating_sub(1));
}

/// Orders points by their coordinate along the longest side, and returns the place of the best cut: a multiple of the group
/// size, the middle if `halves`. `keys` is as long as the points or longer.
pub(super) fn cut(
    points: &[[f32; 3]],
    items: &mut [u32],
    keys: &mut [u64],
    group: usize,
    halves: bool,
) -> usize {
    let [low, high] = bounds(points, items);
    let side = |axis: usize| f64::from(high[axis]) - f64::from(low[axis]);
    let axis = (1..3).fold(0, |best, axis| if side(axis) > side(best) { axis } else { best });
    let keys = &mut keys[..items.len()];
    keys.iter_mut().zip(&*items).for_each(|(out, &i)| *out = key(points[i as usize][axis], i));
    let middle = items.len().div_ceil(group) / 2 * group;
    let at = if halves {
        keys.select_nth_unstable(middle);
        middle
    } else {
        keys.sort_unstable();
        let place = |k: usize| f64::from(coordinate(keys[k]));
        let last = items.len() - 1;
        let cost = |k: usize| {
            k as f64 * (place(k - 1) - place(0)) + (items.len() - k) as f64 * (place(last) - place(k))
        };
        let cuts = (group..items.len()).step_by(group);
        // The middle, unless another split is better.
        cuts.fold((middle, cost(middle)), |best, k| if cost(k) < best.1 { (k, cost(k)) } else { best }).0
    };
    items.iter_mut().zip(&*keys).for_each(|(item, key)| *item = *key as u32);
    at
}

/// Minimum and maximum coordinates.
pub(super) fn bounds(points: &[[f32; 3]], items: &[u32]) -> [[f32; 3]; 2] {
    items.iter().fold([[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]], |[low, high], &item| {
        let p = points[item as usize];
        [std::array::from_fn(|k| low[k].min(p[k])), std::array::from_fn(|k| high[k].max(p[k]))]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: usize) -> Vec<[f32; 3]> {
        let number = |i: usize, k: u32| {
            (i as u32).wrapping_mul(2_654_435_761).wrapping_mul(2 * k + 1) as f32 / u32::MAX as f32
        };
        (0..count).map(|i| [0, 1, 2].map(|k| number(i, k))).collect()
    }

    #[test]
    fn keys_sort_like_coordinates_and_give_them_back() {
        let values = [f32::NEG_INFINITY, -2.5e7, -1.0, -0.0, 0.0, 1e-30, 3.0, f32::INFINITY];
        let keys: Vec<u64> = values.iter().map(|v| key(*v, 7)).collect();
        assert!(keys.is_sorted() && key(3.0, 8) > key(3.0, 7));
        assert!(keys.iter().zip(values).all(|(key, v)| coordinate(*key).to_bits() == v.to_bits()));
    }

    #[test]
    fn every_point_stands_once() {
        for count in [0, 1, 255, 256, 257, 5000] {
            let mut order = order_in_groups(&points(count), 256);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count as u32));
        }
        let same = order_in_groups(&[[1.0; 3]; 1000], 256);
        assert!(same.into_iter().eq(0..1000), "equal points keep their order");
    }

    #[test]
    fn groups_are_small_and_far_points_stand_apart() {
        let mut points = points(20_000);
        for i in 0..40 {
            points[500 * i][0] += 1000.0 * (i as f32 + 1.0);
        }
        let order = order_in_groups(&points, 256);
        let side = |group: &[u32]| {
            let [low, high] = bounds(&points, group);
            (0..3).map(|k| high[k] - low[k]).fold(0.0, f32::max)
        };
        let wide = order.chunks(256).filter(|group| side(group) > 0.6).count();
        // 32 of the 40 fill the last, incomplete group; the other 8 are in one group with their nearest neighbours.
        assert!(wide <= 2, "{wide} groups are as wide as the scene");
    }
}
