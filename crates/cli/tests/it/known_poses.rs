//! Known data of an alignment: GPS tracks, given matches and databases, poses to refine.

use std::fmt::Write as _;
use std::path::Path;

use gausset_core::{Pose, se3};
use gausset_pano::export::AlignedPoses;
use serde_json::Value;

use crate::colmap::recorded::{recording, workshop};
use crate::colmap::{ask, errors_of, python};
use crate::support::{ProcessResult, TestFolder};

/// Three frames with the times 0, 1 and 2 s, as after a split of a video.
fn with_times() -> TestFolder {
    let workshop = workshop(&recording().join("model"));
    let line = |k: usize| {
        format!(
            "{{\"frame\":{k},\"time\":{k}.0,\"sharpness\":1.0,\"exposure\":0.0,\"rotation\":null,\"parallax\":null,\
             \"reference\":0,\"path\":0.0,\"tracks\":0,\"duplicate\":false,\"kept\":true,\"reason\":\"all\",\
             \"name\":\"frame_0{k}\"}}\n"
        )
    };
    let text = "{\"kind\":\"frames\"}\n".to_owned() + &(0..3).map(line).collect::<String>();
    std::fs::write(workshop.path("w/frames.jsonl"), text).expect("a file");
    workshop
}

/// Checks a refusal: its code, and a part of its message.
fn assert_one_line(refused: &ProcessResult, code: &str, line: &str) {
    let error: Value = serde_json::from_str(&refused.stderr).expect("an object");
    assert_eq!((refused.code, error["error"]["code"].as_str()), (2, Some(code)), "{refused:?}");
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains(line)), "{refused:?}");
}

fn centres(workshop: &TestFolder) -> Vec<[f64; 3]> {
    let poses = AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses");
    poses.frames.iter().map(|f| f.pose().expect("a pose").centre()).collect()
}

/// A GPS track of the same path, 2.5 times as large and rotated, ten fixes per second, `late` seconds behind.
fn track(centres: &[[f64; 3]], late: f64) -> String {
    let mut text = "time,east,north,up\n".to_owned();
    for k in 0..=10 * (centres.len() - 1) {
        let (at, share) = ((k / 10).min(centres.len() - 2), k as f64 / 10.0);
        let share = share - at as f64;
        let p: [f64; 3] =
            std::array::from_fn(|i| centres[at][i] + share * (centres[at + 1][i] - centres[at][i]));
        let [x, y, z] = p.map(|v| 2.5 * v);
        let _ = writeln!(text, "{},{},{},{}", k as f64 / 10.0 + late, z + 7.0, x - 3.0, y);
    }
    text
}

#[test]
fn a_track_gives_metres_and_a_place() {
    let workshop = with_times();
    let align = ["pano", "align", "w", "--python", "./python", "--json"];
    workshop.succeed(&align);
    let before = centres(&workshop);
    let metres = |late: f64, name: &str| {
        std::fs::write(workshop.path(name), track(&before, late)).expect("a file");
    };
    metres(0.0, "t.csv");
    let found = workshop.succeed(&[&align[..], &["--track", "t.csv"]].concat()).json();
    let earth = &found["earth"];
    assert_eq!((found["is_metric"].as_bool(), earth["frames"].as_u64()), (Some(true), Some(3)), "{found}");
    let after = centres(&workshop);
    let length = |c: &[[f64; 3]]| se3::norm(std::array::from_fn(|k| c[2][k] - c[0][k]));
    // The kernel smooths the one bend a little.
    assert!((length(&after) / length(&before) / 2.5 - 1.0).abs() < 0.02, "{before:?} {after:?}");
    // metres = R x + t
    let numbers = |key: &str| -> Vec<f64> {
        earth[key].as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
    };
    let (q, t) = (numbers("rotation"), numbers("translation"));
    let turned = se3::mul_vec(&se3::rotation_from_quaternion([q[0], q[1], q[2], q[3]]), after[0]);
    let wanted = [2.5 * before[0][2] + 7.0, 2.5 * before[0][0] - 3.0, 2.5 * before[0][1]];
    let spread = 2.5 * length(&before);
    assert!(
        (0..3).all(|k| (turned[k] + t[k] - wanted[k]).abs() < 0.03 * spread),
        "{turned:?} {t:?} {wanted:?}"
    );
    // With a clock offset of five seconds no estimate is possible, which is reported.
    metres(5.0, "late.csv");
    let off = workshop.succeed(&[&align[..], &["--track", "late.csv"]].concat());
    assert!(off.stderr.contains("fewer than three frames were taken during the track"), "{}", off.stderr);
    assert_eq!(off.json()["is_metric"], false);
    let set = workshop.succeed(&[&align[..], &["--track", "late.csv", "--track-offset", "5"]].concat());
    assert_eq!(set.json()["earth"]["offset_s"], 5.0);
}

