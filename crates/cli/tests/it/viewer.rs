//! `view` and `train --viewer` over HTTP and WebSocket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use gausset_io::splat::LoadOptions;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tungstenite::protocol::WebSocket;
use tungstenite::{Message, client};

use crate::support::{TIMEOUT, TestFolder, files_below, script, wait_until};

/// A running viewer and its address.
pub(crate) struct RunningViewer {
    pub(crate) child: Child,
    pub(crate) url: String,
    port: u16,
    /// The rest of its stdout.
    stdout: BufReader<std::process::ChildStdout>,
}

impl RunningViewer {
    /// Starts the program, which prints its address.
    pub(crate) fn start(workshop: &TestFolder, arguments: &[&str]) -> Self {
        let mut child = workshop.start(arguments);
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        if line.is_empty() {
            let mut text = String::new();
            let _ = child.stderr.take().expect("stderr").read_to_string(&mut text);
            panic!("{arguments:?}: {text}");
        }
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!((said["kind"].as_str(), said["pid"].as_u64()), (Some("viewer"), Some(child.id().into())));
        let port = said["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        Self { child, url: said["url"].as_str().expect("a URL").to_owned(), port, stdout }
    }

    pub(crate) fn token(&self) -> &str {
        self.url.split_once("#token=").expect("a token").1
    }

    /// Status and body of a GET with the token.
    pub(crate) fn get(&self, path: &str) -> (u32, Vec<u8>) {
        self.get_with(path, self.token())
    }

    /// Status and body of a GET with another token.
    pub(crate) fn get_with(&self, path: &str, token: &str) -> (u32, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}");
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).expect("it is sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("a status");
        (status, answer.split_off(end))
    }

    /// Stops the program. Returns its exit code and the rest of its stdout.
    pub(crate) fn end(mut self, signal: Option<Signal>) -> (i32, String) {
        if let Some(signal) = signal {
            kill_process(Pid::from_child(&self.child), signal).expect("the signal is sent");
        }
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("stdout is text");
        (self.child.wait().expect("wait").code().unwrap_or(-1), text)
    }
}

/// A client that behaves like a page.
pub(crate) struct PageClient {
    socket: WebSocket<TcpStream>,
    scene: Value,
    events: Vec<Value>,
    /// The newest announced splats.
    snapshot: u64,
}

/// A frame: id of the view, training step, and encoded image.
struct Frame {
    id: u64,
    step: u64,
    bytes: Vec<u8>,
}

