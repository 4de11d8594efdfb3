//! Videos of cubes: a path through the procedural room, unfolded by ffmpeg's `v360`, compared with its panoramas.
#![allow(clippy::print_stderr, reason = "tests say what they measured")]

use crate::walk;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_core::se3::{self, Mat3};
use gausset_io::image::decode_file;
use gausset_pano::cube::{CubeLayout, StripOrder};
use gausset_pano::cutter::Format;
use gausset_pano::frames::video_frames;
use gausset_pano::layout::Layout;
use gausset_pano::projection::Projection;
use gausset_pano::selection::{
    FrameContent, FrameRecord, MeasurementKey, Selection, SelectionCriteria, measure_frames,
};
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::split::{OnError, SplitSettings, WorkerSettings, split};
use gausset_pano::video::FrameSelection;
use gausset_testkit::skip::skip_for_tool;

/// Arrangements with the filters that make them from panoramas; faces of 128 px.
const NETS: [(CubeLayout, &str, &str, &str); 3] = [
    (CubeLayout::Strip3x2, "bfdulr", "012310", "v360=e:c3x2:w=384:h=256:out_forder=bfdulr:out_frot=012310"),
    (CubeLayout::Strip1x6, "rludfb", "000000", "v360=e:c1x6:w=128:h=768"),
    // Left, front, right, back in a row, with up and down above and below the front.
    (
        CubeLayout::Cross4x3,
        "rludfb",
        "000000",
        "v360=e:c6x1:w=768:h=128:out_forder=lfrbud,split=3[row][u][d];[row]crop=512:128:0:0,pad=512:384:0:128:gray[a];\
         [u]crop=128:128:512:0[up];[d]crop=128:128:640:0[down];[a][up]overlay=128:0[b];[b][down]overlay=128:256",
    ),
];

fn order(faces: &str, turns: &str) -> StripOrder {
    StripOrder {
        faces: StripOrder::parse_faces(faces).unwrap(),
        turns: StripOrder::parse_turns(turns).unwrap(),
    }
}

fn unfold(folder: &Path, filter: &str, name: &str) -> PathBuf {
    // `v360` samples with an offset of half a pixel, so the source is enlarged first.
    let filter = format!("scale=2048:1024:flags=bicubic,{filter}");
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-i", "walk.mkv", "-filter_complex", &filter])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-qp", "6", "-pix_fmt", "yuv420p", name])
        .current_dir(folder)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    folder.join(name)
}

fn open(path: &Path) -> SphereVideo {
    let never = AtomicBool::new(false);
    let limits = [16_384, 8192];
    SphereVideo::open_any_shape(
        path,
        FrameSelection::default(),
        false,
        limits,
        Duration::from_secs(60),
        &never,
    )
    .unwrap()
}

fn measured(film: &SphereVideo) -> Vec<FrameRecord> {
    let shows = match film.projection() {
        Projection::Equirect(_) => FrameContent::Sphere,
        folded => FrameContent::Projected(Box::new(folded)),
    };
    let never = AtomicBool::new(false);
    let times = film.video.frame_times(&never).unwrap();
    measure_frames(&film.video, &shows, &times, &never, &mut |_| {}).unwrap()
}

