//! Single formulas: the kernels of a step on values written by the host, and small kernels around the same functions.

use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, Engine, EngineError, GradientStatistic, RenderOptions, TrainState,
};
use gausset_core::{Camera, Pose, Splats, sh};
use gausset_testkit::{Case, CaseKind, Outputs, Tensor};

use super::{OnTheGpu, gradients, planes, still, wide};
use crate::device::DeviceMemory;
use crate::engine::{GpuEngine, GpuOptions};
use crate::kernels::{Kernel, Probe};
use crate::layout::{Buffer, Capacities, splat_capacity};
use crate::planes as layout;
use crate::record::{GRID_WIDTH, Job, NOWHERE, Record, View, argument, flag};
use crate::schedule::{Dispatch, Grid, update_alone};
use crate::unit;

/// One tenth: the fraction of its first gradient that a first moment contains.
const SHARE: f64 = (1.0 - gausset_core::constants::ADAM_BETA1) as f32 as f64;

/// A splat on the screen.
struct OnScreen {
    mean2d: [f32; 2],
    cov2d: [f32; 3],
    conic: [f32; 3],
    z: f32,
    opacity: f32,
    compensation: f32,
    colour: [f32; 3],
}

fn bits<const N: usize>(values: [f32; N]) -> [u32; N] {
    values.map(f32::to_bits)
}

fn named<const N: usize>(tensors: [(&str, Tensor); N]) -> Outputs {
    tensors.map(|(name, tensor)| (name.to_owned(), tensor)).into()
}

/// Words of a buffer as floats.
fn floats(
    memory: &mut DeviceMemory,
    buffer: Buffer,
    first: u64,
    count: usize,
) -> Result<Vec<f32>, EngineError> {
    let mut floats = Vec::with_capacity(count);
    memory.read(buffer, first, count, |_, part| floats.extend(part.iter().copied().map(f32::from_bits)))?;
    Ok(floats)
}

/// Rows as consecutive planes of four values.
fn in_planes<const N: usize>(rows: &[[f32; N]], stride: usize) -> Vec<u32> {
    let count = N.div_ceil(4);
    let mut words = vec![0; 4 * count * stride];
    for (i, row) in rows.iter().enumerate() {
        for (k, value) in row.iter().enumerate() {
            words[4 * (k / 4 * stride + i) + k % 4] = value.to_bits();
        }
    }
    words
}

fn dispatch(kernel: Kernel, buffers: &[Buffer], groups: usize) -> Dispatch {
    Dispatch { kernel, buffers: buffers.to_vec(), page: 0, grid: Grid::Groups(groups as u32) }
}

fn run(memory: &mut DeviceMemory, dispatches: &[Dispatch]) -> Result<(), EngineError> {
    memory.submit_list(dispatches)?;
    memory.take_status(true).map(drop)
}

const PROJECT: [Buffer; 10] = [
    Buffer::Job,
    Buffer::View,
    Buffer::Splats,
    Buffer::Sh0,
    Buffer::Sh1,
    Buffer::Sh2,
    Buffer::Sh3,
    Buffer::Screen,
    Buffer::Boxes,
    Buffer::Partials,
];

impl OnTheGpu {
    /// A case of a single formula.
    pub(super) fn unit(&self, case: &Case) -> Result<Outputs, EngineError> {
        match case.kind {
            CaseKind::Covariance => self.covariance(case),
            CaseKind::Sh => self.spherical_harmonics(case),
            CaseKind::Projection => self.projection(case),
            CaseKind::Ssim => self.ssim(case),
            _ => self.adam(case),
        }
    }

    /// Buffers for this many splats, pixels and tiles, without content.
    fn memory(&self, n: usize, pixels: u64, tiles: u64) -> Result<DeviceMemory, EngineError> {
        let mut memory = DeviceMemory::new(self.0.clone());
        let splats = splat_capacity(n as u64);
        let (pixels, training_pixels) = (pixels, 3 * pixels);
        let (sh_blocks, training) = (4, true);
        memory.grow(&Capacities {
            splats,
            sh_blocks,
            training,
            pixels,
            training_pixels,
            tiles,
            entries: 4096,
            ..Capacities::default()
        })?;
        Ok(memory)
    }

