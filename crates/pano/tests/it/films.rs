//! Frame selection and refused inputs of videos, with the installed ffmpeg.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_pano::plane::Frame;
use gausset_pano::video::{FrameSelection, Video, VideoError, extract};
use gausset_testkit::skip::skip_for_tool;

const WIDTH: usize = 64;
const HEIGHT: usize = 32;
/// Rows in which a frame encodes its number: two base-16 digits, in the left and the right half.
const CODE_ROWS: usize = 4;

fn has_ffmpeg(test: &str) -> bool {
    let is_there = gausset_process::find_program("ffmpeg").is_some();
    if !is_there {
        skip_for_tool(test, "ffmpeg is not installed");
    }
    is_there
}

/// A video in which every frame encodes its number; `is_sharp` determines which frames are sharp below the code.
fn film(folder: &Path, name: &str, rate: &str, count: usize, is_sharp: impl Fn(usize) -> bool) -> PathBuf {
    let mut raw = Vec::new();
    for k in 0..count {
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let digit = if x < WIDTH / 2 { k / 16 } else { k % 16 };
                let checker = if (x / 4 + y / 4).is_multiple_of(2) { 40 } else { 200 };
                raw.push(match y {
                    0..CODE_ROWS => 20 + 12 * digit as u8,
                    _ if is_sharp(k) => checker,
                    _ => 120,
                });
            }
        }
    }
    let (source, path) = (folder.join("raw"), folder.join(name));
    std::fs::write(&source, raw).unwrap();
    let size = format!("{WIDTH}x{HEIGHT}");
    let input = ["-v", "error", "-f", "rawvideo", "-pix_fmt", "gray", "-s", &size, "-r", rate, "-i"];
    let status = Command::new("ffmpeg")
        .args(input)
        .arg(source)
        .args(["-c:v", "ffv1", "-pix_fmt", "yuv420p"])
        .arg(&path)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    path
}

fn open(path: &Path, choice: FrameSelection) -> Result<Video, VideoError> {
    Video::open(path, choice, [16_384, 8192], Duration::from_secs(60), &AtomicBool::new(false))
}

fn number(left: u8, right: u8) -> usize {
    let digit = |v: u8| ((f64::from(v) - 20.0) / 12.0).round() as usize;
    16 * digit(left) + digit(right)
}

/// Indices of the selected frames.
fn taken(video: &Video) -> Vec<usize> {
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let never = AtomicBool::new(false);
    let mut reader = video.start(&never).unwrap();
    let mut frame = Frame::default();
    let all = [[-1, i32::MAX / 2]; 3];
    let mut numbers = Vec::new();
    for index in 0..video.frames {
        if !reader.read_frame(video, index, &all, level, &mut frame).unwrap() {
            break;
        }
        let row = frame.planes[0].row(1);
        numbers.push(number(row[8], row[WIDTH - 8]));
    }
    numbers
}

#[test]
fn at_most_so_many_frames_are_spread_over_the_film() {
    if !has_ffmpeg("at_most_so_many_frames_are_spread_over_the_film") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = film(folder.path(), "a.mkv", "10", 100, |_| false);
    let video = open(&path, FrameSelection::default()).unwrap();
    assert_eq!(taken(&video), (0..100).collect::<Vec<_>>());
    assert_eq!(taken(&video.clone().limited_to(5)), [0, 20, 40, 60, 80]);
    assert_eq!(taken(&video.clone().limited_to(3)), [0, 33, 66]);
    assert_eq!(taken(&video.limited_to(1000)).len(), 100);
    // Two a second over ten seconds, limited to four; then part of the video.
    let choice = FrameSelection { fps: Some(2.0), sharpest_of: 0, ..FrameSelection::default() };
    let video = open(&path, choice.clone()).unwrap();
    assert_eq!(taken(&video.clone().limited_to(4)), [0, 25, 50, 75]);
    let part = open(&path, FrameSelection { start: 2.0, end: Some(6.0), ..choice }).unwrap();
    assert_eq!(taken(&part.limited_to(2)), [20, 40]);
    // As `gausset run VIDEO` extracts them.
    let out = tempfile::tempdir().unwrap();
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let count = extract(&video, out.path(), 4, level, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let numbers: Vec<usize> = (0..count)
        .map(|k| {
            let picture =
                gausset_io::image::decode_file(&out.path().join(format!("frame_{k:06}.jpg"))).unwrap();
            let at = |x: usize| picture.rgb[3 * (WIDTH + x)];
            number(at(8), at(WIDTH - 8))
        })
        .collect();
    assert_eq!(numbers, [0, 25, 50, 75]);
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 4);
}

