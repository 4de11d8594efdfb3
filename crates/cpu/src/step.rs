//! One training step: forward pass, loss, backward pass, update.

use gausset_compute::Exec;
use gausset_core::constants::TILE_SIZE;
use gausset_core::engine::{
    CorrectionKind, CorrectionRates, EngineError, GradientStatistic, Outputs, StepParams, TrainView,
};
use gausset_core::{Projection, Stage, se3};
use gausset_metrics::{GroundTruth, LatitudeWeights, LossOptions, apply_gain, gain_vjp};
use gausset_prof::span;
use gausset_raster::blend::tile_row_to_lines;
use gausset_raster::blend_vjp::{AbsoluteSums, PlanarImage, Upstream};
use gausset_raster::project::Dropout;
use gausset_raster::update::{UpdateInput, UpdateState, update};
use gausset_raster::view::KernelView;

use crate::corrections::{self, ColourCorrection, ColourGradient, ColourRows, RowIndex};
use crate::engine::{CpuEngine, LastPass};
use crate::memory::ViewMemory;
use crate::statistics;

impl CpuEngine {
    pub(crate) fn run_step(&mut self, view: &TrainView, params: &StepParams) -> Result<(), EngineError> {
        let camera = &view.camera;
        if (view.target.width, view.target.height) != (camera.width, camera.height) {
            return Err(EngineError::InvalidInput(format!(
                "view `{}`: image is {}x{} px (expected {}x{}, the size of its camera)",
                view.name, view.target.width, view.target.height, camera.width, camera.height
            )));
        }
        let colour_rows = ColourRows::from_view(view, &self.state)?;
        let pose_row = self.state.correction_index(CorrectionKind::Pose, view.pose_row)?;
        let twist = pose_row.map(|(group, row)| self.twist(group, row));
        // The row may move a rig: the adjoint transforms its twist to one of this camera.
        let twist = twist.map(|twist| match &view.camera_from_rig {
            Some(camera_from_rig) => se3::adjoint(camera_from_rig, twist),
            None => twist,
        });
        let pose = twist.map_or(view.pose, |twist| se3::exp(twist).compose(&view.pose));
        let kernel_view = KernelView::new(camera, &pose).with_near_plane(params.render.near_plane);

        let name = || format!("view `{}`", view.name);
        self.reserve_list_memory(&name, &kernel_view, ViewMemory::STEP)?;
        self.pipeline.sky = self.sky_behind(&params.render)?;
        let StepParams { dropout: share, seed, step, .. } = *params;
        self.pipeline.dropout = (share > 0.0).then_some(Dropout { fraction: share, seed, step });
        let exec = Exec { pool: &self.pool, level: self.level };
        let forward =
            self.pipeline.forward(exec, &self.state.parameters, &kernel_view, &params.render, Outputs::Color);
        forward.map_err(|error| self.too_many_entries(&name, error))?;
        let last = LastPass {
            size: kernel_view.size,
            sh_degree: params.render.sh_degree,
            update: Some(params.adam),
        };
        statistics::count_forward(self, &kernel_view, &last, params.step);
        let (loss, colour_gradient) = self.loss_and_gradient(view, params, &kernel_view, &colour_rows)?;
        if !loss.is_finite() {
            return Err(EngineError::NonFiniteLoss { step: params.step, view: view.name.to_string(), loss });
        }

        let absolute = match params.statistic {
            GradientStatistic::Absolute => AbsoluteSums::On,
            _ => AbsoluteSums::Off,
        };
        let upstream = Upstream {
            color: PlanarImage {
                data: self.gradient.as_slice(),
                stride: self.gradient.stride(),
                row_len: self.gradient.row_len(),
            },
            alpha_depth: None,
        };
        let exec = Exec { pool: &self.pool, level: self.level };
        self.pipeline.backward(exec, &kernel_view, upstream, absolute);
        self.last_pass = Some(last);
        statistics::count_backward(self, params.adam, params.step);
        let pose_rates = params.pose.filter(|_| pose_row.is_some());
        let pose_sums = self.update_splats(params, (&kernel_view, view.downscale), pose_rates.is_some());

        self.update_colours(&colour_rows, params, &colour_gradient);
        self.update_sky(params)?;
        if let (Some((group, row)), Some(rates), Some(twist)) = (pose_row, pose_rates, twist) {
            let gradient = se3::twist_gradient(twist, pose_sums.twist(&pose));
            let gradient = match &view.camera_from_rig {
                Some(camera_from_rig) => se3::adjoint_transposed(camera_from_rig, gradient),
                None => gradient,
            };
            let gradient = gradient.map(|g| g as f32);
            let group = &mut self.state.extras[group];
            corrections::update_row(self.level, group, row, &gradient, &rates);
        }

        self.report.steps += 1;
        self.report.loss_sum += loss;
        self.report.last_step = Some(params.step);
        self.report.last_loss = loss;
        self.report.visible = self.pipeline.projected.visible_splats();
        self.report.intersections = self.pipeline.projected.entries;
        self.report.cap_hits += self.pipeline.lists.cap_hits;
        self.report.capped_steps += u64::from(self.pipeline.lists.cap_hits > 0);
        Ok(())
    }

