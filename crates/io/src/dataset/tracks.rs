//! Which pictures see which points: the tracks of a COLMAP model.
//!
//! A dataset keeps its points without their observations, which can be as large as all the rest together. What needs
//! them (depths that a picture confirms, colours that pictures share, neighbours) reads them here, from the same files.

use std::collections::BTreeMap;

use super::colmap::{ModelFolder, NextPoint, Observations};
use super::{Dataset, DatasetError, DatasetKind};

/// Bytes that a point takes while its observations are read: its id, and its place before and after sorting.
const BYTES_PER_POINT: u64 = 16;
/// Bytes that an observation takes while it is read: its point and picture, and its place in the result.
const BYTES_PER_OBSERVATION: u64 = 12;

/// For each picture of a dataset the points that it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracks {
    /// Where the points of each picture begin, and their end.
    first: Vec<usize>,
    /// Indices into [`Dataset::points`], ascending within a picture, each once.
    points: Vec<u32>,
}

impl Tracks {
    /// Nothing is known of so many pictures.
    #[must_use]
    pub fn none(images: usize) -> Self {
        Self { first: vec![0; images + 1], points: Vec::new() }
    }

    /// Of pairs of picture and point, in any order; a pair that comes twice counts once.
    ///
    /// # Panics
    /// If a picture is not one of `images`.
    #[must_use]
    pub fn from_pairs(images: usize, mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut first = vec![0; images + 1];
        for &(image, _) in &pairs {
            first[image as usize + 1] += 1;
        }
        for image in 0..images {
            first[image + 1] += first[image];
        }
        Self { first, points: pairs.into_iter().map(|(_, point)| point).collect() }
    }

    /// The points that a picture sees: indices into [`Dataset::points`], ascending.
    ///
    /// # Panics
    /// If there is no such picture.
    #[must_use]
    pub fn of(&self, image: usize) -> &[u32] {
        &self.points[self.first[image]..self.first[image + 1]]
    }

    /// Whether no picture is known to see a point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Observations of all pictures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }
}

impl Dataset {
    /// Reads which pictures see which points. Empty where the source does not tell: a `transforms.json`, a model without
    /// tracks, one with more points than fit into the memory. Of a model with more observations than fit, those of the
    /// points that come first in the file.
    ///
    /// # Errors
    /// The model's file of points cannot be read any more.
    pub fn read_tracks(&self, memory_bytes: u64) -> Result<Tracks, DatasetError> {
        let none = Tracks::none(self.images.len());
        if self.kind != DatasetKind::Colmap {
            return Ok(none);
        }
        let Some(memory_bytes) = memory_bytes.checked_sub(BYTES_PER_POINT * self.points.len() as u64) else {
            return Ok(none);
        };
        let Some(model) = ModelFolder::find(&self.source)? else { return Ok(none) };
        // The faces of a panorama have no observations of their own.
        let pictures = self.images.iter().enumerate().filter(|(_, image)| image.face.is_none());
        let index_of: BTreeMap<u32, u32> = pictures.map(|(i, image)| (image.id, i as u32)).collect();
        let most = usize::try_from(memory_bytes / BYTES_PER_OBSERVATION).unwrap_or(usize::MAX);
        let mut ids: Vec<u64> = Vec::new();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        model.each_point(Observations::Keep, &mut |next| {
            let NextPoint::Point(point) = next else { return Ok(()) };
            if !point.position.iter().all(|v| v.is_finite()) {
                return Ok(());
            }
            let place = ids.len() as u32;
            ids.push(point.id);
            if pairs.len() + point.track.len() <= most {
                let images = point.track.iter().filter_map(|[image, _]| index_of.get(image));
                pairs.extend(images.map(|&image| (image, place)));
            }
            Ok(())
        })?;
        if ids.len() != self.points.len() {
            // Another model than the one that was opened.
            return Ok(none);
        }
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        order.sort_by_key(|&place| ids[place as usize]);
        let mut index = vec![0u32; ids.len()];
        for (sorted, &place) in (0u32..).zip(&order) {
            index[place as usize] = sorted;
        }
        for (_, point) in &mut pairs {
            *point = index[*point as usize];
        }
        Ok(Tracks::from_pairs(self.images.len(), pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_picture_has_its_points_once_and_in_order() {
        let tracks = Tracks::from_pairs(4, vec![(2, 7), (0, 3), (2, 1), (2, 7), (3, 0)]);
        let all: Vec<&[u32]> = (0..4).map(|image| tracks.of(image)).collect();
        assert_eq!(all, [&[3][..], &[], &[1, 7], &[0]]);
        assert_eq!((tracks.len(), Tracks::none(2).of(1).len()), (4, 0));
    }
}
