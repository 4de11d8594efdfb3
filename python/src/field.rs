//! Gaussian fields on arrays; `gausset/field.py` makes a module of torch of them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gausset::field::fit::{FitOptions, FitSolver, Grid, Samples};
use gausset::field::model::FieldModel;
use gausset::field::{Compute, CovarianceKind, Evaluator, FieldBounds, GaussianField, Real, WeightMode};
use gausset::fields::fit_samples;
use gausset::io::atomic::{Disk, Overwrite, WriteOptions};
use gausset::{Event, Failure};
use numpy::{
    Element, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::error::{argument, detached, exception, warn};
use crate::job::run_job;
use crate::rasterize::{pool, values};

/// Threads and buffers of all calls, on the pool of this process.
fn compute() -> Arc<Compute> {
    static KEPT: Mutex<Option<(u32, Arc<Compute>)>> = Mutex::new(None);
    let (pool, process) = (pool(), std::process::id());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, compute)) = kept.as_ref().filter(|(_, compute)| Arc::ptr_eq(&compute.pool, &pool)) {
        return compute.clone();
    }
    let compute = Arc::new(Compute::with_pool(pool));
    if let Some((other, before)) = kept.replace((process, compute.clone()))
        && other != process
    {
        // To drop the pool of a parent process would wait for its threads.
        std::mem::forget(before);
    }
    compute
}

/// `means` (N, 3), raw factors `chol` (N, 6), raw `weights` (N,).
type Parameters<'py, T> = (PyReadonlyArray2<'py, T>, PyReadonlyArray2<'py, T>, PyReadonlyArray1<'py, T>);
/// The same, as results.
type ParameterArrays<'py, T> = (Bound<'py, PyArray2<T>>, Bound<'py, PyArray2<T>>, Bound<'py, PyArray1<T>>);

/// Rows of `N` values.
fn rows<'a, T: Element, const N: usize>(
    py: Python<'_>,
    array: &'a PyReadonlyArray2<'_, T>,
) -> PyResult<&'a [[T; N]]> {
    match values(py, array)?.as_chunks() {
        (rows, []) if array.shape()[1] == N => Ok(rows),
        _ => Err(exception(py, argument(format!("an array does not have {N} columns")))),
    }
}

fn matrix<T: Element, const N: usize>(py: Python<'_>, rows: Vec<[T; N]>) -> PyResult<Bound<'_, PyArray2<T>>> {
    let len = rows.len();
    PyArray1::from_vec(py, rows.into_flattened()).reshape([len, N])
}

fn parameter_arrays<T: Element>(
    py: Python<'_>,
    means: Vec<[T; 3]>,
    chol: Vec<[T; 6]>,
    weights: Vec<T>,
) -> PyResult<ParameterArrays<'_, T>> {
    Ok((matrix(py, means)?, matrix(py, chol)?, PyArray1::from_vec(py, weights)))
}

fn weight_mode(name: &str) -> Result<WeightMode, Failure> {
    let mode = WeightMode::from_name(name);
    mode.ok_or_else(|| argument(format!("weight_mode: `{name}` (expected raw, softplus or sigmoid)")))
}

fn covariance_kind(name: &str) -> Result<CovarianceKind, Failure> {
    let kind = CovarianceKind::from_name(name);
    kind.ok_or_else(|| argument(format!("covariance: `{name}` (expected full or diag)")))
}

/// A field without a box. The evaluator and the file check its values.
fn field_of<T: Real + Element>(
    py: Python<'_>,
    (means, chol, weights): &Parameters<'_, T>,
    mode: &str,
) -> PyResult<GaussianField<T>> {
    Ok(GaussianField {
        means: rows(py, means)?.to_vec(),
        chol: rows(py, chol)?.to_vec(),
        weights: values(py, weights)?.to_vec(),
        weight_mode: weight_mode(mode).map_err(|failure| exception(py, failure))?,
        covariance: CovarianceKind::Full,
        bounds: None,
    })
}

