//! Prior knowledge of an alignment: GPS tracks, given matches and databases, poses to refine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gausset::aligner::AlignerOptions;
use gausset::panos::{PriorKnowledge, TrackOffset, TrackOptions};
use gausset_compute::Pool;
use gausset_core::{Pose, se3};
use gausset_io::atomic::Overwrite;
use gausset_io::image::encode::png_rgb8;
use gausset_pano::export::AlignedPoses;
use gausset_pano::layout::Layout;
use gausset_scenes::room::{self, Room};

use crate::colmap::errors_of;
use crate::support::{
    Place, all_poses, ask, assert_refused, distance, frame_times, path_length, pose_table, pycolmap,
    recorded, slightly_off,
};

/// Three frames with the times 0, 1 and 2 s, as after a split of a video.
fn with_times() -> Place {
    let place = recorded();
    place.write("w/frames.jsonl", frame_times(&["frame_00", "frame_01", "frame_02"].map(str::to_owned), 1.0));
    place
}

fn on_track(path: PathBuf, offset: f64) -> PriorKnowledge {
    let offset = TrackOffset::Seconds(offset);
    PriorKnowledge { track: Some(TrackOptions { path, offset }), ..PriorKnowledge::default() }
}

fn centres(poses: &AlignedPoses) -> Vec<[f64; 3]> {
    all_poses(poses).iter().map(Pose::centre).collect()
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
    let place = with_times();
    let align = |known: &PriorKnowledge| {
        let (poses, warnings) = place.align_with(known);
        (poses.unwrap(), warnings)
    };
    let before = centres(&align(&PriorKnowledge::default()).0);
    for (name, late) in [("t.csv", 0.0), ("late.csv", 5.0)] {
        place.write(name, track(&before, late));
    }
    let (found, _) = align(&on_track(place.path("t.csv"), 0.0));
    let earth = found.earth.as_ref().expect("a place");
    assert_eq!((found.is_metric, earth.frames), (true, 3), "{found:?}");
    let after = centres(&found);
    let length = |c: &[[f64; 3]]| distance(c[2], c[0]);
    // The kernel smooths the one bend a little.
    assert!((length(&after) / length(&before) / 2.5 - 1.0).abs() < 0.02, "{before:?} {after:?}");
    // metres = R x + t
    let turned = se3::mul_vec(&se3::rotation_from_quaternion(earth.rotation), after[0]);
    let on_earth: [f64; 3] = std::array::from_fn(|k| turned[k] + earth.translation[k]);
    let wanted = [2.5 * before[0][2] + 7.0, 2.5 * before[0][0] - 3.0, 2.5 * before[0][1]];
    let spread = 2.5 * length(&before);
    assert!((0..3).all(|k| (on_earth[k] - wanted[k]).abs() < 0.03 * spread), "{on_earth:?} {wanted:?}");
    // With a clock offset of five seconds no estimate is possible, which is reported.
    let (off, warnings) = align(&on_track(place.path("late.csv"), 0.0));
    assert!(warnings.contains("fewer than three frames were taken during the track"), "{warnings}");
    assert!(!off.is_metric);
    let (set, _) = align(&on_track(place.path("late.csv"), 5.0));
    assert_eq!(set.earth.map(|earth| earth.offset_s), Some(5.0));
}

#[test]
fn what_is_wrong_with_a_track_is_one_line() {
    let place = with_times();
    let gpx = |time: &str| {
        format!("<gpx><trk><trkseg><trkpt lat=\"1\" lon=\"2\">{time}</trkpt></trkseg></trk></gpx>")
    };
    for (name, text, line) in [
        ("route.gpx", gpx(""), "route.gpx: trkpt 1: has no time (expected a recorded track"),
        (
            "one.gpx",
            gpx("<time>2026-11-23T10:20:30Z</time>"),
            "one.gpx: GPX track: 1 fix (expected 2 or more)",
        ),
        ("a.csv", "when,lat,lon\n1,2,3\n".to_owned(), "a.csv: line 1: columns: no time column"),
        ("b.csv", "time,lat,lon\n1,2,x\n".to_owned(), "b.csv: line 2: lon: \"x\" is not a finite number"),
        ("c.txt", "1 2 3\n".to_owned(), "c.txt: format: unknown (expected GPX, NMEA or CSV with a header)"),
    ] {
        place.write(name, text);
        assert_refused(place.align_with(&on_track(place.path(name), 0.0)).0, "track", line);
    }
    std::fs::remove_file(place.path("w/frames.jsonl")).unwrap();
    place.write("t.csv", "t,x,y\n0,0,0\n1,1,0\n");
    let line = "w: times: 0 of 3 frames have one (expected 3 or more";
    assert_refused(place.align_with(&on_track(place.path("t.csv"), 0.0)).0, "track", line);
}