impl PageClient {
    pub(crate) fn connect(shown: &RunningViewer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", shown.port)).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let (socket, _) = client(format!("ws://127.0.0.1:{}/ws", shown.port), stream).expect("a handshake");
        let mut robot = Self { socket, scene: Value::Null, events: Vec::new(), snapshot: 0 };
        robot.send(&json!({"t": "hello", "version": 1, "token": shown.token()}));
        while robot.scene["cameras"].as_array().is_none_or(Vec::is_empty) {
            // A training announces its scene at the start.
            robot.next();
        }
        robot
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).expect("it is sent");
    }

    /// Reads a message: returns a frame, or stores other messages.
    fn next(&mut self) -> Option<Frame> {
        match self.socket.read().expect("a message") {
            Message::Binary(bytes) => {
                let number = |at: usize, count: usize| {
                    bytes[at..at + count].iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte))
                };
                Some(Frame { id: number(4, 4), step: number(36, 8), bytes: bytes[44..].to_vec() })
            }
            Message::Text(text) => {
                let message: Value = serde_json::from_str(&text).expect("JSON");
                match message["t"].as_str() {
                    Some("hello" | "scene") => self.scene = message["scene"].clone(),
                    Some("snapshot") => self.snapshot = message["number"].as_u64().expect("a number"),
                    Some("event") => self.events.push(message["event"].clone()),
                    _ => {}
                }
                None
            }
            _ => None,
        }
    }

    /// Requests the view of a camera.
    pub(crate) fn ask(&mut self, id: u64, camera: &Value, more: &Value) {
        let mut view =
            json!({"t": "view", "id": id, "camera": camera, "pose": self.scene["cameras"][0]["pose"]});
        for (name, value) in more.as_object().into_iter().flatten() {
            view[name] = value.clone();
        }
        self.send(&view);
    }

    /// Waits for a frame or a photograph of this id.
    pub(crate) fn wait_for_frame(&mut self, id: u64) {
        while self.next().is_none_or(|frame| frame.id != id) {}
    }

    /// Requests the view of a camera and waits for it.
    fn see(&mut self, id: u64, camera: usize, more: &Value) -> Frame {
        let at = &self.scene["cameras"][camera];
        let mut view = json!({"t": "view", "id": id, "camera": at["camera"], "pose": at["pose"]});
        for (name, value) in more.as_object().into_iter().flatten() {
            view[name] = value.clone();
        }
        self.send(&view);
        loop {
            if let Some(frame) = self.next() {
                self.send(&json!({"t": "ack", "id": frame.id}));
                if frame.id == id {
                    return frame;
                }
            }
        }
    }

    /// Requests the splats for rendering in the browser and loads them.
    fn load_splats(&mut self, shown: &RunningViewer) -> Vec<u8> {
        self.send(&json!({"t": "snapshot", "have": 0, "moving": true}));
        while self.snapshot == 0 {
            if let Some(frame) = self.next() {
                self.send(&json!({"t": "ack", "id": frame.id}));
            }
        }
        let (status, bytes) = shown.get("/api/snapshot");
        assert_eq!(status, 200);
        bytes
    }

    fn wait_for(&mut self, event: &str) {
        while !self.events.iter().any(|found| found["event"] == event) {
            if let Some(frame) = self.next() {
                self.send(&json!({"t": "ack", "id": frame.id}));
            }
        }
    }
}

fn decoded(bytes: &[u8]) -> Vec<u8> {
    gausset_io::image::decode::decode(bytes).expect("a picture").rgb
}

#[test]
fn what_a_page_sees_at_rest_is_what_render_gives() {
    let workshop = TestFolder::trained();
    workshop.succeed(&["render", "run", "--split", "all", "-o", "pictures"]);
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    let mut robot = PageClient::connect(&shown);
    let cameras = robot.scene["cameras"].as_array().expect("cameras").clone();
    assert_eq!(cameras.len(), 8);
    assert!(cameras.iter().any(|camera| camera["held_out"] == true && camera["psnr"].is_number()));
    for (number, camera) in cameras.iter().enumerate() {
        let name = camera["name"].as_str().expect("a name");
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let picture = std::fs::read(workshop.path("pictures").join(format!("{stem}.png")));
        let truth = decoded(&picture.unwrap_or_else(|error| panic!("{stem}: {error}")));
        let exact = robot.see(2 * number as u64 + 1, number, &json!({"exact": true}));
        assert!(decoded(&exact.bytes) == truth, "{name}: an exact frame differs from the picture");
        let resting = robot.see(2 * number as u64 + 2, number, &json!({}));
        let squares =
            decoded(&resting.bytes).into_iter().zip(&truth).map(|(a, &b)| f64::from(a.abs_diff(b)).powi(2));
        let psnr = -10.0 * (squares.sum::<f64>() / truth.len() as f64 / 255f64.powi(2)).log10();
        assert!(psnr >= 38.0, "{name}: {psnr} dB at rest");
    }
    // The photograph and the difference to it.
    robot.see(100, 3, &json!({"what": "error", "against": 3, "exact": true}));
    robot.send(&json!({"t": "photo", "id": 101, "camera": 3, "side": 64}));
    while robot.next().is_none_or(|frame| frame.id != 101) {}
    assert_eq!(shown.end(Some(Signal::INT)), (0, String::new()));
}