/// The field at points (B, 3): values (B,) of order 0, gradients (B, 3) of order 1, Hessians (B, 3, 3) of order 2; all
/// arrays f32 or all f64.
#[pyfunction]
pub(crate) fn field_evaluate<'py>(
    points: &Bound<'py, PyAny>,
    parameters: &Bound<'py, PyAny>,
    mode: &str,
    order: u8,
) -> PyResult<Bound<'py, PyAny>> {
    if points.cast::<PyArray2<f32>>().is_ok() {
        return evaluate::<f32>(points.extract()?, &parameters.extract()?, mode, order);
    }
    evaluate::<f64>(points.extract()?, &parameters.extract()?, mode, order)
}

fn evaluate<'py, T: Real + Element>(
    points: PyReadonlyArray2<'py, T>,
    parameters: &Parameters<'py, T>,
    mode: &str,
    order: u8,
) -> PyResult<Bound<'py, PyAny>> {
    let py = points.py();
    let (points, field) = (rows(py, &points)?, field_of(py, parameters, mode)?);
    let found = detached(py, || {
        let compute = compute();
        let evaluator = Evaluator::new(&compute, &field).map_err(argument)?;
        let found = match order {
            0 => evaluator.values(points),
            1 => evaluator.gradients(points).map(|found| found.gradients.into_flattened()),
            _ => evaluator.hessians(points).map(|found| found.hessians.into_flattened().into_flattened()),
        };
        found.map_err(argument)
    })?;
    let shape = [points.len(), 3, 3];
    Ok(PyArray1::from_vec(py, found).reshape(&shape[..=usize::from(order.min(2))])?.into_any())
}

/// Gradients by the parameters of the sum of `upstream` times the values (order 0) or the gradients (order 1) at
/// points.
#[pyfunction]
pub(crate) fn field_vjp<'py>(
    points: &Bound<'py, PyAny>,
    parameters: &Bound<'py, PyAny>,
    mode: &str,
    order: u8,
    upstream: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if points.cast::<PyArray2<f32>>().is_ok() {
        return vjp::<f32>(points.extract()?, &parameters.extract()?, mode, order, &upstream.extract()?);
    }
    vjp::<f64>(points.extract()?, &parameters.extract()?, mode, order, &upstream.extract()?)
}

fn vjp<'py, T: Real + Element>(
    points: PyReadonlyArray2<'py, T>,
    parameters: &Parameters<'py, T>,
    mode: &str,
    order: u8,
    upstream: &PyReadonlyArrayDyn<'py, T>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = points.py();
    let (points, field) = (rows(py, &points)?, field_of(py, parameters, mode)?);
    let upstream = values(py, upstream)?;
    let found = detached(py, || {
        let compute = compute();
        let evaluator = Evaluator::new(&compute, &field).map_err(argument)?;
        let found = match order {
            0 => evaluator.vjp(points, upstream),
            _ => evaluator.vjp_of_gradient(points, upstream.as_chunks().0),
        };
        found.map_err(argument)
    })?;
    let found = parameter_arrays(py, found.means, found.chol, found.weights)?;
    Ok(found.into_pyobject(py)?.into_any())
}

/// What a file says besides the parameters, as a dict.
#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Properties {
    weight_mode: String,
    covariance: String,
    bounds: Option<([f64; 3], [f64; 3])>,
    offset: f64,
    scale: f64,
    world_from_model: [[f64; 4]; 3],
    peak: f64,
    grid: Option<([usize; 3], [f64; 3])>,
}

impl Properties {
    fn of(model: &FieldModel) -> Self {
        Self {
            weight_mode: model.field.weight_mode.name().to_owned(),
            covariance: model.field.covariance.name().to_owned(),
            bounds: model.field.bounds.map(|bounds| (bounds.lo, bounds.hi)),
            offset: model.offset,
            scale: model.scale,
            world_from_model: model.world_from_model,
            peak: model.peak,
            grid: model.grid.map(|grid| (grid.dims, grid.spacing)),
        }
    }
}

type Model<'py> = (ParameterArrays<'py, f64>, Properties);

