//! Tests the demo scene through its public interface.

use gausset_compute::Pool;
use gausset_core::{Camera, Pose, RgbImage8};
use gausset_io::dataset::colmap::{ModelFolder, Observations};
use gausset_io::dataset::{OpenOptions, open};
use gausset_io::image::decode_file;
use gausset_scenes::vec3::{Vec3, vec3};
use gausset_scenes::world::{GROUND, Ray};
use gausset_scenes::{DemoSize, ProceduralScene, demo, tiny, write_dataset};

fn pixel(image: &RgbImage8, [x, y]: [f64; 2]) -> Vec3 {
    let (x, y) = ((x as usize).min(image.width as usize - 1), (y as usize).min(image.height as usize - 1));
    let at = (y * image.width as usize + x) * 3;
    let byte = |channel: usize| f64::from(image.data[at + channel]);
    vec3(byte(0), byte(1), byte(2))
}

/// A scene of eight images that are large enough to distinguish positions.
fn medium() -> ProceduralScene {
    let scene = tiny();
    let camera = demo(DemoSize::Small, 0).camera;
    ProceduralScene { camera, points: 600, ..scene }
}

#[test]
fn both_sizes_have_at_least_sixty_cameras_and_the_promised_pictures() {
    for (size, pictures, width, height) in
        [(DemoSize::Small, 60, 160, 120), (DemoSize::Default, 72, 480, 360)]
    {
        let scene = demo(size, 0);
        assert_eq!((scene.poses.len(), scene.camera.width, scene.camera.height), (pictures, width, height));
        for pose in &scene.poses {
            Pose::from_matrix(pose.rotation, pose.translation).unwrap();
            // Outside the objects, inside the sky, looking at them from above.
            let centre = Vec3::from(pose.centre());
            assert!((4.5..8.0).contains(&centre.length()) && centre.z > 1.0);
            let [u, v] = scene.camera.project(pose.apply([0.0, 0.0, 0.4]));
            assert!((u / f64::from(width) - 0.5).abs() < 0.05 && (v / f64::from(height) - 0.5).abs() < 0.05);
        }
    }
}

#[test]
fn no_two_cameras_stand_at_the_same_place() {
    let centres: Vec<Vec3> = demo(DemoSize::Default, 0).poses.iter().map(|p| p.centre().into()).collect();
    for (i, &a) in centres.iter().enumerate() {
        assert!(centres[..i].iter().all(|&b| (a - b).length() > 0.3));
    }
}

#[test]
fn pictures_are_the_same_bytes_on_any_number_of_threads_and_on_any_machine() {
    let scene = tiny();
    let one = scene.render(&scene.camera, &scene.poses[2], &Pool::new(1));
    let three = scene.render(&scene.camera, &scene.poses[2], &Pool::new(3));
    assert_eq!(one, three);
    // FNV-1a (64 bit) of the image; a change of the scene changes it, another CPU must not.
    let hash = one.data.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    assert_eq!(hash, 0xD78A_55D3_2438_F74B, "{hash:#018x}");
}

#[test]
fn another_seed_is_another_scene() {
    let pool = Pool::new(2);
    let [a, b] = [0, 1].map(|seed| {
        let scene = demo(DemoSize::Small, seed);
        scene.render(
            &Camera { width: 32, height: 24, ..scene.camera.resized(32, 24) },
            &scene.poses[0],
            &pool,
        )
    });
    assert_ne!(a, b);
}

#[test]
fn a_ray_from_above_meets_the_table_and_one_beside_it_the_sky() {
    let world = tiny().world;
    let down =
        |x: f64, y: f64| world.first_hit(&Ray { origin: vec3(x, y, 5.0), direction: vec3(0.0, 0.0, -1.0) });
    // An empty position on the table, whose top is at z = 0.
    let table = down(2.75, 0.0);
    assert_eq!(table.object, Some(GROUND));
    assert!((table.distance - 5.0).abs() < 1e-4);
    let beside = down(3.6, 0.0);
    assert!(beside.object.is_none() && beside.distance > world.sky_radius());
    // The ball of radius 0.72 has its centre 0.79 above the table.
    assert!((down(0.05, 0.25).distance - (5.0 - 0.79 - 0.72)).abs() < 1e-9);
}

