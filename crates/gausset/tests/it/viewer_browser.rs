//! The page of the viewer in a real browser.

use rustix::process::Signal;
use serde_json::json;

use crate::devtools::{Browser, chromium};
use crate::support::Workshop;
use crate::viewer::{Shown, trained};

/// The browser, or a word that there is none.
fn browser(test: &str) -> Option<Browser> {
    let Some(program) = chromium() else {
        gausset_testkit::skip::skip_for_tool(test, "no Chromium (apt-get install chromium)");
        return None;
    };
    Some(Browser::start(&program))
}

/// What the canvas shows, and whether it is at rest: a moving view is another one.
const CANVAS: &str = "document.getElementById('view').toDataURL()";
const AT_REST: &str = "document.documentElement?.dataset.resting === 'true'";

fn open(browser: &mut Browser, shown: &Shown) {
    browser.call("Page.navigate", json!({"url": shown.url}));
    browser.wait_until("Number(document.documentElement?.dataset.frames) > 0");
    browser.wait_until(AT_REST);
}

/// Waits until the canvas shows something else at rest.
fn changed(browser: &mut Browser, before: &str, what: &str) -> String {
    let started = std::time::Instant::now();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(250));
        let now = browser.value(CANVAS).as_str().expect("a picture").to_owned();
        if now != before && browser.value(AT_REST) == true {
            return now;
        }
        assert!(started.elapsed() < crate::support::PATIENCE, "nothing changed: {what}");
    }
}

#[test]
fn the_page_shows_frames_that_mouse_and_keys_move() {
    let Some(mut browser) = browser("the_page_shows_frames_that_mouse_and_keys_move") else { return };
    let workshop = trained();
    let shown = Shown::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    open(&mut browser, &shown);
    // The token is not to be seen in a screenshot.
    assert_eq!(browser.value("location.hash"), "");
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
    for show in ["depth", "alpha", "count", "photo", "error", "color"] {
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

    // When the program has gone, the page says so.
    assert_eq!(shown.end(Some(Signal::INT)).0, 0);
    browser.wait_until("!document.getElementById('notice').hidden && document.getElementById('notice-text').textContent.includes('lost')");
}

#[test]
fn the_page_can_be_used_by_keyboard_and_on_a_narrow_screen() {
    let Some(mut browser) = browser("the_page_can_be_used_by_keyboard_and_on_a_narrow_screen") else {
        return;
    };
    let workshop = trained();
    let shown = Shown::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    open(&mut browser, &shown);
    let nameless = browser.value(
        "[...document.querySelectorAll('button, select, input, canvas')].filter(e => !e.closest('[hidden]') && !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML).join()",
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
    assert_eq!(passed[..5], ["home", "screenshot", "help", "panels", "view"], "{passed:?}");
    let narrow = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
    browser.call("Emulation.setDeviceMetricsOverride", narrow);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 360"), true);
    assert_eq!(browser.value("document.getElementById('view').clientHeight > 200"), true);
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    drop(shown.end(Some(Signal::TERM)));
}

/// Findings of axe-core, the usual checker of pages for people who do not see, hear or point well. It comes with
/// `npm install --prefix target/axe axe-core@4`, is not shipped, and is named by GAUSSET_AXE where it lies elsewhere.
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
    let workshop = trained();
    let shown = Shown::start(&workshop, &["view", "run", "--json", "--port", "0"]);
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

/// Writes the picture of the manual: `GAUSSET_VIEWER_RUN=demo/run cargo test -p gausset --test it picture_of -- --ignored`.
#[test]
#[ignore = "makes docs/images/viewer.jpg of a run that somebody has trained"]
fn the_picture_of_the_manual() {
    let run = std::env::var("GAUSSET_VIEWER_RUN").expect("GAUSSET_VIEWER_RUN names a run");
    let output = std::env::var("GAUSSET_VIEWER_PICTURE").unwrap_or_else(|_| "viewer.base64".to_owned());
    let mut browser = browser("the_picture_of_the_manual").expect("Chromium");
    let workshop = Workshop::empty();
    let shown = Shown::start(&workshop, &["view", &run, "--json", "--port", "0"]);
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
