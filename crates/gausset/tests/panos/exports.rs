//! A recorded alignment through every format and back, into pycolmap, and against other poses.

use gausset::aligner::{Aligner, AlignerOptions};
use gausset::panos::PriorKnowledge;
use gausset::panos::align::align_and_compare;
use gausset::panos::compare::compare;
use gausset::panos::export::ExportFormat;
use gausset_core::Pose;
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::colmap::{ColmapModel, ModelFormat};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::{decode_file, decode_mask_file};
use gausset_pano::export::AlignedPoses;
use gausset_pano::layout::Layout;
use gausset_pano::mask_names::MaskConvention;
use gausset_pano::poses::{NamedPose, read};
use gausset_sfm::reprojection::{ReprojectionErrors, reprojection_errors};
use gausset_testkit::data_file;
use serde_json::Value;

use crate::support::{Place, ask, assert_refused, distance, pycolmap, recorded, run};

/// Three panoramas of the room, split and aligned with recorded COLMAP output. The recording has no observations, so
/// each view gets observations of the visible points, at most half a pixel off.
fn aligned() -> Place {
    let place = recorded();
    place.align_with(&PriorKnowledge::default()).0.unwrap();
    let mut sfm = place.model("w/sparse/0");
    let mut errors = vec![Vec::new(); sfm.points.len()];
    for image in &mut sfm.images {
        let pose = Pose::from_quaternion(image.quaternion, image.translation).unwrap();
        for (k, point) in sfm.points.iter_mut().enumerate() {
            let [x, y, z] = pose.apply(point.position);
            let noise = |salt: usize| ((7 * k + 11 * image.id as usize + salt) % 17) as f64 / 17.0 - 0.5;
            let pixel = [112.0 * x / z + 112.0 + noise(0), 112.0 * y / z + 112.0 + noise(5)];
            if z > 0.0 && pixel.iter().all(|v| (1.0..223.0).contains(v)) {
                point.track.push([image.id, image.points.len() as u32]);
                image.points.push((pixel, point.id));
                errors[k].push((noise(0) * noise(0) + noise(5) * noise(5)).sqrt());
            }
        }
    }
    for (point, errors) in sfm.points.iter_mut().zip(errors) {
        point.error = errors.iter().sum::<f64>() / errors.len() as f64;
    }
    for (name, bytes) in sfm.to_files(ModelFormat::Binary) {
        place.write(&format!("w/sparse/0/{name}"), bytes);
    }
    place
}

fn errors(model: &ColmapModel) -> ReprojectionErrors {
    reprojection_errors(model).expect("observations")
}

/// Positions in a PLY of points as it is exported.
fn ply(bytes: &[u8]) -> Vec<[f64; 3]> {
    let end = bytes.windows(11).position(|w| w == b"end_header\n").expect("a header") + 11;
    let number = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().unwrap()));
    bytes[end..].chunks_exact(15).map(|p| [number(&p[..4]), number(&p[4..8]), number(&p[8..12])]).collect()
}

/// Mean reprojection error of exported points against COLMAP's observations, px, with exported poses and focal lengths.
fn mean_error(
    sfm: &ColmapModel,
    points: &[[f64; 3]],
    poses: &[NamedPose],
    focal: &dyn Fn(&str) -> f64,
) -> f64 {
    assert_eq!(points.len(), sfm.points.len());
    let mut errors = Vec::new();
    for image in &sfm.images {
        let without = |name: &str| name.trim_end_matches(".jpg").trim_start_matches("images/").to_owned();
        let pose = poses.iter().find(|p| without(&p.name) == without(&image.name)).expect("a pose");
        for (pixel, id) in &image.points {
            let Some(at) = sfm.points.iter().position(|p| p.id == *id) else { continue };
            let [x, y, z] = pose.pose.apply(points[at]);
            let f = focal(&pose.name);
            assert!(z > 0.0);
            let (u, v) = (f * x / z + 112.0 - pixel[0], f * y / z + 112.0 - pixel[1]);
            errors.push((u * u + v * v).sqrt());
        }
    }
    assert!(errors.len() > 300, "{}", errors.len());
    errors.iter().sum::<f64>() / errors.len() as f64
}

/// The number after a word.
fn after(text: &str, word: &str) -> f64 {
    let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("no {word}"));
    let end = rest.find(|c: char| !c.is_ascii_digit() && !".e-".contains(c)).unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}

