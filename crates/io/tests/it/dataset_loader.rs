//! The loader: what it returns, what it caches, and that it never waits for ever.

use crate::dataset_support;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dataset_support::{SIZE, Scene, tiny_png};
use crate::memory;
use gausset_io::dataset::colmap::ModelFormat;
use gausset_io::dataset::{AlphaMode, Loader, LoaderOptions, OpenOptions, SkipReason};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::{ImageProblem, decode_file};

fn loader(scene: &Scene, options: &OpenOptions, budget_bytes: usize, threads: usize) -> Loader {
    let data = scene.open_with(options).unwrap();
    Loader::new(Arc::new(data), LoaderOptions { budget_bytes, threads })
}

/// Nine RGBA images of a pinhole camera: left half transparent, one column half transparent.
fn transparent_scene() -> Scene {
    let scene = Scene::json("\"fl_x\": 14,", "");
    let alpha = |x: u32| [0, 128, 255][(x > 3) as usize + (x > 7) as usize];
    let pixels: Vec<u8> =
        (0..12).flat_map(|y| (0..16u32).flat_map(move |x| [200, (10 * y) as u8, 30, alpha(x)])).collect();
    for i in 0..9 {
        scene.write(&format!("images/{i}.png"), &png(16, 12, PngPixels::Rgba8(&pixels), &[]).unwrap());
    }
    scene
}

#[test]
fn a_pinhole_picture_at_its_own_size_keeps_its_bytes() {
    let scene = Scene::json("\"fl_x\": 14,", "");
    let loader = loader(&scene, &OpenOptions::default(), 1 << 20, 0);
    let picture = loader.get(3).unwrap();
    assert_eq!(picture.rgb, decode_file(&scene.path().join("images/3.png")).unwrap().rgb);
    assert!(picture.alpha.is_none() && picture.mask.is_none());
    assert_eq!((picture.width, picture.height), (16, 12));
}

#[test]
fn undistorted_pictures_have_the_size_of_their_camera_and_mask_what_has_no_source() {
    let scene = Scene::colmap(ModelFormat::Binary);
    for max_resolution in [0, 8] {
        let options = OpenOptions { max_resolution, ..OpenOptions::default() };
        let loader = loader(&scene, &options, 1 << 20, 0);
        for (i, image) in loader.dataset().images.iter().enumerate() {
            let picture = loader.get(i).unwrap();
            assert_eq!((picture.width, picture.height), (image.camera.width, image.camera.height));
            assert_eq!(picture.rgb.len(), image.camera.pixels() * 3);
            let lens = loader.dataset().lens(i);
            for (p, keep) in picture.mask.iter().flat_map(|m| m.iter().enumerate()) {
                let x = (p as u32 % picture.width) as f64 + 0.5 - image.camera.cx;
                let y = (p as u32 / picture.width) as f64 + 0.5 - image.camera.cy;
                let seen = lens.project([x / image.camera.fx, y / image.camera.fy, 1.0]).unwrap();
                let inside = (0.0..16.0).contains(&seen[0]) && (0.0..12.0).contains(&seen[1]);
                assert_eq!(*keep != 0, inside);
            }
        }
    }
}

#[test]
fn alpha_is_kept_to_composite_with() {
    let scene = transparent_scene();
    let picture = loader(&scene, &OpenOptions::default(), 1 << 20, 0).get(0).unwrap();
    assert_eq!(
        picture.alpha.as_ref().unwrap()[..16],
        [0, 0, 0, 0, 128, 128, 128, 128, 255, 255, 255, 255, 255, 255, 255, 255]
    );
    assert!(picture.mask.is_none());
    let half = OpenOptions { max_resolution: 8, ..OpenOptions::default() };
    let picture = loader(&scene, &half, 1 << 20, 0).get(0).unwrap();
    assert_eq!(picture.alpha.as_ref().unwrap()[..8], [0, 0, 128, 128, 255, 255, 255, 255]);
    // Straight colours, as in the covered pixels.
    assert_eq!(picture.rgb[6..9], [200, 5, 30]);
}

