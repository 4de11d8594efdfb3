//! The built-in aligner. Photographs: [`photographs`](crate::photographs). Panoramas: reads the views that were cut from them and builds a model from the result of
//! [`reconstruction`](crate::reconstruction), with the same cameras, images, points and observations as a model of COLMAP.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::reconstruction::features::{self, Features, ViewImage};
use crate::reconstruction::{PanoView, Progress, Reconstruction, ReconstructionOptions, Stage, reconstruct};
use gausset_compute::{Exec, Pool};
use gausset_core::{Pose, matrix};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint};
use gausset_io::dataset::{CameraModel, SourceCamera};
use gausset_io::image::{decode_file, decode_mask_file, read_header, stored_mask_turn, upright_mask};

use crate::align::{AlignError, AlignJob, AlignProgress, Alignment, FrameFacts};
use crate::model::CheckedModel;
use crate::photographs;
use crate::work_cache::WorkCache;

/// Most features of a panorama.
const FEATURES: usize = 12_000;
/// Largest error of a bearing, px of a view.
const TOLERANCE: f64 = 2.0;
/// Largest number of panoramas: more were not tried, and features of all are in memory (12,000 of 184 bytes each).
const FRAMES: usize = 1000;

/// Aligns views of panoramas without an external program.
pub(crate) fn align(
    job: &AlignJob,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<Alignment, AlignError> {
    if job.views.is_empty() {
        return photographs::align(job, stop, tell);
    }
    let nothing = || no_frame_registered(job, &[]);
    let Some(sharpest) = job.views.iter().map(|view| view.focal).reduce(f64::max) else {
        return Err(nothing());
    };
    if job.frames.len() > FRAMES {
        return Err(AlignError::TooManyFrames { frames: job.frames.len(), limit: FRAMES });
    }
    let pool = Pool::new(job.threads);
    let exec = Exec::best(&pool);
    let cache = WorkCache::open(job, &format!("{FEATURES} features of views {:?}", job.views))?;
    let mut frames = Vec::with_capacity(job.frames.len());
    for frame in 0..job.frames.len() {
        let (done, total) = (frame as u64, job.frames.len() as u64);
        tell(&AlignProgress { stage: "features".to_owned(), done, total, recipe: 0 });
        frames.push(cache.features(frame, || features_of(job, frame, exec, stop))?);
    }
    let options = ReconstructionOptions {
        tolerance: TOLERANCE / sharpest,
        is_sequence: job.is_sequence,
        seed: job.seed,
    };
    let mut progress = |progress: Progress| report_stage(tell, progress);
    let found = reconstruct(&frames, options, Some(&cache), exec, stop, &mut progress)
        .map_err(|_| AlignError::Stopped)?;
    let model = model_of(job, &frames, &found)?;
    finished(job, model, frame_facts(&frames, &found))
}

/// Facts of frames from their features and their pairs.
pub(crate) fn frame_facts(frames: &[Features], found: &Reconstruction) -> Vec<FrameFacts> {
    let mut partners = vec![Vec::new(); frames.len()];
    for &[a, b] in &found.pairs {
        partners[a].push(b);
        partners[b].push(a);
    }
    partners.iter_mut().for_each(|list| list.sort_unstable());
    let facts = |((frame, partners), tried): ((&Features, _), &usize)| FrameFacts {
        features: Some(frame.features.len()),
        tried: Some(*tried),
        partners: Some(partners),
    };
    frames.iter().zip(partners).zip(&found.tried).map(facts).collect()
}

/// The alignment with a model, unless that is empty.
pub(crate) fn finished(
    job: &AlignJob,
    model: CheckedModel,
    frames: Vec<FrameFacts>,
) -> Result<Alignment, AlignError> {
    if model.image_of_frame.is_empty() {
        return Err(no_frame_registered(job, &frames));
    }
    Ok(Alignment { model, recipe: 0, database: None, frames })
}

/// Reports the progress of a reconstruction.
pub(crate) fn report_stage(tell: &mut dyn FnMut(&AlignProgress), progress: Progress) {
    let stage = match progress.stage {
        Stage::Pairs => "pairs",
        Stage::Matching => "matching",
        Stage::Mapping => "mapping",
    };
    let (done, total) = (progress.done as u64, progress.total as u64);
    tell(&AlignProgress { stage: stage.to_owned(), done, total, recipe: 0 });
}

pub(crate) fn no_frame_registered(job: &AlignJob, facts: &[FrameFacts]) -> AlignError {
    let is_unmatched = |facts: &FrameFacts| facts.partners.as_ref().is_some_and(Vec::is_empty);
    let unmatched = job.frames.iter().zip(facts).filter(|(_, facts)| is_unmatched(facts));
    AlignError::NoFrameRegistered {
        images: job.image_folder.clone(),
        frames: job.frames.len(),
        unmatched: unmatched.map(|(frame, _)| frame.name.clone()).collect(),
    }
}

/// Features of all views of a frame.
fn features_of(
    job: &AlignJob,
    frame: usize,
    exec: Exec<'_>,
    stop: &AtomicBool,
) -> Result<Features, AlignError> {
    let names = &job.frames[frame].images;
    let limit = FEATURES / names.len().max(1);
    let found: Vec<Mutex<Option<Result<Features, AlignError>>>> =
        names.iter().map(|_| Mutex::default()).collect();
    exec.pool.run(names.len(), |view, _| {
        let result = if stop.load(Ordering::Relaxed) {
            Err(AlignError::Stopped)
        } else {
            read(job, &job.views[view], &names[view])
                .map(|picture| features::extract(&job.views, view, &picture, limit, exec.level))
        };
        if let Ok(mut slot) = found[view].lock() {
            *slot = Some(result);
        }
    });
    let mut all = Features::default();
    for slot in found {
        if let Ok(Some(result)) = slot.into_inner() {
            all.append(result?);
        }
    }
    Ok(all)
}

/// Reads a view and its mask.
fn read(job: &AlignJob, view: &PanoView, name: &str) -> Result<ViewImage, AlignError> {
    let path = job.image_folder.join(name);
    let picture = decode_file(&path)?;
    let (found, expected) = ([picture.width, picture.height], [view.width, view.height]);
    if found != expected {
        return Err(AlignError::ImageSize { path, found, expected });
    }
    let mask = keep_of(job, name, found)?;
    Ok(ViewImage { width: picture.width, height: picture.height, rgb: picture.rgb, mask })
}

/// Reads the mask of an image, with the axes of the image as stored and scaled to `size`; `None` if it has none.
pub(crate) fn keep_of(job: &AlignJob, name: &str, size: [u32; 2]) -> Result<Option<Vec<u8>>, AlignError> {
    let Some(path) = job.masks.get(name) else { return Ok(None) };
    let image = read_header(&job.image_folder.join(name))?;
    let mask = decode_mask_file(path)?;
    let turn = stored_mask_turn([mask.width, mask.height], [image.width, image.height], image.orientation);
    let mut keep = upright_mask(mask, turn).resampled(size[0], size[1]);
    if job.invert_masks {
        keep.iter_mut().for_each(|keep| *keep = 255 - *keep);
    }
    Ok(Some(keep))
}

/// Builds the model of a reconstruction: a pinhole camera for each view, an image for each view of each registered
/// frame.
fn model_of(job: &AlignJob, frames: &[Features], found: &Reconstruction) -> Result<CheckedModel, AlignError> {
    let camera = |(index, view): (usize, &PanoView)| {
        let params = vec![view.focal, view.focal, 0.5 * f64::from(view.width), 0.5 * f64::from(view.height)];
        SourceCamera::new(
            index as u32 + 1,
            CameraModel::Pinhole,
            view.width.into(),
            view.height.into(),
            params,
        )
    };
    let cameras = job.views.iter().enumerate().map(camera).collect::<Result<Vec<_>, _>>();
    let mut model =
        CheckedModel { colmap: ColmapModel::default(), image_of_frame: std::collections::BTreeMap::new() };
    // The views come from a split, so their cameras are valid.
    model.colmap.cameras = cameras.map_err(|_| AlignError::NoFrameRegistered {
        images: job.image_folder.clone(),
        frames: job.frames.len(),
        unmatched: Vec::new(),
    })?;
    let mut first = vec![0; frames.len()];
    for (frame, pose) in found.poses.iter().enumerate() {
        let Some(pose) = pose else { continue };
        first[frame] = model.colmap.images.len();
        model.image_of_frame.insert(frame, first[frame]);
        for (index, (view, name)) in job.views.iter().zip(&job.frames[frame].images).enumerate() {
            let view_from_pano =
                Pose { rotation: matrix::transpose(&view.pano_from_view), translation: [0.0; 3] };
            let pose = view_from_pano.compose(pose);
            let id = model.colmap.images.len() as u32 + 1;
            model.colmap.images.push(ColmapImage::new(id, name.clone(), index as u32 + 1, &pose));
        }
    }
    let project: Projector<'_> = &|_, view, point| job.views[view].pixel(point);
    add_landmarks(&mut model, frames, found, &first, project);
    Ok(model)
}

/// Pixel of a point in the axes of a frame, by frame and view.
pub(crate) type Projector<'a> = &'a dyn Fn(usize, usize, [f64; 3]) -> Option<[f64; 2]>;

/// Adds the landmarks of a reconstruction to the model of its images. `first` = index of the first image of each frame.
pub(crate) fn add_landmarks(
    model: &mut CheckedModel,
    frames: &[Features],
    found: &Reconstruction,
    first: &[usize],
    project: Projector<'_>,
) {
    for (id, point) in (1u64..).zip(&found.landmarks) {
        let mut track = Vec::with_capacity(point.observations.len());
        let (mut error, mut colour) = (0.0, [0u32; 3]);
        for &[frame, feature] in &point.observations {
            let (frame, feature) = (frame as usize, &frames[frame as usize].features[feature as usize]);
            let Some(pose) = found.poses[frame] else { continue };
            let image = &mut model.colmap.images[first[frame] + usize::from(feature.view)];
            track.push([image.id, image.points.len() as u32]);
            image.points.push((feature.pixel, id));
            image.point_count += 1;
            let seen = project(frame, feature.view.into(), pose.apply(point.position));
            error += seen.map_or(0.0, |[x, y]| libm::hypot(x - feature.pixel[0], y - feature.pixel[1]));
            (0..3).for_each(|k| colour[k] += u32::from(feature.colour[k]));
        }
        let count = track.len().max(1);
        model.colmap.points.push(ColmapPoint {
            id,
            position: point.position,
            colour: colour.map(|sum| (sum as usize / count) as u8),
            error: error / count as f64,
            track_length: track.len() as u64,
            track,
        });
    }
}
