//! Gains from the brightness of the scene: a camera with automatic exposure meters what it sees, and darkens a bright view.
//!
//! The brightness of the scene in a view, `s`, is the log brightness of the image minus its log gain `g`, or that of a
//! render without gain. With `P` for the prediction by neighbours in time, a slope is fitted to what these do not tell:
//!
//! ```text
//! minimise  Σ ((g - Pg) + b (s - Ps))²     over the training images, 0 <= b <= 1 (1: all images are equally bright)
//! ```
//! Then `P(g + b s) - b s` is a second prediction of `g`. It is averaged with `Pg`, weighted by the inverse of the mean
//! squared leave-one-out error of each: metering is better where views are far apart, neighbours where they are close
//! (research/experiments.md, *Exposure*).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_io::dataset::Loader;

use super::{Moment, fill_unknown, mean, predict_from_neighbours, trusted};

/// Minimum number of training images for a fit.
const MIN_IMAGES: usize = 8;
/// Maximum number of training images. Of more, neighbours are so close that they tell enough, and reading all takes long.
const MAX_IMAGES: usize = 500;
/// A colour counts as at most this. What darker images show as white is brighter than 1 without gain; still brighter are
/// artefacts.
const BRIGHTEST: f32 = 4.0;
/// Images announced to the loader in advance.
const LOOKAHEAD: usize = 8;

/// How a camera has followed the brightness of the scene.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Metering {
    /// Change of the log gain per unit of log brightness, negated.
    slope: f32,
    /// Mean log brightness of the scene in the training images.
    mean: f32,
    /// Log gain at that brightness, by image; `None` for training images and where nothing is predicted.
    at_mean: Vec<Option<[f32; 3]>>,
}

impl Metering {
    /// Log gain of an image that was not trained, by the log brightness of the scene in its view.
    pub(super) fn log_gain(&self, index: usize, brightness: f32) -> Option<[f32; 3]> {
        let at_mean = (*self.at_mean.get(index)?)?;
        Some(at_mean.map(|gain| gain - self.slope * (brightness - self.mean)))
    }
}

/// Natural logarithm of the mean of the pixels that a mask keeps, given as mean of their channels; `None` for black, or if
/// there are none.
pub(super) fn log_brightness(pixels: impl Iterator<Item = f64>, mask: Option<&[u8]>) -> Option<f32> {
    let is_kept = |at: usize| mask.is_none_or(|mask| mask.get(at).is_some_and(|&value| value != 0));
    let [mut sum, mut count] = [0.0f64; 2];
    for (_, value) in pixels.enumerate().filter(|&(at, _)| is_kept(at)) {
        sum += value;
        count += 1.0;
    }
    let brightness = libm::log(sum / count);
    brightness.is_finite().then_some(brightness as f32)
}

/// The pixels of a render (RGB, interleaved), for [`log_brightness`].
pub(super) fn rendered_pixels(colours: &[f32]) -> impl Iterator<Item = f64> {
    colours.chunks_exact(3).map(|pixel| pixel.iter().map(|&v| f64::from(v.min(BRIGHTEST))).sum::<f64>() / 3.0)
}

/// Measures it from the training images, whose `brightness` is read once; `None` if there are too few or too many of
/// them, several at one moment (one exposure for several views), if one is transparent, or if `stop` is set.
pub(super) fn measure(
    sequences: &[Vec<Moment>],
    images: &[Vec<Vec<usize>>],
    brightness: &OnceLock<Vec<Option<f32>>>,
    loader: &Loader,
    stop: &AtomicBool,
) -> Option<Metering> {
    let all: Vec<usize> = images
        .iter()
        .flatten()
        .map(|moment| (moment.len() == 1).then(|| moment[0]))
        .collect::<Option<_>>()?;
    let moments = || sequences.iter().flatten().zip(&all);
    let training: Vec<usize> =
        moments().filter(|(moment, _)| moment.gain.is_some()).map(|(_, &index)| index).collect();
    if !(MIN_IMAGES..=MAX_IMAGES).contains(&training.len()) {
        return None;
    }
    let brightness = match brightness.get() {
        Some(read) => read,
        None => {
            let read = read_brightness(&training, loader, stop)?;
            brightness.get_or_init(|| read)
        }
    };
    if brightness.iter().flatten().count() < MIN_IMAGES {
        return None;
    }
    let by_moment: Vec<Vec<Option<f32>>> =
        images.iter().map(|sequence| sequence.iter().map(|moment| brightness[moment[0]]).collect()).collect();
    let by_order = fit(sequences, &by_moment)?;
    let mut by_image = vec![None; brightness.len()];
    for ((moment, &index), at_mean) in moments().zip(by_order.at_mean) {
        by_image[index] = at_mean.filter(|_| moment.gain.is_none());
    }
    Some(Metering { at_mean: by_image, ..by_order })
}

