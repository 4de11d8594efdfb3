//! The built-in aligner of photographs and films: groups them by camera, reads and reduces them, and builds a model from
//! the result of [`reconstruction`](crate::reconstruction).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::{Exec, Pool};
use gausset_io::dataset::CameraModel;
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel};
use gausset_io::image::area_filter::downscale;
use gausset_io::image::exif::FILM_DIAGONAL;
use gausset_io::image::{ImageHeader, decode_file, read_exif, read_header};

use crate::align::{AlignError, AlignJob, AlignProgress, Alignment, CameraSharing};
use crate::built_in::{
    Projector, add_landmarks, finished, frame_facts, keep_of, no_frame_registered, report_stage,
};
use crate::model::CheckedModel;
use crate::reconstruction::features::{self, Features, ViewImage};
use crate::reconstruction::{
    PictureCamera, Pictures, Reconstruction, ReconstructionOptions, near_pairs, reconstruct_pictures,
};
use crate::tool::AlignmentTool;
use crate::work_cache::WorkCache;

/// Most features of a photograph.
const FEATURES: usize = 4096;
/// Largest number of photographs. Memory of each: 0.75 MB of features (4,096 of 184 bytes), 0.07 MB to compare the largest,
/// and about as much again of matches and tracks with up to 56 others: 1.5 MB were measured, so 2,500 take 3.8 GB. Only the
/// matrix of the adjustment may grow with the square: 288 bytes for two poses that share points, 0.9 GB if all do.
const PHOTOGRAPHS: usize = 2500;
/// Largest number of pairs that are given: all of 1,000 photographs, about 0.5 GB of matches if most share little.
const PAIRS: usize = 500_000;
/// Attempts with different random numbers, and the fraction of photographs with a pose that ends them: of 14 photographs of a
/// building, one seed registers 8 and others all. Matches are not made again.
const ATTEMPTS: u32 = 3;
const ENOUGH: f64 = 0.9;
/// Largest error of a feature, px of the reduced photograph.
const TOLERANCE: f64 = 2.0;

