//! Places a model on the earth by the GPS positions of its photographs or panoramas.

use std::path::Path;

use gausset_core::Pose;
use gausset_io::dataset::Georeference;
use gausset_io::dataset::georeference::{EarthPlace, GeoreferencedPicture};
use gausset_io::image::upright_pose;
use gausset_pano::metadata::{GpsPosition, Metadata};
use gausset_sfm::georeference::{self, GeoFit};
use gausset_sfm::gps::to_local;
use gausset_sfm::model::{CheckedModel, FrameImages};
use gausset_train::{Up, up};

use crate::{Event, Host};

/// GPS position of a photograph; `None` if it has none or cannot be read.
pub(crate) fn position_of(path: &Path) -> Option<GpsPosition> {
    Metadata::of_file(path).position()
}

/// Metres east and north of the first position, of each frame that has one; empty if none has.
pub(crate) fn ground_positions(
    frames: usize,
    position: &dyn Fn(usize) -> Option<GpsPosition>,
) -> Vec<Option<[f64; 2]>> {
    let positions: Vec<_> = (0..frames).map(position).collect();
    let Some(first) = positions.iter().flatten().next() else { return Vec::new() };
    let origin = [first.latitude, first.longitude, 0.0];
    let on_ground = |at: &GpsPosition| {
        let [east, north, _] = to_local([at.latitude, at.longitude, 0.0], origin);
        [east, north]
    };
    positions.iter().map(|at| at.as_ref().map(on_ground)).collect()
}

/// Fits camera centres to GPS positions; `None` if there are fewer than three, or they do not fit.
pub(crate) fn fit_positions(
    centres: &[[f64; 3]],
    positions: &[GpsPosition],
    up: Option<[f64; 3]>,
) -> Option<GeoFit> {
    let place = |position: &GpsPosition| EarthPlace {
        latitude: position.latitude,
        longitude: position.longitude,
        altitude: position.altitude,
    };
    georeference::fit(centres, &positions.iter().map(place).collect::<Vec<_>>(), up)
}

