//! Masks and alpha at every minification: each view removes what the source removes, whatever its size.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_io::image::encode::{PngPixels, png};
use gausset_pano::cutter::{Format, HALVE_ABOVE};
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::frames::list_frames;
use gausset_pano::geometry::{View, equirect_from_direction};
use gausset_pano::layout::Layout;
use gausset_pano::projection::{Projection, degrees_from_nadir};
use gausset_pano::split::{OnError, SplitReport, SplitSettings, WorkerSettings, split};

const WIDTH: u32 = 2880;
const HEIGHT: u32 = 1440;
/// Removed columns and rows of the panorama.
const REMOVED: [[f64; 2]; 2] = [[1300.0, 1700.0], [500.0, 900.0]];
/// Not halved; just above the limit, so halved once; halved once; halved twice.
const SIDES: [u32; 4] = [360, 352, 240, 120];

fn run(input: &Path, settings: &SplitSettings, out: &Path) -> SplitReport {
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let work =
        WorkerSettings { threads: 1, level, on_error: OnError::Stop, force: false, memory_budget: 256 << 20 };
    split(&list_frames(input).unwrap(), settings, &work, out, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn is_removed(x: u32, y: u32) -> bool {
    let [columns, rows] = REMOVED;
    let inside = |v: u32, [low, high]: [f64; 2]| (low..high).contains(&(f64::from(v) + 0.5));
    inside(x, columns) && inside(y, rows)
}

/// A grey panorama; with `has_alpha`, removed pixels are transparent.
fn panorama(has_alpha: bool) -> Vec<u8> {
    let pixels = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
    let pixels: Vec<u8> = if has_alpha {
        pixels.flat_map(|(x, y)| [90, 120, 150, if is_removed(x, y) { 0 } else { 255 }]).collect()
    } else {
        pixels.flat_map(|_| [90, 120, 150]).collect()
    };
    let kind = if has_alpha { PngPixels::Rgba8(&pixels) } else { PngPixels::Rgb8(&pixels) };
    png(WIDTH, HEIGHT, kind, &[]).unwrap()
}

fn mask() -> Vec<u8> {
    let pixels: Vec<u8> =
        (0..WIDTH * HEIGHT).map(|i| if is_removed(i % WIDTH, i / WIDTH) { 0 } else { 255 }).collect();
    png(WIDTH, HEIGHT, PngPixels::Grey8(&pixels), &[]).unwrap()
}

/// Position of a view's pixel in the panorama, px.
fn place(view: &View, i: usize) -> [f64; 2] {
    let (x, y) = ((i as u32 % view.width) as f64 + 0.5, (i as u32 / view.width) as f64 + 0.5);
    let ray = view.ray_in_panorama(x, y);
    equirect_from_direction(ray, f64::from(WIDTH), f64::from(HEIGHT))
}

/// Distance to the removed rectangle, px; negative inside.
fn distance([u, v]: [f64; 2]) -> f64 {
    let [[left, right], [top, bottom]] = REMOVED;
    (left - u).max(u - right).max(top - v).max(v - bottom)
}

/// Number of halvings of a panorama for views of this size, by the rule in docs/internals/pano.md.
fn halvings(side: u32) -> u32 {
    let density = f64::from(WIDTH) / std::f64::consts::PI / f64::from(side);
    (0..).find(|&k| density / f64::from(1 << k) <= HALVE_ABOVE).unwrap()
}

/// The masks of a split, by the name of the view.
fn masks(out: &Path, settings: &SplitSettings) -> BTreeMap<String, Vec<u8>> {
    let read = |view: &View| {
        let path = out.join(format!("masks/{}/a.{}.png", view.name, settings.format.extension()));
        let mask = path.is_file().then(|| gausset_io::image::decode_mask_file(&path).unwrap())?;
        assert_eq!((mask.width, mask.height), (view.width, view.height));
        Some((view.name.clone(), mask.values))
    };
    settings.views.iter().filter_map(read).collect()
}

#[test]
fn masks_and_alpha_are_cut_at_every_minification() {
    assert_eq!(SIDES.map(halvings), [0, 1, 1, 2]);
    for has_alpha in [false, true] {
        let input = tempfile::tempdir().unwrap();
        std::fs::write(input.path().join("a.png"), panorama(has_alpha)).unwrap();
        if !has_alpha {
            std::fs::create_dir(input.path().join("masks")).unwrap();
            std::fs::write(input.path().join("masks/a.png"), mask()).unwrap();
        }
        for (side, format) in
            SIDES.map(|side| (side, Format::Jpeg(80))).into_iter().chain([(120, Format::Png)])
        {
            let settings = SplitSettings::new(Layout::Ring4.views(side, side, None), format);
            let out = tempfile::tempdir().unwrap();
            run(input.path(), &settings, out.path());
            let masks = masks(out.path(), &settings);
            // Only view 0 sees the removed part; the others keep everything and have no mask.
            assert_eq!(masks.keys().collect::<Vec<_>>(), ["view00"], "side {side}, alpha {has_alpha}");
            // A pixel samples at most two neighbours in the halved panorama, each of which is removed if it touches a
            // removed pixel.
            let reach = f64::from(2u32 << halvings(side));
            for (i, &keep) in masks["view00"].iter().enumerate() {
                let distance = distance(place(&settings.views[0], i));
                assert!(
                    !(distance < 0.0 && keep != 0 || distance > reach && keep == 0),
                    "side {side}, alpha {has_alpha}: pixel {i}, {distance:.1} px from the edge: {keep}"
                );
            }
            if has_alpha && format == Format::Png {
                let picture =
                    gausset_io::image::decode_file(&out.path().join("images/view00/a.png")).unwrap();
                let alpha = picture.alpha.expect("PNG views keep alpha");
                for (i, &alpha) in alpha.iter().enumerate() {
                    let distance = distance(place(&settings.views[0], i));
                    assert!(!(distance < -reach && alpha != 0 || distance > reach && alpha != 255));
                }
            }
        }
    }
}

#[test]
fn the_ground_is_masked_at_every_minification_with_and_without_a_mask() {
    let input = tempfile::tempdir().unwrap();
    std::fs::write(input.path().join("a.png"), panorama(false)).unwrap();
    std::fs::create_dir(input.path().join("masks")).unwrap();
    for has_mask in [false, true] {
        if has_mask {
            std::fs::write(input.path().join("masks/a.png"), mask()).unwrap();
        }
        for side in SIDES {
            let views: Vec<View> = Layout::Cube6.views(side, side, None);
            let settings = SplitSettings { crop_bottom: 30.0, ..SplitSettings::new(views, Format::Jpeg(80)) };
            let out = tempfile::tempdir().unwrap();
            run(input.path(), &settings, out.path());
            let masks = masks(out.path(), &settings);
            let names: Vec<&String> = masks.keys().collect();
            assert_eq!(names, if has_mask { vec!["view00", "view05"] } else { vec!["view05"] });
            // Straight down, the mask is a circle, exact to the pixel.
            let down = &settings.views[5];
            for (i, &keep) in masks["view05"].iter().enumerate() {
                let (x, y) = ((i as u32 % side) as f64 + 0.5, (i as u32 / side) as f64 + 0.5);
                let ray = down.ray_in_panorama(x, y);
                let angle = degrees_from_nadir(ray);
                assert_eq!(keep == 0, angle < 30.0, "side {side}: pixel {i}, {angle} degrees");
            }
        }
    }
}

#[test]
fn masks_of_fisheye_frames_are_cut_at_every_size() {
    // Two circles side by side; the mask removes a disc of 30 degrees around the axis of the first.
    const LENSES: &str = r#"{ "width": 1600, "height": 800, "lenses": [
        { "cx": 400, "cy": 400, "radius": 400, "half_angle": 100 },
        { "cx": 1200, "cy": 400, "radius": 400, "half_angle": 100, "yaw": 180 } ] }"#;
    let fisheye = DualFisheye::parse(LENSES.as_bytes()).unwrap();
    let input = tempfile::tempdir().unwrap();
    let grey = vec![100; 1600 * 800];
    std::fs::write(input.path().join("a.png"), png(1600, 800, PngPixels::Grey8(&grey), &[]).unwrap())
        .unwrap();
    // 4 px per degree.
    let keep = |i: usize| {
        let (x, y) = ((i % 1600) as f64 + 0.5 - 400.0, (i / 1600) as f64 + 0.5 - 400.0);
        if x.hypot(y) < 120.0 { 0 } else { 255 }
    };
    let mask: Vec<u8> = (0..1600 * 800).map(keep).collect();
    std::fs::create_dir(input.path().join("masks")).unwrap();
    std::fs::write(input.path().join("masks/a.png"), png(1600, 800, PngPixels::Grey8(&mask), &[]).unwrap())
        .unwrap();
    for (side, halvings) in [(360, 0), (120, 1), (40, 3)] {
        let settings = SplitSettings {
            projection: Some(Projection::Fisheye(fisheye.clone())),
            ..SplitSettings::new(Layout::Ring4.views(side, side, None), Format::Jpeg(80))
        };
        let out = tempfile::tempdir().unwrap();
        run(input.path(), &settings, out.path());
        let masks = masks(out.path(), &settings);
        let front = &settings.views[0];
        for (i, &keep) in masks["view00"].iter().enumerate() {
            let ray = front.ray_in_camera((i as u32 % side) as f64 + 0.5, (i as u32 / side) as f64 + 0.5);
            let angle = (ray[0].hypot(ray[1]) / ray[2]).atan().to_degrees();
            // Two pixels of the frame, which is halved for small views; halving extends removed areas.
            let reach = f64::from(2u32 << halvings) / 4.0;
            assert!(
                !(angle < 29.5 && keep != 0 || angle > 30.0 + reach && keep == 0),
                "side {side}: {angle}: {keep}"
            );
        }
        assert!(!masks.contains_key("view02"), "nothing is removed behind");
    }
}
