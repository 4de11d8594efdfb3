//! A program with everything that it started, and the list of all that are running.
//!
//! The list holds leaders that are not reaped yet. A number is taken from it before the leader is reaped, and signals
//! are sent while the list is locked, so no signal ever goes to a process that got the number later.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::system;

/// How long [`end_all`] waits for the list: a thread that panicked may hold it for ever.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is running.
#[derive(Debug)]
struct Running {
    /// Leaders of groups.
    leaders: BTreeSet<u32>,
    /// Whether nothing more may be started: this process is about to end.
    is_closed: bool,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { leaders: BTreeSet::new(), is_closed: false });

/// Stops everything that was started, until [`go_on`]: for a person who pauses the program.
pub fn pause() {
    lock(&RUNNING).leaders.iter().copied().for_each(system::pause);
}

/// Lets everything go on that [`pause`] has stopped.
pub fn go_on() {
    lock(&RUNNING).leaders.iter().copied().for_each(system::go_on);
}

/// Kills everything that was started, at once, and lets nothing more be started: for a process that is about to end
/// without returning to those who wait for these programs.
pub fn end_all() {
    let Some(mut running) = lock_within(&RUNNING, PATIENCE) else { return };
    running.is_closed = true;
    running.leaders.iter().copied().for_each(system::kill);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_within<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    let started = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if started.elapsed() > patience => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// With this status.
    Status(ExitStatus),
    /// It ended, but the system does not report how.
    Unknown,
}

/// A program with everything that it started. Dropped, it is killed.
pub(crate) struct Group {
    child: Child,
    end: Option<End>,
}

/// Starts a program in a group of its own that nothing here ends; `None` if nothing may be started any more.
pub(crate) fn launch(command: &mut Command) -> io::Result<Option<Child>> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let is_closed = lock(&RUNNING).is_closed;
    if is_closed { Ok(None) } else { command.spawn().map(Some) }
}

impl Group {
    /// Starts a program as the leader of a group; `None` if nothing may be started any more.
    pub(crate) fn start(command: &mut Command) -> io::Result<Option<Self>> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        // The list is locked until the program stands in it: [`end_all`] misses none.
        let mut running = lock(&RUNNING);
        if running.is_closed {
            return Ok(None);
        }
        let child = command.spawn()?;
        running.leaders.insert(child.id());
        Ok(Some(Self { child, end: None }))
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How it ended, if it has; what it left running in its group ends then, too.
    pub(crate) fn try_wait(&mut self) -> Option<End> {
        if self.end.is_none() && system::has_ended(&mut self.child) {
            self.end();
        }
        self.end
    }

    /// Kills the whole group, unless it is over.
    pub(crate) fn end(&mut self) {
        if self.end.is_some() {
            return;
        }
        // The leader is not reaped yet, so its number is still its own.
        system::kill(self.child.id());
        lock(&RUNNING).leaders.remove(&self.child.id());
        let _ = self.child.kill();
        self.end = Some(self.child.wait().map_or(End::Unknown, End::Status));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
