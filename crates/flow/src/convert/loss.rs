//! What a conversion costs: pictures of the splats before and after, from the same cameras.

use gausset_core::engine::{Engine, Outputs, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_io::splat::Document;
use gausset_metrics::quality::psnr;
use gausset_train::cameras::NamedCamera;
use serde::Serialize;

use crate::device::DeviceOptions;
use crate::{Event, Failure, Host, Part};

/// How much pictures differ: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// Mean PSNR over the views in dB; `null` where the pictures do not differ.
    pub psnr: Option<f64>,
    /// That of the view that differs most.
    pub worst: Option<f64>,
    /// Its name.
    pub worst_view: String,
    /// How many views.
    pub views: usize,
    /// Where their cameras are from: `held-out`, `around`.
    pub cameras: &'static str,
}

/// Cameras in the axes of what is written, and two devices: one for the splats before, one for those after.
pub(super) struct Scales {
    pub(super) cameras: Vec<NamedCamera>,
    /// Where they are from.
    pub(super) source: &'static str,
    /// How they are drawn, but for what a document says itself.
    pub(super) how: RenderOptions,
    engines: [Box<dyn Engine>; 2],
}

impl Scales {
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

    /// Compares what is written with what it was made of, which `moves` took to where it is now.
    pub(super) fn weigh(
        &mut self,
        before: &Document,
        moves: &Similarity,
        after: &Document,
        host: &mut Host<'_>,
    ) -> Result<Loss, Failure> {
        let [first, second] = &mut self.engines;
        first.load_splats(before.splats.clone(), Vec::new())?;
        second.load_splats(after.splats.clone(), Vec::new())?;
        let how = |document: &Document, scale: f64| RenderOptions {
            sh_degree: document.splats.sh_degree,
            antialiased: document.antialiased,
            near_plane: self.how.near_plane * scale,
            ..self.how
        };
        let back = moves.inverse();
        let (mut sum, mut worst) = (0.0, (f64::INFINITY, String::new()));
        host.report(Event::Begun { part: Part::Pictures, done: 0, total: self.cameras.len() as u64 });
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
            sum += psnr;
            if psnr < worst.0 || done == 1 {
                worst = (psnr, view.name.display().to_string());
            }
            host.report(Event::Done { done, views_per_s: None });
        }
        host.report(Event::Ended);
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        Ok(Loss {
            psnr: finite(sum / self.cameras.len() as f64),
            worst: finite(worst.0),
            worst_view: worst.1,
            views: self.cameras.len(),
            cameras: self.source,
        })
    }
}
