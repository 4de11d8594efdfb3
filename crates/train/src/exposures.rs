//! The gain with which an image is rendered: training images have their learnt gain, other images one that is
//! interpolated between the training images before and after them.
//!
//! Automatic exposure follows the light over time, so images taken in succession have similar gains, more so than
//! images taken at nearby positions (docs/internals/training.md). The order of the images is that of their names,
//! folder by folder, numbers by value. How well this works is measured on the training images by leave-one-out: the
//! gain `p` predicted from the neighbours is multiplied by `Σ g p / Σ p²`, clamped to 0..1, which is about 1 in a
//! video and 0 if names are not in order of time.
//!
//! If the EXIF data of all images state exposure time, f-number and ISO, and these explain the gains of the training
//! images, they are applied first and the neighbours predict the remainder. Nothing is learnt from held-out images.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::engine::{CorrectionGroup, CorrectionKind};
use gausset_io::atomic::{FileSystem, WriteError, plain_reason, write_atomic};
use gausset_io::dataset::{Dataset, ImageEntry};
use gausset_io::image::read_header;
use gausset_io::input;
use gausset_io::run_folder::exposure_path;
use serde::{Deserialize, Serialize};

/// Maximum size of a gains file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The gains that a run has learnt: `RUN/gains.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearntGains {
    /// The gains of the training images.
    gains: Vec<ImageGain>,
}

/// The gains file of a run is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what} (expected the gains of a run); remove it to evaluate without", path.display())]
pub struct GainsError {
    /// The file, `RUN/gains.json`.
    path: PathBuf,
    /// What is wrong with it.
    what: String,
}

/// The gain of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ImageGain {
    /// Name of the image.
    name: String,
    /// Natural logarithm of the factor on red, green and blue.
    log_gain: [f32; 3],
}

/// Log gain of each image of a dataset, by its index; `None` = render without gain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposures(Vec<Option<[f32; 3]>>);

impl LearntGains {
    /// The gains in a state, by the row of each training view; `None` if no gains are learnt.
    pub(crate) fn from_groups(
        dataset: &Dataset,
        groups: &[CorrectionGroup],
        row: impl Fn(usize) -> Option<u32>,
    ) -> Option<Self> {
        let group = groups.iter().find(|group| group.group == CorrectionKind::Gain)?;
        let pictures = dataset.split.train.iter().enumerate().filter_map(|(train_index, &index)| {
            let gain = group.row(row(train_index)? as usize);
            let name = dataset.images[index].name.to_string();
            Some(ImageGain { name, log_gain: [gain[0], gain[1], gain[2]] })
        });
        Some(Self { gains: pictures.collect() })
    }

    /// Writes `RUN/gains.json`.
    pub(crate) fn write(&self, fs: &dyn FileSystem, run: &Path) -> Result<(), WriteError> {
        let json = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        write_atomic(fs, &exposure_path(run), |file| file.write_all(json.as_bytes()))?;
        Ok(())
    }

