//! Frame selection on a video of the procedural room: measurements against ground truth, and the selected frames.

use crate::walk;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_core::se3;
use gausset_pano::selection::{
    FrameContent, FrameReason, MeasurementKey, SelectBy, Selection, SelectionCriteria, measure_frames,
};
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::video::FrameSelection;
use gausset_testkit::skip::skip_for_tool;

#[test]
fn a_walk_gives_equal_steps_and_a_stop_one_frame() {
    if gausset_process::find_program("ffmpeg").is_none() {
        skip_for_tool("a_walk_gives_equal_steps_and_a_stop_one_frame", "ffmpeg is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.mp4");
    // 1.5 s of walking, then a stop: longer than a rest must be, whatever the encoder makes of its first frames.
    let shots = walk::shots(3.0);
    walk::film(&path, &shots, 256, [480, 240]);
    let never = AtomicBool::new(false);
    let film = SphereVideo::open(
        &path,
        FrameSelection::default(),
        false,
        [16_384, 8192],
        Duration::from_secs(60),
        &never,
    )
    .unwrap();
    let video = &film.video;
    let times = video.frame_times(&never).unwrap();
    let lines = measure_frames(video, &FrameContent::Sphere, &times, &never, &mut |_| {}).unwrap();
    assert_eq!((lines.len(), times.timed_frames(), &times.warning), (72, 72, &None));
    assert!(lines.iter().zip(0..).all(|(line, k)| (line.time - f64::from(k) / 24.0).abs() < 1e-4));
    assert_eq!(measure_frames(video, &FrameContent::Sphere, &times, &never, &mut |_| {}).unwrap(), lines);

    let mut errors: Vec<f64> = Vec::new();
    let mut shown = 0;
    for (k, line) in lines.iter().enumerate().skip(1) {
        assert_eq!(line.duplicate, shots[k].is_duplicate, "frame {k}");
        let before = shown;
        shown = if shots[k].is_duplicate { shown } else { k };
        let truth = se3::mul(&shots[shown].pose.rotation, &se3::transpose(&shots[before].pose.rotation));
        if let Some(rotation) = line.rotation {
            let found = se3::so3_exp(rotation.map(f64::to_radians));
            errors.push(walk::angle(&se3::mul(&found, &se3::transpose(&truth))));
        }
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() > 50 && errors[errors.len() / 2] < 0.15, "{errors:?}");

    let choose = |wanted: &SelectionCriteria| {
        let film = MeasurementKey::new(video, &FrameContent::Sphere);
        Selection::new(video, film, lines.clone(), Vec::new(), wanted).unwrap()
    };
    let selection = choose(&SelectionCriteria::default());
    let kept = selection.kept_frames();
    let steps: Vec<f64> =
        kept.windows(2).map(|p| walk::distance(&shots[p[0]].pose, &shots[p[1]].pose)).collect();
    assert!(kept.len() >= 5 && walk::spread(&steps) <= 0.25, "{kept:?} {steps:?}");
    assert!(kept.iter().filter(|&&k| k > 38).count() <= 1, "{kept:?}");
    assert!(kept.iter().all(|&k| !shots[k].is_duplicate));
    assert!(
        selection.reasons(false).get(&FrameReason::Standing).is_some_and(|&count| count > 8),
        "{selection:?}"
    );
    // The file can be read back and gives the same selection.
    let file = folder.path().join("frames.jsonl");
    selection.write(&file, gausset_io::atomic::Overwrite::Refuse).unwrap();
    let (known, _) = Selection::read_measurements(&file, &selection.header.film).unwrap();
    let again = Selection::new(
        video,
        MeasurementKey::new(video, &FrameContent::Sphere),
        known,
        Vec::new(),
        &SelectionCriteria::default(),
    )
    .unwrap();
    assert_eq!(again, selection);
    let other = MeasurementKey { bytes: 1, ..selection.header.film.clone() };
    assert_eq!(Selection::read_measurements(&file, &other), None);
    // By time: four frames per second.
    let by_time =
        choose(&SelectionCriteria { select: SelectBy::Time, fps: 4.0, ..SelectionCriteria::default() });
    assert_eq!(by_time.kept_frames().len(), 12);
}

#[test]
fn a_track_gives_equal_steps_in_metres_where_parallax_misleads() {
    let name = "a_track_gives_equal_steps_in_metres_where_parallax_misleads";
    if gausset_process::find_program("ffmpeg").is_none() {
        skip_for_tool(name, "ffmpeg is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.mp4");
    // Sharp frames of a walk, a stop, a rotation, a run, and a walk again.
    let mut shots = walk::shots(8.5);
    for shot in &mut shots {
        shot.exposed = vec![shot.pose];
        shot.is_duplicate = false;
    }
    walk::film(&path, &shots, 256, [480, 240]);
    let never = AtomicBool::new(false);
    let film = SphereVideo::open(
        &path,
        FrameSelection::default(),
        false,
        [16_384, 8192],
        Duration::from_secs(60),
        &never,
    )
    .unwrap();
    let times = film.video.frame_times(&never).unwrap();
    let lines = measure_frames(&film.video, &FrameContent::Sphere, &times, &never, &mut |_| {}).unwrap();
    let choose = |metres: Option<&[f64]>| {
        let mut lines = lines.clone();
        if let Some(metres) = metres {
            let metres: Vec<Option<f64>> = metres.iter().copied().map(Some).collect();
            Selection::set_metres(&mut lines, &metres);
        }
        let measured = MeasurementKey::new(&film.video, &FrameContent::Sphere);
        Selection::new(&film.video, measured, lines, Vec::new(), &SelectionCriteria::default()).unwrap()
    };
    // A scene that is `larger` times as large looks the same from a camera that moves `larger` times as far.
    let way = |larger: f64| -> Vec<f64> {
        let mut way = vec![0.0];
        for (k, pair) in shots.windows(2).enumerate() {
            let scale = if k > 156 { larger } else { 1.0 };
            way.push(way[k] + scale * walk::distance(&pair[0].pose, &pair[1].pose));
        }
        way
    };
    let spread = |selection: &Selection, way: &[f64]| {
        let steps: Vec<f64> = selection.kept_frames().windows(2).map(|p| way[p[1]] - way[p[0]]).collect();
        walk::spread(&steps)
    };
    let (room, plain) = (way(1.0), choose(None));
    let with = choose(Some(&room));
    assert!(spread(&with, &room) <= spread(&plain, &room).max(0.195), "{with:?}");
    let wide = way(6.0);
    let with = choose(Some(&wide));
    let (before, now) = (spread(&plain, &wide), spread(&with, &wide));
    assert!(before > 0.5 && now <= 0.25, "{before} {now} {:?} {:?}", plain.kept_frames(), with.kept_frames());
    assert!(with.reasons(true)[&FrameReason::Track] > 5 && with.header.step_metres.is_some(), "{with:?}");
}
