//! Self-contained pages in a real browser, loaded from disk: a scene as one file, and the report of a run.

use std::path::Path;

use serde_json::{Value, json};

use crate::devtools::{Browser, LOW_CONTRAST, SMALL_TARGETS, chromium};
use crate::support::TestFolder;

fn browser(test: &str) -> Option<Browser> {
    let Some(program) = chromium() else {
        gausset_testkit::skip::skip_for_tool(test, "no Chromium (apt-get install chromium)");
        return None;
    };
    Some(Browser::start(&program))
}

fn open(browser: &mut Browser, file: &Path) {
    browser.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
    browser.wait_until("document.documentElement?.dataset.ready === 'true'");
}

/// Checks that the page requested nothing except itself and embedded data, and reported no errors.
fn assert_alone(browser: &mut Browser) {
    let own = browser.value("location.href");
    for url in browser.requests() {
        let is_own = own == *url || ["blob:", "data:", "about:"].iter().any(|kind| url.starts_with(kind));
        assert!(is_own, "{url}");
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    browser.told.clear();
}

/// Width, height and RGB of a PNG.
pub(crate) fn pixels(png: &[u8]) -> ([u32; 2], Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().expect("a PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut bytes).expect("pixels");
    let channels = info.color_type.samples();
    let rgb = bytes[..info.buffer_size()].chunks_exact(channels).flat_map(|pixel| pixel[..3].to_vec());
    ([info.width, info.height], rgb.collect())
}

/// Decodes base64, as browsers return images.
pub(crate) fn from_base64(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0, 0u32);
    for digit in text.bytes().filter(|digit| *digit != b'=') {
        held = (held << 6 | u32::from(value(digit))) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}

pub(crate) fn psnr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let sum: f64 = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * a.len() as f64 / sum.max(1e-9)).log10()
}

/// A camera path with one view next to the origin, and the same view for pages: 512x512 px, 50 degrees.
pub(crate) fn view_of(camera_to_world: [[f64; 4]; 3]) -> (Value, Value) {
    let rows: Vec<f64> = camera_to_world.iter().flatten().copied().chain([0.0, 0.0, 0.0, 1.0]).collect();
    let path = json!({"camera_path": [{"camera_to_world": rows, "fov": 50.0}], "camera_type": "perspective",
        "render_width": 512, "render_height": 512});
    // OpenGL axes look along -z with y up; rows of camera_from_world look along z with y down.
    let axis = |k: usize, sign: f64| [0, 1, 2].map(|i| sign * camera_to_world[i][k]);
    let place = [0, 1, 2].map(|i| camera_to_world[i][3]);
    let pose: Vec<f64> = [axis(0, 1.0), axis(1, -1.0), axis(2, -1.0)]
        .iter()
        .flat_map(|row| {
            let shift: f64 = row.iter().zip(place).map(|(r, p)| r * p).sum();
            [row[0], row[1], row[2], -shift]
        })
        .collect();
    let focal = 256.0 / 25f64.to_radians().tan();
    (path, json!({"camera": [512, 512, focal, focal, 256, 256], "pose": pose}))
}

/// Splats of many shapes on a curved surface, with SH of degree 3.
pub(crate) fn sheet() -> String {
    let count = 3000;
    let mut text = format!("ply\nformat ascii 1.0\nelement vertex {count}\n");
    let names = "x y z f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    let rest = (0..45).map(|k| format!("f_rest_{k}"));
    for name in names.split(' ').map(str::to_owned).chain(rest) {
        text += &format!("property float {name}\n");
    }
    text += "end_header\n";
    for i in 0..count {
        let t = |k: f64| (f64::from(i) * k).sin();
        let values = [
            vec![1.2 * t(0.71), 1.2 * t(1.13), 0.6 * t(2.9)],
            vec![1.4 * t(0.013), t(0.031), 1.2 * t(0.047), 3.0 * t(0.37) + 1.0],
            vec![-3.4 + t(0.91), -3.2 + t(0.53), -3.8 + 1.5 * t(1.7)],
            vec![t(0.3), t(0.5), t(0.7), t(1.1)],
        ];
        let rest = (0..45).map(|k| 0.12 * t(0.1 + 0.07 * f64::from(k)));
        let row: Vec<String> =
            values.concat().into_iter().chain(rest).map(|value| format!("{value:.6}")).collect();
        text += &(row.join(" ") + "\n");
    }
    text
}

