//! Edits of a conversion, in this order: filter splats, transform them, reduce the SH degree, sort.

use gausset_compute::Pool;
use gausset_core::splats::opacity;
use gausset_core::splats_transform::Similarity;
use gausset_core::statistics::upper_median;
use gausset_core::{Region, se3};
use gausset_density::morton;
use gausset_io::splat::SplatFile;
use gausset_train::{Up, up};
use serde::Serialize;

/// Edits of splats, applied in the order of the fields. The default changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct SplatEdits {
    /// Removes the splats of the sky, if the file marks them.
    pub drop_sky: bool,
    /// Removes scene splats farther from the middle than this many times the median distance; sky splats are kept. The
    /// middle is the median position along each axis.
    pub drop_far: Option<f64>,
    /// Removes splats with a lower opacity (0 to 1).
    pub min_opacity: Option<f64>,
    /// Keeps only splats whose centre is inside all of these regions, in the axes of the input. Applies to sky splats,
    /// too.
    pub within: Vec<Region>,
    /// Translation in scene units.
    pub translate: [f64; 3],
    /// Rotation about x, then y, then z, through the origin, in degrees.
    pub rotate: [f64; 3],
    /// Scale factor of positions and sizes.
    pub scale: f64,
    /// Direction that is rotated to up (-y).
    pub up: Up,
    /// Maximum SH degree.
    pub sh_degree: Option<u8>,
    /// Sorts splats in Morton order, so that neighbours in space are neighbours in the file.
    pub morton: bool,
}

impl Default for SplatEdits {
    fn default() -> Self {
        Self {
            drop_sky: false,
            drop_far: None,
            min_opacity: None,
            within: Vec::new(),
            translate: [0.0; 3],
            rotate: [0.0; 3],
            scale: 1.0,
            up: Up::None,
            sh_degree: None,
            morton: false,
        }
    }
}

/// Number of splats removed by each filter; a splat counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RemovedCounts {
    /// Splats of the scene that at most one training view confirms.
    pub invented: usize,
    /// Splats of the sky.
    pub sky: usize,
    /// Too far from the middle of the scene.
    pub far: usize,
    /// Splats below the opacity limit.
    pub faint: usize,
    /// Outside the regions to keep.
    pub outside: usize,
    /// Less important than others, above the largest number or size.
    pub unimportant: usize,
}

impl RemovedCounts {
    /// Total over all filters.
    #[must_use]
    pub fn total(&self) -> usize {
        self.invented + self.sky + self.far + self.faint + self.outside + self.unimportant
    }
}

impl SplatEdits {
    /// Removes splats according to the filters; the others keep their bits.
    pub fn filter(&self, document: &mut SplatFile) -> RemovedCounts {
        let mut removed = RemovedCounts::default();
        let far = self.drop_far.and_then(|factor| FarLimit::of(document, factor));
        let least = self.min_opacity.unwrap_or(0.0);
        let stays: Vec<bool> = (0..document.splats.len())
            .map(|i| {
                let mean = document.splats.means[i];
                let is_scene = i < document.scene_len();
                if self.drop_sky && !is_scene {
                    removed.sky += 1;
                } else if is_scene && far.as_ref().is_some_and(|far| far.contains(mean)) {
                    removed.far += 1;
                } else if opacity(document.splats.opacity_logits[i]) < least {
                    removed.faint += 1;
                } else if !self.within.iter().all(|region| region.contains(mean)) {
                    removed.outside += 1;
                } else {
                    return true;
                }
                false
            })
            .collect();
        if removed.total() > 0 {
            document.retain(&stays);
        }
        removed
    }

    /// The transform from input to output coordinates.
    #[must_use]
    pub fn transform(&self) -> Similarity {
        let shift = Similarity { translation: self.translate, ..Similarity::IDENTITY };
        let size = Similarity { scale: self.scale, ..Similarity::IDENTITY };
        let upright = Similarity::from_rotation(up::rotation(self.up, &[]));
        shift.then(&Similarity::from_rotation(rotation_xyz(self.rotate))).then(&size).then(&upright)
    }

