//! The gain with which an image is rendered: training images have their learnt gain, other images one that is
//! interpolated between the training images before and after them.
//!
//! Automatic exposure follows the light over time, so images taken in succession have similar gains, more so than
//! images taken at nearby positions (docs/internals/training.md). The order of the images is that of their names,
//! folder by folder, numbers by value. Where one of the two was taken much farther away or looks elsewhere, the other
//! one alone counts. How well this works is measured on the training images by leave-one-out: the
//! gain `p` predicted from the neighbours is multiplied by `Σ g p / Σ p²`, clamped to 0..1, which is about 1 in a
//! video and 0 if names are not in order of time.
//!
//! If the EXIF data of all images state exposure time, f-number and ISO, and these explain the gains of the training
//! images, they are applied first and the neighbours predict the remainder. Otherwise the brightness of the render
//! contributes, as far as the camera has followed that of the scene (`metering.rs`). Nothing is learnt from held-out images.

mod metering;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use gausset_core::engine::{CorrectionGroup, CorrectionKind};
use gausset_core::statistics::median;
use gausset_core::{Camera, Pose, se3};
use gausset_io::atomic::{FileSystem, WriteError, plain_reason, write_atomic};
use gausset_io::dataset::{Dataset, ImageEntry, Loader};
use gausset_io::image::read_header;
use gausset_io::input;
use gausset_io::run_folder::exposure_path;
use gausset_io::text::natural_order;
use gausset_metrics::{Gain, Vignetting};
use serde::{Deserialize, Serialize};

use metering::Metering;

/// Maximum size of a gains file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The gains and the vignetting that a run has learnt: `RUN/gains.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearntGains {
    /// The gains of the training images.
    gains: Vec<ImageGain>,
    /// The vignetting of their cameras.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vignetting: Vec<CameraVignetting>,
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

/// The vignetting of a camera.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CameraVignetting {
    /// Number of the camera in its model, or in the order of `transforms.json`.
    camera: u32,
    /// `a1 a2 a3` of `1 + a1 r² + a2 r⁴ + a3 r⁶`.
    coefficients: [f32; 3],
}

/// What the photographs of a dataset say, each read when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct PhotographFacts {
    /// Exposure of each image in stops; `None` if it is unknown for one.
    stops: OnceLock<Option<Vec<f64>>>,
    /// Log brightness of the training images, by image; empty if one of them is transparent.
    brightness: OnceLock<Vec<Option<f32>>>,
}

/// Log gain of each image of a dataset.
#[derive(Clone, Debug)]
pub struct Exposures {
    /// Images taken in sequence, with what is left of their learnt gains after `settings`.
    sequences: Vec<Vec<Moment>>,
    /// The images of each of these moments, by their index.
    images: Vec<Vec<Vec<usize>>>,
    /// The part of each image's gain that the camera settings predict; `None` if they explain little.
    settings: Option<Vec<f32>>,
    /// Learnt gains, and those predicted by the neighbours, by image; `None` = render without gain.
    gains: Vec<Option<[f32; 3]>>,
    /// Coefficients of the vignetting by image; `None` = without.
    vignetting: Vec<Option<[f32; 3]>>,
    /// How the camera has followed the brightness of the scene.
    metering: Option<Metering>,
    photographs: Arc<PhotographFacts>,
}

impl LearntGains {
    /// What a state holds, by the rows of the gain and of the vignetting of each training view; `None` if neither is
    /// learnt.
    pub(crate) fn from_groups(
        dataset: &Dataset,
        groups: &[CorrectionGroup],
        rows: impl Fn(usize) -> [Option<u32>; 2],
    ) -> Option<Self> {
        let find = |kind| groups.iter().find(|group| group.group == kind);
        let [gains, vignetting] = [CorrectionKind::Gain, CorrectionKind::Vignetting].map(find);
        gains.or(vignetting)?;
        let mut learnt = Self::default();
        let mut cameras = BTreeMap::new();
        for (train_index, &index) in dataset.split.train.iter().enumerate() {
            let [gain, lens] = rows(train_index);
            let three = |group: Option<&CorrectionGroup>, row: Option<u32>| {
                group?.row(row? as usize).first_chunk::<3>().copied()
            };
            let image = &dataset.images[index];
            if let Some(log_gain) = three(gains, gain) {
                learnt.gains.push(ImageGain { name: image.name.to_string(), log_gain });
            }
            let camera = dataset.cameras.get(image.source_camera);
            if let (Some(camera), Some(coefficients)) = (camera, three(vignetting, lens)) {
                cameras.insert(camera.id, coefficients);
            }
        }
        let of_camera = |(camera, coefficients)| CameraVignetting { camera, coefficients };
        learnt.vignetting = cameras.into_iter().map(of_camera).collect();
        Some(learnt)
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
        let gains = read.gains.iter().map(|image| (image.name.clone(), "log_gain", image.log_gain));
        let lenses = read.vignetting.iter();
        let lenses =
            lenses.map(|lens| (format!("camera {}", lens.camera), "coefficients", lens.coefficients));
        match gains.chain(lenses).find(|(.., values)| !values.iter().all(|v| v.abs() < 20.0)) {
            Some((place, key, values)) => Err(refused(format!(
                "{place}: {key}: expected three numbers between -20 and 20, found {values:?}"
            ))),
            None => Ok(Some(read)),
        }
    }

