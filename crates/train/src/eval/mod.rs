//! Evaluation: renders views of a dataset and scores them against their photographs (docs/reference/quality.md).

mod confidence;
mod confidence_map;
mod confirming_view;
mod depth_maps;
mod error;
mod haze;
mod report;
mod trust;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::{Exec, Pool};
use gausset_core::engine::{Engine, EngineError, Outputs, RenderOptions, Rendering};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Stage, TargetImage};
use gausset_io::atomic::{FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::dataset::{Dataset, Loader, Tracks};
use gausset_io::ownership;
use gausset_io::run_folder::EVALUATION_MARKER;
use gausset_metrics::quality::{ImageQuality, RenderComparison};
use gausset_metrics::{Gain, LossKernel, Lpips, Planes, SizeMismatch, SsimDefinition, apply_gain};

pub use confidence::{Confidence, MIN_PARALLAX, Support};
pub use confidence_map::{ConfidenceMap, ConfidenceReport, PhotographAgain};
pub use depth_maps::DepthMaps;
pub use error::EvalError;
pub use report::{EvalRecord, EvalReport, Scores};
pub use trust::{Advice, Judgement, Trust};

use self::depth_maps::CONFIRMATIONS;
use self::report::finite_or_none;
use crate::contact_sheet::{self, ContactSheet};
use crate::exposures::Exposures;
use crate::option_values::Split;
use crate::warning::SkippedImage;

/// Which metrics are measured per view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSet {
    /// PSNR and SSIM, plain and after a colour fit; these need only the image.
    ImageOnly,
    /// Also haze, for which each view is queried once more.
    WithHaze,
    /// Also co-visible pixels, which need renders of training views.
    All,
}

/// Views to evaluate, and how.
#[derive(Clone, Debug)]
pub struct EvalOptions {
    /// Split to evaluate.
    pub split: Split,
    /// Maximum number of views, evenly spread; `None` = all.
    pub max_views: Option<usize>,
    /// Render options; a transparent ground truth is composited on the same background, under the gain of its image.
    pub render: RenderOptions,
    /// Exposure and vignetting of each image, from a run that has learnt them.
    pub exposures: Option<Exposures>,
    /// Number of splats of the scene; those after them are its sky, which is drawn but is no surface. `None` = all.
    pub scene_splats: Option<u32>,
    /// Transform of the cameras to the coordinates of the splats.
    pub splats_from_dataset: Similarity,
    /// Images and renders are compared at `1 / reduction` of their size, by block means; 1 = full size. Co-visible
    /// pixels and haze are always computed at full size.
    pub reduction: u32,
    /// Definition of SSIM, by window and border.
    pub ssim: SsimDefinition,
    /// Metrics to measure.
    pub measures: MetricSet,
    /// LPIPS with its weights, if it is measured.
    pub lpips: Option<Arc<Lpips>>,
}

/// Bytes of an evaluation in addition to its images: the depth maps of training views.
pub(crate) fn depth_map_bytes(dataset: &Dataset) -> u64 {
    DepthMaps::bytes(dataset)
}

/// Output folder of an evaluation.
#[derive(Clone)]
pub struct EvalOutput {
    /// File system that files are written to.
    pub fs: Arc<dyn FileSystem>,
    /// The folder, usually `RUN/eval`.
    pub folder: PathBuf,
    /// Whether files that are not from an evaluation may be overwritten; those of an earlier evaluation always are.
    pub overwrite: Overwrite,
}

impl EvalOutput {
    /// Takes ownership of the folder for the images of these views.
    fn take(&self, dataset: &Dataset, views: &[usize]) -> Result<(), WriteError> {
        let pictures = views.iter().enumerate();
        let pictures = pictures
            .map(|(position, &index)| contact_sheet::file_name(position, &dataset.images[index].name));
        let names = pictures.chain([CONTACT_SHEET, REPORT].map(str::to_owned));
        ownership::claim_for_files(&*self.fs, &self.folder, EVALUATION_MARKER, names, self.overwrite)
    }
}

/// Images announced to the loader in advance.
const LOOKAHEAD: usize = 4;

