//! The fixtures, by the kernels of a training step: the host writes upstream gradients of colours, alpha and depth in
//! place of those of a loss. Two kernel variants that no training step uses take the latter two. `units` has the cases
//! of single formulas.
//!
//! Gradients of parameters and of the pose's twist are read as first moments after one step from zero, a tenth of them.

use gausset_core::TargetImage;
use gausset_core::constants::ADAM_BETA1;
use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, CorrectionRates, Engine, EngineError, GradientStatistic, LearningRates,
    Outputs as Pictures, RenderOptions, StepParams, TrainState, TrainView,
};
use gausset_reference::loss;
use gausset_testkit::{
    Backend, Case, CaseKind, Fixtures, Outputs, Precision, RasterGradients, RasterResult, check_backend,
    skip_for_machine,
};

use crate::device::Gpu;
use crate::engine::{GpuEngine, GpuOptions};
use crate::layout::{Buffer, Capacities, sh_blocks};
use crate::record::{BIAS_CLOCKS, Job, SUMS_STRIDE, flag};
use crate::schedule::{Unit, UnitKind};
use crate::test_device::gpu;
use crate::unit;

mod units;

struct OnTheGpu(Gpu);

/// Upstream gradients of a render.
struct Upstream {
    /// `[H, W, 3]`.
    colour: Vec<f32>,
    /// For each pixel: `dL/dalpha`, `dL/ddepth`, and `alpha dL/dalpha + depth dL/ddepth`.
    extras: Vec<[f32; 4]>,
}

impl Backend for OnTheGpu {
    fn precision(&self) -> Precision {
        Precision::F32
    }

    fn kinds(&self) -> &[CaseKind] {
        &[
            CaseKind::Raster,
            CaseKind::RasterLoss,
            CaseKind::Covariance,
            CaseKind::Sh,
            CaseKind::Projection,
            CaseKind::Ssim,
            CaseKind::Adam,
        ]
    }

    fn outputs(&self, case: &Case) -> Outputs {
        match case.kind {
            CaseKind::Raster | CaseKind::RasterLoss => self.raster(case),
            _ => self.unit(case).expect("the device works"),
        }
    }
}

