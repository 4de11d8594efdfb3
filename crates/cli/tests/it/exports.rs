//! `pano compare` and `pano export`: a real alignment through every format and back, and into pycolmap.

use std::path::Path;

use gausset_core::Pose;
use gausset_io::dataset::colmap::{ColmapModel, ModelFolder, ModelFormat, Observations};
use gausset_io::image::decode_mask_file;
use gausset_pano::poses::{NamedPose, read};
use gausset_sfm::reprojection::reprojection_errors;
use gausset_testkit::data_file;
use serde_json::Value;

use crate::colmap::recorded::{recording, workshop};
use crate::colmap::{ask, python};
use crate::support::TestFolder;

/// Three panoramas of the room, split and aligned with recorded COLMAP output. The recording has no observations, so
/// each view gets observations of the visible points, at most half a pixel off.
fn aligned() -> TestFolder {
    let workshop = workshop(&recording().join("model"));
    workshop.succeed(&["-q", "pano", "align", "w", "--python", "./python"]);
    let mut sfm = model(&workshop.path("w/sparse/0"));
    let mut errors = vec![Vec::new(); sfm.points.len()];
    for image in &mut sfm.images {
        let pose = Pose::from_quaternion(image.quaternion, image.translation).expect("a pose");
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
        std::fs::write(workshop.path("w/sparse/0").join(name), bytes).expect("a file");
    }
    workshop
}

fn model(path: &Path) -> ColmapModel {
    ModelFolder::find(path).expect("a folder").expect("a model").read(Observations::Keep).expect("a model")
}

/// Positions in a PLY of points as it is exported.
fn ply(path: &Path) -> Vec<[f64; 3]> {
    let bytes = std::fs::read(path).expect("points");
    let end = bytes.windows(11).position(|w| w == b"end_header\n").expect("a header") + 11;
    let number = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().expect("four bytes")));
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
    rest[..end].parse().expect("a number")
}

#[test]
fn points_fit_the_cameras_of_every_form_as_they_fit_colmaps() {
    let workshop = aligned();
    let sfm = model(&workshop.path("w/sparse/0"));
    let own = reprojection_errors(&sfm).expect("observations").px.mean;
    let text = |name: &str| String::from_utf8(workshop.read(name)).expect("text");
    for (form, file) in [
        ("transforms", "transforms.json"),
        ("metashape", "cameras.xml"),
        ("xmp", ""),
        ("realitycapture", "cameras.csv"),
    ] {
        workshop.succeed(&["pano", "export", "w", "--format", form, "-o", form]);
        let path = workshop.path(form).join(file);
        let poses = read::read(&path).expect("poses").poses;
        let points = ply(&workshop.path(&format!("{form}/sparse_pc.ply")));
        let focal = |name: &str| match form {
            "transforms" => serde_json::from_str::<Value>(&text("transforms/transforms.json")).expect("JSON")
                ["frames"][0]["fl_x"]
                .as_f64()
                .expect("fl_x"),
            "metashape" => after(&text("metashape/cameras.xml"), "<f>"),
            "xmp" => after(&text(&format!("xmp/{name}.xmp")), "FocalLength35mm=\"") / 36.0 * 224.0,
            _ => {
                let table = text("realitycapture/cameras.csv");
                let line = table.lines().nth(1).expect("a line");
                line.split(',').nth(7).expect("f").parse::<f64>().expect("a number") / 36.0 * 224.0
            }
        };
        let found = mean_error(&sfm, &points, &poses, &focal);
        println!("{form}: {found:.6} px, COLMAP's own {own:.6}");
        assert!(found < own + 0.01, "{form}: {found} px, COLMAP's own {own}");
    }
    for (form, more) in [("binary", None), ("text", Some("--text"))] {
        let mut arguments = vec!["pano", "export", "w", "-o", form];
        arguments.extend(more);
        workshop.succeed(&arguments);
        let exported = model(&workshop.path(form));
        let found = reprojection_errors(&exported).expect("observations");
        let count: usize = sfm.points.iter().map(|p| p.track.len()).sum();
        assert_eq!((exported.points.len(), found.observations), (sfm.points.len(), count));
        assert!((found.px.mean - own).abs() < 1e-6, "{form}: {} px, COLMAP's own {own}", found.px.mean);
    }
    // Other views see the same directions, so angular errors are unchanged.
    let degrees = reprojection_errors(&sfm).expect("observations").degrees.mean;
    workshop.succeed(&["pano", "split", "walk", "-o", "cube", "--layout", "cube6", "--size", "224", "-q"]);
    workshop.succeed(&["pano", "export", "w", "--views-of", "cube", "-o", "of_cube"]);
    let found = reprojection_errors(&model(&workshop.path("of_cube"))).expect("observations");
    println!(
        "cube6: {:.5} degrees, ring8 {degrees:.5}; {:.4} px, ring8 {own:.4}",
        found.degrees.mean, found.px.mean
    );
    assert!(found.degrees.mean < 1.05 * degrees && found.observations > 150, "{found:?}");
}