/// Renders and scores the views of a split with the splats that the engine holds. With `pictures`, writes an image
/// `truth | render | error` per view, a contact sheet and `metrics.json`.
///
/// # Errors
/// The device failed, the folder contains third-party files with the same names, a file could not be written, `stop`
/// was set. Unreadable images are skipped and listed.
pub fn evaluate(
    engine: &mut dyn Engine,
    loader: &Loader,
    options: EvalOptions,
    pictures: Option<EvalOutput>,
    stop: &AtomicBool,
) -> Result<EvalReport, EvalError> {
    let mut evaluation = Evaluation::begin(engine, loader, options, pictures)?;
    while evaluation.next(engine, loader, stop)? {}
    evaluation.finish()
}

/// An evaluation that advances one view at a time, so that its owner can do other work in between. The engine must hold
/// the same splats each time.
pub struct Evaluation {
    options: EvalOptions,
    pictures: Option<EvalOutput>,
    views: Vec<usize>,
    /// Number of finished views.
    done: usize,
    similarity: Similarity,
    surface_options: RenderOptions,
    scorer: Scorer,
    maps: DepthMaps,
    contact_sheet: Option<ContactSheet>,
    records: Vec<EvalRecord>,
    skipped: Vec<SkippedImage>,
    /// Number of valid pixels, and of all pixels.
    pixels: [f64; 2],
    cut_tiles: u64,
    cut_views: u64,
    exposed: u64,
}

impl Evaluation {
    /// Starts an evaluation and takes its folder.
    ///
    /// # Errors
    /// The folder contains third-party files with the same names.
    pub fn begin(
        engine: &dyn Engine,
        loader: &Loader,
        options: EvalOptions,
        pictures: Option<EvalOutput>,
    ) -> Result<Self, EvalError> {
        let dataset = loader.dataset();
        let views: &[usize] = match options.split {
            Split::Train => &dataset.split.train,
            Split::Test => &dataset.split.test,
        };
        let stride = views.len().div_ceil(options.max_views.unwrap_or(usize::MAX).max(1)).max(1);
        let views: Vec<usize> = views.iter().copied().step_by(stride).collect();
        if let Some(to) = &pictures {
            to.take(dataset, &views)?;
        }
        let turn = options.splats_from_dataset;
        let surfaces = RenderOptions { splat_limit: options.scene_splats, ..options.render };
        Ok(Self {
            scorer: Scorer::new(engine.describe().threads),
            maps: DepthMaps::new(Arc::clone(dataset), turn, &surfaces),
            contact_sheet: pictures.as_ref().map(|_| ContactSheet::new(views.len())),
            records: Vec::with_capacity(views.len()),
            skipped: Vec::new(),
            pixels: [0.0; 2],
            cut_tiles: 0,
            cut_views: 0,
            exposed: 0,
            done: 0,
            options,
            pictures,
            views,
            similarity: turn,
            surface_options: surfaces,
        })
    }

    /// Number of finished views, and of all views.
    #[must_use]
    pub fn progress(&self) -> [usize; 2] {
        [self.done, self.views.len()]
    }

    /// Renders and scores the next view; `false` if there is none.
    ///
    /// # Errors
    /// The device failed, a file could not be written, `stop` was set.
    pub fn next(
        &mut self,
        engine: &mut dyn Engine,
        loader: &Loader,
        stop: &AtomicBool,
    ) -> Result<bool, EvalError> {
        let position = self.done;
        let Some(&index) = self.views.get(position) else { return Ok(false) };
        if stop.load(Ordering::Relaxed) {
            return Err(EvalError::Stopped);
        }
        let _span = gausset_prof::span(Stage::Eval.name());
        if position == 0
            && self.options.split == Split::Test
            && let Some(exposures) = &mut self.options.exposures
        {
            exposures.meter(loader, stop);
        }
        loader.prefetch(&self.views[position..self.views.len().min(position + LOOKAHEAD)]);
        match loader.get(index) {
            Ok(target) => self.score(index, &target, engine, loader.dataset(), stop)?,
            Err(why) => {
                self.skipped.push(SkippedImage { name: why.name, reason: why.reason.to_string() });
            }
        }
        self.done += 1;
        Ok(true)
    }

