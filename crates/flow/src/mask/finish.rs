//! Last stage of a frame: temporal consistency, dilation, static foreground, keep box; then the masks of its images.

use std::sync::Arc;

use gausset_core::se3::Mat3;
use gausset_pano::sphere_mask::SphereMask;
use gausset_pano::sphere_mask::over_time::{self, OverTime};
use gausset_pano::sphere_mask::regions::Region;

use super::frame::{Looked, Outcome, Shown, Trouble, Worker};
use super::input::Input;
use super::queue::Ready;
use super::report::MaskedFind;
use super::sighting::{Sighting, namesake, unit};
use super::stages::Doing;
use super::{Job, Reach, paint, turns};

/// Computes the final masks of a frame.
pub(super) fn finish(job: &Job<'_>, ready: &Ready<Looked>, worker: &mut Worker) -> Result<Outcome, Trouble> {
    worker.ledger.turn_to(Doing::WorkOver);
    let options = job.options;
    let Some(own) = ready.around.get(ready.index - ready.first).and_then(Option::as_deref) else {
        return Err(Trouble::End);
    };
    let mut sphere = own.sphere.clone();
    let mut sightings = own.sightings.clone();
    let (dropped, is_alone) =
        if job.reach > 0 { settle(job, ready, &mut sphere, &mut sightings) } else { (0, false) };
    let finds = if sphere.keeps_all() { Vec::new() } else { sphere.regions() };
    let finds = finds.iter().map(|region| described(job, region, &sightings)).collect();
    if !sphere.keeps_all() {
        if let Reach::Degrees(degrees) = options.dilate {
            sphere.dilate(degrees);
        }
        if options.feather > 0.0 {
            sphere.feather(options.feather);
        }
    }
    if let Some(still) = job.still {
        sphere.unite(&still.mask(ready.index, sphere.width, sphere.height));
    }
    if let Some(keep_box) = &options.keep_box {
        let Some(pose) = &job.poses[ready.index] else {
            let frame = &job.input.frames()[ready.index].stem;
            return Err(Trouble::Frame(format!("{frame}: frame: has no pose, which ⟨keep-box⟩ needs")));
        };
        keep_box.remove_outside(pose, &mut sphere);
    }
    let removed = sphere.removed_share();
    let masks = match (&own.shown, job.input) {
        (Shown::Views(sizes), Input::Views(_, description, _)) => {
            let views = description.views.iter().zip(sizes);
            views.map(|(view, &[w, h])| (sphere.cut(view, w, h), [w, h])).collect()
        }
        (Shown::One(projection), _) => vec![paint::mask_of(&sphere, projection)],
        (Shown::Views(_), _) => Vec::new(),
    };
    Ok(Outcome { masks, rgb: Arc::clone(&own.rgb), finds, dropped, is_alone, removed })
}

/// Drops weak detections that no neighbouring frame confirms, and fills in missed ones. Returns the number of dropped
/// detections, and whether no neighbour could be used because the camera rotation is unknown.
fn settle(
    job: &Job<'_>,
    ready: &Ready<Looked>,
    sphere: &mut SphereMask,
    sightings: &mut Vec<Sighting>,
) -> (usize, bool) {
    let size = [sphere.width, sphere.height];
    let of = |looked: &Looked| -> Vec<over_time::Find> {
        let parts = if looked.sphere.keeps_all() { Vec::new() } else { looked.sphere.regions() };
        let find = |region: Region| {
            let named = namesake(&region, &looked.sightings);
            let (confidence, class) = named.map_or((0.0, 0), |sighting| (sighting.score, sighting.class));
            let middle = unit(region.middle);
            over_time::Find { region: Region { middle, ..region }, confidence, class }
        };
        parts.into_iter().map(find).collect()
    };
    // Frames of another size cannot be compared.
    let same = |looked: &&Looked| [looked.sphere.width, looked.sphere.height] == size;
    let around: Vec<Option<&Looked>> =
        ready.around.iter().map(|looked| looked.as_deref().filter(same)).collect();
    let finds: Vec<Vec<over_time::Find>> =
        around.iter().map(|looked| looked.map_or_else(Vec::new, of)).collect();
    let finds: Vec<&[over_time::Find]> = finds.iter().map(Vec::as_slice).collect();
    let turn = |place: usize| {
        let before = place.checked_sub(1)?;
        turn(job, ready.first + place, around[before]?, around[place]?)
    };
    let turns: Vec<Option<Mat3>> = (0..around.len()).map(turn).collect();
    let how = OverTime { frames: job.reach, ..OverTime::default() };
    let at = ready.index - ready.first;
    let settled = over_time::settled(&finds, &turns, at, size, &how);
    for (index, find) in finds[at].iter().enumerate() {
        if !settled.kept.contains(&index) {
            sphere.keep(&find.region);
        }
    }
    for find in &settled.filled {
        sphere.remove(&find.region);
        sightings.push(Sighting {
            class: find.class,
            score: find.confidence,
            towards: unit(find.region.middle),
            is_filled: true,
        });
    }
    let is_alone = around.len() > 1 && turns[at].is_none() && turns.get(at + 1).is_none_or(Option::is_none);
    (finds[at].len() - settled.kept.len(), is_alone)
}

/// Camera rotation from the previous frame to this one.
fn turn(job: &Job<'_>, index: usize, before: &Looked, own: &Looked) -> Option<Mat3> {
    job.turns[index]
        .or_else(|| *own.turn.get_or_init(|| turns::between(before.small.as_ref()?, own.small.as_ref()?)))
}

fn described(job: &Job<'_>, region: &Region, sightings: &[Sighting]) -> MaskedFind {
    let [x, y, z] = unit(region.middle);
    let named = namesake(region, sightings);
    let round = |v: f64| (v * 100.0).round() / 100.0;
    MaskedFind {
        class: named.map_or_else(String::new, |s| job.class(s.class)),
        score: named.map_or(0.0, |s| round(f64::from(s.score))),
        yaw: Some(round(libm::atan2(x, z).to_degrees())),
        pitch: Some(round(libm::atan2(-y, libm::hypot(x, z)).to_degrees())),
        square_degrees: Some(round(region.square_degrees)),
        pixels: None,
        is_filled: named.is_some_and(|s| s.is_filled),
    }
}
