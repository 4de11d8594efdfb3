//! Last stage of a frame: temporal consistency, dilation, static foreground, keep box; then the masks of its images.

use std::sync::Arc;

use gausset_core::se3::Mat3;
use gausset_pano::sphere_mask::SphereMask;
use gausset_pano::sphere_mask::regions::Region;
use gausset_pano::sphere_mask::temporal::{self, TemporalOptions};

use super::direction::{DetectionDirection, best_match, unit};
use super::frame::{Detections, FrameError, FrameMasks, ImageLayout, Worker};
use super::input::MaskInput;
use super::queue::ReadyFrame;
use super::report::DetectionRecord;
use super::stages::WorkerStage;
use super::{Dilation, MaskJob, resample, rotations};

/// Computes the final masks of a frame.
pub(super) fn finish_frame(
    job: &MaskJob<'_>,
    ready: &ReadyFrame<Detections>,
    worker: &mut Worker,
) -> Result<FrameMasks, FrameError> {
    worker.ledger.switch_to(WorkerStage::WorkOver);
    let options = job.options;
    let Some(own) = ready.neighbours.get(ready.index - ready.first).and_then(Option::as_deref) else {
        return Err(FrameError::End);
    };
    let mut sphere = own.sphere.clone();
    let mut sightings = own.sightings.clone();
    let (dropped, is_alone) = if job.neighbours > 0 {
        apply_temporal_consistency(job, ready, &mut sphere, &mut sightings)
    } else {
        (0, false)
    };
    let finds = if sphere.keeps_all() { Vec::new() } else { sphere.regions() };
    let finds = finds.iter().map(|region| detection_record(job, region, &sightings)).collect();
    if !sphere.keeps_all() {
        if let Dilation::Degrees(degrees) = options.dilate {
            sphere.dilate(degrees);
        }
        if options.feather > 0.0 {
            sphere.feather(options.feather);
        }
    }
    if let Some(still) = job.still {
        sphere.union_with(&still.mask(ready.index, sphere.width, sphere.height));
    }
    if let Some(keep_box) = &options.keep_box {
        let Some(pose) = &job.poses[ready.index] else {
            let frame = &job.input.frames()[ready.index].stem;
            return Err(FrameError::Frame(format!("{frame}: frame: has no pose, which ⟨keep-box⟩ needs")));
        };
        keep_box.remove_outside(pose, &mut sphere);
    }
    let removed = sphere.removed_fraction();
    let masks = match (&own.shown, job.input) {
        (ImageLayout::Views(sizes), MaskInput::Views(_, description, _)) => {
            let views = description.views.iter().zip(sizes);
            views.map(|(view, &[w, h])| (sphere.sample_view(view, w, h), [w, h])).collect()
        }
        (ImageLayout::One(projection), _) => vec![resample::mask_of(&sphere, projection)],
        (ImageLayout::Views(_), _) => Vec::new(),
    };
    let rgb = Arc::clone(&own.rgb);
    Ok(FrameMasks { masks, rgb, finds, dropped, is_unchecked: is_alone, removed, orientation: 1 })
}

/// Drops weak detections that no neighbouring frame confirms, and fills in missed ones. Returns the number of dropped
/// detections, and whether no neighbour could be used because the camera rotation is unknown.
fn apply_temporal_consistency(
    job: &MaskJob<'_>,
    ready: &ReadyFrame<Detections>,
    sphere: &mut SphereMask,
    sightings: &mut Vec<DetectionDirection>,
) -> (usize, bool) {
    let size = [sphere.width, sphere.height];
    let of = |looked: &Detections| -> Vec<temporal::Detection> {
        let parts = if looked.sphere.keeps_all() { Vec::new() } else { looked.sphere.regions() };
        let find = |region: Region| {
            let named = best_match(&region, &looked.sightings);
            let (confidence, class) = named.map_or((0.0, 0), |sighting| (sighting.score, sighting.class));
            let middle = unit(region.centre);
            temporal::Detection { region: Region { centre: middle, ..region }, confidence, class }
        };
        parts.into_iter().map(find).collect()
    };
    // Frames of another size cannot be compared.
    let same = |looked: &&Detections| [looked.sphere.width, looked.sphere.height] == size;
    let around: Vec<Option<&Detections>> =
        ready.neighbours.iter().map(|looked| looked.as_deref().filter(same)).collect();
    let finds: Vec<Vec<temporal::Detection>> =
        around.iter().map(|looked| looked.map_or_else(Vec::new, of)).collect();
    let finds: Vec<&[temporal::Detection]> = finds.iter().map(Vec::as_slice).collect();
    let turn = |place: usize| {
        let before = place.checked_sub(1)?;
        camera_rotation(job, ready.first + place, around[before]?, around[place]?)
    };
    let turns: Vec<Option<Mat3>> = (0..around.len()).map(turn).collect();
    let how = TemporalOptions { max_gap: job.neighbours, ..TemporalOptions::default() };
    let at = ready.index - ready.first;
    let settled = temporal::consistent_frame(&finds, &turns, at, size, &how);
    for (index, find) in finds[at].iter().enumerate() {
        if !settled.kept.contains(&index) {
            sphere.keep(&find.region);
        }
    }
    for find in &settled.interpolated {
        sphere.remove(&find.region);
        sightings.push(DetectionDirection {
            class: find.class,
            score: find.confidence,
            direction: unit(find.region.centre),
            is_filled: true,
        });
    }
    let is_alone = around.len() > 1 && turns[at].is_none() && turns.get(at + 1).is_none_or(Option::is_none);
    (finds[at].len() - settled.kept.len(), is_alone)
}

/// Camera rotation from the previous frame to this one.
fn camera_rotation(job: &MaskJob<'_>, index: usize, before: &Detections, own: &Detections) -> Option<Mat3> {
    job.rotations[index].or_else(|| {
        *own.rotation
            .get_or_init(|| rotations::estimate_rotation(before.small.as_ref()?, own.small.as_ref()?))
    })
}

fn detection_record(job: &MaskJob<'_>, region: &Region, sightings: &[DetectionDirection]) -> DetectionRecord {
    let [x, y, z] = unit(region.centre);
    let named = best_match(region, sightings);
    let round = |v: f64| (v * 100.0).round() / 100.0;
    DetectionRecord {
        class: named.map_or_else(String::new, |s| job.class(s.class)),
        score: named.map_or(0.0, |s| round(f64::from(s.score))),
        yaw: Some(round(libm::atan2(x, z).to_degrees())),
        pitch: Some(round(libm::atan2(-y, libm::hypot(x, z)).to_degrees())),
        square_degrees: Some(round(region.area_square_degrees)),
        pixels: None,
        is_filled: named.is_some_and(|s| s.is_filled),
    }
}