#[test]
fn points_fit_the_cameras_of_every_form_as_they_fit_colmaps() {
    let place = aligned();
    let sfm = place.model("w/sparse/0");
    let own = errors(&sfm).px.mean;
    for (form, file) in [
        (ExportFormat::Transforms, "transforms.json"),
        (ExportFormat::Metashape, "cameras.xml"),
        (ExportFormat::Xmp, ""),
        (ExportFormat::Realitycapture, "cameras.csv"),
    ] {
        let name = form.name();
        place.export(form, name);
        let poses = read::read(&place.path(name).join(file)).unwrap().poses;
        let points = ply(&place.read(&format!("{name}/sparse_pc.ply")));
        let text = |file: &str| place.text(&format!("{name}/{file}"));
        let focal = |view: &str| match form {
            ExportFormat::Transforms => {
                let json: Value = serde_json::from_str(&text(file)).unwrap();
                json["frames"][0]["fl_x"].as_f64().expect("fl_x")
            }
            ExportFormat::Metashape => after(&text(file), "<f>"),
            ExportFormat::Xmp => after(&text(&format!("{view}.xmp")), "FocalLength35mm=\"") / 36.0 * 224.0,
            _ => {
                let table = text(file);
                let line = table.lines().nth(1).expect("a line");
                line.split(',').nth(7).expect("f").parse::<f64>().unwrap() / 36.0 * 224.0
            }
        };
        let found = mean_error(&sfm, &points, &poses, &focal);
        println!("{name}: {found:.6} px, COLMAP's own {own:.6}");
        assert!(found < own + 0.01, "{name}: {found} px, COLMAP's own {own}");
    }
    for (form, is_text) in [("binary", false), ("text", true)] {
        place.try_export(ExportFormat::Colmap, form, |options| options.is_text = is_text).unwrap();
        let exported = place.model(form);
        let found = errors(&exported);
        let count: usize = sfm.points.iter().map(|p| p.track.len()).sum();
        assert_eq!((exported.points.len(), found.observations), (sfm.points.len(), count));
        assert!((found.px.mean - own).abs() < 1e-6, "{form}: {} px, COLMAP's own {own}", found.px.mean);
    }
    // Other views see the same directions, so angular errors are unchanged.
    let degrees = errors(&sfm).degrees.mean;
    place.split_square("walk", "cube", Layout::Cube6, 224);
    let of_cube = place.path("cube");
    place.try_export(ExportFormat::Colmap, "of_cube", |options| options.views_of = Some(of_cube)).unwrap();
    let found = errors(&place.model("of_cube"));
    println!(
        "cube6: {:.5} degrees, ring8 {degrees:.5}; {:.4} px, ring8 {own:.4}",
        found.degrees.mean, found.px.mean
    );
    assert!(found.degrees.mean < 1.05 * degrees && found.observations > 150, "{found:?}");
}

#[test]
fn poses_go_through_every_form_and_back() {
    let place = aligned();
    place.export(ExportFormat::Colmap, "of_colmap");
    for (form, file, reference) in [
        (ExportFormat::Transforms, "transforms.json", "of_colmap"),
        (ExportFormat::Metashape, "cameras.xml", "of_colmap"),
        (ExportFormat::Xmp, "", "of_colmap"),
        (ExportFormat::Realitycapture, "cameras.csv", "of_colmap"),
        (ExportFormat::Transforms, "panoramas.json", "w"),
        (ExportFormat::MetashapeSpherical, "panoramas.xml", "w"),
        (ExportFormat::Tum, "trajectory.txt", "w"),
        (ExportFormat::Tum, "trajectory.txt", "of_colmap"),
        (ExportFormat::Csv, "trajectory.csv", "w"),
    ] {
        let sources = (form == ExportFormat::MetashapeSpherical).then(|| place.path("walk"));
        let done = place.try_export(form, form.name(), |options| {
            options.sources = sources;
            options.overwrite = Overwrite::Replace;
        });
        done.unwrap();
        let found = place.compare(&format!("{}/{file}", form.name()), reference);
        assert!(found.centre.worst < 1e-6 * found.path, "{file}: {found:?}");
        assert!(found.rotation_degrees.worst.to_radians() < 1e-6, "{file}: {found:?}");
        assert!((found.fit.scale - 1.0).abs() < 1e-6, "{file}");
        assert!((found.registered_share - 1.0).abs() < 1e-12, "{file}");
    }
    // A sensor for each size of a panorama.
    place.write("walk/frame_00.jpg", png(128, 64, PngPixels::Grey8(&[0; 128 * 64]), &[]).unwrap());
    let sources = Some(place.path("walk"));
    place.try_export(ExportFormat::MetashapeSpherical, "sizes", |options| options.sources = sources).unwrap();
    let text = place.text("sizes/panoramas.xml");
    assert_eq!(["<sensor ", "sensor_id=\"1\""].map(|word| text.matches(word).count()), [2, 2], "{text}");
}

