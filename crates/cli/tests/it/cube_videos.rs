//! Videos of cube maps, and videos converted to panoramas and cube maps, compared with the original panoramas.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use gausset_compute::Pool;
use gausset_core::RgbImage8;
use gausset_io::image::decode_file;
use gausset_io::image::encode::png_rgb8;
use gausset_scenes::room::{self, Room};
use gausset_testkit::psnr;

use crate::support::{ProcessResult, TestFolder, write_video};

/// Width of the panoramas, px; a face has a quarter of it.
const WIDTH: u32 = 384;
const FRAMES: usize = 10;

/// The room without details finer than a pixel, with a brown tripod straight below the camera.
fn frame(k: usize) -> RgbImage8 {
    let fine = Room::FOR_REGISTRATION.panorama(2 * WIDTH, &room::pose(k, 24), &Pool::new(2));
    let mut picture = RgbImage8::new(WIDTH, WIDTH / 2);
    let tripod = WIDTH as usize / 2 * 13 / 15;
    let row = 3 * WIDTH as usize;
    for (at, value) in picture.data.iter_mut().enumerate() {
        let (x, y, channel) = (at % row / 3, at / row, at % 3);
        let first = 2 * row * 2 * y + 6 * x + channel;
        let four = [first, first + 3, first + 2 * row, first + 2 * row + 3];
        let sum: u32 = four.iter().map(|&at| u32::from(fine.data[at])).sum();
        *value = if y < tripod { (sum / 4) as u8 } else { [90, 60, 30][channel] };
    }
    picture
}

/// A folder with a video of panoramas, `tour.mp4`; `None` if ffmpeg is not installed.
fn with_tour(test: &str) -> Option<TestFolder> {
    let workshop = TestFolder::empty();
    static FRAMES_OF_ALL: OnceLock<Vec<RgbImage8>> = OnceLock::new();
    let frames = FRAMES_OF_ALL.get_or_init(|| (0..FRAMES).map(frame).collect());
    write_video(test, &workshop.path("tour.mp4"), WIDTH as usize, frames).then_some(workshop)
}

fn ffmpeg(workshop: &TestFolder, arguments: &str) {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y"]).args(arguments.split(' ')).current_dir(workshop.path(""));
    assert!(command.stdin(Stdio::null()).status().expect("ffmpeg").success(), "{arguments}");
}

const CODE: &str = "-c:v libx264 -preset ultrafast -qp 0 -pix_fmt yuv420p";

fn values(file: &Path) -> Vec<f32> {
    let picture = decode_file(file).unwrap_or_else(|error| panic!("{error}"));
    picture.rgb.iter().map(|v| f32::from(*v) / 255.0).collect()
}

/// Whether two images are equal up to resampling and compressing twice.
fn assert_alike(workshop: &TestFolder, a: &str, b: &str) {
    let (a, b) = (workshop.path(a), workshop.path(b));
    let db = psnr(&values(&a), &values(&b));
    assert!(db > 30.0, "{} {}: {db:.1} dB", a.display(), b.display());
}

fn refusal(finished: &ProcessResult) -> &str {
    assert_eq!((finished.code, finished.stderr.trim_end().lines().count()), (2, 1), "{finished:?}");
    finished.stderr.trim_end().strip_prefix("gausset: ").expect("a line of ours")
}