#[test]
fn alpha_as_a_mask_ignores_transparent_pixels() {
    let scene = transparent_scene();
    let options = OpenOptions { alpha: AlphaMode::Mask, ..OpenOptions::default() };
    let picture = loader(&scene, &options, 1 << 20, 0).get(0).unwrap();
    assert!(picture.alpha.is_none());
    let mask = picture.mask.as_ref().unwrap();
    assert!(mask[..4].iter().all(|&m| m == 0) && mask[4..16].iter().all(|&m| m != 0));
    assert_eq!(picture.valid_pixels(), 12 * 12);
    // A mask file is applied in addition.
    let keep_right: Vec<u8> = (0..12).flat_map(|_| (0..16).map(|x| u8::from(x >= 8))).collect();
    scene.write("masks/images/0.png", &png(16, 12, PngPixels::Grey8(&keep_right), &[]).unwrap());
    assert_eq!(loader(&scene, &options, 1 << 20, 0).get(0).unwrap().valid_pixels(), 8 * 12);
}

#[test]
fn masks_are_resized_to_the_nearest_and_travel_with_the_picture() {
    let scene = Scene::colmap(ModelFormat::Binary);
    // Two pixels: left ignored, right kept.
    scene.write("masks/left/img 0.png", &png(2, 1, PngPixels::Grey8(&[0, 3]), &[]).unwrap());
    let picture = loader(&scene, &OpenOptions::default(), 1 << 20, 0).get(0).unwrap();
    let mask = picture.mask.as_ref().unwrap();
    let row = &mask[6 * 16..7 * 16];
    assert!(row[..8].iter().all(|&m| m == 0) && row[8..].iter().all(|&m| m != 0), "{row:?}");
}

#[test]
fn an_empty_mask_is_an_error_of_its_picture() {
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.write("masks/left/img 1.png", &png(16, 12, PngPixels::Grey8(&[0; 192]), &[]).unwrap());
    let loader = loader(&scene, &OpenOptions::default(), 1 << 20, 1);
    let error = loader.get(1).unwrap_err();
    assert!(!error.reason.is_unreadable());
    assert_eq!(
        scene.line(&error.to_string()),
        "left/img 1.png: mask DATA/masks/left/img 1.png: ignores every pixel (expected some above 0)"
    );
    assert_eq!(loader.get(1).unwrap_err(), error, "the answer stays the same");
    assert!(loader.get(2).is_ok());
}

#[test]
fn a_file_that_changes_after_opening_is_an_error() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let loader = loader(&scene, &OpenOptions::default(), 1 << 20, 0);
    scene.write("images/left/img 0.png", &tiny_png(16, 13));
    let mut longer = tiny_png(SIZE[0], SIZE[1]);
    longer.push(1);
    scene.write("images/left/img 1.png", &longer);
    scene.remove("images/left/img 2.png");
    let mut edited = tiny_png(SIZE[0], SIZE[1]);
    *edited.last_mut().unwrap() ^= 1;
    scene.write("images/left/img 3.png", &edited);
    for i in [0, 1, 3] {
        let error = loader.get(i).unwrap_err();
        assert!(matches!(error.reason, SkipReason::Unreadable(ImageProblem::Changed { .. })), "{error}");
    }
    assert!(loader.get(2).unwrap_err().reason.is_unreadable());
}

#[test]
fn a_dataset_larger_than_the_budget_is_loaded_within_it() {
    let scene = Scene::colmap(ModelFormat::Binary);
    for threads in [0, 1, 3] {
        // The smallest budget: the loader raises it to what the largest image needs.
        let loader = loader(&scene, &OpenOptions::default(), 0, threads);
        for round in 0..20usize {
            let order: Vec<usize> = (0..9).map(|k| (k * 4 + round) % 9).collect();
            for (at, &index) in order.iter().enumerate() {
                loader.prefetch(&order[at..(at + 4).min(9)]);
                assert!(loader.get(index).is_ok());
            }
        }
        let stats = loader.stats();
        assert!(stats.peak_bytes <= loader.budget_bytes(), "{stats:?} of {}", loader.budget_bytes());
        assert!(stats.loaded >= 9);
    }
}

