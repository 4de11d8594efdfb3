//! Normalised coordinates: those of the dataset, centred on its cameras and in units of the scene.
//!
//! ```text
//! normalised = (dataset - centre) / unit
//! ```
//! Training works in them, so its result does not depend on the unit and the origin of the data, and positions keep their
//! precision in 32 bits. All that is written is in the coordinates of the dataset.

use gausset_core::splats_transform::Similarity;
use serde::{Deserialize, Serialize};

use super::Dataset;
use super::sizes::without_far;

/// Scene extent in normalised coordinates: about the median of sixteen models, most of them as COLMAP scales them, so
/// that rates, noise and regularisers that are lengths keep the values which papers and programs give for such models.
pub const NORMALISED_EXTENT: f64 = 6.0;

/// Centre and unit of normalised coordinates. The default changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normalisation {
    /// Origin, in coordinates of the dataset.
    pub centre: [f64; 3],
    /// Length of a unit, in units of the dataset.
    pub unit: f64,
}

impl Default for Normalisation {
    fn default() -> Self {
        Self { centre: [0.0; 3], unit: 1.0 }
    }
}

impl Normalisation {
    /// The normalisation of a dataset: its training cameras have their mean at the origin, and its scene extent is
    /// [`NORMALISED_EXTENT`]. Cameras that are far out count for neither.
    #[must_use]
    pub fn from_dataset(dataset: &Dataset) -> Self {
        let centres = dataset.split.train.iter().map(|&index| dataset.images[index].pose.centre());
        let near = without_far(&centres.collect::<Vec<_>>());
        let fraction = 1.0 / near.len().max(1) as f64;
        let centre = std::array::from_fn(|k| near.iter().map(|centre| fraction * centre[k]).sum());
        Self { centre, unit: dataset.scene_extent / NORMALISED_EXTENT }
    }

    /// Transform from normalised coordinates to those of the dataset.
    #[must_use]
    pub fn dataset_from_normalised(&self) -> Similarity {
        Similarity { scale: self.unit, translation: self.centre, ..Similarity::default() }
    }
}

impl Dataset {
    /// Expresses poses, points and scene extent in normalised coordinates.
    ///
    /// ```
    /// use gausset_io::dataset::{NORMALISED_EXTENT, Normalisation, OpenOptions, open};
    /// # use gausset_core::RgbImage8;
    /// # let folder = tempfile::tempdir()?;
    /// # let frames = r#"{ "fl_x": 60, "frames": [
    /// #     { "file_path": "a.png", "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 400], [0, 0, 0, 1]] },
    /// #     { "file_path": "b.png", "transform_matrix": [[1, 0, 0, 200], [0, 1, 0, 0], [0, 0, 1, 400], [0, 0, 0, 1]] }] }"#;
    /// # std::fs::write(folder.path().join("transforms.json"), frames)?;
    /// # let picture = gausset_io::image::encode::png_rgb8(&RgbImage8::new(64, 48))?;
    /// # std::fs::write(folder.path().join("a.png"), &picture)?;
    /// # std::fs::write(folder.path().join("b.png"), &picture)?;
    /// // Two cameras, 200 units apart, 400 units from the origin.
    /// let mut dataset = open(folder.path(), &OpenOptions { test_every: 0, ..OpenOptions::default() })?;
    /// let normalisation = Normalisation::from_dataset(&dataset);
    /// assert_eq!(normalisation.centre, [100.0, 0.0, 400.0]);
    /// let place = dataset.images[1].pose.centre();
    /// dataset.normalise(normalisation);
    /// assert_eq!(dataset.scene_extent, NORMALISED_EXTENT);
    /// let back = normalisation.dataset_from_normalised().apply(dataset.images[1].pose.centre());
    /// assert!((back[0] - place[0]).abs() < 1e-9 && (back[2] - place[2]).abs() < 1e-9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn normalise(&mut self, by: Normalisation) {
        let before = std::mem::replace(&mut self.normalisation, by);
        // The identity must not change any bits.
        if before == by {
            return;
        }
        let change = before.dataset_from_normalised().then(&by.dataset_from_normalised().inverse());
        self.images.iter_mut().for_each(|image| image.pose = change.apply_to_pose(&image.pose));
        self.points.iter_mut().for_each(|point| point.position = change.apply(point.position));
        self.scene_extent = self.scene_extent * before.unit / by.unit;
    }
}