#[test]
fn a_page_from_disk_draws_what_render_draws() {
    let Some(mut browser) = browser("a_page_from_disk_draws_what_render_draws") else { return };
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("scene.ply"), sheet()).expect("write");
    workshop.succeed(&["convert", "scene.ply", "<img src=x onerror=alert(1)>.html"]);
    let page = workshop.path("<img src=x onerror=alert(1)>.html");
    open(&mut browser, &page);
    assert_eq!(browser.value("document.title"), "<img src=x onerror=alert(1)>");
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    let turned = (0.6f64.cos(), 0.6f64.sin());
    let views = [
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 3.2]],
        [
            [turned.0, 0.0, turned.1, 2.0 * turned.1],
            [0.0, 1.0, 0.0, 0.3],
            [-turned.1, 0.0, turned.0, 2.0 * turned.0],
        ],
    ];
    for view in views {
        let (path, view) = view_of(view);
        std::fs::write(workshop.path("path.json"), path.to_string()).expect("write");
        workshop.succeed(&["render", "scene.ply", "--path", "path.json", "-o", "frames", "--force", "-q"]);
        let (size, truth) = pixels(&workshop.read("frames/frame_0000.png"));
        let drawn = browser.value(&format!("gausset.picture({view})"));
        let drawn = drawn.as_str().and_then(|url| url.strip_prefix("data:image/png;base64,"));
        let (drawn_size, drawn) = pixels(&from_base64(drawn.expect("a picture")));
        assert_eq!((size, drawn_size), ([512, 512], [512, 512]));
        assert!(truth.iter().filter(|value| **value > 40).count() > truth.len() / 8, "there is something");
        // 8 bits for SH and opacity, 10 or 11 for positions: most of the loss is that of the compressed PLY.
        let equal = psnr(&truth, &drawn);
        println!("page against render: {equal:.2} dB");
        assert!(equal > 40.0, "{equal:.2} dB");
    }
    // Mouse and keys move the camera; the page reports when it is idle.
    let resting = "document.documentElement.dataset.resting === 'true'";
    browser.wait_until(resting);
    let place = "JSON.stringify(gausset.view().pose)";
    let at_rest = |browser: &mut Browser| {
        browser.wait_until(resting);
        browser.value(place)
    };
    let mut before = browser.value(place);
    browser.mouse("mousePressed", [400.0, 300.0], json!({"button": "left", "buttons": 1, "clickCount": 1}));
    browser.mouse("mouseMoved", [470.0, 330.0], json!({"button": "left", "buttons": 1}));
    browser.mouse("mouseReleased", [470.0, 330.0], json!({"button": "left", "clickCount": 1}));
    browser.wait_until(&format!("{place} !== {before}"));
    before = at_rest(&mut browser);
    browser.mouse("mouseWheel", [400.0, 300.0], json!({"deltaX": 0, "deltaY": -200}));
    browser.wait_until(&format!("{place} !== {before}"));
    at_rest(&mut browser);
    // However far the wheel turns, the camera stays within 20 radii of the scene.
    let away = "(() => { const { centre, radius } = JSON.parse(document.getElementById('scene').textContent), p = gausset.view().pose; \
                return Math.hypot(...[0, 1, 2].map((k) => -(p[k] * p[3] + p[4 + k] * p[7] + p[8 + k] * p[11]) - centre[k])) / radius; })()";
    for _ in 0..20 {
        browser.value("document.getElementById('view').dispatchEvent(new WheelEvent('wheel', { deltaY: 500, clientX: 500, clientY: 300, cancelable: true }))");
        at_rest(&mut browser);
    }
    let away = browser.value(away).as_f64().expect("a number");
    assert!((10.0..=20.01).contains(&away), "{away} radii");
    before = at_rest(&mut browser);
    for (code, key) in [("KeyW", "w"), ("KeyA", "a"), ("KeyQ", "q"), ("Period", "."), ("Home", "Home")] {
        browser.key("keyDown", code, key);
        browser.wait_until(&format!("{place} !== {before}"));
        browser.key("keyUp", code, key);
        before = at_rest(&mut browser);
    }
    let nameless = browser.value(
        "[...document.querySelectorAll('button, select, canvas')].filter(e => !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML).join()",
    );
    assert_eq!(nameless, "");
    for (size, is_phone) in [([1440, 900], false), ([390, 844], true)] {
        for scheme in ["light", "dark"] {
            browser.look(size, is_phone, scheme);
            assert_eq!(browser.value(LOW_CONTRAST), "", "{size:?} {scheme}");
        }
    }
    assert_eq!(browser.value(SMALL_TARGETS), "");
    assert_eq!(browser.value("document.querySelector('header').offsetHeight <= 56"), true, "one row");
    let narrow = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
    browser.call("Emulation.setDeviceMetricsOverride", narrow);
    browser.wait_until(resting);
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 360"), true);
    assert_alone(&mut browser);
}

