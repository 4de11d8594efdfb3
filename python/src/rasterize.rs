//! The stages of `gausset.rasterization`, on arrays; `gausset/_rasterization.py` makes functions of autograd of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gausset::{Camera, Failure, Pose};
use gausset_compute::machine::memory_bytes;
use gausset_compute::{Exec, Pool};
use gausset_metrics::Planes;
use gausset_metrics::loss::{GroundTruth, LossKernel, LossOptions};
use gausset_raster::blend_vjp::AbsoluteSums;
use gausset_raster::layout::{Blocks, LOG_SCALE, LOGIT, MEAN, QUAT};
use gausset_raster::pipeline::ListCapacity;
use gausset_raster::screen_gradients::ScreenGradients;
use gausset_raster::shade::{self, ColorRule, ShInput};
use gausset_raster::view::KernelView;
use gausset_raster::view_state::{self, BlendOptions, ImageGradients};
use numpy::{
    Element, PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyReadonlyArray3,
};
use pyo3::prelude::*;

use crate::error::{argument, detached, exception};

type F32x1<'py> = Bound<'py, PyArray1<f32>>;
type F32x2<'py> = Bound<'py, PyArray2<f32>>;
type F32x3<'py> = Bound<'py, PyArray3<f32>>;

/// The threads of all calls.
struct Threads {
    pool: Arc<Pool>,
    /// Workers do not survive a fork.
    process: u32,
}

static THREADS: OnceLock<Mutex<Option<Threads>>> = OnceLock::new();

fn threads() -> MutexGuard<'static, Option<Threads>> {
    THREADS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool of this process, made on first use.
pub(crate) fn pool() -> Arc<Pool> {
    let (mut threads, process) = (threads(), std::process::id());
    if let Some(threads) = threads.as_ref().filter(|threads| threads.process == process) {
        return threads.pool.clone();
    }
    let count = threads.as_ref().map(|threads| threads.pool.threads());
    let pool = Arc::new(count.map_or_else(Pool::with_all_cores, Pool::new));
    // To drop the pool of a parent process would wait for its threads.
    std::mem::forget(threads.replace(Threads { pool: pool.clone(), process }));
    pool
}

/// Sets the number of threads of `rasterization` and its relatives.
#[pyfunction]
pub(crate) fn set_num_threads(py: Python<'_>, count: usize) -> PyResult<()> {
    if !(1..=1024).contains(&count) {
        return Err(exception(py, argument(format!("count: {count} (expected 1..1024)"))));
    }
    py.detach(|| {
        let process = std::process::id();
        let before = threads().replace(Threads { pool: Arc::new(Pool::new(count)), process });
        if before.as_ref().is_some_and(|before| before.process != process) {
            // To drop the pool of a parent process would wait for its threads.
            std::mem::forget(before);
        }
    });
    Ok(())
}

/// Bytes that the tile lists of a view may use.
fn memory_limit() -> &'static AtomicU64 {
    static LIMIT: OnceLock<AtomicU64> = OnceLock::new();
    LIMIT.get_or_init(|| AtomicU64::new(memory_bytes().map_or(u64::MAX, |bytes| bytes / 2)))
}

/// Sets the bytes that the tile lists of a view may use.
#[pyfunction]
pub(crate) fn set_memory_limit(size: u64) {
    memory_limit().store(size, Ordering::Relaxed);
}

/// The number of threads of `rasterization` and its relatives.
#[pyfunction]
pub(crate) fn num_threads(py: Python<'_>) -> usize {
    py.detach(|| pool().threads())
}

/// The values of a contiguous array.
pub(crate) fn values<'a, T: Element, D: numpy::ndarray::Dimension>(
    py: Python<'_>,
    array: &'a numpy::PyReadonlyArray<'_, T, D>,
) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| exception(py, argument("an array is not contiguous")))
}

/// Rows of `N` values.
fn rows<'a, const N: usize>(
    py: Python<'_>,
    array: &'a PyReadonlyArray2<'_, f32>,
) -> PyResult<&'a [[f32; N]]> {
    match values(py, array)?.as_chunks() {
        (rows, []) if array.as_array().shape()[1] == N => Ok(rows),
        _ => Err(exception(py, argument(format!("an array does not have {N} columns")))),
    }
}

fn columns<'py, const N: usize>(py: Python<'py>, rows: Vec<[f32; N]>) -> PyResult<F32x2<'py>> {
    let len = rows.len();
    PyArray1::from_vec(py, rows.into_flattened()).reshape([len, N])
}