    /// Transforms, reduces the SH degree and sorts.
    pub fn apply(&self, document: &mut SplatFile) {
        let moves = self.transform();
        if moves != Similarity::IDENTITY {
            document.transform(&moves);
        }
        if self.up != Up::None {
            document.vertical_axis = Some(up::SAVED_UP.map(|v| v as f32));
        } else if moves.rotation != se3::IDENTITY3 {
            let turned =
                |axis: [f32; 3]| se3::mul_vec(&moves.rotation, axis.map(f64::from)).map(|v| v as f32);
            document.vertical_axis = document.vertical_axis.map(turned);
        }
        if let Some(degree) = self.sh_degree.filter(|degree| *degree < document.splats.sh_degree) {
            document.splats.cut_sh_degree(degree);
            document.sh_degree = degree;
        }
        if self.morton {
            sort_morton(document);
        }
    }

    /// Whether these edits can change renders other than by the transform.
    #[must_use]
    pub fn can_change_renders(&self) -> bool {
        self.drop_sky
            || self.drop_far.is_some()
            || self.min_opacity.is_some()
            || !self.within.is_empty()
            || self.sh_degree.is_some()
    }

    /// Whether renders changed other than by the transform.
    #[must_use]
    pub fn changes_renders(&self, removed: &RemovedCounts, sh_degree: u8) -> bool {
        removed.total() > 0 || self.sh_degree.is_some_and(|degree| degree < sh_degree)
    }
}

/// Number of scene splats that [`SplatEdits::drop_far`] would remove.
pub(crate) fn count_far(document: &SplatFile, factor: f64) -> usize {
    let scene = document.splats.means.iter().take(document.scene_len());
    FarLimit::of(document, factor).map_or(0, |far| scene.filter(|mean| far.contains(**mean)).count())
}

/// Number of splats that [`SplatEdits::min_opacity`] would remove.
pub(crate) fn count_transparent(document: &SplatFile, least: f64) -> usize {
    document.splats.opacity_logits.iter().filter(|logit| opacity(**logit) < least).count()
}

/// A sphere around the middle of a scene; splats outside are far.
struct FarLimit {
    centre: [f64; 3],
    max_distance: f64,
}

impl FarLimit {
    /// `None` without splats, and if the median distance is 0.
    fn of(document: &SplatFile, factor: f64) -> Option<Self> {
        let (centre, usual) = middle_and_radius(document)?;
        (usual > 0.0).then_some(Self { centre, max_distance: factor * usual })
    }

    fn contains(&self, mean: [f32; 3]) -> bool {
        distance(mean, self.centre) > self.max_distance
    }
}

/// The middle of a scene, the median along each axis, and the median distance from it; `None` without splats.
pub(super) fn middle_and_radius(document: &SplatFile) -> Option<([f64; 3], f64)> {
    let means = document.splats.means.get(..document.scene_len())?;
    let axis = |k: usize| upper_median(means.iter().map(|mean| f64::from(mean[k])).collect());
    let middle = [axis(0)?, axis(1)?, axis(2)?];
    let radius = upper_median(means.iter().map(|mean| distance(*mean, middle)).collect())?;
    Some((middle, radius))
}

pub(super) fn distance(mean: [f32; 3], from: [f64; 3]) -> f64 {
    se3::distance(mean.map(f64::from), from)
}

/// The rotation `Rz Ry Rx` of angles in degrees; exact for multiples of 90 degrees.
fn rotation_xyz(degrees: [f64; 3]) -> se3::Mat3 {
    let mut all = se3::IDENTITY3;
    for (axis, degrees) in degrees.into_iter().enumerate() {
        let (sine, cosine) = match degrees.rem_euclid(360.0) {
            0.0 => continue,
            90.0 => (1.0, 0.0),
            180.0 => (0.0, -1.0),
            270.0 => (-1.0, 0.0),
            other => (libm::sin(other.to_radians()), libm::cos(other.to_radians())),
        };
        let (i, j) = ((axis + 1) % 3, (axis + 2) % 3);
        let mut one = se3::IDENTITY3;
        (one[i][i], one[i][j], one[j][i], one[j][j]) = (cosine, -sine, sine, cosine);
        all = se3::mul(&one, &all);
    }
    all
}

/// Sorts the scene splats and the sky splats separately in Morton order.
fn sort_morton(document: &mut SplatFile) {
    let (means, scene) = (&document.splats.means, document.scene_len());
    let pool = Pool::with_all_cores();
    let order = |part: &[[f32; 3]], from: usize| {
        morton::order(part, &pool).into_iter().map(move |i| from + i as usize)
    };
    let sorted: Vec<usize> = order(&means[..scene], 0).chain(order(&means[scene..], scene)).collect();
    document.splats = document.splats.select(&sorted);
}

#[cfg(test)]
mod tests {
    use gausset_core::Splats;

