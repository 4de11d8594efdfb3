//! Place, metres, north and up of a model from the GPS positions of its pictures.
//!
//! ```text
//! origin   the median of the positions; metres east, north and up of it (crate::gps)
//! fit      metres ≈ s R centre + t: least median of squares over triples (crate::compare), then Cauchy weights
//!          (crate::track). Positions that are more than ten robust deviations off are left out.
//! heights  a position without altitude counts horizontally: its height is that of the fit, which is repeated. If fewer
//!          than three have one, heights are those of the model along the up direction of its cameras.
//! up       the cameras' up direction counts as a weak direction: it decides the roll about a straight line, nothing else
//! ```

use gausset_core::se3;
use gausset_core::statistics::median;
use gausset_io::dataset::georeference::EarthPlace;

use crate::compare::{Similarity, deviations, least_median, within_limit};
use crate::gps::{Geodetic, GpsFit, to_local};
use crate::track::solve::{Correspondences, ROUNDS, fit_robust};

/// Fewest positions.
const MIN_POSITIONS: usize = 3;
/// Fewest positions of which one can be left out.
const MIN_FOR_OUTLIERS: usize = 4;
/// Rounds in which missing heights follow the fit.
const HEIGHT_ROUNDS: usize = 8;

/// Fit of a model to the GPS positions of its pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct GeoFit {
    /// Where the metres are zero; without altitude if fewer than three positions have one.
    pub origin: EarthPlace,
    /// From the world of the model to metres east, north and up.
    pub similarity: Similarity,
    /// Distance of each centre from its position, metres; horizontal if the position has no altitude.
    pub residuals: Vec<f64>,
    /// Whether each position took part; `false` for those left out.
    pub is_used: Vec<bool>,
    /// Scale, residual and spread of the positions that took part.
    pub quality: GpsFit,
}

/// Positions in metres, and which of them have an altitude.
struct Positions {
    metres: Vec<[f64; 3]>,
    has_height: Vec<bool>,
    up: Option<[f64; 3]>,
}

/// Fits the centres of a model to positions of the same pictures. `up` is the up direction of the cameras in the model.
/// `None` if there are fewer than three positions, or all are equal. Whether the fit is good enough tells
/// [`GpsFit::is_significant`].
///
/// ```
/// use gausset_io::dataset::georeference::EarthPlace;
/// use gausset_sfm::georeference::fit;
///
/// // Centres of a model in units of 10 m, and their positions: 0.0009 degrees of latitude are 100 m.
/// let centres = [[0.0; 3], [0.0, 0.0, 10.0], [0.0, -1.0, 20.0]];
/// let places = [(0.0, 50.0), (0.0009, 50.0), (0.0018, 60.0)]
///     .map(|(latitude, height)| EarthPlace { latitude, longitude: 10.0, altitude: Some(height) });
/// let found = fit(&centres, &places, None).unwrap();
/// assert!(found.quality.is_significant() && (found.quality.scale - 10.0).abs() < 0.1);
/// ```
#[must_use]
pub fn fit(centres: &[[f64; 3]], places: &[EarthPlace], up: Option<[f64; 3]>) -> Option<GeoFit> {
    if centres.len() < MIN_POSITIONS || centres.len() != places.len() {
        return None;
    }
    let origin = origin_of(places)?;
    let positions = Positions::new(places, origin, up);
    let mut is_used = vec![true; centres.len()];
    if centres.len() >= MIN_FOR_OUTLIERS {
        let start = positions.with_heights(centres, None);
        let residual = |fit: &Similarity, i: usize| positions.residual(fit, centres[i], i);
        if let Some(residuals) = least_median(centres, &start, &residual) {
            is_used = within_limit(&residuals, centres.len(), deviations(&start)[0]);
        }
    }
    let mut similarity = positions.fit(centres, &is_used)?;
    if centres.len() >= MIN_FOR_OUTLIERS {
        let spread = deviations(&positions.metres)[0];
        let again = within_limit(&positions.residuals(&similarity, centres), centres.len(), spread);
        if again != is_used {
            is_used = again;
            similarity = positions.fit(centres, &is_used)?;
        }
    }
    let residuals = positions.residuals(&similarity, centres);
    let quality = quality(&similarity, &residuals, &positions.metres, &is_used);
    Some(GeoFit { origin, similarity, residuals, is_used, quality })
}

