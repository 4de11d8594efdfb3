//! Creates the record and the description of a unit (a render or a step) from the arguments of the trait.

use gausset_core::constants::JACOBIAN_CLAMP_MARGIN;
use gausset_core::engine::{
    AdamMode, CorrectionKind, EngineError, GradientStatistic, Outputs, RenderOptions, StepParams, TrainView,
};
use gausset_core::{Camera, Pose, TargetImage};

use crate::corrections::{CorrectionLayout, NO_ROW, rates};
use crate::layout::sh_blocks;
use crate::record::{Job, flag};
use crate::schedule::{Unit, UnitKind};

/// The properties of the state that a unit depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateInfo<'a> {
    /// Stored SH degree.
    pub(crate) sh_degree: u8,
    /// Corrections.
    pub(crate) groups: &'a CorrectionLayout,
    /// Number of dense updates so far.
    pub(crate) group_clock: u64,
}

/// The factors that convert a step's status to its loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LossScale {
    /// Number of values in the loss: valid pixels times three.
    values: u64,
    /// Weight of D-SSIM.
    weight: f64,
}

impl LossScale {
    /// The loss from the sums of |x - y| and of S.
    pub(crate) fn loss(&self, absolute: f32, ssim: f32) -> f64 {
        if self.values == 0 {
            return 0.0;
        }
        let (w, n) = (self.weight, self.values as f64);
        let l1 = f64::from(absolute) / n;
        let dssim = if w == 0.0 { 0.0 } else { 1.0 - f64::from(ssim) / n };
        (1.0 - w) * l1 + w * dssim
    }
}

/// Bias corrections of the update number `clock`, from 1, in f64.
pub(crate) fn bias_corrections(clock: u64) -> [f32; 2] {
    use gausset_core::constants::{ADAM_BETA1, ADAM_BETA2};
    let t = clock.max(1) as f64;
    [ADAM_BETA1, ADAM_BETA2].map(|beta| (1.0 / (1.0 - libm::pow(beta, t))) as f32)
}

/// A pose as rows, with the translation as fourth column.
pub(crate) fn rows(pose: &Pose) -> [[f32; 4]; 3] {
    let (r, t) = (&pose.rotation, &pose.translation);
    std::array::from_fn(|i| [r[i][0], r[i][1], r[i][2], t[i]].map(|v| v as f32))
}

/// Returns an error for a camera whose projection the kernels do not support.
pub(crate) fn check_projection(camera: &Camera) -> Result<(), EngineError> {
    if camera.is_pinhole() {
        return Ok(());
    }
    let name = camera.projection.name();
    let what = format!(
        "the GPU does not render the {name} projection (expected a pinhole: ⟨device = cpu⟩, or for training ⟨panoramas = cube⟩)"
    );
    Err(EngineError::InvalidInput(what))
}

/// The record of a render; everything is derived in f64 and rounded once.
pub(crate) fn render_job(
    held: &StateInfo<'_>,
    camera: &Camera,
    pose: &Pose,
    options: &RenderOptions,
) -> Result<Job, EngineError> {
    let margin = f64::from(JACOBIAN_CLAMP_MARGIN);
    let ratio = |focal: f64, centre: f64, side: u32| {
        let side = f64::from(side);
        let extra = margin * 0.5 * side / focal;
        [(-(centre / focal + extra)) as f32, ((side - centre) / focal + extra) as f32]
    };
    let [base_0, base_1, base_2] = rows(pose);
    let [x, y, z] = pose.centre().map(|v| v as f32);
    let [xl, xh] = ratio(camera.fx, camera.cx, camera.width);
    let [yl, yh] = ratio(camera.fy, camera.cy, camera.height);
    let [tiles_x, tiles_y] = camera.tiles();
    let [red, green, blue] = options.background;
    Ok(Job {
        base_0,
        base_1,
        base_2,
        base_origin: [x, y, z, options.near_plane as f32],
        lens: [camera.fx, camera.fy, camera.cx, camera.cy].map(|v| v as f32),
        ratio: [xl, xh, yl, yh],
        background: [red, green, blue, 0.0],
        gain_row: NO_ROW,
        vignetting_row: NO_ROW,
        pose_row: NO_ROW,
        sky_row: held.groups.row(CorrectionKind::Sky, options.sky.then_some(0))?,
        only_first: options.splat_limit.unwrap_or(u32::MAX),
        width: camera.width,
        height: camera.height,
        tiles_x,
        tiles: tiles_x * tiles_y,
        sh_degree: u32::from(options.sh_degree.min(held.sh_degree)),
        flags: if options.antialiased { flag::ANTIALIASED } else { 0 },
        cap: options.max_splats_per_tile,
        ..Job::default()
    })
}

/// The unit of a render.
pub(crate) fn render_unit(job: &Job, outputs: Outputs) -> Unit {
    Unit {
        tiles: u64::from(job.tiles),
        capped: job.cap > 0,
        kind: UnitKind::Render { extras: outputs == Outputs::All },
    }
}

