//! Splat files in memory: [`load`], [`save`], [`Renderer`].

use std::path::Path;

use gausset_core::engine::{Engine, Outputs, RenderOptions, Rendering};
use gausset_core::{Camera, Pose};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::splat::{self, LoadOptions, SaveOptions, SaveReport, SplatFile};

use crate::Failure;
use crate::device::DeviceOptions;
use crate::saved_run::file_render_options;

/// Reads a splat file of any known format; the format is recognised by its content.
///
/// # Errors
/// The file is not a splat file, is damaged, or needs more than half of the machine's memory.
pub fn load(path: impl AsRef<Path>) -> Result<SplatFile, Failure> {
    Ok(splat::load(path.as_ref(), &LoadOptions::default())?)
}

/// Writes a splat file in the format of its extension: `.ply`, `.sog`, `.spz`, `.splat`, `.glb` … The file appears
/// whole under its name or not at all.
///
/// # Errors
/// The extension is unknown, the file exists (with [`Overwrite::Refuse`]), or the write failed.
pub fn save(path: impl AsRef<Path>, file: &SplatFile, overwrite: Overwrite) -> Result<SaveReport, Failure> {
    let write_options = WriteOptions { overwrite, ..WriteOptions::default() };
    Ok(splat::save(&Disk, path.as_ref(), file, &SaveOptions::default(), &write_options)?)
}

/// Renders the splats of a file on a device.
///
/// ```
/// use gausset::device::DeviceOptions;
/// use gausset::{Camera, Pose, Renderer, SplatFile, Splats};
///
/// let mut splats = Splats::with_capacity(0, 1);
/// // One red splat, 2 units in front of the camera: centre, ln of the scales, rotation w x y z, opacity logit, SH.
/// splats.push([0.0, 0.0, 2.0], [-1.5; 3], [1.0, 0.0, 0.0, 0.0], 4.0, &[1.7, -1.7, -1.7]);
/// let mut renderer = Renderer::new(&SplatFile::new(splats), DeviceOptions::default())?;
/// let camera = Camera::new(64, 48, 50.0, 50.0, 32.0, 24.0).expect("a valid camera");
/// let view = renderer.render(&camera, &Pose::IDENTITY)?;
/// let centre = 3 * (24 * 64 + 32);
/// assert!(view.color[centre] > 0.9 && view.color[centre + 1] < 0.1);
/// # Ok::<(), gausset::Failure>(())
/// ```
pub struct Renderer {
    engine: Box<dyn Engine>,
    options: RenderOptions,
}

impl Renderer {
    /// Opens the device and loads the splats onto it. They are rendered as the file specifies: SH degree and
    /// antialiasing.
    ///
    /// # Errors
    /// No such device, or its memory is too small.
    pub fn new(file: &SplatFile, device: DeviceOptions) -> Result<Self, Failure> {
        let mut engine = device.engine(0)?;
        engine.load_splats(file.splats.clone(), Vec::new())?;
        Ok(Self { engine, options: file_render_options(file) })
    }

    /// Options of all further renders: background, near plane, antialiasing.
    pub fn options(&mut self) -> &mut RenderOptions {
        &mut self.options
    }

    /// Renders colour (`RGB` as f32, row by row) and alpha of a view. The pose maps world to camera coordinates (x right,
    /// y down, z forward).
    ///
    /// # Errors
    /// The view needs more memory than the device has, or the device failed.
    pub fn render(&mut self, camera: &Camera, pose: &Pose) -> Result<Rendering, Failure> {
        Ok(self.engine.render(camera, pose, &self.options, Outputs::Color)?)
    }
}
