//! Completes tracks: landmarks are projected into the pictures that do not observe them, and features there with a like
//! descriptor are joined to their tracks. Where such a feature is of another landmark, the two tracks become one.

use gausset_compute::{Exec, at_level};

use crate::reconstruction::features::Features;
use crate::reconstruction::matches::{WideDescriptors, squared_distance};
use crate::reconstruction::reconstruct::Landmark;

/// Largest squared distance of a descriptor to one of the track (descriptors have length 512): less than that of matches,
/// because no second candidate is compared.
const MAX_SQUARED_DISTANCE: i32 = (0.36 * 512.0 * 512.0) as i32;
/// Descriptors of a track that are compared.
const COMPARED: usize = 4;
/// Side of a cell of the grid of features, px.
const CELL: f64 = 8.0;

/// A match of a feature of each of two pictures.
pub(crate) type SingleMatch = ([usize; 2], [u32; 2]);

/// Where a point of the world is in a picture, px; `None` outside of it, or if the picture has no pose.
pub(crate) type Projection<'a> = dyn Fn(usize, [f64; 3]) -> Option<[f64; 2]> + Sync + 'a;

/// Matches between a feature of a landmark and one within `radius` (px) of its projection into another picture, most
/// similar first.
pub(crate) fn completing_matches(
    points: &[Landmark],
    frames: &[Features],
    wide: &[WideDescriptors],
    project: &Projection<'_>,
    radius: f64,
    exec: Exec<'_>,
) -> Vec<SingleMatch> {
    let found = exec.pool.map(frames.len(), |frame| {
        let grid = FeatureGrid::new(&frames[frame]);
        let mut found: Vec<(i32, SingleMatch)> = Vec::new();
        for point in points {
            if point.observations.iter().any(|o| o[0] as usize == frame) {
                continue;
            }
            let Some(place) = project(frame, point.position) else { continue };
            let like = |feature: u32| {
                let of_track = point.observations.iter().take(COMPARED);
                let distance = |o: &[u32; 2]| {
                    at_level!(exec.level, _simd => squared_distance(&wide[o[0] as usize], o[1], &wide[frame], feature))
                };
                of_track.map(distance).min().unwrap_or(i32::MAX)
            };
            let near = grid.within(&frames[frame], place, radius).map(|feature| (like(feature), feature));
            if let Some((distance, feature)) = near.min()
                && distance <= MAX_SQUARED_DISTANCE
            {
                let [other, own] = point.observations[0];
                found.push((distance, ([other as usize, frame], [own, feature])));
            }
        }
        found
    });
    let mut all: Vec<(i32, SingleMatch)> = found.into_iter().flatten().collect();
    all.sort_unstable();
    all.into_iter().map(|(_, single)| single).collect()
}

/// The matches that landmarks consist of.
pub(crate) fn matches_of(points: &[Landmark]) -> Vec<SingleMatch> {
    let of_point = |point: &Landmark| {
        let pairs = point.observations.windows(2);
        pairs
            .map(|pair| ([pair[0][0] as usize, pair[1][0] as usize], [pair[0][1], pair[1][1]]))
            .collect::<Vec<SingleMatch>>()
    };
    points.iter().flat_map(of_point).collect()
}

/// Features of a picture by cell.
struct FeatureGrid {
    /// Cell (row, column) and feature, ascending.
    cells: Vec<([i64; 2], u32)>,
}

impl FeatureGrid {
    fn new(features: &Features) -> Self {
        let mut cells: Vec<([i64; 2], u32)> =
            features.features.iter().zip(0u32..).map(|(f, number)| (cell_of(f.pixel), number)).collect();
        cells.sort_unstable();
        Self { cells }
    }

    /// Features within `radius` of a place.
    fn within<'a>(
        &'a self,
        features: &'a Features,
        [x, y]: [f64; 2],
        radius: f64,
    ) -> impl Iterator<Item = u32> + 'a {
        let [first, last] = [cell_of([x - radius, y - radius]), cell_of([x + radius, y + radius])];
        let rows = (first[0]..=last[0]).flat_map(move |row| {
            let from = self.cells.partition_point(|(cell, _)| *cell < [row, first[1]]);
            self.cells[from..].iter().take_while(move |(cell, _)| *cell <= [row, last[1]])
        });
        rows.map(|(_, feature)| *feature).filter(move |&feature| {
            let [u, v] = features.features[feature as usize].pixel;
            libm::hypot(u - x, v - y) <= radius
        })
    }
}

fn cell_of([x, y]: [f64; 2]) -> [i64; 2] {
    [(y / CELL).floor() as i64, (x / CELL).floor() as i64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::features::{DESCRIPTOR_LENGTH, Feature};
    use crate::reconstruction::tracks::build_tracks;
    use gausset_compute::Pool;

    fn picture(seen: &[([f64; 2], u8)]) -> Features {
        let mut found = Features::default();
        for &(pixel, look) in seen {
            found.features.push(Feature {
                bearing: [0.0, 0.0, 1.0],
                view: 0,
                pixel,
                size: 2.0,
                colour: [0; 3],
            });
            found.descriptors.push(std::array::from_fn(|k| if k % 3 == usize::from(look) { 60 } else { 10 }));
        }
        found
    }

    #[test]
    fn a_like_feature_at_the_projection_joins_the_track_and_joins_two_tracks() {
        assert_eq!(DESCRIPTOR_LENGTH, 128);
        let place = [100.0, 50.0];
        let frames = [
            picture(&[(place, 0)]),
            picture(&[(place, 0)]),
            // At the place: one of another look, and one that is alike; farther: one that is as like.
            picture(&[([100.5, 50.0], 1), ([101.0, 49.0], 0), ([104.0, 50.0], 0)]),
            picture(&[(place, 2)]),
            picture(&[([99.0, 50.0], 0)]),
        ];
        let wide: Vec<WideDescriptors> =
            frames.iter().map(|f| WideDescriptors::new(&f.descriptors)).collect();
        let landmark = |observations| Landmark { position: [0.0; 3], observations };
        // The second landmark is the same point.
        let points = [landmark(vec![[0, 0], [1, 0]]), landmark(vec![[2, 1], [4, 0]])];
        let pool = Pool::new(2);
        let project = |_: usize, _: [f64; 3]| Some(place);
        let found = completing_matches(&points, &frames, &wide, &project, 2.0, Exec::best(&pool));
        assert!(found.contains(&([0, 2], [0, 1])), "{found:?}");
        assert!(found.iter().all(|(frames, _)| frames[1] != 3), "{found:?}");
        let all: Vec<SingleMatch> = matches_of(&points).into_iter().chain(found).collect();
        let tracks =
            build_tracks(&[1, 1, 3, 1, 1], all.iter().map(|(pair, m)| (*pair, std::slice::from_ref(m))));
        let plain: Vec<Vec<[u32; 2]>> =
            tracks.iter().map(|t| t.iter().map(|e| [e.frame, e.feature]).collect()).collect();
        assert_eq!(plain, [vec![[0, 0], [1, 0], [2, 1], [4, 0]]]);
    }
}
