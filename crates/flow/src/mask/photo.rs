//! Masks of one photograph: detection and dilation.

use std::sync::Arc;

use gausset_pano::frames::SourceFrame;
use gausset_pano::sphere_mask::REMOVED;
use gausset_pano::sphere_mask::dilate::dilate_pixels;
use gausset_segment::Picture;

use super::frame::{HostView, Outcome, Trouble, Worker, find, united};
use super::report::MaskedFind;
use super::stages::Doing;
use super::{Job, Reach};

/// Focal length of a photograph without metadata, relative to its longer side: the default of COLMAP.
const FOCAL: f64 = 1.2;

/// Creates the mask of a photograph.
pub(super) fn photograph(
    job: &Job<'_>,
    source: &SourceFrame,
    worker: &mut Worker,
    host: &HostView<'_>,
) -> Result<Outcome, Trouble> {
    let Some(file) = source.files.first() else {
        return Err(Trouble::Frame(format!("{}: frame: has no image", source.stem)));
    };
    worker.ledger.turn_to(Doing::Decode);
    let picture = gausset_io::image::decode_file(file).map_err(|e| Trouble::Frame(e.to_string()))?;
    let size @ [width, height] = [picture.width as usize, picture.height as usize];
    let found = find(job, &Picture { width, height, rgb: &picture.rgb }, worker, host)?;
    worker.ledger.turn_to(Doing::WorkOver);
    let mut keep = united(&found, size);
    keep.iter_mut().for_each(|k| *k = if *k < REMOVED { 0 } else { 255 });
    let radius = match job.options.dilate {
        Reach::Pixels(pixels) => pixels,
        Reach::Degrees(degrees) => FOCAL * width.max(height) as f64 * libm::tan(degrees.to_radians()),
    };
    dilate_pixels(&mut keep, width, radius);
    let removed = keep.iter().filter(|k| **k < REMOVED).count();
    let finds = found.iter().map(|find| MaskedFind {
        class: job.class(find.class),
        score: f64::from((find.score * 100.0).round()) / 100.0,
        yaw: None,
        pitch: None,
        square_degrees: None,
        pixels: Some(find.soft.iter().filter(|s| **s >= 128).count()),
        is_filled: false,
    });
    let finds = finds.collect();
    Ok(Outcome {
        masks: vec![(keep, size)],
        rgb: Arc::new(if job.wants_pictures() { vec![picture.rgb] } else { Vec::new() }),
        finds,
        dropped: 0,
        is_alone: false,
        removed: removed as f64 / (width * height) as f64,
    })
}