/// Splats in the layout of the kernels: scales and opacities, no logarithms.
#[pyclass(frozen, module = "gausset._gausset")]
pub(crate) struct ActivatedSplats(Arc<Blocks>);

#[pymethods]
impl ActivatedSplats {
    #[new]
    fn new(
        py: Python<'_>,
        means: PyReadonlyArray2<'_, f32>,
        quats: PyReadonlyArray2<'_, f32>,
        scales: PyReadonlyArray2<'_, f32>,
        opacities: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<Self> {
        let (means, quats, scales) = (rows(py, &means)?, rows(py, &quats)?, rows(py, &scales)?);
        let opacities = values(py, &opacities)?;
        if [quats.len(), scales.len(), opacities.len()] != [means.len(); 3] {
            return Err(exception(py, argument("arrays of splats differ in length")));
        }
        detached(py, || Ok(Self(Arc::new(Blocks::from_activated(means, quats, scales, opacities, &pool())))))
    }
}

/// The rules of a view: near plane, far plane, low-pass variance (px²), largest alpha, least compensation, radius clip (px).
type Rules = (f32, f32, f32, f32, f32, f32);

/// A view between forward and backward.
#[pyclass(frozen, module = "gausset._gausset")]
pub(crate) struct View {
    state: Mutex<view_state::ViewState>,
    pose: Pose,
    size: [usize; 2],
}

impl View {
    fn state(&self) -> MutexGuard<'_, view_state::ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `view, means2d, conics, depths, opacities, radii`.
type Projected<'py> = (View, F32x2<'py>, F32x2<'py>, F32x1<'py>, F32x1<'py>, Bound<'py, PyArray2<i32>>);

/// Projects splats to a view. `intrinsics` are `fx, fy, cx, cy`; `None` is a panorama.
#[pyfunction]
pub(crate) fn project<'py>(
    py: Python<'py>,
    splats: &ActivatedSplats,
    pose: [[f64; 4]; 4],
    intrinsics: Option<(f64, f64, f64, f64)>,
    size: (u32, u32),
    rules: Rules,
    antialiased: bool,
) -> PyResult<Projected<'py>> {
    let (near_plane, far_plane, low_pass, alpha_max, min_compensation, radius_clip) = rules;
    let (view, pose, (state, screen)) = detached(py, || {
        let (width, height) = size;
        let camera = match intrinsics {
            Some((fx, fy, cx, cy)) => Camera::new(width, height, fx, fy, cx, cy),
            None => Camera::panorama(width, height),
        };
        let camera = camera.map_err(|error| argument(format!("Ks, width, height: {error}")))?;
        // As it is: a rotation that is not exact is neither corrected nor refused.
        let [a, b, c, _] = pose;
        let pose =
            Pose { rotation: [a, b, c].map(|[x, y, z, _]| [x, y, z]), translation: [a[3], b[3], c[3]] };
        let view = KernelView {
            near_plane,
            far_plane,
            low_pass,
            alpha_max,
            min_compensation,
            ..KernelView::new(&camera, &pose)
        };
        let pool = pool();
        let exec = Exec::best(&pool);
        let blocks = splats.0.clone();
        Ok((view, pose, view_state::ViewState::project(exec, blocks, &view, antialiased, radius_clip)))
    })?;
    let count = screen.radii.len();
    let radii = PyArray1::from_vec(py, screen.radii.into_flattened()).reshape([count, 2])?;
    let size = view.size.map(|side| side as usize);
    Ok((
        View { state: Mutex::new(state), pose, size },
        columns(py, screen.mean2d)?,
        columns(py, screen.conic)?,
        PyArray1::from_vec(py, screen.depth),
        PyArray1::from_vec(py, screen.opacity),
        radii,
    ))
}

