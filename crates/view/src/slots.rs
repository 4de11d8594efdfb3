//! Connection slots. When all are taken, the oldest connection that has not presented the token is closed, so that
//! clients without the token cannot lock out the owner.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// All connection slots of a server.
pub(crate) struct ConnectionSlots {
    free: Arc<Semaphore>,
    guests: Arc<Unauthenticated>,
    next: u64,
}

/// Connections that have not presented the token, the oldest first.
#[derive(Default)]
struct Unauthenticated(Mutex<VecDeque<(u64, AbortHandle)>>);

impl Unauthenticated {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, AbortHandle)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, number: u64) {
        self.lock().retain(|guest| guest.0 != number);
    }
}

/// The slot of one connection; freed when dropped.
pub(crate) struct Slot {
    number: u64,
    guests: Arc<Unauthenticated>,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// The connection has presented the token: it is no longer closed to make room.
    pub(crate) fn authenticate(&self) {
        self.guests.remove(self.number);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.guests.remove(self.number);
    }
}

impl ConnectionSlots {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), guests: Arc::default(), next: 0 }
    }

    /// Acquires a permit, if necessary by closing the oldest guest; `None` if every connection has presented the token.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        let (_, oldest) = self.guests.lock().pop_front()?;
        oldest.abort();
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// Spawns the task of a connection, which is a guest until it calls [`Slot::keep`].
    pub(crate) fn spawn<F>(&mut self, permit: OwnedSemaphorePermit, serve: impl FnOnce(Slot) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (number, guests) = (self.next, Arc::clone(&self.guests));
        self.next += 1;
        let task = serve(Slot { number, guests, _permit: permit });
        // Added to the list before the task can end.
        let mut guests = self.guests.lock();
        guests.push_back((number, tokio::spawn(task).abort_handle()));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn the_oldest_guest_gives_way_and_who_has_shown_the_token_does_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut places = ConnectionSlots::new(3);
            // Each connection waits forever; its channel shows when it ends.
            let connect = async |places: &mut ConnectionSlots, is_known: bool| {
                let permit = places.permit().await?;
                let (alive, ended) = mpsc::channel::<()>(1);
                places.spawn(permit, |place| async move {
                    if is_known {
                        place.authenticate();
                    }
                    std::future::pending::<()>().await;
                    drop((place, alive));
                });
                tokio::task::yield_now().await;
                Some(ended)
            };
            let mut owner = connect(&mut places, true).await.unwrap();
            let mut first = connect(&mut places, false).await.unwrap();
            let mut second = connect(&mut places, false).await.unwrap();
            let _third = connect(&mut places, true).await.unwrap();
            assert_eq!(first.recv().await, None);
            let _fourth = connect(&mut places, true).await.unwrap();
            assert_eq!(second.recv().await, None);
            assert!(connect(&mut places, true).await.is_none(), "all three have shown the token");
            assert!(owner.try_recv() == Err(mpsc::error::TryRecvError::Empty));
            assert!(places.guests.lock().is_empty());
        });
    }
}