/// Log brightness by image, empty if one is transparent; `None` if `stop` is set.
fn read_brightness(training: &[usize], loader: &Loader, stop: &AtomicBool) -> Option<Vec<Option<f32>>> {
    let mut brightness = vec![None; loader.dataset().images.len()];
    for (at, &index) in training.iter().enumerate() {
        loader.prefetch(&training[at..training.len().min(at + LOOKAHEAD)]);
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        // Images that cannot be read are not trained, either.
        let Ok(target) = loader.get(index) else { continue };
        if target.alpha.is_some() {
            return Some(Vec::new());
        }
        let mean = |pixel: &[u8]| pixel.iter().map(|&value| f64::from(value)).sum::<f64>() / (3.0 * 255.0);
        brightness[index] = log_brightness(target.rgb.chunks_exact(3).map(mean), target.mask.as_deref());
    }
    Some(brightness)
}

/// Fits it to sequences of which images with a known gain have a log brightness; `at_mean` is in the order of moments.
fn fit(sequences: &[Vec<Moment>], brightness: &[Vec<Option<f32>>]) -> Option<Metering> {
    let scene: Vec<Vec<Option<f64>>> = sequences
        .iter()
        .zip(brightness)
        .map(|(moments, brightness)| {
            let scene =
                |(moment, value): (&Moment, &Option<f32>)| Some(f64::from((*value)?) - mean(moment.gain?));
            moments.iter().zip(brightness).map(scene).collect()
        })
        .collect();
    let known = || scene.iter().flatten().copied().flatten();
    let centre = known().sum::<f64>() / known().count().max(1) as f64;
    // Sequences with `weight` times the gain plus `slope` times the brightness of the scene in place of the gain.
    let combined = |weight: f32, slope: f32| -> Vec<Vec<Moment>> {
        let moment = |(moment, scene): (&Moment, &Option<f64>)| Moment {
            gain: moment
                .gain
                .zip(*scene)
                .map(|(gain, scene)| gain.map(|gain| weight * gain + slope * (scene - centre) as f32)),
            ..*moment
        };
        sequences
            .iter()
            .zip(&scene)
            .map(|(moments, scene)| moments.iter().zip(scene).map(moment).collect())
            .collect()
    };
    let [mut product, mut square] = [0.0f64; 2];
    for (gains, scenes) in combined(1.0, 0.0).iter().zip(&combined(0.0, 1.0)) {
        for at in 0..gains.len() {
            let left = |moments: &[Moment]| {
                Some(mean(moments[at].gain?) - mean(predict_from_neighbours(moments, at)?))
            };
            if let (Some(gain), Some(scene)) = (left(gains), left(scenes)) {
                product += gain * scene;
                square += scene * scene;
            }
        }
    }
    let slope = (-product / square).clamp(0.0, 1.0) as f32;
    if slope.is_nan() {
        return None;
    }
    let [mut plain, mut metered] = [combined(1.0, 0.0), combined(1.0, slope)];
    let errors = [&plain, &metered].map(|sequences| leave_one_out_error(sequences));
    // The inverse of the errors, of which one may be 0.
    let weight = if errors[0] > 0.0 { errors[0] / (errors[0] + errors[1]) } else { 0.0 } as f32;
    fill_unknown(&mut plain);
    fill_unknown(&mut metered);
    let average = |(plain, metered): (&Moment, &Moment)| {
        let (plain, metered) = (plain.gain?, metered.gain?);
        Some(std::array::from_fn(|c| plain[c] + weight * (metered[c] - plain[c])))
    };
    let at_mean = plain.iter().flatten().zip(metered.iter().flatten()).map(average).collect();
    Some(Metering { slope: weight * slope, mean: centre as f32, at_mean })
}

