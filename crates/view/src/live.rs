//! Renders a running training for the viewer, on the training thread between two steps. A request of a page cannot
//! influence a step, and a page that is not visible costs one atomic load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gausset::Watcher;
use gausset_core::sh::MAX_DEGREE;
use gausset_train::{Event, Request, Run};

use crate::hub::Hub;
use crate::job::RenderJob;
use crate::protocol::Command;
use crate::render::{RenderSettings, render_job};
use crate::scene::{Photos, SceneDescription};
use crate::snapshot;

/// Sleep of a paused or finished training between checks of the stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which the cameras of a training that refines poses are updated.
const POSE_INTERVAL: Duration = Duration::from_secs(5);

/// Renders a training for the pages of a [`Hub`].
pub struct LiveRenderer {
    hub: Arc<Hub>,
    /// Largest fraction of the time that rendering may take from training.
    time_fraction: f64,
    /// Whether the result stays viewable after the end, until the program is stopped.
    stays_open: bool,
    stop: Arc<AtomicBool>,
    /// Earliest time of the next frame.
    next_frame_at: Instant,
    photos: Option<Photos>,
    scene: SceneDescription,
    /// When the poses of the photographs were last updated, and after how many steps.
    poses_updated: (Instant, u64),
}

impl LiveRenderer {
    /// Creates a renderer for the pages of `hub` that uses at most this fraction of the time.
    #[must_use]
    pub fn new(hub: Arc<Hub>, share: f64, lingers: bool, stop: Arc<AtomicBool>) -> Self {
        let share = share.clamp(0.001, 1.0);
        Self {
            hub,
            time_fraction: share,
            stays_open: lingers,
            stop,
            next_frame_at: Instant::now(),
            photos: None,
            scene: SceneDescription::default(),
            poses_updated: (Instant::now(), 0),
        }
    }

    fn draw(&self, run: &mut Run, job: RenderJob) {
        let device_from_saved = run.saved_from_device().inverse();
        let step = run.step();
        run.with_device(|engine, options| {
            let look = RenderSettings {
                photos: self.photos.as_ref(),
                device_from_saved,
                options: *options,
                scene_splats: None,
                step,
                confidence: None,
            };
            render_job(&self.hub, job, engine, look);
        });
    }

    /// Has the splats packed for browsers, if it is time.
    fn start_snapshot(&self, run: &mut Run, state: u64) -> bool {
        let saved_from_device = run.saved_from_device();
        run.with_device(|engine, options| {
            snapshot::pack_if_due(&self.hub, state, engine, saved_from_device, options.antialiased)
        })
    }

    /// Updates the poses that the run has refined, so that photographs are shown at these.
    fn update_poses(&mut self, run: &mut Run) {
        self.poses_updated = (Instant::now(), run.step());
        let turn = run.saved_from_device();
        let Some(poses) = run.refined_poses() else { return };
        if let Some(photos) = &mut self.photos {
            photos.set_poses(&mut self.scene, &poses, &turn);
            self.hub.replace_scene(self.scene.clone());
        }
    }

    fn forward_commands(&self, run: &Run) {
        while let Some(command) = self.hub.take_command() {
            let request = match command {
                Command::Pause => Request::Pause,
                Command::Resume => Request::Resume,
                Command::Save => Request::Save,
                Command::Export => Request::Export,
                Command::Stop => Request::Stop,
            };
            // The request queue is full; dropping a command does no harm.
            let _ = run.requests().send(request);
        }
    }

    /// Publishes the scene of a run.
    fn publish_scene(&mut self, run: &mut Run) {
        let name = run.folder().file_name().map_or_else(String::new, |name| name.display().to_string());
        let saved_from_device = run.saved_from_device();
        let (scene, photos) =
            SceneDescription::from_dataset(name, Arc::clone(run.loader()), &saved_from_device);
        let mut options = run.with_device(|_, options| *options);
        options.near_plane *= saved_from_device.scale;
        // The number of splats is reported by events, and the SH degree grows during training.
        self.scene = SceneDescription {
            live: true,
            sh_degree: MAX_DEGREE,
            ..scene.with_render_options(&options, 0, 0)
        };
        self.hub.limit_memory(run.viewer_bytes());
        self.hub.set_thumbs(Some(photos.thumbs()));
        self.photos = Some(photos);
        self.hub.replace_scene(self.scene.clone());
        self.update_poses(run);
    }
}

impl Watcher for LiveRenderer {
    fn started(&mut self, run: &mut Run) {
        self.publish_scene(run);
    }

    fn event(&mut self, event: &Event) {
        self.hub.send_event(event);
    }

    fn after_part(&mut self, run: &mut Run) {
        if !self.hub.has_work() {
            return;
        }
        self.forward_commands(run);
        if Instant::now() < self.next_frame_at {
            return;
        }
        let started = Instant::now();
        // One action at a time, so that no pause is longer than the longest of them.
        if self.start_snapshot(run, run.step()) {
            self.next_frame_at = Instant::now() + started.elapsed().mul_f64(1.0 / self.time_fraction - 1.0);
            return;
        }
        let Some(job) = self.hub.take_job(run.step()) else { return };
        if self.poses_updated.0.elapsed() >= POSE_INTERVAL && self.poses_updated.1 != run.step() {
            self.update_poses(run);
        }
        self.draw(run, job);
        let cost = started.elapsed();
        self.next_frame_at = Instant::now() + cost.mul_f64(1.0 / self.time_fraction - 1.0);
    }

    fn paused(&mut self, run: &mut Run) {
        self.forward_commands(run);
        self.start_snapshot(run, run.step());
        match self.hub.take_job(run.step()) {
            Some(job) => self.draw(run, job),
            None => self.hub.wait(run.step(), STOP_CHECK_INTERVAL),
        }
    }

    fn ended(&mut self, run: &mut Run) {
        self.scene.live = false;
        self.update_poses(run);
        // The finished scene has a fixed number of splats, and a sky if the run has trained one.
        let [splats, sky] = run.scene_and_sky().unwrap_or([self.hub.splats() as usize, 0]);
        (self.scene.splats, self.scene.sky) = (splats + sky, sky);
        self.hub.replace_scene(self.scene.clone());
        while self.stays_open && !self.stop.load(Ordering::Relaxed) {
            // Commands have no effect after the end.
            while self.hub.take_command().is_some() {}
            self.start_snapshot(run, u64::MAX);
            match self.hub.take_job(u64::MAX) {
                Some(job) => self.draw(run, job),
                None => self.hub.wait(u64::MAX, STOP_CHECK_INTERVAL),
            }
        }
    }
}
