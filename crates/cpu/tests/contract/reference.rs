//! A second engine: the definitions of `gausset_reference` in f64, one splat and one pixel after the other.
//!
//! It supports gains, poses of single cameras and the sky; dense Adam; all density rules except free space. Everything
//! else is refused.

use gausset_compute::Pool;
use gausset_core::engine::{
    AdamMode, CorrectionGroup, CorrectionKind, CorrectionRates, DensityRule, DeviceInfo, Engine, EngineError,
    GradientStatistic, MemoryBytes, MemoryEstimate, Outputs, RenderOptions, Rendering, SceneSize, StepParams,
    StepReport, TrainState, TrainView,
};
use gausset_core::{Camera, Pose, se3, sh};
use gausset_density as density;
use gausset_reference::adam::adam_step;
use gausset_reference::loss::loss;
use gausset_reference::project::sigmoid;
use gausset_reference::project_vjp::sigmoid_derivative;
use gausset_reference::{Gradients, LOW_PASS_VARIANCE, Scene, Upstream, render, vjp};

/// The engine.
#[derive(Default)]
pub(crate) struct ReferenceEngine {
    state: TrainState,
    report: StepReport,
    limit: Option<u64>,
    failed: Option<EngineError>,
}

fn refuse<T>(what: &str) -> Result<T, EngineError> {
    Err(EngineError::InvalidInput(format!("{what}: not supported by the reference engine")))
}

/// Adam in f64 on values that are kept in f32.
fn adam(values: &mut [f32], m: &mut [f32], v: &mut [f32], gradient: &[f64], rate: f32, clock: u64) {
    let [mut x, mut first, mut second] =
        [&*values, &*m, &*v].map(|a| a.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
    adam_step(&mut x, &mut first, &mut second, gradient, f64::from(rate), clock);
    for (to, from) in [(values, x), (m, first), (v, second)] {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from as f32);
    }
}

/// The target composited over a background, in f64.
fn truth(view: &TrainView, background: [f32; 3]) -> Vec<f64> {
    let target = &view.target;
    let value = |(i, &byte): (usize, &u8)| {
        let alpha = target.alpha.as_ref().map_or(1.0, |alpha| f64::from(alpha[i / 3]) / 255.0);
        alpha * f64::from(byte) / 255.0 + (1.0 - alpha) * f64::from(background[i % 3])
    };
    target.rgb.iter().enumerate().map(value).collect()
}

impl ReferenceEngine {
    fn check(&self) -> Result<(), EngineError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn room(&self, camera: &Camera) -> Result<(), EngineError> {
        let splats = &self.state.splats;
        let size = SceneSize {
            splats: splats.len() as u64,
            sh_degree: splats.sh_degree,
            pixels: camera.pixels() as u64,
        };
        let (needed, limit) = (self.memory_needs(&size).host.total(), self.limit.unwrap_or(u64::MAX));
        let what = format!("{}x{} px", camera.width, camera.height);
        if needed > limit { Err(EngineError::OutOfMemory { what, needed, limit }) } else { Ok(()) }
    }

    /// The group and row of a correction that a view or a render uses.
    fn place(&self, group: CorrectionKind, row: Option<u32>) -> Result<Option<(usize, usize)>, EngineError> {
        let Some(row) = row else { return Ok(None) };
        let fits =
            |extra: &CorrectionGroup| extra.group == group && (row as usize) < extra.update_counts.len();
        match self.state.corrections.iter().position(fits) {
            Some(place) => Ok(Some((place, row as usize))),
            None => refuse("a row that is not there"),
        }
    }

    fn row(&self, place: Option<(usize, usize)>) -> Option<Vec<f64>> {
        place.map(|(group, row)| {
            self.state.corrections[group].row(row).iter().map(|&v| f64::from(v)).collect()
        })
    }

    fn scene(&self, camera: &Camera, pose: &Pose, options: &RenderOptions) -> Result<Scene, EngineError> {
        let first: Vec<usize> = (0..self.state.splats.len())
            .take(options.splat_limit.map_or(usize::MAX, |n| n as usize))
            .collect();
        let mut scene = Scene::new(&self.state.splats.select(&first), camera, pose, options);
        let sky = self.row(self.place(CorrectionKind::Sky, options.sky.then_some(0))?);
        scene.sky = sky.map(|sky| std::array::from_fn(|k| [sky[3 * k], sky[3 * k + 1], sky[3 * k + 2]]));
        Ok(scene)
    }