    fn adam(&self, case: &Case) -> Result<Outputs, EngineError> {
        let mut outputs = Outputs::new();
        let name = |name: &str| Some(name.strip_prefix("in.")?.strip_suffix(".param")?.to_owned());
        let groups: Vec<String> = case.tensors.keys().filter_map(|key| name(key)).collect();
        for group in groups {
            let input = |what: &str| case.tensor(&format!("in.{group}.{what}"));
            let shape = input("param").shape.clone();
            let count = input("param").len();
            let quads = count.div_ceil(4);
            let mut memory = self.memory(quads, 16, 1)?;
            let padded = |values: &[f32]| {
                let mut words: Vec<u32> = values.iter().copied().map(f32::to_bits).collect();
                words.resize(4 * quads, 0);
                words
            };
            for (buffer, what) in [(Buffer::Splats, "param"), (Buffer::Splats1, "m"), (Buffer::Splats2, "v")]
            {
                memory.write(buffer, 0, &padded(&input(what).to_f32()))?;
            }
            let mut steps = Vec::new();
            for (step, g) in input("grads").to_f32().chunks_exact(count).enumerate() {
                let [dense_first, dense_second] = unit::bias_corrections(case.settings.t0 + step as u64 + 1);
                let rate_means = input("lr").to_f32()[0];
                let job =
                    Job { splats: quads as u32, rate_means, dense_first, dense_second, ..Job::default() };
                memory.write(Buffer::Job, 0, &job.words())?;
                memory.write(Buffer::Gradients, 0, &padded(g))?;
                let buffers =
                    [Buffer::Job, Buffer::Splats, Buffer::Splats1, Buffer::Splats2, Buffer::Gradients];
                run(&mut memory, &[dispatch(Kernel::Probe(Probe::Adam), &buffers, quads.div_ceil(256))])?;
                steps.extend(floats(&mut memory, Buffer::Splats, 0, count)?);
            }
            let m = floats(&mut memory, Buffer::Splats1, 0, count)?;
            let v = floats(&mut memory, Buffer::Splats2, 0, count)?;
            outputs.insert(format!("out.{group}.param_steps"), Tensor::new(&input("grads").shape, &steps));
            outputs.insert(format!("out.{group}.m"), Tensor::new(&shape, &m));
            outputs.insert(format!("out.{group}.v"), Tensor::new(&shape, &v));
        }
        Ok(outputs)
    }

    fn covariance(&self, case: &Case) -> Result<Outputs, EngineError> {
        let quats: Vec<[f32; 4]> = case.tensor("in.quats").to_f32_rows();
        let log_scales: Vec<[f32; 3]> = case.tensor("in.log_scales").to_f32_rows();
        let weights: Vec<[f32; 9]> = case.tensor("in.w_cov").to_f32_rows();
        let n = quats.len();
        let mut memory = self.memory(n, 16, 1)?;
        // Planes at this distance: eight of them fit where a step has two.
        let stride = n;
        let job = Job { splats: n as u32, capacity: stride as u32, ..Job::default() };
        memory.write(Buffer::Job, 0, &job.words())?;
        let raw: Vec<[f32; 12]> = quats
            .iter()
            .zip(&log_scales)
            .map(|(&[w, x, y, z], &[a, b, c])| [0.0, 0.0, 0.0, 0.0, w, x, y, z, a, b, c, 0.0])
            .collect();
        memory.write(Buffer::Splats, 0, &in_planes(&raw, stride))?;
        let rows: Vec<[f32; 12]> = weights
            .iter()
            .map(|&[a, b, c, d, e, f, g, h, i]| [a, b, c, 0.0, d, e, f, 0.0, g, h, i, 0.0])
            .collect();
        memory.write(Buffer::Directions, 0, &in_planes(&rows, stride))?;
        let buffers = [
            Buffer::Job,
            Buffer::View,
            Buffer::Splats,
            Buffer::Splats1,
            Buffer::Splats2,
            Buffer::Gradients,
            Buffer::Directions,
            Buffer::Records,
            Buffer::Boxes,
            Buffer::Sums,
        ];
        run(&mut memory, &[dispatch(Kernel::Probe(Probe::Shape), &buffers, n.div_ceil(256))])?;
        let all = floats(&mut memory, Buffer::Directions, 0, 4 * 8 * stride)?;
        let at = |plane: usize, i: usize| &all[4 * (plane * stride + i)..][..4];
        let matrix = |first: usize| -> Vec<f32> {
            (0..n).flat_map(|i| (0..3).flat_map(move |row| at(first + row, i)[..3].to_vec())).collect()
        };
        let quats: Vec<f32> = (0..n).flat_map(|i| at(6, i).to_vec()).collect();
        let log_scales: Vec<f32> = (0..n).flat_map(|i| at(7, i)[..3].to_vec()).collect();
        Ok(named([
            ("out.rotation", Tensor::new(&[n, 3, 3], &matrix(0))),
            ("out.covariance", Tensor::new(&[n, 3, 3], &matrix(3))),
            ("grad.quats", Tensor::new(&[n, 4], &quats)),
            ("grad.log_scales", Tensor::new(&[n, 3], &log_scales)),
        ]))
    }

