//! The page of the viewer in a real browser.

use rustix::process::Signal;
use serde_json::json;

use crate::devtools::{Browser, LOW_CONTRAST, SMALL_TARGETS, chromium};
use crate::pages::{from_base64, pixels, psnr, sheet, view_of};
use crate::support::TestFolder;
use crate::viewer::RunningViewer;

/// The browser; reports a skipped test if there is none.
fn browser(test: &str) -> Option<Browser> {
    let Some(program) = chromium() else {
        gausset_testkit::skip::skip_for_tool(test, "no Chromium (apt-get install chromium)");
        return None;
    };
    Some(Browser::start(&program))
}

/// The content of the canvas, and whether the view is at rest.
const CANVAS: &str = "document.getElementById('view').toDataURL()";
const AT_REST: &str = "document.documentElement?.dataset.resting === 'true'";

fn open(browser: &mut Browser, shown: &RunningViewer) {
    browser.call("Page.navigate", json!({"url": shown.url}));
    browser.wait_until("Number(document.documentElement?.dataset.frames) > 0");
    browser.wait_until(AT_REST);
}

/// Waits until the canvas shows different content at rest.
fn changed(browser: &mut Browser, before: &str, what: &str) -> String {
    let started = std::time::Instant::now();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(250));
        let now = browser.value(CANVAS).as_str().expect("a picture").to_owned();
        if now != before && browser.value(AT_REST) == true {
            return now;
        }
        assert!(started.elapsed() < crate::support::TIMEOUT, "nothing changed: {what}");
    }
}

#[test]
fn the_page_shows_frames_that_mouse_and_keys_move() {
    let Some(mut browser) = browser("the_page_shows_frames_that_mouse_and_keys_move") else { return };
    let workshop = TestFolder::trained();
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    open(&mut browser, &shown);
    // The token is not visible in a screenshot.
    assert_eq!(browser.value("location.hash"), "");
    // An address that is opened in this tab is taken.
    let token = shown.url.split_once('#').expect("a token").1;
    browser.value(&format!("window.isOld = true; location.hash = '{token}'"));
    browser.wait_until("!window.isOld && Number(document.documentElement?.dataset.frames) > 0");
    browser.wait_until(AT_REST);
    // A text that cannot be copied is shown.
    browser.value("Object.defineProperty(navigator, 'clipboard', { value: undefined }); null");
    browser.value("document.getElementById('copy').click()");
    browser.wait_until("document.getElementById('status').textContent.includes('camera_from_world')");
    // Messages beyond the limit wait, and frames go on.
    browser.value("for (let i = 0; i < 150; i++) document.dispatchEvent(new Event('visibilitychange'))");
    let mut now = browser.value(CANVAS).as_str().expect("a picture").to_owned();

    browser.mouse("mousePressed", [400.0, 300.0], json!({"button": "left", "buttons": 1, "clickCount": 1}));
    browser.mouse("mouseMoved", [470.0, 330.0], json!({"button": "left", "buttons": 1}));
    browser.mouse("mouseReleased", [470.0, 330.0], json!({"button": "left", "clickCount": 1}));
    now = changed(&mut browser, &now, "drag");
    browser.mouse("mouseWheel", [400.0, 300.0], json!({"deltaX": 0, "deltaY": -200}));
    now = changed(&mut browser, &now, "wheel");
    browser.mouse("mousePressed", [400.0, 300.0], json!({"button": "right", "buttons": 2, "clickCount": 1}));
    browser.mouse("mouseMoved", [430.0, 300.0], json!({"button": "right", "buttons": 2}));
    browser.mouse("mouseReleased", [430.0, 300.0], json!({"button": "right", "clickCount": 1}));
    now = changed(&mut browser, &now, "right drag");
    for (code, key) in [
        ("KeyW", "w"),
        ("KeyA", "a"),
        ("KeyQ", "q"),
        ("Period", "."),
        ("Home", "Home"),
        ("BracketRight", "]"),
    ] {
        browser.key("keyDown", code, key);
        std::thread::sleep(std::time::Duration::from_millis(120));
        browser.key("keyUp", code, key);
        now = changed(&mut browser, &now, key);
    }
    // At a camera of the dataset: depth, the photograph, split and error.
    for show in ["depth", "normals", "alpha", "count", "photo", "error", "color"] {
        let choose = format!(
            "(() => {{ const s = document.getElementById('show'); s.value = '{show}'; s.dispatchEvent(new Event('input')); }})()"
        );
        browser.value(&choose);
        now = changed(&mut browser, &now, show);
    }
    browser.key("keyDown", "Slash", "?");
    browser.key("keyUp", "Slash", "?");
    browser.wait_until("document.getElementById('keys').open");
    browser.key("keyDown", "Escape", "Escape");
    browser.value("document.getElementById('keys').close()");

    let own = shown.url.split_once("/#").expect("a URL").0.replace("http://", "");
    for url in browser.requests() {
        let is_own =
            [format!("http://{own}/"), format!("ws://{own}/")].iter().any(|start| url.starts_with(start));
        assert!(
            is_own || url.starts_with("blob:") || url.starts_with("data:") || url == "about:blank",
            "{url}"
        );
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());

    // When the program has ended, the page says so.
    assert_eq!(shown.end(Some(Signal::INT)).0, 0);
    browser.wait_until("!document.getElementById('notice').hidden && document.getElementById('notice-text').textContent.includes('lost')");
}