    fn run_step(&mut self, view: &TrainView, params: &StepParams) -> Result<(), EngineError> {
        let camera = &view.camera;
        let fits = (view.target.width, view.target.height) == (camera.width, camera.height);
        let is_plain = params.dropout == 0.0 && params.noise.is_none();
        let has_all =
            view.target.mask.is_none() && view.vignetting_row.is_none() && view.camera_from_rig.is_none();
        if !fits
            || !is_plain
            || !has_all
            || params.adam != AdamMode::Dense
            || params.render.splat_limit.is_some()
        {
            return refuse("such a view or such a step");
        }
        self.room(camera)?;
        let gain_place = self.place(CorrectionKind::Gain, view.exposure_row)?;
        let pose_place = self.place(CorrectionKind::Pose, view.pose_row)?;
        let sky_place = self.place(CorrectionKind::Sky, params.render.sky.then_some(0))?;
        let twist: Option<[f64; 6]> = self.row(pose_place).map(|row| std::array::from_fn(|i| row[i]));
        let pose = twist.map_or(view.pose, |twist| se3::exp(twist).compose(&view.pose));

        let scene = self.scene(camera, &pose, &params.render)?;
        let rendering = render(&scene);
        let factors = self.row(gain_place).map_or([1.0; 3], |row| [0, 1, 2].map(|k| libm::exp(row[k])));
        let seen: Vec<f64> = rendering.color.iter().enumerate().map(|(i, v)| v * factors[i % 3]).collect();
        let [width, height] = [camera.width, camera.height].map(|side| side as usize);
        let behind = [0, 1, 2].map(|k| f64::from(params.render.background[k]) * factors[k]);
        let target = truth(view, behind.map(|colour| colour as f32));
        let found = loss(&seen, &target, width, height, f64::from(params.dssim_weight));
        if !found.loss.is_finite() {
            let (step, view) = (params.step, view.name.to_string());
            return Err(EngineError::NonFiniteLoss { step, view, loss: found.loss });
        }
        let mut upstream = Upstream::zeros(camera);
        let mut gain_gradient = [0.0; 3];
        for (i, gradient) in found.gradient.iter().enumerate() {
            upstream.color[i] = gradient * factors[i % 3];
            gain_gradient[i % 3] += gradient * seen[i];
        }
        let gradients = vjp(&scene, &rendering, &upstream);
        let listed = |splat: usize| rendering.tiles.lists.iter().any(|list| list.contains(&(splat as u32)));
        let visible: Vec<bool> = (0..self.state.splats.len()).map(listed).collect();
        self.count(params, view, &gradients, &visible, &rendering.screen);
        self.update(params, &gradients);

        self.move_row(gain_place, params.exposure, &gain_gradient);
        if let (Some((group, _)), Some(_)) = (gain_place, params.exposure) {
            hold_mean(&mut self.state.corrections[group]);
        }
        self.move_row(sky_place, params.sky, gradients.sky.as_flattened());
        if let Some(twist) = twist {
            self.move_row(pose_place, params.pose, &se3::twist_gradient(twist, gradients.pose.twist(&pose)));
        }
        let report = &mut self.report;
        (report.steps, report.last_step, report.last_loss) =
            (report.steps + 1, Some(params.step), found.loss);
        report.loss_sum += found.loss;
        report.visible = visible.iter().filter(|&&is| is).count() as u64;
        report.intersections = rendering.tiles.lists.iter().map(|list| list.len() as u64).sum();
        report.cap_hits += rendering.tiles.capped_tiles as u64;
        report.capped_steps += u64::from(rendering.tiles.capped_tiles > 0);
        Ok(())
    }

