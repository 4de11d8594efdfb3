//! `pano preview --page` in a real browser, and over HTTP.

use std::path::Path;

use gausset_pano::coverage::ViewCounter;
use gausset_pano::geometry::{View, direction_from_equirect};
use gausset_pano::layout::Layout;
use rustix::process::Signal;
use serde_json::json;

use crate::devtools::{Browser, chromium};
use crate::pages::{from_base64, pixels};
use crate::support::TestFolder;
use crate::viewer::RunningViewer;

/// A grey panorama whose right half is red.
fn write_panorama(path: &Path) {
    let (width, height) = (512u32, 256u32);
    let colour = |x: u32| if x >= width / 2 { [200, 60, 60] } else { [120, 120, 120] };
    let data = (0..width * height).flat_map(|i| colour(i % width)).collect();
    let picture = gausset_core::RgbImage8 { width, height, data };
    std::fs::write(path, gausset_io::image::encode::png_rgb8(&picture).expect("packed")).expect("written");
}

fn workshop() -> TestFolder {
    let workshop = TestFolder::empty();
    write_panorama(&workshop.path("pano.png"));
    workshop
}

#[test]
fn a_page_answers_whoever_knows_its_token() {
    let workshop = workshop();
    let shown =
        RunningViewer::start(&workshop, &["pano", "preview", "pano.png", "--page", "--json", "--port", "0"]);
    let (status, body) = shown.get("/api/preview");
    assert_eq!(status, 200);
    let about: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (about["title"].as_str(), about["views"].as_array().map(Vec::len)),
        (Some("pano.png"), Some(8))
    );
    assert_eq!(shown.get("/api/views?0,0,0,90,720,720").0, 200);
    for path in ["/api/views?0,0", "/api/mask", "/api/state", "/ws", "/etc/passwd", "/assets/main.js"] {
        assert_eq!(shown.get(path).0, 404, "{path}");
    }
    assert_eq!(shown.get_with("/api/preview", "0123456789abcdef0123456789abcdef").0, 403);
    assert_eq!(shown.get_with("/api/enter", "0123456789abcdef0123456789abcdef").0, 403);
    let (status, token) = shown.get("/api/enter");
    assert_eq!((status, String::from_utf8(token).expect("text").as_str()), (200, shown.token()));
    assert_eq!(shown.end(Some(Signal::TERM)), (0, String::new()));
    // Nothing was written.
    let left: Vec<_> = std::fs::read_dir(workshop.path(""))
        .expect("listed")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["pano.png"]);
}

