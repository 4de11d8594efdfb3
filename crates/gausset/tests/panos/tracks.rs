//! Given poses combined with a GPS track: the unit becomes the metre, the rest is unchanged.

use std::fmt::Write as _;

use gausset::aligner::AlignerOptions;
use gausset::device::DeviceOptions;
use gausset::panos::export::ExportFormat;
use gausset::panos::{
    PanoOptions, PriorKnowledge, TrackOffset, TrackOptions, TrainViewOptions, run as pano_run,
};
use gausset::training::RunSettings;
use gausset_compute::Pool;
use gausset_core::{Pose, se3};
use gausset_io::atomic::Overwrite;
use gausset_io::image::encode::png_rgb8;
use gausset_pano::export::AlignedPoses;
use gausset_pano::layout::Layout;
use gausset_pano::poses::read;
use gausset_pano::split::SplitDescription;
use gausset_scenes::room::{self, Room};
use gausset_sfm::compare::Similarity;
use gausset_sfm::gps;
use gausset_sfm::reprojection::reprojection_errors;
use gausset_testkit::programs::script;
use gausset_train::TrainOptions;
use serde_json::{Value, json};

use crate::support::{
    Place, all_poses, assert_refused, distance, frame_times, path_length, pose_table, pycolmap, run,
    slightly_off,
};

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

/// The poses of the room in another world: 0.37 times as large, rotated and translated.
fn given() -> Vec<Pose> {
    let rotation = se3::rotation_from_quaternion([0.5, -0.5, 0.7, 0.1]);
    let world = Similarity { scale: 0.37, rotation, translation: [4.0, -1.0, 2.0] };
    truth().iter().map(|pose| world.apply_to_pose(pose)).collect()
}

