//! Which splats a smaller file keeps: those that contribute most to images.
//!
//! The importance of a splat is its opacity times its area, the product of its two larger scales, as in LightGaussian (Fan
//! et al. 2024), but without cameras, which a file does not have. Cameras are near the scene: beyond its radius, an area
//! shrinks with the square of the distance from the middle, so that huge splats far away count as large as they look. The
//! splats of a sky are all alike; they are thinned.

use gausset_core::Splats;
use gausset_core::splats::opacity;
use gausset_io::splat::SplatFile;

use super::edits::{distance, middle_and_radius};
use crate::Failure;

/// Most files that are encoded to find the number of splats for a size.
const MAX_ENCODINGS: usize = 10;
/// Fraction of the largest size above which a file is large enough.
const CLOSE_ENOUGH: f64 = 0.98;

/// Part of a smaller file that its sky gets at least, if the scene is larger than the rest: one in this many splats. A sky is
/// smooth, so that a fifth of its splats, each as much larger, look almost the same.
const SKY_PART: usize = 5;

/// The splats of a scene, the most important first.
pub(super) struct Ranking {
    order: Vec<usize>,
    importance: Vec<f64>,
}

impl Ranking {
    pub(super) fn of(document: &SplatFile) -> Self {
        let splats = &document.splats;
        let (middle, radius) = middle_and_radius(document).unwrap_or(([0.0; 3], 0.0));
        let importance: Vec<f64> = (0..document.scene_len())
            .map(|i| {
                let away = if radius > 0.0 { distance(splats.means[i], middle) / radius } else { 0.0 };
                opacity(splats.opacity_logits[i]) * area(splats, i) / away.max(1.0).powi(2)
            })
            .collect();
        let mut order: Vec<usize> = (0..importance.len()).collect();
        order.sort_by(|&a, &b| importance[b].total_cmp(&importance[a]).then(a.cmp(&b)));
        Self { order, importance }
    }

    /// Keeps at most `count` splats: the most important ones of the scene, and a thinned sky whose splats are larger.
    /// Returns the fraction of the importance that the others of the scene had.
    pub(super) fn keep(&self, document: &mut SplatFile, count: usize) -> f64 {
        let (scene, sky) = (self.order.len(), document.sky);
        if count >= scene + sky {
            return 0.0;
        }
        let sky_room = (count / SKY_PART).max(count.saturating_sub(scene));
        // Every n-th splat of the sky stays; none if there is no room.
        let stride = if sky_room > 0 { sky.div_ceil(sky_room).max(1) } else { sky + 1 };
        let mut stays = vec![false; scene + sky];
        let kept_sky = if sky_room > 0 { sky.div_ceil(stride) } else { 0 };
        for i in (0..kept_sky).map(|k| scene + k * stride) {
            stays[i] = true;
            let larger = (0.5 * libm::log(stride as f64)) as f32;
            document.splats.log_scales[i].iter_mut().for_each(|scale| *scale += larger);
        }
        let (kept, lost) = self.order.split_at((count - kept_sky).min(scene));
        kept.iter().for_each(|&i| stays[i] = true);
        document.retain(&stays);
        let sum = |part: &[usize]| part.iter().map(|&i| self.importance[i]).sum::<f64>();
        let all = sum(&self.order);
        if all > 0.0 { sum(lost) / all } else { 0.0 }
    }

    /// The largest number of splats found, up to `most`, whose file has at most `max_bytes`, from the sizes of a few files;
    /// `None` if a file of one splat is larger.
    ///
    /// # Errors
    /// Those of `encode`, which returns the size of a file.
    pub(super) fn count_within(
        &self,
        document: &SplatFile,
        most: usize,
        max_bytes: u64,
        mut encode: impl FnMut(&SplatFile) -> Result<u64, Failure>,
    ) -> Result<Option<usize>, Failure> {
        let all = most.min(document.splats.len());
        let mut size_of = |count: usize| {
            let mut part = document.clone();
            self.keep(&mut part, count);
            encode(&part)
        };
        let whole = size_of(all)?;
        if whole <= max_bytes {
            return Ok(Some(all));
        }
        let least = size_of(1)?;
        if least > max_bytes {
            return Ok(None);
        }
        // Sizes grow about linearly with the number, from the part of the file that is always there.
        let (mut fits, mut exceeds) = ((1, least), (all, whole));
        for round in 0..MAX_ENCODINGS {
            if exceeds.0 - fits.0 <= 1 || fits.1 as f64 >= CLOSE_ENOUGH * max_bytes as f64 {
                break;
            }
            let slope = (exceeds.0 - fits.0) as f64 / (exceeds.1 - fits.1).max(1) as f64;
            let guess = fits.0 as f64 + 0.99 * slope * (max_bytes - fits.1) as f64;
            // Every third time the middle, for sizes that are far from linear.
            let guess = if round % 3 == 2 { (fits.0 + exceeds.0) / 2 } else { guess as usize };
            let count = guess.clamp(fits.0 + 1, exceeds.0 - 1);
            let bytes = size_of(count)?;
            if bytes <= max_bytes { fits = (count, bytes) } else { exceeds = (count, bytes) }
        }
        Ok(Some(fits.0))
    }
}