/// The record of a step, its unit, and the scale of its loss.
pub(crate) fn step(
    held: &StateInfo<'_>,
    view: &TrainView,
    params: &StepParams,
) -> Result<(Job, Unit, LossScale), EngineError> {
    let camera = &view.camera;
    if (view.target.width, view.target.height) != (camera.width, camera.height) {
        return Err(EngineError::InvalidInput(format!(
            "view `{}`: image is {}x{} px (expected {}x{}, the size of its camera)",
            view.name, view.target.width, view.target.height, camera.width, camera.height
        )));
    }
    let mut job = render_job(held, camera, &view.pose, &params.render)?;
    [job.gain_row, job.vignetting_row] = held.groups.colour_rows(view)?;
    job.pose_row = held.groups.row(CorrectionKind::Pose, view.pose_row)?;
    job.gain_rates = rates(job.gain_row, params.exposure);
    job.vignetting_rates = rates(job.vignetting_row, params.vignetting);
    job.pose_rates = rates(job.pose_row, params.pose);
    job.sky_rates = rates(job.sky_row, params.sky);
    (job.gain_values, job.gain_rows) = held.groups.gain_rows(CorrectionKind::Gain);
    if let Some(camera_from_rig) = &view.camera_from_rig {
        [job.rig_0, job.rig_1, job.rig_2] = rows(camera_from_rig);
        job.flags |= flag::RIG;
    }
    job.downscale = view.downscale as f32;
    let scale = set_loss(&mut job, &view.target, params);
    set_update(&mut job, held, params);
    let rows_move = [job.gain_rates, job.vignetting_rates, job.pose_rates, job.sky_rates];
    let unit = Unit {
        tiles: u64::from(job.tiles),
        capped: job.cap > 0,
        kind: UnitKind::Step {
            sh_blocks: sh_blocks(job.sh_degree as u8),
            absolute: params.statistic == GradientStatistic::Absolute,
            sky: job.sky_rates[3] != 0.0,
            rows: rows_move.iter().any(|rates| rates[3] != 0.0),
        },
    };
    Ok((job, unit, scale))
}

fn set_loss(job: &mut Job, target: &TargetImage, params: &StepParams) -> LossScale {
    let weight = f64::from(params.dssim_weight);
    let values = 3 * target.valid_pixels() as u64;
    if values > 0 {
        job.l1_factor = ((1.0 - weight) / values as f64) as f32;
        job.ssim_factor = (-weight / values as f64) as f32;
    }
    if weight != 0.0 && values > 0 {
        job.flags |= flag::SSIM;
    }
    if target.mask.is_some() {
        job.flags |= flag::MASK;
    }
    if target.alpha.is_some() {
        job.flags |= flag::COVERAGE;
    }
    let [w, h] = [job.width as f32, job.height as f32];
    job.vignetting_scale = 4.0 / (w * w + h * h).max(1.0);
    LossScale { values, weight }
}

fn set_update(job: &mut Job, held: &StateInfo<'_>, params: &StepParams) {
    let mut set = |condition: bool, bit: u32| {
        if condition {
            job.flags |= bit;
        }
    };
    set(params.adam == AdamMode::Sparse, flag::SPARSE);
    set(params.statistic == GradientStatistic::Signed, flag::SIGNED);
    set(params.statistic == GradientStatistic::Absolute, flag::ABSOLUTE);
    set(params.noise.is_some(), flag::NOISE);
    set(job.pose_rates[3] != 0.0, flag::POSE);
    if let Some(noise) = params.noise {
        (job.noise_scale, job.noise_fade) = (noise.scale, noise.fade_opacity);
    }
    job.inverse_contraction = 1.0 / params.contraction_radius;
    job.dropout_limit = (params.dropout * 65_536.0) as u32;
    (job.seed_low, job.seed_high) = (params.seed as u32, (params.seed >> 32) as u32);
    (job.step_low, job.step_high) = (params.step as u32, (params.step >> 32) as u32);
    let rates = &params.rates;
    (job.rate_means, job.rate_log_scales, job.rate_quats) = (rates.means, rates.log_scales, rates.quats);
    (job.rate_opacities, job.rate_sh_dc, job.rate_sh_rest) =
        (rates.opacity_logits, rates.sh_dc, rates.sh_rest);
    [job.dense_first, job.dense_second] = bias_corrections(held.group_clock + 1);
    // The device divides them by the number of splats.
    (job.opacity_pull, job.scale_pull) = (params.opacity_regularisation, params.scale_regularisation);
}

/// Bytes of the words of an image.
pub(crate) fn image_bytes(target: &TargetImage) -> u64 {
    let pixels = u64::from(target.width) * u64::from(target.height);
    4 * (pixels + target.mask.as_ref().map_or(0, |_| pixels.div_ceil(32)))
}

/// Appends an image as words: RGBA bytes, then its mask as bits, if it has one.
pub(crate) fn image_words(target: &TargetImage, words: &mut Vec<u32>) {
    let pixels = target.width as usize * target.height as usize;
    let first = words.len();
    let alpha = |i: usize| target.alpha.as_ref().map_or(255, |alpha| alpha[i]);
    let word = |(i, rgb): (usize, &[u8; 3])| u32::from_le_bytes([rgb[0], rgb[1], rgb[2], alpha(i)]);
    words.extend(target.rgb.as_chunks().0.iter().enumerate().map(word));
    words.resize(first + pixels, 0);
    if let Some(mask) = &target.mask {
        let bits = |part: &[u8]| {
            part.iter().enumerate().fold(0, |bits, (i, &keep)| bits | u32::from(keep != 0) << i)
        };
        words.extend(mask.chunks(32).map(bits));
    }
}