#[test]
fn new_splats_are_picked_up_and_damaged_ones_are_not() {
    let workshop = TestFolder::trained();
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0", "--no-open"]);
    let mut robot = PageClient::connect(&shown);
    let before = robot.see(1, 0, &json!({"exact": true})).bytes;
    let splats = workshop.read("run/splats.ply");
    std::fs::write(workshop.path("run/splats.ply"), &splats[..200]).expect("written");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(robot.see(2, 0, &json!({"exact": true})).bytes == before, "damaged splats are shown");
    workshop.succeed(&["train", "data", "-o", "other", "--steps", "5", "--seed", "9", "-q"]);
    std::fs::write(workshop.path("run/splats.ply"), workshop.read("other/splats.ply")).expect("written");
    let mut id = 3;
    wait_until("the new splats are shown", || {
        id += 1;
        robot.see(id, 0, &json!({"exact": true})).bytes != before
    });
    assert_eq!(shown.end(Some(Signal::TERM)).0, 0);
}

#[test]
fn filters_of_the_page_are_those_of_convert() {
    let workshop = TestFolder::trained();
    let cut = ["convert", "run", "cut.ply", "--min-opacity", "0.2", "--sphere=0,0,0,2.5", "--json"];
    let converted: Value = serde_json::from_str(&workshop.succeed(&cut).stdout).expect("JSON");
    let left = converted["output"]["count"].as_u64().expect("a count");
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    let mut robot = PageClient::connect(&shown);
    let all = robot.scene["splats"].as_u64().expect("a number");
    assert!(0 < left && left < all, "{left} of {all}");
    let before = robot.see(1, 0, &json!({"exact": true})).bytes;
    robot.send(&json!({"t": "filter", "filter": {"min_opacity": 0.2, "sphere": [0, 0, 0, 2.5]}}));
    while robot.scene["splats"] == all {
        robot.next();
    }
    assert_eq!(robot.scene["splats"], left);
    assert!(robot.see(2, 0, &json!({"exact": true})).bytes != before);
    // A filter that excludes no splats changes nothing, an invalid one is refused, and without one all splats are back.
    robot.send(&json!({"t": "filter", "filter": {"sphere": [9e9, 0, 0, 1]}}));
    robot.send(&json!({"t": "filter", "filter": {"min_opacity": 7}}));
    robot.send(&json!({"t": "filter", "filter": {}}));
    while robot.scene["splats"] == left {
        robot.next();
    }
    assert_eq!(robot.scene["splats"], all);
    assert!(robot.see(3, 0, &json!({"exact": true})).bytes == before);
    assert_eq!(shown.end(Some(Signal::TERM)).0, 0);
}

#[test]
fn a_splat_file_is_shown_from_around_it() {
    let workshop = TestFolder::trained();
    std::fs::copy(workshop.path("run/splats.ply"), workshop.path("sent.ply")).expect("a copy");
    let shown = RunningViewer::start(&workshop, &["serve", "sent.ply", "--json", "--port", "0"]);
    let state: Value = serde_json::from_slice(&shown.get("/api/state").1).expect("JSON");
    assert_eq!((state["title"].as_str(), state["live"].as_bool()), (Some("sent.ply"), Some(false)));
    assert!(state["splats"].as_u64() > Some(0) && state["cameras"] == 0);
    assert_eq!(shown.end(Some(Signal::TERM)).0, 0);
}

#[test]
fn a_model_is_shown_with_its_points_and_cameras() {
    let workshop = TestFolder::with_data();
    let images = files_below(&workshop.path("data/images")).len();
    let shown = RunningViewer::start(&workshop, &["view", "data/sparse/0", "--json", "--port", "0"]);
    let state: Value = serde_json::from_slice(&shown.get("/api/state").1).expect("JSON");
    assert!(state["splats"].as_u64() > Some(0), "{state}");
    assert_eq!(state["cameras"], json!(images));
    assert_eq!(shown.end(Some(Signal::TERM)).0, 0);
}