/// A film of one colour in every quarter, as SDR and, with the same look, as HDR with this transfer curve.
fn coloured_film(folder: &Path, transfer: Option<&str>) -> Option<PathBuf> {
    let quarters = "color=c=0xB08060:s=64x32:r=5:d=1[a];color=c=0x4070C0:s=64x32:r=5:d=1[b];[a][b]vstack";
    let to_hdr = |transfer: &str| {
        format!(
            ",format=gbrp,setparams=range=pc:color_primaries=bt709:color_trc=bt709,zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt2020,zscale=t={transfer}:m=bt2020nc:r=limited:npl=203,format=yuv420p10le"
        )
    };
    let path = folder.join(format!("{}.mkv", transfer.unwrap_or("sdr")));
    let filters = transfer.map_or_else(|| ",format=yuv420p".to_owned(), to_hdr);
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg
        .args(["-v", "error", "-filter_complex"])
        .arg(format!("{quarters}{filters}"))
        .args(["-c:v", "ffv1"]);
    if let Some(transfer) = transfer {
        ffmpeg.args(["-color_trc", transfer, "-color_primaries", "bt2020", "-colorspace", "bt2020nc"]);
    }
    let is_made = ffmpeg.arg(&path).stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap().success();
    is_made.then_some(path)
}

#[test]
fn hdr_films_look_as_the_same_film_in_sdr_in_full_and_in_small_frames() {
    const TEST: &str = "hdr_films_look_as_the_same_film_in_sdr_in_full_and_in_small_frames";
    if !has_ffmpeg(TEST) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let never = AtomicBool::new(false);
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let look = |path: &Path| {
        let video = open(path, FrameSelection::default()).unwrap();
        assert_eq!(video.colour_warning(), None);
        let mut frame = Frame::default();
        let mut reader = video.start(&never).unwrap();
        assert!(reader.read_frame(&video, 0, &[[-1, i32::MAX / 2]; 3], level, &mut frame).unwrap());
        let at = |y: i32| [0, 1, 2].map(|k| frame.planes[k].row(if k == 0 { y } else { y / 2 })[10]);
        let mut small = Vec::new();
        assert!(
            video.start_reduced([32, 32], false, &never).unwrap().read_image(&video, &mut small).unwrap()
        );
        let rgb = |y: usize| std::array::from_fn(|k| small[3 * (32 * y + 10) + k]);
        [at(8), at(50), rgb(6), rgb(25)]
    };
    let expected = look(&coloured_film(folder.path(), None).unwrap());
    assert!(expected[2].iter().zip([0xB0u8, 0x80, 0x60]).all(|(a, b)| a.abs_diff(b) <= 3), "{expected:?}");
    for transfer in ["arib-std-b67", "smpte2084"] {
        let Some(film) = coloured_film(folder.path(), Some(transfer)) else {
            skip_for_tool(TEST, "ffmpeg has no zscale");
            return;
        };
        let found = look(&film);
        let apart = found.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| a.abs_diff(*b));
        // Roundings of 8 and 10 bits, and the start of the curve for highlights.
        assert!(apart.max().unwrap() <= 5, "{transfer}: {found:?} {expected:?}");
    }
}

