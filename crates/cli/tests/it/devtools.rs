//! A headless Chromium, controlled by its DevTools protocol.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::protocol::{WebSocket, WebSocketConfig};
use tungstenite::{Message, client::client_with_config};

use crate::support::TIMEOUT;

/// The visible texts of a page whose contrast with what is behind them is below 4.5:1, with the contrast. Behind a text
/// over the picture may be black or white.
pub(crate) const LOW_CONTRAST: &str = r"(() => {
  const parts = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const contrast = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      if (e.id === 'stage') break;
      const [r, g, b, a = 1] = parts(getComputedStyle(e).backgroundColor);
      layers.push([[r, g, b], a]);
      if (a === 1) return [layers];
    }
    return [[0, 0, 0], [255, 255, 255]].map((base) => [...layers, [base, 1]]);
  };
  const flat = (layers) => layers.reduceRight((under, [rgb, a]) => rgb.map((v, k) => a * v + (1 - a) * under[k]), [0, 0, 0]);
  const bad = [];
  const check = (element, colour, text) => {
    const least = Math.min(...behind(element).map((layers) => contrast(parts(colour).slice(0, 3), flat(layers))));
    if (least < 4.5) bad.push(`${text.trim()}: ${least.toFixed(2)}`);
  };
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility({ visibilityProperty: true }) || e.getBoundingClientRect().width < 2 || e.closest('option, script, [hidden]')) continue;
    const style = getComputedStyle(e);
    const own = [...e.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join('');
    if (own.trim()) check(e, e.ownerSVGElement ? style.fill : style.color, own);
    if (e.placeholder && !e.value) check(e, getComputedStyle(e, '::placeholder').color, e.placeholder);
    if (e.matches('select, output')) check(e, style.color, e.id || 'output');
  }
  return bad.join('; ');
})()";

/// The visible controls of a page that a finger may miss: smaller than 44 px.
pub(crate) const SMALL_TARGETS: &str = "[...document.querySelectorAll('button, select, input, summary')]\
    .filter((e) => e.checkVisibility()).map((e) => [e, e.getBoundingClientRect()])\
    .filter(([, box]) => box.height < 44 || box.width < 44).map(([e, box]) => `${e.id || e.textContent}: ${box.width} x ${box.height}`).join('; ')";

/// A browser with one tab.
pub(crate) struct Browser {
    child: Child,
    _profile: TempDir,
    socket: WebSocket<TcpStream>,
    session: String,
    number: u64,
    /// Received events.
    pub(crate) told: Vec<Value>,
}

/// Path of Chromium.
pub(crate) fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

impl Browser {
    /// Starts a browser.
    pub(crate) fn start(program: &std::path::Path) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(program);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
        ]);
        command.args([
            "--remote-debugging-port=0",
            "--no-first-run",
            "--disable-gpu-sandbox",
            "--window-size=1280,800",
        ]);
        command.args(["--disable-background-networking", "--disable-component-update", "--mute-audio"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("Chromium starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let url = loop {
            let line = lines.next().expect("Chromium listens").expect("text");
            if let Some((_, url)) = line.split_once("DevTools listening on ") {
                break url.to_owned();
            }
        };
        // The rest of stderr is drained, so that the browser does not block.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.trim_start_matches("ws://").split('/').next().expect("an address").to_owned();
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let limits = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (socket, _) = client_with_config(url, stream, Some(limits)).expect("a handshake");
        let mut browser =
            Self { child, _profile: profile, socket, session: String::new(), number: 0, told: Vec::new() };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        for part in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{part}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.number += 1;
        let number = self.number;
        let mut message = json!({"id": number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).expect("it is sent");
        loop {
            let Message::Text(text) = self.socket.read().expect("a message") else { continue };
            let message: Value = serde_json::from_str(&text).expect("JSON");
            if message["id"] == number {
                let error = &message["error"];
                return if error.is_null() { Ok(message["result"].clone()) } else { Err(error.clone()) };
            }
            self.told.push(message);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        self.try_value(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn try_value(&mut self, expression: &str) -> Result<Value, Value> {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.try_call("Runtime.evaluate", parameters)?;
        let exception = &result["exceptionDetails"];
        if exception.is_null() { Ok(result["result"]["value"].clone()) } else { Err(exception.clone()) }
    }

    /// Sets the size of the window in px, whether it is a phone, and the colour scheme, `light` or `dark`.
    pub(crate) fn look(&mut self, [width, height]: [u32; 2], is_phone: bool, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Emulation.setTouchEmulationEnabled", json!({"enabled": is_phone}));
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", scheme);
        std::thread::sleep(Duration::from_millis(300));
    }

    /// Waits until an expression is true. Errors count as false, because the page may still be loading.
    pub(crate) fn wait_until(&mut self, expression: &str) {
        let started = Instant::now();
        loop {
            let value = self.try_value(expression);
            if value == Ok(json!(true)) {
                break;
            }
            assert!(
                started.elapsed() < TIMEOUT,
                "waited in vain until {expression} ({value:?}): {:?}",
                self.complaints()
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Errors of the page: of the console, of scripts, of the content security policy.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |told: &&Value| match told["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => told["params"]["type"] == "error",
            Some("Log.entryAdded") => told["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.told.iter().filter(is_complaint).collect()
    }

    /// URLs that the page has requested.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &str> {
        self.told.iter().filter_map(|told| match told["method"].as_str()? {
            "Network.requestWillBeSent" => told["params"]["request"]["url"].as_str(),
            "Network.webSocketCreated" => told["params"]["url"].as_str(),
            _ => None,
        })
    }

    pub(crate) fn key(&mut self, kind: &str, code: &str, key: &str) {
        let text = if key.len() == 1 && kind == "keyDown" { key } else { "" };
        self.call("Input.dispatchKeyEvent", json!({"type": kind, "code": code, "key": key, "text": text}));
    }

    pub(crate) fn mouse(&mut self, kind: &str, [x, y]: [f64; 2], more: Value) {
        let mut event = json!({"type": kind, "x": x, "y": y});
        for (name, value) in more.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        self.call("Input.dispatchMouseEvent", event);
    }

    /// A screenshot of the tab, as a base64 JPEG.
    pub(crate) fn screenshot(&mut self) -> String {
        let taken = self.call("Page.captureScreenshot", json!({"format": "jpeg", "quality": 82}));
        taken["data"].as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