/// Aligns photographs without an external program.
pub(crate) fn align(
    job: &AlignJob,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<Alignment, AlignError> {
    let frames = job.frames.len();
    if frames > PHOTOGRAPHS {
        return Err(AlignError::TooManyFrames { frames, limit: PHOTOGRAPHS });
    }
    if let Some(pairs) = job.pairs.count(frames).filter(|&pairs| pairs > PAIRS) {
        return Err(AlignError::TooManyPairs { pairs, limit: PAIRS });
    }
    let model = CameraModel::from_name(&job.camera_model)
        .filter(|model| AlignmentTool::BUILT_IN_CAMERAS.contains(model))
        .ok_or_else(|| AlignError::CameraModel { model: job.camera_model.clone() })?;
    let pictures = cameras_of(job, model)?;
    let pool = Pool::new(job.threads);
    let exec = Exec::best(&pool);
    let cache =
        WorkCache::open(job, &format!("{FEATURES} features, pictures of at most {} px", job.max_image_size))?;
    let mut frames = features_of(job, &pictures, &cache, exec, stop, tell)?;
    let mut best: Option<(usize, Reconstruction, Pictures)> = None;
    for attempt in 0..ATTEMPTS {
        let options = ReconstructionOptions {
            tolerance: TOLERANCE,
            is_sequence: job.is_sequence,
            seed: job.seed.wrapping_add(attempt),
        };
        let mut progress = |progress: crate::reconstruction::Progress| report_stage(tell, progress);
        let mut pictures = pictures.clone();
        let (features, cameras) = (&mut frames, &mut pictures);
        let found = reconstruct_pictures(features, cameras, options, Some(&cache), exec, stop, &mut progress)
            .map_err(|_| AlignError::Stopped)?;
        let registered = found.poses.iter().flatten().count();
        if best.as_ref().is_none_or(|(most, ..)| registered > *most) {
            best = Some((registered, found, pictures));
        }
        if registered as f64 >= ENOUGH * frames.len() as f64 {
            break;
        }
    }
    let Some((_, found, pictures)) = best else { return Err(no_frame_registered(job, &[])) };
    let model = model_of(job, &pictures, &frames, &found)?;
    finished(job, model, frame_facts(&frames, &found))
}

/// The cameras of the photographs.
fn cameras_of(job: &AlignJob, model: CameraModel) -> Result<Pictures, AlignError> {
    let mut groups: BTreeMap<String, u32> = BTreeMap::new();
    let mut pictures = Pictures {
        cameras: Vec::new(),
        known_focals: Vec::new(),
        reductions: Vec::new(),
        camera_of: Vec::new(),
        pairs: job.pairs.clone(),
        near: near_pairs(&job.ground_positions),
    };
    for frame in &job.frames {
        let name = &frame.images[0];
        let path = job.image_folder.join(name);
        let mut header = read_header(&path)?;
        let about = job.metadata.get(name);
        if let Some(original) = about.and_then(|original| read_header(original).ok()) {
            header.focal_35mm = original.focal_35mm;
        }
        let folder = Path::new(name).parent().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        let of_group = match job.cameras {
            CameraSharing::Single => String::new(),
            // A folder may hold several lenses, or one that zooms.
            CameraSharing::PerFolder | CameraSharing::Auto => {
                let exif = read_exif(about.unwrap_or(&path)).unwrap_or_default();
                let folder = if job.cameras == CameraSharing::Auto { String::new() } else { folder };
                format!("{folder} {:?} {:?} {:?}", exif.make, exif.model, header.focal_35mm)
            }
        };
        let key = format!("{}x{} {of_group}", header.width, header.height);
        let next = pictures.cameras.len() as u32;
        let camera = *groups.entry(key).or_insert(next);
        if camera == next {
            let [width, height] = [header.width, header.height];
            let focal = focal_of_metadata(&header);
            let side = f64::from(width.max(height));
            let plain = PictureCamera { model, ..PictureCamera::new(width, height, 1.0) };
            pictures.cameras.push(PictureCamera { focal: focal.unwrap_or(plain.default_focal()), ..plain });
            pictures.known_focals.push(focal);
            pictures.reductions.push((side / f64::from(job.max_image_size.max(1))).max(1.0));
        }
        pictures.camera_of.push(camera);
    }
    Ok(pictures)
}

/// Focal length in px that the metadata of a picture state.
#[must_use]
pub fn focal_of_metadata(header: &ImageHeader) -> Option<f64> {
    let diagonal = libm::hypot(f64::from(header.width), f64::from(header.height));
    header.focal_35mm.map(|mm| mm / FILM_DIAGONAL * diagonal)
}

/// Number of photographs whose features are extracted at the same time: one for each thread, within half of the memory.
fn photographs_at_once(cameras: &[PictureCamera], reductions: &[f64], threads: usize, memory: u64) -> usize {
    // Of a stored pixel, and of a reduced one with its scale space and differences.
    const BYTES: [f64; 2] = [3.0, 220.0];
    let bytes = |(camera, reduction): (&PictureCamera, &f64)| {
        let pixels = f64::from(camera.width) * f64::from(camera.height);
        pixels * (BYTES[0] + BYTES[1] / (reduction * reduction))
    };
    let largest = cameras.iter().zip(reductions).map(bytes).fold(1.0, f64::max);
    threads.min((0.5 * memory as f64 / largest) as usize).max(1)
}

/// Features of all photographs.
fn features_of(
    job: &AlignJob,
    pictures: &Pictures,
    cache: &WorkCache<'_>,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<Vec<Features>, AlignError> {
    let count = job.frames.len();
    let mut all = Vec::with_capacity(count);
    let memory = gausset_compute::machine::memory_bytes().unwrap_or(4 << 30);
    let together = photographs_at_once(&pictures.cameras, &pictures.reductions, job.threads, memory);
    for first in (0..count).step_by(together) {
        let batch = first..(first + together).min(count);
        tell(&AlignProgress {
            stage: "features".to_owned(),
            done: first as u64,
            total: count as u64,
            recipe: 0,
        });
        let slots: Vec<Mutex<Option<Result<Features, AlignError>>>> =
            batch.clone().map(|_| Mutex::default()).collect();
        exec.pool.run(batch.len(), |at, _| {
            let frame = batch.start + at;
            let result = if stop.load(Ordering::Relaxed) {
                Err(AlignError::Stopped)
            } else {
                let camera = pictures.camera_of[frame] as usize;
                let (camera, reduction) = (&pictures.cameras[camera], pictures.reductions[camera]);
                cache.features(frame, || features_of_picture(job, frame, camera, reduction, exec))
            };
            if let Ok(mut slot) = slots[at].lock() {
                *slot = Some(result);
            }
        });
        for slot in slots {
            if let Ok(Some(result)) = slot.into_inner() {
                all.push(result?);
            }
        }
    }
    Ok(all)
}

fn features_of_picture(
    job: &AlignJob,
    frame: usize,
    camera: &PictureCamera,
    reduction: f64,
    exec: Exec<'_>,
) -> Result<Features, AlignError> {
    let name = &job.frames[frame].images[0];
    let path = job.image_folder.join(name);
    let picture = decode_file(&path)?;
    let (found, expected) = ([picture.width, picture.height], [camera.width, camera.height]);
    if found != expected {
        return Err(AlignError::ImageSize { path, found, expected });
    }
    let size = found.map(|side| (f64::from(side) / reduction).round().max(1.0) as u32);
    let picture = downscale(picture, size[0], size[1]);
    let mask = visible(keep_of(job, name, size)?, picture.alpha);
    let picture = ViewImage { width: size[0], height: size[1], rgb: picture.rgb, mask };
    let scale = f64::from(camera.width) / f64::from(size[0]);
    Ok(features::extract_from_picture(&picture, camera, scale, FEATURES, exec.level))
}

/// Pixels that a mask keeps and that are not transparent: 0 = ignore.
fn visible(mask: Option<Vec<u8>>, alpha: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match (mask, alpha) {
        (Some(mask), Some(alpha)) => Some(mask.into_iter().zip(alpha).map(|(keep, a)| keep.min(a)).collect()),
        (mask, alpha) => mask.or(alpha),
    }
}

/// Builds the model of a reconstruction: a camera for each group, an image for each registered photograph.
fn model_of(
    job: &AlignJob,
    pictures: &Pictures,
    frames: &[Features],
    found: &Reconstruction,
) -> Result<CheckedModel, AlignError> {
    let cameras =
        (1..).zip(&pictures.cameras).map(|(id, camera)| camera.source(id)).collect::<Result<_, _>>();
    let mut model = CheckedModel { colmap: ColmapModel::default(), image_of_frame: BTreeMap::new() };
    model.colmap.cameras = cameras.map_err(|_| no_frame_registered(job, &[]))?;
    let mut first = vec![0; frames.len()];
    for (frame, pose) in found.poses.iter().enumerate() {
        let Some(pose) = pose else { continue };
        first[frame] = model.colmap.images.len();
        model.image_of_frame.insert(frame, first[frame]);
        let (id, name) = (model.colmap.images.len() as u32 + 1, job.frames[frame].images[0].clone());
        model.colmap.images.push(ColmapImage::new(id, name, pictures.camera_of[frame] + 1, pose));
    }
    let project: Projector<'_> =
        &|frame, _, point| pictures.cameras[pictures.camera_of[frame] as usize].project(point);
    add_landmarks(&mut model, frames, found, &first, project);
    Ok(model)
}

#[cfg(test)]
mod tests {
    use gausset_io::image::encode::{PngPixels, png};

    use super::*;
    use crate::align::tests::job_in;
    use crate::model::FrameImages;

    #[test]
    fn photographs_at_once_take_half_of_the_memory() {
        let at_once = |sizes: &[[u32; 2]], threads, memory| {
            let camera = |&[width, height]: &[u32; 2]| PictureCamera::new(width, height, 1.0);
            let cameras: Vec<PictureCamera> = sizes.iter().map(camera).collect();
            let reductions: Vec<f64> = sizes.iter().map(|size| f64::from(size[0]) / 2400.0).collect();
            photographs_at_once(&cameras, &reductions, threads, memory)
        };
        assert_eq!(at_once(&[[2400, 1800]], 128, 32 << 30), 17);
        assert_eq!(at_once(&[[2400, 1800], [9600, 7200]], 128, 32 << 30), 14);
        assert_eq!(at_once(&[[2400, 1800]], 8, 32 << 30), 8);
        assert_eq!(at_once(&[[2400, 1800]], 8, 1 << 20), 1);
    }

    #[test]
    fn transparent_pixels_have_no_features_whatever_their_colour() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("images")).unwrap();
        let (width, height) = (160u32, 120u32);
        let pixel = |at: u32| {
            let (x, y) = (at % width, at / width);
            // Blots of different sizes and values.
            let value = ((x / 9).wrapping_mul(37) ^ (y / 7).wrapping_mul(91)).wrapping_mul(0x9E37) as u8;
            [value, value, value, if x < width / 2 { 255 } else { 0 }]
        };
        let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
        let bytes = png(width, height, PngPixels::Rgba8(&pixels), &[]).unwrap();
        std::fs::write(place.path().join("images/a.png"), bytes).unwrap();
        let images = vec!["a.png".to_owned()];
        let job = job_in(place.path(), vec![FrameImages { name: "a.png".to_owned(), images }]);
        let pool = Pool::new(1);
        for reduction in [1.0, 2.0] {
            let camera = PictureCamera::new(width, height, 100.0);
            let found = features_of_picture(&job, 0, &camera, reduction, Exec::best(&pool)).unwrap();
            let right = found.features.iter().map(|feature| feature.pixel[0]).fold(0.0, f64::max);
            assert!(found.features.len() > 5 && right <= 81.0, "{} to {right}", found.features.len());
        }
    }
}