#[test]
fn what_is_wrong_with_a_track_is_one_line() {
    let workshop = with_times();
    let gpx = |time: &str| {
        format!("<gpx><trk><trkseg><trkpt lat=\"1\" lon=\"2\">{time}</trkpt></trkseg></trk></gpx>")
    };
    let one = gpx("<time>2026-11-23T10:20:30Z</time>");
    for (name, text, line) in [
        ("route.gpx", gpx("").as_str(), "route.gpx: trkpt 1: has no time (expected a recorded track"),
        ("one.gpx", one.as_str(), "one.gpx: GPX track: 1 fix (expected 2 or more)"),
        ("a.csv", "when,lat,lon\n1,2,3\n", "a.csv: line 1: columns: no time column"),
        ("b.csv", "time,lat,lon\n1,2,x\n", "b.csv: line 2: lon: \"x\" is not a finite number"),
        ("c.txt", "1 2 3\n", "c.txt: format: unknown (expected GPX, NMEA or CSV with a header)"),
    ] {
        std::fs::write(workshop.path(name), text).expect("a file");
        let refused =
            workshop.run(&["pano", "align", "w", "--python", "./python", "--track", name, "--json"]);
        assert_one_line(&refused, "track", line);
    }
    std::fs::remove_file(workshop.path("w/frames.jsonl")).expect("a file");
    std::fs::write(workshop.path("t.csv"), "t,x,y\n0,0,0\n1,1,0\n").expect("a file");
    let refused = workshop.run(&["pano", "align", "w", "--python", "./python", "--track", "t.csv"]);
    assert!(refused.stderr.contains("w: times: 0 of 3 frames have one (expected 3 or more"), "{refused:?}");
}

/// Poses as a table of names and positions.
fn table(rows: &[(&str, [f64; 3])]) -> String {
    let row = |(name, [x, y, z]): &(&str, [f64; 3])| format!("{name},{x},{y},{z},1,0,0,0\n");
    "name,x,y,z,qw,qx,qy,qz\n".to_owned() + &rows.iter().map(row).collect::<String>()
}

