//! Events of a run, queued until they are taken.

use std::collections::VecDeque;

use crate::events::Event;

/// Maximum number of queued events; the oldest are dropped.
const MAX_EVENTS: usize = 1024;

/// A queue of events.
#[derive(Debug, Default)]
pub(super) struct EventQueue(VecDeque<Event>);

impl EventQueue {
    /// Appends an event.
    pub(super) fn push(&mut self, event: Event) {
        if self.0.len() == MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// Appends an event, if there is one.
    pub(super) fn extend(&mut self, event: Option<Event>) {
        if let Some(event) = event {
            self.push(event);
        }
    }

    /// Removes and returns all events.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }
}
