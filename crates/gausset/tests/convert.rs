//! Conversions through the library: transformed splats look the same from transformed cameras, and the loss of a format
//! is measured before anything is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset::convert::{ConversionResult, ConvertOptions, SkyChoice, SplatEdits, convert};
use gausset::device::DeviceOptions;
use gausset::{Failure, Host};
use gausset_core::engine::{Outputs, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Splats, sh};
use gausset_io::atomic::{Disk, Overwrite, WriteOptions};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::splat::{self, Format, LoadOptions, SaveOptions, SplatFile, SpzAxes};
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

/// A dataset with nine cameras that look at the scene from six units away, with its origin at `place`; the first, which is
/// held out as is the last, looks away.
fn write_dataset(folder: &Path, place: [f64; 3]) -> PathBuf {
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let frame = |k: u32| {
        let name = format!("{k}.png");
        let pixels = vec![128; 64 * 48 * 3];
        std::fs::write(data.join(&name), png(64, 48, PngPixels::Rgb8(&pixels), &[]).unwrap()).unwrap();
        let side = if k == 0 { 1.0 } else { -1.0 };
        let angle = 0.7 * f64::from(k);
        let [x, y, z] = [place[0] + 0.8 * angle.cos(), place[1] + 0.8 * angle.sin(), place[2] - 6.0];
        let matrix = format!("[[{side},0,0,{x}],[0,1,0,{y}],[0,0,{side},{z}],[0,0,0,1]]");
        format!("{{\"file_path\": \"{name}\", \"transform_matrix\": {matrix}}}")
    };
    let frames: Vec<String> = (0..9).map(frame).collect();
    let text = format!("{{\"fl_x\": 60, \"frames\": [{}]}}", frames.join(","));
    std::fs::write(data.join("transforms.json"), text).unwrap();
    data
}

#[test]
fn a_camera_that_sees_no_splats_does_not_hide_the_loss_of_the_others() {
    let folder = TempDir::new().unwrap();
    let input = write_scene(folder.path(), 300);
    let options = ConvertOptions {
        data: Some(write_dataset(folder.path(), [0.0; 3])),
        report: true,
        ..ConvertOptions::new(&input, folder.path().join("out.splat"))
    };
    let strict = ConvertOptions { min_psnr: Some(90.0), ..options.clone() };
    assert_eq!(run(&strict).unwrap_err().code, "convert-loss");
    let loss = run(&options).unwrap().loss.unwrap();
    assert_eq!((loss.cameras, loss.views, loss.worst_view.as_str()), ("held-out", 2, "8"));
    assert!(loss.psnr.is_some_and(|psnr| psnr < 60.0) && loss.psnr == loss.worst, "{loss:?}");
}

#[test]
fn a_dataset_is_opened_with_the_offset_of_the_splats() {
    let place = [431_000.0, 5_412_000.0, 312.0];
    let folder = TempDir::new().unwrap();
    let mut scene = load(&write_scene(folder.path(), 300));
    let (data, input) = (write_dataset(folder.path(), place), folder.path().join("there.ply"));
    let mut removed = |shift: f64| {
        scene.splats.means.iter_mut().for_each(|mean| mean[0] -= shift as f32);
        scene.offset = Some([place[0] + shift, place[1], place[2]]);
        scene.saved_from_dataset = Some(Similarity::IDENTITY);
        let write = WriteOptions { overwrite: Overwrite::Replace, ..WriteOptions::default() };
        splat::save(&Disk, &input, &scene, &SaveOptions::default(), &write).unwrap();
        let options = ConvertOptions {
            data: Some(data.clone()),
            crop_to_cameras: Some(7.0),
            force: true,
            ..ConvertOptions::new(&input, folder.path().join("out.ply"))
        };
        run(&options).unwrap().removed.outside
    };
    let count = removed(0.0);
    assert!(count > 10 && count < 290, "{count}");
    assert_eq!(removed(10.0), count);
}

/// The scene with a sky of 40 splats behind it.
fn write_scene_with_sky(folder: &Path) -> PathBuf {
    let mut document = load(&write_scene(folder, 300));
    for i in 0..40u8 {
        let angle = f32::from(i);
        let mean = [900.0 * angle.cos(), 900.0 * angle.sin(), 100.0];
        document.splats.push(mean, [4.0; 3], [1.0, 0.0, 0.0, 0.0], 3.0, &[0.2; 48]);
    }
    document.sky = 40;
    let path = folder.join("with_sky.ply");
    splat::save(&Disk, &path, &document, &SaveOptions::default(), &WriteOptions::default()).unwrap();
    path
}

