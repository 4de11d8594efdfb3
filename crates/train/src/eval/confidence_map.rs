//! What the training views know, seen from above: which places are confirmed, and where to photograph again.

use std::collections::{BTreeMap, BTreeSet};

use gausset_core::se3;
use gausset_core::splats_transform::Similarity;
use gausset_io::dataset::{Dataset, Tracks};
use serde::{Deserialize, Serialize};

use super::confidence::Confidence;
use crate::option_values::Up;
use crate::up;

/// Version of the layout of `confidence.json`.
const SCHEMA: u32 = 1;
/// Cells on the longer side of the map.
const CELLS: usize = 48;
/// Fraction of the surveyed points beyond each border of the map: a few far away would make all others one cell.
const STRAY: f64 = 0.05;
/// Maximum number of places to photograph again.
const MAX_PLACES: usize = 3;
/// Minimum fraction of all points that are not confirmed in one place.
const MIN_PLACE: f64 = 0.005;
/// Cells of the map on a side of a place: what a photograph from nearby shows.
const PLACE_CELLS: f64 = 10.0;
/// Minimum number of common points of photographs that the map joins. Each is joined with the few that share the most
/// points with it.
const COMMON_POINTS: u32 = 15;
const PARTNERS: usize = 4;
/// Step to the side, as a fraction of the distance: it gives a parallax of about 17 degrees.
const SIDE_STEP: f64 = 0.3;

/// What the training views know about the surfaces that they show: `confidence.json` in a run folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceReport {
    /// Version of the layout.
    pub schema: u32,
    /// Fraction of the surface, as the training views show it, that is confirmed.
    pub confirmed: f64,
    /// Fraction that two views show, or more from the same direction.
    pub seen: f64,
    /// Fraction that at most one view shows.
    pub invented: f64,
    /// The places from above.
    pub map: ConfidenceMap,
    /// Places that are not confirmed, the largest first.
    pub again: Vec<PhotographAgain>,
}

/// The surveyed places and the cameras from above. Positions are in cells; x is to the right, y is down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceMap {
    /// Side of a cell in units of the splats.
    pub cell: f64,
    /// Columns and rows.
    pub size: [usize; 2],
    /// Column, row, and number of points that are confirmed, seen and invented, for each cell with a point.
    pub cells: Vec<[u32; 5]>,
    /// Position and horizontal viewing direction of each training camera.
    pub cameras: Vec<[f64; 4]>,
    /// Cameras, by index, that see common points of the dataset; each with the few that share the most with it.
    #[serde(default)]
    pub pairs: Vec<[u32; 2]>,
}

/// A place that should be photographed again, and from where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhotographAgain {
    /// The photograph that was taken nearest to the position.
    pub near: String,
    /// Fraction of all points that are not confirmed there.
    pub share: f64,
    /// Position, in the axes of the splats.
    pub position: [f64; 3],
    /// The place to look at.
    pub target: [f64; 3],
    /// Position and place on the map.
    pub arrow: [[f64; 2]; 2],
}

/// A training camera, in the axes of the survey.
struct View<'a> {
    name: &'a str,
    centre: [f64; 3],
    forward: [f64; 3],
}

impl ConfidenceReport {
    /// The report of surveyed points in the coordinates of the dataset, whose tracks are `tracks`; `None` without points.
    /// `splats_from_dataset` maps what is reported to the axes of the splats.
    #[must_use]
    pub fn new(
        points: &[([f64; 3], Confidence)],
        dataset: &Dataset,
        tracks: &Tracks,
        splats_from_dataset: &Similarity,
    ) -> Option<Self> {
        let images = dataset.split.train.iter().map(|&index| &dataset.images[index]);
        let views: Vec<View<'_>> = images
            .map(|image| View {
                name: &image.name,
                centre: image.pose.centre(),
                forward: image.pose.rotation[2],
            })
            .collect();
        let up = up::direction_of(Up::Auto, dataset).unwrap_or(up::SAVED_UP);
        let plan = Plan::new(points, &views, up)?;
        let share = |wanted| {
            points.iter().filter(|(_, confidence)| *confidence == wanted).count() as f64 / points.len() as f64
        };
        let scale = splats_from_dataset.scale;
        let again = plan.places_to_photograph(points, &views).into_iter().map(|mut place| {
            place.position = splats_from_dataset.apply(place.position);
            place.target = splats_from_dataset.apply(place.target);
            place
        });
        Some(Self {
            schema: SCHEMA,
            confirmed: share(Confidence::Confirmed),
            seen: share(Confidence::Seen),
            invented: share(Confidence::Invented),
            again: again.collect(),
            map: ConfidenceMap {
                cell: plan.cell * scale,
                pairs: pairs_of(dataset.split.train.iter().map(|&index| tracks.points_of(index))),
                ..plan.map(points, &views)
            },
        })
    }
}