#[test]
fn an_export_replaces_its_own_files_and_others_by_force_only() {
    let place = aligned();
    for _ in 0..2 {
        place.try_export(ExportFormat::Transforms, "", |options| options.output = None).unwrap();
    }
    for (form, file) in
        [(ExportFormat::Transforms, "scene/transforms.json"), (ExportFormat::Colmap, "scene/cameras.bin")]
    {
        place.write(file, "theirs");
        let refused = place.try_export(form, "scene", |_| {}).unwrap_err().message;
        assert!(refused.contains(&format!("{file}: output: exists already")), "{refused}");
        assert_eq!(place.read(file), b"theirs");
        assert_eq!(std::fs::read_dir(place.path("scene")).unwrap().count(), 1);
        place.try_export(form, "scene", |options| options.overwrite = Overwrite::Replace).unwrap();
        std::fs::remove_dir_all(place.path("scene")).unwrap();
    }
}

const READ: &str = "
import json, sys, pycolmap
model = pycolmap.Reconstruction(sys.argv[1])
print(json.dumps({'error': model.compute_mean_reprojection_error(), 'observations': model.compute_num_observations(),
                  'points': model.num_points3D(), 'frames': model.num_reg_frames(), 'rigs': len(model.rigs),
                  'own': sum(p.error for p in model.points3D.values()) / model.num_points3D()}))
";

#[test]
fn pycolmap_finds_points_observations_and_rigs() {
    let Some(python) = pycolmap("pycolmap_finds_points_observations_and_rigs") else { return };
    let place = aligned();
    let sfm = ask(&python, READ, &[&place.path("w/sparse/0")]);
    for (form, is_text) in [("binary", false), ("text", true)] {
        place.try_export(ExportFormat::Colmap, form, |options| options.is_text = is_text).unwrap();
        let found = ask(&python, READ, &[&place.path(form)]);
        for key in ["points", "observations", "frames", "rigs"] {
            assert_eq!(found[key], sfm[key], "{form}: {key}");
        }
        let near = |key: &str| (found[key].as_f64().unwrap() - sfm["error"].as_f64().unwrap()).abs() < 0.01;
        assert!(near("error") && near("own"), "{form}: {found} {sfm}");
    }
}

#[test]
fn a_comparison_says_what_is_off() {
    let place = aligned();
    let poses = place.aligned_poses();
    let change = |name: &str, edit: &dyn Fn(&mut AlignedPoses)| {
        let mut changed = poses.clone();
        edit(&mut changed);
        place.write(name, serde_json::to_vec(&changed).unwrap());
    };
    // Another world, twice as large.
    change("other.json", &|poses| {
        for frame in &mut poses.frames {
            frame.translation = frame.translation.map(|t| t.map(|v| 2.0 * v));
        }
    });
    let found = place.compare("w", "other.json");
    assert!((found.fit.scale - 2.0).abs() < 1e-9, "{found:?}");
    assert!(found.first.reprojection.as_ref().is_some_and(|errors| errors.degrees.mean > 0.0), "{found:?}");
    change("few.json", &|poses| poses.frames.truncate(2));
    change("twins.json", &|poses| poses.frames[1].name = poses.frames[0].name.clone());
    change("still.json", &|poses| {
        poses.frames.iter_mut().for_each(|frame| frame.translation = Some([0.0; 3]));
    });
    change("strangers.json", &|poses| {
        poses.frames.iter_mut().for_each(|frame| frame.name = format!("x{}", frame.name));
    });
    for (first, reference, words) in [
        ("w", "few.json", "2 in common (expected at least 3)"),
        ("w", "twins.json", "occurs 2 times in the second"),
        ("w", "still.json", "all centres of the reference are equal"),
        ("w", "strangers.json", "no name in common"),
        // Views against panoramas.
        ("w/sparse/0", "other.json", "occurs 8 times in the first"),
    ] {
        assert_refused(compare(&place.path(first), &place.path(reference)), "poses", words);
    }
    // An alignment with a reference reports the same numbers.
    let (folder, reference) = (place.path("w"), place.path("other.json"));
    let tool = place.stand_in();
    let (judged, _) = run(|host| {
        align_and_compare(&folder, &reference, &PriorKnowledge::default(), &tool, Overwrite::Refuse, host)
    });
    assert_eq!(judged.unwrap().reference.expect("a comparison").centre, found.centre);
}