    fn score(
        &mut self,
        index: usize,
        target: &TargetImage,
        engine: &mut dyn Engine,
        dataset: &Dataset,
        stop: &AtomicBool,
    ) -> Result<(), EvalError> {
        let (options, position) = (&self.options, self.done);
        let mut background = options.render.background;
        let image = &dataset.images[index];
        let pose = self.similarity.apply_to_pose(&image.pose);
        let mut rendering = engine.render(&image.camera, &pose, &options.render, Outputs::All)?;
        if let Some(exposures) = &options.exposures {
            let mask = target.mask.as_deref();
            let (gain, is_exposed) = exposures.of_view(index, &image.camera, &rendering.color, mask);
            self.scorer.correct(&gain, &mut rendering);
            background = gain.background(background);
            self.exposed += u64::from(is_exposed);
        }
        self.cut_tiles += rendering.capped_tiles;
        self.cut_views += u64::from(rendering.capped_tiles > 0);
        let size = (rendering.width, rendering.height);
        let full = RenderComparison::new(size, &rendering.color, target, background).map_err(size_error)?;
        let reduced = downsampled((size, &rendering.color), target, options.reduction)?;
        let small = match &reduced {
            Some((size, colours, target)) => {
                Some(RenderComparison::new(*size, colours, target, background).map_err(size_error)?)
            }
            None => None,
        };
        let comparison = small.as_ref().unwrap_or(&full);
        let quality = self.scorer.score(comparison, options.ssim)?;
        let all = image.camera.pixels() as f64;
        self.pixels = [self.pixels[0] + quality.valid_fraction * all, self.pixels[1] + all];
        if let (Some(to), Some(sheet)) = (&self.pictures, &mut self.contact_sheet) {
            let corrected = quality.color_corrected_psnr - quality.psnr > contact_sheet::MIN_SHOWN_GAIN;
            let view = contact_sheet::panels(comparison, corrected);
            let name = contact_sheet::file_name(position, &image.name);
            contact_sheet::save_png(&*to.fs, &to.folder.join(name), &view)?;
            let corrected = corrected.then_some(quality.color_corrected_psnr);
            let psnr = (quality.valid_fraction > 0.0).then_some(quality.psnr);
            let captions = contact_sheet::captions(&image.name, psnr, corrected);
            sheet.add(position, &view, &captions);
        }
        let mut scores = Scores::from_quality(&quality);
        if let Some(lpips) = &options.lpips {
            let target = reduced.as_ref().map_or(target, |(_, _, target)| target);
            let size = [target.width as usize, target.height as usize];
            let (render, truth) = (&comparison.render, &comparison.truth);
            let mask = target.mask.as_deref();
            scores.lpips = finite_or_none(lpips.distance(&self.scorer.pool, size, render, truth, mask));
        }
        if options.measures != MetricSet::ImageOnly {
            let scene = match options.scene_splats {
                Some(_) => &engine.render(&image.camera, &pose, &self.surface_options, Outputs::All)?,
                None => &rendering,
            };
            // Must come first, while the device still holds the projection of this view.
            let mask = target.mask.as_deref();
            let mut queries = haze::depth_queries(&image.camera, &image.pose, &dataset.points, mask);
            // Depths of the dataset, in the unit of the splats.
            queries.iter_mut().for_each(|query| query.depth *= self.similarity.scale as f32);
            let weights = match queries.is_empty() {
                false => engine.weight_in_front(&image.camera, &pose, &self.surface_options, &queries)?,
                true => None,
            };
            scores.haze = weights.and_then(|weights| haze::mean(&weights));
            if options.measures == MetricSet::All {
                let counts = self.maps.confirmations(engine, &self.scorer.pool, index, scene, stop)?;
                let covisible: Vec<u8> =
                    counts.iter().map(|&count| u8::from(count == CONFIRMATIONS)).collect();
                let is_valid = |i: usize| mask.is_none_or(|mask| mask[i] != 0);
                let scarce = (0..counts.len())
                    .filter(|&i| (1..CONFIRMATIONS).contains(&counts[i]) && is_valid(i))
                    .count();
                scores.add_covisible(full.psnr_where(&covisible), scarce, target.valid_pixels());
            }
        }
        self.records.push(EvalRecord {
            name: image.name.to_string(),
            psnr: finite_or_none(quality.psnr),
            ssim: finite_or_none(quality.ssim),
            valid_share: quality.valid_fraction,
            scores,
        });
        Ok(())
    }

