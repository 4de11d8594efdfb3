//! Exposure differences of a dataset's images, measured on shared points and compared with EXIF.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset_io::dataset::{self, Loader, LoaderOptions, OpenOptions};
use gausset_io::image::read_header;
use gausset_train::gains::{self, Gains, NOTABLE_DEVIATION};
use serde::Serialize;

use gausset::Failure;

/// Longest side of the measured images, px. Gains need no detail.
const MAX_MEASURED_SIDE: u32 = 800;
/// Memory limit for images and for observations, bytes each.
const MEMORY_BYTES: u64 = 256 << 20;

/// The gains of all images, held out or not: a stable contract.
#[derive(Debug, Serialize)]
pub(crate) struct ExposureInfo {
    /// Number of images with a measured gain.
    pictures: usize,
    /// EV of the darkest and the brightest image.
    range_ev: [f64; 2],
    /// Standard deviation of the log gains over images and channels.
    log_gain_sd: f64,
    /// Standard deviation of the channels of an image around its brightness.
    white_balance_sd: f64,
    /// PSNR of the colours of shared points in dB, before and after division by the gains.
    psnr: [f64; 2],
    /// Name of the image that is farthest from the mean.
    worst: String,
    /// EV of that image.
    worst_ev: f64,
    /// Whether `--exposure auto` enables exposure compensation.
    auto: bool,
    /// Gain of each image.
    gains: Vec<ImageGain>,
    /// Comparison with EXIF, if at least two images have exposure time, f-number and ISO.
    #[serde(skip_serializing_if = "Option::is_none")]
    exif: Option<ExifInfo>,
}

/// Gain of an image.
#[derive(Debug, Serialize)]
struct ImageGain {
    /// File name of the image.
    name: String,
    /// Natural logarithm of the gain of each channel.
    log_gain: [f64; 3],
}

/// Camera settings from EXIF compared with the measured gains.
#[derive(Debug, Serialize)]
struct ExifInfo {
    /// Number of images with both EXIF settings and a measured gain.
    pictures: usize,
    /// Difference between the brightest and the darkest setting, stops.
    range_stops: f64,
    /// Measured EV per stop (least squares). A stop is about half an EV of the stored, non-linear values if the scene
    /// brightness was constant, and 0 if the camera followed the scene brightness.
    ev_per_stop: f64,
    /// Correlation of stops and EV; 0 if one of them is constant.
    correlation: f64,
}

impl ExposureInfo {
    /// Formats the gains as one line.
    pub(crate) fn line(&self) -> String {
        let [dark, bright] = self.range_ev;
        let auto = if self.auto { "on" } else { "off" };
        format!(
            "{dark:+.2} .. {bright:+.2} EV over {} images (SD of log gain {:.3}, significant above {NOTABLE_DEVIATION}; white \
             balance {:.3}), worst {} {:+.2} EV; shared points agree to {:.1} dB, with gains {:.1} dB; --exposure auto: \
             {auto}",
            self.pictures,
            self.log_gain_sd,
            self.white_balance_sd,
            self.worst,
            self.worst_ev,
            self.psnr[0],
            self.psnr[1]
        )
    }

    /// Formats the comparison with EXIF as one line, if there is one.
    pub(crate) fn exif_line(&self) -> Option<String> {
        let exif = self.exif.as_ref()?;
        Some(format!(
            "exposure time, f-number and ISO of {} images: {:.2} stops, {:+.2} EV of measured gain per stop, correlation {:+.2}",
            exif.pictures, exif.range_stops, exif.ev_per_stop, exif.correlation
        ))
    }
}

/// Measures the gains of all images of the dataset at `path`; `None` if its tracks are not sufficient.
pub(crate) fn measure(path: &Path, options: OpenOptions) -> Result<Option<ExposureInfo>, Failure> {
    let options = OpenOptions { max_resolution: MAX_MEASURED_SIDE, ..options };
    let dataset = Arc::new(dataset::open(path, &options)?);
    let tracks = dataset.read_tracks(MEMORY_BYTES)?;
    if tracks.is_empty() {
        return Ok(None);
    }
    let options = LoaderOptions { budget_bytes: MEMORY_BYTES as usize, threads: 1 };
    let loader = Loader::new(Arc::clone(&dataset), options);
    let rows = dataset.images.len();
    let pictures: Vec<(usize, u32)> = (0..rows).zip(0..).collect();
    // Ctrl-C ends this command at once.
    let gains =
        gains::measure(&loader, &tracks, &pictures, rows, &AtomicBool::new(false)).unwrap_or_default();
    let (Some(range_ev), Some((worst, worst_ev))) = (gains.range_ev(), gains.worst()) else {
        return Ok(None);
    };
    let stops: Vec<Option<f64>> = dataset
        .images
        .iter()
        .map(|image| Some(read_header(&image.path).ok()?.shot?.brightness_stops()))
        .collect();
    Ok(Some(ExposureInfo {
        pictures: gains.rows.iter().flatten().count(),
        range_ev,
        log_gain_sd: gains.standard_deviation(),
        white_balance_sd: gains.white_balance_deviation(),
        psnr: [gains.psnr, gains.psnr_after],
        worst: dataset.images[worst].name.to_string(),
        worst_ev,
        auto: gains.are_notable(),
        gains: dataset
            .images
            .iter()
            .zip(&gains.rows)
            .filter_map(|(image, gain)| Some(ImageGain { name: image.name.to_string(), log_gain: (*gain)? }))
            .collect(),
        exif: exif(&stops, &gains),
    }))
}

/// Compares the EXIF stops with the gains of the same images.
fn exif(stops: &[Option<f64>], gains: &Gains) -> Option<ExifInfo> {
    let pairs = stops.iter().enumerate().filter_map(|(row, stops)| Some([(*stops)?, gains.ev(row)?]));
    let pairs: Vec<[f64; 2]> = pairs.collect();
    if pairs.len() < 2 {
        return None;
    }
    let mean: [f64; 2] = [0, 1].map(|k| pairs.iter().map(|pair| pair[k]).sum::<f64>() / pairs.len() as f64);
    let product = |a: usize, b: usize| -> f64 {
        pairs.iter().map(|pair| (pair[a] - mean[a]) * (pair[b] - mean[b])).sum()
    };
    let or_zero = |value: f64| if value.is_finite() { value } else { 0.0 };
    let lowest = pairs.iter().map(|pair| pair[0]).fold(f64::INFINITY, f64::min);
    let highest = pairs.iter().map(|pair| pair[0]).fold(f64::NEG_INFINITY, f64::max);
    Some(ExifInfo {
        pictures: pairs.len(),
        range_stops: highest - lowest,
        ev_per_stop: or_zero(product(0, 1) / product(0, 0)),
        correlation: or_zero(product(0, 1) / (product(0, 0) * product(1, 1)).sqrt()),
    })
}
