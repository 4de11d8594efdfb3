//! How the brightness of a dataset's pictures differs, measured on the points that they share, beside what EXIF says.

use std::path::Path;
use std::sync::Arc;

use gausset_io::dataset::{self, Loader, LoaderOptions, OpenOptions};
use gausset_io::image::read_header;
use gausset_train::gains::{self, Gains, NOTABLE_SD};
use serde::Serialize;

use gausset_flow::Failure;

/// Longest side in px of the pictures that are measured: gains need no detail.
const MEASURED_SIDE: u32 = 800;
/// Memory for pictures and for observations.
const MEMORY_BYTES: u64 = 256 << 20;

/// The gains of all pictures, held out or not: a stable contract.
#[derive(Debug, Serialize)]
pub(crate) struct ExposureInfo {
    /// Pictures whose gain is known.
    pictures: usize,
    /// Darkest and brightest picture in EV.
    range_ev: [f64; 2],
    /// Standard deviation of the log gains over pictures and channels.
    log_gain_sd: f64,
    /// Standard deviation of the channels of a picture around its brightness.
    white_balance_sd: f64,
    /// PSNR of the colours of shared points in dB, and after division by the gains.
    psnr: [f64; 2],
    /// The picture that is farthest from the mean.
    worst: String,
    /// Its EV.
    worst_ev: f64,
    /// Whether `--exposure auto` is on.
    auto: bool,
    /// The gains, picture by picture.
    gains: Vec<PictureGain>,
    /// What EXIF says, where two pictures or more have all of time, f-number and ISO.
    #[serde(skip_serializing_if = "Option::is_none")]
    exif: Option<ExifInfo>,
}

/// Gain of a picture.
#[derive(Debug, Serialize)]
struct PictureGain {
    /// Its name.
    name: String,
    /// Natural logarithm of the gain on each channel.
    log_gain: [f64; 3],
}

/// Settings of the camera beside the gains that were measured.
#[derive(Debug, Serialize)]
struct ExifInfo {
    /// Pictures that have them and whose gain is known.
    pictures: usize,
    /// From the darkest setting to the brightest, in stops of light.
    range_stops: f64,
    /// EV of gains for each stop (least squares); a stop of light is about half an EV of the stored, non-linear values
    /// if the scene stayed as bright as it was, and 0 if the camera followed the light.
    ev_per_stop: f64,
    /// Correlation of stops and EV; 0 where one of them is constant.
    correlation: f64,
}

impl ExposureInfo {
    /// For people.
    pub(crate) fn line(&self) -> String {
        let [dark, bright] = self.range_ev;
        let auto = if self.auto { "on" } else { "off" };
        format!(
            "{dark:+.2} .. {bright:+.2} EV over {} pictures (sd of log gain {:.3}, notable above {NOTABLE_SD}; white balance \
             {:.3}), worst {} {:+.2} EV; shared points agree to {:.1} dB, with gains {:.1} dB; --exposure auto: {auto}",
            self.pictures,
            self.log_gain_sd,
            self.white_balance_sd,
            self.worst,
            self.worst_ev,
            self.psnr[0],
            self.psnr[1]
        )
    }

    /// For people, if EXIF says anything.
    pub(crate) fn exif_line(&self) -> Option<String> {
        let exif = self.exif.as_ref()?;
        Some(format!(
            "time, f-number and ISO of {} pictures: {:.2} stops, {:+.2} EV of measured gain for each, correlation {:+.2}",
            exif.pictures, exif.range_stops, exif.ev_per_stop, exif.correlation
        ))
    }
}

/// Measures the gains of all pictures of the dataset at `path`; `None` where its tracks do not tell them.
pub(crate) fn measure(path: &Path, allow_outside: bool) -> Result<Option<ExposureInfo>, Failure> {
    let options = OpenOptions { allow_outside, max_resolution: MEASURED_SIDE, ..OpenOptions::default() };
    let dataset = Arc::new(dataset::open(path, &options)?);
    let tracks = dataset.read_tracks(MEMORY_BYTES)?;
    if tracks.is_empty() {
        return Ok(None);
    }
    let options = LoaderOptions { budget_bytes: MEMORY_BYTES as usize, threads: 1 };
    let loader = Loader::new(Arc::clone(&dataset), options);
    let rows = dataset.images.len();
    let pictures: Vec<(usize, u32)> = (0..rows).zip(0..).collect();
    let gains = gains::measure(&loader, &tracks, &pictures, rows);
    let (Some(range_ev), Some((worst, worst_ev))) = (gains.range_ev(), gains.worst()) else {
        return Ok(None);
    };
    let stops: Vec<Option<f64>> =
        dataset.images.iter().map(|image| Some(read_header(&image.path).ok()?.shot?.stops())).collect();
    Ok(Some(ExposureInfo {
        pictures: gains.rows.iter().flatten().count(),
        range_ev,
        log_gain_sd: gains.sd(),
        white_balance_sd: gains.white_balance_sd(),
        psnr: [gains.psnr, gains.psnr_after],
        worst: dataset.images[worst].name.to_string(),
        worst_ev,
        auto: gains.are_notable(),
        gains: dataset
            .images
            .iter()
            .zip(&gains.rows)
            .filter_map(|(image, gain)| {
                Some(PictureGain { name: image.name.to_string(), log_gain: (*gain)? })
            })
            .collect(),
        exif: exif(&stops, &gains),
    }))
}

/// Compares stops with gains, picture by picture.
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