/// Sets a control as a user does.
fn set(browser: &mut Browser, id: &str, value: &str) {
    let name = if matches!(value, "true" | "false") { "checked" } else { "value" };
    let quoted = if name == "checked" { value.to_owned() } else { format!("'{value}'") };
    browser.value(&format!(
        "(() => {{ const e = document.getElementById('{id}'); e.{name} = {quoted}; e.dispatchEvent(new Event('input')); }})()"
    ));
}

#[test]
fn the_browser_draws_what_moves_and_the_program_what_rests() {
    let Some(mut browser) = browser("the_browser_draws_what_moves_and_the_program_what_rests") else {
        return;
    };
    let workshop = TestFolder::trained();
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    open(&mut browser, &shown);
    // Software rendering does not count as a GPU: no splats are sent, and the page says so.
    let words = "document.getElementById('drawn-by').textContent";
    assert!(browser.value(words).as_str().is_some_and(|words| words.contains("no GPU")));
    assert_eq!(browser.requests().filter(|url| url.contains("snapshot")).count(), 0);
    set(&mut browser, "drawer", "browser");
    let is_ready = "document.documentElement.dataset.own === 'true'";
    browser.wait_until(is_ready);
    browser.wait_until(AT_REST);

    let frames = "Number(document.documentElement.dataset.frames)";
    let before = browser.value(frames);
    let since = format!("{frames} - {before}");
    let is_own =
        "!document.getElementById('own').hidden && document.documentElement.dataset.drawer === 'browser'";
    browser.value("document.getElementById('view').focus()");
    browser.key("keyDown", "KeyA", "a");
    browser.wait_until(&format!("{is_own} && Number(document.documentElement.dataset.ownFrames) > 8"));
    // At most one frame was requested when the movement began.
    let drawn = browser.value(&since).as_f64().expect("a number");
    assert!(drawn <= 1.0, "the program has drawn {drawn} frames of what the browser drew");
    browser.key("keyUp", "KeyA", "a");
    // At rest, one exact frame of the program replaces the browser's render.
    browser.wait_until("document.getElementById('own').hidden");
    browser.wait_until(AT_REST);
    let drawn = browser.value(&since).as_f64().expect("a number");
    assert!((1.0..=3.0).contains(&drawn), "the program has drawn {drawn} frames of one movement");

    // Filters also apply to the browser's render; the crop box is visible.
    let all = browser.value(words);
    browser.key("keyDown", "Home", "Home");
    browser.key("keyUp", "Home", "Home");
    set(&mut browser, "crop", "true");
    for (id, value) in
        [("x0", "-1.2"), ("x1", "1.2"), ("y0", "-1.2"), ("y1", "1.2"), ("z0", "-1.2"), ("z1", "1.2")]
    {
        set(&mut browser, id, value);
    }
    browser.wait_until("document.getElementById('filter-count').textContent !== ''");
    browser.wait_until(is_ready);
    browser.wait_until(&format!("{words}.includes('splats') && {words} !== {all}"));
    // What is shown can be saved.
    browser.value("document.getElementById('save-as').click()");
    assert!(
        browser
            .value("document.getElementById('saving-what').textContent")
            .as_str()
            .is_some_and(|said| said.starts_with("What the filters leave"))
    );
    browser.value("document.getElementById('save-now').click()");
    browser.wait_until("document.getElementById('saving-status').textContent.startsWith('run.html, ')");
    browser.value("document.getElementById('saving').close()");
    let lines = "(() => { const c = document.getElementById('over'); return !c.hidden && c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0); })()";
    browser.wait_until(lines);
    set(&mut browser, "crop", "false");
    browser.wait_until(&format!("!{lines}"));
    browser.value("document.getElementById('view').focus()");
    browser.key("keyDown", "KeyG", "g");
    browser.key("keyUp", "KeyG", "g");
    browser.wait_until(lines);
    assert_eq!(browser.value("document.getElementById('ground').checked"), true);

    // Thumbnails are loaded; the help lists the keys.
    browser.value("document.getElementById('cameras').scrollIntoView()");
    browser.wait_until("document.querySelectorAll('#cameras img[src^=\"blob:\"]').length > 3");
    let rows = "import('/assets/input.js').then(({ TABLE }) => [TABLE.length, document.querySelectorAll('#key-rows tr').length].join())";
    let rows = browser.value(rows);
    let (listed, shown_rows) = rows.as_str().and_then(|rows| rows.split_once(',')).expect("two numbers");
    // All but the one for trainings.
    let count = |text: &str| text.parse::<u32>().expect("a number");
    assert_eq!(count(listed), count(shown_rows) + 1);
    // The choice is remembered.
    browser.call("Page.reload", json!({}));
    browser.wait_until(&format!("{is_ready} && document.getElementById('drawer').value === 'browser'"));
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    drop(shown.end(Some(Signal::TERM)));
}