#[test]
fn a_rate_that_does_not_divide_that_of_the_film_is_kept_on_average() {
    if !has_ffmpeg("a_rate_that_does_not_divide_that_of_the_film_is_kept_on_average") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Ten seconds at 24 fps; one frame per period of 9.6 frames.
    let path = film(folder.path(), "a.mkv", "24", 240, |_| false);
    let choice = FrameSelection { fps: Some(2.5), sharpest_of: 0, ..FrameSelection::default() };
    let expected: Vec<usize> = (0..25usize).map(|k| (48 * k).div_ceil(5)).collect();
    assert_eq!(taken(&open(&path, choice).unwrap()), expected);
    // Without a selection of the sharpest, ffmpeg returns the nearest frames, as many.
    let nearest =
        taken(&open(&path, FrameSelection { fps: Some(2.5), ..FrameSelection::default() }).unwrap());
    assert_eq!(nearest.len(), 25);
    assert!(nearest.iter().enumerate().all(|(k, &n)| (n as f64 - 9.6 * k as f64).abs() <= 9.6 / 2.0 + 1.0));
    // A video at 23.976 fps.
    let path = film(folder.path(), "b.mkv", "24000/1001", 240, |_| false);
    let choice = FrameSelection { fps: Some(4.0), sharpest_of: 0, ..FrameSelection::default() };
    let expected: Vec<usize> =
        (0..).map(|k| (k as f64 * 24_000.0 / 4004.0).ceil() as usize).take_while(|&n| n < 240).collect();
    assert_eq!(taken(&open(&path, choice).unwrap()), expected);
}

#[test]
fn frames_are_picked_by_their_number_whatever_their_time_stamps_say() {
    if !has_ffmpeg("frames_are_picked_by_their_number_whatever_their_time_stamps_say") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let even = film(folder.path(), "a.mkv", "10", 60, |_| false);
    // The first twenty frames are at intervals of 0.1 s, the others of 0.25 s: 20 more frames and two seconds.
    let uneven = folder.path().join("b.mkv");
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(&even)
        .args(["-vf", "settb=1/1000,setpts='if(lt(N,20),N*100,2000+(N-20)*250)'", "-vsync", "vfr"])
        .args(["-c:v", "ffv1", "-enc_time_base", "1/1000"])
        .arg(&uneven)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let never = AtomicBool::new(false);
    let time = |k: usize| if k < 20 { 0.1 * k as f64 } else { 2.0 + 0.25 * (k - 20) as f64 };
    let video = open(&uneven, FrameSelection::default()).unwrap();
    let times = video.frame_times(&never).unwrap();
    assert_eq!((times.timed_frames(), &times.warning), (60, &None));
    assert!((0..60).all(|k| (times.seconds(k) - time(k)).abs() < 1e-3), "{times:?}");
    assert_eq!(taken(&video.clone().with_selected(&[0, 19, 21, 22, 58, 59])), [0, 19, 21, 22, 58, 59]);
    // From 1.5 s up to 4 s: frames 15 to 27.
    let part =
        open(&uneven, FrameSelection { start: 1.5, end: Some(4.0), ..FrameSelection::default() }).unwrap();
    let times = part.frame_times(&never).unwrap();
    assert_eq!(times.timed_frames(), 13);
    assert!((0..13).all(|k| (times.seconds(k) - time(15 + k)).abs() < 1e-3), "{times:?}");
    assert_eq!(taken(&part.clone().with_selected(&[0, 5, 12])), [15, 20, 27]);
    let mut reader = part.start_reduced([WIDTH as u32, HEIGHT as u32], true, &never).unwrap();
    let mut picture = Vec::new();
    let mut numbers = Vec::new();
    while reader.read_image(&part, &mut picture).unwrap() {
        numbers.push(number(picture[WIDTH + 8], picture[2 * WIDTH - 8]));
    }
    assert_eq!(numbers, (15..28).collect::<Vec<_>>());
    let one = open(&film(folder.path(), "c.mkv", "10", 1, |_| true), FrameSelection::default()).unwrap();
    assert_eq!(
        (one.frame_times(&never).unwrap().timed_frames(), taken(&one.with_selected(&[0]))),
        (1, vec![0])
    );
}

#[test]
fn the_sharpest_of_neighbours_is_taken() {
    if !has_ffmpeg("the_sharpest_of_neighbours_is_taken") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = film(folder.path(), "a.mkv", "10", 40, |k| k % 5 == 3);
    let choice = FrameSelection { sharpest_of: 5, ..FrameSelection::default() };
    assert_eq!(taken(&open(&path, choice).unwrap()), [3, 8, 13, 18, 23, 28, 33, 38]);
    // The sharpest of each half second.
    let choice = FrameSelection { sharpest_of: 0, fps: Some(2.0), ..FrameSelection::default() };
    assert_eq!(taken(&open(&path, choice).unwrap()), [3, 8, 13, 18, 23, 28, 33, 38]);
}