#[test]
fn a_dataset_is_shown_with_its_cameras_and_photographs() {
    let workshop = TestFolder::with_data();
    let pose = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]];
    let text =
        json!({ "fl_x": 60, "frames": [{ "file_path": "images/view_000.png", "transform_matrix": pose }] });
    std::fs::remove_dir_all(workshop.path("data/sparse")).expect("removed");
    std::fs::write(workshop.path("data/transforms.json"), text.to_string()).expect("a file");
    for input in ["data", "data/transforms.json"] {
        let shown = RunningViewer::start(&workshop, &["view", input, "--json", "--port", "0"]);
        let state: Value = serde_json::from_slice(&shown.get("/api/state").1).expect("JSON");
        assert_eq!((&state["splats"], &state["cameras"]), (&json!(0), &json!(1)), "{state}");
        assert_eq!(shown.end(Some(Signal::TERM)).0, 0);
    }
}

#[test]
fn without_a_program_for_browsers_the_address_is_printed_and_nothing_is_written() {
    let workshop = TestFolder::trained();
    let files = || files_below(&workshop.path("run"));
    let before = files();
    let mut command = workshop.command(&["view", "run", "--port", "0"]);
    command.env("PATH", "").env("DISPLAY", ":99").env_remove("SSH_CONNECTION");
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("stdout")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("viewer at http://127.0.0.1:"), "{line}");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the signal is sent");
    assert_eq!(child.wait().expect("wait").code(), Some(0));
    assert!(files() == before);
}

#[test]
fn the_browser_is_no_program_of_the_working_folder_and_no_command_line_has_a_secret() {
    use std::os::unix::fs::PermissionsExt;
    let workshop = TestFolder::trained();
    let trace = workshop.path("trace");
    for folder in ["bin", "runtime"] {
        std::fs::create_dir(workshop.path(folder)).expect("a folder");
    }
    script(&workshop.path("xdg-open"), &format!("echo working folder >> {}", trace.display()));
    let opener = format!(
        "echo \"$@\" > {0}.part; mv {0}.part {0}; echo bin >> {1}",
        workshop.path("args").display(),
        trace.display()
    );
    script(&workshop.path("bin/xdg-open"), &opener);
    let path = std::env::var("PATH").expect("a PATH");
    let mut command = workshop.command(&["view", "run", "--port", "0"]);
    command.env("PATH", format!(":.:{}:{path}", workshop.path("bin").display()));
    command
        .env("DISPLAY", ":99")
        .env_remove("SSH_CONNECTION")
        .env("XDG_RUNTIME_DIR", workshop.path("runtime"));
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("stdout")).read_line(&mut line).expect("a line");
    let (address, token) = line.trim().split_once("/#token=").expect("a token");
    let address = address.strip_prefix("viewer at http://").expect("an address");
    // A file is there before its text.
    let is_opened = || std::fs::metadata(&trace).is_ok_and(|file| file.len() > 0);
    wait_until("a browser is opened", is_opened);
    assert_eq!(String::from_utf8(workshop.read("trace")).expect("text"), "bin\n");

    let arguments = String::from_utf8(workshop.read("args")).expect("text");
    let file = std::path::Path::new(arguments.trim());
    let mode = |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(file), mode(file.parent().expect("a folder"))), (0o600, 0o700));
    assert!(file.starts_with(workshop.path("runtime")), "{arguments}");
    let page = std::fs::read_to_string(file).expect("a page");
    let ticket = page.split_once("#token=").expect("a ticket").1.split('"').next().expect("a ticket");
    assert_ne!(ticket, token);
    // The one-time token in the page file grants access; then the file is removed.
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let (mut socket, _) = client(format!("ws://{address}/ws"), stream).expect("a handshake");
    let hello = json!({"t": "hello", "version": 1, "token": ticket});
    socket.send(Message::text(hello.to_string())).expect("it is sent");
    let hello: Value =
        serde_json::from_str(socket.read().expect("a message").to_text().expect("text")).expect("JSON");
    assert_eq!(hello["token"], token);
    assert!(!file.exists());
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the signal is sent");
    assert_eq!(child.wait().expect("wait").code(), Some(0));
    assert_eq!(std::fs::read_dir(workshop.path("runtime")).expect("a folder").count(), 0);
}

