//! Given poses combined with a GPS track: the unit becomes the metre, the rest is unchanged.

use std::fmt::Write as _;
use std::path::Path;

use gausset_core::{Pose, se3};
use gausset_io::dataset::colmap::{ModelFolder, Observations};
use gausset_pano::export::AlignedPoses;
use gausset_pano::poses::read;
use gausset_scenes::room;
use gausset_sfm::compare::Similarity;
use gausset_sfm::gps;
use gausset_sfm::reprojection::reprojection_errors;

use crate::colmap::python;
use crate::support::{TestFolder, script, with_walk};

const FRAMES: usize = 12;
/// Seconds between frames, and by which the clock of the GPS receiver is ahead.
const APART: usize = 2;
const AHEAD: f64 = 3.4;
/// Fixes in a second.
const RATE: usize = 10;
const ORIGIN: [f64; 3] = [47.25, 8.5, 401.5];

/// Position of the camera in the room, metres: x right, y down, z forward; a loop of [`FRAMES`] frames.
fn pose_at(fix: usize) -> Pose {
    room::pose(fix, RATE * APART * FRAMES)
}

fn truth() -> Vec<Pose> {
    (0..FRAMES).map(|k| pose_at(RATE * APART * k)).collect()
}

/// Position east, north and up, metres.
fn on_earth([x, y, z]: [f64; 3]) -> [f64; 3] {
    [x + 7.0, z - 3.0, 5.0 - y]
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    se3::norm(std::array::from_fn(|k| a[k] - b[k]))
}

/// The poses of the room in another world: 0.37 times as large, rotated and translated.
fn given() -> Vec<Pose> {
    let rotation = se3::rotation_from_quaternion([0.5, -0.5, 0.7, 0.1]);
    let world = Similarity { scale: 0.37, rotation, translation: [4.0, -1.0, 2.0] };
    truth().iter().map(|pose| world.apply_to_pose(pose)).collect()
}

fn table(names: impl Iterator<Item = String>, poses: &[Pose]) -> String {
    let mut text = "name,x,y,z,qw,qx,qy,qz\n".to_owned();
    for (name, pose) in names.zip(poses) {
        let ([x, y, z], [w, i, j, k]) = (pose.centre(), pose.inverse().quaternion());
        let _ = writeln!(text, "{name},{x},{y},{z},{w},{i},{j},{k}");
    }
    text
}

/// The GPS track of the camera, from one second before the first frame to one after the last.
fn track() -> String {
    let mut text = "time,lat,lon,ele\n".to_owned();
    let (before, lap) = (RATE, RATE * APART * FRAMES);
    for k in 0..=before + RATE * APART * (FRAMES - 1) + RATE {
        let place = on_earth(pose_at(k + lap - before).centre());
        let [north, east, up] = gps::to_geodetic(place, ORIGIN);
        let time = (k as f64 - before as f64) / RATE as f64 + AHEAD;
        let _ = writeln!(text, "{time:.1},{north:.11},{east:.11},{up:.4}");
    }
    text
}

/// The record of frame times that a split of a video writes.
fn write_times(workshop: &TestFolder, names: &[String]) {
    let line = |(k, name): (usize, &String)| {
        format!(
            "{{\"frame\":{k},\"time\":{}.0,\"sharpness\":1.0,\"exposure\":0.0,\"rotation\":null,\"parallax\":null,\
             \"reference\":0,\"path\":0.0,\"tracks\":0,\"duplicate\":false,\"kept\":true,\"reason\":\"all\",\
             \"name\":\"{name}\"}}\n",
            APART * k
        )
    };
    let lines: String = names.iter().enumerate().map(line).collect();
    write(workshop, "w/frames.jsonl", &("{\"kind\":\"frames\"}\n".to_owned() + &lines));
}

fn write(workshop: &TestFolder, name: &str, text: &str) {
    std::fs::write(workshop.path(name), text).expect(name);
}

fn names_of(workshop: &TestFolder) -> Vec<String> {
    gausset_pano::split::SplitDescription::read(&workshop.path("w")).expect("a split").frames
}

fn poses_of(workshop: &TestFolder) -> AlignedPoses {
    AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses")
}

fn all(poses: &AlignedPoses) -> Vec<Pose> {
    poses.frames.iter().map(|frame| frame.pose().expect("a pose")).collect()
}