/// The median position, rounded to a centimetre.
fn origin_of(places: &[EarthPlace]) -> Option<EarthPlace> {
    let first = places.first()?.longitude;
    // Beyond 180 degrees east the count begins anew.
    let longitude = |place: &EarthPlace| first + (place.longitude - first + 540.0).rem_euclid(360.0) - 180.0;
    let rounded = |value: f64, unit: f64| (value * unit).round() / unit;
    let altitudes: Vec<f64> = places.iter().filter_map(|place| place.altitude).collect();
    // Fewer do not take part in the fit, so they do not tell where its zero is.
    let altitude = if altitudes.len() < MIN_POSITIONS { None } else { median(altitudes) };
    Some(EarthPlace {
        latitude: rounded(median(places.iter().map(|place| place.latitude).collect())?, 1e7),
        longitude: rounded(median(places.iter().map(longitude).collect())?, 1e7),
        altitude: altitude.map(|altitude| rounded(altitude, 100.0)),
    })
}

impl Positions {
    fn new(places: &[EarthPlace], origin: EarthPlace, up: Option<[f64; 3]>) -> Self {
        let zero: Geodetic = [origin.latitude, origin.longitude, origin.altitude.unwrap_or(0.0)];
        let altitude = |place: &EarthPlace| place.altitude.filter(|_| origin.altitude.is_some());
        let metres = |place: &EarthPlace| {
            let longitude = zero[1] + (place.longitude - zero[1] + 540.0).rem_euclid(360.0) - 180.0;
            to_local([place.latitude, longitude, altitude(place).unwrap_or(zero[2])], zero)
        };
        Self {
            metres: places.iter().map(metres).collect(),
            has_height: places.iter().map(|place| altitude(place).is_some()).collect(),
            up,
        }
    }

    /// The positions with the missing heights of a fit. Without a fit, or if too few heights are known for one, heights
    /// of the model along the up direction of its cameras, in its scale.
    fn with_heights(&self, centres: &[[f64; 3]], fit: Option<&Similarity>) -> Vec<[f64; 3]> {
        let mut metres = self.metres.clone();
        let known = self.has_height.iter().filter(|has| **has).count();
        let missing = |i: &usize| !self.has_height[*i];
        match (fit, self.up) {
            (Some(fit), _) if known >= MIN_POSITIONS => {
                (0..metres.len()).filter(missing).for_each(|i| metres[i][2] = fit.apply(centres[i])[2]);
            }
            (_, Some(up)) if known < MIN_POSITIONS => {
                let scale = fit.map_or_else(|| flat_scale(centres, &metres, up), |fit| fit.scale);
                let height = |i: usize| scale * se3::dot(up, se3::sub(centres[i], centres[0]));
                (0..metres.len()).for_each(|i| metres[i][2] = height(i));
            }
            _ => {}
        }
        metres
    }

    /// The robust fit of the positions that take part.
    fn fit(&self, centres: &[[f64; 3]], is_used: &[bool]) -> Option<Similarity> {
        let taken = |points: &[[f64; 3]]| -> Vec<[f64; 3]> {
            points.iter().zip(is_used).filter(|(_, used)| **used).map(|(point, _)| *point).collect()
        };
        let mut found: Option<Similarity> = None;
        let rounds = if self.has_height.iter().all(|has| *has) { 1 } else { HEIGHT_ROUNDS };
        for _ in 0..rounds {
            let paired = Correspondences {
                centres: taken(centres),
                positions: taken(&self.with_heights(centres, found.as_ref())),
                directions: self.up.map(|up| (up, [0.0, 0.0, 1.0])).into_iter().collect(),
                frames_with_direction: 0,
            };
            found = Some(fit_robust(&paired, ROUNDS)?.0.similarity);
        }
        found
    }