#[test]
fn a_page_that_comes_before_the_first_step_or_during_evaluations_or_has_no_window_is_served() {
    let workshop = TestFolder::with_data();
    let options = "--steps 60 --eval-every 2 --refine-poses --json --viewer=0 --viewer-linger";
    let options: Vec<&str> = options.split(' ').collect();
    let shown = RunningViewer::start(&workshop, &[&["train", "data", "-o", "run"][..], &options].concat());
    let mut robot = PageClient::connect(&shown);
    // A window of size zero and one with invalid values: an error line, and the next view is still rendered.
    for side in [json!(0), json!(-3), json!(1e12)] {
        let pose = robot.scene["cameras"][0]["pose"].clone();
        robot.send(&json!({"t": "view", "id": 1, "camera": [side, side, 50, 50, 0, 0], "pose": pose}));
    }
    // The first one is held out, and its pose is not refined.
    let first = robot.scene["cameras"][1]["pose"].clone();
    for id in 2..12 {
        robot.see(id, id as usize % 8, &json!({"what": "error", "against": id as usize % 8}));
    }
    robot.wait_for("evaluated");
    while robot.scene["live"] != false {
        robot.next();
    }
    // Cameras have the poses refined by the run.
    assert_ne!(robot.scene["cameras"][1]["pose"], first);
    assert_eq!(shown.end(Some(Signal::INT)).0, 0);
}

#[test]
fn a_taken_port_is_refused_by_its_code() {
    let workshop = TestFolder::trained();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let refused = workshop.run(&["view", "run", "--json", "--port", &port]);
    assert_eq!(refused.code, 2);
    let error: Value = serde_json::from_str(&refused.stderr).expect("JSON");
    assert_eq!(error["error"]["code"], "port");
}

#[test]
fn pages_that_draw_by_themselves_get_what_is_shown_and_small_photographs() {
    let workshop = TestFolder::trained();
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    let mut robot = PageClient::connect(&shown);
    let read = |bytes: &[u8]| {
        std::fs::write(workshop.path("sent.compressed.ply"), bytes).expect("written");
        let info = workshop.succeed(&["info", "sent.compressed.ply", "--json"]).json();
        (info["splats"].as_u64().or(info["count"].as_u64()), info["sh_degree"].as_u64())
    };
    let all = robot.load_splats(&shown);
    // Few splats are sent with all SH coefficients.
    let degree = robot.scene["sh_degree"].as_u64();
    assert_eq!(read(&all), (robot.scene["splats"].as_u64(), degree));
    // Filtered splats are not sent: a crop box, and a filter of the larger half of the splats.
    let file =
        gausset_io::splat::load(&workshop.path("run/splats.ply"), &LoadOptions::default()).expect("splats");
    let largest = |s: &[f32; 3]| f64::from(s[0].max(s[1]).max(s[2]));
    let mut sizes: Vec<f64> = file.splats.log_scales.iter().map(largest).collect();
    sizes.sort_by(f64::total_cmp);
    let median = sizes[sizes.len() / 2] + 1e-9;
    let in_box = |p: &[f32; 3]| p.iter().all(|v| v.abs() <= 2.5);
    let kept = file.splats.means.iter().zip(&file.splats.log_scales);
    let kept = kept.filter(|(p, s)| in_box(p) && largest(s) <= median).count();
    assert!(0 < kept && kept < sizes.len(), "{kept}");
    let within = [-2.5, -2.5, -2.5, 2.5, 2.5, 2.5];
    robot.send(&json!({"t": "filter", "filter": {"box": within, "max_size": median.exp(), "shrink": 0.5}}));
    let before = robot.scene["splats"].clone();
    while robot.scene["splats"] == before {
        robot.next();
    }
    assert_eq!((&robot.scene["splats"], &robot.scene["filter"]["box"]), (&json!(kept), &json!(within)));
    robot.send(&json!({"t": "snapshot", "have": robot.snapshot, "moving": false}));
    while robot.snapshot == 1 {
        robot.next();
    }
    let some = robot.load_splats(&shown);
    assert_eq!(read(&some), (Some(kept as u64), degree));
    // They have half the size.
    let sent = gausset_io::splat::load(&workshop.path("sent.compressed.ply"), &LoadOptions::default());
    let sizes: Vec<f64> = sent.expect("splats").splats.log_scales.iter().map(largest).collect();
    let most = sizes.iter().copied().fold(f64::MIN, f64::max);
    assert!((most - (median - 2.0f64.ln())).abs() < 0.01, "{most} of {median}");
    let (status, small) = shown.get("/thumb/3");
    let small = gausset_io::image::decode::decode(&small).expect("a picture");
    assert!(status == 200 && small.width.max(small.height) <= 96 && small.width > 8, "{}", small.width);
    assert_eq!(shown.get("/thumb/8").0, 404);
    assert_eq!(shown.end(Some(Signal::TERM)).0, 0);
}

