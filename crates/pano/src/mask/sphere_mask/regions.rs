//! Connected regions of a mask: columns connect across the seam, and all pixels of the first or last row at a pole.
//!
//! Removed pixels are connected across edges and corners, kept pixels across edges only, so that a closed line
//! separates the sphere.

use std::f64::consts::PI;

use gausset_core::se3;

use super::runs::runs;
use super::{REMOVED, SphereMask};
use crate::sphere::geometry::direction_from_equirect;

/// Square degrees of the whole sphere: 4π (180/π)².
const SPHERE_SQUARE_DEGREES: f64 = 4.0 * 180.0 * 180.0 / PI;

/// A run of columns in a row that belongs to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRun {
    /// Row of the mask.
    pub row: usize,
    /// First column.
    pub start: usize,
    /// One past the last column.
    pub end: usize,
}

/// A connected region of a mask.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Its pixels, row by row.
    pub runs: Vec<RegionRun>,
    /// Area in square degrees.
    pub area_square_degrees: f64,
    /// Direction of its centre (mean of its directions), panorama axes. Normalised, unless the directions cancel out.
    pub centre: [f64; 3],
}

/// Which pixels form the regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegionKind {
    Removed,
    Kept,
}

impl SphereMask {
    /// The connected regions of removed pixels, from top to bottom.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        LabelledRegions::new(self, RegionKind::Removed).regions
    }

    /// Removes a region.
    pub fn remove(&mut self, region: &Region) {
        self.paint(region, 0);
    }

    /// Keeps a region.
    pub fn keep(&mut self, region: &Region) {
        self.paint(region, 255);
    }

    fn paint(&mut self, region: &Region, value: u8) {
        for run in &region.runs {
            self.data[run.row * self.width + run.start..run.row * self.width + run.end].fill(value);
        }
    }

    /// Keeps removed regions that are smaller than this.
    pub fn drop_small(&mut self, square_degrees: f64) {
        for region in self.regions() {
            if region.area_square_degrees < square_degrees {
                self.keep(&region);
            }
        }
    }

    /// Removes kept regions that are enclosed by removed ones and whose area is at most `share` times that of the
    /// largest removed region that they touch. The largest kept region is never removed.
    pub fn fill_holes(&mut self, share: f64) {
        let kept = LabelledRegions::new(self, RegionKind::Kept);
        let Some(outside) = (0..kept.regions.len()).reduce(|a, b| {
            if kept.regions[b].area_square_degrees > kept.regions[a].area_square_degrees { b } else { a }
        }) else {
            return;
        };
        if kept.regions.len() == 1 {
            return;
        }
        let removed = LabelledRegions::new(self, RegionKind::Removed);
        let mut around = vec![0.0f64; kept.regions.len()];
        kept.for_each_touching(&removed, |hole, part| {
            around[hole] = around[hole].max(removed.regions[part].area_square_degrees);
        });
        for (index, hole) in kept.regions.iter().enumerate() {
            if index != outside && hole.area_square_degrees <= share * around[index] {
                self.remove(hole);
            }
        }
    }
}

/// The regions of a mask, and the region of each of its runs.
struct LabelledRegions {
    width: usize,
    /// Per row: runs with the index of their region.
    rows: Vec<Vec<(RegionRun, usize)>>,
    regions: Vec<Region>,
}

impl LabelledRegions {
    fn new(mask: &SphereMask, part: RegionKind) -> Self {
        let (width, height) = (mask.width, mask.height);
        let is_wanted = |keep: u8| (keep < REMOVED) == (part == RegionKind::Removed);
        let mut all: Vec<RegionRun> = Vec::new();
        let mut first_of_row = Vec::with_capacity(height + 1);
        for (row, values) in mask.data.chunks_exact(width).enumerate() {
            first_of_row.push(all.len());
            all.extend(runs(values, is_wanted).into_iter().map(|run| RegionRun {
                row,
                start: run.start,
                end: run.end,
            }));
        }
        first_of_row.push(all.len());
        let mut sets = DisjointSets::new(all.len());
        for row in 0..height {
            let own = first_of_row[row]..first_of_row[row + 1];
            let (Some(first), Some(last)) = (own.clone().next(), own.clone().last()) else { continue };
            if all[first].start == 0 && all[last].end == width {
                sets.join(first, last);
            }
            if row == 0 || row + 1 == height {
                own.clone().for_each(|run| sets.join(first, run));
            }
            if row + 1 < height {
                let below = first_of_row[row + 1]..first_of_row[row + 2];
                for_each_touching_run(&all, own, below, width, part == RegionKind::Removed, |a, b| {
                    sets.join(a, b)
                });
            }
        }
        let mut number = vec![usize::MAX; all.len()];
        let mut regions: Vec<Region> = Vec::new();
        let mut rows: Vec<Vec<(RegionRun, usize)>> = vec![Vec::new(); height];
        for (index, run) in all.iter().enumerate() {
            let root = sets.root(index);
            if number[root] == usize::MAX {
                number[root] = regions.len();
                regions.push(Region { runs: Vec::new(), area_square_degrees: 0.0, centre: [0.0; 3] });
            }
            let region = &mut regions[number[root]];
            region.runs.push(*run);
            rows[run.row].push((*run, number[root]));
        }
        for region in &mut regions {
            compute_area_and_centre(region, mask);
        }
        Self { width, rows, regions }
    }