    fn spherical_harmonics(&self, case: &Case) -> Result<Outputs, EngineError> {
        // Seen from the origin, the direction to a mean is the mean, normalised.
        let dirs: Vec<[f32; 3]> = case.tensor("in.dirs").to_f32_rows();
        let n = dirs.len();
        let splats = Splats { means: dirs, sh: case.tensor("in.sh").to_f32(), ..Splats::zeros(3, n) };
        let weights: Vec<[f32; 3]> = case.tensor("in.w_color").to_f32_rows();
        let mut engine = GpuEngine::new(&self.0, GpuOptions { threads: 1, ..GpuOptions::default() });
        engine.load(TrainState::new(splats, Vec::new()))?;
        let camera = Camera::new(16, 16, 16.0, 16.0, 8.0, 8.0).expect("a camera");
        let pose =
            Pose { rotation: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], translation: [0.0; 3] };
        let groups = n.div_ceil(256);
        let mut outputs = Outputs::new();
        for degree in 0..=3_u8 {
            let options = RenderOptions { sh_degree: degree, ..RenderOptions::default() };
            let job = unit::render_job(&engine.state_info(), &camera, &pose, &options)?;
            let capacity = engine.memory.sizes().splats as usize;
            // Only the device knows the number of splats in units that start with `begin`.
            let job = Job {
                splats: n as u32,
                capacity: capacity as u32,
                dense_first: 1.0,
                dense_second: 1.0,
                rate_sh_dc: 0.0,
                ..job
            };
            let shown = on_screen(&mut engine, &job)?;
            let colours: Vec<[f32; 3]> = shown.iter().map(|splat| splat.colour).collect();
            outputs.insert(format!("out.color{degree}"), Tensor::rows(&colours));
            let memory = &mut engine.memory;
            if degree == 3 {
                run(memory, &[dispatch(Kernel::Probe(Probe::Basis), &PROJECT, groups)])?;
                let screen = floats(memory, Buffer::Screen, 0, 12 * capacity)?;
                let last = floats(memory, Buffer::Boxes, 0, 4 * n)?;
                let value = |i: usize, k: usize| match k / 4 {
                    3 => last[4 * i + k % 4],
                    plane => screen[4 * (plane * capacity + i) + k % 4],
                };
                let basis: Vec<f32> =
                    (0..n).flat_map(|i| (0..16).map(move |k| (i, k))).map(|(i, k)| value(i, k)).collect();
                outputs.insert("out.basis".to_owned(), Tensor::new(&[n, 16], &basis));
            }
            // As if each splat were visible.
            let drawn: Vec<[u32; 4]> = vec![[0, 1 | 1 << 16, 0, 0]; n];
            memory.write(Buffer::Boxes, 0, drawn.as_flattened())?;
            let sums: Vec<[f32; 12]> = weights
                .iter()
                .map(|&[r, g, b]| [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, r, g, b, 0.0, 0.0, 1.0])
                .collect();
            memory.write(Buffer::Gradients, 0, &in_planes(&sums, capacity))?;
            let list = update_alone(4);
            let of = |wanted: fn(Kernel) -> bool| list.iter().filter(move |dispatch| wanted(dispatch.kernel));
            let known =
                |dispatch: &Dispatch| Dispatch { grid: Grid::Groups(groups as u32), ..dispatch.clone() };
            let direction: Vec<Dispatch> = of(|kernel| kernel == Kernel::Direction).map(known).collect();
            run(memory, &direction)?;
            let all = floats(memory, Buffer::Directions, 0, 8 * capacity)?;
            let means: Vec<&[f32]> = (0..n).map(|i| &all[4 * (capacity + i)..][..3]).collect();
            outputs.insert(format!("grad.dirs{degree}"), Tensor::new(&[n, 3], &means.concat()));
            // The geometry is not updated: the step sizes are set here.
            let moves: Vec<[f32; 4]> =
                (0..n).map(|i| [all[4 * i], all[4 * i + 1], all[4 * i + 2], 1.0]).collect();
            memory.write(Buffer::Directions, 0, &in_planes(&moves, capacity))?;
            for buffer in Buffer::SH_FIRST {
                memory.write(buffer, 0, &vec![0; 12 * capacity])?;
            }
            let adam: Vec<Dispatch> = of(|kernel| matches!(kernel, Kernel::ShAdam(_))).map(known).collect();
            run(memory, &adam)?;
            let moments = layout::read_moments(memory, &engine.pool, 3, n)?;
            let whole: Vec<f64> = moments.m.sh.iter().map(|&m| f64::from(m) / SHARE).collect();
            outputs.insert(format!("grad.sh{degree}"), Tensor::new(&[n, 16, 3], &whole));
        }
        Ok(outputs)
    }

    fn projection(&self, case: &Case) -> Result<Outputs, EngineError> {
        let rows2 = |name: &str| case.tensor(name).to_rows::<2>();
        let rows3 = |name: &str| case.tensor(name).to_rows::<3>();
        let values = |name: &str| case.tensor(name).values.clone();
        let (w_mean2d, w_conic, w_color) = (rows2("in.w_mean2d"), rows3("in.w_conic"), rows3("in.w_color"));
        let (w_z, w_opacity) = (values("in.w_z"), values("in.w_opacity"));
        let splats = case.splats();
        let n = splats.len();
        let degree = splats.sh_degree;
        let mut outputs = Outputs::new();
        for (prefix, antialiased) in [("", false), ("aa_", true)] {
            let options = RenderOptions { antialiased, ..case.render_options(0) };
            let mut engine = GpuEngine::new(&self.0, GpuOptions { threads: 1, ..GpuOptions::default() });
            engine
                .load(TrainState::new(case.splats(), vec![CorrectionGroup::new(CorrectionKind::Pose, 1)]))?;
            let (job, _) = still(&mut engine, case, options, GradientStatistic::Signed)?;
            let tiles = u64::from(job.tiles);
            let sizes = Capacities { tiles, ..*engine.memory.sizes() };
            engine.memory.ensure_capacity(&|| "a case".to_owned(), &sizes)?;
            let capacity = engine.memory.sizes().splats as usize;
            let job = Job { splats: n as u32, capacity: capacity as u32, ..job };
            let shown = on_screen(&mut engine, &job)?;
            let in_front: Vec<bool> = shown.iter().map(|splat| splat.z > job.base_origin[3]).collect();
            let front = |value: f32, i: usize| if in_front[i] { value } else { 0.0 };
            let each = |f: fn(&OnScreen) -> f32| {
                let values: Vec<f32> =
                    shown.iter().enumerate().map(|(i, splat)| front(f(splat), i)).collect();
                Tensor::new(&[n], &values)
            };
            let opacity = each(|s| s.opacity);
            outputs.insert(format!("out.{prefix}opacity"), opacity.clone());
            outputs.insert(format!("out.{prefix}compensation"), each(|s| s.compensation));
            if !antialiased {
                let triples = |f: fn(&OnScreen) -> [f32; 3]| {
                    let row = |(i, splat): (usize, &OnScreen)| f(splat).map(|v| front(v, i));
                    Tensor::rows(&shown.iter().enumerate().map(row).collect::<Vec<_>>())
                };
                let mean2d = |(i, splat): (usize, &OnScreen)| splat.mean2d.map(|v| front(v, i));
                let means: Vec<[f32; 2]> = shown.iter().enumerate().map(mean2d).collect();
                outputs.extend(named([
                    ("out.mean2d", Tensor::rows(&means)),
                    ("out.cov2d", triples(|s| s.cov2d)),
                    ("out.conic", triples(|s| s.conic)),
                    ("out.z", each(|s| s.z)),
                    ("out.color", triples(|s| s.colour)),
                    ("out.in_front", Tensor::flags(&in_front)),
                ]));
            }
            // The sums over pixels that correspond to these gradients of the screen splats.
            let low_pass = f64::from(gausset_core::constants::LOW_PASS_VARIANCE);
            let sums: Vec<[f32; 12]> = (0..n)
                .map(|i| {
                    let [a, b, c] = shown[i].cov2d.map(f64::from);
                    let [x, y] = w_mean2d[i];
                    let (sx, sy) = ((a + low_pass) * x + b * y, b * x + (c + low_pass) * y);
                    let v = w_opacity[i] * opacity.values[i];
                    let [wa, wb, wc] = w_conic[i];
                    let [r, g, blue] = w_color[i];
                    [v, sx, sy, -2.0 * wa, -wb, -2.0 * wc, r, g, blue, w_z[i], 0.0, 1.0].map(|v| v as f32)
                })
                .collect();
            let drawn: Vec<[u32; 4]> = in_front.iter().map(|&is| [0, u32::from(is), 0, 0]).collect();
            let memory = &mut engine.memory;
            memory.write(Buffer::Boxes, 0, drawn.as_flattened())?;
            memory.write(Buffer::Gradients, 0, &in_planes(&sums, capacity))?;
            let groups = n.div_ceil(256) as u32;
            let mut arguments = [[0; 4]; argument::COUNT as usize];
            arguments[argument::SPLATS as usize] =
                [groups.min(GRID_WIDTH), groups.div_ceil(GRID_WIDTH), 1, 0];
            arguments[argument::ONE as usize] = [1, 1, 1, 0];
            memory.write(Buffer::Arguments, 0, arguments.as_flattened())?;
            run(memory, &update_alone(crate::layout::sh_blocks(degree)))?;
            let g = gradients(&mut engine, case)?;
            let [row0, row1, row2] = g.viewmat.expect("it is there");
            let coefficients = sh::coefficients(degree);
            for (name, tensor) in [
                ("viewmat", Tensor::rows(&[row0, row1, row2, [0.0; 4]])),
                ("twist", Tensor::new(&[6], &g.twist)),
                ("means", Tensor::rows(&g.means)),
                ("quats", Tensor::rows(&g.quats)),
                ("log_scales", Tensor::rows(&g.log_scales)),
                ("opacity_logits", Tensor::new(&[n], &g.opacity_logits)),
                ("sh", Tensor::new(&[n, coefficients, 3], &g.sh)),
            ] {
                outputs.insert(format!("grad.{prefix}{name}"), tensor);
            }
        }
        Ok(outputs)
    }

    fn ssim(&self, case: &Case) -> Result<Outputs, EngineError> {
        let (width, height) = (case.settings.width, case.settings.height);
        let (x, y) = (case.tensor("in.x").to_f32(), case.tensor("in.y").to_f32());
        let shape = &case.tensor("in.x").shape;
        let pixels = u64::from(width) * u64::from(height);
        let values = x.len();
        let [tiles_x, tiles_y] = [width, height].map(|side| side.div_ceil(16));
        let tiles = tiles_x * tiles_y;
        let mut memory = self.memory(1, 2 * pixels, u64::from(tiles))?;
        let shown: Vec<[u32; 4]> =
            x.as_chunks::<3>().0.iter().map(|&[r, g, b]| bits([r, g, b, 0.0])).collect();
        memory.write(Buffer::Pixels, 0, shown.as_flattened())?;
        memory.write(Buffer::Picture, 0, &y.iter().copied().map(f32::to_bits).collect::<Vec<_>>())?;
        let nothing = [NOWHERE; 4];
        let (gain_row, vignetting_row) = (nothing, nothing);
        let job = Job { width, height, tiles_x, tiles, gain_row, vignetting_row, ..Job::default() };
        let forward = [
            Buffer::Job,
            Buffer::Pixels,
            Buffer::Picture,
            Buffer::Corrections,
            Buffer::Derivatives,
            Buffer::Partials,
        ];
        let backward = [
            Buffer::Job,
            Buffer::Pixels,
            Buffer::Picture,
            Buffer::Corrections,
            Buffer::Derivatives,
            Buffer::TileSums,
        ];
        let groups = tiles as usize;
        let mut gradient = |l1: f64, ssim: f64| -> Result<(f64, f64, Vec<f32>), EngineError> {
            let (l1_factor, ssim_factor) = (l1 as f32, ssim as f32);
            let job = Job { l1_factor, ssim_factor, flags: flag::SSIM, ..job };
            memory.write(Buffer::Job, 0, &job.words())?;
            run(
                &mut memory,
                &[
                    dispatch(Kernel::Probe(Probe::Loss), &forward, groups),
                    dispatch(Kernel::Probe(Probe::LossVjp), &backward, groups),
                ],
            )?;
            let sums = floats(&mut memory, Buffer::Partials, 0, 2 * groups)?;
            let sum = |k: usize| sums.iter().skip(k).step_by(2).map(|&v| f64::from(v)).sum::<f64>();
            let gradient = floats(&mut memory, Buffer::Pixels, 4 * pixels, 4 * pixels as usize)?;
            let colours = gradient.as_chunks::<4>().0.iter().flat_map(|v| [v[0], v[1], v[2]]).collect();
            Ok((sum(0) / values as f64, sum(1) / values as f64, colours))
        };
        let share = 1.0 / values as f64;
        let (l1, ssim, of_loss) = gradient(0.8 * share, -0.2 * share)?;
        let (_, _, of_ssim) = gradient(0.0, share)?;
        run(&mut memory, &[dispatch(Kernel::Probe(Probe::Similarity), &forward, groups)])?;
        let map = floats(&mut memory, Buffer::Derivatives, 0, values)?;
        // No kernel computes these two: they are computed on the host.
        let squares = wide(&x).iter().zip(wide(&y)).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
        let mse = squares / values as f64;
        Ok(named([
            ("out.ssim", Tensor::scalar(ssim)),
            ("out.ssim_map", Tensor::new(shape, &map)),
            ("out.l1", Tensor::scalar(l1)),
            ("out.mse", Tensor::scalar(mse)),
            ("out.psnr", Tensor::scalar(-10.0 * mse.log10())),
            ("out.loss", Tensor::scalar(0.8 * l1 + 0.2 * (1.0 - ssim))),
            ("grad.ssim_x", Tensor::new(shape, &of_ssim)),
            ("grad.loss_x", Tensor::new(shape, &of_loss)),
        ]))
    }
}