#[test]
fn the_page_shows_the_panorama_its_views_and_its_colours() {
    let test = "the_page_shows_the_panorama_its_views_and_its_colours";
    let Some(program) = chromium() else {
        return gausset_testkit::skip::skip_for_tool(test, "no Chromium (apt-get install chromium)");
    };
    let (workshop, mut browser) = (workshop(), Browser::start(&program));
    let shown =
        RunningViewer::start(&workshop, &["pano", "preview", "pano.png", "--page", "--json", "--port", "0"]);
    browser.call("Page.navigate", json!({"url": shown.url}));
    browser.wait_until("document.documentElement?.dataset.ready === 'true'");
    assert_eq!(browser.value("location.hash"), "");
    assert_eq!(browser.value("document.getElementById('share').textContent"), "69.78 % of the sphere");
    assert_eq!(browser.value("document.getElementById('number').textContent"), "8");
    let shot = |browser: &mut Browser, do_this: &str| {
        browser.value(&format!("{do_this}; window.shot = null; setTimeout(() => requestAnimationFrame(() => {{ window.shot = document.getElementById('view').toDataURL(); }}), 300)"));
        browser.wait_until("Boolean(window.shot)");
        pixels(&from_base64(
            browser.value("window.shot").as_str().expect("a picture").split_once(',').expect("data").1,
        ))
    };
    // Seen from inside: the border of the red half is in the middle, grey to the left.
    browser.value("document.getElementById('lines').click()");
    let within = shot(&mut browser, "0");
    let [w, h] = within.0.map(|side| side as usize);
    let at = |picture: &([u32; 2], Vec<u8>), x: usize, y: usize| -> [u8; 3] {
        let channels = picture.1.len() / (w * h);
        let i = channels * (y * w + x);
        [picture.1[i], picture.1[i + 1], picture.1[i + 2]]
    };
    let near = |found: [u8; 3], wanted: [u8; 3], what: &str| {
        let off = found.iter().zip(wanted).map(|(a, b)| a.abs_diff(b)).max();
        assert!(off <= Some(6), "{what}: {found:?} instead of {wanted:?}");
    };
    near(at(&within, w / 2 - 20, h / 2), [120; 3], "left of the front");
    near(at(&within, w / 2 + 20, h / 2), [200, 60, 60], "right of the front");
    // Flat: dark where no view covers the direction, computed with the functions of the split.
    let flat = shot(&mut browser, "document.getElementById('flat').click()");
    let views: Vec<View> = Layout::Ring8.views(128, 128, None);
    let seen = ViewCounter::new(&views);
    let (mut right, mut all) = (0, 0);
    for y in (4..h).step_by(9) {
        for x in (4..w).step_by(9) {
            // As large as it fits.
            let scale = (0.5 * w as f64 / h as f64).max(1.0);
            let across = 0.5 + (x as f64 + 0.5 - 0.5 * w as f64) / w as f64 * scale;
            let down = 0.5 + 2.0 * (y as f64 + 0.5 - 0.5 * h as f64) / w as f64 * scale;
            if !(0.0..1.0).contains(&across) || !(0.0..1.0).contains(&down) {
                continue;
            }
            let is_seen = seen.count(direction_from_equirect(across, down, 1.0, 1.0)) > 0;
            let is_bright = u32::from(at(&flat, x, y)[0]) > 90;
            all += 1;
            right += usize::from(is_seen == is_bright);
        }
    }
    assert!(all > 1000 && right as f64 > 0.985 * all as f64, "{right} of {all}");
    // One stop more, with the colour table of a split: linear light doubles.
    let brighter = shot(
        &mut browser,
        "document.getElementById('flat').click(); const s = document.getElementById('look-exposure'); s.value = 1; s.dispatchEvent(new Event('input'))",
    );
    near(at(&brighter, w / 2 - 20, h / 2), [166; 3], "a stop more");
    assert_eq!(
        browser.value("document.getElementById('command').textContent"),
        "--views views.json --look exposure=1"
    );
    // Without views nothing is covered; an added view covers its directions.
    browser.value("for (let i = 0; i < 8; i++) document.getElementById('remove').click(); 0");
    browser.wait_until("document.getElementById('share').textContent === '0.00 % of the sphere'");
    browser.value("document.getElementById('add').click(); 0");
    browser.wait_until("document.getElementById('share').textContent === '16.67 % of the sphere'");
    browser.value(
        "const r = document.getElementById('hfov'); r.value = 110; r.dispatchEvent(new Event('input')); 0",
    );
    browser.wait_until("document.getElementById('share').textContent === '23.41 % of the sphere'");
    // The parts of the page do not overlap.
    let covered = "(() => { const r = document.getElementById('side').getBoundingClientRect(); return [...document.querySelectorAll('#side select:not([hidden]), #side input:not([hidden])')].every(e => { const b = e.getBoundingClientRect(); return b.left >= r.left && b.right <= r.right; }); })()";
    assert_eq!(browser.value(covered), true);
    let complaints: Vec<_> = browser.complaints().into_iter().map(ToString::to_string).collect();
    assert_eq!(complaints, Vec::<String>::new());
    let host = shown.url.split('#').next().expect("a host").to_owned();
    let others: Vec<_> = browser
        .requests()
        .filter(|url| !url.starts_with(&host) && !url.starts_with("blob:") && !url.starts_with("data:"))
        .collect();
    assert_eq!(others, Vec::<&str>::new());
    drop(shown.end(Some(Signal::INT)));
}
