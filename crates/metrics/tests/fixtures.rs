//! Tests of the loss fixtures: the cases of kind `ssim`, and the loss of the `raster_loss` cases.

use fearless_simd::Level;
use gausset_compute::Pool;
use gausset_metrics::quality::{mse, psnr};
use gausset_metrics::reference::ReferencePair;
use gausset_metrics::{GroundTruth, LossKernel, LossOptions, LossValue, Planes};
use gausset_testkit::{
    Backend, Case, CaseKind, Fixtures, Outputs, Precision, Tensor, check_backend, compare,
};

/// The f64 definition.
struct Reference;

impl Backend for Reference {
    fn precision(&self) -> Precision {
        Precision::F64
    }

    fn kinds(&self) -> &[CaseKind] {
        &[CaseKind::Ssim]
    }

    fn outputs(&self, case: &Case) -> Outputs {
        let (x, y) = (&case.tensor("in.x").values, &case.tensor("in.y").values);
        let pair = pair(case, x, y);
        let loss = pair.loss(0.2);
        let shape = &case.tensor("in.x").shape;
        [
            ("out.ssim", Tensor::scalar(loss.ssim)),
            ("out.ssim_map", Tensor::new(shape, &pair.ssim_map())),
            ("out.l1", Tensor::scalar(loss.l1)),
            ("out.mse", Tensor::scalar(pair.mse())),
            ("out.psnr", Tensor::scalar(pair.psnr())),
            ("out.loss", Tensor::scalar(loss.loss)),
            ("grad.ssim_x", Tensor::new(shape, &pair.ssim_gradient())),
            ("grad.loss_x", Tensor::new(shape, &loss.gradient)),
        ]
        .map(|(name, tensor)| (name.to_owned(), tensor))
        .into()
    }
}

/// The f32 kernels.
struct Kernels;

impl Backend for Kernels {
    fn precision(&self) -> Precision {
        Precision::F32
    }

    fn kinds(&self) -> &[CaseKind] {
        &[CaseKind::Ssim]
    }

    fn outputs(&self, case: &Case) -> Outputs {
        let (x, y) = (planes(case, "in.x"), planes(case, "in.y"));
        let (loss, gradient) = run(&x, &y, 0.2);
        let (_, minus_ssim_gradient) = run(&x, &y, 1.0);
        let ssim_gradient: Vec<f32> = minus_ssim_gradient.to_interleaved().iter().map(|g| -g).collect();
        let mut map = Planes::default();
        let ssim = LossKernel::new(Level::new())
            .ssim(&Pool::new(2), &x, GroundTruth::Planes(&y), [0.0; 3], &mut map)
            .expect("images have the same size");
        let shape = &case.tensor("in.x").shape;
        [
            ("out.ssim", Tensor::scalar(ssim)),
            ("out.ssim_map", Tensor::new(shape, &map.to_interleaved())),
            ("out.l1", Tensor::scalar(loss.l1)),
            ("out.loss", Tensor::scalar(loss.loss)),
            ("out.mse", Tensor::scalar(mse(&x.to_interleaved(), &y.to_interleaved(), None))),
            ("out.psnr", Tensor::scalar(psnr(&x.to_interleaved(), &y.to_interleaved(), None))),
            ("grad.ssim_x", Tensor::new(shape, &ssim_gradient)),
            ("grad.loss_x", Tensor::new(shape, &gradient.to_interleaved())),
        ]
        .map(|(name, tensor)| (name.to_owned(), tensor))
        .into()
    }
}

fn pair<'a>(case: &Case, x: &'a [f64], y: &'a [f64]) -> ReferencePair<'a> {
    ReferencePair {
        width: case.settings.width as usize,
        height: case.settings.height as usize,
        x,
        y,
        mask: None,
    }
}

fn planes(case: &Case, name: &str) -> Planes {
    Planes::from_interleaved(case.settings.width, case.settings.height, &case.tensor(name).to_f32())
}

fn run(x: &Planes, y: &Planes, dssim_weight: f32) -> (LossValue, Planes) {
    let mut gradient = Planes::default();
    let loss = LossKernel::new(Level::new())
        .run(
            &Pool::new(2),
            x,
            GroundTruth::Planes(y),
            &LossOptions { dssim_weight, background: [0.0; 3], latitude: None },
            &mut gradient,
        )
        .expect("images have the same size");
    (loss, gradient)
}

#[test]
fn the_reference_reproduces_every_tensor_of_the_ssim_cases() {
    check_backend(&Fixtures::load(), &Reference).assert_passed();
}

#[test]
fn the_kernels_reproduce_every_tensor_of_the_ssim_cases() {
    check_backend(&Fixtures::load(), &Kernels).assert_passed();
}

#[test]
fn both_reproduce_the_loss_of_rendered_pictures() {
    let fixtures = Fixtures::load();
    let cases: Vec<&Case> = fixtures.with_kind(CaseKind::RasterLoss).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let shape = &case.tensor("out.image").shape;
        let (x, y) = (&case.tensor("out.image").values, &case.tensor("in.target").values);
        let exact = pair(case, x, y).loss(0.2);
        let (fast, gradient) = run(&planes(case, "out.image"), &planes(case, "in.target"), 0.2);
        for (precision, loss, gradient) in [
            (Precision::F64, exact.loss, Tensor::new(shape, &exact.gradient)),
            (Precision::F32, fast.loss, Tensor::new(shape, &gradient.to_interleaved())),
        ] {
            for (name, tensor) in [("out.loss", Tensor::scalar(loss)), ("out.grad_image", gradient)] {
                let comparison = compare(case, name, &tensor, precision);
                assert!(comparison.passed, "{comparison}");
            }
        }
    }
}
