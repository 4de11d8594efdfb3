//! Observes a training while it runs; implemented by the viewer.

use gausset_train::{Event, Run};

/// Called between two parts of a training, on its thread, which waits for the call to return. A watcher cannot change
/// the steps: it renders on the device ([`Run::with_device`]) and sends requests ([`Run::requests`]).
pub trait Watcher {
    /// The run is about to start its first part.
    fn started(&mut self, run: &mut Run);
    /// An event, before or during the run.
    fn event(&mut self, event: &Event);
    /// A part is complete.
    fn after_part(&mut self, run: &mut Run);
    /// The run is paused. Renders, or sleeps briefly.
    fn paused(&mut self, run: &mut Run);
    /// The run has ended and its result is written. The run is dropped when this returns.
    fn ended(&mut self, run: &mut Run);
}