#[test]
fn poses_go_through_every_form_and_back() {
    let workshop = aligned();
    workshop.succeed(&["pano", "export", "w", "-o", "of_colmap"]);
    for (form, file, reference) in [
        ("transforms", "transforms/transforms.json", "of_colmap"),
        ("metashape", "metashape/cameras.xml", "of_colmap"),
        ("xmp", "xmp", "of_colmap"),
        ("realitycapture", "realitycapture/cameras.csv", "of_colmap"),
        ("transforms", "transforms/panoramas.json", "w"),
        ("metashape-spherical", "metashape-spherical/panoramas.xml", "w"),
        ("tum", "tum/trajectory.txt", "w"),
        ("csv", "csv/trajectory.csv", "w"),
    ] {
        let mut arguments = vec!["pano", "export", "w", "--format", form, "-o", form, "--force"];
        if form == "metashape-spherical" {
            arguments.extend(["--sources", "walk"]);
        }
        workshop.succeed(&arguments);
        let found = workshop.succeed(&["pano", "compare", file, reference, "--json"]).json();
        let number = |key: &str| found[key]["worst"].as_f64().expect("a number");
        let path = found["path"].as_f64().expect("a path");
        assert!(number("centre") < 1e-6 * path, "{file}: {found}");
        assert!(number("rotation_degrees").to_radians() < 1e-6, "{file}: {found}");
        assert!((found["fit"]["scale"].as_f64().expect("a scale") - 1.0).abs() < 1e-6, "{file}");
        assert_eq!(found["registered_share"], 1.0, "{file}");
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
    let Some(python) = python("pycolmap_finds_points_observations_and_rigs") else { return };
    let workshop = aligned();
    let sfm = ask(&python, READ, &[&workshop.path("w/sparse/0")]);
    for (form, more) in [("binary", None), ("text", Some("--text"))] {
        let mut arguments = vec!["pano", "export", "w", "-o", form];
        arguments.extend(more);
        workshop.succeed(&arguments);
        let found = ask(&python, READ, &[&workshop.path(form)]);
        for key in ["points", "observations", "frames", "rigs"] {
            assert_eq!(found[key], sfm[key], "{form}: {key}");
        }
        let near =
            |key: &str| (found[key].as_f64().expect("px") - sfm["error"].as_f64().expect("px")).abs() < 0.01;
        assert!(near("error") && near("own"), "{form}: {found} {sfm}");
    }
}

#[test]
fn a_comparison_says_what_is_off() {
    let workshop = aligned();
    // Another world: rotated, larger, and one frame off by 0.1 of the path.
    let text = String::from_utf8(workshop.read("w/poses.json")).expect("text");
    let mut other: Value = serde_json::from_str(&text).expect("JSON");
    for frame in other["frames"].as_array_mut().expect("frames") {
        for k in 0..3 {
            frame["translation"][k] = (2.0 * frame["translation"][k].as_f64().expect("a number")).into();
        }
    }
    std::fs::write(workshop.path("other.json"), other.to_string()).expect("a file");
    let found = workshop.succeed(&["pano", "compare", "w", "other.json", "--csv", "e.csv", "--json"]).json();
    assert_eq!((found["schema"].as_u64(), found["matched_by"].as_str()), (Some(1), Some("name")));
    assert!((found["fit"]["scale"].as_f64().expect("a scale") - 2.0).abs() < 1e-9, "{found}");
    assert!(found["first"]["reprojection"]["degrees"]["mean"].as_f64().is_some_and(|d| d > 0.0), "{found}");
    let csv = String::from_utf8(workshop.read("e.csv")).expect("text");
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.starts_with("name,centre_error,rotation_error_degrees,"));
    let people = workshop.succeed(&["pano", "compare", "w", "other.json"]);
    for word in
        ["3 of 3 poses of the reference (100.0 %), matched by name", "scale 2.00", "drift", "degrees mean"]
    {
        assert!(people.stdout.contains(word), "{}", people.stdout);
    }
    let refused = |arguments: &[&str], line: &str| {
        let finished = workshop.run(&[&["pano", "compare"], arguments].concat());
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains(line), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    };
    refused(&["w", "other.json", "--csv", "e.csv"], "e.csv: output: exists already");
    let change = |path: &str, edit: &dyn Fn(&mut Value)| {
        let mut changed: Value = serde_json::from_str(&text).expect("JSON");
        edit(&mut changed);
        std::fs::write(workshop.path(path), changed.to_string()).expect("a file");
    };
    change("few.json", &|v| v["frames"].as_array_mut().expect("frames").truncate(2));
    refused(&["w", "few.json"], "2 in common (expected at least 3)");
    change("twins.json", &|v| v["frames"][1]["name"] = v["frames"][0]["name"].clone());
    refused(&["w", "twins.json"], "occurs 2 times in the second");
    change("still.json", &|v| {
        for k in 0..3 {
            v["frames"][k]["translation"] = serde_json::json!([0, 0, 0]);
        }
    });
    refused(&["w", "still.json"], "all centres of the reference are equal");
    change("strangers.json", &|v| {
        for k in 0..3 {
            v["frames"][k]["name"] = format!("x{k}").into();
        }
    });
    refused(&["w", "strangers.json"], "no name in common");
    // Views against panoramas.
    refused(&["w/sparse/0", "other.json"], "occurs 8 times in the first");

    // `pano align --reference` reports the same numbers.
    let judged = ["pano", "align", "w", "--python", "./python", "--reference", "other.json", "--json"];
    let judged = workshop.succeed(&judged).json();
    assert_eq!(judged["reference"]["centre"], found["centre"]);
}

