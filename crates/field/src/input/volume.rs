//! Volumes and samples read from files.

use crate::fit::{Grid, Samples};

/// An affine map of ℝ³: three rows of a 4x4 matrix.
pub type Affine = [[f64; 4]; 3];

/// The map that keeps every point.
pub const IDENTITY: Affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];

/// A dense volume, x fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Voxels along x, y, z.
    pub dims: [usize; 3],
    /// Distance of voxel centres along the axes, in the file's unit.
    pub spacing: [f64; 3],
    /// Map from voxel indices to world positions. NIfTI: RAS+ millimetres; NRRD with `left-posterior-superior`:
    /// converted to RAS+.
    pub world_from_index: Affine,
    /// Values, scaled as the header declares; NaN where there is none.
    pub values: Vec<f64>,
    /// Number of frames in the file, of which this is one.
    pub frames: usize,
}

impl Volume {
    /// A volume with axis-aligned voxels at `index * spacing`.
    #[must_use]
    pub fn on_grid(dims: [usize; 3], spacing: [f64; 3], values: Vec<f64>) -> Self {
        let world_from_index = scaling(spacing);
        Self { dims, spacing, world_from_index, values, frames: 1 }
    }

    /// Replaces the spacing; directions and origin stay.
    pub(crate) fn set_spacing(&mut self, spacing: [f64; 3]) {
        for k in 0..3 {
            let factor = spacing[k] / self.spacing[k];
            self.world_from_index.iter_mut().for_each(|row| row[k] *= factor);
        }
        self.spacing = spacing;
    }

    /// The voxels that have a value as samples at `index * spacing`.
    #[must_use]
    pub fn samples(&self) -> Samples {
        let [nx, ny, nz] = self.dims;
        let mut points = Vec::with_capacity(self.values.len());
        let mut values = Vec::with_capacity(self.values.len());
        let indices = (0..nz).flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| [i, j, k])));
        for (index, value) in indices.zip(&self.values).filter(|(_, value)| !value.is_nan()) {
            points.push(std::array::from_fn(|a| index[a] as f64 * self.spacing[a]));
            values.push(*value);
        }
        let grid = Some(Grid { dims: self.dims, spacing: self.spacing });
        Samples { points, values, grid }
    }

    /// Map from `index * spacing` to world positions.
    #[must_use]
    pub fn world_from_grid(&self) -> Affine {
        self.world_from_index
            .map(|[a, b, c, t]| [a / self.spacing[0], b / self.spacing[1], c / self.spacing[2], t])
    }
}

/// A diagonal affine map.
pub(crate) fn scaling(s: [f64; 3]) -> Affine {
    [[s[0], 0.0, 0.0, 0.0], [0.0, s[1], 0.0, 0.0], [0.0, 0.0, s[2], 0.0]]
}

/// Contents of a file.
#[derive(Clone, Debug)]
pub enum Input {
    /// Values on a grid.
    Volume(Volume),
    /// Samples at any points.
    Samples(Samples),
}

impl Input {
    /// Number of voxels or samples.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Volume(volume) => volume.values.len(),
            Self::Samples(samples) => samples.values.len(),
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples, in the coordinates in which they are fitted.
    #[must_use]
    pub fn samples(&self) -> Samples {
        match self {
            Self::Volume(volume) => volume.samples(),
            Self::Samples(samples) => samples.clone(),
        }
    }

    /// Map from these coordinates to world positions.
    #[must_use]
    pub fn world_from_model(&self) -> Affine {
        match self {
            Self::Volume(volume) => volume.world_from_grid(),
            Self::Samples(_) => IDENTITY,
        }
    }
}
