//! Renders.

use gausset::saved_run::check_near_plane;
use gausset::{Camera, Failure, Pose, RenderOptions, Rendering};
use gausset_core::engine::{Engine, Outputs};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use crate::device::device_options;
use crate::error::{argument, detached, exception};
use crate::splats::file_of;
use crate::threaded::Threaded;

/// `width, height, fx, fy, cx, cy`.
pub(crate) type Intrinsics = (u32, u32, f64, f64, f64, f64);

/// Checks the numbers of a camera; `pose` has the rows of `camera_from_world`.
pub(crate) fn camera_and_pose(
    intrinsics: Intrinsics,
    pose: [[f64; 4]; 4],
) -> Result<(Camera, Pose), Failure> {
    let (width, height, fx, fy, cx, cy) = intrinsics;
    let camera = Camera::new(width, height, fx, fy, cx, cy).map_err(argument)?;
    let [a, b, c, last] = pose;
    if last != [0.0, 0.0, 0.0, 1.0] {
        return Err(argument("world_to_camera: the last row is not 0 0 0 1"));
    }
    let rotation = [a, b, c].map(|[x, y, z, _]| [x, y, z]);
    let pose = Pose::from_matrix(rotation, [a[3], b[3], c[3]]);
    Ok((camera, pose.map_err(|error| argument(format!("world_to_camera: {error}")))?))
}

/// Raises an error if the numbers are not a camera.
#[pyfunction]
pub(crate) fn check_camera(py: Python<'_>, intrinsics: Intrinsics, pose: [[f64; 4]; 4]) -> PyResult<()> {
    camera_and_pose(intrinsics, pose).map(drop).map_err(|failure| exception(py, failure))
}

/// Moves the images of a rendering into arrays.
pub(crate) fn images(py: Python<'_>, rendering: Rendering) -> PyResult<Images<'_>> {
    let Rendering { width, height, color, alpha, depth, count, .. } = rendering;
    let (width, height) = (width as usize, height as usize);
    Ok((
        PyArray1::from_vec(py, color).reshape([height, width, 3])?,
        PyArray1::from_vec(py, alpha).reshape([height, width])?,
        PyArray1::from_vec(py, depth).reshape([height, width])?,
        PyArray1::from_vec(py, count).reshape([height, width])?,
    ))
}

/// Splats on a device.
#[pyclass(frozen, module = "gausset._gausset")]
pub(crate) struct Renderer {
    engine: Threaded<Box<dyn Engine>>,
    /// How the file says that its splats are rendered.
    options: RenderOptions,
    /// Number of splats before those of the sky, if there is a sky.
    scene_splats: Option<u32>,
}

/// `color, alpha, depth, count`.
pub(crate) type Images<'py> = (
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<u32>>,
);

#[pymethods]
impl Renderer {
    /// Opens the device and loads the splats onto it.
    #[new]
    fn new(py: Python<'_>, splats: &Bound<'_, PyAny>, device: &str, threads: usize) -> PyResult<Self> {
        let file = file_of(splats)?;
        detached(py, || {
            let mut engine = device_options(device)?.engine(threads)?;
            let options = gausset::saved_run::file_render_options(&file);
            let scene_splats = gausset::saved_run::scene_splat_count(&file);
            engine.load_splats(file.splats, Vec::new())?;
            Ok(Self { engine: Threaded::new(engine), options, scene_splats })
        })
    }

    /// Renders a view. `None` = as the file specifies.
    #[expect(clippy::too_many_arguments, reason = "the settings of a view, by keyword in Python")]
    fn render<'py>(
        &self,
        py: Python<'py>,
        intrinsics: Intrinsics,
        pose: [[f64; 4]; 4],
        background: [f32; 3],
        sh_degree: Option<u8>,
        antialiased: Option<bool>,
        near_plane: Option<f64>,
    ) -> PyResult<Images<'py>> {
        let stored = self.options.sh_degree;
        let options = RenderOptions {
            background,
            sh_degree: sh_degree.map_or(stored, |wanted| wanted.min(stored)),
            antialiased: antialiased.unwrap_or(self.options.antialiased),
            near_plane: near_plane.unwrap_or(self.options.near_plane),
            ..self.options
        };
        let rendering = detached(py, || {
            let (camera, pose) = camera_and_pose(intrinsics, pose)?;
            check_near_plane(near_plane)?;
            self.render_view(&camera, &pose, &options)
        })?;
        images(py, rendering)
    }
}

impl Renderer {
    /// Colour with the sky of the splats; alpha, depth and count without.
    fn render_view(
        &self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
    ) -> Result<Rendering, Failure> {
        let mut engine = self.engine.lock("Renderer")?;
        let scene = RenderOptions { splat_limit: self.scene_splats, ..*options };
        let rendering = engine.render(camera, pose, &scene, Outputs::All)?;
        if self.scene_splats.is_none() {
            return Ok(rendering);
        }
        let whole = engine.render(camera, pose, options, Outputs::Color)?;
        Ok(Rendering { color: whole.color, ..rendering })
    }
}
