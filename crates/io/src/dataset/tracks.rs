//! Which images see which points: the tracks of a COLMAP model.
//!
//! A dataset keeps its points without their observations, which can be as large as everything else together. Depths
//! confirmed by an image, colours shared between images, and neighbours need them; they are read here from the same
//! files.

use std::collections::BTreeMap;

use super::colmap::{Observations, PointItem};
use super::{Dataset, DatasetError};

/// Bytes per point while observations are read: its id, and its index before and after sorting.
const BYTES_PER_POINT: u64 = 16;
/// Bytes per observation while it is read: point and image, and its slot in the result.
const BYTES_PER_OBSERVATION: u64 = 12;

/// The points that each image of a dataset sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracks {
    /// Start of each image's points in `points`, and the end of the last.
    first: Vec<usize>,
    /// Indices into [`Dataset::points`], per image, sorted and unique.
    points: Vec<u32>,
}

impl Tracks {
    /// No observations for this many images.
    #[must_use]
    pub fn empty(images: usize) -> Self {
        Self { first: vec![0; images + 1], points: Vec::new() }
    }

    /// Creates tracks from (image, point) pairs in any order; duplicates count once.
    ///
    /// ```
    /// use gausset_io::dataset::Tracks;
    ///
    /// let tracks = Tracks::from_pairs(2, vec![(1, 7), (0, 3), (1, 7), (1, 3)]);
    /// assert_eq!((tracks.points_of(0), tracks.points_of(1)), ([3].as_slice(), [3, 7].as_slice()));
    /// ```
    ///
    /// # Panics
    /// If an image index is not below `images`.
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

    /// Points that an image sees, as sorted indices into [`Dataset::points`].
    ///
    /// # Panics
    /// If there is no such image.
    #[must_use]
    pub fn points_of(&self, image: usize) -> &[u32] {
        &self.points[self.first[image]..self.first[image + 1]]
    }

    /// Whether there are no observations at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Number of observations of all images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }
}

impl Dataset {
    /// Bytes with which [`Self::read_tracks`] leaves nothing out.
    #[must_use]
    pub fn tracks_bytes(&self) -> u64 {
        let observations: u64 = self.points.iter().map(|point| u64::from(point.track_length)).sum();
        BYTES_PER_POINT * self.points.len() as u64 + BYTES_PER_OBSERVATION * observations
    }

    /// Reads which images see which points. Empty if the source does not contain it (`transforms.json`, a model without
    /// tracks) or the points exceed the memory limit. If the observations exceed it, only those of the first points in
    /// the file are kept.
    ///
    /// # Errors
    /// The model's point file cannot be read any more.
    pub fn read_tracks(&self, memory_bytes: u64) -> Result<Tracks, DatasetError> {
        let none = Tracks::empty(self.images.len());
        let Some(model) = &self.model else { return Ok(none) };
        let Some(memory_bytes) = memory_bytes.checked_sub(BYTES_PER_POINT * self.points.len() as u64) else {
            return Ok(none);
        };
        // Faces of a panorama have no observations.
        let pictures = self.images.iter().enumerate().filter(|(_, image)| image.face.is_none());
        let index_of: BTreeMap<u32, u32> = pictures.map(|(i, image)| (image.id, i as u32)).collect();
        let most = usize::try_from(memory_bytes / BYTES_PER_OBSERVATION).unwrap_or(usize::MAX);
        let mut ids: Vec<u64> = Vec::new();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        model.for_each_point(Observations::Keep, &mut |next| {
            let PointItem::Point(point) = next else { return Ok(()) };
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
            // The files now contain another model than the one that was opened.
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
        let all: Vec<&[u32]> = (0..4).map(|image| tracks.points_of(image)).collect();
        assert_eq!(all, [&[3][..], &[], &[1, 7], &[0]]);
        assert_eq!((tracks.len(), Tracks::empty(2).points_of(1).len()), (4, 0));
    }
}
