//! Process groups, and the list of those that are running.
//!
//! The list holds group leaders that have not been reaped. A process id is removed from it before the leader is reaped,
//! and signals are sent while the list is locked, so no signal reaches a process that reuses the id.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::system;

/// How long [`kill_all`] waits for the lock: a thread that panicked may hold it for ever.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// The running process groups.
#[derive(Debug)]
struct RunningGroups {
    /// Process ids of the group leaders.
    leaders: BTreeSet<u32>,
    /// Whether no more programs may be started because this process is about to exit.
    is_closed: bool,
}

static RUNNING: Mutex<RunningGroups> =
    Mutex::new(RunningGroups { leaders: BTreeSet::new(), is_closed: false });

/// Suspends all running programs until [`resume`]: for a user who pauses Gausset.
pub fn pause() {
    lock(&RUNNING).leaders.iter().copied().for_each(system::pause);
}

/// Resumes all programs that [`pause`] suspended.
pub fn resume() {
    lock(&RUNNING).leaders.iter().copied().for_each(system::resume);
}

/// Kills all running programs immediately and prevents new ones: for a process that is about to exit without returning
/// to the callers that wait for these programs.
pub fn kill_all() {
    let Some(mut running) = lock_with_timeout(&RUNNING, LOCK_TIMEOUT) else { return };
    running.is_closed = true;
    running.leaders.iter().copied().for_each(system::kill);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_with_timeout<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
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
pub(crate) enum ExitReason {
    /// With this exit status.
    Status(ExitStatus),
    /// The system did not report an exit status.
    Unknown,
}

/// A program and all processes that it started. It is killed on drop.
pub(crate) struct Group {
    child: Child,
    end: Option<ExitReason>,
}

/// Starts a program in its own process group, which this module never kills. `None` after [`kill_all`].
pub(crate) fn launch(command: &mut Command) -> io::Result<Option<Child>> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let is_closed = lock(&RUNNING).is_closed;
    if is_closed { Ok(None) } else { command.spawn().map(Some) }
}

impl Group {
    /// Starts a program as the leader of a process group. `None` after [`kill_all`].
    pub(crate) fn start(command: &mut Command) -> io::Result<Option<Self>> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        // The list stays locked until the program is in it, so that [`kill_all`] misses none.
        let mut running = lock(&RUNNING);
        if running.is_closed {
            return Ok(None);
        }
        let child = command.spawn()?;
        running.leaders.insert(child.id());
        Ok(Some(Self { child, end: None }))
    }

    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How the program ended, or `None` if it is running. Processes left in its group are killed when it ends.
    pub(crate) fn try_wait(&mut self) -> Option<ExitReason> {
        if self.end.is_none() && system::has_ended(&mut self.child) {
            self.kill();
        }
        self.end
    }

    /// Kills the whole group, unless it has ended.
    pub(crate) fn kill(&mut self) {
        if self.end.is_some() {
            return;
        }
        // The leader is not reaped yet, so its process id cannot have been reused.
        system::kill(self.child.id());
        lock(&RUNNING).leaders.remove(&self.child.id());
        let _ = self.child.kill();
        self.end = Some(self.child.wait().map_or(ExitReason::Unknown, ExitReason::Status));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
