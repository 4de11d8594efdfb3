//! Collects the points of a dataset while they are read, sorts them by id, and limits their memory.
//!
//! A reader passes on each point and keeps none, so that each point is in memory once. COLMAP writes points in any
//! order; they are sorted in place.

use std::path::Path;

use super::Point;
use super::error::DatasetError;

/// Bytes per point while reading: the point, its id, and for sorting its index and half an index of scratch.
const BYTES_PER_POINT: u64 = (size_of::<Point>() + size_of::<u64>() + 6) as u64;

/// Collects the points of a file.
pub(super) struct PointCollector<'a> {
    path: &'a Path,
    memory_bytes: u64,
    ids: Vec<u64>,
    points: Vec<Point>,
    /// Number of points dropped because they are not finite.
    pub(super) dropped: usize,
}

impl<'a> PointCollector<'a> {
    /// Creates an empty list for as many points as fit into `memory_bytes`.
    pub(super) fn new(path: &'a Path, memory_bytes: u64) -> Self {
        Self { path, memory_bytes, ids: Vec::new(), points: Vec::new(), dropped: 0 }
    }

    /// Reserves capacity for `count` points, if the count is known beforehand.
    ///
    /// # Errors
    /// The points exceed the memory limit.
    pub(super) fn reserve(&mut self, count: u64) -> Result<(), DatasetError> {
        self.check(count)?;
        let room = usize::try_from(count).unwrap_or(usize::MAX);
        let reserved = self.ids.try_reserve_exact(room).and_then(|()| self.points.try_reserve_exact(room));
        reserved.map_err(|_| self.too_many(count))
    }

    /// Adds a point if it is finite.
    ///
    /// # Errors
    /// The points exceed the memory limit.
    pub(super) fn add(&mut self, id: u64, point: Point) -> Result<(), DatasetError> {
        if !point.position.iter().all(|v| v.is_finite()) {
            self.dropped += 1;
            return Ok(());
        }
        self.check(self.points.len() as u64 + 1)?;
        self.ids.push(id);
        self.points.push(point);
        Ok(())
    }

    /// The points, sorted by id. Points of equal id keep their order.
    pub(super) fn into_points(mut self) -> Vec<Point> {
        if !self.ids.is_sorted() {
            let ids = std::mem::take(&mut self.ids);
            // Every reader refuses files with more points than 32-bit indices can address.
            let mut order: Vec<u32> = (0..ids.len() as u32).collect();
            order.sort_by_key(|&i| ids[i as usize]);
            drop(ids);
            permute_in_place(&mut self.points, &mut order);
        }
        self.points
    }

    fn check(&self, count: u64) -> Result<(), DatasetError> {
        check_count(self.path, count, self.memory_bytes)
    }

    fn too_many(&self, found: u64) -> DatasetError {
        too_many(self.path, found, self.memory_bytes)
    }
}

/// Fails if so many points exceed the memory limit.
pub(super) fn check_count(path: &Path, count: u64, memory_bytes: u64) -> Result<(), DatasetError> {
    if count > memory_bytes / BYTES_PER_POINT { Err(too_many(path, count, memory_bytes)) } else { Ok(()) }
}

fn too_many(path: &Path, found: u64, limit: u64) -> DatasetError {
    DatasetError::TooManyPoints { path: path.to_owned(), found, possible: limit / BYTES_PER_POINT, limit }
}

/// Permutes in place so that position `k` gets `values[order[k]]`, cycle by cycle; `order` becomes `0, 1, 2, …`.
fn permute_in_place<T: Copy>(values: &mut [T], order: &mut [u32]) {
    for start in 0..order.len() {
        let first = values[start];
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at], at as u32) as usize;
            if from == start {
                break;
            }
            values[at] = values[from];
            at = from;
        }
        if at != start {
            values[at] = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64) -> Point {
        Point { position: [x, 0.0, 0.0], colour: [0; 3], error: 0.0, track_length: 0 }
    }

    fn sorted(ids: &[u64]) -> Vec<f64> {
        let mut list = PointCollector::new(Path::new("points3D.bin"), u64::MAX);
        for (k, &id) in ids.iter().enumerate() {
            list.add(id, point(k as f64)).unwrap();
        }
        list.into_points().iter().map(|p| p.position[0]).collect()
    }

    #[test]
    fn points_are_sorted_by_id_and_twins_keep_their_order() {
        assert!(sorted(&[]).is_empty());
        assert_eq!(sorted(&[1, 2, 3]), [0.0, 1.0, 2.0]);
        assert_eq!(sorted(&[9, 4, 9, 1, 4]), [3.0, 1.0, 4.0, 0.0, 2.0]);
        // All permutations of seven ids, compared with a stable sort.
        let mut ids: Vec<u64> = (0..7).collect();
        for k in 0..5_040u64 {
            let mut rest = k;
            for i in (1..7).rev() {
                ids.swap(i as usize, (rest % (i + 1)) as usize);
                rest /= i + 1;
            }
            let mut expected: Vec<(u64, f64)> = ids.iter().copied().zip((0..).map(f64::from)).collect();
            expected.sort_by_key(|&(id, _)| id);
            assert_eq!(sorted(&ids), expected.iter().map(|&(_, x)| x).collect::<Vec<_>>(), "{ids:?}");
        }
    }

    #[test]
    fn more_points_than_fit_are_refused_before_and_while_they_are_read() {
        let mut list = PointCollector::new(Path::new("points3D.txt"), 3 * BYTES_PER_POINT);
        assert!(list.reserve(3).is_ok() && list.reserve(4).is_err());
        list.add(1, point(f64::NAN)).unwrap();
        for id in 0..3 {
            list.add(id, point(1.0)).unwrap();
        }
        assert_eq!(list.dropped, 1);
        assert_eq!(
            list.add(9, point(1.0)).unwrap_err().to_string(),
            "points3D.txt: points: too many for the memory (expected at most 3 in 162 bytes, found 4 or more); \
             thin them out or raise ⟨max-memory⟩"
        );
    }
}
