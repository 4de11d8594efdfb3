//! EXIF orientation: pictures are upright in training, with the camera that sees them so.

use std::sync::Arc;

use crate::dataset_support::Scene;
use gausset_core::matrix;
use gausset_io::dataset::{Loader, LoaderOptions, OpenOptions, Turn};
use gausset_io::image::encode::{PngPixels, png};

/// Size of the upright picture.
const UPRIGHT: [u32; 2] = [12, 16];

/// Colour of the upright picture.
fn colour(x: u32, y: u32) -> [u8; 3] {
    [(x * 16) as u8, (y * 12) as u8, 77]
}

/// Where the upright pixel (x, y) is stored in w x h px (EXIF 2.32, 4.6.4: Orientation).
fn stored_at(orientation: u8, [w, h]: [u32; 2], x: u32, y: u32) -> [u32; 2] {
    match orientation {
        2 => [w - 1 - x, y],
        3 => [w - 1 - x, h - 1 - y],
        4 => [x, h - 1 - y],
        5 => [y, x],
        6 => [y, h - 1 - x],
        7 => [w - 1 - y, h - 1 - x],
        8 => [w - 1 - y, x],
        _ => [x, y],
    }
}

fn stored_size(orientation: u8) -> [u32; 2] {
    if orientation >= 5 { [UPRIGHT[1], UPRIGHT[0]] } else { UPRIGHT }
}

/// `C` bytes per pixel of the upright picture, in the order in which a camera of this orientation stores them.
fn stored<const C: usize>(orientation: u8, of: impl Fn(u32, u32) -> [u8; C]) -> Vec<u8> {
    let size = stored_size(orientation);
    let mut out = vec![0; C * (size[0] * size[1]) as usize];
    for (y, x) in (0..UPRIGHT[1]).flat_map(|y| (0..UPRIGHT[0]).map(move |x| (y, x))) {
        let [sx, sy] = stored_at(orientation, size, x, y);
        let at = C * (sy * size[0] + sx) as usize;
        out[at..at + C].copy_from_slice(&of(x, y));
    }
    out
}

/// A TIFF of the picture with its orientation.
fn tiff(orientation: u8) -> Vec<u8> {
    let [width, height] = stored_size(orientation);
    let pixels = stored(orientation, colour);
    let entries = [
        (256u16, 4u16, 1u32, width),
        (257, 4, 1, height),
        (258, 3, 3, 134),
        (259, 3, 1, 1),
        (262, 3, 1, 2),
        (273, 4, 1, 140),
        (274, 3, 1, u32::from(orientation)),
        (277, 3, 1, 3),
        (278, 4, 1, height),
        (279, 4, 1, pixels.len() as u32),
    ];
    let mut out = [&b"II*\0"[..], &8u32.to_le_bytes(), &(entries.len() as u16).to_le_bytes()].concat();
    for (tag, kind, count, value) in entries {
        out.extend(
            [&tag.to_le_bytes()[..], &kind.to_le_bytes(), &count.to_le_bytes(), &value.to_le_bytes()]
                .concat(),
        );
    }
    out.extend([0; 4]);
    out.resize(134, 0);
    out.extend([8, 0, 8, 0, 8, 0]);
    out.extend(pixels);
    out
}

/// Picture `i` has orientation `1 + i % 8`.
fn orientation(i: u32) -> u8 {
    (1 + i % 8) as u8
}

fn scene(head: &str) -> Scene {
    let scene = Scene::json(head, "");
    for i in 0..9 {
        scene.write(&format!("images/{i}.png"), &tiff(orientation(i)));
    }
    scene
}

fn loader(scene: &Scene) -> Loader {
    Loader::new(Arc::new(scene.open_with(&OpenOptions::default()).unwrap()), LoaderOptions::default())
}

#[test]
fn pictures_whose_camera_fits_only_the_upright_size_are_turned_in_all_eight_orientations() {
    let scene = scene("\"fl_x\": 14, \"w\": 12, \"h\": 16,");
    let keep = |x: u32, y: u32| [if x + 2 * y < 9 { 0 } else { 255 }];
    for i in 0..9 {
        // Mask 5 is upright already, the others are stored as their picture is.
        let of_mask = if i == 5 { 1 } else { orientation(i) };
        let [width, height] = stored_size(of_mask);
        let mask = png(width, height, PngPixels::Grey8(&stored(of_mask, keep)), &[]).unwrap();
        scene.write(&format!("masks/{i}.png"), &mask);
    }
    let loader = loader(&scene);
    for i in 0..9 {
        let picture = loader.get(i).unwrap();
        assert_eq!([picture.width, picture.height], UPRIGHT);
        assert_eq!(picture.rgb, stored(1, colour), "orientation {}", orientation(i as u32));
        assert_eq!(picture.mask, Some(stored(1, keep)), "orientation {}", orientation(i as u32));
    }
    let warnings: Vec<String> = loader.dataset().report_lines();
    let turned =
        "EXIF orientation: 7 pictures turned upright: cameras and poses belong to the upright pictures";
    assert!(warnings.iter().any(|line| line.contains(turned)), "{warnings:?}");
    assert!(!warnings.iter().any(|line| line.contains("resized")), "{warnings:?}");
}

#[test]
fn pictures_whose_camera_fits_as_stored_are_turned_together_with_it() {
    let data = scene("\"fl_x\": 14,");
    let keep = |x: u32, y: u32| [if x + 2 * y < 9 { 0 } else { 255 }];
    // Upright masks of pictures that are stored sideways.
    for i in [5, 7] {
        let mask = png(UPRIGHT[0], UPRIGHT[1], PngPixels::Grey8(&stored(1, keep)), &[]).unwrap();
        data.write(&format!("masks/{i}.png"), &mask);
    }
    let loader = loader(&data);
    let plain = Scene::json("\"fl_x\": 14,", "").open().unwrap();
    for (i, image) in loader.dataset().images.iter().enumerate() {
        let stored_pose = plain.images[i].pose;
        let turn = match orientation(i as u32) {
            1 | 2 => Turn::None,
            3 | 4 => Turn::View(3),
            5 | 6 => Turn::View(6),
            _ => Turn::View(8),
        };
        assert_eq!(image.turn, turn);
        // The top of the upright picture: the stored left for orientation 6, right for 8, bottom for 3.
        let up = match turn {
            Turn::View(3) => [0.0, 1.0, 0.0],
            Turn::View(6) => [-1.0, 0.0, 0.0],
            Turn::View(_) => [1.0, 0.0, 0.0],
            _ => [0.0, -1.0, 0.0],
        };
        let up_in_world = matrix::transpose_mul_vec(&stored_pose.rotation, up);
        let shown = matrix::mul_vec(&image.pose.rotation, up_in_world);
        assert!((shown[1] + 1.0).abs() < 1e-12, "{shown:?}");
        assert_eq!(image.turn.source_pose(image.pose), stored_pose);
        assert_eq!([image.camera.width, image.camera.height], UPRIGHT);
        // The picture is upright, up to the mirroring that no pose describes.
        let picture = loader.get(i).unwrap();
        let mirrored = matches!(orientation(i as u32), 2 | 4 | 5 | 7);
        let of = |x: u32, y: u32| if mirrored { colour(UPRIGHT[0] - 1 - x, y) } else { colour(x, y) };
        assert_eq!(picture.rgb, stored(1, of), "orientation {}", orientation(i as u32));
        let mask = [5, 7].contains(&i).then(|| stored(1, keep));
        assert_eq!(picture.mask, mask, "orientation {}", orientation(i as u32));
    }
}
