//! Landmarks of an alignment with their observations, and their transfer to the views of another layout.
//!
//! An observation is a direction of the panorama. In another layout, each view that contains this direction observes
//! the landmark at its projection, so the reprojection error is unchanged as an angle.

use std::collections::BTreeMap;

use gausset_core::{Pose, se3};
use gausset_io::dataset::colmap::{ColmapModel, ColmapPoint};

use crate::cut::split::SplitDescription;
use crate::sphere::aligned::AlignedPoses;
use crate::sphere::geometry::View;
use crate::sphere::rig;

/// Position of a landmark in a view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewObservation {
    /// Index of the frame.
    pub frame: usize,
    /// Index of the view.
    pub view: usize,
    /// Position in the view, px from its top-left corner.
    pub pixel: [f64; 2],
}

/// A landmark with its observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Landmark {
    /// The point; its `track` is empty, because `observations` replace it.
    pub point: ColmapPoint,
    /// Observations, at most one per view of a frame.
    pub observations: Vec<ViewObservation>,
}

impl From<ColmapPoint> for Landmark {
    /// A point without observations.
    fn from(point: ColmapPoint) -> Self {
        Self { point: ColmapPoint { track: Vec::new(), ..point }, observations: Vec::new() }
    }
}

/// Landmarks of a COLMAP model of the views of `description`. The model must have been read with observations.
#[must_use]
pub fn from_model(model: ColmapModel, description: &SplitDescription) -> Vec<Landmark> {
    let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for frame in 0..description.frames.len() {
        for view in 0..description.views.len() {
            places.insert(description.image_name(frame, view), (frame, view));
        }
    }
    let images: BTreeMap<u32, _> = model
        .images
        .iter()
        .filter_map(|image| Some((image.id, (*places.get(&image.name)?, &image.points))))
        .collect();
    let seen = |[image, index]: &[u32; 2]| {
        let ((frame, view), points) = images.get(image)?;
        let (pixel, _) = points.get(*index as usize)?;
        Some(ViewObservation { frame: *frame, view: *view, pixel: *pixel })
    };
    model
        .points
        .iter()
        .map(|point| Landmark {
            observations: point.track.iter().filter_map(seen).collect(),
            point: ColmapPoint { track: Vec::new(), ..point.clone() },
        })
        .collect()
}

/// Transfers landmarks to the views of another split of the same frames. Of several observations in one view, the one
/// with the smallest error is kept.
#[must_use]
pub fn transferred(
    points: Vec<Landmark>,
    source: &SplitDescription,
    target: &SplitDescription,
    poses: &AlignedPoses,
) -> Vec<Landmark> {
    let frames: Vec<Option<usize>> =
        source.frames.iter().map(|name| target.frames.iter().position(|other| other == name)).collect();
    let known: Vec<Option<Pose>> = target
        .frames
        .iter()
        .map(|name| {
            poses.frames.iter().find(|f| f.name == *name).and_then(crate::sphere::aligned::FramePose::pose)
        })
        .collect();
    let is_same = source.views == target.views;
    let mut carried = points;
    for Landmark { point, observations } in &mut carried {
        let mut found: BTreeMap<(usize, usize), (f64, [f64; 2])> = BTreeMap::new();
        for ViewObservation { frame, view, pixel } in observations.iter() {
            let Some(frame) = frames[*frame] else { continue };
            let Some(pano_from_world) = known[frame] else { continue };
            let ray = source.views[*view].ray_in_panorama(pixel[0], pixel[1]);
            for (index, other) in target.views.iter().enumerate() {
                let place = match is_same {
                    true if index == *view => Some(*pixel),
                    true => None,
                    false => project(other, ray),
                };
                let Some(place) = place else { continue };
                let Some(error) = reprojection_error(other, &pano_from_world, point.position, place) else {
                    continue;
                };
                let best = found.entry((frame, index)).or_insert((error, place));
                if error < best.0 {
                    *best = (error, place);
                }
            }
        }
        if !found.is_empty() {
            point.error = found.values().map(|(error, _)| error).sum::<f64>() / found.len() as f64;
        }
        point.track_length = found.len() as u64;
        *observations = found
            .into_iter()
            .map(|((frame, view), (_, pixel))| ViewObservation { frame, view, pixel })
            .collect();
    }
    carried
}

