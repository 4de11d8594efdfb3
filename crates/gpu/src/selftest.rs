//! A training step on a small scene, compared with stored results: whether a device computes correctly.
//!
//! The results are those of the CPU engine, with which a test compares them.

use gausset_compute::rng::philox;
use gausset_core::engine::{
    Engine, EngineError, GradientStatistic, LearningRates, Outputs, RenderOptions, StepParams, TrainState,
    TrainView,
};
use gausset_core::{Camera, Pose, Splats, TargetImage};

use crate::device::Gpu;
use crate::engine::{GpuEngine, GpuOptions};

const SPLATS: usize = 300;
const WIDTH: u32 = 70;
const HEIGHT: u32 = 45;
/// A stream of random numbers that is not used elsewhere.
const STREAM: u32 = 0x5e1f;

/// The compared values: means of colour, alpha, depth and count of a render; loss, visible splats; means of the
/// absolute first moments of means, log scales, quaternions, logits and SH coefficients after a step.
pub const RESULTS: [&str; 11] = [
    "colour",
    "alpha",
    "depth",
    "count",
    "loss",
    "visible",
    "means",
    "log scales",
    "quaternions",
    "logits",
    "SH",
];

/// The expected values.
const EXPECTED: [f64; 11] = [
    0.622597,
    0.954437,
    2.49189,
    24.1584,
    0.394032,
    290.0,
    6.522251e-05,
    1.734779e-05,
    1.469884e-05,
    9.933127e-06,
    1.811833e-05,
];

/// Relative tolerance of a result.
const TOLERANCE: f64 = 2e-4;

/// Uniform in 0..1, by splat and index.
fn random(splat: usize, number: usize) -> f32 {
    let words = philox(7, STREAM, (number / 4) as u64, splat as u32);
    (words[number % 4] >> 8) as f32 / 16_777_216.0
}

/// Splats in front of a camera, with `growth` added to the logarithms of their sizes, and a view of this size.
pub(crate) fn scene(
    count: usize,
    [width, height]: [u32; 2],
    growth: f32,
) -> Result<(TrainState, TrainView), EngineError> {
    let mut splats = Splats::zeros(2, count);
    let stride = splats.sh_stride();
    for i in 0..count {
        let of = |number: usize, low: f32, high: f32| low + (high - low) * random(i, number);
        splats.means[i] = [of(0, -1.6, 1.6), of(1, -1.1, 1.1), of(2, 2.0, 5.0)];
        splats.log_scales[i] = [3, 4, 5].map(|number| of(number, -3.0, -1.2) + growth);
        splats.quats[i] = [of(6, -1.0, 1.0), of(7, -1.0, 1.0), of(8, -1.0, 1.0), of(9, 0.2, 1.0)];
        splats.opacity_logits[i] = of(10, -2.0, 3.0);
        for k in 0..stride {
            splats.sh[i * stride + k] = of(11 + k, -0.4, 0.6);
        }
    }
    let [w, h] = [width, height].map(f64::from);
    let camera = Camera::new(width, height, 1.1 * w, 1.1 * w, 0.5 * w, 0.5 * h);
    let camera = camera.map_err(|err| EngineError::InvalidInput(err.to_string()))?;
    let pixels = || (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let rgb = pixels().flat_map(|(x, y)| [(3 * x) as u8, (5 * y) as u8, (x * y % 200) as u8]).collect();
    let mask = pixels().map(|(x, y)| u8::from((x / 5 + y / 7) % 4 != 0)).collect();
    let target = TargetImage { width, height, rgb, alpha: None, mask: Some(mask) };
    let view = TrainView {
        index: 0,
        downscale: 1,
        name: "self-test".into(),
        camera,
        pose: Pose { rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], translation: [0.0; 3] },
        target: target.into(),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    };
    Ok((TrainState::new(splats, Vec::new()), view))
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v.abs())).sum::<f64>() / values.len().max(1) as f64
}

/// The results of an engine.
///
/// # Errors
/// Those of the engine.
pub fn results(engine: &mut dyn Engine) -> Result<[f64; 11], EngineError> {
    let (state, view) = scene(SPLATS, [WIDTH, HEIGHT], 0.0)?;
    engine.load(state)?;
    let options = RenderOptions { background: [0.2, 0.5, 0.3], sh_degree: 2, ..RenderOptions::default() };
    let picture = engine.render(&view.camera, &view.pose, &options, Outputs::All)?;
    let counts: Vec<f32> = picture.count.iter().map(|&n| n as f32).collect();
    let rates = LearningRates {
        means: 1e-3,
        log_scales: 1e-3,
        quats: 1e-3,
        opacity_logits: 1e-2,
        sh_dc: 1e-3,
        sh_rest: 1e-4,
    };
    let mut params = StepParams::new(1, 3, options, rates);
    params.statistic = GradientStatistic::Signed;
    engine.step(&[view], &[], &params)?;
    let report = engine.flush()?;
    let m = engine.save()?.moments.m;
    Ok([
        mean(&picture.color),
        mean(&picture.alpha),
        mean(&picture.depth),
        mean(&counts),
        report.last_loss,
        report.visible as f64,
        mean(m.means.as_flattened()),
        mean(m.log_scales.as_flattened()),
        mean(m.quats.as_flattened()),
        mean(&m.opacity_logits),
        mean(&m.sh),
    ])
}

/// Describes the first result that differs from its expected value; `None` if there is none.
#[must_use]
pub fn difference(found: &[f64; 11]) -> Option<String> {
    let is_right = |found: f64, expected: f64| (found - expected).abs() <= TOLERANCE * expected;
    let pairs = RESULTS.iter().zip(found.iter().zip(&EXPECTED));
    let mut wrong = pairs.filter(|&(_, (&found, &expected))| !is_right(found, expected));
    wrong.next().map(|(what, (found, expected))| format!("{what}: {found} (expected {expected})"))
}

impl Gpu {
    /// Checks that the device computes correctly.
    ///
    /// # Errors
    /// Returns an error if the device fails or computes wrong results.
    pub fn self_test(&self) -> Result<(), EngineError> {
        let mut engine = GpuEngine::new(self, GpuOptions { threads: 1, ..GpuOptions::default() });
        match difference(&results(&mut engine)?) {
            None => Ok(()),
            Some(what) => {
                let name = &self.info().name;
                Err(EngineError::DeviceFailed(format!(
                    "{name}: self-test: {what}; its driver computes wrong results"
                )))
            }
        }
    }
}