    fn twist(&self, group: usize, row: usize) -> [f64; 6] {
        let values = self.state.extras[group].row(row);
        std::array::from_fn(|i| f64::from(values[i]))
    }

    /// Updates the rows that correct the colours of the view.
    fn update_colours(&mut self, rows: &ColourRows, params: &StepParams, gradient: &ColourGradient) {
        let level = self.level;
        let mut update = |place: Option<RowIndex>, rates: Option<CorrectionRates>, gradient: &[f32]| {
            let ((group, row), rates) = place.zip(rates)?;
            let rows = &mut self.state.extras[group];
            corrections::update_row(level, rows, row, gradient, &rates);
            Some(group)
        };
        match gradient {
            ColourGradient::None => {}
            ColourGradient::Gain(gain) => {
                update(rows.vignetting, params.vignetting, &gain.vignetting);
                if let Some(group) = update(rows.gains, params.exposure, &gain.log_gains) {
                    corrections::subtract_mean(&mut self.state.extras[group]);
                }
            }
        }
    }

    /// Leaves the gradient of the render in `self.gradient`; returns the loss and the gradient of the colour
    /// correction.
    fn loss_and_gradient(
        &mut self,
        view: &TrainView,
        params: &StepParams,
        kernel_view: &KernelView,
        colour_rows: &ColourRows,
    ) -> Result<(f64, ColourGradient), EngineError> {
        let _span = span(Stage::Loss.name());
        self.tiles_to_planes(kernel_view);
        let exec = Exec { pool: &self.pool, level: self.level };
        let colours = colour_rows.read(&self.state, [view.camera.cx, view.camera.cy]);
        let mut background = params.render.background;
        if let ColourCorrection::Gain(gain) = &colours {
            apply_gain(exec, gain, &mut self.render);
            background = gain.background(background);
        }
        let camera = &view.camera;
        let latitude = match camera.projection {
            Projection::Pinhole => None,
            Projection::Equirectangular => {
                Some(LatitudeWeights { equator: camera.cy as f32, rows_per_radian: camera.fy as f32 })
            }
        };
        let options = LossOptions { dssim_weight: params.dssim_weight, background, latitude };
        let truth = GroundTruth::Bytes(&view.target);
        let value = self
            .loss
            .run(exec.pool, &self.render, truth, &options, &mut self.gradient)
            .map_err(|err| EngineError::InvalidInput(format!("view `{}`: {err}", view.name)))?;
        let gradient = match &colours {
            ColourCorrection::AsRendered => ColourGradient::None,
            ColourCorrection::Gain(gain) => {
                ColourGradient::Gain(gain_vjp(exec, gain, &self.render, &mut self.gradient))
            }
        };
        Ok((value.loss, gradient))
    }

    fn tiles_to_planes(&mut self, view: &KernelView) {
        self.render.resize(view.size[0], view.size[1]);
        let (stride, row_len) = (self.render.stride(), self.render.row_len());
        let columns = view.tiles[0] as usize;
        let tiles = &self.pipeline.blended.tiles;
        let rows_of_tile = TILE_SIZE as usize * row_len;
        self.pool.run_chunks(self.render.as_mut_slice(), rows_of_tile, |row, lines| {
            tile_row_to_lines(&tiles[row * columns..(row + 1) * columns], lines, stride, row_len);
        });
    }

    fn update_splats(
        &mut self,
        params: &StepParams,
        (view, downscale): (&KernelView, u32),
        wants_pose: bool,
    ) -> gausset_raster::project_vjp::PoseGradientSums {
        let _span = span(Stage::ProjectVjpAdam.name());
        self.state.group_clock += 1;
        let input = UpdateInput {
            projected: &self.pipeline.projected,
            sums: &self.pipeline.sums,
            view,
            downscale,
            params,
            group_clock: self.state.group_clock,
            corrections: &self.clocks,
            needs_pose_gradient: wants_pose,
        };
        let state = UpdateState {
            parameters: &mut self.state.parameters,
            moment1: &mut self.state.moment1,
            moment2: &mut self.state.moment2,
            clocks: &mut self.state.clocks,
            ids: &self.state.ids,
            gradient_sum: &mut self.state.gradient_sum,
            visible_steps: &mut self.state.visible_steps,
            max_radius: &mut self.state.max_radius,
        };
        let report = update(Exec { pool: &self.pool, level: self.level }, state, &input);
        self.report.skipped_updates += report.skipped;
        self.report.dead_splats = report.dead;
        report.pose
    }
}
