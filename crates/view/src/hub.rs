//! State shared by the server's thread and the renderer: requests of pages, and their results.
//!
//! Each page has one slot for a view, where a new one replaces one that was not taken yet, and a short queue of side
//! requests (photographs, screenshots), which are all answered. The number of frames in flight (rendering, sent, not
//! acknowledged) is bounded by a window. So memory does not grow with time, with stalled pages or with slow links, and
//! the renderer never waits for a page.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gausset::broadcast::{Broadcast, Receiver};
use gausset_core::engine::Rendering;
use gausset_io::splat::{LoadOptions, ReadLimits};
use gausset_train::{Event, MemoryPlan};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::budget::{ByteCounter, FRAME_BYTES_PER_PIXEL, MemoryBudget, Reservation};
use crate::history::ChartHistory;
use crate::job::{RenderJob, Request};
use crate::pace::FramePacing;
use crate::protocol::{Command, SplatFilter, VERSION};
use crate::result::JobResult;
use crate::scene::SceneDescription;
use crate::snapshot::{self, Snapshot, SnapshotError, Snapshots};
use crate::thumbs::Thumbnails;

/// Largest number of connected pages.
pub const MAX_PAGES: usize = 8;
/// Number of events that a page may lag behind before it loses the oldest.
const MAX_PENDING_EVENTS: usize = 64;
/// Largest number of side requests of a page that wait.
const MAX_SIDE_REQUESTS: usize = 4;
/// Largest number of commands that wait for the training.
const MAX_COMMANDS: usize = 16;
/// Shortest interval at which a view at rest is rendered again after a change of the splats.
const REPEAT_INTERVAL: Duration = Duration::from_secs(2);
/// A frame is rendered smaller instead of later if at least this fraction of its page's quota (one part in N) is free.
const MIN_QUOTA_PART: u64 = 32;

/// Why a request of a page is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedRequest {
    /// An exact image exceeds the memory of the viewer.
    #[error("{pixels} px exceed the memory limit of the viewer (expected at most {most} px)")]
    ImageTooLarge { pixels: u64, most: u64 },
    /// Too many side requests wait.
    #[error("too many images were requested at once (expected at most {MAX_SIDE_REQUESTS})")]
    TooMany,
}

/// State of a connected page.
struct Page {
    view: Option<(Request, Instant)>,
    /// Side requests: photographs and screenshots.
    side_requests: VecDeque<(Request, Instant)>,
    /// The last view that was taken, the state of the splats at that time, and when.
    last_view: Option<(Request, u64, Instant)>,
    /// Ids of the frames in flight, and when they were sent.
    in_flight: Vec<(u32, Option<Instant>)>,
    /// Bytes of the frames in flight.
    bytes_in_flight: ByteCounter,
    pace: FramePacing,
    is_hidden: bool,
    /// Whether it draws in the browser and waits for newer splats.
    wants_snapshot: bool,
    results: VecDeque<JobResult>,
    notify: Arc<Notify>,
}

impl Page {
    fn may_start_frame(&self) -> bool {
        self.in_flight.len() < self.pace.window()
    }

    /// The next request, except repetitions of the last view.
    fn next_request(&self) -> Option<&Request> {
        self.view.as_ref().or(self.side_requests.front()).map(|(ask, _)| ask)
    }
}

struct HubState {
    budget: MemoryBudget,
    /// Bytes of all frames in flight, and of those that hold a photograph.
    frame_bytes: ByteCounter,
    photo_bytes: ByteCounter,
    /// A buffer for the next frame.
    spare: Option<Rendering>,
    pages: BTreeMap<u64, Page>,
    /// Number of the page that was served last; the next one has priority.
    last_served: u64,
    commands: VecDeque<Command>,
    /// The newest filter that was not applied yet.
    filter: Option<SplatFilter>,
    snapshots: Snapshots,
    thumbs: Option<Arc<Thumbnails>>,
    /// The file whose splats are shown, and how it is read.
    file: Option<(PathBuf, LoadOptions)>,
    scene: Arc<SceneDescription>,
    history: ChartHistory,
    /// The last event of each name.
    latest_events: BTreeMap<String, Value>,
    step: u64,
}

