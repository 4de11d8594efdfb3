//! Conversions through the library: transformed splats look the same from transformed cameras, and the loss of a format
//! is measured before anything is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset::convert::{ConversionResult, ConvertOptions, SplatEdits, convert};
use gausset::device::DeviceOptions;
use gausset::{Failure, Host};
use gausset_core::engine::{Outputs, RenderOptions};
use gausset_core::{Splats, sh};
use gausset_io::atomic::{Disk, WriteOptions};
use gausset_io::splat::{self, LoadOptions, SaveOptions, SplatFile};
use gausset_train::Up;
use gausset_train::orbit::{ImageShape, orbit_splats};
use tempfile::TempDir;

/// Splats in a ball with SH of degree 3; the first is far out, the second nearly transparent.
fn write_scene(folder: &Path, count: usize) -> PathBuf {
    let mut state = 7u32;
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut splats = Splats::with_capacity(3, count);
    for i in 0..count {
        let mut mean = [number(), number(), number()];
        if i == 0 {
            mean[2] = 300.0;
        }
        let log_scale = [0, 1, 2].map(|_| -2.5 + 0.7 * number());
        let quat = [1.0 + 0.5 * number(), number(), number(), number()];
        let coefficients: Vec<f32> = (0..3 * sh::coefficients(3)).map(|_| 0.35 * number()).collect();
        let logit = if i == 1 { -9.0 } else { 2.0 * number() };
        splats.push(mean, log_scale, quat, logit, &coefficients);
    }
    let path = folder.join("scene.ply");
    let document = SplatFile { vertical_axis: Some([0.0, -1.0, 0.0]), ..SplatFile::new(splats) };
    splat::save(&Disk, &path, &document, &SaveOptions::default(), &WriteOptions::default()).unwrap();
    path
}

fn run(options: &ConvertOptions) -> Result<ConversionResult, Failure> {
    convert(options, &mut Host::new(&Arc::default(), &mut |_| {}))
}

fn load(path: &Path) -> SplatFile {
    splat::load(path, &LoadOptions::default()).unwrap()
}

#[test]
fn what_is_moved_looks_the_same_to_a_camera_that_moves_along() {
    let folder = TempDir::new().unwrap();
    let input = write_scene(folder.path(), 400);
    let output = folder.path().join("moved.ply");
    let edits = SplatEdits {
        translate: [0.3, -0.2, 0.5],
        rotate: [25.0, -40.0, 70.0],
        scale: 1.7,
        up: Up::X,
        ..SplatEdits::default()
    };
    run(&ConvertOptions { edits: edits.clone(), ..ConvertOptions::new(&input, &output) }).unwrap();
    let (before, after) = (load(&input), load(&output));
    let shape = ImageShape { width: Some(96), height: Some(72), vertical_fov: None };
    let cameras = orbit_splats(&before.splats, 5, before.vertical_axis, &shape).unwrap();
    let mut engine = DeviceOptions::default().engine(1).unwrap();
    let mut colours = |document: &SplatFile, moves: Option<&SplatEdits>| -> Vec<f32> {
        engine.load_splats(document.splats.clone(), Vec::new()).unwrap();
        let mut all = Vec::new();
        for view in &cameras {
            let pose = moves.map_or(view.pose, |edits| edits.transform().apply_to_pose(&view.pose));
            let near_plane = RenderOptions::default().near_plane * moves.map_or(1.0, |edits| edits.scale);
            let how = RenderOptions { near_plane, ..RenderOptions::default() };
            all.extend(engine.render(&view.camera, &pose, &how, Outputs::Color).unwrap().color);
        }
        all
    };
    let (old, new) = (colours(&before, None), colours(&after, Some(&edits)));
    let brightest = old.iter().copied().fold(0.0, f32::max);
    // Values of both files are rounded to f32, and colours are sums of some tens of splats.
    let largest = old.iter().zip(&new).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(brightest > 0.5 && largest < 1e-5, "{brightest} {largest}");
    // Unrotated SH coefficients would change the renders.
    let mut flat = after.clone();
    flat.splats.sh.clone_from(&before.splats.sh);
    let unturned = colours(&flat, Some(&edits));
    assert!(old.iter().zip(&unturned).any(|(a, b)| (a - b).abs() > 0.05));
}

#[test]
fn a_report_tells_what_the_format_costs_and_what_was_left_out() {
    let folder = TempDir::new().unwrap();
    let input = write_scene(folder.path(), 300);
    let output = |name: &str| folder.path().join(name);
    let report = |name: &str, edits: SplatEdits| {
        run(&ConvertOptions { report: true, edits, ..ConvertOptions::new(&input, output(name)) }).unwrap()
    };
    let exact = report("same.ply", SplatEdits { rotate: [10.0, 20.0, 30.0], ..SplatEdits::default() });
    let loss = exact.loss.unwrap();
    assert_eq!((loss.psnr, loss.worst, loss.views, loss.cameras), (None, None, 12, "around"));
    assert!(exact.edits_loss.is_none(), "nothing was left out");

    let cut =
        report("cut.spz", SplatEdits { sh_degree: Some(0), drop_far: Some(20.0), ..SplatEdits::default() });
    assert_eq!((cut.removed.far, cut.written.count, cut.written.sh_degree), (1, 299, 0));
    let (format, edits) = (cut.loss.unwrap().psnr.unwrap(), cut.edits_loss.unwrap().psnr.unwrap());
    assert!(format > 35.0 && edits < format, "{format} {edits}");
    assert_eq!((cut.written.format, cut.written.version.as_deref()), ("spz", Some("4")));
    assert_eq!((cut.written.frame.as_deref(), cut.sh_bits), (Some("RDF"), None));

    let faint = report("faint.glb", SplatEdits { min_opacity: Some(0.001), ..SplatEdits::default() });
    assert_eq!((faint.removed.faint, faint.written.count), (1, 299));
    assert!(faint.loss.unwrap().psnr.is_none_or(|psnr| psnr > 100.0));
    assert_eq!(load(&output("faint.glb")).splats.len(), 299);
}

#[test]
fn a_wanted_quality_chooses_the_fewest_bits_or_nothing_is_written() {
    let folder = TempDir::new().unwrap();
    let input = write_scene(folder.path(), 300);
    let output = folder.path().join("out.spz");
    let wanted = |least: f64, sh_bits| {
        let options = ConvertOptions {
            min_psnr: Some(least),
            sh_bits,
            force: true,
            ..ConvertOptions::new(&input, &output)
        };
        run(&options)
    };
    let failure = wanted(90.0, None).unwrap_err();
    assert_eq!(failure.code, "convert-loss");
    assert!(failure.message.contains("out.spz: loss: SPZ keeps "), "{failure}");
    assert!(!output.exists());
    let few = wanted(20.0, None).unwrap();
    assert_eq!(few.sh_bits, Some([4, 3]));
    let bytes = std::fs::metadata(&output).unwrap().len();
    assert_eq!(bytes, few.saved.bytes);
    let psnr = few.loss.unwrap().psnr.unwrap();
    let more = wanted(psnr + 1.0, None).unwrap();
    assert!(more.sh_bits > few.sh_bits && more.saved.bytes > bytes);
    assert!(more.loss.unwrap().psnr.unwrap() >= psnr + 1.0);
    // Requested SH bits are used, and refused if their quality is too low.
    assert_eq!(wanted(20.0, Some([3, 3])).unwrap().sh_bits, Some([3, 3]));
    assert!(wanted(psnr + 1.0, Some([4, 3])).is_err());
}
