//! Simulated pages with a moving camera, and the frames they receive.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use gausset_core::engine::TrainView;
use gausset_view::protocol::pose_rows;
use serde_json::json;

use super::link::SimulatedLink;
use super::page::{ReceivedFrame, ViewerClient};

/// Number of untimed frames at the start, during which the frame size settles.
pub(super) const WARM_UP: u64 = 30;
/// Time between two camera positions of a drag: one refresh of a 60 Hz screen.
const REFRESH_INTERVAL: Duration = Duration::from_micros(16_667);
/// Time after which a page sends another request although the last frame has not arrived, up to three in total.
const RETRY_AFTER: Duration = Duration::from_millis(60);

/// The server and view of simulated pages.
#[derive(Clone)]
pub(super) struct SimulatedPage {
    pub(super) server: SocketAddr,
    pub(super) token: String,
    pub(super) view: TrainView,
    pub(super) frames: u64,
    pub(super) link: Option<SimulatedLink>,
}

impl SimulatedPage {
    /// Requests all frames. Returns those after the warm-up, and their total time in seconds.
    pub(super) fn request_frames(&self) -> io::Result<(Vec<ReceivedFrame>, f64)> {
        let near = match self.link {
            Some(link) => link.open(self.server)?,
            None => self.server,
        };
        let page = ViewerClient::open(near, self.server, &self.token)?;
        let mut seen =
            if self.link.is_some() { self.request_during_drag(page)? } else { self.request_in_turn(page)? };
        let timed = seen.split_off((WARM_UP as usize).min(seen.len()));
        let seconds = match (seen.last(), timed.last()) {
            (Some(first), Some(last)) => last.at.duration_since(first.at).as_secs_f64(),
            _ => 0.0,
        };
        Ok((timed, seconds))
    }

    /// Requests one frame after the other, as fast as they arrive.
    fn request_in_turn(&self, mut page: ViewerClient) -> io::Result<Vec<ReceivedFrame>> {
        (1..=WARM_UP + self.frames).map(|id| page.request_frame(&self.message(id, id - 1))).collect()
    }

    /// Requests frames as the page does during a drag: a camera per screen refresh, with as many requests in flight as
    /// the page allows (`page/stage.js`).
    fn request_during_drag(&self, mut page: ViewerClient) -> io::Result<Vec<ReceivedFrame>> {
        let frames = self.read_in_background(page.reader()?);
        let (mut seen, mut sent): (Vec<ReceivedFrame>, Vec<Instant>) = (Vec::new(), Vec::new());
        let (mut waiting, mut tick) = (0u32, Instant::now());
        while seen.len() < (WARM_UP + self.frames) as usize {
            match frames.recv_timeout(tick.saturating_duration_since(Instant::now())) {
                Ok(frame) => {
                    let mut frame = frame?;
                    // The latency counts from sending the camera that the frame shows.
                    let asked = sent.get((frame.id as usize).wrapping_sub(1));
                    frame.ms = asked.map_or(f64::NAN, |asked| 1e3 * (frame.at - *asked).as_secs_f64());
                    waiting = waiting.saturating_sub(1);
                    page.send(&json!({ "t": "ack", "id": frame.id }).to_string())?;
                    seen.push(frame);
                }
                Err(RecvTimeoutError::Timeout) => {
                    tick = Instant::now() + REFRESH_INTERVAL;
                    let may_ask_again =
                        waiting < 3 && sent.last().is_none_or(|last| last.elapsed() > RETRY_AFTER);
                    if waiting == 0 || may_ask_again {
                        sent.push(Instant::now());
                        waiting += 1;
                        page.send(&self.message(sent.len() as u64, 0))?;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the server has ended the connection"));
                }
            }
        }
        Ok(seen)
    }

    fn read_in_background(&self, mut page: ViewerClient) -> Receiver<io::Result<ReceivedFrame>> {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            loop {
                let frame = page.next_frame(Instant::now());
                let is_over = frame.is_err();
                if sender.send(frame).is_err() || is_over {
                    return;
                }
            }
        });
        receiver
    }

    /// A request for the view number `id`.
    fn message(&self, id: u64, ack: u64) -> String {
        let camera = &self.view.camera;
        let mut pose = pose_rows(&self.view.pose);
        // Moved slightly each time, so that no frame can be reused.
        pose[3] += 1e-4 * id as f64;
        let [width, height] = [camera.width, camera.height].map(f64::from);
        let intrinsics = [width, height, camera.fx, camera.fy, camera.cx, camera.cy];
        let mut message =
            json!({ "t": "view", "id": id, "camera": intrinsics, "pose": pose, "moving": true });
        if ack > 0 {
            message["ack"] = json!(ack);
        }
        message.to_string()
    }
}