/// Product of the two larger scales of a splat.
fn area(splats: &Splats, i: usize) -> f64 {
    let scales = splats.log_scales[i].map(f64::from);
    let least = scales.iter().copied().fold(f64::INFINITY, f64::min);
    libm::exp((scales.iter().sum::<f64>() - least).min(80.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splats of growing opacity around the origin, the last one faint but far larger, and a huge one of the sky.
    fn document() -> SplatFile {
        let mut splats = Splats::zeros(0, 0);
        for i in 0..10u8 {
            let (x, log_scale) = (f32::from(i) - 4.5, if i == 9 { 0.0 } else { -3.0 });
            let logit = if i == 9 { -3.0 } else { f32::from(i) - 5.0 };
            splats.push([x, 0.0, 1.0], [log_scale; 3], [1.0, 0.0, 0.0, 0.0], logit, &[0.1; 3]);
        }
        splats.push([1e4, 0.0, 0.0], [2.0; 3], [1.0, 0.0, 0.0, 0.0], 5.0, &[0.1; 3]);
        SplatFile { sky: 1, ..SplatFile::new(splats) }
    }

    #[test]
    fn the_faintest_small_splats_and_what_is_small_from_afar_go_first() {
        let mut kept = document();
        let lost = Ranking::of(&kept).keep(&mut kept, 3);
        let places: Vec<f32> = kept.splats.means.iter().map(|mean| mean[0]).collect();
        assert_eq!((places, kept.sky), (vec![2.5, 3.5, 4.5], 0));
        assert!(lost > 0.01 && lost < 0.3, "{lost}");
        let mut all = document();
        assert_eq!((Ranking::of(&all).keep(&mut all, 99), all.splats.len()), (0.0, 11));
    }

    #[test]
    fn a_sky_is_thinned_before_the_scene_goes() {
        let mut splats = document().splats.select(&(0..10).collect::<Vec<_>>());
        for _ in 0..90 {
            splats.push([100.0, 0.0, 0.0], [2.0; 3], [1.0, 0.0, 0.0, 0.0], 5.0, &[0.1; 3]);
        }
        let all = SplatFile { sky: 90, ..SplatFile::new(splats) };
        let kept = |count: usize| {
            let mut part = all.clone();
            Ranking::of(&all).keep(&mut part, count);
            let scale = part.splats.log_scales.last().map_or(0.0, |scales| scales[0]);
            (part.scene_len(), part.sky, scale)
        };
        assert_eq!(kept(100), (10, 90, 2.0));
        // Every second, with twice the area.
        let (scene, sky, scale) = kept(60);
        assert_eq!((scene, sky), (10, 45));
        assert!((f64::from(scale) - 2.0 - 0.5 * 2.0f64.ln()).abs() < 1e-6, "{scale}");
        // The scene does not fit: a fifth is sky.
        assert_eq!((kept(10).0, kept(10).1), (8, 2));
        assert_eq!((kept(4).0, kept(4).1), (4, 0));
    }

    #[test]
    fn the_number_for_a_size_never_exceeds_it() {
        let document = document();
        let ranking = Ranking::of(&document);
        for bytes in [100, 131, 140, 300, 419, 420, 1000] {
            let mut tries = 0;
            let count = ranking.count_within(&document, 11, bytes, |part| {
                tries += 1;
                Ok(100 + 32 * part.splats.len() as u64)
            });
            let expected = (bytes.saturating_sub(100) / 32).min(11) as usize;
            assert_eq!(count.unwrap(), (expected > 0).then_some(expected), "{bytes}");
            assert!(tries <= 2 + MAX_ENCODINGS, "{tries}");
        }
    }
}