#[test]
fn a_page_of_a_run_begins_at_its_cameras_and_says_what_it_needs() {
    let Some(mut browser) = browser("a_page_of_a_run_begins_at_its_cameras") else { return };
    let workshop = TestFolder::trained();
    let converted = workshop.succeed(&["convert", "run", "scene.html", "--json"]).json();
    assert_eq!(converted["output"]["format"], "html");
    workshop.succeed(&["convert", "run", "scene.compressed.ply", "-q"]);
    let page = workshop.read("scene.html");
    workshop.succeed(&["convert", "run", "scene.html", "--force", "-q"]);
    assert!(workshop.read("scene.html") == page, "the same bytes");
    let page = page.len();
    assert!(page < workshop.read("scene.compressed.ply").len() + (60 << 10), "{page}");
    // It is a splat file like any other.
    assert_eq!(workshop.succeed(&["info", "scene.html", "--json"]).json()["format"], "html");
    let path = workshop.path("scene.html");
    open(&mut browser, &path);
    assert_eq!(browser.value("document.title"), "scene");
    assert_eq!(browser.value("document.getElementById('camera').options.length > 2"), true);
    let camera = "document.getElementById('camera').value";
    assert_eq!(browser.value(camera), "0");
    // Home is this first view; from a free view, the camera before the first is the last.
    let last = "String(document.getElementById('camera').options.length - 2)";
    for (code, key, at) in [("KeyW", "w", "'-1'"), ("BracketLeft", "[", last), ("Home", "Home", "'0'")] {
        browser.key("keyDown", code, key);
        browser.wait_until(&format!("{camera} === {at}"));
        browser.key("keyUp", code, key);
    }
    assert_alone(&mut browser);
    // Without WebGL 2 the page shows a message, and the splats can still be downloaded.
    let none = "HTMLCanvasElement.prototype.getContext = () => null";
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": none}));
    browser.call("Page.reload", json!({}));
    browser.wait_until("document.documentElement?.dataset.ready === 'failed'");
    let said = browser.value("document.getElementById('notice-text').textContent");
    assert!(said.as_str().is_some_and(|said| said.contains("WebGL 2") && said.contains("Save as")), "{said}");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn a_training_ends_with_a_report_that_opens_from_disk() {
    let workshop = TestFolder::trained();
    let first = workshop.read("run/report.html");
    // Writing it again gives the same page.
    let written = workshop.succeed(&["report", "run", "--json"]).json();
    assert_eq!((&written["kind"], &written["bytes"]), (&json!("report"), &json!(first.len())));
    assert!(workshop.read("run/report.html") == first, "the same bytes");
    workshop.succeed(&["report", "run", "-o", "with.html", "--splats"]);
    // A file that is not a report of Gausset is kept.
    std::fs::write(workshop.path("mine.html"), "<!doctype html>\nmine").expect("write");
    assert_eq!(workshop.run(&["report", "run", "-o", "mine.html"]).code, 2);
    assert_eq!(workshop.read("mine.html"), b"<!doctype html>\nmine");
    // Nor is a page of Gausset replaced that holds splats.
    workshop.succeed(&["convert", "run", "scene.html", "-q"]);
    let scene = workshop.read("scene.html");
    assert_eq!(workshop.run(&["report", "run", "-o", "scene.html"]).code, 2);
    assert!(workshop.read("scene.html") == scene, "the same bytes");
    workshop.succeed(&["report", "run", "-o", "with.html"]);
    workshop.succeed(&["report", "run", "-o", "with.html", "--splats"]);

    let Some(mut browser) = browser("a_training_ends_with_a_report_that_opens_from_disk") else { return };
    for (file, has_splats) in [("run/report.html", false), ("with.html", true)] {
        let url = format!("file://{}", workshop.path(file).display());
        browser.call("Page.navigate", json!({"url": url}));
        browser.wait_until("document.readyState === 'complete' && document.images.length > 0");
        browser.wait_until("[...document.images].every(image => (image.loading = 'eager', image.complete) && image.naturalWidth > 0)");
        let scores = "document.querySelectorAll('tr.scores').length";
        // Two images at the start, and one for each view.
        assert_eq!(
            browser.value(&format!(
                "{scores} + Math.min(2, {scores}) === document.images.length && {scores} > 0"
            )),
            true
        );
        assert_opening(&mut browser);
        assert_eq!(browser.value("document.querySelectorAll('svg').length >= 5"), true);
        let policy = "getComputedStyle(document.querySelector('.facts')).display";
        assert_eq!(browser.value(policy), "grid", "its style is let through");
        assert_eq!(browser.value("document.getElementById('show-splats') !== null"), has_splats);
        if has_splats {
            browser.value("document.getElementById('show-splats').click()");
            let inner = "document.querySelector('iframe')?.contentDocument?.documentElement?.dataset.ready";
            browser.wait_until(&format!("{inner} === 'true'"));
        }
        assert_alone(&mut browser);
    }
    let narrow = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
    browser.call("Emulation.setDeviceMetricsOverride", narrow);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 360"), true);
}

/// A report begins with a picture and its scores; everything else is folded.
fn assert_opening(browser: &mut Browser) {
    for (size, is_phone) in [([1440, 900], false), ([390, 844], true)] {
        for scheme in ["light", "dark"] {
            browser.look(size, is_phone, scheme);
            let bottom = browser.value("document.images[0].getBoundingClientRect().bottom").as_f64();
            assert!(bottom.is_some_and(|bottom| bottom > 60.0 && bottom <= f64::from(size[1])), "{bottom:?}");
            assert_eq!(browser.value("document.querySelectorAll('details[open]').length"), 0);
            assert_eq!(browser.value("document.querySelectorAll('.facts dt')[2].textContent"), "splats");
            assert_eq!(browser.value("document.querySelectorAll('.verdict').length"), 1);
            assert_eq!(browser.value(LOW_CONTRAST), "", "{size:?} {scheme}");
            assert_eq!(browser.value("document.documentElement.scrollWidth <= innerWidth"), true);
            let back = browser.value("getComputedStyle(document.body).backgroundColor");
            assert_eq!(back == "rgb(255, 255, 255)", scheme == "light", "{back}");
        }
    }
    assert_eq!(browser.value(SMALL_TARGETS), "");
}

#[test]
fn names_of_pictures_are_text_in_a_report() {
    let workshop = TestFolder::trained();
    // An unusual image name, as an evaluation writes it.
    let path = workshop.path("run/eval/metrics.json");
    let mut report: Value = serde_json::from_slice(&std::fs::read(&path).expect("a report")).expect("JSON");
    let name = "<img src=x onerror=alert(1)>.jpg";
    report["per_image"][0]["name"] = name.into();
    report["per_image"][0]["psnr"] = 1.25.into();
    std::fs::write(&path, report.to_string()).expect("write");
    workshop.succeed(&["report", "run"]);
    let page = String::from_utf8(workshop.read("run/report.html")).expect("text");
    assert!(!page.contains("<img src=x"), "a name became HTML");
    let escaped = page.find("&lt;img src=x onerror=alert(1)&gt;.jpg").expect("it is told");
    // The worst image is first, at the start and in the table.
    assert_eq!(page[..escaped].matches("<img ").count(), 0);
    let table = &page[page.find("<tr class=\"scores\">").expect("a table")..];
    assert!(
        table.starts_with("<tr class=\"scores\"><th scope=\"row\">&lt;img src=x onerror=alert(1)&gt;.jpg")
    );
}

#[test]
fn a_report_that_cannot_be_written_is_a_warning() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "quiet", "--steps", "4", "-q", "--no-report"]);
    assert!(!workshop.path("quiet/report.html").exists() && !workshop.path("quiet/metrics.json").exists());
    workshop.succeed(&["report", "quiet", "--json"]);
    // The page contains its numbers as JSON, and no path of this machine.
    let numbers: Value = serde_json::from_slice(&workshop.read("quiet/metrics.json")).expect("JSON");
    assert_eq!((&numbers["schema"], &numbers["result"]["steps"]), (&json!(1), &json!(4)));
    assert!(numbers["seconds_to"]["20 dB"].is_null() && numbers["curves"]["loss"].is_array(), "{numbers}");
    let counts = numbers["histograms"]["opacity"]["counts"].as_array().expect("counts");
    let splats: u64 = counts.iter().filter_map(Value::as_u64).sum();
    assert_eq!((counts.len(), json!(splats)), (60, numbers["result"]["splats"].clone()));
    let page = String::from_utf8(workshop.read("quiet/report.html")).expect("text");
    assert!(!page.contains(&workshop.path("").display().to_string()), "a folder of the machine");
    let refused = workshop.run(&["report", "data"]);
    assert_eq!((refused.code, refused.stderr.contains("config.toml")), (2, true), "{refused:?}");
}