    /// Density statistics of the visible splats.
    fn count(
        &mut self,
        params: &StepParams,
        view: &TrainView,
        gradients: &Gradients,
        visible: &[bool],
        screen: &[Option<gausset_reference::ScreenSplat>],
    ) {
        let half = [view.camera.width, view.camera.height].map(|side| 0.5 * f64::from(side));
        let statistics = &mut self.state.statistics;
        for (i, (gradient, splat)) in gradients.screen.iter().zip(screen).enumerate() {
            let [x, y] = match params.statistic {
                GradientStatistic::Off => return,
                GradientStatistic::Signed => gradient.mean2d,
                GradientStatistic::Absolute => gradient.mean2d_abs,
            };
            let Some(splat) = splat.filter(|_| visible[i]) else { continue };
            statistics.visible_steps[i] += 1;
            statistics.gradient_sum[i] += libm::hypot(x * half[0], y * half[1]) as f32;
            let [a, b, c] = splat.covariance2d;
            let largest = LOW_PASS_VARIANCE + 0.5 * (a + c) + libm::hypot(0.5 * (a - c), b);
            if gradient.color != [0.0; 3] {
                let radius = 3.0 * largest.sqrt() * f64::from(view.downscale);
                statistics.max_radius[i] = statistics.max_radius[i].max(radius as f32);
            }
        }
    }

    /// Regularisation and dense Adam on every splat whose gradient is finite.
    fn update(&mut self, params: &StepParams, gradients: &Gradients) {
        self.state.dense_update_count += 1;
        let (clock, rates, g) = (self.state.dense_update_count, &params.rates, &gradients.splats);
        let n = self.state.splats.len();
        let active = 3 * sh::coefficients(params.render.sh_degree.min(self.state.splats.sh_degree));
        let (s, m, v) = (&mut self.state.splats, &mut self.state.moments.m, &mut self.state.moments.v);
        let stride = s.sh_stride();
        for i in 0..n {
            if !g.is_finite(i) {
                self.report.skipped_updates += 1;
                continue;
            }
            let logit = f64::from(s.opacity_logits[i]);
            let pull = f64::from(params.opacity_regularisation) / n as f64 * sigmoid_derivative(logit);
            debug_assert!((0.0..=1.0).contains(&sigmoid(logit)));
            let scale_pull = f64::from(params.scale_regularisation) / (3 * n) as f64;
            let scales =
                [0, 1, 2].map(|k| g.log_scales[i][k] + scale_pull * libm::exp(f64::from(s.log_scales[i][k])));
            adam(&mut s.means[i], &mut m.means[i], &mut v.means[i], &g.means[i], rates.means, clock);
            adam(
                &mut s.log_scales[i],
                &mut m.log_scales[i],
                &mut v.log_scales[i],
                &scales,
                rates.log_scales,
                clock,
            );
            adam(&mut s.quats[i], &mut m.quats[i], &mut v.quats[i], &g.quats[i], rates.quats, clock);
            let one = i..i + 1;
            let logits = (
                &mut s.opacity_logits[one.clone()],
                &mut m.opacity_logits[one.clone()],
                &mut v.opacity_logits[one],
            );
            adam(logits.0, logits.1, logits.2, &[g.opacity_logits[i] + pull], rates.opacity_logits, clock);
            for (part, rate) in [(0..3, rates.sh_dc), (3..active, rates.sh_rest)] {
                let range = i * stride + part.start..i * stride + part.end;
                adam(
                    &mut s.sh[range.clone()],
                    &mut m.sh[range.clone()],
                    &mut v.sh[range.clone()],
                    &g.sh[range],
                    rate,
                    clock,
                );
            }
        }
    }

    /// Adam on a row of corrections, then decay towards its identity.
    fn move_row(&mut self, place: Option<(usize, usize)>, rates: Option<CorrectionRates>, gradient: &[f64]) {
        let (Some((group, row)), Some(rates)) = (place, rates) else { return };
        let extra = &mut self.state.corrections[group];
        extra.update_counts[row] += 1;
        let (clock, range) = (u64::from(extra.update_counts[row]), extra.row_range(row));
        let split = if extra.group == CorrectionKind::Pose { range.len() / 2 } else { range.len() };
        for (part, rate) in [(0..split, rates.first), (split..range.len(), rates.second)] {
            let at = range.start + part.start..range.start + part.end;
            adam(
                &mut extra.values[at.clone()],
                &mut extra.m[at.clone()],
                &mut extra.v[at],
                &gradient[part],
                rate,
                clock,
            );
        }
        for (value, &identity) in extra.values[range].iter_mut().zip(extra.group.identity()) {
            *value -= rates.decay * (*value - identity);
        }
    }
}

