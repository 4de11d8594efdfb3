//! The points nearest to a place, and balls that contain it, by a k-d tree: what a scan over all finds, bit by bit.
//!
//! The squared distance is `(dx² + dy²) + dz²`, each operation rounded. The bound of a box is the same expression for the
//! position in the box that is nearest to the place. Rounding is monotone, so the rounded bound is at most the rounded
//! distance to any point in the box, and skipping boxes by their bounds loses nothing.
//!
//! Layout: nodes in depth-first order, so the left child of a node follows it; the points of a leaf are adjacent.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

/// Maximum number of points of a leaf.
const LEAF_POINTS: usize = 8;

/// `f32` or `f64`.
pub trait Real:
    Copy + Default + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
}

impl Real for f32 {}
impl Real for f64 {}

/// A point as a search finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour<T> {
    /// Squared distance from the place.
    pub squared: T,
    /// Index of the point.
    pub index: u32,
}

impl<T: Real> Neighbour<T> {
    /// Preceded by all points of smaller squared distance, and no others.
    pub fn at(squared: T) -> Self {
        Self { squared, index: 0 }
    }

    /// Whether this point is nearer, or as near with a smaller index; false if a distance is NaN.
    pub fn precedes(&self, other: &Self) -> bool {
        self.squared < other.squared || (self.squared == other.squared && self.index < other.index)
    }
}

/// An axis-aligned box.
#[derive(Clone, Copy, Debug)]
struct Bounds<T> {
    low: [T; 3],
    high: [T; 3],
}

impl<T: Real> Bounds<T> {
    /// The box around two.
    fn union(&self, other: &Self) -> Self {
        Self {
            low: std::array::from_fn(|k| least(self.low[k], other.low[k])),
            high: std::array::from_fn(|k| most(self.high[k], other.high[k])),
        }
    }

    /// The squared distance from a place to the box.
    fn squared_distance(&self, place: [T; 3]) -> T {
        let outside = |k: usize| most(self.low[k] - place[k], place[k] - self.high[k]);
        squared_norm(|k| most(outside(k), T::default()))
    }

    /// Whether a place is inside, not on the surface.
    fn contains(&self, place: [T; 3]) -> bool {
        (0..3).all(|k| self.low[k] < place[k] && place[k] < self.high[k])
    }
}

#[derive(Clone, Debug)]
struct Node<T> {
    /// The box around the points of the node.
    bounds: Bounds<T>,
    /// The points of the node.
    first: u32,
    end: u32,
    /// The smallest of their indices.
    least_index: u32,
    /// The right child; 0 for a leaf.
    right: u32,
}

impl<T> Node<T> {
    fn range(&self) -> std::ops::Range<usize> {
        self.first as usize..self.end as usize
    }
}

/// Points in a k-d tree.
#[derive(Clone, Debug)]
pub struct PointTree<T> {
    nodes: Vec<Node<T>>,
    /// Points with their indices.
    points: Vec<([T; 3], u32)>,
}

impl<T: Real> PointTree<T> {
    /// The tree of fewer than 2³² points. It leaves out points that are not finite, to which no distance is finite.
    pub fn new(points: impl IntoIterator<Item = [T; 3]>) -> Self {
        let indexed = points.into_iter().zip(0u32..).filter(|(point, _)| is_finite(point));
        let mut points: Vec<_> = indexed.collect();
        let mut nodes = Vec::new();
        if !points.is_empty() {
            push_nodes(&mut nodes, &mut points, 0);
        }
        Self { nodes, points }
    }

    /// Visits points that precede `reach`; `visit` returns what the next ones must precede. After
    /// `Neighbour::at(0)`, the search is over.
    pub fn search(
        &self,
        place: [T; 3],
        mut reach: Neighbour<T>,
        mut visit: impl FnMut(Neighbour<T>) -> Neighbour<T>,
    ) {
        // A place that is not finite is at no finite distance from any point.
        if !self.nodes.is_empty() && is_finite(&place) && self.bound(0, place).precedes(&reach) {
            self.descend(0, place, &mut reach, &mut visit);
        }
    }

    /// The nearest point, of equally near ones that with the smallest index, if any precedes `reach`.
    pub fn nearest(&self, place: [T; 3], reach: Neighbour<T>) -> Option<Neighbour<T>> {
        let mut nearest = None;
        self.search(place, reach, |found| {
            nearest = Some(found);
            found
        });
        nearest
    }

    fn descend(
        &self,
        index: u32,
        place: [T; 3],
        reach: &mut Neighbour<T>,
        visit: &mut impl FnMut(Neighbour<T>) -> Neighbour<T>,
    ) {
        let node = &self.nodes[index as usize];
        if node.right == 0 {
            for &(point, index) in &self.points[node.range()] {
                let found = Neighbour { squared: squared_norm(|k| point[k] - place[k]), index };
                if found.precedes(reach) {
                    *reach = visit(found);
                }
            }
            return;
        }
        let mut children = [index + 1, node.right].map(|child| (self.bound(child, place), child));
        if children[1].0.precedes(&children[0].0) {
            children.swap(0, 1);
        }
        for (bound, child) in children {
            if bound.precedes(reach) {
                self.descend(child, place, reach, visit);
            }
        }
    }