#[test]
fn the_curves_of_a_run_are_there_for_tensorboard() {
    let workshop = TestFolder::with_data();
    let log = ["train", "data", "-o", "run", "--steps", "60", "--eval-every", "30", "--log", "tensorboard"];
    workshop.succeed(&log);
    workshop.succeed(&["train", "data", "-o", "plain", "--steps", "60", "--eval-every", "30"]);
    assert!(workshop.read("run/splats.ply") == workshop.read("plain/splats.ply"), "the same bytes");
    assert!(!workshop.path("plain/events.out.tfevents.gausset").exists());
    let bytes = workshop.read("run/events.out.tfevents.gausset");
    assert_eq!(bytes[..8], [24, 0, 0, 0, 0, 0, 0, 0]);
    let count = |tag: &str| bytes.windows(tag.len()).filter(|window| *window == tag.as_bytes()).count();
    assert!(count("train/loss") >= 2 && count("train/splats") == count("train/loss"));
    assert!(count("eval/psnr") >= 2 && count("eval/ssim") == count("eval/psnr"));
}

#[test]
fn the_events_of_a_run_are_lines_of_json_in_a_file_or_on_stdout() {
    let workshop = TestFolder::with_data();
    let lines = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let names = |lines: &[Value]| -> Vec<String> {
        assert!(lines.iter().all(|line| line["schema"] == 1), "{lines:?}");
        let names = lines.iter().filter_map(|line| line["event"].as_str());
        names.filter(|name| !["progress", "density"].contains(name)).map(str::to_owned).collect()
    };
    let train = ["train", "data", "-o", "run", "--steps", "60", "--no-report", "--checkpoint-every", "30"];
    let to = |place: &'static str| [&train[..], &["--force", "--events", place]].concat();
    // On stdout the last line is the result.
    let shown = lines(&workshop.succeed(&to("-")).stdout);
    let expected = [
        "stereo_begun",
        "stereo_done",
        "started",
        "checkpointed",
        "checkpointed",
        "exported",
        "evaluated",
        "finished",
    ];
    assert_eq!(names(&shown), expected);
    let last = &shown[shown.len() - 1];
    assert_eq!((&last["steps"], &last["run"]), (&json!(60), &json!("run")));
    assert_eq!(last["sha256"].as_str().map(str::len), Some(64));
    // Each session is appended to a file: here a finished run once more, and one that is refused.
    workshop.succeed(&to("events.jsonl"));
    workshop.succeed(&["train", "--resume", "run", "--events", "events.jsonl"]);
    assert_eq!(workshop.run(&[&train[..], &["--events", "events.jsonl"]].concat()).code, 2);
    let written = lines(&String::from_utf8(workshop.read("events.jsonl")).expect("text"));
    let is_end = |line: &&Value| line["event"] == "finished" || line["event"] == "failed";
    let ends: Vec<&Value> = written.iter().filter(is_end).collect();
    assert_eq!(ends.iter().map(|end| &end["event"]).collect::<Vec<_>>(), ["finished", "finished", "failed"]);
    assert!(ends[0]["sha256"] == last["sha256"] && ends[1]["sha256"] == last["sha256"], "{ends:?}");
    assert_eq!(ends[2]["error"]["code"], "exists");
    // Beside `--json`, too, stdout holds events only; a failure names options as the command line does.
    let division = ["train", "data", "-o", "blocks", "--steps", "60", "--blocks", "2", "--until", "division"];
    let shown = lines(&workshop.succeed(&[&division[..], &["--json", "--events", "-"]].concat()).stdout);
    let last = &shown[shown.len() - 1];
    assert_eq!((&last["event"], &last["blocks"]), (&json!("finished"), &json!(2)), "{shown:?}");
    assert!(names(&shown).iter().any(|name| name == "coarse_run"), "{shown:?}");
    let small = ["train", "data", "-o", "small", "--max-memory", "1MiB", "--events", "small.jsonl"];
    assert_eq!(workshop.run(&small).code, 2);
    let written = String::from_utf8(workshop.read("small.jsonl")).expect("text");
    assert!(written.contains("--max-memory") && lines(&written).len() == 1, "{written}");
    // Other files stay as they are.
    std::fs::write(workshop.path("notes.txt"), "notes").expect("write");
    let refused = workshop.run(&to("notes.txt"));
    assert!(refused.code == 2 && refused.stderr.contains("notes.txt"), "{refused:?}");
    assert_eq!(workshop.read("notes.txt"), b"notes");
}
