//! Splats: arrays of numpy to and from [`gausset::Splats`], and splat files.

use std::path::PathBuf;

use gausset::io::atomic::Overwrite;
use gausset::{SplatFile, Splats};
use numpy::ndarray::Dimension;
use numpy::{
    PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray, PyReadonlyArray1, PyReadonlyArray2,
    PyReadonlyArray3, PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::error::{argument, detached, exception, warn};

/// What a splat file says besides its splats.
#[pyclass(frozen, module = "gausset._gausset")]
pub(crate) struct Properties {
    /// A file without splats.
    file: SplatFile,
}

#[pymethods]
impl Properties {
    /// The properties of splats that come from no file.
    #[new]
    fn new() -> Self {
        Self { file: SplatFile::new(Splats::default()) }
    }

    /// Whether the splats were trained with opacity compensation.
    #[getter]
    fn antialiased(&self) -> bool {
        self.file.antialiased
    }

    /// Up direction, if known.
    #[getter]
    fn up(&self) -> Option<[f32; 3]> {
        self.file.vertical_axis
    }

    /// `splats_from_dataset`: a similarity as rows of a 4x4 matrix, if known.
    #[getter]
    fn dataset_transform(&self) -> Option<Vec<[f64; 4]>> {
        let similarity = self.file.saved_from_dataset?;
        let ([a, b, c], t, s) = (similarity.rotation, similarity.translation, similarity.scale);
        let row = |r: [f64; 3], t: f64| [s * r[0], s * r[1], s * r[2], t];
        Some(vec![row(a, t[0]), row(b, t[1]), row(c, t[2]), [0.0, 0.0, 0.0, 1.0]])
    }
}

/// `means, log_scales, quats, opacity_logits, sh`.
type Arrays<'py> = (
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f32>>,
    Bound<'py, PyArray3<f32>>,
);

/// Moves splats into arrays.
fn arrays<'py>(py: Python<'py>, splats: Splats) -> PyResult<Arrays<'py>> {
    let (count, coefficients) = (splats.len(), splats.sh_stride() / 3);
    let matrix = |values: Vec<f32>, columns: usize| PyArray1::from_vec(py, values).reshape([count, columns]);
    Ok((
        matrix(splats.means.into_flattened(), 3)?,
        matrix(splats.log_scales.into_flattened(), 3)?,
        matrix(splats.quats.into_flattened(), 4)?,
        PyArray1::from_vec(py, splats.opacity_logits),
        PyArray1::from_vec(py, splats.sh).reshape([count, coefficients, 3])?,
    ))
}

/// The values of an array in C order.
fn values<'a, D: Dimension>(array: &'a PyReadonlyArray<'_, f32, D>, name: &str) -> PyResult<&'a [f32]> {
    // A slice alone would also be one of an array in Fortran order.
    let slice = array.as_slice().ok().filter(|_| array.is_c_contiguous());
    slice.ok_or_else(|| exception(array.py(), argument(format!("{name}: not an aligned array in C order"))))
}

/// Copies an object `gausset.Splats` to a file in memory.
pub(crate) fn file_of(splats: &Bound<'_, PyAny>) -> PyResult<SplatFile> {
    let py = splats.py();
    let means: PyReadonlyArray2<'_, f32> = splats.getattr("means")?.extract()?;
    let log_scales: PyReadonlyArray2<'_, f32> = splats.getattr("log_scales")?.extract()?;
    let quats: PyReadonlyArray2<'_, f32> = splats.getattr("quats")?.extract()?;
    let opacity_logits: PyReadonlyArray1<'_, f32> = splats.getattr("opacity_logits")?.extract()?;
    let sh: PyReadonlyArray3<'_, f32> = splats.getattr("sh")?.extract()?;
    let sky: usize = splats.getattr("_sky")?.extract()?;
    let properties = splats.getattr("_properties")?;
    let properties = properties.cast::<Properties>()?;
    let sh_degree = match sh.shape()[1] {
        1 => 0,
        4 => 1,
        9 => 2,
        16 => 3,
        found => {
            let line = format!("sh: {found} coefficients (expected 1, 4, 9 or 16)");
            return Err(exception(py, argument(line)));
        }
    };
    let splats = Splats {
        sh_degree,
        means: values(&means, "means")?.as_chunks().0.to_vec(),
        log_scales: values(&log_scales, "log_scales")?.as_chunks().0.to_vec(),
        quats: values(&quats, "quats")?.as_chunks().0.to_vec(),
        opacity_logits: values(&opacity_logits, "opacity_logits")?.to_vec(),
        sh: values(&sh, "sh")?.to_vec(),
    };
    splats.validate().map_err(|error| exception(py, argument(error)))?;
    let sky = sky.min(splats.len());
    Ok(properties.get().file.with_splats(splats, sky))
}

/// Reads a splat file: its arrays, properties, and number of sky splats at the end.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<(Arrays<'_>, Properties, usize)> {
    let mut file = detached(py, || gausset::load(&path))?;
    for line in file.report.lines(&path) {
        warn(py, &line)?;
    }
    let splats = std::mem::take(&mut file.splats);
    Ok((arrays(py, splats)?, Properties { file: file.with_splats(Splats::default(), 0) }, file.sky))
}

/// Writes a splat file in the format of its extension; returns its length in bytes.
#[pyfunction]
pub(crate) fn save(py: Python<'_>, splats: &Bound<'_, PyAny>, path: PathBuf, force: bool) -> PyResult<u64> {
    let file = file_of(splats)?;
    let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
    let report = detached(py, || gausset::save(&path, &file, overwrite))?;
    let name = path.display();
    if report.dropped > 0 {
        let line =
            format!("{name}: {} splats without finite parameters or a rotation left out", report.dropped);
        warn(py, &line)?;
    }
    for (reason, count) in &report.clipped {
        warn(py, &format!("{name}: {count} splats: {reason}"))?;
    }
    if !report.lost.is_empty() {
        warn(py, &format!("{name}: the format does not keep {}", report.lost.join(", ")))?;
    }
    Ok(report.bytes)
}