#[test]
fn a_sky_is_left_out_of_scene_formats_and_on_request() {
    let folder = TempDir::new().unwrap();
    let input = write_scene_with_sky(folder.path());
    let output = |name: &str| folder.path().join(name);
    let converted = |name: &str, sky| {
        let options = ConvertOptions { sky, force: true, ..ConvertOptions::new(&input, output(name)) };
        let result = run(&options).unwrap();
        assert_eq!(result.read.sky, Some(40));
        let far = load(&output(name)).splats.means.iter().filter(|mean| mean[2] == 100.0).count();
        assert_eq!(far + result.removed.sky, 40, "{name}");
        result.removed.sky
    };
    for (name, by_default) in
        [("a.glb", 40), ("a.splat", 40), ("a.ply", 0), ("a.spz", 0), ("a.sog", 0), ("a.compressed.ply", 0)]
    {
        if ["a.glb", "a.splat", "a.ply"].contains(&name) {
            assert_eq!(converted(name, SkyChoice::Auto), by_default, "{name}");
            assert_eq!(converted(name, SkyChoice::Keep), 0, "{name}");
            assert_eq!(converted(name, SkyChoice::Drop), 40, "{name}");
        }
        let options = ConvertOptions { force: true, ..ConvertOptions::new(&input, output(name)) };
        let result = run(&options).unwrap();
        assert_eq!((result.removed.sky, result.written.sky), (by_default, (by_default == 0).then_some(40)));
    }
    // The sky as an image in the axes of the output, whether the file keeps it or not; nothing is replaced.
    let image = output("sky.png");
    let edits = SplatEdits { up: Up::X, ..SplatEdits::default() };
    let sky_image = Some(image.clone());
    let options =
        ConvertOptions { sky_image, edits, force: true, ..ConvertOptions::new(&input, output("a.glb")) };
    assert_eq!(run(&options).unwrap().removed.sky, 40);
    let found = gausset_io::image::decode_file(&image).unwrap();
    assert_eq!((found.width, found.height), (1024, 512));
    let refused = |options| run(&options).unwrap_err().to_string();
    let again = ConvertOptions { force: false, output: output("c.glb"), ..options.clone() };
    assert!(refused(again).contains("sky.png"));
    assert!(!output("c.glb").exists());
    let same = ConvertOptions { output: output("sky.png"), format: Some(Format::Ply), ..options.clone() };
    assert!(refused(same).contains("is the output"));
    // A file that marks no sky: a warning, and nothing is removed.
    let plain = write_scene(folder.path(), 10);
    let mut warnings = Vec::new();
    let options = ConvertOptions { sky: SkyChoice::Drop, ..ConvertOptions::new(&plain, output("b.ply")) };
    let result = convert(
        &options,
        &mut Host::new(&Arc::default(), &mut |event| {
            warnings.push(format!("{event:?}"));
        }),
    );
    assert_eq!(result.unwrap().removed.sky, 0);
    assert!(warnings.iter().any(|line| line.contains("no splats are marked as one")), "{warnings:?}");
    let options = ConvertOptions { input: plain, output: output("d.ply"), ..options };
    let options = ConvertOptions { sky_image: Some(image), force: true, ..options };
    assert!(run(&options).unwrap_err().to_string().contains("no splats are marked as a sky"));
    assert!(!output("d.ply").exists());
}

#[test]
fn a_limit_keeps_the_most_important_splats_and_the_size_is_never_above_it() {
    let folder = TempDir::new().unwrap();
    let input = write_scene(folder.path(), 3000);
    let output = |name: &str| folder.path().join(name);
    let few = ConvertOptions { max_splats: Some(100), ..ConvertOptions::new(&input, output("few.ply")) };
    let result = run(&few).unwrap();
    assert_eq!((result.written.count, result.removed.unimportant), (100, 2900));
    assert!(
        result.removed_importance > 0.1 && result.removed_importance < 0.9667,
        "{}",
        result.removed_importance
    );
    // Faint splats go before opaque ones, and the order of the others stays.
    let (before, after) = (load(&input).splats, load(&output("few.ply")).splats);
    let mut place = 0;
    for mean in &after.means {
        place += before.means[place..].iter().position(|other| other == mean).unwrap() + 1;
    }
    let mean_logit = |splats: &Splats| splats.opacity_logits.iter().sum::<f32>() / splats.len() as f32;
    assert!(mean_logit(&after) > mean_logit(&before) + 0.2);
    for (name, most) in
        [("a.ply", 300_000), ("a.splat", 20_000), ("a.spz", 40_000), ("a.compressed.ply", 50_000)]
    {
        let options = ConvertOptions { max_bytes: Some(most), ..ConvertOptions::new(&input, output(name)) };
        let result = run(&options).unwrap();
        let bytes = std::fs::metadata(output(name)).unwrap().len();
        assert!(bytes <= most && bytes as f64 > 0.9 * most as f64, "{name}: {bytes} of {most}");
        assert_eq!(result.saved.bytes, bytes);
    }
    let options =
        ConvertOptions { max_bytes: Some(10_000_000), ..ConvertOptions::new(&input, output("all.ply")) };
    assert_eq!(run(&options).unwrap().removed.total(), 0);
    let options = ConvertOptions { max_bytes: Some(20), ..ConvertOptions::new(&input, output("none.ply")) };
    let failure = run(&options).unwrap_err();
    assert!(failure.code == "usage" && failure.message.contains("no PLY is that small"), "{failure}");
    assert!(!output("none.ply").exists());
}