#[test]
fn a_place_behind_a_block_as_seen_from_the_sun_is_in_shadow() {
    let world = tiny().world;
    let light = |x: f64, y: f64| {
        let ray = Ray { origin: vec3(x, y, 3.0), direction: vec3(0.0, 0.0, -1.0) };
        assert_eq!(world.first_hit(&ray).object, Some(GROUND), "({x}, {y}) is free");
        world.radiance(&ray)
    };
    // The same ring of pale tiles, in the sun and behind the column (the sun is at -x, -y).
    let brightness = |c: Vec3| c.x + c.y + c.z;
    assert!(brightness(light(2.52, -0.50)) < 0.5 * brightness(light(-2.0, -1.9)));
}

#[test]
fn sparse_points_project_onto_pixels_of_their_colour() {
    let pool = Pool::new(2);
    let scene = medium();
    let points = scene.sparse_points(&pool);
    assert_eq!(points.len(), scene.points);
    let images: Vec<RgbImage8> = scene.poses.iter().map(|p| scene.render(&scene.camera, p, &pool)).collect();

    let mut here = Vec::new();
    let mut beside = Vec::new();
    for point in &points {
        assert!(point.track.len() >= 2 && point.track.windows(2).all(|w| w[0].view < w[1].view));
        // Noise of 0.25 px in the observation and about 0.3 px in the position.
        assert!(point.error < 2.0, "{}", point.error);
        let colour = vec3(point.colour[0].into(), point.colour[1].into(), point.colour[2].into());
        for seen in &point.track {
            let projected = scene.camera.project(scene.poses[seen.view].apply(point.position));
            let off = (projected[0] - seen.pixel[0]).abs().max((projected[1] - seen.pixel[1]).abs());
            assert!(off < 3.0, "{off}");
            let image = &images[seen.view];
            here.push((pixel(image, projected) - colour).length());
            beside.push((pixel(image, [projected[0], (projected[1] + 12.0) % 120.0]) - colour).length());
        }
    }
    // Pixels mix colours at edges and highlights differ between views, so the median is compared; 12 px away the colour
    // is different.
    let (here, beside) = (median(&mut here), median(&mut beside));
    assert!(here < 16.0 && beside > 3.0 * here, "{here} {beside}");
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[test]
fn points_are_the_same_on_any_number_of_threads_and_cover_every_view() {
    let scene = medium();
    let points = scene.sparse_points(&Pool::new(1));
    assert_eq!(points, scene.sparse_points(&Pool::new(3)));
    for view in 0..scene.poses.len() {
        let seen = points.iter().filter(|p| p.track.iter().any(|o| o.view == view)).count();
        assert!(seen > points.len() / 4, "view {view} sees {seen}");
    }
}

#[test]
fn a_written_scene_opens_as_a_dataset_with_the_same_cameras_pictures_and_points() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::new(2);
    let scene = tiny();
    let mut calls = Vec::new();
    write_dataset(&scene, folder.path(), &pool, &mut |done, all| calls.push((done, all))).unwrap();
    assert_eq!(calls, (0..=8).map(|done| (done, 8)).collect::<Vec<_>>());

    let dataset = open(folder.path(), &OpenOptions::default()).unwrap();
    assert!(dataset.warnings.is_empty() && dataset.skipped.is_empty(), "{:?}", dataset.report_lines());
    assert_eq!((dataset.images.len(), dataset.points.len()), (8, scene.points));
    for (image, pose) in dataset.images.iter().zip(&scene.poses) {
        assert_eq!(image.camera, scene.camera);
        let same = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let rows = image.pose.rotation.iter().flatten().zip(pose.rotation.iter().flatten());
        assert!(rows.chain(image.pose.translation.iter().zip(&pose.translation)).all(|(a, b)| same(*a, *b)));
        let stored = decode_file(&image.path).unwrap();
        assert_eq!(stored.rgb, scene.render(&scene.camera, pose, &pool).data);
    }

    let model = ModelFolder::find(&folder.path().join("sparse/0")).unwrap().unwrap();
    let model = model.read(Observations::Keep).unwrap();
    for (point, written) in scene.sparse_points(&pool).iter().zip(&model.points) {
        assert_eq!((written.position, written.colour), (point.position, point.colour));
        for (&[image, index], seen) in written.track.iter().zip(&point.track) {
            let image = &model.images[image as usize - 1];
            assert_eq!(image.points[index as usize], (seen.pixel, written.id));
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let error = write_dataset(&tiny(), &file, &Pool::new(1), &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("file") && error.contains("images: folder: cannot be made"), "{error}");
}