    /// What no point of a node precedes.
    fn bound(&self, index: u32, place: [T; 3]) -> Neighbour<T> {
        let node = &self.nodes[index as usize];
        Neighbour { squared: node.bounds.squared_distance(place), index: node.least_index }
    }
}

/// Balls in a k-d tree of their centres.
#[derive(Clone, Debug)]
pub struct BallTree {
    centres: PointTree<f32>,
    /// The box around the balls of each node: only places inside it are in one of them.
    bounds: Vec<Bounds<f32>>,
    /// Squared radii, in the order of the tree; infinity for NaN.
    squared_radii: Vec<f32>,
}

impl BallTree {
    /// The tree of balls with these centres and radii.
    #[must_use]
    pub fn new(centres: &[[f32; 3]], radii: &[f32]) -> Self {
        let tree = PointTree::new(centres.iter().copied());
        let radius = |index: u32| match radii[index as usize] {
            radius if radius.is_nan() => f32::INFINITY,
            radius => radius.abs(),
        };
        // A place whose distance along an axis is a radius or more stays so when rounded.
        let ball = |&(centre, index): &([f32; 3], u32)| Bounds {
            low: centre.map(|v| (v - radius(index)).next_down()),
            high: centre.map(|v| (v + radius(index)).next_up()),
        };
        let mut bounds: Vec<Bounds<f32>> = tree.nodes.iter().map(|node| node.bounds).collect();
        for (index, node) in tree.nodes.iter().enumerate().rev() {
            bounds[index] = if node.right == 0 {
                let balls = tree.points[node.range()].iter().map(ball);
                balls.fold(node.bounds, |bounds, ball| bounds.union(&ball))
            } else {
                bounds[index + 1].union(&bounds[node.right as usize])
            };
        }
        let squared_radii = tree.points.iter().map(|&(_, index)| radius(index) * radius(index)).collect();
        Self { centres: tree, bounds, squared_radii }
    }

    /// The nearest centre, of equally near ones that with the smallest index, if any ball contains the place: if a squared
    /// distance is below the squared radius.
    #[must_use]
    pub fn nearest_if_inside(&self, place: [f32; 3]) -> Option<Neighbour<f32>> {
        let containing = if self.bounds.is_empty() { None } else { self.containing(0, place) }?;
        Some(self.centres.nearest(place, containing).unwrap_or(containing))
    }

    /// A ball below a node that contains the place.
    fn containing(&self, index: usize, place: [f32; 3]) -> Option<Neighbour<f32>> {
        if !self.bounds[index].contains(place) {
            return None;
        }
        let node = &self.centres.nodes[index];
        if node.right != 0 {
            let left = self.containing(index + 1, place);
            return left.or_else(|| self.containing(node.right as usize, place));
        }
        let mut balls = self.centres.points[node.range()].iter().zip(&self.squared_radii[node.range()]);
        balls.find_map(|(&(centre, index), &squared_radius)| {
            let squared = squared_norm(|k| centre[k] - place[k]);
            (squared < squared_radius).then_some(Neighbour { squared, index })
        })
    }
}

fn is_finite<T: Real>(point: &[T; 3]) -> bool {
    // Infinity times 0 is NaN.
    point.iter().all(|&v| v * T::default() == T::default())
}

fn squared_norm<T: Real>(difference: impl Fn(usize) -> T) -> T {
    let [x, y, z] = std::array::from_fn(|k| {
        let along = difference(k);
        along * along
    });
    x + y + z
}

fn least<T: Real>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

fn most<T: Real>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// Appends the nodes of some points, the first of which is number `first` of all, and brings these into their order.
fn push_nodes<T: Real>(nodes: &mut Vec<Node<T>>, points: &mut [([T; 3], u32)], first: usize) {
    let of_point = |&(point, _): &([T; 3], u32)| Bounds { low: point, high: point };
    let bounds = points.iter().fold(of_point(&points[0]), |all, point| all.union(&of_point(point)));
    let least_index = points.iter().fold(u32::MAX, |least, &(_, index)| least.min(index));
    let number = nodes.len();
    let end = (first + points.len()) as u32;
    nodes.push(Node { bounds, first: first as u32, end, least_index, right: 0 });
    if points.len() <= LEAF_POINTS {
        return;
    }
    let side = |k: usize| bounds.high[k] - bounds.low[k];
    let axis = (1..3).fold(0, |longest, k| if side(k) > side(longest) { k } else { longest });
    let middle = points.len() / 2;
    // Coincident points are split by their indices, so that searches meet the smaller ones first.
    points.select_nth_unstable_by(middle, |(a, i), (b, j)| {
        a[axis].partial_cmp(&b[axis]).unwrap_or(Ordering::Equal).then(i.cmp(j))
    });
    let (left, right) = points.split_at_mut(middle);
    push_nodes(nodes, left, first);
    nodes[number].right = nodes.len() as u32;
    push_nodes(nodes, right, first + middle);
}