    /// Reads `RUN/gains.json`; `None` if the run has none.
    ///
    /// # Errors
    /// The file cannot be read or is not a gains file.
    pub fn read(run: &Path) -> Result<Option<Self>, GainsError> {
        let path = exposure_path(run);
        let refused = |what: String| GainsError { path: path.clone(), what };
        let text = match input::read_to_string(&path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(plain_reason(&error))),
        };
        let read: Self = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        let strange = read.gains.iter().find(|picture| !picture.log_gain.iter().all(|g| g.abs() < 20.0));
        match strange {
            Some(picture) => Err(refused(format!(
                "{}: log_gain: expected three numbers between -20 and 20, found {:?}",
                picture.name, picture.log_gain
            ))),
            None => Ok(Some(read)),
        }
    }

    /// The gain of each image of a dataset: its own, or interpolated between the images before and after it.
    #[must_use]
    pub fn exposures(&self, dataset: &Dataset) -> Exposures {
        let stops: Option<Vec<f64>> = dataset
            .images
            .iter()
            .map(|image| Some(read_header(&image.path).ok()?.shot?.brightness_stops()))
            .collect();
        self.with_stops(dataset, stops.as_deref())
    }

    /// The same, with the exposure of each image in stops, if known for all.
    fn with_stops(&self, dataset: &Dataset, stops: Option<&[f64]>) -> Exposures {
        let own: BTreeMap<&str, [f32; 3]> =
            self.gains.iter().map(|picture| (&*picture.name, picture.log_gain)).collect();
        let known: Vec<_> = dataset.images.iter().map(|image| own.get(&*image.name).copied()).collect();
        let settings =
            stops.map_or_else(|| vec![0.0; known.len()], |stops| predict_from_settings(&known, stops));
        let mut order: Vec<usize> = (0..known.len()).collect();
        order.sort_by(|&a, &b| capture_order(&dataset.images[a], &dataset.images[b]));
        let same =
            |a: &usize, b: &usize| folder_name(&dataset.images[*a]) == folder_name(&dataset.images[*b]);
        let sequences: Vec<Vec<&[usize]>> = order
            .chunk_by(same)
            .map(|sequence| {
                let moment =
                    |a: &usize, b: &usize| capture_order(&dataset.images[*a], &dataset.images[*b]).is_eq();
                sequence.chunk_by(moment).collect()
            })
            .collect();
        let known_at = |moment: &&[usize]| {
            let index = moment.iter().copied().find(|&index| known[index].is_some())?;
            known[index].map(|gain| gain.map(|g| g - settings[index]))
        };
        let mut known: Vec<Vec<_>> =
            sequences.iter().map(|moments| moments.iter().map(known_at).collect()).collect();
        fill_unknown(&mut known);
        let mut gains = vec![None; dataset.images.len()];
        for (moment, gain) in sequences.iter().flatten().zip(known.into_iter().flatten()) {
            moment
                .iter()
                .for_each(|&index| gains[index] = gain.map(|rest| rest.map(|r| r + settings[index])));
        }
        Exposures(gains)
    }
}

impl Exposures {
    /// Log gain of an image.
    #[must_use]
    pub fn log_gain(&self, index: usize) -> Option<[f32; 3]> {
        self.0.get(index).copied().flatten()
    }
}

/// Applies an exposure to rendered colours (RGB, interleaved), as in training: multiplies by `exp(g)` and clamps to 1.
pub(crate) fn expose(colours: &mut [f32], log_gain: [f32; 3]) {
    let gain = log_gain.map(libm::expf);
    for pixel in colours.chunks_exact_mut(3) {
        pixel.iter_mut().zip(gain).for_each(|(value, gain)| *value = (*value * gain).min(1.0));
    }
}

/// Minimum number of images with a gain for a line fit of gains against stops.
const MIN_SETTINGS: usize = 8;
/// Fraction of the variance of the brightness that the line must explain.
const MIN_EXPLAINED_VARIANCE: f64 = 0.5;

/// The part of each image's log gain that the camera settings predict, equal for all channels: the least-squares line
/// through stops and mean log gains of the images with a known gain, minus its mean. It is 0 for all images if the line
/// explains little, for instance because the camera followed the light.
fn predict_from_settings(known: &[Option<[f32; 3]>], stops: &[f64]) -> Vec<f32> {
    let brightness = |gain: &[f32; 3]| gain.iter().map(|&g| f64::from(g)).sum::<f64>() / 3.0;
    let pairs: Vec<[f64; 2]> = known
        .iter()
        .zip(stops)
        .filter_map(|(gain, &stops)| Some([stops, brightness(gain.as_ref()?)]))
        .collect();
    let count = pairs.len().max(1) as f64;
    let mean = [0, 1].map(|k| pairs.iter().map(|pair| pair[k]).sum::<f64>() / count);
    let product = |a: usize, b: usize| pairs.iter().map(|p| (p[a] - mean[a]) * (p[b] - mean[b])).sum::<f64>();
    let [xx, xy, yy] = [product(0, 0), product(0, 1), product(1, 1)];
    let explains =
        pairs.len() >= MIN_SETTINGS && xx > 0.0 && yy > 0.0 && xy * xy >= MIN_EXPLAINED_VARIANCE * xx * yy;
    let slope = if explains { xy / xx } else { 0.0 };
    stops.iter().map(|stops| (slope * (stops - mean[0])) as f32).collect()
}