fn model_arrays(py: Python<'_>, model: FieldModel) -> PyResult<Model<'_>> {
    let properties = Properties::of(&model);
    Ok((parameter_arrays(py, model.field.means, model.field.chol, model.field.weights)?, properties))
}

/// Reads a field file: its parameters and properties.
#[pyfunction]
pub(crate) fn field_load(py: Python<'_>, path: PathBuf) -> PyResult<Model<'_>> {
    let model = detached(py, || Ok(FieldModel::load(&path)?))?;
    model_arrays(py, model)
}

/// Writes a field file; returns its length in bytes.
#[pyfunction]
pub(crate) fn field_save(
    py: Python<'_>,
    path: PathBuf,
    parameters: Parameters<'_, f64>,
    properties: Properties,
    force: bool,
) -> PyResult<u64> {
    let field = field_of(py, &parameters, &properties.weight_mode)?;
    detached(py, || {
        let field = GaussianField {
            covariance: covariance_kind(&properties.covariance)?,
            bounds: properties.bounds.map(|(lo, hi)| FieldBounds { lo, hi }),
            ..field
        };
        field.check().map_err(argument)?;
        let model = FieldModel {
            field,
            offset: properties.offset,
            scale: properties.scale,
            world_from_model: properties.world_from_model,
            peak: properties.peak,
            grid: properties.grid.map(|(dims, spacing)| Grid { dims, spacing }),
        };
        let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
        let options = WriteOptions { label: "field", overwrite, ..WriteOptions::default() };
        Ok(model.save(&Disk, &path, &options)?)
    })
}

/// Options of a fit, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FitKeywords {
    gaussians: usize,
    max_gaussians: Option<usize>,
    steps: Option<u64>,
    covariance: String,
    weight_mode: String,
    solver: String,
    holdout: f64,
    validation: f64,
    batches: Option<u8>,
    seed: u64,
}

impl FitKeywords {
    fn options(&self) -> Result<FitOptions, Failure> {
        let solver = FitSolver::ALL.into_iter().find(|solver| solver.name() == self.solver);
        let solver = solver
            .ok_or_else(|| argument(format!("solver: `{}` (expected auto, adam or lm)", self.solver)))?;
        Ok(FitOptions {
            gaussians: self.gaussians,
            max_gaussians: self.max_gaussians.unwrap_or(0),
            steps: self.steps,
            covariance: covariance_kind(&self.covariance)?,
            weight_mode: weight_mode(&self.weight_mode)?,
            solver,
            holdout: self.holdout,
            validation: self.validation,
            seed: self.seed,
            ..FitOptions::default()
        })
    }
}

/// Fits a field to values (B,) at points (B, 3); returns its parameters, its properties and the summary as JSON.
#[pyfunction]
pub(crate) fn field_fit<'py>(
    py: Python<'py>,
    points: PyReadonlyArray2<'py, f64>,
    values_at_points: PyReadonlyArray1<'py, f64>,
    keywords: FitKeywords,
    progress: Option<Py<PyAny>>,
) -> PyResult<(ParameterArrays<'py, f64>, Properties, String)> {
    let samples = Samples {
        points: rows(py, &points)?.to_vec(),
        values: values(py, &values_at_points)?.to_vec(),
        grid: None,
    };
    let on_event = |event| match (event, &progress) {
        (Event::Fitting(now), Some(progress)) => {
            progress.call1(py, (now.step, now.steps, now.loss)).map(drop)
        }
        (Event::Warning { line, .. }, _) => warn(py, &line),
        _ => Ok(()),
    };
    let (model, summary) = run_job(py, on_event, |host| {
        let fitted = fit_samples(&compute(), &samples, &keywords.options()?, keywords.batches, host);
        // The samples are arguments here, no file.
        fitted.map_err(|failure| if failure.code == "field" { argument(failure.message) } else { failure })
    })?;
    let summary = serde_json::to_string(&summary);
    let summary = summary.map_err(|error| exception(py, Failure::new("internal", error)))?;
    let (parameters, properties) = model_arrays(py, model)?;
    Ok((parameters, properties, summary))
}