#[test]
fn numbers_out_of_range_are_refused() {
    let plain = || ConvertOptions::new("in.ply", "out.ply");
    let edited = |edits| ConvertOptions { edits, ..plain() };
    let edits = SplatEdits::default;
    for (name, options) in [
        ("scale", edited(SplatEdits { scale: 0.0, ..edits() })),
        ("scale", edited(SplatEdits { scale: 1e30, ..edits() })),
        ("min-opacity", edited(SplatEdits { min_opacity: Some(f64::NAN), ..edits() })),
        ("sh-degree", edited(SplatEdits { sh_degree: Some(4), ..edits() })),
        ("rotate", edited(SplatEdits { rotate: [0.0, f64::NAN, 0.0], ..edits() })),
        ("up", edited(SplatEdits { up: Up::Auto, ..edits() })),
        ("min-psnr", ConvertOptions { min_psnr: Some(f64::NAN), ..plain() }),
        ("levels", ConvertOptions { levels: Some(0), ..plain() }),
        ("max-splats", ConvertOptions { max_splats: Some(0), ..plain() }),
    ] {
        let failure = run(&options).unwrap_err();
        assert_eq!(failure.code, "option", "{name}: {failure}");
        assert!(failure.message.starts_with(&format!("⟨{name}⟩: expected")), "{failure}");
    }
}

#[test]
fn an_output_folder_of_the_released_code_is_converted_and_no_splats_are_refused() {
    let folder = TempDir::new().unwrap();
    let input = write_scene(folder.path(), 20);
    let last = folder.path().join("inria/point_cloud/iteration_30000");
    std::fs::create_dir_all(&last).unwrap();
    std::fs::copy(&input, last.join("point_cloud.ply")).unwrap();
    let output = folder.path().join("out.spz");
    let result = run(&ConvertOptions::new(folder.path().join("inria"), &output)).unwrap();
    assert_eq!((result.written.count, result.input), (20, last.join("point_cloud.ply")));
    let header = "ply\nformat ascii 1.0\nelement vertex 0\n";
    let names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2"];
    let names = names.into_iter().chain(["rot_0", "rot_1", "rot_2", "rot_3"]);
    let properties: String = names.map(|name| format!("property float {name}\n")).collect();
    let empty = folder.path().join("empty.ply");
    std::fs::write(&empty, format!("{header}{properties}end_header\n")).unwrap();
    for name in ["e.ply", "e.splat", "e.spz", "e.sog", "e.glb", "e.html", "e.compressed.ply"] {
        let failure = run(&ConvertOptions::new(&empty, folder.path().join(name))).unwrap_err();
        let line = format!("{}: no splats to convert (expected at least one, found none)", empty.display());
        assert_eq!((failure.code, failure.message), ("usage", line), "{name}");
    }
}

#[test]
fn the_axes_of_an_spz_can_be_given_wherever_splats_are_read() {
    let folder = TempDir::new().unwrap();
    let input = write_scene(folder.path(), 20);
    let spz = folder.path().join("a.spz");
    let options = ConvertOptions { spz_version: Some(3), ..ConvertOptions::new(&input, &spz) };
    run(&options).unwrap();
    let read = |axes| gausset::saved_run::read_splats(&spz, axes).unwrap().splats.means[3];
    let [x, y, z] = read(None);
    assert_eq!((read(Some(SpzAxes::AsIs)), read(Some(SpzAxes::Rub))), ([x, y, z], [x, -y, -z]));
    let failure = gausset::saved_run::read_splats(&input, Some(SpzAxes::Rub)).unwrap_err();
    assert!(
        failure.code == "option" && failure.message.starts_with("⟨spz-frame⟩: has no effect on PLY"),
        "{failure}"
    );
    assert_eq!(load(&spz).format, Format::Spz);
}