impl HubState {
    fn new(scene: SceneDescription) -> Self {
        Self {
            // The default share for files; a run sets its own.
            budget: MemoryBudget::new(MemoryPlan::viewer_budget(ReadLimits::default().memory_bytes)),
            frame_bytes: ByteCounter::default(),
            photo_bytes: ByteCounter::default(),
            spare: None,
            pages: BTreeMap::new(),
            last_served: 0,
            commands: VecDeque::new(),
            filter: None,
            snapshots: Snapshots::default(),
            thumbs: None,
            file: None,
            scene: Arc::new(scene),
            history: ChartHistory::default(),
            latest_events: BTreeMap::new(),
            step: 0,
        }
    }

    /// Largest number of pixels that a frame of a page may have now; `None` if it has to wait.
    fn pixel_limit(&self, page: &Page, ask: &Request) -> Option<u64> {
        if ask.needs_photo() && self.photo_bytes.bytes() > 0 {
            return None;
        }
        let free = self.budget.frames.saturating_sub(self.frame_bytes.bytes());
        if ask.is_exact() {
            let possible = free / FRAME_BYTES_PER_PIXEL;
            return (possible >= ask.pixels()).then_some(possible);
        }
        // Half of the free memory stays for the next page, as this page may never read its frame.
        let quota = self.budget.quota(self.pages.len());
        let possible =
            quota.saturating_sub(page.bytes_in_flight.bytes()).min(free / 2) / FRAME_BYTES_PER_PIXEL;
        let least = quota / FRAME_BYTES_PER_PIXEL / MIN_QUOTA_PART;
        (possible >= ask.pixels().min(least)).then_some(possible)
    }

    /// The page to serve next, and the largest number of pixels of its frame.
    fn next_page(&self, splats: u64) -> Option<(u64, u64)> {
        let ready = |(&number, page): (&u64, &Page)| {
            let is_old = page.last_view.as_ref().is_some_and(|(ask, then, at)| {
                *then != splats && is_resting(ask) && at.elapsed() >= REPEAT_INTERVAL
            });
            let last = || page.last_view.as_ref().filter(|_| is_old).map(|(ask, ..)| ask);
            let ask =
                page.next_request().or_else(last).filter(|_| page.may_start_frame() && !page.is_hidden)?;
            self.pixel_limit(page, ask).map(|pixels| (number, pixels))
        };
        let next = self.pages.range(self.last_served + 1..).find_map(ready);
        next.or_else(|| self.pages.iter().find_map(ready))
    }

    /// Frees the spare buffer if it and the frames in flight exceed the limit of frames.
    fn free_spare(&mut self) {
        let budget = self.budget.frames.saturating_sub(self.frame_bytes.bytes());
        self.spare.take_if(|spare| bytes_of(spare) > budget);
    }

    /// Whether pages wait for this state of the splats and packing may start now.
    fn is_snapshot_due(&self, splats: u64) -> bool {
        self.pages.values().any(|page| page.wants_snapshot && !page.is_hidden)
            && !self.snapshots.is_current(splats)
            && self.snapshots.may_begin(self.scene.live)
    }

    /// Current number of splats.
    fn count(&self) -> u64 {
        let told = |name: &str| self.latest_events.get(name)?["splats"].as_u64();
        let now = || told("progress").or_else(|| told("started"));
        if self.scene.live { now().unwrap_or(0) } else { self.scene.splats as u64 }
    }
}

/// Exchanges requests, frames and events between pages and a renderer.
pub struct Hub {
    state: Mutex<HubState>,
    wake: Condvar,
    /// Number of visible pages and waiting commands, so that a training thread sees with one load whether there is
    /// work.
    pending: AtomicUsize,
    events: Broadcast<String>,
}