/// `color, alpha, depth`.
type Images<'py> = (F32x3<'py>, F32x3<'py>, F32x3<'py>);
/// `means2d, conics, depths, opacities, absolute means2d, colors, background`.
type BlendGradients<'py> =
    (F32x2<'py>, F32x2<'py>, F32x1<'py>, F32x1<'py>, F32x2<'py>, F32x2<'py>, F32x1<'py>);
/// `means, quats, scales, opacities, viewmat`.
type Gradients<'py> = (F32x2<'py>, F32x2<'py>, F32x2<'py>, F32x1<'py>, [[f64; 4]; 3]);

#[pymethods]
impl View {
    /// Blends the splats with colours (n, channels) over a background (channels,).
    fn blend<'py>(
        &self,
        py: Python<'py>,
        colors: PyReadonlyArray2<'_, f32>,
        background: Option<PyReadonlyArray1<'_, f32>>,
    ) -> PyResult<Images<'py>> {
        let channels = colors.as_array().shape()[1];
        let colors = values(py, &colors)?;
        let background = background.as_ref().map(|array| values(py, array)).transpose()?.unwrap_or_default();
        let images = detached(py, || {
            let options = BlendOptions {
                channels,
                background,
                with_depth: true,
                list_capacity: ListCapacity {
                    bytes: memory_limit().load(Ordering::Relaxed),
                    bytes_per_entry: ListCapacity::BACKWARD,
                },
            };
            let pool = pool();
            let mut state = self.state();
            if colors.len() != state.in_view().len() * channels {
                return Err(argument("colors: not one row per splat"));
            }
            let images = state.blend(Exec::best(&pool), colors, &options);
            images.map_err(|error| {
                let line = format!("the view has {error}; draw fewer or smaller splats, or set_memory_limit");
                Failure::new("memory", line)
            })
        })?;
        let [width, height] = self.size;
        let image = |values, channels| PyArray1::from_vec(py, values).reshape([height, width, channels]);
        Ok((image(images.color, channels)?, image(images.alpha, 1)?, image(images.depth, 1)?))
    }

    /// Gradients of [`View::blend`] with the same colours from those of its images.
    fn blend_vjp<'py>(
        &self,
        py: Python<'py>,
        colors: PyReadonlyArray2<'_, f32>,
        color: Option<PyReadonlyArray3<'_, f32>>,
        alpha: Option<PyReadonlyArray3<'_, f32>>,
        depth: Option<PyReadonlyArray3<'_, f32>>,
        absolute: bool,
    ) -> PyResult<BlendGradients<'py>> {
        let channels = colors.as_array().shape()[1];
        let colors = values(py, &colors)?;
        let of = |array| match array {
            Some(array) => values(py, array).map(Some),
            None => Ok(None),
        };
        let upstream = ImageGradients {
            color: of(color.as_ref())?,
            alpha: of(alpha.as_ref())?,
            depth: of(depth.as_ref())?,
        };
        let absolute = if absolute { AbsoluteSums::On } else { AbsoluteSums::Off };
        let found = detached(py, || {
            let (pool, mut state) = (pool(), self.state());
            Ok(state.blend_vjp(Exec::best(&pool), colors, channels, &upstream, absolute))
        })?;
        let count = found.screen.depth.len();
        Ok((
            columns(py, found.screen.mean2d)?,
            columns(py, found.screen.conic)?,
            PyArray1::from_vec(py, found.screen.depth),
            PyArray1::from_vec(py, found.screen.opacity),
            columns(py, found.screen.mean2d_abs)?,
            PyArray1::from_vec(py, found.color).reshape([count, channels])?,
            PyArray1::from_vec(py, found.background),
        ))
    }

    /// Gradients of [`project`] from those of the splats on the screen.
    fn project_vjp<'py>(
        &self,
        py: Python<'py>,
        means2d: PyReadonlyArray2<'_, f32>,
        conics: PyReadonlyArray2<'_, f32>,
        depths: PyReadonlyArray1<'_, f32>,
        opacities: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<Gradients<'py>> {
        let screen = ScreenGradients {
            mean2d: rows(py, &means2d)?.to_vec(),
            conic: rows(py, &conics)?.to_vec(),
            depth: values(py, &depths)?.to_vec(),
            opacity: values(py, &opacities)?.to_vec(),
            ..ScreenGradients::default()
        };
        let (means, quats, scales, opacities, pose) = detached(py, || {
            let (pool, state) = (pool(), self.state());
            let count = state.in_view().len();
            if [screen.mean2d.len(), screen.conic.len(), screen.depth.len(), screen.opacity.len()]
                != [count; 4]
            {
                return Err(argument("gradients: not one row per splat"));
            }
            let found = state.project_vjp(Exec::best(&pool), screen);
            Ok((
                parameter_rows(&found.parameters, MEAN),
                parameter_rows(&found.parameters, QUAT),
                parameter_rows(&found.parameters, LOG_SCALE),
                parameter_rows::<1>(&found.parameters, LOGIT).into_flattened(),
                found.pose.matrix(&self.pose),
            ))
        })?;
        Ok((
            columns::<3>(py, means)?,
            columns::<4>(py, quats)?,
            columns::<3>(py, scales)?,
            PyArray1::from_vec(py, opacities),
            pose,
        ))
    }
}

/// `N` rows of the blocks, splat by splat.
fn parameter_rows<const N: usize>(blocks: &Blocks, first: usize) -> Vec<[f32; N]> {
    let mut out = Vec::with_capacity(blocks.geometry.len() * 16);
    for block in &blocks.geometry {
        out.extend((0..16).map(|lane| std::array::from_fn(|k| block[first + k].0[lane])));
    }
    out.truncate(blocks.len());
    out
}