    fn residual(&self, fit: &Similarity, centre: [f64; 3], index: usize) -> f64 {
        let off = se3::sub(fit.apply(centre), self.metres[index]);
        if self.has_height[index] { se3::norm(off) } else { off[0].hypot(off[1]) }
    }

    fn residuals(&self, fit: &Similarity, centres: &[[f64; 3]]) -> Vec<f64> {
        centres.iter().enumerate().map(|(i, &centre)| self.residual(fit, centre, i)).collect()
    }
}

/// Metres per unit of the model, from the spreads across the up direction.
fn flat_scale(centres: &[[f64; 3]], metres: &[[f64; 3]], up: [f64; 3]) -> f64 {
    let spread = |points: Vec<[f64; 3]>| {
        let middle: [f64; 3] =
            std::array::from_fn(|k| median(points.iter().map(|p| p[k]).collect()).unwrap_or(0.0));
        median(points.iter().map(|p| se3::distance(*p, middle)).collect()).unwrap_or(0.0)
    };
    let across = centres.iter().map(|c| se3::sub(*c, up.map(|v| v * se3::dot(*c, up)))).collect();
    let flat = metres.iter().map(|[east, north, _]| [*east, *north, 0.0]).collect();
    spread(flat) / spread(across).max(f64::MIN_POSITIVE)
}