#[test]
fn masks_are_where_each_program_looks() {
    let workshop = aligned();
    // A mask ignores the lower half of one view.
    let mut pixels = vec![255u8; 224 * 224];
    pixels[224 * 112..].fill(0);
    let kind = gausset_io::image::encode::PngPixels::Grey8(&pixels);
    let mask = gausset_io::image::encode::png(224, 224, kind, &[]).expect("a mask");
    std::fs::create_dir_all(workshop.path("w/masks/view00")).expect("a folder");
    std::fs::write(workshop.path("w/masks/view00/frame_00.jpg.png"), &mask).expect("a mask");
    let export = |program: &str, more: &[&str]| {
        let out = format!("for_{program}");
        let arguments =
            ["pano", "export", "w", "--format", "transforms", "-o", &out, "--masks", program, "--json"];
        workshop.succeed(&[&arguments[..], more].concat()).json()
    };
    let keep = |path: &str| decode_mask_file(&workshop.path(path)).expect("a mask").values;
    for (program, path) in [
        ("colmap", "masks/view00/frame_00.jpg.png"),
        ("brush", "masks/view00/frame_00.png"),
        ("lichtfeld", "masks/view00/frame_00.png"),
        ("360toolkit", "masks/view00/frame_00_mask.png"),
        ("realitycapture", "images/view00/frame_00.jpg.mask.png"),
        ("metashape", "masks/view00/frame_00_mask.png"),
    ] {
        assert_eq!(export(program, &[])["masks"], 1, "{program}");
        assert_eq!(keep(&format!("for_{program}/{path}")), pixels, "{program}");
    }
    let inverted = export("realityscan", &["--invert"]);
    assert_eq!(inverted["masks"], 1);
    let other: Vec<u8> = pixels.iter().map(|v| 255 - v).collect();
    assert_eq!(keep("for_realityscan/images/view00/frame_00.jpg.mask.png"), other);
    // Nerfstudio needs a mask per image, and their names.
    assert_eq!(export("nerfstudio", &[])["masks"], 24);
    let json: Value = serde_json::from_slice(&workshop.read("for_nerfstudio/transforms.json")).expect("JSON");
    for frame in json["frames"].as_array().expect("frames") {
        let path = format!("for_nerfstudio/{}", frame["mask_path"].as_str().expect("a mask"));
        let is_masked = frame["file_path"] == "images/view00/frame_00.jpg";
        assert_eq!(keep(&path) == pixels, is_masked, "{path}");
    }
    assert_eq!(json["ply_file_path"], "sparse_pc.ply");
    // Masks as alpha are written as separate images.
    assert_eq!(export("postshot", &[])["masks"], 24);
    let picture = gausset_io::image::decode_file(&workshop.path("for_postshot/images/view00/frame_00.png"))
        .expect("a picture");
    assert_eq!(picture.alpha.as_deref(), Some(&pixels[..]));
    // Observations in masked pixels are dropped.
    let all = workshop.succeed(&["pano", "export", "w", "-o", "hidden", "--json"]).json();
    let model = model(&workshop.path("hidden"));
    let view = model.images.iter().find(|image| image.name == "view00/frame_00.jpg").expect("the view");
    assert!(view.points.iter().all(|(pixel, _)| pixel[1] < 112.0) && !view.points.is_empty());
    assert!(all["observations"].as_u64().is_some_and(|n| n > 300), "{all}");
    // The split is unchanged.
    assert_eq!(workshop.read("w/masks/view00/frame_00.jpg.png"), mask);
    let refused = workshop.run(&["pano", "export", "w", "--format", "csv", "--masks", "colmap", "--invert"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("would replace the masks of the split"),
        "{refused:?}"
    );
    // GPX needs georeferenced poses.
    let refused = workshop.run(&["pano", "export", "w", "--format", "gpx", "-o", "g"]);
    assert!(refused.code == 2 && refused.stderr.contains("are not georeferenced"), "{refused:?}");
    // Poses of other frames are none.
    let others =
        String::from_utf8(workshop.read("w/poses.json")).expect("text").replace("frame_0", "other_0");
    std::fs::write(workshop.path("w/poses.json"), others).expect("a file");
    let refused = workshop.run(&["pano", "export", "w", "--format", "csv", "-o", "g"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("w/poses.json: frames: no frame of w has"),
        "{refused:?}"
    );
    assert!(!workshop.path("g").exists());
}

/// Poses read by [`find`] are those before the export.
#[test]
fn a_folder_of_views_has_the_poses_of_its_panoramas() {
    let workshop = aligned();
    let found = read::read(&workshop.path("w")).expect("poses");
    let views = read::read(&workshop.path("w/sparse/0")).expect("poses");
    assert_eq!((found.poses.len(), views.poses.len()), (3, 24));
    let centre = |pose: &Pose| pose.centre();
    for pose in &found.poses {
        let name = format!("view03/{}.jpg", pose.name);
        let view = views.poses.iter().find(|p| p.name == name).expect("a view");
        let (a, b) = (centre(&pose.pose), centre(&view.pose));
        assert!((0..3).all(|k| (a[k] - b[k]).abs() < 1e-9));
    }
}

/// Poses of another program are kept exactly, and COLMAP triangulates points for them.
#[test]
fn poses_from_elsewhere_get_points() {
    let test = "poses_from_elsewhere_get_points";
    let Some(walk) = data_file(test, "pano/walk") else { return };
    if python(test).is_none() {
        return;
    }
    let workshop = TestFolder::empty();
    workshop.succeed(&["pano", "split", walk.to_str().expect("a name"), "-o", "w", "--size", "480"]);
    let own = workshop.succeed(&["pano", "align", "w", "--json"]).json();
    // The residuals of the exported model equal those of COLMAP, as angles also in views of another layout.
    let of = |path: &str| reprojection_errors(&model(&workshop.path(path))).expect("observations");
    workshop.succeed(&["pano", "export", "w", "-o", "exported"]);
    workshop.succeed(&[
        "pano",
        "split",
        walk.to_str().expect("a name"),
        "-o",
        "cube",
        "--layout",
        "cube6",
        "-q",
    ]);
    workshop.succeed(&["pano", "export", "w", "--views-of", "cube", "-o", "of_cube"]);
    let (sfm, exported, cube) = (of("w/sparse/0"), of("exported"), of("of_cube"));
    println!("walk: COLMAP's own {sfm:?}\nexported {exported:?}\ncube6 {cube:?}");
    // Of two observations of a point in one view the better one is kept.
    assert!(exported.px.mean < sfm.px.mean + 0.01 && 100 * exported.observations > 99 * sfm.observations);
    assert!(cube.degrees.mean < 1.05 * sfm.degrees.mean);
    workshop.succeed(&["pano", "export", "w", "--format", "metashape", "-o", "given"]);
    workshop.succeed(&["pano", "export", "w", "--format", "csv", "-o", "given"]);
    std::fs::rename(workshop.path("w/poses.json"), workshop.path("own.json")).expect("a file");
    for file in ["given/trajectory.csv", "given/cameras.xml"] {
        let found = workshop.succeed(&["pano", "align", "w", "--poses", file, "--json", "--force"]).json();
        println!("{file}: {found}");
        assert_eq!(found["registered"], 5, "{found}");
        // Triangulated with the poses of the mapper: similar number of points, similar error.
        let share = |key: &str| found[key].as_f64().expect("a number") / own[key].as_f64().expect("a number");
        assert!(share("points") > 0.5 && share("mean_reprojection_px") < 1.3, "{found} {own}");
        let off = workshop.succeed(&["pano", "compare", "w", "own.json", "--json"]).json();
        let path = off["path"].as_f64().expect("a path");
        assert!(off["centre"]["worst"].as_f64().is_some_and(|e| e < 1e-6 * path), "{off}");
        assert!(off["rotation_degrees"]["worst"].as_f64().is_some_and(|e| e < 1e-5), "{off}");
        // Also with the poses of the model itself.
        let views = workshop.succeed(&["pano", "compare", "w/sparse/0", "exported", "--json"]).json();
        assert!(views["centre"]["worst"].as_f64().is_some_and(|e| e < 1e-6 * path), "{views}");
        assert!(views["rotation_degrees"]["worst"].as_f64().is_some_and(|e| e < 1e-5), "{views}");
        assert!(off["first"]["reprojection"]["px"]["mean"].as_f64().is_some_and(|e| e < 0.8), "{off}");
    }
    let strangers = std::fs::write(workshop.path("s.csv"), "name,x,y,z,qw,qx,qy,qz\nq,0,0,0,1,0,0,0\n");
    strangers.expect("a file");
    let refused = workshop.run(&["pano", "align", "w", "--poses", "s.csv", "--force"]);
    assert!(refused.code == 2 && refused.stderr.contains("no name in common"), "{refused:?}");
}
