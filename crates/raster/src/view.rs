//! A camera with its pose in single precision, with derived values for the kernels.

use gausset_core::constants::{ALPHA_MAX, JACOBIAN_CLAMP_MARGIN, LOW_PASS_VARIANCE, NEAR_PLANE};
use gausset_core::{Camera, Pose, Projection};

/// A view as the kernels need it.
#[derive(Clone, Copy, Debug)]
pub struct KernelView {
    /// How points map to pixels.
    pub projection: Projection,
    /// Columns after which a panorama repeats, px; infinite for a pinhole.
    pub period: f32,
    /// `camera_from_world` rotation, row-major.
    pub rotation: [[f32; 3]; 3],
    /// Translation of `camera_from_world`, scene units.
    pub translation: [f32; 3],
    /// Camera centre in the world, `-Rᵀ t`.
    pub origin: [f32; 3],
    /// Focal lengths in px.
    pub focal: [f32; 2],
    /// Principal point in px.
    pub centre: [f32; 2],
    /// Range of `x/z` outside which the Jacobian clamps it.
    pub jacobian_range_x: [f32; 2],
    /// Range of `y/z` outside which the Jacobian clamps it.
    pub jacobian_range_y: [f32; 2],
    /// Image size in px.
    pub size: [u32; 2],
    /// Number of tiles per row and per column.
    pub tiles: [u32; 2],
    /// Depth that a splat must exceed to be rendered, scene units.
    pub near_plane: f32,
    /// Depth below which a splat must be, scene units; infinite by default.
    pub far_plane: f32,
    /// Variance that is added to both axes of a splat on the screen, px².
    pub low_pass: f32,
    /// Largest alpha of a splat at a pixel.
    pub alpha_max: f32,
    /// Least factor on the opacity in antialiased mode; 0 by default.
    pub min_compensation: f32,
    /// What the parameters of the splats are.
    pub form: ParameterForm,
}

/// What the scales and opacities in [`crate::layout::Blocks`] are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterForm {
    /// Log scales and opacity logits.
    #[default]
    Raw,
    /// Scales and opacities; the splats have SH of degree 0.
    Activated,
}

impl KernelView {
    /// Derives all values in f64 and rounds once; uses the default near plane.
    #[must_use]
    pub fn new(camera: &Camera, pose: &Pose) -> Self {
        let margin = f64::from(JACOBIAN_CLAMP_MARGIN);
        let ratio = |focal: f64, centre: f64, side: u32| {
            let side = f64::from(side);
            let extra = margin * 0.5 * side / focal;
            [(-(centre / focal + extra)) as f32, ((side - centre) / focal + extra) as f32]
        };
        Self {
            projection: camera.projection,
            period: camera.period() as f32,
            rotation: pose.rotation.map(|row| row.map(|v| v as f32)),
            translation: pose.translation.map(|v| v as f32),
            origin: pose.centre().map(|v| v as f32),
            focal: [camera.fx as f32, camera.fy as f32],
            centre: [camera.cx as f32, camera.cy as f32],
            jacobian_range_x: ratio(camera.fx, camera.cx, camera.width),
            jacobian_range_y: ratio(camera.fy, camera.cy, camera.height),
            size: [camera.width, camera.height],
            tiles: camera.tiles(),
            near_plane: NEAR_PLANE as f32,
            far_plane: f32::INFINITY,
            low_pass: LOW_PASS_VARIANCE,
            alpha_max: ALPHA_MAX,
            min_compensation: 0.0,
            form: ParameterForm::Raw,
        }
    }

    /// The same view with this near plane (scene units).
    #[must_use]
    pub fn with_near_plane(self, near_plane: f64) -> Self {
        Self { near_plane: near_plane as f32, ..self }
    }

    /// The depth of a splat with this mean: z for a pinhole, the distance for a panorama.
    #[must_use]
    pub fn depth(&self, mean: [f32; 3]) -> f32 {
        let along =
            |row: usize| (0..3).map(|k| self.rotation[row][k] * mean[k]).sum::<f32>() + self.translation[row];
        match self.projection {
            Projection::Pinhole => along(2),
            Projection::Equirectangular => (0..3).map(|row| along(row) * along(row)).sum::<f32>().sqrt(),
        }
    }

    /// Number of tiles.
    #[must_use]
    pub fn tile_count(&self) -> usize {
        self.tiles[0] as usize * self.tiles[1] as usize
    }
}
