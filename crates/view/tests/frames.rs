//! Frames: the engine renders what a page requests.

mod support;

use std::sync::Arc;

use gausset_compute::Pool;
use gausset_core::engine::{Outputs, Rendering};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, RgbImage8};
use gausset_io::dataset::{self, Loader, LoaderOptions, OpenOptions};
use gausset_scenes::write_dataset;
use gausset_view::scene::SceneDescription;
use support::{Robot, World, engine, render_options};

fn camera() -> Camera {
    Camera::new(160, 120, 140.0, 140.0, 80.0, 60.0).unwrap()
}

fn expected() -> Rendering {
    engine().render(&camera(), &Pose::IDENTITY, &render_options(), Outputs::All).unwrap()
}

fn view(id: u32, more: &str) -> String {
    format!(
        r#"{{"t":"view","id":{id},"camera":[160,120,140,140,80,60],"pose":[1,0,0,0,0,1,0,0,0,0,1,0]{more}}}"#
    )
}

fn decoded(bytes: &[u8]) -> Vec<u8> {
    gausset_io::image::decode::decode(bytes).unwrap().rgb
}

#[test]
fn an_exact_frame_is_what_the_engine_draws_and_a_resting_one_is_within_38_db() {
    let world = World::new().drawn();
    let mut robot = Robot::enter(&world);
    let rendering = expected();
    let truth = RgbImage8::from_f32(160, 120, &rendering.color);
    robot.say(&view(3, r#","exact":true"#));
    let exact = robot.see();
    assert_eq!(
        (exact.kind, exact.id, exact.size, exact.codec, exact.flags & 1, exact.step),
        (1, 3, [160, 120], 2, 1, 7)
    );
    assert!(decoded(&exact.bytes) == truth.data, "an exact frame differs");
    robot.say(&view(4, r#","ack":3"#));
    let resting = robot.see();
    assert_eq!((resting.id, resting.codec, resting.size), (4, 0, [160, 120]));
    let squares = decoded(&resting.bytes)
        .into_iter()
        .zip(&truth.data)
        .map(|(a, &b)| (f64::from(a) - f64::from(b)).powi(2));
    let psnr = -10.0 * (squares.sum::<f64>() / truth.data.len() as f64 / 255.0f64.powi(2)).log10();
    assert!(psnr >= 38.0, "{psnr} dB");
}

#[test]
fn depth_alpha_and_count_are_other_pictures_and_a_probe_is_a_number() {
    let world = World::new().drawn();
    let mut robot = Robot::enter(&world);
    let mut last = Vec::new();
    for (id, what) in (1..).zip(["depth", "normals", "alpha", "count", "color"]) {
        robot.say(&view(id, &format!(r#","exact":true,"what":"{what}""#)));
        let frame = robot.see();
        assert_eq!(frame.id, id);
        assert_ne!(frame.bytes, last, "{what}");
        if what == "depth" {
            assert!(frame.range[0] > 2.0 && frame.range[1] < 4.0 && frame.range[0] < frame.range[1]);
        }
        last = frame.bytes;
        robot.say(&format!(r#"{{"t":"ack","id":{id}}}"#));
    }
    robot.say(&view(9, r#","what":"probe","at":[0.5,0.5]"#));
    let depth = robot.hear();
    assert_eq!((depth["t"].as_str(), depth["id"].as_u64()), (Some("depth"), Some(9)));
    assert!((depth["depth"].as_f64().unwrap() - 3.0).abs() < 0.3, "{depth}");
}

#[test]
fn what_cannot_be_drawn_is_one_line_and_the_page_goes_on() {
    let world = World::new().drawn();
    let mut robot = Robot::enter(&world);
    robot.say(r#"{"t":"view","id":1,"camera":[0,0,1,1,0,0],"pose":[1,0,0,0,0,1,0,0,0,0,1,0]}"#);
    assert_eq!(robot.hear()["line"], "view: image size is 0x0 px (expected 1..32768 a side)");
    robot.say(&view(2, r#","what":"error","against":5"#));
    assert_eq!(robot.hear()["line"], "there is no such photograph");
    robot.say(r#"{"t":"photo","id":3,"camera":0,"side":64}"#);
    assert_eq!(robot.hear()["id"], 3);
    robot.say(&view(4, ""));
    assert_eq!(robot.see().id, 4);
}

#[test]
fn errors_are_those_on_the_background_of_the_training() {
    let folder = tempfile::tempdir().unwrap();
    write_dataset(&gausset_scenes::tiny(), folder.path(), &Pool::new(1), &mut |_, _| {}).unwrap();
    let dataset = Arc::new(dataset::open(folder.path(), &OpenOptions::default()).unwrap());
    let loader = Arc::new(Loader::new(dataset, LoaderOptions { budget_bytes: 1 << 20, threads: 0 }));
    let (_, photos) = SceneDescription::from_dataset(String::new(), loader, &Similarity::IDENTITY);
    let world = World::new().drawn_with(Some(photos));
    let mut robot = Robot::enter(&world);
    let mut error = |id, more: &str| {
        robot.say(&view(id, &format!(r#","exact":true,"what":"error","against":0{more}"#)));
        robot.see().bytes
    };
    assert!(error(1, "") == error(2, r#","ack":1,"background":[1,1,1]"#));
}

#[test]
fn a_page_that_never_acknowledges_gets_one_frame_and_others_go_on() {
    let world = World::new().drawn();
    let (mut stalled, mut live) = (Robot::enter(&world), Robot::enter(&world));
    for id in 1..=20 {
        stalled.say(&view(id, r#","moving":true"#));
    }
    for id in 1..=20 {
        live.say(&view(id, r#","moving":true"#));
        assert_eq!(live.see().id, id);
        live.say(&format!(r#"{{"t":"ack","id":{id}}}"#));
    }
    stalled.see();
    stalled.say(r#"{"t":"hidden","hidden":false}"#);
    drop(stalled);
    live.say(&view(99, ""));
    assert_eq!(live.see().id, 99);
}
