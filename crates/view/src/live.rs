//! Renders a running training for the viewer, on the training thread between two steps. A request of a page cannot
//! influence a step, and a page that is not visible costs one atomic load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gausset_core::sh::MAX_DEGREE;
use gausset_core::splats_transform::Similarity;
use gausset_flow::Watcher;
use gausset_train::{Event, Request, Run};

use crate::draw::{Look, answer};
use crate::hub::Hub;
use crate::job::Job;
use crate::protocol::Command;
use crate::scene::{Photos, Scene};
use crate::snapshot;

/// Sleep of a paused or finished training between checks of the stop flag.
const NAP: Duration = Duration::from_millis(50);

/// Interval at which the cameras of a training that refines poses are updated.
const POSES_EVERY: Duration = Duration::from_secs(5);

/// Renders a training for the pages of a [`Hub`].
pub struct LiveView {
    hub: Arc<Hub>,
    /// Largest fraction of the time that rendering may take from training.
    share: f64,
    /// Whether the result stays viewable after the end, until the program is stopped.
    lingers: bool,
    stop: Arc<AtomicBool>,
    /// Earliest time of the next frame.
    next: Instant,
    photos: Option<Photos>,
    scene: Scene,
    /// When the poses of the photographs were last updated, and after how many steps.
    posed: (Instant, u64),
}

impl LiveView {
    /// Creates a renderer for the pages of `hub` that uses at most this fraction of the time.
    #[must_use]
    pub fn new(hub: Arc<Hub>, share: f64, lingers: bool, stop: Arc<AtomicBool>) -> Self {
        let share = share.clamp(0.001, 1.0);
        Self {
            hub,
            share,
            lingers,
            stop,
            next: Instant::now(),
            photos: None,
            scene: Scene::default(),
            posed: (Instant::now(), 0),
        }
    }

    fn draw(&self, run: &mut Run, job: Job) {
        let device_from_saved = Similarity::from_rotation(*run.splats_from_dataset()).inverse();
        let step = run.step();
        run.look(|engine, options| {
            let look = Look {
                photos: self.photos.as_ref(),
                device_from_saved,
                options: *options,
                scene_splats: None,
                step,
            };
            answer(&self.hub, job, engine, &look);
        });
    }

    /// Has the splats packed for browsers, if it is time.
    fn give_snapshot(&self, run: &mut Run, state: u64) -> bool {
        let saved_from_device = Similarity::from_rotation(*run.splats_from_dataset());
        run.look(|engine, options| {
            snapshot::give(&self.hub, state, engine, saved_from_device, options.antialiased)
        })
    }

    /// Updates the poses that the run has refined, so that photographs are shown at these.
    fn take_up_poses(&mut self, run: &mut Run) {
        self.posed = (Instant::now(), run.step());
        let turn = *run.splats_from_dataset();
        let Some(poses) = run.refined_poses() else { return };
        if let Some(photos) = &mut self.photos {
            photos.move_to(&mut self.scene, &poses, &turn);
            self.hub.replace_scene(self.scene.clone());
        }
    }

    fn pass_commands_on(&self, run: &Run) {
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
    fn show(&mut self, run: &mut Run) {
        let name = run.folder().file_name().map_or_else(String::new, |name| name.display().to_string());
        let (scene, photos) = Scene::of_dataset(name, Arc::clone(run.loader()), run.splats_from_dataset());
        let options = run.look(|_, options| *options);
        // The number of splats is reported by events, and the SH degree grows during training.
        self.scene = Scene { live: true, sh_degree: MAX_DEGREE, ..scene.rendered(&options, 0) };
        self.hub.limit_memory(run.viewer_bytes());
        self.hub.set_thumbs(Some(photos.thumbs()));
        self.photos = Some(photos);
        self.hub.replace_scene(self.scene.clone());
        self.take_up_poses(run);
    }
}

impl Watcher for LiveView {
    fn begin(&mut self, run: &mut Run) {
        self.show(run);
    }

    fn hear(&mut self, event: &Event) {
        self.hub.send_event(event);
    }

    fn between(&mut self, run: &mut Run) {
        if !self.hub.is_wanted() {
            return;
        }
        self.pass_commands_on(run);
        if Instant::now() < self.next {
            return;
        }
        let started = Instant::now();
        // One action at a time, so that no pause is longer than the longest of them.
        if self.give_snapshot(run, run.step()) {
            self.next = Instant::now() + started.elapsed().mul_f64(1.0 / self.share - 1.0);
            return;
        }
        let Some(job) = self.hub.take(run.step()) else { return };
        if self.posed.0.elapsed() >= POSES_EVERY && self.posed.1 != run.step() {
            self.take_up_poses(run);
        }
        self.draw(run, job);
        let cost = started.elapsed();
        self.next = Instant::now() + cost.mul_f64(1.0 / self.share - 1.0);
    }

    fn wait(&mut self, run: &mut Run) {
        self.pass_commands_on(run);
        self.give_snapshot(run, run.step());
        match self.hub.take(run.step()) {
            Some(job) => self.draw(run, job),
            None => self.hub.wait(run.step(), NAP),
        }
    }

    fn after(&mut self, run: &mut Run) {
        self.scene.live = false;
        self.take_up_poses(run);
        // The finished scene has a fixed number of splats, and a sky if the run has trained one.
        self.scene.splats = self.hub.splats() as usize;
        self.hub.replace_scene(self.scene.clone());
        while self.lingers && !self.stop.load(Ordering::Relaxed) {
            // Commands have no effect after the end.
            while self.hub.take_command().is_some() {}
            self.give_snapshot(run, u64::MAX);
            match self.hub.take(u64::MAX) {
                Some(job) => self.draw(run, job),
                None => self.hub.wait(u64::MAX, NAP),
            }
        }
    }
}