#[test]
fn the_browser_draws_what_render_draws() {
    let Some(mut browser) = browser("the_browser_draws_what_render_draws") else { return };
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("scene.ply"), sheet()).expect("write");
    let shown = RunningViewer::start(&workshop, &["view", "scene.ply", "--json", "--port", "0"]);
    open(&mut browser, &shown);
    set(&mut browser, "drawer", "browser");
    browser.wait_until("document.documentElement.dataset.own === 'true'");
    for angle in [-0.9f64, 0.0, 0.6] {
        let (cos, sin) = (angle.cos(), angle.sin());
        let (path, view) =
            view_of([[cos, 0.0, sin, 2.6 * sin], [0.0, 1.0, 0.0, 0.2], [-sin, 0.0, cos, 2.6 * cos]]);
        std::fs::write(workshop.path("path.json"), path.to_string()).expect("write");
        workshop.succeed(&["render", "scene.ply", "--path", "path.json", "-o", "frames", "--force", "-q"]);
        let (size, truth) = pixels(&workshop.read("frames/frame_0000.png"));
        let drawn = browser.value(&format!("gausset.picture({view})"));
        let drawn = drawn.as_str().and_then(|url| url.strip_prefix("data:image/png;base64,"));
        let (drawn_size, drawn) = pixels(&from_base64(drawn.expect("a picture")));
        assert_eq!(drawn_size, size);
        let equal = psnr(&truth, &drawn);
        println!("the browser against render: {equal:.2} dB");
        assert!(equal >= 40.0, "{equal:.2} dB");
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    drop(shown.end(Some(Signal::TERM)));
}

#[test]
fn controls_without_effect_are_not_shown() {
    let Some(mut browser) = browser("controls_without_effect_are_not_shown") else { return };
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("scene.ply"), sheet()).expect("write");
    workshop.succeed(&["convert", "scene.ply", "plain.ply", "--sh-degree", "0", "-q"]);
    for (file, has_sh) in [("scene.ply", true), ("plain.ply", false)] {
        let shown = RunningViewer::start(&workshop, &["view", file, "--json", "--port", "0"]);
        open(&mut browser, &shown);
        assert_eq!(browser.value("document.getElementById('degree').checkVisibility()"), has_sh);
        for id in ["frusta", "compare", "camera-panel", "training", "progress"] {
            assert_eq!(
                browser.value(&format!("document.getElementById('{id}').checkVisibility()")),
                false,
                "{id}"
            );
        }
        assert_eq!(
            browser.value("document.getElementById('key-rows').textContent.includes('training')"),
            false
        );
        drop(shown.end(Some(Signal::TERM)));
    }
}