/// The ground plan: axes and borders of the map.
struct Plan {
    /// World to map axes: right, down, up.
    axes: [[f64; 3]; 3],
    /// Corner of the map, in map axes.
    corner: [f64; 2],
    cell: f64,
    size: [usize; 2],
}

impl Plan {
    fn new(points: &[([f64; 3], Confidence)], views: &[View<'_>], up: [f64; 3]) -> Option<Self> {
        let first = views.first()?;
        // The top of the map is where the cameras look; around a subject, where the first one does.
        let sum = views.iter().fold([0.0; 3], |sum, view| add(sum, view.forward));
        let is_one_way = se3::norm(sum) > 0.5 * views.len() as f64;
        let towards = if is_one_way { sum } else { first.forward };
        let level = |v: [f64; 3]| {
            let height = se3::dot(v, up);
            se3::sub(v, up.map(|u| u * height))
        };
        let candidates =
            [level(towards), level(first.forward), level([0.0, 0.0, 1.0]), level([1.0, 0.0, 0.0])];
        let ahead = candidates.into_iter().find(|v| se3::norm(*v) > 1e-3)?;
        let ahead = ahead.map(|v| v / se3::norm(ahead));
        let axes = [se3::cross(ahead, up), ahead.map(|v| -v), up];
        let place = |point: [f64; 3]| [se3::dot(axes[0], point), se3::dot(axes[1], point)];
        let (mut corner, mut sides) = ([0.0; 2], [0.0; 2]);
        for k in 0..2 {
            let mut values: Vec<f64> = points.iter().map(|(point, _)| place(*point)[k]).collect();
            values.sort_by(f64::total_cmp);
            let stray = (STRAY * values.len() as f64) as usize;
            let cameras = views.iter().map(|view| place(view.centre)[k]);
            let low = cameras.clone().fold(*values.get(stray)?, f64::min);
            let high = cameras.fold(values[values.len() - 1 - stray], f64::max);
            (corner[k], sides[k]) = (low, high - low);
        }
        let cell = sides[0].max(sides[1]) / CELLS as f64;
        if !(cell > 0.0 && cell.is_finite()) {
            return None;
        }
        let size = sides.map(|side| ((side / cell).ceil() as usize).clamp(1, CELLS));
        Some(Self { axes, corner, cell, size })
    }

    /// Position on the map, in cells.
    fn place(&self, point: [f64; 3]) -> [f64; 2] {
        std::array::from_fn(|k| (se3::dot(self.axes[k], point) - self.corner[k]) / self.cell)
    }

    fn contains(&self, [x, y]: [f64; 2]) -> bool {
        x >= 0.0 && y >= 0.0 && x < self.size[0] as f64 && y < self.size[1] as f64
    }

    fn map(&self, points: &[([f64; 3], Confidence)], views: &[View<'_>]) -> ConfidenceMap {
        let [columns, rows] = self.size;
        let mut counts = vec![[0u32; 3]; columns * rows];
        for (point, confidence) in points {
            let place = self.place(*point);
            if self.contains(place) {
                let cell = &mut counts[place[1] as usize * columns + place[0] as usize];
                cell[Confidence::Confirmed as usize - *confidence as usize] += 1;
            }
        }
        let cells = counts.iter().enumerate().filter(|(_, counts)| **counts != [0; 3]);
        let cells = cells.map(|(i, &[confirmed, seen, invented])| {
            [(i % columns) as u32, (i / columns) as u32, confirmed, seen, invented]
        });
        let cameras = views.iter().map(|view| {
            let [x, y] = self.place(view.centre);
            [x, y, se3::dot(self.axes[0], view.forward), se3::dot(self.axes[1], view.forward)]
        });
        ConfidenceMap {
            cell: self.cell,
            size: self.size,
            cells: cells.collect(),
            cameras: cameras.map(|camera| camera.map(rounded)).collect(),
            pairs: Vec::new(),
        }
    }

    /// The places with the most points that are not confirmed.
    fn places_to_photograph(
        &self,
        points: &[([f64; 3], Confidence)],
        views: &[View<'_>],
    ) -> Vec<PhotographAgain> {
        let side = PLACE_CELLS * self.cell;
        // Ordered, so that equal places are found in the same order everywhere.
        let mut places = BTreeMap::<[i64; 2], Place>::new();
        for (point, confidence) in points {
            let at = self.place(*point);
            if !self.contains(at) {
                continue;
            }
            let place = places.entry(at.map(|v| (v / PLACE_CELLS).floor() as i64)).or_default();
            place.points += 1;
            if *confidence < Confidence::Confirmed {
                place.unconfirmed += 1;
                place.sum = add(place.sum, *point);
            }
        }
        let mut places: Vec<Place> = places.into_values().collect();
        places.retain(|place| {
            2 * place.unconfirmed > place.points
                && place.unconfirmed as f64 >= MIN_PLACE * points.len() as f64
        });
        places.sort_by_key(|place| std::cmp::Reverse(place.unconfirmed));
        let mut chosen: Vec<PhotographAgain> = Vec::new();
        for place in &places {
            let target = place.sum.map(|v| v / place.unconfirmed as f64);
            let is_apart = chosen.iter().all(|other| se3::distance(other.target, target) > side);
            if chosen.len() < MAX_PLACES && is_apart {
                let share = place.unconfirmed as f64 / points.len() as f64;
                chosen.extend(self.photograph(target, share, views));
            }
        }
        chosen
    }

    /// A step to the side of the nearest camera that looks at the place, where fewer cameras are.
    fn photograph(&self, target: [f64; 3], share: f64, views: &[View<'_>]) -> Option<PhotographAgain> {
        let distance = |view: &&View<'_>| se3::distance(view.centre, target);
        let looks = |view: &&View<'_>| {
            se3::dot(view.forward, se3::sub(target, view.centre)) > 0.7 * se3::distance(view.centre, target)
        };
        let nearest = |a: &&View<'_>, b: &&View<'_>| distance(a).total_cmp(&distance(b));
        let view = views.iter().filter(looks).min_by(nearest).or_else(|| views.iter().min_by(nearest))?;
        let ray = se3::sub(target, view.centre);
        let length = se3::norm(ray);
        let side = se3::cross(ray, self.axes[2]);
        let side_length = se3::norm(side);
        if length <= 0.0 || side_length <= 0.0 {
            return None;
        }
        let step = side.map(|v| v * SIDE_STEP * length / side_length);
        let [left, right] = [se3::sub(view.centre, step), add(view.centre, step)];
        let crowd = |at: [f64; 3]| {
            views.iter().map(|view| 1.0 / (se3::distance(view.centre, at) + 0.1 * length)).sum::<f64>()
        };
        let position = if crowd(left) < crowd(right) { left } else { right };
        let arrow = [position, target].map(|point| self.place(point).map(rounded));
        Some(PhotographAgain { near: view.name.to_owned(), share, position, target, arrow })
    }
}

/// Points of a place.
#[derive(Default)]
struct Place {
    points: usize,
    unconfirmed: usize,
    /// Sum of the points that are not confirmed.
    sum: [f64; 3],
}

fn add(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|k| a[k] + b[k])
}

/// To a hundredth of a cell.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The pairs of photographs to join, from the points that each sees.
fn pairs_of<'a>(points: impl Iterator<Item = &'a [u32]>) -> Vec<[u32; 2]> {
    let mut seen_by = BTreeMap::<u32, Vec<u32>>::new();
    for (view, points) in (0..).zip(points) {
        points.iter().for_each(|&point| seen_by.entry(point).or_default().push(view));
    }
    let mut common = BTreeMap::<[u32; 2], u32>::new();
    for views in seen_by.values() {
        for (at, &a) in views.iter().enumerate() {
            views[at + 1..].iter().for_each(|&b| *common.entry([a, b]).or_default() += 1);
        }
    }
    common.retain(|_, count| *count >= COMMON_POINTS);
    let mut partners = BTreeMap::<u32, Vec<(u32, u32)>>::new();
    for (&[a, b], &count) in &common {
        partners.entry(a).or_default().push((count, b));
        partners.entry(b).or_default().push((count, a));
    }
    let mut pairs = BTreeSet::new();
    for (&view, others) in &mut partners {
        others.sort_by_key(|&(count, other)| (std::cmp::Reverse(count), other));
        pairs.extend(others.iter().take(PARTNERS).map(|&(_, other)| [view.min(other), view.max(other)]));
    }
    pairs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photographs_are_joined_with_those_that_share_the_most_points() {
        // Photograph k sees the points 10 k to 10 k + 39: its neighbours share 30, the next 20, others too few.
        let seen: Vec<Vec<u32>> = (0..9).map(|k| (10 * k..10 * k + 40).collect()).collect();
        let pairs = pairs_of(seen.iter().map(Vec::as_slice));
        let expected: Vec<[u32; 2]> =
            (0..9).flat_map(|a| (a + 1..9.min(a + 3)).map(move |b| [a, b])).collect();
        assert_eq!(pairs, expected);
    }

    /// Cameras around the origin, at height 1, that look at it.
    fn cameras() -> Vec<View<'static>> {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let at = |(k, name): (usize, &'static str)| {
            let angle = std::f64::consts::TAU * k as f64 / 8.0;
            let centre = [4.0 * libm::cos(angle), 1.0, 4.0 * libm::sin(angle)];
            View { name, centre, forward: centre.map(|v| -v / se3::norm(centre)) }
        };
        names.into_iter().enumerate().map(at).collect()
    }

    #[test]
    fn the_map_counts_what_is_known_and_the_largest_unconfirmed_place_gets_an_arrow() {
        let grid = (0..100).map(|k| [f64::from(k % 10) / 10.0 - 0.45, f64::from(k / 10) / 10.0 - 0.45]);
        let known = grid.clone().map(|[x, z]| ([x, 0.0, z], Confidence::Confirmed));
        // Behind the camera at (4, 1, 0).
        let unknown = grid.map(|[x, z]| ([6.0 + x, 0.0, z], Confidence::Invented));
        let points: Vec<_> = known.chain(unknown).collect();
        let views = cameras();
        let plan = Plan::new(&points, &views, [0.0, 1.0, 0.0]).unwrap();
        assert_eq!(plan.size.iter().max(), Some(&CELLS));
        let map = plan.map(&points, &views);
        let counted = |k: usize| map.cells.iter().map(|cell| cell[k]).sum::<u32>();
        assert_eq!((counted(2), counted(3)), (100, 0));
        // A few far away are beyond the border.
        assert!((80..=100).contains(&counted(4)), "{}", counted(4));
        assert_eq!(map.cameras.len(), 8);
        let places = plan.places_to_photograph(&points, &views);
        let [place] = places.as_slice() else { panic!("{places:?}") };
        assert!(se3::distance(place.target, [6.0, 0.0, 0.0]) < 0.5, "{place:?}");
        // From a step to the side of a camera that looks towards it, across the scene.
        let camera = views.iter().find(|view| view.name == place.near).unwrap();
        assert!(camera.centre[0] < 0.0, "{place:?}");
        let step = se3::distance(camera.centre, place.position) / se3::distance(camera.centre, place.target);
        assert!((step - SIDE_STEP).abs() < 1e-9, "{step}");
        // Half of the points, of which a cell holds a part.
        assert!((0.1..=0.5).contains(&place.share), "{}", place.share);
        assert!(Plan::new(&[], &views, [0.0, 1.0, 0.0]).is_none());
        assert!(Plan::new(&points, &[], [0.0, 1.0, 0.0]).is_none());
    }
}
