//! Datasets: cameras, points and images.

use std::path::PathBuf;
use std::sync::Arc;

use gausset::Failure;
use gausset::io::dataset::{self, Loader, LoaderOptions, OpenOptions};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use crate::error::{argument, detached, exception, warn};

/// Memory for decoded images, bytes; the largest image always has its place.
const IMAGE_CACHE_BYTES: usize = 256 << 20;

/// An opened dataset.
#[pyclass(frozen, module = "gausset._gausset")]
pub(crate) struct Dataset {
    dataset: Arc<dataset::Dataset>,
    loader: Loader,
}

/// `width, height, fx, fy, cx, cy`, and the rows of `camera_from_world`.
type CameraNumbers = ((u32, u32, f64, f64, f64, f64), [[f64; 4]; 4]);

/// Positions `(n, 3)` and colours `(n, 3)`.
type Points<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<u8>>);

/// RGB `(h, w, 3)`, alpha `(h, w)` and mask `(h, w)`.
type Pixels<'py> =
    (Bound<'py, PyArray3<u8>>, Option<Bound<'py, PyArray2<u8>>>, Option<Bound<'py, PyArray2<u8>>>);

#[pymethods]
impl Dataset {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the settings of a dataset, by keyword in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        images: Option<PathBuf>,
        masks: Option<PathBuf>,
        sparse: Option<PathBuf>,
        max_resolution: u32,
        test_every: usize,
        allow_outside: bool,
    ) -> PyResult<Self> {
        let options = OpenOptions {
            images,
            masks,
            sparse,
            max_resolution,
            test_every,
            allow_outside,
            ..OpenOptions::default()
        };
        let dataset = detached(py, || Ok(Arc::new(dataset::open(&path, &options)?)))?;
        for line in dataset.report_lines() {
            warn(py, &line)?;
        }
        let loader = LoaderOptions { budget_bytes: IMAGE_CACHE_BYTES, threads: 0 };
        Ok(Self { loader: Loader::new(Arc::clone(&dataset), loader), dataset })
    }

    /// Format of the source.
    #[getter]
    fn kind(&self) -> &'static str {
        self.dataset.kind.name()
    }

    /// Names of the images.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.dataset.images.iter().map(|image| image.name.to_string()).collect()
    }

    /// Cameras of the images.
    #[getter]
    fn cameras(&self) -> Vec<CameraNumbers> {
        let numbers = |image: &dataset::ImageEntry| {
            let (c, p) = (image.camera, image.pose);
            let row = |k: usize| [p.rotation[k][0], p.rotation[k][1], p.rotation[k][2], p.translation[k]];
            ((c.width, c.height, c.fx, c.fy, c.cx, c.cy), [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]])
        };
        self.dataset.images.iter().map(numbers).collect()
    }

    /// The points of the reconstruction.
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Points<'py>> {
        let points = &self.dataset.points;
        let positions = points.iter().flat_map(|point| point.position).collect();
        let colours = points.iter().flat_map(|point| point.colour).collect();
        Ok((
            PyArray1::from_vec(py, positions).reshape([points.len(), 3])?,
            PyArray1::from_vec(py, colours).reshape([points.len(), 3])?,
        ))
    }

    /// Indices of the training images.
    #[getter]
    fn train(&self) -> Vec<usize> {
        self.dataset.split.train.clone()
    }

    /// Indices of the held-out images.
    #[getter]
    fn test(&self) -> Vec<usize> {
        self.dataset.split.test.clone()
    }

    /// What was subtracted from the coordinates of the source.
    #[getter]
    fn offset(&self) -> [f64; 3] {
        self.dataset.offset.unwrap_or_default()
    }

    /// Size of the scene in scene units.
    #[getter]
    fn scene_extent(&self) -> f64 {
        self.dataset.scene_extent
    }

    /// An image as it is trained on: undistorted, downscaled, upright.
    fn image<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Pixels<'py>> {
        let count = self.dataset.images.len();
        if index >= count {
            let line = format!("image: index {index} (expected less than {count})");
            return Err(exception(py, argument(line)));
        }
        let image =
            detached(py, || self.loader.get(index).map_err(|skipped| Failure::new("dataset", skipped)))?;
        let size = [image.height as usize, image.width as usize];
        let plane = |values: &Vec<u8>| PyArray1::from_slice(py, values).reshape(size);
        Ok((
            PyArray1::from_slice(py, &image.rgb).reshape([size[0], size[1], 3])?,
            image.alpha.as_ref().map(plane).transpose()?,
            image.mask.as_ref().map(plane).transpose()?,
        ))
    }
}
