//! Rounding with error diffusion between neighbouring splats.
//!
//! A pixel shows the sum of many splats. If each is rounded to the nearest code independently, the errors add up like
//! noise; if each is rounded after adding the error of its neighbours, they cancel, as in dithering (Floyd and
//! Steinberg 1976). For splats `i` of opacity `o`, area `a` (the product of their two larger scales) and error `e`, the
//! integral of `(Σ o e G)²` has, for round Gaussians `G`, the cross terms `K_ij = o_i o_j a_i a_j / (a_i + a_j)
//! exp(-d²/2(a_i + a_j))`: given the errors of the previous splats, the optimum is `-Σ_j K_ij e_j / K_ii`. This amount
//! is subtracted from the value before rounding, limited to half a step, so that no code differs by more than one from
//! the nearest.

/// Number of previous splats whose errors are considered.
const PREVIOUS_SPLATS: usize = 32;

/// Footprint of a splat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    mean: [f32; 3],
    opacity: f32,
    area: f32,
}

impl Footprint {
    pub(super) fn new(mean: [f32; 3], log_scale: [f32; 3], opacity: f64) -> Self {
        let least = log_scale.iter().fold(f32::INFINITY, |least, v| least.min(*v));
        let area = libm::exp(f64::from(log_scale.iter().sum::<f32>() - least)) as f32;
        Self { mean, opacity: opacity as f32, area }
    }
}

/// Rounds rows of values, one splat after another.
pub(super) struct ErrorDiffusion {
    /// Largest error that is passed on.
    step: f32,
    values: usize,
    places: Vec<Footprint>,
    /// `[splat][value]`.
    errors: Vec<f32>,
    /// Sum of the weighted errors of previous splats.
    carried_errors: Vec<f32>,
}

impl ErrorDiffusion {
    /// For rows of `values` values, whose codes are `step` apart.
    pub(super) fn new(values: usize, step: f32) -> Self {
        Self { step, values, places: Vec::new(), errors: Vec::new(), carried_errors: vec![0.0; values] }
    }

    /// Starts a new group without previous splats.
    pub(super) fn start_group(&mut self) {
        self.places.clear();
        self.errors.clear();
    }

    /// Rounds the values of a splat: `round` maps a value to a code, `decode` a code to a value.
    pub(super) fn round_row(
        &mut self,
        place: Footprint,
        values: &[f32],
        round: impl Fn(f32) -> u8,
        decode: impl Fn(u8) -> f32,
        codes: &mut [u8],
    ) {
        self.sum_errors(&place);
        let (half, step) = (self.step / 2.0, self.step);
        for ((value, left), code) in values.iter().zip(&self.carried_errors).zip(codes) {
            *code = round(value - left.clamp(-half, half));
            self.errors.push((decode(*code) - value).clamp(-step, step));
        }
        self.places.push(place);
    }

    /// Sums the weighted errors of previous splats.
    fn sum_errors(&mut self, place: &Footprint) {
        self.carried_errors.fill(0.0);
        let first = self.places.len().saturating_sub(PREVIOUS_SPLATS);
        let errors = self.errors.chunks_exact(self.values).skip(first);
        for (other, errors) in self.places.iter().skip(first).zip(errors) {
            let areas = place.area + other.area;
            let distance: f32 = place.mean.iter().zip(other.mean).map(|(a, b)| (a - b) * (a - b)).sum();
            // exp(-x) is approximated by (1 - x/4)^4, and by 0 beyond 4.
            let root = 1.0 - distance / (8.0 * areas);
            if root > 0.0 {
                let near = (root * root) * (root * root);
                let weight = near * (2.0 * other.area / areas) * (other.opacity / place.opacity).min(1e6);
                self.carried_errors.iter_mut().zip(errors).for_each(|(left, error)| *left += weight * error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds splats at these positions to integers; returns the sum of the errors.
    fn sum_of_errors(places: impl Iterator<Item = f32>) -> f32 {
        let mut rounding = ErrorDiffusion::new(1, 1.0);
        let mut code = [0];
        let mut sum = 0.0;
        for x in places {
            let round = |v: f32| (v + 0.5) as u8;
            let place = Footprint::new([x, 0.0, 0.0], [0.0; 3], 0.5);
            rounding.round_row(place, &[7.3], round, f32::from, &mut code);
            assert!((6..=8).contains(&code[0]), "one step from the nearest at most: {}", code[0]);
            sum += f32::from(code[0]) - 7.3;
        }
        sum
    }

    #[test]
    fn errors_of_splats_in_one_place_cancel_and_those_far_apart_do_not_meet() {
        let together = sum_of_errors((0..20).map(|_| 1.0));
        assert!(together.abs() < 1.0, "{together}");
        let apart = sum_of_errors((0..20).map(|i| 100.0 * i as f32));
        assert!((apart + 6.0).abs() < 1e-4, "0.3 each: {apart}");
    }

    #[test]
    fn splats_without_opacity_or_size_do_no_harm() {
        let mut rounding = ErrorDiffusion::new(2, 1.0);
        let mut codes = [0; 2];
        for (log_scale, opacity) in [(-1e3, 0.0), (-1e3, 1.0), (30.0, 0.0), (0.0, 1.0)] {
            let place = Footprint::new([1e12; 3], [log_scale; 3], opacity);
            rounding.round_row(place, &[3.2, 900.0], |v| v as u8, f32::from, &mut codes);
            assert!((2..=4).contains(&codes[0]) && codes[1] == 255, "{codes:?}");
        }
    }
}