/// Poses as a table of names and positions.
fn table(rows: &[(&str, [f64; 3])]) -> String {
    let pose = |centre: [f64; 3]| Pose { translation: centre.map(|v| -v), ..Pose::IDENTITY };
    pose_table(rows.iter().map(|&(name, centre)| (name, pose(centre))))
}

const AT: [[f64; 3]; 3] = [[0.0, 0.0, 0.0], [1.0, 0.3, 0.0], [2.0, 1.2, 0.0]];

#[test]
fn what_is_wrong_with_poses_is_one_line_and_how_they_were_found_is_another() {
    let place = recorded();
    let align = |name: &str| {
        place.align_with(&PriorKnowledge { poses: Some(place.path(name)), ..PriorKnowledge::default() })
    };
    let earth = "{\"tool\":\"\",\"input\":\"\",\"is_metric\":true,\"points\":0,\"mean_reprojection_px\":0,\"track_length\":0,\
                 \"earth\":{\"track\":\"\",\"rotation\":[0,0,0,0],\"translation\":[0,0,0],\"offset_s\":0,\"frames\":3,\
                 \"residual_m\":0,\"spread_m\":1,\"looks\":0},\"frames\":[]}";
    for (name, text, line) in [
        (
            "twice.csv",
            table(&[("frame_00", AT[0]), ("frame_00", AT[1])]),
            "twice.csv: names: \"frame_00\" occurs 2 times in it (expected once)",
        ),
        (
            "strangers.csv",
            table(&[("a", AT[0]), ("b", AT[1])]),
            "strangers.csv: names: no name in common (\"a\" and others in it, \"frame_00\" and others in the frames)",
        ),
        (
            "late.txt",
            "1700000000 0 0 0 0 0 0 1\n".to_owned(),
            "late.txt: names: no time stamp is an index into the list of the frames (expected 0 to 2, found 1700000000)",
        ),
        (
            "far.csv",
            table(&[("frame_00", AT[0]), ("frame_01", [1e300, 0.0, 0.0])]),
            "far.csv: \"frame_01\": is 1e300 from the origin (expected at most 1e14)",
        ),
        ("earth.json", earth.to_owned(), "earth.json: earth: is not a valid rotation, position and scale"),
    ] {
        place.write(name, text);
        assert_refused(align(name).0, "poses", line);
    }
    let all = |name: &dyn Fn(&str) -> String| {
        let names = ["frame_00", "frame_01", "frame_02"].map(name);
        table(&[(&names[0], AT[0]), (&names[1], AT[1]), (&names[2], AT[2])])
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
            "0.0 0 0 0 0 0 0 1\n0.5 1 0.3 0 0 0 0 1\n1 2 1.2 0 0 0 0 1\n".to_owned(),
            "matched by time stamps as indices into the list of frames, from 0 (\"0.0\" is frame_00)",
        ),
    ] {
        place.write(name, text);
        let (poses, warnings) = align(name);
        let found = centres(&poses.unwrap());
        assert_eq!(warnings.lines().count(), usize::from(!line.is_empty()), "{name}: {warnings}");
        assert!(warnings.contains(line), "{name}: {warnings}");
        assert!((0..3).all(|k| distance(found[k], AT[k]) < 1e-9), "{name}: {found:?}");
    }
    // Poses of one view per frame, which differ from those of the panoramas.
    place.write("views.csv", all(&|frame| format!("view02/{frame}.jpg")));
    let (poses, warnings) = align("views.csv");
    assert!(warnings.is_empty(), "{warnings}");
    for pose in all_poses(&poses.unwrap()) {
        // The view looks to the right, along the world's z, so the front of the panorama is to its left.
        let ahead = se3::transpose_mul_vec(&pose.rotation, [0.0, 0.0, 1.0]);
        assert!((ahead[0] + 1.0).abs() < 1e-9, "{ahead:?}");
    }
}