    /// The gain of each image of a dataset: its own, or predicted by the images before and after it.
    #[must_use]
    pub fn exposures(&self, dataset: &Dataset) -> Exposures {
        let poses: Vec<Pose> = dataset.images.iter().map(|image| image.pose).collect();
        self.exposures_at(dataset, &poses, Arc::default())
    }

    /// The same with other poses of the images, and what is known of the photographs.
    pub(crate) fn exposures_at(
        &self,
        dataset: &Dataset,
        poses: &[Pose],
        photographs: Arc<PhotographFacts>,
    ) -> Exposures {
        let read = || {
            let stops = |image: &ImageEntry| Some(read_header(&image.path).ok()?.shot?.brightness_stops());
            dataset.images.iter().map(stops).collect()
        };
        let stops = if self.gains.is_empty() { &None } else { photographs.stops.get_or_init(read) };
        Exposures {
            photographs: Arc::clone(&photographs),
            ..self.with_stops(dataset, poses, stops.as_deref())
        }
    }

    /// The same, with the exposure of each image in stops, if known for all.
    fn with_stops(&self, dataset: &Dataset, poses: &[Pose], stops: Option<&[f64]>) -> Exposures {
        let own: BTreeMap<&str, [f32; 3]> =
            self.gains.iter().map(|picture| (&*picture.name, picture.log_gain)).collect();
        let known: Vec<_> = dataset.images.iter().map(|image| own.get(&*image.name).copied()).collect();
        let settings = stops.and_then(|stops| predict_from_settings(&known, stops));
        let mut order: Vec<usize> = (0..known.len()).collect();
        order.sort_by(|&a, &b| capture_order(&dataset.images[a], &dataset.images[b]));
        let same =
            |a: &usize, b: &usize| folder_name(&dataset.images[*a]) == folder_name(&dataset.images[*b]);
        let moment = |a: &usize, b: &usize| capture_order(&dataset.images[*a], &dataset.images[*b]).is_eq();
        let images: Vec<Vec<Vec<usize>>> = order
            .chunk_by(same)
            .map(|sequence| sequence.chunk_by(moment).map(<[usize]>::to_vec).collect())
            .collect();
        let viewpoints = viewpoints(dataset, poses);
        let by_settings = |index: usize| settings.as_ref().map_or(0.0, |settings| settings[index]);
        let moment_of = |images: &Vec<usize>| {
            let known = images.iter().copied().find_map(|index| Some((index, known[index]?)));
            Moment {
                gain: known.map(|(index, gain)| gain.map(|g| g - by_settings(index))),
                viewpoint: viewpoints[images[0]],
            }
        };
        let sequences: Vec<Vec<Moment>> =
            images.iter().map(|sequence| sequence.iter().map(moment_of).collect()).collect();
        let mut filled = sequences.clone();
        fill_unknown(&mut filled);
        let mut gains = vec![None; dataset.images.len()];
        for (images, moment) in images.iter().flatten().zip(filled.into_iter().flatten()) {
            for &index in images {
                gains[index] = moment.gain.map(|rest| rest.map(|r| r + by_settings(index)));
            }
        }
        let of_camera: BTreeMap<u32, [f32; 3]> =
            self.vignetting.iter().map(|lens| (lens.camera, lens.coefficients)).collect();
        let lens = |image: &ImageEntry| {
            let camera = dataset.cameras.get(image.source_camera)?;
            of_camera.get(&camera.id).copied().filter(|_| image.camera.is_pinhole())
        };
        let vignetting = dataset.images.iter().map(lens).collect();
        Exposures {
            sequences,
            images,
            settings,
            gains,
            vignetting,
            metering: None,
            photographs: Arc::default(),
        }
    }
}