fn quality(similarity: &Similarity, residuals: &[f64], metres: &[[f64; 3]], is_used: &[bool]) -> GpsFit {
    let used: Vec<usize> = (0..metres.len()).filter(|&i| is_used[i]).collect();
    let n = used.len() as f64;
    let middle: [f64; 3] = std::array::from_fn(|k| used.iter().map(|&i| metres[i][k]).sum::<f64>() / n);
    let mean_square = |value: &dyn Fn(usize) -> f64| used.iter().map(|&i| value(i).powi(2)).sum::<f64>() / n;
    GpsFit {
        scale: similarity.scale,
        residual: mean_square(&|i| residuals[i]).sqrt(),
        spread: mean_square(&|i| se3::distance(metres[i], middle)).sqrt(),
        count: used.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gps::to_geodetic;

    const ORIGIN: Geodetic = [48.0, 11.0, 500.0];

    /// A model in another unit and other axes, and the places of its cameras on the earth.
    fn scene(metres: &[[f64; 3]]) -> (Vec<[f64; 3]>, Vec<EarthPlace>, Similarity) {
        let rotation = se3::rotation_from_quaternion([0.5, -0.5, 0.7, 0.1]);
        let model = Similarity { scale: 0.04, rotation, translation: [3.0, 1.0, -2.0] };
        let place = |m: &[f64; 3]| {
            let [latitude, longitude, altitude] = to_geodetic(*m, ORIGIN);
            EarthPlace { latitude, longitude, altitude: Some(altitude) }
        };
        let centres = metres.iter().map(|m| model.apply(*m)).collect();
        (centres, metres.iter().map(place).collect(), model)
    }

    fn grid(count: usize) -> Vec<[f64; 3]> {
        let at = |k: usize| {
            let (column, row) = ((k % 4) as f64, (k / 4) as f64);
            [12.0 * column, 15.0 * row + 2.0 * column, 40.0 + 3.0 * libm::sin(k as f64)]
        };
        (0..count).map(at).collect()
    }

    /// Up in the model's axes.
    fn up(model: &Similarity) -> [f64; 3] {
        se3::mul_vec(&model.rotation, [0.0, 0.0, 1.0])
    }

    /// The angle in degrees between the up direction of the model, mapped by the fit, and up.
    fn tilt(found: &GeoFit, model: &Similarity) -> f64 {
        se3::mul_vec(&found.similarity.rotation, up(model))[2].min(1.0).acos().to_degrees()
    }

    #[test]
    fn metres_north_and_up_come_out_of_clean_positions() {
        let metres = grid(12);
        let (centres, places, model) = scene(&metres);
        let found = fit(&centres, &places, None).unwrap();
        // The places are made by the radii of curvature at one point, which is right to 0.1 mm here.
        assert!(found.quality.is_significant() && found.quality.residual < 1e-3, "{found:?}");
        assert!((found.similarity.scale - 25.0).abs() < 1e-3 && tilt(&found, &model) < 1e-4);
        // North of the model is north, and the origin is where the metres are zero.
        let (a, b) = (found.similarity.apply(centres[0]), found.similarity.apply(centres[4]));
        assert!((0..3).all(|k| (b[k] - a[k] - (metres[4][k] - metres[0][k])).abs() < 1e-3), "{a:?} {b:?}");
        let zero = [found.origin.latitude, found.origin.longitude, found.origin.altitude.unwrap()];
        let first = to_geodetic(a, zero);
        assert!((first[0] - places[0].latitude).abs() < 1e-8 && (first[2] - 540.0).abs() < 1e-2);
    }

    #[test]
    fn a_position_that_does_not_fit_is_left_out_and_does_not_bend_the_fit() {
        for (count, bad) in [(4, 2), (5, 0), (12, 7)] {
            let (centres, mut places, model) = scene(&grid(count));
            places[bad].altitude = Some(0.0);
            let found = fit(&centres, &places, None).unwrap();
            let out: Vec<usize> = (0..count).filter(|&i| !found.is_used[i]).collect();
            assert_eq!(out, [bad], "{found:?}");
            assert!(found.quality.is_significant() && (found.similarity.scale - 25.0).abs() < 1e-3);
            assert!(tilt(&found, &model) < 0.01 && found.residuals[bad] > 400.0);
        }
    }

    #[test]
    fn a_missing_altitude_counts_horizontally_only() {
        let metres = grid(8);
        let (centres, mut places, model) = scene(&metres);
        places[1].altitude = None;
        places[6].altitude = None;
        let found = fit(&centres, &places, None).unwrap();
        assert!(found.is_used.iter().all(|used| *used) && found.quality.residual < 1e-3, "{found:?}");
        assert!((found.similarity.scale - 25.0).abs() < 1e-3 && tilt(&found, &model) < 0.01);
        // Without altitudes, or with two, up is that of the cameras, and the origin has none.
        for kept in [3, 0] {
            places[kept..].iter_mut().for_each(|place| place.altitude = None);
            let found = fit(&centres, &places, Some(up(&model))).unwrap();
            assert_eq!(found.origin.altitude, None);
            assert!((found.similarity.scale - 25.0).abs() < 0.1 && tilt(&found, &model) < 0.1, "{found:?}");
        }
    }

    #[test]
    fn a_straight_line_is_turned_upright_by_the_cameras() {
        let metres: Vec<[f64; 3]> = (0..9).map(|k| [5.0 * f64::from(k), 8.0 * f64::from(k), 0.0]).collect();
        let (centres, places, model) = scene(&metres);
        let found = fit(&centres, &places, Some(up(&model))).unwrap();
        assert!(found.quality.is_significant() && tilt(&found, &model) < 0.01, "{found:?}");
    }

    #[test]
    fn positions_that_scatter_as_far_as_the_way_give_no_scale() {
        let (centres, mut places, _) = scene(&grid(9));
        for (k, place) in places.iter_mut().enumerate() {
            place.latitude = 48.0 + 1e-4 * libm::sin(7.0 * k as f64);
            place.longitude = 11.0 + 1e-4 * libm::cos(11.0 * k as f64);
        }
        assert!(fit(&centres, &places, None).is_none_or(|found| !found.quality.is_significant()));
        assert_eq!(fit(&centres[..2], &places[..2], None), None);
        let still = vec![places[0]; 9];
        assert!(fit(&centres, &still, None).is_none_or(|found| !found.quality.is_significant()));
    }

    #[test]
    fn a_flight_across_the_180th_meridian_is_one_flight() {
        let (centres, mut places, _) = scene(&grid(8));
        for place in &mut places {
            place.longitude = (place.longitude - 11.0 + 179.9999 + 180.0).rem_euclid(360.0) - 180.0;
        }
        let found = fit(&centres, &places, None).unwrap();
        assert!(found.quality.is_significant() && (found.similarity.scale - 25.0).abs() < 1e-3, "{found:?}");
    }
}