#[test]
fn films_become_cubes_and_cubes_films_of_the_same_frames() {
    let Some(workshop) = with_tour("films_become_cubes_and_cubes_films_of_the_same_frames") else { return };
    let convert = |arguments: &str| {
        let all: Vec<&str> = ["pano", "convert"].into_iter().chain(arguments.split(' ')).collect();
        workshop.succeed(&all)
    };
    // Every frame as a cross; a deleted one is recreated with the same bytes.
    let crosses = "tour.mp4 crosses --to cross --format png --select all --json";
    let made = convert(crosses).json();
    let size = serde_json::json!([WIDTH, WIDTH / 4 * 3]);
    assert_eq!(
        (&made["frames"], &made["resumed"], &made["size"]),
        (&FRAMES.into(), &0.into(), &size),
        "{made}"
    );
    let lost = workshop.path("crosses/frame_000003.png");
    let bytes = std::fs::read(&lost).expect("a cross");
    std::fs::remove_file(&lost).expect("a cross");
    assert_eq!(convert(crosses).json()["resumed"], FRAMES - 1);
    assert!(std::fs::read(&lost).expect("a cross") == bytes);
    // A video of crosses is recognised, and its frames convert back to the panoramas.
    ffmpeg(&workshop, &format!("-framerate 5 -i crosses/frame_%06d.png {CODE} cross.mp4"));
    convert("cross.mp4 back --to equirect --select all");
    convert("tour.mp4 panoramas --to equirect --select all");
    for name in ["frame_000000.jpg", "frame_000009.jpg"] {
        assert_alike(&workshop, &format!("back/{name}"), &format!("panoramas/{name}"));
    }
    // The same frames are selected as by a split, and as from the panoramas.
    let kept = |input: &str| {
        let finished = workshop.succeed(&["pano", "frames", input, "--dry-run", "--json"]);
        (finished.json()["kept"].clone(), finished.json()["sphere"].clone())
    };
    let chosen = kept("tour.mp4");
    assert_eq!((&chosen, &chosen.1), (&kept("cross.mp4"), &true.into()));
    assert!(chosen.0.as_u64().is_some_and(|kept| (2..FRAMES as u64).contains(&kept)), "{chosen:?}");
    convert("cross.mp4 chosen --to strip --grid 3x2 --faces bfdulr --turns 012310");
    workshop.succeed(&[
        "pano",
        "split",
        "cross.mp4",
        "-o",
        "views",
        "--size",
        "96",
        "--layout",
        "cube6",
        "-q",
    ]);
    assert!(workshop.read("chosen/frames.jsonl") == workshop.read("views/frames.jsonl"));
    let last = chosen.0.as_u64().unwrap_or(0) - 1;
    assert!(workshop.path(&format!("chosen/frame_{last:06}.jpg")).is_file());
    assert!(workshop.path(&format!("views/images/view05/frame_{last:06}.jpg")).is_file());
    assert!(!workshop.path(&format!("chosen/frame_{:06}.jpg", last + 1)).exists());
    workshop
        .succeed(&["pano", "split", "tour.mp4", "-o", "direct", "--size", "96", "--layout", "cube6", "-q"]);
    for view in 0..6 {
        let name = format!("images/view{view:02}/frame_{last:06}.jpg");
        assert_alike(&workshop, &format!("views/{name}"), &format!("direct/{name}"));
    }
    // A single frame can be converted to an image; the contact sheet and the preview show panoramas.
    convert("cross.mp4 one.png --to equirect --start 1 --max-frames 1");
    workshop.succeed(&["pano", "preview", "cross.mp4", "-o", "p.png", "--start", "1"]);
    workshop.succeed(&["pano", "frames", "cross.mp4"]);
    let [preview, sheet] =
        ["p.png", "frames.png"].map(|name| decode_file(&workshop.path(name)).expect("PNG"));
    assert_eq!((preview.width, sheet.width), (1536, 1536));
    // A row of small panoramas of 252x126 px below the path of the camera.
    assert!((128 + 126..128 + 2 * 126).contains(&sheet.height), "{}", sheet.height);
}

#[test]
fn masks_of_a_film_of_cubes_have_its_pixels() {
    let Some(workshop) = with_tour("masks_of_a_film_of_cubes_have_its_pixels") else { return };
    // Two rows of three: right, left, up; down, front, back.
    ffmpeg(&workshop, &format!("-i tour.mp4 -vf v360=e:c3x2:w=288:h=192 {CODE} strip.mp4"));
    let side = 96usize;
    std::fs::create_dir(workshop.path("masks")).expect("a folder");
    let mut mask = RgbImage8 { width: 288, height: 192, data: vec![255; 3 * 288 * 192] };
    for (at, pixel) in mask.data.chunks_exact_mut(3).enumerate() {
        // The front: the middle of the second row.
        if (at % 288) / side == 1 && at / 288 >= side {
            pixel.fill(0);
        }
    }
    let png = png_rgb8(&mask).expect("PNG");
    for frame in 0..FRAMES {
        std::fs::write(workshop.path(&format!("masks/frame_{frame:06}.png")), &png).expect("a mask");
    }
    std::fs::write(workshop.path("mask.png"), &png).expect("a mask");
    let split = |output: &str, more: &[&str]| {
        let plain = ["pano", "split", "strip.mp4", "-o", output, "--from", "strip", "--fps", "1"];
        let size = ["--layout", "cube6", "--size", "64", "--format", "png", "-q"];
        workshop.succeed(&[&plain[..], &size, more].concat());
        [0, 1, 2].map(|view| workshop.path(&format!("{output}/masks/view{view:02}/frame_000001.png.png")))
    };
    // A view without masked pixels has no mask.
    let removed = |file: &Path| {
        let keep = decode_file(file).map(|mask| mask.rgb).unwrap_or_default();
        keep.chunks_exact(3).filter(|rgb| rgb[0] == 0).count()
    };
    let [front, right, back] = split("a", &["--masks", "masks"]);
    // Interpolation at the edge of the front face reaches half a pixel into the next face.
    assert!(removed(&front) == 64 * 64 && removed(&right) < 200 && removed(&back) == 0);
    // A mask command gets the frame as it is in the video. The commands of two frames run at once: each moves its copy
    // into place, since two `cp` to one new file may fail.
    if cfg!(unix) {
        let command = r#"sh -c "cp {frame} {mask}.seen && mv {mask}.seen seen.jpg && cp mask.png {mask}""#;
        let [made, ..] = split("b", &["--mask-command", command]);
        assert!(std::fs::read(&made).expect("a mask") == std::fs::read(&front).expect("a mask"));
        let seen = decode_file(&workshop.path("seen.jpg")).expect("a frame");
        assert_eq!((seen.width, seen.height), (288, 192));
    }
    // Static foreground is detected in downscaled frames and masked at full resolution: the centre of the lower face.
    let still =
        ["mask", "strip.mp4", "-o", "still", "--from", "strip", "--select", "all", "--still-patch", "-q"];
    workshop.succeed(&still);
    let keep = decode_file(&workshop.path("still/frame_000004.png")).expect("a mask");
    assert_eq!((keep.width, keep.height), (288, 192));
    let is_removed = |x: usize, y: usize| keep.rgb[3 * (y * 288 + x)] == 0;
    assert!(is_removed(48, side + 48) && !is_removed(side + 48, side + 48) && !is_removed(48, 48));
}