impl Exposures {
    /// Log gain of an image, learnt or predicted by its neighbours.
    #[must_use]
    pub fn log_gain(&self, index: usize) -> Option<[f32; 3]> {
        self.gains.get(index).copied().flatten()
    }

    /// Correction of an image whose view with this camera is `rendered` without (RGB, interleaved), and whether it has a
    /// gain. A mask is 0 at pixels that do not count.
    pub(crate) fn of_view(
        &self,
        index: usize,
        camera: &Camera,
        rendered: &[f32],
        mask: Option<&[u8]>,
    ) -> (Gain, bool) {
        let metered = || {
            let brightness = metering::log_brightness(metering::rendered_pixels(rendered), mask)?;
            self.metering.as_ref()?.log_gain(index, brightness)
        };
        let log_gain = metered().or_else(|| self.log_gain(index));
        let centre = [camera.cx as f32, camera.cy as f32];
        let coefficients = self.vignetting.get(index).copied().flatten();
        let vignetting = coefficients.map(|coefficients| Vignetting { coefficients, centre });
        (Gain { log_gains: log_gain.unwrap_or_default(), vignetting }, log_gain.is_some())
    }

    /// Measures how the camera has followed the brightness of the scene, from the training images. Ends early if `stop`
    /// is set.
    pub(crate) fn meter(&mut self, loader: &Loader, stop: &AtomicBool) {
        // Where settings explain the gains, they say what the camera did.
        if self.settings.is_none() {
            self.metering =
                metering::measure(&self.sequences, &self.images, &self.photographs.brightness, loader, stop);
        }
    }
}

/// Minimum number of images with a gain for a line fit of gains against stops.
const MIN_SETTINGS: usize = 8;
/// Fraction of the variance of the brightness that the line must explain.
const MIN_EXPLAINED_VARIANCE: f64 = 0.5;

/// The part of each image's log gain that the camera settings predict, equal for all channels: the least-squares line
/// through stops and mean log gains of the images with a known gain, minus its mean. `None` if the line explains little,
/// for instance because the camera followed the light.
fn predict_from_settings(known: &[Option<[f32; 3]>], stops: &[f64]) -> Option<Vec<f32>> {
    let brightness = |gain: &[f32; 3]| mean(*gain);
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
    let slope = xy / xx;
    explains.then(|| stops.iter().map(|stops| (slope * (stops - mean[0])) as f32).collect())
}

/// Mean of the channels.
fn mean(gain: [f32; 3]) -> f64 {
    gain.iter().map(|&g| f64::from(g)).sum::<f64>() / 3.0
}

/// Added to the distance of viewpoints, so that of two that are both close none is far in comparison.
const DISTANCE_OFFSET: f64 = 0.02;
/// A neighbour that is this many times as far as the other does not count (research/experiments.md).
const FAR_RATIO: f64 = 3.0;

/// Where an image was taken from.
#[derive(Clone, Copy, Debug)]
struct Viewpoint {
    /// Camera centre; unit: median distance of the training cameras from their median position.
    centre: [f64; 3],
    /// Optical axis, of length 1; `None` for a panorama, which sees all directions.
    axis: Option<[f64; 3]>,
}

impl Viewpoint {
    /// Root of the summed squares of the distance of the centres and the angle of the axes in radians, plus an offset.
    fn distance(&self, other: &Self) -> f64 {
        let apart = se3::distance(self.centre, other.centre);
        let angle = match (self.axis, other.axis) {
            (Some(a), Some(b)) => libm::acos(se3::dot(a, b).clamp(-1.0, 1.0)),
            _ => 0.0,
        };
        libm::sqrt(apart * apart + angle * angle) + DISTANCE_OFFSET
    }
}

/// Images taken at one time, such as the faces of a panorama.
#[derive(Clone, Copy, Debug)]
struct Moment {
    gain: Option<[f32; 3]>,
    viewpoint: Viewpoint,
}

