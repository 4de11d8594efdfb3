//! Distance along a GPS track, integrated from its speed.

use gausset_core::se3;

use crate::track::GpsFix;

/// Half-widths of the window over which a speed is estimated, seconds. The first that holds enough fixes is used.
const HALF_WIDTHS: [f64; 3] = [0.7, 2.0, 5.0];
/// Fixes that a window must hold.
const MIN_FIXES: usize = 4;

/// Distance along a track at each time, metres from the first time that the track covers; `None` where there are no
/// fixes nearby. Times must be in ascending order.
///
/// A speed is the slope of a least-squares line through the nearby fixes. The squared speed that their scatter about
/// the line would give to a stationary receiver is subtracted, so that noise does not add up to a distance.
#[must_use]
pub fn distances(fixes: &[GpsFix], moments: &[f64]) -> Vec<Option<f64>> {
    let mut way: Option<f64> = None;
    let mut last: Option<(f64, f64)> = None;
    let metres = moments.iter().map(|&moment| {
        let Some(speed) = speed(fixes, moment) else {
            last = None;
            return None;
        };
        // A gap of the track adds no length: the distance after it continues from the value before it.
        let since = last.map_or(0.0, |(before, was)| 0.5 * (was + speed) * (moment - before).max(0.0));
        last = Some((moment, speed));
        let at = way.unwrap_or(0.0) + since;
        way = Some(at);
        way
    });
    metres.collect()
}

/// Speed, metres per second; `None` outside the track and in its gaps.
fn speed(fixes: &[GpsFix], moment: f64) -> Option<f64> {
    let covers = fixes.first()?.time <= moment && moment <= fixes.last()?.time;
    if !covers {
        return None;
    }
    let around = |half: f64| {
        let from = fixes.partition_point(|fix| fix.time < moment - half);
        let until = fixes.partition_point(|fix| fix.time <= moment + half);
        fixes.get(from..until)
    };
    let fixes = HALF_WIDTHS.into_iter().filter_map(around).find(|around| around.len() >= MIN_FIXES)?;
    let count = fixes.len() as f64;
    let mean = |value: &dyn Fn(&GpsFix) -> f64| fixes.iter().map(value).sum::<f64>() / count;
    let time = mean(&|fix| fix.time - moment);
    let place: [f64; 3] = std::array::from_fn(|axis| mean(&|fix| fix.position[axis]));
    let spread: f64 = fixes.iter().map(|fix| (fix.time - moment - time) * (fix.time - moment - time)).sum();
    let slope: [f64; 3] = std::array::from_fn(|axis| {
        let products =
            fixes.iter().map(|fix| (fix.time - moment - time) * (fix.position[axis] - place[axis]));
        products.sum::<f64>() / spread
    });
    let miss = |fix: &GpsFix| {
        let t = fix.time - moment - time;
        let off: [f64; 3] = std::array::from_fn(|axis| fix.position[axis] - place[axis] - slope[axis] * t);
        se3::dot(off, off)
    };
    let scatter = fixes.iter().map(miss).sum::<f64>() / (count - 2.0);
    Some((se3::dot(slope, slope) - scatter / spread).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(time: f64, place: [f64; 3]) -> GpsFix {
        GpsFix { time, position: place, heading: None, tilt: None }
    }

    /// Pseudo-random numbers from -1 to 1.
    fn noise(seed: u64) -> f64 {
        let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    #[test]
    fn a_way_is_as_long_as_it_is_and_noise_adds_little_to_it() {
        let moments: Vec<f64> = (0..480).map(|k| 5.0 + f64::from(k) / 24.0).collect();
        for (rate, size) in [(10.0, 0.0), (10.0, 0.05), (1.0, 0.0), (1.0, 0.05)] {
            let place = |time: f64, k: u64| {
                let x = 1.4 * time;
                [x + size * noise(3 * k), size * noise(3 * k + 1), size * noise(3 * k + 2)]
            };
            let fixes: Vec<GpsFix> =
                (0..(30.0 * rate) as u64).map(|k| fix(k as f64 / rate, place(k as f64 / rate, k))).collect();
            let way = distances(&fixes, &moments);
            let length = way[479].unwrap() - way[0].unwrap();
            assert!((length / (1.4 * 479.0 / 24.0) - 1.0).abs() < 0.01, "{rate} {size}: {length}");
            // A stationary receiver.
            let fixes: Vec<GpsFix> = fixes
                .iter()
                .map(|f| fix(f.time, [f.position[0] - 1.4 * f.time, f.position[1], f.position[2]]))
                .collect();
            let length = distances(&fixes, &moments)[479].unwrap();
            assert!(length <= 20.0 * 0.06, "{rate} {size}: {length}");
        }
    }

    #[test]
    fn outside_the_track_and_in_its_gaps_nothing_is_known() {
        let fixes: Vec<GpsFix> = (0..40)
            .map(|k| {
                let time = f64::from(k) + if k < 20 { 0.0 } else { 60.0 };
                fix(time, [time, 0.0, 0.0])
            })
            .collect();
        let way = distances(&fixes, &[-1.0, 0.0, 10.0, 50.0, 80.0, 90.0, 100.0]);
        let known: Vec<Option<f64>> = way.iter().map(|w| w.map(|w| (w * 1e6).round() / 1e6)).collect();
        assert_eq!(known, [None, Some(0.0), Some(10.0), None, Some(10.0), Some(20.0), None]);
        assert_eq!(distances(&[], &[0.0]), [None]);
    }
}
