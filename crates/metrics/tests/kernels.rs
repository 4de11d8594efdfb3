//! Tests the f32 kernels against the f64 reference, and for equal bits on other threads and SIMD levels.

use fearless_simd::Level;
use gausset_compute::rng::{philox, stream, uniform};
use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::TargetImage;
use gausset_metrics::quality::composited_truth;
use gausset_metrics::reference::ReferencePair;
use gausset_metrics::{GroundTruth, LatitudeWeights, LossKernel, LossOptions, LossValue, Planes};

const BACKGROUND: [f32; 3] = [0.9, 0.1, 0.4];

/// Smaller than the window, exact multiples of everything, odd, and several bands of rows.
const SIZES: [(u32, u32); 6] = [(1, 1), (7, 5), (16, 48), (37, 23), (100, 50), (67, 141)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Opaque,
    Transparent,
    Masked,
    MaskedAndTransparent,
}

const KINDS: [Kind; 4] = [Kind::Opaque, Kind::Transparent, Kind::Masked, Kind::MaskedAndTransparent];

fn best() -> Level {
    dispatch_level(SimdLevel::Auto).unwrap()
}

fn word(what: u64, i: usize) -> u32 {
    philox(11, stream::TEST, what, i as u32)[0]
}

/// A ground truth with smooth and noisy parts.
fn target(width: u32, height: u32, kind: Kind) -> TargetImage {
    let pixels = width as usize * height as usize;
    let rgb = (0..3 * pixels)
        .map(|i| {
            let (x, y) = ((i / 3) % width as usize, i / 3 / width as usize);
            let smooth = 90.0 + 2.0 * x as f32 + 0.5 * y as f32;
            (smooth + if y < 20 { 60.0 * uniform(word(0, i)) } else { 0.0 }) as u8
        })
        .collect();
    let alpha = (0..pixels).map(|i| (word(1, i) >> 23).min(255) as u8).collect();
    let mask =
        (0..pixels).map(|i| if word(2, i / 5) < 1 << 30 { 0 } else { 1 + word(3, i) as u8 % 255 }).collect();
    TargetImage {
        width,
        height,
        rgb,
        alpha: matches!(kind, Kind::Transparent | Kind::MaskedAndTransparent).then_some(alpha),
        mask: matches!(kind, Kind::Masked | Kind::MaskedAndTransparent).then_some(mask),
    }
}

/// A render near the ground truth, sometimes equal to it, sometimes outside 0..1; the padding is NaN.
fn render(target: &TargetImage) -> Planes {
    let values: Vec<f32> = composited_truth(target, BACKGROUND)
        .into_iter()
        .enumerate()
        .map(
            |(i, y)| {
                if word(4, i) < 1 << 28 { y } else { y + 0.8 * (uniform(word(5, i)) - 0.5).powi(3) * 8.0 }
            },
        )
        .collect();
    let mut planes = Planes::new(target.width, target.height);
    planes.as_mut_slice().fill(f32::NAN);
    for (i, value) in values.into_iter().enumerate() {
        let (x, y) = ((i / 3) % target.width as usize, i / 3 / target.width as usize);
        planes.line_mut(y, i % 3)[x] = value;
    }
    planes
}

fn run(kernel: &mut LossKernel, pool: &Pool, target: &TargetImage, dssim_weight: f32) -> (LossValue, Planes) {
    let options = LossOptions { dssim_weight, background: BACKGROUND, latitude: None };
    let mut gradient = Planes::default();
    let loss =
        kernel.run(pool, &render(target), GroundTruth::Bytes(target), &options, &mut gradient).unwrap();
    (loss, gradient)
}

fn bits(planes: &Planes) -> Vec<u32> {
    planes.as_slice().iter().map(|v| v.to_bits()).collect()
}

/// Bits of all values of a loss.
fn loss_bits(loss: LossValue) -> [u64; 3] {
    [loss.loss.to_bits(), loss.l1.to_bits(), loss.ssim.unwrap_or(7.0).to_bits()]
}

fn relative_error(candidate: &[f32], reference: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut candidate.iter().zip(reference).map(|(c, r)| f64::from(*c) - r));
    error / norm(&mut reference.iter().copied()).max(1e-30)
}