/// Handle of a page that is attached to the hub.
pub(crate) struct PageHandle {
    pub(crate) page: u64,
    pub(crate) notify: Arc<Notify>,
    pub(crate) events: Receiver<String>,
}

impl Hub {
    /// Creates a hub for a scene.
    #[must_use]
    pub fn new(scene: SceneDescription) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(HubState::new(scene)),
            wake: Condvar::new(),
            pending: AtomicUsize::new(0),
            events: Broadcast::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        // No operation under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recounts the visible pages and waiting commands, and wakes the renderer.
    fn update_pending(&self, state: &HubState) {
        let visible = state.pages.values().filter(|page| !page.is_hidden).count();
        self.pending.store(visible + state.commands.len(), Ordering::Relaxed);
        self.wake.notify_all();
    }

    // Used by the renderer.

    /// Sets the memory limit of frames, splats for browsers and thumbnails together, bytes.
    pub fn limit_memory(&self, share: u64) {
        let mut state = self.lock();
        state.budget = MemoryBudget::new(share);
        if let Some(thumbs) = &state.thumbs {
            thumbs.limit_memory(state.budget.thumbs);
        }
    }

    /// Whether a page is visible or a command waits.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Takes the next job. Requests of pages come first, in turn; then views at rest that show an older state of the
    /// splats than `splats`.
    #[must_use]
    pub fn take_job(&self, splats: u64) -> Option<RenderJob> {
        let mut state = self.lock();
        let (number, pixels) = state.next_page(splats)?;
        state.last_served = number;
        let (used, photos) = (state.frame_bytes.clone(), state.photo_bytes.clone());
        let page = state.pages.get_mut(&number)?;
        let (ask, asked, renewed) = match page.view.take().or_else(|| page.side_requests.pop_front()) {
            Some((ask, asked)) => (ask, asked, false),
            None => (page.last_view.as_ref()?.0.clone(), Instant::now(), true),
        };
        page.in_flight.push((ask.id(), None));
        if ask.replaces_view() {
            page.last_view = Some((ask.clone(), splats, Instant::now()));
        }
        let ask = match ask {
            Request::View(view, camera, pose) if view.moving => {
                let reduced = page.pace.scaled_camera(&camera);
                Request::View(view, reduced, pose)
            }
            ask => ask,
        };
        let ask = ask.limited_to(pixels);
        let mut counters = vec![used, page.bytes_in_flight.clone()];
        counters.extend(ask.needs_photo().then_some(photos));
        // At least one pixel, so that a photograph is counted.
        let reserved = Reservation::new(ask.pixels().max(1) * FRAME_BYTES_PER_PIXEL, counters);
        state.free_spare();
        Some(RenderJob { page: number, request: ask, requested_at: asked, is_repeat: renewed, reserved })
    }

    /// Delivers a result to its page, if it is still connected.
    pub fn deliver(&self, drawn: JobResult) {
        let mut state = self.lock();
        if let Some(page) = state.pages.get_mut(&drawn.page) {
            page.results.push_back(drawn);
            page.notify.notify_one();
        }
    }