    /// Calls `call` for each pair of regions that touch at an edge.
    fn for_each_touching(&self, other: &Self, mut call: impl FnMut(usize, usize)) {
        for (row, own) in self.rows.iter().enumerate() {
            for (run, region) in own {
                // In the same row.
                for (next, part) in &other.rows[row] {
                    let meets = next.end % self.width == run.start || run.end % self.width == next.start;
                    if meets {
                        call(*region, *part);
                    }
                }
                let above = row.checked_sub(1).map(|above| &other.rows[above]);
                for (next, part) in above.into_iter().chain(other.rows.get(row + 1)).flatten() {
                    if next.start < run.end && run.start < next.end {
                        call(*region, *part);
                    }
                }
            }
        }
    }
}

/// Calls `call` for each pair of touching runs in a row and the row below it.
fn for_each_touching_run(
    all: &[RegionRun],
    upper: std::ops::Range<usize>,
    lower: std::ops::Range<usize>,
    width: usize,
    over_corners: bool,
    mut call: impl FnMut(usize, usize),
) {
    let more = usize::from(over_corners);
    let mut first = lower.start;
    for a in upper.clone() {
        while first < lower.end && all[first].end + more <= all[a].start {
            first += 1;
        }
        let mut b = first;
        while b < lower.end && all[b].start < all[a].end + more {
            call(a, b);
            b += 1;
        }
    }
    // Corners across the seam.
    if over_corners && !upper.is_empty() && !lower.is_empty() {
        let (a, b) = (upper, lower);
        if all[a.end - 1].end == width && all[b.start].start == 0 {
            call(a.end - 1, b.start);
        }
        if all[a.start].start == 0 && all[b.end - 1].end == width {
            call(a.start, b.end - 1);
        }
    }
}

fn compute_area_and_centre(region: &mut Region, mask: &SphereMask) {
    let (w, h) = (mask.width as f64, mask.height as f64);
    for run in &region.runs {
        let share = mask.pixel_fraction(run.row);
        region.area_square_degrees += (run.end - run.start) as f64 * share * SPHERE_SQUARE_DEGREES;
        // The mean direction of an arc of a row: its centre, with the horizontal components scaled by sin(x)/x.
        let half = PI * (run.end - run.start) as f64 / w;
        let [x, y, z] =
            direction_from_equirect(0.5 * (run.start + run.end) as f64, run.row as f64 + 0.5, w, h);
        let along = if half > 1e-9 { libm::sin(half) / half } else { 1.0 };
        let weight = (run.end - run.start) as f64 * share;
        for (sum, value) in region.centre.iter_mut().zip([x * along, y, z * along]) {
            *sum += weight * value;
        }
    }
    let length = se3::norm(region.centre);
    if length > 1e-12 {
        region.centre = region.centre.map(|value| value / length);
    }
}

/// Disjoint sets of runs (union-find with path halving).
struct DisjointSets(Vec<usize>);