fn sh_input<'a>(
    py: Python<'_>,
    means: &'a PyReadonlyArray2<'_, f32>,
    coefficients: &'a PyReadonlyArray3<'_, f32>,
    (origin, degree, clamped): ([f32; 3], u8, bool),
    mask: Option<&'a PyReadonlyArray1<'_, bool>>,
) -> PyResult<ShInput<'a>> {
    let shape = coefficients.as_array().shape().to_vec();
    let (means, coefficients) = (rows(py, means)?, values(py, coefficients)?);
    let mask = mask.map(|mask| values(py, mask)).transpose()?.unwrap_or_default();
    let needed = (usize::from(degree) + 1).pow(2);
    let fits = shape[0] == means.len() && shape[1] >= needed && shape[2] == 3 && degree <= 3;
    if !fits || !(mask.is_empty() || mask.len() == means.len()) {
        return Err(exception(py, argument("SH coefficients do not fit the means and the degree")));
    }
    let rule = if clamped { ColorRule::Clamped } else { ColorRule::Sum };
    Ok(ShInput { means, coefficients, stride: 3 * shape[1], origin, degree, rule, mask })
}

/// Colours (n, 3) from SH coefficients (n, k, 3); `rule` is origin, degree, whether ½ is added and the colour clamped at 0.
#[pyfunction]
pub(crate) fn sh_colors<'py>(
    py: Python<'py>,
    means: PyReadonlyArray2<'_, f32>,
    coefficients: PyReadonlyArray3<'_, f32>,
    rule: ([f32; 3], u8, bool),
    mask: Option<PyReadonlyArray1<'_, bool>>,
) -> PyResult<F32x2<'py>> {
    let input = sh_input(py, &means, &coefficients, rule, mask.as_ref())?;
    let colors = detached(py, || {
        let pool = pool();
        Ok(shade::sh_colors(Exec::best(&pool), &input))
    })?;
    columns(py, colors)
}

/// Gradients of [`sh_colors`]: means, coefficients.
#[pyfunction]
pub(crate) fn sh_colors_vjp<'py>(
    py: Python<'py>,
    means: PyReadonlyArray2<'_, f32>,
    coefficients: PyReadonlyArray3<'_, f32>,
    rule: ([f32; 3], u8, bool),
    mask: Option<PyReadonlyArray1<'_, bool>>,
    upstream: PyReadonlyArray2<'_, f32>,
) -> PyResult<(F32x2<'py>, F32x3<'py>)> {
    let input = sh_input(py, &means, &coefficients, rule, mask.as_ref())?;
    let upstream = rows(py, &upstream)?;
    let found = detached(py, || {
        if upstream.len() != input.means.len() {
            return Err(argument("gradients: not one row per splat"));
        }
        let pool = pool();
        Ok(shade::sh_colors_vjp(Exec::best(&pool), &input, upstream))
    })?;
    let shape = [input.means.len(), input.stride / 3, 3];
    Ok((columns(py, found.means)?, PyArray1::from_vec(py, found.coefficients).reshape(shape)?))
}

/// Loss of two images (h, w, 3), and its gradient with respect to the first.
#[pyfunction]
pub(crate) fn l1_ssim<'py>(
    py: Python<'py>,
    render: PyReadonlyArray3<'_, f32>,
    truth: PyReadonlyArray3<'_, f32>,
    dssim_weight: f32,
) -> PyResult<(f64, F32x3<'py>)> {
    let shape: [usize; 3] = render.as_array().shape().try_into().unwrap_or_default();
    if truth.as_array().shape() != shape || shape[2] != Planes::CHANNELS {
        return Err(exception(py, argument("the images are not of one size with 3 channels")));
    }
    let (render, truth) = (values(py, &render)?, values(py, &truth)?);
    let (loss, gradient) = detached(py, || {
        let planes = |values| Planes::from_interleaved(shape[1] as u32, shape[0] as u32, values);
        let options = LossOptions { dssim_weight, background: [0.0; 3], latitude: None };
        let pool = pool();
        let (mut kernel, mut gradient) = (LossKernel::new(Exec::best(&pool).level), Planes::default());
        let truth = planes(truth);
        let loss = kernel.run(&pool, &planes(render), GroundTruth::Planes(&truth), &options, &mut gradient);
        Ok((loss.map_err(argument)?.loss, gradient.to_interleaved()))
    })?;
    Ok((loss, PyArray1::from_vec(py, gradient).reshape(shape)?))
}