#[test]
fn a_playlist_opens_no_other_file_whatever_it_is_called() {
    if !has_ffmpeg("a_playlist_opens_no_other_file_whatever_it_is_called") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let secret = film(folder.path(), "secret.mkv", "10", 10, |_| false);
    let text = |name: &str| match name {
        "ffconcat" => "ffconcat version 1.0\nfile secret.mkv\n".to_owned(),
        _ => format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n", secret.display()),
    };
    let probe = |path: &Path| {
        let list = ["-v", "error", "-protocol_whitelist", "file,pipe", "-show_entries", "stream=width"];
        let output = Command::new("ffprobe").args(list).arg(path).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("width=64")
    };
    // Without the check, ffmpeg would follow the content, whatever the name.
    let playlist = folder.path().join("clip.mp4");
    std::fs::write(&playlist, text("ffconcat")).unwrap();
    assert!(probe(&playlist), "ffprobe follows a list of files that is called clip.mp4");
    for kind in ["ffconcat", "m3u8"] {
        for extension in ["mp4", "mov", "360", "mkv", "webm", "avi", "ts", "m2ts", "lrv", "mpg", "wmv", "flv"]
        {
            let playlist = folder.path().join(format!("clip.{extension}"));
            std::fs::write(&playlist, text(kind)).unwrap();
            let refusal = open(&playlist, FrameSelection::default()).unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("{}: video: ", playlist.display())), "{refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
    }
    for name in ["list.m3u8", "list.ffconcat", "list.txt", "list.sdp", "list"] {
        let playlist = folder.path().join(name);
        std::fs::write(&playlist, text("ffconcat")).unwrap();
        let refusal = open(&playlist, FrameSelection::default()).unwrap_err().to_string();
        assert!(refusal.contains("has an unsupported type (expected .mp4, .mov"), "{refusal}");
        assert!(refusal.ends_with("`ffmpeg -i IN -c copy OUT.mp4` converts it"), "{refusal}");
    }
}

#[test]
fn videos_of_phones_and_of_older_programs_are_read() {
    if !has_ffmpeg("videos_of_phones_and_of_older_programs_are_read") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = film(folder.path(), "a.mkv", "10", 5, |_| false);
    let encoders =
        [("3gp", "mpeg4"), ("lrv", "mpeg4"), ("mpg", "mpeg2video"), ("wmv", "wmv2"), ("flv", "flv")];
    for (extension, encoder) in encoders {
        let path = folder.path().join(format!("clip.{extension}"));
        let format = if extension == "lrv" { &["-f", "mp4"][..] } else { &[] };
        let made = Command::new("ffmpeg")
            .args(["-v", "error", "-i"])
            .arg(&source)
            .args(["-r", "25", "-c:v", encoder])
            .args(format)
            .arg(&path)
            .status()
            .unwrap();
        if !made.success() {
            continue;
        }
        let video = open(&path, FrameSelection::default()).unwrap();
        assert!(video.size == [64, 32] && !taken(&video).is_empty(), "{extension}");
    }
}

#[test]
fn names_that_look_like_options_or_protocols_are_names() {
    if !has_ffmpeg("names_that_look_like_options_or_protocols_are_names") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let film = film(folder.path(), "a.mkv", "10", 3, |_| false);
    for name in ["-i.mkv", "concat:a.mkv", "http:x.mkv", "a b%03d.mkv", "pipe:0.mkv"] {
        let path = folder.path().join(name);
        std::fs::copy(&film, &path).unwrap();
        assert_eq!(taken(&open(&path, FrameSelection::default()).unwrap()), [0, 1, 2], "{name}");
    }
    // Larger than the limits.
    let refusal = Video::open(
        &film,
        FrameSelection::default(),
        [32, 32],
        Duration::from_secs(60),
        &AtomicBool::new(false),
    )
    .unwrap_err()
    .to_string();
    assert!(refusal.contains("64x32 px are too many (expected at most 32x32)"), "{refusal}");
}

#[cfg(unix)]
#[test]
fn a_pipe_instead_of_a_film_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let refusal = open(&path, FrameSelection::default()).unwrap_err().to_string();
    assert!(refusal.ends_with("video: is a pipe (expected a regular file)"), "{refusal}");
}
