//! Pictures of the fixtures: what the definition of the renderer says, within its tolerances for single precision.
//!
//! Gradients of the fixtures are with respect to losses that no training step has (of alpha and depth, of backgrounds); those
//! of a step are held against the processor, which passes all fixtures.

use gausset_core::engine::Outputs;
use gausset_testkit::{Fixtures, Kind, Precision, Tensor, compare};

use crate::gpu::{engine, gpu};

#[test]
fn pictures_of_the_fixtures_are_reproduced() {
    let Some(gpu) = gpu("pictures_of_the_fixtures_are_reproduced") else { return };
    let fixtures = Fixtures::load();
    let mut engine = engine(&gpu);
    let mut failures = Vec::new();
    let mut compared = 0;
    for case in fixtures.of_kind(Kind::Raster).chain(fixtures.of_kind(Kind::RasterLoss)) {
        engine.load_splats(case.splats(), Vec::new()).expect("splats");
        for &cap in &case.settings.caps {
            let options = case.render_options(cap);
            let picture =
                engine.render(&case.camera(), &case.pose(), &options, Outputs::All).expect("a picture");
            let (h, w) = (picture.height as usize, picture.width as usize);
            let expected: Vec<f32> =
                picture.depth.iter().zip(&picture.alpha).map(|(d, a)| d / a.max(1e-10)).collect();
            let infix = if cap == 0 { String::new() } else { format!("cap{cap}.") };
            let tensors = [
                ("image", Tensor::new(&[h, w, 3], &picture.color)),
                ("alpha", Tensor::new(&[h, w], &picture.alpha)),
                ("depth", Tensor::new(&[h, w], &picture.depth)),
                ("depth_expected", Tensor::new(&[h, w], &expected)),
                ("count", Tensor::new(&[h, w], &picture.count)),
            ];
            for (name, tensor) in tensors {
                let comparison = compare(case, &format!("out.{infix}{name}"), &tensor, Precision::F32);
                compared += 1;
                if !comparison.passed {
                    failures.push(comparison.to_string());
                }
            }
        }
    }
    assert!(compared > 50 && failures.is_empty(), "{compared} compared:\n{}", failures.join("\n"));
}
