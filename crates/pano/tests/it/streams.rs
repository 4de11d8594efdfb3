//! GoPro MAX streams rendered from a known room and read through ffmpeg.
#![allow(clippy::print_stderr, reason = "tests say why they skip something")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::{RgbImage8, se3};
use gausset_io::image::encode::png_rgb8;
use gausset_pano::cutter::Format;
use gausset_pano::eac::Eac;
use gausset_pano::frames::video_frames;
use gausset_pano::layout::Layout;
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::split::{OnError, SplitSettings, WorkerSettings, split};
use gausset_pano::video::FrameSelection;
use gausset_scenes::room::{self, Room};

/// Direction of a point on a face; `s` to the right and `t` down, both 0 to 1.
fn direction(stream: usize, face: usize, s: f64, t: f64) -> [f64; 3] {
    // Equi-angular: the tangent of the angle across the face.
    let tangent = |v: f64| ((2.0 * v - 1.0) * std::f64::consts::FRAC_PI_4).tan();
    // Stream A is upright: (s, t) = (U, 1 - V); stream B is rotated: (s, t) = (V, U). Up is -y.
    let (u, v) = if stream == 0 { (s, 1.0 - t) } else { (t, s) };
    let (a, b) = (tangent(u), tangent(v));
    match (stream, face) {
        (0, 0) => [-1.0, -b, a],
        (0, 1) => [a, -b, 1.0],
        (0, _) => [1.0, -b, -a],
        (_, 0) => [-a, 1.0, -b],
        (_, 1) => [-a, -b, -1.0],
        (_, _) => [-a, -1.0, b],
    }
}

/// The image of a stream of the room; the side faces hold a strip in their middle twice.
fn stream(eac: &Eac, index: usize, pose: &gausset_core::Pose) -> RgbImage8 {
    let [width, height] = eac.stream_size();
    let mut picture = RgbImage8::new(width, height);
    for (i, pixel) in picture.data.chunks_exact_mut(3).enumerate() {
        let (x, y) = ((i as u32 % width) as f64 + 0.5, (i as u32 / width) as f64 + 0.5);
        let (side, centre) = (f64::from(eac.side), f64::from(eac.centre));
        let (face, q) = if x < side {
            (0, x / side)
        } else if x < side + centre {
            (1, (x - side) / centre)
        } else {
            (2, (x - side - centre) / side)
        };
        let strip = if face == 1 { 0.0 } else { 2.0 * f64::from(eac.overlap) / side };
        let s = (if q < 0.5 { q } else { q - strip }) / (1.0 - strip);
        let ray = direction(index, face, s, y / f64::from(height));
        let colour = Room::SMOOTH.colour(pose.centre(), se3::transpose_mul_vec(&pose.rotation, ray));
        for (out, value) in pixel.iter_mut().zip(colour) {
            *out = (255.0 * value + 0.5) as u8;
        }
    }
    picture
}

fn ffmpeg(arguments: &[&str], folder: &Path) {
    let status =
        Command::new("ffmpeg").args(arguments).current_dir(folder).stdin(Stdio::null()).status().unwrap();
    assert!(status.success());
}

#[test]
fn views_of_two_stream_files_are_the_room_rendered_directly() {
    if gausset_process::find_program("ffmpeg").is_none() {
        let test = "views_of_two_stream_files_are_the_room_rendered_directly";
        return gausset_testkit::skip_for_tool(test, "ffmpeg is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let (eac, pose) = (Eac::from_stream_size(2272, 736).unwrap(), room::pose(1, 8));
    for index in 0..2 {
        let bytes = png_rgb8(&stream(&eac, index, &pose)).unwrap();
        std::fs::write(folder.path().join(format!("{index}.png")), bytes).unwrap();
    }
    let input = ["-v", "error", "-framerate", "2", "-loop", "1", "-t", "1", "-i"];
    let both = [&input[..], &["0.png"], &input[2..], &["1.png", "-map", "0:v", "-map", "1:v"]].concat();
    let code = ["-c:v", "ffv1", "-pix_fmt", "yuv420p", "-colorspace", "bt709", "-color_range", "tv"];
    // A mov file stores the matrix only together with these.
    let tags = ["-color_primaries", "bt709", "-color_trc", "bt709", "-f", "mov", "max.360"];
    // The filter converts as specified; ffmpeg alone would keep the BT.601 matrix.
    let filter = ["-vf", "scale=out_color_matrix=bt709:out_range=tv"];
    ffmpeg(&[&both[..], &filter, &code, &tags].concat(), folder.path());
    let choice = FrameSelection::default();
    let (path, never) = (folder.path().join("max.360"), AtomicBool::new(false));
    let film =
        SphereVideo::open(&path, choice, false, [16_384, 8192], Duration::from_secs(60), &never).unwrap();
    assert_eq!(film.eac, Some(eac));
    let mut views = Layout::Ring8.views(256, 256, None);
    views.extend(Layout::Cube6.views(256, 256, None).into_iter().skip(4));
    for (index, view) in views.iter_mut().enumerate() {
        view.name = format!("view{index:02}");
    }
    let settings =
        SplitSettings { video: Some(film.clone()), ..SplitSettings::new(views.clone(), Format::Png) };
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let work =
        WorkerSettings { threads: 2, level, on_error: OnError::Skip, force: false, memory_budget: 256 << 20 };
    let out = folder.path().join("out");
    let report = split(&video_frames(&film.video), &settings, &work, &out, &never, &mut |_| {}).unwrap();
    assert_eq!((report.frames, report.skipped.len()), (2, 0));
    for view in &views {
        let cut = gausset_io::image::decode_file(&out.join(format!("images/{}/frame_000001.png", view.name)))
            .unwrap();
        let direct = Room::SMOOTH.picture([256; 2], &pose, &Pool::new(1), &|x, y| view.ray_in_panorama(x, y));
        let sum: f64 =
            cut.rgb.iter().zip(&direct.data).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        let psnr = 10.0 * (255.0 * 255.0 * cut.rgb.len() as f64 / sum).log10();
        // Limited range, two colour conversions and chroma at half size; a rotated or swapped face is below 15 dB.
        assert!(psnr > 38.0, "{}: {psnr:.1} dB", view.name);
    }
}
