//! Somebody who looks at a training while it goes on: a viewer.

use gausset_train::{Event, Run};

/// Looks at a training between two of its parts, on its own thread. Nothing that it does has an influence on the steps: it
/// renders on the device ([`Run::look`]) and leaves requests ([`Run::requests`]). The training waits for it meanwhile.
pub trait Watcher {
    /// The run is about to do its first part.
    fn begin(&mut self, run: &mut Run);
    /// Something happened, before or while the run goes on.
    fn hear(&mut self, event: &Event);
    /// A part is done.
    fn between(&mut self, run: &mut Run);
    /// The run is paused: looks, or sleeps for a moment.
    fn wait(&mut self, run: &mut Run);
    /// The run has ended and its result is written. It goes when this returns.
    fn after(&mut self, run: &mut Run);
}
