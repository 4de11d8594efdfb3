//! What a run has to tell, until somebody takes it.

use std::collections::VecDeque;

use crate::events::Event;

/// Most events that are kept: nobody looks if there are more, and the oldest go.
const MOST: usize = 1024;

/// Events in their order.
#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<Event>);

impl Outbox {
    /// Puts an event behind the others.
    pub(super) fn push(&mut self, event: Event) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// Puts an event behind the others, if there is one.
    pub(super) fn extend(&mut self, event: Option<Event>) {
        if let Some(event) = event {
            self.push(event);
        }
    }

    /// Hands over what there is.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }
}