#[test]
fn films_that_may_be_several_things_are_asked_about_in_one_line() {
    let Some(workshop) = with_tour("films_that_may_be_several_things_are_asked_about_in_one_line") else {
        return;
    };
    ffmpeg(&workshop, &format!("-i tour.mp4 -frames:v 3 -vf v360=e:c3x2:w=192:h=128 {CODE} strip.mp4"));
    ffmpeg(&workshop, &format!("-i tour.mp4 -frames:v 3 -vf scale=128:96 {CODE} photo.mp4"));
    ffmpeg(&workshop, &format!("-i strip.mp4 -vf split[a][b];[a][b]vstack {CODE} eyes.mp4"));
    let refused = |arguments: &str, line: &str| {
        let all: Vec<&str> = arguments.split(' ').collect();
        let finished = workshop.run(&all);
        assert!(refusal(&finished).starts_with(line), "{finished:?}");
        assert!(!workshop.path("o").exists(), "{arguments}");
    };
    refused(
        "pano split strip.mp4 -o o",
        "strip.mp4: video: 192x128 px may be a strip of 3x2 faces, or a photograph (expected a panorama of 2:1); use --from strip if it is one",
    );
    refused(
        "pano split photo.mp4 -o o",
        "photo.mp4: video: 128x96 px may be a cross, but its corners are not of one colour",
    );
    refused("pano split photo.mp4 -o o --from strip", "photo.mp4: video: 128x96 px is not a strip");
    refused(
        "pano split strip.mp4 -o o --from faces",
        "--from faces: applies to folders with six images per frame",
    );
    refused("pano split tour.mp4 -o o --from-turns 000000", "--from-faces, --from-turns: have no effect");
    refused("pano frames strip.mp4 --from strip --kind ordinary", "--from, --from-faces, --from-turns: need");
    refused(
        "pano convert tour.mp4 o.jpg --to equirect --select all",
        "o.jpg: is a single image, but there are",
    );
    refused("pano convert tour.mp4 o --to equirect --every 2", "--every: applies to folders of images");
    refused(
        "pano convert tour.mp4 o --to equirect --select all --size 8192 --max-memory 64MiB",
        "tour.mp4: memory: converting it takes 97.3 MiB (expected at most 40.0 MiB); raise --max-memory, or take --size 5232",
    );
    // An ordinary video stays ordinary unless --kind says otherwise; of a top-bottom video, the upper eye is a strip.
    let sphere = |arguments: &[&str]| {
        let all = [&["pano", "frames", "--dry-run", "--json"], arguments].concat();
        let header = workshop.succeed(&all).json();
        (header["sphere"].as_bool().expect("whether"), header["cube"].as_str().map(str::to_owned))
    };
    assert_eq!(sphere(&["strip.mp4"]), (false, None));
    assert_eq!(sphere(&["photo.mp4"]), (false, None));
    let strip = Some("3x2 rludfb 000000".to_owned());
    assert_eq!(sphere(&["strip.mp4", "--from", "strip"]), (true, strip.clone()));
    assert_eq!(sphere(&["eyes.mp4", "--from", "strip", "--stereo", "tb"]), (true, strip));
}