#[test]
fn the_loss_is_the_defined_one_for_every_size_mask_and_coverage() {
    let (mut kernel, pool) = (LossKernel::new(best()), Pool::new(2));
    for (width, height) in SIZES {
        for kind in KINDS {
            let target = target(width, height, kind);
            let x: Vec<f64> = render(&target).to_interleaved().into_iter().map(f64::from).collect();
            let y: Vec<f64> = composited_truth(&target, BACKGROUND).into_iter().map(f64::from).collect();
            let mask = target.mask.as_deref();
            let pair = ReferencePair { width: width as usize, height: height as usize, x: &x, y: &y, mask };
            for w in [0.0, 0.2, 1.0] {
                // The weight is rounded to f32 before both implementations use it.
                let w = w as f32;
                let exact = pair.loss(f64::from(w));
                let (loss, gradient) = run(&mut kernel, &pool, &target, w);
                let case = format!("{width}x{height} {kind:?} weight {w}");
                assert_eq!(loss.valid_pixels, pair.valid_pixels());
                assert!((loss.l1 - exact.l1).abs() < 1e-6 * exact.l1.max(1e-3), "{case}: L1");
                // S = A1 A2 / (B1 B2) of values around 1 with differences of squares: a few 1e-7 over C2 at worst.
                let ssim_error = loss.ssim.map_or(0.0, |ssim| (ssim - exact.ssim).abs());
                assert!(ssim_error < 2e-6, "{case}: SSIM is off by {ssim_error:e}");
                assert!((loss.loss - exact.loss).abs() < 2e-6, "{case}: loss {} {}", loss.loss, exact.loss);
                let error = relative_error(&gradient.to_interleaved(), &exact.gradient);
                // The tolerance of the fixtures for single precision is 2e-4.
                assert!(error < 3e-5, "{case}: gradient is off by {error:e}");
            }
        }
    }
}

#[test]
fn the_loss_of_a_panorama_is_the_defined_one_on_any_threads_and_vector_level() {
    let latitude = LatitudeWeights { equator: 70.5, rows_per_radian: 141.0 / std::f32::consts::PI };
    assert!(latitude.weight(0) < 0.02 && latitude.weight(70) > 0.9999);
    for kind in KINDS {
        let target = target(67, 141, kind);
        let x: Vec<f64> = render(&target).to_interleaved().into_iter().map(f64::from).collect();
        let y: Vec<f64> = composited_truth(&target, BACKGROUND).into_iter().map(f64::from).collect();
        let pair = ReferencePair { width: 67, height: 141, x: &x, y: &y, mask: target.mask.as_deref() };
        for w in [0.0, 0.2] {
            let exact = pair.weighted_loss(f64::from(w), |row| f64::from(latitude.weight(row)));
            let options = LossOptions { dssim_weight: w, background: BACKGROUND, latitude: Some(latitude) };
            let loss_of = |level, threads| {
                let (mut kernel, mut gradient) = (LossKernel::new(level), Planes::default());
                let (pool, truth) = (Pool::new(threads), GroundTruth::Bytes(&target));
                let loss = kernel.run(&pool, &render(&target), truth, &options, &mut gradient).unwrap();
                (loss, gradient)
            };
            let (loss, gradient) = loss_of(best(), 2);
            assert!((loss.loss - exact.loss).abs() < 2e-6, "{kind:?}: {} {}", loss.loss, exact.loss);
            let error = relative_error(&gradient.to_interleaved(), &exact.gradient);
            assert!(error < 3e-5, "{kind:?} weight {w}: gradient is off by {error:e}");
            for level in SimdLevel::ALL.into_iter().filter_map(dispatch_level) {
                let other = loss_of(level, 3);
                assert_eq!((loss_bits(loss), bits(&gradient)), (loss_bits(other.0), bits(&other.1)));
            }
        }
    }
}

#[test]
fn the_gradient_is_zero_in_the_padding_and_under_the_mask() {
    let target = target(37, 23, Kind::Masked);
    for w in [0.0, 0.2] {
        let (_, gradient) = run(&mut LossKernel::new(best()), &Pool::new(1), &target, w);
        let mask = target.mask.as_ref().unwrap();
        for y in 0..gradient.rows() {
            for channel in 0..3 {
                for (x, g) in gradient.line(y, channel).iter().enumerate() {
                    if x >= 37 || y >= 23 || mask[y * 37 + x] == 0 {
                        assert_eq!(g.to_bits() << 1, 0, "pixel ({x}, {y})");
                    } else {
                        assert!(g.is_finite());
                    }
                }
            }
        }
    }
}