/// Fills in unknown gains of sequences with those predicted by their neighbours, multiplied by the shrinkage factor.
fn fill_unknown(sequences: &mut [Vec<Option<[f32; 3]>>]) {
    let told: Vec<Vec<_>> = sequences
        .iter()
        .map(|gains| (0..gains.len()).map(|at| interpolate_neighbours(gains, at)).collect())
        .collect();
    let [mut product, mut square] = [0.0f64; 2];
    for (gain, told) in sequences.iter().flatten().zip(told.iter().flatten()) {
        if let (Some(gain), Some(told)) = (gain, told) {
            product += (0..3).map(|c| f64::from(gain[c]) * f64::from(told[c])).sum::<f64>();
            square += told.iter().map(|&t| f64::from(t) * f64::from(t)).sum::<f64>();
        }
    }
    let trust = if square > 0.0 { (product / square).clamp(0.0, 1.0) as f32 } else { 0.0 };
    for (gain, told) in sequences.iter_mut().flatten().zip(told.into_iter().flatten()) {
        *gain = gain.or(told.map(|told| told.map(|t| trust * t)));
    }
}

/// The gain that the others predict at position `at` of a sequence: linear between the known ones before and after it,
/// constant beyond the last of them.
fn interpolate_neighbours(gains: &[Option<[f32; 3]>], at: usize) -> Option<[f32; 3]> {
    let before = (0..at).rev().find_map(|i| Some((at - i, gains[i]?)));
    let after = (at + 1..gains.len()).find_map(|i| Some((i - at, gains[i]?)));
    match (before, after) {
        (Some((to_a, a)), Some((to_b, b))) => {
            let share = to_a as f32 / (to_a + to_b) as f32;
            Some(std::array::from_fn(|c| a[c] + share * (b[c] - a[c])))
        }
        (Some((_, gain)), None) | (None, Some((_, gain))) => Some(gain),
        (None, None) => None,
    }
}