#[test]
fn masks_are_where_each_program_looks() {
    let place = aligned();
    // A mask ignores the lower half of one view.
    let mut pixels = vec![255u8; 224 * 224];
    pixels[224 * 112..].fill(0);
    let mask = png(224, 224, PngPixels::Grey8(&pixels), &[]).unwrap();
    place.write("w/masks/view00/frame_00.jpg.png", &mask);
    let export = |program: &str, invert: bool| {
        let done = place.try_export(ExportFormat::Transforms, &format!("for_{program}"), |options| {
            options.masks = MaskConvention::from_name(program);
            options.invert = invert;
        });
        done.unwrap().masks
    };
    let keep = |path: &str| decode_mask_file(&place.path(path)).unwrap().values;
    for (program, path) in [
        ("colmap", "masks/view00/frame_00.jpg.png"),
        ("brush", "masks/view00/frame_00.png"),
        ("lichtfeld", "masks/view00/frame_00.png"),
        ("360toolkit", "masks/view00/frame_00_mask.png"),
        ("realitycapture", "images/view00/frame_00.jpg.mask.png"),
        ("metashape", "masks/view00/frame_00_mask.png"),
    ] {
        assert_eq!(export(program, false), 1, "{program}");
        assert_eq!(keep(&format!("for_{program}/{path}")), pixels, "{program}");
    }
    assert_eq!(export("realityscan", true), 1);
    let other: Vec<u8> = pixels.iter().map(|v| 255 - v).collect();
    assert_eq!(keep("for_realityscan/images/view00/frame_00.jpg.mask.png"), other);
    // Nerfstudio needs a mask per image, and their names.
    assert_eq!(export("nerfstudio", false), 24);
    let json: Value = serde_json::from_slice(&place.read("for_nerfstudio/transforms.json")).unwrap();
    for frame in json["frames"].as_array().expect("frames") {
        let path = format!("for_nerfstudio/{}", frame["mask_path"].as_str().expect("a mask"));
        let is_masked = frame["file_path"] == "images/view00/frame_00.jpg";
        assert_eq!(keep(&path) == pixels, is_masked, "{path}");
    }
    assert_eq!(json["ply_file_path"], "sparse_pc.ply");
    // Masks as alpha are written as separate images.
    assert_eq!(export("postshot", false), 24);
    let picture = decode_file(&place.path("for_postshot/images/view00/frame_00.png")).unwrap();
    assert_eq!(picture.alpha.as_deref(), Some(&pixels[..]));
    // Observations in masked pixels are dropped.
    let all = place.export(ExportFormat::Colmap, "hidden");
    let model = place.model("hidden");
    let view = model.images.iter().find(|image| image.name == "view00/frame_00.jpg").expect("the view");
    assert!(view.points.iter().all(|(pixel, _)| pixel[1] < 112.0) && !view.points.is_empty());
    assert!(all.observations > 300, "{all:?}");
    // The split is unchanged.
    assert_eq!(place.read("w/masks/view00/frame_00.jpg.png"), mask);
    let in_place = place.try_export(ExportFormat::Csv, "", |options| {
        options.output = None;
        options.masks = Some(MaskConvention::Colmap);
        options.invert = true;
    });
    assert_refused(in_place, "usage", "would replace the masks of the split");
    // GPX needs georeferenced poses.
    assert_refused(place.try_export(ExportFormat::Gpx, "g", |_| {}), "poses", "are not georeferenced");
    // Poses of other frames are none.
    let others = place.text("w/poses.json").replace("frame_0", "other_0");
    place.write("w/poses.json", others);
    let refused = place.try_export(ExportFormat::Csv, "g", |_| {});
    assert_refused(refused, "poses", "w/poses.json: frames: no frame of ");
    assert!(!place.path("g").exists());
}