/// Maps a model to metres east, north and up, if the GPS positions of its frames fit it. Reports whether they do.
/// `orientation` is the EXIF orientation of an image of the model.
pub(crate) fn georeference(
    model: &mut CheckedModel,
    frames: &[FrameImages],
    position: &dyn Fn(usize) -> Option<GpsPosition>,
    orientation: &dyn Fn(&str) -> u8,
    host: &mut Host<'_>,
) -> Option<Georeference> {
    let (mut names, mut centres, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for (&frame, &image) in &model.image_of_frame {
        if let Some(position) = position(frame) {
            names.push(frames[frame].name.clone());
            centres.push(model.pose(image).centre());
            positions.push(position);
        }
    }
    if positions.is_empty() {
        return None;
    }
    // A photograph that was stored on its side does not show up in its pose.
    let images = model.colmap.images.iter().enumerate();
    let poses: Vec<Pose> =
        images.map(|(image, about)| upright_pose(model.pose(image), orientation(&about.name))).collect();
    let fit = fit_positions(&centres, &positions, up::direction(Up::Auto, &poses))?;
    if !fit.quality.is_significant() {
        host.report(Event::NoMetricScale);
        return None;
    }
    model.transform(&fit.similarity);
    let found = describe(fit, names);
    let (positions, residual, left_out) = (found.positions, found.residual_m, found.left_out.clone());
    host.report(Event::MetricScale { positions, residual, left_out });
    Some(found)
}

fn describe(fit: GeoFit, names: Vec<String>) -> Georeference {
    let GeoFit { origin, similarity, residuals, is_used, quality } = fit;
    let pictures = names.into_iter().zip(residuals).zip(is_used);
    let pictures: Vec<GeoreferencedPicture> =
        pictures.map(|((name, residual_m), used)| GeoreferencedPicture { name, residual_m, used }).collect();
    Georeference {
        schema: Georeference::SCHEMA,
        origin,
        scale: similarity.scale,
        rotation: similarity.rotation,
        translation: similarity.translation,
        positions: quality.count,
        residual_m: quality.residual,
        spread_m: quality.spread,
        left_out: pictures.iter().filter(|p| !p.used).map(|p| p.name.clone()).collect(),
        pictures,
    }
}

#[cfg(test)]
mod tests {
    use gausset_core::se3;
    use gausset_io::dataset::colmap::{ColmapImage, ColmapModel};
    use gausset_sfm::gps::to_geodetic;

    use super::*;

    /// A model of `count` photographs that look straight down from 80 m, in other units and axes, and their positions.
    fn flight(count: usize) -> (CheckedModel, Vec<FrameImages>, Vec<GpsPosition>) {
        let turn = se3::rotation_from_quaternion([0.5, -0.5, 0.7, 0.1]);
        let (mut images, mut frames, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for k in 0..count {
            let metres = [10.0 * (k % 3) as f64, 12.0 * (k / 3) as f64, 80.0 + (k % 2) as f64];
            let centre = se3::mul_vec(&turn, metres.map(|v| 0.1 * v));
            // Image axes on the earth: x east, y south, z down.
            let level = [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]];
            let rotation = se3::mul(&level, &se3::transpose(&turn));
            let translation = se3::mul_vec(&rotation, centre).map(|v| -v);
            let name = format!("{k}.jpg");
            images.push(ColmapImage::new(k as u32 + 1, name.clone(), 1, &Pose { rotation, translation }));
            frames.push(FrameImages { name: name.clone(), images: vec![name] });
            let [latitude, longitude, altitude] = to_geodetic(metres, [48.0, 11.0, 400.0]);
            positions.push(GpsPosition { latitude, longitude, altitude: Some(altitude) });
        }
        let colmap = ColmapModel { cameras: Vec::new(), images, points: Vec::new() };
        let image_of_frame = (0..count).map(|k| (k, k)).collect();
        (CheckedModel { colmap, image_of_frame }, frames, positions)
    }

    fn place(count: usize, edit: impl Fn(&mut Vec<GpsPosition>)) -> (CheckedModel, Option<Georeference>) {
        let (mut model, frames, mut positions) = flight(count);
        edit(&mut positions);
        let (stop, mut ignore) = (Default::default(), |_| {});
        let mut host = Host::new(&stop, &mut ignore);
        let found = georeference(&mut model, &frames, &|k| Some(positions[k]), &|_| 1, &mut host);
        (model, found)
    }

    #[test]
    fn a_flight_becomes_metres_east_north_and_up_and_names_what_does_not_fit() {
        let (model, found) = place(9, |positions| positions[4].altitude = Some(0.0));
        let found = found.unwrap();
        assert_eq!(found.left_out, ["4.jpg"]);
        assert!((found.scale - 10.0).abs() < 1e-3 && found.positions == 8, "{found:?}");
        let away = se3::sub(model.pose(7).centre(), model.pose(1).centre());
        assert!((away[0]).abs() < 1e-3 && (away[1] - 24.0).abs() < 1e-3, "north: {away:?}");
        let looks = model.pose(3).rotation[2];
        assert!((looks[2] + 1.0).abs() < 1e-6, "down: {looks:?}");
    }

    #[test]
    fn a_street_of_photographs_on_their_sides_stands_upright() {
        // Looks north along a street to the east, without heights; stored pixels are turned by 90 degrees (orientation 6).
        let (mut model, frames, _) = flight(9);
        let level = [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]];
        let [right, down, ahead] = level;
        let stored = [down, right.map(|v: f64| -v), ahead];
        let mut positions = Vec::new();
        for (k, image) in model.colmap.images.iter_mut().enumerate() {
            let metres = [8.0 * k as f64, 0.3 * (k % 2) as f64, 0.0];
            let translation = se3::mul_vec(&stored, metres).map(|v| -v);
            *image =
                ColmapImage::new(image.id, image.name.clone(), 1, &Pose { rotation: stored, translation });
            let [latitude, longitude, _] = to_geodetic(metres, [48.0, 11.0, 400.0]);
            positions.push(GpsPosition { latitude, longitude, altitude: None });
        }
        assert_eq!(upright_pose(model.pose(3), 6).rotation, level);
        let (stop, mut ignore) = (Default::default(), |_| {});
        let mut host = Host::new(&stop, &mut ignore);
        let found = georeference(&mut model, &frames, &|k| Some(positions[k]), &|_| 6, &mut host);
        assert!(found.is_some());
        let [_, down, _] = upright_pose(model.pose(3), 6).rotation;
        assert!(down[2] < -0.99, "{down:?}");
    }

    #[test]
    fn two_positions_and_positions_that_scatter_leave_the_model_as_it_is() {
        let original = flight(9).0;
        let (model, found) = place(9, |positions| {
            for (k, position) in positions.iter_mut().enumerate() {
                position.latitude = 48.0 + 0.001 * libm::sin(5.0 * k as f64);
            }
        });
        assert!(found.is_none() && model.pose(3) == original.pose(3));
        assert!(place(2, |_| {}).1.is_none());
    }
}