/// Views of two frames of a video, values 0 to 1.
fn views(film: &SphereVideo, out: &Path, threads: usize) -> Vec<Vec<f32>> {
    let views = Layout::Cube6.views(96, 96, Some(100.0));
    let film = film.clone().picked(&[3, 20]);
    let settings = SplitSettings { video: Some(film.clone()), ..SplitSettings::new(views, Format::Png) };
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let work =
        WorkerSettings { threads, level, on_error: OnError::Stop, force: true, memory_budget: 64 << 20 };
    let frames = video_frames(&film.video);
    let report = split(&frames, &settings, &work, out, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(report.frames, 2);
    let files = settings
        .views
        .iter()
        .flat_map(|view| [0, 1].map(|frame| out.join(format!("images/{}/frame_{frame:06}.png", view.name))));
    files
        .map(|file| decode_file(&file).unwrap().rgb.iter().map(|v| f32::from(*v) / 255.0).collect())
        .collect()
}

#[test]
fn a_film_of_cubes_is_that_of_its_panoramas() {
    let test = "a_film_of_cubes_is_that_of_its_panoramas";
    if gausset_process::find_program("ffmpeg").is_none() {
        return skip_for_tool(test, "ffmpeg is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    // Sharp frames of a path with rotation.
    let mut shots: Vec<walk::Shot> = walk::shots(8.0).into_iter().skip(150).take(30).collect();
    for shot in &mut shots {
        shot.exposed = vec![shot.pose];
        shot.is_duplicate = false;
    }
    walk::film(&folder.path().join("walk.mkv"), &shots, 256, [512, 256]);
    let panoramas = open(&folder.path().join("walk.mkv"));
    let lines = measured(&panoramas);
    let picks = |film: &SphereVideo, lines: &[FrameRecord]| {
        let of = MeasurementKey::new(&film.video, &FrameContent::Sphere);
        Selection::new(&film.video, of, lines.to_vec(), Vec::new(), &SelectionCriteria::default())
            .unwrap()
            .kept_frames()
    };
    let (chosen, out) = (picks(&panoramas, &lines), folder.path().join("views"));
    let direct = views(&panoramas, &out, 1);
    for (net, faces, turns, filter) in NETS {
        let film = open(&unfold(folder.path(), filter, "cubes.mp4"));
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        if net.is_cross() {
            assert!(film.shows_cross(net, level, &AtomicBool::new(false)).unwrap());
        }
        let film = film.with_cube(net, order(faces, turns));
        let name = net.name();
        // Measured rotations and selected frames must match those of the panoramas.
        let own = measured(&film);
        let mut apart: Vec<f64> = Vec::new();
        let (mut error, mut error_of_panoramas) = (Vec::new(), Vec::new());
        for (k, (a, b)) in lines.iter().zip(&own).enumerate().skip(1) {
            if let (Some(a), Some(b)) = (a.rotation, b.rotation) {
                let [a, b] = [a, b].map(|turn| se3::so3_exp(turn.map(f64::to_radians)));
                let from = |a: &Mat3, b: &Mat3| walk::angle(&se3::mul(a, &se3::transpose(b)));
                let truth = se3::mul(&shots[k].pose.rotation, &se3::transpose(&shots[k - 1].pose.rotation));
                apart.push(from(&a, &b));
                error_of_panoramas.push(from(&a, &truth));
                error.push(from(&b, &truth));
            }
        }
        let [middle, error, error_of_panoramas] =
            [&mut apart, &mut error, &mut error_of_panoramas].map(|of| {
                of.sort_by(f64::total_cmp);
                of[of.len() / 2]
            });
        let worst = apart[apart.len() - 1];
        eprintln!(
            "{name}: turns are {middle:.3} degrees apart, {worst:.3} at most; off the truth by {error:.3}, those of \
             panoramas by {error_of_panoramas:.3}; {:?} {chosen:?}",
            picks(&film, &own)
        );
        // A pixel of either is 0.7 degrees.
        assert!(apart.len() >= 28 && middle < 0.15 && worst < 0.4, "{name}: {apart:?}");
        assert!(error < 1.5 * error_of_panoramas + 0.03, "{name}: {error} {error_of_panoramas}");
        let agree = picks(&film, &own).iter().zip(&chosen).all(|(a, b)| a.abs_diff(*b) <= 1);
        assert!(
            agree && picks(&film, &own).len() == chosen.len(),
            "{name}: {:?} {chosen:?}",
            picks(&film, &own)
        );
        // Its views match those of the panoramas, for any number of threads.
        let cut = views(&film, &out, 2);
        assert!(cut == views(&film, &out, 1), "{name}");
        let each = cut.iter().zip(&direct).map(|(a, b)| gausset_testkit::psnr(a, b));
        let least = each.fold(f64::INFINITY, f64::min);
        eprintln!("{name}: {least:.1} dB at least");
        assert!(least > 30.0, "{name}: {least}");
    }
    // An ordinary video with the aspect ratio of a cross.
    let tall = unfold(folder.path(), "scale=320:240", "tall.mp4");
    assert!(
        !open(&tall)
            .shows_cross(
                CubeLayout::Cross4x3,
                dispatch_level(SimdLevel::Auto).unwrap(),
                &AtomicBool::new(false)
            )
            .unwrap()
    );
}