/// Subtracts the mean over all rows from each of them.
fn hold_mean(extra: &mut CorrectionGroup) {
    let (width, rows) = (extra.group.values_per_row(), extra.update_counts.len());
    for k in 0..width {
        let mean = (0..rows).map(|row| f64::from(extra.row(row)[k])).sum::<f64>() / rows as f64;
        extra
            .values
            .iter_mut()
            .skip(k)
            .step_by(width)
            .for_each(|value| *value = (f64::from(*value) - mean) as f32);
    }
}

impl Engine for ReferenceEngine {
    fn describe(&self) -> DeviceInfo {
        let (name, kind) = ("f64 reference".to_owned(), "reference".to_owned());
        DeviceInfo { name, kind, threads: 1, ..DeviceInfo::default() }
    }

    fn memory_needs(&self, scene: &SceneSize) -> MemoryEstimate {
        let host = MemoryBytes {
            state: scene.splats * TrainState::bytes_per_splat(scene.sh_degree),
            working: 2000 * scene.splats + 500 * scene.pixels,
        };
        MemoryEstimate { host, ..MemoryEstimate::default() }
    }

    fn limit_memory(&mut self, bytes: u64) {
        self.limit = Some(bytes);
    }

    fn load(&mut self, state: TrainState) -> Result<(), EngineError> {
        *self = Self { limit: self.limit, ..Self::default() };
        let n = state.splats.len();
        let sets = [&state.splats, &state.moments.m, &state.moments.v];
        let statistics = &state.statistics;
        let lengths = [state.update_counts.len(), state.ids.len(), statistics.gradient_sum.len()];
        let more = [statistics.visible_steps.len(), statistics.max_radius.len()];
        let is_whole = |extra: &CorrectionGroup| {
            let values = extra.update_counts.len() * extra.group.values_per_row();
            [extra.values.len(), extra.m.len(), extra.v.len()] == [values; 3]
        };
        if sets
            .iter()
            .any(|set| set.validate().is_err() || set.len() != n || set.sh_degree != state.splats.sh_degree)
            || lengths.iter().chain(&more).any(|&length| length != n)
            || !state.corrections.iter().all(is_whole)
        {
            return refuse("arrays that do not fit together");
        }
        self.state = state;
        Ok(())
    }

    fn save(&mut self) -> Result<TrainState, EngineError> {
        Ok(self.state.clone())
    }

    fn step(
        &mut self,
        views: &[TrainView],
        _next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError> {
        self.check()?;
        let [view] = views else { return refuse("other than one view") };
        match self.run_step(view, params) {
            Err(error @ EngineError::NonFiniteLoss { .. }) => {
                self.failed = Some(error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError> {
        self.check()?;
        if matches!(rule, DensityRule::FreeSpace(_)) {
            return refuse("clearing free space");
        }
        let outcome = density::apply(&mut self.state, rule, &Pool::new(1));
        let report = &mut self.report;
        report.cloned += outcome.cloned;
        report.split += outcome.split;
        report.pruned += outcome.pruned + outcome.non_finite;
        report.relocated += outcome.relocated;
        report.added += outcome.added;
        Ok(())
    }

    fn flush(&mut self) -> Result<StepReport, EngineError> {
        self.check()?;
        let StepReport { last_step, last_loss, visible, intersections, dead_splats, .. } = self.report;
        let rest =
            StepReport { last_step, last_loss, visible, intersections, dead_splats, ..StepReport::default() };
        let told = std::mem::replace(&mut self.report, rest);
        Ok(StepReport { splats: self.state.splats.len() as u64, ..told })
    }

    fn poll(&mut self) -> Result<StepReport, EngineError> {
        self.flush()
    }

    fn render_into(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        rendering: &mut Rendering,
    ) -> Result<(), EngineError> {
        self.check()?;
        self.room(camera)?;
        let found = render(&self.scene(camera, pose, options)?);
        let round = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<f32>>();
        *rendering = Rendering {
            width: camera.width,
            height: camera.height,
            color: round(&found.color),
            alpha: round(&found.alpha),
            depth: if outputs == Outputs::All { round(&found.depth) } else { Vec::new() },
            count: if outputs == Outputs::All { found.count } else { Vec::new() },
            capped_tiles: found.tiles.capped_tiles as u64,
        };
        Ok(())
    }
}