#[test]
fn what_is_wrong_with_poses_is_one_line_and_how_they_were_found_is_another() {
    let workshop = workshop(&recording().join("model"));
    let write = |name: &str, text: &str| std::fs::write(workshop.path(name), text).expect("a file");
    let align =
        |name: &str| workshop.run(&["pano", "align", "w", "--python", "./python", "--poses", name, "--json"]);
    let at = [0.0, 1.0, 2.0].map(|x| [x, 0.3 * x * x, 0.0]);
    let earth = "{\"tool\":\"\",\"input\":\"\",\"is_metric\":true,\"points\":0,\"mean_reprojection_px\":0,\"track_length\":0,\
                 \"earth\":{\"track\":\"\",\"rotation\":[0,0,0,0],\"translation\":[0,0,0],\"offset_s\":0,\"frames\":3,\
                 \"residual_m\":0,\"spread_m\":1,\"looks\":0},\"frames\":[]}";
    for (name, text, line) in [
        (
            "twice.csv",
            table(&[("frame_00", at[0]), ("frame_00", at[1])]),
            "twice.csv: names: \"frame_00\" occurs 2 times in it (expected once)",
        ),
        (
            "strangers.csv",
            table(&[("a", at[0]), ("b", at[1])]),
            "strangers.csv: names: no name in common (\"a\" and others in it, \"frame_00\" and others in the frames)",
        ),
        (
            "late.txt",
            "1700000000 0 0 0 0 0 0 1\n".into(),
            "late.txt: names: no time stamp is an index into the list of the frames (expected 0 to 2, found 1700000000)",
        ),
        (
            "far.csv",
            table(&[("frame_00", at[0]), ("frame_01", [1e300, 0.0, 0.0])]),
            "far.csv: \"frame_01\": is 1e300 from the origin (expected at most 1e14)",
        ),
        ("earth.json", earth.into(), "earth.json: earth: is not a valid rotation, position and scale"),
    ] {
        write(name, &text);
        assert_one_line(&align(name), "poses", line);
    }
    let all = |name: &dyn Fn(&str) -> String| {
        let names = ["frame_00", "frame_01", "frame_02"].map(name);
        table(&[(&names[0], at[0]), (&names[1], at[1]), (&names[2], at[2])])
    };
    for (name, text, line) in [
        ("plain.csv", all(&|frame| format!("{frame}.png")), ""),
        (
            "stems.csv",
            all(&|frame| format!("shots/{frame}.jpg")),
            "matched by names without folder and extension (\"shots/frame_00.jpg\" is frame_00)",
        ),
        (
            "parts.csv",
            all(&|frame| format!("C:\\job\\view03\\{frame}.jpg")),
            "matched by the last 2 parts of names (\"C:\\\\job\\\\view03\\\\frame_00.jpg\" is view03/frame_00.jpg)",
        ),
        (
            "more.csv",
            all(&str::to_owned) + "guest,9,9,9,1,0,0,0\n",
            "more.csv: names: 1 of 4 match no frame (such as \"guest\")",
        ),
        (
            "seconds.txt",
            "0.0 0 0 0 0 0 0 1\n0.5 1 0.3 0 0 0 0 1\n1 2 1.2 0 0 0 0 1\n".into(),
            "matched by time stamps as indices into the list of frames, from 0 (\"0.0\" is frame_00)",
        ),
    ] {
        write(name, &text);
        let done = align(name);
        assert_eq!(done.code, 0, "{done:?}");
        let warnings: Vec<&str> = done.stderr.lines().filter(|line| line.contains("warning")).collect();
        assert_eq!(warnings.len(), usize::from(!line.is_empty()), "{done:?}");
        assert!(warnings.iter().all(|warning| warning.contains(line)), "{done:?}");
        let found = centres(&workshop);
        assert!((0..3).all(|k| (0..3).all(|i| (found[k][i] - at[k][i]).abs() < 1e-9)), "{name}: {found:?}");
    }
    // Poses of one view per frame, which differ from those of the panoramas.
    write("views.csv", &all(&|frame| format!("view02/{frame}.jpg")));
    let done = align("views.csv");
    assert!(done.code == 0 && !done.stderr.contains("warning"), "{done:?}");
    for frame in &AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses").frames {
        // The view looks to the right, along the world's z, so the front of the panorama is to its left.
        let ahead = se3::transpose_mul_vec(&frame.pose().expect("a pose").rotation, [0.0, 0.0, 1.0]);
        assert!((ahead[0] + 1.0).abs() < 1e-9, "{ahead:?}");
    }
}

#[test]
fn what_is_wrong_with_matches_is_one_line() {
    let workshop = workshop(&recording().join("model"));
    let align = |option: &str, path: &str, line: &str| {
        let refused = workshop.run(&["pano", "align", "w", "--python", "./python", option, path, "--json"]);
        assert_one_line(&refused, "matches", line);
    };
    std::fs::create_dir_all(workshop.path("m/view00")).expect("a folder");
    align("--matches", "nowhere", "nowhere: no such file or folder");
    align("--matches", "m", "m: matches: none (expected matches.txt with a .txt");
    let list = |text: &str| std::fs::write(workshop.path("m/matches.txt"), text).expect("a file");
    list("view00/frame_00.jpg view00/stranger.jpg\n0 0\n");
    align("--matches", "m", "image \"view00/stranger.jpg\": is not part of this alignment");
    list("view00/frame_00.jpg view00/frame_01.jpg\n0 7\n");
    for k in 0..2 {
        let path = workshop.path(&format!("m/view00/frame_0{k}.jpg.txt"));
        std::fs::write(path, "1 0\n3.5 4.5\n").expect("a file");
    }
    let beyond = "a match names keypoint 7 of \"view00/frame_01.jpg\" (expected less than 1)";
    align("--matches", "m", beyond);
    std::fs::write(workshop.path("m/view00/frame_01.jpg.txt"), "1 0\n3.5 400\n").expect("a file");
    let outside = "image \"view00/frame_01.jpg\": a keypoint is at (3.5, 400) (expected within 224x224 px)";
    align("--matches", "m", outside);
    std::fs::write(workshop.path("m/view00/frame_01.jpg.txt"), "1 0\n3.5 4.5\n").expect("a file");
    align("--database", "m/matches.txt", "database: not a COLMAP database");
    list("view00/frame_00.jpg view00/frame_01.jpg\n0 0\n");
    let executable = workshop.run(&["pano", "align", "w", "--colmap", "./colmap", "--matches", "m"]);
    assert!(executable.stderr.contains("known poses and matches need pycolmap"), "{executable:?}");
}

