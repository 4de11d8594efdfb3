//! Masks of one photograph: detection and dilation.

use std::sync::Arc;

use gausset_io::image::{ImageError, decode_file, read_header, upright};
use gausset_pano::frames::SourceFrame;
use gausset_pano::sphere_mask::REMOVED;
use gausset_pano::sphere_mask::dilate::dilate_pixels;
use gausset_segment::RgbImage;

use super::frame::{FrameError, FrameMasks, StopFlag, Worker, merge_detections, run_model};
use super::report::DetectionRecord;
use super::stages::WorkerStage;
use super::{Dilation, MaskJob};

/// Focal length of a photograph without metadata, relative to its longer side: the default of COLMAP.
const FOCAL: f64 = 1.2;

/// Creates the mask of a photograph.
pub(super) fn photograph(
    job: &MaskJob<'_>,
    source: &SourceFrame,
    worker: &mut Worker,
    host: &StopFlag<'_>,
) -> Result<FrameMasks, FrameError> {
    let Some(file) = source.files.first() else {
        return Err(FrameError::Frame(format!("{}: frame: has no image", source.stem)));
    };
    worker.ledger.switch_to(WorkerStage::Decode);
    let unusable = |e: ImageError| FrameError::Frame(e.to_string());
    let orientation = read_header(file).map_err(unusable)?.orientation;
    // Models expect upright pictures.
    let picture = upright(decode_file(file).map_err(unusable)?, orientation);
    let size @ [width, height] = [picture.width as usize, picture.height as usize];
    let found = run_model(job, &RgbImage { width, height, rgb: &picture.rgb }, worker, host)?;
    worker.ledger.switch_to(WorkerStage::WorkOver);
    let mut keep = merge_detections(&found, size);
    keep.iter_mut().for_each(|k| *k = if *k < REMOVED { 0 } else { 255 });
    let radius = match job.options.dilate {
        Dilation::Pixels(pixels) => pixels,
        Dilation::Degrees(degrees) => FOCAL * width.max(height) as f64 * libm::tan(degrees.to_radians()),
    };
    dilate_pixels(&mut keep, width, radius);
    let removed = keep.iter().filter(|k| **k < REMOVED).count();
    let finds = found.iter().map(|find| DetectionRecord {
        class: job.class(find.class),
        score: f64::from((find.confidence * 100.0).round()) / 100.0,
        yaw: None,
        pitch: None,
        square_degrees: None,
        pixels: Some(find.soft_mask.iter().filter(|s| **s >= 128).count()),
        is_filled: false,
    });
    let finds = finds.collect();
    Ok(FrameMasks {
        masks: vec![(keep, size)],
        rgb: Arc::new(if job.needs_rgb() { vec![picture.rgb] } else { Vec::new() }),
        finds,
        dropped: 0,
        is_unchecked: false,
        removed: removed as f64 / (width * height) as f64,
        orientation,
    })
}