/// Poses read from a folder of views are those before the export.
#[test]
fn a_folder_of_views_has_the_poses_of_its_panoramas() {
    let place = aligned();
    let found = read::read(&place.path("w")).unwrap();
    let views = read::read(&place.path("w/sparse/0")).unwrap();
    assert_eq!((found.poses.len(), views.poses.len()), (3, 24));
    for pose in &found.poses {
        let name = format!("view03/{}.jpg", pose.name);
        let view = views.poses.iter().find(|p| p.name == name).expect("a view");
        assert!(distance(pose.pose.centre(), view.pose.centre()) < 1e-9);
    }
}

/// A real walk aligned by COLMAP: five of five registered, as in the published run. Poses of another program are then
/// kept exactly, and COLMAP triangulates points for them.
#[test]
fn poses_from_elsewhere_get_points() {
    let test = "poses_from_elsewhere_get_points";
    let Some(walk) = data_file(test, "pano/walk") else { return };
    if pycolmap(test).is_none() {
        return;
    }
    let place = Place::new();
    // Views of 0.4 times the default side also register, in a fraction of the time.
    place.split_square(&walk, "w", Layout::Ring8, 384);
    let colmap = AlignerOptions { aligner: Aligner::Colmap, ..AlignerOptions::default() };
    let align = |known: &PriorKnowledge| place.try_align(&colmap, known, Overwrite::Replace).0;
    let own = align(&PriorKnowledge::default()).unwrap();
    println!("walk, views of 384 px: {} points, {} px", own.points, own.mean_reprojection_px);
    assert_eq!((own.frames.len(), own.registered_frames()), (5, 5));
    assert!(own.mean_reprojection_px < 0.8, "{}", own.mean_reprojection_px);
    assert_eq!(place.model("w/sparse/0").images.len(), 40);
    // The residuals of the exported model equal those of COLMAP, as angles also in views of another layout.
    let of = |path: &str| errors(&place.model(path));
    place.export(ExportFormat::Colmap, "exported");
    place.split_square(&walk, "cube", Layout::Cube6, 384);
    let of_cube = place.path("cube");
    place.try_export(ExportFormat::Colmap, "of_cube", |options| options.views_of = Some(of_cube)).unwrap();
    let (sfm, exported, cube) = (of("w/sparse/0"), of("exported"), of("of_cube"));
    println!("walk: COLMAP's own {sfm:?}\nexported {exported:?}\ncube6 {cube:?}");
    // Of two observations of a point in one view the better one is kept.
    assert!(exported.px.mean < sfm.px.mean + 0.01 && 100 * exported.observations > 99 * sfm.observations);
    assert!(cube.degrees.mean < 1.05 * sfm.degrees.mean);
    place.export(ExportFormat::Metashape, "given");
    std::fs::rename(place.path("w/poses.json"), place.path("own.json")).unwrap();
    let known = PriorKnowledge { poses: Some(place.path("given/cameras.xml")), ..PriorKnowledge::default() };
    let found = align(&known).unwrap();
    println!("given: {} points, {} px", found.points, found.mean_reprojection_px);
    assert_eq!(found.registered_frames(), 5);
    // Triangulated with the poses of the mapper: similar number of points, similar error.
    assert!(found.points as f64 > 0.5 * own.points as f64);
    assert!(found.mean_reprojection_px < 1.3 * own.mean_reprojection_px);
    // Also with the poses of the model itself.
    let off = place.compare("w", "own.json");
    for compared in [&off, &place.compare("w/sparse/0", "exported")] {
        assert!(compared.centre.worst < 1e-6 * off.path, "{compared:?}");
        assert!(compared.rotation_degrees.worst < 1e-5, "{compared:?}");
    }
    assert!(off.first.reprojection.is_some_and(|errors| errors.px.mean < 0.8));
    place.write("s.csv", "name,x,y,z,qw,qx,qy,qz\nq,0,0,0,1,0,0,0\n");
    let known = PriorKnowledge { poses: Some(place.path("s.csv")), ..PriorKnowledge::default() };
    assert_refused(align(&known), "poses", "no name in common");
}