impl DisjointSets {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    /// The earlier run is the root, so that regions are numbered from the top.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(rows: &[&str]) -> SphereMask {
        let data = rows.iter().flat_map(|row| row.bytes().map(|b| if b == b'#' { 0 } else { 255 })).collect();
        SphereMask::from_data(rows[0].len(), rows.len(), data)
    }

    #[test]
    fn the_seam_and_the_poles_join() {
        let apart = mask(&["........", "#......#", "...##...", "..#.....", "........", "........"]);
        // One region across the seam, another connected at a corner.
        assert_eq!(apart.regions().len(), 2);
        let corner = mask(&["........", "#.......", ".......#", "........"]);
        assert_eq!(corner.regions().len(), 1);
        let poles = mask(&["#...#...", "........", "........", "..#...#."]);
        assert_eq!(poles.regions().len(), 2);
        let below = mask(&["........", "#...#...", "........", "........"]);
        assert_eq!(below.regions().len(), 2);
    }

    #[test]
    fn labels_are_those_of_a_flood() {
        // Compares random masks with the simplest algorithm: touching pixels take the smaller label until nothing
        // changes.
        for seed in 1..6u64 {
            let (w, h) = (24usize, 12usize);
            let noise = |at: usize| {
                let mut v = ((seed << 32) | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                v = (v ^ (v >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                (v >> 60) as u8
            };
            let data = (0..w * h).map(|at| if noise(at) < 6 { 0 } else { 255 }).collect();
            let mask = SphereMask::from_data(w, h, data);
            let mut label: Vec<usize> = (0..w * h).collect();
            let touch = |a: usize, b: usize| {
                let (ax, ay, bx, by) = (a % w, a / w, b % w, b / w);
                let across = ax.abs_diff(bx).min(w - ax.abs_diff(bx));
                (across <= 1 && ay.abs_diff(by) <= 1) || (ay == by && (ay == 0 || ay + 1 == h))
            };
            loop {
                let mut changed = false;
                for a in 0..w * h {
                    for b in 0..a {
                        if mask.data[a] == 0 && mask.data[b] == 0 && touch(a, b) && label[a] != label[b] {
                            let least = label[a].min(label[b]);
                            (label[a], label[b], changed) = (least, least, true);
                        }
                    }
                }
                if !changed {
                    break;
                }
            }
            let mut wanted: Vec<usize> =
                (0..w * h).filter(|&at| mask.data[at] == 0).map(|at| label[at]).collect();
            wanted.sort_unstable();
            wanted.dedup();
            let regions = mask.regions();
            assert_eq!(regions.len(), wanted.len(), "seed {seed}");
            for region in &regions {
                let labels: Vec<usize> = region
                    .runs
                    .iter()
                    .flat_map(|run| (run.start..run.end).map(|x| label[run.row * w + x]))
                    .collect();
                assert!(labels.iter().all(|l| *l == labels[0]), "seed {seed}");
            }
        }
    }

    #[test]
    fn holes_are_filled_by_their_share_and_specks_dropped_by_their_size() {
        let ring =
            ["............", "..#####.....", "..#...#...#.", "..#####.....", "............", "............"];
        let mut filled = mask(&ring);
        filled.fill_holes(0.1);
        assert_eq!(filled, mask(&ring));
        filled.fill_holes(0.5);
        assert_eq!(filled.data[2 * 12 + 4], 0);
        // A pixel there covers 30 x 30 degrees, times about cos(15°).
        let area = mask(&[
            "............",
            "............",
            "..........#.",
            "............",
            "............",
            "............",
        ])
        .regions()[0]
            .area_square_degrees;
        assert!((area - 900.0 * 15.0f64.to_radians().cos()).abs() < 20.0, "{area}");
        filled.drop_small(area + 1.0);
        assert_eq!(filled.regions().len(), 1);
        filled.drop_small(1e5);
        assert!(filled.keeps_all());
    }

    #[test]
    fn a_hole_across_the_seam_and_one_at_a_pole_are_holes() {
        let mut around = mask(&[
            "............",
            "............",
            "##.........#",
            ".#........#.",
            "##........##",
            "............",
        ]);
        around.fill_holes(1.0);
        assert_eq!(around.data[3 * 12], 0);
        assert_eq!(around.data[3 * 12 + 11], 0);
        let mut cap = mask(&[
            "............",
            "............",
            "............",
            "............",
            "############",
            "............",
        ]);
        cap.fill_holes(1.0);
        assert!(
            cap.data[60..].iter().all(|&keep| keep == 0) && cap.data[..48].iter().all(|&keep| keep == 255)
        );
    }

    #[test]
    fn a_region_across_the_seam_has_its_middle_there() {
        let region = &mask(&["........", "........", "#......#", "........"]).regions()[0];
        // Behind, a row below the horizon.
        let [x, y, z] = region.centre;
        assert!(x.abs() < 1e-12 && y > 0.3 && z < -0.8, "{:?}", region.centre);
    }
}