/// COLMAP's features and matches of a folder of views, as a database, arrays and text lists.
const MATCH: &str = "
import json, os, sys, numpy, pycolmap
views, rig, out = sys.argv[1:]
db = os.path.join(out, 'own.db')
reader = pycolmap.ImageReaderOptions()
reader.camera_model = 'PINHOLE'
first = next(iter(sorted(os.listdir(os.path.join(views, 'view00')))))
side = pycolmap.Bitmap.read(os.path.join(views, 'view00', first), False).width
reader.camera_params = f'{side/2},{side/2},{side/2},{side/2}'
extraction = pycolmap.FeatureExtractionOptions()
extraction.use_gpu = False
pycolmap.extract_features(db, views, reader_options=reader, camera_mode=pycolmap.CameraMode.PER_FOLDER,
                          extraction_options=extraction)
with pycolmap.Database.open(db) as database:
    pycolmap.apply_rig_config(pycolmap.read_rig_config(rig), database)
options = pycolmap.FeatureMatchingOptions()
options.use_gpu = False
options.skip_image_pairs_in_same_frame = True
pycolmap.match_exhaustive(db, matching_options=options)
keypoints, matches = {}, {}
with pycolmap.Database.open(db) as database:
    names = {image.image_id: image.name for image in database.read_all_images()}
    for number, name in names.items():
        keypoints[name] = numpy.asarray(database.read_keypoints(number))[:, :2]
    for pair, rows in zip(*database.read_all_matches()):
        if len(rows):
            matches[names[pair // 2147483647] + ' ' + names[pair % 2147483647]] = rows
os.makedirs(os.path.join(out, 'arrays'))
numpy.savez_compressed(os.path.join(out, 'arrays', 'keypoints.npz'), **keypoints)
numpy.savez(os.path.join(out, 'arrays', 'matches.npz'), **matches)
for name, xy in keypoints.items():
    path = os.path.join(out, 'lists', name + '.txt')
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as file:
        file.write(f'{len(xy)} 128\\n' + ''.join(f'{x:.9g} {y:.9g} 1 0\\n' for x, y in xy.tolist()))
with open(os.path.join(out, 'lists', 'matches.txt'), 'w') as file:
    for pair, rows in matches.items():
        file.write(pair + '\\n' + ''.join(f'{a} {b}\\n' for a, b in rows.tolist()) + '\\n')
print(json.dumps({'pairs': len(matches), 'matches': sum(len(rows) for rows in matches.values())}))
";

/// The room aligned by COLMAP: end to end, from its exported matches, from inexact poses that are refined, and with a
/// GPS track: `cargo xtask full`.
#[test]
#[ignore = "ten minutes of CPU time"]
fn what_is_known_before_helps_the_room() {
    use gausset_compute::Pool;
    use gausset_io::image::encode::png_rgb8;
    use gausset_scenes::room::{self, Room};
    const FRAMES: usize = 16;
    let Some(python) = python("what_is_known_before_helps_the_room") else { return };
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("room")).expect("a folder");
    let pool = Pool::with_all_cores();
    let truth: Vec<Pose> = (0..FRAMES).map(|k| room::pose(k, FRAMES)).collect();
    for (k, pose) in truth.iter().enumerate() {
        let picture = Room::FOR_REGISTRATION.panorama(2048, pose, &pool);
        let path = workshop.path(&format!("room/frame_{k:02}.png"));
        std::fs::write(path, png_rgb8(&picture).expect("a picture")).expect("a panorama");
    }
    workshop.succeed(&["-q", "pano", "split", "room", "-o", "w", "--size", "320"]);
    let centre = |k: usize| truth[k % FRAMES].centre();
    let step = |k: usize| se3::norm(std::array::from_fn(|i| centre(k + 1)[i] - centre(k)[i]));
    let path: f64 = (0..FRAMES).map(step).sum();
    let errors = |what: &str, found: &Value| {
        assert_eq!(found["registered"].as_u64(), Some(FRAMES as u64), "{what}: {found}");
        let poses = AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses");
        let found: Vec<Pose> = poses.frames.iter().map(|f| f.pose().expect("registered")).collect();
        let (position, rotation) = errors_of(&found, &truth, path);
        println!(
            "room, {what}: centres within {position:.2e} of the path, rotations within {rotation:.4} degrees"
        );
        (position, rotation)
    };
    let align = |more: &[&str]| {
        let finished = workshop.succeed(&[&["pano", "align", "w", "--json", "--force"], more].concat());
        finished.json()
    };
    let own = errors("COLMAP", &align(&[]));
    std::fs::rename(workshop.path("w/poses.json"), workshop.path("own.json")).expect("a file");
    let place = |name: &str| workshop.path(name);
    let arguments = [place("w/images"), place("w/rig_config.json"), place("")];
    let arguments: Vec<&Path> = arguments.iter().map(AsRef::as_ref).collect();
    println!("its matches: {}", ask(&python, MATCH, &arguments));
    for (option, from) in [("--matches", "arrays"), ("--matches", "lists"), ("--database", "own.db")] {
        let found = errors(from, &align(&[option, from]));
        // The same matches, verified again, give the same accuracy or better.
        assert!(found.0 < 1.1 * own.0 && found.1 < 1.1 * own.1, "{from}: {found:?}, COLMAP {own:?}");
    }
    // Poses that are off by centimetres and degrees, kept and refined.
    let mut text = "name,x,y,z,qw,qx,qy,qz\n".to_owned();
    for (k, pose) in truth.iter().enumerate() {
        let off = |salt: usize| ((7 * k + 5 * salt) % 11) as f64 / 11.0 - 0.5;
        let turn = se3::so3_exp([0.02 * off(1), 0.02 * off(2), 0.02 * off(3)]);
        let world_from_camera = se3::transpose(&se3::mul(&turn, &pose.rotation));
        let [w, x, y, z] = se3::quaternion_from_rotation(&world_from_camera);
        let c = pose.centre();
        let c: [f64; 3] = std::array::from_fn(|i| c[i] + 0.03 * off(4 + i));
        let _ = writeln!(text, "frame_{k:02},{},{},{},{w},{x},{y},{z}", c[0], c[1], c[2]);
    }
    std::fs::write(workshop.path("near.csv"), text).expect("a file");
    let kept = errors("poses that are off, kept", &align(&["--poses", "near.csv"]));
    let refined = errors("poses that are off, refined", &align(&["--poses", "near.csv", "--refine"]));
    assert!(kept.0 > 1e-3 && refined.0 < 2e-4 && refined.1 < 0.02, "{kept:?} {refined:?}");
    // A GPS track in metres, one second per frame, a centimetre of noise; the unit of the room is a metre.
    let mut text = "{\"kind\":\"frames\"}\n".to_owned();
    for k in 0..FRAMES {
        let _ = writeln!(
            text,
            "{{\"frame\":{k},\"time\":{k}.0,\"sharpness\":1.0,\"exposure\":0.0,\"rotation\":null,\"parallax\":null,\
             \"reference\":0,\"path\":0.0,\"tracks\":0,\"duplicate\":false,\"kept\":true,\"reason\":\"all\",\
             \"name\":\"frame_{k:02}\"}}"
        );
    }
    std::fs::write(workshop.path("w/frames.jsonl"), text).expect("a file");
    let mut text = "t,east,north,up\n".to_owned();
    for k in 0..FRAMES {
        let c = truth[k].centre();
        let noise = |salt: usize| 0.02 * (((13 * k + 3 * salt) % 7) as f64 / 7.0 - 0.5);
        let _ = writeln!(text, "{k},{},{},{}", c[0] + noise(0), c[2] + noise(1), -c[1] + noise(2));
    }
    std::fs::write(workshop.path("track.csv"), text).expect("a file");
    for refine in [&[][..], &["--refine"]] {
        // Features and matches already exist.
        let more = [&["--track", "track.csv", "--database", "own.db"][..], refine].concat();
        let found = align(&more);
        println!("track: {}", found["earth"]);
        let tracked = errors(&more.join(" "), &found);
        assert!(tracked.0 < 1e-3 && tracked.1 < 0.05, "{tracked:?}");
        let poses = AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses");
        let c: Vec<[f64; 3]> = poses.frames.iter().map(|f| f.pose().expect("a pose").centre()).collect();
        let length: f64 =
            (0..FRAMES).map(|k| se3::norm(std::array::from_fn(|i| c[(k + 1) % FRAMES][i] - c[k][i]))).sum();
        assert!((length / path - 1.0).abs() < 0.01, "{length} {path}");
    }
}