#[test]
fn the_page_can_be_used_by_keyboard_and_on_a_narrow_screen() {
    let Some(mut browser) = browser("the_page_can_be_used_by_keyboard_and_on_a_narrow_screen") else {
        return;
    };
    let workshop = TestFolder::trained();
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    open(&mut browser, &shown);
    let nameless = browser.value(
        "[...document.querySelectorAll('button, select, input, canvas')].filter(e => !e.closest('[hidden], [aria-hidden=true]') && !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML).join()",
    );
    assert_eq!(nameless, "");
    assert_eq!(browser.value("document.querySelectorAll('[tabindex]:not([tabindex=\"0\"])').length"), 0);
    // In the order of reading.
    let mut passed = Vec::new();
    browser.value("document.body.focus()");
    for _ in 0..8 {
        browser.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyDown", "code": "Tab", "key": "Tab", "windowsVirtualKeyCode": 9}),
        );
        browser.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "code": "Tab", "key": "Tab", "windowsVirtualKeyCode": 9}),
        );
        passed.push(browser.value("document.activeElement.id").as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(passed[..5], ["home", "screenshot", "save-as", "full", "help"], "{passed:?}");
    // Every slider shows its number.
    assert_eq!(browser.value("document.querySelector('output[for=fov]').value.endsWith('°')"), true);
    let silent = "[...document.querySelectorAll('input[type=range]')].filter((e) => !e.nextElementSibling?.value).map((e) => e.id).join()";
    assert_eq!(browser.value(silent), "");
    browser.value("document.querySelectorAll('details').forEach((e) => { e.open = true; })");
    for scheme in ["light", "dark"] {
        browser.look([1440, 900], false, scheme);
        assert_eq!(browser.value(LOW_CONTRAST), "", "{scheme}");
    }
    // On a phone the panels are a drawer, the header is one row, and every control fits a finger.
    browser.look([360, 740], true, "dark");
    browser.call("Page.reload", json!({}));
    browser.wait_until("Number(document.documentElement?.dataset.frames) > 0");
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 360"), true);
    assert_eq!(browser.value("document.getElementById('view').clientHeight > 600"), true);
    assert_eq!(browser.value("document.querySelector('header').offsetHeight <= 56"), true);
    assert_eq!(browser.value("document.getElementById('side').checkVisibility()"), false);
    browser.value("document.getElementById('panels').click()");
    assert_eq!(browser.value("document.getElementById('side').checkVisibility()"), true);
    browser.value("document.querySelectorAll('details').forEach((e) => { e.open = true; })");
    for scheme in ["light", "dark"] {
        browser.look([360, 740], true, scheme);
        assert_eq!(browser.value(LOW_CONTRAST), "", "{scheme}");
        assert_eq!(browser.value(SMALL_TARGETS), "");
        let back = browser.value("getComputedStyle(document.body).backgroundColor");
        assert_eq!(back == "rgb(255, 255, 255)", scheme == "light", "{back}");
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    drop(shown.end(Some(Signal::TERM)));
}

/// Findings of axe-core, a standard accessibility checker. Install it with
/// `npm install --prefix target/axe axe-core@4`, or name its path in GAUSSET_AXE.
#[test]
fn the_page_has_no_serious_finding_of_axe() {
    const TEST: &str = "the_page_has_no_serious_finding_of_axe";
    let own = gausset_testkit::workspace_root().join("target/axe/node_modules/axe-core/axe.min.js");
    let script = std::env::var_os("GAUSSET_AXE").map_or(own, Into::into);
    let Ok(script) = std::fs::read_to_string(script) else {
        gausset_testkit::skip::skip_for_machine(
            TEST,
            "no axe-core (npm install --prefix target/axe axe-core@4)",
        );
        return;
    };
    let Some(mut browser) = browser(TEST) else { return };
    let workshop = TestFolder::trained();
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    open(&mut browser, &shown);
    for state in ["", "document.getElementById('keys').showModal()"] {
        browser.value(state);
        browser.value(&script);
        let found = browser.value(
            "axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.nodes.map(n => n.html).join(' ')}`).join('; '))",
        );
        assert_eq!(found, "", "{state}");
    }
    drop(shown.end(Some(Signal::TERM)));
}

/// Writes the image of the manual:
/// `GAUSSET_VIEWER_RUN=demo/run cargo test -p gausset-cli --test it picture_of -- --ignored`.
#[test]
#[ignore = "makes docs/images/viewer.jpg of a run that somebody has trained"]
fn the_picture_of_the_manual() {
    let run = std::env::var("GAUSSET_VIEWER_RUN").expect("GAUSSET_VIEWER_RUN names a run");
    let output = std::env::var("GAUSSET_VIEWER_PICTURE").unwrap_or_else(|_| "viewer.base64".to_owned());
    let mut browser = browser("the_picture_of_the_manual").expect("Chromium");
    let workshop = TestFolder::empty();
    let shown = RunningViewer::start(&workshop, &["view", &run, "--json", "--port", "0"]);
    let size = json!({"width": 1280, "height": 760, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", size);
    open(&mut browser, &shown);
    if let Ok(script) = std::env::var("GAUSSET_VIEWER_SCRIPT") {
        browser.value(&script);
    }
    std::thread::sleep(std::time::Duration::from_millis(2500));
    std::fs::write(output, browser.screenshot()).expect("written");
    drop(shown.end(Some(Signal::INT)));
}