/// The viewpoint of each image of a dataset.
fn viewpoints(dataset: &Dataset, poses: &[Pose]) -> Vec<Viewpoint> {
    let training: Vec<_> = dataset.split.train.iter().map(|&index| poses[index].centre()).collect();
    let unit = median_distance(&training).filter(|unit| *unit > 0.0);
    let viewpoint = |(image, pose): (&ImageEntry, &Pose)| Viewpoint {
        // If all training cameras are in one place, only angles count.
        centre: unit.map_or([0.0; 3], |unit| pose.centre().map(|v| v / unit)),
        axis: (image.face.is_none() && image.camera.is_pinhole()).then_some(pose.rotation[2]),
    };
    dataset.images.iter().zip(poses).map(viewpoint).collect()
}

/// Median distance of positions from their median position, which is that of each coordinate.
fn median_distance(positions: &[[f64; 3]]) -> Option<f64> {
    let [x, y, z] = [0, 1, 2].map(|k| median(positions.iter().map(|position| position[k]).collect()));
    let centre = [x?, y?, z?];
    median(positions.iter().map(|position| se3::distance(*position, centre)).collect())
}

/// Fills in unknown gains of sequences with those predicted by their neighbours.
fn fill_unknown(sequences: &mut [Vec<Moment>]) {
    let told = trusted(sequences);
    for (moment, told) in sequences.iter_mut().flatten().zip(told.into_iter().flatten()) {
        moment.gain = moment.gain.or(told);
    }
}

/// What the neighbours of each moment predict, multiplied by the shrinkage factor.
fn trusted(sequences: &[Vec<Moment>]) -> Vec<Vec<Option<[f32; 3]>>> {
    let mut told: Vec<Vec<_>> = sequences
        .iter()
        .map(|moments| (0..moments.len()).map(|at| predict_from_neighbours(moments, at)).collect())
        .collect();
    let [mut product, mut square] = [0.0f64; 2];
    for (moment, told) in sequences.iter().flatten().zip(told.iter().flatten()) {
        if let (Some(gain), Some(told)) = (moment.gain, told) {
            product += (0..3).map(|c| f64::from(gain[c]) * f64::from(told[c])).sum::<f64>();
            square += told.iter().map(|&t| f64::from(t) * f64::from(t)).sum::<f64>();
        }
    }
    let trust = if square > 0.0 { (product / square).clamp(0.0, 1.0) as f32 } else { 0.0 };
    told.iter_mut().flatten().flatten().flatten().for_each(|value| *value *= trust);
    told
}

