//! Damaged requests and messages: thousands of variants of valid ones, some of them against a real server. Nothing ends
//! the server, no client waits forever, and numbers from outside never make a frame larger than its limit.

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use gausset_core::Camera;
use gausset_view::ServerOptions;
use gausset_view::protocol::{MAX_FRAME_PIXELS, PageMessage};
use gausset_view::server::TimeLimits;
use support::{Ended, Robot, World, get};

/// One message of each kind that a page sends.
const MESSAGES: [&str; 8] = [
    r#"{"t":"hello","version":1,"token":"0123456789abcdef0123456789abcdef"}"#,
    r#"{"t":"view","id":7,"camera":[516,344,400.5,400.5,258,172],"pose":[1,0,0,0.5,0,1,0,-2e-3,0,0,1,4],"what":"error","moving":true,"exact":false,"against":3,"gain":4.0,"at":[0.5,0.25],"sh_degree":2,"near":0.01,"background":[0,0.5,1],"aside":true,"ack":6}"#,
    r#"{"t":"photo","id":9,"camera":4,"side":640}"#,
    r#"{"t":"ack","id":8}"#,
    r#"{"t":"hidden","hidden":true}"#,
    r#"{"t":"command","what":"pause"}"#,
    r#"{"t":"snapshot","have":3,"moving":true}"#,
    r#"{"t":"filter","filter":{"min_opacity":0.5,"drop_far":20,"sphere":[0,1,2,3],"box":[-1,-2,-3,4,5,6],"max_size":0.5,"shrink":0.5}}"#,
];
/// Requests of a browser.
const REQUESTS: [&str; 5] = [
    "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
    "GET /api/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 00112233445566778899aabbccddeeff\r\n\r\n",
    "GET /api/snapshot HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 00112233445566778899aabbccddeeff\r\n\r\n",
    "GET /thumb/18446744073709551616 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 00112233445566778899aabbccddeeff\r\n\r\n",
    "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
];
/// Replacements of numbers.
const NUMBERS: [&str; 12] = [
    "-1",
    "0",
    "1e999",
    "-1e308",
    "4294967296",
    "18446744073709551616",
    "65535",
    "1e-320",
    "null",
    "[]",
    "\"7\"",
    "NaN",
];

/// A small deterministic generator (SplitMix64, Steele et al. 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % count as u64) as usize
    }

    /// Truncates, flips bits, repeats parts, or replaces numbers.
    fn damage(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len().max(1));
            match self.below(6) {
                0 => bytes.truncate(at),
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.insert(at, self.below(256) as u8),
                3 => bytes.extend_from_within(at..),
                4 => drop(bytes.drain(at..(at + self.below(9)).min(bytes.len()))),
                _ => {
                    let starts: Vec<usize> =
                        (0..bytes.len()).filter(|&i| bytes[i].is_ascii_digit()).collect();
                    let Some(&start) = starts.get(self.below(starts.len().max(1))) else { continue };
                    let length = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
                    let number = NUMBERS[self.below(NUMBERS.len())];
                    bytes.splice(start..start + length, number.bytes());
                }
            }
        }
        bytes
    }
}

#[test]
fn damaged_messages_give_a_view_within_the_limits_or_an_error() {
    let mut dice = Dice(1);
    let (mut understood, mut drawable) = (0, 0);
    for k in 0..60_000 {
        let bytes = dice.damage(MESSAGES[k % MESSAGES.len()]);
        let Ok(text) = std::str::from_utf8(&bytes) else { continue };
        let Ok(message) = serde_json::from_str::<PageMessage>(text) else { continue };
        understood += 1;
        let PageMessage::View(view) = message else { continue };
        let Ok((camera, pose)) = view.view() else { continue };
        drawable += 1;
        assert!(camera.pixels() as u64 <= MAX_FRAME_PIXELS && camera.width <= Camera::MAX_SIDE, "{text}");
        assert!(pose.rotation.iter().flatten().chain(&pose.translation).all(|v| v.is_finite()), "{text}");
    }
    // Some of the damaged messages are still valid.
    assert!(understood > 3_000 && drawable > 300, "{understood}, {drawable}");
}

#[test]
fn a_server_outlives_damaged_requests_and_messages_and_ends_each_connection() {
    let brief = TimeLimits { head: Duration::from_millis(400), idle: Duration::from_secs(5) };
    let world = World::with(ServerOptions { time_limits: brief, ..World::options() }).drawn();
    let mut dice = Dice(2);
    for k in 0..300 {
        let mut stream = world.connect();
        // The server may close early, while this is still being written.
        let _ = stream.write_all(&dice.damage(REQUESTS[k % REQUESTS.len()]));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    let mut other_ends = Vec::new();
    for k in 0..150 {
        let mut robot = Robot::enter(&world);
        let text = dice.damage(MESSAGES[k % MESSAGES.len()]);
        match std::str::from_utf8(&text) {
            Ok(text) => robot.try_say(text),
            Err(_) => robot.say_bytes(&text),
        }
        // An invalid message ends those connections that the damage has left alive.
        robot.try_say("[]");
        match robot.end() {
            Ended::Closed(1003 | 1008, _) => {}
            end => other_ends.push((k, end, text)),
        }
    }
    assert!(other_ends.is_empty(), "{other_ends:?}");
    assert_eq!(get(&world, "/healthz").status, 200);
    assert_eq!(world.pages(), 0);
}

#[test]
fn a_page_that_goes_on_talking_is_not_cut_off_before_it_hears_why() {
    let world = World::with(World::options()).drawn();
    let mut robot = Robot::enter(&world);
    for _ in 0..50 {
        robot.say_bytes(b"[]");
        std::thread::sleep(Duration::from_millis(1));
    }
    let end = robot.end();
    assert!(matches!(end, Ended::Closed(1003, _)), "{end:?}");
}
