//! What differs between operating systems: signals to a group, and whether its leader has exited.
//!
//! On Unix a program leads a process group, and its process id is not reused until the leader is reaped: all functions
//! here must be called before that. Elsewhere the system's own tool kills a process with all that it started.

#[cfg(unix)]
pub(crate) use unix::{has_ended, kill, pause, resume};

#[cfg(not(unix))]
pub(crate) use non_unix::{has_ended, kill, pause, resume};

#[cfg(unix)]
mod unix {
    use std::process::Child;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    fn signal(leader: u32, signal: Signal) {
        if let Some(group) = pid(leader) {
            // Some systems refuse a signal to a group whose only member is the unreaped leader. That is not an error.
            let _ = kill_process_group(group, signal);
        }
    }

    fn pid(leader: u32) -> Option<Pid> {
        i32::try_from(leader).ok().and_then(Pid::from_raw)
    }

    pub(crate) fn pause(leader: u32) {
        signal(leader, Signal::STOP);
    }

    pub(crate) fn resume(leader: u32) {
        signal(leader, Signal::CONT);
    }

    pub(crate) fn kill(leader: u32) {
        signal(leader, Signal::KILL);
    }

    /// Checks without reaping, so that the id of the group cannot be reused yet.
    pub(crate) fn has_ended(child: &mut Child) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match pid(child.id()).map(|pid| waitid(WaitId::Pid(pid), options)) {
            Some(Ok(status)) => status.is_some(),
            Some(Err(rustix::io::Errno::INTR)) => false,
            // There is no child to wait for: this process inherited an ignored SIGCHLD from its parent.
            Some(Err(_)) | None => true,
        }
    }
}

#[cfg(not(unix))]
mod non_unix {
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    /// Programs cannot be suspended here.
    pub(crate) fn pause(_leader: u32) {}

    /// Does nothing, as [`pause`].
    pub(crate) fn resume(_leader: u32) {}

    /// Kills a process with everything that it started. Its id is not reused while the handle of the child is open.
    pub(crate) fn kill(leader: u32) {
        let Some(system) = std::env::var_os("SystemRoot").filter(|root| Path::new(root).is_absolute()) else {
            return;
        };
        #[expect(clippy::disallowed_methods, reason = "the system's own program, by its absolute path")]
        let mut command = Command::new(Path::new(&system).join("System32").join("taskkill.exe"));
        command.args(["/F", "/T", "/PID"]).arg(leader.to_string());
        // It may have exited already.
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    pub(crate) fn has_ended(child: &mut Child) -> bool {
        child.try_wait().map_or(true, |status| status.is_some())
    }
}