/// The folder part of an image's name.
fn folder_name(image: &ImageEntry) -> &str {
    image.stored_name().rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The order in which images were taken, as far as their names show it.
fn capture_order(a: &ImageEntry, b: &ImageEntry) -> Ordering {
    folder_name(a).cmp(folder_name(b)).then_with(|| natural_order(a.stored_name(), b.stored_name()))
}

/// Compares names with the numbers in them by value: `img9` is before `img10`.
fn natural_order(a: &str, b: &str) -> Ordering {
    let parts = |name: &'_ str| -> Vec<(String, u64)> {
        let mut parts = vec![(String::new(), 0)];
        let mut rest = name;
        while let Some(first) = rest.find(|c: char| c.is_ascii_digit()) {
            let (text, digits) = rest.split_at(first);
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            parts.push((text.to_owned(), digits[..end].parse().unwrap_or(u64::MAX)));
            rest = &digits[end..];
        }
        parts.push((rest.to_owned(), 0));
        parts
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_by_value() {
        let mut names = [
            "a/img10.jpg",
            "a/img9.jpg",
            "a/img09.jpg",
            "a/img.jpg",
            "a/img9b.jpg",
            "a/99999999999999999999999.jpg",
        ];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(
            names,
            [
                "a/99999999999999999999999.jpg",
                "a/img09.jpg",
                "a/img9.jpg",
                "a/img9b.jpg",
                "a/img10.jpg",
                "a/img.jpg"
            ]
        );
    }

    #[test]
    fn a_gain_lies_between_its_neighbours_and_ends_are_constant() {
        let gains = [None, Some([0.0, 0.1, 0.4]), None, None, Some([0.3, 0.1, -0.2]), None];
        let found: Vec<_> = (0..6).map(|at| interpolate_neighbours(&gains, at).unwrap()).collect();
        let expected = [
            [0.0, 0.1, 0.4],
            [0.3, 0.1, -0.2],
            [0.1, 0.1, 0.2],
            [0.2, 0.1, 0.0],
            [0.0, 0.1, 0.4],
            [0.3, 0.1, -0.2],
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6), "{found:?} {expected:?}");
        }
        assert_eq!(interpolate_neighbours(&[None, None], 1), None);
    }

    #[test]
    fn neighbours_are_trusted_as_far_as_they_tell_what_is_known() {
        let brightness = |values: &[f32]| values.iter().map(|&v| Some([v; 3])).collect::<Vec<_>>();
        let filled = |values: &[f32], missing: usize| {
            let mut sequences = [brightness(values)];
            sequences[0][missing] = None;
            fill_unknown(&mut sequences);
            sequences[0][missing].unwrap()[0]
        };
        // A line: its inner points are predicted exactly, its ends by their neighbours, whose gain is smaller.
        let line: Vec<f32> = (0..17).map(|i| 0.05 * (i as f32 - 8.0)).collect();
        assert!((filled(&line, 12) - 0.2).abs() < 1e-6);
        // Alternating gains: neighbours predict the opposite, and nothing is taken from them.
        let jumping: Vec<f32> = (0..16).map(|i| if i % 2 == 0 { 0.3 } else { -0.3 }).collect();
        assert_eq!(filled(&jumping, 8), 0.0);
        assert_eq!(filled(&[0.0, 0.0], 1), 0.0);
    }

    #[test]
    fn settings_tell_their_part_where_they_explain_the_gains() {
        let stops: Vec<f64> = (0..12).map(|i| f64::from(i * 5 % 12) / 4.0).collect();
        let line: Vec<Option<[f32; 3]>> = stops
            .iter()
            .enumerate()
            .map(|(i, stops)| (i % 4 != 1).then(|| [0.1, 0.0, -0.1].map(|c| c + 0.3 * *stops as f32 - 0.4)))
            .collect();
        let told = predict_from_settings(&line, &stops);
        let known: Vec<f64> = (0..12).filter(|i| i % 4 != 1).map(|i| stops[i]).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        for (told, stops) in told.iter().zip(&stops) {
            assert!((f64::from(*told) - 0.3 * (stops - mean)).abs() < 1e-6, "{told} at {stops}");
        }
        // The camera followed the light: brighter settings, same images.
        let even: Vec<_> = (0..12u8).map(|i| Some([if i % 2 == 0 { 0.01f32 } else { -0.01 }; 3])).collect();
        assert_eq!(predict_from_settings(&even, &stops), vec![0.0; 12]);
        let few: Vec<_> = line.iter().enumerate().map(|(i, gain)| gain.filter(|_| i < 8)).collect();
        assert_eq!(predict_from_settings(&few, &stops), vec![0.0; 12]);
        assert_eq!(predict_from_settings(&[None, None], &[1.0, 2.0]), [0.0; 2]);
    }

    #[test]
    fn exposing_is_a_factor_on_each_channel_up_to_white() {
        let mut colours = [0.5, 0.5, 0.5, 0.9, 0.0, 0.25];
        expose(&mut colours, [2f32.ln(), 0.0, -2f32.ln()]);
        let expected = [1.0, 0.5, 0.25, 1.0, 0.0, 0.125];
        assert!(colours.iter().zip(expected).all(|(c, e): (&f32, f32)| (c - e).abs() < 1e-6), "{colours:?}");
    }
}