/// Projects a direction of the panorama to a view; `None` outside the image.
fn project(view: &View, direction: [f64; 3]) -> Option<[f64; 2]> {
    let [x, y, z] = se3::transpose_mul_vec(&view.pano_from_camera(), direction);
    let (f, w, h) = (view.focal(), f64::from(view.width), f64::from(view.height));
    let pixel = [f * x / z + 0.5 * w, f * y / z + 0.5 * h];
    (z > 0.0 && (0.0..w).contains(&pixel[0]) && (0.0..h).contains(&pixel[1])).then_some(pixel)
}

/// Reprojection error of a point, px; `None` behind the view.
fn reprojection_error(
    view: &View,
    pano_from_world: &Pose,
    position: [f64; 3],
    pixel: [f64; 2],
) -> Option<f64> {
    let [x, y, z] = rig::cam_from_world(view, pano_from_world).apply(position);
    let f = view.focal();
    let (u, v) = (f * x / z + 0.5 * f64::from(view.width), f * y / z + 0.5 * f64::from(view.height));
    (z > 0.0).then(|| libm::hypot(u - pixel[0], v - pixel[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::split::Naming;
    use crate::sphere::aligned::FramePose;
    use crate::sphere::layout::Layout;
    use crate::sphere::projection::angle_between;

    fn description(layout: Layout) -> SplitDescription {
        SplitDescription {
            views: layout.views(200, 200, None),
            naming: Naming::Rig,
            extension: "jpg".into(),
            frames: vec!["a".into(), "b".into()],
            numbers: vec![],
            lens_axes: None,
            levelled: false,
            needs_conversion: false,
        }
    }

    #[test]
    fn a_sighting_is_the_same_direction_in_every_view_that_looks_there() {
        let (source, target) = (description(Layout::Ring8), description(Layout::Dome16));
        let pose = FramePose {
            name: "b".into(),
            rotation: Some([1.0, 0.0, 0.0, 0.0]),
            translation: Some([0.1, 0.2, 0.3]),
        };
        let poses = AlignedPoses { frames: vec![pose], ..AlignedPoses::default() };
        let position = [1.0, -0.4, 3.0];
        let point =
            ColmapPoint { id: 3, position, colour: [9; 3], error: 7.0, track_length: 2, track: Vec::new() };
        let pixel = {
            let [x, y, z] =
                rig::cam_from_world(&source.views[0], &poses.frames[0].pose().unwrap()).apply(position);
            [100.0 * x / z + 100.5, 100.0 * y / z + 99.75]
        };
        let seen = |frame| ViewObservation { frame, view: 0, pixel };
        // The frame without a pose is omitted.
        let given = vec![Landmark { point, observations: vec![seen(0), seen(1)] }];
        let found = &transferred(given.clone(), &source, &target, &poses)[0];
        let ray = source.views[0].ray_in_panorama(pixel[0], pixel[1]);
        assert!(found.observations.len() >= 4, "{found:?}");
        for ViewObservation { frame, view, pixel } in &found.observations {
            assert_eq!(*frame, 1);
            assert!(angle_between(ray, target.views[*view].ray_in_panorama(pixel[0], pixel[1])) < 1e-12);
        }
        let same = &transferred(given, &source, &source, &poses)[0];
        assert_eq!(same.observations, [seen(1)]);
        assert!((same.point.error - libm::hypot(0.5, 0.25)).abs() < 1e-9, "{same:?}");
        assert_eq!(same.point.track_length, 1);
    }
}
