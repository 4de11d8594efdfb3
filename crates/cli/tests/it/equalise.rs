//! Exposure equalisation of video frames.

use gausset_compute::Pool;
use gausset_scenes::room::{self, Room};

use crate::support::{TestFolder, write_video};

/// Number of frames, of which the first [`BRIGHT`] have the original exposure.
const FRAMES: usize = 6;
const BRIGHT: usize = 3;

#[test]
fn a_film_whose_exposure_jumps_is_made_alike() {
    let workshop = TestFolder::empty();
    let mut frames: Vec<_> = (0..FRAMES)
        .map(|k| Room::FOR_REGISTRATION.panorama(1024, &room::pose(k, 24), &Pool::new(2)))
        .collect();
    // In linear light about the power of 2.2 of that: 0.7 stops.
    for frame in &mut frames[BRIGHT..] {
        frame.data.iter_mut().for_each(|value| *value = (f32::from(*value) * 0.8) as u8);
    }
    if !write_video("a_film_whose_exposure_jumps_is_made_alike", &workshop.path("tour.mp4"), 1024, &frames) {
        return;
    }
    let split = [
        "pano",
        "split",
        "tour.mp4",
        "-o",
        "views",
        "--select",
        "all",
        "--size",
        "64",
        "--equalise",
        "frames",
    ];
    let said = workshop.succeed(&split).stderr;
    assert!(said.contains("comparing the exposure of neighbouring frames"), "{said}");
    let gains = || -> Vec<f64> {
        let lines = String::from_utf8(workshop.read("views/pano.jsonl")).expect("text");
        let gain = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).expect("a line")["gains"][0][1]
                .as_f64()
                .expect("a gain")
        };
        lines.lines().map(gain).map(f64::log2).collect()
    };
    let stops = gains();
    assert_eq!(stops.len(), FRAMES);
    for (k, found) in stops.iter().enumerate() {
        let truth = if k < BRIGHT { -0.35 } else { 0.35 };
        assert!((found - truth).abs() < 0.05, "{stops:?}");
    }
    // Finished frames are kept; lost ones are recreated identically.
    let view = "views/images/view03/frame_000004.jpg";
    let before = std::fs::read(workshop.path(view)).expect("a view");
    std::fs::remove_file(workshop.path(view)).expect("a view");
    workshop.succeed(&split);
    assert_eq!((std::fs::read(workshop.path(view)).expect("a view"), gains()), (before, stops));
}