    /// What the training views know about the surfaces that they show, from above; `None` if they show none. Positions are
    /// mapped by `saved_from_dataset`.
    ///
    /// # Errors
    /// The device failed, `stop` was set.
    pub fn survey(
        &mut self,
        engine: &mut dyn Engine,
        dataset: &Dataset,
        tracks: &Tracks,
        saved_from_dataset: &Similarity,
        stop: &AtomicBool,
    ) -> Result<Option<ConfidenceReport>, EvalError> {
        let _span = gausset_prof::span(Stage::Eval.name());
        let points = self.maps.survey(engine, &self.scorer.pool, stop)?;
        Ok(ConfidenceReport::new(&points, dataset, tracks, saved_from_dataset))
    }

    /// Returns the report; writes it together with the contact sheet if there is an output folder.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(self) -> Result<EvalReport, EvalError> {
        let _span = gausset_prof::span(Stage::Eval.name());
        let Self { options, pictures, contact_sheet: sheet, pixels, records, .. } = self;
        let report = EvalReport {
            reduction: options.reduction,
            valid_share: if pixels[1] > 0.0 { pixels[0] / pixels[1] } else { 1.0 },
            exposed: self.exposed,
            cut_tiles: self.cut_tiles,
            cut_views: self.cut_views,
            skipped: self.skipped,
            ..EvalReport::new(options.split, options.ssim, records)
        };
        if let (Some(to), Some(sheet)) = (pictures, sheet) {
            if let Some(sheet) = sheet.image() {
                contact_sheet::save_png(&*to.fs, &to.folder.join(CONTACT_SHEET), &sheet)?;
            }
            let json = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
            write_atomic(&*to.fs, &to.folder.join(REPORT), |file| file.write_all(json.as_bytes()))?;
        }
        Ok(report)
    }
}

/// Size, colours and ground truth of an image that is compared at a smaller size.
type DownsampledPair = ((u32, u32), Vec<f32>, TargetImage);

/// A render and its ground truth at `1 / factor` of their size; `None` if the factor is 1.
fn downsampled(
    ((width, height), colours): ((u32, u32), &[f32]),
    target: &TargetImage,
    factor: u32,
) -> Result<Option<DownsampledPair>, EvalError> {
    if factor <= 1 {
        return Ok(None);
    }
    if width.min(height) < factor {
        let what = format!("a picture of {width}x{height} px has no block of {factor}x{factor}");
        return Err(EvalError::Engine(EngineError::InvalidInput(what)));
    }
    let shown: Vec<f32> = colours.iter().map(|value| value.clamp(0.0, 1.0)).collect();
    let colours = target.downscaled_colours(&shown, factor);
    let target = target.downscaled(factor);
    Ok(Some(((target.width, target.height), colours, target)))
}

pub use gausset_io::run_folder::{CONTACT_SHEET, EVALUATION_REPORT as REPORT};

/// The metrics with their buffers.
struct Scorer {
    kernel: LossKernel,
    pool: Pool,
}

impl Scorer {
    /// Metrics on `threads` threads, as many as the renderer uses; one if the device has none.
    fn new(threads: usize) -> Self {
        let level = gausset_compute::fearless_simd::Level::new();
        Self { kernel: LossKernel::new(level), pool: Pool::new(threads.max(1)) }
    }

    /// Applies the correction of an image to its render, as in training.
    fn correct(&self, gain: &Gain, render: &mut Rendering) {
        let mut planes = Planes::from_interleaved(render.width, render.height, &render.color);
        apply_gain(Exec::best(&self.pool), gain, &mut planes);
        render.color = planes.to_interleaved();
    }

    fn score(
        &mut self,
        comparison: &RenderComparison<'_>,
        ssim: SsimDefinition,
    ) -> Result<ImageQuality, EvalError> {
        comparison.quality(&mut self.kernel, &self.pool, ssim).map_err(size_error)
    }
}

fn size_error(error: SizeMismatch) -> EvalError {
    EvalError::Engine(EngineError::InvalidInput(error.to_string()))
}
