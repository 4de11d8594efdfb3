//! Tests the town through its public interface.

use gausset_compute::Pool;
use gausset_io::dataset::{OpenOptions, open};
use gausset_io::image::exif::ExifField;
use gausset_io::image::{read_exif, read_header};
use gausset_scenes::town::{GPS_NOISE, ORIGIN};
use gausset_scenes::vec3::Vec3;
use gausset_scenes::{ProceduralScene, town, write_dataset};

/// Metres per degree north and east at 48 degrees north (WGS 84).
const METRES_PER_DEGREE: [f64; 2] = [111_190.322_6, 74_625.353_6];

fn centres(scene: &ProceduralScene) -> Vec<Vec3> {
    scene.poses.iter().map(|pose| pose.centre().into()).collect()
}

/// Metres east, north and up of the origin.
fn metres([latitude, longitude, altitude]: [f64; 3]) -> [f64; 3] {
    let [per_north, per_east] = METRES_PER_DEGREE;
    [(longitude - ORIGIN[1]) * per_east, (latitude - ORIGIN[0]) * per_north, altitude - ORIGIN[2]]
}

#[test]
fn as_many_pictures_as_asked_for_and_more_of_them_show_a_larger_town() {
    let mut before = 0;
    for pictures in [40, 57, 400, 1601] {
        let scene = town(pictures, 40, 0);
        assert_eq!((scene.poses.len(), scene.geotags.len()), (pictures as usize, pictures as usize));
        let objects = scene.world.objects().len();
        // The smallest towns have four quarters.
        assert!(
            objects > before || pictures == 57 && objects == before,
            "{objects} objects in {pictures} pictures"
        );
        before = objects;
    }
}

#[test]
fn cameras_are_outside_of_everything_solid_and_no_two_at_the_same_place() {
    for pictures in [40, 400] {
        let scene = town(pictures, 40, 0);
        let eyes = centres(&scene);
        for (i, &eye) in eyes.iter().enumerate() {
            for object in scene.world.objects() {
                let free = object.shape.distance(object.placement.point(eye));
                assert!(free > 0.2, "camera {i} of {pictures} is {free} m from {:?}", object.shape);
            }
            assert!(eyes[..i].iter().all(|&other| (other - eye).length() > 0.5), "camera {i}");
        }
    }
}

#[test]
fn pictures_of_a_line_overlap_by_four_fifths_and_look_down() {
    let scene = town(400, 400, 0);
    let (mut overlaps, mut lines) = (Vec::new(), 1);
    for pair in scene.poses[..200].windows(2) {
        let here = Vec3::from(pair[0].centre());
        let [u, v] = scene.camera.project(pair[1].apply([here.x, here.y, 0.0]));
        if (u - scene.camera.cx).abs() > 80.0 {
            lines += 1;
            continue;
        }
        overlaps.push(1.0 - (v - scene.camera.cy).abs() / 300.0);
    }
    let mean = overlaps.iter().sum::<f64>() / overlaps.len() as f64;
    // Wind moves a picture by about 3 % of its height; 190 pairs, of which neighbours share a camera.
    assert!((mean - 0.8).abs() < 0.02, "{mean}");
    assert!(overlaps.iter().all(|share| (0.65..0.95).contains(share)) && lines > 5, "{lines}: {overlaps:?}");
}

#[test]
fn gps_errors_have_the_stated_spread() {
    let scene = town(400, 40, 3);
    let mut squares = 0.0;
    for (eye, &tag) in centres(&scene).into_iter().zip(&scene.geotags) {
        for (seen, exact) in metres(tag).into_iter().zip(eye.array()) {
            assert!((seen - exact).abs() < 6.0 * GPS_NOISE, "{seen} {exact}");
            squares += (seen - exact) * (seen - exact);
        }
    }
    // 1200 values: the standard error of their deviation is 2 %.
    let deviation = (squares / 1200.0).sqrt();
    assert!((deviation / GPS_NOISE - 1.0).abs() < 0.08, "{deviation}");
}

/// The first numbers of a GPS field.
fn numbers(gps: &[ExifField], tag: u16) -> Vec<f64> {
    let field = gps.iter().find(|field| field.tag == tag).expect("the field");
    field.rationals().map(|[a, b]| f64::from(a) / f64::from(b)).collect()
}

#[test]
fn a_written_town_opens_as_a_dataset_whose_files_state_position_and_focal_length() {
    let folder = tempfile::tempdir().unwrap();
    let scene = ProceduralScene { points: 100, ..town(40, 40, 0) };
    write_dataset(&scene, folder.path(), &Pool::new(2), &mut |_, _| {}).unwrap();
    let dataset = open(folder.path(), &OpenOptions::default()).unwrap();
    assert!(dataset.warnings.is_empty() && dataset.skipped.is_empty(), "{:?}", dataset.report_lines());
    assert_eq!((dataset.images.len(), dataset.points.len()), (40, 100));
    for (image, tag) in dataset.images.iter().zip(&scene.geotags) {
        let exif = read_exif(&image.path).unwrap();
        let degrees = |tag| {
            let parts = numbers(&exif.gps, tag);
            parts[0] + parts[1] / 60.0 + parts[2] / 3600.0
        };
        let found = metres([degrees(2), degrees(4), numbers(&exif.gps, 6)[0]]);
        for (found, written) in found.into_iter().zip(metres(*tag)) {
            assert!((found - written).abs() < 2e-3, "{found} {written}");
        }
        assert_eq!((exif.make.as_deref(), exif.focal_35mm), (Some("Gausset"), Some(28.0)));
        let header = read_header(&image.path).unwrap();
        assert_eq!((header.width, header.height), (40, 30));
    }
}

#[test]
fn pictures_and_points_are_the_same_on_any_number_of_threads_and_on_any_machine() {
    let scene = ProceduralScene { points: 60, ..town(40, 64, 0) };
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    // From above, slanted and on foot.
    for view in [7, 24, 38] {
        let [one, three] = [1, 3].map(|threads| scene.image(view, &Pool::new(threads)));
        assert_eq!(one, three);
        // FNV-1a (64 bit); a change of the scene changes it, another CPU must not.
        for &byte in &one.data {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
    assert_eq!(scene.sparse_points(&Pool::new(1)), scene.sparse_points(&Pool::new(3)));
    assert_eq!(hash, 0xB361_3ABD_FA92_B1C5, "{hash:#018x}");
}