#[test]
fn within_a_large_budget_every_picture_is_made_once() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let loader = loader(&scene, &OpenOptions::default(), 1 << 30, 2);
    let all: Vec<usize> = (0..9).collect();
    for _ in 0..3 {
        loader.prefetch(&all);
        for &i in &all {
            assert!(loader.get(i).is_ok());
        }
    }
    let stats = loader.stats();
    assert_eq!((stats.ready, stats.loaded), (9, 9));
}

#[test]
fn hinted_pictures_are_made_in_the_background() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let loader = loader(&scene, &OpenOptions::default(), 1 << 30, 1);
    loader.prefetch(&[2, 5]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while loader.stats().ready < 2 {
        assert!(Instant::now() < deadline, "nothing was made: {loader:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(loader.get(2).is_ok() && loader.get(5).is_ok());
    assert_eq!(loader.stats().loaded, 2);
}

#[test]
fn several_threads_may_ask_for_the_same_pictures() {
    let scene = Scene::colmap(ModelFormat::Binary);
    for budget in [0, 1 << 30] {
        let loader = loader(&scene, &OpenOptions::default(), budget, 2);
        let reference: Vec<_> = (0..9).map(|i| loader.get(i).unwrap()).collect();
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let (loader, reference) = (&loader, &reference);
                scope.spawn(move || {
                    for k in 0..60 {
                        let i = (k * (thread + 1) + thread) % 9;
                        loader.prefetch(&[(i + 1) % 9, (i + 2) % 9]);
                        assert_eq!(loader.get(i).unwrap(), reference[i]);
                    }
                });
            }
        });
    }
}

