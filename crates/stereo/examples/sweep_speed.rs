//! Computes the depth maps of a scene and prints times, fractions and images.
//!
//! `cargo run --release -p gausset-stereo --example sweep_speed -- demo|DATASET [--side 400] [--planes 64]
//! [--neighbours 4] [--threads 1] [--level auto] [--no-tracks] [--no-points] [--count 30000] [--out FOLDER]`
//!
//! Prints CPU seconds (of all threads, without reading the images) and the verdict; for the demo, whose depth is known,
//! also the fraction of confirmed pixels within 3 % of it. `--out` writes a PNG of some depth maps next to their
//! images, and `dense.ply`, a coloured point cloud.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset_compute::{Exec, Pool, SimdLevel, dispatch_level};
use gausset_core::{RgbImage8, TargetImage};
use gausset_io::dataset::{Loader, LoaderOptions, OpenOptions, init, open};
use gausset_io::image::encode;
use gausset_scenes::{DemoSize, demo};
use gausset_stereo::{
    DensePoint, Depths, PointOptions, SearchCube, StereoOptions, StereoScene, StereoView, dense_points,
    depth_maps,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A scene with its images.
struct Input {
    views: Vec<StereoView>,
    pictures: Vec<Arc<TargetImage>>,
    points: Vec<[f64; 3]>,
    visible: Vec<Vec<u32>>,
    cube: Option<SearchCube>,
    /// Ground-truth depth at image resolution, where known.
    truth: Option<Vec<Vec<f32>>>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let source = arguments.first().ok_or("expected a dataset, or demo")?;
    let text = |name: &str, default: &str| {
        let at = arguments.iter().position(|a| a == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(default.to_owned(), Clone::clone)
    };
    let number = |name: &str, default: u32| text(name, &default.to_string()).parse::<u32>();
    let has = |name: &str| arguments.iter().any(|a| a == name);
    let side = number("--side", 400)?;
    let pool = Pool::new(number("--threads", 1)? as usize);
    let wanted = text("--level", "auto");
    let wanted = SimdLevel::ALL.into_iter().find(|l| l.level_name() == wanted).ok_or("no such level")?;
    let level = dispatch_level(wanted).ok_or("this CPU lacks the SIMD level")?;
    let mut input = if source == "demo" { demo_scene(side)? } else { dataset(Path::new(source), side)? };
    if has("--no-tracks") {
        input.visible.clear();
    }
    if has("--no-points") {
        input.visible.clear();
        input.points.clear();
    }
    let scene = StereoScene {
        views: &input.views,
        points: &input.points,
        visible_points: &input.visible,
        cube: input.cube,
    };
    let options = StereoOptions {
        longest_side: side,
        planes: number("--planes", StereoOptions::default().planes)?,
        neighbours: number("--neighbours", StereoOptions::default().neighbours)?,
        ..StereoOptions::default()
    };
    gausset_prof::set_enabled(true);
    let start = cpu();
    let mut picture = |i: usize| Some(input.pictures[i].clone());
    let go_on = AtomicBool::new(false);
    let depths =
        depth_maps(&scene, &mut picture, &options, Exec { pool: &pool, level }, &go_on).ok_or("stopped")?;
    let seconds = cpu() - start;
    let start = cpu();
    let wanted = PointOptions { count: number("--count", 30_000)? as usize, seed: 0 };
    let points = dense_points(&scene, &depths, &wanted, &pool);
    let point_seconds = cpu() - start;
    for row in gausset_prof::snapshot().rows {
        println!("{:40} {:8.3} s", row.path, 1e-3 * row.total_ms);
    }
    let v = depths.verdict;
    println!(
        "{} views, side {}: {seconds:.2} CPU s; confirmed {:.1} %, gated {:.1} %, {:.2} views a point",
        depths.maps.len(),
        depths.longest_side,
        100.0 * v.confirmed_fraction,
        100.0 * v.gated_fraction,
        v.views_per_point
    );
    println!("{} dense points: {point_seconds:.2} CPU s", points.len());
    if let Some(truth) = &input.truth {
        compare(&depths, truth);
    }
    if let Some(folder) = Some(text("--out", "")).filter(|f| !f.is_empty()).map(PathBuf::from) {
        write(&folder, &depths, &points)?;
    }
    Ok(())
}

/// CPU seconds of the process.
fn cpu() -> f64 {
    gausset_prof::process_cpu().map_or(0.0, |time| time.as_secs_f64())
}

fn demo_scene(side: u32) -> Result<Input> {
    let scene = demo(DemoSize::Default, 0);
    let pool = Pool::with_all_cores();
    let camera = scene.camera.resized(side, side * 3 / 4);
    // Every eighth image is held out.
    let train: Vec<usize> = (0..scene.poses.len()).filter(|i| i % 8 != 0).collect();
    let poses: Vec<_> = train.iter().map(|&i| scene.poses[i]).collect();
    let views = poses.iter().map(|&pose| StereoView { camera, pose }).collect();
    let picture = |pose| {
        let RgbImage8 { width, height, data } = scene.render(&camera, pose, &pool);
        Arc::new(TargetImage { width, height, rgb: data, alpha: None, mask: None })
    };
    let pictures = poses.iter().map(picture).collect();
    let truth = poses.iter().map(|pose| scene.world.depth(&camera, pose, &pool)).collect();
    let sparse = scene.sparse_points(&pool);
    let mut visible = vec![Vec::new(); poses.len()];
    for (p, point) in (0u32..).zip(&sparse) {
        for seen in &point.track {
            if let Ok(view) = train.binary_search(&seen.view) {
                visible[view].push(p);
            }
        }
    }
    let points = sparse.iter().map(|p| p.position).collect();
    Ok(Input { views, pictures, points, visible, cube: None, truth: Some(truth) })
}

fn dataset(path: &Path, side: u32) -> Result<Input> {
    let dataset = Arc::new(open(path, &OpenOptions { max_resolution: side, ..OpenOptions::default() })?);
    let train = dataset.split.train.clone();
    let views: Vec<StereoView> = train
        .iter()
        .map(|&i| StereoView { camera: dataset.images[i].camera, pose: dataset.images[i].pose })
        .collect();
    let loader = Loader::new(dataset.clone(), LoaderOptions::default());
    let pictures = train.iter().map(|&i| loader.get(i)).collect::<std::result::Result<_, _>>();
    let pictures = pictures.map_err(|skipped| skipped.to_string())?;
    let cube = init::initial_cube(&dataset);
    let cube = Some(SearchCube { centre: cube.centre, half_side: cube.half_side });
    let points = dataset.points.iter().map(|p| p.position).collect();
    let tracks = dataset.read_tracks(u64::MAX)?;
    let visible = match tracks.is_empty() {
        true => Vec::new(),
        false => train.iter().map(|&i| tracks.points_of(i).to_vec()).collect(),
    };
    Ok(Input { views, pictures, points, visible, cube, truth: None })
}

/// Prints how close the depths are to the ground truth.
fn compare(depths: &Depths, truth: &[Vec<f32>]) {
    let (mut pixels, mut confirmed, mut within, mut fine, mut wide, mut wide_within) = (0, 0, 0, 0, 0, 0);
    for (map, truth) in depths.maps.iter().zip(truth) {
        pixels += truth.len();
        for ((&z, &support), &t) in map.depth.iter().zip(&map.support).zip(truth) {
            if z > 0.0 {
                let error = (z / t - 1.0).abs();
                confirmed += 1;
                within += usize::from(error < 0.03);
                fine += usize::from(error < 0.01);
                wide += usize::from(support.can_be_point());
                wide_within += usize::from(support.can_be_point() && error < 0.03);
            }
        }
    }
    let share = |n: usize, of: usize| 100.0 * n as f64 / of.max(1) as f64;
    println!(
        "truth: confirmed {:.1} % of pixels, of these within 3 %: {:.1} %, within 1 %: {:.1} %; gated {:.1} %, of these within 3 %: {:.1} %",
        share(confirmed, pixels),
        share(within, confirmed),
        share(fine, confirmed),
        share(wide, pixels),
        share(wide_within, wide)
    );
}

/// Writes some depth maps next to their images, and the points.
fn write(folder: &Path, depths: &Depths, points: &[DensePoint]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for (view, map) in depths.maps.iter().enumerate().step_by(depths.maps.len().div_ceil(8)) {
        let Some(camera) = map.camera else { continue };
        let (width, height) = (camera.width as usize, camera.height as usize);
        let mut known: Vec<f32> = map.depth.iter().copied().filter(|&z| z > 0.0).collect();
        known.sort_by(f32::total_cmp);
        let quantile = |share: f64| known.get((share * known.len() as f64) as usize).copied().unwrap_or(1.0);
        let (near, far) = (1.0 / quantile(0.01), 1.0 / quantile(0.99));
        let mut picture = RgbImage8::new(2 * camera.width, camera.height);
        for (y, row) in picture.data.chunks_exact_mut(6 * width).enumerate().take(height) {
            row[..3 * width].copy_from_slice(&map.rgb[3 * y * width..3 * (y + 1) * width]);
            for x in 0..width {
                let z = map.depth[y * width + x];
                let t = ((1.0 / z - far) / (near - far)).clamp(0.0, 1.0);
                // From blue (far) over green to red (near).
                let colour = [(2.0 * t - 1.0).abs().min(t * 2.0), 1.0 - (2.0 * t - 1.0).abs(), 1.0 - t];
                let colour = if z > 0.0 { colour.map(|c| (40.0 + 215.0 * c) as u8) } else { [0; 3] };
                row[3 * (width + x)..3 * (width + x) + 3].copy_from_slice(&colour);
            }
        }
        std::fs::write(folder.join(format!("depth_{view:03}.png")), encode::png_rgb8(&picture)?)?;
    }
    let mut ply = format!(
        "ply\nformat ascii 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\nproperty \
         uchar red\nproperty uchar green\nproperty uchar blue\nproperty float scale\nend_header\n",
        points.len()
    );
    for DensePoint { position: [x, y, z], colour: [r, g, b], scale, .. } in points {
        ply += &format!("{x} {y} {z} {r} {g} {b} {scale}\n");
    }
    std::fs::write(folder.join("dense.ply"), ply)?;
    Ok(())
}
