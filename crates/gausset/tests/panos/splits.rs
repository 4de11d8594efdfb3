//! Splits of panoramas: two eyes, mask commands, flat names, colours, selection by a track.

use std::sync::Arc;

use gausset::footage_options::{FrameOptions, StereoLayout};
use gausset::panos::frames::frames;
use gausset::panos::split::split;
use gausset::panos::{FootageKind, FramesOptions, SourceProjection, SplitOptions, TrackOffset, TrackOptions};
use gausset::{Event, Failure, Host, Stage};
use gausset_compute::Pool;
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::{decode_file, decode_mask_file};
use gausset_pano::equalise::Equalise;
use gausset_pano::layout::Layout;
use gausset_pano::selection::SelectBy;
use gausset_pano::split::{Naming, Numbering, SplitReport, read_manifest};
use gausset_scenes::room::{self, Room};
use gausset_testkit::programs::write_video;

use crate::support::{Place, assert_refused, run};

/// Splits `walk` into small views.
fn try_split(
    place: &Place,
    output: &str,
    change: impl FnOnce(&mut SplitOptions),
) -> Result<SplitReport, Failure> {
    let mut options = SplitOptions::new(place.path("walk"), place.path(output));
    options.views.size = Some(32);
    change(&mut options);
    run(|host: &mut Host<'_>| split(&options, host)).0
}

#[test]
fn of_two_eyes_the_upper_one_is_taken() {
    let place = Place::with_walk("p", 1);
    let eye = decode_file(&place.path("walk/p0.jpg")).unwrap().rgb;
    let square: Vec<u8> = eye.iter().copied().chain(eye.iter().rev().copied()).collect();
    for (folder, height, pixels) in [("one", 128, &eye), ("two", 256, &square)] {
        place.write(&format!("{folder}/p.png"), png(256, height, PngPixels::Rgb8(pixels), &[]).unwrap());
    }
    place.split_square("one", "a", Layout::Cube6, 64);
    place.split("two", "b", |options| {
        options.views.layout = Layout::Cube6;
        options.views.size = Some(64);
        options.frames.stereo = Some(StereoLayout::TopBottom);
    });
    for view in 0..6 {
        let name = format!("images/view{view:02}/p.jpg");
        assert!(place.read(&format!("a/{name}")) == place.read(&format!("b/{name}")), "{name}");
    }
    let is_other = |folder: &str| place.text(&format!("{folder}/pano.json")).contains("needs_conversion");
    assert!(!is_other("a") && is_other("b"));
    // Unless it is said to be a stereo pair, a square image is not a panorama.
    let options = SplitOptions::new(place.path("two"), place.path("c"));
    assert!(run(|host| split(&options, host)).0.is_err());
}

/// A program that copies the mask `keep.png` for every frame.
#[cfg(unix)]
#[test]
fn a_mask_command_makes_masks_frame_by_frame() {
    let place = Place::with_walk("p", 2);
    // The mask removes the lower half of the panorama.
    let pixels: Vec<u8> = (0..256 * 128).map(|i| if i < 256 * 64 { 255 } else { 0 }).collect();
    place.write("keep.png", png(256, 128, PngPixels::Grey8(&pixels), &[]).unwrap());
    gausset_testkit::programs::script(&place.path("mask"), "test -s \"$2\" && cp \"$1\" \"$3\"");
    let with = |output: &str, command: &str| {
        try_split(&place, output, |options| {
            options.views.layout = Layout::Ring4;
            options.views.size = Some(64);
            options.masking.mask_command = Some(command.to_owned());
        })
    };
    let command =
        format!("{} {} {{frame}} '{{mask}}'", place.path("mask").display(), place.path("keep.png").display());
    with("w", &command).unwrap();
    let keep = decode_mask_file(&place.path("w/masks/view00/p1.jpg.png")).unwrap().values;
    assert!(keep[..64 * 30].iter().all(|&k| k == 255) && keep[64 * 34..].iter().all(|&k| k == 0));
    assert!(!place.path("w/.masks").exists());
    // If the program writes no mask, nothing is removed; if it fails, its frames are skipped.
    with("n", "true").unwrap();
    assert!(!place.path("n/masks").exists());
    let failed = format!("{:?}", with("f", "false"));
    assert!(failed.contains("mask command: false: ended with exit code 1"), "{failed}");
    for (command, words) in
        [("nonexistent-program x", "is not a program"), ("'x", "quotes do not match"), ("", "is empty")]
    {
        let refused = with("o", command);
        assert_refused(refused.map(|report| report.frames), "usage", words);
    }
    assert!(!place.path("o").exists());
}

#[test]
fn flat_names_have_the_numbers_of_the_source_where_that_is_asked() {
    let place = Place::with_walk("p", 1);
    place.write("walk/shot_0017.jpg", place.read("walk/p0.jpg"));
    let numbered = || {
        let done = try_split(&place, "out", |options| {
            options.naming = Naming::Flat;
            options.numbering = Numbering::Source;
        });
        done.map(|report| report.frames)
    };
    assert_eq!(numbered().unwrap(), 2);
    for name in ["frame_00017_cam_07.jpg", "frame_00000_cam_00.jpg"] {
        assert!(place.path("out/images").join(name).is_file(), "{name}");
    }
    place.write("walk/other-17.jpg", place.read("walk/p0.jpg"));
    let refused = numbered().unwrap_err().message;
    assert!(refused.contains("would both be number 17"), "{refused}");
}

#[test]
fn equalised_frames_have_a_gain_each_and_panoramas_have_no_lenses() {
    let place = Place::with_walk("p", 2);
    try_split(&place, "alike", |options| options.colours.equalise = Some(Equalise::Frames)).unwrap();
    let manifest = read_manifest(&place.path("alike"));
    assert!(manifest.len() == 2 && manifest.iter().all(|line| line.gains.is_some()), "{manifest:?}");
    let refused = try_split(&place, "o", |options| options.colours.equalise = Some(Equalise::Lenses));
    assert!(refused.is_err() && !place.path("o").exists());
}

#[test]
fn shapes_that_would_have_no_effect_are_refused() {
    let place = Place::with_walk("p", 1);
    for input in ["walk", "walk/p0.jpg"] {
        let with = |change: &dyn Fn(&mut FrameOptions), words: &str| {
            let mut options = SplitOptions::new(place.path(input), place.path("o"));
            change(&mut options.frames);
            assert_refused(run(|host| split(&options, host)).0.map(|done| done.frames), "usage", words);
        };
        with(
            &|frames| {
                frames.lens = Some(place.path("lens.json"));
                frames.shape.from = Some(SourceProjection::Equirect);
            },
            "found ⟨lens⟩",
        );
        with(
            &|frames| {
                frames.stereo = Some(StereoLayout::TopBottom);
                frames.shape.from = Some(SourceProjection::Cross);
            },
            "found cubes in image files",
        );
    }
}

/// A GPS track of another time range is refused before a long video is analysed, without other output.
#[test]
fn a_track_of_other_seconds_is_refused_before_the_first_frame() {
    let place = Place::new();
    let pool = Pool::new(1);
    let shown: Vec<_> =
        (0..8).map(|k| Room::FOR_REGISTRATION.panorama(128, &room::pose(k, 40), &pool)).collect();
    if !write_video("a track of other seconds", &place.path("walk.mp4"), 128, &shown) {
        return;
    }
    let fixes = |from: u32| (0..40).map(|k| format!("{},{},0\n", from + k, k)).collect::<String>();
    for (name, from) in [("late.csv", 100), ("fits.csv", 0)] {
        place.write(name, format!("t,x,y\n{}", fixes(from)));
    }
    let choose = |track: &str, offset: f64| {
        let mut options = FramesOptions::new(place.path("walk.mp4"), place.path("frames.txt"));
        options.kind = Some(FootageKind::Panorama);
        options.select.select = Some(SelectBy::Space);
        options.track = Some(TrackOptions { path: place.path(track), offset: TrackOffset::Seconds(offset) });
        run(|host| frames(&options, true, host)).0.map(|_| ())
    };
    let refused = choose("late.csv", 0.0).unwrap_err().message;
    assert!(refused.contains("late.csv: times: from 100.0 to 139.0 s, the frames from 0.0 to"), "{refused}");
    choose("fits.csv", 0.0).unwrap();
    choose("late.csv", 100.0).unwrap();
}

#[test]
fn masks_of_another_frame_selection_are_refused() {
    let place = Place::new();
    let pool = Pool::new(1);
    let shown: Vec<_> =
        (0..10).map(|k| Room::FOR_REGISTRATION.panorama(128, &room::pose(k, 40), &pool)).collect();
    let test = "masks_of_another_frame_selection_are_refused";
    if !write_video(test, &place.path("tour.mp4"), 128, &shown) {
        return;
    }
    let split_at = |output: &str, fps: Option<f64>, start: f64, masks: Option<&str>| {
        let mut options = SplitOptions::new(place.path("tour.mp4"), place.path(output));
        options.views.size = Some(32);
        options.frames.fps = fps;
        options.frames.start = start;
        options.frames.select.select = fps.is_none().then_some(SelectBy::All);
        options.masking.masks = masks.map(|masks| place.path(masks));
        options.force = true;
        run(|host| split(&options, host)).0
    };
    split_at("a", Some(1.0), 0.0, None).unwrap();
    // As `gausset mask` leaves it with the masks.
    place.write("masks/frames.jsonl", place.read("a/frames.jsonl"));
    place.write("masks/frame_000000.png", png(128, 64, PngPixels::Grey8(&[0; 128 * 64]), &[]).unwrap());
    split_at("a", Some(1.0), 0.0, Some("masks")).unwrap();
    assert!(place.path("a/masks/view00/frame_000000.jpg.png").is_file());
    for (fps, start) in [(Some(2.0), 0.0), (Some(1.0), 0.5), (None, 0.0)] {
        let refused = split_at("b", fps, start, Some("masks"));
        assert_refused(refused, "frames", "masks: are of other frames of the video by their frames.jsonl");
    }
    // A split without a selection keeps no times of earlier frames.
    split_at("a", None, 0.0, None).unwrap();
    assert!(!place.path("a/frames.jsonl").exists());
}

#[test]
fn masks_next_to_the_panoramas_are_ignored_where_others_are_given() {
    let place = Place::with_walk("p", 2);
    let mask = png(256, 128, PngPixels::Grey8(&[0; 256 * 128]), &[]).unwrap();
    place.write("walk/masks/p0.jpg.png", &mask);
    place.write("walk/p0.jpg.png", &mask);
    place.write("given/p1.png", &mask);
    let masks_of = |output: &str, masks: Option<&str>| {
        let mut options = SplitOptions::new(place.path("walk"), place.path(output));
        options.views.size = Some(32);
        options.masking.masks = masks.map(|masks| place.path(masks));
        let (done, warnings) = run(|host| split(&options, host));
        done.unwrap();
        let masked = |k: u32| place.path(&format!("{output}/masks/view00/p{k}.jpg.png")).is_file();
        ([masked(0), masked(1)], warnings.matches("next to the panoramas are ignored").count())
    };
    assert_eq!(masks_of("a", None), ([true, false], 0));
    assert_eq!(masks_of("b", Some("given")), ([false, true], 1));
    std::fs::remove_file(place.path("walk/p0.jpg.png")).unwrap();
    assert_eq!(masks_of("c", Some("walk/../walk/masks")), ([true, false], 0));
}

#[test]
fn a_film_whose_exposure_jumps_is_made_alike() {
    const FRAMES: usize = 6;
    /// Number of frames with the original exposure.
    const BRIGHT: usize = 3;
    let place = Place::new();
    let pool = Pool::new(2);
    let mut shown: Vec<_> =
        (0..FRAMES).map(|k| Room::FOR_REGISTRATION.panorama(1024, &room::pose(k, 24), &pool)).collect();
    // In linear light about the power of 2.2 of that: 0.7 stops.
    for frame in &mut shown[BRIGHT..] {
        frame.data.iter_mut().for_each(|value| *value = (f32::from(*value) * 0.8) as u8);
    }
    let test = "a_film_whose_exposure_jumps_is_made_alike";
    if !write_video(test, &place.path("tour.mp4"), 1024, &shown) {
        return;
    }
    let mut options = SplitOptions::new(place.path("tour.mp4"), place.path("views"));
    options.views.size = Some(64);
    options.frames.select.select = Some(SelectBy::All);
    options.colours.equalise = Some(Equalise::Frames);
    let mut stages = Vec::new();
    let mut hear = |event: Event| {
        if let Event::Stage(stage) = event {
            stages.push(stage);
        }
    };
    split(&options, &mut Host::new(&Arc::default(), &mut hear)).unwrap();
    assert!(stages.contains(&Stage::CompareLight), "{stages:?}");
    let gains = || -> Vec<f64> {
        let manifest = read_manifest(&place.path("views"));
        manifest.iter().map(|line| line.gains.as_ref().expect("gains")[0][1].log2()).collect()
    };
    let stops = gains();
    assert_eq!(stops.len(), FRAMES);
    for (k, found) in stops.iter().enumerate() {
        let truth = if k < BRIGHT { -0.35 } else { 0.35 };
        assert!((found - truth).abs() < 0.05, "{stops:?}");
    }
    // Finished frames are kept; lost ones are recreated identically.
    let view = "views/images/view03/frame_000004.jpg";
    let before = place.read(view);
    std::fs::remove_file(place.path(view)).unwrap();
    run(|host| split(&options, host)).0.unwrap();
    assert_eq!((place.read(view), gains()), (before, stops));
}
