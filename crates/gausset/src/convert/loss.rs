//! Measures the loss of a conversion: renders of the splats before and after, from the same cameras.

use gausset_core::engine::{Engine, Outputs, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_io::splat::SplatFile;
use gausset_metrics::quality::psnr;
use gausset_train::cameras::NamedCamera;
use serde::Serialize;

use crate::device::DeviceOptions;
use crate::{CountedItem, Event, Failure, Host};

/// Difference between renders before and after a conversion; the JSON form is a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConversionLoss {
    /// Mean PSNR in dB over the views that differ; `None` if all renders are identical.
    pub psnr: Option<f64>,
    /// PSNR of the worst view in dB; `None` if all renders are identical.
    pub worst: Option<f64>,
    /// Name of the worst view.
    pub worst_view: String,
    /// Number of views.
    pub views: usize,
    /// Source of the cameras: `held-out` or `around`.
    pub cameras: &'static str,
}

/// Cameras in the axes of the output, and two engines: one for the splats before the conversion, one for those after.
pub(super) struct LossMeter {
    pub(super) cameras: Vec<NamedCamera>,
    /// Source of the cameras.
    pub(super) source: &'static str,
    /// Render options; the documents override SH degree, anti-aliasing and near plane.
    pub(super) how: RenderOptions,
    engines: [Box<dyn Engine>; 2],
}

impl LossMeter {
    pub(super) fn new(
        cameras: Vec<NamedCamera>,
        source: &'static str,
        how: RenderOptions,
        device: DeviceOptions,
        threads: u32,
    ) -> Result<Self, Failure> {
        let engine = || device.engine(threads as usize);
        Ok(Self { cameras, source, how, engines: [engine()?, engine()?] })
    }

    /// Compares renders of the original and the converted splats. `moves` is the transform between them.
    pub(super) fn measure(
        &mut self,
        before: &SplatFile,
        moves: &Similarity,
        after: &SplatFile,
        host: &mut Host<'_>,
    ) -> Result<ConversionLoss, Failure> {
        let [first, second] = &mut self.engines;
        first.load_splats(before.splats.clone(), Vec::new())?;
        second.load_splats(after.splats.clone(), Vec::new())?;
        let near_plane = before.near_plane.unwrap_or(self.how.near_plane);
        let how = |document: &SplatFile, scale: f64| RenderOptions {
            sh_degree: document.splats.sh_degree,
            antialiased: document.antialiased,
            near_plane: near_plane * scale,
            ..self.how
        };
        let back = moves.inverse();
        let (mut sum, mut differing, mut worst) = (0.0, 0u32, (f64::INFINITY, String::new()));
        host.report(Event::Begun { item: CountedItem::Pictures, done: 0, total: self.cameras.len() as u64 });
        for (done, view) in (1..).zip(&self.cameras) {
            if host.is_stopping() {
                host.report(Event::Ended);
                return Err(Failure::stopped());
            }
            let pose = back.apply_to_pose(&view.pose);
            let old = first.render(&view.camera, &pose, &how(before, 1.0), Outputs::Color)?.color;
            let new =
                second.render(&view.camera, &view.pose, &how(after, moves.scale), Outputs::Color)?.color;
            let shown = |colour: Vec<f32>| colour.into_iter().map(|v| v.clamp(0.0, 1.0)).collect::<Vec<_>>();
            let psnr = psnr(&shown(new), &shown(old), None);
            // Identical renders, such as of cameras that see no splats, must not hide the loss of the others.
            if psnr.is_finite() {
                sum += psnr;
                differing += 1;
            }
            if psnr < worst.0 || done == 1 {
                worst = (psnr, view.name.display().to_string());
            }
            host.report(Event::Done { done, views_per_s: None });
        }
        host.report(Event::Ended);
        Ok(ConversionLoss {
            psnr: (differing > 0).then(|| sum / f64::from(differing)),
            worst: (differing > 0).then_some(worst.0),
            worst_view: worst.1,
            views: self.cameras.len(),
            cameras: self.source,
        })
    }
}