/// Mean squared error of the predictions of known gains by the others.
fn leave_one_out_error(sequences: &[Vec<Moment>]) -> f64 {
    let [mut sum, mut count] = [0.0f64; 2];
    for (moment, told) in sequences.iter().flatten().zip(trusted(sequences).into_iter().flatten()) {
        if let (Some(gain), Some(told)) = (moment.gain, told) {
            sum += (0..3).map(|c| f64::from(gain[c] - told[c]).powi(2)).sum::<f64>();
            count += 3.0;
        }
    }
    sum / f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::Viewpoint;
    use super::*;

    const HERE: Viewpoint = Viewpoint { centre: [0.0; 3], axis: None };

    /// A sequence of images at one place with gains `gain(scene)`, of which every fourth is held out, and their log
    /// brightness.
    fn sequence(scene: &[f32], gain: impl Fn(usize, f32) -> f32) -> (Vec<Moment>, Vec<Option<f32>>) {
        let is_known = |i: usize| i % 4 != 2;
        let all = scene.iter().enumerate().map(|(i, &s)| (i, gain(i, s), s));
        all.map(|(i, gain, s)| {
            let moment =
                Moment { gain: is_known(i).then_some([gain, gain + 0.1, gain - 0.1]), viewpoint: HERE };
            (moment, is_known(i).then_some(gain + s))
        })
        .unzip()
    }

    /// Log brightness that jumps from view to view.
    fn jumping(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 % 11) as f32 - 5.0) / 10.0).collect()
    }

    #[test]
    fn a_camera_that_meters_the_scene_is_followed_where_neighbours_tell_nothing() {
        let scene = jumping(44);
        let (moments, brightness) = sequence(&scene, |_, s| -0.8 * s);
        let Metering { slope, mean, at_mean } = fit(&[moments], &[brightness]).unwrap();
        assert!((slope - 0.8).abs() < 0.02, "{slope}");
        for i in (2..44).step_by(4) {
            let found = at_mean[i].unwrap()[0] - slope * (scene[i] - mean);
            assert!((found + 0.8 * scene[i]).abs() < 0.02, "{i}: {found}, scene {}", scene[i]);
        }
    }

    #[test]
    fn a_camera_that_does_not_meter_is_told_by_its_neighbours() {
        // The gain rises along the sequence, whatever is seen.
        let (moments, brightness) = sequence(&jumping(44), |i, _| (i as f32 - 21.5) / 40.0);
        let Metering { slope, at_mean, .. } = fit(&[moments], &[brightness]).unwrap();
        assert!(slope < 0.01, "{slope}");
        assert!((at_mean[22].unwrap()[0] - 0.5 / 40.0).abs() < 0.01, "{:?}", at_mean[22]);
    }

    #[test]
    fn scenes_of_one_brightness_and_black_views_are_not_metered() {
        let (moments, brightness) = sequence(&[0.3; 20], |_, _| 0.0);
        assert_eq!(fit(&[moments], &[brightness]), None);
        assert_eq!(fit(&[], &[]), None);
        let of = |colours: &[f32], mask: Option<&[u8]>| log_brightness(rendered_pixels(colours), mask);
        assert_eq!(of(&[0.0; 3], None), None);
        assert_eq!(of(&[], None), None);
        assert_eq!(of(&[f32::NAN, 100.0, 1.0], None), of(&[3.0; 3], None));
        assert!((of(&[0.5, 0.25, 0.75], None).unwrap() - 0.5f32.ln()).abs() < 1e-6);
        // Of two pixels, the mask keeps the second.
        let two = [0.9, 0.9, 0.9, 0.5, 0.5, 0.5];
        assert_eq!(of(&two, Some(&[0, 255])), of(&two[3..], None));
        assert_eq!(of(&two, Some(&[0, 0])), None);
        let metering = Metering { slope: 0.5, mean: -1.0, at_mean: vec![None, Some([0.5, 0.25, 0.75])] };
        assert_eq!(metering.log_gain(0, -1.0), None);
        assert_eq!(metering.log_gain(2, -1.0), None);
        assert_eq!(metering.log_gain(1, 0.0), Some([0.0, -0.25, 0.25]));
    }
}