/// The gain that the others predict at position `at` of a sequence: linear between the known ones before and after it,
/// constant beyond the last of them. If one of the two was taken from much farther away, it is that of the other.
fn predict_from_neighbours(moments: &[Moment], at: usize) -> Option<[f32; 3]> {
    let before = (0..at).rev().find_map(|i| Some((i, moments[i].gain?)));
    let after = (at + 1..moments.len()).find_map(|i| Some((i, moments[i].gain?)));
    match (before, after) {
        (Some((i, a)), Some((j, b))) => {
            let [to_a, to_b] = [i, j].map(|k| moments[k].viewpoint.distance(&moments[at].viewpoint));
            let share = if to_b >= FAR_RATIO * to_a {
                0.0
            } else if to_a >= FAR_RATIO * to_b {
                1.0
            } else {
                (at - i) as f32 / (j - i) as f32
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Viewpoint = Viewpoint { centre: [0.0; 3], axis: None };

    #[test]
    fn a_gain_lies_between_its_neighbours_and_ends_are_constant() {
        let gains = [None, Some([0.0, 0.1, 0.4]), None, None, Some([0.3, 0.1, -0.2]), None];
        let moments = gains.map(|gain| Moment { gain, viewpoint: HERE });
        let found: Vec<_> = (0..6).map(|at| predict_from_neighbours(&moments, at).unwrap()).collect();
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
        assert_eq!(predict_from_neighbours(&[Moment { gain: None, viewpoint: HERE }; 2], 1), None);
    }

    /// Checks the gain predicted for the middle of three moments, of which the first has gain 0.2 and the last 0.8.
    fn check_middle([first, middle, last]: [Viewpoint; 3], expected: f32) {
        let moment = |viewpoint, gain: Option<f32>| Moment { gain: gain.map(|g| [g; 3]), viewpoint };
        let moments = [moment(first, Some(0.2)), moment(middle, None), moment(last, Some(0.8))];
        let [found, ..] = predict_from_neighbours(&moments, 1).unwrap();
        assert!((found - expected).abs() < 1e-6, "{found} {moments:?}");
    }

    #[test]
    fn of_a_near_and_a_far_neighbour_the_near_one_alone_tells_the_gain() {
        let x = |x: f64| Viewpoint { centre: [x, 0.0, 0.0], ..HERE };
        let ahead = |angle: f64| Viewpoint { axis: Some([libm::sin(angle), 0.0, libm::cos(angle)]), ..HERE };
        // Distances 0.1 and 0.5 with the offset 0.02: 0.12 and 0.52.
        check_middle([x(-0.1), x(0.0), x(0.5)], 0.2);
        check_middle([x(-0.5), x(0.0), x(0.1)], 0.8);
        // By place they are equal, but one of them looks elsewhere.
        check_middle([ahead(0.1), ahead(0.0), ahead(1.5)], 0.2);
        // A panorama sees all directions.
        check_middle([ahead(0.1), HERE, ahead(1.5)], 0.5);
    }

    #[test]
    fn neighbours_at_like_distances_tell_the_gain_between_theirs() {
        let x = |x: f64| Viewpoint { centre: [x, 0.0, 0.0], ..HERE };
        // 0.12 and 0.35: less than three times as far.
        check_middle([x(-0.1), x(0.0), x(0.33)], 0.5);
        // Ten times as far, but both are close.
        check_middle([x(-0.001), x(0.0), x(0.01)], 0.5);
    }

    #[test]
    fn the_unit_of_distances_is_not_that_of_one_far_camera() {
        let mut positions = vec![[0.0; 3], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 4.0, 0.0], [1e6; 3]];
        // Median position (2, 0, 0); distances 2, 1, 0, 4.1 and far.
        assert_eq!(median_distance(&positions), Some(2.0));
        positions.iter_mut().flatten().for_each(|v| *v *= 1000.0);
        assert_eq!(median_distance(&positions), Some(2000.0));
        assert_eq!(median_distance(&[]), None);
    }

    #[test]
    fn neighbours_are_trusted_as_far_as_they_tell_what_is_known() {
        let brightness = |&value: &f32| Moment { gain: Some([value; 3]), viewpoint: HERE };
        let filled = |values: &[f32], missing: usize| {
            let mut sequences = [values.iter().map(brightness).collect::<Vec<_>>()];
            sequences[0][missing].gain = None;
            fill_unknown(&mut sequences);
            sequences[0][missing].gain.unwrap()[0]
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
    fn neighbours_are_trusted_by_the_rule_by_which_they_tell() {
        // Pairs at one place with one gain each, 10 apart: linear in the order the neighbours of each tell nothing, but
        // the near one tells all.
        let place = |i: usize| Viewpoint { centre: [10.0 * (i / 2) as f64, 0.0, 0.0], ..HERE };
        let gain = |i: usize| if (i / 2).is_multiple_of(2) { 0.3 } else { -0.3 };
        let mut sequences =
            [(0..16).map(|i| Moment { gain: Some([gain(i); 3]), viewpoint: place(i) }).collect::<Vec<_>>()];
        sequences[0][8].gain = None;
        fill_unknown(&mut sequences);
        let told = sequences[0][8].gain.unwrap()[0];
        assert!((told - 0.3 * 13.0 / 15.0).abs() < 1e-6, "{told}");
    }

    #[test]
    fn settings_tell_their_part_where_they_explain_the_gains() {
        let stops: Vec<f64> = (0..12).map(|i| f64::from(i * 5 % 12) / 4.0).collect();
        let line: Vec<Option<[f32; 3]>> = stops
            .iter()
            .enumerate()
            .map(|(i, stops)| (i % 4 != 1).then(|| [0.1, 0.0, -0.1].map(|c| c + 0.3 * *stops as f32 - 0.4)))
            .collect();
        let told = predict_from_settings(&line, &stops).unwrap();
        let known: Vec<f64> = (0..12).filter(|i| i % 4 != 1).map(|i| stops[i]).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        for (told, stops) in told.iter().zip(&stops) {
            assert!((f64::from(*told) - 0.3 * (stops - mean)).abs() < 1e-6, "{told} at {stops}");
        }
        // The camera followed the light: brighter settings, same images.
        let even: Vec<_> = (0..12u8).map(|i| Some([if i % 2 == 0 { 0.01f32 } else { -0.01 }; 3])).collect();
        assert_eq!(predict_from_settings(&even, &stops), None);
        let few: Vec<_> = line.iter().enumerate().map(|(i, gain)| gain.filter(|_| i < 8)).collect();
        assert_eq!(predict_from_settings(&few, &stops), None);
        assert_eq!(predict_from_settings(&[None, None], &[1.0, 2.0]), None);
    }
}
