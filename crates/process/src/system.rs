//! What the systems do differently: signals to a group, and whether its leader has ended.
//!
//! On Unix a program leads a process group, and its number stays taken until the leader is reaped: everything here is
//! called before that. Elsewhere the system's own program for ending a process with all that it started is asked.

#[cfg(unix)]
pub(crate) use unix::{go_on, has_ended, kill, pause};

#[cfg(not(unix))]
pub(crate) use other::{go_on, has_ended, kill, pause};

#[cfg(unix)]
mod unix {
    use std::process::Child;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    fn signal(leader: u32, signal: Signal) {
        if let Some(group) = pid(leader) {
            // A group of which only the leader is left, unreaped, cannot be signalled on all systems: no error.
            let _ = kill_process_group(group, signal);
        }
    }

    fn pid(leader: u32) -> Option<Pid> {
        i32::try_from(leader).ok().and_then(Pid::from_raw)
    }

    pub(crate) fn pause(leader: u32) {
        signal(leader, Signal::STOP);
    }

    pub(crate) fn go_on(leader: u32) {
        signal(leader, Signal::CONT);
    }

    pub(crate) fn kill(leader: u32) {
        signal(leader, Signal::KILL);
    }

    /// Looks without reaping, so that the number of the group is still taken afterwards.
    pub(crate) fn has_ended(child: &mut Child) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match pid(child.id()).map(|pid| waitid(WaitId::Pid(pid), options)) {
            Some(Ok(status)) => status.is_some(),
            Some(Err(rustix::io::Errno::INTR)) => false,
            // Nobody to wait for: a parent that ignores SIGCHLD has bequeathed that to this process.
            Some(Err(_)) | None => true,
        }
    }
}

#[cfg(not(unix))]
mod other {
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    /// There is no way to pause a program.
    pub(crate) fn pause(_leader: u32) {}

    /// As [`pause`].
    pub(crate) fn go_on(_leader: u32) {}

    /// Ends a process with everything that it started. Its number stays taken while the handle of the child is open.
    pub(crate) fn kill(leader: u32) {
        let Some(system) = std::env::var_os("SystemRoot").filter(|root| Path::new(root).is_absolute()) else {
            return;
        };
        #[expect(clippy::disallowed_methods, reason = "the system's own program, by its absolute path")]
        let mut command = Command::new(Path::new(&system).join("System32").join("taskkill.exe"));
        command.args(["/F", "/T", "/PID"]).arg(leader.to_string());
        // It may have ended already.
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    pub(crate) fn has_ended(child: &mut Child) -> bool {
        child.try_wait().map_or(true, |status| status.is_some())
    }
}