#[test]
fn threads_vector_levels_and_used_buffers_do_not_change_a_bit() {
    for (width, height) in [(37, 23), (67, 141)] {
        for kind in [Kind::Transparent, Kind::Masked] {
            let target = target(width, height, kind);
            for w in [0.0, 0.2] {
                let (loss, gradient) = run(&mut LossKernel::new(best()), &Pool::new(1), &target, w);
                let mut used = LossKernel::new(best());
                for (width, height) in [(200, 60), (20, 90)] {
                    run(&mut used, &Pool::new(2), &self::target(width, height, Kind::Masked), 0.2);
                }
                let again = run(&mut used, &Pool::new(2), &target, w);
                assert_eq!((loss_bits(loss), bits(&gradient)), (loss_bits(again.0), bits(&again.1)));
                for wanted in SimdLevel::ALL {
                    let Some(level) = dispatch_level(wanted) else { continue };
                    for threads in [1, 2, 3, 7] {
                        let other = run(&mut LossKernel::new(level), &Pool::new(threads), &target, w);
                        assert_eq!(
                            loss_bits(loss),
                            loss_bits(other.0),
                            "{} {threads} threads",
                            wanted.level_name()
                        );
                        assert!(
                            bits(&gradient) == bits(&other.1),
                            "{} {threads} threads",
                            wanted.level_name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_ssim_map_holds_the_values_whose_mean_is_the_ssim() {
    let target = target(67, 141, Kind::Masked);
    let (mut kernel, pool, mut map) = (LossKernel::new(best()), Pool::new(2), Planes::default());
    let ssim =
        kernel.ssim(&pool, &render(&target), GroundTruth::Bytes(&target), BACKGROUND, &mut map).unwrap();
    let (loss, _) = run(&mut kernel, &pool, &target, 0.2);
    assert_eq!(loss.ssim, Some(ssim));
    let sum: f64 = map.as_slice().iter().map(|&s| f64::from(s)).sum();
    // Sums of up to 5 vectors in f32 before f64.
    assert!((sum / (3.0 * loss.valid_pixels as f64) - ssim).abs() < 1e-7);
    for wanted in SimdLevel::ALL {
        let Some(level) = dispatch_level(wanted) else { continue };
        let mut other = Planes::default();
        LossKernel::new(level)
            .ssim(&Pool::new(3), &render(&target), GroundTruth::Bytes(&target), BACKGROUND, &mut other)
            .unwrap();
        assert!(bits(&map) == bits(&other), "{}", wanted.level_name());
    }
}

#[test]
fn what_a_masked_pixel_shows_does_not_matter_and_nothing_else_hides_a_nan() {
    let target = target(37, 23, Kind::Masked);
    let mask = target.mask.as_ref().unwrap();
    let options = LossOptions { dssim_weight: 0.2, background: BACKGROUND, latitude: None };
    let (mut kernel, pool, mut gradient) = (LossKernel::new(best()), Pool::new(1), Planes::default());
    let clean = run(&mut kernel, &pool, &target, 0.2);

    let mut hidden = render(&target);
    for pixel in (0..mask.len()).filter(|&pixel| mask[pixel] == 0) {
        hidden.line_mut(pixel / 37, 1)[pixel % 37] = f32::NAN;
    }
    let loss = kernel.run(&pool, &hidden, GroundTruth::Bytes(&target), &options, &mut gradient).unwrap();
    assert_eq!((loss, bits(&gradient)), (clean.0, bits(&clean.1)));

    let seen = (0..mask.len()).find(|&pixel| mask[pixel] != 0).unwrap();
    hidden.line_mut(seen / 37, 1)[seen % 37] = f32::NAN;
    for dssim_weight in [0.0, 0.2, 1.0] {
        let options = LossOptions { dssim_weight, ..options };
        let loss = kernel.run(&pool, &hidden, GroundTruth::Bytes(&target), &options, &mut gradient).unwrap();
        assert!(loss.loss.is_nan());
    }
}

#[test]
fn a_truth_without_a_valid_pixel_gives_no_loss_and_no_gradient() {
    let mut target = target(20, 10, Kind::Opaque);
    target.mask = Some(vec![0; 200]);
    let (loss, gradient) = run(&mut LossKernel::new(best()), &Pool::new(1), &target, 0.2);
    assert_eq!(loss, LossValue { loss: 0.0, l1: 0.0, ssim: None, valid_pixels: 0 });
    assert!(gradient.as_slice().iter().all(|&g| g == 0.0));
}

#[test]
fn bright_flat_pictures_keep_a_finite_loss() {
    // Variances of values around 1000 cancel to rounding errors far above C2.
    let bright = Planes::from_interleaved(40, 30, &[1000.3; 3600]);
    let target = target(40, 30, Kind::Opaque);
    let options = LossOptions { dssim_weight: 0.2, background: BACKGROUND, latitude: None };
    let mut gradient = Planes::default();
    let loss = LossKernel::new(best())
        .run(&Pool::new(1), &bright, GroundTruth::Bytes(&target), &options, &mut gradient)
        .unwrap();
    assert!(loss.loss.is_finite());
    assert!(gradient.as_slice().iter().all(|g| g.is_finite()));
}

#[test]
fn pictures_of_different_sizes_are_refused() {
    let options = LossOptions { dssim_weight: 0.2, background: BACKGROUND, latitude: None };
    let err = LossKernel::new(best())
        .run(
            &Pool::new(1),
            &Planes::new(8, 9),
            GroundTruth::Bytes(&target(9, 8, Kind::Opaque)),
            &options,
            &mut Planes::default(),
        )
        .unwrap_err();
    assert_eq!(err.to_string(), "the truth is 9x8 px (expected 8x9, the size of the render)");
}