#[test]
fn what_is_wrong_with_matches_is_one_line() {
    let place = recorded();
    let matches = || PriorKnowledge { matches: Some(place.path("m")), ..PriorKnowledge::default() };
    let refused = |line: &str| assert_refused(place.align_with(&matches()).0, "matches", line);
    let nowhere = PriorKnowledge { matches: Some(place.path("nowhere")), ..PriorKnowledge::default() };
    assert_refused(place.align_with(&nowhere).0, "matches", "nowhere: no such file or folder");
    std::fs::create_dir_all(place.path("m/view00")).unwrap();
    refused("m: matches: none (expected matches.txt with a .txt");
    let list = |text: &str| place.write("m/matches.txt", text);
    list("view00/frame_00.jpg view00/stranger.jpg\n0 0\n");
    refused("image \"view00/stranger.jpg\": is not part of this alignment");
    list("view00/frame_00.jpg view00/frame_01.jpg\n0 7\n");
    for k in 0..2 {
        place.write(&format!("m/view00/frame_0{k}.jpg.txt"), "1 0\n3.5 4.5\n");
    }
    refused("a match names keypoint 7 of \"view00/frame_01.jpg\" (expected less than 1)");
    place.write("m/view00/frame_01.jpg.txt", "1 0\n3.5 400\n");
    refused("image \"view00/frame_01.jpg\": a keypoint is at (3.5, 400) (expected within 224x224 px)");
    place.write("m/view00/frame_01.jpg.txt", "1 0\n3.5 4.5\n");
    let database =
        PriorKnowledge { database: Some(place.path("m/matches.txt")), ..PriorKnowledge::default() };
    assert_refused(place.align_with(&database).0, "matches", "database: not a COLMAP database");
    list("view00/frame_00.jpg view00/frame_01.jpg\n0 0\n");
    let executable = AlignerOptions { colmap: Some(place.path("colmap")), ..AlignerOptions::default() };
    let (done, _) = place.try_align(&executable, &matches(), Overwrite::Refuse);
    assert!(done.is_err_and(|failure| failure.message.contains("known poses and matches need pycolmap")));
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
    const FRAMES: usize = 16;
    let Some(python) = pycolmap("what_is_known_before_helps_the_room") else { return };
    let place = Place::new();
    let pool = Pool::with_all_cores();
    let truth: Vec<Pose> = (0..FRAMES).map(|k| room::pose(k, FRAMES)).collect();
    let names: Vec<String> = (0..FRAMES).map(|k| format!("frame_{k:02}")).collect();
    for (name, pose) in names.iter().zip(&truth) {
        let picture = Room::FOR_REGISTRATION.panorama(2048, pose, &pool);
        place.write(&format!("room/{name}.png"), png_rgb8(&picture).unwrap());
    }
    place.split_square("room", "w", Layout::Ring8, 320);
    let path = path_length(&truth) + distance(truth[FRAMES - 1].centre(), truth[0].centre());
    let align = |what: &str, known: &PriorKnowledge| {
        let poses = place.try_align(&AlignerOptions::default(), known, Overwrite::Replace).0.unwrap();
        let (position, rotation) = errors_of(&all_poses(&poses), &truth, path);
        println!(
            "room, {what}: centres within {position:.2e} of the path, rotations within {rotation:.4} degrees"
        );
        (position, rotation)
    };
    let own = align("COLMAP", &PriorKnowledge::default());
    let arguments = [place.path("w/images"), place.path("w/rig_config.json"), place.path("")];
    let arguments: Vec<&Path> = arguments.iter().map(AsRef::as_ref).collect();
    println!("its matches: {}", ask(&python, MATCH, &arguments));
    let database = Some(place.path("own.db"));
    for (from, known) in [
        ("arrays", PriorKnowledge { matches: Some(place.path("arrays")), ..PriorKnowledge::default() }),
        ("lists", PriorKnowledge { matches: Some(place.path("lists")), ..PriorKnowledge::default() }),
        ("own.db", PriorKnowledge { database: database.clone(), ..PriorKnowledge::default() }),
    ] {
        let found = align(from, &known);
        // The same matches, verified again, give the same accuracy or better.
        assert!(found.0 < 1.1 * own.0 && found.1 < 1.1 * own.1, "{from}: {found:?}, COLMAP {own:?}");
    }
    // Poses that are off by centimetres and degrees, kept and refined.
    let near = truth.iter().enumerate().map(|(k, pose)| slightly_off(k, pose, 1.0));
    place.write("near.csv", pose_table(names.iter().map(String::as_str).zip(near)));
    let near = PriorKnowledge { poses: Some(place.path("near.csv")), ..PriorKnowledge::default() };
    let kept = align("poses that are off, kept", &near);
    let refined = align("poses that are off, refined", &PriorKnowledge { refine: true, ..near });
    assert!(kept.0 > 1e-3 && refined.0 < 2e-4 && refined.1 < 0.02, "{kept:?} {refined:?}");
    // A GPS track in metres, one second per frame, a centimetre of noise; the unit of the room is a metre.
    place.write("w/frames.jsonl", frame_times(&names, 1.0));
    let mut text = "t,east,north,up\n".to_owned();
    for (k, pose) in truth.iter().enumerate() {
        let c = pose.centre();
        let noise = |salt: usize| 0.02 * (((13 * k + 3 * salt) % 7) as f64 / 7.0 - 0.5);
        let _ = writeln!(text, "{k},{},{},{}", c[0] + noise(0), c[2] + noise(1), -c[1] + noise(2));
    }
    place.write("track.csv", text);
    for refine in [false, true] {
        // Features and matches already exist.
        let known = on_track(place.path("track.csv"), 0.0);
        let tracked = align("track", &PriorKnowledge { refine, database: database.clone(), ..known });
        assert!(tracked.0 < 1e-3 && tracked.1 < 0.05, "{tracked:?}");
        let found = all_poses(&place.aligned_poses());
        let length = path_length(&found) + distance(found[FRAMES - 1].centre(), found[0].centre());
        assert!((length / path - 1.0).abs() < 0.01, "{length} {path}");
    }
}