    use super::*;

    /// A line of splats at x = 0, 1, 2 …, with increasing opacity; the last two are distant sky splats.
    fn document() -> SplatFile {
        let mut splats = Splats::with_capacity(1, 12);
        for i in 0..12 {
            let x = if i < 10 { i as f32 } else { 1000.0 + i as f32 };
            let quat = [1.0, 0.1, 0.2, 0.3];
            splats.push([x, 0.5, -1.0], [-2.0; 3], quat, i as f32 - 5.0, &[i as f32 * 0.1; 12]);
        }
        SplatFile { sky: 2, ..SplatFile::new(splats) }
    }

    fn places(document: &SplatFile) -> Vec<f32> {
        document.splats.means.iter().map(|mean| mean[0]).collect()
    }

    #[test]
    fn each_filter_leaves_out_its_own_and_each_splat_counts_once() {
        let mut far = document();
        far.splats.means[0][0] = -400.0;
        let removed = SplatEdits { drop_far: Some(20.0), ..SplatEdits::default() }.filter(&mut far);
        assert_eq!((removed, far.sky), (RemovedCounts { far: 1, ..RemovedCounts::default() }, 2));
        assert_eq!(far.splats.len(), 11, "the sky stays");

        let region = Region::Box { min: [2.0, 0.0, -2.0], max: [8.0, 1.0, 0.0] };
        let ball = Region::Ball { centre: [8.0, 0.5, -1.0], radius: 2.0 };
        let edits =
            SplatEdits { min_opacity: Some(0.5), within: vec![region, ball], ..SplatEdits::default() };
        let mut some = document();
        let removed = edits.filter(&mut some);
        // 0 to 4 are too transparent. Of 5 to 8, inside the box, the ball contains 6, 7 and 8. 9 and the sky are
        // outside the box.
        assert_eq!(removed, RemovedCounts { faint: 5, outside: 4, ..RemovedCounts::default() });
        assert_eq!((places(&some), some.sky), (vec![6.0, 7.0, 8.0], 0));
    }

    #[test]
    fn the_sky_is_left_out_whole_and_alone() {
        let mut scene = document();
        let removed = SplatEdits { drop_sky: true, ..SplatEdits::default() }.filter(&mut scene);
        assert_eq!((removed, scene.sky), (RemovedCounts { sky: 2, ..RemovedCounts::default() }, 0));
        assert_eq!(scene.splats, document().scene().into_owned());
    }

    #[test]
    fn splats_are_shifted_then_turned_then_scaled_then_set_upright() {
        let edits = SplatEdits {
            translate: [1.0, 0.0, 0.0],
            rotate: [90.0, 0.0, 90.0],
            scale: 2.0,
            up: Up::Z,
            ..SplatEdits::default()
        };
        // (1, 2, 3) + x = (2, 2, 3); about x: (2, -3, 2); about z: (3, 2, 2); times 2; z becomes -y.
        let found = edits.transform().apply([1.0, 2.0, 3.0]);
        let expected = [6.0, -4.0, 4.0];
        assert!((0..3).all(|k| (found[k] - expected[k]).abs() < 1e-12), "{found:?}");
        assert_eq!(SplatEdits::default().transform(), Similarity::IDENTITY);
        let mut moved = document();
        moved.vertical_axis = Some([0.0, 0.0, 1.0]);
        SplatEdits { rotate: [-90.0, 0.0, 0.0], scale: 0.5, ..SplatEdits::default() }.apply(&mut moved);
        assert_eq!(moved.vertical_axis, Some([0.0, 1.0, 0.0]));
        assert_eq!(moved.splats.means[3], [1.5, -0.5, -0.25]);
        assert!((moved.splats.log_scales[3][0] - (-2.0 - std::f32::consts::LN_2)).abs() < 1e-6);
    }

    #[test]
    fn no_edit_keeps_every_bit_and_the_sky_stays_behind() {
        let mut same = document();
        let removed = SplatEdits::default().filter(&mut same);
        SplatEdits::default().apply(&mut same);
        assert_eq!((removed.total(), same), (0, document()));
        let mut sorted = document();
        sorted.splats.means[..10].reverse();
        SplatEdits { morton: true, sh_degree: Some(0), ..SplatEdits::default() }.apply(&mut sorted);
        assert_eq!(places(&sorted), places(&document()));
        assert_eq!((sorted.sh_degree, sorted.splats.sh.len()), (0, 36));
    }
}