/// The screen splats of all splats of an engine, for the camera of a record.
fn on_screen(engine: &mut GpuEngine, job: &Job) -> Result<Vec<OnScreen>, EngineError> {
    let n = engine.state.splats;
    engine.memory.write(Buffer::Job, 0, &job.words())?;
    let view = View {
        rotation_0: job.base_0,
        rotation_1: job.base_1,
        rotation_2: job.base_2,
        origin: job.base_origin,
        lens: job.lens,
        ratio: job.ratio,
    };
    engine.memory.write(Buffer::View, 0, &view.words())?;
    run(&mut engine.memory, &[dispatch(Kernel::Probe(Probe::Screen), &PROJECT, n.div_ceil(256))])?;
    let [first, second, third] = planes(engine, Buffer::Screen, n)?;
    let rest = floats(&mut engine.memory, Buffer::Boxes, 0, 4 * n)?;
    let splat = |i: usize| {
        let ([x, y, a, b], [c, conic @ ..], [z, opacity, compensation, red]) =
            (first[i], second[i], third[i]);
        OnScreen {
            mean2d: [x, y],
            cov2d: [a, b, c],
            conic,
            z,
            opacity,
            compensation,
            colour: [red, rest[4 * i], rest[4 * i + 1]],
        }
    };
    Ok((0..n).map(splat).collect())
}