impl OnTheGpu {
    fn raster(&self, case: &Case) -> Outputs {
        let mut outputs = Outputs::new();
        for &cap in &case.settings.caps {
            let result = self.at_cap(case, cap).expect("the device works");
            result.insert_into(&mut outputs, case, cap);
        }
        outputs
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

impl OnTheGpu {
    fn at_cap(&self, case: &Case, cap: u32) -> Result<RasterResult, EngineError> {
        let mut engine = GpuEngine::new(&self.0, GpuOptions { threads: 1, ..GpuOptions::default() });
        engine.load(TrainState::new(case.splats(), vec![CorrectionGroup::new(CorrectionKind::Pose, 1)]))?;
        let (camera, pose, options) = (case.camera(), case.pose(), case.render_options(cap));
        let picture = engine.render(&camera, &pose, &options, Pictures::All)?;
        let (image, alpha, depth) = (wide(&picture.color), wide(&picture.alpha), wide(&picture.depth));
        let (width, height) = (camera.width as usize, camera.height as usize);
        let (value, grad_image, upstream) = if case.kind == CaseKind::RasterLoss {
            let loss = loss::loss(&image, &case.target(), width, height, 0.2);
            let colour = loss.gradient.iter().map(|&g| g as f32).collect();
            let extras = vec![[0.0; 4]; width * height];
            (loss.loss, Some(loss.gradient), Upstream { colour, extras })
        } else {
            let weights = case.linear_loss();
            let extra = |i: usize| {
                let (a, d) = (weights.alpha[i], weights.depth[i]);
                [a, d, a * picture.alpha[i] + d * picture.depth[i], 0.0]
            };
            let extras = (0..width * height).map(extra).collect();
            let loss = weights.value(&image, &alpha, &depth);
            (loss, None, Upstream { colour: weights.image, extras })
        };
        // The first run has the gradients whose storage the absolute sums take in the second.
        let mut gradients = probe(&mut engine, case, cap, &upstream, false)?;
        engine.load(TrainState::new(case.splats(), vec![CorrectionGroup::new(CorrectionKind::Pose, 1)]))?;
        gradients.mean2d_abs = probe(&mut engine, case, cap, &upstream, true)?.mean2d_abs;
        // Each pixel shows the background weighted by its transmittance.
        let shown = picture.alpha.iter().zip(upstream.colour.as_chunks::<3>().0);
        for (alpha, g) in shown {
            for (sum, &g) in gradients.background.iter_mut().zip(g) {
                *sum += (1.0 - f64::from(*alpha)) * f64::from(g);
            }
        }
        Ok(RasterResult {
            image,
            alpha,
            depth,
            count: picture.count,
            loss: value,
            grad_image,
            gradients,
            intermediates: None,
        })
    }
}

fn words(engine: &mut GpuEngine, buffer: Buffer, first: u64, count: usize) -> Result<Vec<u32>, EngineError> {
    let mut words = Vec::with_capacity(count);
    engine.memory.read(buffer, first, count, |_, part| words.extend_from_slice(part))?;
    Ok(words)
}

/// Three planes of four values per splat.
fn planes(engine: &mut GpuEngine, buffer: Buffer, n: usize) -> Result<[Vec<[f32; 4]>; 3], EngineError> {
    let stride = engine.memory.sizes().splats;
    let mut plane = |k: u64| {
        let words = words(engine, buffer, 4 * stride * k, 4 * n)?;
        Ok::<_, EngineError>(words.as_chunks::<4>().0.iter().map(|v| v.map(f32::from_bits)).collect())
    };
    Ok([plane(0)?, plane(1)?, plane(2)?])
}

/// The record of a step that updates nothing, with its unit, for the pose of the state.
fn still(
    engine: &mut GpuEngine,
    case: &Case,
    options: RenderOptions,
    statistic: GradientStatistic,
) -> Result<(Job, Unit), EngineError> {
    let (camera, pose) = (case.camera(), case.pose());
    let pixels = u64::from(camera.width) * u64::from(camera.height);
    let rgb = vec![0; 3 * pixels as usize];
    let target = TargetImage { width: camera.width, height: camera.height, rgb, alpha: None, mask: None };
    let view = TrainView {
        index: 0,
        downscale: 1,
        name: "case".into(),
        camera,
        pose,
        target: target.into(),
        exposure_row: None,
        vignetting_row: None,
        pose_row: Some(0),
        camera_from_rig: None,
    };
    let still = LearningRates {
        means: 0.0,
        log_scales: 0.0,
        quats: 0.0,
        opacity_logits: 0.0,
        sh_dc: 0.0,
        sh_rest: 0.0,
    };
    let mut params = StepParams::new(0, 0, options, still);
    params.pose = Some(CorrectionRates { first: 0.0, second: 0.0, decay: 0.0 });
    params.statistic = statistic;
    let (mut job, unit, _) = unit::step(&engine.state_info(), &view, &params)?;
    job.flags |= flag::LIFTS;
    Ok((job, unit))
}

/// Runs a step from upstream gradients, and returns its gradients.
fn probe(
    engine: &mut GpuEngine,
    case: &Case,
    cap: u32,
    upstream: &Upstream,
    absolute: bool,
) -> Result<RasterGradients, EngineError> {
    let (camera, n) = (case.camera(), engine.state.splats);
    let pixels = u64::from(camera.width) * u64::from(camera.height);
    let statistic = if absolute { GradientStatistic::Absolute } else { GradientStatistic::Signed };
    let (job, unit) = still(engine, case, case.render_options(cap), statistic)?;
    let sh_blocks = sh_blocks(job.sh_degree as u8);
    let unit = Unit { kind: UnitKind::Probe { sh_blocks, absolute }, ..unit };
    let tiles = u64::from(job.tiles);
    let sizes = Capacities { pixels, training_pixels: pixels, tiles, ..*engine.memory.sizes() };
    engine.memory.ensure_capacity(&|| "a case".to_owned(), &sizes)?;
    let colour: Vec<[u32; 4]> = upstream
        .colour
        .as_chunks::<3>()
        .0
        .iter()
        .map(|&[r, g, b]| [r, g, b, 0.0].map(f32::to_bits))
        .collect();
    engine.memory.write(Buffer::Pixels, 4 * pixels, colour.as_flattened())?;
    let extras: Vec<[u32; 4]> = upstream.extras.iter().map(|v| v.map(f32::to_bits)).collect();
    engine.memory.write(Buffer::Derivatives, 0, extras.as_flattened())?;
    engine.memory.submit(&job, None, None, &unit)?;
    engine.memory.take_status(true)?;

    let boxes = words(engine, Buffer::Boxes, 0, 4 * n)?;
    let [sums_0, _, sums_2] = planes(engine, Buffer::Gradients, n)?;
    let [screen_0, screen_1, _] = planes(engine, Buffer::Screen, n)?;
    let is_visible = |i: usize| boxes[4 * i + 1] != 0;
    let log2_e = std::f64::consts::LOG2_E;
    let mean2d = |i: usize| {
        if !is_visible(i) {
            return [0.0; 2];
        }
        let [_, _, a, b] = screen_0[i].map(f64::from);
        let (a, b, c) = (a / (-0.5 * log2_e), b / -log2_e, f64::from(screen_1[i][0]) / (-0.5 * log2_e));
        let [_, x, y, _] = sums_0[i].map(f64::from);
        [a * x + b * y, b * x + c * y]
    };
    let mean2d_abs = |i: usize| {
        let [_, x, y, _] = sums_2[i].map(|v| f64::from(v) * std::f64::consts::LN_2);
        if is_visible(i) { [x, y] } else { [0.0; 2] }
    };
    let (mean2d, mean2d_abs) = ((0..n).map(mean2d).collect(), (0..n).map(mean2d_abs).collect());

    Ok(RasterGradients { mean2d, mean2d_abs, ..gradients(engine, case)? })
}

/// Gradients of parameters and pose, from the moments after one step from zero.
fn gradients(engine: &mut GpuEngine, case: &Case) -> Result<RasterGradients, EngineError> {
    let matrix = matrix_gradient(engine, &case.pose(), engine.state.splats)?;
    let state = engine.read_state()?;
    let share = f64::from((1.0 - ADAM_BETA1) as f32);
    let whole = |m: f32| f64::from(m) / share;
    let m = &state.moments.m;
    let pose_row = &state.corrections[0].m;
    Ok(RasterGradients {
        means: m.means.iter().map(|row| row.map(whole)).collect(),
        quats: m.quats.iter().map(|row| row.map(whole)).collect(),
        log_scales: m.log_scales.iter().map(|row| row.map(whole)).collect(),
        opacity_logits: m.opacity_logits.iter().map(|&m| whole(m)).collect(),
        sh: m.sh.iter().map(|&m| whole(m)).collect(),
        background: [0.0; 3],
        viewmat: Some(matrix),
        twist: std::array::from_fn(|k| whole(pose_row[k])),
        mean2d: Vec::new(),
        mean2d_abs: Vec::new(),
    })
}

/// The gradient of `[R | t]` from the sums of all groups of splats, as in `rows.wgsl` before the conversion to the
/// twist.
fn matrix_gradient(
    engine: &mut GpuEngine,
    pose: &gausset_core::Pose,
    n: usize,
) -> Result<[[f64; 4]; 3], EngineError> {
    let stride = SUMS_STRIDE as usize;
    let words = words(engine, Buffer::Sums, 2 * u64::from(BIAS_CLOCKS), stride * n.div_ceil(256))?;
    let sum =
        |k: usize| words.iter().skip(k).step_by(stride).map(|&w| f64::from(f32::from_bits(w))).sum::<f64>();
    // Moving the camera centre, -Rᵀ t, has the same effect on directions as moving the splats in the opposite
    // direction.
    let centre = [12, 13, 14].map(|k| -sum(k));
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    Ok(std::array::from_fn(|i| {
        let (r, t) = (pose.rotation[i], pose.translation[i]);
        let row: [f64; 3] = std::array::from_fn(|j| sum(3 * i + j) - t * centre[j]);
        [row[0], row[1], row[2], sum(9 + i) - dot(r, centre)]
    }))
}

/// Register width in bits, which determines the subgroup size of lavapipe.
const REGISTER_BITS: &str = "LP_NATIVE_VECTOR_WIDTH";

#[test]
fn the_fixtures_are_reproduced() {
    let Some(gpu) = gpu("the_fixtures_are_reproduced") else { return };
    if let Some(bits) = std::env::var(REGISTER_BITS).ok().and_then(|bits| bits.parse::<u32>().ok()) {
        assert_eq!(gpu.subgroup_size(), bits / 32, "threads of a subgroup");
    }
    check_backend(&Fixtures::load(), &OnTheGpu(gpu)).assert_passed();
}

/// Results must not depend on the subgroup size: runs the same test in separate processes, on a software device whose
/// subgroup size can be set.
#[test]
fn subgroups_of_any_size_do_the_same() {
    let test = "subgroups_of_any_size_do_the_same";
    let Some(gpu) = gpu(test) else { return };
    let name = &gpu.info().name;
    if !name.contains("llvmpipe") {
        return skip_for_machine(test, &format!("{name} has subgroups of one size"));
    }
    let program = std::env::current_exe().expect("this program has a path");
    for bits in ["128", "512"] {
        let mut again = std::process::Command::new(&program);
        again.arg("the_fixtures_are_reproduced");
        again.env(REGISTER_BITS, bits).env("MESA_SHADER_CACHE_DISABLE", "true");
        let output = again.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{bits} bits: {said}");
    }
}