#[test]
fn dropping_a_busy_loader_ends_its_threads() {
    let scene = Scene::colmap(ModelFormat::Binary);
    for _ in 0..20 {
        let loader = loader(&scene, &OpenOptions::default(), 1 << 30, 3);
        loader.prefetch(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
        drop(loader);
    }
}

/// Size of the images whose memory is measured: large compared with the constant buffers of a decoder.
const LARGE: [u32; 2] = [1024, 512];
/// Constant memory of decoders, files and rows.
const BESIDE: usize = 64 << 10;

/// A PNG of one value.
fn flat_png(
    size: [u32; 2],
    colour: png::ColorType,
    depth: png::BitDepth,
    extra: fn(&mut png::Info),
) -> Vec<u8> {
    let mut info = png::Info::with_size(size[0], size[1]);
    (info.color_type, info.bit_depth) = (colour, depth);
    extra(&mut info);
    let row = info.raw_row_length() - 1;
    let mut bytes = Vec::new();
    let mut writer = png::Encoder::with_info(&mut bytes, info).unwrap().write_header().unwrap();
    writer.write_image_data(&vec![0xFF; row * size[1] as usize]).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn making_a_picture_takes_what_is_counted_for_it() {
    use image::ExtendedColorType;
    use png::{BitDepth, ColorType};
    let jpeg = |channels: usize, colour: ExtendedColorType| {
        let mut bytes = Vec::new();
        let encoder = &mut image::codecs::jpeg::JpegEncoder::new(&mut bytes);
        let pixels = vec![99; channels * (LARGE[0] * LARGE[1]) as usize];
        encoder.encode(&pixels, LARGE[0], LARGE[1], colour).unwrap();
        bytes
    };
    let png = |colour, depth| flat_png(LARGE, colour, depth, |_| {});
    let transparent =
        |colour, depth| flat_png(LARGE, colour, depth, |info| info.trns = Some(vec![0; 6].into()));
    let palette = |info: &mut png::Info| {
        (info.palette, info.trns) = (Some(vec![7; 256 * 3].into()), Some(vec![9; 100].into()));
    };
    let grey_transparent = |info: &mut png::Info| info.trns = Some(vec![0, 7].into());
    let pictures: Vec<(&str, Vec<u8>)> = vec![
        ("grey.jpg", jpeg(1, ExtendedColorType::L8)),
        ("colour.jpg", jpeg(3, ExtendedColorType::Rgb8)),
        ("progressive.jpg", include_bytes!("files/progressive.jpg").to_vec()),
        ("bits.png", png(ColorType::Grayscale, BitDepth::One)),
        ("grey.png", png(ColorType::Grayscale, BitDepth::Eight)),
        ("grey16.png", png(ColorType::Grayscale, BitDepth::Sixteen)),
        ("grey_transparent.png", flat_png(LARGE, ColorType::Grayscale, BitDepth::Eight, grey_transparent)),
        ("grey_alpha.png", png(ColorType::GrayscaleAlpha, BitDepth::Eight)),
        ("grey_alpha16.png", png(ColorType::GrayscaleAlpha, BitDepth::Sixteen)),
        ("palette.png", flat_png(LARGE, ColorType::Indexed, BitDepth::Eight, palette)),
        ("colour.png", png(ColorType::Rgb, BitDepth::Eight)),
        ("colour_transparent.png", transparent(ColorType::Rgb, BitDepth::Eight)),
        ("colour16.png", png(ColorType::Rgb, BitDepth::Sixteen)),
        ("alpha.png", png(ColorType::Rgba, BitDepth::Eight)),
        ("alpha16.png", png(ColorType::Rgba, BitDepth::Sixteen)),
    ];
    let masks = [
        None,
        Some(png(ColorType::Grayscale, BitDepth::One)),
        Some(png(ColorType::Rgba, BitDepth::Eight)),
        Some(flat_png([2048, 1536], ColorType::Rgb, BitDepth::Sixteen, |_| {})),
    ];
    // A pinhole, a lens, a panorama's faces.
    let cameras = [
        "\"fl_x\": 500,",
        "\"fl_x\": 500, \"k1\": 0.01,",
        "\"camera_model\": \"EQUIRECTANGULAR\", \"w\": 512, \"h\": 256,",
    ];
    let pixels = (LARGE[0] * LARGE[1]) as usize;
    for (kind, camera) in cameras.into_iter().enumerate() {
        for (name, bytes) in &pictures {
            // The memory of masks depends on the image only by its size and alpha.
            let masks = &masks[..if ["colour.jpg", "alpha.png"].contains(name) { masks.len() } else { 1 }];
            for (which, mask) in masks.iter().enumerate() {
                let scene = Scene::empty();
                let frame = dataset_support::json_frame(&format!("images/{name}"), 0.3, "");
                scene.write("transforms.json", format!("{{{camera} \"frames\": [{frame}]}}").as_bytes());
                scene.write(&format!("images/{name}"), bytes);
                if let Some(mask) = mask {
                    scene.write(&format!("masks/images/{name}.png"), mask);
                }
                let options = OpenOptions { max_resolution: 64, test_every: 0, ..OpenOptions::default() };
                let data = scene.open_with(&options).unwrap();
                let counted = data.images[0].loading_bytes();
                let loader = Loader::new(Arc::new(data), LoaderOptions { budget_bytes: 0, threads: 0 });
                let (made, peak) = memory::peak(|| loader.get(0));
                made.unwrap();
                assert!(
                    peak <= counted + BESIDE,
                    "{name}, camera {kind}, mask {which}: {peak} bytes ({:.1} a pixel), counted {counted}",
                    peak as f64 / pixels as f64
                );
                // And not far more than it takes; a chunk with a transparent colour is rare, and counted always.
                assert!(counted < 2 * (peak + BESIDE), "{name}: {peak} bytes, counted {counted}");
            }
        }
    }
}
