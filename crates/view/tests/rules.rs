//! What the server accepts and refuses, in raw HTTP and over its WebSocket: each rule of `docs/reference/security.md`.

mod support;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gausset_compute::Pool;
use gausset_core::Splats;
use gausset_core::splats_transform::Similarity;
use gausset_io::dataset::{self, Loader, LoaderOptions, OpenOptions};
use gausset_io::splat::{self, Format, LoadOptions, SaveOptions, SplatFile, SpzAxes, SpzOptions};
use gausset_scenes::write_dataset;
use gausset_view::protocol::SplatFilter;
use gausset_view::scene::SceneDescription;
use gausset_view::server::{MAX_CONNECTIONS, TimeLimits};
use gausset_view::{Listen, Server, ServerOptions};
use support::{Ended, Robot, World, bytes_with_token, get, get_with_token, request};

#[test]
fn the_page_comes_with_a_strict_policy_and_without_cookies() {
    let world = World::new();
    let page = get(&world, "/");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<canvas"));
    for name in [
        "main.js",
        "link.js",
        "camera.js",
        "input.js",
        "stage.js",
        "path.js",
        "charts.js",
        "splats.js",
        "sort.js",
        "own.js",
        "over.js",
        "thumbs.js",
        "style.css",
        "icon.svg",
    ] {
        assert_eq!(get(&world, &format!("/assets/{name}")).status, 200, "{name}");
    }
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';")
            && policy.ends_with("frame-ancestors 'none'")
    );
    assert!(!policy.contains("unsafe"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cross-origin-opener-policy"), Some("same-origin"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("set-cookie"), None);
    assert!(!page.head.to_lowercase().contains("access-control-"));
    // No answer contains the secret.
    assert!(!page.head.contains(world.server.token()) && !page.body.contains(world.server.token()));
}

#[test]
fn only_named_origins_may_show_the_page_in_a_frame() {
    let frames = vec!["http://localhost:*".to_owned(), "vscode-webview:".to_owned()];
    let world = World::with(ServerOptions { frames, ..World::options() });
    let policy = |path: &str| {
        let answer = get(&world, path);
        answer.header("content-security-policy").unwrap().rsplit_once("; ").unwrap().1.to_owned()
    };
    assert_eq!(policy("/"), "frame-ancestors http://localhost:* vscode-webview:");
    assert_eq!(policy("/no-such-page"), "frame-ancestors 'none'");
}

#[test]
fn who_comes_by_another_name_or_from_another_site_gets_403_and_sees_nothing() {
    let world = World::new();
    let port = world.server.address().port();
    for path in ["/", "/ws", "/api/state", "/api/snapshot", "/thumb/0", "/healthz", "/nowhere"] {
        for host in ["evil.example", &format!("rebound.example:{port}"), "10.1.2.3", ""] {
            let text = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let answer = request(&world, &text);
            assert_eq!((answer.status, answer.body.as_str()), (403, "403 Forbidden\n"), "{path} {host}");
        }
        let text =
            format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://evil.example\r\n\r\n");
        assert_eq!(request(&world, &text).status, 403, "{path}");
        assert_eq!(request(&world, &format!("GET {path} HTTP/1.1\r\n\r\n")).status, 403);
    }
    // Another program of this machine has another origin.
    let text = format!("GET /ws HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:1\r\n\r\n");
    assert_eq!(request(&world, &text).status, 403);
}

#[test]
fn the_state_needs_the_token_and_health_does_not() {
    let world = World::new();
    assert_eq!(get(&world, "/healthz").body, "ok\n");
    assert_eq!(get(&world, "/api/state").status, 403);
    let with = |secret: &str| {
        let head = "GET /api/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ";
        request(&world, &format!("{head}{secret}\r\n\r\n"))
    };
    assert_eq!(with("0123456789abcdef0123456789abcdef").status, 403);
    let answer = with(world.server.token());
    assert_eq!(answer.status, 200);
    let state: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((state["schema"].as_u64(), state["kind"].as_str()), (Some(1), Some("viewer")));
}

#[test]
fn splats_and_small_photographs_need_the_token() {
    let world = World::new().drawn();
    let paths =
        ["/api/snapshot", "/thumb/0", "/thumb/-1", "/thumb/../Cargo.toml", "/thumb/99999999999999999999"];
    for path in paths {
        assert_eq!(get(&world, path).status, 403, "{path}");
        let text = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
            "0".repeat(32)
        );
        assert_eq!(request(&world, &text).status, 403, "{path}");
        // There are no photographs, and no page has asked for splats.
        assert_eq!(get_with_token(&world, path).status, 404, "{path}");
    }
    let mut robot = Robot::enter(&world);
    robot.say(r#"{"t":"snapshot","have":0,"moving":true}"#);
    let told = robot.hear();
    assert_eq!((told["t"].as_str(), told["number"].as_u64()), (Some("snapshot"), Some(1)));
    let answer = get_with_token(&world, "/api/snapshot");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/octet-stream")));
    assert_eq!(answer.header("content-length"), Some(told["bytes"].to_string().as_str()));
    assert!(answer.body.starts_with("ply\n"));
    assert_eq!(get(&world, "/api/snapshot").status, 403);
    // A page that has the newest splats gets no message; one with older splats does.
    robot.say(r#"{"t":"snapshot","have":1,"moving":false}"#);
    robot.say(r#"{"t":"snapshot","have":0,"moving":false}"#);
    assert_eq!(robot.hear()["number"], 1);
}

fn write_ply(path: &Path, splats: Splats) {
    let mut bytes = Vec::new();
    splat::write(&mut bytes, &SplatFile::new(splats), Format::Ply, &SaveOptions::default()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn shown_splats_are_saved_in_four_formats_by_a_page_with_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new();
    assert_eq!(get_with_token(&world, "/api/save/ply").status, 404, "a training has no file");
    let path = folder.path().join("scene.ply");
    write_ply(&path, support::splats());
    world.hub.set_file(&path, LoadOptions::default());
    assert_eq!(get(&world, "/api/save/ply").status, 403);
    for word in ["exe", "", "..%2fscene.ply", "ply/../ply", "ksplat"] {
        assert_eq!(get_with_token(&world, &format!("/api/save/{word}")).status, 404, "{word}");
    }
    // A crop that keeps the half with x < 0.
    let half = SplatFilter { within_box: Some([-2.0, -2.0, 0.0, 0.0, 2.0, 9.0]), ..SplatFilter::default() };
    let scene = SceneDescription::from_splats("runs/a.ply".to_owned(), &support::splats(), None);
    world.hub.replace_scene(SceneDescription { filter: Some(half), ..scene });
    for word in ["html", "spz", "sog", "ply"] {
        let saved = folder.path().join(format!("saved.{word}"));
        std::fs::write(&saved, bytes_with_token(&world, &format!("/api/save/{word}"))).unwrap();
        let file = splat::load(&saved, &LoadOptions::default()).unwrap();
        assert_eq!(file.splats.len(), 100, "{word}");
        assert!(file.splats.means.iter().all(|mean| mean[0] < 0.01), "{word}");
    }
    assert!(std::fs::read_to_string(folder.path().join("saved.html")).unwrap().contains("<title>a</title>"));
    // The file has gone: one line says so.
    std::fs::remove_file(&path).unwrap();
    let answer = get_with_token(&world, "/api/save/ply");
    assert_eq!((answer.status, answer.body.lines().count()), (500, 1), "{}", answer.body);
    assert!(answer.body.contains("scene.ply"), "{}", answer.body);
}

#[test]
fn a_file_is_saved_in_the_axes_in_which_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let [path, saved] = ["scene.spz", "saved.ply"].map(|name| folder.path().join(name));
    let spz = SpzOptions { version: 3, ..SpzOptions::default() };
    let mut bytes = Vec::new();
    splat::write(
        &mut bytes,
        &SplatFile::new(support::splats()),
        Format::Spz,
        &SaveOptions { spz, ..SaveOptions::default() },
    )
    .unwrap();
    std::fs::write(&path, bytes).unwrap();
    let world = World::new();
    for spz_frame in [None, Some(SpzAxes::Rub)] {
        let options = LoadOptions { spz_frame, ..LoadOptions::default() };
        world.hub.set_file(&path, options);
        std::fs::write(&saved, bytes_with_token(&world, "/api/save/ply")).unwrap();
        let means = |path: &Path, options| splat::load(path, options).unwrap().splats.means;
        assert_eq!(means(&saved, &LoadOptions::default()), means(&path, &options), "{spz_frame:?}");
    }
}

#[test]
fn one_file_is_saved_at_a_time() {
    let brief = TimeLimits { idle: Duration::from_secs(3), ..TimeLimits::default() };
    let world = World::with(ServerOptions { time_limits: brief, ..World::options() });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.ply");
    // More than the buffers of a connection can hold.
    write_ply(&path, support::splats().select(&(0..400_000).map(|i| i % 200).collect::<Vec<_>>()));
    world.hub.set_file(&path, LoadOptions::default());
    let mut lazy = world.connect();
    let text = format!(
        "GET /api/save/ply HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        world.server.token()
    );
    lazy.write_all(text.as_bytes()).unwrap();
    lazy.read_exact(&mut [0; 16]).unwrap();
    assert_eq!(get_with_token(&world, "/api/save/ply").status, 503);
    // It does not read on and is dropped.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(get_with_token(&world, "/api/save/ply").status, 200);
}

#[test]
fn thumbnails_are_made_while_a_file_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let photos = folder.path().join("photos");
    write_dataset(&gausset_scenes::tiny(), &photos, &Pool::new(1), &mut |_, _| {}).unwrap();
    let dataset = Arc::new(dataset::open(&photos, &OpenOptions::default()).unwrap());
    let loader = Arc::new(Loader::new(dataset, LoaderOptions { budget_bytes: 1 << 20, threads: 0 }));
    let (_, photos) = SceneDescription::from_dataset(String::new(), loader, &Similarity::IDENTITY);
    let world = World::new();
    world.hub.set_thumbs(Some(photos.thumbs()));
    // Making this file takes much longer than a thumbnail.
    let path = folder.path().join("large.ply");
    write_ply(&path, support::splats().select(&(0..400_000).map(|i| i % 200).collect::<Vec<_>>()));
    world.hub.set_file(&path, LoadOptions::default());
    let mut saving = world.connect();
    let text = format!(
        "GET /api/save/sog HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        world.server.token()
    );
    saving.write_all(text.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(get_with_token(&world, "/thumb/0").header("content-type"), Some("image/jpeg"));
    assert_eq!(get_with_token(&world, "/api/save/ply").status, 503, "the file is still being made");
    saving.set_nonblocking(true).unwrap();
    assert!(saving.read(&mut [0; 16]).is_err(), "the file was made first");
}

#[test]
fn somebody_who_does_not_read_the_splats_is_dropped() {
    let brief = TimeLimits { idle: Duration::from_secs(3), ..TimeLimits::default() };
    let world = World::with(ServerOptions { time_limits: brief, ..World::options() });
    // More than the buffers of a connection can hold.
    let path = "/api/snapshot";
    world.hub.put_snapshot(vec![7; 32 << 20]);
    let mut stream = world.connect();
    let token = world.server.token();
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(bytes.len() < 32 << 20, "{}", bytes.len());
    assert_eq!(get_with_token(&world, path).body.len(), 32 << 20);
}

#[test]
fn somebody_who_reads_the_splats_slowly_gets_them_all() {
    let brief = TimeLimits { idle: Duration::from_secs(2), ..TimeLimits::default() };
    let world = World::with(ServerOptions { time_limits: brief, ..World::options() });
    let bytes = 32 << 20;
    world.hub.put_snapshot(vec![7; bytes]);
    let mut stream = world.connect();
    let token = world.server.token();
    let text =
        format!("GET /api/snapshot HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    // Twice the time limit in all, but never long without reading.
    let (mut read, mut part) = (0, vec![0; 1 << 20]);
    for _ in 0..32 {
        stream.read_exact(&mut part).unwrap();
        read += part.len();
        std::thread::sleep(Duration::from_millis(125));
    }
    // What is left is the head.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!((1..2000).contains(&(read + rest.len() - bytes)), "{}", read + rest.len());
}

#[test]
fn only_get_is_answered_and_what_is_not_there_is_404() {
    let world = World::new();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"] {
        let answer = request(&world, &format!("{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")), "{method}");
    }
    for path in [
        "/assets/../",
        "/assets/..%2f",
        "/../../etc/passwd",
        "//",
        "/index.html",
        "/thumb",
        "/api/other",
        "/?x",
        "/assets/",
    ] {
        assert_eq!(get(&world, path).status, 404, "{path}");
    }
    assert_eq!(get(&world, "/ws").status, 426);
    assert_eq!(request(&world, "nonsense\r\n\r\n").status, 400);
    assert_eq!(
        request(&world, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nnine bytes").status,
        405
    );
}

#[test]
fn a_head_that_is_too_long_or_comes_too_slowly_is_refused() {
    let patience = TimeLimits { head: Duration::from_millis(300), ..TimeLimits::default() };
    let world = World::with(ServerOptions { time_limits: patience, ..World::options() });
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(9 << 10));
    assert_eq!(request(&world, &long).status, 431);
    let many = "X: y\r\n".repeat(100);
    assert_eq!(request(&world, &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")).status, 431);
    // Single bytes at intervals do not extend the time limit.
    let mut stream = world.connect();
    stream.write_all(b"GET / HT").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(
        TimeLimits::default(),
        TimeLimits { head: Duration::from_secs(10), idle: Duration::from_secs(60) }
    );
}

#[test]
fn connections_without_the_token_keep_nobody_out() {
    let world = World::new();
    let mut page = Robot::enter(&world);
    let mut mute: Vec<_> = (0..4 * MAX_CONNECTIONS).map(|_| world.connect()).collect();
    // The page still gets a slot, and so does a program with the token.
    assert_eq!(get(&world, "/").status, 200);
    assert_eq!(Robot::enter(&world).hello["scene"]["title"], "a scene");
    // The oldest connections were closed, the page was not.
    for stream in &mut mute[..3 * MAX_CONNECTIONS] {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    page.say(r#"{"t":"command","what":"pause"}"#);
    assert_eq!(page.hear()["line"], "no training is running, or too many commands are waiting");
}

#[test]
fn a_page_without_the_token_is_told_nothing() {
    let world = World::new();
    for secret in ["", "0123456789abcdef0123456789abcdef"] {
        let mut robot = Robot::open(&world);
        robot.say(&format!(r#"{{"t":"hello","version":1,"token":"{secret}"}}"#));
        assert_eq!(robot.end(), Ended::Closed(1008, "token".into()));
    }
    let mut rude = Robot::open(&world);
    rude.say(r#"{"t":"command","what":"stop"}"#);
    assert_eq!(rude.end(), Ended::Closed(1008, "no hello".into()));
    let mut old = Robot::open(&world);
    old.say(&format!(r#"{{"t":"hello","version":0,"token":"{}"}}"#, world.server.token()));
    assert_eq!(old.hear()["t"], "version");
    assert_eq!(old.end(), Ended::Closed(1008, "version".into()));
    assert_eq!(Robot::enter(&world).hello["scene"]["title"], "a scene");
}

#[test]
fn a_redirect_lets_one_page_in_once_and_is_gone() {
    let world = World::new();
    let file = world.server.redirect().unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    let ticket = page.split_once("#token=").unwrap().1.split('"').next().unwrap();
    assert_ne!(ticket, world.server.token());
    let hello = format!(r#"{{"t":"hello","version":1,"token":"{ticket}"}}"#);
    let mut first = Robot::open(&world);
    first.say(&hello);
    // From then on it has the token.
    assert_eq!(first.hear()["token"], world.server.token());
    assert!(!file.exists() && !file.parent().unwrap().exists());
    let mut second = Robot::open(&world);
    second.say(&hello);
    assert_eq!(second.end(), Ended::Closed(1008, "token".into()));
    // An unused file is removed with the server.
    let unused = world.server.redirect().unwrap();
    assert!(unused.exists());
    drop(world);
    assert!(!unused.exists());
}

#[test]
fn nonsense_too_much_and_too_many_messages_end_a_page() {
    let world = World::new();
    let ended = |say: &dyn Fn(&mut Robot)| {
        let mut robot = Robot::enter(&world);
        say(&mut robot);
        robot.end()
    };
    assert_eq!(ended(&|robot| robot.say("{")), Ended::Closed(1003, "not a message".into()));
    assert_eq!(ended(&|robot| robot.say_bytes(&[1, 2, 3])), Ended::Closed(1003, "not a message".into()));
    // The rest of a long message is not read, so the end of the connection may overtake the reason.
    let long = ended(&|robot| robot.say(&" ".repeat(65 << 10)));
    assert!(matches!(&long, Ended::Gone) || matches!(&long, Ended::Closed(1009, _)), "{long:?}");
    let flood = ended(&|robot| (0..150).for_each(|id| robot.try_say(&format!(r#"{{"t":"ack","id":{id}}}"#))));
    assert!(
        matches!(&flood, Ended::Gone) || flood == Ended::Closed(1008, "too many messages".into()),
        "{flood:?}"
    );
    // Unknown messages of a later version do not end the connection.
    let mut robot = Robot::enter(&world);
    robot.say(r#"{"t":"teleport"}"#);
    robot.say(r#"{"t":"command","what":"pause"}"#);
    assert_eq!(robot.hear()["line"], "no training is running, or too many commands are waiting");
}

#[test]
fn empty_frames_without_end_are_not_read_for_long() {
    // Far more than the buffers of a connection can hold.
    const POURS: usize = 1000;
    let world = World::new();
    for mut robot in [Robot::open(&world), Robot::enter(&world)] {
        // The beginning of a message, then parts of it without content, each masked with zeros.
        assert!(robot.pour(&[0x01, 0x80, 0, 0, 0, 0]));
        let parts = [0x00, 0x80, 0, 0, 0, 0].repeat(10_000);
        let poured = (0..POURS).take_while(|_| robot.pour(&parts)).count();
        assert!(poured < POURS, "{poured} times 10,000 frames were read");
    }
    // Pages are still answered.
    Robot::enter(&world);
}

#[test]
fn a_page_that_shows_no_life_is_dropped() {
    let patience = TimeLimits { idle: Duration::from_millis(300), ..TimeLimits::default() };
    let world = World::with(ServerOptions { time_limits: patience, ..World::options() });
    let robot = Robot::enter(&world);
    // A page that does not read does not answer pings.
    std::thread::sleep(Duration::from_millis(1200));
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.pages() > 0 {
        assert!(Instant::now() < deadline, "still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(robot);
}

#[test]
fn a_port_that_is_taken_is_an_error_only_where_it_was_asked_for() {
    let world = World::new();
    let taken = Some(world.server.address().port());
    let options = ServerOptions { port: taken, ..ServerOptions::default() };
    let error = Server::start(gausset_view::hub::Hub::new(Default::default()), &options).err().unwrap();
    assert!(error.to_string().starts_with("⟨port⟩: 127.0.0.1:"), "{error}");
    let free = ServerOptions { port: None, ..ServerOptions::default() };
    let server = Server::start(gausset_view::hub::Hub::new(Default::default()), &free).unwrap();
    assert!(server.address().ip().is_loopback() && server.address().port() >= 7007);
    assert!(!server.is_public() && server.url().starts_with("http://127.0.0.1:"));
    assert_eq!(Listen::default(), Listen::Loopback);
}
