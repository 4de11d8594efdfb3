//! An order in which neighbours in space stand together, for formats that code them in groups.
//!
//! The set is halved along its longest side, at a whole number of groups, until one group is left. Where a few splats lie
//! far out, a group at the end of that side is split off instead of a half: splats in the same group as a far one would be
//! coded in its coarse steps.

/// Share of a halving's cost below which a group at an end is split off.
const PEEL_SHARE: f64 = 0.75;
/// How often a group may be split off on the way to one part; after that only halves are made.
const PEELS: usize = 24;

/// Indices of points so that each `group` of them from the front lie together.
pub(super) fn in_groups(points: &[[f32; 3]], group: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..points.len() as u32).collect();
    split(points, &mut order, group, PEELS);
    order
}

fn split(points: &[[f32; 3]], items: &mut [u32], group: usize, peels: usize) {
    if items.len() <= group {
        items.sort_unstable();
        return;
    }
    let [low, high] = bounds(points, items);
    let side = |axis: usize| f64::from(high[axis]) - f64::from(low[axis]);
    let axis = (1..3).fold(0, |best, axis| if side(axis) > side(best) { axis } else { best });
    let value = |item: u32| points[item as usize][axis];
    // The index settles which of equal points comes first: the order does not depend on how it is found.
    let before = |a: &u32, b: &u32| value(*a).total_cmp(&value(*b)).then(a.cmp(b));

    let groups = items.len().div_ceil(group);
    let (middle, last) = (groups / 2 * group, (groups - 1) * group);
    items.select_nth_unstable_by(middle, before);
    let extent = |part: &[u32]| {
        let [low, high] = bounds(points, part);
        f64::from(high[axis]) - f64::from(low[axis])
    };
    let cost = |items: &[u32], at: usize| {
        let (left, right) = items.split_at(at);
        left.len() as f64 * extent(left) + right.len() as f64 * extent(right)
    };
    let (mut at, mut peels) = (middle, peels);
    if peels > 0 && groups > 2 {
        let mut least = PEEL_SHARE * cost(items, middle);
        for end in [group, last] {
            items.select_nth_unstable_by(end, before);
            let cost = cost(items, end);
            if cost < least {
                (least, at) = (cost, end);
            }
        }
        if at != middle {
            peels -= 1;
        }
        items.select_nth_unstable_by(at, before);
    }
    let (left, right) = items.split_at_mut(at);
    split(points, left, group, peels);
    split(points, right, group, peels);
}

/// Smallest and largest coordinates.
fn bounds(points: &[[f32; 3]], items: &[u32]) -> [[f32; 3]; 2] {
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
    fn every_point_stands_once() {
        for count in [0, 1, 255, 256, 257, 5000] {
            let mut order = in_groups(&points(count), 256);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count as u32));
        }
        let same = in_groups(&[[1.0; 3]; 1000], 256);
        assert!(same.into_iter().eq(0..1000), "equal points keep their order");
    }

    #[test]
    fn groups_are_small_and_far_points_stand_apart() {
        let mut points = points(20_000);
        for i in 0..40 {
            points[500 * i][0] += 1000.0 * (i as f32 + 1.0);
        }
        let order = in_groups(&points, 256);
        let side = |group: &[u32]| {
            let [low, high] = bounds(&points, group);
            (0..3).map(|k| high[k] - low[k]).fold(0.0, f32::max)
        };
        let wide = order.chunks(256).filter(|group| side(group) > 0.6).count();
        // 32 of the 40 fill the last group, which is not full; the other 8 are in one with their nearest neighbours.
        assert!(wide <= 2, "{wide} groups are as wide as the scene");
    }
}