fn table(names: &[String], poses: &[Pose]) -> String {
    pose_table(names.iter().map(String::as_str).zip(poses.iter().copied()))
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

fn names_of(place: &Place) -> Vec<String> {
    SplitDescription::read(&place.path("w")).unwrap().frames
}

/// A split of panoramas, poses, a GPS track, and a stand-in for pycolmap that returns the given poses without points.
fn place() -> Place {
    let place = Place::with_walk("p", FRAMES as u32);
    place.split_square("walk", "w", Layout::Ring4, 32);
    let names = names_of(&place);
    place.write("w/frames.jsonl", frame_times(&names, APART as f64));
    place.write("given.csv", table(&names, &given()));
    place.write("track.csv", track());
    let text = format!(
        "for last; do :; done
if [ \"$last\" = --version ]; then echo '{{\"event\": \"version\", \"version\": \"4.2.1\"}}'; exit 0; fi
cp \"$last\" {}
known=$(sed -n 's/.*\"known\": \"\\(.*\\)\",.*/\\1/p' \"$last\")
models=$(sed -n 's/.*\"models\": \"\\(.*\\)\",.*/\\1/p' \"$last\")
mkdir -p \"$models/0\" && cp \"$known\"/* \"$models/0\"",
        place.path("job.json").display()
    );
    script(&place.path("python"), &text);
    place
}

/// Poses, and a track with the offset of its clock.
fn known(place: &Place, poses: &str, track: Option<(&str, TrackOffset)>) -> PriorKnowledge {
    let track = track.map(|(name, offset)| TrackOptions { path: place.path(name), offset });
    PriorKnowledge { poses: Some(place.path(poses)), track, ..PriorKnowledge::default() }
}

/// Aligns with given poses and a track. Returns the poses and the warnings.
fn align(place: &Place, poses: &str, track: Option<(&str, TrackOffset)>) -> (AlignedPoses, String) {
    let (done, warnings) = place.align_with(&known(place, poses, track));
    (done.unwrap(), warnings)
}

const ON_TRACK: (&str, TrackOffset) = ("track.csv", TrackOffset::Auto);
const SET: (&str, TrackOffset) = ("track.csv", TrackOffset::Seconds(AHEAD));

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
    all_poses(poses).into_iter().zip(truth()).map(off).fold(0.0, f64::max)
}

#[test]
fn poses_from_elsewhere_get_metres_from_a_track() {
    let place = place();
    align(&place, "given.csv", Some(ON_TRACK));
    let poses = place.aligned_poses();
    // The smoothing kernel flattens the bends: 0.6 % of this path.
    let scale = path_length(&all_poses(&poses)) / path_length(&truth());
    assert!((scale - 1.0).abs() < 0.02, "{scale}");
    let earth = poses.earth.as_ref().expect("a place on the earth");
    assert!((earth.offset_s - AHEAD).abs() < 0.1, "{earth:?}");
    assert_eq!((poses.is_metric, earth.frames), (true, FRAMES));
    assert!(earth.track.ends_with("track.csv"), "{earth:?}");
    let worst = worst_on_earth(&poses);
    assert!(worst < 0.05, "{worst}");
    // The axes are those of the given poses, which were only scaled.
    for (pose, given) in all_poses(&poses).iter().zip(given()) {
        let stretched = scale * path_length(&truth()) / path_length(&self::given());
        let wanted = given.translation.map(|v| v * stretched);
        assert!(distance(pose.translation, wanted) < 1e-9, "{pose:?} {wanted:?}");
        let turn = se3::mul(&pose.rotation, &se3::transpose(&given.rotation));
        assert!((0..3).all(|k| (turn[k][k] - 1.0).abs() < 1e-12), "{turn:?}");
    }
    // The model is in the same world as the poses, and so are its exports.
    let compared = place.compare("w", "w/poses.json");
    assert!((compared.fit.scale - 1.0).abs() < 1e-12, "{compared:?}");
    let views = read::read(&place.path("w/sparse/0")).unwrap();
    let near = |view: [f64; 3]| all_poses(&poses).iter().any(|pose| distance(view, pose.centre()) < 1e-9);
    assert!(views.poses.iter().all(|view| near(view.pose.centre())));
    place.export(ExportFormat::Gpx, "gpx");
    let gpx = place.text("gpx/trajectory.gpx");
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
    std::fs::copy(place.path("w/poses.json"), place.path("own.json")).unwrap();
    let (again, _) = align(&place, "own.json", None);
    assert_eq!((again.is_metric, again.earth.as_ref().map(|e| e.offset_s)), (true, Some(earth.offset_s)));
    assert!((worst_on_earth(&again) - worst).abs() < 1e-9);
}

#[test]
fn poses_are_kept_to_the_last_digit_where_no_track_fits_them() {
    let place = place();
    let (kept, warnings) = align(&place, "given.csv", None);
    assert!(warnings.contains("points: none could be triangulated"), "{warnings}");
    for (pose, given) in all_poses(&kept).iter().zip(given()) {
        assert!(distance(pose.centre(), given.centre()) < 1e-12, "{pose:?} {given:?}");
    }
    // All poses at one position; a clock that is an hour off; positions of another path.
    let elsewhere = track().lines().skip(1).fold("time,east,north\n".to_owned(), |mut text, line| {
        let time = line.split(',').next().expect("a time");
        let at: f64 = time.parse().unwrap();
        let _ = writeln!(text, "{time},{},{}", 40.0 * (17.0 * at).sin(), 40.0 * (29.0 * at).cos());
        text
    });
    place.write("elsewhere.csv", elsewhere);
    let still = vec![Pose { translation: [1.0, 2.0, 3.0], ..Pose::IDENTITY }; FRAMES];
    place.write("still.csv", table(&names_of(&place), &still));
    let (_, warnings) = align(&place, "still.csv", Some(("track.csv", TrackOffset::Seconds(0.0))));
    let line = "positions: all frames are at one position, which gives no scale";
    assert!(warnings.contains(line), "{warnings}");
    for (file, offset, line) in [
        ("track.csv", 3600.0, "track.csv: times: fewer than three frames were taken during the track"),
        ("elsewhere.csv", 3.4, "which gives no scale; it is not used"),
    ] {
        let (found, warnings) = align(&place, "given.csv", Some((file, TrackOffset::Seconds(offset))));
        assert!(warnings.contains(line), "{warnings}");
        assert_eq!((found.is_metric, found.earth), (false, None));
        assert_eq!(found.frames, kept.frames, "{file}");
    }
}

/// GPS positions in EXIF do not rescale given poses; a GPS track does.
#[test]
fn gps_of_the_pictures_changes_nothing_about_poses_that_were_given() {
    let place = place();
    let kept = align(&place, "given.csv", None).0.frames;
    let (names, truth) = (names_of(&place), truth());
    let (mut located, mut count) = (String::new(), 0);
    for line in place.text("w/pano.jsonl").lines() {
        let mut row: Value = serde_json::from_str(line).unwrap();
        if let Some(at) = names.iter().position(|name| row["frame"] == name.as_str()) {
            row["gps"] = json!(gps::to_geodetic(on_earth(truth[at].centre()), ORIGIN));
            count += 1;
        }
        let _ = writeln!(located, "{row}");
    }
    assert_eq!(count, FRAMES);
    place.write("w/pano.jsonl", located);
    let (found, _) = align(&place, "given.csv", None);
    assert_eq!((found.is_metric, found.frames), (false, kept));
    // They still georeference the poses.
    place.export(ExportFormat::Gpx, "gpx");
    assert!(align(&place, "given.csv", Some(SET)).0.is_metric);
}

/// Nerfstudio's rotation and scale of the world are undone on reading and applied again on writing.
#[test]
fn what_a_dataset_applied_to_its_world_is_kept_beside_metres() {
    let place = place();
    let rows = [[0.0, 1.0, 0.0, 2.0], [1.0, 0.0, 0.0, -1.0], [0.0, 0.0, -1.0, 0.5]];
    let frames: Vec<Value> = names_of(&place)
        .iter()
        .zip(given())
        .map(|(name, pose)| {
            let (c, r) = (pose.centre(), pose.rotation);
            let row = |[a, b, d, t]: [f64; 4]| {
                let turned = |k: usize| a * r[k][0] + b * r[k][1] + d * r[k][2];
                [turned(0), -turned(1), -turned(2), 0.25 * (a * c[0] + b * c[1] + d * c[2] + t)]
            };
            json!({ "file_path": format!("{name}.jpg"), "transform_matrix": rows.map(row) })
        })
        .collect();
    let file = json!({ "applied_transform": rows, "applied_scale": 0.25, "frames": frames });
    place.write("given.json", file.to_string());
    let (poses, _) = align(&place, "given.json", Some(SET));
    let worst = worst_on_earth(&poses);
    assert!(worst < 0.05, "{worst}");
    place.export(ExportFormat::Transforms, "out");
    let written: Value = serde_json::from_slice(&place.read("out/panoramas.json")).unwrap();
    assert_eq!((&written["applied_transform"], &written["applied_scale"]), (&json!(rows), &0.25.into()));
    let back = read::read(&place.path("out/panoramas.json")).unwrap();
    for (back, pose) in back.poses.iter().zip(all_poses(&poses)) {
        assert!(distance(back.pose.centre(), pose.centre()) < 1e-9);
    }
}

/// For a refinement COLMAP gets the poses in metres and the GPS positions in the same world.
#[test]
fn a_refinement_is_held_by_the_places_of_the_track() {
    let place = place();
    let job = |track: Option<(&str, TrackOffset)>| -> Value {
        let known = PriorKnowledge { refine: true, ..known(&place, "given.csv", track) };
        place.align_with(&known).0.unwrap();
        serde_json::from_slice(&place.read("job.json")).unwrap()
    };
    let free = job(None);
    assert_eq!((&free["refine"], &free["priors"]), (&true.into(), &json!([])));
    let held = job(Some(ON_TRACK));
    let priors = held["priors"].as_array().expect("places");
    assert_eq!((held["refine"].as_bool(), priors.len()), (Some(true), FRAMES));
    for (prior, pose) in priors.iter().zip(all_poses(&place.aligned_poses())) {
        let at: [f64; 3] = serde_json::from_value(prior[1].clone()).unwrap();
        // Positions and poses differ by the smoothing of the kernel, some centimetres.
        assert!(distance(at, pose.centre()) < 0.05, "{prior} {pose:?}");
        assert!(prior[2].as_f64().is_some_and(|deviation| (1e-3..0.05).contains(&deviation)), "{prior}");
    }
    // A GPS track that does not fit is not used as a constraint.
    assert_eq!(job(Some(("track.csv", TrackOffset::Seconds(3600.0))))["priors"], json!([]));
}

#[test]
fn a_run_takes_a_folder_that_was_aligned_with_poses_and_a_track() {
    let place = place();
    let names = names_of(&place);
    std::fs::remove_dir_all(place.path("w")).unwrap();
    place.split("walk", "out/align", |_| {});
    std::os::unix::fs::symlink("out/align", place.path("w")).unwrap();
    place.write("w/frames.jsonl", frame_times(&names, APART as f64));
    align(&place, "given.csv", Some(ON_TRACK));
    let before = place.read("out/align/poses.json");
    let train = |track: Option<TrackOptions>| {
        let options = PanoOptions {
            views: TrainViewOptions { size: Some(16), ..TrainViewOptions::default() },
            tool: place.stand_in(),
            known: PriorKnowledge { track, ..PriorKnowledge::default() },
            training: TrainOptions { steps: Some(10), ..TrainOptions::default() },
            ..PanoOptions::new(place.path("walk"), place.path("out"))
        };
        run(|host| pano_run::run(&options, RunSettings::for_device(DeviceOptions::default()), host)).0
    };
    // A GPS track other than that of the alignment does not invalidate the poses.
    let other = TrackOptions { path: place.path("track.csv"), offset: TrackOffset::Seconds(1.0) };
    let words = "out/align: was aligned with another ⟨track⟩, ⟨track-offset⟩ or ⟨refine⟩";
    assert_refused(train(Some(other)), "other-options", words);
    assert!(place.read("out/align/poses.json") == before && !place.path("out/pano_run.json").exists());
    let alignment = train(None).unwrap().alignment;
    assert!(place.read("out/align/poses.json") == before);
    assert!(alignment.is_metric && alignment.earth.is_some_and(|earth| earth.track.ends_with("track.csv")));
}

/// The room with exact poses in another world, kept and refined by COLMAP; points are in the same metres.
#[test]
fn the_room_by_poses_and_a_track() {
    let Some(python) = pycolmap("the_room_by_poses_and_a_track") else { return };
    let place = Place::new();
    let pool = Pool::with_all_cores();
    let names: Vec<String> = (0..FRAMES).map(|k| format!("frame_{k:02}")).collect();
    for (name, pose) in names.iter().zip(truth()) {
        let picture = Room::FOR_REGISTRATION.panorama(640, &pose, &pool);
        place.write(&format!("room/{name}.png"), png_rgb8(&picture).unwrap());
    }
    place.split_square("room", "w", Layout::Ring4, 160);
    place.write("w/frames.jsonl", frame_times(&names, APART as f64));
    place.write("given.csv", table(&names, &given()));
    place.write("track.csv", track());
    let near: Vec<Pose> = given().iter().enumerate().map(|(k, pose)| slightly_off(k, pose, 0.37)).collect();
    place.write("near.csv", table(&names, &near));
    let tool = AlignerOptions { python: Some(python), ..AlignerOptions::default() };
    place.write("cut.db", "SQLite format 3\0");
    let cut = PriorKnowledge { database: Some(place.path("cut.db")), ..PriorKnowledge::default() };
    let (refused, _) = place.try_align(&tool, &cut, Overwrite::Refuse);
    assert!(refused.is_err_and(|failure| failure.message.contains("cut.db: database: cannot be read")));
    for (file, refine) in [("given.csv", false), ("near.csv", true)] {
        let known = PriorKnowledge { refine, ..known(&place, file, Some(ON_TRACK)) };
        let poses = place.try_align(&tool, &known, Overwrite::Replace).0.unwrap();
        let (scale, worst) =
            (path_length(&all_poses(&poses)) / path_length(&truth()), worst_on_earth(&poses));
        let error = reprojection_errors(&place.model("w/sparse/0")).expect("points");
        let earth = poses.earth.expect("a place on the earth");
        println!(
            "{file}: scale {scale:.4}, worst centre {worst:.4} m on the earth, {} points, {:.3} px, {earth:?}",
            poses.points, error.px.mean
        );
        assert!((scale - 1.0).abs() < 0.02 && worst < 0.06, "{file}: {scale} {worst}");
        assert!((earth.offset_s - AHEAD).abs() < 0.1, "{file}: {earth:?}");
        // If points had another unit than the cameras, they would be off by tens of pixels.
        assert!(poses.points > 100 && error.px.mean < 1.0, "{} {error:?}", poses.points);
    }
}