/// The bytes of a result do not depend on viewers: none, a server without pages, and eight pages of which some move,
/// some never answer, some disconnect, and one presses every button.
#[test]
fn splats_have_the_same_bytes_whoever_looks() {
    let workshop = TestFolder::with_data();
    let options = ["--steps", "150", "--viewer-share", "0.9"];
    workshop.succeed(&["train", "data", "-o", "alone", "--steps", "150", "-q"]);
    let truth = workshop.read("alone/splats.ply");
    let train = |output: &str| {
        let arguments = [&["train", "data", "-o", output, "--json", "--viewer=0"][..], &options].concat();
        RunningViewer::start(&workshop, &arguments)
    };
    let (code, summary) = train("unseen").end(None);
    assert_eq!(code, 0);
    let summary: Value = serde_json::from_str(&summary).expect("the result is an object, too");
    assert_eq!((summary["kind"].as_str(), summary["steps"].as_u64()), (Some("run"), Some(150)));
    assert!(workshop.read("unseen/splats.ply") == truth, "other splats with a viewer that nobody looks at");

    let mut shown = train("seen");
    // The training waits until all pages are connected.
    let mut first = PageClient::connect(&shown);
    first.send(&json!({"t": "command", "what": "pause"}));
    first.wait_for("paused");
    let mut stalled: Vec<PageClient> = (0..2).map(|_| PageClient::connect(&shown)).collect();
    for robot in &mut stalled {
        let at = robot.scene["cameras"][0].clone();
        for id in 0..10 {
            robot.send(
                &json!({"t": "view", "id": id, "camera": at["camera"], "pose": at["pose"], "moving": true}),
            );
        }
    }
    let mut moving: Vec<PageClient> = (0..4).map(|_| PageClient::connect(&shown)).collect();
    let mut vanishing = PageClient::connect(&shown);
    // Some pages render by themselves: all get the same splats, even if one disconnects during the transfer.
    let sent = moving[0].load_splats(&shown);
    assert!(sent.starts_with(b"ply\n"));
    assert!(moving.iter_mut().all(|robot| robot.load_splats(&shown) == sent));
    let mut leaving = TcpStream::connect(("127.0.0.1", shown.port)).expect("it listens");
    let head = format!("Host: localhost\r\nAuthorization: Bearer {}", shown.token());
    leaving.write_all(format!("GET /api/snapshot HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).expect("sent");
    drop(leaving);
    vanishing.see(1, 1, &json!({}));
    first.send(&json!({"t": "command", "what": "save"}));
    first.send(&json!({"t": "command", "what": "export"}));
    first.wait_for("exported");
    first.send(&json!({"t": "command", "what": "resume"}));
    first.wait_for("resumed");
    let whats = ["color", "depth", "alpha", "count", "error"];
    let mut last_step = 0;
    'looking: for id in 2.. {
        for (k, robot) in moving.iter_mut().enumerate() {
            let what = json!({"moving": k % 2 == 0, "what": whats[(id as usize + k) % 5], "against": k});
            if robot.events.iter().any(|event| event["event"] == "finished") || id > 12 {
                break 'looking;
            }
            last_step = robot.see(id, (id as usize + k) % 8, &what).step;
            robot.send(&json!({"t": "snapshot", "have": robot.snapshot, "moving": k % 2 == 1}));
            let (status, photo) = shown.get(&format!("/thumb/{}", (id as usize + k) % 8));
            assert_eq!((status, &photo[..2]), (200, &b"\xff\xd8"[..]));
        }
        if id == 4 {
            // Disconnects without a close message, in the middle of a frame.
            vanishing.send(&json!({"t": "photo", "id": 9, "camera": 1, "side": 2000}));
            let _ = vanishing.socket.get_ref().shutdown(std::net::Shutdown::Both);
        }
    }
    assert!(last_step > 0, "nobody saw anything while it trained");
    drop((stalled, moving, first));
    let mut text = String::new();
    shown.stdout.read_to_string(&mut text).expect("stdout is text");
    assert_eq!(shown.child.wait().expect("wait").code(), Some(0), "{text}");
    assert!(workshop.read("seen/splats.ply") == truth, "other splats for having been looked at");
}

#[test]
fn a_training_is_stopped_from_the_page_and_can_go_on() {
    let workshop = TestFolder::with_data();
    let arguments =
        ["train", "data", "-o", "run", "--steps", "1000000", "--json", "--viewer=0", "--viewer-linger"];
    let shown = RunningViewer::start(&workshop, &arguments);
    let mut robot = PageClient::connect(&shown);
    robot.send(&json!({"t": "command", "what": "stop"}));
    // The training ends, perhaps before a page is notified that it has saved.
    let (code, summary) = shown.end(None);
    assert_eq!(code, 130, "{summary}");
    assert!(!crate::support::checkpoints(&workshop.path("run")).is_empty());
}

#[test]
fn a_result_stays_viewable_until_somebody_ends_it() {
    let workshop = TestFolder::with_data();
    let arguments =
        ["train", "data", "-o", "run", "--steps", "20", "--json", "--viewer=0", "--viewer-linger"];
    let shown = RunningViewer::start(&workshop, &arguments);
    let mut robot = PageClient::connect(&shown);
    while robot.scene["live"] != false {
        robot.next();
    }
    let there = robot.see(5, 0, &json!({"exact": true}));
    assert_eq!(there.step, 20);
    workshop.succeed(&["render", "run", "--split", "all", "-o", "pictures"]);
    let name = robot.scene["cameras"][0]["name"].as_str().expect("a name").to_owned();
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem).to_owned();
    let truth = decoded(&workshop.read(&format!("pictures/{stem}.png")));
    // The file holds the rotated and rounded splats, so some pixels differ by one level.
    let off = decoded(&there.bytes).into_iter().zip(truth).map(|(a, b)| a.abs_diff(b)).max();
    assert!(off <= Some(2), "{off:?} levels between the live view and the file");
    let (code, _) = shown.end(Some(Signal::INT));
    assert_eq!(code, 0);
}

#[test]
fn a_finished_training_tells_scene_and_sky_apart_as_info_does() {
    let workshop = TestFolder::with_data();
    let options = "--steps 20 --background sky --json --viewer=0 --viewer-linger";
    let options: Vec<&str> = options.split(' ').collect();
    let shown = RunningViewer::start(&workshop, &[&["train", "data", "-o", "run"][..], &options].concat());
    let mut robot = PageClient::connect(&shown);
    while robot.scene["live"] != false {
        robot.next();
    }
    let live = robot.scene.clone();
    assert_eq!(shown.end(Some(Signal::INT)).0, 0);
    let info = workshop.succeed(&["info", "run/splats.ply", "--json"]).json();
    assert!(info["sky"].as_u64() > Some(0), "{info}");
    assert_eq!((&live["splats"], &live["sky"]), (&info["count"], &info["sky"]));
    // A viewer of the file tells the same.
    let shown = RunningViewer::start(&workshop, &["view", "run", "--json", "--port", "0"]);
    let file = PageClient::connect(&shown).scene;
    assert_eq!((&file["splats"], &file["sky"]), (&info["count"], &info["sky"]));
    assert_eq!(shown.end(Some(Signal::TERM)).0, 0);
}
