//! Conversion of splat files.

use std::path::PathBuf;

use gausset::Event;
use gausset::convert::{ConvertOptions, SkyChoice, SplatEdits, convert as convert_job};
use gausset::io::splat::Format;
use gausset::train::Up;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::device::device_options;
use crate::error::{argument, exception, warn};
use crate::job::run_job;

/// Options of a conversion, as the keywords of `gausset.convert`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    format: Option<String>,
    sky: Option<bool>,
    max_splats: Option<usize>,
    max_bytes: Option<u64>,
    levels: Option<u32>,
    min_opacity: Option<f64>,
    sh_degree: Option<u8>,
    translate: [f64; 3],
    rotate: [f64; 3],
    scale: f64,
    up: String,
    report: bool,
    min_psnr: Option<f64>,
    data: Option<PathBuf>,
    device: String,
    force: bool,
}

impl Options {
    fn resolve(self, input: PathBuf, output: PathBuf) -> Result<ConvertOptions, gausset::Failure> {
        let format = self.format.map(|name| {
            let written = Format::from_name(&name).filter(|format| format.is_written());
            written.ok_or_else(|| argument(format!("format: `{name}` is no format that is written")))
        });
        let up: Up = self.up.parse().map_err(|error| argument(format!("up: {error}")))?;
        let sky = match self.sky {
            None => SkyChoice::Auto,
            Some(true) => SkyChoice::Keep,
            Some(false) => SkyChoice::Drop,
        };
        Ok(ConvertOptions {
            format: format.transpose()?,
            edits: SplatEdits {
                min_opacity: self.min_opacity,
                sh_degree: self.sh_degree,
                translate: self.translate,
                rotate: self.rotate,
                scale: self.scale,
                up,
                ..SplatEdits::default()
            },
            sky,
            max_splats: self.max_splats,
            max_bytes: self.max_bytes,
            levels: self.levels,
            report: self.report,
            min_psnr: self.min_psnr,
            data: self.data,
            force: self.force,
            device: device_options(&self.device)?,
            ..ConvertOptions::new(input, output)
        })
    }
}

/// Converts a splat file or a run; returns numbers of splats and bytes, and the loss if it was measured.
#[pyfunction]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    input: PathBuf,
    output: PathBuf,
    options: Options,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options.resolve(input, output).map_err(|failure| exception(py, failure))?;
    let result = run_job(
        py,
        |event| match event {
            Event::Warning { line, .. } => warn(py, &line),
            _ => Ok(()),
        },
        |host| convert_job(&options, host),
    )?;
    let found = PyDict::new(py);
    found.set_item("input_splats", result.read.count)?;
    found.set_item("splats", result.written.count)?;
    found.set_item("bytes", result.saved.bytes)?;
    found.set_item("lost", result.saved.lost)?;
    if let Some(loss) = result.loss {
        found.set_item("psnr", loss.psnr.unwrap_or(f64::INFINITY))?;
        found.set_item("worst_psnr", loss.worst.unwrap_or(f64::INFINITY))?;
    }
    Ok(found)
}