    /// Sleeps until there is a job or a command, but no longer than `timeout`.
    pub fn wait(&self, splats: u64, timeout: Duration) {
        let state = self.lock();
        let is_asked = !state.commands.is_empty() || state.filter.is_some() || state.is_snapshot_due(splats);
        if !is_asked && state.next_page(splats).is_none() {
            // The caller checks again, whatever the reason for waking up.
            let _ = self.wake.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The SH degree with which to pack this state of the splats for browsers, if packing should start now. If so,
    /// [`Self::end_snapshot`] must follow.
    pub(crate) fn begin_snapshot(&self, splats: u64) -> Option<u8> {
        let mut state = self.lock();
        if !state.is_snapshot_due(splats) {
            return None;
        }
        state.snapshots.begin();
        let count = state.count();
        if count > snapshot::MAX_SPLATS {
            self.take_snapshot(&mut state, splats, Err(SnapshotError::TooManySplats(count)));
            return None;
        }
        let sh_degree = if state.scene.live { 0 } else { state.scene.sh_degree };
        let room = state.budget.snapshots.saturating_sub(state.snapshots.bytes());
        let degree = snapshot::sent_degree(count, sh_degree, room);
        if degree.is_none() {
            self.take_snapshot(
                &mut state,
                splats,
                Err(SnapshotError::TooLittleMemory { splats: count, room }),
            );
        }
        degree
    }

    /// Stores packed splats, or the reason why packing failed.
    pub(crate) fn end_snapshot(&self, splats: u64, packed: Result<Vec<u8>, SnapshotError>) {
        self.take_snapshot(&mut self.lock(), splats, packed);
        self.wake.notify_all();
    }

    /// Stores splats that the caller has packed; for tests of the server.
    #[doc(hidden)]
    pub fn put_snapshot(&self, bytes: Vec<u8>) {
        self.end_snapshot(0, Ok(bytes));
    }

    fn take_snapshot(&self, state: &mut HubState, splats: u64, packed: Result<Vec<u8>, SnapshotError>) {
        state.snapshots.end(splats, packed);
        state.pages.values_mut().for_each(|page| page.wants_snapshot = false);
        if let Some(told) = state.snapshots.message_for(0) {
            self.broadcast(state, told);
        }
    }

    /// Takes the requested filter, if it was not applied yet.
    #[must_use]
    pub fn take_filter(&self) -> Option<SplatFilter> {
        self.lock().filter.take()
    }

    /// Takes the oldest command.
    #[must_use]
    pub fn take_command(&self) -> Option<Command> {
        let mut state = self.lock();
        let command = state.commands.pop_front()?;
        self.update_pending(&state);
        Some(command)
    }

    /// Number of splats according to the last event.
    #[must_use]
    pub fn splats(&self) -> u64 {
        self.lock().count()
    }

    /// Sends an event to all pages.
    pub fn send_event(&self, event: &Event) {
        let line = event.to_json();
        let mut state = self.lock();
        state.history.add_event(event);
        if let Ok(value) = serde_json::from_str::<Value>(&line) {
            state.step = value["step"].as_u64().unwrap_or(state.step);
            let name = value["event"].as_str().unwrap_or_default().to_owned();
            state.latest_events.insert(name, value);
        }
        self.broadcast(&state, json_message("event", "event", &line));
    }

    /// Replaces the scene of all pages.
    pub fn replace_scene(&self, scene: SceneDescription) {
        let mut state = self.lock();
        state.scene = Arc::new(scene);
        let text = serde_json::to_string(&*state.scene).unwrap_or_default();
        self.broadcast(&state, json_message("scene", "scene", &text));
    }

    /// Sets the file whose splats are shown, so that pages can save them in other formats.
    pub fn set_file(&self, path: &Path, options: LoadOptions) {
        self.lock().file = Some((path.to_owned(), options));
    }

    /// Sets the thumbnails of the scene's photographs.
    pub fn set_thumbs(&self, thumbs: Option<Arc<Thumbnails>>) {
        let mut state = self.lock();
        if let Some(thumbs) = &thumbs {
            thumbs.limit_memory(state.budget.thumbs);
        }
        state.thumbs = thumbs;
    }

    /// Sets the curves of a finished run.
    pub fn set_history(&self, log: &[Value]) {
        self.lock().history = ChartHistory::from_log(log);
    }

    fn broadcast(&self, state: &HubState, line: String) {
        self.events.send(line);
        state.pages.values().for_each(|page| page.notify.notify_one());
    }

    /// A buffer for the frame of a job: the spare one if it fits within the job's memory, or a new one.
    #[must_use]
    pub fn take_buffer(&self, job: &RenderJob) -> Rendering {
        let spare = self.lock().spare.take();
        spare.filter(|spare| bytes_of(spare) <= job.reserved.bytes()).unwrap_or_default()
    }

    /// Returns a buffer, which is kept as the spare one while there are pages and memory for it.
    pub fn return_buffer(&self, rendering: Rendering) {
        let mut state = self.lock();
        if !state.pages.is_empty() {
            state.spare = Some(rendering);
            state.free_spare();
        }
    }

    /// Wakes the renderer because memory was freed, so that another frame may fit.
    pub(crate) fn wake(&self) {
        self.wake.notify_all();
    }

    // Used by the server.

    /// Attaches a page; `None` if there are [`MAX_PAGES`] already.
    pub(crate) fn attach(&self) -> Option<PageHandle> {
        let mut state = self.lock();
        if state.pages.len() >= MAX_PAGES {
            return None;
        }
        let page = state.pages.keys().next_back().map_or(1, |last| last + 1).max(state.last_served + 1);
        let notify = Arc::new(Notify::new());
        let new = Page {
            view: None,
            side_requests: VecDeque::new(),
            last_view: None,
            in_flight: Vec::new(),
            bytes_in_flight: ByteCounter::default(),
            pace: FramePacing::default(),
            is_hidden: false,
            wants_snapshot: false,
            results: VecDeque::new(),
            notify: Arc::clone(&notify),
        };
        state.pages.insert(page, new);
        self.update_pending(&state);
        Some(PageHandle { page, notify, events: self.events.subscribe(MAX_PENDING_EVENTS) })
    }

    /// Detaches a page.
    pub(crate) fn detach(&self, page: u64) {
        let mut state = self.lock();
        state.pages.remove(&page);
        if state.pages.is_empty() {
            state.spare = None;
        }
        self.update_pending(&state);
    }

    fn with_page<T>(&self, page: u64, change: impl FnOnce(&mut Page) -> T) -> Option<T> {
        let mut state = self.lock();
        let changed = state.pages.get_mut(&page).map(change);
        self.update_pending(&state);
        changed
    }

    /// Stores a request of a page.
    ///
    /// # Errors
    /// An exact image that exceeds the memory of the viewer, or a side request for which the queue has no room.
    pub(crate) fn request(&self, page: u64, ask: Request) -> Result<(), RefusedRequest> {
        let most = self.lock().budget.max_pixels();
        if ask.is_exact() && ask.pixels() > most {
            return Err(RefusedRequest::ImageTooLarge { pixels: ask.pixels(), most });
        }
        let stored = self.with_page(page, |page| {
            let asked = Instant::now();
            if ask.replaces_view() {
                page.view = Some((ask, asked));
            } else if page.side_requests.len() < MAX_SIDE_REQUESTS {
                page.side_requests.push_back((ask, asked));
            } else {
                return Err(RefusedRequest::TooMany);
            }
            Ok(())
        });
        stored.unwrap_or(Ok(()))
    }

    /// Sets whether a page is visible.
    pub(crate) fn set_hidden(&self, page: u64, is_hidden: bool) {
        self.with_page(page, |page| page.is_hidden = is_hidden);
    }

    /// Acknowledges a frame and all frames before it.
    pub(crate) fn acknowledge(&self, page: u64, id: u32) {
        self.with_page(page, |page| {
            let Some(at) = page.in_flight.iter().position(|(sent, at)| *sent == id && at.is_some()) else {
                return;
            };
            if let Some(sent) = page.in_flight[at].1 {
                page.pace.add_round_trip(sent.elapsed());
            }
            page.in_flight.drain(..=at);
        });
    }

    /// Takes the next result of a page, which is encoded and sent immediately.
    pub(crate) fn next_drawn(&self, page: u64) -> Option<JobResult> {
        self.lock().pages.get_mut(&page)?.results.pop_front()
    }

    /// JPEG quality for a page while its view moves.
    pub(crate) fn quality(&self, page: u64) -> u8 {
        self.lock().pages.get(&page).map_or(70, |page| page.pace.quality())
    }

    /// Records that a frame is sent, and the time of its rendering and encoding. `is_over`: no acknowledgement will
    /// follow.
    pub(crate) fn frame_sent(&self, page: u64, id: u32, moving_ms: Option<f64>, is_over: bool) {
        self.with_page(page, |page| {
            if let Some(ms) = moving_ms {
                page.pace.add_frame_time(ms);
            }
            let Some(at) = page.in_flight.iter().position(|(sent, at)| *sent == id && at.is_none()) else {
                return;
            };
            if is_over {
                page.in_flight.remove(at);
            } else {
                page.in_flight[at].1 = Some(Instant::now());
            }
        });
    }

    /// A page draws in the browser and asks for newer splats than `have`. Returns the message to send immediately, if
    /// any.
    pub(crate) fn want_snapshot(&self, page: u64, have: u64, is_moving: bool) -> Option<String> {
        self.with_page(page, |page| {
            page.wants_snapshot = true;
            if is_moving {
                (page.view, page.last_view) = (None, None);
            }
        });
        self.lock().snapshots.message_for(have)
    }

    /// The newest packed splats.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.lock().snapshots.newest().cloned()
    }

    /// The file whose splats are shown, how it is read, and the scene; `None` in a training.
    pub(crate) fn shown_file(&self) -> Option<(PathBuf, LoadOptions, Arc<SceneDescription>)> {
        let state = self.lock();
        let (path, options) = state.file.clone()?;
        Some((path, options, Arc::clone(&state.scene)))
    }

    /// Thumbnails of the photographs, and the background colour.
    pub(crate) fn thumbs(&self) -> Option<(Arc<Thumbnails>, [f32; 3])> {
        let state = self.lock();
        Some((Arc::clone(state.thumbs.as_ref()?), state.scene.background))
    }

    /// Queues a command for the training; `false` if the queue is full or no training runs.
    pub(crate) fn queue_command(&self, command: Command) -> bool {
        let mut state = self.lock();
        let has_room = state.scene.live && state.commands.len() < MAX_COMMANDS;
        if has_room {
            state.commands.push_back(command);
            self.update_pending(&state);
        }
        has_room
    }

    /// Requests other splats to be shown; `false` if the scene cannot be filtered.
    pub(crate) fn request_filter(&self, filter: SplatFilter) -> bool {
        let mut state = self.lock();
        let can_filter = state.scene.filter.is_some();
        if can_filter {
            state.filter = Some(filter);
            self.update_pending(&state);
        }
        can_filter
    }

    /// Sends a line of text to all pages.
    pub(crate) fn send_line(&self, line: &str) {
        let state = self.lock();
        let line = serde_json::to_string(line).unwrap_or_default();
        self.broadcast(&state, json_message("error", "line", &line));
    }

    /// The first message to a page.
    pub(crate) fn hello_message(&self, token: &str) -> String {
        let state = self.lock();
        json!({
            "t": "hello", "version": VERSION, "gausset": env!("CARGO_PKG_VERSION"), "token": token,
            "scene": *state.scene, "history": state.history, "events": state.latest_events,
        })
        .to_string()
    }

    /// The state for scripts, as JSON.
    pub(crate) fn state_json(&self) -> String {
        let state = self.lock();
        let SceneDescription { title, live, splats, cameras, .. } = &*state.scene;
        json!({
            "schema": Event::SCHEMA, "kind": "viewer", "title": title, "live": live, "splats": splats,
            "cameras": cameras.len(), "step": state.step, "pages": state.pages.len(), "events": state.latest_events,
        })
        .to_string()
    }
}

/// Bytes that a rendering has allocated.
fn bytes_of(rendering: &Rendering) -> u64 {
    let Rendering { color, alpha, depth, count, .. } = rendering;
    4 * (color.capacity() + alpha.capacity() + depth.capacity() + count.capacity()) as u64
}

/// Whether it is a view at rest.
fn is_resting(ask: &Request) -> bool {
    matches!(ask, Request::View(view, ..) if !view.moving && view.what != crate::protocol::FrameContent::Probe)
}

/// `{"t":…,"name":body}` with a body that is JSON already.
fn json_message(word: &str, name: &str, body: &str) -> String {
    format!("{{\"t\":\"{word}\",\"{name}\":{body}}}")
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
