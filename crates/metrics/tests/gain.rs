//! Tests gains and vignetting against f64, on all threads and SIMD levels, and at the clamp.

use fearless_simd::Level;
use gausset_compute::rng::{philox, stream, uniform};
use gausset_compute::{Exec, Pool, SimdLevel, dispatch_level};
use gausset_metrics::{Gain, Planes, Vignetting, apply_gain, gain_vjp};

/// Several bands of rows, and a last vector that is not full.
const SIZE: [u32; 2] = [67, 41];

const GAIN: Gain = Gain {
    log_gains: [0.3, -0.1, 0.15],
    vignetting: Some(Vignetting { coefficients: [-0.3, 0.1, -0.2], centre: [31.0, 22.5] }),
};

fn best() -> Level {
    dispatch_level(SimdLevel::Auto).unwrap()
}

fn picture(what: u64, low: f32, high: f32) -> Planes {
    let value = |i: usize| low + (high - low) * uniform(philox(12, stream::TEST, what, i as u32)[0]);
    let rgb: Vec<f32> = (0..3 * (SIZE[0] * SIZE[1]) as usize).map(value).collect();
    let mut planes = Planes::from_interleaved(SIZE[0], SIZE[1], &rgb);
    for y in 0..SIZE[1] as usize {
        (0..3).for_each(|c| planes.line_mut(y, c)[SIZE[0] as usize..].fill(f32::NAN));
    }
    planes
}

/// `[log gains, coefficients]` as one array, and the resulting factor on a pixel's channel.
fn factor(p: &[f64; 6], pixel: usize, channel: usize) -> f64 {
    let [x, y] = [pixel % SIZE[0] as usize, pixel / SIZE[0] as usize].map(|v| v as f64 + 0.5);
    let [w, h] = SIZE.map(f64::from);
    let square = ((x - 31.0).powi(2) + (y - 22.5).powi(2)) / ((w * w + h * h) / 4.0);
    let vignetting = 1.0 + square * (p[3] + square * (p[4] + square * p[5]));
    p[channel].exp() * vignetting.max(0.05)
}

fn parameters() -> [f64; 6] {
    let [r, g, b] = GAIN.log_gains.map(f64::from);
    let [a1, a2, a3] = GAIN.vignetting.unwrap().coefficients.map(f64::from);
    [r, g, b, a1, a2, a3]
}

#[test]
fn colours_are_multiplied_and_never_above_one() {
    let mut corrected = picture(0, 0.0, 1.6);
    let colours = corrected.to_interleaved();
    apply_gain(Exec::best(&Pool::new(2)), &GAIN, &mut corrected);
    let mut clamped = 0;
    for (i, (found, colour)) in corrected.to_interleaved().iter().zip(colours).enumerate() {
        let exact = factor(&parameters(), i / 3, i % 3) * f64::from(colour);
        // A dozen roundings of f32.
        assert!((f64::from(*found) - exact.min(1.0)).abs() < 1e-6, "{i}: {found} {exact}");
        clamped += usize::from(exact > 1.0);
    }
    assert!(clamped > 1000);
    let mut same = picture(0, 0.0, 1.0);
    apply_gain(Exec::best(&Pool::new(1)), &Gain::default(), &mut same);
    assert_eq!(same.to_interleaved(), picture(0, 0.0, 1.0).to_interleaved());
}

#[test]
fn the_vjp_is_the_slope_of_what_it_is_of() {
    let render = picture(1, 0.0, 0.7);
    let colours = render.to_interleaved();
    let mut gradient = picture(2, -0.5, 0.5);
    let upstream = gradient.to_interleaved();
    let mut corrected = picture(1, 0.0, 0.7);
    apply_gain(Exec::best(&Pool::new(1)), &GAIN, &mut corrected);
    let found = gain_vjp(Exec::best(&Pool::new(2)), &GAIN, &corrected, &mut gradient);
    assert!(gradient.as_slice().iter().all(|g| g.is_finite()), "padding becomes 0");

    let p = parameters();
    let value = |p: &[f64; 6]| -> f64 {
        let terms = colours.iter().zip(&upstream).enumerate();
        terms.map(|(i, (&c, &u))| f64::from(u) * factor(p, i / 3, i % 3) * f64::from(c)).sum()
    };
    let slopes = found.log_gains.into_iter().chain(found.vignetting);
    for (k, slope) in slopes.enumerate() {
        let at = |step: f64| {
            let mut p = p;
            p[k] += step;
            value(&p)
        };
        let exact = (at(1e-5) - at(-1e-5)) / 2e-5;
        // f32 sums along rows of 67 pixels: some 1e-7 of the sum of magnitudes, which is about 1000.
        assert!((f64::from(slope) - exact).abs() < 5e-4, "{k}: {slope} {exact}");
    }
    for (i, (g, u)) in gradient.to_interleaved().iter().zip(&upstream).enumerate() {
        assert!((f64::from(*g) - factor(&p, i / 3, i % 3) * f64::from(*u)).abs() < 1e-6, "{i}");
    }
}

#[test]
fn above_one_nothing_pulls_up_and_what_is_too_bright_comes_down() {
    let gain = Gain { log_gains: [0.5, 0.0, 0.0], vignetting: None };
    let render = || Planes::from_interleaved(2, 1, &[0.9, 0.5, 0.5, 0.9, 0.5, 0.5]);
    let mut corrected = render();
    apply_gain(Exec::best(&Pool::new(1)), &gain, &mut corrected);
    // The first pixel's red should be brighter, which a photograph cannot express; the second's darker.
    let mut gradient = Planes::from_interleaved(2, 1, &[-1.0, -1.0, 0.0, 1.0, 0.0, 0.0]);
    let found = gain_vjp(Exec::best(&Pool::new(1)), &gain, &corrected, &mut gradient);
    let red = libm::expf(0.5);
    assert_eq!(gradient.to_interleaved(), [0.0, -1.0, 0.0, red, 0.0, 0.0]);
    assert_eq!((found.log_gains, found.vignetting), ([1.0, -0.5, 0.0], [0.0; 3]));
}

#[test]
fn gains_keep_their_bits_on_all_threads_and_levels() {
    let all = |level: Level, threads: usize| {
        let pool = Pool::new(threads);
        let (mut corrected, mut gradient) = (picture(3, 0.0, 1.4), picture(4, -0.5, 0.5));
        apply_gain(Exec { pool: &pool, level }, &GAIN, &mut corrected);
        let found = gain_vjp(Exec { pool: &pool, level }, &GAIN, &corrected, &mut gradient);
        let bits =
            |planes: &Planes| planes.to_interleaved().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        (
            found.log_gains.map(f32::to_bits),
            found.vignetting.map(f32::to_bits),
            bits(&corrected),
            bits(&gradient),
        )
    };
    let expected = all(best(), 1);
    for wanted in SimdLevel::ALL {
        let Some(level) = dispatch_level(wanted) else { continue };
        for threads in [1, 2, 3, 7] {
            assert!(all(level, threads) == expected, "{} {threads} threads", wanted.level_name());
        }
    }
}