/// A split of panoramas, poses, a GPS track, and a stand-in for pycolmap that returns the given poses without points.
fn workshop() -> TestFolder {
    let workshop = with_walk(FRAMES as u32);
    workshop.succeed(&["-q", "pano", "split", "walk", "-o", "w", "--size", "32", "--layout", "ring4"]);
    let names = names_of(&workshop);
    write_times(&workshop, &names);
    write(&workshop, "given.csv", &table(names.into_iter(), &given()));
    write(&workshop, "track.csv", &track());
    let job = workshop.path("job.json");
    script(
        &workshop.path("python"),
        &format!(
            "for last; do :; done
if [ \"$last\" = --version ]; then echo '{{\"event\": \"version\", \"version\": \"4.2.1\"}}'; exit 0; fi
cp \"$last\" {}
known=$(sed -n 's/.*\"known\": \"\\(.*\\)\",.*/\\1/p' \"$last\")
models=$(sed -n 's/.*\"models\": \"\\(.*\\)\",.*/\\1/p' \"$last\")
mkdir -p \"$models/0\" && cp \"$known\"/* \"$models/0\"",
            job.display()
        ),
    );
    workshop
}

const ALIGN: [&str; 7] = ["pano", "align", "w", "--python", "./python", "--json", "--poses"];

/// Checks that poses are those of the room in metres and georeferenced by `earth`. Returns the largest error of a
/// centre, metres.
fn worst_on_earth(poses: &AlignedPoses) -> f64 {
    let earth = poses.earth.as_ref().expect("a place on the earth");
    let rotation = se3::rotation_from_quaternion(earth.rotation);
    let origin = earth.origin.expect("degrees");
    let off = |(pose, truth): (Pose, Pose)| {
        let turned = se3::mul_vec(&rotation, pose.centre());
        let metres = std::array::from_fn(|k| turned[k] + earth.translation[k]);
        let found = gps::to_local(gps::to_geodetic(metres, origin), ORIGIN);
        distance(found, on_earth(truth.centre()))
    };
    all(poses).into_iter().zip(truth()).map(off).fold(0.0, f64::max)
}

fn length(poses: &[Pose]) -> f64 {
    poses.windows(2).map(|pair| distance(pair[0].centre(), pair[1].centre())).sum()
}

#[test]
fn poses_from_elsewhere_get_metres_from_a_track() {
    let workshop = workshop();
    let both = [&ALIGN[..], &["given.csv", "--track", "track.csv", "--track-offset", "auto"]].concat();
    let found = workshop.succeed(&both).json();
    let poses = poses_of(&workshop);
    // The smoothing kernel flattens the bends: 0.6 % of this path.
    let scale = length(&all(&poses)) / length(&truth());
    assert!((scale - 1.0).abs() < 0.02, "{scale}");
    let earth = &found["earth"];
    assert!((earth["offset_s"].as_f64().expect("seconds") - AHEAD).abs() < 0.1, "{found}");
    assert_eq!((found["is_metric"].as_bool(), earth["frames"].as_u64()), (Some(true), Some(FRAMES as u64)));
    assert_eq!(earth["track"], "track.csv");
    let worst = worst_on_earth(&poses);
    assert!(worst < 0.05, "{worst}");
    // The axes are those of the given poses, which were only scaled.
    for (pose, given) in all(&poses).iter().zip(given()) {
        let stretched = scale * length(&truth()) / length(&self::given());
        let wanted = given.translation.map(|v| v * stretched);
        assert!(distance(pose.translation, wanted) < 1e-9, "{pose:?} {wanted:?}");
        let turn = se3::mul(&pose.rotation, &se3::transpose(&given.rotation));
        assert!((0..3).all(|k| (turn[k][k] - 1.0).abs() < 1e-12), "{turn:?}");
    }
    // The model is in the same world as the poses, and so are its exports.
    let compared = workshop.succeed(&["pano", "compare", "w", "w/poses.json", "--json"]).json();
    assert!((compared["fit"]["scale"].as_f64().expect("a scale") - 1.0).abs() < 1e-12, "{compared}");
    let views = read::read(&workshop.path("w/sparse/0")).expect("a model");
    let near = |view: [f64; 3]| all(&poses).iter().any(|pose| distance(view, pose.centre()) < 1e-9);
    assert!(views.poses.iter().all(|view| near(view.pose.centre())));
    workshop.succeed(&["pano", "export", "w", "--format", "gpx", "-o", "gpx"]);
    let gpx = String::from_utf8(workshop.read("gpx/trajectory.gpx")).expect("text");
    let mut count = 0;
    for (point, truth) in gpx.lines().filter(|line| line.starts_with("<trkpt")).zip(truth()) {
        // lat="…" lon="…"><ele>…</ele>
        let numbers: Vec<f64> = point.split(['"', '<', '>']).filter_map(|part| part.parse().ok()).collect();
        let found = gps::to_local([numbers[0], numbers[1], numbers[2]], ORIGIN);
        assert!(distance(found, on_earth(truth.centre())) < 0.05, "{point}");
        count += 1;
    }
    assert_eq!(count, FRAMES);
    // Written poses can be read again unchanged, including their georeference.
    std::fs::copy(workshop.path("w/poses.json"), workshop.path("own.json")).expect("a copy");
    let again = workshop.succeed(&[&ALIGN[..], &["own.json"]].concat()).json();
    let told = |json: &serde_json::Value| (json["is_metric"].clone(), json["earth"]["offset_s"].clone());
    assert_eq!(told(&again), told(&found));
    assert!((worst_on_earth(&poses_of(&workshop)) - worst).abs() < 1e-9);
}

#[test]
fn poses_are_kept_to_the_last_digit_where_no_track_fits_them() {
    let workshop = workshop();
    let told = workshop.succeed(&[&ALIGN[..], &["given.csv"]].concat()).stderr;
    assert!(told.contains("points: none could be triangulated"), "{told}");
    let kept = poses_of(&workshop);
    for (pose, given) in all(&kept).iter().zip(given()) {
        assert!(distance(pose.centre(), given.centre()) < 1e-12, "{pose:?} {given:?}");
    }
    // All poses at one position; a clock that is an hour off; positions of another path.
    let elsewhere = track().lines().skip(1).fold("time,east,north\n".to_owned(), |mut text, line| {
        let time = line.split(',').next().expect("a time");
        let at: f64 = time.parse().expect("seconds");
        let _ = writeln!(text, "{time},{},{}", 40.0 * (17.0 * at).sin(), 40.0 * (29.0 * at).cos());
        text
    });
    write(&workshop, "elsewhere.csv", &elsewhere);
    let still = vec![Pose { translation: [1.0, 2.0, 3.0], ..Pose::IDENTITY }; FRAMES];
    write(&workshop, "still.csv", &table(names_of(&workshop).into_iter(), &still));
    let found = workshop.succeed(&[&ALIGN[..], &["still.csv", "--track", "track.csv"]].concat());
    assert!(
        found.stderr.contains("positions: all frames are at one position, which gives no scale"),
        "{found:?}"
    );
    for (file, offset, line) in [
        ("track.csv", "3600", "track.csv: times: fewer than three frames were taken during the track"),
        ("elsewhere.csv", "3.4", "which gives no scale; it is not used"),
    ] {
        let more = ["given.csv", "--track", file, "--track-offset", offset];
        let found = workshop.succeed(&[&ALIGN[..], &more].concat());
        assert!(found.stderr.contains(line), "{}", found.stderr);
        assert_eq!((&found.json()["is_metric"], &found.json()["earth"]), (&false.into(), &().into()));
        assert_eq!(poses_of(&workshop).frames, kept.frames, "{file}");
    }
}

/// GPS positions in EXIF do not rescale given poses; a GPS track does.
#[test]
fn gps_of_the_pictures_changes_nothing_about_poses_that_were_given() {
    let workshop = workshop();
    workshop.succeed(&[&ALIGN[..], &["given.csv"]].concat());
    let kept = poses_of(&workshop).frames;
    let manifest = String::from_utf8(workshop.read("w/pano.jsonl")).expect("text");
    let (names, truth) = (names_of(&workshop), truth());
    let (mut located, mut count) = (String::new(), 0);
    for line in manifest.lines() {
        let mut row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if let Some(at) = names.iter().position(|name| row["frame"] == name.as_str()) {
            row["gps"] = serde_json::json!(gps::to_geodetic(on_earth(truth[at].centre()), ORIGIN));
            count += 1;
        }
        let _ = writeln!(located, "{row}");
    }
    assert_eq!(count, FRAMES);
    write(&workshop, "w/pano.jsonl", &located);
    let found = workshop.succeed(&[&ALIGN[..], &["given.csv"]].concat()).json();
    assert_eq!((found["is_metric"].as_bool(), poses_of(&workshop).frames), (Some(false), kept));
    // They still georeference the poses.
    workshop.succeed(&["pano", "export", "w", "--format", "gpx", "-o", "gpx"]);
    let more = ["given.csv", "--track", "track.csv", "--track-offset", "3.4"];
    assert_eq!(workshop.succeed(&[&ALIGN[..], &more].concat()).json()["is_metric"], true);
}

/// Nerfstudio's rotation and scale of the world are undone on reading and applied again on writing.
#[test]
fn what_a_dataset_applied_to_its_world_is_kept_beside_metres() {
    let workshop = workshop();
    let rows = [[0.0, 1.0, 0.0, 2.0], [1.0, 0.0, 0.0, -1.0], [0.0, 0.0, -1.0, 0.5]];
    let names = names_of(&workshop);
    let frames: Vec<serde_json::Value> = names
        .iter()
        .zip(given())
        .map(|(name, pose)| {
            let (c, r) = (pose.centre(), pose.rotation);
            let row = |[a, b, d, t]: [f64; 4]| {
                let turned = |k: usize| a * r[k][0] + b * r[k][1] + d * r[k][2];
                [turned(0), -turned(1), -turned(2), 0.25 * (a * c[0] + b * c[1] + d * c[2] + t)]
            };
            serde_json::json!({ "file_path": format!("{name}.jpg"), "transform_matrix": rows.map(row) })
        })
        .collect();
    let file = serde_json::json!({ "applied_transform": rows, "applied_scale": 0.25, "frames": frames });
    write(&workshop, "given.json", &file.to_string());
    let more = ["given.json", "--track", "track.csv", "--track-offset", "3.4"];
    workshop.succeed(&[&ALIGN[..], &more].concat());
    let poses = poses_of(&workshop);
    let worst = worst_on_earth(&poses);
    assert!(worst < 0.05, "{worst}");
    workshop.succeed(&["pano", "export", "w", "--format", "transforms", "-o", "out"]);
    let written: serde_json::Value =
        serde_json::from_slice(&workshop.read("out/panoramas.json")).expect("JSON");
    assert_eq!(
        (&written["applied_transform"], &written["applied_scale"]),
        (&serde_json::json!(rows), &0.25.into())
    );
    let back = read::read(&workshop.path("out/panoramas.json")).expect("poses");
    for (back, pose) in back.poses.iter().zip(all(&poses)) {
        assert!(distance(back.pose.centre(), pose.centre()) < 1e-9);
    }
}

/// With `--refine` COLMAP gets the poses in metres and the GPS positions in the same world.
#[test]
fn a_refinement_is_held_by_the_places_of_the_track() {
    let workshop = workshop();
    let job = |more: &[&str]| -> serde_json::Value {
        workshop.succeed(&[&ALIGN[..], &["given.csv", "--refine"], more].concat());
        serde_json::from_slice(&workshop.read("job.json")).expect("JSON")
    };
    let free = job(&[]);
    assert_eq!((&free["refine"], &free["priors"]), (&true.into(), &serde_json::json!([])));
    let held = job(&["--track", "track.csv", "--track-offset", "auto"]);
    let priors = held["priors"].as_array().expect("places");
    assert_eq!((held["refine"].as_bool(), priors.len()), (Some(true), FRAMES));
    let poses = all(&poses_of(&workshop));
    for (prior, pose) in priors.iter().zip(poses) {
        let at: [f64; 3] = serde_json::from_value(prior[1].clone()).expect("a place");
        // Positions and poses differ by the smoothing of the kernel, some centimetres.
        assert!(distance(at, pose.centre()) < 0.05, "{prior} {pose:?}");
        assert!(prior[2].as_f64().is_some_and(|deviation| (1e-3..0.05).contains(&deviation)), "{prior}");
    }
    // A GPS track that does not fit is not used as a constraint.
    let late = job(&["--track", "track.csv", "--track-offset", "3600"]);
    assert_eq!(late["priors"], serde_json::json!([]));
}

#[test]
fn a_run_takes_a_folder_that_was_aligned_with_poses_and_a_track() {
    let workshop = workshop();
    let names = names_of(&workshop);
    std::fs::remove_dir_all(workshop.path("w")).expect("remove");
    let common = ["--python", "./python", "--steps", "10", "--train-size", "16", "--json"];
    let run =
        |more: &[&str]| workshop.run(&[&["pano", "run", "walk", "-o", "out"][..], &common, more].concat());
    workshop.succeed(&["-q", "pano", "split", "walk", "-o", "out/align"]);
    std::os::unix::fs::symlink("out/align", workshop.path("w")).expect("a link");
    write_times(&workshop, &names);
    let more = ["given.csv", "--track", "track.csv", "--track-offset", "auto"];
    workshop.succeed(&[&ALIGN[..], &more].concat());
    let before = workshop.read("out/align/poses.json");
    // A GPS track other than that of the alignment does not invalidate the poses.
    let refused = run(&["--track", "track.csv", "--track-offset", "1"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("out/align: was aligned with another --track, --track-offset or --refine")
    );
    assert!(workshop.read("out/align/poses.json") == before && !workshop.path("out/pano_run.json").exists());
    let ran = run(&[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(workshop.read("out/align/poses.json") == before);
    let ran = ran.json();
    assert_eq!((&ran["is_metric"], &ran["earth"]["track"]), (&true.into(), &"track.csv".into()));
}

/// The room with exact poses in another world, kept and refined by COLMAP; points are in the same metres.
#[test]
fn the_room_by_poses_and_a_track() {
    use gausset_compute::Pool;
    use gausset_io::image::encode::png_rgb8;
    use gausset_scenes::room::Room;
    let Some(python) = python("the_room_by_poses_and_a_track") else { return };
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("room")).expect("a folder");
    let pool = Pool::with_all_cores();
    let name = |k: usize| format!("frame_{k:02}");
    for (k, pose) in truth().iter().enumerate() {
        let picture = Room::FOR_REGISTRATION.panorama(640, pose, &pool);
        let path = workshop.path(&format!("room/{}.png", name(k)));
        std::fs::write(path, png_rgb8(&picture).expect("a picture")).expect("a panorama");
    }
    workshop.succeed(&["-q", "pano", "split", "room", "-o", "w", "--size", "160", "--layout", "ring4"]);
    write_times(&workshop, &(0..FRAMES).map(name).collect::<Vec<_>>());
    write(&workshop, "given.csv", &table((0..FRAMES).map(name), &given()));
    write(&workshop, "track.csv", &track());
    // Given poses that are a centimetre and half a degree off.
    let near = |(k, pose): (usize, Pose)| {
        let off = |salt: usize| ((7 * k + 5 * salt) % 11) as f64 / 11.0 - 0.5;
        let turn = se3::so3_exp([0.02 * off(1), 0.02 * off(2), 0.02 * off(3)]);
        let rotation = se3::mul(&turn, &pose.rotation);
        let centre: [f64; 3] = std::array::from_fn(|i| pose.centre()[i] + 0.37 * 0.03 * off(4 + i));
        Pose { rotation, translation: se3::mul_vec(&rotation, centre).map(|v| -v) }
    };
    let near: Vec<Pose> = given().into_iter().enumerate().map(near).collect();
    write(&workshop, "near.csv", &table((0..FRAMES).map(name), &near));
    let python: &Path = &python;
    let python = python.to_str().expect("a name");
    write(&workshop, "cut.db", "SQLite format 3\0");
    let refused = workshop.run(&["pano", "align", "w", "--python", python, "--database", "cut.db"]);
    assert!(refused.code == 2 && refused.stderr.contains("cut.db: database: cannot be read"), "{refused:?}");
    for (file, more) in [("given.csv", &[][..]), ("near.csv", &["--refine"])] {
        let common = ["pano", "align", "w", "--python", python, "--json", "--track", "track.csv"];
        let arguments = [&common[..], &["--track-offset", "auto", "--poses", file], more].concat();
        let found = workshop.succeed(&arguments).json();
        let poses = poses_of(&workshop);
        let (scale, worst) = (length(&all(&poses)) / length(&truth()), worst_on_earth(&poses));
        let model = ModelFolder::find(&workshop.path("w/sparse/0")).expect("files").expect("a model");
        let error = reprojection_errors(&model.read(Observations::Keep).expect("a model")).expect("points");
        println!(
            "{file}: scale {scale:.4}, worst centre {worst:.4} m on the earth, {} points, {:.3} px, {}",
            found["points"], error.px.mean, found["earth"]
        );
        assert!((scale - 1.0).abs() < 0.02 && worst < 0.06, "{file}: {scale} {worst}");
        let offset = found["earth"]["offset_s"].as_f64().expect("seconds");
        assert!((offset - AHEAD).abs() < 0.1, "{file}: {offset}");
        // If points had another unit than the cameras, they would be off by tens of pixels.
        assert!(
            found["points"].as_u64().is_some_and(|n| n > 100) && error.px.mean < 1.0,
            "{found} {error:?}"
        );
    }
}
